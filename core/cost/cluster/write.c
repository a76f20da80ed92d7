/* A cluster as JSON. */
#include "cost/cluster/internal.h"

static void write_mesh(uint32_t level_count, const struct sp_mesh_level *levels, struct sp_json *json)
{
    sp_json_key(json, "mesh");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < level_count; i++) {
        const struct sp_mesh_level *level = &levels[i];
        sp_json_begin_object(json);
        sp_json_member_string(json, "name", level->name);
        sp_json_member_int(json, "size", level->size);
        sp_json_member_double(json, "bandwidth", sp_level_bandwidth(level));
        sp_json_member_double(json, "latency", sp_level_latency(level));
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

static void write_group(const struct sp_device_group_spec *group, uint64_t count, struct sp_json *json)
{
    sp_json_begin_object(json);
    sp_json_member_string(json, "name", group->name);
    sp_json_member_int(json, "count", (int64_t)count);
    sp_json_key(json, "device");
    sp_device_write(&group->device, false, json);
    if (group->device.names_runtime)
        sp_json_member_string(json, "runtime", sp_device_runtime(&group->device)->name);
    if (group->reserved_bytes > 0)
        sp_json_member_double(json, "reserved_bytes", group->reserved_bytes);
    if (group->price_per_hour > 0)
        sp_json_member_double(json, "price_per_hour", group->price_per_hour);
    sp_cluster_write_host(group->host, json);
    sp_json_end_object(json);
}

/* Groups and mesh as they are. A mesh used in part: its unused rest is of the last kind; "device_count" leaves it out
   again. */
static void write_regular(const struct sp_cluster *cluster, struct sp_json *json)
{
    uint64_t mesh_devices = 1;
    for (uint32_t i = 0; i < cluster->level_count; i++)
        mesh_devices *= cluster->levels[i].size;
    sp_json_key(json, "groups");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < cluster->group_count; i++) {
        const uint64_t unused = i + 1 == cluster->group_count ? mesh_devices - cluster->device_count : 0;
        write_group(&cluster->groups[i], cluster->groups[i].count + unused, json);
    }
    sp_json_end_array(json);
    if (mesh_devices != cluster->device_count)
        sp_json_member_int(json, "device_count", cluster->device_count);
    write_mesh(cluster->level_count, cluster->levels, json);
}

/* A device by its number, a switch by its name. */
static void write_end(const struct sp_cluster_stated *stated, uint32_t end, struct sp_json *json)
{
    if (end < stated->device_count)
        sp_json_int(json, end);
    else
        sp_json_string(json, stated->switches[end - stated->device_count].name);
}

static void write_links(const struct sp_cluster_stated *stated, struct sp_json *json)
{
    sp_json_key(json, "links");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < stated->link_count; i++) {
        const struct sp_cluster_wire *link = &stated->links[i];
        sp_json_begin_object(json);
        sp_json_key(json, "between");
        sp_json_begin_array(json);
        write_end(stated, link->ends[0], json);
        write_end(stated, link->ends[1], json);
        sp_json_end_array(json);
        sp_json_member_double(json, "bandwidth", link->bandwidth);
        sp_json_member_double(json, "latency", link->latency);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

static void write_switches(const struct sp_cluster_stated *stated, struct sp_json *json)
{
    sp_json_key(json, "switches");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < stated->switch_count; i++) {
        const struct sp_cluster_switch *one = &stated->switches[i];
        sp_json_begin_object(json);
        sp_json_member_string(json, "name", one->name);
        sp_json_key(json, "members");
        sp_json_begin_array(json);
        for (uint32_t m = 0; m < one->member_count; m++)
            write_end(stated, one->members[m], json);
        sp_json_end_array(json);
        sp_json_member_double(json, "bandwidth", one->bandwidth);
        if (one->member_bandwidth > 0)
            sp_json_member_double(json, "member_bandwidth", one->member_bandwidth);
        sp_json_member_double(json, "latency", one->latency);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

/* As it was described; what the cluster has not is left out by number. */
static void write_stated(const struct sp_cluster *cluster, struct sp_json *json)
{
    const struct sp_cluster_stated *stated = cluster->stated;
    sp_json_key(json, "groups");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < stated->group_count; i++)
        write_group(&stated->groups[i], stated->groups[i].count, json);
    sp_json_end_array(json);
    if (stated->levels != NULL)
        write_mesh(stated->level_count, stated->levels, json);
    if (stated->link_count > 0)
        write_links(stated, json);
    if (stated->switch_count > 0)
        write_switches(stated, json);
    if (stated->device_count == cluster->device_count)
        return;
    sp_json_key(json, "exclude");
    sp_json_begin_array(json);
    for (uint32_t number = 0; number < stated->device_count; number++) {
        if (sp_cluster_numbered(cluster, number) == UINT32_MAX)
            sp_json_int(json, number);
    }
    sp_json_end_array(json);
}

void sp_cluster_write(const struct sp_cluster *cluster, struct sp_json *json)
{
    sp_json_begin_object(json);
    if (cluster->stated == NULL)
        write_regular(cluster, json);
    else
        write_stated(cluster, json);
    sp_cluster_write_host(cluster->host, json);
    if (cluster->memory_limit_bytes > 0)
        sp_json_member_double(json, "memory_limit_bytes", cluster->memory_limit_bytes);
    if (cluster->efficiency > 0)
        sp_json_member_double(json, "efficiency", cluster->efficiency);
    if (cluster->launch_seconds >= 0)
        sp_json_member_double(json, "launch_seconds", cluster->launch_seconds);
    sp_json_end_object(json);
}
