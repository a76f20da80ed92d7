/*
 * indexing - operators that pick by index: Gather, GatherElements, GatherND.
 *
 * The picked axis of the data is a reduction factor: a device that holds a part of it gives what it has and zeros for
 * the rest, and the parts are added up (how a vocabulary-parallel embedding works).
 */
#include <string.h>

#include "base/limits.h"
#include "ops/lowering/functions.h"
#include "ops/table/families.h"
#include "ops/table/known_values.h"
#include "ops/table/traffic.h"

static enum sp_status get_axis(struct sp_op_context *context, uint32_t rank, uint32_t *ret_axis)
{
    return sp_normalize_axis(context, sp_node_int(context->node, "axis", 0), rank, ret_axis);
}

static uint8_t sum_factor(struct sp_op_context *context, struct sp_rule *rule, uint32_t axis)
{
    uint8_t factor = sp_rule_input_axis(context, rule, 'v', 0, axis, SP_FACTOR_REDUCTION);
    rule->factors[factor].combiner = SP_COMBINE_SUM;
    return factor;
}

/* What one index reads along an axis of the data. */
static double row_share(const struct sp_op_context *context, uint32_t axis)
{
    return sp_dim_share(sp_dim_known(1), sp_in_shape(context, 0)->dims[axis]);
}

/* The indices with negative ones counted from the back; SP_ERR_MODEL for one outside of the axis. NULL in *ret_index
   when any of them or the extent is not known. */
static enum sp_status resolve_indices(struct sp_op_context *context, struct sp_dim extent, uint32_t **ret_index)
{
    *ret_index = NULL;
    if (!sp_data_available(context, 1) || !sp_dim_is_known(extent))
        return SP_OK;
    const struct sp_data *data = sp_in_known_ints(context, 1);
    uint32_t *index = data == NULL ? NULL : SP_NEW_ARRAY(context->arena, data->count, uint32_t);
    if (index == NULL)
        return SP_OK;
    for (uint32_t i = 0; i < data->count; i++) {
        int64_t value = data->ints[i].value;
        if (value < -extent.value || value >= extent.value)
            return sp_op_fail(context, "INDEX_OUT_OF_RANGE", "index %lld is outside of an axis with %lld elements",
                              (long long)value, (long long)extent.value);
        value += value < 0 ? extent.value : 0;
        if (value > UINT32_MAX)
            return SP_OK;
        index[i] = (uint32_t)value;
    }
    *ret_index = index;
    return SP_OK;
}

/* ---- Gather -------------------------------------------------------------------------------------------------- */

static enum sp_status gather_elements(struct sp_op_context *context, uint32_t axis)
{
    const struct sp_shape *from = sp_in_shape(context, 0), *indices = sp_in_shape(context, 1);
    int64_t count = sp_data_room(context, 0), places = sp_shape_elements(indices);
    uint32_t *index = NULL;
    if (count < 0 || places < 0 || !sp_data_available(context, 0) || !sp_data_available(context, 1))
        return SP_OK; /* weights: their indices come at run time */
    enum sp_status status = resolve_indices(context, from->dims[axis], &index);
    if (status != SP_OK || index == NULL)
        return status;
    struct sp_shape tail = {true, from->rank - axis - 1, from->dims + axis + 1};
    int64_t inner = sp_shape_elements(&tail), extent = from->dims[axis].value;
    uint32_t *pick = SP_NEW_ARRAY(context->arena, (size_t)count, uint32_t);
    if (pick == NULL)
        return sp_fail_memory(context->err);
    for (int64_t i = 0; i < count; i++) { /* output: outer, places, inner */
        int64_t outer = i / inner / places;
        pick[i] = (uint32_t)((outer * extent + index[i / inner % places]) * inner + i % inner);
    }
    return sp_data_pick(context, 0, pick, NULL);
}

static enum sp_status shapes_gather(struct sp_op_context *context)
{
    const struct sp_shape *data = sp_in_shape(context, 0), *indices = sp_in_shape(context, 1);
    struct sp_dim dims[2 * SP_MAX_RANK];
    uint32_t axis = 0, rank = 0;
    enum sp_status status = data != NULL ? get_axis(context, data->rank, &axis) : SP_OK;
    if (status != SP_OK)
        return status;
    if (data == NULL || indices == NULL)
        return sp_set_output_unranked(context, 0, sp_in_dtype(context, 0));
    for (uint32_t i = 0; i < axis; i++)
        dims[rank++] = data->dims[i];
    for (uint32_t i = 0; i < indices->rank; i++)
        dims[rank++] = indices->dims[i];
    for (uint32_t i = axis + 1; i < data->rank; i++)
        dims[rank++] = data->dims[i];
    status = sp_set_output(context, 0, sp_in_dtype(context, 0), rank, dims);
    return status != SP_OK ? status : gather_elements(context, axis);
}

static enum sp_status rule_gather(struct sp_op_context *context, struct sp_rule *rule)
{
    uint32_t picked = 0, rank = rule->inputs[0].rank, places = rule->inputs[1].rank;
    struct sp_factor_list rows = {0};
    enum sp_status status = get_axis(context, rank, &picked);
    for (uint32_t axis = 0; status == SP_OK && axis < rank; axis++) {
        if (axis == picked) {
            sp_rule_positions_input(rule, 1, sum_factor(context, rule, axis));
            continue;
        }
        uint8_t factor = sp_rule_input_axis(context, rule, 'd', 0, axis, SP_FACTOR_PARALLEL);
        sp_rule_map_output(rule, 0, axis < picked ? axis : axis - 1 + places, factor);
    }
    for (uint32_t axis = 0; status == SP_OK && axis < places; axis++) {
        uint8_t factor = sp_rule_input_axis(context, rule, 'i', 1, axis, SP_FACTOR_PARALLEL);
        sp_rule_map_output(rule, 0, picked + axis, factor);
        sp_factor_list_add(&rows, factor);
    }
    if (status == SP_OK)
        sp_rule_use_input(rule, 0, row_share(context, picked), &rows);
    return status;
}

/* ---- GatherElements ------------------------------------------------------------------------------------------ */

/* Each place takes the index' element on the picked axis, and its own place on the others. */
static enum sp_status pick_elements(struct sp_op_context *context, uint32_t picked)
{
    const struct sp_shape *from = sp_in_shape(context, 0), *to = &context->node->outputs[0]->type.shape;
    int64_t count = sp_data_room(context, 0);
    uint32_t *index = NULL;
    if (count < 0 || !sp_data_available(context, 0) || sp_shape_elements(from) <= 0)
        return SP_OK;
    enum sp_status status = resolve_indices(context, from->dims[picked], &index);
    uint32_t *pick = index != NULL ? SP_NEW_ARRAY(context->arena, (size_t)count, uint32_t) : NULL;
    if (status != SP_OK || pick == NULL)
        return status;
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i, position = 0, stride = 1;
        for (uint32_t axis = to->rank; axis-- > 0;) {
            int64_t at = axis == picked ? index[i] : rest % to->dims[axis].value;
            if (at >= from->dims[axis].value)
                return SP_OK; /* more indices than data on an axis: the run fails */
            position += at * stride;
            stride *= from->dims[axis].value;
            rest /= to->dims[axis].value;
        }
        pick[i] = (uint32_t)position;
    }
    return sp_data_pick(context, 0, pick, NULL);
}

static enum sp_status shapes_gather_elements(struct sp_op_context *context)
{
    const struct sp_shape *data = sp_in_shape(context, 0), *indices = sp_in_shape(context, 1);
    uint32_t axis = 0;
    enum sp_status status = data != NULL ? get_axis(context, data->rank, &axis) : SP_OK;
    if (status == SP_OK && data != NULL && indices != NULL && data->rank != indices->rank)
        return sp_op_fail(context, "SHAPES_DISAGREE", "its data have %u axes and its indices %u", data->rank,
                          indices->rank);
    if (status == SP_OK)
        status = sp_set_output_shape(context, 0, sp_in_dtype(context, 0), indices);
    return status != SP_OK || data == NULL || indices == NULL ? status : pick_elements(context, axis);
}

/* An axis with fewer indices than data uses the first of the data: shards do not line up, and both stay whole. */
static enum sp_status rule_gather_elements(struct sp_op_context *context, struct sp_rule *rule)
{
    const struct sp_shape *data = sp_in_shape(context, 0), *indices = sp_in_shape(context, 1);
    struct sp_factor_list places = {0};
    double chance = 1;
    uint32_t picked = 0;
    enum sp_status status = get_axis(context, data->rank, &picked);
    for (uint32_t axis = 0; status == SP_OK && axis < data->rank; axis++) {
        bool is_aligned = axis == picked || sp_dim_equal(data->dims[axis], indices->dims[axis]);
        uint8_t factor =
            sp_rule_input_axis(context, rule, 'i', 1, axis, is_aligned ? SP_FACTOR_PARALLEL : SP_FACTOR_REPLICATE);
        sp_rule_map_output(rule, 0, axis, factor);
        chance *= axis == picked ? row_share(context, axis) : sp_dim_share(indices->dims[axis], data->dims[axis]);
        if (axis == picked) {
            sp_rule_positions_input(rule, 1, sum_factor(context, rule, axis));
            sp_factor_list_add(&places, factor);
        } else if (is_aligned) {
            sp_rule_map_input(rule, 0, axis, factor);
        } else {
            (void)sp_rule_input_axis(context, rule, 'd', 0, axis, SP_FACTOR_REPLICATE);
        }
    }
    sp_rule_use_input(rule, 0, chance, &places);
    return status;
}

/* ---- GatherND ------------------------------------------------------------------------------------------------ */

/* indices [batch.., places.., depth], data [batch.., depth axes.., rest..] -> [batch.., places.., rest..] */
static enum sp_status get_depth(struct sp_op_context *context, const struct sp_shape *data,
                                const struct sp_shape *indices, uint32_t *ret_batch, uint32_t *ret_depth,
                                bool *ret_known)
{
    int64_t batch = sp_node_int(context->node, "batch_dims", 0);
    if (indices->rank == 0 || batch < 0 || batch >= indices->rank || batch >= data->rank)
        return sp_op_fail(context, "AXIS_OUT_OF_RANGE",
                          "%lld batch axes do not fit data with %u and indices with %u axes", (long long)batch,
                          data->rank, indices->rank);
    struct sp_dim depth = indices->dims[indices->rank - 1];
    *ret_known = sp_dim_is_known(depth);
    if (*ret_known && (depth.value < 1 || depth.value > (int64_t)data->rank - batch))
        return sp_op_fail(context, "SHAPES_DISAGREE", "index tuples of %lld entries do not fit data with %u axes",
                          (long long)depth.value, data->rank);
    *ret_batch = (uint32_t)batch;
    *ret_depth = *ret_known ? (uint32_t)depth.value : 0;
    return SP_OK;
}

/* Each tuple names a slice: [batch.., places..] tuples, data [batch.., depth axes.., rest..]. */
static enum sp_status pick_slices(struct sp_op_context *context, uint32_t batch, uint32_t depth)
{
    const struct sp_shape *from = sp_in_shape(context, 0), *tuples = sp_in_shape(context, 1);
    int64_t count = sp_data_room(context, 0);
    if (count < 0 || !sp_data_available(context, 0) || sp_shape_elements(from) <= 0 || sp_shape_elements(tuples) < 0)
        return SP_OK;
    const struct sp_data *indices = sp_in_known_ints(context, 1);
    uint32_t *pick = indices != NULL ? SP_NEW_ARRAY(context->arena, (size_t)count, uint32_t) : NULL;
    if (pick == NULL || indices->count != sp_shape_elements(tuples))
        return SP_OK;
    struct sp_shape head = {true, batch, from->dims};
    struct sp_shape tail = {true, from->rank - batch - depth, from->dims + batch + depth};
    int64_t slice = sp_shape_elements(&tail), batches = sp_shape_elements(&head);
    int64_t places = batches == 0 || depth == 0 ? 0 : (int64_t)indices->count / depth / batches;
    if (slice <= 0 || places <= 0)
        return SP_OK;
    for (int64_t i = 0; i < count; i++) {
        int64_t tuple = i / slice, position = tuple / places;
        for (uint32_t axis = 0; axis < depth; axis++) {
            int64_t extent = from->dims[batch + axis].value, at = indices->ints[tuple * depth + axis].value;
            if (at < -extent || at >= extent)
                return sp_op_fail(context, "INDEX_OUT_OF_RANGE", "index %lld is outside of an axis with %lld elements",
                                  (long long)at, (long long)extent);
            position = position * extent + at + (at < 0 ? extent : 0);
        }
        pick[i] = (uint32_t)(position * slice + i % slice);
    }
    return sp_data_pick(context, 0, pick, NULL);
}

static enum sp_status shapes_gather_nd(struct sp_op_context *context)
{
    const struct sp_shape *data = sp_in_shape(context, 0), *indices = sp_in_shape(context, 1);
    struct sp_dim dims[2 * SP_MAX_RANK];
    uint32_t batch = 0, depth = 0, rank = 0;
    bool is_known = false;
    enum sp_status status =
        data != NULL && indices != NULL ? get_depth(context, data, indices, &batch, &depth, &is_known) : SP_OK;
    if (status != SP_OK)
        return status;
    if (!is_known)
        return sp_set_output_unranked(context, 0, sp_in_dtype(context, 0));
    for (uint32_t axis = 0; axis + 1 < indices->rank; axis++) {
        dims[rank] = indices->dims[axis];
        if (axis < batch)
            status = sp_join_dims(context, data->dims[axis], indices->dims[axis], &dims[rank]);
        if (status != SP_OK)
            return status;
        rank++;
    }
    for (uint32_t axis = batch + depth; axis < data->rank; axis++)
        dims[rank++] = data->dims[axis];
    status = sp_set_output(context, 0, sp_in_dtype(context, 0), rank, dims);
    return status != SP_OK ? status : pick_slices(context, batch, depth);
}

static enum sp_status rule_gather_nd(struct sp_op_context *context, struct sp_rule *rule)
{
    const struct sp_shape *data = sp_in_shape(context, 0), *indices = sp_in_shape(context, 1);
    uint32_t batch = 0, depth = 0;
    bool is_known = false;
    struct sp_factor_list places = {0};
    double chance = 1;
    enum sp_status status = get_depth(context, data, indices, &batch, &depth, &is_known);
    if (status != SP_OK || !is_known)
        return status;
    for (uint32_t axis = 0; axis + 1 < indices->rank; axis++) {
        uint8_t factor = sp_rule_input_axis(context, rule, axis < batch ? 'b' : 'i', 1, axis, SP_FACTOR_PARALLEL);
        sp_rule_map_output(rule, 0, axis, factor);
        if (axis < batch)
            sp_rule_map_input(rule, 0, axis, factor);
        else
            sp_factor_list_add(&places, factor);
    }
    (void)sp_rule_input_axis(context, rule, 't', 1, indices->rank - 1, SP_FACTOR_REPLICATE);
    for (uint32_t axis = batch; axis < batch + depth; axis++) {
        sp_rule_positions_input(rule, 1, sum_factor(context, rule, axis));
        chance *= row_share(context, axis);
    }
    sp_rule_use_input(rule, 0, chance, &places);
    rule->inputs[1].are_tuples = depth > 1;
    for (uint32_t axis = batch + depth; axis < data->rank; axis++) {
        uint8_t factor = sp_rule_input_axis(context, rule, 'd', 0, axis, SP_FACTOR_PARALLEL);
        sp_rule_map_output(rule, 0, indices->rank - 1 + axis - batch - depth, factor);
    }
    return SP_OK;
}

const struct sp_op sp_ops_indexing[] = {
    SP_ENTRY("", "Gather", 1, 0, 2, 2, 1, 1, "[d.., v, e..] [i..] -> [d.., i.., e..]; v sum",
             "ONNX Operators.md, Gather-1 to Gather-13", .shapes = shapes_gather, .rule = rule_gather,
             .lower = sp_lower_node_gather),
    SP_ENTRY("", "GatherElements", 11, 0, 2, 2, 1, 1,
             "[d.., v] [d.., i] -> [d.., i]; v sum, d.. whole where the extents differ",
             "ONNX Operators.md, GatherElements-11, GatherElements-13", .shapes = shapes_gather_elements,
             .rule = rule_gather_elements, .lower = sp_lower_node_gather_elements),
    SP_ENTRY("", "GatherND", 11, 0, 2, 2, 1, 1, "[b.., v.., d..] [b.., i.., t] -> [b.., i.., d..]; v.. sum, t whole",
             "ONNX Operators.md, GatherND-11 to GatherND-13", .shapes = shapes_gather_nd, .rule = rule_gather_nd,
             .lower = sp_lower_node_gather_nd),
    {.name = NULL},
};
