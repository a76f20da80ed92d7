#pragma once
/*
 * statistics - what is known of all elements together, from pieces of them: means, moments, positions.
 *
 * A mean is the sum over devices of each device's mean times its share of the elements, so it is right for shards of
 * different sizes, needs no extent of an axis that is not cut, and its partial results do not grow with the extents.
 * Variances are taken in two passes, mean first: the difference of two large sums would lose what is left.
 */
#include "ops/lowering/lowering.h"

/* The elements that one statistic is taken over, as this device has them. */
struct sp_lower_span {
    uint64_t axes;         /* of the piece; a bit for each axis that the statistic is taken over */
    double share;          /* of the elements along them, how many are here */
    uint32_t factor_count; /* the split ones of the factors: what results are combined over; 0: nothing is to be done */
    const uint8_t *factors;
};

/* The split reductions of the rule, and the axes of an input that have any reduction. */
struct sp_lower_span sp_lower_reductions(struct sp_lowering *lower, uint32_t input);

/* The type that statistics of elements of this type are taken in: float32 at least, double for integers. */
enum sp_dtype sp_lower_wide(enum sp_dtype dtype);

/* The element type of an output, UNDEFINED where the node does not have it. */
enum sp_dtype sp_lower_output_dtype(const struct sp_lowering *lower, uint32_t output);

/* The piece, in the output's type, as this device's part of an output; nothing where the node does not have it. */
void sp_lower_give(struct sp_lowering *lower, uint32_t output, struct sp_piece *piece);

/* a and b, which broadcasts to a, in one of Add, Sub, Mul and Div; also where the operator set has no broadcasting. */
struct sp_piece *sp_lower_with(struct sp_lowering *lower, const char *op_type, struct sp_piece *a, struct sp_piece *b);

/* The mean of the whole; x has floating point elements. */
struct sp_piece *sp_lower_mean(struct sp_lowering *lower, struct sp_piece *x, const struct sp_lower_span *span,
                               bool keep_dims);

/* x less its mean, and the mean of the squares of that. NULL for `ret_mean` takes the mean to be zero. Statistics keep
   their axes with extent 1. */
struct sp_lower_moments {
    struct sp_piece *mean, *centred, *variance;
};
struct sp_lower_moments sp_lower_moments_of(struct sp_lowering *lower, struct sp_piece *x,
                                            const struct sp_lower_span *span, bool has_mean);

/* 1 / sqrt(variance + epsilon). */
struct sp_piece *sp_lower_inverse_deviation(struct sp_lowering *lower, struct sp_piece *variance, double epsilon);

/* ReduceSum, ReduceMax, .. of the whole. */
struct sp_piece *sp_lower_reduce_all(struct sp_lowering *lower, const char *op_type, enum sp_combiner combiner,
                                     struct sp_piece *x, const struct sp_lower_span *span, bool keep_dims);

/* The indices that this device has along a factor of known extent, as int64 [size]. */
struct sp_piece *sp_lower_own_indices(struct sp_lowering *lower, uint8_t factor);

/* From a piece that has all indices of a factor from `start` to its last on this device, those that it has. */
struct sp_piece *sp_lower_keep_own(struct sp_lowering *lower, struct sp_piece *piece, uint32_t axis, uint8_t factor,
                                   int64_t start);

/* What positions in a part of an axis are in the whole: int64, of any shape. `ranges` are the part, of known extent. */
struct sp_piece *sp_lower_to_global(struct sp_lowering *lower, struct sp_piece *positions,
                                    const struct sp_axis_ranges *ranges);

/* The coordinates of row-major positions in a box of these extents, one piece for each axis; the first extent is not
   looked at. And positions from coordinates. All are int64 and of any shape. */
void sp_lower_coordinates(struct sp_lowering *lower, struct sp_piece *positions, uint32_t rank, const int64_t *extents,
                          struct sp_piece **ret_coordinates);
struct sp_piece *sp_lower_flat(struct sp_lowering *lower, uint32_t rank, const int64_t *extents,
                               struct sp_piece *const *coordinates);

/* The numbers of an input's elements along some of its axes, row-major in the whole: int64, in a shape that broadcasts
   to the part's. Each of the axes has one factor of known extent; *ret_count is how many numbers there are. */
struct sp_piece *sp_lower_numbers(struct sp_lowering *lower, uint32_t input, uint64_t axes, int64_t *ret_count);

/* Positions (int64) below `count`, and where the mask (bool) is true numbers that are behind all positions of all
   devices, or with `is_last` before them. Then the lowest of all devices' positions, or the highest. */
struct sp_piece *sp_lower_candidates(struct sp_lowering *lower, struct sp_piece *positions, struct sp_piece *mask,
                                     int64_t count, bool is_last);
struct sp_piece *sp_lower_first_of_all(struct sp_lowering *lower, struct sp_piece *candidates, int64_t count,
                                       bool is_last, const struct sp_lower_span *span);

/* Whether the shards of a factor are in the order of its indices, each one range. */
bool sp_lower_is_even(const struct sp_lowering *lower, uint8_t factor);

/* A vector's elements along axis 1 of a tensor with `rank` axes: [c] becomes [c, 1, ..]. */
struct sp_piece *sp_lower_along_channels(struct sp_lowering *lower, struct sp_piece *vector, uint32_t rank);
