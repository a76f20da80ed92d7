#include "routes/ask.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "http/respond.h"
#include "http/upload.h"
#include "jobs/jobs.h"
#include "observe/metrics.h"
#include "routes/derived.h"
#include "routes/held.h"
#include "routes/routes.h"
#include "store/files.h"
#include "store/store.h"
#include "uploads/beside.h"

struct asking {
    struct errand errand;
    char *model, *plan, *output, *body; /* paths, and a body that is not the request's */
    char id[65];                        /* of the model */
    struct ask_models models;           /* beside it */
    struct beside beside;               /* files beside the model */
    const char *type;                   /* of an answer that is a file */
    bool of_plan;                       /* that the request names */
    struct model_row row;
};

static void free_asking(void *state)
{
    struct asking *asking = state;
    if (asking->output != NULL)
        (void)unlink(asking->output);
    store_release_model(&asking->row);
    beside_release(&asking->beside);
    free(asking->model);
    free(asking->plan);
    free(asking->output);
    free(asking->models.ids);
    free(asking->models.files);
    free(asking->body);
    free(asking);
}

/* ---- headers ---- */

/* JSON, unless the client would rather have another form. False when it wants none. */
static bool choose_form(const struct request *request, const struct ask *ask, enum answer_form *ret_form)
{
    int as_json = request_accepts(request, "application/json"), as_text = request_accepts(request, "text/plain");
    int as_model = ask->gives_model ? request_accepts(request, "application/octet-stream") : 0;
    *ret_form = as_model > as_json && as_model > as_text ? ANSWER_MODEL : as_text > as_json ? ANSWER_TEXT : ANSWER_JSON;
    return as_json > 0 || as_text > 0 || as_model > 0;
}

enum verdict ask_accepts(struct request *request, const struct ask *ask)
{
    enum answer_form form;
    if (choose_form(request, ask, &form))
        return VERDICT_GO_ON;
    return respond_error(request, 406, "NOT_ACCEPTABLE", "This path answers application/json%s.",
                         ask->gives_model ? ", text/plain or application/octet-stream" : " or text/plain");
}

/* "application/json", with parameters or not. */
static bool is_json_type(const char *type)
{
    static const char json[] = "application/json";
    size_t size = sizeof json - 1;
    return type != NULL && strncasecmp(type, json, size) == 0 &&
           (type[size] == '\0' || type[size] == ';' || type[size] == ' ');
}

enum verdict ask_begin(struct request *request, const struct ask *ask)
{
    enum verdict verdict = ask_accepts(request, ask);
    bool is_empty = !request->has_body || (request->has_length && request->content_length == 0);
    if (verdict != VERDICT_GO_ON)
        return verdict;
    if (!(ask->has_defaults && is_empty) && !is_json_type(request_header(request, "Content-Type")))
        return respond_error(request, 415, "UNSUPPORTED_MEDIA_TYPE", "The request must be application/json.");
    if (atomic_load(&request->server->draining))
        return respond_error(request, 503, "STOPPING", "The service is stopping; send the request again.");
    return VERDICT_GO_ON;
}

/* ---- the answer ---- */

static enum verdict send_model(struct request *request, const struct asking *asking)
{
    struct problem problem = {0};
    struct stream stream;
    char digest[DERIVED_DIGEST_SIZE];
    const struct derived_of of = {.model = asking->id, .beside = &asking->beside, .damaged = "RESULT_DAMAGED"};
    if (!derived_open_file(request, &of, asking->output, &stream, digest, &problem)) {
        if (strcmp(problem.code, of.damaged) == 0)
            jobs_refuse(request->server->jobs, &asking->errand);
        return respond_problem(request, &problem);
    }
    return respond_stream(request, 200, asking->type, &stream, digest);
}

/* Whether a model that the request is about is there no more. */
static bool is_gone(const struct request *request, const struct asking *asking)
{
    struct store *store = request->server->store;
    bool is_gone = asking->row.name != NULL && store_find_model(store, NULL, asking->id) == STORE_NOT_FOUND;
    for (size_t i = 0; !is_gone && i < asking->models.count; i++)
        is_gone = store_find_model(store, NULL, asking->models.ids[i]) == STORE_NOT_FOUND;
    return is_gone;
}

static enum verdict answer_asked(struct request *request)
{
    const struct asking *asking = request->state;
    const struct errand *errand = &asking->errand;
    uint64_t size;
    /* What it is about may have been deleted before the worker opened it. */
    if (asking->of_plan && errand->problem.status >= 500 &&
        store_find_plan(request->server->store, NULL, request->id) == STORE_NOT_FOUND)
        return plan_missing(request);
    if (errand->problem.status >= 500 && is_gone(request, asking))
        return model_missing(request);
    if (errand->problem.status != 0)
        return respond_problem(request, &errand->problem);
    if (errand->form == ANSWER_MODEL)
        return send_model(request, asking);
    int fd = files_open_read(asking->output, &size);
    if (fd < 0) {
        struct problem problem = {0};
        (void)problem_from_errno(&problem, errno, "Reading the result");
        return respond_problem(request, &problem);
    }
    return respond_file(request, 200, errand->form == ANSWER_TEXT ? "text/plain; charset=utf-8" : "application/json",
                        fd, size, NULL);
}

/* ---- asking ---- */

static void errand_done(struct errand *errand)
{
    request_resume(errand->context);
}

static struct asking *new_asking(struct request *request)
{
    struct asking *asking = calloc(1, sizeof *asking);
    if (asking == NULL)
        return NULL;
    request->state = asking;
    request->free_state = free_asking;
    asking->type = "application/octet-stream";
    asking->output = files_temporary(request->server->config->data, request->server->owner);
    return asking->output != NULL ? asking : NULL;
}

static enum verdict no_memory(struct request *request)
{
    return respond_error(request, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
}

/* Everything but the body is in place, `name` and `model` are NULL when there is no model. */
static enum verdict send_errand(struct request *request, const char *kind, enum answer_form form, struct asking *asking,
                                const char *model, const char *name)
{
    struct errand *errand = &asking->errand;
    *errand = (struct errand){
        .kind = kind,
        .tenant = request->principal.tenant,
        .output = asking->output,
        .request = request->request_id,
        .form = form,
        .model = model,
        .id = asking->id,
        .name = name,
        .is_upload = request->upload != NULL,
        .plan = asking->plan,
        .others = (const char(*)[65])asking->models.ids,
        .other_count = asking->models.count,
        .beside = asking->models.files,
        .beside_count = asking->models.file_count,
        .apart = model != NULL && request_sees_all(request),
        .body = asking->body != NULL ? asking->body : request->body.data,
        .body_size = asking->body != NULL ? strlen(asking->body) : request->body.size,
        .done = errand_done,
        .context = request,
    };
    enum verdict verdict = request_suspend(request, answer_asked);
    held_send(request, errand);
    return verdict;
}

static enum verdict hand_on(struct request *request, const struct ask *ask, struct asking *asking, const char *model,
                            const char *name)
{
    enum answer_form form = ANSWER_JSON;
    enum verdict verdict = ask_accepts(request, ask);
    (void)choose_form(request, ask, &form);
    return verdict == VERDICT_GO_ON ? send_errand(request, ask->kind, form, asking, model, name) : verdict;
}

enum verdict ask_worker(struct request *request, const struct ask *ask)
{
    struct asking *asking = new_asking(request);
    return asking != NULL ? hand_on(request, ask, asking, NULL, NULL) : no_memory(request);
}

/* About a stored model, whose id is checked to be one. */
static enum verdict ask_stored(struct request *request, const struct ask *ask, struct asking *asking, const char *id)
{
    enum store_found found = store_get_model(request->server->store, request_view(request), id, &asking->row);
    for (size_t i = 0; found == STORE_DONE && i < asking->models.count; i++)
        found = store_find_model(request->server->store, request_view(request), asking->models.ids[i]);
    if (found != STORE_DONE)
        return found == STORE_NOT_FOUND ? model_missing(request) : store_is_away(request);
    (void)snprintf(asking->id, sizeof asking->id, "%s", id);
    asking->model = files_blob(request->server->config->data, asking->row.blob);
    return asking->model != NULL ? hand_on(request, ask, asking, asking->model, asking->row.name) : no_memory(request);
}

enum verdict ask_about_model(struct request *request, const struct ask *ask)
{
    struct asking *asking = new_asking(request);
    return asking != NULL ? ask_stored(request, ask, asking, request->id) : no_memory(request);
}

enum verdict ask_about_models(struct request *request, const struct ask *ask, const struct ask_models *models)
{
    struct asking *asking = new_asking(request);
    if (asking == NULL) {
        free(models->ids);
        free(models->files);
        return no_memory(request);
    }
    asking->models = *models;
    return ask_stored(request, ask, asking, models->original);
}

enum verdict ask_for_file(struct request *request, const struct ask_file *file, char *body, struct beside *beside)
{
    const char *data = request->server->config->data, *model = file->plan->model, *type = file->type;
    struct asking *asking = new_asking(request);
    if (asking == NULL) {
        free(body);
        beside_release(beside);
        return no_memory(request);
    }
    asking->body = body;
    asking->beside = *beside;
    *beside = (struct beside){0};
    asking->type = type;
    asking->of_plan = true;
    if (request_accepts(request, type) == 0)
        return respond_error(request, 406, "NOT_ACCEPTABLE", "This path answers %.*s.", (int)strcspn(type, ";"), type);
    enum store_found found = store_get_model(request->server->store, request_view(request), model, &asking->row);
    if (found != STORE_DONE)
        return found == STORE_NOT_FOUND ? model_missing(request) : store_is_away(request);
    (void)snprintf(asking->id, sizeof asking->id, "%s", model);
    asking->model = files_blob(data, asking->row.blob);
    asking->plan = files_plan_file(data, file->plan->id, file->plan->attempts, "plan.json");
    if (asking->model == NULL || asking->plan == NULL)
        return no_memory(request);
    return send_errand(request, file->kind, ANSWER_MODEL, asking, asking->model, asking->row.name);
}

enum verdict ask_about_upload(struct request *request, const struct ask *ask, char *body)
{
    struct problem problem = {0};
    const char *name = request_parameter(request, "name");
    struct asking *asking = new_asking(request);
    if (asking == NULL) {
        free(body);
        return no_memory(request);
    }
    asking->body = body;
    if (!upload_finish(request->upload, asking->id, &problem))
        return respond_problem(request, &problem);
    metrics_upload(request->server->metrics, upload_size(request->upload));
    return hand_on(request, ask, asking, upload_path(request->upload), name != NULL ? name : "");
}
