/* Work is given to workers: whose turn it is (schedule.h), the line that a worker gets, plans that are claimed. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/internal.h"
#include "observe/metrics.h"
#include "server.h"
#include "server_limits.h"
#include "util/json_memory.h"

/* ---- lines ---- */

/* What every job line has. */
struct job_words {
    const char *job, *kind, *id, *name; /* id and name of the model */
    const struct handover *files;
};

static json_t *job_line(const struct config *config, const struct job_words *words)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:I, s:I}", "job", words->job, "kind", words->kind, "sha256", words->id,
                     "name", words->name, "files", handover_names(words->files), "memory",
                     (json_int_t)config->job_memory, "seconds", (json_int_t)config->job_seconds);
}

static char *plan_line(const struct jobs *jobs, const struct order *claim)
{
    const struct plan_row *plan = &claim->row;
    json_t *line = job_line(jobs->server->config, &(struct job_words){.job = plan->id,
                                                                      .kind = "plan",
                                                                      .id = plan->model,
                                                                      .name = claim->name != NULL ? claim->name : "",
                                                                      .files = claim->handover});
    json_t *request = json_loads(plan->request, 0, NULL);
    char *text = NULL;
    if (line != NULL && request != NULL && json_object_set(line, "request", request) == 0)
        text = json_memory_text(line, JSON_COMPACT);
    json_decref(request);
    json_decref(line);
    return text;
}

static char *errand_line(struct jobs *jobs, const struct errand *errand, unsigned seconds)
{
    static const char *const forms[] = {"json", "text", "model"};
    bool has_model = errand->model != NULL;
    json_t *line = job_line(jobs->server->config, &(struct job_words){.job = errand->kind,
                                                                      .kind = errand->kind,
                                                                      .id = has_model ? errand->id : "",
                                                                      .name = has_model ? errand->name : "",
                                                                      .files = errand->files});
    char *text = NULL;
    if (line != NULL && json_object_set_new(line, "form", json_string(forms[errand->form])) == 0 &&
        json_object_set_new(line, "seconds", json_integer(seconds)) == 0 &&
        json_object_set_new(line, "sync", json_boolean(errand->sync)) == 0 &&
        json_object_set_new(line, "body", json_integer((json_int_t)errand->body_size)) == 0)
        text = json_memory_text(line, JSON_COMPACT);
    json_decref(line);
    return text;
}

/* ---- starting ---- */

/* Whom the worker serves with it; NULL: nobody else may have that process before or afterwards. */
static const char *served_by(const struct errand *errand)
{
    return errand->apart ? NULL : errand->tenant;
}

static const char *tenant_of(const struct task *task)
{
    return task->errand != NULL ? served_by(task->errand) : task->order->row.tenant;
}

static bool assign(struct worker *worker, struct task *task, const char *line)
{
    const struct errand *errand = task->errand;
    struct handover *files = jobs_files(task);
    int descriptors[SPD_MAX_JOB_FILES];
    assert(handover_count(files) <= SPD_MAX_JOB_FILES);
    handover_descriptors(files, descriptors);
    struct job_parcel parcel = {
        .tenant = tenant_of(task), .line = line, .files = descriptors, .file_count = handover_count(files)};
    if (errand != NULL) {
        parcel.body = errand->body;
        parcel.body_size = errand->body_size;
    }
    if (!pool_assign(worker, task, &parcel))
        return false;
    handover_given(files);
    task->worker = pool_number(worker);
    if (errand != NULL)
        task->errand->worker = task->worker;
    return true;
}

/* Gives the task to a worker. False without memory. */
static bool start(struct jobs *jobs, struct worker *worker, struct task *task, char *line)
{
    const struct errand *errand = task->errand;
    task->line = line;
    if (line == NULL || !assign(worker, task, line))
        return false;
    task->state = TASK_RUNNING;
    task->started_ms = server_now_ms();
    task->deadline_ms = task->started_ms + (uint64_t)(task->seconds + SPD_JOB_GRACE_SECONDS) * 1000;
    metrics_job_started(jobs->server->metrics, errand != NULL ? errand->kind : "plan");
    return true;
}

/* A model may be large; a sharding never needs that long, and nobody waits that long for one. */
static unsigned errand_seconds(const struct config *config, const struct errand *errand)
{
    return errand->model == NULL && config->job_seconds > SPD_SHARDING_SECONDS ? SPD_SHARDING_SECONDS
                                                                               : config->job_seconds;
}

static void end_turn(struct jobs *jobs, struct turn *turn)
{
    (void)pthread_mutex_lock(&jobs->mutex);
    schedule_end(jobs->schedule, turn, server_now_us());
    (void)pthread_mutex_unlock(&jobs->mutex);
}

static void start_errand(struct jobs *jobs, struct worker *worker, struct errand *errand, struct turn turn)
{
    struct task *task = calloc(1, sizeof *task);
    if (task != NULL) {
        task->errand = errand;
        task->turn = turn;
        task->seconds = errand_seconds(jobs->server->config, errand);
        if (start(jobs, worker, task, errand_line(jobs, errand, task->seconds))) {
            jobs_link_task(jobs, task);
            return;
        }
        jobs_free_task(task);
    }
    end_turn(jobs, &turn);
    (void)problem_no_memory(&errand->problem);
    jobs_errand_over(errand);
}

static void start_plan(struct jobs *jobs, struct worker *worker, struct task *task)
{
    struct problem problem = {0};
    if (start(jobs, worker, task, plan_line(jobs, task->order))) {
        jobs_set_phase(jobs, task, "start");
    } else if (task->attempt < SPD_MAX_ATTEMPTS) {
        jobs_requeue_task(jobs, task, false);
    } else {
        (void)problem_set(&problem, 500, "NOT_STARTED",
                          "The plan could not be given to a worker, also when that was tried again; submit it anew.");
        jobs_finish_plan(jobs, task, PLAN_FAILED, false, &problem);
    }
}

/* ---- plans of the store ---- */

static unsigned plans_here(const struct jobs *jobs)
{
    unsigned count = 0;
    for (const struct task *task = jobs->tasks; task != NULL; task = task->next)
        count += task->errand == NULL && task->state != TASK_ENDING &&
                 (task->state != TASK_STORING || task->fetch_ms != 0); /* one that cannot be stored keeps its place */
    return count;
}

static bool may_claim(const struct jobs *jobs)
{
    return !jobs->stopping && !jobs->draining && !jobs->claiming && plans_here(jobs) < jobs->server->config->workers;
}

/* Asks the store for a queued plan of the turn's tenant, and who has plans besides; jobs_claimed() gets the answer. False
   without memory, and the turn is over. */
static bool claim(struct jobs *jobs, struct turn *turn)
{
    struct order *order = calloc(1, sizeof *order);
    jobs->claim_ms = server_now_ms() + SPD_CLAIM_MS;
    if (order == NULL) {
        end_turn(jobs, turn);
        return false;
    }
    order->kind = ORDER_CLAIM;
    (void)pthread_mutex_lock(&jobs->mutex);
    order->mark = heard_mark(jobs->heard);
    (void)pthread_mutex_unlock(&jobs->mutex);
    order->claims = turn->account != NULL;
    if (order->claims)
        (void)snprintf(order->tenant, sizeof order->tenant, "%s", turn_tenant(turn));
    atomic_store(&jobs->claiming, true);
    jobs->claim_turn = *turn;
    ledger_order(jobs->ledger, order);
    return true;
}

/* What the daemon lacks at the moment is tried again. */
static void no_files(struct jobs *jobs, struct task *task)
{
    const struct problem problem = task->order->problem;
    if (problem.status == 503 && task->attempt < SPD_MAX_ATTEMPTS)
        jobs_requeue_task(jobs, task, false);
    else
        jobs_finish_plan(jobs, task, PLAN_FAILED, false, &problem);
}

static void take_claim(struct jobs *jobs, struct order *order)
{
    struct task *task = order->blob[0] != '\0' ? calloc(1, sizeof *task) : NULL;
    if (task == NULL) {
        end_turn(jobs, &jobs->claim_turn);
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
    jobs_link_task(jobs, task);
    events_begin(jobs->events, task->plan);
    jobs_set_phase(jobs, task, "start");
    end_turn(jobs, &jobs->claim_turn); /* it has another one when its files are there */
    if (order->handover == NULL)
        no_files(jobs, task);
    else
        jobs_fetch(jobs, task);
}

void jobs_claimed(struct jobs *jobs, struct order *order)
{
    (void)pthread_mutex_lock(&jobs->mutex);
    schedule_offer(jobs->schedule, (const char(*)[SPD_MAX_PRINCIPAL + 1]) order->tenants, order->tenant_count,
                   server_now_us());
    if (order->has_all)
        heard_forget(jobs->heard, order->mark);
    (void)pthread_mutex_unlock(&jobs->mutex);
    if (order->found == STORE_DONE) {
        take_claim(jobs, order);
    } else {
        end_turn(jobs, &jobs->claim_turn);
        order_release(order);
    }
    atomic_store(&jobs->claiming, false);
}

/* ---- whose turn it is ---- */

/* The turn ends unused, and its work waits for another one. Its tenant is known to the schedule, so there is no need of memory. */
static void wait_again(struct jobs *jobs, struct turn *turn)
{
    struct work *work = turn->work;
    (void)pthread_mutex_lock(&jobs->mutex);
    const uint64_t now_us = server_now_us();
    const enum schedule_added added = schedule_add(jobs->schedule, turn_tenant(turn), work, true, now_us);
    assert(added == SCHEDULE_ADDED);
    (void)added;
    schedule_end(jobs->schedule, turn, now_us);
    (void)pthread_mutex_unlock(&jobs->mutex);
}

static bool next_turn(struct jobs *jobs, struct turn *ret_turn)
{
    const bool claims = may_claim(jobs);
    (void)pthread_mutex_lock(&jobs->mutex);
    const bool found = schedule_pick(jobs->schedule, claims, server_now_us(), ret_turn);
    (void)pthread_mutex_unlock(&jobs->mutex);
    return found;
}

static void heard_enough(uv_timer_t *timer)
{
    jobs_dispatch(timer->data);
}

/* Tenants of whom one has heard for long enough are offered; what is heard while nothing may be claimed waits. */
static void offer_heard(struct jobs *jobs)
{
    char tenant[SPD_MAX_PRINCIPAL + 1];
    const uint64_t now = server_now_ms();
    if (!may_claim(jobs))
        return;
    (void)pthread_mutex_lock(&jobs->mutex);
    while (heard_take(jobs->heard, now, tenant))
        schedule_offer_one(jobs->schedule, tenant, server_now_us());
    const uint64_t due = heard_due(jobs->heard);
    (void)pthread_mutex_unlock(&jobs->mutex);
    if (due != UINT64_MAX)
        (void)uv_timer_start(&jobs->hearing, heard_enough, due - now, 0);
}

/* The work of this turn is given to a worker, which may be a new process. False when none can be started: the work waits again,
   for the next time that somebody looks. */
static bool use_worker(struct jobs *jobs, struct turn *turn)
{
    struct work *work = turn->work;
    struct task *task = turn->class == WORK_PLAN ? work->owner : NULL;
    struct errand *errand = task == NULL ? work->owner : NULL;
    struct worker *worker = pool_worker_for(jobs->pool, task != NULL ? tenant_of(task) : served_by(errand));
    if (worker == NULL) {
        wait_again(jobs, turn);
        return false;
    }
    if (task != NULL) {
        task->turn = *turn;
        start_plan(jobs, worker, task);
    } else {
        start_errand(jobs, worker, errand, *turn);
    }
    return true;
}

void jobs_dispatch(struct jobs *jobs)
{
    struct turn turn = {0};
    offer_heard(jobs);
    if (atomic_exchange(&jobs->changed, false))
        jobs->claim_ms = 0;
    while (!jobs->stopping && pool_idle_count(jobs->pool) > (jobs->claim_turn.account != NULL) &&
           next_turn(jobs, &turn)) {
        if (!(turn.work == NULL ? claim(jobs, &turn) : use_worker(jobs, &turn)))
            return; /* it would be the same turn again */
    }
    turn = (struct turn){0};
    if (may_claim(jobs) && server_now_ms() >= jobs->claim_ms)
        (void)claim(jobs, &turn);
}
