#pragma once
/*
 * pool - the child processes that do the work, and their pipes.
 *
 * Each worker is this same program started as `shardpland --worker`. It takes one job at a time as a line of JSON on
 * its standard input and answers with lines on its standard output (worker.h). A worker that ends for any reason is
 * replaced after a short pause; the pool never has fewer than its size for long. What it writes to standard error
 * becomes lines of the log.
 *
 * Main thread only. Callbacks are called from the loop; they may call into the pool.
 */
#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

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

/* An idle worker, or NULL; and how many there are. */
struct worker *pool_idle(struct pool *pool);
unsigned pool_idle_count(const struct pool *pool);

/* A job as a worker gets it. */
struct job_parcel {
    const char *line; /* without line end */
    const char *body; /* the bytes behind it */
    size_t body_size;
    const int *files; /* descriptors, in the order in which the line names them */
    unsigned file_count;
};

/* Gives a job to an idle worker. All is copied: the descriptors may be closed. False without memory. */
bool pool_assign(struct worker *worker, void *job, const struct job_parcel *parcel);

/* The job of this worker is done; it is idle again, or replaced when it kept much memory. */
void pool_release(struct pool *pool, void *job);

/* Kills the worker that has this job; `reason` (static) is what `gone` will say. */
void pool_kill(struct pool *pool, void *job, const char *reason);

/* Asks the worker that has this job to end it with what it has so far (worker.h). */
void pool_ask_to_stop(struct pool *pool, void *job);

unsigned pool_busy(const struct pool *pool);
unsigned pool_alive(const struct pool *pool);
