#pragma once
/*
 * open_store - a store for a test, of SQLite or of PostgreSQL, and short words for what tests do with it.
 *
 * BOTH_STORES(name) { .. } is a test of each kind. Those of PostgreSQL are skipped unless SHARDPLAN_TEST_POSTGRES is
 * the URL of a server, whose database is named postgres and whose user may create others (tests/tools/postgres.py).
 */
#include <criterion/criterion.h>
#include <string.h>

#include "server_limits.h"
#include "store/files.h"
#include "store/store.h"

/* The one that tests begin with, and another daemon's on the same database (PostgreSQL). */
extern struct store *store, *other;

/* What store_options.changed was told, of any store: how often in all, and how often of this plan. */
int told(const char *plan);

/* `tells`: NULL for changes, or the plan. */
void open_sqlite_store(void);
void open_postgres_store(void);
bool have_postgres(void); /* else says that the test is skipped */
void close_stores(void);

void open_store_again(void);   /* as after a restart */
void open_other_store(void);   /* PostgreSQL only */
const char *store_place(void); /* the path, or the URL of the database */
struct store_options store_options_of(const char *owner);

/* Runs a statement behind the store's back (PostgreSQL). */
void tell_postgres(const char *sql);

#define BOTH_STORES(name)                                                                                              \
    static void name(void);                                                                                            \
    Test(sqlite, name, .init = open_sqlite_store, .fini = close_stores)                                                \
    {                                                                                                                  \
        name();                                                                                                        \
    }                                                                                                                  \
    POSTGRES_STORE_OF(name)                                                                                            \
    static void name(void)

#define POSTGRES_STORE(name)                                                                                           \
    static void name(void);                                                                                            \
    POSTGRES_STORE_OF(name)                                                                                            \
    static void name(void)

#define POSTGRES_STORE_OF(name)                                                                                        \
    Test(postgres, name, .fini = close_stores, .timeout = 60)                                                          \
    {                                                                                                                  \
        if (!have_postgres())                                                                                          \
            cr_skip_test("SHARDPLAN_TEST_POSTGRES names no server");                                                   \
        open_postgres_store();                                                                                         \
        name();                                                                                                        \
    }

/* ---- short words ---- */

extern const char model_a[], model_b[];

/* A plan to be added: all but the number may be left out. */
struct wish {
    int number; /* the id in decimal digits */
    const char *tenant, *model, *key, *print, *question;
    enum plan_priority priority;
    bool reuse;
    struct store_quota quota;
};

enum store_added add_model_of(struct store *to, const char *tenant, const char *id, int64_t bytes,
                              struct store_quota quota);
enum store_added add_plan_to(struct store *to, struct wish wish, char ret_id[STORE_ID_SIZE]);
#define ADD_MODEL(tenant, id)                                                                                          \
    cr_assert_eq(add_model_of(store, (tenant), (id), 42, (struct store_quota){0}), STORE_ADDED)
#define ADD_PLAN(id, ...)      add_plan_to(store, (struct wish){__VA_ARGS__}, (id))
#define MUST_ADD_PLAN(id, ...) cr_assert_eq(ADD_PLAN((id), __VA_ARGS__), STORE_ADDED)

struct plan_row plan_of(const char *id); /* its strings are released already */
/* Claims of the plan's tenant; the test fails when it is another plan or attempt. */
void must_claim(struct store *from, const char *id, int64_t attempt);
/* The number of the tenant's next plan, 0 when there is none, negative when the store could not say. */
int claim_number(struct store *from, const char *tenant);

/* A store gives up what takes it seconds, as happens on a machine that is busy with other tests. A daemon asks again
   then, and so do the functions above: waits, and says whether to. */
bool try_again(int tries);
