/* Steps of a reshard as lines for people. */
#include "base/units.h"
#include "sharding/reshard/reshard.h"
#include "sharding/shardy/internal.h"

static const struct sp_mesh *mesh_of(const struct sp_reshard_step *step)
{
    if (step->before != NULL && step->before->kind == SP_SHARDING_AXES)
        return step->before->mesh;
    return step->after != NULL && step->after->kind == SP_SHARDING_AXES ? step->after->mesh : NULL;
}

static void write_axes(const struct sp_mesh *mesh, const struct sp_axis_list *list, struct sp_buf *buf)
{
    sp_buf_text(buf, " {");
    for (uint32_t i = 0; i < list->count; i++) {
        struct sp_axis_ref ref = list->refs[i];

        sp_buf_text(buf, i > 0 ? ", " : "");
        sp_shardy_write_string(mesh != NULL && ref.axis < mesh->axis_count ? mesh->axes[ref.axis].name : "", buf);
        if (mesh != NULL && !sp_axis_is_full(mesh, ref))
            sp_buf_printf(buf, ":(%lld)%lld", (long long)ref.pre, (long long)ref.size);
    }
    sp_buf_text(buf, "}");
}

static void write_dims(const struct sp_reshard_step *step, struct sp_buf *buf)
{
    uint32_t rank = step->after != NULL ? step->after->rank : 0;
    const char *separator = "";

    for (uint32_t a = 0; a < rank; a++) {
        if (step->dims[a].count == 0)
            continue;
        sp_buf_text(buf, separator);
        write_axes(mesh_of(step), &step->dims[a], buf);
        sp_buf_printf(buf, " on axis %u", a);
        separator = ",";
    }
}

static void write_moves(const struct sp_reshard_step *step, struct sp_buf *buf)
{
    for (uint32_t i = 0; i < step->move_count; i++) {
        sp_buf_text(buf, i > 0 ? "," : "");
        write_axes(mesh_of(step), &step->moves[i].axes, buf);
        sp_buf_printf(buf, " from axis %u to axis %u", step->moves[i].source, step->moves[i].target);
    }
}

void sp_reshard_step_write(const struct sp_reshard_step *step, struct sp_buf *buf)
{
    sp_buf_text(buf, sp_collective_name(step->kind));
    if (step->dims != NULL)
        write_dims(step, buf);
    else if (step->move_count > 0)
        write_moves(step, buf);
    else if (step->axes.count > 0)
        write_axes(mesh_of(step), &step->axes, buf);
    if (step->kind == SP_SEND_RECEIVE)
        sp_buf_printf(buf, " of %llu pieces", (unsigned long long)step->transfer_count);
    if (step->kind == SP_ALL_SLICE || step->kind == SP_TO_PARTIAL) {
        sp_buf_text(buf, ": local");
        return;
    }
    sp_buf_text(buf, ": ");
    sp_text_bytes(buf, step->bytes);
    sp_buf_text(buf, ", ");
    sp_text_seconds(buf, step->seconds);
}
