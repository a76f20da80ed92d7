/* What a choice costs and uses, by definition; and whether a problem is well formed. */
#include "solvers/choice/problem.h"

struct event {
    int64_t time, change;
};

static int by_time(const void *a, const void *b)
{
    const struct event *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return (x->change > y->change) - (x->change < y->change); /* what ends goes first */
}

static enum sp_status find_peak(struct sp_arena *scratch, const struct sp_choice_problem *problem,
                                const uint32_t *choice, int64_t *ret_peak, int64_t *ret_moment, struct sp_error *err)
{
    struct event *events = SP_NEW_ARRAY(scratch, 2 * (size_t)problem->node_count, struct event);
    if (events == NULL)
        return sp_fail_memory(err);
    size_t count = 0;
    for (uint32_t v = 0; v < problem->node_count; v++) {
        int64_t use = problem->usage[problem->first[v] + choice[v]];
        if (problem->begin[v] >= problem->end[v] || use == 0)
            continue;
        events[count++] = (struct event){problem->begin[v], use};
        events[count++] = (struct event){problem->end[v], -use};
    }
    qsort(events, count, sizeof *events, by_time);
    __int128 usage = 0, peak = 0;
    int64_t moment = problem->node_count > 0 ? problem->begin[0] : 0;
    for (size_t i = 0; i < count; i++) {
        usage += events[i].change;
        if (usage > peak && (i + 1 == count || events[i + 1].time != events[i].time)) {
            peak = usage;
            moment = events[i].time;
        }
    }
    *ret_peak = peak > INT64_MAX ? INT64_MAX : (int64_t)peak;
    *ret_moment = moment;
    return SP_OK;
}

enum sp_status sp_choice_evaluate(struct sp_arena *scratch, const struct sp_choice_problem *problem,
                                  const uint32_t *choice, int64_t *ret_cost, int64_t *ret_peak, int64_t *ret_moment,
                                  struct sp_error *err)
{
    __int128 sum = 0;
    bool is_forbidden = false;
    for (uint32_t v = 0; v < problem->node_count; v++) {
        if (choice[v] >= problem->first[v + 1] - problem->first[v])
            return sp_fail(err, SP_ERR_REQUEST, "CHOICE_OUT_OF_RANGE",
                           "Node %u has %u strategies; a choice may not take number %u.", v,
                           problem->first[v + 1] - problem->first[v], choice[v]);
        int64_t cost = problem->cost[problem->first[v] + choice[v]];
        is_forbidden |= cost >= SP_CHOICE_INFINITE;
        sum += cost;
    }
    for (uint32_t e = 0; e < problem->edge_count; e++) {
        const struct sp_choice_edge *edge = &problem->edges[e];
        size_t columns = problem->first[edge->v + 1] - problem->first[edge->v];
        int64_t cost = edge->cost[choice[edge->u] * columns + choice[edge->v]];
        is_forbidden |= cost >= SP_CHOICE_INFINITE;
        sum += cost;
    }
    struct sp_arena_mark mark = sp_arena_mark(scratch);
    enum sp_status status = find_peak(scratch, problem, choice, ret_peak, ret_moment, err);
    sp_arena_rewind(scratch, mark);
    if (status == SP_OK)
        *ret_cost = is_forbidden || sum >= SP_CHOICE_INFINITE ? INT64_MAX : (int64_t)sum;
    return status;
}

static enum sp_status check_node(const struct sp_choice_problem *problem, uint32_t v, __int128 *ret_usage,
                                 __int128 *ret_cost, struct sp_error *err)
{
    if (problem->first[v + 1] <= problem->first[v] || problem->first[v + 1] - problem->first[v] > SP_MAX_CHOICE_STATES)
        return sp_fail(err, SP_ERR_REQUEST, "CHOICE_STRATEGIES", "Node %u has no strategies, or more than %u.", v,
                       SP_MAX_CHOICE_STATES);
    int64_t most = 0, dearest = 0;
    for (uint32_t s = problem->first[v]; s < problem->first[v + 1]; s++) {
        if (problem->cost[s] < 0 || problem->usage[s] < 0)
            return sp_fail(err, SP_ERR_REQUEST, "CHOICE_NEGATIVE", "Strategy %u of node %u costs or uses less than 0.",
                           s - problem->first[v], v);
        most = problem->usage[s] > most ? problem->usage[s] : most;
        if (problem->cost[s] < SP_CHOICE_INFINITE && problem->cost[s] > dearest)
            dearest = problem->cost[s];
    }
    *ret_usage += most;
    *ret_cost += dearest;
    return SP_OK;
}

static enum sp_status check_edge(const struct sp_choice_problem *problem, uint32_t e, __int128 *ret_cost,
                                 struct sp_error *err)
{
    const struct sp_choice_edge *edge = &problem->edges[e];
    if (edge->u >= problem->node_count || edge->v >= problem->node_count || edge->u == edge->v || edge->cost == NULL)
        return sp_fail(err, SP_ERR_REQUEST, "CHOICE_EDGE", "Edge %u must have a table and join two different nodes.",
                       e);
    size_t count = (size_t)(problem->first[edge->u + 1] - problem->first[edge->u]) *
                   (problem->first[edge->v + 1] - problem->first[edge->v]);
    int64_t least = 0, dearest = 0;
    for (size_t i = 0; i < count; i++) {
        least = edge->cost[i] < least ? edge->cost[i] : least;
        if (edge->cost[i] < SP_CHOICE_INFINITE && edge->cost[i] > dearest)
            dearest = edge->cost[i];
    }
    if (least < 0)
        return sp_fail(err, SP_ERR_REQUEST, "CHOICE_NEGATIVE", "Edge %u has a cost less than 0.", e);
    *ret_cost += dearest;
    return SP_OK;
}

enum sp_status sp_choice_check(const struct sp_choice_problem *problem, struct sp_error *err)
{
    __int128 usage = 0, cost = 0;
    enum sp_status status = SP_OK;
    if (problem->node_count > SP_MAX_CHOICE_NODES || problem->edge_count > SP_MAX_CHOICE_EDGES)
        return sp_fail_limit(err, "CHOICE_TOO_LARGE", "SP_MAX_CHOICE_NODES", SP_MAX_CHOICE_NODES, problem->node_count,
                             "The problem has %u nodes and %u edges; at most %u and %u can be chosen for.",
                             problem->node_count, problem->edge_count, SP_MAX_CHOICE_NODES, SP_MAX_CHOICE_EDGES);
    if (problem->limit < 0)
        return sp_fail(err, SP_ERR_REQUEST, "CHOICE_NEGATIVE", "The limit of usage is less than 0.");
    for (uint32_t v = 0; v < problem->node_count && status == SP_OK; v++)
        status = check_node(problem, v, &usage, &cost, err);
    for (uint32_t e = 0; e < problem->edge_count && status == SP_OK; e++)
        status = check_edge(problem, e, &cost, err);
    if (status == SP_OK && (usage > INT64_MAX / 4 || cost > INT64_MAX / 4))
        return sp_fail(err, SP_ERR_REQUEST, "CHOICE_TOO_DEAR",
                       "The largest costs or usages of all nodes and edges together do not fit 64 bits: use a larger "
                       "unit.");
    return status;
}
