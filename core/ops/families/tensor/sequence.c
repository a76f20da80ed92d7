/*
 * sequence - lists of tensors. A sequence's type holds what is true of every element, so elements of different extents
 * leave those extents open. How long a sequence is belongs to no type.
 *
 * Their rules have no factors: axes of elements have no place in the rule of an operator over operands that are no
 * tensors, so all is whole on every device.
 */
#include "ops/shapes/merge.h"
#include "ops/table/families.h"
#include "ops/table/shape_helpers.h"

static enum sp_status wrong_sequence(struct sp_op_context *context, uint32_t input)
{
    return sp_op_fail(context, "WRONG_TYPE", "its input %u is no sequence", input);
}

/* What is known of the elements of an input; kind NONE when nothing is. SP_ERR_MODEL when it is no sequence. */
static enum sp_status element_type(struct sp_op_context *context, uint32_t input, struct sp_type *ret_type)
{
    const struct sp_type *type = &context->node->inputs[input]->type;
    *ret_type = (struct sp_type){0};
    if (type->kind == SP_TYPE_NONE)
        return SP_OK;
    if (type->kind != SP_TYPE_SEQUENCE)
        return wrong_sequence(context, input);
    if (type->elem != NULL)
        *ret_type = *type->elem;
    return SP_OK;
}

static enum sp_status merge_element(struct sp_op_context *context, struct sp_type *type, uint32_t input)
{
    enum sp_status status =
        sp_merge_types(context->arena, type, &context->node->inputs[input]->type, type, context->err);
    if (status == SP_ERR_MODEL)
        return sp_op_fail(context, "ELEMENTS_DISAGREE",
                          "its input %u has another type than the other elements of the sequence", input);
    return status;
}

static enum sp_status shapes_construct(struct sp_op_context *context)
{
    struct sp_type type = context->node->inputs[0]->type;
    enum sp_status status = SP_OK;
    for (uint32_t i = 1; status == SP_OK && i < context->node->input_count; i++) {
        if (context->node->inputs[i] != NULL)
            status = merge_element(context, &type, i);
    }
    return status != SP_OK ? status : sp_set_output_sequence(context, 0, &type);
}

static enum sp_status shapes_empty(struct sp_op_context *context)
{
    int64_t dtype = sp_node_int(context->node, "dtype", SP_DTYPE_FLOAT);
    if (dtype <= SP_DTYPE_UNDEFINED || dtype >= SP_DTYPE_COUNT)
        return sp_op_fail(context, "UNKNOWN_DATA_TYPE", "%lld is not a data type", (long long)dtype);
    struct sp_type type = sp_type_of_no_element((enum sp_dtype)dtype);
    return sp_set_output_sequence(context, 0, &type);
}

static enum sp_status shapes_at(struct sp_op_context *context)
{
    struct sp_type type;
    enum sp_status status = element_type(context, 0, &type);
    return status != SP_OK ? status : sp_set_output_element(context, 0, &type);
}

static enum sp_status shapes_insert(struct sp_op_context *context)
{
    struct sp_type type;
    enum sp_status status = element_type(context, 0, &type);
    if (status == SP_OK)
        status = merge_element(context, &type, 1);
    return status != SP_OK ? status : sp_set_output_sequence(context, 0, &type);
}

static enum sp_status shapes_erase(struct sp_op_context *context)
{
    struct sp_type type;
    enum sp_status status = element_type(context, 0, &type);
    return status != SP_OK ? status : sp_set_output_sequence(context, 0, &type);
}

static enum sp_status shapes_length(struct sp_op_context *context)
{
    struct sp_type type;
    enum sp_status status = element_type(context, 0, &type);
    return status != SP_OK ? status : sp_set_output(context, 0, SP_DTYPE_INT64, 0, NULL);
}

/* ---- SplitToSequence ----------------------------------------------------------------------------------------- */

/* The extent that all chunks have: of a scalar `split` the last one may be shorter. */
static enum sp_status chunk_extent(struct sp_op_context *context, struct sp_dim whole, struct sp_dim *ret_extent)
{
    const struct sp_data *data = sp_in_known_ints(context, 1);
    const struct sp_shape *shape = sp_in_shape(context, 1);
    struct sp_dim sum = sp_dim_known(0);
    *ret_extent = sp_dim_unknown();
    if (data == NULL || data->count == 0 || shape == NULL)
        return SP_OK;
    struct sp_dim first = data->ints[0];
    bool is_same = true;
    for (uint32_t i = 0; i < data->count; i++) {
        if (data->ints[i].value < 0 || (shape->rank == 0 && data->ints[i].value == 0))
            return sp_op_fail(context, "WRONG_SPLIT", "a chunk of %lld elements is asked for",
                              (long long)data->ints[i].value);
        is_same = is_same && sp_dim_equal(first, data->ints[i]);
        sum = sp_dim_add(context->dims, sum, data->ints[i]);
    }
    if (shape->rank == 0) {
        if (sp_dim_is(sp_dim_mod(context->dims, whole, first), 0))
            *ret_extent = first;
        return SP_OK;
    }
    if (sp_dim_is_known(sum) && sp_dim_is_known(whole) && sum.value != whole.value)
        return sp_op_fail(context, "WRONG_SPLIT", "the chunks have %lld elements together, but the axis has %lld",
                          (long long)sum.value, (long long)whole.value);
    if (is_same)
        *ret_extent = first;
    return SP_OK;
}

static enum sp_status shapes_split(struct sp_op_context *context)
{
    const struct sp_shape *shape = sp_in_shape(context, 0);
    struct sp_type type = {.kind = SP_TYPE_TENSOR, .dtype = sp_in_dtype(context, 0)};
    uint32_t axis = 0;
    if (shape == NULL)
        return sp_set_output_sequence(context, 0, &type);
    enum sp_status status = sp_normalize_axis(context, sp_node_int(context->node, "axis", 0), shape->rank, &axis);
    if (status != SP_OK)
        return status;
    struct sp_dim *dims = sp_new_dims(context, shape->rank);
    if (dims == NULL)
        return sp_fail_memory(context->err);
    bool has_split = sp_has_input(context, 1);
    bool keeps = has_split || sp_node_int(context->node, "keepdims", 1) != 0; /* ignored where `split` is given */
    uint32_t rank = 0;
    for (uint32_t i = 0; i < shape->rank; i++) {
        if (i != axis)
            dims[rank++] = shape->dims[i];
        else if (keeps)
            dims[rank++] = sp_dim_known(1);
    }
    if (has_split)
        status = chunk_extent(context, shape->dims[axis], &dims[axis]);
    type.shape = (struct sp_shape){true, rank, dims};
    return status != SP_OK ? status : sp_set_output_sequence(context, 0, &type);
}

/* ---- ConcatFromSequence -------------------------------------------------------------------------------------- */

/* The extent of the joined axis, where the sequence is put together in sight; else unknown. */
static struct sp_dim joined_extent(struct sp_op_context *context, uint32_t rank, uint32_t axis, bool is_new)
{
    const struct sp_node *maker = context->node->inputs[0]->producer;
    struct sp_dim sum = sp_dim_known(0);
    if (maker == NULL || maker->op == NULL || maker->op->shapes != shapes_construct)
        return sp_dim_unknown();
    for (uint32_t i = 0; i < maker->input_count; i++) {
        const struct sp_type *type = maker->inputs[i] == NULL ? NULL : &maker->inputs[i]->type;
        if (type == NULL)
            continue;
        if (!is_new && (type->kind != SP_TYPE_TENSOR || !type->shape.has_rank || type->shape.rank != rank))
            return sp_dim_unknown();
        sum = sp_dim_add(context->dims, sum, is_new ? sp_dim_known(1) : type->shape.dims[axis]);
    }
    return sum;
}

static enum sp_status shapes_concat(struct sp_op_context *context)
{
    struct sp_type element;
    enum sp_status status = element_type(context, 0, &element);
    const struct sp_attribute *given = sp_node_attribute(context->node, "axis");
    bool is_new = sp_node_int(context->node, "new_axis", 0) != 0;
    uint32_t axis = 0;
    if (status != SP_OK)
        return status;
    if (given == NULL || given->type != SP_ATTR_INT)
        return sp_op_fail(context, "MISSING_ATTRIBUTE", "the attribute 'axis' is missing");
    if (element.kind != SP_TYPE_TENSOR || !element.shape.has_rank)
        return sp_set_output_unranked(context, 0, element.dtype);
    uint32_t rank = element.shape.rank + is_new;
    status = sp_normalize_axis(context, given->i, rank, &axis);
    if (status != SP_OK)
        return status;
    struct sp_dim *dims = sp_new_dims(context, rank);
    if (dims == NULL)
        return sp_fail_memory(context->err);
    for (uint32_t i = 0, from = 0; i < rank; i++) {
        if (i == axis)
            dims[i] = joined_extent(context, element.shape.rank, axis, is_new);
        if (i != axis || !is_new)
            from++;
        if (i != axis)
            dims[i] = element.shape.dims[from - 1];
    }
    struct sp_type type = {.kind = SP_TYPE_TENSOR, .dtype = element.dtype, .shape = {true, rank, dims}};
    return sp_set_output_element(context, 0, &type);
}

const struct sp_op sp_ops_sequence[] = {
    SP_ENTRY("", "SequenceConstruct", 11, 0, 1, UINT32_MAX, 1, 1, "[_..].. -> sequence of [_..]; all whole",
             "ONNX Operators.md, SequenceConstruct-11", .shapes = shapes_construct),
    SP_ENTRY("", "SequenceEmpty", 11, 0, 0, 0, 1, 1, "-> sequence", "ONNX Operators.md, SequenceEmpty-11",
             .flags = SP_OP_CONSTANT, .shapes = shapes_empty),
    SP_ENTRY("", "SequenceAt", 11, 0, 2, 2, 1, 1, "sequence of [_..], [] -> [_..]; all whole",
             "ONNX Operators.md, SequenceAt-11", .shapes = shapes_at),
    SP_ENTRY("", "SequenceInsert", 11, 0, 2, 3, 1, 1, "sequence of [_..], [_..], [] -> sequence of [_..]; all whole",
             "ONNX Operators.md, SequenceInsert-11", .shapes = shapes_insert),
    SP_ENTRY("", "SequenceErase", 11, 0, 1, 2, 1, 1, "sequence, [] -> sequence; all whole",
             "ONNX Operators.md, SequenceErase-11", .shapes = shapes_erase),
    SP_ENTRY("", "SequenceLength", 11, 0, 1, 1, 1, 1, "sequence -> []; all whole",
             "ONNX Operators.md, SequenceLength-11", .shapes = shapes_length),
    SP_ENTRY("", "SplitToSequence", 11, 0, 1, 2, 1, 1, "[_..], [_] -> sequence of [_..]; all whole",
             "ONNX Operators.md, SplitToSequence-11 to SplitToSequence-24", .shapes = shapes_split),
    SP_ENTRY("", "ConcatFromSequence", 11, 0, 1, 1, 1, 1, "sequence of [_..] -> [_..]; all whole",
             "ONNX Operators.md, ConcatFromSequence-11", .shapes = shapes_concat),
    {.name = NULL},
};
