#include "respond.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "files.h"
#include "log.h"
#include "text.h"

static enum verdict queue(struct request *request, int status, const char *type, struct MHD_Response *response)
{
    if (response == NULL)
        return VERDICT_ABORT;
    (void)MHD_add_response_header(response, "X-Request-Id", request->request_id);
    (void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (type != NULL)
        (void)MHD_add_response_header(response, "Content-Type", type);
    for (unsigned i = 0; i < request->header_count; i++)
        (void)MHD_add_response_header(response, request->headers[i].name, request->headers[i].value);
    if (request->has_body && !request->body_complete)
        request->unread_body = true;
    if (request->unread_body)
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
    return queue(request, status, type, response);
}

enum verdict respond_buf(struct request *request, int status, const char *type, struct sp_buf *buf)
{
    if (sp_buf_failed(buf) || buf->data == NULL) {
        sp_buf_release(buf);
        return respond_error(request, 503, "OUT_OF_MEMORY", "The answer did not fit into memory; try again later.");
    }
    return send_buf(request, status, type, buf);
}

enum verdict respond_text(struct request *request, int status, const char *type, const char *text)
{
    void *bytes = (void *)(uintptr_t)text; /* the library takes non-const and does not write */
    return queue(request, status, type, MHD_create_response_from_buffer(strlen(text), bytes, MHD_RESPMEM_MUST_COPY));
}

enum verdict respond_empty(struct request *request, int status)
{
    return queue(request, status, NULL, MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT));
}

/* ---- streams ---- */

struct sending {
    struct stream stream;
    uint64_t offset; /* of the first byte sent */
};

static void release_sending(void *context)
{
    struct sending *sending = context;
    sending->stream.release(sending->stream.context);
    free(sending);
}

static ssize_t read_sending(void *context, uint64_t position, char *bytes, size_t size)
{
    struct sending *sending = context;
    uint64_t at = sending->offset + position, left = sending->stream.size > at ? sending->stream.size - at : 0;
    if (left == 0)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (size > left)
        size = (size_t)left;
    if (!sending->stream.read(sending->stream.context, at, bytes, size)) {
        LOG(LOG_ERROR, "answer broken off: a stored file could not be read");
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    return (ssize_t)size;
}

/*
 * "bytes=A-B", "bytes=A-" or "bytes=-N" of a body of `size` bytes. 1: a range, 0: none that we serve (the whole is
 * sent, which is always allowed), -1: outside.
 */
static int parse_range(const char *header, uint64_t size, uint64_t *ret_first, uint64_t *ret_count)
{
    char spec[64];
    if (header == NULL || strncmp(header, "bytes=", 6) != 0 || strlen(header + 6) >= sizeof spec)
        return 0;
    (void)snprintf(spec, sizeof spec, "%s", header + 6);
    char *dash = strchr(spec, '-');
    if (dash == NULL || strchr(spec, ',') != NULL)
        return 0;
    *dash = '\0';
    int64_t first = 0, last = INT64_MAX;
    bool has_first = spec[0] != '\0', has_last = dash[1] != '\0';
    if ((!has_first && !has_last) || (has_first && !text_to_int(spec, 0, INT64_MAX, &first)) ||
        (has_last && !text_to_int(dash + 1, 0, INT64_MAX, &last)) || (has_first && last < first))
        return 0;
    if (!has_first) {
        uint64_t count = (uint64_t)last < size ? (uint64_t)last : size;
        *ret_first = size - count;
        *ret_count = count;
        return count > 0 ? 1 : -1;
    }
    if ((uint64_t)first >= size)
        return -1;
    *ret_first = (uint64_t)first;
    *ret_count = ((uint64_t)last < size ? (uint64_t)last + 1 : size) - (uint64_t)first;
    return 1;
}

/* True when If-None-Match names the etag (a list, weak comparison). */
static bool matches(const char *header, const char *etag)
{
    char quoted[128];
    if (header == NULL)
        return false;
    if (strcmp(header, "*") == 0)
        return true;
    (void)snprintf(quoted, sizeof quoted, "\"%s\"", etag);
    return strstr(header, quoted) != NULL;
}

enum verdict respond_stream(struct request *request, int status, const char *type, const struct stream *stream,
                            const char *etag)
{
    uint64_t first = 0, count = stream->size;
    if (etag != NULL) {
        request_add_header(request, "ETag", "\"%s\"", etag);
        if (matches(request_header(request, "If-None-Match"), etag)) {
            stream->release(stream->context);
            if (strcmp(request->method, "POST") == 0) /* RFC 9110, 13.1.2 */
                return respond_error(request, 412, "NOT_MODIFIED", "The answer is what If-None-Match names.");
            return respond_empty(request, MHD_HTTP_NOT_MODIFIED);
        }
        request_add_header(request, "Accept-Ranges", "bytes");
        const char *if_range = request_header(request, "If-Range");
        if (if_range == NULL || matches(if_range, etag)) {
            int range = parse_range(request_header(request, "Range"), stream->size, &first, &count);
            if (range > 0) {
                status = MHD_HTTP_PARTIAL_CONTENT;
                request_add_header(request, "Content-Range", "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, first,
                                   first + count - 1, stream->size);
            } else if (range < 0) {
                request_add_header(request, "Content-Range", "bytes */%" PRIu64, stream->size);
                stream->release(stream->context);
                return respond_error(request, 416, "RANGE_NOT_SATISFIABLE",
                                     "The range lies outside the %" PRIu64 " bytes.", stream->size);
            }
        }
    }
    struct sending *sending = calloc(1, sizeof *sending);
    if (sending == NULL) {
        stream->release(stream->context);
        return VERDICT_ABORT;
    }
    *sending = (struct sending){.stream = *stream, .offset = first};
    struct MHD_Response *response =
        MHD_create_response_from_callback(count, SPD_READ_BLOCK, read_sending, sending, release_sending);
    if (response == NULL)
        release_sending(sending);
    return queue(request, status, type, response);
}

static bool read_file(void *context, uint64_t offset, void *bytes, size_t size)
{
    return files_read_at((int)(intptr_t)context, offset, bytes, size);
}

static void close_file(void *context)
{
    (void)close((int)(intptr_t)context);
}

enum verdict respond_file(struct request *request, int status, const char *type, int fd, uint64_t size,
                          const char *etag)
{
    struct stream stream = {.size = size, .read = read_file, .release = close_file, .context = (void *)(intptr_t)fd};
    return respond_stream(request, status, type, &stream, etag);
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
    sp_json_end_object(&json);
    if (sp_json_finish(&json, NULL) != SP_OK)
        buf->failed = true;
}

enum verdict respond_problem(struct request *request, const struct problem *problem)
{
    struct problem clean = *problem;
    struct sp_buf buf;
    text_clean(clean.detail);
    text_clean(clean.where);
    write_problem(request, &clean, &buf);
    if (sp_buf_failed(&buf) || buf.data == NULL) {
        sp_buf_release(&buf);
        return VERDICT_ABORT;
    }
    if (clean.status == 503 || clean.status == 429)
        request_add_header(request, "Retry-After", "%u", SPD_RETRY_AFTER_SECONDS);
    if (clean.status >= 500)
        LOG(LOG_ERROR, "request failed", log_s("request_id", request->request_id), log_s("code", clean.code),
            log_s("detail", clean.detail));
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
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    write_problem(request, problem, &body);
    sp_buf_init(&head, 128 * 1024);
    sp_buf_printf(&head,
                  "HTTP/1.1 %d %s\r\nContent-Type: application/problem+json\r\nContent-Length: %zu\r\n"
                  "X-Request-Id: %s\r\nConnection: close\r\n\r\n",
                  problem->status, problem_title(problem->status), body.size, request->request_id);
    if (!sp_buf_failed(&body))
        sp_buf_append(&head, body.data, body.size);
    /* Nothing was sent on this connection for this request, so a small answer fits the socket's empty buffer. */
    if (info != NULL && !sp_buf_failed(&body) && !sp_buf_failed(&head))
        (void)send(info->connect_fd, head.data, head.size, MSG_DONTWAIT | MSG_NOSIGNAL);
    sp_buf_release(&head);
    sp_buf_release(&body);
    request->unread_body = true;
    request->answered = true;
    request->status = problem->status;
    return VERDICT_ABORT;
}
