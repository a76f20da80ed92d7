#pragma once
/*
 * sqlite - what the files of the SQLite store share: one connection behind a mutex, and small helpers.
 *
 * A call takes the mutex, runs statements, gives the mutex back, and only then tells who listens. The helpers expect
 * the mutex to be held. Statements are compiled once; their texts are literals, which are told apart by address.
 */
#include <pthread.h>
#include <sqlite3.h>
#include <sys/types.h>

#include "store/internal.h"

#define SQLITE_STATEMENTS 128

/* Which file it is, whatever it is called. */
struct sqlite_file {
    char *path;
    dev_t device;
    ino_t number;
};

struct sqlite_store {
    struct store base;
    struct folder *folder;        /* or NULL */
    struct sqlite_file file, log; /* what `db` has open: the database, and its write-ahead log */
    bool refused;                 /* a write, for the disk's sake, and none has gone well since */
    bool away;                    /* that is not what the paths name; `why` says more */
    struct problem why;
    uint64_t retry_ms; /* when it is opened again */
    pthread_mutex_t mutex;
    sqlite3 *db;
    struct {
        const char *sql;
        sqlite3_stmt *statement;
    } statements[SQLITE_STATEMENTS];
};

/* Takes the mutex, and sees to it that the database is the one that the path names: see sqlite_file.c. */
struct sqlite_store *sqlite_lock(struct store *store);
void sqlite_unlock(struct sqlite_store *store);

/* Logs what the database said, sets the problem (which may be NULL), returns false. */
bool sqlite_fail(struct sqlite_store *store, const char *what, struct problem *problem);
bool sqlite_exec_text(struct sqlite_store *store, const char *sql);

/* The statement of a literal, ready to be bound; NULL (logged) when it cannot be compiled. sqlite_end() after use. */
sqlite3_stmt *sqlite_begin(struct sqlite_store *store, const char *sql);
void sqlite_end(sqlite3_stmt *statement);                               /* NULL is allowed */
void sqlite_text(sqlite3_stmt *statement, int index, const char *text); /* NULL binds null; not copied */
void sqlite_int(sqlite3_stmt *statement, int index, int64_t value);
const char *sqlite_column(sqlite3_stmt *statement, int column);

/* Runs a statement that returns no rows and ends it; NULL is a failure. The count of changed rows, or -1. */
int sqlite_run(struct sqlite_store *store, sqlite3_stmt *statement, const char *what, struct problem *problem);

/* The one number that a query without parameters, or with one or two texts, returns; -1 on failure. */
int64_t sqlite_number(struct sqlite_store *store, const char *sql, const char *first, const char *second);

/* A transaction. The commit rolls back when it fails or `ok` is false, and tells whether everything is durable. */
bool sqlite_begin_transaction(struct sqlite_store *store, const char *what, struct problem *problem);
bool sqlite_commit(struct sqlite_store *store, bool ok, const char *what, struct problem *problem);

/* Steps a query for one row: STORE_DONE, STORE_NOT_FOUND or, logged, STORE_ERROR. */
enum store_found sqlite_row(struct sqlite_store *store, sqlite3_stmt *statement, const char *what);

/* sqlite_connect.c: opens store->file.path, an existing file unless `create`. On failure nothing is open. */
bool sqlite_connect(struct sqlite_store *store, bool create, struct problem *problem);
void sqlite_disconnect(struct sqlite_store *store);
extern const int sqlite_schema_version;

/* sqlite_file.c */
bool sqlite_name_files(struct sqlite_store *store, const char *path); /* false without memory */
void sqlite_forget_files(struct sqlite_store *store);
int64_t sqlite_reclaim_all(struct sqlite_store *store); /* with the mutex held, and nobody is told */

/* sqlite_numbers.c */
bool sqlite_reserve(struct store *base, const char *id, int64_t *ret_number, struct problem *problem);
bool sqlite_unreserve(struct store *base, int64_t number);
enum store_found sqlite_names(struct store *base, const char *id, int64_t number, enum store_file file);
bool sqlite_end_reservations(struct store *base);
/* In a transaction: ends the reservation and says which blob the row has. */
enum store_added sqlite_take_number(struct sqlite_store *store, const struct model_row *row, bool replaces,
                                    int64_t *ret_blob, struct problem *problem);

/* sqlite_models.c */
enum store_added sqlite_add_model(struct store *base, struct model_row *row, bool replaces,
                                  const struct store_quota *quota, struct problem *problem);
enum store_found sqlite_find_model(struct store *base, const char *tenant, const char *id);
enum store_found sqlite_find_blob(struct store *base, const char *tenant, const char *id, int64_t *ret_number);
enum store_found sqlite_get_model(struct store *base, const char *tenant, const char *id, struct model_row *ret_row);
bool sqlite_touch_model(struct store *base, const char *tenant, const char *id);
enum store_found sqlite_delete_model(struct store *base, const char *tenant, const char *id);
bool sqlite_list_models(struct store *base, const char *tenant, int64_t before, int limit,
                        void (*each)(void *context, const struct model_row *row), void *context);
bool sqlite_unused_models(struct store *base, const char *tenant, int limit,
                          void (*each)(void *context, const struct model_row *row), void *context);
bool sqlite_tenant_bytes(struct store *base, void (*each)(void *context, const char *tenant, int64_t bytes),
                         void *context);

/* Of one tenant, ?1: models, files beside them, and what uploads by parts are to have. */
#define SQLITE_TENANT_BYTES                                                                                            \
    "SELECT coalesce(sum(bytes), 0) FROM (SELECT bytes FROM models WHERE tenant = ?1 UNION ALL "                       \
    "SELECT bytes FROM files WHERE tenant = ?1 UNION ALL SELECT bytes FROM uploads WHERE tenant = ?1)"

/* In a transaction: this daemon's reservation ends. How many did, 0 when others ended it; -1 on failure. */
int sqlite_end_reservation(struct sqlite_store *store, int64_t number, struct problem *problem);

/* sqlite_beside.c: files beside models */
enum store_added sqlite_add_file(struct store *base, struct file_row *row, bool replaces,
                                 const struct store_quota *quota, struct problem *problem);
enum store_found sqlite_find_file(struct store *base, const char *sha256, char ret_blob[STORE_BLOB_SIZE]);
bool sqlite_list_files(struct store *base, const char *tenant, const char *model,
                       void (*each)(void *context, const struct file_row *row), void *context);

/* sqlite_uploads.c */
enum store_added sqlite_add_upload(struct store *base, struct upload_row *row, int64_t keep_ms,
                                   const struct store_quota *quota, struct problem *problem);
enum store_found sqlite_get_upload(struct store *base, const char *tenant, const char *id, struct upload_row *ret_row);
bool sqlite_list_uploads(struct store *base, const char *tenant, int64_t before, int limit,
                         void (*each)(void *context, const struct upload_row *row), void *context);
enum store_found sqlite_complete_upload(struct store *base, const char *id, const char *digest);
enum store_found sqlite_delete_upload(struct store *base, const char *tenant, const char *id);
bool sqlite_expire_uploads(struct store *base, int limit, void (*each)(void *context, const char *id), void *context);
bool sqlite_drop_upload(struct sqlite_store *store, const char *tenant, const char *id); /* in a transaction */

/* sqlite_plans.c */
enum store_added sqlite_add_plan(struct store *base, struct plan_row *row, const struct store_question *question,
                                 const struct store_quota *quota, struct problem *problem);
enum store_found sqlite_find_plan(struct store *base, const char *tenant, const char *id);
enum store_found sqlite_get_plan(struct store *base, const char *tenant, const char *id, struct plan_row *ret_row);
bool sqlite_list_plans(struct store *base, const char *tenant, int64_t before, int limit,
                       void (*each)(void *context, const struct plan_row *row), void *context);
enum store_found sqlite_delete_plan(struct store *base, const char *tenant, const char *id);
bool sqlite_expire(struct store *base, int64_t finished_before, int limit, void (*each)(void *context, const char *id),
                   void *context);
bool sqlite_read_plan(sqlite3_stmt *statement, struct plan_row *row); /* SQLITE_PLAN_COLUMNS */

#define SQLITE_PLAN_COLUMNS                                                                                            \
    "seq, tenant, id, model, request, priority, state, cancel_requested, has_result, owner, attempts, crashes, "       \
    "error, "                                                                                                          \
    "created_at, started_at, finished_at, files"

/* sqlite_queue.c */
enum store_found sqlite_claim(struct store *base, const char *tenant, struct plan_row *ret_row);
bool sqlite_list_waiting(struct store *base, const char *from, int limit,
                         void (*each)(void *context, const char *tenant), void *context);
bool sqlite_beat(struct store *base, const char (*held)[STORE_ID_SIZE], unsigned count);
bool sqlite_progress(struct store *base, const char *id, int64_t attempt, const struct job_progress *progress);
enum store_changed sqlite_finish(struct store *base, const char *id, int64_t attempt, enum plan_state state,
                                 bool has_result, const char *error, const char *files);
enum store_changed sqlite_lose_result(struct store *base, const char *id, int64_t attempt, const char *error);
enum store_changed sqlite_requeue(struct store *base, const char *id, int64_t attempt, bool crashed);
enum store_found sqlite_cancel(struct store *base, const char *tenant, const char *id);
int64_t sqlite_reclaim(struct store *base, bool all);
