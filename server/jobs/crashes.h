#pragma once
/*
 * crashes - what is kept of a job that a worker died over.
 *
 *   DATA/crashes/JOB/report.json   which job of what kind, signal, phase, attempt, and the worker's last words
 *                    line.json     the job as the worker got it
 *                    body          the client's bytes behind it, when there are some
 *                    model         the model: the same file as the stored one, also when that is deleted
 *                    ID            models that are verified beside it, in the same way
 *                    plan          the JSON of a plan that is exported, indexed or followed
 *
 * JOB is a plan's id, or the id of the request that waited. SPD_MAX_CRASH_REPORTS are kept; a new one removes the
 * oldest. `shardpland --replay JOB` does the job again (worker.h). What the daemon killed itself is no crash.
 */
#include <stddef.h>
#include <stdint.h>

#include "jobs/handover.h"

struct crash {
    const char *job, *kind;
    const char *model_id; /* or NULL */
    const char *phase;    /* what the worker last said it was doing */
    int64_t attempt;
    int signal_number; /* 0: it ended by itself */
    const char *line;
    const char *body; /* or NULL */
    size_t body_size;
    const struct handover *files; /* what it reads */
    const char *words;
};

/* Keeps it and logs one event, also when nothing could be written. Main thread. */
void crashes_keep(const char *data, const struct crash *crash);

/* The folder of a job's report, malloc'ed; NULL without memory. Letters that a file name should not have become '_'. */
char *crashes_folder(const char *data, const char *job);
