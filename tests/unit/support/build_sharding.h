#pragma once
/* build_sharding - shardings for tests from a few words, and what devices hold as a few words. */
#include "../../conformance/random_shardings.h"
#include "sharding/sharding.h"

/* "x=2 y=4"; `order` NULL means 0..N-1. */
struct sp_mesh *build_mesh(struct sp_arena *arena, const char *axes, const struct sp_device_order *order);

/* "x y:(1)2": refs of a mesh. */
struct sp_axis_list build_refs(struct sp_arena *arena, const struct sp_mesh *mesh, const char *refs);

/* "x y:(1)2 | | z": one list of refs per tensor axis. "" has rank 0. */
struct sp_sharding *build_axes(struct sp_arena *arena, const struct sp_mesh *mesh, const char *dims);

/*
 * "2 | 2*1,4*2 |" and "0 1; 2 3": per tensor axis a number of shards, or parts "extent*shards" (0*2: what is left), and
 * per shard its devices. `placement` NULL leaves it open.
 */
struct sp_sharding *build_blocks(struct sp_arena *arena, const char *dims, const char *placement);

/* "0..2 x 0..4 + 1..2,3..4 x -": shards, axes, ranges; "nothing" without shards. */
const char *held_text(struct sp_arena *arena, const struct sp_sharding *sharding, uint32_t rank, const int64_t *shape,
                      int64_t device);

/* "x:(1)2 y". */
const char *refs_text(struct sp_arena *arena, const struct sp_mesh *mesh, const struct sp_axis_list *list);

/* "0 1; 2 3": the devices of each shard of BLOCKS. */
const char *placement_text(struct sp_arena *arena, const struct sp_sharding *blocks);

/* AXES of this rank on at most 64 devices: sub-axes, any device order, some axes left out or replicated explicitly. */
struct sp_sharding *random_axes(struct sp_arena *arena, struct random *random, uint32_t rank);
