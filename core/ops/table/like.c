#include "ops/table/like.h"

#include "ops/table/factors.h"
#include "ops/table/rule.h"
#include "ops/table/rule_text.h"
#include "ops/table/shape_helpers.h"

/* ---- the view --------------------------------------------------------------------------------------------------- */

uint32_t sp_like_axis(uint32_t rank, uint32_t axis)
{
    if (axis == 0)
        return 0;
    return axis == 1 ? rank - 1 : axis - 1;
}

static bool has_channels_last(const struct sp_op_like *like, const struct sp_node *node)
{
    return like->layout == SP_LIKE_CHANNELS_LAST ||
           (like->layout == SP_LIKE_BY_ATTRIBUTE && sp_node_int(node, "channels_last", 0) != 0);
}

/* The extents with the last one as axis 1. */
static bool bring_forward(struct sp_arena *arena, struct sp_shape *shape)
{
    struct sp_dim *dims = SP_NEW_ARRAY(arena, shape->rank, struct sp_dim);
    for (uint32_t axis = 0; dims != NULL && axis < shape->rank; axis++)
        dims[axis] = shape->dims[sp_like_axis(shape->rank, axis)];
    shape->dims = dims;
    return dims != NULL;
}

/* A copy of an operand with its axes as the other operator has them; NULL without memory. */
static struct sp_value *seen(struct sp_op_context *context, const struct sp_value *value)
{
    struct sp_value *copy = SP_NEW(context->arena, struct sp_value);
    if (copy == NULL)
        return NULL;
    *copy = *value;
    copy->data = NULL;
    bool has_axes = copy->type.kind == SP_TYPE_TENSOR && copy->type.shape.has_rank && copy->type.shape.rank > 1;
    return !has_axes || bring_forward(context->arena, &copy->type.shape) ? copy : NULL;
}

/* Axis 1 of the weights holds the channels of one group of x, and the last axis does not. */
static bool are_weights_first(const struct sp_node *node, const struct sp_value *x, const struct sp_value *w)
{
    const struct sp_shape *from = &x->type.shape, *shape = &w->type.shape;
    if (!from->has_rank || !shape->has_rank || from->rank < 3 || shape->rank != from->rank)
        return false;
    struct sp_dim channels = from->dims[from->rank - 1], first = shape->dims[1], last = shape->dims[shape->rank - 1];
    int64_t group = sp_node_int(node, "group", 1), product;
    return sp_dim_is_known(channels) && sp_dim_is_known(first) &&
           !__builtin_mul_overflow(first.value, group, &product) && product == channels.value &&
           !sp_dim_equal(first, last);
}

static enum sp_status list_inputs(struct sp_op_context *context, struct sp_like_view *view)
{
    const struct sp_op_like *like = context->node->op->like;
    uint32_t given = context->node->input_count, count = like->input_count;
    if (like->step != 0)
        count = given <= like->inputs[0] ? 0 : (given - like->inputs[0] + like->step - 1) / like->step;
    else if (count == 0)
        count = given;
    view->inputs = SP_NEW_ARRAY(context->arena, count, uint32_t);
    view->node.inputs = SP_NEW_ARRAY(context->arena, count, struct sp_value *);
    if (view->inputs == NULL || view->node.inputs == NULL)
        return sp_fail_memory(context->err);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t own = like->step != 0          ? like->inputs[0] + i * like->step
                       : like->input_count != 0 ? like->inputs[i]
                                                : i;
        view->inputs[i] = own;
        view->node.inputs[i] = own < given ? context->node->inputs[own] : NULL;
    }
    while (like->step == 0 && count > 0 && view->inputs[count - 1] >= given)
        count--;
    view->node.input_count = count;
    return SP_OK;
}

/* A copy of an operand that has an element for each axis, or two (roi), in the order of the axes. */
static struct sp_value *reordered(struct sp_op_context *context, uint32_t input, uint32_t rank)
{
    const struct sp_data *data = sp_in_data(context, input);
    struct sp_value *copy = seen(context, context->node->inputs[input]);
    if (copy == NULL || data == NULL || rank < 2 || (data->count != rank && data->count != 2 * rank))
        return copy;
    struct sp_data *list = SP_NEW(context->arena, struct sp_data);
    struct sp_dim *ints = SP_NEW_ARRAY(context->arena, data->count, struct sp_dim);
    double *reals = SP_NEW_ARRAY(context->arena, data->count, double);
    if (list == NULL || ints == NULL || reals == NULL)
        return NULL;
    *list = *data;
    for (uint32_t i = 0; i < data->count; i++) {
        uint32_t from = i / rank * rank + sp_like_axis(rank, i % rank);
        if (data->ints != NULL)
            ints[i] = data->ints[from];
        if (data->reals != NULL)
            reals[i] = data->reals[from];
    }
    list->ints = data->ints != NULL ? ints : NULL;
    list->reals = data->reals != NULL ? reals : NULL;
    copy->data = list;
    return copy;
}

static enum sp_status set_layout(struct sp_op_context *context, struct sp_like_view *view)
{
    const struct sp_op_like *like = context->node->op->like;
    struct sp_value **inputs = view->node.inputs;
    view->is_last = has_channels_last(like, context->node) && view->node.input_count > 0 && inputs[0] != NULL;
    if (!view->is_last)
        return SP_OK;
    view->last_inputs = 1;
    if (like->has_weights_last && view->node.input_count > 1 && inputs[1] != NULL &&
        !are_weights_first(context->node, inputs[0], inputs[1]))
        view->last_inputs |= 2;
    for (uint32_t i = 0; i < 2 && i < view->node.input_count; i++) {
        if ((view->last_inputs >> i & 1) != 0)
            inputs[i] = seen(context, inputs[i]);
        if ((view->last_inputs >> i & 1) != 0 && inputs[i] == NULL)
            return sp_fail_memory(context->err);
    }
    for (uint32_t i = 1; i < view->node.input_count; i++) {
        if ((like->lists >> i & 1) == 0 || inputs[i] == NULL)
            continue;
        inputs[i] = reordered(context, view->inputs[i], inputs[0]->type.shape.rank);
        if (inputs[i] == NULL)
            return sp_fail_memory(context->err);
    }
    return SP_OK;
}

enum sp_status sp_like_view_of(struct sp_op_context *context, struct sp_like_view *ret_view)
{
    const struct sp_op_like *like = context->node->op->like;
    struct sp_like_view view = {.node = *context->node};
    const char *domain = like->domain != NULL ? like->domain : "";
    view.node.version = like->version != 0 ? like->version : context->version;
    if (like->version_attribute != NULL)
        view.node.version = sp_node_int(context->node, like->version_attribute, view.node.version);
    view.node.op = sp_op_find(domain, like->name, view.node.version);
    if (view.node.op == NULL)
        return sp_op_fail(context, "NO_RULE", "version %lld of operator '%s', which it is like, is not known",
                          (long long)view.node.version, like->name);
    enum sp_status status = list_inputs(context, &view);
    if (status == SP_OK)
        status = set_layout(context, &view);
    if (status == SP_OK && view.is_last && view.node.output_count > 0 && view.node.outputs[0] != NULL) {
        struct sp_value **outputs = SP_NEW_ARRAY(context->arena, view.node.output_count, struct sp_value *);
        for (uint32_t i = 0; outputs != NULL && i < view.node.output_count; i++)
            outputs[i] = i == 0 ? seen(context, view.node.outputs[0]) : view.node.outputs[i];
        if (outputs == NULL || outputs[0] == NULL)
            return sp_fail_memory(context->err);
        view.node.outputs = outputs;
    }
    if (status == SP_OK)
        *ret_view = view;
    return status;
}

static struct sp_op_context context_of(const struct sp_op_context *context, struct sp_like_view *view)
{
    struct sp_op_context own = *context;
    own.node = &view->node;
    own.version = view->node.version;
    return own;
}

/* ---- shapes ----------------------------------------------------------------------------------------------------- */

/* Output 0 as the other operator made it, with the node's own axes. */
static enum sp_status carry_back(struct sp_op_context *context, const struct sp_like_view *view)
{
    const struct sp_shape *shape = &view->node.outputs[0]->type.shape;
    enum sp_dtype dtype = view->node.outputs[0]->type.dtype;
    if (!view->is_last)
        return SP_OK;
    if (!shape->has_rank)
        return sp_set_output_unranked(context, 0, dtype);
    struct sp_dim *dims = sp_new_dims(context, shape->rank);
    if (dims == NULL)
        return sp_fail_memory(context->err);
    for (uint32_t axis = 0; axis < shape->rank; axis++)
        dims[shape->rank > 1 ? sp_like_axis(shape->rank, axis) : axis] = shape->dims[axis];
    return sp_set_output(context, 0, dtype, shape->rank, dims);
}

const char *sp_like_form(struct sp_op_context *context)
{
    const struct sp_op *op = context->node->op;
    return op->form != NULL && op->rule == sp_rule_like ? op->form(context) : NULL;
}

enum sp_status sp_shapes_like(struct sp_op_context *context)
{
    const struct sp_op_like *like = context->node->op->like;
    struct sp_like_view view = {0};
    const char *form = sp_like_form(context);
    if (form != NULL)
        return sp_shapes_by_text(context, form);
    enum sp_status status = sp_like_view_of(context, &view);
    if (status != SP_OK || view.node.op == NULL)
        return status;
    if (view.node.input_count < view.node.op->min_inputs)
        return sp_op_fail(context, "MISSING_INPUT", "it lacks an operand of what it computes, '%s'", like->name);
    struct sp_op_context own = context_of(context, &view);
    status = view.node.op->shapes(&own);
    struct sp_value *y = context->node->output_count > 0 ? context->node->outputs[0] : NULL;
    if (status != SP_OK || y == NULL)
        return status;
    status = carry_back(context, &view);
    if (like->dtype != SP_DTYPE_UNDEFINED)
        y->type.dtype = like->dtype;
    else if (like->typed_by != 0 && sp_has_input(context, like->typed_by))
        y->type.dtype = sp_in_dtype(context, like->typed_by);
    for (uint32_t i = 0; !like->keeps_values && i < context->node->output_count; i++)
        if (context->node->outputs[i] != NULL)
            context->node->outputs[i]->data = NULL;
    return status;
}

/* ---- the rule --------------------------------------------------------------------------------------------------- */

/* The factors of an operand's axes, carried to where the node has them. */
static void carry_operand(const struct sp_operand_rule *from, bool is_last, struct sp_operand_rule *to)
{
    struct sp_axis_factors *axes = to->axes;
    *to = *from;
    to->axes = axes;
    for (uint32_t axis = 0; axis < to->rank; axis++)
        axes[is_last && to->rank > 1 ? sp_like_axis(to->rank, axis) : axis] = from->axes[axis];
}

static void map_broadcast(struct sp_op_context *context, struct sp_rule *rule, uint32_t input)
{
    const struct sp_shape *own = sp_in_shape(context, input), *y = &context->node->outputs[0]->type.shape;
    for (uint32_t axis = 0; own != NULL && own->rank <= y->rank && axis < own->rank; axis++) {
        uint32_t to = y->rank - own->rank + axis;
        const struct sp_axis_factors *factors = &rule->outputs[0].axes[to];
        for (uint8_t i = 0; sp_axis_takes(own->dims[axis], y->dims[to]) && i < factors->count; i++)
            sp_rule_map_input(rule, input, axis, factors->factors[i]);
    }
}

static enum sp_status rule_of_form(struct sp_op_context *context, struct sp_rule *rule)
{
    enum sp_status status = sp_rule_from_text(context, rule, sp_like_form(context), 0, NULL);
    if (status == SP_OK && context->node->op->work != NULL)
        sp_rule_terms_of(rule, context->node->op->work);
    return status;
}

enum sp_status sp_rule_like(struct sp_op_context *context, struct sp_rule *rule)
{
    const struct sp_op_like *like = context->node->op->like;
    struct sp_rule *other = NULL;
    struct sp_like_view view = {0};
    if (sp_like_form(context) != NULL)
        return rule_of_form(context, rule);
    enum sp_status status = sp_like_view_of(context, &view);
    if (status == SP_OK)
        status = sp_rule_new(&view.node, rule->arena, &other, context->err);
    if (status != SP_OK || other == NULL)
        return status;
    struct sp_op_context own = context_of(context, &view);
    status = sp_op_fill_rule(&own, other, view.node.op);
    if (status != SP_OK)
        return status;
    for (uint32_t i = 0; like->is_rounded && i < other->factor_count; i++) {
        if (other->factors[i].kind != SP_FACTOR_REDUCTION)
            continue;
        other->factors[i].kind = SP_FACTOR_REPLICATE;
        other->factors[i].combiner = SP_COMBINE_NONE;
    }
    rule->factor_count = other->factor_count;
    rule->factors = other->factors;
    rule->term_count = other->term_count;
    rule->terms = other->terms;
    rule->bytes = other->bytes;
    rule->attention = other->attention;
    rule->kernels = other->kernels;
    rule->drawn = other->drawn;
    rule->faults |= other->faults;
    for (uint32_t i = 0; i < view.node.input_count; i++)
        if (view.inputs[i] < rule->input_count)
            carry_operand(&other->inputs[i], view.is_last && (view.last_inputs >> i & 1) != 0,
                          &rule->inputs[view.inputs[i]]);
    for (uint32_t i = 0; i < rule->output_count; i++) {
        carry_operand(&other->outputs[i], view.is_last && i == 0, &rule->outputs[i]);
        if (rule->outputs[i].past_of != 0)
            rule->outputs[i].past_of = view.inputs[rule->outputs[i].past_of - 1] + 1;
    }
    for (uint32_t input = 0; input < rule->input_count; input++)
        if (input < 32 && (like->broadcast >> input & 1) != 0)
            map_broadcast(context, rule, input);
    return SP_OK;
}

void sp_rule_make_whole(struct sp_rule *rule)
{
    for (uint32_t i = 0; i < rule->factor_count; i++) {
        rule->factors[i].kind = SP_FACTOR_REPLICATE;
        rule->factors[i].combiner = SP_COMBINE_NONE;
    }
}
