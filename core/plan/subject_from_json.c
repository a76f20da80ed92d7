/* A plan that was written as JSON, made again: from its placement record, or, where it has none, from its question. */
#include <math.h>
#include <string.h>

#include "plan/internal.h"
#include "plan/micro/micro.h"
#include "plan/service/traffic.h"
#include "plan/subject.h"

#define ROUNDING 1e-9 /* the share by which equal figures may differ on another machine */

/* ---- the file --------------------------------------------------------------------------------------------------- */

static enum sp_status check_head(const json_t *plan, const struct sp_job_options *options, struct sp_error *err)
{
    const char *form = json_string_value(json_object_get(plan, "plan"));
    const json_t *model = json_object_get(plan, "model");
    const char *sha256 = json_string_value(json_object_get(model, "sha256"));
    if (form == NULL)
        return sp_fail(err, SP_ERR_REQUEST, "NO_PLAN",
                       "This is no plan: it has no member \"plan\". 'shardplan plan --plan FILE' writes one.");
    if (strcmp(form, "1") != 0)
        return sp_fail(err, SP_ERR_REQUEST, "NO_PLAN", "The plan has the form '%.20s'; this version reads form 1.",
                       form);
    if (sha256 == NULL)
        return sp_fail(err, SP_ERR_REQUEST, "NO_PLAN",
                       "The plan does not say which model it is for (/model/sha256); make it again with 'shardplan "
                       "plan --plan FILE'.");
    if (strcmp(sha256, options->sha256) != 0)
        return sp_fail(err, SP_ERR_REQUEST, "OTHER_MODEL",
                       "The plan was made for another model: the SHA-256 of its file is %.64s, that of this one is "
                       "%.64s.",
                       sha256, options->sha256);
    return SP_OK;
}

static bool was_stopped(const json_t *plan)
{
    const json_t *notes = json_object_get(plan, "diagnostics");
    for (size_t i = 0; i < json_array_size(notes); i++) {
        const char *code = json_string_value(json_object_get(json_array_get(notes, i), "code"));
        if (code != NULL && strcmp(code, "SEARCH_STOPPED") == 0)
            return true;
    }
    return false;
}

static enum sp_status other_plan(struct sp_error *err, const char *what)
{
    return sp_fail(err, SP_ERR_REQUEST, "OTHER_PLAN",
                   "Planning the same question again gives another plan (%s): the file was edited, or another version "
                   "of Shardplan made it. Plan again, or export the annotated model instead.",
                   what);
}

/* Stage by stage the same devices and the same nodes in the same order. */
static enum sp_status compare_stages(const json_t *stages, const struct sp_plan *plan, struct sp_error *err)
{
    const struct sp_placement *placement = &plan->result->placement;
    struct sp_arena_mark mark = sp_arena_mark(plan->arena);
    uint32_t *used = SP_NEW_ARRAY(plan->arena, placement->stage_count, uint32_t);
    bool is_same = used != NULL && json_array_size(stages) == placement->stage_count;
    for (uint32_t s = 0; is_same && s < placement->stage_count; s++) {
        const json_t *devices = json_object_get(json_array_get(stages, s), "devices");
        is_same = json_array_size(devices) == sp_plan_stage_devices(plan, s);
        for (size_t i = 0; is_same && i < json_array_size(devices); i++) {
            const json_t *device = json_array_get(devices, i);
            is_same = json_is_integer(device) &&
                      json_integer_value(device) ==
                          sp_cluster_number(plan->cluster, placement->stage_device[s] + (uint32_t)i);
        }
    }
    for (uint32_t n = 0; is_same && n < plan->workload->node_count; n++) {
        const uint32_t s = placement->stage_of[n];
        const json_t *nodes = json_object_get(json_array_get(stages, s), "nodes");
        const char *name = json_string_value(json_array_get(nodes, used[s]++));
        is_same = name != NULL && strcmp(name, plan->workload->nodes[n].name) == 0;
    }
    for (uint32_t s = 0; is_same && s < placement->stage_count; s++)
        is_same = json_array_size(json_object_get(json_array_get(stages, s), "nodes")) == used[s];
    sp_arena_rewind(plan->arena, mark);
    if (used == NULL)
        return sp_fail_memory(err);
    return is_same ? SP_OK : other_plan(err, "its stages differ");
}

/* How operators are split shows in what they cost. */
static enum sp_status compare_estimate(const json_t *estimate, const struct sp_plan *plan, struct sp_error *err)
{
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    const struct {
        const char *name;
        double value;
    } figures[] = {{"latency_seconds", evaluation->latency_seconds},
                   {"interval_seconds", sp_evaluation_interval(evaluation)},
                   {"communication_bytes", sp_plan_sent_bytes(plan)}};
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        const double told = json_number_value(json_object_get(estimate, figures[i].name));
        if (!(fabs(told - figures[i].value) <= ROUNDING * figures[i].value))
            return other_plan(err, "its estimate differs");
    }
    return SP_OK;
}

static enum sp_status compare(const json_t *json, const struct sp_plan *plan, struct sp_error *err)
{
    const char *id = json_string_value(json_object_get(json, "id"));
    if (id == NULL || strcmp(id, plan->id) != 0)
        return other_plan(err, "its id differs");
    enum sp_status status = compare_stages(json_object_get(json, "stages"), plan, err);
    return status == SP_OK ? compare_estimate(json_object_get(json, "estimate"), plan, err) : status;
}

/* In how many micro-batches the plan cuts requests; 0: it does not say. The options of a service ask for numbers of its
   phases. */
static uint32_t micro_batches_of(const json_t *plan)
{
    const json_int_t count = json_integer_value(json_object_get(json_object_get(plan, "micro_batches"), "count"));
    if (count > 0 && count <= SP_MAX_MICRO_BATCHES)
        return (uint32_t)count;
    return json_object_get(json_object_get(plan, "options"), "workload") != NULL ? 1 : 0;
}

/* ---- the plan --------------------------------------------------------------------------------------------------- */

/* `within` is the subject's own arena: the cluster lives as long as the plan. */
static enum sp_status plan_again(const struct sp_job_options *options, const json_t *json, struct sp_arena *within,
                                 struct sp_job **ret_job, struct sp_plan **ret_plan, struct sp_error *err)
{
    struct sp_plan_options asked;
    struct sp_cluster *cluster;
    const json_t *described = json_object_get(json, "cluster"), *record = json_object_get(json, "outline");
    if (record == NULL && was_stopped(json))
        return sp_fail(err, SP_ERR_REQUEST, "PLAN_STOPPED",
                       "The search for this plan was ended early, and an older version of Shardplan made it, which did "
                       "not say enough to make it again; plan again, or export the annotated model instead.");
    if (described == NULL)
        return sp_fail(err, SP_ERR_REQUEST, "NO_PLAN", "The plan does not say for which devices it is (/cluster).");
    enum sp_status status = sp_cluster_parse(within, described, "/cluster", &cluster, err);
    if (status == SP_OK)
        status = sp_plan_options_parse(within, json_object_get(json, "objective"), json_object_get(json, "options"),
                                       &asked, err);
    const struct sp_found_placement found = {
        .record = record, .stopped = was_stopped(json), .micro_batches = micro_batches_of(json)};
    if (status == SP_OK)
        status = sp_job_plan_from(options, cluster, &asked, &found, ret_job, ret_plan, err);
    if (status != SP_OK)
        return status;
    status = compare(json, *ret_plan, err);
    if (status != SP_OK) {
        sp_job_destroy(*ret_job);
        *ret_job = NULL;
    }
    return status;
}

enum sp_status sp_plan_from_json(const struct sp_job_options *options, const json_t *plan, struct sp_arena *within,
                                 struct sp_job **ret_job, struct sp_plan **ret_plan, struct sp_error *err)
{
    enum sp_status status = check_head(plan, options, err);
    return status == SP_OK ? plan_again(options, plan, within, ret_job, ret_plan, err) : status;
}

/* What its service has in a step, which the record does not say. */
static void read_service(const json_t *plan, struct sp_subject *subject)
{
    const json_t *service = json_object_get(plan, "service");
    const json_int_t copies = json_integer_value(json_object_get(service, "copies")),
                     sequences = json_integer_value(json_object_get(service, "concurrency")),
                     chunk = json_integer_value(json_object_get(service, "chunked_prefill"));
    if (json_object_get(service, "pools") != NULL || copies < 1 || copies > SP_MAX_DEVICES || sequences < 1 ||
        sequences > SP_MAX_CONCURRENCY || chunk < 0 || chunk > SP_MAX_CHUNK)
        return;
    subject->steps = (struct sp_subject_steps){true, chunk, (sequences + copies - 1) / copies};
}

enum sp_status sp_subject_from_json(const struct sp_job_options *options, const json_t *plan,
                                    struct sp_subject **ret_subject, struct sp_error *err)
{
    struct sp_job *job = NULL;
    struct sp_plan *again = NULL;
    struct sp_subject *subject = NULL;
    struct sp_arena *arena = sp_arena_create(NULL);
    enum sp_status status =
        arena != NULL ? sp_plan_from_json(options, plan, arena, &job, &again, err) : sp_fail_memory(err);
    if (status == SP_OK)
        status = sp_subject_from_plan(job, again, &subject, err);
    if (status != SP_OK) {
        sp_job_destroy(job);
        sp_arena_destroy(arena);
        return status;
    }
    read_service(plan, subject);
    subject->owned_job = job;
    subject->owned_arena = arena;
    *ret_subject = subject;
    return SP_OK;
}
