/* What constants stand for: neighbours differ, and what runtimes fold is what it was folded of. */
#include <criterion/criterion.h>
#include <float.h>

#include "base/random.h"
#include "verify/numbers.h"

TestSuite(number, .timeout = 60);

#define RANDOM 200000

static uint64_t of(float value)
{
    return sp_field_of_real((double)value);
}

static float folded(double value)
{
    return (float)value;
}

Test(number, neighbours_differ)
{
    static const float values[] = {0.125F,   0.1F,  1e-5F, 1e-6F, 1e-12F, 0.3333333F, 0.70710677F, 0.17677669F,
                                   0.08838F, 0.06F, 0.5F,  1,     3,      7.0F / 9,   1000.1F,     1.4142135F};
    uint64_t random = 1;
    for (uint32_t i = 0; i < RANDOM; i++) {
        const uint64_t bits = sp_random(&random);
        const float value = i < sizeof values / sizeof *values ? values[i]
                            : (bits & 1) != 0 ? (float)(1 + (bits >> 8) % 999) / (float)(1 + (bits >> 32) % 999)
                                              : ldexpf((float)(bits >> 40), (int)((bits >> 8) % 48) - 40);
        const float above = nextafterf(value, INFINITY), below = nextafterf(value, -INFINITY);
        cr_assert_neq(of(value), of(above), "%.9g and %.9g", (double)value, (double)above);
        cr_assert_neq(of(value), of(below), "%.9g and %.9g", (double)value, (double)below);
        cr_assert_eq(of(-value), sp_field_negate(of(value)));
    }
}

/* All numbers of the narrow types, each against the next one. */
Test(number, narrow_types)
{
    for (int exponent = -14; exponent < 8; exponent++) {
        for (int digits = 8; digits <= 11; digits += 3) {
            const enum sp_dtype dtype = digits == 8 ? SP_DTYPE_BFLOAT16 : SP_DTYPE_FLOAT16;
            for (int64_t k = INT64_C(1) << (digits - 1); k < INT64_C(1) << digits; k++)
                cr_assert_neq(sp_field_of_type(ldexp((double)k, exponent - digits), dtype),
                              sp_field_of_type(ldexp((double)(k + 1), exponent - digits), dtype), "%lld %d %d",
                              (long long)k, exponent, digits);
        }
    }
}

/* Fractions are exact, and so is what is computed of them. */
Test(number, fractions)
{
    for (int64_t q = 1; q < 100; q++) {
        for (int64_t p = 1; p < 100; p++) {
            const uint64_t found = of(folded((double)p / (double)q));
            cr_assert_eq(sp_field_multiply(found, sp_field_of_int(q)), sp_field_of_int(p), "%d/%d", (int)p, (int)q);
            cr_assert_eq(sp_field_of_real((double)p / (double)q), found);
        }
    }
}

static bool is_square(int n)
{
    return sqrt(n) == floor(sqrt(n));
}

/* 1/sqrt(n) in double, in float32 at each step, and as what a quotient by sqrt(n) is. Where n is a square
   1/sqrt(n) is a fraction, which is rounded once. */
Test(number, folded_scales)
{
    for (int n = 1; n <= 8192; n++) {
        const uint64_t root = sp_field_of_real(sqrt(n)), inverse = sp_field_inverse(root);
        cr_assert_eq(of(folded(sqrt(n))), root, "%d", n);
        cr_assert_eq(of(folded(1 / sqrt(n))), inverse, "%d", n);
        cr_assert_eq(of(1 / sqrtf((float)n)), inverse, "%d", n);
        cr_assert_eq(of(sqrtf(1 / (float)n)) == inverse, !is_square(n) || sqrtf(1 / (float)n) == folded(1 / sqrt(n)),
                     "%d", n);
        cr_assert_eq(sp_field_of_real(1 / sqrt(n)), inverse, "%d", n);
    }
}

/* Scales of different sizes are different, and none is a neighbour of one that no rounding makes. */
Test(number, scales_are_no_others)
{
    for (int n = 2; n <= 8192; n++) {
        const float own[] = {folded(1 / sqrt(n)), 1 / sqrtf((float)n), sqrtf(1 / (float)n)};
        const float around = own[0];
        for (int steps = -4; steps <= 4; steps++) {
            const float value = around + (float)steps * (nextafterf(around, 1) - around);
            const bool is_own = value == own[0] || (!is_square(n) && (value == own[1] || value == own[2]));
            cr_assert_eq(of(value) == of(around), is_own, "%d %d", n, steps);
        }
        cr_assert_neq(of(around), of(folded(1 / sqrt(n + 1))));
    }
}

/* Small numbers and their halves are in the order of the reals. */
Test(number, order_of_halves)
{
    for (int64_t a = -40; a <= 40; a++) {
        for (int64_t b = -40; b <= 40; b++)
            cr_assert_eq(sp_field_is_less(of((float)a / 2), of((float)b / 2)), a < b, "%d/2 and %d/2", (int)a, (int)b);
    }
}
