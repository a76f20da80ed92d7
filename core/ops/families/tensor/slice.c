/*
 * slice - Slice: every step-th element from start to end on some axes.
 *
 * Starts and ends may be negative (from the back) and are clamped to the axis; INT64_MAX and, from exporters that write
 * 32-bit numbers, INT32_MAX stand for "to the end".
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "ops/families/tensor/slice.h"
#include "ops/lowering/functions.h"
#include "ops/table/factors.h"
#include "ops/table/families.h"
#include "ops/table/known_values.h"

/* ---- the operands -------------------------------------------------------------------------------------------- */

/* ---- extents ------------------------------------------------------------------------------------------------- */

/* A bound on an axis of `extent` elements, counted from the front and clamped (step > 0); unknown without its sign. */
static struct sp_dim place(struct sp_dims *dims, struct sp_dim bound, struct sp_dim extent)
{
    struct sp_dim zero = sp_dim_known(0);
    if (sp_dim_is_known(bound) && bound.value >= INT32_MAX)
        return extent; /* "to the end": no axis is expected to be longer than that */
    if (sp_dim_surely_ge(dims, bound, zero))
        return sp_dim_min(dims, bound, extent);
    if (sp_dim_surely_ge(dims, sp_dim_known(-1), bound))
        return sp_dim_max(dims, sp_dim_add(dims, bound, extent), zero);
    return sp_dim_unknown();
}

static struct sp_dim count_symbolic(struct sp_dims *dims, struct sp_dim extent, const struct sp_slice_range *range)
{
    struct sp_dim zero = sp_dim_known(0), length;
    if (!sp_dim_is_known(range->step))
        return sp_dim_unknown();
    if (range->step.value < 0) {
        /* Only the whole axis backwards is common: [::-1] is written as start -1 or large, end below any axis. */
        bool is_all = sp_dim_is_known(range->start) && sp_dim_is_known(range->end) && range->end.value <= -INT32_MAX &&
                      (range->start.value == -1 || range->start.value >= INT32_MAX);
        if (!is_all || range->step.value == INT64_MIN)
            return sp_dim_unknown();
        return sp_dim_ceildiv(dims, extent, sp_dim_known(-range->step.value));
    }
    struct sp_dim end = place(dims, range->end, extent);
    bool is_last = sp_dim_is_known(range->start) && range->start.value < 0 && range->start.value > -INT32_MAX;
    if (is_last && sp_dim_equal(end, extent))
        length = sp_dim_min(dims, extent, sp_dim_known(-range->start.value)); /* the last k */
    else
        length = sp_dim_max(dims, sp_dim_sub(dims, end, place(dims, range->start, extent)), zero);
    return sp_dim_is(range->step, 1) ? length : sp_dim_ceildiv(dims, length, range->step);
}

static struct sp_dim sliced_extent(struct sp_dims *dims, struct sp_dim extent, const struct sp_slice_range *range)
{
    int64_t first = 0;
    if (!range->is_sliced)
        return extent;
    if (sp_dim_is_known(extent) && sp_slice_is_known(range))
        return sp_dim_known(sp_slice_count(extent.value, range, &first));
    return count_symbolic(dims, extent, range);
}

/* ---- shapes -------------------------------------------------------------------------------------------------- */

static enum sp_status slice_elements(struct sp_op_context *context, const struct sp_slice_range *ranges)
{
    int64_t count = sp_data_room(context, 0);
    const struct sp_shape *from = sp_in_shape(context, 0), *to = &context->node->outputs[0]->type.shape;
    if (count < 0 || !sp_data_available(context, 0) || sp_shape_elements(from) < 0)
        return SP_OK;
    for (uint32_t axis = 0; axis < from->rank; axis++) {
        if (ranges[axis].is_sliced && !sp_slice_is_known(&ranges[axis]))
            return SP_OK;
    }
    struct sp_walk walk;
    uint64_t stride = 1;
    sp_walk_init(&walk, to);
    for (uint32_t axis = to->rank; axis-- > 0; stride *= (uint64_t)from->dims[axis].value) {
        int64_t first = 0;
        walk.strides[axis] = stride;
        if (!ranges[axis].is_sliced)
            continue;
        (void)sp_slice_count(from->dims[axis].value, &ranges[axis], &first);
        walk.index += (uint64_t)first * stride;
        walk.strides[axis] = (uint64_t)ranges[axis].step.value * stride;
    }
    const uint32_t *index = sp_walk_indices(context, &walk, count);
    return index == NULL ? sp_fail_memory(context->err) : sp_data_pick(context, 0, index, NULL);
}

static enum sp_status shapes_slice(struct sp_op_context *context)
{
    const struct sp_shape *from = sp_in_shape(context, 0);
    struct sp_slice_range ranges[SP_MAX_RANK] = {{0}};
    struct sp_dim dims[SP_MAX_RANK] = {{0}};
    bool has_axes = false;
    if (from == NULL)
        return sp_set_output_unranked(context, 0, sp_in_dtype(context, 0));
    enum sp_status status = sp_slice_ranges(context, from->rank, ranges, &has_axes);
    for (uint32_t axis = 0; status == SP_OK && has_axes && axis < from->rank; axis++)
        dims[axis] = sliced_extent(context->dims, from->dims[axis], &ranges[axis]);
    if (status == SP_OK)
        status = sp_set_output(context, 0, sp_in_dtype(context, 0), from->rank, dims);
    return status != SP_OK || !has_axes ? status : slice_elements(context, ranges);
}

/* Whether the slice is one of the pieces of its extent that the axis is cut in, as those of Split. */
static bool is_piece(struct sp_dim whole, struct sp_dim part, const struct sp_slice_range *range)
{
    int64_t first = 0;
    if (!sp_dim_is_known(whole) || !sp_dim_is_known(part) || part.value <= 1 || !sp_dim_is(range->step, 1) ||
        whole.value % part.value != 0)
        return false;
    return sp_slice_count(whole.value, range, &first) == part.value && first % part.value == 0;
}

/* One of several pieces of the same extent is the compound [piece, place] of the input, as in Split: cut along the
   places, nothing moves. Where another slice of known bounds puts an element is known: a permutation, also of an axis
   that is turned around. One of unknown bounds, or that leaves nothing to cut, needs the whole. */
static void map_sliced(struct sp_op_context *context, struct sp_rule *rule, uint32_t axis,
                       const struct sp_slice_range *range)
{
    struct sp_dim extent = context->node->outputs[0]->type.shape.dims[axis];
    struct sp_dim whole = sp_in_shape(context, 0)->dims[axis];
    char name[SP_FACTOR_NAME_SIZE];
    (void)snprintf(name, sizeof name, "d%u", axis);
    if (sp_slice_is_known(range) && is_piece(whole, extent, range)) {
        uint8_t piece = sp_rule_factor(rule, "piece", SP_FACTOR_REPLICATE, sp_dim_known(whole.value / extent.value));
        uint8_t place = sp_rule_factor(rule, name, SP_FACTOR_PARALLEL, extent);
        sp_rule_map_input(rule, 0, axis, piece);
        sp_rule_map_input(rule, 0, axis, place);
        sp_rule_map_output(rule, 0, axis, place);
    } else if (sp_slice_is_known(range) && sp_dim_is_known(extent) && extent.value > 1) {
        uint8_t factor = sp_factor_resized(rule, name, SP_FACTOR_PERMUTATION, extent);
        sp_rule_map_input(rule, 0, axis, factor);
        sp_rule_map_output(rule, 0, axis, factor);
    } else {
        (void)sp_rule_input_axis(context, rule, 'i', 0, axis, SP_FACTOR_REPLICATE);
        (void)sp_rule_output_axis(context, rule, 'o', 0, axis, SP_FACTOR_REPLICATE);
    }
}

/* An axis that is kept whole is parallel. */
static enum sp_status rule_slice(struct sp_op_context *context, struct sp_rule *rule)
{
    const struct sp_shape *from = sp_in_shape(context, 0), *to = &context->node->outputs[0]->type.shape;
    struct sp_slice_range ranges[SP_MAX_RANK] = {{0}};
    bool has_axes = false;
    enum sp_status status = sp_slice_ranges(context, from->rank, ranges, &has_axes);
    for (uint32_t axis = 0; status == SP_OK && axis < from->rank; axis++) {
        bool is_whole = has_axes && (!ranges[axis].is_sliced || sp_dim_equal(from->dims[axis], to->dims[axis]));
        bool is_forward = !ranges[axis].is_sliced || sp_dim_is(ranges[axis].step, 1);
        bool is_backward = ranges[axis].is_sliced && sp_dim_is(ranges[axis].step, -1);
        if (is_whole && (is_forward || is_backward)) {
            enum sp_factor_kind kind = is_forward ? SP_FACTOR_PARALLEL : SP_FACTOR_PERMUTATION;
            uint8_t factor = sp_rule_input_axis(context, rule, 'd', 0, axis, kind);
            sp_rule_map_output(rule, 0, axis, factor);
        } else {
            map_sliced(context, rule, axis, has_axes ? &ranges[axis] : &(struct sp_slice_range){0});
        }
    }
    rule->bytes = 2 * sp_output_bytes(context, 0);
    return status;
}

#define TEXT                                                                                                           \
    "[d.., piece*i] -> [d.., i]; pieces whole; what is none of them moves, or is whole where its bounds are not known"

const struct sp_op sp_ops_slice[] = {
    SP_ENTRY("", "Slice", 1, 9, 1, 1, 1, 1, TEXT, "ONNX Operators.md, Slice-1", .shapes = shapes_slice,
             .rule = rule_slice, .lower = sp_lower_node_slice),
    SP_ENTRY("", "Slice", 10, 0, 3, 5, 1, 1, TEXT, "ONNX Operators.md, Slice-10 to Slice-13", .shapes = shapes_slice,
             .rule = rule_slice, .lower = sp_lower_node_slice),
    {.name = NULL},
};
