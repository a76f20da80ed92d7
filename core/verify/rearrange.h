#pragma once
/* rearrange - tensors whose numbers change their places. */
#include "verify/numbers.h"

/* Items of the tensor picked along one axis: `from` has an index into the axis' items for each index of the new axis. */
enum sp_status sp_numbers_take(struct sp_arena *arena, const struct sp_numbers *x, uint32_t axis,
                               const struct sp_index_axis *new_axis, const uint32_t *from, struct sp_numbers **ret,
                               struct sp_error *err);
/* `count` indices of an axis from `start` on, in steps that are not 0. */
struct sp_index_run {
    int64_t start, step, count;
};
enum sp_status sp_numbers_slice(struct sp_arena *arena, const struct sp_numbers *x, uint32_t axis,
                                struct sp_index_run run, struct sp_numbers **ret, struct sp_error *err);
enum sp_status sp_numbers_concat(struct sp_arena *arena, uint32_t count, const struct sp_numbers *const *parts,
                                 uint32_t axis, struct sp_numbers **ret, struct sp_error *err);
enum sp_status sp_numbers_reshape(struct sp_arena *arena, const struct sp_numbers *x, uint32_t rank,
                                  const int64_t *extents, struct sp_numbers **ret, struct sp_error *err);
enum sp_status sp_numbers_transpose(struct sp_arena *arena, const struct sp_numbers *x, const uint32_t *perm,
                                    struct sp_numbers **ret, struct sp_error *err);
