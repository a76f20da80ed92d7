#pragma once
/*
 * plan - the answer: which device does what, what it costs, and why.
 *
 * A plan is made from a workload, a cluster and the search's result, and is immutable. It can be written as JSON (the
 * fixed form of the product's contract), as text for people, and realised as an annotated model.
 *
 * Every choice carries its reason: each tensor says `because`, the estimate names its bottleneck in one sentence, and
 * the bound that was proved stands beside the estimate.
 */
#include "base/json_writer.h"
#include "cost/evaluate.h"
#include "onnx/writer.h"
#include "search/grouping.h"

#define SP_PLAN_CONFIGURATION "shardplan" /* the DeviceConfiguration that the annotated model carries */

struct sp_plan_note {
    const char *code;          /* stable, e.g. "DIMENSION_ASSUMED" */
    const char *severity;      /* "error", "warning", "note" */
    const char *message;       /* a full sentence */
    const char *node, *tensor; /* or NULL */
    const char *hint;          /* what to do, or NULL */
};

struct sp_plan {
    struct sp_arena *arena;
    const struct sp_model *model;
    const struct sp_workload *workload;
    const struct sp_cluster *cluster;
    const struct sp_grouping_result *result;
    struct sp_lower_bounds bounds;
    enum sp_objective objective;
    const char *strategy; /* "grouping" */
    const char *id;       /* hex; of model, cluster and options: the same question has the same id */
    char model_sha256[65];
    const char *options_json; /* the options as they were understood, canonical JSON */
    const char *bottleneck;   /* one sentence */
    uint32_t note_count;
    const struct sp_plan_note *notes;
};

/* Completes `plan` (bottleneck, id) once model .. options_json and notes are set. */
enum sp_status sp_plan_finish(struct sp_plan *plan, struct sp_error *err);

/* The contract's JSON. `search_seconds` is measured by the caller and the only member that differs between runs. */
void sp_plan_write_json(const struct sp_plan *plan, double search_seconds, struct sp_json *json);

/* What people read: a header, a line per stage, transfers, the estimate. Appended to `buf`. */
void sp_plan_write_text(const struct sp_plan *plan, struct sp_buf *buf);

/* The model with the plan's configuration, stages and placement specs; see onnx/writer.h. */
enum sp_status sp_plan_annotate(const struct sp_plan *plan, struct sp_splice **ret_splice, struct sp_error *err);
