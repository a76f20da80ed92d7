/*
 * The head of requests: every request that passes the guard is one that a strict reader of the same bytes finds at the
 * same place, so that no proxy in front can take them for other requests; and whatever the headers say, what is read
 * out of them is in its bounds.
 *
 * The bytes go through the HTTP library as it is used by the daemon, over a pair of sockets. An input is what a client
 * sends on one connection.
 */
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fuzz.h"
#include "http/coding.h"
#include "http/conditional.h"
#include "http/cors.h"
#include "http/digest.h"
#include "http/guard.h"
#include "http/router.h"
#include "strict_http.h"
#include "util/text.h"

#define MAX_TURNS 64
#define ETAG      "abcdef"

/* What passed the guard on this connection, in order. */
static struct {
    struct strict_request requests[STRICT_MAX_REQUESTS];
    unsigned count;
    bool closed;
} passed;

static const struct config config = {.cors_origins = "https://ui.example"};
static struct server server = {.config = &config};

struct state {
    struct request request;
    bool begun;
};

/* ---- what the headers say ---- */

static void read_lists(struct request *request)
{
    static const char *const types[] = {"application/json", "text/plain; charset=utf-8", "application/octet-stream"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        int wanted = request_accepts(request, types[i]);
        if (wanted < 0 || wanted > 1000)
            abort();
    }
    if (request_wait_seconds(request) > SPD_MAX_WAIT_SECONDS)
        abort();
    (void)request_prefers_async(request);
    const char *codings = request_header(request, "Accept-Encoding");
    if (coding_wanted(codings) == CODING_GZIP && !coding_takes_gzip(codings))
        abort();
    const char *origin = request_header(request, "Origin");
    if (origin != NULL && cors_allows(config.cors_origins, origin) && strcmp(origin, config.cors_origins) != 0)
        abort();
}

static void read_conditions(const struct request *request)
{
    const int64_t modified = 784111777000; /* Sun, 06 Nov 1994 08:49:37 GMT */
    (void)conditional_read(request, ETAG, modified);
    (void)conditional_read(request, "", 0);
    if (conditional_change(request, ETAG, modified) == PRECONDITION_UNCHANGED)
        abort();
    const char *range = request_header(request, "If-Range");
    if (conditional_range(request, ETAG, modified) && range != NULL && strstr(range, ETAG) == NULL &&
        strstr(range, "06 Nov 1994") == NULL && strchr(range, '*') != NULL)
        abort(); /* no wildcard there */
}

static void read_digests(const struct request *request)
{
    struct digest *digest = NULL;
    struct problem problem = {0};
    bool ok = digest_create(request_header(request, "Repr-Digest"), request_header(request, "Content-Digest"), &digest,
                            &problem);
    if (ok != (problem.status == 0) || (!ok && digest != NULL))
        abort();
    digest_destroy(digest);
    struct decoder *decoder = NULL;
    problem = (struct problem){0};
    ok = decoder_create(request_header(request, "Content-Encoding"), 1, "limit", &decoder, &problem);
    if (ok != (problem.status == 0) || (!ok && decoder != NULL))
        abort();
    decoder_destroy(decoder);
}

static void read_ids(const struct request *request)
{
    if (!text_is_hex(request->trace_id, 32) || strspn(request->trace_id, "0") == 32 ||
        !text_is_hex(request->span_id, 16) || !text_is_printable(request->request_id) ||
        !text_is_printable(request->uri) || strchr(request->uri, '%') != NULL || strstr(request->uri, "/.") != NULL)
        abort();
    for (unsigned i = 0; i < request->parameter_count; i++) {
        if (!text_is_printable(request->parameters[i].name) || !text_is_printable(request->parameters[i].value))
            abort();
    }
}

/* ---- the connection ---- */

static void *arrives(void *context, const char *target, struct MHD_Connection *connection)
{
    (void)context;
    struct state *state = calloc(1, sizeof *state);
    struct request *request = &state->request;
    request->server = &server;
    request->connection = connection;
    request->uri = strdup(target);
    request->layout.target = target;
    request->layout.target_size = strlen(target);
    (void)snprintf(request->request_id, sizeof request->request_id, "none");
    return state;
}

static void completed(void *context, struct MHD_Connection *connection, void **state_pointer,
                      enum MHD_RequestTerminationCode code)
{
    (void)context;
    (void)connection;
    (void)code;
    struct state *state = *state_pointer;
    if (state != NULL)
        free(state->request.uri);
    free(state);
}

static void note_connection(void *context, struct MHD_Connection *connection, void **socket_context,
                            enum MHD_ConnectionNotificationCode code)
{
    (void)context;
    (void)connection;
    (void)socket_context;
    passed.closed = code == MHD_CONNECTION_NOTIFY_CLOSED;
}

/* As serve.c begins a request; false when it is refused, which ends the connection. */
static bool begin(struct request *request, const char *method, const char *version)
{
    struct problem problem = {0};
    request->method = request->layout.method = method;
    request->layout.version = version;
    struct strict_request *noted = &passed.requests[passed.count];
    (void)snprintf(noted->target, sizeof noted->target, "%s", request->uri);
    if (!guard_headers(request, version, &problem)) {
        if (problem.status < 400 || problem.code[0] == '\0')
            abort();
        return false;
    }
    if (passed.count == STRICT_MAX_REQUESTS - 1)
        return false;
    (void)snprintf(noted->method, sizeof noted->method, "%s", method);
    noted->has_length = request->has_length;
    noted->length = request->content_length;
    noted->chunked = request->has_body && !request->has_length;
    passed.count++;
    if (guard_target(request, &problem)) {
        read_ids(request);
        (void)router_find(request, &problem);
    }
    read_lists(request);
    read_conditions(request);
    read_digests(request);
    return true;
}

static enum MHD_Result take_request(void *context, struct MHD_Connection *connection, const char *url,
                                    const char *method, const char *version, const char *body, size_t *body_size,
                                    void **state_pointer)
{
    (void)context;
    (void)url;
    (void)body;
    struct state *state = *state_pointer;
    struct request *request = &state->request;
    if (!state->begun) {
        state->begun = true;
        return begin(request, method, version) ? MHD_YES : MHD_NO;
    }
    if (*body_size > 0) {
        *body_size = 0;
        return MHD_YES;
    }
    struct MHD_Response *response = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    if (request->has_body && !request->has_length)
        (void)MHD_add_response_header(response, "Connection", "close");
    enum MHD_Result result = MHD_queue_response(connection, 200, response);
    MHD_destroy_response(response);
    return result;
}

static size_t leave_escapes(void *context, struct MHD_Connection *connection, char *text)
{
    (void)context;
    (void)connection;
    return strlen(text);
}

static struct MHD_Daemon *library(void)
{
    static struct MHD_Daemon *daemon;
    if (daemon != NULL)
        return daemon;
    if (!layout_learn())
        abort();
    daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL, take_request, NULL,
                              MHD_OPTION_URI_LOG_CALLBACK, arrives, NULL, MHD_OPTION_NOTIFY_COMPLETED, completed, NULL,
                              MHD_OPTION_NOTIFY_CONNECTION, note_connection, NULL, MHD_OPTION_UNESCAPE_CALLBACK,
                              leave_escapes, NULL, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)SPD_CONNECTION_BYTES,
                              MHD_OPTION_STRICT_FOR_CLIENT, layout_strictness(), MHD_OPTION_END);
    if (daemon == NULL)
        abort();
    return daemon;
}

/* Sends the bytes and reads away what comes back, until nothing happens any more. */
static void talk(const uint8_t *bytes, size_t size)
{
    static char answers[64 * 1024];
    struct MHD_Daemon *daemon = library();
    struct sockaddr_un nobody = {.sun_family = AF_UNIX};
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0 ||
        MHD_add_connection(daemon, ends[1], (const struct sockaddr *)&nobody, sizeof nobody) != MHD_YES)
        abort();
    size_t sent = 0;
    for (int quiet = 0, turns = 0; quiet < 3 && turns < MAX_TURNS && !passed.closed; turns++) {
        ssize_t part = sent < size ? send(ends[0], bytes + sent, size - sent, MSG_NOSIGNAL) : 0;
        sent += part > 0 ? (size_t)part : 0;
        unsigned before = passed.count;
        (void)MHD_run(daemon);
        bool moved = part > 0 || passed.count != before || recv(ends[0], answers, sizeof answers, 0) > 0;
        quiet = moved ? 0 : quiet + 1;
    }
    (void)close(ends[0]);
    for (int turns = 0; !passed.closed; turns++) {
        if (turns == MAX_TURNS)
            abort();
        (void)MHD_run(daemon);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct strict_request strict[STRICT_MAX_REQUESTS];
    passed.count = 0;
    passed.closed = false;
    talk(bytes, size);
    if (memchr(bytes, '\0', size) != NULL || memmem(bytes, size, "\n:\n", 3) != NULL)
        return 0; /* which may leave nothing that would tell (layout.h) */
    unsigned count = strict_read(bytes, size, strict, STRICT_MAX_REQUESTS);
    for (unsigned i = 0; i < passed.count; i++) {
        const struct strict_request *a = &passed.requests[i], *b = &strict[i];
        if (i < count && strcmp(a->method, b->method) == 0 && strcmp(a->target, b->target) == 0 &&
            a->has_length == b->has_length && a->length == b->length && a->chunked == b->chunked)
            continue;
        (void)fprintf(stderr, "request %u of %u: %s %s, but a strict reader finds %u: %s %s\n", i, passed.count,
                      a->method, a->target, count, i < count ? b->method : "-", i < count ? b->target : "-");
        abort();
    }
    return 0;
}
