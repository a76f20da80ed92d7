#pragma once
/*
 * violations - the user's constraints while strategies are chosen, and the proof that a plan keeps all of them.
 */
#include "search/constraints.h"
#include "search/joint/joint.h"

/* The rules for strategies of one mesh: the context of sp_split_allowed(). */
struct sp_split_rules {
    const struct sp_constraints *constraints;
    const struct sp_workload *workload;
    const struct sp_strategy_table *table; /* NULL: one device, on which nothing is cut */
    const struct sp_strategy_mesh *mesh;
    const bool *unable; /* per work node: the constraints leave it no strategy here, so none is refused; or NULL */
    bool gathers;       /* ways that gather a weight are allowed, too */
};

/* Whether constraints say anything about strategies; NULL: there are none. */
bool sp_constraints_split(const struct sp_constraints *constraints);

/* Whether the rules refuse any way: else nobody need ask them. */
bool sp_split_refuses(const struct sp_split_rules *rules);

/* For sp_intra_options.allowed. */
bool sp_split_allowed(const void *context, uint32_t node, const struct sp_strategies *strategies, uint32_t strategy);

/* Whether the node has a strategy that is allowed. */
bool sp_split_possible(const struct sp_split_rules *rules, uint32_t node);

/*
 * SP_OK where a placement keeps all constraints but that on its latency; else SP_ERR_REQUEST "CONSTRAINT_NOT_KEPT" with
 * a sentence about the first that it breaks. Memory is not looked at: reserved bytes are off the capacities that the
 * evaluation knows. `sharded` may be NULL: no operator is split.
 */
enum sp_status sp_constraints_violation(struct sp_arena *scratch, const struct sp_constraints *constraints,
                                        const struct sp_workload *workload, const struct sp_cluster *cluster,
                                        const struct sp_placement *placement, const struct sp_sharded_stage *sharded,
                                        struct sp_error *err);

/* The same for the latency of a plan; `constraints` may be NULL. */
enum sp_status sp_constraints_latency(const struct sp_constraints *constraints, double latency_seconds,
                                      struct sp_error *err);
