#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "derived.h"
#include "files.h"
#include "jobs.h"
#include "page.h"
#include "respond.h"
#include "routes.h"
#include "store.h"
#include "times.h"

enum verdict plan_missing(struct request *request)
{
    return respond_error(request, 404, "PLAN_NOT_FOUND", "There is no plan with this id.");
}

static int open_result(const struct request *request, const char *id, const char *name, uint64_t *ret_size)
{
    char *path = files_plan_file(request->server->config->data, id, name);
    int fd = path != NULL ? files_open_read(path, ret_size) : -1;
    free(path);
    return fd;
}

/* A worker writes an empty file where there is no such result. */
static bool is_empty(const struct request *request, const char *id, const char *name)
{
    uint64_t size = 1;
    int fd = open_result(request, id, name, &size);
    if (fd >= 0)
        (void)close(fd);
    return fd >= 0 && size == 0;
}

/* ---- what a plan is ---- */

static void write_stamp(struct sp_json *json, const char *name, int64_t milliseconds)
{
    char stamp[TIMES_SIZE];
    if (milliseconds > 0)
        sp_json_member_string(json, name, times_format(milliseconds, stamp));
}

/* The members that the list and the single plan share, into an open object. */
static void write_summary(struct sp_json *json, const struct plan_row *row)
{
    sp_json_member_string(json, "id", row->id);
    sp_json_member_string(json, "state", store_state_name(row->state));
    sp_json_member_string(json, "model", row->model);
    sp_json_member_int(json, "attempts", row->attempts);
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
    bool running = row->state == PLAN_RUNNING && jobs_progress(request->server->jobs, row->id, &progress);
    const char *phase = row->state == PLAN_QUEUED ? "queued" : running ? progress.phase : store_state_name(row->state);
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
    int fd;
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
            if (!files_read_at(framed->fd, offset - framed->head.size, to, part))
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
    (void)close(framed->fd);
    free(framed);
}

/* `head` is the plan's object without its closing brace; takes its memory. */
static enum verdict answer_with_plan(struct request *request, const char *id, struct sp_buf *head)
{
    struct framed *framed = calloc(1, sizeof *framed);
    if (framed != NULL)
        framed->fd = open_result(request, id, "plan.json", &framed->size);
    if (framed == NULL || framed->fd < 0 || sp_buf_failed(head)) {
        if (framed != NULL && framed->fd >= 0)
            (void)close(framed->fd);
        free(framed);
        sp_buf_release(head);
        return respond_error(request, 500, "PLAN_DAMAGED", "The stored plan cannot be read.");
    }
    sp_buf_text(head, ",\"plan\":");
    framed->head = *head;
    struct stream stream = {
        .size = head->size + framed->size + 1, .read = read_framed, .release = free_framed, .context = framed};
    return respond_stream(request, 200, "application/json", &stream, NULL);
}

static enum verdict answer_json(struct request *request, const struct plan_row *row, int status, bool with_plan)
{
    struct sp_buf head;
    struct sp_json json;
    sp_buf_init(&head, 256 * 1024);
    sp_json_init_buf(&json, false, &head);
    sp_json_begin_object(&json);
    write_summary(&json, row);
    write_progress(&json, request, row);
    sp_json_key(&json, "request");
    sp_json_raw(&json, row->request, strlen(row->request));
    sp_json_end_object(&json);
    if (sp_json_finish(&json, NULL) != SP_OK)
        head.failed = true;
    if (!with_plan || sp_buf_failed(&head))
        return respond_buf(request, status, "application/json", &head);
    head.data[--head.size] = '\0'; /* the closing brace: the plan follows */
    return answer_with_plan(request, row->id, &head);
}

static enum verdict answer_text(struct request *request, const struct plan_row *row, int status)
{
    static const char type[] = "text/plain; charset=utf-8";
    uint64_t size;
    if (row->state == PLAN_SUCCEEDED) {
        int fd = open_result(request, row->id, "plan.txt", &size);
        if (fd < 0)
            return respond_error(request, 500, "PLAN_DAMAGED", "The stored plan cannot be read.");
        return respond_file(request, 200, type, fd, size, NULL);
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
    return respond_buf(request, status, type, &buf);
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

enum verdict plan_answer(struct request *request, const char *id, bool submitted)
{
    struct plan_row row;
    int as_json = request_accepts(request, "application/json"), as_text = request_accepts(request, "text/plain");
    if (as_json == 0 && as_text == 0)
        return respond_error(request, 406, "NOT_ACCEPTABLE", "This path answers application/json or text/plain.");
    if (!store_get_plan(request->server->store, id, &row))
        return plan_missing(request);
    bool waited = submitted && request_wait_seconds(request) > 0;
    bool open = row.state == PLAN_QUEUED || row.state == PLAN_RUNNING;
    int status = submitted && (open || !waited) ? 202 : 200;
    enum verdict verdict;
    if (waited && row.state == PLAN_FAILED)
        verdict = answer_failed(request, &row);
    else if (as_text > as_json)
        verdict = answer_text(request, &row, status);
    else /* an acceptance never carries the plan, even when the same request was planned before */
        verdict = answer_json(request, &row, status, row.state == PLAN_SUCCEEDED && status == 200);
    store_release_plan(&row);
    return verdict;
}

enum verdict plan_get_finish(struct request *request)
{
    return plan_answer(request, request->id, false);
}

/* ---- GET /v1/plans ---- */

static void write_plan(void *context, const struct plan_row *row)
{
    struct page *page = context;
    if (!page_item(page, row->seq))
        return;
    write_summary(&page->json, row);
    page_item_end(page);
}

enum verdict plans_list_finish(struct request *request)
{
    struct page page;
    enum verdict verdict;
    if (!page_begin(&page, request, "plans", &verdict))
        return verdict;
    bool ok = store_list_plans(request->server->store, page.before, page_wanted(&page), write_plan, &page);
    return page_finish(&page, request, ok);
}

/* ---- cancel, delete ---- */

enum verdict plan_cancel_finish(struct request *request)
{
    switch (store_cancel(request->server->store, request->id)) {
    case STORE_NOT_FOUND:
        return plan_missing(request);
    case STORE_DONE:
        jobs_plan_dropped(request->server->jobs, request->id);
        return plan_answer(request, request->id, false);
    default:
        return respond_error(request, 500, "STORE_ERROR", "The plan could not be cancelled.");
    }
}

enum verdict plan_delete_finish(struct request *request)
{
    switch (store_delete_plan(request->server->store, request->id)) {
    case STORE_NOT_FOUND:
        return plan_missing(request);
    case STORE_DONE:
        jobs_plan_dropped(request->server->jobs, request->id);
        return respond_empty(request, 204);
    default:
        return respond_error(request, 500, "STORE_ERROR", "The plan could not be deleted.");
    }
}

/* ---- GET /v1/plans/{id}/model ---- */

enum verdict plan_model_finish(struct request *request)
{
    struct problem problem = {0};
    struct plan_row row;
    struct stream stream;
    char etag[80];
    bool ok = false;
    if (!store_get_plan(request->server->store, request->id, &row))
        return plan_missing(request);
    if (row.state != PLAN_SUCCEEDED) {
        (void)problem_set(&problem, 409, "PLAN_NOT_READY", "The plan is %s; there is no annotated model.",
                          store_state_name(row.state));
    } else if (is_empty(request, row.id, "annotated.splice")) {
        (void)problem_set(&problem, 422, "NO_OPERATORS",
                          "The plan is one of a graph of costs, which has no operators: there is no annotated model.");
    } else {
        char *splice = files_plan_file(request->server->config->data, row.id, "annotated.splice");
        ok = derived_open(request->server, row.model, splice, "PLAN_DAMAGED", &stream, NULL, &problem);
        free(splice);
    }
    store_release_plan(&row);
    if (!ok)
        return respond_problem(request, &problem);
    (void)snprintf(etag, sizeof etag, "%s-model", request->id); /* a plan never changes once it succeeded */
    return respond_stream(request, 200, "application/octet-stream", &stream, etag);
}
