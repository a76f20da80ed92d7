#include "http/guard.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "http/trace.h"
#include "util/text.h"

/* Headers that may occur once. */
static const char *const singletons[] = {
    "Content-Length",   "Transfer-Encoding", "Host",          "Content-Type",
    "Content-Encoding", "Authorization",     "Content-Range", "Idempotency-Key",
    "Expect",           "Upload-Offset",     "Range",         "X-Request-Id",
};
#define SINGLETON_COUNT (sizeof singletons / sizeof singletons[0])

struct header_walk {
    unsigned seen[SINGLETON_COUNT], count;
    const char *repeated;
    bool control_bytes;
};

static bool has_control_bytes(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return true;
    }
    return false;
}

/* RFC 9110, 5.6.2: what methods and names of headers are made of. */
static bool is_token(const char *text, size_t size)
{
    static const char others[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        bool alphanumeric = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!alphanumeric && (c == '\0' || strchr(others, c) == NULL))
            return false;
    }
    return size > 0;
}

/* A name or an address, and perhaps a port. The library leaves blanks behind values alone. */
static bool is_host(const char *text)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,;=:[]%";
    const char *end = text + strspn(text, allowed);
    return end[strspn(end, " \t")] == '\0';
}

static enum MHD_Result look_at_header(void *context, enum MHD_ValueKind kind, const char *key, size_t key_size,
                                      const char *value, size_t value_size)
{
    (void)kind;
    struct header_walk *walk = context;
    walk->count++;
    if (!is_token(key, key_size) || (value != NULL && has_control_bytes(value, value_size)))
        walk->control_bytes = true;
    for (size_t i = 0; i < SINGLETON_COUNT; i++) {
        if (strcasecmp(key, singletons[i]) == 0 && ++walk->seen[i] > 1)
            walk->repeated = singletons[i];
    }
    return MHD_YES;
}

static bool take_length(struct request *request, const char *text, struct problem *problem)
{
    int64_t length;
    if (!text_to_int(text, 0, INT64_MAX, &length))
        return problem_set(problem, 400, "BAD_CONTENT_LENGTH", "Content-Length is not a number of bytes.");
    request->has_length = true;
    request->content_length = (uint64_t)length;
    request->has_body = length > 0;
    return true;
}

static bool take_request_id(struct request *request)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    const char *given = request_header(request, "X-Request-Id");
    if (given == NULL || *given == '\0' || strlen(given) > SPD_MAX_REQUEST_ID ||
        strspn(given, allowed) != strlen(given))
        return false;
    (void)snprintf(request->request_id, sizeof request->request_id, "%s", given);
    return true;
}

static bool check_size(const struct request *request, unsigned count, struct problem *problem)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (count > SPD_MAX_HEADERS)
        return problem_set_limit(problem, 431, "TOO_MANY_HEADERS", "SPD_MAX_HEADERS", SPD_MAX_HEADERS, count,
                                 "A request may have %u headers.", SPD_MAX_HEADERS);
    if (info != NULL && info->header_size > SPD_MAX_HEADER_BYTES && strlen(request->uri) <= SPD_MAX_URI_BYTES)
        return problem_set_limit(problem, 431, "HEADERS_TOO_LARGE", "SPD_MAX_HEADER_BYTES", SPD_MAX_HEADER_BYTES,
                                 (int64_t)info->header_size, "The headers of a request may have %u bytes.",
                                 SPD_MAX_HEADER_BYTES);
    return true;
}

bool guard_headers(struct request *request, const char *version, struct problem *problem)
{
    struct header_walk walk = {0};
    (void)MHD_get_connection_values_n(request->connection, MHD_HEADER_KIND, look_at_header, &walk);
    const char *length = request_header(request, "Content-Length");
    const char *coding = request_header(request, "Transfer-Encoding");
    const char *expect = request_header(request, "Expect");
    request->has_body = length != NULL || coding != NULL;
    request->expects_continue = expect != NULL && strcasecmp(expect, "100-continue") == 0;
    (void)take_request_id(request);
    trace_take(request);

    /* The library takes the last blank of the request line for the one behind the target, and a CR for a part of it. */
    if (!layout_is_sound(request->connection, &request->layout) || strpbrk(request->uri, " \t") != NULL ||
        has_control_bytes(request->uri, strlen(request->uri)))
        return problem_set(
            problem, 400, "BAD_LINE",
            "Each line must end in CR LF, without NUL bytes, folded lines or blanks too many, and a request "
            "target has no control characters.");
    if (walk.control_bytes || !is_token(request->method, strlen(request->method)))
        return problem_set(problem, 400, "BAD_HEADER",
                           "The method, a header name or a header value has characters that it must not have.");
    if (!check_size(request, walk.count, problem))
        return false;
    bool old = strcmp(version, "HTTP/1.0") == 0;
    if ((length != NULL || old) && coding != NULL)
        return problem_set(problem, 400, "AMBIGUOUS_FRAMING",
                           "Content-Length and Transfer-Encoding together are ambiguous, and HTTP/1.0 has only the "
                           "first; send one of them.");
    if (walk.repeated != NULL)
        return problem_set(problem, 400, "REPEATED_HEADER", "The header %s occurs more than once.", walk.repeated);
    if (coding != NULL && strcasecmp(coding, "chunked") != 0)
        return problem_set(problem, 501, "UNKNOWN_TRANSFER_ENCODING", "The only Transfer-Encoding served is chunked.");
    const char *host = request_header(request, "Host");
    if (!old && host == NULL)
        return problem_set(problem, 400, "MISSING_HOST", "An HTTP/1.1 request needs a Host header.");
    if (host != NULL && !is_host(host))
        return problem_set(problem, 400, "BAD_HOST", "The Host header is not a name or address with a port.");
    if (length != NULL && !take_length(request, length, problem))
        return false;
    if (request_header(request, "Content-Range") != NULL)
        return problem_set(problem, 400, "PARTIAL_UPLOAD", "Content-Range is not served; send the whole body.");
    return true;
}

/* ---- the request target ---- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Decodes %XX and '+' in place. False for broken escapes, NUL, control characters and bytes that are not UTF-8. */
static bool decode(char *text)
{
    char *to = text;
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '%') {
            int high = hex_digit(c[1]), low = high >= 0 ? hex_digit(c[2]) : -1;
            if (low < 0 || (high == 0 && low == 0))
                return false;
            *to++ = (char)(high * 16 + low);
            c += 2;
        } else {
            *to++ = *c == '+' ? ' ' : *c;
        }
    }
    *to = '\0';
    return text_is_printable(text);
}

static bool split_query(struct request *request, char *query, struct problem *problem)
{
    while (query != NULL && *query != '\0') {
        char *next = strchr(query, '&');
        if (next != NULL)
            *next++ = '\0';
        char *equals = strchr(query, '=');
        static char empty[1];
        char *value = empty;
        if (equals != NULL) {
            *equals = '\0';
            value = equals + 1;
        }
        if (*query != '\0') {
            if (request->parameter_count == REQUEST_MAX_PARAMETERS)
                return problem_set(problem, 400, "TOO_MANY_PARAMETERS", "The query has more than %d parameters.",
                                   REQUEST_MAX_PARAMETERS);
            if (!decode(query) || !decode(value))
                return problem_set(problem, 400, "BAD_QUERY", "The query is not percent-encoded UTF-8 text.");
            if (request_parameter(request, query) != NULL)
                return problem_set(problem, 400, "REPEATED_PARAMETER", "A query parameter occurs more than once.");
            request->parameters[request->parameter_count++] = (struct parameter){.name = query, .value = value};
        }
        query = next;
    }
    return true;
}

bool guard_target(struct request *request, struct problem *problem)
{
    if (strlen(request->uri) > SPD_MAX_URI_BYTES)
        return problem_set_limit(problem, 414, "URI_TOO_LONG", "SPD_MAX_URI_BYTES", SPD_MAX_URI_BYTES,
                                 (int64_t)strlen(request->uri), "The request target is longer than %d bytes.",
                                 SPD_MAX_URI_BYTES);
    char *query = strchr(request->uri, '?');
    if (query != NULL)
        *query++ = '\0';
    /* No path of this service needs an escape, so there is nothing to decode and nothing to disguise. */
    if (request->uri[0] != '/' || strchr(request->uri, '%') != NULL || strstr(request->uri, "//") != NULL ||
        strstr(request->uri, "/.") != NULL || strchr(request->uri, '\\') != NULL || !text_is_printable(request->uri))
        return problem_set(problem, 400, "BAD_TARGET",
                           "The request target must be a plain absolute path without escapes or dot segments.");
    return split_query(request, query, problem);
}
