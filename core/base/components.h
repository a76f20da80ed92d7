#pragma once
/*
 * components - the strongly connected components of a graph: vertices on a common cycle are in one.
 *
 *     uint32_t *component = SP_NEW_ARRAY(arena, count, uint32_t), components;
 *     if (component == NULL || !sp_components(scratch, &after, count, component, &components))
 *         return sp_fail_memory(err);
 *     if (components == count)
 *         ... no two vertices are on a cycle
 *
 * R. Tarjan's walk (Depth-first search and linear graph algorithms, SIAM J. Comput. 1(2), 1972) with a stack of its own,
 * in time linear in vertices and edges. Components are numbered from 0 as they are finished: those that one leads to
 * come before it.
 */
#include "base/rows.h"

/* Writes the component of each of `count` vertices; after->items are the vertices that edges of a row's vertex lead to.
   False without memory. */
bool sp_components(struct sp_arena *scratch, const struct sp_rows *after, uint32_t count, uint32_t *component,
                   uint32_t *ret_count);
