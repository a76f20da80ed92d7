/*
 * The record of a ShardingSpecProto to a sharding: everything that the proposals leave open is decided here (list order
 * of axes is loop order, a group is whatever has a map entry, one device entry per shard).
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"
#include "sharding/dialect.h"
#include "sharding/internal.h"

struct split_axis {
    uint32_t axis;  /* of the tensor */
    int64_t shards; /* over all its parts */
};

struct spec_reader {
    struct sp_arena *arena;
    struct sp_losses *losses;
    struct sp_error *err;
    const struct sp_sharding_spec *spec;
    int64_t rank; /* -1: unknown */

    uint32_t split_count; /* in list order */
    struct split_axis splits[SP_MAX_RANK];
    struct sp_block_dim dims[SP_MAX_RANK]; /* by tensor axis */
    uint32_t split_of[SP_MAX_RANK];        /* the split of a tensor axis, SP_MAX_RANK for none */
    uint32_t dim_count;                    /* tensor axes that are written down */
    int64_t shard_count;

    struct sp_device_group *groups; /* ascending by key; members ascending and once */
};

__attribute__((format(printf, 4, 5))) static enum sp_status refuse(struct spec_reader *reader, const char *where,
                                                                   const char *code, const char *format, ...)
{
    char message[512];
    SP_FORMAT(message, format);
    (void)sp_fail(reader->err, SP_ERR_MALFORMED, code, "%s", message);
    return sp_error_at(reader->err, "%s", where);
}

/* ---- axes ---- */

static enum sp_status check_part(struct spec_reader *reader, uint32_t index, uint32_t part_index,
                                 const struct sp_sharded_dim_part *part, bool alone)
{
    char where[96];
    (void)snprintf(where, sizeof where, "/shardedDim/%" PRIu32 "/simpleSharding/%" PRIu32, index, part_index);
    if (!part->has_shards)
        return refuse(reader, where, "SHARDS_MISSING", "Sharded dim %" PRIu32 " does not say its number of shards.",
                      index);
    if (part->num_shards < 1)
        return refuse(reader, where, "BAD_SHARDS",
                      "Sharded dim %" PRIu32 " has %" PRId64 " shards; the number must be 1 or more.", index,
                      part->num_shards);
    /* Of an axis without elements, the extent is 0 and there is nothing to divide into parts. */
    if (part->has_value && (part->dim_value < 0 || (part->dim_value == 0 && !alone)))
        return refuse(reader, where, "BAD_EXTENT",
                      "Sharded dim %" PRIu32 " has a dim_value of %" PRId64 "; an extent must be positive.", index,
                      part->dim_value);
    return SP_OK;
}

/* The parts of one sharded dim; an axis that stays whole has none. */
static enum sp_status read_parts(struct spec_reader *reader, uint32_t index, uint32_t axis)
{
    const struct sp_sharded_axis *from = &reader->spec->axes[index];
    struct sp_block_part *parts = SP_NEW_ARRAY(reader->arena, from->part_count, struct sp_block_part);
    char where[96];
    int64_t shards = 1, extent;
    uint32_t open = 0;
    (void)snprintf(where, sizeof where, "/shardedDim/%" PRIu32 "/simpleSharding", index);
    if (parts == NULL)
        return sp_fail_memory(reader->err);
    if (from->part_count == 0)
        return refuse(reader, where, "SHARDING_MISSING",
                      "Sharded dim %" PRIu32 " has no simple sharding, so it does not say how the axis is split.",
                      index);
    if (from->part_count > SP_MAX_SHARDING_AXES)
        return sp_fail_limit(reader->err, "TOO_MANY_PARTS", "SP_MAX_SHARDING_AXES", SP_MAX_SHARDING_AXES,
                             from->part_count,
                             "Sharded dim %" PRIu32 " has %" PRIu32 " simple shardings, but at most %d are allowed.",
                             index, from->part_count, SP_MAX_SHARDING_AXES);
    for (uint32_t i = 0; i < from->part_count; i++) {
        const struct sp_sharded_dim_part *part = &from->parts[i];
        enum sp_status status = check_part(reader, index, i, part, from->part_count == 1);
        if (status != SP_OK)
            return status;
        parts[i] = (struct sp_block_part){part->has_value ? part->dim_value : 0, part->dim_param, part->num_shards};
        open += parts[i].extent == 0;
        if (!sp_mul_i64(shards, part->num_shards, &shards))
            return refuse(reader, where, "TOO_MANY_SHARDS",
                          "The numbers of shards of sharded dim %" PRIu32 " multiply to more than 2^63 - 1.", index);
    }
    if (open > 1)
        return refuse(reader, where, "OPEN_PARTS",
                      "%" PRIu32 " simple shardings of sharded dim %" PRIu32
                      " have no dim_value, but only one extent can be worked out from that of the axis.",
                      open, index);
    extent = 1;
    for (uint32_t i = 0; i < from->part_count; i++) {
        if (parts[i].extent > 0 && !sp_mul_i64(extent, parts[i].extent, &extent))
            return refuse(reader, where, "PARTS_TOO_LARGE",
                          "The dim_values of sharded dim %" PRIu32 " multiply to more than 2^63 - 1.", index);
    }
    reader->splits[reader->split_count++] = (struct split_axis){axis, shards};
    reader->dims[axis] = (struct sp_block_dim){from->part_count, parts};
    return SP_OK;
}

/* The tensor axis of a sharded dim, counted from the front. */
static enum sp_status resolve_axis(struct spec_reader *reader, uint32_t index, uint32_t *ret_axis)
{
    int64_t axis = reader->spec->axes[index].axis, rank = reader->rank;
    char where[64];
    (void)snprintf(where, sizeof where, "/shardedDim/%" PRIu32 "/axis", index);
    if (axis < 0 && rank < 0) {
        (void)sp_fail(reader->err, SP_ERR_REQUEST, "RANK_UNKNOWN",
                      "Axis %" PRId64 " is counted from the back, so the rank of the tensor must be given.", axis);
        return sp_error_at(reader->err, "%s", where);
    }
    if (rank >= 0 && (axis < -rank || axis >= rank)) {
        (void)sp_fail(reader->err, SP_ERR_REQUEST, "AXIS_OUT_OF_RANGE",
                      "Axis %" PRId64 " does not exist in a tensor of rank %" PRId64 ".", axis, rank);
        return sp_error_at(reader->err, "%s", where);
    }
    if (axis >= SP_MAX_RANK) {
        (void)sp_fail_limit(reader->err, "RANK_TOO_LARGE", "SP_MAX_RANK", SP_MAX_RANK, axis,
                            "Axis %" PRId64 " is sharded, but tensors may have at most %d axes.", axis, SP_MAX_RANK);
        return sp_error_at(reader->err, "%s", where);
    }
    *ret_axis = (uint32_t)(axis < 0 ? axis + rank : axis);
    return SP_OK;
}

static enum sp_status read_axes(struct spec_reader *reader)
{
    reader->shard_count = 1;
    for (uint32_t i = 0; i < SP_MAX_RANK; i++)
        reader->split_of[i] = SP_MAX_RANK;
    for (uint32_t i = 0; i < reader->spec->axis_count; i++) {
        uint32_t axis = 0;
        char where[64];
        enum sp_status status = resolve_axis(reader, i, &axis);
        if (status != SP_OK)
            return status;
        (void)snprintf(where, sizeof where, "/shardedDim/%" PRIu32, i);
        if (reader->split_of[axis] != SP_MAX_RANK)
            return refuse(reader, where, "AXIS_TWICE",
                          "Axis %" PRIu32 " is sharded twice; each axis may be listed once.", axis);
        reader->split_of[axis] = reader->split_count;
        status = read_parts(reader, i, axis);
        if (status != SP_OK)
            return status;
        if (!sp_mul_i64(reader->shard_count, reader->splits[i].shards, &reader->shard_count))
            return refuse(reader, where, "TOO_MANY_SHARDS", "The numbers of shards multiply to more than 2^63 - 1.");
        if (axis >= reader->dim_count)
            reader->dim_count = axis + 1;
    }
    return SP_OK;
}

/* ---- groups ---- */

SP_ASCENDING(compare_groups, struct sp_device_group, key)

static const struct sp_device_group *find_group(const struct spec_reader *reader, int64_t key)
{
    struct sp_device_group wanted = {.key = key};
    return bsearch(&wanted, reader->groups, reader->spec->group_count, sizeof wanted, compare_groups);
}

/* Sorts the members of a group and drops repeated ones. */
static enum sp_status read_group(struct spec_reader *reader, struct sp_device_group *group)
{
    enum sp_status status = SP_OK;
    uint32_t kept = 0;
    if (group->count == 0)
        return refuse(reader, "/indexToDeviceGroupMap", "GROUP_EMPTY",
                      "The group of devices %" PRId64 " is empty; each group needs one device or more.", group->key);
    int64_t *members = SP_NEW_ARRAY(reader->arena, group->count, int64_t);
    if (members == NULL)
        return sp_fail_memory(reader->err);
    memcpy(members, group->devices, group->count * sizeof *members);
    sp_sort(members, group->count, sizeof *members, sp_compare_numbers);
    for (uint32_t i = 0; i < group->count; i++) {
        if (find_group(reader, members[i]) != NULL)
            return refuse(reader, "/indexToDeviceGroupMap", "GROUP_NESTED",
                          "Member %" PRId64 " of the group of devices %" PRId64
                          " is itself the key of a group; groups hold devices only.",
                          members[i], group->key);
        if (members[i] < 0)
            return refuse(reader, "/indexToDeviceGroupMap", "NEGATIVE_DEVICE",
                          "Member %" PRId64 " of the group of devices %" PRId64
                          " is negative; devices are numbered from 0.",
                          members[i], group->key);
        if (kept > 0 && members[kept - 1] == members[i])
            status = sp_losses_add(reader->arena, reader->losses, reader->err, "GROUP_MEMBER_REPEATED",
                                   "The group of devices %" PRId64 " lists device %" PRId64 " more than once.",
                                   group->key, members[i]);
        else
            members[kept++] = members[i];
        if (status != SP_OK)
            return status;
    }
    group->devices = members;
    group->count = kept;
    return SP_OK;
}

static enum sp_status read_groups(struct spec_reader *reader)
{
    uint32_t count = reader->spec->group_count;
    reader->groups = SP_NEW_ARRAY(reader->arena, count, struct sp_device_group);
    if (reader->groups == NULL)
        return sp_fail_memory(reader->err);
    for (uint32_t i = 0; i < count; i++)
        reader->groups[i] = reader->spec->groups[i];
    qsort(reader->groups, count, sizeof *reader->groups, compare_groups);
    for (uint32_t i = 0; i + 1 < count; i++) {
        if (reader->groups[i].key == reader->groups[i + 1].key)
            return refuse(reader, "/indexToDeviceGroupMap", "GROUP_KEY_TWICE",
                          "The key %" PRId64 " stands for two groups of devices; keys must differ.",
                          reader->groups[i].key);
    }
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < count; i++)
        status = read_group(reader, &reader->groups[i]);
    return status;
}

/* ---- placement ---- */

/* The entry of the device list for a shard that is numbered in the order of tensor axes: the list follows the order in
   which the axes are listed. */
static int64_t list_index(const struct spec_reader *reader, int64_t shard)
{
    int64_t index[SP_MAX_RANK] = {0}, position = 0;
    for (uint32_t axis = reader->dim_count; axis-- > 0;) {
        uint32_t split = reader->split_of[axis];
        if (split == SP_MAX_RANK)
            continue;
        index[split] = shard % reader->splits[split].shards;
        shard /= reader->splits[split].shards;
    }
    for (uint32_t i = 0; i < reader->split_count; i++)
        position = position * reader->splits[i].shards + index[i];
    return position;
}

/* How many devices an entry of the device list stands for, and which. */
static enum sp_status resolve_entry(struct spec_reader *reader, int64_t position, uint32_t *ret_count,
                                    const int64_t **ret_devices)
{
    const int64_t *entry = &reader->spec->devices[position];
    const struct sp_device_group *group = find_group(reader, *entry);
    char where[64];
    *ret_count = group == NULL ? 1 : group->count;
    *ret_devices = group == NULL ? entry : group->devices;
    if (group != NULL || *entry >= 0)
        return SP_OK;
    (void)snprintf(where, sizeof where, "/device/%" PRId64, position);
    return refuse(reader, where, "GROUP_UNKNOWN",
                  "%" PRId64 " stands in the device list, but there is no group of devices with this key, and devices "
                  "are numbered from 0.",
                  *entry);
}

static enum sp_status warn_of_repeats(struct spec_reader *reader, uint32_t count, const int64_t *devices)
{
    struct sp_arena_mark mark = sp_arena_mark(reader->arena);
    int64_t *sorted = SP_NEW_ARRAY(reader->arena, count, int64_t), repeated = -1;
    if (sorted == NULL)
        return sp_fail_memory(reader->err);
    if (count > 0)
        memcpy(sorted, devices, count * sizeof *sorted);
    sp_sort(sorted, count, sizeof *sorted, sp_compare_numbers);
    for (uint32_t i = 0; i + 1 < count && repeated < 0; i++) {
        if (sorted[i] == sorted[i + 1])
            repeated = sorted[i];
    }
    sp_arena_rewind(reader->arena, mark);
    if (repeated < 0)
        return SP_OK;
    return sp_losses_add(reader->arena, reader->losses, reader->err, "DEVICE_HOLDS_SEVERAL_SHARDS",
                         "Device %" PRId64 " holds more than one shard; it keeps them one after the other.", repeated);
}

/* One entry per shard. */
static enum sp_status place_shards(struct spec_reader *reader, struct sp_sharding *blocks)
{
    uint32_t *first = SP_NEW_ARRAY(reader->arena, reader->spec->device_count + (size_t)1, uint32_t);
    int64_t *devices, total = 0;
    if (first == NULL)
        return sp_fail_memory(reader->err);
    for (uint32_t shard = 0; shard < reader->spec->device_count; shard++) {
        uint32_t count = 0;
        const int64_t *members;
        enum sp_status status = resolve_entry(reader, list_index(reader, shard), &count, &members);
        if (status != SP_OK)
            return status;
        first[shard] = (uint32_t)total;
        total += count;
        if (total > SP_MAX_LISTED_DEVICES)
            return sp_fail_limit(reader->err, "TOO_MANY_LISTED_DEVICES", "SP_MAX_LISTED_DEVICES", SP_MAX_LISTED_DEVICES,
                                 total, "The shards are held by more than %d devices together; no more can be listed.",
                                 SP_MAX_LISTED_DEVICES);
    }
    first[reader->spec->device_count] = (uint32_t)total;
    devices = SP_NEW_ARRAY(reader->arena, (size_t)total, int64_t);
    if (devices == NULL)
        return sp_fail_memory(reader->err);
    for (uint32_t shard = 0; shard < reader->spec->device_count; shard++) {
        uint32_t count = 0;
        const int64_t *members = NULL;
        enum sp_status status = resolve_entry(reader, list_index(reader, shard), &count, &members);
        if (status != SP_OK)
            return status;
        memcpy(devices + first[shard], members, count * sizeof *devices);
    }
    blocks->first = first;
    blocks->devices = devices;
    return warn_of_repeats(reader, (uint32_t)total, devices);
}

/* Without sharded dims, the whole tensor is on every device and group that is listed. */
static enum sp_status place_whole(struct spec_reader *reader, struct sp_sharding *blocks)
{
    uint32_t *first = SP_NEW_ARRAY(reader->arena, 2, uint32_t), kept = 0;
    int64_t *devices, total = 0;
    uint32_t count = 0;
    const int64_t *members = NULL;
    for (uint32_t i = 0; i < reader->spec->device_count; i++) {
        enum sp_status status = resolve_entry(reader, i, &count, &members);
        if (status != SP_OK)
            return status;
        total += count;
        if (total > SP_MAX_LISTED_DEVICES)
            return sp_fail_limit(reader->err, "TOO_MANY_LISTED_DEVICES", "SP_MAX_LISTED_DEVICES", SP_MAX_LISTED_DEVICES,
                                 total, "The tensor is held by more than %d devices; no more can be listed.",
                                 SP_MAX_LISTED_DEVICES);
    }
    devices = SP_NEW_ARRAY(reader->arena, (size_t)total, int64_t);
    if (first == NULL || devices == NULL)
        return sp_fail_memory(reader->err);
    total = 0;
    for (uint32_t i = 0; i < reader->spec->device_count; i++) {
        enum sp_status status = resolve_entry(reader, i, &count, &members);
        if (status != SP_OK)
            return status;
        memcpy(devices + total, members, count * sizeof *devices);
        total += count;
    }
    sp_sort(devices, (size_t)total, sizeof *devices, sp_compare_numbers);
    for (int64_t i = 0; i < total; i++) {
        if (kept == 0 || devices[kept - 1] != devices[i])
            devices[kept++] = devices[i];
    }
    first[1] = kept;
    blocks->first = first;
    blocks->devices = devices;
    return SP_OK;
}

static enum sp_status place(struct spec_reader *reader, struct sp_sharding *blocks)
{
    const struct sp_sharding_spec *spec = reader->spec;
    if (spec->device_count == 0)
        return sp_losses_add(reader->arena, reader->losses, reader->err, "PLACEMENT_OPEN",
                             "The device list is empty, so it is open which devices hold the tensor.");
    if (spec->axis_count == 0)
        return place_whole(reader, blocks);
    if (spec->device_count != reader->shard_count)
        return refuse(reader, "/device", "DEVICE_COUNT",
                      "The device list has %" PRIu32 " entries for %" PRId64
                      " shards; it needs one entry per shard, and a shard on several devices needs a group.",
                      spec->device_count, reader->shard_count);
    return place_shards(reader, blocks);
}

/* ---- the whole ---- */

/* A tensor that is whole on one device is SINGLE, a split in one shard is none. */
static struct sp_sharding *finish(struct spec_reader *reader, struct sp_sharding *blocks)
{
    for (uint32_t i = 0; i < reader->split_count; i++) {
        if (reader->splits[i].shards == 1)
            blocks->blocks[reader->splits[i].axis] = (struct sp_block_dim){0};
    }
    if (blocks->shard_count == 1 && blocks->first != NULL && blocks->first[1] == 1) {
        int64_t device = blocks->devices[0];
        *blocks = (struct sp_sharding){.kind = SP_SHARDING_SINGLE, .device = device};
    }
    return blocks;
}

enum sp_status sp_onnx_spec_to_sharding(struct sp_arena *arena, const struct sp_sharding_spec *spec,
                                        const struct sp_dialect_context *context, struct sp_sharding **ret_sharding,
                                        struct sp_losses *losses, struct sp_error *err)
{
    if (context != NULL && context->rank > SP_MAX_RANK)
        return sp_fail_limit(err, "RANK_TOO_LARGE", "SP_MAX_RANK", SP_MAX_RANK, context->rank,
                             "A tensor may have at most %d axes.", SP_MAX_RANK);
    struct spec_reader *reader = SP_NEW(arena, struct spec_reader);
    struct sp_sharding *blocks = SP_NEW(arena, struct sp_sharding);
    if (reader == NULL || blocks == NULL)
        return sp_fail_memory(err);
    *reader = (struct spec_reader){
        .arena = arena, .losses = losses, .err = err, .spec = spec, .rank = context == NULL ? -1 : context->rank};
    enum sp_status status = read_axes(reader);
    if (status == SP_OK)
        status = read_groups(reader);
    if (status != SP_OK)
        return status;
    uint32_t rank = reader->rank >= 0 ? (uint32_t)reader->rank : reader->dim_count;
    *blocks = (struct sp_sharding){.kind = SP_SHARDING_BLOCKS,
                                   .rank = rank,
                                   .is_rank_open = reader->rank < 0,
                                   .blocks = SP_NEW_ARRAY(arena, rank, struct sp_block_dim),
                                   .shard_count = reader->shard_count};
    if (blocks->blocks == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < reader->dim_count; i++)
        blocks->blocks[i] = reader->dims[i];
    status = place(reader, blocks);
    if (status == SP_OK)
        status =
            sp_sharding_check(blocks, context == NULL ? -1 : context->rank, context == NULL ? NULL : context->shape,
                              context == NULL ? 0 : context->device_count, err);
    if (status == SP_OK)
        *ret_sharding = finish(reader, blocks);
    return status;
}
