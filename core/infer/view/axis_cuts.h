#pragma once
/*
 * axis_cuts - cuts of axes and of their factors.
 *
 * A cut is a struct sp_block_dim: how a factor or an axis is divided in parts. In the forms here a part without an
 * extent (0) is one whose extent is not known. Cuts are compared in their simplest form: no part that could be joined
 * with its neighbour, one plain part without an extent, none for what is whole. The shards of a part may be of several
 * blocks each (bounds), where a device has more of an axis than another.
 */
#include "sharding/sharding.h"

/* Deals the cut of an axis to its factors, major to minor; extents of -1 are not known. *ret_ok is false where a cut
   does not fall between two factors. `ret_cuts` gets `count` cuts. */
enum sp_status sp_cut_deal(struct sp_arena *arena, const struct sp_block_dim *dim, uint32_t count,
                           const int64_t *extents, struct sp_block_dim *ret_cuts, bool *ret_ok, struct sp_error *err);

/* The cut of an axis from those of its factors. *ret_ok is false where too little is known of the extents. */
enum sp_status sp_cut_join(struct sp_arena *arena, uint32_t count, const struct sp_block_dim *cuts,
                           const int64_t *extents, struct sp_block_dim *ret_dim, bool *ret_ok, struct sp_error *err);

/* To the simplest form, in place. */
void sp_cut_simplify(struct sp_block_dim *cut);

bool sp_cut_equal(const struct sp_block_dim *a, const struct sp_block_dim *b);
int64_t sp_cut_shards(const struct sp_block_dim *cut);

/* The blocks that a part is cut in: as many as it has shards, or more where these have several. */
int64_t sp_part_blocks(const struct sp_block_part *part);
/* Whether some shard of a part of this extent has no element. */
bool sp_part_has_empty(const struct sp_block_part *part, int64_t extent);
/* What the first element of every shard is a multiple of; -1: more than fits. */
int64_t sp_part_run(const struct sp_block_part *part, int64_t extent);

/*
 * BLOCKS in which devices hold several shards, as an equal one in which each holds one; *ret_regular is NULL where
 * there is none. Shards that the placement does not tell apart are one: devices 0, 1, 0, 1 along an axis of 8 hold its
 * parts {2 in 1} * {4 in 2}; devices 0, 0, 0, 1 hold two shards of it, one of three blocks and one of one. `extents`
 * are the tensor's, -1 where not known. What has bounds stays among cuts: sp_sharding_written() writes it as a sharding.
 */
enum sp_status sp_sharding_regular(struct sp_arena *arena, const struct sp_sharding *blocks, const int64_t *extents,
                                   const struct sp_sharding **ret_regular, struct sp_error *err);

/* Whether some part has bounds. */
bool sp_sharding_has_shares(const struct sp_sharding *blocks);

/* BLOCKS with devices and with parts that may have bounds, in place, as a sharding: each block is a shard of its own,
   and a device is named for all that it has. SP_ERR_LIMIT above SP_MAX_LISTED_DEVICES. */
enum sp_status sp_sharding_written(struct sp_arena *arena, struct sp_sharding *blocks, struct sp_error *err);
