#include "routes/reference.h"

#include <jansson.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "http/respond.h"
#include "http/upload.h"
#include "references/references.h"
#include "routes/routes.h"
#include "server.h"
#include "store/files.h"
#include "store/store.h"
#include "uploads/uploads.h"
#include "util/text.h"

/* The body as JSON when it is short and sent as such; NULL when it is not. */
static json_t *read_body(const struct request *request)
{
    char text[SPD_MAX_REFERENCE_BYTES];
    uint64_t size = 0;
    const char *type = request_header(request, "Content-Type");
    if (type == NULL || strncasecmp(type, "application/json", 16) != 0 ||
        upload_size(request->upload) > SPD_MAX_REFERENCE_BYTES)
        return NULL;
    const int fd = files_open_read(upload_path(request->upload), &size);
    const bool ok = fd >= 0 && size <= sizeof text && files_read_at(fd, 0, text, (size_t)size);
    if (fd >= 0)
        (void)close(fd);
    return ok ? json_loadb(text, (size_t)size, JSON_REJECT_DUPLICATES, NULL) : NULL;
}

/* Whether it refers to a model, as no description of one does. */
static const char *find_upload(const json_t *body, bool *ret_other)
{
    const json_t *upload = json_object_get(body, "upload");
    *ret_other = upload != NULL && (!json_is_string(upload) || json_object_size(body) != 1);
    return json_string_value(upload);
}

enum verdict reference_take_upload(struct request *request, const char *id, struct upload_row *ret_row)
{
    struct problem problem = {0};
    const enum store_found found =
        text_is_hex(id, STORE_ID_SIZE - 1)
            ? store_get_upload(request->server->store, request->principal.tenant, id, ret_row)
            : STORE_NOT_FOUND;
    if (found == STORE_ERROR)
        return store_is_away(request);
    if (found != STORE_DONE)
        return respond_error(request, 404, "UPLOAD_NOT_FOUND", "There is no upload with this id, or it expired.");
    if (!ret_row->is_complete)
        return respond_error(request, 409, "UPLOAD_INCOMPLETE",
                             "The upload is not complete; HEAD of it says how far it has come.");
    if (!uploads_are_here(request->server->uploads, ret_row->id, &problem))
        return respond_problem(request, &problem);
    struct upload *upload =
        upload_adopt(request->server->config, request->server->owner, ret_row->id, ret_row->digest, &problem);
    if (upload == NULL)
        return respond_problem(request, &problem);
    upload_destroy(request->upload);
    request->upload = upload;
    return VERDICT_GO_ON;
}

/* ---- {"model": {"url": ".."}} ---- */

const char *reference_url(const json_t *model, struct problem *problem)
{
    const char *url = json_string_value(json_object_get(model, "url"));
    if (url != NULL && json_object_size(model) == 1)
        return url;
    (void)problem_set(problem, 422, "BAD_REFERENCE",
                      "A model that is to be fetched is named {\"url\": \"s3://BUCKET/KEY\"}, with nothing else.");
    (void)snprintf(problem->where, sizeof problem->where, "/model");
    return NULL;
}

/* A model on its way, which the request waits for. */
static void fetched(void *context)
{
    request_resume(context);
}

static enum verdict take_fetched(struct request *request)
{
    struct reference *reference = request->reference;
    struct upload_row row;
    if (reference->problem.status != 0)
        return respond_problem(request, &reference->problem);
    const enum verdict verdict = reference_take_upload(request, reference->upload.id, &row);
    return verdict == VERDICT_GO_ON ? reference->fetched(request) : verdict;
}

enum verdict reference_fetch(struct request *request, const char *url, enum verdict (*step)(struct request *request))
{
    struct problem problem = {0};
    request->reference = reference_open(request->server, request->principal.tenant, url, &problem);
    if (request->reference == NULL)
        return respond_problem(request, &problem);
    request->reference->fetched = step;
    const enum verdict verdict = request_suspend(request, take_fetched);
    reference_fetch_model(request->reference, fetched, request);
    return verdict;
}

/* ---- both ---- */

/* Whether the body names an upload, or an address; *ret_wrong when it cannot be told which. */
static const char *find_reference(const json_t *body, bool *ret_is_url, bool *ret_wrong, struct problem *problem)
{
    const json_t *model = json_object_get(body, "model");
    *ret_is_url = json_is_object(model) && json_object_get(model, "url") != NULL && json_object_size(body) == 1;
    return *ret_is_url ? reference_url(model, problem) : find_upload(body, ret_wrong);
}

enum verdict reference_take(struct request *request, enum verdict (*step)(struct request *request))
{
    struct problem problem = {0};
    json_t *body = read_body(request);
    bool is_wrong = false, is_url = false;
    struct upload_row row;
    char text[SPD_MAX_REFERENCE_BYTES] = "";
    const char *found = find_reference(body, &is_url, &is_wrong, &problem);
    if (found != NULL)
        (void)snprintf(text, sizeof text, "%s", found);
    json_decref(body);
    if (problem.status != 0)
        return respond_problem(request, &problem);
    if (is_wrong)
        return respond_error(request, 422, "BAD_UPLOAD",
                             "A model that came by parts is named {\"upload\": ID}, with nothing else.");
    if (is_url)
        return reference_fetch(request, text, step);
    const enum verdict verdict = found != NULL ? reference_take_upload(request, text, &row) : VERDICT_GO_ON;
    return verdict == VERDICT_GO_ON ? step(request) : verdict;
}
