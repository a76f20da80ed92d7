/*
 * Reductions.
 *
 *     ReduceSum   [i.., j..] -> [i.., 1..] or [i..]      j.. reduction; keepdims leaves axes of size 1
 *     ArgMax      [i.., j]   -> [i.., 1] or [i..]        j reduction of winners with their positions
 *
 * The axes are an attribute, and an input since opset 13 (ReduceSum) or 18 (the others). None given means all, or with
 * noop_with_empty_axes none.
 *
 * What follows a sum (a root, a logarithm, the division by the count of the whole) is done behind the combination.
 *
 * FLOPs: 1 for each input element.
 */
#include <assert.h>

#include "ops/families/tensor/axis_lines.h"
#include "ops/lowering/functions.h"
#include "ops/table/families.h"
#include "ops/table/known_values.h"
#include "ops/table/shape_helpers.h"

/* What one operator does to known elements; all NULL where they are not carried. */
struct arithmetic {
    sp_data_int2 on_ints;
    sp_data_real2 on_reals;
    bool is_mean; /* divide by the number of elements at the end */
};

/* The reduced axes of a node. */
struct axes {
    bool is_known;
    uint64_t mask;  /* with is_known */
    bool has_count; /* else: how many there are, when that is known */
    uint32_t count;
    bool keeps; /* keepdims */
};

static enum sp_status read_axes(struct sp_op_context *context, int64_t input_since, uint32_t rank,
                                struct axes *ret_axes)
{
    struct axes axes = {.keeps = sp_node_int(context->node, "keepdims", 1) != 0};
    struct sp_list list;
    enum sp_status status = sp_get_list(context, "axes", input_since, 1, &list);
    if (status != SP_OK)
        return status;
    if (!list.is_given || (list.has_count && list.count == 0)) {
        bool is_noop = context->version >= input_since && sp_node_int(context->node, "noop_with_empty_axes", 0) != 0;
        axes.is_known = true;
        axes.mask = is_noop ? 0 : rank >= 64 ? UINT64_MAX : ((uint64_t)1 << rank) - 1;
    } else if (list.is_known) {
        axes.is_known = true;
        status = sp_get_axes(context, &list, rank, &axes.mask);
    } else {
        axes.has_count = list.has_count && list.count <= rank;
        axes.count = list.count;
    }
    if (status == SP_OK)
        *ret_axes = axes;
    return status;
}

static bool is_reduced(const struct axes *axes, uint32_t axis)
{
    return (axes->mask >> axis & 1) != 0;
}

static enum sp_status set_shape(struct sp_op_context *context, const struct sp_shape *x, const struct axes *axes,
                                enum sp_dtype dtype)
{
    struct sp_dim *dims = sp_new_dims(context, x->rank);
    uint32_t rank = 0;
    if (dims == NULL)
        return sp_fail_memory(context->err);
    if (!axes->is_known) {
        if (!axes->keeps && !axes->has_count)
            return sp_set_output_unranked(context, 0, dtype);
        return sp_set_output(context, 0, dtype, axes->keeps ? x->rank : x->rank - axes->count, dims);
    }
    for (uint32_t axis = 0; axis < x->rank; axis++) {
        if (!is_reduced(axes, axis))
            dims[rank++] = x->dims[axis];
        else if (axes->keeps)
            dims[rank++] = sp_dim_known(1);
    }
    return sp_set_output(context, 0, dtype, rank, dims);
}

/* ---- known elements ------------------------------------------------------------------------------------------- */

/* Over the input's elements, with the index of the output element that each goes to. */
static void walk_targets(const struct sp_shape *x, const struct axes *axes, struct sp_walk *walk)
{
    uint64_t stride = 1;
    sp_walk_init(walk, x);
    for (uint32_t axis = x->rank; axis-- > 0;) {
        if (is_reduced(axes, axis))
            continue;
        walk->strides[axis] = stride;
        stride *= walk->extents[axis];
    }
}

static void add_element(struct sp_dims *dims, const struct arithmetic *arithmetic, struct sp_data *to, uint32_t at,
                        const struct sp_data *from, uint32_t index, bool is_first)
{
    assert((to->reals == NULL) == (from->reals == NULL));
    if (is_first)
        sp_data_copy(to, at, from, index);
    else if (to->reals != NULL)
        to->reals[at] = arithmetic->on_reals(to->reals[at], from->reals[index]);
    else
        to->ints[at] = arithmetic->on_ints(dims, to->ints[at], from->ints[index]);
}

static enum sp_status reduce_data(struct sp_op_context *context, const struct sp_shape *x, const struct axes *axes,
                                  const struct arithmetic *arithmetic)
{
    int64_t room = sp_data_room(context, 0), elements = sp_shape_elements(x);
    if (room <= 0 || elements < room || !axes->is_known || !sp_data_available(context, 0))
        return SP_OK;
    const struct sp_data *from = sp_in_data(context, 0);
    if (from == NULL || from->count != elements ||
        (from->reals != NULL ? arithmetic->on_reals == NULL : arithmetic->on_ints == NULL))
        return SP_OK;
    struct sp_data *to = sp_data_new(context, 0, from->reals != NULL);
    bool *has_any = SP_NEW_ARRAY(context->arena, (size_t)room, bool);
    if (to == NULL || has_any == NULL)
        return sp_fail_memory(context->err);
    struct sp_walk walk;
    walk_targets(x, axes, &walk);
    for (uint32_t i = 0; i < from->count; i++, sp_walk_step(&walk)) {
        const uint32_t at = (uint32_t)walk.index;
        add_element(context->dims, arithmetic, to, at, from, i, !has_any[at]);
        has_any[at] = true;
    }
    int64_t share = elements / room; /* input elements for each output element */
    for (uint32_t i = 0; arithmetic->is_mean && i < to->count; i++) {
        if (to->reals != NULL)
            to->reals[i] /= (double)share;
        else
            to->ints[i] = sp_dim_truncdiv(context->dims, to->ints[i], sp_dim_known(share));
    }
    sp_data_attach(context, 0, to);
    return SP_OK;
}

static double real_add(double a, double b)
{
    return a + b;
}

static double real_mul(double a, double b)
{
    return a * b;
}

static double real_max(double a, double b)
{
    return a > b ? a : b;
}

static double real_min(double a, double b)
{
    return a < b ? a : b;
}

/* ---- Reduce... ------------------------------------------------------------------------------------------------ */

static enum sp_status shapes_reduce(struct sp_op_context *context, int64_t input_since,
                                    const struct arithmetic *arithmetic)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    enum sp_dtype dtype = sp_in_dtype(context, 0);
    struct axes axes;
    if (x == NULL)
        return sp_set_output_unranked(context, 0, dtype);
    enum sp_status status = read_axes(context, input_since, x->rank, &axes);
    if (status == SP_OK)
        status = set_shape(context, x, &axes, dtype);
    return status != SP_OK ? status : reduce_data(context, x, &axes, arithmetic);
}

/* The shapes of an operator whose axes are an input since `since`. */
#define REDUCE(suffix, since, on_ints, on_reals, is_mean)                                                              \
    static enum sp_status shapes_##suffix(struct sp_op_context *context)                                               \
    {                                                                                                                  \
        static const struct arithmetic arithmetic = {on_ints, on_reals, is_mean};                                      \
        return shapes_reduce(context, since, &arithmetic);                                                             \
    }

REDUCE(sum, 13, sp_dim_add, real_add, false)
REDUCE(mean, 18, sp_dim_add, real_add, true)
REDUCE(prod, 18, sp_dim_mul, real_mul, false)
REDUCE(max, 18, sp_dim_max, real_max, false)
REDUCE(min, 18, sp_dim_min, real_min, false)
REDUCE(plain, 18, NULL, NULL, false)

static enum sp_status named_axes(struct sp_op_context *context, uint32_t rank, int64_t input_since,
                                 struct sp_op_axes *ret_axes)
{
    struct axes axes = {0};
    enum sp_status status = read_axes(context, input_since, rank, &axes);
    *ret_axes = (struct sp_op_axes){.mask = axes.mask, .is_unknown = !axes.is_known};
    return status;
}

static enum sp_status sum_axes(struct sp_op_context *context, uint32_t rank, struct sp_op_axes *ret_axes)
{
    return named_axes(context, rank, 13, ret_axes);
}

static enum sp_status reduced_axes(struct sp_op_context *context, uint32_t rank, struct sp_op_axes *ret_axes)
{
    return named_axes(context, rank, 18, ret_axes);
}

/* ---- ArgMax, ArgMin ------------------------------------------------------------------------------------------- */

static enum sp_status read_axis(struct sp_op_context *context, uint32_t rank, struct axes *ret_axes)
{
    uint32_t axis = 0;
    enum sp_status status = sp_normalize_axis(context, sp_node_int(context->node, "axis", 0), rank, &axis);
    *ret_axes = (struct axes){
        .is_known = true, .mask = (uint64_t)1 << axis, .keeps = sp_node_int(context->node, "keepdims", 1) != 0};
    return status;
}

static enum sp_status arg_axes(struct sp_op_context *context, uint32_t rank, struct sp_op_axes *ret_axes)
{
    struct axes axes = {0};
    enum sp_status status = read_axis(context, rank, &axes);
    ret_axes->mask = axes.mask;
    return status;
}

/* The results are positions along the axis. */
static enum sp_status rule_arg(struct sp_op_context *context, struct sp_rule *rule)
{
    enum sp_status status = sp_rule_from_entry(context, rule, context->node->op);
    for (uint32_t i = 0; status == SP_OK && i < rule->factor_count; i++) {
        if (rule->factors[i].kind == SP_FACTOR_REDUCTION)
            sp_rule_positions_output(rule, 0, (uint8_t)i);
    }
    sp_rule_term_all(rule, 1);
    return status;
}

/* The position of the extreme in each line: the first, or with select_last_index the last of equal ones. */
static enum sp_status arg_data(struct sp_op_context *context, uint32_t axis, bool is_max)
{
    const struct sp_data *from = sp_in_numbers(context, 0);
    bool takes_last = sp_node_int(context->node, "select_last_index", 0) != 0;
    struct sp_data *to = from != NULL ? sp_data_new(context, 0, false) : NULL;
    if (to == NULL)
        return SP_OK;
    struct sp_axis_lines lines = sp_axis_lines_of(sp_in_shape(context, 0), axis);
    if (lines.extent == 0 || to->count != lines.count)
        return SP_OK;
    for (uint32_t line = 0; line < lines.count; line++) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < lines.extent; i++) {
            int order =
                sp_data_order(from, sp_axis_line_element(&lines, line, i), sp_axis_line_element(&lines, line, best));
            if ((is_max ? order > 0 : order < 0) || (order == 0 && takes_last))
                best = i;
        }
        to->ints[line] = sp_dim_known(best);
    }
    sp_data_attach(context, 0, to);
    return SP_OK;
}

static enum sp_status shapes_arg(struct sp_op_context *context, bool is_max)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    struct axes axes;
    if (x == NULL)
        return sp_set_output_unranked(context, 0, SP_DTYPE_INT64);
    enum sp_status status = read_axis(context, x->rank, &axes);
    if (status == SP_OK)
        status = set_shape(context, x, &axes, SP_DTYPE_INT64);
    for (uint32_t axis = 0; status == SP_OK && axis < x->rank; axis++) {
        if (is_reduced(&axes, axis))
            return arg_data(context, axis, is_max);
    }
    return status;
}

static enum sp_status shapes_arg_max(struct sp_op_context *context)
{
    return shapes_arg(context, true);
}

static enum sp_status shapes_arg_min(struct sp_op_context *context)
{
    return shapes_arg(context, false);
}

/* A name, the combiner, shapes with known values, axes, and the local form or NULL. */
#define REDUCTION(name_, combiner_, shapes_, axes_, lower_)                                                            \
    SP_ENTRY("", name_, 1, 0, 1, 2, 1, 1,                                                                              \
             "[i.., j..] -> [i..]; j.. " combiner_ "; whole where the axes are not known", "ONNX operator " name_,     \
             .shapes = shapes_, .axes = axes_, .flops = 1, .lower = lower_)

const struct sp_op sp_ops_reduction[] = {
    REDUCTION("ReduceSum", "sum", shapes_sum, sum_axes, NULL),
    REDUCTION("ReduceMean", "sum", shapes_mean, reduced_axes, sp_lower_reduce_mean),
    REDUCTION("ReduceProd", "product", shapes_prod, reduced_axes, NULL),
    REDUCTION("ReduceMax", "max", shapes_max, reduced_axes, NULL),
    REDUCTION("ReduceMin", "min", shapes_min, reduced_axes, NULL),
    REDUCTION("ReduceL1", "sum", shapes_plain, reduced_axes, NULL),
    REDUCTION("ReduceL2", "sum", shapes_plain, reduced_axes, sp_lower_reduce_l2),
    REDUCTION("ReduceLogSum", "sum", shapes_plain, reduced_axes, sp_lower_reduce_log_sum),
    REDUCTION("ReduceSumSquare", "sum", shapes_plain, reduced_axes, NULL),
    REDUCTION("ReduceLogSumExp", "softmax", shapes_plain, reduced_axes, sp_lower_reduce_log_sum_exp),
    SP_ENTRY("", "ArgMax", 1, 0, 1, 1, 1, 1, "[i.., j..] -> [i..]; j.. select", "ONNX operator ArgMax",
             .shapes = shapes_arg_max, .rule = rule_arg, .axes = arg_axes, .lower = sp_lower_arg_max),
    SP_ENTRY("", "ArgMin", 1, 0, 1, 1, 1, 1, "[i.., j..] -> [i..]; j.. select", "ONNX operator ArgMin",
             .shapes = shapes_arg_min, .rule = rule_arg, .axes = arg_axes, .lower = sp_lower_arg_min),
    {.name = NULL},
};
