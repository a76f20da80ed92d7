/* Statements of SQLite, and what becomes of them. */
#include "observe/log.h"
#include "store/sqlite.h"

bool sqlite_fail(struct sqlite_store *store, const char *what, struct problem *problem)
{
    if (store->away) { /* which was logged when it began */
        if (problem != NULL && problem->status == 0)
            *problem = store->why;
        return false;
    }
    int code = sqlite3_errcode(store->db) & 0xff;
    store->refused = store->refused || code == SQLITE_FULL || code == SQLITE_IOERR || code == SQLITE_READONLY;
    LOG(LOG_ERROR, "store error", log_s("doing", what), log_s("error", sqlite3_errmsg(store->db)));
    if (problem == NULL)
        return false;
    if (code == SQLITE_FULL)
        return problem_set(problem, 507, "DISK_FULL",
                           "The disk of the data folder is full; delete plans or models, or add space.");
    if (code == SQLITE_READONLY)
        return problem_set(
            problem, 503, "STORE_READ_ONLY",
            "The database of the data folder cannot be written at the moment; what is stored can be read.");
    return problem_set(problem, 503, "STORE_ERROR", "The store failed (%s): %s.", what, sqlite3_errmsg(store->db));
}

bool sqlite_exec_text(struct sqlite_store *store, const char *sql)
{
    return !store->away && sqlite3_exec(store->db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

sqlite3_stmt *sqlite_begin(struct sqlite_store *store, const char *sql)
{
    size_t i = 0;
    if (store->away)
        return NULL;
    while (i < SQLITE_STATEMENTS && store->statements[i].sql != NULL && store->statements[i].sql != sql)
        i++;
    if (i == SQLITE_STATEMENTS) {
        LOG(LOG_ERROR, "store has too many statements", log_s("sql", sql));
        return NULL;
    }
    if (store->statements[i].statement == NULL &&
        sqlite3_prepare_v3(store->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &store->statements[i].statement, NULL) !=
            SQLITE_OK) {
        (void)sqlite_fail(store, sql, NULL);
        return NULL;
    }
    store->statements[i].sql = sql;
    return store->statements[i].statement;
}

void sqlite_end(sqlite3_stmt *statement)
{
    if (statement == NULL)
        return;
    (void)sqlite3_reset(statement);
    (void)sqlite3_clear_bindings(statement);
}

void sqlite_text(sqlite3_stmt *statement, int index, const char *text)
{
    if (statement == NULL)
        return;
    if (text == NULL)
        (void)sqlite3_bind_null(statement, index);
    else
        (void)sqlite3_bind_text(statement, index, text, -1, SQLITE_STATIC);
}

void sqlite_int(sqlite3_stmt *statement, int index, int64_t value)
{
    if (statement != NULL)
        (void)sqlite3_bind_int64(statement, index, value);
}

const char *sqlite_column(sqlite3_stmt *statement, int column)
{
    return (const char *)sqlite3_column_text(statement, column);
}

int sqlite_run(struct sqlite_store *store, sqlite3_stmt *statement, const char *what, struct problem *problem)
{
    int changed = -1;
    if (statement != NULL && sqlite3_step(statement) == SQLITE_DONE)
        changed = sqlite3_changes(store->db);
    else
        (void)sqlite_fail(store, what, problem);
    sqlite_end(statement);
    return changed;
}

int64_t sqlite_number(struct sqlite_store *store, const char *sql, const char *first, const char *second)
{
    int64_t number = -1;
    sqlite3_stmt *statement = sqlite_begin(store, sql);
    if (first != NULL)
        sqlite_text(statement, 1, first);
    if (second != NULL)
        sqlite_text(statement, 2, second);
    if (sqlite_row(store, statement, "counting") == STORE_DONE)
        number = sqlite3_column_int64(statement, 0);
    sqlite_end(statement);
    return number;
}

bool sqlite_begin_transaction(struct sqlite_store *store, const char *what, struct problem *problem)
{
    return sqlite_exec_text(store, "BEGIN IMMEDIATE") || sqlite_fail(store, what, problem);
}

bool sqlite_commit(struct sqlite_store *store, bool ok, const char *what, struct problem *problem)
{
    if (ok && !sqlite_exec_text(store, "COMMIT"))
        ok = sqlite_fail(store, what, problem);
    /* A failed statement may have ended the transaction already. */
    if (!ok && !store->away && sqlite3_get_autocommit(store->db) == 0)
        (void)sqlite_exec_text(store, "ROLLBACK");
    return ok;
}

enum store_found sqlite_row(struct sqlite_store *store, sqlite3_stmt *statement, const char *what)
{
    int step = statement != NULL ? sqlite3_step(statement) : SQLITE_ERROR;
    if (step == SQLITE_ROW)
        return STORE_DONE;
    if (step == SQLITE_DONE)
        return STORE_NOT_FOUND;
    (void)sqlite_fail(store, what, NULL);
    return STORE_ERROR;
}
