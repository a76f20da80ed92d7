#pragma once
/*
 * same - sets that find what is equal to something, so that equal things of a model are kept once.
 *
 * Layers repeat: thousands of nodes have one rule, and thousands of tensors one shape and one sharding. A set holds
 * pointers by the digest of what they point to; whether two are equal is the caller's to say. Digests are seeded, and
 * of things with one digest only a few are compared: what is not found is kept twice, which costs memory and is not
 * wrong.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

/* ---- digests ---------------------------------------------------------------------------------------------------- */

#define SP_DIGEST_BLOCK 256

struct sp_digest {
    uint64_t hash;
    uint32_t used;
    unsigned char block[SP_DIGEST_BLOCK];
};

void sp_digest_begin(struct sp_digest *digest, uint64_t seed);
void sp_digest_add(struct sp_digest *digest, const void *bytes, size_t size);
void sp_digest_number(struct sp_digest *digest, uint64_t number);
uint64_t sp_digest_end(struct sp_digest *digest);

/* ---- sets ------------------------------------------------------------------------------------------------------- */

struct sp_same_slot {
    uint64_t hash;
    void *item; /* NULL: free */
};

/* All zero but for the arena, which the slots are in. */
struct sp_same {
    struct sp_arena *arena;
    uint32_t count, capacity;
    struct sp_same_slot *slots;
};

/* The item of this digest that is equal to the key, or NULL. */
void *sp_same_find(const struct sp_same *set, uint64_t hash, bool (*is_equal)(const void *item, const void *key),
                   const void *key);

/* Adds an item that was not found. False without memory. */
bool sp_same_add(struct sp_same *set, uint64_t hash, void *item);
