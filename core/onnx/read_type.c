#include <string.h>

#include "onnx.pb-c.h"
#include "onnx/leaf.h"

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
            shape->dims[i] = sp_dim_parse(r->model->dims, dim->dim_param);
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
    enum sp_status status = sp_leaf_unpack(r, &onnx__type_proto__descriptor, span, &message);
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
