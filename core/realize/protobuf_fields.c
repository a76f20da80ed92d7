#include "realize/protobuf_fields.h"

#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "onnx/wire.h"

#define COPIED_BYTES 256 /* a range costs about as much memory as so many bytes */
#define VARINT_BYTES 10

static unsigned char *encode_varint(unsigned char *bytes, uint64_t value)
{
    const uint32_t width = sp_wire_varint_size(value);
    sp_wire_put_varint(bytes, value, width);
    return bytes + width;
}

void sp_put_int(struct sp_recipe *out, uint32_t field, int64_t value)
{
    unsigned char bytes[2 * VARINT_BYTES];
    unsigned char *end = encode_varint(bytes, (uint64_t)field << 3 | SP_WIRE_VARINT);
    end = encode_varint(end, (uint64_t)value);
    (void)sp_recipe_add(out, bytes, (size_t)(end - bytes));
}

void sp_put_float(struct sp_recipe *out, uint32_t field, double value)
{
    const float number = (float)value;
    uint32_t bits;
    unsigned char bytes[VARINT_BYTES + 4];
    unsigned char *end = encode_varint(bytes, (uint64_t)field << 3 | SP_WIRE_I32);
    memcpy(&bits, &number, sizeof bits);
    for (unsigned i = 0; i < 4; i++)
        *end++ = (unsigned char)(bits >> (8 * i));
    (void)sp_recipe_add(out, bytes, (size_t)(end - bytes));
}

void sp_put_head(struct sp_recipe *out, uint32_t field, uint64_t size)
{
    unsigned char bytes[2 * VARINT_BYTES];
    unsigned char *end = encode_varint(bytes, (uint64_t)field << 3 | SP_WIRE_LEN);
    end = encode_varint(end, size);
    (void)sp_recipe_add(out, bytes, (size_t)(end - bytes));
}

void sp_put_bytes(struct sp_recipe *out, uint32_t field, const void *bytes, size_t size)
{
    sp_put_head(out, field, size);
    (void)sp_recipe_add(out, bytes, size);
}

void sp_put_text(struct sp_recipe *out, uint32_t field, const char *text)
{
    sp_put_bytes(out, field, text, strlen(text));
}

void sp_put_text_pair(struct sp_recipe *out, uint32_t field, const char *text, const char *more)
{
    const size_t size = strlen(text), rest = strlen(more);
    sp_put_head(out, field, size + rest);
    (void)sp_recipe_add(out, text, size);
    (void)sp_recipe_add(out, more, rest);
}

/* Bytes of a field of `size` bytes with a number below 16. */
static uint64_t field_size(uint64_t size)
{
    return 1 + sp_wire_varint_size(size) + size;
}

void sp_put_entry(struct sp_recipe *out, uint32_t field, const char *key, const char *value)
{
    sp_put_head(out, field, field_size(strlen(key)) + field_size(strlen(value)));
    sp_put_text(out, 1, key);
    sp_put_text(out, 2, value);
}

void sp_put_message(struct sp_recipe *out, uint32_t field, const struct sp_recipe *message)
{
    sp_put_head(out, field, sp_recipe_size(message));
    (void)sp_recipe_append(out, message);
}

void sp_put_original(struct sp_recipe *out, const struct sp_model *model, struct sp_span span)
{
    if (span.size <= COPIED_BYTES)
        (void)sp_recipe_add(out, model->bytes + span.offset, (size_t)span.size);
    else
        (void)sp_recipe_keep(out, 0, span.offset, span.size);
}

/* ---- types ------------------------------------------------------------------------------------------------------ */

static void buf_head(struct sp_buf *buf, uint32_t field, uint64_t size)
{
    unsigned char bytes[2 * VARINT_BYTES];
    unsigned char *end = encode_varint(bytes, (uint64_t)field << 3 | SP_WIRE_LEN);
    end = encode_varint(end, size);
    sp_buf_append(buf, bytes, (size_t)(end - bytes));
}

static void buf_field(struct sp_buf *buf, uint32_t field, const void *bytes, size_t size)
{
    buf_head(buf, field, size);
    sp_buf_append(buf, bytes, size);
}

static void buf_int(struct sp_buf *buf, uint32_t field, int64_t value)
{
    unsigned char bytes[2 * VARINT_BYTES];
    unsigned char *end = encode_varint(bytes, (uint64_t)field << 3 | SP_WIRE_VARINT);
    end = encode_varint(end, (uint64_t)value);
    sp_buf_append(buf, bytes, (size_t)(end - bytes));
}

/* Whether this is how a symbol is written, and not an expression or the mark of the unknown. */
static bool is_name(const char *text)
{
    return text[0] != '\0' && text[0] != '?' && strpbrk(text, " ()*+,") == NULL;
}

/* TensorShapeProto.Dimension as a field. `room` is for the text. */
static void buf_dim(struct sp_buf *buf, struct sp_dim dim, struct sp_buf *room)
{
    unsigned char bytes[1 + VARINT_BYTES];
    if (dim.kind == SP_DIM_KNOWN && dim.value >= 0) {
        bytes[0] = 1 << 3 | SP_WIRE_VARINT;
        buf_field(buf, 1, bytes, (size_t)(encode_varint(bytes + 1, (uint64_t)dim.value) - bytes));
        return;
    }
    sp_buf_clear(room);
    if (dim.kind == SP_DIM_SYMBOLIC)
        sp_dim_print(dim, room);
    if (room->size == 0 || sp_buf_failed(room) || !is_name(room->data)) {
        buf_head(buf, 1, 0);
        return;
    }
    buf_head(buf, 1, field_size(room->size));
    buf_field(buf, 2, room->data, room->size);
}

/* The TypeProto of what holds no other type. */
static void buf_leaf(struct sp_buf *buf, const struct sp_type *type, struct sp_buf *room)
{
    struct sp_buf shape, tensor;
    sp_buf_init(&shape, SP_MAX_RECORD_BYTES);
    sp_buf_init(&tensor, SP_MAX_RECORD_BYTES);
    if (type->dtype != SP_DTYPE_UNDEFINED)
        buf_int(&tensor, 1, type->dtype);
    for (uint32_t i = 0; type->shape.has_rank && i < type->shape.rank; i++)
        buf_dim(&shape, type->shape.dims[i], room);
    if (type->shape.has_rank)
        buf_field(&tensor, 2, shape.data, shape.size);
    if (type->kind == SP_TYPE_TENSOR)
        buf_field(buf, 1, tensor.data, tensor.size);
    else if (type->kind == SP_TYPE_SPARSE_TENSOR)
        buf_field(buf, 8, tensor.data, tensor.size);
    else if (type->kind == SP_TYPE_OPAQUE)
        buf_head(buf, 7, 0);
    sp_buf_release(&shape);
    sp_buf_release(&tensor);
}

/* The TypeProto of `outer`, whose element's is in `inner`. */
static void buf_wrap(struct sp_buf *buf, const struct sp_type *outer, const struct sp_buf *inner, struct sp_buf *room)
{
    sp_buf_clear(room);
    if (outer->kind == SP_TYPE_MAP)
        buf_int(room, 1, outer->dtype);
    buf_field(room, outer->kind == SP_TYPE_MAP ? 2 : 1, inner->data, inner->size);
    buf_field(buf, outer->kind == SP_TYPE_SEQUENCE ? 4 : outer->kind == SP_TYPE_MAP ? 5 : 9, room->data, room->size);
}

static bool holds_type(const struct sp_type *type)
{
    return type->elem != NULL &&
           (type->kind == SP_TYPE_SEQUENCE || type->kind == SP_TYPE_OPTIONAL || type->kind == SP_TYPE_MAP);
}

/* From the innermost type outwards. */
static enum sp_status buf_type(struct sp_buf *buf, const struct sp_type *type, struct sp_error *err)
{
    const struct sp_type *chain[SP_MAX_NESTING + 1];
    uint32_t depth = 0;
    struct sp_buf room, inner;
    sp_buf_init(&room, SP_MAX_RECORD_BYTES);
    sp_buf_init(&inner, SP_MAX_RECORD_BYTES);
    for (; depth < SP_MAX_NESTING && holds_type(type); type = type->elem)
        chain[depth++] = type;
    buf_leaf(buf, type, &room);
    while (depth > 0) {
        sp_buf_clear(&inner);
        sp_buf_append(&inner, buf->data, buf->size);
        sp_buf_clear(buf);
        buf_wrap(buf, chain[--depth], &inner, &room);
    }
    const bool failed = sp_buf_failed(buf) || sp_buf_failed(&room) || sp_buf_failed(&inner);
    sp_buf_release(&room);
    sp_buf_release(&inner);
    return failed ? sp_fail_memory(err) : SP_OK;
}

enum sp_status sp_put_type(struct sp_recipe *out, uint32_t field, const struct sp_type *type, struct sp_error *err)
{
    struct sp_buf buf;
    sp_buf_init(&buf, SP_MAX_RECORD_BYTES);
    enum sp_status status = buf_type(&buf, type, err);
    if (status == SP_OK)
        sp_put_bytes(out, field, buf.data, buf.size);
    sp_buf_release(&buf);
    return status;
}

enum sp_status sp_put_value_info(struct sp_recipe *out, uint32_t field, const char *name, const char *suffix,
                                 const struct sp_type *type, struct sp_error *err)
{
    struct sp_buf buf;
    sp_buf_init(&buf, SP_MAX_RECORD_BYTES);
    enum sp_status status = type->kind == SP_TYPE_NONE ? SP_OK : buf_type(&buf, type, err);
    const uint64_t type_size = type->kind == SP_TYPE_NONE ? 0 : field_size(buf.size);
    if (status == SP_OK) {
        sp_put_head(out, field, field_size(strlen(name) + strlen(suffix)) + type_size);
        sp_put_text_pair(out, 1, name, suffix);
        if (type->kind != SP_TYPE_NONE)
            sp_put_bytes(out, 2, buf.data, buf.size);
    }
    sp_buf_release(&buf);
    return status;
}

enum sp_status sp_put_tensor_info(struct sp_recipe *out, uint32_t field, const char *name, enum sp_dtype dtype,
                                  uint32_t rank, const int64_t *dims, struct sp_error *err)
{
    struct sp_dim all[SP_MAX_RANK];
    struct sp_type type = {.kind = SP_TYPE_TENSOR, .dtype = dtype};
    type.shape.has_rank = dims != NULL && rank <= SP_MAX_RANK;
    type.shape.rank = type.shape.has_rank ? rank : 0;
    type.shape.dims = all;
    for (uint32_t i = 0; i < type.shape.rank; i++)
        all[i] = dims[i] < 0 ? sp_dim_unknown() : sp_dim_known(dims[i]);
    return sp_put_value_info(out, field, name, "", &type, err);
}
