#include "sharding/mesh.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/sorted.h"

/* ---- iotas ---- */

static enum sp_status set_iota(struct sp_arena *arena, uint32_t rank, const int64_t *dims, const uint32_t *perm,
                               int64_t count, struct sp_device_order *ret_order, struct sp_error *err)
{
    int64_t *own_dims = SP_NEW_ARRAY(arena, rank, int64_t);
    uint32_t *own_perm = SP_NEW_ARRAY(arena, rank, uint32_t);
    if (own_dims == NULL || own_perm == NULL)
        return sp_fail_memory(err);
    memcpy(own_dims, dims, rank * sizeof *dims);
    memcpy(own_perm, perm, rank * sizeof *perm);
    *ret_order = (struct sp_device_order){.count = count, .rank = rank, .dims = own_dims, .perm = own_perm};
    return SP_OK;
}

enum sp_status sp_device_order_range(struct sp_arena *arena, int64_t count, struct sp_device_order *ret_order,
                                     struct sp_error *err)
{
    if (count < 0)
        return sp_fail(err, SP_ERR_MALFORMED, "BAD_DEVICE_COUNT",
                       "There cannot be %" PRId64 " devices; the number must be 0 or more.", count);
    if (count == 0) {
        *ret_order = (struct sp_device_order){0};
        return SP_OK;
    }
    return set_iota(arena, 1, &count, &(uint32_t){0}, count, ret_order, err);
}

/*
 * The canonical form of a valid iota, in place; returns its rank. Axes of size 1 say nothing, and source axes that stay
 * neighbours in the result are one axis.
 */
static uint32_t canonicalize(uint32_t rank, int64_t *dims, uint32_t *perm)
{
    uint32_t place[SP_MAX_SHARDING_AXES] = {0}; /* new number of a source axis */
    int64_t kept[SP_MAX_SHARDING_AXES] = {0};   /* its size, runs multiplied up */
    bool begins[SP_MAX_SHARDING_AXES] = {false};
    uint32_t order[SP_MAX_SHARDING_AXES] = {0}; /* source axes of the result without those of size 1, squeezed */
    uint32_t squeezed = 0, result = 0;
    for (uint32_t i = 0; i < rank; i++)
        if (dims[i] != 1) {
            place[i] = squeezed;
            kept[squeezed++] = dims[i];
        }
    for (uint32_t i = 0; i < rank; i++)
        if (dims[perm[i]] != 1)
            order[result++] = place[perm[i]];
    if (squeezed == 0) {
        dims[0] = 1;
        perm[0] = 0;
        return 1;
    }
    for (uint32_t i = 0; i < squeezed; i++)
        begins[order[i]] = i == 0 || order[i] != order[i - 1] + 1;
    uint32_t merged = 0;
    for (uint32_t i = 0; i < squeezed; i++) {
        if (begins[i])
            dims[merged++] = kept[i];
        else
            dims[merged - 1] *= kept[i];
        place[i] = merged - 1;
    }
    result = 0;
    for (uint32_t i = 0; i < squeezed; i++)
        if (begins[order[i]])
            perm[result++] = place[order[i]];
    return merged;
}

enum sp_status sp_device_order_iota(struct sp_arena *arena, uint32_t rank, const int64_t *dims, const int64_t *perm,
                                    struct sp_device_order *ret_order, struct sp_error *err)
{
    int64_t own_dims[SP_MAX_SHARDING_AXES] = {0}, count = 1;
    uint32_t own_perm[SP_MAX_SHARDING_AXES] = {0};
    bool is_used[SP_MAX_SHARDING_AXES] = {false};
    if (rank > SP_MAX_SHARDING_AXES)
        return sp_fail_limit(err, "TOO_MANY_AXES", "SP_MAX_SHARDING_AXES", SP_MAX_SHARDING_AXES, rank,
                             "An iota of devices has %" PRIu32 " dims, but at most %d are allowed.", rank,
                             SP_MAX_SHARDING_AXES);
    if (rank == 0)
        return sp_fail(err, SP_ERR_MALFORMED, "BAD_IOTA", "An iota of devices needs at least one dim, but has none.");
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] < 1)
            return sp_fail(err, SP_ERR_MALFORMED, "BAD_IOTA",
                           "Dim %" PRIu32 " of an iota of devices is %" PRId64 ", but must be 1 or more.", i, dims[i]);
        if (!sp_mul_i64(count, dims[i], &count))
            return sp_fail(err, SP_ERR_MALFORMED, "TOO_MANY_DEVICES",
                           "The dims of an iota of devices multiply to more than 2^63 - 1.");
        if (perm[i] < 0 || perm[i] >= rank || is_used[perm[i]])
            return sp_fail(err, SP_ERR_MALFORMED, "BAD_PERMUTATION",
                           "Entry %" PRIu32 " of an iota's permutation is %" PRId64 ", but each number of 0..%" PRIu32
                           " must occur exactly once.",
                           i, perm[i], rank - 1);
        is_used[perm[i]] = true;
        own_dims[i] = dims[i];
        own_perm[i] = (uint32_t)perm[i];
    }
    rank = canonicalize(rank, own_dims, own_perm);
    return set_iota(arena, rank, own_dims, own_perm, count, ret_order, err);
}

/* The steps by which the device number grows along each source axis. */
static void source_strides(const struct sp_device_order *order, int64_t *strides)
{
    int64_t stride = 1;
    for (uint32_t i = order->rank; i-- > 0;) {
        strides[i] = stride;
        stride *= order->dims[i];
    }
}

static int64_t iota_at(const struct sp_device_order *order, int64_t position)
{
    if (order->rank == 1)
        return position;
    int64_t strides[SP_MAX_SHARDING_AXES], device = 0;
    source_strides(order, strides);
    for (uint32_t i = order->rank; i-- > 0;) {
        uint32_t axis = order->perm[i];
        device += position % order->dims[axis] * strides[axis];
        position /= order->dims[axis];
    }
    return device;
}

static int64_t iota_find(const struct sp_device_order *order, int64_t device)
{
    if (order->rank == 1)
        return device;
    int64_t strides[SP_MAX_SHARDING_AXES], position = 0;
    source_strides(order, strides);
    for (uint32_t i = 0; i < order->rank; i++) {
        uint32_t axis = order->perm[i];
        position = position * order->dims[axis] + device / strides[axis] % order->dims[axis];
    }
    return position;
}

/* ---- lists ---- */

struct placed {
    int64_t device;
    uint32_t position;
};

SP_ASCENDING(compare_placed, struct placed, device, position)

/* Sorts the positions by their devices; fails on a device that stands at two of them. */
static enum sp_status index_list(struct sp_arena *arena, int64_t count, const int64_t *ids, uint32_t *by_device,
                                 struct sp_error *err)
{
    struct sp_arena_mark mark = sp_arena_mark(arena);
    struct placed *placed = SP_NEW_ARRAY(arena, (size_t)count, struct placed);
    if (placed == NULL)
        return sp_fail_memory(err);
    bool is_sorted = true;
    for (int64_t i = 0; i < count; i++) {
        placed[i] = (struct placed){ids[i], (uint32_t)i};
        is_sorted = is_sorted && (i == 0 || ids[i - 1] <= ids[i]);
    }
    if (!is_sorted)
        qsort(placed, (size_t)count, sizeof *placed, compare_placed);
    enum sp_status status = SP_OK;
    for (int64_t i = 0; i < count && status == SP_OK; i++) {
        by_device[i] = placed[i].position;
        if (i > 0 && placed[i].device == placed[i - 1].device)
            status = sp_fail(err, SP_ERR_MALFORMED, "DUPLICATE_DEVICE",
                             "Device %" PRId64 " is listed twice, at positions %" PRIu32 " and %" PRIu32
                             "; each device may be listed once.",
                             placed[i].device, placed[i - 1].position, placed[i].position);
    }
    sp_arena_rewind(arena, mark);
    return status;
}

enum sp_status sp_device_order_list(struct sp_arena *arena, int64_t count, const int64_t *ids,
                                    struct sp_device_order *ret_order, struct sp_error *err)
{
    if (count < 0)
        return sp_fail(err, SP_ERR_MALFORMED, "BAD_DEVICE_COUNT",
                       "There cannot be %" PRId64 " devices; the number must be 0 or more.", count);
    if (count > SP_MAX_LISTED_DEVICES)
        return sp_fail_limit(err, "TOO_MANY_LISTED_DEVICES", "SP_MAX_LISTED_DEVICES", SP_MAX_LISTED_DEVICES, count,
                             "%" PRId64 " devices are listed one by one, but at most %d can be.", count,
                             SP_MAX_LISTED_DEVICES);
    for (int64_t i = 0; i < count; i++)
        if (ids[i] < 0)
            return sp_fail(err, SP_ERR_MALFORMED, "NEGATIVE_DEVICE",
                           "Device %" PRId64 " at position %" PRId64 " is negative; devices are numbered from 0.",
                           ids[i], i);
    if (count == 0) {
        *ret_order = (struct sp_device_order){0};
        return SP_OK;
    }
    int64_t *own_ids = SP_NEW_ARRAY(arena, (size_t)count, int64_t);
    uint32_t *by_device = SP_NEW_ARRAY(arena, (size_t)count, uint32_t);
    if (own_ids == NULL || by_device == NULL)
        return sp_fail_memory(err);
    memcpy(own_ids, ids, (size_t)count * sizeof *ids);
    enum sp_status status = index_list(arena, count, own_ids, by_device, err);
    if (status != SP_OK)
        return status;
    *ret_order = (struct sp_device_order){.count = count, .ids = own_ids, .by_device = by_device};
    return SP_OK;
}

static int64_t list_find(const struct sp_device_order *order, int64_t device)
{
    if (order->by_device == NULL) {
        for (int64_t i = 0; i < order->count; i++)
            if (order->ids[i] == device)
                return i;
        return -1;
    }
    int64_t at;
    SP_LOWER_BOUND(at, order->count, order->ids[order->by_device[at]] < device);
    if (at < order->count && order->ids[order->by_device[at]] == device)
        return order->by_device[at];
    return -1;
}

/* ---- either form ---- */

int64_t sp_device_order_at(const struct sp_device_order *order, int64_t position)
{
    return order->ids != NULL ? order->ids[position] : iota_at(order, position);
}

int64_t sp_device_order_find(const struct sp_device_order *order, int64_t device)
{
    if (order->ids != NULL)
        return list_find(order, device);
    return device >= 0 && device < order->count ? iota_find(order, device) : -1;
}

bool sp_device_order_is_range(const struct sp_device_order *order)
{
    if (order->ids == NULL)
        return order->rank <= 1;
    for (int64_t i = 0; i < order->count; i++)
        if (order->ids[i] != i)
            return false;
    return true;
}

bool sp_device_order_is_permutation(const struct sp_device_order *order)
{
    if (order->ids == NULL)
        return true;
    for (int64_t i = 0; i < order->count; i++)
        if (order->ids[i] >= order->count)
            return false; /* they are unique, so that count numbers below count are all of them */
    return true;
}

bool sp_device_order_equal(const struct sp_device_order *a, const struct sp_device_order *b)
{
    if (a->count != b->count)
        return false;
    if (a->ids == NULL && b->ids == NULL)
        return a->rank == b->rank && (a->rank == 0 || (memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0 &&
                                                       memcmp(a->perm, b->perm, a->rank * sizeof *a->perm) == 0));
    for (int64_t i = 0; i < a->count; i++)
        if (sp_device_order_at(a, i) != sp_device_order_at(b, i))
            return false;
    return true;
}

bool sp_device_order_same_devices(const struct sp_device_order *a, const struct sp_device_order *b)
{
    if (a->count != b->count)
        return false;
    if (a->ids == NULL)
        return sp_device_order_is_permutation(b);
    for (int64_t i = 0; i < a->count; i++)
        if (sp_device_order_find(b, a->ids[i]) < 0)
            return false;
    return true;
}

/* ---- composition ---- */

/* Marks where the axes of a grid end, counted as the product of everything after them. */
static uint32_t add_borders(uint32_t rank, const int64_t *sizes, int64_t *borders, uint32_t count)
{
    int64_t border = 1;
    for (uint32_t i = rank; i-- > 0;) {
        borders[count++] = border;
        border *= sizes[i];
    }
    return count;
}

static int compare_descending(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return left < right ? 1 : left > right ? -1 : 0;
}

/* Cuts at every border, major to minor; 0 when the borders do not nest. */
static uint32_t cut_grid(int64_t total, int64_t *borders, uint32_t count, int64_t *sizes)
{
    uint32_t rank = 0;
    qsort(borders, count, sizeof *borders, compare_descending);
    for (uint32_t i = 0; i < count; i++) {
        if (borders[i] == total)
            continue;
        if (total % borders[i] != 0)
            return 0;
        sizes[rank++] = total / borders[i];
        total = borders[i];
    }
    return rank;
}

/* Where the axis of a coarse grid begins and ends among the axes of a finer one. */
static void find_pieces(uint32_t rank, const int64_t *sizes, uint32_t count, const int64_t *fine, uint32_t *starts)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < rank; i++) {
        starts[i] = at;
        for (int64_t product = 1; product < sizes[i] && at < count; at++)
            product *= fine[at];
    }
    starts[rank] = at;
}

/*
 * Both iotas on one grid: inner's source axes and outer's result axes number the same positions row-major, so their
 * common refinement lets the permutations be chained.
 */
static enum sp_status compose_iotas(struct sp_arena *arena, const struct sp_device_order *outer,
                                    const struct sp_device_order *inner, bool *ret_found,
                                    struct sp_device_order *ret_order, struct sp_error *err)
{
    int64_t result_sizes[SP_MAX_SHARDING_AXES] = {0}, borders[2 * SP_MAX_SHARDING_AXES], fine[2 * SP_MAX_SHARDING_AXES];
    uint32_t inner_starts[SP_MAX_SHARDING_AXES + 1], outer_starts[SP_MAX_SHARDING_AXES + 1];
    *ret_found = false;
    for (uint32_t i = 0; i < outer->rank; i++)
        result_sizes[i] = outer->dims[outer->perm[i]];
    uint32_t count = add_borders(inner->rank, inner->dims, borders, 0);
    count = add_borders(outer->rank, result_sizes, borders, count);
    uint32_t rank = cut_grid(inner->count, borders, count, fine);
    if (rank == 0 || rank > SP_MAX_SHARDING_AXES)
        return SP_OK;
    find_pieces(inner->rank, inner->dims, rank, fine, inner_starts);
    find_pieces(outer->rank, result_sizes, rank, fine, outer_starts);
    /* Outer's source axes, cut: the place of each fine axis among them. */
    uint32_t result_of[SP_MAX_SHARDING_AXES], source_of[SP_MAX_SHARDING_AXES], at = 0;
    int64_t dims[SP_MAX_SHARDING_AXES] = {0}, perm[SP_MAX_SHARDING_AXES] = {0};
    for (uint32_t i = 0; i < outer->rank; i++)
        result_of[outer->perm[i]] = i;
    for (uint32_t axis = 0; axis < outer->rank; axis++)
        for (uint32_t f = outer_starts[result_of[axis]]; f < outer_starts[result_of[axis] + 1]; f++) {
            source_of[f] = at;
            dims[at++] = fine[f];
        }
    at = 0;
    for (uint32_t i = 0; i < inner->rank; i++)
        for (uint32_t f = inner_starts[inner->perm[i]]; f < inner_starts[inner->perm[i] + 1]; f++)
            perm[at++] = source_of[f];
    *ret_found = true;
    return sp_device_order_iota(arena, rank, dims, perm, ret_order, err);
}

enum sp_status sp_device_order_compose(struct sp_arena *arena, const struct sp_device_order *outer,
                                       const struct sp_device_order *inner, struct sp_device_order *ret_order,
                                       struct sp_error *err)
{
    if (outer->count != inner->count)
        return sp_fail(err, SP_ERR_INTERNAL, "ORDER_MISMATCH",
                       "Orders of %" PRId64 " and %" PRId64 " devices cannot be composed.", outer->count, inner->count);
    if (sp_device_order_is_range(inner)) {
        *ret_order = *outer;
        return SP_OK;
    }
    if (outer->ids == NULL && inner->ids == NULL) {
        bool is_found;
        enum sp_status status = compose_iotas(arena, outer, inner, &is_found, ret_order, err);
        if (status != SP_OK || is_found)
            return status;
    }
    if (inner->count > SP_MAX_LISTED_DEVICES)
        return sp_fail_limit(err, "TOO_MANY_LISTED_DEVICES", "SP_MAX_LISTED_DEVICES", SP_MAX_LISTED_DEVICES,
                             inner->count,
                             "This order of %" PRId64 " devices is no iota and would have to be listed, but at most %d "
                             "devices can be.",
                             inner->count, SP_MAX_LISTED_DEVICES);
    int64_t *ids = SP_NEW_ARRAY(arena, (size_t)inner->count, int64_t);
    if (ids == NULL)
        return sp_fail_memory(err);
    for (int64_t i = 0; i < inner->count; i++)
        ids[i] = sp_device_order_at(outer, sp_device_order_at(inner, i));
    return sp_device_order_list(arena, inner->count, ids, ret_order, err);
}

/* ---- meshes ---- */

static enum sp_status copy_axes(struct sp_arena *arena, uint32_t count, const struct sp_mesh_axis *axes,
                                struct sp_mesh_axis *ret_axes, int64_t *ret_product, struct sp_error *err)
{
    int64_t product = 1;
    for (uint32_t i = 0; i < count; i++) {
        if (axes[i].name == NULL || !axes[i].name[0])
            return sp_fail(err, SP_ERR_MALFORMED, "EMPTY_AXIS_NAME", "Axis %" PRIu32 " of the mesh has no name.", i);
        if (axes[i].size < 1)
            return sp_fail(err, SP_ERR_MALFORMED, "BAD_AXIS_SIZE",
                           "axis size must be at least 1, got: %" PRId64 " (axis \"%s\" of the mesh).", axes[i].size,
                           axes[i].name);
        for (uint32_t j = 0; j < i; j++)
            if (strcmp(axes[i].name, axes[j].name) == 0)
                return sp_fail(err, SP_ERR_MALFORMED, "DUPLICATE_AXIS_NAME",
                               "duplicate axis name: \"%s\" is the name of axes %" PRIu32 " and %" PRIu32
                               " of the mesh.",
                               axes[i].name, j, i);
        if (!sp_mul_i64(product, axes[i].size, &product))
            return sp_fail(err, SP_ERR_MALFORMED, "TOO_MANY_DEVICES",
                           "The axis sizes of the mesh multiply to more than 2^63 - 1.");
        ret_axes[i].name = sp_arena_string(arena, axes[i].name, strlen(axes[i].name));
        ret_axes[i].size = axes[i].size;
        if (ret_axes[i].name == NULL)
            return sp_fail_memory(err);
    }
    *ret_product = product;
    return SP_OK;
}

enum sp_status sp_mesh_create(struct sp_arena *arena, uint32_t axis_count, const struct sp_mesh_axis *axes,
                              const struct sp_device_order *order, struct sp_mesh **ret_mesh, struct sp_error *err)
{
    if (axis_count > SP_MAX_SHARDING_AXES)
        return sp_fail_limit(err, "TOO_MANY_AXES", "SP_MAX_SHARDING_AXES", SP_MAX_SHARDING_AXES, axis_count,
                             "The mesh has %" PRIu32 " axes, but at most %d are allowed.", axis_count,
                             SP_MAX_SHARDING_AXES);
    if (axis_count == 0 && order != NULL && order->count > 1)
        return sp_fail(err, SP_ERR_MALFORMED, "BAD_MESH",
                       "axes is empty and device_ids has more than one element: %" PRId64 " devices.", order->count);
    struct sp_mesh *mesh = SP_NEW(arena, struct sp_mesh);
    struct sp_mesh_axis *own_axes = SP_NEW_ARRAY(arena, axis_count, struct sp_mesh_axis);
    if (mesh == NULL || own_axes == NULL)
        return sp_fail_memory(err);
    int64_t product = 0;
    enum sp_status status = copy_axes(arena, axis_count, axes, own_axes, &product, err);
    if (status != SP_OK)
        return status;
    *mesh = (struct sp_mesh){.axis_count = axis_count, .axes = own_axes};
    if (order != NULL)
        mesh->order = *order;
    else if (axis_count > 0)
        status = sp_device_order_range(arena, product, &mesh->order, err);
    if (status != SP_OK)
        return status;
    if (axis_count > 0 && mesh->order.count != product)
        return sp_fail(err, SP_ERR_MALFORMED, "BAD_MESH",
                       "total product of axis sizes must match total number of device ids, got: %" PRId64 " != %" PRId64
                       ".",
                       product, mesh->order.count);
    *ret_mesh = mesh;
    return SP_OK;
}

enum sp_status sp_mesh_single(struct sp_arena *arena, int64_t device, struct sp_mesh **ret_mesh, struct sp_error *err)
{
    struct sp_device_order order = {0};
    enum sp_status status = sp_device_order_list(arena, 1, &device, &order, err);
    return status == SP_OK ? sp_mesh_create(arena, 0, NULL, &order, ret_mesh, err) : status;
}

enum sp_status sp_mesh_empty(struct sp_arena *arena, struct sp_mesh **ret_mesh, struct sp_error *err)
{
    return sp_mesh_create(arena, 0, NULL, NULL, ret_mesh, err);
}

int64_t sp_mesh_find_axis(const struct sp_mesh *mesh, const char *name)
{
    for (uint32_t i = 0; i < mesh->axis_count; i++)
        if (strcmp(mesh->axes[i].name, name) == 0)
            return i;
    return -1;
}

bool sp_mesh_equal(const struct sp_mesh *a, const struct sp_mesh *b, bool names)
{
    if (a == b)
        return true;
    if (a->axis_count != b->axis_count)
        return false;
    for (uint32_t i = 0; i < a->axis_count; i++)
        if (a->axes[i].size != b->axes[i].size || (names && strcmp(a->axes[i].name, b->axes[i].name) != 0))
            return false;
    return sp_device_order_equal(&a->order, &b->order);
}
