/* Nothing fits: the plan that lacks least says where, when and of what there is too much. */
#include <math.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/units.h"
#include "cost/contract.h"
#include "search/joint/bounds.h"
#include "search/joint/memory_peak.h"

#define TENSORS_NAMED  3
#define SENTENCE_BYTES SP_ERROR_MESSAGE_SIZE

/* "'x' (1.0 GB), 'y' (0.5 GB) and 7 more (0.1 GB) are alive": the largest ones, and what the others are together. */
static void name_tensors(const struct sp_workload *workload, const struct sp_memory_peak *peak, struct sp_buf *buf)
{
    double named = peak->workspace_bytes;
    for (uint32_t i = 0; i < peak->tensor_count && i < TENSORS_NAMED; i++) {
        sp_buf_printf(buf, "%s'%.48s' (", i == 0 ? ", where " : ", ", workload->tensors[peak->tensors[i].tensor].name);
        sp_text_bytes(buf, peak->tensors[i].bytes);
        sp_buf_text(buf, ")");
        named += peak->tensors[i].bytes;
    }
    if (peak->tensor_count > TENSORS_NAMED) {
        sp_buf_printf(buf, " and %u more (", peak->tensor_count - TENSORS_NAMED);
        sp_text_bytes(buf, peak->alive_bytes + peak->workspace_bytes - named);
        sp_buf_text(buf, ")");
    }
    if (peak->tensor_count > 0)
        sp_buf_text(buf, peak->tensor_count == 1 ? " is alive" : " are alive");
    if (peak->workspace_bytes > 0) {
        sp_buf_text(buf, peak->tensor_count > 0 ? " and it works on " : ", which works on ");
        sp_text_bytes(buf, peak->workspace_bytes);
    }
}

static void describe_stage(const struct sp_workload *workload, const struct sp_cluster *cluster,
                           const struct sp_stage_cost *cost, double capacity, const struct sp_memory_peak *peak,
                           struct sp_buf *buf)
{
    sp_text_bytes(buf, cost->total_bytes - capacity);
    sp_buf_printf(buf, " on device %u (%s): it needs ", sp_cluster_number(cluster, cost->device),
                  sp_cluster_device(cluster, cost->device)->name);
    sp_text_bytes(buf, cost->total_bytes);
    sp_buf_text(buf, " of ");
    sp_text_bytes(buf, capacity);
    sp_buf_text(buf, ", of which ");
    sp_text_bytes(buf, cost->weights_bytes);
    sp_buf_text(buf, " are weights");
    if (cost->cache_bytes > 0) {
        sp_buf_text(buf, ", ");
        sp_text_bytes(buf, cost->cache_bytes);
        sp_buf_text(buf, " caches");
    }
    if (cost->communication_bytes > 0) {
        sp_buf_text(buf, ", ");
        sp_text_bytes(buf, cost->communication_bytes);
        sp_buf_text(buf, " buffers of transfers");
    }
    if (peak->node != SP_NO_WORK) {
        sp_buf_printf(buf, "; it is fullest at node '%.60s'", workload->nodes[peak->node].name);
        name_tensors(workload, peak, buf);
    }
    sp_buf_text(buf, ".");
}

/* Devices of a stage that may hold different amounts: one where they are equal. */
static uint32_t devices_of(const struct sp_evaluated_plan *plan, uint32_t stage)
{
    const struct sp_strategy_table *table = plan->sharded == NULL ? NULL : plan->sharded[stage].table;
    const uint32_t members = table == NULL ? 0 : sp_strategy_table_mesh(table)->member_count;
    return members > 0 ? members : 1;
}

static struct sp_stage_cost device_cost(const struct sp_evaluation *evaluation, uint32_t stage, uint32_t index)
{
    struct sp_stage_cost cost = evaluation->stages[stage];
    if (evaluation->members == NULL)
        return cost;
    cost = evaluation->members[cost.device + index];
    cost.device = evaluation->stages[stage].device + index;
    return cost;
}

enum sp_status sp_joint_describe_lack(struct sp_arena *arena, const struct sp_workload *workload,
                                      const struct sp_cluster *cluster, const struct sp_evaluated_plan *plan,
                                      struct sp_error *err)
{
    const struct sp_evaluation *evaluation = plan->evaluation;
    struct sp_memory_peak peak;
    struct sp_buf buf;
    double most = -INFINITY, capacity = 0;
    uint32_t worst = 0;
    struct sp_stage_cost cost = {0};
    for (uint32_t s = 0; s < evaluation->stage_count; s++)
        for (uint32_t i = 0; i < devices_of(plan, s); i++) {
            struct sp_stage_cost own = device_cost(evaluation, s, i);
            const double room = sp_cluster_memory(cluster, own.device) - cluster->reserved_bytes;
            if (own.total_bytes - room <= most)
                continue;
            most = own.total_bytes - room;
            capacity = room;
            worst = s;
            cost = own;
        }
    if (evaluation->members != NULL && devices_of(plan, worst) > 1)
        sp_strategy_count_member(plan->sharded[worst].table, cost.device - evaluation->stages[worst].device);
    const enum sp_status status = sp_memory_peak_of_stage(arena, workload, cluster, plan, worst, &peak, err);
    if (status != SP_OK)
        return status;
    sp_buf_init(&buf, (size_t)4 * SENTENCE_BYTES);
    sp_buf_printf(&buf, "No plan fits. The closest has %u stage%s and lacks ", evaluation->stage_count,
                  evaluation->stage_count == 1 ? "" : "s");
    describe_stage(workload, cluster, &cost, capacity, &peak, &buf);
    if (sp_buf_failed(&buf))
        (void)sp_fail_memory(err);
    else
        (void)sp_fail(err, SP_ERR_NOFIT, "NO_PLAN_FITS", "%s", buf.data);
    sp_buf_release(&buf);
    return err->status == SP_ERR_NOFIT ? SP_OK : err->status;
}

/* ---- whole operators -------------------------------------------------------------------------------------------- */

/* What a node needs on its device wherever everything else is: its operands and results are in memory while it runs. */
static double least_memory(const struct sp_workload *workload, uint32_t id, uint32_t *seen)
{
    const struct sp_work_node *node = &workload->nodes[id];
    double bytes = node->inner_weight_bytes + node->resident_bytes + node->workspace_bytes;
    for (uint32_t i = 0; i < node->input_count + node->output_count; i++) {
        uint32_t tensor = i < node->input_count ? node->inputs[i] : node->outputs[i - node->input_count];
        if (workload->tensors[tensor].alias_of != SP_NO_WORK)
            tensor = workload->tensors[tensor].alias_of;
        if (seen[tensor] == id + 1)
            continue;
        seen[tensor] = id + 1;
        bytes += workload->tensors[tensor].bytes;
    }
    return bytes;
}

static enum sp_status fail_devices(struct sp_error *err, uint32_t count, double lacking, double needed)
{
    err->limit = "devices";
    err->limit_value = count;
    err->actual = (int64_t)lacking;
    err->least_memory_bytes = (int64_t)fmin(needed, 9e18);
    return SP_ERR_NOFIT;
}

static enum sp_status fail_node(const struct sp_joint *joint, uint32_t id, double bytes, uint32_t device,
                                struct sp_error *err)
{
    const double capacity = sp_cluster_memory(joint->cluster, device);
    (void)sp_fail(err, SP_ERR_NOFIT, "NODE_TOO_LARGE",
                  "Node \"%s\" needs %.0f bytes by itself (weights, inputs and results), but device %u (%s) has %.0f: "
                  "it lacks %.0f bytes, and no number of devices helps.",
                  joint->workload->nodes[id].name, bytes, sp_cluster_number(joint->cluster, device),
                  sp_cluster_device(joint->cluster, device)->name, capacity, bytes - capacity);
    return fail_devices(err, 0, bytes - capacity, bytes);
}

/* A node in a stage whose device cannot run it; the fewest such nodes that a placement was found with may still fit. */
static enum sp_status fail_unable(const struct sp_joint *joint, const struct sp_placement *placement,
                                  struct sp_error *err)
{
    const struct sp_workload *workload = joint->workload;
    for (uint32_t id = 0; id < workload->node_count; id++) {
        const uint32_t device = placement->stage_device[placement->stage_of[id]];
        if (workload->nodes[id].folded ||
            workload->nodes[id].seconds[workload->kind_of[device]] < workload->unable_seconds)
            continue;
        (void)sp_fail(err, SP_ERR_NOFIT, "NO_DEVICE_LEFT",
                      "No placement was found in which every node is on a device that it has seconds for and all fits: "
                      "in the closest one node \"%.200s\" is on device %u (%s), which has none. Stages follow each "
                      "other on %u devices; give more devices of the kinds that are needed, or the missing seconds.",
                      workload->nodes[id].name, sp_cluster_number(joint->cluster, device),
                      sp_cluster_device(joint->cluster, device)->name, joint->cluster->device_count);
        err->limit = "devices";
        err->limit_value = 0;
        return SP_ERR_NOFIT;
    }
    return sp_fail(err, SP_ERR_INTERNAL, "NO_UNABLE_NODE", "A node that cannot run is not found again.");
}

/* A cluster of `count` devices like `device`, behind its slowest link level. */
static struct sp_cluster *extend_cluster(struct sp_arena *arena, const struct sp_cluster *cluster, uint32_t device,
                                         uint32_t count)
{
    struct sp_cluster *extended = SP_NEW(arena, struct sp_cluster);
    struct sp_device_group_spec *group = SP_NEW(arena, struct sp_device_group_spec);
    struct sp_mesh_level *level = SP_NEW(arena, struct sp_mesh_level);
    uint32_t *group_of = SP_NEW_ARRAY(arena, count, uint32_t);
    if (extended == NULL || group == NULL || level == NULL || group_of == NULL)
        return NULL;
    *extended = *cluster;
    *group = cluster->groups[cluster->group_of[device]];
    group->count = count;
    *level = cluster->levels[0];
    level->size = count;
    extended->device_count = count;
    extended->group_count = extended->level_count = 1;
    extended->groups = group;
    extended->levels = level;
    extended->group_of = group_of;
    extended->number = extended->numbered = extended->place = NULL;
    extended->stated = NULL;
    extended->host_of = NULL;
    return extended;
}

/* The fewest devices like `device` with which stages are found, 0: as many as there are nodes do not help. */
static enum sp_status fewest_devices(const struct sp_joint *joint, uint32_t device, uint32_t *ret_count,
                                     struct sp_error *err)
{
    struct sp_arena *arena = joint->arena;
    struct sp_workload workload = *joint->workload;
    struct sp_joint_options options = *joint->options;
    struct sp_joint wide = {.arena = arena, .workload = &workload, .options = &options};
    struct sp_joint_candidate *candidate = NULL;
    struct sp_model_choice *profile = NULL;
    struct sp_cluster *cluster;
    uint32_t count = 0;
    *ret_count = 0;
    for (uint32_t n = 0; n < workload.node_count; n++)
        count += !workload.nodes[n].folded && count < SP_MAX_DEVICES;
    wide.cluster = cluster = extend_cluster(arena, joint->cluster, device, count);
    workload.kind_of = SP_NEW_ARRAY(arena, count, uint32_t);
    wide.tables = SP_NEW_ARRAY(arena, SP_SPACE_MAX_OPTIONS, struct sp_strategy_table *);
    if (cluster == NULL || workload.kind_of == NULL || wide.tables == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < count; i++)
        workload.kind_of[i] = joint->workload->kind_of[device];
    options.objective = SP_OBJECTIVE_DEVICES;
    options.constraints = NULL;
    enum sp_status status = sp_space_create(arena, &workload, cluster, 1, &wide.space, err);
    if (status != SP_OK)
        return status;
    const struct sp_profile_request request = {.workload = &workload,
                                               .option = &wide.space->options[0],
                                               .memory_limit = INFINITY,
                                               .seed = options.seed,
                                               .choice_work = SP_JOINT_CHOICE_WORK,
                                               .watch = options.watch};
    wide.evaluator = sp_joint_evaluator_create(arena, &workload, cluster);
    if (wide.evaluator == NULL)
        return sp_fail_memory(err);
    status = sp_profile_create(arena, &request, &profile, err);
    if (status == SP_OK)
        status = sp_units_create(arena, &workload, profile->seconds, SP_UNITS_NODES, &wide.units, err);
    const struct sp_model_choice *const profiles[] = {profile};
    const struct sp_proposal proposal = {
        .profile_count = 1, .profiles = profiles, .objective = SP_OBJECTIVE_DEVICES, .max_replicas = 1};
    if (status == SP_OK)
        status = sp_joint_propose(&wide, &proposal, &candidate, err);
    if (status == SP_OK && candidate != NULL && candidate->fits)
        *ret_count = candidate->placement.stage_count;
    return status;
}

/* Says of the plan of single devices that lacks least which device lacks how many bytes, and the fewest devices of that
   kind with which stages are found (not proved to be the fewest), or the node that fits on none. */
static enum sp_status fail_whole(const struct sp_joint *joint, const struct sp_joint_candidate *closest,
                                 struct sp_error *err)
{
    const struct sp_workload *workload = joint->workload;
    const struct sp_cluster *cluster = joint->cluster;
    const struct sp_evaluation *evaluation = closest->evaluation;
    uint32_t largest = 0, worst_node = 0, count = 0;
    double worst_bytes = -1;
    uint32_t *seen = SP_NEW_ARRAY(joint->arena, workload->tensor_count, uint32_t);
    if (seen == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 1; i < cluster->device_count; i++)
        if (sp_cluster_memory(cluster, i) > sp_cluster_memory(cluster, largest))
            largest = i;
    for (uint32_t id = 0; id < workload->node_count; id++) {
        const double bytes = workload->nodes[id].folded ? 0 : least_memory(workload, id, seen);
        if (bytes > worst_bytes) {
            worst_bytes = bytes;
            worst_node = id;
        }
    }
    if (worst_bytes > sp_cluster_memory(cluster, largest))
        return fail_node(joint, worst_node, worst_bytes, largest, err);
    for (uint32_t s = 0; s < evaluation->stage_count; s++) {
        if (sp_unable_nodes(workload, evaluation->stages[s].compute_seconds) > 0)
            return fail_unable(joint, &closest->placement, err);
    }
    const struct sp_stage_cost *cost = &evaluation->stages[evaluation->worst_stage];
    const double lacking = ceil(evaluation->worst_excess_bytes), needed = cost->capacity_bytes + lacking;
    enum sp_status status = fewest_devices(joint, cost->device, &count, err);
    if (status != SP_OK)
        return status;
    char help[SP_ERROR_MESSAGE_SIZE / 2];
    if (count > 0)
        (void)snprintf(help, sizeof help, "; it fits on %u devices of this kind.", count);
    else
        (void)snprintf(help, sizeof help,
                       ", and more devices of this kind do not help: node \"%.200s\" and what it exchanges with its "
                       "neighbours need too much.",
                       workload->nodes[worst_node].name);
    (void)sp_fail(err, SP_ERR_NOFIT, "NO_FIT",
                  "The model does not fit: in the best placement found, on %u of %u devices, device %u (%s) lacks %.0f "
                  "bytes of the %.0f it would need%s",
                  evaluation->stage_count, cluster->device_count, sp_cluster_number(cluster, cost->device),
                  sp_cluster_device(cluster, cost->device)->name, lacking, needed, help);
    return fail_devices(err, count, lacking, needed);
}

/* ---- all ------------------------------------------------------------------------------------------------------- */

enum sp_status sp_joint_nofit(struct sp_joint *joint, const struct sp_joint_candidate *closest,
                              const struct sp_joint_candidate *whole, struct sp_error *err)
{
    struct sp_error none = {0}, devices = {0};
    struct sp_error *why = err != NULL ? err : &none;
    if (joint->options->any_plan || (closest == NULL && whole == NULL))
        return sp_fail(why, SP_ERR_NOFIT, "NO_PLAN_FITS", "No plan fits the devices' memory.");
    if (whole != NULL) {
        const enum sp_status status = fail_whole(joint, whole, &devices);
        if (status != SP_ERR_NOFIT || closest == NULL || joint->dataflow == NULL ||
            joint->options->strategy == SP_STRATEGY_GROUPING) {
            *why = devices;
            return status;
        }
    }
    const struct sp_evaluated_plan plan = {&closest->placement, closest->sharded, closest->evaluation};
    const enum sp_status status = sp_joint_describe_lack(joint->arena, joint->workload, joint->cluster, &plan, why);
    if (status != SP_OK)
        return status;
    if (devices.limit_value > 0) {
        why->limit = devices.limit;
        why->limit_value = devices.limit_value;
        why->actual = devices.actual;
    }
    /* A guess for sp_joint_minimum_memory(): with so much this plan would fit. */
    why->least_memory_bytes = closest->memory_bytes < 9e18 ? (int64_t)closest->memory_bytes + 1 : 0;
    return SP_ERR_NOFIT;
}
