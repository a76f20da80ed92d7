#pragma once
/*
 * cut - minimum cuts of a network, for lower bounds.
 *
 * Vertices 0 and 1 are the source and the sink. A network is built once; its capacities may be changed between cuts.
 * The cut is found by Dinic's algorithm with an explicit path. Capacities are not negative; INFINITY is allowed.
 */
#include "base/arena.h"

#define SP_CUT_SOURCE 0
#define SP_CUT_SINK   1

struct sp_cut {
    uint32_t vertex_count, vertex_room, arc_count, arc_room; /* arcs in pairs: i and its reverse i ^ 1 */
    uint32_t *head, *next;                                   /* per vertex its last arc, per arc the one before */
    uint32_t *to;
    double *capacity, *left;            /* as set, and during a cut */
    uint32_t *level, *at, *path, *line; /* scratch */
    uint64_t work;                      /* arcs looked at, summed over all cuts */
};

/* NULL without memory. */
struct sp_cut *sp_cut_create(struct sp_arena *arena, uint32_t vertex_room, uint32_t pair_room);

/* A new vertex; source and sink exist. There is room. */
uint32_t sp_cut_vertex(struct sp_cut *cut);

/* A pair of arcs from a to b and back with their capacities; returns the number of the first, of which `capacity` may
   be set anew. There is room. */
uint32_t sp_cut_arc(struct sp_cut *cut, uint32_t a, uint32_t b, double forth, double back);

/* The capacity of the smallest cut, or `enough` or more as soon as that is certain. */
double sp_cut_value(struct sp_cut *cut, double enough);
