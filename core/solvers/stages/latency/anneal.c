/* Annealing of one sample's latency: units, chunks and ranges of the order go to other slots. */
#include <math.h>
#include <string.h>

#include "solvers/stages/latency/latency.h"

#define MAX_CHUNK     48
#define GROW_TRIES    8
#define BUSY_WEIGHT   0.02 /* what seconds count that are on no longest path, so that there is something to follow */
#define STOP_INTERVAL 16
#define SET_WORK      64 /* for each node, where the problem counts memory itself */

struct chunk {
    uint32_t count;
    uint32_t units[MAX_CHUNK], from[MAX_CHUNK];
};

/* Time, what is over the memory, and a little of all work. */
static double energy_of(struct sp_latency_anneal *anneal)
{
    const struct sp_assign_state *state = anneal->state;
    double busy = 0;
    anneal->time = sp_latency_time(&anneal->clock, state, false);
    for (uint32_t s = 0; s < state->slot_count; s++)
        busy += state->slots[s].compute + state->slots[s].receive + state->slots[s].send;
    return (anneal->time + BUSY_WEIGHT * busy) / anneal->scale + state->energy;
}

static void record(struct sp_latency_anneal *anneal)
{
    if (!(anneal->time < anneal->value))
        return;
    if (anneal->state->set != NULL)
        anneal->clock.work += SET_WORK * (uint64_t)anneal->graph->node_count;
    if (!sp_assign_state_fits(anneal->state))
        return;
    const double time = sp_latency_time(&anneal->clock, anneal->state, true);
    if (!(time < anneal->value))
        return;
    anneal->value = time;
    anneal->is_better = true;
    memcpy(anneal->slot_of, anneal->state->slot_of, anneal->state->model->unit_count * sizeof *anneal->slot_of);
    for (uint32_t s = 0; s < anneal->state->slot_count; s++)
        anneal->choices[s] = anneal->state->slots[s].choice;
}

static bool is_accepted(struct sp_latency_anneal *anneal, double energy, double temperature)
{
    return energy <= anneal->energy || sp_random_fraction(&anneal->seed) < exp((anneal->energy - energy) / temperature);
}

static uint32_t choose_slot(struct sp_latency_anneal *anneal, uint32_t unit)
{
    const struct sp_assign_state *state = anneal->state;
    uint32_t to = state->slot_of[sp_assign_neighbour(anneal->graph->model, &anneal->seed, unit)];
    if (to == state->slot_of[unit] || sp_random_below(&anneal->seed, 6) == 0)
        to = sp_random_below(&anneal->seed, state->slot_count);
    return to;
}

/* Empty slots give devices of a class back, until there are so many. */
static void close_empty(struct sp_assign_state *state, uint32_t device_class, uint32_t devices)
{
    const struct sp_stages_problem *problem = state->model->problem;
    for (uint32_t s = 0; s < state->slot_count; s++) {
        struct sp_assign_slot *slot = &state->slots[s], closed = *slot;
        const struct sp_stages_option *option = &problem->options[slot->choice.option];
        if (state->class_used[device_class] + devices <= problem->class_size[device_class])
            return;
        closed.choice.replicas = 0;
        if (slot->size == 0 && option->device_class == device_class && !option->is_free)
            sp_assign_change_make(state, s, &closed);
    }
}

/* Gives a slot an option of those that there are, for which empty ones make room; false where it cannot have it. */
static bool draw_option(struct sp_latency_anneal *anneal, uint32_t slot)
{
    struct sp_assign_state *state = anneal->state;
    const struct sp_stages_problem *problem = anneal->graph->problem;
    const struct sp_stages_choice choice = {.option = sp_random_below(&anneal->seed, problem->option_count),
                                            .replicas = 1};
    const struct sp_stages_option *option = &problem->options[choice.option];
    struct sp_assign_slot changed;
    if (option->is_free)
        return false;
    close_empty(state, option->device_class, option->devices);
    if (!sp_assign_change_look(state, slot, choice, &changed))
        return false;
    sp_assign_change_make(state, slot, &changed);
    return true;
}

/* Moves all units of the chunk that may be there; what could not stays. */
static void go(struct sp_latency_anneal *anneal, struct chunk *chunk, uint32_t to)
{
    struct sp_assign_state *state = anneal->state;
    struct sp_assign_move move;
    uint32_t kept = 0;
    if (state->slots[to].choice.replicas == 0 && !draw_option(anneal, to))
        chunk->count = 0;
    const bool *allowed = anneal->graph->allowed[state->slots[to].choice.option];
    for (uint32_t i = 0; i < chunk->count; i++) {
        uint32_t unit = chunk->units[i], from = state->slot_of[unit];
        if (!allowed[unit] || !sp_assign_move_look(state, unit, to, &move))
            continue;
        sp_assign_move_make(state, &move);
        chunk->units[kept] = unit;
        chunk->from[kept++] = from;
    }
    chunk->count = kept;
}

static void go_back(struct sp_latency_anneal *anneal, const struct chunk *chunk, double memory_energy)
{
    struct sp_assign_move move;
    for (uint32_t i = chunk->count; i-- > 0;)
        if (sp_assign_move_look(anneal->state, chunk->units[i], chunk->from[i], &move))
            sp_assign_move_make(anneal->state, &move);
    anneal->state->energy = memory_energy;
}

/* Accepts what was done to the state, or says that it has to be undone. */
static bool accept_or_undo(struct sp_latency_anneal *anneal, double temperature)
{
    double time = anneal->time, energy = energy_of(anneal);
    if (energy < INFINITY ? is_accepted(anneal, energy, temperature) : !(anneal->energy < INFINITY)) {
        anneal->energy = energy;
        record(anneal);
        return true;
    }
    anneal->time = time;
    return false;
}

static void grow(struct sp_latency_anneal *anneal, struct chunk *chunk, uint32_t limit)
{
    const struct sp_assign_state *state = anneal->state;
    uint32_t slot = state->slot_of[chunk->units[0]];
    for (uint32_t next = 0; next < chunk->count && chunk->count < limit; next++)
        for (uint32_t tries = 0; tries < GROW_TRIES && chunk->count < limit; tries++) {
            uint32_t other = sp_assign_neighbour(anneal->graph->model, &anneal->seed, chunk->units[next]);
            bool is_new = state->slot_of[other] == slot;
            for (uint32_t i = 0; is_new && i < chunk->count; i++)
                is_new = chunk->units[i] != other;
            if (is_new)
                chunk->units[chunk->count++] = other;
        }
}

/* A run of the units' order, those in one slot, or all where `any`. */
static void take_range(struct sp_latency_anneal *anneal, struct chunk *chunk, uint32_t limit, bool any)
{
    const struct sp_latency_graph *graph = anneal->graph;
    uint32_t slot = anneal->state->slot_of[chunk->units[0]];
    for (uint32_t at = graph->place[chunk->units[0]] + 1; at < graph->model->unit_count && chunk->count < limit; at++)
        if (any || anneal->state->slot_of[graph->units[at]] == slot)
            chunk->units[chunk->count++] = graph->units[at];
}

static void try_chunk(struct sp_latency_anneal *anneal, uint32_t kind, double temperature)
{
    struct chunk chunk = {.count = 1};
    double memory_energy = anneal->state->energy;
    chunk.units[0] = sp_random_below(&anneal->seed, anneal->graph->model->unit_count);
    if (kind > 0) {
        uint32_t limit = 2 + sp_random_below(&anneal->seed, 1u << (1 + sp_random_below(&anneal->seed, 5)));
        limit = limit < MAX_CHUNK ? limit : MAX_CHUNK;
        if (kind == 1)
            grow(anneal, &chunk, limit);
        else
            take_range(anneal, &chunk, limit, kind == 3);
    }
    go(anneal, &chunk, choose_slot(anneal, chunk.units[sp_random_below(&anneal->seed, chunk.count)]));
    if (chunk.count > 0 && !accept_or_undo(anneal, temperature))
        go_back(anneal, &chunk, memory_energy);
}

/* Two units change places, mostly to keep within memory. */
static void try_swap(struct sp_latency_anneal *anneal, double temperature)
{
    const struct sp_assign_state *state = anneal->state;
    struct chunk first = {.count = 1}, second = {.count = 1};
    double memory_energy = state->energy;
    first.units[0] = sp_random_below(&anneal->seed, anneal->graph->model->unit_count);
    second.units[0] = sp_random_below(&anneal->seed, anneal->graph->model->unit_count);
    uint32_t a = state->slot_of[first.units[0]], b = state->slot_of[second.units[0]];
    if (a == b)
        return;
    go(anneal, &first, b);
    go(anneal, &second, a);
    if (first.count + second.count == 2 && accept_or_undo(anneal, temperature))
        return;
    go_back(anneal, &second, memory_energy);
    go_back(anneal, &first, memory_energy);
}

/* Another option for a slot. */
static void try_option(struct sp_latency_anneal *anneal, double temperature)
{
    struct sp_assign_state *state = anneal->state;
    uint32_t slot = sp_random_below(&anneal->seed, state->slot_count);
    struct sp_assign_slot old = state->slots[slot];
    double memory_energy = state->energy;
    if (sp_latency_is_free_slot(anneal->graph, slot) || !draw_option(anneal, slot))
        return;
    if (!accept_or_undo(anneal, temperature)) {
        sp_assign_change_make(state, slot, &old);
        state->energy = memory_energy;
    }
}

void sp_latency_anneal_run(struct sp_latency_anneal *anneal)
{
    uint64_t interval = anneal->steps / 1000 + 1;
    double temperature = anneal->hot, factor = pow(anneal->cold / anneal->hot, 1e-3);
    anneal->energy = energy_of(anneal);
    record(anneal);
    for (uint64_t step = 0; step < anneal->steps; step++) {
        if (step % interval == interval - 1)
            temperature *= factor;
        if (step % STOP_INTERVAL == 0 && anneal->stop != NULL && *anneal->stop)
            break;
        uint32_t kind = sp_random_below(&anneal->seed, 32);
        if (kind < 16)
            try_chunk(anneal, 0, temperature);
        else if (kind < 20)
            try_chunk(anneal, 1, temperature);
        else if (kind < 24)
            try_chunk(anneal, 2, temperature);
        else if (kind < 27)
            try_chunk(anneal, 3, temperature);
        else if (kind < 31)
            try_swap(anneal, temperature);
        else
            try_option(anneal, temperature);
    }
}
