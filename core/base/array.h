#pragma once
/*
 * array - arrays that grow.
 *
 * An array is three members: `items`, `count` of them that are used, and the `capacity` that there is memory for. A full
 * one moves to a place of twice the size, so that pushing n items copies fewer than 2 n, and what it leaves behind in the
 * arena is less than it has. A zeroed array is an empty one, and needs no initialisation and no release.
 *
 *     SP_ARRAY(struct edge) edges = {0};
 *     if (!SP_PUSH(arena, &edges, (struct edge){from, to}))
 *         return sp_fail_memory(err);
 *     for (uint32_t i = 0; i < edges.count; i++)
 *         visit(&edges.items[i]);
 *
 * Invariants
 *  - A push that fails, because the arena's budget refuses it or a count passes UINT32_MAX, leaves the array as it was.
 *  - Growing moves items: pointers to them are good until the next push.
 *  - What an item holds before it is written is not said: a popped one (count--) leaves its bytes.
 *
 * With NULL for the arena the items are the heap's: the owner of the array frees them, and no budget counts them. That is
 * for what outlives the job that makes it.
 *
 * Why our own: utarray calls exit(-1) when realloc() gives nothing, stb_ds writes through the NULL that it got, and
 * neither hands its allocator the arena whose budget has to count the bytes.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

/* The members of an array of `type`, for a variable or a member of a struct. */
#define SP_ARRAY(type)                                                                                                 \
    struct {                                                                                                           \
        type *items;                                                                                                   \
        uint32_t count, capacity;                                                                                      \
    }

/* The items, moved to where `wanted` of them fit, and *capacity set to as many or more; where they fit already or there
   is no memory, the items as they are. For the macros below. */
void *sp_array_grown(struct sp_arena *arena, const void *items, size_t count, uint32_t *capacity, size_t wanted,
                     size_t size);

/* Whether there is room for `more` items behind the first `count`, for arrays whose members have names of their own.
   Arguments are evaluated several times. */
#define SP_MAKE_ROOM(arena, items, count, capacity, more)                                                              \
    ((size_t)(capacity) - (count) >= (more) ||                                                                         \
     ((items) = sp_array_grown((arena), (items), (count), &(capacity), (size_t)(count) + (more), sizeof *(items)),     \
      (size_t)(capacity) - (count) >= (more)))

/* Whether there is a place for item `index`, for arrays that are filled in no order: in an arena, those that nothing was
   put into are zero. */
#define SP_MAKE_PLACE(arena, items, capacity, index)                                                                   \
    ((index) < (capacity) ||                                                                                           \
     ((items) = sp_array_grown((arena), (items), (capacity), &(capacity), (size_t)(index) + 1, sizeof *(items)),       \
      (index) < (capacity)))

/* Whether `array`, a pointer to one, has room for `wanted` items. */
#define SP_RESERVE(arena, array, wanted)                                                                               \
    ((array)->capacity >= (wanted) ||                                                                                  \
     SP_MAKE_ROOM((arena), (array)->items, (array)->count, (array)->capacity, (size_t)(wanted) - (array)->count))

/* Puts an item at the end; false without memory. */
#define SP_PUSH(arena, array, ...)                                                                                     \
    (SP_MAKE_ROOM((arena), (array)->items, (array)->count, (array)->capacity, 1) &&                                    \
     ((array)->items[(array)->count] = (__VA_ARGS__), (array)->count++, true))
