/*
 * Attention and convolutions that carry a state from call to call.
 *
 *     LinearAttention       [b, t, kv*g*d] [b, t, kv*d] [b, t, kv*e] [b, kv, d, e] -> [b, t, kv*g*e] [b, kv, d, e]
 *     CausalConvWithState   [b, c, l] [c, 1, k] [c] [b, c, k-1] -> [b, c, l] [b, c, k-1]
 *
 * LinearAttention keeps a matrix for each head that every step of t changes: t is sequential. Heads are as in
 * attention.h. What a step adds is an outer product, so its rows (d) and columns (e) do not need each other; the output
 * sums over the rows. The rules "delta" and "gated_delta" subtract what the state already says of a key, which sums
 * over the rows inside of every step: there d is whole.
 *
 * CausalConvWithState is depthwise. An element needs the k-1 elements before it, the first ones those of the state that
 * is given; the state that is left is the last k-1 elements of all. Nobody needs what another has computed, so l is
 * split as any axis with neighbours is.
 *
 * FLOPs of LinearAttention, for each b, t, kv, d, e: 2 for the outer product and its sum, 2 for each query head, 1 for
 * the decay, 4 for the delta (a product and sum with the key, a difference, a factor). CausalConvWithState: 2 for each
 * element and tap, 1 for the bias and 2 for the activation.
 */
#include <string.h>

#include "ops/families/neural/heads.h"
#include "ops/lowering/functions.h"
#include "ops/table/families.h"
#include "ops/table/like.h"

/* ---- LinearAttention ------------------------------------------------------------------------------------------ */

enum { IN_QUERY, IN_KEY, IN_VALUE, IN_STATE, IN_DECAY, IN_BETA };

struct linear {
    struct sp_heads q, k, v;
    bool is_gated, is_delta;
};

static enum sp_status read_rule(struct sp_op_context *context, struct linear *linear)
{
    static const struct {
        const char *name;
        bool is_gated, is_delta;
    } rules[] = {{"linear", false, false}, {"gated", true, false}, {"delta", false, true}, {"gated_delta", true, true}};
    const char *name = sp_node_string(context->node, "update_rule", "gated_delta");
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (strcmp(name, rules[i].name) == 0) {
            linear->is_gated = rules[i].is_gated;
            linear->is_delta = rules[i].is_delta;
            return SP_OK;
        }
    }
    return sp_op_fail(context, "ATTRIBUTE_VALUE",
                      "attribute 'update_rule' is '%.40s' instead of linear, gated, delta or gated_delta", name);
}

static enum sp_status read_linear(struct sp_op_context *context, struct linear *ret_linear)
{
    int64_t q_heads = sp_node_int(context->node, "q_num_heads", 0);
    int64_t kv_heads = sp_node_int(context->node, "kv_num_heads", 0);
    enum sp_status status = read_rule(context, ret_linear);
    if (status == SP_OK && (q_heads < 1 || kv_heads < 1 || q_heads % kv_heads != 0))
        return sp_op_fail(context, "ATTRIBUTE_VALUE",
                          "attributes 'q_num_heads' (%lld) and 'kv_num_heads' (%lld) must be positive, and the first a "
                          "multiple of the second",
                          (long long)q_heads, (long long)kv_heads);
    if (status == SP_OK)
        status = sp_heads_read(context, IN_QUERY, q_heads, &ret_linear->q);
    if (status == SP_OK)
        status = sp_heads_read(context, IN_KEY, kv_heads, &ret_linear->k);
    if (status == SP_OK)
        status = sp_heads_read(context, IN_VALUE, kv_heads, &ret_linear->v);
    if (status == SP_OK)
        status = sp_check_rank(context, IN_STATE, 4);
    if (status == SP_OK)
        status = sp_check_same(context, "head sizes", ret_linear->q.size, ret_linear->k.size);
    if (status == SP_OK)
        status = sp_check_same(context, "sequence lengths", ret_linear->q.length, ret_linear->k.length);
    return status;
}

static enum sp_status shapes_linear(struct sp_op_context *context)
{
    struct linear linear = {0};
    enum sp_status status = read_linear(context, &linear);
    if (status != SP_OK)
        return status;
    struct sp_heads y = linear.q;
    y.size = linear.v.size;
    status = sp_heads_set_output(context, 0, sp_in_dtype(context, IN_QUERY), &y);
    const struct sp_dim state[] = {linear.q.batch, sp_dim_known(sp_node_int(context->node, "kv_num_heads", 0)),
                                   linear.k.size, linear.v.size};
    enum sp_dtype dtype = sp_in_dtype(context, sp_has_input(context, IN_STATE) ? IN_STATE : IN_QUERY);
    return status != SP_OK ? status : sp_set_output(context, 1, dtype, 4, state);
}

struct linear_factors {
    uint8_t b, t, kv, g, d, e;
    struct sp_chain q_heads;
};

static struct linear_factors make_factors(struct sp_op_context *context, struct sp_rule *rule,
                                          const struct linear *linear)
{
    struct sp_dim group = sp_dim_exact_div(context->dims, linear->q.count, linear->k.count);
    struct linear_factors f = {0};
    f.b = sp_rule_factor(rule, "b", SP_FACTOR_PARALLEL, linear->q.batch);
    f.t = sp_rule_factor(rule, "t", SP_FACTOR_SEQUENTIAL, linear->q.length);
    f.kv = sp_rule_factor(rule, "kv", SP_FACTOR_PARALLEL, linear->k.count);
    f.q_heads = sp_chain_of(f.kv);
    f.g = f.kv;
    if (!sp_dim_is(group, 1)) {
        f.g = sp_rule_factor(rule, "g", SP_FACTOR_PARALLEL, group);
        f.q_heads.items[f.q_heads.count++] = f.g;
    }
    f.d = linear->is_delta ? sp_rule_factor(rule, "d", SP_FACTOR_REPLICATE, linear->k.size)
                           : sp_factor_reduction(rule, "d", linear->k.size, SP_COMBINE_SUM);
    f.e = sp_rule_factor(rule, "e", SP_FACTOR_PARALLEL, linear->v.size);
    const uint8_t state[] = {f.b, f.t, f.kv, f.d, f.e, f.g};
    sp_rule_term(rule, 2 + (linear->is_gated ? 1 : 0) + (linear->is_delta ? 4 : 0), 5, state);
    sp_rule_term(rule, 2, f.g == f.kv ? 5 : 6, state);
    return f;
}

/* Gates hold one number for each head or, decay only, for each row of each head; beta may be one for all heads. */
static void map_gate(struct sp_op_context *context, struct sp_rule *rule, uint32_t input, const struct linear *linear,
                     const struct linear_factors *f)
{
    const struct sp_shape *shape = sp_in_shape(context, input);
    if (shape == NULL || shape->rank != 3)
        return;
    sp_rule_map_input(rule, input, 0, f->b);
    sp_rule_map_input(rule, input, 1, f->t);
    if (sp_dim_is(shape->dims[2], 1))
        return;
    sp_rule_map_input(rule, input, 2, f->kv);
    if (!sp_dim_equal(shape->dims[2], linear->k.count))
        sp_rule_map_input(rule, input, 2, f->d);
}

static enum sp_status rule_linear(struct sp_op_context *context, struct sp_rule *rule)
{
    struct linear linear = {0};
    enum sp_status status = read_linear(context, &linear);
    if (status != SP_OK)
        return status;
    struct linear_factors f = make_factors(context, rule, &linear);
    const struct sp_head_axes query = {f.b, f.t, f.q_heads, sp_chain_of(f.d)};
    const struct sp_head_axes key = {f.b, f.t, sp_chain_of(f.kv), sp_chain_of(f.d)};
    const struct sp_head_axes value = {f.b, f.t, sp_chain_of(f.kv), sp_chain_of(f.e)};
    const struct sp_head_axes result = {f.b, f.t, f.q_heads, sp_chain_of(f.e)};
    sp_map_heads(context, rule, sp_in(IN_QUERY), &query);
    sp_map_heads(context, rule, sp_in(IN_KEY), &key);
    sp_map_heads(context, rule, sp_in(IN_VALUE), &value);
    sp_map_heads(context, rule, sp_out(0), &result);
    const uint8_t state[] = {f.b, f.kv, f.d, f.e};
    for (uint32_t axis = 0; axis < 4; axis++) {
        if (sp_has_input(context, IN_STATE))
            sp_rule_map_input(rule, IN_STATE, axis, state[axis]);
        if (sp_place_shape(context, sp_out(1)) != NULL)
            sp_rule_map_output(rule, 1, axis, state[axis]);
    }
    map_gate(context, rule, IN_DECAY, &linear, &f);
    map_gate(context, rule, IN_BETA, &linear, &f);
    return SP_OK;
}

/* ---- CausalConvWithState -------------------------------------------------------------------------------------- */

static enum sp_status shapes_causal(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0), *w = sp_in_shape(context, 1);
    const struct sp_shape *bias = sp_in_shape(context, 2), *past = sp_in_shape(context, 3);
    if ((x != NULL && x->rank != 3) || (w != NULL && w->rank != 3))
        return sp_op_fail(context, "OPERAND_SHAPE", "its input and its weight must have rank 3");
    if ((bias != NULL && bias->rank != 1) || (past != NULL && past->rank != 3))
        return sp_op_fail(context, "OPERAND_SHAPE", "its bias must have rank 1 and its past state rank 3");
    enum sp_status status = sp_check_rank(context, 2, 1);
    if (status == SP_OK)
        status = sp_check_rank(context, 3, 3);
    if (status == SP_OK && x != NULL && w != NULL)
        status = sp_check_same(context, "channels", x->dims[1], w->dims[0]);
    if (status == SP_OK && w != NULL && sp_dim_is_known(w->dims[2]) && w->dims[2].value < 1)
        return sp_op_fail(context, "OPERAND_SHAPE", "its weight has no taps");
    if (status == SP_OK)
        status = sp_set_output_shape(context, 0, sp_in_dtype(context, 0), x);
    const struct sp_dim state[] = {
        x != NULL ? x->dims[0] : sp_dim_unknown(),
        x != NULL   ? x->dims[1]
        : w != NULL ? w->dims[0]
                    : sp_dim_unknown(),
        w != NULL ? sp_dim_sub(context->dims, w->dims[2], sp_dim_known(1)) : sp_dim_unknown(),
    };
    return status != SP_OK ? status : sp_set_output(context, 1, sp_in_dtype(context, 0), 3, state);
}

static bool has_activation(struct sp_op_context *context)
{
    return strcmp(sp_node_string(context->node, "activation", "none"), "none") != 0;
}

static enum sp_status rule_causal(struct sp_op_context *context, struct sp_rule *rule)
{
    const struct sp_shape *x = sp_in_shape(context, 0), *w = sp_in_shape(context, 1);
    bool gives_state = sp_place_shape(context, sp_out(1)) != NULL, takes_state = sp_has_input(context, 3);
    uint8_t b = sp_rule_factor(rule, "b", SP_FACTOR_PARALLEL, x->dims[0]);
    uint8_t c = sp_rule_factor(rule, "c", SP_FACTOR_PARALLEL, x->dims[1]);
    uint8_t l, k = sp_rule_factor(rule, "k", SP_FACTOR_REPLICATE, w->dims[2]);
    if (!sp_dim_is_known(w->dims[2]))
        l = sp_rule_factor(rule, "l", SP_FACTOR_SEQUENTIAL, x->dims[2]);
    else
        l = sp_factor_halo(rule, "l", x->dims[2], w->dims[2].value - 1, 0);
    const uint8_t sequence[] = {b, c, l}, work[] = {b, c, l, k};
    for (uint32_t axis = 0; axis < 3; axis++) {
        sp_rule_map_input(rule, 0, axis, sequence[axis]);
        sp_rule_map_output(rule, 0, axis, sequence[axis]);
    }
    sp_rule_map_input(rule, 1, 0, c);
    sp_rule_map_input(rule, 1, 2, k);
    if (sp_has_input(context, 2))
        sp_rule_map_input(rule, 2, 0, c);
    for (uint32_t axis = 0; axis < 2; axis++) { /* the axis of k-1 elements is nothing's factor: whole */
        if (takes_state)
            sp_rule_map_input(rule, 3, axis, sequence[axis]);
        if (gives_state)
            sp_rule_map_output(rule, 1, axis, sequence[axis]);
    }
    sp_rule_term(rule, 2, 4, work);
    sp_rule_term(rule, (sp_has_input(context, 2) ? 1 : 0) + (has_activation(context) ? 2 : 0), 3, sequence);
    return SP_OK;
}

/* ---- the forms of ONNX Runtime ---------------------------------------------------------------------------------- */

/* States of the last positions, one after the other, in front of all axes; or more heads of keys than of queries. Such
   nodes have rules of text. NULL for the form of ONNX. */
static const char *linear_form(struct sp_op_context *context)
{
    int64_t window = sp_node_int(context->node, "state_window", 0);
    int64_t q_heads = sp_node_int(context->node, "q_num_heads", 0);
    int64_t kv_heads = sp_node_int(context->node, "kv_num_heads", 0);
    if (window <= 0 && q_heads >= kv_heads)
        return NULL;
    const struct sp_shape *decay = sp_in_shape(context, IN_DECAY), *beta = sp_in_shape(context, IN_BETA);
    bool has_rows =
        decay != NULL && decay->rank == 3 && sp_dim_is_known(decay->dims[2]) && decay->dims[2].value != kv_heads;
    const char *state = window > 0 ? "[w, b, kv, d, e]" : "[b, kv, d, e]";
    bool has_one = beta != NULL && beta->rank == 3 && sp_dim_is(beta->dims[2], 1);
    return sp_form_text(context,
                        "[b, t, h*d] [b, t, kv*d] [b, t, kv*e] %s [b, t, kv%s] [b, t, %s] -> [b, t, %s*e] %s; h = "
                        "q_num_heads; kv = kv_num_heads%s; t sequential; h, kv, d whole",
                        state, has_rows ? "*d" : "", has_one ? "1" : "kv", q_heads > kv_heads ? "h" : "kv", state,
                        window > 0 ? "; w = state_window; w whole" : "");
}

/* Several spatial axes, gaps between the taps, channels behind the sequence, or states of the last positions. */
static const char *causal_form(struct sp_op_context *context)
{
    const struct sp_node *node = context->node;
    int64_t axes = sp_node_int(node, "ndim", 1), window = sp_node_int(node, "state_window", 0);
    bool is_last = sp_node_int(node, "channels_last", 0) != 0;
    if (axes == 1 && window <= 0 && !is_last && sp_node_int(node, "dilation", 1) == 1)
        return NULL;
    if (is_last)
        return "[b, l, c..] [_..] [_..] [_..] -> [b, l, c..] [_..]; l, c.. whole";
    const char *spatial = axes == 3 ? "x, y, " : axes == 2 ? "y, " : "";
    const char *taps = axes == 3 ? "kx, ky, " : axes == 2 ? "ky, " : "";
    const char *first = window > 0 ? "w, " : "";
    return sp_form_text(context,
                        "[b, c, %sl] [c, 1, %sk] [c] [%sb, c, %sp] -> [b, c, %sl] [%sb, c, %sp]; p = (k - 1) * "
                        "dilation:1%s; l, k, p%s%s whole",
                        spatial, taps, first, spatial, spatial, first, spatial,
                        window > 0 ? "; w = state_window; w whole" : "", axes == 2 || axes == 3 ? ", y, ky" : "",
                        axes == 3 ? ", x, kx" : "");
}

#define LIKE(name_)                                                                                                    \
    .like = &(const struct sp_op_like){"", name_, 27}, .shapes = sp_shapes_like, .rule = sp_rule_like,                 \
    .lower = sp_lower_like

const struct sp_op sp_ops_linear_attention[] = {
    SP_ENTRY("", "LinearAttention", 27, 0, 3, 6, 1, 2,
             "[b, t, kv*g*d] [b, t, kv*d] [b, t, kv*e] [b, kv, d, e] [b, t, kv*d] [b, t, kv] -> [b, t, kv*g*e] [b, kv, "
             "d, e]; t sequential, d sum, with a delta rule d whole",
             "ONNX operator LinearAttention (27)", .shapes = shapes_linear, .rule = rule_linear,
             .lower = sp_lower_linear_attention),
    SP_ENTRY(
        "", "CausalConvWithState", 27, 0, 2, 4, 1, 2,
        "[b, c, l] [c, 1, k] [c] [b, c, _] -> [b, c, l] [b, c, _]; k whole, l halo, where k is not known l sequential",
        "ONNX operator CausalConvWithState (27)", .shapes = shapes_causal, .rule = rule_causal,
        .lower = sp_lower_causal_conv),
    SP_ENTRY(
        "com.microsoft", "LinearAttention", 1, 0, 3, 6, 1, 2,
        "[b, t, kv*g*d] [b, t, kv*d] [b, t, kv*e] [b, kv, d, e] [b, t, kv*d] [b, t, kv] -> [b, t, kv*g*e] [b, kv, "
        "d, e]; t sequential, d sum, with a delta rule d whole; with a window of states, or more heads of keys than "
        "of queries, kv, g, d whole",
        "ONNX Runtime contrib operator LinearAttention", LIKE("LinearAttention"), .form = linear_form,
        .work = "9*b*t*kv*d*e",
        .signature = "(query,key,value,past_state?,decay?,beta?) -> (output,present_state) {chunk_size:int=64,"
                     "kv_num_heads!:int,q_num_heads!:int,scale:float=0.0,state_window:int=0,"
                     "update_rule:string=gated_delta}"),
    SP_ENTRY("com.microsoft", "CausalConvWithState", 1, 0, 2, 4, 1, 2,
             "[b, c, l] [c, 1, k] [c] [b, c, _] -> [b, c, l] [b, c, _]; k whole, l halo, where k is not known l "
             "sequential; several axes, gaps, channels last or a window of states: l whole",
             "ONNX Runtime contrib operator CausalConvWithState", LIKE("CausalConvWithState"), .form = causal_form,
             .work = "2*b*c*c..*x*y*l*kx*ky*k",
             .signature = "(input,weight,bias?,past_state?) -> (output,present_state) {activation:string=none,"
                          "channels_last:int=0,dilation:int=1,ndim:int=1,state_window:int=0}"),
    {.name = NULL},
};
