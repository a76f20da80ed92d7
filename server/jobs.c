#include "jobs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "jobs_internal.h"
#include "log.h"
#include "request.h"
#include "server_limits.h"

/* ---- waiters ---- */

static bool is_finished(struct jobs *jobs, const char *plan)
{
    struct plan_row row;
    if (!store_get_plan(jobs->server->store, plan, &row))
        return true;
    bool finished = row.state != PLAN_QUEUED && row.state != PLAN_RUNNING;
    store_release_plan(&row);
    return finished;
}

/* Takes the waiters that `matches` out of the list and resumes them. A NULL plan with no time matches all. */
static void resume_waiters(struct jobs *jobs, const char *plan, uint64_t now_ms, bool all)
{
    struct waiter *ready = NULL;
    (void)pthread_mutex_lock(&jobs->mutex);
    for (struct waiter **at = &jobs->waiters; *at != NULL;) {
        struct waiter *waiter = *at;
        if (all || (plan != NULL && strcmp(plan, waiter->plan) == 0) || waiter->deadline_ms <= now_ms) {
            *at = waiter->next;
            waiter->next = ready;
            ready = waiter;
        } else {
            at = &waiter->next;
        }
    }
    (void)pthread_mutex_unlock(&jobs->mutex);
    while (ready != NULL) {
        struct waiter *waiter = ready;
        ready = waiter->next;
        request_resume(waiter->request);
        free(waiter);
    }
}

void jobs_notify(struct jobs *jobs, const char *plan)
{
    resume_waiters(jobs, plan, 0, false);
}

/* A plan may have finished between its submission and the wait: new waiters look once. */
static void check_new_waiters(struct jobs *jobs)
{
    for (;;) {
        char plan[STORE_ID_SIZE] = "";
        (void)pthread_mutex_lock(&jobs->mutex);
        for (struct waiter *waiter = jobs->waiters; waiter != NULL; waiter = waiter->next) {
            if (!waiter->checked) {
                waiter->checked = true;
                memcpy(plan, waiter->plan, sizeof plan);
                break;
            }
        }
        (void)pthread_mutex_unlock(&jobs->mutex);
        if (plan[0] == '\0')
            return;
        if (is_finished(jobs, plan))
            jobs_notify(jobs, plan);
    }
}

void jobs_wait(struct jobs *jobs, struct request *request, const char *plan, unsigned seconds)
{
    struct waiter *waiter = calloc(1, sizeof *waiter);
    bool waits = false;
    if (waiter != NULL) {
        waiter->request = request;
        (void)snprintf(waiter->plan, sizeof waiter->plan, "%s", plan);
        waiter->deadline_ms = server_now_ms() + seconds * 1000u;
        (void)pthread_mutex_lock(&jobs->mutex);
        if (!jobs->closed) {
            waiter->next = jobs->waiters;
            jobs->waiters = waiter;
            waits = true;
        }
        (void)pthread_mutex_unlock(&jobs->mutex);
    }
    if (waits) {
        (void)uv_async_send(&jobs->wake);
        return;
    }
    free(waiter);
    request_resume(request); /* answers with what is known */
}

/* ---- dropped plans ---- */

void jobs_plan_dropped(struct jobs *jobs, const char *plan)
{
    struct plan_entry *dropped = calloc(1, sizeof *dropped);
    if (dropped == NULL)
        return; /* the worker's result is ignored, the folder is swept at the next start */
    (void)snprintf(dropped->plan, sizeof dropped->plan, "%s", plan);
    (void)pthread_mutex_lock(&jobs->mutex);
    dropped->next = jobs->dropped;
    jobs->dropped = dropped;
    (void)pthread_mutex_unlock(&jobs->mutex);
    (void)uv_async_send(&jobs->wake);
}

static void remove_if_deleted(struct jobs *jobs, const char *plan)
{
    if (store_has_plan(jobs->server->store, plan))
        return;
    char *folder = files_plan_folder(jobs->server->config->data, plan);
    if (folder != NULL)
        files_remove_folder(folder);
    free(folder);
}

static void handle_dropped(struct jobs *jobs)
{
    (void)pthread_mutex_lock(&jobs->mutex);
    struct plan_entry *list = jobs->dropped;
    jobs->dropped = NULL;
    (void)pthread_mutex_unlock(&jobs->mutex);
    while (list != NULL) {
        struct plan_entry *dropped = list;
        list = dropped->next;
        (void)pthread_mutex_lock(&jobs->mutex);
        struct task *task = jobs_find(jobs, dropped->plan);
        (void)pthread_mutex_unlock(&jobs->mutex);
        if (task != NULL)
            pool_kill(jobs->pool, task, "cancelled"); /* the folder goes when the process is gone */
        else
            remove_if_deleted(jobs, dropped->plan);
        jobs_notify(jobs, dropped->plan);
        free(dropped);
    }
}

/* ---- the queue, any thread ---- */

bool jobs_send(struct jobs *jobs, struct errand *errand, struct problem *problem)
{
    bool taken = false;
    errand->next = NULL;
    errand->queued_ms = server_now_ms();
    (void)pthread_mutex_lock(&jobs->mutex);
    unsigned waiting = jobs->errand_count;
    if (!jobs->closed && waiting < SPD_MAX_WAITING_TASKS) {
        if (jobs->last != NULL)
            jobs->last->next = errand;
        else
            jobs->first = errand;
        jobs->last = errand;
        jobs->errand_count++;
        taken = true;
    }
    (void)pthread_mutex_unlock(&jobs->mutex);
    if (!taken)
        return problem_set_limit(problem, 503, "BUSY", "SPD_MAX_WAITING_TASKS", SPD_MAX_WAITING_TASKS,
                                 (int64_t)waiting + 1, "Too many requests wait for a worker; try again later.");
    (void)uv_async_send(&jobs->wake);
    return true;
}

void jobs_kick(struct jobs *jobs)
{
    (void)uv_async_send(&jobs->wake);
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
    *ret_stats = (struct job_stats){.workers = jobs->workers, .busy = jobs->busy, .waiting = jobs->errand_count};
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
    handle_dropped(jobs);
    jobs_dispatch(jobs);
    check_new_waiters(jobs);
    update_stats(jobs);
}

static void worker_idle(void *context)
{
    struct jobs *jobs = context;
    jobs_kick(jobs);
}

struct jobs *jobs_create(struct server *server, uv_loop_t *loop)
{
    struct jobs *jobs = calloc(1, sizeof *jobs);
    if (jobs == NULL)
        return NULL;
    jobs->server = server;
    (void)pthread_mutex_init(&jobs->mutex, NULL);
    if (uv_async_init(loop, &jobs->wake, woken) != 0) {
        free(jobs);
        return NULL;
    }
    jobs->wake.data = jobs;
    struct pool_callbacks callbacks = {
        .idle = worker_idle, .message = jobs_message, .gone = jobs_gone, .context = jobs};
    /* The running program itself, even when its file was replaced by an update meanwhile. */
    jobs->pool = pool_create(loop, "/proc/self/exe", server->config->workers + 1, &callbacks);
    if (jobs->pool == NULL) {
        uv_close((uv_handle_t *)&jobs->wake, NULL);
        return NULL;
    }
    return jobs;
}

void jobs_tick(struct jobs *jobs, uint64_t now_ms)
{
    for (struct task *task = jobs->tasks; task != NULL; task = task->next) {
        if (task->deadline_ms < now_ms)
            pool_kill(jobs->pool, task, "timed_out");
    }
    resume_waiters(jobs, NULL, now_ms, false);
    jobs_retry_unsaved(jobs, now_ms);
    jobs_dispatch(jobs);
    update_stats(jobs);
}

bool jobs_quiet(const struct jobs *jobs)
{
    return jobs->tasks == NULL && jobs->first == NULL;
}

void jobs_drain(struct jobs *jobs)
{
    jobs->draining = true;
    (void)pthread_mutex_lock(&jobs->mutex);
    jobs->closed = true;
    (void)pthread_mutex_unlock(&jobs->mutex);
    resume_waiters(jobs, NULL, 0, true);
}

/* Errands that never reached a worker. */
static void fail_errands(struct jobs *jobs)
{
    (void)pthread_mutex_lock(&jobs->mutex);
    struct errand *list = jobs->first;
    jobs->first = jobs->last = NULL;
    jobs->errand_count = 0;
    (void)pthread_mutex_unlock(&jobs->mutex);
    while (list != NULL) {
        struct errand *errand = list;
        list = errand->next;
        (void)problem_set(&errand->problem, 503, "STOPPING", "The service is stopping; send the request again.");
        errand->done(errand);
    }
}

void jobs_stop(struct jobs *jobs)
{
    jobs_drain(jobs);
    jobs->stopping = true;
    fail_errands(jobs);
    pool_stop(jobs->pool);
    uv_close((uv_handle_t *)&jobs->wake, NULL);
}

static void free_entries(struct plan_entry *list)
{
    while (list != NULL) {
        struct plan_entry *next = list->next;
        free(list);
        list = next;
    }
}

void jobs_destroy(struct jobs *jobs)
{
    if (jobs == NULL)
        return;
    free_entries(jobs->dropped);
    free_entries(jobs->unsaved);
    pool_destroy(jobs->pool);
    (void)pthread_mutex_destroy(&jobs->mutex);
    free(jobs);
}
