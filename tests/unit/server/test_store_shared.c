#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "open_store.h"

/* Many threads on one store, and several daemons on one PostgreSQL. */

#define THREADS 8

static void run_threads(void *(*work)(void *context))
{
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, work, (void *)i), 0); /* NOLINT: a number, not an address */
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
}

/* Every second thread works for the other daemon, where there is one. */
static struct store *store_of(const void *thread)
{
    return other != NULL && (intptr_t)thread % 2 != 0 ? other : store;
}

static atomic_int added, reused, refused, claimed[200], claims_failed;

static void *ask_the_same(void *thread)
{
    char id[STORE_ID_SIZE];
    for (int i = 0; i < 25; i++) {
        struct wish wish = {
            .number = (int)(intptr_t)thread * 100 + i + 1, .question = i % 2 != 0 ? "x" : "y", .reuse = true};
        switch (add_plan_to(store_of(thread), wish, id)) {
        case STORE_ADDED:
            added++;
            break;
        case STORE_REUSED:
            reused++;
            break;
        default:
            break;
        }
    }
    return NULL;
}

static void *use_the_same_key(void *thread)
{
    char id[STORE_ID_SIZE];
    for (int i = 0; i < 25; i++) {
        struct wish wish = {.number = 10000 + (int)(intptr_t)thread * 100 + i, .key = "key"};
        enum store_added result = add_plan_to(store_of(thread), wish, id);
        added += result == STORE_ADDED;
        reused += result == STORE_EXISTS;
    }
    return NULL;
}

static void *fill_the_quota(void *thread)
{
    char id[STORE_ID_SIZE];
    for (int i = 0; i < 25; i++) {
        struct wish wish = {
            .number = 20000 + (int)(intptr_t)thread * 100 + i, .tenant = "team", .quota = {.tenant_plans = 30}};
        enum store_added result = add_plan_to(store_of(thread), wish, id);
        added += result == STORE_ADDED;
        refused += result == STORE_QUOTA;
    }
    return NULL;
}

static void *claim_all(void *thread)
{
    int number;
    while ((number = claim_number(store_of(thread), "")) > 0)
        claimed[number]++;
    claims_failed += number != 0;
    return NULL;
}

static void check_storm(void)
{
    ADD_MODEL("", model_a);
    ADD_MODEL("team", model_a);
    run_threads(ask_the_same);
    cr_expect_eq(added, 2, "one for each of the two questions");
    cr_expect_eq(reused, THREADS * 25 - 2);
    added = reused = 0;
    run_threads(use_the_same_key);
    cr_expect_eq(added, 1);
    cr_expect_eq(reused, THREADS * 25 - 1);
    added = 0;
    run_threads(fill_the_quota);
    cr_expect_eq(added, 30);
    cr_expect_eq(refused, THREADS * 25 - 30);
}

static void check_claims(void)
{
    char id[STORE_ID_SIZE];
    ADD_MODEL("", model_a);
    for (int i = 1; i <= 60; i++)
        MUST_ADD_PLAN(id, .number = i);
    run_threads(claim_all);
    cr_expect_eq(claims_failed, 0);
    for (int i = 1; i <= 60; i++)
        cr_expect_eq(claimed[i], 1, "plan %d", i);
}

static atomic_int added, existed;

/* Some add the model, each with files of its own, and some delete it. */
static void *add_and_delete(void *thread)
{
    struct store *mine = store_of(thread);
    for (int i = 0; i < 10; i++) {
        const enum store_added result = add_model_of(mine, "", model_a, 42, (struct store_quota){0});
        atomic_fetch_add(&added, result == STORE_ADDED);
        atomic_fetch_add(&existed, result == STORE_EXISTS);
        if (i % 2 == 1)
            atomic_fetch_sub(&added, store_delete_model(mine, "", model_a) == STORE_DONE);
    }
    return NULL;
}

/* Whatever happens at the same time, a row names files whose number nobody else has. */
static void check_numbers(void)
{
    struct model_row row;
    run_threads(add_and_delete);
    cr_expect_eq(add_model_of(store, "", model_a, 42, (struct store_quota){0}),
                 atomic_load(&added) == 1 ? STORE_EXISTS : STORE_ADDED);
    cr_assert_eq(store_get_model(store, "", model_a, &row), STORE_DONE);
    struct files_name blob, inspection;
    cr_assert(files_read_blob_name("aa", row.blob + 2, &blob) &&
              files_read_blob_name("aa", row.inspection + 2, &inspection));
    cr_expect_eq(store_names(store, model_a, blob.number, FILE_BLOB), STORE_DONE);
    cr_expect_eq(store_names(store, model_a, inspection.number, FILE_INSPECTION), STORE_DONE);
    for (int64_t number = 1; number <= inspection.number; number++) {
        cr_expect_eq(store_names(store, model_a, number, FILE_BLOB) == STORE_DONE, number == blob.number);
        cr_expect_eq(store_names(store, model_a, number, FILE_INSPECTION) == STORE_DONE, number == inspection.number);
    }
    store_release_model(&row);
}

BOTH_STORES(threads_ask_one_question_once)
{
    check_storm();
}

BOTH_STORES(threads_claim_each_plan_once)
{
    check_claims();
}

BOTH_STORES(threads_give_files_their_numbers)
{
    check_numbers();
}

/* ---- several daemons ---- */

POSTGRES_STORE(daemons_ask_one_question_once)
{
    open_other_store();
    check_storm();
}

POSTGRES_STORE(daemons_claim_each_plan_once)
{
    open_other_store();
    check_claims();
}

POSTGRES_STORE(daemons_give_files_their_numbers)
{
    open_other_store();
    check_numbers();
}

/* Leases of these tests are one second. */
POSTGRES_STORE(a_plan_is_taken_over_when_its_lease_ends)
{
    char id[STORE_ID_SIZE];
    open_other_store();
    ADD_MODEL("", model_a);
    MUST_ADD_PLAN(id, .number = 1);
    must_claim(store, id, 1);
    cr_expect_eq(store_reclaim(other, false), 0);
    for (int i = 0; i < 4; i++) {
        (void)usleep(400000);
        cr_expect(store_beat(store, &id, 1));
        cr_expect_eq(store_reclaim(other, false), 0, "it is renewed");
    }
    (void)usleep(1100000);
    cr_expect_eq(store_reclaim(other, false), 1);
    cr_expect_eq(store_reclaim(store, false), 0, "once");
    must_claim(other, id, 2);
    cr_expect_str_eq(plan_of(id).owner, "other");
    cr_expect(store_beat(store, &id, 1), "which is about its own plans only");
    cr_expect_eq(store_finish(store, id, 1, PLAN_SUCCEEDED, true, NULL, NULL), STORE_LOST);
    cr_expect_eq(store_requeue(store, id, 1, false), STORE_LOST);
    cr_expect_eq(store_finish(other, id, 2, PLAN_SUCCEEDED, true, NULL, NULL), STORE_CHANGED);
}

/* The answer to a claim may be lost, with the memory for it or the connection. */
POSTGRES_STORE(a_claim_that_nobody_knows_of_is_given_back)
{
    char ids[3][STORE_ID_SIZE];
    open_other_store();
    ADD_MODEL("", model_a);
    for (int i = 0; i < 3; i++) {
        MUST_ADD_PLAN(ids[i], .number = i + 1);
        must_claim(store, ids[i], 1);
    }
    cr_expect(store_beat(store, ids, 2));
    (void)usleep(10000);
    cr_expect_eq(store_reclaim(other, false), 1, "long before its lease ends");
    must_claim(other, ids[2], 2);
    (void)usleep(700000);
    cr_expect(store_beat(store, ids, 2));
    (void)usleep(700000);
    cr_expect_eq(store_finish(store, ids[0], 1, PLAN_SUCCEEDED, true, NULL, NULL), STORE_CHANGED);
    cr_expect_eq(store_finish(store, ids[1], 1, PLAN_SUCCEEDED, true, NULL, NULL), STORE_CHANGED);
    cr_expect_eq(store_finish(other, ids[2], 2, PLAN_SUCCEEDED, true, NULL, NULL), STORE_CHANGED);
}

POSTGRES_STORE(daemons_know_who_lives)
{
    cr_expect_not(store_owner_lives(store, "other"));
    open_other_store();
    cr_expect(store_owner_lives(store, "other"));
    cr_expect(store_owner_lives(other, "first"));
    /* Ten leases of a second. */
    tell_postgres("UPDATE shardplan.daemons SET beat_at = beat_at - 11000 WHERE owner = 'other'");
    cr_expect_not(store_owner_lives(store, "other"));
    cr_expect(store_beat(other, NULL, 0));
    cr_expect(store_owner_lives(store, "other"));
}

static bool soon(const char *plan, int count)
{
    for (int i = 0; i < 500 && told(plan) < count; i++)
        (void)usleep(10000);
    return told(plan) >= count;
}

POSTGRES_STORE(daemons_hear_of_one_another)
{
    char id[STORE_ID_SIZE];
    struct job_progress progress = {.phase = "search", .fraction = 0.5, .best_seconds = 0.1};
    open_other_store();
    cr_assert(soon("", 2), "both listen");
    ADD_MODEL("", model_a);
    MUST_ADD_PLAN(id, .number = 1);
    cr_expect(soon(id, 2), "here and there");
    must_claim(other, id, 1);
    store_progress(other, id, 1, &progress);
    struct plan_row row = plan_of(id);
    cr_expect_str_eq(row.progress.phase, "search");
    cr_expect_eq(row.progress.fraction, 0.5);
    cr_expect_eq(row.progress.best_seconds, 0.1);
    store_progress(other, id, 7, &progress);
    cr_assert_eq(store_cancel(store, "", id), STORE_DONE);
    cr_expect(soon(id, 6));
    (void)usleep(100000);
    cr_expect_eq(told(id), 6, "two for each of the three changes");
}

/* ---- a server that goes away ---- */

POSTGRES_STORE(lost_connections_are_replaced)
{
    ADD_MODEL("", model_a);
    cr_assert(soon("", 1));
    for (int i = 1; i <= 3; i++) {
        tell_postgres("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'shardplan' AND "
                      "datname = current_database()");
        cr_expect_eq(store_find_model(store, "", model_a), STORE_DONE);
        cr_expect(soon("", i + 1), "who listens may have missed something");
    }
    cr_expect_eq(store_find_model(store, "", model_a), STORE_DONE);
}

static void *hold_reservations(void *context)
{
    (void)context;
    tell_postgres("BEGIN; LOCK TABLE shardplan.reservations; SELECT pg_sleep(4); COMMIT");
    return NULL;
}

/* Whoever waits for another daemon's transaction. */
POSTGRES_STORE(a_call_gives_up_in_time)
{
    struct problem problem = {0};
    struct timespec start, end;
    open_other_store();
    pthread_t holder;
    cr_assert_eq(pthread_create(&holder, NULL, hold_reservations, NULL), 0);
    (void)usleep(500000);
    (void)clock_gettime(CLOCK_MONOTONIC, &start);
    int64_t number;
    cr_expect_not(store_reserve(other, model_a, &number, &problem));
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    double seconds = (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9;
    cr_expect_lt(seconds, SPD_STORE_PATIENCE_MS / 1000.0 + 0.5);
    cr_expect_str_eq(problem.code, "STORE_UNAVAILABLE");
    (void)pthread_join(holder, NULL);
    problem = (struct problem){0};
    cr_expect(store_reserve(other, model_a, &number, &problem), "%s", problem.detail);
}

/* A daemon that slept: others ended what it had reserved, and it cannot go on where it was. */
POSTGRES_STORE(a_daemon_taken_for_dead_adds_nothing)
{
    char name[] = "a model";
    struct problem problem = {0};
    struct model_row row = {.name = name, .bytes = 42};
    memcpy(row.id, model_a, sizeof row.id);
    open_other_store();
    cr_assert(store_reserve(store, model_a, &row.number, &problem));
    cr_expect(store_end_reservations(other));
    cr_expect_eq(store_names(other, model_a, row.number, FILE_BLOB), STORE_DONE, "its daemon lives");
    tell_postgres("UPDATE shardplan.daemons SET beat_at = beat_at - 11 * lease_ms WHERE owner = 'first'");
    cr_expect(store_end_reservations(other));
    cr_expect_eq(store_names(other, model_a, row.number, FILE_BLOB), STORE_NOT_FOUND);
    cr_expect_eq(store_add_model(store, &row, false, &(struct store_quota){0}, &problem), STORE_FAILED);
    cr_expect_str_eq(problem.code, "UPLOAD_OVERTAKEN");
    cr_expect_eq(store_find_model(store, NULL, model_a), STORE_NOT_FOUND);
    cr_expect_eq(add_model_of(store, "", model_a, 42, (struct store_quota){0}), STORE_ADDED, "it may begin anew");
}

/* ---- opening ---- */

static void *open_and_close(void *thread)
{
    struct problem problem = {0};
    struct store *opened = NULL;
    char owner[STORE_OWNER_SIZE];
    (void)snprintf(owner, sizeof owner, "thread %d", (int)(intptr_t)thread);
    struct store_options options = store_options_of(owner);
    cr_expect(store_open(&options, &opened, &problem), "%s", problem.detail);
    store_close(opened);
    return NULL;
}

POSTGRES_STORE(daemons_start_at_once)
{
    store_close(store);
    store = NULL;
    tell_postgres("DROP SCHEMA shardplan CASCADE");
    run_threads(open_and_close);
}

/* Opens with another URL; what is refused. */
static void must_refuse(const char *url, const char *code, const char *not_said)
{
    struct problem problem = {0};
    struct store *opened = NULL;
    struct store_options options = store_options_of("refused");
    options.url = url;
    cr_expect_not(store_open(&options, &opened, &problem));
    cr_expect_str_eq(problem.code, code);
    cr_expect_null(strstr(problem.detail, not_said), "%s", problem.detail);
}

POSTGRES_STORE(what_cannot_be_opened_is_refused)
{
    tell_postgres("UPDATE shardplan.schema_version SET version = 999");
    must_refuse(store_place(), "STORE_TOO_NEW", "?");
}

POSTGRES_STORE(an_older_schema_is_brought_up_to_date)
{
    ADD_MODEL("team", model_a);
    store_close(store);
    store = NULL;
    tell_postgres(
        "DROP INDEX shardplan.models_by_id; CREATE INDEX models_by_id ON shardplan.models (id);"
        "DROP INDEX shardplan.plans_waiting; DROP TABLE shardplan.settings, shardplan.uploads, shardplan.files, "
        "shardplan.reservations; "
        "ALTER TABLE shardplan.models DROP COLUMN blob, DROP COLUMN inspection, DROP COLUMN inspection_sha256; "
        "ALTER TABLE shardplan.plans DROP COLUMN files; "
        "UPDATE shardplan.schema_version SET version = 1");
    open_store_again();
    cr_expect_eq(store_find_model(store, "team", model_a), STORE_DONE);
    tell_postgres(
        "DO $$ BEGIN IF (SELECT max(version) FROM shardplan.schema_version) <> 9 OR NOT EXISTS (SELECT FROM "
        "pg_indexes WHERE schemaname = 'shardplan' AND indexname = 'plans_waiting') OR NOT EXISTS (SELECT FROM "
        "pg_indexes WHERE schemaname = 'shardplan' AND indexname = 'models_by_id' AND indexdef LIKE "
        "'%(id, bytes)') THEN RAISE 'not brought up to date'; END IF; END $$");
}

Test(postgres, secrets_are_not_repeated)
{
    must_refuse("postgresql://user:hunter2@localhost/x", "BAD_STORE", "hunter2");
    must_refuse("postgresql://user:hun%00ter2@localhost/x", "BAD_STORE", "ter2");
    must_refuse("host=localhost password=hunter2 nonsense", "BAD_STORE", "hunter2");
}
