/* Requests that wait for a plan, and errands that wait for a worker: any thread. */
#include <stdlib.h>

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
        ledger_look(jobs->ledger, plan); /* it may have finished since it was submitted */
        return;
    }
    free(waiter);
    request_resume(request); /* answers with what is known */
}

bool jobs_send(struct jobs *jobs, struct errand *errand, struct problem *problem)
{
    bool taken = false;
    errand->next = NULL;
    errand->queued_ms = server_now_ms();
    (void)pthread_mutex_lock(&jobs->mutex);
    unsigned waiting = jobs->errand_count;
    bool refusing = jobs->refusing;
    if (!refusing && waiting < SPD_MAX_WAITING_TASKS) {
        if (jobs->last != NULL)
            jobs->last->next = errand;
        else
            jobs->first = errand;
        jobs->last = errand;
        jobs->errand_count++;
        taken = true;
    }
    (void)pthread_mutex_unlock(&jobs->mutex);
    if (refusing)
        return problem_set(problem, 503, "STOPPING", "The service is stopping; send the request again.");
    if (!taken)
        return problem_set_limit(problem, 503, "BUSY", "SPD_MAX_WAITING_TASKS", SPD_MAX_WAITING_TASKS,
                                 (int64_t)waiting + 1, "Too many requests wait for a worker; try again later.");
    jobs_kick(jobs);
    return true;
}

void jobs_kick(struct jobs *jobs)
{
    (void)pthread_mutex_lock(&jobs->mutex);
    if (!jobs->has_closed)
        (void)uv_async_send(&jobs->wake);
    (void)pthread_mutex_unlock(&jobs->mutex);
}
