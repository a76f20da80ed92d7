#pragma once
/*
 * random_worlds - tiny models on tiny clusters, and the same clusters with one thing changed.
 *
 * Models are products with weights [WORLD_EXTENT, WORLD_EXTENT], and now and then an elementwise operator. All is drawn
 * from one sequence of numbers, world_below().
 */
#include "build_model.h"
#include "infer/dataflow.h"
#include "search/joint/joint.h"
#include "search/joint/stage_options.h"

#define WORLD_NODES   4
#define WORLD_DEVICES 4
#define WORLD_EXTENT  12

void world_seed(uint64_t seed);
/* The next number of the sequence, below `bound`. */
uint32_t world_below(uint32_t bound);

/* A model on a cluster. */
struct world {
    struct sp_arena *arena;
    struct sp_cluster *cluster;
    struct sp_workload *workload;
    struct sp_dataflow *dataflow;
    struct sp_space *space;
    struct sp_strategy_table *tables[SP_SPACE_MAX_OPTIONS + SP_SPACE_MAX_MESHES];
    uint32_t live[WORLD_NODES], live_count;
};

/* The figures of a cluster, so that one of them can be another. */
struct figures {
    uint32_t devices, others; /* the last of them of the second type */
    double memory, other_memory, flops, other_flops, link, outer, latency, bandwidth;
    bool has_levels; /* 2 x 2 */
};

void world_model(struct build *build, uint32_t nodes);
struct figures world_figures(void);
/* One thing is another: devices fewer or more, links, memory; or nothing is. */
struct figures world_changed(struct figures f);
void world_open(struct world *w, struct build *build, const struct figures *figures);
void world_close(struct world *w);
