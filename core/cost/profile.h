#pragma once
/*
 * profile - measured times of nodes, in place of estimated ones.
 *
 * A measured time belongs to the device that it was measured on. Other kinds of devices keep their ratio to that one:
 * what a node takes there is the measured time times the ratio of the estimates. Nodes that nobody measured keep their
 * estimates.
 *
 * A name finds a node by (the first that is true)
 *   name      the node's name; one that the workload made up for a node without a name is what ONNX Runtime calls it,
 *             too
 *   output    the name of one of its results: some runtimes name nodes by them
 *   fusion    NAME/..Fusion: ONNX Runtime's fused operators are called by one of the nodes they are made of, which gets
 *             the time of all; what else is in them is not measured
 */
#include "cost/workload.h"

struct sp_profile_time {
    const char *name;
    const char *device; /* NULL: the profile's */
    double seconds;
};

struct sp_profile {
    const char *device; /* that was measured on; NULL: of the kind of the cluster's first device */
    uint32_t count;
    const struct sp_profile_time *times; /* those of one name stand together, with different devices */
};

/* What came of it. */
struct sp_profile_use {
    uint32_t by_name, by_output, by_fusion; /* names that found a node */
    uint32_t folded;                        /* names that found a node which runs at load: nothing to replace */
    uint32_t twice;                         /* names that found a node which another name had found before */
    uint32_t unknown;                       /* names that found none */
    const char *first_unknown;
    uint32_t measured, unmeasured; /* nodes that run, with a measured time and without */
};

/*
 * Replaces times in the workload. Where a kind has several devices, any of them may have been measured.
 *
 * SP_ERR_REQUEST "PROFILE_DEVICE": a device that the cluster does not have as what was measured on (one of a time of
 * its own is passed over when the catalog has it). "PROFILE_MATCHES_NOTHING": no name finds a node.
 */
enum sp_status sp_profile_apply(const struct sp_profile *profile, const struct sp_cluster *cluster, uint64_t hash_seed,
                                struct sp_workload *workload, struct sp_profile_use *ret_use, struct sp_error *err);
