/* `plan`, done by a daemon: submits, waits and takes what it made. */
#include <gnutls/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "plan/micro/micro.h"
#include "plan/service/traffic.h"

#define MAX_ID        128 /* of a plan */
#define KEY_SIZE      33
#define GRACE_SECONDS 60.0 /* behind a time limit, for the queue and the way */

/* A plan that follows another one of the daemon, which has the model and the options. */
static enum sp_status write_following(const struct plan_request *request, struct sp_buf *body, struct sp_error *err)
{
    json_t *json = json_copy((json_t *)(uintptr_t)request->terms), *options = json_object();
    bool ok = json != NULL && options != NULL &&
              json_object_set_new(json, "from", json_string(request->follows)) == 0 &&
              json_object_set(json, "cluster", request->target) == 0;
    if (request->options.time_limit_seconds > 0)
        ok = ok &&
             json_object_set_new(options, "time_limit_seconds", json_real(request->options.time_limit_seconds)) == 0;
    if (request->options.skips_proof)
        ok = ok && json_object_set_new(options, "proof", json_false()) == 0;
    ok = ok && json_object_set(json, "options", options) == 0;
    char *text = ok ? json_dumps(json, JSON_COMPACT) : NULL;
    sp_buf_text(body, text != NULL ? text : "");
    free(text);
    json_decref(json);
    json_decref(options);
    return text != NULL && !sp_buf_failed(body) ? SP_OK : sp_fail_memory(err);
}

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
    if (request->priority != NULL)
        sp_json_member_string(&json, "priority", request->priority);
    sp_json_member_string(&json, "objective", options->by_price ? "cost" : sp_objective_name(options->objective));
    sp_json_key(&json, "options");
    sp_json_begin_object(&json);
    sp_json_member_string(&json, "strategy", sp_search_strategy_name(options->strategy));
    if (options->any_sets)
        sp_json_member_string(&json, "placement", "any");
    if (options->max_replicas != SP_REPLICAS_NOT_GIVEN)
        sp_json_member_int(&json, "replicas", options->max_replicas);
    if (options->batch > 0)
        sp_json_member_int(&json, "batch", options->batch);
    sp_micro_batches_write(options->micro_batches, &json);
    if (!sp_sizes_write(request->arena, &options->sizes, &json))
        return sp_fail_memory(err);
    sp_json_member_bool(&json, "optimal", options->optimal);
    sp_json_member_double(&json, "tolerance", options->tolerance);
    sp_json_member_int(&json, "seed", (int64_t)options->seed);
    if (options->profile != NULL) {
        sp_json_key(&json, "profile");
        sp_profile_write(options->profile, &json);
    }
    if (options->time_limit_seconds > 0)
        sp_json_member_double(&json, "time_limit_seconds", options->time_limit_seconds);
    if (options->what_if)
        sp_json_member_bool(&json, "what_if", true);
    if (options->skips_proof)
        sp_json_member_bool(&json, "proof", false);
    sp_json_end_object(&json);
    if (options->constraints != NULL) {
        sp_json_key(&json, "constraints");
        sp_demands_write(options->constraints, &json);
    }
    if (options->traffic != NULL) {
        sp_json_key(&json, "workload");
        sp_traffic_write(options->traffic, &json);
    }
    sp_json_end_object(&json);
    return sp_json_finish(&json, NULL) == SP_OK ? SP_OK : sp_fail_memory(err);
}

/* So that a submission that is sent twice is planned once. */
static enum sp_status make_key(char ret_key[KEY_SIZE], struct sp_error *err)
{
    unsigned char random[(KEY_SIZE - 1) / 2];
    if (gnutls_rnd(GNUTLS_RND_NONCE, random, sizeof random) != 0)
        return sp_fail(err, SP_ERR_INTERNAL, "NO_RANDOM", "The cryptographic library has no random numbers.");
    for (size_t i = 0; i < sizeof random; i++)
        (void)snprintf(ret_key + 2 * i, 3, "%02x", random[i]);
    return SP_OK;
}

static enum sp_status send_request(struct client *client, const struct plan_request *request, const char *key,
                                   const char *prefer, struct progress *progress, struct answer *answer,
                                   struct sp_error *err)
{
    struct sp_buf body;
    sp_buf_init(&body, 2 * CLI_MAX_CLUSTER_BYTES + CLI_MAX_PROFILE_BYTES + CLI_MAX_WORKLOAD_BYTES);
    sp_buf_init(&answer->body, CLI_MAX_TEXT_BYTES);
    enum sp_status status =
        request->follows != NULL ? write_following(request, &body, err) : write_request(request, &body, err);
    const struct call post = {
        .method = "POST",
        .path = request->follows != NULL ? "/v1/replan" : "/v1/plans",
        .type = "application/json",
        .prefer = prefer,
        .idempotency = key,
        .body = &body,
        .progress = progress,
    };
    if (status == SP_OK)
        status = client_ask(client, &post, answer, err);
    sp_buf_release(&body);
    return status;
}

/* The plan's id. An interrupt before it is known must not leave the server planning for nobody: the same submission
   once more tells it, and the interrupt is then dealt with as one that came later. */
static enum sp_status place(struct client *client, struct plan_request *request, struct answer *answer, char *id,
                            struct sp_error *err)
{
    char key[KEY_SIZE];
    enum sp_status status = make_key(key, err);
    if (status != SP_OK)
        return status;
    status = send_request(client, request, key, "wait=1", &request->progress, answer, err);
    if (status == SP_ERR_CANCELLED && interrupted != 0) {
        const sig_atomic_t number = interrupted;
        interrupted = 0;
        sp_error_clear(err);
        sp_buf_release(&answer->body);
        status = send_request(client, request, key, NULL, NULL, answer, err);
        interrupted = number;
    }
    if (status == SP_OK && !json_member_word(answer->body.data, answer->body.size, "id", id, MAX_ID))
        status = sp_fail(err, SP_ERR_IO, "SERVER_ERROR", "The server's answer does not name the plan.");
    return status;
}

/* A plan that was cancelled may have what had been found by then. */
static bool has_plan(const struct answer *answer)
{
    const char *plan;
    size_t size;
    return json_member(answer->body.data, answer->body.size, "plan", &plan, &size);
}

/* Submits and waits. On success `answer` holds the finished plan's JSON and `id` its name. */
static enum sp_status submit(struct client *client, struct plan_request *request, struct answer *answer, char *id,
                             struct sp_error *err)
{
    struct follow follow = {.progress = &request->progress, .cancels = true};
    const double limit = request->progress.limit;
    bool done = false;
    request->progress.limit = 0;
    enum sp_status status = place(client, request, answer, id, err);
    if (status == SP_OK)
        status = client_judge(client, answer, &done, err);
    if (status != SP_OK || (done && has_plan(answer)))
        return status;
    /* The server ends the search itself and gives the best plan by then; this is for one that does not. */
    if (limit > 0)
        request->progress.limit = progress_elapsed(&request->progress) + limit + GRACE_SECONDS;
    sp_buf_release(&answer->body);
    status = client_follow(client, id, &follow, answer, err);
    if (status == SP_OK && follow.signal != 0 && has_plan(answer)) {
        print_note("the search was stopped; this is the best plan that it had found");
        return SP_OK;
    }
    if (status == SP_OK)
        status = client_judge(client, answer, &done, err);
    if (follow.signal != 0 && interrupted == 0)
        interrupted = follow.signal; /* it is what ends the command */
    return status;
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
        status = client_emit(client, id, request, err);
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
    enum sp_status status = client_open(common, &client, &err);
    const double limit = request->progress.limit; /* of the search, not of the way to it */
    request->progress.limit = 0;
    if (status == SP_OK && request->follows == NULL)
        status = client_ensure_model(client, &request->input, NULL, &request->progress, NULL, &err);
    /* Planning needs no weights, and what a server does not take is referred to. */
    if (status == SP_OK && request->follows == NULL && request->emit != NULL)
        status = client_ensure_files(client, &request->input, &request->progress, &err);
    if (status != SP_OK && !interrupted && strncmp(err.code, "QUOTA", 5) == 0) {
        print_note("the files that the model's weights lie in did not come to the server: %s", err.message);
        sp_error_clear(&err);
        status = SP_OK;
    }
    request->progress.limit = limit;
    if (status == SP_OK)
        status = submit(client, request, &answer, id, &err);
    progress_clear(&request->progress);
    if (status == SP_OK && !json_member(answer.body.data, answer.body.size, "plan", &plan, &size))
        status = sp_fail(&err, SP_ERR_IO, "SERVER_ERROR", "The server's answer does not hold the plan.");
    if (status == SP_OK && request->follows != NULL)
        (void)json_member_word(answer.body.data, answer.body.size, "model", request->input.sha256,
                               sizeof request->input.sha256);
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
