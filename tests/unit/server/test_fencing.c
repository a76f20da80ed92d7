/*
 * Daemons that sleep, die and lose answers, in simulated time: the real ledger, placing and files, on a store in memory and
 * a real folder, or folders of their own and an object store in memory. A seed decides everything: who goes on after each call of the store and each change of the folder, who
 * sleeps there and how long, which calls fail or are done though they failed, who dies.
 *
 *   always      what a row names is there; the results of a plan that succeeded are there; no plan ends twice
 *   at the end  another daemon, which comes when the two are gone, finishes what is left; every plan has ended once, and
 *               after its sweep no file is there that no row names
 *
 * 200 seeds of each kind, or 100,000 with SHARDPLAN_TEST_THOROUGH; SHARDPLAN_TEST_SEED=N runs that one alone, and
 * SHARDPLAN_TEST_SEEDS=N so many.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "config/config.h"
#include "fibers.h"
#include "jobs/ledger.h"
#include "observe/log.h"
#include "server.h"
#include "simulated_objects.h"
#include "simulated_store.h"
#include "store/blobs.h"
#include "store/files.h"
#include "store/folder.h"
#include "store/integrity/stored.h"
#include "store/objects/results.h"
#include "store/placing.h"
#include "uploads/beside.h"

#define DAEMONS    2 /* that run at once */
#define ROLES      5
#define MOST_TURNS 60000

struct daemon {
    int number;
    struct config config;
    char data[80];
    struct server server;
    struct ledger *ledger;
    struct fiber *roles[ROLES];
    bool is_dead;
    int64_t asleep_until;
    int at_work; /* roles that have not ended, without the ledger's */
};

static char data[64];
static struct config config;
static struct simulated_world world;
static struct daemon daemons[SIM_DAEMONS];
static uint64_t seed, random_state, turns, all_turns;
static bool is_closing, is_simulated, has_objects;
static int64_t away_until, objects_away_until, damaged;
static atomic_bool never;

/* ---- chance: splitmix64 ---- */

static uint64_t next_random(void)
{
    uint64_t z = (random_state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t below(uint64_t most)
{
    return next_random() % most;
}

static bool chance(uint64_t in_thousand)
{
    return below(1000) < in_thousand;
}

/* ---- the seam: the clock, and the calls that change a folder (the linker puts these in their place) ---- */

uint64_t __real_server_now_ms(void);
uint64_t __wrap_server_now_ms(void);
int __real_unlink(const char *path);
int __wrap_unlink(const char *path);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __real_rmdir(const char *path);
int __wrap_rmdir(const char *path);
int __real_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode);

static struct daemon *running; /* whose turn it is */

static void check_now(void);

uint64_t __wrap_server_now_ms(void)
{
    return is_simulated ? (uint64_t)world.now_ms : __real_server_now_ms();
}

/* The daemon may sleep right before the call; false when it never makes it. */
static bool goes_on(void)
{
    const struct daemon *daemon = running;
    if (!fibers_inside())
        return true;
    fibers_yield();
    errno = EIO;
    return !daemon->is_dead;
}

static int changed(int result)
{
    const int error = errno;
    if (result == 0 && is_simulated)
        check_now();
    errno = error;
    return result;
}

int __wrap_unlink(const char *path)
{
    return goes_on() ? changed(__real_unlink(path)) : -1;
}

int __wrap_rename(const char *from, const char *to)
{
    return goes_on() ? changed(__real_rename(from, to)) : -1;
}

int __wrap_rmdir(const char *path)
{
    return goes_on() ? changed(__real_rmdir(path)) : -1;
}

int __wrap_mkdir(const char *path, mode_t mode)
{
    return goes_on() ? __real_mkdir(path, mode) : -1;
}

static bool before_call(void *context, int number)
{
    (void)context;
    if (!fibers_inside())
        return true;
    fibers_yield();
    return !daemons[number].is_dead && world.now_ms >= away_until && (is_closing || !chance(10));
}

static bool after_call(void *context, int number)
{
    (void)context;
    if (!fibers_inside())
        return true;
    check_now();
    if (!daemons[number].is_dead && (is_closing || !chance(15)))
        return true;
    return false;
}

static bool before_request(void *context, int number)
{
    (void)context;
    if (!fibers_inside())
        return !daemons[number].is_dead;
    fibers_yield();
    return !daemons[number].is_dead && world.now_ms >= objects_away_until && (is_closing || !chance(15));
}

static bool comes_late(void *context)
{
    (void)context;
    return chance(200);
}

static void objects_changed(void *context)
{
    (void)context;
    check_now();
}

/* ---- what must be so ---- */

/* Where the others see it: in the folder, or in the object store. */
static bool is_kept(char *path, const char *key)
{
    const bool kept = has_objects ? objects_have(key) : path != NULL && access(path, F_OK) == 0;
    free(path);
    return kept;
}

static bool has_blob(const char *name)
{
    return is_kept(files_blob(data, name), blobs_model(name, 1).key);
}

static bool has_inspection(const char *name)
{
    return is_kept(files_inspection(data, "", name), blobs_inspection(name, "").key);
}

static bool has_result(const char *plan, int64_t attempt)
{
    char key[128];
    (void)snprintf(key, sizeof key, "plans/%s/%lld/plan.json", plan, (long long)attempt);
    return is_kept(files_plan_file(data, plan, attempt, "plan.json"), key);
}

static void check_now(void)
{
    char name[STORE_BLOB_SIZE], id[STORE_ID_SIZE];
    for (int i = 0; i < SIM_ROWS; i++) {
        cr_assert(!world.rows[i].told || world.rows[i].is_there, "seed %llu: a model is lost",
                  (unsigned long long)seed);
        if (!world.rows[i].is_there)
            continue;
        store_blob_name(sim_model, world.rows[i].blob, name);
        cr_assert(world.rows[i].blob == damaged || has_blob(name), "seed %llu: %s is gone", (unsigned long long)seed,
                  name);
        store_blob_name(sim_model, world.rows[i].inspection, name);
        cr_assert(has_inspection(name), "seed %llu: the inspection %s is gone", (unsigned long long)seed, name);
    }
    for (int i = 0; i < SIM_PLANS; i++) {
        const struct simulated_plan *plan = &world.plans[i];
        simulated_plan_id(i, id);
        cr_assert_leq(plan->ends, 1, "seed %llu: plan %d ended twice", (unsigned long long)seed, i);
        cr_assert(!plan->has_result || plan->state != PLAN_SUCCEEDED || has_result(id, plan->attempts),
                  "seed %llu: the result of plan %d is gone", (unsigned long long)seed, i);
    }
}

/* ---- what daemons do ---- */

static bool write_file(char *path)
{
    const int fd = path != NULL ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    const bool ok = fd >= 0 && write(fd, "x", 1) == 1;
    if (fd >= 0)
        (void)close(fd);
    return ok;
}

static void end_reservation(struct daemon *daemon, const char *id, int64_t number)
{
    struct order *order = calloc(1, sizeof *order);
    cr_assert_not_null(order);
    order->kind = ORDER_UNRESERVE;
    order->number = number;
    (void)snprintf(order->model, sizeof order->model, "%s", id);
    ledger_order(daemon->ledger, order);
}

static void store_a_model(struct daemon *daemon, const char *tenant)
{
    char label[] = "";
    struct problem problem = {0};
    struct model_row row = {.name = label, .bytes = 1};
    struct placing placing = {
        .store = daemon->server.store, .blobs = daemon->server.blobs, .stored = daemon->server.stored};
    char *upload = files_temporary(daemon->data, daemon->server.owner),
         *inspection = files_temporary(daemon->data, daemon->server.owner), *sums = files_sums(inspection);
    (void)snprintf(row.tenant, sizeof row.tenant, "%s", tenant);
    memcpy(row.id, sim_model, sizeof row.id);
    placing.upload = upload;
    placing.inspection = inspection;
    if (files_make_temporary(daemon->data, daemon->server.owner, &problem) && write_file(upload) &&
        write_file(inspection))
        (void)placing_add(&placing, &row, &(struct store_quota){0}, &problem);
    if (placing.left > 0)
        end_reservation(daemon, row.id, placing.left);
    (void)unlink(inspection);
    (void)unlink(sums);
    if (!placing.was_moved)
        (void)unlink(upload);
    free(upload);
    free(inspection);
    free(sums);
}

static bool goes_home(const struct daemon *daemon)
{
    return is_closing || daemon->is_dead;
}

static void client(void *context)
{
    struct daemon *daemon = context;
    while (!goes_home(daemon)) {
        struct problem problem = {0};
        const char *tenant = chance(500) ? "0" : "1";
        if (chance(600))
            store_a_model(daemon, tenant);
        else
            (void)beside_delete_model(&daemon->server, tenant, sim_model, &problem);
        fibers_yield();
    }
    daemon->at_work--;
}

static void sweep_all(const struct daemon *daemon)
{
    files_sweep(daemon->data, daemon->server.store, NULL);
    (void)blobs_sweep(daemon->server.blobs, &never);
    (void)results_sweep(daemon->server.blobs, daemon->server.store, &never);
}

static void sweeper(void *context)
{
    const struct daemon *daemon = context;
    while (!goes_home(daemon)) {
        if (chance(100))
            sweep_all(daemon);
        fibers_yield();
    }
    daemons[daemon->number].at_work--;
}

/* The order comes back, or NULL when the daemon is dead. */
static struct order *ask(struct daemon *daemon, struct order *order)
{
    struct order *answer = NULL;
    uint64_t rest_ms = 0;
    ledger_order(daemon->ledger, order);
    while (!daemon->is_dead && (answer = ledger_answers(daemon->ledger)) == NULL) {
        if (fibers_inside())
            fibers_yield();
        else
            (void)ledger_step(daemon->ledger, &rest_ms);
    }
    return answer;
}

/* What a worker writes of an attempt; it may be too late. Objects are sent by other threads than the ledger's. */
static bool work_on(struct daemon *daemon, struct order *order)
{
    static const char *const names[] = {"annotated.splice", "plan.txt", "plan.sheet", "plan.json"};
    struct problem problem = {0};
    char *folder = files_plan_folder(daemon->data, order->plan);
    char *attempt = files_attempt_folder(daemon->data, order->plan, order->attempt);
    bool ok = (mkdir(folder, 0700) == 0 || errno == EEXIST) && (mkdir(attempt, 0700) == 0 || errno == EEXIST);
    for (int i = has_objects ? 0 : 3; ok && i < 4; i++) {
        char *file = files_plan_file(daemon->data, order->plan, order->attempt, names[i]);
        ok = write_file(file);
        free(file);
    }
    free(folder);
    free(attempt);
    order->is_stored = order->stored = has_objects;
    return ok && (!has_objects || results_store(daemon->server.blobs, daemon->data, order->plan, order->attempt,
                                                &order->files, &problem));
}

/* Claims a plan and brings it to an end of some kind; false when there was none. */
static bool do_a_plan(struct daemon *daemon)
{
    struct order *order = calloc(1, sizeof *order);
    cr_assert_not_null(order);
    order->kind = ORDER_CLAIM;
    order->claims = true;
    (void)snprintf(order->tenant, sizeof order->tenant, "0");
    order = ask(daemon, order);
    if (order == NULL || order->found != STORE_DONE) {
        order_release(order);
        return false;
    }
    const bool written = work_on(daemon, order);
    const uint64_t how = below(10);
    order->kind = ORDER_END;
    order->crashes = order->row.crashes;
    order->of_files = !written;
    order->has_result = written && how < 7;
    order->state = order->has_result ? PLAN_SUCCEEDED : PLAN_FAILED;
    order->requeue = order->crashed = written && how == 9 && order->attempt < SPD_MAX_ATTEMPTS;
    order_release(ask(daemon, order));
    return true;
}

static void worker(void *context)
{
    struct daemon *daemon = context;
    while (!goes_home(daemon)) {
        if (chance(200))
            (void)do_a_plan(daemon);
        fibers_yield();
    }
    daemon->at_work--;
}

/* The threads that wait for the network. */
static void mover(void *context)
{
    struct daemon *daemon = context;
    while (!daemon->is_dead && daemon->at_work > 0) {
        (void)objects_work(daemon->number);
        fibers_yield();
    }
}

static void keep_the_ledger(void *context)
{
    struct daemon *daemon = context;
    uint64_t rest_ms = 0;
    while (!daemon->is_dead && daemon->at_work > 0) {
        (void)ledger_step(daemon->ledger, &rest_ms);
        fibers_yield();
    }
}

static void answered(void *context)
{
    (void)context;
}

/* ---- a run ---- */

static void start_daemon(int number)
{
    static const char *const endpoints[] = {"0", "1", "2"};
    struct daemon *daemon = &daemons[number];
    struct problem problem = {0};
    int lock = -1;
    *daemon = (struct daemon){.number = number, .config = config, .at_work = ROLES - 2};
    (void)snprintf(daemon->data, sizeof daemon->data, has_objects ? "%s/%d" : "%s", data, number);
    cr_assert(mkdir(daemon->data, 0700) == 0 || errno == EEXIST);
    daemon->config.data = daemon->data;
    daemon->config.blobs = has_objects ? "s3://simulated" : "";
    daemon->config.blobs_endpoint = endpoints[number];
    daemon->server.config = &daemon->config;
    world.beat_at[number] = world.now_ms;
    (void)snprintf(daemon->server.owner, sizeof daemon->server.owner, "%d", number);
    cr_assert(files_open(daemon->data, true, &lock, &problem), "%s", problem.detail);
    daemon->server.folder = folder_create(daemon->data, daemon->server.owner, true, lock);
    daemon->server.store = simulated_store(&world, number);
    cr_assert(files_make_temporary(daemon->data, daemon->server.owner, &problem), "%s", problem.detail);
    cr_assert(blobs_open(&daemon->config, daemon->server.owner, daemon->server.store, &daemon->server.blobs, &problem));
    daemon->server.stored = stored_create(&(struct stored_options){.data = daemon->data,
                                                                   .owner = daemon->server.owner,
                                                                   .folder = daemon->server.folder,
                                                                   .store = daemon->server.store,
                                                                   .blobs = daemon->server.blobs});
    daemon->ledger = ledger_create(&daemon->server, answered, NULL);
    cr_assert(daemon->server.folder != NULL && daemon->server.store != NULL && daemon->server.stored != NULL &&
              daemon->ledger != NULL);
}

static void end_daemon(struct daemon *daemon)
{
    for (int i = 0; i < ROLES && daemon->roles[i] != NULL; i++)
        fiber_destroy(daemon->roles[i]);
    daemon->is_dead = true; /* what its threads had to do fails */
    ledger_destroy(daemon->ledger);
    stored_destroy(daemon->server.stored);
    blobs_close(daemon->server.blobs);
    folder_destroy(daemon->server.folder);
    store_close(daemon->server.store);
}

/* Something happens to the world between two calls. */
static void let_happen(void)
{
    world.now_ms += (int64_t)below(chance(20) ? 60000 : 40);
    if (is_closing)
        return;
    struct daemon *daemon = &daemons[below(DAEMONS)];
    if (chance(5)) /* longer than ten leases, at times */
        daemon->asleep_until = world.now_ms + (int64_t)below(chance(500) ? 400000 : 20000);
    if (chance(4))
        away_until = world.now_ms + (int64_t)below(3000);
    if (chance(4))
        objects_away_until = world.now_ms + (int64_t)below(3000);
    if (chance(10))
        objects_be_late();
    if (chance(1) && !daemons[0].is_dead && !daemons[1].is_dead)
        daemon->is_dead = true;
    if (damaged < 0 && chance(2) && world.rows[0].is_there) {
        char name[STORE_BLOB_SIZE];
        store_blob_name(sim_model, world.rows[0].blob, name);
        char *path = files_blob(data, name);
        damaged = world.rows[0].blob;
        objects_lose(blobs_model(name, 1).key);
        (void)unlink(path);
        free(path);
    }
}

/* Nobody is awake: time goes on until somebody is. */
static struct daemon *who_goes_on(void)
{
    struct daemon *first = &daemons[below(DAEMONS)], *second = &daemons[1 - first->number];
    if (is_closing || first->asleep_until <= world.now_ms)
        return first;
    if (second->asleep_until > world.now_ms)
        world.now_ms = first->asleep_until < second->asleep_until ? first->asleep_until : second->asleep_until;
    return second->asleep_until <= world.now_ms ? second : first;
}

static bool all_have_ended(void)
{
    bool ended = true;
    for (int i = 0; i < DAEMONS * ROLES; i++)
        ended = ended && fiber_has_ended(daemons[i / ROLES].roles[i % ROLES]);
    return ended;
}

static void run_daemons(void)
{
    static void (*const roles[ROLES])(void *context) = {client, sweeper, worker, keep_the_ledger, mover};
    const uint64_t close_at = 200 + below(800);
    for (int i = 0; i < DAEMONS * ROLES; i++)
        daemons[i / ROLES].roles[i % ROLES] = fiber_create(roles[i % ROLES], &daemons[i / ROLES]);
    for (turns = 0; !all_have_ended(); turns++) {
        cr_assert_lt(turns, MOST_TURNS, "seed %llu: it does not end", (unsigned long long)seed);
        is_closing = turns >= close_at;
        let_happen();
        running = who_goes_on();
        struct fiber *role = running->roles[below(ROLES)];
        if (!fiber_has_ended(role))
            fiber_resume(role);
    }
    all_turns += turns;
}

/* ---- the end ---- */

static int check_file(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    const char *name = path + place->base;
    struct files_name of;
    char prefix[3] = "";
    (void)info;
    if (kind != FTW_F)
        return 0;
    (void)snprintf(prefix, sizeof prefix, "%.2s", name - 3);
    if (strncmp(path + strlen(data), "/blobs/", 7) == 0)
        cr_assert(files_read_blob_name(prefix, name, &of) &&
                      store_names(daemons[SIM_DAEMONS - 1].server.store, of.id, of.number, of.file) == STORE_DONE,
                  "seed %llu: %s is an orphan", (unsigned long long)seed, path);
    else if (strncmp(path + strlen(data), "/plans/", 7) == 0) {
        const char *id = path + strlen(data) + 7;
        const struct simulated_plan *plan = &world.plans[strtol(id, NULL, 10) % SIM_PLANS];
        cr_assert(plan->has_result && strtol(id + STORE_ID_SIZE, NULL, 10) == plan->attempts,
                  "seed %llu: %s is an orphan", (unsigned long long)seed, path);
    } else
        cr_assert_str_eq(name, "lock", "seed %llu: %s is left", (unsigned long long)seed, path);
    return 0;
}

/* What no row names is left to nobody. */
static void check_object(void *context, const char *key)
{
    const struct store *store = context;
    struct files_name of;
    char prefix[3] = "";
    (void)snprintf(prefix, sizeof prefix, "%s", key + 6);
    if (strncmp(key, "blobs/", 6) == 0)
        cr_assert(files_read_blob_name(prefix, key + 9, &of) &&
                      store_names((struct store *)(uintptr_t)store, of.id, of.number, of.file) == STORE_DONE,
                  "seed %llu: the object %s is an orphan", (unsigned long long)seed, key);
    else {
        const struct simulated_plan *plan = &world.plans[strtol(key + 6, NULL, 10) % SIM_PLANS];
        cr_assert(plan->has_result && strtol(key + 6 + STORE_ID_SIZE, NULL, 10) == plan->attempts,
                  "seed %llu: the object %s is an orphan", (unsigned long long)seed, key);
    }
}

static void check_end(void)
{
    struct daemon *daemon = &daemons[SIM_DAEMONS - 1];
    uint64_t rest_ms = 0;
    world.now_ms += 1000000;
    start_daemon(SIM_DAEMONS - 1);
    while (ledger_step(daemon->ledger, &rest_ms))
        world.now_ms += 1;
    while (do_a_plan(daemon)) {
    }
    while (objects_work(daemon->number)) {
    }
    for (int i = 0; i < 16; i++)
        objects_be_late();
    sweep_all(daemon);
    check_now();
    for (int i = 0; i < SIM_PLANS; i++)
        cr_assert_eq(world.plans[i].ends, 1, "seed %llu: plan %d ended %d times", (unsigned long long)seed, i,
                     world.plans[i].ends);
    for (int i = 1; i < SIM_NUMBERS; i++)
        cr_assert_eq(world.reservations[i].number, 0, "seed %llu: a reservation is left", (unsigned long long)seed);
    if (has_objects)
        objects_each(check_object, daemon->server.store);
    else
        cr_assert_eq(nftw(data, check_file, 8, FTW_PHYS), 0);
    end_daemon(daemon);
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info;
    (void)kind;
    return place->level == 0 ? 0 : remove(path);
}

static void run_seed(uint64_t number)
{
    static const struct objects_world objects = {before_request, after_call, comes_late, objects_changed, NULL};
    seed = number;
    random_state = number * 0x2545f4914f6cdd1du + 1;
    world = (struct simulated_world){.now_ms = 1000000, .before = before_call, .after = after_call};
    for (int i = 0; i < SIM_PLANS; i++)
        world.plans[i] = (struct simulated_plan){.is_there = true, .state = PLAN_QUEUED};
    away_until = objects_away_until = 0;
    objects_begin(&objects);
    damaged = -1;
    is_closing = false;
    is_simulated = true;
    for (int i = 0; i < DAEMONS; i++)
        start_daemon(i);
    run_daemons();
    for (int i = 0; i < DAEMONS; i++)
        end_daemon(&daemons[i]);
    check_end();
    is_simulated = false;
    (void)nftw(data, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void run_seeds(const char *kind)
{
    const char *one = getenv("SHARDPLAN_TEST_SEED"), *seeds = getenv("SHARDPLAN_TEST_SEEDS");
    const uint64_t usual = getenv("SHARDPLAN_TEST_THOROUGH") != NULL ? 100000 : 200;
    const uint64_t count = seeds != NULL ? strtoull(seeds, NULL, 10) : usual;
    (void)snprintf(data, sizeof data, "%s/shardplan-fencing-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    cr_assert_not_null(mkdtemp(data));
    config = (struct config){.data = data, .store = "x", .lease_seconds = 15, .blobs = ""};
    log_init(false, (enum log_level)(LOG_ERROR + 1));
    if (one != NULL)
        run_seed(strtoull(one, NULL, 10));
    for (uint64_t i = 0; one == NULL && i < count; i++)
        run_seed(i);
    (void)fprintf(stderr, "# fencing, %s: %llu runs, %llu turns\n", kind, (unsigned long long)(one != NULL ? 1 : count),
                  (unsigned long long)all_turns);
    (void)rmdir(data);
}

Test(fencing, nothing_is_lost_whoever_sleeps)
{
    run_seeds("one folder");
}

Test(fencing, nothing_is_lost_of_objects)
{
    has_objects = true;
    run_seeds("objects");
}
