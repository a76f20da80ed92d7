#pragma once
/*
 * store - what must survive: who has which models, and every plan that was accepted.
 *
 * A plan is a job until it is finished. Its life:
 *
 *   store_add_plan() -> queued --store_claim()--> running --store_finish()--> succeeded | failed | cancelled
 *                          ^  \                     |
 *                          |   \-- store_cancel() --|--> cancelled      store_cancel() of a running plan only asks:
 *                          +---- store_requeue() ---+                   whoever runs it ends it, with its best so far
 *
 * Several daemons may share a store (PostgreSQL). Who claims a plan has a lease on it, which store_beat() renews; when
 * it ends, store_reclaim() of any daemon queues the plan again. Each claim counts `attempts` up, and that number guards
 * everything that the claimant does later: a daemon that was thought dead cannot finish what another one has taken
 * over. Results lie in files of the attempt (files.h), so two attempts never write the same file.
 *
 * Every change is durable when the call returns (SQLite: WAL with synchronous=FULL; PostgreSQL: synchronous_commit), so
 * an answer of 202 may be sent as soon as store_add_plan() returns.
 *
 * Tenants (auth/principal.h). A `tenant` that is passed in restricts what is seen to that tenant's rows; NULL sees all.
 * The same file may be a model of several tenants: there is one blob, and a row for each.
 *
 * Any thread may call. Calls take milliseconds (a disk flush) or, when a server is away, fail within
 * SPD_STORE_PATIENCE_MS with STORE_UNAVAILABLE problems and work again by themselves when it is back. Strings in rows
 * are malloc'ed and belong to the row; times are milliseconds since 1970 by the store's clock and only shown, or
 * compared with times of the same store.
 */
#include <stdbool.h>
#include <stdint.h>

#include "auth/principal.h"
#include "util/problem.h"

#define STORE_ID_SIZE    33 /* 32 hexadecimal digits and a NUL */
#define STORE_OWNER_SIZE 33
#define STORE_BLOB_SIZE  86 /* an id, '.', a number of 64 bits, and a NUL */

struct folder;
struct store;

enum plan_state {
    PLAN_QUEUED,
    PLAN_RUNNING,
    PLAN_SUCCEEDED,
    PLAN_FAILED,
    PLAN_CANCELLED,
    PLAN_STATE_COUNT,
};

enum plan_priority { PRIORITY_LOW = -1, PRIORITY_NORMAL = 0, PRIORITY_HIGH = 1 };

struct model_row {
    int64_t seq; /* grows with each row; what pages count by */
    char tenant[SPD_MAX_PRINCIPAL + 1];
    char id[65];
    char *name; /* what the client called the model, may be "" */
    int64_t bytes, created_at, used_at;
    const char *upload;               /* of one that is added: the upload that it was, whose row goes; NULL: none */
    int64_t number;                   /* store_add_model(): what store_reserve() gave */
    char blob[STORE_BLOB_SIZE];       /* which of the files with these bytes is the model's: files_blob() */
    char inspection[STORE_BLOB_SIZE]; /* and which inspection: files_inspection() */
    char inspection_sha256[65];       /* of its bytes, where an object store has it; else "" */
};

/* An upload by parts (uploads/uploads.h). How much of it has come is the size of its file. */
struct upload_row {
    int64_t seq;
    char tenant[SPD_MAX_PRINCIPAL + 1];
    char id[STORE_ID_SIZE];
    int64_t bytes;    /* that it is to have */
    char digest[65];  /* SHA-256: that it must have, and when it is complete has; "" when nobody has said */
    bool is_complete; /* all bytes are there, and were compared with the digest */
    int64_t created_at, expires_at;
};

/* The two kinds of files that a number names. */
enum store_file { FILE_BLOB, FILE_INSPECTION };

/* A file beside a model, in which weights of it lie. */
struct file_row {
    char tenant[SPD_MAX_PRINCIPAL + 1];
    char model[65];
    const char *location;       /* as the model names it */
    char blob[STORE_BLOB_SIZE]; /* which file it is, as of models; its first 64 characters are its SHA-256 */
    int64_t bytes;
    int64_t number;     /* store_add_file(): what store_reserve() gave for its SHA-256 */
    const char *upload; /* of one that is added: the upload by parts that it was, whose row goes; or NULL */
};

/* What a running plan last said of itself. */
struct job_progress {
    char phase[32];
    double fraction, best_seconds, lower_bound_seconds; /* the two: 0 while unknown */
};

struct plan_row {
    int64_t seq;
    char tenant[SPD_MAX_PRINCIPAL + 1];
    char id[STORE_ID_SIZE];
    char model[65];
    char *request; /* JSON: {"cluster" or "sweep","objective","options"} */
    enum plan_priority priority;
    enum plan_state state;
    bool cancel_requested; /* somebody wants a running plan to end */
    bool has_result; /* there are result files of the last attempt: always when succeeded, perhaps when cancelled */
    char owner[STORE_OWNER_SIZE]; /* the daemon that runs it, "" */
    int64_t attempts, crashes;
    char *error; /* JSON of problem.h, or NULL */
    char *files; /* of the result, those that an object store has (results.h), or the digest of their
                    sums in the folder (integrity/stored.h); NULL where the plan is older than these */
    struct job_progress progress;
    int64_t created_at, started_at, finished_at; /* 0: not yet */
};

/* What has become of a plan. */
enum plan_change {
    PLAN_WAITS,    /* it is queued, also again */
    PLAN_TAKEN,    /* it runs */
    PLAN_OVER,     /* it has ended */
    PLAN_STOPPING, /* it runs, and was asked to end */
    PLAN_DELETED,  /* there is no such plan any more, and never will be */
    PLAN_CHANGED,  /* any of these */
};

struct store_change {
    enum plan_change what;
    const char *plan;
    const char *tenant; /* of one that waits */
    bool is_own;        /* this daemon did it */
};

struct store_options {
    const char *path;             /* of the SQLite file */
    struct folder *folder;        /* in which it lies; NULL: it is not looked at */
    const char *url;              /* "" or a connection string of libpq: then PostgreSQL */
    const char *password_file;    /* "" or where the password of `url` is */
    char owner[STORE_OWNER_SIZE]; /* this daemon, a random number in hexadecimal digits */
    unsigned lease_seconds;

    /* Called with the name of each call, whether it worked, and how long it took. NULL when nobody counts. */
    void (*called)(void *context, const char *name, bool ok, double seconds);

    /* Called from any thread after a plan changed, by whichever daemon; NULL: anything may have changed (the store was
       away). What another daemon did may not be told, when that one dies. Must be quick and must not call the store.
       NULL when nobody listens. */
    void (*changed)(void *context, const struct store_change *change);
    void *context;
};

/* What an addition did. */
enum store_added {
    STORE_ADDED,
    STORE_EXISTS, /* a model: it was there. A plan: its key was used for the same request, and row->id is that plan */
    STORE_REUSED, /* a plan: the same question was asked before, and row->id is the plan that answers it */
    STORE_KEY_REUSED, /* the key was used for another request */
    STORE_NO_MODEL,
    STORE_DIFFERS, /* a file: the model has another one of this location */
    STORE_FULL,    /* too many plans are queued */
    STORE_QUOTA,   /* the tenant has as much as it may have; `problem` says of what */
    STORE_FAILED,
};

/* What a look, a removal or a cancellation found. */
enum store_found {
    STORE_DONE,
    STORE_NOT_FOUND,
    STORE_IN_USE, /* plans refer to the model */
    STORE_ERROR,  /* the store is away or broken at the moment: nothing is known */
};

/* What a change by a claimant found. */
enum store_changed {
    STORE_CHANGED,
    STORE_LOST,   /* the plan is not this attempt's any more: deleted, or taken over */
    STORE_BROKEN, /* the store refuses at the moment: try again */
};

/* What a tenant, and all together, may have. 0: no limit. */
struct store_quota {
    int64_t queued_plans; /* of all tenants; half of it is shares of theirs, as far as there are several */
    int64_t tenants;      /* that have a share although they may have nothing queued */
    int64_t tenant_plans; /* queued and running */
    int64_t tenant_models;
    int64_t tenant_uploads; /* by parts */
    int64_t model_files;    /* beside one model */
    int64_t tenant_bytes;   /* of its models, and of uploads by parts what they are to have */
};

/* What makes two submissions the same one. */
struct store_question {
    const char *key;         /* Idempotency-Key of this tenant, or NULL; kept for SPD_KEEP_KEY_SECONDS */
    const char *fingerprint; /* a hash of the request as it came */
    const char *question;    /* a hash of model, canonical request and version: equal ones have equal answers */
    bool reuse;              /* a queued, running or succeeded plan of the same question may answer */
};

const char *store_state_name(enum plan_state state);
enum plan_state store_state_of(const char *name); /* PLAN_FAILED for what is none */

/* Opens or creates the store and brings its schema up to date. SQLite checks its integrity first. */
bool store_open(const struct store_options *options, struct store **ret_store, struct problem *problem);
void store_close(struct store *store); /* NULL is allowed */

/* Whether the store can be written now. */
bool store_ping(struct store *store, struct problem *problem);

#define STORE_SETTING_SIZE 65

/* What the store keeps under a name, for all daemons: `proposed` where there is nothing yet, and "" where that is NULL. */
bool store_setting(struct store *store, const char *name, const char *proposed, char ret_value[STORE_SETTING_SIZE],
                   struct problem *problem);

/*
 * ---- numbers of files ----
 *
 * Nobody holds a lock while files change: it would end with the session, and a daemon that slept meanwhile would go on. A
 * file of a model has a number in its name that is given once and never again, and the store says which numbers count:
 *
 *   store_reserve()     a new number, which belongs to this daemon as long as it lives
 *   ..                  the files are written under names with this number
 *   store_add_model()   in one transaction: the reservation ends, and the row names the files. Where it has ended before,
 *                       since others took this daemon for dead, nothing is added
 *   store_names()       whether a row or a reservation names a file (rows of files beside models by their blob's name). Where none does, none will ever: whoever asked may
 *                       remove the file, however long it slept in between
 */
bool store_reserve(struct store *store, const char *id, int64_t *ret_number, struct problem *problem);
bool store_unreserve(struct store *store, int64_t number); /* false: it must be tried again (jobs_unreserve()) */
enum store_found store_names(struct store *store, const char *id, int64_t number, enum store_file file);

/* Ends the reservations of daemons that do not live: see store_owner_lives(). */
bool store_end_reservations(struct store *store);

/* What a row says in `blob` and `inspection`. The number 0 is that of files from before there were numbers. */
void store_blob_name(const char *id, int64_t number, char ret_name[STORE_BLOB_SIZE]);

/* ---- models ---- */

/*
 * Adds a row of row->tenant, row->id, row->name, row->bytes, row->inspection_sha256, whose files have row->number; where the tenant has one, it
 * names the new inspection from now on. The blob is that of other rows of the model, if there are any, unless `replaces`:
 * then the new one is the blob of all of them. row->blob becomes what it is. With STORE_QUOTA and STORE_FAILED `problem` is set (503 UPLOAD_OVERTAKEN
 * where the reservation has ended).
 */
enum store_added store_add_model(struct store *store, struct model_row *row, bool replaces,
                                 const struct store_quota *quota, struct problem *problem);
enum store_found store_find_model(struct store *store, const char *tenant, const char *id);
/* The `blob` of its row, of the oldest one with a NULL tenant. */
enum store_found store_find_blob(struct store *store, const char *tenant, const char *id,
                                 char ret_blob[STORE_BLOB_SIZE]);
/* With a NULL tenant the oldest row. */
enum store_found store_get_model(struct store *store, const char *tenant, const char *id, struct model_row *ret_row);
void store_release_model(struct model_row *row);
/* The tenant's model is of use now, so it is evicted later; of no consequence when it fails. */
void store_touch_model(struct store *store, const char *tenant, const char *id);
/* Removes the tenant's row (all rows with NULL). */
enum store_found store_delete_model(struct store *store, const char *tenant, const char *id);

/* Calls `each` with up to `limit` models with seq < before, newest first; the row is only valid in the call, which must
   not call the store. */
bool store_list_models(struct store *store, const char *tenant, int64_t before, int limit,
                       void (*each)(void *context, const struct model_row *row), void *context);

/* Up to `limit` rows of a tenant, or of all (NULL), their bytes with those of the files beside them, to which no plan of their tenant refers, those first that were unused
   longest. */
bool store_unused_models(struct store *store, const char *tenant, int limit,
                         void (*each)(void *context, const struct model_row *row), void *context);

/* The bytes of each tenant's models and uploads by parts, whoever else has them. */
bool store_tenant_bytes(struct store *store, void (*each)(void *context, const char *tenant, int64_t bytes),
                        void *context);

/* ---- files beside models ---- */

/* Adds a row, whose file is row->blob, made with row->number; the tenant must have the model. The blob is that of other
   rows with the same SHA-256, if there are any, unless `replaces`: then the new one is the blob of all of them. row->blob
   becomes what it is. With STORE_QUOTA and STORE_FAILED `problem` is set. They go with their model. */
enum store_added store_add_file(struct store *store, struct file_row *row, bool replaces,
                                const struct store_quota *quota, struct problem *problem);
/* The blob of rows with this SHA-256, whose ever. */
enum store_found store_find_file(struct store *store, const char *sha256, char ret_blob[STORE_BLOB_SIZE]);
/* Calls `each` with all of a model, of this tenant or of all (NULL), by location; the row is only valid in the call, which
   must not call the store. */
bool store_list_files(struct store *store, const char *tenant, const char *model,
                      void (*each)(void *context, const struct file_row *row), void *context);

/* ---- uploads by parts ---- */

/* Adds a row of row->tenant, row->id, row->bytes, row->digest, which expires after so many milliseconds; fills in the
   times. With STORE_QUOTA and STORE_FAILED `problem` is set. */
enum store_added store_add_upload(struct store *store, struct upload_row *row, int64_t keep_ms,
                                  const struct store_quota *quota, struct problem *problem);
enum store_found store_get_upload(struct store *store, const char *tenant, const char *id, struct upload_row *ret_row);
/* As store_list_models(). */
bool store_list_uploads(struct store *store, const char *tenant, int64_t before, int limit,
                        void (*each)(void *context, const struct upload_row *row), void *context);
/* It is complete, and has this digest. */
enum store_found store_complete_upload(struct store *store, const char *id, const char *digest);
enum store_found store_delete_upload(struct store *store, const char *tenant, const char *id);
/* Deletes up to `limit` that have expired; `each` gets the ids, after the commit. */
bool store_expire_uploads(struct store *store, int limit, void (*each)(void *context, const char *id), void *context);

/* ---- plans ---- */

/*
 * Queues a plan: `row` has id, tenant, model, request and priority. The tenant must have the model. With STORE_EXISTS
 * and STORE_REUSED row->id becomes the id of the plan that is there. With STORE_QUOTA and STORE_FAILED `problem` is
 * set.
 */
enum store_added store_add_plan(struct store *store, struct plan_row *row, const struct store_question *question,
                                const struct store_quota *quota, struct problem *problem);
enum store_found store_find_plan(struct store *store, const char *tenant, const char *id);
enum store_found store_get_plan(struct store *store, const char *tenant, const char *id, struct plan_row *ret_row);
void store_release_plan(struct plan_row *row);
bool store_list_plans(struct store *store, const char *tenant, int64_t before, int limit,
                      void (*each)(void *context, const struct plan_row *row), void *context);

/* A queued plan of the tenant becomes running, with a lease of this daemon, and is returned: of those with the highest
   priority the oldest. STORE_NOT_FOUND when there is none. Whose turn it is, is no matter of the store: priority counts
   among the plans of one tenant. */
enum store_found store_claim(struct store *store, const char *tenant, struct plan_row *ret_row);

/* The first `limit` tenants that have queued plans, in order, beginning with `from` ("": all). */
bool store_list_waiting(struct store *store, const char *from, int limit,
                        void (*each)(void *context, const char *tenant), void *context);

/* Renews the leases of the `count` plans that this daemon runs, SPD_MAX_HELD at most. What the store says that it runs
   besides, since the answer to a claim was lost, is given back: store_reclaim() queues it again. */
bool store_beat(struct store *store, const char (*held)[STORE_ID_SIZE], unsigned count);

/* What others may see of a running plan; of no consequence when it fails. */
void store_progress(struct store *store, const char *id, int64_t attempt, const struct job_progress *progress);

/* running -> `state` (succeeded, failed or cancelled). `error` is NULL unless it failed, `files` is as in the row. */
enum store_changed store_finish(struct store *store, const char *id, int64_t attempt, enum plan_state state,
                                bool has_result, const char *error, const char *files);

/* A plan whose result is wrong or missing has failed, if it still has the result of this attempt. */
enum store_changed store_lose_result(struct store *store, const char *id, int64_t attempt, const char *error);

/* running -> queued, or cancelled when that was asked for; `crashed` counts a worker's death against the plan. */
enum store_changed store_requeue(struct store *store, const char *id, int64_t attempt, bool crashed);

/* A queued plan is cancelled, a running one is asked to end; finished plans stay as they are: STORE_DONE. */
enum store_found store_cancel(struct store *store, const char *tenant, const char *id);
enum store_found store_delete_plan(struct store *store, const char *tenant, const char *id);

/*
 * Running plans whose lease has ended are queued again, or failed when they were started SPD_MAX_ATTEMPTS times, or
 * cancelled when that was asked for. With `all` the leases do not matter: at the start of the only daemon of a store.
 * Returns how many, or -1.
 */
int64_t store_reclaim(struct store *store, bool all);

/* Deletes up to `limit` plans that finished before this time, and old keys; `each` gets the ids, after the commit. */
bool store_expire(struct store *store, int64_t finished_before, int limit, void (*each)(void *context, const char *id),
                  void *context);

/* Milliseconds since 1970 by the store's clock; 0 when it is away. */
int64_t store_time(struct store *store);

/* ---- the daemons of a shared store ---- */

/* Whether the daemon with this name beats, or did so in the last ten leases. Of SQLite only this one does. */
bool store_owner_lives(struct store *store, const char *owner);

struct store_counts {
    int64_t plans[PLAN_STATE_COUNT];
    double oldest_seconds;     /* of the queued plans */
    int64_t models;            /* rows */
    int64_t blobs, blob_bytes; /* different files */
};

bool store_count(struct store *store, struct store_counts *ret_counts);
