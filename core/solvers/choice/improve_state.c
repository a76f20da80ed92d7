/* The states of one search, what they cost and use: see improve_internal.h. */
#include <string.h>

#include "solvers/choice/improve_internal.h"

/* What the variable costs with its neighbours as they are: those for which `counts` is set. */
static int64_t plus(int64_t cost, uint32_t *infinite, int64_t more)
{
    if (more >= SP_CHOICE_INFINITE) {
        ++*infinite;
        return cost;
    }
    return cost + more;
}

static void add_usage(struct sp_improver *improver, uint32_t variable, uint32_t state, int sign)
{
    const struct sp_reduced *reduced = improver->reduced;
    uint32_t begin = reduced->first_range[variable], count = reduced->first_range[variable + 1] - begin;
    const int64_t *usage = reduced->usage + reduced->first_usage[variable] + (uint64_t)state * count;

    for (uint32_t r = 0; r < count; r++) {
        if (usage[r] != 0)
            sp_slack_tree_add(&improver->slack, reduced->ranges[begin + r].from, reduced->ranges[begin + r].to,
                              sign * usage[r]);
    }
}

/* The slack of every moment, into improver->dense. */
static void compute_slack(struct sp_improver *improver)
{
    const struct sp_reduced *reduced = improver->reduced;
    int64_t *dense = improver->dense, running = 0;

    memset(dense, 0, ((size_t)reduced->moment_count + 1) * sizeof *dense);
    for (uint32_t v = 0; v < reduced->variable_count; v++) {
        uint32_t begin = reduced->first_range[v], count = reduced->first_range[v + 1] - begin;
        const int64_t *usage = reduced->usage + reduced->first_usage[v] + (uint64_t)improver->states[v] * count;

        for (uint32_t r = 0; r < count; r++) {
            dense[reduced->ranges[begin + r].from] += usage[r];
            dense[reduced->ranges[begin + r].to] -= usage[r];
        }
    }
    for (uint32_t t = 0; t < reduced->moment_count; t++) {
        running += dense[t];
        dense[t] = reduced->limit[t] - running;
    }
}

static void see_over(struct sp_improver *improver)
{
    int64_t least = improver->reduced->moment_count == 0 ? 0 : sp_slack_tree_root(&improver->slack);

    improver->over = least < 0 ? -least : 0;
}

void sp_improver_refresh(struct sp_improver *improver)
{
    const struct sp_reduced *reduced = improver->reduced;

    improver->cost = 0;
    improver->infinite = 0;
    for (uint32_t v = 0; v < reduced->variable_count; v++)
        improver->cost += reduced->cost[reduced->first[v] + improver->states[v]];
    for (uint32_t e = 0; e < reduced->edge_count; e++) {
        const struct sp_reduced_edge *edge = &reduced->edges[e];
        uint32_t columns = reduced->first[edge->v + 1] - reduced->first[edge->v];

        improver->cost = plus(improver->cost, &improver->infinite,
                              edge->cost[(size_t)improver->states[edge->u] * columns + improver->states[edge->v]]);
    }
    compute_slack(improver);
    sp_slack_tree_set(&improver->slack, reduced->moment_count, improver->dense);
    see_over(improver);
    improver->work += reduced->variable_count + reduced->edge_count + reduced->moment_count;
}

/* What the window's variables cost as they are: edges inside once. */
static int64_t window_cost(const struct sp_improver *improver, uint32_t *infinite)
{
    const struct sp_reduced *reduced = improver->reduced;
    const struct sp_improve_window *window = &improver->window;
    int64_t cost = 0;

    for (uint32_t i = 0; i < window->count; i++) {
        uint32_t v = window->variable[i], state = improver->states[v];
        uint32_t states = reduced->first[v + 1] - reduced->first[v];

        cost += reduced->cost[reduced->first[v] + state];
        for (uint32_t l = reduced->first_link[v]; l < reduced->first_link[v + 1]; l++) {
            uint32_t other = improver->other[l];

            if (improver->place[other] == SP_IMPROVE_NONE || other < v)
                cost = plus(cost, infinite, improver->rows[l][(size_t)improver->states[other] * states + state]);
        }
    }
    return cost;
}

void sp_improver_take(struct sp_improver *improver, const uint32_t *chosen)
{
    const struct sp_improve_window *window = &improver->window;
    uint32_t before = 0, after = 0, changes = 0;
    int64_t cost = window_cost(improver, &before);

    for (uint32_t i = 0; i < window->count; i++)
        changes += improver->states[window->variable[i]] != window->state[window->first[i] + chosen[i]];
    bool is_many = changes > improver->reduced->moment_count / 128 + 8;
    for (uint32_t i = 0; i < window->count; i++) {
        uint32_t v = window->variable[i], state = window->state[window->first[i] + chosen[i]];

        if (improver->states[v] == state)
            continue;
        if (!is_many) {
            add_usage(improver, v, improver->states[v], 1);
            add_usage(improver, v, state, -1);
        }
        improver->states[v] = state;
    }
    if (is_many) {
        compute_slack(improver);
        sp_slack_tree_set(&improver->slack, improver->reduced->moment_count, improver->dense);
        improver->work += improver->reduced->variable_count + improver->reduced->moment_count;
    }
    improver->cost += window_cost(improver, &after) - cost;
    improver->infinite += after - before;
    improver->work += (uint64_t)window->count * 8;
    see_over(improver);
}

bool sp_improver_remember(struct sp_improver *improver)
{
    if (improver->infinite != improver->best_infinite) {
        if (improver->infinite > improver->best_infinite)
            return false;
    } else if (improver->over != improver->best_over) {
        if (improver->over > improver->best_over)
            return false;
    } else if (improver->cost >= improver->best_cost) {
        return false;
    }
    memcpy(improver->best, improver->states, improver->reduced->variable_count * sizeof *improver->best);
    improver->best_cost = improver->cost;
    improver->best_infinite = improver->infinite;
    improver->best_over = improver->over;
    return true;
}
