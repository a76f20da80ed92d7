/* `check`, `infer` and `operators`, done by a daemon. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

#define MAX_PATH 1024

/* Text behind '?' or between '/': what is not plain becomes %XX. */
static bool add_escaped(struct sp_buf *buf, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
    for (; *text != '\0'; text++)
        sp_buf_printf(buf, strchr(plain, *text) != NULL ? "%c" : "%%%02X", (unsigned char)*text);
    return !sp_buf_failed(buf);
}

static const char *wanted(const struct common *common)
{
    return common->json ? "application/json" : "text/plain";
}

/* A JSON request as the body of a call. */
static enum sp_status write_body(const json_t *request, struct sp_buf *body, struct sp_error *err)
{
    char *text = json_dumps(request, JSON_COMPACT);
    if (text != NULL)
        sp_buf_text(body, text);
    bool ok = text != NULL && !sp_buf_failed(body);
    free(text);
    return ok ? SP_OK : sp_fail_memory(err);
}

/* ---- check ---- */

/* The request's members become parameters: the body is the model. */
static enum sp_status check_path(const struct input *input, const json_t *request, struct sp_buf *path,
                                 struct sp_error *err)
{
    const char *member;
    json_t *value;
    sp_buf_text(path, "/v1/check?name=");
    bool ok = add_escaped(path, input->name);
    json_object_foreach((json_t *)(uintptr_t)request, member, value)
    {
        sp_buf_printf(path, "&%s=", member);
        char *text = json_is_string(value) ? strdup(json_string_value(value))
                                           : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
        ok = ok && text != NULL && add_escaped(path, text);
        free(text);
    }
    return ok && !sp_buf_failed(path) ? SP_OK : sp_fail_memory(err);
}

/* Both forms say how many errors there are: JSON as the member "valid", text at the end of its last line,
   "NAME is valid: 0 errors, ..". */
static bool says_valid(const struct common *common, const struct answer *answer)
{
    static const char none[] = "0 errors, ";
    const char *value, *text = answer->body.data;
    size_t size;
    if (common->json)
        return json_member(text, answer->body.size, "valid", &value, &size) && size == 4;
    const char *colon = text == NULL ? NULL : strrchr(text, ':');
    return colon != NULL && strncmp(colon + 2, none, sizeof none - 1) == 0;
}

int remote_check(const struct common *common, struct input *input, const json_t *request)
{
    struct progress progress;
    struct client *client = NULL;
    struct sp_error err = {0};
    struct sp_buf path;
    bool is_valid = false;
    sp_buf_init(&path, (size_t)4 * SP_MAX_NAME_BYTES);
    progress_init(&progress, 0);
    enum sp_status status = check_path(input, request, &path, &err);
    if (status == SP_OK)
        status = client_open(common, &client, &err);
    if (status == SP_OK) {
        struct answer answer;
        const struct call call = {
            .method = "POST",
            .path = path.data,
            .type = "application/octet-stream",
            .accept = wanted(common),
            .upload = input,
            .progress = &progress,
        };
        status = client_ask(client, &call, &answer, &err);
        progress_clear(&progress);
        if (status == SP_OK)
            status = client_print(common, answer.body.data, answer.body.size, &err);
        is_valid = status == SP_OK && says_valid(common, &answer);
        sp_buf_release(&answer.body);
    }
    progress_clear(&progress);
    sp_buf_release(&path);
    client_close(client);
    if (status != SP_OK)
        return report_error(common, &err, NULL);
    return is_valid ? EXIT_DONE : EXIT_MODEL;
}

/* ---- infer ---- */

/* The answer of one kind: for people, for machines, or the completed model. */
static enum sp_status ask_completion(const struct common *common, struct client *client, const char *path,
                                     const struct sp_buf *body, struct output *download, struct progress *progress,
                                     struct sp_error *err)
{
    struct answer answer;
    const struct call call = {
        .method = "POST",
        .path = path,
        .type = "application/json",
        .accept = download != NULL ? "application/octet-stream" : wanted(common),
        .body = body,
        .download = download,
        .progress = progress,
    };
    enum sp_status status = client_ask(client, &call, &answer, err);
    progress_clear(progress);
    if (status == SP_OK && download == NULL)
        status = client_print(common, answer.body.data, answer.body.size, err);
    sp_buf_release(&answer.body);
    return status;
}

int remote_infer(const struct common *common, struct input *input, const json_t *request, const char *path)
{
    struct progress progress;
    struct client *client = NULL;
    struct output output = {.fd = -1};
    struct sp_error err = {0};
    struct sp_buf body;
    char route[MAX_PATH];
    progress_init(&progress, 0);
    sp_buf_init(&body, CLI_MAX_CLUSTER_BYTES);
    enum sp_status status = write_body(request, &body, &err);
    if (status == SP_OK)
        status = client_open(common, &client, &err);
    if (status == SP_OK)
        status = client_ensure_model(client, input, NULL, &progress, NULL, &err);
    (void)snprintf(route, sizeof route, "/v1/models/%s/infer", input->sha256);
    if (status == SP_OK && path != NULL) {
        status = output_open(path, NULL, &output, &err);
        if (status == SP_OK)
            status = ask_completion(common, client, route, &body, &output, &progress, &err);
    }
    if (status == SP_OK && (path == NULL || strcmp(path, "-") != 0)) {
        status = ask_completion(common, client, route, &body, NULL, &progress, &err);
        status = infer_printed(common, path, status, &err);
    }
    if (status == SP_OK && path != NULL)
        status = output_commit(&output, &err);
    output_close(&output);
    progress_clear(&progress);
    int code = status == SP_OK ? EXIT_DONE : report_error(common, &err, NULL);
    sp_buf_release(&body);
    client_close(client);
    return code;
}

/* ---- operators ---- */

int remote_table(const struct common *common, const char *table, const char *name)
{
    struct client *client = NULL;
    struct sp_error err = {0};
    struct sp_buf path;
    sp_buf_init(&path, (size_t)4 * SP_MAX_NAME_BYTES);
    sp_buf_text(&path, table);
    if (name != NULL)
        sp_buf_text(&path, "?name=");
    enum sp_status status = name == NULL || add_escaped(&path, name) ? SP_OK : sp_fail_memory(&err);
    if (status == SP_OK)
        status = client_open(common, &client, &err);
    if (status == SP_OK) {
        struct answer answer;
        const struct call call = {.method = "GET", .path = path.data, .accept = wanted(common)};
        status = client_ask(client, &call, &answer, &err);
        if (status == SP_OK)
            status = client_print(common, answer.body.data, answer.body.size, &err);
        sp_buf_release(&answer.body);
    }
    int code = status == SP_OK ? EXIT_DONE : report_error(common, &err, NULL);
    sp_buf_release(&path);
    client_close(client);
    return code;
}
