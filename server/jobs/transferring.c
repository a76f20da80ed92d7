/*
 * What threads of the blobs do for a plan: they see that its model and the plan that it follows are there and right, and
 * open them, before it begins; and store its result, with its sums or in an object store, before the store is told of
 * its end. A task is its thread's own until it is in the list.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/internal.h"
#include "jobs/plan_files.h"
#include "server.h"
#include "store/integrity/stored.h"
#include "store/objects/results.h"

static void give_back(struct task *task)
{
    struct jobs *jobs = task->jobs;
    (void)pthread_mutex_lock(&jobs->mutex);
    task->next_moved = jobs->moved;
    jobs->moved = task;
    (void)pthread_mutex_unlock(&jobs->mutex);
    jobs_kick(jobs);
}

static void hand_over(struct jobs *jobs, struct task *task, enum task_state state,
                      void (*run)(struct transfer *transfer))
{
    task->state = state;
    task->fetch_ms = 0;
    task->jobs = jobs;
    task->problem = (struct problem){0};
    task->transfer = (struct transfer){.run = run, .context = task};
    blobs_send(jobs->server->blobs, &task->transfer);
}

/* ---- before it begins ---- */

/* The plan that this one follows. One that is gone is found out when it is opened. */
static bool fetch_past(struct task *task)
{
    struct server *server = task->jobs->server;
    json_t *request = json_loads(task->order->row.request, 0, NULL);
    const json_t *from = json_object_get(request, "from");
    const char *plan = json_string_value(json_object_get(from, "plan"));
    struct plan_row row = {0};
    struct blob_file file;
    enum store_found found = plan != NULL ? store_get_plan(server->store, NULL, plan, &row) : STORE_NOT_FOUND;
    bool ok = true;
    if (found == STORE_ERROR)
        ok = problem_set(&task->problem, 503, "STORE_UNAVAILABLE", "The store does not answer at the moment.");
    else if (found == STORE_DONE && row.attempts == json_integer_value(json_object_get(from, "attempt")))
        ok = results_file(&row, "plan.json", &file, NULL)
                 ? stored_hold(server->stored, &file, &task->past, &task->problem)
                 : stored_check_result(server->stored, &row, &task->problem);
    if (found == STORE_DONE)
        store_release_plan(&row);
    json_decref(request);
    return ok;
}

static void fetch(struct transfer *transfer)
{
    struct task *task = transfer->context;
    const struct server *server = task->jobs->server;
    const struct order *order = task->order;
    const struct blob_file model = blobs_model(order->blob, order->blob_bytes);
    (void)((task->hold.is_held || stored_hold(server->stored, &model, &task->hold, &task->problem)) &&
           fetch_past(task) &&
           plan_files_add_inputs(server->config->data, &order->row, order->blob, order->handover, &task->problem));
    give_back(task);
}

void jobs_fetch(struct jobs *jobs, struct task *task)
{
    hand_over(jobs, task, TASK_FETCHING, fetch);
}

/* ---- when it has a result ---- */

static void store(struct transfer *transfer)
{
    struct task *task = transfer->context;
    const struct server *server = task->jobs->server;
    struct order *order = task->order;
    if (!order->is_stored)
        order->is_stored = plan_files_store(server->config->data, &order->row, order->handover, &task->problem);
    if (!order->is_stored && plan_files_refused(&task->problem))
        pool_refuse(task->jobs->pool, task->worker);
    if (order->is_stored && blobs_are_remote(server->blobs))
        (void)results_store(server->blobs, server->config->data, task->plan, task->attempt, &order->files,
                            &task->problem);
    else if (order->is_stored && (order->files = stored_seal_result(server->stored, task->plan, task->attempt)) == NULL)
        (void)problem_no_memory(&task->problem);
    give_back(task);
}

void jobs_store(struct jobs *jobs, struct task *task)
{
    task->order->stored = true;
    hand_over(jobs, task, TASK_STORING, store);
}

struct task *jobs_moved(struct jobs *jobs)
{
    (void)pthread_mutex_lock(&jobs->mutex);
    struct task *list = jobs->moved;
    jobs->moved = NULL;
    (void)pthread_mutex_unlock(&jobs->mutex);
    return list;
}
