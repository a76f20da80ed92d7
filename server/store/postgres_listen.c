#include <poll.h>
#include <string.h>

#include "observe/log.h"
#include "server.h"
#include "store/postgres.h"

#define LOOK_MS  5000 /* between looks whether the server still answers */
#define PAUSE_MS 500  /* before the next attempt to connect */

/* Waits for bytes from the server. False at the end of the store. */
static bool wait_for_news(const struct pg_store *store, const PGconn *conn, int milliseconds)
{
    struct pollfd fds[2] = {{.fd = store->wake, .events = POLLIN}, {.fd = PQsocket(conn), .events = POLLIN}};
    (void)poll(fds, conn != NULL ? 2 : 1, milliseconds);
    return fds[0].revents == 0;
}

/* Asks something and waits for the answer. */
static bool ask(const struct pg_store *store, PGconn *conn, const char *sql)
{
    PGresult *result = NULL;
    if (PQsendQuery(conn, sql) != 0)
        result = pg_await(conn, store->wake, server_now_ms() + SPD_STORE_PATIENCE_MS);
    ExecStatusType status = PQresultStatus(result);
    PQclear(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

/* What PG_TELL says in one letter. */
static enum plan_change change_of(char letter)
{
    static const enum plan_change changes[] = {
        ['q'] = PLAN_WAITS, ['r'] = PLAN_TAKEN,    ['s'] = PLAN_OVER,   ['f'] = PLAN_OVER,
        ['c'] = PLAN_OVER,  ['x'] = PLAN_STOPPING, ['d'] = PLAN_DELETED};
    const bool is_known = letter != '\0' && strchr("qrsfcxd", letter) != NULL;
    return is_known ? changes[(unsigned char)letter] : PLAN_CHANGED;
}

/* Hands on one piece of news, "OWNER:LETTER:TENANT PLAN", which is written into. Daemons of older versions say only
   "OWNER PLAN". What this daemon said itself it knows. */
static void hand_on(const struct store *store, char *text)
{
    char *rest = text, *head = strsep(&rest, " "), *owner = strsep(&head, ":"), *letter = strsep(&head, ":");
    struct store_change change = {.what = PLAN_CHANGED, .plan = rest, .tenant = head};
    if (letter != NULL && head != NULL && strlen(head) <= SPD_MAX_PRINCIPAL)
        change.what = change_of(letter[0]);
    if (rest == NULL)
        store_tell_of(store, NULL);
    else if (strcmp(owner, store->owner) != 0 && strlen(rest) < STORE_ID_SIZE)
        store_tell_of(store, &change);
}

/* All that came. */
static void hand_on_all(const struct pg_store *store, PGconn *conn)
{
    PGnotify *news;
    while ((news = PQnotifies(conn)) != NULL) {
        hand_on(&store->base, news->extra);
        PQfreemem(news);
    }
}

/* Listens until the connection breaks. */
static void listen_on(const struct pg_store *store, PGconn *conn)
{
    uint64_t look_at = server_now_ms() + LOOK_MS;
    if (!ask(store, conn, "LISTEN " PG_CHANNEL))
        return;
    store_tell_of(&store->base, NULL); /* what happened before is not told again */
    while (wait_for_news(store, conn, LOOK_MS) && PQconsumeInput(conn) != 0 && PQstatus(conn) == CONNECTION_OK) {
        hand_on_all(store, conn);
        if (server_now_ms() >= look_at) {
            if (!ask(store, conn, "SELECT 1"))
                return;
            hand_on_all(store, conn);
            look_at = server_now_ms() + LOOK_MS;
        }
    }
}

static void *listen_always(void *context)
{
    struct pg_store *store = context;
    char reason[256];
    do {
        PGconn *conn =
            pg_connect(&store->address, store->wake, server_now_ms() + SPD_STORE_PATIENCE_MS, reason, sizeof reason);
        if (conn != NULL) {
            listen_on(store, conn);
            pg_disconnect(conn);
        }
    } while (wait_for_news(store, NULL, PAUSE_MS));
    return NULL;
}

bool pg_listen_start(struct pg_store *store)
{
    store->has_listener = pthread_create(&store->listener, NULL, listen_always, store) == 0;
    return store->has_listener;
}

void pg_listen_stop(struct pg_store *store)
{
    if (store->has_listener)
        (void)pthread_join(store->listener, NULL);
}
