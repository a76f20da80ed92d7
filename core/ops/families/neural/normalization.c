/*
 * Normalisations and the softmax family.
 *
 *     BatchNormalization      [n, c, h..] [c] [c] [c] [c] -> [n, c, h..]     n and h.. moments when training
 *     InstanceNormalization   [n, c, h..] [c] [c] -> [n, c, h..]             h.. moments
 *     GroupNormalization      [n, g*c, h..] [g*c] [g*c] -> [n, g*c, h..]     c and h.. moments
 *     LayerNormalization      [i.., j..] [j..] [j..] -> [i.., j..]           j.. moments
 *     Softmax                 [i.., j] -> [i.., j]                           j softmax
 *
 * An axis that is normalised over is a reduction whose result goes back to every element: splitting it leaves partial
 * statistics to combine (sums and sums of squares, maxima and rescaled sums) and nothing else.
 *
 * Before opset 13 the softmax family normalises all axes from `axis` on together, since 13 only `axis`.
 *
 * FLOPs for each element: BatchNormalization 2 (it is a scale and a shift), 5 when it is training; the others that take
 * statistics 5, RMSNormalization 4 (fvcore's counts of batch and layer norm); Softmax and LogSoftmax 5 (maximum,
 * difference, exponential, sum, quotient); LRN 2 for each channel of its window and 3.
 */
#include <stdio.h>

#include "ops/families/math/broadcast.h"
#include "ops/families/neural/normalization.h"
#include "ops/lowering/functions.h"
#include "ops/table/factors.h"
#include "ops/table/families.h"
#include "ops/table/shape_helpers.h"

/* ---- shared --------------------------------------------------------------------------------------------------- */

static enum sp_status shapes_same(struct sp_op_context *context)
{
    return sp_set_output_shape(context, 0, sp_in_dtype(context, 0), sp_in_shape(context, 0));
}

/* Inputs first..last are vectors of `extent` elements. */
static enum sp_status check_vectors(struct sp_op_context *context, uint32_t first, uint32_t last, struct sp_dim extent)
{
    for (uint32_t input = first; input <= last; input++) {
        const struct sp_shape *shape = sp_in_shape(context, input);
        if (shape == NULL)
            continue;
        if (shape->rank != 1)
            return sp_op_fail(context, "OPERAND_SHAPE", "its input %u has rank %u instead of 1", input, shape->rank);
        if (sp_dim_is_known(shape->dims[0]) && sp_dim_is_known(extent) && shape->dims[0].value != extent.value)
            return sp_op_fail(context, "SHAPES_DISAGREE", "its input %u has %lld elements instead of %lld", input,
                              (long long)shape->dims[0].value, (long long)extent.value);
    }
    return SP_OK;
}

/* A new factor of input 0's axis, mapped in input 0 and output 0; with `is_normalized` it is a moments reduction. */
static uint8_t map_axis(struct sp_op_context *context, struct sp_rule *rule, const char *name, uint32_t axis,
                        bool is_normalized)
{
    struct sp_dim extent = sp_in_shape(context, 0)->dims[axis];
    uint8_t factor = is_normalized ? sp_factor_reduction(rule, name, extent, SP_COMBINE_MOMENTS)
                                   : sp_rule_factor(rule, name, SP_FACTOR_PARALLEL, extent);
    sp_rule_map_input(rule, 0, axis, factor);
    sp_rule_map_output(rule, 0, axis, factor);
    return factor;
}

static const char *axis_name(char name[SP_FACTOR_NAME_SIZE], uint32_t axis)
{
    if (axis < 2)
        (void)snprintf(name, SP_FACTOR_NAME_SIZE, "%c", axis == 0 ? 'n' : 'c');
    else
        (void)snprintf(name, SP_FACTOR_NAME_SIZE, "s%u", axis - 2);
    return name;
}

/* ---- BatchNormalization --------------------------------------------------------------------------------------- */

/* Whether it takes statistics of its input: an attribute since 14 and before 7, in between by having their outputs. */
static bool is_training(struct sp_op_context *context)
{
    if (context->version >= 14)
        return sp_node_int(context->node, "training_mode", 0) != 0;
    if (context->version < 7)
        return sp_node_int(context->node, "is_test", 0) == 0;
    for (uint32_t output = 1; output < context->node->output_count; output++) {
        if (context->node->outputs[output] != NULL)
            return true;
    }
    return false;
}

/* Before 9, `spatial` = 0 asks for statistics of every activation: vectors have the shape [c, h..]. */
static bool is_per_activation(struct sp_op_context *context)
{
    return context->version < 9 && sp_node_int(context->node, "spatial", 1) == 0;
}

static enum sp_status shapes_batch_norm(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0), *scale = sp_in_shape(context, 1);
    struct sp_dim channels = x == NULL ? sp_dim_unknown() : x->rank > 1 ? x->dims[1] : sp_dim_known(1);
    enum sp_status status = SP_OK;
    if (x != NULL && x->rank == 0)
        return sp_op_fail(context, "OPERAND_SHAPE", "its input is a scalar");
    if (!is_per_activation(context))
        status = check_vectors(context, 1, 4, channels);
    if (status == SP_OK)
        status = shapes_same(context);
    if (!sp_dim_is_known(channels) && scale != NULL && scale->rank == 1)
        channels = scale->dims[0];
    for (uint32_t output = 1; status == SP_OK && output < context->node->output_count; output++) {
        enum sp_dtype dtype = sp_in_dtype(context, 3);
        if (is_per_activation(context))
            status = sp_set_output_shape(context, output, dtype, scale);
        else
            status = sp_set_output(context, output, dtype, 1, &channels);
    }
    return status;
}

static enum sp_status rule_batch_norm(struct sp_op_context *context, struct sp_rule *rule)
{
    static const char *const texts[2][2] = {
        {"[n, c, s..] [c] -> [n, c, s..] [c]", "[n, c, s..] [c] -> [n, c, s..] [c]; n, s.. moments"},
        {"[n, c, s..] [c, s..] -> [n, c, s..] [c, s..]", "[n, c, s..] [c, s..] -> [n, c, s..] [c, s..]; n moments"},
    };
    bool training = is_training(context);
    enum sp_status status = sp_rule_from_text(context, rule, texts[is_per_activation(context)][training], 0, NULL);
    sp_rule_term_output(rule, training ? 5 : 2);
    return status;
}

/* ---- InstanceNormalization, GroupNormalization ---------------------------------------------------------------- */

static enum sp_status check_channel_rank(struct sp_op_context *context, const struct sp_shape *x)
{
    if (x->rank < 2)
        return sp_op_fail(context, "OPERAND_SHAPE", "its input has rank %u, and it needs a batch and a channel axis",
                          x->rank);
    return SP_OK;
}

static enum sp_status shapes_instance_norm(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    enum sp_status status = x != NULL ? check_channel_rank(context, x) : SP_OK;
    if (status == SP_OK && x != NULL)
        status = check_vectors(context, 1, 2, x->dims[1]);
    return status != SP_OK ? status : shapes_same(context);
}

static enum sp_status read_groups(struct sp_op_context *context, int64_t *ret_groups)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    int64_t groups = sp_node_int(context->node, "num_groups", 0);
    if (groups < 1)
        return sp_op_fail(context, "ATTRIBUTE_VALUE", "attribute 'num_groups' must be given and positive");
    if (x != NULL && x->rank > 1 && sp_dim_is_known(x->dims[1]) && x->dims[1].value % groups != 0)
        return sp_op_fail(context, "OPERAND_SHAPE", "its %lld channels do not divide into %lld groups",
                          (long long)x->dims[1].value, (long long)groups);
    *ret_groups = groups;
    return SP_OK;
}

/* Until 21 there was one scale and one bias for a group, since then there is one for a channel. */
static enum sp_status shapes_group_norm(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    int64_t groups = 1;
    enum sp_status status = x != NULL ? check_channel_rank(context, x) : SP_OK;
    if (status == SP_OK)
        status = read_groups(context, &groups);
    if (status == SP_OK && x != NULL)
        status = check_vectors(context, 1, 2, context->version < 21 ? sp_dim_known(groups) : x->dims[1]);
    return status != SP_OK ? status : shapes_same(context);
}

static enum sp_status rule_group_norm(struct sp_op_context *context, struct sp_rule *rule)
{
    int64_t groups = 1;
    enum sp_status status = read_groups(context, &groups);
    if (status != SP_OK)
        return status;
    const struct sp_text_size sizes[] = {{"n", sp_dim_unknown()}, {"g", sp_dim_known(groups)}};
    const char *text = context->version >= 21 ? "[n, g*c, s..] [g*c] [g*c] -> [n, g*c, s..]; c, s.. moments"
                                              : "[n, g*c, s..] [g] [g] -> [n, g*c, s..]; c, s.. moments";
    status = sp_rule_from_text(context, rule, text, 2, sizes);
    sp_rule_term_output(rule, 5);
    return status;
}

/* ---- LayerNormalization, RMSNormalization --------------------------------------------------------------------- */

enum sp_status sp_shapes_layer_norm(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    enum sp_dtype stash = (enum sp_dtype)sp_node_int(context->node, "stash_type", SP_DTYPE_FLOAT);
    enum sp_status status = shapes_same(context);
    uint32_t first = 0;
    if (status != SP_OK)
        return status;
    if (sp_dtype_name(stash) == NULL)
        return sp_op_fail(context, "ATTRIBUTE_VALUE", "attribute 'stash_type' is no element type");
    for (uint32_t output = 1; x == NULL && output < context->node->output_count; output++)
        (void)sp_set_output_unranked(context, output, stash);
    if (x == NULL)
        return SP_OK;
    status = sp_normalize_axis(context, sp_node_int(context->node, "axis", -1), x->rank, &first);
    struct sp_dim *dims = sp_new_dims(context, x->rank);
    if (status != SP_OK || dims == NULL)
        return status != SP_OK ? status : sp_fail_memory(context->err);
    for (uint32_t input = 1; status == SP_OK && input < context->node->input_count; input++)
        status = sp_check_broadcasts_to(context, input, x);
    for (uint32_t axis = 0; axis < x->rank; axis++)
        dims[axis] = axis < first ? x->dims[axis] : sp_dim_known(1);
    for (uint32_t output = 1; status == SP_OK && output < context->node->output_count; output++)
        status = sp_set_output(context, output, stash, x->rank, dims);
    return status;
}

/* ---- normalised over axes that the attributes choose ----------------------------------------------------------- */

/* Which axes of an input of this rank are normalised together, a bit each; SP_ERR_MODEL for wrong attributes. */
typedef enum sp_status axes_function(struct sp_op_context *context, uint32_t rank, struct sp_op_axes *ret_axes);

/* The output is the input's shape; the attributes are checked. */
static enum sp_status shapes_over(struct sp_op_context *context, axes_function *axes)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    struct sp_op_axes found = {0};
    enum sp_status status = x != NULL ? axes(context, x->rank, &found) : SP_OK;
    return status != SP_OK ? status : shapes_same(context);
}

/* ---- the softmax family --------------------------------------------------------------------------------------- */

/* Which axes are normalised together. Before 13 `axis` may also be the rank: then none. */
static enum sp_status softmax_axes(struct sp_op_context *context, uint32_t rank, struct sp_op_axes *ret_axes)
{
    bool flattens = context->version < 13;
    int64_t axis = sp_node_int(context->node, "axis", flattens ? 1 : -1);
    uint32_t first = rank;
    if (flattens && axis == (int64_t)rank)
        return SP_OK;
    enum sp_status status = sp_normalize_axis(context, axis, rank, &first);
    for (uint32_t i = first; status == SP_OK && i < (flattens ? rank : first + 1); i++)
        ret_axes->mask |= (uint64_t)1 << i;
    return status;
}

static enum sp_status shapes_softmax(struct sp_op_context *context)
{
    return shapes_over(context, softmax_axes);
}

/* ---- LRN, MeanVarianceNormalization, LpNormalization ---------------------------------------------------------- */

static enum sp_status shapes_lrn(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    int64_t size = sp_node_int(context->node, "size", 0);
    if (size < 1)
        return sp_op_fail(context, "ATTRIBUTE_VALUE", "attribute 'size' must be given and positive");
    enum sp_status status = x != NULL ? check_channel_rank(context, x) : SP_OK;
    return status != SP_OK ? status : shapes_same(context);
}

/* Channel c is divided by a power of the squares of channels c - floor((size - 1) / 2) to c + ceil((size - 1) / 2). */
static enum sp_status rule_lrn(struct sp_op_context *context, struct sp_rule *rule)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    int64_t size = sp_node_int(context->node, "size", 1);
    char name[SP_FACTOR_NAME_SIZE];
    for (uint32_t axis = 0; axis < x->rank; axis++) {
        if (axis != 1) {
            (void)map_axis(context, rule, axis_name(name, axis), axis, false);
            continue;
        }
        uint8_t factor = sp_factor_halo(rule, "c", x->dims[1], (size - 1) / 2, size / 2);
        sp_rule_map_input(rule, 0, 1, factor);
        sp_rule_map_output(rule, 0, 1, factor);
    }
    sp_rule_term_output(rule, 2 * (double)size + 3);
    return SP_OK;
}

static enum sp_status mvn_axes(struct sp_op_context *context, uint32_t rank, struct sp_op_axes *ret_axes)
{
    static const int64_t usual[] = {0, 2, 3};
    uint32_t count;
    const int64_t *axes = sp_node_ints(context->node, "axes", &count);
    if (axes == NULL) {
        axes = usual;
        count = 3;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t axis = 0;
        enum sp_status status = sp_normalize_axis(context, axes[i], rank, &axis);
        if (status != SP_OK)
            return status;
        ret_axes->mask |= (uint64_t)1 << axis;
    }
    return SP_OK;
}

static enum sp_status shapes_mvn(struct sp_op_context *context)
{
    return shapes_over(context, mvn_axes);
}

static enum sp_status lp_axis(struct sp_op_context *context, uint32_t rank, struct sp_op_axes *ret_axes)
{
    uint32_t axis = 0;
    enum sp_status status = sp_normalize_axis(context, sp_node_int(context->node, "axis", -1), rank, &axis);
    ret_axes->mask = (uint64_t)1 << axis;
    return status;
}

static enum sp_status shapes_lp_norm(struct sp_op_context *context)
{
    return shapes_over(context, lp_axis);
}

/* ---- the entries ---------------------------------------------------------------------------------------------- */

const struct sp_op sp_ops_normalization[] = {
    SP_ENTRY("", "BatchNormalization", 1, 0, 5, 5, 1, 5,
             "[n, c, h..] [c] [c] [c] [c] -> [n, c, h..] [c]..; n, h.. moments when training",
             "ONNX operator BatchNormalization", .shapes = shapes_batch_norm, .rule = rule_batch_norm,
             .lower = sp_lower_batch_norm),
    SP_ENTRY("", "InstanceNormalization", 1, 0, 3, 3, 1, 1, "[n, c, s..] [c] [c] -> [n, c, s..]; s.. moments",
             "ONNX operator InstanceNormalization", .shapes = shapes_instance_norm, .flops = 5,
             .lower = sp_lower_instance_norm),
    SP_ENTRY("", "GroupNormalization", 18, 0, 3, 3, 1, 1, "[n, g*c, h..] [g*c] [g*c] -> [n, g*c, h..]; c, h.. moments",
             "ONNX operator GroupNormalization", .shapes = shapes_group_norm, .rule = rule_group_norm,
             .lower = sp_lower_group_norm),
    SP_ENTRY("", "LayerNormalization", 17, 0, 2, 3, 1, 3,
             "[i.., j..] [j..] [j..] -> [i.., j..] [i.., 1..] [i.., 1..]; j.. moments",
             "ONNX operator LayerNormalization", .shapes = sp_shapes_layer_norm, .axes = sp_axes_from_axis, .flops = 5,
             .lower = sp_lower_layer_norm),
    SP_ENTRY("", "RMSNormalization", 23, 0, 2, 2, 1, 1, "[i.., j..] [j..] -> [i.., j..]; j.. moments",
             "ONNX operator RMSNormalization", .shapes = sp_shapes_layer_norm, .axes = sp_axes_from_axis, .flops = 4,
             .lower = sp_lower_rms_norm),
    SP_ENTRY("", "Softmax", 1, 0, 1, 1, 1, 1, "[i.., j..] -> [i.., j..]; j.. softmax", "ONNX operator Softmax",
             .flags = SP_OP_FUNCTION, .shapes = shapes_softmax, .axes = softmax_axes, .flops = 5,
             .lower = sp_lower_softmax),
    SP_ENTRY("", "LogSoftmax", 1, 0, 1, 1, 1, 1, "[i.., j..] -> [i.., j..]; j.. softmax", "ONNX operator LogSoftmax",
             .flags = SP_OP_FUNCTION, .shapes = shapes_softmax, .axes = softmax_axes, .flops = 5,
             .lower = sp_lower_log_softmax),
    SP_ENTRY("", "Hardmax", 1, 0, 1, 1, 1, 1, "[i.., j..] -> [i.., j..]; j.. select", "ONNX operator Hardmax",
             .shapes = shapes_softmax, .axes = softmax_axes, .flops = 1, .lower = sp_lower_hardmax),
    SP_ENTRY("", "LRN", 1, 0, 1, 1, 1, 1, "[n, c, h..] -> [n, c, h..]; c halo", "ONNX operator LRN",
             .shapes = shapes_lrn, .rule = rule_lrn, .lower = sp_lower_lrn),
    SP_ENTRY("", "MeanVarianceNormalization", 9, 0, 1, 1, 1, 1, "[i.., j..] -> [i.., j..]; j.. moments",
             "ONNX operator MeanVarianceNormalization", .shapes = shapes_mvn, .axes = mvn_axes, .flops = 5,
             .lower = sp_lower_mean_variance_norm),
    SP_ENTRY("", "LpNormalization", 1, 0, 1, 1, 1, 1, "[i.., j] -> [i.., j]; j sum", "ONNX operator LpNormalization",
             .shapes = shapes_lp_norm, .axes = lp_axis, .flops = 3, .lower = sp_lower_lp_norm),
    {.name = NULL},
};
