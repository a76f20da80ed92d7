/*
 * LinearAttention as its definition has it: a matrix of d x e for each head of keys, to which every step adds the outer
 * product of its key and value; gated it decays first, and with a delta rule what it says of the key already is taken off
 * the value. The output is the query times the matrix.
 */
#include <string.h>

#include "base/limits.h"
#include "verify/operators/evaluate.h"

enum { IN_QUERY, IN_KEY, IN_VALUE, IN_STATE, IN_DECAY, IN_BETA };

struct linear {
    struct sp_call *call;
    int64_t batches, steps, q_heads, kv_heads, d, e;
    bool is_gated, is_delta;
    struct sp_number scale;
    struct sp_number *state; /* [b, kv, d, e], the second output */
};

/* Whether an operand has three axes of which the first two are those of the query, and the last one of these. */
static bool fits(const struct linear *linear, uint32_t i, int64_t last, int64_t or_last)
{
    const struct sp_numbers *x = sp_call_in(linear->call, i);
    return x != NULL && x->rank == 3 && sp_numbers_is_complete(x) && sp_dtype_is_float(x->dtype) &&
           x->axes[0].extent == linear->batches && x->axes[1].extent == linear->steps &&
           (x->axes[2].extent == last || x->axes[2].extent == or_last);
}

static bool read_linear(struct sp_call *call, struct linear *linear)
{
    const struct sp_numbers *q = sp_call_in(call, IN_QUERY), *v = sp_call_in(call, IN_VALUE),
                            *past = sp_call_in(call, IN_STATE);
    const char *rule = sp_node_string(call->node, "update_rule", "gated_delta");
    if (q == NULL || v == NULL || q->rank != 3 || v->rank != 3 || sp_node_int(call->node, "state_window", 0) != 0)
        return false;
    *linear = (struct linear){.call = call,
                              .batches = q->axes[0].extent,
                              .steps = q->axes[1].extent,
                              .q_heads = sp_node_int(call->node, "q_num_heads", 0),
                              .kv_heads = sp_node_int(call->node, "kv_num_heads", 0),
                              .is_gated = strncmp(rule, "gated", 5) == 0,
                              .is_delta = strstr(rule, "delta") != NULL};
    const int64_t heads = linear->kv_heads;
    if (heads < 1 || linear->q_heads < heads || linear->q_heads % heads != 0 ||
        q->axes[2].extent % linear->q_heads != 0 || v->axes[2].extent % heads != 0)
        return false;
    linear->d = q->axes[2].extent / linear->q_heads;
    linear->e = v->axes[2].extent / heads;
    const int64_t extents[] = {linear->batches, heads, linear->d, linear->e};
    bool has_past = past == NULL || (past->rank == 4 && sp_numbers_is_complete(past));
    for (uint32_t i = 0; past != NULL && has_past && i < 4; i++)
        has_past = past->axes[i].extent == extents[i];
    const double scale = sp_node_float(call->node, "scale", 0);
    linear->scale = sp_number_of_real(scale != 0 ? scale : 1 / sqrt((double)linear->d));
    return has_past && fits(linear, IN_QUERY, q->axes[2].extent, -1) && fits(linear, IN_KEY, heads * linear->d, -1) &&
           fits(linear, IN_VALUE, v->axes[2].extent, -1) &&
           (!linear->is_gated || fits(linear, IN_DECAY, heads * linear->d, heads)) &&
           (!linear->is_delta || fits(linear, IN_BETA, heads, 1));
}

/* The items of an operand for a step of a head, of which each has `size`. */
static const struct sp_number *items_of(const struct linear *linear, uint32_t i, int64_t row, int64_t head,
                                        int64_t size)
{
    const struct sp_numbers *x = linear->call->in[i];
    return &x->items[row * x->axes[2].extent + head * size];
}

static void decay(const struct linear *linear, struct sp_number *state, int64_t row, int64_t head)
{
    const bool has_rows = linear->call->in[IN_DECAY]->axes[2].extent != linear->kv_heads;
    const struct sp_number *rates = items_of(linear, IN_DECAY, row, head, has_rows ? linear->d : 1);
    for (int64_t i = 0; i < linear->d; i++) {
        const struct sp_number factor = sp_number_function(sp_tag("Exp"), sp_real_exp, false, rates[has_rows ? i : 0]);
        for (int64_t c = 0; c < linear->e; c++)
            state[i * linear->e + c] = sp_number_multiply(state[i * linear->e + c], factor);
    }
}

/* What a step adds to one column: the value, or its share of what the state does not say of the key yet. */
static struct sp_number added(const struct linear *linear, const struct sp_number *state, const struct sp_number *key,
                              int64_t row, int64_t head, int64_t column)
{
    const struct sp_number value = items_of(linear, IN_VALUE, row, head, linear->e)[column];
    struct sp_number said = {0, 0};
    if (!linear->is_delta)
        return value;
    for (int64_t i = 0; i < linear->d; i++)
        said = sp_number_add(said, sp_number_multiply(state[i * linear->e + column], key[i]));
    const bool is_one = linear->call->in[IN_BETA]->axes[2].extent == 1;
    return sp_number_multiply(*items_of(linear, IN_BETA, row, is_one ? 0 : head, 1), sp_number_subtract(value, said));
}

static void take_step(const struct linear *linear, int64_t batch, int64_t head, int64_t step)
{
    const int64_t row = batch * linear->steps + step, group = linear->q_heads / linear->kv_heads;
    struct sp_number *state = &linear->state[(batch * linear->kv_heads + head) * linear->d * linear->e];
    const struct sp_number *key = items_of(linear, IN_KEY, row, head, linear->d);
    if (linear->is_gated)
        decay(linear, state, row, head);
    for (int64_t c = 0; c < linear->e; c++) {
        const struct sp_number more = added(linear, state, key, row, head, c);
        for (int64_t i = 0; i < linear->d; i++)
            state[i * linear->e + c] = sp_number_add(state[i * linear->e + c], sp_number_multiply(key[i], more));
    }
    for (int64_t q_head = head * group; q_head < (head + 1) * group; q_head++) {
        const struct sp_number *query = items_of(linear, IN_QUERY, row, q_head, linear->d);
        for (int64_t c = 0; c < linear->e; c++) {
            struct sp_number sum = {0, 0};
            for (int64_t i = 0; i < linear->d; i++)
                sum = sp_number_add(sum, sp_number_multiply(query[i], state[i * linear->e + c]));
            linear->call->out[0]->items[(row * linear->q_heads + q_head) * linear->e + c] =
                sp_number_multiply(sum, linear->scale);
        }
    }
}

static enum sp_status evaluate_linear_attention(struct sp_call *call)
{
    struct linear linear;
    struct sp_numbers *state;
    if (!read_linear(call, &linear))
        return sp_evaluate_by_rule(call);
    const struct sp_numbers *q = call->in[IN_QUERY], *past = sp_call_in(call, IN_STATE);
    if (q->count > 0 && (uint64_t)linear.e > SP_MAX_EVALUATED_PRODUCTS / q->count)
        return sp_call_refuse(call, "it has too many products to be evaluated");
    const int64_t out[] = {linear.batches, linear.steps, linear.q_heads * linear.e},
                  states[] = {linear.batches, linear.kv_heads, linear.d, linear.e};
    enum sp_status status = sp_numbers_create_full(call->arena, q->dtype, 3, out, &call->out[0], call->err);
    if (status == SP_OK)
        status =
            sp_numbers_create_full(call->arena, past != NULL ? past->dtype : q->dtype, 4, states, &state, call->err);
    if (status != SP_OK)
        return status;
    if (past != NULL && state->count > 0)
        memcpy(state->items, past->items, state->count * sizeof *state->items);
    linear.state = state->items;
    for (int64_t b = 0; b < linear.batches; b++) {
        for (int64_t head = 0; head < linear.kv_heads; head++) {
            for (int64_t step = 0; step < linear.steps; step++)
                take_step(&linear, b, head, step);
        }
    }
    if (call->out_count > 1)
        call->out[1] = state;
    return SP_OK;
}

const struct sp_evaluator_entry sp_evaluators_linear_attention[] = {
    {"LinearAttention", evaluate_linear_attention},
    {NULL, NULL},
};
