#include "graph/dtype.h"

#include <stddef.h>
#include <string.h>

#include "base/arith.h"

enum kind { OTHER, INTEGER, FLOATING };

static const struct {
    const char *name;
    uint8_t bits;
    uint8_t kind;
} types[SP_DTYPE_COUNT] = {
    [SP_DTYPE_UNDEFINED] = {"undefined", 0, OTHER},
    [SP_DTYPE_FLOAT] = {"float32", 32, FLOATING},
    [SP_DTYPE_UINT8] = {"uint8", 8, INTEGER},
    [SP_DTYPE_INT8] = {"int8", 8, INTEGER},
    [SP_DTYPE_UINT16] = {"uint16", 16, INTEGER},
    [SP_DTYPE_INT16] = {"int16", 16, INTEGER},
    [SP_DTYPE_INT32] = {"int32", 32, INTEGER},
    [SP_DTYPE_INT64] = {"int64", 64, INTEGER},
    [SP_DTYPE_STRING] = {"string", 0, OTHER},
    [SP_DTYPE_BOOL] = {"bool", 8, OTHER},
    [SP_DTYPE_FLOAT16] = {"float16", 16, FLOATING},
    [SP_DTYPE_DOUBLE] = {"float64", 64, FLOATING},
    [SP_DTYPE_UINT32] = {"uint32", 32, INTEGER},
    [SP_DTYPE_UINT64] = {"uint64", 64, INTEGER},
    [SP_DTYPE_COMPLEX64] = {"complex64", 64, OTHER},
    [SP_DTYPE_COMPLEX128] = {"complex128", 128, OTHER},
    [SP_DTYPE_BFLOAT16] = {"bfloat16", 16, FLOATING},
    [SP_DTYPE_FLOAT8E4M3FN] = {"float8e4m3fn", 8, FLOATING},
    [SP_DTYPE_FLOAT8E4M3FNUZ] = {"float8e4m3fnuz", 8, FLOATING},
    [SP_DTYPE_FLOAT8E5M2] = {"float8e5m2", 8, FLOATING},
    [SP_DTYPE_FLOAT8E5M2FNUZ] = {"float8e5m2fnuz", 8, FLOATING},
    [SP_DTYPE_UINT4] = {"uint4", 4, INTEGER},
    [SP_DTYPE_INT4] = {"int4", 4, INTEGER},
    [SP_DTYPE_FLOAT4E2M1] = {"float4e2m1", 4, FLOATING},
    [SP_DTYPE_FLOAT8E8M0] = {"float8e8m0", 8, FLOATING},
    [SP_DTYPE_UINT2] = {"uint2", 2, INTEGER},
    [SP_DTYPE_INT2] = {"int2", 2, INTEGER},
    [SP_DTYPE_FLOAT6E2M3] = {"float6e2m3", 6, FLOATING},
    [SP_DTYPE_FLOAT6E3M2] = {"float6e3m2", 6, FLOATING},
};

#define STRING_BYTES 16

static bool known(int64_t dtype)
{
    return dtype >= 0 && dtype < SP_DTYPE_COUNT;
}

const char *sp_dtype_name(int64_t dtype)
{
    return known(dtype) ? types[dtype].name : NULL;
}

enum sp_dtype sp_dtype_parse(const char *name)
{
    if (strcmp(name, "float") == 0)
        return SP_DTYPE_FLOAT;
    if (strcmp(name, "double") == 0)
        return SP_DTYPE_DOUBLE;
    for (int dtype = 1; dtype < SP_DTYPE_COUNT; dtype++) {
        if (strcmp(name, types[dtype].name) == 0)
            return (enum sp_dtype)dtype;
    }
    return SP_DTYPE_UNDEFINED;
}

int sp_dtype_bits(int64_t dtype)
{
    return known(dtype) ? types[dtype].bits : 0;
}

int64_t sp_dtype_bytes(int64_t dtype, int64_t count)
{
    int64_t bits;
    if (!known(dtype) || dtype == SP_DTYPE_UNDEFINED || count < 0)
        return -1;
    if (!sp_mul_i64(count, dtype == SP_DTYPE_STRING ? 8 * STRING_BYTES : types[dtype].bits, &bits))
        return -1;
    return bits / 8 + (bits % 8 != 0);
}

bool sp_dtype_is_float(int64_t dtype)
{
    return known(dtype) && types[dtype].kind == FLOATING;
}

bool sp_dtype_is_integer(int64_t dtype)
{
    return known(dtype) && types[dtype].kind == INTEGER;
}

int64_t sp_dtype_ir_version(int64_t dtype)
{
    switch (dtype) {
    case SP_DTYPE_BFLOAT16:
        return 5;
    case SP_DTYPE_FLOAT8E4M3FN:
    case SP_DTYPE_FLOAT8E4M3FNUZ:
    case SP_DTYPE_FLOAT8E5M2:
    case SP_DTYPE_FLOAT8E5M2FNUZ:
        return 9;
    case SP_DTYPE_UINT4:
    case SP_DTYPE_INT4:
        return 10;
    case SP_DTYPE_FLOAT4E2M1:
        return 11;
    case SP_DTYPE_FLOAT8E8M0:
        return 12;
    case SP_DTYPE_UINT2:
    case SP_DTYPE_INT2:
        return 13;
    case SP_DTYPE_FLOAT6E2M3:
    case SP_DTYPE_FLOAT6E3M2:
        return 14;
    default:
        return 0;
    }
}
