/* What is forced: arc consistency, constants, and nodes that follow from a neighbour. */
#include "solvers/choice/reducer.h"

/* How the alive states of v go with those of its neighbour across an edge. */
struct support {
    bool is_function;    /* each state of v has exactly one partner */
    bool has_lost_state; /* of v */
};

/* Drops states of v without a partner. `map` gets a partner of each state. */
static struct support support_of(struct sp_reducer *reducer, uint32_t v, uint32_t e, uint32_t *map)
{
    struct sp_reducer_view view = sp_reducer_view(reducer, e, v);
    const struct sp_reducer_node *node = &reducer->nodes[v], *other = &reducer->nodes[view.other];
    struct support support = {.is_function = true};
    for (uint32_t i = node->alive_count; i-- > 0;) {
        uint32_t s = node->alive[i], partners = 0;
        for (uint32_t j = 0; j < other->alive_count && partners < 2; j++)
            if (sp_reducer_cost(&view, s, other->alive[j]) < SP_CHOICE_INFINITE) {
                map[s] = other->alive[j];
                partners++;
            }
        support.is_function &= partners < 2;
        if (partners == 0) {
            support.has_lost_state = true;
            sp_reducer_kill_state(reducer, v, s);
        }
    }
    return support;
}

static uint32_t *keep_map(struct sp_reducer *reducer, const uint32_t *map, uint32_t count)
{
    uint32_t *kept = SP_NEW_ARRAY(reducer->arena, count, uint32_t);
    if (kept == NULL) {
        reducer->is_out_of_memory = true;
        return NULL;
    }
    memcpy(kept, map, count * sizeof *kept);
    return kept;
}

/* Neighbours that are each other's function: the one with fewer edges is merged, so that fewer tables are turned. */
static void merge_function(struct sp_reducer *reducer, uint32_t e, uint32_t *maps[2], const bool is_function[2])
{
    uint32_t ends[2] = {reducer->edges[e].u, reducer->edges[e].v};
    uint32_t into = is_function[0] ? 0 : 1;
    if (is_function[0] && is_function[1] && reducer->nodes[ends[1]].degree > reducer->nodes[ends[0]].degree)
        into = 1;
    const uint32_t *map = keep_map(reducer, maps[into], reducer->nodes[ends[into]].states);
    if (map != NULL)
        sp_reducer_merge(reducer, ends[into], ends[1 - into], e, map);
}

/* Of functions that lose something (several states of u for one of v) those wait that would make tables larger. */
static bool is_worth_waiting(const struct sp_reducer *reducer, uint32_t e, const bool is_function[2])
{
    const struct sp_reducer_edge *edge = &reducer->edges[e];
    if (is_function[0] && is_function[1])
        return false;
    uint32_t from = is_function[0] ? edge->v : edge->u;
    return reducer->nodes[from].degree > 1;
}

static void look_at(struct sp_reducer *reducer, uint32_t e, bool is_waiting, uint32_t *maps[2])
{
    uint32_t u = reducer->edges[e].u, v = reducer->edges[e].v;
    struct support of_u = support_of(reducer, u, e, maps[0]);
    struct support of_v = support_of(reducer, v, e, maps[1]);
    if (reducer->is_infeasible)
        return;
    if (of_v.has_lost_state || of_u.has_lost_state) {
        sp_reducer_enqueue(reducer, e);
        return;
    }
    if (reducer->nodes[u].alive_count == 1) {
        sp_reducer_fix(reducer, u);
        return;
    }
    if (reducer->nodes[v].alive_count == 1) {
        sp_reducer_fix(reducer, v);
        return;
    }
    bool is_function[2] = {of_u.is_function, of_v.is_function};
    if ((is_function[0] || is_function[1]) && !(is_waiting && is_worth_waiting(reducer, e, is_function)))
        merge_function(reducer, e, maps, is_function);
}

static void drain(struct sp_reducer *reducer, bool is_waiting, uint32_t *maps[2])
{
    while (reducer->queue_count > 0 && !sp_reducer_is_stopped(reducer)) {
        uint32_t e = reducer->queue[reducer->queue_head];
        reducer->queue_head = (reducer->queue_head + 1) % reducer->problem->edge_count;
        reducer->queue_count--;
        reducer->edges[e].is_queued = false;
        if (!reducer->edges[e].is_dead)
            look_at(reducer, e, is_waiting, maps);
    }
}

static void fix_constants(struct sp_reducer *reducer)
{
    for (uint32_t v = 0; v < reducer->problem->node_count && !sp_reducer_is_done(reducer); v++)
        if (sp_reducer_is_variable(reducer, v) && reducer->nodes[v].alive_count == 1)
            sp_reducer_fix(reducer, v);
}

void sp_reducer_propagate(struct sp_reducer *reducer)
{
    uint32_t most = 1;
    for (uint32_t v = 0; v < reducer->problem->node_count; v++)
        most = reducer->nodes[v].states > most ? reducer->nodes[v].states : most;
    uint32_t *maps[2] = {SP_NEW_ARRAY(reducer->scratch, most, uint32_t),
                         SP_NEW_ARRAY(reducer->scratch, most, uint32_t)};
    if (maps[0] == NULL || maps[1] == NULL) {
        reducer->is_out_of_memory = true;
        return;
    }
    do {
        fix_constants(reducer);
        drain(reducer, true, maps);
        for (uint32_t e = 0; e < reducer->problem->edge_count; e++) {
            if (reducer->edges[e].is_dead)
                continue;
            sp_reducer_enqueue(reducer, e);
            drain(reducer, false, maps);
        }
        fix_constants(reducer);
    } while (reducer->queue_count > 0 && !sp_reducer_is_stopped(reducer));
}
