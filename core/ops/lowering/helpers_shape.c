#include <inttypes.h>
#include <string.h>

#include "base/arith.h"
#include "base/limits.h"
#include "ops/lowering/internal.h"

/* ---- helpers ---------------------------------------------------------------------------------------------------- */

/* Extents with one axis changed. */
static void set_axis(struct sp_lowering *lower, struct sp_piece *piece, const struct sp_piece *x, uint32_t axis,
                     int64_t extent)
{
    int64_t dims[SP_MAX_RANK];
    if (x->dims == NULL || !sp_lower_is_fine(lower))
        return;
    memcpy(dims, x->dims, x->rank * sizeof *dims);
    dims[axis] = extent;
    sp_piece_set_dims(lower, piece, x->rank, dims);
}

/* Whether x has this axis, as far as its rank is known. */
static bool check_axis(struct sp_lowering *lower, const struct sp_piece *x, uint32_t axis)
{
    if (!sp_lower_has(lower, x, x))
        return false;
    if (axis >= SP_MAX_RANK || (x->dims != NULL && axis >= x->rank)) {
        sp_lower_misuse(lower, "takes axis %" PRIu32 " of %" PRIu32, axis, x->rank);
        return false;
    }
    return true;
}

/* The product of extents; -1 where one is not known. */
static int64_t count_of(uint32_t rank, const int64_t *dims)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < rank; i++)
        if (dims[i] < 0 || !sp_mul_i64(count, dims[i], &count))
            return -1;
    return count;
}

/* ---- slices ----------------------------------------------------------------------------------------------------- */

#define SLICE_INPUTS_SINCE 10

/* A slice with a step as a gather of the indices, where Slice has no steps. */
static struct sp_piece *pick(struct sp_lowering *lower, struct sp_piece *x, uint32_t axis, int64_t start, int64_t step,
                             int64_t count)
{
    if (count < 0) {
        sp_lower_fail_opset(lower, "Slice", SLICE_INPUTS_SINCE);
        return NULL;
    }
    if ((uint64_t)count > SP_MAX_LOCAL_CONSTANT / sizeof(int64_t)) {
        sp_lower_fail_opset(lower, "Slice", SLICE_INPUTS_SINCE);
        return NULL;
    }
    int64_t *indices = SP_LOWER_ARRAY(lower, (size_t)count, int64_t);
    for (int64_t i = 0; indices != NULL && i < count; i++)
        indices[i] = start + i * step;
    if (indices == NULL)
        return NULL;
    return sp_lower_gather(lower, x, sp_lower_ints(lower, (uint32_t)count, indices), axis);
}

/* Elements of a slice; -1 where the extent that bounds it is not known. */
static int64_t slice_count(int64_t start, int64_t limit, int64_t step)
{
    if (step > 0)
        return limit == INT64_MAX ? -1 : (limit - start + step - 1) / step;
    if (start == INT64_MAX)
        return -1;
    return (start - (limit == INT64_MIN ? -1 : limit) - step - 1) / -step;
}

static bool check_slice(struct sp_lowering *lower, const struct sp_piece *x, uint32_t axis, int64_t start,
                        int64_t limit, int64_t step)
{
    if (!check_axis(lower, x, axis))
        return false;
    const int64_t extent = x->dims == NULL ? -1 : x->dims[axis];
    const bool is_up = step > 0 && start >= 0 && limit >= start && (extent < 0 || limit <= extent);
    const bool is_down = step < 0 && step != INT64_MIN && start >= 0 &&
                         (limit == INT64_MIN || (limit >= 0 && limit <= start)) && (extent < 0 || start < extent);
    if (!is_up && !is_down)
        sp_lower_misuse(lower, "slices [%" PRId64 ", %" PRId64 ") by %" PRId64 " out of %" PRId64 " elements", start,
                        limit, step, extent);
    return is_up || is_down;
}

struct sp_piece *sp_lower_slice_step(struct sp_lowering *lower, struct sp_piece *x, uint32_t axis, int64_t start,
                                     int64_t limit, int64_t step)
{
    if (!sp_lower_has(lower, x, x))
        return NULL;
    const int64_t extent = x->dims == NULL || axis >= x->rank ? -1 : x->dims[axis];
    if (limit == INT64_MAX && extent >= 0)
        limit = extent;
    if (!check_slice(lower, x, axis, start, limit, step))
        return NULL;
    if (start == 0 && step == 1 && (limit == INT64_MAX || limit == extent))
        return x;
    const int64_t list[] = {axis}, count = slice_count(start, limit, step);
    struct sp_piece *piece;
    if (lower->opset >= SLICE_INPUTS_SINCE) {
        struct sp_piece *const inputs[] = {x, sp_lower_ints(lower, 1, &start), sp_lower_ints(lower, 1, &limit),
                                           sp_lower_ints(lower, 1, list),
                                           step == 1 ? NULL : sp_lower_ints(lower, 1, &step)};
        piece = sp_lower_op(lower, "Slice", x->dtype, step == 1 ? 4 : 5, inputs, 0, NULL);
    } else if (step == 1) {
        const struct sp_lower_attribute attributes[] = {
            SP_INTS_ATTR("axes", 1, list), SP_INTS_ATTR("starts", 1, &start), SP_INTS_ATTR("ends", 1, &limit)};
        piece = sp_lower_op(lower, "Slice", x->dtype, 1, &x, 3, attributes);
    } else {
        return pick(lower, x, axis, start, step, count);
    }
    set_axis(lower, piece, x, axis, count);
    return piece;
}

struct sp_piece *sp_lower_slice(struct sp_lowering *lower, struct sp_piece *x, uint32_t axis, int64_t start,
                                int64_t limit)
{
    return sp_lower_slice_step(lower, x, axis, start, limit, 1);
}

struct sp_piece *sp_lower_concat(struct sp_lowering *lower, uint32_t axis, uint32_t count,
                                 struct sp_piece *const *pieces)
{
    const struct sp_lower_attribute attribute = SP_INT_ATTR("axis", axis);
    int64_t extent = 0;
    if (!sp_lower_is_fine(lower))
        return NULL;
    if (count == 0) {
        sp_lower_misuse(lower, "puts no pieces together");
        return NULL;
    }
    bool has_dims = true;
    for (uint32_t i = 0; i < count; i++) {
        if (!check_axis(lower, pieces[i], axis))
            return NULL;
        has_dims = has_dims && pieces[i]->dims != NULL;
        if (pieces[i]->dtype != pieces[0]->dtype || (has_dims && pieces[i]->rank != pieces[0]->rank)) {
            sp_lower_misuse(lower, "puts pieces of different types or ranks together");
            return NULL;
        }
        if (has_dims && extent >= 0 &&
            (pieces[i]->dims[axis] < 0 || !sp_add_i64(extent, pieces[i]->dims[axis], &extent)))
            extent = -1;
    }
    if (count == 1)
        return pieces[0];
    struct sp_piece *piece = sp_lower_op(lower, "Concat", pieces[0]->dtype, count, pieces, 1, &attribute);
    if (has_dims)
        set_axis(lower, piece, pieces[0], axis, extent);
    return piece;
}

struct sp_piece *sp_lower_gather(struct sp_lowering *lower, struct sp_piece *x, struct sp_piece *indices, uint32_t axis)
{
    const struct sp_lower_attribute attribute = SP_INT_ATTR("axis", axis);
    struct sp_piece *const inputs[] = {x, indices};
    int64_t dims[SP_MAX_RANK];
    if (!check_axis(lower, x, axis) || indices == NULL)
        return NULL;
    struct sp_piece *piece = sp_lower_op(lower, "Gather", x->dtype, 2, inputs, 1, &attribute);
    if (x->dims == NULL || indices->dims == NULL || !sp_lower_is_fine(lower))
        return piece;
    const uint32_t rank = x->rank - 1 + indices->rank;
    if (rank > SP_MAX_RANK) {
        sp_lower_misuse(lower, "has a piece of %" PRIu32 " axes", rank);
        return NULL;
    }
    for (uint32_t i = 0; i < rank; i++) {
        if (i >= axis && i < axis + indices->rank)
            dims[i] = indices->dims[i - axis];
        else
            dims[i] = x->dims[i < axis ? i : i + 1 - indices->rank];
    }
    sp_piece_set_dims(lower, piece, rank, dims);
    return piece;
}

/* ---- shapes ----------------------------------------------------------------------------------------------------- */

#define RESHAPE_INPUT_SINCE 5
#define ALLOW_ZERO_SINCE    14

/* The extents with the one that is -1 computed where that can be. False where they do not fit x. */
static bool complete_shape(const struct sp_piece *x, uint32_t rank, const int64_t *dims, int64_t *ret_dims)
{
    const int64_t elements = x->dims == NULL ? -1 : count_of(x->rank, x->dims);
    int64_t others = 1;
    uint32_t open = rank;
    for (uint32_t i = 0; i < rank; i++) {
        ret_dims[i] = dims[i];
        if (dims[i] < -1 || (dims[i] == -1 && open < rank))
            return false;
        if (dims[i] == -1)
            open = i;
        else if (!sp_mul_i64(others, dims[i], &others))
            return false;
    }
    if (elements < 0)
        return true;
    if (open == rank)
        return others == elements;
    if (others == 0 || elements % others != 0)
        return false;
    ret_dims[open] = elements / others;
    return true;
}

static bool is_shape(const struct sp_piece *x, uint32_t rank, const int64_t *dims)
{
    if (x->dims == NULL || x->rank != rank)
        return false;
    for (uint32_t i = 0; i < rank; i++)
        if (x->dims[i] < 0 || x->dims[i] != dims[i])
            return false;
    return true;
}

struct sp_piece *sp_lower_reshape(struct sp_lowering *lower, struct sp_piece *x, uint32_t rank, const int64_t *dims)
{
    const struct sp_lower_attribute zero = SP_INT_ATTR("allowzero", 1);
    int64_t shape[SP_MAX_RANK];
    bool has_zero = false, is_copied = x != NULL && x->dims != NULL;
    if (!sp_lower_has(lower, x, x))
        return NULL;
    if (rank > SP_MAX_RANK || !complete_shape(x, rank, dims, shape)) {
        sp_lower_misuse(lower, "gives a piece a shape of other elements");
        return NULL;
    }
    if (is_shape(x, rank, shape))
        return x;
    for (uint32_t i = 0; i < rank; i++) {
        has_zero = has_zero || shape[i] == 0;
        /* Before, 0 means the extent that the axis had. */
        is_copied = is_copied && (shape[i] != 0 || (i < x->rank && x->dims[i] == 0));
    }
    if (has_zero && !is_copied && lower->opset < ALLOW_ZERO_SINCE)
        sp_lower_fail_opset(lower, "Reshape", ALLOW_ZERO_SINCE);
    struct sp_piece *piece;
    if (lower->opset < RESHAPE_INPUT_SINCE) {
        const struct sp_lower_attribute attribute = SP_INTS_ATTR("shape", rank, shape);
        piece = sp_lower_op(lower, "Reshape", x->dtype, 1, &x, 1, &attribute);
    } else {
        struct sp_piece *const inputs[] = {x, sp_lower_ints(lower, rank, shape)};
        const bool allows_zero = has_zero && lower->opset >= ALLOW_ZERO_SINCE;
        piece = sp_lower_op(lower, "Reshape", x->dtype, 2, inputs, allows_zero ? 1 : 0, &zero);
    }
    sp_piece_set_dims(lower, piece, rank, shape);
    return piece;
}

struct sp_piece *sp_lower_transpose(struct sp_lowering *lower, struct sp_piece *x, uint32_t rank, const int64_t *perm)
{
    const struct sp_lower_attribute attribute = SP_INTS_ATTR("perm", rank, perm);
    int64_t dims[SP_MAX_RANK];
    uint64_t seen = 0;
    bool is_same = true;
    if (!sp_lower_has(lower, x, x))
        return NULL;
    bool is_wrong = rank > SP_MAX_RANK || (x->dims != NULL && x->rank != rank);
    for (uint32_t i = 0; !is_wrong && i < rank; i++) {
        is_wrong = perm[i] < 0 || perm[i] >= rank || (seen >> perm[i] & 1) != 0;
        seen |= is_wrong ? 0 : UINT64_C(1) << perm[i];
        is_same = is_same && perm[i] == i;
    }
    if (is_wrong) {
        sp_lower_misuse(lower, "permutes axes in an order that is none");
        return NULL;
    }
    if (is_same)
        return x;
    struct sp_piece *piece = sp_lower_op(lower, "Transpose", x->dtype, 1, &x, 1, &attribute);
    for (uint32_t i = 0; x->dims != NULL && i < rank; i++)
        dims[i] = x->dims[perm[i]];
    if (x->dims != NULL)
        sp_piece_set_dims(lower, piece, rank, dims);
    return piece;
}

#define EXPAND_SINCE 8
#define TILE_SINCE   6

/* By Tile, for old versions; all extents must be known. */
static struct sp_piece *expand_by_tile(struct sp_lowering *lower, struct sp_piece *x, uint32_t rank,
                                       const int64_t *dims)
{
    int64_t shape[SP_MAX_RANK], repeats[SP_MAX_RANK];
    if (lower->opset < TILE_SINCE || x->dims == NULL || count_of(x->rank, x->dims) < 0 || count_of(rank, dims) < 0) {
        sp_lower_fail_opset(lower, "Expand", EXPAND_SINCE);
        return NULL;
    }
    for (uint32_t i = 0; i < rank; i++) {
        shape[i] = i < rank - x->rank ? 1 : x->dims[i - (rank - x->rank)];
        repeats[i] = shape[i] == dims[i] ? 1 : dims[i];
    }
    struct sp_piece *const inputs[] = {sp_lower_reshape(lower, x, rank, shape), sp_lower_ints(lower, rank, repeats)};
    struct sp_piece *piece = sp_lower_op(lower, "Tile", x->dtype, 2, inputs, 0, NULL);
    sp_piece_set_dims(lower, piece, rank, dims);
    return piece;
}

struct sp_piece *sp_lower_expand(struct sp_lowering *lower, struct sp_piece *x, uint32_t rank, const int64_t *dims)
{
    int64_t shape[SP_MAX_RANK], result[SP_MAX_RANK];
    if (!sp_lower_has(lower, x, x))
        return NULL;
    bool is_wrong = rank > SP_MAX_RANK || (x->dims != NULL && x->rank > rank),
         is_same = x->dims != NULL && x->rank == rank;
    for (uint32_t i = 0; !is_wrong && i < rank; i++) {
        const bool is_new = x->dims == NULL || i < rank - x->rank;
        const int64_t extent = is_new ? 1 : x->dims[i - (rank - x->rank)];
        is_wrong = dims[i] < -1 || (dims[i] >= 0 && extent > 1 && dims[i] != extent);
        shape[i] = dims[i] < 0 ? 1 : dims[i];
        result[i] = x->dims == NULL || dims[i] >= 0 ? dims[i] : extent;
        is_same = is_same && extent == result[i] && (extent >= 0 || dims[i] < 0);
    }
    if (is_wrong) {
        sp_lower_misuse(lower, "expands a piece to extents that it does not broadcast to");
        return NULL;
    }
    if (is_same)
        return x;
    if (lower->opset < EXPAND_SINCE)
        return expand_by_tile(lower, x, rank, dims);
    struct sp_piece *const inputs[] = {x, sp_lower_ints(lower, rank, shape)};
    struct sp_piece *piece = sp_lower_op(lower, "Expand", x->dtype, 2, inputs, 0, NULL);
    sp_piece_set_dims(lower, piece, rank, result);
    return piece;
}

#define AXES_INPUT_SINCE 13

/* Squeeze and Unsqueeze of one axis. */
static struct sp_piece *with_axis(struct sp_lowering *lower, const char *op_type, struct sp_piece *x, uint32_t axis)
{
    const int64_t list[] = {axis};
    const struct sp_lower_attribute attribute = SP_INTS_ATTR("axes", 1, list);
    if (lower->opset < AXES_INPUT_SINCE)
        return sp_lower_op(lower, op_type, x->dtype, 1, &x, 1, &attribute);
    struct sp_piece *const inputs[] = {x, sp_lower_ints(lower, 1, list)};
    return sp_lower_op(lower, op_type, x->dtype, 2, inputs, 0, NULL);
}

struct sp_piece *sp_lower_squeeze(struct sp_lowering *lower, struct sp_piece *x, uint32_t axis)
{
    int64_t dims[SP_MAX_RANK];
    if (!check_axis(lower, x, axis))
        return NULL;
    if (x->dims != NULL && x->dims[axis] >= 0 && x->dims[axis] != 1) {
        sp_lower_misuse(lower, "drops an axis of %" PRId64 " elements", x->dims[axis]);
        return NULL;
    }
    struct sp_piece *piece = with_axis(lower, "Squeeze", x, axis);
    for (uint32_t i = 0; x->dims != NULL && i + 1 < x->rank; i++)
        dims[i] = x->dims[i < axis ? i : i + 1];
    if (x->dims != NULL)
        sp_piece_set_dims(lower, piece, x->rank - 1, dims);
    return piece;
}

struct sp_piece *sp_lower_unsqueeze(struct sp_lowering *lower, struct sp_piece *x, uint32_t axis)
{
    int64_t dims[SP_MAX_RANK];
    if (!sp_lower_has(lower, x, x))
        return NULL;
    if (axis >= SP_MAX_RANK || (x->dims != NULL && (axis > x->rank || x->rank == SP_MAX_RANK))) {
        sp_lower_misuse(lower, "adds axis %" PRIu32 " to %" PRIu32, axis, x->rank);
        return NULL;
    }
    struct sp_piece *piece = with_axis(lower, "Unsqueeze", x, axis);
    for (uint32_t i = 0; x->dims != NULL && i < x->rank + 1; i++)
        dims[i] = i == axis ? 1 : x->dims[i < axis ? i : i - 1];
    if (x->dims != NULL)
        sp_piece_set_dims(lower, piece, x->rank + 1, dims);
    return piece;
}

/* ---- padding ---------------------------------------------------------------------------------------------------- */

#define PADS_INPUT_SINCE     11
#define PADS_ATTRIBUTE_SINCE 2 /* `paddings` before */

/* With constant pieces on both sides, one axis after the other. */
static struct sp_piece *pad_by_concat(struct sp_lowering *lower, struct sp_piece *x, uint32_t rank, const int64_t *low,
                                      const int64_t *high, double value)
{
    int64_t dims[SP_MAX_RANK];
    for (uint32_t axis = 0; axis < rank && sp_lower_is_fine(lower); axis++) {
        struct sp_piece *pieces[3];
        uint32_t count = 0;
        memcpy(dims, x->dims, rank * sizeof *dims);
        dims[axis] = low[axis];
        if (low[axis] > 0)
            pieces[count++] = sp_lower_full(lower, x->dtype, rank, dims, value);
        pieces[count++] = x;
        dims[axis] = high[axis];
        if (high[axis] > 0)
            pieces[count++] = sp_lower_full(lower, x->dtype, rank, dims, value);
        x = sp_lower_concat(lower, axis, count, pieces);
    }
    return sp_lower_is_fine(lower) ? x : NULL;
}

static struct sp_piece *pad_by_operator(struct sp_lowering *lower, struct sp_piece *x, uint32_t rank,
                                        const int64_t *pads, double value)
{
    const bool is_input = lower->opset >= PADS_INPUT_SINCE;
    const struct sp_lower_attribute attributes[] = {
        SP_INTS_ATTR(lower->opset >= PADS_ATTRIBUTE_SINCE ? "pads" : "paddings", 2 * rank, pads),
        {.name = "value", .type = SP_ATTR_FLOAT, .f = value}};
    if (x == NULL)
        return NULL;
    if (!is_input)
        return sp_lower_op(lower, "Pad", x->dtype, 1, &x, 2, attributes);
    struct sp_piece *const inputs[] = {x, sp_lower_ints(lower, 2 * rank, pads),
                                       sp_lower_scalar(lower, x->dtype, value)};
    return sp_lower_op(lower, "Pad", x->dtype, 3, inputs, 0, NULL);
}

struct sp_piece *sp_lower_pad(struct sp_lowering *lower, struct sp_piece *x, uint32_t rank, const int64_t *low,
                              const int64_t *high, double value)
{
    int64_t pads[2 * SP_MAX_RANK], dims[SP_MAX_RANK];
    bool is_nothing = true;
    if (!sp_lower_has(lower, x, x))
        return NULL;
    bool is_wrong = rank > SP_MAX_RANK || (x->dims != NULL && x->rank != rank);
    for (uint32_t i = 0; !is_wrong && i < rank; i++) {
        pads[i] = low[i];
        pads[rank + i] = high[i];
        dims[i] = x->dims == NULL || x->dims[i] < 0 ? -1 : x->dims[i];
        is_wrong =
            low[i] < 0 || high[i] < 0 ||
            (dims[i] >= 0 && (!sp_add_i64(dims[i], low[i], &dims[i]) || !sp_add_i64(dims[i], high[i], &dims[i])));
        is_nothing = is_nothing && low[i] == 0 && high[i] == 0;
    }
    if (is_wrong) {
        sp_lower_misuse(lower, "pads %" PRIu32 " axes by numbers that are none of a padding", rank);
        return NULL;
    }
    if (is_nothing)
        return x;
    if (lower->opset < PADS_INPUT_SINCE && !sp_dtype_is_float(x->dtype)) {
        if (x->dims != NULL && count_of(rank, dims) >= 0)
            return pad_by_concat(lower, x, rank, low, high, value);
        sp_lower_fail_opset(lower, "Pad", PADS_INPUT_SINCE);
        return NULL;
    }
    const enum sp_dtype dtype = x->dtype, carrier = sp_lower_carrier(lower, "Pad", dtype);
    struct sp_piece *piece = pad_by_operator(lower, sp_lower_cast(lower, x, carrier), rank, pads, value);
    if (x->dims != NULL)
        sp_piece_set_dims(lower, piece, rank, dims);
    return sp_lower_cast(lower, piece, dtype);
}
