#include "infer/propagate/recent.h"

#include <string.h>

#include "base/hash_map.h"

uint32_t sp_recent_slot(struct sp_recent *recent, const struct sp_recent_key *key, bool *ret_known)
{
    const size_t size = key->count * sizeof *key->words;
    uint32_t slot = (uint32_t)sp_digest(key->words, size, recent->seed) % SP_RECENT_SLOTS;
    struct sp_recent_key *there = &recent->keys[slot];
    *ret_known = there->count == key->count && memcmp(there->words, key->words, size) == 0;
    if (!*ret_known)
        *there = *key;
    return slot;
}

void sp_recent_forget(struct sp_recent *recent, uint32_t slot)
{
    recent->keys[slot].count = 0;
}
