#include "cost/cluster/cluster.h"

#include <ctype.h>
#include <math.h>

#include "base/buf.h"
#include "cost/cluster/internal.h"

#define DEFAULT_LEVEL_NAME "link"
#define MESSAGE_CEILING    SP_ERROR_MESSAGE_SIZE

/* Letters that two names begin with alike. */
static size_t common_start(const char *a, const char *b)
{
    size_t size = 0;

    while (a[size] != '\0' && tolower((unsigned char)a[size]) == tolower((unsigned char)b[size]))
        size++;
    return size;
}

/* The devices whose names begin most like this one; all where none does. */
static void list_similar(const char *name, struct sp_buf *buf)
{
    uint32_t count;
    const struct sp_device *catalog = sp_device_catalog(&count);
    size_t longest = 0;

    for (uint32_t i = 0; i < count; i++) {
        const size_t alike = common_start(catalog[i].name, name);
        longest = alike > longest ? alike : longest;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (common_start(catalog[i].name, name) == longest)
            sp_buf_printf(buf, "%s%s", buf->size == 0 ? "" : ", ", catalog[i].name);
    }
}

enum sp_status sp_cluster_unknown_device(const char *name, struct sp_error *err)
{
    struct sp_buf known;

    sp_buf_init(&known, MESSAGE_CEILING / 2);
    list_similar(name, &known);
    (void)sp_fail(
        err, SP_ERR_REQUEST, "UNKNOWN_DEVICE",
        "There is no device '%s' in the catalog; similar names are %s. 'shardplan devices' lists all; describe "
        "any other device by its figures.",
        strlen(name) < SP_DEVICE_NAME_SIZE ? name : "(a long name)", sp_buf_failed(&known) ? "many" : known.data);
    sp_buf_release(&known);
    return SP_ERR_REQUEST;
}

/* How many devices of each group are used; all together are returned. */
static uint32_t count_used(const struct sp_cluster_parts *parts, uint32_t used[SP_MAX_DEVICE_GROUPS])
{
    uint32_t all = 0;
    for (uint32_t g = 0, number = 0; g < parts->group_count; g++) {
        used[g] = 0;
        for (uint32_t i = 0; i < parts->groups[g].count; i++, number++)
            used[g] += parts->excluded == NULL || !parts->excluded[number];
        all += used[g];
    }
    return all;
}

/* The level of a cluster without a mesh. A single device talks to nobody; its level only has to be well-formed. */
static bool default_level(const struct sp_cluster_parts *parts, uint32_t device_count, struct sp_mesh_level *ret_level,
                          uint32_t *ret_linkless)
{
    struct sp_mesh_level level = {.name = DEFAULT_LEVEL_NAME, .size = device_count};
    uint32_t used[SP_MAX_DEVICE_GROUPS];
    const uint32_t used_count = count_used(parts, used);

    for (uint32_t i = 0; i < parts->group_count; i++) {
        const struct sp_device *device = &parts->groups[i].device;
        double bandwidth = sp_cluster_device_link(device);
        if (used[i] == 0)
            continue;
        if (bandwidth <= 0 && used_count == 1)
            bandwidth = device->memory_bandwidth;
        if (bandwidth <= 0) {
            *ret_linkless = i;
            return false;
        }
        if (level.bandwidth <= 0 || bandwidth < level.bandwidth)
            level.bandwidth = bandwidth;
        if (device->link_latency > level.latency)
            level.latency = device->link_latency;
    }
    *ret_level = level;
    return true;
}

/* What was stated of a cluster that is not as it was stated: for whoever writes it. */
static enum sp_status keep_stated(struct sp_arena *arena, const struct sp_cluster_parts *parts,
                                  struct sp_cluster *cluster, struct sp_error *err)
{
    struct sp_cluster_stated *stated = SP_NEW(arena, struct sp_cluster_stated);
    struct sp_mesh_level *levels = SP_NEW_ARRAY(arena, cluster->level_count, struct sp_mesh_level);
    if (stated == NULL || levels == NULL)
        return sp_fail_memory(err);
    if (cluster->level_count > 0)
        memcpy(levels, cluster->levels, cluster->level_count * sizeof *levels);
    *stated = (struct sp_cluster_stated){.group_count = parts->group_count,
                                         .device_count = cluster->device_count,
                                         .level_count = cluster->level_count,
                                         .groups = parts->groups,
                                         .levels = cluster->level_count > 0 ? levels : NULL,
                                         .link_count = parts->link_count,
                                         .links = parts->links,
                                         .switch_count = parts->switch_count,
                                         .switches = parts->switches};
    cluster->stated = stated;
    return SP_OK;
}

enum sp_status sp_cluster_build(struct sp_arena *arena, const struct sp_cluster_parts *parts,
                                struct sp_cluster **ret_cluster, uint32_t *ret_linkless, struct sp_error *err)
{
    struct sp_cluster *cluster = SP_NEW(arena, struct sp_cluster);
    uint32_t device_count = 0;

    for (uint32_t i = 0; i < parts->group_count; i++)
        device_count += parts->groups[i].count;
    if (cluster == NULL)
        return sp_fail_memory(err);
    *cluster = (struct sp_cluster){.device_count = device_count,
                                   .group_count = parts->group_count,
                                   .level_count = parts->level_count,
                                   .groups = parts->groups,
                                   .levels = parts->levels,
                                   .memory_limit_bytes = parts->memory_limit_bytes,
                                   .efficiency = parts->efficiency,
                                   .launch_seconds = parts->launch_seconds,
                                   .host = parts->host};
    if (parts->level_count == 0 && !sp_cluster_is_wired(parts)) {
        cluster->level_count = 1;
        cluster->links_assumed = true;
        cluster->levels = SP_NEW(arena, struct sp_mesh_level);
        if (cluster->levels == NULL)
            return sp_fail_memory(err);
        if (!default_level(parts, device_count, cluster->levels, ret_linkless))
            return sp_fail(err, SP_ERR_REQUEST, "CLUSTER_LINK",
                           "Devices '%s' have no link to each other: give their link_bandwidth or "
                           "host_bandwidth, or the cluster a mesh.",
                           parts->groups[*ret_linkless].device.name);
    }
    cluster->group_of = SP_NEW_ARRAY(arena, device_count, uint32_t);
    if (cluster->group_of == NULL)
        return sp_fail_memory(err);
    for (uint32_t group = 0, device = 0; group < parts->group_count; group++) {
        for (uint32_t i = 0; i < parts->groups[group].count; i++)
            cluster->group_of[device++] = group;
    }
    enum sp_status status = SP_OK;
    if (sp_cluster_is_irregular(parts)) {
        struct sp_cluster_layout layout = {NULL, NULL};
        const bool is_wired = sp_cluster_is_wired(parts);
        status = keep_stated(arena, parts, cluster, err);
        if (status == SP_OK && is_wired)
            status = sp_cluster_find_levels(arena, parts, cluster, &layout, err);
        if (status == SP_OK)
            status = sp_cluster_arrange(arena, parts, is_wired ? &layout : NULL, cluster, err);
    }
    if (status == SP_OK)
        status = sp_cluster_measured_links(arena, cluster, err);
    if (status == SP_OK && !sp_cluster_place_hosts(arena, cluster))
        status = sp_fail_memory(err);
    if (status == SP_OK)
        *ret_cluster = cluster;
    return status;
}

enum sp_status sp_cluster_uniform(struct sp_arena *arena, const char *device, int64_t count,
                                  struct sp_cluster **ret_cluster, struct sp_error *err)
{
    const struct sp_device *known = sp_device_find(device);
    struct sp_device_group_spec *group;
    struct sp_cluster_parts parts;
    uint32_t linkless;

    if (known == NULL)
        return sp_cluster_unknown_device(device, err);
    if (count < 1 || count > SP_MAX_DEVICES)
        return sp_fail(err, SP_ERR_REQUEST, "DEVICE_COUNT", "The number of devices must be from 1 to %d; it is %lld.",
                       SP_MAX_DEVICES, (long long)count);
    group = SP_NEW(arena, struct sp_device_group_spec);
    if (group == NULL)
        return sp_fail_memory(err);
    *group = (struct sp_device_group_spec){.name = known->name, .count = (uint32_t)count, .device = *known};
    parts = (struct sp_cluster_parts){.group_count = 1, .groups = group, .launch_seconds = SP_LAUNCH_NOT_STATED};
    return sp_cluster_build(arena, &parts, ret_cluster, &linkless, err);
}

/*
 * Shrinks level sizes to the first `count` devices, as far as that keeps every coordinate: from the outermost level on,
 * a level that is not used beyond one index has size 1, and the first that is has ceil(count / inner devices). Inner
 * levels keep their sizes, for they are the strides of the numbering.
 */
static void shrink_levels(struct sp_mesh_level *levels, uint32_t level_count, uint32_t count)
{
    uint64_t inner = 1;

    for (uint32_t i = 0; i < level_count; i++)
        inner *= levels[i].size;
    for (uint32_t i = 0; i < level_count; i++) {
        inner /= levels[i].size;
        sp_level_resize(&levels[i], (uint32_t)((count + inner - 1) / inner));
        if (levels[i].size > 1)
            return;
    }
}

struct sp_cluster *sp_cluster_prefix(struct sp_arena *arena, const struct sp_cluster *cluster, uint32_t count)
{
    struct sp_cluster *prefix = SP_NEW(arena, struct sp_cluster);
    uint32_t rest = count;

    if (prefix == NULL)
        return NULL;
    *prefix = *cluster;
    prefix->device_count = count;
    prefix->group_count = cluster->group_of[count - 1] + 1;
    prefix->groups = SP_NEW_ARRAY(arena, prefix->group_count, struct sp_device_group_spec);
    prefix->levels = SP_NEW_ARRAY(arena, cluster->level_count, struct sp_mesh_level);
    prefix->group_of = SP_NEW_ARRAY(arena, count, uint32_t);
    if (prefix->groups == NULL || prefix->levels == NULL || prefix->group_of == NULL)
        return NULL;
    memcpy(prefix->groups, cluster->groups, prefix->group_count * sizeof *prefix->groups);
    memcpy(prefix->levels, cluster->levels, cluster->level_count * sizeof *prefix->levels);
    memcpy(prefix->group_of, cluster->group_of, count * sizeof *prefix->group_of);
    for (uint32_t i = 0; i + 1 < prefix->group_count; i++)
        rest -= prefix->groups[i].count;
    prefix->groups[prefix->group_count - 1].count = rest;
    shrink_levels(prefix->levels, prefix->level_count, cluster->place == NULL ? count : cluster->place[count - 1] + 1);
    return prefix;
}

const struct sp_device *sp_cluster_device(const struct sp_cluster *cluster, uint32_t device)
{
    return &cluster->groups[cluster->group_of[device]].device;
}

double sp_device_usable_bytes(const struct sp_device *device)
{
    if (device->kind != SP_DEVICE_GPU)
        return device->memory_bytes;
    const double memory = device->memory_reported_bytes > 0 ? device->memory_reported_bytes : device->memory_bytes;
    return fmax(memory - sp_device_context_bytes(device), 0);
}

double sp_cluster_memory(const struct sp_cluster *cluster, uint32_t device)
{
    double memory = sp_device_usable_bytes(sp_cluster_device(cluster, device));
    double limit = cluster->memory_limit_bytes;
    if (limit > 0 && limit < memory)
        memory = limit;
    memory -= cluster->reserved_bytes + cluster->groups[cluster->group_of[device]].reserved_bytes;
    return fmax(memory, 0);
}

const struct sp_cluster_host *sp_cluster_host(const struct sp_cluster *cluster, uint32_t device)
{
    return cluster->host_of == NULL || cluster->host_of[device] == SP_NO_HOST
               ? NULL
               : sp_cluster_described_host(cluster, device);
}

double sp_cluster_host_bandwidth(const struct sp_cluster *cluster, uint32_t device)
{
    const struct sp_cluster_host *host = sp_cluster_host(cluster, device);
    const double own = sp_cluster_device(cluster, device)->host_bandwidth;
    if (host == NULL)
        return 0;
    return own > 0 ? fmin(own, host->bandwidth) : host->bandwidth;
}

double sp_cluster_room(const struct sp_cluster *cluster, uint32_t device)
{
    const struct sp_cluster_host *host = sp_cluster_host(cluster, device);
    return sp_cluster_memory(cluster, device) + (host == NULL ? 0 : fmin(cluster->spilled_bytes, host->memory_bytes));
}

uint32_t sp_cluster_numbered(const struct sp_cluster *cluster, uint32_t number)
{
    if (cluster->number != NULL)
        number = number < cluster->stated->device_count ? cluster->numbered[number] : UINT32_MAX;
    return number < cluster->device_count ? number : UINT32_MAX;
}

uint32_t sp_cluster_described(const struct sp_cluster *cluster)
{
    return cluster->stated != NULL ? cluster->stated->device_count : cluster->device_count;
}

bool sp_cluster_numbered_links(struct sp_arena *arena, const struct sp_cluster *cluster, struct sp_links *ret_links)
{
    const uint32_t count = sp_cluster_described(cluster);
    uint32_t *place = SP_NEW_ARRAY(arena, count, uint32_t);
    if (place == NULL)
        return false;
    for (uint32_t number = 0; number < count; number++) {
        const uint32_t device = sp_cluster_numbered(cluster, number);
        place[number] = device == UINT32_MAX || cluster->place == NULL ? device : cluster->place[device];
    }
    *ret_links =
        (struct sp_links){cluster->level_count, cluster->levels, cluster->stated == NULL ? NULL : place, count};
    return true;
}

const struct sp_mesh_level *sp_cluster_link(const struct sp_cluster *cluster, uint32_t a, uint32_t b)
{
    uint32_t level = cluster->level_count - 1;

    a = cluster->place == NULL ? a : cluster->place[a];
    b = cluster->place == NULL ? b : cluster->place[b];
    /* Indices within ever larger blocks: the level below which both are in one block is the outermost that differs. */
    while (level > 0) {
        a /= cluster->levels[level].size;
        b /= cluster->levels[level].size;
        if (a == b)
            break;
        level--;
    }
    return &cluster->levels[level];
}

double sp_cluster_transfer_seconds(const struct sp_cluster *cluster, uint32_t a, uint32_t b, double bytes)
{
    const struct sp_mesh_level *link;

    if (a == b)
        return 0;
    link = sp_cluster_link(cluster, a, b);
    return link->latency + bytes / sp_level_send_bandwidth(link);
}
