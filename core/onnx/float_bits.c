#include "onnx/float_bits.h"

#include <math.h>
#include <stdbool.h>

#include "onnx/wire.h"

/* A format with a sign, then exponent, then mantissa. Sources: IEEE 754 (half), bfloat16, and the definitions of the
   8-, 6- and 4-bit formats in onnx.proto and the papers it names (FP8: arXiv 2209.05433 and 2206.02915; OCP MX: FP4,
   FP6, E8M0).
 */
struct format {
    int exponent_bits, mantissa_bits, bias;
    bool has_infinity;      /* the highest exponent is infinity and NaN, as in IEEE 754 */
    bool highest_is_nan;    /* FN: only all ones is NaN */
    bool minus_zero_is_nan; /* FNUZ: the pattern of -0 is the only NaN */
};

static double decode(const struct format *format, uint64_t bits)
{
    const int width = format->exponent_bits + format->mantissa_bits;
    const uint64_t magnitude = bits & ((UINT64_C(1) << width) - 1);
    const uint64_t mantissa = magnitude & ((UINT64_C(1) << format->mantissa_bits) - 1);
    const int exponent = (int)(magnitude >> format->mantissa_bits), highest = (1 << format->exponent_bits) - 1;
    const bool negative = ((bits >> width) & 1) != 0;
    double value;
    if (format->minus_zero_is_nan && negative && magnitude == 0)
        return NAN;
    if (format->highest_is_nan && magnitude == (UINT64_C(1) << width) - 1)
        return NAN;
    if (format->has_infinity && exponent == highest)
        value = mantissa == 0 ? INFINITY : NAN;
    else if (exponent == 0)
        value = ldexp((double)mantissa, 1 - format->bias - format->mantissa_bits);
    else
        value = ldexp((double)(mantissa | (UINT64_C(1) << format->mantissa_bits)),
                      exponent - format->bias - format->mantissa_bits);
    return negative ? -value : value;
}

double sp_float_from_bits(enum sp_dtype dtype, uint64_t bits)
{
    static const struct format half = {5, 10, 15, true, false, false};
    static const struct format bfloat16 = {8, 7, 127, true, false, false};
    static const struct format e4m3fn = {4, 3, 7, false, true, false};
    static const struct format e4m3fnuz = {4, 3, 8, false, false, true};
    static const struct format e5m2 = {5, 2, 15, true, false, false};
    static const struct format e5m2fnuz = {5, 2, 16, false, false, true};
    static const struct format e2m1 = {2, 1, 1, false, false, false};
    static const struct format e2m3 = {2, 3, 1, false, false, false};
    static const struct format e3m2 = {3, 2, 3, false, false, false};
    switch (dtype) {
    case SP_DTYPE_FLOAT:
        return sp_wire_float(bits);
    case SP_DTYPE_DOUBLE:
        return sp_wire_double(bits);
    case SP_DTYPE_FLOAT16:
        return decode(&half, bits);
    case SP_DTYPE_BFLOAT16:
        return decode(&bfloat16, bits);
    case SP_DTYPE_FLOAT8E4M3FN:
        return decode(&e4m3fn, bits);
    case SP_DTYPE_FLOAT8E4M3FNUZ:
        return decode(&e4m3fnuz, bits);
    case SP_DTYPE_FLOAT8E5M2:
        return decode(&e5m2, bits);
    case SP_DTYPE_FLOAT8E5M2FNUZ:
        return decode(&e5m2fnuz, bits);
    case SP_DTYPE_FLOAT4E2M1:
        return decode(&e2m1, bits);
    case SP_DTYPE_FLOAT6E2M3:
        return decode(&e2m3, bits);
    case SP_DTYPE_FLOAT6E3M2:
        return decode(&e3m2, bits);
    case SP_DTYPE_FLOAT8E8M0: /* a power of two, no sign, no zero */
        return (bits & 0xff) == 0xff ? NAN : ldexp(1, (int)(bits & 0xff) - 127);
    default:
        return 0;
    }
}
