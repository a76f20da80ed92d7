#pragma once
/*
 * dim - an extent or a shape element: a known integer, a symbolic integer, or unknown.
 *
 * Exported models name some dimensions ("batch", "seq") and compute others from them (`seq + past`, `batch * 12`,
 * `floor(h / 2)`). Shapes and the values of shape tensors are therefore integers over symbols. An expression is kept in
 * one canonical form and interned, so equal expressions are one pointer and comparing is comparing pointers:
 *
 *   sum of terms, each   coefficient * product of atoms
 *   an atom is           a symbol, or floordiv(e, e), ceildiv(e, e), mod(e, e), min(e, e), max(e, e)
 *
 * Glossary
 *  symbol     a named dimension of the model, or a fresh one made where a result's extent depends on data
 *  unknown    nothing is known, not even a name; arithmetic with it is unknown
 *
 * Invariants
 *  - Expressions live in the arena of their `sp_dims` context and are immutable.
 *  - An expression that reduces to a constant is a constant: `sp_dim_is_known()` is then true.
 *  - Symbols stand for integers >= 0. Simplifications use that (max(n, 0) = n).
 *  - Overflow, more than SP_MAX_EXPR_TERMS terms, or missing memory make a result unknown, never wrong.
 *
 * Floor and mod follow Python (round towards minus infinity), as shape arithmetic in exporters does; callers that need
 * C's truncation (ONNX Div of negative integers) use sp_dim_truncdiv().
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"

struct sp_expr; /* immutable, interned */
struct sp_dims; /* the context: symbols, bindings and interned expressions of one model */

enum sp_dim_kind { SP_DIM_UNKNOWN = 0, SP_DIM_KNOWN, SP_DIM_SYMBOLIC };

struct sp_dim {
    enum sp_dim_kind kind;
    int64_t value;              /* when KNOWN */
    const struct sp_expr *expr; /* when SYMBOLIC */
};

/* A table that lives as long as the arena of its job, which may be rolled back. NULL without memory. */
struct sp_dims *sp_dims_create(struct sp_arena *of_job);

/*
 * Binds a symbol to a number before anything is built from it: every later sp_dim_symbol() of that name gives the
 * number. Returns false when the symbol is already in use, the value is negative, or without memory.
 */
bool sp_dims_bind(struct sp_dims *dims, const char *name, int64_t value);

/* The symbols in use that are not bound, in order of first use; names are static in the context. */
uint32_t sp_dims_symbol_count(const struct sp_dims *dims);
const char *sp_dims_symbol_name(const struct sp_dims *dims, uint32_t index);
/* True for a symbol that no file names: inference made it. */
bool sp_dims_symbol_is_fresh(const struct sp_dims *dims, uint32_t index);
/* The index of a symbol in use. */
bool sp_dims_find(const struct sp_dims *dims, const char *name, uint32_t *ret_index);
/* Whether a symbol of this name is in use or bound. */
bool sp_dims_knows(const struct sp_dims *dims, const char *name);
/* Whether a dimension is just a symbol: which one. */
bool sp_dim_is_symbol(const struct sp_dims *dims, struct sp_dim a, uint32_t *ret_index);

static inline struct sp_dim sp_dim_unknown(void)
{
    return (struct sp_dim){.kind = SP_DIM_UNKNOWN};
}
static inline struct sp_dim sp_dim_known(int64_t value)
{
    return (struct sp_dim){.kind = SP_DIM_KNOWN, .value = value};
}

/* The named dimension, or the number it is bound to. */
struct sp_dim sp_dim_symbol(struct sp_dims *dims, const char *name);

/*
 * A dimension as a file writes it: arithmetic over names (`past + 1`, `floor(h/2 - 1/2)`, `max(1, 2*n)`: + - * / // %
 * **, brackets, floor, ceil, mod, min, max, and what sp_dim_print() writes), else a name. A hyphen or a slash between
 * two words without a blank is arithmetic where every word is a dimension already, else a part of a name.
 */
struct sp_dim sp_dim_parse(struct sp_dims *dims, const char *text);
/* The same in terms of symbols in use alone; unknown where the text has others. */
struct sp_dim sp_dim_find(struct sp_dims *dims, const char *text);

/*
 * A new symbol for an extent that depends on data, called by the operator and which node of its kind it is
 * ("NonZero_0"; the second one of a node is "NonZero_0_1"), so that its name does not depend on what is bound. Where
 * such a name is bound, its number. A name that is taken gets a number behind '@': turns of a loop make a symbol each.
 * `upper` is what the extent never exceeds, or unknown.
 */
struct sp_dim sp_dim_fresh(struct sp_dims *dims, const char *hint, struct sp_dim upper);
/* The same for an axis of a tensor of which nothing is known: "TENSOR:AXIS". */
struct sp_dim sp_dim_of_axis(struct sp_dims *dims, const char *tensor, uint32_t axis, struct sp_dim upper);
/* What sp_dim_fresh() makes from now on is of this node of its kind. */
void sp_dims_begin_node(struct sp_dims *dims, uint32_t ordinal);

/* ---- estimates: what costs take a symbol to be, where shapes keep it open ---- */

struct sp_dim_chooser {
    void *context;
    /* What symbol `index` is taken to be, or -1; `upper` is the estimate of what it never exceeds, or -1. */
    int64_t (*choose)(void *context, uint32_t index, int64_t upper);
};
/* Asks for every symbol, oldest first. Estimates of expressions follow. */
void sp_dims_estimate(struct sp_dims *dims, const struct sp_dim_chooser *chooser);
/* The number, or the estimate; -1 where there is none or it is negative. */
int64_t sp_dim_estimate(struct sp_dim dim);

/* Marks the symbols of a dimension; sp_dims_take_marks() says which were marked since the last time, by index. */
void sp_dim_mark(struct sp_dim dim);
void sp_dims_take_marks(struct sp_dims *dims, bool *ret_used);

/* ---- equations ---- */

enum sp_dim_solution { SP_DIM_SOLVED, SP_DIM_HOLDS, SP_DIM_CONTRADICTS, SP_DIM_OPEN };
/* What symbol must be which number that a = b, where all others have estimates. OPEN: several are left, or it stands
   inside a function or a product. */
enum sp_dim_solution sp_dim_solve(struct sp_dims *dims, struct sp_dim a, struct sp_dim b, uint32_t *ret_symbol,
                                  int64_t *ret_value);

/* Two dimensions that inference meets as one, though it cannot prove that they are: kept where they were asked for. */
struct sp_dim_tie {
    struct sp_dim a, b;
};
void sp_dims_keep_ties(struct sp_dims *dims);
void sp_dims_tie(struct sp_dims *dims, struct sp_dim a, struct sp_dim b);
const struct sp_dim_tie *sp_dims_ties(const struct sp_dims *dims, uint32_t *ret_count);

struct sp_dim sp_dim_add(struct sp_dims *dims, struct sp_dim a, struct sp_dim b);
struct sp_dim sp_dim_sub(struct sp_dims *dims, struct sp_dim a, struct sp_dim b);
struct sp_dim sp_dim_mul(struct sp_dims *dims, struct sp_dim a, struct sp_dim b);
/* Division by zero is unknown. Exact quotients of polynomials (6*n*k / (2*n)) come out without a floor. */
struct sp_dim sp_dim_floordiv(struct sp_dims *dims, struct sp_dim a, struct sp_dim b);
struct sp_dim sp_dim_ceildiv(struct sp_dims *dims, struct sp_dim a, struct sp_dim b);
struct sp_dim sp_dim_truncdiv(struct sp_dims *dims, struct sp_dim a, struct sp_dim b);
struct sp_dim sp_dim_mod(struct sp_dims *dims, struct sp_dim a, struct sp_dim b);
struct sp_dim sp_dim_min(struct sp_dims *dims, struct sp_dim a, struct sp_dim b);
struct sp_dim sp_dim_max(struct sp_dims *dims, struct sp_dim a, struct sp_dim b);

/* a / b when b divides a for every value of the symbols; unknown otherwise. */
struct sp_dim sp_dim_exact_div(struct sp_dims *dims, struct sp_dim a, struct sp_dim b);

static inline bool sp_dim_is_known(struct sp_dim a)
{
    return a.kind == SP_DIM_KNOWN;
}

static inline bool sp_dim_is(struct sp_dim a, int64_t value)
{
    return a.kind == SP_DIM_KNOWN && a.value == value;
}

/* Surely equal: both known and equal, or the same expression. Two unknowns are not surely equal. */
static inline bool sp_dim_equal(struct sp_dim a, struct sp_dim b)
{
    return a.kind == b.kind && a.kind != SP_DIM_UNKNOWN &&
           (a.kind == SP_DIM_KNOWN ? a.value == b.value : a.expr == b.expr);
}

/* Surely different whatever the symbols are (5 and 7; n and n + 1). */
bool sp_dim_differs(struct sp_dims *dims, struct sp_dim a, struct sp_dim b);

/* Whether a >= b (a <= b) holds whatever the symbols (each >= 0) are; false when not provable. */
bool sp_dim_surely_ge(struct sp_dims *dims, struct sp_dim a, struct sp_dim b);

/* Appends the dimension as people write it: `12`, `2*seq + 1`, `floordiv(h, 2)`, `?`. */
void sp_dim_print(struct sp_dim a, struct sp_buf *buf);
