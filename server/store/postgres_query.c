#include <stdlib.h>
#include <string.h>

#include "observe/log.h"
#include "store/postgres.h"

/* ---- failures ---- */

/* What a client is told of a refusal of the server; the log has the server's words. */
static void explain(const struct pg_call *call, struct problem *problem)
{
    if (strncmp(call->sqlstate, "53100", 5) == 0)
        (void)problem_set(problem, 507, "DISK_FULL", "The disk of the database is full; add space.");
    else if (strcmp(call->sqlstate, "25006") == 0)
        (void)problem_set(problem, 503, "STORE_READ_ONLY",
                          "The database cannot be written at the moment; what is stored can be read.");
    else if (call->connection == NULL || call->connection->broken)
        (void)problem_set(problem, 503, "STORE_UNAVAILABLE",
                          "The database went away while it was %s; whether it did is not known.", call->doing);
    else if (strcmp(call->sqlstate, "57014") == 0)
        (void)problem_set(problem, 503, "STORE_UNAVAILABLE", "The database is busy; try again later.");
    else
        (void)problem_set(problem, 503, "STORE_ERROR", "The database refused (%s).", call->doing);
}

/* The statement failed: logs what the server said and marks the call. */
static void fail(struct pg_call *call, PGresult *result)
{
    char said[256];
    PGconn *conn = call->connection->conn;
    const char *sqlstate = result != NULL ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    pg_copy(call->sqlstate, sizeof call->sqlstate, sqlstate);
    /* Without an answer, or after one that ends the session; a server that became read-only is another one now. */
    if (result == NULL || PQstatus(conn) != CONNECTION_OK || strcmp(call->sqlstate, "25006") == 0)
        call->connection->broken = true;
    pg_copy(said, sizeof said, result != NULL ? PQresultErrorMessage(result) : PQerrorMessage(conn));
    pg_one_line(said);
    call->failed = true;
    /* That somebody was faster, or that plans refer to a model, is no error. */
    if (!pg_is_conflict(call) && strcmp(call->sqlstate, "23503") != 0)
        LOG(LOG_ERROR, "store error", log_s("doing", call->doing), log_s("state", call->sqlstate),
            log_s("error", said[0] != '\0' ? said : "no answer in time"));
    PQclear(result);
}

bool pg_is_conflict(const struct pg_call *call)
{
    static const char *const states[] = {"40001", "40P01", "23505"}; /* serialization, deadlock, not unique */
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        if (strcmp(call->sqlstate, states[i]) == 0)
            return true;
    }
    return false;
}

/* ---- statements ---- */

/* The number of the literal among those that were prepared on the connection, preparing it when it is new; -1 when the
   call failed. */
static int prepare(struct pg_call *call, const char *sql)
{
    struct pg_connection *connection = call->connection;
    int i = 0;
    while (i < PG_STATEMENTS && connection->prepared[i] != NULL && connection->prepared[i] != sql)
        i++;
    if (i == PG_STATEMENTS) {
        LOG(LOG_ERROR, "store has too many statements", log_s("sql", sql));
        call->failed = true;
        return -1;
    }
    if (connection->prepared[i] == sql)
        return i;
    char name[16];
    PGresult *result = NULL;
    (void)snprintf(name, sizeof name, "s%d", i);
    if (PQsendPrepare(connection->conn, name, sql, 0, NULL) != 0)
        result = pg_await(connection->conn, -1, call->deadline_ms);
    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        fail(call, result);
        return -1;
    }
    PQclear(result);
    connection->prepared[i] = sql;
    return i;
}

/* Sends a statement once, on the connection that the call has. NULL: failed. */
static PGresult *send(struct pg_call *call, const char *sql, const struct pg_value *values, size_t count)
{
    const char *texts[PG_MAX_VALUES];
    char numbers[PG_MAX_VALUES][24], name[16];
    int statement = prepare(call, sql);
    if (statement < 0)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(numbers[i], sizeof numbers[i], "%lld", (long long)values[i].number);
        texts[i] = values[i].is_number ? numbers[i] : values[i].text;
    }
    PGresult *result = NULL;
    PGconn *conn = call->connection->conn;
    (void)snprintf(name, sizeof name, "s%d", statement);
    if (PQsendQueryPrepared(conn, name, (int)count, texts, NULL, NULL, 0) != 0)
        result = pg_await(conn, -1, call->deadline_ms);
    ExecStatusType status = PQresultStatus(result);
    if (result != NULL && (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK))
        return result;
    fail(call, result);
    return NULL;
}

PGresult *pg_query(struct pg_call *call, const char *sql, const struct pg_value *values, size_t count)
{
    if (call->failed || count > PG_MAX_VALUES)
        return NULL;
    bool is_free = PQtransactionStatus(call->connection->conn) == PQTRANS_IDLE;
    PGresult *result = send(call, sql, values, count);
    /* The server was started again since the last call: a question outside of transactions can be asked once more. */
    if (result == NULL && is_free && call->connection->broken && strncmp(sql, "SELECT ", 7) == 0 && pg_renew(call))
        result = send(call, sql, values, count);
    if (result == NULL && call->problem != NULL && !pg_is_conflict(call))
        explain(call, call->problem);
    return result;
}

/* ---- results ---- */

int64_t pg_count(PGresult *result)
{
    int64_t count = -1;
    if (result == NULL)
        return count;
    const char *changed = PQcmdTuples(result);
    count = PQresultStatus(result) == PGRES_TUPLES_OK ? PQntuples(result) : strtoll(changed, NULL, 10);
    PQclear(result);
    return count;
}

int64_t pg_number(PGresult *result)
{
    int64_t number = result != NULL && PQntuples(result) > 0 ? pg_int_at(result, 0, 0) : -1;
    PQclear(result);
    return number;
}

const char *pg_text_at(const PGresult *result, int row, int column)
{
    return PQgetisnull(result, row, column) != 0 ? NULL : PQgetvalue(result, row, column);
}

int64_t pg_int_at(const PGresult *result, int row, int column)
{
    return strtoll(PQgetvalue(result, row, column), NULL, 10);
}

double pg_double_at(const PGresult *result, int row, int column)
{
    return strtod(PQgetvalue(result, row, column), NULL);
}

/* ---- transactions ---- */

bool pg_transaction(struct pg_call *call)
{
    return pg_count(PG_QUERY(call, "BEGIN")) >= 0;
}

bool pg_commit(struct pg_call *call)
{
    return pg_count(PG_QUERY(call, "COMMIT")) >= 0;
}

/* It ends with the transaction, so nobody goes on without it. */
static bool take_lock(struct pg_call *call, int64_t kind, const char *name)
{
    return pg_count(PG_QUERY(call, "SELECT pg_advisory_xact_lock($1::int, hashtext($2::text))", pg_i(kind),
                             pg_s(name))) >= 0;
}

bool pg_lock_tenant(struct pg_call *call, const char *tenant)
{
    return take_lock(call, PG_LOCK_TENANT, tenant);
}

bool pg_lock_model(struct pg_call *call, const char *id)
{
    return take_lock(call, PG_LOCK_MODEL, id);
}
