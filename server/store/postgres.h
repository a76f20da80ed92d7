#pragma once
/*
 * postgres - what the files of the PostgreSQL store share: a pool of connections, calls, and small helpers.
 *
 * A call takes a connection, runs statements on it, and gives it back:
 *
 *   struct pg_call call;
 *   if (pg_begin(&call, store, "finishing a plan", problem)) {
 *       PGresult *rows = PG_QUERY(&call, "UPDATE .. WHERE id = $1", pg_s(id));
 *       ...
 *   }
 *   bool ok = pg_end(&call);
 *
 * Nothing waits longer than SPD_STORE_PATIENCE_MS from pg_begin() on: statements are sent and awaited with poll(), the
 * server gives them up a little earlier, and a connection on which an answer is overdue is dropped. Then, as when one
 * breaks, all the idle ones are dropped too, and the keeper, a thread of its own, looks whether the server is there:
 *
 *   there --a connection broke--> in doubt --the keeper connects--> there
 *                                     \------the keeper cannot----> away    --the keeper connects--> there
 *
 * While the server is away, calls fail at once. Only the keeper connects, so that what libpq cannot bound (the lookup
 * of names) is waited for by nobody else. The listener, another thread with a connection of its own, hands on what
 * other daemons say of plans.
 */
#include <libpq-fe.h>
#include <pthread.h>

#include "server_limits.h"
#include "store/internal.h"

#define PG_STATEMENTS 128 /* different literals; prepared on a connection when they are used first */
#define PG_CHANNEL    "shardplan"

/* Milliseconds since 1970 by the server's clock, now and not when the transaction began. */
#define PG_NOW "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"

/* The first numbers of advisory locks; the second is a hash. */
#define PG_LOCK_SCHEMA 1397769217
#define PG_LOCK_TENANT 1397769218
#define PG_LOCK_MODEL  1397769219

struct pg_connection {
    struct pg_connection *next;
    PGconn *conn;
    unsigned generation; /* of the pool, when it was opened */
    bool broken;
    const char *prepared[PG_STATEMENTS];
};

/* The parameters of libpq, without the password. */
struct pg_address {
    const char *keywords[16], *values[16];
    char *url;
    char *password_file; /* read again for each connection; "" none */
};

struct pg_store {
    struct store base;
    struct pg_address address;
    int wake; /* an eventfd that ends the waits of both threads */
    pthread_t keeper, listener;
    bool has_keeper, has_listener;

    pthread_mutex_t mutex; /* guards the rest */
    pthread_cond_t changed;
    struct pg_connection *idle;
    unsigned open, waiting, generation;
    bool in_doubt, away, closing;
    char reason[256]; /* why it is away, for people who run it */
};

struct pg_call {
    struct pg_store *store;
    struct pg_connection *connection;
    const char *doing;       /* "adding a plan" */
    struct problem *problem; /* may be NULL */
    uint64_t deadline_ms;
    bool failed;
    char sqlstate[6]; /* of the statement that failed, "" */
};

/* ---- postgres_pool.c ---- */

bool pg_pool_start(struct pg_store *store, struct problem *problem); /* and waits for the first connection */
void pg_pool_stop(struct pg_store *store);

/* Takes a connection, or fails the call with a problem. pg_end() in both cases. */
bool pg_begin(struct pg_call *call, struct store *store, const char *doing, struct problem *problem);

/* Gives the connection back; a transaction that is open is rolled back. Whether nothing failed. */
bool pg_end(struct pg_call *call);

/* Another connection for one that broke. pg_end() in both cases. */
bool pg_renew(struct pg_call *call);

/* ---- postgres_connect.c ---- */

bool pg_address_read(struct pg_address *address, const struct store_options *options, struct problem *problem);
void pg_address_free(struct pg_address *address);

/* Connects and sets the session up, until `deadline_ms` or until something can be read from `wake`. NULL with a
   reason. */
PGconn *pg_connect(const struct pg_address *address, int wake, uint64_t deadline_ms, char *reason, size_t size);

/* Waits for the result of what was sent; NULL when the connection broke or the time is over. `wake` may be -1. */
PGresult *pg_await(PGconn *conn, int wake, uint64_t deadline_ms);
void pg_disconnect(PGconn *conn);
void pg_one_line(char *text); /* cuts a message of libpq behind its first line */

/* ---- postgres_listen.c ---- */

bool pg_listen_start(struct pg_store *store);
void pg_listen_stop(struct pg_store *store);

/* ---- postgres_schema.c ---- */

bool pg_migrate(struct pg_store *store, struct problem *problem);

/* ---- postgres_query.c ---- */

struct pg_value {
    const char *text;
    int64_t number;
    bool is_number;
};

static inline struct pg_value pg_s(const char *text) /* NULL is null */
{
    return (struct pg_value){.text = text};
}

static inline struct pg_value pg_i(int64_t number)
{
    return (struct pg_value){.number = number, .is_number = true};
}

#define PG_MAX_VALUES 12

/* Runs a statement (a literal); a SELECT outside of transactions once more when the connection proves to be broken.
 * NULL when the call has failed, now or before; else PQclear() the result. */
PGresult *pg_query(struct pg_call *call, const char *sql, const struct pg_value *values, size_t count);
#define PG_QUERY(call, sql, ...)                                                                                       \
    pg_query((call), (sql), (const struct pg_value[]){__VA_ARGS__ __VA_OPT__(, ){0}},                                  \
             sizeof((const struct pg_value[]){__VA_ARGS__ __VA_OPT__(, ){0}}) / sizeof(struct pg_value) - 1)

/* How many rows a statement returned or changed; -1 when it failed. Clears the result. */
int64_t pg_count(PGresult *result);

/* The number in the first column of the first row; -1 when there is none. Clears the result. */
int64_t pg_number(PGresult *result);

/* Columns of a row; a null is NULL or 0. */
const char *pg_text_at(const PGresult *result, int row, int column);
int64_t pg_int_at(const PGresult *result, int row, int column);
double pg_double_at(const PGresult *result, int row, int column);
void pg_copy(char *to, size_t size, const char *text); /* NULL is "" */

bool pg_transaction(struct pg_call *call);
bool pg_commit(struct pg_call *call);

/* Until the end of the transaction, nobody else adds what counts against this tenant's quotas. */
bool pg_lock_tenant(struct pg_call *call, const char *tenant);

/* Until the end of the transaction, nobody else changes rows of this model; after the tenant's lock. */
bool pg_lock_model(struct pg_call *call, const char *id);

/* As part of a statement that returns id and tenant from `changed`: tells other daemons of each, when the transaction
   commits. $1 is this daemon. `letter`, an expression, says what has become of the plan: the first one of its state, x
   when a running one was asked to end, d when it was deleted. */
#define PG_TELL(letter) "pg_notify('" PG_CHANNEL "', $1::text || ':' || " letter " || ':' || tenant || ' ' || id)"

/* Whether the transaction lost against another one and may be tried again. */
bool pg_is_conflict(const struct pg_call *call);

/* ---- postgres_numbers.c ---- */

bool pg_reserve(struct store *base, const char *id, int64_t *ret_number, struct problem *problem);
bool pg_unreserve(struct store *base, int64_t number);
enum store_found pg_names(struct store *base, const char *id, int64_t number, enum store_file file);
bool pg_end_reservations(struct store *base);
/* In a transaction: ends the reservation and says which blob the row has. */
enum store_added pg_take_number(struct pg_call *call, const struct model_row *row, bool replaces, int64_t *ret_blob);

/* ---- postgres_models.c ---- */

enum store_added pg_add_model(struct store *base, struct model_row *row, bool replaces, const struct store_quota *quota,
                              struct problem *problem);
enum store_found pg_find_model(struct store *base, const char *tenant, const char *id);
enum store_found pg_find_blob(struct store *base, const char *tenant, const char *id, int64_t *ret_number);
enum store_found pg_get_model(struct store *base, const char *tenant, const char *id, struct model_row *ret_row);
bool pg_touch_model(struct store *base, const char *tenant, const char *id);
enum store_found pg_delete_model(struct store *base, const char *tenant, const char *id);
bool pg_list_models(struct store *base, const char *tenant, int64_t before, int limit,
                    void (*each)(void *context, const struct model_row *row), void *context);
bool pg_unused_models(struct store *base, const char *tenant, int limit,
                      void (*each)(void *context, const struct model_row *row), void *context);
bool pg_tenant_bytes(struct store *base, void (*each)(void *context, const char *tenant, int64_t bytes), void *context);

/* Of one tenant, $1: models, files beside them, and what uploads by parts are to have. */
#define PG_TENANT_BYTES                                                                                                \
    "coalesce((SELECT sum(bytes) FROM (SELECT bytes FROM models WHERE tenant = $1 UNION ALL SELECT bytes FROM files "  \
    "WHERE tenant = $1 UNION ALL SELECT bytes FROM uploads WHERE tenant = $1) AS had), 0)::bigint"

/* ---- postgres_beside.c: files beside models ---- */

enum store_added pg_add_file(struct store *base, struct file_row *row, bool replaces, const struct store_quota *quota,
                             struct problem *problem);
enum store_found pg_find_file(struct store *base, const char *sha256, char ret_blob[STORE_BLOB_SIZE]);
bool pg_list_files(struct store *base, const char *tenant, const char *model,
                   void (*each)(void *context, const struct file_row *row), void *context);

/* ---- postgres_uploads.c ---- */

enum store_added pg_add_upload(struct store *base, struct upload_row *row, int64_t keep_ms,
                               const struct store_quota *quota, struct problem *problem);
enum store_found pg_get_upload(struct store *base, const char *tenant, const char *id, struct upload_row *ret_row);
bool pg_list_uploads(struct store *base, const char *tenant, int64_t before, int limit,
                     void (*each)(void *context, const struct upload_row *row), void *context);
enum store_found pg_complete_upload(struct store *base, const char *id, const char *digest);
enum store_found pg_delete_upload(struct store *base, const char *tenant, const char *id);
bool pg_expire_uploads(struct store *base, int limit, void (*each)(void *context, const char *id), void *context);
bool pg_drop_upload(struct pg_call *call, const char *tenant, const char *id); /* in a transaction */

/* ---- postgres_plans.c ---- */

enum store_added pg_add_plan(struct store *base, struct plan_row *row, const struct store_question *question,
                             const struct store_quota *quota, struct problem *problem);
enum store_found pg_find_plan(struct store *base, const char *tenant, const char *id);
enum store_found pg_get_plan(struct store *base, const char *tenant, const char *id, struct plan_row *ret_row);
bool pg_list_plans(struct store *base, const char *tenant, int64_t before, int limit,
                   void (*each)(void *context, const struct plan_row *row), void *context);
enum store_found pg_delete_plan(struct store *base, const char *tenant, const char *id);
bool pg_expire(struct store *base, int64_t finished_before, int limit, void (*each)(void *context, const char *id),
               void *context);
bool pg_read_plan(const PGresult *result, int index, struct plan_row *row); /* PG_PLAN_COLUMNS */

#define PG_PLAN_COLUMNS                                                                                                \
    "seq, tenant, id, model, request, priority, state, cancel_requested::int, has_result::int, owner, attempts, "      \
    "crashes, error, created_at, started_at, finished_at, phase, fraction, best_seconds, lower_bound_seconds, files"

/* ---- postgres_queue.c ---- */

enum store_found pg_claim(struct store *base, const char *tenant, struct plan_row *ret_row);
bool pg_list_waiting(struct store *base, const char *from, int limit, void (*each)(void *context, const char *tenant),
                     void *context);
bool pg_beat(struct store *base, const char (*held)[STORE_ID_SIZE], unsigned count);
bool pg_progress(struct store *base, const char *id, int64_t attempt, const struct job_progress *progress);
enum store_changed pg_finish(struct store *base, const char *id, int64_t attempt, enum plan_state state,
                             bool has_result, const char *error, const char *files);
enum store_changed pg_lose_result(struct store *base, const char *id, int64_t attempt, const char *error);
enum store_changed pg_requeue(struct store *base, const char *id, int64_t attempt, bool crashed);
enum store_found pg_cancel(struct store *base, const char *tenant, const char *id);
int64_t pg_reclaim(struct store *base, bool all);
bool pg_owner_lives(struct store *base, const char *owner);
