#include "search/grouping/internal.h"
#include "search/states.h"

/*
 * Subgraphs are coarse. So single nodes move as well, to any stage that their producers and users allow: those of the
 * slowest stage, and for a latency, or while something does not fit, all of them. Every trial is a full evaluation,
 * hence the budget.
 */

struct range {
    uint32_t low, high; /* stages that keep the placement monotone */
};

static struct range allowed(const struct sp_grouping_search *search, const struct sp_candidate *candidate, uint32_t id)
{
    const struct sp_workload *workload = search->workload;
    const struct sp_work_node *node = &workload->nodes[id];
    struct range range = {0, candidate->stage_count - 1};
    for (uint32_t i = 0; i < node->input_count; i++) {
        const struct sp_work_tensor *tensor = &workload->tensors[node->inputs[i]];
        if (tensor->kind == SP_WORK_ACTIVATION && candidate->stage_of[tensor->producer] > range.low)
            range.low = candidate->stage_of[tensor->producer];
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        const struct sp_work_tensor *tensor = &workload->tensors[node->outputs[i]];
        for (uint32_t j = 0; j < tensor->consumer_count && tensor->kind == SP_WORK_ACTIVATION; j++)
            if (candidate->stage_of[tensor->consumers[j]] < range.high)
                range.high = candidate->stage_of[tensor->consumers[j]];
    }
    return range;
}

static bool is_better(const struct sp_grouping_search *search, const struct sp_score *a, const struct sp_score *b)
{
    if (search->ceiling == 0)
        return sp_score_better(search, a, b);
    return a->excess_bytes <= 0 && a->interval <= search->ceiling && a->stage_count <= b->stage_count &&
           a->communication < b->communication;
}

/* Tries one node; the first stage that makes the placement better is taken. */
static enum sp_status move_node(struct sp_grouping_search *search, struct sp_candidate *candidate,
                                struct sp_candidate *trial, uint32_t id, bool *ret_moved)
{
    struct range range = allowed(search, candidate, id);
    uint32_t home = candidate->stage_of[id];
    for (uint32_t stage = range.low; stage <= range.high && search->evaluations_left > 0; stage++) {
        if (stage == home)
            continue;
        sp_candidate_copy(search, trial, candidate);
        trial->stage_of[id] = stage;
        search->evaluations_left--;
        enum sp_status status = sp_candidate_score(search, trial, NULL);
        if (status != SP_OK)
            return status;
        if (is_better(search, &trial->score, &candidate->score)) {
            sp_candidate_copy(search, candidate, trial);
            search->accepted++;
            *ret_moved = true;
            return SP_OK;
        }
    }
    return SP_OK;
}

enum sp_status sp_move_nodes(struct sp_grouping_search *search, struct sp_candidate *candidate)
{
    struct sp_arena_mark mark = sp_arena_mark(search->arena);
    struct sp_candidate trial;
    enum sp_status status = sp_candidate_init(search, &trial);
    bool moved = true;
    while (status == SP_OK && moved && candidate->stage_count > 1 && search->evaluations_left > 0) {
        moved = false;
        for (uint32_t i = 0; i < search->live_count && status == SP_OK; i++) {
            const struct sp_score *score = &candidate->score;
            uint32_t giver = score->excess_bytes > 0 ? score->worst_stage : score->bottleneck;
            bool any = search->objective == SP_OBJECTIVE_LATENCY || score->excess_bytes > 0 || search->ceiling > 0;
            if ((any || candidate->stage_of[search->live[i]] == giver) &&
                !sp_states_hold(search->workload, search->live[i]))
                status = move_node(search, candidate, &trial, search->live[i], &moved);
        }
    }
    sp_arena_rewind(search->arena, mark);
    return status;
}
