/* LATENCY: stages along an order of units to begin with, rounds of annealing, all solutions of a small problem. One slot has
   a solution for each option. */
#include "solvers/stages/latency/latency.h"

#include <math.h>
#include <string.h>

#define TASKS          4
#define ROUNDS         10
#define PATIENCE       4 /* rounds without anything better: each temperature from each beginning */
#define STEPS_PER_UNIT ((uint64_t)8000)
#define MIN_STEPS      ((uint64_t)200000)
#define MAX_WORK       ((uint64_t)3000000000) /* of annealing */
#define EDGE_WORK      1                      /* elementary steps for each node and edge of one look at the clock */
#define MAX_TABLE      ((uint64_t)1 << 24)
#define EXACT_UNITS    13
#define EXACT_LIMIT    ((uint64_t)3000000)
#define WIDE_WORK      ((uint64_t)20000000) /* of more units, where most searches end soon, with a proof, or hardly ever */

struct latency_search {
    struct sp_stages_run *run;
    const struct sp_latency_graph *graph;
    struct sp_assign_best *best;
    struct sp_assign_best exact; /* what the exhaustive search has found: its slots are in another order */
    double bound;
    uint64_t steps;  /* of one task */
    uint32_t *begin; /* per unit: where each search begins that does not begin from the best */
    struct sp_latency_chain chain;
};

struct latency_task {
    struct sp_arena *arena;
    struct sp_latency_anneal anneal;
};

static void run_task(void *argument, uint32_t index)
{
    sp_latency_anneal_run(&((struct latency_task *)argument)[index].anneal);
}

static enum sp_status prepare_task(const struct latency_search *search, struct latency_task *task, uint32_t round,
                                   uint32_t index)
{
    const struct sp_latency_graph *graph = search->graph;
    struct sp_latency_anneal *anneal = &task->anneal;
    struct sp_error *err = search->run->err;
    enum sp_status status = sp_assign_state_create(task->arena, graph->model, graph->slot_count, &anneal->state, err);
    if (status == SP_OK)
        status = sp_latency_clock_create(task->arena, graph, &anneal->clock, err);
    if (status != SP_OK)
        return status;
    anneal->slot_of = SP_NEW_ARRAY(task->arena, graph->model->unit_count, uint32_t);
    anneal->choices = SP_NEW_ARRAY(task->arena, graph->slot_count, struct sp_stages_choice);
    if (anneal->slot_of == NULL || anneal->choices == NULL)
        return sp_fail_memory(err);
    bool from_best = search->best->value < INFINITY && (index + round) % 2 == 0;
    anneal->graph = graph;
    anneal->seed =
        search->run->options->seed * UINT64_C(0xD1342543DE82EF95) + (uint64_t)(round * TASKS + index) * 7919 + 1;
    anneal->steps = search->steps;
    static const double heats[TASKS] = {0.1, 0.02, 0.1, 0.05}; /* none is best for all problems */
    anneal->hot = from_best ? 0.003 * (1 + index + round) : heats[(round + index / 2) % TASKS];
    anneal->cold = 1e-5;
    anneal->stop = search->run->options->stop;
    anneal->value = search->best->value;
    anneal->state->scale = 0; /* energy of the slots is that of memory alone */
    anneal->state->memory_weight = 0.5;
    sp_assign_state_load(anneal->state, from_best ? search->best->choices : graph->choices,
                         from_best ? search->best->slot_of : search->begin);
    double time = sp_latency_time(&anneal->clock, anneal->state, false);
    anneal->scale = search->best->value < INFINITY ? search->best->value : time < INFINITY ? time : 1;
    anneal->scale = anneal->scale > 0 ? anneal->scale : 1;
    return SP_OK;
}

static enum sp_status run_round(struct latency_search *search, uint32_t round, bool *ret_goes_on)
{
    struct latency_task tasks[TASKS] = {0};
    struct sp_assign_best *best = search->best;
    enum sp_status status = SP_OK;
    uint64_t work = 0;
    for (uint32_t t = 0; status == SP_OK && t < TASKS; t++) {
        tasks[t].arena = sp_arena_create(sp_arena_budget(search->run->scratch));
        status = tasks[t].arena != NULL ? prepare_task(search, &tasks[t], round, t) : sp_fail_memory(search->run->err);
    }
    if (status == SP_OK) {
        sp_executor_run(search->run->options->executor, TASKS, run_task, tasks);
        for (uint32_t t = 0; t < TASKS; t++) {
            const struct sp_latency_anneal *anneal = &tasks[t].anneal;
            work += anneal->clock.work * EDGE_WORK;
            if (!anneal->is_better || anneal->value >= best->value)
                continue;
            best->value = anneal->value;
            memcpy(best->slot_of, anneal->slot_of, search->graph->model->unit_count * sizeof *best->slot_of);
            memcpy(best->choices, anneal->choices, search->graph->slot_count * sizeof *best->choices);
        }
        search->run->best = best->value < INFINITY ? best->value : 0;
        *ret_goes_on = sp_stages_spend(search->run, work);
    }
    for (uint32_t t = 0; t < TASKS; t++)
        sp_arena_destroy(tasks[t].arena);
    return status;
}

/* Remembers units' slots when they are better. */
static void offer(struct latency_search *search, struct sp_assign_state *state, struct sp_latency_clock *clock,
                  const struct sp_stages_choice *choices, const uint32_t *slot_of)
{
    struct sp_assign_best *best = search->best;
    sp_assign_state_load(state, choices, slot_of);
    double value = sp_latency_time(clock, state, true);
    for (uint32_t s = 0; s < state->slot_count; s++)
        if (!(state->slots[s].compute < INFINITY))
            return;
    if (value < best->value && sp_assign_state_fits(state)) {
        best->value = value;
        memcpy(best->slot_of, slot_of, search->graph->model->unit_count * sizeof *slot_of);
        memcpy(best->choices, choices, state->slot_count * sizeof *choices);
    }
}

/* Each unit freely where it can, else in the first slot that may have it. */
static void begin_freely(struct latency_search *search)
{
    const struct sp_latency_graph *graph = search->graph;
    for (uint32_t u = 0; u < graph->model->unit_count; u++)
        for (uint32_t s = graph->slot_count; s-- > 0;) {
            const uint32_t chosen = search->begin[u];
            const bool is_free = sp_latency_is_free_slot(graph, s), had_free = sp_latency_is_free_slot(graph, chosen);
            if (graph->allowed[graph->choices[s].option][u] && (is_free || !had_free || chosen == 0))
                search->begin[u] = s;
            if (is_free && search->begin[u] == s)
                break;
        }
}

/* Where the chain has each unit. */
static void begin_as_chain(const struct latency_search *search, uint32_t *slot_of)
{
    const struct sp_latency_graph *graph = search->graph;
    for (uint32_t u = 0; u < graph->model->unit_count; u++) {
        slot_of[u] = search->chain.slot_of[u];
        for (uint32_t s = graph->slot_count - graph->free_count; s < graph->slot_count; s++)
            if (search->chain.slot_of[u] == SP_LATENCY_FREE + graph->choices[s].option)
                slot_of[u] = s;
    }
}

/* All solutions where everything is in one stage: one for each option that may have all units. */
static void offer_one_stage(struct latency_search *search, struct sp_assign_state *state,
                            struct sp_latency_clock *clock, uint32_t *slot_of)
{
    const struct sp_latency_graph *graph = search->graph;
    const struct sp_stages_problem *problem = graph->problem;
    memset(slot_of, 0, graph->model->unit_count * sizeof *slot_of);
    for (uint32_t o = 0; o < problem->option_count; o++) {
        const struct sp_stages_choice choice = {.option = o, .replicas = 1};
        bool is_allowed = problem->options[o].devices <= problem->class_size[problem->options[o].device_class];
        for (uint32_t u = 0; is_allowed && u < graph->model->unit_count; u++)
            is_allowed = graph->allowed[o][u];
        if (is_allowed)
            offer(search, state, clock, &choice, slot_of);
    }
    search->bound = search->best->value;
}

static bool has_one_slot(const struct sp_latency_graph *graph)
{
    return graph->slot_count == 1 && graph->free_count == 0;
}

static enum sp_status begin_search(struct latency_search *search)
{
    const struct sp_latency_graph *graph = search->graph;
    struct sp_stages_run *run = search->run;
    struct sp_assign_state *state;
    struct sp_latency_clock clock;
    enum sp_status status = sp_assign_state_create(run->scratch, graph->model, graph->slot_count, &state, run->err);
    if (status == SP_OK)
        status = sp_latency_clock_create(run->scratch, graph, &clock, run->err);
    uint32_t *slot_of = SP_NEW_ARRAY(run->scratch, graph->model->unit_count, uint32_t);
    struct sp_stages_choice *choices = SP_NEW_ARRAY(run->scratch, graph->slot_count, struct sp_stages_choice);
    if (status != SP_OK || slot_of == NULL || choices == NULL)
        return status != SP_OK ? status : sp_fail_memory(run->err);
    if (has_one_slot(graph)) {
        offer_one_stage(search, state, &clock, slot_of);
        return SP_OK;
    }
    begin_freely(search);
    offer(search, state, &clock, search->graph->choices, search->begin);
    if (!search->chain.is_found)
        return SP_OK;
    if (!sp_latency_chain_slots(run->scratch, graph, &search->chain, choices))
        return sp_fail_memory(run->err);
    begin_as_chain(search, slot_of);
    offer(search, state, &clock, choices, slot_of);
    return SP_OK;
}

/* Elementary steps of one look at the clock. */
static uint64_t look_work(const struct sp_latency_graph *graph)
{
    return ((uint64_t)graph->node_count + graph->after.start[graph->node_count]) * EDGE_WORK;
}

static enum sp_status anneal_in_rounds(struct latency_search *search)
{
    const struct sp_latency_graph *graph = search->graph;
    uint64_t look = look_work(graph);
    uint64_t work = MAX_WORK < search->run->work_left ? MAX_WORK : search->run->work_left;
    uint64_t steps = graph->model->unit_count * STEPS_PER_UNIT;
    steps = steps < MIN_STEPS ? MIN_STEPS : steps;
    search->steps = steps < work / look / (TASKS * ROUNDS) ? steps : work / look / (TASKS * ROUNDS);
    bool goes_on = true;
    enum sp_status status = SP_OK;
    for (uint32_t round = 0, last = 0; goes_on && round < ROUNDS && round < last + PATIENCE; round++) {
        const double before = search->best->value;
        if (fmin(before, search->exact.value) * (1 - 1e-9) <= search->bound)
            break;
        status = run_round(search, round, &goes_on);
        if (status != SP_OK)
            break;
        if (search->best->value < before)
            last = round + 1;
    }
    return status;
}

/* Notes that the edges that leave a slot's nodes begin, or no longer begin, in a slot that is still to come. */
static void count_waits(const struct latency_search *search, const uint32_t *slot_of, uint32_t unit, uint32_t by,
                        uint32_t *waits)
{
    const struct sp_latency_graph *graph = search->graph;
    for (uint32_t i = graph->nodes.start[unit]; i < graph->nodes.start[unit + 1]; i++) {
        const uint32_t node = graph->nodes.items[i];
        for (uint32_t j = graph->after.start[node]; j < graph->after.start[node + 1]; j++) {
            const uint32_t slot = slot_of[graph->unit_of[graph->after.items[j]]];
            waits[slot] += slot != slot_of[unit] ? by : 0;
        }
    }
}

/* The units by their slots, these in an order in which no edge goes back; of several the one with the first unit. Nodes
   of free slots run one by one, so these may wait for each other: then the first one is taken all the same. */
static bool order_units(const struct latency_search *search, const uint32_t *slot_of, uint32_t slots, uint32_t units,
                        uint32_t *ret_order)
{
    struct sp_arena *scratch = search->run->scratch;
    uint32_t *waits = SP_NEW_ARRAY(scratch, (size_t)slots + 1, uint32_t), taken = 0;
    bool *is_taken = SP_NEW_ARRAY(scratch, (size_t)slots + 1, bool);
    if (waits == NULL || is_taken == NULL)
        return false;
    for (uint32_t u = 0; u < units; u++)
        count_waits(search, slot_of, u, 1, waits);
    while (taken < units) {
        uint32_t next = slots;
        for (uint32_t u = 0; u < units && (next == slots || waits[next] > 0); u++) {
            if (!is_taken[slot_of[u]] && (next == slots || waits[slot_of[u]] == 0))
                next = slot_of[u];
        }
        is_taken[next] = true;
        for (uint32_t u = 0; u < units; u++) {
            if (slot_of[u] != next)
                continue;
            ret_order[taken++] = u;
            count_waits(search, slot_of, u, UINT32_MAX, waits); /* one less for each */
        }
    }
    return true;
}

/* Slots in use are stages; free units with one option together, or where its memory is small each by itself. */
static enum sp_status deliver(struct latency_search *search, const struct sp_stages_prepared *prepared,
                              struct sp_stages_solution *solution)
{
    struct sp_stages_run *run = search->run;
    const struct sp_assign_best *best = search->exact.value < search->best->value ? &search->exact : search->best;
    uint32_t units = prepared->unit_count;
    uint32_t *place = SP_NEW_ARRAY(run->scratch, (size_t)best->slot_count + 1, uint32_t);
    solution->choices = SP_NEW_ARRAY(run->scratch, (size_t)units + 1, struct sp_stages_choice);
    solution->stage_of = SP_NEW_ARRAY(run->scratch, units, uint32_t);
    uint32_t *order = SP_NEW_ARRAY(run->scratch, units, uint32_t);
    if (place == NULL || solution->choices == NULL || solution->stage_of == NULL || order == NULL ||
        !order_units(search, best->slot_of, best->slot_count, units, order))
        return sp_fail_memory(run->err);
    solution->stage_count = 0;
    for (uint32_t i = 0; i < units; i++) {
        uint32_t u = order[i], slot = best->slot_of[u], option = best->choices[slot].option;
        bool is_by_itself =
            sp_assign_is_free(prepared->problem, option) && prepared->problem->options[option].memory_bytes < INFINITY;
        if (place[slot] == 0 || is_by_itself) {
            solution->choices[solution->stage_count++] = best->choices[slot];
            place[slot] = solution->stage_count;
        }
        solution->stage_of[u] = place[slot] - 1;
    }
    const char *fault;
    return sp_stages_measure(run, prepared, solution, &fault);
}

/* The best that is found, and the bound. */
static enum sp_status search_all(struct latency_search *search)
{
    const struct sp_latency_graph *graph = search->graph;
    struct sp_stages_run *run = search->run;
    uint64_t table = (uint64_t)(graph->model->link_count + graph->model->shared_count) * graph->slot_count;
    enum sp_status status = SP_OK;
    if (graph->slot_count > 0 && table <= MAX_TABLE)
        status = begin_search(search);
    if (status == SP_OK && has_one_slot(graph) && table <= MAX_TABLE)
        return SP_OK;
    if (status == SP_OK && search->chain.is_best && (search->best->value < INFINITY || !search->chain.is_found))
        search->bound = search->best->value;
    else if (status == SP_OK)
        status = sp_latency_bound(run, graph, search->best->value, &search->bound);
    if (status == SP_OK && search->best->value * (1 - 1e-9) > search->bound) {
        const bool is_small = graph->model->unit_count <= EXACT_UNITS;
        const uint64_t limit = is_small ? EXACT_LIMIT : WIDE_WORK / look_work(graph);
        double bound = 0;
        search->exact.value = search->best->value;
        status = sp_latency_exact(run, graph, &search->exact, limit, &bound);
        search->bound = fmax(search->bound, bound);
    }
    const bool is_done = search->chain.is_all && (search->best->value < INFINITY || !search->chain.is_found);
    if (status == SP_OK && graph->slot_count > 0 && table <= MAX_TABLE && search->bound < INFINITY && !is_done)
        status = anneal_in_rounds(search);
    return status;
}

enum sp_status sp_stages_latency(struct sp_stages_run *run, const struct sp_stages_prepared *prepared,
                                 struct sp_stages_solution *ret_solution)
{
    struct sp_latency_graph *graph;
    uint64_t work = run->work_left;
    enum sp_status status = sp_latency_graph_create(run, prepared, &graph);
    if (status != SP_OK)
        return status;
    struct sp_assign_best best = {.value = INFINITY};
    struct latency_search search = {.run = run, .graph = graph, .best = &best};
    status = sp_latency_chain_find(run, graph, &search.chain);
    if (status != SP_OK)
        return status;
    best.slot_count = graph->slot_count;
    best.choices = SP_NEW_ARRAY(run->scratch, graph->slot_count, struct sp_stages_choice);
    best.slot_of = SP_NEW_ARRAY(run->scratch, graph->model->unit_count, uint32_t);
    search.begin = SP_NEW_ARRAY(run->scratch, graph->model->unit_count, uint32_t);
    if (best.choices == NULL || best.slot_of == NULL || search.begin == NULL)
        return sp_fail_memory(run->err);
    memcpy(best.choices, graph->choices, graph->slot_count * sizeof *best.choices);
    search.exact.value = INFINITY;
    status = search_all(&search);
    if (status == SP_OK && fmin(best.value, search.exact.value) < INFINITY)
        status = deliver(&search, prepared, ret_solution);
    if (status != SP_OK)
        return status;
    ret_solution->bound = search.bound;
    ret_solution->work = work - run->work_left;
    ret_solution->is_stopped = run->is_stopped;
    return SP_OK;
}
