#include "graph/dim.h"

#include <string.h>

#include "base/arith.h"
#include "graph/dim_internal.h"

static struct sp_dim add_scaled(struct sp_dims *dims, struct sp_dim a, struct sp_dim b, int64_t factor)
{
    struct sp_poly sum, addend;
    int64_t number;
    if (sp_dim_is_known(a) && sp_dim_is_known(b))
        return sp_mul_i64(b.value, factor, &number) && sp_add_i64(a.value, number, &number) ? sp_dim_known(number)
                                                                                            : sp_dim_unknown();
    if (!sp_poly_from_dim(a, &sum) || !sp_poly_from_dim(b, &addend) || !sp_poly_add_scaled(&sum, &addend, factor, NULL))
        return sp_dim_unknown();
    return sp_poly_to_dim(dims, &sum);
}

struct sp_dim sp_dim_add(struct sp_dims *dims, struct sp_dim a, struct sp_dim b)
{
    return add_scaled(dims, a, b, 1);
}

struct sp_dim sp_dim_sub(struct sp_dims *dims, struct sp_dim a, struct sp_dim b)
{
    return add_scaled(dims, a, b, -1);
}

struct sp_dim sp_dim_mul(struct sp_dims *dims, struct sp_dim a, struct sp_dim b)
{
    struct sp_poly left, right, product;
    int64_t number;
    if (sp_dim_is(a, 0) || sp_dim_is(b, 0))
        return sp_dim_known(0);
    if (sp_dim_is_known(a) && sp_dim_is_known(b))
        return sp_mul_i64(a.value, b.value, &number) ? sp_dim_known(number) : sp_dim_unknown();
    if (sp_dim_is(a, 1))
        return b;
    if (sp_dim_is(b, 1))
        return a;
    if (!sp_poly_from_dim(a, &left) || !sp_poly_from_dim(b, &right) || !sp_poly_mul(&left, &right, &product))
        return sp_dim_unknown();
    return sp_poly_to_dim(dims, &product);
}

struct sp_dim sp_dim_exact_div(struct sp_dims *dims, struct sp_dim a, struct sp_dim b)
{
    struct sp_poly left, right, quotient;
    if (sp_dim_is_known(a) && sp_dim_is_known(b) && b.value > 0)
        return a.value % b.value == 0 ? sp_dim_known(a.value / b.value) : sp_dim_unknown();
    if (!sp_poly_from_dim(a, &left) || !sp_poly_from_dim(b, &right) || !sp_poly_divide(&left, &right, &quotient))
        return sp_dim_unknown();
    return sp_poly_to_dim(dims, &quotient);
}

static int64_t floor_quotient(int64_t a, int64_t b)
{
    int64_t quotient = a / b;
    return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

static bool divides_safely(int64_t a, int64_t b)
{
    return b != 0 && !(a == INT64_MIN && b == -1);
}

/* floor(floor(x / c) / b) = floor(x / (b * c)) for positive b and c, and the same for ceil: pooling layers stack such.
 */
static bool unnest(enum sp_atom_kind kind, struct sp_dim *a, int64_t *divisor)
{
    if (a->kind != SP_DIM_SYMBOLIC || a->expr->count != 1 || a->expr->terms[0].degree != 1 ||
        a->expr->terms[0].coefficient != 1)
        return false;
    const struct sp_atom *atom = a->expr->terms[0].atoms[0];
    if (atom->kind != kind || !sp_dim_is_known(atom->b) || atom->b.value <= 0 ||
        !sp_mul_i64(*divisor, atom->b.value, divisor))
        return false;
    *a = atom->a;
    return true;
}

/* floor or ceil of a / divisor, divisor > 0: whole multiples come out of it, then nested quotients are joined, which
   may free more multiples. */
static struct sp_dim divide_by_number(struct sp_dims *dims, enum sp_atom_kind kind, struct sp_dim a, int64_t divisor)
{
    struct sp_dim quotient = sp_dim_known(0);
    for (;;) {
        struct sp_poly poly, whole, rest;
        if (!sp_poly_from_dim(a, &poly))
            return sp_dim_unknown();
        sp_poly_split(&poly, divisor, &whole, &rest);
        quotient = sp_dim_add(dims, quotient, sp_poly_to_dim(dims, &whole));
        struct sp_dim remainder = sp_poly_to_dim(dims, &rest);
        if (sp_dim_is_known(remainder)) { /* 0 <= remainder < divisor */
            bool up = kind == SP_ATOM_CEILDIV && remainder.value > 0;
            return up ? sp_dim_add(dims, quotient, sp_dim_known(1)) : quotient;
        }
        a = remainder;
        if (whole.count == 0 && !unnest(kind, &a, &divisor))
            return sp_dim_add(dims, quotient, sp_atom_dim(dims, kind, a, sp_dim_known(divisor)));
    }
}

static struct sp_dim divide(struct sp_dims *dims, enum sp_atom_kind kind, struct sp_dim a, struct sp_dim b)
{
    if (a.kind == SP_DIM_UNKNOWN || b.kind == SP_DIM_UNKNOWN || sp_dim_is(b, 0))
        return sp_dim_unknown();
    if (sp_dim_is_known(a) && sp_dim_is_known(b)) {
        if (!divides_safely(a.value, b.value))
            return sp_dim_unknown();
        int64_t quotient = floor_quotient(a.value, b.value);
        return sp_dim_known(kind == SP_ATOM_CEILDIV && a.value % b.value != 0 ? quotient + 1 : quotient);
    }
    struct sp_dim exact = sp_dim_exact_div(dims, a, b);
    if (exact.kind != SP_DIM_UNKNOWN)
        return exact;
    if (sp_dim_is_known(b) && b.value > 0)
        return divide_by_number(dims, kind, a, b.value);
    return sp_atom_dim(dims, kind, a, b);
}

struct sp_dim sp_dim_floordiv(struct sp_dims *dims, struct sp_dim a, struct sp_dim b)
{
    return divide(dims, SP_ATOM_FLOORDIV, a, b);
}

struct sp_dim sp_dim_ceildiv(struct sp_dims *dims, struct sp_dim a, struct sp_dim b)
{
    return divide(dims, SP_ATOM_CEILDIV, a, b);
}

struct sp_dim sp_dim_truncdiv(struct sp_dims *dims, struct sp_dim a, struct sp_dim b)
{
    if (sp_dim_is_known(a) && sp_dim_is_known(b))
        return divides_safely(a.value, b.value) ? sp_dim_known(a.value / b.value) : sp_dim_unknown();
    struct sp_dim exact = sp_dim_exact_div(dims, a, b);
    if (exact.kind != SP_DIM_UNKNOWN)
        return exact;
    bool positive = sp_dim_surely_ge(dims, a, sp_dim_known(0)) && sp_dim_surely_ge(dims, b, sp_dim_known(0));
    return positive ? sp_dim_floordiv(dims, a, b) : sp_dim_unknown();
}

struct sp_dim sp_dim_mod(struct sp_dims *dims, struct sp_dim a, struct sp_dim b)
{
    if (a.kind == SP_DIM_UNKNOWN || b.kind == SP_DIM_UNKNOWN || sp_dim_is(b, 0))
        return sp_dim_unknown();
    if (sp_dim_is_known(a) && sp_dim_is_known(b)) {
        if (b.value == -1)
            return sp_dim_known(0);
        int64_t rest = a.value % b.value;
        return sp_dim_known(rest != 0 && (rest < 0) != (b.value < 0) ? rest + b.value : rest);
    }
    if (sp_dim_exact_div(dims, a, b).kind != SP_DIM_UNKNOWN)
        return sp_dim_known(0);
    struct sp_poly poly, whole, rest;
    if (sp_dim_is_known(b) && b.value > 0 && sp_poly_from_dim(a, &poly)) {
        sp_poly_split(&poly, b.value, &whole, &rest);
        struct sp_dim remainder = sp_poly_to_dim(dims, &rest);
        return sp_dim_is_known(remainder) ? remainder : sp_atom_dim(dims, SP_ATOM_MOD, remainder, b);
    }
    return sp_atom_dim(dims, SP_ATOM_MOD, a, b);
}

static bool is_not_negative(const struct sp_poly *poly)
{
    int64_t lower;
    return sp_poly_lower(poly, &lower) && lower >= 0;
}

/* Whether `poly` is >= 0 once term `index`, a multiple of min(p, q) with a negative or of max(p, q) with a positive
   coefficient, is replaced by the same multiple of p or q: that is never larger. */
static bool is_not_negative_without(const struct sp_poly *poly, uint32_t index)
{
    const struct sp_dim_term *term = &poly->terms[index];
    enum sp_atom_kind kind = term->coefficient < 0 ? SP_ATOM_MIN : SP_ATOM_MAX;
    if (term->degree != 1 || term->atoms[0]->kind != kind)
        return false;
    for (int i = 0; i < 2; i++) {
        struct sp_poly operand, replaced = *poly;
        memmove(&replaced.terms[index], &replaced.terms[index + 1],
                (replaced.count - index - 1) * sizeof replaced.terms[0]);
        replaced.count--;
        if (sp_poly_from_dim(i == 0 ? term->atoms[0]->a : term->atoms[0]->b, &operand) &&
            sp_poly_add_scaled(&replaced, &operand, term->coefficient, NULL) && is_not_negative(&replaced))
            return true;
    }
    return false;
}

bool sp_dim_surely_ge(struct sp_dims *dims, struct sp_dim a, struct sp_dim b)
{
    (void)dims;
    struct sp_poly difference, subtrahend;
    if (sp_dim_is_known(a) && sp_dim_is_known(b))
        return a.value >= b.value;
    if (sp_dim_is_known(a) && a.value >= SP_EXTENT_INFINITY && b.kind == SP_DIM_SYMBOLIC)
        return true;
    if (!sp_poly_from_dim(a, &difference) || !sp_poly_from_dim(b, &subtrahend) ||
        !sp_poly_add_scaled(&difference, &subtrahend, -1, NULL))
        return false;
    if (is_not_negative(&difference))
        return true;
    for (uint32_t i = 0; i < difference.count; i++) {
        if (is_not_negative_without(&difference, i))
            return true;
    }
    return false;
}

/* Operands of commutative functions in one order: numbers last, then by age. */
static void order_operands(struct sp_dim *a, struct sp_dim *b)
{
    bool swap = sp_dim_is_known(*a) || (!sp_dim_is_known(*b) && a->expr->id > b->expr->id);
    if (swap) {
        struct sp_dim held = *a;
        *a = *b;
        *b = held;
    }
}

static struct sp_dim extreme(struct sp_dims *dims, enum sp_atom_kind kind, struct sp_dim a, struct sp_dim b)
{
    if (a.kind == SP_DIM_UNKNOWN || b.kind == SP_DIM_UNKNOWN)
        return sp_dim_unknown();
    bool a_is_larger = sp_dim_surely_ge(dims, a, b);
    if (a_is_larger || sp_dim_surely_ge(dims, b, a))
        return a_is_larger == (kind == SP_ATOM_MAX) ? a : b;
    order_operands(&a, &b);
    return sp_atom_dim(dims, kind, a, b);
}

struct sp_dim sp_dim_min(struct sp_dims *dims, struct sp_dim a, struct sp_dim b)
{
    return extreme(dims, SP_ATOM_MIN, a, b);
}

struct sp_dim sp_dim_max(struct sp_dims *dims, struct sp_dim a, struct sp_dim b)
{
    return extreme(dims, SP_ATOM_MAX, a, b);
}

bool sp_dim_differs(struct sp_dims *dims, struct sp_dim a, struct sp_dim b)
{
    if (a.kind == SP_DIM_UNKNOWN || b.kind == SP_DIM_UNKNOWN)
        return false;
    struct sp_dim one = sp_dim_known(1);
    struct sp_dim above_a = sp_dim_add(dims, a, one), above_b = sp_dim_add(dims, b, one);
    return sp_dim_surely_ge(dims, a, above_b) || sp_dim_surely_ge(dims, b, above_a);
}
