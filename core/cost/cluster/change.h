#pragma once
/*
 * change - the same cluster with one thing changed, for questions that begin with "what if".
 *
 * Devices that stay keep their numbers and their links wherever that can be said, so that a plan for the one cluster
 * can be read as a plan for the other:
 *
 *  one more    It gets the last number. Where the mesh is full, one level grows by one: the outermost that has more
 *              than one part, for the others cannot grow without moving devices. The new device is the only one in
 *              that new part: [{node,2},{gpu,8}] becomes [{node,3},{gpu,8}] with 17 devices, and of
 *              [{node,1},{gpu,8}] the 9 devices are in one node. A mesh that is used in part has room. A device of a
 *              group that is not the last becomes a group of its own at the end.
 *  one fewer   The last of a group. Those behind it move up by one, so this is possible for the last group, and for
 *              any where there is only one level of links: all have the same links there.
 *  figures     Times as large, for all devices or one level of links; numbers stay.
 *
 * Everything else is shared with the given cluster, which must outlive the new one. NULL: without memory.
 */
#include "cost/cluster/cluster.h"

/* The level that grows for one more device; level_count: none has to. */
uint32_t sp_cluster_growing_level(const struct sp_cluster *cluster);

/* Whether one more device of a group's kind can be said: there are not too many, and it would have a link. */
bool sp_cluster_can_grow(const struct sp_cluster *cluster, uint32_t group);
struct sp_cluster *sp_cluster_one_more(struct sp_arena *arena, const struct sp_cluster *cluster, uint32_t group);

/* Whether the last device of a group can be left out without moving others in the links, and another one stays. */
bool sp_cluster_can_shrink(const struct sp_cluster *cluster, uint32_t group);
struct sp_cluster *sp_cluster_one_fewer(struct sp_arena *arena, const struct sp_cluster *cluster, uint32_t group);

/* The number of a group's last device. */
uint32_t sp_cluster_last_device(const struct sp_cluster *cluster, uint32_t group);

/* One level's bandwidth, times `factor`; its latency stays. */
struct sp_cluster *sp_cluster_scale_link(struct sp_arena *arena, const struct sp_cluster *cluster, uint32_t level,
                                         double factor);

/* What a device has, times these; a limit on memory is scaled with the memory. */
struct sp_cluster_scale {
    double memory;    /* bytes */
    double compute;   /* FLOPs and functions per second */
    double bandwidth; /* of memory, permuted elements included */
};
struct sp_cluster *sp_cluster_scale(struct sp_arena *arena, const struct sp_cluster *cluster,
                                    const struct sp_cluster_scale *scale);
