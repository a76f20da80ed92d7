#include "routes/reference.h"

#include <jansson.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "http/respond.h"
#include "http/upload.h"
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

enum verdict reference_take(struct request *request)
{
    json_t *body = read_body(request);
    bool is_wrong = false;
    struct upload_row row;
    char id[STORE_ID_SIZE + 1] = "";
    const char *upload = find_upload(body, &is_wrong);
    if (upload != NULL)
        (void)snprintf(id, sizeof id, "%s", upload);
    json_decref(body);
    if (is_wrong)
        return respond_error(request, 422, "BAD_UPLOAD",
                             "A model that came by parts is named {\"upload\": ID}, with nothing else.");
    return upload != NULL ? reference_take_upload(request, id, &row) : VERDICT_GO_ON;
}
