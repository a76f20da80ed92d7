/*
 * control - operators that hold subgraphs. What the graphs do is inferred by ops/shapes/control.c; here is how they
 * hang together with their node.
 */
#include "ops/bodies/control.h"

#include <string.h>

#include "ops/table/families.h"
#include "ops/table/shape_helpers.h"

/* ---- graphs and counts --------------------------------------------------------------------------------------- */

static enum sp_status find_graph(struct sp_op_context *context, const char *name, struct sp_graph **ret_graph)
{
    const struct sp_attribute *attribute = sp_node_attribute(context->node, name);
    if (attribute == NULL || attribute->type != SP_ATTR_GRAPH || attribute->count != 1 || attribute->graphs == NULL)
        return sp_op_fail(context, "MISSING_ATTRIBUTE", "the graph '%s' is missing", name);
    *ret_graph = attribute->graphs[0];
    return SP_OK;
}

static enum sp_status expect_count(struct sp_op_context *context, const struct sp_graph *graph, bool is_input,
                                   uint32_t expected)
{
    if (graph == NULL)
        return sp_op_fail(context, "MISSING_ATTRIBUTE", "one of its graphs is missing");
    uint32_t count = is_input ? graph->input_count : graph->output_count;
    if (count == expected)
        return SP_OK;
    return sp_op_fail(context, "WRONG_BODY", "its graph '%.80s' has %u %s where the node needs %u", graph->name, count,
                      is_input ? "inputs" : "outputs", expected);
}

static enum sp_status describe_if(struct sp_op_context *context, struct sp_control *control)
{
    static const char *const names[] = {"then_branch", "else_branch"};
    enum sp_status status = SP_OK;
    control->graph_count = 2;
    for (uint32_t i = 0; status == SP_OK && i < 2; i++) {
        status = find_graph(context, names[i], &control->graphs[i]);
        if (status == SP_OK)
            status = expect_count(context, control->graphs[i], true, 0);
        if (status == SP_OK)
            status = expect_count(context, control->graphs[i], false, context->node->output_count);
    }
    return status;
}

static enum sp_status describe_loop(struct sp_op_context *context, struct sp_control *control)
{
    const struct sp_node *node = context->node;
    enum sp_status status = find_graph(context, "body", &control->graphs[0]);
    if (status != SP_OK)
        return status;
    uint32_t states = node->input_count > 2 ? node->input_count - 2 : 0;
    control->state_count = states;
    control->first_state = control->first_body_state = 2;
    control->first_body_result = 1;
    if (node->output_count < states)
        return sp_op_fail(context, "WRONG_BODY", "it carries %u values but has %u outputs", states, node->output_count);
    control->stacked_count = node->output_count - states;
    control->first_body_stacked = 1 + states;
    status = expect_count(context, control->graphs[0], true, 2 + states);
    return status != SP_OK ? status : expect_count(context, control->graphs[0], false, 1 + node->output_count);
}

static enum sp_status describe_scan(struct sp_op_context *context, struct sp_control *control)
{
    const struct sp_node *node = context->node;
    int64_t scanned = sp_node_int(node, "num_scan_inputs", 0);
    enum sp_status status = find_graph(context, "body", &control->graphs[0]);
    if (status != SP_OK)
        return status;
    control->has_batch = context->version < 9;
    control->first_state = control->has_batch ? 1 : 0;
    if (scanned < 1 || scanned > (int64_t)node->input_count - control->first_state)
        return sp_op_fail(context, "WRONG_ATTRIBUTE", "num_scan_inputs is %lld, but it has %u inputs",
                          (long long)scanned, node->input_count);
    control->scanned_count = (uint32_t)scanned;
    control->state_count = node->input_count - control->first_state - control->scanned_count;
    control->first_scanned = control->first_state + control->state_count;
    control->first_body_scanned = control->state_count;
    if (node->output_count < control->state_count)
        return sp_op_fail(context, "WRONG_BODY", "it carries %u values but has %u outputs", control->state_count,
                          node->output_count);
    control->stacked_count = node->output_count - control->state_count;
    control->first_body_stacked = control->state_count;
    status = expect_count(context, control->graphs[0], true, control->state_count + control->scanned_count);
    return status != SP_OK ? status : expect_count(context, control->graphs[0], false, node->output_count);
}

static enum sp_status describe_map(struct sp_op_context *context, struct sp_control *control)
{
    const struct sp_node *node = context->node;
    enum sp_status status = find_graph(context, "body", &control->graphs[0]);
    control->scanned_count = node->input_count;
    control->stacked_count = node->output_count;
    if (status == SP_OK)
        status = expect_count(context, control->graphs[0], true, node->input_count);
    return status != SP_OK ? status : expect_count(context, control->graphs[0], false, node->output_count);
}

enum sp_status sp_control_describe(struct sp_op_context *context, struct sp_control *ret_control)
{
    struct sp_control control = {.kind = sp_control_kind(context->node->op), .graph_count = 1};
    enum sp_status status = SP_OK;
    switch (control.kind) {
    case SP_CONTROL_IF:
        status = describe_if(context, &control);
        break;
    case SP_CONTROL_LOOP:
        status = describe_loop(context, &control);
        break;
    case SP_CONTROL_SCAN:
        status = describe_scan(context, &control);
        break;
    case SP_CONTROL_MAP:
        status = describe_map(context, &control);
        break;
    case SP_CONTROL_NONE:
        return sp_fail(context->err, SP_ERR_INTERNAL, "NO_CONTROL_FLOW", "A node without subgraphs was entered.");
    }
    if (status == SP_OK)
        *ret_control = control;
    return status;
}

int sp_control_taken(const struct sp_node *node)
{
    const struct sp_data *data = node->input_count > 0 && node->inputs[0] != NULL ? node->inputs[0]->data : NULL;
    if (data == NULL || data->ints == NULL || data->count != 1 || !sp_dim_is_known(data->ints[0]))
        return -1;
    return data->ints[0].value != 0 ? 0 : 1;
}

struct sp_graph *sp_control_branch(const struct sp_node *node)
{
    const int taken = sp_control_kind(node->op) == SP_CONTROL_IF ? sp_control_taken(node) : -1;
    const struct sp_attribute *attribute =
        taken < 0 ? NULL : sp_node_attribute(node, taken == 0 ? "then_branch" : "else_branch");
    if (attribute == NULL || attribute->type != SP_ATTR_GRAPH || attribute->count != 1 || attribute->graphs == NULL ||
        attribute->graphs[0]->input_count != 0 || attribute->graphs[0]->output_count != node->output_count)
        return NULL;
    return attribute->graphs[0];
}

/* ---- axes and turns ------------------------------------------------------------------------------------------ */

static enum sp_status listed_axis(struct sp_op_context *context, const char *attribute, uint32_t expected,
                                  uint32_t index, uint32_t rank, uint32_t *ret_axis)
{
    uint32_t count = 0;
    const int64_t *axes = sp_node_ints(context->node, attribute, &count);
    if (count != 0 && count != expected)
        return sp_op_fail(context, "WRONG_ATTRIBUTE", "%s has %u axes for %u operands", attribute, count, expected);
    return sp_normalize_axis(context, count == 0 ? 0 : axes[index], rank, ret_axis);
}

enum sp_status sp_control_scanned_axis(struct sp_op_context *context, const struct sp_control *control, uint32_t index,
                                       uint32_t rank, uint32_t *ret_axis)
{
    if (control->has_batch)
        return sp_normalize_axis(context, 1, rank, ret_axis);
    return listed_axis(context, "scan_input_axes", control->scanned_count, index, rank, ret_axis);
}

enum sp_status sp_control_stacked_axis(struct sp_op_context *context, const struct sp_control *control, uint32_t index,
                                       uint32_t rank, uint32_t *ret_axis)
{
    *ret_axis = control->has_batch ? 1 : 0;
    if (control->kind != SP_CONTROL_SCAN || control->has_batch)
        return SP_OK;
    return listed_axis(context, "scan_output_axes", control->stacked_count, index, rank, ret_axis);
}

/* 1 for a condition that is known to be true (or absent: it is true then), 0 for a false one, -1 for one of data. */
static int condition(const struct sp_value *value)
{
    if (value == NULL)
        return 1;
    const struct sp_data *data = value->data;
    if (data == NULL || data->ints == NULL || data->count != 1 || !sp_dim_is_known(data->ints[0]))
        return -1;
    return data->ints[0].value != 0;
}

struct sp_dim sp_control_most_trips(struct sp_op_context *context, const struct sp_control *control)
{
    const struct sp_data *most = control->kind == SP_CONTROL_LOOP ? sp_in_data(context, 0) : NULL;
    if (most == NULL || most->ints == NULL || most->count != 1)
        return sp_dim_unknown();
    return sp_dim_max(context->dims, most->ints[0], sp_dim_known(0));
}

static struct sp_dim loop_trips(struct sp_op_context *context, const struct sp_control *control)
{
    const struct sp_node *node = context->node;
    int first = condition(node->input_count > 1 ? node->inputs[1] : NULL);
    if (first == 0)
        return sp_dim_known(0);
    if (first < 0 || control->graphs[0] == NULL || condition(control->graphs[0]->outputs[0]) != 1)
        return sp_dim_unknown();
    return sp_control_most_trips(context, control);
}

static enum sp_status scan_trips(struct sp_op_context *context, const struct sp_control *control,
                                 struct sp_dim *ret_trips)
{
    struct sp_dim trips = sp_dim_unknown();
    for (uint32_t i = 0; i < control->scanned_count; i++) {
        const struct sp_shape *shape = sp_in_shape(context, control->first_scanned + i);
        uint32_t axis = 0;
        if (shape == NULL)
            continue;
        enum sp_status status = sp_control_scanned_axis(context, control, i, shape->rank, &axis);
        if (status == SP_OK)
            status = sp_join_dims(context, trips, shape->dims[axis], &trips);
        if (status != SP_OK)
            return status;
    }
    *ret_trips = trips;
    return SP_OK;
}

enum sp_status sp_control_trips(struct sp_op_context *context, const struct sp_control *control,
                                struct sp_dim *ret_trips)
{
    *ret_trips = sp_dim_unknown();
    if (control->kind == SP_CONTROL_LOOP)
        *ret_trips = loop_trips(context, control);
    if (control->kind == SP_CONTROL_SCAN)
        return scan_trips(context, control, ret_trips);
    return SP_OK;
}

/* ---- entries ------------------------------------------------------------------------------------------------- */

static enum sp_status shapes_if(struct sp_op_context *context)
{
    struct sp_control control = {0};
    const struct sp_shape *shape = sp_in_shape(context, 0);
    enum sp_dtype dtype = sp_in_dtype(context, 0);
    if (dtype != SP_DTYPE_UNDEFINED && dtype != SP_DTYPE_BOOL)
        return sp_op_fail(context, "WRONG_DATA_TYPE", "its condition is no bool");
    if (shape != NULL && sp_shape_elements(shape) >= 0 && sp_shape_elements(shape) != 1)
        return sp_op_fail(context, "WRONG_SHAPE", "its condition has %lld elements, not one",
                          (long long)sp_shape_elements(shape));
    return sp_control_describe(context, &control);
}

static enum sp_status shapes_loop(struct sp_op_context *context)
{
    struct sp_control control = {0};
    return sp_control_describe(context, &control);
}

static enum sp_status shapes_scan(struct sp_op_context *context)
{
    struct sp_control control = {0};
    struct sp_dim trips;
    enum sp_status status = sp_control_describe(context, &control);
    return status != SP_OK ? status : sp_control_trips(context, &control, &trips);
}

static enum sp_status shapes_map(struct sp_op_context *context)
{
    struct sp_control control = {0};
    const struct sp_node *node = context->node;
    if (node->inputs[0]->type.kind != SP_TYPE_SEQUENCE && node->inputs[0]->type.kind != SP_TYPE_NONE)
        return sp_op_fail(context, "WRONG_TYPE", "its first input is no sequence");
    return sp_control_describe(context, &control);
}

/* What a graph does with its operands is in its nodes: ops/bodies/body_rule.h joins their rules. The operator alone has no
   factors. */
static enum sp_status rule_graph(struct sp_op_context *context, struct sp_rule *rule)
{
    (void)context;
    (void)rule;
    return SP_OK;
}

static const char if_text[] = "[_] -> as the branches do; what they take from outside is whole";
static const char loop_text[] = "[_] [_] states.. -> states.., [t, stacked..]..; t sequential, others as in the body";
static const char scan_text[] = "states.. [t, scanned..].. -> states.., [t, stacked..]..; t sequential, others as in "
                                "the body, what it needs whole too";
static const char old_scan_text[] = "[b] [b, states..].. [b, t, scanned..].. -> [b, states..].., [b, t, stacked..]..; "
                                    "t sequential, others as in the body, what it needs whole too";
static const char map_text[] = "sequences -> sequences; elements are whole";

const struct sp_op sp_ops_control[] = {
    SP_ENTRY("", "If", 1, 0, 1, 1, 1, UINT32_MAX, if_text, "ONNX Operators.md, If-1 to If-25", .flags = SP_OP_CONTROL,
             .shapes = shapes_if, .rule = rule_graph),
    SP_ENTRY("", "Loop", 1, 0, 0, UINT32_MAX, 1, UINT32_MAX, loop_text, "ONNX Operators.md, Loop-1 to Loop-25",
             .flags = SP_OP_CONTROL, .shapes = shapes_loop, .rule = rule_graph),
    SP_ENTRY("", "Scan", 8, 8, 0, UINT32_MAX, 1, UINT32_MAX, old_scan_text, "ONNX Changelog.md, Scan-8",
             .flags = SP_OP_CONTROL, .shapes = shapes_scan, .rule = rule_graph),
    SP_ENTRY("", "Scan", 9, 0, 1, UINT32_MAX, 1, UINT32_MAX, scan_text, "ONNX Operators.md, Scan-9 to Scan-25",
             .flags = SP_OP_CONTROL, .shapes = shapes_scan, .rule = rule_graph),
    SP_ENTRY("", "SequenceMap", 17, 0, 1, UINT32_MAX, 1, UINT32_MAX, map_text, "ONNX Operators.md, SequenceMap-17",
             .flags = SP_OP_CONTROL, .shapes = shapes_map, .rule = rule_graph),
    {.name = NULL},
};

enum sp_control_kind sp_control_kind(const struct sp_op *op)
{
    if (op == NULL || !(op->flags & SP_OP_CONTROL))
        return SP_CONTROL_NONE;
    if (op->shapes == shapes_if)
        return SP_CONTROL_IF;
    if (op->shapes == shapes_loop)
        return SP_CONTROL_LOOP;
    if (op->shapes == shapes_map)
        return SP_CONTROL_MAP;
    return op->shapes == shapes_scan ? SP_CONTROL_SCAN : SP_CONTROL_NONE;
}
