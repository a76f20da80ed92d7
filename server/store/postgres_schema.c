#include <string.h>

#include "observe/log.h"
#include "server.h"
#include "store/postgres.h"

/* Texts are compared byte by byte. */
#define TEXT "text COLLATE \"C\""

/* Each entry brings the schema from version i to i + 1; entries are never changed once released. Daemons of the version
   before may still run meanwhile: what they use stays until a later entry. */
static const char *const migrations[] = {
    "CREATE TABLE models ("
    " seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
    " tenant " TEXT " NOT NULL,"
    " id " TEXT " NOT NULL,"
    " name text NOT NULL,"
    " bytes bigint NOT NULL,"
    " created_at bigint NOT NULL,"
    " used_at bigint NOT NULL,"
    " UNIQUE (tenant, id)"
    ");"
    "CREATE INDEX models_by_id ON models (id);"
    "CREATE TABLE plans ("
    " seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
    " tenant " TEXT " NOT NULL,"
    " id " TEXT " NOT NULL UNIQUE,"
    " model " TEXT " NOT NULL,"
    " request text NOT NULL,"
    " question " TEXT " NOT NULL,"
    " priority integer NOT NULL,"
    " state " TEXT " NOT NULL CHECK (state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')),"
    " cancel_requested boolean NOT NULL DEFAULT false,"
    " has_result boolean NOT NULL DEFAULT false,"
    " owner " TEXT " NOT NULL DEFAULT '',"
    " lease_until bigint NOT NULL DEFAULT 0,"
    " attempts bigint NOT NULL DEFAULT 0,"
    " crashes bigint NOT NULL DEFAULT 0,"
    " error text,"
    " phase text NOT NULL DEFAULT '',"
    " fraction double precision NOT NULL DEFAULT 0,"
    " best_seconds double precision NOT NULL DEFAULT 0,"
    " lower_bound_seconds double precision NOT NULL DEFAULT 0,"
    " created_at bigint NOT NULL,"
    " started_at bigint NOT NULL DEFAULT 0,"
    " finished_at bigint NOT NULL DEFAULT 0,"
    " FOREIGN KEY (tenant, model) REFERENCES models (tenant, id)"
    ");"
    "CREATE INDEX plans_queued ON plans (seq) WHERE state = 'queued';"
    "CREATE INDEX plans_running ON plans (owner, tenant) WHERE state = 'running';"
    "CREATE INDEX plans_open ON plans (tenant) WHERE state IN ('queued', 'running');"
    "CREATE INDEX plans_by_model ON plans (model, tenant);"
    "CREATE INDEX plans_by_tenant ON plans (tenant, seq);"
    "CREATE INDEX plans_by_question ON plans (tenant, question);"
    "CREATE INDEX plans_by_end ON plans (finished_at) WHERE finished_at > 0;"
    "CREATE TABLE keys ("
    " tenant " TEXT " NOT NULL,"
    " key " TEXT " NOT NULL,"
    " fingerprint " TEXT " NOT NULL,"
    " plan " TEXT " NOT NULL REFERENCES plans (id) ON DELETE CASCADE,"
    " created_at bigint NOT NULL,"
    " PRIMARY KEY (tenant, key)"
    ");"
    "CREATE INDEX keys_by_plan ON keys (plan);"
    "CREATE INDEX keys_by_age ON keys (created_at);"
    "CREATE TABLE daemons ("
    " owner " TEXT " PRIMARY KEY,"
    " lease_ms bigint NOT NULL,"
    " started_at bigint NOT NULL,"
    " beat_at bigint NOT NULL"
    ") WITH (fillfactor = 50);",

    /* Counting bytes needs the index alone. */
    "DROP INDEX models_by_id; CREATE INDEX models_by_id ON models (id, bytes);",

    /* When a tenant was served last. */
    "CREATE INDEX plans_by_start ON plans (tenant, started_at);",

    /* What a store keeps for all daemons under a name. */
    "CREATE TABLE settings (name " TEXT " PRIMARY KEY, value text NOT NULL);",

    /* Uploads by parts, and the files beside models. */
    "CREATE TABLE uploads ("
    " seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
    " tenant " TEXT " NOT NULL,"
    " id " TEXT " NOT NULL UNIQUE,"
    " bytes bigint NOT NULL,"
    " digest " TEXT " NOT NULL,"
    " is_complete boolean NOT NULL DEFAULT false,"
    " created_at bigint NOT NULL,"
    " expires_at bigint NOT NULL"
    ");"
    "CREATE INDEX uploads_by_tenant ON uploads (tenant, bytes);"
    "CREATE INDEX uploads_by_end ON uploads (expires_at);"
    "CREATE TABLE files ("
    " tenant " TEXT " NOT NULL,"
    " model " TEXT " NOT NULL,"
    " location " TEXT " NOT NULL,"
    " blob " TEXT " NOT NULL,"
    " bytes bigint NOT NULL,"
    " PRIMARY KEY (tenant, model, location),"
    " FOREIGN KEY (tenant, model) REFERENCES models (tenant, id) ON DELETE CASCADE"
    ");"
    "CREATE INDEX files_by_blob ON files (blob, bytes);",

    /* Numbers of files, see store.h. What there is has the number 0. */
    "ALTER TABLE models ADD COLUMN blob bigint NOT NULL DEFAULT 0;"
    "ALTER TABLE models ADD COLUMN inspection bigint NOT NULL DEFAULT 0;"
    "CREATE TABLE reservations ("
    " number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
    " model " TEXT " NOT NULL,"
    " owner " TEXT " NOT NULL"
    ");",

    /* Which files of a plan's result an object store has. */
    "ALTER TABLE plans ADD COLUMN files text;",

    /* The hash of an inspection that an object store has. */
    "ALTER TABLE models ADD COLUMN inspection_sha256 text NOT NULL DEFAULT '';",

    /* The plans of a tenant that wait, in their order; whose turn it is does not depend on when one was served. */
    ("DROP INDEX plans_by_start;"
     "CREATE INDEX plans_waiting ON plans (tenant, priority DESC, seq) WHERE state = 'queued';"),
};

#define SCHEMA_VERSION ((int)(sizeof migrations / sizeof migrations[0]))

/* Runs one or more statements and returns the last result; NULL, logged, when one failed. */
static PGresult *run(struct pg_call *call, const char *sql)
{
    PGconn *conn = call->connection->conn;
    PGresult *result = NULL;
    if (PQsendQuery(conn, sql) != 0)
        result = pg_await(conn, call->store->wake, call->deadline_ms);
    ExecStatusType status = PQresultStatus(result);
    if (result != NULL && (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK))
        return result;
    char said[256];
    pg_copy(said, sizeof said, result != NULL ? PQresultErrorMessage(result) : "no answer in time");
    pg_one_line(said);
    LOG(LOG_ERROR, "schema not brought up to date", log_s("error", said));
    call->failed = true;
    call->connection->broken = true; /* its settings are not those of the others */
    (void)problem_set(call->problem, 500, "STORE_ERROR", "The schema of the database cannot be brought up to date: %s",
                      said);
    PQclear(result);
    return NULL;
}

static bool run_only(struct pg_call *call, const char *sql)
{
    PGresult *result = run(call, sql);
    PQclear(result);
    return result != NULL;
}

/* The version that the schema has; -1 on failure. */
static int64_t find_version(struct pg_call *call)
{
    int64_t schema = pg_number(run(call, "SELECT (to_regnamespace('shardplan') IS NOT NULL)::int"));
    if (schema < 0 || (schema == 0 && !run_only(call, "CREATE SCHEMA shardplan")) ||
        !run_only(call, "CREATE TABLE IF NOT EXISTS shardplan.schema_version (version integer NOT NULL)"))
        return -1;
    return pg_number(run(call, "SELECT coalesce(max(version), 0) FROM shardplan.schema_version"));
}

static bool bring_up(struct pg_call *call, int64_t version)
{
    if (version > SCHEMA_VERSION)
        return problem_set(call->problem, 500, "STORE_TOO_NEW",
                           "The database was written by a newer version (schema %lld, this program knows %d).",
                           (long long)version, SCHEMA_VERSION);
    for (; version < SCHEMA_VERSION; version++) {
        char set_version[160];
        (void)snprintf(set_version, sizeof set_version,
                       "DELETE FROM schema_version; INSERT INTO schema_version VALUES (%d); COMMIT", (int)version + 1);
        if (!run_only(call, "BEGIN") || !run_only(call, migrations[version]) || !run_only(call, set_version))
            return false;
    }
    return true;
}

/* The lock holds off other daemons that start now. */
bool pg_migrate(struct pg_store *store, struct problem *problem)
{
    struct pg_call call;
    bool ok = false;
    if (pg_begin(&call, &store->base, "bringing the schema up to date", problem)) {
        char lock[96];
        call.deadline_ms = server_now_ms() + SPD_STORE_MIGRATE_MS;
        (void)snprintf(lock, sizeof lock, "SET statement_timeout = 0; SELECT pg_advisory_lock(%d, 0)", PG_LOCK_SCHEMA);
        int64_t version = run_only(&call, lock) ? find_version(&call) : -1;
        ok = version >= 0 && bring_up(&call, version);
        /* The session ends, and with it the lock and the setting. */
        call.connection->broken = true;
    }
    (void)pg_end(&call);
    return ok;
}
