#include "ops/local_heads.h"

#include <string.h>

#include "base/limits.h"

#define RESHAPE_INPUT_SINCE 5 /* before, the shape is an attribute */

uint8_t sp_local_named(const struct sp_local *local, const char *name)
{
    for (uint32_t i = 0; i < local->factor_count; i++)
        if (strcmp(local->rule->factors[i].name, name) == 0)
            return (uint8_t)i;
    return SP_RULE_NO_FACTOR;
}

int64_t sp_local_named_size(const struct sp_local *local, const char *name)
{
    const uint8_t factor = sp_local_named(local, name);
    return factor == SP_RULE_NO_FACTOR ? 1 : local->factors[factor].size;
}

void sp_local_change_heads(const struct sp_local *local, struct sp_local_changes *changes, const char *attribute,
                           const char *outer, const char *inner)
{
    const int64_t major = sp_local_named_size(local, outer),
                  minor = inner == NULL ? 1 : sp_local_named_size(local, inner);
    if (sp_node_int(local->node, attribute, 0) == 0 || major < 0 || minor < 0)
        return;
    changes->items[changes->count++] = SP_INT_ATTR(attribute, major * minor);
}

struct sp_piece **sp_local_inputs(struct sp_local *local)
{
    struct sp_piece **inputs = SP_NEW_ARRAY(local->arena, local->input_count, struct sp_piece *);
    if (inputs == NULL) {
        sp_local_failed(local, sp_fail_memory(local->err));
        return NULL;
    }
    for (uint32_t i = 0; i < local->input_count; i++)
        inputs[i] = sp_local_input(local, i);
    return sp_local_status(local) == SP_OK ? inputs : NULL;
}

enum sp_status sp_local_changed_on(struct sp_local *local, uint32_t input_count, struct sp_piece *const *inputs,
                                   const struct sp_local_changes *changes)
{
    struct sp_piece **outputs = SP_NEW_ARRAY(local->arena, local->output_count, struct sp_piece *);
    if (outputs == NULL) {
        sp_local_failed(local, sp_fail_memory(local->err));
        return sp_local_status(local);
    }
    if (inputs == NULL)
        return sp_local_status(local);
    sp_local_same_many(local, input_count, inputs, changes->count, changes->items, outputs);
    for (uint32_t i = 0; i < local->output_count && sp_local_status(local) == SP_OK; i++) {
        uint32_t count = 0;
        const uint8_t *factors = sp_local_partial_factors(local, i, &count);
        if (local->outputs[i].value != NULL)
            sp_local_output_partial(local, i, outputs[i], SP_COMBINE_SUM, count, factors);
    }
    return sp_local_status(local);
}

enum sp_status sp_local_changed(struct sp_local *local, const struct sp_local_changes *changes)
{
    return sp_local_changed_on(local, local->input_count, sp_local_inputs(local), changes);
}

/* The indices of each range counted, one after the other: for more than a constant may have. */
static struct sp_piece *count_ranges(struct sp_local *local, const struct sp_axis_ranges *ranges)
{
    struct sp_piece **parts = SP_NEW_ARRAY(local->arena, ranges->count, struct sp_piece *);
    if (parts == NULL) {
        sp_local_failed(local, sp_fail_memory(local->err));
        return NULL;
    }
    for (uint32_t i = 0; i < ranges->count; i++)
        parts[i] = sp_local_iota(local, ranges->ranges[i].start, ranges->ranges[i].limit);
    return sp_local_concat(local, 0, ranges->count, parts);
}

struct sp_piece *sp_local_positions(struct sp_local *local, uint8_t factor)
{
    const struct sp_local_factor *cut = &local->factors[factor];
    if (cut->is_contiguous)
        return sp_local_iota(local, cut->start, cut->start + cut->size);
    if ((uint64_t)cut->size > SP_MAX_LOCAL_CONSTANT / sizeof(int64_t))
        return count_ranges(local, &cut->ranges);
    int64_t *positions = SP_NEW_ARRAY(local->arena, (size_t)cut->size, int64_t);
    uint32_t count = 0;
    if (positions == NULL) {
        sp_local_failed(local, sp_fail_memory(local->err));
        return NULL;
    }
    for (uint32_t i = 0; i < cut->ranges.count; i++)
        for (int64_t at = cut->ranges.ranges[i].start; at < cut->ranges.ranges[i].limit && count < cut->size; at++)
            positions[count++] = at;
    return sp_local_ints(local, count, positions);
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

struct sp_piece *sp_local_reshape_as(struct sp_local *local, struct sp_piece *x, uint32_t rank, const int64_t *dims)
{
    if (sp_local_status(local) != SP_OK || x == NULL)
        return NULL;
    struct sp_piece *operands[] = {x, NULL}, *y;
    int64_t *extents = SP_NEW_ARRAY(local->arena, rank, int64_t);
    if (extents == NULL) {
        sp_local_failed(local, sp_fail_memory(local->err));
        return NULL;
    }
    if (local->opset < RESHAPE_INPUT_SINCE) {
        const struct sp_local_attribute shape = SP_INTS_ATTR("shape", rank, dims);
        y = sp_local_op(local, "Reshape", x->dtype, 1, operands, 1, &shape);
    } else {
        operands[1] = sp_local_ints(local, rank, dims);
        y = sp_local_op(local, "Reshape", x->dtype, 2, operands, 0, NULL);
    }
    reshaped(x, rank, dims, extents);
    sp_piece_set_dims(local, y, rank, extents);
    return y;
}

static const int64_t lengths_and_heads[] = {0, 2, 1, 3};

struct sp_piece *sp_local_heads_apart(struct sp_local *local, struct sp_piece *x, uint32_t rank, int64_t heads)
{
    const int64_t apart[] = {0, 0, heads, -1};
    if (rank != 3)
        return x;
    return sp_local_transpose(local, sp_local_reshape_as(local, x, 4, apart), 4, lengths_and_heads);
}

struct sp_piece *sp_local_heads_packed(struct sp_local *local, struct sp_piece *x, uint32_t rank)
{
    static const int64_t packed[] = {0, 0, -1};
    if (rank != 3)
        return x;
    return sp_local_reshape_as(local, sp_local_transpose(local, x, 4, lengths_and_heads), 3, packed);
}
