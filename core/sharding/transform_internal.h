#pragma once
/* transform_internal - what the files transform_*.c share. */
#include "sharding/internal.h"
#include "sharding/transform.h"

/*
 * Kinds that no transformation of a tensor's axes changes (REPLICATED, SINGLE, MANUAL, UNREDUCED, UNKNOWN): *ret_done
 * is true and *ret a copy. AXES go on; SP_ERR_REQUEST "NOT_AXES" for the others.
 */
enum sp_status sp_transform_begin(struct sp_arena *arena, const struct sp_sharding *sharding, bool *ret_done,
                                  struct sp_sharding **ret, struct sp_error *err);

/* An AXES sharding of `rank` axes, none of them split, with the replicated, partial and manual axes of `source`. */
enum sp_status sp_transform_frame(struct sp_arena *arena, const struct sp_sharding *source, uint32_t rank,
                                  struct sp_sharding **ret, struct sp_error *err);

/* A copy of one tensor axis's sharding into a frame. */
enum sp_status sp_transform_copy_dim(struct sp_arena *arena, const struct sp_dim_sharding *source,
                                     struct sp_dim_sharding *target, struct sp_error *err);

/* The whole AXES sharding, no list shared with the source. */
enum sp_status sp_transform_copy(struct sp_arena *arena, const struct sp_sharding *source, struct sp_sharding **ret,
                                 struct sp_error *err);

/* Whether no tensor axis is split and no axis is partial or manual: the tensor is whole everywhere. */
bool sp_transform_is_whole(const struct sp_sharding *sharding);

/* Whether two lists are the same refs in the same order. */
bool sp_transform_same_list(const struct sp_axis_list *a, const struct sp_axis_list *b);

/* How far apart two neighbours along the ref stand in the mesh's positions. */
int64_t sp_transform_stride(const struct sp_mesh *mesh, struct sp_axis_ref ref);

/* "axis_0", "axis_1", ..; NULL without memory. */
const char *sp_transform_axis_name(struct sp_arena *arena, uint32_t index);

/* SP_ERR_REQUEST "BAD_AXIS" unless axis < rank. */
enum sp_status sp_transform_check_axis(const struct sp_sharding *sharding, uint32_t axis, struct sp_error *err);
