#pragma once
/*
 * dim_internal - polynomials over atoms, shared by dim.c (arithmetic), dim_poly.c (polynomials), dim_atoms.c,
 * dim_symbols.c (symbols, estimates, equations) and dim_text.c (reading).
 *
 * A poly is a work area on the stack: terms in graded lexicographic order, largest first, no two with the same
 * monomial, no zero coefficient. That order is a monomial order, so leading-term division (exact quotients) is sound.
 * The constant term, if any, is last. The zero polynomial has no terms.
 */
#include "base/intern.h"
#include "base/limits.h"
#include "graph/dim.h"

#define SP_POLY_MAX_DEGREE 16   /* atoms of one product */
#define SP_ATOM_MAX_TEXT   1024 /* bytes of one printed atom; deeper nesting makes the result unknown */
#define SP_EXTENT_INFINITY                                                                                             \
    (INT64_C(1) << 62) /* no extent reaches this: INT64_MAX is how exporters write "to the end" */

enum sp_atom_kind { SP_ATOM_SYMBOL, SP_ATOM_FLOORDIV, SP_ATOM_CEILDIV, SP_ATOM_MOD, SP_ATOM_MIN, SP_ATOM_MAX };

struct sp_atom {
    enum sp_atom_kind kind;
    uint32_t id; /* order of creation, the tie-breaker of every ordering */
    const char *text;
    bool has_lower, has_upper;
    int64_t lower, upper; /* bounds that hold for all symbols >= 0 */
    struct sp_dim a, b;   /* operands of the functions */
    bool has_estimate, is_marked;
    int64_t estimate;
};

struct sp_dim_term {
    int64_t coefficient;
    uint32_t degree;
    struct sp_atom *atoms[SP_POLY_MAX_DEGREE]; /* ascending id, repeated for powers */
};

struct sp_poly {
    uint32_t count;
    struct sp_dim_term terms[SP_MAX_EXPR_TERMS];
};

struct sp_expr {
    uint32_t id;
    uint32_t count;
    const struct sp_dim_term *terms;
};

struct sp_dim_symbol {
    const char *name;
    bool used, bound, fresh;
    uint32_t index; /* in `used` */
    int64_t value;
    struct sp_atom *atom;
    struct sp_dim upper; /* what a fresh one never exceeds, or unknown */
};

struct sp_dims {
    struct sp_arena *arena;
    struct sp_intern *symbol_names, *atom_keys, *expr_keys;
    struct sp_dim_symbol *symbols; /* by id in symbol_names */
    struct sp_atom **atoms;        /* by id in atom_keys */
    const struct sp_expr **exprs;  /* by id in expr_keys */
    uint32_t symbol_capacity, atom_capacity, expr_capacity;
    uint32_t *used; /* symbol ids in order of first use */
    uint32_t used_count, used_capacity, atom_count;
    uint32_t ordinal, made_here, repeat_count; /* the node that makes symbols, how many it made */
    bool keeps_ties;
    struct sp_dim_tie *ties;
    uint32_t tie_count, tie_capacity;
};

/* ---- dim_poly.c: false means: too large, or overflow; the result is then unknown ---- */

bool sp_poly_from_dim(struct sp_dim dim, struct sp_poly *ret);
struct sp_dim sp_poly_to_dim(struct sp_dims *dims, const struct sp_poly *poly);
bool sp_poly_add_scaled(struct sp_poly *sum, const struct sp_poly *addend, int64_t factor,
                        const struct sp_dim_term *monomial);
bool sp_poly_mul(const struct sp_poly *a, const struct sp_poly *b, struct sp_poly *ret);
/* The quotient when b divides a exactly. */
bool sp_poly_divide(const struct sp_poly *a, const struct sp_poly *b, struct sp_poly *ret);
/* Splits into the terms whose coefficient `divisor` divides (divided) and the rest. */
void sp_poly_split(const struct sp_poly *a, int64_t divisor, struct sp_poly *ret_quotient, struct sp_poly *ret_rest);
/* A lower bound that holds for all symbols >= 0. */
bool sp_poly_lower(const struct sp_poly *poly, int64_t *ret_lower);

/* ---- dim_atoms.c ---- */

/* The symbolic dimension f(a, b) as an interned atom; unknown when it grows too large. */
struct sp_dim sp_atom_dim(struct sp_dims *dims, enum sp_atom_kind kind, struct sp_dim a, struct sp_dim b);
struct sp_dim sp_symbol_dim(struct sp_dims *dims, uint32_t symbol);
