/*
 * Lower bounds on the interval and the latency of every placement.
 *
 * Notation: s(i,k) seconds of node i on kind k, n(k) devices of kind k, T the interval of a placement.
 *
 * Node bound. Some device computes node i, and its interval is at least its computing: T >= max_i min_k s(i,k).
 *
 * Work bound. Take any weights y(k) >= 0 with  sum_k n(k) y(k) = 1.  Every device's computing is at most T, so
 *
 *     T = sum_devices y(kind) T >= sum_devices y(kind) * (its nodes' seconds) >= sum_i min_k y(k) s(i,k)
 *
 * because each node is on one device. Any y gives a bound that holds; the best y gives the smallest T of all schedules
 * that may cut nodes into fractions (linear programming duality). With one kind y = 1/n is the only choice: total
 * seconds / devices. With more, three sorts of y are tried: equal ones; ones in proportion to the kinds' speed, which
 * are the best when a kind is faster by the same factor for every node; and what a pattern search makes of these
 * (one kind's weight at a time is raised or lowered by a factor that shrinks towards 1).
 *
 * Weights that no device has room for come over the links of hosts for each request (streaming.h).
 *
 * Latency. Nodes on a path through activations are computed one after another: in one stage by the model of execution,
 * and in different stages because a stage starts after what it receives was made. And each stage computes within the
 * latency, so the interval bounds hold for it too.
 */
#include <float.h>

#include "cost/evaluate.h"
#include "cost/streaming.h"

#define MAX_SEARCH_STEPS 200
#define MAX_SEARCH_WORK  2e7 /* node times looked at in all steps; keeps the bound's time well below the search's */

/* Each the square root of the one before: large ones get far, small ones near. */
static const double search_factors[] = {16, 4, 2, 1.4142, 1.1892, 1.0905, 1.0443, 1.0219, 1.0109, 1.0054, 1.0027};

struct bound_input {
    const struct sp_workload *workload;
    uint32_t kind_count; /* kinds that have devices in this cluster */
    uint32_t *kinds;     /* their numbers in the workload */
    double *devices;     /* n, per entry of `kinds` */
    double *share;       /* n(k) y(k): sums to 1 */
    double *trial;       /* another such share */
    double *load;        /* seconds of the nodes that choose the kind */
};

static double fastest(const struct bound_input *input, const struct sp_work_node *node)
{
    double seconds = node->seconds[input->kinds[0]];
    for (uint32_t k = 1; k < input->kind_count; k++) {
        if (node->seconds[input->kinds[k]] < seconds)
            seconds = node->seconds[input->kinds[k]];
    }
    return seconds;
}

/* The work bound for these shares, made to sum to 1. */
static double work_bound(struct bound_input *input, double *share)
{
    double bound = 0, sum = 0;

    for (uint32_t k = 0; k < input->kind_count; k++)
        sum += share[k];
    for (uint32_t k = 0; k < input->kind_count; k++)
        share[k] /= sum;
    memset(input->load, 0, input->kind_count * sizeof *input->load);
    for (uint32_t i = 0; i < input->workload->node_count; i++) {
        const struct sp_work_node *node = &input->workload->nodes[i];
        uint32_t best = 0;
        double best_cost = 0;
        if (node->folded)
            continue;
        for (uint32_t k = 0; k < input->kind_count; k++) {
            double cost = share[k] / input->devices[k] * node->seconds[input->kinds[k]];
            if (k == 0 || cost < best_cost) {
                best = k;
                best_cost = cost;
            }
        }
        input->load[best] += node->seconds[input->kinds[best]];
    }
    for (uint32_t k = 0; k < input->kind_count; k++)
        bound += share[k] * (input->load[k] / input->devices[k]);
    return bound;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* One trial of the pattern search; true when it is better, and then it is the share. */
static bool try_factor(struct bound_input *input, uint32_t kind, double factor, double *bound)
{
    double found;

    memcpy(input->trial, input->share, input->kind_count * sizeof *input->trial);
    input->trial[kind] *= factor;
    found = work_bound(input, input->trial);
    if (found <= *bound)
        return false;
    *bound = found;
    memcpy(input->share, input->trial, input->kind_count * sizeof *input->trial);
    return true;
}

static double best_work_bound(struct bound_input *input)
{
    const struct sp_workload *workload = input->workload;
    double bound, equal, step_work = (double)workload->node_count * input->kind_count;
    uint32_t steps = 0;

    memcpy(input->trial, input->devices, input->kind_count * sizeof *input->trial);
    equal = work_bound(input, input->trial);
    if (input->kind_count == 1)
        return equal;

    for (uint32_t k = 0; k < input->kind_count; k++) {
        double total = 0;
        for (uint32_t i = 0; i < workload->node_count; i++)
            total += workload->nodes[i].seconds[input->kinds[k]];
        if (total <= 0)
            return equal; /* a kind on which nothing takes time */
        input->share[k] = input->devices[k] / total;
    }
    bound = work_bound(input, input->share);
    for (size_t i = 0; i < sizeof search_factors / sizeof search_factors[0]; i++) {
        double factor = search_factors[i];
        bool improved = true;
        while (improved) {
            improved = false;
            for (uint32_t k = 0; k < input->kind_count; k++) {
                steps += 2;
                if (steps > MAX_SEARCH_STEPS || steps * step_work > MAX_SEARCH_WORK)
                    return larger(bound, equal);
                improved = try_factor(input, k, factor, &bound) || try_factor(input, k, 1 / factor, &bound) || improved;
            }
        }
    }
    return larger(bound, equal);
}

/* The longest path; `finish` has a zeroed entry per node. */
static double longest_path(const struct bound_input *input, double *finish)
{
    const struct sp_workload *workload = input->workload;
    double longest = 0;

    for (uint32_t i = 0; i < workload->node_count; i++) {
        const struct sp_work_node *node = &workload->nodes[i];
        if (node->folded)
            continue;
        for (uint32_t j = 0; j < node->input_count; j++) {
            const struct sp_work_tensor *tensor = &workload->tensors[node->inputs[j]];
            if (tensor->kind == SP_WORK_ACTIVATION && tensor->producer != SP_NO_WORK)
                finish[i] = larger(finish[i], finish[tensor->producer]);
        }
        finish[i] += fastest(input, node);
        longest = larger(longest, finish[i]);
    }
    return longest;
}

/* Which kinds have devices here; false without memory. */
static bool list_kinds(struct sp_arena *scratch, const struct sp_cluster *cluster, struct bound_input *input)
{
    uint32_t kind_count = input->workload->kind_count;
    uint32_t *entry = SP_NEW_ARRAY(scratch, kind_count, uint32_t); /* kind -> entry + 1 */

    input->kinds = SP_NEW_ARRAY(scratch, kind_count, uint32_t);
    input->devices = SP_NEW_ARRAY(scratch, kind_count, double);
    input->share = SP_NEW_ARRAY(scratch, kind_count, double);
    input->trial = SP_NEW_ARRAY(scratch, kind_count, double);
    input->load = SP_NEW_ARRAY(scratch, kind_count, double);
    if (entry == NULL || input->kinds == NULL || input->devices == NULL || input->share == NULL ||
        input->trial == NULL || input->load == NULL)
        return false;
    for (uint32_t device = 0; device < cluster->device_count; device++) {
        uint32_t kind = input->workload->kind_of[device];
        if (entry[kind] == 0) {
            input->kinds[input->kind_count++] = kind;
            entry[kind] = input->kind_count;
        }
        input->devices[entry[kind] - 1]++;
    }
    return true;
}

/* On one device sums are added in the same order as by the evaluation and come out the same; else rounding may lift a
   bound above a placement that reaches it. */
static double work_slack(const struct sp_workload *workload, const struct sp_cluster *cluster)
{
    return cluster->device_count > 1 ? 1 - 2 * DBL_EPSILON * workload->node_count : 1;
}

enum sp_status sp_work_bound(struct sp_arena *scratch, const struct sp_workload *workload,
                             const struct sp_cluster *cluster, double *ret_seconds, struct sp_error *err)
{
    struct sp_arena_mark start = sp_arena_mark(scratch);
    struct bound_input input = {.workload = workload};
    const bool listed = list_kinds(scratch, cluster, &input);
    if (listed)
        *ret_seconds =
            larger(best_work_bound(&input) * work_slack(workload, cluster), sp_stream_bound(workload, cluster));
    sp_arena_rewind(scratch, start);
    return listed ? SP_OK : sp_fail_memory(err);
}

enum sp_status sp_lower_bounds(struct sp_arena *scratch, const struct sp_workload *workload,
                               const struct sp_cluster *cluster, struct sp_lower_bounds *ret_bounds,
                               struct sp_error *err)
{
    struct sp_arena_mark start = sp_arena_mark(scratch);
    struct bound_input input = {.workload = workload};
    double *finish = SP_NEW_ARRAY(scratch, workload->node_count, double);
    const double slack = work_slack(workload, cluster);
    double interval, latency;

    if (finish == NULL || !list_kinds(scratch, cluster, &input)) {
        sp_arena_rewind(scratch, start);
        return sp_fail_memory(err);
    }
    interval = larger(best_work_bound(&input) * slack, sp_stream_bound(workload, cluster));
    for (uint32_t i = 0; i < workload->node_count; i++) {
        if (!workload->nodes[i].folded)
            interval = larger(interval, fastest(&input, &workload->nodes[i]));
    }
    latency = larger(longest_path(&input, finish) * slack, interval);
    sp_arena_rewind(scratch, start);
    ret_bounds->interval_seconds = interval;
    ret_bounds->latency_seconds = sp_micro_latency(workload->micro_batches, latency, interval);
    return SP_OK;
}
