#include <string.h>

#include "store/sqlite.h"

/* The name of the blob with this SHA-256 in any row. */
static enum store_found find_file(struct sqlite_store *store, const char *sha256, char ret_blob[STORE_BLOB_SIZE])
{
    sqlite3_stmt *statement =
        sqlite_begin(store, "SELECT blob FROM files WHERE blob >= ?1 AND blob < ?1 || '~' ORDER BY blob LIMIT 1");
    sqlite_text(statement, 1, sha256);
    const enum store_found found = sqlite_row(store, statement, "looking for a file's blob");
    if (found == STORE_DONE)
        (void)snprintf(ret_blob, STORE_BLOB_SIZE, "%s", sqlite_column(statement, 0));
    sqlite_end(statement);
    return found;
}

enum store_found sqlite_find_file(struct store *base, const char *sha256, char ret_blob[STORE_BLOB_SIZE])
{
    struct sqlite_store *store = sqlite_lock(base);
    const enum store_found found = find_file(store, sha256, ret_blob);
    sqlite_unlock(store);
    return found;
}

/* In a transaction: row->blob becomes what it is. STORE_ADDED, or why it is not. */
static enum store_added name_blob(struct sqlite_store *store, struct file_row *row, bool replaces,
                                  struct problem *problem)
{
    char sha256[65], known[STORE_BLOB_SIZE];
    (void)snprintf(sha256, sizeof sha256, "%.64s", row->blob);
    const int ended = sqlite_end_reservation(store, row->number, problem);
    if (ended <= 0)
        return ended < 0 ? STORE_FAILED : store_overtaken(problem);
    const enum store_found found = find_file(store, sha256, known);
    if (found == STORE_ERROR)
        return STORE_FAILED;
    if (found == STORE_DONE && !replaces)
        memcpy(row->blob, known, sizeof row->blob);
    if (found != STORE_DONE || !replaces)
        return STORE_ADDED;
    sqlite3_stmt *statement = sqlite_begin(store, "UPDATE files SET blob = ?2 WHERE blob >= ?1 AND blob < ?1 || '~'");
    sqlite_text(statement, 1, sha256);
    sqlite_text(statement, 2, row->blob);
    return sqlite_run(store, statement, "replacing a blob", problem) >= 0 ? STORE_ADDED : STORE_FAILED;
}

/* STORE_ADDED when nothing has this place yet. */
static enum store_added look_at_place(struct sqlite_store *store, const struct file_row *row, struct problem *problem)
{
    const int64_t models =
        sqlite_number(store, "SELECT count(*) FROM models WHERE tenant = ?1 AND id = ?2", row->tenant, row->model);
    sqlite3_stmt *statement =
        models > 0 ? sqlite_begin(store, "SELECT blob FROM files WHERE tenant = ?1 AND model = ?2 AND location = ?3")
                   : NULL;
    enum store_added result = models == 0 ? STORE_NO_MODEL : STORE_FAILED;
    sqlite_text(statement, 1, row->tenant);
    sqlite_text(statement, 2, row->model);
    sqlite_text(statement, 3, row->location);
    const enum store_found found = models > 0 ? sqlite_row(store, statement, "looking for a file") : STORE_ERROR;
    if (found == STORE_DONE)
        result = strncmp(sqlite_column(statement, 0), row->blob, 64) == 0 ? STORE_EXISTS : STORE_DIFFERS;
    else if (found == STORE_NOT_FOUND)
        result = STORE_ADDED;
    sqlite_end(statement);
    if (result == STORE_FAILED)
        (void)sqlite_fail(store, "adding a file", problem);
    return result;
}

static enum store_added check_quota(struct sqlite_store *store, const struct file_row *row,
                                    const struct store_quota *quota, struct problem *problem)
{
    const int64_t have =
        sqlite_number(store, "SELECT count(*) FROM files WHERE tenant = ?1 AND model = ?2", row->tenant, row->model);
    const int64_t bytes = sqlite_number(store, SQLITE_TENANT_BYTES, row->tenant, NULL);
    if (have < 0 || bytes < 0) {
        (void)sqlite_fail(store, "adding a file", problem);
        return STORE_FAILED;
    }
    if (quota->model_files > 0 && have >= quota->model_files)
        return store_over_files(problem, quota, have);
    if (quota->tenant_bytes > 0 && row->bytes > quota->tenant_bytes - bytes)
        return store_over_bytes(problem, quota, bytes + row->bytes);
    return STORE_ADDED;
}

static enum store_added insert(struct sqlite_store *store, const struct file_row *row, struct problem *problem)
{
    sqlite3_stmt *statement =
        sqlite_begin(store, "INSERT INTO files (tenant, model, location, blob, bytes) VALUES (?1, ?2, ?3, ?4, ?5)");
    sqlite_text(statement, 1, row->tenant);
    sqlite_text(statement, 2, row->model);
    sqlite_text(statement, 3, row->location);
    sqlite_text(statement, 4, row->blob);
    sqlite_int(statement, 5, row->bytes);
    return sqlite_run(store, statement, "adding a file", problem) >= 0 ? STORE_ADDED : STORE_FAILED;
}

/* In a transaction. Also of a row that is there the blob may be replaced. */
static enum store_added try_to_add(struct sqlite_store *store, struct file_row *row, bool replaces,
                                   const struct store_quota *quota, struct problem *problem)
{
    if (row->upload != NULL && !sqlite_drop_upload(store, row->tenant, row->upload))
        return STORE_FAILED;
    const enum store_added place = look_at_place(store, row, problem);
    if (place != STORE_ADDED && place != STORE_EXISTS)
        return place;
    enum store_added result = place == STORE_ADDED ? check_quota(store, row, quota, problem) : STORE_ADDED;
    if (result == STORE_ADDED)
        result = name_blob(store, row, replaces, problem);
    if (result == STORE_ADDED && place == STORE_ADDED)
        return insert(store, row, problem);
    return result == STORE_ADDED ? place : result;
}

enum store_added sqlite_add_file(struct store *base, struct file_row *row, bool replaces,
                                 const struct store_quota *quota, struct problem *problem)
{
    enum store_added result = STORE_FAILED;
    struct sqlite_store *store = sqlite_lock(base);
    if (sqlite_begin_transaction(store, "adding a file", problem)) {
        result = try_to_add(store, row, replaces, quota, problem);
        const bool ok = result == STORE_ADDED || result == STORE_EXISTS;
        if (!sqlite_commit(store, ok, "adding a file", problem) && ok)
            result = STORE_FAILED;
    }
    sqlite_unlock(store);
    return result;
}

bool sqlite_list_files(struct store *base, const char *tenant, const char *model,
                       void (*each)(void *context, const struct file_row *row), void *context)
{
    struct sqlite_store *store = sqlite_lock(base);
    sqlite3_stmt *statement =
        sqlite_begin(store, "SELECT tenant, model, location, blob, bytes FROM files WHERE model = ?1 AND "
                            "(?2 IS NULL OR tenant = ?2) ORDER BY location");
    sqlite_text(statement, 1, model);
    sqlite_text(statement, 2, tenant);
    enum store_found found;
    while ((found = sqlite_row(store, statement, "listing files")) == STORE_DONE) {
        struct file_row row = {.location = sqlite_column(statement, 2), .bytes = sqlite3_column_int64(statement, 4)};
        (void)snprintf(row.tenant, sizeof row.tenant, "%s", sqlite_column(statement, 0));
        (void)snprintf(row.model, sizeof row.model, "%s", sqlite_column(statement, 1));
        (void)snprintf(row.blob, sizeof row.blob, "%s", sqlite_column(statement, 3));
        each(context, &row);
    }
    sqlite_end(statement);
    sqlite_unlock(store);
    return found == STORE_NOT_FOUND;
}
