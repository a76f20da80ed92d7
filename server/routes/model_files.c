/*
 * /v1/models/{id}/files: the files beside a model, in which weights of it lie.
 *
 *   POST {"location": "weights.bin", "upload": ID}   a complete upload by parts becomes one
 *   GET                                              those that are there
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_writer.h"
#include "http/respond.h"
#include "http/upload.h"
#include "routes/reference.h"
#include "routes/routes.h"
#include "store/blobs.h"
#include "store/folder.h"
#include "store/store.h"
#include "uploads/beside.h"
#include "uploads/uploads.h"
#include "util/text.h"

/* A file on its way to its place. */
struct placing {
    struct transfer transfer;
    struct request *request;
    struct file_row row;
    char location[SPD_MAX_LOCATION + 1], source[STORE_ID_SIZE];
    enum store_added added;
    struct problem problem;
};

static bool read_body(const struct request *request, struct placing *placing, struct problem *problem)
{
    const char *location = NULL, *upload = NULL;
    json_error_t error;
    json_t *body = json_loadb(request->body.data != NULL ? request->body.data : "", request->body.size,
                              JSON_REJECT_DUPLICATES, &error);
    bool ok = body != NULL || problem_set(problem, 400, "MALFORMED_JSON", "The body is not JSON (line %d, column %d).",
                                          error.line, error.column);
    if (ok && json_unpack_ex(body, &error, JSON_STRICT, "{s:s, s:s}", "location", &location, "upload", &upload) != 0)
        ok = problem_set(problem, 422, "BAD_FILE",
                         "A file beside a model is named as {\"location\": \"weights.bin\", \"upload\": ID}.");
    if (ok && !beside_is_location(location))
        ok = problem_set(problem, 422, "BAD_LOCATION",
                         "A location is a path below the model's folder, as the model names it: at most %d bytes, not "
                         "absolute, and without '..'.",
                         SPD_MAX_LOCATION);
    if (ok) {
        (void)snprintf(placing->location, sizeof placing->location, "%s", location);
        (void)snprintf(placing->source, sizeof placing->source, "%s",
                       text_is_hex(upload, STORE_ID_SIZE - 1) ? upload : "");
    }
    json_decref(body);
    return ok;
}

/* ---- placing ---- */

static void place(struct placing *placing)
{
    struct request *request = placing->request;
    placing->added = beside_place(request->server, request->upload, &placing->row, &placing->problem);
}

static void write_file(struct sp_json *json, const char *location, const char *blob, int64_t bytes)
{
    char sha256[65];
    (void)snprintf(sha256, sizeof sha256, "%.64s", blob);
    sp_json_begin_object(json);
    sp_json_member_string(json, "location", location);
    sp_json_member_int(json, "bytes", bytes);
    sp_json_member_string(json, "sha256", sha256);
    sp_json_end_object(json);
}

static enum verdict placed(struct request *request)
{
    struct placing *placing = request->state;
    struct sp_buf buf;
    struct sp_json json;
    switch (placing->added) {
    case STORE_NO_MODEL:
        return model_missing(request);
    case STORE_DIFFERS:
        return respond_error(request, 409, "FILE_EXISTS",
                             "The model has another file of this location; delete the model to begin anew.");
    case STORE_ADDED:
    case STORE_EXISTS:
        break;
    default:
        return respond_problem(request, &placing->problem);
    }
    if (placing->added == STORE_ADDED)
        request_add_header(request, "Location", "/v1/models/%s/files", request->id);
    sp_buf_init(&buf, SPD_MAX_TABLE_BYTES);
    sp_json_init_buf(&json, false, &buf);
    write_file(&json, placing->location, placing->row.blob, placing->row.bytes);
    (void)sp_json_finish(&json, NULL);
    return respond_buf(request, placing->added == STORE_ADDED ? 201 : 200, "application/json", &buf);
}

static void run_place(struct transfer *transfer)
{
    struct placing *placing = transfer->context;
    place(placing);
    request_resume(placing->request);
}

/* VERDICT_GO_ON when the upload is the request's. */
static enum verdict take_upload(struct request *request, struct placing *placing)
{
    struct upload_row row;
    const enum verdict verdict = reference_take_upload(request, placing->source, &row);
    if (verdict != VERDICT_GO_ON)
        return verdict;
    placing->row = (struct file_row){.location = placing->location, .bytes = row.bytes, .upload = placing->source};
    memcpy(placing->row.tenant, request->principal.tenant, sizeof placing->row.tenant);
    (void)snprintf(placing->row.model, sizeof placing->row.model, "%s", request->id);
    (void)snprintf(placing->row.blob, sizeof placing->row.blob, "%s", row.digest); /* a number is added */
    return VERDICT_GO_ON;
}

enum verdict model_files_add_finish(struct request *request)
{
    struct placing *placing = calloc(1, sizeof *placing);
    if (placing == NULL)
        return respond_error(request, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
    request->state = placing;
    request->free_state = free;
    placing->request = request;
    placing->added = STORE_FAILED;
    const enum store_found found = store_find_model(request->server->store, request->principal.tenant, request->id);
    if (found != STORE_DONE)
        return found == STORE_NOT_FOUND ? model_missing(request) : store_is_away(request);
    if (!folder_look(request->server->folder, &placing->problem) || !read_body(request, placing, &placing->problem))
        return respond_problem(request, &placing->problem);
    enum verdict verdict = take_upload(request, placing);
    if (verdict != VERDICT_GO_ON)
        return verdict;
    if (!blobs_are_remote(request->server->blobs)) {
        place(placing);
        return placed(request);
    }
    placing->transfer = (struct transfer){.run = run_place, .context = placing};
    verdict = request_suspend(request, placed);
    blobs_send(request->server->blobs, &placing->transfer);
    return verdict;
}

/* ---- GET ---- */

enum verdict model_files_list_finish(struct request *request)
{
    struct model_row row;
    struct problem problem = {0};
    struct beside beside;
    struct sp_buf buf;
    struct sp_json json;
    const enum store_found found = store_get_model(request->server->store, request_view(request), request->id, &row);
    if (found != STORE_DONE)
        return found == STORE_NOT_FOUND ? model_missing(request) : store_is_away(request);
    const bool ok = beside_load(request->server, row.tenant, row.id, &beside, &problem);
    store_release_model(&row);
    if (!ok) {
        beside_release(&beside);
        return respond_problem(request, &problem);
    }
    sp_buf_init(&buf, SPD_MAX_TABLE_BYTES);
    sp_json_init_buf(&json, false, &buf);
    sp_json_begin_object(&json);
    sp_json_key(&json, "files");
    sp_json_begin_array(&json);
    for (size_t i = 0; i < beside.count; i++)
        write_file(&json, beside.files[i].location, beside.files[i].blob, beside.files[i].bytes);
    sp_json_end_array(&json);
    sp_json_end_object(&json);
    (void)sp_json_finish(&json, NULL);
    beside_release(&beside);
    return respond_buf(request, 200, "application/json", &buf);
}
