#include <string.h>

#include "onnx.pb-c.h"
#include "onnx/leaf.h"

enum sp_status sp_read_device_configuration(struct sp_reader *r, struct sp_span span,
                                            struct sp_device_configuration *ret_configuration)
{
    struct sp_arena_mark mark = sp_arena_mark(r->scratch);
    struct sp_device_configuration *configuration = ret_configuration;
    ProtobufCMessage *message;
    enum sp_status status = sp_leaf_unpack(r, &onnx__device_configuration_proto__descriptor, span, &message);
    if (status != SP_OK)
        goto done;
    const Onnx__DeviceConfigurationProto *proto = (const Onnx__DeviceConfigurationProto *)message;
    configuration->has_num_devices = proto->has_num_devices;
    configuration->num_devices = proto->num_devices;
    configuration->device_count = (uint32_t)proto->n_device;
    configuration->devices = SP_NEW_ARRAY(r->arena, proto->n_device, const char *);
    bool ok = configuration->devices != NULL && sp_leaf_intern(r, proto->name, &configuration->name);
    for (uint32_t i = 0; ok && i < configuration->device_count; i++)
        ok = sp_leaf_intern(r, proto->device[i], &configuration->devices[i]);
    if (!ok)
        status = sp_fail_memory(r->err);
done:
    sp_arena_rewind(r->scratch, mark);
    return status;
}

static bool copy_axis(struct sp_reader *r, const Onnx__ShardedDimProto *proto, struct sp_sharded_axis *axis)
{
    axis->has_axis = proto->has_axis;
    axis->axis = proto->axis;
    axis->part_count = (uint32_t)proto->n_simple_sharding;
    axis->parts = SP_NEW_ARRAY(r->arena, axis->part_count, struct sp_sharded_dim_part);
    if (axis->parts == NULL)
        return false;
    for (uint32_t i = 0; i < axis->part_count; i++) {
        const Onnx__SimpleShardedDimProto *from = proto->simple_sharding[i];
        struct sp_sharded_dim_part *part = &axis->parts[i];
        part->has_value = from->dim_case == ONNX__SIMPLE_SHARDED_DIM_PROTO__DIM_DIM_VALUE;
        if (part->has_value)
            part->dim_value = from->dim_value;
        if (from->dim_case == ONNX__SIMPLE_SHARDED_DIM_PROTO__DIM_DIM_PARAM &&
            !sp_leaf_intern(r, from->dim_param, &part->dim_param))
            return false;
        part->has_shards = from->has_num_shards;
        part->num_shards = from->num_shards;
    }
    return true;
}

static int64_t *copy_ints(struct sp_reader *r, size_t count, const int64_t *from)
{
    int64_t *to = SP_NEW_ARRAY(r->arena, count, int64_t);
    if (to != NULL && count > 0)
        memcpy(to, from, count * sizeof *to);
    return to;
}

static bool copy_spec(struct sp_reader *r, const Onnx__ShardingSpecProto *proto, struct sp_sharding_spec *spec)
{
    spec->device_count = (uint32_t)proto->n_device;
    spec->group_count = (uint32_t)proto->n_index_to_device_group_map;
    spec->axis_count = (uint32_t)proto->n_sharded_dim;
    spec->devices = copy_ints(r, proto->n_device, proto->device);
    spec->groups = SP_NEW_ARRAY(r->arena, spec->group_count, struct sp_device_group);
    spec->axes = SP_NEW_ARRAY(r->arena, spec->axis_count, struct sp_sharded_axis);
    if (spec->devices == NULL || spec->groups == NULL || spec->axes == NULL ||
        !sp_leaf_intern(r, proto->tensor_name, &spec->tensor_name))
        return false;
    for (uint32_t i = 0; i < spec->group_count; i++) {
        const Onnx__IntIntListEntryProto *from = proto->index_to_device_group_map[i];
        spec->groups[i].key = from->key;
        spec->groups[i].count = (uint32_t)from->n_value;
        spec->groups[i].devices = copy_ints(r, from->n_value, from->value);
        if (spec->groups[i].devices == NULL)
            return false;
    }
    for (uint32_t i = 0; i < spec->axis_count; i++) {
        if (!copy_axis(r, proto->sharded_dim[i], &spec->axes[i]))
            return false;
    }
    return true;
}

enum sp_status sp_read_node_configuration(struct sp_reader *r, struct sp_span span,
                                          struct sp_node_configuration *ret_configuration)
{
    struct sp_arena_mark mark = sp_arena_mark(r->scratch);
    struct sp_node_configuration *configuration = ret_configuration;
    ProtobufCMessage *message;
    enum sp_status status = sp_leaf_unpack(r, &onnx__node_device_configuration_proto__descriptor, span, &message);
    if (status != SP_OK)
        goto done;
    const Onnx__NodeDeviceConfigurationProto *proto = (const Onnx__NodeDeviceConfigurationProto *)message;
    configuration->has_stage = proto->has_pipeline_stage;
    configuration->stage = proto->pipeline_stage;
    configuration->spec_count = (uint32_t)proto->n_sharding_spec;
    configuration->specs = SP_NEW_ARRAY(r->arena, proto->n_sharding_spec, struct sp_sharding_spec);
    bool ok =
        configuration->specs != NULL && sp_leaf_intern(r, proto->configuration_id, &configuration->configuration_id);
    for (uint32_t i = 0; ok && i < configuration->spec_count; i++)
        ok = copy_spec(r, proto->sharding_spec[i], &configuration->specs[i]);
    if (!ok)
        status = sp_fail_memory(r->err);
done:
    sp_arena_rewind(r->scratch, mark);
    return status;
}
