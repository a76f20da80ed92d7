/*
 * pad - elements added or removed at the borders of axes: Pad (negative pads remove), CenterCropPad.
 *
 *     [d.., i] -> [d.., i + low + high]      an axis that changes is a permutation: its shards move by what is added
 */
#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "base/limits.h"
#include "ops/families/tensor/pads.h"
#include "ops/lowering/functions.h"
#include "ops/table/factors.h"
#include "ops/table/families.h"
#include "ops/table/known_values.h"

/* The elements that a constant Pad fills in; false when they are not known. */
static bool fill_value(struct sp_op_context *context, const struct sp_data **ret_fill)
{
    *ret_fill = NULL;
    if (context->version >= 11 && sp_has_input(context, 2)) {
        *ret_fill = sp_in_data(context, 2);
        return *ret_fill != NULL && (*ret_fill)->count == 1;
    }
    return context->version >= 11 || sp_node_float(context->node, "value", 0) == 0;
}

static enum sp_status pad_elements(struct sp_op_context *context, const struct sp_pads *pads, const char *mode)
{
    int64_t count = sp_data_room(context, 0);
    const struct sp_shape *from = sp_in_shape(context, 0), *to = &context->node->outputs[0]->type.shape;
    const struct sp_data *fill = NULL;
    bool is_empty = sp_shape_elements(from) == 0;
    if (count < 0 || !sp_data_available(context, 0) || sp_shape_elements(from) < 0 || !fill_value(context, &fill))
        return SP_OK;
    for (uint32_t axis = 0; axis < from->rank; axis++) {
        if (!sp_dim_is_known(pads->low[axis]))
            return SP_OK;
    }
    uint32_t *index = SP_NEW_ARRAY(context->arena, (size_t)count, uint32_t);
    if (index == NULL)
        return sp_fail_memory(context->err);
    for (uint32_t i = 0; i < count; i++) {
        int64_t rest = i, position = 0, stride = 1;
        bool is_inside = true;
        for (uint32_t axis = to->rank; axis-- > 0;) {
            int64_t place = 0, own = from->dims[axis].value;
            if (!sp_sub_i64(rest % to->dims[axis].value, pads->low[axis].value, &place))
                return SP_OK;
            place = sp_pad_source(mode, place, own);
            is_inside = is_inside && place >= 0;
            position += is_inside ? place * stride : 0;
            rest /= to->dims[axis].value;
            stride *= is_empty ? 0 : own; /* the extents of an empty tensor may have any product */
        }
        index[i] = is_inside ? (uint32_t)position : UINT32_MAX;
    }
    return sp_data_pick(context, 0, index, fill);
}

static enum sp_status shapes_pad(struct sp_op_context *context)
{
    const struct sp_shape *from = sp_in_shape(context, 0);
    struct sp_dim dims[SP_MAX_RANK] = {{0}};
    struct sp_pads pads;
    if (from == NULL)
        return sp_set_output_unranked(context, 0, sp_in_dtype(context, 0));
    enum sp_status status = sp_pad_amounts(context, from->rank, &pads);
    for (uint32_t axis = 0; status == SP_OK && axis < from->rank; axis++) {
        struct sp_dim added = sp_dim_add(context->dims, pads.low[axis], pads.high[axis]);
        dims[axis] = sp_dim_add(context->dims, from->dims[axis], added);
    }
    if (status == SP_OK)
        status = sp_set_output(context, 0, sp_in_dtype(context, 0), from->rank, dims);
    return status != SP_OK ? status : pad_elements(context, &pads, sp_node_string(context->node, "mode", "constant"));
}

/* An axis that gets longer or shorter: a permutation where it is known by how much, and there is something to cut. */
static void map_resized(struct sp_op_context *context, struct sp_rule *rule, uint32_t axis, bool is_known)
{
    struct sp_dim extent = context->node->outputs[0]->type.shape.dims[axis];
    char name[SP_FACTOR_NAME_SIZE];
    (void)snprintf(name, sizeof name, "d%u", axis);
    if (is_known && !(sp_dim_is_known(extent) && extent.value <= 1)) {
        uint8_t factor = sp_factor_resized(rule, name, SP_FACTOR_PERMUTATION, extent);
        sp_rule_map_input(rule, 0, axis, factor);
        sp_rule_map_output(rule, 0, axis, factor);
    } else {
        (void)sp_rule_input_axis(context, rule, 'i', 0, axis, SP_FACTOR_REPLICATE);
        (void)sp_rule_output_axis(context, rule, 'o', 0, axis, SP_FACTOR_REPLICATE);
    }
}

static enum sp_status rule_pad(struct sp_op_context *context, struct sp_rule *rule)
{
    struct sp_pads pads;
    enum sp_status status = sp_pad_amounts(context, rule->inputs[0].rank, &pads);
    for (uint32_t axis = 0; status == SP_OK && axis < rule->inputs[0].rank; axis++) {
        if (sp_dim_is(pads.low[axis], 0) && sp_dim_is(pads.high[axis], 0)) {
            uint8_t factor = sp_rule_input_axis(context, rule, 'd', 0, axis, SP_FACTOR_PARALLEL);
            sp_rule_map_output(rule, 0, axis, factor);
        } else {
            map_resized(context, rule, axis, sp_dim_is_known(pads.low[axis]) && sp_dim_is_known(pads.high[axis]));
        }
    }
    return status;
}

/* ---- CenterCropPad -------------------------------------------------------------------------------------------- */

/* The extents of the result, those asked for on the axes named. */
static enum sp_status center_dims(struct sp_op_context *context, const struct sp_shape *from, struct sp_dim *dims)
{
    struct sp_list shape = {0}, axes = {0};
    uint64_t ignored = 0;
    enum sp_status status = sp_get_list(context, "shape", 1, 1, &shape);
    if (status == SP_OK)
        status = sp_get_list(context, "axes", INT64_MAX, 0, &axes);
    if (status == SP_OK && axes.is_given)
        status = sp_get_axes(context, &axes, from->rank, &ignored); /* checks: then there are at most `rank` of them */
    if (status != SP_OK)
        return status;
    uint32_t count = axes.is_given ? axes.count : from->rank;
    if (shape.has_count && shape.count != count)
        return sp_op_fail(context, "SHAPES_DISAGREE", "its shape has %u items for %u axes", shape.count, count);
    memcpy(dims, from->dims, from->rank * sizeof *dims);
    for (uint32_t i = 0; status == SP_OK && i < count; i++) {
        uint32_t axis = i;
        if (axes.is_given)
            status = sp_normalize_axis(context, axes.values[i].value, from->rank, &axis);
        if (status == SP_OK)
            dims[axis] = shape.has_values ? shape.values[i] : sp_dim_unknown();
    }
    return status;
}

static enum sp_status shapes_center(struct sp_op_context *context)
{
    const struct sp_shape *from = sp_in_shape(context, 0);
    struct sp_dim dims[SP_MAX_RANK] = {{0}};
    struct sp_pads pads = {0};
    if (from == NULL)
        return sp_set_output_unranked(context, 0, sp_in_dtype(context, 0));
    enum sp_status status = center_dims(context, from, dims);
    if (status == SP_OK)
        status = sp_set_output(context, 0, sp_in_dtype(context, 0), from->rank, dims);
    if (status != SP_OK || sp_data_room(context, 0) < 0 || sp_shape_elements(from) < 0)
        return status;
    for (uint32_t axis = 0; axis < from->rank; axis++)
        pads.low[axis] = sp_dim_known(sp_center_low(from->dims[axis].value, dims[axis].value));
    return pad_elements(context, &pads, "constant");
}

static enum sp_status rule_center(struct sp_op_context *context, struct sp_rule *rule)
{
    const struct sp_shape *from = sp_in_shape(context, 0), *to = &context->node->outputs[0]->type.shape;
    for (uint32_t axis = 0; axis < from->rank; axis++) {
        struct sp_dim before = from->dims[axis], after = to->dims[axis];
        if (sp_dim_equal(before, after)) {
            uint8_t factor = sp_rule_input_axis(context, rule, 'd', 0, axis, SP_FACTOR_PARALLEL);
            sp_rule_map_output(rule, 0, axis, factor);
        } else {
            map_resized(context, rule, axis, sp_dim_is_known(before) && sp_dim_is_known(after));
        }
    }
    rule->bytes = sp_input_bytes(context, 0) + sp_output_bytes(context, 0);
    return SP_OK;
}

#define TEXT "[d.., i] -> [d.., i]; i moves, or is whole where the pads are not known"

const struct sp_op sp_ops_pad[] = {
    SP_ENTRY("", "Pad", 1, 10, 1, 1, 1, 1, "[d.., i] -> [d.., i]; i moves", "ONNX Operators.md, Pad-1, Pad-2",
             .shapes = shapes_pad, .rule = rule_pad, .lower = sp_lower_node_pad),
    SP_ENTRY("", "Pad", 11, 17, 2, 3, 1, 1, TEXT, "ONNX Operators.md, Pad-11, Pad-13", .shapes = shapes_pad,
             .rule = rule_pad, .lower = sp_lower_node_pad),
    SP_ENTRY("", "Pad", 18, 0, 2, 4, 1, 1, TEXT, "ONNX Operators.md, Pad-18 to Pad-25", .shapes = shapes_pad,
             .rule = rule_pad, .lower = sp_lower_node_pad),
    SP_ENTRY("", "CenterCropPad", 18, 0, 2, 2, 1, 1,
             "[d.., i] [_] -> [d.., i]; i moves, or is whole where its extents are not known",
             "ONNX Operators.md, CenterCropPad-18", .shapes = shapes_center, .rule = rule_center,
             .lower = sp_lower_node_center_crop_pad),
    {.name = NULL},
};
