#include "build_export.h"

#include <criterion/criterion.h>
#include <string.h>

#include "onnx_files.h"
#include "recount.h"

void planned_make(struct planned_model *ret_model, struct sp_buf file, int64_t devices)
{
    struct sp_error err = {0};
    struct sp_plan_options options;
    struct planned_model *model = ret_model;
    memset(model, 0, sizeof *model);
    model->file = file;
    const struct sp_job_options job_options = {
        .bytes = model->file.data, .size = model->file.size, .name = "model.onnx", .sha256 = PLANNED_SHA256};
    model->arena = sp_arena_create(NULL);
    sp_plan_options_init(&options);
    options.max_replicas = 1;                /* one plan, no copies */
    options.strategy = SP_STRATEGY_GROUPING; /* some formats take whole operators only */
    cr_assert_eq(sp_cluster_uniform(model->arena, "a100-sxm4-80gb", devices, &model->cluster, &err), SP_OK);
    cr_assert_eq(sp_job_plan(&job_options, model->cluster, &options, &model->job, &model->plan, &err), SP_OK, "%s",
                 err.message);
    recount_expect_result(model->plan->workload, model->plan->cluster, model->plan->result);
    cr_assert_eq(sp_subject_from_plan(model->job, model->plan, &model->subject, &err), SP_OK, "%s", err.message);
}

void planned_mlp(struct planned_model *ret_model, const struct onnx_mlp *mlp, int64_t devices)
{
    struct sp_buf file;
    onnx_mlp(&file, mlp);
    planned_make(ret_model, file, devices);
}

void planned_release(struct planned_model *model)
{
    sp_subject_destroy(model->subject);
    sp_job_destroy(model->job);
    sp_arena_destroy(model->arena);
    sp_buf_release(&model->file);
}

json_t *planned_json(const struct planned_model *model)
{
    struct sp_buf text;
    struct sp_json json;
    sp_buf_init(&text, (size_t)1 << 26);
    sp_json_init_buf(&json, false, &text);
    sp_plan_write_json(model->plan, 0, &json);
    cr_assert_eq(sp_json_finish(&json, NULL), SP_OK);
    json_t *parsed = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES, NULL);
    cr_assert_not_null(parsed);
    sp_buf_release(&text);
    return parsed;
}

struct sp_buf planned_annotated(const struct planned_model *model)
{
    struct sp_error err = {0};
    struct sp_splice *splice;
    cr_assert_eq(sp_plan_annotate(model->plan, &splice, &err), SP_OK, "%s", err.message);
    return onnx_result(splice, model->file.data);
}

struct sp_subject *subject_of(const struct sp_buf *file)
{
    struct sp_error err = {0};
    struct sp_subject *subject;
    cr_assert_eq(
        sp_subject_from_model(&(struct sp_job_options){.bytes = file->data, .size = file->size}, NULL, &subject, &err),
        SP_OK, "%s", err.message);
    return subject;
}

static bool append(void *context, const void *bytes, size_t size)
{
    sp_buf_append(context, bytes, size);
    return !sp_buf_failed(context);
}

static enum sp_status note(void *context, const struct sp_export_note *note, struct sp_error *err)
{
    (void)err;
    cr_assert_eq(note->message[strlen(note->message) - 1], '.', "%s", note->message);
    sp_buf_printf(context, "%s ", note->code);
    return SP_OK;
}

struct exported export_any(const struct sp_subject *subject, const char *format)
{
    return export_for(subject, format, 0);
}

static struct exported export_as(struct sp_export_request request)
{
    struct exported exported = {.status = SP_OK};
    request.sink = (struct sp_sink){.write = append, .context = &exported.bytes};
    request.note = note;
    request.note_context = &exported.notes;
    sp_buf_init(&exported.bytes, (size_t)1 << 28);
    sp_buf_init(&exported.notes, (size_t)1 << 20);
    sp_buf_text(&exported.notes, "");
    exported.status = sp_export_write(&request, &exported.err);
    return exported;
}

struct exported export_for(const struct sp_subject *subject, const char *format, int64_t device)
{
    return export_as((struct sp_export_request){.subject = subject, .format = format, .device = device});
}

struct exported export_in(const struct sp_subject *subject, const char *format, int64_t cores)
{
    return export_as((struct sp_export_request){.subject = subject, .format = format, .cores = cores});
}

struct exported export_of(const struct sp_subject *subject, const char *format)
{
    struct exported exported = export_any(subject, format);
    cr_assert_eq(exported.status, SP_OK, "%s: %s", format, exported.err.message);
    return exported;
}

void exported_release(struct exported *exported)
{
    sp_buf_release(&exported->bytes);
    sp_buf_release(&exported->notes);
}
