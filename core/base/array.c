#include "base/array.h"

#include <stdlib.h>
#include <string.h>

#include "base/shortage.h"

#define FIRST_BYTES 64 /* that a first place has, unless one item is larger */

void *sp_array_grown(struct sp_arena *arena, const void *items, size_t count, uint32_t *capacity, size_t wanted,
                     size_t size)
{
    void *same = (void *)(uintptr_t)items;
    const size_t first = size < FIRST_BYTES ? FIRST_BYTES / size : 1, doubled = 2 * (size_t)*capacity;
    size_t larger = doubled > first ? doubled : first;
    larger = larger > wanted ? larger : wanted;
    larger = larger > UINT32_MAX ? UINT32_MAX : larger;
    if (wanted > larger)
        return same;
    void *moved = arena != NULL ? sp_arena_array(arena, larger, size) : reallocarray(same, larger, size);
    if (moved == NULL) {
        if (arena == NULL)
            sp_shortage_note();
        return same;
    }
    if (arena != NULL && count > 0)
        memcpy(moved, items, count * size);
    *capacity = (uint32_t)larger;
    return moved;
}
