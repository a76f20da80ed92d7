/* The database: opened, looked through, brought to this program's schema. */
#include <string.h>
#include <sys/stat.h>

#include "store/sqlite.h"

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

    /* When a tenant was served last. */
    "CREATE INDEX plans_by_start ON plans (tenant, started_at);",

    /* What a store keeps for all daemons under a name. */
    "CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;",

    /* Uploads by parts, and the files beside models. */
    "CREATE TABLE uploads ("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT,"
    " tenant TEXT NOT NULL,"
    " id TEXT NOT NULL UNIQUE,"
    " bytes INTEGER NOT NULL,"
    " digest TEXT NOT NULL,"
    " is_complete INTEGER NOT NULL DEFAULT 0,"
    " created_at INTEGER NOT NULL,"
    " expires_at INTEGER NOT NULL"
    ") STRICT;"
    "CREATE INDEX uploads_by_tenant ON uploads (tenant, bytes);"
    "CREATE INDEX uploads_by_end ON uploads (expires_at);"
    "CREATE TABLE files ("
    " tenant TEXT NOT NULL,"
    " model TEXT NOT NULL,"
    " location TEXT NOT NULL,"
    " blob TEXT NOT NULL,"
    " bytes INTEGER NOT NULL,"
    " PRIMARY KEY (tenant, model, location),"
    " FOREIGN KEY (tenant, model) REFERENCES models (tenant, id) ON DELETE CASCADE"
    ") STRICT;"
    "CREATE INDEX files_by_blob ON files (blob, bytes);",

    /* Numbers of files, see store.h. What there is has the number 0. */
    "ALTER TABLE models ADD COLUMN blob INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE models ADD COLUMN inspection INTEGER NOT NULL DEFAULT 0;"
    "CREATE TABLE reservations ("
    " number INTEGER PRIMARY KEY AUTOINCREMENT,"
    " model TEXT NOT NULL,"
    " owner TEXT NOT NULL"
    ") STRICT;",

    /* Which files of a plan's result an object store has. */
    "ALTER TABLE plans ADD COLUMN files TEXT;",

    /* The hash of an inspection that an object store has. */
    "ALTER TABLE models ADD COLUMN inspection_sha256 TEXT NOT NULL DEFAULT '';",

    /* The plans of a tenant that wait, in their order; whose turn it is does not depend on when one was served. */
    ("DROP INDEX plans_by_start;"
     "CREATE INDEX plans_waiting ON plans (tenant, priority DESC, seq) WHERE state = 'queued';"),
};

const int sqlite_schema_version = (int)(sizeof migrations / sizeof migrations[0]);

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
    if (version > sqlite_schema_version)
        return problem_set(problem, 500, "STORE_TOO_NEW",
                           "The data folder was written by a newer version (schema %d, this program knows %d).",
                           version, sqlite_schema_version);
    for (; version < sqlite_schema_version; version++) {
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

/* False with errno when there is no such file. */
static bool know(struct sqlite_file *file)
{
    struct stat info;
    if (stat(file->path, &info) != 0)
        return false;
    file->device = info.st_dev;
    file->number = info.st_ino;
    return true;
}

static void know_files(struct sqlite_store *store)
{
    (void)know(&store->file); /* else the next call finds another file */
    (void)know(&store->log);
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
        know_files(store);
    else
        sqlite_disconnect(store);
    return ok;
}
