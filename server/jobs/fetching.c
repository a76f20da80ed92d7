/*
 * The model of a claimed plan, where models are in an object store: a thread of the blobs fetches it, while the plan is
 * TASK_FETCHING.
 */
#include <string.h>

#include "jobs/internal.h"
#include "server.h"

/* In a thread of the blobs: the task is its own until it is in the list. */
static void fetch(struct transfer *transfer)
{
    struct task *task = transfer->context;
    struct jobs *jobs = task->jobs;
    (void)blobs_hold(jobs->server->blobs, task->order->blob, &task->hold, &task->problem);
    (void)pthread_mutex_lock(&jobs->mutex);
    task->next_fetched = jobs->fetched;
    jobs->fetched = task;
    (void)pthread_mutex_unlock(&jobs->mutex);
    jobs_kick(jobs);
}

void jobs_fetch(struct jobs *jobs, struct task *task)
{
    if (blobs_hold_copy(jobs->server->blobs, task->order->blob, &task->hold)) {
        task->state = TASK_READY;
        return;
    }
    task->state = TASK_FETCHING;
    task->fetch_ms = 0;
    task->jobs = jobs;
    task->problem = (struct problem){0};
    task->transfer = (struct transfer){.run = fetch, .context = task};
    blobs_send(jobs->server->blobs, &task->transfer);
}

struct task *jobs_fetched(struct jobs *jobs)
{
    (void)pthread_mutex_lock(&jobs->mutex);
    struct task *list = jobs->fetched;
    jobs->fetched = NULL;
    (void)pthread_mutex_unlock(&jobs->mutex);
    return list;
}
