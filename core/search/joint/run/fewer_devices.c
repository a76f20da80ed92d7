/*
 * What a search for the best plan does not look for: a plan with fewer devices that is nearly as good.
 *
 *  fewest     for the throughput, stages with the fewest devices whose loads keep the tolerance, where the work as a whole
 *             leaves room for fewer
 *  mergers    two stages that follow one another become one on the devices of one of them, again and again, as long as
 *             the plan stays near the best one
 */
#include <math.h>
#include <string.h>

#include "search/joint/rechoose.h"
#include "search/joint/run/near_best.h"
#include "search/joint/run/run.h"

#define MOST_TRIALS 64 /* plans that are evaluated: each takes as long as the model is large */

/* Stages `first` and the next one of a plan as one, with the block of one of the two. */
struct merger {
    const struct sp_joint_candidate *given;
    uint32_t first, kept; /* stages; `kept` is one of the two */
};

static bool is_split(const struct sp_joint_candidate *candidate, uint32_t stage)
{
    return candidate->sharded != NULL && candidate->sharded[stage].table != NULL;
}

/* Whether all the nodes may run as the block's nodes do, and how long and in how much memory suggests that it is worth
   an evaluation. */
static bool is_promising(const struct sp_search_run *search, const struct merger *merger,
                         const struct sp_joint_candidate *best)
{
    const struct sp_joint_candidate *given = merger->given;
    const struct sp_placement *placement = &given->placement;
    const uint32_t a = merger->first, b = a + 1;
    const struct sp_stage_cost *x = &given->evaluation->stages[a], *y = &given->evaluation->stages[b];
    const uint32_t *kind_of = search->joint.workload->kind_of;
    const bool same_kind = kind_of[x->device] == kind_of[y->device];
    if (is_split(given, a) || is_split(given, b)) {
        if (!is_split(given, a) || !is_split(given, b) || given->sharded[a].table != given->sharded[b].table)
            return false;
    } else if (sp_placement_size(placement, a) != 1 || sp_placement_size(placement, b) != 1) {
        return false;
    }
    if (x->weights_bytes + y->weights_bytes > given->evaluation->stages[merger->kept].capacity_bytes)
        return false;
    if (search->joint.options->objective == SP_OBJECTIVE_LATENCY || !same_kind)
        return true;
    return sp_near_is_within(
        &search->joint, (x->compute_seconds + y->compute_seconds) / sp_placement_turns(placement, merger->kept), best);
}

/* The nodes of both, in order, with their strategies. */
static bool merge_nodes(const struct sp_joint *joint, const struct sp_sharded_stage *a,
                        const struct sp_sharded_stage *b, struct sp_sharded_stage *ret_merged)
{
    const uint32_t count = a->node_count + b->node_count;
    uint32_t *nodes = SP_NEW_ARRAY(joint->arena, count, uint32_t);
    uint32_t *strategies = SP_NEW_ARRAY(joint->arena, count, uint32_t);
    if (nodes == NULL || strategies == NULL)
        return false;
    for (uint32_t i = 0, j = 0; i + j < count;) {
        const uint32_t at = i + j;
        const bool takes_a = j == b->node_count || (i < a->node_count && a->nodes[i] < b->nodes[j]);
        nodes[at] = takes_a ? a->nodes[i] : b->nodes[j];
        strategies[at] = takes_a ? a->strategy_of[i] : b->strategy_of[j];
        i += takes_a;
        j += !takes_a;
    }
    *ret_merged =
        (struct sp_sharded_stage){.table = a->table, .node_count = count, .nodes = nodes, .strategy_of = strategies};
    return true;
}

static enum sp_status merge(struct sp_search_run *search, const struct merger *merger,
                            struct sp_joint_candidate **ret_candidate)
{
    struct sp_joint *joint = &search->joint;
    const struct sp_joint_candidate *given = merger->given;
    const struct sp_placement *placement = &given->placement;
    const uint32_t first = merger->first;
    struct sp_joint_candidate *merged = sp_joint_candidate_create(joint, placement->stage_count - 1);
    if (merged == NULL)
        return sp_fail_memory(search->err);
    for (uint32_t n = 0; n < joint->workload->node_count; n++)
        merged->placement.stage_of[n] = placement->stage_of[n] - (placement->stage_of[n] > first);
    for (uint32_t s = 0; s < merged->placement.stage_count; s++) {
        const uint32_t of = s == first ? merger->kept : s + (s > first);
        merged->placement.stage_device[s] = placement->stage_device[of];
        merged->placement.stage_size[s] = sp_placement_size(placement, of);
        merged->placement.stage_replicas[s] = sp_placement_replicas(placement, of);
        merged->options[s] = given->options == NULL ? NULL : given->options[of];
        if (given->sharded != NULL)
            merged->sharded[s] = given->sharded[of];
    }
    if (is_split(given, first) &&
        !merge_nodes(joint, &given->sharded[first], &given->sharded[first + 1], &merged->sharded[first]))
        return sp_fail_memory(search->err);
    *ret_candidate = merged;
    return sp_joint_judge(joint, merged, search->err);
}

/* The answer where it is another plan than `given`, after all mergers of two of its stages; else NULL. */
static enum sp_status merge_any(struct sp_search_run *search, struct sp_joint_candidate *given, uint32_t *trials,
                                struct sp_joint_candidate **ret_answer)
{
    const struct sp_joint_candidate *best = search->front.plans[0];
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i + 2 < 2 * given->placement.stage_count; i++) {
        const struct merger merger = {given, i / 2, i / 2 + i % 2};
        const bool is_same =
            i % 2 == 1 && search->joint.workload->kind_of[given->placement.stage_device[i / 2]] ==
                              search->joint.workload->kind_of[given->placement.stage_device[i / 2 + 1]];
        struct sp_joint_candidate *merged = NULL;
        if (is_same || !is_promising(search, &merger, best))
            continue;
        if (*trials == MOST_TRIALS || !sp_run_goes_on(search, 0.96))
            break;
        ++*trials;
        status = merge(search, &merger, &merged);
        if (status == SP_OK && merged != NULL && merged->fits && sp_near_is_near(&search->joint, merged, best))
            status = sp_run_take(search, merged, given->strategy);
    }
    struct sp_joint_candidate *answer = sp_near_choose(&search->joint, search->front.plans[0]);
    *ret_answer = answer->devices_used < given->devices_used ? answer : NULL;
    return status;
}

/* Whether fewer devices than a plan has could do all the work in `seconds`. What unequal devices do is not counted. */
static enum sp_status has_room(const struct sp_search_run *search, const struct sp_joint_candidate *given,
                               double seconds, bool *ret_room)
{
    const struct sp_joint *joint = &search->joint;
    double least;
    enum sp_status status = sp_work_bound(joint->arena, joint->workload, joint->cluster, &least, search->err);
    if (status == SP_OK)
        *ret_room = joint->space->class_count > 1 ||
                    least * joint->cluster->device_count <= seconds * (given->devices_used - 1.0);
    return status;
}

static enum sp_status try_fewest(struct sp_search_run *search)
{
    const struct sp_joint *joint = &search->joint;
    struct sp_joint_candidate *best = search->front.plans[0];
    const double most = best->evaluation->interval_seconds * (1 + joint->options->tolerance);
    bool has = false;
    if (joint->options->objective != SP_OBJECTIVE_THROUGHPUT || joint->options->strategy == SP_STRATEGY_TENSOR ||
        best->placement.shares_devices || sp_run_has_pins(joint->options->constraints) || !sp_run_goes_on(search, 0.96))
        return SP_OK;
    enum sp_status status = has_room(search, sp_near_choose(joint, best), most, &has);
    return status == SP_OK && has ? sp_run_propose_fewest(search, best, most) : status;
}

enum sp_status sp_run_try_fewer_devices(struct sp_search_run *search)
{
    const struct sp_joint *joint = &search->joint;
    enum sp_status status = SP_OK;
    uint32_t trials = 0;
    if (joint->options->tolerance <= 0 || joint->options->objective == SP_OBJECTIVE_DEVICES || search->front.count == 0)
        return SP_OK;
    status = try_fewest(search);
    struct sp_joint_candidate *given = sp_near_choose(joint, search->front.plans[0]);
    while (status == SP_OK && given != NULL && !given->placement.shares_devices)
        status = merge_any(search, given, &trials, &given);
    return status;
}
