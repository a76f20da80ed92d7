#pragma once
/*
 * ways - which switches lie between two devices of a cluster that states its switches.
 *
 * What one device sends another goes up from one switch to the next and down again, the widest such way; of equally
 * wide ones that over the first switch. A link between the two that is as wide passes none.
 */
#include "cost/cluster/cluster.h"

/* Room for one way. */
struct sp_cluster_ways {
    double *width[2];   /* per switch: up to it from either device */
    uint32_t *from[2];  /* per switch: the member that this way comes from */
    uint32_t *switches; /* of the way, each once */
};

uint32_t sp_cluster_switch_count(const struct sp_cluster *cluster);
double sp_cluster_switch_bandwidth(const struct sp_cluster *cluster, uint32_t index);

/* False without memory. */
bool sp_cluster_ways_create(struct sp_arena *arena, const struct sp_cluster *cluster, struct sp_cluster_ways *ret_ways);

/* The way between two different devices: how many switches, which are in ways->switches. */
uint32_t sp_cluster_way(const struct sp_cluster *cluster, uint32_t a, uint32_t b, struct sp_cluster_ways *ways);
