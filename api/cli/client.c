#include "client.h"

#include <curl/curl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plan/version.h"

#define CONNECT_SECONDS 10L
#define SILENCE_SECONDS 120L /* without a byte in either direction */
#define MAX_URL_BYTES   4096

struct client {
    CURL *curl;
    const char *url;
    char curl_error[CURL_ERROR_SIZE];
    char limit[64]; /* the name of a limit that a problem told */
};

/* One call while it runs. */
struct transfer {
    struct client *client;
    const struct call *call;
    struct answer *answer;
    uint64_t sent;
};

enum sp_status client_open(const char *url, struct client **ret_client, struct sp_error *err)
{
    struct client *client = calloc(1, sizeof *client);
    if (client == NULL)
        return sp_fail_memory(err);
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || (client->curl = curl_easy_init()) == NULL) {
        free(client);
        return sp_fail(err, SP_ERR_MEMORY, "NO_HTTP", "The HTTP library could not be started.");
    }
    client->url = url;
    *ret_client = client;
    return SP_OK;
}

void client_close(struct client *client)
{
    if (client == NULL)
        return;
    curl_easy_cleanup(client->curl);
    curl_global_cleanup();
    free(client);
}

/* ---- the library's callbacks ---- */

static size_t on_body(char *bytes, size_t unit, size_t count, void *context)
{
    struct transfer *transfer = context;
    size_t size = unit * count;
    long status = 0;
    (void)curl_easy_getinfo(transfer->client->curl, CURLINFO_RESPONSE_CODE, &status);
    if (transfer->call->download != NULL && status == 200)
        return output_write(transfer->call->download, bytes, size) ? size : 0;
    sp_buf_append(&transfer->answer->body, bytes, size);
    return sp_buf_failed(&transfer->answer->body) ? 0 : size;
}

static size_t on_send(char *bytes, size_t unit, size_t count, void *context)
{
    struct transfer *transfer = context;
    const struct input *input = transfer->call->upload;
    uint64_t left = input->size - transfer->sent;
    size_t size = unit * count < left ? unit * count : (size_t)left;
    ssize_t got = size > 0 ? pread(input->fd, bytes, size, (off_t)transfer->sent) : 0;
    if (got < 0)
        return CURL_READFUNC_ABORT;
    transfer->sent += (uint64_t)got;
    return (size_t)got;
}

/* The library sends a body again when the server answers in the middle of it on a reused connection. */
static int on_seek(void *context, curl_off_t offset, int origin)
{
    struct transfer *transfer = context;
    if (origin != SEEK_SET || offset < 0)
        return CURL_SEEKFUNC_CANTSEEK;
    transfer->sent = (uint64_t)offset;
    return CURL_SEEKFUNC_OK;
}

static int on_progress(void *context, curl_off_t down_total, curl_off_t down, curl_off_t up_total, curl_off_t up)
{
    struct transfer *transfer = context;
    struct progress *progress = transfer->call->progress;
    (void)down_total;
    (void)down;
    if (interrupted)
        return 1;
    if (progress == NULL)
        return 0;
    if (transfer->call->upload != NULL && up_total > 0)
        progress_draw(progress, "upload", (double)up / (double)up_total, 0, 0);
    progress->timed_out = progress->limit > 0 && progress_elapsed(progress) > progress->limit;
    return progress->timed_out ? 1 : 0;
}

/* ---- calls ---- */

static void add_header(struct curl_slist **headers, bool *ok, const char *name, const char *value)
{
    char text[256];
    if (value == NULL || !*ok)
        return;
    (void)snprintf(text, sizeof text, "%s: %s", name, value);
    struct curl_slist *list = curl_slist_append(*headers, text);
    *ok = list != NULL;
    if (list != NULL)
        *headers = list;
}

static void set_body(CURL *curl, const struct call *call, struct transfer *transfer)
{
    if (call->upload != NULL) {
        (void)curl_easy_setopt(curl, CURLOPT_POST, 1L);
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->upload->size);
        (void)curl_easy_setopt(curl, CURLOPT_READFUNCTION, on_send);
        (void)curl_easy_setopt(curl, CURLOPT_READDATA, transfer);
        (void)curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, on_seek);
        (void)curl_easy_setopt(curl, CURLOPT_SEEKDATA, transfer);
    } else if (call->body != NULL) {
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body->size);
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDS, call->body->size > 0 ? call->body->data : "");
    } else if (strcmp(call->method, "POST") == 0) {
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, 0L);
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "");
    } else if (strcmp(call->method, "HEAD") == 0) {
        (void)curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    }
}

static enum sp_status transport_error(const struct client *client, const struct call *call, CURLcode code,
                                      const struct answer *answer, struct sp_error *err)
{
    if (interrupted)
        return sp_fail(err, SP_ERR_CANCELLED, "INTERRUPTED", "The request was interrupted.");
    if (call->progress != NULL && call->progress->timed_out)
        return sp_fail(err, SP_ERR_CANCELLED, "TIME_LIMIT", "The time limit ran out before the server had an answer.");
    if (sp_buf_failed(&answer->body))
        return sp_fail(err, SP_ERR_MEMORY, "ANSWER_TOO_LARGE", "The server's answer is too large for this program.");
    if (code == CURLE_WRITE_ERROR && call->download != NULL)
        return sp_fail(err, SP_ERR_IO, "FILE_NOT_WRITABLE", "Cannot write '%s' to its end.", call->download->path);
    (void)sp_fail(err, SP_ERR_IO, "SERVER_UNREACHABLE", "The request to the server failed: %s.",
                  client->curl_error[0] != '\0' ? client->curl_error : curl_easy_strerror(code));
    return sp_error_at(err, "%s", client->url);
}

enum sp_status client_call(struct client *client, const struct call *call, struct answer *answer, struct sp_error *err)
{
    CURL *curl = client->curl;
    struct transfer transfer = {.client = client, .call = call, .answer = answer};
    struct curl_slist *headers = NULL;
    char url[MAX_URL_BYTES];
    bool ok = true;
    answer->status = 0;
    sp_buf_init(&answer->body, CLI_MAX_TEXT_BYTES);
    int length = snprintf(url, sizeof url, "%s%s", client->url, call->path);
    if (length < 0 || (size_t)length >= sizeof url)
        return sp_fail(err, SP_ERR_REQUEST, "URL_TOO_LONG", "The server's URL is too long.");
    curl_easy_reset(curl);
    client->curl_error[0] = '\0';
    add_header(&headers, &ok, "Accept", call->accept != NULL ? call->accept : "application/json");
    add_header(&headers, &ok, "Prefer", call->prefer);
    add_header(&headers, &ok, "Content-Type", call->type);
    (void)curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, client->curl_error);
    (void)curl_easy_setopt(curl, CURLOPT_URL, url);
    (void)curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(curl, CURLOPT_USERAGENT, "shardplan/" SP_VERSION);
    (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
    (void)curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, SILENCE_SECONDS);
    (void)curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    (void)curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    (void)curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
    (void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    set_body(curl, call, &transfer);
    CURLcode code = ok ? curl_easy_perform(curl) : CURLE_OUT_OF_MEMORY;
    (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer->status);
    curl_slist_free_all(headers);
    return code == CURLE_OK ? SP_OK : transport_error(client, call, code, answer, err);
}

/* ---- problems ---- */

static enum sp_status status_by_name(const char *name)
{
    for (int status = SP_ERR_MALFORMED; status <= SP_ERR_INTERNAL; status++) {
        if (strcmp(name, sp_status_name((enum sp_status)status)) == 0)
            return (enum sp_status)status;
    }
    return SP_OK;
}

/* Which of the library's statuses it was: the daemon says so in "kind"; proxies and the HTTP side give only a number.
 */
static enum sp_status status_of(long http, const json_t *problem)
{
    const char *kind = json_string_value(json_object_get(problem, "kind"));
    enum sp_status status = kind != NULL ? status_by_name(kind) : SP_OK;
    if (status != SP_OK)
        return status;
    if (http == 400 || http == 413 || http == 415)
        return SP_ERR_MALFORMED;
    if (http == 422)
        return SP_ERR_REQUEST; /* what is wrong with a model has a kind */
    return SP_ERR_IO;
}

static const char *text_of(const json_t *problem, const char *name, const char *otherwise)
{
    const char *text = json_string_value(json_object_get(problem, name));
    return text != NULL ? text : otherwise;
}

enum sp_status client_problem_text(struct client *client, long status, const char *text, size_t size,
                                   struct sp_error *err)
{
    json_t *problem = size > 0 ? json_loadb(text, size, 0, NULL) : NULL;
    if (!json_is_object(problem)) {
        json_decref(problem);
        (void)sp_fail(err, SP_ERR_IO, "SERVER_ERROR", "The server answered with status %ld and no explanation.",
                      status);
        return sp_error_at(err, "%s", client->url);
    }
    if (status == 0)
        status = (long)json_integer_value(json_object_get(problem, "status"));
    enum sp_status kind = status_of(status, problem);
    (void)sp_fail(err, kind, text_of(problem, "code", "SERVER_ERROR"), "%s",
                  text_of(problem, "detail", text_of(problem, "title", "The server refused the request.")));
    if (text_of(problem, "where", NULL) != NULL)
        (void)sp_error_at(err, "%s", text_of(problem, "where", ""));
    if (text_of(problem, "limit", NULL) != NULL && err != NULL) {
        (void)snprintf(client->limit, sizeof client->limit, "%s", text_of(problem, "limit", ""));
        err->limit = client->limit;
        err->limit_value = json_integer_value(json_object_get(problem, "limit_value"));
        err->actual = json_integer_value(json_object_get(problem, "actual"));
    }
    if (err != NULL) {
        err->least_memory_bytes = json_integer_value(json_object_get(problem, "least_memory_bytes"));
        err->too_little_memory_bytes = json_integer_value(json_object_get(problem, "too_little_memory_bytes"));
    }
    json_decref(problem);
    return kind;
}

enum sp_status client_problem(struct client *client, const struct answer *answer, struct sp_error *err)
{
    return client_problem_text(client, answer->status, answer->body.data, answer->body.size, err);
}
