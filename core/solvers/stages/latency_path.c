/*
 * The least time along one path.
 *
 * What a stage has of a path is one part of it, as stages do not wait for each other: the nodes between two of a
 * stage's would have to be in it, too. So the path is cut into parts of stages and nodes that run freely, each of which
 * begins when the one before has ended. A part takes at least its nodes' seconds, the transfers over its two ends, and
 * transfers that are sure; its nodes alone are within the memory.
 */
#include <math.h>

#include "solvers/stages/latency.h"

#define PATH_WORK ((uint64_t)20000000)

struct cutting {
    const struct sp_latency_graph *graph;
    uint32_t count, stages;
    const uint32_t *path;
    double **sure;      /* [option][place]: transfers that are sure and are not over the path's own edges */
    double **edge;      /* [option][place]: what goes over the edge to the place from the one before */
    uint32_t *place_of; /* per node: place + 1; 0: not on the path */
    uint32_t *last;     /* per unit: the part that has counted it */
    double *best;       /* [stages][places done] */
};

static double transfer_of(const struct sp_stages_option *option, const struct sp_stages_tensor *tensor)
{
    return option->transfer_fixed + option->transfer_per_byte * tensor->bytes;
}

/* Whether one of the tensor's users is at a place. */
static bool is_used_at(const struct cutting *cutting, const struct sp_stages_tensor *tensor, uint32_t place)
{
    for (uint32_t i = 0; place < cutting->count && i < tensor->consumer_count; i++)
        if (tensor->consumers[i] == cutting->path[place])
            return true;
    return false;
}

static void add_transfers(struct cutting *cutting)
{
    const struct sp_stages_problem *problem = cutting->graph->problem;
    for (uint32_t t = 0; t < problem->tensor_count; t++) {
        const struct sp_stages_tensor *tensor = &problem->tensors[t];
        uint32_t made = cutting->place_of[tensor->producer], user = cutting->graph->sure_user[t];
        bool is_next = made > 0 && is_used_at(cutting, tensor, made); /* `made` is the place after the producer's */
        for (uint32_t o = 0; o < problem->option_count; o++) {
            double seconds = transfer_of(&problem->options[o], tensor);
            if (is_next)
                cutting->edge[o][made] += seconds;
            if (!cutting->graph->is_sure[o][t])
                continue;
            if (made > 0 && !is_next)
                cutting->sure[o][made - 1] += seconds;
            if (made == 0 && cutting->place_of[user] > 0)
                cutting->sure[o][cutting->place_of[user] - 1] += seconds;
        }
    }
}

static void improve(double *best, double seconds)
{
    if (seconds < *best)
        *best = seconds;
}

/* All parts of stages under an option that begin at place `a`. */
static void extend(struct cutting *cutting, uint32_t a, uint32_t o)
{
    const struct sp_latency_graph *graph = cutting->graph;
    const struct sp_assign_model *model = graph->model;
    const struct sp_stages_option *option = &graph->problem->options[o];
    uint32_t mark = o * cutting->count + a + 1, row = cutting->count + 1;
    double seconds = a > 0 ? cutting->edge[o][a] : 0, bytes = 0, held = 0;
    for (uint32_t b = a; b < cutting->count; b++) {
        uint32_t v = cutting->path[b], unit = graph->unit_of[v];
        if (!graph->allowed[o][unit])
            return;
        seconds += option->seconds[v] + cutting->sure[o][b];
        if (cutting->last[unit] != mark) {
            bytes += model->weight[o][unit];
            held = fmax(held, model->held[o][unit]);
        }
        cutting->last[unit] = mark;
        if (bytes + held > option->memory_bytes * (1 + SP_STAGES_SLACK))
            return;
        double all = seconds + (b + 1 < cutting->count ? cutting->edge[o][b + 1] : 0);
        for (uint32_t s = 0; s < cutting->stages; s++)
            improve(&cutting->best[(size_t)(s + 1) * row + b + 1], cutting->best[(size_t)s * row + a] + all);
    }
}

static double cut(struct cutting *cutting)
{
    const struct sp_latency_graph *graph = cutting->graph;
    const struct sp_stages_problem *problem = graph->problem;
    uint32_t row = cutting->count + 1;
    for (size_t i = 0; i < (size_t)(cutting->stages + 1) * row; i++)
        cutting->best[i] = i == 0 ? 0 : INFINITY;
    for (uint32_t a = 0; a < cutting->count; a++)
        for (uint32_t o = 0; o < problem->option_count; o++) {
            uint32_t v = cutting->path[a];
            if (!problem->options[o].is_free) {
                extend(cutting, a, o);
                continue;
            }
            for (uint32_t s = 0; s <= cutting->stages && graph->allowed[o][graph->unit_of[v]]; s++)
                improve(&cutting->best[(size_t)s * row + a + 1],
                        cutting->best[(size_t)s * row + a] + problem->options[o].seconds[v]);
        }
    double least = INFINITY;
    for (uint32_t s = 0; s <= cutting->stages; s++)
        least = fmin(least, cutting->best[(size_t)s * row + cutting->count]);
    return least;
}

static bool allocate(struct sp_arena *arena, struct cutting *cutting)
{
    const struct sp_latency_graph *graph = cutting->graph;
    uint32_t options = graph->problem->option_count;
    cutting->sure = SP_NEW_ARRAY(arena, options, double *);
    cutting->edge = SP_NEW_ARRAY(arena, options, double *);
    cutting->place_of = SP_NEW_ARRAY(arena, graph->node_count, uint32_t);
    cutting->last = SP_NEW_ARRAY(arena, graph->model->unit_count, uint32_t);
    cutting->best = SP_NEW_ARRAY(arena, (size_t)(cutting->stages + 1) * (cutting->count + 1), double);
    for (uint32_t o = 0; cutting->sure != NULL && cutting->edge != NULL && o < options; o++) {
        cutting->sure[o] = SP_NEW_ARRAY(arena, (size_t)cutting->count + 1, double);
        cutting->edge[o] = SP_NEW_ARRAY(arena, (size_t)cutting->count + 1, double);
        if (cutting->sure[o] == NULL || cutting->edge[o] == NULL)
            return false;
    }
    return cutting->sure != NULL && cutting->edge != NULL && cutting->place_of != NULL && cutting->last != NULL &&
           cutting->best != NULL;
}

enum sp_status sp_latency_path(struct sp_stages_run *run, struct sp_arena *arena, const struct sp_latency_graph *graph,
                               uint32_t count, const uint32_t *path, double *ret_seconds)
{
    struct sp_arena_mark mark = sp_arena_mark(arena);
    struct cutting cutting = {
        .graph = graph, .count = count, .path = path, .stages = graph->slot_count - graph->free_count};
    if (cutting.stages >= SP_ASSIGN_MAX_SLOTS / 2) /* there may be more than are looked at */
        cutting.stages = count;
    uint64_t work = (uint64_t)count * count / 2 * (cutting.stages + 4) * graph->problem->option_count;
    *ret_seconds = 0;
    if (work > PATH_WORK)
        return SP_OK;
    if (!allocate(arena, &cutting))
        return sp_fail_memory(run->err);
    for (uint32_t i = 0; i < count; i++)
        cutting.place_of[path[i]] = i + 1;
    add_transfers(&cutting);
    *ret_seconds = cut(&cutting);
    sp_arena_rewind(arena, mark);
    sp_stages_spend(run, work);
    return SP_OK;
}
