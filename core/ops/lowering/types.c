#include <string.h>

#include "ops/lowering/internal.h"

/*
 * Types that helper operators are written in.
 *
 * ONNX bounds the element types of each operator version, and ONNX Runtime has kernels for fewer still: its arithmetic
 * has none for integers of 8 and 16 bits and the 32-bit unsigned ones (its table of kernels, docs/OperatorKernels.md).
 * What a model computes in such a type a helper computes in a wider one and converts back. Sums and products stay right
 * modulo 2^n, since conversion to a narrower integer drops the high bits.
 */

#define MAX_OF_INTS_SINCE 12 /* Max and Min before have floats only */

static bool is_one_of(const char *op_type, const char *const *names)
{
    for (; *names != NULL; names++)
        if (strcmp(op_type, *names) == 0)
            return true;
    return false;
}

static bool is_small_float(enum sp_dtype dtype)
{
    return sp_dtype_is_float(dtype) && sp_dtype_bits(dtype) <= 8;
}

/* Integers of up to 32 bits as signed ones of 32 or 64. */
static enum sp_dtype widened(enum sp_dtype dtype)
{
    if (dtype == SP_DTYPE_BOOL || (sp_dtype_is_integer(dtype) && sp_dtype_bits(dtype) < 32))
        return SP_DTYPE_INT32;
    if (dtype == SP_DTYPE_UINT32)
        return SP_DTYPE_INT64;
    return is_small_float(dtype) ? SP_DTYPE_FLOAT : dtype;
}

static enum sp_dtype arithmetic(const char *op_type, enum sp_dtype dtype)
{
    /* Two's complement: the same bits come out. Quotients differ. */
    if (dtype == SP_DTYPE_UINT64 && strcmp(op_type, "Div") != 0)
        return SP_DTYPE_INT64;
    return dtype == SP_DTYPE_BOOL ? dtype : widened(dtype);
}

static enum sp_dtype extremes(int64_t opset, enum sp_dtype dtype)
{
    const enum sp_dtype wide = widened(dtype);
    return wide == SP_DTYPE_INT32 && opset < MAX_OF_INTS_SINCE ? SP_DTYPE_DOUBLE : wide;
}

static enum sp_dtype reductions(const char *op_type, int64_t opset, enum sp_dtype dtype)
{
    const bool is_extreme = strcmp(op_type, "ReduceMax") == 0 || strcmp(op_type, "ReduceMin") == 0;
    if (!is_extreme && dtype == SP_DTYPE_UINT64)
        return SP_DTYPE_INT64;
    if (is_extreme && opset >= MAX_OF_INTS_SINCE && (dtype == SP_DTYPE_INT8 || dtype == SP_DTYPE_UINT8))
        return dtype;
    return widened(dtype);
}

enum sp_dtype sp_lower_carrier(const struct sp_lowering *lower, const char *op_type, enum sp_dtype dtype)
{
    if (is_one_of(op_type, (const char *const[]){"Add", "Sub", "Mul", "Div", NULL}))
        return arithmetic(op_type, dtype);
    if (is_one_of(op_type, (const char *const[]){"Max", "Min", NULL}))
        return extremes(lower->opset, dtype);
    if (is_one_of(op_type, (const char *const[]){"ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", NULL}))
        return reductions(op_type, lower->opset, dtype);
    if (is_one_of(op_type, (const char *const[]){"Less", "Greater", "LessOrEqual", "GreaterOrEqual", NULL})) {
        /* Before version 9 floats only: exact for integers up to 2^53, as indices are. */
        const enum sp_dtype wide = widened(dtype);
        return lower->opset < 9 && sp_dtype_is_integer(wide) ? SP_DTYPE_DOUBLE : wide;
    }
    if (strcmp(op_type, "Equal") == 0)
        return dtype == SP_DTYPE_BOOL ? dtype : dtype == SP_DTYPE_UINT64 ? SP_DTYPE_INT64 : widened(dtype);
    if (strcmp(op_type, "Where") == 0) {
        if (dtype == SP_DTYPE_BOOL || dtype == SP_DTYPE_UINT8)
            return SP_DTYPE_UINT8;
        return dtype == SP_DTYPE_UINT64 ? SP_DTYPE_INT64 : widened(dtype);
    }
    if (strcmp(op_type, "Pad") == 0) {
        const int bits = sp_dtype_bits(dtype);
        return dtype == SP_DTYPE_BOOL || is_small_float(dtype) || (sp_dtype_is_integer(dtype) && bits != 8 && bits < 32)
                   ? widened(dtype)
                   : dtype;
    }
    return dtype;
}

enum sp_dtype sp_lower_combined_in(const struct sp_lowering *lower, enum sp_combiner combiner, enum sp_dtype dtype)
{
    const bool is_extreme = combiner == SP_COMBINE_MAX || combiner == SP_COMBINE_MIN;
    if (dtype == SP_DTYPE_STRING || (is_extreme && (dtype == SP_DTYPE_COMPLEX64 || dtype == SP_DTYPE_COMPLEX128)))
        return SP_DTYPE_UNDEFINED;
    if (!is_extreme)
        return arithmetic("Add", dtype);
    /* 64 bits do not fit the floats that the old Max has. */
    const enum sp_dtype carrier = extremes(lower->opset, dtype);
    return lower->opset < MAX_OF_INTS_SINCE && sp_dtype_is_integer(carrier) ? SP_DTYPE_UNDEFINED : carrier;
}
