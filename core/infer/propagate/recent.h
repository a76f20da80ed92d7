#pragma once
/*
 * recent - answers that were worked out lately, by the few pointers and numbers that they follow from.
 *
 * A new answer replaces an old one, so a table stays small whatever is asked; what it has lost is worked out again.
 */
#include <stdbool.h>
#include <stdint.h>

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
