#include <stdlib.h>
#include <string.h>

#include "store/sqlite.h"
#include "util/times.h"

#define COLUMNS "seq, tenant, id, name, bytes, created_at, used_at, blob, inspection, inspection_sha256"

static bool read_model(sqlite3_stmt *statement, struct model_row *row)
{
    memset(row, 0, sizeof *row);
    const char *tenant = sqlite_column(statement, 1), *id = sqlite_column(statement, 2);
    const char *name = sqlite_column(statement, 3);
    row->seq = sqlite3_column_int64(statement, 0);
    (void)snprintf(row->tenant, sizeof row->tenant, "%s", tenant != NULL ? tenant : "");
    (void)snprintf(row->id, sizeof row->id, "%s", id != NULL ? id : "");
    row->name = name != NULL ? strdup(name) : NULL; /* NULL: no memory */
    row->bytes = sqlite3_column_int64(statement, 4);
    row->created_at = sqlite3_column_int64(statement, 5);
    row->used_at = sqlite3_column_int64(statement, 6);
    store_blob_name(row->id, sqlite3_column_int64(statement, 7), row->blob);
    store_blob_name(row->id, sqlite3_column_int64(statement, 8), row->inspection);
    const char *sha256 = sqlite_column(statement, 9);
    (void)snprintf(row->inspection_sha256, sizeof row->inspection_sha256, "%s", sha256 != NULL ? sha256 : "");
    return row->name != NULL && row->id[0] != '\0';
}

/* Whether the quota has room for the model. */
static enum store_added check_quota(struct sqlite_store *store, const struct model_row *row,
                                    const struct store_quota *quota, struct problem *problem)
{
    int64_t have = sqlite_number(store, "SELECT count(*) FROM models WHERE tenant = ?1", row->tenant, NULL);
    int64_t bytes = sqlite_number(store, SQLITE_TENANT_BYTES, row->tenant, NULL);
    if (have < 0 || bytes < 0) {
        (void)sqlite_fail(store, "adding a model", problem);
        return STORE_FAILED;
    }
    if (quota->tenant_models > 0 && have >= quota->tenant_models)
        return store_over_models(problem, quota, have);
    if (quota->tenant_bytes > 0 && row->bytes > quota->tenant_bytes - bytes)
        return store_over_bytes(problem, quota, bytes + row->bytes);
    return STORE_ADDED;
}

static enum store_added insert_model(struct sqlite_store *store, const struct model_row *row, int64_t blob,
                                     struct problem *problem)
{
    sqlite3_stmt *statement =
        sqlite_begin(store, "INSERT INTO models (tenant, id, name, bytes, created_at, used_at, blob, inspection, "
                            "inspection_sha256) VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7, ?8)");
    sqlite_text(statement, 1, row->tenant);
    sqlite_text(statement, 2, row->id);
    sqlite_text(statement, 3, row->name);
    sqlite_int(statement, 4, row->bytes);
    sqlite_int(statement, 5, times_now());
    sqlite_int(statement, 6, blob);
    sqlite_int(statement, 7, row->number);
    sqlite_text(statement, 8, row->inspection_sha256);
    return sqlite_run(store, statement, "adding a model", problem) >= 0 ? STORE_ADDED : STORE_FAILED;
}

/* How many rows the model has: of the tenant, or of all (NULL). -1 on failure. */
static int64_t count_rows(struct sqlite_store *store, const char *tenant, const char *id)
{
    return sqlite_number(store, "SELECT count(*) FROM models WHERE id = ?1 AND (?2 IS NULL OR tenant = ?2)", id,
                         tenant);
}

static enum store_added update_model(struct sqlite_store *store, const struct model_row *row, struct problem *problem)
{
    sqlite3_stmt *statement =
        sqlite_begin(store, "UPDATE models SET inspection = ?3, inspection_sha256 = ?4 WHERE tenant = ?1 AND id = ?2");
    sqlite_text(statement, 1, row->tenant);
    sqlite_text(statement, 2, row->id);
    sqlite_int(statement, 3, row->number);
    sqlite_text(statement, 4, row->inspection_sha256);
    return sqlite_run(store, statement, "naming a new inspection", problem) >= 0 ? STORE_EXISTS : STORE_FAILED;
}

/* In a transaction. */
static enum store_added try_to_add(struct sqlite_store *store, struct model_row *row, bool replaces,
                                   const struct store_quota *quota, struct problem *problem)
{
    int64_t blob = 0;
    const bool dropped = row->upload == NULL || sqlite_drop_upload(store, row->tenant, row->upload);
    const int64_t known = dropped ? count_rows(store, row->tenant, row->id) : -1;
    enum store_added result = known == 0 ? check_quota(store, row, quota, problem) : STORE_ADDED;
    if (known < 0) {
        (void)sqlite_fail(store, "adding a model", problem);
        return STORE_FAILED;
    }
    if (result == STORE_ADDED)
        result = sqlite_take_number(store, row, replaces, &blob, problem);
    if (result != STORE_ADDED)
        return result;
    store_blob_name(row->id, blob, row->blob);
    return known > 0 ? update_model(store, row, problem) : insert_model(store, row, blob, problem);
}

enum store_added sqlite_add_model(struct store *base, struct model_row *row, bool replaces,
                                  const struct store_quota *quota, struct problem *problem)
{
    enum store_added result = STORE_FAILED;
    struct sqlite_store *store = sqlite_lock(base);
    if (sqlite_begin_transaction(store, "adding a model", problem)) {
        result = try_to_add(store, row, replaces, quota, problem);
        const bool ok = result == STORE_ADDED || result == STORE_EXISTS;
        if (!sqlite_commit(store, ok, "adding a model", problem) && ok)
            result = STORE_FAILED;
    }
    sqlite_unlock(store);
    return result;
}

enum store_found sqlite_find_model(struct store *base, const char *tenant, const char *id)
{
    struct sqlite_store *store = sqlite_lock(base);
    int64_t rows = count_rows(store, tenant, id);
    sqlite_unlock(store);
    return rows < 0 ? STORE_ERROR : rows > 0 ? STORE_DONE : STORE_NOT_FOUND;
}

enum store_found sqlite_find_blob(struct store *base, const char *tenant, const char *id, int64_t *ret_number)
{
    struct sqlite_store *store = sqlite_lock(base);
    sqlite3_stmt *statement = sqlite_begin(
        store, "SELECT blob FROM models WHERE id = ?1 AND (?2 IS NULL OR tenant = ?2) ORDER BY seq LIMIT 1");
    sqlite_text(statement, 1, id);
    sqlite_text(statement, 2, tenant);
    const enum store_found found = sqlite_row(store, statement, "looking for a model's file");
    if (found == STORE_DONE)
        *ret_number = sqlite3_column_int64(statement, 0);
    sqlite_end(statement);
    sqlite_unlock(store);
    return found;
}

enum store_found sqlite_get_model(struct store *base, const char *tenant, const char *id, struct model_row *ret_row)
{
    struct sqlite_store *store = sqlite_lock(base);
    sqlite3_stmt *statement =
        sqlite_begin(store, "SELECT " COLUMNS " FROM models WHERE id = ?1 AND (?2 IS NULL OR tenant = ?2) "
                            "ORDER BY seq LIMIT 1");
    sqlite_text(statement, 1, id);
    sqlite_text(statement, 2, tenant);
    enum store_found found = sqlite_row(store, statement, "reading a model");
    if (found == STORE_DONE && !read_model(statement, ret_row)) {
        store_release_model(ret_row);
        found = STORE_ERROR;
    }
    sqlite_end(statement);
    sqlite_unlock(store);
    return found;
}

/* Rows, newest first or, of unused models, unused longest first. Ends the statement. */
static bool read_models(struct sqlite_store *store, sqlite3_stmt *statement,
                        void (*each)(void *context, const struct model_row *row), void *context)
{
    enum store_found found;
    bool complete = true;
    while ((found = sqlite_row(store, statement, "listing models")) == STORE_DONE) {
        struct model_row row;
        bool read = read_model(statement, &row);
        if (read)
            each(context, &row);
        complete = complete && read;
        store_release_model(&row);
    }
    sqlite_end(statement);
    return complete && found == STORE_NOT_FOUND;
}

bool sqlite_list_models(struct store *base, const char *tenant, int64_t before, int limit,
                        void (*each)(void *context, const struct model_row *row), void *context)
{
    struct sqlite_store *store = sqlite_lock(base);
    sqlite3_stmt *statement =
        sqlite_begin(store, "SELECT " COLUMNS " FROM models WHERE seq < ?1 AND (?2 IS NULL OR tenant = ?2) "
                            "ORDER BY seq DESC LIMIT ?3");
    sqlite_int(statement, 1, before);
    sqlite_text(statement, 2, tenant);
    sqlite_int(statement, 3, limit);
    bool ok = read_models(store, statement, each, context);
    sqlite_unlock(store);
    return ok;
}

bool sqlite_unused_models(struct store *base, const char *tenant, int limit,
                          void (*each)(void *context, const struct model_row *row), void *context)
{
    struct sqlite_store *store = sqlite_lock(base);
    sqlite3_stmt *statement = sqlite_begin(
        store,
        "SELECT seq, tenant, id, name, bytes + (SELECT coalesce(sum(f.bytes), 0) FROM files f WHERE f.tenant = "
        "models.tenant AND f.model = models.id), created_at, used_at, blob, inspection, inspection_sha256 FROM models "
        "WHERE (?1 IS NULL OR tenant = ?1) AND NOT EXISTS (SELECT 1 FROM plans "
        "WHERE plans.model = models.id AND plans.tenant = models.tenant) ORDER BY used_at, seq LIMIT ?2");
    sqlite_text(statement, 1, tenant);
    sqlite_int(statement, 2, limit);
    bool ok = read_models(store, statement, each, context);
    sqlite_unlock(store);
    return ok;
}

bool sqlite_tenant_bytes(struct store *base, void (*each)(void *context, const char *tenant, int64_t bytes),
                         void *context)
{
    struct sqlite_store *store = sqlite_lock(base);
    sqlite3_stmt *statement =
        sqlite_begin(store, "SELECT tenant, sum(bytes) FROM (SELECT tenant, bytes FROM models UNION ALL SELECT tenant, "
                            "bytes FROM files UNION ALL SELECT tenant, bytes FROM uploads) GROUP BY tenant");
    enum store_found found;
    while ((found = sqlite_row(store, statement, "counting bytes of tenants")) == STORE_DONE)
        each(context, sqlite_column(statement, 0), sqlite3_column_int64(statement, 1));
    sqlite_end(statement);
    sqlite_unlock(store);
    return found == STORE_NOT_FOUND;
}

bool sqlite_touch_model(struct store *base, const char *tenant, const char *id)
{
    struct sqlite_store *store = sqlite_lock(base);
    sqlite3_stmt *statement = sqlite_begin(store, "UPDATE models SET used_at = ?3 WHERE tenant = ?1 AND id = ?2");
    sqlite_text(statement, 1, tenant);
    sqlite_text(statement, 2, id);
    sqlite_int(statement, 3, times_now());
    int changed = sqlite_run(store, statement, "marking a model as used", NULL);
    sqlite_unlock(store);
    return changed >= 0;
}

enum store_found sqlite_delete_model(struct store *base, const char *tenant, const char *id)
{
    enum store_found found = STORE_ERROR;
    struct sqlite_store *store = sqlite_lock(base);
    sqlite3_stmt *statement = sqlite_begin(store, "DELETE FROM models WHERE id = ?1 AND (?2 IS NULL OR tenant = ?2)");
    sqlite_text(statement, 1, id);
    sqlite_text(statement, 2, tenant);
    int step = statement != NULL ? sqlite3_step(statement) : SQLITE_ERROR;
    if (step == SQLITE_DONE)
        found = sqlite3_changes(store->db) > 0 ? STORE_DONE : STORE_NOT_FOUND;
    else if ((step & 0xff) == SQLITE_CONSTRAINT)
        found = STORE_IN_USE;
    else
        (void)sqlite_fail(store, "deleting a model", NULL);
    sqlite_end(statement);
    sqlite_unlock(store);
    return found;
}
