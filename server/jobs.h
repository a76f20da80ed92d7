#pragma once
/*
 * jobs - what is waiting for a worker, what runs, and who waits for it.
 *
 * Two kinds of work share the workers. Plans are durable: the queue is the store, jobs_kick() only says that it
 * changed. Errands (an inspection, a check, the conversion of a sharding) belong to a request that is suspended
 * meanwhile; they go first, and the pool has one worker more than plans may use, so an upload never waits for a long
 * search.
 *
 * A worker that dies over a job costs it one retry (SPD_MAX_CRASHES deaths fail it); one that dies before it took the
 * job costs nothing. A job over its time is failed at once, and its worker is replaced. Callers in HTTP threads only
 * queue and wake; everything happens in the main thread.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "problem.h"
#include "store.h"

struct jobs;
struct request;
struct server;

enum answer_form { ANSWER_JSON, ANSWER_TEXT, ANSWER_MODEL };

/* Work that a request waits for. Owned by the request, untouched by it until `done`. */
struct errand {
    const char *kind;      /* "inspect", "check", "infer", "export", "convert", "reshard"; static */
    const char *output;    /* path of the result */
    enum answer_form form; /* ANSWER_MODEL: the result is a splice or a recipe over the model */

    /* What it is about; NULL with "convert" and "reshard", which therefore get little time. */
    const char *model; /* path of the file */
    const char *id;    /* its SHA-256 */
    const char *name;
    bool sync; /* make the model file and the result durable */

    /* The client's JSON, or NULL. Only a worker looks into it. */
    const char *body;
    size_t body_size;

    void (*done)(struct errand *errand); /* main thread; `problem` says how it went */
    void *context;
    struct problem problem;

    struct errand *next; /* of jobs.c */
    int attempts, crashes;
    uint64_t queued_ms;
};

struct job_progress {
    char phase[32];
    double fraction, best_seconds, lower_bound_seconds;
};

struct job_stats {
    unsigned workers, busy, waiting;
};

/* Main thread. */
struct jobs *jobs_create(struct server *server, uv_loop_t *loop); /* NULL without memory; starts the workers */
void jobs_tick(struct jobs *jobs, uint64_t now_ms);               /* several times a second */
bool jobs_quiet(const struct jobs *jobs);                         /* nothing runs and nobody waits */
void jobs_drain(struct jobs *jobs); /* start no more plans; everybody who waits for one is answered now */
void jobs_stop(struct jobs *jobs);  /* queue running plans again, fail errands, end the workers */
void jobs_destroy(struct jobs *jobs);

/* Any thread. */

/* Queues an errand; the request must be suspended already. False with a problem when too many wait. */
bool jobs_send(struct jobs *jobs, struct errand *errand, struct problem *problem);

/* The store has a new queued plan. */
void jobs_kick(struct jobs *jobs);

/* Resumes the (suspended) request when the plan is finished, after `seconds`, or when the daemon stops. */
void jobs_wait(struct jobs *jobs, struct request *request, const char *plan, unsigned seconds);

/* The plan was cancelled or deleted in the store: end its worker; remove its folder when it was deleted. */
void jobs_plan_dropped(struct jobs *jobs, const char *plan);

/* Progress of a running plan; false when it does not run. */
bool jobs_progress(struct jobs *jobs, const char *plan, struct job_progress *ret_progress);

void jobs_stats(struct jobs *jobs, struct job_stats *ret_stats);
