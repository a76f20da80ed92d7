#include "store/store.h"

#include <stdlib.h>
#include <string.h>

#include "faults/faults.h"
#include "server.h"
#include "store/internal.h"

/* ---- opening ---- */

bool store_open(const struct store_options *options, struct store **ret_store, struct problem *problem)
{
    bool remote = options->url != NULL && options->url[0] != '\0';
    struct store *store = NULL;
    if (!(remote ? postgres_open : sqlite_open)(options, &store, problem))
        return false;
    *ret_store = store;
    return true;
}

void store_close(struct store *store)
{
    if (store != NULL)
        store->ops->close(store);
}

/* ---- the calls, counted and timed ---- */

/* Ends a call that began at `start`; returns what is passed in. */
static bool counted(const struct store *store, const char *name, bool ok, uint64_t start)
{
    if (store->called != NULL)
        store->called(store->context, name, ok, (double)(server_now_us() - start) / 1e6);
    return ok;
}

/* What a call that tests make fail says. */
static bool away(struct problem *problem)
{
    return problem_set(problem, 503, "STORE_UNAVAILABLE", "The store does not answer at the moment; try again later.");
}

static enum store_added not_added(struct problem *problem)
{
    (void)away(problem);
    return STORE_FAILED;
}

#define CALL(type, name, failed, broken, ...)                                                                          \
    uint64_t start = server_now_us();                                                                                  \
    type result = faults_hit(FAULT_STORE) ? broken : store->ops->name(__VA_ARGS__);                                    \
    (void)counted(store, #name, !(failed), start);                                                                     \
    return result

bool store_ping(struct store *store, struct problem *problem)
{
    CALL(bool, ping, !result, away(problem), store, problem);
}

bool store_setting(struct store *store, const char *name, const char *proposed, char ret_value[STORE_SETTING_SIZE],
                   struct problem *problem)
{
    CALL(bool, setting, !result, away(problem), store, name, proposed, ret_value, problem);
}

bool store_reserve(struct store *store, const char *id, int64_t *ret_number, struct problem *problem)
{
    CALL(bool, reserve, !result, away(problem), store, id, ret_number, problem);
}

bool store_unreserve(struct store *store, int64_t number)
{
    CALL(bool, unreserve, !result, false, store, number);
}

enum store_found store_names(struct store *store, const char *id, int64_t number, enum store_file file)
{
    CALL(enum store_found, names, result == STORE_ERROR, STORE_ERROR, store, id, number, file);
}

bool store_end_reservations(struct store *store)
{
    CALL(bool, end_reservations, !result, false, store);
}

enum store_added store_add_model(struct store *store, struct model_row *row, bool replaces,
                                 const struct store_quota *quota, struct problem *problem)
{
    CALL(enum store_added, add_model, result == STORE_FAILED, not_added(problem), store, row, replaces, quota, problem);
}

enum store_found store_find_model(struct store *store, const char *tenant, const char *id)
{
    CALL(enum store_found, find_model, result == STORE_ERROR, STORE_ERROR, store, tenant, id);
}

static enum store_found find_blob(struct store *store, const char *tenant, const char *id, int64_t *ret_number)
{
    CALL(enum store_found, find_blob, result == STORE_ERROR, STORE_ERROR, store, tenant, id, ret_number);
}

enum store_found store_find_blob(struct store *store, const char *tenant, const char *id,
                                 char ret_blob[STORE_BLOB_SIZE])
{
    int64_t number = 0;
    enum store_found found = find_blob(store, tenant, id, &number);
    store_blob_name(id, number, ret_blob);
    return found;
}

enum store_found store_get_model(struct store *store, const char *tenant, const char *id, struct model_row *ret_row)
{
    CALL(enum store_found, get_model, result == STORE_ERROR, STORE_ERROR, store, tenant, id, ret_row);
}

void store_touch_model(struct store *store, const char *tenant, const char *id)
{
    uint64_t start = server_now_us();
    (void)counted(store, "touch_model", store->ops->touch_model(store, tenant, id), start);
}

enum store_found store_delete_model(struct store *store, const char *tenant, const char *id)
{
    CALL(enum store_found, delete_model, result == STORE_ERROR, STORE_ERROR, store, tenant, id);
}

bool store_list_models(struct store *store, const char *tenant, int64_t before, int limit,
                       void (*each)(void *context, const struct model_row *row), void *context)
{
    CALL(bool, list_models, !result, false, store, tenant, before, limit, each, context);
}

bool store_unused_models(struct store *store, const char *tenant, int limit,
                         void (*each)(void *context, const struct model_row *row), void *context)
{
    CALL(bool, unused_models, !result, false, store, tenant, limit, each, context);
}

bool store_tenant_bytes(struct store *store, void (*each)(void *context, const char *tenant, int64_t bytes),
                        void *context)
{
    CALL(bool, tenant_bytes, !result, false, store, each, context);
}

enum store_added store_add_file(struct store *store, struct file_row *row, bool replaces,
                                const struct store_quota *quota, struct problem *problem)
{
    CALL(enum store_added, add_file, result == STORE_FAILED, not_added(problem), store, row, replaces, quota, problem);
}

enum store_found store_find_file(struct store *store, const char *sha256, char ret_blob[STORE_BLOB_SIZE])
{
    CALL(enum store_found, find_file, result == STORE_ERROR, STORE_ERROR, store, sha256, ret_blob);
}

bool store_list_files(struct store *store, const char *tenant, const char *model,
                      void (*each)(void *context, const struct file_row *row), void *context)
{
    CALL(bool, list_files, !result, false, store, tenant, model, each, context);
}

enum store_added store_add_upload(struct store *store, struct upload_row *row, int64_t keep_ms,
                                  const struct store_quota *quota, struct problem *problem)
{
    CALL(enum store_added, add_upload, result == STORE_FAILED, not_added(problem), store, row, keep_ms, quota, problem);
}

enum store_found store_get_upload(struct store *store, const char *tenant, const char *id, struct upload_row *ret_row)
{
    CALL(enum store_found, get_upload, result == STORE_ERROR, STORE_ERROR, store, tenant, id, ret_row);
}

bool store_list_uploads(struct store *store, const char *tenant, int64_t before, int limit,
                        void (*each)(void *context, const struct upload_row *row), void *context)
{
    CALL(bool, list_uploads, !result, false, store, tenant, before, limit, each, context);
}

enum store_found store_complete_upload(struct store *store, const char *id, const char *digest)
{
    CALL(enum store_found, complete_upload, result == STORE_ERROR, STORE_ERROR, store, id, digest);
}

enum store_found store_delete_upload(struct store *store, const char *tenant, const char *id)
{
    CALL(enum store_found, delete_upload, result == STORE_ERROR, STORE_ERROR, store, tenant, id);
}

bool store_expire_uploads(struct store *store, int limit, void (*each)(void *context, const char *id), void *context)
{
    CALL(bool, expire_uploads, !result, false, store, limit, each, context);
}

enum store_added store_add_plan(struct store *store, struct plan_row *row, const struct store_question *question,
                                const struct store_quota *quota, struct problem *problem)
{
    CALL(enum store_added, add_plan, result == STORE_FAILED, not_added(problem), store, row, question, quota, problem);
}

enum store_found store_find_plan(struct store *store, const char *tenant, const char *id)
{
    CALL(enum store_found, find_plan, result == STORE_ERROR, STORE_ERROR, store, tenant, id);
}

enum store_found store_get_plan(struct store *store, const char *tenant, const char *id, struct plan_row *ret_row)
{
    CALL(enum store_found, get_plan, result == STORE_ERROR, STORE_ERROR, store, tenant, id, ret_row);
}

bool store_list_plans(struct store *store, const char *tenant, int64_t before, int limit,
                      void (*each)(void *context, const struct plan_row *row), void *context)
{
    CALL(bool, list_plans, !result, false, store, tenant, before, limit, each, context);
}

enum store_found store_claim(struct store *store, const char *tenant, struct plan_row *ret_row)
{
    CALL(enum store_found, claim, result == STORE_ERROR, STORE_ERROR, store, tenant, ret_row);
}

bool store_list_waiting(struct store *store, const char *from, int limit,
                        void (*each)(void *context, const char *tenant), void *context)
{
    CALL(bool, list_waiting, !result, false, store, from, limit, each, context);
}

bool store_beat(struct store *store, const char (*held)[STORE_ID_SIZE], unsigned count)
{
    CALL(bool, beat, !result, false, store, held, count);
}

void store_progress(struct store *store, const char *id, int64_t attempt, const struct job_progress *progress)
{
    uint64_t start = server_now_us();
    bool ok = !faults_hit(FAULT_STORE) && store->ops->progress(store, id, attempt, progress);
    (void)counted(store, "progress", ok, start);
}

enum store_changed store_finish(struct store *store, const char *id, int64_t attempt, enum plan_state state,
                                bool has_result, const char *error, const char *files)
{
    CALL(enum store_changed, finish, result == STORE_BROKEN, STORE_BROKEN, store, id, attempt, state, has_result, error,
         files);
}

enum store_changed store_lose_result(struct store *store, const char *id, int64_t attempt, const char *error)
{
    CALL(enum store_changed, lose_result, result == STORE_BROKEN, STORE_BROKEN, store, id, attempt, error);
}

enum store_changed store_requeue(struct store *store, const char *id, int64_t attempt, bool crashed)
{
    CALL(enum store_changed, requeue, result == STORE_BROKEN, STORE_BROKEN, store, id, attempt, crashed);
}

enum store_found store_cancel(struct store *store, const char *tenant, const char *id)
{
    CALL(enum store_found, cancel, result == STORE_ERROR, STORE_ERROR, store, tenant, id);
}

enum store_found store_delete_plan(struct store *store, const char *tenant, const char *id)
{
    CALL(enum store_found, delete_plan, result == STORE_ERROR, STORE_ERROR, store, tenant, id);
}

int64_t store_reclaim(struct store *store, bool all)
{
    CALL(int64_t, reclaim, result < 0, -1, store, all);
}

bool store_expire(struct store *store, int64_t finished_before, int limit, void (*each)(void *context, const char *id),
                  void *context)
{
    CALL(bool, expire, !result, false, store, finished_before, limit, each, context);
}

int64_t store_time(struct store *store)
{
    CALL(int64_t, time, result == 0, 0, store);
}

bool store_owner_lives(struct store *store, const char *owner)
{
    return store->ops->owner_lives(store, owner);
}

bool store_count(struct store *store, struct store_counts *ret_counts)
{
    CALL(bool, count, !result, false, store, ret_counts);
}
