/* What answers other than 2xx mean: a problem object becomes an error with the status that ends the command. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "client_private.h"

static enum sp_status status_by_name(const char *name)
{
    for (int status = SP_ERR_MALFORMED; status <= SP_ERR_INTERNAL; status++) {
        if (strcmp(name, sp_status_name((enum sp_status)status)) == 0)
            return (enum sp_status)status;
    }
    return SP_OK;
}

/* The status that answers of this number stand for, where the daemon does not say it. */
static enum sp_status client_status_of(long http)
{
    if (http == 400 || http == 413 || http == 415)
        return SP_ERR_MALFORMED;
    if (http == 422)
        return SP_ERR_REQUEST; /* what is wrong with a model has a kind */
    return SP_ERR_IO;
}

/* Which of the library's statuses it was: the daemon says so in "kind"; proxies and the HTTP side give only a number.
 */
static enum sp_status status_of(long http, const json_t *problem)
{
    const char *kind = json_string_value(json_object_get(problem, "kind"));
    enum sp_status status = kind != NULL ? status_by_name(kind) : SP_OK;
    return status != SP_OK ? status : client_status_of(http);
}

static const char *text_of(const json_t *problem, const char *name, const char *otherwise)
{
    const char *text = json_string_value(json_object_get(problem, name));
    return text != NULL && *text != '\0' ? text : otherwise;
}

/* What an answer without a word stands for. */
static enum sp_status unexplained(const struct client *client, long status, struct sp_error *err)
{
    static const struct {
        long status;
        const char *code, *text;
    } known[] = {
        {401, "UNAUTHORIZED", "The server wants to know who asks."},
        {403, "FORBIDDEN", "The server does not allow this."},
        {407, "PROXY", "A proxy on the way to the server wants to know who asks."},
        {429, "BUSY", "The server was asked too often."},
        {502, "PROXY", "A proxy in front of the server did not get an answer from it."},
        {503, "BUSY", "The server takes no requests at the moment."},
        {504, "PROXY", "A proxy in front of the server did not get an answer from it in time."},
        {507, "DISK_FULL", "The server's disk is full."},
    };
    char *target = NULL;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].status == status)
            return sp_fail(err, SP_ERR_IO, known[i].code, "%s", known[i].text);
    }
    (void)curl_easy_getinfo(client->curl, CURLINFO_REDIRECT_URL, &target);
    if (status >= 300 && status < 400 && target != NULL)
        return sp_fail(
            err, SP_ERR_IO, "REDIRECTED",
            "The server sends on to '%.300s'. That is not followed; where it is right, give it as the server.", target);
    return sp_fail(err, SP_ERR_IO, "SERVER_ERROR", "The server answered with status %ld and no explanation.", status);
}

/* What the person can do about it, behind what the server says. */
static void add_advice(const struct client *client, long status, long retry_after, struct sp_error *err)
{
    char text[SP_ERROR_MESSAGE_SIZE / 4] = "";
    const bool has_token = client->token[0] != '\0';
    if (err == NULL)
        return;
    if (status == 401 && has_token)
        (void)snprintf(text, sizeof text, " The token that was given is wrong, expired or of another server.");
    else if (status == 401)
        (void)snprintf(text, sizeof text,
                       " Give a token with --token-file FILE, SHARDPLAN_TOKEN_FILE or "
                       "SHARDPLAN_TOKEN, or a certificate with --client-certificate FILE.");
    else if (status == 403 && has_token)
        (void)snprintf(text, sizeof text, " It takes a token with more rights.");
    else if ((status == 429 || status == 503) && retry_after > 0)
        (void)snprintf(text, sizeof text, " It says to try again in %ld s.", retry_after);
    size_t used = strlen(err->message);
    (void)snprintf(err->message + used, sizeof err->message - used, "%s", text);
}

static enum sp_status explain(struct client *client, long status, const char *text, size_t size, long retry_after,
                              struct sp_error *err)
{
    json_t *problem = size > 0 ? json_loadb(text, size, 0, NULL) : NULL;
    if (!json_is_object(problem)) {
        json_decref(problem);
        (void)unexplained(client, status, err);
        add_advice(client, status, retry_after, err);
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
        sp_make_printable(client->limit, sizeof client->limit);
        err->limit = client->limit;
        err->limit_value = json_integer_value(json_object_get(problem, "limit_value"));
        err->actual = json_integer_value(json_object_get(problem, "actual"));
    }
    if (err != NULL) {
        err->least_memory_bytes = json_integer_value(json_object_get(problem, "least_memory_bytes"));
        err->too_little_memory_bytes = json_integer_value(json_object_get(problem, "too_little_memory_bytes"));
    }
    json_decref(problem);
    add_advice(client, status, retry_after, err);
    return kind;
}

enum sp_status client_problem_text(struct client *client, long status, const char *text, size_t size,
                                   struct sp_error *err)
{
    return explain(client, status, text, size, 0, err);
}

enum sp_status client_problem(struct client *client, const struct answer *answer, struct sp_error *err)
{
    return explain(client, answer->status, answer->body.data, answer->body.size, answer->retry_after, err);
}

enum sp_status client_ask(struct client *client, const struct call *call, struct answer *answer, struct sp_error *err)
{
    enum sp_status status = client_call(client, call, answer, err);
    if (status == SP_OK && (answer->status < 200 || answer->status >= 300))
        status = client_problem(client, answer, err);
    return status;
}
