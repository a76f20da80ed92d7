#pragma once
/*
 * constraints - what the user demands of a plan, in terms of a workload.
 *
 * The search keeps all of them or refuses. They are read from JSON by plan/request/constraints.h.
 *
 *   max_stages       a pipeline of at most so many stages
 *   max_latency      one request takes no longer
 *   reserved_bytes   of each device's memory, for others
 *   cache            keys and values are kept (cost/cache.h): the workload's nodes have them as resident_bytes
 *   stage pins       a node is in this stage of the pipeline
 *   device pins      a node runs on this device (among others, where its stage has several)
 *   together         nodes are in one stage
 *   splits           a tensor is cut in so many shards along each axis wherever it is made and used
 *   forbidden        a node is not split; a tensor's axis is not cut; operators are not split across a level of links
 */
#include "search/joint/stage_options.h"

#define SP_UNPINNED UINT32_MAX

/* Exactly these shards along each axis (1: whole), or with `is_forbidden` only: axis `axis` is whole. */
struct sp_split_pin {
    uint32_t tensor;
    bool is_forbidden;
    uint32_t axis, rank;
    const int64_t *shards; /* NULL where is_forbidden */
    const char *where;     /* JSON pointer of the demand, for messages */
};

struct sp_constraints {
    const char *where;          /* JSON pointer of them all, for messages; NULL: none */
    uint32_t max_stages;        /* 0: any number */
    double max_latency_seconds; /* 0: any */
    double reserved_bytes;
    const char *cache_member; /* of the demand that gave the workload's nodes their resident_bytes; NULL: none */
    const uint32_t *stage_of, *device_of; /* per work node, SP_UNPINNED; NULL: no pins */
    const uint32_t *together_of;          /* per work node: the number of its group, SP_UNPINNED; NULL */
    uint32_t together_count;
    const bool *is_whole; /* per work node: it may not be split; NULL */
    uint32_t split_count, level_count;
    const struct sp_split_pin *splits;                    /* ascending by tensor */
    const char *const *levels;                            /* names of levels that blocks may not span */
    const char *const *stage_where, *const *device_where; /* per work node: JSON pointer of its pin; NULL */
};

/* Whether a strategy of a node keeps the splits and is_whole. */
bool sp_constraints_allow(const struct sp_constraints *constraints, const struct sp_workload *workload,
                          const struct sp_strategy_table *table, const struct sp_strategy_mesh *mesh, uint32_t node,
                          const struct sp_strategies *strategies, uint32_t strategy);

/* Whether the splits are kept where the node runs on one device. */
bool sp_constraints_allow_whole(const struct sp_constraints *constraints, const struct sp_workload *workload,
                                uint32_t node);

/* Contradictions that can be seen before any search: a pinned node before its producer's pinned stage, pins of one
   group that differ, more stages than allowed or than there are devices, a device that cannot run what is pinned to it. SP_ERR_REQUEST "CONSTRAINT_CONFLICT"; the message names both demands by their JSON pointers. */
enum sp_status sp_constraints_check(struct sp_arena *scratch, const struct sp_constraints *constraints,
                                    const struct sp_workload *workload, const struct sp_cluster *cluster,
                                    struct sp_error *err);
