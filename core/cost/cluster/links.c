/* What collectives take on levels whose links are those of the devices: the forms of their libraries. */
#include <math.h>

#include "cost/cluster/internal.h"

static const enum sp_collective operations[SP_DEVICE_OPERATION_COUNT] = {
    [SP_DEVICE_ALL_REDUCE] = SP_ALL_REDUCE,
    [SP_DEVICE_ALL_GATHER] = SP_ALL_GATHER,
    [SP_DEVICE_REDUCE_SCATTER] = SP_REDUCE_SCATTER,
    [SP_DEVICE_ALL_TO_ALL] = SP_ALL_TO_ALL,
};

double sp_cluster_device_link(const struct sp_device *device)
{
    return device->link_bandwidth > 0 ? device->link_bandwidth : device->host_bandwidth;
}

static void add_library(const struct sp_device *device, const struct sp_device_library *library,
                        struct sp_link_form *items, uint32_t *count)
{
    const enum sp_device_class class = sp_device_collective_class(device);
    const bool is_own = class == SP_DEVICE_CLASS_COLLECTIVES && library->residual.low > 0;
    const struct sp_device_residual residual = is_own ? library->residual : sp_device_residual(device, class);
    for (int o = 0; o < SP_DEVICE_OPERATION_COUNT; o++) {
        const struct sp_device_collective *of = &library->operations[o];
        if (of->start_seconds <= 0)
            continue;
        struct sp_link_form *form = &items[(*count)++];
        *form = (struct sp_link_form){operations[o], of->start_seconds, of->rank_seconds, of->half_bytes,
                                      {0},           residual.low,      residual.high};
        for (uint32_t i = 0; i < SP_LINK_GROUP_SIZES; i++)
            form->bandwidth[i] = of->link_share[i] * sp_cluster_device_link(device);
    }
}

/* The forms of a device with its runtime; *ret_forms is NULL where none are known. False without memory. */
static bool forms_of(struct sp_arena *arena, const struct sp_device *device, const struct sp_link_forms **ret_forms)
{
    uint32_t library_count, count = 0;
    const struct sp_device_library *libraries = sp_device_libraries(device, &library_count);
    struct sp_link_forms *forms = SP_NEW(arena, struct sp_link_forms);
    struct sp_link_form *items =
        SP_NEW_ARRAY(arena, (size_t)library_count * SP_DEVICE_OPERATION_COUNT, struct sp_link_form);

    *ret_forms = NULL;
    if (forms == NULL || items == NULL)
        return false;
    for (uint32_t i = 0; i < library_count; i++) {
        if (sp_runtime_has_library(sp_device_runtime(device), libraries[i].name))
            add_library(device, &libraries[i], items, &count);
    }
    *forms = (struct sp_link_forms){count, items};
    *ret_forms = count > 0 ? forms : NULL;
    return true;
}

/* Devices of different figures in one level: nobody measured what they reach together. */
static bool are_alike(const struct sp_cluster *cluster)
{
    const struct sp_device *first = &cluster->groups[0].device;
    for (uint32_t g = 1; g < cluster->group_count; g++) {
        const struct sp_device *other = &cluster->groups[g].device;
        if (strcmp(first->name, other->name) != 0 || first->runtime != other->runtime ||
            first->library_count != other->library_count ||
            sp_cluster_device_link(first) != sp_cluster_device_link(other))
            return false;
    }
    return true;
}

/* What goes further is started in the same way as what stays within the innermost level. */
static void start_levels(struct sp_cluster *cluster, const struct sp_device *device)
{
    const double host = device->kind == SP_DEVICE_GPU ? sp_device_runtime(device)->collective_seconds : 0;
    cluster->levels[cluster->level_count - 1].host_seconds = host;
    for (uint32_t l = cluster->level_count - 1; l-- > 0;) {
        struct sp_mesh_level *level = &cluster->levels[l];
        level->stated_bandwidth = level->bandwidth;
        level->stated_latency = level->latency;
        level->latency = fmax(level->latency, cluster->levels[l + 1].latency);
        level->host_seconds = host;
    }
}

enum sp_status sp_cluster_measured_links(struct sp_arena *arena, struct sp_cluster *cluster, struct sp_error *err)
{
    const struct sp_device *device = &cluster->groups[0].device;
    const struct sp_link_forms *forms = NULL;
    struct sp_mesh_level *innermost = &cluster->levels[cluster->level_count - 1];

    if (!are_alike(cluster) || innermost->bandwidth_of_size != NULL ||
        innermost->bandwidth != sp_cluster_device_link(device))
        return SP_OK;
    if (!forms_of(arena, device, &forms))
        return sp_fail_memory(err);
    if (forms != NULL) {
        sp_level_take_forms(innermost, forms);
        start_levels(cluster, device);
    }
    return SP_OK;
}
