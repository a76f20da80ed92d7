/* Which process gets a job (worker/pool.h), in random histories with processes that answer each line with their number. What the
   pool should do is worked out here from who had what, not from what it remembers. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/random.h"
#include "observe/log.h"
#include "server_limits.h"
#include "worker/pool.h"

#define SIZE      4u
#define TENANTS   30u
#define PROCESSES 20000u

/* A worker: says that it is ready, and then of each job which process had it. */
static const char program_text[] =
    "#!/bin/sh\n"
    "echo '{\"event\":\"ready\"}'\n"
    "while read -r line; do echo \"{\\\"event\\\":\\\"done\\\",\\\"pid\\\":$$}\"; done\n";
static char program[] = "/tmp/shardplan-pool-XXXXXX";

static uint64_t seed = 1;

static unsigned below(unsigned bound)
{
    return (unsigned)sp_random_below(&seed, bound);
}

struct job {
    int tenant; /* -1: none */
    bool runs;
    struct worker *worker;
    uint64_t number; /* of the process that the pool says has it */
};

/* What a process has had, by the number that it has in the pool. */
struct history {
    int pid, tenant; /* tenant -2: it had no job yet */
    unsigned jobs, idle_since;
    bool refused, busy, ended;
};

struct world {
    uv_loop_t loop;
    struct pool *pool;
    struct job jobs[SIZE];
    struct history histories[PROCESSES];
    unsigned ends, started, recycled, crashed;
};

static struct world *world;

static void make_program(void)
{
    const int fd = mkstemp(program);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, program_text, sizeof program_text - 1), (ssize_t)sizeof program_text - 1);
    cr_assert_eq(fchmod(fd, 0700), 0);
    (void)close(fd);
}

static void idle(void *context)
{
    (void)context;
    world->started++;
}

static void message(void *context, void *told, const json_t *message)
{
    struct job *job = told;
    (void)context;
    struct history *history = &world->histories[job->number];
    const int pid = (int)json_integer_value(json_object_get(message, "pid"));
    cr_assert_gt(pid, 0);
    cr_assert(history->pid == 0 || history->pid == pid, "a number is one process's");
    history->pid = pid;
    history->busy = false;
    history->idle_since = ++world->ends;
    job->runs = false;
    pool_release(world->pool, job);
}

static void gone(void *context, void *job, const char *how, int signal_number, const char *words)
{
    (void)context;
    cr_assert_fail("job %p gone: %s %d %s", job, how, signal_number, words);
}

static void ended(void *context, const char *how)
{
    (void)context;
    world->recycled += strcmp(how, "recycled") == 0;
    world->crashed += strcmp(how, "crashed") == 0;
}

static void begin(void)
{
    log_init(false, (enum log_level)(LOG_ERROR + 1));
    make_program();
    world = calloc(1, sizeof *world);
    cr_assert_not_null(world);
    cr_assert_eq(uv_loop_init(&world->loop), 0);
    for (unsigned i = 0; i < PROCESSES; i++)
        world->histories[i].tenant = -2;
    world->pool = pool_create(&world->loop, program, 1, SIZE,
                              &(struct pool_callbacks){.idle = idle, .message = message, .gone = gone, .ended = ended});
    cr_assert_not_null(world->pool);
    while (pool_alive(world->pool) < SIZE)
        (void)uv_run(&world->loop, UV_RUN_ONCE);
}

static void end(void)
{
    pool_stop(world->pool);
    (void)uv_run(&world->loop, UV_RUN_DEFAULT);
    cr_expect_eq(uv_loop_close(&world->loop), 0, "nothing is left open");
    pool_destroy(world->pool);
    free(world);
    (void)unlink(program);
}

static const char *name_of(int tenant)
{
    static char name[16];
    (void)snprintf(name, sizeof name, "t%d", tenant);
    return tenant < 0 ? NULL : name;
}

static unsigned running(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < SIZE; i++)
        count += world->jobs[i].runs;
    return count;
}

/* The process that this tenant used last and that waits; 0: there is none. */
static uint64_t own_of(int tenant)
{
    uint64_t found = 0;
    for (uint64_t number = 1; number < PROCESSES; number++) {
        const struct history *history = &world->histories[number];
        if (tenant >= 0 && history->tenant == tenant && !history->busy && !history->refused && !history->ended &&
            (found == 0 || history->idle_since > world->histories[found].idle_since))
            found = number;
    }
    return found;
}

/* Those that the pool replaced do not exist any more, whenever it says so. */
static void look_for_ended(void)
{
    for (unsigned i = 1; i < PROCESSES; i++) {
        struct history *history = &world->histories[i];
        if (history->pid != 0 && !history->busy && !history->ended && kill(history->pid, 0) != 0)
            history->ended = true;
    }
}

static void give(struct job *job, int tenant)
{
    const char *name = name_of(tenant);
    struct worker *worker = pool_worker_for(world->pool, name);
    cr_assert_not_null(worker);
    const uint64_t number = pool_number(worker);
    cr_assert_lt(number, PROCESSES);
    struct history *history = &world->histories[number];
    cr_assert(!history->busy && !history->refused && !history->ended);
    if (tenant < 0)
        cr_assert_eq(history->tenant, -2, "a job of no tenant has a process of its own");
    else
        cr_assert(history->tenant == -2 || history->tenant == tenant, "a process serves one tenant");
    *job = (struct job){.tenant = tenant, .runs = true, .worker = worker, .number = number};
    history->tenant = tenant;
    history->busy = true;
    history->jobs++;
    cr_assert(pool_assign(worker, job, &(struct job_parcel){.tenant = name, .line = "{}"}));
}

static struct job *free_job(void)
{
    for (unsigned i = 0; i < SIZE; i++) {
        if (!world->jobs[i].runs)
            return &world->jobs[i];
    }
    return NULL;
}

static void wait_for_all(void)
{
    while (running() > 0)
        (void)uv_run(&world->loop, UV_RUN_ONCE);
}

Test(pool, a_process_serves_one_tenant, .init = begin, .fini = end)
{
    unsigned given = 0, again = 0;
    for (unsigned i = 0; i < 3000; i++) {
        const unsigned tenants = i < 1000 ? 3 : i < 2000 ? 12 : TENANTS;
        struct job *job = free_job();
        if (job != NULL && pool_idle_count(world->pool) > 0 && below(3) != 0) {
            const int tenant = (int)below(tenants) - (below(40) == 0 ? (int)TENANTS : 0) < 0 ? -1 : (int)below(tenants);
            look_for_ended();
            const uint64_t own = own_of(tenant);
            give(job, tenant);
            given++;
            if (own != 0 && kill(world->histories[own].pid, 0) == 0 && job->number == own)
                again++;
        } else if (running() > 0) {
            (void)uv_run(&world->loop, UV_RUN_ONCE);
        }
        if (below(50) == 0) {
            const uint64_t number = world->jobs[below(SIZE)].number;
            world->histories[number].refused = number != 0;
            pool_refuse(world->pool, number);
            pool_retire(world->pool);
        }
        cr_assert_leq(pool_busy(world->pool), SIZE);
        cr_assert_leq(pool_alive(world->pool), SIZE + SPD_KEPT_WORKERS);
        cr_assert_eq(world->crashed, 0);
    }
    wait_for_all();
    cr_expect_gt(given, 1000);
    cr_expect_gt(again, 200);
    cr_expect_gt(world->recycled, 100);
}

/* Up to as many tenants as processes may be kept, each has its own after the first round, and none is started any more. */
Test(pool, tenants_keep_their_processes, .init = begin, .fini = end)
{
    uint64_t first[SPD_KEPT_WORKERS];
    for (unsigned round = 0; round < 5; round++) {
        for (unsigned t = 0; t < SPD_KEPT_WORKERS; t++) {
            give(&world->jobs[0], (int)t);
            if (round == 0)
                first[t] = world->jobs[0].number;
            cr_expect_eq(world->jobs[0].number, first[t]);
            wait_for_all();
        }
    }
    cr_expect_eq(world->recycled, 0);
}

/* The others stay away; the one that has been idle longest goes. */
Test(pool, the_longest_idle_goes, .init = begin, .fini = end)
{
    const unsigned places = SIZE + SPD_KEPT_WORKERS;
    uint64_t numbers[SIZE + SPD_KEPT_WORKERS + 1];
    for (unsigned t = 0; t < places; t++) {
        give(&world->jobs[0], (int)t);
        numbers[t] = world->jobs[0].number;
        wait_for_all();
    }
    /* The last fresh one was used, and another one started for it in the place of the first. */
    for (unsigned t = 1; t < places; t++) {
        give(&world->jobs[0], (int)t);
        cr_expect_eq(world->jobs[0].number, numbers[t], "%u", t);
        wait_for_all();
    }
    give(&world->jobs[0], 0);
    cr_expect_neq(world->jobs[0].number, numbers[0]);
    wait_for_all();
    while (world->recycled < 2)
        (void)uv_run(&world->loop, UV_RUN_ONCE);
    give(&world->jobs[0], 1);
    cr_expect_neq(world->jobs[0].number, numbers[1], "it made room for the next fresh one");
    wait_for_all();
}

/* With one tenant no process is replaced, and none beside the first is started. */
Test(pool, one_tenant, .init = begin, .fini = end)
{
    for (unsigned i = 0; i < 400; i++) {
        struct job *job = free_job();
        if (job != NULL && below(2) == 0)
            give(job, 0);
        else
            (void)uv_run(&world->loop, running() > 0 ? UV_RUN_ONCE : UV_RUN_NOWAIT);
    }
    wait_for_all();
    cr_expect_eq(world->recycled, 0);
    cr_expect_eq(world->started, SIZE);
    cr_expect_eq(pool_alive(world->pool), SIZE);
}

/* Where no process can be started, the others stay, and a tenant that has one goes on. */
Test(pool, no_process_can_be_started, .init = begin, .fini = end)
{
    for (unsigned t = 0; t < SIZE + SPD_KEPT_WORKERS - 1; t++) {
        give(&world->jobs[0], (int)t);
        wait_for_all();
    }
    give(&world->jobs[0], 100);
    wait_for_all();
    give(&world->jobs[0], 101);
    wait_for_all();
    while (world->started - world->recycled - world->crashed >
           pool_alive(world->pool)) /* those that were replaced end */
        (void)uv_run(&world->loop, UV_RUN_ONCE);
    const unsigned recycled = world->recycled, alive = pool_alive(world->pool);
    cr_assert_eq(chmod(program, 0600), 0);
    give(&world->jobs[0], 101);
    wait_for_all();
    give(&world->jobs[0], 102); /* with the last that was started before; none comes after it */
    wait_for_all();
    cr_expect_null(pool_worker_for(world->pool, "stranger"));
    cr_expect_null(pool_worker_for(world->pool, NULL));
    give(&world->jobs[0], 102);
    wait_for_all();
    cr_expect_eq(pool_alive(world->pool), alive);
    cr_expect_leq(world->recycled - recycled, 1);
}
