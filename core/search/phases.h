#pragma once
/*
 * phases - one plan for several phases of a model: nodes are in one stage, and weights and states lie in one way, in all
 * of them; activations may be split in another way in each.
 *
 * The phases are joined to one workload (cost/phases/phase_join.h), which is searched as any other. What it is searched for is
 * of one request:
 *
 *   latency      the longest path over the stages, each computing all runs of all phases
 *   throughput   the time between requests that the slowest stage needs for all runs of all phases
 *   memory       weights once, states at their largest, and the most that any phase has alive beside these
 *
 * The plan is then taken apart: each phase has its own strategies, and is evaluated alone as a plan of it would be.
 *
 * What a phase costs on a plan that was made for another one alone says same_weights.h.
 *
 * Weights are not copied from hosts, requests take one route, and a device has one stage.
 */
#include "cost/phases/phase_join.h"
#include "search/joint/joint.h"

struct sp_phases_result {
    struct sp_joined_phases joined;
    const struct sp_dataflow *dataflow; /* of the joint model; NULL: graphs of costs */
    double scale;                       /* seconds and bytes of `all` are of so many requests */
    struct sp_search_result *all;       /* of the joint workload */
    /* Per phase, of one run: of the phase's own workload, with tables of its own. Its front is the plan alone, and its
       bounds hold for the phase alone. */
    struct sp_search_result **phases;
    double request_seconds;  /* the runs of all phases, one after the other: times * latency */
    double interval_seconds; /* between requests: of the slowest stage */
};

/* What a search for several phases takes; dataflows are of the phases' models, NULL for graphs of costs. */
struct sp_phases_request {
    uint32_t count;
    const struct sp_phase *phases;
    const struct sp_dataflow *const *dataflows; /* per phase; may be NULL */
    const struct sp_cluster *cluster;
    const struct sp_joint_options *options; /* constraints are in terms of one phase */
};

/* Errors are those of sp_phases_join() and sp_joint_search(). The result lives in `arena`, which the phases' workloads
   have to outlive; sp_phases_result_release() gives back what it holds beside. */
enum sp_status sp_phases_search(struct sp_arena *arena, const struct sp_phases_request *request,
                                struct sp_phases_result **ret_result, struct sp_error *err);
void sp_phases_result_release(struct sp_phases_result *result); /* NULL is allowed */
