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
                          struct sp_rows *ret_lists)
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
    *ret_lists = (struct sp_rows){by_key, list};
    return true;
}

bool sp_stages_lists_turn(struct sp_arena *arena, const struct sp_rows *lists, uint32_t keys, uint32_t values,
                          struct sp_rows *ret_lists)
{
    uint32_t count = lists->start[keys];
    uint32_t *start = starts(arena, lists->items, count, values);
    uint32_t *list = SP_NEW_ARRAY(arena, count, uint32_t);
    if (start == NULL || list == NULL)
        return false;
    for (uint32_t key = 0; key < keys; key++)
        for (uint32_t i = lists->start[key]; i < lists->start[key + 1]; i++)
            list[start[lists->items[i] + 1]++] = key;
    *ret_lists = (struct sp_rows){start, list};
    return true;
}
