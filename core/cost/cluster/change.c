#include "cost/cluster/change.h"

#include <string.h>

#include "cost/cluster/internal.h"

static uint64_t mesh_devices(const struct sp_cluster *cluster)
{
    uint64_t product = 1;
    for (uint32_t l = 0; l < cluster->level_count; l++)
        product *= cluster->levels[l].size;
    return product;
}

/* A copy whose groups and levels may be changed; one more group has room. */
static struct sp_cluster *copy_cluster(struct sp_arena *arena, const struct sp_cluster *cluster)
{
    struct sp_cluster *copy = SP_NEW(arena, struct sp_cluster);
    if (copy == NULL)
        return NULL;
    *copy = *cluster;
    copy->groups = SP_NEW_ARRAY(arena, (size_t)cluster->group_count + 1, struct sp_device_group_spec);
    copy->levels = SP_NEW_ARRAY(arena, cluster->level_count, struct sp_mesh_level);
    if (copy->groups == NULL || copy->levels == NULL)
        return NULL;
    memcpy(copy->groups, cluster->groups, cluster->group_count * sizeof *copy->groups);
    memcpy(copy->levels, cluster->levels, cluster->level_count * sizeof *copy->levels);
    return copy;
}

/* A description of its own, which may be changed; one more group has room. */
static struct sp_cluster_stated *copy_stated(struct sp_arena *arena, struct sp_cluster *cluster)
{
    struct sp_cluster_stated *stated = SP_NEW(arena, struct sp_cluster_stated);
    if (stated == NULL)
        return NULL;
    *stated = *cluster->stated;
    stated->groups = SP_NEW_ARRAY(arena, (size_t)stated->group_count + 1, struct sp_device_group_spec);
    if (stated->groups == NULL)
        return NULL;
    memcpy(stated->groups, cluster->stated->groups, stated->group_count * sizeof *stated->groups);
    if (stated->levels != NULL) {
        stated->levels = SP_NEW_ARRAY(arena, stated->level_count, struct sp_mesh_level);
        if (stated->levels == NULL)
            return NULL;
        memcpy(stated->levels, cluster->stated->levels, stated->level_count * sizeof *stated->levels);
    }
    cluster->stated = stated;
    return stated;
}

/* Numbers the devices of changed groups. */
static struct sp_cluster *number_devices(struct sp_arena *arena, struct sp_cluster *cluster)
{
    uint32_t device = 0;
    cluster->group_of = SP_NEW_ARRAY(arena, cluster->device_count, uint32_t);
    if (cluster->group_of == NULL)
        return NULL;
    for (uint32_t g = 0; g < cluster->group_count; g++) {
        for (uint32_t i = 0; i < cluster->groups[g].count; i++)
            cluster->group_of[device++] = g;
    }
    return sp_cluster_place_hosts(arena, cluster) ? cluster : NULL;
}

uint32_t sp_cluster_last_device(const struct sp_cluster *cluster, uint32_t group)
{
    uint32_t end = 0;
    for (uint32_t g = 0; g <= group; g++)
        end += cluster->groups[g].count;
    return end - 1;
}

/* Where links are stated one by one nobody knows those of another device, and without one the levels may be others. */
static bool is_wired(const struct sp_cluster *cluster)
{
    return cluster->stated != NULL && (cluster->stated->link_count > 0 || cluster->stated->switch_count > 0);
}

/* ---- one more --------------------------------------------------------------------------------------------------- */

/* A single device without any link has a level that only has to be well-formed: it says nothing of a second one. */
static bool has_link(const struct sp_cluster *cluster)
{
    const struct sp_device *device = &cluster->groups[0].device;
    return cluster->device_count > 1 || cluster->level_count > 1 || device->link_bandwidth > 0 ||
           device->host_bandwidth > 0 || cluster->levels[0].bandwidth != device->memory_bandwidth;
}

uint32_t sp_cluster_growing_level(const struct sp_cluster *cluster)
{
    uint32_t level = 0;
    if (mesh_devices(cluster) > cluster->device_count)
        return cluster->level_count;
    while (level + 1 < cluster->level_count && cluster->levels[level].size == 1)
        level++;
    return level;
}

bool sp_cluster_can_grow(const struct sp_cluster *cluster, uint32_t group)
{
    const uint32_t level = sp_cluster_growing_level(cluster);
    const uint64_t product = mesh_devices(cluster);
    if (cluster->device_count >= SP_MAX_DEVICES || !has_link(cluster))
        return false;
    if (cluster->stated != NULL &&
        (is_wired(cluster) || cluster->level_count > 1 || cluster->stated->device_count >= SP_MAX_DEVICES ||
         cluster->stated->group_count >= SP_MAX_DEVICE_GROUPS))
        return false;
    if (group + 1 < cluster->group_count && cluster->group_count >= SP_MAX_DEVICE_GROUPS)
        return false;
    return level == cluster->level_count || product + product / cluster->levels[level].size <= SP_MAX_DEVICES;
}

/* The last device of an arranged cluster of one level is described as one behind all others. */
static bool state_one_more(struct sp_arena *arena, struct sp_cluster *more, uint32_t group)
{
    const uint32_t last = more->device_count - 1, described = more->stated->device_count;
    struct sp_cluster_stated *stated = copy_stated(arena, more);
    uint32_t *number = SP_NEW_ARRAY(arena, more->device_count, uint32_t);
    uint32_t *numbered = SP_NEW_ARRAY(arena, (size_t)described + 1, uint32_t);
    if (stated == NULL || number == NULL || numbered == NULL)
        return false;
    struct sp_device_group_spec *added = &stated->groups[stated->group_count++];
    *added = more->groups[group];
    added->count = 1;
    added->name = sp_arena_printf(arena, "%s (one more)", added->name);
    stated->levels[0].size = ++stated->device_count;
    memset(numbered, 0xff, described * sizeof *numbered);
    for (uint32_t d = 0; d <= last; d++) {
        number[d] = d == last ? described : sp_cluster_number(more, d);
        numbered[number[d]] = d;
    }
    more->number = number;
    more->numbered = numbered;
    return added->name != NULL;
}

struct sp_cluster *sp_cluster_one_more(struct sp_arena *arena, const struct sp_cluster *cluster, uint32_t group)
{
    struct sp_cluster *more = copy_cluster(arena, cluster);
    if (more == NULL)
        return NULL;
    const uint32_t level = sp_cluster_growing_level(cluster);
    if (level < cluster->level_count)
        sp_level_resize(&more->levels[level], more->levels[level].size + 1);
    if (group + 1 == cluster->group_count) {
        more->groups[group].count++;
    } else {
        struct sp_device_group_spec *added = &more->groups[more->group_count++];
        *added = cluster->groups[group];
        added->count = 1;
        added->name = sp_arena_printf(arena, "%s (one more)", cluster->groups[group].name);
        if (added->name == NULL)
            return NULL;
    }
    more->device_count++;
    if (more->stated != NULL && !state_one_more(arena, more, group))
        return NULL;
    return number_devices(arena, more);
}

/* ---- one fewer -------------------------------------------------------------------------------------------------- */

bool sp_cluster_can_shrink(const struct sp_cluster *cluster, uint32_t group)
{
    return cluster->device_count > 1 && !is_wired(cluster) &&
           (group + 1 == cluster->group_count || cluster->level_count == 1);
}

/* The devices behind `gone` move up by one, and keep their numbers. */
static bool leave_out(struct sp_arena *arena, struct sp_cluster *fewer, uint32_t gone)
{
    uint32_t *number = SP_NEW_ARRAY(arena, fewer->device_count, uint32_t);
    uint32_t *numbered = SP_NEW_ARRAY(arena, fewer->stated->device_count, uint32_t);
    if (number == NULL || numbered == NULL)
        return false;
    memset(numbered, 0xff, fewer->stated->device_count * sizeof *numbered);
    for (uint32_t d = 0; d < fewer->device_count; d++) {
        number[d] = sp_cluster_number(fewer, d + (d >= gone));
        numbered[number[d]] = d;
    }
    fewer->number = number;
    fewer->numbered = numbered;
    return true;
}

struct sp_cluster *sp_cluster_one_fewer(struct sp_arena *arena, const struct sp_cluster *cluster, uint32_t group)
{
    if (group + 1 == cluster->group_count)
        return sp_cluster_prefix(arena, cluster, cluster->device_count - 1);
    struct sp_cluster *fewer = copy_cluster(arena, cluster);
    if (fewer == NULL)
        return NULL;
    fewer->device_count--;
    fewer->groups[group].count--;
    if (fewer->groups[group].count == 0) {
        fewer->group_count--;
        memmove(&fewer->groups[group], &fewer->groups[group + 1], (fewer->group_count - group) * sizeof *fewer->groups);
    }
    sp_level_resize(&fewer->levels[0], fewer->device_count);
    if (fewer->stated != NULL && !leave_out(arena, fewer, sp_cluster_last_device(cluster, group)))
        return NULL;
    return number_devices(arena, fewer);
}

/* ---- figures ---------------------------------------------------------------------------------------------------- */

struct sp_cluster *sp_cluster_scale_link(struct sp_arena *arena, const struct sp_cluster *cluster, uint32_t level,
                                         double factor)
{
    struct sp_cluster *scaled = copy_cluster(arena, cluster);
    const struct sp_link_forms *known = cluster->levels[level].forms;
    if (scaled != NULL && scaled->stated != NULL && !is_wired(scaled)) {
        struct sp_cluster_stated *stated = copy_stated(arena, scaled);
        if (stated == NULL)
            return NULL;
        stated->levels[level].bandwidth *= factor;
    }
    if (scaled == NULL)
        return NULL;
    scaled->levels[level].send_bandwidth *= factor;
    if (cluster->levels[level].bandwidth_of_size != NULL) {
        const uint32_t size = cluster->levels[level].size;
        double *of_size = SP_NEW_ARRAY(arena, (size_t)size + 1, double);
        if (of_size == NULL)
            return NULL;
        for (uint32_t i = 0; i <= size; i++)
            of_size[i] = cluster->levels[level].bandwidth_of_size[i] * factor;
        scaled->levels[level].bandwidth_of_size = of_size;
    }
    if (known == NULL) {
        scaled->levels[level].bandwidth *= factor;
        scaled->levels[level].stated_bandwidth *= factor;
        return scaled;
    }
    struct sp_link_forms *forms = SP_NEW(arena, struct sp_link_forms);
    struct sp_link_form *items = SP_NEW_ARRAY(arena, known->count, struct sp_link_form);
    if (forms == NULL || items == NULL)
        return NULL;
    for (uint32_t i = 0; i < known->count; i++) {
        items[i] = known->items[i];
        for (uint32_t size = 0; size < SP_LINK_GROUP_SIZES; size++)
            items[i].bandwidth[size] *= factor;
    }
    *forms = (struct sp_link_forms){known->count, items};
    scaled->levels[level].forms = forms;
    scaled->levels[level].stated_bandwidth *= factor;
    sp_level_resize(&scaled->levels[level], scaled->levels[level].size);
    return scaled;
}

static void scale_groups(uint32_t count, struct sp_device_group_spec *groups, const struct sp_cluster_scale *scale)
{
    for (uint32_t g = 0; g < count; g++) {
        struct sp_device *device = &groups[g].device;
        device->memory_bytes *= scale->memory;
        device->memory_reported_bytes *= scale->memory;
        device->memory_bandwidth *= scale->bandwidth;
        device->permuted_bandwidth *= scale->bandwidth;
        device->functions_per_second *= scale->compute;
        for (int dtype = 0; dtype < SP_DTYPE_COUNT; dtype++)
            device->flops[dtype] *= scale->compute;
    }
}

struct sp_cluster *sp_cluster_scale(struct sp_arena *arena, const struct sp_cluster *cluster,
                                    const struct sp_cluster_scale *scale)
{
    struct sp_cluster *scaled = copy_cluster(arena, cluster);
    if (scaled == NULL)
        return NULL;
    scale_groups(scaled->group_count, scaled->groups, scale);
    if (scaled->stated != NULL) {
        struct sp_cluster_stated *stated = copy_stated(arena, scaled);
        if (stated == NULL)
            return NULL;
        scale_groups(stated->group_count, stated->groups, scale);
    }
    scaled->memory_limit_bytes *= scale->memory;
    return scaled;
}
