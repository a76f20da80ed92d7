#pragma once
/*
 * dim_internal - polynomials over atoms, shared by dim.c (arithmetic), dim_poly.c (polynomials) and dim_atoms.c.
 *
 * A poly is a work area on the stack: terms in graded lexicographic order, largest first, no two with the same
 * monomial, no zero coefficient. That order is a monomial order, so leading-term division (exact quotients) is sound.
 * The constant term, if any, is last. The zero polynomial has no terms.
 */
#include "base/intern.h"
#include "base/limits.h"
#include "graph/dim.h"

#define POLY_MAX_DEGREE 16                 /* atoms of one product */
#define ATOM_MAX_TEXT   1024               /* bytes of one printed atom; deeper nesting makes the result unknown */
#define EXTENT_INFINITY (INT64_C(1) << 62) /* no extent reaches this: INT64_MAX is how exporters write "to the end" */

enum atom_kind { ATOM_SYMBOL, ATOM_FLOORDIV, ATOM_CEILDIV, ATOM_MOD, ATOM_MIN, ATOM_MAX };

struct atom {
    enum atom_kind kind;
    uint32_t id; /* order of creation, the tie-breaker of every ordering */
    const char *text;
    bool has_lower, has_upper;
    int64_t lower, upper; /* bounds that hold for all symbols >= 0 */
    struct sp_dim a, b;   /* operands of the functions */
};

struct term {
    int64_t coefficient;
    uint32_t degree;
    const struct atom *atoms[POLY_MAX_DEGREE]; /* ascending id, repeated for powers */
};

struct poly {
    uint32_t count;
    struct term terms[SP_MAX_EXPR_TERMS];
};

struct sp_expr {
    uint32_t id;
    uint32_t count;
    const struct term *terms;
};

struct symbol {
    const char *name;
    bool used, bound, fresh;
    int64_t value;
    const struct atom *atom;
};

struct sp_dims {
    struct sp_arena *arena;
    struct sp_intern *symbol_names, *atom_keys, *expr_keys;
    struct symbol *symbols;       /* by id in symbol_names */
    const struct atom **atoms;    /* by id in atom_keys */
    const struct sp_expr **exprs; /* by id in expr_keys */
    uint32_t symbol_capacity, atom_capacity, expr_capacity;
    uint32_t *used; /* symbol ids in order of first use */
    uint32_t used_count, used_capacity, fresh_count, atom_count;
};

/* ---- dim_poly.c: false means: too large, or overflow; the result is then unknown ---- */

bool poly_from_dim(struct sp_dim dim, struct poly *ret);
struct sp_dim poly_to_dim(struct sp_dims *dims, const struct poly *poly);
bool poly_add_scaled(struct poly *sum, const struct poly *addend, int64_t factor, const struct term *monomial);
bool poly_mul(const struct poly *a, const struct poly *b, struct poly *ret);
/* The quotient when b divides a exactly. */
bool poly_divide(const struct poly *a, const struct poly *b, struct poly *ret);
/* Splits into the terms whose coefficient `divisor` divides (divided) and the rest. */
void poly_split(const struct poly *a, int64_t divisor, struct poly *ret_quotient, struct poly *ret_rest);
/* A lower bound that holds for all symbols >= 0. */
bool poly_lower(const struct poly *poly, int64_t *ret_lower);

/* ---- dim_atoms.c ---- */

/* The symbolic dimension f(a, b) as an interned atom; unknown when it grows too large. */
struct sp_dim atom_dim(struct sp_dims *dims, enum atom_kind kind, struct sp_dim a, struct sp_dim b);
struct sp_dim symbol_dim(struct sp_dims *dims, uint32_t symbol);
