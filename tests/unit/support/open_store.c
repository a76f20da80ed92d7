#include "open_store.h"

#include <libpq-fe.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct store *store, *other;

const char model_a[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const char model_b[] = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

/* Each test has a database of its own: a file in a new folder, or one of the server. */
static char folder[64], path[96], url[512], database[64];

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char plans_told[1000][STORE_ID_SIZE];
static int tell_count;

static void changed(void *context, const struct store_change *change)
{
    (void)context;
    (void)pthread_mutex_lock(&mutex);
    if (tell_count < 1000)
        (void)snprintf(plans_told[tell_count++], STORE_ID_SIZE, "%s", change != NULL ? change->plan : "");
    (void)pthread_mutex_unlock(&mutex);
}

int told(const char *plan)
{
    int count = 0;
    (void)pthread_mutex_lock(&mutex);
    for (int i = 0; i < tell_count; i++)
        count += plan == NULL || strcmp(plan, plans_told[i]) == 0;
    (void)pthread_mutex_unlock(&mutex);
    return count;
}

const char *store_place(void)
{
    return url[0] != '\0' ? url : path;
}

struct store_options store_options_of(const char *owner)
{
    struct store_options options = {.path = path, .url = url, .lease_seconds = 1, .changed = changed};
    (void)snprintf(options.owner, sizeof options.owner, "%s", owner);
    return options;
}

static struct store *open_as(const char *owner)
{
    struct problem problem = {0};
    struct store *opened = NULL;
    struct store_options options = store_options_of(owner);
    cr_assert(store_open(&options, &opened, &problem), "%s", problem.detail);
    return opened;
}

void open_store_again(void)
{
    store_close(store);
    store = NULL;
    store = open_as("first");
}

void open_other_store(void)
{
    other = open_as("other");
}

void open_sqlite_store(void)
{
    (void)snprintf(folder, sizeof folder, "/tmp/shardplan-store-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/test.db", folder);
    store = open_as("first");
}

/* ---- PostgreSQL ---- */

static void run_sql(const char *place, const char *sql)
{
    PGconn *conn = PQconnectdb(place);
    PGresult *result = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(result);
    cr_assert(status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK, "%s", PQerrorMessage(conn));
    PQclear(result);
    PQfinish(conn);
}

void tell_postgres(const char *sql)
{
    run_sql(url, sql);
}

bool have_postgres(void)
{
    const char *server = getenv("SHARDPLAN_TEST_POSTGRES");
    return server != NULL && strstr(server, "/postgres?") != NULL;
}

void open_postgres_store(void)
{
    char sql[128];
    const char *server = getenv("SHARDPLAN_TEST_POSTGRES");
    cr_assert_not_null(server);
    const char *name = strstr(server, "/postgres?");
    cr_assert_not_null(name);
    (void)snprintf(database, sizeof database, "unit_%ld", (long)getpid());
    (void)snprintf(url, sizeof url, "%.*s/%s%s", (int)(name - server), server, database, name + strlen("/postgres"));
    (void)snprintf(sql, sizeof sql, "CREATE DATABASE %s", database);
    run_sql(server, sql);
    store = open_as("first");
}

void close_stores(void)
{
    char sql[128];
    store_close(store);
    store_close(other);
    store = other = NULL;
    if (folder[0] != '\0')
        files_remove_folder(folder);
    if (database[0] == '\0')
        return;
    (void)snprintf(sql, sizeof sql, "DROP DATABASE %s WITH (FORCE)", database);
    run_sql(getenv("SHARDPLAN_TEST_POSTGRES"), sql);
}

/* ---- short words ---- */

bool try_again(int tries)
{
    (void)usleep(100000);
    return tries < 50;
}

enum store_added add_model_of(struct store *to, const char *tenant, const char *id, int64_t bytes,
                              struct store_quota quota)
{
    struct problem problem = {0};
    char name[] = "a model";
    struct model_row row = {.name = name, .bytes = bytes};
    (void)snprintf(row.tenant, sizeof row.tenant, "%s", tenant);
    (void)snprintf(row.id, sizeof row.id, "%s", id);
    cr_assert(store_reserve(to, id, &row.number, &problem), "%s", problem.detail);
    enum store_added added = store_add_model(to, &row, false, &quota, &problem);
    cr_expect_eq(problem.status != 0, added == STORE_QUOTA || added == STORE_FAILED, "%s", problem.detail);
    return added;
}

enum store_added add_plan_to(struct store *to, struct wish wish, char ret_id[STORE_ID_SIZE])
{
    struct problem problem = {0};
    struct plan_row row = {.priority = wish.priority};
    char request[] = "{\"a\":1}", own[32];
    (void)snprintf(row.id, sizeof row.id, "%032d", wish.number);
    (void)snprintf(own, sizeof own, "%d", wish.number);
    (void)snprintf(row.tenant, sizeof row.tenant, "%s", wish.tenant != NULL ? wish.tenant : "");
    (void)snprintf(row.model, sizeof row.model, "%s", wish.model != NULL ? wish.model : model_a);
    row.request = request;
    struct store_question question = {.key = wish.key,
                                      .fingerprint = wish.print != NULL ? wish.print : "print",
                                      .question = wish.question != NULL ? wish.question : own,
                                      .reuse = wish.reuse};
    enum store_added added = store_add_plan(to, &row, &question, &wish.quota, &problem);
    for (int i = 0; added == STORE_FAILED && problem.status == 503 && try_again(i); i++) {
        problem = (struct problem){0};
        added = store_add_plan(to, &row, &question, &wish.quota, &problem);
    }
    cr_expect_eq(problem.status != 0, added == STORE_QUOTA || added == STORE_FAILED, "%s", problem.detail);
    memcpy(ret_id, row.id, STORE_ID_SIZE);
    return added;
}

struct plan_row plan_of(const char *id)
{
    struct plan_row row = {0};
    cr_assert_eq(store_get_plan(store, NULL, id, &row), STORE_DONE);
    store_release_plan(&row);
    return row;
}

void must_claim(struct store *from, const char *id, int64_t attempt)
{
    struct plan_row row;
    cr_assert_eq(store_claim(from, plan_of(id).tenant, &row), STORE_DONE);
    cr_expect_str_eq(row.id, id);
    cr_expect_eq(row.state, PLAN_RUNNING);
    cr_expect_eq(row.attempts, attempt);
    cr_expect_gt(row.started_at, 0);
    cr_expect_str_eq(row.request, "{\"a\":1}");
    store_release_plan(&row);
}

int claim_number(struct store *from, const char *tenant)
{
    struct plan_row row;
    enum store_found found = store_claim(from, tenant, &row);
    for (int i = 0; found == STORE_ERROR && try_again(i); i++)
        found = store_claim(from, tenant, &row);
    if (found != STORE_DONE)
        return found == STORE_NOT_FOUND ? 0 : -1;
    int number = (int)strtol(row.id, NULL, 10);
    store_release_plan(&row);
    return number;
}
