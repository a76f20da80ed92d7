#include <stdio.h>
#include <string.h>

#include "store/postgres.h"

static enum store_found read_file(PGresult *rows, char ret_blob[STORE_BLOB_SIZE])
{
    const enum store_found found = rows == NULL ? STORE_ERROR : PQntuples(rows) > 0 ? STORE_DONE : STORE_NOT_FOUND;
    if (found == STORE_DONE)
        pg_copy(ret_blob, STORE_BLOB_SIZE, pg_text_at(rows, 0, 0));
    PQclear(rows);
    return found;
}

/* The name of the blob with this SHA-256 in any row. */
static enum store_found find_file(struct pg_call *call, const char *sha256, char ret_blob[STORE_BLOB_SIZE])
{
    PGresult *rows =
        PG_QUERY(call, "SELECT blob FROM files WHERE blob >= $1::text AND blob < $1::text || '~' ORDER BY blob LIMIT 1",
                 pg_s(sha256));
    return read_file(rows, ret_blob);
}

/* The same, of a row that stays until the end of the transaction: what it names is not taken for unused before another
   row that names it can be seen. */
static enum store_found adopt_file(struct pg_call *call, const char *sha256, char ret_blob[STORE_BLOB_SIZE])
{
    PGresult *rows = PG_QUERY(call,
                              "SELECT blob FROM files WHERE blob >= $1::text AND blob < $1::text || '~' ORDER BY blob "
                              "LIMIT 1 FOR KEY SHARE",
                              pg_s(sha256));
    return read_file(rows, ret_blob);
}

enum store_found pg_find_file(struct store *base, const char *sha256, char ret_blob[STORE_BLOB_SIZE])
{
    struct pg_call call;
    enum store_found found = STORE_ERROR;
    if (pg_begin(&call, base, "looking for a file's blob", NULL))
        found = find_file(&call, sha256, ret_blob);
    return pg_end(&call) ? found : STORE_ERROR;
}

/* In a transaction: row->blob becomes what it is. STORE_ADDED, or why it is not. */
static enum store_added name_blob(struct pg_call *call, struct file_row *row, bool replaces)
{
    char sha256[65], known[STORE_BLOB_SIZE];
    (void)snprintf(sha256, sizeof sha256, "%.64s", row->blob);
    const int64_t ended =
        pg_count(PG_QUERY(call, "DELETE FROM reservations WHERE number = $1 AND model = $2 AND owner = $3",
                          pg_i(row->number), pg_s(sha256), pg_s(call->store->base.owner)));
    if (ended <= 0)
        return ended < 0 ? STORE_FAILED : store_overtaken(call->problem);
    const enum store_found found = adopt_file(call, sha256, known);
    if (found == STORE_ERROR)
        return STORE_FAILED;
    if (found == STORE_DONE && !replaces)
        memcpy(row->blob, known, sizeof row->blob);
    if (found != STORE_DONE || !replaces)
        return STORE_ADDED;
    const int64_t changed =
        pg_count(PG_QUERY(call, "UPDATE files SET blob = $2 WHERE blob >= $1::text AND blob < $1::text || '~'",
                          pg_s(sha256), pg_s(row->blob)));
    return changed >= 0 ? STORE_ADDED : STORE_FAILED;
}

/* STORE_ADDED when nothing has this place yet. */
static enum store_added look_at_place(struct pg_call *call, const struct file_row *row)
{
    PGresult *rows = PG_QUERY(call,
                              "SELECT (SELECT blob FROM files WHERE tenant = $1 AND model = $2 AND location = $3) "
                              "FROM models WHERE tenant = $1 AND id = $2 FOR KEY SHARE",
                              pg_s(row->tenant), pg_s(row->model), pg_s(row->location));
    if (rows == NULL)
        return STORE_FAILED;
    const char *blob = PQntuples(rows) > 0 ? pg_text_at(rows, 0, 0) : NULL;
    const enum store_added result = PQntuples(rows) == 0                ? STORE_NO_MODEL
                                    : blob == NULL                      ? STORE_ADDED
                                    : strncmp(blob, row->blob, 64) == 0 ? STORE_EXISTS
                                                                        : STORE_DIFFERS;
    PQclear(rows);
    return result;
}

static enum store_added check_quota(struct pg_call *call, const struct file_row *row, const struct store_quota *quota)
{
    PGresult *rows =
        PG_QUERY(call, "SELECT (SELECT count(*) FROM files WHERE tenant = $1 AND model = $2), " PG_TENANT_BYTES,
                 pg_s(row->tenant), pg_s(row->model));
    if (rows == NULL)
        return STORE_FAILED;
    const int64_t have = pg_int_at(rows, 0, 0), bytes = pg_int_at(rows, 0, 1);
    PQclear(rows);
    if (quota->model_files > 0 && have >= quota->model_files)
        return store_over_files(call->problem, quota, have);
    if (quota->tenant_bytes > 0 && row->bytes > quota->tenant_bytes - bytes)
        return store_over_bytes(call->problem, quota, bytes + row->bytes);
    return STORE_ADDED;
}

/* In a transaction. Also of a row that is there the blob may be replaced. */
static enum store_added try_to_add(struct pg_call *call, struct file_row *row, bool replaces,
                                   const struct store_quota *quota)
{
    if (row->upload != NULL && !pg_drop_upload(call, row->tenant, row->upload))
        return STORE_FAILED;
    const enum store_added place = look_at_place(call, row);
    if (place != STORE_ADDED && place != STORE_EXISTS)
        return place;
    enum store_added result = place == STORE_ADDED ? check_quota(call, row, quota) : STORE_ADDED;
    if (result == STORE_ADDED)
        result = name_blob(call, row, replaces);
    if (result != STORE_ADDED || place == STORE_EXISTS)
        return result == STORE_ADDED ? place : result;
    const int64_t inserted =
        pg_count(PG_QUERY(call, "INSERT INTO files (tenant, model, location, blob, bytes) VALUES ($1, $2, $3, $4, $5)",
                          pg_s(row->tenant), pg_s(row->model), pg_s(row->location), pg_s(row->blob), pg_i(row->bytes)));
    return inserted >= 0 ? STORE_ADDED : STORE_FAILED;
}

enum store_added pg_add_file(struct store *base, struct file_row *row, bool replaces, const struct store_quota *quota,
                             struct problem *problem)
{
    struct pg_call call;
    char sha256[65];
    enum store_added result = STORE_FAILED;
    (void)snprintf(sha256, sizeof sha256, "%.64s", row->blob);
    if (pg_begin(&call, base, "adding a file", problem) && pg_transaction(&call) &&
        pg_lock_tenant(&call, row->tenant) && pg_lock_model(&call, sha256)) {
        result = try_to_add(&call, row, replaces, quota);
        if ((result == STORE_ADDED || result == STORE_EXISTS) && !pg_commit(&call))
            result = STORE_FAILED;
    }
    if (!pg_end(&call))
        result = STORE_FAILED;
    if (result == STORE_FAILED)
        (void)problem_set(problem, 503, "STORE_ERROR", "The store could not take the file.");
    return result;
}

bool pg_list_files(struct store *base, const char *tenant, const char *model,
                   void (*each)(void *context, const struct file_row *row), void *context)
{
    struct pg_call call;
    PGresult *rows = NULL;
    if (pg_begin(&call, base, "listing files", NULL))
        rows = PG_QUERY(&call,
                        "SELECT tenant, model, location, blob, bytes FROM files WHERE model = $1 AND "
                        "($2::text IS NULL OR tenant = $2::text) ORDER BY location",
                        pg_s(model), pg_s(tenant));
    (void)pg_end(&call);
    for (int i = 0; rows != NULL && i < PQntuples(rows); i++) {
        struct file_row row = {.location = pg_text_at(rows, i, 2), .bytes = pg_int_at(rows, i, 4)};
        pg_copy(row.tenant, sizeof row.tenant, pg_text_at(rows, i, 0));
        pg_copy(row.model, sizeof row.model, pg_text_at(rows, i, 1));
        pg_copy(row.blob, sizeof row.blob, pg_text_at(rows, i, 3));
        each(context, &row);
    }
    const bool ok = rows != NULL;
    PQclear(rows);
    return ok;
}
