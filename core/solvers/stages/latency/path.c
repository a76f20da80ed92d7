/*
 * The least time along one path.
 *
 * What a stage has of a path is one part of it, as stages do not wait for each other: the nodes between two of a
 * stage's would have to be in it, too. So the path is cut into parts of stages and nodes that run freely, each of which
 * begins when the one before has ended. A stage with a part has everything that lies between two nodes of the part,
 * with its time and memory; it has nothing that comes before the path's node in front of the part, nor anything behind the
 * node after it, so tensors between these and what it has are received and sent. Branches beside the path make a cut
 * dear where it goes through them.
 */
#include <math.h>

#include "solvers/stages/latency/branches.h"

#define PATH_WORK ((uint64_t)20000000)

struct cutting {
    const struct sp_latency_graph *graph;
    uint32_t stages;
    struct sp_latency_places places;
    struct sp_latency_branches branches;
    struct sp_rows arriving;           /* by place: nodes whose `until` it is */
    uint32_t *unit_mark, *tensor_mark; /* the part that has counted it last */
    double *change; /* per place: by how much more a stage sends that has it than one which ends before */
    double *best;   /* [stages][places done] */
    uint64_t work;
};

/* The stage that has the places from `first` to `last`, under an option; what is sent depends on where it ends. */
struct part {
    const struct sp_stages_option *option;
    uint32_t o, mark, first, last;
    uint32_t reach; /* the stage has a node behind this place, so it cannot end before */
    double seconds, sends, bytes, held;
};

static void improve(double *best, double seconds)
{
    if (seconds < *best)
        *best = seconds;
}

/* Adds a unit with all its nodes; false where the stage cannot have it. */
static bool add_unit(struct cutting *cutting, struct part *part, uint32_t unit)
{
    const struct sp_latency_graph *graph = cutting->graph;
    const struct sp_assign_model *model = graph->model;
    if (cutting->unit_mark[unit] == part->mark)
        return true;
    cutting->unit_mark[unit] = part->mark;
    if (!graph->allowed[part->o][unit])
        return false;
    for (uint32_t i = graph->nodes.start[unit]; i < graph->nodes.start[unit + 1]; i++) {
        uint32_t node = graph->nodes.items[i];
        if (cutting->places.until[node] < part->first)
            return false;
        if (cutting->places.after[node] > part->reach)
            part->reach = cutting->places.after[node];
    }
    part->seconds += model->seconds[part->o][unit];
    part->bytes += model->weight[part->o][unit];
    part->held = fmax(part->held, model->held[part->o][unit]);
    return part->bytes + part->held <= part->option->memory_bytes * (1 + SP_STAGES_SLACK);
}

static void add_transfers(struct cutting *cutting, struct part *part, uint32_t v)
{
    const struct sp_latency_graph *graph = cutting->graph;
    const struct sp_stages_tensor *tensors = graph->problem->tensors;
    const bool *is_sure = graph->is_sure[part->o];
    for (uint32_t i = graph->takes.start[v]; i < graph->takes.start[v + 1]; i++) {
        uint32_t t = graph->takes.items[i];
        bool is_received =
            (is_sure[t] && graph->sure_user[t] == v) || cutting->places.until[tensors[t].producer] < part->first;
        if (is_received && cutting->tensor_mark[t] != part->mark)
            part->seconds += sp_latency_transfer(part->option, &tensors[t]);
        if (is_received)
            cutting->tensor_mark[t] = part->mark;
    }
    for (uint32_t i = graph->makes.start[v]; i < graph->makes.start[v + 1]; i++) {
        uint32_t t = graph->makes.items[i];
        double seconds = sp_latency_transfer(part->option, &tensors[t]);
        if (is_sure[t]) {
            part->seconds += seconds;
        } else if (cutting->places.tensor_after[t] > part->last) {
            part->sends += seconds;
            cutting->change[cutting->places.tensor_after[t]] -= seconds;
        }
    }
}

/* What begins on the part's last place and what ends there. */
static void add_branches(struct cutting *cutting, struct part *part)
{
    const struct sp_latency_branches *branches = &cutting->branches;
    for (uint32_t i = branches->ends.start[part->last]; i < branches->ends.start[part->last + 1]; i++) {
        const struct sp_latency_branch *branch = &branches->receives[part->o][branches->ends.items[i]];
        if (branch->from < part->first)
            part->seconds += branch->seconds;
    }
    const uint32_t *start = branches->send_start[part->o];
    for (uint32_t i = start[part->last]; i < start[part->last + 1]; i++) {
        const struct sp_latency_branch *branch = &branches->sends[part->o][i];
        cutting->change[branch->first] += branch->seconds;
        cutting->change[branch->end] -= branch->seconds;
    }
}

/* The part becomes longer by one place; false where no stage has it. */
static bool lengthen(struct cutting *cutting, struct part *part)
{
    const struct sp_latency_graph *graph = cutting->graph;
    part->last++;
    add_branches(cutting, part);
    part->sends += cutting->change[part->last];
    cutting->work += cutting->arriving.start[part->last + 1] - cutting->arriving.start[part->last];
    for (uint32_t i = cutting->arriving.start[part->last]; i < cutting->arriving.start[part->last + 1]; i++) {
        uint32_t v = cutting->arriving.items[i];
        if (cutting->places.after[v] < part->first)
            continue;
        if (!add_unit(cutting, part, graph->unit_of[v]))
            return false;
        add_transfers(cutting, part, v);
    }
    return true;
}

/* All parts of stages under an option that begin at place `first`. */
static void extend(struct cutting *cutting, uint32_t first, uint32_t o)
{
    const struct sp_latency_graph *graph = cutting->graph;
    const uint32_t row = cutting->places.count + 1;
    struct part part = {.option = &graph->problem->options[o],
                        .o = o,
                        .mark = o * cutting->places.count + first,
                        .first = first,
                        .last = first - 1};
    for (uint32_t place = 0; place <= cutting->places.count; place++)
        cutting->change[place] = 0;
    while (part.last < cutting->places.count && lengthen(cutting, &part)) {
        double all = part.seconds + part.sends;
        cutting->work += cutting->stages;
        for (uint32_t s = 0; s < cutting->stages && part.reach <= part.last; s++)
            improve(&cutting->best[(size_t)(s + 1) * row + part.last],
                    cutting->best[(size_t)s * row + first - 1] + all);
    }
}

static double cut(struct cutting *cutting)
{
    const struct sp_latency_graph *graph = cutting->graph;
    const struct sp_stages_problem *problem = graph->problem;
    uint32_t row = cutting->places.count + 1;
    for (size_t i = 0; i < (size_t)(cutting->stages + 1) * row; i++)
        cutting->best[i] = i == 0 ? 0 : INFINITY;
    for (uint32_t place = 1; place <= cutting->places.count; place++)
        for (uint32_t o = 0; o < problem->option_count; o++) {
            uint32_t v = cutting->places.path[place - 1];
            if (!problem->options[o].is_free) {
                extend(cutting, place, o);
                continue;
            }
            for (uint32_t s = 0; s <= cutting->stages && graph->allowed[o][graph->unit_of[v]]; s++)
                improve(&cutting->best[(size_t)s * row + place],
                        cutting->best[(size_t)s * row + place - 1] + problem->options[o].seconds[v]);
        }
    double least = INFINITY;
    for (uint32_t s = 0; s <= cutting->stages; s++)
        least = fmin(least, cutting->best[(size_t)s * row + cutting->places.count]);
    return least;
}

/* Where every node and tensor lies beside the path. */
static bool find_places(struct sp_arena *arena, struct cutting *cutting)
{
    const struct sp_latency_graph *graph = cutting->graph;
    struct sp_latency_places *places = &cutting->places;
    const uint32_t count = graph->node_count, end = places->count + 1;
    for (uint32_t v = 0; v < count; v++)
        places->until[v] = end;
    for (uint32_t i = 0; i < places->count; i++)
        places->after[places->path[i]] = places->until[places->path[i]] = i + 1;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t v = graph->order[i], w = graph->order[count - 1 - i];
        for (uint32_t j = graph->before.start[v]; j < graph->before.start[v + 1]; j++)
            if (places->after[graph->before.items[j]] > places->after[v])
                places->after[v] = places->after[graph->before.items[j]];
        for (uint32_t j = graph->after.start[w]; j < graph->after.start[w + 1]; j++)
            if (places->until[graph->after.items[j]] < places->until[w])
                places->until[w] = places->until[graph->after.items[j]];
    }
    for (uint32_t t = 0; t < graph->problem->tensor_count; t++) {
        const struct sp_stages_tensor *tensor = &graph->problem->tensors[t];
        for (uint32_t i = 0; i < tensor->consumer_count; i++)
            if (places->after[tensor->consumers[i]] > places->tensor_after[t])
                places->tensor_after[t] = places->after[tensor->consumers[i]];
    }
    return sp_rows_sort(arena, places->until, count, end + 1, &cutting->arriving);
}

static bool allocate(struct sp_arena *arena, struct cutting *cutting)
{
    const struct sp_latency_graph *graph = cutting->graph;
    const uint32_t tensors = graph->problem->tensor_count;
    cutting->places.after = SP_NEW_ARRAY(arena, graph->node_count, uint32_t);
    cutting->places.until = SP_NEW_ARRAY(arena, graph->node_count, uint32_t);
    cutting->places.tensor_after = SP_NEW_ARRAY(arena, tensors, uint32_t);
    cutting->unit_mark = SP_NEW_ARRAY(arena, graph->model->unit_count, uint32_t);
    cutting->tensor_mark = SP_NEW_ARRAY(arena, tensors, uint32_t);
    cutting->change = SP_NEW_ARRAY(arena, (size_t)cutting->places.count + 1, double);
    cutting->best = SP_NEW_ARRAY(arena, (size_t)(cutting->stages + 1) * (cutting->places.count + 1), double);
    return cutting->places.after != NULL && cutting->places.until != NULL && cutting->places.tensor_after != NULL &&
           cutting->unit_mark != NULL && cutting->tensor_mark != NULL && cutting->change != NULL &&
           cutting->best != NULL;
}

enum sp_status sp_latency_path(struct sp_stages_run *run, struct sp_arena *arena, const struct sp_latency_graph *graph,
                               uint32_t count, const uint32_t *path, double *ret_seconds)
{
    struct sp_arena_mark mark = sp_arena_mark(arena);
    struct cutting cutting = {
        .graph = graph, .places = {.count = count, .path = path}, .stages = graph->slot_count - graph->free_count};
    if (cutting.stages >= SP_ASSIGN_MAX_SLOTS / 2) /* there may be more than are looked at */
        cutting.stages = count;
    uint64_t beside = graph->node_count + (uint64_t)graph->after.start[graph->node_count];
    uint64_t work =
        ((uint64_t)count * count / 2 * (cutting.stages + 4) + count * beside) * graph->problem->option_count;
    *ret_seconds = 0;
    if (work > PATH_WORK)
        return SP_OK;
    if (!allocate(arena, &cutting) || !find_places(arena, &cutting) ||
        !sp_latency_branches_list(arena, graph, &cutting.places, &cutting.branches))
        return sp_fail_memory(run->err);
    *ret_seconds = cut(&cutting);
    sp_arena_rewind(arena, mark);
    sp_stages_spend(run, cutting.work);
    return SP_OK;
}
