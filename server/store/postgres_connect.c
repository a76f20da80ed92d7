#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "observe/log.h"
#include "server.h"
#include "store/postgres.h"

#define MAX_PASSWORD 1024

/* What each session begins with. The server gives a statement up before this side loses its patience; it forgets a
   daemon that vanished in the middle of a transaction; and what it says is committed is on its disk. */
static const char set_up[] = "SET statement_timeout = 1500;"
                             "SET idle_in_transaction_session_timeout = 10000;"
                             "SET tcp_keepalives_idle = 10;"
                             "SET tcp_keepalives_interval = 5;"
                             "SET tcp_keepalives_count = 3;"
                             "SET client_min_messages = warning;"
                             "SET search_path = shardplan;"
                             "SELECT set_config('synchronous_commit', 'on', false)"
                             " WHERE current_setting('synchronous_commit') = 'off';"
                             "SELECT pg_backend_pid()";

/* ---- the address ---- */

static void add(struct pg_address *address, const char *keyword, const char *value)
{
    size_t i = 0;
    while (address->keywords[i] != NULL)
        i++;
    address->keywords[i] = keyword;
    address->values[i] = value;
}

/* Refuses what libpq cannot read without repeating it: what is wrong may be close to a secret. */
static bool check_url(const char *url, struct problem *problem)
{
    PQconninfoOption *options = PQconninfoParse(url, NULL);
    bool has_password = false;
    for (const PQconninfoOption *option = options; option != NULL && option->keyword != NULL; option++) {
        if (strcmp(option->keyword, "password") == 0 && option->val != NULL)
            has_password = true;
    }
    bool readable = options != NULL;
    PQconninfoFree(options);
    if (!readable)
        return problem_set(
            problem, 500, "BAD_STORE",
            "--store is no connection string of PostgreSQL; write postgresql://USER@HOST:PORT/DATABASE.");
    if (has_password)
        return problem_set(problem, 500, "BAD_STORE",
                           "--store must not hold a password, which others could read; name a file that holds it "
                           "with --store-password-file.");
    return true;
}

bool pg_address_read(struct pg_address *address, const struct store_options *options, struct problem *problem)
{
    if (!check_url(options->url, problem))
        return false;
    address->url = strdup(options->url);
    address->password_file = strdup(options->password_file != NULL ? options->password_file : "");
    if (address->url == NULL || address->password_file == NULL)
        return problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory.");
    /* What the connection string says wins over these. */
    add(address, "application_name", "shardplan");
    add(address, "target_session_attrs", "read-write");
    add(address, "keepalives_idle", "10");
    add(address, "keepalives_interval", "5");
    add(address, "keepalives_count", "3");
    add(address, "tcp_user_timeout", "15000");
    add(address, "dbname", address->url);
    /* These win over the connection string. */
    add(address, "client_encoding", "UTF8");
    return true;
}

void pg_address_free(struct pg_address *address)
{
    free(address->url);
    free(address->password_file);
}

/* The first line of the password file, which may be replaced at any time. */
static bool read_password(const char *path, char *password, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t got = read(fd, password, size - 1);
    int error = errno;
    (void)close(fd);
    errno = error;
    if (got < 0)
        return false;
    password[got] = '\0';
    password[strcspn(password, "\r\n")] = '\0';
    return true;
}

/* ---- waiting ---- */

/* Waits until the connection can be read or written; false when the time is over or `wake` is readable. */
static bool wait_for(PGconn *conn, short events, int wake, uint64_t deadline_ms)
{
    for (;;) {
        uint64_t now = server_now_ms();
        struct pollfd fds[2] = {{.fd = PQsocket(conn), .events = events}, {.fd = wake, .events = POLLIN}};
        if (now >= deadline_ms || fds[0].fd < 0)
            return false;
        int ready = poll(fds, 2, (int)(deadline_ms - now));
        if (ready < 0 && errno != EINTR)
            return false;
        if (ready > 0 && fds[1].revents != 0)
            return false;
        if (ready > 0)
            return true;
    }
}

/* One result, or NULL at the end of the results, with *ret_ok telling which. */
static PGresult *next_result(PGconn *conn, int wake, uint64_t deadline_ms, bool *ret_ok)
{
    int left;
    *ret_ok = false;
    while ((left = PQflush(conn)) > 0) {
        if (!wait_for(conn, POLLIN | POLLOUT, wake, deadline_ms) || PQconsumeInput(conn) == 0)
            return NULL;
    }
    if (left < 0)
        return NULL;
    while (PQisBusy(conn) != 0) {
        if (!wait_for(conn, POLLIN, wake, deadline_ms) || PQconsumeInput(conn) == 0)
            return NULL;
    }
    *ret_ok = true;
    return PQgetResult(conn);
}

PGresult *pg_await(PGconn *conn, int wake, uint64_t deadline_ms)
{
    PGresult *last = NULL;
    for (;;) {
        bool ok;
        PGresult *result = next_result(conn, wake, deadline_ms, &ok);
        if (!ok || PQstatus(conn) != CONNECTION_OK) {
            PQclear(result);
            PQclear(last);
            return NULL;
        }
        if (result == NULL)
            return last;
        /* Of several statements the first that fails counts. */
        bool has_failed = last != NULL && PQresultStatus(last) == PGRES_FATAL_ERROR;
        PQclear(has_failed ? result : last);
        last = has_failed ? last : result;
    }
}

/* ---- connecting ---- */

void pg_one_line(char *text)
{
    text[strcspn(text, "\r\n")] = '\0';
}

void pg_disconnect(PGconn *conn)
{
    PQfinish(conn);
}

static bool finish_connecting(PGconn *conn, int wake, uint64_t deadline_ms)
{
    PostgresPollingStatusType status = PGRES_POLLING_WRITING;
    while (status != PGRES_POLLING_OK && status != PGRES_POLLING_FAILED) {
        if (!wait_for(conn, status == PGRES_POLLING_READING ? POLLIN : POLLOUT, wake, deadline_ms))
            return false;
        status = PQconnectPoll(conn);
    }
    return status == PGRES_POLLING_OK;
}

/* Settings, prepared statements, locks and LISTEN belong to a session. A pooler makes up the number of the process that
   a client is told; whether it keeps to one session for each client only who runs it knows. */
static void look_for_pooler(const PGconn *conn, const PGresult *pid)
{
    static atomic_bool told;
    if (PQntuples(pid) == 1 && strtol(PQgetvalue(pid, 0, 0), NULL, 10) != PQbackendPID(conn) &&
        !atomic_exchange(&told, true))
        LOG(LOG_WARNING, "store is behind a pooler",
            log_s("detail", "It must pool sessions: transactions of other clients in between break locks and news."));
}

static bool begin_session(PGconn *conn, int wake, uint64_t deadline_ms)
{
    PGresult *result = NULL;
    if (PQsetnonblocking(conn, 1) == 0 && PQsendQuery(conn, set_up) != 0)
        result = pg_await(conn, wake, deadline_ms);
    bool ok = PQresultStatus(result) == PGRES_TUPLES_OK;
    if (ok)
        look_for_pooler(conn, result);
    PQclear(result);
    return ok;
}

/* libpq would write to standard error, which belongs to the log. */
static void take_notice(void *context, const char *message)
{
    char line[256];
    (void)context;
    pg_copy(line, sizeof line, message);
    pg_one_line(line);
    LOG(LOG_INFO, "store says", log_s("message", line));
}

PGconn *pg_connect(const struct pg_address *address, int wake, uint64_t deadline_ms, char *reason, size_t size)
{
    struct pg_address full = *address;
    char password[MAX_PASSWORD] = "";
    if (address->password_file[0] != '\0') {
        if (!read_password(address->password_file, password, sizeof password)) {
            (void)snprintf(reason, size, "the password file cannot be read: %s", strerrordesc_np(errno));
            return NULL;
        }
        add(&full, "password", password);
    }
    PGconn *conn = PQconnectStartParams(full.keywords, full.values, 1);
    explicit_bzero(password, sizeof password);
    if (conn != NULL)
        (void)PQsetNoticeProcessor(conn, take_notice, NULL);
    bool connected = conn != NULL && PQstatus(conn) != CONNECTION_BAD && finish_connecting(conn, wake, deadline_ms);
    if (connected && begin_session(conn, wake, deadline_ms))
        return conn;
    if (conn != NULL && PQstatus(conn) == CONNECTION_BAD)
        (void)snprintf(reason, size, "%s", PQerrorMessage(conn));
    else
        (void)snprintf(reason, size, "%s", conn == NULL ? "out of memory" : "it does not answer in time");
    pg_one_line(reason);
    if (conn != NULL)
        pg_disconnect(conn);
    return NULL;
}

void pg_copy(char *to, size_t size, const char *text)
{
    (void)snprintf(to, size, "%s", text != NULL ? text : "");
}
