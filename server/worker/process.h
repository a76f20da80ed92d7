#pragma once
/*
 * process - one worker process and its pipes, from its start to its end.
 *
 * It is this same program started as `shardpland --worker`; lines of JSON come and go (worker.h). What it writes to standard
 * error becomes lines of the log. It may be killed at any time, for the first reason that is given; what it wrote before
 * that may still be reported. It frees itself in the loop after it was reported ended, when its pipes are closed.
 *
 * Main thread only. Callbacks are called from the loop.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct process;

/* A job as a worker gets it. */
struct job_parcel {
    const char *tenant; /* whose job it is: for the pool, not for the worker */
    const char *line;   /* without line end */
    const char *body;   /* the bytes behind it */
    size_t body_size;
    const int *files; /* descriptors, in the order in which the line names them */
    unsigned file_count;
};

struct process_callbacks {
    void (*message)(void *owner, struct process *process, const json_t *message); /* but the first one, "ready" */
    /* `reason` is that of process_kill(), or NULL: it ended by itself. */
    void (*ended)(void *owner, struct process *process, const char *reason, int64_t status, int signal_number);
};

/* Of all processes of a pool. */
struct process_options {
    uv_loop_t *loop;
    const char *program; /* path */
    uint64_t job_memory; /* what every job is given */
    struct process_callbacks callbacks;
    char read_buffer[64 * 1024];
};

/* NULL, and a line of the log, when it cannot be started. A job may be sent at once: it waits in the pipe. The options outlive
   the process. */
struct process *process_start(struct process_options *options, void *owner);

/* Ends it, unless it is ending. `reason` is static. */
void process_kill(struct process *process, const char *reason);
bool process_is_ending(const struct process *process);

/* All is copied: the descriptors may be closed. False without memory. One that does not take it is killed. */
bool process_send(struct process *process, const struct job_parcel *parcel);

/* Asks it to end its job with what it has so far. */
void process_ask_to_stop(struct process *process);

uint64_t process_resident_bytes(const struct process *process); /* 0 when nothing tells */
int process_pid(const struct process *process);
const char *process_words(const struct process *process); /* what it wrote to standard error since it got the job */
