#include <stdlib.h>

#include "search/grouping/internal.h"

/*
 * Stages run in parallel for one request only when neither waits for the other. Going through the live nodes in order,
 * a neck is a node that no edge passes by; between two necks the graph falls into components without edges between
 * them:
 *
 *          / a - a \                          stage 0  up to and with the first neck
 *   .. - N           N - ..                   stage 1  the heaviest branch, stage 2 .. the others
 *          \ b - b /                          last     from the second neck on
 *
 * The stretch that would gain most from running its components side by side is the one that is laid out.
 *
 * Where a model has several inputs, the first node of one tower looks like a neck as long as the other tower has not
 * begun. So there are two readings, and both are tried: with every neck, and only with those behind the last node that
 * starts from nothing.
 */

struct stretch {
    uint32_t begin, end; /* indices of live nodes, necks excluded */
    double gain;         /* seconds of all components but the longest */
};

struct branches {
    struct sp_grouping_search *search;
    uint32_t first_neck; /* index from which on necks count */
    uint32_t *index;     /* work node -> index among the live nodes */
    uint32_t *root;      /* live index -> component, a union-find forest */
    double *seconds;     /* root -> its component's seconds */
};

struct component {
    double seconds;
    uint32_t root;
};

static uint32_t find(struct branches *b, uint32_t i)
{
    while (b->root[i] != i) {
        b->root[i] = b->root[b->root[i]];
        i = b->root[i];
    }
    return i;
}

static const struct sp_work_node *node_at(const struct branches *b, uint32_t index)
{
    return &b->search->workload->nodes[b->search->live[index]];
}

/* The last user of what a node makes, its own index without users. */
static uint32_t reach(const struct branches *b, uint32_t index)
{
    const struct sp_workload *workload = b->search->workload;
    const struct sp_work_node *node = node_at(b, index);
    uint32_t far = index;
    for (uint32_t i = 0; i < node->output_count; i++) {
        const struct sp_work_tensor *tensor = &workload->tensors[node->outputs[i]];
        if (tensor->kind != SP_WORK_ACTIVATION || tensor->consumer_count == 0)
            continue;
        uint32_t last = b->index[tensor->consumers[tensor->consumer_count - 1]];
        if (last > far)
            far = last;
    }
    return far;
}

/* Joins the nodes of a stretch that are connected inside it. */
static void connect(struct branches *b, uint32_t begin, uint32_t end)
{
    const struct sp_workload *workload = b->search->workload;
    uint32_t kind = workload->kind_of[b->search->devices[0]];
    for (uint32_t i = begin; i < end; i++) {
        const struct sp_work_node *node = node_at(b, i);
        b->root[i] = i;
        b->seconds[i] = node->seconds[kind];
        for (uint32_t j = 0; j < node->input_count; j++) {
            const struct sp_work_tensor *tensor = &workload->tensors[node->inputs[j]];
            if (tensor->kind != SP_WORK_ACTIVATION || b->index[tensor->producer] < begin)
                continue;
            uint32_t from = find(b, b->index[tensor->producer]), to = find(b, i);
            if (from == to)
                continue;
            b->root[to] = from;
            b->seconds[from] += b->seconds[to];
        }
    }
}

static struct stretch weigh(struct branches *b, uint32_t begin, uint32_t end)
{
    double total = 0, longest = 0;
    connect(b, begin, end);
    for (uint32_t i = begin; i < end; i++) {
        if (b->root[i] != i)
            continue;
        total += b->seconds[i];
        if (b->seconds[i] > longest)
            longest = b->seconds[i];
    }
    return (struct stretch){begin, end, total - longest};
}

static struct stretch find_stretch(struct branches *b)
{
    struct stretch best = {0};
    uint32_t count = b->search->live_count, begin = 0, far = 0;
    for (uint32_t i = 0; i <= count; i++) {
        bool neck = i == count || (far <= i && i >= b->first_neck);
        if (neck && i > begin) {
            struct stretch stretch = weigh(b, begin, i);
            if (stretch.gain > best.gain)
                best = stretch;
        }
        if (neck)
            begin = i + 1;
        if (i < count && reach(b, i) > far)
            far = reach(b, i);
    }
    return best;
}

static int by_seconds(const void *a, const void *b)
{
    const struct component *x = a, *y = b;
    if (x->seconds != y->seconds)
        return x->seconds > y->seconds ? -1 : 1;
    return (x->root > y->root) - (x->root < y->root);
}

/* Deals the components, longest first, to the least loaded of `stages` stages from `first` on; the stage of a component
   is left in stage_of_root. */
static uint32_t deal(struct branches *b, const struct stretch *stretch, struct component *components, double *loads,
                     uint32_t first, uint32_t stages, uint32_t *stage_of_root)
{
    uint32_t count = 0, used = 0;
    for (uint32_t i = stretch->begin; i < stretch->end; i++)
        if (b->root[i] == i)
            components[count++] = (struct component){b->seconds[i], i};
    qsort(components, count, sizeof *components, by_seconds);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t least = 0;
        for (uint32_t s = 1; s < stages; s++)
            if (loads[s] < loads[least])
                least = s;
        loads[least] += components[i].seconds;
        stage_of_root[components[i].root] = first + least;
        if (least + 1 > used)
            used = least + 1;
    }
    return used;
}

#define MOST_BRANCHES 16 /* stages side by side; more components share them */

static enum sp_status lay_out(struct branches *b, const struct stretch *stretch, struct sp_candidate *candidate)
{
    struct sp_grouping_search *search = b->search;
    uint32_t live = search->live_count, length = stretch->end - stretch->begin;
    uint32_t before = stretch->begin > 0, after = stretch->end < live;
    uint32_t stages = search->stage_limit - before - after;
    if (stages > MOST_BRANCHES)
        stages = MOST_BRANCHES;
    struct component *components = SP_NEW_ARRAY(search->arena, length, struct component);
    double *loads = SP_NEW_ARRAY(search->arena, stages, double);
    uint32_t *stage_of_root = SP_NEW_ARRAY(search->arena, live, uint32_t);
    if (components == NULL || loads == NULL || stage_of_root == NULL)
        return sp_fail_memory(search->err);
    uint32_t used = deal(b, stretch, components, loads, before, stages, stage_of_root);
    for (uint32_t i = 0; i < live; i++) {
        uint32_t stage = 0;
        if (i >= stretch->end)
            stage = before + used;
        else if (i >= stretch->begin)
            stage = stage_of_root[find(b, i)];
        candidate->stage_of[search->live[i]] = stage;
    }
    candidate->stage_count = before + used + after;
    for (uint32_t stage = 0; stage < candidate->stage_count; stage++)
        candidate->stage_device[stage] = search->devices[stage];
    candidate->score.valid = false;
    return SP_OK;
}

/* The index behind the last node that uses no activation. */
static uint32_t behind_sources(const struct branches *b)
{
    uint32_t behind = 0;
    for (uint32_t i = 0; i < b->search->live_count; i++) {
        const struct sp_work_node *node = node_at(b, i);
        bool source = true;
        for (uint32_t j = 0; j < node->input_count && source; j++)
            source = b->search->workload->tensors[node->inputs[j]].kind != SP_WORK_ACTIVATION;
        if (source)
            behind = i + 1;
    }
    return behind;
}

enum sp_status sp_branches(struct sp_grouping_search *search, bool behind_all_sources, struct sp_candidate *candidate,
                           bool *ret_made)
{
    uint32_t live = search->live_count;
    struct sp_arena_mark mark = sp_arena_mark(search->arena);
    struct branches b = {.search = search};
    b.index = SP_NEW_ARRAY(search->arena, search->workload->node_count, uint32_t);
    b.root = SP_NEW_ARRAY(search->arena, live, uint32_t);
    b.seconds = SP_NEW_ARRAY(search->arena, live, double);
    if (b.index == NULL || b.root == NULL || b.seconds == NULL)
        return sp_fail_memory(search->err);
    for (uint32_t i = 0; i < live; i++)
        b.index[search->live[i]] = i;
    b.first_neck = behind_all_sources ? behind_sources(&b) : 0;

    enum sp_status status = SP_OK;
    struct stretch stretch = find_stretch(&b);
    uint32_t around = (stretch.begin > 0) + (stretch.end < live);
    *ret_made = stretch.gain > 0 && search->stage_limit >= around + 2;
    if (*ret_made)
        status = lay_out(&b, &stretch, candidate);
    sp_arena_rewind(search->arena, mark);
    return status;
}
