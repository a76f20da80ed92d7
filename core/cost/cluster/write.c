/* A cluster as JSON. */
#include "cost/cluster/cluster.h"

static void write_mesh(const struct sp_cluster *cluster, struct sp_json *json)
{
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < cluster->level_count; i++) {
        const struct sp_mesh_level *level = &cluster->levels[i];
        sp_json_begin_object(json);
        sp_json_member_string(json, "name", level->name);
        sp_json_member_int(json, "size", level->size);
        sp_json_member_double(json, "bandwidth", sp_level_bandwidth(level));
        sp_json_member_double(json, "latency", sp_level_latency(level));
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
        sp_device_write(&group->device, false, json);
        if (group->device.names_runtime)
            sp_json_member_string(json, "runtime", sp_device_runtime(&group->device)->name);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
    if (mesh_devices != cluster->device_count)
        sp_json_member_int(json, "device_count", cluster->device_count);
    sp_json_key(json, "mesh");
    write_mesh(cluster, json);
    if (cluster->memory_limit_bytes > 0)
        sp_json_member_double(json, "memory_limit_bytes", cluster->memory_limit_bytes);
    if (cluster->efficiency > 0)
        sp_json_member_double(json, "efficiency", cluster->efficiency);
    if (cluster->launch_seconds >= 0)
        sp_json_member_double(json, "launch_seconds", cluster->launch_seconds);
    sp_json_end_object(json);
}
