/*
 * optional - a value that may be absent. Whether it is there is known where it is made in sight, and where a plain
 * tensor or sequence stands for one (since opset 18).
 */
#include "ops/table/families.h"
#include "ops/table/shape_helpers.h"

static enum sp_status shapes_optional(struct sp_op_context *context)
{
    const struct sp_attribute *given = sp_node_attribute(context->node, "type");
    if (sp_has_input(context, 0))
        return sp_set_output_optional(context, 0, &context->node->inputs[0]->type);
    if (given == NULL || given->type != SP_ATTR_TYPE_PROTO || given->count != 1 || given->types == NULL)
        return sp_op_fail(context, "MISSING_ATTRIBUTE", "it has neither an input nor the attribute 'type'");
    return sp_set_output_optional(context, 0, &given->types[0]);
}

/* 1: there is an element; 0: there is none; -1: not known. */
static int has_element(const struct sp_op_context *context)
{
    if (!sp_has_input(context, 0))
        return 0;
    const struct sp_value *value = context->node->inputs[0];
    if (value->type.kind == SP_TYPE_TENSOR || value->type.kind == SP_TYPE_SEQUENCE)
        return 1;
    const struct sp_node *maker = value->producer;
    if (maker == NULL || maker->op == NULL || maker->op->shapes != shapes_optional)
        return -1;
    return maker->input_count > 0 && maker->inputs[0] != NULL;
}

static enum sp_status shapes_has_element(struct sp_op_context *context)
{
    int has = has_element(context);
    struct sp_dim value = sp_dim_known(has);
    enum sp_status status = sp_set_output(context, 0, SP_DTYPE_BOOL, 0, NULL);
    return status != SP_OK || has < 0 ? status : sp_set_data_ints(context, 0, 1, &value);
}

static enum sp_status shapes_get_element(struct sp_op_context *context)
{
    const struct sp_type *type = &context->node->inputs[0]->type;
    if (type->kind == SP_TYPE_OPTIONAL && type->elem == NULL)
        return SP_OK;
    if (has_element(context) == 0)
        return sp_op_fail(context, "NO_ELEMENT", "it takes the element of an optional value that is always empty");
    return sp_set_output_element(context, 0, type->kind == SP_TYPE_OPTIONAL ? type->elem : type);
}

const struct sp_op sp_ops_optional[] = {
    SP_ENTRY("", "Optional", 15, 0, 0, 1, 1, 1, "[_..] -> optional of [_..]; all whole",
             "ONNX Operators.md, Optional-15", .shapes = shapes_optional),
    SP_ENTRY("", "OptionalHasElement", 15, 17, 1, 1, 1, 1, "optional -> []; all whole",
             "ONNX Changelog.md, OptionalHasElement-15", .shapes = shapes_has_element),
    SP_ENTRY("", "OptionalHasElement", 18, 0, 0, 1, 1, 1, "optional -> []; all whole",
             "ONNX Operators.md, OptionalHasElement-18", .shapes = shapes_has_element),
    SP_ENTRY("", "OptionalGetElement", 15, 0, 1, 1, 1, 1, "[d..] -> [d..]; of an optional or sequence all whole",
             "ONNX Operators.md and Changelog.md, OptionalGetElement-15, OptionalGetElement-18", .flags = SP_OP_VIEW,
             .shapes = shapes_get_element),
    {.name = NULL},
};
