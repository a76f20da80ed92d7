#include <gnutls/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "ingest.h"
#include "jobs.h"
#include "plan/variants.h"
#include "respond.h"
#include "routes.h"
#include "store.h"
#include "text.h"

/*
 * POST /v1/plans. A submission is brought into one canonical form, {"cluster" or "sweep","objective","options"},
 * whichever way it came; it is checked here, so that a wrong one is refused at once, and stored with the plan for the
 * worker. With the model as the body the query is checked before the body is read.
 */

struct submission {
    json_t *request; /* canonical form */
    char model[65];  /* "": the model is the body */
    char plan[STORE_ID_SIZE];
};

static void free_submission(void *state)
{
    struct submission *submission = state;
    json_decref(submission->request);
    free(submission);
}

static struct submission *new_submission(struct request *request)
{
    struct submission *submission = calloc(1, sizeof *submission);
    request->state = submission;
    request->free_state = submission != NULL ? free_submission : NULL;
    return submission;
}

/* The library checks cluster or sweep, objective and options; its JSON pointers fit the request. */
static bool check_request(const json_t *request, struct problem *problem)
{
    struct sp_budget budget = {.limit = 32u << 20};
    struct sp_arena *arena = sp_arena_create(&budget);
    struct sp_plan_target target;
    struct sp_plan_options options;
    struct sp_error err = {0};
    if (arena == NULL)
        return problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
    if (sp_plan_target_parse(arena, json_object_get(request, "cluster"), json_object_get(request, "sweep"), &target,
                             &err) == SP_OK)
        (void)sp_plan_options_parse(arena, json_object_get(request, "objective"), json_object_get(request, "options"),
                                    &options, &err);
    if (err.status != SP_OK)
        problem_from_error(problem, &err);
    sp_arena_destroy(arena);
    return err.status == SP_OK;
}

static bool wrong_member(struct problem *problem, const char *pointer, const char *message)
{
    (void)problem_set(problem, 422, "BAD_REQUEST", "%s", message);
    (void)snprintf(problem->where, sizeof problem->where, "%s", pointer);
    return false;
}

/* ---- the JSON form ---- */

/* Constraints are kept among the options, where a plan has them: it is made again from what stands there. */
static bool take_constraints(struct submission *submission, json_t *constraints, struct problem *problem)
{
    const json_t *given = json_object_get(submission->request, "options");
    if (constraints == NULL || (given != NULL && !json_is_object(given)))
        return true; /* what is no object is refused with the options */
    if (json_object_get(given, "constraints") != NULL)
        return wrong_member(problem, "/constraints", "The constraints are given twice, here and among the options.");
    json_t *options = given != NULL ? json_copy((json_t *)(uintptr_t)given) : json_object();
    if (options == NULL || json_object_set(options, "constraints", constraints) != 0 ||
        json_object_set(submission->request, "options", options) != 0) {
        json_decref(options);
        return problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
    }
    json_decref(options);
    return true;
}

static bool take_members(struct submission *submission, const json_t *body, struct problem *problem)
{
    const char *key;
    json_t *value;
    const char *model = json_string_value(json_object_get(body, "model"));
    if (!json_is_object(body))
        return wrong_member(problem, "", "The body must be an object with \"model\" and \"cluster\" or \"sweep\".");
    json_object_foreach((json_t *)(uintptr_t)body, key, value)
    {
        if (strcmp(key, "model") == 0 || strcmp(key, "constraints") == 0)
            continue;
        char pointer[256];
        (void)snprintf(pointer, sizeof pointer, "/%.200s", key);
        if (strcmp(key, "cluster") != 0 && strcmp(key, "sweep") != 0 && strcmp(key, "objective") != 0 &&
            strcmp(key, "options") != 0)
            return wrong_member(problem, pointer,
                                "This member is not known; known are model, cluster, sweep, objective, options "
                                "and constraints.");
        if (json_object_set(submission->request, key, value) != 0)
            return problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
    }
    if (model == NULL || !text_is_hex(model, 64))
        return wrong_member(problem, "/model",
                            "\"model\" must be the id of a stored model, 64 lower-case hexadecimal digits.");
    if (json_object_get(body, "cluster") == NULL && json_object_get(body, "sweep") == NULL)
        return wrong_member(problem, "/cluster",
                            "\"cluster\" is missing; give one like {\"device\": \"a100-sxm4-80gb\", \"count\": 4}, or "
                            "a \"sweep\" over several.");
    (void)snprintf(submission->model, sizeof submission->model, "%s", model);
    return true;
}

static bool parse_body(struct request *request, struct submission *submission, struct problem *problem)
{
    json_error_t error;
    json_t *body = json_loadb(request->body.data != NULL ? request->body.data : "", request->body.size,
                              JSON_REJECT_DUPLICATES, &error);
    if (body == NULL)
        return problem_set(problem, 400, "MALFORMED_JSON", "The body is not JSON (line %d, column %d): %s.", error.line,
                           error.column, error.text);
    submission->request = json_object();
    bool ok = take_members(submission, body, problem) &&
              take_constraints(submission, json_object_get(body, "constraints"), problem) &&
              check_request(submission->request, problem);
    json_decref(body);
    return ok;
}

/* ---- the query form ---- */

static bool take_target(const struct request *request, struct submission *submission, struct problem *problem)
{
    const struct sp_plan_lists lists = {.devices = request_parameter(request, "devices"),
                                        .types = request_parameter(request, "device"),
                                        .choose = request_parameter(request, "choose")};
    if (lists.devices == NULL || !sp_is_count_list(lists.devices))
        return problem_set(
            problem, 422, "BAD_REQUEST",
            "With a model as the body, ?devices=N&device=NAME says what to plan for; 'devices' must be a "
            "number from 1 up, or several with commas between them.");
    json_t *target = sp_plan_lists_json(&lists);
    if (target == NULL)
        return problem_set(problem, 422, "BAD_REQUEST",
                           "?device=NAME is missing, or has an empty part; GET /v1/devices lists the names.");
    return json_object_set_new(submission->request, sp_plan_lists_sweep(&lists) ? "sweep" : "cluster", target) == 0 ||
           problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
}

static bool parse_query(const struct request *request, struct submission *submission, struct problem *problem)
{
    const char *objective = request_parameter(request, "objective"), *batch = request_parameter(request, "batch");
    const char *strategy = request_parameter(request, "strategy"), *what_if = request_parameter(request, "what_if");
    int64_t batch_value = 0;
    if (batch != NULL && !text_to_int(batch, 1, INT32_MAX, &batch_value))
        return problem_set(problem, 422, "BAD_REQUEST", "'batch' must be a number from 1 up.");
    if (what_if != NULL && strcmp(what_if, "true") != 0 && strcmp(what_if, "false") != 0)
        return problem_set(problem, 422, "BAD_REQUEST", "'what_if' must be true or false.");
    submission->request = json_object();
    json_t *options = json_object();
    bool ok = submission->request != NULL && options != NULL;
    ok =
        ok && (objective == NULL || json_object_set_new(submission->request, "objective", json_string(objective)) == 0);
    ok = ok && (batch == NULL || json_object_set_new(options, "batch", json_integer(batch_value)) == 0);
    ok = ok && (strategy == NULL || json_object_set_new(options, "strategy", json_string(strategy)) == 0);
    if (what_if != NULL && strcmp(what_if, "true") == 0)
        ok = ok && json_object_set_new(options, "what_if", json_true()) == 0;
    ok = ok && (json_object_size(options) == 0 || json_object_set(submission->request, "options", options) == 0);
    json_decref(options);
    if (!ok)
        return problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
    return take_target(request, submission, problem) && check_request(submission->request, problem);
}

/* ---- queuing ---- */

static bool check_key(const char *key)
{
    size_t length = key != NULL ? strlen(key) : 1;
    if (length == 0 || length > SPD_MAX_KEY_BYTES)
        return false;
    for (const char *c = key; c != NULL && *c != '\0'; c++) {
        if (*c <= 0x20 || *c >= 0x7f)
            return false;
    }
    return true;
}

/* A hash of everything that makes two submissions the same one. */
static bool fingerprint(const char *model, const char *canonical, char ret[65])
{
    unsigned char digest[32];
    gnutls_hash_hd_t hash;
    if (gnutls_hash_init(&hash, GNUTLS_DIG_SHA256) != 0)
        return false;
    bool ok = gnutls_hash(hash, model, strlen(model)) == 0 && gnutls_hash(hash, canonical, strlen(canonical)) == 0;
    gnutls_hash_deinit(hash, digest);
    text_to_hex(digest, sizeof digest, ret);
    return ok;
}

static enum verdict submitted(struct request *request)
{
    const struct submission *submission = request->state;
    return plan_answer(request, submission->plan, true);
}

static enum verdict answer_refused(struct request *request, enum store_added added, const struct problem *problem)
{
    struct problem full = {0};
    switch (added) {
    case STORE_KEY_REUSED:
        return respond_error(request, 422, "IDEMPOTENCY_KEY_REUSED",
                             "This Idempotency-Key was used for another request.");
    case STORE_NO_MODEL:
        return respond_error(request, 404, "MODEL_NOT_FOUND", "There is no model with this id; upload it first.");
    case STORE_FULL:
        (void)problem_set_limit(&full, 503, "QUEUE_FULL", "SPD_MAX_QUEUED_PLANS", SPD_MAX_QUEUED_PLANS,
                                SPD_MAX_QUEUED_PLANS, "Too many plans are queued; try again later.");
        return respond_problem(request, &full);
    default:
        return respond_problem(request, problem);
    }
}

/* Everything is known: makes the plan durable, then answers or waits for it. */
static enum verdict queue_plan(struct request *request, struct submission *submission)
{
    struct problem problem = {0};
    struct plan_row row = {0};
    unsigned char random[16];
    char print[65];
    const char *key = request_header(request, "Idempotency-Key");
    unsigned seconds = request_wait_seconds(request);
    char *canonical = json_dumps(submission->request, JSON_COMPACT | JSON_SORT_KEYS);
    if (canonical == NULL || !fingerprint(submission->model, canonical, print) ||
        gnutls_rnd(GNUTLS_RND_NONCE, random, sizeof random) != 0) {
        free(canonical);
        return respond_error(request, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
    }
    text_to_hex(random, sizeof random, row.id);
    memcpy(row.model, submission->model, sizeof row.model);
    row.request = canonical;
    enum store_added added = store_add_plan(request->server->store, &row, key, print, SPD_MAX_QUEUED_PLANS, &problem);
    free(canonical);
    if (added != STORE_ADDED && added != STORE_EXISTS)
        return answer_refused(request, added, &problem);
    memcpy(submission->plan, row.id, sizeof submission->plan);
    if (added == STORE_ADDED)
        jobs_kick(request->server->jobs);
    request_add_header(request, "Location", "/v1/plans/%s", submission->plan);
    if (seconds == 0)
        return submitted(request);
    request_add_header(request, "Preference-Applied", "wait=%u", seconds);
    enum verdict verdict = request_suspend(request, submitted);
    jobs_wait(request->server->jobs, request, submission->plan, seconds);
    return verdict;
}

static enum verdict model_settled(struct request *request)
{
    struct problem problem = {0};
    struct submission *submission = request->state;
    const char *id;
    bool is_new;
    if (!ingest_settle(request, &id, &is_new, &problem))
        return respond_problem(request, &problem);
    memcpy(submission->model, id, sizeof submission->model);
    return queue_plan(request, submission);
}

/* ---- the route ---- */

enum verdict plans_submit_begin(struct request *request)
{
    struct problem problem = {0};
    const char *type = request_header(request, "Content-Type"), *key = request_header(request, "Idempotency-Key");
    if (request_accepts(request, "application/json") == 0 && request_accepts(request, "text/plain") == 0)
        return respond_error(request, 406, "NOT_ACCEPTABLE", "This path answers application/json or text/plain.");
    if (!check_key(key))
        return respond_error(request, 400, "BAD_IDEMPOTENCY_KEY",
                             "Idempotency-Key must be 1 to %d visible ASCII characters.", SPD_MAX_KEY_BYTES);
    if (atomic_load(&request->server->draining))
        return respond_error(request, 503, "STOPPING", "The service is stopping; send the request again.");
    if (type != NULL && strncasecmp(type, "application/json", 16) == 0) {
        if (request->parameter_count > 0)
            return respond_error(request, 400, "UNKNOWN_PARAMETER",
                                 "With a JSON body everything is said in the body, not in the query.");
        if (request->has_length && request->content_length > SPD_MAX_JSON_BYTES)
            return respond_error(request, 413, "BODY_TOO_LARGE", "A JSON request may have %u bytes.",
                                 SPD_MAX_JSON_BYTES);
        request->body_kind = BODY_JSON;
        return VERDICT_GO_ON;
    }
    if (!ingest_is_model_type(type))
        return respond_error(request, 415, "UNSUPPORTED_MEDIA_TYPE",
                             "A plan is asked for as application/json, or with the model itself as "
                             "application/octet-stream and ?devices=N&device=NAME.");
    struct submission *submission = new_submission(request);
    if (submission == NULL)
        return respond_error(request, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
    if (!parse_query(request, submission, &problem))
        return respond_problem(request, &problem);
    return ingest_begin(request);
}

enum verdict plans_submit_finish(struct request *request)
{
    struct problem problem = {0};
    struct submission *submission;
    if (request->body_kind == BODY_MODEL)
        return ingest_finish(request, model_settled);
    submission = new_submission(request);
    if (submission == NULL)
        return respond_error(request, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
    if (!parse_body(request, submission, &problem))
        return respond_problem(request, &problem);
    return queue_plan(request, submission);
}
