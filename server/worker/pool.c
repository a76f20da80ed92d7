#include "worker/pool.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/principal.h"
#include "observe/log.h"
#include "server_limits.h"

/* A place for a process. One that was replaced ends beside the pool. */
struct worker {
    struct pool *pool;
    struct process *process; /* NULL: there is none at the moment */
    uv_timer_t timer;        /* when one is started here, or an idle one that is more than the pool's size ends */
    void *job;               /* NULL: none */
    bool is_fresh;           /* it has had no job yet; else: */
    bool is_for_one;         /* its job had no tenant */
    char tenant[SPD_MAX_PRINCIPAL + 1]; /* whose jobs it had */
    uint64_t idle_since;                /* grows from one job's end to the next */
    uint64_t number;                    /* of the process */
    _Atomic uint64_t refused;           /* of the newest process whose result was refused */
};

struct pool {
    struct process_options options;
    struct pool_callbacks callbacks;
    bool stopping;
    unsigned size, places; /* how many there always are, and how many there may be */
    uint64_t starts, ends; /* of processes, of jobs */
    struct worker workers[];
};

/* ---- processes ---- */

static bool start(struct worker *worker)
{
    struct pool *pool = worker->pool;
    struct process *process = process_start(&pool->options, worker);
    if (process == NULL)
        return false;
    (void)uv_timer_stop(&worker->timer);
    worker->process = process;
    worker->job = NULL;
    worker->is_fresh = true;
    worker->is_for_one = false;
    worker->number = ++pool->starts * pool->places + (uint64_t)(worker - pool->workers);
    pool->callbacks.idle(pool->callbacks.context);
    return true;
}

static void start_due(uv_timer_t *timer)
{
    struct worker *worker = timer->data;
    const struct pool *pool = worker->pool;
    if (!pool->stopping && pool_alive(pool) < pool->size && !start(worker))
        (void)uv_timer_start(timer, start_due, SPD_WORKER_RESPAWN_MS, 0);
}

static void end_due(uv_timer_t *timer)
{
    const struct worker *worker = timer->data;
    if (pool_alive(worker->pool) > worker->pool->size)
        process_kill(worker->process, "recycled");
}

/* A new process in the place of this one, which is idle. False, and it stays, when none can be started. */
static bool replace(struct worker *worker)
{
    struct process *old = worker->process;
    if (!start(worker))
        return false;
    process_kill(old, "recycled");
    return true;
}

/* The process of the worker, which is idle, gets no job any more. */
static void retire(struct worker *worker)
{
    if (pool_alive(worker->pool) > worker->pool->size || !replace(worker))
        process_kill(worker->process, "recycled");
}

static void ended(void *owner, struct process *process, const char *reason, int64_t status, int signal_number)
{
    struct worker *worker = owner;
    struct pool *pool = worker->pool;
    const bool is_current = worker->process == process;
    void *job = is_current ? worker->job : NULL;
    const char *how = reason != NULL ? reason : "crashed";
    if (is_current) {
        worker->process = NULL;
        worker->job = NULL;
    }
    if (!pool->stopping || job != NULL)
        LOG(reason != NULL ? LOG_INFO : LOG_WARNING, "worker ended", log_s("reason", how),
            log_i("pid", process_pid(process)), log_i("signal", signal_number), log_i("status", status));
    if (is_current && !pool->stopping)
        (void)uv_timer_start(&worker->timer, start_due, reason != NULL ? 0 : SPD_WORKER_RESPAWN_MS, 0);
    pool->callbacks.ended(pool->callbacks.context, how);
    if (job != NULL)
        pool->callbacks.gone(pool->callbacks.context, job, how, signal_number, process_words(process));
}

static void message(void *owner, struct process *process, const json_t *message)
{
    const struct worker *worker = owner;
    const struct pool *pool = worker->pool;
    if (worker->process == process && worker->job != NULL) {
        pool->callbacks.message(pool->callbacks.context, worker->job, message);
        return;
    }
    if (process_is_ending(process))
        return;
    LOG(LOG_ERROR, "worker spoke out of turn", log_i("pid", process_pid(process)));
    process_kill(process, "crashed");
}

struct pool *pool_create(uv_loop_t *loop, const char *program, uint64_t job_memory, unsigned size,
                         const struct pool_callbacks *callbacks)
{
    const unsigned places = size + SPD_KEPT_WORKERS;
    struct pool *pool = calloc(1, sizeof *pool + places * sizeof pool->workers[0]);
    if (pool == NULL)
        return NULL;
    pool->options.loop = loop;
    pool->options.program = program;
    pool->options.job_memory = job_memory;
    pool->options.callbacks = (struct process_callbacks){.message = message, .ended = ended};
    pool->callbacks = *callbacks;
    pool->size = size;
    pool->places = places;
    for (unsigned i = 0; i < places; i++) {
        pool->workers[i].pool = pool;
        pool->workers[i].timer.data = &pool->workers[i];
        (void)uv_timer_init(loop, &pool->workers[i].timer);
    }
    for (unsigned i = 0; i < size; i++)
        (void)uv_timer_start(&pool->workers[i].timer, start_due, 0, 0);
    return pool;
}

void pool_stop(struct pool *pool)
{
    pool->stopping = true;
    for (unsigned i = 0; i < pool->places; i++) {
        struct worker *worker = &pool->workers[i];
        if (worker->process != NULL)
            process_kill(worker->process, "stopped");
        if (!uv_is_closing((uv_handle_t *)&worker->timer))
            uv_close((uv_handle_t *)&worker->timer, NULL);
    }
}

void pool_destroy(struct pool *pool)
{
    free(pool);
}

/* ---- which worker ---- */

static bool is_refused(const struct worker *worker)
{
    return atomic_load(&worker->refused) == worker->number;
}

static bool is_idle(const struct worker *worker)
{
    return worker->process != NULL && worker->job == NULL && !process_is_ending(worker->process) && !is_refused(worker);
}

static bool has_served(const struct worker *worker, const char *tenant)
{
    return !worker->is_fresh && tenant != NULL && strcmp(worker->tenant, tenant) == 0;
}

/* Of the idle workers the one that has been so longest after a job of another tenant; NULL: none. */
static struct worker *longest_idle(struct pool *pool, const char *tenant)
{
    struct worker *found = NULL;
    for (unsigned i = 0; i < pool->places; i++) {
        struct worker *worker = &pool->workers[i];
        if (is_idle(worker) && !worker->is_fresh && !has_served(worker, tenant) &&
            (found == NULL || worker->idle_since < found->idle_since))
            found = worker;
    }
    return found;
}

static struct worker *oldest_fresh(struct pool *pool)
{
    struct worker *found = NULL;
    for (unsigned i = 0; i < pool->places; i++) {
        struct worker *worker = &pool->workers[i];
        if (is_idle(worker) && worker->is_fresh && (found == NULL || worker->number < found->number))
            found = worker;
    }
    return found;
}

static struct worker *last_idle_of(struct pool *pool, const char *tenant)
{
    struct worker *found = NULL;
    for (unsigned i = 0; i < pool->places; i++) {
        struct worker *worker = &pool->workers[i];
        if (is_idle(worker) && has_served(worker, tenant) && (found == NULL || worker->idle_since > found->idle_since))
            found = worker;
    }
    return found;
}

/* A new process in a free place, or else instead of the one that has been idle longest; not one of this tenant. NULL: there is
   none to replace, or none can be started. */
static struct worker *start_one(struct pool *pool, const char *tenant)
{
    for (unsigned i = 0; i < pool->places; i++) {
        struct worker *worker = &pool->workers[i];
        if (worker->process == NULL)
            return start(worker) ? worker : NULL;
    }
    struct worker *worker = longest_idle(pool, tenant);
    return worker != NULL && replace(worker) ? worker : NULL;
}

static bool serves_others(const struct pool *pool, const char *tenant)
{
    for (unsigned i = 0; i < pool->places; i++) {
        const struct worker *worker = &pool->workers[i];
        if (worker->process != NULL && !worker->is_fresh && !has_served(worker, tenant))
            return true;
    }
    return false;
}

unsigned pool_idle_count(const struct pool *pool)
{
    unsigned idle = 0;
    const unsigned busy = pool_busy(pool), free = pool->size > busy ? pool->size - busy : 0;
    for (unsigned i = 0; i < pool->places && !pool->stopping; i++)
        idle += is_idle(&pool->workers[i]);
    return idle < free ? idle : free;
}

struct worker *pool_worker_for(struct pool *pool, const char *tenant)
{
    if (pool->stopping)
        return NULL;
    struct worker *worker = last_idle_of(pool, tenant);
    if (worker == NULL)
        worker = oldest_fresh(pool);
    return worker != NULL ? worker : start_one(pool, tenant);
}

/* ---- jobs ---- */

bool pool_assign(struct worker *worker, void *job, const struct job_parcel *parcel)
{
    struct pool *pool = worker->pool;
    const bool was_fresh = worker->is_fresh;
    assert(worker->job == NULL);
    if (!process_send(worker->process, parcel))
        return false;
    worker->job = job;
    worker->is_fresh = false;
    worker->is_for_one = parcel->tenant == NULL;
    (void)snprintf(worker->tenant, sizeof worker->tenant, "%s", parcel->tenant != NULL ? parcel->tenant : "");
    (void)uv_timer_stop(&worker->timer);
    if (was_fresh && oldest_fresh(pool) == NULL && serves_others(pool, parcel->tenant))
        (void)start_one(pool, parcel->tenant);
    return true;
}

uint64_t pool_number(const struct worker *worker)
{
    return worker->number;
}

static struct worker *worker_of(struct pool *pool, const void *job)
{
    for (unsigned i = 0; i < pool->places; i++) {
        if (pool->workers[i].process != NULL && pool->workers[i].job == job)
            return &pool->workers[i];
    }
    return NULL;
}

void pool_release(struct pool *pool, void *job)
{
    struct worker *worker = worker_of(pool, job);
    if (worker == NULL)
        return;
    worker->job = NULL;
    worker->idle_since = ++pool->ends;
    if (process_is_ending(worker->process))
        return;
    const bool is_one_more = pool_alive(pool) > pool->size;
    if (worker->is_for_one || is_refused(worker) ||
        process_resident_bytes(worker->process) > (is_one_more ? SPD_KEPT_BYTES : SPD_WORKER_RECYCLE_BYTES))
        retire(worker);
    else if (is_one_more)
        (void)uv_timer_start(&worker->timer, end_due, SPD_KEPT_MS, 0);
}

void pool_refuse(struct pool *pool, uint64_t number)
{
    _Atomic uint64_t *refused = &pool->workers[number % pool->places].refused;
    uint64_t newest = atomic_load(refused);
    while (newest < number && !atomic_compare_exchange_weak(refused, &newest, number)) {
    }
}

void pool_retire(struct pool *pool)
{
    for (unsigned i = 0; i < pool->places && !pool->stopping; i++) {
        struct worker *worker = &pool->workers[i];
        if (worker->process != NULL && worker->job == NULL && is_refused(worker) && !process_is_ending(worker->process))
            retire(worker);
    }
}

void pool_kill(struct pool *pool, void *job, const char *reason)
{
    const struct worker *worker = worker_of(pool, job);
    if (worker != NULL)
        process_kill(worker->process, reason);
}

void pool_ask_to_stop(struct pool *pool, void *job)
{
    const struct worker *worker = worker_of(pool, job);
    if (worker != NULL)
        process_ask_to_stop(worker->process);
}

unsigned pool_busy(const struct pool *pool)
{
    unsigned count = 0;
    for (unsigned i = 0; i < pool->places; i++)
        count += pool->workers[i].process != NULL && pool->workers[i].job != NULL;
    return count;
}

unsigned pool_alive(const struct pool *pool)
{
    unsigned count = 0;
    for (unsigned i = 0; i < pool->places; i++)
        count += pool->workers[i].process != NULL;
    return count;
}
