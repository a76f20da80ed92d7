/* What a job tells the daemon, and what all kinds of jobs take from their line. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "server.h"
#include "server_limits.h"
#include "util/text.h"
#include "worker/internal.h"

/* A line on its way to the daemon. Nothing is allocated for it: a worker without memory can still say so. */
static struct {
    struct sp_json json;
    size_t size;
    char bytes[SPD_MAX_WORKER_LINE];
} message;

static bool add_bytes(void *context, const char *bytes, size_t size)
{
    (void)context;
    if (size >= sizeof message.bytes - message.size) /* one is left for the line end */
        return false;
    memcpy(message.bytes + message.size, bytes, size);
    message.size += size;
    return true;
}

static void begin_message(const char *job, const char *event)
{
    message.size = 0;
    sp_json_init(&message.json, false, add_bytes, NULL);
    sp_json_begin_object(&message.json);
    if (job != NULL)
        sp_json_member_string(&message.json, "job", job);
    sp_json_member_string(&message.json, "event", event);
}

static bool send_message(void)
{
    sp_json_end_object(&message.json);
    bool ok = sp_json_finish(&message.json, NULL) == SP_OK;
    if (ok)
        message.bytes[message.size++] = '\n';
    for (size_t sent = 0; ok && sent < message.size;) {
        ssize_t written = write(STDOUT_FILENO, message.bytes + sent, message.size - sent);
        if (written < 0 && errno != EINTR)
            ok = false;
        else if (written > 0)
            sent += (size_t)written;
    }
    return ok;
}

bool work_send_outcome(const struct work *work, struct problem *problem)
{
    begin_message(work->job, problem->status == 0 ? "done" : "error");
    sp_json_member_bool(&message.json, "stopped", work->stopped);
    if (problem->status != 0) {
        text_clean(problem->detail); /* cutting a message at its size may have split a character */
        text_clean(problem->where);
        sp_json_key(&message.json, "problem");
        sp_json_begin_object(&message.json);
        problem_write_members(problem, &message.json);
        sp_json_end_object(&message.json);
    }
    return send_message();
}

bool work_send_progress(struct work *work, const char *phase, double fraction)
{
    work->reported_ms = server_now_ms();
    work->phase = phase;
    begin_message(work->job, "progress");
    sp_json_member_string(&message.json, "phase", phase);
    sp_json_member_double(&message.json, "fraction", fraction);
    sp_json_member_double(&message.json, "best_seconds", work->best_seconds);
    sp_json_member_double(&message.json, "lower_bound_seconds", work->lower_bound_seconds);
    return send_message();
}

void work_phase(struct work *work, const char *phase)
{
    (void)work_send_progress(work, phase, 0);
}

void work_options(struct work *work, struct sp_job_options *options)
{
    *options = (struct sp_job_options){
        .bytes = work->bytes,
        .size = work->size,
        .memory_budget = work->memory,
        .hash_seed = server_now_ms() * 0x9e3779b97f4a7c15u ^ (uint64_t)getpid(),
        .name = work->name[0] != '\0' ? work->name : NULL,
        .sha256 = work->sha256,
        .watch = &work->watch,
    };
}

void work_take_error(const struct work *work, const struct sp_error *err, struct problem *problem)
{
    if (work->timed_out && err->status == SP_ERR_CANCELLED)
        (void)problem_set_limit(problem, 422, "TIME_LIMIT", work->limit, (int64_t)work->seconds, (int64_t)work->seconds,
                                "The job took longer than its %llu seconds and was stopped; give it a smaller model or "
                                "a longer time limit.",
                                (unsigned long long)work->seconds);
    else
        problem_from_error(problem, err);
}

void work_send_started(const struct work *work)
{
    begin_message(work->job, "started");
    (void)send_message();
}

void work_send_ready(void)
{
    begin_message(NULL, "ready");
    (void)send_message();
}
