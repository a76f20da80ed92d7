/* Hosts: the memory beside devices, and which devices share one. */
#include "cost/cluster/internal.h"

#define NODE_LEVEL "node" /* the level of a mesh whose parts have a host each, where nothing else is said */

static const struct sp_members_range figure_memory = {"a number of bytes", 1, SP_MAX_FIGURE};
static const struct sp_members_range figure_bandwidth = {"a number of bytes per second", 1, SP_MAX_FIGURE};

enum sp_status sp_cluster_parse_host(struct sp_members_reader *reader, const json_t *json, const char *pointer,
                                     struct sp_cluster_host **ret_host)
{
    static const char *const members[] = {"memory_bytes", "bandwidth", "devices"};
    json_t *entry = json_object_get(json, "host");
    const char *at = sp_members_child(reader, pointer, "host");
    struct sp_cluster_host *host;
    if (entry == NULL)
        return SP_OK;
    host = SP_NEW(reader->arena, struct sp_cluster_host);
    if (at == NULL || host == NULL)
        return sp_fail_memory(reader->err);
    enum sp_status status = sp_members_check(reader, entry, at, "A host", members, sizeof members / sizeof members[0]);
    if (status == SP_OK)
        status = sp_members_number(reader, entry, at, "memory_bytes", &figure_memory, true, &host->memory_bytes);
    if (status == SP_OK)
        status = sp_members_number(reader, entry, at, "bandwidth", &figure_bandwidth, true, &host->bandwidth);
    if (status == SP_OK && json_object_get(entry, "devices") != NULL)
        status = sp_members_count(reader, entry, at, "devices", SP_MAX_DEVICES, &host->devices);
    if (status == SP_OK)
        *ret_host = host;
    return status;
}

void sp_cluster_settle_hosts(struct sp_cluster_parts *parts)
{
    uint32_t first = 0, inner = 1;
    for (uint32_t g = 0; g < parts->group_count; first += parts->groups[g++].count) {
        struct sp_cluster_host *host = parts->groups[g].host;
        if (host != NULL)
            host->first = first;
    }
    for (uint32_t l = parts->level_count; l-- > 0; inner *= parts->levels[l].size) {
        if (parts->host != NULL && parts->host->devices == 0 && strcmp(parts->levels[l].name, NODE_LEVEL) == 0)
            parts->host->devices = inner;
    }
}

/* Which of the hosts of one description a device is beside. */
static uint32_t host_index(const struct sp_cluster *cluster, const struct sp_cluster_host *host, uint32_t device)
{
    return host->devices == 0 ? 0 : (sp_cluster_number(cluster, device) - host->first) / host->devices;
}

bool sp_cluster_place_hosts(struct sp_arena *arena, struct sp_cluster *cluster)
{
    const uint32_t count = cluster->device_count;
    bool has_any = cluster->host != NULL;
    for (uint32_t g = 0; g < cluster->group_count; g++)
        has_any = has_any || cluster->groups[g].host != NULL;
    cluster->host_of = NULL;
    cluster->host_count = 0;
    if (!has_any)
        return true;
    cluster->host_of = SP_NEW_ARRAY(arena, count, uint32_t);
    uint32_t *first = SP_NEW_ARRAY(arena, count, uint32_t); /* of each host: a device beside it */
    if (cluster->host_of == NULL || first == NULL)
        return false;
    for (uint32_t d = 0; d < count; d++) {
        const struct sp_cluster_host *host = sp_cluster_described_host(cluster, d);
        uint32_t h = 0;
        while (host != NULL && h < cluster->host_count &&
               (sp_cluster_described_host(cluster, first[h]) != host ||
                host_index(cluster, host, first[h]) != host_index(cluster, host, d)))
            h++;
        cluster->host_of[d] = host == NULL ? SP_NO_HOST : h;
        if (host != NULL && h == cluster->host_count)
            first[cluster->host_count++] = d;
    }
    return true;
}

void sp_cluster_write_host(const struct sp_cluster_host *host, struct sp_json *json)
{
    if (host == NULL)
        return;
    sp_json_key(json, "host");
    sp_json_begin_object(json);
    sp_json_member_double(json, "memory_bytes", host->memory_bytes);
    sp_json_member_double(json, "bandwidth", host->bandwidth);
    if (host->devices > 0)
        sp_json_member_int(json, "devices", host->devices);
    sp_json_end_object(json);
}
