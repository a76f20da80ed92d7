#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/crashes.h"
#include "jobs/internal.h"
#include "observe/log.h"
#include "observe/metrics.h"
#include "server.h"
#include "server_limits.h"
#include "util/json_memory.h"
#include "util/text.h"

struct task *jobs_find(struct jobs *jobs, const char *plan)
{
    for (struct task *task = jobs->tasks; task != NULL; task = task->next) {
        if (task->errand == NULL && strcmp(task->plan, plan) == 0)
            return task;
    }
    return NULL;
}

unsigned jobs_count(const struct jobs *jobs, enum task_state from, enum task_state to)
{
    unsigned count = 0;
    for (const struct task *task = jobs->tasks; task != NULL; task = task->next)
        count += task->state >= from && task->state <= to;
    return count;
}

void jobs_link_task(struct jobs *jobs, struct task *task)
{
    (void)pthread_mutex_lock(&jobs->mutex);
    task->next = jobs->tasks;
    jobs->tasks = task;
    (void)pthread_mutex_unlock(&jobs->mutex);
}

static void unlink_task(struct jobs *jobs, const struct task *task)
{
    (void)pthread_mutex_lock(&jobs->mutex);
    struct task **at = &jobs->tasks;
    while (*at != task)
        at = &(*at)->next;
    *at = task->next;
    (void)pthread_mutex_unlock(&jobs->mutex);
}

void jobs_free_task(struct task *task)
{
    blobs_release(&task->hold);
    blobs_release(&task->past);
    order_release(task->order);
    json_decref(task->outcome);
    free(task->line);
    free(task);
}

static void set_progress(struct jobs *jobs, struct task *task, const struct job_progress *progress)
{
    uint64_t now = server_now_ms();
    if (strcmp(task->progress.phase, progress->phase) != 0) {
        if (task->errand == NULL && task->phase_ms != 0)
            metrics_phase(jobs->server->metrics, task->progress.phase, (double)(now - task->phase_ms) / 1000);
        task->phase_ms = now;
    }
    (void)pthread_mutex_lock(&jobs->mutex);
    task->progress = *progress;
    (void)pthread_mutex_unlock(&jobs->mutex);
    if (task->errand == NULL)
        events_progress(jobs->events, task->plan, PLAN_RUNNING, progress);
}

void jobs_set_phase(struct jobs *jobs, struct task *task, const char *phase)
{
    struct job_progress progress = task->progress;
    (void)snprintf(progress.phase, sizeof progress.phase, "%s", phase);
    set_progress(jobs, task, &progress);
}

/* It has no turn any more, and waits for none. */
static void leave_schedule(struct jobs *jobs, struct task *task)
{
    (void)pthread_mutex_lock(&jobs->mutex);
    schedule_remove(jobs->schedule, &task->work);
    schedule_end(jobs->schedule, &task->turn, server_now_us());
    (void)pthread_mutex_unlock(&jobs->mutex);
}

/* ---- telling the store ---- */

/* The plan has no worker any more, and the order says how its attempt ends. */
static void tell_end(struct jobs *jobs, struct task *task)
{
    struct order *order = task->order;
    leave_schedule(jobs, task);
    task->order = NULL;
    task->state = TASK_ENDING;
    jobs_set_phase(jobs, task, "store");
    order->kind = ORDER_END;
    order->task = task;
    ledger_order(jobs->ledger, order);
}

void jobs_requeue_task(struct jobs *jobs, struct task *task, bool crashed)
{
    task->order->requeue = true;
    task->order->crashed = crashed;
    tell_end(jobs, task);
}

static void tell_finished(struct jobs *jobs, const struct task *task, enum plan_state state, const char *outcome)
{
    double elapsed = task->started_ms != 0 ? (double)(server_now_ms() - task->started_ms) / 1000 : 0;
    metrics_job(jobs->server->metrics, "plan", store_state_name(state), task->waited, elapsed);
    LOG(LOG_INFO, "plan finished", log_s("plan", task->plan), log_s("outcome", outcome),
        log_i("ms", (int64_t)(elapsed * 1000)));
}

void jobs_finish_plan(struct jobs *jobs, struct task *task, enum plan_state state, bool has_result,
                      const struct problem *problem)
{
    task->order->of_files = problem != NULL && problem_is_of_files(problem);
    task->order->crashes = task->crashes;
    if (has_result && task->order->files == NULL) {
        task->order->state = state;
        leave_schedule(jobs, task);
        jobs_set_phase(jobs, task, "store");
        jobs_store(jobs, task);
        return;
    }
    if (!task->order->of_files) /* else it is not known yet whether that is the end */
        tell_finished(jobs, task, state, problem != NULL ? problem->code : store_state_name(state));
    task->order->state = state;
    task->order->has_result = has_result;
    task->order->error = problem != NULL ? problem_to_text(problem) : NULL;
    /* Without memory to say why it failed, it is tried again. */
    task->order->requeue = problem != NULL && task->order->error == NULL;
    tell_end(jobs, task);
}

void jobs_ended(struct jobs *jobs, const struct order *order)
{
    struct task *task = order->task;
    if (task != NULL) {
        if (order->of_files && !order->requeue)
            tell_finished(jobs, task, order->state, "IO_ERROR");
        unlink_task(jobs, task);
        events_leave(jobs->events, task->plan);
        jobs_free_task(task);
    }
    if (order->changed == STORE_CHANGED && !order->requeue)
        jobs_notify(jobs, order->plan);
}

void jobs_requeue(struct jobs *jobs, const char *plan, int64_t attempt)
{
    struct order *order = calloc(1, sizeof *order);
    if (order == NULL)
        return; /* looked at again */
    order->kind = ORDER_END;
    (void)snprintf(order->plan, sizeof order->plan, "%s", plan);
    order->attempt = attempt;
    order->requeue = true;
    ledger_order(jobs->ledger, order);
}

/* ---- ending ---- */

void jobs_errand_over(struct errand *errand)
{
    errand_close_files(errand);
    errand->done(errand);
}

static void finish_errand(struct jobs *jobs, const struct task *task, const struct problem *problem)
{
    uint64_t now = server_now_ms();
    if (problem != NULL)
        task->errand->problem = *problem;
    metrics_job(jobs->server->metrics, task->errand->kind, problem != NULL ? "failed" : "succeeded",
                (double)(task->started_ms - task->errand->queued_ms) / 1000, (double)(now - task->started_ms) / 1000);
    jobs_errand_over(task->errand);
}

/* The errand has an outcome: NULL for success. */
static void end_errand(struct jobs *jobs, struct task *task, const struct problem *problem)
{
    leave_schedule(jobs, task);
    unlink_task(jobs, task);
    finish_errand(jobs, task, problem);
    jobs_free_task(task);
    jobs_kick(jobs);
}

static void take_progress(struct jobs *jobs, struct task *task, const json_t *message)
{
    struct job_progress progress = {
        .fraction = fmin(fmax(json_number_value(json_object_get(message, "fraction")), 0), 1),
        .best_seconds = json_number_value(json_object_get(message, "best_seconds")),
        .lower_bound_seconds = json_number_value(json_object_get(message, "lower_bound_seconds")),
    };
    const char *phase = json_string_value(json_object_get(message, "phase"));
    (void)snprintf(progress.phase, sizeof progress.phase, "%s", phase != NULL ? phase : "");
    text_clean(progress.phase); /* a database takes no part of a character */
    set_progress(jobs, task, &progress);
}

static bool is_done(const json_t *message)
{
    const char *event = json_string_value(json_object_get(message, "event"));
    return event != NULL && strcmp(event, "done") == 0;
}

/* The worker has answered. A plan that was cancelled is so only when that cut something short. */
static void take_outcome(struct jobs *jobs, struct task *task, const json_t *message)
{
    const bool done = is_done(message);
    bool stopped = json_is_true(json_object_get(message, "stopped"));
    struct problem problem;
    problem_from_json(&problem, json_object_get(message, "problem"));
    if (task->errand != NULL)
        end_errand(jobs, task, done ? NULL : &problem);
    else if (done)
        jobs_finish_plan(jobs, task, task->cancelled && stopped ? PLAN_CANCELLED : PLAN_SUCCEEDED, true, NULL);
    else if (task->cancelled && stopped)
        jobs_finish_plan(jobs, task, PLAN_CANCELLED, false, NULL);
    else
        jobs_finish_plan(jobs, task, PLAN_FAILED, false, &problem);
}

/* What it wrote is the result when it can write no more: while it has a file open, or that cannot be told, it is made to
   end first. */
void jobs_message(void *context, void *job, const json_t *message)
{
    struct jobs *jobs = context;
    struct task *task = job;
    const char *event = json_string_value(json_object_get(message, "event"));
    if (event != NULL && strcmp(event, "progress") == 0) {
        take_progress(jobs, task, message);
        return;
    }
    if (event != NULL && strcmp(event, "started") == 0) {
        task->taken = true;
        return;
    }
    if (task->outcome != NULL)
        return; /* it is over for this worker */
    if (!is_done(message) || handover_seal(jobs_files(task))) {
        pool_release(jobs->pool, task);
        take_outcome(jobs, task, message);
        jobs_kick(jobs);
        return;
    }
    task->outcome = json_incref((json_t *)(uintptr_t)message);
    pool_kill(jobs->pool, task, "recycled");
}

static void describe_end(const struct task *task, const char *how, int signal_number, struct problem *problem)
{
    bool is_short = task->errand != NULL && task->errand->model == NULL;
    if (strcmp(how, "timed_out") == 0)
        (void)problem_set_limit(problem, 422, "TIME_LIMIT", is_short ? "SPD_SHARDING_SECONDS" : "--job-seconds",
                                task->seconds, task->seconds,
                                "The job took longer than its %u seconds and was stopped.", task->seconds);
    else if (strcmp(how, "stopped") == 0)
        (void)problem_set(problem, 503, "STOPPING", "The service is stopping; send the request again.");
    else
        (void)problem_set(problem, 500, "WORKER_CRASHED",
                          "The process that worked on %s %s died (signal %d), also when it was tried again. Who runs "
                          "the service finds a report of it under this name.",
                          task->errand == NULL ? "the plan" : "the request",
                          task->errand == NULL ? task->plan : task->errand->request, signal_number);
}

/* The store has it otherwise: deleted, or another daemon's. */
static void forget_plan(struct jobs *jobs, struct task *task)
{
    struct order *order = task->order;
    task->order = NULL;
    leave_schedule(jobs, task);
    unlink_task(jobs, task);
    events_leave(jobs->events, task->plan);
    jobs_free_task(task);
    order->kind = ORDER_TIDY;
    ledger_order(jobs->ledger, order);
}

/* A plan whose worker died: cancelled meanwhile, to be tried again, or given up. */
static void plan_gone(struct jobs *jobs, struct task *task, const char *how, int signal_number)
{
    struct problem problem = {0};
    bool crashed = strcmp(how, "crashed") == 0, innocent = crashed && !task->taken;
    if (strcmp(how, "lost") == 0) {
        forget_plan(jobs, task);
    } else if (task->cancelled) {
        jobs_finish_plan(jobs, task, PLAN_CANCELLED, false, NULL);
    } else if (strcmp(how, "stopped") == 0 || (innocent && task->attempt < SPD_MAX_ATTEMPTS) ||
               (crashed && !innocent && task->crashes + 1 < SPD_MAX_CRASHES)) {
        LOG(LOG_INFO, "plan queued again", log_s("plan", task->plan), log_s("reason", how));
        jobs_requeue_task(jobs, task, crashed && !innocent);
    } else {
        describe_end(task, how, signal_number, &problem);
        jobs_finish_plan(jobs, task, PLAN_FAILED, false, &problem);
    }
}

static void errand_gone(struct jobs *jobs, struct task *task, const char *how, int signal_number)
{
    struct problem problem = {0};
    struct errand *errand = task->errand;
    if (strcmp(how, "crashed") != 0 || errand->crashes + task->taken >= SPD_MAX_CRASHES ||
        ++errand->attempts >= SPD_MAX_ATTEMPTS) {
        describe_end(task, how, signal_number, &problem);
        end_errand(jobs, task, &problem);
        return;
    }
    errand->crashes += task->taken;
    leave_schedule(jobs, task);
    unlink_task(jobs, task);
    jobs_free_task(task);
    if (!handover_renew(errand->files, &problem) || !jobs_queue_errand(jobs, errand, true, &problem)) {
        errand->problem = problem;
        jobs_errand_over(errand);
    }
}

/* What a worker died of is kept, so that it can be looked into. */
static void keep_crash(struct jobs *jobs, const struct task *task, int signal_number, const char *words)
{
    const struct errand *errand = task->errand;
    const struct config *config = jobs->server->config;
    crashes_keep(config->data, &(struct crash){
                                   .job = errand != NULL ? errand->request : task->plan,
                                   .kind = errand != NULL ? errand->kind : "plan",
                                   .model_id = errand == NULL          ? task->order->row.model
                                               : errand->model != NULL ? errand->id
                                                                       : NULL,
                                   .phase = task->progress.phase,
                                   .attempt = errand != NULL ? errand->attempts + 1 : task->attempt,
                                   .signal_number = signal_number,
                                   .line = task->line,
                                   .body = errand != NULL ? errand->body : NULL,
                                   .body_size = errand != NULL ? errand->body_size : 0,
                                   .files = jobs_files(task),
                                   .words = words,
                               });
}

void jobs_gone(void *context, void *job, const char *how, int signal_number, const char *words)
{
    struct jobs *jobs = context;
    struct task *task = job;
    json_t *outcome = task->outcome;
    task->outcome = NULL;
    if (outcome == NULL && strcmp(how, "crashed") == 0 && task->taken)
        keep_crash(jobs, task, signal_number, words);
    if (outcome != NULL && !task->dropped) {
        (void)handover_seal(jobs_files(task));
        take_outcome(jobs, task, outcome);
    } else if (task->errand == NULL) {
        plan_gone(jobs, task, task->dropped ? "lost" : how, signal_number);
    } else {
        errand_gone(jobs, task, how, signal_number);
    }
    json_decref(outcome);
    if (!jobs->stopping)
        jobs_kick(jobs);
}

/* ---- files that had to be fetched or stored ---- */

/* A plan that is TASK_READY waits for its turn. */
static void queue(struct jobs *jobs, struct task *task)
{
    if (!jobs_queue_plan(jobs, task))
        jobs_requeue_task(jobs, task, false);
}

/* A thread has tried to. What fails for the moment is tried again, as long as the plan is ours. */
static void moved(struct jobs *jobs, struct task *task)
{
    const bool was_stored = task->state == TASK_STORING && task->problem.status == 0;
    if (task->dropped) {
        forget_plan(jobs, task);
    } else if (was_stored && task->order->files != NULL) {
        jobs_finish_plan(jobs, task, task->order->state, true, NULL);
    } else if (task->cancelled) {
        plan_gone(jobs, task, "cancelled", 0);
    } else if (jobs->stopping) {
        plan_gone(jobs, task, "stopped", 0);
    } else if (task->problem.status == 500 || task->problem.status == 404 ||
               (task->state == TASK_STORING && !task->order->is_stored && problem_is_of_files(&task->problem))) {
        /* something is not there, or damaged, or cannot be written */
        jobs_finish_plan(jobs, task, PLAN_FAILED, false, &task->problem);
    } else if (task->problem.status != 0) {
        task->fetch_ms = server_now_ms() + SPD_FETCH_RETRY_MS;
    } else {
        task->state = TASK_READY;
        queue(jobs, task);
    }
}

void jobs_take_moved(struct jobs *jobs)
{
    struct task *list = jobs_moved(jobs);
    while (list != NULL) {
        struct task *task = list;
        list = task->next_moved;
        moved(jobs, task);
    }
}

bool jobs_stop_moving(struct jobs *jobs, struct task *task)
{
    if (task->state != TASK_FETCHING && task->state != TASK_STORING)
        return false;
    if (task->fetch_ms == 0)
        return true; /* its thread has it */
    task->fetch_ms = 0;
    moved(jobs, task);
    return true;
}

/* ---- what ends a task from outside ---- */

void jobs_cancel_task(struct jobs *jobs, struct task *task)
{
    if (task->cancelled)
        return;
    task->cancelled = true;
    task->stop_ms = server_now_ms() + SPD_CANCEL_GRACE_MS;
    if (jobs_stop_moving(jobs, task))
        return;
    if (task->state == TASK_READY)
        plan_gone(jobs, task, "cancelled", 0);
    else if (task->taken)
        pool_ask_to_stop(jobs->pool, task);
    else
        pool_kill(jobs->pool, task, "cancelled"); /* it has nothing yet, and might not listen */
}

void jobs_drop_task(struct jobs *jobs, struct task *task)
{
    task->dropped = true;
    if (jobs_stop_moving(jobs, task))
        return;
    if (task->state == TASK_READY)
        forget_plan(jobs, task);
    else
        pool_kill(jobs->pool, task, "lost");
}

static void tell_progress(struct jobs *jobs, struct task *task, uint64_t now_ms)
{
    struct order *order = calloc(1, sizeof *order);
    if (order == NULL)
        return;
    task->told_ms = now_ms;
    order->kind = ORDER_PROGRESS;
    order->attempt = task->attempt;
    order->progress = task->progress;
    memcpy(order->plan, task->plan, sizeof order->plan);
    ledger_order(jobs->ledger, order);
}

static void move_again(struct jobs *jobs, struct task *task)
{
    if (task->state == TASK_STORING)
        jobs_store(jobs, task);
    else
        jobs_fetch(jobs, task);
}

void jobs_check_tasks(struct jobs *jobs, uint64_t now_ms)
{
    for (struct task *task = jobs->tasks; task != NULL; task = task->next) {
        if (task->fetch_ms != 0 && task->fetch_ms < now_ms)
            move_again(jobs, task);
        if (task->state != TASK_RUNNING)
            continue;
        if (task->deadline_ms < now_ms)
            pool_kill(jobs->pool, task, "timed_out");
        else if (task->cancelled && task->stop_ms < now_ms)
            pool_kill(jobs->pool, task, "cancelled");
        else if (task->errand == NULL && now_ms - task->told_ms >= SPD_PROGRESS_MS)
            tell_progress(jobs, task, now_ms);
    }
}
