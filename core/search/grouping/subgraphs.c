#include "search/grouping/internal.h"

#include "base/union_find.h"

/*
 * Subgraphs grow backwards from the candidates. What a candidate reaches and nobody took forms a cluster:
 *
 *      x   y            closure of candidate Add_1: {x, y, Add_1}
 *       \ /             closure of candidate Add_2: {z, Add_2}, with Add_1's cluster when that was too light
 *      Add_1   z        to stand alone
 *          \  /
 *         Add_2
 *
 * A cluster that reaches the average in weight bytes or in work is kept as a subgraph. Asking for both (as PopRT does)
 * glues the early layers of a convolutional network, which have much work and few weights, into one lump; asking for
 * either keeps the pieces at most about two averages' worth of numbers: there are at most 2 * candidates of them. A
 * lighter cluster waits; the next candidate that reaches one of its nodes takes all of it.
 *
 * Why the contracted graph is acyclic and numbered topologically. Call a set closed when it holds every ancestor of its
 * members. A cluster together with all kept subgraphs is closed: its nodes were reached backwards until kept nodes,
 * and a waiting cluster that it swallowed was closed in the same sense before (the kept set only grew since). So after
 * each subgraph that is kept the union of the kept ones is closed, hence an edge that ends in subgraph i starts in one
 * of 0..i. Leftovers that join the last subgraph among their producers keep that true, because nothing kept consumes
 * them (it would have reached them).
 *
 * Linear: a node enters one cluster once, clusters merge by union of lists.
 */

#define NONE UINT32_MAX

struct builder {
    const struct sp_workload *workload;
    uint32_t *cluster;     /* node -> cluster that it entered, or NONE */
    uint32_t *merged_into; /* cluster -> cluster that swallowed it, itself while it stands */
    uint32_t *subgraph;    /* cluster -> subgraph, or NONE while it waits */
    double *bytes, *flops; /* cluster */
    double *seconds;       /* cluster */
    uint32_t cluster_count;
    uint32_t subgraph_count;
    bool *weight_seen;
    uint32_t *stack;
    double average_bytes, average_seconds;
};

/* Candidates are where activations meet. */
static bool is_candidate(const struct sp_workload *workload, uint32_t id)
{
    const struct sp_work_node *node = &workload->nodes[id];
    uint32_t meeting = 0;
    for (uint32_t i = 0; i < node->input_count; i++)
        if (workload->tensors[node->inputs[i]].kind != SP_WORK_WEIGHT)
            meeting++;
    return !node->folded && meeting > 1;
}

static void count_node(struct builder *b, uint32_t id, uint32_t cluster)
{
    const struct sp_work_node *node = &b->workload->nodes[id];
    b->cluster[id] = cluster;
    b->flops[cluster] += node->flops;
    b->seconds[cluster] += node->seconds[0];
    b->bytes[cluster] += node->inner_weight_bytes + node->resident_bytes;
    for (uint32_t i = 0; i < node->input_count; i++) {
        uint32_t tensor = node->inputs[i];
        if (b->workload->tensors[tensor].kind == SP_WORK_WEIGHT && !b->weight_seen[tensor]) {
            b->weight_seen[tensor] = true;
            b->bytes[cluster] += b->workload->tensors[tensor].bytes;
        }
    }
}

static void swallow(struct builder *b, uint32_t waiting, uint32_t cluster)
{
    b->merged_into[waiting] = cluster;
    b->bytes[cluster] += b->bytes[waiting];
    b->flops[cluster] += b->flops[waiting];
    b->seconds[cluster] += b->seconds[waiting];
}

/* The cluster of everything reachable backwards from `start` that is not kept yet. */
static uint32_t grow_cluster(struct builder *b, uint32_t start)
{
    const struct sp_workload *workload = b->workload;
    uint32_t cluster = b->cluster_count++, depth = 0;
    b->merged_into[cluster] = cluster;
    b->subgraph[cluster] = NONE;
    count_node(b, start, cluster);
    b->stack[depth++] = start;
    while (depth > 0) {
        const struct sp_work_node *node = &workload->nodes[b->stack[--depth]];
        for (uint32_t i = 0; i < node->input_count; i++) {
            const struct sp_work_tensor *tensor = &workload->tensors[node->inputs[i]];
            if (tensor->kind != SP_WORK_ACTIVATION || tensor->producer == SP_NO_WORK)
                continue;
            uint32_t producer = tensor->producer;
            if (b->cluster[producer] == NONE) {
                count_node(b, producer, cluster);
                b->stack[depth++] = producer;
                continue;
            }
            uint32_t other = sp_union_root(b->merged_into, b->cluster[producer]);
            if (other != cluster && b->subgraph[other] == NONE)
                swallow(b, other, cluster);
        }
    }
    return cluster;
}

static bool is_heavy(const struct builder *b, uint32_t cluster)
{
    if (b->average_bytes <= 0 && b->average_seconds <= 0)
        return true;
    return (b->average_bytes > 0 && b->bytes[cluster] >= b->average_bytes) ||
           (b->average_seconds > 0 && b->seconds[cluster] >= b->average_seconds);
}

static void grow_from(struct builder *b, uint32_t id)
{
    if (b->workload->nodes[id].folded)
        return;
    uint32_t cluster;
    if (b->cluster[id] == NONE)
        cluster = grow_cluster(b, id);
    else
        return;
    if (is_heavy(b, cluster))
        b->subgraph[cluster] = b->subgraph_count++;
}

/* Clusters that still wait touch no other waiting one: they join the last subgraph among their producers. */
static void place_leftovers(struct builder *b)
{
    const struct sp_workload *workload = b->workload;
    uint32_t *latest = b->stack; /* no longer needed as a stack; cluster -> last subgraph among its producers */
    for (uint32_t i = 0; i < b->cluster_count; i++)
        latest[i] = 0;
    for (uint32_t id = 0; id < workload->node_count; id++) {
        if (b->cluster[id] == NONE)
            continue;
        uint32_t cluster = sp_union_root(b->merged_into, b->cluster[id]);
        if (b->subgraph[cluster] != NONE)
            continue;
        const struct sp_work_node *node = &workload->nodes[id];
        for (uint32_t i = 0; i < node->input_count; i++) {
            const struct sp_work_tensor *tensor = &workload->tensors[node->inputs[i]];
            if (tensor->kind != SP_WORK_ACTIVATION || tensor->producer == SP_NO_WORK)
                continue;
            uint32_t from = b->subgraph[sp_union_root(b->merged_into, b->cluster[tensor->producer])];
            if (from != NONE && from > latest[cluster])
                latest[cluster] = from;
        }
    }
    for (uint32_t i = 0; i < b->cluster_count; i++)
        if (b->merged_into[i] == i && b->subgraph[i] == NONE)
            b->subgraph[i] = latest[i];
    if (b->subgraph_count == 0 && b->cluster_count > 0)
        b->subgraph_count = 1;
}

static bool fill_figures(struct sp_arena *arena, const struct sp_workload *workload, struct sp_subgraphs *subgraphs)
{
    uint32_t *first = SP_NEW_ARRAY(arena, workload->tensor_count, uint32_t); /* weight -> first subgraph using it */
    if (first == NULL)
        return false;
    for (uint32_t i = 0; i < workload->tensor_count; i++)
        first[i] = NONE;
    for (uint32_t id = 0; id < workload->node_count; id++) {
        const struct sp_work_node *node = &workload->nodes[id];
        if (node->folded)
            continue;
        uint32_t subgraph = subgraphs->of[id];
        subgraphs->flops[subgraph] += node->flops;
        subgraphs->seconds[subgraph] += node->seconds[0];
        subgraphs->bytes[subgraph] += node->inner_weight_bytes + node->resident_bytes;
        for (uint32_t i = 0; i < node->input_count; i++)
            if (subgraph < first[node->inputs[i]])
                first[node->inputs[i]] = subgraph;
    }
    for (uint32_t i = 0; i < workload->tensor_count; i++)
        if (first[i] != NONE && workload->tensors[i].kind == SP_WORK_WEIGHT)
            subgraphs->bytes[first[i]] += workload->tensors[i].bytes;
    return true;
}

static bool builder_init(struct builder *b, struct sp_arena *arena, const struct sp_workload *workload)
{
    uint32_t count = workload->node_count;
    *b = (struct builder){.workload = workload};
    b->cluster = SP_NEW_ARRAY(arena, count, uint32_t);
    b->merged_into = SP_NEW_ARRAY(arena, count, uint32_t);
    b->subgraph = SP_NEW_ARRAY(arena, count, uint32_t);
    b->bytes = SP_NEW_ARRAY(arena, count, double);
    b->flops = SP_NEW_ARRAY(arena, count, double);
    b->seconds = SP_NEW_ARRAY(arena, count, double);
    b->weight_seen = SP_NEW_ARRAY(arena, workload->tensor_count, bool);
    b->stack = SP_NEW_ARRAY(arena, count, uint32_t);
    if (b->cluster == NULL || b->merged_into == NULL || b->subgraph == NULL || b->bytes == NULL || b->flops == NULL ||
        b->seconds == NULL || b->weight_seen == NULL || b->stack == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++)
        b->cluster[i] = NONE;
    return true;
}

/* Grows from the candidates, then from what they did not reach; returns the number of candidates. */
static uint32_t grow_all(struct builder *b)
{
    const struct sp_workload *workload = b->workload;
    uint32_t candidates = 0, live = 0;
    double seconds = 0;
    for (uint32_t id = 0; id < workload->node_count; id++) {
        if (workload->nodes[id].folded)
            continue;
        live++;
        seconds += workload->nodes[id].seconds[0];
        candidates += is_candidate(workload, id);
    }
    bool all = candidates == 0;
    if (all)
        candidates = live;
    if (candidates == 0)
        return 0;
    b->average_bytes = workload->weight_bytes / candidates;
    b->average_seconds = seconds / candidates;
    for (uint32_t id = 0; id < workload->node_count; id++)
        if (all || is_candidate(workload, id))
            grow_from(b, id);
    for (uint32_t id = 0; id < workload->node_count; id++)
        grow_from(b, id);
    return candidates;
}

enum sp_status sp_find_subgraphs(struct sp_arena *arena, const struct sp_workload *workload,
                                 struct sp_subgraphs **ret_subgraphs, struct sp_error *err)
{
    struct sp_subgraphs *subgraphs = SP_NEW(arena, struct sp_subgraphs);
    uint32_t *of = SP_NEW_ARRAY(arena, workload->node_count, uint32_t);
    struct builder builder;
    if (subgraphs == NULL || of == NULL || !builder_init(&builder, arena, workload))
        return sp_fail_memory(err);

    subgraphs->of = of;
    subgraphs->candidate_count = grow_all(&builder);
    place_leftovers(&builder);
    for (uint32_t id = 0; id < workload->node_count; id++)
        of[id] = builder.cluster[id] == NONE
                     ? NONE
                     : builder.subgraph[sp_union_root(builder.merged_into, builder.cluster[id])];
    sp_place_folded(workload, of);

    subgraphs->count = builder.subgraph_count > 0 ? builder.subgraph_count : workload->node_count > 0;
    subgraphs->bytes = SP_NEW_ARRAY(arena, subgraphs->count, double);
    subgraphs->flops = SP_NEW_ARRAY(arena, subgraphs->count, double);
    subgraphs->seconds = SP_NEW_ARRAY(arena, subgraphs->count, double);
    if (subgraphs->bytes == NULL || subgraphs->flops == NULL || subgraphs->seconds == NULL ||
        !fill_figures(arena, workload, subgraphs))
        return sp_fail_memory(err);
    *ret_subgraphs = subgraphs;
    return SP_OK;
}
