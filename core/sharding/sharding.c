#include "sharding/sharding.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/sorted.h"
#include "sharding/internal.h"

enum sp_status sp_losses_add(struct sp_arena *arena, struct sp_losses *losses, struct sp_error *err, const char *code,
                             const char *format, ...)
{
    if (losses == NULL)
        return SP_OK;
    for (uint32_t i = 0; i < losses->count; i++)
        if (strcmp(losses->items[i].code, code) == 0)
            return SP_OK;
    if (!SP_MAKE_ROOM(arena, losses->items, losses->count, losses->capacity, 1))
        return sp_fail_memory(err);
    char message[SP_ERROR_MESSAGE_SIZE];
    SP_FORMAT(message, format);
    /* It quotes names of strangers, and may be cut inside a character: the same is done to it as to an error. */
    struct sp_error printable = {0};
    (void)sp_fail(&printable, SP_ERR_UNSUPPORTED, code, "%s", message);
    const char *copy = sp_arena_string(arena, printable.message, strlen(printable.message));
    if (copy == NULL)
        return sp_fail_memory(err);
    losses->items[losses->count++] = (struct sp_loss){.code = code, .message = copy};
    return SP_OK;
}

enum sp_status sp_sharding_create_axes(struct sp_arena *arena, const struct sp_mesh *mesh, uint32_t rank,
                                       struct sp_sharding **ret_sharding, struct sp_error *err)
{
    if (rank > SP_MAX_RANK)
        return sp_fail_limit(err, "RANK_TOO_LARGE", "SP_MAX_RANK", SP_MAX_RANK, rank,
                             "A sharding is for tensors of rank %" PRIu32 ", but at most %d axes are allowed.", rank,
                             SP_MAX_RANK);
    struct sp_sharding *sharding = SP_NEW(arena, struct sp_sharding);
    struct sp_dim_sharding *dims = SP_NEW_ARRAY(arena, rank, struct sp_dim_sharding);
    if (sharding == NULL || dims == NULL)
        return sp_fail_memory(err);
    *sharding = (struct sp_sharding){.kind = SP_SHARDING_AXES, .rank = rank, .mesh = mesh, .dims = dims};
    *ret_sharding = sharding;
    return SP_OK;
}

int64_t sp_sharding_shards(const struct sp_sharding *sharding, uint32_t axis)
{
    int64_t shards = 1;
    if (axis >= sharding->rank)
        return 1;
    if (sharding->kind == SP_SHARDING_AXES)
        return sp_axes_size(&sharding->dims[axis].axes);
    if (sharding->kind == SP_SHARDING_BLOCKS)
        for (uint32_t i = 0; i < sharding->blocks[axis].part_count; i++)
            if (!sp_mul_i64(shards, sharding->blocks[axis].parts[i].shards, &shards))
                return INT64_MAX;
    return shards;
}

int64_t sp_axis_coordinate(const struct sp_mesh *mesh, struct sp_axis_ref ref, int64_t position)
{
    int64_t minor = mesh->axes[ref.axis].size / (ref.pre * ref.size);
    for (uint32_t i = mesh->axis_count; i-- > ref.axis + 1;)
        position /= mesh->axes[i].size;
    return position / minor % ref.size;
}

/* ---- the largest piece ---- */

/* Elements of one block of an axis: the product of its parts' blocks. */
static int64_t block_length(const struct sp_block_dim *dim, const int64_t *extents, int64_t index)
{
    int64_t length = 1;
    for (uint32_t i = dim->part_count; i-- > 0;) {
        struct sp_range range = sp_block_range(extents[i], dim->parts[i].shards, index % dim->parts[i].shards);
        length *= range.limit - range.start;
        index /= dim->parts[i].shards;
    }
    return length;
}

/* Raises the tile to what each device with several shards holds along an axis: its different blocks, added up. */
static void add_up_axis(const struct sp_sharding *sharding, uint32_t axis, const int64_t *extents,
                        const struct sp_holders *holders, int64_t *blocks, int64_t *tile)
{
    int64_t minor = 1, own = sp_sharding_shards(sharding, axis);
    for (uint32_t i = axis + 1; i < sharding->rank; i++)
        minor *= sp_sharding_shards(sharding, i);
    const struct sp_holder *items = holders->items;
    for (int64_t begin = 0, end; begin < holders->count; begin = end) {
        for (end = begin; end < holders->count && items[end].device == items[begin].device; end++)
            blocks[end - begin] = items[end].shard / minor % own;
        if (end - begin == 1)
            continue;
        qsort(blocks, (size_t)(end - begin), sizeof *blocks, sp_compare_numbers);
        int64_t sum = 0;
        for (int64_t i = 0; i < end - begin; i++)
            if (i == 0 || blocks[i] != blocks[i - 1])
                sum += block_length(&sharding->blocks[axis], extents, blocks[i]);
        if (sum > *tile)
            *tile = sum;
    }
}

static enum sp_status tile_of_blocks(const struct sp_sharding *sharding, const int64_t *shape, int64_t *ret_tile,
                                     struct sp_error *err)
{
    enum sp_status status = SP_OK;
    struct sp_arena *scratch = sp_arena_create(NULL);
    struct sp_holders holders = {0};
    int64_t *blocks = NULL, extents[SP_MAX_SHARDING_AXES];
    if (scratch == NULL)
        return sp_fail_memory(err);
    if (sharding->first != NULL) {
        status = sp_sharding_holders(scratch, sharding, &holders, err);
        blocks = SP_NEW_ARRAY(scratch, (size_t)holders.count, int64_t);
        if (status == SP_OK && blocks == NULL)
            status = sp_fail_memory(err);
        if (status != SP_OK)
            goto cleanup;
    }
    for (uint32_t axis = 0; axis < sharding->rank; axis++) {
        status = sp_block_extents(&sharding->blocks[axis], axis, shape[axis], extents, err);
        if (status != SP_OK)
            goto cleanup;
        if (sharding->blocks[axis].part_count == 0)
            continue;
        ret_tile[axis] = block_length(&sharding->blocks[axis], extents, 0); /* no block is longer than the first */
        add_up_axis(sharding, axis, extents, &holders, blocks, &ret_tile[axis]);
    }
cleanup:
    sp_arena_destroy(scratch);
    return status;
}

enum sp_status sp_sharding_tile_shape(const struct sp_sharding *sharding, uint32_t rank, const int64_t *shape,
                                      int64_t *ret_tile, struct sp_error *err)
{
    int64_t tile[SP_MAX_RANK];
    enum sp_status status = sp_sharding_check(sharding, rank, shape, 0, err);
    if (status != SP_OK)
        return status;
    for (uint32_t i = 0; i < rank; i++) {
        if (shape[i] < 0)
            return sp_fail(err, SP_ERR_REQUEST, "EXTENT_UNKNOWN",
                           "The extent of axis %" PRIu32 " is not known, so neither is that of its pieces.", i);
        tile[i] =
            sharding->kind == SP_SHARDING_AXES ? sp_block_size(shape[i], sp_sharding_shards(sharding, i)) : shape[i];
    }
    if (sharding->kind == SP_SHARDING_BLOCKS)
        status = tile_of_blocks(sharding, shape, tile, err);
    if (status == SP_OK)
        memcpy(ret_tile, tile, rank * sizeof *tile);
    return status;
}

int sp_compare_numbers(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

SP_ASCENDING(compare_holders, struct sp_holder, device, shard)

enum sp_status sp_sharding_holders(struct sp_arena *arena, const struct sp_sharding *sharding,
                                   struct sp_holders *ret_holders, struct sp_error *err)
{
    int64_t count = sharding->first[sharding->shard_count];
    struct sp_holder *holders = SP_NEW_ARRAY(arena, (size_t)count, struct sp_holder);
    if (holders == NULL)
        return sp_fail_memory(err);
    bool is_sorted = true;
    for (int64_t shard = 0; shard < sharding->shard_count; shard++)
        for (uint32_t i = sharding->first[shard]; i < sharding->first[shard + 1]; i++) {
            holders[i] = (struct sp_holder){sharding->devices[i], shard};
            is_sorted = is_sorted && (i == 0 || holders[i - 1].device <= holders[i].device);
        }
    if (!is_sorted)
        qsort(holders, (size_t)count, sizeof *holders, compare_holders);
    *ret_holders = (struct sp_holders){count, holders};
    return SP_OK;
}
