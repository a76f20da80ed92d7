/* All solutions of a small problem: sp_assign_exact() with a clock in place of loads. */
#include <math.h>
#include <string.h>

#include "solvers/stages/latency/latency.h"

#define NOTHING UINT32_MAX

struct judging {
    const struct sp_latency_graph *graph;
    const struct sp_stages_choice *free_choices;
    double *start, *tail; /* per part; per node: the longest way from its beginning, alone */
    uint32_t *part_of, *waits, *ready;
};

/* The part of a node among the placed ones: a stage's number, or one behind all stages for a node that runs freely. */
static uint32_t part_of_node(const struct judging *judging, uint32_t v, const uint32_t *part_of)
{
    const struct sp_latency_graph *graph = judging->graph;
    uint32_t part = part_of[graph->unit_of[v]];
    if (part == NOTHING || part >= graph->free_count)
        return part == NOTHING ? NOTHING : part - graph->free_count;
    return graph->model->unit_count + v;
}

/* What lies behind a node that is not placed yet and whose unit is nothing but it: it ends no earlier. */
static double rest(const struct judging *judging, uint32_t v)
{
    const struct sp_latency_graph *graph = judging->graph;
    double longest = 0;
    for (uint32_t i = graph->after.start[v]; i < graph->after.start[v + 1]; i++)
        if (judging->part_of[graph->after.items[i]] == NOTHING)
            longest = fmax(longest, judging->tail[graph->after.items[i]]);
    return longest;
}

static uint32_t pass_on(struct judging *judging, uint32_t v, uint32_t part, double end, uint32_t filled)
{
    const struct sp_latency_graph *graph = judging->graph;
    for (uint32_t i = graph->after.start[v]; i < graph->after.start[v + 1]; i++) {
        uint32_t next = judging->part_of[graph->after.items[i]];
        if (next == NOTHING || next == part)
            continue;
        judging->start[next] = fmax(judging->start[next], end);
        if (--judging->waits[next] == 0)
            judging->ready[filled++] = next;
    }
    return filled;
}

/* Parts that are there and what they wait for; returns how many. */
static uint32_t begin_parts(struct judging *judging, const uint32_t *part_of, uint32_t *ret_filled)
{
    const struct sp_latency_graph *graph = judging->graph;
    uint32_t all = graph->model->unit_count + graph->node_count, count = 0, filled = 0;
    memset(judging->waits, 0xFF, all * sizeof *judging->waits);
    for (uint32_t v = 0; v < graph->node_count; v++) {
        uint32_t part = judging->part_of[v] = part_of_node(judging, v, part_of);
        if (part == NOTHING)
            continue;
        count += judging->waits[part] == NOTHING;
        judging->waits[part] = 0;
        judging->start[part] = 0;
    }
    for (uint32_t v = 0; v < graph->node_count; v++)
        for (uint32_t i = graph->before.start[v]; judging->part_of[v] != NOTHING && i < graph->before.start[v + 1];
             i++) {
            uint32_t from = judging->part_of[graph->before.items[i]];
            judging->waits[judging->part_of[v]] += from != NOTHING && from != judging->part_of[v];
        }
    for (uint32_t part = 0; part < all; part++)
        if (judging->waits[part] == 0)
            judging->ready[filled++] = part;
    *ret_filled = filled;
    return count;
}

static double value_of(void *context, const uint32_t *part_of, const double *seconds)
{
    struct judging *judging = context;
    const struct sp_latency_graph *graph = judging->graph;
    uint32_t units = graph->model->unit_count, filled, count = begin_parts(judging, part_of, &filled);
    double last = 0;
    for (uint32_t done = 0; done < filled; done++) {
        uint32_t part = judging->ready[done];
        bool is_node = part >= units;
        double end = judging->start[part];
        if (is_node) {
            uint32_t option = judging->free_choices[part_of[graph->unit_of[part - units]]].option;
            end += graph->problem->options[option].seconds[part - units];
        } else {
            end += seconds[part + graph->free_count];
        }
        last = fmax(last, end);
        for (uint32_t v = is_node ? part - units : 0; v < (is_node ? part - units + 1 : graph->node_count); v++)
            if (judging->part_of[v] == part) {
                last = fmax(last, end + rest(judging, v));
                filled = pass_on(judging, v, part, end, filled);
            }
    }
    return filled == count ? last : INFINITY;
}

/* The longest ways: nodes of units with several nodes count nothing, as they may be in a stage before. */
static void measure_tails(struct judging *judging)
{
    const struct sp_latency_graph *graph = judging->graph;
    for (uint32_t i = graph->node_count; i-- > 0;) {
        uint32_t v = graph->order[i], unit = graph->unit_of[v];
        double longest = 0;
        for (uint32_t j = graph->after.start[v]; j < graph->after.start[v + 1]; j++)
            longest = fmax(longest, judging->tail[graph->after.items[j]]);
        judging->tail[v] =
            longest + (graph->nodes.start[unit + 1] - graph->nodes.start[unit] == 1 ? graph->alone[v] : 0);
    }
}

enum sp_status sp_latency_exact(struct sp_stages_run *run, const struct sp_latency_graph *graph,
                                struct sp_assign_best *best, uint64_t limit, double *ret_bound)
{
    struct sp_arena *arena = run->scratch;
    size_t parts = (size_t)graph->model->unit_count + graph->node_count;
    struct judging judging = {.graph = graph,
                              .start = SP_NEW_ARRAY(arena, parts, double),
                              .tail = SP_NEW_ARRAY(arena, graph->node_count, double),
                              .part_of = SP_NEW_ARRAY(arena, graph->node_count, uint32_t),
                              .waits = SP_NEW_ARRAY(arena, parts, uint32_t),
                              .ready = SP_NEW_ARRAY(arena, parts, uint32_t)};
    if (judging.start == NULL || judging.tail == NULL || judging.part_of == NULL || judging.waits == NULL ||
        judging.ready == NULL)
        return sp_fail_memory(run->err);
    best->slot_of = SP_NEW_ARRAY(arena, graph->model->unit_count, uint32_t);
    if (best->slot_of == NULL)
        return sp_fail_memory(run->err);
    judging.free_choices = &graph->choices[graph->slot_count - graph->free_count];
    measure_tails(&judging);
    struct sp_assign_judge judge = {.value = value_of,
                                    .context = &judging,
                                    .order = graph->units,
                                    .allowed = graph->allowed,
                                    .free_count = graph->free_count,
                                    .free_choices = judging.free_choices};
    return sp_assign_exact(run, graph->model, &judge, best, limit, ret_bound);
}
