#include "cost/cluster/cluster.h"

void sp_device_write(const struct sp_device *device, struct sp_json *json)
{
    sp_json_begin_object(json);
    sp_json_member_string(json, "name", device->name);
    sp_json_member_double(json, "memory_bytes", device->memory_bytes);
    sp_json_member_double(json, "memory_bandwidth", device->memory_bandwidth);
    if (device->permuted_bandwidth > 0)
        sp_json_member_double(json, "permuted_bandwidth", device->permuted_bandwidth);
    if (device->functions_per_second > 0)
        sp_json_member_double(json, "functions_per_second", device->functions_per_second);
    if (device->unhidden > 0)
        sp_json_member_double(json, "unhidden", device->unhidden);
    sp_json_key(json, "flops");
    sp_json_begin_object(json);
    for (int dtype = 0; dtype < SP_DTYPE_COUNT; dtype++) {
        if (device->flops[dtype] > 0)
            sp_json_member_double(json, sp_dtype_name(dtype), device->flops[dtype]);
    }
    sp_json_end_object(json);
    sp_json_member_double(json, "link_bandwidth", device->link_bandwidth);
    sp_json_member_double(json, "link_latency", device->link_latency);
    sp_json_member_double(json, "host_bandwidth", device->host_bandwidth);
    sp_json_member_double(json, "watts", device->watts);
    if (device->source != NULL && device->source[0] != '\0')
        sp_json_member_string(json, "source", device->source);
    sp_json_end_object(json);
}

static void write_mesh(const struct sp_cluster *cluster, struct sp_json *json)
{
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < cluster->level_count; i++) {
        const struct sp_mesh_level *level = &cluster->levels[i];
        sp_json_begin_object(json);
        sp_json_member_string(json, "name", level->name);
        sp_json_member_int(json, "size", level->size);
        sp_json_member_double(json, "bandwidth", level->bandwidth);
        sp_json_member_double(json, "latency", level->latency);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

void sp_cluster_write(const struct sp_cluster *cluster, struct sp_json *json)
{
    uint64_t mesh_devices = 1;

    for (uint32_t i = 0; i < cluster->level_count; i++)
        mesh_devices *= cluster->levels[i].size;

    sp_json_begin_object(json);
    sp_json_key(json, "groups");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < cluster->group_count; i++) {
        const struct sp_device_group_spec *group = &cluster->groups[i];
        uint64_t count = group->count;
        /* A mesh used in part: its unused rest is of the last kind; "device_count" leaves it out again. */
        if (i + 1 == cluster->group_count)
            count += mesh_devices - cluster->device_count;
        sp_json_begin_object(json);
        sp_json_member_string(json, "name", group->name);
        sp_json_member_int(json, "count", (int64_t)count);
        sp_json_key(json, "device");
        sp_device_write(&group->device, json);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
    if (mesh_devices != cluster->device_count)
        sp_json_member_int(json, "device_count", cluster->device_count);
    sp_json_key(json, "mesh");
    write_mesh(cluster, json);
    if (cluster->memory_limit_bytes > 0)
        sp_json_member_double(json, "memory_limit_bytes", cluster->memory_limit_bytes);
    sp_json_member_double(json, "efficiency", cluster->efficiency);
    sp_json_member_double(json, "launch_seconds", cluster->launch_seconds);
    sp_json_end_object(json);
}
