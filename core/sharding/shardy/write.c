/* Shardy's tensor shardings as text. */
#include <inttypes.h>
#include <string.h>

#include "sharding/shardy/internal.h"

static void write_ref(const struct sp_mesh *mesh, struct sp_axis_ref ref, struct sp_buf *buf)
{
    sp_shardy_write_string(mesh->axes[ref.axis].name, buf);
    if (!sp_axis_is_full(mesh, ref))
        sp_buf_printf(buf, ":(%" PRId64 ")%" PRId64, ref.pre, ref.size);
}

static void write_refs(const struct sp_mesh *mesh, const struct sp_axis_list *list, struct sp_buf *buf)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (i > 0)
            sp_buf_text(buf, ", ");
        write_ref(mesh, list->refs[i], buf);
    }
}

static void write_dims(const struct sp_sharding *sharding, struct sp_buf *buf)
{
    sp_buf_text(buf, "[");
    for (uint32_t i = 0; i < sharding->rank; i++) {
        const struct sp_dim_sharding *dim = &sharding->dims[i];
        sp_buf_text(buf, i > 0 ? ", {" : "{");
        write_refs(sharding->mesh, &dim->axes, buf);
        if (dim->is_open)
            sp_buf_text(buf, dim->axes.count > 0 ? ", ?" : "?");
        sp_buf_text(buf, "}");
        if (dim->has_priority)
            sp_buf_printf(buf, "p%" PRId64, dim->priority);
    }
    sp_buf_text(buf, "]");
}

static void write_attributes(const struct sp_sharding *sharding, struct sp_buf *buf)
{
    if (sharding->replicated.count > 0) {
        sp_buf_text(buf, ", replicated={");
        write_refs(sharding->mesh, &sharding->replicated, buf);
        sp_buf_text(buf, "}");
    }
    if (sharding->partial.count > 0) {
        sp_buf_text(buf, ", unreduced=");
        if (sharding->combiner == SP_COMBINE_MAX)
            sp_buf_text(buf, "max");
        else if (sharding->combiner == SP_COMBINE_MIN)
            sp_buf_text(buf, "min");
        sp_buf_text(buf, "{");
        write_refs(sharding->mesh, &sharding->partial, buf);
        sp_buf_text(buf, "}");
    }
}

/* The device of a sharding that Shardy calls maximal: one device, which alone may be another than 0. */
static bool is_maximal(const struct sp_sharding *sharding, int64_t *ret_device)
{
    if (sharding->kind == SP_SHARDING_SINGLE) {
        *ret_device = sharding->device;
        return true;
    }
    const struct sp_mesh *mesh = sharding->mesh;
    *ret_device = mesh->order.count == 1 ? sp_device_order_at(&mesh->order, 0) : 0;
    return sp_mesh_is_single(mesh) || (mesh->order.count == 1 && *ret_device != 0);
}

static enum sp_status check_axes(const struct sp_sharding *sharding, struct sp_error *err)
{
    const struct sp_device_order *order = &sharding->mesh->order;
    if (sharding->manual.count > 0)
        return sp_fail(err, SP_ERR_UNSUPPORTED, "MANUAL_LOST",
                       "The sharding has manual axes, for which a Shardy sharding has no word: there they belong to "
                       "the surrounding manual computation.");
    if (!sp_device_order_is_permutation(order))
        return sp_fail(err, SP_ERR_UNSUPPORTED, "SHARDY_DEVICES",
                       "The devices of the mesh are not 0 to %" PRId64 "; a mesh of Shardy with several devices holds "
                       "exactly those.",
                       order->count - 1);
    if (order->count > SP_MAX_LISTED_DEVICES && !sp_device_order_is_range(order))
        return sp_fail_limit(err, "TOO_MANY_LISTED_DEVICES", "SP_MAX_LISTED_DEVICES", SP_MAX_LISTED_DEVICES,
                             order->count,
                             "The mesh has %" PRId64 " devices in an order of their own, but at most %d can be listed.",
                             order->count, SP_MAX_LISTED_DEVICES);
    return SP_OK;
}

enum sp_status sp_shardy_write_body(const struct sp_sharding *sharding, bool inline_mesh, struct sp_buf *buf,
                                    struct sp_error *err)
{
    int64_t device;
    if (sharding->kind != SP_SHARDING_AXES && sharding->kind != SP_SHARDING_SINGLE)
        return sp_fail(err, SP_ERR_UNSUPPORTED, "SHARDY_KIND",
                       "Only shardings over the axes of a mesh and shardings on one device can be written in Shardy's "
                       "notation.");
    if (is_maximal(sharding, &device)) {
        if (inline_mesh)
            sp_buf_printf(buf, "<mesh<[], device_ids=[%" PRId64 "]>, []>", device);
        else
            sp_buf_printf(buf, "<@maximal_mesh_%" PRId64 ", []>", device);
        return SP_OK;
    }
    enum sp_status status = check_axes(sharding, err);
    if (status != SP_OK)
        return status;
    sp_buf_text(buf, "<");
    if (inline_mesh) {
        sp_buf_text(buf, "mesh");
        sp_shardy_write_mesh(sharding->mesh, buf);
    } else {
        sp_shardy_write_symbol(sharding->mesh->name == NULL ? "mesh" : sharding->mesh->name, buf);
    }
    sp_buf_text(buf, ", ");
    write_dims(sharding, buf);
    write_attributes(sharding, buf);
    sp_buf_text(buf, ">");
    return SP_OK;
}

void sp_shardy_write_definition(const struct sp_sharding *sharding, struct sp_buf *buf)
{
    int64_t device;
    if (is_maximal(sharding, &device)) {
        sp_buf_printf(buf, "sdy.mesh @maximal_mesh_%" PRId64 " = <[], device_ids=[%" PRId64 "]>", device, device);
        return;
    }
    sp_buf_text(buf, "sdy.mesh ");
    sp_shardy_write_symbol(sharding->mesh->name == NULL ? "mesh" : sharding->mesh->name, buf);
    sp_buf_text(buf, " = ");
    sp_shardy_write_mesh(sharding->mesh, buf);
}

enum sp_status sp_shardy_write(const struct sp_sharding *sharding, bool inline_mesh, struct sp_buf *buf,
                               struct sp_error *err)
{
    sp_buf_text(buf, "#sdy.sharding");
    enum sp_status status = sp_shardy_write_body(sharding, inline_mesh, buf, err);
    if (status == SP_OK && sp_buf_failed(buf))
        status = sp_fail_memory(err);
    return status;
}
