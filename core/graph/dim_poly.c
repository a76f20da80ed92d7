#include <inttypes.h>
#include <string.h>

#include "base/arith.h"
#include "base/array.h"
#include "graph/dim_internal.h"

static struct sp_dim_term constant_term(int64_t value)
{
    struct sp_dim_term term;
    memset(&term, 0, sizeof term);
    term.coefficient = value;
    return term;
}

bool sp_poly_from_dim(struct sp_dim dim, struct sp_poly *ret)
{
    ret->count = 0;
    switch (dim.kind) {
    case SP_DIM_KNOWN:
        if (dim.value != 0)
            ret->terms[ret->count++] = constant_term(dim.value);
        return true;
    case SP_DIM_SYMBOLIC:
        memcpy(ret->terms, dim.expr->terms, dim.expr->count * sizeof *ret->terms);
        ret->count = dim.expr->count;
        return true;
    case SP_DIM_UNKNOWN:
        break;
    }
    return false;
}

/* Graded lexicographic: higher degree first, then the one with the older atom first. */
static int compare_monomials(const struct sp_dim_term *a, const struct sp_dim_term *b)
{
    if (a->degree != b->degree)
        return a->degree > b->degree ? -1 : 1;
    for (uint32_t i = 0; i < a->degree; i++) {
        if (a->atoms[i]->id != b->atoms[i]->id)
            return a->atoms[i]->id < b->atoms[i]->id ? -1 : 1;
    }
    return 0;
}

/* Adds one term at its place. */
static bool insert_term(struct sp_poly *poly, const struct sp_dim_term *term)
{
    uint32_t at = 0;
    int order = 1;
    while (at < poly->count && (order = compare_monomials(&poly->terms[at], term)) < 0)
        at++;
    if (at < poly->count && order == 0) {
        if (!sp_add_i64(poly->terms[at].coefficient, term->coefficient, &poly->terms[at].coefficient))
            return false;
        if (poly->terms[at].coefficient == 0) {
            poly->count--;
            memmove(&poly->terms[at], &poly->terms[at + 1], (poly->count - at) * sizeof *poly->terms);
        }
        return true;
    }
    if (poly->count == SP_MAX_EXPR_TERMS)
        return false;
    memmove(&poly->terms[at + 1], &poly->terms[at], (poly->count - at) * sizeof *poly->terms);
    poly->terms[at] = *term;
    poly->count++;
    return true;
}

/* The product of two monomials, their atoms merged in order. */
static bool multiply_terms(const struct sp_dim_term *a, const struct sp_dim_term *b, struct sp_dim_term *ret)
{
    memset(ret, 0, sizeof *ret);
    if (a->degree + b->degree > SP_POLY_MAX_DEGREE || !sp_mul_i64(a->coefficient, b->coefficient, &ret->coefficient))
        return false;
    uint32_t i = 0, j = 0;
    while (i < a->degree || j < b->degree) {
        bool from_a = j == b->degree || (i < a->degree && a->atoms[i]->id <= b->atoms[j]->id);
        ret->atoms[ret->degree++] = from_a ? a->atoms[i++] : b->atoms[j++];
    }
    return true;
}

bool sp_poly_add_scaled(struct sp_poly *sum, const struct sp_poly *addend, int64_t factor,
                        const struct sp_dim_term *monomial)
{
    struct sp_dim_term scale = monomial == NULL ? constant_term(1) : *monomial;
    if (!sp_mul_i64(scale.coefficient, factor, &scale.coefficient))
        return false;
    for (uint32_t i = 0; i < addend->count; i++) {
        struct sp_dim_term product;
        if (!multiply_terms(&addend->terms[i], &scale, &product))
            return false;
        if (product.coefficient != 0 && !insert_term(sum, &product))
            return false;
    }
    return true;
}

bool sp_poly_mul(const struct sp_poly *a, const struct sp_poly *b, struct sp_poly *ret)
{
    ret->count = 0;
    for (uint32_t i = 0; i < a->count; i++) {
        if (!sp_poly_add_scaled(ret, b, 1, &a->terms[i]))
            return false;
    }
    return true;
}

/* a / b as monomials with whole coefficients. */
static bool divide_terms(const struct sp_dim_term *a, const struct sp_dim_term *b, struct sp_dim_term *ret)
{
    if (b->degree > a->degree || (a->coefficient == INT64_MIN && b->coefficient == -1) ||
        a->coefficient % b->coefficient != 0)
        return false;
    memset(ret, 0, sizeof *ret);
    ret->coefficient = a->coefficient / b->coefficient;
    uint32_t j = 0;
    for (uint32_t i = 0; i < a->degree; i++) {
        if (j < b->degree && b->atoms[j]->id == a->atoms[i]->id)
            j++;
        else
            ret->atoms[ret->degree++] = a->atoms[i];
    }
    return j == b->degree;
}

bool sp_poly_divide(const struct sp_poly *a, const struct sp_poly *b, struct sp_poly *ret)
{
    struct sp_poly rest = *a;
    ret->count = 0;
    if (b->count == 0)
        return false;
    /* Each step removes the leading term; the order is a well-order, and the bound guards against nothing but bugs. */
    for (uint32_t steps = 0; rest.count > 0; steps++) {
        struct sp_dim_term quotient;
        if (steps == 4 * SP_MAX_EXPR_TERMS || !divide_terms(&rest.terms[0], &b->terms[0], &quotient) ||
            !insert_term(ret, &quotient) || !sp_poly_add_scaled(&rest, b, -1, &quotient))
            return false;
    }
    return true;
}

void sp_poly_split(const struct sp_poly *a, int64_t divisor, struct sp_poly *ret_quotient, struct sp_poly *ret_rest)
{
    ret_quotient->count = 0;
    ret_rest->count = 0;
    for (uint32_t i = 0; i < a->count; i++) {
        struct sp_dim_term term = a->terms[i];
        if (divisor > 0 && term.degree == 0) {
            /* The constant splits too: 7 = 3 * 2 + 1, with a rest that is never negative. */
            int64_t rest = term.coefficient % divisor;
            if (rest < 0)
                rest += divisor;
            struct sp_dim_term whole = constant_term((term.coefficient - rest) / divisor);
            if (whole.coefficient != 0)
                ret_quotient->terms[ret_quotient->count++] = whole;
            if (rest != 0)
                ret_rest->terms[ret_rest->count++] = constant_term(rest);
        } else if (divisor > 0 && term.coefficient % divisor == 0) {
            term.coefficient /= divisor;
            ret_quotient->terms[ret_quotient->count++] = term;
        } else {
            ret_rest->terms[ret_rest->count++] = term;
        }
    }
}

/* The smallest value of a product of atoms that are all >= 0, or false. */
static bool monomial_lower(const struct sp_dim_term *term, int64_t *ret_lower)
{
    int64_t lower = 1;
    for (uint32_t i = 0; i < term->degree; i++) {
        const struct sp_atom *atom = term->atoms[i];
        if (!atom->has_lower || atom->lower < 0 || !sp_mul_i64(lower, atom->lower, &lower))
            return false;
    }
    *ret_lower = lower;
    return true;
}

static bool monomial_upper(const struct sp_dim_term *term, int64_t *ret_upper)
{
    int64_t upper = 1;
    for (uint32_t i = 0; i < term->degree; i++) {
        const struct sp_atom *atom = term->atoms[i];
        if (!atom->has_lower || atom->lower < 0 || !atom->has_upper || !sp_mul_i64(upper, atom->upper, &upper))
            return false;
    }
    *ret_upper = upper;
    return true;
}

bool sp_poly_lower(const struct sp_poly *poly, int64_t *ret_lower)
{
    int64_t lower = 0;
    for (uint32_t i = 0; i < poly->count; i++) {
        const struct sp_dim_term *term = &poly->terms[i];
        int64_t bound;
        bool found = term->coefficient > 0 ? monomial_lower(term, &bound) : monomial_upper(term, &bound);
        if (!found || !sp_mul_i64(bound, term->coefficient, &bound) || !sp_add_i64(lower, bound, &lower))
            return false;
    }
    *ret_lower = lower;
    return true;
}

struct sp_dim sp_poly_to_dim(struct sp_dims *dims, const struct sp_poly *poly)
{
    if (poly->count == 0)
        return sp_dim_known(0);
    if (poly->count == 1 && poly->terms[0].degree == 0)
        return sp_dim_known(poly->terms[0].coefficient);

    /* The key is the polynomial itself: coefficient, degree and atom ids of each term. */
    unsigned char key[SP_MAX_EXPR_TERMS * (sizeof(int64_t) + sizeof(uint32_t) * (SP_POLY_MAX_DEGREE + 1))];
    size_t size = 0;
    for (uint32_t i = 0; i < poly->count; i++) {
        const struct sp_dim_term *term = &poly->terms[i];
        memcpy(key + size, &term->coefficient, sizeof term->coefficient);
        size += sizeof term->coefficient;
        memcpy(key + size, &term->degree, sizeof term->degree);
        size += sizeof term->degree;
        for (uint32_t j = 0; j < term->degree; j++) {
            memcpy(key + size, &term->atoms[j]->id, sizeof(uint32_t));
            size += sizeof(uint32_t);
        }
    }
    uint32_t before = sp_intern_count(dims->expr_keys);
    if (before >= SP_MAX_EXPRS && sp_intern_find(dims->expr_keys, (const char *)key, size) == SP_NO_NAME)
        return sp_dim_unknown();
    uint32_t id = sp_intern_add(dims->expr_keys, (const char *)key, size);
    if (id == SP_NO_NAME)
        return sp_dim_unknown();
    if (!SP_MAKE_PLACE(dims->arena, dims->exprs, dims->expr_capacity, id))
        return sp_dim_unknown();
    if (dims->exprs[id] == NULL) {
        struct sp_expr *expr = SP_NEW(dims->arena, struct sp_expr);
        struct sp_dim_term *terms = SP_NEW_ARRAY(dims->arena, poly->count, struct sp_dim_term);
        if (expr == NULL || terms == NULL)
            return sp_dim_unknown();
        memcpy(terms, poly->terms, poly->count * sizeof *terms);
        *expr = (struct sp_expr){.id = id, .count = poly->count, .terms = terms};
        dims->exprs[id] = expr;
    }
    return (struct sp_dim){.kind = SP_DIM_SYMBOLIC, .expr = dims->exprs[id]};
}

static void print_term(const struct sp_dim_term *term, bool first, struct sp_buf *buf)
{
    int64_t coefficient = term->coefficient;
    if (!first) {
        sp_buf_text(buf, coefficient < 0 ? " - " : " + ");
        coefficient = coefficient < 0 && coefficient != INT64_MIN ? -coefficient : coefficient;
    }
    if (term->degree == 0 || (coefficient != 1 && coefficient != -1))
        sp_buf_printf(buf, "%" PRId64 "%s", coefficient, term->degree > 0 ? "*" : "");
    else if (coefficient == -1)
        sp_buf_text(buf, "-");
    for (uint32_t i = 0; i < term->degree; i++)
        sp_buf_printf(buf, "%s%s", i > 0 ? "*" : "", term->atoms[i]->text);
}

void sp_dim_print(struct sp_dim a, struct sp_buf *buf)
{
    switch (a.kind) {
    case SP_DIM_UNKNOWN:
        sp_buf_text(buf, "?");
        break;
    case SP_DIM_KNOWN:
        sp_buf_printf(buf, "%" PRId64, a.value);
        break;
    case SP_DIM_SYMBOLIC:
        for (uint32_t i = 0; i < a.expr->count; i++)
            print_term(&a.expr->terms[i], i == 0, buf);
        break;
    }
}
