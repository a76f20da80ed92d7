#include "http.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connections.h"
#include "guard.h"
#include "ingest.h"
#include "log.h"
#include "metrics.h"
#include "respond.h"
#include "router.h"
#include "text.h"
#include "upload.h"

struct http {
    struct server *server;
    struct MHD_Daemon *daemon;
    atomic_uint active;
    MHD_socket listener; /* of a daemon that takes no more connections, else MHD_INVALID_SOCKET */
};

/* ---- one request ---- */

static void request_free(struct request *request)
{
    ingest_destroy(request->ingest);
    upload_destroy(request->upload);
    sp_buf_release(&request->body);
    if (request->free_state != NULL)
        request->free_state(request->state);
    free(request->uri);
    free(request);
}

/* The library's first word about a request: its target as it came, before any decoding. */
static void *request_arrives(void *context, const char *uri, struct MHD_Connection *connection)
{
    struct http *http = context;
    struct request *request = calloc(1, sizeof *request);
    if (request == NULL)
        return NULL;
    unsigned char random[8];
    request->server = http->server;
    request->connection = connection;
    request->uri = strdup(uri);
    request->started_ms = server_now_ms();
    sp_buf_init(&request->body, SPD_MAX_JSON_BYTES);
    if (request->uri == NULL || gnutls_rnd(GNUTLS_RND_NONCE, random, sizeof random) != 0) {
        free(request->uri);
        free(request);
        return NULL;
    }
    text_to_hex(random, sizeof random, request->request_id);
    (void)atomic_fetch_add(&http->active, 1);
    return request;
}

static void request_completed(void *context, struct MHD_Connection *connection, void **request_context,
                              enum MHD_RequestTerminationCode code)
{
    struct http *http = context;
    struct request *request = *request_context;
    if (request == NULL)
        return;
    *request_context = NULL;
    uint64_t elapsed = server_now_ms() - request->started_ms;
    const char *route = request->route != NULL ? request->route->pattern : "none";
    const char *method = request->route != NULL ? request->route->method : "other";
    bool broken = code != MHD_REQUEST_TERMINATED_COMPLETED_OK && !request->unread_body;
    metrics_request(http->server->metrics, method, route, request->status, (double)elapsed / 1000);
    LOG(request->status >= 500 ? LOG_WARNING : LOG_INFO, broken ? "request broken off" : "request",
        log_s("request_id", request->request_id), log_s("method", request->method != NULL ? request->method : "?"),
        log_s("path", request->uri), log_i("status", request->status), log_i("ms", (int64_t)elapsed));
    connections_request_ended(http->server->connections, connection, request->unread_body);
    request_free(request);
    (void)atomic_fetch_sub(&http->active, 1);
}

/* A body that is kept in memory is too large. */
static bool refuse_body(const struct request *request, uint64_t actual, struct problem *problem)
{
    size_t most = request->body.ceiling;
    return problem_set_limit(problem, 413, "BODY_TOO_LARGE",
                             request->body_kind == BODY_JSON ? "SPD_MAX_JSON_BYTES" : "SPD_MAX_SHARDING_BODY",
                             (int64_t)most, (int64_t)actual, "This request may have %zu bytes.", most);
}

/* Headers are known: everything that can be refused now is refused now. */
static enum verdict request_begin(struct request *request, const char *method, const char *version)
{
    struct problem problem = {0};
    request->method = method;
    connections_request_started(request->server->connections, request->connection);
    if (!guard_headers(request, version, &problem) || !guard_target(request, &problem) ||
        !router_find(request, &problem))
        return respond_problem(request, &problem);
    if (request->body_kind == BODY_SHARDING)
        sp_buf_init(&request->body, SPD_MAX_SHARDING_BODY);
    if ((request->body_kind == BODY_JSON || request->body_kind == BODY_SHARDING) && request->has_length &&
        request->content_length > request->body.ceiling) {
        (void)refuse_body(request, request->content_length, &problem);
        return respond_problem(request, &problem);
    }
    return request->route->begin != NULL ? request->route->begin(request) : VERDICT_GO_ON;
}

static bool keep_body(struct request *request, const char *bytes, size_t size, struct problem *problem)
{
    switch (request->body_kind) {
    case BODY_JSON:
    case BODY_SHARDING:
        sp_buf_append(&request->body, bytes, size);
        if (sp_buf_failed(&request->body))
            return refuse_body(request, request->received, problem);
        return true;
    case BODY_MODEL:
        return upload_write(request->upload, bytes, size, problem);
    default:
        if (request->received > SPD_MAX_IGNORED_BODY)
            return problem_set_limit(problem, 413, "BODY_TOO_LARGE", "SPD_MAX_IGNORED_BODY", SPD_MAX_IGNORED_BODY,
                                     (int64_t)request->received, "This request has no use for a body.");
        return true;
    }
}

/* A piece of the body. */
static enum verdict request_body(struct request *request, const char *bytes, size_t size)
{
    struct problem problem = {0};
    uint64_t now = server_now_ms();
    if (request->received == 0)
        request->body_started_ms = now;
    request->received += size;
    uint64_t elapsed = now - request->body_started_ms;
    if (elapsed > SPD_SLOW_BODY_SECONDS * 1000 && request->received < elapsed / 1000 * SPD_SLOW_BODY_RATE) {
        (void)problem_set(&problem, 408, "BODY_TOO_SLOW", "The body came at less than %d bytes per second.",
                          SPD_SLOW_BODY_RATE);
        return respond_raw(request, &problem);
    }
    if (!keep_body(request, bytes, size, &problem))
        return respond_raw(request, &problem);
    return VERDICT_GO_ON;
}

/* The library calls this for the headers, for each piece of the body, for its end, and after each resume. */
static enum MHD_Result access_handler(void *context, struct MHD_Connection *connection, const char *url,
                                      const char *method, const char *version, const char *upload_data,
                                      size_t *upload_data_size, void **request_context)
{
    (void)context;
    (void)url;
    struct request *request = *request_context;
    enum verdict verdict;
    if (request == NULL)
        return MHD_NO; /* out of memory when it arrived */
    request->connection = connection;
    if (!request->started) {
        request->started = true;
        verdict = request_begin(request, method, version);
        if (verdict == VERDICT_GO_ON && request->has_body)
            connections_body(request->server->connections, connection, true);
    } else if (*upload_data_size > 0) {
        verdict = request_body(request, upload_data, *upload_data_size);
        *upload_data_size = 0;
    } else {
        if (request->has_body && !request->body_complete)
            connections_body(request->server->connections, connection, false);
        request->body_complete = true;
        enum verdict (*step)(struct request *) = request->step != NULL ? request->step : request->route->finish;
        verdict = step(request);
    }
    return verdict == VERDICT_ABORT ? MHD_NO : MHD_YES;
}

/* ---- the daemon ---- */

static void library_log(void *context, const char *format, va_list args)
{
    (void)context;
    char text[512];
    (void)vsnprintf(text, sizeof text, format, args);
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == '\n')
        text[--length] = '\0';
    LOG(LOG_DEBUG, "http library", log_s("message", text));
}

static void library_panic(void *context, const char *file, unsigned line, const char *reason)
{
    (void)context;
    LOG(LOG_ERROR, "http library panic", log_s("file", file), log_i("line", line), log_s("reason", reason));
    abort();
}

/* Percent signs are ours to judge (guard.c). */
static size_t leave_escapes(void *context, struct MHD_Connection *connection, char *text)
{
    (void)context;
    (void)connection;
    return strlen(text);
}

static int listen_on(const struct config *config, struct problem *problem)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE, .ai_socktype = SOCK_STREAM};
    struct addrinfo *address = NULL;
    int on = 1, error;
    if (getaddrinfo(config->host, config->port, &hints, &address) != 0) {
        (void)problem_set(problem, 500, "BAD_ADDRESS", "--listen %s is not a numeric address and port.",
                          config->listen);
        return -1;
    }
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool ok = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
              bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, 511) == 0;
    error = errno;
    freeaddrinfo(address);
    if (ok)
        return fd;
    if (fd >= 0)
        (void)close(fd);
    (void)problem_set(problem, 500, "CANNOT_LISTEN", "Listening on %s failed: %s.", config->listen,
                      strerrordesc_np(error));
    return -1;
}

static void log_address(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    char host[64], port[16], text[96];
    if (getsockname(fd, (struct sockaddr *)&address, &size) != 0 ||
        getnameinfo((struct sockaddr *)&address, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return;
    (void)snprintf(text, sizeof text, address.ss_family == AF_INET6 ? "http://[%s]:%s" : "http://%s:%s", host, port);
    LOG(LOG_INFO, "listening", log_s("url", text));
    if (strcmp(host, "::1") != 0 && strncmp(host, "127.", 4) != 0)
        LOG(LOG_WARNING, "serving beyond this machine without authentication; put a proxy in front");
}

bool http_start(struct server *server, struct http **ret_http, struct problem *problem)
{
    int fd = listen_on(server->config, problem);
    if (fd < 0)
        return false;
    struct http *http = calloc(1, sizeof *http);
    if (http == NULL) {
        (void)close(fd);
        return problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory.");
    }
    http->server = server;
    http->listener = MHD_INVALID_SOCKET;
    MHD_set_panic_func(library_panic, NULL);
    http->daemon = MHD_start_daemon(
        MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL, access_handler,
        http, MHD_OPTION_EXTERNAL_LOGGER, library_log, NULL, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_URI_LOG_CALLBACK,
        request_arrives, http, MHD_OPTION_NOTIFY_COMPLETED, request_completed, http, MHD_OPTION_NOTIFY_CONNECTION,
        connections_notify, server->connections, MHD_OPTION_UNESCAPE_CALLBACK, leave_escapes, NULL,
        MHD_OPTION_THREAD_POOL_SIZE, SPD_HTTP_THREADS, MHD_OPTION_CONNECTION_LIMIT, SPD_MAX_CONNECTIONS,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)SPD_CONNECTION_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)SPD_IDLE_SECONDS, MHD_OPTION_END);
    if (http->daemon == NULL) {
        (void)close(fd);
        free(http);
        return problem_set(problem, 500, "CANNOT_SERVE", "The HTTP library could not start.");
    }
    log_address(fd);
    *ret_http = http;
    return true;
}

/* Nobody can connect from here on; the descriptor stays until no thread of the library can look at it any more. (With
   epoll the library may take the socket out of its set twice, in two threads, and then ends the process.) */
void http_quiesce(struct http *http)
{
    http->listener = MHD_quiesce_daemon(http->daemon);
    if (http->listener != MHD_INVALID_SOCKET)
        (void)shutdown(http->listener, SHUT_RDWR);
}

unsigned http_active(const struct http *http)
{
    return atomic_load(&http->active);
}

void http_stop(struct http *http)
{
    MHD_stop_daemon(http->daemon);
    if (http->listener != MHD_INVALID_SOCKET)
        (void)close(http->listener);
    free(http);
}
