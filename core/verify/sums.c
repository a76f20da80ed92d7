#include "verify/sums.h"

#define UNREDUCED 32 /* products below 2^122, and a sum that is left of earlier ones, are less than 2^128 */

static bool are_finite(const struct sp_numbers *x)
{
    for (uint64_t i = 0; i < x->count; i++) {
        if (!sp_field_is_finite(x->items[i].field))
            return false;
    }
    return true;
}

struct sp_factors sp_factors_of(const struct sp_numbers *a, const struct sp_numbers *b, enum sp_dtype dtype)
{
    return (struct sp_factors){a->items, b->items,
                               !sp_dtype_is_float(dtype)        ? SP_FACTORS_INTEGER
                               : are_finite(a) && are_finite(b) ? SP_FACTORS_FINITE
                                                                : SP_FACTORS_ANY};
}

static uint64_t reduce(unsigned __int128 x)
{
    x = (x & SP_FIELD_PRIME) + (x >> 61);
    x = (x & SP_FIELD_PRIME) + (x >> 61);
    return sp_field_reduce((uint64_t)x);
}

static struct sp_number sum_finite(const struct sp_number *a, const struct sp_number *b, size_t count,
                                   const size_t *a_offsets, const size_t *b_offsets, struct sp_number sum)
{
    for (size_t i = 0; i < count;) {
        const size_t end = count - i < UNREDUCED ? count : i + UNREDUCED;
        unsigned __int128 field = sum.field;
        for (; i < end; i++) {
            const struct sp_number *x = &a[a_offsets[i]], *y = &b[b_offsets[i]];
            field += (unsigned __int128)x->field * y->field;
            sum.real += x->real * y->real;
        }
        sum.field = reduce(field);
    }
    return sum;
}

void sp_sum_products(const struct sp_factors *factors, size_t a_at, size_t b_at, size_t count, const size_t *a_offsets,
                     const size_t *b_offsets, struct sp_number *sum)
{
    const struct sp_number *a = &factors->a[a_at], *b = &factors->b[b_at];
    if (factors->kind == SP_FACTORS_FINITE) {
        *sum = sum_finite(a, b, count, a_offsets, b_offsets, *sum);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const struct sp_number x = a[a_offsets[i]], y = b[b_offsets[i]];
        *sum = factors->kind == SP_FACTORS_INTEGER ? sp_integer_add(*sum, sp_integer_multiply(x, y))
                                                   : sp_number_add(*sum, sp_number_multiply(x, y));
    }
}
