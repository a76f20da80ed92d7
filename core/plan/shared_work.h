#pragma once
/*
 * shared_work - a model's workload, and what searches of it have in common, for the jobs of one request that plan it on
 * several clusters (plan/variants/variants.h).
 *
 * A workload depends on the devices of a cluster only by what operators take there: fleets of any size and links of one
 * type of devices have the same one. So it is made once for each list of types, and each has a store of its searches
 * (search/joint/shared/store.h). All live as long as the job whose model they are of.
 */
#include "cost/contract.h"
#include "infer/dataflow.h"
#include "plan/job.h"
#include "search/joint/shared/store.h"

struct sp_shared_work {
    struct sp_workload *workload;
    struct sp_contraction contraction; /* of the workload itself */
    struct sp_dataflow *dataflow;
    struct sp_search_store *store;
    const struct sp_cluster *cluster; /* the largest one that it was asked for */
    struct sp_shared_work *next;
};

/* That of `base`, an open model, on the cluster, made if need be; NULL where the workload is not searched as it is. The
   cluster has to live as long as anybody asks. */
enum sp_status sp_shared_work_find(struct sp_job *base, const struct sp_cluster *cluster,
                                   const struct sp_shared_work **ret_work, struct sp_error *err);

/* Of all that a job has: the stores. */
void sp_shared_work_release(struct sp_shared_work *first);
