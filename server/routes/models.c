#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "http/conditional.h"
#include "http/digest.h"
#include "http/page.h"
#include "http/respond.h"
#include "http/send.h"
#include "routes/ask.h"
#include "routes/held.h"
#include "routes/ingest.h"
#include "routes/reference.h"
#include "routes/routes.h"
#include "store/blobs.h"
#include "store/files.h"
#include "store/store.h"
#include "uploads/beside.h"
#include "util/times.h"

#define MODEL_ETAG_SIZE 96

/* What an inspection says changes when the model was deleted and is stored again, under another name. */
static void write_etag(const struct model_row *row, char ret[MODEL_ETAG_SIZE])
{
    (void)snprintf(ret, MODEL_ETAG_SIZE, "%s-%llx", row->id, (unsigned long long)row->created_at);
}

/* Sends the stored inspection of this tenant. */
static enum verdict send_inspection(struct request *request, int status, const struct model_row *row, const char *etag,
                                    enum verdict (*step)(struct request *request))
{
    struct problem problem = {0};
    enum verdict verdict = held_inspection(request, row, step);
    if (verdict != VERDICT_GO_ON)
        return verdict;
    struct stored_file *file = stored_open_inspection(request->server->stored, row, &problem);
    return file != NULL ? send_stored(request, status, "application/json", file, etag)
                        : respond_problem(request, &problem);
}

/* ---- POST /v1/models ---- */

static enum verdict upload_done(struct request *request)
{
    struct problem problem = {0};
    struct model_row row;
    const char *id;
    bool is_new;
    if (!ingest_publish(request, &id, &is_new, &problem))
        return respond_problem(request, &problem);
    enum store_found found = store_get_model(request->server->store, request->principal.tenant, id, &row);
    if (found != STORE_DONE)
        return found == STORE_NOT_FOUND ? model_missing(request) : store_is_away(request);
    unsigned headers = request->header_count;
    request_add_header(request, "Location", "/v1/models/%s", id);
    enum verdict verdict = send_inspection(request, is_new ? 201 : 200, &row, NULL, upload_done);
    if (verdict == VERDICT_SUSPENDED)
        request->header_count = headers;
    store_release_model(&row);
    return verdict;
}

enum verdict models_upload_begin(struct request *request)
{
    if (request_accepts(request, "application/json") == 0)
        return respond_error(request, 406, "NOT_ACCEPTABLE", "This path answers application/json.");
    return ingest_begin(request, true);
}

static enum verdict ingest_model(struct request *request)
{
    return ingest_finish(request, upload_done, true);
}

enum verdict models_upload_finish(struct request *request)
{
    return reference_take(request, ingest_model);
}

/* ---- GET /v1/models ---- */

static void write_model(void *context, const struct model_row *row)
{
    struct page *page = context;
    char stamp[TIMES_SIZE];
    if (!page_item(page, row->seq, true))
        return;
    sp_json_member_string(&page->json, "id", row->id);
    if (request_view(page->request) == NULL && row->tenant[0] != '\0')
        sp_json_member_string(&page->json, "tenant", row->tenant);
    sp_json_member_string(&page->json, "name", row->name);
    sp_json_member_int(&page->json, "bytes", row->bytes);
    sp_json_member_string(&page->json, "created_at", times_format(row->created_at, stamp));
    page_item_end(page);
}

static bool list_models(struct page *page, int limit)
{
    const struct request *request = page->request;
    return store_list_models(request->server->store, request_view(request), page->before, limit, write_model, page);
}

enum verdict models_list_finish(struct request *request)
{
    struct page page;
    enum verdict verdict;
    if (!page_begin(&page, request, "models", "", &verdict))
        return verdict;
    return page_finish(&page, request, page_fill(&page, list_models));
}

/* ---- one model ---- */

enum verdict model_get_finish(struct request *request)
{
    struct model_row row;
    enum store_found found = store_get_model(request->server->store, request_view(request), request->id, &row);
    if (found != STORE_DONE)
        return found == STORE_NOT_FOUND ? model_missing(request) : store_is_away(request);
    char etag[MODEL_ETAG_SIZE];
    write_etag(&row, etag);
    request->modified = row.created_at;
    enum verdict verdict = send_inspection(request, 200, &row, etag, model_get_finish);
    store_release_model(&row);
    return verdict;
}

enum verdict model_content_finish(struct request *request)
{
    struct model_row row;
    char digest[DIGEST_TEXT_SIZE];
    enum store_found found = store_get_model(request->server->store, request_view(request), request->id, &row);
    if (found != STORE_DONE)
        return found == STORE_NOT_FOUND ? model_missing(request) : store_is_away(request);
    request->modified = row.created_at;
    if (store_time(request->server->store) - row.used_at > SPD_TOUCH_MS)
        store_touch_model(request->server->store, row.tenant, row.id);
    store_release_model(&row);
    enum verdict verdict = held_model(request, request->id, model_content_finish);
    if (verdict != VERDICT_GO_ON)
        return verdict;
    struct problem problem = {0};
    struct stored_file *file = stored_open_model(request->server->stored, row.blob, &problem);
    if (file == NULL)
        return respond_problem(request, &problem);
    digest_text(request->id, digest);
    request_add_header(request, "Repr-Digest", "%s", digest);
    return send_stored(request, 200, "application/octet-stream", file, request->id);
}

/* ---- DELETE ---- */

/* VERDICT_GO_ON when the model is what the request's conditions say, or there are none. */
static enum verdict check_conditions(struct request *request)
{
    struct model_row row;
    if (request_header(request, "If-Match") == NULL && request_header(request, "If-Unmodified-Since") == NULL)
        return VERDICT_GO_ON;
    enum store_found found = store_get_model(request->server->store, request_view(request), request->id, &row);
    if (found != STORE_DONE)
        return found == STORE_NOT_FOUND ? model_missing(request) : store_is_away(request);
    enum precondition precondition = conditional_change(request, row.id, row.created_at);
    store_release_model(&row);
    if (precondition == PRECONDITION_HOLDS)
        return VERDICT_GO_ON;
    return respond_error(request, 412, "PRECONDITION_FAILED", "The model is not the one that If-Match names.");
}

struct references {
    const char *model;
    int64_t before;
    int count, seen;
};

static void count_reference(void *context, const struct plan_row *row)
{
    struct references *references = context;
    references->count += strcmp(row->model, references->model) == 0;
    references->before = row->seq;
    references->seen++;
}

static enum verdict model_in_use(struct request *request)
{
    struct references references = {.model = request->id, .before = INT64_MAX};
    int looked = 0;
    bool complete = false;
    while (!complete && looked < SPD_MAX_LOOKED_AT) {
        references.seen = 0;
        if (!store_list_plans(request->server->store, request_view(request), references.before, SPD_MAX_PAGE,
                              count_reference, &references))
            break;
        looked += references.seen;
        complete = references.seen < SPD_MAX_PAGE;
    }
    bool one = references.count == 1 && complete;
    return respond_error(request, 409, "MODEL_IN_USE", "%s%d plan%s refer%s to this model; delete %s first.",
                         complete ? "" : "At least ", references.count, one ? "" : "s", one ? "s" : "",
                         one ? "it" : "them");
}

enum verdict model_delete_finish(struct request *request)
{
    struct problem problem = {0};
    enum verdict verdict = check_conditions(request);
    if (verdict != VERDICT_GO_ON)
        return verdict;
    switch (beside_delete_model(request->server, request_view(request), request->id, &problem)) {
    case STORE_DONE:
        return respond_empty(request, 204);
    case STORE_NOT_FOUND:
        return model_missing(request);
    case STORE_IN_USE:
        return model_in_use(request);
    default:
        return store_is_away(request);
    }
}

/* ---- POST /v1/models/{id}/inspect ---- */

static const struct ask inspect = {.kind = "inspect", .has_defaults = true};

enum verdict model_inspect_finish(struct request *request)
{
    return ask_about_model(request, &inspect);
}
