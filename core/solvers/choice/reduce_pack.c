/* What is left of a reduction, numbered densely. */
#include "solvers/choice/reducer.h"

struct packer {
    struct sp_reducer *reducer;
    struct sp_reduced *reduced;
    uint32_t *number;          /* node -> variable */
    struct sp_hash_map tables; /* by digest: equal ones are one; an edge that has it */
};

static void *take(struct packer *packer, size_t count, size_t size)
{
    void *memory = sp_arena_array(packer->reducer->arena, count, size);
    packer->reducer->is_out_of_memory |= memory == NULL;
    return memory;
}

static void count_all(struct packer *packer, uint64_t *ret_states, uint64_t *ret_ranges, uint64_t *ret_usage)
{
    struct sp_reducer *reducer = packer->reducer;
    for (uint32_t v = 0; v < reducer->problem->node_count; v++) {
        if (!sp_reducer_is_variable(reducer, v))
            continue;
        const struct sp_reducer_node *node = &reducer->nodes[v];
        packer->number[v] = packer->reduced->variable_count++;
        *ret_states += node->alive_count;
        *ret_ranges += node->range_count;
        *ret_usage += (uint64_t)node->alive_count * node->range_count;
    }
    for (uint32_t e = 0; e < reducer->problem->edge_count; e++)
        packer->reduced->edge_count += !reducer->edges[e].is_dead;
}

static void pack_variable(struct packer *packer, struct sp_expansion *expansion, uint32_t v)
{
    struct sp_reduced *reduced = packer->reduced;
    const struct sp_reducer_node *node = &packer->reducer->nodes[v];
    uint32_t n = packer->number[v], first = reduced->first[n], ranges = reduced->first_range[n];
    int64_t *usage = &reduced->usage[reduced->first_usage[n]];
    expansion->node_of[n] = v;
    for (uint32_t r = 0; r < node->range_count; r++)
        reduced->ranges[ranges + r] = node->ranges[r];
    for (uint32_t i = 0; i < node->alive_count; i++) {
        uint32_t s = node->alive[i];
        reduced->cost[first + i] = node->cost[s];
        expansion->strategy_of[first + i] = s;
        for (uint32_t r = 0; r < node->range_count; r++)
            *usage++ = node->usage[(size_t)s * node->range_count + r];
    }
    reduced->first[n + 1] = first + node->alive_count;
    reduced->first_range[n + 1] = ranges + node->range_count;
    reduced->first_usage[n + 1] = reduced->first_usage[n] + (uint64_t)node->alive_count * node->range_count;
}

static bool pack_variables(struct packer *packer)
{
    struct sp_reducer *reducer = packer->reducer;
    struct sp_reduced *reduced = packer->reduced;
    uint64_t states = 0, ranges = 0, usage = 0;
    packer->number = SP_NEW_ARRAY(reducer->scratch, reducer->problem->node_count, uint32_t);
    if (packer->number == NULL)
        return false;
    count_all(packer, &states, &ranges, &usage);
    struct sp_expansion *expansion = take(packer, 1, sizeof *expansion);
    reduced->first = take(packer, (size_t)reduced->variable_count + 1, sizeof(uint32_t));
    reduced->first_range = take(packer, (size_t)reduced->variable_count + 1, sizeof(uint32_t));
    reduced->first_usage = take(packer, (size_t)reduced->variable_count + 1, sizeof(uint64_t));
    reduced->first_link = take(packer, (size_t)reduced->variable_count + 2, sizeof(uint32_t));
    reduced->cost = take(packer, states, sizeof(int64_t));
    reduced->ranges = take(packer, ranges, sizeof *reduced->ranges);
    reduced->usage = take(packer, usage, sizeof(int64_t));
    reduced->edges = take(packer, reduced->edge_count, sizeof *reduced->edges);
    reduced->links = take(packer, 2 * (size_t)reduced->edge_count, sizeof(uint32_t));
    if (expansion == NULL || reducer->is_out_of_memory)
        return false;
    expansion->node_of = take(packer, reduced->variable_count, sizeof(uint32_t));
    expansion->strategy_of = take(packer, states, sizeof(uint32_t));
    if (reducer->is_out_of_memory)
        return false;
    for (uint32_t v = 0; v < reducer->problem->node_count; v++)
        if (sp_reducer_is_variable(reducer, v))
            pack_variable(packer, expansion, v);
    expansion->steps = reducer->steps;
    expansion->step_count = reducer->step_count;
    reduced->expansion = expansion;
    return true;
}

static uint32_t states_of(const struct sp_reduced *reduced, uint32_t v)
{
    return reduced->first[v + 1] - reduced->first[v];
}

static void turn(const int64_t *from, int64_t *to, uint32_t rows, uint32_t columns)
{
    for (uint32_t s = 0; s < rows; s++)
        for (uint32_t x = 0; x < columns; x++)
            to[(size_t)x * rows + s] = from[(size_t)s * columns + x];
}

/* Puts `table`, in scratch, into the edge: an equal one of an earlier edge, the caller's own where it is the same, or a
   copy. `given` is the caller's table, or NULL. */
static bool keep_table(struct packer *packer, struct sp_reduced_edge *edge, const int64_t *table, const int64_t *given)
{
    const struct sp_reduced *reduced = packer->reduced;
    uint32_t rows = states_of(reduced, edge->u), columns = states_of(reduced, edge->v);
    size_t count = (size_t)rows * columns;
    const uint64_t digest = sp_digest(table, count * sizeof *table, rows);
    uint32_t at = sp_hash_home(&packer->tables, digest);
    for (const struct sp_hash_slot *slot; (slot = sp_hash_next(&packer->tables, digest, &at)) != NULL;) {
        const struct sp_reduced_edge *known = slot->item;
        if (states_of(reduced, known->u) == rows && states_of(reduced, known->v) == columns &&
            memcmp(known->cost, table, count * sizeof *table) == 0) {
            edge->cost = known->cost;
            edge->turned = known->turned;
            return true;
        }
    }
    int64_t *turned = take(packer, count, sizeof *turned), *own = NULL;
    if (given == NULL && turned != NULL) {
        own = take(packer, count, sizeof *own);
        if (own != NULL)
            memcpy(own, table, count * sizeof *own);
        given = own;
    }
    if (turned == NULL || given == NULL || !sp_hash_set_add(&packer->tables, digest, edge))
        return false;
    turn(given, turned, rows, columns);
    edge->cost = given;
    edge->turned = turned;
    return true;
}

static bool pack_edge(struct packer *packer, const struct sp_reducer_edge *from, struct sp_reduced_edge *edge,
                      struct sp_arena *scratch)
{
    struct sp_reducer *reducer = packer->reducer;
    bool is_turned = packer->number[from->u] > packer->number[from->v];
    uint32_t u = is_turned ? from->v : from->u;
    struct sp_reducer_view view = sp_reducer_view(reducer, (uint32_t)(from - reducer->edges), u);
    const struct sp_reducer_node *rows = &reducer->nodes[u], *columns = &reducer->nodes[view.other];
    edge->u = packer->number[u];
    edge->v = packer->number[view.other];
    struct sp_arena_mark mark = sp_arena_mark(scratch);
    int64_t *table = SP_NEW_ARRAY(scratch, (size_t)rows->alive_count * columns->alive_count, int64_t);
    if (table == NULL)
        return false;
    int64_t *to = table;
    bool is_plain =
        !is_turned && !from->is_own && rows->alive_count == rows->states && columns->alive_count == columns->states;
    for (uint32_t i = 0; i < rows->alive_count; i++)
        for (uint32_t j = 0; j < columns->alive_count; j++) {
            int64_t cost = sp_reducer_cost(&view, rows->alive[i], columns->alive[j]);
            is_plain = is_plain && cost <= SP_CHOICE_INFINITE;
            *to++ = cost < SP_CHOICE_INFINITE ? cost : SP_CHOICE_INFINITE;
        }
    bool is_kept = keep_table(packer, edge, table, is_plain ? from->cost : NULL);
    sp_arena_rewind(scratch, mark);
    return is_kept;
}

static void pack_links(struct sp_reduced *reduced)
{
    for (uint32_t e = 0; e < reduced->edge_count; e++) {
        reduced->first_link[reduced->edges[e].u + 2]++;
        reduced->first_link[reduced->edges[e].v + 2]++;
    }
    for (uint32_t v = 0; v < reduced->variable_count; v++)
        reduced->first_link[v + 2] += reduced->first_link[v + 1];
    for (uint32_t e = 0; e < reduced->edge_count; e++) {
        reduced->links[reduced->first_link[reduced->edges[e].u + 1]++] = e;
        reduced->links[reduced->first_link[reduced->edges[e].v + 1]++] = e;
    }
}

static bool pack_edges(struct packer *packer)
{
    struct sp_reducer *reducer = packer->reducer;
    packer->tables.arena = reducer->scratch;
    if (!sp_hash_map_reserve(&packer->tables, packer->reduced->edge_count + 1))
        return false;
    uint32_t n = 0;
    for (uint32_t e = 0; e < reducer->problem->edge_count; e++)
        if (!reducer->edges[e].is_dead &&
            !pack_edge(packer, &reducer->edges[e], &packer->reduced->edges[n++], reducer->scratch))
            return false;
    pack_links(packer->reduced);
    return true;
}

enum sp_status sp_reducer_pack(struct sp_reducer *reducer, struct sp_reduced *reduced)
{
    struct packer packer = {.reducer = reducer, .reduced = reduced};
    if (!pack_variables(&packer) || !pack_edges(&packer))
        return SP_ERR_MEMORY;
    reduced->moment_count = reducer->moment_count;
    reduced->limit = reducer->room;
    reduced->moment_of = reducer->moment_of;
    return SP_OK;
}
