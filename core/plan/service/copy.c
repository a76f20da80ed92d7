#include "plan/service/copy.h"

#include <math.h>
#include <string.h>

#include "base/array.h"
#include "search/phases.h"

/* Of one phase that was looked at. */
struct known_phase {
    struct sp_cut_sizes at;
    struct sp_phase_figures figures;
};

struct sp_copy {
    const struct sp_copy_question *question;
    const struct sp_cluster *cluster;
    struct sp_cut_sizes at; /* that were planned */
    struct sp_job *job;
    struct sp_plan *plan;
    uint32_t known_count, known_capacity;
    struct known_phase **known;
};

/* What a job may take beside those that are held meanwhile. */
static struct sp_job_options beside(const struct sp_copy_question *question, const struct sp_job *held)
{
    struct sp_job_options rest = *question->job_options;
    const size_t limit = rest.memory_budget != 0 ? rest.memory_budget : SP_DEFAULT_JOB_BYTES;
    size_t used = 0;
    for (; held != NULL; held = held->next)
        used += held->budget.used;
    rest.memory_budget = limit > used ? limit - used : 1;
    rest.skip_minimum_memory = true;
    return rest;
}

static struct sp_plan_options options_of(const struct sp_copy_question *question, const struct sp_sizes *sizes)
{
    struct sp_plan_options options = *question->options;
    options.sizes = *sizes;
    options.what_if = false;
    if (options.max_replicas == SP_REPLICAS_NOT_GIVEN)
        options.max_replicas = 1; /* copies are the service's, of which this is one */
    return options;
}

static enum sp_status plan_copy(const struct sp_copy_question *question, const struct sp_cluster *cluster,
                                const struct sp_cut_sizes *at, const struct sp_found_placement *found,
                                struct sp_copy **ret_copy, struct sp_error *err)
{
    const struct sp_plan_options options = options_of(question, &at->sizes);
    const struct sp_job_options job_options = beside(question, NULL);
    struct sp_copy *copy = SP_NEW(question->arena, struct sp_copy);
    if (copy == NULL)
        return sp_fail_memory(err);
    *copy = (struct sp_copy){.question = question, .cluster = cluster, .at = *at};
    enum sp_status status = sp_job_plan_from(&job_options, cluster, &options, found, &copy->job, &copy->plan, err);
    if (status == SP_OK)
        *ret_copy = copy;
    return status;
}

enum sp_status sp_copy_plan(const struct sp_copy_question *question, const struct sp_cluster *cluster,
                            const struct sp_cut_sizes *at, struct sp_copy **ret_copy, struct sp_error *err)
{
    const struct sp_found_placement found = {.micro_batches = at->micro_batches};
    return plan_copy(question, cluster, at, &found, ret_copy, err);
}

/* ---- several phases ---------------------------------------------------------------------------------------------- */

struct together {
    const struct sp_copy_question *question;
    uint32_t count, planned;
    const struct sp_copy_phase *phases;
};

/* The other phases' jobs, beside that of the one that is planned. */
static enum sp_status open_others(const struct together *together, const struct sp_ready_job *of,
                                  const struct sp_cluster *cluster, struct sp_ready_job *jobs, struct sp_error *err)
{
    const struct sp_copy_question *question = together->question;
    const struct sp_job_options held = beside(question, of->job);
    const size_t share = held.memory_budget / together->count;
    enum sp_status status = SP_OK;
    for (uint32_t p = 0; status == SP_OK && p < together->count; p++) {
        struct sp_plan_options options = options_of(question, &together->phases[p].sizes);
        struct sp_job_options job_options = held;
        options.micro_batches = 1;
        job_options.memory_budget = share > 0 ? share : 1;
        if (p == together->planned)
            jobs[p] = *of;
        else
            status = sp_job_ready(&job_options, cluster, &options, &jobs[p], err);
    }
    return status;
}

static enum sp_status search_together(void *context, const struct sp_ready_job *of, const struct sp_cluster *cluster,
                                      const struct sp_joint_options *options, struct sp_search_result **ret_result,
                                      struct sp_error *err)
{
    const struct together *together = context;
    struct sp_arena *arena = of->job->arena;
    struct sp_ready_job *jobs = SP_NEW_ARRAY(arena, together->count, struct sp_ready_job);
    struct sp_phase *phases = SP_NEW_ARRAY(arena, together->count, struct sp_phase);
    const struct sp_dataflow **dataflows = SP_NEW_ARRAY(arena, together->count, const struct sp_dataflow *);
    struct sp_phases_result *result;
    if (jobs == NULL || phases == NULL || dataflows == NULL)
        return sp_fail_memory(err);
    enum sp_status status = open_others(together, of, cluster, jobs, err);
    for (uint32_t p = 0; status == SP_OK && p < together->count; p++) {
        phases[p] =
            (struct sp_phase){together->phases[p].name, together->phases[p].runs, jobs[p].job->model, jobs[p].workload};
        dataflows[p] = jobs[p].dataflow;
    }
    if (status == SP_OK)
        status = sp_phases_search(
            arena, &(struct sp_phases_request){together->count, phases, dataflows, cluster, options}, &result, err);
    if (status == SP_OK) {
        *ret_result = result->phases[together->planned];
        result->phases[together->planned] = NULL; /* the caller's */
        sp_phases_result_release(result);
    }
    for (uint32_t p = 0; p < together->count; p++)
        if (p != together->planned)
            sp_job_destroy(jobs[p].job);
    return status;
}

enum sp_status sp_copy_plan_phases(const struct sp_copy_question *question, const struct sp_cluster *cluster,
                                   uint32_t count, const struct sp_copy_phase *phases, uint32_t planned,
                                   struct sp_copy **ret_copy, struct sp_error *err)
{
    struct together together = {question, count, planned, phases};
    const struct sp_other_search other = {&together, search_together};
    const struct sp_found_placement found = {.other = &other, .micro_batches = 1};
    return plan_copy(question, cluster, &(struct sp_cut_sizes){phases[planned].sizes, 1}, &found, ret_copy, err);
}

/* ------------------------------------------------------------------------------------------------------------------ */

void sp_copy_destroy(struct sp_copy *copy)
{
    if (copy == NULL)
        return;
    sp_job_destroy(copy->job);
    copy->job = NULL;
}

const struct sp_plan *sp_copy_plan_of(const struct sp_copy *copy)
{
    return copy->plan;
}

/* Behind the copy's jobs, with which it goes. */
static void hold_job(struct sp_copy *copy, struct sp_job *job)
{
    struct sp_job *last = copy->job;
    while (last->next != NULL)
        last = last->next;
    last->next = job;
}

void sp_copy_join(struct sp_copy *copy, struct sp_copy *other, struct sp_job **ret_job, const struct sp_plan **ret_plan)
{
    *ret_job = other->job;
    *ret_plan = other->plan;
    hold_job(copy, other->job);
    other->job = NULL;
    other->plan = NULL;
}

void sp_copy_take(struct sp_copy *copy, struct sp_job **ret_job, struct sp_plan **ret_plan)
{
    *ret_job = copy->job;
    *ret_plan = copy->plan;
    copy->job = NULL;
    copy->plan = NULL;
}

/* ---- what a phase takes ----------------------------------------------------------------------------------------- */

static bool is_same(const struct sp_cut_sizes *at, const struct sp_cut_sizes *other)
{
    const struct sp_sizes *a = &at->sizes, *b = &other->sizes;
    if (at->micro_batches != other->micro_batches || a->dim_count != b->dim_count || a->given.values != b->given.values)
        return false;
    for (uint32_t i = 0; i < a->dim_count; i++) {
        if (strcmp(a->dim_names[i], b->dim_names[i]) != 0 || a->dim_values[i] != b->dim_values[i])
            return false;
    }
    return true;
}

/* Of one device of each stage: all that it holds, and how much of that are states, those of all micro-batches. */
static bool take_memory(struct sp_arena *arena, const struct sp_plan *plan, struct sp_phase_figures *figures)
{
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    const struct sp_workload *workload = plan->workload;
    const double runs = sp_plan_runs(plan);
    double *bytes = SP_NEW_ARRAY(arena, evaluation->stage_count, double);
    double *states = SP_NEW_ARRAY(arena, evaluation->stage_count, double);
    double *capacity = SP_NEW_ARRAY(arena, evaluation->stage_count, double);
    if (bytes == NULL || states == NULL || capacity == NULL)
        return false;
    figures->excess_bytes = evaluation->worst_excess_bytes;
    for (uint32_t s = 0; s < evaluation->stage_count; s++) {
        bytes[s] = evaluation->stages[s].total_bytes;
        states[s] = 0;
        capacity[s] = evaluation->stages[s].capacity_bytes;
        figures->memory_bytes = fmax(figures->memory_bytes, bytes[s]);
    }
    for (uint32_t i = 0; i < workload->state_count; i++) {
        const uint32_t present = workload->states[i].present, producer = workload->tensors[present].producer;
        const uint32_t stage = plan->result->placement.stage_of[producer];
        figures->state_bytes += runs * workload->tensors[present].bytes;
        states[stage] += runs * sp_plan_local_bytes(plan, stage, sp_plan_layout(plan, producer, present), present);
    }
    figures->stage_count = evaluation->stage_count;
    figures->stage_bytes = bytes;
    figures->stage_state_bytes = states;
    figures->stage_capacity = capacity;
    return true;
}

static enum sp_status take_figures(struct sp_arena *arena, const struct sp_plan *plan, struct sp_phase_figures *figures,
                                   struct sp_error *err)
{
    figures->latency_seconds = plan->bars.latency_seconds;
    figures->interval_seconds = plan->bars.interval_seconds;
    figures->bottleneck = sp_arena_string(arena, plan->bottleneck, strlen(plan->bottleneck));
    return figures->bottleneck != NULL && take_memory(arena, plan, figures) ? SP_OK : sp_fail_memory(err);
}

/* A plan of another phase. */
struct like {
    struct sp_job *job;
    struct sp_plan *plan;
    double moved_bytes;
};

/* The same model at other sizes, on the same placement. */
static enum sp_status plan_like(const struct sp_copy *copy, const struct sp_cut_sizes *at, struct like *ret_like,
                                struct sp_error *err)
{
    const struct sp_plan *planned = copy->plan;
    const struct sp_placed_model placed = {planned->workload, planned->result};
    const struct sp_found_placement found = {
        .like = &placed, .ret_moved_bytes = &ret_like->moved_bytes, .micro_batches = at->micro_batches};
    const struct sp_plan_options options = options_of(copy->question, &at->sizes);
    const struct sp_job_options job_options = beside(copy->question, copy->job);
    return sp_job_plan_from(&job_options, copy->cluster, &options, &found, &ret_like->job, &ret_like->plan, err);
}

enum sp_status sp_copy_add_phase(struct sp_copy *copy, const struct sp_cut_sizes *at, struct sp_job **ret_job,
                                 struct sp_plan **ret_plan, struct sp_error *err)
{
    struct like like = {0};
    *ret_plan = NULL;
    if (is_same(at, &copy->at))
        return SP_OK;
    enum sp_status status = plan_like(copy, at, &like, err);
    if (status != SP_OK)
        return status;
    hold_job(copy, like.job);
    *ret_job = like.job;
    *ret_plan = like.plan;
    return SP_OK;
}

static enum sp_status look(struct sp_copy *copy, const struct sp_cut_sizes *at, struct sp_phase_figures *figures,
                           struct sp_error *err)
{
    struct like like = {0};
    enum sp_status status = plan_like(copy, at, &like, err);
    figures->moved_bytes = like.moved_bytes;
    if (status == SP_OK)
        status = take_figures(copy->question->arena, like.plan, figures, err);
    sp_job_destroy(like.job);
    return status;
}

enum sp_status sp_copy_evaluate(struct sp_copy *copy, const struct sp_cut_sizes *at,
                                const struct sp_phase_figures **ret_figures, struct sp_error *err)
{
    struct sp_arena *arena = copy->question->arena;
    for (uint32_t i = 0; i < copy->known_count; i++) {
        if (is_same(&copy->known[i]->at, at)) {
            *ret_figures = &copy->known[i]->figures;
            return SP_OK;
        }
    }
    struct known_phase *known = SP_NEW(arena, struct known_phase);
    if (known == NULL || !SP_MAKE_ROOM(arena, copy->known, copy->known_count, copy->known_capacity, 1))
        return sp_fail_memory(err);
    known->at = *at;
    enum sp_status status = is_same(at, &copy->at) ? take_figures(arena, copy->plan, &known->figures, err)
                                                   : look(copy, at, &known->figures, err);
    if (status != SP_OK)
        return status;
    copy->known[copy->known_count++] = known;
    *ret_figures = &known->figures;
    return SP_OK;
}

/* ---- sizes -------------------------------------------------------------------------------------------------------- */

static bool binds(const struct sp_sizes *sizes, const char *name)
{
    for (uint32_t i = 0; i < sizes->dim_count; i++) {
        if (strcmp(sizes->dim_names[i], name) == 0)
            return true;
    }
    return false;
}

enum sp_status sp_copy_sizes(const struct sp_copy_question *question, const struct sp_sizes *of_phase,
                             struct sp_sizes *ret_sizes, struct sp_error *err)
{
    const struct sp_sizes *given = &question->options->sizes;
    const uint32_t most = given->dim_count + of_phase->dim_count;
    const char **names = SP_NEW_ARRAY(question->arena, most, const char *);
    int64_t *values = SP_NEW_ARRAY(question->arena, most, int64_t);
    uint32_t count = 0;
    if (names == NULL || values == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < most; i++) {
        const bool is_given = i < given->dim_count;
        const struct sp_sizes *from = is_given ? given : of_phase;
        const uint32_t at = is_given ? i : i - given->dim_count;
        if (is_given && binds(of_phase, from->dim_names[at]))
            continue;
        names[count] = from->dim_names[at];
        values[count++] = from->dim_values[at];
    }
    *ret_sizes = *given;
    ret_sizes->dim_count = count;
    ret_sizes->dim_names = names;
    ret_sizes->dim_values = values;
    if (of_phase->given.value_count > 0) {
        ret_sizes->given.value_count = of_phase->given.value_count;
        ret_sizes->given.values = of_phase->given.values;
    }
    return SP_OK;
}
