/* Symbols of a model's dimensions: their names, what they are bound to, and what they are taken to be. */
#include <inttypes.h>
#include <string.h>

#include "base/arith.h"
#include "base/array.h"
#include "graph/dim_internal.h"

struct sp_dims *sp_dims_create(struct sp_arena *of_job)
{
    /* Whoever reads a rule may add an expression, also between a mark of the job's arena and its rewind. */
    struct sp_arena *arena = sp_arena_child(of_job);
    struct sp_dims *dims = arena == NULL ? NULL : SP_NEW(arena, struct sp_dims);
    if (dims == NULL)
        return NULL;
    dims->arena = arena;
    /* Symbol names come from strangers, but their number is bounded by SP_MAX_VALUES and results do not depend on the
       order in a bucket: a fixed seed keeps contexts reproducible. */
    dims->symbol_names = sp_intern_create(arena, 0x5ead);
    dims->atom_keys = sp_intern_create(arena, 0x5ead);
    dims->expr_keys = sp_intern_create(arena, 0x5ead);
    return dims->symbol_names == NULL || dims->atom_keys == NULL || dims->expr_keys == NULL ? NULL : dims;
}

/* The table entry of a symbol, added if new. */
static struct sp_dim_symbol *symbol_entry(struct sp_dims *dims, const char *name, uint32_t *ret_id)
{
    uint32_t id = sp_intern_add(dims->symbol_names, name, strlen(name));
    if (id == SP_NO_NAME)
        return NULL;
    if (!SP_MAKE_PLACE(dims->arena, dims->symbols, dims->symbol_capacity, id))
        return NULL;
    dims->symbols[id].name = sp_intern_name(dims->symbol_names, id);
    *ret_id = id;
    return &dims->symbols[id];
}

bool sp_dims_bind(struct sp_dims *dims, const char *name, int64_t value)
{
    uint32_t id;
    struct sp_dim_symbol *symbol = value < 0 ? NULL : symbol_entry(dims, name, &id);
    if (symbol == NULL || symbol->used)
        return false;
    symbol->bound = true;
    symbol->value = value;
    return true;
}

static bool note_use(struct sp_dims *dims, struct sp_dim_symbol *symbol, uint32_t id)
{
    if (symbol->used)
        return true;
    if (!SP_MAKE_ROOM(dims->arena, dims->used, dims->used_count, dims->used_capacity, 1))
        return false;
    symbol->index = dims->used_count;
    dims->used[dims->used_count++] = id;
    symbol->used = true;
    return true;
}

uint32_t sp_dims_symbol_count(const struct sp_dims *dims)
{
    return dims->used_count;
}

const char *sp_dims_symbol_name(const struct sp_dims *dims, uint32_t index)
{
    return dims->symbols[dims->used[index]].name;
}

bool sp_dims_symbol_is_fresh(const struct sp_dims *dims, uint32_t index)
{
    return dims->symbols[dims->used[index]].fresh;
}

bool sp_dims_find(const struct sp_dims *dims, const char *name, uint32_t *ret_index)
{
    const uint32_t id = sp_intern_find(dims->symbol_names, name, strlen(name));
    if (id == SP_NO_NAME || !dims->symbols[id].used)
        return false;
    *ret_index = dims->symbols[id].index;
    return true;
}

bool sp_dim_is_symbol(const struct sp_dims *dims, struct sp_dim a, uint32_t *ret_index)
{
    if (a.kind != SP_DIM_SYMBOLIC || a.expr->count != 1 || a.expr->terms[0].degree != 1 ||
        a.expr->terms[0].coefficient != 1 || a.expr->terms[0].atoms[0]->kind != SP_ATOM_SYMBOL)
        return false;
    return sp_dims_find(dims, a.expr->terms[0].atoms[0]->text, ret_index);
}

bool sp_dims_knows(const struct sp_dims *dims, const char *name)
{
    const uint32_t id = sp_intern_find(dims->symbol_names, name, strlen(name));
    return id != SP_NO_NAME && (dims->symbols[id].used || dims->symbols[id].bound);
}

struct sp_dim sp_dim_symbol(struct sp_dims *dims, const char *name)
{
    uint32_t id;
    struct sp_dim_symbol *symbol = symbol_entry(dims, name, &id);
    if (symbol == NULL)
        return sp_dim_unknown();
    if (symbol->bound)
        return sp_dim_known(symbol->value);
    return note_use(dims, symbol, id) ? sp_symbol_dim(dims, id) : sp_dim_unknown();
}

/* ---- new symbols ---------------------------------------------------------------------------------------------- */

void sp_dims_begin_node(struct sp_dims *dims, uint32_t ordinal)
{
    dims->ordinal = ordinal;
    dims->made_here = 0;
}

static struct sp_dim fresh_named(struct sp_dims *dims, const char *name, struct sp_dim upper)
{
    char unique[SP_MAX_NAME_BYTES + 32];
    uint32_t id = sp_intern_find(dims->symbol_names, name, strlen(name));
    if (id != SP_NO_NAME && dims->symbols[id].bound)
        return sp_dim_known(dims->symbols[id].value);
    (void)snprintf(unique, sizeof unique, "%.*s", SP_MAX_NAME_BYTES, name);
    while (sp_intern_find(dims->symbol_names, unique, strlen(unique)) != SP_NO_NAME)
        (void)snprintf(unique, sizeof unique, "%.*s@%" PRIu32, SP_MAX_NAME_BYTES, name, ++dims->repeat_count);
    struct sp_dim_symbol *symbol = symbol_entry(dims, unique, &id);
    if (symbol == NULL || !note_use(dims, symbol, id))
        return sp_dim_unknown();
    symbol->fresh = true;
    symbol->upper = upper;
    return sp_symbol_dim(dims, id);
}

struct sp_dim sp_dim_fresh(struct sp_dims *dims, const char *hint, struct sp_dim upper)
{
    char name[SP_MAX_NAME_BYTES + 32];
    if (dims->made_here++ == 0)
        (void)snprintf(name, sizeof name, "%.*s_%" PRIu32, SP_MAX_NAME_BYTES, hint, dims->ordinal);
    else
        (void)snprintf(name, sizeof name, "%.*s_%" PRIu32 "_%" PRIu32, SP_MAX_NAME_BYTES, hint, dims->ordinal,
                       dims->made_here - 1);
    return fresh_named(dims, name, upper);
}

struct sp_dim sp_dim_of_axis(struct sp_dims *dims, const char *tensor, uint32_t axis, struct sp_dim upper)
{
    char name[SP_MAX_NAME_BYTES + 32];
    (void)snprintf(name, sizeof name, "%.*s:%" PRIu32, SP_MAX_NAME_BYTES, tensor, axis);
    return fresh_named(dims, name, upper);
}

/* ---- estimates ------------------------------------------------------------------------------------------------ */

/* The product of a term's atoms that have an estimate, times its coefficient; *ret_open is how many have none, and
   *ret_last the last of these. */
static bool estimate_term(const struct sp_dim_term *term, int64_t *ret_product, uint32_t *ret_open,
                          const struct sp_atom **ret_last)
{
    *ret_product = term->coefficient;
    *ret_open = 0;
    for (uint32_t i = 0; i < term->degree; i++) {
        const struct sp_atom *atom = term->atoms[i];
        if (!atom->has_estimate) {
            ++*ret_open;
            *ret_last = atom;
        } else if (!sp_mul_i64(*ret_product, atom->estimate, ret_product)) {
            return false;
        }
    }
    return true;
}

static bool estimate(struct sp_dim dim, int64_t *ret_value)
{
    const struct sp_atom *last;
    int64_t sum = 0, product;
    uint32_t open;
    if (dim.kind == SP_DIM_KNOWN) {
        *ret_value = dim.value;
        return true;
    }
    if (dim.kind != SP_DIM_SYMBOLIC)
        return false;
    for (uint32_t i = 0; i < dim.expr->count; i++) {
        if (!estimate_term(&dim.expr->terms[i], &product, &open, &last) || open > 0 || !sp_add_i64(sum, product, &sum))
            return false;
    }
    *ret_value = sum;
    return true;
}

int64_t sp_dim_estimate(struct sp_dim dim)
{
    int64_t value;
    return estimate(dim, &value) && value >= 0 ? value : -1;
}

/* Sets the estimate of a function whose operands have one. */
static void estimate_atom(struct sp_dims *dims, struct sp_atom *atom)
{
    int64_t a, b;
    struct sp_dim result = sp_dim_unknown();
    if (atom->kind == SP_ATOM_SYMBOL || !estimate(atom->a, &a) || !estimate(atom->b, &b))
        return;
    const struct sp_dim left = sp_dim_known(a), right = sp_dim_known(b);
    switch (atom->kind) {
    case SP_ATOM_FLOORDIV:
        result = sp_dim_floordiv(dims, left, right);
        break;
    case SP_ATOM_CEILDIV:
        result = sp_dim_ceildiv(dims, left, right);
        break;
    case SP_ATOM_MOD:
        result = sp_dim_mod(dims, left, right);
        break;
    case SP_ATOM_MIN:
        result = sp_dim_min(dims, left, right);
        break;
    case SP_ATOM_MAX:
        result = sp_dim_max(dims, left, right);
        break;
    case SP_ATOM_SYMBOL:
        break;
    }
    atom->has_estimate = sp_dim_is_known(result);
    atom->estimate = result.value;
}

/* Function atoms are made after what they are of, so one walk in order of their making reaches all. */
static void settle(struct sp_dims *dims, uint32_t *next, uint32_t before_id)
{
    for (; *next < dims->atom_capacity; ++*next) {
        struct sp_atom *atom = dims->atoms[*next];
        if (atom != NULL && atom->id >= before_id)
            return;
        if (atom != NULL)
            estimate_atom(dims, atom);
    }
}

void sp_dims_estimate(struct sp_dims *dims, const struct sp_dim_chooser *chooser)
{
    uint32_t next = 0;
    for (uint32_t i = 0; i < dims->used_count; i++) {
        struct sp_dim_symbol *symbol = &dims->symbols[dims->used[i]];
        if (symbol->atom == NULL)
            continue;
        settle(dims, &next, symbol->atom->id);
        const int64_t value = chooser->choose(chooser->context, i, sp_dim_estimate(symbol->upper));
        symbol->atom->has_estimate = value >= 0;
        symbol->atom->estimate = value;
    }
    settle(dims, &next, UINT32_MAX);
}

/* ---- equations ------------------------------------------------------------------------------------------------ */

enum sp_dim_solution sp_dim_solve(struct sp_dims *dims, struct sp_dim a, struct sp_dim b, uint32_t *ret_symbol,
                                  int64_t *ret_value)
{
    const struct sp_dim difference = sp_dim_sub(dims, a, b);
    const struct sp_atom *found = NULL, *last = NULL;
    int64_t constant = 0, coefficient = 0, product;
    uint32_t open;
    if (sp_dim_is_known(difference))
        return difference.value == 0 ? SP_DIM_HOLDS : SP_DIM_CONTRADICTS;
    for (uint32_t i = 0; difference.kind == SP_DIM_SYMBOLIC && i < difference.expr->count; i++) {
        if (!estimate_term(&difference.expr->terms[i], &product, &open, &last) || open > 1 ||
            (open == 1 && (last->kind != SP_ATOM_SYMBOL || (found != NULL && found != last))))
            return SP_DIM_OPEN;
        found = open == 1 ? last : found;
        if (!sp_add_i64(open == 1 ? coefficient : constant, product, open == 1 ? &coefficient : &constant))
            return SP_DIM_OPEN;
    }
    if (difference.kind != SP_DIM_SYMBOLIC)
        return SP_DIM_OPEN;
    if (coefficient == 0)
        return found != NULL ? SP_DIM_OPEN : constant == 0 ? SP_DIM_HOLDS : SP_DIM_CONTRADICTS;
    if (constant == INT64_MIN || constant % coefficient != 0 || -constant / coefficient < 0)
        return SP_DIM_CONTRADICTS;
    *ret_value = -constant / coefficient;
    return sp_dims_find(dims, found->text, ret_symbol) ? SP_DIM_SOLVED : SP_DIM_OPEN;
}

void sp_dims_tie(struct sp_dims *dims, struct sp_dim a, struct sp_dim b)
{
    if (!dims->keeps_ties || a.kind == SP_DIM_UNKNOWN || b.kind == SP_DIM_UNKNOWN || sp_dim_equal(a, b) ||
        (sp_dim_is_known(a) && sp_dim_is_known(b)) || dims->tie_count == SP_MAX_DIM_TIES ||
        !SP_MAKE_ROOM(dims->arena, dims->ties, dims->tie_count, dims->tie_capacity, 1))
        return;
    dims->ties[dims->tie_count++] = (struct sp_dim_tie){a, b};
}

void sp_dims_keep_ties(struct sp_dims *dims)
{
    dims->keeps_ties = true;
}

const struct sp_dim_tie *sp_dims_ties(const struct sp_dims *dims, uint32_t *ret_count)
{
    *ret_count = dims->tie_count;
    return dims->ties;
}

/* ---- which symbols there are in dimensions --------------------------------------------------------------------- */

void sp_dim_mark(struct sp_dim dim)
{
    for (uint32_t i = 0; dim.kind == SP_DIM_SYMBOLIC && i < dim.expr->count; i++) {
        for (uint32_t j = 0; j < dim.expr->terms[i].degree; j++)
            dim.expr->terms[i].atoms[j]->is_marked = true;
    }
}

void sp_dims_take_marks(struct sp_dims *dims, bool *ret_used)
{
    for (uint32_t i = dims->atom_capacity; i-- > 0;) { /* a function's operands are older than it */
        struct sp_atom *atom = dims->atoms[i];
        if (atom == NULL || !atom->is_marked)
            continue;
        atom->is_marked = false;
        sp_dim_mark(atom->a);
        sp_dim_mark(atom->b);
    }
    for (uint32_t i = 0; i < dims->used_count; i++) {
        struct sp_atom *atom = dims->symbols[dims->used[i]].atom;
        ret_used[i] = atom != NULL && atom->is_marked;
        if (atom != NULL)
            atom->is_marked = false;
    }
}
