#pragma once
/*
 * every_plan - every plan there is for a tiny model on a tiny cluster: all placements of nodes in stages, all blocks
 * wherever they may stand, all strategies of all operators, each evaluated on its own.
 */
#include <math.h>

#include "build_model.h"
#include "infer/dataflow.h"
#include "search/constraints.h"
#include "search/joint/evaluate.h"
#include "search/joint/joint.h"

#define MAX_STAGES      4
#define MOST_NODES      7     /* that run */
#define MOST_PLANS      60000 /* of one problem; larger ones are made smaller */
#define MOST_WORK_NODES (2 * MOST_NODES)

struct problem {
    struct build build;
    struct sp_arena *arena;
    struct sp_cluster *cluster;
    struct sp_workload *workload;
    struct sp_dataflow *dataflow;
    struct sp_space *space;
    struct sp_strategy_table *tables[SP_SPACE_MAX_OPTIONS + SP_SPACE_MAX_MESHES];
    uint32_t live[MOST_WORK_NODES], live_count;
    struct sp_joint_options options;
    struct sp_constraints constraints; /* of problems with pins */
    uint32_t stage_of[MOST_WORK_NODES], device_of[MOST_WORK_NODES], together_of[MOST_WORK_NODES];
    const char *where[MOST_WORK_NODES];
    bool is_whole[MOST_WORK_NODES];
};

extern uint64_t problem_state; /* of the random numbers that problems are drawn from */

static inline uint32_t below(uint32_t bound)
{
    problem_state = problem_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(problem_state >> 33) % bound;
}

/* What follows from the model and the cluster, and what is asked; with blocks of one device alone operators are whole. */
void prepare_problem(struct problem *problem, uint32_t largest);
void close_problem(struct problem *problem);

/* A plan that fits. */
struct fitting {
    double seconds, used_share; /* of the objective; of the memory of the fullest device */
    uint32_t devices, copies;
};

struct every {
    const struct problem *problem;
    uint32_t fitting_count, fitting_capacity;
    struct fitting *fitting;
    struct sp_joint_evaluator *evaluator;
    uint32_t stage_count, stage[MOST_NODES];
    uint32_t option[MAX_STAGES], replicas[MAX_STAGES], device[MAX_STAGES];
    uint32_t strategy[MOST_NODES];
    uint32_t copies;      /* that these blocks have room for */
    uint64_t plans, most; /* more are not tried */
    double best, least_interval, least_latency;
    double best_equal; /* of plans in which no device has a share of its own */
};

/* Stage pins, device pins and groups, told from the placement alone. */
bool keeps_pins(const struct problem *problem, const struct sp_placement *placement);
struct fitting fitting_of(const struct problem *problem, const struct sp_evaluation *evaluation, uint32_t copies);

/* False where there are too many plans. */
bool try_every(struct every *every);

static inline bool is_near(double value, double want)
{
    return fabs(value - want) <= 1e-9 * fabs(want);
}

/* Whether devices have shares of a stage: it may be better than the plans here, where it has more blocks. */
static inline bool has_shares(const struct sp_search_result *result)
{
    return result->evaluation->members != NULL;
}
