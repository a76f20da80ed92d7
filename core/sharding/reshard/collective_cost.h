#pragma once
/*
 * collective_cost - how long a collective takes on a hierarchy of links.
 *
 * Alpha-beta model: a message costs the latency (alpha) of its link level and its bytes over the level's bandwidth (per
 * device and direction). A group of p devices is described by how many of them differ at each level, outermost first:
 * span = [2, 4] are 8 devices, 4 in each of 2 nodes. Its time is the least of
 *   ring     all p devices in one ring, at the slowest level that they span
 *   tree     the logarithmic algorithms (recursive doubling, halving; double binary tree for all-reduce)
 *   levels   one level after the other: all-gather outermost level first, reduce-scatter innermost first, an all-reduce
 *            as reduce-scatter inwards, all-reduce on the outermost, all-gather outwards
 * The slowest level has the largest latency and the smallest bandwidth of all that the group spans; a send goes over
 * the outermost level at which the two devices differ.
 *
 * Formulas, with p ranks, n bytes of the whole gathered or reduced value, a the latency and B the bandwidth:
 *
 *   all-reduce      ring  2 (p-1) a + 2 (p-1)/p n/B
 *                   tree  2 ceil(log2 p) a + 2 (p-1)/p n/B    (halving and doubling)
 *   reduce-scatter, ring  (p-1) a + (p-1)/p n/B
 *   all-gather      tree  ceil(log2 p) a + (p-1)/p n/B
 *   all-to-all      (p-1) a + (p-1)/p^2 n/B                   (direct; each rank holds n/p)
 *   send            a + bytes/B
 *
 * Sources: Thakur, Rabenseifner, Gropp 2005 (optimization of collective communication in MPICH); Patarasuk, Yuan 2009.
 */
#include <stdint.h>

struct sp_mesh_level {
    const char *name;
    uint32_t size;
    double bandwidth; /* bytes per second, per device and direction */
    double latency;   /* seconds */
};

/* The levels of a cluster, outermost first; the devices are numbered row-major over them. */
struct sp_links {
    uint32_t level_count;
    const struct sp_mesh_level *levels;
};

enum sp_collective {
    SP_ALL_SLICE = 0, /* no communication */
    SP_ALL_GATHER,
    SP_ALL_TO_ALL,
    SP_COLLECTIVE_PERMUTE,
    SP_ALL_REDUCE,
    SP_REDUCE_SCATTER,
    SP_SEND_RECEIVE,
    SP_TO_PARTIAL, /* no communication: one replica keeps the value, the others take the combiner's neutral element */
    SP_COLLECTIVE_COUNT
};

/* "all-gather", "all-slice", ..; static. */
const char *sp_collective_name(enum sp_collective kind);

/*
 * Seconds of ALL_GATHER, ALL_TO_ALL, ALL_REDUCE, REDUCE_SCATTER among the devices of one group, all groups at once.
 * `span` has links->level_count entries >= 1; their product is p; 0 seconds for p = 1. `bytes` is n above.
 */
double sp_collective_seconds(const struct sp_links *links, enum sp_collective kind, const uint32_t *span, double bytes);

/* seconds = fixed + slope * bytes, of one algorithm. */
struct sp_collective_line {
    double fixed, slope;
};
#define SP_COLLECTIVE_LINES 3

/* The algorithms of such a collective, for a search that asks for many sizes; the time is the least of them. Returns
   how many there are, 0 for a group of one device and for kinds without groups. */
uint32_t sp_collective_lines(const struct sp_links *links, enum sp_collective kind, const uint32_t *span,
                             struct sp_collective_line ret_lines[SP_COLLECTIVE_LINES]);

/* Bytes that each device sends: (p-1)/p n, 2(p-1)/p n for ALL_REDUCE, (p-1)/p^2 n for ALL_TO_ALL. */
double sp_collective_bytes(enum sp_collective kind, double devices, double bytes);

/* The outermost level at which two device numbers differ, level_count when they are equal. Devices beyond the levels'
   product are far away: level 0. */
uint32_t sp_links_between(const struct sp_links *links, int64_t a, int64_t b);
