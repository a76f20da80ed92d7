#include <string.h>

#include "onnx/reader.h"
#include "ops/shapes/internal.h"
#include "ops/shapes/merge.h"
#include "ops/table/shape_helpers.h"

/* Nodes between two calls of the watch. */
#define TICK_NODES 1024

/* Results inside each other whose insides are still to be told: one for each level, and the other branch. */
#define MAX_OPEN (SP_MAX_CALL_DEPTH + SP_MAX_NESTING + 2)

/* ---- frames -------------------------------------------------------------------------------------------------- */

static void pop(struct sp_shape_walk *walk)
{
    struct sp_shape_frame *frame = walk->top;
    walk->top = frame->below;
    walk->quiet -= frame->is_quiet;
    walk->calls -= frame->kind == SP_FRAME_CALL;
    frame->below = walk->unused;
    walk->unused = frame;
}

/* ---- one node ------------------------------------------------------------------------------------------------ */

/* Operands without the omitted ones at the end. */
static uint32_t given_count(struct sp_value *const *values, uint32_t count)
{
    while (count > 0 && values[count - 1] == NULL)
        count--;
    return count;
}

static enum sp_status check_arity(struct sp_op_context *context, const struct sp_op *op)
{
    const struct sp_node *node = context->node;
    uint32_t inputs = given_count(node->inputs, node->input_count);
    uint32_t outputs = given_count(node->outputs, node->output_count);
    for (uint32_t i = 0; i < op->min_inputs; i++) {
        if (!sp_has_input(context, i))
            return sp_op_fail(context, "MISSING_INPUT", "its input %u, which %s-%lld requires, is missing", i, op->name,
                              (long long)context->version);
    }
    if (inputs > op->max_inputs)
        return sp_op_fail(context, "TOO_MANY_INPUTS", "it has %u inputs where %s-%lld takes at most %u", inputs,
                          op->name, (long long)context->version, op->max_inputs);
    if (node->output_count < op->min_outputs)
        return sp_op_fail(context, "MISSING_OUTPUT", "it has %u outputs where %s-%lld has at least %u",
                          node->output_count, op->name, (long long)context->version, op->min_outputs);
    for (uint32_t i = 0; op->max_outputs != UINT32_MAX && i < op->min_outputs; i++) {
        if (node->outputs[i] == NULL)
            return sp_op_fail(context, "MISSING_OUTPUT", "its output %u, which %s-%lld always has, has no name", i,
                              op->name, (long long)context->version);
    }
    if (outputs > op->max_outputs)
        return sp_op_fail(context, "TOO_MANY_OUTPUTS", "it has %u outputs where %s-%lld has at most %u", outputs,
                          op->name, (long long)context->version, op->max_outputs);
    return SP_OK;
}

static bool has_constant_inputs(const struct sp_node *node)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (node->inputs[i] != NULL && !node->inputs[i]->is_constant)
            return false;
    }
    return true;
}

static bool is_constant_result(const struct sp_node *node)
{
    uint32_t flags = node->op->flags;
    if (flags & SP_OP_RANDOM)
        return false;
    if (has_constant_inputs(node))
        return true;
    if ((flags & SP_OP_METADATA) && sp_shape_elements(&node->inputs[0]->type.shape) >= 0)
        return true;
    return sp_shape_has_known_results(node);
}

void sp_shape_forget(struct sp_node *node)
{
    node->is_folded = false;
    for (uint32_t i = 0; i < node->output_count; i++) {
        struct sp_value *value = node->outputs[i];
        if (value == NULL)
            continue;
        value->type = (struct sp_type){0};
        value->data = NULL;
        value->is_constant = false;
        value->quantized_as = SP_DTYPE_UNDEFINED;
        value->stored_bits = 0;
    }
}

enum sp_status sp_shape_join_outputs(struct sp_shape_walk *walk, struct sp_node *node, uint32_t symbols_before)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < node->output_count; i++) {
        struct sp_value *value = node->outputs[i];
        if (value == NULL)
            continue;
        status = sp_shape_forgive(walk, node, sp_shape_join(walk, node, value, symbols_before));
        if (status == SP_OK && !sp_name_open_axes(walk->model, &value->type, value->name, NULL))
            status = sp_fail_memory(walk->err);
    }
    return status;
}

static enum sp_status visit_known(struct sp_shape_walk *walk, struct sp_node *node)
{
    struct sp_op_context context = sp_shape_context(walk, node);
    struct sp_error accepted;
    sp_error_clear(&accepted);
    context.accepted = &accepted;
    uint32_t symbols_before = sp_dims_symbol_count(walk->model->dims);
    enum sp_status status = check_arity(&context, node->op);
    if (status == SP_OK)
        status = node->op->shapes(&context);
    if (status == SP_OK)
        status = sp_shape_accept(walk, node, node->inputs, &accepted);
    if (status == SP_OK && sp_control_kind(node->op) != SP_CONTROL_NONE)
        status = sp_shape_open_control(walk, node);
    else if (status == SP_OK)
        sp_shape_set_constant(node, is_constant_result(node));
    if (status == SP_OK && walk->top->node == node)
        return SP_OK; /* its graphs come first */
    if (status != SP_OK) {
        if (walk->top->node == node) /* its graphs could not be begun */
            pop(walk);
        status = sp_shape_forgive(walk, node, status);
        if (status != SP_OK)
            return status;
        sp_shape_forget(node);
    }
    status = sp_shape_join_outputs(walk, node, symbols_before);
    if (status == SP_OK)
        sp_shape_set_stored(walk, node);
    return status;
}

/* Tells of an operator set that the model uses and does not import. */
static enum sp_status accept_opset(struct sp_shape_walk *walk, const struct sp_node *node)
{
    struct sp_error accepted;
    if (walk->model->ir_version < SP_FIRST_IR_WITH_OPSETS || sp_graph_import(node->graph, node->domain) != 0)
        return SP_OK;
    const char *domain = node->domain[0] == '\0' ? "ai.onnx" : node->domain;
    sp_error_clear(&accepted);
    (void)sp_fail(&accepted, SP_ERR_MODEL, "DOMAIN_NOT_IMPORTED",
                  "The model does not import the operator set '%.80s'; version %lld is taken.", domain,
                  (long long)node->version);
    return sp_shape_accept(walk, node, node->domain, &accepted);
}

/* Symbols that the node makes are named by its operator and how many of these stand before it. */
static void begin_symbols(struct sp_shape_walk *walk, struct sp_node *node)
{
    struct sp_hash_slot *slot = node->ordinal == 0 ? sp_hash_map_put(&walk->kinds, (uintptr_t)node->op_type) : NULL;
    if (slot != NULL)
        node->ordinal = (uint32_t)++slot->number;
    sp_dims_begin_node(walk->model->dims, node->ordinal > 0 ? node->ordinal - 1 : 0);
}

static enum sp_status visit_node(struct sp_shape_walk *walk, struct sp_node *node)
{
    sp_shape_forget(node);
    sp_shape_find_op(walk, node);
    const enum sp_status told = accept_opset(walk, node);
    if (told != SP_OK)
        return told;
    begin_symbols(walk, node);
    if (node->op != NULL)
        return visit_known(walk, node);
    const struct sp_function *function = sp_onnx_function(walk->model, node);
    if (function != NULL) {
        enum sp_status status = sp_shape_open_call(walk, node, function);
        if (status == SP_OK)
            return SP_OK;
        status = sp_shape_forgive(walk, node, status);
        return status != SP_OK ? status : sp_shape_join_outputs(walk, node, UINT32_MAX);
    }
    if (walk->quiet == 0 && sp_shape_is_news(walk, node, 1) && walk->summary.unknown_op_count++ == 0)
        walk->summary.first_unknown_op = node;
    return sp_shape_join_outputs(walk, node, UINT32_MAX);
}

/* ---- the walk ------------------------------------------------------------------------------------------------ */

static enum sp_status tick(struct sp_shape_walk *walk)
{
    uint32_t total = walk->model->graph->node_count, done = total;
    if (walk->visited++ % TICK_NODES != 0)
        return SP_OK;
    for (const struct sp_shape_frame *frame = walk->top; frame != NULL; frame = frame->below)
        done = frame->next; /* of the main graph, at last */
    double fraction = total == 0 ? 1.0 : (double)done / total;
    if (!sp_watch_tick(walk->options->watch, "shapes", fraction, 0, 0))
        return sp_fail(walk->err, SP_ERR_CANCELLED, "CANCELLED", "The job was cancelled.");
    return SP_OK;
}

/* A result of a call or of a branch, as it is called inside: output `index` of `graph`. It takes the type of the one
   outside where inference says nothing of it. */
static bool tell_inner(const struct sp_graph *graph, uint32_t index, const struct sp_type *type,
                       struct sp_value **ret_inner)
{
    struct sp_value *inner = graph != NULL && index < graph->output_count ? graph->outputs[index] : NULL;
    *ret_inner = inner;
    if (inner == NULL || (inner->type.kind != SP_TYPE_NONE && inner->type.kind != SP_TYPE_TENSOR) ||
        (inner->type.kind == SP_TYPE_TENSOR && inner->type.shape.has_rank))
        return false;
    inner->type = *type;
    return true;
}

/* A node's result and the one of its body or branches are one tensor, so what the file declares of the one holds for the
   other, however deep the calls are: plans cut a tensor by the type of what makes it. */
static void tell_result(struct sp_value *outer)
{
    struct sp_value *open[MAX_OPEN], *inner;
    uint32_t count = 0;
    if (outer == NULL || outer->type.kind != SP_TYPE_TENSOR || !outer->type.shape.has_rank)
        return;
    open[count++] = outer;
    while (count > 0) {
        const struct sp_value *value = open[--count];
        const struct sp_node *node = value->producer;
        const bool is_branching = node != NULL && sp_control_kind(node->op) == SP_CONTROL_IF;
        if (node != NULL && count < MAX_OPEN && tell_inner(node->body, value->producer_output, &value->type, &inner))
            open[count++] = inner;
        for (uint32_t i = 0; is_branching && i < node->attribute_count && count < MAX_OPEN; i++) {
            const struct sp_attribute *branch = &node->attributes[i];
            if (branch->type == SP_ATTR_GRAPH && branch->count == 1 &&
                tell_inner(branch->graphs[0], value->producer_output, &value->type, &inner))
                open[count++] = inner;
        }
    }
}

/* The end of the top frame's graph. What goes wrong with a loop or branch as a whole is its node's error. */
static enum sp_status close_frame(struct sp_shape_walk *walk)
{
    struct sp_shape_frame *frame = walk->top;
    struct sp_node *node = frame->node;
    uint32_t symbols_before = sp_dims_symbol_count(walk->model->dims);
    enum sp_status status = SP_OK;
    bool again = false;
    if (node != NULL)
        sp_dims_begin_node(walk->model->dims, node->ordinal > 0 ? node->ordinal - 1 : 0);
    if (frame->kind == SP_FRAME_CALL)
        status = sp_shape_close_call(walk, frame);
    else if (frame->kind == SP_FRAME_BRANCH)
        status = sp_shape_close_branch(walk, frame, &again);
    else if (frame->kind == SP_FRAME_LOOP)
        status = sp_shape_close_loop(walk, frame, &again);
    if (status == SP_OK && again)
        return SP_OK;
    pop(walk);
    if (status != SP_OK) {
        status = sp_shape_forgive(walk, node, status);
        if (status == SP_OK && node != NULL)
            sp_shape_forget(node);
    }
    if (status != SP_OK || node == NULL)
        return status;
    status = sp_shape_join_outputs(walk, node, symbols_before);
    for (uint32_t i = 0; status == SP_OK && i < node->output_count; i++)
        tell_result(node->outputs[i]);
    return status;
}

enum sp_status sp_shape_walk(struct sp_shape_walk *walk)
{
    enum sp_status status = SP_OK;
    while (status == SP_OK && walk->top != NULL) {
        struct sp_shape_frame *frame = walk->top;
        if (frame->next == frame->graph->node_count) {
            status = close_frame(walk);
            continue;
        }
        status = tick(walk);
        if (status == SP_OK)
            status = visit_node(walk, &frame->graph->nodes[frame->next++]);
    }
    return status;
}
