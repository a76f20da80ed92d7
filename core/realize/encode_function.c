#include <assert.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/limits.h"
#include "onnx/wire.h"
#include "realize/encode.h"
#include "realize/protobuf_fields.h"

/*
 * A function is copied on the wire. Annotations of devices are fields of nodes, at any depth below it, and whatever
 * holds one gets shorter: so the messages that can hold nodes are walked twice, first for their new sizes and then to
 * write, with an explicit stack.
 *
 *   FunctionProto -> NodeProto (7) -> AttributeProto (5) -> GraphProto (6, 11) -> NodeProto (1) -> ..
 */
enum message { FUNCTION, NODE, ATTRIBUTE, GRAPH, NO_MESSAGE };

static enum message child_of(enum message message, uint32_t number)
{
    switch (message) {
    case FUNCTION:
        return number == SP_PUT_FUNCTION_NODE ? NODE : NO_MESSAGE;
    case NODE:
        return number == SP_PUT_NODE_ATTRIBUTE ? ATTRIBUTE : NO_MESSAGE;
    case ATTRIBUTE:
        return number == 6 || number == 11 ? GRAPH : NO_MESSAGE;
    case GRAPH:
        return number == SP_PUT_GRAPH_NODE ? NODE : NO_MESSAGE;
    default:
        return NO_MESSAGE;
    }
}

/* Function, and then node, attribute, graph for each level of graphs. */
#define MAX_DEPTH (3 * (SP_MAX_NESTING + 2))

struct level {
    struct sp_wire wire;
    enum message message;
    uint32_t number; /* the field that the message is */
    uint32_t entry;  /* in the list of sizes */
};

/* New sizes of the messages, in the order in which they begin. */
struct sizes {
    uint64_t *items;
    uint32_t count, capacity, next;
};

static bool add_size(struct sizes *sizes)
{
    return sizes->count < SP_MAX_NODES * 4U && SP_PUSH(NULL, sizes, 0);
}

struct walk {
    const struct sp_model *model;
    struct sp_recipe *out; /* NULL while sizes are counted */
    struct sizes sizes;
    struct level levels[MAX_DEPTH + 1];
    uint32_t depth;
};

static enum sp_status open_level(struct walk *walk, enum message message, const struct sp_wire_field *field,
                                 struct sp_error *err)
{
    if (walk->depth == MAX_DEPTH)
        return sp_fail_limit(err, "NESTING_TOO_DEEP", "SP_MAX_NESTING", SP_MAX_NESTING, walk->depth,
                             "Graphs are nested more than %d deep (limit SP_MAX_NESTING).", SP_MAX_NESTING);
    struct level *level = &walk->levels[walk->depth++];
    *level = (struct level){sp_wire_of(walk->model->bytes, field->payload), message, field->number, walk->sizes.next};
    if (walk->out == NULL && !add_size(&walk->sizes))
        return sp_fail_memory(err);
    assert(walk->sizes.items != NULL && walk->sizes.next < walk->sizes.count);
    walk->sizes.next++;
    if (walk->out != NULL)
        sp_put_head(walk->out, field->number, walk->sizes.items[level->entry]);
    return SP_OK;
}

static uint64_t head_size(uint32_t number, uint64_t size)
{
    return sp_wire_varint_size((uint64_t)number << 3) + sp_wire_varint_size(size);
}

static void add_to(struct walk *walk, uint32_t entry, uint64_t size)
{
    assert(walk->sizes.items != NULL && entry < walk->sizes.count);
    walk->sizes.items[entry] += size;
}

static void close_level(struct walk *walk)
{
    const struct level *level = &walk->levels[--walk->depth];
    if (walk->out != NULL || walk->depth == 0)
        return;
    const uint64_t size = walk->sizes.items[level->entry];
    add_to(walk, walk->levels[walk->depth - 1].entry, head_size(level->number, size) + size);
}

static enum sp_status step(struct walk *walk, struct sp_error *err)
{
    struct level *level = &walk->levels[walk->depth - 1];
    struct sp_wire_field field;
    enum sp_status status = sp_wire_next(&level->wire, &field, err);
    if (status != SP_OK)
        return status;
    if (field.number == 0) {
        close_level(walk);
        return SP_OK;
    }
    const enum message child = field.type == SP_WIRE_LEN ? child_of(level->message, field.number) : NO_MESSAGE;
    if (child != NO_MESSAGE)
        return open_level(walk, child, &field, err);
    if (level->message == NODE && field.number == SP_PUT_NODE_DEVICE_CONFIGURATIONS)
        return SP_OK;
    if (walk->out != NULL)
        sp_put_original(walk->out, walk->model, (struct sp_span){field.at, level->wire.at - field.at});
    else
        add_to(walk, level->entry, level->wire.at - field.at);
    return SP_OK;
}

enum sp_status sp_encode_function(const struct sp_model *model, struct sp_recipe *out,
                                  const struct sp_function *function, struct sp_error *err)
{
    const struct sp_wire_field whole = {.number = SP_MODEL_FUNCTIONS, .type = SP_WIRE_LEN, .payload = function->span};
    struct walk *walk = calloc(1, sizeof *walk);
    enum sp_status status = SP_OK;
    if (walk == NULL)
        return sp_fail_memory(err);
    for (int pass = 0; status == SP_OK && pass < 2; pass++) {
        walk->model = model;
        walk->out = pass == 0 ? NULL : out;
        walk->sizes.next = 0;
        status = open_level(walk, FUNCTION, &whole, err);
        while (status == SP_OK && walk->depth > 0)
            status = step(walk, err);
    }
    free(walk->sizes.items);
    free(walk);
    return status;
}
