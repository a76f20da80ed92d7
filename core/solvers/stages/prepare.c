#include <stdlib.h>

#include "base/components.h"
#include "base/heap.h"
#include "base/sorted.h"
#include "solvers/stages/lists.h"

/* Nodes become units: colours are joined, then what lies on cycles of the colours, then what may as well be in the same
   stage (join.c); and sums are gathered. */

struct color_of {
    uint32_t color, node;
};

SP_ASCENDING(by_color, struct color_of, color, node)

/* unit_of: the first node of the same colour; numbered later. */
static bool join_colors(struct sp_arena *scratch, const struct sp_stages_problem *problem, uint32_t *first)
{
    struct color_of *colors = SP_NEW_ARRAY(scratch, problem->node_count, struct color_of);
    if (colors == NULL)
        return false;
    uint32_t count = 0;
    for (uint32_t i = 0; i < problem->node_count; i++) {
        first[i] = i;
        if (problem->nodes[i].color != SP_NO_STAGE_GROUP)
            colors[count++] = (struct color_of){problem->nodes[i].color, i};
    }
    qsort(colors, count, sizeof *colors, by_color);
    for (uint32_t i = 1; i < count; i++)
        if (colors[i].color == colors[i - 1].color)
            first[colors[i].node] = first[colors[i - 1].node];
    return true;
}

/* Numbers what `label` tells apart by the smallest node of each; returns how many there are. */
static bool number_units(struct sp_arena *scratch, uint32_t *label, uint32_t nodes, uint32_t labels,
                         uint32_t *ret_count)
{
    uint32_t *unit = SP_NEW_ARRAY(scratch, labels, uint32_t), count = 0;
    if (unit == NULL)
        return false;
    for (uint32_t i = 0; i < nodes; i++) {
        if (unit[label[i]] == 0)
            unit[label[i]] = ++count;
        label[i] = unit[label[i]] - 1;
    }
    *ret_count = count;
    return true;
}

/* The edges between units that say which may not be in a later stage than which. */
static bool list_edges(struct sp_arena *arena, const struct sp_stages_prepared *prepared, uint32_t units,
                       struct sp_rows *ret_after)
{
    const struct sp_stages_problem *problem = prepared->problem;
    struct sp_stages_pairs pairs;
    size_t room = 0;
    for (uint32_t i = 0; i < problem->tensor_count; i++)
        room += problem->tensors[i].consumer_count;
    if (!sp_stages_pairs_init(arena, &pairs, room))
        return false;
    for (uint32_t i = 0; i < problem->tensor_count && prepared->kind != SP_STAGES_UNITS_FREE; i++) {
        const struct sp_stages_tensor *tensor = &problem->tensors[i];
        bool is_backward = problem->nodes[tensor->producer].is_backward;
        bool is_reverse = is_backward && !prepared->is_turned;
        uint32_t from = prepared->unit_of[tensor->producer];
        for (uint32_t j = 0; j < tensor->consumer_count; j++) {
            uint32_t node = tensor->consumers[j], to = prepared->unit_of[node];
            if (from == to)
                continue;
            if (prepared->kind == SP_STAGES_UNITS_GRAPH)
                sp_stages_pairs_add(&pairs, from, to);
            else if (problem->nodes[node].is_backward == is_backward)
                sp_stages_pairs_add(&pairs, is_reverse ? to : from, is_reverse ? from : to);
        }
    }
    return sp_stages_lists_make(arena, &pairs, units, units, ret_after);
}

static bool find_cycles(struct sp_arena *scratch, const struct sp_stages_prepared *prepared, uint32_t units,
                        uint32_t **ret_component, uint32_t *ret_count)
{
    struct sp_rows after;
    *ret_component = SP_NEW_ARRAY(scratch, units, uint32_t);
    return *ret_component != NULL && list_edges(scratch, prepared, units, &after) &&
           sp_components(scratch, &after, units, *ret_component, ret_count);
}

/* Where edges of backward nodes join units that they would not join if they were turned, they are turned: some graphs
   have them in the direction of the forward nodes'. */
static bool join_cycles(struct sp_arena *scratch, struct sp_stages_prepared *prepared, uint32_t *units)
{
    uint32_t nodes = prepared->problem->node_count, *component, *turned, count, turned_count;
    if (!find_cycles(scratch, prepared, *units, &component, &count))
        return false;
    if (count < *units && prepared->kind == SP_STAGES_UNITS_CHAIN) {
        prepared->is_turned = true;
        if (!find_cycles(scratch, prepared, *units, &turned, &turned_count))
            return false;
        prepared->is_turned = turned_count > count;
        component = prepared->is_turned ? turned : component;
        count = prepared->is_turned ? turned_count : count;
    }
    for (uint32_t i = 0; i < nodes; i++)
        prepared->unit_of[i] = component[prepared->unit_of[i]];
    return number_units(scratch, prepared->unit_of, nodes, count, units);
}

static bool join_nodes(struct sp_arena *arena, struct sp_arena *scratch, struct sp_stages_prepared *prepared)
{
    const struct sp_stages_problem *problem = prepared->problem;
    uint32_t nodes = problem->node_count, units;
    prepared->unit_of = SP_NEW_ARRAY(arena, nodes, uint32_t);
    if (prepared->unit_of == NULL || !join_colors(scratch, problem, prepared->unit_of) ||
        !number_units(scratch, prepared->unit_of, nodes, nodes, &units))
        return false;
    if (prepared->kind != SP_STAGES_UNITS_FREE && !join_cycles(scratch, prepared, &units))
        return false;
    if (prepared->kind == SP_STAGES_UNITS_CHAIN && (!sp_stages_join_idle(scratch, problem, units, prepared->unit_of) ||
                                                    !number_units(scratch, prepared->unit_of, nodes, units, &units)))
        return false;
    prepared->unit_count = units;
    struct sp_stages_pairs pairs;
    if (!sp_stages_pairs_init(scratch, &pairs, nodes))
        return false;
    for (uint32_t i = 0; i < nodes; i++)
        sp_stages_pairs_add(&pairs, prepared->unit_of[i], i);
    return sp_stages_lists_make(arena, &pairs, units, nodes, &prepared->nodes) &&
           list_edges(arena, prepared, units, &prepared->after) &&
           sp_stages_lists_turn(arena, &prepared->after, units, units, &prepared->before);
}

/* Units are numbered by their smallest node, so the smallest number is next. */
static bool is_next(const void *nothing, uint32_t a, uint32_t b)
{
    (void)nothing;
    return a < b;
}

SP_HEAP(ready, uint32_t, const void *, is_next)

static bool sort_units(struct sp_arena *arena, struct sp_arena *scratch, struct sp_stages_prepared *prepared)
{
    uint32_t count = prepared->unit_count, ready = 0, done = 0;
    uint32_t *waits = SP_NEW_ARRAY(scratch, count, uint32_t), *heap = SP_NEW_ARRAY(scratch, count, uint32_t);
    prepared->order = SP_NEW_ARRAY(arena, count, uint32_t);
    prepared->place = SP_NEW_ARRAY(arena, count, uint32_t);
    if (waits == NULL || heap == NULL || prepared->order == NULL || prepared->place == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        waits[i] = prepared->before.start[i + 1] - prepared->before.start[i];
        if (waits[i] == 0) {
            ready_push(heap, ready++, i, NULL);
        }
    }
    while (ready > 0) {
        uint32_t unit = ready_pop(heap, ready--, NULL);
        prepared->place[unit] = done;
        prepared->order[done++] = unit;
        for (uint32_t i = prepared->after.start[unit]; i < prepared->after.start[unit + 1]; i++) {
            uint32_t next = prepared->after.items[i];
            if (--waits[next] == 0)
                ready_push(heap, ready++, next, NULL);
        }
    }
    return done == count;
}

/* Tensors that some other unit uses than the one that makes them. */
static bool link_units(struct sp_arena *arena, struct sp_arena *scratch, struct sp_stages_prepared *prepared)
{
    const struct sp_stages_problem *problem = prepared->problem;
    uint32_t units = prepared->unit_count, count = 0;
    struct sp_stages_pairs users, makers;
    size_t room = 0;
    for (uint32_t i = 0; i < problem->tensor_count; i++)
        room += problem->tensors[i].consumer_count;
    prepared->links = SP_NEW_ARRAY(arena, problem->tensor_count, struct sp_stages_link);
    if (prepared->links == NULL || !sp_stages_pairs_init(scratch, &users, room) ||
        !sp_stages_pairs_init(scratch, &makers, problem->tensor_count))
        return false;
    for (uint32_t i = 0; i < problem->tensor_count; i++) {
        const struct sp_stages_tensor *tensor = &problem->tensors[i];
        uint32_t producer = prepared->unit_of[tensor->producer];
        size_t before = users.count;
        for (uint32_t j = 0; j < tensor->consumer_count; j++)
            if (prepared->unit_of[tensor->consumers[j]] != producer)
                sp_stages_pairs_add(&users, count, prepared->unit_of[tensor->consumers[j]]);
        if (users.count == before)
            continue;
        sp_stages_pairs_add(&makers, producer, count);
        prepared->links[count++] = (struct sp_stages_link){producer, tensor->bytes};
    }
    prepared->link_count = count;
    return sp_stages_lists_make(arena, &users, count, units, &prepared->users) &&
           sp_stages_lists_make(arena, &makers, units, count, &prepared->makes) &&
           sp_stages_lists_turn(arena, &prepared->users, count, units, &prepared->takes);
}

/* Weights of several units are listed, `owner` says whose the others are. */
static bool share_weights(struct sp_arena *arena, struct sp_arena *scratch, struct sp_stages_prepared *prepared,
                          uint32_t *owner)
{
    const struct sp_stages_problem *problem = prepared->problem;
    struct sp_stages_pairs pairs;
    size_t room = 0;
    for (uint32_t i = 0; i < problem->weight_count; i++)
        room += problem->weights[i].user_count;
    if (!sp_stages_pairs_init(scratch, &pairs, room))
        return false;
    for (uint32_t i = 0; i < problem->weight_count; i++) {
        const struct sp_stages_weight *weight = &problem->weights[i];
        uint32_t first = weight->user_count > 0 ? prepared->unit_of[weight->users[0]] : UINT32_MAX;
        bool is_shared = false;
        for (uint32_t j = 1; j < weight->user_count; j++)
            is_shared |= prepared->unit_of[weight->users[j]] != first;
        owner[i] = is_shared ? UINT32_MAX : first;
        for (uint32_t j = 0; is_shared && j < weight->user_count; j++)
            sp_stages_pairs_add(&pairs, prepared->unit_of[weight->users[j]], i);
    }
    return sp_stages_lists_make(arena, &pairs, prepared->unit_count, problem->weight_count, &prepared->shared);
}

/* An earlier option with the same bytes, or the option itself. */
static uint32_t same_bytes(const struct sp_stages_problem *problem, uint32_t index)
{
    const struct sp_stages_option *option = &problem->options[index];
    for (uint32_t i = 0; i < index; i++) {
        const struct sp_stages_option *other = &problem->options[i];
        if (other->memory_scale == option->memory_scale && other->weight_bytes == option->weight_bytes &&
            other->held_bytes == option->held_bytes)
            return i;
    }
    return index;
}

static bool sum_bytes(struct sp_arena *arena, struct sp_stages_prepared *prepared, uint32_t index,
                      const uint32_t *owner)
{
    const struct sp_stages_problem *problem = prepared->problem;
    const struct sp_stages_option *option = &problem->options[index];
    double *weight = SP_NEW_ARRAY(arena, prepared->unit_count, double);
    double *held = SP_NEW_ARRAY(arena, prepared->unit_count, double);
    if (weight == NULL || held == NULL)
        return false;
    for (uint32_t node = 0; node < problem->node_count; node++) {
        uint32_t unit = prepared->unit_of[node];
        weight[unit] += option->weight_bytes != NULL ? option->weight_bytes[node]
                                                     : problem->nodes[node].weight_bytes * option->memory_scale;
        double bytes = option->held_bytes != NULL ? option->held_bytes[node]
                                                  : problem->nodes[node].held_bytes * option->memory_scale;
        if (bytes > held[unit])
            held[unit] = bytes;
    }
    for (uint32_t i = 0; i < problem->weight_count; i++)
        if (owner[i] != UINT32_MAX)
            weight[owner[i]] += problem->weights[i].bytes * option->memory_scale;
    prepared->weight_bytes[index] = weight;
    prepared->held_bytes[index] = held;
    return true;
}

static bool sum_figures(struct sp_arena *arena, struct sp_stages_prepared *prepared, const uint32_t *owner)
{
    const struct sp_stages_problem *problem = prepared->problem;
    uint32_t units = prepared->unit_count;
    prepared->seconds = SP_NEW_ARRAY(arena, problem->option_count, double *);
    prepared->weight_bytes = SP_NEW_ARRAY(arena, problem->option_count, double *);
    prepared->held_bytes = SP_NEW_ARRAY(arena, problem->option_count, double *);
    if (prepared->seconds == NULL || prepared->weight_bytes == NULL || prepared->held_bytes == NULL)
        return false;
    for (uint32_t i = 0; i < problem->option_count; i++) {
        double *seconds = SP_NEW_ARRAY(arena, units, double);
        if (seconds == NULL)
            return false;
        for (uint32_t node = 0; node < problem->node_count; node++)
            seconds[prepared->unit_of[node]] += problem->options[i].seconds[node];
        prepared->seconds[i] = seconds;
        uint32_t same = same_bytes(problem, i);
        if (same == i && !sum_bytes(arena, prepared, i, owner))
            return false;
        prepared->weight_bytes[i] = prepared->weight_bytes[same];
        prepared->held_bytes[i] = prepared->held_bytes[same];
    }
    return true;
}

enum sp_status sp_stages_prepare(struct sp_arena *arena, const struct sp_stages_problem *problem,
                                 enum sp_stages_units kind, struct sp_stages_prepared **ret_prepared,
                                 struct sp_error *err)
{
    struct sp_stages_prepared *prepared = SP_NEW(arena, struct sp_stages_prepared);
    struct sp_arena *scratch = sp_arena_create(sp_arena_budget(arena));
    enum sp_status status = SP_OK;
    if (prepared == NULL || scratch == NULL) {
        status = sp_fail_memory(err);
        goto end;
    }
    prepared->problem = problem;
    prepared->kind = kind;
    uint32_t *owner = SP_NEW_ARRAY(scratch, problem->weight_count, uint32_t);
    if (owner == NULL || !join_nodes(arena, scratch, prepared) || !sort_units(arena, scratch, prepared) ||
        !link_units(arena, scratch, prepared) || !share_weights(arena, scratch, prepared, owner) ||
        !sum_figures(arena, prepared, owner)) {
        status = sp_fail_memory(err);
        goto end;
    }
    *ret_prepared = prepared;
end:
    sp_arena_destroy(scratch);
    return status;
}
