#include <string.h>

#include "search/grouping/internal.h"

enum sp_status sp_search_step(struct sp_grouping_search *search, uint64_t steps)
{
    search->steps += steps;
    if (search->cancelled)
        return SP_ERR_CANCELLED;
    if (search->steps < search->next_tick)
        return SP_OK;
    search->next_tick = search->steps + SP_SEARCH_TICK;
    if (sp_watch_tick(search->watch, "search", search->fraction, search->best_seconds, search->bound_seconds))
        return SP_OK;
    search->cancelled = true;
    return sp_fail(search->err, SP_ERR_CANCELLED, "CANCELLED", "The search was cancelled.");
}

double sp_search_capacity(const struct sp_grouping_search *search, uint32_t device)
{
    return search->share * sp_cluster_room(search->cluster, device);
}

enum sp_status sp_candidate_init(struct sp_grouping_search *search, struct sp_candidate *candidate)
{
    *candidate = (struct sp_candidate){0};
    candidate->stage_of = SP_NEW_ARRAY(search->arena, search->workload->node_count, uint32_t);
    candidate->stage_device = SP_NEW_ARRAY(search->arena, search->stage_room, uint32_t);
    if (candidate->stage_of == NULL || candidate->stage_device == NULL)
        return sp_fail_memory(search->err);
    return SP_OK;
}

void sp_candidate_copy(const struct sp_grouping_search *search, struct sp_candidate *to,
                       const struct sp_candidate *from)
{
    if (to == from)
        return;
    to->stage_count = from->stage_count;
    to->score = from->score;
    memcpy(to->stage_of, from->stage_of, search->workload->node_count * sizeof *to->stage_of);
    memcpy(to->stage_device, from->stage_device, from->stage_count * sizeof *to->stage_device);
}

void sp_place_folded(const struct sp_workload *workload, uint32_t *of)
{
    for (uint32_t id = 0; id < workload->node_count; id++)
        if (workload->nodes[id].folded)
            of[id] = SP_NO_POSITION;
    for (uint32_t id = workload->node_count; id-- > 0;) {
        const struct sp_work_node *node = &workload->nodes[id];
        if (!node->folded)
            continue;
        for (uint32_t i = 0; i < node->output_count; i++) {
            const struct sp_work_tensor *tensor = &workload->tensors[node->outputs[i]];
            for (uint32_t j = 0; j < tensor->consumer_count; j++)
                if (of[tensor->consumers[j]] < of[id])
                    of[id] = of[tensor->consumers[j]];
        }
        /* Folded users are not among a tensor's consumers; they come later and tell their producers. */
        for (uint32_t i = 0; i < node->input_count; i++) {
            uint32_t producer = workload->tensors[node->inputs[i]].producer;
            if (producer != SP_NO_WORK && workload->nodes[producer].folded && of[id] < of[producer])
                of[producer] = of[id];
        }
    }
    for (uint32_t id = 0; id < workload->node_count; id++)
        if (of[id] == SP_NO_POSITION)
            of[id] = 0;
}

/* Drops stages without live nodes; folded nodes go to the first stage that uses their result. */
static void make_dense(const struct sp_grouping_search *search, struct sp_candidate *candidate, uint32_t *renumbered)
{
    memset(renumbered, 0, candidate->stage_count * sizeof *renumbered);
    for (uint32_t i = 0; i < search->live_count; i++)
        renumbered[candidate->stage_of[search->live[i]]] = 1;
    uint32_t used = 0;
    for (uint32_t stage = 0; stage < candidate->stage_count; stage++) {
        if (renumbered[stage] == 0)
            continue;
        candidate->stage_device[used] = candidate->stage_device[stage];
        renumbered[stage] = used++;
    }
    candidate->stage_count = used > 0 ? used : 1;
    for (uint32_t i = 0; i < search->live_count; i++)
        candidate->stage_of[search->live[i]] = renumbered[candidate->stage_of[search->live[i]]];
    sp_place_folded(search->workload, candidate->stage_of);
}

static void take_score(const struct sp_grouping_search *search, const struct sp_evaluation *evaluation,
                       struct sp_score *score, struct sp_stage_figures *figures)
{
    *score = (struct sp_score){.valid = true,
                               .worst_excess = -1,
                               .interval = evaluation->interval_seconds,
                               .latency = evaluation->latency_seconds,
                               .communication = evaluation->communication_bytes,
                               .stage_count = evaluation->stage_count,
                               .bottleneck = evaluation->bottleneck_stage};
    for (uint32_t i = 0; i < evaluation->stage_count; i++) {
        const struct sp_stage_cost *stage = &evaluation->stages[i];
        double excess = stage->total_bytes - sp_search_capacity(search, stage->device);
        double unable = sp_unable_nodes(search->workload, stage->compute_seconds);
        if (unable > 0)
            excess = (excess > 0 ? excess : 0) + unable * SP_UNABLE_BYTES;
        if (i == 0 || excess > score->worst_excess) {
            score->worst_excess = excess;
            score->worst_stage = i;
        }
        if (excess > 0)
            score->excess_bytes += excess;
        if (figures != NULL)
            figures[i] =
                (struct sp_stage_figures){excess, stage->total_bytes, stage->compute_seconds, stage->interval_seconds};
    }
}

enum sp_status sp_candidate_score(struct sp_grouping_search *search, struct sp_candidate *candidate,
                                  struct sp_stage_figures *figures)
{
    enum sp_status status = sp_search_step(search, 2 * (uint64_t)search->workload->node_count);
    if (status != SP_OK)
        return status;
    struct sp_arena_mark mark = sp_arena_mark(search->arena);
    uint32_t *renumbered = SP_NEW_ARRAY(search->arena, candidate->stage_count, uint32_t);
    struct sp_evaluation *evaluation;
    if (renumbered == NULL) {
        status = sp_fail_memory(search->err);
        goto out;
    }
    make_dense(search, candidate, renumbered);
    struct sp_placement placement = {candidate->stage_count, candidate->stage_of, candidate->stage_device};
    status = sp_evaluator_run(search->evaluator, search->arena, &placement, NULL, &evaluation, search->err);
    if (status != SP_OK)
        goto out;
    search->explored++;
    take_score(search, evaluation, &candidate->score, figures);
out:
    sp_arena_rewind(search->arena, mark);
    return status;
}

/* -1, 0, 1; differences in the last bits of a sum are none. */
static int compare(double a, double b)
{
    double larger = a > b ? a : b;
    double slack = 1e-12 * (larger < 0 ? -larger : larger);
    return a < b - slack ? -1 : a > b + slack;
}

bool sp_score_better(const struct sp_grouping_search *search, const struct sp_score *a, const struct sp_score *b)
{
    if (!a->valid || !b->valid)
        return a->valid;
    int order = compare(a->excess_bytes, b->excess_bytes);
    if (order != 0)
        return order < 0;
    int interval = compare(a->interval, b->interval), latency = compare(a->latency, b->latency);
    int stages = (a->stage_count > b->stage_count) - (a->stage_count < b->stage_count);
    int communication = compare(a->communication, b->communication);
    switch (search->objective) {
    case SP_OBJECTIVE_LATENCY:
        order = latency != 0 ? latency : stages != 0 ? stages : interval;
        break;
    case SP_OBJECTIVE_DEVICES:
        order = stages != 0 ? stages : interval != 0 ? interval : latency;
        break;
    case SP_OBJECTIVE_THROUGHPUT:
        order = interval != 0 ? interval : latency != 0 ? latency : stages;
        break;
    }
    return (order != 0 ? order : communication) < 0;
}
