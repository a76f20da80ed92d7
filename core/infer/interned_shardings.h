#pragma once
/*
 * interned_shardings - one copy of each extents and of each AXES sharding that the tensors of a model have.
 *
 * What is asked for may lie in memory that goes: what comes back is the copy, the same pointer for what is equal.
 */
#include "base/hash_map.h"
#include "sharding/sharding.h"

struct sp_interned {
    struct sp_hash_map same;
    uint64_t seed;
};

static inline struct sp_interned sp_interned_in(struct sp_arena *arena, uint64_t seed)
{
    return (struct sp_interned){.same = {.arena = arena}, .seed = seed};
}

/* Whether two AXES shardings are written alike; their meshes are not compared. */
bool sp_is_same_axes(const struct sp_sharding *a, const struct sp_sharding *b);

/* A set is of numbers or of shardings, not of both. Memory is the only error: NULL. */
const int64_t *sp_keep_numbers(struct sp_interned *kept, uint32_t count, const int64_t *numbers);

/* Equal ones are on one and the same mesh. */
const struct sp_sharding *sp_keep_sharding(struct sp_interned *kept, const struct sp_sharding *sharding);
