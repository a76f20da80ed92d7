/*
 * Tensors and what is held of them: boxes, pieces, and ways in which they are there.
 */

#include "base/array.h"
#include "base/limits.h"
#include "partition/partition_internal.h"

uint32_t sp_part_root(const struct sp_partitioner *part, const struct sp_value *value)
{
    uint32_t tensor = sp_dataflow_tensor(part->dataflow, value);
    while (part->tensors[tensor].same_as != tensor)
        tensor = part->tensors[tensor].same_as;
    return tensor;
}

struct sp_part_tensor *sp_part_tensor(struct sp_partitioner *part, const struct sp_value *value)
{
    return &part->tensors[sp_part_root(part, value)];
}

uint32_t sp_part_rank(const struct sp_value *value)
{
    return value->type.kind == SP_TYPE_TENSOR && value->type.shape.has_rank ? value->type.shape.rank : 0;
}

int64_t sp_part_extent(const struct sp_value *value, uint32_t axis)
{
    struct sp_dim dim = value->type.shape.dims[axis];
    return sp_dim_is_known(dim) ? dim.value : -1;
}

enum sp_status sp_part_whole_box(struct sp_partitioner *part, const struct sp_value *value, struct sp_box *ret_box)
{
    uint32_t rank = sp_part_rank(value);
    struct sp_axis_ranges *axes = SP_NEW_ARRAY(part->arena, rank, struct sp_axis_ranges);
    struct sp_range *ranges = SP_NEW_ARRAY(part->arena, rank, struct sp_range);
    if (axes == NULL || ranges == NULL)
        return sp_fail_memory(part->err);
    for (uint32_t a = 0; a < rank; a++) {
        ranges[a] = (struct sp_range){0, sp_part_extent(value, a)};
        axes[a] = (struct sp_axis_ranges){ranges[a].limit != 0, &ranges[a]};
    }
    *ret_box = (struct sp_box){rank, axes, true};
    return SP_OK;
}

static bool is_whole_axis(const struct sp_axis_ranges *ranges, int64_t extent)
{
    return extent == 0 || (ranges->count == 1 && ranges->ranges[0].start == 0 && ranges->ranges[0].limit == extent);
}

bool sp_part_is_whole(const struct sp_value *value, const struct sp_axis_ranges *axes, uint32_t rank)
{
    for (uint32_t a = 0; a < rank; a++)
        if (!is_whole_axis(&axes[a], sp_part_extent(value, a)))
            return false;
    return true;
}

static bool splits_nothing(const struct sp_sharding *sharding, uint32_t rank)
{
    for (uint32_t a = 0; a < rank; a++)
        if (sp_sharding_shards(sharding, a) > 1)
            return false;
    return true;
}

enum sp_status sp_part_boxes(struct sp_partitioner *part, const struct sp_value *value,
                             const struct sp_sharding *sharding, uint32_t count, const int64_t *devices,
                             struct sp_box *ret_boxes)
{
    uint32_t rank = sp_part_rank(value);
    int64_t shape[SP_MAX_RANK];
    struct sp_box whole;
    enum sp_status status = SP_OK;
    for (uint32_t a = 0; a < rank; a++) {
        shape[a] = sp_part_extent(value, a);
        if (shape[a] < 0 && sp_sharding_shards(sharding, a) == 1)
            shape[a] = 1; /* whole, whatever it is */
    }
    if (splits_nothing(sharding, rank)) {
        status = sp_part_whole_box(part, value, &whole);
        for (uint32_t i = 0; i < count && status == SP_OK; i++)
            ret_boxes[i] = whole;
        return status;
    }
    for (uint32_t i = 0; i < count && status == SP_OK; i++) {
        struct sp_held held;
        bool is_box = true;
        status = sp_sharding_held(part->arena, sharding, rank, shape, devices[i], &held, part->err);
        if (status == SP_OK && held.shard_count > 1)
            status = sp_held_join(part->arena, &held, &is_box, part->err);
        if (status == SP_OK && !is_box)
            status = sp_fail(part->err, SP_ERR_UNSUPPORTED, "SEVERAL_SHARDS",
                             "Device %lld holds %u shards of '%.200s' that are no regular part, and what runs on one "
                             "device must have one piece of a tensor.",
                             (long long)devices[i], (unsigned)held.shard_count, value->name);
        for (uint32_t a = 0; status == SP_OK && held.shard_count > 0 && a < rank; a++)
            if (sp_part_extent(value, a) < 0)
                held.shards[a].ranges[0].limit = -1;
        if (status == SP_OK)
            ret_boxes[i] = (struct sp_box){rank, held.shards, sp_part_is_whole(value, held.shards, rank)};
    }
    return status;
}

bool sp_box_is_empty(const struct sp_box *box)
{
    for (uint32_t a = 0; a < box->rank; a++)
        if (box->axes[a].count == 0)
            return true;
    return false;
}

struct sp_piece *sp_part_piece(struct sp_partitioner *part, const char *name, int64_t device, enum sp_dtype dtype,
                               const struct sp_box *box)
{
    struct sp_piece *piece = SP_NEW(part->arena, struct sp_piece);
    char *text = sp_arena_printf(part->arena, "%.200s%s%lld.%llu", name, part->marker, (long long)device,
                                 (unsigned long long)part->next++);
    int64_t *dims = SP_NEW_ARRAY(part->arena, box->rank, int64_t);
    if (piece == NULL || text == NULL || dims == NULL)
        return NULL;
    for (uint32_t a = 0; a < box->rank; a++)
        for (uint32_t i = 0; i < box->axes[a].count; i++) {
            struct sp_range range = box->axes[a].ranges[i];
            dims[a] = range.limit < 0 || dims[a] < 0 ? -1 : dims[a] + range.limit - range.start;
        }
    *piece = (struct sp_piece){.name = text, .device = device, .dtype = dtype, .rank = box->rank, .dims = dims};
    return piece;
}

enum sp_status sp_part_hold(struct sp_partitioner *part, const struct sp_value *value,
                            const struct sp_sharding *sharding, uint32_t count, const int64_t *devices,
                            const struct sp_piece **pieces, const struct sp_box *boxes)
{
    struct sp_part_tensor *tensor = sp_part_tensor(part, value);
    struct sp_part_held *held = SP_NEW(part->arena, struct sp_part_held);
    if (held == NULL)
        return sp_fail_memory(part->err);
    *held = (struct sp_part_held){NULL, sharding, count, devices, pieces, boxes};
    if (part->body_depth > 0) {
        if (!SP_MAKE_ROOM(part->arena, part->undo, part->undo_count, part->undo_capacity, 1))
            return sp_fail_memory(part->err);
        part->undo[part->undo_count++] = (struct sp_part_undo){tensor, tensor->last};
    }
    if (tensor->last != NULL)
        tensor->last->next = held;
    else
        tensor->first = held;
    tensor->last = held;
    return SP_OK;
}
