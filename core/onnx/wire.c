#include "onnx/wire.h"

#include <inttypes.h>
#include <string.h>

#define MAX_FIELD_NUMBER ((UINT64_C(1) << 29) - 1)
#define MAX_LENGTH       ((UINT64_C(1) << 31) - 1)
#define MAX_LENGTH_WIDTH 5
#define MAX_VARINT_WIDTH 10

enum sp_status sp_wire_fail(struct sp_error *err, uint64_t at, const char *what, ...)
{
    char text[256];
    SP_FORMAT(text, what);
    sp_fail(err, SP_ERR_MALFORMED, "MALFORMED_PROTOBUF", "The protobuf data is broken at byte %" PRIu64 ": %s.", at,
            text);
    sp_error_at(err, "byte %" PRIu64, at);
    return SP_ERR_MALFORMED;
}

bool sp_wire_varint(const unsigned char *bytes, uint64_t *at, uint64_t end, uint64_t *ret_value)
{
    uint64_t value = 0, position = *at;
    if (position < end && bytes[position] < 0x80) { /* most tags and lengths */
        *ret_value = bytes[position];
        *at = position + 1;
        return true;
    }
    for (unsigned shift = 0; shift < 7 * MAX_VARINT_WIDTH && position < end; shift += 7) {
        unsigned char byte = bytes[position++];
        if (shift == 63 && byte > 1)
            return false; /* bits above the 64th */
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *at = position;
            *ret_value = value;
            return true;
        }
    }
    return false;
}

uint32_t sp_wire_varint_size(uint64_t value)
{
    uint32_t size = 1;
    while (value >= 0x80) {
        value >>= 7;
        size++;
    }
    return size;
}

void sp_wire_put_varint(unsigned char *bytes, uint64_t value, uint32_t width)
{
    for (uint32_t i = 0; i + 1 < width; i++) {
        bytes[i] = (unsigned char)(value & 0x7f) | 0x80;
        value >>= 7;
    }
    bytes[width - 1] = (unsigned char)value;
}

static uint64_t fixed(const unsigned char *bytes, uint32_t size)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < size; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

static enum sp_status read_value(struct sp_wire *wire, struct sp_wire_field *field, struct sp_error *err)
{
    uint64_t start = wire->at, size;
    switch ((int)field->type) {
    case SP_WIRE_VARINT:
        if (!sp_wire_varint(wire->bytes, &wire->at, wire->end, &field->value))
            return sp_wire_fail(err, start, "a number is cut off or longer than 10 bytes");
        field->payload = (struct sp_span){start, wire->at - start};
        return SP_OK;
    case SP_WIRE_I64:
    case SP_WIRE_I32:
        size = field->type == SP_WIRE_I64 ? 8 : 4;
        if (wire->end - wire->at < size)
            return sp_wire_fail(err, start, "a number is cut off");
        field->value = fixed(wire->bytes + start, (uint32_t)size);
        field->payload = (struct sp_span){start, size};
        wire->at += size;
        return SP_OK;
    case SP_WIRE_LEN:
        if (!sp_wire_varint(wire->bytes, &wire->at, wire->end, &size) || wire->at - start > MAX_LENGTH_WIDTH)
            return sp_wire_fail(err, start, "a length is cut off or longer than 5 bytes");
        if (size > MAX_LENGTH)
            return sp_wire_fail(err, start, "a length of %" PRIu64 " bytes is above protobuf's 2 GiB", size);
        if (size > wire->end - wire->at)
            return sp_wire_fail(err, start,
                                "field %u has %" PRIu64 " bytes but only %" PRIu64 " are left (is the file cut off?)",
                                field->number, size, wire->end - wire->at);
        field->length_at = start;
        field->payload = (struct sp_span){wire->at, size};
        wire->at += size;
        return SP_OK;
    default:
        return sp_wire_fail(err, field->at, "wire type %u does not exist or is a group", (unsigned)field->type);
    }
}

enum sp_status sp_wire_next_any(struct sp_wire *wire, struct sp_wire_field *ret_field, struct sp_error *err)
{
    struct sp_wire_field field = {.at = wire->at};
    uint64_t tag;
    if (wire->at < wire->end) {
        if (!sp_wire_varint(wire->bytes, &wire->at, wire->end, &tag))
            return sp_wire_fail(err, field.at, "a field's tag is cut off or longer than 10 bytes");
        if (tag >> 3 == 0 || tag >> 3 > MAX_FIELD_NUMBER)
            return sp_wire_fail(err, field.at, "%" PRIu64 " is no field number", tag >> 3);
        field.number = (uint32_t)(tag >> 3);
        field.type = (enum sp_wire_type)(tag & 7);
        enum sp_status status = read_value(wire, &field, err);
        if (status != SP_OK)
            return status;
    }
    *ret_field = field;
    return SP_OK;
}

enum sp_status sp_wire_expect(const struct sp_wire_field *field, enum sp_wire_type type, struct sp_error *err)
{
    if (field->type == type)
        return SP_OK;
    return sp_wire_fail(err, field->at, "field %u has wire type %u where %u belongs", field->number,
                        (unsigned)field->type, (unsigned)type);
}

static enum sp_status count_varints(const unsigned char *bytes, struct sp_span span, uint64_t *ret_count,
                                    struct sp_error *err)
{
    uint64_t at = span.offset, end = span.offset + span.size, count = 0, value;
    while (at < end) {
        uint64_t start = at;
        if (!sp_wire_varint(bytes, &at, end, &value))
            return sp_wire_fail(err, start, "a packed number is cut off or longer than 10 bytes");
        count++;
    }
    *ret_count = count;
    return SP_OK;
}

enum sp_status sp_wire_count_items(const unsigned char *bytes, const struct sp_wire_field *field,
                                   enum sp_wire_type type, uint64_t *ret_count, struct sp_error *err)
{
    if (field->type == type) {
        *ret_count = 1;
        return SP_OK;
    }
    if (field->type != SP_WIRE_LEN)
        return sp_wire_expect(field, type, err);
    if (type == SP_WIRE_VARINT)
        return count_varints(bytes, field->payload, ret_count, err);
    uint64_t size = type == SP_WIRE_I64 ? 8 : 4;
    if (field->payload.size % size != 0)
        return sp_wire_fail(err, field->payload.offset, "packed numbers of %" PRIu64 " bytes fill %" PRIu64 " bytes",
                            size, field->payload.size);
    *ret_count = field->payload.size / size;
    return SP_OK;
}

uint64_t sp_wire_item(const unsigned char *bytes, const struct sp_wire_field *field, enum sp_wire_type type,
                      uint64_t *at)
{
    uint64_t value = 0;
    if (field->type == type)
        return field->value;
    if (type == SP_WIRE_VARINT) {
        /* Counted before, so this cannot fail; were the bytes changed since, the result is 0 and stays in bounds. */
        (void)sp_wire_varint(bytes, at, field->payload.offset + field->payload.size, &value);
        return value;
    }
    uint32_t size = type == SP_WIRE_I64 ? 8 : 4;
    value = fixed(bytes + *at, size);
    *at += size;
    return value;
}

double sp_wire_float(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return value;
}

double sp_wire_double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
