/* Requests that wait for a plan, errands and plans that wait for a worker: any thread. */
#include <stdlib.h>
#include <string.h>

#include "http/request.h"
#include "jobs/internal.h"
#include "jobs/ledger.h"
#include "server.h"
#include "server_limits.h"

/* Takes the waiters that `matches` out of the list and resumes them. A NULL plan with no time matches all. */
void jobs_resume(struct jobs *jobs, const char *plan, uint64_t now_ms, bool all)
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
    jobs_resume(jobs, plan, 0, false);
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
        ledger_look(jobs->ledger, plan, false); /* it may have finished since it was submitted */
        return;
    }
    free(waiter);
    request_resume(request); /* answers with what is known */
}

/* Those that may take as long as a plan does. */
static enum work_class class_of(const struct errand *errand)
{
    static const char *const lengthy[] = {"infer", "verify", "export"};
    for (size_t i = 0; i < sizeof lengthy / sizeof lengthy[0]; i++) {
        if (strcmp(errand->kind, lengthy[i]) == 0)
            return WORK_LONG;
    }
    return WORK_SHORT;
}

bool jobs_queue_errand(struct jobs *jobs, struct errand *errand, bool again, struct problem *problem)
{
    enum schedule_added added = SCHEDULE_FULL;
    errand->queued_ms = server_now_ms();
    errand->work = (struct work){.class = class_of(errand), .owner = errand};
    (void)pthread_mutex_lock(&jobs->mutex);
    bool refusing = jobs->refusing;
    if (!refusing)
        added = schedule_add(jobs->schedule, errand->tenant, &errand->work, again, server_now_us());
    (void)pthread_mutex_unlock(&jobs->mutex);
    if (refusing || added != SCHEDULE_ADDED)
        errand_close_files(errand);
    if (refusing)
        return problem_set(problem, 503, "STOPPING", "The service is stopping; send the request again.");
    if (added == SCHEDULE_NO_MEMORY)
        return problem_no_memory(problem);
    if (added == SCHEDULE_FULL)
        return problem_set_limit(problem, 429, "QUOTA_REQUESTS", "SPD_MAX_WAITING_ERRANDS", SPD_MAX_WAITING_ERRANDS,
                                 SPD_MAX_WAITING_ERRANDS + 1,
                                 "%u requests of this tenant wait for a worker already; send fewer at a time.",
                                 SPD_MAX_WAITING_ERRANDS);
    jobs_kick(jobs);
    return true;
}

bool jobs_send(struct jobs *jobs, struct errand *errand, struct problem *problem)
{
    return errand_prepare(jobs->server, errand, problem) && jobs_queue_errand(jobs, errand, false, problem);
}

void jobs_refuse(struct jobs *jobs, const struct errand *errand)
{
    pool_refuse(jobs->pool, errand->worker);
    jobs_kick(jobs);
}

bool jobs_queue_plan(struct jobs *jobs, struct task *task)
{
    task->work = (struct work){.class = WORK_PLAN, .owner = task};
    (void)pthread_mutex_lock(&jobs->mutex);
    enum schedule_added added =
        schedule_add(jobs->schedule, task->order->row.tenant, &task->work, true, server_now_us());
    (void)pthread_mutex_unlock(&jobs->mutex);
    return added == SCHEDULE_ADDED;
}

void jobs_kick(struct jobs *jobs)
{
    (void)pthread_mutex_lock(&jobs->mutex);
    if (!jobs->has_closed)
        (void)uv_async_send(&jobs->wake);
    (void)pthread_mutex_unlock(&jobs->mutex);
}
