#include "base/hash_set.h"

#include <string.h>
#include <xxhash.h>

#define FIRST_SLOTS 64
#define MOST_EQUALS 16 /* of one digest that are compared: beyond it somebody makes them so */

/* ---- digests ---------------------------------------------------------------------------------------------------- */

void sp_digest_begin(struct sp_digest *digest, uint64_t seed)
{
    digest->hash = seed;
    digest->used = 0;
}

static void flush(struct sp_digest *digest)
{
    digest->hash = XXH3_64bits_withSeed(digest->block, digest->used, digest->hash);
    digest->used = 0;
}

void sp_digest_add(struct sp_digest *digest, const void *bytes, size_t size)
{
    const unsigned char *from = bytes;
    if (size > 0 && size < SP_DIGEST_BLOCK - digest->used) {
        memcpy(digest->block + digest->used, from, size);
        digest->used += (uint32_t)size;
        return;
    }
    while (size > 0) {
        size_t part = SP_DIGEST_BLOCK - digest->used;
        part = part < size ? part : size;
        memcpy(digest->block + digest->used, from, part);
        digest->used += (uint32_t)part;
        from += part;
        size -= part;
        if (digest->used == SP_DIGEST_BLOCK)
            flush(digest);
    }
}

void sp_digest_number(struct sp_digest *digest, uint64_t number)
{
    sp_digest_add(digest, &number, sizeof number);
}

uint64_t sp_digest_end(struct sp_digest *digest)
{
    flush(digest);
    return digest->hash;
}

/* ---- sets ------------------------------------------------------------------------------------------------------- */

void *sp_hash_set_find(const struct sp_hash_set *set, uint64_t hash,
                       bool (*is_equal)(const void *item, const void *key), const void *key)
{
    uint32_t compared = 0;
    if (set->capacity == 0)
        return NULL;
    for (uint32_t at = (uint32_t)hash & (set->capacity - 1);; at = (at + 1) & (set->capacity - 1)) {
        const struct sp_hash_set_slot *slot = &set->slots[at];
        if (slot->item == NULL || compared == MOST_EQUALS)
            return NULL;
        if (slot->hash != hash)
            continue;
        if (is_equal(slot->item, key))
            return slot->item;
        compared++;
    }
}

static void put(struct sp_hash_set_slot *slots, uint32_t capacity, struct sp_hash_set_slot slot)
{
    uint32_t at = (uint32_t)slot.hash & (capacity - 1);
    while (slots[at].item != NULL)
        at = (at + 1) & (capacity - 1);
    slots[at] = slot;
}

bool sp_hash_set_add(struct sp_hash_set *set, uint64_t hash, void *item)
{
    if (set->count >= set->capacity / 4 * 3) {
        uint32_t wanted = set->capacity == 0 ? FIRST_SLOTS : 2 * set->capacity;
        struct sp_hash_set_slot *larger =
            set->capacity > UINT32_MAX / 4 ? NULL : SP_NEW_ARRAY(set->arena, wanted, struct sp_hash_set_slot);
        if (larger == NULL)
            return false;
        for (uint32_t i = 0; i < set->capacity; i++) {
            if (set->slots[i].item != NULL)
                put(larger, wanted, set->slots[i]);
        }
        set->slots = larger;
        set->capacity = wanted;
    }
    put(set->slots, set->capacity, (struct sp_hash_set_slot){hash, item});
    set->count++;
    return true;
}

/* ---- what was asked last ---------------------------------------------------------------------------------------- */

uint32_t sp_recent_slot(struct sp_recent *recent, const struct sp_recent_key *key, bool *ret_known)
{
    const size_t size = key->count * sizeof *key->words;
    uint32_t slot = (uint32_t)XXH3_64bits_withSeed(key->words, size, recent->seed) % SP_RECENT_SLOTS;
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
