#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "jobs_internal.h"
#include "log.h"
#include "metrics.h"
#include "server.h"
#include "server_limits.h"

struct task *jobs_find(struct jobs *jobs, const char *plan)
{
    for (struct task *task = jobs->tasks; task != NULL; task = task->next) {
        if (task->is_plan && strcmp(task->plan.id, plan) == 0)
            return task;
    }
    return NULL;
}

unsigned jobs_running_plans(const struct jobs *jobs)
{
    unsigned count = 0;
    for (const struct task *task = jobs->tasks; task != NULL; task = task->next)
        count += task->is_plan;
    return count;
}

/* ---- a store that refuses ---- */

static bool is_running(struct jobs *jobs, const char *plan)
{
    struct plan_row row;
    if (!store_get_plan(jobs->server->store, plan, &row))
        return false;
    bool running = row.state == PLAN_RUNNING;
    store_release_plan(&row);
    return running;
}

/* The store could not be told how the plan ended. It is queued again as soon as the store takes that. */
static void keep_unsaved(struct jobs *jobs, const char *plan)
{
    struct plan_entry *entry = is_running(jobs, plan) ? calloc(1, sizeof *entry) : NULL;
    if (entry == NULL)
        return; /* cancelled or deleted meanwhile; without memory the next start queues it again */
    (void)snprintf(entry->plan, sizeof entry->plan, "%s", plan);
    entry->next = jobs->unsaved;
    jobs->unsaved = entry;
}

void jobs_retry_unsaved(struct jobs *jobs, uint64_t now_ms)
{
    if (jobs->unsaved == NULL || now_ms < jobs->retry_ms)
        return;
    jobs->retry_ms = now_ms + SPD_STORE_RETRY_MS;
    for (struct plan_entry **at = &jobs->unsaved; *at != NULL;) {
        struct plan_entry *entry = *at;
        if (store_requeue(jobs->server->store, entry->plan, false) || !is_running(jobs, entry->plan)) {
            *at = entry->next;
            free(entry);
        } else {
            at = &entry->next;
        }
    }
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

static char *plan_line(struct jobs *jobs, const struct plan_row *plan)
{
    const struct config *config = jobs->server->config;
    char *model = files_blob(config->data, plan->model), *folder = files_plan_folder(config->data, plan->id);
    char *text = NULL;
    struct model_row row = {0};
    bool known = store_get_model(jobs->server->store, plan->model, &row);
    json_t *line = model != NULL && folder != NULL
                       ? job_line(config, plan->id, "plan", model, plan->model, known ? row.name : "", folder)
                       : NULL;
    json_t *request = json_loads(plan->request, 0, NULL);
    if (line != NULL && request != NULL && json_object_set(line, "request", request) == 0)
        text = json_dumps(line, JSON_COMPACT);
    store_release_model(&row);
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
        text = json_dumps(line, JSON_COMPACT);
    json_decref(line);
    return text;
}

static void free_task(struct task *task)
{
    store_release_plan(&task->plan);
    free(task);
}

/* Gives the task to a worker. False when it must be given up. */
static bool start(struct jobs *jobs, struct worker *worker, struct task *task, char *line)
{
    const struct errand *errand = task->errand;
    task->started_ms = server_now_ms();
    task->deadline_ms = task->started_ms + (uint64_t)(task->seconds + SPD_JOB_GRACE_SECONDS) * 1000;
    (void)snprintf(task->progress.phase, sizeof task->progress.phase, "start");
    if (line == NULL || !pool_assign(worker, task, line, errand != NULL ? errand->body : NULL,
                                     errand != NULL ? errand->body_size : 0)) {
        free(line);
        return false;
    }
    free(line);
    (void)pthread_mutex_lock(&jobs->mutex);
    task->next = jobs->tasks;
    jobs->tasks = task;
    (void)pthread_mutex_unlock(&jobs->mutex);
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
        if (start(jobs, worker, task, errand_line(jobs, errand, task->seconds)))
            return;
        free(task);
    }
    (void)problem_set(&errand->problem, 503, "OUT_OF_MEMORY", "Out of memory; try again later.");
    errand->done(errand);
}

static bool start_plan(struct jobs *jobs, struct worker *worker)
{
    struct task *task = calloc(1, sizeof *task);
    if (task == NULL)
        return false;
    if (!store_claim(jobs->server->store, &task->plan)) {
        free(task);
        return false;
    }
    task->is_plan = true;
    task->seconds = jobs->server->config->job_seconds;
    if (start(jobs, worker, task, plan_line(jobs, &task->plan)))
        return true;
    if (!store_requeue(jobs->server->store, task->plan.id, false))
        keep_unsaved(jobs, task->plan.id);
    free_task(task);
    return false;
}

void jobs_dispatch(struct jobs *jobs)
{
    struct worker *worker;
    while (!jobs->stopping && (worker = pool_idle(jobs->pool)) != NULL) {
        struct errand *errand = next_errand(jobs);
        if (errand != NULL)
            start_errand(jobs, worker, errand);
        else if (jobs->draining || jobs_running_plans(jobs) >= jobs->server->config->workers ||
                 !start_plan(jobs, worker))
            return;
    }
}

/* ---- ending ---- */

static void unlink_task(struct jobs *jobs, struct task *task)
{
    (void)pthread_mutex_lock(&jobs->mutex);
    struct task **at = &jobs->tasks;
    while (*at != task)
        at = &(*at)->next;
    *at = task->next;
    (void)pthread_mutex_unlock(&jobs->mutex);
}

static void finish_plan(struct jobs *jobs, const struct task *task, const struct problem *problem)
{
    char *error = problem != NULL ? problem_to_text(problem) : NULL;
    if (problem != NULL && error == NULL)
        error = strdup("{\"status\":500,\"code\":\"INTERNAL\",\"detail\":\"The plan failed and memory ran out.\"}");
    if ((problem != NULL && error == NULL) || !store_finish(jobs->server->store, task->plan.id, error))
        keep_unsaved(jobs, task->plan.id);
    free(error);
    double elapsed = (double)(server_now_ms() - task->started_ms) / 1000;
    double waited = (double)(task->plan.started_at - task->plan.created_at) / 1000;
    metrics_job(jobs->server->metrics, "plan", problem != NULL ? "failed" : "succeeded", waited, elapsed);
    LOG(LOG_INFO, "plan finished", log_s("plan", task->plan.id),
        log_s("outcome", problem != NULL ? problem->code : "succeeded"), log_i("ms", (int64_t)(elapsed * 1000)));
    jobs_notify(jobs, task->plan.id);
}

static void finish_errand(struct jobs *jobs, const struct task *task, const struct problem *problem)
{
    uint64_t now = server_now_ms();
    if (problem != NULL)
        task->errand->problem = *problem;
    metrics_job(jobs->server->metrics, task->errand->kind, problem != NULL ? "failed" : "succeeded",
                (double)(task->started_ms - task->errand->queued_ms) / 1000, (double)(now - task->started_ms) / 1000);
    task->errand->done(task->errand);
}

/* The task has an outcome: NULL for success. Frees it. */
static void finish(struct jobs *jobs, struct task *task, const struct problem *problem)
{
    unlink_task(jobs, task);
    if (task->is_plan)
        finish_plan(jobs, task, problem);
    else
        finish_errand(jobs, task, problem);
    free_task(task);
    jobs_kick(jobs);
}

static void take_progress(struct jobs *jobs, struct task *task, const json_t *message)
{
    struct job_progress progress = {
        .fraction = json_number_value(json_object_get(message, "fraction")),
        .best_seconds = json_number_value(json_object_get(message, "best_seconds")),
        .lower_bound_seconds = json_number_value(json_object_get(message, "lower_bound_seconds")),
    };
    const char *phase = json_string_value(json_object_get(message, "phase"));
    (void)snprintf(progress.phase, sizeof progress.phase, "%s", phase != NULL ? phase : "");
    (void)pthread_mutex_lock(&jobs->mutex);
    task->progress = progress;
    (void)pthread_mutex_unlock(&jobs->mutex);
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
    json_int_t resident = json_integer_value(json_object_get(message, "resident_bytes"));
    pool_release(jobs->pool, task, resident > (json_int_t)SPD_WORKER_RECYCLE_BYTES);
    if (event != NULL && strcmp(event, "done") == 0) {
        finish(jobs, task, NULL);
        return;
    }
    struct problem problem;
    problem_from_json(&problem, json_object_get(message, "problem"));
    finish(jobs, task, &problem);
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
                          "The process that worked on this died (signal %d), also when it was tried again.",
                          signal_number);
}

/* A plan whose worker died: cancelled meanwhile, to be tried again, or given up. */
static void plan_gone(struct jobs *jobs, struct task *task, const char *how, int signal_number)
{
    struct problem problem = {0};
    bool crashed = strcmp(how, "crashed") == 0, innocent = crashed && !task->taken;
    if (strcmp(how, "cancelled") == 0) {
        unlink_task(jobs, task);
        metrics_job(jobs->server->metrics, "plan", "cancelled", 0, 0);
        jobs_plan_dropped(jobs, task->plan.id);
        free_task(task);
        return;
    }
    if (strcmp(how, "stopped") == 0 || (innocent && task->plan.attempts < SPD_MAX_ATTEMPTS) ||
        (crashed && !innocent && task->plan.crashes + 1 < SPD_MAX_CRASHES)) {
        unlink_task(jobs, task);
        if (!store_requeue(jobs->server->store, task->plan.id, crashed && !innocent))
            keep_unsaved(jobs, task->plan.id);
        LOG(LOG_INFO, "plan queued again", log_s("plan", task->plan.id), log_s("reason", how));
        free_task(task);
        return;
    }
    describe_end(task, how, signal_number, &problem);
    finish(jobs, task, &problem);
}

void jobs_gone(void *context, void *job, const char *how, int signal_number)
{
    struct jobs *jobs = context;
    struct task *task = job;
    metrics_worker_ended(jobs->server->metrics, how);
    if (task->is_plan) {
        plan_gone(jobs, task, how, signal_number);
    } else if (strcmp(how, "crashed") == 0 && task->errand->crashes + task->taken < SPD_MAX_CRASHES &&
               ++task->errand->attempts < SPD_MAX_ATTEMPTS) {
        struct errand *errand = task->errand;
        struct problem problem = {0};
        errand->crashes += task->taken;
        unlink_task(jobs, task);
        free_task(task);
        if (!jobs_send(jobs, errand, &problem)) {
            errand->problem = problem;
            errand->done(errand);
        }
    } else {
        struct problem problem = {0};
        describe_end(task, how, signal_number, &problem);
        finish(jobs, task, &problem);
    }
    if (!jobs->stopping)
        jobs_kick(jobs);
}
