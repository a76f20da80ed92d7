#pragma once
/*
 * check - everything that can be said about a model's soundness before it runs.
 *
 *   graph.h         parity with onnx.checker: names, order, operators, arities, attributes, tensors, functions
 *   annotations.h   the structure of multi-device data: configurations, specs, devices, groups, axes, shards, stages
 *   meaning.h       shardings against the operators' rules: agreement of producers and consumers, of operands, stages,
 *                   memory
 *
 * Each adds its findings to one list. A module goes on after a finding wherever it can: a check lists all that is
 * wrong, not the first thing.
 */
#include "base/cancel.h"
#include "check/diagnostic.h"
#include "infer/assignment.h"
#include "onnx/reader.h"

struct sp_check_options {
    const char *configuration;   /* check this one's annotations only; NULL: all */
    double memory_bytes;         /* of each device; 0: not known */
    struct sp_read_options read; /* how the model is read; watch may be NULL */
};

/*
 * Reads the model and checks all of it. Contradictions of the model, also those that its reader refuses, are findings;
 * bytes that are no model, limits and memory are errors. *ret_model is NULL where the model could not be read. A
 * configuration that the model does not have is SP_ERR_REQUEST.
 */
enum sp_status sp_check_run(struct sp_arena *arena, const void *bytes, uint64_t size,
                            const struct sp_check_options *options, struct sp_diagnostics *ret_list,
                            struct sp_model **ret_model, struct sp_error *err);

/* graph.h: the graph, its subgraphs, functions and tensors. Needs no shapes. */
enum sp_status sp_check_graph(struct sp_model *model, struct sp_diagnostics *list, struct sp_error *err);

/* annotations.h: configurations and annotations of all nodes, subgraphs and function bodies included; needs types for
   ranks and extents, and looks at what is known. `configuration` NULL: all. */
enum sp_status sp_check_annotations(struct sp_model *model, const char *configuration, struct sp_diagnostics *list,
                                    struct sp_error *err);

/* meaning.h: one configuration whose annotations are sound. Completes missing specs forward (infer/forward.h) first, as
   a runtime would. `memory_bytes` per device, 0: not known. */
enum sp_status sp_check_meaning(struct sp_model *model, const char *configuration, double memory_bytes,
                                struct sp_diagnostics *list, struct sp_error *err);
/* The same for a configuration that is at hand. */
enum sp_status sp_check_meaning_of(struct sp_model *model, const struct sp_device_configuration *configuration,
                                   double memory_bytes, struct sp_diagnostics *list, struct sp_error *err);

/* What contradicts in a configuration's annotations, as sp_check_meaning() finds it. The model in memory need not have
   the configuration. */
enum sp_status sp_check_contradictions(struct sp_model *model, const char *configuration, int64_t device_count,
                                       struct sp_diagnostics *list, struct sp_error *err);

/* ONNX Runtime's Distributed* nodes and mhlo.sharding / metadata annotations, through the same rules. */
enum sp_status sp_check_foreign(struct sp_model *model, struct sp_diagnostics *list, struct sp_error *err);

/* A reader's or shape inference's error (of `node`, or NULL) as a finding: its code is in the table, or the finding is
   MODEL_UNREADABLE. */
enum sp_status sp_check_add_error(struct sp_diagnostics *list, const struct sp_node *node, const struct sp_error *what,
                                  struct sp_error *err);
