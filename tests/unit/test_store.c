#include <criterion/criterion.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"
#include "server_limits.h"
#include "store.h"

/* Each test has a database of its own in a new folder. */
static char folder[64], path[96];
static struct store *store;

static void open_again(void)
{
    struct problem problem = {0};
    store_close(store);
    store = NULL;
    cr_assert(store_open(path, &store, &problem), "%s", problem.detail);
}

static void set_up(void)
{
    (void)snprintf(folder, sizeof folder, "/tmp/shardplan-store-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/test.db", folder);
    open_again();
}

static void tear_down(void)
{
    store_close(store);
    store = NULL;
    files_remove_folder(folder);
}

TestSuite(store, .init = set_up, .fini = tear_down);

static const char model_a[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
static const char model_b[] = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

static void add_model(const char *id, const char *name)
{
    struct problem problem = {0};
    cr_assert(store_add_model(store, id, name, 42, &problem), "%s", problem.detail);
}

/* A plan whose id is `number` in decimal digits. */
static enum store_added add_plan(int number, const char *model, const char *key, const char *print, char ret_id[33])
{
    struct problem problem = {0};
    struct plan_row row = {0};
    char request[] = "{}";
    (void)snprintf(row.id, sizeof row.id, "%032d", number);
    (void)snprintf(row.model, sizeof row.model, "%s", model);
    row.request = request;
    enum store_added added = store_add_plan(store, &row, key, print, 3, &problem);
    memcpy(ret_id, row.id, 33);
    return added;
}

static enum plan_state state_of(const char *id)
{
    struct plan_row row;
    cr_assert(store_get_plan(store, id, &row));
    enum plan_state state = row.state;
    store_release_plan(&row);
    return state;
}

static void claim(const char *id, int attempts)
{
    struct plan_row row;
    cr_assert(store_claim(store, &row));
    cr_expect_str_eq(row.id, id);
    cr_expect_eq(row.state, PLAN_RUNNING);
    cr_expect_eq(row.attempts, attempts);
    cr_expect_gt(row.started_at, 0);
    store_release_plan(&row);
}

Test(store, models_are_kept_once)
{
    struct model_row row;
    add_model(model_a, "first");
    add_model(model_a, "second");
    open_again();
    cr_assert(store_get_model(store, model_a, &row));
    cr_expect_str_eq(row.name, "first");
    cr_expect_eq(row.bytes, 42);
    store_release_model(&row);
    cr_expect_not(store_get_model(store, model_b, &row));
    cr_expect_eq(store_delete_model(store, model_b), STORE_NOT_FOUND);
    cr_expect_eq(store_delete_model(store, model_a), STORE_DONE);
    cr_expect_not(store_has_model(store, model_a));
}

Test(store, a_model_with_plans_stays)
{
    char id[33];
    add_model(model_a, "");
    cr_assert_eq(add_plan(1, model_a, NULL, "p", id), STORE_ADDED);
    cr_expect_eq(store_delete_model(store, model_a), STORE_IN_USE);
    cr_expect_eq(store_delete_plan(store, id), STORE_DONE);
    cr_expect_eq(store_delete_plan(store, id), STORE_NOT_FOUND);
    cr_expect_eq(store_delete_model(store, model_a), STORE_DONE);
}

Test(store, plans_need_their_model_and_room)
{
    char id[33];
    cr_expect_eq(add_plan(1, model_a, NULL, "p", id), STORE_NO_MODEL);
    add_model(model_a, "");
    for (int i = 1; i <= 3; i++)
        cr_expect_eq(add_plan(i, model_a, NULL, "p", id), STORE_ADDED);
    cr_expect_eq(add_plan(4, model_a, NULL, "p", id), STORE_FULL);
    claim("00000000000000000000000000000001", 1);
    cr_expect_eq(add_plan(4, model_a, NULL, "p", id), STORE_ADDED, "a running plan does not count as queued");
}

Test(store, an_idempotency_key_names_one_request)
{
    char first[33], second[33];
    add_model(model_a, "");
    cr_assert_eq(add_plan(1, model_a, "key", "print", first), STORE_ADDED);
    open_again();
    cr_expect_eq(add_plan(2, model_a, "key", "print", second), STORE_EXISTS);
    cr_expect_str_eq(second, first);
    cr_expect_eq(add_plan(3, model_a, "key", "other", second), STORE_KEY_REUSED);
    cr_expect_eq(add_plan(4, model_a, "key 2", "print", second), STORE_ADDED);
}

Test(store, plans_are_claimed_in_order_and_finish_once)
{
    char one[33], two[33];
    struct plan_row row;
    add_model(model_a, "");
    cr_assert_eq(add_plan(9, model_a, NULL, "p", one), STORE_ADDED);
    cr_assert_eq(add_plan(2, model_a, NULL, "p", two), STORE_ADDED);
    claim(one, 1);
    claim(two, 1);
    cr_expect_not(store_claim(store, &row));
    cr_expect(store_finish(store, one, NULL));
    cr_expect(store_finish(store, two, "{\"code\":\"X\"}"));
    cr_expect_not(store_finish(store, one, "{}"), "a finished plan does not change");
    cr_assert(store_get_plan(store, two, &row));
    cr_expect_eq(row.state, PLAN_FAILED);
    cr_expect_str_eq(row.error, "{\"code\":\"X\"}");
    cr_expect_geq(row.finished_at, row.started_at);
    store_release_plan(&row);
    cr_expect_eq(state_of(one), PLAN_SUCCEEDED);
}

Test(store, crashes_are_counted_and_interruptions_are_not)
{
    char id[33];
    struct plan_row row;
    add_model(model_a, "");
    cr_assert_eq(add_plan(1, model_a, NULL, "p", id), STORE_ADDED);
    claim(id, 1);
    cr_expect(store_requeue(store, id, true));
    claim(id, 2);
    cr_expect(store_requeue(store, id, false));
    cr_expect_not(store_requeue(store, id, false), "it is queued already");
    cr_assert(store_get_plan(store, id, &row));
    cr_expect_eq(row.crashes, 1);
    cr_expect_eq(row.attempts, 2);
    store_release_plan(&row);
}

Test(store, cancelling_wins_over_a_late_result)
{
    char id[33];
    add_model(model_a, "");
    cr_assert_eq(add_plan(1, model_a, NULL, "p", id), STORE_ADDED);
    claim(id, 1);
    cr_expect_eq(store_cancel(store, id), STORE_DONE);
    cr_expect_not(store_finish(store, id, NULL));
    cr_expect_not(store_requeue(store, id, true));
    cr_expect_eq(state_of(id), PLAN_CANCELLED);
    cr_expect_eq(store_cancel(store, id), STORE_DONE, "cancelling twice is fine");
    cr_expect_eq(store_cancel(store, "0"), STORE_NOT_FOUND);
}

Test(store, recovery_queues_what_was_running)
{
    char id[33], other[33];
    int64_t counts[PLAN_STATE_COUNT], models;
    double oldest;
    add_model(model_a, "");
    cr_assert_eq(add_plan(1, model_a, NULL, "p", id), STORE_ADDED);
    cr_assert_eq(add_plan(2, model_a, NULL, "p", other), STORE_ADDED);
    claim(id, 1);
    open_again();
    cr_expect_eq(store_recover(store), 1);
    cr_expect_eq(state_of(id), PLAN_QUEUED);
    cr_assert(store_counts(store, counts, &oldest, &models));
    cr_expect_eq(counts[PLAN_QUEUED], 2);
    cr_expect_eq(counts[PLAN_RUNNING], 0);
    cr_expect_eq(models, 1);
    /* A plan that is interrupted again and again is given up. */
    for (int attempt = 2; attempt <= SPD_MAX_ATTEMPTS; attempt++) {
        claim(id, attempt);
        cr_expect_eq(store_recover(store), attempt < SPD_MAX_ATTEMPTS ? 1 : 0);
    }
    cr_expect_eq(state_of(id), PLAN_FAILED);
}

static void collect(void *context, const struct plan_row *row)
{
    int64_t *last = context;
    cr_expect_lt(row->seq, *last);
    *last = row->seq;
}

Test(store, lists_are_newest_first)
{
    char id[33];
    int64_t last = INT64_MAX;
    add_model(model_a, "");
    for (int i = 1; i <= 3; i++)
        cr_assert_eq(add_plan(i, model_a, NULL, "p", id), STORE_ADDED);
    cr_expect(store_list_plans(store, INT64_MAX, 2, collect, &last));
    cr_expect_eq(last, 2);
    cr_expect(store_list_plans(store, last, 2, collect, &last));
    cr_expect_eq(last, 1);
}

Test(store, a_newer_schema_is_refused)
{
    struct problem problem = {0};
    struct store *newer = NULL;
    char command[160];
    store_close(store);
    store = NULL;
    /* user_version is the 32-bit big-endian number at byte 60 of a database without a log (SQLite's file format). */
    FILE *file = fopen(path, "r+be");
    cr_assert_not_null(file);
    cr_assert_eq(fseek(file, 60, SEEK_SET), 0);
    cr_assert_eq(fwrite("\0\0\3\347", 1, 4, file), 4u);
    (void)fclose(file);
    (void)snprintf(command, sizeof command, "%s-wal", path);
    (void)unlink(command);
    cr_expect_not(store_open(path, &newer, &problem));
    cr_expect_str_eq(problem.code, "STORE_TOO_NEW");
}
