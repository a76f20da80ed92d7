#include <stdlib.h>
#include <string.h>

#include "store/postgres.h"

#define COLUMNS "seq, tenant, id, name, bytes, created_at, used_at, blob, inspection, inspection_sha256"

static bool read_model(const PGresult *rows, int index, struct model_row *row)
{
    memset(row, 0, sizeof *row);
    row->seq = pg_int_at(rows, index, 0);
    pg_copy(row->tenant, sizeof row->tenant, pg_text_at(rows, index, 1));
    pg_copy(row->id, sizeof row->id, pg_text_at(rows, index, 2));
    row->name = strdup(PQgetvalue(rows, index, 3));
    row->bytes = pg_int_at(rows, index, 4);
    row->created_at = pg_int_at(rows, index, 5);
    row->used_at = pg_int_at(rows, index, 6);
    store_blob_name(row->id, pg_int_at(rows, index, 7), row->blob);
    store_blob_name(row->id, pg_int_at(rows, index, 8), row->inspection);
    pg_copy(row->inspection_sha256, sizeof row->inspection_sha256, pg_text_at(rows, index, 9));
    return row->name != NULL;
}

/* How many rows the model has: of the tenant, or of all (NULL). */
static int64_t count_rows(struct pg_call *call, const char *tenant, const char *id)
{
    return pg_number(PG_QUERY(call,
                              "SELECT count(*) FROM models WHERE id = $1 AND ($2::text IS NULL OR tenant = $2::text)",
                              pg_s(id), pg_s(tenant)));
}

/* ---- adding ---- */

/* Whether the quota has room for the model. */
static enum store_added check_quota(struct pg_call *call, const struct model_row *row, const struct store_quota *quota)
{
    int64_t have = 0, bytes = 0;
    PGresult *rows =
        PG_QUERY(call, "SELECT count(*), " PG_TENANT_BYTES " FROM models WHERE tenant = $1", pg_s(row->tenant));
    if (rows == NULL)
        return STORE_FAILED;
    have = pg_int_at(rows, 0, 0);
    bytes = pg_int_at(rows, 0, 1);
    PQclear(rows);
    if (quota->tenant_models > 0 && have >= quota->tenant_models)
        return store_over_models(call->problem, quota, have);
    if (quota->tenant_bytes > 0 && row->bytes > quota->tenant_bytes - bytes)
        return store_over_bytes(call->problem, quota, bytes + row->bytes);
    return STORE_ADDED;
}

/* The tenant's row, new or not, names the files. */
static bool write_row(struct pg_call *call, const struct model_row *row, bool is_new, int64_t blob)
{
    PGresult *rows =
        is_new
            ? PG_QUERY(call,
                       "INSERT INTO models (tenant, id, name, bytes, blob, inspection, inspection_sha256, created_at, "
                       "used_at) VALUES ($1, $2, $3, $4, $5, $6, $7, " PG_NOW ", " PG_NOW ")",
                       pg_s(row->tenant), pg_s(row->id), pg_s(row->name), pg_i(row->bytes), pg_i(blob),
                       pg_i(row->number), pg_s(row->inspection_sha256))
            : PG_QUERY(call, "UPDATE models SET inspection = $3, inspection_sha256 = $4 WHERE tenant = $1 AND id = $2",
                       pg_s(row->tenant), pg_s(row->id), pg_i(row->number), pg_s(row->inspection_sha256));
    return pg_count(rows) >= 0;
}

/* In a transaction with both locks. */
static enum store_added try_to_add(struct pg_call *call, struct model_row *row, bool replaces,
                                   const struct store_quota *quota)
{
    int64_t blob = 0;
    const bool dropped = row->upload == NULL || pg_drop_upload(call, row->tenant, row->upload);
    const int64_t known = dropped ? count_rows(call, row->tenant, row->id) : -1;
    enum store_added result = known < 0 ? STORE_FAILED : known > 0 ? STORE_ADDED : check_quota(call, row, quota);
    if (result == STORE_ADDED)
        result = pg_take_number(call, row, replaces, &blob);
    if (result == STORE_ADDED && (!write_row(call, row, known == 0, blob) || !pg_commit(call)))
        result = STORE_FAILED;
    store_blob_name(row->id, blob, row->blob);
    return result == STORE_ADDED && known > 0 ? STORE_EXISTS : result;
}

enum store_added pg_add_model(struct store *base, struct model_row *row, bool replaces, const struct store_quota *quota,
                              struct problem *problem)
{
    struct pg_call call;
    enum store_added result = STORE_FAILED;
    if (pg_begin(&call, base, "adding a model", problem) && pg_transaction(&call) &&
        pg_lock_tenant(&call, row->tenant) && pg_lock_model(&call, row->id))
        result = try_to_add(&call, row, replaces, quota);
    if (!pg_end(&call))
        result = STORE_FAILED;
    if (result == STORE_FAILED)
        (void)problem_set(problem, 503, "STORE_ERROR", "The store could not take the model.");
    return result;
}

/* ---- reading ---- */

enum store_found pg_find_model(struct store *base, const char *tenant, const char *id)
{
    struct pg_call call;
    int64_t rows = -1;
    if (pg_begin(&call, base, "looking for a model", NULL))
        rows = count_rows(&call, tenant, id);
    return !pg_end(&call) || rows < 0 ? STORE_ERROR : rows > 0 ? STORE_DONE : STORE_NOT_FOUND;
}

enum store_found pg_find_blob(struct store *base, const char *tenant, const char *id, int64_t *ret_number)
{
    struct pg_call call;
    PGresult *rows = NULL;
    enum store_found found = STORE_ERROR;
    if (pg_begin(&call, base, "looking for a model's file", NULL))
        rows = PG_QUERY(&call,
                        "SELECT blob FROM models WHERE id = $1 AND ($2::text IS NULL OR tenant = $2::text) ORDER BY "
                        "seq LIMIT 1",
                        pg_s(id), pg_s(tenant));
    if (pg_end(&call))
        found = PQntuples(rows) > 0 ? STORE_DONE : STORE_NOT_FOUND;
    if (found == STORE_DONE)
        *ret_number = pg_int_at(rows, 0, 0);
    PQclear(rows);
    return found;
}

enum store_found pg_get_model(struct store *base, const char *tenant, const char *id, struct model_row *ret_row)
{
    struct pg_call call;
    PGresult *rows = NULL;
    enum store_found found = STORE_ERROR;
    if (pg_begin(&call, base, "reading a model", NULL))
        rows = PG_QUERY(&call,
                        "SELECT " COLUMNS " FROM models WHERE id = $1 AND ($2::text IS NULL OR tenant = $2::text) "
                        "ORDER BY seq LIMIT 1",
                        pg_s(id), pg_s(tenant));
    if (pg_end(&call))
        found = PQntuples(rows) > 0 ? STORE_DONE : STORE_NOT_FOUND;
    if (found == STORE_DONE && !read_model(rows, 0, ret_row)) {
        store_release_model(ret_row);
        found = STORE_ERROR;
    }
    PQclear(rows);
    return found;
}

/* Hands on all rows of a result, and clears it. */
static bool each_model(PGresult *rows, void (*each)(void *context, const struct model_row *row), void *context)
{
    bool complete = rows != NULL;
    for (int i = 0; rows != NULL && i < PQntuples(rows); i++) {
        struct model_row row;
        bool read = read_model(rows, i, &row);
        if (read)
            each(context, &row);
        complete = complete && read;
        store_release_model(&row);
    }
    PQclear(rows);
    return complete;
}

bool pg_list_models(struct store *base, const char *tenant, int64_t before, int limit,
                    void (*each)(void *context, const struct model_row *row), void *context)
{
    struct pg_call call;
    PGresult *rows = NULL;
    if (pg_begin(&call, base, "listing models", NULL))
        rows = PG_QUERY(&call,
                        "SELECT " COLUMNS " FROM models WHERE seq < $1 AND ($2::text IS NULL OR tenant = $2::text) "
                        "ORDER BY seq DESC LIMIT $3",
                        pg_i(before), pg_s(tenant), pg_i(limit));
    (void)pg_end(&call);
    return each_model(rows, each, context);
}

bool pg_unused_models(struct store *base, const char *tenant, int limit,
                      void (*each)(void *context, const struct model_row *row), void *context)
{
    struct pg_call call;
    PGresult *rows = NULL;
    if (pg_begin(&call, base, "listing models", NULL))
        rows = PG_QUERY(
            &call,
            "SELECT seq, tenant, id, name, (bytes + (SELECT coalesce(sum(f.bytes), 0) FROM files f WHERE "
            "f.tenant = models.tenant AND f.model = models.id))::bigint, created_at, used_at, blob, "
            "inspection, inspection_sha256 FROM models WHERE ($1::text IS NULL OR tenant = $1::text) AND NOT EXISTS "
            "(SELECT 1 FROM plans WHERE plans.model = models.id AND plans.tenant = models.tenant) "
            "ORDER BY used_at, seq LIMIT $2",
            pg_s(tenant), pg_i(limit));
    (void)pg_end(&call);
    return each_model(rows, each, context);
}

bool pg_tenant_bytes(struct store *base, void (*each)(void *context, const char *tenant, int64_t bytes), void *context)
{
    struct pg_call call;
    PGresult *rows = NULL;
    if (pg_begin(&call, base, "counting bytes of tenants", NULL))
        rows = PG_QUERY(&call, "SELECT tenant, sum(bytes)::bigint FROM (SELECT tenant, bytes FROM models UNION ALL "
                               "SELECT tenant, bytes FROM files UNION ALL SELECT tenant, bytes FROM uploads) AS had "
                               "GROUP BY tenant");
    (void)pg_end(&call);
    for (int i = 0; rows != NULL && i < PQntuples(rows); i++)
        each(context, pg_text_at(rows, i, 0), pg_int_at(rows, i, 1));
    const bool ok = rows != NULL;
    PQclear(rows);
    return ok;
}

bool pg_touch_model(struct store *base, const char *tenant, const char *id)
{
    struct pg_call call;
    if (pg_begin(&call, base, "marking a model as used", NULL))
        (void)pg_count(PG_QUERY(&call, "UPDATE models SET used_at = " PG_NOW " WHERE tenant = $1 AND id = $2",
                                pg_s(tenant), pg_s(id)));
    return pg_end(&call);
}

/* ---- removing ---- */

enum store_found pg_delete_model(struct store *base, const char *tenant, const char *id)
{
    struct pg_call call;
    enum store_found found = STORE_ERROR;
    if (pg_begin(&call, base, "deleting a model", NULL) && pg_transaction(&call) && pg_lock_model(&call, id)) {
        int64_t deleted =
            pg_count(PG_QUERY(&call, "DELETE FROM models WHERE id = $1 AND ($2::text IS NULL OR tenant = $2::text)",
                              pg_s(id), pg_s(tenant)));
        if (deleted >= 0 && pg_commit(&call))
            found = deleted > 0 ? STORE_DONE : STORE_NOT_FOUND;
        else if (strcmp(call.sqlstate, "23503") == 0) /* a foreign key */
            found = STORE_IN_USE;
    }
    (void)pg_end(&call);
    return found;
}
