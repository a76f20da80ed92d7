/* The units as a stages problem, and its stages as a placement. */
#include <math.h>
#include <string.h>

#include "cost/streaming.h"
#include "search/grouping/internal.h"
#include "search/joint/blocks.h"
#include "search/joint/pareto_front.h"
#include "search/joint/pinned/pinned.h"
#include "search/joint/rechoose.h"
#include "search/joint/shared/stage_memory.h"

#define MAX_IDEALS   20000                /* graphs with more are cut along a line */
#define STAGES_WORK  ((uint64_t)60000000) /* of one search for stages: several are made for one plan */
#define DEVICES_WORK ((uint64_t)30000000) /* the same for stages of single devices over equal links */
#define FEWEST_WORK  ((uint64_t)20000000) /* the same for fewer devices that are nearly as good */
#define LATENCY_WORK ((uint64_t)40000000) /* the same for a latency, of which seldom anything is proved */

/* ---- the problem ------------------------------------------------------------------------------------------------ */

/* Per unit the sum over its nodes. */
static double *sum_up(const struct sp_joint *joint, const double *figures)
{
    const struct sp_units *units = joint->units;
    double *of_units = SP_NEW_ARRAY(joint->arena, units->count, double);
    for (uint32_t i = 0; of_units != NULL && i < units->live_count; i++)
        of_units[units->of[units->order[i]]] += figures[units->order[i]];
    return of_units;
}

/* The link between neighbouring blocks of the option: between the first two, or beyond the class. */
static const struct sp_mesh_level *outer_link(const struct sp_joint *joint, const struct sp_space_option *option)
{
    const struct sp_space_class *class = &joint->space->classes[option->class_index];
    const uint32_t next = class->first + option->size;
    if (option->size < class->count)
        return sp_cluster_link(joint->cluster, class->first, next);
    return &joint->cluster->levels[0];
}

/* What each set of units with a unit needs at least under the option. */
static bool fill_least(const struct sp_joint *joint, const struct sp_stage_parts *parts, uint32_t index,
                       struct sp_stages_option *option)
{
    double *weights = SP_NEW_ARRAY(joint->arena, joint->units->count, double);
    double *held = SP_NEW_ARRAY(joint->arena, joint->units->count, double);
    if (weights == NULL || held == NULL)
        return false;
    for (uint32_t u = 0; u < joint->units->count; u++)
        sp_stage_part_minimum(parts, index, u, &weights[u], &held[u]);
    option->weight_bytes = weights;
    option->held_bytes = held;
    return true;
}

/* How fast a block's devices may have weights copied from their hosts, and how many, wherever the block stands. */
static enum sp_status fill_copies(const struct sp_joint *joint, const struct sp_space_option *option,
                                  struct sp_stages_option *stages, struct sp_error *err)
{
    const struct sp_cluster *cluster = joint->cluster;
    const struct sp_space_class *class = &joint->space->classes[option->class_index];
    double rate = INFINITY, most = INFINITY;
    if (cluster->host_of == NULL || option->mesh.member_count > 0)
        return SP_OK;
    uint32_t *count = SP_NEW_ARRAY(joint->arena, cluster->host_count, uint32_t);
    uint32_t *beside = SP_NEW_ARRAY(joint->arena, cluster->host_count, uint32_t);
    if (count == NULL || beside == NULL)
        return sp_fail_memory(err);
    for (uint32_t d = 0; d < cluster->device_count; d++)
        if (sp_cluster_host(cluster, d) != NULL)
            beside[cluster->host_of[d]]++;
    for (uint32_t d = class->first; d + option->size <= class->first + class->count; d += option->size) {
        rate = fmin(rate, sp_stream_rate(cluster, d, option->size, count));
        for (uint32_t i = d; rate > 0 && i < d + option->size; i++) {
            const uint32_t host = cluster->host_of[i], devices = cluster->divides_hosts ? beside[host] : count[host];
            most = fmin(most, sp_cluster_host(cluster, i)->memory_bytes / devices);
        }
    }
    if (rate > 0 && rate < INFINITY) {
        stages->own_bytes = sp_cluster_memory(cluster, class->first);
        stages->copy_per_byte = 1 / rate;
        stages->copied_most = most;
        stages->memory_bytes = stages->own_bytes + most;
    }
    return SP_OK;
}

static enum sp_status fill_option(const struct sp_joint *joint, const struct sp_model_choice *profile,
                                  const struct sp_proposal *proposal, struct sp_stages_option *option,
                                  struct sp_error *err)
{
    const struct sp_mesh_level *link = outer_link(joint, profile->option);
    /* A request waits once for a transfer, but the stages' search counts it at both of its ends. */
    const double ends = proposal->objective == SP_OBJECTIVE_LATENCY ? 2 : 1;
    const double *seconds;
    enum sp_status status = sp_joint_able_seconds(joint, profile, &seconds, err);
    if (status != SP_OK)
        return status;
    *option = (struct sp_stages_option){
        .device_class = profile->option->class_index,
        .devices = profile->option->size,
        .max_replicas = proposal->max_replicas,
        .memory_bytes = proposal->is_draft ? INFINITY : sp_space_capacity(joint->space, profile->option),
        .memory_scale = 1,
        .seconds = sum_up(joint, seconds),
        .transfer_fixed = link->latency / ends,
        .transfer_per_byte = profile->sent_share / sp_level_send_bandwidth(link) / ends,
        .transfer_share = profile->sent_share,
    };
    if (option->seconds == NULL)
        return sp_fail_memory(err);
    return proposal->is_draft ? SP_OK : fill_copies(joint, profile->option, option, err);
}

/* The links and where classes begin, where there are several levels. */
static enum sp_status list_levels(const struct sp_joint *joint, struct sp_stages_problem *problem, struct sp_error *err)
{
    const struct sp_cluster *cluster = joint->cluster;
    const uint32_t classes = joint->space->class_count;
    struct sp_stages_level *levels = SP_NEW_ARRAY(joint->arena, cluster->level_count, struct sp_stages_level);
    uint32_t *first = SP_NEW_ARRAY(joint->arena, classes, uint32_t), group = 1;
    if (cluster->level_count < 2 || cluster->place != NULL) /* the solver knows devices in a row, without gaps */
        return SP_OK;
    if (levels == NULL || first == NULL)
        return sp_fail_memory(err);
    for (uint32_t l = cluster->level_count; l-- > 0; group *= cluster->levels[l].size)
        levels[l] = (struct sp_stages_level){group, cluster->levels[l].latency,
                                             1 / sp_level_send_bandwidth(&cluster->levels[l])};
    for (uint32_t c = 0; c < classes; c++)
        first[c] = joint->space->classes[c].first;
    problem->levels = levels;
    problem->level_count = cluster->level_count;
    problem->class_first = first;
    return SP_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* How much memory sets of units need. Where nothing can lack memory nobody has to count it. */
static enum sp_status fill_memory(struct sp_joint *joint, const struct sp_proposal *proposal,
                                  struct sp_stages_problem *problem, struct sp_stages_option *options,
                                  struct sp_error *err)
{
    struct sp_stage_parts *parts = sp_joint_parts(joint, proposal, joint->units->count, joint->units->of);
    bool is_roomy = true;
    if (parts == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < proposal->profile_count; i++) {
        const double own = options[i].copy_per_byte > 0 ? options[i].own_bytes : options[i].memory_bytes;
        if (sp_stage_parts_maximum(parts, i) <= own) {
            options[i].memory_bytes = INFINITY;
            options[i].copy_per_byte = 0;
        }
        is_roomy = is_roomy && options[i].memory_bytes == INFINITY;
        if (!fill_least(joint, parts, i, &options[i]))
            return sp_fail_memory(err);
    }
    joint->memory_binds = !is_roomy;
    if (is_roomy || proposal->is_hopeful)
        return SP_OK;
    problem->memory = sp_joint_stage_memory(joint, proposal, parts);
    return problem->memory == NULL ? sp_fail_memory(err) : SP_OK;
}

/* Tensors that cross units; with `tensors` NULL they are only counted. `seen` has an entry per unit. */
static bool list_tensors(const struct sp_joint *joint, uint32_t *seen, struct sp_stages_tensor *tensors,
                         uint32_t *ret_count)
{
    const struct sp_workload *workload = joint->workload;
    const struct sp_units *units = joint->units;
    uint32_t count = 0;
    memset(seen, 0, units->count * sizeof *seen);
    for (uint32_t t = 0; t < workload->tensor_count; t++) {
        const struct sp_work_tensor *tensor = &workload->tensors[t];
        if (tensor->kind != SP_WORK_ACTIVATION || tensor->producer == SP_NO_WORK ||
            units->of[tensor->producer] == SP_NO_WORK)
            continue;
        const uint32_t from = units->of[tensor->producer];
        uint32_t *consumers = NULL, consumer_count = 0;
        for (uint32_t i = 0; i < tensor->consumer_count; i++) {
            const uint32_t to = units->of[tensor->consumers[i]];
            if (to == from || seen[to] == t + 1)
                continue;
            seen[to] = t + 1;
            if (tensors != NULL && consumers == NULL) {
                consumers = SP_NEW_ARRAY(joint->arena, tensor->consumer_count, uint32_t);
                if (consumers == NULL)
                    return false;
            }
            if (tensors != NULL)
                consumers[consumer_count] = to;
            consumer_count++;
        }
        if (consumer_count == 0)
            continue;
        if (tensors != NULL)
            tensors[count] = (struct sp_stages_tensor){from, tensor->bytes * sp_work_times(workload, tensor->phase),
                                                       consumer_count, consumers};
        count++;
    }
    *ret_count = count;
    return true;
}

/* A chain's units follow one another also where nothing crosses. */
static bool chain_up(const struct sp_joint *joint, struct sp_stages_tensor *tensors, uint32_t *count)
{
    const uint32_t units = joint->units->count;
    bool *follows = SP_NEW_ARRAY(joint->arena, units, bool);
    if (follows == NULL)
        return false;
    for (uint32_t t = 0; t < *count; t++) {
        for (uint32_t i = 0; i < tensors[t].consumer_count; i++) {
            if (tensors[t].consumers[i] == tensors[t].producer + 1)
                follows[tensors[t].producer] = true;
        }
    }
    for (uint32_t u = 0; u + 1 < units; u++) {
        uint32_t *next;
        if (follows[u])
            continue;
        if ((next = SP_NEW(joint->arena, uint32_t)) == NULL)
            return false;
        *next = u + 1;
        tensors[(*count)++] = (struct sp_stages_tensor){u, 0, 1, next};
    }
    return true;
}

static enum sp_status make_problem(struct sp_joint *joint, const struct sp_proposal *proposal,
                                   struct sp_stages_problem *problem, struct sp_error *err)
{
    struct sp_arena *arena = joint->arena;
    const struct sp_units *units = joint->units;
    uint32_t *seen = SP_NEW_ARRAY(arena, units->count, uint32_t), tensor_count;
    struct sp_stages_option *options = SP_NEW_ARRAY(arena, proposal->profile_count, struct sp_stages_option);
    struct sp_stages_node *nodes = SP_NEW_ARRAY(arena, units->count, struct sp_stages_node);
    uint32_t *class_size = SP_NEW_ARRAY(arena, joint->space->class_count, uint32_t);
    if (seen == NULL || options == NULL || nodes == NULL || class_size == NULL)
        return sp_fail_memory(err);
    (void)list_tensors(joint, seen, NULL, &tensor_count);
    struct sp_stages_tensor *tensors =
        SP_NEW_ARRAY(arena, (size_t)tensor_count + units->count, struct sp_stages_tensor);
    if (tensors == NULL || !list_tensors(joint, seen, tensors, &tensor_count) ||
        (units->is_chain && !chain_up(joint, tensors, &tensor_count)))
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < proposal->profile_count; i++) {
        enum sp_status status = fill_option(joint, proposal->profiles[i], proposal, &options[i], err);
        if (status != SP_OK)
            return status;
    }
    for (uint32_t u = 0; u < units->count; u++)
        nodes[u].color = SP_NO_STAGE_GROUP;
    if (!sp_joint_color_units(joint, nodes))
        return sp_fail_memory(err);
    for (uint32_t c = 0; c < joint->space->class_count; c++)
        class_size[c] = joint->space->classes[c].count;
    *problem = (struct sp_stages_problem){
        .node_count = units->count,
        .tensor_count = tensor_count,
        .option_count = proposal->profile_count,
        .class_count = joint->space->class_count,
        .nodes = nodes,
        .tensors = tensors,
        .options = options,
        .class_size = class_size,
        .objective = proposal->objective == SP_OBJECTIVE_LATENCY   ? SP_STAGES_LATENCY
                     : proposal->objective == SP_OBJECTIVE_DEVICES ? SP_STAGES_DEVICES
                                                                   : SP_STAGES_THROUGHPUT,
        .combine = SP_STAGES_MAX,
        .max_stages = proposal->max_stages,
        .load_limit = proposal->load_limit,
        .sends_to_each = true,
    };
    enum sp_status status = list_levels(joint, problem, err);
    return status != SP_OK || proposal->is_draft ? status : fill_memory(joint, proposal, problem, options, err);
}

/* ---- the placement ---------------------------------------------------------------------------------------------- */

/* Gives stages the devices that their search had in mind; false where it had none, as for a latency, or they cannot have
   them. */
static bool take_places(const struct sp_joint *joint, const struct sp_stages_result *result,
                        const struct sp_joint_candidate *given, uint32_t *devices, bool *is_taken)
{
    for (uint32_t s = 0; s < result->stage_count; s++) {
        const struct sp_space_option *option = given->options[s];
        const uint32_t replicas = result->stages[s].replicas;
        devices[s] = joint->space->classes[option->class_index].first + result->stages[s].place;
        if (sp_space_place(joint->space, option, replicas, devices[s]) != devices[s])
            return false;
        for (uint32_t d = devices[s]; d < devices[s] + option->size * replicas; d++) {
            if (is_taken[d])
                return false;
            is_taken[d] = true;
        }
    }
    return true;
}

/* Where devices are left over and links differ, the stages on the devices that their search had in mind, if that is
   better. */
static enum sp_status shift(struct sp_joint *joint, const struct sp_stages_result *result,
                            struct sp_joint_candidate **candidate, struct sp_error *err)
{
    const struct sp_joint_candidate *given = *candidate;
    const uint32_t count = result->stage_count; /* as many as `given` has */
    struct sp_joint_candidate *shifted = SP_NEW(joint->arena, struct sp_joint_candidate);
    if (given->devices_used == joint->cluster->device_count || joint->cluster->level_count < 2 || count < 2)
        return SP_OK;
    uint32_t *devices = SP_NEW_ARRAY(joint->arena, count, uint32_t);
    bool *is_taken = SP_NEW_ARRAY(joint->arena, joint->cluster->device_count, bool);
    struct sp_sharded_stage *sharded = SP_NEW_ARRAY(joint->arena, count, struct sp_sharded_stage);
    if (shifted == NULL || devices == NULL || is_taken == NULL || sharded == NULL)
        return sp_fail_memory(err);
    if (!take_places(joint, result, given, devices, is_taken))
        return SP_OK;
    *shifted = *given;
    shifted->placement.stage_device = devices;
    shifted->sharded = memcpy(sharded, given->sharded, count * sizeof *sharded);
    enum sp_status status = sp_joint_judge(joint, shifted, err);
    if (status == SP_OK && shifted->fits == given->fits && sp_front_better(joint->options->objective, shifted, given))
        *candidate = shifted;
    return status;
}

static enum sp_status take_stages(struct sp_joint *joint, const struct sp_proposal *proposal,
                                  const struct sp_stages_result *result, struct sp_joint_candidate **ret_candidate,
                                  struct sp_error *err)
{
    struct sp_joint_candidate *candidate = sp_joint_candidate_create(joint, result->stage_count);
    uint32_t *profile_of = SP_NEW_ARRAY(joint->arena, result->stage_count, uint32_t);
    bool allotted = false;
    if (candidate == NULL || profile_of == NULL)
        return sp_fail_memory(err);
    for (uint32_t s = 0; s < result->stage_count; s++) {
        profile_of[s] = result->stages[s].option;
        candidate->options[s] = proposal->profiles[profile_of[s]]->option;
        candidate->placement.stage_size[s] = candidate->options[s]->size;
        candidate->placement.stage_replicas[s] = result->stages[s].replicas;
    }
    for (uint32_t n = 0; n < joint->workload->node_count; n++) {
        if (joint->units->of[n] != SP_NO_WORK)
            candidate->placement.stage_of[n] = result->stage_of[joint->units->of[n]];
    }
    sp_place_folded(joint->workload, candidate->placement.stage_of);
    enum sp_status status = sp_joint_allot(joint, candidate, &allotted, err);
    if (status != SP_OK || !allotted)
        return status;
    candidate->is_draft = proposal->is_draft;
    candidate->is_hopeful = proposal->is_hopeful;
    status = sp_joint_rechoose(joint, candidate, proposal->profiles, profile_of, err);
    *ret_candidate = candidate;
    return status == SP_OK ? shift(joint, result, ret_candidate, err) : status;
}

bool sp_joint_is_of_devices(const struct sp_proposal *proposal)
{
    for (uint32_t i = 0; i < proposal->profile_count; i++) {
        if (proposal->profiles[i]->table != NULL)
            return false;
    }
    return true;
}

static uint64_t work_of(const struct sp_joint *joint, const struct sp_proposal *proposal)
{
    if (proposal->load_limit > 0)
        return FEWEST_WORK;
    if (proposal->objective == SP_OBJECTIVE_LATENCY)
        return LATENCY_WORK;
    return sp_joint_is_of_devices(proposal) && joint->cluster->level_count < 2 ? DEVICES_WORK : STAGES_WORK;
}

enum sp_status sp_joint_propose(struct sp_joint *joint, const struct sp_proposal *proposal,
                                struct sp_joint_candidate **ret_candidate, struct sp_error *err)
{
    /* What needs least memory is the same for every objective, and is asked about once. */
    const bool is_bare = proposal->is_draft || proposal->load_limit > 0 || joint->options->any_plan ||
                         proposal->objective != joint->options->objective;
    const struct sp_stages_options options = {.seed = joint->options->seed,
                                              .work_limit = work_of(joint, proposal),
                                              .max_ideals = MAX_IDEALS,
                                              .skips_minimum_memory = is_bare || !sp_joint_is_of_devices(proposal),
                                              .executor = joint->options->executor,
                                              .watch = joint->options->watch,
                                              .stop = sp_watch_stop(joint->options->watch)};
    struct sp_stages_problem problem;
    struct sp_stages_result *result;
    *ret_candidate = NULL;
    joint->memory_binds = false;
    enum sp_status status = make_problem(joint, proposal, &problem, err);
    if (status == SP_OK)
        status = sp_stages_solve(joint->arena, &problem, &options, &result, err);
    if (status != SP_OK)
        return status;
    joint->stopped = joint->stopped || result->is_stopped;
    if (result->stage_count == 0)
        return SP_OK;
    return take_stages(joint, proposal, result, ret_candidate, err);
}

enum sp_status sp_joint_propose_whole(struct sp_joint *joint, const struct sp_proposal *proposal,
                                      struct sp_joint_candidate **ret_candidate, struct sp_error *err)
{
    struct sp_stage stage = {.option = proposal->profile_count - 1, .replicas = 1};
    struct sp_stages_result result = {
        .stage_count = 1, .stages = &stage, .stage_of = SP_NEW_ARRAY(joint->arena, joint->units->count, uint32_t)};
    *ret_candidate = NULL;
    if (result.stage_of == NULL)
        return sp_fail_memory(err);
    return take_stages(joint, proposal, &result, ret_candidate, err);
}

/* ---- whole operators -------------------------------------------------------------------------------------------- */

enum sp_status sp_joint_group(struct sp_joint *joint, uint32_t most_stages,
                              const struct sp_grouping_result **ret_grouping, struct sp_joint_candidate **ret_candidate,
                              struct sp_error *err)
{
    const struct sp_cluster *cluster = joint->cluster;
    struct sp_grouping_options options;
    struct sp_grouping_result *grouping;
    struct sp_joint_candidate *candidate = SP_NEW(joint->arena, struct sp_joint_candidate);
    sp_grouping_options_init(&options);
    options.objective = joint->options->objective;
    options.optimal = joint->options->optimal;
    options.watch = joint->options->watch;
    if (most_stages != 0 && most_stages < cluster->device_count)
        cluster = sp_cluster_prefix(joint->arena, cluster, most_stages); /* a stage is a device */
    if (candidate == NULL || cluster == NULL)
        return sp_fail_memory(err);
    enum sp_status status = sp_group(joint->arena, joint->workload, cluster, &options, &grouping, err);
    if (status != SP_OK && status != SP_ERR_NOFIT)
        return status;
    candidate->placement = grouping->placement;
    candidate->evaluation = grouping->evaluation;
    candidate->fits = status == SP_OK && grouping->evaluation->worst_excess_bytes <= 0;
    candidate->devices_used = grouping->evaluation->stage_count;
    for (uint32_t s = 0; s < grouping->evaluation->stage_count; s++)
        candidate->memory_bytes = fmax(candidate->memory_bytes, grouping->evaluation->stages[s].total_bytes);
    joint->explored += grouping->explored;
    joint->accepted += grouping->accepted;
    joint->stopped = joint->stopped || grouping->stopped;
    sp_error_clear(err);
    *ret_grouping = grouping;
    *ret_candidate = candidate;
    return SP_OK;
}

enum sp_status sp_joint_move_nodes(struct sp_joint *joint, const struct sp_joint_candidate *whole,
                                   struct sp_joint_candidate **ret_moved, struct sp_error *err)
{
    struct sp_grouping_options options;
    struct sp_joint_candidate *moved = sp_joint_candidate_create(joint, whole->placement.stage_count);
    if (moved == NULL)
        return sp_fail_memory(err);
    sp_grouping_options_init(&options);
    options.objective = joint->options->objective;
    options.saves_bytes = joint->options->strategy == SP_STRATEGY_GROUPING && options.objective != SP_OBJECTIVE_LATENCY;
    options.watch = joint->options->watch;
    moved->placement.stage_size = moved->placement.stage_replicas = NULL; /* one each */
    memcpy(moved->placement.stage_of, whole->placement.stage_of,
           joint->workload->node_count * sizeof *moved->placement.stage_of);
    memcpy(moved->placement.stage_device, whole->placement.stage_device,
           whole->placement.stage_count * sizeof *moved->placement.stage_device);
    enum sp_status status = sp_group_improve(joint->arena, joint->workload, joint->cluster, &options, &moved->placement,
                                             &joint->explored, err);
    if (status == SP_OK)
        status = sp_joint_judge(joint, moved, err);
    *ret_moved = moved;
    return status;
}
