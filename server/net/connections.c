#include "net/connections.h"

#include <fcntl.h>
#include <gnutls/crypto.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "net/rate.h"
#include "net/sockets.h"
#include "net/tls.h"
#include "observe/log.h"
#include "server.h"
#include "server_limits.h"

#define PEER_BUCKETS 1024

/* An address from which there are connections. */
struct peer {
    struct peer *next;
    unsigned char key[16];
    unsigned count;
};

/* One for each descriptor that a connection may have. */
struct connection {
    bool open, admin, expects_body, in_request;
    struct peer *peer;                  /* NULL: not counted by address */
    uint64_t deadline_ms;               /* 0: a request is in progress */
    uint64_t window_ms;                 /* since when its rate is watched; 0: it is not */
    uint64_t window_bytes, first_bytes; /* at the begin of this window, and of the first one */
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
    pthread_mutex_t mutex;    /* guards the members up to the next blank line */
    struct connection *table; /* by descriptor */
    int table_size, highest;  /* descriptors from `highest` up were never used */
    unsigned count, admin_count, limit, peer_limit;
    struct peer *peers[PEER_BUCKETS];
    uint64_t seed;
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
    for (size_t i = 0; i < PEER_BUCKETS; i++) {
        for (struct peer *peer = connections->peers[i], *next; peer != NULL; peer = next) {
            next = peer->next;
            free(peer);
        }
    }
    (void)pthread_mutex_destroy(&connections->mutex);
    free(connections->table);
    free(connections);
}

/* ---- time ---- */

static bool has_left(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* The mutex is held. */
static bool is_too_slow(struct connection *c, int fd, uint64_t now_ms)
{
    uint64_t bytes;
    if (!rate_progress(fd, c->expects_body, &bytes)) {
        c->window_ms = 0;
        return false;
    }
    bool due = c->window_ms != 0 && now_ms - c->window_ms >= SPD_RATE_SECONDS * 1000;
    if (c->window_ms == 0)
        c->first_bytes = bytes;
    /* What a body takes on the disk while it comes counts, too: the larger it is, the faster the rest must come. */
    const uint64_t came = c->expects_body && bytes > c->first_bytes ? bytes - c->first_bytes : 0;
    const uint64_t rate = came / SPD_BODY_SECONDS > SPD_SLOW_BODY_RATE ? came / SPD_BODY_SECONDS : SPD_SLOW_BODY_RATE;
    bool slow = due && bytes - c->window_bytes < SPD_RATE_SECONDS * rate;
    if (c->window_ms == 0 || due) {
        c->window_ms = now_ms;
        c->window_bytes = bytes;
    }
    return slow;
}

/* The mutex is held. */
static void look_at(struct connection *c, int fd, uint64_t now_ms)
{
    if ((c->deadline_ms != 0 && c->deadline_ms < now_ms) || (c->expects_body && has_left(fd)) ||
        (c->in_request && is_too_slow(c, fd, now_ms))) {
        c->deadline_ms = 0;
        c->expects_body = c->in_request = false;
        (void)shutdown(fd, SHUT_RDWR);
    }
}

void connections_tick(struct connections *connections, uint64_t now_ms)
{
    (void)pthread_mutex_lock(&connections->mutex);
    for (int fd = 0; fd < connections->highest; fd++) {
        struct connection *c = &connections->table[fd];
        if (c->open && (c->deadline_ms != 0 || c->in_request))
            look_at(c, fd, now_ms);
    }
    (void)pthread_mutex_unlock(&connections->mutex);
    for (struct lingering *l = connections->lingering, *next; l != NULL; l = next) {
        next = l->next;
        if (l->deadline_ms < now_ms)
            close_lingering(l);
    }
}

/* ---- admission ---- */

unsigned connections_limit(struct connections *connections, unsigned wanted)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < SPD_MIN_DESCRIPTORS)
        return 0;
    /* Uploads, downloads, workers and the store need some too; of few, half. */
    uint64_t most =
        limit.rlim_cur > 2 * SPD_SPARE_DESCRIPTORS ? limit.rlim_cur - SPD_SPARE_DESCRIPTORS : limit.rlim_cur / 2;
    unsigned allowed = most < wanted ? (unsigned)most : wanted;
    if (allowed < wanted)
        LOG(LOG_WARNING, "fewer connections than --max-connections: too few descriptors (ulimit -n)",
            log_i("connections", allowed), log_i("descriptors", (int64_t)limit.rlim_cur));
    int size = (int)(allowed + SPD_MAX_ADMIN_CONNECTIONS + 2 * SPD_SPARE_DESCRIPTORS);
    connections->table = calloc((size_t)size, sizeof *connections->table);
    if (connections->table == NULL || gnutls_rnd(GNUTLS_RND_NONCE, &connections->seed, sizeof connections->seed) != 0)
        return 0;
    connections->table_size = size;
    connections->limit = allowed;
    connections->peer_limit = allowed / SPD_PEER_SHARE > 0 ? allowed / SPD_PEER_SHARE : 1;
    return allowed;
}

/* The mutex is held. Buckets are found with a seed, so nobody can choose addresses that share one. */
static struct peer **find_peer(struct connections *connections, const unsigned char key[16])
{
    uint64_t parts[2], hash = connections->seed;
    memcpy(parts, key, sizeof parts);
    for (size_t i = 0; i < 2; i++) {
        hash = (hash ^ parts[i]) * 0x9e3779b97f4a7c15;
        hash ^= hash >> 29;
    }
    struct peer **at = &connections->peers[(hash >> 32) % PEER_BUCKETS];
    while (*at != NULL && memcmp((*at)->key, key, 16) != 0)
        at = &(*at)->next;
    return at;
}

/* The mutex is held. */
static void release_slot(struct connections *connections, struct connection *c)
{
    struct peer *peer = c->peer;
    if (peer != NULL && --peer->count == 0) {
        struct peer **at = find_peer(connections, peer->key);
        *at = peer->next;
        free(peer);
    }
    if (c->admin)
        connections->admin_count--;
    else
        connections->count--;
    *c = (struct connection){0};
}

/* The mutex is held. Counts a connection of this address; one that cannot be told from others is not limited. */
static enum admission count_peer(struct connections *connections, struct connection *c, const struct sockaddr *address)
{
    unsigned char key[16];
    bool local;
    if (!sockets_peer(address, key, &local) || local)
        return ADMISSION_GRANTED;
    struct peer **at = find_peer(connections, key);
    if (*at == NULL) {
        *at = calloc(1, sizeof **at);
        if (*at == NULL)
            return ADMISSION_FULL;
        memcpy((*at)->key, key, sizeof key);
    } else if ((*at)->count >= connections->peer_limit) {
        return ADMISSION_TOO_MANY;
    }
    (*at)->count++;
    c->peer = *at;
    return ADMISSION_GRANTED;
}

enum admission connections_admit(struct connections *connections, int fd, const struct sockaddr *address, bool admin)
{
    enum admission admission = ADMISSION_FULL;
    (void)pthread_mutex_lock(&connections->mutex);
    struct connection *c = fd < connections->table_size ? &connections->table[fd] : NULL;
    if (c != NULL && c->open) /* the library dropped it without a word, for want of memory */
        release_slot(connections, c);
    if (c != NULL &&
        (admin ? connections->admin_count < SPD_MAX_ADMIN_CONNECTIONS : connections->count < connections->limit))
        admission = admin ? ADMISSION_GRANTED : count_peer(connections, c, address);
    if (admission == ADMISSION_GRANTED) {
        c->open = true;
        c->admin = admin;
        c->deadline_ms = server_now_ms() + SPD_HEADER_SECONDS * 1000;
        if (admin)
            connections->admin_count++;
        else
            connections->count++;
        if (fd >= connections->highest)
            connections->highest = fd + 1;
    }
    (void)pthread_mutex_unlock(&connections->mutex);
    return admission;
}

void connections_forget(struct connections *connections, int fd)
{
    (void)pthread_mutex_lock(&connections->mutex);
    if (connections->table[fd].open)
        release_slot(connections, &connections->table[fd]);
    (void)pthread_mutex_unlock(&connections->mutex);
}

/* ---- HTTP threads ---- */

static int socket_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info != NULL ? info->connect_fd : -1;
}

/* The mutex is held. NULL for what is no connection of ours. */
static struct connection *entry_of(struct connections *connections, struct MHD_Connection *connection)
{
    int fd = socket_of(connection);
    struct connection *c = fd >= 0 && fd < connections->table_size ? &connections->table[fd] : NULL;
    return c != NULL && c->open ? c : NULL;
}

void connections_request_started(struct connections *connections, struct MHD_Connection *connection)
{
    (void)pthread_mutex_lock(&connections->mutex);
    struct connection *c = entry_of(connections, connection);
    if (c != NULL) {
        c->deadline_ms = c->window_ms = 0;
        c->in_request = true;
        c->expects_body = false;
    }
    (void)pthread_mutex_unlock(&connections->mutex);
}

void connections_body(struct connections *connections, struct MHD_Connection *connection, bool expected)
{
    (void)pthread_mutex_lock(&connections->mutex);
    struct connection *c = entry_of(connections, connection);
    if (c != NULL) {
        c->expects_body = expected;
        c->window_ms = 0;
    }
    (void)pthread_mutex_unlock(&connections->mutex);
}

void connections_notify(void *context, struct MHD_Connection *connection, void **socket_context,
                        enum MHD_ConnectionNotificationCode code)
{
    struct connections *connections = context;
    (void)socket_context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        tls_connection_started(connection);
        return;
    }
    /* The descriptor is still open here, so nobody else can have it yet. */
    (void)pthread_mutex_lock(&connections->mutex);
    struct connection *c = entry_of(connections, connection);
    if (c != NULL)
        release_slot(connections, c);
    (void)pthread_mutex_unlock(&connections->mutex);
}

void connections_linger(struct connections *connections, int fd)
{
    bool taken = false;
    (void)shutdown(fd, SHUT_WR);
    (void)pthread_mutex_lock(&connections->mutex);
    if (!connections->stopped && connections->lingering_count < SPD_MAX_LINGERING) {
        connections->adopted[connections->adopted_count++] = fd;
        connections->lingering_count++;
        taken = true;
    }
    (void)pthread_mutex_unlock(&connections->mutex);
    if (taken)
        (void)uv_async_send(&connections->wake);
    else
        (void)close(fd);
}

void connections_request_ended(struct connections *connections, struct MHD_Connection *connection, bool linger)
{
    (void)pthread_mutex_lock(&connections->mutex);
    struct connection *c = entry_of(connections, connection);
    if (c != NULL) {
        c->deadline_ms = server_now_ms() + SPD_HEADER_SECONDS * 1000;
        c->in_request = c->expects_body = false;
    }
    (void)pthread_mutex_unlock(&connections->mutex);
    if (!linger)
        return;
    int fd = socket_of(connection), copy = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1;
    if (copy < 0)
        return;
    tls_say_goodbye(connection);
    connections_linger(connections, copy);
}

unsigned connections_count(struct connections *connections)
{
    (void)pthread_mutex_lock(&connections->mutex);
    unsigned count = connections->count + connections->admin_count;
    (void)pthread_mutex_unlock(&connections->mutex);
    return count;
}

unsigned connections_allowed(const struct connections *connections)
{
    return connections->limit; /* does not change after the start */
}
