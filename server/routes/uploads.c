/*
 * /v1/uploads: models, and files beside them, that come by parts (uploads/uploads.h).
 *
 *   POST  {"bytes": N, "sha256": ".."}   creates one
 *   PATCH Upload-Offset: N, and bytes    appends them; what came before a connection broke stays
 *   HEAD                                 says in Upload-Offset how far it has come
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "http/body.h"
#include "http/page.h"
#include "http/respond.h"
#include "routes/routes.h"
#include "store/folder.h"
#include "store/store.h"
#include "uploads/announce.h"
#include "uploads/part.h"
#include "uploads/uploads.h"
#include "util/json_memory.h"
#include "util/text.h"
#include "util/times.h"

static enum verdict upload_missing(struct request *request)
{
    return respond_error(request, 404, "UPLOAD_NOT_FOUND", "There is no upload with this id, or it expired.");
}

#define OFFSET_ELSEWHERE UINT64_MAX

static void write_members(struct sp_json *json, const struct request *request, const struct upload_row *row,
                          uint64_t offset)
{
    char stamp[TIMES_SIZE];
    sp_json_member_string(json, "id", row->id);
    if (request_view(request) == NULL && row->tenant[0] != '\0')
        sp_json_member_string(json, "tenant", row->tenant);
    sp_json_member_int(json, "bytes", row->bytes);
    if (offset != OFFSET_ELSEWHERE)
        sp_json_member_int(json, "offset", (int64_t)offset);
    sp_json_member_bool(json, "complete", row->is_complete);
    if (row->digest[0] != '\0')
        sp_json_member_string(json, "sha256", row->digest);
    sp_json_member_string(json, "created_at", times_format(row->created_at, stamp));
    sp_json_member_string(json, "expires_at", times_format(row->expires_at, stamp));
}

static enum verdict send_upload(struct request *request, int status, const struct upload_row *row, uint64_t offset)
{
    struct sp_buf buf;
    struct sp_json json;
    sp_buf_init(&buf, SPD_MAX_TABLE_BYTES);
    sp_json_init_buf(&json, false, &buf);
    sp_json_begin_object(&json);
    write_members(&json, request, row, offset);
    sp_json_end_object(&json);
    (void)sp_json_finish(&json, NULL);
    request_add_header(request, "Upload-Offset", "%" PRIu64, offset);
    request_add_header(request, "Upload-Length", "%lld", (long long)row->bytes);
    return respond_buf(request, status, "application/json", &buf);
}

/* ---- POST /v1/uploads ---- */

static bool read_announcement(const struct request *request, struct upload_row *row, struct problem *problem)
{
    json_int_t bytes = 0;
    const char *digest = NULL;
    json_error_t error;
    json_t *body = json_loadb(request->body.data != NULL ? request->body.data : "", request->body.size,
                              JSON_REJECT_DUPLICATES, &error);
    bool ok = body != NULL || problem_set(problem, 400, "MALFORMED_JSON", "The body is not JSON (line %d, column %d).",
                                          error.line, error.column);
    if (ok && (json_unpack_ex(body, &error, JSON_STRICT, "{s:I, s?s}", "bytes", &bytes, "sha256", &digest) != 0 ||
               bytes <= 0 || (digest != NULL && !text_is_hex(digest, 64))))
        ok = problem_set(problem, 422, "BAD_UPLOAD",
                         "An upload is announced as {\"bytes\": N, \"sha256\": \"..\"}: a number above 0 and, if it is "
                         "known, the SHA-256 in 64 lower-case hexadecimal digits.");
    if (ok) {
        row->bytes = bytes;
        (void)snprintf(row->digest, sizeof row->digest, "%s", digest != NULL ? digest : "");
    }
    json_decref(body);
    return ok;
}

enum verdict uploads_create_finish(struct request *request)
{
    struct problem problem = {0};
    struct upload_row row = {0};
    if (atomic_load(&request->server->draining))
        return respond_error(request, 503, "STOPPING", "The service is stopping; send the request again.");
    if (!folder_look(request->server->folder, &problem) || !read_announcement(request, &row, &problem))
        return respond_problem(request, &problem);
    memcpy(row.tenant, request->principal.tenant, sizeof row.tenant);
    if (!announce_upload(request->server, &row, SPD_UPLOAD_KEEP_MS + row.bytes / SPD_UPLOAD_RATE * 1000, &problem))
        return respond_problem(request, &problem);
    request_add_header(request, "Location", "/v1/uploads/%s", row.id);
    return send_upload(request, 201, &row, 0);
}

/* ---- GET /v1/uploads ---- */

static uint64_t offset_of(const struct uploads *uploads, const struct upload_row *row)
{
    struct problem problem = {0};
    if (row->is_complete)
        return (uint64_t)row->bytes;
    return uploads_are_here(uploads, row->id, &problem) ? uploads_offset(uploads, row->id) : OFFSET_ELSEWHERE;
}

static void write_upload(void *context, const struct upload_row *row)
{
    struct page *page = context;
    if (!page_item(page, row->seq, true))
        return;
    write_members(&page->json, page->request, row, offset_of(page->request->server->uploads, row));
    page_item_end(page);
}

static bool list_uploads(struct page *page, int limit)
{
    const struct request *request = page->request;
    return store_list_uploads(request->server->store, request_view(request), page->before, limit, write_upload, page);
}

enum verdict uploads_list_finish(struct request *request)
{
    struct page page;
    enum verdict verdict;
    if (!page_begin(&page, request, "uploads", "", &verdict))
        return verdict;
    return page_finish(&page, request, page_fill(&page, list_uploads));
}

/* ---- one upload ---- */

/* VERDICT_GO_ON, or an answer. */
static enum verdict find(struct request *request, struct upload_row *row)
{
    const enum store_found found = store_get_upload(request->server->store, request_view(request), request->id, row);
    if (found == STORE_DONE)
        return VERDICT_GO_ON;
    return found == STORE_NOT_FOUND ? upload_missing(request) : store_is_away(request);
}

enum verdict upload_get_finish(struct request *request)
{
    struct upload_row row;
    struct problem problem = {0};
    const enum verdict verdict = find(request, &row);
    if (verdict != VERDICT_GO_ON)
        return verdict;
    if (!uploads_are_here(request->server->uploads, row.id, &problem))
        return respond_problem(request, &problem);
    return send_upload(request, 200, &row, uploads_offset(request->server->uploads, row.id));
}

enum verdict upload_delete_finish(struct request *request)
{
    struct upload_row row;
    const enum verdict verdict = find(request, &row);
    if (verdict != VERDICT_GO_ON)
        return verdict;
    return uploads_remove(request->server->uploads, row.id) ? respond_empty(request, 204) : store_is_away(request);
}

/* ---- PATCH ---- */

/* A part on its way. */
struct taking {
    struct upload_row row;
    struct upload_check check;
};

static bool check_headers(const struct request *request, const struct upload_row *row, uint64_t *ret_offset,
                          struct problem *problem)
{
    int64_t offset = 0;
    const char *given = request_header(request, "Upload-Offset"), *coding = request_header(request, "Content-Encoding");
    if (given == NULL || !text_to_int(given, 0, INT64_MAX, &offset))
        return problem_set(problem, 400, "BAD_OFFSET",
                           "Say in Upload-Offset at which byte the part begins: a whole number; HEAD tells how far the "
                           "upload has come.");
    if (coding != NULL && strcasecmp(coding, "identity") != 0)
        return problem_set(problem, 415, "UNSUPPORTED_CODING",
                           "Parts are taken as they are, since offsets count what is stored; leave out "
                           "Content-Encoding.");
    if (request_header(request, "Repr-Digest") != NULL)
        return problem_set(problem, 400, "BAD_DIGEST",
                           "The SHA-256 of the whole is said when the upload is created; that of a part is "
                           "Content-Digest.");
    if (offset <= row->bytes && request->content_length > (uint64_t)(row->bytes - offset))
        return problem_set(problem, 413, "UPLOAD_TOO_LARGE",
                           "The upload was announced with %lld bytes, and this part goes beyond them.",
                           (long long)row->bytes);
    *ret_offset = (uint64_t)offset;
    return true;
}

enum verdict upload_part_begin(struct request *request)
{
    struct problem problem = {0};
    uint64_t offset = 0, have = 0;
    struct taking *taking = calloc(1, sizeof *taking);
    if (taking == NULL)
        return respond_error(request, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
    request->state = taking;
    request->free_state = free;
    if (atomic_load(&request->server->draining))
        return respond_error(request, 503, "STOPPING", "The service is stopping; send the request again.");
    const enum verdict verdict = find(request, &taking->row);
    if (verdict != VERDICT_GO_ON)
        return verdict;
    if (!check_headers(request, &taking->row, &offset, &problem) ||
        !uploads_are_here(request->server->uploads, taking->row.id, &problem) ||
        !folder_look(request->server->folder, &problem) || !request_charge(request, ACCOUNT_FILES, 1, &problem))
        return respond_problem(request, &problem);
    request->part =
        part_open(request->server->config->data, taking->row.id, (uint64_t)taking->row.bytes, offset, &have, &problem);
    if (request->part != NULL)
        return VERDICT_GO_ON;
    if (strcmp(problem.code, "OFFSET_MISMATCH") == 0)
        request_add_header(request, "Upload-Offset", "%" PRIu64, have);
    return respond_problem(request, &problem);
}

static void checked(struct upload_check *check)
{
    request_resume(check->context);
}

static enum verdict part_done(struct request *request)
{
    struct taking *taking = request->state;
    body_end_part(request);
    if (taking->check.problem.status != 0)
        return respond_problem(request, &taking->check.problem);
    taking->row.is_complete = true;
    memcpy(taking->row.digest, taking->check.digest, sizeof taking->row.digest);
    return send_upload(request, 200, &taking->row, (uint64_t)taking->row.bytes);
}

enum verdict upload_part_finish(struct request *request)
{
    struct taking *taking = request->state;
    struct upload_row now;
    const uint64_t offset = part_offset(request->part);
    /* It may have been deleted meanwhile: then what was opened is a file that nobody finds. */
    const enum verdict verdict = find(request, &now);
    if (verdict != VERDICT_GO_ON) {
        body_end_part(request);
        if (request->status == 404)
            uploads_remove_file(request->server->uploads, taking->row.id);
        return verdict;
    }
    if (taking->row.is_complete || offset < (uint64_t)taking->row.bytes) {
        body_end_part(request);
        return send_upload(request, 200, &taking->row, offset);
    }
    taking->check =
        (struct upload_check){.part = request->part, .row = &taking->row, .done = checked, .context = request};
    const enum verdict suspended = request_suspend(request, part_done);
    uploads_check(request->server->uploads, &taking->check);
    return suspended;
}
