#include "search/joint/blocks.h"

#include <string.h>

#include "search/constraints.h"

struct allotting {
    const struct sp_joint *joint;
    struct sp_joint_candidate *candidate;
    bool *taken;          /* per device */
    uint32_t *low, *high; /* per stage: the first and last device that a node of it is pinned to; low > high: none */
};

static uint32_t span_of(const struct allotting *a, uint32_t stage)
{
    return a->candidate->placement.stage_replicas[stage] * a->candidate->options[stage]->size;
}

/* Whether `span` devices from `device` on are free; else *ret_next is one behind the last that is not. */
static bool is_free(const struct allotting *a, uint32_t device, uint32_t span, uint32_t *ret_next)
{
    for (uint32_t i = span; i-- > 0;) {
        if (!a->taken[device + i])
            continue;
        *ret_next = device + i + 1;
        return false;
    }
    return true;
}

static void take(struct allotting *a, uint32_t stage, uint32_t device)
{
    a->candidate->placement.stage_device[stage] = device;
    memset(a->taken + device, 1, span_of(a, stage) * sizeof *a->taken);
}

/* The first free place from `from` on, or UINT32_MAX. */
static uint32_t find_place(const struct allotting *a, uint32_t stage, uint32_t from)
{
    const struct sp_space *space = a->joint->space;
    const struct sp_space_option *option = a->candidate->options[stage];
    const uint32_t replicas = a->candidate->placement.stage_replicas[stage];
    for (uint32_t device = sp_space_place(space, option, replicas, from); device != UINT32_MAX;
         device = sp_space_place(space, option, replicas, from)) {
        if (is_free(a, device, span_of(a, stage), &from))
            return device;
    }
    return UINT32_MAX;
}

/* Where all devices are that the stage's nodes are pinned to. */
static bool place_pinned(struct allotting *a, uint32_t stage)
{
    const uint32_t span = span_of(a, stage), low = a->low[stage], high = a->high[stage];
    if (high - low >= span)
        return false;
    const uint32_t device = find_place(a, stage, high + 1 > span ? high + 1 - span : 0);
    if (device == UINT32_MAX || device > low)
        return false;
    take(a, stage, device);
    return true;
}

/* In the order given by `stages`: each at the first place behind what its class has given. */
static bool allot_in_order(struct allotting *a, const uint32_t *stages)
{
    const struct sp_space *space = a->joint->space;
    const uint32_t count = a->candidate->placement.stage_count;
    uint32_t next[SP_SPACE_MAX_OPTIONS];
    if (space->class_count > SP_SPACE_MAX_OPTIONS)
        return false;
    memset(a->taken, 0, a->joint->cluster->device_count * sizeof *a->taken);
    for (uint32_t c = 0; c < space->class_count; c++)
        next[c] = space->classes[c].first;
    for (uint32_t s = 0; s < count; s++) {
        if (a->low[s] <= a->high[s] && !place_pinned(a, s))
            return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t s = stages[i], class = a->candidate->options[s]->class_index;
        if (a->low[s] <= a->high[s])
            continue;
        const uint32_t device = find_place(a, s, next[class]);
        if (device == UINT32_MAX)
            return false;
        take(a, s, device);
        next[class] = device + span_of(a, s);
    }
    return true;
}

static void note_pins(struct allotting *a)
{
    const struct sp_constraints *constraints = a->joint->options->constraints;
    for (uint32_t s = 0; s < a->candidate->placement.stage_count; s++)
        a->low[s] = UINT32_MAX;
    for (uint32_t n = 0; constraints != NULL && constraints->device_of != NULL && n < a->joint->workload->node_count;
         n++) {
        const uint32_t s = a->candidate->placement.stage_of[n], device = constraints->device_of[n];
        if (device == SP_UNPINNED)
            continue;
        a->low[s] = device < a->low[s] ? device : a->low[s];
        a->high[s] = device > a->high[s] ? device : a->high[s];
    }
}

enum sp_status sp_joint_allot(const struct sp_joint *joint, struct sp_joint_candidate *candidate, bool *ret_allotted,
                              struct sp_error *err)
{
    const uint32_t count = candidate->placement.stage_count;
    struct allotting a = {.joint = joint,
                          .candidate = candidate,
                          .taken = SP_NEW_ARRAY(joint->arena, joint->cluster->device_count, bool),
                          .low = SP_NEW_ARRAY(joint->arena, count, uint32_t),
                          .high = SP_NEW_ARRAY(joint->arena, count, uint32_t)};
    uint32_t *stages = SP_NEW_ARRAY(joint->arena, count, uint32_t);
    if (stages == NULL || a.taken == NULL || a.low == NULL || a.high == NULL)
        return sp_fail_memory(err);
    note_pins(&a);
    for (uint32_t s = 0; s < count; s++)
        stages[s] = s;
    *ret_allotted = allot_in_order(&a, stages);
    if (*ret_allotted)
        return SP_OK;
    for (uint32_t i = 1; i < count; i++) { /* insertion keeps equal sizes in order */
        const uint32_t s = stages[i];
        uint32_t j = i;
        for (; j > 0 && candidate->options[stages[j - 1]]->size < candidate->options[s]->size; j--)
            stages[j] = stages[j - 1];
        stages[j] = s;
    }
    *ret_allotted = allot_in_order(&a, stages);
    return SP_OK;
}
