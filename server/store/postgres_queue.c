#include <string.h>

#include "store/postgres.h"

/*
 * The queue. A running plan belongs to its owner until `lease_until`, by the server's clock; whoever sees first that a
 * lease has ended queues the plan again. What a claimant changes names its attempt, so one that lost its plan changes
 * nothing.
 */

enum store_found pg_claim(struct store *base, const char *tenant, struct plan_row *ret_row)
{
    struct pg_call call;
    PGresult *rows = NULL;
    enum store_found found = STORE_ERROR;
    if (pg_begin(&call, base, "claiming a plan", NULL))
        /* Another daemon may be about to claim the same row: then the next one. */
        rows = PG_QUERY(
            &call,
            "WITH next AS (SELECT seq FROM plans WHERE state = 'queued' AND tenant = $3 ORDER BY priority DESC, seq "
            "LIMIT 1 FOR UPDATE SKIP LOCKED), "
            "changed AS (UPDATE plans SET state = 'running', attempts = attempts + 1, started_at = " PG_NOW
            ", owner = $1, lease_until = " PG_NOW " + $2::bigint, has_result = false, phase = '', fraction = 0, "
            "best_seconds = 0, lower_bound_seconds = 0 WHERE seq IN (SELECT seq FROM next) AND state = 'queued' "
            "RETURNING *) "
            "SELECT " PG_PLAN_COLUMNS ", " PG_TELL("'r'") " FROM changed",
            pg_s(base->owner), pg_i((int64_t)base->lease_seconds * 1000), pg_s(tenant));
    if (pg_end(&call))
        found = PQntuples(rows) > 0 ? STORE_DONE : STORE_NOT_FOUND;
    /* Without memory nobody runs it: the next beat gives it back. */
    if (found == STORE_DONE && !pg_read_plan(rows, 0, ret_row)) {
        store_release_plan(ret_row);
        found = STORE_ERROR;
    }
    PQclear(rows);
    if (found == STORE_DONE)
        store_tell(base, PLAN_TAKEN, ret_row->id, NULL);
    return found;
}

bool pg_list_waiting(struct store *base, const char *from, int limit, void (*each)(void *context, const char *tenant),
                     void *context)
{
    struct pg_call call;
    PGresult *rows = NULL;
    /* From one tenant to the next one in the index, however many plans each has. */
    if (pg_begin(&call, base, "looking who waits", NULL))
        rows = PG_QUERY(&call,
                        "WITH RECURSIVE waiting (tenant) AS (SELECT min(tenant) FROM plans WHERE state = 'queued' AND "
                        "tenant >= $1 UNION ALL SELECT (SELECT min(tenant) FROM plans WHERE state = 'queued' AND "
                        "tenant > waiting.tenant) FROM waiting WHERE waiting.tenant IS NOT NULL) "
                        "SELECT tenant FROM waiting WHERE tenant IS NOT NULL LIMIT $2::bigint",
                        pg_s(from), pg_i(limit));
    for (int i = 0; rows != NULL && i < PQntuples(rows); i++)
        each(context, pg_text_at(rows, i, 0));
    PQclear(rows);
    return pg_end(&call);
}

/* The text of an array. The ids are the daemon's own: nothing in them needs quotes. */
static void write_ids(const char (*ids)[STORE_ID_SIZE], unsigned count, char *text, size_t size)
{
    size_t at = (size_t)snprintf(text, size, "{");
    for (unsigned i = 0; i < count; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%s", i > 0 ? "," : "", ids[i]);
    (void)snprintf(text + at, size - at, "}");
}

bool pg_beat(struct store *base, const char (*held)[STORE_ID_SIZE], unsigned count)
{
    struct pg_call call;
    char ids[SPD_MAX_HELD * STORE_ID_SIZE + sizeof "{}"];
    write_ids(held, count < SPD_MAX_HELD ? count : SPD_MAX_HELD, ids, sizeof ids);
    if (pg_begin(&call, base, "renewing leases", NULL))
        (void)pg_count(
            PG_QUERY(&call,
                     "WITH beat AS (INSERT INTO daemons (owner, lease_ms, started_at, beat_at) VALUES ($1, $2::bigint, "
                     "" PG_NOW ", " PG_NOW ") ON CONFLICT (owner) DO UPDATE SET beat_at = " PG_NOW ") "
                     "UPDATE plans SET lease_until = CASE WHEN id = ANY ($3::text[]) THEN " PG_NOW
                     " + $2::bigint ELSE least(lease_until, " PG_NOW ") END WHERE owner = $1 AND state = 'running'",
                     pg_s(base->owner), pg_i((int64_t)base->lease_seconds * 1000), pg_s(ids)));
    return pg_end(&call);
}

/* Nothing is lost with it: the disk need not be waited for. */
bool pg_progress(struct store *base, const char *id, int64_t attempt, const struct job_progress *progress)
{
    char fraction[32], best[32], bound[32];
    struct pg_call call;
    (void)snprintf(fraction, sizeof fraction, "%.17g", progress->fraction);
    (void)snprintf(best, sizeof best, "%.17g", progress->best_seconds);
    (void)snprintf(bound, sizeof bound, "%.17g", progress->lower_bound_seconds);
    if (pg_begin(&call, base, "telling progress", NULL))
        (void)pg_count(PG_QUERY(&call,
                                "WITH quick AS (SELECT set_config('synchronous_commit', 'off', true)) "
                                "UPDATE plans SET phase = $3, fraction = $4, best_seconds = $5, lower_bound_seconds = "
                                "$6 FROM quick WHERE id = $1 AND attempts = $2 AND state = 'running'",
                                pg_s(id), pg_i(attempt), pg_s(progress->phase), pg_s(fraction), pg_s(best),
                                pg_s(bound)));
    return pg_end(&call);
}

/* Ends a call that changed the plan of an attempt. */
static enum store_changed changed(struct store *base, struct pg_call *call, enum plan_change what, const char *id,
                                  int64_t count)
{
    (void)pg_end(call);
    if (count > 0)
        store_tell(base, what, id, NULL);
    return count < 0 ? STORE_BROKEN : count > 0 ? STORE_CHANGED : STORE_LOST;
}

enum store_changed pg_finish(struct store *base, const char *id, int64_t attempt, enum plan_state state,
                             bool has_result, const char *error, const char *files)
{
    struct pg_call call;
    int64_t count = -1;
    if (pg_begin(&call, base, "finishing a plan", NULL))
        count = pg_count(
            PG_QUERY(&call,
                     "WITH changed AS (UPDATE plans SET state = $4, error = $5, has_result = $6::int = 1, "
                     "files = $7, finished_at = " PG_NOW ", owner = '' WHERE id = $2 AND attempts = $3 AND state = "
                     "'running' RETURNING id, tenant, state) SELECT " PG_TELL("left(state, 1)") " FROM changed",
                     pg_s(base->owner), pg_s(id), pg_i(attempt), pg_s(store_state_name(state)), pg_s(error),
                     pg_i(has_result), pg_s(files)));
    return changed(base, &call, PLAN_OVER, id, count);
}

enum store_changed pg_lose_result(struct store *base, const char *id, int64_t attempt, const char *error)
{
    struct pg_call call;
    int64_t count = -1;
    if (pg_begin(&call, base, "telling that a result is lost", NULL))
        count = pg_count(PG_QUERY(
            &call,
            "WITH changed AS (UPDATE plans SET state = 'failed', error = $4, has_result = false, "
            "finished_at = " PG_NOW " WHERE id = $2 AND attempts = $3 AND has_result AND state IN "
            "('succeeded', 'cancelled') RETURNING id, tenant, state) SELECT " PG_TELL("left(state, 1)") " FROM changed",
            pg_s(base->owner), pg_s(id), pg_i(attempt), pg_s(error)));
    return changed(base, &call, PLAN_OVER, id, count);
}

enum store_changed pg_requeue(struct store *base, const char *id, int64_t attempt, bool crashed)
{
    struct pg_call call;
    int64_t count = -1;
    if (pg_begin(&call, base, "queuing a plan again", NULL))
        count = pg_count(
            PG_QUERY(&call,
                     "WITH changed AS (UPDATE plans SET state = CASE WHEN cancel_requested THEN 'cancelled' ELSE "
                     "'queued' END, finished_at = CASE WHEN cancel_requested THEN " PG_NOW " ELSE 0 END, crashes = "
                     "crashes + $4::int, owner = '' WHERE id = $2 AND attempts = $3 AND state = 'running' RETURNING "
                     "id, tenant, state) SELECT " PG_TELL("left(state, 1)") " FROM changed",
                     pg_s(base->owner), pg_s(id), pg_i(attempt), pg_i(crashed)));
    return changed(base, &call, PLAN_CHANGED, id, count);
}

enum store_found pg_cancel(struct store *base, const char *tenant, const char *id)
{
    struct pg_call call;
    int64_t count = -1;
    if (pg_begin(&call, base, "cancelling a plan", NULL))
        count = pg_count(
            PG_QUERY(&call,
                     "WITH changed AS (UPDATE plans SET cancel_requested = true, finished_at = CASE WHEN state = "
                     "'queued' THEN " PG_NOW " ELSE finished_at END, state = CASE WHEN state = 'queued' THEN "
                     "'cancelled' ELSE state END WHERE id = $2 AND ($3::text IS NULL OR tenant = $3::text) AND state "
                     "IN ('queued', 'running') RETURNING id, tenant, state) SELECT " PG_TELL(
                         "CASE state WHEN 'running' THEN 'x' ELSE 'c' END") " FROM changed",
                     pg_s(base->owner), pg_s(id), pg_s(tenant)));
    (void)pg_end(&call);
    if (count < 0)
        return STORE_ERROR;
    if (count == 0)
        return pg_find_plan(base, tenant, id); /* finished, or not there */
    store_tell(base, PLAN_CHANGED, id, NULL);
    return STORE_DONE;
}

int64_t pg_reclaim(struct store *base, bool all)
{
    struct pg_call call;
    PGresult *rows = NULL;
    if (pg_begin(&call, base, "reclaiming plans", NULL))
        rows = PG_QUERY(
            &call,
            "WITH ended AS (SELECT seq FROM plans WHERE state = 'running' AND ($2::int = 1 OR lease_until < " PG_NOW
            ") FOR UPDATE SKIP LOCKED), "
            "changed AS (UPDATE plans SET state = CASE WHEN cancel_requested THEN 'cancelled' WHEN attempts >= "
            "$3::bigint THEN 'failed' ELSE 'queued' END, finished_at = CASE WHEN cancel_requested OR attempts >= "
            "$3::bigint THEN " PG_NOW " ELSE 0 END, error = CASE WHEN attempts >= $3::bigint AND NOT cancel_requested "
            "THEN $4::text END, owner = '' WHERE seq IN (SELECT seq FROM ended) AND state = 'running' RETURNING id, "
            "tenant, state) "
            "SELECT id, " PG_TELL("left(state, 1)") " FROM changed",
            pg_s(base->owner), pg_i(all), pg_i(SPD_MAX_ATTEMPTS), pg_s(STORE_INTERRUPTED));
    int64_t count = pg_end(&call) ? PQntuples(rows) : -1;
    for (int i = 0; rows != NULL && i < PQntuples(rows); i++)
        store_tell(base, PLAN_CHANGED, PQgetvalue(rows, i, 0), NULL);
    PQclear(rows);
    return count;
}

/* While the store is away everybody lives. */
bool pg_owner_lives(struct store *base, const char *owner)
{
    struct pg_call call;
    int64_t living = -1;
    if (strcmp(base->owner, owner) == 0)
        return true;
    if (pg_begin(&call, base, "looking for a daemon", NULL))
        living = pg_number(
            PG_QUERY(&call, "SELECT count(*) FROM daemons WHERE owner = $1 AND beat_at > " PG_NOW " - 10 * lease_ms",
                     pg_s(owner)));
    return !pg_end(&call) || living != 0;
}
