/*
 * Operators of ONNX Runtime that are about devices themselves (com.microsoft, builds with NCCL).
 *
 *     AllReduce      [i..] -> [i..]                    the sum over all devices
 *     AllGather      [i.., a] -> [i.., group*a]        pieces of all devices, one behind the other along `axis`
 *     AllToAll       [a, i..] -> [a, i..]              block j of axis 0 goes to device j
 *     Distributed..  as the operator that it distributes
 *
 * The three collectives stand in models that were made for one device each: their operands are what that device has, so
 * their axes are not axes of the whole. Their rules say what another split of such a model could do.
 *
 * A Distributed operator has the operands of the operator without the prefix, as they are all together; how its
 * operands are split is in its attributes. It has that operator's shapes and rule.
 */
#include "ops/lowering/functions.h"
#include "ops/table/factors.h"
#include "ops/table/families.h"
#include "ops/table/like.h"
#include "ops/table/shape_helpers.h"

#define DOMAIN "com.microsoft"

/* ---- collectives ---------------------------------------------------------------------------------------------- */

/* Devices of a group; an axis that is joined or exchanged. AllGather's kernel takes axis 0 where its schema says 1. */
static enum sp_status read_group(struct sp_op_context *context, int64_t *ret_size)
{
    *ret_size = sp_node_int(context->node, "group_size", 1);
    if (*ret_size < 1)
        return sp_op_fail(context, "ATTRIBUTE_VALUE", "attribute 'group_size' is %lld", (long long)*ret_size);
    return SP_OK;
}

static enum sp_status read_gather(struct sp_op_context *context, int64_t *ret_size, uint32_t *ret_axis)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    enum sp_status status = read_group(context, ret_size);
    *ret_axis = 0;
    if (status == SP_OK && x != NULL)
        status = sp_normalize_axis(context, sp_node_int(context->node, "axis", 0), x->rank, ret_axis);
    return status;
}

static enum sp_status shapes_reduce(struct sp_op_context *context)
{
    for (uint32_t i = 0; i < context->node->output_count && i < context->node->input_count; i++) {
        enum sp_status status = sp_set_output_shape(context, i, sp_in_dtype(context, i), sp_in_shape(context, i));
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

static enum sp_status rule_reduce(struct sp_op_context *context, struct sp_rule *rule)
{
    for (uint32_t i = 0; i < rule->output_count && i < rule->input_count; i++) {
        struct sp_factor_list list = {0};
        for (uint32_t axis = 0; axis < rule->inputs[i].rank; axis++) {
            uint8_t factor = sp_rule_input_axis(context, rule, (char)('d' + i % 8), i, axis, SP_FACTOR_PARALLEL);
            if (axis < rule->outputs[i].rank)
                sp_rule_map_output(rule, i, axis, factor);
            sp_factor_list_add(&list, factor);
        }
        if (i < SP_RULE_MAX_TERMS)
            sp_rule_term_list(rule, 1, &list);
    }
    return SP_OK;
}

static enum sp_status shapes_gather(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    int64_t size = 1;
    uint32_t joined = 0;
    enum sp_status status = read_gather(context, &size, &joined);
    if (status != SP_OK)
        return status;
    if (x == NULL)
        return sp_set_output_unranked(context, 0, sp_in_dtype(context, 0));
    struct sp_dim *dims = sp_new_dims(context, x->rank);
    if (dims == NULL)
        return sp_fail_memory(context->err);
    for (uint32_t axis = 0; axis < x->rank; axis++)
        dims[axis] = axis == joined ? sp_dim_mul(context->dims, x->dims[axis], sp_dim_known(size)) : x->dims[axis];
    return sp_set_output(context, 0, sp_in_dtype(context, 0), x->rank, dims);
}

static enum sp_status rule_gather(struct sp_op_context *context, struct sp_rule *rule)
{
    int64_t size = 1;
    uint32_t joined = 0;
    enum sp_status status = read_gather(context, &size, &joined);
    uint32_t rank = rule->inputs[0].rank;
    for (uint32_t axis = 0; status == SP_OK && axis < rank; axis++) {
        enum sp_factor_kind kind = axis == joined ? SP_FACTOR_REPLICATE : SP_FACTOR_PARALLEL;
        if (axis == joined)
            sp_rule_map_output(rule, 0, axis, sp_rule_factor(rule, "group", SP_FACTOR_REPLICATE, sp_dim_known(size)));
        sp_rule_map_output(rule, 0, axis, sp_rule_input_axis(context, rule, 'd', 0, axis, kind));
    }
    return status;
}

static enum sp_status shapes_exchange(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    int64_t size = 1;
    enum sp_status status = read_group(context, &size);
    if (status == SP_OK && x != NULL && x->rank > 0 && sp_dim_is_known(x->dims[0]) && x->dims[0].value % size != 0)
        return sp_op_fail(context, "OPERAND_SHAPE", "its %lld rows do not divide into %lld blocks",
                          (long long)x->dims[0].value, (long long)size);
    return status != SP_OK ? status : sp_set_output_shape(context, 0, sp_in_dtype(context, 0), x);
}

/* ---- Distributed.. -------------------------------------------------------------------------------------------- */

/* The operator of the standard in the first version in which what the distributed one takes as an input is one. */
#define DISTRIBUTES(name_, version_)                                                                                   \
    .like = &(const struct sp_op_like){"", name_, version_, .keeps_values = true}, .shapes = sp_shapes_like,           \
    .rule = sp_rule_like, .lower = sp_lower_one_of_many

/* How the operands are split: for each of them a string; the form from before October 2023 has one mesh for all. */
#define SHARDING_ATTRIBUTES                                                                                            \
    "device_mesh_elements:ints,device_mesh_shape:ints,input_device_mesh_elements:strings,"                             \
    "input_device_mesh_shapes:strings,input_shard_specs:strings,output_device_mesh_elements:strings,"                  \
    "output_device_mesh_shapes:strings,output_shard_specs:strings"

const struct sp_op sp_ops_distributed[] = {
    SP_ENTRY(DOMAIN, "AllReduce", 1, 0, 1, UINT32_MAX, 1, UINT32_MAX, "[i..] -> [i..]; of one device's operands",
             "ONNX Runtime contrib operator AllReduce (builds with NCCL)", .shapes = shapes_reduce, .rule = rule_reduce,
             .lower = sp_lower_one_of_many, .signature = "(*input) -> (*output) {}"),
    SP_ENTRY(DOMAIN, "AllGather", 1, 0, 1, 1, 1, 1,
             "[i.., a] -> [i.., group*a]; a, group whole; of one device's operands",
             "ONNX Runtime contrib operator AllGather (builds with NCCL)", .shapes = shapes_gather, .rule = rule_gather,
             .lower = sp_lower_one_of_many, .signature = "(input) -> (output) {axis:int=1,group_size:int=1}"),
    SP_ENTRY(DOMAIN, "AllToAll", 1, 0, 1, 1, 1, 1, "[a, i..] -> [a, i..]; a whole; of one device's operands",
             "ONNX Runtime contrib operator AllToAll (builds with NCCL)", .shapes = shapes_exchange,
             .lower = sp_lower_one_of_many, .signature = "(input) -> (output) {group_size:int=1}"),
    SP_ENTRY(DOMAIN, "DistributedMatMul", 1, 0, 2, 2, 1, 1, "[b.., m, k] [b.., k, n] -> [b.., m, n]; k sum",
             "ONNX Runtime contrib operator DistributedMatMul, ONNX operator MatMul", DISTRIBUTES("MatMul", 13),
             .signature = "(A,B) -> (Y) {" SHARDING_ATTRIBUTES "}"),
    SP_ENTRY(DOMAIN, "DistributedSlice", 1, 0, 3, 5, 1, 1,
             "as Slice: [d.., piece*i] -> [d.., i]; pieces whole; what is none of them moves, or is whole where its "
             "bounds are not known",
             "ONNX Runtime contrib operator DistributedSlice, ONNX operator Slice", DISTRIBUTES("Slice", 13),
             .signature = "(data,starts,ends,axes?,steps?) -> (output) {" SHARDING_ATTRIBUTES "}"),
    SP_ENTRY(DOMAIN, "DistributedReshape", 1, 0, 2, 2, 1, 1, "as Reshape: [a*b, c] -> [a, b*c]; others whole",
             "ONNX Runtime contrib operator DistributedReshape, ONNX operator Reshape", .flags = SP_OP_VIEW,
             DISTRIBUTES("Reshape", 14),
             .signature = "(data,shape) -> (reshaped) {allowzero:int=0," SHARDING_ATTRIBUTES "}"),
    SP_ENTRY(DOMAIN, "DistributedExpand", 1, 0, 2, 2, 1, 1, "as Expand: [i..] -> [n.., i..]",
             "ONNX Runtime contrib operator DistributedExpand, ONNX operator Expand", DISTRIBUTES("Expand", 13),
             .signature = "(input,shape) -> (output) {" SHARDING_ATTRIBUTES "}"),
    SP_ENTRY(
        DOMAIN, "DistributedReduceSum", 1, 0, 1, 2, 1, 1, "[i.., j..] -> [i..]; j.. sum",
        "ONNX Runtime contrib operator DistributedReduceSum, ONNX operator ReduceSum", DISTRIBUTES("ReduceSum", 18),
        .signature = "(input,axes?) -> (output) {keepdims:int=1,noop_with_empty_axes:int=0," SHARDING_ATTRIBUTES "}"),
    SP_ENTRY(
        DOMAIN, "DistributedReduceMax", 1, 0, 1, 2, 1, 1, "[i.., j..] -> [i..]; j.. max",
        "ONNX Runtime contrib operator DistributedReduceMax, ONNX operator ReduceMax", DISTRIBUTES("ReduceMax", 18),
        .signature = "(input,axes?) -> (output) {keepdims:int=1,noop_with_empty_axes:int=0," SHARDING_ATTRIBUTES "}"),
    SP_ENTRY(
        DOMAIN, "DistributedReduceMean", 1, 0, 1, 2, 1, 1, "[i.., j..] -> [i..]; j.. sum",
        "ONNX Runtime contrib operator DistributedReduceMean, ONNX operator ReduceMean", DISTRIBUTES("ReduceMean", 18),
        .signature = "(input,axes?) -> (output) {keepdims:int=1,noop_with_empty_axes:int=0," SHARDING_ATTRIBUTES "}"),
    SP_ENTRY(DOMAIN, "DistributedUnsqueeze", 1, 0, 2, 2, 1, 1, "[i..] -> [i.., 1..]",
             "ONNX Runtime contrib operator DistributedUnsqueeze, ONNX operator Unsqueeze", .flags = SP_OP_VIEW,
             DISTRIBUTES("Unsqueeze", 13), .signature = "(input,axes) -> (output) {" SHARDING_ATTRIBUTES "}"),
    SP_ENTRY(DOMAIN, "DistributedSqueeze", 1, 0, 2, 2, 1, 1, "[i.., 1..] -> [i..]",
             "ONNX Runtime contrib operator DistributedSqueeze, ONNX operator Squeeze", .flags = SP_OP_VIEW,
             DISTRIBUTES("Squeeze", 13), .signature = "(input,axes) -> (output) {" SHARDING_ATTRIBUTES "}"),
    {.name = NULL},
};
