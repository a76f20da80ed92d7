/*
 * Elementwise operators of one tensor.
 *
 *     [i..] -> [i..]      every axis is a parallel factor
 *
 * FLOPs: 1 per output element, whatever the function costs on a given device: they are bound by memory. Dropout that
 * is not training is the identity: no work and no bytes.
 */
#include <math.h>

#include "ops/lowering/functions.h"
#include "ops/table/families.h"
#include "ops/table/known_values.h"
#include "ops/table/shape_helpers.h"

/* ---- one element ---------------------------------------------------------------------------------------------- */

static struct sp_dim int_neg(struct sp_dims *dims, struct sp_dim a)
{
    return sp_dim_sub(dims, sp_dim_known(0), a);
}

static struct sp_dim int_abs(struct sp_dims *dims, struct sp_dim a)
{
    return sp_dim_max(dims, a, int_neg(dims, a));
}

static struct sp_dim int_relu(struct sp_dims *dims, struct sp_dim a)
{
    return sp_dim_max(dims, a, sp_dim_known(0));
}

static struct sp_dim int_sign(struct sp_dims *dims, struct sp_dim a)
{
    if (sp_dim_is(a, 0))
        return a;
    if (sp_dim_surely_ge(dims, a, sp_dim_known(1)))
        return sp_dim_known(1);
    return sp_dim_surely_ge(dims, sp_dim_known(-1), a) ? sp_dim_known(-1) : sp_dim_unknown();
}

static struct sp_dim int_not(struct sp_dims *dims, struct sp_dim a)
{
    (void)dims;
    return sp_dim_is_known(a) ? sp_dim_known(a.value == 0) : sp_dim_unknown();
}

static double real_neg(double a)
{
    return -a;
}

static double real_reciprocal(double a)
{
    return 1 / a;
}

static double real_relu(double a)
{
    return a < 0 ? 0 : a;
}

static double real_sign(double a)
{
    return (double)((a > 0) - (a < 0));
}

/* ---- shapes --------------------------------------------------------------------------------------------------- */

static enum sp_status shapes_same(struct sp_op_context *context)
{
    return sp_set_output_shape(context, 0, sp_in_dtype(context, 0), sp_in_shape(context, 0));
}

static enum sp_status shapes_bool(struct sp_op_context *context)
{
    return sp_set_output_shape(context, 0, SP_DTYPE_BOOL, sp_in_shape(context, 0));
}

static enum sp_status shapes_values(struct sp_op_context *context, sp_data_int1 on_ints, sp_data_real1 on_reals)
{
    enum sp_status status = shapes_same(context);
    return status != SP_OK ? status : sp_data_unary(context, on_ints, on_reals);
}

static enum sp_status shapes_neg(struct sp_op_context *context)
{
    return shapes_values(context, int_neg, real_neg);
}

static enum sp_status shapes_abs(struct sp_op_context *context)
{
    return shapes_values(context, int_abs, fabs);
}

static enum sp_status shapes_relu(struct sp_op_context *context)
{
    return shapes_values(context, int_relu, real_relu);
}

static enum sp_status shapes_sign(struct sp_op_context *context)
{
    return shapes_values(context, int_sign, real_sign);
}

static enum sp_status shapes_sqrt(struct sp_op_context *context)
{
    return shapes_values(context, NULL, sqrt);
}

static enum sp_status shapes_ceil(struct sp_op_context *context)
{
    return shapes_values(context, NULL, ceil);
}

static enum sp_status shapes_floor(struct sp_op_context *context)
{
    return shapes_values(context, NULL, floor);
}

/* Halves go to the even neighbour, which is rint()'s default mode. */
static enum sp_status shapes_round(struct sp_op_context *context)
{
    return shapes_values(context, NULL, rint);
}

static enum sp_status shapes_exp(struct sp_op_context *context)
{
    return shapes_values(context, NULL, exp);
}

static enum sp_status shapes_log(struct sp_op_context *context)
{
    return shapes_values(context, NULL, log);
}

static enum sp_status shapes_reciprocal(struct sp_op_context *context)
{
    return shapes_values(context, NULL, real_reciprocal);
}

static enum sp_status shapes_not(struct sp_op_context *context)
{
    enum sp_status status = shapes_bool(context);
    return status != SP_OK ? status : sp_data_unary(context, int_not, NULL);
}

/* A bound of Clip: an input since 11, an attribute before. False where it is given and not known. */
static bool read_bound(struct sp_op_context *context, const char *attribute, uint32_t input, double *real,
                       const struct sp_data **ret_data)
{
    *ret_data = NULL;
    if (context->version < 11) {
        *real = sp_node_float(context->node, attribute, *real);
        return true;
    }
    if (!sp_has_input(context, input))
        return true;
    const struct sp_data *data = sp_in_data(context, input);
    if (data == NULL || data->count != 1)
        return false;
    if (data->reals != NULL)
        *real = data->reals[0];
    *ret_data = data;
    return true;
}

/* Min and max with the bounds that are there. */
static enum sp_status shapes_clip(struct sp_op_context *context)
{
    enum sp_status status = shapes_same(context);
    const struct sp_data *low, *high;
    double least = -INFINITY, most = INFINITY;
    if (status != SP_OK || sp_data_room(context, 0) < 0 || !sp_data_available(context, 0))
        return status;
    const struct sp_data *from = sp_in_data(context, 0);
    if (from == NULL || !read_bound(context, "min", 1, &least, &low) || !read_bound(context, "max", 2, &most, &high))
        return SP_OK;
    struct sp_data *data = sp_data_new(context, 0, from->reals != NULL);
    if (data == NULL || data->count != from->count)
        return SP_OK;
    for (uint32_t i = 0; i < data->count; i++) {
        if (data->reals != NULL && from->reals != NULL) {
            double value = from->reals[i] < least ? least : from->reals[i];
            data->reals[i] = value > most ? most : value; /* the greatest wins where the bounds cross */
            continue;
        }
        struct sp_dim whole = from->ints[i];
        if (low != NULL)
            whole = low->ints != NULL ? sp_dim_max(context->dims, whole, low->ints[0]) : sp_dim_unknown();
        if (high != NULL)
            whole = high->ints != NULL ? sp_dim_min(context->dims, whole, high->ints[0]) : sp_dim_unknown();
        data->ints[i] = whole;
    }
    sp_data_attach(context, 0, data);
    return SP_OK;
}

/* ---- Dropout -------------------------------------------------------------------------------------------------- */

/* Whether the node may drop: since 12 by an input, in opset 1 to 6 by an attribute that says the contrary; and not
   where nothing is the share to drop, as exporters write it for a model that trains without. */
static bool is_training(struct sp_op_context *context)
{
    if (context->version < 7)
        return sp_node_int(context->node, "is_test", 0) == 0 && sp_node_float(context->node, "ratio", 0.5F) != 0;
    if (context->version < 12 || !sp_has_input(context, 2))
        return false;
    const struct sp_data *mode = sp_in_data(context, 2), *ratio = sp_in_data(context, 1);
    const bool is_off = mode != NULL && mode->ints != NULL && mode->count == 1 && sp_dim_is(mode->ints[0], 0);
    const bool drops_nothing = ratio != NULL && ratio->reals != NULL && ratio->count == 1 && ratio->reals[0] == 0;
    return !is_off && !drops_nothing;
}

static enum sp_status shapes_dropout(struct sp_op_context *context)
{
    enum sp_dtype dtype = sp_in_dtype(context, 0);
    enum sp_status status = shapes_same(context);
    if (status == SP_OK && context->node->output_count > 1)
        status =
            sp_set_output_shape(context, 1, context->version < 10 ? dtype : SP_DTYPE_BOOL, sp_in_shape(context, 0));
    return status == SP_OK && !is_training(context) ? sp_data_same(context) : status;
}

static enum sp_status rule_dropout(struct sp_op_context *context, struct sp_rule *rule)
{
    const struct sp_value *mask = context->node->output_count > 1 ? context->node->outputs[1] : NULL;
    bool has_mask = mask != NULL && (mask->use_count > 0 || mask->is_graph_output);
    enum sp_status status = sp_rule_from_entry(context, rule, context->node->op);
    int64_t mask_bytes = has_mask ? sp_value_bytes(mask) : 0; /* the mask is filled */
    if (is_training(context))
        sp_rule_term_output(rule, 1);
    else
        rule->bytes = mask_bytes < 0 ? -1 : (double)mask_bytes;
    return status;
}

/* ---- the entries ---------------------------------------------------------------------------------------------- */

const struct sp_op sp_ops_unary[] = {
    SP_ENTRY("", "Abs", 1, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Abs", .shapes = shapes_abs, .flops = 1),
    SP_ENTRY("", "Acos", 7, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Acos", .flags = SP_OP_FUNCTION,
             .shapes = shapes_same, .flops = 1),
    SP_ENTRY("", "Acosh", 9, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Acosh", .flags = SP_OP_FUNCTION,
             .shapes = shapes_same, .flops = 1),
    SP_ENTRY("", "Asin", 7, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Asin", .flags = SP_OP_FUNCTION,
             .shapes = shapes_same, .flops = 1),
    SP_ENTRY("", "Asinh", 9, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Asinh", .flags = SP_OP_FUNCTION,
             .shapes = shapes_same, .flops = 1),
    SP_ENTRY("", "Atan", 7, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Atan", .flags = SP_OP_FUNCTION,
             .shapes = shapes_same, .flops = 1),
    SP_ENTRY("", "Atanh", 9, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Atanh", .flags = SP_OP_FUNCTION,
             .shapes = shapes_same, .flops = 1),
    SP_ENTRY("", "BitwiseNot", 18, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator BitwiseNot", .shapes = shapes_same,
             .flops = 1),
    SP_ENTRY("", "Ceil", 1, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Ceil", .shapes = shapes_ceil, .flops = 1),
    SP_ENTRY("", "Celu", 12, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Celu", .flags = SP_OP_FUNCTION,
             .shapes = shapes_same, .flops = 1),
    SP_ENTRY("", "Cos", 7, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Cos", .flags = SP_OP_FUNCTION,
             .shapes = shapes_same, .flops = 1),
    SP_ENTRY("", "Cosh", 9, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Cosh", .flags = SP_OP_FUNCTION,
             .shapes = shapes_same, .flops = 1),
    SP_ENTRY("", "Elu", 1, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Elu",
             .flags = SP_OP_FUNCTION | SP_OP_IN_PLACE, .shapes = shapes_same, .flops = 1),
    SP_ENTRY("", "Erf", 9, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Erf", .flags = SP_OP_FUNCTION,
             .shapes = shapes_same, .flops = 1),
    SP_ENTRY("", "Exp", 1, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Exp", .flags = SP_OP_FUNCTION,
             .shapes = shapes_exp, .flops = 1),
    SP_ENTRY("", "Floor", 1, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Floor", .shapes = shapes_floor,
             .flops = 1),
    SP_ENTRY("", "Gelu", 20, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Gelu", .flags = SP_OP_FUNCTION,
             .shapes = shapes_same, .flops = 1),
    SP_ENTRY("", "HardSigmoid", 1, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator HardSigmoid",
             .flags = SP_OP_IN_PLACE, .shapes = shapes_same, .flops = 1),
    SP_ENTRY("", "HardSwish", 14, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator HardSwish", .shapes = shapes_same,
             .flops = 1),
    SP_ENTRY("", "IsInf", 10, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator IsInf", .shapes = shapes_bool,
             .flops = 1),
    SP_ENTRY("", "IsNaN", 9, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator IsNaN", .shapes = shapes_bool, .flops = 1),
    SP_ENTRY("", "LeakyRelu", 1, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator LeakyRelu", .flags = SP_OP_IN_PLACE,
             .shapes = shapes_same, .flops = 1),
    SP_ENTRY("", "Log", 1, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Log", .flags = SP_OP_FUNCTION,
             .shapes = shapes_log, .flops = 1),
    SP_ENTRY("", "Mish", 18, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Mish", .flags = SP_OP_FUNCTION,
             .shapes = shapes_same, .flops = 1),
    SP_ENTRY("", "Neg", 1, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Neg", .shapes = shapes_neg, .flops = 1),
    SP_ENTRY("", "Not", 1, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Not", .shapes = shapes_not, .flops = 1),
    SP_ENTRY("", "Reciprocal", 1, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Reciprocal",
             .shapes = shapes_reciprocal, .flops = 1),
    SP_ENTRY("", "Relu", 1, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Relu", .flags = SP_OP_IN_PLACE,
             .shapes = shapes_relu, .flops = 1),
    SP_ENTRY("", "Round", 11, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Round", .shapes = shapes_round,
             .flops = 1),
    SP_ENTRY("", "Selu", 1, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Selu",
             .flags = SP_OP_FUNCTION | SP_OP_IN_PLACE, .shapes = shapes_same, .flops = 1),
    SP_ENTRY("", "Shrink", 9, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Shrink", .shapes = shapes_same,
             .flops = 1),
    SP_ENTRY("", "Sigmoid", 1, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Sigmoid",
             .flags = SP_OP_FUNCTION | SP_OP_IN_PLACE, .shapes = shapes_same, .flops = 1),
    SP_ENTRY("", "Sign", 9, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Sign", .shapes = shapes_sign, .flops = 1),
    SP_ENTRY("", "Sin", 7, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Sin", .flags = SP_OP_FUNCTION,
             .shapes = shapes_same, .flops = 1),
    SP_ENTRY("", "Sinh", 9, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Sinh", .flags = SP_OP_FUNCTION,
             .shapes = shapes_same, .flops = 1),
    SP_ENTRY("", "Softplus", 1, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Softplus",
             .flags = SP_OP_FUNCTION | SP_OP_IN_PLACE, .shapes = shapes_same, .flops = 1),
    SP_ENTRY("", "Softsign", 1, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Softsign", .flags = SP_OP_IN_PLACE,
             .shapes = shapes_same, .flops = 1),
    SP_ENTRY("", "Sqrt", 1, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Sqrt", .shapes = shapes_sqrt, .flops = 1),
    SP_ENTRY("", "Swish", 24, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Swish", .flags = SP_OP_FUNCTION,
             .shapes = shapes_same, .flops = 1),
    SP_ENTRY("", "Tan", 7, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Tan", .flags = SP_OP_FUNCTION,
             .shapes = shapes_same, .flops = 1),
    SP_ENTRY("", "Tanh", 1, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Tanh",
             .flags = SP_OP_FUNCTION | SP_OP_IN_PLACE, .shapes = shapes_same, .flops = 1),
    SP_ENTRY("", "ThresholdedRelu", 10, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator ThresholdedRelu",
             .flags = SP_OP_IN_PLACE, .shapes = shapes_same, .flops = 1),
    SP_ENTRY("", "Clip", 1, 10, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator Clip (1, 6)", .shapes = shapes_clip,
             .flops = 1),
    SP_ENTRY("", "Clip", 11, 0, 1, 3, 1, 1, "[i..] [] [] -> [i..]", "ONNX operator Clip (11, 12, 13)",
             .shapes = shapes_clip, .flops = 1),
    SP_ENTRY("", "Dropout", 1, 11, 1, 1, 1, 2, "[i..] -> [i..] [i..]", "ONNX operator Dropout (1, 6, 7, 10)",
             .shapes = shapes_dropout, .rule = rule_dropout),
    SP_ENTRY("", "Dropout", 12, 0, 1, 3, 1, 2, "[i..] [] [] -> [i..] [i..]", "ONNX operator Dropout (12, 13, 22)",
             .shapes = shapes_dropout, .rule = rule_dropout, .lower = sp_lower_dropout),
    {.name = NULL},
};
