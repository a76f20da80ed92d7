#include "base/intern.h"

#include <assert.h>
#include <string.h>
#include <xxhash.h>

#define LARGEST_CAPACITY (UINT32_C(1) << 30)

/* A name with what is compared before its text: they lie together, so that a lookup touches a slot and the name. */
struct entry {
    void *mark;
    uint32_t size, id;
    char name[];
};

/* Half of the hash stands beside the pointer: other names in the way are passed over without looking at them. */
struct slot {
    struct entry *entry; /* NULL when free */
    uint64_t hash;
};

/* Open addressing (powers of two, at most half full). Growing leaves the old arrays in the arena: at most as many bytes
   again, and names never move. */
struct sp_intern {
    struct sp_arena *arena;
    uint64_t seed;
    const char **names;
    struct slot *slots;
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
    names->names = SP_NEW_ARRAY(arena, names->capacity, const char *);
    names->slots = SP_NEW_ARRAY(arena, names->slot_count, struct slot);
    return names->names == NULL || names->slots == NULL ? NULL : names;
}

/* The slot that holds this name, or the free slot where it belongs. */
static struct slot *find_slot(const struct sp_intern *names, const char *bytes, size_t size, uint64_t hash)
{
    uint32_t mask = names->slot_count - 1;
    uint32_t at = (uint32_t)hash & mask;
    for (;; at = (at + 1) & mask) {
        struct slot *slot = &names->slots[at];
        if (slot->entry == NULL || (slot->hash == hash && slot->entry->size == size &&
                                    (size == 0 || memcmp(slot->entry->name, bytes, size) == 0)))
            return slot;
    }
}

static int grow(struct sp_intern *names, uint32_t capacity)
{
    const uint32_t slot_count = capacity * 2, mask = slot_count - 1;
    const char **list = SP_NEW_ARRAY(names->arena, capacity, const char *);
    struct slot *slots = SP_NEW_ARRAY(names->arena, slot_count, struct slot);
    if (list == NULL || slots == NULL)
        return -1;
    memcpy(list, names->names, names->count * sizeof *list);
    for (uint32_t i = 0; i < names->slot_count; i++) {
        if (names->slots[i].entry == NULL)
            continue;
        uint32_t at = (uint32_t)names->slots[i].hash & mask;
        while (slots[at].entry != NULL)
            at = (at + 1) & mask;
        slots[at] = names->slots[i];
    }
    names->names = list;
    names->slots = slots;
    names->capacity = capacity;
    names->slot_count = slot_count;
    return 0;
}

void sp_intern_reserve(struct sp_intern *names, uint32_t count)
{
    uint32_t capacity = names->capacity;
    while (capacity < count && capacity <= LARGEST_CAPACITY)
        capacity *= 2;
    if (capacity != names->capacity && capacity <= LARGEST_CAPACITY)
        (void)grow(names, capacity);
}

static struct entry *insert(struct sp_intern *names, uint64_t hash, const char *bytes, size_t size)
{
    if (names->count == names->capacity &&
        (names->capacity >= LARGEST_CAPACITY || grow(names, names->capacity * 2) != 0))
        return NULL;
    struct entry *entry = size >= UINT32_MAX ? NULL : sp_arena_alloc(names->arena, sizeof(struct entry) + size + 1);
    if (entry == NULL)
        return NULL;
    entry->size = (uint32_t)size;
    entry->id = names->count++;
    if (size > 0)
        memcpy(entry->name, bytes, size);
    names->names[entry->id] = entry->name;
    *find_slot(names, bytes, size, hash) = (struct slot){entry, hash};
    return entry;
}

static struct entry *add(struct sp_intern *names, const char *bytes, size_t size)
{
    uint64_t hash = XXH3_64bits_withSeed(bytes, size, names->seed);
    struct slot *slot = find_slot(names, bytes, size, hash);
    return slot->entry != NULL ? slot->entry : insert(names, hash, bytes, size);
}

uint32_t sp_intern_add(struct sp_intern *names, const char *bytes, size_t size)
{
    const struct entry *entry = add(names, bytes, size);
    return entry == NULL ? SP_NO_NAME : entry->id;
}

const char *sp_intern_text(struct sp_intern *names, const char *bytes, size_t size)
{
    const struct entry *entry = add(names, bytes, size);
    return entry == NULL ? NULL : entry->name;
}

uint64_t sp_intern_hash(const struct sp_intern *names, const char *bytes, size_t size)
{
    const uint64_t hash = XXH3_64bits_withSeed(bytes, size, names->seed);
    __builtin_prefetch(&names->slots[(uint32_t)hash & (names->slot_count - 1)]);
    return hash;
}

void sp_intern_fetch(const struct sp_intern *names, uint64_t hash)
{
    __builtin_prefetch(names->slots[(uint32_t)hash & (names->slot_count - 1)].entry);
}

const char *sp_intern_lookup(const struct sp_intern *names, uint64_t hash, const char *bytes, size_t size)
{
    const struct entry *entry = find_slot(names, bytes, size, hash)->entry;
    return entry == NULL ? NULL : entry->name;
}

const char *sp_intern_insert(struct sp_intern *names, uint64_t hash, const char *bytes, size_t size)
{
    const struct entry *entry = insert(names, hash, bytes, size);
    return entry == NULL ? NULL : entry->name;
}

void **sp_intern_mark(const char *name)
{
    struct entry *entry = (struct entry *)(uintptr_t)(name - offsetof(struct entry, name));
    return &entry->mark;
}

uint32_t sp_intern_find(const struct sp_intern *names, const char *bytes, size_t size)
{
    uint64_t hash = XXH3_64bits_withSeed(bytes, size, names->seed);
    const struct slot *slot = find_slot(names, bytes, size, hash);
    return slot->entry == NULL ? SP_NO_NAME : slot->entry->id;
}

const char *sp_intern_name(const struct sp_intern *names, uint32_t id)
{
    assert(id < names->count);
    return names->names[id];
}

uint32_t sp_intern_count(const struct sp_intern *names)
{
    return names->count;
}
