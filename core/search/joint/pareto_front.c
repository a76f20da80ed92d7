#include "search/joint/pareto_front.h"

#include <string.h>

#include "base/array.h"
#include "base/buf.h"
#include "cost/contract.h"

#define DESCRIPTION_BYTES 4096
#define DIFFERENT_STAGES  6 /* sizes of stages that a description lists */

/* Differences in the last bits of a sum are none. */
static int compare(double a, double b)
{
    const double larger = a > b ? a : b;
    const double slack = 1e-9 * larger;
    return a < b - slack ? -1 : a > b + slack;
}

static int compare_counts(uint32_t a, uint32_t b)
{
    return a < b ? -1 : a > b;
}

bool sp_front_better(enum sp_objective objective, const struct sp_joint_candidate *a,
                     const struct sp_joint_candidate *b)
{
    const int interval = compare(a->evaluation->interval_seconds, b->evaluation->interval_seconds);
    const int latency = compare(a->evaluation->latency_seconds, b->evaluation->latency_seconds);
    const int devices = compare_counts(a->devices_used, b->devices_used);
    const int memory = compare(a->memory_bytes, b->memory_bytes);
    int order[4] = {interval, latency, devices, memory};
    if (objective == SP_OBJECTIVE_LATENCY) {
        order[0] = latency;
        order[1] = devices;
        order[2] = interval;
    } else if (objective == SP_OBJECTIVE_DEVICES) {
        order[0] = devices;
        order[1] = interval;
        order[2] = latency;
    }
    for (size_t i = 0; i < 4; i++) {
        if (order[i] != 0)
            return order[i] < 0;
    }
    return compare(a->evaluation->communication_bytes, b->evaluation->communication_bytes) < 0;
}

/* Whether `a` is at least as good as `b` in everything. */
static bool covers(const struct sp_joint_candidate *a, const struct sp_joint_candidate *b)
{
    return compare(a->evaluation->interval_seconds, b->evaluation->interval_seconds) <= 0 &&
           compare(a->evaluation->latency_seconds, b->evaluation->latency_seconds) <= 0 &&
           compare(a->memory_bytes, b->memory_bytes) <= 0 && a->devices_used <= b->devices_used;
}

/* ---- the runner-up ---------------------------------------------------------------------------------------------- */

static uint64_t form_of(const struct sp_joint *joint, const struct sp_placement *placement, uint32_t stage)
{
    const uint64_t kind = joint->workload->kind_of[placement->stage_device[stage]];
    return kind << 48 | (uint64_t)sp_placement_size(placement, stage) << 24 | sp_placement_replicas(placement, stage);
}

/* Whether as many stages of `b` as of `a` have the form of each stage of `a`. */
static bool same_form(const struct sp_joint *joint, const struct sp_joint_candidate *one,
                      const struct sp_joint_candidate *other)
{
    const struct sp_placement *a = &one->placement, *b = &other->placement;
    if (one->routed != NULL || other->routed != NULL)
        return one->routed != NULL && other->routed != NULL;
    if (a->shares_devices || b->shares_devices)
        return a->shares_devices == b->shares_devices;
    if (a->stage_count != b->stage_count || sp_placement_copies(a) != sp_placement_copies(b))
        return false;
    for (uint32_t s = 0; s < a->stage_count; s++) {
        const uint64_t form = form_of(joint, a, s);
        int64_t surplus = 0;
        if (s > 0 && form == form_of(joint, a, s - 1))
            continue;
        for (uint32_t i = 0; i < a->stage_count; i++)
            surplus += (form_of(joint, a, i) == form) - (form_of(joint, b, i) == form);
        if (surplus != 0)
            return false;
    }
    return true;
}

bool sp_front_rank(struct sp_joint *joint, struct sp_joint_candidate *candidate)
{
    const enum sp_objective objective = joint->options->objective;
    struct sp_joint_candidate **ranked = joint->ranked;
    if (!candidate->fits || candidate == ranked[0] || candidate == ranked[1])
        return false;
    const bool leads = ranked[0] == NULL || sp_front_better(objective, candidate, ranked[0]);
    if (ranked[0] != NULL && same_form(joint, candidate, ranked[0])) {
        if (leads)
            ranked[0] = candidate;
        return leads;
    }
    if (leads) {
        ranked[1] = ranked[0];
        ranked[0] = candidate;
        return true;
    }
    if (ranked[1] != NULL && !sp_front_better(objective, candidate, ranked[1]))
        return false;
    ranked[1] = candidate;
    return true;
}

struct sp_joint_candidate *sp_front_second(const struct sp_joint *joint, const struct sp_joint_candidate *plan)
{
    for (size_t i = 0; i < 2; i++) {
        struct sp_joint_candidate *other = joint->ranked[i];
        if (other != NULL && !same_form(joint, other, plan))
            return other;
    }
    return NULL;
}

/* Of two plans that lack memory, whether the first one says more of what memory is in the way of. For fewer devices
   that is what lacks least of those that have fewer than a plan that fits, while there is one. */
static bool is_further(const struct sp_joint *joint, const struct sp_joint_candidate *a,
                       const struct sp_joint_candidate *b)
{
    const struct sp_joint_candidate *best = joint->ranked[0];
    if (joint->options->objective != SP_OBJECTIVE_DEVICES)
        return sp_front_better(joint->options->objective, a, b);
    if (best == NULL || a->devices_used >= best->devices_used || b->devices_used >= best->devices_used)
        return a->devices_used < b->devices_used;
    return a->evaluation->worst_excess_bytes < b->evaluation->worst_excess_bytes;
}

bool sp_front_note_short_of_memory(struct sp_joint *joint, const struct sp_joint_candidate *candidate)
{
    const struct sp_joint_candidate *known = joint->beyond;
    if (candidate->evaluation->worst_excess_bytes <= 0 || joint->options->constraints != NULL ||
        candidate->evaluation->members != NULL) /* other shares have other needs */
        return true;
    for (uint32_t s = 0; s < candidate->placement.stage_count; s++) {
        if (sp_unable_nodes(joint->workload, candidate->evaluation->stages[s].compute_seconds) > 0)
            return true;
    }
    if (known != NULL && !is_further(joint, candidate, known))
        return true;
    struct sp_joint_candidate *copy = SP_NEW(joint->arena, struct sp_joint_candidate);
    struct sp_sharded_stage *sharded =
        SP_NEW_ARRAY(joint->arena, candidate->placement.stage_count, struct sp_sharded_stage);
    if (copy == NULL || sharded == NULL)
        return false;
    *copy = *candidate;
    if (candidate->sharded != NULL)
        copy->sharded = memcpy(sharded, candidate->sharded, candidate->placement.stage_count * sizeof *sharded);
    joint->beyond = copy;
    return true;
}

/* ---- the front -------------------------------------------------------------------------------------------------- */

bool sp_front_add(struct sp_joint *joint, struct sp_front *front, struct sp_joint_candidate *candidate)
{
    const enum sp_objective objective = joint->options->objective;
    uint32_t kept = 0;
    (void)sp_front_rank(joint, candidate);
    for (uint32_t i = 0; i < front->count; i++) {
        if (covers(front->plans[i], candidate) && !sp_front_better(objective, candidate, front->plans[i]))
            return true;
    }
    for (uint32_t i = 0; i < front->count; i++) {
        if (!covers(candidate, front->plans[i]))
            front->plans[kept++] = front->plans[i];
    }
    front->count = kept;
    if (!SP_MAKE_ROOM(joint->arena, front->plans, front->count, front->capacity, 1))
        return false;
    uint32_t at = front->count++;
    for (; at > 0 && sp_front_better(objective, candidate, front->plans[at - 1]); at--)
        front->plans[at] = front->plans[at - 1];
    front->plans[at] = candidate;
    return true;
}

const char *sp_front_describe(struct sp_arena *arena, const struct sp_placement *placement,
                              const struct sp_routed *routed)
{
    uint32_t sizes[DIFFERENT_STAGES], replicas[DIFFERENT_STAGES], counts[DIFFERENT_STAGES], different = 0, other = 0;
    if (routed != NULL)
        return sp_arena_printf(arena, "%u routes through %u devices", routed->route_count, routed->holder_count);
    for (uint32_t s = 0; s < placement->stage_count; s++) {
        const uint32_t size = sp_placement_size(placement, s), copies = sp_placement_replicas(placement, s);
        uint32_t i = 0;
        while (i < different && (sizes[i] != size || replicas[i] != copies))
            i++;
        if (i == DIFFERENT_STAGES) {
            other++;
            continue;
        }
        if (i == different) {
            sizes[i] = size;
            replicas[i] = copies;
            counts[i] = 0;
            different++;
        }
        counts[i]++;
    }
    struct sp_buf buf;
    sp_buf_init(&buf, DESCRIPTION_BYTES);
    if (sp_placement_copies(placement) > 1)
        sp_buf_printf(&buf, "%u copies of ", placement->copies);
    if (placement->shares_devices) {
        sp_buf_printf(&buf, "%u stages on shared devices", placement->stage_count);
        different = other = 0;
    }
    for (uint32_t i = 0; i < different; i++) {
        sp_buf_printf(&buf, "%s%u ", i == 0 ? "" : ", ", counts[i]);
        sp_buf_printf(&buf, "%sof %u device%s",
                      i > 0            ? ""
                      : counts[i] == 1 ? "stage "
                                       : "stages ",
                      sizes[i], sizes[i] == 1 ? "" : "s");
        if (replicas[i] > 1)
            sp_buf_printf(&buf, ", %u times", replicas[i]);
    }
    if (other > 0)
        sp_buf_printf(&buf, ", %u others", other);
    const char *text = sp_buf_failed(&buf) ? NULL : sp_arena_string(arena, buf.data, buf.size);
    sp_buf_release(&buf);
    return text;
}
