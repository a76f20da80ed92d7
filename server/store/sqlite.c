#include "store/sqlite.h"

#include <stdlib.h>
#include <string.h>

#include "observe/log.h"
#include "server_limits.h"
#include "util/times.h"

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

    /* Tenants, questions, leases; what was there belongs to the tenant "". */
    "DROP INDEX plans_by_state;"
    "DROP INDEX plans_by_model;"
    "ALTER TABLE plans RENAME TO plans_1;"
    "ALTER TABLE models RENAME TO models_1;"
    "CREATE TABLE models ("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT,"
    " tenant TEXT NOT NULL,"
    " id TEXT NOT NULL,"
    " name TEXT NOT NULL,"
    " bytes INTEGER NOT NULL,"
    " created_at INTEGER NOT NULL,"
    " used_at INTEGER NOT NULL,"
    " UNIQUE (tenant, id)"
    ") STRICT;"
    "CREATE INDEX models_by_id ON models (id);"
    "CREATE TABLE plans ("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT,"
    " tenant TEXT NOT NULL,"
    " id TEXT NOT NULL UNIQUE,"
    " model TEXT NOT NULL,"
    " request TEXT NOT NULL,"
    " question TEXT NOT NULL,"
    " priority INTEGER NOT NULL,"
    " state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')),"
    " cancel_requested INTEGER NOT NULL DEFAULT 0,"
    " has_result INTEGER NOT NULL DEFAULT 0,"
    " owner TEXT NOT NULL DEFAULT '',"
    " attempts INTEGER NOT NULL DEFAULT 0,"
    " crashes INTEGER NOT NULL DEFAULT 0,"
    " error TEXT,"
    " created_at INTEGER NOT NULL,"
    " started_at INTEGER NOT NULL DEFAULT 0,"
    " finished_at INTEGER NOT NULL DEFAULT 0,"
    " FOREIGN KEY (tenant, model) REFERENCES models (tenant, id)"
    ") STRICT;"
    "CREATE INDEX plans_by_state ON plans (state, seq);"
    "CREATE INDEX plans_by_model ON plans (model, tenant);"
    "CREATE INDEX plans_by_tenant ON plans (tenant, seq);"
    "CREATE INDEX plans_by_question ON plans (tenant, question);"
    "CREATE INDEX plans_by_end ON plans (finished_at);"
    "CREATE TABLE keys ("
    " tenant TEXT NOT NULL,"
    " key TEXT NOT NULL,"
    " fingerprint TEXT NOT NULL,"
    " plan TEXT NOT NULL REFERENCES plans (id) ON DELETE CASCADE,"
    " created_at INTEGER NOT NULL,"
    " PRIMARY KEY (tenant, key)"
    ") STRICT;"
    "CREATE INDEX keys_by_plan ON keys (plan);"
    "CREATE INDEX keys_by_age ON keys (created_at);"
    "INSERT INTO models SELECT seq, '', id, name, bytes, created_at, created_at FROM models_1;"
    "INSERT INTO plans SELECT seq, '', id, model, request, fingerprint, 0, state, 0, state = 'succeeded', '', attempts,"
    " crashes, error, created_at, started_at, finished_at FROM plans_1;"
    "INSERT INTO keys SELECT '', idempotency_key, fingerprint, id, created_at FROM plans_1"
    " WHERE idempotency_key IS NOT NULL;"
    "DROP TABLE plans_1;"
    "DROP TABLE models_1;",

    /* Counting bytes needs the index alone: many models would keep others from the store otherwise. */
    "DROP INDEX models_by_id; CREATE INDEX models_by_id ON models (id, bytes);",
};

#define SCHEMA_VERSION ((int)(sizeof migrations / sizeof migrations[0]))

/* ---- helpers ---- */

struct sqlite_store *sqlite_lock(struct store *store)
{
    struct sqlite_store *sqlite = (struct sqlite_store *)store;
    (void)pthread_mutex_lock(&sqlite->mutex);
    sqlite_attend(sqlite);
    return sqlite;
}

void sqlite_unlock(struct sqlite_store *store)
{
    (void)pthread_mutex_unlock(&store->mutex);
}

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

/* ---- the store as a whole ---- */

static bool ping(struct store *base, struct problem *problem)
{
    struct sqlite_store *store = sqlite_lock(base);
    static const char what[] = "looking whether the store can be written";
    char set_version[64];
    (void)snprintf(set_version, sizeof set_version, "PRAGMA user_version = %d", SCHEMA_VERSION);
    /* Nothing is written, unless something was refused since that went well: then what is there is written again. */
    bool ok = sqlite_begin_transaction(store, what, problem) &&
              sqlite_number(store, "SELECT count(*) FROM models WHERE seq < 0", NULL, NULL) == 0;
    if (ok && store->refused)
        ok = sqlite_exec_text(store, set_version) || sqlite_fail(store, what, problem);
    ok = sqlite_commit(store, ok, what, problem);
    store->refused = store->refused && !ok;
    sqlite_unlock(store);
    return ok || problem_set(problem, 503, "STORE_ERROR", "The store cannot be read.");
}

static bool lock_model(struct store *base, const char *id, struct problem *problem)
{
    (void)id;
    (void)problem;
    return pthread_mutex_lock(&((struct sqlite_store *)base)->models) == 0;
}

static void unlock_model(struct store *base, const char *id)
{
    (void)id;
    (void)pthread_mutex_unlock(&((struct sqlite_store *)base)->models);
}

static int64_t clock_of_store(struct store *base)
{
    (void)base;
    return times_now();
}

static bool owner_lives(struct store *base, const char *owner)
{
    return strcmp(base->owner, owner) == 0;
}

static bool count(struct store *base, struct store_counts *ret_counts)
{
    struct store_counts counts = {0};
    struct sqlite_store *store = sqlite_lock(base);
    sqlite3_stmt *statement = sqlite_begin(store, "SELECT state, count(*) FROM plans GROUP BY state");
    enum store_found found;
    while ((found = sqlite_row(store, statement, "counting plans")) == STORE_DONE)
        counts.plans[store_state_of(sqlite_column(statement, 0))] = sqlite3_column_int64(statement, 1);
    sqlite_end(statement);
    int64_t oldest = 0;
    if (counts.plans[PLAN_QUEUED] > 0) {
        oldest = sqlite_number(store, "SELECT min(created_at) FROM plans WHERE state = 'queued'", NULL, NULL);
        double age = (double)(times_now() - oldest) / 1000;
        counts.oldest_seconds = age > 0 ? age : 0; /* clocks jump */
    }
    counts.models = sqlite_number(store, "SELECT count(*) FROM models", NULL, NULL);
    counts.blobs = sqlite_number(store, "SELECT count(DISTINCT id) FROM models", NULL, NULL);
    counts.blob_bytes = sqlite_number(
        store, "SELECT coalesce(sum(bytes), 0) FROM (SELECT max(bytes) AS bytes FROM models GROUP BY id)", NULL, NULL);
    sqlite_unlock(store);
    *ret_counts = counts;
    return found == STORE_NOT_FOUND && oldest >= 0 && counts.models >= 0 && counts.blobs >= 0 && counts.blob_bytes >= 0;
}

static void close_store(struct store *base)
{
    struct sqlite_store *store = (struct sqlite_store *)base;
    sqlite_disconnect(store);
    sqlite_forget_files(store);
    (void)pthread_mutex_destroy(&store->mutex);
    (void)pthread_mutex_destroy(&store->models);
    free(store);
}

static const struct store_ops ops = {
    .close = close_store,
    .ping = ping,
    .lock_model = lock_model,
    .unlock_model = unlock_model,
    .add_model = sqlite_add_model,
    .find_model = sqlite_find_model,
    .get_model = sqlite_get_model,
    .touch_model = sqlite_touch_model,
    .delete_model = sqlite_delete_model,
    .list_models = sqlite_list_models,
    .unused_models = sqlite_unused_models,
    .add_plan = sqlite_add_plan,
    .find_plan = sqlite_find_plan,
    .get_plan = sqlite_get_plan,
    .list_plans = sqlite_list_plans,
    .claim = sqlite_claim,
    .beat = sqlite_beat,
    .progress = sqlite_progress,
    .finish = sqlite_finish,
    .requeue = sqlite_requeue,
    .cancel = sqlite_cancel,
    .delete_plan = sqlite_delete_plan,
    .reclaim = sqlite_reclaim,
    .expire = sqlite_expire,
    .time = clock_of_store,
    .owner_lives = owner_lives,
    .count = count,
};

/* ---- opening ---- */

static bool check_integrity(struct sqlite_store *store, struct problem *problem)
{
    sqlite3_stmt *statement = NULL;
    char said[128] = "no answer";
    if (sqlite3_prepare_v2(store->db, "PRAGMA integrity_check(1)", -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        (void)snprintf(said, sizeof said, "%s", sqlite_column(statement, 0));
    (void)sqlite3_finalize(statement);
    return strcmp(said, "ok") == 0 ||
           problem_set(problem, 500, "STORE_DAMAGED",
                       "The database of the data folder is damaged (%s); restore shardplan.db from a backup, or move "
                       "it away to begin anew.",
                       said);
}

static bool migrate(struct sqlite_store *store, struct problem *problem)
{
    int version = (int)sqlite_number(store, "PRAGMA user_version", NULL, NULL);
    if (version < 0)
        return sqlite_fail(store, "reading the schema version", problem);
    if (version > SCHEMA_VERSION)
        return problem_set(problem, 500, "STORE_TOO_NEW",
                           "The data folder was written by a newer version (schema %d, this program knows %d).",
                           version, SCHEMA_VERSION);
    for (; version < SCHEMA_VERSION; version++) {
        char set_version[64];
        (void)snprintf(set_version, sizeof set_version, "PRAGMA user_version = %d", version + 1);
        if (!sqlite_exec_text(store, "BEGIN IMMEDIATE") || !sqlite_exec_text(store, migrations[version]) ||
            !sqlite_exec_text(store, set_version) || !sqlite_exec_text(store, "COMMIT"))
            return sqlite_fail(store, "bringing the schema up to date", problem);
    }
    return true;
}

static bool set_up(struct sqlite_store *store, struct problem *problem)
{
    return sqlite_exec_text(store, "PRAGMA journal_mode = WAL") &&
                   sqlite_exec_text(store, "PRAGMA synchronous = FULL") &&
                   sqlite_exec_text(store, "PRAGMA busy_timeout = 2000") &&
                   sqlite_exec_text(store, "PRAGMA cache_size = -4000") &&
                   sqlite_exec_text(store, "PRAGMA journal_size_limit = 16777216")
               ? true
               : sqlite_fail(store, "opening the database", problem);
}

void sqlite_disconnect(struct sqlite_store *store)
{
    for (size_t i = 0; i < SQLITE_STATEMENTS; i++)
        (void)sqlite3_finalize(store->statements[i].statement);
    memset(store->statements, 0, sizeof store->statements);
    (void)sqlite3_close(store->db);
    store->db = NULL;
}

bool sqlite_connect(struct sqlite_store *store, bool create, struct problem *problem)
{
    int flags = SQLITE_OPEN_READWRITE | (create ? SQLITE_OPEN_CREATE : 0) | SQLITE_OPEN_NOMUTEX;
    bool ok = sqlite3_open_v2(store->file.path, &store->db, flags, NULL) == SQLITE_OK;
    if (!ok && store->db != NULL)
        (void)sqlite_fail(store, "opening the database", problem);
    else if (!ok)
        (void)problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory.");
    /* Foreign keys are off while tables are rebuilt. */
    ok = ok && set_up(store, problem) && check_integrity(store, problem) && migrate(store, problem);
    if (ok && !sqlite_exec_text(store, "PRAGMA foreign_keys = ON"))
        ok = sqlite_fail(store, "opening the database", problem);
    if (ok)
        sqlite_know_files(store);
    else
        sqlite_disconnect(store);
    return ok;
}

bool sqlite_open(const struct store_options *options, struct store **ret_store, struct problem *problem)
{
    struct sqlite_store *store = calloc(1, sizeof *store);
    if (store == NULL)
        return problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory.");
    store_init(&store->base, &ops, options);
    store->folder = options->folder;
    (void)pthread_mutex_init(&store->mutex, NULL);
    (void)pthread_mutex_init(&store->models, NULL);
    bool ok = sqlite_name_files(store, options->path) || problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory.");
    ok = ok && sqlite_connect(store, true, problem);
    if (!ok) {
        close_store(&store->base);
        return false;
    }
    *ret_store = &store->base;
    return true;
}
