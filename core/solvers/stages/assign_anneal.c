/* Annealing: units, pairs of them and connected chunks go to other slots. */
#include <math.h>
#include <string.h>

#include "solvers/stages/assign.h"

#define CHUNK_LOG     6 /* a chunk has at most so many units, as a power of two */
#define CHUNK_TRIES   8 /* users of one link that a chunk grows over */
#define STOP_INTERVAL 256

static void record(struct sp_assign_anneal *anneal)
{
    struct sp_assign_state *state = anneal->state;
    double value = sp_assign_state_value(state);
    if (value >= anneal->value || !sp_assign_state_fits(state))
        return;
    anneal->value = value;
    anneal->is_better = true;
    memcpy(anneal->slot_of, state->slot_of, state->model->unit_count * sizeof *anneal->slot_of);
    for (uint32_t s = 0; s < state->slot_count; s++)
        anneal->choices[s] = state->slots[s].choice;
}

static bool is_accepted(struct sp_assign_anneal *anneal, double change, double temperature)
{
    return change <= 0 || sp_random_fraction(&anneal->seed) < exp(-change / temperature);
}

uint32_t sp_assign_neighbour(const struct sp_assign_model *model, uint64_t *seed, uint32_t unit)
{
    uint32_t makes = model->makes.start[unit + 1] - model->makes.start[unit];
    uint32_t takes = model->takes.start[unit + 1] - model->takes.start[unit];
    if (makes + takes == 0)
        return unit;
    uint32_t which = sp_random_below(seed, makes + takes);
    if (which >= makes)
        return model->producer[model->takes.items[model->takes.start[unit] + which - makes]];
    uint32_t l = model->makes.items[model->makes.start[unit] + which];
    uint32_t users = model->users.start[l + 1] - model->users.start[l];
    return model->users.items[model->users.start[l] + sp_random_below(seed, users)];
}

static uint32_t choose_slot(struct sp_assign_anneal *anneal, uint32_t unit)
{
    const struct sp_assign_state *state = anneal->state;
    uint32_t to = state->slot_of[sp_assign_neighbour(anneal->state->model, &anneal->seed, unit)];
    if (to == state->slot_of[unit] || sp_random_below(&anneal->seed, 8) == 0)
        to = sp_random_below(&anneal->seed, state->slot_count);
    return to;
}

static void try_single(struct sp_assign_anneal *anneal, double temperature)
{
    struct sp_assign_state *state = anneal->state;
    struct sp_assign_move move;
    uint32_t unit = sp_random_below(&anneal->seed, state->model->unit_count);
    if (!sp_assign_move_look(state, unit, choose_slot(anneal, unit), &move) ||
        !is_accepted(anneal, move.change, temperature))
        return;
    sp_assign_move_make(state, &move);
    if (move.source.load < anneal->value && move.target.load < anneal->value)
        record(anneal);
}

/* Moves the chunk's units to a slot, and back where that is not accepted. */
static void try_units(struct sp_assign_anneal *anneal, uint32_t count, const uint32_t *units, const uint32_t *to,
                      double temperature)
{
    struct sp_assign_state *state = anneal->state;
    double before = state->energy;
    uint32_t done = 0, from[1 << CHUNK_LOG];
    struct sp_assign_move move;
    for (; done < count; done++) {
        from[done] = state->slot_of[units[done]];
        if (!sp_assign_move_look(state, units[done], to[done], &move))
            break;
        sp_assign_move_make(state, &move);
    }
    anneal->work += done;
    if (done == count && is_accepted(anneal, state->energy - before, temperature)) {
        record(anneal);
        return;
    }
    while (done-- > 0)
        if (sp_assign_move_look(state, units[done], from[done], &move))
            sp_assign_move_make(state, &move);
    state->energy = before;
}

static void try_swap(struct sp_assign_anneal *anneal, double temperature)
{
    const struct sp_assign_state *state = anneal->state;
    uint32_t first = sp_random_below(&anneal->seed, state->model->unit_count);
    uint32_t second = sp_random_below(&anneal->seed, state->model->unit_count);
    if (sp_random_below(&anneal->seed, 2) == 0) /* near: with a neighbour's neighbour */
        second = sp_assign_neighbour(anneal->state->model, &anneal->seed,
                                     sp_assign_neighbour(anneal->state->model, &anneal->seed, first));
    if (state->slot_of[first] == state->slot_of[second])
        return;
    uint32_t units[2] = {first, second}, to[2] = {state->slot_of[second], state->slot_of[first]};
    try_units(anneal, 2, units, to, temperature);
}

/* Appends units of the slot that are neighbours of the chunk's, found by trying some; returns how many it has then. */
static uint32_t grow(struct sp_assign_anneal *anneal, uint32_t slot, uint32_t limit, uint32_t *units)
{
    const struct sp_assign_state *state = anneal->state;
    uint32_t count = 1;
    for (uint32_t next = 0; next < count && count < limit; next++) {
        uint32_t unit = units[next];
        for (uint32_t tries = 0; tries < CHUNK_TRIES && count < limit; tries++) {
            uint32_t other = sp_assign_neighbour(anneal->state->model, &anneal->seed, unit);
            bool is_new = state->slot_of[other] == slot;
            for (uint32_t i = 0; is_new && i < count; i++)
                is_new = units[i] != other;
            if (is_new)
                units[count++] = other;
        }
    }
    return count;
}

static void try_chunk(struct sp_assign_anneal *anneal, double temperature)
{
    const struct sp_assign_state *state = anneal->state;
    uint32_t units[1 << CHUNK_LOG], to[1 << CHUNK_LOG];
    units[0] = sp_random_below(&anneal->seed, state->model->unit_count);
    uint32_t slot = state->slot_of[units[0]];
    uint32_t limit = 2 + sp_random_below(&anneal->seed, (1u << (1 + sp_random_below(&anneal->seed, CHUNK_LOG))) - 1);
    if (limit > 1u << CHUNK_LOG)
        limit = 1u << CHUNK_LOG;
    uint32_t count = grow(anneal, slot, limit, units);
    uint32_t target = choose_slot(anneal, units[sp_random_below(&anneal->seed, count)]);
    for (uint32_t i = 0; i < count; i++)
        to[i] = target;
    if (target != slot)
        try_units(anneal, count, units, to, temperature);
}

static void try_option(struct sp_assign_anneal *anneal, double temperature)
{
    struct sp_assign_state *state = anneal->state;
    const struct sp_stages_problem *problem = state->model->problem;
    uint32_t slot = sp_random_below(&anneal->seed, state->slot_count);
    uint32_t option = sp_random_below(&anneal->seed, problem->option_count),
             most = problem->options[option].max_replicas;
    uint32_t there = problem->class_size[problem->options[option].device_class] / problem->options[option].devices;
    if (most == 0 || most > there)
        most = there;
    if (most == 0)
        return;
    struct sp_stages_choice choice = {.option = option, .replicas = 1 + sp_random_below(&anneal->seed, most)};
    struct sp_assign_slot changed;
    if (!sp_assign_change_look(state, slot, choice, &changed) ||
        !is_accepted(anneal, changed.energy - state->slots[slot].energy, temperature))
        return;
    sp_assign_change_make(state, slot, &changed);
    record(anneal);
}

void sp_assign_anneal_run(struct sp_assign_anneal *anneal)
{
    uint64_t interval = anneal->steps / 1000 + 1;
    double temperature = anneal->hot, factor = pow(anneal->cold / anneal->hot, 1e-3);
    for (uint64_t step = 0; step < anneal->steps; step++) {
        if (step % interval == interval - 1)
            temperature *= factor;
        if (step % STOP_INTERVAL == 0 && anneal->stop != NULL && *anneal->stop)
            break;
        uint32_t kind = sp_random_below(&anneal->seed, 64);
        if (kind < 44)
            try_single(anneal, temperature);
        else if (kind < 56)
            try_swap(anneal, temperature);
        else if (kind < 62 || !anneal->chooses_options)
            try_chunk(anneal, temperature);
        else
            try_option(anneal, temperature);
        anneal->work++;
    }
}
