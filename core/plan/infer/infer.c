#include "plan/infer/infer.h"

#include <stdlib.h>
#include <string.h>

#include "check/check.h"
#include "infer/forward.h"
#include "infer/propagate/propagate.h"
#include "infer/stored.h"
#include "onnx/reader.h"
#include "plan/infer/internal.h"
#include "plan/sizes/bind.h"
#include "plan/sizes/branches.h"

void sp_completion_destroy(struct sp_completion *completion)
{
    if (completion == NULL)
        return;
    sp_arena_destroy(completion->arena);
    sp_model_file_release(&completion->file);
    free(completion);
}

const struct sp_communications *sp_completion_communications(const struct sp_completion *completion)
{
    return &completion->communications;
}

const struct sp_model *sp_completion_model(const struct sp_completion *completion)
{
    return completion->model;
}

/* Shardings are only completed where those that are there make sense. */
static enum sp_status check_given(struct sp_completion *completion, struct sp_error *err)
{
    struct sp_diagnostics list = {.arena = completion->arena};
    if (completion->is_new_configuration)
        return SP_OK;
    enum sp_status status = sp_check_annotations(completion->model, completion->configuration, &list, err);
    for (uint32_t i = 0; status == SP_OK && i < list.count; i++) {
        const struct sp_diagnostic *item = &list.items[i];
        if (item->severity == SP_SEVERITY_ERROR)
            return sp_fail(err, SP_ERR_MODEL, item->code->code, "%s", item->message);
    }
    return status;
}

static enum sp_status complete(struct sp_completion *completion, const struct sp_completion_request *request,
                               const struct sp_watch *watch, struct sp_error *err)
{
    struct sp_arena *arena = completion->arena;
    completion->propagates = request->propagates;
    completion->device_count = request->devices;
    enum sp_status status = check_given(completion, err);
    if (status == SP_OK)
        status = sp_dataflow_create(arena, completion->model, &completion->dataflow, err);
    if (status == SP_OK)
        status = sp_assignment_create(arena, completion->dataflow, completion->configuration, request->devices,
                                      &(struct sp_set_specs){request->set_count, request->sets},
                                      &completion->assignment, err);
    if (status == SP_OK)
        completion->assignment->gathers_contradictions = true;
    if (status == SP_OK)
        status = request->propagates ? sp_infer_propagate(completion->assignment, request->mesh, err)
                                     : sp_infer_forward(completion->assignment, err);
    if (status == SP_OK)
        status = sp_assignment_drop_stored(completion->assignment, err);
    if (status == SP_OK)
        status = sp_completion_choose(completion, err);
    return status == SP_OK ? sp_completion_verify(completion, watch, err) : status;
}

static enum sp_status open_model(struct sp_completion *completion, const struct sp_job_options *options,
                                 const json_t *request, struct sp_error *err)
{
    struct sp_read_options read = {.hash_seed = options->hash_seed, .watch = options->watch};
    struct sp_shape_summary summary;
    struct sp_sizes sizes = {0};
    const char *name = options->name != NULL ? options->name : "";
    sp_budget_for_file(&completion->budget, options->size, 0, options->memory_budget);
    completion->arena = sp_arena_create(&completion->budget);
    if (completion->arena == NULL ||
        (completion->name = sp_arena_string(completion->arena, name, strlen(name))) == NULL)
        return sp_fail_memory(err);
    enum sp_status status =
        sp_model_file_open(&completion->budget, options->bytes, options->size, options->watch, &completion->file, err);
    if (status == SP_OK)
        status = sp_sizes_parse(completion->arena, request, "", &sizes, err);
    if (status == SP_OK)
        status = sp_take_branches(&completion->budget, &read, &sizes, &completion->file, err);
    if (status == SP_OK)
        status = sp_sizes_read_options(completion->arena, completion->file.bytes, completion->file.size, &read, &sizes,
                                       &read, err);
    if (status == SP_OK)
        status = sp_onnx_read(completion->arena, completion->file.bytes, completion->file.size, &read,
                              &completion->model, err);
    if (status == SP_OK)
        status = sp_infer_shapes_accepting(completion->model, options->watch, &completion->accepted, &summary, err);
    return status == SP_OK ? sp_model_verify_given(completion->model, err) : status;
}

enum sp_status sp_completion_create(const struct sp_job_options *options, const json_t *request,
                                    struct sp_completion **ret_completion, struct sp_error *err)
{
    struct sp_completion_request asked = {0};
    struct sp_completion *completion = calloc(1, sizeof *completion);
    if (completion == NULL)
        return sp_fail_memory(err);
    enum sp_status status = open_model(completion, options, request, err);
    if (status == SP_OK)
        status = sp_completion_read_request(completion, request, &asked, err);
    if (status == SP_OK) {
        const uint64_t largest = completion->file.size > options->size ? completion->file.size : options->size;
        sp_budget_for_file(&completion->budget, largest, (uint64_t)asked.devices, options->memory_budget);
    }
    if (status == SP_OK)
        status = complete(completion, &asked, options->watch, err);
    if (status != SP_OK) {
        status = sp_budget_explain(&completion->budget, err);
        sp_completion_destroy(completion);
        return status;
    }
    /* What is written of it has limits of its own. */
    completion->budget.limit = options->memory_budget != 0 ? options->memory_budget : SP_DEFAULT_JOB_BYTES;
    completion->budget.limit_name = NULL;
    *ret_completion = completion;
    return SP_OK;
}
