#pragma once
/*
 * cost_graph - plans of graphs of costs: what differs from a model, since there are no operators.
 */
#include "plan/internal.h"

/* SP_ERR_UNSUPPORTED "NO_OPERATORS": `what` is what there cannot be ("annotated model"). */
enum sp_status sp_costs_refuse(const char *what, struct sp_error *err);

/* SP_ERR_REQUEST where the request says something of sizes: there are none. */
enum sp_status sp_costs_check_options(const struct sp_sizes *sizes, int64_t batch, struct sp_error *err);

/* SP_ERR_REQUEST "PLACEMENT_UNSUPPORTED", at the option to change, where a plan of any sets of nodes cannot be what the
   request describes. */
enum sp_status sp_costs_check_any_sets(const struct sp_plan_options *options, bool is_costs, struct sp_error *err);

/* What the job's graph is to be called. */
const char *sp_costs_name(const struct sp_job *job);

/* Adds a note for each name of a device that neither the catalog nor the cluster has. False without memory. */
bool sp_note_unknown_devices(const struct sp_cost_graph *graph, const struct sp_cluster *cluster,
                             struct sp_bindings *bindings);

/* Inspection, as sp_job_inspect_json() and _text(). `values` are the tensors. */
enum sp_status sp_costs_inspect_json(struct sp_job *job, bool values, struct sp_json *json, struct sp_error *err);
enum sp_status sp_costs_inspect_text(struct sp_job *job, bool values, struct sp_buf *buf, struct sp_error *err);
