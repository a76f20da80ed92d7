/*
 * Elementwise operators of several tensors, which broadcast to one shape.
 *
 *     [i.., j] [j] [1] -> [i.., j]      every output axis is a parallel factor; an axis of size 1 under a longer one
 *                                       has none
 *
 * Before opset 7 there was no NumPy broadcasting: with `broadcast` = 1 the second input's axes are those of the first
 * from `axis` on, by default the last ones.
 *
 * FLOPs: 1 for each output element and pair of inputs; Mean one more, for its division.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/families/math/broadcast.h"
#include "ops/table/factors.h"
#include "ops/table/families.h"
#include "ops/table/known_values.h"
#include "ops/table/shape_helpers.h"

/* ---- one pair of elements ------------------------------------------------------------------------------------- */

#define ON_REALS(type, function, body)                                                                                 \
    static type function(double a, double b)                                                                           \
    {                                                                                                                  \
        body;                                                                                                          \
    }

ON_REALS(double, real_add, return a + b)
ON_REALS(double, real_sub, return a - b)
ON_REALS(double, real_mul, return a * b)
ON_REALS(double, real_div, return a / b)
ON_REALS(bool, test_equal, return a == b)
ON_REALS(bool, test_greater, return a > b)
ON_REALS(bool, test_greater_equal, return a >= b)
ON_REALS(bool, test_less, return a < b)
ON_REALS(bool, test_less_equal, return a <= b)

/* C's remainder, with the sign of the dividend (Mod with fmod = 1). */
static struct sp_dim int_remainder(struct sp_dims *dims, struct sp_dim a, struct sp_dim b)
{
    return sp_dim_sub(dims, a, sp_dim_mul(dims, b, sp_dim_truncdiv(dims, a, b)));
}

/* Integer powers by squaring; a symbol only to small powers, which keeps expressions short. */
static struct sp_dim int_pow(struct sp_dims *dims, struct sp_dim a, struct sp_dim b)
{
    if (!sp_dim_is_known(b) || b.value < 0 || b.value > (sp_dim_is_known(a) ? 64 : 4))
        return sp_dim_is(a, 1) ? a : sp_dim_unknown();
    struct sp_dim result = sp_dim_known(1), square = a;
    for (int64_t bits = b.value; bits != 0; bits >>= 1) {
        if (bits & 1)
            result = sp_dim_mul(dims, result, square);
        if (bits > 1)
            square = sp_dim_mul(dims, square, square);
    }
    return result;
}

static struct sp_dim truth(bool is_true, bool is_false)
{
    return is_true ? sp_dim_known(1) : is_false ? sp_dim_known(0) : sp_dim_unknown();
}

static struct sp_dim int_equal(struct sp_dims *dims, struct sp_dim a, struct sp_dim b)
{
    return truth(sp_dim_equal(a, b), sp_dim_differs(dims, a, b));
}

static struct sp_dim int_greater_equal(struct sp_dims *dims, struct sp_dim a, struct sp_dim b)
{
    return truth(sp_dim_surely_ge(dims, a, b), sp_dim_surely_ge(dims, sp_dim_sub(dims, b, sp_dim_known(1)), a));
}

static struct sp_dim int_less_equal(struct sp_dims *dims, struct sp_dim a, struct sp_dim b)
{
    return int_greater_equal(dims, b, a);
}

static struct sp_dim int_greater(struct sp_dims *dims, struct sp_dim a, struct sp_dim b)
{
    return truth(sp_dim_surely_ge(dims, sp_dim_sub(dims, a, sp_dim_known(1)), b), sp_dim_surely_ge(dims, b, a));
}

static struct sp_dim int_less(struct sp_dims *dims, struct sp_dim a, struct sp_dim b)
{
    return int_greater(dims, b, a);
}

/* Elements of a boolean are 0, 1 or unknown. */
static struct sp_dim bool_and(struct sp_dims *dims, struct sp_dim a, struct sp_dim b)
{
    (void)dims;
    return truth(sp_dim_is(a, 1) && sp_dim_is(b, 1), sp_dim_is(a, 0) || sp_dim_is(b, 0));
}

static struct sp_dim bool_or(struct sp_dims *dims, struct sp_dim a, struct sp_dim b)
{
    (void)dims;
    return truth(sp_dim_is(a, 1) || sp_dim_is(b, 1), sp_dim_is(a, 0) && sp_dim_is(b, 0));
}

/* Of two numbers; symbols make it unknown. */
#define ON_NUMBERS(function, result)                                                                                   \
    static struct sp_dim function(struct sp_dims *dims, struct sp_dim a, struct sp_dim b)                              \
    {                                                                                                                  \
        (void)dims;                                                                                                    \
        return sp_dim_is_known(a) && sp_dim_is_known(b) ? sp_dim_known(result) : sp_dim_unknown();                     \
    }

ON_NUMBERS(bool_xor, a.value != b.value)
ON_NUMBERS(int_and, (a.value & b.value))
ON_NUMBERS(int_or, a.value | b.value)
ON_NUMBERS(int_xor, a.value ^ b.value)

/* Shifts of unsigned numbers are products and quotients with a power of two; bits that leave the element type make the
   result unknown (sp_data_attach()). */
static struct sp_dim power_of_two(struct sp_dim exponent)
{
    bool is_small = sp_dim_is_known(exponent) && exponent.value >= 0 && exponent.value < 62;
    return is_small ? sp_dim_known((int64_t)1 << exponent.value) : sp_dim_unknown();
}

static struct sp_dim int_shift_left(struct sp_dims *dims, struct sp_dim a, struct sp_dim b)
{
    return sp_dim_mul(dims, a, power_of_two(b));
}

static struct sp_dim int_shift_right(struct sp_dims *dims, struct sp_dim a, struct sp_dim b)
{
    return sp_dim_floordiv(dims, a, power_of_two(b));
}

/* ---- shapes --------------------------------------------------------------------------------------------------- */

/* The element type that inputs first.. share. */
static enum sp_status common_dtype(struct sp_op_context *context, uint32_t first, enum sp_dtype *ret_dtype)
{
    enum sp_dtype dtype = SP_DTYPE_UNDEFINED;
    for (uint32_t input = first; input < context->node->input_count; input++) {
        enum sp_dtype own = sp_in_dtype(context, input);
        if (own == SP_DTYPE_UNDEFINED || own == dtype)
            continue;
        if (dtype != SP_DTYPE_UNDEFINED)
            return sp_op_fail(context, "TYPES_DISAGREE", "it takes inputs of one element type and gets %s and %s",
                              sp_dtype_name(dtype), sp_dtype_name(own));
        dtype = own;
    }
    *ret_dtype = dtype;
    return SP_OK;
}

/* Where in input 0 the axes of input 1 are (versions before 7). */
static enum sp_status legacy_offset(struct sp_op_context *context, const struct sp_shape *a, const struct sp_shape *b,
                                    uint32_t *ret_offset)
{
    const struct sp_attribute *axis = sp_node_attribute(context->node, "axis");
    *ret_offset = 0;
    if (sp_node_int(context->node, "broadcast", 0) == 0 && a->rank == b->rank)
        return SP_OK;
    if (b->rank > a->rank)
        return sp_op_fail(context, "CANNOT_BROADCAST", "its second input has more axes than its first");
    *ret_offset = a->rank - b->rank;
    if (axis == NULL || axis->type != SP_ATTR_INT)
        return SP_OK;
    int64_t offset = axis->i < 0 ? axis->i + (int64_t)a->rank : axis->i;
    if (offset < 0 || offset > (int64_t)*ret_offset)
        return sp_op_fail(context, "AXIS_OUT_OF_RANGE",
                          "attribute 'axis' is %lld, and the second input's %u axes do not fit there in the first's %u",
                          (long long)axis->i, b->rank, a->rank);
    *ret_offset = (uint32_t)offset;
    return SP_OK;
}

static enum sp_status shapes_legacy(struct sp_op_context *context, enum sp_dtype dtype)
{
    const struct sp_shape *a = sp_in_shape(context, 0), *b = sp_in_shape(context, 1);
    uint32_t offset;
    if (a == NULL || b == NULL)
        return sp_set_output_shape(context, 0, dtype, a);
    enum sp_status status = legacy_offset(context, a, b, &offset);
    for (uint32_t axis = 0; status == SP_OK && axis < b->rank; axis++) {
        if (!sp_dim_is(b->dims[axis], 1) && sp_dim_differs(context->dims, a->dims[offset + axis], b->dims[axis]))
            status = sp_op_fail(context, "CANNOT_BROADCAST", "axis %u of its second input has another extent", axis);
    }
    return status != SP_OK ? status : sp_set_output_shape(context, 0, dtype, a);
}

/* Whether elements are paired as NumPy does. Before version 7 an attribute may align the second input elsewhere. */
static bool pairs_from_the_back(struct sp_op_context *context)
{
    const struct sp_shape *a = sp_in_shape(context, 0), *b = sp_in_shape(context, 1);
    uint32_t offset = 0;
    if (context->version >= 7 || context->node->input_count != 2)
        return true;
    return a != NULL && b != NULL && legacy_offset(context, a, b, &offset) == SP_OK && offset + b->rank == a->rank;
}

/* Output 0 gets the type and the shape to which all inputs broadcast. */
static enum sp_status shapes_broadcast(struct sp_op_context *context, enum sp_dtype dtype)
{
    struct sp_shape shape = {.has_rank = true};
    if (context->version < 7 && context->node->input_count == 2)
        return shapes_legacy(context, dtype);
    for (uint32_t input = 0; input < context->node->input_count; input++) {
        const struct sp_shape *own = sp_in_shape(context, input);
        if (own == NULL)
            return sp_set_output_unranked(context, 0, dtype);
        enum sp_status status = input == 0 ? SP_OK : sp_broadcast(context, &shape, own, &shape);
        if (status != SP_OK)
            return status;
        if (input == 0)
            shape = *own;
    }
    return sp_set_output_shape(context, 0, dtype, &shape);
}

static enum sp_status shapes_arithmetic(struct sp_op_context *context, sp_data_int2 on_ints, sp_data_real2 on_reals)
{
    enum sp_dtype dtype = SP_DTYPE_UNDEFINED;
    enum sp_status status = common_dtype(context, 0, &dtype);
    if (status == SP_OK)
        status = shapes_broadcast(context, dtype);
    return status != SP_OK || !pairs_from_the_back(context) ? status : sp_data_nary(context, on_ints, on_reals);
}

static enum sp_status shapes_comparison(struct sp_op_context *context, sp_data_int2 on_ints, sp_data_test on_reals)
{
    enum sp_dtype dtype = SP_DTYPE_UNDEFINED;
    enum sp_status status = common_dtype(context, 0, &dtype);
    if (status == SP_OK)
        status = shapes_broadcast(context, SP_DTYPE_BOOL);
    return status != SP_OK || !pairs_from_the_back(context) ? status : sp_data_compare(context, on_ints, on_reals);
}

/* ---- the operators -------------------------------------------------------------------------------------------- */

#define ARITHMETIC(function, on_ints, on_reals)                                                                        \
    static enum sp_status function(struct sp_op_context *context)                                                      \
    {                                                                                                                  \
        return shapes_arithmetic(context, on_ints, on_reals);                                                          \
    }

#define COMPARISON(function, on_ints, on_reals)                                                                        \
    static enum sp_status function(struct sp_op_context *context)                                                      \
    {                                                                                                                  \
        return shapes_comparison(context, on_ints, on_reals);                                                          \
    }

ARITHMETIC(shapes_add, sp_dim_add, real_add)
ARITHMETIC(shapes_sub, sp_dim_sub, real_sub)
ARITHMETIC(shapes_mul, sp_dim_mul, real_mul)
ARITHMETIC(shapes_div, sp_dim_truncdiv, real_div)
ARITHMETIC(shapes_min, sp_dim_min, fmin)
ARITHMETIC(shapes_max, sp_dim_max, fmax)
ARITHMETIC(shapes_bits_and, int_and, NULL)
ARITHMETIC(shapes_bits_or, int_or, NULL)
ARITHMETIC(shapes_bits_xor, int_xor, NULL)
ARITHMETIC(shapes_plain, NULL, NULL)
COMPARISON(shapes_equal, int_equal, test_equal)
COMPARISON(shapes_greater, int_greater, test_greater)
COMPARISON(shapes_greater_equal, int_greater_equal, test_greater_equal)
COMPARISON(shapes_less, int_less, test_less)
COMPARISON(shapes_less_equal, int_less_equal, test_less_equal)
COMPARISON(shapes_and, bool_and, NULL)
COMPARISON(shapes_or, bool_or, NULL)
COMPARISON(shapes_xor, bool_xor, NULL)

static enum sp_status shapes_mod(struct sp_op_context *context)
{
    bool is_fmod = sp_node_int(context->node, "fmod", 0) != 0;
    return shapes_arithmetic(context, is_fmod ? int_remainder : sp_dim_mod, is_fmod ? fmod : NULL);
}

static enum sp_status shapes_shift(struct sp_op_context *context)
{
    bool is_left = strcmp(sp_node_string(context->node, "direction", "LEFT"), "LEFT") == 0;
    return shapes_arithmetic(context, is_left ? int_shift_left : int_shift_right, NULL);
}

/* Since 12 the exponent may have another type; the result has the base's. */
static enum sp_status shapes_pow(struct sp_op_context *context)
{
    if (context->version < 12)
        return shapes_arithmetic(context, int_pow, pow);
    enum sp_status status = shapes_broadcast(context, sp_in_dtype(context, 0));
    return status != SP_OK ? status : sp_data_binary(context, int_pow, pow);
}

static enum sp_status shapes_where(struct sp_op_context *context)
{
    enum sp_dtype dtype = SP_DTYPE_UNDEFINED;
    enum sp_status status = common_dtype(context, 1, &dtype);
    if (status == SP_OK)
        status = shapes_broadcast(context, dtype);
    return status != SP_OK ? status : sp_data_where(context);
}

/* Before 7 the slope is one number or one for each channel; since then it broadcasts to X. */
static enum sp_status shapes_prelu(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    enum sp_status status = SP_OK;
    if (context->version >= 7 && x != NULL)
        status = sp_check_broadcasts_to(context, 1, x);
    return status != SP_OK ? status : sp_set_output_shape(context, 0, sp_in_dtype(context, 0), x);
}

/* Factors of input 0, and of input 1 from axis `offset` of it. */
static void map_from(struct sp_op_context *context, struct sp_rule *rule, uint32_t offset)
{
    const struct sp_shape *a = sp_in_shape(context, 0), *b = sp_in_shape(context, 1);
    for (uint32_t axis = 0; axis < a->rank; axis++) {
        char name[SP_FACTOR_NAME_SIZE];
        (void)snprintf(name, sizeof name, "d%u", axis);
        uint8_t factor = sp_rule_factor(rule, name, SP_FACTOR_PARALLEL, a->dims[axis]);
        sp_rule_map_input(rule, 0, axis, factor);
        sp_rule_map_output(rule, 0, axis, factor);
        if (axis >= offset && axis - offset < b->rank && sp_axis_takes(b->dims[axis - offset], a->dims[axis]))
            sp_rule_map_input(rule, 1, axis - offset, factor);
    }
    sp_rule_term_output(rule, 1);
}

static enum sp_status rule_legacy(struct sp_op_context *context, struct sp_rule *rule)
{
    uint32_t offset;
    enum sp_status status = legacy_offset(context, sp_in_shape(context, 0), sp_in_shape(context, 1), &offset);
    if (status == SP_OK)
        map_from(context, rule, offset);
    return status;
}

static enum sp_status rule_legacy_prelu(struct sp_op_context *context, struct sp_rule *rule)
{
    map_from(context, rule, sp_in_shape(context, 0)->rank > 1 ? 1 : 0);
    return SP_OK;
}

/* ---- the entries ---------------------------------------------------------------------------------------------- */

/* A name, its versions, its least and most inputs. Operators that were there before NumPy broadcasting have two
   entries. */
#define BROADCAST(name_, since_, last_, least_, most_, shapes_, ...)                                                   \
    SP_ENTRY("", name_, since_, last_, least_, most_, 1, 1, "[i..] [i..] -> [i..]; size-1 axes broadcast",             \
             "ONNX operator " name_ " and Broadcasting in ONNX", .shapes = shapes_, __VA_ARGS__)

const struct sp_op sp_ops_elementwise[] = {
    BROADCAST("Add", 1, 6, 2, 2, shapes_add, .rule = rule_legacy),
    BROADCAST("Add", 7, 0, 2, 2, shapes_add, .flops = 1),
    BROADCAST("Sub", 1, 6, 2, 2, shapes_sub, .rule = rule_legacy),
    BROADCAST("Sub", 7, 0, 2, 2, shapes_sub, .flops = 1),
    BROADCAST("Mul", 1, 6, 2, 2, shapes_mul, .rule = rule_legacy),
    BROADCAST("Mul", 7, 0, 2, 2, shapes_mul, .flops = 1),
    BROADCAST("Div", 1, 6, 2, 2, shapes_div, .rule = rule_legacy),
    BROADCAST("Div", 7, 0, 2, 2, shapes_div, .flops = 1),
    BROADCAST("Pow", 1, 6, 2, 2, shapes_pow, .flags = SP_OP_FUNCTION, .rule = rule_legacy),
    BROADCAST("Pow", 7, 0, 2, 2, shapes_pow, .flags = SP_OP_FUNCTION, .flops = 1),
    BROADCAST("And", 1, 6, 2, 2, shapes_and, .rule = rule_legacy),
    BROADCAST("And", 7, 0, 2, 2, shapes_and, .flops = 1),
    BROADCAST("Or", 1, 6, 2, 2, shapes_or, .rule = rule_legacy),
    BROADCAST("Or", 7, 0, 2, 2, shapes_or, .flops = 1),
    BROADCAST("Xor", 1, 6, 2, 2, shapes_xor, .rule = rule_legacy),
    BROADCAST("Xor", 7, 0, 2, 2, shapes_xor, .flops = 1),
    BROADCAST("Equal", 1, 6, 2, 2, shapes_equal, .rule = rule_legacy),
    BROADCAST("Equal", 7, 0, 2, 2, shapes_equal, .flops = 1),
    BROADCAST("Greater", 1, 6, 2, 2, shapes_greater, .rule = rule_legacy),
    BROADCAST("Greater", 7, 0, 2, 2, shapes_greater, .flops = 1),
    BROADCAST("Less", 1, 6, 2, 2, shapes_less, .rule = rule_legacy),
    BROADCAST("Less", 7, 0, 2, 2, shapes_less, .flops = 1),
    BROADCAST("GreaterOrEqual", 12, 0, 2, 2, shapes_greater_equal, .flops = 1),
    BROADCAST("LessOrEqual", 12, 0, 2, 2, shapes_less_equal, .flops = 1),
    BROADCAST("Mod", 10, 0, 2, 2, shapes_mod, .flops = 1),
    BROADCAST("BitShift", 11, 0, 2, 2, shapes_shift, .flops = 1),
    BROADCAST("BitwiseAnd", 18, 0, 2, 2, shapes_bits_and, .flops = 1),
    BROADCAST("BitwiseOr", 18, 0, 2, 2, shapes_bits_or, .flops = 1),
    BROADCAST("BitwiseXor", 18, 0, 2, 2, shapes_bits_xor, .flops = 1),
    BROADCAST("SwiGLU", 28, 0, 2, 2, shapes_plain, .flags = SP_OP_FUNCTION, .flops = 1),
    BROADCAST("Min", 1, 0, 1, UINT32_MAX, shapes_min, .flops = -1, .flops_each = 1),
    BROADCAST("Max", 1, 0, 1, UINT32_MAX, shapes_max, .flops = -1, .flops_each = 1),
    BROADCAST("Sum", 1, 0, 1, UINT32_MAX, shapes_add, .flops = -1, .flops_each = 1),
    BROADCAST("Mean", 1, 0, 1, UINT32_MAX, shapes_plain, .flops_each = 1),
    BROADCAST("Where", 9, 0, 3, 3, shapes_where, .flops = 1),
    BROADCAST("PRelu", 1, 6, 2, 2, shapes_prelu, .rule = rule_legacy_prelu),
    BROADCAST("PRelu", 7, 0, 2, 2, shapes_prelu, .flops = 1),
    {.name = NULL},
};
