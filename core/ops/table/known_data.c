#include "base/limits.h"
#include "ops/table/known_values.h"

bool sp_data_is_affordable(const struct sp_model *model, int64_t elements)
{
    return elements <= SP_FEW_DATA_ELEMENTS || model->data_elements + (uint64_t)elements <= SP_MAX_MODEL_DATA;
}

int64_t sp_data_room(const struct sp_op_context *context, uint32_t output)
{
    if (output >= context->node->output_count || context->node->outputs[output] == NULL)
        return -1;
    const struct sp_type *type = &context->node->outputs[output]->type;
    if (type->kind != SP_TYPE_TENSOR)
        return -1;
    int64_t elements = sp_shape_elements(&type->shape);
    return elements <= SP_MAX_DATA_ELEMENTS && sp_data_is_affordable(context->model, elements) ? elements : -1;
}

struct sp_data *sp_data_new(struct sp_op_context *context, uint32_t output, bool is_real)
{
    int64_t count = sp_data_room(context, output);
    struct sp_data *data = count < 0 ? NULL : SP_NEW(context->arena, struct sp_data);
    if (data == NULL)
        return NULL;
    data->count = (uint32_t)count;
    context->model->data_elements += data->count;
    if (is_real)
        data->reals = SP_NEW_ARRAY(context->arena, data->count, double);
    else
        data->ints = SP_NEW_ARRAY(context->arena, data->count, struct sp_dim);
    return data->reals != NULL || data->ints != NULL ? data : NULL;
}

static bool fits_integer(enum sp_dtype dtype, int64_t value)
{
    int bits = sp_dtype_bits(dtype);
    switch (dtype) {
    case SP_DTYPE_BOOL:
        return value == 0 || value == 1;
    case SP_DTYPE_UINT8:
    case SP_DTYPE_UINT16:
    case SP_DTYPE_UINT32:
    case SP_DTYPE_UINT4:
    case SP_DTYPE_UINT2:
        return value >= 0 && value <= ((int64_t)1 << bits) - 1;
    case SP_DTYPE_UINT64:
        return value >= 0;
    case SP_DTYPE_INT64:
        return true;
    default:
        return value >= -((int64_t)1 << (bits - 1)) && value <= ((int64_t)1 << (bits - 1)) - 1;
    }
}

void sp_data_attach(struct sp_op_context *context, uint32_t output, struct sp_data *data)
{
    struct sp_value *value = context->node->outputs[output];
    enum sp_dtype dtype = value->type.dtype;
    if (data->reals != NULL) {
        if (dtype != SP_DTYPE_FLOAT && dtype != SP_DTYPE_DOUBLE)
            return;
        for (uint32_t i = 0; dtype == SP_DTYPE_FLOAT && i < data->count; i++)
            data->reals[i] = (double)(float)data->reals[i];
    } else {
        if (!sp_dtype_is_integer(dtype) && dtype != SP_DTYPE_BOOL)
            return;
        for (uint32_t i = 0; dtype != SP_DTYPE_INT64 && i < data->count; i++) {
            if (sp_dim_is_known(data->ints[i]) && !fits_integer(dtype, data->ints[i].value))
                data->ints[i] = sp_dim_unknown();
        }
    }
    value->data = data;
}
