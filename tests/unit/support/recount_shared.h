#pragma once
/*
 * recount_shared - what stages that share devices cost, worked out by running them: period after period each device
 * runs its stages for one request each, and every copy of a tensor is there from the node that makes it, or uses it
 * first, to the last that needs it. For workloads of graphs of costs.
 */
#include "cost/evaluate.h"

/* As recount_holds(), and the interval and the latency, too. */
bool recount_shared_holds(const struct sp_workload *workload, const struct sp_cluster *cluster,
                          const struct sp_placement *placement, const struct sp_evaluation *evaluation, bool fits,
                          char ret_why[256]);
