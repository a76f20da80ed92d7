#pragma once
/*
 * jobs - what is waiting for a worker, what runs, and who waits for it.
 *
 * Two kinds of work share the workers. Plans are durable: the queue is the store, jobs_changed() only says that it
 * changed, and all talk with it is the ledger's (ledger.h). Errands (an inspection, a check, the conversion of a
 * sharding) belong to a request that is suspended meanwhile. Whose turn it is says the schedule (schedule.h), by tenant
 * and by what each has used. The pool has SPD_SPARE_WORKERS more than --workers: plans, long errands and short ones
 * have one each that the others leave to them, so an upload never waits for a long search. A process serves one tenant
 * (pool.h), and is charged to the tenant from the moment of its turn, with its start.
 *
 * A worker that dies over a job costs it one retry (SPD_MAX_CRASHES deaths fail it); one that dies before it took the
 * job costs nothing. A job over its time is failed at once, and its worker is replaced. A worker whose plan shall be
 * cancelled is asked to stop, and has SPD_CANCEL_GRACE_MS to write the best plan that it has; then it is killed.
 * Callers in HTTP threads only queue and wake; everything happens in the main thread.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "jobs/schedule.h"
#include "store/store.h"
#include "util/problem.h"

struct events;
struct handover;
struct jobs;
struct request;
struct server;

/* A file beside a model that an errand is about. */
struct errand_file {
    char name[65]; /* worker_name_beside() */
    char blob[STORE_BLOB_SIZE];
    int64_t bytes;
};

enum answer_form { ANSWER_JSON, ANSWER_TEXT, ANSWER_MODEL };

/* Work that a request waits for. Owned by the request, untouched by it until `done`. */
struct errand {
    const char *kind;      /* "inspect", "check", "infer", "verify", "export", "sheet", "convert", "reshard"; static */
    const char *tenant;    /* whose turn it takes */
    const char *output;    /* path of the result: it is made when the errand is sent, and may be read when it is done */
    const char *request;   /* id of the request that waits, for reports */
    enum answer_form form; /* ANSWER_MODEL: the result is a splice or a recipe over the model */

    /* What it is about; NULL with "convert" and "reshard", which therefore get little time. */
    const char *model; /* path of the file */
    const char *id;    /* its SHA-256 */
    const char *name;
    bool is_upload;           /* the file is an upload, and no stored model's */
    bool sync;                /* make the model file and the result durable */
    const char *plan;         /* path of the JSON of the plan that it is about; NULL: of none */
    const char (*others)[65]; /* ids of stored models beside it */
    size_t other_count;
    const struct errand_file *beside; /* in which weights of these models and of its own lie */
    size_t beside_count;
    bool apart; /* it may read what other tenants have: its worker does nothing else (pool.h) */

    /* The client's JSON, or NULL. Only a worker looks into it. */
    const char *body;
    size_t body_size;

    void (*done)(struct errand *errand); /* main thread; `problem` says how it went */
    void *context;
    struct problem problem;

    struct work work; /* of jobs.c, from here on */
    struct handover *files;
    int attempts, crashes;
    uint64_t queued_ms;
    uint64_t worker; /* which had it last, for jobs_refuse() */
};

struct job_stats {
    unsigned workers, busy;
    struct schedule_waiting waiting[WORK_CLASSES]; /* of plans those that were claimed */
};

/* Main thread. */
struct jobs *jobs_create(struct server *server, uv_loop_t *loop); /* NULL without memory; starts the workers */
void jobs_tick(struct jobs *jobs, uint64_t now_ms);               /* several times a second */
/* Nothing runs, nobody waits, and the store knows everything. After jobs_stop() the last is waited for only so long. */
bool jobs_quiet(struct jobs *jobs);
void jobs_drain(
    struct jobs *jobs); /* start no more plans; everybody who waits for one or watches one is answered. Errands go on */
void jobs_stop(struct jobs *jobs);    /* queue running plans again, fail errands, end the workers */
void jobs_close(struct jobs *jobs);   /* when it is quiet and HTTP has stopped: leave the loop and the store alone */
void jobs_destroy(struct jobs *jobs); /* when the loop has run dry and the store is closed; NULL is allowed */

/* Any thread. */

/* Opens the files of an errand, makes that of its result and queues it; the request must be suspended already. False with
   a problem when too many of the tenant's wait, or a file is not there. Waits for a disk. */
bool jobs_send(struct jobs *jobs, struct errand *errand, struct problem *problem);

/* What a worker made of an errand is not what it should be: the process gets no job any more. */
void jobs_refuse(struct jobs *jobs, const struct errand *errand);

/* Resumes the (suspended) request when the plan is finished, after `seconds`, or when the daemon stops. */
void jobs_wait(struct jobs *jobs, struct request *request, const char *plan, unsigned seconds);

/* A plan changed in the store (store.h): what nobody wants any more is ended here, the folder of one that was deleted
   is removed, and who waits for it looks again. NULL: anything may have changed. */
void jobs_changed(struct jobs *jobs, const struct store_change *change);
/* Any thread: ends the reservation of a model's file when the store answers again, and removes files that are of no use
   then. With SPD_MAX_UNENDED of them they are left to the sweep after this daemon's end. */
void jobs_unreserve(struct jobs *jobs, const char *model, int64_t number);
void jobs_look(struct jobs *jobs, const char *plan); /* any thread: it may have changed, for whoever watches it */

/* Progress of a plan that runs here; false when it does not. */
bool jobs_progress(struct jobs *jobs, const char *plan, struct job_progress *ret_progress);

/* What tells clients about plans (events.h). */
struct events *jobs_events(struct jobs *jobs);

void jobs_stats(struct jobs *jobs, struct job_stats *ret_stats);
