/*
 * OpSharding as canonical proto3 bytes: fields in ascending order, numbers packed, defaults left out.
 *
 * Written by hand, because metadata's fields that we do not know must stand between those that we do, in order of their
 * numbers; a generated writer would put them last, and the bytes would change on their way through.
 */
#include <string.h>

#include "onnx/wire.h"
#include "sharding/hlo/internal.h"

#define MAX_BYTES (SP_MAX_SHARDING_BYTES * (size_t)16) /* of one nested message: a list in full, say */

static void put_varint(struct sp_buf *buf, uint64_t value)
{
    unsigned char bytes[10];
    uint32_t size = sp_wire_varint_size(value);
    sp_wire_put_varint(bytes, value, size);
    sp_buf_append(buf, bytes, size);
}

static void put_int(struct sp_buf *buf, uint32_t field, int64_t value)
{
    if (value == 0)
        return;
    put_varint(buf, (uint64_t)field << 3 | SP_WIRE_VARINT);
    put_varint(buf, (uint64_t)value);
}

static void put_bytes(struct sp_buf *buf, uint32_t field, const void *bytes, size_t size)
{
    put_varint(buf, (uint64_t)field << 3 | SP_WIRE_LEN);
    put_varint(buf, size);
    if (size > 0)
        sp_buf_append(buf, bytes, size);
}

static void put_text(struct sp_buf *buf, uint32_t field, const char *text)
{
    if (text != NULL && text[0] != '\0')
        put_bytes(buf, field, text, strlen(text));
}

/* A nested message, which is released. A failure inside is one outside. */
static void put_message(struct sp_buf *buf, uint32_t field, struct sp_buf *message)
{
    put_bytes(buf, field, message->data, message->size);
    buf->failed = buf->failed || message->failed;
    sp_buf_release(message);
}

static void put_packed(struct sp_buf *buf, uint32_t field, int64_t count, const int64_t *items)
{
    struct sp_buf packed;
    if (count == 0)
        return;
    sp_buf_init(&packed, MAX_BYTES);
    for (int64_t i = 0; i < count; i++)
        put_varint(&packed, (uint64_t)items[i]);
    put_message(buf, field, &packed);
}

static void put_packed_small(struct sp_buf *buf, uint32_t field, uint32_t count, const uint32_t *items)
{
    struct sp_buf packed;
    if (count == 0)
        return;
    sp_buf_init(&packed, MAX_BYTES);
    for (uint32_t i = 0; i < count; i++)
        put_varint(&packed, items[i]);
    put_message(buf, field, &packed);
}

/* ---- metadata ---- */

/* The kept fields of an entry up to this number. */
static void put_others(struct sp_buf *buf, struct sp_wire *others, uint32_t below)
{
    struct sp_wire ahead = *others;
    struct sp_wire_field field;
    while (sp_wire_next(&ahead, &field, NULL) == SP_OK && field.number != 0 && field.number < below) {
        sp_buf_append(buf, others->bytes + field.at, ahead.at - field.at);
        *others = ahead;
    }
}

static void put_metadata(struct sp_buf *buf, uint32_t field, const struct sp_hlo_metadata *entry)
{
    const struct {
        uint32_t number;
        const char *text;
        int32_t value;
    } fields[] = {
        {1, entry->op_type, 0},
        {2, entry->op_name, 0},
        {3, entry->source_file, 0},
        {4, NULL, entry->source_line},
        {17, NULL, entry->source_end_line},
        {18, NULL, entry->source_column},
        {19, NULL, entry->source_end_column},
    };
    struct sp_wire others = sp_wire_of(entry->other, (struct sp_span){.offset = 0, .size = entry->other_size});
    struct sp_buf message;
    sp_buf_init(&message, MAX_BYTES);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        put_others(&message, &others, fields[i].number);
        put_text(&message, fields[i].number, fields[i].text);
        put_int(&message, fields[i].number, fields[i].value);
    }
    put_others(&message, &others, UINT32_MAX);
    put_message(buf, field, &message);
}

/* ---- V3 ---- */

static void put_ref(struct sp_buf *buf, uint32_t field, const struct sp_mesh *mesh, struct sp_axis_ref ref)
{
    struct sp_buf message, sub;
    sp_buf_init(&message, MAX_BYTES);
    put_int(&message, 1, ref.axis);
    if (!sp_axis_is_full(mesh, ref)) {
        sp_buf_init(&sub, MAX_BYTES);
        put_int(&sub, 1, ref.pre);
        put_int(&sub, 2, ref.size);
        put_message(&message, 2, &sub);
    }
    put_message(buf, field, &message);
}

static void put_refs(struct sp_buf *buf, uint32_t field, const struct sp_mesh *mesh, const struct sp_axis_list *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        put_ref(buf, field, mesh, list->refs[i]);
}

static void put_all_axes(struct sp_buf *buf, uint32_t field, const struct sp_mesh *mesh)
{
    for (uint32_t i = 0; i < mesh->axis_count; i++)
        put_ref(buf, field, mesh, sp_axis_full(mesh, i));
}

static void put_mesh(struct sp_buf *buf, uint32_t field, const struct sp_mesh *mesh)
{
    struct sp_buf message, inner;
    const struct sp_device_order *order = &mesh->order;
    sp_buf_init(&message, MAX_BYTES);
    for (uint32_t i = 0; i < mesh->axis_count; i++) {
        sp_buf_init(&inner, MAX_BYTES);
        put_text(&inner, 1, mesh->axes[i].name);
        put_int(&inner, 2, mesh->axes[i].size);
        put_message(&message, 1, &inner);
    }
    int64_t single = sp_mesh_is_single(mesh) ? sp_device_order_at(order, 0) : 0;
    if (sp_mesh_is_single(mesh)) {
        put_packed(&message, 2, 1, &single);
    } else if (order->ids != NULL) {
        put_packed(&message, 2, order->count, order->ids);
    } else if (order->rank > 1) {
        sp_buf_init(&inner, MAX_BYTES);
        put_packed(&inner, 1, order->rank, order->dims);
        put_packed_small(&inner, 2, order->rank, order->perm);
        put_message(&message, 3, &inner);
    }
    put_message(buf, field, &message);
}

static void put_named(struct sp_buf *buf, const struct sp_hlo *hlo)
{
    const struct sp_sharding *named = hlo->named;
    struct sp_buf message, dim;
    bool is_axes = named->kind == SP_SHARDING_AXES;
    sp_buf_init(&message, MAX_BYTES);
    put_mesh(&message, 2, named->mesh);
    for (uint32_t i = 0; is_axes && i < named->rank; i++) {
        sp_buf_init(&dim, MAX_BYTES);
        put_refs(&dim, 1, named->mesh, &named->dims[i].axes);
        put_int(&dim, 2, !named->dims[i].is_open);
        put_message(&message, 3, &dim);
    }
    if (is_axes)
        put_refs(&message, 4, named->mesh, &named->replicated);
    if (is_axes)
        put_refs(&message, 5, named->mesh, &named->partial);
    else if (named->kind == SP_SHARDING_UNREDUCED)
        put_all_axes(&message, 5, named->mesh);
    for (uint32_t i = 0; i < hlo->metadata_count; i++)
        put_metadata(&message, 6, &hlo->metadata[i]);
    if (is_axes)
        put_refs(&message, 7, named->mesh, &named->manual);
    else if (named->kind == SP_SHARDING_MANUAL)
        put_all_axes(&message, 7, named->mesh);
    put_int(&message, 8, named->combiner == SP_COMBINE_MAX ? 1 : named->combiner == SP_COMBINE_MIN ? 2 : 0);
    put_message(buf, 14, &message);
}

/* ---- V1 and V2 ---- */

static enum sp_status put_subgroups(struct sp_arena *arena, const struct sp_hlo *hlo, struct sp_buf *buf,
                                    struct sp_error *err)
{
    uint32_t *types = SP_NEW_ARRAY(arena, hlo->subgroup_count, uint32_t);
    if (types == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < hlo->subgroup_count; i++)
        types[i] = (uint32_t)hlo->subgroups[i];
    put_packed_small(buf, 8, hlo->subgroup_count, types);
    return SP_OK;
}

/* One sharding that is no tuple. */
static enum sp_status put_leaf(struct sp_arena *arena, const struct sp_hlo *hlo, struct sp_buf *buf,
                               struct sp_error *err)
{
    struct sp_hlo_metadata combiner = {.op_type = sp_hlo_reduction_op, .op_name = sp_hlo_combiner_name(hlo->combiner)};
    bool is_tiled = hlo->type == SP_HLO_OTHER;
    if (hlo->is_named) {
        put_named(buf, hlo);
        return SP_OK;
    }
    put_int(buf, 1, hlo->type);
    if (is_tiled)
        put_packed(buf, 3, hlo->dim_count, hlo->dims);
    if (hlo->type == SP_HLO_MAXIMAL) {
        int64_t device = sp_device_order_at(&hlo->order, 0);
        put_packed(buf, 4, 1, &device);
    } else if (is_tiled && hlo->order.ids != NULL) {
        put_packed(buf, 4, hlo->order.count, hlo->order.ids);
    }
    put_int(buf, 6, is_tiled && hlo->replicate_last);
    for (uint32_t i = 0; i < hlo->metadata_count; i++)
        put_metadata(buf, 7, &hlo->metadata[i]);
    if (sp_hlo_is_partial(hlo))
        put_metadata(buf, 7, &combiner);
    enum sp_status status = is_tiled ? put_subgroups(arena, hlo, buf, err) : SP_OK;
    if (is_tiled && hlo->order.ids == NULL) {
        put_packed(buf, 9, hlo->order.rank, hlo->order.dims);
        put_packed_small(buf, 10, hlo->order.rank, hlo->order.perm);
    }
    if (hlo->has_group) {
        put_int(buf, 11, 1);
        put_int(buf, 12, hlo->group_id);
        put_int(buf, 13, hlo->is_group_like);
    }
    return status;
}

enum sp_status sp_hlo_write_proto(struct sp_arena *arena, const struct sp_hlo *hlo, struct sp_buf *buf,
                                  struct sp_error *err)
{
    enum sp_status status = SP_OK;
    bool is_tuple = !hlo->is_named && hlo->type == SP_HLO_TUPLE;
    if (!is_tuple)
        status = put_leaf(arena, hlo, buf, err);
    else
        put_int(buf, 1, SP_HLO_TUPLE);
    for (uint32_t i = 0; is_tuple && i < hlo->element_count && status == SP_OK; i++) {
        struct sp_buf element;
        sp_buf_init(&element, MAX_BYTES);
        status = put_leaf(arena, &hlo->elements[i], &element, err);
        put_message(buf, 5, &element);
    }
    if (status == SP_OK && sp_buf_failed(buf))
        status = sp_fail_memory(err);
    return status;
}
