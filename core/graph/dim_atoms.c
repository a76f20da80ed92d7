#include <string.h>

#include "base/arith.h"
#include "base/array.h"
#include "graph/dim_internal.h"

static const char *const function_names[] = {
    [SP_ATOM_FLOORDIV] = "floordiv", [SP_ATOM_CEILDIV] = "ceildiv", [SP_ATOM_MOD] = "mod",
    [SP_ATOM_MIN] = "min",           [SP_ATOM_MAX] = "max",
};

static bool dim_bounds(struct sp_dim dim, int64_t *ret_lower)
{
    struct sp_poly poly;
    return sp_poly_from_dim(dim, &poly) && sp_poly_lower(&poly, ret_lower);
}

/* An upper bound is minus the lower bound of the negated polynomial. */
static bool dim_upper(struct sp_dim dim, int64_t *ret_upper)
{
    struct sp_poly poly, negated = {.count = 0};
    int64_t lower;
    if (!sp_poly_from_dim(dim, &poly) || !sp_poly_add_scaled(&negated, &poly, -1, NULL) ||
        !sp_poly_lower(&negated, &lower))
        return false;
    return sp_sub_i64(0, lower, ret_upper);
}

/* Bounds of f(a, b) from those of a and b. Only what later simplifications use. */
static void set_bounds(struct sp_atom *atom)
{
    int64_t a_lower, b_lower, a_upper, b_upper;
    bool al = dim_bounds(atom->a, &a_lower), bl = dim_bounds(atom->b, &b_lower);
    bool au = dim_upper(atom->a, &a_upper), bu = dim_upper(atom->b, &b_upper);
    switch (atom->kind) {
    case SP_ATOM_SYMBOL:
        atom->has_lower = true;
        break;
    case SP_ATOM_FLOORDIV:
    case SP_ATOM_CEILDIV:
        atom->has_lower = al && bl && a_lower >= 0 && b_lower >= 0;
        break;
    case SP_ATOM_MOD:
        atom->has_lower = bl && b_lower > 0;
        atom->has_upper = atom->has_lower && bu && b_upper > 0;
        atom->upper = atom->has_upper ? b_upper - 1 : 0;
        break;
    case SP_ATOM_MIN:
        atom->has_lower = al && bl;
        atom->lower = atom->has_lower ? (a_lower < b_lower ? a_lower : b_lower) : 0;
        atom->has_upper = au || bu;
        atom->upper = au && bu ? (a_upper < b_upper ? a_upper : b_upper) : au ? a_upper : bu ? b_upper : 0;
        break;
    case SP_ATOM_MAX:
        atom->has_lower = al || bl;
        atom->lower = al && bl ? (a_lower > b_lower ? a_lower : b_lower) : al ? a_lower : bl ? b_lower : 0;
        atom->has_upper = au && bu;
        atom->upper = atom->has_upper ? (a_upper > b_upper ? a_upper : b_upper) : 0;
        break;
    }
}

static struct sp_dim dim_of_atom(struct sp_dims *dims, struct sp_atom *atom)
{
    struct sp_poly poly = {.count = 1};
    memset(&poly.terms[0], 0, sizeof poly.terms[0]);
    poly.terms[0].coefficient = 1;
    poly.terms[0].degree = 1;
    poly.terms[0].atoms[0] = atom;
    return sp_poly_to_dim(dims, &poly);
}

struct sp_dim sp_symbol_dim(struct sp_dims *dims, uint32_t symbol)
{
    struct sp_dim_symbol *entry = &dims->symbols[symbol];
    if (entry->atom == NULL) {
        struct sp_atom *atom = SP_NEW(dims->arena, struct sp_atom);
        if (atom == NULL)
            return sp_dim_unknown();
        atom->kind = SP_ATOM_SYMBOL;
        atom->id = dims->atom_count++;
        atom->text = entry->name;
        atom->has_lower = true;
        entry->atom = atom;
    }
    return dim_of_atom(dims, entry->atom);
}

static const char *atom_text(struct sp_dims *dims, enum sp_atom_kind kind, struct sp_dim a, struct sp_dim b)
{
    struct sp_buf text;
    sp_buf_init(&text, SP_ATOM_MAX_TEXT);
    sp_buf_printf(&text, "%s(", function_names[kind]);
    sp_dim_print(a, &text);
    sp_buf_text(&text, ", ");
    sp_dim_print(b, &text);
    sp_buf_text(&text, ")");
    const char *copy = sp_buf_failed(&text) ? NULL : sp_arena_string(dims->arena, text.data, text.size);
    sp_buf_release(&text);
    return copy;
}

struct key {
    int32_t kind, a_kind, b_kind, padding;
    int64_t a, b;
};

static int64_t operand_key(struct sp_dim dim)
{
    return dim.kind == SP_DIM_KNOWN ? dim.value : (int64_t)dim.expr->id;
}

struct sp_dim sp_atom_dim(struct sp_dims *dims, enum sp_atom_kind kind, struct sp_dim a, struct sp_dim b)
{
    if (a.kind == SP_DIM_UNKNOWN || b.kind == SP_DIM_UNKNOWN)
        return sp_dim_unknown();
    struct key key = {(int32_t)kind, (int32_t)a.kind, (int32_t)b.kind, 0, operand_key(a), operand_key(b)};
    uint32_t id = sp_intern_add(dims->atom_keys, (const char *)&key, sizeof key);
    if (id == SP_NO_NAME)
        return sp_dim_unknown();
    if (!SP_MAKE_PLACE(dims->arena, dims->atoms, dims->atom_capacity, id))
        return sp_dim_unknown();
    if (dims->atoms[id] == NULL) {
        struct sp_atom *atom = SP_NEW(dims->arena, struct sp_atom);
        const char *text = atom_text(dims, kind, a, b);
        if (atom == NULL || text == NULL)
            return sp_dim_unknown();
        *atom = (struct sp_atom){.kind = kind, .id = dims->atom_count++, .text = text, .a = a, .b = b};
        set_bounds(atom);
        dims->atoms[id] = atom;
    }
    return dim_of_atom(dims, dims->atoms[id]);
}
