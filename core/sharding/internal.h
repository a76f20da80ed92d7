#pragma once
/* internal - helpers that the files of this folder share. */
#include "base/arith.h"
#include "sharding/sharding.h"

/* All lists of refs of an AXES sharding one after the other: those of its dims, then replicated, partial, manual. */
static inline uint32_t sp_sharding_list_count(const struct sp_sharding *sharding)
{
    return sharding->rank + 3;
}
static inline const struct sp_axis_list *sp_sharding_list(const struct sp_sharding *sharding, uint32_t index)
{
    if (index < sharding->rank)
        return &sharding->dims[index].axes;
    return index == sharding->rank       ? &sharding->replicated
           : index == sharding->rank + 1 ? &sharding->partial
                                         : &sharding->manual;
}

/* ceil(extent / shards) without overflow. */
static inline int64_t sp_block_size(int64_t extent, int64_t shards)
{
    return extent / shards + (extent % shards != 0);
}

/* Block `index` of an extent cut in ceil blocks; start == limit when it is empty. */
static inline struct sp_range sp_block_range(int64_t extent, int64_t shards, int64_t index)
{
    int64_t size = sp_block_size(extent, shards), start;
    if (!sp_mul_i64(index, size, &start) || start > extent)
        start = extent;
    return (struct sp_range){start, extent - start < size ? extent : start + size};
}

/* Shard `index` of a part of this extent: a block, or several that follow one another. */
static inline struct sp_range sp_part_range(const struct sp_block_part *part, int64_t extent, int64_t index)
{
    if (part->bounds == NULL)
        return sp_block_range(extent, part->shards, index);
    const int64_t *bounds = part->bounds, blocks = bounds[part->shards];
    return (struct sp_range){sp_block_range(extent, blocks, bounds[index]).start,
                             sp_block_range(extent, blocks, bounds[index + 1] - 1).limit};
}

/* The extents of an axis's parts (part_count of them, at most SP_MAX_SHARDING_AXES), the open one filled in, for an
   axis of this extent. */
enum sp_status sp_block_extents(const struct sp_block_dim *dim, uint32_t axis, int64_t extent, int64_t *ret_extents,
                                struct sp_error *err);

/* The parts of an axis of BLOCKS; none beyond the axes that are written down. */
static inline struct sp_block_dim sp_sharding_block(const struct sp_sharding *sharding, uint32_t axis)
{
    return axis < sharding->rank ? sharding->blocks[axis] : (struct sp_block_dim){0};
}

/* SP_ERR_REQUEST "RANK_MISMATCH" unless AXES or BLOCKS is for tensors of this rank. */
enum sp_status sp_sharding_check_rank(const struct sp_sharding *sharding, uint32_t rank, struct sp_error *err);

/* What the given shards of BLOCKS hold of a tensor; ranks and extents have been checked. */
enum sp_status sp_sharding_held_shards(struct sp_arena *arena, const struct sp_sharding *sharding, uint32_t rank,
                                       const int64_t *shape, const struct sp_holders *holders, struct sp_held *ret_held,
                                       struct sp_error *err);

/* Ascending order of int64_t, for qsort(). */
int sp_compare_numbers(const void *a, const void *b);

/* What only a mesh can say of an AXES sharding: open dims, priorities, explicit replication, names of axes. `form` ends
   the sentences: "a device list". */
enum sp_status sp_note_mesh_losses(struct sp_arena *arena, const struct sp_sharding *axes, const char *form,
                                   struct sp_losses *losses, struct sp_error *err);

/* "DEVICES_UNKNOWN", with the sentence. */
enum sp_status sp_fail_devices_unknown(struct sp_error *err);
