/*
 * Random tensors.
 *
 *     RandomNormal, RandomUniform          () -> [d..]
 *     RandomNormalLike, RandomUniformLike  [d..] -> [d..]      only the shape is read
 *     Bernoulli                            [d..] -> [d..]
 *     Multinomial                          [b, c] -> [b, s]    c whole
 *
 * Each element is drawn on its own, so every axis of the output is parallel. Devices that draw parts of one tensor need
 * different seeds, and the numbers are not those that one device would have drawn. Nothing here is a function of its
 * inputs, so nothing is computed ahead of the run.
 *
 * FLOPs: 1 per element that is drawn; Multinomial 5 per class (a softmax) besides.
 */
#include "ops/lowering/functions.h"
#include "ops/table/families.h"
#include "ops/table/shape_helpers.h"

static enum sp_status shapes_shaped(struct sp_op_context *context)
{
    const struct sp_attribute *shape = sp_node_attribute(context->node, "shape");
    enum sp_dtype dtype = SP_DTYPE_FLOAT;
    enum sp_status status = sp_get_dtype(context, "dtype", SP_DTYPE_FLOAT, &dtype);
    if (status != SP_OK)
        return status;
    if (shape == NULL || shape->type != SP_ATTR_INTS)
        return sp_op_fail(context, "MISSING_ATTRIBUTE", "the attribute 'shape' is missing");
    struct sp_dim *dims = sp_new_dims(context, shape->count);
    if (dims == NULL)
        return sp_fail_memory(context->err);
    for (uint32_t axis = 0; axis < shape->count; axis++)
        dims[axis] = sp_dim_known(shape->ints[axis]);
    return sp_set_output(context, 0, dtype, shape->count, dims);
}

static enum sp_status shapes_like(struct sp_op_context *context)
{
    enum sp_dtype dtype = SP_DTYPE_UNDEFINED;
    enum sp_status status = sp_get_dtype(context, "dtype", sp_in_dtype(context, 0), &dtype);
    return status != SP_OK ? status : sp_set_output_shape(context, 0, dtype, sp_in_shape(context, 0));
}

/* The input stands for its shape: a part of the output is drawn from a part of it, and its elements are not read. */
static enum sp_status rule_like(struct sp_op_context *context, struct sp_rule *rule)
{
    enum sp_status status = sp_rule_from_entry(context, rule, context->node->op);
    sp_rule_term_output(rule, 1);
    rule->bytes = sp_output_bytes(context, 0);
    return status;
}

static enum sp_status shapes_multinomial(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    enum sp_dtype dtype = SP_DTYPE_INT32;
    struct sp_dim dims[2] = {sp_dim_unknown(), sp_dim_known(sp_node_int(context->node, "sample_size", 1))};
    enum sp_status status = sp_get_dtype(context, "dtype", SP_DTYPE_INT32, &dtype);
    if (status != SP_OK)
        return status;
    if (x != NULL && x->rank != 2)
        return sp_op_fail(context, "OPERAND_SHAPE", "its input has rank %u; it must have a batch and a class axis",
                          x->rank);
    if (x != NULL)
        dims[0] = x->dims[0];
    return sp_set_output(context, 0, dtype, 2, dims);
}

static enum sp_status rule_multinomial(struct sp_op_context *context, struct sp_rule *rule)
{
    enum sp_status status = sp_rule_from_entry(context, rule, context->node->op);
    sp_rule_term_named(rule, 5, "b c");
    sp_rule_term_output(rule, 1);
    return status;
}

const struct sp_op sp_ops_random[] = {
    SP_ENTRY("", "RandomNormal", 1, 0, 0, 0, 1, 1, "() -> [d..]", "ONNX operator RandomNormal (1, 22)",
             .flags = SP_OP_RANDOM, .shapes = shapes_shaped, .flops = 1, .lower = sp_lower_random_shaped),
    SP_ENTRY("", "RandomUniform", 1, 0, 0, 0, 1, 1, "() -> [d..]", "ONNX operator RandomUniform (1, 22)",
             .flags = SP_OP_RANDOM, .shapes = shapes_shaped, .flops = 1, .lower = sp_lower_random_shaped),
    SP_ENTRY("", "RandomNormalLike", 1, 0, 1, 1, 1, 1, "[d..] -> [d..]; only the shape is read",
             "ONNX operator RandomNormalLike (1, 22)", .flags = SP_OP_RANDOM, .shapes = shapes_like, .rule = rule_like,
             .lower = sp_lower_random_like),
    SP_ENTRY("", "RandomUniformLike", 1, 0, 1, 1, 1, 1, "[d..] -> [d..]; only the shape is read",
             "ONNX operator RandomUniformLike (1, 22)", .flags = SP_OP_RANDOM, .shapes = shapes_like, .rule = rule_like,
             .lower = sp_lower_random_like),
    SP_ENTRY("", "Bernoulli", 15, 0, 1, 1, 1, 1, "[d..] -> [d..]", "ONNX operator Bernoulli (15, 22)",
             .flags = SP_OP_RANDOM, .shapes = shapes_like, .flops = 1, .lower = sp_lower_random_like),
    SP_ENTRY("", "Multinomial", 7, 0, 1, 1, 1, 1, "[b, c] -> [b, s]; c whole", "ONNX operator Multinomial (7, 22)",
             .flags = SP_OP_RANDOM, .shapes = shapes_multinomial, .rule = rule_multinomial,
             .lower = sp_lower_multinomial),
    {.name = NULL},
};
