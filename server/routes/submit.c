#include <gnutls/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "auth/auth.h"
#include "http/record.h"
#include "http/respond.h"
#include "jobs/jobs.h"
#include "routes/ingest.h"
#include "routes/reference.h"
#include "routes/routes.h"
#include "routes/submission.h"
#include "store/folder.h"
#include "store/store.h"
#include "util/text.h"
#include "version.h"

/*
 * POST /v1/plans. With the model as the body the query is checked before the body is read. Equal questions of a tenant
 * share one plan, unless the client says Cache-Control: no-cache. One of them may delete it while others are about to
 * get it: theirs is made again.
 */

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

/* A hash of everything that makes two submissions the same one (with the priority), or two questions (with the version
   of who answers). */
static bool fingerprint(const char *model, const char *canonical, const char *more, char ret[65])
{
    unsigned char digest[32];
    gnutls_hash_hd_t hash;
    if (gnutls_hash_init(&hash, GNUTLS_DIG_SHA256) != 0)
        return false;
    bool ok = gnutls_hash(hash, model, strlen(model)) == 0 && gnutls_hash(hash, canonical, strlen(canonical)) == 0 &&
              gnutls_hash(hash, more, strlen(more)) == 0;
    gnutls_hash_deinit(hash, digest);
    text_to_hex(digest, sizeof digest, ret);
    return ok;
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
        (void)problem_set_limit(&full, 503, "QUEUE_FULL", "--max-queued-plans",
                                request->server->config->max_queued_plans, request->server->config->max_queued_plans,
                                "Too many plans are queued; try again later.");
        return respond_problem(request, &full);
    default:
        return respond_problem(request, problem);
    }
}

/* Makes the plan durable, or finds the one that answers already; its id is in the submission then. */
static enum store_added add_plan(const struct request *request, struct submission *submission, struct problem *problem)
{
    const struct config *config = request->server->config;
    struct plan_row row = {.priority = submission->priority};
    unsigned char random[16];
    char print[65], question[65];
    const struct store_quota quota = {.queued_plans = config->max_queued_plans,
                                      .tenants = (int64_t)auth_tenants(request->server->auth),
                                      .tenant_plans = config->tenant_plans};
    const struct store_question asked = {.key = request_header(request, "Idempotency-Key"),
                                         .fingerprint = print,
                                         .question = question,
                                         .reuse = !submission->anew};
    enum store_added added = STORE_FAILED;
    const char *priority = submission_priority_name(submission->priority);
    if (!fingerprint(submission->model, submission->canonical, priority, print) ||
        !fingerprint(submission->model, submission->canonical, SPD_VERSION, question) ||
        gnutls_rnd(GNUTLS_RND_NONCE, random, sizeof random) != 0) {
        (void)problem_no_memory(problem);
    } else {
        text_to_hex(random, sizeof random, row.id);
        memcpy(row.model, submission->model, sizeof row.model);
        memcpy(row.tenant, request->principal.tenant, sizeof row.tenant);
        row.request = submission->canonical;
        added = store_add_plan(request->server->store, &row, &asked, &quota, problem);
        submission->reused = added == STORE_REUSED;
        memcpy(submission->plan, row.id, sizeof submission->plan);
    }
    return added;
}

static enum verdict waited(struct request *request);

/* VERDICT_GO_ON when the plan is gone: another client, with which it was shared perhaps, deleted it. */
static enum verdict answer_submitted(struct request *request)
{
    const struct submission *submission = request->state;
    unsigned headers = request->header_count;
    request_add_header(request, "Location", "/v1/plans/%s", submission->plan);
    enum verdict verdict =
        plan_answer(request, submission->plan, PLAN_SUBMITTED | (submission->reused ? PLAN_REUSED : 0), waited);
    if (verdict == VERDICT_GO_ON || verdict == VERDICT_SUSPENDED)
        request->header_count = headers;
    return verdict;
}

/* Waiting is only begun once, and the rest of it is left to a plan that is submitted again. Where all who wait delete
   what they get, the last of them would never get any, so that ends. */
static unsigned wait_seconds(struct request *request, struct submission *submission)
{
    unsigned seconds = request_wait_seconds(request);
    bool async = request_prefers_async(request);
    uint64_t now = server_now_ms();
    if (submission->rounds > SPD_WAITED_SUBMISSIONS)
        return 0;
    if (submission->rounds > 1)
        return submission->until_ms > now ? (unsigned)((submission->until_ms - now + 999) / 1000) : 0;
    submission->until_ms = now + seconds * 1000u;
    if (seconds > 0)
        request_add_header(request, "Preference-Applied", async ? "respond-async, wait=%u" : "wait=%u", seconds);
    else if (async)
        request_add_header(request, "Preference-Applied", "respond-async");
    return seconds;
}

/* Everything is known: makes the plan durable, then answers or waits for it. */
static enum verdict queue_plan(struct request *request, struct submission *submission)
{
    while (submission->rounds++ < SPD_MAX_SUBMISSIONS) {
        struct problem problem = {0};
        enum store_added added = add_plan(request, submission, &problem);
        if (added != STORE_ADDED && added != STORE_EXISTS && added != STORE_REUSED)
            return answer_refused(request, added, &problem);
        LOG_REQUEST(LOG_INFO, "plan submitted", request, log_s("plan", submission->plan),
                    log_s("model", submission->model), log_s("new", added == STORE_ADDED ? "yes" : "no"));
        unsigned seconds = wait_seconds(request, submission);
        if (seconds > 0) {
            enum verdict verdict = request_suspend(request, waited);
            jobs_wait(request->server->jobs, request, submission->plan, seconds);
            return verdict;
        }
        enum verdict verdict = answer_submitted(request);
        if (verdict != VERDICT_GO_ON)
            return verdict;
    }
    return plan_missing(request);
}

static enum verdict waited(struct request *request)
{
    enum verdict verdict = answer_submitted(request);
    return verdict == VERDICT_GO_ON ? queue_plan(request, request->state) : verdict;
}

/* validate_only: everything was checked, and nothing was made. */
static enum verdict answer_valid(struct request *request, const struct submission *submission, const char *model)
{
    struct sp_buf buf;
    struct sp_json json;
    sp_buf_init(&buf, SPD_MAX_JSON_BYTES * 2);
    sp_json_init_buf(&json, false, &buf);
    sp_json_begin_object(&json);
    sp_json_member_bool(&json, "valid", true);
    sp_json_member_string(&json, "model", model);
    sp_json_member_string(&json, "priority", submission_priority_name(submission->priority));
    sp_json_key(&json, "request");
    sp_json_raw(&json, submission->canonical, strlen(submission->canonical));
    sp_json_end_object(&json);
    if (sp_json_finish(&json, NULL) != SP_OK)
        buf.failed = true;
    return respond_buf(request, 200, "application/json", &buf);
}

/* The model of a question that is only checked must be there all the same. */
static enum verdict validate(struct request *request, const struct submission *submission)
{
    switch (store_find_model(request->server->store, request->principal.tenant, submission->model)) {
    case STORE_DONE:
        return answer_valid(request, submission, submission->model);
    case STORE_NOT_FOUND:
        return answer_refused(request, STORE_NO_MODEL, NULL);
    default:
        return store_is_away(request);
    }
}

static enum verdict model_validated(struct request *request)
{
    struct problem problem = {0};
    const char *id;
    if (!ingest_inspected(request, &id, &problem))
        return respond_problem(request, &problem);
    return answer_valid(request, request->state, id);
}

static enum verdict model_published(struct request *request)
{
    struct problem problem = {0};
    struct submission *submission = request->state;
    const char *id;
    bool is_new;
    if (!ingest_publish(request, &id, &is_new, &problem))
        return respond_problem(request, &problem);
    memcpy(submission->model, id, sizeof submission->model);
    return queue_plan(request, submission);
}

/* ---- a plan that follows another one ---- */

/* Finds that one: its model is this one's, and its result is that of its last attempt. VERDICT_GO_ON, or why not. */
static enum verdict find_past(struct request *request, struct submission *submission)
{
    struct plan_row row;
    struct problem problem = {0};
    enum verdict verdict = VERDICT_GO_ON;
    const enum store_found found =
        store_get_plan(request->server->store, request->principal.tenant, submission->from, &row);
    if (found != STORE_DONE)
        return found == STORE_NOT_FOUND ? plan_missing(request) : store_is_away(request);
    if (!row.has_result) {
        verdict = respond_error(request, 409, "PLAN_NOT_READY", "The plan is %s; nothing can follow it.",
                                store_state_name(row.state));
    } else if (submission->model[0] != '\0' && strcmp(submission->model, row.model) != 0) {
        (void)problem_set(&problem, 422, "OTHER_MODEL", "The plan that is to be followed is for another model.");
        (void)snprintf(problem.where, sizeof problem.where, "/model");
        verdict = respond_problem(request, &problem);
    } else if (json_object_set_new(json_object_get(submission->request, "from"), "attempt",
                                   json_integer(row.attempts)) != 0) {
        verdict = respond_error(request, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
    }
    memcpy(submission->model, row.model, sizeof submission->model);
    store_release_plan(&row);
    return verdict;
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
        if (request->parameter_count > (request_parameter(request, "validate_only") != NULL ? 1 : 0))
            return respond_error(
                request, 400, "UNKNOWN_PARAMETER",
                "With a JSON body everything but validate_only is said in the body, not in the query.");
        if (request->has_length && request->content_length > SPD_MAX_JSON_BYTES)
            return respond_error(request, 413, "BODY_TOO_LARGE", "A JSON request may have %u bytes.",
                                 SPD_MAX_JSON_BYTES);
        if (!folder_look(request->server->folder, &problem))
            return respond_problem(request, &problem);
        request->body_kind = BODY_JSON;
        return VERDICT_GO_ON;
    }
    if (!ingest_is_model_type(type))
        return respond_error(request, 415, "UNSUPPORTED_MEDIA_TYPE",
                             "A plan is asked for as application/json, or with the model itself as "
                             "application/octet-stream and ?devices=N&device=NAME.");
    struct submission *submission = submission_create(request);
    if (submission == NULL)
        return respond_error(request, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
    if (!submission_from_query(request, submission, &problem) || !submission_settle(submission, &problem))
        return respond_problem(request, &problem);
    return ingest_begin(request, !submission->validate_only);
}

static enum verdict ingest_model(struct request *request)
{
    const struct submission *submission = request->state;
    return ingest_finish(request, submission->validate_only ? model_validated : model_published,
                         !submission->validate_only);
}

enum verdict plans_submit_finish(struct request *request)
{
    struct problem problem = {0};
    struct submission *submission;
    if (request->body_kind == BODY_MODEL) {
        return ingest_model(request);
    }
    submission = submission_create(request);
    if (submission == NULL)
        return respond_error(request, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
    const bool is_read = submission_from_body(request, submission, &problem);
    sp_buf_release(&request->body);
    const enum verdict verdict =
        is_read && submission->from[0] != '\0' ? find_past(request, submission) : VERDICT_GO_ON;
    if (!is_read || verdict != VERDICT_GO_ON)
        submission_drop(submission);
    if (verdict != VERDICT_GO_ON)
        return verdict;
    if (!is_read || !submission_settle(submission, &problem))
        return respond_problem(request, &problem);
    if (submission->url[0] != '\0')
        return reference_fetch(request, submission->url, ingest_model);
    return submission->validate_only ? validate(request, submission) : queue_plan(request, submission);
}

/* ---- POST /v1/replan: the same, of a plan that follows another one ---- */

enum verdict replan_begin(struct request *request)
{
    const char *type = request_header(request, "Content-Type");
    if (type == NULL || strncasecmp(type, "application/json", 16) != 0)
        return respond_error(request, 415, "UNSUPPORTED_MEDIA_TYPE",
                             "What follows a plan is asked for as application/json.");
    return plans_submit_begin(request);
}

enum verdict replan_finish(struct request *request)
{
    json_t *body = json_loadb(request->body.data != NULL ? request->body.data : "", request->body.size, 0, NULL);
    const bool lacks = json_is_object(body) && json_object_get(body, "from") == NULL;
    struct problem problem = {0};
    json_decref(body);
    if (!lacks)
        return plans_submit_finish(request);
    (void)problem_set(&problem, 422, "BAD_REQUEST", "\"from\" is missing: the id of the plan that runs.");
    (void)snprintf(problem.where, sizeof problem.where, "/from");
    return respond_problem(request, &problem);
}
