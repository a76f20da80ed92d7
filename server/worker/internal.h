#pragma once
/*
 * internal - what the sources of the worker process share.
 *
 * A job is a plan, or an errand that answers one request into one file. Errands are functions of one type, in a table
 * by kind (worker.c): the model is mapped already when the job names one, and `request` is the JSON that came behind
 * the line, NULL when nothing came.
 */
#include <sys/types.h>

#include "base/cancel.h"
#include "plan/job.h"
#include "server_limits.h"
#include "worker/worker.h"

/* What is asked for. */
enum work_form { WORK_JSON, WORK_TEXT, WORK_MODEL };

/* Descriptors, -1 for one that was taken. */
struct job_files {
    unsigned count;
    int fds[SPD_MAX_JOB_FILES];
};

/* What a job line says. Strings belong to `line`. */
struct work {
    json_t *line;
    const char *job, *kind, *sha256, *name;
    json_t *names; /* of the files, in their order */
    struct job_files files;
    enum work_form form;
    uint64_t memory, seconds;
    uint64_t started_ms, deadline_ms, reported_ms;
    uint64_t alarm_ms; /* the deadline for which an alarm is set; 0: none */
    const char *phase; /* that was reported last; NULL: none */
    double best_seconds, lower_bound_seconds;
    const char *limit; /* what says how many seconds there are */
    struct sp_watch watch;
    bool has_model;
    const void *bytes; /* the mapped model */
    uint64_t size;
    uint64_t mapped;  /* bytes of all files that are mapped */
    size_t body_size; /* bytes behind the line */
    bool timed_out;
    bool stopped; /* something was cut short: the time was over, or the daemon asked for an end */
};

/* report.c: lines to the daemon; false when nobody can be told. work_phase() says that the job is in this phase now. */
void work_send_ready(void);
void work_send_started(const struct work *work);
bool work_send_progress(struct work *work, const char *phase, double fraction);
bool work_send_outcome(const struct work *work, struct problem *problem);
void work_phase(struct work *work, const char *phase);

void work_options(struct work *work, struct sp_job_options *options);
void work_take_error(const struct work *work, const struct sp_error *err, struct problem *problem);

/* Writes the text, unless it failed for want of memory, and releases it. */
enum sp_status work_write_text(struct output *output, struct sp_buf *buf, enum sp_status status, struct sp_error *err);
/* An output as the sink of a splice. */
struct sp_sink work_sink(struct output *output);

/* files.c. What a job is handed: reading takes what comes with the bytes; a file by its name, -1: the job has none of that
   name, and taken: closed by who took it. work_map() maps a whole file for reading (NULL for an empty one), work_load()
   reads JSON (NULL: none). */
ssize_t work_receive(struct job_files *files, void *bytes, size_t size);
int work_file(const struct work *work, const char *name);
int work_take_file(struct work *work, const char *name);
void work_close_files(struct job_files *files);
bool work_map(struct work *work, int fd, void **ret_bytes, uint64_t *ret_size);
json_t *work_load(const struct work *work, const char *name);

/* limits.c: sets the limits of the process for this job and what is mapped for it. They can be raised for the next one,
   up to what the process may have at all: the memory that a job with this budget is given. */
void work_limit(const struct work *work);
uint64_t work_most_memory(uint64_t budget);

/* worker.c: one job in this process, which is locked up before; its files, in the order of the line, are the descriptors
   after 2. Returns as worker_replay(). */
int work_again(const char *line, const char *body, size_t body_size, const struct job_files *files);

/* plan.c */
void work_plan(struct work *work, struct problem *problem);

/* models.c: errands about a model */
enum sp_status work_inspect(struct work *work, const json_t *request, struct output *output, struct sp_error *err);
enum sp_status work_check(struct work *work, const json_t *request, struct output *output, struct sp_error *err);
enum sp_status work_infer(struct work *work, const json_t *request, struct output *output, struct sp_error *err);

/* verify.c: an errand about a model and others beside it */
enum sp_status work_verify(struct work *work, const json_t *request, struct output *output, struct sp_error *err);

/* export.c: an errand about a plan */
enum sp_status work_export(struct work *work, const json_t *request, struct output *output, struct sp_error *err);

/* index.c: an errand about a plan that was made before plans had indexes */
enum sp_status work_index(struct work *work, const json_t *request, struct output *output, struct sp_error *err);

/* sharding.c: errands without a model */
enum sp_status work_convert(struct work *work, const json_t *request, struct output *output, struct sp_error *err);
enum sp_status work_reshard(struct work *work, const json_t *request, struct output *output, struct sp_error *err);
