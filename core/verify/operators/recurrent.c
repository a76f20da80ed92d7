/*
 * LSTM, GRU and RNN with their usual activations, direction by direction and step by step.
 */
#include <string.h>

#include "base/limits.h"
#include "verify/operators/evaluate.h"

enum cell { LSTM, GRU, RNN };
static const uint32_t gate_counts[] = {[LSTM] = 4, [GRU] = 3, [RNN] = 1};

struct recurrent {
    enum cell cell;
    bool resets_late;               /* GRU: what the state gives is reset, not the state */
    const struct sp_numbers *gates; /* [t, d, b, gates * h]: what the inputs give */
    const struct sp_numbers *r, *bias, *h0, *c0, *peepholes;
    struct sp_numbers *y, *h, *c;
    uint32_t steps, directions, batch, hidden;
    uint64_t sigmoid, tanh;
};

static uint32_t rows_of(const struct recurrent *own)
{
    return gate_counts[own->cell] * own->hidden;
}

/* What an input gives a gate of one element, with its bias. */
static struct sp_number from_input(const struct recurrent *own, uint32_t step, uint32_t d, uint32_t b, uint32_t gate)
{
    const uint32_t rows = rows_of(own);
    const struct sp_number sum =
        own->gates->items[(((uint64_t)step * own->directions + d) * own->batch + b) * rows + gate];
    return own->bias == NULL ? sum : sp_number_add(sum, own->bias->items[(uint64_t)d * 2 * rows + gate]);
}

/* What the state gives it, with its bias. */
static struct sp_number from_state(const struct recurrent *own, uint32_t d, uint32_t gate, const struct sp_number *h)
{
    const uint32_t rows = rows_of(own);
    struct sp_number sum = {0, 0};
    for (uint32_t k = 0; k < own->hidden; k++)
        sum =
            sp_number_add(sum, sp_number_multiply(h[k], own->r->items[((uint64_t)d * rows + gate) * own->hidden + k]));
    return own->bias == NULL ? sum : sp_number_add(sum, own->bias->items[((uint64_t)d * 2 + 1) * rows + gate]);
}

/* A gate of one element before its activation. */
static struct sp_number gate_at(const struct recurrent *own, uint32_t step, uint32_t d, uint32_t b, uint32_t gate,
                                const struct sp_number *h)
{
    return sp_number_add(from_input(own, step, d, b, gate), from_state(own, d, gate, h));
}

static struct sp_number open_gate(const struct recurrent *own, struct sp_number x)
{
    return sp_number_function(own->sigmoid, sp_real_sigmoid, false, x);
}

/* A gate with what it sees of the cell: the input's, the output's and the forget gate's in the order of the operand. */
static struct sp_number peep(const struct recurrent *own, uint32_t d, uint32_t gate, uint32_t i, struct sp_number x,
                             struct sp_number cell)
{
    const uint32_t n = own->hidden;
    return own->peepholes == NULL
               ? x
               : sp_number_add(
                     x, sp_number_multiply(own->peepholes->items[(size_t)d * 3 * n + (size_t)gate * n + i], cell));
}

static void step_lstm(const struct recurrent *own, uint32_t step, uint32_t d, uint32_t b, struct sp_number *h,
                      struct sp_number *c, struct sp_number *next)
{
    const uint32_t n = own->hidden;
    for (uint32_t i = 0; i < n; i++) {
        struct sp_number gates[4]; /* input, output, forget, cell */
        for (uint32_t g = 0; g < 4; g++)
            gates[g] = gate_at(own, step, d, b, g * n + i, h);
        const struct sp_number in = open_gate(own, peep(own, d, 0, i, gates[0], c[i])),
                               forget = open_gate(own, peep(own, d, 2, i, gates[2], c[i])),
                               cell = sp_number_function(own->tanh, tanh, false, gates[3]);
        c[i] = sp_number_add(sp_number_multiply(forget, c[i]), sp_number_multiply(in, cell));
        next[i] = sp_number_multiply(open_gate(own, peep(own, d, 1, i, gates[1], c[i])),
                                     sp_number_function(own->tanh, tanh, false, c[i]));
    }
    memcpy(h, next, n * sizeof *h);
}

/* Gates: update, reset, hidden. The new state goes to `next`; `reset` is room. */
static void step_gru(const struct recurrent *own, uint32_t step, uint32_t d, uint32_t b, struct sp_number *h,
                     struct sp_number *reset, struct sp_number *next)
{
    const uint32_t n = own->hidden;
    for (uint32_t i = 0; i < n; i++) {
        reset[i] = open_gate(own, gate_at(own, step, d, b, n + i, h));
        if (!own->resets_late)
            reset[i] = sp_number_multiply(reset[i], h[i]);
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct sp_number update = open_gate(own, gate_at(own, step, d, b, i, h)),
                               state = own->resets_late ? sp_number_multiply(reset[i], from_state(own, d, 2 * n + i, h))
                                                        : from_state(own, d, 2 * n + i, reset);
        const struct sp_number hidden =
            sp_number_function(own->tanh, tanh, false, sp_number_add(from_input(own, step, d, b, 2 * n + i), state));
        next[i] = sp_number_add(sp_number_multiply(sp_number_subtract((struct sp_number){1, 1}, update), hidden),
                                sp_number_multiply(update, h[i]));
    }
    memcpy(h, next, n * sizeof *h);
}

static void step_rnn(const struct recurrent *own, uint32_t step, uint32_t d, uint32_t b, struct sp_number *h,
                     struct sp_number *next)
{
    for (uint32_t i = 0; i < own->hidden; i++)
        next[i] = sp_number_function(own->tanh, tanh, false, gate_at(own, step, d, b, i, h));
    memcpy(h, next, own->hidden * sizeof *h);
}

static void run_direction(const struct recurrent *own, uint32_t d, bool is_backwards, struct sp_number *room)
{
    const uint32_t n = own->hidden;
    for (uint32_t b = 0; b < own->batch; b++) {
        struct sp_number *h = room, *c = room + n;
        const uint64_t row = ((uint64_t)d * own->batch + b) * n;
        for (uint32_t i = 0; i < n; i++) {
            h[i] = own->h0 != NULL ? own->h0->items[row + i] : (struct sp_number){0, 0};
            c[i] = own->c0 != NULL ? own->c0->items[row + i] : (struct sp_number){0, 0};
        }
        for (uint32_t i = 0; i < own->steps; i++) {
            const uint32_t step = is_backwards ? own->steps - 1 - i : i;
            if (own->cell == LSTM)
                step_lstm(own, step, d, b, h, c, room + (size_t)2 * n);
            else if (own->cell == GRU)
                step_gru(own, step, d, b, h, c, room + (size_t)2 * n);
            else
                step_rnn(own, step, d, b, h, room + (size_t)2 * n);
            memcpy(&own->y->items[(uint64_t)step * own->directions * own->batch * n + row], h, n * sizeof *h);
        }
        memcpy(&own->h->items[row], h, n * sizeof *h);
        memcpy(&own->c->items[row], c, n * sizeof *c);
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
           sp_node_attribute(call->node, "activation_alpha") == NULL && sp_node_int(call->node, "layout", 0) == 0 &&
           sp_node_int(call->node, "input_forget", 0) == 0 && call->in_count >= 3 && call->in[0] != NULL &&
           call->in[1] != NULL && call->in[2] != NULL && call->in[0]->rank == 3 && call->in[1]->rank == 3 &&
           call->in[2]->rank == 3 && (strcmp(direction, "bidirectional") == 0) == (call->in[1]->axes[0].count == 2);
}

static bool has_shape(const struct sp_numbers *x, uint64_t count)
{
    return x == NULL || x->count == count;
}

static enum sp_status evaluate_recurrent(struct sp_call *call)
{
    enum { T = 1, B, I, D, G };
    const char *direction = sp_node_string(call->node, "direction", "forward");
    if (!is_usual(call, direction))
        return sp_evaluate_by_rule(call);
    const struct sp_numbers *x = call->in[0], *w = call->in[1], *r = call->in[2];
    const struct sp_labelled operands[] = {{x, {T, B, I}}, {w, {D, G, I}}};
    const uint8_t labels[] = {T, D, B, G};
    struct sp_numbers *gates;
    const char name = call->node->op_type[0];
    const enum cell cell = name == 'L' ? LSTM : name == 'G' ? GRU : RNN;
    struct recurrent own = {.cell = cell,
                            .resets_late = sp_node_int(call->node, "linear_before_reset", 0) != 0,
                            .r = r,
                            .bias = sp_call_in(call, 3),
                            .h0 = sp_call_in(call, 5),
                            .c0 = cell == LSTM ? sp_call_in(call, 6) : NULL,
                            .peepholes = cell == LSTM ? sp_call_in(call, 7) : NULL};
    own.steps = x->axes[0].count;
    own.batch = x->axes[1].count;
    own.directions = w->axes[0].count;
    own.hidden = r->axes[2].count;
    own.sigmoid = sp_tag("Sigmoid");
    own.tanh = sp_tag("Tanh");
    const uint64_t states = (uint64_t)own.directions * own.batch * own.hidden, rows = rows_of(&own);
    if (w->axes[1].count != rows || !has_shape(r, own.directions * rows * own.hidden) || !has_shape(own.h0, states) ||
        !has_shape(own.c0, states) || !has_shape(own.bias, 2 * own.directions * rows) ||
        !has_shape(own.peepholes, 3 * states / (own.batch > 0 ? own.batch : 1)))
        return sp_call_refuse(call, "its operands do not fit together");
    enum sp_status status = sp_numbers_contract(call->arena, 2, operands, 4, labels, &gates, call->err);
    const int64_t y[] = {own.steps, own.directions, own.batch, own.hidden};
    if (status == SP_OK)
        status = sp_numbers_create_full(call->arena, x->dtype, 4, y, &own.y, call->err);
    if (status == SP_OK)
        status = sp_numbers_create_full(call->arena, x->dtype, 3, y + 1, &own.h, call->err);
    if (status == SP_OK)
        status = sp_numbers_create_full(call->arena, x->dtype, 3, y + 1, &own.c, call->err);
    struct sp_number *room = SP_NEW_ARRAY(call->arena, (size_t)3 * own.hidden, struct sp_number);
    if (status != SP_OK || room == NULL)
        return status != SP_OK ? status : sp_fail_memory(call->err);
    own.gates = gates;
    for (uint32_t d = 0; d < own.directions; d++)
        run_direction(&own, d, d == 1 || strcmp(direction, "reverse") == 0, room);
    struct sp_numbers *results[] = {own.y, own.h, own.c};
    for (uint32_t i = 0; i < call->out_count && i < (cell == LSTM ? 3 : 2); i++)
        call->out[i] = results[i];
    return SP_OK;
}

const struct sp_evaluator_entry sp_evaluators_recurrent[] = {
    {"LSTM", evaluate_recurrent},
    {"GRU", evaluate_recurrent},
    {"RNN", evaluate_recurrent},
    {NULL, NULL},
};
