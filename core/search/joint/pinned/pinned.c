#include "search/joint/pinned/pinned.h"

#include <math.h>
#include <stdlib.h>

#include "base/sorted.h"
#include "base/union_find.h"
#include "search/constraints.h"
#include "search/grouping/internal.h"
#include "search/joint/blocks.h"
#include "search/joint/rechoose.h"
#include "search/states.h"

#define BISECTIONS 50
#define NO_STAGE   UINT32_MAX

/* ---- what is possible under an option ---------------------------------------------------------------------------- */

enum sp_status sp_joint_able_seconds(const struct sp_joint *joint, const struct sp_model_choice *profile,
                                     const double **ret_seconds, struct sp_error *err)
{
    const struct sp_constraints *constraints = joint->options->constraints;
    const struct sp_space_class *class = &joint->space->classes[profile->option->class_index];
    const uint32_t *device_of = constraints == NULL ? NULL : constraints->device_of;
    *ret_seconds = profile->seconds;
    if (profile->unable == NULL && device_of == NULL)
        return SP_OK;
    double *seconds = SP_NEW_ARRAY(joint->arena, joint->workload->node_count, double);
    if (seconds == NULL)
        return sp_fail_memory(err);
    for (uint32_t n = 0; n < joint->workload->node_count; n++) {
        const bool elsewhere = device_of != NULL && device_of[n] != SP_UNPINNED &&
                               (device_of[n] < class->first || device_of[n] >= class->first + class->count);
        seconds[n] = elsewhere || (profile->unable != NULL && profile->unable[n]) ? INFINITY : profile->seconds[n];
    }
    *ret_seconds = seconds;
    return SP_OK;
}

/* ---- together ---------------------------------------------------------------------------------------------------- */

/* Joins the units of nodes with equal numbers below `numbers`. */
static bool join_units(const struct sp_joint *joint, const uint32_t *number_of, uint32_t numbers, uint32_t *joined)
{
    uint32_t *first = SP_NEW_ARRAY(joint->arena, (size_t)numbers + 1, uint32_t); /* unit + 1 */
    if (first == NULL)
        return false;
    for (uint32_t n = 0; n < joint->workload->node_count; n++) {
        const uint32_t unit = joint->units->of[n];
        if (number_of[n] == SP_UNPINNED || unit == SP_NO_WORK)
            continue;
        if (first[number_of[n]] == 0)
            first[number_of[n]] = unit + 1;
        sp_union_join(joined, first[number_of[n]] - 1, unit);
    }
    return true;
}

/* Joins the units of what is one kernel: no stage ends inside it, which would cost a start and bytes. Nodes that are
   moved later, and pins, may still cut it. */
static void join_kernels(const struct sp_joint *joint, uint32_t *joined)
{
    const struct sp_workload *workload = joint->workload;
    for (uint32_t t = 0; workload->kernels != NULL && t < workload->tensor_count; t++) {
        const struct sp_work_tensor *tensor = &workload->tensors[t];
        for (uint32_t i = 0; i < tensor->consumer_count; i++)
            if (sp_units_join(workload, t, tensor->consumers[i]))
                sp_union_join(joined, joint->units->of[tensor->producer], joint->units->of[tensor->consumers[i]]);
    }
}

bool sp_joint_color_units(const struct sp_joint *joint, struct sp_stages_node *nodes)
{
    static const struct sp_constraints none = {0};
    const struct sp_constraints *constraints =
        joint->options->constraints != NULL ? joint->options->constraints : &none;
    const uint32_t devices = joint->cluster->device_count, count = joint->units->count;
    uint32_t *joined = sp_union_find(joint->arena, count), *size = SP_NEW_ARRAY(joint->arena, count, uint32_t);
    if (joined == NULL || size == NULL)
        return false;
    if (constraints->together_of != NULL &&
        !join_units(joint, constraints->together_of, constraints->together_count, joined))
        return false;
    /* A device is in one stage, and a number of a stage is one stage. */
    if (constraints->device_of != NULL && !join_units(joint, constraints->device_of, devices, joined))
        return false;
    if (constraints->stage_of != NULL && !join_units(joint, constraints->stage_of, devices, joined))
        return false;
    if (constraints->device_of == NULL && constraints->stage_of == NULL)
        join_kernels(joint, joined);
    sp_states_join(joint->workload, joint->units->of, joined);
    for (uint32_t u = 0; u < count; u++)
        size[sp_union_root(joined, u)]++;
    for (uint32_t u = 0; u < count; u++) {
        if (size[sp_union_root(joined, u)] > 1)
            nodes[u].color = sp_union_root(joined, u);
    }
    return true;
}

/* ---- the line ---------------------------------------------------------------------------------------------------- */

struct place {
    uint32_t node, earliest, latest; /* stages that pins of others and its own leave it */
};

struct cutting {
    struct sp_joint *joint;
    const struct sp_model_choice *profile;
    const double *seconds;
    double capacity;
    struct sp_stage_parts *parts; /* positions of the line */
    struct sp_stage_set *set;     /* empty between looks */
    uint32_t length;
    struct place *line;
    bool *is_joined;             /* per position: not cut before it */
    uint32_t *end_most;          /* per stage: where it ends at the latest */
    uint32_t *ends, *best, *try; /* per stage */
};

SP_ASCENDING(by_pins, struct place, earliest, latest, node)

static bool is_edge(const struct sp_workload *workload, const struct sp_work_tensor *tensor)
{
    return tensor->kind == SP_WORK_ACTIVATION && tensor->producer != SP_NO_WORK &&
           !workload->nodes[tensor->producer].folded;
}

bool sp_joint_pin_bounds(const struct sp_joint *joint, uint32_t **ret_earliest, uint32_t **ret_latest)
{
    const struct sp_workload *workload = joint->workload;
    const uint32_t *pin = joint->options->constraints->stage_of;
    uint32_t *earliest = SP_NEW_ARRAY(joint->arena, workload->node_count, uint32_t);
    uint32_t *latest = SP_NEW_ARRAY(joint->arena, workload->node_count, uint32_t);
    if (earliest == NULL || latest == NULL)
        return false;
    for (uint32_t n = 0; n < workload->node_count; n++) {
        const struct sp_work_node *node = &workload->nodes[n];
        latest[n] = pin == NULL ? NO_STAGE : pin[n];
        earliest[n] = pin == NULL || pin[n] == SP_UNPINNED ? 0 : pin[n];
        for (uint32_t i = 0; i < node->input_count; i++) {
            const struct sp_work_tensor *tensor = &workload->tensors[node->inputs[i]];
            if (is_edge(workload, tensor) && earliest[tensor->producer] > earliest[n])
                earliest[n] = earliest[tensor->producer];
        }
    }
    for (uint32_t n = workload->node_count; n-- > 0;) {
        const struct sp_work_node *node = &workload->nodes[n];
        for (uint32_t i = 0; !node->folded && i < node->input_count; i++) {
            const struct sp_work_tensor *tensor = &workload->tensors[node->inputs[i]];
            if (is_edge(workload, tensor) && latest[tensor->producer] > latest[n])
                latest[tensor->producer] = latest[n];
        }
    }
    *ret_earliest = earliest;
    *ret_latest = latest;
    return true;
}

static bool make_line(struct cutting *c)
{
    const struct sp_workload *workload = c->joint->workload;
    uint32_t *earliest, *latest;
    c->line = SP_NEW_ARRAY(c->joint->arena, workload->node_count, struct place);
    if (c->line == NULL || !sp_joint_pin_bounds(c->joint, &earliest, &latest))
        return false;
    for (uint32_t n = 0; n < workload->node_count; n++) {
        if (!workload->nodes[n].folded)
            c->line[c->length++] = (struct place){n, earliest[n], latest[n]};
    }
    if (c->length > 1)
        qsort(c->line, c->length, sizeof *c->line, by_pins);
    for (uint32_t p = c->length; p-- > 1;) {
        if (c->line[p - 1].latest > c->line[p].latest)
            c->line[p - 1].latest = c->line[p].latest;
    }
    return true;
}

/* Positions between the first and last node of one number are not cut. */
static bool join_positions(struct cutting *c, const uint32_t *number_of, uint32_t numbers)
{
    uint32_t *last = SP_NEW_ARRAY(c->joint->arena, (size_t)numbers + 1, uint32_t), until = 0;
    if (last == NULL)
        return false;
    for (uint32_t p = 0; p < c->length; p++) {
        if (number_of[c->line[p].node] != SP_UNPINNED)
            last[number_of[c->line[p].node]] = p;
    }
    for (uint32_t p = 0; p < c->length; p++) {
        const uint32_t number = number_of[c->line[p].node];
        c->is_joined[p] = c->is_joined[p] || (p > 0 && p <= until);
        if (number != SP_UNPINNED && last[number] > until)
            until = last[number];
    }
    return true;
}

static bool prepare(struct cutting *c)
{
    const struct sp_constraints *constraints = c->joint->options->constraints;
    const uint32_t devices = c->joint->cluster->device_count;
    struct sp_arena *arena = c->joint->arena;
    if (!make_line(c))
        return false;
    c->is_joined = SP_NEW_ARRAY(arena, (size_t)c->length + 1, bool);
    c->end_most = SP_NEW_ARRAY(arena, (size_t)devices + 1, uint32_t);
    c->ends = SP_NEW_ARRAY(arena, (size_t)devices + 1, uint32_t);
    c->best = SP_NEW_ARRAY(arena, (size_t)devices + 1, uint32_t);
    c->try = SP_NEW_ARRAY(arena, (size_t)devices + 1, uint32_t);
    if (c->is_joined == NULL || c->end_most == NULL || c->ends == NULL || c->best == NULL || c->try == NULL)
        return false;
    if (constraints->together_of != NULL && !join_positions(c, constraints->together_of, constraints->together_count))
        return false;
    return constraints->device_of == NULL || join_positions(c, constraints->device_of, devices);
}

/* ---- cuts -------------------------------------------------------------------------------------------------------- */

/* Where each of `stages` stages ends at the latest: before nodes of later stages, and with a node left for each of
   those behind it. False where there is no room for that. */
static bool find_limits(struct cutting *c, uint32_t stages)
{
    uint32_t position = c->length;
    for (uint32_t s = stages; s-- > 0;) {
        c->end_most[s] = s + 1 == stages ? c->length : c->end_most[s + 1] - 1;
        while (position > 0 && c->line[position - 1].earliest > s)
            position--;
        if (position < c->end_most[s])
            c->end_most[s] = position;
        while (c->end_most[s] > 0 && c->end_most[s] < c->length && c->is_joined[c->end_most[s]])
            c->end_most[s]--;
        if (c->end_most[s] <= s)
            return false;
    }
    return c->end_most[stages - 1] == c->length;
}

/* The longest stage from `begin` on within `most` seconds: where it ends, at a place that may be cut. */
static uint32_t longest_stage(const struct cutting *c, uint32_t stage, uint32_t begin, double most)
{
    const uint32_t *device_of = c->joint->options->constraints->device_of;
    double seconds = 0, weights = 0, held = 0;
    uint32_t end = begin, put = begin, low = UINT32_MAX, high = 0;
    for (uint32_t p = begin; p < c->end_most[stage]; p++) {
        const uint32_t n = c->line[p].node;
        const uint32_t device = device_of == NULL ? SP_UNPINNED : device_of[n];
        seconds += c->seconds[n];
        double own_weights, own_held;
        sp_stage_part_minimum(c->parts, 0, p, &own_weights, &own_held);
        weights += own_weights;
        held = fmax(held, own_held);
        sp_stage_set_put(c->set, p);
        put = p + 1;
        if (device != SP_UNPINNED) {
            low = device < low ? device : low;
            high = device > high ? device : high;
        }
        if (seconds > most || weights + held > c->capacity || c->line[p].latest < stage ||
            (low <= high && high - low >= c->profile->option->size))
            break;
        if ((p + 1 == c->length || !c->is_joined[p + 1]) && sp_stage_set_bytes(c->set, 0) <= c->capacity)
            end = p + 1;
    }
    while (put > begin)
        sp_stage_set_take(c->set, --put);
    return end;
}

/* The memory of any stage. */
static bool prepare_memory(struct cutting *c, const struct sp_proposal *proposal)
{
    const uint32_t nodes = c->joint->workload->node_count;
    uint32_t *part_of = SP_NEW_ARRAY(c->joint->arena, nodes, uint32_t);
    for (uint32_t n = 0; part_of != NULL && n < nodes; n++)
        part_of[n] = SP_NO_WORK;
    for (uint32_t p = 0; part_of != NULL && p < c->length; p++)
        part_of[c->line[p].node] = p;
    c->parts = part_of == NULL ? NULL : sp_joint_parts(c->joint, proposal, c->length, part_of);
    c->set = c->parts == NULL ? NULL : sp_stage_set_create(c->joint->arena, c->parts);
    return c->set != NULL;
}

static bool cut(struct cutting *c, uint32_t stages, double most)
{
    uint32_t begin = 0;
    for (uint32_t s = 0; s < stages; s++) {
        const uint32_t end = longest_stage(c, s, begin, most);
        if (end == begin)
            return false;
        begin = c->try[s] = end;
    }
    return begin == c->length;
}

/* The least time of the slowest of `stages` stages, with their ends in `ends`; INFINITY: there is no such cut. */
static double cut_best(struct cutting *c, uint32_t stages, double total)
{
    double low = 0, high = total;
    if (!find_limits(c, stages) || !cut(c, stages, high))
        return INFINITY;
    for (uint32_t s = 0; s < stages; s++)
        c->ends[s] = c->try[s];
    for (uint32_t i = 0; i < BISECTIONS && low < high; i++) {
        const double middle = low + (high - low) / 2;
        if (!cut(c, stages, middle)) {
            low = middle;
            continue;
        }
        high = middle;
        for (uint32_t s = 0; s < stages; s++)
            c->ends[s] = c->try[s];
    }
    return high;
}

/* ---- the candidate ----------------------------------------------------------------------------------------------- */

static enum sp_status make_candidate(struct cutting *c, const struct sp_proposal *proposal, uint32_t stages,
                                     struct sp_joint_candidate **ret_candidate, struct sp_error *err)
{
    struct sp_joint *joint = c->joint;
    struct sp_joint_candidate *candidate = sp_joint_candidate_create(joint, stages);
    uint32_t *profile_of = SP_NEW_ARRAY(joint->arena, stages, uint32_t);
    bool allotted = false;
    if (candidate == NULL || profile_of == NULL)
        return sp_fail_memory(err);
    for (uint32_t s = 0, p = 0; s < stages; s++) {
        candidate->options[s] = c->profile->option;
        candidate->placement.stage_size[s] = c->profile->option->size;
        candidate->placement.stage_replicas[s] = 1;
        for (; p < c->best[s]; p++)
            candidate->placement.stage_of[c->line[p].node] = s;
    }
    sp_place_folded(joint->workload, candidate->placement.stage_of);
    enum sp_status status = sp_joint_allot(joint, candidate, &allotted, err);
    if (status == SP_OK && allotted)
        status = sp_joint_rechoose(joint, candidate, proposal->profiles, profile_of, err);
    if (status == SP_OK && allotted)
        *ret_candidate = candidate;
    return status;
}

enum sp_status sp_joint_propose_pinned(struct sp_joint *joint, const struct sp_proposal *proposal,
                                       struct sp_joint_candidate **ret_candidate, struct sp_error *err)
{
    const struct sp_space_option *option = proposal->profiles[0]->option;
    const struct sp_space_class *class = &joint->space->classes[option->class_index];
    struct cutting c = {
        .joint = joint, .profile = proposal->profiles[0], .capacity = sp_space_capacity(joint->space, option)};
    uint32_t most = class->count / option->size, chosen = 0;
    double total = 0, least = INFINITY;
    *ret_candidate = NULL;
    enum sp_status status = sp_joint_able_seconds(joint, c.profile, &c.seconds, err);
    if (status == SP_OK && (!prepare(&c) || !prepare_memory(&c, proposal)))
        status = sp_fail_memory(err);
    if (status != SP_OK || c.length == 0)
        return status;
    for (uint32_t p = 0; p < c.length; p++)
        total += c.seconds[c.line[p].node];
    if (!isfinite(total))
        return SP_OK;
    total *= 1 + 1e-9; /* sums in another order */
    if (proposal->max_stages != 0 && proposal->max_stages < most)
        most = proposal->max_stages;
    for (uint32_t stages = 1; stages <= most; stages++) {
        const double value = cut_best(&c, stages, total);
        /* More stages must be worth it: they cost latency and devices. */
        if (!(value < least * (1 - SP_SEARCH_TOLERANCE) || (chosen == 0 && isfinite(value))))
            continue;
        least = value;
        chosen = stages;
        for (uint32_t s = 0; s < stages; s++)
            c.best[s] = c.ends[s];
    }
    return chosen == 0 ? SP_OK : make_candidate(&c, proposal, chosen, ret_candidate, err);
}
