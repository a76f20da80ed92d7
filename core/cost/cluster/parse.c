/*
 * The cluster as JSON: a description by a stranger, so everything is checked (base/json_reader.h) before a device is
 * numbered.
 */
#include "base/intern.h"
#include "cost/cluster/internal.h"

#define COUNT_OF(array) (sizeof array / sizeof array[0])
#define INTERN_SEED     0 /* the table holds at most SP_MAX_DEVICE_GROUPS names: collisions cannot hurt */
#define MEMBERS_OF_CLUSTER                                                                                             \
    "mesh", "memory_limit_bytes", "efficiency", "launch_seconds", "runtime", "exclude", "links", "switches", "host"
#define MEMBERS_OF_GROUP  "count", "device", "reserved_bytes", "price_per_hour"
#define MAX_RUNTIME_BYTES 64

static const struct sp_members_range figure_bytes = {"a number of bytes", 1, SP_MAX_FIGURE};
static const struct sp_members_range figure_bandwidth = {"a number of bytes per second", 1, SP_MAX_FIGURE};
static const struct sp_members_range figure_seconds = {"a number of seconds", 0, SP_MAX_SECONDS};
static const struct sp_members_range figure_price = {"US dollars of one device and hour", 0, SP_MAX_FIGURE};
static const struct sp_members_range figure_reserved = {"a number of bytes", 0, SP_MAX_FIGURE};
static const struct sp_members_range figure_efficiency = {"a share of peak", SP_MIN_EFFICIENCY, 1};

/* The member "runtime", where it is there. */
static enum sp_status read_runtime(struct sp_members_reader *reader, const json_t *json, const char *pointer,
                                   struct sp_device *device)
{
    const char *name = NULL;
    enum sp_status status = sp_members_text(reader, json, pointer, "runtime", MAX_RUNTIME_BYTES, &name);
    if (status != SP_OK || name == NULL)
        return status;
    device->runtime = sp_runtime_find(name);
    device->names_runtime = true;
    if (device->runtime != SP_RUNTIME_COUNT)
        return SP_OK;
    return sp_members_refuse(reader, sp_members_child(reader, pointer, "runtime"), "CLUSTER_RUNTIME",
                             "There is no runtime '%s'; it is onnxruntime, tensorrt, vllm or generic.", name);
}

/* All but the name and the runtime, which only groups have; which members there may be is the caller's. */
static enum sp_status read_group(struct sp_members_reader *reader, const json_t *json, const char *pointer,
                                 uint32_t devices_left, struct sp_device_group_spec *group)
{
    enum sp_status status = sp_cluster_parse_device(reader, json, pointer, &group->device);
    if (status == SP_OK)
        status = sp_members_count(reader, json, pointer, "count", devices_left, &group->count);
    if (status == SP_OK)
        status =
            sp_members_number(reader, json, pointer, "reserved_bytes", &figure_reserved, false, &group->reserved_bytes);
    if (status == SP_OK)
        status =
            sp_members_number(reader, json, pointer, "price_per_hour", &figure_price, false, &group->price_per_hour);
    return status;
}

static enum sp_status read_groups(struct sp_members_reader *reader, const json_t *json, const char *pointer,
                                  struct sp_cluster_parts *parts)
{
    static const char *const members[] = {"name", MEMBERS_OF_GROUP, "runtime", "host"};
    const char *at = sp_members_child(reader, pointer, "groups");
    const json_t *groups = json_object_get(json, "groups");
    size_t count = json_array_size(groups);
    uint32_t left = SP_MAX_DEVICES;
    struct sp_intern *names = sp_intern_create(reader->arena, INTERN_SEED);

    if (at == NULL || names == NULL)
        return sp_fail_memory(reader->err);
    if (count == 0 || count > SP_MAX_DEVICE_GROUPS)
        return sp_members_refuse(reader, at, "CLUSTER_GROUPS", "'groups' must be an array of 1 to %d device groups.",
                                 SP_MAX_DEVICE_GROUPS);
    parts->group_count = (uint32_t)count;
    parts->groups = SP_NEW_ARRAY(reader->arena, count, struct sp_device_group_spec);
    if (parts->groups == NULL)
        return sp_fail_memory(reader->err);
    for (uint32_t i = 0; i < parts->group_count; i++) {
        struct sp_device_group_spec *group = &parts->groups[i];
        json_t *entry = json_array_get(groups, i);
        const char *here = sp_members_item(reader, at, i);
        enum sp_status status;

        group->name = sp_arena_printf(reader->arena, "group%u", i);
        if (here == NULL || group->name == NULL)
            return sp_fail_memory(reader->err);
        status = sp_members_check(reader, entry, here, "A device group", members, COUNT_OF(members));
        if (status == SP_OK)
            status = sp_members_text(reader, entry, here, "name", SP_MAX_NAME_BYTES, &group->name);
        if (status == SP_OK && left == 0)
            status = sp_members_refuse(reader, here, "CLUSTER_COUNT", "A cluster may have at most %d devices.",
                                       SP_MAX_DEVICES);
        if (status == SP_OK)
            status = read_group(reader, entry, here, left, group);
        if (status == SP_OK)
            status = read_runtime(reader, entry, here, &group->device);
        if (status == SP_OK)
            status = sp_cluster_parse_host(reader, entry, here, &group->host);
        if (status != SP_OK)
            return status;
        left -= group->count;
        if (sp_intern_add(names, group->name, strlen(group->name)) != i)
            return sp_members_refuse(reader, here, "CLUSTER_NAME",
                                     "Another device group has the same name; names must differ.");
    }
    return SP_OK;
}

static enum sp_status read_mesh(struct sp_members_reader *reader, const json_t *json, const char *pointer,
                                uint32_t device_count, struct sp_cluster_parts *parts)
{
    static const char *const members[] = {"name", "size", "bandwidth", "latency"};
    const char *at = sp_members_child(reader, pointer, "mesh");
    const json_t *mesh = json_object_get(json, "mesh");
    size_t count = json_array_size(mesh);
    uint64_t product = 1;

    if (mesh == NULL)
        return SP_OK;
    if (count == 0 || count > SP_MAX_MESH_AXES)
        return sp_members_refuse(reader, at, "CLUSTER_MESH",
                                 "'mesh' must be an array of 1 to %d link levels, outermost first.", SP_MAX_MESH_AXES);
    parts->level_count = (uint32_t)count;
    parts->levels = SP_NEW_ARRAY(reader->arena, count, struct sp_mesh_level);
    if (at == NULL || parts->levels == NULL)
        return sp_fail_memory(reader->err);
    for (uint32_t i = 0; i < parts->level_count; i++) {
        struct sp_mesh_level *level = &parts->levels[i];
        json_t *entry = json_array_get(mesh, i);
        const char *here = sp_members_item(reader, at, i);
        enum sp_status status;

        *level =
            (struct sp_mesh_level){.name = sp_arena_printf(reader->arena, "level%u", i), .latency = SP_HOST_LATENCY};
        if (here == NULL || level->name == NULL)
            return sp_fail_memory(reader->err);
        status = sp_members_check(reader, entry, here, "A link level", members, COUNT_OF(members));
        if (status == SP_OK)
            status = sp_members_text(reader, entry, here, "name", SP_MAX_NAME_BYTES, &level->name);
        if (status == SP_OK)
            status = sp_members_count(reader, entry, here, "size", SP_MAX_DEVICES, &level->size);
        if (status == SP_OK)
            status = sp_members_number(reader, entry, here, "bandwidth", &figure_bandwidth, true, &level->bandwidth);
        if (status == SP_OK)
            status = sp_members_number(reader, entry, here, "latency", &figure_seconds, false, &level->latency);
        if (status != SP_OK)
            return status;
        for (uint32_t j = 0; j < i; j++) {
            if (strcmp(parts->levels[j].name, level->name) == 0)
                return sp_members_refuse(reader, here, "CLUSTER_NAME",
                                         "Another link level has the same name; names must differ.");
        }
        product *= level->size; /* both factors are at most SP_MAX_DEVICES */
        if (product > device_count)
            break;
    }
    if (product != device_count)
        return sp_members_refuse(
            reader, at, "CLUSTER_MESH",
            "The sizes of the mesh must multiply to the number of devices, %u; they multiply to %s%llu.", device_count,
            product > device_count ? "at least " : "", (unsigned long long)product);
    return SP_OK;
}

/* Groups of either form, their mesh and the common members. */
static enum sp_status read_parts(struct sp_members_reader *reader, json_t *json, const char *pointer,
                                 struct sp_cluster_parts *parts)
{
    static const char *const short_members[] = {MEMBERS_OF_GROUP, MEMBERS_OF_CLUSTER};
    static const char *const full_members[] = {"groups", "device_count", MEMBERS_OF_CLUSTER};
    bool full = json_object_get(json, "groups") != NULL;
    struct sp_device common = {0}; /* its runtime */
    uint32_t device_count = 0;
    enum sp_status status;

    if (json_is_object(json) && !full && json_object_get(json, "device") == NULL)
        return sp_members_refuse(reader, pointer, "MEMBER_MISSING",
                                 "A cluster has either the members 'device' and 'count', or 'groups'.");
    status = sp_members_check(reader, json, pointer, "A cluster", full ? full_members : short_members,
                              full ? COUNT_OF(full_members) : COUNT_OF(short_members));
    if (status != SP_OK)
        return status;
    if (full) {
        status = read_groups(reader, json, pointer, parts);
    } else {
        parts->group_count = 1;
        parts->groups = SP_NEW(reader->arena, struct sp_device_group_spec);
        if (parts->groups == NULL)
            return sp_fail_memory(reader->err);
        status = read_group(reader, json, pointer, SP_MAX_DEVICES, parts->groups);
        parts->groups[0].name = parts->groups[0].device.name;
    }
    for (uint32_t i = 0; status == SP_OK && i < parts->group_count; i++)
        device_count += parts->groups[i].count;
    if (status == SP_OK)
        status = read_mesh(reader, json, pointer, device_count, parts);
    if (status == SP_OK)
        status = sp_cluster_parse_host(reader, json, pointer, &parts->host);
    if (status == SP_OK)
        sp_cluster_settle_hosts(parts);
    if (status == SP_OK)
        status = sp_cluster_parse_wires(reader, json, pointer, parts);
    if (status == SP_OK)
        status = sp_cluster_parse_exclude(reader, json, pointer, parts);
    if (status == SP_OK)
        status = sp_members_number(reader, json, pointer, "memory_limit_bytes", &figure_bytes, false,
                                   &parts->memory_limit_bytes);
    if (status == SP_OK)
        status = sp_members_number(reader, json, pointer, "efficiency", &figure_efficiency, false, &parts->efficiency);
    if (status == SP_OK)
        status =
            sp_members_number(reader, json, pointer, "launch_seconds", &figure_seconds, false, &parts->launch_seconds);
    if (status == SP_OK)
        status = read_runtime(reader, json, pointer, &common);
    for (uint32_t i = 0; status == SP_OK && common.names_runtime && i < parts->group_count; i++) {
        struct sp_device *device = &parts->groups[i].device;
        device->runtime = device->names_runtime ? device->runtime : common.runtime;
        device->names_runtime = true;
    }
    return status;
}

/* Of devices that are arranged the first ones are those with the lowest numbers. */
static enum sp_status exclude_behind(struct sp_members_reader *reader, const json_t *json, const char *pointer,
                                     struct sp_cluster_parts *parts)
{
    uint32_t all = 0, count = 0, left = 0;
    for (uint32_t g = 0; g < parts->group_count; g++)
        all += parts->groups[g].count;
    bool *excluded = SP_NEW_ARRAY(reader->arena, all, bool);
    if (excluded == NULL)
        return sp_fail_memory(reader->err);
    enum sp_status status = sp_members_count(reader, json, pointer, "device_count", all, &count);
    for (uint32_t d = 0; status == SP_OK && d < all; d++) {
        excluded[d] = d >= count || (parts->excluded != NULL && parts->excluded[d]);
        left += !excluded[d];
    }
    if (status == SP_OK && left == 0)
        status = sp_members_refuse(reader, sp_members_child(reader, pointer, "exclude"), "CLUSTER_EXCLUDE",
                                   "The first %u devices are all left out; keep at least one.", count);
    if (status == SP_OK && left < all)
        parts->excluded = excluded;
    return status;
}

enum sp_status sp_cluster_parse(struct sp_arena *arena, const json_t *json, const char *pointer,
                                struct sp_cluster **ret_cluster, struct sp_error *err)
{
    struct sp_cluster_parts parts = {.launch_seconds = SP_LAUNCH_NOT_STATED};
    struct sp_members_reader reader = {arena, err};
    struct sp_cluster *cluster;
    uint32_t linkless = 0, count = 0;
    bool is_prefix = json_object_get(json, "device_count") != NULL;
    /* jansson's iterators take no const objects; nothing here changes one. */
    enum sp_status status = read_parts(&reader, (json_t *)(uintptr_t)json, pointer, &parts);

    if (status == SP_OK && is_prefix && sp_cluster_is_irregular(&parts)) {
        status = exclude_behind(&reader, json, pointer, &parts);
        is_prefix = false;
    }
    if (status != SP_OK)
        return status;
    status = sp_cluster_build(arena, &parts, &cluster, &linkless, err);
    if (status == SP_ERR_REQUEST && sp_cluster_is_wired(&parts))
        (void)sp_error_at(err, "%s/%s", pointer, parts.link_count > 0 ? "links" : "switches");
    else if (status == SP_ERR_REQUEST && json_object_get(json, "groups") != NULL)
        (void)sp_error_at(err, "%s/groups/%u/device", pointer, linkless);
    else if (status == SP_ERR_REQUEST)
        (void)sp_error_at(err, "%s/device", pointer);
    if (status != SP_OK || !is_prefix) {
        if (status == SP_OK)
            *ret_cluster = cluster;
        return status;
    }
    status = sp_members_count(&reader, json, pointer, "device_count", cluster->device_count, &count);
    if (status != SP_OK)
        return status;
    cluster = sp_cluster_prefix(arena, cluster, count);
    if (cluster == NULL)
        return sp_fail_memory(err);
    *ret_cluster = cluster;
    return SP_OK;
}
