/* Flows: first along the arcs of the intervals, which have no circle, then along what is left, back too. */
#include <string.h>

#include "solvers/routes/internal.h"

#define NONE UINT32_MAX

enum sp_status sp_routes_flow_create(struct sp_arena *arena, const struct sp_routes_table *table,
                                     struct sp_routes_flow *ret_flow, struct sp_error *err)
{
    const uint32_t vertices = 2 * table->side, arcs = 2 * (2 * table->nodes + table->problem->link_count);
    struct sp_routes_flow flow = {.table = table,
                                  .arc_capacity = arcs,
                                  .arcs = SP_NEW_ARRAY(arena, arcs, struct sp_routes_arc),
                                  .arc_link = SP_NEW_ARRAY(arena, arcs / 2, uint32_t),
                                  .first = SP_NEW_ARRAY(arena, vertices, uint32_t),
                                  .at = SP_NEW_ARRAY(arena, vertices, uint32_t),
                                  .seen = SP_NEW_ARRAY(arena, vertices, uint32_t),
                                  .path = SP_NEW_ARRAY(arena, vertices, uint32_t),
                                  .queue = SP_NEW_ARRAY(arena, table->nodes, uint32_t),
                                  .begins = SP_NEW_ARRAY(arena, table->layers + 1, uint32_t),
                                  .next_begin = SP_NEW_ARRAY(arena, table->nodes, uint32_t),
                                  .horizon = UINT32_MAX,
                                  .smallest = table->most * 1e-13};
    if (flow.arcs == NULL || flow.arc_link == NULL || flow.first == NULL || flow.at == NULL || flow.seen == NULL ||
        flow.path == NULL || flow.queue == NULL || flow.begins == NULL || flow.next_begin == NULL)
        return sp_fail_memory(err);
    *ret_flow = flow;
    return SP_OK;
}

static void add_arc(struct sp_routes_flow *flow, uint32_t from, uint32_t to, double capacity, uint32_t link)
{
    const uint32_t arc = flow->arc_count;
    flow->arc_link[arc / 2] = link;
    flow->arcs[arc] = (struct sp_routes_arc){to, flow->first[from], capacity};
    flow->arcs[arc + 1] = (struct sp_routes_arc){from, flow->first[to], 0};
    flow->first[from] = arc;
    flow->first[to] = arc + 1;
    flow->arc_count += 2;
}

/* The arc from `from`, whose requests come to layer `next`, into node `to`, and the node's own when it is new. */
static void reach(struct sp_routes_flow *flow, const struct sp_routes_interval *intervals, uint32_t from, uint32_t to,
                  uint32_t next, uint32_t *count)
{
    const struct sp_routes_table *table = flow->table;
    const double capacity = sp_routes_capacity(table, from, to, next);
    if (capacity <= 0)
        return;
    if (flow->seen[to] != flow->stamp) {
        const double rate = sp_routes_rate(table, to, intervals[to].first, intervals[to].count);
        if (rate <= 0)
            return;
        flow->seen[to] = flow->stamp;
        flow->queue[(*count)++] = to;
        flow->first[2 * to] = flow->first[2 * to + 1] = NONE;
        add_arc(flow, 2 * to, 2 * to + 1, rate, NONE);
    }
    add_arc(flow, 2 * from + 1, 2 * to, capacity, table->link[(size_t)from * table->side + to]);
}

static void build(struct sp_routes_flow *flow, const struct sp_routes_interval *intervals)
{
    const struct sp_routes_table *table = flow->table;
    const uint32_t nodes = table->nodes;
    uint32_t count = 0;
    flow->stamp++;
    flow->arc_count = 0;
    flow->first[2 * nodes] = flow->first[2 * nodes + 1] = NONE;
    memset(flow->begins, 0xff, (table->layers + 1) * sizeof *flow->begins);
    for (uint32_t i = nodes; i-- > 0;)
        if (intervals[i].count > 0) {
            flow->next_begin[i] = flow->begins[intervals[i].first];
            flow->begins[intervals[i].first] = i;
        }
    for (uint32_t i = flow->begins[0]; i != NONE; i = flow->next_begin[i])
        reach(flow, intervals, nodes, i, 0, &count);
    for (uint32_t done = 0; done < count; done++) {
        const uint32_t node = flow->queue[done], end = intervals[node].first + intervals[node].count;
        if (end >= flow->horizon) {
            add_arc(flow, 2 * node + 1, 2 * nodes, table->most, NONE);
        } else if (end == table->layers) {
            const double capacity = sp_routes_capacity(table, node, nodes, end);
            if (capacity > 0)
                add_arc(flow, 2 * node + 1, 2 * nodes, capacity, table->link[(size_t)node * table->side + nodes]);
        } else if (!table->problem->is_partial) {
            for (uint32_t i = flow->begins[end]; i != NONE; i = flow->next_begin[i])
                reach(flow, intervals, node, i, end, &count);
        } else {
            for (uint32_t i = 0; i < nodes; i++)
                if (intervals[i].count > 0 && intervals[i].first <= end &&
                    end < intervals[i].first + intervals[i].count)
                    reach(flow, intervals, node, i, end, &count);
        }
    }
}

/* What the path that leads to the sink can carry more, which it then does. `depth` arcs; returns how many of them, from
   the source on, still have something left. */
static double fill(struct sp_routes_flow *flow, uint32_t depth, uint32_t *ret_depth)
{
    double most = flow->arcs[flow->path[0]].left;
    for (uint32_t i = 1; i < depth; i++)
        most = flow->arcs[flow->path[i]].left < most ? flow->arcs[flow->path[i]].left : most;
    *ret_depth = depth;
    for (uint32_t i = depth; i-- > 0;) {
        flow->arcs[flow->path[i]].left -= most;
        flow->arcs[flow->path[i] ^ 1].left += most;
        if (flow->arcs[flow->path[i]].left <= flow->smallest)
            *ret_depth = i;
    }
    return most;
}

/* Along forward arcs only (even ones): paths to the sink until there are no more; what led nowhere is not tried again.
   Along any arcs: one path, as what was seen on the way to nowhere leads nowhere only until something changes. */
static double push(struct sp_routes_flow *flow, bool is_forward)
{
    const uint32_t source = 2 * flow->table->nodes + 1, sink = source - 1;
    double sum = 0;
    uint32_t depth = 0, vertex = source;
    flow->stamp++;
    flow->seen[source] = flow->stamp;
    flow->at[source] = flow->first[source];
    for (;;) {
        if (vertex == sink) {
            sum += fill(flow, depth, &depth);
            if (!is_forward)
                return sum;
            vertex = flow->arcs[flow->path[depth] ^ 1].to;
        }
        uint32_t arc = flow->at[vertex];
        for (; arc != NONE; arc = flow->arcs[arc].next)
            if (flow->arcs[arc].left > flow->smallest &&
                (is_forward ? (arc & 1) == 0 : flow->seen[flow->arcs[arc].to] != flow->stamp))
                break;
        flow->at[vertex] = arc;
        if (arc != NONE) {
            vertex = flow->arcs[arc].to;
            flow->path[depth++] = arc;
            if (flow->seen[vertex] != flow->stamp && vertex != sink)
                flow->at[vertex] = flow->first[vertex];
            flow->seen[vertex] = flow->stamp;
        } else if (depth == 0) {
            return sum;
        } else {
            arc = flow->path[--depth];
            vertex = flow->arcs[arc ^ 1].to;
            flow->at[vertex] = flow->arcs[arc].next;
        }
    }
}

double sp_routes_flow_value(struct sp_routes_flow *flow, const struct sp_routes_interval *intervals)
{
    build(flow, intervals);
    flow->count++;
    double value = push(flow, true), more;
    do {
        more = push(flow, false);
        value += more;
    } while (more > 0);
    return value;
}
