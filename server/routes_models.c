#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "ingest.h"
#include "jobs.h"
#include "page.h"
#include "plan/job.h"
#include "respond.h"
#include "routes.h"
#include "store.h"
#include "times.h"

static enum verdict no_model(struct request *request)
{
    return respond_error(request, 404, "MODEL_NOT_FOUND", "There is no model with this id.");
}

/* Sends the stored inspection. */
static enum verdict send_inspection(struct request *request, int status, const char *id)
{
    uint64_t size;
    char *path = files_inspection(request->server->config->data, id);
    int fd = path != NULL ? files_open_read(path, &size) : -1;
    free(path);
    if (fd < 0)
        return respond_error(request, 500, "MODEL_DAMAGED", "The stored inspection of this model cannot be read.");
    return respond_file(request, status, "application/json", fd, size, status == 200 ? id : NULL);
}

/* ---- POST /v1/models ---- */

static enum verdict upload_settled(struct request *request)
{
    struct problem problem = {0};
    const char *id;
    bool is_new;
    if (!ingest_settle(request, &id, &is_new, &problem))
        return respond_problem(request, &problem);
    request_add_header(request, "Location", "/v1/models/%s", id);
    return send_inspection(request, is_new ? 201 : 200, id);
}

enum verdict models_upload_begin(struct request *request)
{
    if (request_accepts(request, "application/json") == 0)
        return respond_error(request, 406, "NOT_ACCEPTABLE", "This path answers application/json.");
    return ingest_begin(request);
}

enum verdict models_upload_finish(struct request *request)
{
    return ingest_finish(request, upload_settled);
}

/* ---- GET /v1/models ---- */

static void write_model(void *context, const struct model_row *row)
{
    struct page *page = context;
    char stamp[TIMES_SIZE];
    if (!page_item(page, row->seq))
        return;
    sp_json_member_string(&page->json, "id", row->id);
    sp_json_member_string(&page->json, "name", row->name);
    sp_json_member_int(&page->json, "bytes", row->bytes);
    sp_json_member_string(&page->json, "created_at", times_format(row->created_at, stamp));
    page_item_end(page);
}

enum verdict models_list_finish(struct request *request)
{
    struct page page;
    enum verdict verdict;
    if (!page_begin(&page, request, "models", &verdict))
        return verdict;
    bool ok = store_list_models(request->server->store, page.before, page_wanted(&page), write_model, &page);
    return page_finish(&page, request, ok);
}

/* ---- one model ---- */

enum verdict model_get_finish(struct request *request)
{
    if (!store_has_model(request->server->store, request->id))
        return no_model(request);
    return send_inspection(request, 200, request->id);
}

enum verdict model_content_finish(struct request *request)
{
    uint64_t size;
    if (!store_has_model(request->server->store, request->id))
        return no_model(request);
    char *path = files_blob(request->server->config->data, request->id);
    int fd = path != NULL ? files_open_read(path, &size) : -1;
    free(path);
    if (fd < 0)
        return respond_error(request, 500, "MODEL_DAMAGED", "The stored file of this model cannot be read.");
    return respond_file(request, 200, "application/octet-stream", fd, size, request->id);
}

enum verdict model_delete_finish(struct request *request)
{
    struct server *server = request->server;
    (void)pthread_mutex_lock(&server->models_mutex);
    enum store_found found = store_delete_model(server->store, request->id);
    if (found == STORE_DONE)
        files_remove_blob(server->config->data, request->id);
    (void)pthread_mutex_unlock(&server->models_mutex);
    switch (found) {
    case STORE_DONE:
        return respond_empty(request, 204);
    case STORE_NOT_FOUND:
        return no_model(request);
    case STORE_IN_USE:
        return respond_error(request, 409, "MODEL_IN_USE", "Plans refer to this model; delete them first.");
    default:
        return respond_error(request, 500, "STORE_ERROR", "The model could not be deleted.");
    }
}

/* ---- POST /v1/models/{id}/inspect ---- */

struct inspecting {
    struct errand inspection;
    json_t *dims;
    char *model, *output;
    struct model_row row;
};

static void free_inspecting(void *state)
{
    struct inspecting *inspecting = state;
    if (inspecting->output != NULL)
        (void)unlink(inspecting->output);
    store_release_model(&inspecting->row);
    json_decref(inspecting->dims);
    free(inspecting->model);
    free(inspecting->output);
    free(inspecting);
}

static void inspection_done(struct errand *inspection)
{
    request_resume(inspection->context);
}

static enum verdict inspection_settled(struct request *request)
{
    const struct inspecting *inspecting = request->state;
    uint64_t size;
    if (inspecting->inspection.problem.status != 0)
        return respond_problem(request, &inspecting->inspection.problem);
    int fd = files_open_read(inspecting->output, &size);
    if (fd < 0)
        return respond_error(request, 500, "IO_ERROR", "The inspection could not be read.");
    return respond_file(request, 200, inspecting->inspection.text ? "text/plain; charset=utf-8" : "application/json",
                        fd, size, NULL);
}

/* The dims are options of a plan too: one reader says what is wrong with them. */
static bool check_dims(json_t *dims, struct problem *problem)
{
    struct sp_error err = {0};
    struct sp_plan_options options;
    struct sp_arena *arena = sp_arena_create(NULL);
    json_t *wrapped = json_pack("{s:O}", "dims", dims);
    if (arena == NULL || wrapped == NULL)
        (void)sp_fail_memory(&err);
    else if (sp_plan_options_parse(arena, NULL, wrapped, &options, &err) != SP_OK)
        (void)snprintf(err.where, sizeof err.where, "/dims");
    if (err.status != SP_OK)
        problem_from_error(problem, &err);
    json_decref(wrapped);
    sp_arena_destroy(arena);
    return err.status == SP_OK;
}

/* {"values": bool, "dims": {NAME: N}}, or nothing. On success *ret_dims is the caller's. */
static bool parse_inspect(struct request *request, bool *ret_values, json_t **ret_dims, struct problem *problem)
{
    *ret_values = false;
    if (request->body.size == 0)
        return true;
    json_error_t error;
    json_t *json = json_loadb(request->body.data, request->body.size, JSON_REJECT_DUPLICATES, &error);
    if (json == NULL)
        return problem_set(problem, 400, "MALFORMED_JSON", "The body is not JSON (line %d, column %d): %s.", error.line,
                           error.column, error.text);
    const char *key;
    json_t *value, *dims = NULL;
    bool ok = json_is_object(json) ||
              problem_set(problem, 422, "BAD_REQUEST", "The body must be an object like {\"values\": true}.");
    json_object_foreach(json, key, value)
    {
        if (strcmp(key, "values") == 0 && json_is_boolean(value)) {
            *ret_values = json_is_true(value);
        } else if (strcmp(key, "dims") == 0) {
            dims = value;
        } else if (ok) {
            ok = problem_set(problem, 422, "BAD_REQUEST",
                             "The members are \"values\", true or false, and \"dims\", an object of numbers.");
            (void)snprintf(problem->where, sizeof problem->where, "/%.200s", key);
        }
    }
    ok = ok && (dims == NULL || check_dims(dims, problem));
    if (ok)
        *ret_dims = json_incref(dims);
    json_decref(json);
    return ok;
}

enum verdict model_inspect_finish(struct request *request)
{
    struct problem problem = {0};
    bool values;
    int as_json = request_accepts(request, "application/json"), as_text = request_accepts(request, "text/plain");
    if (as_json == 0 && as_text == 0)
        return respond_error(request, 406, "NOT_ACCEPTABLE", "This path answers application/json or text/plain.");
    struct inspecting *inspecting = calloc(1, sizeof *inspecting);
    if (inspecting == NULL)
        return respond_error(request, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
    request->state = inspecting;
    request->free_state = free_inspecting;
    if (!parse_inspect(request, &values, &inspecting->dims, &problem))
        return respond_problem(request, &problem);
    if (!store_get_model(request->server->store, request->id, &inspecting->row))
        return no_model(request);
    inspecting->model = files_blob(request->server->config->data, request->id);
    inspecting->output = files_temporary(request->server->config->data);
    if (inspecting->model == NULL || inspecting->output == NULL)
        return respond_error(request, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
    inspecting->inspection = (struct errand){
        .kind = "inspect",
        .model = inspecting->model,
        .id = request->id,
        .name = inspecting->row.name,
        .output = inspecting->output,
        .values = values,
        .dims = inspecting->dims,
        .text = as_text > as_json,
        .done = inspection_done,
        .context = request,
    };
    enum verdict verdict = request_suspend(request, inspection_settled);
    if (!jobs_send(request->server->jobs, &inspecting->inspection, &problem)) {
        inspecting->inspection.problem = problem;
        request_resume(request);
    }
    return verdict;
}
