/*
 * Slice on shards: a part of the result takes every step-th index from a part of the input, which is asked for as it
 * is. What is left of the slice then is its steps, and the axes that are not cut.
 */
#include "base/limits.h"
#include "ops/local_functions.h"
#include "ops/local_internal.h"
#include "ops/local_parts.h"
#include "ops/local_places.h"
#include "ops/slice.h"

/* The slice of the piece that was asked for. */
struct remainder {
    uint32_t count;            /* items of starts, ends and axes */
    int64_t axes[SP_MAX_RANK]; /* of the items */
    bool is_set[SP_MAX_RANK], is_needed;
    int64_t starts[SP_MAX_RANK], ends[SP_MAX_RANK], steps[SP_MAX_RANK];
    struct sp_piece *picks[SP_MAX_RANK]; /* by axis: places to gather instead */
};

/* What the ranges of the output take with a step of 1: the same ranges elsewhere. */
static void shift(struct sp_local *local, const struct sp_axis_ranges *to, int64_t first, struct sp_axis_ranges *ret)
{
    struct sp_range *ranges = SP_LOCAL_ARRAY(local, to->count, struct sp_range);
    for (uint32_t i = 0; ranges != NULL && i < to->count; i++)
        ranges[i] = (struct sp_range){to->ranges[i].start + first, to->ranges[i].limit + first};
    *ret = (struct sp_axis_ranges){to->count, ranges};
}

/* Several ranges with steps: a list of places. */
static struct sp_piece *list_places(struct sp_local *local, uint8_t factor, uint32_t axis, int64_t first, int64_t step,
                                    struct sp_axis_ranges *ret)
{
    const struct sp_local_axis *to = &local->outputs[0].axes[axis];
    if (!sp_local_may_list(local, factor, to->size))
        return NULL;
    int64_t *list = SP_LOCAL_ARRAY(local, (size_t)to->size, int64_t), next = 0;
    int64_t *places = SP_LOCAL_ARRAY(local, (size_t)to->size, int64_t);
    if (list == NULL || places == NULL)
        return NULL;
    for (uint32_t i = 0; i < to->ranges.count; i++) {
        for (int64_t at = to->ranges.ranges[i].start; at < to->ranges.ranges[i].limit; at++)
            list[next++] = first + step * at;
    }
    if (!sp_local_needed(local, factor, local->inputs[0].axes[axis].extent, next, list, ret, places))
        return NULL;
    return sp_local_ints(local, (uint32_t)next, places);
}

/* A cut axis that is sliced: what to ask for, and what is left to do. */
static void take_axis(struct sp_local *local, uint32_t axis, const struct sp_slice_range *range,
                      struct sp_axis_ranges *ret_ask, struct remainder *rest)
{
    const struct sp_local_axis *from = &local->inputs[0].axes[axis], *to = &local->outputs[0].axes[axis];
    uint8_t factor = sp_local_output_factor(local, 0, axis);
    int64_t first = 0, step = range->step.value;
    rest->is_set[range->item] = true;
    rest->ends[range->item] = INT64_MAX;
    rest->steps[range->item] = 1;
    if (sp_dim_is(range->step, 1) && from->extent == to->extent)
        return; /* all of it, whatever the bounds are */
    if (!sp_slice_is_known(range) || from->extent < 0 || factor == SP_RULE_NO_FACTOR) {
        char subject[300];
        sp_local_any_whole(local, "%s slices an axis of unknown extent, so it is computed whole on every device.",
                           sp_op_subject(local->node, subject, sizeof(subject)));
        return;
    }
    (void)sp_slice_count(from->extent, range, &first);
    if (step == 1) {
        shift(local, &to->ranges, first, ret_ask);
    } else if (to->ranges.count > 1) {
        rest->picks[axis] = list_places(local, factor, axis, first, step, ret_ask);
    } else {
        struct sp_range part = to->ranges.ranges[0];
        struct sp_range *ask = SP_LOCAL_ARRAY(local, 1, struct sp_range);
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

static struct sp_piece *slice_rest(struct sp_local *local, struct sp_piece *x, const struct remainder *rest)
{
    int64_t starts[SP_MAX_RANK], ends[SP_MAX_RANK];
    if (local->version >= 10) {
        struct sp_piece *const inputs[] = {x, sp_local_patched(local, 1, rest->count, rest->is_set, rest->starts),
                                           sp_local_patched(local, 2, rest->count, rest->is_set, rest->ends),
                                           sp_local_ints(local, rest->count, rest->axes),
                                           local->input_count > 4 && local->inputs[4].value != NULL
                                               ? sp_local_patched(local, 4, rest->count, rest->is_set, rest->steps)
                                               : NULL};
        return sp_local_same(local, 5, inputs, 0, NULL);
    }
    uint32_t count = 0;
    const int64_t *given[] = {sp_node_ints(local->node, "starts", &count), sp_node_ints(local->node, "ends", &count)};
    for (uint32_t i = 0; i < rest->count; i++) {
        starts[i] = rest->is_set[i] || given[0] == NULL ? rest->starts[i] : given[0][i];
        ends[i] = rest->is_set[i] || given[1] == NULL ? rest->ends[i] : given[1][i];
    }
    const struct sp_local_attribute attributes[] = {SP_INTS_ATTR("starts", rest->count, starts),
                                                    SP_INTS_ATTR("ends", rest->count, ends),
                                                    SP_INTS_ATTR("axes", rest->count, rest->axes)};
    return sp_local_same(local, 1, &x, 3, attributes);
}

enum sp_status sp_local_node_slice(struct sp_local *local)
{
    struct sp_op_context context = sp_local_context(local);
    struct sp_slice_range ranges[SP_MAX_RANK] = {{0}};
    struct sp_axis_ranges ask[SP_MAX_RANK];
    struct remainder rest = {0};
    bool has_axes = false;
    uint32_t rank = local->inputs[0].rank;
    enum sp_status status = sp_slice_ranges(&context, rank, ranges, &has_axes);
    sp_local_failed(local, status);
    if (status != SP_OK || !has_axes)
        return status != SP_OK ? sp_local_status(local) : sp_local_default(local);
    for (uint32_t axis = 0; axis < rank; axis++) {
        ask[axis] = local->inputs[0].axes[axis].ranges;
        if (!ranges[axis].is_sliced)
            continue;
        rest.axes[ranges[axis].item] = axis;
        rest.count++;
        if (local->outputs[0].axes[axis].is_cut)
            take_axis(local, axis, &ranges[axis], &ask[axis], &rest);
        else
            rest.is_needed = true;
    }
    if (!sp_local_is_fine(local))
        return sp_local_status(local);
    struct sp_piece *x = sp_local_input_axes(local, 0, ask);
    if (rest.is_needed)
        x = slice_rest(local, x, &rest);
    for (uint32_t axis = 0; axis < rank; axis++) {
        if (rest.picks[axis] != NULL)
            x = sp_local_gather(local, x, rest.picks[axis], axis);
    }
    sp_local_output(local, 0, x);
    return sp_local_status(local);
}
