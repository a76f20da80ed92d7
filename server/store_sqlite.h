#pragma once
/*
 * store_sqlite - what the files of the SQLite store share: one connection behind a mutex, and small helpers.
 *
 * The helpers expect the mutex to be held, except store_exists(), which takes it.
 */
#include <pthread.h>
#include <sqlite3.h>

#include "store.h"

struct store {
    pthread_mutex_t mutex;
    sqlite3 *db;
};

int64_t store_now(void); /* milliseconds since 1970 */
enum plan_state store_state_of(const char *name);

/* Logs what the database said, sets the problem (which may be NULL), returns false. */
bool store_fail(struct store *store, const char *what, struct problem *problem);
bool store_exec(struct store *store, const char *sql);

/* A statement to be finalised by the caller, or NULL (logged). */
sqlite3_stmt *store_prepare(struct store *store, const char *sql);
void store_bind(sqlite3_stmt *statement, int index, const char *text); /* NULL binds null; not copied */

/* Runs a statement that returns no rows and finalises it; NULL is a failure. */
bool store_run(struct store *store, sqlite3_stmt *statement, const char *what, struct problem *problem);

/* True when the query with one parameter has a row. */
bool store_exists(struct store *store, const char *sql, const char *id);
