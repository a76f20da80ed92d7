#include <string.h>

#include "solvers/stages/lists.h"

bool sp_stages_pairs_init(struct sp_arena *arena, struct sp_stages_pairs *pairs, size_t room)
{
    *pairs = (struct sp_stages_pairs){.room = room};
    pairs->key = SP_NEW_ARRAY(arena, room, uint32_t);
    pairs->value = SP_NEW_ARRAY(arena, room, uint32_t);
    return pairs->key != NULL && pairs->value != NULL;
}

/* Where the items of each key begin when pairs are sorted by key; NULL without memory. */
static uint32_t *starts(struct sp_arena *arena, const uint32_t *key, size_t count, uint32_t keys)
{
    uint32_t *start = SP_NEW_ARRAY(arena, (size_t)keys + 2, uint32_t);
    if (start == NULL)
        return NULL;
    for (size_t i = 0; i < count; i++)
        start[key[i] + 2]++;
    for (size_t i = 2; i < (size_t)keys + 2; i++)
        start[i] += start[i - 1];
    return start; /* shifted by one: start[key + 1] moves on to the key's end while the list is filled */
}

bool sp_stages_lists_make(struct sp_arena *arena, const struct sp_stages_pairs *pairs, uint32_t keys, uint32_t values,
                          struct sp_stages_lists *ret_lists)
{
    size_t count = pairs->count;
    uint32_t *by_value = starts(arena, pairs->value, count, values);
    uint32_t *by_key = starts(arena, pairs->key, count, keys);
    uint32_t *sorted = SP_NEW_ARRAY(arena, count, uint32_t);
    uint32_t *list = SP_NEW_ARRAY(arena, count, uint32_t);
    if (by_value == NULL || by_key == NULL || sorted == NULL || list == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        sorted[by_value[pairs->value[i] + 1]++] = (uint32_t)i;
    /* Values come ascending, so the same one twice comes one after the other: it is dropped, and the starts are those
       of what is left. */
    for (size_t i = 0; i < count; i++) {
        uint32_t pair = sorted[i];
        list[by_key[pairs->key[pair] + 1]++] = pairs->value[pair];
    }
    uint32_t kept = 0;
    for (uint32_t key = 0, from = 0; key < keys; key++) {
        uint32_t end = by_key[key + 1], first = kept;
        by_key[key] = kept;
        for (; from < end; from++)
            if (kept == first || list[kept - 1] != list[from])
                list[kept++] = list[from];
    }
    by_key[keys] = kept;
    *ret_lists = (struct sp_stages_lists){by_key, list};
    return true;
}

bool sp_stages_lists_turn(struct sp_arena *arena, const struct sp_stages_lists *lists, uint32_t keys, uint32_t values,
                          struct sp_stages_lists *ret_lists)
{
    uint32_t count = lists->start[keys];
    uint32_t *start = starts(arena, lists->list, count, values);
    uint32_t *list = SP_NEW_ARRAY(arena, count, uint32_t);
    if (start == NULL || list == NULL)
        return false;
    for (uint32_t key = 0; key < keys; key++)
        for (uint32_t i = lists->start[key]; i < lists->start[key + 1]; i++)
            list[start[lists->list[i] + 1]++] = key;
    *ret_lists = (struct sp_stages_lists){start, list};
    return true;
}

/* Tarjan's walk with a stack of its own. */
struct walk {
    const struct sp_stages_lists *after;
    uint32_t *number, *low, *component; /* number 0: not seen */
    uint32_t *path, *next;              /* items under way, and how far each has looked */
    uint32_t *open;                     /* seen, and without component */
    uint32_t path_count, open_count, seen, components;
};

static void enter(struct walk *walk, uint32_t item)
{
    walk->number[item] = walk->low[item] = ++walk->seen;
    walk->next[item] = walk->after->start[item];
    walk->path[walk->path_count++] = item;
    walk->open[walk->open_count++] = item;
}

static void leave(struct walk *walk, uint32_t item)
{
    walk->path_count--;
    if (walk->low[item] == walk->number[item]) {
        uint32_t member;
        do {
            member = walk->open[--walk->open_count];
            walk->component[member] = walk->components;
        } while (member != item);
        walk->components++;
    }
    if (walk->path_count > 0) {
        uint32_t above = walk->path[walk->path_count - 1];
        if (walk->low[item] < walk->low[above])
            walk->low[above] = walk->low[item];
    }
}

bool sp_stages_components(struct sp_arena *scratch, const struct sp_stages_lists *after, uint32_t count,
                          uint32_t *component, uint32_t *ret_count)
{
    struct walk walk = {.after = after, .component = component};
    walk.number = SP_NEW_ARRAY(scratch, count, uint32_t);
    walk.low = SP_NEW_ARRAY(scratch, count, uint32_t);
    walk.path = SP_NEW_ARRAY(scratch, count, uint32_t);
    walk.next = SP_NEW_ARRAY(scratch, count, uint32_t);
    walk.open = SP_NEW_ARRAY(scratch, count, uint32_t);
    if (walk.number == NULL || walk.low == NULL || walk.path == NULL || walk.next == NULL || walk.open == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++)
        component[i] = UINT32_MAX;
    for (uint32_t root = 0; root < count; root++) {
        if (walk.number[root] != 0)
            continue;
        enter(&walk, root);
        while (walk.path_count > 0) {
            uint32_t item = walk.path[walk.path_count - 1];
            if (walk.next[item] == after->start[item + 1]) {
                leave(&walk, item);
                continue;
            }
            uint32_t other = after->list[walk.next[item]++];
            if (walk.number[other] == 0)
                enter(&walk, other);
            else if (component[other] == UINT32_MAX && walk.number[other] < walk.low[item])
                walk.low[item] = walk.number[other];
        }
    }
    *ret_count = walk.components;
    return true;
}
