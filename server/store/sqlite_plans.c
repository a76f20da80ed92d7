#include <stdlib.h>
#include <string.h>

#include "server_limits.h"
#include "store/sqlite.h"
#include "util/times.h"

static void copy_text(char *to, size_t size, const char *text)
{
    (void)snprintf(to, size, "%s", text != NULL ? text : "");
}

bool sqlite_read_plan(sqlite3_stmt *statement, struct plan_row *row)
{
    memset(row, 0, sizeof *row);
    const char *request = sqlite_column(statement, 4), *error = sqlite_column(statement, 12);
    const char *files = sqlite_column(statement, 16);
    row->seq = sqlite3_column_int64(statement, 0);
    copy_text(row->tenant, sizeof row->tenant, sqlite_column(statement, 1));
    copy_text(row->id, sizeof row->id, sqlite_column(statement, 2));
    copy_text(row->model, sizeof row->model, sqlite_column(statement, 3));
    /* No memory looks like no value. */
    bool whole = request != NULL && row->id[0] != '\0' && row->model[0] != '\0' &&
                 (error != NULL || sqlite3_column_type(statement, 12) == SQLITE_NULL) &&
                 (files != NULL || sqlite3_column_type(statement, 16) == SQLITE_NULL);
    row->request = request != NULL ? strdup(request) : NULL;
    row->priority = (enum plan_priority)sqlite3_column_int(statement, 5);
    row->state = store_state_of(sqlite_column(statement, 6));
    row->cancel_requested = sqlite3_column_int(statement, 7) != 0;
    row->has_result = sqlite3_column_int(statement, 8) != 0;
    copy_text(row->owner, sizeof row->owner, sqlite_column(statement, 9));
    row->attempts = sqlite3_column_int64(statement, 10);
    row->crashes = sqlite3_column_int64(statement, 11);
    row->error = error != NULL ? strdup(error) : NULL;
    row->created_at = sqlite3_column_int64(statement, 13);
    row->started_at = sqlite3_column_int64(statement, 14);
    row->finished_at = sqlite3_column_int64(statement, 15);
    row->files = files != NULL ? strdup(files) : NULL;
    return whole && row->request != NULL && (error == NULL || row->error != NULL) &&
           (files == NULL || row->files != NULL);
}

/* ---- adding ---- */

/* Looks at what an earlier request with this key was; STORE_ADDED means: none. */
static enum store_added check_key(struct sqlite_store *store, struct plan_row *row,
                                  const struct store_question *question)
{
    enum store_added result = STORE_FAILED;
    sqlite3_stmt *statement = sqlite_begin(store, "SELECT plan, fingerprint FROM keys WHERE tenant = ?1 AND key = ?2");
    sqlite_text(statement, 1, row->tenant);
    sqlite_text(statement, 2, question->key);
    enum store_found found = sqlite_row(store, statement, "reading a key");
    if (found == STORE_NOT_FOUND) {
        result = STORE_ADDED;
    } else if (found == STORE_DONE) {
        const char *known = sqlite_column(statement, 1);
        result = known != NULL && strcmp(known, question->fingerprint) == 0 ? STORE_EXISTS : STORE_KEY_REUSED;
        if (result == STORE_EXISTS)
            copy_text(row->id, sizeof row->id, sqlite_column(statement, 0));
    }
    sqlite_end(statement);
    return result;
}

/* Looks for a plan of the same question; STORE_ADDED means: none. */
static enum store_added check_question(struct sqlite_store *store, struct plan_row *row,
                                       const struct store_question *question)
{
    enum store_added result = STORE_FAILED;
    sqlite3_stmt *statement =
        sqlite_begin(store, "SELECT id FROM plans WHERE tenant = ?1 AND question = ?2 AND cancel_requested = 0 AND "
                            "state IN ('queued', 'running', 'succeeded') ORDER BY seq DESC LIMIT 1");
    sqlite_text(statement, 1, row->tenant);
    sqlite_text(statement, 2, question->question);
    enum store_found found = sqlite_row(store, statement, "looking for a plan");
    if (found == STORE_NOT_FOUND) {
        result = STORE_ADDED;
    } else if (found == STORE_DONE) {
        result = STORE_REUSED;
        copy_text(row->id, sizeof row->id, sqlite_column(statement, 0));
    }
    sqlite_end(statement);
    return result;
}

/* Whether the tenant may queue one more plan (internal.h); negative where that cannot be told. */
static int queue_has_room(struct sqlite_store *store, const char *tenant, const struct store_quota *quota,
                          int64_t queued)
{
    struct store_queue_use use = {0};
    if (store_queue_is_short(quota, queued))
        return 1;
    const int64_t others = sqlite_number(
        store, "SELECT count(DISTINCT tenant) FROM plans WHERE state = 'queued' AND tenant <> ?1", tenant, NULL);
    use.own = sqlite_number(store, "SELECT count(*) FROM plans WHERE state = 'queued' AND tenant = ?1", tenant, NULL);
    if (others < 0 || use.own < 0)
        return -1;
    use.tenants = others + 1 > quota->tenants ? others + 1 : quota->tenants;
    sqlite3_stmt *statement =
        sqlite_begin(store, "SELECT coalesce(sum(more), 0) FROM (SELECT count(*) - ?2 AS more FROM plans WHERE "
                            "state = 'queued' AND tenant <> ?1 GROUP BY tenant) WHERE more > 0");
    sqlite_text(statement, 1, tenant);
    sqlite_int(statement, 2, store_queue_share(quota, use.tenants));
    const bool ok = sqlite_row(store, statement, "counting") == STORE_DONE;
    use.beyond = ok ? sqlite3_column_int64(statement, 0) : 0;
    sqlite_end(statement);
    return ok ? store_queue_has_room(quota, &use) : -1;
}

/* Whether there is room for one more, and the model is the tenant's. */
static enum store_added check_room(struct sqlite_store *store, const struct plan_row *row,
                                   const struct store_quota *quota, struct problem *problem)
{
    int64_t queued = sqlite_number(store, "SELECT count(*) FROM plans WHERE state = 'queued'", NULL, NULL);
    int64_t own = sqlite_number(
        store, "SELECT count(*) FROM plans WHERE state IN ('queued', 'running') AND tenant = ?1", row->tenant, NULL);
    sqlite3_stmt *statement = sqlite_begin(store, "UPDATE models SET used_at = ?3 WHERE tenant = ?1 AND id = ?2");
    sqlite_text(statement, 1, row->tenant);
    sqlite_text(statement, 2, row->model);
    sqlite_int(statement, 3, times_now());
    int model = sqlite_run(store, statement, "adding a plan", problem);
    int room = queued < 0 ? -1 : queue_has_room(store, row->tenant, quota, queued);
    if (room < 0 || own < 0 || model < 0)
        return STORE_FAILED;
    if (model == 0)
        return STORE_NO_MODEL;
    if (room == 0)
        return STORE_FULL;
    if (quota->tenant_plans > 0 && own >= quota->tenant_plans)
        return store_over_plans(problem, quota, own);
    return STORE_ADDED;
}

static enum store_added insert(struct sqlite_store *store, const struct plan_row *row,
                               const struct store_question *question, struct problem *problem)
{
    sqlite3_stmt *statement =
        sqlite_begin(store, "INSERT INTO plans (tenant, id, model, request, question, priority, state, created_at) "
                            "VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'queued', ?7)");
    sqlite_text(statement, 1, row->tenant);
    sqlite_text(statement, 2, row->id);
    sqlite_text(statement, 3, row->model);
    sqlite_text(statement, 4, row->request);
    sqlite_text(statement, 5, question->question);
    sqlite_int(statement, 6, row->priority);
    sqlite_int(statement, 7, times_now());
    return sqlite_run(store, statement, "adding a plan", problem) >= 0 ? STORE_ADDED : STORE_FAILED;
}

/* Remembers the key for the plan; a plan that was found by its question gets it, too. */
static bool keep_key(struct sqlite_store *store, const struct plan_row *row, const struct store_question *question,
                     struct problem *problem)
{
    sqlite3_stmt *statement = sqlite_begin(
        store, "INSERT INTO keys (tenant, key, fingerprint, plan, created_at) VALUES (?1, ?2, ?3, ?4, ?5)");
    sqlite_text(statement, 1, row->tenant);
    sqlite_text(statement, 2, question->key);
    sqlite_text(statement, 3, question->fingerprint);
    sqlite_text(statement, 4, row->id);
    sqlite_int(statement, 5, times_now());
    return sqlite_run(store, statement, "adding a key", problem) >= 0;
}

enum store_added sqlite_add_plan(struct store *base, struct plan_row *row, const struct store_question *question,
                                 const struct store_quota *quota, struct problem *problem)
{
    enum store_added result = STORE_ADDED;
    struct sqlite_store *store = sqlite_lock(base);
    if (!sqlite_begin_transaction(store, "adding a plan", problem)) {
        sqlite_unlock(store);
        return STORE_FAILED;
    }
    if (question->key != NULL)
        result = check_key(store, row, question);
    bool key_is_new = question->key != NULL && result == STORE_ADDED;
    if (result == STORE_ADDED && question->reuse)
        result = check_question(store, row, question);
    if (result == STORE_ADDED)
        result = check_room(store, row, quota, problem);
    if (result == STORE_ADDED)
        result = insert(store, row, question, problem);
    bool keep = result == STORE_ADDED || result == STORE_REUSED;
    bool written = keep && (!key_is_new || keep_key(store, row, question, problem));
    if (!sqlite_commit(store, written, "adding a plan", problem) && keep)
        result = STORE_FAILED;
    sqlite_unlock(store);
    if (result == STORE_FAILED)
        (void)problem_set(problem, 503, "STORE_ERROR", "The store could not take the plan.");
    if (result == STORE_ADDED)
        store_tell(base, PLAN_WAITS, row->id, row->tenant);
    return result;
}

/* ---- reading ---- */

enum store_found sqlite_find_plan(struct store *base, const char *tenant, const char *id)
{
    struct sqlite_store *store = sqlite_lock(base);
    int64_t rows =
        sqlite_number(store, "SELECT count(*) FROM plans WHERE id = ?1 AND (?2 IS NULL OR tenant = ?2)", id, tenant);
    sqlite_unlock(store);
    return rows < 0 ? STORE_ERROR : rows > 0 ? STORE_DONE : STORE_NOT_FOUND;
}

enum store_found sqlite_get_plan(struct store *base, const char *tenant, const char *id, struct plan_row *ret_row)
{
    struct sqlite_store *store = sqlite_lock(base);
    sqlite3_stmt *statement =
        sqlite_begin(store, "SELECT " SQLITE_PLAN_COLUMNS " FROM plans WHERE id = ?1 AND (?2 IS NULL OR tenant = ?2)");
    sqlite_text(statement, 1, id);
    sqlite_text(statement, 2, tenant);
    enum store_found found = sqlite_row(store, statement, "reading a plan");
    if (found == STORE_DONE && !sqlite_read_plan(statement, ret_row)) {
        store_release_plan(ret_row);
        found = STORE_ERROR;
    }
    sqlite_end(statement);
    sqlite_unlock(store);
    return found;
}

bool sqlite_list_plans(struct store *base, const char *tenant, int64_t before, int limit,
                       void (*each)(void *context, const struct plan_row *row), void *context)
{
    struct sqlite_store *store = sqlite_lock(base);
    sqlite3_stmt *statement =
        sqlite_begin(store, "SELECT " SQLITE_PLAN_COLUMNS " FROM plans WHERE seq < ?1 AND (?2 IS NULL OR tenant = ?2) "
                            "ORDER BY seq DESC LIMIT ?3");
    sqlite_int(statement, 1, before);
    sqlite_text(statement, 2, tenant);
    sqlite_int(statement, 3, limit);
    enum store_found found;
    bool complete = true;
    while ((found = sqlite_row(store, statement, "listing plans")) == STORE_DONE) {
        struct plan_row row;
        bool read = sqlite_read_plan(statement, &row);
        if (read)
            each(context, &row);
        complete = complete && read;
        store_release_plan(&row);
    }
    sqlite_end(statement);
    sqlite_unlock(store);
    return complete && found == STORE_NOT_FOUND;
}

/* ---- removing ---- */

enum store_found sqlite_delete_plan(struct store *base, const char *tenant, const char *id)
{
    struct sqlite_store *store = sqlite_lock(base);
    sqlite3_stmt *statement = sqlite_begin(store, "DELETE FROM plans WHERE id = ?1 AND (?2 IS NULL OR tenant = ?2)");
    sqlite_text(statement, 1, id);
    sqlite_text(statement, 2, tenant);
    int changed = sqlite_run(store, statement, "deleting a plan", NULL);
    sqlite_unlock(store);
    if (changed > 0)
        store_tell(base, PLAN_DELETED, id, NULL);
    return changed < 0 ? STORE_ERROR : changed > 0 ? STORE_DONE : STORE_NOT_FOUND;
}

bool sqlite_expire(struct store *base, int64_t finished_before, int limit, void (*each)(void *context, const char *id),
                   void *context)
{
    char(*ids)[STORE_ID_SIZE] = calloc((size_t)limit, sizeof *ids);
    int count = 0;
    if (ids == NULL)
        return false;
    struct sqlite_store *store = sqlite_lock(base);
    sqlite3_stmt *statement = sqlite_begin(
        store, "DELETE FROM plans WHERE seq IN (SELECT seq FROM plans WHERE finished_at > 0 AND finished_at < ?1 AND "
               "state IN ('succeeded', 'failed', 'cancelled') ORDER BY finished_at, seq LIMIT ?2) RETURNING id");
    sqlite_int(statement, 1, finished_before);
    sqlite_int(statement, 2, limit);
    enum store_found found;
    while ((found = sqlite_row(store, statement, "deleting old plans")) == STORE_DONE && count < limit)
        copy_text(ids[count++], sizeof ids[0], sqlite_column(statement, 0));
    sqlite_end(statement);
    statement = sqlite_begin(store, "DELETE FROM keys WHERE created_at < ?1");
    sqlite_int(statement, 1, times_now() - (int64_t)SPD_KEEP_KEY_SECONDS * 1000);
    bool ok = sqlite_run(store, statement, "deleting old keys", NULL) >= 0 && found == STORE_NOT_FOUND;
    sqlite_unlock(store);
    for (int i = 0; i < count && found == STORE_NOT_FOUND; i++) {
        each(context, ids[i]);
        store_tell(base, PLAN_DELETED, ids[i], NULL);
    }
    free(ids);
    return ok;
}
