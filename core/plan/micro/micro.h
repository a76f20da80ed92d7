#pragma once
/*
 * micro - a plan for requests that are cut along their batch (cost/micro_batches.h).
 *
 * The *batch* is a symbol of the model's inputs: the first dimension of some input, the one called so where there are
 * several, else that of the first input. An input that has it is cut along that axis; one without it is the same for
 * every micro-batch. The plan is one of the model bound to batch / count; the estimate is of whole requests.
 *
 * Whether a model may be cut is what its shardings say: with the inputs split along the batch over `count` imagined
 * devices, forward inference (infer/forward.h) has to reach every output without anything that devices would have to
 * exchange. Then no element depends on another part of the batch, and the parts of the outputs, one behind the other,
 * are the outputs. States are cut, too, and each micro-batch has its own from step to step.
 *
 * "auto" tries the divisors of the batch, ascending, until two in a row bring nothing, and takes the fewest that are
 * within the tolerance of the best by the objective.
 */
#include "plan/job.h"
#include "realize/cuts.h"

#define SP_MICRO_BATCHES_AUTO UINT32_MAX /* sp_plan_options.micro_batches */
#define SP_MAX_MICRO_BATCHES  4096

/* "auto", or a whole number from 1 to SP_MAX_MICRO_BATCHES. */
bool sp_micro_batches_parse(const char *text, uint32_t *ret_count);

/* The option as a member; nothing where it was not given. */
void sp_micro_batches_write(uint32_t count, struct sp_json *json);

/* A number of micro-batches that was looked at. */
struct sp_micro_trial {
    uint32_t count;
    bool fits;
    double latency_seconds, interval_seconds, memory_bytes; /* of whole requests; of the fullest device */
    uint32_t devices_used;
    const char *description; /* "2 stages of 1 device"; NULL where none fits */
    const char *message;     /* why none does, else NULL */
    bool is_chosen;
};

/* Known elements of a tensor that is computed at load, and that a node takes. */
struct sp_micro_constant {
    const char *name, *node;
    uint32_t count;
    const double *numbers;
};

struct sp_micro_batches {
    struct sp_request_cuts cuts;
    int64_t batch;           /* of a request; a micro-batch has batch / cuts.count */
    const char *dimension;   /* the symbol */
    uint32_t constant_count; /* of the whole model; not copied */
    const struct sp_micro_constant *constants;
    uint32_t trial_count; /* of "auto", ascending; else 0 */
    const struct sp_micro_trial *trials;
};

struct sp_micro_request {
    const struct sp_model_file *file;
    uint64_t hash_seed;
    const struct sp_watch *watch;
    struct sp_model *whole; /* bound to the whole batch, with shapes */
    uint32_t count;         /* above 1 */
};

/* The symbol of the batch of a model with nothing bound: the first dimension of an input that is called a batch, else the
   first one of the first input that has a symbol there. NULL: none may be. */
const char *sp_batch_symbol(const struct sp_model *open, uint32_t *ret_symbol);

/*
 * How the requests of a model are cut. In `arena`. SP_ERR_REQUEST, at /options/micro_batches:
 *   MICRO_BATCHES_FIXED    no dimension of the inputs is a symbol that may be the batch
 *   MICRO_BATCHES_UNEVEN   the batch is no multiple of the count
 *   MICRO_BATCHES_MIXED    parts of the batch depend on each other: names the first node, or the tensor
 */
enum sp_status sp_micro_find(struct sp_arena *arena, const struct sp_micro_request *request,
                             struct sp_micro_batches *ret_micro, struct sp_error *err);

/* What is computed of the size of the batch has to be the same of a part as of the whole, where it is not a size itself:
   notes what is there of the whole, and compares the model of one part with that. SP_ERR_REQUEST "MICRO_BATCHES_MIXED". */
enum sp_status sp_micro_note_constants(struct sp_arena *arena, const struct sp_model *whole,
                                       struct sp_micro_batches *micro, struct sp_error *err);
enum sp_status sp_micro_check_constants(const struct sp_micro_batches *micro, const struct sp_model *part,
                                        struct sp_error *err);

/* A copy in another arena; NULL without memory. */
struct sp_micro_batches *sp_micro_copy(struct sp_arena *arena, const struct sp_micro_batches *micro);

/* The options with the dimensions of one micro-batch; in `arena`. */
enum sp_status sp_micro_options(struct sp_arena *arena, const struct sp_plan_options *options,
                                const struct sp_micro_batches *micro, struct sp_plan_options *ret_options,
                                struct sp_error *err);

/* What micro-batches are not for: SP_ERR_REQUEST "MICRO_BATCHES_UNSUPPORTED". */
enum sp_status sp_micro_check_options(const struct sp_plan_options *options, bool is_costs, struct sp_error *err);

/* In how many micro-batches a request is cut: as many as were found before, or the options say; 0 and 1: it is whole. */
uint32_t sp_micro_count(const struct sp_plan_options *options, uint32_t found);

/* Says it of the workload of one micro-batch. Refuses caches that a constraint demands, which are of all sequences, and read
   by one step of all of them. */
enum sp_status sp_micro_cut_workload(const struct sp_micro_batches *micro, struct sp_workload *workload,
                                     struct sp_error *err);

/* A plan with the number of micro-batches that is best. Trials are in the plan's arena. */
enum sp_status sp_micro_plan(const struct sp_job_options *job_options, const struct sp_cluster *cluster,
                             const struct sp_plan_options *options, struct sp_job **ret_job, struct sp_plan **ret_plan,
                             struct sp_error *err);

/* The member "micro_batches" of a plan's JSON, and a paragraph of its text; nothing of a plan without. */
void sp_micro_batches_write_json(const struct sp_plan *plan, struct sp_json *json);
void sp_micro_batches_write_text(const struct sp_plan *plan, struct sp_buf *buf);
