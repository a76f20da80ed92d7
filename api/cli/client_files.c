/*
 * The files beside a model, in which its weights lie, on their way to a server: as uploads by parts, which go on where
 * they were when a connection breaks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client.h"

#define MAX_PATH   256
#define MOST_TRIES 45 /* without a byte more, a second apart: the server forgets a silent connection sooner */

/* ---- one upload ---- */

static enum sp_status no_sense(struct sp_error *err)
{
    return sp_fail(err, SP_ERR_IO, "SERVER_ERROR", "What the server says of an upload makes no sense.");
}

/* Makes a call whose body and answer are JSON; the caller releases *ret_json. */
static enum sp_status ask_json(struct client *client, const char *method, const char *path, const json_t *body,
                               json_t **ret_json, struct sp_error *err)
{
    struct answer answer;
    struct sp_buf buf;
    char *text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;
    sp_buf_init(&buf, CLI_MAX_TEXT_BYTES);
    if (text != NULL)
        sp_buf_append(&buf, text, strlen(text));
    const bool has_body = body != NULL && text != NULL && !sp_buf_failed(&buf);
    free(text);
    const struct call call = {
        .method = method, .path = path, .type = has_body ? "application/json" : NULL, .body = has_body ? &buf : NULL};
    enum sp_status status = body == NULL || has_body ? client_ask(client, &call, &answer, err) : sp_fail_memory(err);
    sp_buf_release(&buf);
    if (body != NULL && !has_body)
        return status;
    *ret_json = status == SP_OK && answer.body.size > 0
                    ? json_loadb(answer.body.data, answer.body.size, JSON_REJECT_DUPLICATES, NULL)
                    : NULL;
    sp_buf_release(&answer.body);
    return status == SP_OK && *ret_json == NULL ? no_sense(err) : status;
}

/* How far it has come. */
static enum sp_status find_offset(struct client *client, const char *path, uint64_t size, uint64_t *ret_offset,
                                  struct sp_error *err)
{
    json_t *upload = NULL;
    enum sp_status status = ask_json(client, "GET", path, NULL, &upload, err);
    const json_t *offset = json_object_get(upload, "offset");
    if (status == SP_OK &&
        (!json_is_integer(offset) || json_integer_value(offset) < 0 || (uint64_t)json_integer_value(offset) > size))
        status = no_sense(err);
    if (status == SP_OK)
        *ret_offset = (uint64_t)json_integer_value(offset);
    json_decref(upload);
    return status;
}

/* Sends all from an offset on; an answer other than 200, or none, is *ret_broken where going on may help. */
static enum sp_status send_rest(struct client *client, const char *path, const struct call *part, bool *ret_broken,
                                struct sp_error *err)
{
    struct answer answer;
    struct call call = *part;
    call.path = path;
    enum sp_status status = client_call(client, &call, &answer, err);
    *ret_broken = !interrupted && ((status == SP_ERR_IO) || (status == SP_OK && answer.status == 409));
    if (status == SP_OK && answer.status != 200 && !*ret_broken)
        status = client_problem(client, &answer, err);
    sp_buf_release(&answer.body);
    return status;
}

static enum sp_status send_parts(struct client *client, const char *path, const struct input *input,
                                 struct progress *progress, struct sp_error *err)
{
    uint64_t offset = 0;
    for (unsigned tries = 0;; tries++) {
        bool is_broken = false;
        const uint64_t before = offset;
        const struct call part = {.method = "PATCH",
                                  .type = "application/octet-stream",
                                  .upload = input,
                                  .is_part = true,
                                  .offset = offset,
                                  .progress = progress};
        enum sp_status status = send_rest(client, path, &part, &is_broken, err);
        if (!is_broken)
            return status;
        if (err != NULL)
            sp_error_clear(err);
        pause_seconds(1);
        status = find_offset(client, path, input->size, &offset, err);
        if (status != SP_OK && (status != SP_ERR_IO || interrupted))
            return status;
        if (offset > before)
            tries = 0;
        if (tries == MOST_TRIES)
            return status != SP_OK ? status
                                   : sp_fail(err, SP_ERR_IO, "SERVER_UNREACHABLE",
                                             "The upload of '%.200s' does not get on.", input->name);
        if (err != NULL)
            sp_error_clear(err);
    }
}

/* *ret_id, from malloc, is the upload that has all of the file. */
static enum sp_status upload(struct client *client, struct input *input, struct progress *progress, char **ret_id,
                             struct sp_error *err)
{
    json_t *body = NULL, *made = NULL;
    char path[MAX_PATH];
    enum sp_status status = input_hash(input, err);
    if (status == SP_OK) {
        body = json_pack("{s:I, s:s}", "bytes", (json_int_t)input->size, "sha256", input->sha256);
        status = body != NULL ? ask_json(client, "POST", "/v1/uploads", body, &made, err) : sp_fail_memory(err);
    }
    const char *id = json_string_value(json_object_get(made, "id"));
    if (status == SP_OK && (id == NULL || !is_plan_id(id)))
        status = no_sense(err);
    if (status == SP_OK) {
        (void)snprintf(path, sizeof path, "/v1/uploads/%s", id);
        status = send_parts(client, path, input, progress, err);
    }
    if (status == SP_OK) {
        *ret_id = strdup(id);
        status = *ret_id != NULL ? SP_OK : sp_fail_memory(err);
    }
    json_decref(body);
    json_decref(made);
    return status;
}

/* ---- a model's files ---- */

/* What is known of them: the locations that the server has, as members of an object; NULL: it keeps none. */
static enum sp_status list_known(struct client *client, const char *path, json_t **ret_known, struct sp_error *err)
{
    struct answer answer;
    const struct call call = {.method = "GET", .path = path};
    enum sp_status status = client_call(client, &call, &answer, err);
    *ret_known = NULL;
    if (status == SP_OK && answer.status != 200 && answer.status != 404)
        status = client_problem(client, &answer, err);
    if (status == SP_OK && answer.status == 200) {
        json_t *list = json_loadb(answer.body.data, answer.body.size, JSON_REJECT_DUPLICATES, NULL);
        const json_t *files = json_object_get(list, "files"), *file;
        size_t i;
        *ret_known = json_object();
        json_array_foreach(files, i, file)
        {
            const char *location = json_string_value(json_object_get(file, "location"));
            if (location != NULL)
                (void)json_object_set_new(*ret_known, location, json_true());
        }
        json_decref(list);
    }
    sp_buf_release(&answer.body);
    return status;
}

/* Sends the file of a location, unless it is not there: then what is made refers to it. */
static enum sp_status send_file(struct client *client, const struct input *model, const char *location,
                                const char *path, struct progress *progress, struct sp_error *err)
{
    struct stat info;
    struct input input = {.fd = open_data_of(model, location)};
    char *id = NULL;
    json_t *placed = NULL;
    (void)snprintf(input.name, sizeof input.name, "%s", location);
    if (input.fd < 0)
        return SP_OK;
    enum sp_status status = SP_OK;
    if (fstat(input.fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0) {
        input.size = (uint64_t)info.st_size;
        status = upload(client, &input, progress, &id, err);
    }
    json_t *body = id != NULL ? json_pack("{s:s, s:s}", "location", location, "upload", id) : NULL;
    if (id != NULL)
        status = body != NULL ? ask_json(client, "POST", path, body, &placed, err) : sp_fail_memory(err);
    json_decref(placed);
    json_decref(body);
    free(id);
    (void)close(input.fd);
    return status;
}

static enum sp_status send_files(struct client *client, const struct input *input, const struct sp_graph *graph,
                                 struct progress *progress, struct sp_error *err)
{
    char path[MAX_PATH];
    json_t *known = NULL;
    (void)snprintf(path, sizeof path, "/v1/models/%s/files", input->sha256);
    enum sp_status status = list_known(client, path, &known, err);
    for (uint32_t i = 0; status == SP_OK && known != NULL && i < graph->initializer_count; i++) {
        const struct sp_tensor *tensor = graph->initializers[i]->tensor;
        const char *location =
            tensor != NULL && tensor->storage == SP_STORAGE_EXTERNAL ? tensor->external.location : NULL;
        if (location == NULL || json_object_get(known, location) != NULL)
            continue;
        status = json_object_set_new(known, location, json_true()) == 0 ? SP_OK : sp_fail_memory(err);
        if (status == SP_OK)
            status = send_file(client, input, location, path, progress, err);
    }
    json_decref(known);
    return status;
}

enum sp_status client_ensure_files(struct client *client, const struct input *input, struct progress *progress,
                                   struct sp_error *err)
{
    const struct sp_job_options options = {.bytes = input->bytes, .size = input->size, .name = input->name};
    struct sp_job *job = NULL;
    if (input->folder == NULL) /* a model from a pipe has nothing beside it */
        return SP_OK;
    enum sp_status status = sp_job_open(&options, &job, err);
    const struct sp_model *model = status == SP_OK ? sp_job_model(job) : NULL;
    bool has_external = false;
    for (uint32_t i = 0; model != NULL && model->graph != NULL && i < model->graph->initializer_count; i++) {
        const struct sp_tensor *tensor = model->graph->initializers[i]->tensor;
        has_external = has_external || (tensor != NULL && tensor->storage == SP_STORAGE_EXTERNAL);
    }
    if (has_external)
        status = send_files(client, input, model->graph, progress, err);
    sp_job_destroy(job);
    return status;
}
