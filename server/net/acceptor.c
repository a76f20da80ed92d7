#include "net/acceptor.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "observe/log.h"
#include "observe/metrics.h"
#include "server.h"
#include "server_limits.h"
#include "util/text.h"

#define BATCH      64 /* connections taken from one port before the others are looked at */
#define COMPLAIN_S 10 /* between complaints about the same thing */
#define PAUSE_MS   50 /* when nothing can be accepted for want of memory or descriptors */

struct acceptor {
    struct server *server;
    struct acceptor_port ports[ACCEPTOR_PORTS];
    unsigned count;
    int wake;    /* an eventfd */
    int reserve; /* a descriptor that is given up to tell a client that there are no more */
    pthread_t thread;
    pthread_mutex_t mutex; /* guards the rest */
    pthread_cond_t changed;
    bool quiesce, stop, quiesced;
    uint64_t complained_ms; /* thread */
};

/* A connection was refused: counts each, and says so now and then. */
static void complain(struct acceptor *acceptor, const char *event, const char *reason)
{
    uint64_t now = server_now_ms();
    metrics_connection(acceptor->server->metrics, reason);
    if (acceptor->complained_ms != 0 && now - acceptor->complained_ms < COMPLAIN_S * 1000)
        return;
    acceptor->complained_ms = now;
    LOG(LOG_WARNING, event, log_i("connections", connections_count(acceptor->server->connections)));
}

/* The answer to a request that nobody has read yet. */
static void turn_away(struct acceptor *acceptor, const struct acceptor_port *port, int fd, const char *code,
                      const char *detail)
{
    char answer[768], body[400], id[17];
    unsigned char random[8] = {0};
    (void)gnutls_rnd(GNUTLS_RND_NONCE, random, sizeof random);
    text_to_hex(random, sizeof random, id);
    int size = snprintf(body, sizeof body,
                        "{\"type\":\"urn:shardplan:problem:%s\",\"title\":\"Service Unavailable\",\"code\":\"%s\","
                        "\"status\":503,\"detail\":\"%s\",\"errors\":[],\"request_id\":\"%s\"}",
                        code, code, detail, id);
    size =
        snprintf(answer, sizeof answer,
                 "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\n"
                 "Retry-After: %u\r\nX-Request-Id: %s\r\nCache-Control: no-store\r\n"
                 "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n%s",
                 size, SPD_RETRY_AFTER_SECONDS, id, body);
    if (port->tls || send(fd, answer, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL) != size) {
        (void)close(fd);
        return;
    }
    connections_linger(acceptor->server->connections, fd);
}

static void hand_over(struct acceptor *acceptor, const struct acceptor_port *port, int fd,
                      const struct sockaddr *address, socklen_t size)
{
    int on = 1;
    switch (connections_admit(acceptor->server->connections, fd, address, port->admin)) {
    case ADMISSION_PUSHED:
        metrics_connection(acceptor->server->metrics, "pushed out");
        /* fall through */
    case ADMISSION_GRANTED:
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* no matter for other sockets */
        metrics_connection(acceptor->server->metrics, "accepted");
        /* The library closes the socket when it does not take it. */
        if (MHD_add_connection(port->daemon, fd, address, size) != MHD_YES)
            connections_forget(acceptor->server->connections, fd);
        break;
    case ADMISSION_TOO_MANY:
        complain(acceptor, "connection refused: too many from one address", "address");
        turn_away(acceptor, port, fd, "TOO_MANY_CONNECTIONS", "Too many connections come from this address.");
        break;
    case ADMISSION_FULL:
        complain(acceptor, "connection refused: --max-connections is reached", "full");
        turn_away(acceptor, port, fd, "TOO_MANY_CONNECTIONS", "The service has as many connections as it may have.");
        break;
    }
}

/* No descriptor is left: the reserve lets one client go instead of leaving it, and this thread, in a loop. */
static void let_one_go(struct acceptor *acceptor, int listener)
{
    complain(acceptor, "connection refused: no descriptors are left", "descriptors");
    if (acceptor->reserve >= 0)
        (void)close(acceptor->reserve);
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        (void)close(fd);
    acceptor->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void accept_some(struct acceptor *acceptor, const struct acceptor_port *port)
{
    for (int i = 0; i < BATCH; i++) {
        struct sockaddr_storage address = {0};
        socklen_t size = sizeof address;
        int fd = accept4(port->fd, (struct sockaddr *)&address, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            hand_over(acceptor, port, fd, (const struct sockaddr *)&address, size);
        } else if (errno == EMFILE || errno == ENFILE) {
            let_one_go(acceptor, port->fd);
        } else if (errno == ENOBUFS || errno == ENOMEM) {
            complain(acceptor, "connection not accepted: no memory", "memory");
            (void)poll(NULL, 0, PAUSE_MS);
            return;
        } else if (errno != EINTR && errno != ECONNABORTED && errno != EPROTO) {
            return; /* no more of them, or the socket was shut down */
        }
    }
}

/* Does what was asked for. False when the thread shall end. */
static bool obey(struct acceptor *acceptor)
{
    uint64_t count;
    (void)!read(acceptor->wake, &count, sizeof count);
    (void)pthread_mutex_lock(&acceptor->mutex);
    for (unsigned i = 0; i < acceptor->count && acceptor->quiesce; i++) {
        if (!acceptor->ports[i].admin && acceptor->ports[i].fd >= 0) {
            (void)close(acceptor->ports[i].fd);
            acceptor->ports[i].fd = -1;
        }
    }
    acceptor->quiesced = acceptor->quiesce;
    bool go_on = !acceptor->stop;
    (void)pthread_cond_broadcast(&acceptor->changed);
    (void)pthread_mutex_unlock(&acceptor->mutex);
    return go_on;
}

static void *work(void *context)
{
    struct acceptor *acceptor = context;
    bool go_on = true;
    while (go_on) {
        struct pollfd polled[ACCEPTOR_PORTS + 1] = {{.fd = acceptor->wake, .events = POLLIN}};
        for (unsigned i = 0; i < acceptor->count; i++)
            polled[i + 1] = (struct pollfd){.fd = acceptor->ports[i].fd, .events = POLLIN};
        if (poll(polled, acceptor->count + 1, -1) < 0)
            continue;
        for (unsigned i = 0; i < acceptor->count; i++) {
            if (polled[i + 1].revents != 0)
                accept_some(acceptor, &acceptor->ports[i]);
        }
        if (polled[0].revents != 0)
            go_on = obey(acceptor);
    }
    return NULL;
}

bool acceptor_start(struct server *server, const struct acceptor_port *ports, unsigned count,
                    struct acceptor **ret_acceptor, struct problem *problem)
{
    struct acceptor *acceptor = calloc(1, sizeof *acceptor);
    if (acceptor == NULL)
        return problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory.");
    acceptor->server = server;
    memcpy(acceptor->ports, ports, count * sizeof *ports);
    acceptor->count = count;
    acceptor->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    acceptor->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
    (void)pthread_mutex_init(&acceptor->mutex, NULL);
    (void)pthread_cond_init(&acceptor->changed, NULL);
    if (acceptor->wake >= 0 && pthread_create(&acceptor->thread, NULL, work, acceptor) == 0) {
        *ret_acceptor = acceptor;
        return true;
    }
    if (acceptor->wake >= 0)
        (void)close(acceptor->wake);
    if (acceptor->reserve >= 0)
        (void)close(acceptor->reserve);
    free(acceptor);
    return problem_set(problem, 503, "OUT_OF_MEMORY", "The thread that accepts connections could not be started.");
}

static void wake(struct acceptor *acceptor)
{
    uint64_t one = 1;
    (void)!write(acceptor->wake, &one, sizeof one);
}

void acceptor_quiesce(struct acceptor *acceptor)
{
    (void)pthread_mutex_lock(&acceptor->mutex);
    acceptor->quiesce = true;
    wake(acceptor);
    while (!acceptor->quiesced)
        (void)pthread_cond_wait(&acceptor->changed, &acceptor->mutex);
    (void)pthread_mutex_unlock(&acceptor->mutex);
}

void acceptor_stop(struct acceptor *acceptor)
{
    if (acceptor == NULL)
        return;
    (void)pthread_mutex_lock(&acceptor->mutex);
    acceptor->stop = true;
    wake(acceptor);
    (void)pthread_mutex_unlock(&acceptor->mutex);
    (void)pthread_join(acceptor->thread, NULL);
    for (unsigned i = 0; i < acceptor->count; i++) {
        if (acceptor->ports[i].fd >= 0)
            (void)close(acceptor->ports[i].fd);
    }
    (void)close(acceptor->wake);
    if (acceptor->reserve >= 0)
        (void)close(acceptor->reserve);
    (void)pthread_cond_destroy(&acceptor->changed);
    (void)pthread_mutex_destroy(&acceptor->mutex);
    free(acceptor);
}
