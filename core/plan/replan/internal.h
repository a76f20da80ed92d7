#pragma once
/* internal - what the sources of replan share. */
#include "plan/replan/replan.h"

/* A plan that may be the answer. */
struct sp_replan_plan {
    const struct sp_placement *placement; /* of the workload, not of its contraction */
    struct sp_sharded_stage *sharded;     /* or NULL */
    const struct sp_routed *routes;       /* or NULL */
    struct sp_evaluation *evaluation;
    enum sp_search_strategy strategy;
    uint32_t devices_used;
    enum sp_replan_choice choice;
    struct sp_search_result *owner; /* of its tables, where no search made it; else NULL */
    double value;                   /* what the objective minimises */
    double seconds, bytes;          /* to get there */
    double score;                   /* value (h + T) */
};

#define SP_REPLAN_KEPT          64 /* plans of the search that are remembered */
#define SP_REPLAN_REPAIRED_MOST 24

struct sp_replan {
    struct sp_arena *arena; /* of its own: the search's is rolled back */
    struct sp_replanned of;
    const struct sp_past *past;
    const struct sp_replan_terms *terms;
    const uint32_t *map; /* per device of before which one it is now, or SP_NO_HOLDER: lost; NULL: free */
    struct sp_plan_listener listener;
    struct sp_box_memory *boxes;
    struct sp_weight_parts before;
    struct sp_moving moving;
    double best_score;
    uint32_t count;
    struct sp_replan_plan plans[SP_REPLAN_KEPT];
};

/* Fills in value, seconds, bytes and score. SP_ERR_MEMORY. */
enum sp_status sp_replan_weigh(struct sp_replan *replan, struct sp_replan_plan *plan, struct sp_error *err);

/* ---- repair.c --------------------------------------------------------------------------------------------------- */

/* The plan of before, where all that it uses are there and it fits: the first of ret_plans, or none; and what it can be
   repaired to. They are not weighed. ret_plans has room for SP_REPLAN_REPAIRED_MOST + 1. */
enum sp_status sp_replan_repair(struct sp_replan *replan, struct sp_replan_plan *ret_plans, uint32_t *ret_count,
                                struct sp_error *err);
