#include <string.h>

#include "store/postgres.h"

#define COLUMNS "seq, tenant, id, bytes, digest, is_complete::int, created_at, expires_at"

static void read_upload(const PGresult *rows, int index, struct upload_row *row)
{
    *row = (struct upload_row){.seq = pg_int_at(rows, index, 0),
                               .bytes = pg_int_at(rows, index, 3),
                               .is_complete = pg_int_at(rows, index, 5) != 0,
                               .created_at = pg_int_at(rows, index, 6),
                               .expires_at = pg_int_at(rows, index, 7)};
    pg_copy(row->tenant, sizeof row->tenant, pg_text_at(rows, index, 1));
    pg_copy(row->id, sizeof row->id, pg_text_at(rows, index, 2));
    pg_copy(row->digest, sizeof row->digest, pg_text_at(rows, index, 4));
}

static enum store_added check_quota(struct pg_call *call, const struct upload_row *row, const struct store_quota *quota)
{
    PGresult *rows =
        PG_QUERY(call, "SELECT count(*), " PG_TENANT_BYTES " FROM uploads WHERE tenant = $1", pg_s(row->tenant));
    if (rows == NULL)
        return STORE_FAILED;
    const int64_t have = pg_int_at(rows, 0, 0), bytes = pg_int_at(rows, 0, 1);
    PQclear(rows);
    if (quota->tenant_uploads > 0 && have >= quota->tenant_uploads)
        return store_over_uploads(call->problem, quota, have);
    if (quota->tenant_bytes > 0 && row->bytes > quota->tenant_bytes - bytes)
        return store_over_bytes(call->problem, quota, bytes + row->bytes);
    return STORE_ADDED;
}

static bool insert(struct pg_call *call, struct upload_row *row, int64_t keep_ms)
{
    PGresult *rows = PG_QUERY(call,
                              "INSERT INTO uploads (tenant, id, bytes, digest, created_at, expires_at) VALUES ($1, $2, "
                              "$3, $4, " PG_NOW ", " PG_NOW " + $5::bigint) RETURNING created_at, expires_at",
                              pg_s(row->tenant), pg_s(row->id), pg_i(row->bytes), pg_s(row->digest), pg_i(keep_ms));
    if (rows == NULL)
        return false;
    row->created_at = pg_int_at(rows, 0, 0);
    row->expires_at = pg_int_at(rows, 0, 1);
    PQclear(rows);
    return pg_commit(call);
}

enum store_added pg_add_upload(struct store *base, struct upload_row *row, int64_t keep_ms,
                               const struct store_quota *quota, struct problem *problem)
{
    struct pg_call call;
    enum store_added result = STORE_FAILED;
    if (pg_begin(&call, base, "adding an upload", problem) && pg_transaction(&call) &&
        pg_lock_tenant(&call, row->tenant)) {
        result = check_quota(&call, row, quota);
        if (result == STORE_ADDED && !insert(&call, row, keep_ms))
            result = STORE_FAILED;
    }
    if (!pg_end(&call))
        result = STORE_FAILED;
    if (result == STORE_FAILED)
        (void)problem_set(problem, 503, "STORE_ERROR", "The store could not take the upload.");
    return result;
}

enum store_found pg_get_upload(struct store *base, const char *tenant, const char *id, struct upload_row *ret_row)
{
    struct pg_call call;
    PGresult *rows = NULL;
    enum store_found found = STORE_ERROR;
    if (pg_begin(&call, base, "reading an upload", NULL))
        rows =
            PG_QUERY(&call, "SELECT " COLUMNS " FROM uploads WHERE id = $1 AND ($2::text IS NULL OR tenant = $2::text)",
                     pg_s(id), pg_s(tenant));
    if (pg_end(&call))
        found = PQntuples(rows) > 0 ? STORE_DONE : STORE_NOT_FOUND;
    if (found == STORE_DONE)
        read_upload(rows, 0, ret_row);
    PQclear(rows);
    return found;
}

bool pg_list_uploads(struct store *base, const char *tenant, int64_t before, int limit,
                     void (*each)(void *context, const struct upload_row *row), void *context)
{
    struct pg_call call;
    PGresult *rows = NULL;
    if (pg_begin(&call, base, "listing uploads", NULL))
        rows = PG_QUERY(&call,
                        "SELECT " COLUMNS " FROM uploads WHERE seq < $1 AND ($2::text IS NULL OR tenant = $2::text) "
                        "ORDER BY seq DESC LIMIT $3",
                        pg_i(before), pg_s(tenant), pg_i(limit));
    (void)pg_end(&call);
    for (int i = 0; rows != NULL && i < PQntuples(rows); i++) {
        struct upload_row row;
        read_upload(rows, i, &row);
        each(context, &row);
    }
    const bool ok = rows != NULL;
    PQclear(rows);
    return ok;
}

static enum store_found found_of(int64_t changed)
{
    return changed < 0 ? STORE_ERROR : changed > 0 ? STORE_DONE : STORE_NOT_FOUND;
}

enum store_found pg_complete_upload(struct store *base, const char *id, const char *digest)
{
    struct pg_call call;
    int64_t changed = -1;
    if (pg_begin(&call, base, "completing an upload", NULL))
        changed = pg_count(PG_QUERY(&call, "UPDATE uploads SET is_complete = true, digest = $2 WHERE id = $1", pg_s(id),
                                    pg_s(digest)));
    return pg_end(&call) ? found_of(changed) : STORE_ERROR;
}

static int64_t drop(struct pg_call *call, const char *tenant, const char *id)
{
    return pg_count(PG_QUERY(call, "DELETE FROM uploads WHERE id = $1 AND ($2::text IS NULL OR tenant = $2::text)",
                             pg_s(id), pg_s(tenant)));
}

bool pg_drop_upload(struct pg_call *call, const char *tenant, const char *id)
{
    return drop(call, tenant, id) >= 0;
}

enum store_found pg_delete_upload(struct store *base, const char *tenant, const char *id)
{
    struct pg_call call;
    int64_t changed = -1;
    if (pg_begin(&call, base, "deleting an upload", NULL))
        changed = drop(&call, tenant, id);
    return pg_end(&call) ? found_of(changed) : STORE_ERROR;
}

bool pg_expire_uploads(struct store *base, int limit, void (*each)(void *context, const char *id), void *context)
{
    struct pg_call call;
    PGresult *rows = NULL;
    if (pg_begin(&call, base, "deleting old uploads", NULL))
        rows = PG_QUERY(&call,
                        "DELETE FROM uploads WHERE seq IN (SELECT seq FROM uploads WHERE expires_at < " PG_NOW
                        " ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED) RETURNING id",
                        pg_i(limit));
    const bool ok = pg_end(&call);
    for (int i = 0; rows != NULL && i < PQntuples(rows); i++)
        each(context, PQgetvalue(rows, i, 0));
    PQclear(rows);
    return ok;
}
