#pragma once
/* random_shardings - meshes, shardings, shapes and links by seed, for the programs that try thousands of them. */
#include "sharding/reshard/collective_cost.h"
#include "sharding/sharding.h"

struct random {
    uint64_t state;
};

uint64_t random_next(struct random *random);
/* 0 .. count - 1. */
uint64_t random_below(struct random *random, uint64_t count);
/* True so many times in a hundred. */
bool random_chance(struct random *random, uint32_t percent);

struct random_mesh_options {
    int64_t max_devices;
    uint32_t max_axes;
    uint32_t permuted; /* percent of meshes whose devices are in another order */
};
/* Ends the program when memory runs out or the library refuses what is legal. */
struct sp_mesh *random_mesh(struct sp_arena *arena, struct random *random, const struct random_mesh_options *options);

struct random_sharding_options {
    uint32_t sub_axes; /* percent of axes that are cut */
    uint32_t partial;  /* percent of shardings with partial axes */
    uint32_t explicit; /* percent of unused parts that are replicated explicitly */
    uint32_t open;     /* percent of open dims; priorities go with them */
};
/* An AXES sharding that sp_sharding_check() accepts. */
struct sp_sharding *random_sharding(struct sp_arena *arena, struct random *random, const struct sp_mesh *mesh,
                                    uint32_t rank, const struct random_sharding_options *options);

/* 1 to 3 link levels whose sizes multiply to `devices`; latencies and bandwidths over some orders of magnitude, and so
   is what the host adds to collectives, in some cases. */
void random_links(struct random *random, int64_t devices, struct sp_mesh_level levels[3], struct sp_links *ret_links);
