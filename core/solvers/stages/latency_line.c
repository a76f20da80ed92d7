/* The best stages along the order of the units, as if parts ran one after the other. */
#include <math.h>
#include <string.h>

#include "solvers/stages/latency.h"

#define LINE_WORK ((uint64_t)200000000) /* beyond it ranges get a longest length */

#define MAX_CELLS ((size_t)1 << 24)

/* A range of the order under one option that grows at its end. */
struct range {
    uint32_t *users_in, *stamp_of; /* per link */
    bool *has_producer;            /* per link */
    uint32_t *shared_stamp;        /* per shared weight */
    uint32_t stamp;
    double seconds, transfer, bytes, held;
    void *set;                /* the problem's own count of memory, or NULL; empty between ranges */
    uint32_t *put, put_count; /* nodes that are in it */
};

static void begin_range(struct range *range)
{
    range->stamp++;
    range->seconds = range->transfer = range->bytes = range->held = 0;
}

static void touch(struct range *range, uint32_t l)
{
    if (range->stamp_of[l] == range->stamp)
        return;
    range->stamp_of[l] = range->stamp;
    range->users_in[l] = 0;
    range->has_producer[l] = false;
}

static void add_unit(struct range *range, const struct sp_assign_model *model, uint32_t option, uint32_t unit)
{
    const double *transfer = model->transfer[option];
    double scale = model->problem->options[option].memory_scale;
    range->seconds += model->seconds[option][unit];
    range->bytes += model->weight[option][unit];
    range->held = fmax(range->held, model->held[option][unit]);
    for (uint32_t i = model->shared.start[unit]; i < model->shared.start[unit + 1]; i++) {
        uint32_t w = model->shared.items[i];
        if (range->shared_stamp[w] != range->stamp)
            range->bytes += model->shared_bytes[w] * scale;
        range->shared_stamp[w] = range->stamp;
    }
    for (uint32_t i = model->makes.start[unit]; i < model->makes.start[unit + 1]; i++) {
        uint32_t l = model->makes.items[i], users = model->users.start[l + 1] - model->users.start[l];
        touch(range, l);
        range->has_producer[l] = true;
        range->transfer += (range->users_in[l] < users ? transfer[l] : 0) - (range->users_in[l] > 0 ? transfer[l] : 0);
    }
    for (uint32_t i = model->takes.start[unit]; i < model->takes.start[unit + 1]; i++) {
        uint32_t l = model->takes.items[i], users = model->users.start[l + 1] - model->users.start[l];
        touch(range, l);
        range->users_in[l]++;
        if (range->has_producer[l])
            range->transfer -= range->users_in[l] == users ? transfer[l] : 0;
        else
            range->transfer += range->users_in[l] == 1 ? transfer[l] : 0;
    }
}

/* best[slot][i]: the first i units, with stages in slots below; how it came to that. */
struct line {
    const struct sp_latency_graph *graph;
    uint32_t units, slots; /* slots of stages */
    double *best;
    uint32_t *from; /* where the last range began; equal to i: no range in the slot before; i - 1 with a mark: free */
};

static double free_seconds(const struct sp_latency_graph *graph, uint32_t unit, uint32_t *ret_slot)
{
    double least = INFINITY;
    for (uint32_t s = graph->slot_count - graph->free_count; s < graph->slot_count; s++) {
        uint32_t option = graph->choices[s].option;
        if (graph->allowed[option][unit] && graph->model->seconds[option][unit] < least) {
            least = graph->model->seconds[option][unit];
            *ret_slot = s;
        }
    }
    return least;
}

#define FREE UINT32_MAX

static void improve(struct line *line, uint32_t slot, uint32_t i, double seconds, uint32_t from)
{
    size_t at = (size_t)slot * (line->units + 1) + i;
    if (seconds < line->best[at]) {
        line->best[at] = seconds;
        line->from[at] = from;
    }
}

/* Puts the unit in where the problem counts memory itself; whether the range fits by that. */
static bool set_fits(struct range *range, const struct sp_latency_graph *graph, uint32_t option, uint32_t unit,
                     double limit)
{
    const struct sp_rows *nodes = graph->model->nodes;
    if (range->set == NULL || limit == INFINITY)
        return true;
    for (uint32_t i = nodes->start[unit]; i < nodes->start[unit + 1]; i++) {
        graph->problem->memory->put(range->set, nodes->items[i]);
        range->put[range->put_count++] = nodes->items[i];
    }
    return graph->problem->memory->bytes(range->set, option) <= limit;
}

/* All ranges that begin at `a`, for the slots of one option. */
static void extend(struct line *line, struct range *range, uint32_t a, uint32_t option, uint32_t longest)
{
    const struct sp_latency_graph *graph = line->graph;
    double limit = graph->problem->options[option].memory_bytes * (1 + SP_STAGES_SLACK);
    begin_range(range);
    uint32_t b = a;
    for (; b < line->units && b - a < longest; b++) {
        uint32_t unit = graph->units[b];
        if (!graph->allowed[option][unit])
            break;
        add_unit(range, graph->model, option, unit);
        if (range->bytes + range->held > limit)
            break;
        if (!set_fits(range, graph, option, unit, limit))
            continue;
        for (uint32_t s = 0; s < line->slots; s++)
            if (graph->choices[s].option == option)
                improve(line, s + 1, b + 1,
                        line->best[(size_t)s * (line->units + 1) + a] + range->seconds + range->transfer, a);
    }
    while (range->put_count > 0)
        graph->problem->memory->take(range->set, range->put[--range->put_count]);
}

/* Whether an earlier slot has the option already, so that its ranges were looked at. */
static bool is_repeated(const struct sp_latency_graph *graph, uint32_t slot)
{
    for (uint32_t s = 0; s < slot; s++)
        if (graph->choices[s].option == graph->choices[slot].option)
            return true;
    return false;
}

static void trace(const struct line *line, uint32_t *slot_of)
{
    const struct sp_latency_graph *graph = line->graph;
    uint32_t slot = line->slots, i = line->units;
    while (i > 0) {
        uint32_t from = line->from[(size_t)slot * (line->units + 1) + i];
        if (from == FREE) {
            free_seconds(graph, graph->units[i - 1], &slot_of[graph->units[i - 1]]);
            i--;
            continue;
        }
        while (i > from)
            slot_of[graph->units[--i]] = slot - 1;
        slot--;
    }
}

bool sp_latency_line(struct sp_stages_run *run, struct sp_arena *arena, const struct sp_latency_graph *graph,
                     uint32_t *slot_of)
{
    const struct sp_assign_model *model = graph->model;
    struct line line = {.graph = graph, .units = model->unit_count, .slots = graph->slot_count - graph->free_count};
    size_t cells = (size_t)(line.slots + 1) * (line.units + 1);
    if (cells > MAX_CELLS)
        return false;
    struct range range = {.users_in = SP_NEW_ARRAY(arena, model->link_count, uint32_t),
                          .stamp_of = SP_NEW_ARRAY(arena, model->link_count, uint32_t),
                          .has_producer = SP_NEW_ARRAY(arena, model->link_count, bool),
                          .shared_stamp = SP_NEW_ARRAY(arena, model->shared_count, uint32_t),
                          .put = SP_NEW_ARRAY(arena, graph->node_count, uint32_t)};
    if (model->nodes != NULL)
        range.set = line.graph->problem->memory->create(line.graph->problem->memory->context, arena);
    line.best = SP_NEW_ARRAY(arena, cells, double);
    line.from = SP_NEW_ARRAY(arena, cells, uint32_t);
    if (range.users_in == NULL || range.stamp_of == NULL || range.has_producer == NULL || range.shared_stamp == NULL ||
        range.put == NULL || (range.set == NULL && model->nodes != NULL) || line.best == NULL || line.from == NULL)
        return false;
    for (size_t i = 1; i < cells; i++)
        line.best[i] = INFINITY;
    uint64_t longest = LINE_WORK / ((uint64_t)(line.units + 1) * (line.slots + 4)) + 1;
    for (uint32_t a = 0; a < line.units; a++) {
        uint32_t ignored = 0;
        double seconds = free_seconds(graph, graph->units[a], &ignored);
        for (uint32_t s = 0; s <= line.slots; s++) {
            size_t at = (size_t)s * (line.units + 1) + a;
            if (s > 0) /* a slot that stays empty */
                improve(&line, s, a, line.best[at - line.units - 1], a);
            improve(&line, s, a + 1, line.best[at] + seconds, FREE);
        }
        for (uint32_t s = 0; s < line.slots; s++)
            if (!is_repeated(graph, s))
                extend(&line, &range, a, graph->choices[s].option,
                       longest < line.units ? (uint32_t)longest : line.units);
        if (!sp_stages_spend(run, line.units))
            return false;
    }
    for (uint32_t s = 1; s <= line.slots; s++)
        improve(&line, s, line.units, line.best[(size_t)(s - 1) * (line.units + 1) + line.units], line.units);
    if (!(line.best[cells - 1] < INFINITY))
        return false;
    trace(&line, slot_of);
    return true;
}
