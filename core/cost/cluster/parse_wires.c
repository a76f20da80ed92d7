/* Links between devices and the switches that they share, as a cluster states them. */
#include "cost/cluster/internal.h"

#define COUNT_OF(array) (sizeof array / sizeof array[0])

static const struct sp_members_range figure_bandwidth = {"a number of bytes per second", 1, SP_MAX_FIGURE};
static const struct sp_members_range figure_seconds = {"a number of seconds", 0, SP_MAX_SECONDS};

struct wiring {
    struct sp_members_reader *reader;
    struct sp_cluster_parts *parts;
    uint32_t device_count;
};

/* A device's number, or the name of a switch that was read before. */
static enum sp_status read_end(struct wiring *w, const json_t *item, const char *at, uint32_t *ret_end)
{
    const char *name = json_string_value(item);
    for (uint32_t s = 0; name != NULL && s < w->parts->switch_count; s++) {
        if (strcmp(w->parts->switches[s].name, name) == 0) {
            *ret_end = w->device_count + s;
            return SP_OK;
        }
    }
    if (name != NULL)
        return sp_members_refuse(w->reader, at, "CLUSTER_LINK",
                                 "There is no switch '%.200s' before this one; devices are numbers without quotes.",
                                 name);
    if (!json_is_integer(item) || json_integer_value(item) < 0 || json_integer_value(item) >= w->device_count)
        return sp_members_refuse(w->reader, at, "CLUSTER_LINK",
                                 "An end of a link is the number of a device, 0 to %u, or the name of a switch.",
                                 w->device_count - 1);
    *ret_end = (uint32_t)json_integer_value(item);
    return SP_OK;
}

/* Different ends. */
static enum sp_status read_ends(struct wiring *w, const json_t *list, const char *at, uint32_t count,
                                uint32_t *ret_ends)
{
    bool *seen = SP_NEW_ARRAY(w->reader->arena, (size_t)w->device_count + w->parts->switch_count, bool);
    if (seen == NULL)
        return sp_fail_memory(w->reader->err);
    for (uint32_t i = 0; i < count; i++) {
        const char *here = sp_members_item(w->reader, at, i);
        enum sp_status status = read_end(w, json_array_get(list, i), here, &ret_ends[i]);
        if (status != SP_OK)
            return status;
        if (seen[ret_ends[i]])
            return sp_members_refuse(w->reader, here, "CLUSTER_LINK", "This end is there twice; each counts once.");
        seen[ret_ends[i]] = true;
    }
    return SP_OK;
}

static enum sp_status read_link(struct wiring *w, json_t *json, const char *at, struct sp_cluster_wire *link)
{
    static const char *const members[] = {"between", "bandwidth", "latency"};
    const char *between = sp_members_child(w->reader, at, "between");
    const json_t *ends = json_object_get(json, "between");
    enum sp_status status = sp_members_check(w->reader, json, at, "A link", members, COUNT_OF(members));
    link->latency = SP_LINK_LATENCY;
    if (status == SP_OK && json_array_size(ends) != 2)
        status = sp_members_refuse(w->reader, between, "CLUSTER_LINK",
                                   "'between' must be an array of the two ends of the link.");
    if (status == SP_OK)
        status = read_ends(w, ends, between, 2, link->ends);
    if (status == SP_OK)
        status = sp_members_number(w->reader, json, at, "bandwidth", &figure_bandwidth, true, &link->bandwidth);
    if (status == SP_OK)
        status = sp_members_number(w->reader, json, at, "latency", &figure_seconds, false, &link->latency);
    return status;
}

static enum sp_status read_name(struct wiring *w, const json_t *json, const char *at, struct sp_cluster_switch *one)
{
    enum sp_status status = sp_members_text(w->reader, json, at, "name", SP_MAX_NAME_BYTES, &one->name);
    for (uint32_t s = 0; status == SP_OK && s < w->parts->switch_count; s++) {
        if (strcmp(w->parts->switches[s].name, one->name) == 0)
            status = sp_members_refuse(w->reader, at, "CLUSTER_NAME",
                                       "Another switch has the same name; names must differ.");
    }
    return status;
}

static enum sp_status read_switch(struct wiring *w, json_t *json, const char *at, struct sp_cluster_switch *one)
{
    static const char *const members[] = {"name", "members", "bandwidth", "member_bandwidth", "latency"};
    const char *list_at = sp_members_child(w->reader, at, "members");
    const json_t *list = json_object_get(json, "members");
    const size_t count = json_array_size(list);
    uint32_t *ends = SP_NEW_ARRAY(w->reader->arena, count, uint32_t);
    one->name = sp_arena_printf(w->reader->arena, "switch%u", w->parts->switch_count);
    one->latency = SP_HOST_LATENCY;
    if (ends == NULL || one->name == NULL)
        return sp_fail_memory(w->reader->err);
    enum sp_status status = sp_members_check(w->reader, json, at, "A switch", members, COUNT_OF(members));
    if (status == SP_OK)
        status = read_name(w, json, at, one);
    if (status == SP_OK && (count == 0 || count > SP_MAX_WIRED_DEVICES + SP_MAX_SWITCHES))
        status = sp_members_refuse(w->reader, list_at, "CLUSTER_LINK",
                                   "'members' must be an array of devices and switches, one at least.");
    if (status == SP_OK)
        status = read_ends(w, list, list_at, (uint32_t)count, ends);
    if (status == SP_OK)
        status = sp_members_number(w->reader, json, at, "bandwidth", &figure_bandwidth, true, &one->bandwidth);
    if (status == SP_OK)
        status = sp_members_number(w->reader, json, at, "member_bandwidth", &figure_bandwidth, false,
                                   &one->member_bandwidth);
    if (status == SP_OK)
        status = sp_members_number(w->reader, json, at, "latency", &figure_seconds, false, &one->latency);
    one->members = ends;
    one->member_count = (uint32_t)count;
    return status;
}

/* The array of that name; *ret_count is 0 where there is none. */
static enum sp_status find_list(struct wiring *w, const json_t *json, const char *at, const char *name, uint32_t most,
                                uint32_t *ret_count)
{
    const json_t *list = json_object_get(json, name);
    if (list == NULL)
        return SP_OK;
    if (json_array_size(list) == 0 || json_array_size(list) > most)
        return sp_members_refuse(w->reader, at, "CLUSTER_LINK", "'%s' must be an array of 1 to %u.", name, most);
    if (w->device_count > SP_MAX_WIRED_DEVICES)
        return sp_members_refuse(w->reader, at, "CLUSTER_LINK",
                                 "Links are stated one by one for at most %d devices; the cluster has %u: give it a "
                                 "mesh.",
                                 SP_MAX_WIRED_DEVICES, w->device_count);
    *ret_count = (uint32_t)json_array_size(list);
    return SP_OK;
}

enum sp_status sp_cluster_parse_wires(struct sp_members_reader *reader, const json_t *json, const char *pointer,
                                      struct sp_cluster_parts *parts)
{
    struct wiring w = {reader, parts, 0};
    const char *links_at = sp_members_child(reader, pointer, "links");
    const char *switches_at = sp_members_child(reader, pointer, "switches");
    const json_t *links = json_object_get(json, "links"), *switches = json_object_get(json, "switches");
    uint32_t link_count = 0, switch_count = 0;
    for (uint32_t g = 0; g < parts->group_count; g++)
        w.device_count += parts->groups[g].count;
    enum sp_status status = find_list(&w, json, links_at, "links", SP_MAX_WIRES, &link_count);
    if (status == SP_OK)
        status = find_list(&w, json, switches_at, "switches", SP_MAX_SWITCHES, &switch_count);
    parts->switches = SP_NEW_ARRAY(reader->arena, switch_count, struct sp_cluster_switch);
    parts->links = SP_NEW_ARRAY(reader->arena, link_count, struct sp_cluster_wire);
    if (parts->switches == NULL || parts->links == NULL)
        return sp_fail_memory(reader->err);
    for (uint32_t s = 0; status == SP_OK && s < switch_count; s++) {
        status =
            read_switch(&w, json_array_get(switches, s), sp_members_item(reader, switches_at, s), &parts->switches[s]);
        parts->switch_count++;
    }
    for (uint32_t i = 0; status == SP_OK && i < link_count; i++)
        status = read_link(&w, json_array_get(links, i), sp_members_item(reader, links_at, i), &parts->links[i]);
    parts->link_count = link_count;
    return status;
}
