/* shape - operators that make tensors from shapes and constants, or shapes from tensors. */
#include <math.h>
#include <string.h>

#include "base/limits.h"
#include "onnx/reader.h"
#include "ops/lowering/functions.h"
#include "ops/table/families.h"
#include "ops/table/known_values.h"

/* ---- Shape, Size --------------------------------------------------------------------------------------------- */

/* Shape-15's `start` and `end`: negative ones count from the back, and both are clamped. */
static uint32_t clamp_bound(int64_t bound, uint32_t rank)
{
    if (bound < 0)
        bound = bound < -(int64_t)rank ? 0 : bound + (int64_t)rank;
    return bound > (int64_t)rank ? rank : (uint32_t)bound;
}

static enum sp_status shapes_shape(struct sp_op_context *context)
{
    const struct sp_shape *shape = sp_in_shape(context, 0);
    struct sp_dim count = sp_dim_unknown();
    if (shape == NULL)
        return sp_set_output(context, 0, SP_DTYPE_INT64, 1, &count);
    uint32_t start = 0, end = shape->rank;
    if (context->version >= 15) {
        start = clamp_bound(sp_node_int(context->node, "start", 0), shape->rank);
        end = clamp_bound(sp_node_int(context->node, "end", shape->rank), shape->rank);
        end = end < start ? start : end;
    }
    count = sp_dim_known(end - start);
    enum sp_status status = sp_set_output(context, 0, SP_DTYPE_INT64, 1, &count);
    return status != SP_OK ? status : sp_set_data_ints(context, 0, end - start, shape->dims + start);
}

static enum sp_status shapes_size(struct sp_op_context *context)
{
    const struct sp_shape *shape = sp_in_shape(context, 0);
    enum sp_status status = sp_set_output(context, 0, SP_DTYPE_INT64, 0, NULL);
    if (status != SP_OK || shape == NULL)
        return status;
    struct sp_dim elements = sp_product(context, shape->dims, 0, shape->rank);
    return sp_set_data_ints(context, 0, 1, &elements);
}

/* ---- Constant ------------------------------------------------------------------------------------------------ */

static enum sp_status set_constant_dims(struct sp_op_context *context, enum sp_dtype dtype, uint32_t rank,
                                        const int64_t *dims)
{
    struct sp_dim shape[SP_MAX_RANK];
    for (uint32_t axis = 0; axis < rank && axis < SP_MAX_RANK; axis++)
        shape[axis] = sp_dim_known(dims[axis]);
    return sp_set_output(context, 0, dtype, rank, shape);
}

static enum sp_status set_constant_list(struct sp_op_context *context, const struct sp_attribute *value, bool is_list,
                                        enum sp_dtype dtype)
{
    struct sp_dim count = sp_dim_known(value->count);
    enum sp_status status = sp_set_output(context, 0, dtype, is_list ? 1 : 0, &count);
    if (status != SP_OK || dtype == SP_DTYPE_STRING)
        return status;
    if (dtype == SP_DTYPE_FLOAT)
        return sp_set_data_reals(context, 0, is_list ? value->count : 1, is_list ? value->floats : &value->f);
    if (!is_list) {
        struct sp_dim one = sp_dim_known(value->i);
        return sp_set_data_ints(context, 0, 1, &one);
    }
    if (value->count > SP_MAX_DATA_ELEMENTS)
        return SP_OK;
    struct sp_dim *ints = sp_new_dims(context, value->count);
    if (ints == NULL)
        return sp_fail_memory(context->err);
    for (uint32_t i = 0; i < value->count; i++)
        ints[i] = sp_dim_known(value->ints[i]);
    return sp_set_data_ints(context, 0, value->count, ints);
}

/* The elements of the tensor form are read when somebody asks for them (sp_in_data()). */
static enum sp_status shapes_constant(struct sp_op_context *context)
{
    static const char *const names[] = {"value",     "sparse_value", "value_float",  "value_floats",
                                        "value_int", "value_ints",   "value_string", "value_strings"};
    const struct sp_attribute *value = NULL;
    for (uint32_t i = 0; i < context->node->attribute_count; i++) {
        const struct sp_attribute *found = &context->node->attributes[i];
        size_t k = 0;
        while (k < sizeof names / sizeof names[0] && strcmp(found->name, names[k]) != 0)
            k++;
        if (k == sizeof names / sizeof names[0])
            continue;
        if (value != NULL)
            return sp_op_fail(context, "CONSTANT_WITH_TWO_VALUES", "it has both '%s' and '%s'", value->name,
                              found->name);
        value = found;
    }
    if (value == NULL)
        return sp_op_fail(context, "CONSTANT_WITHOUT_VALUE", "it has no value attribute");
    switch (value->type) {
    case SP_ATTR_TENSOR:
        return set_constant_dims(context, value->tensors[0]->dtype, value->tensors[0]->rank, value->tensors[0]->dims);
    case SP_ATTR_SPARSE_TENSOR:
        return set_constant_dims(context, value->sparse_tensors[0]->values->dtype, value->sparse_tensors[0]->rank,
                                 value->sparse_tensors[0]->dims);
    case SP_ATTR_FLOAT:
    case SP_ATTR_FLOATS:
        return set_constant_list(context, value, value->type == SP_ATTR_FLOATS, SP_DTYPE_FLOAT);
    case SP_ATTR_INT:
    case SP_ATTR_INTS:
        return set_constant_list(context, value, value->type == SP_ATTR_INTS, SP_DTYPE_INT64);
    case SP_ATTR_STRING:
    case SP_ATTR_STRINGS:
        return set_constant_list(context, value, value->type == SP_ATTR_STRINGS, SP_DTYPE_STRING);
    default:
        return sp_op_fail(context, "WRONG_ATTRIBUTE_TYPE", "its attribute '%s' is of a type that cannot be a constant",
                          value->name);
    }
}

/* Every device may hold any part of what is generated. */
static enum sp_status rule_generator(struct sp_op_context *context, struct sp_rule *rule)
{
    rule->bytes = context->node->op->flags & SP_OP_CONSTANT ? 0 : sp_output_bytes(context, 0);
    return sp_rule_from_entry(context, rule, context->node->op);
}

/* ---- ConstantOfShape, Range ---------------------------------------------------------------------------------- */

static enum sp_status fill_output(struct sp_op_context *context, const struct sp_data *value, bool is_real)
{
    struct sp_data *data = sp_data_new(context, 0, is_real);
    if (data == NULL)
        return SP_OK;
    for (uint32_t i = 0; i < data->count; i++) {
        if (value != NULL)
            sp_data_copy(data, i, value, 0);
        else if (!is_real)
            data->ints[i] = sp_dim_known(0);
    }
    sp_data_attach(context, 0, data);
    return SP_OK;
}

static enum sp_status shapes_constant_of_shape(struct sp_op_context *context)
{
    const struct sp_attribute *value = sp_node_attribute(context->node, "value");
    const struct sp_tensor *tensor = value != NULL && value->type == SP_ATTR_TENSOR ? value->tensors[0] : NULL;
    if (tensor != NULL && tensor->elements != 1)
        return sp_op_fail(context, "WRONG_ATTRIBUTE_VALUE", "its attribute 'value' has %lld elements instead of one",
                          (long long)tensor->elements);
    enum sp_dtype dtype = tensor != NULL ? tensor->dtype : SP_DTYPE_FLOAT;
    struct sp_list shape = {0};
    enum sp_status status = sp_get_list(context, "shape", 1, 0, &shape);
    if (status != SP_OK)
        return status;
    if (!shape.has_count || shape.count > SP_MAX_RANK)
        return sp_set_output_unranked(context, 0, dtype);
    struct sp_dim unknown[SP_MAX_RANK] = {{0}};
    status = sp_set_output(context, 0, dtype, shape.count, shape.has_values ? shape.values : unknown);
    if (status != SP_OK || sp_data_room(context, 0) < 0)
        return status;
    struct sp_data *element = NULL;
    if (tensor != NULL) {
        status = sp_onnx_tensor_data(context->model, context->arena, tensor, &element, context->err);
        if (status != SP_OK || element == NULL)
            return status;
    }
    return fill_output(context, element, element == NULL || element->reals != NULL);
}

/* max(ceil((limit - start) / delta), 0), over symbols where needed. */
static enum sp_status range_length(struct sp_op_context *context, const struct sp_data *const bounds[3],
                                   struct sp_dim *ret_length)
{
    const char *zero = "its step is zero";
    if (bounds[0]->reals != NULL) {
        if (bounds[2]->reals[0] == 0)
            return sp_op_fail(context, "ZERO_STEP", "%s", zero);
        double length = ceil((bounds[1]->reals[0] - bounds[0]->reals[0]) / bounds[2]->reals[0]);
        if (length <= 0)
            *ret_length = sp_dim_known(0);
        else if (length < 9007199254740992.0) /* 2^53: exact as a double; false for NaN */
            *ret_length = sp_dim_known((int64_t)length);
        return SP_OK;
    }
    if (sp_dim_is(bounds[2]->ints[0], 0))
        return sp_op_fail(context, "ZERO_STEP", "%s", zero);
    struct sp_dim distance = sp_dim_sub(context->dims, bounds[1]->ints[0], bounds[0]->ints[0]);
    struct sp_dim steps = sp_dim_ceildiv(context->dims, distance, bounds[2]->ints[0]);
    *ret_length = sp_dim_max(context->dims, steps, sp_dim_known(0));
    return SP_OK;
}

static enum sp_status range_elements(struct sp_op_context *context, const struct sp_data *const bounds[3])
{
    struct sp_data *data = sp_data_new(context, 0, bounds[0]->reals != NULL);
    if (data == NULL)
        return SP_OK;
    for (uint32_t i = 0; i < data->count; i++) {
        if (data->reals != NULL && bounds[2]->reals != NULL) {
            data->reals[i] = bounds[0]->reals[0] + i * bounds[2]->reals[0];
            continue;
        }
        struct sp_dim offset = sp_dim_mul(context->dims, sp_dim_known(i), bounds[2]->ints[0]);
        data->ints[i] = sp_dim_add(context->dims, bounds[0]->ints[0], offset);
    }
    sp_data_attach(context, 0, data);
    return SP_OK;
}

static enum sp_status shapes_range(struct sp_op_context *context)
{
    const struct sp_data *bounds[3];
    bool is_known = true;
    struct sp_dim whole = sp_dim_known(1);
    double real = 1;
    struct sp_data one = {1, &whole, NULL};
    for (uint32_t i = 0; i < 3; i++) {
        bounds[i] = sp_in_data(context, i);
        if (i == 2 && !sp_has_input(context, i)) { /* ONNX Runtime's own has a default */
            one = bounds[0] != NULL && bounds[0]->reals != NULL ? (struct sp_data){1, NULL, &real} : one;
            bounds[i] = &one;
        }
        is_known = is_known && bounds[i] != NULL && bounds[i]->count == 1 &&
                   (bounds[i]->reals != NULL) == (bounds[0]->reals != NULL);
    }
    struct sp_dim length = sp_dim_unknown();
    enum sp_status status = is_known ? range_length(context, bounds, &length) : SP_OK;
    if (status != SP_OK)
        return status;
    if (length.kind == SP_DIM_UNKNOWN)
        length = sp_dim_fresh(context->dims, "Range", sp_dim_unknown());
    status = sp_set_output(context, 0, sp_in_dtype(context, 0), 1, &length);
    return status != SP_OK || !is_known ? status : range_elements(context, bounds);
}

/* ---- Expand -------------------------------------------------------------------------------------------------- */

static enum sp_status expand_elements(struct sp_op_context *context)
{
    int64_t count = sp_data_room(context, 0);
    const struct sp_shape *from = sp_in_shape(context, 0);
    if (count < 0 || !sp_data_available(context, 0) || sp_shape_elements(from) < 0)
        return SP_OK;
    struct sp_walk walk;
    sp_walk_broadcast(&walk, &context->node->outputs[0]->type.shape, from);
    const uint32_t *index = sp_walk_indices(context, &walk, count);
    return index == NULL ? sp_fail_memory(context->err) : sp_data_pick(context, 0, index, NULL);
}

static enum sp_status shapes_expand(struct sp_op_context *context)
{
    const struct sp_shape *from = sp_in_shape(context, 0);
    struct sp_list list = {0};
    enum sp_status status = sp_get_list(context, "shape", 1, 1, &list);
    if (status != SP_OK)
        return status;
    if (from == NULL || !list.has_count || list.count > SP_MAX_RANK)
        return sp_set_output_unranked(context, 0, sp_in_dtype(context, 0));
    struct sp_dim unknown[SP_MAX_RANK] = {{0}};
    struct sp_shape target = {true, list.count, unknown}, result;
    for (uint32_t i = 0; list.has_values && i < list.count; i++) {
        if (sp_dim_is_known(list.values[i]) && list.values[i].value < 0)
            return sp_op_fail(context, "NEGATIVE_DIMENSION", "its shape input asks for %lld elements on an axis",
                              (long long)list.values[i].value);
        unknown[i] = list.values[i];
    }
    status = sp_broadcast(context, from, &target, &result);
    if (status == SP_OK)
        status = sp_set_output_shape(context, 0, sp_in_dtype(context, 0), &result);
    return status != SP_OK ? status : expand_elements(context);
}

/* ---- Identity ------------------------------------------------------------------------------------------------ */

/* Takes sequences and optionals too. */
static enum sp_status shapes_identity(struct sp_op_context *context)
{
    if (context->node->outputs[0] == NULL)
        return SP_OK;
    context->node->outputs[0]->type = context->node->inputs[0]->type;
    return sp_data_same(context);
}

const struct sp_op sp_ops_shape[] = {
    SP_ENTRY("", "Shape", 1, 0, 1, 1, 1, 1, "[d..] -> [_]; only the shape is read",
             "ONNX Operators.md, Shape-1 to Shape-25", .flags = SP_OP_METADATA, .shapes = shapes_shape,
             .lower = sp_lower_node_shape),
    SP_ENTRY("", "Size", 1, 0, 1, 1, 1, 1, "[d..] -> []; only the shape is read",
             "ONNX Operators.md, Size-1 to Size-25", .flags = SP_OP_METADATA, .shapes = shapes_size,
             .lower = sp_lower_node_size),
    SP_ENTRY("", "Constant", 1, 0, 0, 0, 1, 1, "-> [d..]", "ONNX Operators.md, Constant-1 to Constant-25",
             .flags = SP_OP_CONSTANT, .shapes = shapes_constant, .rule = rule_generator,
             .lower = sp_lower_node_constant),
    SP_ENTRY("", "ConstantOfShape", 9, 0, 1, 1, 1, 1, "[_] -> [d..]",
             "ONNX Operators.md, ConstantOfShape-9 to ConstantOfShape-25", .shapes = shapes_constant_of_shape,
             .rule = rule_generator, .lower = sp_lower_node_constant_of_shape),
    SP_ENTRY("", "Range", 11, 0, 3, 3, 1, 1, "[] [] [] -> [d..]", "ONNX Operators.md, Range-11 to Range-27",
             .shapes = shapes_range, .rule = rule_generator, .lower = sp_lower_node_range),
    SP_ENTRY("com.microsoft", "Range", 1, 0, 2, 3, 1, 1, "[] [] [] -> [d..]", "ONNX Runtime contrib operator Range",
             .shapes = shapes_range, .rule = rule_generator, .lower = sp_lower_node_range,
             .signature = "(start,limit,delta?) -> (Y) {}"),
    SP_ENTRY("", "Expand", 8, 0, 2, 2, 1, 1, "[d..] [_] -> [d..]; stretched axes are new",
             "ONNX Operators.md, Expand-8, Expand-13", .shapes = shapes_expand, .lower = sp_lower_node_expand),
    SP_ENTRY("", "Identity", 1, 0, 1, 1, 1, 1, "[d..] -> [d..]", "ONNX Operators.md, Identity-1 to Identity-25",
             .flags = SP_OP_VIEW, .shapes = shapes_identity),
    {.name = NULL},
};
