#include "realize/tensor_elements.h"

#include <string.h>

#include "base/limits.h"
#include "base/packed.h"
#include "onnx/wire.h"
#include "realize/protobuf_fields.h"

/* ---- typed fields ----------------------------------------------------------------------------------------------- */

static enum sp_wire_type item_type(enum sp_dtype dtype)
{
    switch (dtype) {
    case SP_DTYPE_FLOAT:
    case SP_DTYPE_COMPLEX64:
        return SP_WIRE_I32;
    case SP_DTYPE_DOUBLE:
    case SP_DTYPE_COMPLEX128:
        return SP_WIRE_I64;
    default:
        return SP_WIRE_VARINT;
    }
}

/* Calls for each occurrence of the tensor's field. */
static enum sp_status next_chunk(struct sp_wire *wire, uint32_t number, struct sp_wire_field *ret_field,
                                 struct sp_error *err)
{
    enum sp_status status;
    do
        status = sp_wire_next(wire, ret_field, err);
    while (status == SP_OK && ret_field->number != 0 && ret_field->number != number);
    return status;
}

/* Elements being written one behind the other; positions are bits. */
struct packing {
    unsigned char *bytes;
    uint64_t at, end;
};

/* The lowest `bits` of an item. */
static void pack(struct packing *packing, uint64_t item, uint32_t bits)
{
    while (bits > 0 && packing->at < packing->end) {
        const uint32_t shift = (uint32_t)(packing->at % 8), room = 8 - shift, step = bits < room ? bits : room;
        packing->bytes[packing->at / 8] |= (unsigned char)((item & ((1U << step) - 1)) << shift);
        item >>= step;
        bits -= step;
        packing->at += step;
    }
}

static enum sp_status count_items(const struct sp_model *model, const struct sp_tensor *tensor, uint64_t *ret_items,
                                  struct sp_error *err)
{
    struct sp_wire wire = sp_wire_of(model->bytes, tensor->span);
    struct sp_wire_field field;
    uint64_t items;
    enum sp_status status;
    *ret_items = 0;
    while ((status = next_chunk(&wire, tensor->field, &field, err)) == SP_OK && field.number != 0) {
        status = sp_wire_count_items(model->bytes, &field, item_type(tensor->dtype), &items, err);
        if (status != SP_OK)
            return status;
        *ret_items += items;
    }
    return status;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): pack() writes there */
enum sp_status sp_unpack_typed(const struct sp_model *model, const struct sp_tensor *tensor, unsigned char *bytes,
                               struct sp_error *err)
{
    const bool is_complex = tensor->dtype == SP_DTYPE_COMPLEX64 || tensor->dtype == SP_DTYPE_COMPLEX128;
    uint64_t count = (uint64_t)tensor->elements;
    uint32_t bits = (uint32_t)sp_dtype_bits(tensor->dtype);
    struct sp_wire wire = sp_wire_of(model->bytes, tensor->span);
    struct sp_wire_field field;
    uint64_t items, total = 0;
    if (is_complex) { /* real and imaginary parts are items of their own */
        bits /= 2;
        count *= 2;
    }
    enum sp_status status = count_items(model, tensor, &total, err);
    const uint32_t item_bits = sp_packed_item_bits(count, bits, total);
    struct packing packing = {bytes, 0, count * bits};
    while (status == SP_OK && (status = next_chunk(&wire, tensor->field, &field, err)) == SP_OK && field.number != 0) {
        uint64_t at = field.payload.offset;
        status = sp_wire_count_items(model->bytes, &field, item_type(tensor->dtype), &items, err);
        for (uint64_t i = 0; status == SP_OK && i < items; i++) {
            const uint64_t item = sp_wire_item(model->bytes, &field, item_type(tensor->dtype), &at);
            pack(&packing, item, item_bits);
        }
    }
    if (status == SP_OK && packing.at < packing.end)
        status = sp_fail(err, SP_ERR_MODEL, "TENSOR_SIZE_MISMATCH",
                         "The tensor '%.120s' has fewer items than its dims say.", tensor->name);
    return status;
}

enum sp_status sp_unpack_strings(const struct sp_model *model, const struct sp_tensor *tensor, struct sp_span *spans,
                                 struct sp_error *err)
{
    struct sp_wire wire = sp_wire_of(model->bytes, tensor->span);
    struct sp_wire_field field;
    int64_t count = 0;
    enum sp_status status;
    while ((status = next_chunk(&wire, SP_PUT_TENSOR_STRING_DATA, &field, err)) == SP_OK && field.number != 0 &&
           count < tensor->elements)
        spans[count++] = field.payload;
    if (status == SP_OK && count < tensor->elements)
        status = sp_fail(err, SP_ERR_MODEL, "TENSOR_SIZE_MISMATCH",
                         "The tensor '%.120s' has fewer items than its dims say.", tensor->name);
    return status;
}

bool sp_unpack_run(const struct sp_model *model, const struct sp_tensor *tensor, uint64_t *ret_offset)
{
    struct sp_wire wire = sp_wire_of(model->bytes, tensor->span);
    struct sp_wire_field field, first = {0};
    if (tensor->storage == SP_STORAGE_RAW) {
        *ret_offset = tensor->raw.offset;
        return true;
    }
    if (tensor->storage != SP_STORAGE_TYPED || item_type(tensor->dtype) == SP_WIRE_VARINT)
        return false;
    while (next_chunk(&wire, tensor->field, &field, NULL) == SP_OK && field.number != 0) {
        if (first.number != 0)
            return false;
        first = field;
    }
    *ret_offset = first.payload.offset;
    return first.number != 0 && first.payload.size == (uint64_t)tensor->bytes;
}

/* ---- boxes in memory -------------------------------------------------------------------------------------------- */

int64_t sp_box_elements(uint32_t rank, const struct sp_axis_ranges *axes)
{
    int64_t elements = 1;
    for (uint32_t i = 0; i < rank; i++) {
        int64_t extent = 0;
        for (uint32_t k = 0; k < axes[i].count; k++)
            extent += axes[i].ranges[k].limit - axes[i].ranges[k].start;
        elements *= extent; /* at most the elements of the whole */
    }
    return elements;
}

void sp_box_each_run(uint32_t rank, const int64_t *dims, const struct sp_axis_ranges *axes,
                     void (*run)(void *context, int64_t first, int64_t count), void *context)
{
    struct {
        uint32_t range;
        int64_t index;
    } at[SP_MAX_RANK];
    if (rank == 0) {
        run(context, 0, 1);
        return;
    }
    for (uint32_t i = 0; i < rank; i++) {
        if (axes[i].count == 0)
            return;
        at[i].range = 0;
        at[i].index = axes[i].ranges[0].start;
    }
    for (uint32_t axis = rank; axis > 0;) {
        int64_t row = 0;
        for (uint32_t i = 0; i + 1 < rank; i++)
            row = row * dims[i] + at[i].index;
        row = rank > 1 ? (row * dims[rank - 1]) : 0;
        for (uint32_t k = 0; k < axes[rank - 1].count; k++) {
            const struct sp_range *range = &axes[rank - 1].ranges[k];
            run(context, row + range->start, range->limit - range->start);
        }
        for (axis = rank - 1; axis > 0; axis--) { /* the next row */
            const uint32_t i = axis - 1;
            if (++at[i].index < axes[i].ranges[at[i].range].limit)
                break;
            const bool is_over = ++at[i].range == axes[i].count;
            if (is_over)
                at[i].range = 0;
            at[i].index = axes[i].ranges[at[i].range].start;
            if (!is_over)
                break;
        }
    }
}

struct picking {
    const unsigned char *bytes;
    unsigned char *out;
    uint32_t bits;
    uint64_t next; /* bit of `out` */
};

static void pick_run(void *context, int64_t first, int64_t count)
{
    struct picking *picking = context;
    uint64_t from = (uint64_t)first * picking->bits;
    if (picking->bits >= 8) {
        const uint64_t size = (uint64_t)count * picking->bits;
        memcpy(picking->out + picking->next / 8, picking->bytes + from / 8, size / 8);
        picking->next += size;
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        sp_packed_put(picking->out, picking->next, picking->bits, sp_packed_get(picking->bytes, from, picking->bits));
        picking->next += picking->bits;
        from += picking->bits;
    }
}

void sp_box_pick(uint32_t rank, const int64_t *dims, const struct sp_axis_ranges *axes, uint32_t element_bits,
                 const unsigned char *bytes,
                 unsigned char *out) /* NOLINT(readability-non-const-parameter): pick_run() writes there */
{
    struct picking picking = {bytes, out, element_bits, 0};
    sp_box_each_run(rank, dims, axes, pick_run, &picking);
}
