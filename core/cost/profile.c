#include "cost/profile.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/intern.h"

struct apply {
    const struct sp_profile *profile;
    const struct sp_cluster *cluster;
    struct sp_workload *workload;
    struct sp_arena *scratch;
    struct sp_intern *nodes, *outputs; /* names */
    uint32_t *node_of, *maker_of;      /* number of the name -> node */
    double *estimates;                 /* of the node at hand, per kind */
    bool *is_measured;                 /* node -> a name found it */
    struct sp_profile_use use;
    struct sp_error *err;
};

/* ---- devices ------------------------------------------------------------------------------------------------------
 */

/* The kind of the cluster's devices of this name, or SP_NO_WORK. */
static uint32_t kind_called(const struct apply *apply, const char *name)
{
    for (uint32_t d = 0; d < apply->cluster->device_count; d++) {
        if (strcasecmp(sp_cluster_device(apply->cluster, d)->name, name) == 0)
            return apply->workload->kind_of[d];
    }
    return SP_NO_WORK;
}

static enum sp_status find_kind(const struct apply *apply, uint32_t *ret_kind)
{
    const char *name = apply->profile->device;
    *ret_kind = name != NULL ? kind_called(apply, name) : apply->workload->kind_of[0];
    if (*ret_kind != SP_NO_WORK)
        return SP_OK;
    return sp_fail(apply->err, SP_ERR_REQUEST, "PROFILE_DEVICE",
                   "The profile was measured on the device '%.100s', which the cluster does not have; say which of its "
                   "devices the times are for.",
                   name);
}

/* ---- names --------------------------------------------------------------------------------------------------------
 */

/* The first node with a name keeps it. */
static bool index_names(struct apply *apply)
{
    const struct sp_workload *workload = apply->workload;
    for (uint32_t i = 0; i < workload->node_count; i++) {
        const char *name = workload->nodes[i].name;
        const uint32_t known = sp_intern_count(apply->nodes), id = sp_intern_add(apply->nodes, name, strlen(name));
        if (id == SP_NO_NAME)
            return false;
        if (id == known)
            apply->node_of[id] = i;
    }
    for (uint32_t t = 0; t < workload->tensor_count; t++) {
        const struct sp_work_tensor *tensor = &workload->tensors[t];
        if (tensor->producer == SP_NO_WORK || tensor->name == NULL)
            continue;
        const uint32_t known = sp_intern_count(apply->outputs);
        const uint32_t id = sp_intern_add(apply->outputs, tensor->name, strlen(tensor->name));
        if (id == SP_NO_NAME)
            return false;
        if (id == known)
            apply->maker_of[id] = tensor->producer;
    }
    return true;
}

/* The length of NAME in "NAME/SomethingFusion" or "NAME/SomethingFusion/", 0 where it is no such name. */
static size_t fused_length(const char *name)
{
    static const char suffix[] = "Fusion";
    size_t size = strlen(name);
    if (size > 0 && name[size - 1] == '/')
        size--;
    if (size < sizeof suffix || memcmp(name + size - (sizeof suffix - 1), suffix, sizeof suffix - 1) != 0)
        return 0;
    while (size > 0 && name[size - 1] != '/')
        size--;
    return size > 0 ? size - 1 : 0;
}

static uint32_t find_node(struct apply *apply, const char *name)
{
    uint32_t id = sp_intern_find(apply->nodes, name, strlen(name));
    if (id != SP_NO_NAME) {
        apply->use.by_name++;
        return apply->node_of[id];
    }
    id = sp_intern_find(apply->outputs, name, strlen(name));
    if (id != SP_NO_NAME) {
        apply->use.by_output++;
        return apply->maker_of[id];
    }
    id = sp_intern_find(apply->nodes, name, fused_length(name));
    if (id != SP_NO_NAME && fused_length(name) > 0) {
        apply->use.by_fusion++;
        return apply->node_of[id];
    }
    if (apply->use.unknown++ == 0)
        apply->use.first_unknown = name;
    return SP_NO_WORK;
}

/* ---- times --------------------------------------------------------------------------------------------------------
 */

static bool is_comparable(double estimate)
{
    return isfinite(estimate) && estimate > 0;
}

static bool is_known_alone(const struct sp_work_node *work, uint32_t kind)
{
    return work->alone_seconds != NULL && isfinite(work->seconds[kind]);
}

/* What has a time of its own was a kernel of its own. */
static void measure_alone(const struct sp_workload *workload, uint32_t node, uint32_t kind, double scale)
{
    struct sp_work_node *work = &workload->nodes[node];
    if (work->start_seconds == NULL)
        return;
    work->start_seconds[kind] = work->alone_start_seconds[kind] * scale;
    work->moved_bytes[kind] = work->bytes;
    if (workload->kernels != NULL && workload->kernels[kind] != NULL)
        workload->kernels[kind]->nodes[node] = (struct sp_node_kernel){.kernel = node};
}

/* times[first .. end) are those of one node. The first of them says by how much kinds differ from their estimates that
   have no time of their own. False without memory. */
static bool replace(struct apply *apply, uint32_t node, uint32_t first, uint32_t end, uint32_t profile_kind)
{
    struct sp_work_node *work = &apply->workload->nodes[node];
    const uint32_t kinds = apply->workload->kind_count;
    double *scale = SP_NEW_ARRAY(apply->workload->arena, kinds, double);
    bool is_first = true;
    if (scale == NULL)
        return false;
    for (uint32_t k = 0; k < kinds; k++)
        apply->estimates[k] = is_known_alone(work, k) ? work->alone_seconds[k] : work->seconds[k];
    for (uint32_t t = first; t < end; t++) {
        const struct sp_profile_time *time = &apply->profile->times[t];
        const uint32_t kind = time->device != NULL ? kind_called(apply, time->device) : profile_kind;
        if (kind == SP_NO_WORK)
            continue; /* a device of the catalog that is not here */
        const double estimate = apply->estimates[kind];
        for (uint32_t k = 0; k < kinds && is_first; k++) {
            if (isfinite(apply->estimates[k]))
                work->seconds[k] =
                    is_comparable(estimate) ? time->seconds * (apply->estimates[k] / estimate) : time->seconds;
        }
        is_first = false;
        work->seconds[kind] = time->seconds;
    }
    for (uint32_t k = 0; k < kinds; k++) {
        scale[k] = is_comparable(apply->estimates[k]) ? work->seconds[k] / apply->estimates[k] : 1;
        if (!is_first)
            measure_alone(apply->workload, node, k, scale[k]);
    }
    apply->is_measured[node] = !is_first;
    if (!is_first) {
        work->measured_scale = scale;
        work->classes = NULL;
    }
    return true;
}

static bool apply_all(struct apply *apply, uint32_t profile_kind)
{
    const struct sp_profile *profile = apply->profile;
    const struct sp_workload *workload = apply->workload;
    for (uint32_t first = 0, end; first < profile->count; first = end) {
        end = first + 1;
        while (end < profile->count && strcmp(profile->times[end].name, profile->times[first].name) == 0)
            end++;
        const uint32_t node = find_node(apply, profile->times[first].name);
        if (node == SP_NO_WORK)
            continue;
        if (workload->nodes[node].folded)
            apply->use.folded++;
        else if (apply->is_measured[node])
            apply->use.twice++;
        else if (!replace(apply, node, first, end, profile_kind))
            return false;
    }
    for (uint32_t i = 0; i < workload->node_count; i++) {
        if (!workload->nodes[i].folded)
            (*(apply->is_measured[i] ? &apply->use.measured : &apply->use.unmeasured))++;
    }
    return true;
}

static enum sp_status apply_within(struct apply *apply, uint64_t hash_seed)
{
    const struct sp_workload *workload = apply->workload;
    uint32_t kind = 0;
    enum sp_status status = find_kind(apply, &kind);
    if (status != SP_OK)
        return status;
    apply->nodes = sp_intern_create(apply->scratch, hash_seed);
    apply->outputs = sp_intern_create(apply->scratch, hash_seed);
    apply->node_of = SP_NEW_ARRAY(apply->scratch, workload->node_count, uint32_t);
    apply->maker_of = SP_NEW_ARRAY(apply->scratch, workload->tensor_count, uint32_t);
    apply->estimates = SP_NEW_ARRAY(apply->scratch, workload->kind_count, double);
    apply->is_measured = SP_NEW_ARRAY(apply->scratch, workload->node_count, bool);
    if (apply->nodes == NULL || apply->outputs == NULL || apply->node_of == NULL || apply->maker_of == NULL ||
        apply->estimates == NULL || apply->is_measured == NULL || !index_names(apply) || !apply_all(apply, kind))
        return sp_fail_memory(apply->err);
    if (apply->profile->count > 0 && apply->use.by_name + apply->use.by_output + apply->use.by_fusion == 0)
        return sp_fail(
            apply->err, SP_ERR_REQUEST, "PROFILE_MATCHES_NOTHING",
            "None of the %u names of the profile is that of a node of this model or of what a node makes; the "
            "first is '%.200s'. It may be the profile of another model.",
            apply->use.unknown, apply->use.first_unknown);
    return SP_OK;
}

enum sp_status sp_profile_apply(const struct sp_profile *profile, const struct sp_cluster *cluster, uint64_t hash_seed,
                                struct sp_workload *workload, struct sp_profile_use *ret_use, struct sp_error *err)
{
    struct apply apply = {.profile = profile,
                          .cluster = cluster,
                          .workload = workload,
                          .scratch = sp_arena_create(sp_arena_budget(workload->arena)),
                          .err = err};
    if (apply.scratch == NULL)
        return sp_fail_memory(err);
    enum sp_status status = apply_within(&apply, hash_seed);
    sp_arena_destroy(apply.scratch);
    if (status == SP_OK)
        *ret_use = apply.use;
    return status;
}
