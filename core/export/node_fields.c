/*
 * Fields added to the nodes of the main graph, by splicing the file. Two levels of length prefixes change: the node's
 * and the graph's.
 */
#include <inttypes.h>
#include <string.h>

#include "base/sorted.h"
#include "export/internal.h"
#include "onnx/wire.h"

enum { MODEL_GRAPH = 7, GRAPH_NODE = 1, ENTRY_NAME = 1 };

#define MAX_MESSAGE ((UINT64_C(1) << 31) - 1) /* protobuf's own bound */

struct place {
    uint64_t offset;
    uint32_t index; /* of the node in its graph */
};
SP_ASCENDING(by_offset, struct place, offset)

struct fields {
    struct sp_export *out;
    const struct sp_model *model;
    const struct sp_export_field *field;
    struct sp_splice *splice;
    uint64_t position;    /* everything before it is in the splice */
    struct place *places; /* of the nodes, in the order of the file */
    uint32_t node;        /* the next place */
    struct sp_buf buf;    /* of one node */
    struct sp_error *err;
};

void sp_export_put_field(struct sp_buf *buf, uint32_t field, const void *payload, size_t size)
{
    unsigned char bytes[20];
    const uint64_t tag = (uint64_t)field << 3 | SP_WIRE_LEN;
    const uint32_t head = sp_wire_varint_size(tag), tail = sp_wire_varint_size(size);
    sp_wire_put_varint(bytes, tag, head);
    sp_wire_put_varint(bytes + head, size, tail);
    sp_buf_append(buf, bytes, head + tail);
    sp_buf_append(buf, payload, size);
}

/* A prefix that is as short as can be stays so; any other keeps its width where the length fits. */
static uint32_t next_width(const struct sp_wire_field *field, uint64_t size)
{
    const uint32_t width = (uint32_t)(field->payload.offset - field->length_at), least = sp_wire_varint_size(size);
    return width == sp_wire_varint_size(field->payload.size) || width < least ? least : width;
}

static bool keep_until(struct fields *all, uint64_t offset)
{
    const uint64_t from = all->position;
    all->position = offset;
    return sp_splice_keep(all->splice, from, offset - from);
}

static bool put_length(struct fields *all, const struct sp_wire_field *field, uint64_t size)
{
    unsigned char bytes[10];
    const uint32_t width = next_width(field, size);
    sp_wire_put_varint(bytes, size, width);
    if (!keep_until(all, field->length_at) || !sp_splice_add(all->splice, bytes, width))
        return false;
    all->position = field->payload.offset;
    return true;
}

/* Whether this field of a node is to be replaced: an entry of one of the names. */
static enum sp_status is_replaced(const struct fields *all, const struct sp_wire_field *field, bool *ret_is)
{
    struct sp_wire wire = sp_wire_of(all->model->bytes, field->payload);
    struct sp_wire_field inner;
    enum sp_status status = SP_OK;
    *ret_is = false;
    if (field->number != all->field->number || field->type != SP_WIRE_LEN)
        return SP_OK;
    while ((status = sp_wire_next(&wire, &inner, all->err)) == SP_OK && inner.number != 0) {
        const char *name = (const char *)all->model->bytes + inner.payload.offset;
        for (uint32_t i = 0; inner.number == ENTRY_NAME && inner.type == SP_WIRE_LEN && i < all->field->key_count;
             i++) {
            if (strlen(all->field->keys[i]) == inner.payload.size &&
                memcmp(all->field->keys[i], name, inner.payload.size) == 0)
                *ret_is = true;
        }
    }
    return status;
}

/* Calls drop() for each field of the node that is replaced; *ret_bytes is what they take. */
static enum sp_status each_replaced(struct fields *all, struct sp_span node, bool drops, uint64_t *ret_bytes)
{
    struct sp_wire wire = sp_wire_of(all->model->bytes, node);
    struct sp_wire_field field;
    enum sp_status status;
    *ret_bytes = 0;
    while ((status = sp_wire_next(&wire, &field, all->err)) == SP_OK && field.number != 0) {
        bool is = false;
        status = is_replaced(all, &field, &is);
        if (status != SP_OK)
            return status;
        if (!is)
            continue;
        *ret_bytes += wire.at - field.at;
        if (drops && !keep_until(all, field.at))
            return sp_fail_memory(all->err);
        if (drops)
            all->position = wire.at;
    }
    return status;
}

/* What the node's payload will take; its new fields are in `buf` then. */
static enum sp_status measure_node(struct fields *all, uint32_t index, struct sp_span node, uint64_t *ret_size)
{
    uint64_t gone;
    sp_buf_clear(&all->buf);
    enum sp_status status = each_replaced(all, node, false, &gone);
    if (status == SP_OK)
        status = all->field->write(all->out, index, &all->buf, all->field->context, all->err);
    if (status == SP_OK)
        *ret_size = node.size - gone + all->buf.size;
    return status;
}

static enum sp_status write_node(struct fields *all, const struct sp_wire_field *field)
{
    uint64_t size, gone;
    enum sp_status status = measure_node(all, all->places[all->node].index, field->payload, &size);
    if (status == SP_OK && !put_length(all, field, size))
        status = sp_fail_memory(all->err);
    if (status == SP_OK)
        status = each_replaced(all, field->payload, true, &gone);
    if (status == SP_OK && (!keep_until(all, field->payload.offset + field->payload.size) ||
                            !sp_splice_add(all->splice, all->buf.data, all->buf.size)))
        status = sp_fail_memory(all->err);
    return status;
}

/* The nodes of a graph record, one after the other: measured (a sum), or written. */
static enum sp_status each_node(struct fields *all, struct sp_span graph, bool writes, uint64_t *ret_size)
{
    struct sp_wire wire = sp_wire_of(all->model->bytes, graph);
    struct sp_wire_field field;
    enum sp_status status;
    uint32_t at = all->node;
    uint64_t size;
    *ret_size = graph.size;
    while ((status = sp_wire_next(&wire, &field, all->err)) == SP_OK && field.number != 0) {
        const struct sp_graph *main = all->model->graph;
        if (field.number != GRAPH_NODE || field.type != SP_WIRE_LEN || at >= main->node_count ||
            all->places[at].offset != field.payload.offset)
            continue;
        if (writes) {
            all->node = at;
            status = write_node(all, &field);
        } else if ((status = measure_node(all, all->places[at].index, field.payload, &size)) == SP_OK) {
            *ret_size += size + next_width(&field, size);
            *ret_size -= field.payload.size + (field.payload.offset - field.length_at);
        }
        if (status != SP_OK)
            return status;
        at++;
    }
    if (writes)
        all->node = at;
    return status;
}

static enum sp_status write_graph(struct fields *all, const struct sp_wire_field *field)
{
    uint64_t size, unused;
    enum sp_status status = each_node(all, field->payload, false, &size);
    if (status == SP_OK && size > MAX_MESSAGE)
        return sp_fail(all->err, SP_ERR_UNSUPPORTED, "RESULT_TOO_LARGE",
                       "The graph would have %" PRIu64 " bytes, more than protobuf's 2 GiB; move the weights to "
                       "external data.",
                       size);
    if (status == SP_OK && !put_length(all, field, size))
        status = sp_fail_memory(all->err);
    return status == SP_OK ? each_node(all, field->payload, true, &unused) : status;
}

static bool find_places(struct fields *all)
{
    const struct sp_graph *main = all->model->graph;
    all->places = SP_NEW_ARRAY(all->out->scratch, main->node_count, struct place);
    for (uint32_t i = 0; all->places != NULL && i < main->node_count; i++)
        all->places[i] = (struct place){main->nodes[i].span.offset, i};
    if (all->places != NULL && main->node_count > 1)
        qsort(all->places, main->node_count, sizeof *all->places, by_offset);
    return all->places != NULL;
}

enum sp_status sp_export_fields(struct sp_export *out, const struct sp_export_field *field,
                                struct sp_splice **ret_splice, struct sp_error *err)
{
    const struct sp_model *model = out->subject->model;
    struct fields all = {.out = out, .model = model, .field = field, .err = err};
    struct sp_wire wire = sp_wire_of(model->bytes, (struct sp_span){0, model->size});
    struct sp_wire_field record;
    enum sp_status status = SP_OK;
    sp_buf_init(&all.buf, SP_MAX_RECORD_BYTES);
    all.splice = sp_splice_create(model->size);
    if (all.splice == NULL || !find_places(&all))
        status = sp_fail_memory(err);
    while (status == SP_OK && (status = sp_wire_next(&wire, &record, err)) == SP_OK && record.number != 0) {
        if (record.number == MODEL_GRAPH && record.type == SP_WIRE_LEN)
            status = write_graph(&all, &record);
    }
    if (status == SP_OK && all.node != model->graph->node_count)
        status = sp_fail(err, SP_ERR_INTERNAL, "LOST_NODE", "A node of the graph was not found in the file again.");
    if (status == SP_OK && !keep_until(&all, model->size))
        status = sp_fail_memory(err);
    sp_buf_release(&all.buf);
    if (status != SP_OK) {
        sp_splice_destroy(all.splice);
        return status;
    }
    *ret_splice = all.splice;
    return SP_OK;
}
