#pragma once
/*
 * wire - a bounded cursor over the protobuf wire format.
 *
 * A message is a run of fields; a field is a tag (number and wire type) and a value. The cursor walks one message's
 * payload, a field at a time, and never leaves it. It knows no schema: the caller decides which fields to open (by
 * walking the payload span of a length-delimited field with a new cursor) and which to pass over, which costs nothing
 * whatever their length.
 *
 * Offsets are absolute in the file, so that an error or a span found at any depth says where in the file it lies.
 *
 * Refused as malformed, with the byte offset: field number 0 or above 2^29 - 1, wire types 3, 4 (groups), 6 and 7,
 * varints longer than 10 bytes or above 64 bits, length prefixes longer than 5 bytes, lengths above 2^31 - 1
 * (protobuf's own bound), and anything that ends past its message.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "graph/model.h"

enum sp_wire_type { SP_WIRE_VARINT = 0, SP_WIRE_I64 = 1, SP_WIRE_LEN = 2, SP_WIRE_I32 = 5 };

struct sp_wire {
    const unsigned char *bytes; /* the file */
    uint64_t at, end;           /* the next field, and the end of the message */
};

struct sp_wire_field {
    uint32_t number; /* 0: the message has ended */
    enum sp_wire_type type;
    uint64_t at;            /* offset of the tag */
    uint64_t value;         /* of VARINT, I64 and I32 */
    uint64_t length_at;     /* LEN: offset of the length prefix */
    struct sp_span payload; /* LEN: the bytes after the prefix; others: the value's own bytes */
};

static inline struct sp_wire sp_wire_of(const unsigned char *bytes, struct sp_span span)
{
    struct sp_wire wire = {bytes, span.offset, span.offset + span.size};
    return wire;
}

/* The next field; number 0 at the end. SP_ERR_MALFORMED with `where` "byte N" otherwise. */
enum sp_status sp_wire_next_any(struct sp_wire *wire, struct sp_wire_field *ret_field, struct sp_error *err);

/* The same, with the usual case in place: a tag of one byte with a number of one byte or a length of one or two bytes.
   Reading a model is mostly this. */
static inline enum sp_status sp_wire_next(struct sp_wire *wire, struct sp_wire_field *ret_field, struct sp_error *err)
{
    const uint64_t at = wire->at;
    if (wire->end - at > 2 && at < wire->end) {
        const unsigned char *bytes = wire->bytes + at;
        if ((bytes[0] & 0x87) == SP_WIRE_VARINT && bytes[0] >= 8 && bytes[1] < 0x80) {
            *ret_field = (struct sp_wire_field){.number = bytes[0] >> 3, .at = at, .value = bytes[1]};
            ret_field->payload = (struct sp_span){at + 1, 1};
            wire->at = at + 2;
            return SP_OK;
        }
        const bool is_long = bytes[1] >= 0x80;
        const uint64_t length = is_long ? (bytes[1] & 0x7fU) | (uint64_t)bytes[2] << 7 : bytes[1];
        const uint64_t start = at + (is_long ? 3 : 2);
        if ((bytes[0] & 0x87) == SP_WIRE_LEN && bytes[0] >= 8 && !(is_long && bytes[2] >= 0x80) &&
            length <= wire->end - start) {
            ret_field->number = bytes[0] >> 3;
            ret_field->type = SP_WIRE_LEN;
            ret_field->at = at;
            ret_field->value = 0;
            ret_field->length_at = at + 1;
            ret_field->payload.offset = start;
            ret_field->payload.size = length;
            wire->at = start + length;
            return SP_OK;
        }
    }
    return sp_wire_next_any(wire, ret_field, err);
}

/* SP_ERR_MALFORMED unless the field has this wire type. */
enum sp_status sp_wire_expect(const struct sp_wire_field *field, enum sp_wire_type type, struct sp_error *err);

/* Reads a varint at *at, which moves behind it. False when it is malformed or passes `end`. */
bool sp_wire_varint(const unsigned char *bytes, uint64_t *at, uint64_t end, uint64_t *ret_value);

/* Bytes that the shortest varint for `value` takes. */
uint32_t sp_wire_varint_size(uint64_t value);

/* Writes `value` as a varint of exactly `width` bytes (at least the shortest, at most 10). */
void sp_wire_put_varint(unsigned char *bytes, uint64_t value, uint32_t width);

/*
 * The items of one occurrence of a repeated number: one for the unpacked form, all of a packed run otherwise. `type` is
 * the wire type of one item.
 */
enum sp_status sp_wire_count_items(const unsigned char *bytes, const struct sp_wire_field *field,
                                   enum sp_wire_type type, uint64_t *ret_count, struct sp_error *err);

/* Reads the next item of such an occurrence; *at starts at field->payload.offset. Call it as often as counted. */
uint64_t sp_wire_item(const unsigned char *bytes, const struct sp_wire_field *field, enum sp_wire_type type,
                      uint64_t *at);

/* The bits of an I32 or I64 item as a number. */
double sp_wire_float(uint64_t bits);
double sp_wire_double(uint64_t bits);

/* SP_ERR_MALFORMED at this offset; `what` completes the sentence "The protobuf data is broken: ...". */
__attribute__((format(printf, 3, 4))) enum sp_status sp_wire_fail(struct sp_error *err, uint64_t at, const char *what,
                                                                  ...);
