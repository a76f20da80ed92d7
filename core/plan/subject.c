#include "plan/subject.h"

#include <stdlib.h>
#include <string.h>

#include "check/check.h"
#include "infer/complete.h"
#include "infer/stored.h"
#include "plan/cost_graph.h"
#include "plan/service/service.h"

#define OPERANDS_LOOKED_AT 64 /* outputs of one node whose devices are put together */

static struct sp_subject *create(void)
{
    return calloc(1, sizeof(struct sp_subject));
}

void sp_subject_destroy(struct sp_subject *subject)
{
    if (subject == NULL)
        return;
    sp_job_destroy(subject->owned_job);
    sp_arena_destroy(subject->owned_arena);
    free(subject);
}

/* ---- where nodes run ------------------------------------------------------------------------------------------- */

/* The shardings of the operands [first, first + count) that are known, at most OPERANDS_LOOKED_AT different ones. */
static uint32_t known_shardings(const struct sp_node_specs *specs, uint32_t first, uint32_t count,
                                const struct sp_sharding **ret_known)
{
    uint32_t known = 0;
    for (uint32_t i = first; specs->operands != NULL && i < first + count && known < OPERANDS_LOOKED_AT; i++) {
        const struct sp_sharding *sharding = specs->operands[i].sharding;
        if (sharding != NULL && (known == 0 || ret_known[known - 1] != sharding))
            ret_known[known++] = sharding;
    }
    return known;
}

/* A node runs where its outputs are made, or, where nothing is said of them, where its inputs are. */
static enum sp_status place_node(struct sp_subject *subject, uint32_t index, struct sp_subject_node *place,
                                 struct sp_error *err)
{
    const struct sp_node *node = &subject->model->graph->nodes[index];
    const struct sp_node_specs *specs = &subject->assignment->nodes[sp_dataflow_node(subject->dataflow, node)];
    const struct sp_sharding *known[OPERANDS_LOOKED_AT], *whole = NULL;
    uint32_t count = known_shardings(specs, node->input_count, node->output_count, known);
    if (count == 0)
        count = known_shardings(specs, 0, node->input_count, known);
    place->has_stage = specs->has_stage;
    place->stage = specs->stage;
    if (specs->has_stage && specs->stage >= subject->stage_count && specs->stage < INT32_MAX)
        subject->stage_count = specs->stage + 1;
    enum sp_status status =
        sp_view_cache_whole(subject->assignment->cache, 0, subject->device_count, count, known, &whole, err);
    if (status == SP_OK && whole != NULL) {
        place->device_count = whole->first[1];
        place->devices = whole->devices;
    }
    return status;
}

/* Completes the assignment and says where each node runs. */
static enum sp_status complete(struct sp_subject *subject, const char *configuration, struct sp_error *err)
{
    const struct sp_graph *graph = subject->model->graph;
    struct sp_subject_node *nodes = SP_NEW_ARRAY(subject->arena, graph->node_count, struct sp_subject_node);
    enum sp_status status = nodes != NULL ? SP_OK : sp_fail_memory(err);
    if (status == SP_OK)
        status = sp_dataflow_create(subject->arena, subject->model, &subject->dataflow, err);
    if (status == SP_OK)
        status = sp_assignment_completed(subject->arena, subject->dataflow, configuration, subject->device_count,
                                         &subject->assignment, err);
    for (uint32_t i = 0; status == SP_OK && i < graph->node_count; i++)
        status = place_node(subject, i, &nodes[i], err);
    subject->nodes = nodes;
    return status;
}

/* ---- a model --------------------------------------------------------------------------------------------------- */

static enum sp_status find_configuration(const struct sp_model *model, const char *name,
                                         const struct sp_device_configuration **ret_found, struct sp_error *err)
{
    if (model->configuration_count == 0)
        return sp_fail(err, SP_ERR_REQUEST, "NO_CONFIGURATION",
                       "The model has no multi-device configuration; annotate it with 'shardplan plan' or 'shardplan "
                       "infer', or give a plan.");
    if (name == NULL && model->configuration_count > 1)
        return sp_fail(err, SP_ERR_REQUEST, "WHICH_CONFIGURATION",
                       "The model has %u configurations; say which one is meant: '%.100s', '%.100s'%s.",
                       model->configuration_count, model->configurations[0].name, model->configurations[1].name,
                       model->configuration_count > 2 ? ", .." : "");
    for (uint32_t i = 0; i < model->configuration_count; i++) {
        const struct sp_device_configuration *configuration = &model->configurations[i];
        if (name != NULL && strcmp(configuration->name, name) != 0)
            continue;
        *ret_found = configuration;
        return SP_OK;
    }
    return sp_fail(err, SP_ERR_REQUEST, "NO_CONFIGURATION", "The model has no configuration '%.200s'.", name);
}

static enum sp_status check_given(struct sp_subject *subject, const char *configuration, struct sp_error *err)
{
    struct sp_diagnostics list = {.arena = subject->arena};
    enum sp_status status = sp_check_annotations(subject->model, configuration, &list, err);
    for (uint32_t i = 0; status == SP_OK && i < list.count; i++) {
        const struct sp_diagnostic *item = &list.items[i];
        if (item->severity == SP_SEVERITY_ERROR)
            return sp_fail(err, SP_ERR_MODEL, item->code->code, "%s", item->message);
    }
    return status;
}

static void take_job(struct sp_subject *subject, struct sp_job *job)
{
    subject->job = job;
    subject->arena = job->arena;
    if (job->model != NULL)
        subject->name = job->name[0] != '\0' ? job->name : job->model->graph->name;
    else
        subject->name = sp_costs_name(job);
    subject->model = job->model;
    subject->file = &job->file;
}

static enum sp_status read_configuration(struct sp_subject *subject, const char *name, struct sp_error *err)
{
    const struct sp_device_configuration *configuration = NULL;
    enum sp_status status = find_configuration(subject->model, name, &configuration, err);
    if (status != SP_OK || configuration == NULL)
        return status;
    status = check_given(subject, configuration->name, err);
    if (status != SP_OK)
        return status;
    subject->device_count = configuration->num_devices;
    if (configuration->device_count == (uint64_t)configuration->num_devices)
        subject->device_names = configuration->devices;
    return complete(subject, configuration->name, err);
}

enum sp_status sp_subject_from_model(const struct sp_job_options *options, const char *configuration,
                                     struct sp_subject **ret_subject, struct sp_error *err)
{
    struct sp_subject *subject = create();
    if (subject == NULL)
        return sp_fail_memory(err);
    enum sp_status status = sp_job_open(options, &subject->owned_job, err);
    if (status == SP_OK && subject->owned_job->model == NULL) {
        (void)sp_costs_refuse("annotated model", err);
        status = SP_ERR_UNSUPPORTED;
    }
    if (status == SP_OK) {
        struct sp_job *job = subject->owned_job;
        const uint64_t largest = job->file.size > options->size ? job->file.size : options->size;
        uint64_t devices = 0;
        for (uint32_t i = 0; i < job->model->configuration_count; i++) {
            if (job->model->configurations[i].num_devices > 0)
                devices += (uint64_t)job->model->configurations[i].num_devices;
        }
        take_job(subject, job);
        sp_budget_for_file(&job->budget, largest, devices, options->memory_budget);
        status = read_configuration(subject, configuration, err);
        status = status != SP_OK ? sp_budget_explain(&job->budget, err) : status;
        /* What is written of it has limits of its own. */
        job->budget.limit = options->memory_budget != 0 ? options->memory_budget : SP_DEFAULT_JOB_BYTES;
        job->budget.limit_name = NULL;
    }
    if (status != SP_OK) {
        sp_subject_destroy(subject);
        return status;
    }
    *ret_subject = subject;
    return SP_OK;
}

/* ---- a plan ---------------------------------------------------------------------------------------------------- */

/* The model in memory as it would be read from the annotated file: no node has an entry but those of the plan. */
static enum sp_status annotate(struct sp_model *model, const struct sp_annotations *annotations, struct sp_arena *arena,
                               struct sp_error *err)
{
    struct sp_dataflow *dataflow;
    enum sp_status status = sp_dataflow_create(arena, model, &dataflow, err);
    for (uint32_t i = 0; status == SP_OK && i < dataflow->node_count; i++)
        dataflow->nodes[i]->configuration_count = 0;
    for (uint32_t i = 0; status == SP_OK && i < annotations->count; i++) {
        struct sp_node *node = &model->graph->nodes[annotations->nodes[i].node->index];
        struct sp_node_configuration *entry = SP_NEW(arena, struct sp_node_configuration);
        if (entry == NULL)
            return sp_fail_memory(err);
        *entry = annotations->nodes[i].configuration;
        node->configurations = entry;
        node->configuration_count = 1;
    }
    return status;
}

/* Which device of the cluster each device is: those in use, ascending. */
static enum sp_status number_devices(struct sp_subject *subject, const struct sp_plan *plan, struct sp_error *err)
{
    const uint32_t *stages = sp_plan_device_stages(plan);
    uint32_t *devices = SP_NEW_ARRAY(plan->arena, sp_plan_copy_devices(plan), uint32_t);
    uint32_t used = 0;
    if (stages == NULL || devices == NULL)
        return sp_fail_memory(err);
    for (uint32_t d = 0; d < plan->cluster->device_count; d++) {
        if (stages[d] != SP_NO_STAGE || sp_routed_holder(plan->result->routes, d) != NULL)
            devices[used++] = d;
    }
    subject->cluster_devices = devices;
    return SP_OK;
}

/* Weights that are gathered lie as the plan says. */
static enum sp_status store_weights(struct sp_subject *subject, const struct sp_plan *plan, struct sp_error *err)
{
    json_t *stored;
    enum sp_status status = sp_plan_stored(plan, &stored, err);
    if (status == SP_OK && stored != NULL)
        status = sp_assignment_take_stored(subject->assignment, stored, err);
    json_decref(stored);
    return status;
}

/* Without a model: where each node runs, by the plan alone. Stages have one device each. */
static enum sp_status place_costs(struct sp_subject *subject, const struct sp_plan *plan, struct sp_error *err)
{
    const struct sp_placement *placement = &plan->result->placement;
    struct sp_subject_node *nodes = SP_NEW_ARRAY(plan->arena, plan->workload->node_count, struct sp_subject_node);
    int64_t *numbers = SP_NEW_ARRAY(plan->arena, plan->cluster->device_count, int64_t);
    const char **names = SP_NEW_ARRAY(plan->arena, sp_plan_copy_devices(plan), const char *);
    if (nodes == NULL || numbers == NULL || names == NULL || subject->cluster_devices == NULL)
        return sp_fail_memory(err);
    subject->device_count = sp_plan_copy_devices(plan);
    subject->stage_count = (int32_t)placement->stage_count;
    for (uint32_t d = 0; d < subject->device_count; d++) {
        const uint32_t device = subject->cluster_devices[d];
        names[d] = sp_arena_printf(plan->arena, "%s:%u", sp_cluster_device(plan->cluster, device)->name,
                                   sp_cluster_number(plan->cluster, device));
        if (names[d] == NULL)
            return sp_fail_memory(err);
        numbers[device] = d;
    }
    for (uint32_t n = 0; n < plan->workload->node_count; n++) {
        const uint32_t stage = placement->stage_of[n];
        nodes[n] = (struct sp_subject_node){.has_stage = true,
                                            .stage = (int32_t)stage,
                                            .device_count = 1,
                                            .devices = &numbers[placement->stage_device[stage]]};
    }
    subject->device_names = names;
    subject->nodes = nodes;
    return SP_OK;
}

static enum sp_status subject_of_costs(struct sp_subject *subject, const struct sp_plan *plan,
                                       struct sp_subject **ret_subject, struct sp_error *err)
{
    enum sp_status status = number_devices(subject, plan, err);
    if (status == SP_OK)
        status = place_costs(subject, plan, err);
    if (status == SP_OK)
        *ret_subject = subject;
    else
        sp_subject_destroy(subject);
    return status;
}

enum sp_status sp_subject_on_route(const struct sp_subject *subject, uint32_t route, struct sp_subject **ret_subject,
                                   struct sp_error *err)
{
    const struct sp_plan *plan = subject->plan;
    const struct sp_route *taken = &plan->result->routes->routes[route];
    struct sp_plan *other = SP_NEW(plan->arena, struct sp_plan);
    struct sp_search_result *result = SP_NEW(plan->arena, struct sp_search_result);
    struct sp_evaluation *evaluation = SP_NEW(plan->arena, struct sp_evaluation);
    if (other == NULL || result == NULL || evaluation == NULL)
        return sp_fail_memory(err);
    *evaluation = *taken->evaluation;
    evaluation->device_count = plan->result->evaluation->device_count; /* of all routes */
    *result = *plan->result;
    result->placement = taken->placement;
    result->evaluation = evaluation;
    *other = *plan;
    other->result = result;
    enum sp_status status = sp_plan_measure_memory(other, err);
    return status == SP_OK ? sp_subject_from_plan(subject->job, other, ret_subject, err) : status;
}

static void take_service(struct sp_subject *subject, const struct sp_service *service)
{
    if (service == NULL || !service->is_llm || service->pools != NULL)
        return;
    subject->steps =
        (struct sp_subject_steps){true, service->chunk, (service->concurrency + service->copies - 1) / service->copies};
}

enum sp_status sp_subject_from_plan(struct sp_job *job, const struct sp_plan *plan, struct sp_subject **ret_subject,
                                    struct sp_error *err)
{
    struct sp_annotations annotations;
    struct sp_subject *subject = create();
    if (subject == NULL)
        return sp_fail_memory(err);
    take_job(subject, job);
    subject->plan = plan;
    take_service(subject, plan->service);
    if (plan->model == NULL)
        return subject_of_costs(subject, plan, ret_subject, err);
    enum sp_status status = sp_plan_annotations(plan, &annotations, err);
    if (status == SP_OK)
        status = number_devices(subject, plan, err);
    if (status == SP_OK)
        status = annotate(job->model, &annotations, job->arena, err);
    if (status == SP_OK) {
        subject->device_count = annotations.num_devices;
        subject->device_names = annotations.device_names;
        status = complete(subject, annotations.configuration, err);
    }
    if (status == SP_OK)
        status = store_weights(subject, plan, err);
    if (status != SP_OK) {
        sp_subject_destroy(subject);
        return status;
    }
    *ret_subject = subject;
    return SP_OK;
}
