#pragma once
/*
 * parts - what lowerings of operators that contract, slide windows and resample have in common.
 *
 * All are sticky on errors as those of ops/lowering/lowering.h.
 */
#include "ops/lowering/lowering.h"

/* The node as its `shapes` and `rule` functions see it; results lie in the memory of the node. */
struct sp_op_context sp_lower_context(const struct sp_lowering *lower);

/* False for SP_RULE_NO_FACTOR. */
bool sp_lower_is_split(const struct sp_lowering *lower, uint8_t factor);

/* The indices of one shard of a split factor, of this device or of another; empty for what is no shard. */
struct sp_range sp_lower_shard(const struct sp_lower_factor *factor, int64_t shard);

/* sp_lower_whole(): "Node .. has no form for a split of factor h: WHY. It is computed with the factor whole on every
   device." Nothing for a factor that is not split. */
void sp_lower_refuse(struct sp_lowering *lower, uint8_t factor, const char *why);

/* Whether this device has shard 0 of each of the split reductions that output 0 does not have. */
bool sp_lower_is_first(struct sp_lowering *lower);

/* This device's part of an input that is to be added to output 0 once and not on every device: zeros where
   sp_lower_is_first() is false. NULL for an omitted input. */
struct sp_piece *sp_lower_input_once(struct sp_lowering *lower, uint32_t input);

/* Output 0: a sum over the split reductions that it does not have. */
enum sp_status sp_lower_give_sum(struct sp_lowering *lower, struct sp_piece *y);

/* Operators that round a sum of bytes to bytes: where the scales and zero points of their operands are. */
struct sp_lower_scales {
    uint32_t a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero;
};

/* Whether a sum can be rounded behind its combination: the operands and the result are bytes, and but for those of b
   scales and zero points are single numbers. A result that no zero point is given for is real. */
#define SP_LOWER_NOT_SCALED "its operands are not bytes whose scales and zero points a sum of integers takes in parts"
bool sp_lower_is_scaled(const struct sp_lowering *lower, const struct sp_lower_scales *scales);

/* What the operator gives of an int32 sum, each element times `factor` and the scales. Those of b have `axes` axes
   behind their own. */
struct sp_piece *sp_lower_scaled(struct sp_lowering *lower, struct sp_piece *sum, const struct sp_lower_scales *scales,
                                 double factor, uint32_t axes);

/* The same elements with more axes of size 1 behind their own, where they are several. */
struct sp_piece *sp_lower_with_axes(struct sp_lowering *lower, struct sp_piece *x, uint32_t axes);

/* The `size` indices of these ranges, in order, in the memory of the node. */
const int64_t *sp_lower_list(struct sp_lowering *lower, const struct sp_axis_ranges *ranges, int64_t size);

/* A device's part of a piece that is whole along an axis: the indices that it has of a split factor. */
struct sp_piece *sp_lower_cut(struct sp_lowering *lower, struct sp_piece *x, uint32_t axis, uint8_t factor);

/* A tensor of 0, 1 or more axes with these numbers, in any floating point type. */
struct sp_piece *sp_lower_reals(struct sp_lowering *lower, enum sp_dtype dtype, uint32_t rank, const int64_t *dims,
                                const double *values);
