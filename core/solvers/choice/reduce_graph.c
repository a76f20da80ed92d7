/* The graph that is reduced: tables between nodes, merging, fixing, elimination. */
#include "solvers/choice/reducer.h"

#include "base/array.h"

static void *take(struct sp_reducer *reducer, struct sp_arena *arena, size_t count, size_t size)
{
    void *memory = sp_arena_array(arena, count, size);
    reducer->is_out_of_memory |= memory == NULL;
    return memory;
}

static uint64_t key_of(uint32_t u, uint32_t v)
{
    return u < v ? (uint64_t)u << 32 | v : (uint64_t)v << 32 | u;
}

static uint32_t find_edge(const struct sp_reducer *reducer, uint32_t u, uint32_t v)
{
    const struct sp_hash_slot *slot = sp_hash_map_get(&reducer->edge_of, key_of(u, v));
    if (slot == NULL)
        return UINT32_MAX;
    const struct sp_reducer_edge *edge = &reducer->edges[slot->number - 1];
    return !edge->is_dead && key_of(edge->u, edge->v) == key_of(u, v) ? (uint32_t)slot->number - 1 : UINT32_MAX;
}

static void note_edge(struct sp_reducer *reducer, uint32_t e)
{
    struct sp_hash_slot *slot = sp_hash_map_put(&reducer->edge_of, key_of(reducer->edges[e].u, reducer->edges[e].v));
    if (slot != NULL)
        slot->number = (uint64_t)e + 1;
    reducer->is_out_of_memory |= slot == NULL;
}

static void add_link(struct sp_reducer *reducer, uint32_t v, uint32_t e)
{
    struct sp_reducer_node *node = &reducer->nodes[v];
    if (SP_MAKE_ROOM(reducer->scratch, node->links, node->link_count, node->link_room, 1))
        node->links[node->link_count++] = e;
    else
        reducer->is_out_of_memory = true;
}

uint32_t sp_reducer_next_link(const struct sp_reducer *reducer, uint32_t v, uint32_t *index)
{
    const struct sp_reducer_node *node = &reducer->nodes[v];
    while (*index < node->link_count) {
        uint32_t e = node->links[(*index)++];
        const struct sp_reducer_edge *edge = &reducer->edges[e];
        if (!edge->is_dead && (edge->u == v || edge->v == v))
            return e;
    }
    return UINT32_MAX;
}

void sp_reducer_enqueue(struct sp_reducer *reducer, uint32_t e)
{
    if (!reducer->edges[e].is_dead)
        reducer->nodes[reducer->edges[e].u].is_dirty = reducer->nodes[reducer->edges[e].v].is_dirty = true;
    if (reducer->edges[e].is_queued || reducer->edges[e].is_dead)
        return;
    uint32_t room = reducer->problem->edge_count;
    reducer->edges[e].is_queued = true;
    reducer->queue[(reducer->queue_head + (uint64_t)reducer->queue_count++) % room] = e;
}

static void enqueue_links(struct sp_reducer *reducer, uint32_t v)
{
    uint32_t index = 0;
    for (uint32_t e; (e = sp_reducer_next_link(reducer, v, &index)) != UINT32_MAX;)
        sp_reducer_enqueue(reducer, e);
}

void sp_reducer_kill_state(struct sp_reducer *reducer, uint32_t v, uint32_t state)
{
    struct sp_reducer_node *node = &reducer->nodes[v];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < node->alive_count; i++)
        if (node->alive[i] != state)
            node->alive[kept++] = node->alive[i];
    if (kept == node->alive_count)
        return;
    node->alive_count = kept;
    reducer->has_changed = true;
    reducer->is_infeasible |= kept == 0;
    enqueue_links(reducer, v);
}

int64_t *sp_reducer_own_table(struct sp_reducer *reducer, uint32_t e)
{
    struct sp_reducer_edge *edge = &reducer->edges[e];
    size_t count = (size_t)reducer->nodes[edge->u].states * reducer->nodes[edge->v].states;
    if (!edge->is_own) {
        int64_t *table = take(reducer, reducer->scratch, count, sizeof *table);
        if (table == NULL)
            return NULL;
        memcpy(table, edge->cost, count * sizeof *table);
        edge->cost = table;
        edge->is_own = true;
    }
    return (int64_t *)edge->cost;
}

void sp_reducer_drop_edge(struct sp_reducer *reducer, uint32_t e)
{
    struct sp_reducer_edge *edge = &reducer->edges[e];
    if (edge->is_dead)
        return;
    reducer->nodes[edge->u].is_dirty = reducer->nodes[edge->v].is_dirty = true;
    edge->is_dead = true;
    reducer->nodes[edge->u].degree--;
    reducer->nodes[edge->v].degree--;
}

/* Adds a table [state of u][state of w] to what is between them. Without an edge there, `spare`, a dead one, becomes
   it: its table then is `cost` itself, which the reducer owns. */
void sp_reducer_add_table(struct sp_reducer *reducer, uint32_t u, uint32_t w, const int64_t *cost, uint32_t spare)
{
    uint32_t e = find_edge(reducer, u, w);
    if (e == UINT32_MAX) {
        struct sp_reducer_edge *edge = &reducer->edges[spare];
        bool is_known[2] = {edge->u == u || edge->v == u, edge->u == w || edge->v == w}; /* it was theirs before */
        *edge = (struct sp_reducer_edge){u, w, cost, true, false, edge->is_queued};
        reducer->nodes[u].degree++;
        reducer->nodes[w].degree++;
        if (!is_known[0])
            add_link(reducer, u, spare);
        if (!is_known[1])
            add_link(reducer, w, spare);
        note_edge(reducer, spare);
        sp_reducer_enqueue(reducer, spare);
        return;
    }
    int64_t *table = sp_reducer_own_table(reducer, e);
    if (table == NULL)
        return;
    struct sp_reducer_view view = sp_reducer_view(reducer, e, u);
    uint32_t columns = reducer->nodes[w].states;
    for (uint32_t s = 0; s < reducer->nodes[u].states; s++)
        for (uint32_t x = 0; x < columns; x++) {
            int64_t *to = &table[s * view.row + x * view.column];
            *to = sp_choice_add(*to, cost[(size_t)s * columns + x]);
        }
    sp_reducer_enqueue(reducer, e);
}

static void add_step(struct sp_reducer *reducer, uint32_t node, uint32_t u, uint32_t w, const uint32_t *map)
{
    reducer->steps[reducer->step_count++] =
        (struct sp_reduce_step){node, u, w, w == SP_NO_NODE ? 1 : reducer->nodes[w].states, map};
    reducer->has_changed = true;
}

/* The table of edge e, of v and some w, with a row for each state of u instead of v. */
static const int64_t *table_by(struct sp_reducer *reducer, uint32_t e, uint32_t v, uint32_t u, const uint32_t *map)
{
    const struct sp_reducer_node *to = &reducer->nodes[u];
    struct sp_reducer_view view = sp_reducer_view(reducer, e, v);
    uint32_t columns = reducer->nodes[view.other].states;
    int64_t *table = take(reducer, reducer->scratch, (size_t)to->states * columns, sizeof *table);
    if (table == NULL)
        return NULL;
    for (uint32_t i = 0; i < to->alive_count; i++) {
        uint32_t s = to->alive[i];
        for (uint32_t x = 0; x < columns; x++)
            table[(size_t)s * columns + x] = sp_reducer_cost(&view, map[s], x);
    }
    return table;
}

void sp_reducer_merge(struct sp_reducer *reducer, uint32_t u, uint32_t v, uint32_t e, const uint32_t *map)
{
    struct sp_reducer_node *to = &reducer->nodes[u], *from = &reducer->nodes[v];
    struct sp_reducer_view between = sp_reducer_view(reducer, e, u);
    for (uint32_t i = to->alive_count; i-- > 0;) {
        uint32_t s = to->alive[i];
        int64_t cost = sp_choice_add(from->cost[map[s]], sp_reducer_cost(&between, s, map[s]));
        to->cost[s] = sp_choice_add(to->cost[s], cost);
        if (to->cost[s] >= SP_CHOICE_INFINITE)
            sp_reducer_kill_state(reducer, u, s);
    }
    sp_reducer_drop_edge(reducer, e);
    uint32_t index = 0;
    for (uint32_t other; (other = sp_reducer_next_link(reducer, v, &index)) != UINT32_MAX;) {
        uint32_t w = sp_reducer_view(reducer, other, v).other;
        const int64_t *table = table_by(reducer, other, v, u, map);
        if (table == NULL)
            return;
        sp_reducer_drop_edge(reducer, other);
        sp_reducer_add_table(reducer, u, w, table, other);
    }
    from->is_gone = true;
    from->parent = u;
    from->map = map;
    add_step(reducer, v, u, SP_NO_NODE, map);
    enqueue_links(reducer, u);
}

void sp_reducer_fix(struct sp_reducer *reducer, uint32_t v)
{
    struct sp_reducer_node *node = &reducer->nodes[v];
    uint32_t state = node->alive[0], index = 0;
    for (uint32_t e; (e = sp_reducer_next_link(reducer, v, &index)) != UINT32_MAX;) {
        struct sp_reducer_view view = sp_reducer_view(reducer, e, v);
        struct sp_reducer_node *other = &reducer->nodes[view.other];
        sp_reducer_drop_edge(reducer, e);
        for (uint32_t i = other->alive_count; i-- > 0;) {
            uint32_t x = other->alive[i];
            other->cost[x] = sp_choice_add(other->cost[x], sp_reducer_cost(&view, state, x));
            if (other->cost[x] >= SP_CHOICE_INFINITE)
                sp_reducer_kill_state(reducer, view.other, x);
        }
        if (other->alive_count == 1 && !other->is_fixed)
            enqueue_links(reducer, view.other);
    }
    uint32_t *map = take(reducer, reducer->arena, 1, sizeof *map);
    if (map == NULL)
        return;
    *map = state;
    node->is_fixed = true;
    add_step(reducer, v, SP_NO_NODE, SP_NO_NODE, map);
    reducer->fixed_cost = sp_choice_add(reducer->fixed_cost, node->cost[state]);
    reducer->is_infeasible |= reducer->fixed_cost >= SP_CHOICE_INFINITE;
}

/* The best state of v for a state s of u (where there is a view). */
static uint32_t best_state(const struct sp_reducer_node *node, const struct sp_reducer_view *u, uint32_t s,
                           int64_t *ret_cost)
{
    uint32_t best = node->alive[0];
    *ret_cost = SP_CHOICE_INFINITE;
    for (uint32_t i = 0; i < node->alive_count; i++) {
        uint32_t state = node->alive[i];
        int64_t cost = node->cost[state];
        if (u != NULL)
            cost = sp_choice_add(cost, sp_reducer_cost(u, state, s));
        if (cost < *ret_cost) {
            *ret_cost = cost;
            best = state;
        }
    }
    return best;
}

static void eliminate_leaf(struct sp_reducer *reducer, uint32_t v, uint32_t e)
{
    struct sp_reducer_view view = sp_reducer_view(reducer, e, v);
    struct sp_reducer_node *to = &reducer->nodes[view.other];
    uint32_t *map = take(reducer, reducer->arena, to->states, sizeof *map);
    if (map == NULL)
        return;
    sp_reducer_drop_edge(reducer, e);
    for (uint32_t i = to->alive_count; i-- > 0;) {
        uint32_t s = to->alive[i];
        int64_t cost;
        map[s] = best_state(&reducer->nodes[v], &view, s, &cost);
        to->cost[s] = sp_choice_add(to->cost[s], cost);
        if (to->cost[s] >= SP_CHOICE_INFINITE)
            sp_reducer_kill_state(reducer, view.other, s);
    }
    add_step(reducer, v, view.other, SP_NO_NODE, map);
}

/* What eliminating one node works on: its neighbours' sides of the tables, close together. */
struct pairs {
    int64_t *beside;       /* [alive state of v][alive state of w] */
    int64_t *least, *most; /* per alive state of v: of its row */
    int64_t *best;         /* per alive state of w */
    uint32_t *taken;       /* likewise: v's state */
};

static bool take_pairs(struct sp_reducer *reducer, const struct sp_reducer_node *v, const struct sp_reducer_view *view,
                       const struct sp_reducer_node *w, struct pairs *ret_pairs)
{
    size_t rows = v->alive_count, columns = w->alive_count, entries = (rows + 2) * columns + 2 * rows;
    if (entries > reducer->pairs) {
        reducer->pairs = 2 * entries;
        reducer->room_of_pairs = take(reducer, reducer->scratch, reducer->pairs, sizeof(int64_t));
        if (reducer->room_of_pairs == NULL)
            return false;
    }
    ret_pairs->beside = reducer->room_of_pairs;
    ret_pairs->least = ret_pairs->beside + rows * columns;
    ret_pairs->most = ret_pairs->least + rows;
    ret_pairs->best = ret_pairs->most + rows;
    ret_pairs->taken = (uint32_t *)(ret_pairs->best + columns);
    for (size_t k = 0; k < rows; k++) {
        int64_t *row = ret_pairs->beside + k * columns, least = SP_CHOICE_INFINITE, most = 0;
        for (size_t j = 0; j < columns; j++) {
            row[j] = sp_choice_add(sp_reducer_cost(view, v->alive[k], w->alive[j]), 0);
            least = row[j] < least ? row[j] : least;
            most = row[j] > most ? row[j] : most;
        }
        ret_pairs->least[k] = least;
        ret_pairs->most[k] = most;
    }
    return true;
}

/* For each state of w the best of v beside state s of u. Rows that are nowhere less than another one is everywhere are
   not looked at. What is added here is at most SP_CHOICE_INFINITE, so that sums need no care. */
static void find_best(const struct sp_reducer_node *v, const struct sp_reducer_view *view, uint32_t s, uint32_t columns,
                      const struct pairs *pairs)
{
    int64_t *best = pairs->best, enough = SP_CHOICE_INFINITE;
    uint32_t *taken = pairs->taken;
    for (uint32_t j = 0; j < columns; j++) {
        best[j] = SP_CHOICE_INFINITE;
        taken[j] = v->alive[0];
    }
    for (uint32_t k = 0; k < v->alive_count; k++) {
        const uint32_t state = v->alive[k];
        const int64_t *row = pairs->beside + (size_t)k * columns;
        const int64_t own = sp_choice_add(v->cost[state], sp_reducer_cost(view, state, s));
        if (own + pairs->least[k] >= enough)
            continue;
        enough = own + pairs->most[k] < enough ? own + pairs->most[k] : enough;
        for (uint32_t j = 0; j < columns; j++) {
            const int64_t cost = own + row[j];
            const bool is_less = cost < best[j];
            best[j] = is_less ? cost : best[j];
            taken[j] = is_less ? state : taken[j];
        }
    }
}

static void eliminate_between(struct sp_reducer *reducer, uint32_t v, uint32_t e, uint32_t f)
{
    struct sp_reducer_view view = sp_reducer_view(reducer, e, v), next = sp_reducer_view(reducer, f, v);
    const struct sp_reducer_node *u = &reducer->nodes[view.other], *w = &reducer->nodes[next.other];
    size_t count = (size_t)u->states * w->states;
    uint32_t *map = take(reducer, reducer->arena, count, sizeof *map);
    int64_t *table = take(reducer, reducer->scratch, count, sizeof *table);
    struct pairs pairs;
    if (map == NULL || table == NULL || !take_pairs(reducer, &reducer->nodes[v], &next, w, &pairs))
        return;
    for (uint32_t i = 0; i < u->alive_count; i++) {
        const size_t row = (size_t)u->alive[i] * w->states;
        find_best(&reducer->nodes[v], &view, u->alive[i], w->alive_count, &pairs);
        for (uint32_t j = 0; j < w->alive_count; j++) {
            map[row + w->alive[j]] = pairs.taken[j];
            table[row + w->alive[j]] = pairs.best[j];
        }
    }
    sp_reducer_drop_edge(reducer, e);
    sp_reducer_drop_edge(reducer, f);
    sp_reducer_add_table(reducer, view.other, next.other, table, e);
    add_step(reducer, v, view.other, next.other, map);
}

void sp_reducer_eliminate(struct sp_reducer *reducer, uint32_t v)
{
    struct sp_reducer_node *node = &reducer->nodes[v];
    uint32_t index = 0, e = sp_reducer_next_link(reducer, v, &index), f = sp_reducer_next_link(reducer, v, &index);
    if (e == UINT32_MAX) {
        int64_t cost;
        node->alive[0] = best_state(node, NULL, 0, &cost);
        node->alive_count = 1;
        sp_reducer_fix(reducer, v);
        return;
    }
    if (f == UINT32_MAX)
        eliminate_leaf(reducer, v, e);
    else
        eliminate_between(reducer, v, e, f);
    node->is_gone = true;
}

static void build_nodes(struct sp_reducer *reducer)
{
    const struct sp_choice_problem *problem = reducer->problem;
    uint32_t total = problem->first[problem->node_count];
    uint32_t *alive = take(reducer, reducer->scratch, total, sizeof *alive);
    int64_t *cost = take(reducer, reducer->scratch, total, sizeof *cost);
    if (alive == NULL || cost == NULL)
        return;
    for (uint32_t v = 0; v < problem->node_count; v++) {
        struct sp_reducer_node *node = &reducer->nodes[v];
        uint32_t first = problem->first[v];
        node->states = problem->first[v + 1] - first;
        node->alive = &alive[first];
        node->cost = &cost[first];
        node->parent = SP_NO_NODE;
        node->is_dirty = true;
        for (uint32_t s = 0; s < node->states; s++) {
            node->cost[s] = problem->cost[first + s];
            if (node->cost[s] < SP_CHOICE_INFINITE)
                node->alive[node->alive_count++] = s;
        }
        reducer->is_infeasible |= node->alive_count == 0;
    }
}

void sp_reducer_build(struct sp_reducer *reducer)
{
    const struct sp_choice_problem *problem = reducer->problem;
    reducer->nodes = take(reducer, reducer->scratch, problem->node_count, sizeof *reducer->nodes);
    reducer->edges = take(reducer, reducer->scratch, problem->edge_count, sizeof *reducer->edges);
    reducer->queue = take(reducer, reducer->scratch, problem->edge_count, sizeof *reducer->queue);
    reducer->steps = take(reducer, reducer->arena, problem->node_count, sizeof *reducer->steps);
    reducer->edge_of.arena = reducer->scratch;
    reducer->is_out_of_memory |= !sp_hash_map_reserve(&reducer->edge_of, problem->edge_count);
    if (reducer->is_out_of_memory)
        return;
    build_nodes(reducer);
    for (uint32_t e = 0; e < problem->edge_count && !reducer->is_out_of_memory; e++) {
        const struct sp_choice_edge *edge = &problem->edges[e];
        struct sp_reducer_edge *spare = &reducer->edges[e];
        *spare = (struct sp_reducer_edge){.u = SP_NO_NODE, .v = SP_NO_NODE, .is_dead = true};
        sp_reducer_add_table(reducer, edge->u, edge->v, edge->cost, e);
        if (!spare->is_dead)
            spare->is_own = false; /* the table is the caller's */
    }
}
