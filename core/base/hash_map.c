#include "base/hash_map.h"

#include <string.h>
#include <xxhash.h>

#define FIRST_BITS  5
#define MOST_BITS   31
#define MOST_EQUALS 16 /* of one digest that are compared: beyond it somebody makes them so */

/* ---- the table -------------------------------------------------------------------------------------------------- */

static struct sp_hash_slot *free_slot(const struct sp_hash_map *map, uint64_t key)
{
    uint32_t at = sp_hash_home(map, key);
    while (map->slots[at].number != 0)
        at = (at + 1) & (map->capacity - 1);
    return &map->slots[at];
}

bool sp_hash_map_reserve(struct sp_hash_map *map, uint32_t count)
{
    if (count <= map->capacity / 2)
        return true;
    unsigned bits = FIRST_BITS;
    while (bits <= MOST_BITS && UINT32_C(1) << bits < (uint64_t)2 * count)
        bits++;
    struct sp_hash_map larger = {map->arena, map->count, UINT32_C(1) << (bits & 31), 64 - bits, NULL};
    larger.slots = bits > MOST_BITS ? NULL : SP_NEW_ARRAY(map->arena, larger.capacity, struct sp_hash_slot);
    if (larger.slots == NULL)
        return false;
    for (uint32_t i = 0; i < map->capacity; i++)
        if (map->slots[i].number != 0)
            *free_slot(&larger, map->slots[i].key) = map->slots[i];
    *map = larger;
    return true;
}

struct sp_hash_slot *sp_hash_map_put(struct sp_hash_map *map, uint64_t key)
{
    struct sp_hash_slot *slot = sp_hash_map_get(map, key);
    if (slot != NULL)
        return slot;
    if (!sp_hash_map_reserve(map, map->count + 1))
        return NULL;
    slot = free_slot(map, key);
    slot->key = key;
    map->count++;
    return slot;
}

void *sp_hash_set_find(const struct sp_hash_map *set, uint64_t digest,
                       bool (*is_equal)(const void *item, const void *key), const void *key)
{
    const struct sp_hash_slot *slot;
    uint32_t at = set->capacity == 0 ? 0 : sp_hash_home(set, digest), compared = 0;
    while (set->capacity != 0 && compared++ < MOST_EQUALS && (slot = sp_hash_next(set, digest, &at)) != NULL)
        if (is_equal(slot->item, key))
            return slot->item;
    return NULL;
}

bool sp_hash_set_add(struct sp_hash_map *set, uint64_t digest, void *item)
{
    if (!sp_hash_map_reserve(set, set->count + 1))
        return false;
    *free_slot(set, digest) = (struct sp_hash_slot){.key = digest, .item = item};
    set->count++;
    return true;
}

/* ---- digests ---------------------------------------------------------------------------------------------------- */

uint64_t sp_digest(const void *bytes, size_t size, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, size, seed);
}

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
