/* Nodes, edges and units for LATENCY, and when everything ends. */
#include <math.h>
#include <string.h>

#include "solvers/stages/latency/latency.h"
#include "solvers/stages/lists.h"

#define HULL_WORK ((uint64_t)100000000) /* nodes looked at for what must be with units */

static bool list_edges(struct sp_arena *arena, struct sp_latency_graph *graph)
{
    const struct sp_stages_problem *problem = graph->problem;
    struct sp_stages_pairs pairs, uses, makes;
    size_t room = 0;
    for (uint32_t t = 0; t < problem->tensor_count; t++)
        room += problem->tensors[t].consumer_count;
    if (!sp_stages_pairs_init(arena, &pairs, room) || !sp_stages_pairs_init(arena, &uses, room) ||
        !sp_stages_pairs_init(arena, &makes, problem->tensor_count))
        return false;
    for (uint32_t t = 0; t < problem->tensor_count; t++) {
        sp_stages_pairs_add(&makes, problem->tensors[t].producer, t);
        for (uint32_t i = 0; i < problem->tensors[t].consumer_count; i++) {
            sp_stages_pairs_add(&pairs, problem->tensors[t].producer, problem->tensors[t].consumers[i]);
            sp_stages_pairs_add(&uses, problem->tensors[t].consumers[i], t);
        }
    }
    return sp_stages_lists_make(arena, &uses, graph->node_count, problem->tensor_count, &graph->takes) &&
           sp_stages_lists_make(arena, &makes, graph->node_count, problem->tensor_count, &graph->makes) &&
           sp_stages_lists_make(arena, &pairs, graph->node_count, graph->node_count, &graph->after) &&
           sp_stages_lists_turn(arena, &graph->after, graph->node_count, graph->node_count, &graph->before);
}

/* Nodes in topological order, from the end and depth first: what a node needs comes right before it, so that neighbours
   in the order are neighbours in the graph. */
static bool order_nodes(struct sp_arena *arena, struct sp_latency_graph *graph)
{
    uint32_t count = graph->node_count, filled = 0, depth = 0;
    uint32_t *waits = SP_NEW_ARRAY(arena, count, uint32_t), *stack = SP_NEW_ARRAY(arena, count, uint32_t);
    graph->order = SP_NEW_ARRAY(arena, count, uint32_t);
    graph->units = SP_NEW_ARRAY(arena, graph->model->unit_count, uint32_t);
    graph->place = SP_NEW_ARRAY(arena, graph->model->unit_count, uint32_t);
    bool *seen = SP_NEW_ARRAY(arena, graph->model->unit_count, bool);
    if (waits == NULL || stack == NULL || graph->order == NULL || graph->units == NULL || graph->place == NULL ||
        seen == NULL)
        return false;
    for (uint32_t v = 0; v < count; v++) {
        waits[v] = graph->after.start[v + 1] - graph->after.start[v];
        if (waits[v] == 0)
            stack[depth++] = v;
    }
    while (depth > 0) {
        uint32_t v = stack[--depth];
        graph->order[count - ++filled] = v;
        for (uint32_t i = graph->before.start[v]; i < graph->before.start[v + 1]; i++)
            if (--waits[graph->before.items[i]] == 0)
                stack[depth++] = graph->before.items[i];
    }
    uint32_t units = 0;
    for (uint32_t i = 0; i < filled; i++) {
        uint32_t unit = graph->unit_of[graph->order[i]];
        if (!seen[unit]) {
            graph->place[unit] = units;
            graph->units[units++] = unit;
        }
        seen[unit] = true;
    }
    return true;
}

/* Marks of one closure: bit 1 behind a node of it, bit 2 before one, 4 within. */
struct hull {
    const struct sp_latency_graph *graph;
    uint8_t *marks;
    bool *has_unit;
    uint64_t work;
};

static void mark_unit(struct hull *hull, uint32_t unit)
{
    hull->has_unit[unit] = true;
    for (uint32_t i = hull->graph->nodes.start[unit]; i < hull->graph->nodes.start[unit + 1]; i++)
        hull->marks[hull->graph->nodes.items[i]] |= 4;
}

/* Adds what lies between nodes of the hull: false where nothing does. */
static bool close_hull(struct hull *hull)
{
    const struct sp_latency_graph *graph = hull->graph;
    bool is_larger = false;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        uint32_t v = graph->order[i];
        for (uint32_t j = graph->before.start[v]; j < graph->before.start[v + 1]; j++)
            if (hull->marks[graph->before.items[j]] & (1 | 4))
                hull->marks[v] |= 1;
    }
    for (uint32_t i = graph->node_count; i-- > 0;) {
        uint32_t v = graph->order[i];
        for (uint32_t j = graph->after.start[v]; j < graph->after.start[v + 1]; j++)
            if (hull->marks[graph->after.items[j]] & (2 | 4))
                hull->marks[v] |= 2;
    }
    for (uint32_t v = 0; v < graph->node_count; v++)
        if (hull->marks[v] == 3) {
            mark_unit(hull, graph->unit_of[v]);
            is_larger = true;
        }
    hull->work += 2 * (uint64_t)graph->node_count + 2 * (uint64_t)graph->after.start[graph->node_count];
    return is_larger;
}

/* Under which options the units of the hull are one stage: none where it does not fit. */
static bool hull_fits(const struct hull *hull, uint32_t option, bool *shared)
{
    const struct sp_assign_model *model = hull->graph->model;
    const struct sp_stages_option *limits = &hull->graph->problem->options[option];
    double bytes = 0, held = 0;
    memset(shared, 0, model->shared_count * sizeof *shared);
    for (uint32_t u = 0; u < model->unit_count; u++) {
        if (!hull->has_unit[u])
            continue;
        if (!(model->seconds[option][u] < INFINITY))
            return false;
        bytes += model->weight[option][u];
        held = fmax(held, model->held[option][u]);
        for (uint32_t i = model->shared.start[u]; i < model->shared.start[u + 1]; i++) {
            uint32_t w = model->shared.items[i];
            if (!shared[w])
                bytes += model->shared_bytes[w] * limits->memory_scale;
            shared[w] = true;
        }
    }
    return bytes + held <= limits->memory_bytes * (1 + SP_STAGES_SLACK);
}

/* Which options each unit may have, counting what must be with it. */
static bool allow(struct sp_arena *arena, struct sp_latency_graph *graph)
{
    const struct sp_stages_problem *problem = graph->problem;
    const struct sp_assign_model *model = graph->model;
    struct hull hull = {.graph = graph};
    hull.marks = SP_NEW_ARRAY(arena, graph->node_count, uint8_t);
    hull.has_unit = SP_NEW_ARRAY(arena, model->unit_count, bool);
    bool *shared = SP_NEW_ARRAY(arena, model->shared_count, bool);
    graph->allowed = SP_NEW_ARRAY(arena, problem->option_count, bool *);
    if (hull.marks == NULL || hull.has_unit == NULL || shared == NULL || graph->allowed == NULL)
        return false;
    for (uint32_t o = 0; o < problem->option_count; o++)
        if ((graph->allowed[o] = SP_NEW_ARRAY(arena, model->unit_count, bool)) == NULL)
            return false;
    for (uint32_t u = 0; u < model->unit_count; u++) {
        memset(hull.has_unit, 0, model->unit_count * sizeof *hull.has_unit);
        memset(hull.marks, 0, graph->node_count);
        mark_unit(&hull, u);
        for (uint32_t o = 0; o < problem->option_count; o++) /* nodes that run freely need nothing between them */
            graph->allowed[o][u] = problem->options[o].is_free && hull_fits(&hull, o, shared);
        bool has_several = graph->nodes.start[u + 1] - graph->nodes.start[u] > 1;
        while (has_several && hull.work < HULL_WORK && close_hull(&hull))
            ;
        for (uint32_t o = 0; o < problem->option_count; o++)
            if (!problem->options[o].is_free)
                graph->allowed[o][u] =
                    sp_assign_most_replicas(problem, &problem->options[o]) > 0 && hull_fits(&hull, o, shared);
    }
    return true;
}

static void hull_of_both(struct hull *hull, uint32_t a, uint32_t b)
{
    memset(hull->has_unit, 0, hull->graph->model->unit_count * sizeof *hull->has_unit);
    memset(hull->marks, 0, hull->graph->node_count);
    mark_unit(hull, a);
    mark_unit(hull, b);
    while (hull->work < HULL_WORK && close_hull(hull))
        ;
}

/* The user that has most to win in a stage: a transfer is counted for it alone, so that it counts once for a stage. */
static uint32_t keenest_user(const struct sp_latency_graph *graph, const struct sp_stages_tensor *tensor)
{
    double most = -1;
    uint32_t keenest = UINT32_MAX;
    for (uint32_t i = 0; i < tensor->consumer_count; i++) {
        uint32_t v = tensor->consumers[i];
        double slow = 0;
        for (uint32_t o = 0; o < graph->problem->option_count; o++)
            if (graph->problem->options[o].is_free && graph->allowed[o][graph->unit_of[v]])
                slow = fmax(slow, graph->problem->options[o].seconds[v]);
        if (slow > most && graph->unit_of[v] != graph->unit_of[tensor->producer]) {
            most = slow;
            keenest = v;
        }
    }
    return keenest;
}

/* Transfers that no stage with a node can do without, as maker and user do not fit into one. */
static bool list_sure_transfers(struct sp_arena *arena, struct sp_latency_graph *graph)
{
    const struct sp_stages_problem *problem = graph->problem;
    struct hull hull = {.graph = graph};
    hull.marks = SP_NEW_ARRAY(arena, graph->node_count, uint8_t);
    hull.has_unit = SP_NEW_ARRAY(arena, graph->model->unit_count, bool);
    bool *shared = SP_NEW_ARRAY(arena, graph->model->shared_count, bool);
    graph->sure_user = SP_NEW_ARRAY(arena, problem->tensor_count, uint32_t);
    graph->is_sure = SP_NEW_ARRAY(arena, problem->option_count, bool *);
    if (hull.marks == NULL || hull.has_unit == NULL || shared == NULL || graph->sure_user == NULL ||
        graph->is_sure == NULL)
        return false;
    for (uint32_t o = 0; o < problem->option_count; o++)
        if ((graph->is_sure[o] = SP_NEW_ARRAY(arena, problem->tensor_count, bool)) == NULL)
            return false;
    for (uint32_t t = 0; t < problem->tensor_count; t++) {
        const struct sp_stages_tensor *tensor = &problem->tensors[t];
        uint32_t user = graph->sure_user[t] = keenest_user(graph, tensor);
        if (user == UINT32_MAX || hull.work >= HULL_WORK)
            continue;
        hull_of_both(&hull, graph->unit_of[user], graph->unit_of[tensor->producer]);
        for (uint32_t o = 0; o < problem->option_count; o++)
            graph->is_sure[o][t] = !problem->options[o].is_free && !hull_fits(&hull, o, shared);
    }
    return true;
}

/* The devices that are left become slots, class by class, under the option of the fewest devices, until there are
   `most` slots; `choices` has those that are there. Returns how many there are then. */
static uint32_t add_smallest(const struct sp_stages_problem *problem, uint32_t *left, uint32_t count, uint32_t most,
                             struct sp_stages_choice *choices)
{
    for (bool is_added = true; is_added && count < most;) {
        is_added = false;
        for (uint32_t c = 0; c < problem->class_count && count < most; c++) {
            uint32_t fewest = UINT32_MAX;
            for (uint32_t o = 0; o < problem->option_count; o++)
                if (problem->options[o].device_class == c && !problem->options[o].is_free &&
                    problem->options[o].devices <= left[c] &&
                    (fewest == UINT32_MAX || problem->options[o].devices < problem->options[fewest].devices))
                    fewest = o;
            if (fewest == UINT32_MAX)
                continue;
            left[c] -= problem->options[fewest].devices;
            choices[count++] = (struct sp_stages_choice){.option = fewest, .replicas = 1};
            is_added = true;
        }
    }
    return count;
}

/* Slots for all devices under the options of the fewest, and one for each free option. */
static bool make_slots(struct sp_arena *arena, struct sp_latency_graph *graph)
{
    const struct sp_stages_problem *problem = graph->problem;
    uint64_t most = graph->model->unit_count;
    if (problem->max_stages != 0 && problem->max_stages < most)
        most = problem->max_stages;
    if (most > SP_ASSIGN_MAX_SLOTS / 2)
        most = SP_ASSIGN_MAX_SLOTS / 2;
    graph->choices = SP_NEW_ARRAY(arena, most + problem->option_count, struct sp_stages_choice);
    uint32_t *left = SP_NEW_ARRAY(arena, problem->class_count, uint32_t);
    if (graph->choices == NULL || left == NULL)
        return false;
    memcpy(left, problem->class_size, problem->class_count * sizeof *left);
    graph->slot_count = add_smallest(problem, left, 0, (uint32_t)most, graph->choices);
    for (uint32_t o = 0; o < problem->option_count; o++)
        if (problem->options[o].is_free) {
            graph->choices[graph->slot_count++] = (struct sp_stages_choice){.option = o, .replicas = 1};
            graph->free_count++;
        }
    return true;
}

bool sp_latency_chain_slots(struct sp_arena *arena, const struct sp_latency_graph *graph,
                            const struct sp_latency_chain *chain, struct sp_stages_choice *ret_choices)
{
    const struct sp_stages_problem *problem = graph->problem;
    const uint32_t stages = graph->slot_count - graph->free_count;
    uint32_t *left = SP_NEW_ARRAY(arena, problem->class_count, uint32_t), count = 0;
    if (left == NULL)
        return false;
    memcpy(left, problem->class_size, problem->class_count * sizeof *left);
    for (; count < chain->count; count++) {
        const struct sp_stages_option *option = &problem->options[chain->choices[count].option];
        ret_choices[count] = chain->choices[count];
        left[option->device_class] -= option->devices;
    }
    for (count = add_smallest(problem, left, count, stages, ret_choices); count < stages; count++)
        ret_choices[count] = (struct sp_stages_choice){0};
    memcpy(&ret_choices[stages], &graph->choices[stages], graph->free_count * sizeof *ret_choices);
    return true;
}

static bool list_least(struct sp_arena *arena, struct sp_latency_graph *graph)
{
    graph->alone = SP_NEW_ARRAY(arena, graph->node_count, double);
    if (graph->alone == NULL)
        return false;
    for (uint32_t v = 0; v < graph->node_count; v++) {
        graph->alone[v] = INFINITY;
        for (uint32_t o = 0; o < graph->problem->option_count; o++)
            if (graph->allowed[o][graph->unit_of[v]])
                graph->alone[v] = fmin(graph->alone[v], graph->problem->options[o].seconds[v]);
    }
    return true;
}

enum sp_status sp_latency_graph_create(struct sp_stages_run *run, const struct sp_stages_prepared *prepared,
                                       struct sp_latency_graph **ret_graph)
{
    struct sp_latency_graph *graph = SP_NEW(run->scratch, struct sp_latency_graph);
    struct sp_assign_model *model;
    if (graph == NULL)
        return sp_fail_memory(run->err);
    enum sp_status status = sp_assign_model_create(run->scratch, prepared, &model, run->err);
    if (status != SP_OK)
        return status;
    graph->arena = run->scratch;
    graph->problem = prepared->problem;
    graph->model = model;
    graph->node_count = prepared->problem->node_count;
    graph->unit_of = prepared->unit_of;
    graph->nodes = prepared->nodes;
    if (!list_edges(run->scratch, graph) || !order_nodes(run->scratch, graph) || !allow(run->scratch, graph) ||
        !list_sure_transfers(run->scratch, graph) || !make_slots(run->scratch, graph) ||
        !list_least(run->scratch, graph))
        return sp_fail_memory(run->err);
    *ret_graph = graph;
    return SP_OK;
}

enum sp_status sp_latency_clock_create(struct sp_arena *arena, const struct sp_latency_graph *graph,
                                       struct sp_latency_clock *ret_clock, struct sp_error *err)
{
    size_t parts = (size_t)graph->node_count + graph->slot_count;
    struct sp_latency_clock clock = {.graph = graph,
                                     .part_of = SP_NEW_ARRAY(arena, graph->node_count, uint32_t),
                                     .waits = SP_NEW_ARRAY(arena, parts, uint32_t),
                                     .ready = SP_NEW_ARRAY(arena, parts, uint32_t),
                                     .start = SP_NEW_ARRAY(arena, parts, double)};
    if (clock.part_of == NULL || clock.waits == NULL || clock.ready == NULL || clock.start == NULL)
        return sp_fail_memory(err);
    *ret_clock = clock;
    return SP_OK;
}

/* Tells the parts that use what a node makes when it is there. */
static uint32_t pass_on(struct sp_latency_clock *clock, uint32_t v, uint32_t part, double end, uint32_t filled)
{
    const struct sp_latency_graph *graph = clock->graph;
    for (uint32_t i = graph->after.start[v]; i < graph->after.start[v + 1]; i++) {
        uint32_t next = clock->part_of[graph->after.items[i]];
        if (next == part)
            continue;
        if (clock->start[next] < end)
            clock->start[next] = end;
        if (--clock->waits[next] == 0)
            clock->ready[filled++] = next;
    }
    return filled;
}

/* Parts of the state and how many inputs each waits for; returns how many parts there are. */
static uint32_t begin_parts(struct sp_latency_clock *clock, const struct sp_assign_state *state)
{
    const struct sp_latency_graph *graph = clock->graph;
    uint32_t parts = 0;
    memset(clock->waits, 0, ((size_t)graph->node_count + graph->slot_count) * sizeof *clock->waits);
    for (uint32_t v = 0; v < graph->node_count; v++) {
        uint32_t slot = state->slot_of[graph->unit_of[v]];
        bool is_free = sp_latency_is_free_slot(graph, slot);
        clock->part_of[v] = is_free ? graph->slot_count + v : slot;
        parts += is_free;
    }
    for (uint32_t s = 0; s < graph->slot_count - graph->free_count; s++)
        parts += state->slots[s].size > 0;
    for (uint32_t v = 0; v < graph->node_count; v++) {
        uint32_t part = clock->part_of[v], waits = 0;
        clock->start[part] = 0;
        for (uint32_t i = graph->before.start[v]; i < graph->before.start[v + 1]; i++)
            waits += clock->part_of[graph->before.items[i]] != part;
        clock->waits[part] += waits;
    }
    return parts;
}

double sp_latency_time(struct sp_latency_clock *clock, const struct sp_assign_state *state, bool is_exact)
{
    const struct sp_latency_graph *graph = clock->graph;
    uint32_t slots = graph->slot_count, parts = begin_parts(clock, state), filled = 0;
    double last = 0;
    for (uint32_t s = 0; s < slots - graph->free_count; s++)
        if (state->slots[s].size > 0 && clock->waits[s] == 0)
            clock->ready[filled++] = s;
    for (uint32_t v = 0; v < graph->node_count; v++)
        if (clock->part_of[v] == slots + v && clock->waits[slots + v] == 0)
            clock->ready[filled++] = slots + v;
    for (uint32_t done = 0; done < filled; done++) {
        uint32_t part = clock->ready[done];
        if (part >= slots) {
            uint32_t v = part - slots, slot = state->slot_of[graph->unit_of[v]];
            double end = clock->start[part] + graph->problem->options[state->slots[slot].choice.option].seconds[v];
            last = fmax(last, end);
            filled = pass_on(clock, v, part, end, filled);
            continue;
        }
        const struct sp_assign_slot *slot = &state->slots[part];
        double end = clock->start[part] + sp_assign_compute(state, part, is_exact) + slot->receive + slot->send;
        last = fmax(last, end);
        for (uint32_t u = slot->first; u != UINT32_MAX; u = state->next[u])
            for (uint32_t i = graph->nodes.start[u]; i < graph->nodes.start[u + 1]; i++)
                filled = pass_on(clock, graph->nodes.items[i], part, end, filled);
    }
    clock->work += graph->node_count + graph->after.start[graph->node_count];
    return filled == parts ? last : INFINITY;
}
