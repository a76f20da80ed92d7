/*
 * An errand about a plan: a file that is made of it, saved as a recipe over the model's file.
 *
 *   {"format": NAME, "device": -1 or a device, "part": of its models, "forms": words of export/forms.h,
 *    "data": whether the file of weights beside a device's models is made,
 *    "files": {LOCATION: BYTES} of the files beside the model that are there}
 */
#include <string.h>

#include "export/files.h"
#include "graph/external.h"
#include "worker/internal.h"

static enum sp_status read_plan(const struct work *work, const json_t *request, json_t **ret_plan,
                                struct sp_file_request *file, struct sp_error *err)
{
    const char *forms;
    json_int_t device, part;
    int gives_data;
    if (json_unpack((json_t *)(uintptr_t)request, "{s:s, s:I, s:I, s:s, s:b}", "format", &file->format, "device",
                    &device, "part", &part, "forms", &forms, "data", &gives_data) != 0)
        return sp_fail(err, SP_ERR_INTERNAL, "BAD_ERRAND", "A worker was not told which file to make of which plan.");
    enum sp_status status = sp_file_forms_parse(forms, &file->forms, err);
    if (status != SP_OK)
        return status;
    file->device = device;
    file->part = (uint32_t)part;
    file->gives_data = gives_data != 0;
    *ret_plan = work_load(work, "plan");
    if (*ret_plan == NULL)
        return sp_fail(err, SP_ERR_IO, "PLAN_DAMAGED", "The stored plan cannot be read.");
    return SP_OK;
}

static int64_t size_of(void *context, const char *location)
{
    const json_t *size = json_object_get(context, location);
    return json_is_integer(size) ? json_integer_value(size) : -1;
}

/* Weights that lie beside the model go into what is made where all of their files are there: of a device's models into a
   file beside them, as the command writes it. Else what is made refers to the files. */
static enum sp_status look_for_data(const json_t *request, struct sp_file_request *file, struct sp_error *err)
{
    const struct sp_external_files files = {.size_of = size_of, .context = json_object_get(request, "files")};
    const char *missing = NULL;
    bool has_external = false;
    const struct sp_model *model = file->subject->model;
    enum sp_status status = model != NULL ? sp_external_look(model, &files, &has_external, &missing, err) : SP_OK;
    file->external = missing == NULL ? SP_EXTERNAL_INLINE : SP_EXTERNAL_REFER;
    file->has_data = has_external && missing == NULL;
    return status;
}

enum sp_status work_export(struct work *work, const json_t *request, struct output *output, struct sp_error *err)
{
    struct sp_job_options options;
    struct sp_subject *subject = NULL;
    struct sp_recipe *recipe = NULL;
    json_t *plan = NULL;
    struct sp_file_request file = {0};
    struct sp_sink sink = work_sink(output);
    work_options(work, &options);
    enum sp_status status = read_plan(work, request, &plan, &file, err);
    if (status == SP_OK)
        status = sp_subject_from_json(&options, plan, &subject, err);
    json_decref(plan);
    file.subject = subject;
    file.watch = options.watch;
    if (status == SP_OK)
        status = look_for_data(request, &file, err);
    if (status == SP_OK)
        status = sp_file_create(&file, &recipe, err);
    if (status == SP_OK)
        status = sp_recipe_save(recipe, &sink, err);
    sp_recipe_destroy(recipe);
    sp_subject_destroy(subject);
    return status;
}
