/*
 * Dimensions as files write them: a name, or arithmetic over names.
 *
 *     past + sequence      floor(h/2 - 1/2)      2*n      -1 + x      ceil(a/b)      max(1, h//16)
 *
 * Values and operators wait on two stacks until an operator that binds less strongly comes (Dijkstra's shunting yard).
 * A value is a quotient of two expressions: sympy writes floor((h - 1)/2) as floor(h/2 - 1/2), so what is divided stays
 * exact until a function, or the end, makes it whole.
 */
#include <string.h>
#include <strings.h>

#include "base/arith.h"
#include "graph/dim_internal.h"

#define MAX_WAITING  64 /* values, and operators, that wait: deeper texts are names */
#define MAX_EXPONENT 8
#define MAX_DECIMALS 9
#define MAX_NAME     256 /* bytes of a name inside arithmetic */

enum operator_kind { ADD, SUBTRACT, MULTIPLY, DIVIDE, FLOOR_DIVIDE, REMAINDER, NEGATE, POWER, GROUP, CALL };

enum function_kind { FLOOR, CEIL, FLOORDIV, CEILDIV, MOD, MIN, MAX, NO_FUNCTION };

struct quotient {
    struct sp_dim top, bottom;
};

struct waiting {
    enum operator_kind kind;
    enum function_kind function; /* CALL */
    uint32_t arguments;          /* CALL: commas so far */
    uint32_t values;             /* GROUP, CALL: values below it */
};

struct reading {
    struct sp_dims *dims;
    const char *at;
    bool is_trial;    /* looks only whether the text is arithmetic: all values are 1 */
    bool after_value; /* what comes next is an operator */
    bool has_name, has_operator;
    bool is_doubtful;  /* the only operators could be parts of a name: "batch-size", "decoder/length" */
    bool has_new_name; /* a name that no dimension has had so far */
    uint32_t value_count, waiting_count;
    struct quotient values[MAX_WAITING];
    struct waiting waiting[MAX_WAITING];
};

static const struct {
    const char *name;
    enum function_kind function;
} functions[] = {
    {"floor", FLOOR},    {"floortoint", FLOOR},  {"ceil", CEIL},         {"ceiling", CEIL},
    {"ceiltoint", CEIL}, {"floordiv", FLOORDIV}, {"cleandiv", FLOORDIV}, {"ceildiv", CEILDIV},
    {"mod", MOD},        {"pythonmod", MOD},     {"min", MIN},           {"max", MAX},
};

/* ---- values ---------------------------------------------------------------------------------------------------- */

static bool push(struct reading *r, struct sp_dim top, struct sp_dim bottom)
{
    if (r->is_trial)
        top = bottom = sp_dim_known(1);
    if (r->value_count == MAX_WAITING || top.kind == SP_DIM_UNKNOWN || bottom.kind == SP_DIM_UNKNOWN ||
        sp_dim_is(bottom, 0))
        return false;
    r->values[r->value_count++] = (struct quotient){top, bottom};
    return true;
}

static struct sp_dim whole(struct reading *r, struct quotient value, bool up)
{
    if (sp_dim_is(value.bottom, 1))
        return value.top;
    return up ? sp_dim_ceildiv(r->dims, value.top, value.bottom) : sp_dim_floordiv(r->dims, value.top, value.bottom);
}

static bool add(struct reading *r, struct quotient a, struct quotient b, bool is_minus)
{
    struct sp_dim bottom = a.bottom;
    if (!sp_dim_equal(a.bottom, b.bottom)) {
        bottom = sp_dim_mul(r->dims, a.bottom, b.bottom);
        a.top = sp_dim_mul(r->dims, a.top, b.bottom);
        b.top = sp_dim_mul(r->dims, b.top, a.bottom);
    }
    return push(r, is_minus ? sp_dim_sub(r->dims, a.top, b.top) : sp_dim_add(r->dims, a.top, b.top), bottom);
}

static bool raise(struct reading *r, struct quotient a, struct quotient b)
{
    struct quotient power = {sp_dim_known(1), sp_dim_known(1)};
    if (!sp_dim_is(b.bottom, 1) || !sp_dim_is_known(b.top) || b.top.value < 0 || b.top.value > MAX_EXPONENT)
        return false;
    for (int64_t i = 0; i < b.top.value; i++) {
        power.top = sp_dim_mul(r->dims, power.top, a.top);
        power.bottom = sp_dim_mul(r->dims, power.bottom, a.bottom);
    }
    return push(r, power.top, power.bottom);
}

static bool apply_operator(struct reading *r, enum operator_kind kind)
{
    const uint32_t taken = kind == NEGATE ? 1 : 2;
    if (r->value_count < taken)
        return false;
    r->value_count -= taken;
    const struct quotient a = r->values[r->value_count], b = r->values[r->value_count + taken - 1];
    const struct sp_dim one = sp_dim_known(1);
    switch (kind) {
    case ADD:
    case SUBTRACT:
        return add(r, a, b, kind == SUBTRACT);
    case MULTIPLY:
        return push(r, sp_dim_mul(r->dims, a.top, b.top), sp_dim_mul(r->dims, a.bottom, b.bottom));
    case DIVIDE:
        return push(r, sp_dim_mul(r->dims, a.top, b.bottom), sp_dim_mul(r->dims, a.bottom, b.top));
    case FLOOR_DIVIDE:
        return push(
            r, sp_dim_floordiv(r->dims, sp_dim_mul(r->dims, a.top, b.bottom), sp_dim_mul(r->dims, a.bottom, b.top)),
            one);
    case REMAINDER:
        return push(r, sp_dim_mod(r->dims, whole(r, a, false), whole(r, b, false)), one);
    case NEGATE:
        return push(r, sp_dim_sub(r->dims, sp_dim_known(0), a.top), a.bottom);
    case POWER:
        return raise(r, a, b);
    default:
        return false;
    }
}

static bool apply_function(struct reading *r, const struct waiting *call)
{
    const uint32_t count = call->arguments + 1;
    const bool takes_one = call->function == FLOOR || call->function == CEIL;
    const bool takes_any = call->function == MIN || call->function == MAX;
    if (r->value_count != call->values + count || (!takes_any && count != (takes_one ? 1U : 2U)))
        return false;
    const struct quotient *values = &r->values[call->values];
    struct sp_dim result = whole(r, values[0], call->function == CEIL);
    for (uint32_t i = 1; i < count; i++) {
        const struct sp_dim next = whole(r, values[i], false);
        result = call->function == FLOORDIV  ? sp_dim_floordiv(r->dims, result, next)
                 : call->function == CEILDIV ? sp_dim_ceildiv(r->dims, result, next)
                 : call->function == MOD     ? sp_dim_mod(r->dims, result, next)
                 : call->function == MIN     ? sp_dim_min(r->dims, result, next)
                                             : sp_dim_max(r->dims, result, next);
    }
    r->value_count = call->values;
    return push(r, result, sp_dim_known(1));
}

/* ---- operators ------------------------------------------------------------------------------------------------- */

static int strength(enum operator_kind kind)
{
    return kind >= GROUP ? 0 : kind <= SUBTRACT ? 1 : kind <= REMAINDER ? 2 : kind == NEGATE ? 3 : 4;
}

/* Applies what binds at least as strongly as `least`, down to the innermost bracket. */
static bool reduce(struct reading *r, int least)
{
    while (r->waiting_count > 0 && r->waiting[r->waiting_count - 1].kind < GROUP &&
           strength(r->waiting[r->waiting_count - 1].kind) >= least) {
        if (!apply_operator(r, r->waiting[--r->waiting_count].kind))
            return false;
    }
    return true;
}

static bool wait(struct reading *r, enum operator_kind kind, enum function_kind function)
{
    if (r->waiting_count == MAX_WAITING)
        return false;
    r->waiting[r->waiting_count++] = (struct waiting){kind, function, 0, r->value_count};
    r->after_value = false;
    return true;
}

static bool close(struct reading *r, bool at_comma)
{
    if (!r->after_value || !reduce(r, 1) || r->waiting_count == 0)
        return false;
    struct waiting *open = &r->waiting[r->waiting_count - 1];
    if (at_comma) {
        open->arguments++;
        r->after_value = false;
        return open->kind == CALL && r->value_count == open->values + open->arguments;
    }
    r->waiting_count--;
    return open->kind == CALL ? apply_function(r, open) : r->value_count == open->values + 1;
}

/* ---- tokens ---------------------------------------------------------------------------------------------------- */

static bool is_part_of_name(char c)
{
    return c != '\0' && strchr(" \t+-*/%(),", c) == NULL;
}

/* "128" or "0.5"; anything else that begins with a digit is no number. */
static bool read_number(struct reading *r, const char *text, size_t size)
{
    struct sp_dim top = sp_dim_known(0), bottom = sp_dim_known(1);
    bool is_fraction = false;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '.' && !is_fraction && i > 0) {
            is_fraction = true;
            continue;
        }
        if (text[i] < '0' || text[i] > '9' || bottom.value >= 1000000000)
            return false;
        top = sp_dim_add(r->dims, sp_dim_mul(r->dims, top, sp_dim_known(10)), sp_dim_known(text[i] - '0'));
        bottom.value *= is_fraction ? 10 : 1;
    }
    return push(r, top, bottom);
}

static bool read_word(struct reading *r)
{
    char name[MAX_NAME];
    size_t size = 0;
    while (is_part_of_name(r->at[size]))
        size++;
    const char *text = r->at, *next = text + size;
    r->at = next;
    if (r->after_value || size >= sizeof name)
        return false;
    r->after_value = true;
    if (text[0] >= '0' && text[0] <= '9')
        return read_number(r, text, size);
    memcpy(name, text, size);
    name[size] = '\0';
    while (*next == ' ')
        next++;
    if (*next == '(') {
        for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
            if (strcasecmp(name, functions[i].name) == 0) {
                r->at = next + 1;
                r->has_operator = true;
                return wait(r, CALL, functions[i].function);
            }
        }
        return false;
    }
    r->has_name = true;
    r->has_new_name = r->has_new_name || !sp_dims_knows(r->dims, name);
    return push(r, r->is_trial ? sp_dim_unknown() : sp_dim_symbol(r->dims, name), sp_dim_known(1));
}

static bool read_operator(struct reading *r, const char *start)
{
    const char c = *r->at, *before = r->at;
    enum operator_kind kind = c == '+'   ? ADD
                              : c == '-' ? SUBTRACT
                              : c == '*' ? MULTIPLY
                              : c == '/' ? DIVIDE
                                         : REMAINDER;
    r->at++;
    if ((c == '*' || c == '/') && *r->at == c) {
        kind = c == '*' ? POWER : FLOOR_DIVIDE;
        r->at++;
    }
    if (!r->after_value)
        return c == '-' ? wait(r, NEGATE, NO_FUNCTION) : c == '+';
    /* Between two words without a blank: a person would write a name like that. */
    const bool may_be_name = (kind == SUBTRACT || kind == DIVIDE) && before > start && is_part_of_name(before[-1]) &&
                             is_part_of_name(*r->at) && (before[-1] < '0' || before[-1] > '9' || r->has_name);
    r->is_doubtful = r->is_doubtful || may_be_name;
    r->has_operator = r->has_operator || !may_be_name;
    /* Powers bind from the right. */
    return reduce(r, strength(kind) + (kind == POWER)) && wait(r, kind, NO_FUNCTION);
}

static bool read_all(struct reading *r)
{
    const char *start = r->at;
    bool ok = true;
    while (ok && *r->at != '\0') {
        if (*r->at == ' ' || *r->at == '\t')
            r->at++;
        else if (is_part_of_name(*r->at))
            ok = read_word(r);
        else if (*r->at == '(')
            ok = !r->after_value && wait(r, GROUP, NO_FUNCTION) && r->at++ != NULL;
        else if (*r->at == ')' || *r->at == ',')
            ok = close(r, *r->at++ == ',');
        else
            ok = read_operator(r, start);
    }
    return ok && r->after_value && reduce(r, 1) && r->waiting_count == 0 && r->value_count == 1 && r->has_name &&
           (r->has_operator || (r->is_doubtful && !r->has_new_name));
}

/* Whether the text is arithmetic; *ret_is_known: all of its names are dimensions already. */
static bool is_arithmetic(struct sp_dims *dims, const char *text, bool *ret_is_known)
{
    struct reading trial = {.dims = dims, .at = text, .is_trial = true};
    const bool result = read_all(&trial);
    *ret_is_known = !trial.has_new_name;
    return result;
}

struct sp_dim sp_dim_parse(struct sp_dims *dims, const char *text)
{
    struct reading r = {.dims = dims, .at = text};
    struct sp_dim result = sp_dim_unknown();
    bool is_known;
    if (is_arithmetic(dims, text, &is_known) && read_all(&r))
        result = whole(&r, r.values[0], false);
    return result.kind == SP_DIM_UNKNOWN ? sp_dim_symbol(dims, text) : result;
}

struct sp_dim sp_dim_find(struct sp_dims *dims, const char *text)
{
    bool is_known = false;
    if (sp_dims_knows(dims, text))
        return sp_dim_symbol(dims, text);
    return is_arithmetic(dims, text, &is_known) && is_known ? sp_dim_parse(dims, text) : sp_dim_unknown();
}
