#pragma once
/*
 * constraints - what a request demands of its plan: read from JSON, written back in one canonical form, and resolved
 * against the workload that is searched (search/constraints.h says what each of them means).
 *
 *     {"max_stages": N, "max_latency_seconds": S, "reserved_bytes": B,
 *      "kv_cache": {"sequences": N, "positions": N, "dtype"?: NAME}   or   "kv_cache_bytes": B,
 *      "pins": [{"nodes": PATTERN or [PATTERN, ..], "stage": N}, {"nodes": .., "device": N}],
 *      "together": [[PATTERN, ..], ..],
 *      "specs": [{"tensor": NAME, "shards": [4, 1]}],
 *      "forbid": [{"tensor": NAME, "axis": N}, {"nodes": PATTERN or [..]}, {"level": NAME}]}
 *
 * A pattern is the name of a node, with * for any characters and ? for any one. A pattern without a node that runs, a
 * tensor or a level that is not there, an axis or a count of shards that the tensor does not have: all of these are
 * errors that name it. Demands that exclude each other are refused with both of their places.
 */
#include <jansson.h>

#include "base/json_writer.h"
#include "cost/contract.h"
#include "search/constraints.h"

struct sp_demands;

/* `pointer` is the JSON pointer of `json` in the request, for errors' `where`. Everything is copied into `arena`. */
enum sp_status sp_demands_parse(struct sp_arena *arena, const json_t *json, const char *pointer,
                                const struct sp_demands **ret_demands, struct sp_error *err);

/* The same as one JSON object: members in a fixed order, what demands nothing left out. */
void sp_demands_write(const struct sp_demands *demands, struct sp_json *json);

/* Seconds that a request may take; 0: any. */
double sp_demands_latency(const struct sp_demands *demands);

/*
 * Gives the attention nodes of `workload` the keys and values that are demanded (cost/cache.h); nothing where none are.
 * Before the workload is contracted. `model` NULL: a graph of costs.
 *
 * SP_ERR_REQUEST "CONSTRAINT_NO_ATTENTION": there is no node that keeps any; "CONSTRAINT_CONFLICT": they are more than
 * the memory of all devices.
 */
enum sp_status sp_demands_apply(const struct sp_demands *demands, struct sp_model *model,
                                const struct sp_cluster *cluster, struct sp_workload *workload, struct sp_error *err);

/* What demands are about. */
struct sp_demanded {
    const struct sp_workload *workload; /* has the names */
    const struct sp_contraction *contraction;
    const struct sp_cluster *cluster;
    bool can_split; /* false (a graph of costs): a demand for shards is refused, and one against them is kept anyway */
};

/* In terms of contraction->workload, for the search. */
enum sp_status sp_demands_resolve(struct sp_arena *arena, const struct sp_demands *demands,
                                  const struct sp_demanded *of, const struct sp_constraints **ret_constraints,
                                  struct sp_error *err);
