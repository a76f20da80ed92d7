#pragma once
/*
 * hash_set - sets that find what is equal to something, so that equal things of a model are kept once.
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

#define SP_DIGEST_BLOCK 1024

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

struct sp_hash_set_slot {
    uint64_t hash;
    void *item; /* NULL: free */
};

/* All zero but for the arena, which the slots are in. */
struct sp_hash_set {
    struct sp_arena *arena;
    uint32_t count, capacity;
    struct sp_hash_set_slot *slots;
};

/* The item of this digest that is equal to the key, or NULL. */
void *sp_hash_set_find(const struct sp_hash_set *set, uint64_t hash,
                       bool (*is_equal)(const void *item, const void *key), const void *key);

/* Adds an item that was not found. False without memory. */
bool sp_hash_set_add(struct sp_hash_set *set, uint64_t hash, void *item);

/* ---- what was asked last ---------------------------------------------------------------------------------------- */

/* Answers by the few pointers and numbers that they follow from. Old ones make place for new ones: a table is small
   whatever is asked, and what it does not know is worked out again. */
#define SP_RECENT_SLOTS    512
#define SP_RECENT_WORDS    16
#define SP_RECENT_OPERANDS 6 /* of nodes that are asked about: two words each, and some for the node */

struct sp_recent_key {
    uint32_t count;
    uint64_t words[SP_RECENT_WORDS];
};

struct sp_recent {
    uint64_t seed;
    struct sp_recent_key keys[SP_RECENT_SLOTS]; /* count 0: free */
};

static inline void sp_recent_word(struct sp_recent_key *key, uint64_t word)
{
    if (key->count < SP_RECENT_WORDS)
        key->words[key->count++] = word;
}

static inline void sp_recent_pointer(struct sp_recent_key *key, const void *pointer)
{
    sp_recent_word(key, (uint64_t)(uintptr_t)pointer);
}

/* The slot of a key. *ret_known says whether it was there; it is from now on, so that the caller, whose table of
   answers has as many places, puts the answer there or forgets the slot. */
uint32_t sp_recent_slot(struct sp_recent *recent, const struct sp_recent_key *key, bool *ret_known);
void sp_recent_forget(struct sp_recent *recent, uint32_t slot);
