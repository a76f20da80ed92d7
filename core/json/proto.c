#include "json/proto.h"

#include <string.h>

#include "json/scalar.h"

/* An object that is written as a message, or an array that is written as a run of messages. */
struct frame {
    const ProtobufCMessageDescriptor *descriptor;
    const ProtobufCFieldDescriptor *list; /* of an array: the member */
    uint32_t at, end;                     /* the next name or item */
    uint64_t seen;                        /* members that were there, by number in the descriptor */
};

struct walk {
    const struct sp_tree *tree;
    struct sp_emit *emit;
    uint32_t depth;
    struct frame frames[2 * (SP_MAX_NESTING + 1)];
};

/* ---- names ----------------------------------------------------------------------------------------------------- */

/* The name as the schema has it, or in camelCase: an underscore goes and the letter behind it is a capital. */
static bool is_name(const char *name, struct sp_tree_text text)
{
    size_t at = 0;
    if (sp_tree_text_is(text, name))
        return true;
    for (; *name != '\0'; name++) {
        char c = *name;
        if (c == '_' && name[1] >= 'a' && name[1] <= 'z')
            c = (char)(*++name - 'a' + 'A');
        if (at == text.size || text.bytes[at++] != c)
            return false;
    }
    return at == text.size;
}

static const ProtobufCFieldDescriptor *find_field(const ProtobufCMessageDescriptor *descriptor,
                                                  struct sp_tree_text text)
{
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        if (is_name(descriptor->fields[i].name, text))
            return &descriptor->fields[i];
    }
    return NULL;
}

/* "AttributeProto" */
static const char *message_name(const ProtobufCMessageDescriptor *descriptor)
{
    return descriptor->short_name;
}

static enum sp_status refuse_unknown(const struct sp_tree *tree, uint32_t name,
                                     const ProtobufCMessageDescriptor *descriptor)
{
    char known[SP_ERROR_MESSAGE_SIZE / 2] = "";
    size_t size = 0;
    for (unsigned i = 0; i < descriptor->n_fields && size < sizeof known; i++)
        size +=
            (size_t)snprintf(known + size, sizeof known - size, "%s%s", i == 0 ? "" : ", ", descriptor->fields[i].name);
    return sp_tree_fail(tree, name, "MEMBER_UNKNOWN", "%s has no such member; it has %s.", message_name(descriptor),
                        known);
}

/* A member may be there once, and of a oneof one. */
static enum sp_status check_seen(const struct sp_tree *tree, uint32_t name, struct frame *frame,
                                 const ProtobufCFieldDescriptor *field)
{
    const uint64_t bit = UINT64_C(1) << (unsigned)(field - frame->descriptor->fields);
    if ((frame->seen & bit) != 0)
        return sp_tree_fail(tree, name, "MEMBER_TWICE", "The member '%s' is there twice.", field->name);
    for (unsigned i = 0; (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0 && i < frame->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *other = &frame->descriptor->fields[i];
        if ((frame->seen >> i & 1) != 0 && (other->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0 &&
            other->quantifier_offset == field->quantifier_offset)
            return sp_tree_fail(tree, name, "MEMBER_TWICE", "'%s' and '%s' exclude each other.", other->name,
                                field->name);
    }
    frame->seen |= bit;
    return SP_OK;
}

/* ---- scalars --------------------------------------------------------------------------------------------------- */

static enum sp_status read_enum(const struct sp_tree *tree, uint32_t value, const ProtobufCEnumDescriptor *descriptor,
                                int64_t *ret_number)
{
    struct sp_tree_text text;
    if (sp_tree_kind(tree, value) != SP_TREE_STRING)
        return sp_scalar_int(tree, value, INT32_MIN, INT32_MAX, ret_number);
    enum sp_status status = sp_tree_text(tree, value, &text);
    if (status != SP_OK)
        return status;
    for (unsigned i = 0; i < descriptor->n_values; i++) {
        if (sp_tree_text_is(text, descriptor->values[i].name)) {
            *ret_number = descriptor->values[i].value;
            return SP_OK;
        }
    }
    return sp_tree_fail(tree, value, "ENUM_UNKNOWN", "%s has no value of this name.", descriptor->short_name);
}

static enum sp_status read_bool(const struct sp_tree *tree, uint32_t value, int64_t *ret_number)
{
    const enum sp_tree_kind kind = sp_tree_kind(tree, value);
    if (kind != SP_TREE_TRUE && kind != SP_TREE_FALSE)
        return sp_tree_fail(tree, value, "BOOLEAN_EXPECTED", "true or false is expected here.");
    *ret_number = kind == SP_TREE_TRUE;
    return SP_OK;
}

static enum sp_wire_type wire_type(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32:
        return SP_WIRE_I32;
    case PROTOBUF_C_TYPE_DOUBLE:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return SP_WIRE_I64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return SP_WIRE_LEN;
    default:
        return SP_WIRE_VARINT;
    }
}

/* A number as the 64 bits of which the wire takes what it needs. */
static enum sp_status read_bits(const struct sp_tree *tree, uint32_t value, const ProtobufCFieldDescriptor *field,
                                uint64_t *ret_bits)
{
    int64_t number = 0;
    uint64_t bits = 0;
    enum sp_status status;
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        status = sp_scalar_int(tree, value, INT32_MIN, INT32_MAX, &number);
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        status = sp_scalar_int(tree, value, INT64_MIN, INT64_MAX, &number);
        break;
    case PROTOBUF_C_TYPE_ENUM:
        status = read_enum(tree, value, field->descriptor, &number);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        status = read_bool(tree, value, &number);
        break;
    case PROTOBUF_C_TYPE_FLOAT: {
        float real = 0;
        uint32_t half;
        status = sp_scalar_float(tree, value, &real);
        memcpy(&half, &real, sizeof half);
        *ret_bits = half;
        return status;
    }
    case PROTOBUF_C_TYPE_DOUBLE: {
        double real = 0;
        status = sp_scalar_double(tree, value, &real);
        memcpy(ret_bits, &real, sizeof *ret_bits);
        return status;
    }
    default:
        status = sp_scalar_uint(
            tree, value,
            field->type == PROTOBUF_C_TYPE_UINT32 || field->type == PROTOBUF_C_TYPE_FIXED32 ? UINT32_MAX : UINT64_MAX,
            &bits);
        *ret_bits = bits;
        return status;
    }
    bits = (uint64_t)number;
    if (field->type == PROTOBUF_C_TYPE_SINT32 || field->type == PROTOBUF_C_TYPE_SINT64)
        bits = bits << 1 ^ (number < 0 ? UINT64_MAX : 0);
    *ret_bits = bits;
    return status;
}

static enum sp_status put_number(const struct sp_tree *tree, uint32_t value, const ProtobufCFieldDescriptor *field,
                                 struct sp_emit *emit)
{
    uint64_t bits = 0;
    enum sp_status status = read_bits(tree, value, field, &bits);
    switch (wire_type(field->type)) {
    case SP_WIRE_I32:
        sp_emit_fixed32(emit, (uint32_t)bits);
        break;
    case SP_WIRE_I64:
        sp_emit_fixed64(emit, bits);
        break;
    default:
        sp_emit_varint(emit, bits);
    }
    return status;
}

/* Text and bytes with their length. What is made out of escapes or base64 is given back at once. */
static enum sp_status put_text(const struct sp_tree *tree, uint32_t value, const ProtobufCFieldDescriptor *field,
                               struct sp_emit *emit)
{
    struct sp_tree_text text = {"", 0};
    struct sp_arena_mark mark = sp_arena_mark(tree->arena);
    enum sp_status status;
    if (field->type == PROTOBUF_C_TYPE_BYTES)
        status = sp_scalar_base64(tree, value, &text);
    else if (sp_tree_kind(tree, value) != SP_TREE_STRING)
        status = sp_tree_fail(tree, value, "TEXT_EXPECTED", "'%s' must be text.", field->name);
    else
        status = sp_tree_text(tree, value, &text);
    sp_emit_varint(emit, text.size);
    sp_buf_append(emit->buf, text.bytes, text.size);
    sp_arena_rewind(tree->arena, mark);
    return status;
}

static enum sp_status put_scalar(const struct sp_tree *tree, uint32_t value, const ProtobufCFieldDescriptor *field,
                                 struct sp_emit *emit)
{
    sp_emit_tag(emit, field->id, wire_type(field->type));
    return wire_type(field->type) == SP_WIRE_LEN ? put_text(tree, value, field, emit)
                                                 : put_number(tree, value, field, emit);
}

static enum sp_status put_scalars(const struct sp_tree *tree, uint32_t array, const ProtobufCFieldDescriptor *field,
                                  struct sp_emit *emit)
{
    const bool is_packed = (field->flags & PROTOBUF_C_FIELD_FLAG_PACKED) != 0;
    const uint32_t end = sp_tree_end(tree, array);
    enum sp_status status = SP_OK;
    if (sp_tree_begin(array) == end)
        return SP_OK;
    if (is_packed)
        sp_emit_begin(emit, field->id);
    for (uint32_t i = sp_tree_begin(array); status == SP_OK && i != end; i = sp_tree_after(tree, i))
        status = is_packed ? put_number(tree, i, field, emit) : put_scalar(tree, i, field, emit);
    if (is_packed)
        sp_emit_end(emit);
    return status;
}

/* ---- messages -------------------------------------------------------------------------------------------------- */

static enum sp_status push_message(struct walk *walk, const ProtobufCFieldDescriptor *field, uint32_t value)
{
    const struct sp_tree *tree = walk->tree;
    if (sp_tree_kind(tree, value) != SP_TREE_OBJECT)
        return sp_tree_fail(tree, value, "OBJECT_EXPECTED", "'%s' must be an object, a %s.", field->name,
                            message_name(field->descriptor));
    if (sp_emit_is_full(walk->emit)) {
        enum sp_status status =
            sp_fail_limit(tree->err, "NESTING_TOO_DEEP", "SP_MAX_NESTING", SP_MAX_NESTING, SP_MAX_NESTING + 1,
                          "Messages are nested more than %d deep (limit SP_MAX_NESTING).", SP_MAX_NESTING);
        (void)sp_tree_at(tree, value);
        return status;
    }
    sp_emit_begin(walk->emit, field->id);
    walk->frames[walk->depth++] = (struct frame){
        .descriptor = field->descriptor,
        .at = sp_tree_begin(value),
        .end = sp_tree_end(tree, value),
    };
    return SP_OK;
}

static enum sp_status take_member(struct walk *walk, struct frame *frame)
{
    const struct sp_tree *tree = walk->tree;
    const uint32_t name = frame->at, value = name + 1;
    struct sp_tree_text text;
    enum sp_status status = sp_tree_text(tree, name, &text);
    if (status != SP_OK)
        return status;
    const ProtobufCFieldDescriptor *field = find_field(frame->descriptor, text);
    if (field == NULL)
        return refuse_unknown(tree, name, frame->descriptor);
    status = check_seen(tree, name, frame, field);
    frame->at = sp_tree_after(tree, value);
    if (status != SP_OK || sp_tree_kind(tree, value) == SP_TREE_NULL)
        return status;
    if (field->label != PROTOBUF_C_LABEL_REPEATED)
        return field->type == PROTOBUF_C_TYPE_MESSAGE ? push_message(walk, field, value)
                                                      : put_scalar(tree, value, field, walk->emit);
    if (sp_tree_kind(tree, value) != SP_TREE_ARRAY)
        return sp_tree_fail(tree, value, "ARRAY_EXPECTED", "'%s' must be an array.", field->name);
    if (field->type != PROTOBUF_C_TYPE_MESSAGE)
        return put_scalars(tree, value, field, walk->emit);
    walk->frames[walk->depth++] =
        (struct frame){.list = field, .at = sp_tree_begin(value), .end = sp_tree_end(tree, value)};
    return SP_OK;
}

enum sp_status sp_proto_message(const struct sp_tree *tree, uint32_t value,
                                const ProtobufCMessageDescriptor *descriptor, struct sp_emit *emit)
{
    struct walk walk = {.tree = tree, .emit = emit};
    enum sp_status status = SP_OK;
    if (sp_tree_kind(tree, value) != SP_TREE_OBJECT)
        return sp_tree_fail(tree, value, "OBJECT_EXPECTED", "An object is expected here, a %s.",
                            message_name(descriptor));
    walk.frames[walk.depth++] =
        (struct frame){.descriptor = descriptor, .at = sp_tree_begin(value), .end = sp_tree_end(tree, value)};
    while (status == SP_OK && walk.depth > 0) {
        struct frame *frame = &walk.frames[walk.depth - 1];
        const uint32_t at = frame->at;
        if (at != frame->end && frame->list != NULL) {
            frame->at = sp_tree_after(tree, at);
            status = push_message(&walk, frame->list, at);
        } else if (at != frame->end) {
            status = take_member(&walk, frame);
        } else {
            walk.depth--;
            if (frame->list == NULL && walk.depth > 0)
                sp_emit_end(emit);
        }
    }
    return status;
}
