#include "proto_json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void write_name(const char *name, const struct proto_json_style *style, struct sp_buf *buf)
{
    sp_buf_text(buf, "\"");
    for (; *name != '\0'; name++) {
        char c = *name;
        if (!style->original_names && c == '_' && name[1] >= 'a' && name[1] <= 'z')
            c = (char)(*++name - 'a' + 'A');
        sp_buf_append(buf, &c, 1);
    }
    sp_buf_text(buf, "\":");
}

/* The UTF-16 units of one character as escapes. */
static const char *write_escaped(const char *text, struct sp_buf *buf)
{
    const unsigned char *c = (const unsigned char *)text;
    const int size = c[0] < 0x80 ? 1 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;
    uint32_t point = size == 1 ? c[0] : c[0] & (0xffu >> (size + 1));
    for (int i = 1; i < size; i++)
        point = point << 6 | (c[i] & 0x3fu);
    if (point >= 0x10000)
        sp_buf_printf(buf, "\\u%04X\\u%04x", 0xd800 + ((point - 0x10000) >> 10), 0xdc00 + (point & 0x3ff));
    else
        sp_buf_printf(buf, "\\u%04x", point);
    return text + size;
}

static void write_text(const char *text, const struct proto_json_style *style, struct sp_buf *buf)
{
    sp_buf_text(buf, "\"");
    while (*text != '\0') {
        if (style->escapes || (unsigned char)*text < 0x20 || *text == '"' || *text == '\\')
            text = write_escaped(text, buf);
        else
            sp_buf_append(buf, text++, 1);
    }
    sp_buf_text(buf, "\"");
}

static void write_bytes(const ProtobufCBinaryData *data, const struct proto_json_style *style, struct sp_buf *buf)
{
    const char *alphabet = style->url_base64 ? "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
                                             : "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    sp_buf_text(buf, "\"");
    for (size_t i = 0; i < data->len; i += 3) {
        const size_t size = data->len - i < 3 ? data->len - i : 3;
        uint32_t bits = 0;
        for (size_t k = 0; k < 3; k++)
            bits = bits << 8 | (k < size ? data->data[i + k] : 0);
        for (size_t k = 0; k < 4; k++) {
            if (k <= size)
                sp_buf_append(buf, &alphabet[bits >> (18 - 6 * k) & 63], 1);
            else if (!style->url_base64)
                sp_buf_text(buf, "=");
        }
    }
    sp_buf_text(buf, "\"");
}

static void write_real(double value, int digits, struct sp_buf *buf)
{
    if (isnan(value))
        sp_buf_text(buf, "\"NaN\"");
    else if (isinf(value))
        sp_buf_text(buf, value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    else
        sp_buf_printf(buf, "%.*g", digits, value);
}

static void write_enum(int value, const ProtobufCEnumDescriptor *descriptor, const struct proto_json_style *style,
                       struct sp_buf *buf)
{
    const ProtobufCEnumValue *named = protobuf_c_enum_descriptor_get_value(descriptor, value);
    if (named == NULL || style->plain_numbers)
        sp_buf_printf(buf, "%d", value);
    else
        sp_buf_printf(buf, "\"%s\"", named->name);
}

static size_t size_of(const ProtobufCFieldDescriptor *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    default:
        return 4; /* int32, float, enum: all that onnx.proto has */
    }
}

static void write_value(const void *at, const ProtobufCFieldDescriptor *field, const struct proto_json_style *style,
                        struct sp_buf *buf)
{
    const char *quote = style->plain_numbers ? "" : "\"";
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        write_text(*(const char *const *)at, style, buf);
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        proto_json_write(*(const ProtobufCMessage *const *)at, style, buf);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        write_bytes(at, style, buf);
        break;
    case PROTOBUF_C_TYPE_INT64:
        sp_buf_printf(buf, "%s%" PRId64 "%s", quote, *(const int64_t *)at, quote);
        break;
    case PROTOBUF_C_TYPE_UINT64:
        sp_buf_printf(buf, "%s%" PRIu64 "%s", quote, *(const uint64_t *)at, quote);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        write_real(*(const double *)at, 17, buf);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        write_real((double)*(const float *)at, 9, buf);
        break;
    case PROTOBUF_C_TYPE_ENUM:
        write_enum(*(const int *)at, field->descriptor, style, buf);
        break;
    default:
        sp_buf_printf(buf, "%" PRId32, *(const int32_t *)at);
        break;
    }
}

static bool is_present(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    const char *base = (const char *)message;
    if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0)
        return *(const uint32_t *)(const void *)(base + field->quantifier_offset) == field->id;
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return *(const size_t *)(const void *)(base + field->quantifier_offset) > 0;
    if (field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_MESSAGE)
        return *(const void *const *)(const void *)(base + field->offset) != NULL &&
               *(const void *const *)(const void *)(base + field->offset) != field->default_value;
    return *(const protobuf_c_boolean *)(const void *)(base + field->quantifier_offset) != 0;
}

static void write_member(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                         const struct proto_json_style *style, struct sp_buf *buf)
{
    const char *base = (const char *)message;
    write_name(field->name, style, buf);
    if (field->label != PROTOBUF_C_LABEL_REPEATED) {
        write_value(base + field->offset, field, style, buf);
        return;
    }
    const size_t count = *(const size_t *)(const void *)(base + field->quantifier_offset);
    const char *items = *(const char *const *)(const void *)(base + field->offset);
    for (size_t i = 0; i < count; i++) {
        sp_buf_text(buf, i == 0 ? "[" : ", ");
        write_value(items + i * size_of(field), field, style, buf);
    }
    sp_buf_text(buf, "]");
}

void proto_json_write(const ProtobufCMessage *message, const struct proto_json_style *style, struct sp_buf *buf)
{
    const ProtobufCMessageDescriptor *descriptor = message->descriptor;
    const char *before = "{";
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
        if (!is_present(message, field))
            continue;
        sp_buf_text(buf, before);
        before = ",\n";
        write_member(message, field, style, buf);
    }
    sp_buf_text(buf, before[0] == '{' ? "{}" : "}");
}
