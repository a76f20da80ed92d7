/*
 * Operators on elements: arithmetic, functions of one number, comparisons, choices.
 */
#include <string.h>

#include "base/hash_map.h"
#include "base/limits.h"
#include "verify/operators/evaluate.h"

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

static struct sp_number integer_subtract(struct sp_number a, struct sp_number b)
{
    return (struct sp_number){a.field - b.field, a.real - b.real};
}

static int64_t modulo(int64_t a, int64_t b)
{
    const int64_t rest = b == 0 || b == -1 ? 0 : a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static struct sp_number integer_modulo(struct sp_number a, struct sp_number b)
{
    return (struct sp_number){(uint64_t)modulo((int64_t)a.field, (int64_t)b.field),
                              a.real - b.real * floor(a.real / b.real)};
}

#define COMPARE(name_, field_, real_)                                                                                  \
    static struct sp_number name_(struct sp_number a, struct sp_number b)                                              \
    {                                                                                                                  \
        return (struct sp_number){(field_) ? 1 : 0, (real_) ? 1 : 0};                                                  \
    }
COMPARE(is_equal, a.field == b.field, a.real == b.real)
COMPARE(is_less, sp_field_is_less(a.field, b.field), a.real < b.real)
COMPARE(is_less_equal, !sp_field_is_less(b.field, a.field), a.real <= b.real)
COMPARE(is_greater, sp_field_is_less(b.field, a.field), a.real > b.real)
COMPARE(is_greater_equal, !sp_field_is_less(a.field, b.field), a.real >= b.real)
COMPARE(integer_less, (int64_t)a.field < (int64_t)b.field, a.real < b.real)
COMPARE(integer_less_equal, (int64_t)a.field <= (int64_t)b.field, a.real <= b.real)
COMPARE(integer_greater, (int64_t)a.field > (int64_t)b.field, a.real > b.real)
COMPARE(integer_greater_equal, (int64_t)a.field >= (int64_t)b.field, a.real >= b.real)
COMPARE(known_less, a.real < b.real, a.real < b.real)
COMPARE(known_less_equal, a.real <= b.real, a.real <= b.real)
COMPARE(known_greater, a.real > b.real, a.real > b.real)
COMPARE(known_greater_equal, a.real >= b.real, a.real >= b.real)
COMPARE(logical_and, a.field != 0 && b.field != 0, a.real != 0 && b.real != 0)
COMPARE(logical_or, a.field != 0 || b.field != 0, a.real != 0 || b.real != 0)
COMPARE(logical_xor, (a.field != 0) != (b.field != 0), (a.real != 0) != (b.real != 0))

static struct sp_number known_max(struct sp_number a, struct sp_number b)
{
    return a.real < b.real ? b : a;
}

static struct sp_number known_min(struct sp_number a, struct sp_number b)
{
    return a.real < b.real ? a : b;
}

/* ---- operators of two and more ---------------------------------------------------------------------------------- */

struct binary {
    const char *name;
    sp_number2 on_floats, on_integers, on_known; /* of known floats, where these have an order */
    bool is_bool;
};

static const struct binary binaries[] = {
    {"Add", sp_number_add, sp_integer_add, NULL, false},
    {"Sum", sp_number_add, sp_integer_add, NULL, false},
    {"Sub", sp_number_subtract, integer_subtract, NULL, false},
    {"Mul", sp_number_multiply, sp_integer_multiply, NULL, false},
    {"Div", sp_number_divide, sp_integer_divide, NULL, false},
    {"Max", sp_number_max, sp_integer_max, known_max, false},
    {"Min", sp_number_min, sp_integer_min, known_min, false},
    {"Mod", NULL, integer_modulo, NULL, false},
    {"And", NULL, logical_and, NULL, true},
    {"Or", NULL, logical_or, NULL, true},
    {"Xor", NULL, logical_xor, NULL, true},
    {"Equal", is_equal, is_equal, NULL, true},
    {"Less", is_less, integer_less, known_less, true},
    {"LessOrEqual", is_less_equal, integer_less_equal, known_less_equal, true},
    {"Greater", is_greater, integer_greater, known_greater, true},
    {"GreaterOrEqual", is_greater_equal, integer_greater_equal, known_greater_equal, true},
};

static enum sp_status evaluate_binary(struct sp_call *call)
{
    const struct binary *binary = binaries;
    while (strcmp(binary->name, call->node->op_type) != 0)
        binary++;
    const struct sp_numbers *sum = sp_call_in(call, 0);
    enum sp_status status = sum != NULL ? SP_OK : sp_call_refuse(call, "an operand is missing");
    if (status == SP_OK && call->in_count == 1)
        status = sp_numbers_view(call->arena, sum, sum->rank, sum->axes, &call->out[0], call->err);
    for (uint32_t i = 1; status == SP_OK && i < call->in_count; i++) {
        const struct sp_numbers *x = call->in[i];
        if (x == NULL)
            return sp_call_refuse(call, "an operand is missing");
        const bool are_known = sum->is_known && x->is_known, is_float = sp_dtype_is_float(x->dtype);
        const sp_number2 function = !is_float                               ? binary->on_integers
                                    : are_known && binary->on_known != NULL ? binary->on_known
                                                                            : binary->on_floats;
        if (function == NULL)
            return sp_evaluate_by_rule(call);
        status = sp_numbers_binary(call->arena, sum, x, binary->is_bool ? SP_DTYPE_BOOL : x->dtype, function,
                                   &call->out[0], call->err);
        sum = call->out[0];
    }
    return status;
}

static enum sp_status evaluate_mean(struct sp_call *call)
{
    const struct sp_numbers *sum = sp_call_in(call, 0);
    struct sp_numbers *count;
    enum sp_status status = sum != NULL ? SP_OK : sp_call_refuse(call, "an operand is missing");
    for (uint32_t i = 1; status == SP_OK && i < call->in_count; i++) {
        if (call->in[i] == NULL)
            return sp_call_refuse(call, "an operand is missing");
        status = sp_numbers_binary(call->arena, sum, call->in[i], sum->dtype, sp_number_add, &call->out[0], call->err);
        sum = call->out[0];
    }
    if (status == SP_OK)
        status = sp_numbers_create(call->arena, sum->dtype, 0, NULL, &count, call->err);
    if (status != SP_OK)
        return status;
    count->items[0] = sp_number_of_real(call->in_count);
    count->is_known = true;
    return sp_numbers_binary(call->arena, sum, count, sum->dtype, sp_number_divide, &call->out[0], call->err);
}

/* Powers by small integers are products. */
struct sp_number sp_number_power(struct sp_number a, struct sp_number b)
{
    const double exponent = b.real, real = pow(a.real, exponent);
    if (exponent == 0.5)
        return sp_number_function(sp_tag("Sqrt"), sqrt, false, a);
    if (exponent != floor(exponent) || fabs(exponent) > 64 || !sp_field_is_finite(a.field))
        return (struct sp_number){sp_field_hash(sp_tag("Pow") ^ sp_field_of_real(exponent), a.field), real};
    const uint64_t field = sp_field_power(a.field, (uint64_t)fabs(exponent));
    return (struct sp_number){exponent < 0 ? sp_field_inverse(field) : field, real};
}

static struct sp_number known_power(struct sp_number a, struct sp_number b)
{
    return sp_number_of_real(pow(a.real, b.real));
}

static struct sp_number integer_power(struct sp_number a, struct sp_number b)
{
    return sp_number_of_int((int64_t)fmax(-0x1p62, fmin(0x1p62, pow(a.real, b.real))));
}

static enum sp_status evaluate_pow(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0), *y = sp_call_in(call, 1);
    if (x == NULL || y == NULL || !y->is_known || (!sp_dtype_is_float(x->dtype) && !x->is_known))
        return sp_evaluate_by_rule(call);
    if (x->radicands != NULL && y->count == 1 && y->rank <= x->rank && y->items[0].real == (double)x->degree) {
        const enum sp_status status =
            sp_numbers_create(call->arena, x->dtype, x->rank, x->axes, &call->out[0], call->err);
        for (uint64_t i = 0; status == SP_OK && i < x->count; i++)
            call->out[0]->items[i] = x->radicands[i]; /* the power that the root undoes */
        return status;
    }
    return sp_numbers_binary(call->arena, x, y, x->dtype,
                             !sp_dtype_is_float(x->dtype) ? integer_power
                             : x->is_known                ? known_power
                                                          : sp_number_power,
                             &call->out[0], call->err);
}

/* ---- functions of one number ------------------------------------------------------------------------------------ */

static double real_softplus(double x)
{
    return x > 30 ? x : log1p(exp(x));
}
static double real_softsign(double x)
{
    return x / (1 + fabs(x));
}
static double real_gelu(double x)
{
    return x * 0.5 * (1 + erf(x * M_SQRT1_2));
}
static double real_mish(double x)
{
    return x * tanh(real_softplus(x));
}
static double real_hard_swish(double x)
{
    return x * fmax(0, fmin(1, x / 6 + 0.5));
}
static double real_sign(double x)
{
    return (x > 0) - (x < 0);
}
static double real_not(double x)
{
    return x == 0;
}

struct unary {
    const char *name;
    double (*real)(double);
    bool is_bool;
};
static const struct unary unaries[] = {
    {"Exp", sp_real_exp, false},
    {"Log", log, false},
    {"Sqrt", sqrt, false},
    {"Tanh", tanh, false},
    {"Erf", erf, false},
    {"Sigmoid", sp_real_sigmoid, false},
    {"Abs", fabs, false},
    {"Floor", floor, false},
    {"Ceil", ceil, false},
    {"Round", nearbyint, false},
    {"Sin", sin, false},
    {"Cos", cos, false},
    {"Tan", tan, false},
    {"Asin", asin, false},
    {"Acos", acos, false},
    {"Atan", atan, false},
    {"Sinh", sinh, false},
    {"Cosh", cosh, false},
    {"Asinh", asinh, false},
    {"Acosh", acosh, false},
    {"Atanh", atanh, false},
    {"Softplus", real_softplus, false},
    {"Softsign", real_softsign, false},
    {"Mish", real_mish, false},
    {"HardSwish", real_hard_swish, false},
    {"Sign", real_sign, false},
    {"Not", real_not, true},
};

static enum sp_status evaluate_unary(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    const struct unary *unary = unaries;
    if (x == NULL)
        return sp_call_refuse(call, "an operand is missing");
    while (strcmp(unary->name, call->node->op_type) != 0)
        unary++;
    if (unary->real == sp_real_exp && sp_dtype_is_float(x->dtype))
        return sp_numbers_exp(call->arena, x, &call->out[0], call->err);
    const uint64_t tag = sp_tag(unary->name);
    enum sp_status status = sp_numbers_create(call->arena, x->dtype, x->rank, x->axes, &call->out[0], call->err);
    for (uint64_t i = 0; status == SP_OK && i < x->count; i++) {
        const struct sp_number a = x->items[i];
        struct sp_number *out = &call->out[0]->items[i];
        if (!sp_dtype_is_float(x->dtype)) /* each part on its own, as branches of the two parts may differ */
            *out = (struct sp_number){(uint64_t)(int64_t)unary->real((double)(int64_t)a.field), unary->real(a.real)};
        else
            *out = sp_number_function(tag, unary->real, x->is_known, a);
    }
    if (status == SP_OK)
        call->out[0]->is_known = x->is_known;
    return status;
}

static enum sp_status evaluate_negative(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    enum sp_status status = x == NULL
                                ? sp_call_refuse(call, "an operand is missing")
                                : sp_numbers_create(call->arena, x->dtype, x->rank, x->axes, &call->out[0], call->err);
    for (uint64_t i = 0; status == SP_OK && i < x->count; i++)
        call->out[0]->items[i] = sp_dtype_is_float(x->dtype)
                                     ? sp_number_negate(x->items[i])
                                     : (struct sp_number){-x->items[i].field, -x->items[i].real};
    if (status == SP_OK)
        call->out[0]->is_known = x->is_known;
    return status;
}

static enum sp_status evaluate_reciprocal(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    struct sp_numbers *one;
    enum sp_status status = x == NULL ? sp_call_refuse(call, "an operand is missing")
                                      : sp_numbers_create(call->arena, x->dtype, 0, NULL, &one, call->err);
    if (status != SP_OK)
        return status;
    one->items[0] = (struct sp_number){1, 1};
    one->is_known = true;
    return sp_numbers_binary(call->arena, one, x, x->dtype, sp_number_divide, &call->out[0], call->err);
}

enum sp_status sp_evaluate_relu(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    struct sp_numbers *zero;
    enum sp_status status = x == NULL ? sp_call_refuse(call, "an operand is missing")
                                      : sp_numbers_create(call->arena, x->dtype, 0, NULL, &zero, call->err);
    if (status != SP_OK)
        return status;
    zero->is_known = true;
    return sp_numbers_binary(call->arena, x, zero, x->dtype,
                             !sp_dtype_is_float(x->dtype) ? sp_integer_max
                             : x->is_known                ? known_max
                                                          : sp_number_max,
                             &call->out[0], call->err);
}

static enum sp_status evaluate_clip(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    if (x == NULL || call->version < 11)
        return sp_evaluate_by_rule(call);
    struct sp_numbers *out;
    enum sp_status status = sp_numbers_view(call->arena, x, x->rank, x->axes, &out, call->err);
    for (uint32_t i = 1; status == SP_OK && i < 3; i++) {
        const struct sp_numbers *bound = sp_call_in(call, i);
        if (bound == NULL)
            continue;
        const bool is_float = sp_dtype_is_float(x->dtype), are_known = out->is_known && bound->is_known;
        const sp_number2 max = !is_float   ? sp_integer_max
                               : are_known ? known_max
                                           : sp_number_max,
                         min = !is_float   ? sp_integer_min
                               : are_known ? known_min
                                           : sp_number_min;
        status = sp_numbers_binary(call->arena, out, bound, x->dtype, i == 1 ? max : min, &out, call->err);
    }
    if (status == SP_OK)
        call->out[0] = out;
    return status;
}

static struct sp_number converted(const struct sp_numbers *x, struct sp_number a, enum sp_dtype to)
{
    const bool from_float = sp_dtype_is_float(x->dtype), to_float = sp_dtype_is_float(to);
    if (to == SP_DTYPE_BOOL)
        return (struct sp_number){a.field != 0, a.real != 0};
    if (from_float == to_float)
        return a;
    if (to_float)
        return (struct sp_number){sp_field_of_int((int64_t)a.field), a.real};
    if (x->is_known)
        return sp_number_of_int(isfinite(a.real) && fabs(a.real) < 0x1p62 ? (int64_t)a.real : INT64_MAX);
    /* a small integer is itself */
    const uint64_t small = UINT64_C(1) << 31;
    if (a.field < small || (a.field > SP_FIELD_PRIME - small && sp_field_is_finite(a.field)))
        return (struct sp_number){a.field < small ? a.field : a.field - SP_FIELD_PRIME, trunc(a.real)};
    return (struct sp_number){sp_field_hash(sp_tag("Cast"), a.field) & 0xffff, trunc(a.real)};
}

static enum sp_status cast_to(struct sp_call *call, const struct sp_numbers *x, enum sp_dtype to)
{
    enum sp_status status = sp_numbers_create(call->arena, to, x->rank, x->axes, &call->out[0], call->err);
    for (uint64_t i = 0; status == SP_OK && i < x->count; i++)
        call->out[0]->items[i] = converted(x, x->items[i], to);
    if (status == SP_OK)
        call->out[0]->is_known = x->is_known;
    return status;
}

static enum sp_status evaluate_cast(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0), *like = sp_call_in(call, 1);
    const int64_t to = like != NULL ? (int64_t)like->dtype : sp_node_int(call->node, "to", 0);
    if (x == NULL || to <= 0 || to >= SP_DTYPE_COUNT || to == SP_DTYPE_STRING)
        return sp_call_refuse(call, "the type is not one of numbers");
    return cast_to(call, x, (enum sp_dtype)to);
}

static enum sp_status evaluate_where(struct sp_call *call)
{
    const struct sp_numbers *c = sp_call_in(call, 0), *x = sp_call_in(call, 1), *y = sp_call_in(call, 2);
    return c == NULL || x == NULL || y == NULL
               ? sp_call_refuse(call, "an operand is missing")
               : sp_numbers_choose(call->arena, (const struct sp_numbers *[]){c, x, y}, &call->out[0], call->err);
}

static enum sp_status evaluate_same(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    return x == NULL ? sp_call_refuse(call, "an operand is missing")
                     : sp_numbers_view(call->arena, x, x->rank, x->axes, &call->out[0], call->err);
}

static enum sp_status evaluate_gelu(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    if (x == NULL || call->in_count != 1 || strcmp(sp_node_string(call->node, "approximate", "none"), "none") != 0)
        return sp_evaluate_by_rule(call);
    /* x / 2 (1 + erf(x / sqrt 2)), as files write it that spell it out */
    const uint64_t erf_tag = sp_tag("Erf"), root = sp_field_of_real((float)M_SQRT2), half = sp_field_of_real(0.5);
    enum sp_status status = sp_numbers_create(call->arena, x->dtype, x->rank, x->axes, &call->out[0], call->err);
    for (uint64_t i = 0; status == SP_OK && i < x->count; i++) {
        const uint64_t a = x->items[i].field,
                       inner = sp_field_hash(erf_tag, sp_field_multiply(a, sp_field_inverse(root)));
        call->out[0]->items[i] = (struct sp_number){
            sp_field_multiply(sp_field_multiply(a, sp_field_add(1, inner)), half), real_gelu(x->items[i].real)};
    }
    return status;
}

const struct sp_evaluator_entry sp_evaluators_elements[] = {
    {"Add", evaluate_binary},
    {"Sum", evaluate_binary},
    {"Sub", evaluate_binary},
    {"Mul", evaluate_binary},
    {"Div", evaluate_binary},
    {"Max", evaluate_binary},
    {"Min", evaluate_binary},
    {"Mod", evaluate_binary},
    {"And", evaluate_binary},
    {"Or", evaluate_binary},
    {"Xor", evaluate_binary},
    {"Equal", evaluate_binary},
    {"Less", evaluate_binary},
    {"LessOrEqual", evaluate_binary},
    {"Greater", evaluate_binary},
    {"GreaterOrEqual", evaluate_binary},
    {"Mean", evaluate_mean},
    {"Pow", evaluate_pow},
    {"Exp", evaluate_unary},
    {"Log", evaluate_unary},
    {"Sqrt", evaluate_unary},
    {"Tanh", evaluate_unary},
    {"Erf", evaluate_unary},
    {"Sigmoid", evaluate_unary},
    {"Abs", evaluate_unary},
    {"Floor", evaluate_unary},
    {"Ceil", evaluate_unary},
    {"Round", evaluate_unary},
    {"Sin", evaluate_unary},
    {"Cos", evaluate_unary},
    {"Tan", evaluate_unary},
    {"Asin", evaluate_unary},
    {"Acos", evaluate_unary},
    {"Atan", evaluate_unary},
    {"Sinh", evaluate_unary},
    {"Cosh", evaluate_unary},
    {"Asinh", evaluate_unary},
    {"Acosh", evaluate_unary},
    {"Atanh", evaluate_unary},
    {"Softplus", evaluate_unary},
    {"Softsign", evaluate_unary},
    {"Mish", evaluate_unary},
    {"HardSwish", evaluate_unary},
    {"Sign", evaluate_unary},
    {"Not", evaluate_unary},
    {"Neg", evaluate_negative},
    {"Reciprocal", evaluate_reciprocal},
    {"Relu", sp_evaluate_relu},
    {"Clip", evaluate_clip},
    {"Cast", evaluate_cast},
    {"CastLike", evaluate_cast},
    {"Where", evaluate_where},
    {"Identity", evaluate_same},
    {"Gelu", evaluate_gelu},
    {NULL, NULL},
};
