/*
 * LSTM with its usual activations, direction by direction and step by step.
 */
#include <string.h>

#include "base/limits.h"
#include "verify/operators/evaluate.h"

struct lstm {
    const struct sp_numbers *gates; /* [t, d, b, 4 h]: what the inputs give */
    const struct sp_numbers *r, *bias, *h0, *c0, *peepholes;
    struct sp_numbers *y, *h, *c;
    uint32_t steps, directions, batch, hidden;
    uint64_t sigmoid, tanh;
};

/* A gate of one element before its activation. */
static struct sp_number gate_at(const struct lstm *lstm, uint32_t step, uint32_t d, uint32_t b, uint32_t gate,
                                const struct sp_number *h)
{
    const uint32_t rows = 4 * lstm->hidden;
    struct sp_number sum =
        lstm->gates->items[(((uint64_t)step * lstm->directions + d) * lstm->batch + b) * rows + gate];
    for (uint32_t k = 0; k < lstm->hidden; k++)
        sum = sp_number_add(sum,
                            sp_number_multiply(h[k], lstm->r->items[((uint64_t)d * rows + gate) * lstm->hidden + k]));
    for (uint32_t k = 0; lstm->bias != NULL && k < 2; k++)
        sum = sp_number_add(sum, lstm->bias->items[(uint64_t)d * 2 * rows + (uint64_t)k * rows + gate]);
    return sum;
}

static void run_step(const struct lstm *lstm, uint32_t step, uint32_t d, uint32_t b, struct sp_number *h,
                     struct sp_number *c, struct sp_number *next)
{
    const uint32_t n = lstm->hidden;
    for (uint32_t i = 0; i < n; i++) {
        const struct sp_number in = sp_number_function(lstm->sigmoid, sp_real_sigmoid, false,
                                                       gate_at(lstm, step, d, b, i, h)),
                               out = sp_number_function(lstm->sigmoid, sp_real_sigmoid, false,
                                                        gate_at(lstm, step, d, b, n + i, h)),
                               forget = sp_number_function(lstm->sigmoid, sp_real_sigmoid, false,
                                                           gate_at(lstm, step, d, b, 2 * n + i, h)),
                               cell =
                                   sp_number_function(lstm->tanh, tanh, false, gate_at(lstm, step, d, b, 3 * n + i, h));
        c[i] = sp_number_add(sp_number_multiply(forget, c[i]), sp_number_multiply(in, cell));
        next[i] = sp_number_multiply(out, sp_number_function(lstm->tanh, tanh, false, c[i]));
    }
    memcpy(h, next, n * sizeof *h);
}

static void run_direction(const struct lstm *lstm, uint32_t d, bool is_backwards, struct sp_number *room)
{
    const uint32_t n = lstm->hidden;
    for (uint32_t b = 0; b < lstm->batch; b++) {
        struct sp_number *h = room, *c = room + n;
        const uint64_t row = ((uint64_t)d * lstm->batch + b) * n;
        for (uint32_t i = 0; i < n; i++) {
            h[i] = lstm->h0 != NULL ? lstm->h0->items[row + i] : (struct sp_number){0, 0};
            c[i] = lstm->c0 != NULL ? lstm->c0->items[row + i] : (struct sp_number){0, 0};
        }
        for (uint32_t i = 0; i < lstm->steps; i++) {
            const uint32_t step = is_backwards ? lstm->steps - 1 - i : i;
            run_step(lstm, step, d, b, h, c, room + (size_t)2 * n);
            memcpy(&lstm->y->items[(uint64_t)step * lstm->directions * lstm->batch * n + row], h, n * sizeof *h);
        }
        memcpy(&lstm->h->items[row], h, n * sizeof *h);
        memcpy(&lstm->c->items[row], c, n * sizeof *c);
    }
}

static bool is_usual(const struct sp_call *call, const char *direction)
{
    for (uint32_t i = 0; i < call->in_count; i++) {
        if (call->in[i] != NULL && (i == 4 || i == 7 || !sp_numbers_is_complete(call->in[i])))
            return false;
    }
    return sp_node_attribute(call->node, "activations") == NULL && sp_node_attribute(call->node, "clip") == NULL &&
           sp_node_int(call->node, "layout", 0) == 0 && sp_node_int(call->node, "input_forget", 0) == 0 &&
           call->in_count >= 3 && call->in[0] != NULL && call->in[1] != NULL && call->in[2] != NULL &&
           call->in[0]->rank == 3 && call->in[1]->rank == 3 && call->in[2]->rank == 3 &&
           (strcmp(direction, "bidirectional") == 0) == (call->in[1]->axes[0].count == 2);
}

static bool has_shape(const struct sp_numbers *x, uint64_t count)
{
    return x == NULL || x->count == count;
}

static enum sp_status evaluate_lstm(struct sp_call *call)
{
    enum { T = 1, B, I, D, G };
    const char *direction = sp_node_string(call->node, "direction", "forward");
    if (!is_usual(call, direction))
        return sp_evaluate_by_rule(call);
    const struct sp_numbers *x = call->in[0], *w = call->in[1], *r = call->in[2];
    const struct sp_labelled operands[] = {{x, {T, B, I}}, {w, {D, G, I}}};
    const uint8_t labels[] = {T, D, B, G};
    struct sp_numbers *gates;
    struct lstm lstm = {.r = r, .bias = sp_call_in(call, 3), .h0 = sp_call_in(call, 5), .c0 = sp_call_in(call, 6)};
    lstm.steps = x->axes[0].count;
    lstm.batch = x->axes[1].count;
    lstm.directions = w->axes[0].count;
    lstm.hidden = r->axes[2].count;
    lstm.sigmoid = sp_tag("Sigmoid");
    lstm.tanh = sp_tag("Tanh");
    const uint64_t states = (uint64_t)lstm.directions * lstm.batch * lstm.hidden, rows = 4 * (uint64_t)lstm.hidden;
    if (w->axes[1].count != rows || !has_shape(r, lstm.directions * rows * lstm.hidden) ||
        !has_shape(lstm.h0, states) || !has_shape(lstm.c0, states) || !has_shape(lstm.bias, 2 * lstm.directions * rows))
        return sp_call_refuse(call, "its operands do not fit together");
    enum sp_status status = sp_numbers_contract(call->arena, 2, operands, 4, labels, &gates, call->err);
    const int64_t y[] = {lstm.steps, lstm.directions, lstm.batch, lstm.hidden};
    if (status == SP_OK)
        status = sp_numbers_create_full(call->arena, x->dtype, 4, y, &lstm.y, call->err);
    if (status == SP_OK)
        status = sp_numbers_create_full(call->arena, x->dtype, 3, y + 1, &lstm.h, call->err);
    if (status == SP_OK)
        status = sp_numbers_create_full(call->arena, x->dtype, 3, y + 1, &lstm.c, call->err);
    struct sp_number *room = SP_NEW_ARRAY(call->arena, (size_t)3 * lstm.hidden, struct sp_number);
    if (status != SP_OK || room == NULL)
        return status != SP_OK ? status : sp_fail_memory(call->err);
    lstm.gates = gates;
    for (uint32_t d = 0; d < lstm.directions; d++)
        run_direction(&lstm, d, d == 1 || strcmp(direction, "reverse") == 0, room);
    struct sp_numbers *results[] = {lstm.y, lstm.h, lstm.c};
    for (uint32_t i = 0; i < call->out_count && i < 3; i++)
        call->out[i] = results[i];
    return SP_OK;
}

const struct sp_evaluator_entry sp_evaluators_recurrent[] = {
    {"LSTM", evaluate_lstm},
    {NULL, NULL},
};
