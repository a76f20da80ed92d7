/*
 * reshape - operators that give the same elements another shape: Reshape, Flatten, Squeeze, Unsqueeze.
 *
 * Their rule is one: the axes of both shapes are cut into common factors. [8,4,5] -> [2,16,5] is
 *
 *     [a*b, c, d] -> [a, b*c, d]      a=2, b=4, c=4, d=5
 *
 * A factor is shared when it has the same place in the row-major order of the elements on both sides. Cutting runs from
 * the left as long as one extent divides the other, then from the right; what is left in the middle cannot be
 * aligned (the 3s and 2s of [6,4] -> [4,6]) and needs the whole extent.
 */
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "ops/lowering/functions.h"
#include "ops/table/families.h"
#include "ops/table/known_values.h"

/* ---- Reshape ------------------------------------------------------------------------------------------------- */

/* Fills dims[hole] = elements of `from` / elements of the other dims, after cancelling equal dims: so unknown dims that
   are copied do not stand in the way. */
static enum sp_status solve_hole(struct sp_op_context *context, const struct sp_shape *from, struct sp_dim *dims,
                                 const bool *is_copy, uint32_t rank, uint32_t hole)
{
    bool is_used[SP_MAX_RANK] = {false};
    struct sp_dim above = sp_dim_known(1), below = sp_dim_known(1);
    for (uint32_t axis = 0; axis < rank; axis++) {
        if (axis == hole)
            continue;
        uint32_t partner = from->rank;
        for (uint32_t i = 0; i < from->rank && partner == from->rank; i++) {
            bool is_same = is_copy[axis] ? i == axis : sp_dim_equal(dims[axis], from->dims[i]);
            if (is_same && !is_used[i] && !sp_dim_is(dims[axis], 0))
                partner = i;
        }
        if (partner < from->rank)
            is_used[partner] = true;
        else
            below = sp_dim_mul(context->dims, below, dims[axis]);
    }
    for (uint32_t i = 0; i < from->rank; i++) {
        if (!is_used[i])
            above = sp_dim_mul(context->dims, above, from->dims[i]);
    }
    if (sp_dim_is_known(above) && sp_dim_is_known(below)) {
        if (below.value == 0 ? above.value != 0 : above.value % below.value != 0)
            return sp_op_fail(context, "CANNOT_RESHAPE",
                              "%lld elements cannot be divided by the %lld of the given axes", (long long)above.value,
                              (long long)below.value);
        dims[hole] = below.value == 0 ? sp_dim_known(0) : sp_dim_known(above.value / below.value);
        return SP_OK;
    }
    dims[hole] = sp_dim_exact_div(context->dims, above, below);
    if (dims[hole].kind == SP_DIM_UNKNOWN)
        dims[hole] = sp_dim_floordiv(context->dims, above, below);
    return SP_OK;
}

static enum sp_status check_elements(struct sp_op_context *context, const struct sp_shape *from,
                                     const struct sp_dim *dims, uint32_t rank)
{
    struct sp_dim before = sp_product(context, from->dims, 0, from->rank), after = sp_product(context, dims, 0, rank);
    if (sp_dim_is_known(before) && sp_dim_is_known(after) && before.value != after.value)
        return sp_op_fail(context, "CANNOT_RESHAPE", "%lld elements cannot take a shape of %lld elements",
                          (long long)before.value, (long long)after.value);
    return SP_OK;
}

/* From the elements of the shape operand to dims. */
static enum sp_status resolve_shape(struct sp_op_context *context, const struct sp_shape *from,
                                    const struct sp_list *list, struct sp_dim *dims)
{
    bool is_copy[SP_MAX_RANK] = {false}, allow_zero = sp_node_int(context->node, "allowzero", 0) != 0;
    uint32_t inferred = UINT32_MAX, unknown = UINT32_MAX, unknown_count = 0;
    for (uint32_t axis = 0; axis < list->count; axis++) {
        struct sp_dim item = list->values[axis];
        dims[axis] = item;
        if (sp_dim_is(item, -1)) {
            if (inferred != UINT32_MAX)
                return sp_op_fail(context, "CANNOT_RESHAPE", "its shape has more than one -1");
            inferred = axis;
            dims[axis] = sp_dim_unknown();
        } else if (sp_dim_is_known(item) && item.value < 0) {
            return sp_op_fail(context, "CANNOT_RESHAPE", "its shape has %lld on axis %u", (long long)item.value, axis);
        } else if (sp_dim_is(item, 0) && !allow_zero) {
            if (from != NULL && axis >= from->rank)
                return sp_op_fail(context, "CANNOT_RESHAPE", "its shape copies axis %u of an input with %u axes", axis,
                                  from->rank);
            is_copy[axis] = true;
            dims[axis] = from != NULL ? from->dims[axis] : sp_dim_unknown();
        } else if (item.kind == SP_DIM_UNKNOWN) {
            unknown = axis;
            unknown_count++;
        }
    }
    if (from == NULL)
        return SP_OK;
    /* One extent that is not known follows from the others as well as a -1 does. */
    if (inferred != UINT32_MAX && unknown_count == 0)
        return solve_hole(context, from, dims, is_copy, list->count, inferred);
    if (inferred == UINT32_MAX && unknown_count == 1)
        return solve_hole(context, from, dims, is_copy, list->count, unknown);
    return check_elements(context, from, dims, list->count);
}

static enum sp_status shapes_reshape(struct sp_op_context *context)
{
    struct sp_dim dims[SP_MAX_RANK] = {{0}};
    struct sp_list list = {0};
    enum sp_status status = sp_get_list(context, "shape", 5, 1, &list);
    if (status != SP_OK)
        return status;
    if (!list.is_given)
        return sp_op_fail(context, "MISSING_ATTRIBUTE", "its shape is missing");
    if (!list.has_count || list.count > SP_MAX_RANK)
        return sp_set_output_unranked(context, 0, sp_in_dtype(context, 0));
    status = list.has_values ? resolve_shape(context, sp_in_shape(context, 0), &list, dims) : SP_OK;
    if (status == SP_OK)
        status = sp_set_output(context, 0, sp_in_dtype(context, 0), list.count, dims);
    return status != SP_OK ? status : sp_data_same(context);
}

/* ---- Flatten ------------------------------------------------------------------------------------------------- */

static enum sp_status shapes_flatten(struct sp_op_context *context)
{
    const struct sp_shape *from = sp_in_shape(context, 0);
    int64_t axis = sp_node_int(context->node, "axis", 1);
    struct sp_dim dims[2] = {{0}};
    if (from != NULL) {
        if (axis < -(int64_t)from->rank || axis > (int64_t)from->rank || (axis < 0 && context->version < 11))
            return sp_op_fail(context, "AXIS_OUT_OF_RANGE", "axis %lld is outside of a tensor with %u axes",
                              (long long)axis, from->rank);
        uint32_t cut = (uint32_t)(axis < 0 ? axis + (int64_t)from->rank : axis);
        dims[0] = sp_product(context, from->dims, 0, cut);
        dims[1] = sp_product(context, from->dims, cut, from->rank);
    }
    enum sp_status status = sp_set_output(context, 0, sp_in_dtype(context, 0), 2, dims);
    return status != SP_OK ? status : sp_data_same(context);
}

/* ---- Squeeze, Unsqueeze -------------------------------------------------------------------------------------- */

/* Without axes every axis of one element goes; with a symbol among them even the rank depends on the run. */
static enum sp_status squeeze_all(struct sp_op_context *context, const struct sp_shape *from, uint64_t *ret_mask,
                                  bool *ret_known)
{
    *ret_known = true;
    *ret_mask = 0;
    for (uint32_t axis = 0; axis < from->rank; axis++) {
        if (sp_dim_is(from->dims[axis], 1))
            *ret_mask |= (uint64_t)1 << axis;
        else if (!sp_dim_differs(context->dims, from->dims[axis], sp_dim_known(1)))
            *ret_known = false;
    }
    return SP_OK;
}

static enum sp_status shapes_squeeze(struct sp_op_context *context)
{
    const struct sp_shape *from = sp_in_shape(context, 0);
    struct sp_dim dims[SP_MAX_RANK] = {{0}};
    struct sp_list list = {0};
    uint64_t mask = 0;
    bool is_known = true;
    enum sp_status status = sp_get_list(context, "axes", 13, 1, &list);
    if (status != SP_OK || from == NULL)
        return status != SP_OK ? status : sp_set_output_unranked(context, 0, sp_in_dtype(context, 0));
    if (list.is_given && !list.is_known) {
        if (!list.has_count || list.count > from->rank)
            return sp_set_output_unranked(context, 0, sp_in_dtype(context, 0));
        return sp_set_output(context, 0, sp_in_dtype(context, 0), from->rank - list.count, dims);
    }
    status =
        list.is_given ? sp_get_axes(context, &list, from->rank, &mask) : squeeze_all(context, from, &mask, &is_known);
    if (status != SP_OK || !is_known)
        return status != SP_OK ? status : sp_set_output_unranked(context, 0, sp_in_dtype(context, 0));
    uint32_t rank = 0;
    for (uint32_t axis = 0; axis < from->rank; axis++) {
        if (!(mask >> axis & 1))
            dims[rank++] = from->dims[axis];
        else if (sp_dim_is_known(from->dims[axis]) && from->dims[axis].value != 1)
            return sp_op_fail(context, "CANNOT_SQUEEZE", "axis %u has %lld elements instead of one", axis,
                              (long long)from->dims[axis].value);
    }
    status = sp_set_output(context, 0, sp_in_dtype(context, 0), rank, dims);
    return status != SP_OK ? status : sp_data_same(context);
}

static enum sp_status shapes_unsqueeze(struct sp_op_context *context)
{
    const struct sp_shape *from = sp_in_shape(context, 0);
    struct sp_dim dims[SP_MAX_RANK] = {{0}};
    struct sp_list list = {0};
    uint64_t mask = 0;
    enum sp_status status = sp_get_list(context, "axes", 13, 1, &list);
    if (status != SP_OK)
        return status;
    if (!list.is_given)
        return sp_op_fail(context, "MISSING_ATTRIBUTE", "its axes are missing");
    if (from == NULL || !list.has_count || list.count > SP_MAX_RANK || from->rank + list.count > SP_MAX_RANK)
        return sp_set_output_unranked(context, 0, sp_in_dtype(context, 0));
    uint32_t rank = from->rank + list.count, next = 0;
    if (!list.is_known)
        return sp_set_output(context, 0, sp_in_dtype(context, 0), rank, dims);
    status = sp_get_axes(context, &list, rank, &mask);
    if (status != SP_OK)
        return status;
    for (uint32_t axis = 0; axis < rank; axis++)
        dims[axis] = mask >> axis & 1 ? sp_dim_known(1) : from->dims[next++];
    status = sp_set_output(context, 0, sp_in_dtype(context, 0), rank, dims);
    return status != SP_OK ? status : sp_data_same(context);
}

/* ---- the rule ------------------------------------------------------------------------------------------------ */

/* One side of the cut: the axes that are left are [low, high), and `rest` is what is left of each of them. Factors from
   the left are appended to an axis as they come; those from the right come minor first and are kept in `right`. */
struct side {
    const struct sp_shape *shape;
    uint32_t low, high;
    struct sp_dim rest[SP_MAX_RANK];
    uint32_t right_count;
    uint8_t right[SP_RULE_MAX_FACTORS], right_axis[SP_RULE_MAX_FACTORS];
};

struct cut {
    struct sp_op_context *context;
    struct sp_rule *rule;
    struct side in, out;
};

static uint8_t add_factor(struct cut *cut, struct sp_dim extent, enum sp_factor_kind kind)
{
    char name[SP_FACTOR_NAME_SIZE];
    (void)snprintf(name, sizeof name, "r%u", cut->rule->factor_count);
    return sp_rule_factor(cut->rule, name, kind, extent);
}

/* The largest extent that both sides can give away at this place, or unknown when they share none. */
static struct sp_dim common_factor(struct sp_dims *dims, struct sp_dim a, struct sp_dim b)
{
    if (sp_dim_equal(a, b))
        return a;
    if (sp_dim_is_known(a) && sp_dim_is_known(b)) {
        int64_t left = a.value, right = b.value;
        while (right != 0) {
            int64_t rest = left % right;
            left = right;
            right = rest;
        }
        return left > 1 ? sp_dim_known(left) : sp_dim_unknown();
    }
    if (sp_dim_exact_div(dims, a, b).kind != SP_DIM_UNKNOWN)
        return b;
    return sp_dim_exact_div(dims, b, a).kind != SP_DIM_UNKNOWN ? a : sp_dim_unknown();
}

static void skip_ones(struct side *side, bool from_left)
{
    while (side->low < side->high && sp_dim_is(side->rest[from_left ? side->low : side->high - 1], 1)) {
        if (from_left)
            side->low++;
        else
            side->high--;
    }
}

static void give(struct cut *cut, struct side *side, bool from_left, uint8_t factor, struct sp_dim extent)
{
    uint32_t axis = from_left ? side->low : side->high - 1;
    side->rest[axis] = sp_dim_exact_div(cut->context->dims, side->rest[axis], extent);
    if (from_left) {
        if (side == &cut->in)
            sp_rule_map_input(cut->rule, 0, axis, factor);
        else
            sp_rule_map_output(cut->rule, 0, axis, factor);
    } else if (side->right_count < SP_RULE_MAX_FACTORS) {
        side->right[side->right_count] = factor;
        side->right_axis[side->right_count++] = (uint8_t)axis;
    }
}

/* Cuts common factors off one end until the sides no longer agree. A factor that does not use up either side's extent
   is the last: behind it, the places of the elements differ. */
static void cut_end(struct cut *cut, bool from_left)
{
    for (;;) {
        skip_ones(&cut->in, from_left);
        skip_ones(&cut->out, from_left);
        if (cut->in.low == cut->in.high || cut->out.low == cut->out.high)
            return;
        uint32_t a = from_left ? cut->in.low : cut->in.high - 1, b = from_left ? cut->out.low : cut->out.high - 1;
        struct sp_dim left = cut->in.rest[a], right = cut->out.rest[b];
        struct sp_dim common = common_factor(cut->context->dims, left, right);
        bool has_none = sp_dim_is(left, 0) || sp_dim_is(right, 0); /* no elements: no places that agree */
        if (common.kind == SP_DIM_UNKNOWN || sp_dim_is(common, 1) || has_none)
            return;
        uint8_t factor = add_factor(cut, common, SP_FACTOR_PARALLEL);
        give(cut, &cut->in, from_left, factor, common);
        give(cut, &cut->out, from_left, factor, common);
        if (!sp_dim_is(cut->in.rest[a], 1) && !sp_dim_is(cut->out.rest[b], 1))
            return;
    }
}

/* What is left of the axes before `end` is needed whole. */
static void need_whole(struct cut *cut, struct side *side, uint32_t end)
{
    for (; side->low < end; side->low++) {
        if (sp_dim_is(side->rest[side->low], 1))
            continue;
        uint8_t factor = add_factor(cut, side->rest[side->low], SP_FACTOR_REPLICATE);
        if (side == &cut->in)
            sp_rule_map_input(cut->rule, 0, side->low, factor);
        else
            sp_rule_map_output(cut->rule, 0, side->low, factor);
    }
}

/* Passes over the axes whose places differ, if both sides are in step again before their end. */
static bool skip_group(struct cut *cut)
{
    struct side *in = &cut->in, *out = &cut->out;
    uint32_t a = in->low, b = out->low;
    int64_t left = 1, right = 1;
    do {
        bool is_left = left <= right;
        const struct side *side = is_left ? in : out;
        uint32_t *axis = is_left ? &a : &b;
        if (*axis == side->high || !sp_dim_is_known(side->rest[*axis]) ||
            __builtin_mul_overflow(is_left ? left : right, side->rest[*axis].value, is_left ? &left : &right) ||
            left == 0 || right == 0)
            return false;
        ++*axis;
    } while (left != right);
    if (a == in->high || b == out->high)
        return false;
    need_whole(cut, in, a);
    need_whole(cut, out, b);
    return true;
}

static void finish_side(struct cut *cut, struct side *side)
{
    bool is_input = side == &cut->in;
    need_whole(cut, side, side->high);
    for (uint32_t i = side->right_count; i-- > 0;) {
        if (is_input)
            sp_rule_map_input(cut->rule, 0, side->right_axis[i], side->right[i]);
        else
            sp_rule_map_output(cut->rule, 0, side->right_axis[i], side->right[i]);
    }
}

static void init_side(struct side *side, const struct sp_shape *shape)
{
    side->shape = shape;
    side->high = shape->rank;
    if (shape->rank != 0)
        memcpy(side->rest, shape->dims, shape->rank * sizeof *side->rest);
}

static enum sp_status rule_reshape(struct sp_op_context *context, struct sp_rule *rule)
{
    struct cut cut = {.context = context, .rule = rule};
    init_side(&cut.in, sp_in_shape(context, 0));
    init_side(&cut.out, &context->node->outputs[0]->type.shape);
    cut_end(&cut, true);
    cut_end(&cut, false);
    while (skip_group(&cut))
        cut_end(&cut, true);
    finish_side(&cut, &cut.in);
    finish_side(&cut, &cut.out);
    return SP_OK;
}

const struct sp_op sp_ops_reshape[] = {
    SP_ENTRY("", "Reshape", 1, 4, 1, 1, 1, 1,
             "[a*b, c] -> [a, b*c]; axes are lists of common factors, whole where there are none",
             "ONNX Operators.md, Reshape-1", .flags = SP_OP_VIEW, .shapes = shapes_reshape, .rule = rule_reshape,
             .lower = sp_lower_node_reshape),
    SP_ENTRY("", "Reshape", 5, 0, 2, 2, 1, 1,
             "[a*b, c] [_] -> [a, b*c]; axes are lists of common factors, whole where there are none",
             "ONNX Operators.md, Reshape-5 to Reshape-25", .flags = SP_OP_VIEW, .shapes = shapes_reshape,
             .rule = rule_reshape, .lower = sp_lower_node_reshape),
    SP_ENTRY("", "Flatten", 1, 0, 1, 1, 1, 1, "[a, b, c, d] -> [a*b, c*d]; whole where extents are not known",
             "ONNX Operators.md, Flatten-1 to Flatten-25", .flags = SP_OP_VIEW, .shapes = shapes_flatten,
             .rule = rule_reshape),
    SP_ENTRY("", "Squeeze", 1, 12, 1, 1, 1, 1, "[a, 1, b] -> [a, b]; whole where extents are not known",
             "ONNX Operators.md, Squeeze-1, Squeeze-11", .flags = SP_OP_VIEW, .shapes = shapes_squeeze,
             .rule = rule_reshape, .lower = sp_lower_node_squeeze),
    SP_ENTRY("", "Squeeze", 13, 0, 1, 2, 1, 1, "[a, 1, b] [_] -> [a, b]; whole where extents are not known",
             "ONNX Operators.md, Squeeze-13 to Squeeze-25", .flags = SP_OP_VIEW, .shapes = shapes_squeeze,
             .rule = rule_reshape, .lower = sp_lower_node_squeeze),
    SP_ENTRY("", "Unsqueeze", 1, 12, 1, 1, 1, 1, "[a, b] -> [a, 1, b]; whole where extents are not known",
             "ONNX Operators.md, Unsqueeze-1, Unsqueeze-11", .flags = SP_OP_VIEW, .shapes = shapes_unsqueeze,
             .rule = rule_reshape),
    SP_ENTRY("", "Unsqueeze", 13, 0, 2, 2, 1, 1, "[a, b] [_] -> [a, 1, b]; whole where extents are not known",
             "ONNX Operators.md, Unsqueeze-13 to Unsqueeze-25", .flags = SP_OP_VIEW, .shapes = shapes_unsqueeze,
             .rule = rule_reshape),
    {.name = NULL},
};
