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

#define VALUES(function, on_ints, on_reals)                                                                            \
    static enum sp_status function(struct sp_op_context *context)                                                      \
    {                                                                                                                  \
        return shapes_values(context, on_ints, on_reals);                                                              \
    }

VALUES(shapes_neg, int_neg, real_neg)
VALUES(shapes_abs, int_abs, fabs)
VALUES(shapes_relu, int_relu, real_relu)
VALUES(shapes_sign, int_sign, real_sign)
VALUES(shapes_sqrt, NULL, sqrt)
VALUES(shapes_ceil, NULL, ceil)
VALUES(shapes_floor, NULL, floor)
VALUES(shapes_round, NULL, rint) /* Halves go to the even neighbour, which is rint()'s default mode. */
VALUES(shapes_exp, NULL, exp)
VALUES(shapes_log, NULL, log)
VALUES(shapes_reciprocal, NULL, real_reciprocal)

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

/* A name, the first version, shapes with known values, and flags. */
#define UNARY(name_, since_, shapes_, flags_)                                                                          \
    SP_ENTRY("", name_, since_, 0, 1, 1, 1, 1, "[i..] -> [i..]", "ONNX operator " name_, .flags = flags_,              \
             .shapes = shapes_, .flops = 1)

const struct sp_op sp_ops_unary[] = {
    UNARY("Abs", 1, shapes_abs, 0),
    UNARY("Acos", 7, shapes_same, SP_OP_FUNCTION),
    UNARY("Acosh", 9, shapes_same, SP_OP_FUNCTION),
    UNARY("Asin", 7, shapes_same, SP_OP_FUNCTION),
    UNARY("Asinh", 9, shapes_same, SP_OP_FUNCTION),
    UNARY("Atan", 7, shapes_same, SP_OP_FUNCTION),
    UNARY("Atanh", 9, shapes_same, SP_OP_FUNCTION),
    UNARY("BitwiseNot", 18, shapes_same, 0),
    UNARY("Ceil", 1, shapes_ceil, 0),
    UNARY("Celu", 12, shapes_same, SP_OP_FUNCTION),
    UNARY("Cos", 7, shapes_same, SP_OP_FUNCTION),
    UNARY("Cosh", 9, shapes_same, SP_OP_FUNCTION),
    UNARY("Elu", 1, shapes_same, SP_OP_FUNCTION | SP_OP_IN_PLACE),
    UNARY("Erf", 9, shapes_same, SP_OP_FUNCTION),
    UNARY("Exp", 1, shapes_exp, SP_OP_FUNCTION),
    UNARY("Floor", 1, shapes_floor, 0),
    UNARY("Gelu", 20, shapes_same, SP_OP_FUNCTION),
    UNARY("HardSigmoid", 1, shapes_same, SP_OP_IN_PLACE),
    UNARY("HardSwish", 14, shapes_same, 0),
    UNARY("IsInf", 10, shapes_bool, 0),
    UNARY("IsNaN", 9, shapes_bool, 0),
    UNARY("LeakyRelu", 1, shapes_same, SP_OP_IN_PLACE),
    UNARY("Log", 1, shapes_log, SP_OP_FUNCTION),
    UNARY("Mish", 18, shapes_same, SP_OP_FUNCTION),
    UNARY("Neg", 1, shapes_neg, 0),
    UNARY("Not", 1, shapes_not, 0),
    UNARY("Reciprocal", 1, shapes_reciprocal, 0),
    UNARY("Relu", 1, shapes_relu, SP_OP_IN_PLACE),
    UNARY("Round", 11, shapes_round, 0),
    UNARY("Selu", 1, shapes_same, SP_OP_FUNCTION | SP_OP_IN_PLACE),
    UNARY("Shrink", 9, shapes_same, 0),
    UNARY("Sigmoid", 1, shapes_same, SP_OP_FUNCTION | SP_OP_IN_PLACE),
    UNARY("Sign", 9, shapes_sign, 0),
    UNARY("Sin", 7, shapes_same, SP_OP_FUNCTION),
    UNARY("Sinh", 9, shapes_same, SP_OP_FUNCTION),
    UNARY("Softplus", 1, shapes_same, SP_OP_FUNCTION | SP_OP_IN_PLACE),
    UNARY("Softsign", 1, shapes_same, SP_OP_IN_PLACE),
    UNARY("Sqrt", 1, shapes_sqrt, 0),
    UNARY("Swish", 24, shapes_same, SP_OP_FUNCTION),
    UNARY("Tan", 7, shapes_same, SP_OP_FUNCTION),
    UNARY("Tanh", 1, shapes_same, SP_OP_FUNCTION | SP_OP_IN_PLACE),
    UNARY("ThresholdedRelu", 10, shapes_same, SP_OP_IN_PLACE),
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
