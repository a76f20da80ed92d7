/*
 * ai.onnx.preview.training: steps of optimisers, and Gradient.
 *
 *     Adagrad   R T, X.. G.. H..      -> X.. H..
 *     Adam      R T, X.. G.. V.. H..  -> X.. V.. H..
 *     Momentum  R T, X.. G.. V..      -> X.. V..
 *
 * The i-th tensor of each group, before and after the step, is one elementwise computation: all axes are parallel and
 * split alike. The rate R and the count T are scalars.
 *
 * A node may hold a whole model's tensors. Tensors for which a rule has no factors left are whole on every device.
 *
 * FLOPs for each element of X, counting the operations of the formulas: Adagrad 9 (regularise 2, accumulate 2, square
 * root and epsilon 2, step 3), Adam 15 (regularise 2, averages 3 and 4, square root and epsilon 2, step 3, regularise
 * again 1), Momentum 7 (regularise 2, average 3, step 2), 9 for Nesterov's (average into the step 2).
 *
 * Gradient stands for the derivative of a part of the graph, which it names in attributes. Its i-th output is the
 * derivative by the i-th tensor of `xs`, whose value is its i-th input, and has that tensor's type. What it computes is
 * not seen from the node: everything is whole, and only its bytes are counted.
 */
#include <stdio.h>
#include <string.h>

#include "ops/table/factors.h"
#include "ops/table/families.h"
#include "ops/table/shape_helpers.h"

#define TRAINING "ai.onnx.preview.training"

/* Inputs in front of the groups: R and T. */
#define SCALARS 2

/* ---- optimisers ----------------------------------------------------------------------------------------------- */

/* Groups of inputs (X, G, states) and of outputs (X, states); output group 0 is input group 0, and output group i is
   input group i + 1: gradients do not come out. */
struct step {
    uint32_t input_groups, output_groups;
};

static const struct step adagrad = {3, 2}, adam = {4, 3}, momentum = {3, 2};

static enum sp_status count_tensors(struct sp_op_context *context, const struct step *step, uint32_t *ret_count)
{
    const struct sp_node *node = context->node;
    uint32_t tensors = node->input_count - SCALARS, count = tensors / step->input_groups;
    if (tensors % step->input_groups != 0)
        return sp_op_fail(context, "OPERAND_COUNT", "it has %u tensors behind R and T, which are not %u for each one",
                          tensors, step->input_groups);
    if (node->output_count != count * step->output_groups)
        return sp_op_fail(context, "OPERAND_COUNT", "it has %u outputs where its inputs ask for %u", node->output_count,
                          count * step->output_groups);
    *ret_count = count;
    return SP_OK;
}

static enum sp_status shapes_step(struct sp_op_context *context, const struct step *step)
{
    uint32_t count = 0;
    enum sp_status status = count_tensors(context, step, &count);
    for (uint32_t group = 0; status == SP_OK && group < step->output_groups; group++) {
        for (uint32_t i = 0; status == SP_OK && i < count; i++) {
            uint32_t input = SCALARS + (group == 0 ? 0 : group + 1) * count + i;
            status = sp_set_output_shape(context, group * count + i, sp_in_dtype(context, input),
                                         sp_in_shape(context, input));
        }
    }
    return status;
}

/* The factors of the i-th tensor, mapped in every group. */
static void map_tensor(struct sp_op_context *context, struct sp_rule *rule, const struct step *step, uint32_t count,
                       uint32_t i, struct sp_factor_list *work)
{
    const struct sp_shape *x = sp_in_shape(context, SCALARS + i);
    for (uint32_t axis = 0; x != NULL && axis < x->rank; axis++) {
        char name[SP_FACTOR_NAME_SIZE];
        (void)snprintf(name, sizeof name, "x%ud%u", i % 1000, axis % 100);
        uint8_t factor = sp_rule_factor(rule, name, SP_FACTOR_PARALLEL, x->dims[axis]);
        sp_factor_list_add(work, factor);
        for (uint32_t group = 0; group < step->input_groups; group++) {
            uint32_t input = SCALARS + group * count + i;
            if (axis < rule->inputs[input].rank)
                sp_rule_map_input(rule, input, axis, factor);
        }
        for (uint32_t group = 0; group < step->output_groups; group++) {
            uint32_t output = group * count + i;
            if (axis < rule->outputs[output].rank)
                sp_rule_map_output(rule, output, axis, factor);
        }
    }
}

/* A term for each tensor; the last of the terms that a rule has room for is a number, of all that are left. */
static enum sp_status rule_step(struct sp_op_context *context, struct sp_rule *rule, const struct step *step,
                                double flops)
{
    uint32_t count = 0;
    double rest = 0;
    enum sp_status status = count_tensors(context, step, &count);
    for (uint32_t i = 0; status == SP_OK && i < count; i++) {
        const struct sp_shape *x = sp_in_shape(context, SCALARS + i);
        struct sp_factor_list work = {0};
        int64_t elements = x != NULL ? sp_shape_elements(x) : 0;
        bool has_room = x != NULL && rule->factor_count + x->rank <= SP_RULE_MAX_FACTORS;
        if (has_room)
            map_tensor(context, rule, step, count, i, &work);
        if (has_room && rule->term_count + 1 < SP_RULE_MAX_TERMS)
            sp_rule_term_list(rule, flops, &work);
        else
            rest += flops * (elements > 0 ? (double)elements : 0);
    }
    if (rest > 0)
        sp_rule_term(rule, rest, 0, NULL);
    return status;
}

static enum sp_status shapes_adagrad(struct sp_op_context *context)
{
    return shapes_step(context, &adagrad);
}

static enum sp_status rule_adagrad(struct sp_op_context *context, struct sp_rule *rule)
{
    return rule_step(context, rule, &adagrad, 9);
}

static enum sp_status shapes_adam(struct sp_op_context *context)
{
    return shapes_step(context, &adam);
}

static enum sp_status rule_adam(struct sp_op_context *context, struct sp_rule *rule)
{
    return rule_step(context, rule, &adam, 15);
}

static enum sp_status shapes_momentum(struct sp_op_context *context)
{
    const char *mode = sp_node_string(context->node, "mode", "standard");
    if (strcmp(mode, "standard") != 0 && strcmp(mode, "nesterov") != 0)
        return sp_op_fail(context, "ATTRIBUTE_VALUE", "attribute 'mode' is '%.40s' instead of standard or nesterov",
                          mode);
    return shapes_step(context, &momentum);
}

static enum sp_status rule_momentum(struct sp_op_context *context, struct sp_rule *rule)
{
    bool is_nesterov = strcmp(sp_node_string(context->node, "mode", "standard"), "nesterov") == 0;
    return rule_step(context, rule, &momentum, is_nesterov ? 9 : 7);
}

/* ---- Gradient ------------------------------------------------------------------------------------------------- */

static enum sp_status shapes_gradient(struct sp_op_context *context)
{
    const struct sp_node *node = context->node;
    const struct sp_attribute *xs = sp_node_attribute(node, "xs"), *zs = sp_node_attribute(node, "zs");
    uint32_t x_count = xs != NULL ? xs->count : 0, z_count = zs != NULL ? zs->count : 0;
    enum sp_status status = SP_OK;
    if (x_count == 0)
        return sp_op_fail(context, "MISSING_ATTRIBUTE", "the attribute 'xs' is missing");
    if (node->input_count != x_count + z_count || node->output_count != x_count)
        return sp_op_fail(context, "OPERAND_COUNT",
                          "it has %u inputs and %u outputs; its attributes name %u tensors that it takes and %u that "
                          "it differentiates by",
                          node->input_count, node->output_count, x_count + z_count, x_count);
    for (uint32_t i = 0; status == SP_OK && i < x_count; i++)
        status = sp_set_output_shape(context, i, sp_in_dtype(context, i), sp_in_shape(context, i));
    return status;
}

const struct sp_op sp_ops_training[] = {
    SP_ENTRY(TRAINING, "Adagrad", 1, 0, 3, UINT32_MAX, 1, UINT32_MAX,
             "[] [] [d..] [d..] [d..] -> [d..] [d..]; so for each tensor", TRAINING " operator Adagrad (1)",
             .shapes = shapes_adagrad, .rule = rule_adagrad),
    SP_ENTRY(TRAINING, "Adam", 1, 0, 3, UINT32_MAX, 1, UINT32_MAX,
             "[] [] [d..] [d..] [d..] [d..] -> [d..] [d..] [d..]; so for each tensor", TRAINING " operator Adam (1)",
             .shapes = shapes_adam, .rule = rule_adam),
    SP_ENTRY(TRAINING, "Momentum", 1, 0, 3, UINT32_MAX, 1, UINT32_MAX,
             "[] [] [d..] [d..] [d..] -> [d..] [d..]; so for each tensor", TRAINING " operator Momentum (1)",
             .shapes = shapes_momentum, .rule = rule_momentum),
    SP_ENTRY(TRAINING, "Gradient", 1, 0, 1, UINT32_MAX, 1, UINT32_MAX, "[_..].. -> [_..]..; all whole",
             TRAINING " operator Gradient (1)", .shapes = shapes_gradient),
    {.name = NULL},
};
