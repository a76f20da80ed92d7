#include "search/grouping/internal.h"

/* Node visits of one enumeration; wide graphs on many devices have more placements than are worth a look. */
#define MOST_VISITS ((uint32_t)1 << 20)

struct enumeration {
    struct sp_grouping_search *search;
    struct sp_candidate *best;
    struct sp_candidate trial;
    uint32_t stage[SP_EXHAUSTIVE_NODES];
    double load[SP_EXHAUSTIVE_NODES]; /* stage -> seconds so far */
    uint32_t leaves, visits;
};

/* The first stage that a node may be in: its producers' last one. */
static uint32_t earliest(const struct enumeration *e, uint32_t index)
{
    const struct sp_workload *workload = e->search->workload;
    const struct sp_work_node *node = &workload->nodes[e->search->live[index]];
    uint32_t first = 0;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const struct sp_work_tensor *tensor = &workload->tensors[node->inputs[i]];
        if (tensor->kind != SP_WORK_ACTIVATION)
            continue;
        for (uint32_t j = 0; j < index; j++)
            if (e->search->live[j] == tensor->producer && e->stage[j] > first)
                first = e->stage[j];
    }
    return first;
}

static double seconds(const struct enumeration *e, uint32_t index, uint32_t stage)
{
    uint32_t kind = e->search->workload->kind_of[e->search->devices[stage]];
    return e->search->workload->nodes[e->search->live[index]].seconds[kind];
}

/* Whether what is placed so far already loses against the best. */
static bool hopeless(const struct enumeration *e, uint32_t stage)
{
    const struct sp_score *best = &e->best->score;
    return e->search->objective == SP_OBJECTIVE_THROUGHPUT && best->valid && best->excess_bytes <= 0 &&
           e->load[stage] > best->interval * (1 + 1e-9);
}

/* Between equal devices a placement with an empty stage is another one under other numbers. */
static bool has_gap(const struct enumeration *e)
{
    uint32_t used = 0, last = 0;
    for (uint32_t i = 0; i < e->search->live_count; i++) {
        used |= 1u << e->stage[i];
        if (e->stage[i] > last)
            last = e->stage[i];
    }
    return used != (2u << last) - 1;
}

static enum sp_status take_leaf(struct enumeration *e)
{
    struct sp_grouping_search *search = e->search;
    if (search->same_devices && has_gap(e))
        return SP_OK;
    e->leaves++;
    e->trial.stage_count = search->stage_limit;
    for (uint32_t i = 0; i < search->stage_limit; i++)
        e->trial.stage_device[i] = search->devices[i];
    for (uint32_t i = 0; i < search->live_count; i++)
        e->trial.stage_of[search->live[i]] = e->stage[i];
    enum sp_status status = sp_candidate_score(search, &e->trial, NULL);
    if (status == SP_OK && sp_score_better(search, &e->trial.score, &e->best->score)) {
        sp_candidate_copy(search, e->best, &e->trial);
        search->accepted++;
    }
    return status;
}

/* Counts through all monotone placements: stage[i] runs from earliest(i) to the last stage, the last node fastest. */
static enum sp_status enumerate(struct enumeration *e)
{
    uint32_t live = e->search->live_count, stages = e->search->stage_limit, depth = 0;
    bool entering = true;
    while (e->visits++ < MOST_VISITS && e->leaves < SP_EXHAUSTIVE_LEAVES) {
        if (entering) {
            e->stage[depth] = earliest(e, depth);
        } else {
            e->load[e->stage[depth]] -= seconds(e, depth, e->stage[depth]);
            e->stage[depth]++;
        }
        if (e->stage[depth] >= stages) {
            if (depth == 0)
                return SP_OK;
            depth--;
            entering = false;
            continue;
        }
        e->load[e->stage[depth]] += seconds(e, depth, e->stage[depth]);
        entering = false;
        if (hopeless(e, e->stage[depth]))
            continue;
        if (depth + 1 < live) {
            depth++;
            entering = true;
            continue;
        }
        enum sp_status status = take_leaf(e);
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

enum sp_status sp_exhaust(struct sp_grouping_search *search, struct sp_candidate *best)
{
    if (search->live_count == 0 || search->live_count > SP_EXHAUSTIVE_NODES)
        return SP_OK;
    struct sp_arena_mark mark = sp_arena_mark(search->arena);
    struct enumeration enumeration = {.search = search, .best = best};
    enum sp_status status = sp_candidate_init(search, &enumeration.trial);
    if (status == SP_OK)
        status = enumerate(&enumeration);
    sp_arena_rewind(search->arena, mark);
    return status;
}
