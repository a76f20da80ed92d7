#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "observe/log.h"
#include "server.h"
#include "store/postgres.h"

#define FIRST_PAUSE_MS 50u /* between attempts of the keeper, doubled each time */
#define LAST_PAUSE_MS  1000u

static void wait_until(struct pg_store *store, uint64_t deadline_ms)
{
    struct timespec until = {.tv_sec = (time_t)(deadline_ms / 1000), .tv_nsec = (long)(deadline_ms % 1000) * 1000000};
    (void)pthread_cond_timedwait(&store->changed, &store->mutex, &until);
}

static void free_connection(struct pg_connection *connection)
{
    pg_disconnect(connection->conn);
    free(connection);
}

static void free_list(struct pg_connection *list)
{
    while (list != NULL) {
        struct pg_connection *connection = list;
        list = list->next;
        free_connection(connection);
    }
}

/* Takes the idle connections out, because one like them broke. The mutex is held; free what is returned without it. */
static struct pg_connection *take_idle(struct pg_store *store)
{
    struct pg_connection *list = store->idle;
    for (const struct pg_connection *connection = list; connection != NULL; connection = connection->next)
        store->open--;
    store->idle = NULL;
    store->generation++;
    store->in_doubt = true;
    (void)pthread_cond_broadcast(&store->changed);
    return list;
}

/* Nothing comes on an idle connection but the news that it has ended. */
static bool is_usable(PGconn *conn)
{
    struct pollfd fd = {.fd = PQsocket(conn), .events = POLLIN};
    if (poll(&fd, 1, 0) == 0)
        return true;
    return PQconsumeInput(conn) != 0 && PQstatus(conn) == CONNECTION_OK && PQisBusy(conn) == 0;
}

/* ---- the keeper ---- */

static void opened(struct pg_store *store, PGconn *conn, const char *reason)
{
    struct pg_connection *connection = conn != NULL ? calloc(1, sizeof *connection) : NULL;
    bool was_away = store->away;
    if (connection == NULL && conn != NULL)
        pg_disconnect(conn);
    (void)pthread_mutex_lock(&store->mutex);
    store->away = connection == NULL;
    store->in_doubt = false;
    if (connection != NULL) {
        connection->conn = conn;
        connection->generation = store->generation;
        connection->next = store->idle;
        store->idle = connection;
        store->open++;
    } else {
        (void)snprintf(store->reason, sizeof store->reason, "%s", conn == NULL ? reason : "out of memory");
    }
    bool closing = store->closing;
    (void)pthread_cond_broadcast(&store->changed);
    (void)pthread_mutex_unlock(&store->mutex);
    if (connection != NULL && was_away)
        LOG(LOG_INFO, "store is back");
    else if (connection == NULL && !was_away && !closing)
        LOG(LOG_ERROR, "store is away", log_s("reason", reason));
}

/* Waits until somebody needs a connection, or until it is time to look again whether the server is back. False at the
   end. */
static bool keeper_waits(struct pg_store *store, uint64_t *pause_ms)
{
    (void)pthread_mutex_lock(&store->mutex);
    uint64_t until = server_now_ms() + *pause_ms;
    *pause_ms = *pause_ms * 2 < LAST_PAUSE_MS ? *pause_ms * 2 : LAST_PAUSE_MS;
    while (store->away && !store->closing && server_now_ms() < until)
        wait_until(store, until);
    while (!store->closing && !store->away && !store->in_doubt &&
           (store->waiting == 0 || store->idle != NULL || store->open >= SPD_STORE_CONNECTIONS))
        (void)pthread_cond_wait(&store->changed, &store->mutex);
    if (!store->away)
        *pause_ms = FIRST_PAUSE_MS;
    bool go_on = !store->closing;
    (void)pthread_mutex_unlock(&store->mutex);
    return go_on;
}

static void *keep(void *context)
{
    struct pg_store *store = context;
    uint64_t pause_ms = FIRST_PAUSE_MS;
    char reason[sizeof store->reason] = "";
    do {
        PGconn *conn =
            pg_connect(&store->address, store->wake, server_now_ms() + SPD_STORE_PATIENCE_MS, reason, sizeof reason);
        opened(store, conn, reason);
    } while (keeper_waits(store, &pause_ms));
    return NULL;
}

bool pg_pool_start(struct pg_store *store, struct problem *problem)
{
    pthread_condattr_t attributes;
    uint64_t deadline = server_now_ms() + SPD_STORE_OPEN_MS;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&store->mutex, NULL);
    (void)pthread_cond_init(&store->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    store->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    store->has_keeper = store->wake >= 0 && pthread_create(&store->keeper, NULL, keep, store) == 0;
    if (!store->has_keeper)
        return problem_set(problem, 503, "OUT_OF_MEMORY", "The thread that keeps connections cannot be started.");
    (void)pthread_mutex_lock(&store->mutex);
    while (store->idle == NULL && server_now_ms() < deadline)
        wait_until(store, deadline);
    bool ok = store->idle != NULL;
    if (!ok)
        (void)problem_set(problem, 503, "STORE_UNAVAILABLE", "PostgreSQL cannot be reached: %s.", store->reason);
    (void)pthread_mutex_unlock(&store->mutex);
    return ok;
}

void pg_pool_stop(struct pg_store *store)
{
    (void)pthread_mutex_lock(&store->mutex);
    store->closing = true;
    (void)pthread_cond_broadcast(&store->changed);
    (void)pthread_mutex_unlock(&store->mutex);
    if (store->wake >= 0)
        (void)eventfd_write(store->wake, 1);
    pg_listen_stop(store);
    if (store->has_keeper)
        (void)pthread_join(store->keeper, NULL);
    free_list(store->idle);
    if (store->wake >= 0)
        (void)close(store->wake);
    (void)pthread_cond_destroy(&store->changed);
    (void)pthread_mutex_destroy(&store->mutex);
}

/* ---- calls ---- */

/* An idle connection that works, waited for when there is none. NULL, with what to say, when there will be none. */
static struct pg_connection *take(struct pg_store *store, uint64_t deadline_ms, const char **ret_why)
{
    struct pg_connection *taken = NULL, *dropped = NULL;
    *ret_why = NULL;
    (void)pthread_mutex_lock(&store->mutex);
    store->waiting++;
    while (taken == NULL && *ret_why == NULL) {
        if (store->idle != NULL) {
            taken = store->idle;
            store->idle = taken->next;
            if (!is_usable(taken->conn)) {
                taken->next = dropped;
                dropped = taken;
                taken = NULL;
                store->open--;
            }
        } else if (store->away || store->closing) {
            *ret_why = "The database is away at the moment; try again later.";
        } else if (server_now_ms() >= deadline_ms) {
            *ret_why = "The database is busy; try again later.";
        } else {
            (void)pthread_cond_broadcast(&store->changed); /* the keeper may open one more */
            wait_until(store, deadline_ms);
        }
    }
    store->waiting--;
    (void)pthread_mutex_unlock(&store->mutex);
    free_list(dropped);
    return taken;
}

static void give_back(struct pg_store *store, struct pg_connection *connection)
{
    struct pg_connection *dropped = NULL;
    (void)pthread_mutex_lock(&store->mutex);
    bool keep = !connection->broken && connection->generation == store->generation;
    if (keep) {
        connection->next = store->idle;
        store->idle = connection;
    } else {
        store->open--;
        /* Only the first that breaks says something new. */
        if (connection->broken && connection->generation == store->generation)
            dropped = take_idle(store);
    }
    (void)pthread_cond_broadcast(&store->changed);
    (void)pthread_mutex_unlock(&store->mutex);
    if (!keep)
        free_connection(connection);
    free_list(dropped);
}

bool pg_begin(struct pg_call *call, struct store *base, const char *doing, struct problem *problem)
{
    struct pg_store *store = (struct pg_store *)base;
    const char *why = NULL;
    *call = (struct pg_call){
        .store = store, .doing = doing, .problem = problem, .deadline_ms = server_now_ms() + SPD_STORE_PATIENCE_MS};
    call->connection = take(store, call->deadline_ms, &why);
    if (call->connection != NULL)
        return true;
    call->failed = true;
    if (problem != NULL)
        (void)problem_set(problem, 503, "STORE_UNAVAILABLE", "%s", why);
    return false;
}

bool pg_renew(struct pg_call *call)
{
    const char *why;
    give_back(call->store, call->connection);
    call->connection = take(call->store, call->deadline_ms, &why);
    call->failed = call->connection == NULL;
    call->sqlstate[0] = '\0';
    return !call->failed;
}

/* An open transaction is given up. */
static void roll_back(struct pg_call *call)
{
    struct pg_connection *connection = call->connection;
    PGTransactionStatusType status = PQtransactionStatus(connection->conn);
    if (connection->broken || status == PQTRANS_IDLE)
        return;
    PGresult *result = NULL;
    uint64_t deadline = server_now_ms() + SPD_STORE_PATIENCE_MS / 4;
    if (PQsendQuery(connection->conn, "ROLLBACK") != 0)
        result = pg_await(connection->conn, -1, deadline);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        connection->broken = true;
    PQclear(result);
}

bool pg_end(struct pg_call *call)
{
    if (call->connection == NULL)
        return false;
    roll_back(call);
    give_back(call->store, call->connection);
    call->connection = NULL;
    return !call->failed;
}
