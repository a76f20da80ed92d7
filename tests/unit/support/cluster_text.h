#pragma once
/* What a cluster is written as, and how its devices are numbered. */
#include "cost/cluster/cluster.h"

/* The JSON of sp_cluster_write(), in `arena`. */
const char *cluster_written(struct sp_arena *arena, const struct sp_cluster *cluster);

/* Expects `count` devices, of which device d has the number numbers[d] in the file, and is found by it. */
void cluster_expect_numbers(const struct sp_cluster *cluster, uint32_t count, const uint32_t *numbers);
