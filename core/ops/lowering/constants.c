#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/arith.h"
#include "base/limits.h"
#include "onnx/float_bits.h"
#include "ops/lowering/internal.h"

/* ---- one element ------------------------------------------------------------------------------------------------ */

#define LARGEST_ELEMENT 16 /* bytes: complex128 */

/* Patterns of the narrow floats: the largest finite one, and those of infinity and NaN (0: there is none). */
struct narrow {
    enum sp_dtype dtype;
    uint32_t largest, infinity, nan, sign;
};
static const struct narrow narrow_floats[] = {
    {SP_DTYPE_FLOAT16, 0x7bff, 0x7c00, 0x7e00, 0x8000},
    {SP_DTYPE_BFLOAT16, 0x7f7f, 0x7f80, 0x7fc0, 0x8000},
    {SP_DTYPE_FLOAT8E4M3FN, 0x7e, 0, 0x7f, 0x80},
    {SP_DTYPE_FLOAT8E4M3FNUZ, 0x7f, 0, 0x80, 0x80},
    {SP_DTYPE_FLOAT8E5M2, 0x7b, 0x7c, 0x7e, 0x80},
    {SP_DTYPE_FLOAT8E5M2FNUZ, 0x7f, 0, 0x80, 0x80},
    {SP_DTYPE_FLOAT4E2M1, 0x7, 0, 0, 0x8},
    {SP_DTYPE_FLOAT6E2M3, 0x1f, 0, 0, 0x20},
    {SP_DTYPE_FLOAT6E3M2, 0x1f, 0, 0, 0x20},
    {SP_DTYPE_FLOAT8E8M0, 0xfe, 0, 0xff, 0},
};

static const struct narrow *narrow_of(enum sp_dtype dtype)
{
    for (size_t i = 0; i < sizeof narrow_floats / sizeof *narrow_floats; i++)
        if (narrow_floats[i].dtype == dtype)
            return &narrow_floats[i];
    return NULL;
}

/* The nearest number of a narrow format, of two equally near ones the even one. Among positive numbers a larger pattern
   is a larger number, so halving finds it. */
static uint32_t narrow_bits(const struct narrow *format, double value)
{
    const bool is_negative = signbit(value) != 0 && format->sign != 0;
    const double magnitude = is_negative ? -value : value;
    uint32_t low = 0, high = format->largest;
    if (isnan(value))
        return format->nan;
    while (low < high) {
        const uint32_t middle = low + (high - low + 1) / 2;
        if (sp_float_from_bits(format->dtype, middle) <= magnitude)
            low = middle;
        else
            high = middle - 1;
    }
    if (low == format->largest && format->infinity != 0 && isinf(magnitude))
        low = format->infinity;
    else if (low < format->largest) {
        const double below = magnitude - sp_float_from_bits(format->dtype, low);
        const double above = sp_float_from_bits(format->dtype, low + 1) - magnitude;
        low += below > above || (below == above && low % 2 == 1);
    }
    /* Formats whose negative zero means NaN have one zero. */
    const bool has_sign = is_negative && !(low == 0 && format->nan == format->sign);
    return has_sign ? low | format->sign : low;
}

static void store(unsigned char *bytes, uint64_t bits, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(bits >> (8 * i));
}

static size_t element_size(enum sp_dtype dtype)
{
    return dtype == SP_DTYPE_STRING ? 0 : (size_t)((sp_dtype_bits(dtype) + 7) / 8);
}

/* The bytes of a number in a type that is no integer's; false for other types. Beyond the largest number of a narrow
   type comes that number. */
static bool encode_real(enum sp_dtype dtype, double value, unsigned char *bytes)
{
    const struct narrow *format = narrow_of(dtype);
    const float single = (float)value;
    uint32_t single_bits;
    uint64_t double_bits;
    memcpy(&single_bits, &single, sizeof single_bits);
    memcpy(&double_bits, &value, sizeof double_bits);
    memset(bytes, 0, LARGEST_ELEMENT);
    if (dtype == SP_DTYPE_FLOAT || dtype == SP_DTYPE_COMPLEX64)
        store(bytes, single_bits, sizeof single_bits);
    else if (dtype == SP_DTYPE_DOUBLE || dtype == SP_DTYPE_COMPLEX128)
        store(bytes, double_bits, sizeof double_bits);
    else if (format != NULL)
        store(bytes, narrow_bits(format, value), element_size(dtype));
    else
        return false;
    return true;
}

/* An integer in any type of numbers. */
static bool encode_int(enum sp_dtype dtype, int64_t value, unsigned char *bytes)
{
    memset(bytes, 0, LARGEST_ELEMENT);
    if (dtype == SP_DTYPE_BOOL)
        value = value != 0;
    else if (!sp_dtype_is_integer(dtype))
        return encode_real(dtype, (double)value, bytes);
    const int bits = sp_dtype_bits(dtype);
    const uint64_t mask = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    store(bytes, (uint64_t)value & mask, element_size(dtype));
    return true;
}

/* A number in any type; false where an integer type cannot have it. */
static bool encode(enum sp_dtype dtype, double value, unsigned char *bytes)
{
    if (encode_real(dtype, value, bytes))
        return true;
    if (dtype == SP_DTYPE_UINT64 && value >= 0x1p63 && value < 0x1p64) {
        store(bytes, (uint64_t)value, sizeof(uint64_t));
        return true;
    }
    return value >= -0x1p63 && value < 0x1p63 && encode_int(dtype, (int64_t)value, bytes);
}

/* ---- constants -------------------------------------------------------------------------------------------------- */

/* `size` bytes; with is_filled one element for all. */
static struct sp_piece *constant(struct sp_lowering *lower, enum sp_dtype dtype, uint32_t rank, const int64_t *dims,
                                 bool is_filled, const void *bytes, size_t size)
{
    struct sp_piece *piece = sp_lower_piece(lower, "constant", dtype);
    unsigned char *kept = SP_LOWER_ARRAY(lower, size, unsigned char);
    sp_piece_set_dims(lower, piece, rank, dims);
    struct sp_lower_event *event = kept == NULL ? NULL : sp_lower_event(lower, SP_LOWER_CONSTANT);
    if (event == NULL)
        return NULL;
    if (size > 0)
        memcpy(kept, bytes, size);
    event->piece = piece;
    event->constant.dtype = dtype;
    event->constant.rank = rank;
    event->constant.dims = piece->dims;
    event->constant.is_filled = is_filled;
    event->constant.bytes = kept;
    event->constant.size = size;
    return piece;
}

/* The bytes of a tensor; false, and an error, where its extents are not numbers or there are too many. */
static bool check_size(struct sp_lowering *lower, enum sp_dtype dtype, uint32_t rank, const int64_t *dims,
                       int64_t *ret_bytes)
{
    int64_t count = 1, bytes = -1;
    bool is_countable = true;
    for (uint32_t i = 0; i < rank; i++)
        is_countable = is_countable && dims[i] >= 0 && sp_mul_i64(count, dims[i], &count);
    if (is_countable)
        bytes = sp_dtype_bytes(dtype, count);
    if (bytes < 0 && sp_lower_is_fine(lower))
        sp_lower_misuse(lower, "has a constant whose extents are no numbers");
    *ret_bytes = bytes;
    return bytes >= 0;
}

struct sp_piece *sp_lower_tensor(struct sp_lowering *lower, enum sp_dtype dtype, uint32_t rank, const int64_t *dims,
                                 const void *bytes, size_t size)
{
    int64_t wanted;
    if (!sp_lower_is_fine(lower) || !check_size(lower, dtype, rank, dims, &wanted))
        return NULL;
    if (size > SP_MAX_LOCAL_CONSTANT || dtype == SP_DTYPE_STRING || (int64_t)size != wanted) {
        sp_lower_misuse(lower, "has a constant of %zu bytes", size);
        return NULL;
    }
    return constant(lower, dtype, rank, dims, false, bytes, size);
}

struct sp_piece *sp_lower_ints(struct sp_lowering *lower, uint32_t count, const int64_t *values)
{
    const int64_t dims[] = {count};
    if (!sp_lower_is_fine(lower))
        return NULL;
    if (count > SP_MAX_LOCAL_CONSTANT / sizeof(int64_t)) {
        sp_lower_misuse(lower, "has a list of %" PRIu32 " integers", count);
        return NULL;
    }
    unsigned char *bytes = SP_LOWER_ARRAY(lower, count * sizeof(int64_t), unsigned char);
    for (uint32_t i = 0; bytes != NULL && i < count; i++)
        store(bytes + i * sizeof(int64_t), (uint64_t)values[i], sizeof(int64_t));
    return bytes == NULL ? NULL : constant(lower, SP_DTYPE_INT64, 1, dims, false, bytes, count * sizeof(int64_t));
}

struct sp_piece *sp_lower_scalar(struct sp_lowering *lower, enum sp_dtype dtype, double value)
{
    unsigned char bytes[LARGEST_ELEMENT];
    if (!sp_lower_is_fine(lower))
        return NULL;
    if (!encode(dtype, value, bytes)) {
        sp_lower_misuse(lower, "has a constant of type %s", sp_dtype_name(dtype));
        return NULL;
    }
    return constant(lower, dtype, 0, NULL, false, bytes, element_size(dtype));
}

struct sp_piece *sp_lower_int(struct sp_lowering *lower, enum sp_dtype dtype, int64_t value)
{
    unsigned char bytes[LARGEST_ELEMENT];
    if (!sp_lower_is_fine(lower))
        return NULL;
    if (!encode_int(dtype, value, bytes)) {
        sp_lower_misuse(lower, "has a constant of type %s", sp_dtype_name(dtype));
        return NULL;
    }
    return constant(lower, dtype, 0, NULL, false, bytes, element_size(dtype));
}

struct sp_piece *sp_lower_full(struct sp_lowering *lower, enum sp_dtype dtype, uint32_t rank, const int64_t *dims,
                               double value)
{
    unsigned char bytes[LARGEST_ELEMENT];
    int64_t ignored;
    if (!sp_lower_is_fine(lower))
        return NULL;
    if (!encode(dtype, value, bytes)) {
        sp_lower_misuse(lower, "has a constant of type %s", sp_dtype_name(dtype));
        return NULL;
    }
    if (!check_size(lower, dtype, rank, dims, &ignored))
        return NULL;
    return constant(lower, dtype, rank, dims, true, bytes, element_size(dtype));
}

#define RANGE_SINCE 11

struct sp_piece *sp_lower_iota(struct sp_lowering *lower, int64_t start, int64_t limit)
{
    int64_t count;
    if (!sp_lower_is_fine(lower))
        return NULL;
    if (!sp_sub_i64(limit, start, &count) || count < 0) {
        sp_lower_misuse(lower, "counts from %" PRId64 " to %" PRId64, start, limit);
        return NULL;
    }
    if (count <= (int64_t)(SP_MAX_LOCAL_CONSTANT / sizeof(int64_t))) {
        int64_t *values = SP_LOWER_ARRAY(lower, (size_t)count, int64_t);
        for (int64_t i = 0; values != NULL && i < count; i++)
            values[i] = start + i;
        return values == NULL ? NULL : sp_lower_ints(lower, (uint32_t)count, values);
    }
    if (lower->opset < RANGE_SINCE) {
        sp_lower_fail_opset(lower, "Range", RANGE_SINCE);
        return NULL;
    }
    struct sp_piece *const inputs[] = {sp_lower_int(lower, SP_DTYPE_INT64, start),
                                       sp_lower_int(lower, SP_DTYPE_INT64, limit),
                                       sp_lower_int(lower, SP_DTYPE_INT64, 1)};
    struct sp_piece *piece = sp_lower_op(lower, "Range", SP_DTYPE_INT64, 3, inputs, 0, NULL);
    sp_piece_set_dims(lower, piece, 1, &count);
    return piece;
}
