/*
 * Rotary position embeddings: pairs of elements of each head are turned by an angle that depends on the position.
 *
 *     [b, h, s, two*r] or packed [b, s, h*two*r]      halves: element i is paired with element r + i
 *     [b, h, s, r*two] or packed [b, s, h*r*two]      interleaved: neighbours are paired
 *
 * Cosines and sines are [b, s, r], or [p, r] where positions pick a row of p. r is parallel: a split of it keeps pairs
 * together, as it is the minor part in one layout and the major part in the other. Where only some of a head's
 * elements are turned, a head is whole.
 *
 * FLOPs: 3 for each element (two products and a sum).
 */
#include "ops/families/neural/heads.h"
#include "ops/lowering/functions.h"
#include "ops/table/families.h"
#include "ops/table/traffic.h"

/* Where an operator has its operands, and what it is told. */
struct rotary {
    uint32_t cos, sin, positions; /* inputs */
    int64_t heads;                /* of a packed operand */
    bool is_partial, is_interleaved;
    struct sp_heads x;
};

/* ---- shapes --------------------------------------------------------------------------------------------------- */

static enum sp_status check_caches(struct sp_op_context *context, const struct rotary *rotary)
{
    const struct sp_shape *cosines = sp_in_shape(context, rotary->cos), *sines = sp_in_shape(context, rotary->sin);
    bool has_rows = sp_has_input(context, rotary->positions); /* picked by position */
    for (uint32_t i = 0; i < 2; i++) {
        const struct sp_shape *cache = i == 0 ? cosines : sines;
        if (cache != NULL && cache->rank != (has_rows ? 2u : 3u))
            return sp_op_fail(context, "OPERAND_SHAPE", "its input %u has rank %u, and it has to be %u %s positions",
                              i == 0 ? rotary->cos : rotary->sin, cache->rank, has_rows ? 2 : 3,
                              has_rows ? "with" : "without");
    }
    if (cosines == NULL || sines == NULL)
        return SP_OK;
    return sp_check_same(context, "rotated pairs", cosines->dims[cosines->rank - 1], sines->dims[sines->rank - 1]);
}

/* RotaryEmbedding-23 of ONNX: the caches are inputs 1 and 2, positions input 3. */
static enum sp_status read_onnx(struct sp_op_context *context, struct rotary *ret_rotary)
{
    struct rotary rotary = {.cos = 1, .sin = 2, .positions = 3};
    rotary.heads = sp_node_int(context->node, "num_heads", 0);
    rotary.is_interleaved = sp_node_int(context->node, "interleaved", 0) != 0;
    enum sp_status status = sp_heads_read(context, 0, rotary.heads, &rotary.x);
    int64_t turned = sp_node_int(context->node, "rotary_embedding_dim", 0);
    rotary.is_partial = turned != 0 && !sp_dim_is(rotary.x.size, turned);
    if (status == SP_OK && turned != 0 && sp_dim_is_known(rotary.x.size) && turned > rotary.x.size.value)
        return sp_op_fail(context, "ATTRIBUTE_VALUE", "attribute 'rotary_embedding_dim' is %lld for heads of %lld",
                          (long long)turned, (long long)rotary.x.size.value);
    *ret_rotary = rotary;
    return status;
}

/* RotaryEmbedding of ONNX Runtime: positions are input 1, caches inputs 2 and 3. Without a number of heads, the width
   of the caches is half of a head. */
static enum sp_status read_contrib(struct sp_op_context *context, struct rotary *ret_rotary)
{
    struct rotary rotary = {.cos = 2, .sin = 3, .positions = 1};
    const struct sp_shape *x = sp_in_shape(context, 0), *cosines = sp_in_shape(context, 2);
    rotary.heads = sp_node_int(context->node, "num_heads", 0);
    rotary.is_interleaved = sp_node_int(context->node, "interleaved", 0) != 0;
    int64_t turned = sp_node_int(context->node, "rotary_embedding_dim", 0);
    rotary.is_partial = turned != 0;
    if (x != NULL && x->rank == 3 && rotary.heads == 0) {
        struct sp_dim size = cosines != NULL && cosines->rank == 2 ? cosines->dims[1] : sp_dim_unknown();
        size = sp_dim_mul(context->dims, size, sp_dim_known(2));
        struct sp_dim count = sp_dim_exact_div(context->dims, x->dims[2], size);
        rotary.x = (struct sp_heads){true, true, x->dims[0], x->dims[1], count, size};
        if (sp_dim_is_known(size) && sp_dim_is_known(x->dims[2]) &&
            (size.value == 0 || x->dims[2].value % size.value != 0))
            return sp_op_fail(context, "OPERAND_SHAPE", "its input has %lld elements for heads of %lld",
                              (long long)x->dims[2].value, (long long)size.value);
        *ret_rotary = rotary;
        return SP_OK;
    }
    enum sp_status status = sp_heads_read(context, 0, rotary.heads, &rotary.x);
    rotary.is_partial = turned != 0 && !sp_dim_is(rotary.x.size, turned);
    *ret_rotary = rotary;
    return status;
}

static enum sp_status shapes_rotary(struct sp_op_context *context, enum sp_status status, const struct rotary *rotary)
{
    if (status == SP_OK)
        status = check_caches(context, rotary);
    return status != SP_OK ? status : sp_set_output_shape(context, 0, sp_in_dtype(context, 0), sp_in_shape(context, 0));
}

static enum sp_status shapes_onnx(struct sp_op_context *context)
{
    struct rotary rotary = {0};
    enum sp_status status = read_onnx(context, &rotary);
    return shapes_rotary(context, status, &rotary);
}

static enum sp_status shapes_contrib(struct sp_op_context *context)
{
    struct rotary rotary = {0};
    enum sp_status status = read_contrib(context, &rotary);
    return shapes_rotary(context, status, &rotary);
}

/* ---- rule ----------------------------------------------------------------------------------------------------- */

/* The factors of a head's elements; *ret_pairs is what the caches' last axis is. */
static struct sp_chain map_size(struct sp_op_context *context, struct sp_rule *rule, const struct rotary *rotary,
                                uint8_t *ret_pairs)
{
    const struct sp_shape *cache = sp_in_shape(context, rotary->cos);
    struct sp_dim width = cache->dims[cache->rank - 1];
    struct sp_dim pairs = sp_dim_exact_div(context->dims, rotary->x.size, sp_dim_known(2));
    if (rotary->is_partial || !sp_dim_equal(pairs, width)) {
        *ret_pairs = sp_rule_factor(rule, "r", SP_FACTOR_REPLICATE, width);
        return sp_chain_of(sp_rule_factor(rule, "d", SP_FACTOR_REPLICATE, rotary->x.size));
    }
    *ret_pairs = sp_rule_factor(rule, "r", SP_FACTOR_PARALLEL, pairs);
    uint8_t two = sp_rule_factor(rule, "two", SP_FACTOR_REPLICATE, sp_dim_known(2));
    if (rotary->is_interleaved)
        return (struct sp_chain){.count = 2, .items = {*ret_pairs, two}};
    return (struct sp_chain){.count = 2, .items = {two, *ret_pairs}};
}

/* Positions of every element, or only the first one (shape [1]): then an element's place decides its angle. */
static bool has_first_position(struct sp_op_context *context, const struct rotary *rotary)
{
    const struct sp_shape *positions = sp_in_shape(context, rotary->positions);
    return positions != NULL && positions->rank < 2;
}

static enum sp_status rule_rotary(struct sp_op_context *context, struct sp_rule *rule, const struct rotary *rotary)
{
    struct sp_head_axes axes = {
        .batch = sp_rule_factor(rule, "b", SP_FACTOR_PARALLEL, rotary->x.batch),
        .length =
            sp_rule_factor(rule, "s", has_first_position(context, rotary) ? SP_FACTOR_REPLICATE : SP_FACTOR_PARALLEL,
                           rotary->x.length),
        .heads = sp_chain_of(sp_rule_factor(rule, "h", SP_FACTOR_PARALLEL, rotary->x.count)),
    };
    uint8_t pairs = 0, row = 0;
    struct sp_factor_list rows = {0}; /* that are read of the caches */
    axes.size = map_size(context, rule, rotary, &pairs);
    sp_map_heads(context, rule, sp_in(0), &axes);
    sp_map_heads(context, rule, sp_out(0), &axes);
    sp_rule_term_output(rule, 3);
    const struct sp_shape *positions = sp_in_shape(context, rotary->positions);
    if (positions != NULL)
        row = sp_rule_factor(rule, "p", SP_FACTOR_REPLICATE, sp_in_shape(context, rotary->cos)->dims[0]);
    for (uint32_t axis = 0; positions != NULL && positions->rank == 2 && axis < 2; axis++) {
        if (!sp_dim_is(positions->dims[axis], 1)) {
            sp_rule_map_input(rule, rotary->positions, axis, axis == 0 ? axes.batch : axes.length);
            sp_factor_list_add(&rows, axis == 0 ? axes.batch : axes.length);
        }
    }
    if (has_first_position(context, rotary))
        sp_factor_list_add(&rows, axes.length);
    for (uint32_t input = rotary->cos; input <= rotary->sin; input++) {
        const struct sp_shape *cache = sp_in_shape(context, input);
        sp_rule_map_input(rule, input, cache->rank - 1, pairs);
        if (positions != NULL)
            sp_rule_map_input(rule, input, 0, row);
        else if (!sp_dim_is(cache->dims[0], 1))
            sp_rule_map_input(rule, input, 0, axes.batch);
        if (positions == NULL && !sp_dim_is(cache->dims[1], 1))
            sp_rule_map_input(rule, input, 1, axes.length);
        if (positions != NULL)
            sp_rule_use_input(rule, input, sp_dim_share(sp_dim_known(1), cache->dims[0]), &rows);
    }
    return SP_OK;
}

static enum sp_status rule_onnx(struct sp_op_context *context, struct sp_rule *rule)
{
    struct rotary rotary = {0};
    enum sp_status status = read_onnx(context, &rotary);
    return status != SP_OK ? status : rule_rotary(context, rule, &rotary);
}

static enum sp_status rule_contrib(struct sp_op_context *context, struct sp_rule *rule)
{
    struct rotary rotary = {0};
    enum sp_status status = read_contrib(context, &rotary);
    return status != SP_OK ? status : rule_rotary(context, rule, &rotary);
}

const struct sp_op sp_ops_rotary[] = {
    SP_ENTRY("", "RotaryEmbedding", 23, 0, 3, 4, 1, 1,
             "[b, h, s, two*r] or [b, s, h*two*r], [b, s, r] [b, s, r] or [p, r] [p, r] [b, s] -> as the first; two, p "
             "whole; interleaved r*two",
             "ONNX operator RotaryEmbedding (23)", .shapes = shapes_onnx, .rule = rule_onnx, .lower = sp_lower_rotary),
    SP_ENTRY("com.microsoft", "RotaryEmbedding", 1, 0, 4, 4, 1, 1,
             "[b, h, s, two*r] or [b, s, h*two*r], [b, s] [p, r] [p, r] -> as the first; two, p whole; interleaved "
             "r*two; with one position s whole",
             "ONNX Runtime contrib operator RotaryEmbedding", .shapes = shapes_contrib, .rule = rule_contrib,
             .lower = sp_lower_rotary,
             .signature = "(input,position_ids,cos_cache,sin_cache) -> (output) {interleaved:int=0,"
                          "is_packed_batching:int=0,num_heads:int=0,rotary_embedding_dim:int=0,scale:float=1.0}"),
    {.name = NULL},
};
