#pragma once
/*
 * gather - how quickly parts of a graph of links can tell each other what they have.
 *
 * In an all-gather each of k parts sends what it has to all others, along trees that share the links. What such trees
 * reach at best is known (Zhao, Maurya, Krishnamurthy et al. 2024, ForestColl; from Edmonds 1973, edge-disjoint
 * branchings): the rate x of each part is the largest for which k x can flow from all parts, x of each, to any one. The
 * rate is found from above: a cut that is too narrow says how much has to be taken off.
 */
#include "base/arena.h"

struct sp_gather_edge {
    uint32_t ends[2];
    double bandwidth; /* bytes per second in each direction */
};

/* Vertices 0 .. parts - 1 have something to tell, the others up to vertex_count only pass it on. Returns (k - 1) x,
   what each part receives in a second; 0 where a part cannot be reached, below 0 without memory. */
double sp_gather_bandwidth(struct sp_arena *arena, uint32_t parts, uint32_t vertex_count, uint32_t edge_count,
                           const struct sp_gather_edge *edges);
