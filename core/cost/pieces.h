#pragma once
/*
 * pieces - any set of nodes on each device, as stages that share devices (evaluate.h).
 *
 * A set is cut into *pieces*, each of which a device can run in one go: the graph of pieces has no cycle. A device runs
 * all of its nodes that need nothing more from other devices; the next device is one that comes to its end with that,
 * else the one that gets furthest. Where the graph of devices has no cycle, each device has one piece. The fewest
 * pieces are hard to find otherwise; these are few.
 */
#include "cost/evaluate.h"

/* `device_of` per node; folded ones get stage 0. Where each device has one piece, devices are not shared. In `arena`;
   NULL without memory. */
struct sp_placement *sp_pieces_cut(struct sp_arena *arena, const struct sp_workload *workload,
                                   const struct sp_cluster *cluster, const uint32_t *device_of);
