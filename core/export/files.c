#include "export/files.h"

#include <string.h>

static const char simulation[] = "simulation";

const char *sp_file_media_type(const char *format)
{
    const struct sp_export_format *other = sp_export_find(format);
    if (strcmp(format, simulation) == 0)
        return "application/octet-stream";
    return other != NULL ? other->media_type : NULL;
}

const char *sp_file_extension(const char *format)
{
    const struct sp_export_format *other = sp_export_find(format);
    if (strcmp(format, simulation) == 0)
        return "onnx";
    return other != NULL ? other->extension : NULL;
}

/* ---- a recipe as a sink ---- */

static bool add_bytes(void *context, const void *bytes, size_t size)
{
    return sp_recipe_add(context, bytes, size);
}

static bool keep_range(void *context, uint64_t offset, uint64_t size)
{
    return sp_recipe_keep(context, 0, offset, size);
}

static enum sp_status on_export_note(void *context, const struct sp_export_note *note, struct sp_error *err)
{
    const struct sp_file_request *request = context;
    return request->note(request->note_context, note->code, note->node, note->message, err);
}

static enum sp_status create_export(const struct sp_file_request *request, struct sp_recipe **ret_recipe,
                                    struct sp_error *err)
{
    struct sp_recipe *recipe = sp_recipe_create();
    if (recipe == NULL)
        return sp_fail_memory(err);
    const struct sp_export_request export = {
        .subject = request->subject,
        .format = request->format,
        .sink = {.write = add_bytes, .copy = keep_range, .context = recipe},
        .note = request->note != NULL ? on_export_note : NULL,
        .note_context = (void *)(uintptr_t)request,
    };
    enum sp_status status = sp_export_write(&export, err);
    if (status == SP_ERR_IO) { /* nothing else fails in a recipe */
        sp_error_clear(err);
        status = sp_recipe_status(recipe, err);
    }
    if (status != SP_OK) {
        sp_recipe_destroy(recipe);
        return status;
    }
    *ret_recipe = recipe;
    return SP_OK;
}

/* ---- realisations ---- */

static enum sp_status on_part_note(void *context, const struct sp_part_note *note, struct sp_error *err)
{
    const struct sp_file_request *request = context;
    return request->note(request->note_context, note->code, note->node, note->message, err);
}

enum sp_status sp_file_create(const struct sp_file_request *request, struct sp_recipe **ret_recipe,
                              struct sp_error *err)
{
    const struct sp_subject *subject = request->subject;
    struct sp_links links = {0};
    if (subject->plan != NULL)
        links = sp_cluster_links(subject->plan->cluster);
    if (strcmp(request->format, simulation) != 0)
        return create_export(request, ret_recipe, err);
    const struct sp_realize_request realize = {
        .partition = {.model = subject->model,
                      .assignment = subject->assignment,
                      .links = subject->plan != NULL ? &links : NULL,
                      .watch = request->watch},
        .external = request->external,
        .note = request->note != NULL ? on_part_note : NULL,
        .note_context = (void *)(uintptr_t)request,
    };
    return sp_realize_simulation(&realize, ret_recipe, err);
}
