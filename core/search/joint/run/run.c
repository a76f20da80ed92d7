#include "search/joint/run/run.h"

#include <math.h>

#include "search/joint/run/copies.h"
#include "search/joint/run/near_best.h"
#include "search/joint/violations.h"
#include "search/states.h"

bool sp_run_is_enough(const struct sp_search_run *search)
{
    return search->joint.options->any_plan && search->front.count > 0;
}

static bool is_in_time(struct sp_search_run *search)
{
    if (!search->joint.stopped && !sp_watch_tick(search->joint.options->watch, "search", 0, 0, 0))
        search->joint.stopped = true;
    return !search->joint.stopped;
}

bool sp_run_goes_on(struct sp_search_run *search, double fraction)
{
    search->fraction = fmax(search->fraction, fraction);
    return is_in_time(search) && !sp_run_is_enough(search);
}

bool sp_run_has_pins(const struct sp_constraints *constraints)
{
    return constraints != NULL && (constraints->stage_of != NULL || constraints->device_of != NULL);
}

uint32_t sp_run_stage_limit(const struct sp_search_run *search, uint32_t max_stages)
{
    const struct sp_constraints *constraints = search->joint.options->constraints;
    const uint32_t limits[] = {constraints == NULL ? 0 : constraints->max_stages, search->most_stages, max_stages};
    uint32_t most = 0;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        most = most == 0 || (limits[i] != 0 && limits[i] < most) ? limits[i] : most;
    return most;
}

bool sp_run_is_often_whole(const struct sp_search_run *search)
{
    return (search->joint.options->objective == SP_OBJECTIVE_LATENCY && search->joint.workload->micro_batches < 2) ||
           search->joint.options->strategy == SP_STRATEGY_TENSOR || sp_run_stage_limit(search, 0) == 1;
}

void sp_run_note_whole(struct sp_search_run *search, struct sp_joint_candidate *candidate)
{
    const struct sp_joint_candidate *known = search->whole;
    const struct sp_placement *placement = &candidate->placement;
    for (uint32_t s = 0; s < placement->stage_count; s++) {
        if (candidate->routed != NULL || sp_placement_copies(placement) > 1 ||
            sp_placement_size(placement, s) * sp_placement_replicas(placement, s) != 1)
            return;
    }
    if (known == NULL || (candidate->fits && !known->fits) ||
        (candidate->fits
             ? sp_front_better(search->joint.options->objective, candidate, known)
             : !known->fits && candidate->evaluation->worst_excess_bytes < known->evaluation->worst_excess_bytes))
        search->whole = candidate;
}

enum sp_status sp_run_go_on_after(struct sp_search_run *search, enum sp_status status)
{
    if (status == SP_OK || status == SP_ERR_MEMORY || status == SP_ERR_CANCELLED || status == SP_ERR_REQUEST)
        return status;
    if (search->failure.status == SP_OK && search->err != NULL)
        search->failure = *search->err;
    if (search->failure.status == SP_OK)
        search->failure.status = status;
    sp_error_clear(search->err);
    return SP_OK;
}

enum sp_status sp_run_take(struct sp_search_run *search, struct sp_joint_candidate *candidate,
                           enum sp_search_strategy strategy)
{
    if (search->front.count > 0 && !is_in_time(search))
        return SP_OK;
    return sp_run_take_late(search, candidate, strategy);
}

/* Whether a candidate keeps the constraints; else remembers which one it breaks: of those that are only too slow the
   least one, as long as nothing else is in the way. */
static enum sp_status keep_constraints(struct sp_search_run *search, const struct sp_joint_candidate *candidate,
                                       bool *ret_keeps)
{
    const struct sp_joint *joint = &search->joint;
    const struct sp_constraints *constraints = joint->options->constraints;
    const double latency = candidate->evaluation->latency_seconds;
    struct sp_error violation = {0};
    *ret_keeps = true;
    if (constraints == NULL)
        return SP_OK;
    enum sp_status status = sp_constraints_violation(joint->arena, constraints, joint->workload, joint->cluster,
                                                     &candidate->placement, candidate->sharded, &violation);
    if (status == SP_ERR_MEMORY)
        return sp_fail_memory(search->err);
    *ret_keeps =
        status == SP_OK && (!candidate->fits || sp_constraints_latency(constraints, latency, &violation) == SP_OK);
    if (*ret_keeps || (status == SP_OK && search->least_latency > 0 && search->least_latency <= latency))
        return SP_OK;
    if (status != SP_OK && search->least_latency > 0)
        return SP_OK;
    search->least_latency = status == SP_OK ? latency : 0;
    search->violation = violation;
    return SP_OK;
}

static enum sp_status take_one(struct sp_search_run *search, struct sp_joint_candidate *candidate,
                               enum sp_search_strategy strategy)
{
    const struct sp_joint *joint = &search->joint;
    bool keeps;
    candidate->strategy = strategy;
    enum sp_status status = keep_constraints(search, candidate, &keeps);
    if (status != SP_OK || !keeps)
        return status;
    if (!sp_states_are_kept(joint->workload, &candidate->placement, candidate->sharded))
        return SP_OK;
    sp_run_note_whole(search, candidate);
    if (candidate->fits) {
        bool keep;
        status = sp_joint_tell(joint, candidate, &keep, search->err);
        if (status != SP_OK)
            return status;
        if (!sp_front_add(&search->joint, &search->front, candidate))
            return sp_fail_memory(search->err);
        (void)sp_near_add(&search->joint, candidate);
        const struct sp_evaluation *best = search->front.plans[0]->evaluation;
        search->best_seconds =
            joint->options->objective == SP_OBJECTIVE_LATENCY ? best->latency_seconds : best->interval_seconds;
        return SP_OK;
    }
    if (search->closest == NULL ||
        candidate->evaluation->worst_excess_bytes < search->closest->evaluation->worst_excess_bytes)
        search->closest = candidate;
    return sp_front_note_short_of_memory(&search->joint, candidate) ? SP_OK : sp_fail_memory(search->err);
}

enum sp_status sp_run_take_late(struct sp_search_run *search, struct sp_joint_candidate *candidate,
                                enum sp_search_strategy strategy)
{
    struct sp_joint_candidate *copied = NULL;
    enum sp_status status = take_one(search, candidate, strategy);
    if (status == SP_OK && candidate->fits)
        status = sp_joint_copy(&search->joint, candidate, &copied, search->err);
    return status == SP_OK && copied != NULL ? take_one(search, copied, strategy) : status;
}
