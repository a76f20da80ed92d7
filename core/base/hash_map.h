#pragma once
/*
 * hash_map - one hash table for maps and sets, and the digests that sets are asked with.
 *
 * A table holds pairs of a 64-bit key and a value, a number or a pointer, that is not 0. As a map it has each key once,
 * and the key is a number that is known as a whole (an index, an address, two indices). As a set it holds pointers by
 * the digest of what they point to, and several may have one digest: whether two are equal is the caller's to say.
 *
 *     struct sp_hash_map edges = {.arena = arena};
 *     struct sp_hash_slot *slot = sp_hash_map_put(&edges, (uint64_t)from << 32 | to);
 *     if (slot == NULL)
 *         return sp_fail_memory(err);
 *     if (slot->number == 0)
 *         slot->number = ++edge_count; // seen for the first time
 *
 * Layers repeat: thousands of nodes have one rule, and thousands of tensors one shape and one sharding. Sets keep such
 * things once. Digests are seeded, and of things with one digest only a few are compared: what is not found is kept
 * twice, which costs memory and is not wrong.
 *
 * Invariants
 *  - Lookups and additions take constant time on average; a table is at most half full, 16 bytes a slot. Nothing is ever
 *    taken out of one, and what it leaves behind in the arena as it grows is less than it has.
 *  - Without memory, as when the arena's budget refuses it, an addition fails and the table is what it was.
 *  - There is no order of a table: what has to be walked over is listed beside it, so that results follow from the
 *    input and not from addresses or seeds.
 *
 * Why our own: a handle of uthash takes 56 bytes in each item and is there once for each table that the item is in,
 * its memory comes from a function that is not told which arena, and out of memory it exits, or with
 * HASH_NONFATAL_OOM gives back items that are in no table. stb_ds writes through NULL out of memory.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

/* ---- the table -------------------------------------------------------------------------------------------------- */

struct sp_hash_slot {
    uint64_t key;
    union {
        void *item;
        uint64_t number;
    }; /* 0: free */
};

_Static_assert(sizeof(void *) == sizeof(uint64_t), "a slot is free when either member is 0");

/* All zero but for the arena, which the slots are in. */
struct sp_hash_map {
    struct sp_arena *arena;
    uint32_t count, capacity; /* a power of two, or 0 */
    unsigned shift;           /* the upper bits of a spread key are its place: 64 - log2(capacity) */
    struct sp_hash_slot *slots;
};

/* Where the search for a key begins in a table that is not empty: multiplying by 2^64 / golden ratio spreads numbers
   that follow each other, and addresses, over the upper bits. */
static inline uint32_t sp_hash_home(const struct sp_hash_map *map, uint64_t key)
{
    return (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> map->shift);
}

/* The next slot of a key from *at on, which it moves on, or NULL. Begin with *at = sp_hash_home(). Not for empty
   tables. */
static inline struct sp_hash_slot *sp_hash_next(const struct sp_hash_map *map, uint64_t key, uint32_t *at)
{
    for (;;) {
        struct sp_hash_slot *slot = &map->slots[*at];
        if (slot->number == 0)
            return NULL;
        *at = (*at + 1) & (map->capacity - 1);
        if (slot->key == key)
            return slot;
    }
}

/* Room for `count` keys in all without growing again. False without memory. */
bool sp_hash_map_reserve(struct sp_hash_map *map, uint32_t count);

/* ---- maps ------------------------------------------------------------------------------------------------------- */

/* The slot of a key, or NULL. */
static inline struct sp_hash_slot *sp_hash_map_get(const struct sp_hash_map *map, uint64_t key)
{
    uint32_t at = map->capacity == 0 ? 0 : sp_hash_home(map, key);
    return map->capacity == 0 ? NULL : sp_hash_next(map, key, &at);
}

/* The slot of a key, made where there is none: its value is 0 then, and the caller writes another one before the next
   call. NULL without memory. */
struct sp_hash_slot *sp_hash_map_put(struct sp_hash_map *map, uint64_t key);

/* ---- sets ------------------------------------------------------------------------------------------------------- */

/* The item of this digest that is equal to the key, or NULL. */
void *sp_hash_set_find(const struct sp_hash_map *set, uint64_t digest,
                       bool (*is_equal)(const void *item, const void *key), const void *key);

/* Adds an item that was not found. False without memory. */
bool sp_hash_set_add(struct sp_hash_map *set, uint64_t digest, void *item);

/* ---- digests ---------------------------------------------------------------------------------------------------- */

/* The digest of some bytes: XXH3. */
uint64_t sp_digest(const void *bytes, size_t size, uint64_t seed);

#define SP_DIGEST_BLOCK 1024

/* A digest of bytes that come one after the other. */
struct sp_digest {
    uint64_t hash;
    uint32_t used;
    unsigned char block[SP_DIGEST_BLOCK];
};

void sp_digest_begin(struct sp_digest *digest, uint64_t seed);
void sp_digest_add(struct sp_digest *digest, const void *bytes, size_t size);
void sp_digest_number(struct sp_digest *digest, uint64_t number);
uint64_t sp_digest_end(struct sp_digest *digest);
