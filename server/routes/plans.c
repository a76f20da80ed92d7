#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "http/conditional.h"
#include "http/page.h"
#include "http/respond.h"
#include "http/send.h"
#include "jobs/jobs.h"
#include "routes/answers.h"
#include "routes/derived.h"
#include "routes/held.h"
#include "routes/routes.h"
#include "routes/submission.h"
#include "store/objects/results.h"
#include "store/store.h"
#include "util/text.h"
#include "util/times.h"

enum verdict plan_missing(struct request *request)
{
    return respond_error(request, 404, "PLAN_NOT_FOUND", "There is no plan with this id.");
}

/* What is answered in place of a result that cannot be opened, or of a plan that is gone. A plan's files go after its
   row, so they are no matter of a plan that was deleted meanwhile. */
static enum verdict plan_gone(struct request *request, unsigned how)
{
    return (how & PLAN_SUBMITTED) != 0 ? VERDICT_GO_ON : plan_missing(request);
}

static enum verdict result_refused(struct request *request, const struct plan_row *row, const struct problem *problem,
                                   unsigned how)
{
    if (store_find_plan(request->server->store, row->tenant, row->id) == STORE_NOT_FOUND)
        return plan_gone(request, how);
    return respond_problem(request, problem);
}

#define PLAN_ETAG_SIZE ANSWERS_ETAG_SIZE

/* A finished plan never changes; one that is not has no ETag (""). */
static void write_etag(const struct plan_row *row, const char *form, char ret[PLAN_ETAG_SIZE])
{
    bool open = row->state == PLAN_QUEUED || row->state == PLAN_RUNNING;
    ret[0] = '\0';
    if (!open)
        (void)snprintf(ret, PLAN_ETAG_SIZE, "%s-%s-%lld%s", row->id, store_state_name(row->state),
                       (long long)row->attempts, form);
}

/* ---- what a plan is ---- */

static void write_stamp(struct sp_json *json, const char *name, int64_t milliseconds)
{
    char stamp[TIMES_SIZE];
    if (milliseconds > 0)
        sp_json_member_string(json, name, times_format(milliseconds, stamp));
}

void plan_write_members(struct sp_json *json, const struct request *request, const struct plan_row *row)
{
    sp_json_member_string(json, "id", row->id);
    if (request_view(request) == NULL && row->tenant[0] != '\0')
        sp_json_member_string(json, "tenant", row->tenant);
    sp_json_member_string(json, "state", store_state_name(row->state));
    sp_json_member_string(json, "model", row->model);
    sp_json_member_string(json, "priority", submission_priority_name(row->priority));
    sp_json_member_int(json, "attempts", row->attempts);
    sp_json_member_bool(json, "has_result", row->has_result);
    if (row->state == PLAN_RUNNING && row->cancel_requested)
        sp_json_member_bool(json, "cancel_requested", true);
    write_stamp(json, "created_at", row->created_at);
    write_stamp(json, "started_at", row->started_at);
    write_stamp(json, "finished_at", row->finished_at);
    if (row->error != NULL) {
        sp_json_key(json, "error");
        sp_json_raw(json, row->error, strlen(row->error));
    }
}

static void write_progress(struct sp_json *json, const struct request *request, const struct plan_row *row)
{
    struct job_progress progress = {0};
    bool running = row->state == PLAN_RUNNING;
    if (running && !jobs_progress(request->server->jobs, row->id, &progress))
        progress = row->progress; /* another daemon's plan: what the store was last told */
    const char *phase = row->state == PLAN_QUEUED       ? "queued"
                        : running && !progress.phase[0] ? "start"
                        : running                       ? progress.phase
                                                        : store_state_name(row->state);
    sp_json_key(json, "progress");
    sp_json_begin_object(json);
    sp_json_member_string(json, "phase", phase);
    sp_json_member_double(json, "fraction", row->state == PLAN_SUCCEEDED ? 1 : progress.fraction);
    if (progress.best_seconds > 0)
        sp_json_member_double(json, "best_seconds", progress.best_seconds);
    if (progress.lower_bound_seconds > 0)
        sp_json_member_double(json, "lower_bound_seconds", progress.lower_bound_seconds);
    sp_json_end_object(json);
}

/* A file between a head and a closing brace: a plan may be large, the answer never is in memory. */
struct framed {
    struct sp_buf head;
    struct stored_file *file;
    uint64_t size;
};

static bool read_framed(void *context, uint64_t offset, void *bytes, size_t size)
{
    const struct framed *framed = context;
    char *to = bytes;
    while (size > 0) {
        size_t part = 1;
        if (offset < framed->head.size) {
            part = framed->head.size - offset < size ? (size_t)(framed->head.size - offset) : size;
            memcpy(to, framed->head.data + offset, part);
        } else if (offset < framed->head.size + framed->size) {
            uint64_t left = framed->head.size + framed->size - offset;
            part = left < size ? (size_t)left : size;
            if (!stored_read(framed->file, offset - framed->head.size, to, part))
                return false;
        } else {
            *to = '}';
        }
        to += part;
        offset += part;
        size -= part;
    }
    return true;
}

static void free_framed(void *context)
{
    struct framed *framed = context;
    sp_buf_release(&framed->head);
    stored_close(framed->file);
    free(framed);
}

/* How a plan is answered. */
struct form {
    int status;
    unsigned how; /* PLAN_SUBMITTED, PLAN_REUSED */
    bool with_plan;
    bool tagged;         /* with an ETag, and preconditions are looked at */
    uint64_t generation; /* of the kept answers, before the store was asked */
};

/* ---- answers that are kept ---- */

/* An answer that is being sent. */
struct sent {
    struct answers *answers;
    const struct cached_answer *answer;
};

static bool read_cached(void *context, uint64_t offset, void *bytes, size_t size)
{
    const struct sent *sent = context;
    memcpy(bytes, sent->answer->bytes + offset, size);
    return true;
}

static void free_cached(void *context)
{
    struct sent *sent = context;
    answers_release(sent->answers, sent->answer);
    free(sent);
}

static enum verdict answer_cached(struct request *request, const struct cached_answer *answer)
{
    struct sent *sent = malloc(sizeof *sent);
    if (sent == NULL) {
        answers_release(request->server->answers, answer);
        return respond_error(request, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
    }
    *sent = (struct sent){request->server->answers, answer};
    request->modified = answer->modified;
    struct stream stream = {
        .size = answer->size, .read = read_cached, .release = free_cached, .context = sent, .bytes = answer->bytes};
    return respond_stream(request, 200, "application/json", &stream, answer->etag);
}

/* An administrator's answer names the tenant, so it is not the one that others get. */
static bool may_keep(const struct request *request, const struct plan_row *row, const struct form *form)
{
    return form->tagged && (form->how & PLAN_REUSED) == 0 && (request_view(request) != NULL || row->tenant[0] == '\0');
}

/* The whole answer in memory, kept for the next one who asks. NULL where that is not possible. */
static const struct cached_answer *keep(const struct request *request, const struct plan_row *row,
                                        const struct form *form, struct framed *framed, const char *etag)
{
    struct sp_buf body;
    uint64_t size = framed->head.size + framed->size + 1;
    if (!may_keep(request, row, form) || size > SPD_MAX_ANSWER_BYTES)
        return NULL;
    sp_buf_init(&body, SPD_MAX_ANSWER_BYTES);
    char *bytes = malloc((size_t)size);
    const struct cached_answer *answer = NULL;
    if (bytes != NULL && read_framed(framed, 0, bytes, (size_t)size)) {
        body.data = bytes;
        body.size = body.capacity = (size_t)size;
        answer = answers_keep(request->server->answers, row, etag, &body, form->generation);
    } else {
        free(bytes);
    }
    sp_buf_release(&body);
    return answer;
}

/* `head` is the plan's object without its closing brace; takes its memory. */
static enum verdict answer_with_plan(struct request *request, const struct plan_row *row, const struct form *form,
                                     struct sp_buf *head, const char *etag)
{
    struct framed *framed = calloc(1, sizeof *framed);
    struct problem problem = {0};
    sp_buf_text(head, ",\"plan\":");
    if (framed == NULL || sp_buf_failed(head)) {
        free(framed);
        sp_buf_release(head);
        return respond_error(request, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
    }
    framed->file = stored_open_result(request->server->stored, row, "plan.json", &problem);
    if (framed->file == NULL) {
        free(framed);
        sp_buf_release(head);
        return result_refused(request, row, &problem, form->how);
    }
    framed->size = stored_size(framed->file);
    framed->head = *head;
    const struct cached_answer *answer = etag != NULL ? keep(request, row, form, framed, etag) : NULL;
    if (answer != NULL) {
        free_framed(framed);
        return answer_cached(request, answer);
    }
    struct stream stream = {
        .size = framed->head.size + framed->size + 1, .read = read_framed, .release = free_framed, .context = framed};
    return respond_stream(request, 200, "application/json", &stream, etag);
}

static enum verdict answer_json(struct request *request, const struct plan_row *row, const struct form *form)
{
    struct sp_buf head;
    struct sp_json json;
    char etag[PLAN_ETAG_SIZE];
    write_etag(row, "", etag);
    const char *tag = form->tagged && etag[0] != '\0' ? etag : NULL;
    sp_buf_init(&head, 256 * 1024);
    sp_json_init_buf(&json, false, &head);
    sp_json_begin_object(&json);
    plan_write_members(&json, request, row);
    if ((form->how & PLAN_REUSED) != 0)
        sp_json_member_bool(&json, "reused", true);
    write_progress(&json, request, row);
    sp_json_key(&json, "request");
    sp_json_raw(&json, row->request, strlen(row->request));
    sp_json_end_object(&json);
    if (sp_json_finish(&json, NULL) != SP_OK)
        head.failed = true;
    if (!form->with_plan || sp_buf_failed(&head))
        return respond_tagged(request, form->status, "application/json", &head, tag);
    head.data[--head.size] = '\0'; /* the closing brace: the plan follows */
    return answer_with_plan(request, row, form, &head, tag);
}

static enum verdict answer_text(struct request *request, const struct plan_row *row, const struct form *form)
{
    static const char type[] = "text/plain; charset=utf-8";
    char etag[PLAN_ETAG_SIZE];
    write_etag(row, "-text", etag);
    const char *tag = form->tagged && etag[0] != '\0' ? etag : NULL;
    if (row->has_result) {
        struct problem problem = {0};
        struct stored_file *file = stored_open_result(request->server->stored, row, "plan.txt", &problem);
        return file != NULL ? send_stored(request, 200, type, file, tag)
                            : result_refused(request, row, &problem, form->how);
    }
    struct sp_buf buf;
    sp_buf_init(&buf, 16 * 1024);
    sp_buf_printf(&buf, "Plan %s is %s.\n", row->id, store_state_name(row->state));
    if (row->error != NULL) {
        struct problem problem;
        json_t *json = json_loads(row->error, 0, NULL);
        problem_from_json(&problem, json);
        json_decref(json);
        sp_buf_printf(&buf, "%s: %s\n", problem.code, problem.detail);
    }
    return respond_tagged(request, form->status, type, &buf, tag);
}

/* A submission that was waited for and failed is answered with the failure itself. */
static enum verdict answer_failed(struct request *request, const struct plan_row *row)
{
    struct problem problem;
    json_t *json = row->error != NULL ? json_loads(row->error, 0, NULL) : NULL;
    problem_from_json(&problem, json);
    json_decref(json);
    return respond_problem(request, &problem);
}

enum verdict plan_answer(struct request *request, const char *id, unsigned how,
                         enum verdict (*step)(struct request *request))
{
    struct plan_row row;
    bool submitted = (how & PLAN_SUBMITTED) != 0;
    int as_json = request_accepts(request, "application/json"), as_text = request_accepts(request, "text/plain");
    if (as_json == 0 && as_text == 0)
        return respond_error(request, 406, "NOT_ACCEPTABLE", "This path answers application/json or text/plain.");
    bool tagged = strcmp(request->method, "POST") != 0;
    uint64_t generation = answers_generation(request->server->answers);
    /* Who sees all tenants gets what is kept of none, which names no tenant either. */
    const char *tenant = request_view(request) != NULL ? request_view(request) : "";
    const struct cached_answer *cached =
        tagged && as_json >= as_text ? answers_get(request->server->answers, tenant, id) : NULL;
    if (cached != NULL)
        return answer_cached(request, cached);
    enum store_found found = store_get_plan(request->server->store, request_view(request), id, &row);
    if (found != STORE_DONE)
        return found == STORE_NOT_FOUND ? plan_gone(request, how) : store_is_away(request);
    bool waited = submitted && request_wait_seconds(request) > 0;
    bool open = row.state == PLAN_QUEUED || row.state == PLAN_RUNNING;
    struct form form = {
        .status = submitted && (open || !waited) ? 202 : 200, .how = how, .tagged = tagged, .generation = generation};
    /* An acceptance never carries the plan, even when the same request was planned before. */
    form.with_plan = row.has_result && form.status == 200;
    if (form.tagged)
        request->modified = row.finished_at;
    enum verdict verdict = VERDICT_GO_ON;
    const bool says_text = as_text > as_json;
    if (row.has_result && (says_text || form.with_plan))
        verdict = held_result(request, &row, says_text ? "plan.txt" : "plan.json", step);
    if (verdict != VERDICT_GO_ON) {
        store_release_plan(&row);
        return verdict;
    }
    if (waited && row.state == PLAN_FAILED)
        verdict = answer_failed(request, &row);
    else if (says_text)
        verdict = answer_text(request, &row, &form);
    else
        verdict = answer_json(request, &row, &form);
    store_release_plan(&row);
    return verdict;
}

enum verdict plan_get_finish(struct request *request)
{
    return plan_answer(request, request->id, 0, plan_get_finish);
}

/* ---- GET /v1/plans ---- */

bool plans_filter_takes(const struct request *request, const struct plan_row *row)
{
    const char *state = request_parameter(request, "state"), *model = request_parameter(request, "model");
    return (state == NULL || strcmp(state, store_state_name(row->state)) == 0) &&
           (model == NULL || strcmp(model, row->model) == 0);
}

static void write_plan(void *context, const struct plan_row *row)
{
    struct page *page = context;
    if (!page_item(page, row->seq, plans_filter_takes(page->request, row)))
        return;
    plan_write_members(&page->json, page->request, row);
    page_item_end(page);
}

static bool list_plans(struct page *page, int limit)
{
    const struct request *request = page->request;
    return store_list_plans(request->server->store, request_view(request), page->before, limit, write_plan, page);
}

enum verdict plans_filter_check(struct request *request, char ret[PLANS_FILTER_SIZE])
{
    const char *state = request_parameter(request, "state"), *model = request_parameter(request, "model");
    if (state != NULL && strcmp(store_state_name(store_state_of(state)), state) != 0)
        return respond_error(request, 400, "BAD_PARAMETER",
                             "The parameter state is queued, running, succeeded, failed or cancelled.");
    if (model != NULL && !text_is_hex(model, 64))
        return respond_error(request, 400, "BAD_PARAMETER",
                             "The parameter model is the id of a model, 64 lower-case hexadecimal digits.");
    (void)snprintf(ret, PLANS_FILTER_SIZE, "%s %s", state != NULL ? state : "", model != NULL ? model : "");
    return VERDICT_GO_ON;
}

enum verdict plans_list_finish(struct request *request)
{
    struct page page;
    char filter[PLANS_FILTER_SIZE];
    enum verdict verdict = plans_filter_check(request, filter);
    if (verdict != VERDICT_GO_ON || !page_begin(&page, request, "plans", filter, &verdict))
        return verdict;
    return page_finish(&page, request, page_fill(&page, list_plans));
}

/* ---- cancel, delete ---- */

/* VERDICT_GO_ON when the plan is as the request's conditions say, or there are none. What is finished stays as it is,
   so a condition that holds once holds until the change. */
static enum verdict check_conditions(struct request *request)
{
    struct plan_row row;
    char etag[PLAN_ETAG_SIZE];
    if (request_header(request, "If-Match") == NULL && request_header(request, "If-Unmodified-Since") == NULL)
        return VERDICT_GO_ON;
    enum store_found found = store_get_plan(request->server->store, request_view(request), request->id, &row);
    if (found != STORE_DONE)
        return found == STORE_NOT_FOUND ? plan_missing(request) : store_is_away(request);
    write_etag(&row, "", etag);
    enum precondition precondition = conditional_change(request, etag, row.finished_at);
    store_release_plan(&row);
    if (precondition == PRECONDITION_HOLDS)
        return VERDICT_GO_ON;
    return respond_error(request, 412, "PRECONDITION_FAILED", "The plan is not as If-Match names it.");
}

/* A queued plan is cancelled now, a running one when its worker has written what it has. */
static enum verdict answer_cancelled(struct request *request)
{
    return plan_answer(request, request->id, 0, answer_cancelled);
}

enum verdict plan_cancel_finish(struct request *request)
{
    enum verdict verdict = check_conditions(request);
    if (verdict != VERDICT_GO_ON)
        return verdict;
    switch (store_cancel(request->server->store, request_view(request), request->id)) {
    case STORE_NOT_FOUND:
        return plan_missing(request);
    case STORE_DONE:
        break;
    default:
        return store_is_away(request);
    }
    unsigned seconds = request_wait_seconds(request);
    if (seconds == 0)
        return answer_cancelled(request);
    request_add_header(request, "Preference-Applied", "wait=%u", seconds);
    verdict = request_suspend(request, answer_cancelled);
    jobs_wait(request->server->jobs, request, request->id, seconds);
    return verdict;
}

enum verdict plan_delete_finish(struct request *request)
{
    enum verdict verdict = check_conditions(request);
    if (verdict != VERDICT_GO_ON)
        return verdict;
    switch (store_delete_plan(request->server->store, request_view(request), request->id)) {
    case STORE_NOT_FOUND:
        return plan_missing(request);
    case STORE_DONE:
        results_remove(request->server->blobs, request->id, INT64_MAX);
        return respond_empty(request, 204);
    default:
        return store_is_away(request);
    }
}

/* ---- GET /v1/plans/{id}/model ---- */

static bool open_annotated(struct request *request, const struct plan_row *row, struct stream *ret_stream,
                           struct problem *problem)
{
    struct stored_file *splice = stored_open_result(request->server->stored, row, "annotated.splice", problem);
    if (splice == NULL)
        return false;
    const struct stream saved = send_stream(splice);
    if (saved.size > 0)
        return derived_open(request, &(struct derived_of){.model = row->model, .damaged = "PLAN_DAMAGED"}, &saved,
                            ret_stream, NULL, problem);
    stored_close(splice); /* a worker writes an empty file where there is no such result */
    return problem_set(problem, 422, "NO_OPERATORS",
                       "The plan is one of a graph of costs, which has no operators: there is no annotated model.");
}

enum verdict plan_model_finish(struct request *request)
{
    struct problem problem = {0};
    struct plan_row row;
    struct stream stream;
    char etag[PLAN_ETAG_SIZE];
    bool ok = false, gone = false;
    enum verdict verdict = VERDICT_GO_ON;
    enum store_found found = store_get_plan(request->server->store, request_view(request), request->id, &row);
    if (found != STORE_DONE)
        return found == STORE_NOT_FOUND ? plan_missing(request) : store_is_away(request);
    if (!row.has_result) {
        (void)problem_set(&problem, 409, "PLAN_NOT_READY", "The plan is %s; there is no annotated model.",
                          store_state_name(row.state));
    } else if ((verdict = held_result(request, &row, "annotated.splice", plan_model_finish)) == VERDICT_GO_ON &&
               (verdict = held_model(request, row.model, plan_model_finish)) == VERDICT_GO_ON) {
        ok = open_annotated(request, &row, &stream, &problem);
        gone = !ok && store_find_plan(request->server->store, row.tenant, row.id) == STORE_NOT_FOUND;
    }
    write_etag(&row, "-model", etag);
    request->modified = row.finished_at;
    store_release_plan(&row);
    if (verdict != VERDICT_GO_ON)
        return verdict;
    if (!ok)
        return gone ? plan_missing(request) : respond_problem(request, &problem);
    return respond_stream(request, 200, "application/octet-stream", &stream, etag[0] != '\0' ? etag : NULL);
}
