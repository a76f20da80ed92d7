/*
 * Pools: a window over the spatial axes, or all of them.
 *
 *     MaxPool, AveragePool, LpPool    [n, c, h, w] -> [n, c, h', w']      h and w are halo factors
 *     Global...Pool                   [n, c, h, w] -> [n, c, 1, 1]        h and w are reductions
 *     MaxUnpool                       [i..] [i..] -> [o..]                i.. sum: an element goes to any place of o..
 *
 * ops/families/neural/window.h explains the factors of windows.
 *
 * FLOPs: the taps of the window for each output element, 1 for each input element of a global pool (the convention of
 * fvcore and of the PyTorch community's counters; pools are memory-bound, so that it hardly matters).
 */
#include <stdio.h>

#include "ops/families/neural/window.h"
#include "ops/lowering/functions.h"
#include "ops/table/factors.h"
#include "ops/table/families.h"
#include "ops/table/shape_helpers.h"

static enum sp_status check_rank(struct sp_op_context *context, const struct sp_shape *x)
{
    if (x->rank < 3)
        return sp_op_fail(context, "OPERAND_SHAPE", "the input has rank %u, and a pool needs at least 3", x->rank);
    return SP_OK;
}

/* ---- pools with a window -------------------------------------------------------------------------------------- */

static enum sp_status shapes_pool(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    enum sp_dtype dtype = sp_in_dtype(context, 0);
    struct sp_window window;
    enum sp_status status;
    if (x == NULL) {
        status = sp_set_output_unranked(context, 0, dtype);
        return status != SP_OK || context->node->output_count < 2 ? status
                                                                  : sp_set_output_unranked(context, 1, SP_DTYPE_INT64);
    }
    if (sp_node_attribute(context->node, "kernel_shape") == NULL)
        return sp_op_fail(context, "ATTRIBUTE_MISSING", "attribute 'kernel_shape' is required");
    status = check_rank(context, x);
    if (status == SP_OK)
        status = sp_window_read(context, x->rank - 2, NULL, &window);
    struct sp_dim *dims = sp_new_dims(context, x->rank);
    if (status != SP_OK || dims == NULL)
        return status != SP_OK ? status : sp_fail_memory(context->err);
    dims[0] = x->dims[0];
    dims[1] = x->dims[1];
    for (uint32_t i = 0; status == SP_OK && i < window.rank; i++)
        status = sp_window_extent(context, &window, i, x->dims[2 + i], &dims[2 + i]);
    if (status == SP_OK)
        status = sp_set_output(context, 0, dtype, x->rank, dims);
    if (status == SP_OK && context->node->output_count > 1)
        status = sp_set_output(context, 1, SP_DTYPE_INT64, x->rank, dims); /* Indices of MaxPool */
    return status;
}

static enum sp_status rule_pool(struct sp_op_context *context, struct sp_rule *rule, enum sp_combiner combiner)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    const struct sp_shape *y = NULL;
    struct sp_factor_list places = {0};
    struct sp_window window;
    double taps = 1;
    for (uint32_t i = 0; i < context->node->output_count; i++) {
        if (context->node->outputs[i] != NULL)
            y = &context->node->outputs[i]->type.shape;
    }
    enum sp_status status = sp_window_read(context, x->rank - 2, NULL, &window);
    if (status != SP_OK || y == NULL)
        return status;
    for (uint32_t axis = 0; axis < x->rank; axis++) {
        struct sp_window_factors factors = {.tap = SP_RULE_NO_FACTOR, .kernel = 1};
        if (axis < 2)
            factors.place = sp_rule_factor(rule, axis == 0 ? "n" : "c", SP_FACTOR_PARALLEL, x->dims[axis]);
        else
            factors = sp_window_factors(context, rule, &window, axis - 2, x->dims[axis], y->dims[axis], combiner);
        sp_window_map_input(rule, 0, axis, &factors);
        for (uint32_t i = 0; i < context->node->output_count; i++) {
            if (context->node->outputs[i] != NULL)
                sp_rule_map_output(rule, i, axis, factors.place);
        }
        sp_factor_list_add(&places, factors.place);
        taps *= factors.kernel;
    }
    sp_rule_term_list(rule, taps, &places);
    return SP_OK;
}

/* The operand's elements count through the axes of another: row-major, or with `storage_order` 1 with the spatial axes
   in the reverse order (column-major). */
static void flat_positions(struct sp_op_context *context, const struct sp_axis_factors *axes, uint32_t rank,
                           struct sp_rule *rule, void (*add)(struct sp_rule *, uint32_t, uint8_t), uint32_t operand)
{
    bool is_reversed = sp_node_int(context->node, "storage_order", 0) != 0;
    for (uint32_t i = 0; i < rank; i++) {
        const struct sp_axis_factors *axis = &axes[i >= 2 && is_reversed ? rank + 1 - i : i];
        for (uint8_t k = 0; k < axis->count; k++)
            add(rule, operand, axis->factors[k]);
    }
}

/* Indices are positions in the whole input. */
static enum sp_status rule_max_pool(struct sp_op_context *context, struct sp_rule *rule)
{
    enum sp_status status = rule_pool(context, rule, SP_COMBINE_MAX);
    if (status == SP_OK && rule->output_count > 1 && context->node->outputs[1] != NULL)
        flat_positions(context, rule->inputs[0].axes, rule->inputs[0].rank, rule, sp_rule_positions_output, 1);
    return status;
}

/* Sums, also those under the root of LpPool: the root and the division come after the combination. */
static enum sp_status rule_sum_pool(struct sp_op_context *context, struct sp_rule *rule)
{
    return rule_pool(context, rule, SP_COMBINE_SUM);
}

/* ---- global pools --------------------------------------------------------------------------------------------- */

static enum sp_status shapes_global_pool(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    enum sp_dtype dtype = sp_in_dtype(context, 0);
    if (x == NULL)
        return sp_set_output_unranked(context, 0, dtype);
    if (x->rank < 2)
        return sp_op_fail(context, "OPERAND_SHAPE", "the input has rank %u, and a global pool needs at least 2",
                          x->rank);
    struct sp_dim *dims = sp_new_dims(context, x->rank);
    if (dims == NULL)
        return sp_fail_memory(context->err);
    for (uint32_t axis = 0; axis < x->rank; axis++)
        dims[axis] = axis < 2 ? x->dims[axis] : sp_dim_known(1);
    return sp_set_output(context, 0, dtype, x->rank, dims);
}

/* ---- MaxUnpool ------------------------------------------------------------------------------------------------ */

static enum sp_status shapes_max_unpool(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0), *indices = sp_in_shape(context, 1);
    const struct sp_data *shape = sp_in_data(context, 2);
    enum sp_dtype dtype = sp_in_dtype(context, 0);
    struct sp_window window;
    if (x == NULL)
        return sp_set_output_unranked(context, 0, dtype);
    if (indices != NULL && indices->rank != x->rank)
        return sp_op_fail(context, "OPERAND_SHAPE", "its indices have %u axes and its input %u", indices->rank,
                          x->rank);
    enum sp_status status = check_rank(context, x);
    if (status == SP_OK)
        status = sp_window_read(context, x->rank - 2, NULL, &window);
    struct sp_dim *dims = sp_new_dims(context, x->rank);
    if (status != SP_OK || dims == NULL)
        return status != SP_OK ? status : sp_fail_memory(context->err);
    if (shape != NULL && shape->ints != NULL) {
        if (shape->count != x->rank)
            return sp_op_fail(context, "OPERAND_SHAPE", "its output shape has %u axes and its input %u", shape->count,
                              x->rank);
        return sp_set_output(context, 0, dtype, x->rank, shape->ints);
    }
    for (uint32_t axis = 0; axis < x->rank; axis++) {
        if (axis < 2) {
            dims[axis] = x->dims[axis];
        } else if (!sp_has_input(context, 2) && window.kernel[axis - 2] > 0) {
            struct sp_dim out = sp_dim_sub(context->dims, x->dims[axis], sp_dim_known(1));
            out = sp_dim_mul(context->dims, out, sp_dim_known(window.stride[axis - 2]));
            out = sp_dim_add(context->dims, out, sp_dim_known(window.kernel[axis - 2]));
            out = sp_dim_sub(context->dims, out, sp_dim_known(window.low[axis - 2]));
            dims[axis] = sp_dim_sub(context->dims, out, sp_dim_known(window.high[axis - 2]));
            if (sp_dim_is_known(dims[axis]) && dims[axis].value < 0)
                return sp_op_fail(context, "OPERAND_SHAPE", "its padding removes more than all of axis %u", axis);
        }
    }
    return sp_set_output(context, 0, dtype, x->rank, dims);
}

/* The indices are positions in the whole output: any part of it takes what falls into it, and a part of the input gives
   a result that is zero elsewhere. */
static enum sp_status rule_max_unpool(struct sp_op_context *context, struct sp_rule *rule)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    struct sp_factor_list work = {0};
    char name[SP_FACTOR_NAME_SIZE];
    for (uint32_t axis = 0; axis < x->rank; axis++) {
        (void)snprintf(name, sizeof name, "i%u", axis);
        uint8_t from = sp_factor_reduction(rule, name, x->dims[axis], SP_COMBINE_SUM);
        sp_rule_map_input(rule, 0, axis, from);
        sp_rule_map_input(rule, 1, axis, from);
        sp_factor_list_add(&work, from);
        (void)sp_rule_output_axis(context, rule, 'o', 0, axis, SP_FACTOR_PARALLEL);
    }
    flat_positions(context, rule->outputs[0].axes, rule->outputs[0].rank, rule, sp_rule_positions_input, 1);
    sp_rule_term_list(rule, 1, &work);
    return SP_OK;
}

#define SUM_TEXT "[n, c, h..] -> [n, c, h..]; h.. halo and taps whole, or taps sum where they tile"

const struct sp_op sp_ops_pooling[] = {
    SP_ENTRY("", "MaxPool", 1, 0, 1, 1, 1, 2,
             "[n, c, h..] -> [n, c, h..] [n, c, h..]; h.. halo and taps whole, or taps max where they tile",
             "ONNX operator MaxPool", .shapes = shapes_pool, .rule = rule_max_pool, .lower = sp_lower_max_pool),
    SP_ENTRY("", "AveragePool", 1, 0, 1, 1, 1, 1, SUM_TEXT, "ONNX operator AveragePool", .shapes = shapes_pool,
             .rule = rule_sum_pool, .lower = sp_lower_average_pool),
    SP_ENTRY("", "LpPool", 1, 0, 1, 1, 1, 1, SUM_TEXT, "ONNX operator LpPool", .shapes = shapes_pool,
             .rule = rule_sum_pool, .lower = sp_lower_lp_pool),
    SP_ENTRY("", "GlobalMaxPool", 1, 0, 1, 1, 1, 1, "[n, c, h..] -> [n, c, 1..]; h.. max",
             "ONNX operator GlobalMaxPool", .shapes = shapes_global_pool, .flops = 1),
    SP_ENTRY("", "GlobalAveragePool", 1, 0, 1, 1, 1, 1, "[n, c, h..] -> [n, c, 1..]; h.. sum",
             "ONNX operator GlobalAveragePool", .shapes = shapes_global_pool, .flops = 1,
             .lower = sp_lower_global_average_pool),
    SP_ENTRY("", "GlobalLpPool", 1, 0, 1, 1, 1, 1, "[n, c, h..] -> [n, c, 1..]; h.. sum", "ONNX operator GlobalLpPool",
             .shapes = shapes_global_pool, .flops = 1, .lower = sp_lower_global_lp_pool),
    SP_ENTRY("", "MaxUnpool", 9, 0, 2, 3, 1, 1, "[i..] [i..] -> [o..]; i.. sum", "ONNX operator MaxUnpool (9, 11, 22)",
             .shapes = shapes_max_unpool, .rule = rule_max_unpool, .lower = sp_lower_max_unpool),
    {.name = NULL},
};
