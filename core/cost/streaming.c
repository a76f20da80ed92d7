#include "cost/streaming.h"

#include <math.h>
#include <stdlib.h>

#include "cost/evaluate_internal.h"

/* ---- which weights ----------------------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    const struct sp_streamable *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

/* So many of the items first .. first + all - 1, which are equally large, at equal distances. */
static void mark(struct sp_streamable *items, uint32_t first, uint32_t all, uint32_t taken)
{
    for (uint32_t i = 0; i < all; i++)
        items[first + i].is_streamed = false;
    for (uint32_t i = 0; i < taken; i++)
        items[first + (uint32_t)(((uint64_t)2 * i + 1) * all / (2 * (uint64_t)taken))].is_streamed = true;
}

bool sp_stream_take(uint32_t count, struct sp_stream_size *sizes, double lacking,
                    struct sp_streamed_weights *ret_streamed)
{
    struct sp_streamed_weights streamed = {0};
    double below = 0, needed = lacking;
    uint32_t end = 0;
    for (uint32_t i = 0; i < count; i++)
        sizes[i].taken = 0;
    for (; end < count && (below == 0 || below < needed); end++) {
        if (sizes[end].count == 0)
            continue;
        below += sizes[end].count * sizes[end].bytes;
        needed = lacking + 2 * sizes[end].bytes;
    }
    if (below == 0 || below < needed)
        return false;
    /* Largest first; what is left at the end is less than the smallest of a size, and one of these more is enough. */
    for (uint32_t i = end; i-- > 0 && streamed.bytes < needed;) {
        struct sp_stream_size *size = &sizes[i];
        const double rest = needed - streamed.bytes;
        if (size->count == 0)
            continue;
        below -= size->count * size->bytes;
        double wanted = floor(rest / size->bytes);
        if (rest - wanted * size->bytes > fmax(below, 0))
            wanted++;
        size->taken = wanted < size->count ? (uint32_t)wanted : size->count;
        streamed.count += size->taken;
        streamed.bytes += size->taken * size->bytes;
        if (size->taken > 0)
            streamed.largest_bytes = fmax(streamed.largest_bytes, size->bytes);
    }
    *ret_streamed = streamed;
    return true;
}

bool sp_stream_choose(uint32_t count, struct sp_streamable *items, struct sp_stream_size *sizes, double lacking,
                      struct sp_streamed_weights *ret_streamed)
{
    uint32_t size_count = 0, first = 0;
    if (count > 0)
        qsort(items, count, sizeof *items, by_size);
    for (uint32_t i = 0; i < count; i++) {
        if (i == 0 || items[i].bytes != items[i - 1].bytes)
            sizes[size_count++] = (struct sp_stream_size){.bytes = items[i].bytes};
        sizes[size_count - 1].count++;
    }
    if (!sp_stream_take(size_count, sizes, lacking, ret_streamed))
        return false;
    for (uint32_t i = 0; i < size_count; first += sizes[i++].count)
        mark(items, first, sizes[i].count, sizes[i].taken);
    return true;
}

/* ---- a stage ----------------------------------------------------------------------------------------------------- */

/* One that copies: where, and how fast. */
struct streaming {
    struct sp_evaluator *evaluator;
    struct sp_arena *arena;
    const struct sp_placement *placement;
    const struct sp_block_costs *blocks;
    double *left; /* per host: bytes that nobody has taken */
    double *busy; /* per host: seconds of its link for a request */
};

double sp_stream_own_bytes(const struct sp_workload *workload, const uint32_t *users, uint32_t id)
{
    const struct sp_work_node *node = &workload->nodes[id];
    double bytes = node->inner_weight_bytes;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const uint32_t root = sp_work_root(workload, node->inputs[i]);
        if (workload->tensors[root].kind == SP_WORK_WEIGHT && users[root] == 1)
            bytes += workload->tensors[root].bytes;
    }
    return bytes;
}

static uint32_t list_items(const struct streaming *s, uint32_t stage, bool is_split)
{
    const struct sp_rows *nodes = &s->evaluator->nodes;
    struct sp_streamable *items = s->evaluator->streamable;
    uint32_t count = 0;
    for (uint32_t i = nodes->start[stage]; i < nodes->start[stage + 1]; i++) {
        const uint32_t node = nodes->items[i];
        if (s->evaluator->workload->nodes[node].folded)
            continue;
        const double bytes = is_split ? s->blocks->weight(s->blocks->context, stage, node)
                                      : sp_stream_own_bytes(s->evaluator->workload, s->evaluator->users, node);
        if (bytes > 0)
            items[count++] = (struct sp_streamable){node, bytes, false};
    }
    return count;
}

double sp_stream_rate(const struct sp_cluster *cluster, uint32_t first, uint32_t size, uint32_t *count)
{
    double rate = INFINITY;
    memset(count, 0, cluster->host_count * sizeof *count);
    for (uint32_t d = first; d < first + size; d++) {
        if (sp_cluster_host(cluster, d) == NULL)
            return 0;
        count[cluster->host_of[d]]++;
    }
    for (uint32_t d = first; d < first + size; d++)
        rate = fmin(rate, fmin(sp_cluster_host_bandwidth(cluster, d),
                               sp_cluster_host(cluster, d)->bandwidth / count[cluster->host_of[d]]));
    return rate;
}

/* The devices of a stage in all copies, one after the other; SP_NO_WORK behind the last. */
static uint32_t device_of(const struct sp_placement *placement, uint32_t stage, uint32_t index)
{
    const uint32_t count = sp_placement_size(placement, stage) * sp_placement_replicas(placement, stage);
    return index < count * sp_placement_copies(placement)
               ? sp_placement_device(placement, stage, index / count) + index % count
               : SP_NO_WORK;
}

/* Takes the hosts' memory, and the time of their links, for all devices of a stage; false where that is too little. */
static bool take_hosts(const struct streaming *s, uint32_t stage, double bytes)
{
    const struct sp_cluster *cluster = s->evaluator->cluster;
    const uint32_t turns = sp_placement_turns(s->placement, stage);
    bool fits = true;
    for (uint32_t i = 0, d; (d = device_of(s->placement, stage, i)) != SP_NO_WORK; i++) {
        if (sp_cluster_host(cluster, d) == NULL)
            return false;
        s->left[cluster->host_of[d]] -= bytes;
        fits = fits && s->left[cluster->host_of[d]] >= 0;
    }
    for (uint32_t i = 0, d; (d = device_of(s->placement, stage, i)) != SP_NO_WORK; i++) {
        if (!fits)
            s->left[cluster->host_of[d]] += bytes;
        else
            s->busy[cluster->host_of[d]] += bytes / turns / sp_cluster_host(cluster, d)->bandwidth;
    }
    return fits;
}

static int ascending(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* One that lacks memory streams, if that is enough; else it stays as it is. */
static bool stream_stage(const struct streaming *s, uint32_t stage, struct sp_stage_cost *cost)
{
    const bool is_split = s->blocks != NULL && s->blocks->is_split(s->blocks->context, stage);
    const double rate = sp_stream_rate(s->evaluator->cluster, s->placement->stage_device[stage],
                                       sp_placement_size(s->placement, stage), s->evaluator->host_devices);
    const struct sp_streamable *items = s->evaluator->streamable;
    struct sp_streamed_weights streamed;
    if (rate <= 0 || (is_split && !s->blocks->streams(s->blocks->context, stage)))
        return true;
    const uint32_t all = list_items(s, stage, is_split);
    if (!sp_stream_choose(all, s->evaluator->streamable, s->evaluator->stream_sizes,
                          cost->total_bytes - cost->capacity_bytes + SP_STREAM_MORE, &streamed) ||
        !take_hosts(s, stage, streamed.bytes))
        return true;
    uint32_t *nodes = SP_NEW_ARRAY(s->arena, streamed.count, uint32_t);
    if (nodes == NULL)
        return false;
    for (uint32_t i = 0; i < all; i++)
        if (items[i].is_streamed)
            nodes[cost->streamed_count++] = items[i].node;
    qsort(nodes, cost->streamed_count, sizeof *nodes, ascending);
    cost->streamed_nodes = nodes;
    cost->streamed_bytes = streamed.bytes;
    cost->stream_buffer_bytes = 2 * streamed.largest_bytes;
    cost->weights_bytes += cost->stream_buffer_bytes - streamed.bytes;
    cost->stream_seconds = streamed.bytes / rate;
    const bool has_link = sp_cluster_device(s->evaluator->cluster, cost->device)->link_bandwidth > 0;
    const double busy = has_link ? 0 : cost->collective_seconds; /* with other copies over the host's link */
    cost->stall_seconds = fmax(0, cost->stream_seconds + busy - cost->compute_seconds);
    cost->compute_seconds += cost->stall_seconds;
    sp_stage_cost_sum(cost, sp_placement_turns(s->placement, stage));
    return true;
}

bool sp_stream_weights(struct sp_evaluator *evaluator, struct sp_arena *arena, const struct sp_placement *placement,
                       const struct sp_block_costs *blocks, struct sp_evaluation *evaluation)
{
    const struct sp_cluster *cluster = evaluator->cluster;
    const struct streaming s = {.evaluator = evaluator,
                                .arena = arena,
                                .placement = placement,
                                .blocks = blocks,
                                .left = evaluator->host_figures,
                                .busy = evaluator->host_figures + cluster->host_count};
    if (cluster->host_of == NULL || placement->shares_devices)
        return true;
    memset(s.busy, 0, cluster->host_count * sizeof *s.busy);
    for (uint32_t d = 0; d < cluster->device_count; d++)
        if (sp_cluster_host(cluster, d) != NULL)
            s.left[cluster->host_of[d]] = sp_cluster_host(cluster, d)->memory_bytes;
    for (uint32_t i = 0; i < evaluation->stage_count; i++) {
        struct sp_stage_cost *cost = &evaluation->stages[i];
        if (cost->total_bytes > cost->capacity_bytes && !stream_stage(&s, i, cost))
            return false;
    }
    for (uint32_t i = 0; i < evaluation->stage_count; i++) {
        struct sp_stage_cost *cost = &evaluation->stages[i];
        for (uint32_t k = 0, d; cost->streamed_count > 0 && (d = device_of(placement, i, k)) != SP_NO_WORK; k++)
            cost->shared_seconds = fmax(cost->shared_seconds, s.busy[cluster->host_of[d]]);
        if (cost->streamed_count > 0)
            sp_stage_cost_sum(cost, sp_placement_turns(placement, i));
    }
    return true;
}

/* ---- bounds ------------------------------------------------------------------------------------------------------ */

double sp_stream_lacking_bytes(const struct sp_workload *workload, const struct sp_cluster *cluster)
{
    double bytes = workload->weight_bytes;
    for (uint32_t n = 0; n < workload->node_count; n++)
        bytes += workload->nodes[n].resident_bytes;
    for (uint32_t d = 0; d < cluster->device_count; d++)
        bytes -= sp_cluster_memory(cluster, d);
    return fmax(bytes, 0);
}

double sp_stream_bound(const struct sp_workload *workload, const struct sp_cluster *cluster)
{
    double bandwidth = 0;
    if (cluster->host_of == NULL)
        return 0;
    for (uint32_t h = 0; h < cluster->host_count; h++) {
        double own = 0, shared = 0;
        for (uint32_t d = 0; d < cluster->device_count; d++) {
            if (cluster->host_of[d] != h)
                continue;
            own += sp_cluster_host_bandwidth(cluster, d);
            shared = sp_cluster_host(cluster, d)->bandwidth;
        }
        bandwidth += fmin(own, shared);
    }
    /* Sums may be rounded. */
    return sp_stream_lacking_bytes(workload, cluster) / bandwidth * (1 - 1e-12);
}
