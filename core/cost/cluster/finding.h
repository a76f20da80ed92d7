#pragma once
/*
 * finding - what the two halves of sp_cluster_find_levels() share: levels are found (find_levels.c), then measured
 * (measure_levels.c).
 */
#include "cost/cluster/internal.h"

#define SP_NO_CELL UINT32_MAX

/* Vertices: devices by number, then switches, then the parts of all levels of the mesh, then the host. */
struct sp_level_edge {
    uint32_t ends[2];
    double bandwidth, latency; /* the former as it counts when all devices behind the edge send */
    double alone;              /* what one device reaches while the others are silent */
    double share;              /* of `bandwidth`, of one device behind it */
    bool is_direct;            /* between two devices */
};

struct sp_level_finding {
    struct sp_arena *arena;
    const struct sp_cluster_parts *parts;
    uint32_t device_count, vertex_count, edge_count, used_count;
    struct sp_level_edge *edges;
    uint32_t *beneath; /* per vertex: devices that are used */
    /* What is found: levels from the innermost outwards. */
    uint32_t level_count;
    uint32_t *cell[SP_MAX_MESH_AXES]; /* per device: a number of its part */
    struct sp_mesh_level levels[SP_MAX_MESH_AXES];
    bool is_direct[SP_MAX_MESH_AXES];
    uint32_t edge_end[SP_MAX_MESH_AXES]; /* edges of the level and of those inside it */
    double *width;                       /* between two devices, by links: device_count squared */
    uint32_t *rank;                      /* per device: its turn among those of its part */
};

/* The figures of a level whose parts are known, and of those inside it; false without memory. */
bool sp_measure_level(struct sp_level_finding *f, uint32_t level);
