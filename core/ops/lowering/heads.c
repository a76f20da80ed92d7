#include "ops/lowering/heads.h"

#include <string.h>

#include "base/limits.h"

#define RESHAPE_INPUT_SINCE 5 /* before, the shape is an attribute */

uint8_t sp_lower_named(const struct sp_lowering *lower, const char *name)
{
    for (uint32_t i = 0; i < lower->factor_count; i++)
        if (strcmp(lower->rule->factors[i].name, name) == 0)
            return (uint8_t)i;
    return SP_RULE_NO_FACTOR;
}

int64_t sp_lower_named_size(const struct sp_lowering *lower, const char *name)
{
    const uint8_t factor = sp_lower_named(lower, name);
    return factor == SP_RULE_NO_FACTOR ? 1 : lower->factors[factor].size;
}

void sp_lower_change_heads(const struct sp_lowering *lower, struct sp_lower_changes *changes, const char *attribute,
                           const char *outer, const char *inner)
{
    const int64_t major = sp_lower_named_size(lower, outer),
                  minor = inner == NULL ? 1 : sp_lower_named_size(lower, inner);
    if (sp_node_int(lower->node, attribute, 0) == 0 || major < 0 || minor < 0)
        return;
    changes->items[changes->count++] = SP_INT_ATTR(attribute, major * minor);
}

struct sp_piece **sp_lower_inputs(struct sp_lowering *lower)
{
    struct sp_piece **inputs = SP_NEW_ARRAY(lower->arena, lower->input_count, struct sp_piece *);
    if (inputs == NULL) {
        sp_lower_failed(lower, sp_fail_memory(lower->err));
        return NULL;
    }
    for (uint32_t i = 0; i < lower->input_count; i++)
        inputs[i] = sp_lower_input(lower, i);
    return sp_lower_status(lower) == SP_OK ? inputs : NULL;
}

enum sp_status sp_lower_changed_on(struct sp_lowering *lower, uint32_t input_count, struct sp_piece *const *inputs,
                                   const struct sp_lower_changes *changes)
{
    struct sp_piece **outputs = SP_NEW_ARRAY(lower->arena, lower->output_count, struct sp_piece *);
    if (outputs == NULL) {
        sp_lower_failed(lower, sp_fail_memory(lower->err));
        return sp_lower_status(lower);
    }
    if (inputs == NULL)
        return sp_lower_status(lower);
    sp_lower_same_many(lower, input_count, inputs, changes->count, changes->items, outputs);
    for (uint32_t i = 0; i < lower->output_count && sp_lower_status(lower) == SP_OK; i++) {
        uint32_t count = 0;
        const uint8_t *factors = sp_lower_partial_factors(lower, i, &count);
        if (lower->outputs[i].value != NULL)
            sp_lower_output_partial(lower, i, outputs[i], SP_COMBINE_SUM, count, factors);
    }
    return sp_lower_status(lower);
}

enum sp_status sp_lower_changed(struct sp_lowering *lower, const struct sp_lower_changes *changes)
{
    return sp_lower_changed_on(lower, lower->input_count, sp_lower_inputs(lower), changes);
}

/* The indices of each range counted, one after the other: for more than a constant may have. */
static struct sp_piece *count_ranges(struct sp_lowering *lower, const struct sp_axis_ranges *ranges)
{
    struct sp_piece **parts = SP_NEW_ARRAY(lower->arena, ranges->count, struct sp_piece *);
    if (parts == NULL) {
        sp_lower_failed(lower, sp_fail_memory(lower->err));
        return NULL;
    }
    for (uint32_t i = 0; i < ranges->count; i++)
        parts[i] = sp_lower_iota(lower, ranges->ranges[i].start, ranges->ranges[i].limit);
    return sp_lower_concat(lower, 0, ranges->count, parts);
}

struct sp_piece *sp_lower_positions(struct sp_lowering *lower, uint8_t factor)
{
    const struct sp_lower_factor *cut = &lower->factors[factor];
    if (cut->is_contiguous)
        return sp_lower_iota(lower, cut->start, cut->start + cut->size);
    if ((uint64_t)cut->size > SP_MAX_LOCAL_CONSTANT / sizeof(int64_t))
        return count_ranges(lower, &cut->ranges);
    int64_t *positions = SP_NEW_ARRAY(lower->arena, (size_t)cut->size, int64_t);
    uint32_t count = 0;
    if (positions == NULL) {
        sp_lower_failed(lower, sp_fail_memory(lower->err));
        return NULL;
    }
    for (uint32_t i = 0; i < cut->ranges.count; i++)
        for (int64_t at = cut->ranges.ranges[i].start; at < cut->ranges.ranges[i].limit && count < cut->size; at++)
            positions[count++] = at;
    return sp_lower_ints(lower, count, positions);
}

/* ---- shapes of heads -------------------------------------------------------------------------------------------- */

/* The extents that come out, -1 where they are not known. */
static void reshaped(const struct sp_piece *x, uint32_t rank, const int64_t *dims, int64_t *ret_dims)
{
    int64_t elements = x->dims == NULL ? -1 : 1, others = 1;
    for (uint32_t i = 0; x->dims != NULL && i < x->rank; i++)
        if (x->dims[i] < 0 || elements < 0 || __builtin_mul_overflow(elements, x->dims[i], &elements))
            elements = -1;
    for (uint32_t i = 0; i < rank; i++) {
        ret_dims[i] = dims[i] != 0 ? dims[i] : x->dims != NULL && i < x->rank ? x->dims[i] : -1;
        if (dims[i] != -1 && (ret_dims[i] < 0 || others < 0 || __builtin_mul_overflow(others, ret_dims[i], &others)))
            others = -1;
    }
    for (uint32_t i = 0; i < rank; i++)
        if (dims[i] == -1)
            ret_dims[i] = elements >= 0 && others > 0 ? elements / others : -1;
}

struct sp_piece *sp_lower_reshape_as(struct sp_lowering *lower, struct sp_piece *x, uint32_t rank, const int64_t *dims)
{
    if (sp_lower_status(lower) != SP_OK || x == NULL)
        return NULL;
    struct sp_piece *operands[] = {x, NULL}, *y;
    int64_t *extents = SP_NEW_ARRAY(lower->arena, rank, int64_t);
    if (extents == NULL) {
        sp_lower_failed(lower, sp_fail_memory(lower->err));
        return NULL;
    }
    if (lower->opset < RESHAPE_INPUT_SINCE) {
        const struct sp_lower_attribute shape = SP_INTS_ATTR("shape", rank, dims);
        y = sp_lower_op(lower, "Reshape", x->dtype, 1, operands, 1, &shape);
    } else {
        operands[1] = sp_lower_ints(lower, rank, dims);
        y = sp_lower_op(lower, "Reshape", x->dtype, 2, operands, 0, NULL);
    }
    reshaped(x, rank, dims, extents);
    sp_piece_set_dims(lower, y, rank, extents);
    return y;
}

static const int64_t lengths_and_heads[] = {0, 2, 1, 3};

struct sp_piece *sp_lower_heads_apart(struct sp_lowering *lower, struct sp_piece *x, uint32_t rank, int64_t heads)
{
    const int64_t apart[] = {0, 0, heads, -1};
    if (rank != 3)
        return x;
    return sp_lower_transpose(lower, sp_lower_reshape_as(lower, x, 4, apart), 4, lengths_and_heads);
}

struct sp_piece *sp_lower_heads_packed(struct sp_lowering *lower, struct sp_piece *x, uint32_t rank)
{
    static const int64_t packed[] = {0, 0, -1};
    if (rank != 3)
        return x;
    return sp_lower_reshape_as(lower, sp_lower_transpose(lower, x, 4, lengths_and_heads), 3, packed);
}
