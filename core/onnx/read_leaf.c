#include <inttypes.h>
#include <protobuf-c/protobuf-c.h>
#include <string.h>

#include "onnx.pb-c.h"
#include "onnx/read.h"
#include "onnx/utf8.h"

/*
 * Generated protobuf-c code has no bound on depth, merges repeated singular messages in quadratic time, cuts strings at
 * a NUL and does not check UTF-8. So a record is walked against its descriptor before it is unpacked, and unpacked into
 * a scratch arena that is rewound when the record has been copied into the model.
 */

/* ---- the walk before ------------------------------------------------------------------------------------------- */

struct level {
    const ProtobufCMessageDescriptor *descriptor;
    struct sp_wire wire;
    uint64_t seen; /* singular messages met, by field index */
};

static enum sp_status scan_string(struct sp_reader *r, const struct sp_wire_field *field)
{
    const char *text;
    /* Interning would be wasted on these; the checks are what counts, and names recur. */
    return sp_reader_text(r, field, &text);
}

static enum sp_status scan_message(struct sp_reader *r, struct level *levels, uint32_t *depth,
                                   const struct sp_wire_field *field, const ProtobufCFieldDescriptor *known)
{
    struct level *level = &levels[*depth - 1];
    uint64_t bit = UINT64_C(1) << (unsigned)(known - level->descriptor->fields);
    bool seen = known->label != PROTOBUF_C_LABEL_REPEATED && (level->seen & bit) != 0;
    enum sp_status status =
        known->label == PROTOBUF_C_LABEL_REPEATED ? sp_reader_message(r, field) : sp_reader_single(r, field, &seen);
    if (status != SP_OK)
        return status;
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
        return scan_string(r, field);
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

static enum sp_status unpack(struct sp_reader *r, const ProtobufCMessageDescriptor *descriptor, struct sp_span span,
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

static bool intern(struct sp_reader *r, const char *text, const char **ret)
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

/* ---- types ----------------------------------------------------------------------------------------------------- */

static enum sp_status convert_dtype(struct sp_reader *r, bool has, int32_t number, enum sp_dtype *ret)
{
    if (has && sp_dtype_name(number) == NULL)
        return sp_reader_fail(r, "UNKNOWN_DATA_TYPE", "Data type %d is not one of ONNX (0 to %d).", number,
                              SP_DTYPE_COUNT - 1);
    *ret = has ? (enum sp_dtype)number : SP_DTYPE_UNDEFINED;
    return SP_OK;
}

static enum sp_status convert_shape(struct sp_reader *r, const Onnx__TensorShapeProto *proto, struct sp_shape *shape)
{
    if (proto == NULL)
        return SP_OK;
    if (proto->n_dim > SP_MAX_RANK)
        return sp_fail_limit(r->err, "RANK_TOO_LARGE", "SP_MAX_RANK", SP_MAX_RANK, (int64_t)proto->n_dim,
                             "A shape has %zu axes; the limit SP_MAX_RANK is %d.", proto->n_dim, SP_MAX_RANK);
    shape->has_rank = true;
    shape->rank = (uint32_t)proto->n_dim;
    shape->dims = SP_NEW_ARRAY(r->arena, proto->n_dim, struct sp_dim);
    if (shape->dims == NULL)
        return sp_fail_memory(r->err);
    for (uint32_t i = 0; i < shape->rank; i++) {
        const Onnx__TensorShapeProto__Dimension *dim = proto->dim[i];
        /* Some exporters write -1 for "any": a negative extent says nothing. */
        if (dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE && dim->dim_value >= 0)
            shape->dims[i] = sp_dim_known(dim->dim_value);
        else if (dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM && dim->dim_param[0] != '\0')
            shape->dims[i] = sp_dim_symbol(r->model->dims, dim->dim_param);
        else
            shape->dims[i] = sp_dim_unknown();
    }
    return SP_OK;
}

/* Fills `type` from one level of the record; *inner is the next level's record, or NULL. */
static enum sp_status convert_level(struct sp_reader *r, const Onnx__TypeProto *proto, struct sp_type *type,
                                    const Onnx__TypeProto **inner)
{
    enum sp_status status;
    *inner = NULL;
    switch (proto->value_case) {
    case ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE:
        type->kind = SP_TYPE_TENSOR;
        status = convert_dtype(r, proto->tensor_type->has_elem_type, proto->tensor_type->elem_type, &type->dtype);
        return status != SP_OK ? status : convert_shape(r, proto->tensor_type->shape, &type->shape);
    case ONNX__TYPE_PROTO__VALUE_SPARSE_TENSOR_TYPE:
        type->kind = SP_TYPE_SPARSE_TENSOR;
        status = convert_dtype(r, proto->sparse_tensor_type->has_elem_type, proto->sparse_tensor_type->elem_type,
                               &type->dtype);
        return status != SP_OK ? status : convert_shape(r, proto->sparse_tensor_type->shape, &type->shape);
    case ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE:
        type->kind = SP_TYPE_SEQUENCE;
        *inner = proto->sequence_type->elem_type;
        return SP_OK;
    case ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE:
        type->kind = SP_TYPE_OPTIONAL;
        *inner = proto->optional_type->elem_type;
        return SP_OK;
    case ONNX__TYPE_PROTO__VALUE_MAP_TYPE:
        type->kind = SP_TYPE_MAP;
        *inner = proto->map_type->value_type;
        return convert_dtype(r, proto->map_type->has_key_type, proto->map_type->key_type, &type->dtype);
    case ONNX__TYPE_PROTO__VALUE_OPAQUE_TYPE:
        type->kind = SP_TYPE_OPAQUE;
        return SP_OK;
    default:
        return SP_OK;
    }
}

enum sp_status sp_read_type(struct sp_reader *r, struct sp_span span, struct sp_type *ret_type)
{
    struct sp_arena_mark mark = sp_arena_mark(r->scratch);
    ProtobufCMessage *message;
    struct sp_type *type = ret_type;
    enum sp_status status = unpack(r, &onnx__type_proto__descriptor, span, &message);
    const Onnx__TypeProto *proto = status == SP_OK ? (const Onnx__TypeProto *)message : NULL, *inner;
    memset(ret_type, 0, sizeof *ret_type);
    while (proto != NULL && (status = convert_level(r, proto, type, &inner)) == SP_OK) {
        if (type->kind == SP_TYPE_SEQUENCE || type->kind == SP_TYPE_OPTIONAL || type->kind == SP_TYPE_MAP) {
            /* An element type always exists, of kind NONE when the file is silent. */
            struct sp_type *elem = SP_NEW(r->arena, struct sp_type);
            if (elem == NULL) {
                status = sp_fail_memory(r->err);
                break;
            }
            type->elem = elem;
            type = elem;
        }
        proto = inner;
    }
    sp_arena_rewind(r->scratch, mark);
    return status;
}

/* ---- operator sets --------------------------------------------------------------------------------------------- */

enum sp_status sp_read_opset(struct sp_reader *r, struct sp_span span, struct sp_opset *ret_opset)
{
    struct sp_arena_mark mark = sp_arena_mark(r->scratch);
    ProtobufCMessage *message;
    enum sp_status status = unpack(r, &onnx__operator_set_id_proto__descriptor, span, &message);
    if (status != SP_OK)
        goto done;
    const Onnx__OperatorSetIdProto *proto = (const Onnx__OperatorSetIdProto *)message;
    if (!intern(r, proto->domain == NULL ? "" : proto->domain, &ret_opset->domain)) {
        status = sp_fail_memory(r->err);
        goto done;
    }
    if (strcmp(ret_opset->domain, "ai.onnx") == 0 && !intern(r, "", &ret_opset->domain)) {
        status = sp_fail_memory(r->err);
        goto done;
    }
    ret_opset->version = proto->version;
    if (!proto->has_version || proto->version < 1 || proto->version > INT32_MAX)
        status = sp_fail(r->err, SP_ERR_MODEL, "BAD_OPSET_VERSION",
                         "The version of operator set '%.80s' is missing or out of range (%" PRId64 ").",
                         ret_opset->domain, proto->version);
done:
    sp_arena_rewind(r->scratch, mark);
    return status;
}

/* ---- device configurations ------------------------------------------------------------------------------------- */

enum sp_status sp_read_device_configuration(struct sp_reader *r, struct sp_span span,
                                            struct sp_device_configuration *ret_configuration)
{
    struct sp_arena_mark mark = sp_arena_mark(r->scratch);
    struct sp_device_configuration *configuration = ret_configuration;
    ProtobufCMessage *message;
    enum sp_status status = unpack(r, &onnx__device_configuration_proto__descriptor, span, &message);
    if (status != SP_OK)
        goto done;
    const Onnx__DeviceConfigurationProto *proto = (const Onnx__DeviceConfigurationProto *)message;
    configuration->has_num_devices = proto->has_num_devices;
    configuration->num_devices = proto->num_devices;
    configuration->device_count = (uint32_t)proto->n_device;
    configuration->devices = SP_NEW_ARRAY(r->arena, proto->n_device, const char *);
    bool ok = configuration->devices != NULL && intern(r, proto->name, &configuration->name);
    for (uint32_t i = 0; ok && i < configuration->device_count; i++)
        ok = intern(r, proto->device[i], &configuration->devices[i]);
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
            !intern(r, from->dim_param, &part->dim_param))
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
        !intern(r, proto->tensor_name, &spec->tensor_name))
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
    enum sp_status status = unpack(r, &onnx__node_device_configuration_proto__descriptor, span, &message);
    if (status != SP_OK)
        goto done;
    const Onnx__NodeDeviceConfigurationProto *proto = (const Onnx__NodeDeviceConfigurationProto *)message;
    configuration->has_stage = proto->has_pipeline_stage;
    configuration->stage = proto->pipeline_stage;
    configuration->spec_count = (uint32_t)proto->n_sharding_spec;
    configuration->specs = SP_NEW_ARRAY(r->arena, proto->n_sharding_spec, struct sp_sharding_spec);
    bool ok = configuration->specs != NULL && intern(r, proto->configuration_id, &configuration->configuration_id);
    for (uint32_t i = 0; ok && i < configuration->spec_count; i++)
        ok = copy_spec(r, proto->sharding_spec[i], &configuration->specs[i]);
    if (!ok)
        status = sp_fail_memory(r->err);
done:
    sp_arena_rewind(r->scratch, mark);
    return status;
}
