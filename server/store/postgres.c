#include "store/postgres.h"

#include <stdlib.h>
#include <string.h>

/* ---- the store as a whole ---- */

/* Why the server cannot be asked. */
static void say_why(struct pg_store *store, struct problem *problem)
{
    char reason[sizeof store->reason];
    (void)pthread_mutex_lock(&store->mutex);
    pg_copy(reason, sizeof reason, store->away ? store->reason : "the connection broke or is busy");
    (void)pthread_mutex_unlock(&store->mutex);
    (void)problem_set(problem, 503, "STORE_UNAVAILABLE", "PostgreSQL cannot be reached: %s.", reason);
}

static bool ping(struct store *base, struct problem *problem)
{
    struct pg_call call;
    int64_t read_only = -1;
    if (pg_begin(&call, base, "looking whether the database can be written", NULL))
        read_only = pg_number(
            PG_QUERY(&call, "SELECT (pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on')::int"));
    (void)pg_end(&call);
    if (read_only > 0)
        (void)problem_set(problem, 503, "STORE_READ_ONLY", "The database cannot be written at the moment.");
    else if (read_only < 0)
        say_why((struct pg_store *)base, problem);
    return read_only == 0;
}

static bool setting(struct store *base, const char *name, const char *proposed, char ret_value[STORE_SETTING_SIZE],
                    struct problem *problem)
{
    struct pg_call call;
    bool found = false;
    if (pg_begin(&call, base, "reading a setting", problem)) {
        if (proposed != NULL)
            PQclear(PG_QUERY(&call, "INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING",
                             pg_s(name), pg_s(proposed)));
        PGresult *rows = PG_QUERY(&call, "SELECT value FROM settings WHERE name = $1", pg_s(name));
        const bool has = rows != NULL && PQntuples(rows) == 1;
        found = has || (rows != NULL && proposed == NULL);
        if (found)
            pg_copy(ret_value, STORE_SETTING_SIZE, has ? pg_text_at(rows, 0, 0) : "");
        PQclear(rows);
    }
    return pg_end(&call) && found;
}

static int64_t clock_of_store(struct store *base)
{
    struct pg_call call;
    int64_t now = -1;
    if (pg_begin(&call, base, "reading the clock", NULL))
        now = pg_number(PG_QUERY(&call, "SELECT " PG_NOW));
    return pg_end(&call) && now > 0 ? now : 0;
}

static void count_plans(struct pg_call *call, struct store_counts *counts)
{
    PGresult *rows = PG_QUERY(call, "SELECT state, count(*), greatest(" PG_NOW " - min(created_at), 0) FROM plans "
                                    "GROUP BY state");
    for (int i = 0; rows != NULL && i < PQntuples(rows); i++) {
        enum plan_state state = store_state_of(pg_text_at(rows, i, 0));
        counts->plans[state] = pg_int_at(rows, i, 1);
        if (state == PLAN_QUEUED)
            counts->oldest_seconds = (double)pg_int_at(rows, i, 2) / 1000;
    }
    PQclear(rows);
}

static bool count(struct store *base, struct store_counts *ret_counts)
{
    struct pg_call call;
    struct store_counts counts = {0};
    if (pg_begin(&call, base, "counting", NULL)) {
        count_plans(&call, &counts);
        PGresult *rows = PG_QUERY(&call, "SELECT (SELECT count(*) FROM models), count(*), coalesce(sum(bytes), 0) FROM "
                                         "(SELECT id, bytes FROM models UNION SELECT blob, bytes FROM files) AS had");
        if (rows != NULL) {
            counts.models = pg_int_at(rows, 0, 0);
            counts.blobs = pg_int_at(rows, 0, 1);
            counts.blob_bytes = pg_int_at(rows, 0, 2);
        }
        PQclear(rows);
    }
    bool ok = pg_end(&call);
    if (ok)
        *ret_counts = counts;
    return ok;
}

/* A daemon that ends in peace is known to be gone at once. */
static void say_goodbye(struct store *base)
{
    struct pg_call call;
    if (pg_begin(&call, base, "saying goodbye", NULL))
        PQclear(PG_QUERY(&call, "DELETE FROM daemons WHERE owner = $1", pg_s(base->owner)));
    (void)pg_end(&call);
}

static void close_store(struct store *base)
{
    struct pg_store *store = (struct pg_store *)base;
    if (store->has_listener)
        say_goodbye(base);
    pg_pool_stop(store);
    pg_address_free(&store->address);
    free(store);
}

static const struct store_ops ops = {
    .close = close_store,
    .ping = ping,
    .setting = setting,
    .reserve = pg_reserve,
    .unreserve = pg_unreserve,
    .names = pg_names,
    .end_reservations = pg_end_reservations,
    .add_model = pg_add_model,
    .find_model = pg_find_model,
    .find_blob = pg_find_blob,
    .get_model = pg_get_model,
    .touch_model = pg_touch_model,
    .delete_model = pg_delete_model,
    .list_models = pg_list_models,
    .unused_models = pg_unused_models,
    .tenant_bytes = pg_tenant_bytes,
    .add_file = pg_add_file,
    .find_file = pg_find_file,
    .list_files = pg_list_files,
    .add_upload = pg_add_upload,
    .get_upload = pg_get_upload,
    .list_uploads = pg_list_uploads,
    .complete_upload = pg_complete_upload,
    .delete_upload = pg_delete_upload,
    .expire_uploads = pg_expire_uploads,
    .add_plan = pg_add_plan,
    .find_plan = pg_find_plan,
    .get_plan = pg_get_plan,
    .list_plans = pg_list_plans,
    .claim = pg_claim,
    .list_waiting = pg_list_waiting,
    .beat = pg_beat,
    .progress = pg_progress,
    .finish = pg_finish,
    .lose_result = pg_lose_result,
    .requeue = pg_requeue,
    .cancel = pg_cancel,
    .delete_plan = pg_delete_plan,
    .reclaim = pg_reclaim,
    .expire = pg_expire,
    .time = clock_of_store,
    .owner_lives = pg_owner_lives,
    .count = count,
};

bool postgres_open(const struct store_options *options, struct store **ret_store, struct problem *problem)
{
    struct pg_store *store = calloc(1, sizeof *store);
    if (store == NULL)
        return problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory.");
    store_init(&store->base, &ops, options);
    if (!pg_address_read(&store->address, options, problem)) {
        pg_address_free(&store->address);
        free(store);
        return false;
    }
    bool ok = pg_pool_start(store, problem) && pg_migrate(store, problem);
    /* From the first beat on others know that this daemon lives. */
    if (ok && !pg_beat(&store->base, NULL, 0))
        ok = problem_set(problem, 503, "STORE_UNAVAILABLE", "The database went away while the daemon started.");
    if (ok && !pg_listen_start(store))
        ok = problem_set(problem, 503, "OUT_OF_MEMORY", "The thread that listens cannot be started.");
    if (!ok) {
        close_store(&store->base);
        return false;
    }
    *ret_store = &store->base;
    return true;
}
