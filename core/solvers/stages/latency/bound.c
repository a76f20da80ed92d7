/*
 * Lower bounds of one sample's latency.
 *
 * No sample is faster than a path on which every node takes the least that it can. Devices have not the memory for all
 * nodes, though: for any way of mixing paths, the mean path is shortened by no more than the best choice of units that
 * fit, which a knapsack tells that may cut units. The mixture is made step by step, each time with the path that is
 * longest when that choice is taken (Frank and Wolfe's method); every one on the way gives a bound.
 */
#include <math.h>
#include <stdlib.h>

#include "solvers/stages/latency/latency.h"

#define MIX_STEPS   400
#define PATHS       24 /* of the mixture that are looked at alone, too, */
#define PATHS_SHARE 32 /* and of the work that is left, the first one aside */

struct gain {
    double ratio, gain, bytes;
    uint32_t unit;
};

struct paths {
    const struct sp_latency_graph *graph;
    double *slow, *fast; /* per node: not in a stage, and in one; equal where there is no choice */
    double *bytes;       /* per unit: the least it takes in a stage */
    double *part;        /* per unit: how much of it is in stages */
    double *share;       /* per node: of the mixture of paths */
    double *longest;     /* per node: of paths that end with it */
    uint32_t *from;
    struct gain *gains;
    double **sure;  /* [option][node]: see add_sure_transfers() */
    uint32_t *path; /* scratch */
    uint32_t path_count;
    double memory;
};

/* Transfers that a stage with the node cannot do without. */
static void add_sure_transfers(struct paths *paths)
{
    const struct sp_latency_graph *graph = paths->graph;
    const struct sp_stages_problem *problem = graph->problem;
    for (uint32_t o = 0; o < problem->option_count; o++)
        for (uint32_t t = 0; t < problem->tensor_count; t++) {
            const struct sp_stages_option *option = &problem->options[o];
            if (!graph->is_sure[o][t])
                continue;
            double seconds = option->transfer_fixed + option->transfer_per_byte * problem->tensors[t].bytes;
            paths->sure[o][graph->sure_user[t]] += seconds;
            paths->sure[o][problem->tensors[t].producer] += seconds;
        }
}

static void list_figures(struct paths *paths)
{
    const struct sp_latency_graph *graph = paths->graph;
    const struct sp_stages_problem *problem = graph->problem;
    for (uint32_t u = 0; u < graph->model->unit_count; u++)
        paths->bytes[u] = INFINITY;
    for (uint32_t v = 0; v < graph->node_count; v++)
        paths->slow[v] = paths->fast[v] = INFINITY;
    for (uint32_t o = 0; o < problem->option_count; o++)
        for (uint32_t v = 0; v < graph->node_count; v++) {
            uint32_t unit = graph->unit_of[v];
            double *seconds = problem->options[o].is_free ? paths->slow : paths->fast;
            if (!graph->allowed[o][unit])
                continue;
            seconds[v] = fmin(seconds[v], problem->options[o].seconds[v] + paths->sure[o][v]);
            if (!problem->options[o].is_free)
                paths->bytes[unit] = fmin(paths->bytes[unit], graph->model->weight[o][unit]);
        }
    for (uint32_t v = 0; v < graph->node_count; v++) {
        if (!(paths->slow[v] < INFINITY)) /* must be in a stage: no choice, and its bytes are not counted */
            paths->slow[v] = paths->fast[v];
        paths->fast[v] = fmin(paths->fast[v], paths->slow[v]);
    }
}

/* Bytes of all stages there can be. */
static double all_memory(const struct sp_latency_graph *graph)
{
    const struct sp_stages_problem *problem = graph->problem;
    double bytes = 0;
    for (uint32_t c = 0; c < problem->class_count; c++) {
        double most = 0;
        for (uint32_t o = 0; o < problem->option_count; o++)
            if (problem->options[o].device_class == c && !problem->options[o].is_free) {
                uint32_t stages = problem->class_size[c] / problem->options[o].devices;
                if (stages > 0)
                    most = fmax(most, stages * problem->options[o].memory_bytes);
            }
        bytes += most;
    }
    return bytes;
}

static int compare_gains(const void *a, const void *b)
{
    const struct gain *x = a, *y = b;
    if (x->ratio != y->ratio)
        return x->ratio < y->ratio ? 1 : -1;
    return (x->unit > y->unit) - (x->unit < y->unit);
}

/* The units that shorten the mixture most, for their bytes: how much shorter it gets. */
static double choose_units(struct paths *paths)
{
    const struct sp_latency_graph *graph = paths->graph;
    double left = paths->memory, sum = 0;
    uint32_t count = 0;
    for (uint32_t u = 0; u < graph->model->unit_count; u++) {
        double gain = 0;
        for (uint32_t i = graph->nodes.start[u]; i < graph->nodes.start[u + 1]; i++) {
            uint32_t v = graph->nodes.items[i];
            gain += paths->share[v] * (paths->slow[v] - paths->fast[v]);
        }
        paths->part[u] = 0;
        double bytes = paths->bytes[u];
        if (gain > 0)
            paths->gains[count++] =
                (struct gain){.ratio = bytes > 0 ? gain / bytes : INFINITY, .gain = gain, .bytes = bytes, .unit = u};
    }
    qsort(paths->gains, count, sizeof *paths->gains, compare_gains);
    for (uint32_t i = 0; i < count; i++) {
        const struct gain *gain = &paths->gains[i];
        double part = gain->bytes <= left ? 1 : left / gain->bytes;
        paths->part[gain->unit] = part;
        sum += part * gain->gain;
        left -= part * gain->bytes;
    }
    return sum;
}

/* The longest path with the units chosen; mixes it in. Returns its length. */
static double mix_longest(struct paths *paths, double weight)
{
    const struct sp_latency_graph *graph = paths->graph;
    uint32_t last = UINT32_MAX;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        uint32_t v = graph->order[i];
        double before = 0, part = paths->part[graph->unit_of[v]];
        paths->from[v] = UINT32_MAX;
        for (uint32_t j = graph->before.start[v]; j < graph->before.start[v + 1]; j++) {
            uint32_t from = graph->before.items[j];
            if (paths->from[v] == UINT32_MAX || paths->longest[from] > before) {
                before = paths->longest[from];
                paths->from[v] = from;
            }
        }
        paths->longest[v] = before + paths->slow[v] - part * (paths->slow[v] - paths->fast[v]);
        if (last == UINT32_MAX || paths->longest[v] > paths->longest[last])
            last = v;
    }
    double length = last == UINT32_MAX ? 0 : paths->longest[last];
    for (uint32_t v = 0; v < graph->node_count; v++)
        paths->share[v] *= 1 - weight;
    paths->path_count = 0;
    for (uint32_t v = last; v != UINT32_MAX; v = paths->from[v]) {
        paths->share[v] += weight;
        paths->path[graph->node_count - ++paths->path_count] = v;
    }
    return length;
}

static double mixed_bound(struct paths *paths)
{
    const struct sp_latency_graph *graph = paths->graph;
    double mean = 0;
    for (uint32_t v = 0; v < graph->node_count; v++)
        mean += paths->share[v] * paths->slow[v];
    return mean - choose_units(paths);
}

static bool allocate(struct sp_arena *arena, struct paths *paths)
{
    uint32_t nodes = paths->graph->node_count, units = paths->graph->model->unit_count;
    paths->slow = SP_NEW_ARRAY(arena, nodes, double);
    paths->fast = SP_NEW_ARRAY(arena, nodes, double);
    paths->share = SP_NEW_ARRAY(arena, nodes, double);
    paths->longest = SP_NEW_ARRAY(arena, nodes, double);
    paths->from = SP_NEW_ARRAY(arena, nodes, uint32_t);
    paths->bytes = SP_NEW_ARRAY(arena, units, double);
    paths->part = SP_NEW_ARRAY(arena, units, double);
    paths->gains = SP_NEW_ARRAY(arena, units, struct gain);
    paths->path = SP_NEW_ARRAY(arena, nodes, uint32_t);
    paths->sure = SP_NEW_ARRAY(arena, paths->graph->problem->option_count, double *);
    for (uint32_t o = 0; paths->sure != NULL && o < paths->graph->problem->option_count; o++)
        if ((paths->sure[o] = SP_NEW_ARRAY(arena, nodes, double)) == NULL)
            return false;
    return paths->path != NULL && paths->sure != NULL && paths->slow != NULL && paths->fast != NULL &&
           paths->share != NULL && paths->longest != NULL && paths->from != NULL && paths->bytes != NULL &&
           paths->part != NULL && paths->gains != NULL;
}

enum sp_status sp_latency_bound(struct sp_stages_run *run, const struct sp_latency_graph *graph, double best_value,
                                double *ret_bound)
{
    struct sp_arena *arena = sp_arena_create(sp_arena_budget(run->scratch));
    struct paths paths = {.graph = graph};
    enum sp_status status = SP_OK;
    if (arena == NULL || !allocate(arena, &paths)) {
        sp_arena_destroy(arena);
        return sp_fail_memory(run->err);
    }
    add_sure_transfers(&paths);
    list_figures(&paths);
    paths.memory = all_memory(graph) * (1 + SP_STAGES_SLACK);
    for (uint32_t v = 0; v < graph->node_count; v++)
        if (!(graph->alone[v] < INFINITY)) {
            *ret_bound = best_value; /* nothing can run the node */
            goto end;
        }
    /* Everything fast: the plain longest path, and the first of the mixture. */
    for (uint32_t u = 0; u < graph->model->unit_count; u++)
        paths.part[u] = 1;
    double bound = mix_longest(&paths, 1), along = 0;
    const uint64_t later = run->work_left - run->work_left / PATHS_SHARE;
    for (uint32_t step = 0; step < MIX_STEPS && bound < INFINITY && bound < best_value * (1 - 1e-9); step++) {
        if (step == 0 || (step < PATHS && run->work_left > later)) {
            status = sp_latency_path(run, arena, graph, paths.path_count,
                                     &paths.path[graph->node_count - paths.path_count], &along);
            if (status != SP_OK)
                break;
        }
        bound = fmax(fmax(bound, along), mixed_bound(&paths));
        mix_longest(&paths, 2.0 / (step + 3.0));
        if (!sp_stages_spend(run, 4 * (uint64_t)graph->node_count + graph->after.start[graph->node_count]))
            break;
    }
    *ret_bound = fmin(fmax(*ret_bound, bound * (1 - 1e-12)), best_value);
end:
    sp_arena_destroy(arena);
    return status;
}
