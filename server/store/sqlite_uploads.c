#include <stdlib.h>
#include <string.h>

#include "store/sqlite.h"
#include "util/times.h"

#define COLUMNS "seq, tenant, id, bytes, digest, is_complete, created_at, expires_at"

static void copy_column(char *to, size_t size, sqlite3_stmt *statement, int column)
{
    const char *text = sqlite_column(statement, column);
    (void)snprintf(to, size, "%s", text != NULL ? text : "");
}

static void read_upload(sqlite3_stmt *statement, struct upload_row *row)
{
    *row = (struct upload_row){.seq = sqlite3_column_int64(statement, 0),
                               .bytes = sqlite3_column_int64(statement, 3),
                               .is_complete = sqlite3_column_int(statement, 5) != 0,
                               .created_at = sqlite3_column_int64(statement, 6),
                               .expires_at = sqlite3_column_int64(statement, 7)};
    copy_column(row->tenant, sizeof row->tenant, statement, 1);
    copy_column(row->id, sizeof row->id, statement, 2);
    copy_column(row->digest, sizeof row->digest, statement, 4);
}

static enum store_added check_quota(struct sqlite_store *store, const struct upload_row *row,
                                    const struct store_quota *quota, struct problem *problem)
{
    const int64_t have = sqlite_number(store, "SELECT count(*) FROM uploads WHERE tenant = ?1", row->tenant, NULL);
    const int64_t bytes = sqlite_number(store, SQLITE_TENANT_BYTES, row->tenant, NULL);
    if (have < 0 || bytes < 0) {
        (void)sqlite_fail(store, "adding an upload", problem);
        return STORE_FAILED;
    }
    if (quota->tenant_uploads > 0 && have >= quota->tenant_uploads)
        return store_over_uploads(problem, quota, have);
    if (quota->tenant_bytes > 0 && row->bytes > quota->tenant_bytes - bytes)
        return store_over_bytes(problem, quota, bytes + row->bytes);
    return STORE_ADDED;
}

static enum store_added insert(struct sqlite_store *store, const struct upload_row *row, struct problem *problem)
{
    sqlite3_stmt *statement =
        sqlite_begin(store, "INSERT INTO uploads (tenant, id, bytes, digest, created_at, expires_at) "
                            "VALUES (?1, ?2, ?3, ?4, ?5, ?6)");
    sqlite_text(statement, 1, row->tenant);
    sqlite_text(statement, 2, row->id);
    sqlite_int(statement, 3, row->bytes);
    sqlite_text(statement, 4, row->digest);
    sqlite_int(statement, 5, row->created_at);
    sqlite_int(statement, 6, row->expires_at);
    return sqlite_run(store, statement, "adding an upload", problem) >= 0 ? STORE_ADDED : STORE_FAILED;
}

enum store_added sqlite_add_upload(struct store *base, struct upload_row *row, int64_t keep_ms,
                                   const struct store_quota *quota, struct problem *problem)
{
    enum store_added result = STORE_FAILED;
    struct sqlite_store *store = sqlite_lock(base);
    row->created_at = times_now();
    row->expires_at = row->created_at + keep_ms;
    if (sqlite_begin_transaction(store, "adding an upload", problem)) {
        result = check_quota(store, row, quota, problem);
        if (result == STORE_ADDED)
            result = insert(store, row, problem);
        if (!sqlite_commit(store, result == STORE_ADDED, "adding an upload", problem) && result == STORE_ADDED)
            result = STORE_FAILED;
    }
    sqlite_unlock(store);
    return result;
}

enum store_found sqlite_get_upload(struct store *base, const char *tenant, const char *id, struct upload_row *ret_row)
{
    struct sqlite_store *store = sqlite_lock(base);
    sqlite3_stmt *statement =
        sqlite_begin(store, "SELECT " COLUMNS " FROM uploads WHERE id = ?1 AND (?2 IS NULL OR tenant = ?2)");
    sqlite_text(statement, 1, id);
    sqlite_text(statement, 2, tenant);
    const enum store_found found = sqlite_row(store, statement, "reading an upload");
    if (found == STORE_DONE)
        read_upload(statement, ret_row);
    sqlite_end(statement);
    sqlite_unlock(store);
    return found;
}

bool sqlite_list_uploads(struct store *base, const char *tenant, int64_t before, int limit,
                         void (*each)(void *context, const struct upload_row *row), void *context)
{
    struct sqlite_store *store = sqlite_lock(base);
    sqlite3_stmt *statement =
        sqlite_begin(store, "SELECT " COLUMNS " FROM uploads WHERE seq < ?1 AND (?2 IS NULL OR tenant = ?2) "
                            "ORDER BY seq DESC LIMIT ?3");
    sqlite_int(statement, 1, before);
    sqlite_text(statement, 2, tenant);
    sqlite_int(statement, 3, limit);
    enum store_found found;
    while ((found = sqlite_row(store, statement, "listing uploads")) == STORE_DONE) {
        struct upload_row row;
        read_upload(statement, &row);
        each(context, &row);
    }
    sqlite_end(statement);
    sqlite_unlock(store);
    return found == STORE_NOT_FOUND;
}

static enum store_found found_of(int changed)
{
    return changed < 0 ? STORE_ERROR : changed > 0 ? STORE_DONE : STORE_NOT_FOUND;
}

enum store_found sqlite_complete_upload(struct store *base, const char *id, const char *digest)
{
    struct sqlite_store *store = sqlite_lock(base);
    sqlite3_stmt *statement = sqlite_begin(store, "UPDATE uploads SET is_complete = 1, digest = ?2 WHERE id = ?1");
    sqlite_text(statement, 1, id);
    sqlite_text(statement, 2, digest);
    const int changed = sqlite_run(store, statement, "completing an upload", NULL);
    sqlite_unlock(store);
    return found_of(changed);
}

static int drop(struct sqlite_store *store, const char *tenant, const char *id)
{
    sqlite3_stmt *statement = sqlite_begin(store, "DELETE FROM uploads WHERE id = ?1 AND (?2 IS NULL OR tenant = ?2)");
    sqlite_text(statement, 1, id);
    sqlite_text(statement, 2, tenant);
    return sqlite_run(store, statement, "deleting an upload", NULL);
}

bool sqlite_drop_upload(struct sqlite_store *store, const char *tenant, const char *id)
{
    return drop(store, tenant, id) >= 0;
}

enum store_found sqlite_delete_upload(struct store *base, const char *tenant, const char *id)
{
    struct sqlite_store *store = sqlite_lock(base);
    const int changed = drop(store, tenant, id);
    sqlite_unlock(store);
    return found_of(changed);
}

bool sqlite_expire_uploads(struct store *base, int limit, void (*each)(void *context, const char *id), void *context)
{
    char(*ids)[STORE_ID_SIZE] = calloc((size_t)limit, sizeof *ids);
    int count = 0;
    if (ids == NULL)
        return false;
    struct sqlite_store *store = sqlite_lock(base);
    sqlite3_stmt *statement = sqlite_begin(
        store, "DELETE FROM uploads WHERE seq IN (SELECT seq FROM uploads WHERE expires_at < ?1 ORDER BY expires_at "
               "LIMIT ?2) RETURNING id");
    sqlite_int(statement, 1, times_now());
    sqlite_int(statement, 2, limit);
    enum store_found found;
    while ((found = sqlite_row(store, statement, "deleting old uploads")) == STORE_DONE && count < limit)
        copy_column(ids[count++], sizeof ids[0], statement, 0);
    sqlite_end(statement);
    sqlite_unlock(store);
    for (int i = 0; i < count && found == STORE_NOT_FOUND; i++)
        each(context, ids[i]);
    free(ids);
    return found == STORE_NOT_FOUND;
}
