#include <string.h>

#include "server_limits.h"
#include "store/sqlite.h"
#include "util/times.h"

/*
 * The queue. One daemon uses the database, so a lease is as good as the daemon: store_reclaim() at its start is where
 * leases of an earlier life end, and there is nothing to renew.
 */

/* The queued plan of `row` becomes running, in the store and in the row. */
static bool take(const struct store *base, struct sqlite_store *store, struct plan_row *row)
{
    int64_t now = times_now();
    sqlite3_stmt *statement = sqlite_begin(store, "UPDATE plans SET state = 'running', attempts = attempts + 1, "
                                                  "started_at = ?1, owner = ?2 WHERE seq = ?3 AND state = 'queued'");
    sqlite_int(statement, 1, now);
    sqlite_text(statement, 2, base->owner);
    sqlite_int(statement, 3, row->seq);
    if (sqlite_run(store, statement, "claiming a plan", NULL) != 1)
        return false;
    row->state = PLAN_RUNNING;
    row->attempts++;
    row->started_at = now;
    memcpy(row->owner, base->owner, sizeof row->owner);
    return true;
}

enum store_found sqlite_claim(struct store *base, const char *tenant, struct plan_row *ret_row)
{
    struct sqlite_store *store = sqlite_lock(base);
    sqlite3_stmt *statement =
        sqlite_begin(store, "SELECT " SQLITE_PLAN_COLUMNS
                            " FROM plans WHERE state = 'queued' AND tenant = ?1 ORDER BY priority DESC, seq LIMIT 1");
    sqlite_text(statement, 1, tenant);
    enum store_found found = sqlite_row(store, statement, "claiming a plan");
    bool read = found == STORE_DONE && sqlite_read_plan(statement, ret_row);
    sqlite_end(statement);
    /* The change comes last: a plan that could not be read, for want of memory, stays queued. */
    if (found == STORE_DONE && (!read || !take(base, store, ret_row))) {
        store_release_plan(ret_row);
        found = STORE_ERROR;
    }
    sqlite_unlock(store);
    if (found == STORE_DONE)
        store_tell(base, PLAN_TAKEN, ret_row->id, NULL);
    return found;
}

bool sqlite_list_waiting(struct store *base, const char *from, int limit,
                         void (*each)(void *context, const char *tenant), void *context)
{
    struct sqlite_store *store = sqlite_lock(base);
    enum store_found found;
    /* From one tenant to the next one in the index, however many plans each has. */
    sqlite3_stmt *statement = sqlite_begin(
        store, "WITH RECURSIVE waiting (tenant) AS (SELECT min(tenant) FROM plans WHERE state = 'queued' AND tenant >= "
               "?1 UNION ALL SELECT (SELECT min(tenant) FROM plans WHERE state = 'queued' AND tenant > waiting.tenant) "
               "FROM waiting WHERE waiting.tenant IS NOT NULL) "
               "SELECT tenant FROM waiting WHERE tenant IS NOT NULL LIMIT ?2");
    sqlite_text(statement, 1, from);
    sqlite_int(statement, 2, limit);
    while ((found = sqlite_row(store, statement, "looking who waits")) == STORE_DONE)
        each(context, sqlite_column(statement, 0));
    sqlite_end(statement);
    sqlite_unlock(store);
    return found == STORE_NOT_FOUND;
}

/* No answer is lost on the way, so what it says that this daemon runs is what runs. */
bool sqlite_beat(struct store *base, const char (*held)[STORE_ID_SIZE], unsigned count)
{
    (void)base;
    (void)held;
    (void)count;
    return true;
}

/* Nobody else can ask, and a disk flush for each line of progress would be dear. */
bool sqlite_progress(struct store *base, const char *id, int64_t attempt, const struct job_progress *progress)
{
    (void)base;
    (void)id;
    (void)attempt;
    (void)progress;
    return true;
}

/* Runs an update of one attempt's plan (?1 id, ?2 attempt, ?3 time; the rest is bound already). */
static enum store_changed change(struct store *base, struct sqlite_store *store, sqlite3_stmt *statement,
                                 const char *id, int64_t attempt, enum plan_change what)
{
    sqlite_text(statement, 1, id);
    sqlite_int(statement, 2, attempt);
    sqlite_int(statement, 3, times_now());
    int changed = sqlite_run(store, statement, what == PLAN_OVER ? "finishing a plan" : "queuing a plan again", NULL);
    sqlite_unlock(store);
    if (changed > 0)
        store_tell(base, what, id, NULL);
    return changed < 0 ? STORE_BROKEN : changed > 0 ? STORE_CHANGED : STORE_LOST;
}

enum store_changed sqlite_finish(struct store *base, const char *id, int64_t attempt, enum plan_state state,
                                 bool has_result, const char *error, const char *files)
{
    struct sqlite_store *store = sqlite_lock(base);
    sqlite3_stmt *statement = sqlite_begin(store, "UPDATE plans SET state = ?4, error = ?5, has_result = ?6, files = "
                                                  "?7, finished_at = ?3, owner = '' WHERE id = ?1 "
                                                  "AND attempts = ?2 AND state = 'running'");
    sqlite_text(statement, 4, store_state_name(state));
    sqlite_text(statement, 5, error);
    sqlite_int(statement, 6, has_result);
    sqlite_text(statement, 7, files);
    return change(base, store, statement, id, attempt, PLAN_OVER);
}

enum store_changed sqlite_lose_result(struct store *base, const char *id, int64_t attempt, const char *error)
{
    struct sqlite_store *store = sqlite_lock(base);
    sqlite3_stmt *statement = sqlite_begin(
        store, "UPDATE plans SET state = 'failed', error = ?4, has_result = 0, finished_at = ?3 WHERE id = ?1 AND "
               "attempts = ?2 AND has_result = 1 AND state IN ('succeeded', 'cancelled')");
    sqlite_text(statement, 4, error);
    return change(base, store, statement, id, attempt, PLAN_OVER);
}

enum store_changed sqlite_requeue(struct store *base, const char *id, int64_t attempt, bool crashed)
{
    struct sqlite_store *store = sqlite_lock(base);
    sqlite3_stmt *statement = sqlite_begin(
        store, "UPDATE plans SET state = CASE WHEN cancel_requested THEN 'cancelled' ELSE 'queued' END, "
               "finished_at = CASE WHEN cancel_requested THEN ?3 ELSE 0 END, crashes = crashes + ?4, owner = '' "
               "WHERE id = ?1 AND attempts = ?2 AND state = 'running'");
    sqlite_int(statement, 4, crashed);
    return change(base, store, statement, id, attempt, PLAN_CHANGED);
}

enum store_found sqlite_cancel(struct store *base, const char *tenant, const char *id)
{
    struct sqlite_store *store = sqlite_lock(base);
    sqlite3_stmt *statement =
        sqlite_begin(store, "UPDATE plans SET cancel_requested = 1, "
                            "finished_at = CASE WHEN state = 'queued' THEN ?3 ELSE finished_at END, "
                            "state = CASE WHEN state = 'queued' THEN 'cancelled' ELSE state END "
                            "WHERE id = ?1 AND (?2 IS NULL OR tenant = ?2) AND state IN ('queued', 'running')");
    sqlite_text(statement, 1, id);
    sqlite_text(statement, 2, tenant);
    sqlite_int(statement, 3, times_now());
    int changed = sqlite_run(store, statement, "cancelling a plan", NULL);
    sqlite_unlock(store);
    if (changed < 0)
        return STORE_ERROR;
    if (changed == 0)
        return sqlite_find_plan(base, tenant, id); /* finished, or not there */
    store_tell(base, PLAN_CHANGED, id, NULL);
    return STORE_DONE;
}

int64_t sqlite_reclaim(struct store *base, bool all)
{
    if (!all)
        return 0; /* this daemon lives */
    struct sqlite_store *store = sqlite_lock(base);
    int64_t total = sqlite_reclaim_all(store);
    sqlite_unlock(store);
    if (total > 0)
        store_tell_of(base, NULL);
    return total;
}
