/* Which devices a spec names, for which shards. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/sorted.h"
#include "check/annotations.h"

/* A group with its members in order and once each. */
struct group {
    int64_t key;
    uint32_t count;
    int64_t *members;
    bool is_used;
};

struct placement {
    int64_t device;
    uint32_t entry; /* of the device list */
};

struct device_check {
    struct sp_annotation_check *check;
    const struct sp_spec_check *spec;
    uint32_t group_count;
    struct group *groups; /* ascending by key */
    bool is_sound;
};

SP_ASCENDING(compare_groups, struct group, key)

SP_ASCENDING_NUMBERS(compare_numbers, int64_t)

static int compare_members(const void *a, const void *b)
{
    const struct group *left = *(const struct group *const *)a, *right = *(const struct group *const *)b;
    if (left->count != right->count)
        return left->count < right->count ? -1 : 1;
    return memcmp(left->members, right->members, left->count * sizeof *left->members);
}

SP_ASCENDING(compare_placements, struct placement, device, entry)

static struct group *find_group(const struct device_check *devices, int64_t key)
{
    const struct group wanted = {.key = key};
    return devices->group_count == 0
               ? NULL
               : bsearch(&wanted, devices->groups, devices->group_count, sizeof wanted, compare_groups);
}

/* ---- groups --------------------------------------------------------------------------------------------------- */

static enum sp_status copy_groups(struct device_check *devices)
{
    const struct sp_sharding_spec *from = devices->spec->spec;
    struct sp_arena *scratch = devices->check->scratch;
    devices->group_count = from->group_count;
    devices->groups = SP_NEW_ARRAY(scratch, from->group_count, struct group);
    if (devices->groups == NULL)
        return sp_fail_memory(devices->check->err);
    for (uint32_t i = 0; i < from->group_count; i++) {
        struct group *group = &devices->groups[i];
        *group = (struct group){.key = from->groups[i].key, .count = from->groups[i].count};
        group->members = SP_NEW_ARRAY(scratch, group->count, int64_t);
        if (group->members == NULL)
            return sp_fail_memory(devices->check->err);
        if (group->count == 0)
            continue;
        memcpy(group->members, from->groups[i].devices, group->count * sizeof *group->members);
        sp_sort(group->members, group->count, sizeof *group->members, compare_numbers);
    }
    if (from->group_count > 0)
        qsort(devices->groups, from->group_count, sizeof *devices->groups, compare_groups);
    return SP_OK;
}

static enum sp_status check_member(struct device_check *devices, const struct group *group, int64_t member)
{
    const struct sp_spec_check *spec = devices->spec;
    if (find_group(devices, member) != NULL) {
        devices->is_sound = false;
        return sp_annotation_report(devices->check, "GROUP_NESTED", spec->tensor, NULL,
                                    "Member %" PRId64 " of group %" PRId64
                                    " for '%.120s' is itself the key of a group; a group's members must be devices.",
                                    member, group->key, spec->tensor);
    }
    if (member >= 0 && (spec->device_count == 0 || member < spec->device_count))
        return SP_OK;
    devices->is_sound = false;
    if (member < 0)
        return sp_annotation_report(devices->check, "GROUP_MEMBER_OUT_OF_RANGE", spec->tensor, NULL,
                                    "Member %" PRId64 " of group %" PRId64
                                    " for '%.120s' is negative; devices are numbered from 0.",
                                    member, group->key, spec->tensor);
    return sp_annotation_report(devices->check, "GROUP_MEMBER_OUT_OF_RANGE", spec->tensor, NULL,
                                "Member %" PRId64 " of group %" PRId64
                                " for '%.120s' is out of range: num_devices is %" PRId64 ".",
                                member, group->key, spec->tensor, spec->device_count);
}

static enum sp_status check_members(struct device_check *devices, struct group *group)
{
    const struct sp_spec_check *spec = devices->spec;
    enum sp_status status = SP_OK;
    uint32_t kept = 0;
    bool is_told = false;
    if (group->count == 0) {
        devices->is_sound = false;
        return sp_annotation_report(devices->check, "GROUP_EMPTY", spec->tensor, NULL,
                                    "Group %" PRId64 " of devices for '%.120s' is empty: it has no member.", group->key,
                                    spec->tensor);
    }
    for (uint32_t i = 0; status == SP_OK && i < group->count; i++) {
        const int64_t member = group->members[i];
        const bool is_repeated = kept > 0 && group->members[kept - 1] == member;
        if (!is_repeated) {
            group->members[kept++] = member;
            status = check_member(devices, group, member);
        } else if (!is_told) {
            status = sp_annotation_report(devices->check, "GROUP_MEMBER_TWICE", spec->tensor, NULL,
                                          "Group %" PRId64 " for '%.120s' has device %" PRId64 " twice.", group->key,
                                          spec->tensor, member);
        }
        is_told = is_repeated;
    }
    group->count = kept;
    return status;
}

static enum sp_status check_groups(struct device_check *devices)
{
    const struct sp_spec_check *spec = devices->spec;
    enum sp_status status = copy_groups(devices);
    for (uint32_t i = 0; status == SP_OK && i + 1 < devices->group_count; i++) {
        const int64_t key = devices->groups[i].key;
        if (key != devices->groups[i + 1].key || (i > 0 && key == devices->groups[i - 1].key))
            continue;
        devices->is_sound = false;
        status = sp_annotation_report(devices->check, "GROUP_KEY_TWICE", spec->tensor, NULL,
                                      "The group key %" PRId64
                                      " is there twice for '%.120s'; it must stand for one group of devices.",
                                      key, spec->tensor);
    }
    for (uint32_t i = 0; status == SP_OK && i < devices->group_count; i++)
        status = check_members(devices, &devices->groups[i]);
    return status;
}

/* ---- entries of the device list ------------------------------------------------------------------------------- */

static enum sp_status check_entry(struct device_check *devices, int64_t entry)
{
    const struct sp_spec_check *spec = devices->spec;
    struct group *group = find_group(devices, entry);
    if (group != NULL) {
        group->is_used = true;
        return SP_OK;
    }
    if (entry >= 0 && (spec->device_count == 0 || entry < spec->device_count))
        return SP_OK;
    devices->is_sound = false;
    if (entry < 0)
        return sp_annotation_report(devices->check, "GROUP_MISSING", spec->tensor, NULL,
                                    "The device list for '%.120s' has %" PRId64
                                    ", but there is no group with this key, and devices are numbered from 0.",
                                    spec->tensor, entry);
    return sp_annotation_report(devices->check, "DEVICE_OUT_OF_RANGE", spec->tensor, NULL,
                                "The device list for '%.120s' has device %" PRId64 ", but num_devices is %" PRId64 ".",
                                spec->tensor, entry, spec->device_count);
}

static enum sp_status check_count(struct device_check *devices)
{
    const struct sp_spec_check *spec = devices->spec;
    const uint32_t entries = spec->spec->device_count;
    if (entries == 0 && spec->shards >= 0)
        return sp_annotation_report(
            devices->check, "PLACEMENT_OPEN", spec->tensor, NULL,
            "The device list for '%.120s' is empty, so it is open which devices hold its %" PRId64 " %s.", spec->tensor,
            spec->shards, spec->shards == 1 ? "shard" : "shards");
    if (spec->shards < 0 || spec->spec->axis_count == 0 || entries == spec->shards || entries == 0)
        return SP_OK;
    devices->is_sound = false;
    return sp_annotation_report(devices->check, entries < spec->shards ? "DEVICES_TOO_FEW" : "DEVICES_TOO_MANY",
                                spec->tensor, NULL,
                                "'%.120s' is split in %" PRId64 " shards, but its device list has %" PRIu32 " entries.",
                                spec->tensor, spec->shards, entries);
}

/* ---- devices that occur more than once ------------------------------------------------------------------------ */

static enum sp_status list_placements(struct device_check *devices, uint64_t total, struct placement **ret_items)
{
    const struct sp_sharding_spec *from = devices->spec->spec;
    struct placement *items = SP_NEW_ARRAY(devices->check->scratch, total, struct placement);
    uint64_t used = 0;
    if (items == NULL)
        return sp_fail_memory(devices->check->err);
    for (uint32_t i = 0; i < from->device_count; i++) {
        const struct group *group = find_group(devices, from->devices[i]);
        for (uint32_t m = 0; m < (group == NULL ? 1 : group->count); m++)
            items[used++] = (struct placement){group == NULL ? from->devices[i] : group->members[m], i};
    }
    *ret_items = items;
    return SP_OK;
}

/* A group makes few bytes name many devices: what all specs name so is bounded by the size of the file. */
static bool is_beyond_groups(struct device_check *devices, uint64_t total)
{
    struct sp_annotation_check *check = devices->check;
    const uint64_t entries = devices->spec->spec->device_count;
    check->group_devices += total > entries ? total - entries : 0;
    return check->group_devices > SP_FREE_GROUP_DEVICES + check->model->size;
}

/* Whether entries are all shards with some indices of each part of the axes, these next to each other. */
static bool are_neighbours(const struct sp_sharding_spec *spec, const struct placement *items, uint64_t count)
{
    uint64_t box = 1;
    int64_t stride = 1;
    for (uint32_t axis = spec->axis_count; axis-- > 0;)
        for (uint32_t i = spec->axes[axis].part_count; i-- > 0;) {
            const int64_t shards = spec->axes[axis].parts[i].num_shards;
            int64_t low = INT64_MAX, high = 0;
            for (uint64_t k = 0; k < count; k++) {
                int64_t index = items[k].entry / stride % shards;
                low = index < low ? index : low;
                high = index > high ? index : high;
            }
            box *= (uint64_t)(high - low + 1); /* at most all shards */
            stride *= shards;
        }
    return box == count;
}

/* Whether a device has all entries of one that came before, or none of them. `before` has the first placement of the
   device that came first, and 1, by entry. */
static bool is_like_another(const struct placement *items, uint64_t begin, uint64_t end, uint64_t *before)
{
    const uint64_t like = before[items[begin].entry];
    for (uint64_t i = begin; i < end; i++) {
        if (before[items[i].entry] != like)
            return false;
        if (like == 0)
            before[items[i].entry] = begin + 1;
    }
    return like == 0 || items[like - 1 + (end - begin) - 1].device == items[like - 1].device;
}

/* Whether devices have shares of unequal size: each neighbouring shards, some more than others, that no device has in
   part. */
static bool has_shares(const struct device_check *devices, const struct placement *items, uint64_t total)
{
    const struct sp_spec_check *spec = devices->spec;
    uint64_t least = total, most = 0;
    if (spec->shards < 2 || spec->spec->device_count != (uint64_t)spec->shards)
        return false;
    uint64_t *before = SP_NEW_ARRAY(devices->check->scratch, (size_t)spec->shards, uint64_t);
    if (before == NULL)
        return false; /* the next allocation fails as well */
    for (uint64_t begin = 0, end; begin < total; begin = end) {
        for (end = begin + 1; end < total && items[end].device == items[begin].device;)
            end++;
        if (!are_neighbours(spec->spec, &items[begin], end - begin) || !is_like_another(items, begin, end, before))
            return false;
        least = end - begin < least ? end - begin : least;
        most = end - begin > most ? end - begin : most;
    }
    return least < most;
}

static enum sp_status check_repeats(struct device_check *devices)
{
    const struct sp_spec_check *spec = devices->spec;
    const struct sp_sharding_spec *from = spec->spec;
    const bool is_split = from->axis_count > 0 && spec->shards != 1;
    struct placement *items = NULL;
    uint64_t total = 0;
    for (uint32_t i = 0; i < from->device_count; i++) {
        const struct group *group = find_group(devices, from->devices[i]);
        total += group == NULL ? 1 : group->count;
    }
    if (total > SP_MAX_LISTED_DEVICES)
        return sp_annotation_report(devices->check, "PLACEMENT_TOO_LARGE", spec->tensor, NULL,
                                    "The device list for '%.120s' names %" PRIu64
                                    " devices with its groups; no more than %d can be listed.",
                                    spec->tensor, total, SP_MAX_LISTED_DEVICES);
    if (is_beyond_groups(devices, total))
        return sp_annotation_report(devices->check, "PLACEMENT_TOO_LARGE", spec->tensor, NULL,
                                    "The device list for '%.120s' names %" PRIu64
                                    " devices with its groups; the specs of the model name too many in this way.",
                                    spec->tensor, total);
    enum sp_status status = list_placements(devices, total, &items);
    if (status != SP_OK || items == NULL || total == 0)
        return status;
    sp_sort(items, (size_t)total, sizeof *items, compare_placements);
    if (is_split && has_shares(devices, items, total))
        return SP_OK;
    for (uint64_t i = 0; status == SP_OK && i + 1 < total; i++) {
        if (items[i].device != items[i + 1].device || (i > 0 && items[i].device == items[i - 1].device))
            continue;
        if (is_split)
            status = sp_annotation_report(devices->check, "DEVICE_HOLDS_TWO_SHARDS", spec->tensor, NULL,
                                          "Device %" PRId64 " holds shard %" PRIu32 " and shard %" PRIu32
                                          " of '%.120s'; it keeps them one after the other.",
                                          items[i].device, items[i].entry, items[i + 1].entry, spec->tensor);
        else
            status =
                sp_annotation_report(devices->check, "DEVICE_LISTED_TWICE", spec->tensor, NULL,
                                     "Device %" PRId64 " is listed twice for '%.120s', of which it holds one copy.",
                                     items[i].device, spec->tensor);
    }
    return status;
}

/* ---- groups that say more or less than they seem to ----------------------------------------------------------- */

static enum sp_status check_spelling(struct device_check *devices)
{
    const struct sp_spec_check *spec = devices->spec;
    const uint32_t count = devices->group_count;
    struct group **sorted = SP_NEW_ARRAY(devices->check->scratch, count, struct group *);
    enum sp_status status = SP_OK;
    if (sorted == NULL)
        return sp_fail_memory(devices->check->err);
    for (uint32_t i = 0; status == SP_OK && i < count; i++) {
        struct group *group = sorted[i] = &devices->groups[i];
        if (!group->is_used)
            status = sp_annotation_report(devices->check, "GROUP_UNUSED", spec->tensor, NULL,
                                          "Group %" PRId64 " for '%.120s' is not in its device list.", group->key,
                                          spec->tensor);
        else if (group->key >= 0 && group->key < spec->device_count)
            status =
                sp_annotation_report(devices->check, "GROUP_KEY_IS_DEVICE", spec->tensor, NULL,
                                     "The key %" PRId64 " of a group for '%.120s' is also the number of a device; in "
                                     "the device list it stands for the group.",
                                     group->key, spec->tensor);
    }
    if (count > 0)
        qsort(sorted, count, sizeof sorted[0], compare_members);
    for (uint32_t i = 0; status == SP_OK && i + 1 < count; i++) {
        if (sorted[i]->count == 0 || compare_members(&sorted[i], &sorted[i + 1]) != 0)
            continue;
        const int64_t a = sorted[i]->key, b = sorted[i + 1]->key;
        status = sp_annotation_report(devices->check, "GROUP_SPELLED_TWICE", spec->tensor, NULL,
                                      "Groups %" PRId64 " and %" PRId64 " for '%.120s' have the same members.",
                                      a > b ? a : b, a > b ? b : a, spec->tensor);
    }
    return status;
}

enum sp_status sp_check_spec_devices(struct sp_annotation_check *check, const struct sp_spec_check *spec)
{
    struct device_check devices = {.check = check, .spec = spec, .is_sound = true};
    enum sp_status status = check_groups(&devices);
    for (uint32_t i = 0; status == SP_OK && i < spec->spec->device_count; i++)
        status = check_entry(&devices, spec->spec->devices[i]);
    if (status == SP_OK)
        status = check_count(&devices);
    if (status == SP_OK && devices.is_sound)
        status = check_repeats(&devices);
    if (status == SP_OK && devices.is_sound)
        status = check_spelling(&devices);
    return status;
}
