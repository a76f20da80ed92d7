#pragma once
/*
 * jobs_internal - what the files of the job queue share.
 *
 * A task is one assignment of a plan or an errand to a worker. Tasks are touched by the main thread only, except
 * `progress` and the list of running tasks, which HTTP threads read under the mutex.
 */
#include <pthread.h>

#include "jobs.h"
#include "worker_pool.h"

struct task {
    struct task *next;
    bool is_plan;
    struct plan_row plan;  /* of a plan */
    struct errand *errand; /* of an errand */
    unsigned seconds;      /* its time */
    uint64_t started_ms, deadline_ms;
    bool taken; /* the worker has said that it works on it */
    struct job_progress progress;
};

struct waiter {
    struct waiter *next;
    struct request *request;
    char plan[STORE_ID_SIZE];
    uint64_t deadline_ms;
    bool checked; /* whether the plan was finished before it began to wait */
};

/* A plan in one of the lists below. */
struct plan_entry {
    struct plan_entry *next;
    char plan[STORE_ID_SIZE];
};

struct jobs {
    struct server *server;
    uv_async_t wake;
    struct pool *pool;
    char *program;
    /* Main thread. */
    bool draining, stopping;
    struct plan_entry *unsaved; /* ended, but the store could not be told: the disk is full */
    uint64_t retry_ms;          /* when to tell it again */

    pthread_mutex_t mutex; /* guards the rest */
    struct task *tasks;    /* running */
    struct errand *first, *last;
    unsigned errand_count;
    struct waiter *waiters;
    struct plan_entry *dropped;
    bool closed; /* no more errands and waiters */
    unsigned workers, busy;
};

/* jobs_tasks.c, main thread */
void jobs_dispatch(struct jobs *jobs);
void jobs_message(void *context, void *job, const json_t *message);
void jobs_gone(void *context, void *job, const char *how, int signal_number);
void jobs_retry_unsaved(struct jobs *jobs, uint64_t now_ms);
unsigned jobs_running_plans(const struct jobs *jobs);
struct task *jobs_find(struct jobs *jobs, const char *plan); /* mutex held */

/* Resumes whoever waits for this plan. */
void jobs_notify(struct jobs *jobs, const char *plan);
