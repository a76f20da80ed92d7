/* `plan --emit` and `export`, done by a daemon: its files, under the names that they have offline. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "realize/realize.h"

#define MAX_PATH   1024
#define ID_LENGTH  32 /* of a plan on a server */
#define EVERY_TYPE "*/*"

enum sp_status client_download(struct client *client, const char *route, const char *path, struct sp_error *err)
{
    struct output output = {.fd = -1};
    struct answer answer;
    enum sp_status status = output_open(path, NULL, &output, err);
    if (status != SP_OK)
        return status;
    const struct call call = {.method = "GET", .path = route, .accept = EVERY_TYPE, .download = &output};
    status = client_ask(client, &call, &answer, err);
    sp_buf_release(&answer.body);
    if (status == SP_OK)
        status = output_commit(&output, err);
    output_close(&output);
    return status;
}

/* ---- the devices' models ---------------------------------------------------------------------------------------- */

static enum sp_status bad_manifest(struct sp_error *err)
{
    return sp_fail(err, SP_ERR_IO, "SERVER_ERROR", "The server's manifest of the devices' models makes no sense.");
}

static enum sp_status download_into(struct client *client, const char *route, const char *folder, const char *name,
                                    struct sp_error *err)
{
    char *path = path_in(folder, name);
    enum sp_status status = path != NULL ? client_download(client, route, path, err) : sp_fail_memory(err);
    free(path);
    return status;
}

/* One model of the manifest. Its name is made here: no name that a server says becomes a path. */
static enum sp_status download_part(struct client *client, const char *id, const struct remote_file *file,
                                    const json_t *device, const json_t *part, struct sp_error *err)
{
    const json_t *number = json_object_get(device, "id"), *index = json_object_get(part, "part");
    const char *told = json_string_value(json_object_get(part, "model"));
    const json_int_t k = json_integer_value(number), p = json_integer_value(index);
    char name[SP_DEVICE_MODEL_NAME_SIZE], route[MAX_PATH];
    if (!json_is_integer(number) || !json_is_integer(index) || k < 0 || p < 0 || p > UINT32_MAX || told == NULL ||
        strcmp(told, sp_device_plan_model(NULL, k, (uint32_t)p, name)) != 0)
        return bad_manifest(err);
    (void)snprintf(route, sizeof route, "/v1/plans/%s/devices/%lld/model?format=%s&part=%lld%s%s", id, (long long)k,
                   file->format, (long long)p, file->forms[0] != '\0' ? "&form=" : "", file->forms);
    return download_into(client, route, file->path, name, err);
}

/* The weights beside a device's models, where there are any: a server that has none, or knows of none, says 404. */
static enum sp_status download_data(struct client *client, const char *id, const struct remote_file *file,
                                    json_int_t device, struct sp_error *err)
{
    char name[sizeof SP_DEVICE_DATA_NAME + 24], route[MAX_PATH];
    struct output output = {.fd = -1};
    struct answer answer = {0};
    (void)snprintf(name, sizeof name, SP_DEVICE_DATA_NAME, (long long)device);
    (void)snprintf(route, sizeof route, "/v1/plans/%s/devices/%lld/data?format=%s%s%s", id, (long long)device,
                   file->format, file->forms[0] != '\0' ? "&form=" : "", file->forms);
    char *path = path_in(file->path, name);
    enum sp_status status = path != NULL ? output_open(path, NULL, &output, err) : sp_fail_memory(err);
    const struct call call = {.method = "GET", .path = route, .accept = EVERY_TYPE, .download = &output};
    if (status == SP_OK)
        status = client_call(client, &call, &answer, err);
    if (status == SP_OK && answer.status == 200)
        status = output_commit(&output, err);
    else if (status == SP_OK && answer.status != 404 && answer.status != 400)
        status = client_problem(client, &answer, err);
    sp_buf_release(&answer.body);
    output_close(&output);
    free(path);
    return status;
}

static enum sp_status download_parts(struct client *client, const char *id, const struct remote_file *file,
                                     const json_t *manifest, struct sp_error *err)
{
    const json_t *devices = json_object_get(manifest, "devices");
    enum sp_status status = json_is_array(devices) ? SP_OK : bad_manifest(err);
    for (size_t i = 0; status == SP_OK && i < json_array_size(devices); i++) {
        const json_t *device = json_array_get(devices, i), *parts = json_object_get(device, "parts");
        if (!json_is_array(parts))
            return bad_manifest(err);
        for (size_t j = 0; status == SP_OK && j < json_array_size(parts); j++)
            status = download_part(client, id, file, device, json_array_get(parts, j), err);
        if (status == SP_OK)
            status = download_data(client, id, file, json_integer_value(json_object_get(device, "id")), err);
    }
    return status;
}

static void route_of_export(const char *id, const struct remote_file *file, char *text, size_t size)
{
    (void)snprintf(text, size, "/v1/plans/%s/exports/%s%s%s", id, file->format, file->forms[0] != '\0' ? "?form=" : "",
                   file->forms);
}

/* The models first: a manifest names files that are there. */
static enum sp_status download_devices(struct client *client, const char *id, const struct remote_file *file,
                                       struct sp_error *err)
{
    struct output output = {.fd = -1};
    struct answer answer;
    char route[MAX_PATH];
    const char *folder = file->path;
    char *path = path_in(folder, "manifest.json");
    route_of_export(id, file, route, sizeof route);
    const struct call call = {.method = "GET", .path = route};
    enum sp_status status = client_ask(client, &call, &answer, err);
    json_t *manifest = status == SP_OK && answer.body.size > 0
                           ? json_loadb(answer.body.data, answer.body.size, JSON_REJECT_DUPLICATES, NULL)
                           : NULL;
    if (status == SP_OK)
        status = path != NULL ? emit_folder(folder, err) : sp_fail_memory(err);
    json_t *before = emitted_models(folder);
    if (status == SP_OK)
        status = download_parts(client, id, file, manifest, err);
    if (status == SP_OK)
        status = output_open(path, NULL, &output, err);
    if (status == SP_OK && !output_write(&output, answer.body.data, answer.body.size))
        status = sp_fail(err, SP_ERR_IO, "FILE_NOT_WRITABLE", "Cannot write '%s' to its end.", path);
    if (status == SP_OK)
        status = output_commit(&output, err);
    output_close(&output);
    if (status == SP_OK)
        emitted_remove(folder, before);
    else
        json_decref(before);
    json_decref(manifest);
    sp_buf_release(&answer.body);
    free(path);
    return status;
}

/* ---- plan --emit ------------------------------------------------------------------------------------------------ */

/* Whether the server has as many files beside the model as it needs. */
static bool has_files(struct client *client, const char *sha256, const json_t *external)
{
    struct answer answer;
    char route[MAX_PATH];
    (void)snprintf(route, sizeof route, "/v1/models/%s/files", sha256);
    const struct call call = {.method = "GET", .path = route};
    struct sp_error err = {0};
    const bool ok = client_call(client, &call, &answer, &err) == SP_OK && answer.status == 200;
    json_t *list = ok ? json_loadb(answer.body.data, answer.body.size, JSON_REJECT_DUPLICATES, NULL) : NULL;
    const size_t have = json_array_size(json_object_get(list, "files"));
    sp_buf_release(&answer.body);
    json_decref(list);
    return ok && (json_int_t)have >= json_integer_value(json_object_get(external, "files"));
}

/* Where a server lacks files beside the model a note says it. *ret_costs: it is a graph of costs, which nothing can run. */
static enum sp_status look_at_model(struct client *client, const char *sha256, bool *ret_costs, struct sp_error *err)
{
    struct answer answer;
    char route[MAX_PATH];
    const char *member;
    char format[16];
    size_t size;
    (void)snprintf(route, sizeof route, "/v1/models/%s", sha256);
    const struct call call = {.method = "GET", .path = route};
    enum sp_status status = client_ask(client, &call, &answer, err);
    json_t *external =
        status == SP_OK && json_member(answer.body.data, answer.body.size, "external_data", &member, &size)
            ? json_loadb(member, size, 0, NULL)
            : NULL;
    if (external != NULL && !has_files(client, sha256, external))
        print_note("the server does not have the files that the model's weights lie in; what is written refers to "
                   "them, so they must come to lie beside that");
    json_decref(external);
    *ret_costs = status == SP_OK &&
                 json_member_word(answer.body.data, answer.body.size, "format", format, sizeof format) &&
                 strcmp(format, "costs") == 0;
    sp_buf_release(&answer.body);
    return status;
}

enum sp_status client_emit(struct client *client, const char *id, const struct plan_request *request,
                           struct sp_error *err)
{
    static const char *const files[][2] = {
        {"timeline", "timeline.pftrace"}, {"model", "annotated.onnx"}, {"simulation", "simulation.onnx"}};
    char route[MAX_PATH];
    const char *folder = request->emit;
    bool is_costs = false;
    enum sp_status status = look_at_model(client, request->input.sha256, &is_costs, err);
    const size_t all = request->skips_simulation ? 2 : 3, count = is_costs ? 1 : all;
    for (size_t i = 0; status == SP_OK && i < count; i++) {
        (void)snprintf(route, sizeof route, "/v1/plans/%s/%s", id, files[i][0]);
        status = download_into(client, route, folder, files[i][1], err);
    }
    if (status == SP_OK && is_costs)
        print_note("a graph of costs has no operators: there are a plan and a timeline, and no models");
    else if (status == SP_OK)
        status = download_devices(client, id,
                                  &(struct remote_file){.format = "ort-collectives", .forms = "", .path = folder}, err);
    return status;
}

/* ---- export ----------------------------------------------------------------------------------------------------- */

bool is_plan_id(const char *text)
{
    return strlen(text) == ID_LENGTH && strspn(text, "0123456789abcdef") == ID_LENGTH;
}

enum sp_status client_export(struct client *client, const char *id, const struct remote_file *file,
                             struct sp_error *err)
{
    enum sp_realize_target target;
    char route[MAX_PATH];
    if (strcmp(file->format, "ort") == 0 && file->device != SP_FILE_NO_DEVICE)
        (void)snprintf(route, sizeof route, "/v1/plans/%s/devices/%lld/model?format=ort", id, (long long)file->device);
    else
        route_of_export(id, file, route, sizeof route);
    if (sp_file_is_of_devices(file->format, &target))
        return download_devices(client, id, file, err);
    return client_download(client, route, file->path, err);
}

int remote_export(const struct common *common, const char *id, const struct remote_file *file)
{
    struct client *client = NULL;
    struct sp_error err = {0};
    enum sp_status status = client_open(common, &client, &err);
    if (status == SP_OK)
        status = client_export(client, id, file, &err);
    client_close(client);
    return status == SP_OK ? EXIT_DONE : report_error(common, &err, NULL);
}
