#include "http/respond.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "http/compress.h"
#include "http/cors.h"
#include "http/record.h"
#include "net/tls.h"
#include "observe/log.h"
#include "store/folder.h"
#include "util/text.h"

/* Nothing that is served here is a page with parts of others, but the dashboard, which has a policy of its own. Nothing
   may be kept by caches on the way unless its route says so. */
#define POLICY_DATA "default-src 'none'; frame-ancestors 'none'"

static bool has_header(const struct request *request, const char *name)
{
    for (unsigned i = 0; i < request->header_count; i++) {
        if (strcasecmp(request->headers[i].name, name) == 0)
            return true;
    }
    return false;
}

static void add_strict_headers(const struct request *request, struct MHD_Response *response)
{
    (void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    (void)MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    (void)MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
    if (!has_header(request, "Content-Security-Policy"))
        (void)MHD_add_response_header(response, "Content-Security-Policy", POLICY_DATA);
    if (!has_header(request, "Cache-Control"))
        (void)MHD_add_response_header(response, "Cache-Control",
                                      has_header(request, "ETag") ? "private, no-cache" : "no-store");
}

enum verdict respond_with(struct request *request, int status, const char *type, struct MHD_Response *response)
{
    if (response == NULL)
        return VERDICT_ABORT;
    (void)MHD_add_response_header(response, "X-Request-Id", request->request_id);
    add_strict_headers(request, response);
    cors_add(request, response);
    if (type != NULL)
        (void)MHD_add_response_header(response, "Content-Type", type);
    for (unsigned i = 0; i < request->header_count; i++)
        (void)MHD_add_response_header(response, request->headers[i].name, request->headers[i].value);
    if (request->has_body && !request->body_complete)
        request->unread_body = true;
    if (request->unread_body || request->closes ||
        (request->has_body && !request->has_length)) /* guard.h says why chunks end it */
        (void)MHD_add_response_header(response, "Connection", "close");
    enum MHD_Result queued = MHD_queue_response(request->connection, (unsigned)status, response);
    MHD_destroy_response(response);
    request->answered = true;
    request->status = status;
    return queued == MHD_YES ? VERDICT_ANSWERED : VERDICT_ABORT;
}

/* Sends what is in the buffer, which is complete, and empties it. */
static enum verdict send_buf(struct request *request, int status, const char *type, struct sp_buf *buf)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(buf->size, buf->data, MHD_RESPMEM_MUST_FREE);
    if (response == NULL)
        sp_buf_release(buf);
    memset(buf, 0, sizeof *buf);
    return respond_with(request, status, type, response);
}

enum verdict respond_buf(struct request *request, int status, const char *type, struct sp_buf *buf)
{
    if (sp_buf_failed(buf) || buf->data == NULL) {
        sp_buf_release(buf);
        return respond_error(request, 503, "OUT_OF_MEMORY", "The answer did not fit into memory; try again later.");
    }
    struct problem problem = {0};
    if (buf->size >= SPD_MIN_SENT_BYTES && !request_charge(request, ACCOUNT_ANSWER_BYTES, buf->size, &problem)) {
        sp_buf_release(buf);
        return respond_problem(request, &problem);
    }
    enum coding coding = status == 200 ? compress_coding(request, type, buf->size) : CODING_NONE;
    if (coding != CODING_NONE)
        compress_buf(request, coding, buf);
    return send_buf(request, status, type, buf);
}

enum verdict respond_text(struct request *request, int status, const char *type, const char *text)
{
    struct sp_buf buf;
    sp_buf_init(&buf, SIZE_MAX);
    sp_buf_text(&buf, text);
    return respond_buf(request, status, type, &buf);
}

enum verdict respond_empty(struct request *request, int status)
{
    return respond_with(request, status, NULL, MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT));
}

/* ---- problems ---- */

static void write_problem(const struct request *request, const struct problem *problem, struct sp_buf *buf)
{
    char type[96];
    struct sp_json json;
    sp_buf_init(buf, 64 * 1024);
    sp_json_init_buf(&json, false, buf);
    (void)snprintf(type, sizeof type, "urn:shardplan:problem:%s", problem->code);
    sp_json_begin_object(&json);
    sp_json_member_string(&json, "type", type);
    sp_json_member_string(&json, "title", problem_title(problem->status));
    problem_write_members(problem, &json);
    if (problem->hint != NULL)
        sp_json_member_string(&json, "hint", problem->hint);
    sp_json_key(&json, "errors");
    sp_json_begin_array(&json);
    if (problem->where[0] != '\0') {
        sp_json_begin_object(&json);
        sp_json_member_string(&json, problem->where[0] == '/' ? "pointer" : "where", problem->where);
        sp_json_member_string(&json, "detail", problem->detail);
        sp_json_end_object(&json);
    }
    sp_json_end_array(&json);
    sp_json_member_string(&json, "request_id", request->request_id);
    if (request->trace_id[0] != '\0')
        sp_json_member_string(&json, "trace_id", request->trace_id);
    sp_json_end_object(&json);
    if (sp_json_finish(&json, NULL) != SP_OK)
        buf->failed = true;
}

/* What fails for no reason of its own fails because the data folder is away, while it is. */
static struct problem blame(const struct request *request, const struct problem *problem)
{
    struct problem folder = {0};
    return problem->status == 500 && !folder_look(request->server->folder, &folder) ? folder : *problem;
}

/* What has no room now may have it soon. */
static bool may_come_again(const struct problem *problem)
{
    return problem->status == 503 || problem->status == 429;
}

enum verdict respond_problem(struct request *request, const struct problem *problem)
{
    struct problem clean = blame(request, problem);
    struct sp_buf buf;
    text_clean(clean.detail);
    text_clean(clean.where);
    write_problem(request, &clean, &buf);
    if (sp_buf_failed(&buf) || buf.data == NULL) {
        sp_buf_release(&buf);
        return VERDICT_ABORT;
    }
    if (may_come_again(&clean))
        request_add_header(request, "Retry-After", "%u", SPD_RETRY_AFTER_SECONDS);
    record_problem(request, &clean);
    return send_buf(request, clean.status, "application/problem+json", &buf);
}

enum verdict respond_error(struct request *request, int status, const char *code, const char *format, ...)
{
    struct problem problem = {0};
    char detail[sizeof problem.detail];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    (void)problem_set(&problem, status, code, "%s", detail);
    return respond_problem(request, &problem);
}

enum verdict respond_raw(struct request *request, const struct problem *problem)
{
    struct sp_buf body, head;
    char again[48] = "";
    if (may_come_again(problem))
        (void)snprintf(again, sizeof again, "Retry-After: %u\r\n", SPD_RETRY_AFTER_SECONDS);
    write_problem(request, problem, &body);
    sp_buf_init(&head, 128 * 1024);
    sp_buf_printf(&head,
                  "HTTP/1.1 %d %s\r\nContent-Type: application/problem+json\r\nContent-Length: %zu\r\n"
                  "X-Request-Id: %s\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"
                  "Content-Security-Policy: " POLICY_DATA "\r\nCache-Control: no-store\r\n%sConnection: close\r\n\r\n",
                  problem->status, problem_title(problem->status), body.size, request->request_id, again);
    if (!sp_buf_failed(&body))
        sp_buf_append(&head, body.data, body.size);
    /* Nothing was sent on this connection for this request, so a small answer fits the socket's empty buffer. */
    if (!sp_buf_failed(&body) && !sp_buf_failed(&head))
        (void)tls_send(request->connection, head.data, head.size);
    sp_buf_release(&head);
    sp_buf_release(&body);
    record_problem(request, problem);
    request->unread_body = true;
    request->answered = true;
    request->status = problem->status;
    return VERDICT_ABORT;
}
