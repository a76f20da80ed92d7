/*
 * Reshape and Squeeze on shards: the shape is that of the output's part. Flatten, Unsqueeze and Squeeze with axes are
 * right as they are.
 */
#include "base/limits.h"
#include "ops/lowering/functions.h"
#include "ops/lowering/parts.h"
#include "ops/lowering/places.h"
#include "ops/table/shape_helpers.h"

/* ---- Reshape -------------------------------------------------------------------------------------------------- */

/* Whether an axis of the output is the same axis of the input, by its factors. */
static bool is_copied(const struct sp_lowering *lower, uint32_t axis)
{
    const struct sp_operand_rule *from = &lower->rule->inputs[0], *to = &lower->rule->outputs[0];
    if (axis >= from->rank || from->axes[axis].count != to->axes[axis].count || to->axes[axis].count == 0)
        return false;
    for (uint32_t i = 0; i < to->axes[axis].count; i++) {
        if (from->axes[axis].factors[i] != to->axes[axis].factors[i])
            return false;
    }
    return true;
}

/* The shape that gives the part. An extent that is not known is 0 where the axis is copied, -1 where it alone is open,
   and else what the node's own shape says when it runs, for axes that are not cut. */
struct target {
    int64_t shape[SP_MAX_RANK];
    bool is_set[SP_MAX_RANK]; /* false: what the node's own shape says */
    bool has_empty;           /* an extent that is known to be 0 */
    bool is_said;             /* there is such a shape */
};

/* Several axes are open: at most one of them may be -1. */
static void leave_open(struct sp_lowering *lower, struct target *target)
{
    struct sp_op_context context = sp_lower_context(lower);
    struct sp_list list = {0};
    uint32_t cut_count = 0;
    bool may_infer = false;
    sp_lower_failed(lower, sp_get_list(&context, "shape", 5, 1, &list));
    target->is_said = lower->version >= 5 && list.has_count && list.count == lower->outputs[0].rank;
    for (uint32_t axis = 0; target->is_said && axis < list.count; axis++) {
        bool is_number =
            list.has_values && list.values[axis].kind != SP_DIM_UNKNOWN && !sp_dim_is(list.values[axis], -1);
        if (target->shape[axis] != -1)
            continue;
        target->is_set[axis] = lower->outputs[0].axes[axis].is_cut;
        cut_count += target->is_set[axis];
        may_infer = may_infer || (!target->is_set[axis] && !is_number);
    }
    target->is_said = target->is_said && (cut_count == 0 || (cut_count == 1 && !may_infer));
}

static void find_target(struct sp_lowering *lower, struct target *target)
{
    uint32_t open = 0;
    bool is_copying = false;
    for (uint32_t axis = 0; axis < lower->outputs[0].rank; axis++) {
        int64_t size = lower->outputs[0].axes[axis].size;
        bool is_copy = size < 0 && is_copied(lower, axis);
        target->is_set[axis] = true;
        target->shape[axis] = size >= 0 ? size : is_copy ? 0 : -1;
        target->has_empty = target->has_empty || size == 0;
        is_copying = is_copying || is_copy;
        open += size < 0 && !is_copy;
    }
    target->is_said = true;
    if (open > 1)
        leave_open(lower, target);
    if (target->has_empty && (is_copying || open > 0))
        target->is_said = false;
}

#define ZEROS_SINCE 14 /* allowzero: 0 is an extent, and not that of the input's axis */

enum sp_status sp_lower_node_reshape(struct sp_lowering *lower)
{
    uint32_t rank = lower->outputs[0].rank;
    struct target target = {0};
    find_target(lower, &target);
    if (target.has_empty && lower->version < ZEROS_SINCE) {
        for (uint32_t axis = 0; axis < rank; axis++)
            target.is_said = target.is_said && (target.shape[axis] != 0 || is_copied(lower, axis));
    }
    if (!target.is_said) {
        char subject[300];
        sp_lower_any_whole(lower,
                           "%s has extents that are not known, and its shape on a part cannot be said, so it is whole "
                           "on every device.",
                           sp_op_subject(lower->node, subject, sizeof subject));
        return sp_lower_status(lower);
    }
    struct sp_piece *const x = sp_lower_input(lower, 0);
    if (lower->version < 5) {
        const struct sp_lower_attribute shape = SP_INTS_ATTR("shape", rank, target.shape);
        sp_lower_output(lower, 0, sp_lower_same(lower, 1, &x, 1, &shape));
        return sp_lower_status(lower);
    }
    const struct sp_lower_attribute zeros = SP_INT_ATTR("allowzero", target.has_empty);
    struct sp_piece *const inputs[] = {x, sp_lower_patched(lower, 1, rank, target.is_set, target.shape)};
    sp_lower_output(lower, 0, sp_lower_same(lower, 2, inputs, lower->version >= ZEROS_SINCE ? 1 : 0, &zeros));
    return sp_lower_status(lower);
}

/* ---- Squeeze -------------------------------------------------------------------------------------------------- */

/* Without axes it would take away those that have one element on this device alone: the axes of one element in the
   whole are named. */
enum sp_status sp_lower_node_squeeze(struct sp_lowering *lower)
{
    bool is_input = lower->version >= 13;
    bool has_axes = is_input ? lower->input_count > 1 && lower->inputs[1].value != NULL
                             : sp_node_attribute(lower->node, "axes") != NULL;
    int64_t axes[SP_MAX_RANK];
    uint32_t count = 0;
    if (has_axes)
        return sp_lower_default(lower);
    for (uint32_t axis = 0; axis < lower->inputs[0].rank; axis++) {
        if (lower->inputs[0].axes[axis].extent == 1)
            axes[count++] = axis;
    }
    struct sp_piece *x = sp_lower_input(lower, 0);
    if (count == 0) { /* nothing to take away; an empty list of axes is no list in old versions */
        sp_lower_output(lower, 0, x);
    } else if (is_input) {
        struct sp_piece *const inputs[] = {x, sp_lower_ints(lower, count, axes)};
        sp_lower_output(lower, 0, sp_lower_same(lower, 2, inputs, 0, NULL));
    } else {
        const struct sp_lower_attribute attribute = SP_INTS_ATTR("axes", count, axes);
        sp_lower_output(lower, 0, sp_lower_same(lower, 1, &x, 1, &attribute));
    }
    return sp_lower_status(lower);
}
