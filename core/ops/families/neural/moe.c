/*
 * Mixtures of experts of ONNX Runtime (com.microsoft).
 *
 *     MoE     [n.., h] [n, experts] [x, two*i, h] [x, two*i] [x, h, i] [x, h] [x, i, h] [x, i] -> [n.., h]
 *     QMoE    the same with packed integers, and scales for each row or each block of a row
 *
 * Every token goes to the k experts that its row of router_probs prefers, and their results are added with weights.
 *
 *     n..      tokens, parallel
 *     x        experts, a sum reduction: a device with some of the experts adds what these contribute. The choice needs
 *              all experts of router_probs, so that axis is whole ("experts"), and a device is told which are its own.
 *     i        inner size, a sum reduction: columns of the first product and rows of the second; whole where the
 *              weights are older than ONNX Runtime 1.23 or packed for a kernel
 *     two      with swiglu_fusion the two halves of the first product, outside (2) or inside (1) of i; whole
 *     h        hidden size, whole: the first product sums over it before the activation
 *
 * Weights are [x, out, in], or [x, in, out] in models from before ONNX Runtime 1.23; which one is told from fc2, whose
 * shape differs unless both sizes are the same (then the newer).
 *
 * FLOPs: 2 for each multiply-add of the k experts of a token, 5 for the softmax over the experts. Tokens are spread over
 * the experts evenly: of E experts T tokens use E(1 - (1-k/E)^T) different ones, and the weights of these are read.
 *
 * Where a caller says how often each expert is chosen, a device takes as long as the one whose experts are sent most
 * (ops/table/load.h).
 *
 * Kernels, as runtimes have them (vLLM's fused_experts_impl; TensorRT-LLM's CutlassMoeFCRunner, which ONNX Runtime's is
 * made of): the choice of experts, the order of tokens by expert, the first products, the activation, the second product,
 * and the weighted sum of each token's k results. Of what they hand to each other the results of the first products (one
 * or two times i), those of the activation (i) and those of the second product (h) are of one element for each token and
 * each of its experts, written and read.
 */
#include <string.h>

#include "ops/families/neural/heads.h"
#include "ops/lowering/functions.h"
#include "ops/table/families.h"
#include "ops/table/traffic.h"

#define DOMAIN "com.microsoft"

enum { IN_X, IN_ROUTER, IN_FC1, IN_ROUTER_WEIGHTS = 14 };

#define NO_INPUT UINT32_MAX

/* The inputs of one fully connected layer of the experts; NO_INPUT where the operator has none such. */
struct layer_inputs {
    uint32_t weights, scales, bias, zero_points;
};

static const struct layer_inputs plain[] = {
    {2, NO_INPUT, 3, NO_INPUT}, {4, NO_INPUT, 5, NO_INPUT}, {6, NO_INPUT, 7, NO_INPUT}};
static const struct layer_inputs quantized[] = {{2, 3, 4, 11}, {5, 6, 7, 12}, {8, 9, 10, 13}};

struct experts {
    const struct layer_inputs *layers; /* three: fc1, fc2, fc3 */
    bool is_quantized, is_transposed;  /* [x, in, out] */
    int64_t pack;                      /* weights in one element */
    int64_t block;                     /* weights that share a scale, 0: a whole row */
    int64_t fused;                     /* swiglu_fusion */
    int64_t chosen;                    /* k */
    struct sp_dim count, hidden, inner;
};

/* ---- shapes --------------------------------------------------------------------------------------------------- */

static enum sp_status read_packing(struct sp_op_context *context, struct experts *e)
{
    const char *type = sp_node_string(context->node, "quant_type", "int");
    int64_t bits = sp_node_int(context->node, "expert_weight_bits", 4);
    e->block = sp_node_int(context->node, "block_size", 0);
    if (strcmp(type, "fp8") == 0)
        bits = 8;
    else if (strcmp(type, "int") != 0)
        bits = 4;
    if (strcmp(type, "fp4") == 0 || strcmp(type, "wfp4afp8") == 0)
        e->block = 32;
    else if (strcmp(type, "nvfp4") == 0)
        e->block = 16;
    if ((bits != 2 && bits != 4 && bits != 8) || e->block < 0)
        return sp_op_fail(context, "ATTRIBUTE_VALUE", "it has weights of %lld bits in blocks of %lld", (long long)bits,
                          (long long)e->block);
    e->pack = 8 / bits;
    return SP_OK;
}

/* [x, in, out] where fc2 is [x, i, h] and surely not [x, h, i]. */
static bool is_transposed(const struct sp_shape *x, const struct sp_shape *fc2)
{
    if (x == NULL || fc2 == NULL)
        return false;
    struct sp_dim hidden = x->dims[x->rank - 1];
    return sp_dim_equal(fc2->dims[2], hidden) && !sp_dim_equal(fc2->dims[1], hidden);
}

static enum sp_status check_layers(struct sp_op_context *context, const struct experts *e)
{
    const struct sp_shape *x = sp_in_shape(context, IN_X);
    if (x != NULL && x->rank != 2 && x->rank != 3)
        return sp_op_fail(context, "OPERAND_SHAPE", "its input has rank %u instead of 2 or 3", x->rank);
    for (uint32_t i = 0; i < 3; i++) {
        const struct sp_shape *weights = sp_in_shape(context, e->layers[i].weights);
        if (i < 2 && !sp_has_input(context, e->layers[i].weights))
            return sp_op_fail(context, "MISSING_INPUT", "its input %u, the weights of the experts, is missing",
                              e->layers[i].weights);
        if (weights != NULL && weights->rank != 3)
            return sp_op_fail(context, "OPERAND_SHAPE", "its input %u has rank %u instead of 3", e->layers[i].weights,
                              weights->rank);
    }
    return SP_OK;
}

static enum sp_status read_experts(struct sp_op_context *context, bool is_quantized, struct experts *ret)
{
    struct experts e = {.layers = is_quantized ? quantized : plain, .is_quantized = is_quantized, .pack = 1};
    enum sp_status status = check_layers(context, &e);
    if (status == SP_OK && is_quantized)
        status = read_packing(context, &e);
    if (status != SP_OK)
        return status;
    const struct sp_shape *x = sp_in_shape(context, IN_X), *fc2 = sp_in_shape(context, e.layers[1].weights);
    const struct sp_shape *fc1 = sp_in_shape(context, IN_FC1);
    e.fused = sp_node_int(context->node, "swiglu_fusion", 0);
    e.chosen = sp_node_int(context->node, "k", 1);
    if (e.fused < 0 || e.fused > 2 || e.chosen < 1)
        return sp_op_fail(context, "ATTRIBUTE_VALUE", "its attributes 'swiglu_fusion' and 'k' are %lld and %lld",
                          (long long)e.fused, (long long)e.chosen);
    e.is_transposed = !is_quantized && is_transposed(x, fc2);
    e.hidden = x != NULL ? x->dims[x->rank - 1] : sp_dim_unknown();
    e.count = fc1 != NULL ? fc1->dims[0] : fc2 != NULL ? fc2->dims[0] : sp_dim_unknown();
    e.inner = fc2 != NULL ? fc2->dims[e.is_transposed ? 1 : 2] : sp_dim_unknown();
    e.inner = sp_dim_mul(context->dims, e.inner, sp_dim_known(e.pack));
    struct sp_dim twice = sp_dim_mul(context->dims, e.inner, sp_dim_known(2));
    if (e.fused == 0 && fc1 != NULL && sp_dim_equal(fc1->dims[e.is_transposed ? 2 : 1], twice))
        e.fused = 1; /* models from before there was the attribute */
    if (fc2 != NULL)
        status = sp_check_same(context, "hidden sizes", e.hidden, fc2->dims[e.is_transposed ? 2 : 1]);
    *ret = e;
    return status;
}

static enum sp_status shapes_moe(struct sp_op_context *context)
{
    struct experts e = {.layers = plain, .pack = 1};
    enum sp_status status = read_experts(context, false, &e);
    return status != SP_OK ? status
                           : sp_set_output_shape(context, 0, sp_in_dtype(context, IN_X), sp_in_shape(context, IN_X));
}

static enum sp_status shapes_qmoe(struct sp_op_context *context)
{
    struct experts e = {.layers = plain, .pack = 1};
    enum sp_status status = read_experts(context, true, &e);
    return status != SP_OK ? status
                           : sp_set_output_shape(context, 0, sp_in_dtype(context, IN_X), sp_in_shape(context, IN_X));
}

/* ---- rule ----------------------------------------------------------------------------------------------------- */

/* The inner size as fc2's rows hold it: in pieces of `unit` weights that no element, scale or zero point straddles. */
struct inner {
    uint8_t pieces, rest; /* i = pieces * rest; the same factor twice where the unit is 1 */
    int64_t unit;
    bool is_whole; /* the unit does not divide it */
};

struct moe_factors {
    uint8_t x, h, two;
    struct inner inner;
};

static int64_t unit_of(struct sp_op_context *context, const struct experts *e)
{
    int64_t unit = e->block != 0 ? e->block : 1;
    bool has_zero_points = false;
    for (uint32_t i = 0; e->is_quantized && i < 3; i++)
        has_zero_points = has_zero_points || sp_has_input(context, e->layers[i].zero_points);
    return has_zero_points || unit < e->pack ? unit * e->pack : unit;
}

static struct inner make_inner(struct sp_op_context *context, struct sp_rule *rule, const struct experts *e)
{
    struct inner inner = {.unit = unit_of(context, e)};
    struct sp_dim pieces = sp_dim_exact_div(context->dims, e->inner, sp_dim_known(inner.unit));
    if (pieces.kind == SP_DIM_UNKNOWN || inner.unit % e->pack != 0) {
        inner.is_whole = true;
        inner.pieces = inner.rest = sp_rule_factor(rule, "i", SP_FACTOR_REPLICATE, e->inner);
        return inner;
    }
    inner.pieces = inner.rest = sp_factor_reduction(rule, "i", pieces, SP_COMBINE_SUM);
    if (inner.unit != 1)
        inner.rest = sp_rule_factor(rule, "ib", SP_FACTOR_REPLICATE, sp_dim_known(inner.unit));
    return inner;
}

/* The inner size in the outputs of fc1 and fc3, where each element is one. */
static struct sp_chain inner_chain(const struct inner *inner)
{
    struct sp_chain chain = sp_chain_of(inner->pieces);
    if (inner->rest != inner->pieces)
        chain.items[chain.count++] = inner->rest;
    return chain;
}

static struct sp_chain outer_chain(const struct experts *e, const struct moe_factors *f, bool is_fused)
{
    struct sp_chain inner = inner_chain(&f->inner);
    if (!is_fused)
        return inner;
    if (e->fused == 1) {
        inner.items[inner.count++] = f->two;
        return inner;
    }
    struct sp_chain chain = sp_chain_of(f->two);
    for (uint32_t i = 0; i < inner.count; i++)
        chain.items[chain.count++] = inner.items[i];
    return chain;
}

/* An axis that holds the inner size with `each` weights in one element (packed weights, scales of blocks). */
static void map_inner(struct sp_rule *rule, uint32_t input, uint32_t axis, const struct inner *inner, int64_t each)
{
    if (inner->is_whole || inner->unit % each != 0)
        return;
    sp_rule_map_input(rule, input, axis, inner->pieces);
    if (inner->unit == each)
        return;
    struct sp_dim rest = sp_dim_known(inner->unit / each);
    uint8_t factor = each == 1 ? inner->rest : sp_rule_factor(rule, "ie", SP_FACTOR_REPLICATE, rest);
    sp_rule_map_input(rule, input, axis, factor);
}

/* fc1 and fc3: [x, (two) i, h] with bias and scales [x, (two) i] or [x, (two) i, blocks of h]. */
static void map_first(struct sp_op_context *context, struct sp_rule *rule, const struct experts *e,
                      const struct moe_factors *f, const struct layer_inputs *layer, bool is_fused)
{
    const struct sp_chain out = outer_chain(e, f, is_fused);
    const uint32_t inputs[] = {layer->weights, layer->scales, layer->bias, layer->zero_points};
    for (uint32_t i = 0; i < 4; i++) {
        const struct sp_shape *shape = inputs[i] == NO_INPUT ? NULL : sp_in_shape(context, inputs[i]);
        if (shape == NULL || shape->rank < 2)
            continue;
        sp_rule_map_input(rule, inputs[i], 0, f->x);
        if (i == 0 && e->is_transposed) {
            sp_rule_map_input(rule, inputs[i], 1, f->h);
            sp_map_chain(rule, sp_in(inputs[i]), 2, &out);
            continue;
        }
        bool is_packed = i == 3 && shape->rank == 2; /* zero points of rows, several in an element */
        if (!is_packed)
            sp_map_chain(rule, sp_in(inputs[i]), 1, &out);
        else if (!is_fused)
            map_inner(rule, inputs[i], 1, &f->inner, e->pack);
        if (i == 0 && e->pack == 1)
            sp_rule_map_input(rule, inputs[i], 2, f->h);
    }
}

/* fc2: [x, h, i] with bias and scales [x, h] or [x, h, blocks of i]. */
static void map_second(struct sp_op_context *context, struct sp_rule *rule, const struct experts *e,
                       const struct moe_factors *f, const struct layer_inputs *layer)
{
    const uint32_t inputs[] = {layer->weights, layer->scales, layer->bias, layer->zero_points};
    const int64_t each[] = {e->pack, e->block, 1, e->block * e->pack}; /* weights to an element of the last axis */
    for (uint32_t i = 0; i < 4; i++) {
        const struct sp_shape *shape = inputs[i] == NO_INPUT ? NULL : sp_in_shape(context, inputs[i]);
        if (shape == NULL || shape->rank < 2)
            continue;
        sp_rule_map_input(rule, inputs[i], 0, f->x);
        uint32_t hidden_axis = i == 0 && e->is_transposed ? 2 : 1;
        if (i != 3 || shape->rank == 3) /* zero points of rows are packed: whole */
            sp_rule_map_input(rule, inputs[i], hidden_axis, f->h);
        if (shape->rank == 3 && each[i] != 0)
            map_inner(rule, inputs[i], 3 - hidden_axis, &f->inner, each[i]);
    }
}

/* Zero points of fused rows that are packed follow no split of the rows. */
static bool has_odd_zero_points(struct sp_op_context *context, const struct experts *e)
{
    const struct sp_shape *points = e->is_quantized ? sp_in_shape(context, e->layers[0].zero_points) : NULL;
    return points != NULL && points->rank == 2 && e->fused != 0 && e->pack > 1;
}

static void make_whole(struct sp_rule *rule, uint8_t factor)
{
    if (factor >= rule->factor_count)
        return;
    rule->factors[factor].kind = SP_FACTOR_REPLICATE;
    rule->factors[factor].combiner = SP_COMBINE_NONE;
}

/* A sparse mixer chooses its second expert in a way of its own; and runtimes differ in what the weights of quantized
   experts are where they are not normalized: softmax of all, or of those that were chosen. */
static bool may_split_experts(struct sp_op_context *context, bool is_quantized)
{
    bool is_normalized = sp_node_int(context->node, "normalize_routing_weights", 0) != 0;
    return sp_node_int(context->node, "use_sparse_mixer", 0) == 0 &&
           (!is_quantized || is_normalized || sp_has_input(context, IN_ROUTER_WEIGHTS));
}

/* Shapes of older weights do not say how they lie in memory, and packed ones are for one kernel. */
static bool may_split_inner(struct sp_op_context *context, const struct experts *e)
{
    return !e->is_transposed && sp_node_int(context->node, "weights_prepacked", -1) <= 0;
}

#define KERNELS 6

static void add_work(struct sp_op_context *context, struct sp_rule *rule, const struct experts *e,
                     const struct moe_factors *f, const struct sp_factor_list *tokens, uint8_t experts)
{
    uint8_t chosen = sp_rule_factor(rule, "k", SP_FACTOR_REPLICATE, sp_dim_known(e->chosen));
    struct sp_factor_list rows = *tokens, routing = *tokens;
    const double firsts = e->fused != 0 || sp_has_input(context, e->layers[2].weights) ? 2 : 1;
    const struct sp_chain inner = inner_chain(&f->inner);
    sp_factor_list_add(&rows, chosen);
    /* Of the k experts of a token, as many as the part of all that the weights are. */
    struct sp_dim all = rule->factors[experts].extent;
    const double among = sp_dim_is_known(all) && all.value > 0 && sp_dim_is_known(e->count) ? (double)all.value : 0;
    const double each = among > 0 ? 1 / among : 1;
    if (among > 0) /* k / all of them, by each expert */
        sp_factor_list_add(&rows, f->x);
    struct sp_factor_list inner_rows = rows, hidden_rows = rows;
    for (uint32_t i = 0; i < inner.count; i++)
        sp_factor_list_add(&inner_rows, inner.items[i]);
    sp_factor_list_add(&hidden_rows, f->h);
    struct sp_factor_list work = inner_rows;
    sp_factor_list_add(&work, f->h);
    sp_rule_term_list(rule, 2 * (firsts + 1) * each, &work);
    sp_factor_list_add(&routing, experts);
    sp_rule_term_list(rule, 5, &routing);
    sp_rule_run_as(rule, &(struct sp_rule_kernels){.count = KERNELS,
                                                   .passed = {2 * (firsts + 1) * each, 2 * each},
                                                   .factors = {inner_rows, hidden_rows}});
}

static void map_tokens(struct sp_op_context *context, struct sp_rule *rule, const struct moe_factors *f,
                       struct sp_factor_list *tokens, uint8_t experts)
{
    static const uint32_t routers[] = {IN_ROUTER, IN_ROUTER_WEIGHTS};
    const struct sp_shape *x = sp_in_shape(context, IN_X);
    for (uint32_t axis = 0; axis + 1 < x->rank; axis++) {
        uint8_t factor = sp_rule_input_axis(context, rule, 'n', IN_X, axis, SP_FACTOR_PARALLEL);
        sp_rule_map_output(rule, 0, axis, factor);
        sp_factor_list_add(tokens, factor);
    }
    sp_rule_map_input(rule, IN_X, x->rank - 1, f->h);
    sp_rule_map_output(rule, 0, x->rank - 1, f->h);
    for (uint32_t i = 0; i < 2; i++) {
        const struct sp_shape *router = sp_in_shape(context, routers[i]);
        if (router == NULL || router->rank < 2)
            continue;
        for (uint32_t axis = 0; axis + 1 < router->rank; axis++) {
            if (router->rank == x->rank)
                sp_rule_map_input(rule, routers[i], axis, tokens->items[axis]);
            else if (router->rank == 2) /* [tokens, experts] of an input [batch, sequence, hidden] */
                for (uint32_t token = 0; token < tokens->count; token++)
                    sp_rule_map_input(rule, routers[i], axis, tokens->items[token]);
        }
        sp_rule_map_input(rule, routers[i], router->rank - 1, experts);
    }
}

static enum sp_status rule_experts(struct sp_op_context *context, struct sp_rule *rule, bool is_quantized,
                                   bool is_sharded)
{
    struct experts e = {.layers = plain, .pack = 1};
    struct moe_factors f = {0};
    struct sp_factor_list tokens = {0};
    enum sp_status status = read_experts(context, is_quantized, &e);
    if (status != SP_OK)
        return status;
    /* ShardedMoE has the weights of one device's experts, and the router's answer for all of them. */
    const struct sp_shape *router = sp_in_shape(context, IN_ROUTER);
    struct sp_dim all = router != NULL && router->rank >= 2 ? router->dims[router->rank - 1] : e.count;
    status = is_sharded ? SP_OK : sp_check_same(context, "numbers of experts", all, e.count);
    if (status != SP_OK)
        return status;
    uint8_t experts = sp_rule_factor(rule, "experts", SP_FACTOR_REPLICATE, all);
    f.x = sp_factor_reduction(rule, "x", e.count, SP_COMBINE_SUM);
    f.h = sp_rule_factor(rule, "h", SP_FACTOR_REPLICATE, e.hidden);
    f.inner = make_inner(context, rule, &e);
    if (e.fused != 0)
        f.two = sp_rule_factor(rule, "two", SP_FACTOR_REPLICATE, sp_dim_known(2));
    if (!may_split_experts(context, is_quantized))
        make_whole(rule, f.x);
    if (has_odd_zero_points(context, &e) || !may_split_inner(context, &e))
        make_whole(rule, f.inner.pieces);
    map_tokens(context, rule, &f, &tokens, experts);
    map_first(context, rule, &e, &f, &e.layers[0], e.fused != 0);
    map_second(context, rule, &e, &f, &e.layers[1]);
    map_first(context, rule, &e, &f, &e.layers[2], false);
    for (uint32_t input = 15; is_quantized && input < 19; input++) { /* scales of whole experts and activations */
        const struct sp_shape *scale = sp_in_shape(context, input);
        if (scale != NULL && scale->rank == 1 && !sp_dim_is(scale->dims[0], 1))
            sp_rule_map_input(rule, input, 0, f.x);
    }
    add_work(context, rule, &e, &f, &tokens, experts);
    if (!is_sharded) /* of which a device knows its own experts alone */
        sp_rule_draw_each(context, rule, f.x, (double)e.chosen);
    const double chance = sp_dim_share(sp_dim_known(e.chosen), all);
    for (uint32_t input = IN_FC1; input < rule->input_count; input++) { /* what there is of each expert */
        const struct sp_operand_rule *operand = &rule->inputs[input];
        if (operand->rank > 0 && operand->axes[0].count == 1 && operand->axes[0].factors[0] == f.x)
            sp_rule_draw_input(rule, input, chance, &tokens);
    }
    return SP_OK;
}

static enum sp_status rule_moe(struct sp_op_context *context, struct sp_rule *rule)
{
    return rule_experts(context, rule, false, false);
}

static enum sp_status rule_sharded(struct sp_op_context *context, struct sp_rule *rule)
{
    return rule_experts(context, rule, false, true);
}

static enum sp_status rule_qmoe(struct sp_op_context *context, struct sp_rule *rule)
{
    return rule_experts(context, rule, true, false);
}

#define MOE_ATTRIBUTES                                                                                                 \
    "activation_alpha:float,activation_beta:float,activation_type:string=relu,k:int=1,"                                \
    "normalize_routing_weights:int=0,swiglu_fusion:int=0,swiglu_limit:float,use_sparse_mixer:int=0"

const struct sp_op sp_ops_moe[] = {
    SP_ENTRY(DOMAIN, "MoE", 1, 0, 3, 8, 1, 1,
             "[n.., h] [n.., experts] [x, two*i, h] [x, two*i] [x, h, i] [x, h] [x, i, h] [x, i] -> [n.., h]; x, i "
             "sum, h, two, experts whole, with a sparse mixer x whole, in older models i whole",
             "ONNX Runtime contrib operator MoE", .shapes = shapes_moe, .rule = rule_moe, .lower = sp_lower_moe,
             .signature = "(input,router_probs,fc1_experts_weights,fc1_experts_bias?,fc2_experts_weights,"
                          "fc2_experts_bias?,fc3_experts_weights?,fc3_experts_bias?) -> (output) {" MOE_ATTRIBUTES "}"),
    SP_ENTRY(
        DOMAIN, "QMoE", 1, 0, 3, 21, 1, 1,
        "[n.., h] [n.., experts] [x, two*i*ib, _] [x, two*i*ib] [x, two*i*ib] [x, h, i*_] [x, h] [x, h] -> [n.., h]; x "
        "sum, i sum in blocks, h, two, experts whole, without normalization x whole, packed for a kernel i whole",
        "ONNX Runtime contrib operator QMoE", .shapes = shapes_qmoe, .rule = rule_qmoe, .lower = sp_lower_moe,
        .signature = "(input,router_probs,fc1_experts_weights,fc1_scales?,fc1_experts_bias?,"
                     "fc2_experts_weights,fc2_scales?,fc2_experts_bias?,fc3_experts_weights?,fc3_scales?,"
                     "fc3_experts_bias?,fc1_zero_points?,fc2_zero_points?,fc3_zero_points?,"
                     "router_weights?,fc1_global_scale?,fc2_global_scale?,fc1_act_scale?,fc2_act_scale?,"
                     "fc1_act_block_scale?,fc2_act_block_scale?) -> (output) {" MOE_ATTRIBUTES
                     ",accuracy_level:int=0,block_size:int,expert_weight_bits:int=4,quant_type:string=int,"
                     "weights_prepacked:int=-1}"),
    SP_ENTRY(DOMAIN, "ShardedMoE", 1, 0, 3, 8, 1, 1,
             "as MoE, on the experts or inner parts of one device; the operator joins them itself: x, i sum, h, two, "
             "experts whole",
             "ONNX Runtime contrib operator ShardedMoE (builds with NCCL)", .shapes = shapes_moe, .rule = rule_sharded,
             .lower = sp_lower_one_of_many,
             .signature = "(input,router_probs,fc1_experts_weights,fc1_experts_bias?,fc2_experts_weights,"
                          "fc2_experts_bias?,fc3_experts_weights?,"
                          "fc3_experts_bias?) -> (output) {activation_type:string=relu,k:int=1,"
                          "local_experts_start_index:int=0,normalize_routing_weights:int=0,tensor_shards:int=1,"
                          "use_sparse_mixer:int=0}"),
    {.name = NULL},
};
