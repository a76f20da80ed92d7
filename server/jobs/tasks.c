#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/crashes.h"
#include "jobs/internal.h"
#include "observe/log.h"
#include "observe/metrics.h"
#include "server.h"
#include "server_limits.h"
#include "store/files.h"
#include "store/folder.h"
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

static unsigned plans_here(const struct jobs *jobs)
{
    unsigned count = 0;
    for (const struct task *task = jobs->tasks; task != NULL; task = task->next)
        count += task->errand == NULL && task->state != TASK_ENDING &&
                 (task->state != TASK_STORING || task->fetch_ms != 0); /* one that cannot be stored keeps its place */
    return count;
}

static void link_task(struct jobs *jobs, struct task *task)
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

static void free_task(struct task *task)
{
    blobs_release(&task->hold);
    blobs_release(&task->past);
    order_release(task->order);
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

static void set_phase(struct jobs *jobs, struct task *task, const char *phase)
{
    struct job_progress progress = task->progress;
    (void)snprintf(progress.phase, sizeof progress.phase, "%s", phase);
    set_progress(jobs, task, &progress);
}

/* ---- telling the store ---- */

/* The plan has no worker any more, and the order says how its attempt ends. */
static void tell_end(struct jobs *jobs, struct task *task)
{
    struct order *order = task->order;
    task->order = NULL;
    task->state = TASK_ENDING;
    set_phase(jobs, task, "store");
    order->kind = ORDER_END;
    order->task = task;
    ledger_order(jobs->ledger, order);
}

static void requeue(struct jobs *jobs, struct task *task, bool crashed)
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

static void finish_plan(struct jobs *jobs, struct task *task, enum plan_state state, bool has_result,
                        const struct problem *problem)
{
    task->order->of_files = problem != NULL && problem_is_of_files(problem);
    task->order->crashes = task->crashes;
    if (has_result && blobs_are_remote(jobs->server->blobs) && task->order->files == NULL) {
        task->order->state = state;
        set_phase(jobs, task, "store");
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
        free_task(task);
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

/* ---- assigning ---- */

/* The members that every job line has. */
static json_t *job_line(const struct config *config, const char *job, const char *kind, const char *model,
                        const char *id, const char *name, const char *output)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I}", "job", job, "kind", kind, "model", model, "sha256", id,
                     "name", name, "out", output, "memory", (json_int_t)config->job_memory, "seconds",
                     (json_int_t)config->job_seconds);
}

/* Of a plan that follows another one, where the JSON of that is. */
static bool add_past(const struct config *config, const json_t *request, json_t *line)
{
    const json_t *from = json_object_get(request, "from");
    const char *plan = json_string_value(json_object_get(from, "plan"));
    char *path = plan != NULL ? files_plan_file(config->data, plan,
                                                json_integer_value(json_object_get(from, "attempt")), "plan.json")
                              : NULL;
    const bool ok = plan == NULL || (path != NULL && json_object_set_new(line, "past", json_string(path)) == 0);
    free(path);
    return ok;
}

static char *plan_line(const struct jobs *jobs, const struct order *claim)
{
    const struct config *config = jobs->server->config;
    const struct plan_row *plan = &claim->row;
    char *model = files_blob(config->data, claim->blob),
         *folder = files_attempt_folder(config->data, plan->id, plan->attempts);
    char *text = NULL;
    json_t *line = model != NULL && folder != NULL ? job_line(config, plan->id, "plan", model, plan->model,
                                                              claim->name != NULL ? claim->name : "", folder)
                                                   : NULL;
    json_t *request = json_loads(plan->request, 0, NULL);
    if (line != NULL && request != NULL && json_object_set(line, "request", request) == 0 &&
        add_past(config, request, line))
        text = json_memory_text(line, JSON_COMPACT);
    json_decref(request);
    json_decref(line);
    free(model);
    free(folder);
    return text;
}

static char *errand_line(struct jobs *jobs, const struct errand *errand, unsigned seconds)
{
    static const char *const forms[] = {"json", "text", "model"};
    bool has_model = errand->model != NULL;
    json_t *line = job_line(jobs->server->config, errand->kind, errand->kind, has_model ? errand->model : "",
                            has_model ? errand->id : "", has_model ? errand->name : "", errand->output);
    char *text = NULL;
    if (line != NULL && json_object_set_new(line, "form", json_string(forms[errand->form])) == 0 &&
        json_object_set_new(line, "seconds", json_integer(seconds)) == 0 &&
        json_object_set_new(line, "sync", json_boolean(errand->sync)) == 0 &&
        json_object_set_new(line, "body", json_integer((json_int_t)errand->body_size)) == 0)
        text = json_memory_text(line, JSON_COMPACT);
    json_decref(line);
    return text;
}

/* Gives the task to a worker. False without memory. */
static bool start(struct jobs *jobs, struct worker *worker, struct task *task, char *line)
{
    const struct errand *errand = task->errand;
    bool ok = line != NULL && pool_assign(worker, task, line, errand != NULL ? errand->body : NULL,
                                          errand != NULL ? errand->body_size : 0);
    task->line = line;
    if (!ok)
        return false;
    task->state = TASK_RUNNING;
    task->started_ms = server_now_ms();
    task->deadline_ms = task->started_ms + (uint64_t)(task->seconds + SPD_JOB_GRACE_SECONDS) * 1000;
    metrics_job_started(jobs->server->metrics, errand != NULL ? errand->kind : "plan");
    return true;
}

static struct errand *next_errand(struct jobs *jobs)
{
    (void)pthread_mutex_lock(&jobs->mutex);
    struct errand *errand = jobs->first;
    if (errand != NULL) {
        jobs->first = errand->next;
        if (jobs->first == NULL)
            jobs->last = NULL;
        jobs->errand_count--;
    }
    (void)pthread_mutex_unlock(&jobs->mutex);
    return errand;
}

/* A model may be large; a sharding never needs that long, and nobody waits that long for one. */
static unsigned errand_seconds(const struct config *config, const struct errand *errand)
{
    return errand->model == NULL && config->job_seconds > SPD_SHARDING_SECONDS ? SPD_SHARDING_SECONDS
                                                                               : config->job_seconds;
}

static void start_errand(struct jobs *jobs, struct worker *worker, struct errand *errand)
{
    struct task *task = calloc(1, sizeof *task);
    if (task != NULL) {
        task->errand = errand;
        task->seconds = errand_seconds(jobs->server->config, errand);
        if (start(jobs, worker, task, errand_line(jobs, errand, task->seconds))) {
            link_task(jobs, task);
            return;
        }
        free_task(task);
    }
    (void)problem_no_memory(&errand->problem);
    errand->done(errand);
}

static void start_plan(struct jobs *jobs, struct worker *worker, struct task *task)
{
    struct problem problem = {0};
    if (start(jobs, worker, task, plan_line(jobs, task->order))) {
        set_phase(jobs, task, "start");
    } else if (task->attempt < SPD_MAX_ATTEMPTS) {
        requeue(jobs, task, false);
    } else {
        (void)problem_set(&problem, 500, "NOT_STARTED",
                          "The plan could not be given to a worker, also when that was tried again; submit it anew.");
        finish_plan(jobs, task, PLAN_FAILED, false, &problem);
    }
}

void jobs_claimed(struct jobs *jobs, struct order *order)
{
    jobs->claiming = false;
    if (order->found != STORE_DONE) {
        jobs->claim_ms = server_now_ms() + SPD_CLAIM_MS;
        order_release(order);
        return;
    }
    struct task *task = order->blob[0] != '\0' ? calloc(1, sizeof *task) : NULL;
    if (task == NULL) {
        order->kind = ORDER_END;
        order->requeue = true;
        ledger_order(jobs->ledger, order);
        return;
    }
    const struct plan_row *row = &order->row;
    task->order = order;
    memcpy(task->plan, row->id, sizeof task->plan);
    task->attempt = row->attempts;
    task->crashes = row->crashes;
    task->waited = (double)(row->started_at - row->created_at) / 1000;
    task->seconds = jobs->server->config->job_seconds;
    link_task(jobs, task);
    events_begin(jobs->events, task->plan);
    set_phase(jobs, task, "start");
    jobs_fetch(jobs, task);
    if (jobs->stopping && task->state == TASK_READY)
        requeue(jobs, task, false);
}

static struct task *ready_task(const struct jobs *jobs)
{
    struct task *oldest = NULL;
    for (struct task *task = jobs->tasks; task != NULL; task = task->next) {
        if (task->state == TASK_READY)
            oldest = task; /* the newest stands first */
    }
    return oldest;
}

/* Asks the store for a queued plan; jobs_claimed() gets it. */
static void claim(struct jobs *jobs)
{
    struct order *order = calloc(1, sizeof *order);
    if (order == NULL)
        return;
    order->kind = ORDER_CLAIM;
    jobs->claiming = true;
    ledger_order(jobs->ledger, order);
}

static void renew_workers(struct jobs *jobs)
{
    unsigned generation = folder_generation(jobs->server->folder);
    if (generation == jobs->generation)
        return;
    jobs->generation = generation;
    pool_renew(jobs->pool);
}

void jobs_dispatch(struct jobs *jobs)
{
    struct worker *worker;
    renew_workers(jobs);
    if (atomic_exchange(&jobs->changed, false))
        jobs->claim_ms = 0;
    while (!jobs->stopping && (worker = pool_idle(jobs->pool)) != NULL) {
        struct errand *errand = next_errand(jobs);
        struct task *task = errand == NULL ? ready_task(jobs) : NULL;
        if (errand != NULL) {
            start_errand(jobs, worker, errand);
        } else if (task != NULL) {
            start_plan(jobs, worker, task);
        } else {
            if (!jobs->draining && !jobs->claiming && plans_here(jobs) < jobs->server->config->workers &&
                server_now_ms() >= jobs->claim_ms)
                claim(jobs);
            return;
        }
    }
}

/* ---- ending ---- */

static void finish_errand(struct jobs *jobs, const struct task *task, const struct problem *problem)
{
    uint64_t now = server_now_ms();
    if (problem != NULL)
        task->errand->problem = *problem;
    metrics_job(jobs->server->metrics, task->errand->kind, problem != NULL ? "failed" : "succeeded",
                (double)(task->started_ms - task->errand->queued_ms) / 1000, (double)(now - task->started_ms) / 1000);
    task->errand->done(task->errand);
}

/* The errand has an outcome: NULL for success. */
static void end_errand(struct jobs *jobs, struct task *task, const struct problem *problem)
{
    unlink_task(jobs, task);
    finish_errand(jobs, task, problem);
    free_task(task);
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

/* The worker has answered. A plan that was cancelled is so only when that cut something short. */
static void take_outcome(struct jobs *jobs, struct task *task, const json_t *message, bool done)
{
    bool stopped = json_is_true(json_object_get(message, "stopped"));
    struct problem problem;
    problem_from_json(&problem, json_object_get(message, "problem"));
    if (task->errand != NULL)
        end_errand(jobs, task, done ? NULL : &problem);
    else if (done)
        finish_plan(jobs, task, task->cancelled && stopped ? PLAN_CANCELLED : PLAN_SUCCEEDED, true, NULL);
    else if (task->cancelled && stopped)
        finish_plan(jobs, task, PLAN_CANCELLED, false, NULL);
    else
        finish_plan(jobs, task, PLAN_FAILED, false, &problem);
}

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
    pool_release(jobs->pool, task);
    take_outcome(jobs, task, message, event != NULL && strcmp(event, "done") == 0);
    jobs_kick(jobs);
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
    unlink_task(jobs, task);
    events_leave(jobs->events, task->plan);
    free_task(task);
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
        finish_plan(jobs, task, PLAN_CANCELLED, false, NULL);
    } else if (strcmp(how, "stopped") == 0 || (innocent && task->attempt < SPD_MAX_ATTEMPTS) ||
               (crashed && !innocent && task->crashes + 1 < SPD_MAX_CRASHES)) {
        LOG(LOG_INFO, "plan queued again", log_s("plan", task->plan), log_s("reason", how));
        requeue(jobs, task, crashed && !innocent);
    } else {
        describe_end(task, how, signal_number, &problem);
        finish_plan(jobs, task, PLAN_FAILED, false, &problem);
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
    unlink_task(jobs, task);
    free_task(task);
    if (!jobs_send(jobs, errand, &problem)) {
        errand->problem = problem;
        errand->done(errand);
    }
}

/* What a worker died of is kept, so that it can be looked into. */
static void keep_crash(struct jobs *jobs, const struct task *task, int signal_number, const char *words)
{
    const struct errand *errand = task->errand;
    const struct config *config = jobs->server->config;
    char *model = errand != NULL ? NULL : files_blob(config->data, task->order->blob);
    crashes_keep(config->data, &(struct crash){
                                   .job = errand != NULL ? errand->request : task->plan,
                                   .kind = errand != NULL ? errand->kind : "plan",
                                   .model = errand != NULL ? errand->model : model,
                                   .model_id = errand == NULL          ? task->order->row.model
                                               : errand->model != NULL ? errand->id
                                                                       : NULL,
                                   .phase = task->progress.phase,
                                   .attempt = errand != NULL ? errand->attempts + 1 : task->attempt,
                                   .signal_number = signal_number,
                                   .line = task->line,
                                   .body = errand != NULL ? errand->body : NULL,
                                   .body_size = errand != NULL ? errand->body_size : 0,
                                   .words = words,
                               });
    free(model);
}

void jobs_gone(void *context, void *job, const char *how, int signal_number, const char *words)
{
    struct jobs *jobs = context;
    struct task *task = job;
    if (strcmp(how, "crashed") == 0 && task->taken)
        keep_crash(jobs, task, signal_number, words);
    if (task->errand == NULL)
        plan_gone(jobs, task, how, signal_number);
    else
        errand_gone(jobs, task, how, signal_number);
    if (!jobs->stopping)
        jobs_kick(jobs);
}

/* ---- files that had to be fetched or stored ---- */

/* A thread has tried to. What fails for the moment is tried again, as long as the plan is ours. */
static void moved(struct jobs *jobs, struct task *task)
{
    const bool was_stored = task->state == TASK_STORING && task->problem.status == 0;
    if (task->dropped) {
        forget_plan(jobs, task);
    } else if (was_stored && task->order->files != NULL) {
        finish_plan(jobs, task, task->order->state, true, NULL);
    } else if (task->cancelled) {
        plan_gone(jobs, task, "cancelled", 0);
    } else if (jobs->stopping) {
        plan_gone(jobs, task, "stopped", 0);
    } else if (task->problem.status == 500) { /* an object is not there, or damaged, or a file cannot be read */
        finish_plan(jobs, task, PLAN_FAILED, false, &task->problem);
    } else if (task->problem.status != 0) {
        task->fetch_ms = server_now_ms() + SPD_FETCH_RETRY_MS;
    } else {
        task->state = TASK_READY;
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

void jobs_check_tasks(struct jobs *jobs, uint64_t now_ms)
{
    for (struct task *task = jobs->tasks; task != NULL; task = task->next) {
        if (task->fetch_ms != 0 && task->fetch_ms < now_ms)
            (task->state == TASK_STORING ? jobs_store : jobs_fetch)(jobs, task);
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
