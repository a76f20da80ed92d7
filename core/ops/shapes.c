#include "ops/shapes.h"

#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "onnx/reader.h"
#include "ops/declared.h"
#include "ops/infer.h"

/* Nodes between two calls of the watch. */
#define TICK_NODES 1024

/* Float constants handed into a function call are read up to this many elements: sizes and scales, no weights. */
#define MAX_CALL_REALS 64

/* One graph at work: the main graph, or the body of a call inside the frame below. */
struct frame {
    struct sp_graph *graph;
    struct sp_node *call; /* the node that the body stands for; NULL for the main graph */
    uint32_t next;
};

struct walk {
    struct sp_model *model;
    const struct sp_watch *watch;
    struct sp_error *err;
    struct sp_shape_summary summary;
    uint64_t visited, expanded; /* nodes looked at, nodes of expanded bodies */
    uint32_t depth;             /* frames in use */
    struct frame frames[SP_MAX_CALL_DEPTH + 1];
};

/* ---- inputs and initializers --------------------------------------------------------------------------------- */

static enum sp_status set_tensor_type(struct walk *walk, struct sp_value *value)
{
    const struct sp_tensor *tensor = value->tensor;
    const struct sp_sparse_tensor *sparse = value->sparse;
    uint32_t rank = tensor != NULL ? tensor->rank : sparse->rank;
    const int64_t *from = tensor != NULL ? tensor->dims : sparse->dims;
    struct sp_dim *dims = SP_NEW_ARRAY(walk->model->arena, rank, struct sp_dim);
    if (dims == NULL)
        return sp_fail_memory(walk->err);
    for (uint32_t axis = 0; axis < rank; axis++)
        dims[axis] = sp_dim_known(from[axis]);
    enum sp_dtype dtype = tensor != NULL ? tensor->dtype : sparse->values->dtype;
    value->type = (struct sp_type){.kind = SP_TYPE_TENSOR, .dtype = dtype, .shape = {true, rank, dims}};
    value->is_constant = true;
    if (value->declared.kind == SP_TYPE_SPARSE_TENSOR)
        return SP_OK; /* a sparse initializer is used as the dense tensor that it stands for */
    return sp_join_declared(walk->model, value, UINT32_MAX, walk->err);
}

/* An input axis of no stated size is the same size wherever the input goes: it gets a symbol of its own. */
static enum sp_status set_input_type(struct walk *walk, struct sp_value *value)
{
    struct sp_shape *shape = &value->type.shape;
    value->type = value->declared;
    if (value->type.kind != SP_TYPE_TENSOR || !shape->has_rank)
        return SP_OK;
    struct sp_dim *dims = SP_NEW_ARRAY(walk->model->arena, shape->rank, struct sp_dim);
    if (dims == NULL)
        return sp_fail_memory(walk->err);
    for (uint32_t axis = 0; axis < shape->rank; axis++) {
        char hint[128];
        dims[axis] = shape->dims[axis];
        (void)snprintf(hint, sizeof(hint), "%.100s_%u", value->name, axis);
        if (dims[axis].kind == SP_DIM_UNKNOWN || (sp_dim_is_known(dims[axis]) && dims[axis].value < 0))
            dims[axis] = sp_dim_fresh(walk->model->dims, hint);
    }
    shape->dims = dims;
    return SP_OK;
}

static enum sp_status start_graph(struct walk *walk, struct sp_graph *graph)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < graph->initializer_count; i++)
        status = set_tensor_type(walk, graph->initializers[i]);
    for (uint32_t i = 0; status == SP_OK && i < graph->input_count; i++) {
        struct sp_value *input = graph->inputs[i];
        if (input != NULL && input->tensor == NULL && input->sparse == NULL)
            status = set_input_type(walk, input);
    }
    return status;
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

static bool is_fully_known(const struct sp_data *data)
{
    if (data == NULL)
        return false;
    for (uint32_t i = 0; data->ints != NULL && i < data->count; i++) {
        if (!sp_dim_is_known(data->ints[i]))
            return false;
    }
    return true;
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
    if (!(flags & SP_OP_CONTROL) && has_constant_inputs(node)) /* a subgraph may use more than the inputs */
        return true;
    if ((flags & SP_OP_METADATA) && sp_shape_elements(&node->inputs[0]->type.shape) >= 0)
        return true;
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] != NULL && !is_fully_known(node->outputs[i]->data))
            return false;
    }
    return given_count(node->outputs, node->output_count) != 0;
}

static enum sp_status join_outputs(struct walk *walk, struct sp_node *node, uint32_t symbols_before)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < node->output_count; i++) {
        if (node->outputs[i] != NULL)
            status = sp_join_declared(walk->model, node->outputs[i], symbols_before, walk->err);
    }
    return status;
}

static enum sp_status infer_known(struct walk *walk, struct sp_node *node)
{
    struct sp_model *model = walk->model;
    struct sp_op_context context = {model, model->arena, model->dims, node, node->version, walk->err};
    uint32_t symbols_before = sp_dims_symbol_count(model->dims);
    enum sp_status status = check_arity(&context, node->op);
    if (status == SP_OK)
        status = node->op->infer(&context);
    if (status == SP_OK)
        status = join_outputs(walk, node, symbols_before);
    if (status != SP_OK)
        return status;
    node->is_folded = is_constant_result(node);
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] != NULL)
            node->outputs[i]->is_constant = node->is_folded;
    }
    return SP_OK;
}

/* ---- function calls ------------------------------------------------------------------------------------------ */

static enum sp_status open_call(struct walk *walk, struct sp_node *node, const struct sp_function *function)
{
    struct sp_graph *body = NULL;
    char label[264];
    if (walk->depth > SP_MAX_CALL_DEPTH)
        return sp_fail_limit(walk->err, "CALLS_TOO_DEEP", "SP_MAX_CALL_DEPTH", SP_MAX_CALL_DEPTH, walk->depth,
                             "%s calls functions more than %d levels deep.", sp_op_subject(node, label, sizeof(label)),
                             SP_MAX_CALL_DEPTH);
    enum sp_status status = sp_onnx_expand(walk->model, node, function, &body, walk->err);
    if (status != SP_OK)
        return status;
    walk->expanded += body->node_count;
    if (walk->expanded > SP_MAX_EXPANDED_NODES)
        return sp_fail_limit(walk->err, "TOO_MANY_EXPANDED_NODES", "SP_MAX_EXPANDED_NODES", SP_MAX_EXPANDED_NODES,
                             (int64_t)walk->expanded, "The function calls expand to more than %d nodes.",
                             SP_MAX_EXPANDED_NODES);
    for (uint32_t i = 0; i < body->input_count && i < node->input_count; i++) {
        struct sp_value *formal = body->inputs[i], *actual = node->inputs[i];
        if (formal == NULL || actual == NULL)
            continue;
        bool is_float = actual->type.kind == SP_TYPE_TENSOR && sp_dtype_is_float(actual->type.dtype);
        bool is_small = !is_float || sp_shape_elements(&actual->type.shape) <= MAX_CALL_REALS;
        formal->type = actual->type;
        formal->data = is_small ? (struct sp_data *)sp_value_elements(walk->model, actual) : actual->data;
        formal->is_constant = actual->is_constant;
    }
    for (uint32_t i = 0; status == SP_OK && i < body->initializer_count; i++)
        status = set_tensor_type(walk, body->initializers[i]);
    node->body = body;
    walk->frames[walk->depth++] = (struct frame){body, node, 0};
    return status;
}

static enum sp_status close_call(struct walk *walk, const struct frame *frame)
{
    struct sp_node *node = frame->call;
    uint32_t known = 0, outputs = 0;
    for (uint32_t i = 0; i < node->output_count; i++) {
        struct sp_value *to = node->outputs[i];
        struct sp_value *from = i < frame->graph->output_count ? frame->graph->outputs[i] : NULL;
        if (to == NULL || from == NULL)
            continue;
        to->type = from->type;
        to->data = (struct sp_data *)sp_value_elements(walk->model, from);
        to->is_constant = from->is_constant;
        outputs++;
        known += from->is_constant;
    }
    node->is_folded = outputs != 0 && known == outputs;
    return join_outputs(walk, node, UINT32_MAX);
}

/* ---- the walk ------------------------------------------------------------------------------------------------ */

static enum sp_status infer_node(struct walk *walk, struct sp_node *node)
{
    node->version = sp_graph_opset(node->graph, node->domain);
    if (node->version == 0)
        node->version = 1; /* files from before operator sets had versions */
    node->op = sp_op_find(node->domain, node->op_type, node->version);
    if (node->op != NULL)
        return infer_known(walk, node);
    const struct sp_function *function = sp_onnx_function(walk->model, node);
    if (function != NULL)
        return open_call(walk, node, function);
    if (walk->summary.unknown_op_count++ == 0)
        walk->summary.first_unknown_op = node;
    return join_outputs(walk, node, UINT32_MAX);
}

static enum sp_status tick(struct walk *walk)
{
    uint32_t total = walk->model->graph->node_count;
    if (walk->visited++ % TICK_NODES != 0)
        return SP_OK;
    double fraction = total == 0 ? 1.0 : (double)walk->frames[0].next / total;
    if (!sp_watch_tick(walk->watch, "shapes", fraction, 0, 0))
        return sp_fail(walk->err, SP_ERR_CANCELLED, "CANCELLED", "The job was cancelled.");
    return SP_OK;
}

static enum sp_status walk_nodes(struct walk *walk)
{
    enum sp_status status = SP_OK;
    while (status == SP_OK && walk->depth > 0) {
        struct frame *frame = &walk->frames[walk->depth - 1];
        if (frame->next < frame->graph->node_count) {
            status = tick(walk);
            if (status == SP_OK)
                status = infer_node(walk, &frame->graph->nodes[frame->next++]);
            continue;
        }
        walk->depth--;
        if (frame->call != NULL)
            status = close_call(walk, frame);
    }
    return status;
}

enum sp_status sp_infer_shapes(struct sp_model *model, const struct sp_watch *watch,
                               struct sp_shape_summary *ret_summary, struct sp_error *err)
{
    struct walk walk = {.model = model, .watch = watch, .err = err, .depth = 1};
    walk.frames[0].graph = model->graph;
    enum sp_status status = start_graph(&walk, model->graph);
    if (status == SP_OK)
        status = walk_nodes(&walk);
    if (status != SP_OK)
        return status;
    walk.summary.values = model->graph->value_count;
    for (uint32_t i = 0; i < model->graph->value_count; i++)
        walk.summary.full_values += sp_type_is_full(&model->graph->values[i]->type);
    *ret_summary = walk.summary;
    return SP_OK;
}
