#pragma once
/*
 * internal - what the sources of plan/ share and nobody else sees.
 */
#include "graph/states.h"
#include "plan/accepted.h"
#include "plan/job.h"
#include "plan/model_file.h"
#include "plan/plan.h"
#include "plan/stage_strategies.h"
#include "search/same_weights.h"

/* ---- job ---- */

/* Symbols to bind when the model is read, and what to say about those that nobody gave. Lives in `arena`. */
struct sp_bindings {
    struct sp_arena *arena;
    uint64_t hash_seed;
    const struct sp_watch *watch; /* may be NULL */
    bool is_inferred;             /* shapes of the model were inferred to find them: it is read again */
    int64_t assumed_batch;        /* extent for a batch that is not bound */
    int64_t assumed;              /* for any other dimension */
    uint32_t assumed_count;       /* how many got this */
    bool has_assumed_batch;
    uint32_t count, name_capacity, value_capacity;
    const char **names;
    int64_t *values;
    uint32_t note_count, note_capacity;
    struct sp_plan_note *notes;
};

struct sp_shared_work; /* shared_work.h */

struct sp_job {
    struct sp_budget budget;
    struct sp_arena *arena;
    struct sp_model *model; /* NULL: file.costs is what there is */
    struct sp_shape_summary summary;
    struct sp_accepted accepted;
    struct sp_model_file file;
    bool owns_file; /* else it is that of sp_job_plan(), which tries several jobs */
    uint64_t hash_seed;
    char *name; /* malloc'ed, never NULL */
    char sha256[65];
    const struct sp_watch *watch;
    const struct sp_executor *executor;
    bool skip_minimum_memory;        /* of the options */
    struct sp_search_result *result; /* of the plan that was made, or NULL */
    struct sp_micro_batches *micro;  /* the model is bound to one of these; NULL: to a whole request */

    struct sp_job *next;                /* of a phase of the same service, which goes with this one; or NULL */
    struct sp_job *base;                /* whose model and file it plans; NULL: its own */
    uint32_t users;                     /* of a base: jobs that plan its model, which stays until they are gone, too */
    struct sp_bindings bindings;        /* of a base: what its model was opened with */
    struct sp_shared_work *shared_work; /* of a base */
};

/* A model at the sizes of a plan, before a placement is searched; with constraints of the request in its costs. */
struct sp_ready_job {
    struct sp_job *job; /* whose the rest is */
    const struct sp_workload *workload;
    const struct sp_dataflow *dataflow;
};
enum sp_status sp_job_ready(const struct sp_job_options *job_options, const struct sp_cluster *cluster,
                            const struct sp_plan_options *options, struct sp_ready_job *ret_ready,
                            struct sp_error *err);

/* Another search in place of sp_joint_search(), with the same options. *ret_result as sp_joint_search()'s. */
struct sp_other_search {
    void *context;
    enum sp_status (*search)(void *context, const struct sp_ready_job *of, const struct sp_cluster *cluster,
                             const struct sp_joint_options *options, struct sp_search_result **ret_result,
                             struct sp_error *err);
};

/* A placement that a search found before: its record (plan/answer/placement_record.h), or that of the same model at
   other sizes (search/same_weights.h). */
struct sp_found_placement {
    const json_t *record;
    bool stopped;                        /* the search was */
    const struct sp_placed_model *like;  /* in place of a record; NULL: none */
    const struct sp_other_search *other; /* the same */
    double *ret_moved_bytes;             /* with `like`: of weights that lie elsewhere */
    uint32_t micro_batches;              /* where the options leave their number open; 0: they do not. Alone, without a
                                            placement, it is allowed, too */
};

/* sp_job_plan(), which searches nothing where the placement is known; NULL: it is not. */
enum sp_status sp_job_plan_from(const struct sp_job_options *job_options, const struct sp_cluster *cluster,
                                const struct sp_plan_options *options, const struct sp_found_placement *found,
                                struct sp_job **ret_job, struct sp_plan **ret_plan, struct sp_error *err);

/*
 * The same in two steps, for plans of one model on several clusters: the model is opened once, and what their searches
 * have in common is found once (shared_work.h). Each plan is the one that sp_job_plan() makes. The base is destroyed
 * as any job is, and goes with the last plan of it. *ret_base is NULL for a graph of costs, whose devices are the
 * cluster's.
 */
enum sp_status sp_job_open_base(const struct sp_job_options *job_options, const struct sp_plan_options *options,
                                struct sp_job **ret_base, struct sp_error *err);
enum sp_status sp_job_plan_on_base(struct sp_job *base, const struct sp_job_options *job_options,
                                   const struct sp_cluster *cluster, const struct sp_plan_options *options,
                                   struct sp_job **ret_job, struct sp_plan **ret_plan, struct sp_error *err);

/* What plans of routes are not for: SP_ERR_REQUEST "ROUTES_UNSUPPORTED". */
enum sp_status sp_plan_options_check_routes(const struct sp_plan_options *options, struct sp_error *err);

/* Adds a note, whose texts live as long as the plan. False without memory. */
bool sp_note_add(struct sp_bindings *bindings, const struct sp_plan_note *note);

/* The same where the plan has its notes already. */
bool sp_plan_add_note(struct sp_plan *plan, const struct sp_plan_note *note);

/* Says that the plan takes no notice of shardings that the model states, and replaces those of its configuration. The
   model may be NULL. False without memory. */
bool sp_note_replaced(const struct sp_model *model, struct sp_bindings *bindings);

/* What was taken for what. False without memory. */
bool sp_note_accepted(const struct sp_accepted *accepted, struct sp_bindings *bindings);

/* Warns of nodes whose work is not known. False without memory. */
bool sp_note_unknown_operators(const struct sp_shape_summary *summary, struct sp_bindings *bindings);

/* Says what is taken of inputs that are no tensors. The model may be NULL. False without memory. */
bool sp_note_containers(const struct sp_model *model, struct sp_bindings *bindings);

/* Says which inputs are states, and how that is known. False without memory. */
bool sp_note_states(const struct sp_states *states, struct sp_bindings *bindings);

/* Says which of a workload's states a plan does not keep where they are. False without memory. */
bool sp_note_moved_states(const struct sp_workload *workload, const struct sp_search_result *result,
                          struct sp_bindings *bindings);

/* Says what came of measured times. False without memory. */
bool sp_note_profile(const struct sp_profile_use *use, struct sp_bindings *bindings);

/* Says that the search was stopped by the caller's time limit. False without memory. */
bool sp_note_stopped(struct sp_bindings *bindings);
bool sp_note_caches_stay(const struct sp_plan *plan, struct sp_bindings *bindings);
bool sp_note_first_route(const struct sp_search_result *result, struct sp_bindings *bindings);
bool sp_note_first_copy(const struct sp_search_result *result, struct sp_bindings *bindings);
/* A way of searching failed, and the plan is that of the others. */
bool sp_note_search_failed(const struct sp_error *failure, struct sp_bindings *bindings);

/* ---- memory.c ---- */

/* Sorts the nodes by stage, and measures the stages' arenas; adds the note ARENA_OVER_CAPACITY where one is too large.
   SP_ERR_MEMORY. */
enum sp_status sp_plan_measure_memory(struct sp_plan *plan, struct sp_error *err);

/* ---- inspect ---- */

struct sp_operator_count {
    const char *name; /* "Conv", "com.microsoft.Gelu" */
    uint64_t count;
    bool is_known; /* has a rule, or is a function of the model */
};

/* What an inspection reports beyond what stands in the model itself. */
struct sp_inspection {
    uint32_t operator_count;
    struct sp_operator_count *operators; /* by name */
    uint64_t parameters;
    double parameter_bytes;
    bool has_flops;
    double flops;
    uint32_t symbol_count;
    const char **symbols; /* that a value's inferred shape has, in the model's order */
    uint64_t external_files;
    double external_bytes;
    struct sp_states states;
};

/* Looks at the whole model; what is returned lives in the job's arena. */
enum sp_status sp_inspect(struct sp_job *job, struct sp_inspection *ret_inspection, struct sp_error *err);

/* A graph input that each request brings; one with a default is a weight. */
static inline bool sp_is_request_input(const struct sp_value *value)
{
    return value->tensor == NULL && value->sparse == NULL;
}

/* ---- plan ---- */

/* The stage that makes an activation, or SP_NO_STAGE. */
#define SP_NO_STAGE UINT32_MAX
uint32_t sp_plan_origin(const struct sp_plan *plan, uint32_t tensor);

/* What a device does, on all routes, and for how long it is busy for each request of the plan; `stage` is the device's of
   sp_plan_device_stages(). Zeros where the plan leaves it free. */
const struct sp_stage_cost *sp_plan_device_cost(const struct sp_plan *plan, uint32_t device, uint32_t stage,
                                                double *ret_busy_seconds);

/* The stage in which a request ends: from it the longest path leads back along `waits_for`. */
uint32_t sp_plan_last_stage(const struct sp_plan *plan);

/* First and last node (by number) of each stage that does work; SP_NO_WORK for a stage without any. */
struct sp_borders {
    uint32_t *first, *last;
};
bool sp_borders_init(const struct sp_plan *plan, struct sp_borders *borders);

/* Sentences (without the final dot for `because` members). */
void sp_reason_tensor(const struct sp_plan *plan, uint32_t tensor, const struct sp_places *places, struct sp_buf *buf);
void sp_reason_stage(const struct sp_plan *plan, uint32_t stage, const struct sp_borders *borders, struct sp_buf *buf);
void sp_reason_bottleneck(const struct sp_plan *plan, struct sp_buf *buf);

/* ---- reason_split.c: parts of these sentences ---- */

/* A name in quotes, cut where it is long. */
void sp_reason_quoted(const char *name, struct sp_buf *buf);
/* The devices of a stage: "3", "4-7". */
void sp_reason_devices(const struct sp_plan *plan, uint32_t stage, struct sp_buf *buf);
/* The types of the stage's devices, each once: "l4", of unequal ones "a100-sxm4-40gb + l4". */
void sp_reason_types(const struct sp_plan *plan, uint32_t stage, struct sp_buf *buf);
/* "; axis 1 in 4 parts: 'fc1' is split along n and takes ..", and who takes the tensor in other layouts; nothing where
   no stage that has it is split. */
void sp_reason_split(const struct sp_plan *plan, uint32_t tensor, const struct sp_places *places, struct sp_buf *buf);
/* "its operators are split over 4 devices and take ..; 2 replicas take requests in turn" behind `before`; nothing for a
   stage of one device. */
void sp_reason_block(const struct sp_plan *plan, uint32_t stage, const char *before, struct sp_buf *buf);
/* What one device of the stage's kind would compute on its nodes. */
double sp_reason_whole_seconds(const struct sp_plan *plan, uint32_t stage);

/* One dimension as text: expressions are bounded by SP_MAX_EXPR_TERMS, names by SP_MAX_NAME_BYTES. */
#define SP_DIM_TEXT_BYTES ((size_t)1 << 20)

/* Enough for one reason or one line of a table. */
#define SP_REASON_BYTES   ((size_t)64 << 10)
#define SP_REASON_COLUMNS 60 /* of a node's or tensor's name inside a sentence */

/* What sp_plan_annotate() writes, in the plan's arena: one annotation for each node of the main graph, in order. */
enum sp_status sp_plan_annotations(const struct sp_plan *plan, struct sp_annotations *ret_annotations,
                                   struct sp_error *err);

/* {TENSOR: SPEC} of the weights that are gathered: how devices hold them (infer/stored.h). NULL in *ret_stored where none
   is; the caller releases it. */
enum sp_status sp_plan_stored(const struct sp_plan *plan, json_t **ret_stored, struct sp_error *err);

/* Two lines: the plans that are the fastest for one request, and take the most requests, of those that were found; none
   where one was. */
void sp_answers_write_text(const struct sp_plan *plan, struct sp_buf *buf);

/* For each device of the cluster its stage, the first where devices are shared, or SP_NO_STAGE; in the plan's arena,
   NULL without memory. Devices of copies have none; with the second function that of the device that they copy. */
uint32_t *sp_plan_device_stages(const struct sp_plan *plan);
uint32_t *sp_plan_all_device_stages(const struct sp_plan *plan);

/* How often devices run their stages for one request: once for each micro-batch. What is told of one run is so many times
   as much of a request. */
static inline uint32_t sp_plan_runs(const struct sp_plan *plan)
{
    const uint32_t count = plan->result->evaluation->micro_batches;
    return count > 1 ? count : 1;
}

/* What devices send each other for one request. */
double sp_plan_sent_bytes(const struct sp_plan *plan);

/* US dollars an hour of the devices that are used; 0 where the group of one of them states none. */
double sp_plan_price(const struct sp_plan *plan);
