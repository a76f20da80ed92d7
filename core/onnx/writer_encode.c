#include <string.h>

#include "onnx.pb-c.h"
#include "onnx/write.h"

enum { MODEL_CONFIGURATION = 26, NODE_DEVICE_CONFIGURATIONS = 10 };

static void put_varint(uint64_t value, struct sp_buf *buf)
{
    unsigned char bytes[10];
    uint32_t width = sp_wire_varint_size(value);
    sp_wire_put_varint(bytes, value, width);
    sp_buf_append(buf, bytes, width);
}

void sp_encode_field(uint32_t number, const void *payload, size_t size, struct sp_buf *buf)
{
    put_varint((uint64_t)number << 3 | SP_WIRE_LEN, buf);
    put_varint(size, buf);
    sp_buf_append(buf, payload, size);
}

/* Packs a message as a field; the generated code writes fields in the order of their numbers, unpacked, each number in
   its shortest form: the canonical proto2 encoding. */
static enum sp_status pack(uint32_t number, const ProtobufCMessage *message, struct sp_arena *scratch,
                           struct sp_buf *buf, struct sp_error *err)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *packed = sp_arena_alloc(scratch, size);
    if (packed == NULL)
        return sp_fail_memory(err);
    sp_encode_field(number, packed, protobuf_c_message_pack(message, packed), buf);
    return sp_buf_failed(buf) ? sp_fail_memory(err) : SP_OK;
}

/* `count` messages of type `type` in one block and the array of pointers that protobuf-c wants. */
#define NEW_MESSAGES(arena, count, type, init, ret_block, ret_pointers)                                                \
    do {                                                                                                               \
        (ret_block) = SP_NEW_ARRAY((arena), (count), type);                                                            \
        (ret_pointers) = SP_NEW_ARRAY((arena), (count), type *);                                                       \
        for (uint32_t each = 0; (ret_block) != NULL && (ret_pointers) != NULL && each < (count); each++) {             \
            init(&(ret_block)[each]);                                                                                  \
            (ret_pointers)[each] = &(ret_block)[each];                                                                 \
        }                                                                                                              \
    } while (0)

static bool build_axis(const struct sp_sharded_axis *axis, Onnx__ShardedDimProto *proto, struct sp_arena *arena)
{
    Onnx__SimpleShardedDimProto *parts;
    NEW_MESSAGES(arena, axis->part_count, Onnx__SimpleShardedDimProto, onnx__simple_sharded_dim_proto__init, parts,
                 proto->simple_sharding);
    if (parts == NULL || proto->simple_sharding == NULL)
        return false;
    proto->n_simple_sharding = axis->part_count;
    proto->has_axis = axis->has_axis;
    proto->axis = axis->axis;
    for (uint32_t i = 0; i < axis->part_count; i++) {
        const struct sp_sharded_dim_part *part = &axis->parts[i];
        if (part->has_value) {
            parts[i].dim_case = ONNX__SIMPLE_SHARDED_DIM_PROTO__DIM_DIM_VALUE;
            parts[i].dim_value = part->dim_value;
        } else if (part->dim_param != NULL) {
            parts[i].dim_case = ONNX__SIMPLE_SHARDED_DIM_PROTO__DIM_DIM_PARAM;
            parts[i].dim_param = (char *)part->dim_param;
        }
        parts[i].has_num_shards = part->has_shards;
        parts[i].num_shards = part->num_shards;
    }
    return true;
}

static bool build_spec(const struct sp_sharding_spec *spec, Onnx__ShardingSpecProto *proto, struct sp_arena *arena)
{
    Onnx__IntIntListEntryProto *groups;
    Onnx__ShardedDimProto *axes;
    NEW_MESSAGES(arena, spec->group_count, Onnx__IntIntListEntryProto, onnx__int_int_list_entry_proto__init, groups,
                 proto->index_to_device_group_map);
    NEW_MESSAGES(arena, spec->axis_count, Onnx__ShardedDimProto, onnx__sharded_dim_proto__init, axes,
                 proto->sharded_dim);
    if (groups == NULL || axes == NULL || proto->index_to_device_group_map == NULL || proto->sharded_dim == NULL)
        return false;
    proto->tensor_name = (char *)spec->tensor_name;
    proto->n_device = spec->device_count;
    proto->device = spec->devices;
    proto->n_index_to_device_group_map = spec->group_count;
    for (uint32_t i = 0; i < spec->group_count; i++) {
        groups[i].has_key = true;
        groups[i].key = spec->groups[i].key;
        groups[i].n_value = spec->groups[i].count;
        groups[i].value = spec->groups[i].devices;
    }
    proto->n_sharded_dim = spec->axis_count;
    for (uint32_t i = 0; i < spec->axis_count; i++) {
        if (!build_axis(&spec->axes[i], &axes[i], arena))
            return false;
    }
    return true;
}

enum sp_status sp_encode_sharding_spec(const struct sp_sharding_spec *spec, struct sp_arena *scratch,
                                       struct sp_buf *buf, struct sp_error *err)
{
    struct sp_arena_mark mark = sp_arena_mark(scratch);
    Onnx__ShardingSpecProto proto = ONNX__SHARDING_SPEC_PROTO__INIT;
    uint8_t *packed = NULL;
    if (build_spec(spec, &proto, scratch))
        packed = sp_arena_alloc(scratch, protobuf_c_message_get_packed_size(&proto.base));
    if (packed != NULL)
        sp_buf_append(buf, packed, protobuf_c_message_pack(&proto.base, packed));
    sp_arena_rewind(scratch, mark);
    return packed == NULL || sp_buf_failed(buf) ? sp_fail_memory(err) : SP_OK;
}

enum sp_status sp_encode_node_configuration(const char *name, const struct sp_node_configuration *configuration,
                                            struct sp_arena *scratch, struct sp_buf *buf, struct sp_error *err)
{
    struct sp_arena_mark mark = sp_arena_mark(scratch);
    Onnx__NodeDeviceConfigurationProto proto = ONNX__NODE_DEVICE_CONFIGURATION_PROTO__INIT;
    Onnx__ShardingSpecProto *specs;
    NEW_MESSAGES(scratch, configuration->spec_count, Onnx__ShardingSpecProto, onnx__sharding_spec_proto__init, specs,
                 proto.sharding_spec);
    bool ok = specs != NULL && proto.sharding_spec != NULL;
    proto.configuration_id = (char *)name;
    proto.has_pipeline_stage = configuration->has_stage;
    proto.pipeline_stage = configuration->stage;
    proto.n_sharding_spec = configuration->spec_count;
    for (uint32_t i = 0; ok && i < configuration->spec_count; i++)
        ok = build_spec(&configuration->specs[i], &specs[i], scratch);
    enum sp_status status = ok ? pack(NODE_DEVICE_CONFIGURATIONS, &proto.base, scratch, buf, err) : sp_fail_memory(err);
    sp_arena_rewind(scratch, mark);
    return status;
}

enum sp_status sp_encode_more_specs(const void *payload, size_t size, const struct sp_node_configuration *configuration,
                                    struct sp_arena *scratch, struct sp_buf *buf, struct sp_error *err)
{
    enum { SHARDING_SPEC = 2 };
    struct sp_buf entry, spec;
    enum sp_status status = SP_OK;
    sp_buf_init(&entry, SP_SPLICE_MAX_LITERAL);
    sp_buf_init(&spec, SP_SPLICE_MAX_LITERAL);
    sp_buf_append(&entry, payload, size);
    for (uint32_t i = 0; status == SP_OK && i < configuration->spec_count; i++) {
        sp_buf_clear(&spec);
        status = sp_encode_sharding_spec(&configuration->specs[i], scratch, &spec, err);
        if (status == SP_OK)
            sp_encode_field(SHARDING_SPEC, spec.data, spec.size, &entry);
    }
    if (status == SP_OK && !sp_buf_failed(&entry))
        sp_encode_field(NODE_DEVICE_CONFIGURATIONS, entry.data, entry.size, buf);
    if (status == SP_OK && (sp_buf_failed(&entry) || sp_buf_failed(buf)))
        status = sp_fail_memory(err);
    sp_buf_release(&entry);
    sp_buf_release(&spec);
    return status;
}

enum sp_status sp_encode_configuration(const struct sp_annotations *annotations, struct sp_arena *scratch,
                                       struct sp_buf *buf, struct sp_error *err)
{
    Onnx__DeviceConfigurationProto proto = ONNX__DEVICE_CONFIGURATION_PROTO__INIT;
    proto.name = (char *)annotations->configuration;
    proto.has_num_devices = true;
    proto.num_devices = annotations->num_devices;
    if (annotations->device_names != NULL) {
        proto.n_device = (size_t)annotations->num_devices;
        proto.device = (char **)annotations->device_names;
    }
    return pack(MODEL_CONFIGURATION, &proto.base, scratch, buf, err);
}
