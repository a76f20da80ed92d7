/* The commands, done by a daemon: same verbs, same output, same exit codes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

#define MAX_PATH 1024

/* Where a model is sent to; the name that people know it by goes along. */
static void model_path(char *path, size_t size, const char *name)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
    size_t used = (size_t)snprintf(path, size, "/v1/models?name=");
    for (; *name != '\0' && used + 4 < size; name++) {
        bool is_plain = strchr(plain, *name) != NULL;
        used += (size_t)snprintf(path + used, size - used, is_plain ? "%c" : "%%%02X", (unsigned char)*name);
    }
}

enum sp_status client_ensure_model(struct client *client, struct input *input, const char *name,
                                   struct progress *progress, bool *ret_new, struct sp_error *err)
{
    struct answer answer;
    char path[MAX_PATH];
    enum sp_status status = input_hash(input, err);
    if (status != SP_OK)
        return status;
    (void)snprintf(path, sizeof path, "/v1/models/%s", input->sha256);
    const struct call head = {.method = "HEAD", .path = path, .progress = progress};
    status = client_call(client, &head, &answer, err);
    sp_buf_release(&answer.body);
    const bool is_there = status == SP_OK && answer.status == 200;
    if (ret_new != NULL)
        *ret_new = !is_there;
    if (status != SP_OK || is_there)
        return status;
    model_path(path, sizeof path, name != NULL ? name : input->name);
    const struct call post = {
        .method = "POST",
        .path = path,
        .type = "application/octet-stream",
        .upload = input,
        .progress = progress,
    };
    status = client_ask(client, &post, &answer, err);
    sp_buf_release(&answer.body);
    return status;
}

enum sp_status client_print(const struct common *common, const char *text, size_t size, struct sp_error *err)
{
    (void)write_stdout(NULL, text, size);
    if (common->json && (size == 0 || text[size - 1] != '\n'))
        (void)write_stdout(NULL, "\n", 1);
    return finish_stdout(err);
}

/* ---- inspect ---- */

/* Takes a member, with its comma, out of a JSON object as the daemon writes it, without blanks. */
static void drop_member(struct sp_buf *text, const char *name)
{
    const char *value;
    size_t size;
    if (!json_member(text->data, text->size, name, &value, &size))
        return;
    char *end = text->data + text->size, *from = text->data + (value - text->data) - strlen(name) - 3;
    char *to = text->data + (value - text->data) + size;
    if (from <= text->data || *from != '"')
        return;
    if (*to == ',')
        to++;
    else if (from[-1] == ',')
        from--;
    memmove(from, to, (size_t)(end - to) + 1);
    text->size -= (size_t)(to - from);
}

/* What a store says of a model beside the model itself is not there offline, and hashing would take its time there. */
static void leave_store_out(struct sp_buf *text)
{
    drop_member(text, "id");
    drop_member(text, "bytes");
    drop_member(text, "sha256");
}

int remote_inspect(const struct common *common, struct input *input, bool values, const json_t *sizes)
{
    struct progress progress;
    struct client *client = NULL;
    struct sp_error err = {0};
    struct sp_buf body;
    struct sp_json json;
    char path[128];
    progress_init(&progress, 0);
    sp_buf_init(&body, CLI_MAX_CLUSTER_BYTES);
    enum sp_status status = client_open(common, &client, &err);
    if (status == SP_OK)
        status = client_ensure_model(client, input, NULL, &progress, NULL, &err);
    if (status == SP_OK) {
        struct answer answer;
        sp_json_init_buf(&json, false, &body);
        sp_json_begin_object(&json);
        sp_json_member_bool(&json, "values", values);
        char *text = json_object_size(sizes) > 0 ? json_dumps(sizes, JSON_COMPACT) : NULL;
        if (text != NULL) {
            sp_json_key(&json, "options");
            sp_json_raw(&json, text, strlen(text));
        }
        free(text);
        sp_json_end_object(&json);
        (void)sp_json_finish(&json, NULL);
        (void)snprintf(path, sizeof path, "/v1/models/%s/inspect", input->sha256);
        const struct call call = {
            .method = "POST",
            .path = path,
            .type = "application/json",
            .accept = common->json ? "application/json" : "text/plain",
            .body = &body,
            .progress = &progress,
        };
        status = client_ask(client, &call, &answer, &err);
        progress_clear(&progress);
        if (status == SP_OK && common->json)
            leave_store_out(&answer.body);
        if (status == SP_OK)
            status = client_print(common, answer.body.data, answer.body.size, &err);
        sp_buf_release(&answer.body);
    }
    progress_clear(&progress);
    int code = status == SP_OK ? EXIT_DONE : report_error(common, &err, NULL);
    sp_buf_release(&body);
    client_close(client);
    return code;
}

/* ---- convert, reshard ---- */

enum sp_status remote_ask(const struct common *common, const char *path, const struct sp_buf *body,
                          struct sp_buf *answer, struct sp_error *err)
{
    struct client *client = NULL;
    struct answer got = {0};
    const struct call call = {
        .method = "POST",
        .path = path,
        .type = "application/json",
        .accept = common->json ? "application/json" : "text/plain",
        .body = body,
    };
    enum sp_status status = client_open(common, &client, err);
    if (status == SP_OK)
        status = client_ask(client, &call, &got, err);
    *answer = got.body;
    client_close(client);
    return status;
}
