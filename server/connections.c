#include "connections.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server.h"
#include "server_limits.h"

struct connection {
    struct connection *next, *previous;
    int fd;
    uint64_t deadline_ms; /* 0: a request is in progress */
    bool expects_body;
};

struct lingering {
    struct connections *owner;
    uv_tcp_t socket;
    uint64_t deadline_ms, bytes;
    struct lingering *next;
};

struct connections {
    uv_loop_t *loop;
    uv_async_t wake;
    pthread_mutex_t mutex; /* guards the members up to the next blank line */
    struct connection *first;
    unsigned count;
    int adopted[SPD_MAX_LINGERING]; /* sockets that the main thread shall take */
    unsigned adopted_count, lingering_count;
    bool stopped;

    struct lingering *lingering; /* main thread */
    char discard[16 * 1024];
};

/* ---- lingering, in the main thread ---- */

static void unlink_lingering(struct lingering *lingering)
{
    struct lingering **at = &lingering->owner->lingering;
    while (*at != NULL && *at != lingering)
        at = &(*at)->next;
    if (*at == lingering)
        *at = lingering->next;
}

static void closed_lingering(uv_handle_t *handle)
{
    struct lingering *lingering = handle->data;
    struct connections *connections = lingering->owner;
    (void)pthread_mutex_lock(&connections->mutex);
    connections->lingering_count--;
    (void)pthread_mutex_unlock(&connections->mutex);
    free(lingering);
}

static void close_lingering(struct lingering *lingering)
{
    if (uv_is_closing((uv_handle_t *)&lingering->socket))
        return;
    unlink_lingering(lingering);
    uv_close((uv_handle_t *)&lingering->socket, closed_lingering);
}

static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    struct lingering *lingering = handle->data;
    *buf = uv_buf_init(lingering->owner->discard, sizeof lingering->owner->discard);
}

static void discarded(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
    (void)buf;
    struct lingering *lingering = stream->data;
    if (count > 0)
        lingering->bytes += (uint64_t)count;
    if (count < 0 || lingering->bytes > SPD_LINGER_BYTES)
        close_lingering(lingering);
}

static void adopt(struct connections *connections, int fd)
{
    struct lingering *lingering = calloc(1, sizeof *lingering);
    if (lingering == NULL || uv_tcp_init(connections->loop, &lingering->socket) != 0) {
        free(lingering);
        (void)close(fd);
        (void)pthread_mutex_lock(&connections->mutex);
        connections->lingering_count--;
        (void)pthread_mutex_unlock(&connections->mutex);
        return;
    }
    lingering->owner = connections;
    lingering->socket.data = lingering;
    lingering->deadline_ms = server_now_ms() + SPD_LINGER_SECONDS * 1000;
    lingering->next = connections->lingering;
    connections->lingering = lingering;
    if (uv_tcp_open(&lingering->socket, fd) != 0) {
        (void)close(fd);
        close_lingering(lingering);
        return;
    }
    if (uv_read_start((uv_stream_t *)&lingering->socket, give_buffer, discarded) != 0)
        close_lingering(lingering);
}

static void woken(uv_async_t *async)
{
    struct connections *connections = async->data;
    int fds[SPD_MAX_LINGERING];
    (void)pthread_mutex_lock(&connections->mutex);
    unsigned count = connections->adopted_count;
    memcpy(fds, connections->adopted, count * sizeof fds[0]);
    connections->adopted_count = 0;
    (void)pthread_mutex_unlock(&connections->mutex);
    for (unsigned i = 0; i < count; i++)
        adopt(connections, fds[i]);
}

struct connections *connections_create(uv_loop_t *loop)
{
    struct connections *connections = calloc(1, sizeof *connections);
    if (connections == NULL)
        return NULL;
    connections->loop = loop;
    if (uv_async_init(loop, &connections->wake, woken) != 0) {
        free(connections);
        return NULL;
    }
    connections->wake.data = connections;
    (void)pthread_mutex_init(&connections->mutex, NULL);
    return connections;
}

void connections_stop(struct connections *connections)
{
    (void)pthread_mutex_lock(&connections->mutex);
    connections->stopped = true;
    (void)pthread_mutex_unlock(&connections->mutex);
    woken(&connections->wake);
    while (connections->lingering != NULL)
        close_lingering(connections->lingering);
    uv_close((uv_handle_t *)&connections->wake, NULL);
}

void connections_destroy(struct connections *connections)
{
    if (connections == NULL)
        return;
    (void)pthread_mutex_destroy(&connections->mutex);
    free(connections);
}

static bool has_left(const struct connection *c)
{
    char byte;
    return recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

void connections_tick(struct connections *connections, uint64_t now_ms)
{
    (void)pthread_mutex_lock(&connections->mutex);
    for (struct connection *c = connections->first; c != NULL; c = c->next) {
        if ((c->deadline_ms != 0 && c->deadline_ms < now_ms) || (c->expects_body && has_left(c))) {
            c->deadline_ms = 0;
            c->expects_body = false;
            (void)shutdown(c->fd, SHUT_RDWR);
        }
    }
    (void)pthread_mutex_unlock(&connections->mutex);
    for (struct lingering *l = connections->lingering, *next; l != NULL; l = next) {
        next = l->next;
        if (l->deadline_ms < now_ms)
            close_lingering(l);
    }
}

/* ---- HTTP threads ---- */

static int socket_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info != NULL ? info->connect_fd : -1;
}

static struct connection *entry_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info != NULL ? info->socket_context : NULL;
}

static void set_deadline(struct connections *connections, struct MHD_Connection *connection, uint64_t deadline_ms)
{
    struct connection *c = entry_of(connection);
    if (c == NULL)
        return;
    (void)pthread_mutex_lock(&connections->mutex);
    c->deadline_ms = deadline_ms;
    c->expects_body = false;
    (void)pthread_mutex_unlock(&connections->mutex);
}

void connections_body(struct connections *connections, struct MHD_Connection *connection, bool expected)
{
    struct connection *c = entry_of(connection);
    if (c == NULL)
        return;
    (void)pthread_mutex_lock(&connections->mutex);
    c->expects_body = expected;
    (void)pthread_mutex_unlock(&connections->mutex);
}

void connections_notify(void *context, struct MHD_Connection *connection, void **socket_context,
                        enum MHD_ConnectionNotificationCode code)
{
    struct connections *connections = context;
    struct connection *c;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        c = calloc(1, sizeof *c);
        if (c == NULL)
            return; /* the library's own idle timeout remains */
        c->fd = socket_of(connection);
        c->deadline_ms = server_now_ms() + SPD_HEADER_SECONDS * 1000;
        (void)pthread_mutex_lock(&connections->mutex);
        c->next = connections->first;
        if (c->next != NULL)
            c->next->previous = c;
        connections->first = c;
        connections->count++;
        (void)pthread_mutex_unlock(&connections->mutex);
        *socket_context = c;
        return;
    }
    c = *socket_context;
    if (c == NULL)
        return;
    (void)pthread_mutex_lock(&connections->mutex);
    if (c->next != NULL)
        c->next->previous = c->previous;
    if (c->previous != NULL)
        c->previous->next = c->next;
    else
        connections->first = c->next;
    connections->count--;
    (void)pthread_mutex_unlock(&connections->mutex);
    *socket_context = NULL;
    free(c);
}

void connections_request_started(struct connections *connections, struct MHD_Connection *connection)
{
    set_deadline(connections, connection, 0);
}

void connections_request_ended(struct connections *connections, struct MHD_Connection *connection, bool linger)
{
    set_deadline(connections, connection, server_now_ms() + SPD_HEADER_SECONDS * 1000);
    if (!linger)
        return;
    int fd = socket_of(connection);
    int copy = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1;
    if (copy < 0)
        return;
    (void)shutdown(copy, SHUT_WR);
    bool taken = false;
    (void)pthread_mutex_lock(&connections->mutex);
    if (!connections->stopped && connections->lingering_count < SPD_MAX_LINGERING) {
        connections->adopted[connections->adopted_count++] = copy;
        connections->lingering_count++;
        taken = true;
    }
    (void)pthread_mutex_unlock(&connections->mutex);
    if (taken)
        (void)uv_async_send(&connections->wake);
    else
        (void)close(copy);
}

unsigned connections_count(struct connections *connections)
{
    (void)pthread_mutex_lock(&connections->mutex);
    unsigned count = connections->count;
    (void)pthread_mutex_unlock(&connections->mutex);
    return count;
}
