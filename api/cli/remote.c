/* The commands, done by a daemon: same verbs, same output, same exit codes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

#define POLL_FIRST_SECONDS 0.1
#define POLL_LAST_SECONDS  1.0
#define MAX_ID             128 /* of a plan */
#define MAX_PATH           1024

static bool is_good(long status)
{
    return status >= 200 && status < 300;
}

enum sp_status client_ask(struct client *client, const struct call *call, struct answer *answer, struct sp_error *err)
{
    enum sp_status status = client_call(client, call, answer, err);
    if (status == SP_OK && !is_good(answer->status))
        status = client_problem(client, answer, err);
    return status;
}

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

enum sp_status client_ensure_model(struct client *client, struct input *input, struct progress *progress,
                                   struct sp_error *err)
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
    if (status != SP_OK || answer.status == 200)
        return status;
    model_path(path, sizeof path, input->name);
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

static void write_dims(struct sp_json *json, const struct dims *dims)
{
    sp_json_key(json, "dims");
    sp_json_begin_object(json);
    for (uint32_t i = 0; i < dims->count; i++)
        sp_json_member_int(json, dims->names[i], dims->values[i]);
    sp_json_end_object(json);
}

enum sp_status client_print(const struct common *common, const char *text, size_t size, struct sp_error *err)
{
    (void)write_stdout(NULL, text, size);
    if (common->json && (size == 0 || text[size - 1] != '\n'))
        (void)write_stdout(NULL, "\n", 1);
    return finish_stdout(err);
}

/* ---- inspect, devices ---- */

int remote_inspect(const struct common *common, struct input *input, bool values, const struct dims *dims)
{
    struct progress progress;
    struct client *client = NULL;
    struct sp_error err = {0};
    struct sp_buf body;
    struct sp_json json;
    char path[128];
    progress_init(&progress, 0);
    sp_buf_init(&body, CLI_MAX_CLUSTER_BYTES);
    enum sp_status status = client_open(common->server, &client, &err);
    if (status == SP_OK)
        status = client_ensure_model(client, input, &progress, &err);
    if (status == SP_OK) {
        struct answer answer;
        sp_json_init_buf(&json, false, &body);
        sp_json_begin_object(&json);
        sp_json_member_bool(&json, "values", values);
        if (dims->count > 0)
            write_dims(&json, dims);
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

int remote_devices(const struct common *common)
{
    struct client *client = NULL;
    struct sp_error err = {0};
    enum sp_status status = client_open(common->server, &client, &err);
    if (status == SP_OK) {
        struct answer answer;
        const struct call call = {
            .method = "GET",
            .path = "/v1/devices",
            .accept = common->json ? "application/json" : "text/plain",
        };
        status = client_ask(client, &call, &answer, &err);
        if (status == SP_OK)
            status = client_print(common, answer.body.data, answer.body.size, &err);
        sp_buf_release(&answer.body);
    }
    int code = status == SP_OK ? EXIT_DONE : report_error(common, &err, NULL);
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
    enum sp_status status = client_open(common->server, &client, err);
    if (status == SP_OK)
        status = client_ask(client, &call, &got, err);
    *answer = got.body;
    client_close(client);
    return status;
}

/* ---- plan ---- */

static enum sp_status write_request(const struct plan_request *request, struct sp_buf *body, struct sp_error *err)
{
    const struct sp_plan_options *options = &request->options;
    struct sp_json json;
    sp_json_init_buf(&json, false, body);
    sp_json_begin_object(&json);
    sp_json_member_string(&json, "model", request->input.sha256);
    char *target = json_dumps(request->target, JSON_COMPACT);
    if (target == NULL)
        return sp_fail_memory(err);
    sp_json_key(&json, request->is_sweep ? "sweep" : "cluster");
    sp_json_raw(&json, target, strlen(target));
    free(target);
    sp_json_member_string(&json, "objective", sp_objective_name(options->objective));
    sp_json_key(&json, "options");
    sp_json_begin_object(&json);
    sp_json_member_string(&json, "strategy", sp_search_strategy_name(options->strategy));
    if (options->max_replicas != 1)
        sp_json_member_int(&json, "replicas", options->max_replicas);
    if (options->batch > 0)
        sp_json_member_int(&json, "batch", options->batch);
    write_dims(&json, &request->dims);
    sp_json_member_bool(&json, "optimal", options->optimal);
    sp_json_member_int(&json, "seed", (int64_t)options->seed);
    if (options->profile != NULL) {
        sp_json_key(&json, "profile");
        sp_profile_write(options->profile, &json);
    }
    if (options->time_limit_seconds > 0)
        sp_json_member_double(&json, "time_limit_seconds", options->time_limit_seconds);
    if (options->what_if)
        sp_json_member_bool(&json, "what_if", true);
    sp_json_end_object(&json);
    if (options->constraints != NULL) {
        sp_json_key(&json, "constraints");
        sp_demands_write(options->constraints, &json);
    }
    sp_json_end_object(&json);
    return sp_json_finish(&json, NULL) == SP_OK ? SP_OK : sp_fail_memory(err);
}

static void draw_state(struct progress *progress, const struct answer *answer)
{
    const char *member;
    size_t size;
    char phase[32];
    if (json_member(answer->body.data, answer->body.size, "progress", &member, &size) &&
        json_member_word(member, size, "phase", phase, sizeof phase))
        progress_draw(progress, phase, json_member_number(member, size, "fraction"),
                      json_member_number(member, size, "best_seconds"),
                      json_member_number(member, size, "lower_bound_seconds"));
}

/* What the state of a plan means: *ret_done, or the error of a failed one. */
static enum sp_status judge(struct client *client, const struct answer *answer, bool *ret_done, struct sp_error *err)
{
    const char *problem;
    size_t size;
    char state[32];
    *ret_done = false;
    if (!json_member_word(answer->body.data, answer->body.size, "state", state, sizeof state))
        return sp_fail(err, SP_ERR_IO, "SERVER_ERROR", "The server's answer does not say how the plan stands.");
    if (strcmp(state, "queued") == 0 || strcmp(state, "running") == 0)
        return SP_OK;
    if (strcmp(state, "succeeded") == 0) {
        *ret_done = true;
        return SP_OK;
    }
    if (strcmp(state, "cancelled") == 0)
        return sp_fail(err, SP_ERR_CANCELLED, "CANCELLED", "The plan was cancelled on the server.");
    if (!json_member(answer->body.data, answer->body.size, "error", &problem, &size))
        size = 0;
    return client_problem_text(client, 0, problem, size, err);
}

/* Nobody waits for the plan any more: tell the server so, and do not mind its answer. */
static void cancel(struct client *client, const char *id)
{
    struct answer answer;
    char path[MAX_ID + 32];
    sig_atomic_t number = interrupted;
    interrupted = 0; /* or the call would end at once */
    (void)snprintf(path, sizeof path, "/v1/plans/%s/cancel", id);
    const struct call call = {.method = "POST", .path = path};
    (void)client_call(client, &call, &answer, NULL);
    sp_buf_release(&answer.body);
    interrupted = number;
}

static void pause_seconds(double seconds)
{
    struct timespec time = {.tv_sec = (time_t)seconds};
    time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
    (void)nanosleep(&time, NULL); /* a signal ends it early, which is what is wanted */
}

/* Submits and waits. On success `answer` holds the finished plan's JSON and `id` its name. */
static enum sp_status submit(struct client *client, struct plan_request *request, struct answer *answer, char *id,
                             struct sp_error *err)
{
    struct sp_buf body;
    double wait = POLL_FIRST_SECONDS;
    char path[MAX_ID + 16];
    bool done = false;
    sp_buf_init(&body, 2 * CLI_MAX_CLUSTER_BYTES);
    sp_buf_init(&answer->body, CLI_MAX_TEXT_BYTES);
    enum sp_status status = write_request(request, &body, err);
    const struct call post = {
        .method = "POST",
        .path = "/v1/plans",
        .type = "application/json",
        .prefer = "wait=1",
        .body = &body,
        .progress = &request->progress,
    };
    if (status == SP_OK)
        status = client_ask(client, &post, answer, err);
    sp_buf_release(&body);
    if (status == SP_OK && !json_member_word(answer->body.data, answer->body.size, "id", id, MAX_ID))
        status = sp_fail(err, SP_ERR_IO, "SERVER_ERROR", "The server's answer does not name the plan.");
    if (status != SP_OK)
        return status;
    (void)snprintf(path, sizeof path, "/v1/plans/%s", id);
    const struct call get = {.method = "GET", .path = path, .progress = &request->progress};
    for (;;) {
        status = judge(client, answer, &done, err);
        if (status != SP_OK || done)
            return status;
        draw_state(&request->progress, answer);
        pause_seconds(wait);
        wait = wait * 2 < POLL_LAST_SECONDS ? wait * 2 : POLL_LAST_SECONDS;
        sp_buf_release(&answer->body);
        status = client_ask(client, &get, answer, err);
        if (status == SP_ERR_CANCELLED)
            cancel(client, id);
        if (status != SP_OK)
            return status;
    }
}

static enum sp_status write_plan_file(const char *path, const char *plan, size_t size, struct sp_error *err)
{
    struct output output = {.fd = -1};
    enum sp_status status = output_open(path, NULL, &output, err);
    if (status != SP_OK)
        return status;
    if (!output_write(&output, plan, size) || !output_write(&output, "\n", 1))
        status = sp_fail(err, SP_ERR_IO, "FILE_NOT_WRITABLE", "Cannot write the plan to '%s'.", path);
    if (status == SP_OK)
        status = output_commit(&output, err);
    output_close(&output);
    return status;
}

/* The plan as people read it, made by the server. */
static enum sp_status print_text(const struct common *common, struct client *client, const struct plan_request *request,
                                 const char *id, struct sp_error *err)
{
    struct answer answer;
    char path[MAX_ID + 16];
    bool taken = (request->annotated != NULL && strcmp(request->annotated, "-") == 0) ||
                 (request->plan_path != NULL && strcmp(request->plan_path, "-") == 0);
    (void)snprintf(path, sizeof path, "/v1/plans/%s", id);
    const struct call call = {.method = "GET", .path = path, .accept = "text/plain"};
    enum sp_status status = client_ask(client, &call, &answer, err);
    if (status == SP_OK && taken && answer.body.size > 0)
        (void)fputs(answer.body.data, stderr); /* standard output is taken by a file */
    else if (status == SP_OK)
        status = client_print(common, answer.body.data, answer.body.size, err);
    sp_buf_release(&answer.body);
    return status;
}

/* What the options ask for. */
static enum sp_status write_files(struct client *client, const struct plan_request *request, const char *id,
                                  const char *plan, size_t size, struct sp_error *err)
{
    enum sp_status status = SP_OK;
    char route[MAX_ID + 32];
    print_note("the server keeps the plan as %s", id);
    (void)snprintf(route, sizeof route, "/v1/plans/%s/model", id);
    if (request->annotated != NULL)
        status = client_download(client, route, request->annotated, err);
    if (status == SP_OK && request->plan_path != NULL)
        status = write_plan_file(request->plan_path, plan, size, err);
    if (status != SP_OK || request->emit == NULL)
        return status;
    char *path = path_in(request->emit, "plan.json");
    status = path != NULL ? emit_folder(request->emit, err) : sp_fail_memory(err);
    if (status == SP_OK)
        status = write_plan_file(path, plan, size, err);
    if (status == SP_OK)
        status = client_emit(client, id, request->input.sha256, request->emit, err);
    free(path);
    return status;
}

int remote_plan(const struct common *common, struct plan_request *request)
{
    struct client *client = NULL;
    struct answer answer = {0};
    struct sp_error err = {0};
    const char *plan = NULL;
    size_t size = 0;
    char id[MAX_ID];
    enum sp_status status = client_open(common->server, &client, &err);
    if (status == SP_OK)
        status = client_ensure_model(client, &request->input, &request->progress, &err);
    if (status == SP_OK)
        status = submit(client, request, &answer, id, &err);
    progress_clear(&request->progress);
    if (status == SP_OK && !json_member(answer.body.data, answer.body.size, "plan", &plan, &size))
        status = sp_fail(&err, SP_ERR_IO, "SERVER_ERROR", "The server's answer does not hold the plan.");
    if (status == SP_OK)
        status = write_files(client, request, id, plan, size, &err);
    if (status == SP_OK && common->json)
        status = client_print(common, plan, size, &err);
    else if (status == SP_OK)
        status = print_text(common, client, request, id, &err);
    int code = status == SP_OK ? EXIT_DONE : report_error(common, &err, NULL);
    sp_buf_release(&answer.body);
    client_close(client);
    return code;
}
