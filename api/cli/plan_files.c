/* Files of plans: what is written of one that was made here, and what is read. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "plan/proof/proof.h"
#include "plan/service/service.h"

bool is_dash(const char *text)
{
    return text != NULL && strcmp(text, "-") == 0;
}

static enum sp_status write_annotated(const struct plan_request *request, const char *path, const struct sp_plan *plan,
                                      struct sp_error *err)
{
    struct output output = {.fd = -1};
    struct sp_splice *splice = NULL;
    enum sp_status status = sp_plan_annotate(plan, &splice, err);
    if (status == SP_OK)
        status = output_open(path, &request->input, &output, err);
    if (status == SP_OK)
        status = output_splice(&output, splice, err);
    if (status == SP_OK)
        status = output_commit(&output, err);
    if (status == SP_OK)
        output_tell_weights(&output, plan->model);
    output_close(&output);
    sp_splice_destroy(splice);
    return status;
}

static bool write_output(void *context, const char *bytes, size_t size)
{
    return output_write(context, bytes, size);
}

static enum sp_status write_plan_file(const char *path, const struct sp_plan *plan, double seconds,
                                      struct sp_error *err)
{
    struct output output = {.fd = -1};
    struct sp_json json;
    enum sp_status status = output_open(path, NULL, &output, err);
    if (status != SP_OK)
        return status;
    sp_json_init(&json, false, write_output, &output);
    sp_plan_write_json(plan, seconds, &json);
    if (sp_json_finish(&json, NULL) != SP_OK || !output_write(&output, "\n", 1))
        status = sp_fail(err, SP_ERR_IO, "FILE_NOT_WRITABLE", "Cannot write the plan to '%s'.", path);
    if (status == SP_OK)
        status = output_commit(&output, err);
    output_close(&output);
    return status;
}

/* What devices run, and what shows it. */
static enum sp_status emit_realised(const struct plan_request *request, const char *folder,
                                    const struct sp_subject *subject, struct sp_error *err)
{
    struct sources sources = sources_open(&request->input);
    struct emit emit = {0};
    char *simulation = path_in(folder, "simulation.onnx"), *trace = path_in(folder, "timeline.pftrace");
    enum sp_status status = simulation != NULL && trace != NULL ? SP_OK : sp_fail_memory(err);
    if (status == SP_OK)
        status = emit_init(&emit, subject, &sources, &request->progress.watch, err);
    emit.with_simulation = subject->model != NULL && !request->skips_simulation;
    if (status == SP_OK && subject->model != NULL)
        status = emit_devices(&emit, folder, "ort-collectives", err);
    if (status == SP_OK && emit.with_simulation)
        status = emit_file(&emit, simulation, "simulation", err);
    else if (status == SP_OK && simulation != NULL && access(simulation, F_OK) == 0)
        print_note("'%s' is of an earlier plan", simulation);
    if (status == SP_OK && subject->model == NULL)
        print_note("a graph of costs has no operators: there are a plan and a timeline, and no models");
    if (status == SP_OK)
        status = emit_file(&emit, trace, "perfetto", err);
    if (status == SP_OK)
        emit_print_notes(&emit);
    emit_release(&emit);
    sources_close(&sources);
    free(simulation);
    free(trace);
    return status;
}

static enum sp_status emit_plan(const struct plan_request *request, const char *folder, struct sp_job *job,
                                const struct sp_plan *plan, double seconds, struct sp_error *err)
{
    struct sp_subject *subject = NULL;
    char *json = path_in(folder, "plan.json"), *annotated = path_in(folder, "annotated.onnx");
    enum sp_status status = json != NULL && annotated != NULL ? emit_folder(folder, err) : sp_fail_memory(err);
    if (status == SP_OK)
        status = write_plan_file(json, plan, seconds, err);
    if (status == SP_OK && plan->model != NULL)
        status = write_annotated(request, annotated, plan, err);
    if (status == SP_OK)
        status = sp_subject_from_plan(job, plan, &subject, err);
    if (status == SP_OK)
        status = emit_realised(request, folder, subject, err);
    sp_subject_destroy(subject);
    free(annotated);
    free(json);
    return status;
}

/* A service whose prompts have devices of their own has a plan more, in a folder more. */
static enum sp_status emit_plans(const struct plan_request *request, struct sp_job *job, const struct sp_plan *plan,
                                 double seconds, struct sp_error *err)
{
    const struct sp_service_pools *pools = plan->service != NULL ? plan->service->pools : NULL;
    enum sp_status status = emit_plan(request, request->emit, job, plan, seconds, err);
    if (status != SP_OK || pools == NULL)
        return status;
    char *folder = path_in(request->emit, SP_PROMPTS_FOLDER);
    status = folder != NULL ? emit_plan(request, folder, pools->prompt_job, pools->prompt_plan, seconds, err)
                            : sp_fail_memory(err);
    free(folder);
    return status;
}

static enum sp_status print_plan(const struct common *common, const struct plan_request *request,
                                 const struct sp_plan *plan, double seconds, struct sp_error *err)
{
    struct sp_buf text;
    if (common->json) {
        struct sp_json json;
        sp_json_init(&json, false, write_stdout, NULL);
        sp_plan_write_json(plan, seconds, &json);
        (void)sp_json_finish(&json, NULL);
        (void)write_stdout(NULL, "\n", 1);
        return finish_stdout(err);
    }
    sp_buf_init(&text, CLI_MAX_TEXT_BYTES);
    sp_plan_write_text(plan, &text);
    enum sp_status status;
    if (is_dash(request->annotated) || is_dash(request->plan_path)) {
        /* Standard output is taken by a file: people still get to see the plan. */
        status = sp_buf_failed(&text) ? sp_fail_memory(err) : SP_OK;
        if (status == SP_OK)
            (void)fputs(text.data, stderr);
    } else {
        status = print_buf(&text, err);
    }
    sp_buf_release(&text);
    return status;
}

/* A time limit is kept by plans that are verified, too: so many nodes as take no longer than what is left of it, and always
   some. An irregular graph takes most. */
#define PROOF_SECONDS          0.4
#define PROOF_SECONDS_PER_NODE 3e-4

static uint64_t nodes_in_time(const struct plan_request *request)
{
    const double limit = request->options.time_limit_seconds, left = limit - progress_elapsed(&request->progress);
    if (limit <= 0)
        return SP_MAX_PROOF_NODES;
    return (uint64_t)fmin(SP_MAX_PROOF_NODES, fmax(left, PROOF_SECONDS) / PROOF_SECONDS_PER_NODE);
}

enum sp_status prove_plan(struct plan_request *request, struct sp_job *job, struct sp_plan *plan, struct sp_error *err)
{
    const double start = progress_elapsed(&request->progress);
    if (request->options.skips_proof)
        return SP_OK;
    const enum sp_status status = sp_plan_prove(job, plan, nodes_in_time(request), &request->progress.watch, err);
    progress_clear(&request->progress);
    if (plan->proof != NULL)
        plan->proof->seconds = progress_elapsed(&request->progress) - start;
    return status;
}

enum sp_status deliver_plan(const struct common *common, const struct plan_request *request, struct sp_job *job,
                            const struct sp_plan *plan, double seconds, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    if (request->emit == NULL)
        status = sources_look(&request->input, plan->model, err);
    if (status == SP_OK && request->annotated != NULL)
        status = write_annotated(request, request->annotated, plan, err);
    if (status == SP_OK && request->plan_path != NULL)
        status = write_plan_file(request->plan_path, plan, seconds, err);
    if (status == SP_OK && request->emit != NULL)
        status = emit_plans(request, job, plan, seconds, err);
    return status == SP_OK ? print_plan(common, request, plan, seconds, err) : status;
}

enum sp_status read_plan_file(const struct input *input, json_t **ret_json, struct sp_error *err)
{
    json_error_t where;
    if (input->size > MAX_PLAN_BYTES)
        return sp_fail_limit(err, "PLAN_TOO_LARGE", "MAX_PLAN_BYTES", MAX_PLAN_BYTES, (int64_t)input->size,
                             "The plan is larger than %zu bytes; export the annotated model instead.", MAX_PLAN_BYTES);
    *ret_json = json_loadb(input->bytes, (size_t)input->size, JSON_REJECT_DUPLICATES, &where);
    if (*ret_json != NULL)
        return SP_OK;
    (void)sp_fail(err, SP_ERR_MALFORMED, "PLAN_NOT_JSON", "The plan is not valid JSON: %s.", where.text);
    return sp_error_at(err, "line %d, column %d of '%.200s'", where.line, where.column, input->name);
}
