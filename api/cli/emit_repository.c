/* A folder that a server loads: what is in it, and where the models of devices go. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "export/servers/repository.h"

/* The folders above a path, up to the repository's own. */
static enum sp_status make_folders(const char *path, size_t kept, struct sp_error *err)
{
    char *copy = strdup(path);
    enum sp_status status = SP_OK;
    if (copy == NULL)
        return sp_fail_memory(err);
    for (size_t i = kept + 1; status == SP_OK && copy[i] != '\0'; i++) {
        if (copy[i] != '/')
            continue;
        copy[i] = '\0';
        status = emit_folder(copy, err);
        copy[i] = '/';
    }
    free(copy);
    return status;
}

/* A model with files beside it is a folder of Triton's ONNX Runtime. */
static bool is_folder(const struct emit *emit, const struct sp_repository_file *file)
{
    const char *name = strrchr(file->path, '/');
    return strcmp(name != NULL ? name + 1 : file->path, "model.onnx") == 0 &&
           (emit->uses_data || emit->external == SP_EXTERNAL_REFER);
}

static enum sp_status write_text(const struct emit *emit, const char *path, const char *text, struct sp_error *err)
{
    struct output output = {.fd = -1};
    enum sp_status status = output_open(path, emit->sources->input, &output, err);
    if (status == SP_OK && !output_write(&output, text, strlen(text)))
        status = sp_fail(err, SP_ERR_IO, "FILE_NOT_WRITABLE", "Cannot write '%.200s' to its end.", path);
    if (status == SP_OK)
        status = output_commit(&output, err);
    output_close(&output);
    return status;
}

enum sp_status emit_repository(struct emit *emit, const char *folder, const char *format,
                               const struct sp_device_plan *plan, struct sp_error *err)
{
    struct sp_repository_file *files = NULL;
    const struct sp_file_request request = {.subject = emit->subject, .format = format};
    enum sp_status status = sp_file_repository(emit->arena, &request, plan, &emit->file_count, &files, err);
    emit->files = files;
    for (uint32_t i = 0; status == SP_OK && i < emit->file_count; i++) {
        char *path = path_in(folder, files[i].path);
        status = path != NULL ? make_folders(path, strlen(folder), err) : sp_fail_memory(err);
        if (status == SP_OK && files[i].is_model && is_folder(emit, &files[i]))
            status = emit_folder(path, err);
        if (status == SP_OK && files[i].text != NULL)
            status = write_text(emit, path, files[i].text, err);
        free(path);
    }
    return status;
}

char *emit_model_path(const struct emit *emit, const char *folder, int64_t device, uint32_t part, const char *data_name,
                      char **ret_data)
{
    uint32_t i = 0;
    while (!emit->files[i].is_model || emit->files[i].device != device || emit->files[i].part != part)
        i++;
    char *path = path_in(folder, emit->files[i].path), *inside = NULL;
    if (path != NULL && is_folder(emit, &emit->files[i])) {
        inside = path_in(path, "model.onnx");
        free(path);
        path = inside;
    }
    char *above = path != NULL ? strdup(path) : NULL;
    if (above != NULL)
        *strrchr(above, '/') = '\0';
    *ret_data = above != NULL ? path_in(above, data_name) : NULL;
    free(above);
    if (*ret_data == NULL) {
        free(path);
        path = NULL;
    }
    return path;
}
