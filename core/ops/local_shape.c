/*
 * Operators that make tensors from extents, and extents from tensors, on shards: Shape and Size say those of the whole,
 * the others make a part.
 */
#include "base/limits.h"
#include "ops/infer.h"
#include "ops/local_functions.h"
#include "ops/local_internal.h"
#include "ops/local_places.h"

/* ---- Shape, Size ---------------------------------------------------------------------------------------------- */

/* Shape-15's bounds. */
static uint32_t bound(int64_t given, uint32_t rank)
{
    if (given < 0)
        given = given < -(int64_t)rank ? 0 : given + (int64_t)rank;
    return given > (int64_t)rank ? rank : (uint32_t)given;
}

/* The extents of the axes that are not cut are those of the part; the others are known. */
enum sp_status sp_local_node_shape(struct sp_local *local)
{
    const struct sp_local_operand *x = &local->inputs[0];
    uint32_t start = 0, end = x->rank, count = 0;
    int64_t kept[SP_MAX_RANK], added[SP_MAX_RANK];
    bool is_known = true;
    if (local->version >= 15) {
        start = bound(sp_node_int(local->node, "start", 0), x->rank);
        end = bound(sp_node_int(local->node, "end", x->rank), x->rank);
    }
    for (uint32_t axis = start; axis < end; axis++, count++) {
        bool is_open = x->axes[axis].extent < 0;
        kept[count] = is_open;
        added[count] = is_open ? 0 : x->axes[axis].extent;
        is_known = is_known && !is_open;
    }
    struct sp_piece *shape = sp_local_ints(local, count, added);
    if (!is_known) {
        struct sp_piece *own = sp_local_same(local, 0, NULL, 0, NULL);
        own = sp_local_binary(local, "Mul", own, sp_local_ints(local, count, kept));
        shape = sp_local_binary(local, "Add", own, shape);
    }
    sp_local_output_whole(local, 0, shape);
    return sp_local_status(local);
}

/* Elements of the part, by those of its cut axes, times those of the whole's. */
enum sp_status sp_local_node_size(struct sp_local *local)
{
    const struct sp_local_operand *x = &local->inputs[0];
    struct sp_piece *size = sp_local_same(local, 0, NULL, 0, NULL);
    for (uint32_t axis = 0; axis < x->rank; axis++) {
        if (!x->axes[axis].is_cut)
            continue;
        size = sp_local_binary(local, "Div", size, sp_local_int(local, SP_DTYPE_INT64, x->axes[axis].size));
        size = sp_local_binary(local, "Mul", size, sp_local_int(local, SP_DTYPE_INT64, x->axes[axis].extent));
    }
    sp_local_output_whole(local, 0, size);
    return sp_local_status(local);
}

/* ---- Constant ------------------------------------------------------------------------------------------------- */

enum sp_status sp_local_node_constant(struct sp_local *local)
{
    struct sp_piece *value = sp_local_same(local, 0, NULL, 0, NULL);
    int64_t *dims = sp_local_sizes(local, &local->outputs[0]);
    for (uint32_t axis = 0; dims != NULL && axis < local->outputs[0].rank; axis++)
        dims[axis] = local->outputs[0].axes[axis].extent;
    sp_piece_set_dims(local, value, local->outputs[0].rank, dims);
    sp_local_output_whole(local, 0, value);
    return sp_local_status(local);
}

/* ---- ConstantOfShape, Expand, Tile ---------------------------------------------------------------------------- */

/* The list of extents in input `input`, which stand for the last `count` axes of the output, with those of the part on
   the axes that are cut. */
static struct sp_piece *part_extents(struct sp_local *local, uint32_t input, uint32_t count)
{
    const struct sp_local_operand *y = &local->outputs[0];
    bool is_set[SP_MAX_RANK] = {false};
    int64_t values[SP_MAX_RANK] = {0};
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_local_axis *axis = &y->axes[y->rank - count + i];
        is_set[i] = axis->is_cut;
        values[i] = axis->size;
    }
    return sp_local_patched(local, input, count, is_set, values);
}

enum sp_status sp_local_node_constant_of_shape(struct sp_local *local)
{
    struct sp_piece *const shape = part_extents(local, 0, local->outputs[0].rank);
    sp_local_output(local, 0, sp_local_same(local, 1, &shape, 0, NULL));
    return sp_local_status(local);
}

/* A shape of fewer axes than the input leaves the others as they are. */
enum sp_status sp_local_node_expand(struct sp_local *local)
{
    int64_t count = local->inputs[1].rank == 1 ? local->inputs[1].axes[0].extent : -1;
    if (count < 0 || count > local->outputs[0].rank) {
        char subject[300];
        sp_local_any_whole(local, "%s has a shape of unknown length, so it is computed whole on every device.",
                           sp_op_subject(local->node, subject, sizeof(subject)));
        return sp_local_status(local);
    }
    struct sp_piece *const inputs[] = {sp_local_input(local, 0), part_extents(local, 1, (uint32_t)count)};
    sp_local_output(local, 0, sp_local_same(local, 2, inputs, 0, NULL));
    return sp_local_status(local);
}

/* The repeats of an axis are the factor that is the output's alone; as many as this device has of it. */
static bool split_repeats(const struct sp_local *local, uint32_t axis, int64_t *ret_count)
{
    const struct sp_axis_factors *factors = &local->rule->outputs[0].axes[axis];
    if (factors->count != 2 || !local->factors[factors->factors[0]].is_split)
        return false;
    *ret_count = local->factors[factors->factors[0]].size;
    return true;
}

enum sp_status sp_local_node_tile(struct sp_local *local)
{
    uint32_t rank = local->outputs[0].rank;
    bool is_set[SP_MAX_RANK] = {false};
    int64_t values[SP_MAX_RANK] = {0};
    struct sp_piece *repeats = NULL;
    if (local->version >= 6) {
        for (uint32_t axis = 0; axis < rank; axis++)
            is_set[axis] = split_repeats(local, axis, &values[axis]);
        repeats = sp_local_patched(local, 1, rank, is_set, values);
        struct sp_piece *const inputs[] = {sp_local_input(local, 0), repeats};
        sp_local_output(local, 0, sp_local_same(local, 2, inputs, 0, NULL));
        return sp_local_status(local);
    }
    /* Tile-1 repeats one axis, by a number of the data's type. */
    repeats = sp_local_input(local, 1);
    for (uint32_t axis = 0; axis < rank; axis++) {
        if (split_repeats(local, axis, &values[axis]))
            repeats = sp_local_int(local, local->inputs[1].value->type.dtype, values[axis]);
    }
    struct sp_piece *const inputs[] = {sp_local_input(local, 0), repeats, sp_local_input(local, 2)};
    sp_local_output(local, 0, sp_local_same(local, 3, inputs, 0, NULL));
    return sp_local_status(local);
}

/* ---- Range ---------------------------------------------------------------------------------------------------- */

/* start + index * delta. Integers are computed in 64 bits, half floats in single precision. */
enum sp_status sp_local_node_range(struct sp_local *local)
{
    uint8_t factor = sp_local_output_factor(local, 0, 0);
    enum sp_dtype dtype = local->outputs[0].value->type.dtype, wide = dtype;
    if (sp_dtype_is_integer(dtype))
        wide = SP_DTYPE_INT64;
    else if (dtype != SP_DTYPE_DOUBLE)
        wide = SP_DTYPE_FLOAT;
    struct sp_piece *index = sp_local_indices(local, factor, &local->outputs[0].axes[0].ranges);
    struct sp_piece *start = sp_local_cast(local, sp_local_input(local, 0), wide);
    struct sp_piece *delta = sp_local_cast(local, sp_local_input(local, 2), wide);
    struct sp_piece *range = sp_local_binary(local, "Mul", sp_local_cast(local, index, wide), delta);
    range = sp_local_cast(local, sp_local_binary(local, "Add", range, start), dtype);
    sp_local_output(local, 0, range);
    return sp_local_status(local);
}
