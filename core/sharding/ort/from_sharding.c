/*
 * A sharding as ONNX Runtime writes it: a mesh and, per tensor axis, R or one axis of the mesh. Axes that are used as
 * they are keep their mesh; any other list gets a mesh with one axis per split tensor axis and one for replicas. Blocks
 * that are not contiguous are pieces on a mesh that repeats devices.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"
#include "sharding/dialect.h"
#include "sharding/internal.h"

struct ort_writer {
    struct sp_arena *arena;
    const struct sp_dialect_context *context;
    struct sp_losses *losses;
    struct sp_error *err;
    struct sp_ort_spec spec;
};

static int64_t extent_of(const struct ort_writer *writer, uint32_t axis)
{
    const struct sp_dialect_context *context = writer->context;
    return context == NULL || context->rank < 0 || context->shape == NULL ? -1 : context->shape[axis];
}

static enum sp_status refuse_uneven(struct ort_writer *writer, uint32_t axis, int64_t extent, int64_t shards)
{
    return sp_fail(writer->err, SP_ERR_UNSUPPORTED, "ORT_UNEVEN",
                   "Axis %" PRIu32 " has %" PRId64 " elements in %" PRId64
                   " shards; ONNX Runtime needs pieces of one size.",
                   axis, extent, shards);
}

/* Memory for a spec of this rank in which nothing is split, and a mesh. */
static enum sp_status start_spec(struct ort_writer *writer, uint32_t rank, uint32_t mesh_rank, int64_t element_count)
{
    struct sp_ort_spec *spec = &writer->spec;
    if (element_count > SP_MAX_LISTED_DEVICES) {
        (void)sp_fail_limit(writer->err, "TOO_MANY_LISTED_DEVICES", "SP_MAX_LISTED_DEVICES", SP_MAX_LISTED_DEVICES,
                            element_count, "The mesh has %" PRId64 " devices, but at most %d can be listed.",
                            element_count, SP_MAX_LISTED_DEVICES);
        return SP_ERR_LIMIT;
    }
    *spec = (struct sp_ort_spec){.rank = rank, .mesh_rank = mesh_rank, .element_count = element_count};
    spec->mesh_axes = SP_NEW_ARRAY(writer->arena, rank, int64_t);
    spec->mesh_shape = SP_NEW_ARRAY(writer->arena, mesh_rank, int64_t);
    spec->mesh_elements = SP_NEW_ARRAY(writer->arena, (size_t)element_count, int64_t);
    if (spec->mesh_axes == NULL || spec->mesh_shape == NULL || spec->mesh_elements == NULL) {
        (void)sp_fail_memory(writer->err);
        return SP_ERR_MEMORY;
    }
    for (uint32_t i = 0; i < rank; i++)
        spec->mesh_axes[i] = -1;
    return SP_OK;
}

static void list_devices(struct ort_writer *writer, const struct sp_device_order *order)
{
    for (int64_t i = 0; i < order->count; i++)
        writer->spec.mesh_elements[i] = sp_device_order_at(order, i);
}

/* ---- kinds without rank ---- */

static enum sp_status known_rank(struct ort_writer *writer, uint32_t *ret_rank)
{
    if (writer->context == NULL || writer->context->rank < 0)
        return sp_fail(writer->err, SP_ERR_REQUEST, "RANK_UNKNOWN",
                       "A spec of ONNX Runtime has one letter per axis of the tensor; give its rank or its shape.");
    *ret_rank = (uint32_t)writer->context->rank;
    return SP_OK;
}

/* Whole on one device. */
static enum sp_status write_single(struct ort_writer *writer, uint32_t rank, int64_t device)
{
    enum sp_status status = start_spec(writer, rank, 1, 1);
    if (status == SP_OK) {
        writer->spec.mesh_shape[0] = 1;
        writer->spec.mesh_elements[0] = device;
    }
    return status;
}

/* Whole on all devices of a mesh that keeps its axes; one device needs none. */
static enum sp_status write_whole_on_mesh(struct ort_writer *writer, uint32_t rank, const struct sp_mesh *mesh)
{
    if (mesh->order.count == 1)
        return write_single(writer, rank, sp_device_order_at(&mesh->order, 0));
    enum sp_status status = start_spec(writer, rank, mesh->axis_count, mesh->order.count);
    if (status != SP_OK)
        return status;
    for (uint32_t i = 0; i < mesh->axis_count; i++)
        writer->spec.mesh_shape[i] = mesh->axes[i].size;
    list_devices(writer, &mesh->order);
    return SP_OK;
}

/* Whole on whatever devices there are. */
static enum sp_status write_whole(struct ort_writer *writer, uint32_t rank)
{
    const struct sp_dialect_context *context = writer->context;
    if (context != NULL && context->mesh != NULL && !sp_mesh_is_empty(context->mesh))
        return write_whole_on_mesh(writer, rank, context->mesh);
    if (context == NULL || context->device_count <= 0)
        return sp_fail_devices_unknown(writer->err);
    enum sp_status status = start_spec(writer, rank, 1, context->device_count);
    if (status != SP_OK)
        return status;
    writer->spec.mesh_shape[0] = context->device_count;
    for (int64_t i = 0; i < context->device_count; i++)
        writer->spec.mesh_elements[i] = i;
    return SP_OK;
}

/* ---- a mesh and axes ---- */

static enum sp_status check_axes(struct ort_writer *writer, const struct sp_sharding *axes)
{
    if (sp_axes_size(&axes->partial) != 1)
        return sp_fail(writer->err, SP_ERR_UNSUPPORTED, "PARTIAL_LOST",
                       "The tensor is partial along mesh axes; ONNX Runtime has no word for that. Reduce it first.");
    if (sp_axes_size(&axes->manual) != 1)
        return sp_fail(writer->err, SP_ERR_UNSUPPORTED, "MANUAL_LOST",
                       "The tensor is manual along mesh axes; ONNX Runtime has no word for that.");
    for (uint32_t i = 0; i < axes->rank; i++) {
        int64_t shards = sp_sharding_shards(axes, i), extent = extent_of(writer, i);
        if (extent >= 0 && extent % shards != 0)
            return refuse_uneven(writer, i, extent, shards);
    }
    return SP_OK;
}

/* Whether each tensor axis is split by one whole mesh axis at most. */
static bool is_direct(const struct sp_sharding *axes)
{
    for (uint32_t i = 0; i < axes->rank; i++) {
        const struct sp_axis_list *list = &axes->dims[i].axes;
        if (list->count > 1 || (list->count == 1 && !sp_axis_is_full(axes->mesh, list->refs[0])))
            return false;
    }
    return true;
}

/* On a new mesh: an axis for each tensor axis that is split, then one for the replicas. */
static enum sp_status write_regrouped(struct ort_writer *writer, const struct sp_sharding *axes)
{
    int64_t dims[SP_MAX_RANK + 3];
    struct sp_device_order order;
    uint32_t mesh_rank = 0;
    enum sp_status status = sp_sharding_device_array(writer->arena, axes, dims, &order, writer->err);
    if (status != SP_OK)
        return status;
    int64_t replicas = dims[axes->rank + 2];
    status = start_spec(writer, axes->rank, axes->rank + 1, order.count);
    if (status != SP_OK)
        return status;
    for (uint32_t i = 0; i < axes->rank; i++) {
        if (dims[i] == 1)
            continue;
        writer->spec.mesh_axes[i] = mesh_rank;
        writer->spec.mesh_shape[mesh_rank++] = dims[i];
    }
    if (replicas > 1 || mesh_rank == 0)
        writer->spec.mesh_shape[mesh_rank++] = replicas;
    writer->spec.mesh_rank = mesh_rank;
    list_devices(writer, &order);
    return SP_OK;
}

static enum sp_status write_axes(struct ort_writer *writer, const struct sp_sharding *axes)
{
    enum sp_status status = check_axes(writer, axes);
    if (status == SP_OK)
        status = sp_note_mesh_losses(writer->arena, axes, "a spec of ONNX Runtime", writer->losses, writer->err);
    if (status != SP_OK)
        return status;
    if (sp_mesh_is_empty(axes->mesh))
        return write_whole(writer, axes->rank);
    if (!is_direct(axes))
        return write_regrouped(writer, axes);
    status = write_whole_on_mesh(writer, axes->rank, axes->mesh);
    for (uint32_t i = 0; status == SP_OK && axes->mesh->order.count > 1 && i < axes->rank; i++) {
        if (axes->dims[i].axes.count == 1)
            writer->spec.mesh_axes[i] = axes->dims[i].axes.refs[0].axis;
    }
    return status;
}

/* ---- device lists ---- */

/* A tensor axis as pieces of one size, each of which belongs to one shard of the axis. */
struct pieces {
    int64_t count;
    uint32_t *shards; /* of each piece; NULL when piece i is shard i */
};

/*
 * With the last part that is cut at m, the parts before it count single elements and those behind it are whole: so
 * there are e_0 * .. * e_{m-1} * shards_m pieces.
 */
static enum sp_status count_pieces(struct ort_writer *writer, const struct sp_block_dim *dim, uint32_t axis,
                                   int64_t *extents, uint32_t *ret_cut, int64_t *ret_count)
{
    uint32_t cut = dim->part_count;
    int64_t count = 1;
    for (uint32_t i = 0; i < dim->part_count; i++) {
        if (extents[i] >= 0 && extents[i] % dim->parts[i].shards != 0)
            return refuse_uneven(writer, axis, extents[i], dim->parts[i].shards);
        if (dim->parts[i].shards > 1)
            cut = i;
    }
    for (uint32_t i = 0; cut < dim->part_count && i <= cut; i++) {
        int64_t factor = i < cut ? extents[i] : dim->parts[i].shards;
        if (factor < 0)
            return sp_fail(writer->err, SP_ERR_REQUEST, "EXTENT_UNKNOWN",
                           "In how many pieces axis %" PRIu32 " is cut depends on its extent; give the shape.", axis);
        if (!sp_mul_i64(count, factor, &count) || count > SP_MAX_LISTED_DEVICES)
            return sp_fail_limit(writer->err, "TOO_MANY_LISTED_DEVICES", "SP_MAX_LISTED_DEVICES", SP_MAX_LISTED_DEVICES,
                                 INT64_MAX, "Axis %" PRIu32 " is cut in more than %d pieces.", axis,
                                 SP_MAX_LISTED_DEVICES);
    }
    *ret_cut = cut;
    *ret_count = count;
    return SP_OK;
}

static enum sp_status cut_axis(struct ort_writer *writer, const struct sp_block_dim *dim, uint32_t axis,
                               struct pieces *ret_pieces)
{
    int64_t extents[SP_MAX_SHARDING_AXES], extent = extent_of(writer, axis), shards = 1;
    struct pieces pieces = {0};
    uint32_t cut = 0;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; i < dim->part_count; i++) {
        extents[i] = dim->parts[i].extent > 0 ? dim->parts[i].extent : -1;
        shards *= dim->parts[i].shards;
    }
    if (extent >= 0)
        status = sp_block_extents(dim, axis, extent, extents, writer->err);
    for (uint32_t i = 0; status == SP_OK && i < dim->part_count; i++) {
        if (extents[i] == 0)
            extents[i] = dim->parts[i].shards; /* an axis without elements: any extent holds the same */
    }
    if (status == SP_OK)
        status = count_pieces(writer, dim, axis, extents, &cut, &pieces.count);
    if (status == SP_OK && pieces.count != shards) {
        pieces.shards = SP_NEW_ARRAY(writer->arena, (size_t)pieces.count, uint32_t);
        if (pieces.shards == NULL)
            return sp_fail_memory(writer->err);
        for (int64_t piece = 0; piece < pieces.count; piece++) {
            int64_t rest = piece / dim->parts[cut].shards, shard = piece % dim->parts[cut].shards;
            int64_t weight = dim->parts[cut].shards;
            for (uint32_t i = cut; i-- > 0;) {
                shard += rest % extents[i] / (extents[i] / dim->parts[i].shards) * weight;
                rest /= extents[i];
                weight *= dim->parts[i].shards;
            }
            pieces.shards[piece] = (uint32_t)shard;
        }
    }
    if (status == SP_OK)
        *ret_pieces = pieces;
    return status;
}

/* How many different devices the mesh lists. */
static enum sp_status count_devices(struct ort_writer *writer, int64_t *ret_count)
{
    size_t count = (size_t)writer->spec.element_count;
    int64_t *sorted = SP_NEW_ARRAY(writer->arena, count, int64_t);
    if (sorted == NULL)
        return sp_fail_memory(writer->err);
    memcpy(sorted, writer->spec.mesh_elements, count * sizeof *sorted);
    sp_sort(sorted, count, sizeof *sorted, sp_compare_numbers);
    *ret_count = 1;
    for (size_t i = 0; i + 1 < count; i++)
        *ret_count += sorted[i] != sorted[i + 1];
    return SP_OK;
}

/* The devices of the cells of the grid of pieces, row-major, the replicas of a cell one after the other. */
static void fill_grid(struct ort_writer *writer, const struct sp_sharding *blocks, const struct pieces *pieces,
                      uint32_t replicas)
{
    int64_t cells = writer->spec.element_count / replicas;
    for (int64_t cell = 0; cell < cells; cell++) {
        int64_t rest = cell, shard = 0, weight = 1;
        for (uint32_t axis = blocks->rank; axis-- > 0;) {
            assert(pieces[axis].count > 0);
            int64_t piece = rest % pieces[axis].count;
            rest /= pieces[axis].count;
            shard += (pieces[axis].shards == NULL ? piece : pieces[axis].shards[piece]) * weight;
            weight *= sp_sharding_shards(blocks, axis);
        }
        memcpy(writer->spec.mesh_elements + cell * replicas, blocks->devices + blocks->first[shard],
               replicas * sizeof *writer->spec.mesh_elements);
    }
}

static enum sp_status write_grid(struct ort_writer *writer, const struct sp_sharding *blocks,
                                 const struct pieces *pieces, uint32_t replicas)
{
    int64_t cells = 1, elements = 0, devices = 0;
    uint32_t mesh_rank = 0;
    for (uint32_t i = 0; i < blocks->rank; i++) {
        if (!sp_mul_i64(cells, pieces[i].count, &cells))
            cells = INT64_MAX;
    }
    if (!sp_mul_i64(cells, replicas, &elements))
        elements = INT64_MAX;
    enum sp_status status = start_spec(writer, blocks->rank, blocks->rank + 1, elements);
    if (status != SP_OK)
        return status;
    for (uint32_t i = 0; i < blocks->rank; i++) {
        if (pieces[i].count == 1)
            continue;
        writer->spec.mesh_axes[i] = mesh_rank;
        writer->spec.mesh_shape[mesh_rank++] = pieces[i].count;
    }
    if (replicas > 1 || mesh_rank == 0)
        writer->spec.mesh_shape[mesh_rank++] = replicas;
    writer->spec.mesh_rank = mesh_rank;
    fill_grid(writer, blocks, pieces, replicas);
    status = count_devices(writer, &devices);
    if (status == SP_OK && devices == 1)
        return write_single(writer, blocks->rank, blocks->devices[0]);
    if (status == SP_OK && devices < elements && mesh_rank > 1)
        return sp_fail(writer->err, SP_ERR_UNSUPPORTED, "ORT_REPEATED_DEVICES",
                       "Some device holds several pieces of the tensor; ONNX Runtime can say so only when one axis is "
                       "split and nothing is replicated.");
    return status;
}

static enum sp_status write_blocks(struct ort_writer *writer, const struct sp_sharding *sharding)
{
    struct sp_sharding *blocks = NULL;
    struct pieces pieces[SP_MAX_RANK] = {0};
    uint32_t rank = sharding->rank;
    enum sp_status status = SP_OK;
    if (sharding->first == NULL)
        return sp_fail_devices_unknown(writer->err);
    if (sharding->is_rank_open || (writer->context != NULL && writer->context->rank >= 0))
        status = known_rank(writer, &rank);
    if (status == SP_OK)
        status = sp_sharding_to_blocks(writer->arena, sharding, rank, 0, &blocks, writer->losses, writer->err);
    if (status != SP_OK)
        return status;
    uint32_t replicas = blocks->first[1] - blocks->first[0];
    for (int64_t shard = 1; shard < blocks->shard_count; shard++) {
        uint32_t holders = blocks->first[shard + 1] - blocks->first[shard];
        if (holders != replicas)
            return sp_fail(writer->err, SP_ERR_UNSUPPORTED, "UNEQUAL_DEVICE_SETS",
                           "Shard 0 is held by %" PRIu32 " devices and shard %" PRId64 " by %" PRIu32
                           "; a mesh gives each shard the same number.",
                           replicas, shard, holders);
    }
    for (uint32_t i = 0; status == SP_OK && i < rank; i++)
        status = cut_axis(writer, &blocks->blocks[i], i, &pieces[i]);
    return status == SP_OK ? write_grid(writer, blocks, pieces, replicas) : status;
}

/* ---- any kind ---- */

static enum sp_status write_sharding(struct ort_writer *writer, const struct sp_sharding *sharding)
{
    uint32_t rank = 0;
    enum sp_status status;
    switch (sharding->kind) {
    case SP_SHARDING_AXES:
        return write_axes(writer, sharding);
    case SP_SHARDING_BLOCKS:
        return write_blocks(writer, sharding);
    case SP_SHARDING_SINGLE:
        status = known_rank(writer, &rank);
        return status == SP_OK ? write_single(writer, rank, sharding->device) : status;
    case SP_SHARDING_REPLICATED:
        status = known_rank(writer, &rank);
        return status == SP_OK ? write_whole(writer, rank) : status;
    case SP_SHARDING_UNREDUCED:
        return sp_fail(writer->err, SP_ERR_UNSUPPORTED, "PARTIAL_LOST",
                       "The tensor is unreduced; ONNX Runtime has no word for that. Reduce it first.");
    case SP_SHARDING_MANUAL:
        return sp_fail(writer->err, SP_ERR_UNSUPPORTED, "MANUAL_LOST",
                       "The tensor's sharding is manual; ONNX Runtime has no word for that.");
    case SP_SHARDING_TUPLE:
        return sp_fail(writer->err, SP_ERR_UNSUPPORTED, "TUPLE_SHARDING",
                       "The sharding is a tuple of %" PRIu32 ", but a spec of ONNX Runtime is that of one tensor.",
                       sharding->element_count);
    default:
        return sp_fail(writer->err, SP_ERR_UNSUPPORTED, "UNKNOWN_LOST",
                       "The tensor's sharding is unknown, so there is nothing to write.");
    }
}

enum sp_status sp_ort_from_sharding(struct sp_arena *arena, const struct sp_sharding *sharding,
                                    const struct sp_dialect_context *context, struct sp_ort_spec *ret_spec,
                                    struct sp_losses *losses, struct sp_error *err)
{
    struct ort_writer writer = {.arena = arena, .context = context, .losses = losses, .err = err};
    enum sp_status status = SP_OK;
    if (context != NULL && sharding->kind != SP_SHARDING_TUPLE)
        status = sp_sharding_check(sharding, context->rank, context->shape, context->device_count, err);
    if (status == SP_OK)
        status = write_sharding(&writer, sharding);
    if (status == SP_OK)
        *ret_spec = writer.spec;
    return status;
}
