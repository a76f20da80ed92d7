#pragma once
/*
 * placement_record - what a plan is made of, without how it was found: which stages there are, where each node runs,
 * and how it is split.
 *
 * A search may take long, and one that was ended early cannot be repeated. A record can be evaluated again in no
 * time, and gives what the search gave but for what it says of itself: bounds, the front, what it explored.
 *
 * Strategies are numbers in the tables of the stages' meshes, which are made from workload and cluster alone; so an
 * record fits the version of this library that made it, and who reads one compares the estimate.
 */
#include "search/joint/joint.h"

struct sp_placement_record_stage {
    uint32_t device, size, replicas; /* the first device; of one block; blocks */
    uint32_t axis_count;             /* 0: blocks of one device */
    uint32_t axes[SP_STRATEGY_AXES]; /* of the block's mesh, major to minor */
    uint32_t share_count;            /* of unequal devices: `size`, and one axis; else 0 */
    uint32_t shares[SP_STRATEGY_MEMBERS];
};

struct sp_placement_record {
    uint32_t stage_count;
    const struct sp_placement_record_stage *stages;
    uint32_t copies;                        /* beside the stages: of all of them */
    const uint32_t *copy_device;            /* per copy, per stage: the first device */
    uint32_t route_count;                   /* 0: `stages` are all that there is */
    struct sp_route *routes;                /* the first one has the stages */
    const uint32_t *stage_of, *strategy_of; /* per node of the workload; 0 where a node is folded or whole */
    /* Per node its strategy in a table of an equal mesh, of other devices or links, where numbers may be others: in place
       of strategy_of; NULL for a node that has none. NULL: numbers are meant. */
    const struct sp_strategy *const *strategies;
};

/* What the record is of. */
struct sp_recorded_problem {
    const struct sp_workload *workload;
    const struct sp_dataflow *dataflow; /* NULL: no operator can be split */
    const struct sp_cluster *cluster;
};

/* What the search would have answered. A record may be anything: SP_ERR_REQUEST "OTHER_PLAN" where it does not fit
   workload and cluster. The result lives in `arena`; sp_search_result_release() as for a search. */
enum sp_status sp_joint_from_record(struct sp_arena *arena, const struct sp_recorded_problem *problem,
                                    const struct sp_placement_record *record, const struct sp_watch *watch,
                                    struct sp_search_result **ret_result, struct sp_error *err);
