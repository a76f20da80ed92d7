#pragma once
/*
 * pool - the child processes that do the work (process.h), and which of them gets a job.
 *
 * A worker that a model of one tenant has taken over may stay alive and wait for the next job. So a process serves one
 * tenant, and is replaced by a new one before another tenant's job comes: what it may have kept of a job, or does to the next
 * one, stays with that tenant. A job gets, of the idle workers,
 *
 *   - the one that was idle last of those that served its tenant, or else
 *   - one that has served nobody, the oldest first, or else
 *   - a new one: in a free place, or instead of the one that has been idle longest.
 *
 * Whose turn it is the schedule says (schedule.h), and the pool never makes a turn wait for another worker. When the last idle
 * process that has served nobody gets a job, another one is started in the same way, so that a start seldom delays a job.
 * So that tenants who take turns find their processes, there are SPD_KEPT_WORKERS places more than jobs may run
 * at a time; a process that is more than that ends when it was idle for SPD_KEPT_MS, or keeps more than SPD_KEPT_BYTES. With one tenant no
 * process is replaced and none started for all that.
 *
 * A job without a tenant, which may read anybody's data, gets a process that has served nobody and serves nobody else
 * afterwards. A process whose result was refused gets no job any more either (pool_refuse()).
 *
 * A worker that ends for any reason is replaced after a short pause; the pool never has fewer than its size for long.
 *
 * Main thread only, but for pool_refuse(). Callbacks are called from the loop; they may call into the pool.
 */
#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

#include "worker/process.h"

struct pool;
struct worker;

struct pool_callbacks {
    void (*idle)(void *context);                                      /* a worker became ready for a job */
    void (*message)(void *context, void *job, const json_t *message); /* a line about the job */
    /* The process ended with the job unfinished; `words` is what it wrote to standard error meanwhile. */
    void (*gone)(void *context, void *job, const char *how, int signal_number, const char *words);
    void (*ended)(void *context, const char *how); /* a process ended, with or without a job */
    void *context;
};

/* NULL without memory. Starts the workers at once. `program` is the path to execute; it must outlive the
   pool. `job_memory` is what every job is given. */
struct pool *pool_create(uv_loop_t *loop, const char *program, uint64_t job_memory, unsigned size,
                         const struct pool_callbacks *callbacks);

/* Kills all workers and starts no more; their jobs are reported gone. Destroy after the loop has run dry. */
void pool_stop(struct pool *pool);
void pool_destroy(struct pool *pool); /* NULL is allowed */

/* How many are idle, whomever they served. */
unsigned pool_idle_count(const struct pool *pool);

/* The idle worker for a job of this tenant (NULL: of none), for pool_assign(). NULL when none is idle, or when a new process
   was needed and could not be started: the old ones stay as they are. */
struct worker *pool_worker_for(struct pool *pool, const char *tenant);

/* Gives a job to an idle worker. All is copied: the descriptors may be closed. False without memory. */
bool pool_assign(struct worker *worker, void *job, const struct job_parcel *parcel);

/* Which process that is, of all that the pool ever starts. */
uint64_t pool_number(const struct worker *worker);

/* What this process answered was refused: it gets no job from now on. Any thread; pool_retire() in the main thread then
   replaces those that are idle, others are replaced when their job is over. */
void pool_refuse(struct pool *pool, uint64_t number);
void pool_retire(struct pool *pool);

/* The job of this worker is done; it is idle again, or replaced when it may not have another job or kept much memory. */
void pool_release(struct pool *pool, void *job);

/* Kills the worker that has this job; `reason` (static) is what `gone` will say. */
void pool_kill(struct pool *pool, void *job, const char *reason);

/* Asks the worker that has this job to end it with what it has so far (worker.h). */
void pool_ask_to_stop(struct pool *pool, void *job);

unsigned pool_busy(const struct pool *pool);
unsigned pool_alive(const struct pool *pool);
