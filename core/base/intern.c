#include "base/intern.h"

#include <assert.h>
#include <string.h>

#include "base/array.h"
#include "base/hash_map.h"

#define FIRST_NAMES 64

/* A name with what is compared before its text: they lie together, so that a lookup touches a slot and the name. */
struct entry {
    void *mark;
    uint32_t size, id;
    char name[];
};

/* The whole hash stands in a slot: other names in the way are passed over without looking at them. */
struct sp_intern {
    uint64_t seed;
    struct sp_hash_map entries;
    SP_ARRAY(const char *) names;
};

struct sp_intern *sp_intern_create(struct sp_arena *arena, uint64_t seed)
{
    struct sp_intern *names = SP_NEW(arena, struct sp_intern);
    if (names == NULL)
        return NULL;
    names->seed = seed;
    names->entries.arena = arena;
    return sp_hash_map_reserve(&names->entries, FIRST_NAMES) ? names : NULL;
}

static struct entry *find(const struct sp_intern *names, const char *bytes, size_t size, uint64_t hash)
{
    const struct sp_hash_slot *slot;
    uint32_t at = sp_hash_home(&names->entries, hash);
    while ((slot = sp_hash_next(&names->entries, hash, &at)) != NULL) {
        struct entry *entry = slot->item;
        if (entry->size == size && (size == 0 || memcmp(entry->name, bytes, size) == 0))
            return entry;
    }
    return NULL;
}

void sp_intern_reserve(struct sp_intern *names, uint32_t count)
{
    if (sp_hash_map_reserve(&names->entries, count))
        (void)SP_RESERVE(names->entries.arena, &names->names, count);
}

static struct entry *insert(struct sp_intern *names, uint64_t hash, const char *bytes, size_t size)
{
    struct sp_arena *arena = names->entries.arena;
    struct entry *entry = size >= UINT32_MAX || !SP_RESERVE(arena, &names->names, names->names.count + 1)
                              ? NULL
                              : sp_arena_alloc(arena, sizeof(struct entry) + size + 1);
    if (entry == NULL || !sp_hash_set_add(&names->entries, hash, entry))
        return NULL;
    entry->size = (uint32_t)size;
    entry->id = names->names.count;
    if (size > 0)
        memcpy(entry->name, bytes, size);
    names->names.items[names->names.count++] = entry->name;
    return entry;
}

static struct entry *add(struct sp_intern *names, const char *bytes, size_t size)
{
    uint64_t hash = sp_digest(bytes, size, names->seed);
    struct entry *entry = find(names, bytes, size, hash);
    return entry != NULL ? entry : insert(names, hash, bytes, size);
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
    const uint64_t hash = sp_digest(bytes, size, names->seed);
    __builtin_prefetch(&names->entries.slots[sp_hash_home(&names->entries, hash)]);
    return hash;
}

void sp_intern_fetch(const struct sp_intern *names, uint64_t hash)
{
    __builtin_prefetch(names->entries.slots[sp_hash_home(&names->entries, hash)].item);
}

const char *sp_intern_lookup(const struct sp_intern *names, uint64_t hash, const char *bytes, size_t size)
{
    const struct entry *entry = find(names, bytes, size, hash);
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
    uint64_t hash = sp_digest(bytes, size, names->seed);
    const struct entry *entry = find(names, bytes, size, hash);
    return entry == NULL ? SP_NO_NAME : entry->id;
}

const char *sp_intern_name(const struct sp_intern *names, uint32_t id)
{
    assert(id < names->names.count);
    return names->names.items[id];
}

uint32_t sp_intern_count(const struct sp_intern *names)
{
    return names->names.count;
}
