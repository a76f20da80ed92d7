#include "search/joint/any_sets.h"

#include <math.h>
#include <string.h>

#include "cost/pieces.h"
#include "search/grouping/internal.h"
#include "search/joint/rechoose.h"

#define SETS_WORK  ((uint64_t)300000000) /* of the first search for sets */
#define AGAIN_WORK ((uint64_t)60000000)  /* of those after it, with another link or less memory */
#define TRIAL_WORK ((uint64_t)20000000)  /* of each where any plan will do */
#define MEMORIES   6                     /* searches with less and less memory */
#define MAX_IDEALS 20000                 /* of the contiguous sets to begin with */
#define EXCHANGES  4096                  /* evaluations while devices change places, */
#define SMALL      1024                  /* of graphs of so many nodes; fewer of larger ones */
#define SPARE      1.05                  /* of what lacked: so much less memory is tried next */

struct sets {
    struct sp_joint *joint;
    uint32_t node_count;
    uint32_t *nodes, *number; /* those that run, and for each node of the workload its number among them */
    struct sp_stages_problem problem;
    struct sp_stages_option *options; /* per class of devices */
    struct sp_joint_candidate **candidates;
    uint32_t *count;
    struct sp_error *err;
};

/* ---- the problem ------------------------------------------------------------------------------------------------ */

/* The fastest or the slowest link: a transfer's seconds and how they grow. */
static struct sp_stages_level end_link(const struct sp_cluster *cluster, bool is_fastest)
{
    struct sp_stages_level link = {1, cluster->levels[0].latency, 1 / sp_level_send_bandwidth(&cluster->levels[0])};
    for (uint32_t l = 1; l < cluster->level_count; l++) {
        const double fixed = cluster->levels[l].latency, per_byte = 1 / sp_level_send_bandwidth(&cluster->levels[l]);
        link.fixed = is_fastest ? fmin(link.fixed, fixed) : fmax(link.fixed, fixed);
        link.per_byte = is_fastest ? fmin(link.per_byte, per_byte) : fmax(link.per_byte, per_byte);
    }
    return link;
}

/* Tensors that nodes send; what the solver takes for bytes are seconds, since an edge may say those. */
static bool list_tensors(struct sets *sets, const struct sp_stages_level *link)
{
    const struct sp_workload *workload = sets->joint->workload;
    struct sp_stages_tensor *tensors =
        SP_NEW_ARRAY(sets->joint->arena, workload->tensor_count, struct sp_stages_tensor);
    uint32_t count = 0;
    for (uint32_t t = 0; tensors != NULL && t < workload->tensor_count; t++) {
        const struct sp_work_tensor *tensor = &workload->tensors[t];
        if (tensor->kind != SP_WORK_ACTIVATION || tensor->producer == SP_NO_WORK || tensor->consumer_count == 0 ||
            sets->number[tensor->producer] == SP_NO_WORK)
            continue;
        uint32_t *users = SP_NEW_ARRAY(sets->joint->arena, tensor->consumer_count, uint32_t);
        if (users == NULL)
            return false;
        for (uint32_t i = 0; i < tensor->consumer_count; i++)
            users[i] = sets->number[tensor->consumers[i]];
        tensors[count++] = (struct sp_stages_tensor){
            sets->number[tensor->producer],
            tensor->has_transfer_seconds ? tensor->transfer_seconds : link->fixed + link->per_byte * tensor->bytes,
            tensor->consumer_count, users};
    }
    sets->problem.tensors = tensors;
    sets->problem.tensor_count = count;
    return tensors != NULL;
}

/* What every set with the node needs: what it keeps, and what it holds while it runs. */
static void least_memory(const struct sp_workload *workload, const struct sp_work_node *node,
                         struct sp_stages_node *least)
{
    least->color = SP_NO_STAGE_GROUP;
    least->weight_bytes = node->inner_weight_bytes + node->resident_bytes;
    least->held_bytes = node->workspace_bytes;
    for (uint32_t i = 0; i < node->input_count + node->output_count; i++) {
        const uint32_t t = i < node->input_count ? node->inputs[i] : node->outputs[i - node->input_count];
        if (workload->tensors[t].alias_of == SP_NO_WORK && workload->tensors[t].kind != SP_WORK_WEIGHT)
            least->held_bytes += workload->tensors[t].bytes;
    }
}

static bool fill_option(struct sets *sets, uint32_t index)
{
    const struct sp_joint *joint = sets->joint;
    const struct sp_space_class *class = &joint->space->classes[index];
    double *seconds = SP_NEW_ARRAY(joint->arena, sets->node_count, double);
    for (uint32_t i = 0; seconds != NULL && i < sets->node_count; i++) {
        seconds[i] = joint->workload->nodes[sets->nodes[i]].seconds[class->kind];
        if (joint->workload->unable_seconds > 0 && seconds[i] >= joint->workload->unable_seconds)
            seconds[i] = INFINITY;
    }
    sets->options[index] = (struct sp_stages_option){.device_class = index,
                                                     .devices = 1,
                                                     .max_replicas = 1,
                                                     .memory_bytes = class->capacity,
                                                     .memory_scale = 1,
                                                     .seconds = seconds,
                                                     .transfer_per_byte = 1};
    return seconds != NULL;
}

static bool make_problem(struct sets *sets)
{
    const struct sp_joint *joint = sets->joint;
    const struct sp_workload *workload = joint->workload;
    const uint32_t classes = joint->space->class_count;
    uint32_t *class_size = SP_NEW_ARRAY(joint->arena, classes, uint32_t);
    struct sp_stages_node *nodes = SP_NEW_ARRAY(joint->arena, workload->node_count, struct sp_stages_node);
    sets->nodes = SP_NEW_ARRAY(joint->arena, workload->node_count, uint32_t);
    sets->number = SP_NEW_ARRAY(joint->arena, workload->node_count, uint32_t);
    sets->options = SP_NEW_ARRAY(joint->arena, classes, struct sp_stages_option);
    if (class_size == NULL || nodes == NULL || sets->nodes == NULL || sets->number == NULL || sets->options == NULL)
        return false;
    for (uint32_t n = 0; n < workload->node_count; n++) {
        sets->number[n] = workload->nodes[n].folded ? SP_NO_WORK : sets->node_count;
        if (workload->nodes[n].folded)
            continue;
        least_memory(workload, &workload->nodes[n], &nodes[sets->node_count]);
        sets->nodes[sets->node_count++] = n;
    }
    for (uint32_t c = 0; c < classes; c++) {
        class_size[c] = joint->space->classes[c].count;
        if (!fill_option(sets, c))
            return false;
    }
    sets->problem = (struct sp_stages_problem){.node_count = sets->node_count,
                                               .option_count = classes,
                                               .class_count = classes,
                                               .nodes = nodes,
                                               .options = sets->options,
                                               .class_size = class_size,
                                               .combine = SP_STAGES_MAX,
                                               .sends_to_each = true,
                                               .non_contiguous = true};
    return true;
}

/* ---- candidates ------------------------------------------------------------------------------------------------- */

static enum sp_status judge(struct sets *sets, const uint32_t *device_of, struct sp_joint_candidate **ret_candidate)
{
    struct sp_joint *joint = sets->joint;
    struct sp_joint_candidate *candidate = SP_NEW(joint->arena, struct sp_joint_candidate);
    const struct sp_placement *placement = sp_pieces_cut(joint->arena, joint->workload, joint->cluster, device_of);
    if (candidate == NULL || placement == NULL)
        return sp_fail_memory(sets->err);
    candidate->placement = *placement;
    sp_place_folded(joint->workload, candidate->placement.stage_of);
    *ret_candidate = candidate;
    return sp_joint_judge(joint, candidate, sets->err);
}

static bool is_better(const struct sp_joint_candidate *a, const struct sp_joint_candidate *b)
{
    if (a->fits != b->fits)
        return a->fits;
    return a->evaluation->interval_seconds < b->evaluation->interval_seconds * (1 - 1e-9);
}

static void exchange(const struct sets *sets, uint32_t *device_of, uint32_t a, uint32_t b)
{
    for (uint32_t n = 0; n < sets->joint->workload->node_count; n++)
        device_of[n] = device_of[n] == a ? b : device_of[n] == b ? a : device_of[n];
}

/* Two devices change places, if that is better. */
static enum sp_status try_exchange(struct sets *sets, uint32_t *device_of, uint32_t a, uint32_t b,
                                   struct sp_joint_candidate **candidate)
{
    const struct sp_arena_mark mark = sp_arena_mark(sets->joint->arena);
    struct sp_joint_candidate *other = NULL;
    exchange(sets, device_of, a, b);
    enum sp_status status = judge(sets, device_of, &other);
    if (status != SP_OK || other == NULL)
        return status;
    if (is_better(other, *candidate)) {
        *candidate = other;
        return SP_OK;
    }
    sp_arena_rewind(sets->joint->arena, mark);
    exchange(sets, device_of, a, b);
    return SP_OK;
}

/* Equal devices change places, while the links between them differ and that helps. */
static enum sp_status exchange_devices(struct sets *sets, uint32_t *device_of, struct sp_joint_candidate **candidate)
{
    const struct sp_space *space = sets->joint->space;
    const struct sp_joint_candidate *before = NULL;
    const uint32_t nodes = sets->joint->workload->node_count,
                   most = nodes < SMALL ? EXCHANGES : EXCHANGES * SMALL / nodes;
    enum sp_status status = SP_OK;
    uint32_t tries = 0;
    while (sets->joint->cluster->level_count > 1 && before != *candidate && status == SP_OK) {
        before = *candidate;
        for (uint32_t c = 0; c < space->class_count; c++) {
            const uint32_t end = space->classes[c].first + space->classes[c].count;
            for (uint32_t a = space->classes[c].first; a < end; a++) {
                for (uint32_t b = a + 1; b < end && status == SP_OK && tries < most; b++, tries++)
                    status = try_exchange(sets, device_of, a, b, candidate);
            }
        }
    }
    return status;
}

/* The sets on devices: those of a class go to its devices in turn. */
static enum sp_status take_sets(struct sets *sets, const struct sp_stages_result *result)
{
    struct sp_joint *joint = sets->joint;
    uint32_t *device_of = SP_NEW_ARRAY(joint->arena, joint->workload->node_count, uint32_t);
    uint32_t *used = SP_NEW_ARRAY(joint->arena, joint->space->class_count, uint32_t);
    if (device_of == NULL || used == NULL)
        return sp_fail_memory(sets->err);
    for (uint32_t s = 0; s < result->stage_count; s++) {
        const uint32_t class = result->stages[s].option, device = joint->space->classes[class].first + used[class]++;
        for (uint32_t i = 0; i < result->stages[s].node_count; i++)
            device_of[sets->nodes[result->stages[s].nodes[i]]] = device;
    }
    struct sp_joint_candidate *candidate = NULL;
    enum sp_status status = judge(sets, device_of, &candidate);
    if (status == SP_OK)
        status = exchange_devices(sets, device_of, &candidate);
    if (status == SP_OK)
        sets->candidates[(*sets->count)++] = candidate;
    return status;
}

/* Leaves room for what the solver does not know of; false where there is none. */
static bool take_off_memory(struct sets *sets, const struct sp_joint_candidate *candidate)
{
    bool has_room = false;
    for (uint32_t c = 0; c < sets->problem.class_count; c++) {
        const struct sp_space_class *class = &sets->joint->space->classes[c];
        double excess = 0;
        for (uint32_t s = 0; s < candidate->evaluation->stage_count; s++) {
            const struct sp_stage_cost *cost = &candidate->evaluation->stages[s];
            if (cost->device >= class->first && cost->device < class->first + class->count)
                excess = fmax(excess, cost->total_bytes - cost->capacity_bytes);
        }
        if (excess > 0)
            sets->options[c].memory_bytes -= SPARE * excess;
        has_room = has_room || sets->options[c].memory_bytes > 0;
        sets->options[c].memory_bytes = fmax(sets->options[c].memory_bytes, 0);
    }
    return has_room;
}

/* With a link; *ret_bound is that of the first search, which has all memory. */
static enum sp_status search_sets(struct sets *sets, bool is_fastest, double *ret_bound)
{
    struct sp_joint *joint = sets->joint;
    const struct sp_stages_level link = end_link(joint->cluster, is_fastest);
    struct sp_stages_options options = {.seed = joint->options->seed,
                                        .work_limit = is_fastest ? SETS_WORK : AGAIN_WORK,
                                        .max_ideals = MAX_IDEALS,
                                        .skips_minimum_memory = true,
                                        .executor = joint->options->executor,
                                        .watch = joint->options->watch,
                                        .stop = sp_watch_stop(joint->options->watch)};
    enum sp_status status = list_tensors(sets, &link) ? SP_OK : sp_fail_memory(sets->err);
    for (uint32_t round = 0; status == SP_OK && round < MEMORIES && !joint->stopped; round++) {
        struct sp_stages_result *result;
        if (joint->options->any_plan)
            options.work_limit = TRIAL_WORK;
        else if (round > 0)
            options.work_limit = AGAIN_WORK;
        status = sp_stages_solve(joint->arena, &sets->problem, &options, &result, sets->err);
        if (status != SP_OK)
            return status;
        joint->stopped = joint->stopped || result->is_stopped;
        if (round == 0)
            *ret_bound = result->bound;
        if (!result->is_feasible)
            return SP_OK;
        status = take_sets(sets, result);
        if (status != SP_OK)
            return status;
        const struct sp_joint_candidate *made = sets->candidates[*sets->count - 1];
        if (made == NULL || made->fits || !take_off_memory(sets, made))
            return SP_OK;
    }
    return status;
}

enum sp_status sp_joint_propose_any(struct sp_joint *joint, struct sp_joint_candidate **ret_candidates,
                                    uint32_t *ret_count, double *ret_bound, struct sp_error *err)
{
    struct sets sets = {.joint = joint, .candidates = ret_candidates, .count = ret_count, .err = err};
    double ignored;
    *ret_count = 0;
    *ret_bound = 0;
    if (!make_problem(&sets))
        return sp_fail_memory(err);
    enum sp_status status = search_sets(&sets, true, ret_bound);
    if (status != SP_OK || joint->cluster->level_count < 2)
        return status;
    for (uint32_t c = 0; c < sets.problem.class_count; c++)
        sets.options[c].memory_bytes = joint->space->classes[c].capacity;
    return search_sets(&sets, false, &ignored);
}
