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

static struct sp_number open_gate(const struct lstm *lstm, struct sp_number x)
{
    return sp_number_function(lstm->sigmoid, sp_real_sigmoid, false, x);
}

/* A gate with what it sees of the cell: the input's, the output's and the forget gate's in the order of the operand. */
static struct sp_number peep(const struct lstm *lstm, uint32_t d, uint32_t gate, uint32_t i, struct sp_number x,
                             struct sp_number cell)
{
    const uint32_t n = lstm->hidden;
    return lstm->peepholes == NULL
               ? x
               : sp_number_add(
                     x, sp_number_multiply(lstm->peepholes->items[(size_t)d * 3 * n + (size_t)gate * n + i], cell));
}

static void run_step(const struct lstm *lstm, uint32_t step, uint32_t d, uint32_t b, struct sp_number *h,
                     struct sp_number *c, struct sp_number *next)
{
    const uint32_t n = lstm->hidden;
    for (uint32_t i = 0; i < n; i++) {
        struct sp_number gates[4]; /* input, output, forget, cell */
        for (uint32_t g = 0; g < 4; g++)
            gates[g] = gate_at(lstm, step, d, b, g * n + i, h);
        const struct sp_number in = open_gate(lstm, peep(lstm, d, 0, i, gates[0], c[i])),
                               forget = open_gate(lstm, peep(lstm, d, 2, i, gates[2], c[i])),
                               cell = sp_number_function(lstm->tanh, tanh, false, gates[3]);
        c[i] = sp_number_add(sp_number_multiply(forget, c[i]), sp_number_multiply(in, cell));
        next[i] = sp_number_multiply(open_gate(lstm, peep(lstm, d, 1, i, gates[1], c[i])),
                                     sp_number_function(lstm->tanh, tanh, false, c[i]));
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
        if (call->in[i] != NULL && !sp_numbers_is_complete(call->in[i]))
            return false;
    }
    const struct sp_numbers *lengths = sp_call_in(call, 4); /* all of them have to be whole */
    for (uint64_t i = 0; lengths != NULL && i < lengths->count; i++) {
        if (call->in[0] == NULL || call->in[0]->rank == 0 || !lengths->is_known ||
            sp_numbers_int(lengths, i) != call->in[0]->axes[0].extent)
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
    struct lstm lstm = {.r = r,
                        .bias = sp_call_in(call, 3),
                        .h0 = sp_call_in(call, 5),
                        .c0 = sp_call_in(call, 6),
                        .peepholes = sp_call_in(call, 7)};
    lstm.steps = x->axes[0].count;
    lstm.batch = x->axes[1].count;
    lstm.directions = w->axes[0].count;
    lstm.hidden = r->axes[2].count;
    lstm.sigmoid = sp_tag("Sigmoid");
    lstm.tanh = sp_tag("Tanh");
    const uint64_t states = (uint64_t)lstm.directions * lstm.batch * lstm.hidden, rows = 4 * (uint64_t)lstm.hidden;
    if (w->axes[1].count != rows || !has_shape(r, lstm.directions * rows * lstm.hidden) ||
        !has_shape(lstm.h0, states) || !has_shape(lstm.c0, states) ||
        !has_shape(lstm.bias, 2 * lstm.directions * rows) ||
        !has_shape(lstm.peepholes, 3 * states / (lstm.batch > 0 ? lstm.batch : 1)))
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
