/*
 * The parts of AffineGrid, RoiAlign and MaxRoiPool (sampling.c).
 *
 *     AffineGrid   a split of the batch changes the size that it is given. Any other is written out: the part's base
 *                  grid [h, w, k] times theta [n, k, r], where k may be a sum over devices
 *     regions      a split of what a region is pooled to cuts the whole result: where bins begin is rounded from the
 *                  region's size
 */
#include "base/limits.h"
#include "ops/lowering/functions.h"
#include "ops/lowering/parts.h"

/* ---- AffineGrid ----------------------------------------------------------------------------------------------- */

enum { IN_THETA, IN_SIZE, MAX_SPATIAL = 3 };
#define MOST_NUMBERS ((int64_t)(SP_MAX_LOCAL_CONSTANT / sizeof(double)))

struct grid {
    uint32_t spatial; /* 2 or 3 */
    uint8_t n, r, k;
    bool is_aligned; /* the corners are the centres of the corner elements */
};

/* The coordinates of a part of an axis, from -1 to 1 over the whole. */
static struct sp_piece *coordinates(struct sp_lowering *lower, const struct grid *grid, enum sp_dtype dtype,
                                    uint32_t axis)
{
    const struct sp_lower_axis *part = &lower->outputs[0].axes[1 + axis];
    int64_t dims[MAX_SPATIAL + 1] = {1, 1, 1, 1};
    double *values = SP_NEW_ARRAY(lower->arena, (size_t)part->size, double);
    const int64_t *places = sp_lower_list(lower, &part->ranges, part->size);
    if (values == NULL || places == NULL) {
        sp_lower_failed(lower, sp_fail_memory(lower->err));
        return NULL;
    }
    for (int64_t i = 0; i < part->size; i++) {
        double place = (double)places[i], extent = (double)part->extent;
        if (!grid->is_aligned)
            values[i] = (2 * place + 1) / extent - 1;
        else
            values[i] = part->extent > 1 ? 2 * place / (extent - 1) - 1 : 1;
    }
    dims[axis] = part->size;
    struct sp_piece *line = sp_lower_reals(lower, dtype, grid->spatial + 1, dims, values);
    for (uint32_t i = 0; i < grid->spatial; i++)
        dims[i] = lower->outputs[0].axes[1 + i].size;
    return sp_lower_expand(lower, line, grid->spatial + 1, dims);
}

/* [h, w, k]: of each element of the part x, y (and z), 1; of these the part's k. */
static struct sp_piece *base_grid(struct sp_lowering *lower, const struct grid *grid, enum sp_dtype dtype)
{
    struct sp_piece *columns[MAX_SPATIAL + 1];
    int64_t dims[MAX_SPATIAL + 1] = {1, 1, 1, 1};
    for (uint32_t i = 0; i < grid->spatial; i++) {
        columns[i] = coordinates(lower, grid, dtype, grid->spatial - 1 - i); /* x is the last axis */
        dims[i] = lower->outputs[0].axes[1 + i].size;
    }
    dims[grid->spatial] = 1;
    columns[grid->spatial] = sp_lower_full(lower, dtype, grid->spatial + 1, dims, 1);
    struct sp_piece *all = sp_lower_concat(lower, grid->spatial, grid->spatial + 1, columns);
    return lower->factors[grid->k].is_split ? sp_lower_cut(lower, all, grid->spatial, grid->k) : all;
}

static enum sp_status write_grid(struct sp_lowering *lower, const struct grid *grid)
{
    static const int64_t swapped[] = {0, 2, 1};
    struct sp_piece *theta = sp_lower_input(lower, IN_THETA);
    if (theta == NULL)
        return sp_lower_status(lower);
    enum sp_dtype dtype = theta->dtype, wide = dtype == SP_DTYPE_DOUBLE ? dtype : SP_DTYPE_FLOAT;
    struct sp_piece *base = sp_lower_unsqueeze(lower, base_grid(lower, grid, wide), 0);
    theta = sp_lower_transpose(lower, sp_lower_cast(lower, theta, wide), 3, swapped);
    for (uint32_t i = 1; i < grid->spatial; i++)
        theta = sp_lower_unsqueeze(lower, theta, 1);
    return sp_lower_give_sum(lower, sp_lower_cast(lower, sp_lower_matmul(lower, base, theta), dtype));
}

/* Only the batch is split: the operator with the part's size. */
static enum sp_status run_grid(struct sp_lowering *lower, const struct grid *grid)
{
    int64_t batch = lower->factors[grid->n].size;
    struct sp_piece *sizes[] = {sp_lower_ints(lower, 1, &batch), sp_lower_slice(lower, sp_lower_input(lower, IN_SIZE),
                                                                                0, 1, (int64_t)grid->spatial + 2)};
    struct sp_piece *inputs[] = {sp_lower_input(lower, IN_THETA), sp_lower_concat(lower, 0, 2, sizes)};
    sp_lower_output(lower, 0, sp_lower_same(lower, 2, inputs, 0, NULL));
    return sp_lower_status(lower);
}

enum sp_status sp_lower_affine_grid(struct sp_lowering *lower)
{
    const struct sp_lower_operand *y = &lower->outputs[0];
    struct grid grid = {.spatial = y->rank - 2,
                        .n = sp_lower_input_factor(lower, IN_THETA, 0),
                        .r = sp_lower_input_factor(lower, IN_THETA, 1),
                        .k = sp_lower_input_factor(lower, IN_THETA, 2),
                        .is_aligned = sp_node_int(lower->node, "align_corners", 0) != 0};
    bool is_known = true, is_written = false;
    for (uint32_t i = 1; i + 1 < y->rank; i++)
        is_known = is_known && y->axes[i].size >= 0 && y->axes[i].size <= MOST_NUMBERS;
    for (uint32_t factor = 0; factor < lower->factor_count; factor++) {
        if (factor == grid.n || !lower->factors[factor].is_split)
            continue;
        is_written = true;
        if (!is_known)
            sp_lower_refuse(lower, (uint8_t)factor, "the extents of its grid are not all known");
    }
    if (sp_lower_status(lower) != SP_OK)
        return sp_lower_status(lower);
    return is_written ? write_grid(lower, &grid) : run_grid(lower, &grid);
}

/* ---- RoiAlign, MaxRoiPool ------------------------------------------------------------------------------------- */

enum sp_status sp_lower_regions(struct sp_lowering *lower)
{
    const struct sp_lower_operand *output = &lower->outputs[0];
    if (output->rank != 4)
        return sp_lower_default(lower);
    struct sp_piece *y = sp_lower_same(lower, 0, NULL, 0, NULL);
    const int64_t dims[] = {output->axes[0].size, output->axes[1].size, output->axes[2].extent, output->axes[3].extent};
    sp_piece_set_dims(lower, y, 4, dims);
    for (uint32_t axis = 2; axis < 4; axis++)
        if (sp_lower_is_cut(output, axis))
            y = sp_lower_cut(lower, y, axis, sp_lower_output_factor(lower, 0, axis));
    sp_lower_output(lower, 0, y);
    return sp_lower_status(lower);
}
