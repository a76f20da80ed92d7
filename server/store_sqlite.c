#include "store.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "log.h"
#include "server_limits.h"
#include "store_sqlite.h"

static const char *const state_names[PLAN_STATE_COUNT] = {"queued", "running", "succeeded", "failed", "cancelled"};

/* Each entry brings the schema from version i to i + 1; entries are never changed once released. */
static const char *const migrations[] = {
    "CREATE TABLE models ("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT,"
    " id TEXT NOT NULL UNIQUE,"
    " name TEXT NOT NULL,"
    " bytes INTEGER NOT NULL,"
    " created_at INTEGER NOT NULL"
    ") STRICT;"
    "CREATE TABLE plans ("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT,"
    " id TEXT NOT NULL UNIQUE,"
    " model TEXT NOT NULL REFERENCES models (id),"
    " request TEXT NOT NULL,"
    " state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')),"
    " attempts INTEGER NOT NULL DEFAULT 0,"
    " crashes INTEGER NOT NULL DEFAULT 0,"
    " error TEXT,"
    " idempotency_key TEXT UNIQUE,"
    " fingerprint TEXT NOT NULL,"
    " created_at INTEGER NOT NULL,"
    " started_at INTEGER NOT NULL DEFAULT 0,"
    " finished_at INTEGER NOT NULL DEFAULT 0"
    ") STRICT;"
    "CREATE INDEX plans_by_state ON plans (state, seq);"
    "CREATE INDEX plans_by_model ON plans (model);",
};

#define SCHEMA_VERSION ((int)(sizeof migrations / sizeof migrations[0]))

const char *store_state_name(enum plan_state state)
{
    return state < PLAN_STATE_COUNT ? state_names[state] : "unknown";
}

enum plan_state store_state_of(const char *name)
{
    for (int i = 0; i < PLAN_STATE_COUNT; i++) {
        if (name != NULL && strcmp(name, state_names[i]) == 0)
            return (enum plan_state)i;
    }
    return PLAN_FAILED;
}

int64_t store_now(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool store_fail(struct store *store, const char *what, struct problem *problem)
{
    int code = sqlite3_errcode(store->db);
    LOG(LOG_ERROR, "store error", log_s("doing", what), log_s("error", sqlite3_errmsg(store->db)));
    if (problem == NULL)
        return false;
    if (code == SQLITE_FULL)
        return problem_set(problem, 507, "DISK_FULL",
                           "The disk of the data folder is full; delete plans or models, or add space.");
    return problem_set(problem, 500, "STORE_ERROR", "The store failed (%s): %s.", what, sqlite3_errmsg(store->db));
}

bool store_exec(struct store *store, const char *sql)
{
    return sqlite3_exec(store->db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

sqlite3_stmt *store_prepare(struct store *store, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL) != SQLITE_OK)
        (void)store_fail(store, sql, NULL);
    return statement;
}

void store_bind(sqlite3_stmt *statement, int index, const char *text)
{
    if (text == NULL)
        (void)sqlite3_bind_null(statement, index);
    else
        (void)sqlite3_bind_text(statement, index, text, -1, SQLITE_STATIC);
}

bool store_run(struct store *store, sqlite3_stmt *statement, const char *what, struct problem *problem)
{
    bool ok = statement != NULL && sqlite3_step(statement) == SQLITE_DONE;
    if (!ok)
        (void)store_fail(store, what, problem);
    (void)sqlite3_finalize(statement);
    return ok;
}

bool store_exists(struct store *store, const char *sql, const char *id)
{
    (void)pthread_mutex_lock(&store->mutex);
    sqlite3_stmt *statement = store_prepare(store, sql);
    if (statement != NULL)
        store_bind(statement, 1, id);
    bool found = statement != NULL && sqlite3_step(statement) == SQLITE_ROW;
    (void)sqlite3_finalize(statement);
    (void)pthread_mutex_unlock(&store->mutex);
    return found;
}

static int schema_version(struct store *store)
{
    int version = -1;
    sqlite3_stmt *statement = store_prepare(store, "PRAGMA user_version");
    if (statement != NULL && sqlite3_step(statement) == SQLITE_ROW)
        version = sqlite3_column_int(statement, 0);
    (void)sqlite3_finalize(statement);
    return version;
}

static bool migrate(struct store *store, struct problem *problem)
{
    int version = schema_version(store);
    if (version < 0)
        return store_fail(store, "reading the schema version", problem);
    if (version > SCHEMA_VERSION)
        return problem_set(problem, 500, "STORE_TOO_NEW",
                           "The data folder was written by a newer version (schema %d, this program knows %d).",
                           version, SCHEMA_VERSION);
    for (; version < SCHEMA_VERSION; version++) {
        char set_version[64];
        (void)snprintf(set_version, sizeof set_version, "PRAGMA user_version = %d", version + 1);
        if (!store_exec(store, "BEGIN IMMEDIATE") || !store_exec(store, migrations[version]) ||
            !store_exec(store, set_version) || !store_exec(store, "COMMIT"))
            return store_fail(store, "bringing the schema up to date", problem);
    }
    return true;
}

bool store_open(const char *path, struct store **ret_store, struct problem *problem)
{
    struct store *store = calloc(1, sizeof *store);
    if (store == NULL)
        return problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory.");
    (void)pthread_mutex_init(&store->mutex, NULL);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(path, &store->db, flags, NULL) != SQLITE_OK ||
        !store_exec(store, "PRAGMA journal_mode = WAL") || !store_exec(store, "PRAGMA synchronous = FULL") ||
        !store_exec(store, "PRAGMA foreign_keys = ON") || !store_exec(store, "PRAGMA busy_timeout = 5000") ||
        !store_exec(store, "PRAGMA cache_size = -4000") || !store_exec(store, "PRAGMA journal_size_limit = 16777216")) {
        if (store->db != NULL)
            (void)store_fail(store, "opening the database", problem);
        else
            (void)problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory.");
        store_close(store);
        return false;
    }
    if (!migrate(store, problem)) {
        store_close(store);
        return false;
    }
    *ret_store = store;
    return true;
}

void store_close(struct store *store)
{
    if (store == NULL)
        return;
    (void)sqlite3_close(store->db);
    (void)pthread_mutex_destroy(&store->mutex);
    free(store);
}

bool store_counts(struct store *store, int64_t ret_counts[PLAN_STATE_COUNT], double *ret_oldest_seconds,
                  int64_t *ret_models)
{
    memset(ret_counts, 0, sizeof *ret_counts * PLAN_STATE_COUNT);
    *ret_oldest_seconds = 0;
    *ret_models = 0;
    (void)pthread_mutex_lock(&store->mutex);
    sqlite3_stmt *statement =
        store_prepare(store, "SELECT state, count(*), min(created_at) FROM plans GROUP BY state UNION ALL "
                             "SELECT 'models', count(*), 0 FROM models");
    int step = SQLITE_ERROR;
    while (statement != NULL && (step = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(statement, 0);
        int64_t count = sqlite3_column_int64(statement, 1);
        if (name != NULL && strcmp(name, "models") == 0) {
            *ret_models = count;
            continue;
        }
        enum plan_state state = store_state_of(name);
        ret_counts[state] = count;
        if (state == PLAN_QUEUED && count > 0) {
            double age = (double)(store_now() - sqlite3_column_int64(statement, 2)) / 1000;
            *ret_oldest_seconds = age > 0 ? age : 0; /* clocks jump */
        }
    }
    (void)sqlite3_finalize(statement);
    (void)pthread_mutex_unlock(&store->mutex);
    return step == SQLITE_DONE;
}
