#include "search/joint/bounds.h"

#include <float.h>
#include <math.h>

/* What a node takes on a device of a kind, however many share it. What costs were given for is never cut; a launch is
   less than any of them. */
static double start_seconds(const struct sp_work_node *node, uint32_t kind)
{
    return node->start_seconds != NULL ? node->start_seconds[kind] : SP_DEFAULT_LAUNCH_SECONDS;
}

/* A path of nodes that follow one another, and what must run between two of them. */
struct path {
    const struct sp_workload *workload;
    const struct sp_cluster *cluster;
    double *least;   /* per node: seconds, at least, however many devices share it */
    double *shared;  /* per node: seconds of all devices together, at prices of their time that are 1 together */
    double *finish;  /* per node */
    uint32_t *place; /* per node: of its latest ancestor on the path, itself included, from 1 on; 0: none */
    uint32_t *next;  /* per node: the same of its earliest descendant; UINT32_MAX: none */
    uint32_t count;
    uint32_t *nodes; /* from place 1 on */
    uint32_t *over;  /* per place: so many more nodes may run on both sides of it than of the one before */
};

/* What a node takes of all devices, and what each of them takes of its time at `price`. */
static void weigh_node(struct path *path, uint32_t n, const double *price)
{
    const struct sp_work_node *node = &path->workload->nodes[n];
    double fastest = INFINITY, start = INFINITY, rate = 0, shared = INFINITY;
    for (uint32_t d = 0; d < path->cluster->device_count; d++) {
        const uint32_t kind = path->workload->kind_of[d];
        if (!isfinite(node->seconds[kind]))
            continue;
        const double rest = node->seconds[kind] - start_seconds(node, kind);
        fastest = fmin(fastest, node->seconds[kind]);
        start = fmin(start, start_seconds(node, kind));
        shared = fmin(shared, node->seconds[kind] * price[d]);
        rate += rest > 0 ? 1 / rest : INFINITY;
    }
    if (node->folded || !(fastest > 0) || !isfinite(fastest))
        return;
    /* Whoever has a share starts, and takes at least that share of the rest. */
    path->least[n] = fmax(fmin(start, fastest) + 1 / rate, fastest / path->cluster->device_count);
    path->shared[n] = shared;
}

/* Prices in the ratio of what devices can do of all the work. */
static bool weigh(struct path *path, struct sp_arena *scratch)
{
    const uint32_t devices = path->cluster->device_count;
    double *price = SP_NEW_ARRAY(scratch, devices, double), sum = 0;
    if (price == NULL)
        return false;
    for (uint32_t d = 0; d < devices; d++) {
        double seconds = 0;
        for (uint32_t n = 0; n < path->workload->node_count; n++) {
            const struct sp_work_node *node = &path->workload->nodes[n];
            if (!node->folded && isfinite(node->seconds[path->workload->kind_of[d]]))
                seconds += node->seconds[path->workload->kind_of[d]];
        }
        sum += price[d] = seconds > 0 ? 1 / seconds : 0;
    }
    for (uint32_t d = 0; sum > 0 && d < devices; d++)
        price[d] /= sum;
    for (uint32_t n = 0; n < path->workload->node_count; n++)
        weigh_node(path, n, price);
    return true;
}

static bool is_made(const struct sp_workload *workload, uint32_t tensor)
{
    return workload->tensors[tensor].kind == SP_WORK_ACTIVATION && workload->tensors[tensor].producer != SP_NO_WORK;
}

/* The longest path of what nodes take at least; false without memory. */
static bool find_path(struct path *path, struct sp_arena *scratch)
{
    const struct sp_workload *workload = path->workload;
    uint32_t *from = SP_NEW_ARRAY(scratch, workload->node_count, uint32_t), last = SP_NO_WORK, at = 0;
    if (from == NULL)
        return false;
    for (uint32_t n = 0; n < workload->node_count; n++) {
        const struct sp_work_node *node = &workload->nodes[n];
        from[n] = SP_NO_WORK;
        for (uint32_t i = 0; !node->folded && i < node->input_count; i++) {
            const uint32_t before = workload->tensors[node->inputs[i]].producer;
            if (is_made(workload, node->inputs[i]) && path->finish[before] > path->finish[n]) {
                path->finish[n] = path->finish[before];
                from[n] = before;
            }
        }
        path->finish[n] += path->least[n];
        if (last == SP_NO_WORK || path->finish[n] > path->finish[last])
            last = n;
    }
    for (uint32_t n = last; n != SP_NO_WORK; n = from[n])
        path->count++;
    path->nodes = SP_NEW_ARRAY(scratch, (size_t)path->count + 1, uint32_t);
    path->over = SP_NEW_ARRAY(scratch, (size_t)path->count + 2, uint32_t);
    if (path->nodes == NULL || path->over == NULL)
        return false;
    for (uint32_t n = last; n != SP_NO_WORK; n = from[n], at++)
        path->nodes[path->count - at] = n;
    return true;
}

/* Between which places of the path each node runs. */
static void find_places(struct path *path)
{
    const struct sp_workload *workload = path->workload;
    for (uint32_t p = 1; p <= path->count; p++)
        path->place[path->nodes[p]] = p;
    for (uint32_t n = 0; n < workload->node_count; n++) {
        const struct sp_work_node *node = &workload->nodes[n];
        path->next[n] = path->place[n] > 0 && path->nodes[path->place[n]] == n ? path->place[n] : UINT32_MAX;
        for (uint32_t i = 0; path->next[n] == UINT32_MAX && i < node->input_count; i++) {
            const uint32_t before = workload->tensors[node->inputs[i]].producer;
            if (is_made(workload, node->inputs[i]) && path->place[before] > path->place[n])
                path->place[n] = path->place[before];
        }
    }
    for (uint32_t n = workload->node_count; n-- > 0;) {
        const struct sp_work_node *node = &workload->nodes[n];
        for (uint32_t i = 0; i < node->input_count; i++) {
            const uint32_t before = workload->tensors[node->inputs[i]].producer;
            if (is_made(workload, node->inputs[i]) && path->next[n] < path->next[before])
                path->next[before] = path->next[n];
        }
    }
}

static bool is_between(const struct path *path, uint32_t n)
{
    return path->place[n] > 0 && path->next[n] != UINT32_MAX && path->place[n] < path->next[n];
}

/* What lies between two nodes of the path that all others are before or behind takes as long as its own part of the path,
   and as all devices together do for it. */
static double follow_path(struct path *path, double *work)
{
    double sum = 0, own = 0, shared = 0;
    uint32_t over = 0;
    for (uint32_t n = 0; n < path->workload->node_count; n++) {
        if (!is_between(path, n))
            continue;
        path->over[path->place[n] + 1]++;
        path->over[path->next[n]]--;
        work[path->place[n]] += path->shared[n];
    }
    for (uint32_t p = 1; p <= path->count; p++) {
        const uint32_t node = path->nodes[p];
        over += path->over[p];
        if (over == 0) { /* nothing runs beside it */
            sum += fmax(own, shared) + path->least[node];
            own = shared = 0;
        } else {
            own += path->least[node];
            shared += path->shared[node];
        }
        shared += work[p];
    }
    return sum + fmax(own, shared);
}

static bool longest_path(struct sp_arena *scratch, const struct sp_workload *workload, const struct sp_cluster *cluster,
                         double *ret_seconds)
{
    const uint32_t count = workload->node_count;
    struct path path = {.workload = workload,
                        .cluster = cluster,
                        .least = SP_NEW_ARRAY(scratch, count, double),
                        .shared = SP_NEW_ARRAY(scratch, count, double),
                        .finish = SP_NEW_ARRAY(scratch, count, double),
                        .place = SP_NEW_ARRAY(scratch, count, uint32_t),
                        .next = SP_NEW_ARRAY(scratch, count, uint32_t)};
    double *work = SP_NEW_ARRAY(scratch, (size_t)count + 1, double);
    if (path.least == NULL || path.shared == NULL || path.finish == NULL || path.place == NULL || path.next == NULL ||
        work == NULL || !weigh(&path, scratch) || !find_path(&path, scratch))
        return false;
    find_places(&path);
    *ret_seconds = follow_path(&path, work);
    return true;
}

enum sp_status sp_joint_bounds(struct sp_arena *scratch, const struct sp_workload *workload,
                               const struct sp_cluster *cluster, struct sp_lower_bounds *ret_bounds,
                               struct sp_error *err)
{
    struct sp_arena_mark mark = sp_arena_mark(scratch);
    double path = 0, work;
    enum sp_status status = longest_path(scratch, workload, cluster, &path) ? SP_OK : sp_fail_memory(err);
    if (status == SP_OK)
        status = sp_work_bound(scratch, workload, cluster, &work, err);
    if (status == SP_OK) {
        const double slack = 1 - 4 * DBL_EPSILON * workload->node_count;
        ret_bounds->interval_seconds = work;
        ret_bounds->latency_seconds = sp_micro_latency(workload->micro_batches, fmax(work, path * slack), work);
    }
    sp_arena_rewind(scratch, mark);
    return status;
}
