#pragma once
/*
 * internal - what an implementation of the store provides: the functions of store.h, as a table.
 *
 * Each store begins with `struct store`. store.c counts and times the calls and hands them on; what the functions do is
 * said in store.h. `release` functions, names of states and the like are no matter of an implementation.
 */
#include "store/store.h"

struct store_ops {
    void (*close)(struct store *store);
    bool (*ping)(struct store *store, struct problem *problem);
    bool (*setting)(struct store *store, const char *name, const char *proposed, char ret_value[STORE_SETTING_SIZE],
                    struct problem *problem);

    bool (*reserve)(struct store *store, const char *id, int64_t *ret_number, struct problem *problem);
    bool (*unreserve)(struct store *store, int64_t number);
    enum store_found (*names)(struct store *store, const char *id, int64_t number, enum store_file file);
    bool (*end_reservations)(struct store *store);

    enum store_added (*add_model)(struct store *store, struct model_row *row, bool replaces,
                                  const struct store_quota *quota, struct problem *problem);
    enum store_found (*find_model)(struct store *store, const char *tenant, const char *id);
    enum store_found (*find_blob)(struct store *store, const char *tenant, const char *id, int64_t *ret_number);
    enum store_found (*get_model)(struct store *store, const char *tenant, const char *id, struct model_row *ret_row);
    bool (*touch_model)(struct store *store, const char *tenant, const char *id);
    enum store_found (*delete_model)(struct store *store, const char *tenant, const char *id);
    bool (*list_models)(struct store *store, const char *tenant, int64_t before, int limit,
                        void (*each)(void *context, const struct model_row *row), void *context);
    bool (*unused_models)(struct store *store, const char *tenant, int limit,
                          void (*each)(void *context, const struct model_row *row), void *context);
    bool (*tenant_bytes)(struct store *store, void (*each)(void *context, const char *tenant, int64_t bytes),
                         void *context);

    enum store_added (*add_file)(struct store *store, struct file_row *row, bool replaces,
                                 const struct store_quota *quota, struct problem *problem);
    enum store_found (*find_file)(struct store *store, const char *sha256, char ret_blob[STORE_BLOB_SIZE]);
    bool (*list_files)(struct store *store, const char *tenant, const char *model,
                       void (*each)(void *context, const struct file_row *row), void *context);
    enum store_added (*add_upload)(struct store *store, struct upload_row *row, int64_t keep_ms,
                                   const struct store_quota *quota, struct problem *problem);
    enum store_found (*get_upload)(struct store *store, const char *tenant, const char *id, struct upload_row *ret_row);
    bool (*list_uploads)(struct store *store, const char *tenant, int64_t before, int limit,
                         void (*each)(void *context, const struct upload_row *row), void *context);
    enum store_found (*complete_upload)(struct store *store, const char *id, const char *digest);
    enum store_found (*delete_upload)(struct store *store, const char *tenant, const char *id);
    bool (*expire_uploads)(struct store *store, int limit, void (*each)(void *context, const char *id), void *context);

    enum store_added (*add_plan)(struct store *store, struct plan_row *row, const struct store_question *question,
                                 const struct store_quota *quota, struct problem *problem);
    enum store_found (*find_plan)(struct store *store, const char *tenant, const char *id);
    enum store_found (*get_plan)(struct store *store, const char *tenant, const char *id, struct plan_row *ret_row);
    bool (*list_plans)(struct store *store, const char *tenant, int64_t before, int limit,
                       void (*each)(void *context, const struct plan_row *row), void *context);
    enum store_found (*claim)(struct store *store, const char *tenant, struct plan_row *ret_row);
    bool (*list_waiting)(struct store *store, const char *from, int limit,
                         void (*each)(void *context, const char *tenant), void *context);
    bool (*beat)(struct store *store, const char (*held)[STORE_ID_SIZE], unsigned count);
    bool (*progress)(struct store *store, const char *id, int64_t attempt, const struct job_progress *progress);
    enum store_changed (*finish)(struct store *store, const char *id, int64_t attempt, enum plan_state state,
                                 bool has_result, const char *error, const char *files);
    enum store_changed (*lose_result)(struct store *store, const char *id, int64_t attempt, const char *error);
    enum store_changed (*requeue)(struct store *store, const char *id, int64_t attempt, bool crashed);
    enum store_found (*cancel)(struct store *store, const char *tenant, const char *id);
    enum store_found (*delete_plan)(struct store *store, const char *tenant, const char *id);
    int64_t (*reclaim)(struct store *store, bool all);
    bool (*expire)(struct store *store, int64_t finished_before, int limit, void (*each)(void *context, const char *id),
                   void *context);
    int64_t (*time)(struct store *store);
    bool (*owner_lives)(struct store *store, const char *owner);
    bool (*count)(struct store *store, struct store_counts *ret_counts);
};

struct store {
    const struct store_ops *ops;
    char owner[STORE_OWNER_SIZE];
    unsigned lease_seconds;
    void (*changed)(void *context, const struct store_change *change);
    void (*called)(void *context, const char *name, bool ok, double seconds);
    void *context;
};

/* Tell whoever listens; no lock of the store may be held. NULL: anything may have changed. */
static inline void store_tell_of(const struct store *base, const struct store_change *change)
{
    if (base->changed != NULL)
        base->changed(base->context, change);
}

/* What this daemon did; the tenant of a plan that waits, else NULL. */
static inline void store_tell(const struct store *base, enum plan_change what, const char *plan, const char *tenant)
{
    store_tell_of(base, &(struct store_change){.what = what, .plan = plan, .tenant = tenant, .is_own = true});
}

/* What all implementations begin with. */
void store_init(struct store *store, const struct store_ops *ops, const struct store_options *options);

/* The implementations. */
bool sqlite_open(const struct store_options *options, struct store **ret_store, struct problem *problem);
bool postgres_open(const struct store_options *options, struct store **ret_store, struct problem *problem);

/* What the plan that failed after SPD_MAX_ATTEMPTS starts says, as JSON of problem.h. */
#define STORE_INTERRUPTED                                                                                              \
    "{\"status\":500,\"code\":\"INTERRUPTED_TOO_OFTEN\",\"detail\":\"The plan was started many times and the daemon "  \
    "died each time.\"}"

/* The refusals that both make alike; they return STORE_QUOTA, but for the first. */
enum store_added store_overtaken(struct problem *problem); /* STORE_FAILED */
enum store_added store_over_models(struct problem *problem, const struct store_quota *quota, int64_t have);
enum store_added store_over_files(struct problem *problem, const struct store_quota *quota, int64_t have);
enum store_added store_over_uploads(struct problem *problem, const struct store_quota *quota, int64_t have);
enum store_added store_over_bytes(struct problem *problem, const struct store_quota *quota, int64_t would_have);
enum store_added store_over_plans(struct problem *problem, const struct store_quota *quota, int64_t have);

/*
 * Who may queue one more plan. Half of the queue is divided into equal shares of the tenants, which nobody else can
 * take; what a tenant has beyond its share is in the other half, which is common. A single tenant has all of it.
 */
struct store_queue_use {
    int64_t tenants; /* that have a share: those told, or as many as there are */
    int64_t own;     /* queued plans of the tenant that asks */
    int64_t beyond;  /* what the others have beyond their shares, together */
};

/* Of one tenant, in plans. */
int64_t store_queue_share(const struct store_quota *quota, int64_t tenants);
bool store_queue_has_room(const struct store_quota *quota, const struct store_queue_use *use);
/* With so few queued plans of all tenants there is room, whoever has them. */
static inline bool store_queue_is_short(const struct store_quota *quota, int64_t queued)
{
    return quota->queued_plans == 0 || queued < quota->queued_plans - quota->queued_plans / 2;
}
