/*
 * Operators that select, count or accumulate along an axis.
 *
 *     TopK      [i.., j] [] -> [i.., k] [i.., k]      j reduction of winners with their positions
 *     CumSum    [i.., j] [] -> [i.., j]               j is a recurrence
 *     OneHot    [i..] [] [2] -> [i.., j]              j (the new axis) parallel
 *     NonZero   [i..] -> [r, c]                       everything whole: the extent c depends on data
 *
 * FLOPs: 1 for each input element; OneHot 1 for each output element.
 */
#include <stdio.h>

#include "ops/data.h"
#include "ops/factors.h"
#include "ops/families.h"
#include "ops/infer.h"

static void numbered(char name[SP_FACTOR_NAME_SIZE], char letter, uint32_t axis)
{
    (void)snprintf(name, SP_FACTOR_NAME_SIZE, "%c%u", letter, axis);
}

/* ---- TopK ----------------------------------------------------------------------------------------------------- */

/* How many are selected: an attribute before 10, an input of one element since. Unknown when it is computed. */
static enum sp_status read_k(struct sp_op_context *context, struct sp_dim *ret_k)
{
    struct sp_list list;
    enum sp_status status = sp_get_list(context, "k", 10, 1, &list);
    *ret_k = sp_dim_unknown();
    if (status != SP_OK)
        return status;
    if (!list.is_given || (list.has_count && list.count != 1))
        return sp_op_fail(context, "OPERAND_SHAPE", "its k is not one number");
    if (list.has_values)
        *ret_k = list.values[0];
    return SP_OK;
}

static enum sp_status infer_topk(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    enum sp_dtype dtype = sp_in_dtype(context, 0);
    uint32_t axis = 0;
    struct sp_dim k;
    enum sp_status status = read_k(context, &k);
    if (status != SP_OK)
        return status;
    if (x == NULL) {
        (void)sp_set_output_unranked(context, 0, dtype);
        return sp_set_output_unranked(context, 1, SP_DTYPE_INT64);
    }
    status = sp_normalize_axis(context, sp_node_int(context->node, "axis", -1), x->rank, &axis);
    struct sp_dim *dims = sp_new_dims(context, x->rank);
    if (status != SP_OK || dims == NULL)
        return status != SP_OK ? status : sp_fail_memory(context->err);
    if (sp_dim_is_known(k) && (k.value < 0 || (sp_dim_is_known(x->dims[axis]) && k.value > x->dims[axis].value)))
        return sp_op_fail(context, "OPERAND_VALUE", "it selects %lld elements of an axis that has fewer",
                          (long long)k.value);
    for (uint32_t i = 0; i < x->rank; i++)
        dims[i] = x->dims[i];
    dims[axis] = k.kind == SP_DIM_UNKNOWN ? sp_dim_fresh(context->dims, "TopK") : k;
    status = sp_set_output(context, 0, dtype, x->rank, dims);
    return status != SP_OK ? status : sp_set_output(context, 1, SP_DTYPE_INT64, x->rank, dims);
}

static void map_output_if_there(struct sp_op_context *context, struct sp_rule *rule, uint32_t axis, uint8_t factor)
{
    for (uint32_t output = 0; output < rule->output_count; output++) {
        if (context->node->outputs[output] != NULL)
            sp_rule_map_output(rule, output, axis, factor);
    }
}

static enum sp_status rule_topk(struct sp_op_context *context, struct sp_rule *rule)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    struct sp_factor_list all = {0};
    char name[SP_FACTOR_NAME_SIZE];
    uint32_t selected;
    struct sp_dim k = sp_dim_unknown();
    enum sp_status status = sp_normalize_axis(context, sp_node_int(context->node, "axis", -1), x->rank, &selected);
    if (status != SP_OK)
        return status;
    for (uint32_t output = 0; output < rule->output_count; output++) {
        if (context->node->outputs[output] != NULL)
            k = context->node->outputs[output]->type.shape.dims[selected];
    }
    for (uint32_t axis = 0; axis < x->rank; axis++) {
        uint8_t factor;
        numbered(name, 'd', axis);
        if (axis == selected) {
            factor = sp_factor_reduction(rule, name, x->dims[axis], SP_COMBINE_SELECT);
            map_output_if_there(context, rule, axis, sp_rule_factor(rule, "k", SP_FACTOR_REPLICATE, k));
        } else {
            factor = sp_rule_factor(rule, name, SP_FACTOR_PARALLEL, x->dims[axis]);
            map_output_if_there(context, rule, axis, factor);
        }
        sp_rule_map_input(rule, 0, axis, factor);
        sp_factor_list_add(&all, factor);
    }
    sp_rule_term_list(rule, 1, &all);
    return SP_OK;
}

/* ---- CumSum, CumProd ------------------------------------------------------------------------------------------ */

static enum sp_status scan_axes(struct sp_op_context *context, uint32_t rank, uint64_t *ret_mask)
{
    const struct sp_data *given = sp_in_known_ints(context, 1);
    uint32_t axis = 0;
    if (given == NULL || given->count != 1) { /* any one of them */
        *ret_mask = UINT64_MAX;
        return SP_OK;
    }
    enum sp_status status = sp_normalize_axis(context, given->ints[0].value, rank, &axis);
    *ret_mask = (uint64_t)1 << axis;
    return status;
}

static enum sp_status infer_scan(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    uint64_t mask;
    enum sp_status status = x != NULL ? scan_axes(context, x->rank, &mask) : SP_OK;
    return status != SP_OK ? status : sp_set_output_shape(context, 0, sp_in_dtype(context, 0), x);
}

static enum sp_status rule_scan(struct sp_op_context *context, struct sp_rule *rule)
{
    uint64_t mask;
    enum sp_status status = scan_axes(context, sp_in_shape(context, 0)->rank, &mask);
    if (status == SP_OK)
        status = sp_rule_same_axes(context, rule, mask, SP_FACTOR_SEQUENTIAL, SP_COMBINE_NONE);
    sp_rule_term_output(rule, 1);
    return status;
}

/* ---- OneHot --------------------------------------------------------------------------------------------------- */

/* The position of the new axis in the result. */
static enum sp_status read_new_axis(struct sp_op_context *context, uint32_t rank, uint32_t *ret_axis)
{
    return sp_normalize_axis(context, sp_node_int(context->node, "axis", -1), rank + 1, ret_axis);
}

static enum sp_status infer_one_hot(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    const struct sp_data *depth = sp_in_data(context, 1);
    enum sp_dtype dtype = sp_in_dtype(context, 2);
    uint32_t axis = 0;
    if (x == NULL)
        return sp_set_output_unranked(context, 0, dtype);
    enum sp_status status = read_new_axis(context, x->rank, &axis);
    struct sp_dim *dims = sp_new_dims(context, (uint64_t)x->rank + 1);
    if (status != SP_OK || dims == NULL)
        return status != SP_OK ? status : sp_fail_memory(context->err);
    for (uint32_t i = 0; i < x->rank; i++)
        dims[i < axis ? i : i + 1] = x->dims[i];
    if (depth != NULL && depth->count == 1 && depth->ints != NULL)
        dims[axis] = depth->ints[0];
    else if (depth != NULL && depth->count == 1 && depth->reals[0] >= 0 && depth->reals[0] < 1e9)
        dims[axis] = sp_dim_known((int64_t)depth->reals[0]); /* any numeric type is allowed */
    if (dims[axis].kind == SP_DIM_UNKNOWN)
        dims[axis] = sp_dim_fresh(context->dims, "OneHot");
    return sp_set_output(context, 0, dtype, x->rank + 1, dims);
}

static enum sp_status rule_one_hot(struct sp_op_context *context, struct sp_rule *rule)
{
    const struct sp_shape *x = sp_in_shape(context, 0), *y = &context->node->outputs[0]->type.shape;
    char name[SP_FACTOR_NAME_SIZE];
    uint32_t axis;
    enum sp_status status = read_new_axis(context, x->rank, &axis);
    for (uint32_t i = 0; status == SP_OK && i < y->rank; i++) {
        numbered(name, 'd', i);
        uint8_t factor = sp_rule_factor(rule, i == axis ? "depth" : name, SP_FACTOR_PARALLEL, y->dims[i]);
        if (i != axis)
            sp_rule_map_input(rule, 0, i < axis ? i : i - 1, factor);
        sp_rule_map_output(rule, 0, i, factor);
    }
    sp_rule_term_output(rule, 1);
    return status;
}

/* ---- NonZero -------------------------------------------------------------------------------------------------- */

static bool has_numbers(const struct sp_data *data)
{
    for (uint32_t i = 0; data->ints != NULL && i < data->count; i++) {
        if (!sp_dim_is_known(data->ints[i]))
            return false;
    }
    return true;
}

/* The positions of the elements that are not zero; all elements are numbers. */
static enum sp_status nonzero_data(struct sp_op_context *context, const struct sp_shape *x, const struct sp_data *data)
{
    uint32_t count = 0, found = 0;
    for (uint32_t i = 0; i < data->count; i++)
        count += data->ints != NULL ? data->ints[i].value != 0 : data->reals[i] != 0;
    struct sp_dim dims[2] = {sp_dim_known(x->rank), sp_dim_known(count)};
    struct sp_dim *positions = sp_new_dims(context, (uint64_t)x->rank * count);
    if (positions == NULL)
        return sp_fail_memory(context->err);
    for (uint32_t i = 0; i < data->count; i++) {
        int64_t rest = i;
        if (data->ints != NULL ? data->ints[i].value == 0 : data->reals[i] == 0)
            continue;
        for (uint32_t axis = x->rank; axis-- > 0;) {
            positions[(size_t)axis * count + found] = sp_dim_known(rest % x->dims[axis].value);
            rest /= x->dims[axis].value;
        }
        found++;
    }
    enum sp_status status = sp_set_output(context, 0, SP_DTYPE_INT64, 2, dims);
    return status != SP_OK ? status : sp_set_data_ints(context, 0, x->rank * count, positions);
}

static enum sp_status infer_nonzero(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    if (x != NULL && x->rank > 0 && sp_shape_elements(x) >= 0 && sp_data_available(context, 0)) {
        const struct sp_data *data = sp_in_data(context, 0);
        if (data != NULL && data->count == sp_shape_elements(x) && has_numbers(data))
            return nonzero_data(context, x, data);
    }
    struct sp_dim dims[2] = {x != NULL && x->rank > 0 ? sp_dim_known(x->rank) : sp_dim_unknown(),
                             sp_dim_fresh(context->dims, "NonZero")};
    return sp_set_output(context, 0, SP_DTYPE_INT64, 2, dims);
}

static enum sp_status rule_nonzero(struct sp_op_context *context, struct sp_rule *rule)
{
    struct sp_factor_list all = {0};
    for (uint32_t axis = 0; axis < sp_in_shape(context, 0)->rank; axis++)
        sp_factor_list_add(&all, sp_rule_input_axis(context, rule, 'd', 0, axis, SP_FACTOR_REPLICATE));
    for (uint32_t axis = 0; axis < 2; axis++)
        (void)sp_rule_output_axis(context, rule, 'o', 0, axis, SP_FACTOR_REPLICATE);
    sp_rule_term_list(rule, 1, &all);
    return SP_OK;
}

#define ENTRY(name_, since_, last_, inputs_, outputs_, infer_, rule_, text_)                                           \
    {                                                                                                                  \
        .domain = "", .name = name_, .since = since_, .last = last_, .min_inputs = inputs_, .max_inputs = inputs_,     \
        .min_outputs = outputs_, .max_outputs = outputs_, .infer = infer_, .rule = rule_, .text = text_,               \
        .source = "ONNX operator " name_                                                                               \
    }

const struct sp_op sp_ops_selection[] = {
    ENTRY("TopK", 1, 9, 1, 2, infer_topk, rule_topk, "[i.., j] -> [i.., k] [i.., k]; j select"),
    ENTRY("TopK", 10, 0, 2, 2, infer_topk, rule_topk, "[i.., j] [1] -> [i.., k] [i.., k]; j select"),
    ENTRY("CumSum", 11, 0, 2, 1, infer_scan, rule_scan, "[i.., j] [] -> [i.., j]; j sequential"),
    ENTRY("CumProd", 26, 0, 2, 1, infer_scan, rule_scan, "[i.., j] [] -> [i.., j]; j sequential"),
    ENTRY("OneHot", 9, 0, 3, 1, infer_one_hot, rule_one_hot, "[i..] [] [2] -> [i.., depth]"),
    ENTRY("NonZero", 9, 0, 1, 1, infer_nonzero, rule_nonzero, "[i..] -> [r, c]; all replicated"),
    {.name = NULL},
};
