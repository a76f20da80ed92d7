#include "search/joint/run/copies.h"

#include <string.h>

#include "search/constraints.h"
#include "search/joint/rechoose.h"

struct copying {
    const struct sp_joint *joint;
    const struct sp_joint_candidate *candidate;
    uint32_t *class_of; /* per stage */
    bool *taken;        /* per device */
    uint32_t *shift;    /* per class: of the copy at hand */
    uint32_t *devices;  /* per copy beside the first, per stage */
    uint32_t copies;
};

static uint32_t span_of(const struct copying *c, uint32_t stage)
{
    const struct sp_placement *placement = &c->candidate->placement;
    return sp_placement_size(placement, stage) * sp_placement_replicas(placement, stage);
}

/* The class of equal devices that has all of a stage's; false where none has. */
static bool find_class(const struct copying *c, uint32_t stage, uint32_t *ret_class)
{
    const struct sp_space *space = c->joint->space;
    const uint32_t first = c->candidate->placement.stage_device[stage];
    for (uint32_t i = 0; i < space->equal_count; i++) {
        const struct sp_space_class *class = &space->classes[i];
        if (first < class->whole_first || first >= class->whole_first + class->whole_count)
            continue;
        *ret_class = i;
        return first + span_of(c, stage) <= class->whole_first + class->whole_count;
    }
    return false;
}

/* Whether a stage may stand `shift` devices behind its own: on free devices of its class, over the same links. */
static bool may_stand(const struct copying *c, uint32_t stage, uint32_t shift)
{
    const struct sp_placement *placement = &c->candidate->placement;
    const struct sp_space_class *class = &c->joint->space->classes[c->class_of[stage]];
    const uint32_t first = placement->stage_device[stage] + shift, span = span_of(c, stage);
    const uint32_t size = sp_placement_size(placement, stage);
    if (first + span > class->whole_first + class->whole_count)
        return false;
    for (uint32_t d = first; d < first + span; d++)
        if (c->taken[d])
            return false;
    for (uint32_t block = 0; size > 1 && block < span; block += size)
        if (!sp_space_is_block(c->joint->space, c->candidate->options[stage], first + block))
            return false;
    return true;
}

/* The next shift of a class at which all its stages may stand; false behind the last. */
static bool shift_class(const struct copying *c, uint32_t class)
{
    const struct sp_placement *placement = &c->candidate->placement;
    const uint32_t most = c->joint->space->classes[class].whole_count;
    for (uint32_t shift = c->shift[class] + 1; shift < most; shift++) {
        uint32_t s = 0;
        while (s < placement->stage_count && (c->class_of[s] != class || may_stand(c, s, shift)))
            s++;
        if (s < placement->stage_count)
            continue;
        c->shift[class] = shift;
        return true;
    }
    return false;
}

static uint32_t shifted(const struct copying *c, uint32_t stage)
{
    return c->candidate->placement.stage_device[stage] + c->shift[c->class_of[stage]];
}

/* Whether all that is sent between stages goes over the same links as in the plan. */
static bool has_same_links(const struct copying *c)
{
    const struct sp_cluster *cluster = c->joint->cluster;
    const uint32_t *device = c->candidate->placement.stage_device;
    const struct sp_evaluation *evaluation = c->candidate->evaluation;
    for (uint32_t t = 0; t < evaluation->transfer_count; t++) {
        const uint32_t a = evaluation->transfers[t].from_stage, b = evaluation->transfers[t].to_stage;
        const uint32_t from = span_of(c, a) - 1, to = span_of(c, b) - 1;
        if (sp_cluster_link(cluster, device[a], device[b]) != sp_cluster_link(cluster, shifted(c, a), shifted(c, b)) ||
            sp_cluster_link(cluster, device[a] + from, device[b] + to) !=
                sp_cluster_link(cluster, shifted(c, a) + from, shifted(c, b) + to))
            return false;
    }
    return true;
}

/* Puts the next copy; false where there is no room for one. */
static bool put_copy(struct copying *c)
{
    const struct sp_placement *placement = &c->candidate->placement;
    const uint32_t stages = placement->stage_count;
    for (uint32_t class = 0; class < c->joint->space->equal_count; class ++) {
        bool is_used = false;
        for (uint32_t s = 0; s < stages; s++)
            is_used = is_used || c->class_of[s] == class;
        if (is_used && !shift_class(c, class))
            return false;
    }
    if (!has_same_links(c))
        return false;
    for (uint32_t s = 0; s < stages; s++) {
        c->devices[(size_t)(c->copies - 1) * stages + s] = shifted(c, s);
        memset(c->taken + shifted(c, s), 1, span_of(c, s) * sizeof *c->taken);
    }
    c->copies++;
    return true;
}

/* Whether a plan may have copies at all, and where its stages stand. */
static bool begin(struct copying *c)
{
    const struct sp_joint_candidate *candidate = c->candidate;
    const struct sp_constraints *constraints = c->joint->options->constraints;
    const uint32_t devices = c->joint->cluster->device_count;
    if (candidate->routed != NULL || candidate->placement.shares_devices || candidate->evaluation->members != NULL ||
        candidate->placement.copies > 1 || 2 * candidate->evaluation->device_count > devices ||
        (constraints != NULL && constraints->device_of != NULL))
        return false;
    for (uint32_t s = 0; s < candidate->placement.stage_count; s++) {
        if (!find_class(c, s, &c->class_of[s]))
            return false;
        memset(c->taken + candidate->placement.stage_device[s], 1, span_of(c, s) * sizeof *c->taken);
    }
    return true;
}

/* The candidate on all these devices. */
static enum sp_status make(struct sp_joint *joint, const struct copying *c, struct sp_joint_candidate **ret_copied,
                           struct sp_error *err)
{
    const uint32_t stages = c->candidate->placement.stage_count;
    struct sp_joint_candidate *copied = SP_NEW(joint->arena, struct sp_joint_candidate);
    struct sp_sharded_stage *sharded = SP_NEW_ARRAY(joint->arena, stages, struct sp_sharded_stage);
    if (copied == NULL || sharded == NULL)
        return sp_fail_memory(err);
    *copied = *c->candidate;
    if (copied->sharded != NULL)
        copied->sharded = memcpy(sharded, copied->sharded, stages * sizeof *sharded);
    copied->placement.copies = c->copies;
    copied->placement.copy_device = c->devices;
    enum sp_status status = sp_joint_judge(joint, copied, err);
    if (status == SP_OK)
        *ret_copied = copied;
    return status;
}

enum sp_status sp_joint_copy(struct sp_joint *joint, const struct sp_joint_candidate *candidate,
                             struct sp_joint_candidate **ret_copied, struct sp_error *err)
{
    const uint32_t stages = candidate->placement.stage_count, devices = joint->cluster->device_count;
    const uint32_t most = joint->options->max_copies;
    const struct sp_arena_mark mark = sp_arena_mark(joint->arena);
    *ret_copied = NULL;
    if (most == 1 || joint->options->any_plan || candidate->is_draft)
        return SP_OK;
    struct copying c = {.joint = joint,
                        .candidate = candidate,
                        .class_of = SP_NEW_ARRAY(joint->arena, stages, uint32_t),
                        .taken = SP_NEW_ARRAY(joint->arena, devices, bool),
                        .shift = SP_NEW_ARRAY(joint->arena, joint->space->equal_count, uint32_t),
                        .devices = SP_NEW_ARRAY(joint->arena, devices, uint32_t),
                        .copies = 1};
    if (c.class_of == NULL || c.taken == NULL || c.shift == NULL || c.devices == NULL)
        return sp_fail_memory(err);
    while ((c.copies > 1 || begin(&c)) && (most == 0 || c.copies < most) && put_copy(&c))
        ;
    if (c.copies > 1)
        return make(joint, &c, ret_copied, err);
    sp_arena_rewind(joint->arena, mark);
    return SP_OK;
}
