/*
 * ShardingSpecProto bytes (proto2). Each message is walked twice, to count what it holds and to keep it. Fields that
 * the schema lacks are refused, since a converter would drop them.
 */
#include <inttypes.h>
#include <string.h>

#include "base/utf8.h"
#include "onnx/wire.h"
#include "onnx/writer.h"
#include "sharding/dialect.h"

enum { SPEC_TENSOR_NAME = 1, SPEC_DEVICE = 2, SPEC_GROUP = 3, SPEC_DIM = 4 };
enum { GROUP_KEY = 1, GROUP_VALUE = 2 };
enum { DIM_AXIS = 1, DIM_PART = 2 };
enum { PART_VALUE = 1, PART_PARAM = 2, PART_SHARDS = 3 };

struct proto_reader {
    struct sp_arena *arena;
    const unsigned char *bytes;
    struct sp_error *err;
};

static enum sp_status unknown_field(struct proto_reader *reader, const struct sp_wire_field *field, const char *message)
{
    return sp_wire_fail(reader->err, field->at, "%s has no field %" PRIu32, message, field->number);
}

static enum sp_status read_number(struct proto_reader *reader, const struct sp_wire_field *field, int64_t *ret_value)
{
    enum sp_status status = sp_wire_expect(field, SP_WIRE_VARINT, reader->err);
    if (status == SP_OK)
        *ret_value = (int64_t)field->value;
    return status;
}

static enum sp_status read_text(struct proto_reader *reader, const struct sp_wire_field *field, const char **ret_text)
{
    const char *bytes = (const char *)reader->bytes + field->payload.offset;
    enum sp_status status = sp_wire_expect(field, SP_WIRE_LEN, reader->err);
    if (status != SP_OK)
        return status;
    if (field->payload.size > SP_MAX_NAME_BYTES)
        return sp_fail_limit(reader->err, "NAME_TOO_LONG", "SP_MAX_NAME_BYTES", SP_MAX_NAME_BYTES,
                             (int64_t)field->payload.size, "The name at byte %" PRIu64 " is longer than %d bytes.",
                             field->payload.offset, SP_MAX_NAME_BYTES);
    if (!sp_utf8_valid(bytes, field->payload.size))
        return sp_wire_fail(reader->err, field->payload.offset, "a name is not UTF-8 text or holds a NUL");
    *ret_text = sp_arena_string(reader->arena, bytes, field->payload.size);
    return *ret_text == NULL ? sp_fail_memory(reader->err) : SP_OK;
}

/* One occurrence of a repeated number, packed or not, appended to `items`. */
static enum sp_status read_items(struct proto_reader *reader, const struct sp_wire_field *field, uint32_t *count,
                                 int64_t *items)
{
    uint64_t more = 0, at = field->payload.offset;
    enum sp_status status = sp_wire_count_items(reader->bytes, field, SP_WIRE_VARINT, &more, reader->err);
    for (uint64_t i = 0; status == SP_OK && i < more; i++)
        items[(*count)++] = (int64_t)sp_wire_item(reader->bytes, field, SP_WIRE_VARINT, &at);
    return status;
}

/* How often the fields 1..4 of a message occur; of `packed`, the items. The whole is bounded by SP_MAX_SHARDING_BYTES,
   so 32 bits suffice. */
static enum sp_status count_fields(struct proto_reader *reader, struct sp_span span, uint32_t packed, uint32_t known,
                                   const char *message, uint32_t *counts)
{
    struct sp_wire wire = sp_wire_of(reader->bytes, span);
    struct sp_wire_field field = {0};
    memset(counts, 0, (known + 1) * sizeof *counts);
    for (;;) {
        enum sp_status status = sp_wire_next(&wire, &field, reader->err);
        uint64_t items = 1;
        if (status != SP_OK || field.number == 0)
            return status;
        if (field.number > known)
            return unknown_field(reader, &field, message);
        if (field.number == packed)
            status = sp_wire_count_items(reader->bytes, &field, SP_WIRE_VARINT, &items, reader->err);
        if (status != SP_OK)
            return status;
        counts[field.number] += (uint32_t)items;
    }
}

static enum sp_status read_part(struct proto_reader *reader, struct sp_span span, struct sp_sharded_dim_part *part)
{
    struct sp_wire wire = sp_wire_of(reader->bytes, span);
    struct sp_wire_field field = {0};
    enum sp_status status = sp_wire_next(&wire, &field, reader->err);
    while (status == SP_OK && field.number != 0) {
        switch (field.number) {
        case PART_VALUE: /* of a oneof, the last member on the wire wins */
            part->has_value = true;
            part->dim_param = NULL;
            status = read_number(reader, &field, &part->dim_value);
            break;
        case PART_PARAM:
            part->has_value = false;
            part->dim_value = 0;
            status = read_text(reader, &field, &part->dim_param);
            break;
        case PART_SHARDS:
            part->has_shards = true;
            status = read_number(reader, &field, &part->num_shards);
            break;
        default:
            status = unknown_field(reader, &field, "SimpleShardedDimProto");
            break;
        }
        if (status == SP_OK)
            status = sp_wire_next(&wire, &field, reader->err);
    }
    return status;
}

static enum sp_status read_axis(struct proto_reader *reader, struct sp_span span, struct sp_sharded_axis *axis)
{
    struct sp_wire wire = sp_wire_of(reader->bytes, span);
    struct sp_wire_field field = {0};
    uint32_t counts[DIM_PART + 1];
    enum sp_status status = count_fields(reader, span, 0, DIM_PART, "ShardedDimProto", counts);
    if (status != SP_OK)
        return status;
    axis->parts = SP_NEW_ARRAY(reader->arena, counts[DIM_PART], struct sp_sharded_dim_part);
    if (axis->parts == NULL)
        return sp_fail_memory(reader->err);
    status = sp_wire_next(&wire, &field, reader->err);
    while (status == SP_OK && field.number != 0) {
        if (field.number == DIM_AXIS) {
            axis->has_axis = true;
            status = read_number(reader, &field, &axis->axis);
        } else {
            status = sp_wire_expect(&field, SP_WIRE_LEN, reader->err);
            if (status == SP_OK)
                status = read_part(reader, field.payload, &axis->parts[axis->part_count++]);
        }
        if (status == SP_OK)
            status = sp_wire_next(&wire, &field, reader->err);
    }
    return status;
}

static enum sp_status read_group(struct proto_reader *reader, struct sp_span span, struct sp_device_group *group)
{
    struct sp_wire wire = sp_wire_of(reader->bytes, span);
    struct sp_wire_field field = {0};
    uint32_t counts[GROUP_VALUE + 1];
    enum sp_status status = count_fields(reader, span, GROUP_VALUE, GROUP_VALUE, "IntIntListEntryProto", counts);
    if (status != SP_OK)
        return status;
    if (counts[GROUP_KEY] == 0)
        return sp_wire_fail(reader->err, span.offset, "an entry of index_to_device_group_map has no key");
    group->devices = SP_NEW_ARRAY(reader->arena, counts[GROUP_VALUE], int64_t);
    if (group->devices == NULL)
        return sp_fail_memory(reader->err);
    status = sp_wire_next(&wire, &field, reader->err);
    while (status == SP_OK && field.number != 0) {
        if (field.number == GROUP_KEY)
            status = read_number(reader, &field, &group->key);
        else
            status = read_items(reader, &field, &group->count, group->devices);
        if (status == SP_OK)
            status = sp_wire_next(&wire, &field, reader->err);
    }
    return status;
}

static enum sp_status read_field(struct proto_reader *reader, const struct sp_wire_field *field,
                                 struct sp_sharding_spec *spec)
{
    enum sp_status status;
    switch (field->number) {
    case SPEC_TENSOR_NAME:
        return read_text(reader, field, &spec->tensor_name);
    case SPEC_DEVICE:
        return read_items(reader, field, &spec->device_count, spec->devices);
    case SPEC_GROUP:
        status = sp_wire_expect(field, SP_WIRE_LEN, reader->err);
        return status == SP_OK ? read_group(reader, field->payload, &spec->groups[spec->group_count++]) : status;
    default:
        status = sp_wire_expect(field, SP_WIRE_LEN, reader->err);
        return status == SP_OK ? read_axis(reader, field->payload, &spec->axes[spec->axis_count++]) : status;
    }
}

enum sp_status sp_onnx_spec_read_proto(struct sp_arena *arena, const unsigned char *bytes, size_t size,
                                       struct sp_sharding_spec *ret_spec, struct sp_error *err)
{
    struct proto_reader reader = {arena, bytes, err};
    struct sp_span span = {0, size};
    struct sp_wire wire = sp_wire_of(bytes, span);
    struct sp_wire_field field = {0};
    struct sp_sharding_spec spec = {0};
    uint32_t counts[SPEC_DIM + 1];
    if (size > SP_MAX_SHARDING_BYTES)
        return sp_fail_limit(err, "SHARDING_TOO_LONG", "SP_MAX_SHARDING_BYTES", SP_MAX_SHARDING_BYTES, (int64_t)size,
                             "A sharding may have at most %d bytes.", (int)SP_MAX_SHARDING_BYTES);
    enum sp_status status = count_fields(&reader, span, SPEC_DEVICE, SPEC_DIM, "ShardingSpecProto", counts);
    if (status != SP_OK)
        return status;
    spec.devices = SP_NEW_ARRAY(arena, counts[SPEC_DEVICE], int64_t);
    spec.groups = SP_NEW_ARRAY(arena, counts[SPEC_GROUP], struct sp_device_group);
    spec.axes = SP_NEW_ARRAY(arena, counts[SPEC_DIM], struct sp_sharded_axis);
    if (spec.devices == NULL || spec.groups == NULL || spec.axes == NULL)
        return sp_fail_memory(err);
    status = sp_wire_next(&wire, &field, err);
    while (status == SP_OK && field.number != 0) {
        status = read_field(&reader, &field, &spec);
        if (status == SP_OK)
            status = sp_wire_next(&wire, &field, err);
    }
    if (status == SP_OK)
        *ret_spec = spec;
    return status;
}

enum sp_status sp_onnx_spec_write_proto(struct sp_arena *arena, const struct sp_sharding_spec *spec, struct sp_buf *buf,
                                        struct sp_error *err)
{
    return sp_encode_sharding_spec(spec, arena, buf, err);
}
