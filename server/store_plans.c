#include <stdlib.h>
#include <string.h>

#include "server_limits.h"
#include "store_sqlite.h"

#define COLUMNS "seq, id, model, request, state, attempts, crashes, error, created_at, started_at, finished_at"

static const char *text_of(sqlite3_stmt *statement, int column)
{
    return (const char *)sqlite3_column_text(statement, column);
}

static bool read_row(sqlite3_stmt *statement, struct plan_row *row)
{
    memset(row, 0, sizeof *row);
    const char *id = text_of(statement, 1), *model = text_of(statement, 2), *request = text_of(statement, 3);
    const char *error = text_of(statement, 7);
    row->seq = sqlite3_column_int64(statement, 0);
    (void)snprintf(row->id, sizeof row->id, "%s", id != NULL ? id : "");
    (void)snprintf(row->model, sizeof row->model, "%s", model != NULL ? model : "");
    row->request = strdup(request != NULL ? request : "{}");
    row->state = store_state_of(text_of(statement, 4));
    row->attempts = sqlite3_column_int64(statement, 5);
    row->crashes = sqlite3_column_int64(statement, 6);
    row->error = error != NULL ? strdup(error) : NULL;
    row->created_at = sqlite3_column_int64(statement, 8);
    row->started_at = sqlite3_column_int64(statement, 9);
    row->finished_at = sqlite3_column_int64(statement, 10);
    return row->request != NULL && (error == NULL || row->error != NULL);
}

void store_release_plan(struct plan_row *row)
{
    free(row->request);
    free(row->error);
    row->request = row->error = NULL;
}

/* Looks at what an earlier request with this key was; STORE_ADDED means: none. */
static enum store_added check_key(struct store *store, struct plan_row *row, const char *key, const char *fingerprint)
{
    enum store_added result = STORE_FAILED;
    sqlite3_stmt *statement = store_prepare(store, "SELECT id, fingerprint FROM plans WHERE idempotency_key = ?1");
    if (statement == NULL)
        return STORE_FAILED;
    store_bind(statement, 1, key);
    int step = sqlite3_step(statement);
    if (step == SQLITE_DONE) {
        result = STORE_ADDED;
    } else if (step == SQLITE_ROW) {
        const char *known = text_of(statement, 1), *id = text_of(statement, 0);
        result = known != NULL && strcmp(known, fingerprint) == 0 ? STORE_EXISTS : STORE_KEY_REUSED;
        if (result == STORE_EXISTS)
            (void)snprintf(row->id, sizeof row->id, "%s", id != NULL ? id : "");
    }
    (void)sqlite3_finalize(statement);
    return result;
}

static int64_t count_queued(struct store *store)
{
    int64_t count = -1;
    sqlite3_stmt *statement = store_prepare(store, "SELECT count(*) FROM plans WHERE state = 'queued'");
    if (statement != NULL && sqlite3_step(statement) == SQLITE_ROW)
        count = sqlite3_column_int64(statement, 0);
    (void)sqlite3_finalize(statement);
    return count;
}

static enum store_added insert(struct store *store, struct plan_row *row, const char *key, const char *fingerprint,
                               struct problem *problem)
{
    sqlite3_stmt *statement =
        store_prepare(store, "INSERT INTO plans (id, model, request, state, idempotency_key, fingerprint, created_at) "
                             "VALUES (?1, ?2, ?3, 'queued', ?4, ?5, ?6)");
    if (statement == NULL) {
        (void)store_fail(store, "adding a plan", problem);
        return STORE_FAILED;
    }
    store_bind(statement, 1, row->id);
    store_bind(statement, 2, row->model);
    store_bind(statement, 3, row->request);
    store_bind(statement, 4, key);
    store_bind(statement, 5, fingerprint);
    (void)sqlite3_bind_int64(statement, 6, store_now());
    int step = sqlite3_step(statement);
    enum store_added result = STORE_ADDED;
    if (sqlite3_extended_errcode(store->db) == SQLITE_CONSTRAINT_FOREIGNKEY) {
        result = STORE_NO_MODEL;
    } else if (step != SQLITE_DONE) {
        (void)store_fail(store, "adding a plan", problem);
        result = STORE_FAILED;
    }
    (void)sqlite3_finalize(statement);
    return result;
}

enum store_added store_add_plan(struct store *store, struct plan_row *row, const char *key, const char *fingerprint,
                                unsigned queue_limit, struct problem *problem)
{
    enum store_added result = STORE_ADDED;
    (void)pthread_mutex_lock(&store->mutex);
    if (!store_exec(store, "BEGIN IMMEDIATE")) {
        (void)store_fail(store, "adding a plan", problem);
        result = STORE_FAILED;
        goto unlock;
    }
    if (key != NULL)
        result = check_key(store, row, key, fingerprint);
    if (result == STORE_ADDED && count_queued(store) >= (int64_t)queue_limit)
        result = STORE_FULL;
    if (result == STORE_ADDED)
        result = insert(store, row, key, fingerprint, problem);
    if (result == STORE_ADDED && !store_exec(store, "COMMIT")) {
        (void)store_fail(store, "adding a plan", problem);
        result = STORE_FAILED;
    }
    /* A failed statement may have ended the transaction already. */
    if (result != STORE_ADDED && sqlite3_get_autocommit(store->db) == 0)
        (void)store_exec(store, "ROLLBACK");
    if (result == STORE_FAILED)
        (void)problem_set(problem, 500, "STORE_ERROR", "The store could not take the plan.");
unlock:
    (void)pthread_mutex_unlock(&store->mutex);
    return result;
}

bool store_has_plan(struct store *store, const char *id)
{
    return store_exists(store, "SELECT 1 FROM plans WHERE id = ?1", id);
}

bool store_get_plan(struct store *store, const char *id, struct plan_row *ret_row)
{
    (void)pthread_mutex_lock(&store->mutex);
    sqlite3_stmt *statement = store_prepare(store, "SELECT " COLUMNS " FROM plans WHERE id = ?1");
    if (statement != NULL)
        store_bind(statement, 1, id);
    bool found = statement != NULL && sqlite3_step(statement) == SQLITE_ROW;
    if (found && !read_row(statement, ret_row)) {
        store_release_plan(ret_row);
        found = false;
    }
    (void)sqlite3_finalize(statement);
    (void)pthread_mutex_unlock(&store->mutex);
    return found;
}

bool store_list_plans(struct store *store, int64_t before, int limit,
                      void (*each)(void *context, const struct plan_row *row), void *context)
{
    (void)pthread_mutex_lock(&store->mutex);
    sqlite3_stmt *statement =
        store_prepare(store, "SELECT " COLUMNS " FROM plans WHERE seq < ?1 ORDER BY seq DESC LIMIT ?2");
    int step = SQLITE_ERROR;
    if (statement != NULL) {
        (void)sqlite3_bind_int64(statement, 1, before);
        (void)sqlite3_bind_int(statement, 2, limit);
        while ((step = sqlite3_step(statement)) == SQLITE_ROW) {
            struct plan_row row;
            if (read_row(statement, &row))
                each(context, &row);
            store_release_plan(&row);
        }
    }
    (void)sqlite3_finalize(statement);
    (void)pthread_mutex_unlock(&store->mutex);
    return step == SQLITE_DONE;
}

bool store_claim(struct store *store, struct plan_row *ret_row)
{
    (void)pthread_mutex_lock(&store->mutex);
    sqlite3_stmt *statement =
        store_prepare(store, "UPDATE plans SET state = 'running', attempts = attempts + 1, started_at = ?1 WHERE seq = "
                             "(SELECT min(seq) FROM plans WHERE state = 'queued') RETURNING " COLUMNS);
    if (statement != NULL)
        (void)sqlite3_bind_int64(statement, 1, store_now());
    int step = statement != NULL ? sqlite3_step(statement) : SQLITE_ERROR;
    bool found = step == SQLITE_ROW && read_row(statement, ret_row);
    /* The change is committed when the statement has run to its end. */
    if (found && sqlite3_step(statement) != SQLITE_DONE) {
        store_release_plan(ret_row);
        found = false;
    }
    if (!found && step != SQLITE_DONE)
        (void)store_fail(store, "claiming a plan", NULL);
    (void)sqlite3_finalize(statement);
    (void)pthread_mutex_unlock(&store->mutex);
    return found;
}

/* Runs an update of one plan and tells whether it changed anything. ?1 is the id, ?2 the time, ?3 a text. */
static bool update(struct store *store, const char *sql, const char *id, const char *text, const char *what)
{
    (void)pthread_mutex_lock(&store->mutex);
    sqlite3_stmt *statement = store_prepare(store, sql);
    if (statement != NULL) {
        store_bind(statement, 1, id);
        (void)sqlite3_bind_int64(statement, 2, store_now());
        store_bind(statement, 3, text);
    }
    bool ok = store_run(store, statement, what, NULL) && sqlite3_changes(store->db) > 0;
    (void)pthread_mutex_unlock(&store->mutex);
    return ok;
}

bool store_finish(struct store *store, const char *id, const char *error)
{
    return update(store,
                  "UPDATE plans SET state = CASE WHEN ?3 IS NULL THEN 'succeeded' ELSE 'failed' END, error = ?3, "
                  "finished_at = ?2 WHERE id = ?1 AND state = 'running'",
                  id, error, "finishing a plan");
}

bool store_requeue(struct store *store, const char *id, bool crashed)
{
    return update(store,
                  "UPDATE plans SET state = 'queued', crashes = crashes + (?3 = 'crashed'), started_at = 0 "
                  "WHERE id = ?1 AND state = 'running'",
                  id, crashed ? "crashed" : "interrupted", "queuing a plan again");
}

enum store_found store_cancel(struct store *store, const char *id)
{
    if (update(store,
               "UPDATE plans SET state = 'cancelled', finished_at = ?2, error = ?3 WHERE id = ?1 AND state IN "
               "('queued', 'running')",
               id, NULL, "cancelling a plan"))
        return STORE_DONE;
    return store_has_plan(store, id) ? STORE_DONE : STORE_NOT_FOUND;
}

enum store_found store_delete_plan(struct store *store, const char *id)
{
    enum store_found found = STORE_ERROR;
    (void)pthread_mutex_lock(&store->mutex);
    sqlite3_stmt *statement = store_prepare(store, "DELETE FROM plans WHERE id = ?1");
    if (statement != NULL)
        store_bind(statement, 1, id);
    if (store_run(store, statement, "deleting a plan", NULL))
        found = sqlite3_changes(store->db) > 0 ? STORE_DONE : STORE_NOT_FOUND;
    (void)pthread_mutex_unlock(&store->mutex);
    return found;
}

int64_t store_recover(struct store *store)
{
    int64_t count = -1;
    (void)pthread_mutex_lock(&store->mutex);
    sqlite3_stmt *statement = store_prepare(
        store, "UPDATE plans SET state = 'failed', finished_at = ?1, error = ?3 WHERE state = 'running' AND "
               "attempts >= ?2");
    if (statement != NULL) {
        (void)sqlite3_bind_int64(statement, 1, store_now());
        (void)sqlite3_bind_int64(statement, 2, SPD_MAX_ATTEMPTS);
        store_bind(
            statement, 3,
            "{\"status\":500,\"code\":\"INTERRUPTED_TOO_OFTEN\",\"detail\":\"The plan was started many times and "
            "the daemon died each time.\"}");
    }
    if (store_run(store, statement, "recovering", NULL)) {
        statement = store_prepare(store, "UPDATE plans SET state = 'queued', started_at = 0 WHERE state = 'running'");
        if (store_run(store, statement, "recovering", NULL))
            count = sqlite3_changes(store->db);
    }
    (void)pthread_mutex_unlock(&store->mutex);
    return count;
}
