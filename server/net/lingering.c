#include "net/lingering.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server.h"
#include "server_limits.h"

/* Taken over, and not in the main thread yet. */
struct taken {
    int fd;
    struct account *account;
};

struct lingerer {
    struct lingering *owner;
    struct account *account;
    uv_tcp_t socket;
    uint64_t deadline_ms, bytes;
    struct lingerer *next;
};

struct lingering {
    uv_loop_t *loop;
    uv_async_t wake;
    pthread_mutex_t mutex; /* guards the members up to the next blank line */
    struct taken taken[SPD_MAX_LINGERING];
    unsigned taken_count, count, unknown;
    bool stopped;

    struct lingerer *first; /* main thread */
    char discard[16 * 1024];
};

/* ---- counting ---- */

/* The mutex is held. */
static bool count_in(struct lingering *lingering, struct account *account)
{
    struct problem none = {0}; /* it is closed at once */
    if (lingering->stopped || lingering->count == SPD_MAX_LINGERING ||
        (account == NULL && lingering->unknown == SPD_MAX_LINGERING / SPD_UNKNOWN_SHARE) ||
        !account_charge(account, ACCOUNT_LINGERING, 1, &none))
        return false;
    lingering->count++;
    lingering->unknown += account == NULL;
    return true;
}

static void count_out(struct lingering *lingering, struct account *account)
{
    (void)pthread_mutex_lock(&lingering->mutex);
    lingering->count--;
    lingering->unknown -= account == NULL;
    (void)pthread_mutex_unlock(&lingering->mutex);
    account_give_back(account, ACCOUNT_LINGERING, 1);
    account_close(account, NULL);
}

/* ---- in the main thread ---- */

static void unlink_lingerer(struct lingerer *lingerer)
{
    struct lingerer **at = &lingerer->owner->first;
    while (*at != NULL && *at != lingerer)
        at = &(*at)->next;
    if (*at == lingerer)
        *at = lingerer->next;
}

static void closed(uv_handle_t *handle)
{
    struct lingerer *lingerer = handle->data;
    count_out(lingerer->owner, lingerer->account);
    free(lingerer);
}

static void close_lingerer(struct lingerer *lingerer)
{
    if (uv_is_closing((uv_handle_t *)&lingerer->socket))
        return;
    unlink_lingerer(lingerer);
    uv_close((uv_handle_t *)&lingerer->socket, closed);
}

static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    struct lingerer *lingerer = handle->data;
    *buf = uv_buf_init(lingerer->owner->discard, sizeof lingerer->owner->discard);
}

static void discarded(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
    (void)buf;
    struct lingerer *lingerer = stream->data;
    if (count > 0)
        lingerer->bytes += (uint64_t)count;
    if (count < 0 || lingerer->bytes > SPD_LINGER_BYTES)
        close_lingerer(lingerer);
}

static void adopt(struct lingering *lingering, const struct taken *taken)
{
    struct lingerer *lingerer = calloc(1, sizeof *lingerer);
    if (lingerer == NULL || uv_tcp_init(lingering->loop, &lingerer->socket) != 0) {
        free(lingerer);
        (void)close(taken->fd);
        count_out(lingering, taken->account);
        return;
    }
    lingerer->owner = lingering;
    lingerer->account = taken->account;
    lingerer->socket.data = lingerer;
    lingerer->deadline_ms = server_now_ms() + SPD_LINGER_SECONDS * 1000;
    lingerer->next = lingering->first;
    lingering->first = lingerer;
    if (uv_tcp_open(&lingerer->socket, taken->fd) != 0) {
        (void)close(taken->fd);
        close_lingerer(lingerer);
        return;
    }
    if (uv_read_start((uv_stream_t *)&lingerer->socket, give_buffer, discarded) != 0)
        close_lingerer(lingerer);
}

static void woken(uv_async_t *async)
{
    struct lingering *lingering = async->data;
    struct taken taken[SPD_MAX_LINGERING];
    (void)pthread_mutex_lock(&lingering->mutex);
    unsigned count = lingering->taken_count;
    memcpy(taken, lingering->taken, count * sizeof taken[0]);
    lingering->taken_count = 0;
    (void)pthread_mutex_unlock(&lingering->mutex);
    for (unsigned i = 0; i < count; i++)
        adopt(lingering, &taken[i]);
}

void lingering_tick(struct lingering *lingering, uint64_t now_ms)
{
    for (struct lingerer *l = lingering->first, *next; l != NULL; l = next) {
        next = l->next;
        if (l->deadline_ms < now_ms)
            close_lingerer(l);
    }
}

/* ---- life ---- */

struct lingering *lingering_create(uv_loop_t *loop)
{
    struct lingering *lingering = calloc(1, sizeof *lingering);
    if (lingering == NULL)
        return NULL;
    lingering->loop = loop;
    if (uv_async_init(loop, &lingering->wake, woken) != 0) {
        free(lingering);
        return NULL;
    }
    lingering->wake.data = lingering;
    (void)pthread_mutex_init(&lingering->mutex, NULL);
    return lingering;
}

void lingering_stop(struct lingering *lingering)
{
    (void)pthread_mutex_lock(&lingering->mutex);
    lingering->stopped = true;
    (void)pthread_mutex_unlock(&lingering->mutex);
    woken(&lingering->wake);
    while (lingering->first != NULL)
        close_lingerer(lingering->first);
    uv_close((uv_handle_t *)&lingering->wake, NULL);
}

void lingering_destroy(struct lingering *lingering)
{
    if (lingering == NULL)
        return;
    (void)pthread_mutex_destroy(&lingering->mutex);
    free(lingering);
}

void lingering_take(struct lingering *lingering, int fd, struct account *account)
{
    (void)pthread_mutex_lock(&lingering->mutex);
    bool taken = count_in(lingering, account);
    if (taken) {
        struct account *kept = account != NULL ? account_open_again(account) : NULL;
        lingering->taken[lingering->taken_count++] = (struct taken){fd, kept};
        (void)uv_async_send(&lingering->wake);
    }
    (void)pthread_mutex_unlock(&lingering->mutex);
    if (!taken)
        (void)close(fd);
}
