#pragma once
/*
 * cache - what has been worked out about shardings in one assignment, each thing once.
 *
 * Layers repeat, and so do specs: thousands of nodes are cut like the one before. Looking at a node costs time for each
 * device that its operands name, so equal shardings are kept as one, which makes them equal as pointers, and what
 * follows from them (a node's view, a reshard, a largest piece) is found again by the bytes of a key made of such
 * pointers, extents and rules. What is found is the same as what would be worked out again.
 *
 * What is really walked is counted: `points`, one for each device of each operand. A file can make every node another
 * one; beyond SP_FREE_VIEW_POINTS and SP_VIEW_POINTS_PER_BYTE for each byte of the file nothing more is looked at.
 *
 * Everything lies in the arena of the assignment. Keys and shardings are compared in full: a hash decides nothing.
 */
#include "graph/model.h"
#include "sharding/sharding.h"

struct sp_view_cache;

enum sp_status sp_view_cache_create(struct sp_arena *arena, const struct sp_model *model,
                                    struct sp_view_cache **ret_cache, struct sp_error *err);

/* The arena that everything kept lies in. */
struct sp_arena *sp_view_cache_arena(const struct sp_view_cache *cache);

/* The one sharding that is written like this one: the first that was asked for. With `stays` the cache may point to
   `sharding` as long as it lives itself; else it keeps a copy (BLOCKS with devices only, others must stay). */
enum sp_status sp_view_cache_sharding(struct sp_view_cache *cache, const struct sp_sharding *sharding, bool stays,
                                      const struct sp_sharding **ret_same, struct sp_error *err);

/* Whole, of this rank, on all devices that these shardings name; NULL when they name none. */
enum sp_status sp_view_cache_whole(struct sp_view_cache *cache, uint32_t rank, int64_t device_count, uint32_t count,
                                   const struct sp_sharding *const *shardings, const struct sp_sharding **ret_whole,
                                   struct sp_error *err);

/* The open BLOCKS (no placement) with shard i on devices[i], or whole on all `count` devices; NULL: device i is i.
   `open` stays; `devices` are ascending, and of a sharding that the cache gave. */
enum sp_status sp_view_cache_placed(struct sp_view_cache *cache, const struct sp_sharding *open, int64_t count,
                                    const int64_t *devices, const struct sp_sharding **ret_placed,
                                    struct sp_error *err);

/* A key that is being written: pieces one after the other. Long ones grow in `arena`. */
#define SP_CACHE_SMALL_KEY 128
struct sp_view_cache_key {
    struct sp_arena *arena;
    size_t size, capacity;
    bool is_broken; /* no memory */
    unsigned char *large;
    unsigned char small[SP_CACHE_SMALL_KEY];
};
void sp_view_cache_key_add(struct sp_view_cache_key *key, const void *bytes, size_t size);

/* What a key is about: its first piece, so that keys of different things differ. */
enum sp_view_cache_about {
    SP_CACHE_WHOLE = 1,
    SP_CACHE_PLACED,
    SP_CACHE_VIEW,
    SP_CACHE_WAY,
    SP_CACHE_REDUCTION,
    SP_CACHE_TILE,
    SP_CACHE_RESHARD
};
struct sp_view_cache_key sp_view_cache_key(struct sp_arena *arena, enum sp_view_cache_about about);

/* What is remembered under a key, or NULL. */
void *sp_view_cache_get(const struct sp_view_cache *cache, const struct sp_view_cache_key *key);

/* `size` zeroed bytes to remember under a key that is not there yet; NULL without memory. */
void *sp_view_cache_put(struct sp_view_cache *cache, const struct sp_view_cache_key *key, size_t size);

/* Takes so many points; false when they are too many, of which none is taken then. */
bool sp_view_cache_spend(struct sp_view_cache *cache, int64_t points);

/* Whether the shardings that were copied list too many devices already: no more should be worked out. */
bool sp_view_cache_is_full(const struct sp_view_cache *cache);

/* Bytes that remembered views may still take. */
size_t *sp_view_cache_view_room(struct sp_view_cache *cache);

/* What reshards may still take (SP_FREE_WAYS_WORK), for all nodes. */
uint64_t *sp_view_cache_ways_left(struct sp_view_cache *cache);

/* Devices that a sharding places shards on, counted as often as they are named; `device_count` where it names none. */
int64_t sp_placed_devices(const struct sp_sharding *sharding, int64_t device_count);
