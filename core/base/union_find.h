#pragma once
/*
 * union_find - numbers joined to sets, by a forest: parent[i] is i where i is the root that names its set.
 *
 *     uint32_t *parent = sp_union_find(arena, count); // each alone
 *     if (parent == NULL)
 *         return sp_fail_memory(err);
 *     sp_union_join(parent, a, b);
 *     if (sp_union_root(parent, a) == sp_union_root(parent, c))
 *         ...
 *
 * The caller owns the array and may join by writing parent[root] = other_root. Paths are halved as they are followed,
 * so that n calls take O(n log n) whatever is joined. Only making the forest can fail.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

/* A forest of `count` roots, or NULL without memory. */
static inline uint32_t *sp_union_find(struct sp_arena *arena, uint32_t count)
{
    uint32_t *parent = SP_NEW_ARRAY(arena, count, uint32_t);
    for (uint32_t i = 0; i < count && parent != NULL; i++)
        parent[i] = i;
    return parent;
}

static inline uint32_t sp_union_root(uint32_t *parent, uint32_t item)
{
    while (parent[item] != item) {
        parent[item] = parent[parent[item]];
        item = parent[item];
    }
    return item;
}

/* Joins the sets of two items; the smaller root names both. */
static inline void sp_union_join(uint32_t *parent, uint32_t a, uint32_t b)
{
    a = sp_union_root(parent, a);
    b = sp_union_root(parent, b);
    parent[a > b ? a : b] = a > b ? b : a;
}
