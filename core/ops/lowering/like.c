/*
 * Lowering of operators that are another one on operands that lie elsewhere (ops/table/like.h).
 *
 * The other operator's function gets the view of the node: its operands, where and with the axes that it expects. What
 * it asks for and gives is told to the node's own lowering. The node's own operator, when the function calls for it, has
 * the inputs that the view does not have as well.
 *
 * Where channels are last, a piece that the function gets is the transposition of a stored one. Handed to the node's
 * own operator it is the stored one again, and is never written.
 */
#include "ops/lowering/functions.h"
#include "ops/lowering/internal.h"
#include "ops/lowering/parts.h"

static bool view_operand(struct sp_lowering *own, bool is_last, const struct sp_lower_operand *from,
                         const struct sp_operand_rule *rule, struct sp_lower_operand *to,
                         struct sp_operand_rule *to_rule)
{
    struct sp_lower_axis *axes = SP_LOWER_ARRAY(own, from->rank, struct sp_lower_axis);
    struct sp_axis_factors *factors = SP_LOWER_ARRAY(own, rule->rank, struct sp_axis_factors);
    *to = *from;
    *to_rule = *rule;
    if (!is_last || axes == NULL || factors == NULL)
        return axes != NULL && factors != NULL;
    for (uint32_t axis = 0; axis < from->rank; axis++)
        axes[axis] = from->axes[sp_like_axis(from->rank, axis)];
    for (uint32_t axis = 0; axis < rule->rank; axis++)
        factors[axis] = rule->axes[sp_like_axis(rule->rank, axis)];
    to->axes = axes;
    to_rule->axes = factors;
    return true;
}

static bool view_operands(struct sp_lowering *own, const struct sp_like_view *other, struct sp_lower_operand *inputs,
                          struct sp_lower_operand *outputs, struct sp_rule *rule)
{
    bool is_done = inputs != NULL && outputs != NULL && rule->inputs != NULL && rule->outputs != NULL;
    for (uint32_t i = 0; is_done && i < other->node.input_count; i++) {
        uint32_t input = other->inputs[i];
        bool is_moved = other->is_last && (other->last_inputs >> i & 1) != 0 && own->inputs[input].rank > 1;
        is_done =
            view_operand(own, is_moved, &own->inputs[input], &own->rule->inputs[input], &inputs[i], &rule->inputs[i]);
    }
    for (uint32_t i = 0; is_done && i < own->output_count; i++)
        is_done = view_operand(own, other->is_last && i == 0 && own->outputs[0].rank > 1, &own->outputs[i],
                               &own->rule->outputs[i], &outputs[i], &rule->outputs[i]);
    return is_done;
}

enum sp_status sp_lower_like(struct sp_lowering *lower)
{
    struct sp_op_context context = sp_lower_context(lower);
    struct sp_lower_view view = {.own = lower};
    if (sp_like_form(&context) != NULL)
        return sp_lower_default(lower);
    enum sp_status status = sp_like_view_of(&context, &view.other);
    if (status != SP_OK)
        return status;
    uint32_t input_count = view.other.node.input_count;
    struct sp_lower_operand *inputs = SP_LOWER_ARRAY(lower, input_count, struct sp_lower_operand);
    struct sp_lower_operand *outputs = SP_LOWER_ARRAY(lower, lower->output_count, struct sp_lower_operand);
    struct sp_rule rule = *lower->rule;
    rule.input_count = input_count;
    rule.inputs = SP_LOWER_ARRAY(lower, input_count, struct sp_operand_rule);
    rule.outputs = SP_LOWER_ARRAY(lower, lower->output_count, struct sp_operand_rule);
    if (!view_operands(lower, &view.other, inputs, outputs, &rule))
        return sp_lower_status(lower);
    struct sp_lowering other = *lower;
    other.node = &view.other.node;
    other.version = view.other.node.version;
    other.rule = &rule;
    other.input_count = input_count;
    other.inputs = inputs;
    other.outputs = outputs;
    other.view = &view;
    return view.other.node.op->lower != NULL ? view.other.node.op->lower(&other) : sp_lower_default(&other);
}
