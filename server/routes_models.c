#include <stdlib.h>

#include "ask.h"
#include "files.h"
#include "ingest.h"
#include "page.h"
#include "respond.h"
#include "routes.h"
#include "store.h"
#include "times.h"

enum verdict model_missing(struct request *request)
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
        return model_missing(request);
    return send_inspection(request, 200, request->id);
}

enum verdict model_content_finish(struct request *request)
{
    uint64_t size;
    if (!store_has_model(request->server->store, request->id))
        return model_missing(request);
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
        return model_missing(request);
    case STORE_IN_USE:
        return respond_error(request, 409, "MODEL_IN_USE", "Plans refer to this model; delete them first.");
    default:
        return respond_error(request, 500, "STORE_ERROR", "The model could not be deleted.");
    }
}

/* ---- POST /v1/models/{id}/inspect ---- */

static const struct ask inspect = {.kind = "inspect", .has_defaults = true};

enum verdict model_inspect_finish(struct request *request)
{
    return ask_about_model(request, &inspect);
}
