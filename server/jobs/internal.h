#pragma once
/*
 * internal - what the files of the job queue share.
 *
 * A task is one assignment of a plan or an errand to a worker. Tasks are touched by the main thread only, except
 * `progress` and the list of tasks, which HTTP threads read under the mutex.
 *
 *   a plan:  its turn -> claimed -> TASK_FETCHING -> TASK_READY -> its turn again -> TASK_RUNNING
 *                                                          -> TASK_STORING -> TASK_ENDING -> the store knows
 *   errand:  its turn -> TASK_RUNNING -> done
 */
#include <pthread.h>
#include <stdatomic.h>

#include "jobs/events.h"
#include "jobs/heard.h"
#include "jobs/jobs.h"
#include "jobs/ledger.h"
#include "jobs/schedule.h"
#include "store/blobs.h"
#include "worker/pool.h"

enum task_state {
    TASK_FETCHING, /* a plan whose model is looked at, and fetched where it is not here (transferring.c) */
    TASK_READY,    /* a plan that waits for its turn */
    TASK_RUNNING,  /* a worker has it */
    TASK_STORING,  /* a plan whose result gets its place, in the folder or an object store (transferring.c) */
    TASK_ENDING,   /* its end is being told to the store */
};

struct task {
    struct task *next;
    enum task_state state;
    struct errand *errand; /* of an errand; else NULL, and: */
    struct order *order;   /* the claim of the plan, which becomes the order that ends it; NULL while ending */
    char plan[STORE_ID_SIZE];
    int64_t attempt, crashes;
    double waited;    /* seconds in the queue */
    struct work work; /* of a plan that is TASK_READY */
    struct turn turn; /* that it has, while it runs */

    uint64_t worker;  /* which has it, or had it (pool_number()) */
    unsigned seconds; /* its time */
    char *line;       /* what the worker was told */
    json_t *outcome;  /* what it said at last, while it is made to end: it still had files open */
    uint64_t started_ms, deadline_ms;
    bool taken;       /* the worker has said that it works on it */
    bool cancelled;   /* asked to stop */
    uint64_t stop_ms; /* when it is killed then */
    struct job_progress progress;
    uint64_t phase_ms; /* since when it is in its phase */
    uint64_t told_ms;  /* when the store was last told of its progress */

    /* Of a plan, while its files are looked at, fetched or stored. */
    struct blob_hold hold, past; /* the copies of its model and of the plan that it follows, until the task is over */
    struct transfer transfer;
    struct jobs *jobs;
    struct task *next_moved;
    struct problem problem; /* why that did not go well */
    uint64_t fetch_ms;      /* when to try again; 0 while a thread has the task */
    bool dropped;           /* nobody's any more, when the thread gives it back */
};

struct waiter {
    struct waiter *next;
    struct request *request;
    char plan[STORE_ID_SIZE];
    uint64_t deadline_ms;
};

struct jobs {
    struct server *server;
    uv_async_t wake;
    uv_timer_t hearing; /* when something that was heard is due */
    struct pool *pool;
    struct ledger *ledger;
    struct events *events;

    /* Main thread. */
    bool draining, stopping;
    struct turn claim_turn; /* while `claiming`: for this turn, whose worker is kept idle; or only for a look */
    uint64_t claim_ms;      /* no such look before that */
    uint64_t look_ms;       /* when to look whether the plans that run here are still ours */
    uint64_t watch_ms;      /* when to look at watched plans that run elsewhere */
    uint64_t sweep_ms;
    uint64_t patience_ms; /* until when jobs_stop() waits for the store */
    bool sweeping, swept_all;
    uv_work_t sweep;

    atomic_bool changed;  /* there may be queued plans */
    atomic_bool claiming; /* an ORDER_CLAIM is under way; its plan is in the list of tasks before that ends */
    atomic_bool sweep_stop;

    pthread_mutex_t mutex; /* guards the rest */
    struct task *tasks;
    struct task *moved; /* given back by threads that fetch or store, linked by next_moved */
    struct schedule *schedule;
    struct heard *heard;
    struct waiter *waiters;
    bool closed;     /* no more waiters */
    bool refusing;   /* no more errands */
    bool has_closed; /* nor may the loop be woken */
    unsigned workers, busy;
};

/* dispatch.c, main thread */
void jobs_dispatch(struct jobs *jobs);
void jobs_claimed(struct jobs *jobs, struct order *order); /* takes the order */

/* tasks.c, main thread */
void jobs_link_task(struct jobs *jobs, struct task *task);
void jobs_free_task(struct task *task);
void jobs_set_phase(struct jobs *jobs, struct task *task, const char *phase);
void jobs_requeue_task(struct jobs *jobs, struct task *task, bool crashed); /* back to the store */
void jobs_finish_plan(struct jobs *jobs, struct task *task, enum plan_state state, bool has_result,
                      const struct problem *problem);
void jobs_message(void *context, void *job, const json_t *message);
void jobs_gone(void *context, void *job, const char *how, int signal_number, const char *words);
void jobs_ended(struct jobs *jobs, const struct order *order);           /* the store knows */
void jobs_cancel_task(struct jobs *jobs, struct task *task);             /* ask it to stop */
void jobs_drop_task(struct jobs *jobs, struct task *task);               /* it is nobody's any more */
void jobs_requeue(struct jobs *jobs, const char *plan, int64_t attempt); /* one that nobody here knows */
void jobs_check_tasks(struct jobs *jobs, uint64_t now_ms);               /* deadlines, progress */
void jobs_errand_over(struct errand *errand); /* closes its files; who waits for it hears of it */
unsigned jobs_count(const struct jobs *jobs, enum task_state from, enum task_state to);
struct task *jobs_find(struct jobs *jobs, const char *plan); /* mutex held, or main thread */

void jobs_take_moved(struct jobs *jobs); /* goes on with plans whose files threads have tried to move */
/* Ends a task whose files are being moved, at once or when its thread gives it back, as `dropped`, `cancelled` or
   jobs->stopping say. False when none are. */
bool jobs_stop_moving(struct jobs *jobs, struct task *task);

/* errands.c: opens and makes the files of an errand; false with a problem. And closes them. Both wait for a disk. */
bool errand_prepare(const struct server *server, struct errand *errand, struct problem *problem);
void errand_close_files(struct errand *errand);
struct handover *jobs_files(const struct task *task); /* of a plan or an errand */

/* transferring.c, main thread */
void jobs_fetch(struct jobs *jobs, struct task *task); /* of a claimed plan: TASK_FETCHING */
void jobs_store(struct jobs *jobs, struct task *task); /* of a plan with a result: TASK_STORING */
struct task *jobs_moved(struct jobs *jobs);            /* what threads have given back, linked by next_moved */

/* waiting.c. An errand that waits for its turn, `again` when it had one: false with a problem. */
bool jobs_queue_errand(struct jobs *jobs, struct errand *errand, bool again, struct problem *problem);
bool jobs_queue_plan(struct jobs *jobs, struct task *task); /* waits for its turn; false without memory */

/* waiting.c. jobs_resume() takes the waiters of a plan, those whose time is over, or all out of the list and resumes
   them. */
void jobs_resume(struct jobs *jobs, const char *plan, uint64_t now_ms, bool all);
void jobs_kick(struct jobs *jobs);                     /* any thread: there may be something to do */
void jobs_notify(struct jobs *jobs, const char *plan); /* main thread: resumes whoever waits for this plan */
