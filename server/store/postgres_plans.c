#include <stdlib.h>
#include <string.h>

#include "store/postgres.h"

#define TRIES 4 /* of a transaction that lost against another one */

bool pg_read_plan(const PGresult *rows, int index, struct plan_row *row)
{
    memset(row, 0, sizeof *row);
    const char *error = pg_text_at(rows, index, 12), *files = pg_text_at(rows, index, 20);
    row->seq = pg_int_at(rows, index, 0);
    pg_copy(row->tenant, sizeof row->tenant, pg_text_at(rows, index, 1));
    pg_copy(row->id, sizeof row->id, pg_text_at(rows, index, 2));
    pg_copy(row->model, sizeof row->model, pg_text_at(rows, index, 3));
    row->request = strdup(PQgetvalue(rows, index, 4));
    row->priority = (enum plan_priority)pg_int_at(rows, index, 5);
    row->state = store_state_of(pg_text_at(rows, index, 6));
    row->cancel_requested = pg_int_at(rows, index, 7) != 0;
    row->has_result = pg_int_at(rows, index, 8) != 0;
    pg_copy(row->owner, sizeof row->owner, pg_text_at(rows, index, 9));
    row->attempts = pg_int_at(rows, index, 10);
    row->crashes = pg_int_at(rows, index, 11);
    row->error = error != NULL ? strdup(error) : NULL;
    row->created_at = pg_int_at(rows, index, 13);
    row->started_at = pg_int_at(rows, index, 14);
    row->finished_at = pg_int_at(rows, index, 15);
    pg_copy(row->progress.phase, sizeof row->progress.phase, pg_text_at(rows, index, 16));
    row->progress.fraction = pg_double_at(rows, index, 17);
    row->progress.best_seconds = pg_double_at(rows, index, 18);
    row->progress.lower_bound_seconds = pg_double_at(rows, index, 19);
    row->files = files != NULL ? strdup(files) : NULL;
    return row->request != NULL && (error == NULL || row->error != NULL) && (files == NULL || row->files != NULL);
}

/* ---- adding ---- */

/* Looks at what an earlier request with this key was; STORE_ADDED means: none. */
static enum store_added check_key(struct pg_call *call, struct plan_row *row, const struct store_question *question)
{
    enum store_added result = STORE_ADDED;
    PGresult *rows = PG_QUERY(call, "SELECT plan, fingerprint FROM keys WHERE tenant = $1 AND key = $2",
                              pg_s(row->tenant), pg_s(question->key));
    if (rows == NULL)
        return STORE_FAILED;
    if (PQntuples(rows) > 0) {
        result = strcmp(PQgetvalue(rows, 0, 1), question->fingerprint) == 0 ? STORE_EXISTS : STORE_KEY_REUSED;
        if (result == STORE_EXISTS)
            pg_copy(row->id, sizeof row->id, pg_text_at(rows, 0, 0));
    }
    PQclear(rows);
    return result;
}

/* Looks for a plan of the same question; STORE_ADDED means: none. */
static enum store_added check_question(struct pg_call *call, struct plan_row *row,
                                       const struct store_question *question)
{
    enum store_added result = STORE_ADDED;
    PGresult *rows = PG_QUERY(call,
                              "SELECT id FROM plans WHERE tenant = $1 AND question = $2 AND NOT cancel_requested AND "
                              "state IN ('queued', 'running', 'succeeded') ORDER BY seq DESC LIMIT 1",
                              pg_s(row->tenant), pg_s(question->question));
    if (rows == NULL)
        return STORE_FAILED;
    if (PQntuples(rows) > 0) {
        result = STORE_REUSED;
        pg_copy(row->id, sizeof row->id, pg_text_at(rows, 0, 0));
    }
    PQclear(rows);
    return result;
}

/* Whether the tenant may queue one more plan (internal.h); negative where that cannot be told. */
static int queue_has_room(struct pg_call *call, const char *tenant, const struct store_quota *quota, int64_t queued)
{
    struct store_queue_use use = {0};
    if (store_queue_is_short(quota, queued))
        return 1;
    const int64_t others = pg_number(PG_QUERY(
        call, "SELECT count(DISTINCT tenant) FROM plans WHERE state = 'queued' AND tenant <> $1", pg_s(tenant)));
    use.own =
        pg_number(PG_QUERY(call, "SELECT count(*) FROM plans WHERE state = 'queued' AND tenant = $1", pg_s(tenant)));
    if (others < 0 || use.own < 0)
        return -1;
    use.tenants = others + 1 > quota->tenants ? others + 1 : quota->tenants;
    use.beyond = pg_number(PG_QUERY(call,
                                    "SELECT coalesce(sum(more), 0)::bigint FROM (SELECT count(*) - $2 AS more FROM "
                                    "plans WHERE state = 'queued' AND tenant <> $1 GROUP BY tenant) AS counts WHERE "
                                    "more > 0",
                                    pg_s(tenant), pg_i(store_queue_share(quota, use.tenants))));
    return use.beyond < 0 ? -1 : store_queue_has_room(quota, &use);
}

/* Whether there is room for one more, and the model is the tenant's. */
static enum store_added check_room(struct pg_call *call, const struct plan_row *row, const struct store_quota *quota)
{
    int64_t queued = pg_number(PG_QUERY(call, "SELECT count(*) FROM plans WHERE state = 'queued'"));
    int64_t own = pg_number(PG_QUERY(
        call, "SELECT count(*) FROM plans WHERE state IN ('queued', 'running') AND tenant = $1", pg_s(row->tenant)));
    int64_t model = pg_count(PG_QUERY(call, "UPDATE models SET used_at = " PG_NOW " WHERE tenant = $1 AND id = $2",
                                      pg_s(row->tenant), pg_s(row->model)));
    int room = queued < 0 ? -1 : queue_has_room(call, row->tenant, quota, queued);
    if (room < 0 || own < 0 || model < 0)
        return STORE_FAILED;
    if (model == 0)
        return STORE_NO_MODEL;
    if (room == 0)
        return STORE_FULL;
    if (quota->tenant_plans > 0 && own >= quota->tenant_plans)
        return store_over_plans(call->problem, quota, own);
    return STORE_ADDED;
}

static enum store_added insert(struct pg_call *call, const struct plan_row *row, const struct store_question *question)
{
    bool ok = pg_count(PG_QUERY(call,
                                "WITH changed AS (INSERT INTO plans (tenant, id, model, request, question, priority, "
                                "state, created_at) VALUES ($2, $3, $4, $5, $6, $7, 'queued', " PG_NOW ") "
                                "RETURNING id, tenant) SELECT " PG_TELL("'q'") " FROM changed",
                                pg_s(call->store->base.owner), pg_s(row->tenant), pg_s(row->id), pg_s(row->model),
                                pg_s(row->request), pg_s(question->question), pg_i(row->priority))) >= 0;
    return ok ? STORE_ADDED : STORE_FAILED;
}

/* Remembers the key for the plan; a plan that was found by its question gets it, too. */
static bool keep_key(struct pg_call *call, const struct plan_row *row, const struct store_question *question)
{
    return pg_count(PG_QUERY(call,
                             "INSERT INTO keys (tenant, key, fingerprint, plan, created_at) "
                             "VALUES ($1, $2, $3, $4, " PG_NOW ")",
                             pg_s(row->tenant), pg_s(question->key), pg_s(question->fingerprint), pg_s(row->id))) >= 0;
}

/* The whole transaction, once. The lock makes equal questions, keys and quotas of a tenant wait for one another. */
static enum store_added try_to_add(struct pg_call *call, struct plan_row *row, const struct store_question *question,
                                   const struct store_quota *quota)
{
    enum store_added result = STORE_ADDED;
    if (!pg_transaction(call) || !pg_lock_tenant(call, row->tenant))
        return STORE_FAILED;
    if (question->key != NULL)
        result = check_key(call, row, question);
    bool key_is_new = question->key != NULL && result == STORE_ADDED;
    if (result == STORE_ADDED && question->reuse)
        result = check_question(call, row, question);
    if (result == STORE_ADDED)
        result = check_room(call, row, quota);
    if (result == STORE_ADDED)
        result = insert(call, row, question);
    bool keep = result == STORE_ADDED || result == STORE_REUSED;
    if (keep && ((key_is_new && !keep_key(call, row, question)) || !pg_commit(call)))
        result = STORE_FAILED;
    return result;
}

enum store_added pg_add_plan(struct store *base, struct plan_row *row, const struct store_question *question,
                             const struct store_quota *quota, struct problem *problem)
{
    enum store_added result = STORE_FAILED;
    bool again = true;
    char id[STORE_ID_SIZE];
    memcpy(id, row->id, sizeof id);
    for (int i = 0; i < TRIES && again; i++) {
        struct pg_call call;
        memcpy(row->id, id, sizeof id);
        if (pg_begin(&call, base, "adding a plan", problem))
            result = try_to_add(&call, row, question, quota);
        if (!pg_end(&call))
            result = STORE_FAILED;
        again = result == STORE_FAILED && pg_is_conflict(&call);
    }
    if (result == STORE_FAILED)
        (void)problem_set(problem, 503, "STORE_ERROR", "The store could not take the plan.");
    if (result == STORE_ADDED)
        store_tell(base, PLAN_WAITS, row->id, row->tenant);
    return result;
}

/* ---- reading ---- */

enum store_found pg_find_plan(struct store *base, const char *tenant, const char *id)
{
    struct pg_call call;
    int64_t rows = -1;
    if (pg_begin(&call, base, "looking for a plan", NULL))
        rows = pg_number(
            PG_QUERY(&call, "SELECT count(*) FROM plans WHERE id = $1 AND ($2::text IS NULL OR tenant = $2::text)",
                     pg_s(id), pg_s(tenant)));
    return !pg_end(&call) || rows < 0 ? STORE_ERROR : rows > 0 ? STORE_DONE : STORE_NOT_FOUND;
}

enum store_found pg_get_plan(struct store *base, const char *tenant, const char *id, struct plan_row *ret_row)
{
    struct pg_call call;
    PGresult *rows = NULL;
    enum store_found found = STORE_ERROR;
    if (pg_begin(&call, base, "reading a plan", NULL))
        rows = PG_QUERY(&call,
                        "SELECT " PG_PLAN_COLUMNS " FROM plans WHERE id = $1 AND ($2::text IS NULL OR tenant = "
                        "$2::text)",
                        pg_s(id), pg_s(tenant));
    if (pg_end(&call))
        found = PQntuples(rows) > 0 ? STORE_DONE : STORE_NOT_FOUND;
    if (found == STORE_DONE && !pg_read_plan(rows, 0, ret_row)) {
        store_release_plan(ret_row);
        found = STORE_ERROR;
    }
    PQclear(rows);
    return found;
}

bool pg_list_plans(struct store *base, const char *tenant, int64_t before, int limit,
                   void (*each)(void *context, const struct plan_row *row), void *context)
{
    struct pg_call call;
    PGresult *rows = NULL;
    if (pg_begin(&call, base, "listing plans", NULL))
        rows = PG_QUERY(&call,
                        "SELECT " PG_PLAN_COLUMNS " FROM plans WHERE seq < $1 AND ($2::text IS NULL OR tenant = "
                        "$2::text) ORDER BY seq DESC LIMIT $3",
                        pg_i(before), pg_s(tenant), pg_i(limit));
    (void)pg_end(&call);
    bool complete = rows != NULL;
    for (int i = 0; rows != NULL && i < PQntuples(rows); i++) {
        struct plan_row row;
        bool read = pg_read_plan(rows, i, &row);
        if (read)
            each(context, &row);
        complete = complete && read;
        store_release_plan(&row);
    }
    PQclear(rows);
    return complete;
}

/* ---- removing ---- */

enum store_found pg_delete_plan(struct store *base, const char *tenant, const char *id)
{
    struct pg_call call;
    int64_t deleted = -1;
    if (pg_begin(&call, base, "deleting a plan", NULL))
        deleted = pg_count(PG_QUERY(&call,
                                    "WITH changed AS (DELETE FROM plans WHERE id = $2 AND ($3::text IS NULL OR "
                                    "tenant = $3::text) RETURNING id, tenant) SELECT " PG_TELL("'d'") " FROM changed",
                                    pg_s(base->owner), pg_s(id), pg_s(tenant)));
    (void)pg_end(&call);
    if (deleted > 0)
        store_tell(base, PLAN_DELETED, id, NULL);
    return deleted < 0 ? STORE_ERROR : deleted > 0 ? STORE_DONE : STORE_NOT_FOUND;
}

bool pg_expire(struct store *base, int64_t finished_before, int limit, void (*each)(void *context, const char *id),
               void *context)
{
    struct pg_call call;
    PGresult *rows = NULL;
    if (pg_begin(&call, base, "deleting old plans", NULL)) {
        rows = PG_QUERY(&call,
                        "WITH changed AS (DELETE FROM plans WHERE seq IN (SELECT seq FROM plans WHERE finished_at > 0 "
                        "AND finished_at < $2::bigint AND state IN ('succeeded', 'failed', 'cancelled') ORDER BY "
                        "finished_at LIMIT $3 FOR UPDATE SKIP LOCKED) RETURNING id, tenant) SELECT id, " PG_TELL(
                            "'d'") " FROM changed",
                        pg_s(base->owner), pg_i(finished_before), pg_i(limit));
        (void)pg_count(PG_QUERY(&call, "DELETE FROM keys WHERE created_at < " PG_NOW " - $1::bigint",
                                pg_i((int64_t)SPD_KEEP_KEY_SECONDS * 1000)));
        /* Of daemons that are gone for so long nothing is left that a sweep could find. */
        (void)pg_count(PG_QUERY(&call, "DELETE FROM daemons WHERE beat_at < " PG_NOW " - 10 * lease_ms - $1::bigint",
                                pg_i((int64_t)SPD_KEEP_KEY_SECONDS * 1000)));
    }
    bool ok = pg_end(&call);
    for (int i = 0; rows != NULL && i < PQntuples(rows); i++) {
        each(context, PQgetvalue(rows, i, 0));
        store_tell(base, PLAN_DELETED, PQgetvalue(rows, i, 0), NULL);
    }
    PQclear(rows);
    return ok;
}
