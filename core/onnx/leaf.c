#include <inttypes.h>
#include <string.h>

#include "onnx/leaf.h"

/* ---- the walk before ------------------------------------------------------------------------------------------- */

struct level {
    const ProtobufCMessageDescriptor *descriptor;
    struct sp_wire wire;
    uint64_t seen; /* singular messages met, by field index */
};

static enum sp_status scan_message(struct sp_reader *r, struct level *levels, uint32_t *depth,
                                   const struct sp_wire_field *field, const ProtobufCFieldDescriptor *known)
{
    struct level *level = &levels[*depth - 1];
    uint64_t bit = UINT64_C(1) << (unsigned)(known - level->descriptor->fields);
    bool seen = known->label != PROTOBUF_C_LABEL_REPEATED && (level->seen & bit) != 0;
    /* Empty records are not counted here: a scalar's shape and an unknown dimension are that. */
    enum sp_status status = sp_wire_expect(field, SP_WIRE_LEN, r->err);
    if (status != SP_OK)
        return status;
    if (seen)
        return sp_wire_fail(r->err, field->at, "field %u is there a second time", field->number);
    level->seen |= bit;
    if (*depth == SP_MAX_NESTING) {
        status = sp_fail_limit(r->err, "NESTING_TOO_DEEP", "SP_MAX_NESTING", SP_MAX_NESTING, SP_MAX_NESTING + 1,
                               "Records are nested more than %d deep (limit SP_MAX_NESTING).", SP_MAX_NESTING);
        sp_error_at(r->err, "byte %" PRIu64, field->at);
        return status;
    }
    levels[*depth] = (struct level){.descriptor = known->descriptor, .wire = sp_wire_of(r->bytes, field->payload)};
    (*depth)++;
    return SP_OK;
}

static enum sp_status scan_field(struct sp_reader *r, struct level *levels, uint32_t *depth,
                                 const struct sp_wire_field *field)
{
    const ProtobufCFieldDescriptor *known =
        protobuf_c_message_descriptor_get_field(levels[*depth - 1].descriptor, field->number);
    if (known == NULL)
        return sp_reader_unknown(r, field);
    if (known->type == PROTOBUF_C_TYPE_MESSAGE)
        return scan_message(r, levels, depth, field, known);
    if (known->type == PROTOBUF_C_TYPE_STRING)
        return sp_reader_check_text(r, field);
    return SP_OK;
}

static enum sp_status scan(struct sp_reader *r, const ProtobufCMessageDescriptor *descriptor, struct sp_span span)
{
    struct level levels[SP_MAX_NESTING];
    struct sp_wire_field field;
    uint32_t depth = 1;
    levels[0] = (struct level){.descriptor = descriptor, .wire = sp_wire_of(r->bytes, span)};
    while (depth > 0) {
        enum sp_status status = sp_wire_next(&levels[depth - 1].wire, &field, r->err);
        if (status == SP_OK && field.number == 0)
            depth--;
        else if (status == SP_OK)
            status = scan_field(r, levels, &depth, &field);
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

/* ---- unpacking ------------------------------------------------------------------------------------------------- */

struct allocator {
    ProtobufCAllocator base;
    struct sp_arena *arena;
    bool failed;
};

static void *allocate(void *context, size_t size)
{
    struct allocator *allocator = context;
    void *memory = sp_arena_alloc(allocator->arena, size);
    if (memory == NULL)
        allocator->failed = true;
    return memory;
}

static void release(void *context, void *memory)
{
    (void)context; /* the arena is rewound as a whole */
    (void)memory;
}

enum sp_status sp_leaf_unpack(struct sp_reader *r, const ProtobufCMessageDescriptor *descriptor, struct sp_span span,
                              ProtobufCMessage **ret_message)
{
    if (span.size > SP_MAX_RECORD_BYTES) {
        sp_fail_limit(r->err, "RECORD_TOO_LARGE", "SP_MAX_RECORD_BYTES", SP_MAX_RECORD_BYTES, (int64_t)span.size,
                      "A %s has %" PRIu64 " bytes; the limit SP_MAX_RECORD_BYTES is %u.", descriptor->short_name,
                      span.size, SP_MAX_RECORD_BYTES);
        sp_error_at(r->err, "byte %" PRIu64, span.offset);
        return SP_ERR_LIMIT;
    }
    enum sp_status status = scan(r, descriptor, span);
    if (status != SP_OK)
        return status;
    struct allocator allocator = {{allocate, release, NULL}, r->scratch, false};
    allocator.base.allocator_data = &allocator;
    ProtobufCMessage *message =
        protobuf_c_message_unpack(descriptor, &allocator.base, span.size, r->bytes + span.offset);
    if (message == NULL && allocator.failed)
        return sp_fail_memory(r->err);
    if (message == NULL)
        return sp_wire_fail(r->err, span.offset, "the %s that starts here has a field of a wrong type",
                            descriptor->short_name);
    *ret_message = message;
    return SP_OK;
}

bool sp_leaf_intern(struct sp_reader *r, const char *text, const char **ret)
{
    uint32_t id = text == NULL ? SP_NO_NAME : sp_intern_add(r->model->names, text, strlen(text));
    if (text == NULL)
        *ret = "";
    else if (id == SP_NO_NAME)
        return false;
    else
        *ret = sp_intern_name(r->model->names, id);
    return true;
}
