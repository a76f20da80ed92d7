#include "plan/job.h"

#include <stdlib.h>
#include <string.h>

#include "cost/contract.h"
#include "cost/kernels/expert_loads.h"
#include "onnx/reader.h"
#include "plan/answer/placement_record.h"
#include "plan/cost_graph.h"
#include "plan/explain/assumptions.h"
#include "plan/explain/experts.h"
#include "plan/explain/gathered.h"
#include "plan/explain/streamed.h"
#include "plan/explain/undivided.h"
#include "plan/micro/micro.h"
#include "plan/service/traffic.h"
#include "plan/shared_work.h"
#include "plan/sizes/bind.h"
#include "plan/sizes/branches.h"
#include "search/states.h"

/* Canonical options of a plan, as JSON. */
#define SP_OPTIONS_BYTES ((size_t)64 << 20)

const struct sp_model *sp_job_model(const struct sp_job *job)
{
    return job->model;
}

/* The file, in its own budget: the job that uses it counts what it takes. */
static enum sp_status open_file(const struct sp_job_options *options, const struct sp_sizes *sizes,
                                struct sp_model_file *ret_file, struct sp_error *err)
{
    struct sp_budget budget = {.limit = options->memory_budget != 0 ? options->memory_budget : SP_DEFAULT_JOB_BYTES};
    const struct sp_read_options read = {.hash_seed = options->hash_seed, .watch = options->watch};
    struct sp_model_file file;
    enum sp_status status =
        sp_model_file_open_any(&budget, options->bytes, options->size, options->hash_seed, options->watch, &file, err);
    if (status != SP_OK)
        return status;
    status = sp_take_branches(&budget, &read, sizes, &file, err);
    if (status == SP_OK)
        *ret_file = file;
    else
        sp_model_file_release(&file);
    return status;
}

static struct sp_job *create(const struct sp_model_file *file, const struct sp_job_options *options)
{
    struct sp_job *job = calloc(1, sizeof *job);
    if (job == NULL)
        return NULL;
    job->budget.limit = options->memory_budget != 0 ? options->memory_budget : SP_DEFAULT_JOB_BYTES;
    job->budget.used = job->budget.peak = sp_model_file_memory(file);
    job->hash_seed = options->hash_seed;
    job->watch = options->watch;
    job->executor = options->executor;
    job->skip_minimum_memory = options->skip_minimum_memory;
    job->file = *file;
    job->name = strdup(options->name != NULL ? options->name : "");
    job->arena = sp_arena_create(&job->budget);
    if (options->sha256 != NULL)
        (void)snprintf(job->sha256, sizeof job->sha256, "%s", options->sha256);
    if (job->name == NULL || job->arena == NULL) {
        sp_job_destroy(job);
        return NULL;
    }
    return job;
}

static enum sp_status read_model(struct sp_job *job, const struct sp_sizes *sizes, const struct sp_bindings *bindings,
                                 struct sp_error *err)
{
    const struct sp_read_options options = {
        .hash_seed = job->hash_seed,
        .watch = job->watch,
        .given = &sizes->given,
        .binding_count = bindings != NULL ? bindings->count : 0,
        .binding_names = bindings != NULL ? bindings->names : NULL,
        .binding_values = bindings != NULL ? bindings->values : NULL,
    };
    return sp_onnx_read(job->arena, job->file.bytes, job->file.size, &options, &job->model, err);
}

/*
 * Symbols are bound while the model is read, but which symbols there are is known only afterwards. So a model whose
 * symbols get numbers is read twice; the first reading's memory is given back before the second.
 */
static enum sp_status reread(struct sp_job *job, const struct sp_sizes *sizes, const struct sp_bindings *bindings,
                             struct sp_error *err)
{
    if (bindings->count == 0 && !bindings->is_inferred)
        return SP_OK;
    sp_arena_destroy(job->arena);
    job->model = NULL;
    job->arena = bindings->arena;
    return read_model(job, sizes, bindings, err);
}

/* Reads the model with the sizes that the request gives and, with `assume`, with extents for what the inputs leave
   open. Bindings and notes live in an arena of their own until it becomes the job's, or is dropped because nothing is
   bound. */
static enum sp_status open_bound(struct sp_job *job, const struct sp_sizes *sizes, bool assume, int64_t batch,
                                 struct sp_bindings *bindings, struct sp_error *err)
{
    enum sp_status status = read_model(job, sizes, NULL, err);
    if (status != SP_OK)
        return status;
    struct sp_arena *arena = sp_arena_create(&job->budget);
    if (arena == NULL)
        return sp_fail_memory(err);
    bindings->arena = arena;
    bindings->hash_seed = job->hash_seed;
    bindings->watch = job->watch;
    status = sp_bind(job->model, sizes, assume, batch, bindings, err);
    if (status == SP_OK)
        status = reread(job, sizes, bindings, err);
    if (job->arena != arena) {
        sp_arena_destroy(arena);
        *bindings = (struct sp_bindings){.arena = job->arena,
                                         .hash_seed = job->hash_seed,
                                         .assumed_batch = bindings->assumed_batch,
                                         .assumed = bindings->assumed};
    }
    return status;
}

/* Shapes, which must be those that the request states. */
static enum sp_status infer_shapes(struct sp_job *job, struct sp_error *err)
{
    enum sp_status status = sp_infer_shapes_accepting(job->model, job->watch, &job->accepted, &job->summary, err);
    if (status == SP_OK)
        status = sp_model_verify_given(job->model, err);
    return status == SP_OK ? sp_expert_loads_attach(job->model, err) : status;
}

enum sp_status sp_job_open(const struct sp_job_options *options, struct sp_job **ret_job, struct sp_error *err)
{
    static const struct sp_sizes nothing;
    const struct sp_sizes *sizes = options->sizes != NULL ? options->sizes : &nothing;
    struct sp_bindings bindings = {0};
    struct sp_model_file file;
    enum sp_status status = open_file(options, sizes, &file, err);
    if (status != SP_OK)
        return status;
    struct sp_job *job = create(&file, options);
    if (job == NULL) {
        sp_model_file_release(&file);
        return sp_fail_memory(err);
    }
    job->owns_file = true;
    if (file.costs != NULL) {
        status = sp_costs_check_options(sizes, 0, err);
    } else {
        status = open_bound(job, sizes, false, 0, &bindings, err);
        if (status == SP_OK)
            status = infer_shapes(job, err);
    }
    if (status != SP_OK) {
        sp_job_destroy(job);
        return status;
    }
    *ret_job = job;
    return SP_OK;
}

/* ---- planning ---- */

/* Canonical: members in a fixed order, dims by name, defaults written out. */
static enum sp_status canonical_options(struct sp_arena *arena, const struct sp_plan_options *options,
                                        const char **ret_json, struct sp_error *err)
{
    struct sp_buf buf;
    struct sp_json json;
    char *text = NULL;
    bool ok;
    sp_buf_init(&buf, SP_OPTIONS_BYTES);
    sp_json_init_buf(&json, false, &buf);
    sp_json_begin_object(&json);
    sp_json_member_string(&json, "strategy", sp_search_strategy_name(options->strategy));
    if (options->any_sets)
        sp_json_member_string(&json, "placement", "any");
    if (options->max_replicas != SP_REPLICAS_NOT_GIVEN)
        sp_json_member_int(&json, "replicas", options->max_replicas);
    if (options->batch > 0)
        sp_json_member_int(&json, "batch", options->batch);
    sp_micro_batches_write(options->micro_batches, &json);
    ok = sp_sizes_write(arena, &options->sizes, &json);
    sp_json_member_bool(&json, "optimal", options->optimal);
    sp_json_member_double(&json, "tolerance", options->tolerance);
    sp_json_member_int(&json, "seed", (int64_t)options->seed);
    if (options->profile != NULL) {
        sp_json_key(&json, "profile");
        sp_profile_write(options->profile, &json);
    }
    if (options->constraints != NULL) {
        sp_json_key(&json, "constraints");
        sp_demands_write(options->constraints, &json);
    }
    if (options->traffic != NULL) {
        sp_json_key(&json, "workload");
        sp_traffic_write(options->traffic, &json);
    }
    if (options->time_limit_seconds > 0)
        sp_json_member_double(&json, "time_limit_seconds", options->time_limit_seconds);
    if (options->what_if)
        sp_json_member_bool(&json, "what_if", true);
    if (options->replan != NULL) {
        sp_json_key(&json, "replan");
        sp_replan_terms_write(options->replan, &json);
    }
    sp_json_end_object(&json);
    if (sp_json_finish(&json, NULL) == SP_OK && ok)
        text = sp_arena_string(arena, buf.data, buf.size);
    sp_buf_release(&buf);
    if (text == NULL)
        return sp_fail_memory(err);
    *ret_json = text;
    return SP_OK;
}

/* A model that contradicts itself only because extents were assumed deserves a message that says so. */
static void mention_assumptions(const struct sp_bindings *bindings, struct sp_error *err)
{
    if (err == NULL || err->status != SP_ERR_MODEL || bindings->note_count == 0 ||
        strcmp(bindings->notes[0].code, "DIMENSION_ASSUMED") != 0)
        return;
    size_t used = strlen(err->message);
    (void)snprintf(err->message + used, sizeof err->message - used,
                   " (Extents were assumed for %u dimensions that the request does not bind, first: %.200s Bind them.)",
                   bindings->note_count, bindings->notes[0].message);
}

static enum sp_status make_workload(struct sp_job *job, const struct sp_cluster *cluster,
                                    struct sp_workload **ret_workload, struct sp_error *err)
{
    uint32_t *order;
    if (job->file.costs == NULL)
        return sp_workload_from_model(job->arena, job->model, cluster, job->watch, ret_workload, err);
    return sp_workload_from_costs(job->arena, &job->file.costs->graph, cluster, job->hash_seed, ret_workload, &order,
                                  err);
}

/* A result for what was searched becomes one for the workload that it was made of. */
static enum sp_status expand(struct sp_arena *arena, const struct sp_contraction *contraction,
                             const struct sp_workload *workload, const struct sp_cluster *cluster,
                             struct sp_search_result *result, struct sp_error *err)
{
    if (contraction->workload == workload)
        return SP_OK;
    const struct sp_placement *placement = sp_contraction_expand(arena, contraction, workload, &result->placement);
    if (placement == NULL)
        return sp_fail_memory(err);
    result->placement = *placement;
    return sp_joint_evaluate(arena, workload, cluster, placement, NULL, &result->evaluation, err);
}

/* Measured times, and notes of what came of them. */
static enum sp_status apply_profile(const struct sp_job *job, const struct sp_profile *profile,
                                    const struct sp_cluster *cluster, struct sp_workload *workload,
                                    struct sp_bindings *bindings, struct sp_error *err)
{
    struct sp_profile_use use;
    enum sp_status status = sp_profile_apply(profile, cluster, job->hash_seed, workload, &use, err);
    if (status == SP_OK && !sp_note_profile(&use, bindings))
        status = sp_fail_memory(err);
    return status;
}

/* The constraints in terms of what is searched; *cluster becomes one whose devices have so much less memory. */
static enum sp_status resolve(const struct sp_job *job, const struct sp_demands *demands,
                              const struct sp_workload *workload, const struct sp_contraction *contraction,
                              const struct sp_cluster **cluster, const struct sp_constraints **ret_constraints,
                              struct sp_error *err)
{
    if (demands == NULL)
        return SP_OK;
    const struct sp_demanded of = {workload, contraction, *cluster, .can_split = job->model != NULL};
    enum sp_status status = sp_demands_resolve(job->arena, demands, &of, ret_constraints, err);
    if (status != SP_OK || (*ret_constraints)->reserved_bytes <= 0)
        return status;
    struct sp_cluster *rest = SP_NEW(job->arena, struct sp_cluster);
    if (rest == NULL)
        return sp_fail_memory(err);
    *rest = **cluster;
    rest->reserved_bytes = (*ret_constraints)->reserved_bytes;
    *cluster = rest;
    return SP_OK;
}

/* Searches for the best plan when moves from an earlier one count. Where the search finds nothing, the earlier one may
   still run. */
static enum sp_status search_again(struct sp_job *job, const struct sp_plan_options *options,
                                   const struct sp_contraction *contraction, const struct sp_dataflow *dataflow,
                                   struct sp_joint_options *joint, struct sp_plan *plan, struct sp_error *err)
{
    const struct sp_replanned of = {plan->workload, contraction, dataflow, plan->cluster, joint};
    struct sp_replan *replan = NULL;
    struct sp_migration *migration = NULL;
    struct sp_error why = {0};
    enum sp_status status = sp_replan_create(job->arena, &of, options->past, options->replan, &replan, err);
    if (status != SP_OK)
        return status;
    joint->listener = sp_replan_listener(replan);
    const enum sp_status found =
        sp_joint_search(job->arena, contraction->workload, dataflow, plan->cluster, joint, &job->result, err);
    status = found == SP_OK ? expand(job->arena, contraction, plan->workload, plan->cluster, job->result, err) : found;
    if (status == SP_OK || status == SP_ERR_NOFIT) {
        const enum sp_status chosen = sp_replan_choose(replan, &job->result, &migration, &why);
        if (chosen != SP_OK || (found == SP_ERR_NOFIT && migration != NULL)) {
            sp_error_clear(err);
            if (chosen != SP_OK && err != NULL)
                *err = why;
            status = chosen;
        }
    }
    plan->migration = migration;
    return status;
}

/* The result that was found; else searches. */
static enum sp_status find_result(struct sp_job *job, const struct sp_plan *plan,
                                  const struct sp_contraction *contraction, const struct sp_dataflow *dataflow,
                                  const struct sp_joint_options *joint, const struct sp_found_placement *found,
                                  struct sp_error *err)
{
    const struct sp_workload *workload = plan->workload;
    const struct sp_cluster *cluster = plan->cluster;
    struct sp_placement_record record = {0};
    if (found == NULL) {
        enum sp_status status =
            sp_joint_search(job->arena, contraction->workload, dataflow, cluster, joint, &job->result, err);
        return status == SP_OK ? expand(job->arena, contraction, workload, cluster, job->result, err) : status;
    }
    const struct sp_recorded_problem problem = {workload, dataflow, cluster};
    if (found->other != NULL)
        return found->other->search(found->other->context, &(struct sp_ready_job){job, workload, dataflow}, cluster,
                                    joint, &job->result, err);
    if (found->like != NULL)
        return sp_search_same_weights(job->arena, &problem, found->like, job->watch, &job->result,
                                      found->ret_moved_bytes, err);
    enum sp_status status = sp_placement_record_parse(job->arena, found->record, workload->node_count, &record, err);
    if (status == SP_OK)
        status = sp_joint_from_record(job->arena, &problem, &record, job->watch, &job->result, err);
    if (status == SP_OK)
        job->result->stopped = found->stopped;
    return status;
}

/* Where no plan fits that keeps each state where it is, one that moves some will do, and says so. */
static enum sp_status search_moving(struct sp_job *job, struct sp_plan *plan, struct sp_workload *workload,
                                    const struct sp_dataflow *dataflow, const struct sp_joint_options *joint,
                                    struct sp_bindings *bindings, struct sp_error *err)
{
    struct sp_error why = {0};
    struct sp_contraction contraction;
    struct sp_joint_options moving = *joint;
    const uint32_t count = workload->state_count;
    moving.store = NULL; /* of the workload with its states */
    workload->state_count = 0;
    enum sp_status status = sp_workload_contract(job->arena, workload, plan->cluster, &contraction, &why);
    if (status == SP_OK)
        status = find_result(job, plan, &contraction, dataflow, &moving, NULL, &why);
    workload->state_count = count;
    if (status == SP_ERR_NOFIT)
        return status; /* and `err` says why */
    if (status == SP_OK && !sp_note_moved_states(workload, job->result, bindings))
        status = sp_fail_memory(&why);
    if (err != NULL)
        *err = why;
    return status;
}

/* What is searched. */
struct searched {
    struct sp_workload *workload;
    struct sp_contraction contraction; /* of the workload */
    struct sp_dataflow *dataflow;      /* NULL: a graph of costs */
    struct sp_search_store *store;     /* that other plans of the model use, too; or NULL */
};

/* Where nothing of the request changes it, it is what other plans of the model have, too. */
static enum sp_status prepare(struct sp_job *job, const struct sp_cluster *cluster,
                              const struct sp_plan_options *options, struct sp_bindings *bindings,
                              struct searched *searched, struct sp_error *err)
{
    const struct sp_shared_work *shared = NULL;
    enum sp_status status = SP_OK;
    if (job->base != NULL && options->profile == NULL && options->constraints == NULL)
        status = sp_shared_work_find(job->base, cluster, &shared, err);
    if (status != SP_OK)
        return status;
    if (shared != NULL) {
        *searched = (struct searched){shared->workload, shared->contraction, shared->dataflow, shared->store};
        return SP_OK;
    }
    *searched = (struct searched){0};
    status = make_workload(job, cluster, &searched->workload, err);
    if (status == SP_OK && options->profile != NULL)
        status = apply_profile(job, options->profile, cluster, searched->workload, bindings, err);
    if (status == SP_OK && options->constraints != NULL)
        status = sp_demands_apply(options->constraints, job->model, cluster, searched->workload, err);
    if (status == SP_OK && job->micro != NULL)
        status = sp_micro_cut_workload(job->micro, searched->workload, err);
    if (status == SP_OK)
        status = sp_workload_contract(job->arena, searched->workload, cluster, &searched->contraction, err);
    if (status == SP_OK && job->model != NULL)
        status = sp_dataflow_create(job->arena, job->model, &searched->dataflow, err);
    return status;
}

static enum sp_status search(struct sp_job *job, const struct sp_cluster *cluster,
                             const struct sp_plan_options *options, const struct sp_found_placement *found,
                             struct sp_bindings *bindings, struct sp_plan *plan, struct sp_error *err)
{
    struct sp_joint_options joint;
    struct searched searched;
    enum sp_status status = prepare(job, cluster, options, bindings, &searched, err);
    if (status != SP_OK)
        return status;
    struct sp_workload *workload = searched.workload;
    const struct sp_contraction contraction = searched.contraction;
    const struct sp_dataflow *dataflow = searched.dataflow;
    sp_joint_options_init(&joint);
    joint.store = searched.store;
    status = resolve(job, options->constraints, workload, &contraction, &cluster, &joint.constraints, err);
    if (status != SP_OK)
        return status;
    joint.objective = options->objective;
    joint.strategy = options->strategy;
    joint.optimal = options->optimal;
    joint.tolerance = options->tolerance;
    joint.any_sets = options->any_sets;
    const bool has_replicas = options->max_replicas != SP_REPLICAS_NOT_GIVEN;
    joint.max_replicas = has_replicas ? options->max_replicas : 1;
    joint.max_copies = has_replicas ? options->max_replicas : options->strategy == SP_STRATEGY_AUTO ? 0 : 1;
    if (options->any_sets || options->traffic != NULL) /* whose copies are the service's */
        joint.max_copies = 1;
    joint.skips_routes = contraction.workload != workload || workload->micro_batches > 1;
    joint.skips_gathers = options->traffic != NULL;
    joint.seed = options->seed;
    joint.executor = job->executor;
    joint.skip_minimum_memory = job->skip_minimum_memory;
    joint.watch = job->watch;
    plan->cluster = cluster;
    plan->workload = workload;
    status = options->past != NULL ? search_again(job, options, &contraction, dataflow, &joint, plan, err)
                                   : find_result(job, plan, &contraction, dataflow, &joint, found, err);
    if (status == SP_ERR_NOFIT && options->past == NULL && found == NULL && job->micro == NULL &&
        sp_states_join_nodes(workload))
        status = search_moving(job, plan, workload, dataflow, &joint, bindings, err);
    plan->result = job->result;
    if (status == SP_OK && (!sp_note_first_route(job->result, bindings) || !sp_note_first_copy(job->result, bindings) ||
                            !sp_note_caches_stay(plan, bindings) || !sp_note_streamed(plan, bindings) ||
                            !sp_note_gathered(plan, bindings) || !sp_note_experts(plan, bindings)))
        status = sp_fail_memory(err);
    return status == SP_OK ? sp_note_undivided(plan, dataflow, bindings, err) : status;
}

static enum sp_status make_plan(struct sp_job *job, const struct sp_cluster *cluster,
                                const struct sp_plan_options *options, const struct sp_found_placement *found,
                                struct sp_bindings *bindings, struct sp_plan **ret_plan, struct sp_error *err)
{
    struct sp_plan *plan = SP_NEW(job->arena, struct sp_plan);
    if (plan == NULL || !sp_note_replaced(job->model, bindings) || !sp_note_accepted(&job->accepted, bindings) ||
        !sp_note_unknown_operators(&job->summary, bindings) || !sp_note_containers(job->model, bindings) ||
        !sp_note_links(cluster, bindings))
        return sp_fail_memory(err);
    if (job->model != NULL) {
        struct sp_states states;
        enum sp_status status = sp_model_states(job->arena, job->model, &states, err);
        if (status == SP_OK && !sp_note_states(&states, bindings))
            status = sp_fail_memory(err);
        if (status != SP_OK)
            return status;
    }
    plan->arena = job->arena;
    plan->configuration = SP_PLAN_CONFIGURATION;
    plan->model = job->model;
    plan->file = &job->file;
    plan->cluster = cluster;
    plan->objective = options->objective;
    plan->strategy = sp_search_strategy_name(options->strategy);
    plan->seed = options->seed;
    plan->micro = job->micro;
    plan->tolerance = options->tolerance;
    plan->max_latency_seconds = options->constraints != NULL ? sp_demands_latency(options->constraints) : 0;
    if (job->model != NULL)
        plan->model_name = job->name[0] != '\0' ? job->name : job->model->graph->name;
    else
        plan->model_name = sp_costs_name(job);
    memcpy(plan->model_sha256, job->sha256, sizeof plan->model_sha256);
    enum sp_status status = canonical_options(job->arena, options, &plan->options_json, err);
    if (status == SP_OK)
        status = search(job, cluster, options, found, bindings, plan, err);
    if (status == SP_OK && ((plan->result->stopped && !sp_note_stopped(bindings)) ||
                            (plan->result->failure != NULL && !sp_note_search_failed(plan->result->failure, bindings))))
        status = sp_fail_memory(err);
    plan->note_count = bindings->note_count;
    plan->notes = bindings->notes;
    if (status == SP_OK)
        status = sp_plan_finish(plan, err);
    if (status != SP_OK)
        return status;
    *ret_plan = plan;
    return SP_OK;
}

/* An attempt to open the model: the extents for what is not bound, and whether declared shapes that contradict what
   follows from these are taken. */
struct attempt {
    int64_t batch, assumed;
    bool accepts;
};

/* Where the extents may be why it failed, `bindings` says how many were assumed; else that none were. */
static enum sp_status open_assumed(const struct sp_model_file *file, const struct sp_job_options *job_options,
                                   const struct sp_plan_options *options, struct attempt attempt,
                                   struct sp_job **ret_job, struct sp_bindings *bindings, struct sp_error *err)
{
    struct sp_job *job = create(file, job_options);
    *bindings = (struct sp_bindings){.assumed = attempt.assumed, .assumed_batch = attempt.batch};
    if (job == NULL) {
        (void)sp_fail_memory(err);
        return SP_ERR_MEMORY;
    }
    enum sp_status status = open_bound(job, &options->sizes, true, options->batch, bindings, err);
    bool contradicted = false;
    if (status == SP_OK) {
        job->accepted.refuses = !attempt.accepts && bindings->assumed_count > 0;
        job->model->loads = options->traffic != NULL ? options->traffic->loads : NULL;
        status = infer_shapes(job, err);
        contradicted = status == SP_ERR_MODEL;
    }
    if (status == SP_OK)
        status = sp_estimate_open(job->model, bindings, err);
    if (status != SP_OK) {
        mention_assumptions(bindings, err);
        sp_job_destroy(job);
        bindings->assumed_count = contradicted ? bindings->assumed_count : 0;
        bindings->has_assumed_batch = contradicted && bindings->has_assumed_batch;
        return status;
    }
    *ret_job = job;
    return SP_OK;
}

/*
 * A model may not bear the assumed extents: its position table is shorter, it declares other sizes, or a window is longer
 * than what was taken for the batch. So smaller ones are tried, halving; then the same with declared sizes that
 * contradict; then with one extent for batches, too. A model that is wrong anyway costs as many short readings.
 */
static enum sp_status open_for_plan(const struct sp_model_file *file, const struct sp_job_options *job_options,
                                    const struct sp_plan_options *options, struct sp_job **ret_job,
                                    struct sp_bindings *bindings, struct sp_error *err)
{
    enum { STRICT, ACCEPTING, ANY_BATCH };
    enum sp_status first = SP_OK;
    for (int round = STRICT; round <= ANY_BATCH; round++) {
        bool goes_on = false;
        for (int64_t assumed = SP_ASSUMED_DIMENSION; assumed >= 1; assumed /= 2) {
            const struct attempt attempt = {round == ANY_BATCH ? assumed : SP_ASSUMED_BATCH, assumed, round != STRICT};
            struct sp_error why = {0};
            enum sp_status status = open_assumed(file, job_options, options, attempt, ret_job, bindings, &why);
            if (status == SP_OK) {
                sp_error_clear(err);
                return SP_OK;
            }
            if (first == SP_OK || (round == ACCEPTING && assumed == SP_ASSUMED_DIMENSION)) {
                first = status;
                if (err != NULL)
                    *err = why;
            }
            goes_on = bindings->assumed_count > 0 || bindings->has_assumed_batch;
            if (bindings->assumed_count == 0 && !(round == ANY_BATCH && goes_on))
                break;
        }
        if (!goes_on || (round == ACCEPTING && !bindings->has_assumed_batch))
            break;
    }
    return first;
}

/* The model of one micro-batch. It is read at the size of whole requests first, to see whether these may be cut. */
static enum sp_status open_cut(const struct sp_model_file *file, const struct sp_job_options *job_options,
                               const struct sp_plan_options *options, uint32_t count, struct sp_job **ret_job,
                               struct sp_bindings *bindings, struct sp_error *err)
{
    struct sp_budget budget = {.limit =
                                   job_options->memory_budget != 0 ? job_options->memory_budget : SP_DEFAULT_JOB_BYTES};
    struct sp_arena *arena = sp_arena_create(&budget);
    struct sp_micro_batches micro;
    struct sp_plan_options cut;
    struct sp_job *whole = NULL, *part = NULL;
    if (arena == NULL)
        return sp_fail_memory(err);
    enum sp_status status = open_for_plan(file, job_options, options, &whole, bindings, err);
    if (status == SP_OK)
        status = sp_micro_find(
            arena, &(struct sp_micro_request){file, whole->hash_seed, whole->watch, whole->model, count}, &micro, err);
    if (status == SP_OK)
        status = sp_micro_note_constants(arena, whole->model, &micro, err);
    sp_job_destroy(whole);
    if (status == SP_OK)
        status = sp_micro_options(arena, options, &micro, &cut, err);
    if (status == SP_OK)
        status = open_for_plan(file, job_options, &cut, &part, bindings, err);
    if (status == SP_OK)
        status = sp_micro_check_constants(&micro, part->model, err);
    if (status == SP_OK && (part->micro = sp_micro_copy(part->arena, &micro)) == NULL)
        status = sp_fail_memory(err);
    if (status == SP_OK)
        *ret_job = part;
    else
        sp_job_destroy(part);
    sp_arena_destroy(arena);
    return status;
}

/* A graph of costs has nothing to bind. */
static enum sp_status open_costs(const struct sp_model_file *file, const struct sp_job_options *job_options,
                                 const struct sp_cluster *cluster, const struct sp_plan_options *options,
                                 struct sp_job **ret_job, struct sp_bindings *bindings, struct sp_error *err)
{
    enum sp_status status = sp_costs_check_options(&options->sizes, options->batch, err);
    if (status == SP_OK && options->traffic != NULL && options->traffic->loads != NULL) {
        status = sp_fail(err, SP_ERR_REQUEST, "NO_EXPERTS",
                         "A graph of costs has no operators, so an expected load of experts says nothing of it.");
        (void)sp_error_at(err, "%s", options->traffic->loads->where);
    }
    if (status != SP_OK)
        return status;
    struct sp_job *job = create(file, job_options);
    if (job == NULL) {
        (void)sp_fail_memory(err);
        return SP_ERR_MEMORY;
    }
    *bindings = (struct sp_bindings){.arena = job->arena, .hash_seed = job->hash_seed};
    if (!sp_note_unknown_devices(&file->costs->graph, cluster, bindings)) {
        sp_job_destroy(job);
        (void)sp_fail_memory(err);
        return SP_ERR_MEMORY;
    }
    *ret_job = job;
    return SP_OK;
}

/* The job of a plan, and its notes. */
static enum sp_status open_planned(const struct sp_job_options *job_options, const struct sp_cluster *cluster,
                                   const struct sp_plan_options *options, uint32_t micro_batches,
                                   struct sp_job **ret_job, struct sp_bindings *bindings, struct sp_error *err)
{
    struct sp_model_file file;
    if (options->by_price) {
        (void)sp_fail(err, SP_ERR_REQUEST, "COST_NEEDS_WORKLOAD",
                      "The objective cost is for services: say in a workload what they are asked, and within which "
                      "limits.");
        (void)sp_error_at(err, "/objective");
        return SP_ERR_REQUEST;
    }
    enum sp_status status = open_file(job_options, &options->sizes, &file, err);
    if (status != SP_OK)
        return status;
    status = options->any_sets ? sp_costs_check_any_sets(options, file.costs != NULL, err)
                               : sp_plan_options_check_routes(options, err);
    if (status == SP_OK)
        status = sp_micro_check_options(options, file.costs != NULL, err);
    if (status == SP_OK && file.costs != NULL)
        status = open_costs(&file, job_options, cluster, options, ret_job, bindings, err);
    else if (status == SP_OK)
        status = micro_batches > 1 ? open_cut(&file, job_options, options, micro_batches, ret_job, bindings, err)
                                   : open_for_plan(&file, job_options, options, ret_job, bindings, err);
    if (status == SP_OK)
        (*ret_job)->owns_file = true;
    else
        sp_model_file_release(&file);
    return status;
}

enum sp_status sp_job_ready(const struct sp_job_options *job_options, const struct sp_cluster *cluster,
                            const struct sp_plan_options *options, struct sp_ready_job *ret_ready, struct sp_error *err)
{
    struct sp_bindings bindings = {0};
    struct searched searched;
    struct sp_job *job = NULL;
    enum sp_status status = open_planned(job_options, cluster, options, options->micro_batches, &job, &bindings, err);
    if (status != SP_OK)
        return status;
    status = prepare(job, cluster, options, &bindings, &searched, err);
    if (status == SP_OK)
        *ret_ready = (struct sp_ready_job){job, searched.workload, searched.dataflow};
    else
        sp_job_destroy(job);
    return status;
}

enum sp_status sp_job_plan_from(const struct sp_job_options *job_options, const struct sp_cluster *cluster,
                                const struct sp_plan_options *options, const struct sp_found_placement *found,
                                struct sp_job **ret_job, struct sp_plan **ret_plan, struct sp_error *err)
{
    struct sp_bindings bindings = {0};
    struct sp_job *job = NULL;
    const uint32_t micro_batches = sp_micro_count(options, found != NULL ? found->micro_batches : 0);
    enum sp_status status = open_planned(job_options, cluster, options, micro_batches, &job, &bindings, err);
    if (status != SP_OK)
        return status;
    if (found != NULL && found->record == NULL && found->like == NULL && found->other == NULL)
        found = NULL;
    status = make_plan(job, cluster, options, found, &bindings, ret_plan, err);
    if (status != SP_OK) {
        mention_assumptions(&bindings, err);
        sp_job_destroy(job);
        return status;
    }
    *ret_job = job;
    return SP_OK;
}

enum sp_status sp_job_plan(const struct sp_job_options *job_options, const struct sp_cluster *cluster,
                           const struct sp_plan_options *options, struct sp_job **ret_job, struct sp_plan **ret_plan,
                           struct sp_error *err)
{
    return sp_job_plan_from(job_options, cluster, options, NULL, ret_job, ret_plan, err);
}

enum sp_status sp_job_open_base(const struct sp_job_options *job_options, const struct sp_plan_options *options,
                                struct sp_job **ret_base, struct sp_error *err)
{
    struct sp_bindings bindings = {0};
    struct sp_model_file file;
    enum sp_status status = open_file(job_options, &options->sizes, &file, err);
    if (status != SP_OK)
        return status;
    *ret_base = NULL;
    if (file.costs == NULL)
        status = open_for_plan(&file, job_options, options, ret_base, &bindings, err);
    if (status != SP_OK || file.costs != NULL) {
        sp_model_file_release(&file);
        return status;
    }
    (*ret_base)->owns_file = true;
    (*ret_base)->bindings = bindings;
    return SP_OK;
}

/* The base's notes, to which the plan's are added. */
static bool copy_notes(struct sp_job *job, struct sp_bindings *bindings)
{
    *bindings = job->base->bindings;
    bindings->arena = job->arena;
    bindings->watch = job->watch;
    bindings->note_capacity = bindings->note_count;
    bindings->notes = SP_NEW_ARRAY(job->arena, bindings->note_count, struct sp_plan_note);
    if (bindings->notes == NULL)
        return false;
    if (bindings->note_count > 0)
        memcpy(bindings->notes, job->base->bindings.notes, bindings->note_count * sizeof *bindings->notes);
    return true;
}

enum sp_status sp_job_plan_on_base(struct sp_job *base, const struct sp_job_options *job_options,
                                   const struct sp_cluster *cluster, const struct sp_plan_options *options,
                                   struct sp_job **ret_job, struct sp_plan **ret_plan, struct sp_error *err)
{
    struct sp_bindings bindings;
    enum sp_status status =
        options->any_sets ? sp_costs_check_any_sets(options, false, err) : sp_plan_options_check_routes(options, err);
    struct sp_job *job = status == SP_OK ? create(&base->file, job_options) : NULL;
    if (status != SP_OK)
        return status;
    if (job == NULL)
        return sp_fail_memory(err);
    base->users++;
    job->base = base;
    job->budget.used -= sp_model_file_memory(&base->file); /* the base counts it */
    job->model = base->model;
    job->summary = base->summary;
    job->accepted = base->accepted;
    if (!copy_notes(job, &bindings))
        status = sp_fail_memory(err);
    if (status == SP_OK)
        status = make_plan(job, cluster, options, NULL, &bindings, ret_plan, err);
    if (status != SP_OK) {
        mention_assumptions(&bindings, err);
        sp_job_destroy(job);
        return status;
    }
    *ret_job = job;
    return SP_OK;
}
