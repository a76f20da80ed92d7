/*
 * Mixtures of experts of com.microsoft: MoE and QMoE.
 *
 *     p        softmax of router_probs over all experts
 *     w        of each token: p of the k experts with the largest router_probs, 0 of the others; divided by their sum with
 *              normalize_routing_weights; with router_weights these in the place of p
 *     y        sum over the experts x of w[x] (act(X fc1[x] + b1[x]) fc2[x] + b2[x])
 *
 * The choice is made in each part of the numbers by its own order, as TopK's is. Where the operator's definition leaves
 * open which experts are chosen and by which weights (use_sparse_mixer; QMoE, of which runtimes differ, without
 * normalisation), or not all experts are looked at, w[x] is a function of the whole row of router_probs and of x of which
 * nothing is known: that covers any choice.
 *
 * A gated activation of two halves (swiglu) is a function of the two of which nothing is known but its attributes, and so
 * is gelu, of which runtimes compute different ones. Quantised weights are integers less a zero point, times a scale;
 * numbers of another kind (fp4, ..) are a function of the integer.
 *
 * Source: the operators' schemas in ONNX Runtime; ops/families/neural/moe.c says what their operands are.
 */
#include <string.h>

#include "base/hash_map.h"
#include "base/limits.h"
#include "verify/operators/steps.h"

enum { IN_X, IN_ROUTER, IN_ROUTER_WEIGHTS = 14, IN_MORE = 15 };
enum { N, X, O, I, H }; /* tokens, experts, rows of the first product, inner size, hidden size */

#define NONE UINT32_MAX

struct layer {
    uint32_t weights, scales, bias, zero_points; /* inputs, or NONE */
};

static const struct layer plain[] = {{2, NONE, 3, NONE}, {4, NONE, 5, NONE}, {6, NONE, 7, NONE}};
static const struct layer quantised[] = {{2, 3, 4, 11}, {5, 6, 7, 12}, {8, 9, 10, 13}};

static const struct sp_numbers *operand(const struct sp_call *call, uint32_t input)
{
    return input == NONE ? NULL : sp_call_in(call, input);
}

/* ---- weights of experts ----------------------------------------------------------------------------------------- */

/* Several integers in each byte of the last axis, the lowest first. */
static struct sp_numbers *unpacked(struct sp_steps *steps, const struct sp_numbers *x, int64_t pack)
{
    struct sp_index_axis axes[SP_MAX_RANK];
    struct sp_numbers *out = NULL;
    if (steps->status != SP_OK || x->rank == 0 || x->rank > SP_MAX_RANK)
        return NULL;
    const uint32_t last = x->rank - 1, bits = (uint32_t)(8 / pack);
    const struct sp_index_axis *own = &x->axes[last];
    const uint64_t mask = (UINT64_C(1) << bits) - 1;
    memcpy(axes, x->axes, x->rank * sizeof *axes);
    axes[last] = (struct sp_index_axis){own->extent * pack, own->count * (uint32_t)pack, NULL};
    int64_t *at = own->at != NULL ? SP_NEW_ARRAY(steps->call->arena, axes[last].count, int64_t) : NULL;
    if (own->at != NULL && at == NULL) {
        steps->status = sp_fail_memory(steps->call->err);
        return NULL;
    }
    for (uint32_t i = 0; at != NULL && i < axes[last].count; i++)
        at[i] = own->at[i / pack] * pack + i % pack;
    axes[last].at = at;
    steps->status = sp_numbers_create(steps->call->arena, x->dtype, x->rank, axes, &out, steps->call->err);
    for (uint64_t i = 0; steps->status == SP_OK && i < out->count; i++) {
        const struct sp_number byte = x->items[i / (uint64_t)pack];
        const uint32_t shift = bits * (uint32_t)(i % (uint64_t)pack);
        const double real = fabs(byte.real) < 0x1p31 ? (double)((uint64_t)(int64_t)byte.real >> shift & mask) : NAN;
        out->items[i] = (struct sp_number){byte.field >> shift & mask, real};
    }
    if (steps->status == SP_OK)
        out->is_known = x->is_known;
    return out;
}

/* For each index of the last axis of [x, rows, columns] what a tensor has of its row [x, rows], or of its block of columns
   [x, rows, blocks]. */
static struct sp_numbers *beside(struct sp_steps *steps, const struct sp_numbers *scale, const struct sp_numbers *x,
                                 int64_t block)
{
    struct sp_numbers *out = NULL;
    if (steps->status != SP_OK)
        return NULL;
    const struct sp_index_axis one = sp_index_all(1);
    const struct sp_index_axis axes[] = {scale->axes[0], scale->axes[1], one};
    if (scale->rank == 2) {
        steps->status = sp_numbers_view(steps->call->arena, scale, 3, axes, &out, steps->call->err);
        return out;
    }
    const struct sp_index_axis *own = &x->axes[2], *blocks = &scale->axes[2];
    uint32_t *from = SP_NEW_ARRAY(steps->call->arena, own->count, uint32_t);
    if (from == NULL) {
        steps->status = sp_fail_memory(steps->call->err);
        return NULL;
    }
    for (uint32_t i = 0; steps->status == SP_OK && i < own->count; i++) {
        const int64_t at = block > 0             ? sp_index_find(blocks, sp_index_at(own, i) / block)
                           : blocks->extent == 1 ? 0
                                                 : -1;
        if (at < 0)
            steps->status = sp_call_refuse(steps->call, "its scales do not fit its weights");
        else
            from[i] = (uint32_t)at;
    }
    if (steps->status == SP_OK)
        steps->status = sp_numbers_take(steps->call->arena, scale, 2, own, from, &out, steps->call->err);
    return out;
}

/* The zero points of integers of so many bits, unpacked along the last axis, which may have some to spare. */
static struct sp_numbers *zero_points(struct sp_steps *steps, const struct sp_numbers *packed,
                                      const struct sp_numbers *scales, int64_t pack)
{
    const int64_t bits = 8 / pack;
    if (packed == NULL)
        return sp_step_number(steps, SP_DTYPE_UINT8, (double)(INT64_C(1) << (bits - 1)));
    struct sp_numbers *out = unpacked(steps, packed, pack);
    if (steps->status == SP_OK && (out == NULL || out->rank != scales->rank))
        steps->status = sp_call_refuse(steps->call, "its zero points do not fit its weights");
    if (steps->status != SP_OK)
        return NULL;
    const uint32_t last = out->rank - 1;
    if (out->axes[last].extent > scales->axes[last].extent)
        steps->status =
            sp_numbers_slice(steps->call->arena, out, last, (struct sp_index_run){0, 1, scales->axes[last].extent},
                             &out, steps->call->err);
    return out;
}

static struct sp_numbers *as_float(struct sp_steps *steps, const struct sp_numbers *x, enum sp_dtype dtype)
{
    struct sp_numbers *out = NULL;
    if (steps->status == SP_OK)
        steps->status = sp_numbers_create(steps->call->arena, dtype, x->rank, x->axes, &out, steps->call->err);
    for (uint64_t i = 0; steps->status == SP_OK && i < x->count; i++)
        out->items[i] = (struct sp_number){sp_field_of_int((int64_t)x->items[i].field), x->items[i].real};
    if (steps->status == SP_OK)
        out->is_known = x->is_known;
    return out;
}

/* Integers as the numbers of a format that is a matter of the kernel. */
static struct sp_numbers *decoded(struct sp_steps *steps, const struct sp_numbers *x, const char *format)
{
    const uint64_t tag = sp_tag(format);
    struct sp_numbers *out = NULL;
    if (steps->status == SP_OK)
        steps->status = sp_numbers_create(steps->call->arena, x->dtype, x->rank, x->axes, &out, steps->call->err);
    for (uint64_t i = 0; steps->status == SP_OK && i < x->count; i++)
        out->items[i] = (struct sp_number){sp_field_hash(tag, x->items[i].field), NAN};
    return out;
}

static int64_t pack_of(const struct sp_node *node)
{
    const char *format = sp_node_string(node, "quant_type", "int");
    const int64_t bits = strcmp(format, "int") == 0   ? sp_node_int(node, "expert_weight_bits", 4)
                         : strcmp(format, "fp8") == 0 ? 8
                                                      : 4;
    return bits == 2 || bits == 4 || bits == 8 ? 8 / bits : 0;
}

/* The weights of a layer as floats: [x, out, in]. */
static const struct sp_numbers *weights_of(struct sp_steps *steps, const struct layer *layer, enum sp_dtype dtype)
{
    struct sp_call *call = steps->call;
    const struct sp_numbers *packed = operand(call, layer->weights), *scales = operand(call, layer->scales);
    const char *format = sp_node_string(call->node, "quant_type", "int");
    const int64_t pack = pack_of(call->node);
    if (layer->scales == NONE)
        return packed;
    if (scales == NULL || (scales->rank != 2 && scales->rank != 3) || pack == 0) {
        steps->status = steps->status != SP_OK ? steps->status : sp_call_refuse(call, "its scales are missing");
        return NULL;
    }
    const int64_t block = sp_node_int(call->node, "block_size", 0);
    struct sp_numbers *own = unpacked(steps, packed, pack);
    if (strcmp(format, "int") != 0) {
        own = decoded(steps, own, format);
        own = own != NULL ? sp_step(steps, own, beside(steps, scales, own, block), sp_number_multiply) : NULL;
    } else {
        const struct sp_numbers *zero = zero_points(steps, operand(call, layer->zero_points), scales, pack);
        if (zero != NULL && zero->rank > 0)
            zero = beside(steps, zero, own, block);
        if (zero != NULL)
            zero = as_float(steps, zero, dtype);
        own = steps->status == SP_OK ? as_float(steps, own, dtype) : NULL;
        own = sp_step(steps, own, zero, sp_number_subtract);
        own =
            steps->status == SP_OK ? sp_step(steps, own, beside(steps, scales, own, block), sp_number_multiply) : NULL;
    }
    if (own != NULL)
        own->dtype = dtype;
    return own;
}

/* ---- which experts, and by which weights ------------------------------------------------------------------------ */

static bool is_chosen(const struct sp_number *row, uint32_t count, int64_t k, uint32_t expert, bool by_field)
{
    int64_t before = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_number a = row[i], b = row[expert];
        const bool is_more = by_field ? sp_field_is_less(b.field, a.field) : b.real < a.real,
                   is_less = by_field ? sp_field_is_less(a.field, b.field) : a.real < b.real;
        before += is_more || (!is_less && i < expert) ? 1 : 0;
    }
    return before < k;
}

/* The numbers of those that are chosen of each row, 0 of the others. */
static struct sp_numbers *chosen(struct sp_steps *steps, const struct sp_numbers *router,
                                 const struct sp_numbers *among)
{
    const int64_t k = sp_node_int(steps->call->node, "k", 1);
    struct sp_numbers *out = NULL;
    if (steps->status == SP_OK)
        steps->status = sp_numbers_create(steps->call->arena, among->dtype, 2, among->axes, &out, steps->call->err);
    for (uint64_t i = 0; steps->status == SP_OK && i < out->count; i++) {
        const uint32_t count = router->axes[1].count, expert = (uint32_t)(i % count);
        const struct sp_number *row = &router->items[i - expert];
        if (is_chosen(row, count, k, expert, true))
            out->items[i].field = among->items[i].field;
        if (is_chosen(row, count, k, expert, false))
            out->items[i].real = among->items[i].real;
    }
    return out;
}

/* A function of a row and of the expert. */
static void hide_choice(struct sp_numbers *weights, const struct sp_numbers *router, const struct sp_numbers *among)
{
    const uint32_t count = router->axes[1].count;
    const uint64_t tag = sp_tag("weights of experts");
    for (uint64_t row = 0; count > 0 && row < weights->count / count; row++) {
        uint64_t digest = tag;
        for (uint32_t i = 0; i < count; i++)
            digest = sp_scramble(sp_scramble(digest ^ router->items[row * count + i].field) ^
                                 (among != NULL ? among->items[row * count + i].field : 1));
        for (uint32_t i = 0; i < count; i++)
            weights->items[row * count + i].field = sp_field_hash(digest, (uint64_t)sp_index_at(&router->axes[1], i));
    }
}

static struct sp_numbers *routing(struct sp_steps *steps, bool is_quantised)
{
    const struct sp_call *call = steps->call;
    const struct sp_numbers *router = call->in[IN_ROUTER],
                            *given = is_quantised ? sp_call_in(call, IN_ROUTER_WEIGHTS) : NULL;
    const bool is_normalised = sp_node_int(call->node, "normalize_routing_weights", 0) != 0;
    const uint64_t experts = UINT64_C(1) << 1;
    if (given != NULL && (given->rank != 2 || !sp_index_equal(&given->axes[0], &router->axes[0]) ||
                          !sp_index_equal(&given->axes[1], &router->axes[1])))
        steps->status = sp_call_refuse(steps->call, "the weights of its experts do not fit their scores");
    const struct sp_numbers *among = given != NULL ? given : sp_step_softmax(steps, router, experts);
    struct sp_numbers *weights = chosen(steps, router, among);
    if (is_normalised)
        weights = sp_step(steps, weights, sp_step_fold(steps, weights, experts, sp_number_add), sp_number_divide);
    const bool is_open = sp_node_int(call->node, "use_sparse_mixer", 0) != 0 ||
                         (is_quantised && given == NULL && !is_normalised) ||
                         router->axes[1].count != router->axes[1].extent;
    if (steps->status == SP_OK && is_open)
        hide_choice(weights, router, given);
    return weights;
}

/* ---- what an expert computes ------------------------------------------------------------------------------------ */

static double real_gelu(double x)
{
    return x * 0.5 * (1 + erf(x * M_SQRT1_2));
}

/* A vector for each expert beside [n, x, o]. */
static struct sp_numbers *added(struct sp_steps *steps, struct sp_numbers *x, const struct sp_numbers *bias)
{
    return bias != NULL ? sp_step(steps, x, bias, sp_number_add) : x;
}

static struct sp_numbers *first_product(struct sp_steps *steps, const struct sp_numbers *x, const struct layer *layer,
                                        bool is_transposed)
{
    const struct sp_numbers *weights = weights_of(steps, layer, x->dtype);
    const struct sp_labelled a = {x, {N, H}}, b = {weights, {X, is_transposed ? H : O, is_transposed ? O : H}};
    return steps->status == SP_OK ? added(steps, sp_step_product(steps, &a, &b, 3, (const uint8_t[]){N, X, O}),
                                          operand(steps->call, layer->bias))
                                  : NULL;
}

/* The two halves of rows that are [i, 2], or [2, i]. */
static struct sp_numbers *half(struct sp_steps *steps, const struct sp_numbers *x, bool is_inside, int64_t which)
{
    struct sp_numbers *out = NULL;
    if (steps->status != SP_OK)
        return NULL;
    const int64_t inner = x->axes[2].extent / 2;
    const int64_t apart[] = {x->axes[0].extent, x->axes[1].extent, is_inside ? inner : 2, is_inside ? 2 : inner},
                  own[] = {x->axes[0].extent, x->axes[1].extent, inner};
    const uint32_t axis = is_inside ? 3 : 2;
    struct sp_numbers *both = sp_step_reshape(steps, x, 4, apart);
    if (steps->status == SP_OK)
        steps->status = sp_numbers_slice(steps->call->arena, both, axis, (struct sp_index_run){which, 1, 1}, &out,
                                         steps->call->err);
    return sp_step_reshape(steps, out, 3, own);
}

struct gate {
    uint64_t tag;
    double alpha, beta, limit;
};

static struct gate gate_of(const struct sp_node *node)
{
    const struct gate gate = {0, sp_node_float(node, "activation_alpha", 1), sp_node_float(node, "activation_beta", 0),
                              sp_node_float(node, "swiglu_limit", INFINITY)};
    struct gate out = gate;
    out.tag = sp_tag(sp_node_string(node, "activation_type", "relu")) ^ sp_scramble(sp_field_of_real(gate.alpha)) ^
              sp_scramble(sp_field_of_real(gate.beta) + 1) ^ sp_scramble(sp_field_of_real(gate.limit) + 2);
    return out;
}

/* Of two numbers, the gate and what passes it. */
static struct sp_numbers *gated(struct sp_steps *steps, const struct sp_numbers *a, const struct sp_numbers *b)
{
    const struct gate gate = gate_of(steps->call->node);
    struct sp_numbers *out = NULL;
    if (steps->status == SP_OK)
        steps->status = sp_numbers_create(steps->call->arena, a->dtype, a->rank, a->axes, &out, steps->call->err);
    if (steps->status == SP_OK && a->count != b->count)
        steps->status = sp_call_refuse(steps->call, "the halves of its activation are not looked at alike");
    for (uint64_t i = 0; steps->status == SP_OK && i < a->count; i++) {
        const double x = fmin(a->items[i].real, gate.limit),
                     linear = fmax(-gate.limit, fmin(gate.limit, b->items[i].real));
        out->items[i] = (struct sp_number){sp_field_hash(gate.tag ^ sp_scramble(a->items[i].field), b->items[i].field),
                                           x * sp_real_sigmoid(gate.alpha * x) * (linear + gate.beta)};
    }
    return out;
}

/* An activation of one number; NULL for a name that is none. */
static struct sp_numbers *activated(struct sp_steps *steps, struct sp_numbers *x)
{
    const char *name = sp_node_string(steps->call->node, "activation_type", "relu");
    if (steps->status != SP_OK || strcmp(name, "identity") == 0)
        return x;
    if (strcmp(name, "relu") == 0)
        return sp_step(steps, x, sp_step_number(steps, x->dtype, 0), sp_number_max);
    if (strcmp(name, "silu") == 0 || strcmp(name, "swiglu") == 0)
        return sp_step(steps, x, sp_step_apply(steps, x, "Sigmoid", sp_real_sigmoid), sp_number_multiply);
    if (strcmp(name, "gelu") == 0)
        return sp_step_apply(steps, x, "gelu of experts", real_gelu);
    steps->status = sp_call_refuse(steps->call, "its activation is not known");
    return NULL;
}

/* What the second product takes: [n, x, i]. */
static struct sp_numbers *hidden_rows(struct sp_steps *steps, const struct sp_numbers *x, const struct layer *layers,
                                      bool is_transposed, bool is_fused)
{
    const struct sp_node *node = steps->call->node;
    const bool is_inside = sp_node_int(node, "swiglu_fusion", 0) != 2;
    struct sp_numbers *first = first_product(steps, x, &layers[0], is_transposed);
    if (is_fused)
        return gated(steps, half(steps, first, is_inside, 0), half(steps, first, is_inside, 1));
    if (operand(steps->call, layers[2].weights) == NULL)
        return activated(steps, first);
    struct sp_numbers *passed = first_product(steps, x, &layers[2], is_transposed);
    return strcmp(sp_node_string(node, "activation_type", "relu"), "swiglu") == 0
               ? gated(steps, first, passed)
               : sp_step(steps, activated(steps, first), passed, sp_number_multiply);
}

/* ---- the operator ----------------------------------------------------------------------------------------------- */

static bool is_matrix_of_experts(const struct sp_numbers *x)
{
    return x != NULL && x->rank == 3;
}

/* Why it is not evaluated; NULL where it is. */
static const char *what_is_missing(const struct sp_call *call, const struct layer *layers, bool is_quantised)
{
    const struct sp_numbers *x = sp_call_in(call, IN_X), *router = sp_call_in(call, IN_ROUTER);
    if (x == NULL || router == NULL || (x->rank != 2 && x->rank != 3) || router->rank != 2 ||
        !is_matrix_of_experts(operand(call, layers[0].weights)) ||
        !is_matrix_of_experts(operand(call, layers[1].weights)) ||
        (operand(call, layers[2].weights) != NULL && !is_matrix_of_experts(operand(call, layers[2].weights))))
        return "its operands do not fit";
    for (uint32_t i = IN_MORE; i < call->in_count; i++) {
        if (call->in[i] != NULL)
            return "it has scales of activations";
    }
    if (is_quantised && sp_node_int(call->node, "weights_prepacked", -1) > 0)
        return "its weights are packed for a kernel";
    return NULL;
}

static enum sp_status evaluate_experts(struct sp_call *call)
{
    const bool is_quantised = strcmp(call->node->op_type, "QMoE") == 0;
    const struct layer *layers = is_quantised ? quantised : plain;
    struct sp_steps steps = {call, SP_OK};
    if (what_is_missing(call, layers, is_quantised) != NULL)
        return sp_evaluate_by_rule(call);
    const struct sp_numbers *x = call->in[IN_X], *fc1 = operand(call, layers[0].weights),
                            *fc2 = operand(call, layers[1].weights), *bias = operand(call, layers[1].bias);
    const int64_t hidden = x->axes[x->rank - 1].extent, pack = is_quantised ? pack_of(call->node) : 1;
    const bool is_transposed = !is_quantised && fc2->axes[2].extent == hidden && fc2->axes[1].extent != hidden;
    const int64_t inner = fc2->axes[is_transposed ? 1 : 2].extent * pack,
                  rows = fc1->axes[is_transposed ? 2 : 1].extent;
    int64_t tokens = 1;
    for (uint32_t i = 0; i + 1 < x->rank; i++)
        tokens *= x->axes[i].extent;
    if (rows != inner && rows != 2 * inner)
        return sp_call_refuse(call, "its weights do not fit together");
    const struct sp_numbers *flat = sp_step_reshape(&steps, x, 2, (const int64_t[]){tokens, hidden});
    const struct sp_numbers *weights = routing(&steps, is_quantised);
    const struct sp_numbers *made =
        steps.status == SP_OK ? hidden_rows(&steps, flat, layers, is_transposed, rows != inner) : NULL;
    const struct sp_numbers *second = steps.status == SP_OK ? weights_of(&steps, &layers[1], x->dtype) : NULL;
    if (steps.status != SP_OK)
        return steps.status;
    const struct sp_labelled operands[] = {
        {weights, {N, X}}, {made, {N, X, I}}, {second, {X, is_transposed ? I : H, is_transposed ? H : I}}};
    struct sp_numbers *y = NULL;
    steps.status = sp_numbers_contract(call->arena, 3, operands, 2, (const uint8_t[]){N, H}, &y, call->err);
    if (bias != NULL) {
        const struct sp_labelled a = {weights, {N, X}}, b = {bias, {X, H}};
        y = sp_step(&steps, y, sp_step_product(&steps, &a, &b, 2, (const uint8_t[]){N, H}), sp_number_add);
    }
    int64_t extents[3];
    for (uint32_t i = 0; i < x->rank; i++)
        extents[i] = x->axes[i].extent;
    if (y != NULL)
        y->dtype = x->dtype;
    call->out[0] = sp_step_reshape(&steps, y, x->rank, extents);
    return steps.status;
}

const struct sp_evaluator_entry sp_evaluators_experts[] = {
    {"MoE", evaluate_experts},
    {"QMoE", evaluate_experts},
    {NULL, NULL},
};
