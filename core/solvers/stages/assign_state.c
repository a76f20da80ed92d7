/* An assignment of units to slots, with loads, memory and energy kept up to date. */
#include <math.h>
#include <string.h>

#include "solvers/stages/assign.h"

#define NOTHING UINT32_MAX

enum sp_status sp_assign_state_create(struct sp_arena *arena, const struct sp_assign_model *model, uint32_t slot_count,
                                      struct sp_assign_state **ret_state, struct sp_error *err)
{
    struct sp_assign_state *state = SP_NEW(arena, struct sp_assign_state);
    if (state == NULL)
        return sp_fail_memory(err);
    const struct sp_stages_problem *problem = model->problem;
    state->model = model;
    state->slot_count = slot_count;
    state->slots = SP_NEW_ARRAY(arena, slot_count, struct sp_assign_slot);
    state->slot_of = SP_NEW_ARRAY(arena, model->unit_count, uint32_t);
    state->next = SP_NEW_ARRAY(arena, model->unit_count, uint32_t);
    state->previous = SP_NEW_ARRAY(arena, model->unit_count, uint32_t);
    state->users_in = SP_NEW_ARRAY(arena, (size_t)model->link_count * slot_count, uint32_t);
    state->receivers = SP_NEW_ARRAY(arena, model->link_count, uint32_t);
    state->others = SP_NEW_ARRAY(arena, slot_count, uint32_t);
    state->is_other = SP_NEW_ARRAY(arena, slot_count, bool);
    state->other_send = SP_NEW_ARRAY(arena, slot_count, double);
    state->shared_in = SP_NEW_ARRAY(arena, (size_t)model->shared_count * slot_count, uint32_t);
    state->link_seen = SP_NEW_ARRAY(arena, model->link_count, uint32_t);
    state->class_used = SP_NEW_ARRAY(arena, problem->class_count, uint32_t);
    state->memory_limit = SP_NEW_ARRAY(arena, problem->option_count, double);
    if (state->slots == NULL || state->slot_of == NULL || state->next == NULL || state->previous == NULL ||
        state->users_in == NULL || state->shared_in == NULL || state->link_seen == NULL || state->class_used == NULL ||
        state->memory_limit == NULL || state->receivers == NULL || state->others == NULL || state->is_other == NULL ||
        state->other_send == NULL)
        return sp_fail_memory(err);
    for (uint32_t o = 0; o < problem->option_count; o++)
        state->memory_limit[o] =
            sp_assign_is_free(problem, o) ? INFINITY : problem->options[o].memory_bytes * (1 + SP_STAGES_SLACK);
    if (model->nodes != NULL) {
        state->set = problem->memory->create(problem->memory->context, arena);
        if (state->set == NULL)
            return sp_fail_memory(err);
    }
    state->scale = 1;
    state->memory_weight = 1;
    *ret_state = state;
    return SP_OK;
}

static double combined(const struct sp_stages_problem *problem, const struct sp_assign_slot *slot)
{
    double load = slot->compute + slot->receive + slot->send;
    if (slot->choice.replicas == 0)
        return 0;
    if (problem->combine == SP_STAGES_MAX)
        load = fmax(slot->compute, fmax(slot->receive, slot->send));
    return load / slot->choice.replicas;
}

static inline double bytes_of(const struct sp_assign_slot *slot)
{
    return slot->weight + slot->held;
}

/* Load and energy from the sums. */
static inline void weigh(const struct sp_assign_state *state, struct sp_assign_slot *slot)
{
    slot->load = combined(state->model->problem, slot);
    double energy = fmin(slot->load * state->scale, 1e6);
    for (uint32_t i = 0; i < state->power_log; i++)
        energy *= energy;
    double bytes = bytes_of(slot), limit = state->memory_limit[slot->choice.option];
    if (bytes > limit)
        energy += state->memory_weight * (0.05 + (bytes - limit) / fmax(limit, 1));
    slot->energy = energy;
}

void sp_assign_state_weigh(struct sp_assign_state *state)
{
    state->energy = 0;
    for (uint32_t s = 0; s < state->slot_count; s++) {
        weigh(state, &state->slots[s]);
        state->energy += state->slots[s].energy;
    }
}

static void link_in(struct sp_assign_state *state, uint32_t unit, uint32_t slot)
{
    uint32_t first = state->slots[slot].first;
    state->next[unit] = first;
    state->previous[unit] = NOTHING;
    if (first != NOTHING)
        state->previous[first] = unit;
    state->slots[slot].first = unit;
    state->slot_of[unit] = slot;
}

static void link_out(struct sp_assign_state *state, uint32_t unit)
{
    uint32_t next = state->next[unit], previous = state->previous[unit];
    if (next != NOTHING)
        state->previous[next] = previous;
    if (previous != NOTHING)
        state->next[previous] = next;
    else
        state->slots[state->slot_of[unit]].first = next;
}

/* How often a slot sends a link that it makes. */
static uint32_t sends(const struct sp_assign_state *state, uint32_t l, uint32_t slot)
{
    const uint32_t receivers = state->receivers[l] - (state->users_in[(size_t)l * state->slot_count + slot] > 0);
    return sp_assign_sends_to_each(state->model->problem) ? receivers : receivers > 0;
}

/* The sums of a slot's seconds under its option, from its units. */
static void sum_seconds(struct sp_assign_state *state, uint32_t s, struct sp_assign_slot *slot)
{
    const struct sp_assign_model *model = state->model;
    const double *transfer = model->transfer[slot->choice.option], *seconds = model->seconds[slot->choice.option];
    slot->compute = slot->receive = slot->send = 0;
    state->stamp++;
    for (uint32_t u = slot->first; u != NOTHING; u = state->next[u]) {
        slot->compute += seconds[u];
        for (uint32_t i = model->makes.start[u]; i < model->makes.start[u + 1]; i++) {
            uint32_t l = model->makes.items[i];
            slot->send += sends(state, l, s) * transfer[l];
        }
        for (uint32_t i = model->takes.start[u]; i < model->takes.start[u + 1]; i++) {
            uint32_t l = model->takes.items[i];
            if (state->link_seen[l] != state->stamp && state->slot_of[model->producer[l]] != s)
                slot->receive += transfer[l];
            state->link_seen[l] = state->stamp;
        }
    }
}

static void sum_bytes(struct sp_assign_state *state, uint32_t s, struct sp_assign_slot *slot)
{
    const struct sp_assign_model *model = state->model;
    const double *weight = model->weight[slot->choice.option], *held = model->held[slot->choice.option];
    double scale = model->problem->options[slot->choice.option].memory_scale;
    slot->weight = slot->held = 0;
    for (uint32_t u = slot->first; u != NOTHING; u = state->next[u]) {
        slot->weight += weight[u];
        slot->held = fmax(slot->held, held[u]);
    }
    for (uint32_t w = 0; w < model->shared_count; w++)
        if (state->shared_in[(size_t)w * state->slot_count + s] > 0)
            slot->weight += model->shared_bytes[w] * scale;
}

void sp_assign_state_load(struct sp_assign_state *state, const struct sp_stages_choice *choices,
                          const uint32_t *slot_of)
{
    const struct sp_assign_model *model = state->model;
    const struct sp_stages_problem *problem = model->problem;
    uint32_t slots = state->slot_count;
    memset(state->users_in, 0, (size_t)model->link_count * slots * sizeof(uint32_t));
    memset(state->receivers, 0, model->link_count * sizeof(uint32_t));
    memset(state->shared_in, 0, (size_t)model->shared_count * slots * sizeof(uint32_t));
    memset(state->class_used, 0, problem->class_count * sizeof(uint32_t));
    for (uint32_t s = 0; s < slots; s++) {
        const struct sp_stages_option *option = &problem->options[choices[s].option];
        state->slots[s] = (struct sp_assign_slot){.choice = choices[s], .first = NOTHING};
        if (!sp_assign_is_free(problem, choices[s].option))
            state->class_used[option->device_class] += option->devices * choices[s].replicas;
    }
    for (uint32_t u = model->unit_count; u-- > 0;) {
        link_in(state, u, slot_of[u]);
        state->slots[slot_of[u]].size++;
        for (uint32_t i = model->takes.start[u]; i < model->takes.start[u + 1]; i++) {
            const uint32_t l = model->takes.items[i];
            state->receivers[l] += state->users_in[(size_t)l * slots + slot_of[u]]++ == 0;
        }
        for (uint32_t i = model->shared.start[u]; i < model->shared.start[u + 1]; i++)
            state->shared_in[(size_t)model->shared.items[i] * slots + slot_of[u]]++;
    }
    for (uint32_t s = 0; s < slots; s++) {
        sum_seconds(state, s, &state->slots[s]);
        sum_bytes(state, s, &state->slots[s]);
    }
    sp_assign_state_weigh(state);
}

/* What the links that the unit makes change: its slot stops sending them, the other one starts. */
static void look_at_made(const struct sp_assign_state *state, struct sp_assign_move *move)
{
    const struct sp_assign_model *model = state->model;
    const double *before = model->transfer[move->source.choice.option],
                 *after = model->transfer[move->target.choice.option];
    for (uint32_t i = model->makes.start[move->unit]; i < model->makes.start[move->unit + 1]; i++) {
        uint32_t l = model->makes.items[i];
        const uint32_t *in = &state->users_in[(size_t)l * state->slot_count];
        move->source.send -= sends(state, l, move->from) * before[l];
        move->target.send += sends(state, l, move->to) * after[l];
        if (in[move->from] > 0)
            move->source.receive += before[l];
        if (in[move->to] > 0)
            move->target.receive -= after[l];
    }
}

/* The producer of a link is in neither slot of the move: it has more or fewer receivers, if it sends to each. */
static void note_other(struct sp_assign_state *state, uint32_t slot, double seconds)
{
    if (!state->is_other[slot])
        state->others[state->other_count++] = slot;
    state->is_other[slot] = true;
    state->other_send[slot] += seconds;
}

/* What a link that the unit uses changes of sends. Where a tensor is sent once to all, a third slot, of the producer,
   sends as before: the unit is outside of it before and after. */
static void look_at_sends(struct sp_assign_state *state, struct sp_assign_move *move, uint32_t l)
{
    const uint32_t producer = state->slot_of[state->model->producer[l]];
    const uint32_t *in = &state->users_in[(size_t)l * state->slot_count];
    const bool is_each = sp_assign_sends_to_each(state->model->problem);
    const double seconds = state->model->transfer[state->slots[producer].choice.option][l];
    const uint32_t outside = state->receivers[l] - (in[producer] > 0);
    if (producer == move->from)
        move->source.send += is_each ? (in[move->to] == 0) * seconds : (outside == 0) * seconds;
    else if (producer == move->to)
        move->target.send -= in[move->from] == 1 && (is_each || outside == 1) ? seconds : 0;
    else if (is_each && (in[move->to] == 0) != (in[move->from] == 1))
        note_other(state, producer, in[move->to] == 0 ? seconds : -seconds);
}

/* What the links that the unit uses change. */
static void look_at_taken(struct sp_assign_state *state, struct sp_assign_move *move)
{
    const struct sp_assign_model *model = state->model;
    const double *before = model->transfer[move->source.choice.option],
                 *after = model->transfer[move->target.choice.option];
    for (uint32_t i = model->takes.start[move->unit]; i < model->takes.start[move->unit + 1]; i++) {
        uint32_t l = model->takes.items[i], producer = state->slot_of[model->producer[l]];
        const uint32_t *in = &state->users_in[(size_t)l * state->slot_count];
        if (producer != move->from && in[move->from] == 1)
            move->source.receive -= before[l];
        if (producer != move->to && in[move->to] == 0)
            move->target.receive += after[l];
        look_at_sends(state, move, l);
    }
}

static void look_at_bytes(const struct sp_assign_state *state, struct sp_assign_move *move)
{
    const struct sp_assign_model *model = state->model;
    uint32_t unit = move->unit, before = move->source.choice.option, after = move->target.choice.option;
    const double *held = model->held[before];
    move->source.weight -= model->weight[before][unit];
    move->target.weight += model->weight[after][unit];
    move->target.held = fmax(move->target.held, model->held[after][unit]);
    for (uint32_t i = model->shared.start[unit]; i < model->shared.start[unit + 1]; i++) {
        uint32_t w = model->shared.items[i];
        const uint32_t *in = &state->shared_in[(size_t)w * state->slot_count];
        if (in[move->from] == 1)
            move->source.weight -= model->shared_bytes[w] * model->problem->options[before].memory_scale;
        if (in[move->to] == 0)
            move->target.weight += model->shared_bytes[w] * model->problem->options[after].memory_scale;
    }
    if (held[unit] > 0 && held[unit] >= move->source.held) {
        move->source.held = 0;
        for (uint32_t u = move->source.first; u != NOTHING; u = state->next[u])
            if (u != unit)
                move->source.held = fmax(move->source.held, held[u]);
    }
}

/* A third slot as the move that was looked at last makes it. */
static struct sp_assign_slot changed_other(const struct sp_assign_state *state, uint32_t other)
{
    struct sp_assign_slot slot = state->slots[other];
    slot.send += state->other_send[other];
    weigh(state, &slot);
    return slot;
}

bool sp_assign_move_look(struct sp_assign_state *state, uint32_t unit, uint32_t to, struct sp_assign_move *move)
{
    const struct sp_assign_model *model = state->model;
    uint32_t from = state->slot_of[unit];
    double seconds = model->seconds[state->slots[to].choice.option][unit];
    if (from == to || !(seconds < INFINITY))
        return false;
    move->unit = unit;
    move->from = from;
    move->to = to;
    move->source = state->slots[from];
    move->target = state->slots[to];
    move->source.size--;
    move->target.size++;
    move->source.compute -= model->seconds[move->source.choice.option][unit];
    move->target.compute += seconds;
    while (state->other_count > 0) {
        const uint32_t other = state->others[--state->other_count];
        state->is_other[other] = false;
        state->other_send[other] = 0;
    }
    look_at_made(state, move);
    look_at_taken(state, move);
    look_at_bytes(state, move);
    if (move->source.size == 0) { /* sums of what is left are exactly nothing */
        move->source.compute = move->source.receive = move->source.send = 0;
        move->source.weight = move->source.held = 0;
    }
    weigh(state, &move->source);
    weigh(state, &move->target);
    move->change = move->source.energy - state->slots[from].energy + move->target.energy - state->slots[to].energy;
    for (uint32_t i = 0; i < state->other_count; i++)
        move->change += changed_other(state, state->others[i]).energy - state->slots[state->others[i]].energy;
    return true;
}

void sp_assign_move_make(struct sp_assign_state *state, const struct sp_assign_move *move)
{
    const struct sp_assign_model *model = state->model;
    uint32_t unit = move->unit, slots = state->slot_count;
    state->slots[move->from] = move->source;
    state->slots[move->to] = move->target;
    for (uint32_t i = 0; i < state->other_count; i++)
        state->slots[state->others[i]] = changed_other(state, state->others[i]);
    state->energy += move->change;
    /* the lists' heads are the slots', so that the links come after */
    link_out(state, unit);
    link_in(state, unit, move->to);
    for (uint32_t i = model->takes.start[unit]; i < model->takes.start[unit + 1]; i++) {
        uint32_t *in = &state->users_in[(size_t)model->takes.items[i] * slots];
        state->receivers[model->takes.items[i]] += in[move->to]++ == 0;
        state->receivers[model->takes.items[i]] -= --in[move->from] == 0;
    }
    for (uint32_t i = model->shared.start[unit]; i < model->shared.start[unit + 1]; i++) {
        uint32_t *in = &state->shared_in[(size_t)model->shared.items[i] * slots];
        in[move->from]--;
        in[move->to]++;
    }
}

bool sp_assign_change_look(struct sp_assign_state *state, uint32_t slot, struct sp_stages_choice choice,
                           struct sp_assign_slot *ret_slot)
{
    const struct sp_stages_problem *problem = state->model->problem;
    const struct sp_stages_option *old = &problem->options[state->slots[slot].choice.option],
                                  *new = &problem->options[choice.option];
    uint64_t used = state->class_used[new->device_class];
    if (old->device_class == new->device_class)
        used -= (uint64_t)old->devices * state->slots[slot].choice.replicas;
    if (used + (uint64_t) new->devices * choice.replicas > problem->class_size[new->device_class])
        return false;
    *ret_slot = state->slots[slot];
    ret_slot->choice = choice;
    sum_seconds(state, slot, ret_slot);
    sum_bytes(state, slot, ret_slot);
    if (!(ret_slot->compute < INFINITY))
        return false;
    weigh(state, ret_slot);
    return true;
}

void sp_assign_change_make(struct sp_assign_state *state, uint32_t slot, const struct sp_assign_slot *changed)
{
    const struct sp_stages_option *options = state->model->problem->options;
    const struct sp_stages_choice *old = &state->slots[slot].choice, *new = &changed->choice;
    state->class_used[options[old->option].device_class] -= options[old->option].devices * old->replicas;
    state->class_used[options[new->option].device_class] += options[new->option].devices * new->replicas;
    state->energy += changed->energy - state->slots[slot].energy;
    state->slots[slot] = *changed;
}

double sp_assign_state_value(const struct sp_assign_state *state)
{
    double value = 0;
    for (uint32_t s = 0; s < state->slot_count; s++)
        value = fmax(value, state->slots[s].load);
    return value;
}

/* Bytes that a slot sends more than once: to each slot but one that uses them. */
static double again_bytes(const struct sp_assign_state *state, uint32_t s)
{
    const struct sp_assign_model *model = state->model;
    double bytes = 0;
    for (uint32_t u = state->slots[s].first; u != NOTHING; u = state->next[u])
        for (uint32_t i = model->makes.start[u]; i < model->makes.start[u + 1]; i++) {
            const uint32_t l = model->makes.items[i];
            const uint32_t *in = &state->users_in[(size_t)l * state->slot_count];
            uint32_t receivers = 0;
            if (model->users.start[l + 1] - model->users.start[l] < 2)
                continue;
            for (uint32_t to = 0; to < state->slot_count; to++)
                receivers += to != s && in[to] > 0;
            bytes += receivers > 1 ? (receivers - 1) * model->bytes[l] : 0;
        }
    return bytes;
}

/* Where the problem counts memory itself, the bytes of a slot, and what its copies take. */
static double count_slot(const struct sp_assign_state *state, uint32_t s, double *ret_copies)
{
    const struct sp_assign_slot *slot = &state->slots[s];
    const struct sp_stages_problem *problem = state->model->problem;
    const struct sp_rows *nodes = state->model->nodes;
    const uint32_t option = slot->choice.option;
    for (uint32_t u = slot->first; u != NOTHING; u = state->next[u])
        for (uint32_t i = nodes->start[u]; i < nodes->start[u + 1]; i++)
            problem->memory->put(state->set, nodes->items[i]);
    double bytes = problem->memory->bytes(state->set, option);
    if (problem->sends_to_each)
        bytes += 2 * again_bytes(state, s) * problem->options[option].transfer_share;
    *ret_copies = sp_stages_copies(problem, option, state->set, bytes);
    for (uint32_t u = slot->first; u != NOTHING; u = state->next[u])
        for (uint32_t i = nodes->start[u]; i < nodes->start[u + 1]; i++)
            problem->memory->take(state->set, nodes->items[i]);
    return bytes;
}

/* Where the problem counts memory itself, what the slot is short of; else 0. */
static double lacks(const struct sp_assign_state *state, uint32_t s)
{
    const double limit = state->memory_limit[state->slots[s].choice.option];
    double copies;
    if (state->model->nodes == NULL || limit == INFINITY)
        return 0;
    const double bytes = count_slot(state, s, &copies);
    return bytes > limit ? bytes - limit : 0;
}

double sp_assign_compute(const struct sp_assign_state *state, uint32_t s, bool is_exact)
{
    const struct sp_assign_slot *slot = &state->slots[s];
    const struct sp_stages_problem *problem = state->model->problem;
    double copies;
    if (slot->size == 0 || problem->options[slot->choice.option].copy_per_byte == 0)
        return slot->compute;
    if (is_exact && state->model->nodes != NULL)
        (void)count_slot(state, s, &copies);
    else
        copies = sp_stages_copies(problem, slot->choice.option, NULL, bytes_of(slot));
    return fmax(slot->compute, copies);
}

bool sp_assign_state_fits(struct sp_assign_state *state)
{
    for (uint32_t s = 0; s < state->slot_count; s++) {
        const struct sp_assign_slot *slot = &state->slots[s];
        if (slot->size > 0 && bytes_of(slot) > state->memory_limit[slot->choice.option])
            return false;
    }
    for (uint32_t s = 0; s < state->slot_count; s++)
        if (state->slots[s].size > 0 && lacks(state, s) > 0)
            return false;
    return true;
}
