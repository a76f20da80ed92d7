#pragma once
/*
 * field - the two kinds of numbers that verification computes with.
 *
 * A number has a part in the field of the integers modulo p = 2^61 - 1 and a part in the reals. In the field sums,
 * products and quotients are exact, so two ways to add up the same terms give the same number. Every other function is
 * a hash there: equal arguments give equal results, and nothing else is known of it. Two polynomials that differ agree
 * at a random point of the field with a probability of at most their degree over p (Schwartz and Zippel): equal field
 * parts prove equality. The real parts are an ordinary run, rounded: where they differ, the functions differ.
 *
 * Of integers and bool the field part is the integer itself, in two's complement, and the real part the same number.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"

#define SP_FIELD_PRIME ((UINT64_C(1) << 61) - 1)
/* What stands for minus and plus infinity: absorbed by sums, and the ends of the order. */
#define SP_FIELD_LEAST    (SP_FIELD_PRIME + 1)
#define SP_FIELD_GREATEST (SP_FIELD_PRIME + 2)

struct sp_number {
    uint64_t field;
    double real;
};

static inline uint64_t sp_field_reduce(uint64_t x)
{
    x = (x & SP_FIELD_PRIME) + (x >> 61);
    return x >= SP_FIELD_PRIME ? x - SP_FIELD_PRIME : x;
}

static inline uint64_t sp_field_add(uint64_t a, uint64_t b)
{
    const uint64_t sum = a + b;
    return sum >= SP_FIELD_PRIME ? sum - SP_FIELD_PRIME : sum;
}

static inline uint64_t sp_field_negate(uint64_t a)
{
    return a == 0 ? 0 : SP_FIELD_PRIME - a;
}

static inline uint64_t sp_field_multiply(uint64_t a, uint64_t b)
{
    const unsigned __int128 product = (unsigned __int128)a * b;
    const uint64_t sum = (uint64_t)(product & SP_FIELD_PRIME) + (uint64_t)(product >> 61);
    return sum >= SP_FIELD_PRIME ? sum - SP_FIELD_PRIME : sum;
}

static inline uint64_t sp_field_power(uint64_t base, uint64_t exponent)
{
    uint64_t result = 1;
    for (; exponent != 0; exponent >>= 1) {
        if ((exponent & 1) != 0)
            result = sp_field_multiply(result, base);
        base = sp_field_multiply(base, base);
    }
    return result;
}

/* The inverse; that of 0 is 0, as no other number's is. */
static inline uint64_t sp_field_inverse(uint64_t a)
{
    return sp_field_power(a, SP_FIELD_PRIME - 2);
}

static inline bool sp_field_is_finite(uint64_t a)
{
    return a < SP_FIELD_PRIME;
}

static inline uint64_t sp_field_of_int(int64_t value)
{
    return value >= 0 ? sp_field_reduce((uint64_t)value) : sp_field_negate(sp_field_reduce(-(uint64_t)value));
}

/* A hash of a number under a tag. */
static inline uint64_t sp_field_hash(uint64_t tag, uint64_t a)
{
    return sp_field_reduce(sp_scramble(a ^ sp_scramble(tag)));
}

/*
 * The number that a real stands for, which has so many binary digits: the root of a small whole number, or 1 by it, as
 * scales of attention are; the fraction of small terms whose nearest number it is, as 0.6 in float32 is 3/5; else the fraction whose denominator is a power of two that it is. So no two reals stand for the same number, but
 * for the ways in which 1 / sqrt(n) is rounded: once, or at each step in the type.
 * The largest numbers of a type stand for infinity, as masks have them.
 */
uint64_t sp_field_of_digits(double value, int digits);

/* Of 24 digits (float32) where it has no more, else of 53. */
static inline uint64_t sp_field_of_real(double value)
{
    return sp_field_of_digits(value, (double)(float)value == value ? 24 : 53);
}

/* A real that follows from a number, between 1/4 and 1 but for its sign: none hides what it is multiplied with. */
static inline double sp_real_of_hash(uint64_t hash)
{
    const uint64_t bits = sp_scramble(hash);
    const double size = 0.25 + 0.75 * ((double)(bits >> 11) * 0x1p-53);
    return (bits & 1) != 0 ? -size : size;
}

/* A total order in which the numbers of the field stand in no order that a model could know, but for small integers and
   halves of them, which stand in their own, one behind the other in the middle. */
static inline uint64_t sp_field_rank(uint64_t a)
{
    const uint64_t small = UINT64_C(1) << 31, middle = UINT64_C(1) << 63, twice = sp_field_add(a, a);
    return twice < small                    ? middle + twice
           : twice > SP_FIELD_PRIME - small ? middle - (SP_FIELD_PRIME - twice)
                                            : sp_scramble(a);
}

static inline bool sp_field_is_less(uint64_t a, uint64_t b)
{
    if (!sp_field_is_finite(a) || !sp_field_is_finite(b))
        return a != b && (a == SP_FIELD_LEAST || b == SP_FIELD_GREATEST);
    return sp_field_rank(a) < sp_field_rank(b);
}
