#pragma once
/*
 * store - what must survive: which models there are, and every plan that was accepted.
 *
 * A plan is a job until it is finished. Its life:
 *
 *   store_add_plan() -> queued --store_claim()--> running --store_finish()--> succeeded | failed
 *                          ^                        |
 *                          +-- store_requeue() -----+      store_cancel(): queued or running -> cancelled
 *
 * Every change is durable when the call returns (SQLite: WAL with synchronous=FULL), so an answer of 202 may be sent as
 * soon as store_add_plan() returns. Changes of state are conditional on the state they start from: a late result of a
 * worker cannot undo a cancellation.
 *
 * Any thread may call; calls are serialised inside and take milliseconds (a disk flush). Strings in rows are malloc'ed
 * and belong to the row; times are milliseconds since 1970. SQLite is one implementation behind this interface.
 */
#include <stdbool.h>
#include <stdint.h>

#include "problem.h"

#define STORE_ID_SIZE 33 /* 32 hexadecimal digits and a NUL */

struct store;

enum plan_state {
    PLAN_QUEUED,
    PLAN_RUNNING,
    PLAN_SUCCEEDED,
    PLAN_FAILED,
    PLAN_CANCELLED,
    PLAN_STATE_COUNT,
};

struct model_row {
    int64_t seq; /* grows with each row; what pages count by */
    char id[65];
    char *name; /* what the client called the model, may be "" */
    int64_t bytes, created_at;
};

struct plan_row {
    int64_t seq;
    char id[STORE_ID_SIZE];
    char model[65];
    char *request; /* JSON: {"cluster" or "sweep","objective","options"} */
    enum plan_state state;
    int64_t attempts, crashes;
    char *error;                                 /* JSON of problem.h, or NULL */
    int64_t created_at, started_at, finished_at; /* 0: not yet */
};

/* What store_add_plan() did. */
enum store_added {
    STORE_ADDED,
    STORE_EXISTS,     /* the idempotency key was used for the same request: the row's id is that plan's */
    STORE_KEY_REUSED, /* the key was used for another request */
    STORE_NO_MODEL,
    STORE_FULL, /* too many plans are queued */
    STORE_FAILED,
};

/* What a removal or cancellation found. */
enum store_found {
    STORE_DONE,
    STORE_NOT_FOUND,
    STORE_IN_USE, /* plans refer to the model */
    STORE_ERROR,
};

const char *store_state_name(enum plan_state state);

/* Opens or creates the database file and brings its schema up to date. */
bool store_open(const char *path, struct store **ret_store, struct problem *problem);
void store_close(struct store *store); /* NULL is allowed */

/* ---- models ---- */

/* Adds a model; one that is there already stays as it is. */
bool store_add_model(struct store *store, const char *id, const char *name, int64_t bytes, struct problem *problem);
bool store_has_model(struct store *store, const char *id);
bool store_get_model(struct store *store, const char *id, struct model_row *ret_row); /* false: not there */
void store_release_model(struct model_row *row);
enum store_found store_delete_model(struct store *store, const char *id);

/* Calls `each` with up to `limit` models with seq < before, newest first; the row is only valid in the call. */
bool store_list_models(struct store *store, int64_t before, int limit,
                       void (*each)(void *context, const struct model_row *row), void *context);

/* ---- plans ---- */

/*
 * Queues a plan: `row` has id, model and request. `key` may be NULL; `fingerprint` is a hash of the whole request.
 * With STORE_EXISTS, row->id becomes the id of the plan that the key made. With STORE_FAILED, `problem` is set.
 */
enum store_added store_add_plan(struct store *store, struct plan_row *row, const char *key, const char *fingerprint,
                                unsigned queue_limit, struct problem *problem);
bool store_has_plan(struct store *store, const char *id);
bool store_get_plan(struct store *store, const char *id, struct plan_row *ret_row); /* false: not there */
void store_release_plan(struct plan_row *row);
bool store_list_plans(struct store *store, int64_t before, int limit,
                      void (*each)(void *context, const struct plan_row *row), void *context);

/* The oldest queued plan becomes running and is returned; false when there is none (or the disk refuses). */
bool store_claim(struct store *store, struct plan_row *ret_row);

/* running -> succeeded (error NULL) or failed. False when it was no longer running or the disk refuses. */
bool store_finish(struct store *store, const char *id, const char *error);

/* running -> queued; `crashed` counts a worker's death against the plan. */
bool store_requeue(struct store *store, const char *id, bool crashed);

enum store_found store_cancel(struct store *store, const char *id); /* finished plans stay as they are: STORE_DONE */
enum store_found store_delete_plan(struct store *store, const char *id);

/*
 * At start: what was running when the last daemon died is queued again, or failed when it was started SPD_MAX_ATTEMPTS
 * times. Returns how many were queued again, or -1.
 */
int64_t store_recover(struct store *store);

/* How many plans are in each state, and the age of the oldest queued one in seconds. */
bool store_counts(struct store *store, int64_t ret_counts[PLAN_STATE_COUNT], double *ret_oldest_seconds,
                  int64_t *ret_models);
