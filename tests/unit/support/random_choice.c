#include "random_choice.h"

#include <assert.h>

#define MOST_CHOICES 60000
#define TIMES        10

uint32_t choice_pick(uint64_t *seed, uint32_t bound)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*seed >> 33) % bound);
}

static uint32_t states_of(const struct sp_choice_problem *problem, uint32_t v)
{
    return problem->first[v + 1] - problem->first[v];
}

enum table_kind { TABLE_COSTS, TABLE_FUNCTION, TABLE_EQUAL, TABLE_HOLES, TABLE_FEW, TABLE_KINDS };

static const int64_t *random_table(struct sp_arena *arena, uint32_t rows, uint32_t columns, uint64_t *seed)
{
    int64_t *table = SP_NEW_ARRAY(arena, (size_t)rows * columns, int64_t);
    assert(table != NULL);
    uint32_t kind = choice_pick(seed, 3) > 0 ? TABLE_COSTS : choice_pick(seed, TABLE_KINDS),
             shift = choice_pick(seed, columns);
    for (uint32_t s = 0; s < rows; s++) {
        uint32_t partner = choice_pick(seed, columns);
        for (uint32_t x = 0; x < columns; x++) {
            bool is_forbidden = (kind == TABLE_FUNCTION && x != partner) ||
                                (kind == TABLE_EQUAL && x != (s + shift) % columns) ||
                                (kind == TABLE_HOLES && choice_pick(seed, 4) == 0);
            int64_t cost = kind == TABLE_FEW ? choice_pick(seed, 2) : choice_pick(seed, 30);
            table[(size_t)s * columns + x] = is_forbidden ? SP_CHOICE_INFINITE * (1 + choice_pick(seed, 10)) : cost;
        }
    }
    return table;
}

static void random_nodes(struct sp_arena *arena, struct sp_choice_problem *problem, uint32_t nodes, uint64_t *seed)
{
    uint32_t *first = SP_NEW_ARRAY(arena, (size_t)nodes + 1, uint32_t), choices = 1;
    int64_t *figures = SP_NEW_ARRAY(arena, (size_t)nodes * 10, int64_t);
    int64_t *times = SP_NEW_ARRAY(arena, 2 * (size_t)nodes, int64_t);
    assert(first != NULL && figures != NULL && times != NULL);
    problem->first = first;
    problem->cost = figures;
    problem->usage = &figures[5 * (size_t)nodes];
    problem->begin = times;
    problem->end = &times[nodes];
    uint32_t kind = choice_pick(seed, 3);
    for (uint32_t v = 0; v < nodes; v++) {
        uint32_t states = 1 + choice_pick(seed, 5);
        while (choices * states > MOST_CHOICES)
            states--;
        choices *= states;
        first[v + 1] = first[v] + states;
        for (uint32_t s = first[v]; s < first[v + 1]; s++) {
            figures[s] = choice_pick(seed, 40) == 0 ? SP_CHOICE_INFINITE : choice_pick(seed, kind == 0 ? 2 : 20);
            figures[5 * (size_t)nodes + s] = choice_pick(seed, 3) == 0 ? 0 : choice_pick(seed, kind == 1 ? 3 : 20);
        }
        times[v] = (int64_t)choice_pick(seed, TIMES) - 2;
        times[nodes + v] = times[v] + choice_pick(seed, TIMES);
        problem->node_count++;
    }
}

static void random_edges(struct sp_arena *arena, struct sp_choice_problem *problem, uint64_t *seed)
{
    uint32_t nodes = problem->node_count, shape = choice_pick(seed, 4), count = 0;
    struct sp_choice_edge *edges = SP_NEW_ARRAY(arena, (size_t)nodes * nodes + 1, struct sp_choice_edge);
    assert(edges != NULL);
    problem->edges = edges;
    for (uint32_t u = 0; u < nodes; u++)
        for (uint32_t v = u + 1; v < nodes; v++) {
            bool is_chain = v == u + 1, is_wanted = choice_pick(seed, 3) == 0;
            if (!(shape == 0 ? is_chain : shape == 1 ? nodes < 7 : shape == 2 ? is_chain || is_wanted : is_wanted))
                continue;
            bool is_turned = choice_pick(seed, 2) == 0;
            uint32_t from = is_turned ? v : u, to = is_turned ? u : v;
            edges[count++] = (struct sp_choice_edge){
                from, to, random_table(arena, states_of(problem, from), states_of(problem, to), seed)};
            if (choice_pick(seed, 12) == 0) /* a parallel one, the other way round */
                edges[count++] = (struct sp_choice_edge){
                    to, from, random_table(arena, states_of(problem, to), states_of(problem, from), seed)};
        }
    problem->edge_count = count;
}

static int64_t peak_of(const struct sp_choice_problem *problem, const uint32_t *choice)
{
    int64_t peak = 0;
    for (int64_t t = -2; t < 2 * TIMES; t++) {
        int64_t usage = 0;
        for (uint32_t v = 0; v < problem->node_count; v++)
            if (problem->begin[v] <= t && t < problem->end[v])
                usage += problem->usage[problem->first[v] + choice[v]];
        peak = usage > peak ? usage : peak;
    }
    return peak;
}

/* INT64_MAX: forbidden */
static int64_t cost_of(const struct sp_choice_problem *problem, const uint32_t *choice)
{
    int64_t sum = 0;
    for (uint32_t v = 0; v < problem->node_count; v++) {
        int64_t cost = problem->cost[problem->first[v] + choice[v]];
        if (cost >= SP_CHOICE_INFINITE)
            return INT64_MAX;
        sum += cost;
    }
    for (uint32_t e = 0; e < problem->edge_count; e++) {
        const struct sp_choice_edge *edge = &problem->edges[e];
        int64_t cost = edge->cost[choice[edge->u] * states_of(problem, edge->v) + choice[edge->v]];
        if (cost >= SP_CHOICE_INFINITE)
            return INT64_MAX;
        sum += cost;
    }
    return sum;
}

int64_t choice_try_all(const struct sp_choice_problem *problem, int64_t *ret_least_peak)
{
    uint32_t choice[RANDOM_CHOICE_NODES] = {0}, v;
    int64_t best = INT64_MAX;
    *ret_least_peak = INT64_MAX;
    do {
        int64_t cost = cost_of(problem, choice);
        if (cost < INT64_MAX) {
            int64_t peak = peak_of(problem, choice);
            *ret_least_peak = peak < *ret_least_peak ? peak : *ret_least_peak;
            if (peak <= problem->limit && cost < best)
                best = cost;
        }
        for (v = 0; v < problem->node_count && ++choice[v] == states_of(problem, v); v++)
            choice[v] = 0;
    } while (v < problem->node_count);
    return best;
}

struct sp_choice_problem *choice_random(struct sp_arena *arena, uint32_t nodes, uint64_t *seed)
{
    struct sp_choice_problem *problem = SP_NEW(arena, struct sp_choice_problem);
    assert(problem != NULL && nodes > 0 && nodes <= RANDOM_CHOICE_NODES);
    random_nodes(arena, problem, 1 + choice_pick(seed, nodes), seed);
    random_edges(arena, problem, seed);
    problem->limit = INT64_MAX;
    if (choice_pick(seed, 4) > 0) {
        int64_t peak;
        (void)choice_try_all(problem, &peak);
        problem->limit = (peak == INT64_MAX ? 10 : peak) + choice_pick(seed, 12);
        if (choice_pick(seed, 8) == 0 && problem->limit > 0)
            problem->limit -= 1 + choice_pick(seed, (uint32_t)problem->limit);
    }
    return problem;
}
