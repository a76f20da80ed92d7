/*
 * time - operators on padded batches of sequences and on caches: ReverseSequence, TensorScatter.
 *
 *     ReverseSequence   [t, b, d..] [b]               -> [t, b, d..]      t whole: how much of it turns is in the data
 *     TensorScatter     [b, s, d..] [b, u, d..] [b]   -> [b, s, d..]      u whole; s parallel: each part of the cache
 *                                                                         takes the updates that fall into it
 */
#include "ops/lowering/functions.h"
#include "ops/table/families.h"
#include "ops/table/known_values.h"
#include "ops/table/traffic.h"

/* ---- ReverseSequence ------------------------------------------------------------------------------------------ */

static enum sp_status read_axes(struct sp_op_context *context, uint32_t rank, uint32_t *ret_time, uint32_t *ret_batch)
{
    if (rank < 2)
        return sp_op_fail(context, "OPERAND_SHAPE", "its input has rank %u, and at least 2 is needed", rank);
    enum sp_status status = sp_normalize_axis(context, sp_node_int(context->node, "time_axis", 0), rank, ret_time);
    if (status == SP_OK)
        status = sp_normalize_axis(context, sp_node_int(context->node, "batch_axis", 1), rank, ret_batch);
    if (status == SP_OK && (*ret_time > 1 || *ret_batch > 1 || *ret_time == *ret_batch))
        return sp_op_fail(context, "ATTRIBUTE_VALUE",
                          "attributes 'time_axis' and 'batch_axis' must be 0 and 1 or 1 and 0");
    return status;
}

static enum sp_status reverse_elements(struct sp_op_context *context, uint32_t time, uint32_t batch)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    int64_t count = sp_data_room(context, 0);
    const struct sp_data *lengths = sp_in_known_ints(context, 1);
    if (count <= 0 || !sp_data_available(context, 0) || lengths == NULL ||
        lengths->count != (uint64_t)x->dims[batch].value)
        return SP_OK;
    uint32_t *index = SP_NEW_ARRAY(context->arena, (size_t)count, uint32_t);
    if (index == NULL)
        return sp_fail_memory(context->err);
    int64_t strides[2] = {1, 1};
    for (uint32_t axis = 1; axis < x->rank; axis++) {
        strides[0] *= x->dims[axis].value;
        strides[1] *= axis > 1 ? x->dims[axis].value : 1;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t at = i / strides[time] % x->dims[time].value;
        int64_t length = lengths->ints[i / strides[batch] % x->dims[batch].value].value;
        if (length < 0 || length > x->dims[time].value)
            return sp_op_fail(context, "OPERAND_VALUE", "a sequence of %lld elements does not fit %lld",
                              (long long)length, (long long)x->dims[time].value);
        index[i] = (uint32_t)(at < length ? i + (length - 1 - 2 * at) * strides[time] : i);
    }
    return sp_data_pick(context, 0, index, NULL);
}

static enum sp_status shapes_reverse(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0), *lengths = sp_in_shape(context, 1);
    uint32_t time = 0, batch = 1;
    struct sp_dim ignored;
    enum sp_status status = x != NULL ? read_axes(context, x->rank, &time, &batch) : SP_OK;
    if (status == SP_OK && lengths != NULL && lengths->rank != 1)
        return sp_op_fail(context, "OPERAND_SHAPE", "its lengths have rank %u instead of 1", lengths->rank);
    if (status == SP_OK && x != NULL && lengths != NULL)
        status = sp_join_dims(context, x->dims[batch], lengths->dims[0], &ignored);
    if (status == SP_OK)
        status = sp_set_output_shape(context, 0, sp_in_dtype(context, 0), x);
    return status != SP_OK || x == NULL ? status : reverse_elements(context, time, batch);
}

static enum sp_status rule_reverse(struct sp_op_context *context, struct sp_rule *rule)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    uint32_t time = 0, batch = 1;
    enum sp_status status = read_axes(context, x->rank, &time, &batch);
    for (uint32_t axis = 0; status == SP_OK && axis < x->rank; axis++) {
        enum sp_factor_kind kind = axis == time ? SP_FACTOR_REPLICATE : SP_FACTOR_PARALLEL;
        uint8_t factor = sp_rule_input_axis(context, rule, axis == time ? 't' : 'd', 0, axis, kind);
        sp_rule_map_output(rule, 0, axis, factor);
        if (axis == batch)
            sp_rule_map_input(rule, 1, 0, factor);
    }
    return status;
}

/* ---- TensorScatter -------------------------------------------------------------------------------------------- */

static enum sp_status read_cache_axis(struct sp_op_context *context, uint32_t rank, uint32_t *ret_axis)
{
    enum sp_status status = sp_normalize_axis(context, sp_node_int(context->node, "axis", -2), rank, ret_axis);
    if (status == SP_OK && *ret_axis == 0)
        return sp_op_fail(context, "AXIS_OUT_OF_RANGE", "attribute 'axis' is that of the batch");
    return status;
}

static enum sp_status shapes_tensor_scatter(struct sp_op_context *context)
{
    const struct sp_shape *cache = sp_in_shape(context, 0), *update = sp_in_shape(context, 1);
    const struct sp_shape *places = sp_in_shape(context, 2);
    uint32_t written = 0;
    enum sp_status status = cache != NULL ? read_cache_axis(context, cache->rank, &written) : SP_OK;
    struct sp_dim ignored;
    if (status == SP_OK && cache != NULL && update != NULL && update->rank != cache->rank)
        return sp_op_fail(context, "SHAPES_DISAGREE", "its cache has %u axes and its update %u", cache->rank,
                          update->rank);
    for (uint32_t axis = 0; status == SP_OK && cache != NULL && update != NULL && axis < cache->rank; axis++) {
        struct sp_dim own = cache->dims[axis], other = update->dims[axis];
        if (axis != written)
            status = sp_join_dims(context, own, other, &ignored);
        else if (sp_dim_is_known(own) && sp_dim_is_known(other) && other.value > own.value)
            status = sp_op_fail(context, "SHAPES_DISAGREE", "%lld updates do not fit a cache of %lld",
                                (long long)other.value, (long long)own.value);
    }
    if (status == SP_OK && places != NULL && places->rank != 1)
        return sp_op_fail(context, "OPERAND_SHAPE", "its indices have rank %u instead of 1", places->rank);
    if (status == SP_OK && places != NULL && cache != NULL)
        status = sp_join_dims(context, cache->dims[0], places->dims[0], &ignored);
    return status != SP_OK ? status : sp_set_output_shape(context, 0, sp_in_dtype(context, 0), cache);
}

static enum sp_status rule_tensor_scatter(struct sp_op_context *context, struct sp_rule *rule)
{
    const struct sp_shape *cache = sp_in_shape(context, 0);
    uint32_t written = 0;
    enum sp_status status = read_cache_axis(context, cache->rank, &written);
    for (uint32_t axis = 0; status == SP_OK && axis < cache->rank; axis++) {
        uint8_t factor = sp_rule_input_axis(context, rule, axis == written ? 's' : 'd', 0, axis, SP_FACTOR_PARALLEL);
        sp_rule_map_output(rule, 0, axis, factor);
        if (axis == written)
            (void)sp_rule_input_axis(context, rule, 'u', 1, axis, SP_FACTOR_REPLICATE);
        else
            sp_rule_map_input(rule, 1, axis, factor);
        if (axis == 0 && sp_has_input(context, 2))
            sp_rule_map_input(rule, 2, 0, factor);
        if (axis == written && sp_has_input(context, 2))
            sp_rule_positions_input(rule, 2, factor);
    }
    const struct sp_shape *update = sp_in_shape(context, 1);
    if (status == SP_OK && update != NULL) {
        sp_rule_use_input(rule, 0, 0, NULL);
        sp_rule_use_output(rule, 0, sp_dim_share(update->dims[written], cache->dims[written]), NULL);
        sp_rule_past(context, rule, 0, 0);
    }
    return status;
}

const struct sp_op sp_ops_time[] = {
    SP_ENTRY("", "ReverseSequence", 10, 0, 2, 2, 1, 1, "[t, b, d..] [b] -> [t, b, d..]; t whole",
             "ONNX Operators.md, ReverseSequence-10", .shapes = shapes_reverse, .rule = rule_reverse),
    SP_ENTRY("", "TensorScatter", 24, 0, 2, 3, 1, 1, "[b, s, d..] [b, u, d..] [b] -> [b, s, d..]; u whole",
             "ONNX Operators.md, TensorScatter-24", .shapes = shapes_tensor_scatter, .rule = rule_tensor_scatter,
             .lower = sp_lower_tensor_scatter),
    {.name = NULL},
};
