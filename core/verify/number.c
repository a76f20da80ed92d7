/* Arithmetic of single numbers. */
#include <string.h>

#include "base/hash_map.h"
#include "verify/combine.h"

uint64_t sp_tag(const char *name)
{
    return sp_digest(name, strlen(name), 0);
}

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

struct sp_number sp_number_divide(struct sp_number a, struct sp_number b)
{
    const bool are_finite = sp_field_is_finite(a.field) && sp_field_is_finite(b.field) && b.field != 0;
    return (struct sp_number){are_finite ? sp_field_multiply(a.field, sp_field_inverse(b.field))
                                         : sp_field_of_real(a.real / b.real),
                              a.real / b.real};
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
struct sp_number sp_number_function(uint64_t tag, double (*real)(double), bool is_known, struct sp_number a)
{
    const double value = real != NULL ? real(a.real) : NAN;
    return is_known && real != NULL ? sp_number_of_real(value) : (struct sp_number){sp_field_hash(tag, a.field), value};
}
