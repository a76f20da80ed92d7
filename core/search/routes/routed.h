#pragma once
/*
 * routed - plans in which devices hold intervals of the model that overlap, and requests take different routes.
 *
 * The workload's order is cut into *units*, stretches at whose ends little crosses; nothing in it is a layer. A *holder*
 * is a device that has the nodes of an interval of units, with their weights. A *route* is a row of holders whose
 * intervals follow one another from the first node to the last: a pipeline of whole operators like any other. Each
 * route takes a share of the requests, and shares add up to 1.
 *
 *     nodes     0 ........ 40 ........ 100
 *     device 0  [   0.62    ][           ] device 2 (1.0)       routes: 0 -> 2 (0.62), 1 -> 2 (0.38)
 *     device 1  [   0.38    ]
 *
 * Evaluation. Each route is evaluated as the placement that it is (cost/evaluate.h). A device computes, sends and
 * receives what its routes say, each weighed with its share; its interval is the largest of the three sums, and that of
 * the plan is the largest of the devices'. Latency and bytes sent are means over requests. A device's memory is the
 * largest that one of its routes says: weights and activations are the same on all of them.
 *
 * Search. How fast a device is with an interval, and whether it has the memory, is a problem of numbers
 * (solvers/routes/routes.h), whose flow is taken apart into routes. What it takes for the times of transfers is the
 * least that they can be, so that its bound holds for all plans of routes over these units.
 */
#include "base/executor.h"
#include "cost/evaluate.h"

#define SP_ROUTED_UNITS  96  /* at most */
#define SP_ROUTED_ROUTES 256 /* at most */

struct sp_route {
    double share;            /* of the requests; more than 0 */
    uint32_t count;          /* of holders */
    const uint32_t *devices; /* distinct, in the order of the pipeline */
    const uint32_t *ends;    /* per holder: the node behind its last one; ascending, the last is how many there are */
    /* Set by sp_routed_evaluate(): stage s is the route's holder s. */
    struct sp_placement placement;
    struct sp_evaluation *evaluation;
};

struct sp_route_holder {
    uint32_t device, first, end;                        /* nodes first <= n < end */
    double share;                                       /* of the requests that it works on */
    double compute_seconds;                             /* of one request that comes to it */
    double busy_seconds, send_seconds, receive_seconds; /* of all requests on average; busy: computing */
    const struct sp_stage_cost *cost;                   /* on the route where it needs most memory */
};

/* Seconds for which a device is busy for each request of the plan. */
double sp_route_holder_interval(const struct sp_route_holder *holder);

struct sp_routed {
    uint32_t route_count, holder_count;
    struct sp_route *routes;               /* by share, the largest first */
    const struct sp_route_holder *holders; /* by device */
    double latency_seconds, interval_seconds, communication_bytes;
    /* That of the first route, where what is of the plan is that of all routes, and a stage's interval is what its
       device is busy for, for each request of the plan. */
    struct sp_evaluation *evaluation;
    uint32_t bottleneck;       /* the holder whose interval is the plan's */
    double worst_excess_bytes; /* over a device's memory; 0 or less: all fit */
    double bound_seconds;      /* no plan of routes over the units has a shorter interval; 0: not searched */
};

/* What routes cost together. SP_ERR_REQUEST "OTHER_PLAN" where they are no routes of the workload: a record may say
   anything. In `arena`; the placements are made there. */
enum sp_status sp_routed_evaluate(struct sp_arena *arena, const struct sp_workload *workload,
                                  const struct sp_cluster *cluster, uint32_t route_count, struct sp_route *routes,
                                  struct sp_routed **ret_routed, struct sp_error *err);

/* What a device holds; NULL: nothing. `routed` may be NULL. */
const struct sp_route_holder *sp_routed_holder(const struct sp_routed *routed, uint32_t device);

struct sp_routed_request {
    const struct sp_workload *workload;
    const struct sp_cluster *cluster;
    double most_seconds; /* only plans with a shorter interval are of use; INFINITY: any */
    bool is_first;       /* a first answer is enough, after a fraction of the time */
    uint64_t seed;
    const struct sp_executor *executor;
    const struct sp_watch *watch;
};

/* The best plan of routes that was found; *ret_routed is NULL where none fits or is of use, or there are too many
   devices. No plan of routes over the units has a shorter interval than *ret_bound_seconds; 0: nothing is known. */
enum sp_status sp_routed_search(struct sp_arena *arena, const struct sp_routed_request *request,
                                struct sp_routed **ret_routed, double *ret_bound_seconds, struct sp_error *err);
