#include "base/intern.h"

#include <assert.h>
#include <string.h>
#include <xxhash.h>

struct entry {
    const char *name;
    size_t size;
    uint64_t hash;
};

/* Open addressing over `slots` (powers of two, at most half full) into the dense `entries`. Growing leaves the old
   arrays in the arena: at most as many bytes again, and names never move. */
struct sp_intern {
    struct sp_arena *arena;
    uint64_t seed;
    struct entry *entries;
    uint32_t *slots; /* id + 1, 0 when free */
    uint32_t count, capacity, slot_count;
};

struct sp_intern *sp_intern_create(struct sp_arena *arena, uint64_t seed)
{
    struct sp_intern *names = SP_NEW(arena, struct sp_intern);
    if (names == NULL)
        return NULL;
    names->arena = arena;
    names->seed = seed;
    names->capacity = 64;
    names->slot_count = 128;
    names->entries = SP_NEW_ARRAY(arena, names->capacity, struct entry);
    names->slots = SP_NEW_ARRAY(arena, names->slot_count, uint32_t);
    return names->entries == NULL || names->slots == NULL ? NULL : names;
}

/* The slot that holds this name, or the free slot where it belongs. */
static uint32_t find_slot(const struct sp_intern *names, const char *bytes, size_t size, uint64_t hash)
{
    uint32_t mask = names->slot_count - 1;
    uint32_t slot = (uint32_t)hash & mask;
    while (names->slots[slot] != 0) {
        const struct entry *entry = &names->entries[names->slots[slot] - 1];
        if (entry->hash == hash && entry->size == size && (size == 0 || memcmp(entry->name, bytes, size) == 0))
            break;
        slot = (slot + 1) & mask;
    }
    return slot;
}

static int grow(struct sp_intern *names)
{
    if (names->capacity > UINT32_MAX / 4)
        return -1;
    uint32_t capacity = names->capacity * 2, slot_count = names->slot_count * 2;
    struct entry *entries = SP_NEW_ARRAY(names->arena, capacity, struct entry);
    uint32_t *slots = SP_NEW_ARRAY(names->arena, slot_count, uint32_t);
    if (entries == NULL || slots == NULL)
        return -1;
    memcpy(entries, names->entries, names->count * sizeof *entries);
    for (uint32_t id = 0; id < names->count; id++) {
        uint32_t slot = (uint32_t)entries[id].hash & (slot_count - 1);
        while (slots[slot] != 0)
            slot = (slot + 1) & (slot_count - 1);
        slots[slot] = id + 1;
    }
    names->entries = entries;
    names->slots = slots;
    names->capacity = capacity;
    names->slot_count = slot_count;
    return 0;
}

uint32_t sp_intern_add(struct sp_intern *names, const char *bytes, size_t size)
{
    uint64_t hash = XXH3_64bits_withSeed(bytes, size, names->seed);
    uint32_t slot = find_slot(names, bytes, size, hash);
    if (names->slots[slot] != 0)
        return names->slots[slot] - 1;
    if (names->count == names->capacity) {
        if (grow(names) != 0)
            return SP_NO_NAME;
        slot = find_slot(names, bytes, size, hash);
    }
    char *name = sp_arena_string(names->arena, bytes, size);
    if (name == NULL)
        return SP_NO_NAME;
    uint32_t id = names->count++;
    names->entries[id] = (struct entry){name, size, hash};
    names->slots[slot] = id + 1;
    return id;
}

uint32_t sp_intern_find(const struct sp_intern *names, const char *bytes, size_t size)
{
    uint64_t hash = XXH3_64bits_withSeed(bytes, size, names->seed);
    uint32_t slot = find_slot(names, bytes, size, hash);
    return names->slots[slot] == 0 ? SP_NO_NAME : names->slots[slot] - 1;
}

const char *sp_intern_name(const struct sp_intern *names, uint32_t id)
{
    assert(id < names->count);
    return names->entries[id].name;
}

uint32_t sp_intern_count(const struct sp_intern *names)
{
    return names->count;
}
