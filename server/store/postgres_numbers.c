/* Which numbers of files count; see store.h. */
#include "store/postgres.h"

bool pg_reserve(struct store *base, const char *id, int64_t *ret_number, struct problem *problem)
{
    struct pg_call call;
    int64_t number = -1;
    if (pg_begin(&call, base, "giving a number", problem))
        number = pg_number(PG_QUERY(&call, "INSERT INTO reservations (model, owner) VALUES ($1, $2) RETURNING number",
                                    pg_s(id), pg_s(base->owner)));
    if (!pg_end(&call) || number < 0)
        return problem_set(problem, 503, "STORE_ERROR", "The store could not take the model.");
    *ret_number = number;
    return true;
}

bool pg_unreserve(struct store *base, int64_t number)
{
    struct pg_call call;
    if (pg_begin(&call, base, "ending a reservation", NULL))
        (void)pg_count(PG_QUERY(&call, "DELETE FROM reservations WHERE number = $1", pg_i(number)));
    return pg_end(&call);
}

enum store_found pg_names(struct store *base, const char *id, int64_t number, enum store_file file)
{
    struct pg_call call;
    int64_t names = -1;
    char blob[STORE_BLOB_SIZE];
    store_blob_name(id, number, blob);
    if (pg_begin(&call, base, "looking for a file's row", NULL))
        names = pg_number(
            PG_QUERY(&call,
                     "SELECT (EXISTS (SELECT 1 FROM reservations WHERE model = $1 AND number = $2::bigint) OR EXISTS "
                     "(SELECT 1 FROM models WHERE id = $1 AND CASE WHEN $3::int = 0 THEN blob ELSE inspection END = "
                     "$2::bigint) OR ($3::int = 0 AND EXISTS (SELECT 1 FROM files WHERE blob = $4)))::int",
                     pg_s(id), pg_i(number), pg_i(file == FILE_INSPECTION), pg_s(blob)));
    return !pg_end(&call) || names < 0 ? STORE_ERROR : names > 0 ? STORE_DONE : STORE_NOT_FOUND;
}

bool pg_end_reservations(struct store *base)
{
    struct pg_call call;
    if (pg_begin(&call, base, "ending reservations", NULL))
        (void)pg_count(PG_QUERY(&call,
                                "DELETE FROM reservations WHERE owner <> $1 AND NOT EXISTS (SELECT 1 FROM daemons "
                                "WHERE daemons.owner = reservations.owner AND beat_at > " PG_NOW " - 10 * lease_ms)",
                                pg_s(base->owner)));
    return pg_end(&call);
}

enum store_added pg_take_number(struct pg_call *call, const struct model_row *row, bool replaces, int64_t *ret_blob)
{
    const int64_t ended =
        pg_count(PG_QUERY(call, "DELETE FROM reservations WHERE number = $1 AND model = $2 AND owner = $3",
                          pg_i(row->number), pg_s(row->id), pg_s(call->store->base.owner)));
    if (ended <= 0)
        return ended < 0 ? STORE_FAILED : store_overtaken(call->problem);
    PGresult *rows = PG_QUERY(call, "SELECT coalesce(max(blob), -1) FROM models WHERE id = $1", pg_s(row->id));
    if (rows == NULL)
        return STORE_FAILED;
    const int64_t known = pg_int_at(rows, 0, 0);
    PQclear(rows);
    *ret_blob = replaces || known < 0 ? row->number : known;
    if (!replaces || known < 0)
        return STORE_ADDED;
    const int64_t changed =
        pg_count(PG_QUERY(call, "UPDATE models SET blob = $2 WHERE id = $1", pg_s(row->id), pg_i(row->number)));
    return changed >= 0 ? STORE_ADDED : STORE_FAILED;
}
