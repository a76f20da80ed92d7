#pragma once
/*
 * worker - the child process: takes jobs as lines of JSON on standard input, answers on standard output.
 *
 *   <- {"job":ID,"kind":KIND,"sha256":..,"name":..,"memory":BYTES,"seconds":S,"files":[NAME, ..],
 *       "form":"json", "text" or "model","sync":bool,"body":N}, then N bytes: a client's JSON
 *   <- {"job":ID,"kind":"plan",..,"request":{"cluster" or "sweep":..,"objective":..,"options":..}}
 *      and of a plan that follows another one, "from" in the request
 *   -> {"event":"ready"}                                                  once, before the first job: it is locked up
 *   -> {"job":ID,"event":"started"}
 *   -> {"job":ID,"event":"progress","phase":..,"fraction":..,"best_seconds":..,"lower_bound_seconds":..}
 *   -> {"job":ID,"event":"done","stopped":bool}
 *   -> {"job":ID,"event":"error","stopped":bool,"problem":{..}}        see problem.h
 *
 * WORKER_STOP_SIGNAL asks it to end the search of the job that it has: what was found so far is the result then, and
 * `stopped` is true when that, or the time limit, cut something short. Without a job the signal does nothing.
 *
 * KIND is inspect, check, infer, verify, export or sheet about a model, or convert or reshard without one. The form
 * "model" is a annotated model as a splice. The daemon never looks into the client's JSON behind a line: reading it may
 * take fifty times its size in memory.
 *
 * Files come as descriptors, in the order of "files", with bytes of zero before the line (jobs/handover.h is the other
 * side): "model"; "plan", the JSON of the plan that the job is about or follows; to verify, each model under its id and
 * what lies beside models under worker_name_beside(); and for writing "result", or of a plan each of its files. With "sync" model and result are flushed to the disk, which the
 * daemon does again: it waits less then.
 *
 * The model file is mapped read-only; of a large one only the pages that describe the graph are touched. A worker ends
 * when its standard input does, and is killed by the kernel when the daemon dies. It needs no network, no store and no
 * folder, and locks itself up (sandbox.h) so that it has none. A signal that a fault sends makes it write where it was to standard error
 * (last_words.h) before it dies of it.
 */
#include <signal.h>
#include <stdint.h>

#include "util/problem.h"

#define WORKER_STOP_SIGNAL SIGUSR1

/* Runs until the input ends; returns the exit status. `parent` is the daemon's process, `memory` the bytes that every job
   is given. */
int worker_main(long parent, uint64_t memory);

/* Does the job whose worker died, as it was kept in DATA/crashes (jobs/crashes.h), once more in this process, locked up
   as a worker is. 0: done, 1: it failed with a problem, 2: there is no such job. Or the process dies as the worker
   did. */
int worker_replay(const char *data, const char *job);

/* files.c: the name, for a job, of the file beside a model in which weights of it lie: one for each model and location. False
   without memory. */
bool worker_name_beside(const char *model, const char *location, char ret_name[65]);

/* ---- output.c ---- */

/* Writes to a descriptor, which it closes. Between open and close the caller writes with output_write(); the first
   failure sticks. */
struct output {
    int fd, error;   /* errno of the first failure */
    bool is_scratch; /* need not outlive a crash of the machine: not flushed to the disk */
    size_t used;
    char buffer[64 * 1024];
};

void output_open(struct output *output, int fd);                 /* takes it; -1 is a failure */
bool output_write(void *output, const char *bytes, size_t size); /* fits sp_json and sp_sink */

/* Closes the file; with `keep`, unless it is scratch, it is flushed to the disk before. */
bool output_close(struct output *output, bool keep, struct problem *problem);
