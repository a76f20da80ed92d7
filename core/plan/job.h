#pragma once
/*
 * job - the whole way from the bytes of a model to an answer, as the command line and the daemon's workers take it.
 *
 * Model. A job is one model in memory: its file, read, with inferred shapes. sp_job_open() makes one to inspect,
 * sp_job_plan() one with a plan. Both read the file as it is, ONNX or a description in JSON. Nothing here does input or
 * output, reads a clock or logs: JSON and text go to the writer that the caller gives.
 *
 * Lifecycle and ownership. On success the caller owns the job and destroys it; on an error there is no job, and
 * struct sp_error has a sentence for the user. A job owns one arena with a budget, in which everything lives that it
 * returns: the model, the plan, all their strings. The caller keeps what the options point to while the job lives: the
 * file's bytes, the cluster, watch, profile and constraints.
 *
 * Threads. One thread uses a job at a time; different jobs are independent. A search runs its tasks on the executor's
 * threads where one is given, and is over when the call returns. The watch is asked often: it tells progress, and ends
 * the search early or cancels it.
 *
 * Example: plans a model for four devices and writes the plan as JSON. (tests/unit/plan/job_example.c is the same, and
 * runs.)
 *
 *     #include <stdio.h>
 *
 *     #include "plan/job.h"
 *
 *     static bool write_bytes(void *context, const char *bytes, size_t size)
 *     {
 *         return fwrite(bytes, 1, size, context) == size;
 *     }
 *
 *     static bool write_plan(const void *bytes, uint64_t size, FILE *out)
 *     {
 *         const struct sp_job_options model = {.bytes = bytes, .size = size, .name = "model.onnx"};
 *         struct sp_plan_options options;
 *         struct sp_cluster *cluster;
 *         struct sp_job *job = NULL;
 *         struct sp_plan *plan;
 *         struct sp_json json;
 *         struct sp_error err = {0};
 *         struct sp_arena *arena = sp_arena_create(NULL);
 *         enum sp_status status = arena != NULL ? SP_OK : sp_fail_memory(&err);
 *
 *         sp_plan_options_init(&options);
 *         options.objective = SP_OBJECTIVE_LATENCY;
 *         if (status == SP_OK)
 *             status = sp_cluster_uniform(arena, "a100-sxm4-80gb", 4, &cluster, &err);
 *         if (status == SP_OK)
 *             status = sp_job_plan(&model, cluster, &options, &job, &plan, &err);
 *         if (status == SP_OK) {
 *             sp_json_init(&json, true, write_bytes, out);
 *             sp_plan_write_json(plan, 0, &json);
 *             status = sp_json_finish(&json, &err);
 *         }
 *         if (status != SP_OK)
 *             (void)fprintf(stderr, "%s: %s\n", err.code, err.message);
 *         sp_job_destroy(job);
 *         sp_arena_destroy(arena);
 *         return status == SP_OK;
 *     }
 */
#include <jansson.h>

#include "base/cancel.h"
#include "plan/plan.h"
#include "plan/replan/replan.h"
#include "plan/request/constraints.h"
#include "plan/request/measured.h"
#include "plan/sizes/sizes.h"

/* Symbolic dimensions of the model's inputs that nobody bound get these extents, and the plan says so. A symbol is
   taken for the batch when it is the first dimension of an input and nowhere another one. */
#define SP_ASSUMED_BATCH 1 /* extent of an unbound batch */
#define SP_ASSUMED_DIMENSION                                                                                           \
    128 /* extent of any other unbound dimension, or the largest half of it that the model bears */

struct sp_job;

/* A model's file, and how to work on it. */
struct sp_job_options {
    const void *bytes; /* of the file: ONNX, a description in JSON or a graph of costs; must outlive the job */
    uint64_t size;
    size_t memory_budget; /* bytes; 0 = SP_DEFAULT_JOB_BYTES */
    uint64_t hash_seed;
    const struct sp_sizes *sizes;       /* what the caller says of them, or NULL; a plan has its own */
    const char *name;                   /* what to call the model (file name), or NULL */
    const char *sha256;                 /* 64 hex digits when the caller knows it, or NULL: left empty */
    const struct sp_watch *watch;       /* may be NULL; must outlive the job */
    const struct sp_executor *executor; /* threads for searching, or NULL; likewise */
    bool skip_minimum_memory;           /* where nothing fits, do not look for memory that would do: one of several */
};

/* Estimates are a few per cent off: what a plan is better by less counts as nothing unless a request says otherwise. */
#define SP_PLAN_TOLERANCE 0.02

#define SP_REPLICAS_NOT_GIVEN UINT32_MAX

/* What is asked of a plan. */
struct sp_plan_options {
    enum sp_objective objective;
    bool by_price; /* objective "cost", of services: the cheapest devices; `objective` is then the fewest */
    enum sp_search_strategy strategy;
    bool any_sets;          /* "placement": "any": devices may hold any sets of nodes of a graph of costs */
    uint32_t max_replicas;  /* of one stage, or copies of the whole plan, that take requests in turn; 0: any number.
                              SP_REPLICAS_NOT_GIVEN: the strategy auto has any number of copies, else there are none */
    int64_t batch;          /* 0 = not given: binds the symbolic first dimension of the inputs; a model whose batch is
                              fixed to another number is SP_ERR_REQUEST */
    uint32_t micro_batches; /* in which a request is cut along its batch (plan/micro/micro.h); 0 and 1: none;
                               SP_MICRO_BATCHES_AUTO: as many as are best, of sp_plan_answer() */
    struct sp_sizes sizes;
    double tolerance; /* share of the objective's figure below which plans count as equal (search/joint/joint.h), 0 to
                         below 1; 0: the best that is found */
    bool optimal;     /* move until no move helps; false: the first placement that fits */
    bool skips_proof; /* no sp_plan_prove(); only recorded here, and no part of the question that a plan answers */
    bool what_if; /* sp_plan_answer() (plan/variants/variants.h) looks at changed clusters, too; here only recorded */
    uint64_t seed;
    const struct sp_profile *profile;     /* measured times (plan/request/measured.h), or NULL; must outlive the job */
    const struct sp_demands *constraints; /* plan/request/constraints.h, or NULL; must outlive the job */
    const struct sp_traffic *traffic; /* "workload": plan/service/traffic.h, or NULL; likewise. sp_plan_answer() plans
                                             for it; here only recorded */
    const struct sp_replan_terms *replan; /* of a plan that follows another one, or NULL; likewise */
    const struct sp_past *past;           /* that one; NULL: `replan` is only recorded */
    double time_limit_seconds;            /* 0 = none; only recorded here: the caller's watch enforces it, and the
                                             search then ends with the best placement so far */
};

/* Throughput, "auto", optimal, within SP_PLAN_TOLERANCE, nothing bound. */
void sp_plan_options_init(struct sp_plan_options *options);

/*
 * Reads "objective" (a string) and the members of `options` ("strategy", "placement", "batch", "micro_batches", those of
 * plan/sizes/sizes.h, "optimal", "tolerance", "seed", "profile", "time_limit_seconds", "what_if", "proof", "constraints", "workload", "replan") of a request. json
 * may be NULL. Strings stay owned by `json`; arrays are in `arena`. Constraints and the workload are members of a request of their
 * own, so that their errors' pointers begin with "/constraints" and "/workload". Unknown members, wrong types and strategies that this
 * version does not have are SP_ERR_REQUEST with a JSON pointer.
 */
enum sp_status sp_plan_options_parse(struct sp_arena *arena, const json_t *objective, const json_t *options,
                                     struct sp_plan_options *ret_options, struct sp_error *err);

/* "throughput", "latency", "devices"; static. */
const char *sp_objective_name(enum sp_objective objective);

/* Whether a tolerance is one: 0 to below 1. */
bool sp_tolerance_is_valid(double tolerance);

/* "contiguous" or "any"; false for other names. */
bool sp_placement_parse(const char *name, bool *ret_any_sets);

/* Sets the objective of that name, "cost" too; false when there is none. */
bool sp_plan_options_aim(struct sp_plan_options *options, const char *objective);

/* The objective of that name; false when there is none. */
bool sp_objective_parse(const char *name, enum sp_objective *ret_objective);

/* Reads the model and infers shapes; of a graph of costs (json/json.h) there is nothing to infer. The sizes of the
   options hold; names that the model does not have are SP_ERR_REQUEST. */
enum sp_status sp_job_open(const struct sp_job_options *options, struct sp_job **ret_job, struct sp_error *err);
void sp_job_destroy(struct sp_job *job); /* NULL is allowed */

/* The model, or NULL for a graph of costs. */
const struct sp_model *sp_job_model(const struct sp_job *job);

/* ---- inspect ---- */

/*
 * The inspection as JSON: name, sha256 (when known), ir_version, producer, opsets, node_count, operators, parameters,
 * parameter_bytes, flops, symbols, inputs, outputs, configurations, external_data (when there is any),
 * unknown_operators; with `values`, also every value of the main graph.
 *
 * Dimensions are numbers, strings (a symbol or an expression over symbols) or null. `parameters` are counted as
 * frameworks do: elements of the constant tensors that the nodes which run use, shapes and axes left out. `flops` is
 * null when it depends on a symbol or on an operator without a rule.
 */
enum sp_status sp_job_inspect_json(struct sp_job *job, bool values, struct sp_json *json, struct sp_error *err);
/* The same for people. */
enum sp_status sp_job_inspect_text(struct sp_job *job, bool values, struct sp_buf *buf, struct sp_error *err);

/* ---- plan ---- */

/*
 * Opens the model with the options' dims, fills unbound symbols with the assumed extents (each a note
 * DIMENSION_ASSUMED), costs it and searches. `*ret_plan` lives in the job's arena; `cluster` must outlive the job.
 */
enum sp_status sp_job_plan(const struct sp_job_options *job_options, const struct sp_cluster *cluster,
                           const struct sp_plan_options *options, struct sp_job **ret_job, struct sp_plan **ret_plan,
                           struct sp_error *err);
