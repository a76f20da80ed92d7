#include <inttypes.h>

#include "sharding/convert_forms.h"
#include "sharding/internal.h"

/* ---- parts that are one split ---- */

static enum sp_status fail_not_contiguous(uint32_t axis, struct sp_error *err)
{
    return sp_fail(err, SP_ERR_UNSUPPORTED, "BLOCKS_NOT_CONTIGUOUS",
                   "The parts of axis %" PRIu32 " give each shard several separate pieces, or pieces of other sizes "
                   "than one split of the axis would; no mesh axis can say so.",
                   axis);
}

static enum sp_status fail_extent_unknown(uint32_t axis, struct sp_error *err)
{
    return sp_fail(err, SP_ERR_REQUEST, "EXTENT_UNKNOWN",
                   "Whether the parts of axis %" PRIu32 " are one split depends on its extent; give the shape.", axis);
}

/*
 * Parts are one contiguous split when the outer ones are cut in single elements, one is cut in blocks, and those inside
 * it are whole: [e in e] .. [f in s] [g in 1] .. is the axis in e * s. When s does not divide f, the last block is
 * short, which one split can only do at the very end and only with the same block size. Extents of -1 are not known.
 */
static enum sp_status join_parts(const struct sp_block_dim *dim, uint32_t axis, const int64_t *extents,
                                 struct sp_error *err)
{
    uint32_t cut = dim->part_count;
    int64_t inner = 1, outer = 1;
    for (uint32_t i = 0; i < dim->part_count; i++)
        if (extents[i] == 0)
            return SP_OK; /* nothing to hold */
    while (cut > 0 && dim->parts[cut - 1].shards == 1) {
        cut--;
        inner = extents[cut] < 0 || inner < 0 ? -1 : inner * extents[cut];
    }
    if (cut == 0)
        return SP_OK;
    cut--;
    for (uint32_t i = 0; i < cut; i++) {
        if (extents[i] < 0)
            return fail_extent_unknown(axis, err);
        if (extents[i] != dim->parts[i].shards)
            return fail_not_contiguous(axis, err);
        outer *= extents[i];
    }
    int64_t extent = extents[cut], shards = dim->parts[cut].shards;
    if (outer == 1 && inner == 1)
        return SP_OK;
    if (extent < 0 || (inner < 0 && extent % shards != 0))
        return fail_extent_unknown(axis, err);
    if (extent % shards == 0)
        return SP_OK;
    if (outer > 1 || sp_block_size(extent * inner, shards) != sp_block_size(extent, shards) * inner)
        return fail_not_contiguous(axis, err);
    return SP_OK;
}

static enum sp_status check_parts(const struct sp_sharding *blocks, uint32_t axis, const int64_t *shape,
                                  struct sp_error *err)
{
    const struct sp_block_dim *dim = &blocks->blocks[axis];
    int64_t extents[SP_MAX_SHARDING_AXES];
    if (shape != NULL && shape[axis] >= 0) {
        enum sp_status status = sp_block_extents(dim, axis, shape[axis], extents, err);
        if (status != SP_OK)
            return status;
    } else {
        for (uint32_t i = 0; i < dim->part_count; i++)
            extents[i] = dim->parts[i].extent > 0 ? dim->parts[i].extent : -1;
    }
    return join_parts(dim, axis, extents, err);
}

/* ---- meshes ---- */

static enum sp_status add_axis(struct sp_arena *arena, int64_t size, uint32_t *count, struct sp_mesh_axis *axes,
                               struct sp_error *err)
{
    const char *name = sp_arena_printf(arena, "axis_%" PRIu32, *count);
    if (name == NULL)
        return sp_fail_memory(err);
    axes[(*count)++] = (struct sp_mesh_axis){.name = name, .size = size};
    return SP_OK;
}

static enum sp_status one_ref(struct sp_arena *arena, const struct sp_mesh *mesh, uint32_t axis,
                              struct sp_axis_list *ret_list, struct sp_error *err)
{
    struct sp_axis_ref ref = sp_axis_full(mesh, axis);
    return sp_axes_copy(arena, &(struct sp_axis_list){.count = 1, .refs = &ref}, ret_list, err);
}

/* A mesh of one axis for what is the same on all devices. */
static enum sp_status flat_axes(struct sp_arena *arena, const struct sp_sharding *sharding, uint32_t rank,
                                int64_t device_count, struct sp_sharding **ret_axes, struct sp_error *err)
{
    struct sp_mesh_axis axis = {0};
    struct sp_mesh *mesh = NULL;
    struct sp_sharding *axes = NULL;
    uint32_t count = 0;
    if (device_count <= 0)
        return sp_fail_devices_unknown(err);
    enum sp_status status = add_axis(arena, device_count, &count, &axis, err);
    if (status == SP_OK)
        status = sp_mesh_create(arena, 1, &axis, NULL, &mesh, err);
    if (status == SP_OK)
        status = sp_sharding_create_axes(arena, mesh, rank, &axes, err);
    if (status == SP_OK && sharding->kind == SP_SHARDING_UNREDUCED) {
        axes->combiner = sharding->combiner;
        status = one_ref(arena, mesh, 0, &axes->partial, err);
    }
    if (status == SP_OK && sharding->kind == SP_SHARDING_MANUAL)
        status = one_ref(arena, mesh, 0, &axes->manual, err);
    if (status == SP_OK)
        *ret_axes = axes;
    return status;
}

static enum sp_status single_axes(struct sp_arena *arena, int64_t device, uint32_t rank, struct sp_sharding **ret_axes,
                                  struct sp_error *err)
{
    struct sp_mesh *mesh;
    enum sp_status status = sp_mesh_single(arena, device, &mesh, err);
    return status == SP_OK ? sp_sharding_create_axes(arena, mesh, rank, ret_axes, err) : status;
}

/* ---- from blocks ---- */

/* The devices shard by shard as an order; fails when they are no grid. */
static enum sp_status order_of_blocks(struct sp_arena *arena, const struct sp_sharding *blocks,
                                      struct sp_device_order *ret_order, struct sp_error *err)
{
    const uint32_t *first = blocks->first;
    uint32_t replicas = first[1] - first[0];
    struct sp_holders holders;
    for (int64_t shard = 1; shard < blocks->shard_count; shard++)
        if (first[shard + 1] - first[shard] != replicas)
            return sp_fail(err, SP_ERR_UNSUPPORTED, "UNEQUAL_DEVICE_SETS",
                           "Shard 0 is held by %" PRIu32 " devices and shard %" PRId64 " by %" PRIu32
                           "; a mesh gives each shard the same number.",
                           replicas, shard, first[shard + 1] - first[shard]);
    enum sp_status status = sp_sharding_holders(arena, blocks, &holders, err);
    if (status != SP_OK)
        return status;
    for (int64_t i = 1; i < holders.count; i++)
        if (holders.items[i].device == holders.items[i - 1].device)
            return sp_fail(err, SP_ERR_UNSUPPORTED, "SEVERAL_SHARDS",
                           "Device %" PRId64 " holds shards %" PRId64 " and %" PRId64
                           "; on a mesh each device holds one.",
                           holders.items[i].device, holders.items[i - 1].shard, holders.items[i].shard);
    bool is_range = true;
    for (int64_t i = 0; i < holders.count; i++)
        is_range = is_range && blocks->devices[i] == i;
    if (is_range)
        return sp_device_order_range(arena, holders.count, ret_order, err);
    return sp_device_order_list(arena, holders.count, blocks->devices, ret_order, err);
}

static enum sp_status note_block_losses(struct sp_arena *arena, const struct sp_sharding *blocks,
                                        struct sp_losses *losses, struct sp_error *err)
{
    for (uint32_t axis = 0; axis < blocks->rank; axis++)
        for (uint32_t i = 0; i < blocks->blocks[axis].part_count; i++)
            if (blocks->blocks[axis].parts[i].param != NULL)
                return sp_losses_add(arena, losses, err, "PART_SYMBOLS_LOST",
                                     "The symbol \"%s\" of axis %" PRIu32 " cannot be said on a mesh.",
                                     blocks->blocks[axis].parts[i].param, axis);
    return SP_OK;
}

static enum sp_status axes_of_blocks(struct sp_arena *arena, const struct sp_sharding *blocks, uint32_t rank,
                                     const int64_t *shape, struct sp_sharding **ret_axes, struct sp_error *err)
{
    struct sp_mesh_axis mesh_axes[SP_MAX_RANK + 1];
    struct sp_device_order order = {0};
    struct sp_mesh *mesh = NULL;
    struct sp_sharding *axes = NULL;
    uint32_t count = 0, used = 0;
    enum sp_status status = SP_OK;
    for (uint32_t axis = 0; axis < blocks->rank && status == SP_OK; axis++)
        status = check_parts(blocks, axis, shape, err);
    if (status == SP_OK)
        status = order_of_blocks(arena, blocks, &order, err);
    if (status == SP_OK && order.count == 1)
        return single_axes(arena, blocks->devices[0], rank, ret_axes, err);
    for (uint32_t axis = 0; axis < blocks->rank && status == SP_OK; axis++)
        if (sp_sharding_shards(blocks, axis) > 1)
            status = add_axis(arena, sp_sharding_shards(blocks, axis), &count, mesh_axes, err);
    if (status == SP_OK && order.count > blocks->shard_count)
        status = add_axis(arena, order.count / blocks->shard_count, &count, mesh_axes, err);
    if (status == SP_OK)
        status = sp_mesh_create(arena, count, mesh_axes, &order, &mesh, err);
    if (status == SP_OK)
        status = sp_sharding_create_axes(arena, mesh, rank, &axes, err);
    for (uint32_t axis = 0; axis < blocks->rank && status == SP_OK; axis++)
        if (sp_sharding_shards(blocks, axis) > 1)
            status = one_ref(arena, mesh, used++, &axes->dims[axis].axes, err);
    if (status == SP_OK)
        *ret_axes = axes;
    return status;
}

/* ---- any kind ---- */

enum sp_status sp_sharding_to_axes(struct sp_arena *arena, const struct sp_sharding *sharding,
                                   const struct sp_dialect_context *context, struct sp_sharding **ret_axes,
                                   struct sp_losses *losses, struct sp_error *err)
{
    const uint32_t rank = (uint32_t)context->rank;
    struct sp_sharding *copy;
    enum sp_status status = sp_sharding_check(sharding, rank, context->shape, context->device_count, err);
    if (status != SP_OK)
        return status;
    switch (sharding->kind) {
    case SP_SHARDING_AXES:
        copy = SP_NEW(arena, struct sp_sharding);
        if (copy == NULL)
            return sp_fail_memory(err);
        *copy = *sharding;
        *ret_axes = copy;
        return SP_OK;
    case SP_SHARDING_BLOCKS:
        if (sharding->first == NULL)
            return sp_fail(err, SP_ERR_REQUEST, "DEVICES_UNKNOWN",
                           "The sharding leaves open which devices hold its %" PRId64
                           " shards; a mesh needs to know them.",
                           sharding->shard_count);
        status = note_block_losses(arena, sharding, losses, err);
        return status == SP_OK ? axes_of_blocks(arena, sharding, rank, context->shape, ret_axes, err) : status;
    case SP_SHARDING_SINGLE:
        return single_axes(arena, sharding->device, rank, ret_axes, err);
    case SP_SHARDING_REPLICATED:
    case SP_SHARDING_UNREDUCED:
    case SP_SHARDING_MANUAL:
        return flat_axes(arena, sharding, rank, context->device_count, ret_axes, err);
    default:
        return sp_fail(err, SP_ERR_UNSUPPORTED, "UNKNOWN_LOST",
                       "The tensor's sharding is unknown, so it cannot be written on a mesh.");
    }
}
