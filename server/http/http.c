#include "http/http.h"

#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "auth/auth.h"
#include "http/serve.h"
#include "net/acceptor.h"
#include "net/connections.h"
#include "net/layout.h"
#include "net/sockets.h"
#include "net/tls.h"
#include "observe/log.h"
#include "server_limits.h"

struct http {
    struct server *server;
    struct MHD_Daemon *daemon, *admin_daemon; /* the second one may be NULL */
    struct serve_port port, admin_port;
    struct acceptor *acceptor;
    struct tls *tls; /* NULL without */
    atomic_uint active;
};

/* ---- the library ---- */

__attribute__((format(printf, 2, 0))) static void library_log(void *context, const char *format, va_list args)
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

#define MAX_OPTIONS 16

/*
 * By poll(2). The library's epoll mode answers twice as fast among thousands of connections
 * (tests/bench/connections.py), but in 0.9.75 it waits once more after a round of exactly 128 events before it looks at
 * them, for up to the timeout.
 */
static struct MHD_Daemon *start_daemon(struct http *http, struct serve_port *port, unsigned limit, unsigned threads)
{
    struct MHD_OptionItem options[MAX_OPTIONS];
    size_t count = 0;
    unsigned flags = MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
                     MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ITC;
    if (threads > 1)
        options[count++] = (struct MHD_OptionItem){MHD_OPTION_THREAD_POOL_SIZE, (intptr_t)threads, NULL};
    /* Who comes in was decided before, so each of the threads could have all of them, and those that were pushed out and
       are not closed yet: at its own limit the library (0.9.75) waits for a lock that it has. */
    const unsigned most = limit + SPD_MAX_PUSHED_OUT;
    options[count++] = (struct MHD_OptionItem){MHD_OPTION_CONNECTION_LIMIT, (intptr_t)most * threads, NULL};
    options[count++] = (struct MHD_OptionItem){MHD_OPTION_CONNECTION_MEMORY_LIMIT, SPD_CONNECTION_BYTES, NULL};
    options[count++] = (struct MHD_OptionItem){MHD_OPTION_CONNECTION_TIMEOUT, SPD_IDLE_SECONDS, NULL};
    options[count++] = (struct MHD_OptionItem){MHD_OPTION_STRICT_FOR_CLIENT, layout_strictness(), NULL};
    if (http->tls != NULL && !port->admin) {
        void *priorities = (void *)(uintptr_t)tls_priorities(); /* the library takes non-const and does not write */
        flags |= MHD_USE_TLS;
        options[count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0, priorities};
        options[count++] =
            (struct MHD_OptionItem){MHD_OPTION_HTTPS_CERT_CALLBACK2, 0, (void *)(uintptr_t)tls_give_certificate};
        if (tls_authority(http->tls) != NULL)
            options[count++] =
                (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_TRUST, 0, (void *)(uintptr_t)tls_authority(http->tls)};
    }
    options[count] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    return MHD_start_daemon(flags, 0, NULL, NULL, serve_access, port, MHD_OPTION_EXTERNAL_LOGGER, library_log, NULL,
                            MHD_OPTION_URI_LOG_CALLBACK, serve_arrives, port, MHD_OPTION_NOTIFY_COMPLETED,
                            serve_completed, port, MHD_OPTION_NOTIFY_CONNECTION, connections_notify,
                            http->server->connections, MHD_OPTION_UNESCAPE_CALLBACK, leave_escapes, NULL,
                            MHD_OPTION_ARRAY, options, MHD_OPTION_END);
}

/* ---- start ---- */

struct listeners {
    int fd, admin_fd; /* -1: none */
};

static bool listen_on_all(const struct http *http, unsigned passed, struct listeners *listeners,
                          struct problem *problem)
{
    const struct config *config = http->server->config;
    char text[SOCKETS_TEXT_SIZE];
    bool local;
    listeners->fd = passed > 0 ? sockets_passed(problem) : sockets_listen(&config->listen, "--listen", problem);
    if (listeners->fd < 0)
        return false;
    sockets_describe(listeners->fd, http->tls != NULL, text, &local);
    /* A socket that was passed may be another one than --listen says. */
    if (!local && !auth_is_on(http->server->auth))
        return problem_set(problem, 500, "OPEN_TO_ALL",
                           "The socket that was passed, %s, is open to other machines, and nothing says who may ask. "
                           "Give --tokens FILE or --tls-client-ca FILE.",
                           text);
    if (config->admin_listen.text[0] != '\0')
        listeners->admin_fd = sockets_listen(&config->admin_listen, "--admin-listen", problem);
    return problem->status == 0;
}

static void log_addresses(const struct http *http, const struct listeners *listeners)
{
    char text[SOCKETS_TEXT_SIZE];
    bool local;
    if (listeners->admin_fd >= 0) {
        sockets_describe(listeners->admin_fd, false, text, &local);
        LOG(LOG_INFO, "admin listening", log_s("url", text));
    }
    sockets_describe(listeners->fd, http->tls != NULL, text, &local);
    LOG(LOG_INFO, "listening", log_s("url", text));
    if (!local && http->tls == NULL)
        LOG(LOG_WARNING, "tokens and models cross the network in the clear; use --tls-certificate or a proxy with TLS");
}

static bool start_daemons(struct http *http, struct listeners *listeners, struct problem *problem)
{
    struct server *server = http->server;
    const bool some_unknown = auth_is_on(server->auth);
    unsigned limit =
        connections_limit(server->connections, server->config->max_connections, some_unknown, server->accounts);
    if (limit == 0)
        return problem_set(problem, 500, "TOO_FEW_DESCRIPTORS",
                           "There are too few descriptors or too little memory for connections; raise the limit "
                           "of open files (ulimit -n) to %u at least.",
                           SPD_MIN_DESCRIPTORS);
    MHD_set_panic_func(library_panic, NULL);
    if (!layout_learn())
        LOG(LOG_WARNING, "the HTTP library lets bare line feeds pass and does not show them; put a proxy in front");
    http->daemon = start_daemon(http, &http->port, limit, SPD_HTTP_THREADS);
    if (listeners->admin_fd >= 0)
        http->admin_daemon = start_daemon(http, &http->admin_port, SPD_MAX_ADMIN_CONNECTIONS, 1);
    if (http->daemon == NULL || (listeners->admin_fd >= 0 && http->admin_daemon == NULL))
        return problem_set(problem, 500, "CANNOT_SERVE", "The HTTP library could not start.");
    struct acceptor_port ports[ACCEPTOR_PORTS] = {
        {.fd = listeners->fd, .daemon = http->daemon, .tls = http->tls != NULL},
        {.fd = listeners->admin_fd, .daemon = http->admin_daemon, .admin = true},
    };
    log_addresses(http, listeners);
    if (!acceptor_start(server, ports, listeners->admin_fd >= 0 ? 2 : 1, &http->acceptor, problem))
        return false;
    *listeners = (struct listeners){-1, -1}; /* they are the acceptor's now */
    return true;
}

bool http_start(struct server *server, unsigned passed, struct http **ret_http, struct problem *problem)
{
    struct http *http = calloc(1, sizeof *http);
    if (http == NULL)
        return problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory.");
    struct listeners listeners = {-1, -1};
    http->server = server;
    http->port = (struct serve_port){.server = server, .active = &http->active};
    http->admin_port = (struct serve_port){.server = server, .active = &http->active, .admin = true};
    bool ok = tls_create(server->config, &http->tls, problem) && listen_on_all(http, passed, &listeners, problem) &&
              start_daemons(http, &listeners, problem);
    if (listeners.fd >= 0)
        (void)close(listeners.fd);
    if (listeners.admin_fd >= 0)
        (void)close(listeners.admin_fd);
    if (ok)
        *ret_http = http;
    else
        http_stop(http);
    return ok;
}

/* ---- life ---- */

bool http_reload(struct http *http, struct problem *problem)
{
    if (http->tls == NULL)
        return true;
    if (!tls_reload(http->tls, problem))
        return false;
    LOG(LOG_INFO, "certificate reloaded");
    return true;
}

void http_tick(struct http *http, uint64_t now_ms)
{
    tls_tick(http->tls, now_ms);
}

void http_quiesce(struct http *http)
{
    acceptor_quiesce(http->acceptor);
}

unsigned http_active(const struct http *http)
{
    return atomic_load(&http->active);
}

void http_stop(struct http *http)
{
    acceptor_stop(http->acceptor);
    if (http->daemon != NULL)
        MHD_stop_daemon(http->daemon);
    if (http->admin_daemon != NULL)
        MHD_stop_daemon(http->admin_daemon);
    tls_destroy(http->tls);
    free(http);
}
