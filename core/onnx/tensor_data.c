#include <string.h>

#include "base/limits.h"
#include "base/packed.h"
#include "onnx/float_bits.h"
#include "onnx/reader.h"
#include "onnx/wire.h"

static int64_t sign_extend(uint64_t bits, int width)
{
    const uint64_t sign = UINT64_C(1) << (width - 1);
    bits &= width == 64 ? UINT64_MAX : (UINT64_C(1) << width) - 1;
    return (int64_t)((bits ^ sign) - sign);
}

/* Stores one element whose pattern is in the low bits. */
static void store(struct sp_data *data, uint32_t index, enum sp_dtype dtype, uint64_t bits)
{
    const int width = sp_dtype_bits(dtype);
    if (data->reals != NULL) {
        data->reals[index] = sp_float_from_bits(dtype, bits);
        return;
    }
    switch (dtype) {
    case SP_DTYPE_BOOL:
        data->ints[index] = sp_dim_known((bits & 0xff) != 0);
        break;
    case SP_DTYPE_UINT2:
    case SP_DTYPE_UINT4:
    case SP_DTYPE_UINT8:
    case SP_DTYPE_UINT16:
    case SP_DTYPE_UINT32:
        data->ints[index] = sp_dim_known((int64_t)(bits & ((UINT64_C(1) << width) - 1)));
        break;
    case SP_DTYPE_UINT64: /* what a dimension cannot hold is not known */
        data->ints[index] = bits > INT64_MAX ? sp_dim_unknown() : sp_dim_known((int64_t)bits);
        break;
    default:
        data->ints[index] = sp_dim_known(sign_extend(bits, width));
        break;
    }
}

/* `size` bytes, the lowest first. Nearly all shape data have 8, and a loop of fixed length becomes one load. */
static uint64_t little_endian(const unsigned char *bytes, unsigned size)
{
    uint64_t bits = 0;
    for (unsigned i = 0; size == 8 && i < 8; i++)
        bits |= (uint64_t)bytes[i] << (8 * i);
    for (unsigned i = 0; size != 8 && i < size; i++)
        bits |= (uint64_t)bytes[i] << (8 * i);
    return bits;
}

static void load_raw(const unsigned char *bytes, const struct sp_tensor *tensor, struct sp_data *data)
{
    const unsigned width = (unsigned)sp_dtype_bits(tensor->dtype);
    const unsigned char *raw = bytes + tensor->raw.offset;
    for (uint32_t i = 0; i < data->count; i++) {
        uint64_t bits;
        if (width < 8) /* the first element is in the lowest bits */
            bits = sp_packed_get(raw, (uint64_t)i * width, width);
        else
            bits = little_endian(raw + (size_t)i * (width / 8), width / 8);
        store(data, i, tensor->dtype, bits);
    }
}

static enum sp_wire_type item_type(enum sp_dtype dtype)
{
    return dtype == SP_DTYPE_FLOAT ? SP_WIRE_I32 : dtype == SP_DTYPE_DOUBLE ? SP_WIRE_I64 : SP_WIRE_VARINT;
}

/* Packed elements of a typed field: `have` bits of the items that were read are not yet stored. */
struct unpacking {
    uint32_t width, item_bits, have;
    uint64_t bits;
};

/* Stores the elements that are complete with one more item. */
static void store_packed(struct unpacking *unpacking, uint64_t item, enum sp_dtype dtype, struct sp_data *data,
                         uint32_t *index)
{
    unpacking->bits |= (item & ((UINT64_C(1) << unpacking->item_bits) - 1)) << unpacking->have;
    unpacking->have += unpacking->item_bits;
    while (unpacking->have >= unpacking->width && *index < data->count) {
        store(data, (*index)++, dtype, unpacking->bits);
        unpacking->bits >>= unpacking->width;
        unpacking->have -= unpacking->width;
    }
}

static enum sp_status count_items(const unsigned char *bytes, const struct sp_tensor *tensor, uint64_t *ret_items,
                                  struct sp_error *err)
{
    struct sp_wire wire = sp_wire_of(bytes, tensor->span);
    struct sp_wire_field field;
    uint64_t items;
    enum sp_status status;
    *ret_items = 0;
    while ((status = sp_wire_next(&wire, &field, err)) == SP_OK && field.number != 0) {
        if (field.number != tensor->field)
            continue;
        if ((status = sp_wire_count_items(bytes, &field, item_type(tensor->dtype), &items, err)) != SP_OK)
            return status;
        *ret_items += items;
    }
    return status;
}

static enum sp_status load_typed(const unsigned char *bytes, const struct sp_tensor *tensor, struct sp_data *data,
                                 struct sp_error *err)
{
    struct sp_wire wire = sp_wire_of(bytes, tensor->span);
    struct sp_wire_field field;
    const enum sp_wire_type type = item_type(tensor->dtype);
    struct unpacking unpacking = {.width = (uint32_t)sp_dtype_bits(tensor->dtype)};
    uint64_t items, total;
    uint32_t index = 0;
    enum sp_status status = count_items(bytes, tensor, &total, err);
    unpacking.item_bits = sp_packed_item_bits((uint64_t)tensor->elements, unpacking.width, total);
    while (status == SP_OK && (status = sp_wire_next(&wire, &field, err)) == SP_OK && field.number != 0) {
        uint64_t at = field.payload.offset;
        if (field.number != tensor->field)
            continue;
        status = sp_wire_count_items(bytes, &field, type, &items, err);
        for (uint64_t i = 0; status == SP_OK && i < items && index < data->count; i++) {
            const uint64_t item = sp_wire_item(bytes, &field, type, &at);
            if (unpacking.width < 8)
                store_packed(&unpacking, item, tensor->dtype, data, &index);
            else
                store(data, index++, tensor->dtype, item);
        }
    }
    return status;
}

static bool is_readable(const struct sp_tensor *tensor)
{
    if (tensor->elements > SP_MAX_DATA_ELEMENTS || tensor->dtype == SP_DTYPE_STRING ||
        tensor->dtype == SP_DTYPE_COMPLEX64 || tensor->dtype == SP_DTYPE_COMPLEX128)
        return false;
    return tensor->elements == 0 || tensor->storage == SP_STORAGE_RAW || tensor->storage == SP_STORAGE_TYPED;
}

enum sp_status sp_onnx_tensor_data(const struct sp_model *model, struct sp_arena *arena, const struct sp_tensor *tensor,
                                   struct sp_data **ret_data, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    if (!is_readable(tensor)) {
        *ret_data = NULL;
        return SP_OK;
    }
    struct sp_data *data = SP_NEW(arena, struct sp_data);
    if (data == NULL)
        return sp_fail_memory(err);
    data->count = (uint32_t)tensor->elements;
    if (sp_dtype_is_float(tensor->dtype))
        data->reals = SP_NEW_ARRAY(arena, data->count, double);
    else
        data->ints = SP_NEW_ARRAY(arena, data->count, struct sp_dim);
    if (data->reals == NULL && data->ints == NULL)
        return sp_fail_memory(err);
    if (data->count > 0 && tensor->storage == SP_STORAGE_RAW)
        load_raw(model->bytes, tensor, data);
    else if (data->count > 0)
        status = load_typed(model->bytes, tensor, data, err);
    if (status == SP_OK)
        *ret_data = data;
    return status;
}
