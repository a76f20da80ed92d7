#include "verify/tensor_data.h"

#include "onnx/wire.h"

unsigned sp_tensor_data_width(const struct sp_tensor *tensor)
{
    const int bits = sp_dtype_bits(tensor->dtype);
    return bits >= 8 && bits <= 64 && bits % 8 == 0 ? (unsigned)bits / 8 : 0;
}

/* The payload of a repeated field that is one packed field of as many bytes as the elements have; else an empty one. */
static struct sp_span packed(const struct sp_tensor_data *data)
{
    enum { FLOAT_DATA = 4, DOUBLE_DATA = 10 };
    const struct sp_tensor *tensor = data->tensor;
    struct sp_wire wire = sp_wire_of(data->model->bytes, tensor->span);
    struct sp_wire_field field;
    struct sp_span found = {0, 0};
    if ((tensor->field != FLOAT_DATA || tensor->dtype != SP_DTYPE_FLOAT) &&
        (tensor->field != DOUBLE_DATA || tensor->dtype != SP_DTYPE_DOUBLE))
        return found;
    while (sp_wire_next(&wire, &field, NULL) == SP_OK && field.number != 0) {
        if (field.number == tensor->field && field.type == SP_WIRE_LEN)
            found = field.payload;
    }
    return found.size == (uint64_t)tensor->bytes ? found : (struct sp_span){0, 0};
}

/* The elements in the model's file; an empty span where they are not there as bytes. */
static struct sp_span inner(const struct sp_tensor_data *data)
{
    const struct sp_tensor *tensor = data->tensor;
    if (tensor->storage == SP_STORAGE_TYPED)
        return packed(data);
    return tensor->storage == SP_STORAGE_RAW && tensor->raw.size >= (uint64_t)tensor->bytes ? tensor->raw
                                                                                            : (struct sp_span){0, 0};
}

const unsigned char *sp_tensor_data_view(struct sp_tensor_data *data, uint64_t offset, size_t size, void *buffer)
{
    const struct sp_tensor *tensor = data->tensor;
    const struct sp_external *external = &tensor->external;
    if (offset > (uint64_t)tensor->bytes || size > (uint64_t)tensor->bytes - offset)
        return NULL;
    if (tensor->storage != SP_STORAGE_EXTERNAL) {
        const struct sp_span span = inner(data);
        return span.size > 0 ? data->model->bytes + span.offset + offset : NULL;
    }
    if (data->weights == NULL || external->offset < 0 || external->offset > INT64_MAX - tensor->bytes ||
        (external->length >= 0 && external->length < tensor->bytes))
        return NULL;
    return data->weights->read(data->weights->context, data->program, external->location,
                               (uint64_t)external->offset + offset, buffer, size)
               ? buffer
               : NULL;
}

const unsigned char *sp_tensor_data_near(struct sp_tensor_data *data, uint64_t offset, size_t size)
{
    const uint64_t bytes = (uint64_t)data->tensor->bytes;
    if (data->tensor->storage != SP_STORAGE_EXTERNAL)
        return sp_tensor_data_view(data, offset, size, NULL);
    if (offset > bytes || size > bytes - offset || size > data->window_bytes)
        return NULL;
    if (offset < data->start || offset + size > data->start + data->filled) {
        const uint64_t left = bytes - offset, most = left < data->window_bytes ? left : data->window_bytes;
        const bool is_read = sp_tensor_data_view(data, offset, most, data->window) != NULL;
        data->start = offset;
        data->filled = is_read ? most : 0;
        if (!is_read)
            return NULL;
    }
    return data->window + (offset - data->start);
}

bool sp_tensor_data_is_there(struct sp_tensor_data *data)
{
    const unsigned width = sp_tensor_data_width(data->tensor);
    unsigned char element[8];
    if (data->tensor->elements == 0)
        return true;
    return width > 0 && sp_tensor_data_view(data, 0, width, element) != NULL &&
           sp_tensor_data_view(data, (uint64_t)data->tensor->bytes - width, width, element) != NULL;
}
