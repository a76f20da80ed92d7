/*
 * Operators that select, count or accumulate along an axis.
 *
 *     TopK      [i.., j] [] -> [i.., k] [i.., k]      j reduction of winners with their positions
 *     CumSum    [i.., j] [] -> [i.., j]               j is a recurrence
 *     OneHot    [i..] [] [2] -> [i.., j]              j (the new axis) parallel
 *     NonZero   [i..] -> [r, c]                       everything whole: the extent c depends on data
 *
 * Positions that are given (OneHot) or result (TopK) count along the axis of the whole.
 *
 * FLOPs: 1 for each input element; OneHot 1 for each output element.
 */
#include <math.h>
#include <stdio.h>

#include "ops/families/tensor/axis_lines.h"
#include "ops/lowering/functions.h"
#include "ops/table/factors.h"
#include "ops/table/families.h"
#include "ops/table/known_values.h"
#include "ops/table/shape_helpers.h"

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

/* Puts the line's positions in order by insertion: the extreme first, of equal ones the lower position. */
static void rank_line(const struct sp_axis_lines *lines, uint32_t line, const struct sp_data *data, bool is_largest,
                      uint32_t *ranked)
{
    for (uint32_t i = 0; i < lines->extent; i++) {
        uint32_t at = i;
        while (at > 0) {
            int order = sp_data_order(data, sp_axis_line_element(lines, line, i),
                                      sp_axis_line_element(lines, line, ranked[at - 1]));
            if (is_largest ? order <= 0 : order >= 0)
                break;
            ranked[at] = ranked[at - 1];
            at--;
        }
        ranked[at] = i;
    }
}

/* Values and positions of known elements. Unsorted results may come in any order, so none is given. */
static enum sp_status topk_data(struct sp_op_context *context, uint32_t axis, struct sp_dim k)
{
    const struct sp_data *from = sp_in_numbers(context, 0);
    bool is_largest = sp_node_int(context->node, "largest", 1) != 0;
    if (from == NULL || from->count == 0 || !sp_dim_is_known(k) || sp_node_int(context->node, "sorted", 1) == 0)
        return SP_OK;
    struct sp_axis_lines lines = sp_axis_lines_of(sp_in_shape(context, 0), axis), to = lines;
    to.extent = (uint32_t)k.value;
    uint32_t *ranked = SP_NEW_ARRAY(context->arena, lines.extent, uint32_t);
    uint32_t *pick = SP_NEW_ARRAY(context->arena, (size_t)to.count * to.extent, uint32_t);
    struct sp_dim *places = sp_new_dims(context, (uint64_t)to.count * to.extent);
    if (ranked == NULL || pick == NULL || places == NULL)
        return sp_fail_memory(context->err);
    for (uint32_t line = 0; line < lines.count; line++) {
        rank_line(&lines, line, from, is_largest, ranked);
        for (uint32_t i = 0; i < to.extent; i++) {
            pick[sp_axis_line_element(&to, line, i)] = sp_axis_line_element(&lines, line, ranked[i]);
            places[sp_axis_line_element(&to, line, i)] = sp_dim_known(ranked[i]);
        }
    }
    enum sp_status status = sp_data_room(context, 0) >= 0 ? sp_data_pick(context, 0, pick, NULL) : SP_OK;
    return status != SP_OK ? status : sp_set_data_ints(context, 1, to.count * to.extent, places);
}

static enum sp_status shapes_topk(struct sp_op_context *context)
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
    dims[axis] = k.kind == SP_DIM_UNKNOWN ? sp_dim_fresh(context->dims, "TopK", x->dims[axis]) : k;
    status = sp_set_output(context, 0, dtype, x->rank, dims);
    if (status == SP_OK)
        status = sp_set_output(context, 1, SP_DTYPE_INT64, x->rank, dims);
    return status != SP_OK ? status : topk_data(context, axis, k);
}

static void map_output_if_there(struct sp_op_context *context, struct sp_rule *rule, uint32_t axis, uint8_t factor)
{
    for (uint32_t output = 0; output < rule->output_count; output++) {
        if (context->node->outputs[output] != NULL)
            sp_rule_map_output(rule, output, axis, factor);
    }
}

/* Whether the winners of two parts are at least as many as all elements: a sort, for one. Then nothing is gained by
   selecting from parts first. */
static bool selects_most(struct sp_dim k, struct sp_dim extent)
{
    return sp_dim_is_known(k) && sp_dim_is_known(extent) && k.value >= extent.value - k.value;
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
            factor = selects_most(k, x->dims[axis]) ? sp_rule_factor(rule, name, SP_FACTOR_REPLICATE, x->dims[axis])
                                                    : sp_factor_reduction(rule, name, x->dims[axis], SP_COMBINE_SELECT);
            if (rule->output_count > 1 && context->node->outputs[1] != NULL)
                sp_rule_positions_output(rule, 1, factor);
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

static enum sp_status scan_axes(struct sp_op_context *context, uint32_t rank, struct sp_op_axes *ret_axes)
{
    const struct sp_data *given = sp_in_known_ints(context, 1);
    uint32_t axis = 0;
    if (given == NULL || given->count != 1) { /* any one of them */
        ret_axes->mask = UINT64_MAX;
        return SP_OK;
    }
    enum sp_status status = sp_normalize_axis(context, given->ints[0].value, rank, &axis);
    ret_axes->mask = (uint64_t)1 << axis;
    return status;
}

/* One step of a line: the running result, which output element `to` gets before (exclusive) or after element `from`. */
struct running {
    bool is_product;
    struct sp_dim whole; /* of integers, which may be symbols */
    double real;
};

static void add_to(struct sp_dims *dims, struct running *running, const struct sp_data *data, uint32_t i)
{
    if (data->reals != NULL)
        running->real = running->is_product ? running->real * data->reals[i] : running->real + data->reals[i];
    else
        running->whole = running->is_product ? sp_dim_mul(dims, running->whole, data->ints[i])
                                             : sp_dim_add(dims, running->whole, data->ints[i]);
}

static enum sp_status scan_data(struct sp_op_context *context, uint32_t axis, bool is_product)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    bool is_exclusive = sp_node_int(context->node, "exclusive", 0) != 0;
    bool is_reverse = sp_node_int(context->node, "reverse", 0) != 0;
    if (sp_data_room(context, 0) < 0 || !sp_data_available(context, 0))
        return SP_OK;
    const struct sp_data *from = sp_in_data(context, 0);
    struct sp_data *to = from != NULL ? sp_data_new(context, 0, from->reals != NULL) : NULL;
    if (to == NULL || to->count != from->count)
        return SP_OK;
    struct sp_axis_lines lines = sp_axis_lines_of(x, axis);
    for (uint32_t line = 0; line < lines.count; line++) {
        struct running running = {is_product, sp_dim_known(is_product), is_product};
        for (uint32_t i = 0; i < lines.extent; i++) {
            uint32_t at = sp_axis_line_element(&lines, line, is_reverse ? lines.extent - 1 - i : i);
            if (!is_exclusive)
                add_to(context->dims, &running, from, at);
            if (to->reals != NULL)
                to->reals[at] = running.real;
            else
                to->ints[at] = running.whole;
            if (is_exclusive)
                add_to(context->dims, &running, from, at);
        }
    }
    sp_data_attach(context, 0, to);
    return SP_OK;
}

static enum sp_status shapes_scan(struct sp_op_context *context, bool is_product)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    struct sp_op_axes axes = {0};
    enum sp_status status = x != NULL ? scan_axes(context, x->rank, &axes) : SP_OK;
    if (status == SP_OK)
        status = sp_set_output_shape(context, 0, sp_in_dtype(context, 0), x);
    for (uint32_t axis = 0; status == SP_OK && x != NULL && axis < x->rank; axis++) {
        if (axes.mask == (uint64_t)1 << axis)
            return scan_data(context, axis, is_product);
    }
    return status;
}

static enum sp_status shapes_cumulative_sum(struct sp_op_context *context)
{
    return shapes_scan(context, false);
}

static enum sp_status shapes_cumulative_product(struct sp_op_context *context)
{
    return shapes_scan(context, true);
}

/* ---- OneHot --------------------------------------------------------------------------------------------------- */

/* The position of the new axis in the result. */
static enum sp_status read_new_axis(struct sp_op_context *context, uint32_t rank, uint32_t *ret_axis)
{
    return sp_normalize_axis(context, sp_node_int(context->node, "axis", -1), rank + 1, ret_axis);
}

/* Off values everywhere but at the indices; those outside of the axis have no place, negative ones count from its end.
 */
static enum sp_status one_hot_data(struct sp_op_context *context, uint32_t axis)
{
    const struct sp_data *index = sp_in_numbers(context, 0), *values = sp_in_data(context, 2);
    if (index == NULL || values == NULL || values->count != 2)
        return SP_OK;
    struct sp_data *data = sp_data_new(context, 0, values->reals != NULL);
    if (data == NULL)
        return SP_OK;
    struct sp_axis_lines lines = sp_axis_lines_of(&context->node->outputs[0]->type.shape, axis);
    for (uint32_t line = 0; line < lines.count; line++) {
        double place = index->reals != NULL ? trunc(index->reals[line]) : (double)index->ints[line].value;
        place += place < 0 ? (double)lines.extent : 0;
        for (uint32_t i = 0; i < lines.extent; i++)
            sp_data_copy(data, sp_axis_line_element(&lines, line, i), values, place == (double)i);
    }
    sp_data_attach(context, 0, data);
    return SP_OK;
}

static enum sp_status shapes_one_hot(struct sp_op_context *context)
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
        dims[axis] = sp_dim_fresh(context->dims, "OneHot", sp_dim_unknown());
    status = sp_set_output(context, 0, dtype, x->rank + 1, dims);
    return status != SP_OK || sp_data_room(context, 0) < 0 ? status : one_hot_data(context, axis);
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
        else
            sp_rule_positions_input(rule, 0, factor);
        sp_rule_map_output(rule, 0, i, factor);
    }
    sp_rule_term_output(rule, 1);
    return status;
}

/* ---- NonZero -------------------------------------------------------------------------------------------------- */

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

static enum sp_status shapes_nonzero(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    const struct sp_data *data = x != NULL && x->rank > 0 ? sp_in_numbers(context, 0) : NULL;
    if (data != NULL)
        return nonzero_data(context, x, data);
    struct sp_dim dims[2] = {x != NULL && x->rank > 0 ? sp_dim_known(x->rank) : sp_dim_unknown(),
                             sp_dim_fresh(context->dims, "NonZero",
                                          x != NULL ? sp_product(context, x->dims, 0, x->rank) : sp_dim_unknown())};
    return sp_set_output(context, 0, SP_DTYPE_INT64, 2, dims);
}

static enum sp_status rule_nonzero(struct sp_op_context *context, struct sp_rule *rule)
{
    enum sp_status status = sp_rule_from_entry(context, rule, context->node->op);
    int64_t elements = sp_shape_elements(sp_in_shape(context, 0));
    sp_rule_term(rule, elements > 0 ? (double)elements : 1, 0, NULL);
    return status;
}

const struct sp_op sp_ops_selection[] = {
    SP_ENTRY("", "TopK", 1, 9, 1, 1, 2, 2, "[i.., j] -> [i.., k] [i.., k]; j select, k whole", "ONNX operator TopK",
             .shapes = shapes_topk, .rule = rule_topk, .lower = sp_lower_top_k),
    SP_ENTRY("", "TopK", 10, 0, 2, 2, 2, 2, "[i.., j] [1] -> [i.., k] [i.., k]; j select, k whole",
             "ONNX operator TopK", .shapes = shapes_topk, .rule = rule_topk, .lower = sp_lower_top_k),
    SP_ENTRY("", "CumSum", 11, 0, 2, 2, 1, 1, "[i.., j] [] -> [i.., j]; j sequential", "ONNX operator CumSum",
             .shapes = shapes_cumulative_sum, .axes = scan_axes, .flops = 1),
    SP_ENTRY("", "CumProd", 26, 0, 2, 2, 1, 1, "[i.., j] [] -> [i.., j]; j sequential", "ONNX operator CumProd",
             .shapes = shapes_cumulative_product, .axes = scan_axes, .flops = 1),
    SP_ENTRY("", "OneHot", 9, 0, 3, 3, 1, 1, "[i..] [] [2] -> [i.., depth]", "ONNX operator OneHot",
             .shapes = shapes_one_hot, .rule = rule_one_hot, .lower = sp_lower_one_hot),
    SP_ENTRY("", "NonZero", 9, 0, 1, 1, 1, 1, "[i..] -> [r, c]; all whole", "ONNX operator NonZero",
             .shapes = shapes_nonzero, .rule = rule_nonzero),
    {.name = NULL},
};
