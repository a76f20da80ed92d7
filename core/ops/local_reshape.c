/*
 * Reshape and Squeeze on shards: the shape is that of the output's part. Flatten, Unsqueeze and Squeeze with axes are
 * right as they are.
 */
#include "base/limits.h"
#include "ops/infer.h"
#include "ops/local_functions.h"
#include "ops/local_internal.h"
#include "ops/local_places.h"

/* ---- Reshape -------------------------------------------------------------------------------------------------- */

/* Whether an axis of the output is the same axis of the input, by its factors. */
static bool is_copied(const struct sp_local *local, uint32_t axis)
{
    const struct sp_operand_rule *from = &local->rule->inputs[0], *to = &local->rule->outputs[0];
    if (axis >= from->rank || from->axes[axis].count != to->axes[axis].count || to->axes[axis].count == 0)
        return false;
    for (uint32_t i = 0; i < to->axes[axis].count; i++) {
        if (from->axes[axis].factors[i] != to->axes[axis].factors[i])
            return false;
    }
    return true;
}

/* The shape that gives the part: numbers; 0 for an axis that is copied, -1 for one that follows from the others, where
   extents are not known. False where these do not say it. */
static bool part_shape(const struct sp_local *local, int64_t *shape, bool *ret_has_empty)
{
    uint32_t open = 0;
    bool is_copying = false;
    *ret_has_empty = false;
    for (uint32_t axis = 0; axis < local->outputs[0].rank; axis++) {
        shape[axis] = local->outputs[0].axes[axis].size;
        *ret_has_empty = *ret_has_empty || shape[axis] == 0;
        if (shape[axis] >= 0)
            continue;
        bool is_copy = is_copied(local, axis);
        shape[axis] = is_copy ? 0 : -1;
        is_copying = is_copying || is_copy;
        open += !is_copy;
    }
    return open <= 1 && !(*ret_has_empty && (is_copying || open > 0));
}

#define ZEROS_SINCE 14 /* allowzero: 0 is an extent, and not that of the input's axis */

enum sp_status sp_local_node_reshape(struct sp_local *local)
{
    uint32_t rank = local->outputs[0].rank, count = 0;
    int64_t shape[SP_MAX_RANK];
    bool has_empty = false, is_said = part_shape(local, shape, &has_empty);
    if (has_empty && local->version < ZEROS_SINCE) {
        for (uint32_t axis = 0; axis < rank; axis++)
            is_said = is_said && (shape[axis] != 0 || is_copied(local, axis));
    }
    if (!is_said) {
        char subject[300];
        sp_local_any_whole(local,
                           "%s has extents that are not known, and its shape on a part cannot be said, so it "
                           "is whole on every device.",
                           sp_op_subject(local->node, subject, sizeof(subject)));
        return sp_local_status(local);
    }
    struct sp_local_attribute attributes[2];
    if (local->version < 5) {
        attributes[count++] = SP_INTS_ATTR("shape", rank, shape);
        struct sp_piece *const input = sp_local_input(local, 0);
        sp_local_output(local, 0, sp_local_same(local, 1, &input, count, attributes));
        return sp_local_status(local);
    }
    if (local->version >= ZEROS_SINCE)
        attributes[count++] = SP_INT_ATTR("allowzero", has_empty);
    struct sp_piece *const inputs[] = {sp_local_input(local, 0), sp_local_ints(local, rank, shape)};
    sp_local_output(local, 0, sp_local_same(local, 2, inputs, count, attributes));
    return sp_local_status(local);
}

/* ---- Squeeze -------------------------------------------------------------------------------------------------- */

/* Without axes it would take away those that have one element on this device alone: the axes of one element in the
   whole are named. */
enum sp_status sp_local_node_squeeze(struct sp_local *local)
{
    bool is_input = local->version >= 13;
    bool has_axes = is_input ? local->input_count > 1 && local->inputs[1].value != NULL
                             : sp_node_attribute(local->node, "axes") != NULL;
    int64_t axes[SP_MAX_RANK];
    uint32_t count = 0;
    if (has_axes)
        return sp_local_default(local);
    for (uint32_t axis = 0; axis < local->inputs[0].rank; axis++) {
        if (local->inputs[0].axes[axis].extent == 1)
            axes[count++] = axis;
    }
    struct sp_piece *x = sp_local_input(local, 0);
    if (count == 0) { /* nothing to take away; an empty list of axes is no list in old versions */
        sp_local_output(local, 0, x);
    } else if (is_input) {
        struct sp_piece *const inputs[] = {x, sp_local_ints(local, count, axes)};
        sp_local_output(local, 0, sp_local_same(local, 2, inputs, 0, NULL));
    } else {
        const struct sp_local_attribute attribute = SP_INTS_ATTR("axes", count, axes);
        sp_local_output(local, 0, sp_local_same(local, 1, &x, 1, &attribute));
    }
    return sp_local_status(local);
}
