#include "http/cors.h"

#include <string.h>
#include <strings.h>

#include "http/request.h"

#define MAX_AGE_SECONDS 600 /* of a preflight's answer */

/* What a page may send and read, beside what it always may. */
#define REQUEST_HEADERS                                                                                                \
    "Accept, Authorization, Cache-Control, Content-Digest, Content-Encoding, Content-Type, Idempotency-Key, "          \
    "If-Match, If-None-Match, If-Range, Last-Event-ID, Prefer, Range, Repr-Digest, Traceparent, Upload-Offset, "       \
    "X-Request-Id"
#define ANSWER_HEADERS                                                                                                 \
    "Accept-Ranges, Content-Disposition, Content-Range, ETag, Location, Preference-Applied, Repr-Digest, "             \
    "Retry-After, Upload-Length, Upload-Offset, WWW-Authenticate, X-Request-Id"

bool cors_allows(const char *origins, const char *origin)
{
    size_t length = strlen(origin);
    if (length == 0 || strchr(origin, '*') != NULL || strcmp(origin, "null") == 0)
        return false;
    for (const char *at = origins; *at != '\0';) {
        at += strspn(at, " ");
        size_t size = strcspn(at, " ");
        if (size == length && size > 0 && memcmp(at, origin, size) == 0)
            return true;
        at += size;
    }
    return false;
}

bool cors_allows_host(const char *origins, const char *host)
{
    size_t length = strlen(host);
    for (const char *at = origins; *at != '\0';) {
        at += strspn(at, " ");
        size_t size = strcspn(at, " ");
        const char *place = memmem(at, size, "://", 3);
        if (place != NULL && (size_t)(at + size - (place + 3)) == length && strncasecmp(place + 3, host, length) == 0)
            return true;
        at += size;
    }
    return false;
}

/* The origin of the page that asks, when it is an allowed one. */
static const char *allowed_origin(const struct request *request)
{
    const char *origin = request_header(request, "Origin");
    return origin != NULL && cors_allows(request->server->config->cors_origins, origin) ? origin : NULL;
}

void cors_add(const struct request *request, struct MHD_Response *response)
{
    if (request->admin || request->server->config->cors_origins[0] == '\0')
        return;
    (void)MHD_add_response_header(response, "Vary", "Origin");
    const char *origin = allowed_origin(request);
    if (origin == NULL)
        return;
    (void)MHD_add_response_header(response, "Access-Control-Allow-Origin", origin);
    (void)MHD_add_response_header(response, "Access-Control-Expose-Headers", ANSWER_HEADERS);
}

void cors_preflight(struct request *request, const char *allow)
{
    request_add_header(request, "Allow", "%s, OPTIONS", allow);
    if (!request->admin && allowed_origin(request) != NULL &&
        request_header(request, "Access-Control-Request-Method") != NULL) {
        request_add_header(request, "Access-Control-Allow-Methods", "%s", allow);
        request_add_header(request, "Access-Control-Allow-Headers", "%s", REQUEST_HEADERS);
        request_add_header(request, "Access-Control-Max-Age", "%d", MAX_AGE_SECONDS);
    }
}
