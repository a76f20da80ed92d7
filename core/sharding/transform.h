#pragma once
/*
 * transform - shardings of tensors that are reshaped, transposed, merged: what GSPMD's propagation knows about layouts.
 *
 * All work on AXES shardings (others: sp_sharding_to_axes() first; REPLICATED stays REPLICATED) and give AXES on the
 * same mesh, or on one whose axes were cut finer or regrouped, with the same devices in the same places. Where a
 * transformation does not exist, *ret is NULL and the status SP_OK; errors are wrong arguments and memory. Sources: the
 * behaviour of XLA's hlo_sharding_util, as recorded in published test cases.
 */
#include "sharding/forms.h"

/* Cuts the axes of both so that one mesh serves the two (same devices in the same places required): a common
 *refinement. ret_a is NULL when there is none. */
enum sp_status sp_sharding_unify(struct sp_arena *arena, const struct sp_sharding *a, const struct sp_sharding *b,
                                 struct sp_sharding **ret_a, struct sp_sharding **ret_b, struct sp_error *err);

/*
 * The same sharding on the mesh of its tiles: one mesh axis per split tensor axis, one for all manual, one for all
 * partial and one for all other axes. Axes that were split over several mesh axes can then be cut anywhere, as XLA's
 * tile assignments can. Names of axes and explicit replication are not kept.
 */
enum sp_status sp_sharding_regroup(struct sp_arena *arena, const struct sp_sharding *sharding, struct sp_sharding **ret,
                                   struct sp_error *err);

/* The mesh axes, and parts of axes, that no list of an AXES sharding names, in mesh order; none for other kinds. */
enum sp_status sp_sharding_unused_axes(struct sp_arena *arena, const struct sp_sharding *sharding,
                                       struct sp_axis_list *ret_axes, struct sp_error *err);

/*
 * The sharding of reshape(x), for extents that are known. Strict: the splits from the major end on that can be carried
 * over, even ones cut where the greatest common divisor of shards and extent says, the rest replicated; NULL when an
 * uneven split would have to be cut or no split survives. Best effort: where the whole fails, the longest runs of axes
 * for which it does not; never NULL.
 */
enum sp_status sp_sharding_reshape(struct sp_arena *arena, const struct sp_sharding *sharding, uint32_t from_rank,
                                   const int64_t *from_shape, uint32_t to_rank, const int64_t *to_shape,
                                   bool best_effort, struct sp_sharding **ret, struct sp_error *err);

/*
 * The sharding that both allow: splits of either, replicated axes taken up where the other splits. On one mesh an axis
 * may go on where the other ends; of such an axis only the part is taken that `b` does not use otherwise, and NULL if
 * that is nothing. On different meshes an axis must be split alike, or in one of the two only. Where no mesh serves
 * both, devices are compared, and the result has them listed. Partial and manual axes must be the same.
 */
enum sp_status sp_sharding_merge(struct sp_arena *arena, const struct sp_sharding *a, const struct sp_sharding *b,
                                 struct sp_sharding **ret, struct sp_error *err);

/* Tensor axis i of the result is axis perm[i] of the source. */
enum sp_status sp_sharding_transpose(struct sp_arena *arena, const struct sp_sharding *sharding, const uint32_t *perm,
                                     struct sp_sharding **ret, struct sp_error *err);

/* Moves all mesh axes of one tensor axis to the minor end of another. */
enum sp_status sp_sharding_move_tiles(struct sp_arena *arena, const struct sp_sharding *sharding, uint32_t source,
                                      uint32_t target, struct sp_sharding **ret, struct sp_error *err);

/* Tensor axes `axis` and `axis + 1` become one; an axis becomes two of which the first has `size` shards. */
enum sp_status sp_sharding_merge_dims(struct sp_arena *arena, const struct sp_sharding *sharding, uint32_t axis,
                                      struct sp_sharding **ret, struct sp_error *err);
enum sp_status sp_sharding_split_dim(struct sp_arena *arena, const struct sp_sharding *sharding, uint32_t axis,
                                     int64_t size, struct sp_sharding **ret, struct sp_error *err);

/* A tensor of rank `target_rank` whose axis targets[i] is split as axis sources[i]; all others are whole. */
enum sp_status sp_sharding_copy_dims(struct sp_arena *arena, const struct sp_sharding *sharding, uint32_t count,
                                     const uint32_t *sources, const uint32_t *targets, uint32_t target_rank,
                                     struct sp_sharding **ret, struct sp_error *err);

/* These axes become whole; are taken out (a split one is replicated); whole ones are put in before `at[i]` of the
 * result. */
enum sp_status sp_sharding_replicate_dims(struct sp_arena *arena, const struct sp_sharding *sharding, uint32_t count,
                                          const uint32_t *axes, struct sp_sharding **ret, struct sp_error *err);
enum sp_status sp_sharding_remove_dims(struct sp_arena *arena, const struct sp_sharding *sharding, uint32_t count,
                                       const uint32_t *axes, struct sp_sharding **ret, struct sp_error *err);
enum sp_status sp_sharding_add_dims(struct sp_arena *arena, const struct sp_sharding *sharding, uint32_t count,
                                    const uint32_t *at, struct sp_sharding **ret, struct sp_error *err);

/* Whether every device's piece under `fine` lies inside its piece under `coarse`. */
enum sp_status sp_sharding_is_sub_tiling(struct sp_arena *arena, const struct sp_sharding *fine,
                                         const struct sp_sharding *coarse, uint32_t rank, const int64_t *shape,
                                         bool *ret_is, struct sp_error *err);

/* The first axis other than `source` that can take over all its tiles: larger than and divisible by both numbers of
   tiles together; -1 when there is none, or `source` is whole. */
enum sp_status sp_sharding_first_dim_for_tiles(const struct sp_sharding *sharding, uint32_t rank, const int64_t *shape,
                                               uint32_t source, int64_t *ret_axis, struct sp_error *err);

/* The global shape of a per-device tile shape. */
enum sp_status sp_sharding_untile_shape(const struct sp_sharding *sharding, uint32_t rank, const int64_t *tile,
                                        int64_t *ret_shape, struct sp_error *err);

/*
 * The sharding of one operand of a dot product from those of the result and the other operand (either may be NULL).
 * Each tensor axis of the operand is given by where it is found: `result_axis[i]` and `other_axis[i]`, -1 for none.
 */
enum sp_status sp_sharding_infer_operand(struct sp_arena *arena, uint32_t rank, const int64_t *result_axis,
                                         const struct sp_sharding *result, const int64_t *other_axis,
                                         const struct sp_sharding *other, struct sp_sharding **ret,
                                         struct sp_error *err);
