/* What the jobs tell the store (jobs/ledger.h): each order has one answer, and the files of attempts follow the rows.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "jobs/ledger.h"
#include "jobs/plan_files.h"
#include "open_store.h"
#include "server.h"
#include "store/blobs.h"
#include "store/folder.h"
#include "store/internal.h"

#define PATIENCE_SECONDS 60

static char data[] = "/tmp/shardplan-ledger-XXXXXX";
static struct config config = {.data = data, .store = "", .blobs = "", .lease_seconds = 15};
static struct server server = {.config = &config, .owner = "first"};
static struct ledger *ledger;
static sem_t answers;

static void answered(void *context)
{
    (void)context;
    (void)sem_post(&answers);
}

static void begin(void)
{
    struct problem problem = {0};
    int lock = -1;
    open_sqlite_store();
    cr_assert_not_null(mkdtemp(data));
    cr_assert(files_open(data, false, &lock, &problem), "%s", problem.detail);
    server.folder = folder_create(data, server.owner, false, lock);
    cr_assert(files_make_temporary(data, server.owner, &problem), "%s", problem.detail);
    server.store = store;
    cr_assert(blobs_open(&config, server.owner, store, &server.blobs, &problem), "%s", problem.detail);
    (void)sem_init(&answers, 0, 0);
    ledger = ledger_create(&server, answered, NULL);
    cr_assert(server.folder != NULL && ledger != NULL && ledger_start(ledger));
    ADD_MODEL("", model_a);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status;
    (void)kind;
    (void)place;
    return remove(path);
}

static void end(void)
{
    ledger_stop(ledger);
    ledger_destroy(ledger);
    blobs_close(server.blobs);
    close_stores();
    folder_destroy(server.folder);
    (void)nftw(data, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

TestSuite(ledger, .init = begin, .fini = end);

/* Gives an order and waits for its answer, which is the only one. */
static struct order *ask(struct order order)
{
    struct order *asked = malloc(sizeof *asked), *answer = NULL;
    struct timespec until;
    cr_assert_not_null(asked);
    *asked = order;
    ledger_order(ledger, asked);
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_SECONDS;
    while ((answer = ledger_answers(ledger)) == NULL)
        cr_assert(sem_timedwait(&answers, &until) == 0 || errno == EINTR, "no answer");
    cr_assert(answer == asked && answer->next == NULL);
    return answer;
}

/* Claims the plan's next attempt and makes its folder. */
static void must_start(const char *plan, int64_t attempt)
{
    struct order *claim = ask((struct order){.kind = ORDER_CLAIM});
    cr_expect_eq(claim->found, STORE_NOT_FOUND, "nothing was to be claimed");
    cr_assert_eq(claim->tenant_count, 1);
    cr_expect_str_eq(claim->tenants[0], "");
    order_release(claim);
    claim = ask((struct order){.kind = ORDER_CLAIM, .claims = true});
    cr_assert_eq(claim->found, STORE_DONE);
    cr_expect_eq(claim->tenant_count, 0);
    cr_expect_str_eq(claim->plan, plan);
    cr_expect_str_eq(claim->row.id, plan);
    cr_expect_eq(claim->attempt, attempt);
    cr_expect_str_eq(claim->name, "a model");
    order_release(claim);
    char *folders[] = {files_plan_folder(data, plan), files_attempt_folder(data, plan, attempt)};
    for (int i = 0; i < 2; i++) {
        cr_expect(mkdir(folders[i], 0700) == 0 || errno == EEXIST, "%s", folders[i]);
        free(folders[i]);
    }
}

static struct order end_of(const char *plan, int64_t attempt)
{
    struct order order = {.kind = ORDER_END, .attempt = attempt};
    (void)snprintf(order.plan, sizeof order.plan, "%s", plan);
    return order;
}

static enum store_changed tell(struct order order)
{
    struct order *answer = ask(order);
    enum store_changed changed = answer->changed;
    order_release(answer);
    return changed;
}

/* Takes the path. */
static bool is_there(char *path)
{
    bool there = access(path, F_OK) == 0;
    free(path);
    return there;
}

static bool has_plan(const char *plan)
{
    return is_there(files_plan_folder(data, plan));
}

static bool has_attempt(const char *plan, int64_t attempt)
{
    return is_there(files_attempt_folder(data, plan, attempt));
}

Test(ledger, many_tenants_wait)
{
    char id[STORE_ID_SIZE], name[32];
    for (int i = 0; i < 70; i++) {
        (void)snprintf(name, sizeof name, "tenant-%02d", i);
        ADD_MODEL(name, model_a);
        MUST_ADD_PLAN(id, .number = i + 1, .tenant = name);
    }
    struct order order = {.kind = ORDER_CLAIM, .claims = true, .tenant = "tenant-33"};
    struct order *claim = ask(order);
    cr_expect_eq(claim->found, STORE_DONE);
    cr_expect_str_eq(claim->row.tenant, "tenant-33");
    cr_assert_eq(claim->tenant_count, 69);
    for (int i = 0; i < 69; i++) {
        (void)snprintf(name, sizeof name, "tenant-%02d", i < 33 ? i : i + 1);
        cr_expect_str_eq(claim->tenants[i], name);
    }
    order_release(claim);
}

Test(ledger, nothing_is_queued)
{
    struct order *claim = ask((struct order){.kind = ORDER_CLAIM, .claims = true});
    cr_expect_eq(claim->found, STORE_NOT_FOUND);
    cr_expect_eq(claim->tenant_count, 0);
    order_release(claim);
}

Test(ledger, an_end_is_told_once)
{
    char plan[STORE_ID_SIZE];
    MUST_ADD_PLAN(plan, .number = 1);
    must_start(plan, 1);
    struct order done = end_of(plan, 1);
    done.state = PLAN_SUCCEEDED;
    done.has_result = true;
    cr_expect_eq(tell(done), STORE_CHANGED);
    cr_expect_eq(plan_of(plan).state, PLAN_SUCCEEDED);
    done.state = PLAN_CANCELLED;
    cr_expect_eq(tell(done), STORE_LOST);
    cr_expect_eq(plan_of(plan).state, PLAN_SUCCEEDED);
    cr_expect(has_attempt(plan, 1), "its result is what the first answer was about");
}

/* What a worker left as the four files is no plan: the attempt fails, and nothing of them is kept. */
Test(ledger, a_result_that_is_none_fails_the_plan)
{
    char plan[STORE_ID_SIZE];
    struct problem problem = {0};
    MUST_ADD_PLAN(plan, .number = 1);
    struct order *order = ask((struct order){.kind = ORDER_CLAIM, .claims = true});
    cr_assert_eq(order->found, STORE_DONE);
    cr_assert_not_null(order->handover, "%s", order->problem.detail);
    cr_expect_eq(order->handover->input_count, 0, "a file that was not looked at yet is open");
    cr_expect_eq(order->handover->result_count, 4);
    for (unsigned i = 0; i < 4; i++)
        cr_expect_eq(write(order->handover->results[i].given, "{}", 2), 2);
    handover_given(order->handover);
    cr_expect(handover_seal(order->handover));
    cr_expect_not(plan_files_store(data, &order->row, order->handover, &problem));
    cr_expect_str_eq(problem.code, "RESULT_DAMAGED");
    struct order done = *order;
    free(order);
    done.kind = ORDER_END;
    done.state = PLAN_FAILED;
    done.error = problem_to_text(&problem);
    struct order *ended = ask(done);
    cr_expect_eq(ended->changed, STORE_CHANGED);
    cr_expect_null(ended->handover);
    order_release(ended);
    cr_expect_eq(plan_of(plan).state, PLAN_FAILED);
    cr_expect_not(has_plan(plan));
}

Test(ledger, without_a_result_no_files_stay)
{
    char plan[STORE_ID_SIZE];
    MUST_ADD_PLAN(plan, .number = 1);
    must_start(plan, 1);
    struct order failed = end_of(plan, 1);
    failed.state = PLAN_FAILED;
    failed.error = strdup("{\"code\":\"DOES_NOT_FIT\"}");
    cr_expect_eq(tell(failed), STORE_CHANGED);
    cr_expect_eq(plan_of(plan).state, PLAN_FAILED);
    cr_expect_not(has_plan(plan));
}

Test(ledger, the_files_of_the_last_attempt_stay)
{
    char plan[STORE_ID_SIZE];
    MUST_ADD_PLAN(plan, .number = 1);
    must_start(plan, 1);
    struct order again = end_of(plan, 1);
    again.requeue = again.crashed = true;
    cr_expect_eq(tell(again), STORE_CHANGED);
    cr_expect_eq(plan_of(plan).state, PLAN_QUEUED);
    cr_expect_eq(plan_of(plan).crashes, 1);
    cr_expect_not(has_attempt(plan, 1));
    must_start(plan, 2);
    cr_expect_eq(tell(again), STORE_LOST, "the second attempt runs");
    cr_expect(has_attempt(plan, 2));
    struct order done = end_of(plan, 2);
    done.state = PLAN_SUCCEEDED;
    done.has_result = true;
    cr_expect_eq(tell(done), STORE_CHANGED);
    cr_expect(has_attempt(plan, 2));
}

Test(ledger, a_plan_that_was_deleted_leaves_nothing)
{
    char plan[STORE_ID_SIZE];
    MUST_ADD_PLAN(plan, .number = 1);
    must_start(plan, 1);
    cr_assert_eq(store_delete_plan(store, "", plan), STORE_DONE);
    struct order look = end_of(plan, 0);
    look.kind = ORDER_LOOK;
    struct order *looked = ask(look);
    cr_expect_eq(looked->found, STORE_NOT_FOUND);
    order_release(looked);
    cr_expect(has_plan(plan), "its process may still write");
    struct order done = end_of(plan, 1);
    done.state = PLAN_SUCCEEDED;
    done.has_result = true;
    cr_expect_eq(tell(done), STORE_LOST);
    cr_expect_not(has_plan(plan));
}

Test(ledger, a_failure_of_files_is_tried_again_and_counts)
{
    char plan[STORE_ID_SIZE];
    MUST_ADD_PLAN(plan, .number = 1);
    for (int attempt = 1; attempt <= SPD_MAX_CRASHES; attempt++) {
        must_start(plan, attempt);
        struct order failed = end_of(plan, attempt);
        failed.state = PLAN_FAILED;
        failed.of_files = true;
        failed.crashes = attempt - 1;
        failed.error = strdup("{\"code\":\"IO_ERROR\"}");
        cr_expect_eq(tell(failed), STORE_CHANGED);
        cr_expect_eq(plan_of(plan).state, attempt < SPD_MAX_CRASHES ? PLAN_QUEUED : PLAN_FAILED);
    }
}

Test(ledger, who_missed_something_looks_at_all_once)
{
    cr_expect_not(ledger_look_at_all(ledger));
    ledger_look(ledger, NULL, false);
    cr_expect(ledger_look_at_all(ledger));
    cr_expect_not(ledger_look_at_all(ledger));
}

/* ---- reservations ---- */

static atomic_int refusals;
static const struct store_ops *own_ops;

/* The store's own answer after some refusals. */
static bool unreserve_at_last(struct store *refusing, int64_t number)
{
    return atomic_fetch_sub(&refusals, 1) > 0 ? false : own_ops->unreserve(refusing, number);
}

Test(ledger, a_reservation_ends_when_the_store_answers_again)
{
    struct problem problem = {0};
    int64_t number;
    char blob[STORE_BLOB_SIZE];
    struct order *order = calloc(1, sizeof *order);
    cr_assert(order != NULL && store_reserve(store, model_b, &number, &problem));
    store_blob_name(model_b, number, blob);
    char *path = files_blob(data, blob);
    char *folder = strndup(path, (size_t)(strrchr(path, '/') - path));
    cr_assert(mkdir(folder, 0700) == 0 || errno == EEXIST);
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    cr_assert(fd >= 0 && close(fd) == 0);
    blobs_tidy(server.blobs, model_b);
    cr_expect_eq(access(path, F_OK), 0, "it is reserved");

    own_ops = store->ops;
    static struct store_ops refusing; /* also at the end */
    refusing = *store->ops;
    refusing.unreserve = unreserve_at_last;
    atomic_store(&refusals, 2);
    store->ops = &refusing;
    order->kind = ORDER_UNRESERVE;
    order->number = number;
    memcpy(order->model, model_b, sizeof order->model);
    ledger_order(ledger, order);
    for (int i = 0; i < PATIENCE_SECONDS * 100 && access(path, F_OK) == 0; i++)
        (void)usleep(10000);
    cr_expect(access(path, F_OK) != 0 && errno == ENOENT);
    cr_expect_eq(atomic_load(&refusals), -1, "it was tried three times");
    cr_expect_eq(store_names(store, model_b, number, FILE_BLOB), STORE_NOT_FOUND);
    free(folder);
    free(path);
}
