/*
 * Slice on shards: a part of the result takes every step-th index from a part of the input, which is asked for as it
 * is. What is left of the slice then is its steps, and the axes that are not cut.
 */
#include "ops/families/tensor/slice.h"
#include "base/limits.h"
#include "ops/lowering/functions.h"
#include "ops/lowering/internal.h"
#include "ops/lowering/parts.h"
#include "ops/lowering/places.h"

/* The slice of the piece that was asked for. */
struct remainder {
    uint32_t count;            /* items of starts, ends and axes */
    int64_t axes[SP_MAX_RANK]; /* of the items */
    bool is_set[SP_MAX_RANK], is_needed;
    int64_t starts[SP_MAX_RANK], ends[SP_MAX_RANK], steps[SP_MAX_RANK];
    struct sp_piece *picks[SP_MAX_RANK]; /* by axis: places to gather instead */
};

/* What the ranges of the output take with a step of 1: the same ranges elsewhere. */
static void shift(struct sp_lowering *lower, const struct sp_axis_ranges *to, int64_t first, struct sp_axis_ranges *ret)
{
    struct sp_range *ranges = SP_LOWER_ARRAY(lower, to->count, struct sp_range);
    for (uint32_t i = 0; ranges != NULL && i < to->count; i++)
        ranges[i] = (struct sp_range){to->ranges[i].start + first, to->ranges[i].limit + first};
    *ret = (struct sp_axis_ranges){to->count, ranges};
}

/* Several ranges with steps: a list of places. */
static struct sp_piece *list_places(struct sp_lowering *lower, uint8_t factor, uint32_t axis, int64_t first,
                                    int64_t step, struct sp_axis_ranges *ret)
{
    const struct sp_lower_axis *to = &lower->outputs[0].axes[axis];
    if (!sp_lower_may_list(lower, factor, to->size))
        return NULL;
    int64_t *list = SP_LOWER_ARRAY(lower, (size_t)to->size, int64_t), next = 0;
    int64_t *places = SP_LOWER_ARRAY(lower, (size_t)to->size, int64_t);
    if (list == NULL || places == NULL)
        return NULL;
    for (uint32_t i = 0; i < to->ranges.count; i++) {
        for (int64_t at = to->ranges.ranges[i].start; at < to->ranges.ranges[i].limit; at++)
            list[next++] = first + step * at;
    }
    if (!sp_lower_needed(lower, factor, lower->inputs[0].axes[axis].extent, next, list, ret, places))
        return NULL;
    return sp_lower_ints(lower, (uint32_t)next, places);
}

/* A cut axis that is sliced: what to ask for, and what is left to do. */
static void take_axis(struct sp_lowering *lower, uint32_t axis, const struct sp_slice_range *range,
                      struct sp_axis_ranges *ret_ask, struct remainder *rest)
{
    const struct sp_lower_axis *from = &lower->inputs[0].axes[axis], *to = &lower->outputs[0].axes[axis];
    uint8_t factor = sp_lower_output_factor(lower, 0, axis);
    int64_t first = 0, step = range->step.value;
    rest->is_set[range->item] = true;
    rest->ends[range->item] = INT64_MAX;
    rest->steps[range->item] = 1;
    if (sp_dim_is(range->step, 1) && from->extent == to->extent)
        return; /* all of it, whatever the bounds are */
    if (!sp_slice_is_known(range) || from->extent < 0 || factor == SP_RULE_NO_FACTOR) {
        char subject[300];
        sp_lower_any_whole(lower, "%s slices an axis of unknown extent, so it is computed whole on every device.",
                           sp_op_subject(lower->node, subject, sizeof subject));
        return;
    }
    (void)sp_slice_count(from->extent, range, &first);
    if (step == 1) {
        shift(lower, &to->ranges, first, ret_ask);
    } else if (to->ranges.count > 1) {
        rest->picks[axis] = list_places(lower, factor, axis, first, step, ret_ask);
    } else {
        struct sp_range part = to->ranges.ranges[0];
        struct sp_range *ask = SP_LOWER_ARRAY(lower, 1, struct sp_range);
        int64_t begin = first + step * part.start, end = first + step * (part.limit - 1);
        if (ask == NULL)
            return;
        *ask = step > 0 ? (struct sp_range){begin, end + 1} : (struct sp_range){end, begin + 1};
        *ret_ask = (struct sp_axis_ranges){1, ask};
        int64_t size = ask->limit - ask->start;
        rest->is_needed = true;
        rest->starts[range->item] = step > 0 ? 0 : size - 1;
        rest->ends[range->item] = step > 0 ? size : -size - 1; /* through the first */
        rest->steps[range->item] = step;
    }
}

static struct sp_piece *slice_rest(struct sp_lowering *lower, struct sp_piece *x, const struct remainder *rest)
{
    int64_t starts[SP_MAX_RANK], ends[SP_MAX_RANK];
    if (lower->version >= 10) {
        struct sp_piece *const inputs[] = {x, sp_lower_patched(lower, 1, rest->count, rest->is_set, rest->starts),
                                           sp_lower_patched(lower, 2, rest->count, rest->is_set, rest->ends),
                                           sp_lower_ints(lower, rest->count, rest->axes),
                                           lower->input_count > 4 && lower->inputs[4].value != NULL
                                               ? sp_lower_patched(lower, 4, rest->count, rest->is_set, rest->steps)
                                               : NULL};
        return sp_lower_same(lower, 5, inputs, 0, NULL);
    }
    uint32_t count = 0;
    const int64_t *given[] = {sp_node_ints(lower->node, "starts", &count), sp_node_ints(lower->node, "ends", &count)};
    for (uint32_t i = 0; i < rest->count; i++) {
        starts[i] = rest->is_set[i] || given[0] == NULL ? rest->starts[i] : given[0][i];
        ends[i] = rest->is_set[i] || given[1] == NULL ? rest->ends[i] : given[1][i];
    }
    const struct sp_lower_attribute attributes[] = {SP_INTS_ATTR("starts", rest->count, starts),
                                                    SP_INTS_ATTR("ends", rest->count, ends),
                                                    SP_INTS_ATTR("axes", rest->count, rest->axes)};
    return sp_lower_same(lower, 1, &x, 3, attributes);
}

enum sp_status sp_lower_node_slice(struct sp_lowering *lower)
{
    struct sp_op_context context = sp_lower_context(lower);
    struct sp_slice_range ranges[SP_MAX_RANK] = {{0}};
    struct sp_axis_ranges ask[SP_MAX_RANK];
    struct remainder rest = {0};
    bool has_axes = false;
    uint32_t rank = lower->inputs[0].rank;
    enum sp_status status = sp_slice_ranges(&context, rank, ranges, &has_axes);
    sp_lower_failed(lower, status);
    if (status != SP_OK || !has_axes)
        return status != SP_OK ? sp_lower_status(lower) : sp_lower_default(lower);
    for (uint32_t axis = 0; axis < rank; axis++) {
        ask[axis] = lower->inputs[0].axes[axis].ranges;
        if (!ranges[axis].is_sliced)
            continue;
        rest.axes[ranges[axis].item] = axis;
        rest.count++;
        if (lower->outputs[0].axes[axis].is_cut)
            take_axis(lower, axis, &ranges[axis], &ask[axis], &rest);
        else
            rest.is_needed = true;
    }
    if (!sp_lower_is_fine(lower))
        return sp_lower_status(lower);
    struct sp_piece *x = sp_lower_input_axes(lower, 0, ask);
    if (rest.is_needed)
        x = slice_rest(lower, x, &rest);
    for (uint32_t axis = 0; axis < rank; axis++) {
        if (rest.picks[axis] != NULL)
            x = sp_lower_gather(lower, x, rest.picks[axis], axis);
    }
    sp_lower_output(lower, 0, x);
    return sp_lower_status(lower);
}
