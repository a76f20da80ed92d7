/* Arithmetic of single numbers. */
#include <float.h>
#include <string.h>

#include "base/hash_map.h"
#include "verify/combine.h"

uint64_t sp_tag(const char *name)
{
    return sp_digest(name, strlen(name), 0);
}

/* ---- reals as numbers of the field ------------------------------------------------------------------------------ */

static uint64_t dyadic(double value)
{
    int exponent;
    const double mantissa = frexp(value, &exponent);
    const int64_t digits = (int64_t)ldexp(mantissa, 53);
    const int shift = ((exponent - 53) % 61 + 61) % 61; /* 2^61 = 1 */
    return sp_field_multiply(sp_field_of_int(digits), UINT64_C(1) << shift);
}

static bool is_largest(double size, int digits)
{
    return (digits == 24 && size >= (double)FLT_MAX) || (digits == 53 && size >= DBL_MAX) ||
           (digits == 11 && size >= 65504) || (digits == 8 && size >= 0x1.FEp127);
}

static double rounded_to(double value, int digits)
{
    int exponent;
    const double mantissa = frexp(value, &exponent);
    return ldexp(nearbyint(ldexp(mantissa, digits)), exponent - digits);
}

/* The fraction of terms below 2^(digits / 2 - 2) whose nearest number of so many digits is the size, by its continued
   fraction. A number beside that one is none. */
static bool find_fraction(double size, int digits, uint64_t *ret)
{
    const int64_t limit = INT64_C(1) << (digits / 2 > 20 ? 20 : digits / 2 - (digits > 11 ? 2 : 0));
    int64_t above[2] = {1, 0}, below[2] = {0, 1}; /* of the last two fractions */
    double rest = size;
    while (rest < (double)limit) {
        const int64_t whole = (int64_t)rest;
        const int64_t p = whole * above[0] + above[1], q = whole * below[0] + below[1];
        if (p > limit * limit || q > limit)
            return false;
        if (p > 0 && rounded_to((double)p / (double)q, digits) == size) {
            *ret = sp_field_multiply(sp_field_of_int(p), sp_field_inverse(sp_field_of_int(q)));
            return true;
        }
        if (rest == (double)whole)
            return false;
        above[1] = above[0];
        below[1] = below[0];
        above[0] = p;
        below[0] = q;
        rest = 1 / (rest - (double)whole);
    }
    return false;
}

#define MAX_ROOT_OF 8192 /* sizes of heads are what scales are made of */

/* Whether a number is 1 / sqrt(n), rounded once, or as a runtime folds it: each step rounded to the type. */
static bool is_inverse_root(double size, double n, int digits)
{
    const double root = rounded_to(sqrt(n), digits), inverse = rounded_to(1 / n, digits);
    return size == rounded_to((double)(1 / sqrtl((long double)n)), digits) || size == rounded_to(1 / root, digits) ||
           size == rounded_to(sqrt(inverse), digits);
}

/* Whether a size is the root of a whole number that is no square, or 1 by it. Of a root nothing is known but what it is
   of, without its square factors: sqrt(8) is 2 sqrt(2). */
static bool find_root(double size, int digits, uint64_t *ret)
{
    const bool is_inverse = size < 1;
    const double square = nearbyint(is_inverse ? 1 / (size * size) : size * size);
    if (digits < 24 || !(square >= 2 && square <= MAX_ROOT_OF) ||
        !(is_inverse ? is_inverse_root(size, square, digits) : size == rounded_to(sqrt(square), digits)))
        return false;
    int64_t factor = 1, n = (int64_t)square;
    for (int64_t k = 2; k * k <= n; k++) {
        for (; n % (k * k) == 0; n /= k * k)
            factor *= k;
    }
    const uint64_t root =
        sp_field_multiply(sp_field_of_int(factor), sp_field_hash(sp_tag("root of a whole number"), (uint64_t)n));
    *ret = is_inverse ? sp_field_inverse(root) : root;
    return n > 1;
}

uint64_t sp_field_of_digits(double value, int digits)
{
    const double size = fabs(value);
    if (isnan(value))
        return sp_field_hash(1, 1);
    if (is_largest(size, digits))
        return value < 0 ? SP_FIELD_LEAST : SP_FIELD_GREATEST;
    if (size == floor(size))
        return dyadic(value);
    uint64_t found;
    if (!find_root(size, digits, &found) && !find_fraction(size, digits, &found))
        return dyadic(value);
    return value < 0 ? sp_field_negate(found) : found;
}

uint64_t sp_field_of_type(double value, enum sp_dtype dtype)
{
    const int digits = dtype == SP_DTYPE_FLOAT16 ? 11 : dtype == SP_DTYPE_BFLOAT16 ? 8 : 0;
    return digits == 0 ? sp_field_of_real(value) : sp_field_of_digits(rounded_to(value, digits), digits);
}

/* ---- arithmetic ------------------------------------------------------------------------------------------------- */

struct sp_number sp_number_add(struct sp_number a, struct sp_number b)
{
    const bool are_finite = sp_field_is_finite(a.field) && sp_field_is_finite(b.field);
    return (struct sp_number){are_finite                    ? sp_field_add(a.field, b.field)
                              : sp_field_is_finite(a.field) ? b.field
                              : sp_field_is_finite(b.field) ? a.field
                              : a.field == b.field          ? a.field
                                                            : sp_field_hash(1, 1),
                              a.real + b.real};
}

struct sp_number sp_number_negate(struct sp_number a)
{
    return (struct sp_number){a.field == SP_FIELD_LEAST      ? SP_FIELD_GREATEST
                              : a.field == SP_FIELD_GREATEST ? SP_FIELD_LEAST
                                                             : sp_field_negate(a.field),
                              -a.real};
}

struct sp_number sp_number_subtract(struct sp_number a, struct sp_number b)
{
    return sp_number_add(a, sp_number_negate(b));
}

struct sp_number sp_number_multiply(struct sp_number a, struct sp_number b)
{
    const bool are_finite = sp_field_is_finite(a.field) && sp_field_is_finite(b.field);
    return (struct sp_number){are_finite ? sp_field_multiply(a.field, b.field) : sp_field_of_real(a.real * b.real),
                              a.real * b.real};
}

struct sp_number sp_number_divide_by(struct sp_number a, struct sp_number b, uint64_t inverse)
{
    const bool are_finite = sp_field_is_finite(a.field) && sp_field_is_finite(b.field) && b.field != 0;
    return (struct sp_number){are_finite ? sp_field_multiply(a.field, inverse) : sp_field_of_real(a.real / b.real),
                              a.real / b.real};
}

struct sp_number sp_number_divide(struct sp_number a, struct sp_number b)
{
    const bool are_finite = sp_field_is_finite(a.field) && sp_field_is_finite(b.field) && b.field != 0;
    return sp_number_divide_by(a, b, are_finite ? sp_field_inverse(b.field) : 0);
}

struct sp_number sp_number_max(struct sp_number a, struct sp_number b)
{
    return (struct sp_number){sp_field_is_less(a.field, b.field) ? b.field : a.field,
                              a.real < b.real ? b.real : a.real};
}

struct sp_number sp_number_min(struct sp_number a, struct sp_number b)
{
    return (struct sp_number){sp_field_is_less(a.field, b.field) ? a.field : b.field,
                              a.real < b.real ? a.real : b.real};
}

struct sp_number sp_integer_add(struct sp_number a, struct sp_number b)
{
    return (struct sp_number){a.field + b.field, a.real + b.real};
}

struct sp_number sp_integer_multiply(struct sp_number a, struct sp_number b)
{
    return (struct sp_number){a.field * b.field, a.real * b.real};
}

static int64_t quotient(int64_t a, int64_t b)
{
    return b == 0 || (a == INT64_MIN && b == -1) ? 0 : a / b;
}

struct sp_number sp_integer_divide(struct sp_number a, struct sp_number b)
{
    return (struct sp_number){(uint64_t)quotient((int64_t)a.field, (int64_t)b.field), trunc(a.real / b.real)};
}

struct sp_number sp_integer_max(struct sp_number a, struct sp_number b)
{
    return (struct sp_number){(int64_t)a.field < (int64_t)b.field ? b.field : a.field, fmax(a.real, b.real)};
}

struct sp_number sp_integer_min(struct sp_number a, struct sp_number b)
{
    return (struct sp_number){(int64_t)a.field < (int64_t)b.field ? a.field : b.field, fmin(a.real, b.real)};
}

double sp_real_exp(double x)
{
    return exp(x);
}

double sp_real_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

struct sp_number sp_number_function(uint64_t tag, double (*real)(double), bool is_known, struct sp_number a)
{
    const double value = real != NULL ? real(a.real) : NAN;
    if (real == sqrt && a.field == 0)
        return (struct sp_number){0, value}; /* of an empty sum, as reductions of nothing are defined */
    return is_known && real != NULL ? sp_number_of_real(value) : (struct sp_number){sp_field_hash(tag, a.field), value};
}
