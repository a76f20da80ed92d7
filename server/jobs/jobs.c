#include "jobs/jobs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "http/request.h"
#include "jobs/internal.h"
#include "observe/log.h"
#include "observe/metrics.h"
#include "server_limits.h"
#include "store/files.h"
#include "store/folder.h"
#include "store/objects/results.h"

/* ---- changes in the store ---- */

/* Whether this daemon must know how the plan stands now. One that is being claimed may be it: it is not in the list of
   tasks yet. */
static bool is_of_interest(struct jobs *jobs, const struct store_change *change)
{
    if ((change->what == PLAN_STOPPING && atomic_load(&jobs->claiming)) || events_knows(jobs->events, change->plan))
        return true;
    (void)pthread_mutex_lock(&jobs->mutex);
    bool is_waited_for = jobs_find(jobs, change->plan) != NULL;
    for (const struct waiter *waiter = jobs->waiters; waiter != NULL && !is_waited_for; waiter = waiter->next)
        is_waited_for = strcmp(waiter->plan, change->plan) == 0;
    (void)pthread_mutex_unlock(&jobs->mutex);
    return is_waited_for;
}

/* False when the queue must be looked at. */
static bool hear(struct jobs *jobs, const struct store_change *change)
{
    bool ok = true;
    (void)pthread_mutex_lock(&jobs->mutex);
    if (change->what == PLAN_WAITS)
        ok = heard_add(jobs->heard, change->plan, change->tenant, change->is_own, server_now_ms());
    else
        heard_remove(jobs->heard, change->plan);
    (void)pthread_mutex_unlock(&jobs->mutex);
    return ok;
}

void jobs_unreserve(struct jobs *jobs, const char *model, int64_t number)
{
    struct order *order = calloc(1, sizeof *order);
    if (order == NULL)
        return; /* swept after the end */
    order->kind = ORDER_UNRESERVE;
    order->number = number;
    (void)snprintf(order->model, sizeof order->model, "%s", model);
    ledger_order(jobs->ledger, order);
}

void jobs_look(struct jobs *jobs, const char *plan)
{
    ledger_look(jobs->ledger, plan, false);
}

void jobs_changed(struct jobs *jobs, const struct store_change *change)
{
    const bool is_unclear = change == NULL || change->what == PLAN_CHANGED;
    const bool looks = is_unclear || !hear(jobs, change);
    if (looks)
        atomic_store(&jobs->changed, true);
    if (is_unclear || change->what == PLAN_DELETED || is_of_interest(jobs, change))
        ledger_look(jobs->ledger, change != NULL ? change->plan : NULL, !is_unclear && change->what == PLAN_DELETED);
    if (looks || change->what == PLAN_WAITS)
        jobs_kick(jobs);
}

/* Plans of this daemon that the store has otherwise. True: one is here as the row says. */
static bool compare_tasks(struct jobs *jobs, const struct order *look)
{
    const struct plan_row *row = look->found == STORE_DONE ? &look->row : NULL;
    bool runs = row != NULL && row->state == PLAN_RUNNING, is_here = false;
    for (struct task *task = jobs->tasks, *next; task != NULL; task = next) {
        next = task->next;
        if (task->errand != NULL || strcmp(task->plan, look->plan) != 0)
            continue;
        if (runs && row->attempts == task->attempt)
            is_here = true;
        if (task->state == TASK_ENDING)
            continue; /* which the store says now, or soon */
        if (!runs || row->attempts != task->attempt)
            jobs_drop_task(jobs, task);
        else if (row->cancel_requested)
            jobs_cancel_task(jobs, task);
    }
    return is_here;
}

static void tidy_up(struct jobs *jobs, const char *plan)
{
    struct order *order = calloc(1, sizeof *order);
    if (order == NULL)
        return; /* swept at the next start */
    order->kind = ORDER_TIDY;
    order->is_deleted = true;
    (void)snprintf(order->plan, sizeof order->plan, "%s", plan);
    ledger_order(jobs->ledger, order);
}

/* What the store says of a plan of which something has changed. */
static void looked(struct jobs *jobs, const struct order *look)
{
    const struct plan_row *row = &look->row;
    bool is_here = compare_tasks(jobs, look);
    if (look->found == STORE_NOT_FOUND) {
        events_end(jobs->events, look->plan, NULL);
        jobs_notify(jobs, look->plan);
        if (jobs_find(jobs, look->plan) == NULL)
            tidy_up(jobs, look->plan); /* else when its process is gone */
    } else if (row->state == PLAN_QUEUED) {
        events_progress(jobs->events, look->plan, PLAN_QUEUED, &row->progress);
    } else if (row->state != PLAN_RUNNING) {
        events_end(jobs->events, look->plan, row);
        jobs_notify(jobs, look->plan);
    } else if (!is_here) {
        events_progress(jobs->events, look->plan, PLAN_RUNNING, &row->progress);
        if (strcmp(row->owner, jobs->server->owner) == 0)
            jobs_requeue(jobs, look->plan, row->attempts);
    }
}

static void take_answers(struct jobs *jobs)
{
    struct order *list = ledger_answers(jobs->ledger);
    while (list != NULL) {
        struct order *order = list;
        list = order->next;
        order->next = NULL;
        if (order->kind == ORDER_CLAIM) {
            jobs_claimed(jobs, order);
            continue;
        }
        if (order->kind == ORDER_LOOK)
            looked(jobs, order);
        else
            jobs_ended(jobs, order);
        order_release(order);
    }
}

static void look_at(void *context, const char *plan)
{
    struct jobs *jobs = context;
    jobs_look(jobs, plan);
}

static void look_at_tasks(struct jobs *jobs)
{
    for (const struct task *task = jobs->tasks; task != NULL; task = task->next) {
        if (task->errand == NULL)
            look_at(jobs, task->plan);
    }
}

/* The store was away: what it would have told meanwhile is asked. */
static void look_at_all(struct jobs *jobs)
{
    look_at_tasks(jobs);
    events_watched(jobs->events, false, look_at, jobs);
    (void)pthread_mutex_lock(&jobs->mutex);
    for (const struct waiter *waiter = jobs->waiters; waiter != NULL; waiter = waiter->next)
        look_at(jobs, waiter->plan);
    (void)pthread_mutex_unlock(&jobs->mutex);
}

/* ---- files of shared folders ---- */

static void sweep(uv_work_t *work)
{
    struct jobs *jobs = work->data;
    files_sweep(jobs->server->config->data, jobs->server->store, &jobs->sweep_stop);
    const bool swept_models = blobs_sweep(jobs->server->blobs, &jobs->sweep_stop);
    jobs->swept_all = results_sweep(jobs->server->blobs, jobs->server->store, &jobs->sweep_stop) && swept_models;
}

static void swept(uv_work_t *work, int status)
{
    struct jobs *jobs = work->data;
    (void)status;
    jobs->sweeping = false;
    if (!jobs->swept_all)
        jobs->sweep_ms = server_now_ms() + SPD_SWEEP_RETRY_MS;
}

/* What daemons that died left in the folder; a folder of one daemon is swept at its start. */
static void sweep_if_due(struct jobs *jobs, uint64_t now_ms)
{
    bool is_needed = jobs->server->config->store[0] != '\0' || blobs_are_remote(jobs->server->blobs);
    if (!is_needed || jobs->sweeping || now_ms < jobs->sweep_ms || !folder_usable(jobs->server->folder))
        return;
    jobs->sweep_ms = now_ms + SPD_SWEEP_MS;
    jobs->sweep.data = jobs;
    jobs->sweeping = uv_queue_work(jobs->wake.loop, &jobs->sweep, sweep, swept) == 0;
}

/* ---- the queue, any thread ---- */

struct events *jobs_events(struct jobs *jobs)
{
    return jobs->events;
}

bool jobs_progress(struct jobs *jobs, const char *plan, struct job_progress *ret_progress)
{
    (void)pthread_mutex_lock(&jobs->mutex);
    const struct task *task = jobs_find(jobs, plan);
    if (task != NULL)
        *ret_progress = task->progress;
    (void)pthread_mutex_unlock(&jobs->mutex);
    return task != NULL;
}

void jobs_stats(struct jobs *jobs, struct job_stats *ret_stats)
{
    (void)pthread_mutex_lock(&jobs->mutex);
    *ret_stats = (struct job_stats){.workers = jobs->workers, .busy = jobs->busy};
    for (unsigned i = 0; i < WORK_CLASSES; i++)
        ret_stats->waiting[i] = schedule_waiting(jobs->schedule, (enum work_class)i, server_now_us());
    (void)pthread_mutex_unlock(&jobs->mutex);
}

/* ---- life ---- */

static void update_stats(struct jobs *jobs)
{
    unsigned workers = pool_alive(jobs->pool), busy = pool_busy(jobs->pool);
    (void)pthread_mutex_lock(&jobs->mutex);
    jobs->workers = workers;
    jobs->busy = busy;
    (void)pthread_mutex_unlock(&jobs->mutex);
}

static void woken(uv_async_t *async)
{
    struct jobs *jobs = async->data;
    take_answers(jobs);
    jobs_take_moved(jobs);
    pool_retire(jobs->pool);
    jobs_dispatch(jobs);
    update_stats(jobs);
}

static void worker_ended(void *context, const char *how)
{
    struct jobs *jobs = context;
    metrics_worker_ended(jobs->server->metrics, how);
}

static void wake_up(void *context)
{
    jobs_kick(context);
}

static unsigned weight_of(const void *context, const char *tenant)
{
    return config_tenant_weight(context, tenant);
}

struct jobs *jobs_create(struct server *server, uv_loop_t *loop)
{
    struct jobs *jobs = calloc(1, sizeof *jobs);
    if (jobs == NULL)
        return NULL;
    jobs->server = server;
    uint64_t now = server_now_ms();
    jobs->look_ms = now;
    jobs->sweep_ms =
        blobs_are_remote(server->blobs) ? now : now + SPD_SWEEP_MS; /* objects are not swept at the start */
    (void)pthread_mutex_init(&jobs->mutex, NULL);
    if (uv_async_init(loop, &jobs->wake, woken) != 0) {
        free(jobs);
        return NULL;
    }
    jobs->wake.data = jobs;
    (void)uv_timer_init(loop, &jobs->hearing); /* cannot fail */
    jobs->hearing.data = jobs;
    jobs->heard = heard_create(server->owner);
    struct pool_callbacks callbacks = {
        .idle = wake_up, .message = jobs_message, .gone = jobs_gone, .ended = worker_ended, .context = jobs};
    jobs->events = events_create();
    jobs->schedule = schedule_create(&(struct schedule_options){
        .workers = server->config->workers + SPD_SPARE_WORKERS,
        .floors = {1, 1, 1},
        .max_waiting = SPD_MAX_WAITING_ERRANDS,
        .weight = weight_of,
        .context = server->config,
    });
    if (jobs->heard != NULL && jobs->schedule != NULL && jobs->events != NULL)
        jobs->ledger = ledger_create(server, wake_up, jobs);
    /* The running program itself, even when its file was replaced by an update meanwhile. */
    if (jobs->ledger != NULL && ledger_start(jobs->ledger))
        jobs->pool = pool_create(loop, "/proc/self/exe", server->config->job_memory,
                                 server->config->workers + SPD_SPARE_WORKERS, &callbacks);
    if (jobs->pool == NULL) {
        uv_close((uv_handle_t *)&jobs->wake, NULL);
        uv_close((uv_handle_t *)&jobs->hearing, NULL);
        return NULL;
    }
    return jobs;
}

void jobs_tick(struct jobs *jobs, uint64_t now_ms)
{
    jobs_check_tasks(jobs, now_ms);
    jobs_resume(jobs, NULL, now_ms, false);
    events_tick(jobs->events, now_ms);
    if (now_ms >= jobs->look_ms) {
        jobs->look_ms = now_ms + (uint64_t)jobs->server->config->lease_seconds * 1000 / 3;
        look_at_tasks(jobs);
    }
    if (ledger_look_at_all(jobs->ledger))
        look_at_all(jobs);
    if (now_ms >= jobs->watch_ms) {
        jobs->watch_ms = now_ms + SPD_PROGRESS_MS;
        events_watched(jobs->events, true, look_at, jobs); /* nobody tells of progress */
    }
    sweep_if_due(jobs, now_ms);
    jobs_dispatch(jobs);
    update_stats(jobs);
}

bool jobs_quiet(struct jobs *jobs)
{
    (void)pthread_mutex_lock(&jobs->mutex);
    bool waited_for = schedule_waiting(jobs->schedule, WORK_SHORT, 0).count > 0 ||
                      schedule_waiting(jobs->schedule, WORK_LONG, 0).count > 0; /* HTTP threads add */
    (void)pthread_mutex_unlock(&jobs->mutex);
    if (waited_for || jobs_count(jobs, TASK_FETCHING, TASK_STORING) > 0)
        return false;
    if (jobs->stopping && server_now_ms() >= jobs->patience_ms)
        return true; /* what the store was not told is queued again when the leases end, or at the next start */
    return jobs->tasks == NULL && !jobs->claiming;
}

void jobs_drain(struct jobs *jobs)
{
    jobs->draining = true;
    (void)pthread_mutex_lock(&jobs->mutex);
    jobs->closed = true;
    (void)pthread_mutex_unlock(&jobs->mutex);
    jobs_resume(jobs, NULL, 0, true);
    events_close(jobs->events);
}

static struct errand *take_errand(struct jobs *jobs)
{
    (void)pthread_mutex_lock(&jobs->mutex);
    jobs->refusing = true;
    struct work *work = schedule_take_errand(jobs->schedule);
    (void)pthread_mutex_unlock(&jobs->mutex);
    return work != NULL ? work->owner : NULL;
}

/* Errands that never reached a worker. */
static void fail_errands(struct jobs *jobs)
{
    struct errand *errand;
    while ((errand = take_errand(jobs)) != NULL) {
        (void)problem_set(&errand->problem, 503, "STOPPING", "The service is stopping; send the request again.");
        jobs_errand_over(errand);
    }
}

void jobs_stop(struct jobs *jobs)
{
    jobs_drain(jobs);
    jobs->stopping = true;
    jobs->patience_ms = server_now_ms() + SPD_STORE_STOP_MS;
    atomic_store(&jobs->sweep_stop, true);
    fail_errands(jobs);
    for (struct task *task = jobs->tasks, *next; task != NULL; task = next) {
        next = task->next;
        if (jobs_stop_moving(jobs, task))
            continue;
        if (task->state == TASK_READY)
            jobs_gone(jobs, task, "stopped", 0, "");
    }
    pool_stop(jobs->pool);
}

void jobs_close(struct jobs *jobs)
{
    ledger_stop(jobs->ledger);
    (void)pthread_mutex_lock(&jobs->mutex);
    jobs->has_closed = true;
    (void)pthread_mutex_unlock(&jobs->mutex);
    uv_close((uv_handle_t *)&jobs->wake, NULL);
    uv_close((uv_handle_t *)&jobs->hearing, NULL);
}

void jobs_destroy(struct jobs *jobs)
{
    if (jobs == NULL)
        return;
    while (jobs->tasks != NULL) {
        struct task *task = jobs->tasks;
        jobs->tasks = task->next;
        jobs_free_task(task);
    }
    schedule_destroy(jobs->schedule);
    heard_destroy(jobs->heard);
    ledger_destroy(jobs->ledger);
    pool_destroy(jobs->pool);
    events_destroy(jobs->events);
    (void)pthread_mutex_destroy(&jobs->mutex);
    free(jobs);
}
