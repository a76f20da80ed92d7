#include "ops/families/neural/heads.h"

enum sp_status sp_check_same(struct sp_op_context *context, const char *what, struct sp_dim a, struct sp_dim b)
{
    if (sp_dim_is_known(a) && sp_dim_is_known(b) && a.value != b.value)
        return sp_op_fail(context, "SHAPES_DISAGREE", "its operands have %s of %lld and of %lld", what,
                          (long long)a.value, (long long)b.value);
    return SP_OK;
}

enum sp_status sp_heads_read(struct sp_op_context *context, uint32_t input, int64_t count, struct sp_heads *ret_heads)
{
    const struct sp_shape *shape = sp_in_shape(context, input);
    struct sp_heads heads = {
        .batch = sp_dim_unknown(), .length = sp_dim_unknown(), .count = sp_dim_unknown(), .size = sp_dim_unknown()};
    if (count < 0)
        return sp_op_fail(context, "ATTRIBUTE_VALUE", "it has %lld heads", (long long)count);
    if (shape == NULL) {
        *ret_heads = heads;
        return SP_OK;
    }
    if (shape->rank != 3 && shape->rank != 4)
        return sp_op_fail(context, "OPERAND_SHAPE", "its input %u has rank %u instead of 3 or 4", input, shape->rank);
    heads.has_rank = true;
    heads.is_packed = shape->rank == 3;
    heads.batch = shape->dims[0];
    heads.length = shape->dims[heads.is_packed ? 1 : 2];
    if (heads.is_packed) {
        struct sp_dim hidden = shape->dims[2];
        if (count == 0)
            return sp_op_fail(context, "ATTRIBUTE_VALUE",
                              "its input %u has rank 3, and no attribute says how many heads are packed in it", input);
        if (sp_dim_is_known(hidden) && hidden.value % count != 0)
            return sp_op_fail(context, "OPERAND_SHAPE", "its input %u has %lld elements for %lld heads", input,
                              (long long)hidden.value, (long long)count);
        heads.count = sp_dim_known(count);
        heads.size = sp_dim_exact_div(context->dims, hidden, heads.count);
    } else {
        heads.count = shape->dims[1];
        heads.size = shape->dims[3];
        if (count != 0) {
            enum sp_status status = sp_check_same(context, "head counts", heads.count, sp_dim_known(count));
            if (status != SP_OK)
                return status;
            heads.count = sp_dim_known(count);
        }
    }
    *ret_heads = heads;
    return SP_OK;
}

enum sp_status sp_heads_set_output(struct sp_op_context *context, uint32_t output, enum sp_dtype dtype,
                                   const struct sp_heads *heads)
{
    if (!heads->has_rank)
        return sp_set_output_unranked(context, output, dtype);
    if (heads->is_packed) {
        struct sp_dim hidden = sp_dim_mul(context->dims, heads->count, heads->size);
        const struct sp_dim dims[] = {heads->batch, heads->length, hidden};
        return sp_set_output(context, output, dtype, 3, dims);
    }
    const struct sp_dim dims[] = {heads->batch, heads->count, heads->length, heads->size};
    return sp_set_output(context, output, dtype, 4, dims);
}

/* ---- mapping -------------------------------------------------------------------------------------------------- */

const struct sp_shape *sp_place_shape(const struct sp_op_context *context, struct sp_place place)
{
    if (!place.is_output)
        return sp_in_shape(context, place.index);
    if (place.index >= context->node->output_count || context->node->outputs[place.index] == NULL)
        return NULL;
    const struct sp_type *type = &context->node->outputs[place.index]->type;
    return type->kind == SP_TYPE_TENSOR && type->shape.has_rank ? &type->shape : NULL;
}

void sp_map(struct sp_rule *rule, struct sp_place place, uint32_t axis, uint8_t factor)
{
    if (place.is_output)
        sp_rule_map_output(rule, place.index, axis, factor);
    else
        sp_rule_map_input(rule, place.index, axis, factor);
}

void sp_map_chain(struct sp_rule *rule, struct sp_place place, uint32_t axis, const struct sp_chain *chain)
{
    for (uint32_t i = 0; i < chain->count; i++)
        sp_map(rule, place, axis, chain->items[i]);
}

void sp_map_heads(const struct sp_op_context *context, struct sp_rule *rule, struct sp_place place,
                  const struct sp_head_axes *axes)
{
    const struct sp_shape *shape = sp_place_shape(context, place);
    if (shape == NULL)
        return;
    bool is_packed = shape->rank == 3;
    sp_map(rule, place, 0, axes->batch);
    sp_map(rule, place, is_packed ? 1 : 2, axes->length);
    sp_map_chain(rule, place, is_packed ? 2 : 1, &axes->heads);
    sp_map_chain(rule, place, is_packed ? 2 : 3, &axes->size);
}

void sp_map_scores(const struct sp_op_context *context, struct sp_rule *rule, struct sp_place place,
                   const struct sp_score_axes *axes)
{
    const struct sp_shape *shape = sp_place_shape(context, place);
    if (shape == NULL || shape->rank > 4)
        return;
    for (uint32_t axis = 0; axis < shape->rank; axis++) {
        uint32_t full = 4 - shape->rank + axis;
        struct sp_dim extent = shape->dims[axis];
        if (sp_dim_is(extent, 1))
            continue; /* broadcast, or nothing to split */
        if (full == 3 && sp_dim_is_known(extent) && sp_dim_is_known(axes->keys_extent) &&
            extent.value < axes->keys_extent.value)
            continue;
        if (full == 1)
            sp_map_chain(rule, place, axis, &axes->heads);
        else
            sp_map(rule, place, axis, full == 0 ? axes->batch : full == 2 ? axes->queries : axes->keys);
    }
}
