#include "strict_http.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

struct reader {
    const char *at, *end;
};

/* One line without its CR LF; false where there is no whole one, or a CR, LF or NUL stands anywhere else. */
static bool take_line(struct reader *reader, const char **ret_line, size_t *ret_size)
{
    const char *c = reader->at;
    while (c < reader->end && *c != '\r' && *c != '\n' && *c != '\0')
        c++;
    if (reader->end - c < 2 || c[0] != '\r' || c[1] != '\n')
        return false;
    *ret_line = reader->at;
    *ret_size = (size_t)(c - reader->at);
    reader->at = c + 2;
    return true;
}

static bool is_token(const char *text, size_t size)
{
    static const char allowed[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    for (size_t i = 0; i < size; i++) {
        if (memchr(allowed, text[i], sizeof allowed - 1) == NULL)
            return false;
    }
    return size > 0;
}

static bool is_visible(const char *text, size_t size, const char *also)
{
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if ((c <= 0x20 && strchr(also, c) == NULL) || c == 0x7f)
            return false;
    }
    return true;
}

/* METHOD SP TARGET SP HTTP/1.x */
static bool take_request_line(struct reader *reader, struct strict_request *request, bool *ret_old)
{
    const char *line;
    size_t size;
    if (!take_line(reader, &line, &size))
        return false;
    const char *end = line + size, *first = memchr(line, ' ', size);
    const char *second = first != NULL ? memchr(first + 1, ' ', (size_t)(end - first - 1)) : NULL;
    if (second == NULL || !is_token(line, (size_t)(first - line)) || second == first + 1 ||
        !is_visible(first + 1, (size_t)(second - first - 1), "") || end - second != 9 ||
        memcmp(second + 1, "HTTP/1.", 7) != 0 || second[8] < '0' || second[8] > '9')
        return false;
    *ret_old = second[8] == '0';
    (void)snprintf(request->method, sizeof request->method, "%.*s", (int)(first - line), line);
    (void)snprintf(request->target, sizeof request->target, "%.*s", (int)(second - first - 1), first + 1);
    return true;
}

static bool is_named(const char *line, size_t size, const char *name)
{
    return size == strlen(name) && strncasecmp(line, name, size) == 0;
}

static bool take_number(const char *text, size_t size, uint64_t *ret)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9' || value > (INT64_MAX - 9) / 10)
            return false;
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    *ret = value;
    return size > 0;
}

/* NAME: VALUE. */
static bool take_field(const char *line, size_t size, struct strict_request *request, unsigned *hosts)
{
    const char *colon = memchr(line, ':', size), *end = line + size;
    if (colon == NULL || !is_token(line, (size_t)(colon - line)) ||
        !is_visible(colon + 1, (size_t)(end - colon - 1), " \t"))
        return false;
    const char *value = colon + 1;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    size_t name = (size_t)(colon - line), length = (size_t)(end - value);
    if (is_named(line, name, "Content-Length")) {
        bool again = request->has_length;
        request->has_length = true;
        return !again && take_number(value, length, &request->length);
    }
    if (is_named(line, name, "Transfer-Encoding")) {
        bool again = request->chunked;
        request->chunked = true;
        return !again && is_named(value, length, "chunked");
    }
    *hosts += is_named(line, name, "Host");
    return true;
}

static size_t empty_line(const struct reader *reader)
{
    size_t left = (size_t)(reader->end - reader->at);
    return left >= 1 && reader->at[0] == '\n' ? 1 : left >= 2 && memcmp(reader->at, "\r\n", 2) == 0 ? 2 : 0;
}

static bool take_head(struct reader *reader, struct strict_request *request)
{
    const char *line;
    size_t size;
    unsigned hosts = 0;
    bool old = false;
    *request = (struct strict_request){0};
    /* RFC 9112, 2.2: empty lines in front of a request line are passed over, however they end: whoever does not refuse
       them finds the same request behind. */
    while ((size = empty_line(reader)) > 0)
        reader->at += size;
    if (!take_request_line(reader, request, &old))
        return false;
    do {
        if (!take_line(reader, &line, &size) || (size > 0 && !take_field(line, size, request, &hosts)))
            return false;
    } while (size > 0);
    return hosts <= 1 && (old || hosts == 1) && !(request->chunked && (old || request->has_length));
}

unsigned strict_read(const uint8_t *bytes, size_t size, struct strict_request *ret_requests, unsigned most)
{
    struct reader reader = {(const char *)bytes, (const char *)bytes + size};
    unsigned count = 0;
    while (count < most && take_head(&reader, &ret_requests[count])) {
        const struct strict_request *request = &ret_requests[count++];
        if (request->chunked || request->length > (uint64_t)(reader.end - reader.at))
            break;
        reader.at += request->length;
    }
    return count;
}
