/*
 * GatherBlockQuantized of ONNX Runtime (com.microsoft): Gather of weights that are quantized in blocks, as embeddings of
 * small models are.
 *
 *     [v, k*kb] [i..] [v, k] [v, k] -> [i.., k*ke]     v sum
 *
 * The picked axis v is as in Gather. Along the quantized axis k counts blocks, of kb stored elements, which are ke
 * elements of the result (bytes hold several along the last axis). Zero points may be packed as the data are: then as
 * many blocks as share a byte stay together (kz). Where blocks or bytes do not divide the axis, it is whole.
 */
#include "base/limits.h"
#include "ops/families/neural/heads.h"
#include "ops/lowering/functions.h"
#include "ops/table/families.h"
#include "ops/table/traffic.h"

enum { IN_DATA, IN_INDICES, IN_SCALES, IN_ZERO_POINTS };

struct quantized {
    uint32_t rank, picked, axis; /* of the data; the quantized axis */
    int64_t pack;                /* elements of the result in one of the last axis */
    int64_t block;               /* in elements of the result */
};

static enum sp_status read_quantized(struct sp_op_context *context, struct quantized *ret)
{
    const struct sp_node *node = context->node;
    const struct sp_shape *data = sp_in_shape(context, IN_DATA);
    int64_t bits = sp_node_int(node, "bits", 4);
    struct quantized q = {.rank = data->rank, .pack = 1, .block = sp_node_int(node, "block_size", 128)};
    if (data->rank == 0)
        return sp_op_fail(context, "OPERAND_SHAPE", "its data are a scalar");
    enum sp_status status = sp_normalize_axis(context, sp_node_int(node, "gather_axis", 0), q.rank, &q.picked);
    if (status == SP_OK)
        status = sp_normalize_axis(context, sp_node_int(node, "quantize_axis", 1), q.rank, &q.axis);
    if (status == SP_OK)
        status = sp_check_rank(context, IN_SCALES, q.rank);
    if (status != SP_OK)
        return status;
    if (q.block < 0 || q.block > INT32_MAX)
        return sp_op_fail(context, "ATTRIBUTE_VALUE", "attribute 'block_size' is %lld", (long long)q.block);
    if (sp_in_dtype(context, IN_DATA) == SP_DTYPE_UINT8) {
        if (bits != 2 && bits != 4 && bits != 8)
            return sp_op_fail(context, "ATTRIBUTE_VALUE", "attribute 'bits' is %lld instead of 2, 4 or 8",
                              (long long)bits);
        q.pack = 8 / bits;
    }
    *ret = q;
    return SP_OK;
}

static enum sp_status shapes_gather(struct sp_op_context *context)
{
    const struct sp_shape *data = sp_in_shape(context, IN_DATA), *indices = sp_in_shape(context, IN_INDICES);
    struct sp_dim dims[2 * SP_MAX_RANK];
    struct quantized q = {0};
    uint32_t rank = 0;
    if (data == NULL || indices == NULL)
        return sp_set_output_unranked(context, 0, sp_in_dtype(context, IN_SCALES));
    enum sp_status status = read_quantized(context, &q);
    if (status != SP_OK)
        return status;
    for (uint32_t axis = 0; axis < q.rank; axis++) {
        for (uint32_t i = 0; axis == q.picked && i < indices->rank; i++)
            dims[rank++] = indices->dims[i];
        int64_t pack = axis + 1 == q.rank ? q.pack : 1;
        if (axis != q.picked)
            dims[rank++] = sp_dim_mul(context->dims, data->dims[axis], sp_dim_known(pack));
    }
    return sp_set_output(context, 0, sp_in_dtype(context, IN_SCALES), rank, dims);
}

/* The quantized axis in the data, the scales, the zero points and the result. */
static void map_blocks(struct sp_op_context *context, struct sp_rule *rule, const struct quantized *q, uint32_t out)
{
    const struct sp_shape *data = sp_in_shape(context, IN_DATA), *scales = sp_in_shape(context, IN_SCALES);
    int64_t pack = q->axis + 1 == q->rank ? q->pack : 1;
    int64_t shared = sp_has_input(context, IN_ZERO_POINTS) ? pack : 1;
    struct sp_dim stored = data->dims[q->axis], blocks = scales->dims[q->axis];
    bool is_even = q->block > 0 && q->block % pack == 0 && sp_dim_is_known(stored) && sp_dim_is_known(blocks) &&
                   stored.value % (q->block / pack) == 0 && blocks.value == stored.value / (q->block / pack) &&
                   blocks.value % shared == 0;
    if (!is_even) {
        uint8_t whole = sp_rule_factor(rule, "k", SP_FACTOR_REPLICATE, stored);
        sp_rule_map_input(rule, IN_DATA, q->axis, whole);
        return;
    }
    struct sp_chain chain =
        sp_chain_of(sp_rule_factor(rule, "k", SP_FACTOR_PARALLEL, sp_dim_known(blocks.value / shared)));
    if (sp_has_input(context, IN_ZERO_POINTS))
        sp_map_chain(rule, sp_in(IN_ZERO_POINTS), q->axis, &chain);
    if (shared > 1)
        chain.items[chain.count++] = sp_rule_factor(rule, "kz", SP_FACTOR_REPLICATE, sp_dim_known(shared));
    sp_map_chain(rule, sp_in(IN_SCALES), q->axis, &chain);
    struct sp_chain result = chain;
    chain.items[chain.count++] = sp_rule_factor(rule, "kb", SP_FACTOR_REPLICATE, sp_dim_known(q->block / pack));
    sp_map_chain(rule, sp_in(IN_DATA), q->axis, &chain);
    result.items[result.count++] = pack == 1 ? chain.items[chain.count - 1]
                                             : sp_rule_factor(rule, "ke", SP_FACTOR_REPLICATE, sp_dim_known(q->block));
    sp_map_chain(rule, sp_out(0), out, &result);
}

/* Scales and zero points of 1 along an axis are those of all its elements. */
static void map_parameters(struct sp_op_context *context, struct sp_rule *rule, uint32_t axis, uint8_t factor)
{
    for (uint32_t input = IN_SCALES; input <= IN_ZERO_POINTS; input++) {
        const struct sp_shape *shape = sp_in_shape(context, input);
        if (shape != NULL && axis < shape->rank && !sp_dim_is(shape->dims[axis], 1))
            sp_rule_map_input(rule, input, axis, factor);
    }
}

static enum sp_status rule_gather(struct sp_op_context *context, struct sp_rule *rule)
{
    struct quantized q = {0};
    uint32_t places = rule->inputs[IN_INDICES].rank;
    struct sp_factor_list rows = {0};
    enum sp_status status = read_quantized(context, &q);
    for (uint32_t axis = 0; status == SP_OK && axis < q.rank; axis++) {
        uint32_t out = axis < q.picked ? axis : axis - 1 + places;
        bool is_packed = axis + 1 == q.rank && q.pack > 1;
        if (axis == q.picked) {
            /* Its blocks would be picked apart. */
            bool is_whole = axis == q.axis || is_packed;
            uint8_t v = sp_rule_input_axis(context, rule, 'v', IN_DATA, axis,
                                           is_whole ? SP_FACTOR_REPLICATE : SP_FACTOR_REDUCTION);
            rule->factors[v].combiner = is_whole ? SP_COMBINE_NONE : SP_COMBINE_SUM;
            sp_rule_positions_input(rule, IN_INDICES, v);
            if (!is_whole)
                map_parameters(context, rule, axis, v);
        } else if (axis == q.axis) {
            map_blocks(context, rule, &q, out);
        } else {
            uint8_t d = sp_rule_input_axis(context, rule, 'd', IN_DATA, axis,
                                           is_packed ? SP_FACTOR_REPLICATE : SP_FACTOR_PARALLEL);
            if (!is_packed)
                sp_rule_map_output(rule, 0, out, d);
            if (!is_packed)
                map_parameters(context, rule, axis, d);
        }
    }
    for (uint32_t axis = 0; status == SP_OK && axis < places; axis++) {
        uint8_t factor = sp_rule_input_axis(context, rule, 'i', IN_INDICES, axis, SP_FACTOR_PARALLEL);
        sp_rule_map_output(rule, 0, q.picked + axis, factor);
        sp_factor_list_add(&rows, factor);
    }
    sp_rule_term_output(rule, 2);
    for (uint32_t input = IN_DATA; status == SP_OK && input <= IN_ZERO_POINTS; input++) {
        const struct sp_shape *shape = sp_in_shape(context, input);
        if (input != IN_INDICES && shape != NULL && q.picked < shape->rank)
            sp_rule_use_input(rule, input, sp_dim_share(sp_dim_known(1), shape->dims[q.picked]), &rows);
    }
    return status;
}

const struct sp_op sp_ops_contrib_gather[] = {
    SP_ENTRY(
        "com.microsoft", "GatherBlockQuantized", 1, 0, 3, 4, 1, 1,
        "[v, d.., k*kz*kb] [i..] [v, d.., k*kz] [v, d.., k] -> [i.., d.., k*kz*ke]; v sum, kz, kb, ke whole; where "
        "blocks do not divide it k whole, v whole where it is the quantized axis",
        "ONNX Runtime contrib operator GatherBlockQuantized", .shapes = shapes_gather, .rule = rule_gather,
        .lower = sp_lower_gather_quantized,
        .signature = "(data,indices,scales,zero_points?) -> (output) {bits:int=4,block_size:int=128,"
                     "gather_axis:int=0,quantize_axis:int=1}"),
    {.name = NULL},
};
