#include "cost/cluster/gather.h"

#include <math.h>
#include <string.h>

#define ROUNDING 1e-12 /* of a flow: sums of bandwidths are no more exact */
#define NOWHERE  UINT32_MAX

/* Arcs in pairs: an edge is two arcs, each the way back of the other; so is an arc from the source, to nothing. */
struct flow {
    uint32_t parts, vertex_count, arc_count;
    uint32_t *first, *next, *head; /* arcs by the vertex that they leave */
    double *room, *full;           /* what is left of an arc, and what it has */
    uint32_t *came_by, *queue;
    bool *is_seen;
};

static void add_pair(struct flow *flow, uint32_t a, uint32_t b, double there, double back)
{
    const uint32_t arc = flow->arc_count;
    flow->head[arc] = b;
    flow->head[arc + 1] = a;
    flow->full[arc] = there;
    flow->full[arc + 1] = back;
    flow->next[arc] = flow->first[a];
    flow->first[a] = arc;
    flow->next[arc + 1] = flow->first[b];
    flow->first[b] = arc + 1;
    flow->arc_count += 2;
}

/* Marks what can be reached from the source; true where that is the sink. */
static bool search(struct flow *flow, uint32_t sink, double least)
{
    const uint32_t source = flow->vertex_count;
    uint32_t read = 0, written = 0;
    memset(flow->is_seen, 0, (flow->vertex_count + 1) * sizeof *flow->is_seen);
    flow->queue[written++] = source;
    flow->is_seen[source] = true;
    while (read < written && !flow->is_seen[sink]) {
        for (uint32_t arc = flow->first[flow->queue[read++]]; arc != NOWHERE; arc = flow->next[arc]) {
            const uint32_t to = flow->head[arc];
            if (flow->is_seen[to] || flow->room[arc] <= least)
                continue;
            flow->is_seen[to] = true;
            flow->came_by[to] = arc;
            flow->queue[written++] = to;
        }
    }
    return flow->is_seen[sink];
}

/* What flows to the sink when each part makes `rate`; afterwards the vertices on the source's side are marked. */
static double push(struct flow *flow, uint32_t sink, double rate)
{
    const uint32_t source = flow->vertex_count;
    double all = 0;
    for (uint32_t arc = 0; arc < 2 * flow->parts; arc += 2) {
        flow->full[arc] = rate;
        flow->full[arc + 1] = 0;
    }
    memcpy(flow->room, flow->full, flow->arc_count * sizeof *flow->room);
    while (search(flow, sink, rate * ROUNDING)) {
        double more = INFINITY;
        for (uint32_t at = sink; at != source; at = flow->head[flow->came_by[at] ^ 1])
            more = fmin(more, flow->room[flow->came_by[at]]);
        for (uint32_t at = sink; at != source; at = flow->head[flow->came_by[at] ^ 1]) {
            flow->room[flow->came_by[at]] -= more;
            flow->room[flow->came_by[at] ^ 1] += more;
        }
        all += more;
    }
    return all;
}

/* The rate that the marked cut leaves the parts on its side. */
static double rate_of_cut(const struct flow *flow)
{
    double width = 0;
    uint32_t count = 0;
    for (uint32_t p = 0; p < flow->parts; p++)
        count += flow->is_seen[p];
    for (uint32_t arc = 2 * flow->parts; arc < flow->arc_count; arc++) {
        if (flow->is_seen[flow->head[arc ^ 1]] && !flow->is_seen[flow->head[arc]])
            width += flow->full[arc];
    }
    return count > 0 ? width / count : 0;
}

static bool create(struct sp_arena *arena, uint32_t parts, uint32_t vertex_count, uint32_t edge_count,
                   struct flow *flow)
{
    const size_t arcs = 2 * ((size_t)parts + edge_count), vertices = (size_t)vertex_count + 1;
    *flow = (struct flow){.parts = parts,
                          .vertex_count = vertex_count,
                          .first = SP_NEW_ARRAY(arena, vertices, uint32_t),
                          .next = SP_NEW_ARRAY(arena, arcs, uint32_t),
                          .head = SP_NEW_ARRAY(arena, arcs, uint32_t),
                          .room = SP_NEW_ARRAY(arena, arcs, double),
                          .full = SP_NEW_ARRAY(arena, arcs, double),
                          .came_by = SP_NEW_ARRAY(arena, vertices, uint32_t),
                          .queue = SP_NEW_ARRAY(arena, vertices, uint32_t),
                          .is_seen = SP_NEW_ARRAY(arena, vertices, bool)};
    if (flow->first == NULL || flow->next == NULL || flow->head == NULL || flow->room == NULL || flow->full == NULL ||
        flow->came_by == NULL || flow->queue == NULL || flow->is_seen == NULL)
        return false;
    memset(flow->first, 0xff, vertices * sizeof *flow->first);
    return true;
}

double sp_gather_bandwidth(struct sp_arena *arena, uint32_t parts, uint32_t vertex_count, uint32_t edge_count,
                           const struct sp_gather_edge *edges)
{
    const struct sp_arena_mark mark = sp_arena_mark(arena);
    struct flow flow;
    double rate = 0;
    if (!create(arena, parts, vertex_count, edge_count, &flow))
        return -1;
    for (uint32_t p = 0; p < parts; p++)
        add_pair(&flow, vertex_count, p, 0, 0);
    for (uint32_t e = 0; e < edge_count; e++) {
        add_pair(&flow, edges[e].ends[0], edges[e].ends[1], edges[e].bandwidth, edges[e].bandwidth);
        rate += edges[e].bandwidth;
    }
    for (uint32_t sink = 0; sink < parts && rate > 0; sink++) {
        while (rate > 0 && push(&flow, sink, rate) < parts * rate * (1 - 1e-9)) {
            const double narrower = rate_of_cut(&flow);
            if (narrower >= rate)
                break; /* rounding */
            rate = narrower;
        }
    }
    sp_arena_rewind(arena, mark);
    return (parts - 1) * rate;
}
