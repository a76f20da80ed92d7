/*
 * Operators that make tensors from extents, and extents from tensors, on shards: Shape and Size say those of the whole,
 * the others make a part.
 */
#include "base/limits.h"
#include "ops/lowering/functions.h"
#include "ops/lowering/places.h"
#include "ops/table/shape_helpers.h"

/* ---- Shape, Size ---------------------------------------------------------------------------------------------- */

/* Shape-15's bounds. */
static uint32_t bound(int64_t given, uint32_t rank)
{
    if (given < 0)
        given = given < -(int64_t)rank ? 0 : given + (int64_t)rank;
    return given > (int64_t)rank ? rank : (uint32_t)given;
}

/* The extents of the axes that are not cut are those of the part; the others are known. */
enum sp_status sp_lower_node_shape(struct sp_lowering *lower)
{
    const struct sp_lower_operand *x = &lower->inputs[0];
    uint32_t start = 0, end = x->rank, count = 0;
    int64_t kept[SP_MAX_RANK], added[SP_MAX_RANK];
    bool is_known = true;
    if (lower->version >= 15) {
        start = bound(sp_node_int(lower->node, "start", 0), x->rank);
        end = bound(sp_node_int(lower->node, "end", x->rank), x->rank);
    }
    for (uint32_t axis = start; axis < end; axis++, count++) {
        bool is_open = x->axes[axis].extent < 0;
        kept[count] = is_open;
        added[count] = is_open ? 0 : x->axes[axis].extent;
        is_known = is_known && !is_open;
    }
    struct sp_piece *shape = sp_lower_ints(lower, count, added);
    if (!is_known) {
        struct sp_piece *own = sp_lower_same(lower, 0, NULL, 0, NULL);
        own = sp_lower_binary(lower, "Mul", own, sp_lower_ints(lower, count, kept));
        shape = sp_lower_binary(lower, "Add", own, shape);
    }
    sp_lower_output_whole(lower, 0, shape);
    return sp_lower_status(lower);
}

/* Elements of the part, by those of its cut axes, times those of the whole's. */
enum sp_status sp_lower_node_size(struct sp_lowering *lower)
{
    const struct sp_lower_operand *x = &lower->inputs[0];
    struct sp_piece *size = sp_lower_same(lower, 0, NULL, 0, NULL);
    for (uint32_t axis = 0; axis < x->rank; axis++) {
        if (!x->axes[axis].is_cut)
            continue;
        size = sp_lower_binary(lower, "Div", size, sp_lower_int(lower, SP_DTYPE_INT64, x->axes[axis].size));
        size = sp_lower_binary(lower, "Mul", size, sp_lower_int(lower, SP_DTYPE_INT64, x->axes[axis].extent));
    }
    sp_lower_output_whole(lower, 0, size);
    return sp_lower_status(lower);
}

/* ---- Constant ------------------------------------------------------------------------------------------------- */

enum sp_status sp_lower_node_constant(struct sp_lowering *lower)
{
    struct sp_piece *value = sp_lower_same(lower, 0, NULL, 0, NULL);
    int64_t *dims = sp_lower_sizes(lower, &lower->outputs[0]);
    for (uint32_t axis = 0; dims != NULL && axis < lower->outputs[0].rank; axis++)
        dims[axis] = lower->outputs[0].axes[axis].extent;
    sp_piece_set_dims(lower, value, lower->outputs[0].rank, dims);
    sp_lower_output_whole(lower, 0, value);
    return sp_lower_status(lower);
}

/* ---- ConstantOfShape, Expand, Tile ---------------------------------------------------------------------------- */

/* The list of extents in input `input`, which stand for the last `count` axes of the output, with those of the part on
   the axes that are cut. */
static struct sp_piece *part_extents(struct sp_lowering *lower, uint32_t input, uint32_t count)
{
    const struct sp_lower_operand *y = &lower->outputs[0];
    bool is_set[SP_MAX_RANK] = {false};
    int64_t values[SP_MAX_RANK] = {0};
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_lower_axis *axis = &y->axes[y->rank - count + i];
        is_set[i] = axis->is_cut;
        values[i] = axis->size;
    }
    return sp_lower_patched(lower, input, count, is_set, values);
}

enum sp_status sp_lower_node_constant_of_shape(struct sp_lowering *lower)
{
    struct sp_piece *const shape = part_extents(lower, 0, lower->outputs[0].rank);
    sp_lower_output(lower, 0, sp_lower_same(lower, 1, &shape, 0, NULL));
    return sp_lower_status(lower);
}

/* A shape of fewer axes than the input leaves the others as they are. */
enum sp_status sp_lower_node_expand(struct sp_lowering *lower)
{
    int64_t count = lower->inputs[1].rank == 1 ? lower->inputs[1].axes[0].extent : -1;
    if (count < 0 || count > lower->outputs[0].rank) {
        char subject[300];
        sp_lower_any_whole(lower, "%s has a shape of unknown length, so it is computed whole on every device.",
                           sp_op_subject(lower->node, subject, sizeof subject));
        return sp_lower_status(lower);
    }
    struct sp_piece *const inputs[] = {sp_lower_input(lower, 0), part_extents(lower, 1, (uint32_t)count)};
    sp_lower_output(lower, 0, sp_lower_same(lower, 2, inputs, 0, NULL));
    return sp_lower_status(lower);
}

/* The repeats of an axis are the factor that is the output's alone; as many as this device has of it. */
static bool split_repeats(const struct sp_lowering *lower, uint32_t axis, int64_t *ret_count)
{
    const struct sp_axis_factors *factors = &lower->rule->outputs[0].axes[axis];
    if (factors->count != 2 || !lower->factors[factors->factors[0]].is_split)
        return false;
    *ret_count = lower->factors[factors->factors[0]].size;
    return true;
}

enum sp_status sp_lower_node_tile(struct sp_lowering *lower)
{
    uint32_t rank = lower->outputs[0].rank;
    bool is_set[SP_MAX_RANK] = {false};
    int64_t values[SP_MAX_RANK] = {0};
    struct sp_piece *repeats = NULL;
    if (lower->version >= 6) {
        for (uint32_t axis = 0; axis < rank; axis++)
            is_set[axis] = split_repeats(lower, axis, &values[axis]);
        repeats = sp_lower_patched(lower, 1, rank, is_set, values);
        struct sp_piece *const inputs[] = {sp_lower_input(lower, 0), repeats};
        sp_lower_output(lower, 0, sp_lower_same(lower, 2, inputs, 0, NULL));
        return sp_lower_status(lower);
    }
    /* Tile-1 repeats one axis, by a number of the data's type. */
    repeats = sp_lower_input(lower, 1);
    for (uint32_t axis = 0; axis < rank; axis++) {
        if (split_repeats(lower, axis, &values[axis]))
            repeats = sp_lower_int(lower, lower->inputs[1].value->type.dtype, values[axis]);
    }
    struct sp_piece *const inputs[] = {sp_lower_input(lower, 0), repeats, sp_lower_input(lower, 2)};
    sp_lower_output(lower, 0, sp_lower_same(lower, 3, inputs, 0, NULL));
    return sp_lower_status(lower);
}

/* ---- Range ---------------------------------------------------------------------------------------------------- */

/* start + index * delta. Integers are computed in 64 bits, half floats in single precision. */
enum sp_status sp_lower_node_range(struct sp_lowering *lower)
{
    uint8_t factor = sp_lower_output_factor(lower, 0, 0);
    enum sp_dtype dtype = lower->outputs[0].value->type.dtype, wide = dtype;
    if (sp_dtype_is_integer(dtype))
        wide = SP_DTYPE_INT64;
    else if (dtype != SP_DTYPE_DOUBLE)
        wide = SP_DTYPE_FLOAT;
    struct sp_piece *index = sp_lower_indices(lower, factor, &lower->outputs[0].axes[0].ranges);
    struct sp_piece *start = sp_lower_cast(lower, sp_lower_input(lower, 0), wide);
    struct sp_piece *range = sp_lower_cast(lower, index, wide);
    if (lower->input_count > 2 && lower->inputs[2].value != NULL) {
        struct sp_piece *delta = sp_lower_cast(lower, sp_lower_input(lower, 2), wide);
        range = sp_lower_binary(lower, "Mul", range, delta);
    }
    range = sp_lower_cast(lower, sp_lower_binary(lower, "Add", range, start), dtype);
    sp_lower_output(lower, 0, range);
    return sp_lower_status(lower);
}
