/* Devices that a cluster names and a plan must not use. */
#include "base/utf8.h"
#include "cost/cluster/internal.h"

/* The devices of all groups whose names fit. */
static bool exclude_groups(const struct sp_cluster_parts *parts, const char *pattern, bool *excluded)
{
    bool is_known = false;
    for (uint32_t g = 0, first = 0; g < parts->group_count; first += parts->groups[g++].count) {
        if (!sp_pattern_matches(pattern, parts->groups[g].name))
            continue;
        memset(excluded + first, 1, parts->groups[g].count * sizeof *excluded);
        is_known = true;
    }
    return is_known;
}

static enum sp_status read_item(struct sp_members_reader *reader, const json_t *item, const char *at,
                                const struct sp_cluster_parts *parts, uint32_t count, bool *excluded)
{
    const char *pattern = json_string_value(item);
    if (pattern != NULL) {
        if (exclude_groups(parts, pattern, excluded))
            return SP_OK;
        return sp_members_refuse(reader, at, "CLUSTER_EXCLUDE",
                                 "No device group has a name like '%.200s'; device numbers are given without quotes.",
                                 pattern);
    }
    if (!json_is_integer(item) || json_integer_value(item) < 0 || json_integer_value(item) >= count)
        return sp_members_refuse(reader, at, "CLUSTER_EXCLUDE",
                                 "A device to leave out is a number from 0 to %u or a pattern of group names.",
                                 count - 1);
    excluded[json_integer_value(item)] = true;
    return SP_OK;
}

enum sp_status sp_cluster_parse_exclude(struct sp_members_reader *reader, const json_t *json, const char *pointer,
                                        struct sp_cluster_parts *parts)
{
    const char *at = sp_members_child(reader, pointer, "exclude");
    const json_t *list = json_object_get(json, "exclude");
    uint32_t count = 0, left = 0;
    if (list == NULL)
        return SP_OK;
    for (uint32_t g = 0; g < parts->group_count; g++)
        count += parts->groups[g].count;
    bool *excluded = SP_NEW_ARRAY(reader->arena, count, bool);
    if (at == NULL || excluded == NULL)
        return sp_fail_memory(reader->err);
    if (!json_is_array(list) || json_array_size(list) > SP_MAX_DEVICES)
        return sp_members_refuse(reader, at, "CLUSTER_EXCLUDE",
                                 "'exclude' must be an array of device numbers and patterns of group names.");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *here = sp_members_item(reader, at, i);
        enum sp_status status = read_item(reader, json_array_get(list, i), here, parts, count, excluded);
        if (status != SP_OK)
            return status;
    }
    for (uint32_t d = 0; d < count; d++)
        left += !excluded[d];
    if (left == 0)
        return sp_members_refuse(reader, at, "CLUSTER_EXCLUDE", "All devices are left out; keep at least one.");
    if (left < count)
        parts->excluded = excluded;
    return SP_OK;
}
