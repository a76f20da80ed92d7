#include "net/connections.h"

#include <fcntl.h>
#include <gnutls/crypto.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "net/lingering.h"
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
    bool pushed_out;                    /* it is being closed and does not count any more */
    struct account *account;            /* NULL: not known yet whose it is */
    struct peer *peer;                  /* NULL: not counted by address */
    uint64_t turn;                      /* grows: when it came, or its last request ended */
    uint64_t deadline_ms;               /* 0: a request is in progress */
    uint64_t window_ms;                 /* since when its rate is watched; 0: it is not */
    uint64_t window_bytes, first_bytes; /* at the begin of this window, and of the first one */
};

struct connections {
    struct lingering *lingering;
    pthread_mutex_t mutex;    /* guards the rest */
    struct connection *table; /* by descriptor */
    int table_size, highest;  /* descriptors from `highest` up were never used */
    unsigned count, admin_count, limit, peer_limit;
    unsigned unknown, unknown_limit; /* connections without an account */
    unsigned pushed_out;
    uint64_t turn;
    struct peer *peers[PEER_BUCKETS];
    uint64_t seed;
};

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
    lingering_tick(connections->lingering, now_ms);
}

/* ---- admission ---- */

unsigned connections_limit(struct connections *connections, unsigned wanted, bool asks, struct accounts *accounts)
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
    connections->unknown_limit = asks && allowed > SPD_UNKNOWN_SHARE ? allowed / SPD_UNKNOWN_SHARE : allowed;
    const uint64_t of_tenants = asks ? allowed - connections->unknown_limit : allowed, files = limit.rlim_cur - allowed;
    accounts_set_whole(accounts, ACCOUNT_CONNECTIONS, of_tenants);
    accounts_set_whole(accounts, ACCOUNT_STREAMS, of_tenants / SPD_STREAM_SHARE);
    accounts_set_whole(accounts, ACCOUNT_FILES,
                       files > 2 * SPD_OWN_DESCRIPTORS ? files - SPD_OWN_DESCRIPTORS : files / 2);
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
static void forget_peer(struct connections *connections, struct connection *c)
{
    struct peer *peer = c->peer;
    c->peer = NULL;
    if (peer == NULL || --peer->count > 0)
        return;
    struct peer **at = find_peer(connections, peer->key);
    *at = peer->next;
    free(peer);
}

/* The mutex is held. */
static void release_slot(struct connections *connections, struct connection *c)
{
    forget_peer(connections, c);
    if (c->admin)
        connections->admin_count--;
    else if (c->pushed_out)
        connections->pushed_out--;
    else
        connections->count--;
    if (!c->admin && !c->pushed_out && c->account == NULL)
        connections->unknown--;
    account_give_back(c->account, ACCOUNT_CONNECTIONS, 1);
    account_close(c->account, NULL);
    *c = (struct connection){0};
}

/* The mutex is held. Of the connections without an account the one that has been silent longest; NULL: there is none. */
static struct connection *find_silent(struct connections *connections)
{
    struct connection *found = NULL;
    for (int fd = 0; fd < connections->highest; fd++) {
        struct connection *c = &connections->table[fd];
        if (c->open && !c->admin && !c->pushed_out && c->account == NULL &&
            (found == NULL || (c->in_request == found->in_request ? c->turn < found->turn : found->in_request)))
            found = c;
    }
    return found;
}

/* The mutex is held. Makes room for one more connection. False when there is none. */
static bool make_room(struct connections *connections, bool *ret_pushed)
{
    *ret_pushed = false;
    if (connections->count < connections->limit && connections->unknown < connections->unknown_limit)
        return true;
    struct connection *silent = connections->pushed_out < SPD_MAX_PUSHED_OUT ? find_silent(connections) : NULL;
    if (silent == NULL)
        return false;
    (void)shutdown((int)(silent - connections->table), SHUT_RDWR);
    silent->pushed_out = *ret_pushed = true;
    silent->deadline_ms = 0;
    connections->pushed_out++;
    connections->unknown--;
    connections->count--;
    return true;
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

/* The mutex is held. */
static void begin(struct connections *connections, struct connection *c, bool admin)
{
    const int fd = (int)(c - connections->table);
    c->open = true;
    c->admin = admin;
    c->turn = ++connections->turn;
    c->deadline_ms = server_now_ms() + SPD_HEADER_SECONDS * 1000;
    if (admin) {
        connections->admin_count++;
    } else {
        connections->count++;
        connections->unknown++;
    }
    if (fd >= connections->highest)
        connections->highest = fd + 1;
}

enum admission connections_admit(struct connections *connections, int fd, const struct sockaddr *address, bool admin)
{
    enum admission admission = ADMISSION_FULL;
    bool pushed = false;
    (void)pthread_mutex_lock(&connections->mutex);
    struct connection *c = fd < connections->table_size ? &connections->table[fd] : NULL;
    if (c != NULL && c->open) /* the library dropped it without a word, for want of memory */
        release_slot(connections, c);
    if (c != NULL && admin && connections->admin_count < SPD_MAX_ADMIN_CONNECTIONS)
        admission = ADMISSION_GRANTED;
    else if (c != NULL && !admin)
        admission = count_peer(connections, c, address);
    if (admission == ADMISSION_GRANTED && !admin && !make_room(connections, &pushed)) {
        forget_peer(connections, c);
        admission = ADMISSION_FULL;
    }
    if (admission == ADMISSION_GRANTED)
        begin(connections, c, admin);
    (void)pthread_mutex_unlock(&connections->mutex);
    return pushed ? ADMISSION_PUSHED : admission;
}

void connections_forget(struct connections *connections, int fd)
{
    (void)pthread_mutex_lock(&connections->mutex);
    if (connections->table[fd].open)
        release_slot(connections, &connections->table[fd]);
    (void)pthread_mutex_unlock(&connections->mutex);
}

/* ---- life ---- */

struct connections *connections_create(uv_loop_t *loop)
{
    struct connections *connections = calloc(1, sizeof *connections);
    if (connections == NULL)
        return NULL;
    connections->lingering = lingering_create(loop);
    if (connections->lingering == NULL) {
        free(connections);
        return NULL;
    }
    (void)pthread_mutex_init(&connections->mutex, NULL);
    return connections;
}

void connections_stop(struct connections *connections)
{
    lingering_stop(connections->lingering);
}

void connections_destroy(struct connections *connections)
{
    if (connections == NULL)
        return;
    for (int fd = 0; fd < connections->highest; fd++) { /* the library may drop one without a word */
        if (connections->table[fd].open)
            release_slot(connections, &connections->table[fd]);
    }
    lingering_destroy(connections->lingering);
    (void)pthread_mutex_destroy(&connections->mutex);
    free(connections->table);
    free(connections);
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

bool connections_identified(struct connections *connections, struct MHD_Connection *connection, struct account *account,
                            struct problem *problem)
{
    bool ok = true;
    (void)pthread_mutex_lock(&connections->mutex);
    struct connection *c = entry_of(connections, connection);
    if (c != NULL && !c->admin && !c->pushed_out && c->account != account) {
        ok = account_charge(account, ACCOUNT_CONNECTIONS, 1, problem);
        if (ok && c->account == NULL)
            connections->unknown--;
        if (ok) {
            account_give_back(c->account, ACCOUNT_CONNECTIONS, 1);
            account_close(c->account, NULL);
            c->account = account_open_again(account);
        }
    }
    (void)pthread_mutex_unlock(&connections->mutex);
    return ok;
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
    (void)shutdown(fd, SHUT_WR);
    lingering_take(connections->lingering, fd, NULL);
}

void connections_request_ended(struct connections *connections, struct MHD_Connection *connection, bool linger)
{
    struct account *account = NULL;
    (void)pthread_mutex_lock(&connections->mutex);
    struct connection *c = entry_of(connections, connection);
    if (c != NULL) {
        c->turn = ++connections->turn;
        c->deadline_ms = server_now_ms() + SPD_HEADER_SECONDS * 1000;
        c->in_request = c->expects_body = false;
        account = linger && c->account != NULL ? account_open_again(c->account) : NULL;
    }
    (void)pthread_mutex_unlock(&connections->mutex);
    int fd = linger ? socket_of(connection) : -1, copy = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1;
    if (copy >= 0) {
        tls_say_goodbye(connection);
        (void)shutdown(copy, SHUT_WR);
        lingering_take(connections->lingering, copy, account);
    }
    account_close(account, NULL);
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
