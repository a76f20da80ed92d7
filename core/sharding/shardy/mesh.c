/* Shardy's meshes: <["x"=2, "y"=4], device_ids=[..]>. */
#include <inttypes.h>
#include <string.h>

#include "base/arith.h"
#include "base/sorted.h"
#include "sharding/shardy/internal.h"

struct mesh_parts {
    uint32_t axis_count;
    struct sp_mesh_axis axes[SP_MAX_SHARDING_AXES];
    int64_t product;
    bool has_ids;
    size_t ids_at;
    int64_t id_count;
    int64_t *ids;
};

static enum sp_status read_axis(struct sp_shardy_cursor *cursor, struct mesh_parts *parts)
{
    struct sp_mesh_axis axis;
    sp_shardy_skip(cursor);
    size_t at = cursor->at;
    if (parts->axis_count == SP_MAX_SHARDING_AXES)
        return sp_fail_limit(cursor->err, "MESH_AXES", "SP_MAX_SHARDING_AXES", SP_MAX_SHARDING_AXES,
                             SP_MAX_SHARDING_AXES + 1, "A mesh may have at most %d axes.", SP_MAX_SHARDING_AXES);
    enum sp_status status = sp_shardy_read_string(cursor, "before the name of a mesh axis", &axis.name);
    if (status == SP_OK)
        status = sp_shardy_expect(cursor, "=", "between the name and the size of a mesh axis");
    if (status == SP_OK)
        status = sp_shardy_read_int(cursor, "The size of a mesh axis", &axis.size);
    if (status != SP_OK)
        return status;
    if (axis.size < 1)
        return sp_shardy_fail(cursor, at, "The mesh is wrong: axis size must be at least 1, got: %" PRId64 ".",
                              axis.size);
    for (uint32_t i = 0; i < parts->axis_count; i++) {
        if (strcmp(parts->axes[i].name, axis.name) == 0)
            return sp_shardy_fail(cursor, at, "The mesh is wrong: duplicate axis name: \"%s\".", axis.name);
    }
    if (!sp_mul_i64(parts->product, axis.size, &parts->product))
        return sp_shardy_fail(cursor, at, "The mesh is wrong: the product of its axis sizes overflows 64 bits.");
    parts->axes[parts->axis_count++] = axis;
    return SP_OK;
}

static enum sp_status read_axes(struct sp_shardy_cursor *cursor, struct mesh_parts *parts)
{
    enum sp_status status = sp_shardy_expect(cursor, "[", "before the axes of the mesh");
    parts->axis_count = 0;
    parts->product = 1;
    if (status != SP_OK || sp_shardy_accept(cursor, "]"))
        return status;
    do
        status = read_axis(cursor, parts);
    while (status == SP_OK && sp_shardy_accept(cursor, ","));
    return status == SP_OK ? sp_shardy_expect(cursor, "]", "after the axes of the mesh") : status;
}

static enum sp_status read_ids(struct sp_shardy_cursor *cursor, struct mesh_parts *parts)
{
    enum sp_status status = sp_shardy_expect(cursor, "=", "after 'device_ids'");
    if (status == SP_OK)
        status = sp_shardy_expect(cursor, "[", "before the device ids");
    if (status != SP_OK)
        return status;
    /* Each id takes at least a digit and a comma or bracket. */
    const char *end = memchr(cursor->text + cursor->at, ']', cursor->size - cursor->at);
    size_t length = end == NULL ? 0 : (size_t)(end - (cursor->text + cursor->at));
    if (end == NULL)
        return sp_shardy_fail(cursor, cursor->at, "The list of device ids that begins here has no closing ']'.");
    parts->ids_at = cursor->at;
    parts->ids = SP_NEW_ARRAY(cursor->arena, length / 2 + 1, int64_t);
    parts->id_count = 0;
    parts->has_ids = true;
    if (parts->ids == NULL)
        return sp_fail_memory(cursor->err);
    if (sp_shardy_accept(cursor, "]"))
        return SP_OK;
    do {
        int64_t id = 0;
        sp_shardy_skip(cursor);
        size_t at = cursor->at;
        status = sp_shardy_read_int(cursor, "A device id", &id);
        if (status == SP_OK && id < 0)
            return sp_shardy_fail(cursor, at, "The mesh is wrong: device id must be non-negative, got: %" PRId64 ".",
                                  id);
        if (status == SP_OK)
            parts->ids[parts->id_count++] = id;
    } while (status == SP_OK && sp_shardy_accept(cursor, ","));
    return status == SP_OK ? sp_shardy_expect(cursor, "]", "after the device ids") : status;
}

SP_ASCENDING_NUMBERS(compare_ids, int64_t)

/* The ids must be a permutation of 0..n-1; the message lists the first few sorted ids, as Shardy lists all. */
static enum sp_status check_ids(struct sp_shardy_cursor *cursor, const struct mesh_parts *parts, bool *ret_is_range)
{
    enum { SHOWN = 8 };
    char shown[SHOWN * 24];
    size_t used = 0;
    bool is_range = true, is_permutation = true;
    int64_t *sorted = SP_NEW_ARRAY(cursor->arena, (size_t)parts->id_count, int64_t);
    if (sorted == NULL)
        return sp_fail_memory(cursor->err);
    memcpy(sorted, parts->ids, (size_t)parts->id_count * sizeof *sorted);
    qsort(sorted, (size_t)parts->id_count, sizeof *sorted, compare_ids);
    for (int64_t i = 0; i < parts->id_count; i++) {
        is_range &= parts->ids[i] == i;
        is_permutation &= sorted[i] == i;
    }
    *ret_is_range = is_range;
    if (is_permutation)
        return SP_OK;
    for (int64_t i = 0; i < parts->id_count && i < SHOWN; i++)
        used += (size_t)snprintf(shown + used, sizeof shown - used, "%s%" PRId64, i == 0 ? "" : ", ", sorted[i]);
    return sp_shardy_fail(cursor, parts->ids_at,
                          "The mesh is wrong: sorted device ids must be iota(product(axes)), got: %s%s.", shown,
                          parts->id_count > SHOWN ? ", .." : "");
}

static enum sp_status make_mesh(struct sp_shardy_cursor *cursor, const struct mesh_parts *parts,
                                struct sp_mesh **ret_mesh)
{
    struct sp_device_order order, *used_order = NULL;
    bool is_range = true;
    enum sp_status status = SP_OK;
    if (parts->axis_count == 0 && parts->has_ids && parts->id_count > 1)
        return sp_shardy_fail(cursor, parts->ids_at,
                              "The mesh is wrong: axes is empty and device_ids has more than one element.");
    if (parts->axis_count == 0 && parts->has_ids && parts->id_count == 1)
        return sp_mesh_single(cursor->arena, parts->ids[0], ret_mesh, cursor->err);
    if (parts->axis_count == 0)
        return sp_mesh_empty(cursor->arena, ret_mesh, cursor->err);
    if (parts->has_ids && parts->id_count != parts->product)
        return sp_shardy_fail(cursor, parts->ids_at,
                              "The mesh is wrong: total product of axis sizes must match total number of device ids, "
                              "got: %" PRId64 " != %" PRId64 ".",
                              parts->product, parts->id_count);
    if (parts->has_ids)
        status = check_ids(cursor, parts, &is_range);
    if (status == SP_OK && !is_range) {
        status = sp_device_order_list(cursor->arena, parts->id_count, parts->ids, &order, cursor->err);
        used_order = &order;
    }
    return status == SP_OK
               ? sp_mesh_create(cursor->arena, parts->axis_count, parts->axes, used_order, ret_mesh, cursor->err)
               : status;
}

enum sp_status sp_shardy_read_mesh_body(struct sp_shardy_cursor *cursor, struct sp_mesh **ret_mesh)
{
    struct mesh_parts *parts = SP_NEW(cursor->arena, struct mesh_parts);
    if (parts == NULL) {
        (void)sp_fail_memory(cursor->err);
        return SP_ERR_MEMORY;
    }
    enum sp_status status = sp_shardy_expect(cursor, "<", "before the mesh");
    if (status == SP_OK)
        status = read_axes(cursor, parts);
    if (status == SP_OK && sp_shardy_accept(cursor, ",")) {
        status = sp_shardy_expect(cursor, "device_ids", "after the comma behind the axes of the mesh");
        if (status == SP_OK)
            status = read_ids(cursor, parts);
    }
    if (status == SP_OK)
        status = sp_shardy_expect(cursor, ">", "at the end of the mesh");
    return status == SP_OK ? make_mesh(cursor, parts, ret_mesh) : status;
}

enum sp_status sp_shardy_read_mesh(struct sp_arena *arena, const char *text, size_t size, struct sp_mesh **ret_mesh,
                                   struct sp_error *err)
{
    struct sp_shardy_cursor cursor;
    struct sp_mesh *mesh = NULL;
    const char *name = NULL;
    enum sp_status status = sp_shardy_begin(arena, text, size, &cursor, err);
    if (status != SP_OK)
        return status;
    if (sp_shardy_accept(&cursor, "sdy.mesh")) {
        status = sp_shardy_expect(&cursor, "@", "before the name of the mesh");
        if (status == SP_OK)
            status = sp_shardy_read_symbol(&cursor, &name);
        if (status == SP_OK)
            status = sp_shardy_expect(&cursor, "=", "after the name of the mesh");
    } else if (!sp_shardy_accept(&cursor, "#sdy.mesh")) {
        (void)sp_shardy_accept(&cursor, "mesh");
    }
    if (status == SP_OK)
        status = sp_shardy_read_mesh_body(&cursor, &mesh);
    if (status == SP_OK)
        status = sp_shardy_end(&cursor);
    if (status == SP_OK) {
        mesh->name = name;
        *ret_mesh = mesh;
    }
    return status;
}

void sp_shardy_write_mesh(const struct sp_mesh *mesh, struct sp_buf *buf)
{
    sp_buf_text(buf, "<[");
    for (uint32_t i = 0; i < mesh->axis_count; i++) {
        if (i > 0)
            sp_buf_text(buf, ", ");
        sp_shardy_write_string(mesh->axes[i].name, buf);
        sp_buf_printf(buf, "=%" PRId64, mesh->axes[i].size);
    }
    sp_buf_text(buf, "]");
    if (!sp_mesh_is_empty(mesh) && (mesh->axis_count == 0 || !sp_device_order_is_range(&mesh->order))) {
        if (mesh->order.count > SP_MAX_LISTED_DEVICES) {
            buf->failed = true; /* such an order has no text in this notation */
            return;
        }
        sp_buf_text(buf, ", device_ids=[");
        for (int64_t i = 0; i < mesh->order.count; i++)
            sp_buf_printf(buf, "%s%" PRId64, i == 0 ? "" : ",", sp_device_order_at(&mesh->order, i));
        sp_buf_text(buf, "]");
    }
    sp_buf_text(buf, ">");
}
