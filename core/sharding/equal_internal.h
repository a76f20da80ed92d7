#pragma once
/* equal_internal - what one device holds, compared; see sharding.h, sp_sharding_equal(). */
#include "sharding/sharding.h"

/* Whether both are the same elements, however they are cut into shards. Reorders nothing but drops empty shards in
   place. */
enum sp_status sp_held_equal(const struct sp_held *a, const struct sp_held *b, bool *ret_equal, struct sp_error *err);

/* An AXES sharding's groups and its devices in an order that does not depend on how it is written: tiles row-major,
   and within each of the three groups ascending. */
struct sp_tile_grid {
    int64_t dims[SP_MAX_RANK + 3];
    struct sp_device_order order;
};
enum sp_status sp_tile_grid_of(struct sp_arena *arena, const struct sp_sharding *axes, struct sp_tile_grid *ret_grid,
                               struct sp_error *err);
