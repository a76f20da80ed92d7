#include <math.h>

#include "search/grouping/internal.h"

/* What a node needs on its device wherever everything else is: its operands and results are in memory while it runs. */
static double least_memory(struct sp_grouping_search *search, uint32_t id)
{
    const struct sp_workload *workload = search->workload;
    const struct sp_work_node *node = &workload->nodes[id];
    double bytes = node->inner_weight_bytes + node->resident_bytes + node->workspace_bytes;
    search->line.stamp++;
    for (uint32_t i = 0; i < node->input_count + node->output_count; i++) {
        uint32_t tensor = i < node->input_count ? node->inputs[i] : node->outputs[i - node->input_count];
        uint32_t memory = sp_memory_of(workload, tensor);
        if (search->line.born[memory] == search->line.stamp)
            continue;
        search->line.born[memory] = search->line.stamp;
        bytes += workload->tensors[memory].bytes;
    }
    return bytes;
}

static enum sp_status fail_node(struct sp_grouping_search *search, uint32_t id, double bytes, uint32_t device)
{
    double capacity = sp_search_capacity(search, device);
    struct sp_error *err = search->err;
    sp_fail(err, SP_ERR_NOFIT, "NODE_TOO_LARGE",
            "Node \"%s\" needs %.0f bytes by itself (weights, inputs and results), but device %u (%s) has %.0f: it "
            "lacks %.0f bytes, and no number of devices helps.",
            search->workload->nodes[id].name, bytes, device, sp_cluster_device(search->cluster, device)->name, capacity,
            bytes - capacity);
    if (err != NULL) {
        err->limit = "devices";
        err->limit_value = 0;
        err->actual = (int64_t)(bytes - capacity);
        err->least_memory_bytes = (int64_t)fmin(bytes, 9e18);
    }
    return SP_ERR_NOFIT;
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
    return extended;
}

/* The fewest stages found by packing every line, and for small models by dynamic programming and enumeration. */
static enum sp_status count_devices(struct sp_grouping_search *wide, uint32_t *ret_count, uint32_t *ret_stuck)
{
    struct sp_candidate candidate;
    uint32_t fewest = 0, room = wide->stage_limit;
    enum sp_status status = sp_candidate_init(wide, &candidate);
    for (uint32_t i = 0; i < 2 * wide->line_count && status == SP_OK; i++) {
        const uint32_t *line = wide->lines[i / 2];
        double interval;
        uint32_t stuck = 0;
        bool packed;
        if (fewest > 0)
            wide->stage_limit = fewest;
        if (i % 2 == 0)
            status = sp_pack(wide, line, HUGE_VAL, &candidate, &packed, &interval, &stuck);
        else
            status = sp_pack_exact(wide, line, HUGE_VAL, &candidate, &packed);
        if (i == 0 && status == SP_OK && !packed)
            *ret_stuck = line[stuck];
        if (status != SP_OK || !packed)
            continue;
        status = sp_candidate_score(wide, &candidate, NULL);
        if (status == SP_OK && candidate.score.excess_bytes <= 0 && (fewest == 0 || candidate.stage_count < fewest))
            fewest = candidate.stage_count;
    }
    uint32_t most = fewest > 0 ? fewest - 1 : room;
    for (uint32_t k = 1; k <= most && status == SP_OK && wide->live_count <= SP_EXHAUSTIVE_NODES; k++) {
        wide->stage_limit = k;
        candidate.score.valid = false;
        status = sp_exhaust(wide, &candidate);
        if (status != SP_OK || !candidate.score.valid || candidate.score.excess_bytes > 0)
            continue;
        fewest = candidate.stage_count;
        break;
    }
    *ret_count = fewest;
    return status;
}

static enum sp_status fewest_devices(struct sp_grouping_search *search, uint32_t device, uint32_t *ret_count,
                                     uint32_t *ret_stuck)
{
    struct sp_arena *arena = search->arena;
    uint32_t count = search->live_count < SP_MAX_DEVICES ? search->live_count : SP_MAX_DEVICES;
    struct sp_workload workload = *search->workload;
    struct sp_cluster *cluster = extend_cluster(arena, search->cluster, device, count);
    workload.kind_of = SP_NEW_ARRAY(arena, count, uint32_t);
    if (cluster == NULL || workload.kind_of == NULL)
        return sp_fail_memory(search->err);
    for (uint32_t i = 0; i < count; i++)
        workload.kind_of[i] = search->workload->kind_of[device];

    struct sp_grouping_options options;
    struct sp_grouping_search wide;
    sp_grouping_options_init(&options);
    options.objective = SP_OBJECTIVE_DEVICES;
    options.watch = search->watch;
    enum sp_status status = sp_search_init(&wide, arena, &workload, cluster, &options, search->err);
    if (status != SP_OK)
        return status;
    wide.share = search->share;
    wide.fraction = search->fraction;
    status = count_devices(&wide, ret_count, ret_stuck);
    search->explored += wide.explored;
    return status;
}

/* A node in a stage whose device cannot run it; the fewest such nodes that a placement was found with may still fit. */
static enum sp_status fail_unable(const struct sp_grouping_search *search, const struct sp_candidate *closest)
{
    const struct sp_workload *workload = search->workload;
    uint32_t i = 0;
    while (i < search->live_count) {
        const uint32_t device = closest->stage_device[closest->stage_of[search->live[i]]];
        if (workload->nodes[search->live[i]].seconds[workload->kind_of[device]] >= workload->unable_seconds)
            break;
        i++;
    }
    if (i == search->live_count)
        return sp_fail(search->err, SP_ERR_INTERNAL, "NO_UNABLE_NODE", "A node that cannot run is not found again.");
    const uint32_t id = search->live[i], device = closest->stage_device[closest->stage_of[id]];
    (void)sp_fail(search->err, SP_ERR_NOFIT, "NO_DEVICE_LEFT",
                  "No placement was found in which every node is on a device that it has seconds for and all fits: in "
                  "the closest one node \"%.200s\" is on device %u (%s), which has none. Stages follow each other on "
                  "%u devices; give more devices of the kinds that are needed, or the missing seconds.",
                  workload->nodes[id].name, device, sp_cluster_device(search->cluster, device)->name,
                  search->cluster->device_count);
    if (search->err != NULL) {
        search->err->limit = "devices";
        search->err->limit_value = 0;
    }
    return SP_ERR_NOFIT;
}

enum sp_status sp_search_nofit(struct sp_grouping_search *search, const struct sp_candidate *closest)
{
    const struct sp_cluster *cluster = search->cluster;
    uint32_t largest = 0, worst_node = 0, stuck = search->live[0], count = 0;
    double worst_bytes = -1;
    if (search->is_trial)
        return sp_fail(search->err, SP_ERR_NOFIT, "NO_FIT", "The model does not fit.");
    for (uint32_t i = 1; i < cluster->device_count; i++)
        if (sp_cluster_memory(cluster, i) > sp_cluster_memory(cluster, largest))
            largest = i;
    for (uint32_t i = 0; i < search->live_count; i++) {
        double bytes = least_memory(search, search->live[i]);
        if (bytes > worst_bytes) {
            worst_bytes = bytes;
            worst_node = search->live[i];
        }
    }
    if (worst_bytes > sp_search_capacity(search, largest))
        return fail_node(search, worst_node, worst_bytes, largest);

    if (closest->score.excess_bytes >= SP_UNABLE_BYTES)
        return fail_unable(search, closest);
    uint32_t stages = closest->stage_count, device = closest->stage_device[closest->score.worst_stage];
    double lacking = ceil(closest->score.worst_excess), capacity = sp_search_capacity(search, device);
    enum sp_status status = fewest_devices(search, device, &count, &stuck);
    if (status != SP_OK)
        return status;
    const char *name = sp_cluster_device(cluster, device)->name;
    struct sp_error *err = search->err;
    if (count > 0)
        sp_fail(err, SP_ERR_NOFIT, "NO_FIT",
                "The model does not fit: in the best placement found, on %u of %u devices, device %u (%s) lacks %.0f "
                "bytes of the %.0f it would need; it fits on %u devices of this kind.",
                stages, cluster->device_count, device, name, lacking, capacity + lacking, count);
    else
        sp_fail(err, SP_ERR_NOFIT, "NO_FIT",
                "The model does not fit: in the best placement found, on %u of %u devices, device %u (%s) lacks %.0f "
                "bytes of the %.0f it would need, and more devices of this kind do not help: node \"%s\" and what it "
                "exchanges with its neighbours need too much.",
                stages, cluster->device_count, device, name, lacking, capacity + lacking,
                search->workload->nodes[stuck].name);
    if (err != NULL) {
        err->limit = "devices";
        err->limit_value = count;
        err->actual = (int64_t)lacking;
        err->least_memory_bytes = (int64_t)fmin(capacity + lacking, 9e18);
    }
    return SP_ERR_NOFIT;
}
