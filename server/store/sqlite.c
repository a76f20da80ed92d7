#include "store/sqlite.h"

#include <stdlib.h>
#include <string.h>

#include "observe/log.h"
#include "server_limits.h"
#include "util/times.h"

/* ---- the store as a whole ---- */

static bool ping(struct store *base, struct problem *problem)
{
    struct sqlite_store *store = sqlite_lock(base);
    static const char what[] = "looking whether the store can be written";
    char set_version[64];
    (void)snprintf(set_version, sizeof set_version, "PRAGMA user_version = %d", sqlite_schema_version);
    /* Nothing is written, unless something was refused since that went well: then what is there is written again. */
    bool ok = sqlite_begin_transaction(store, what, problem) &&
              sqlite_number(store, "SELECT count(*) FROM models WHERE seq < 0", NULL, NULL) == 0;
    if (ok && store->refused)
        ok = sqlite_exec_text(store, set_version) || sqlite_fail(store, what, problem);
    ok = sqlite_commit(store, ok, what, problem);
    store->refused = store->refused && !ok;
    sqlite_unlock(store);
    return ok || problem_set(problem, 503, "STORE_ERROR", "The store cannot be read.");
}

static bool setting(struct store *base, const char *name, const char *proposed, char ret_value[STORE_SETTING_SIZE],
                    struct problem *problem)
{
    static const char what[] = "reading a setting";
    struct sqlite_store *store = sqlite_lock(base);
    bool ok = true;
    if (proposed != NULL) {
        sqlite3_stmt *add = sqlite_begin(store, "INSERT OR IGNORE INTO settings (name, value) VALUES (?1, ?2)");
        sqlite_text(add, 1, name);
        sqlite_text(add, 2, proposed);
        ok = sqlite_run(store, add, what, problem) >= 0;
    }
    sqlite3_stmt *find = ok ? sqlite_begin(store, "SELECT value FROM settings WHERE name = ?1") : NULL;
    sqlite_text(find, 1, name);
    const enum store_found found = ok ? sqlite_row(store, find, what) : STORE_ERROR;
    const bool may_lack = found == STORE_NOT_FOUND && proposed == NULL;
    ok = ok && (found == STORE_DONE || may_lack || sqlite_fail(store, what, problem));
    if (ok)
        (void)snprintf(ret_value, STORE_SETTING_SIZE, "%s", may_lack ? "" : sqlite_column(find, 0));
    sqlite_end(find);
    sqlite_unlock(store);
    return ok;
}

static int64_t clock_of_store(struct store *base)
{
    (void)base;
    return times_now();
}

static bool owner_lives(struct store *base, const char *owner)
{
    return strcmp(base->owner, owner) == 0;
}

static bool count(struct store *base, struct store_counts *ret_counts)
{
    struct store_counts counts = {0};
    struct sqlite_store *store = sqlite_lock(base);
    sqlite3_stmt *statement = sqlite_begin(store, "SELECT state, count(*) FROM plans GROUP BY state");
    enum store_found found;
    while ((found = sqlite_row(store, statement, "counting plans")) == STORE_DONE)
        counts.plans[store_state_of(sqlite_column(statement, 0))] = sqlite3_column_int64(statement, 1);
    sqlite_end(statement);
    int64_t oldest = 0;
    if (counts.plans[PLAN_QUEUED] > 0) {
        oldest = sqlite_number(store, "SELECT min(created_at) FROM plans WHERE state = 'queued'", NULL, NULL);
        double age = (double)(times_now() - oldest) / 1000;
        counts.oldest_seconds = age > 0 ? age : 0; /* clocks jump */
    }
    counts.models = sqlite_number(store, "SELECT count(*) FROM models", NULL, NULL);
    counts.blobs =
        sqlite_number(store, "SELECT count(*) FROM (SELECT id FROM models UNION SELECT blob FROM files)", NULL, NULL);
    counts.blob_bytes = sqlite_number(
        store, "SELECT coalesce(sum(bytes), 0) FROM (SELECT id, bytes FROM models UNION SELECT blob, bytes FROM files)",
        NULL, NULL);
    sqlite_unlock(store);
    *ret_counts = counts;
    return found == STORE_NOT_FOUND && oldest >= 0 && counts.models >= 0 && counts.blobs >= 0 && counts.blob_bytes >= 0;
}

static void close_store(struct store *base)
{
    struct sqlite_store *store = (struct sqlite_store *)base;
    sqlite_disconnect(store);
    sqlite_forget_files(store);
    (void)pthread_mutex_destroy(&store->mutex);
    free(store);
}

static const struct store_ops ops = {
    .close = close_store,
    .ping = ping,
    .setting = setting,
    .reserve = sqlite_reserve,
    .unreserve = sqlite_unreserve,
    .names = sqlite_names,
    .end_reservations = sqlite_end_reservations,
    .add_model = sqlite_add_model,
    .find_model = sqlite_find_model,
    .find_blob = sqlite_find_blob,
    .get_model = sqlite_get_model,
    .touch_model = sqlite_touch_model,
    .delete_model = sqlite_delete_model,
    .list_models = sqlite_list_models,
    .unused_models = sqlite_unused_models,
    .tenant_bytes = sqlite_tenant_bytes,
    .add_file = sqlite_add_file,
    .find_file = sqlite_find_file,
    .list_files = sqlite_list_files,
    .add_upload = sqlite_add_upload,
    .get_upload = sqlite_get_upload,
    .list_uploads = sqlite_list_uploads,
    .complete_upload = sqlite_complete_upload,
    .delete_upload = sqlite_delete_upload,
    .expire_uploads = sqlite_expire_uploads,
    .add_plan = sqlite_add_plan,
    .find_plan = sqlite_find_plan,
    .get_plan = sqlite_get_plan,
    .list_plans = sqlite_list_plans,
    .claim = sqlite_claim,
    .list_waiting = sqlite_list_waiting,
    .beat = sqlite_beat,
    .progress = sqlite_progress,
    .finish = sqlite_finish,
    .lose_result = sqlite_lose_result,
    .requeue = sqlite_requeue,
    .cancel = sqlite_cancel,
    .delete_plan = sqlite_delete_plan,
    .reclaim = sqlite_reclaim,
    .expire = sqlite_expire,
    .time = clock_of_store,
    .owner_lives = owner_lives,
    .count = count,
};

/* ---- opening ---- */

bool sqlite_open(const struct store_options *options, struct store **ret_store, struct problem *problem)
{
    struct sqlite_store *store = calloc(1, sizeof *store);
    if (store == NULL)
        return problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory.");
    store_init(&store->base, &ops, options);
    store->folder = options->folder;
    (void)pthread_mutex_init(&store->mutex, NULL);
    bool ok = sqlite_name_files(store, options->path) || problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory.");
    ok = ok && sqlite_connect(store, true, problem);
    if (!ok) {
        close_store(&store->base);
        return false;
    }
    *ret_store = &store->base;
    return true;
}
