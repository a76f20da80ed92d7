#include "jobs/ledger.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "jobs/plan_files.h"
#include "observe/log.h"
#include "server.h"
#include "server_limits.h"
#include "store/blobs.h"
#include "store/files.h"
#include "store/folder.h"
#include "store/objects/results.h"

struct queue {
    struct order *first, *last;
    unsigned count;
    uint64_t due_ms; /* not before, since the store refused the first one */
};

struct ledger {
    struct server *server;
    void (*answered)(void *context);
    void *context;
    pthread_t thread;

    pthread_mutex_t mutex; /* guards the members up to the next blank line */
    pthread_cond_t work;
    struct queue queues[ORDER_KINDS];
    struct queue answers;
    bool look_at_all, stopped;
    bool has_news; /* since the last step */

    char held[SPD_MAX_HELD][STORE_ID_SIZE]; /* the plans that were claimed, until the store knows how they ended */
    unsigned held_count;
    unsigned turn;                     /* the kind that is looked at first: each has its turn */
    char first[SPD_MAX_PRINCIPAL + 1]; /* the tenant with which the next look at who has queued plans begins */
    uint64_t beat_ms, reclaim_ms, expire_ms;
};

void order_release(struct order *order)
{
    if (order == NULL)
        return;
    store_release_plan(&order->row);
    handover_destroy(order->handover);
    free(order->error);
    free(order->files);
    free(order->name);
    free(order->tenants);
    free(order);
}

static void push(struct queue *queue, struct order *order)
{
    order->next = NULL;
    if (queue->last != NULL)
        queue->last->next = order;
    else
        queue->first = order;
    queue->last = order;
    queue->count++;
}

static struct order *pop(struct queue *queue)
{
    struct order *order = queue->first;
    queue->first = order->next;
    if (queue->first == NULL)
        queue->last = NULL;
    queue->count--;
    order->next = NULL;
    return order;
}

/* Back to where it was taken from. */
static void unpop(struct queue *queue, struct order *order)
{
    order->next = queue->first;
    queue->first = order;
    if (queue->last == NULL)
        queue->last = order;
    queue->count++;
}

/* ---- orders, from any thread ---- */

void ledger_order(struct ledger *ledger, struct order *order)
{
    struct order *dropped = NULL;
    /* Progress that is queued here while the store is away would be old when it is back. */
    const unsigned most = order->kind == ORDER_PROGRESS    ? SPD_MAX_WORKERS
                          : order->kind == ORDER_UNRESERVE ? SPD_MAX_UNENDED
                                                           : UINT_MAX;
    (void)pthread_mutex_lock(&ledger->mutex);
    if (ledger->queues[order->kind].count >= most)
        dropped = order;
    else
        push(&ledger->queues[order->kind], order);
    ledger->has_news = true;
    (void)pthread_cond_signal(&ledger->work);
    (void)pthread_mutex_unlock(&ledger->mutex);
    order_release(dropped);
}

void ledger_look(struct ledger *ledger, const char *plan, bool is_deleted)
{
    struct order *order = plan != NULL ? calloc(1, sizeof *order) : NULL;
    if (order != NULL) {
        order->kind = ORDER_LOOK;
        order->is_deleted = is_deleted;
        (void)snprintf(order->plan, sizeof order->plan, "%s", plan);
    }
    (void)pthread_mutex_lock(&ledger->mutex);
    if (order != NULL && ledger->queues[ORDER_LOOK].count < SPD_MAX_LOOKS) {
        push(&ledger->queues[ORDER_LOOK], order);
        order = NULL;
    } else {
        ledger->look_at_all = true;
    }
    ledger->has_news = true;
    (void)pthread_cond_signal(&ledger->work);
    (void)pthread_mutex_unlock(&ledger->mutex);
    order_release(order);
}

struct order *ledger_answers(struct ledger *ledger)
{
    (void)pthread_mutex_lock(&ledger->mutex);
    struct order *list = ledger->answers.first;
    ledger->answers = (struct queue){0};
    (void)pthread_mutex_unlock(&ledger->mutex);
    return list;
}

bool ledger_look_at_all(struct ledger *ledger)
{
    (void)pthread_mutex_lock(&ledger->mutex);
    /* With many looks under way still, those come first. */
    bool all = ledger->look_at_all && ledger->queues[ORDER_LOOK].count < SPD_MAX_LOOKS / 2;
    if (all)
        ledger->look_at_all = false;
    (void)pthread_mutex_unlock(&ledger->mutex);
    return all;
}

/* ---- doing them, in the thread ---- */

static void remove_plan(const struct ledger *ledger, const char *plan)
{
    char *folder = files_plan_folder(ledger->server->config->data, plan);
    if (folder != NULL)
        files_remove_folder(folder);
    free(folder);
}

static void remove_attempt(const struct ledger *ledger, const char *plan, int64_t attempt)
{
    char *folder = files_attempt_folder(ledger->server->config->data, plan, attempt);
    if (folder != NULL)
        files_remove_folder(folder);
    free(folder);
}

/* The store knows how the plan ended; the last one takes its place. */
static void let_go(struct ledger *ledger, const char *plan)
{
    for (unsigned i = 0; i < ledger->held_count; i++) {
        if (strcmp(ledger->held[i], plan) == 0) {
            memmove(ledger->held[i], ledger->held[--ledger->held_count], STORE_ID_SIZE);
            return;
        }
    }
}

/* Room for one more tenant: it doubles. Without memory the rest is looked at the next time. */
static bool make_room(struct order *order)
{
    const size_t count = order->tenant_count;
    if (count >= SPD_MAX_OFFERED)
        return false;
    if ((count & (count - 1)) != 0)
        return true; /* there is some, as long as the count is no power of two */
    void *room = realloc(order->tenants, (count > 0 ? 2 * count : 1) * sizeof order->tenants[0]);
    if (room != NULL)
        order->tenants = room;
    return room != NULL;
}

static void add_tenant(void *context, const char *tenant)
{
    struct order *order = context;
    if (!make_room(order))
        order->lacks_memory = true;
    else
        (void)snprintf(order->tenants[order->tenant_count++], SPD_MAX_PRINCIPAL + 1, "%s", tenant);
}

/* The tenants that have queued plans; where there are too many, others the next time. */
static void find_tenants(struct ledger *ledger, struct order *order)
{
    const bool is_whole = ledger->first[0] == '\0';
    const bool ok = store_list_waiting(ledger->server->store, ledger->first, SPD_MAX_OFFERED, add_tenant, order);
    order->has_all = ok && is_whole && order->tenant_count < SPD_MAX_OFFERED && !order->lacks_memory;
    ledger->first[0] = '\0';
    if (order->tenant_count == SPD_MAX_OFFERED)
        memcpy(ledger->first, order->tenants[SPD_MAX_OFFERED - 1], sizeof ledger->first);
}

static void claim_plan(struct ledger *ledger, struct order *order)
{
    struct model_row model = {0};
    order->found = store_claim(ledger->server->store, order->tenant, &order->row);
    if (order->found != STORE_DONE) {
        order->row = (struct plan_row){0};
        return;
    }
    memcpy(order->plan, order->row.id, sizeof order->plan);
    memcpy(ledger->held[ledger->held_count++], order->row.id, sizeof order->row.id);
    order->attempt = order->row.attempts;
    if (store_get_model(ledger->server->store, order->row.tenant, order->row.model, &model) == STORE_DONE) {
        order->name = model.name; /* what to call the model in the plan: nothing else depends on it */
        model.name = NULL;
        memcpy(order->blob, model.blob, sizeof order->blob);
        order->blob_bytes = (uint64_t)model.bytes;
    }
    store_release_model(&model);
    /* Those that it reads are opened when they are there and were found right (transferring.c). */
    const struct server *server = ledger->server;
    (void)plan_files_prepare(server->config->data, server->owner, &order->handover, &order->problem);
}

static void claim(struct ledger *ledger, struct order *order)
{
    struct problem problem = {0};
    order->found = STORE_ERROR;
    if (!folder_look(ledger->server->folder, &problem) || ledger->held_count >= SPD_MAX_HELD)
        return;
    order->found = STORE_NOT_FOUND;
    if (order->claims)
        claim_plan(ledger, order);
    if (order->found != STORE_ERROR)
        find_tenants(ledger, order);
}

/* False when the store does not say at the moment. */
static bool tidy(const struct ledger *ledger, const struct order *order)
{
    struct plan_row row;
    const enum store_found found =
        order->is_deleted ? STORE_NOT_FOUND : store_get_plan(ledger->server->store, NULL, order->plan, &row);
    if (found == STORE_ERROR)
        return false;
    if (found == STORE_NOT_FOUND) {
        remove_plan(ledger, order->plan);
        if (order->attempt > 0) /* which may have stored something since the plan was deleted */
            results_remove(ledger->server->blobs, order->plan, INT64_MAX);
        return true;
    }
    /* The attempt that counts may be this very one: the store took its end, and the answer was lost on the way. */
    if (row.attempts > order->attempt) {
        remove_attempt(ledger, order->plan, order->attempt);
        results_remove(ledger->server->blobs, order->plan, row.attempts);
    }
    store_release_plan(&row);
    return true;
}

/* A file of the plan could not be read or written. */
static void judge_failure(const struct ledger *ledger, struct order *order)
{
    struct problem problem = {0};
    if (!order->of_files || order->judged || order->attempt >= SPD_MAX_ATTEMPTS)
        return;
    order->judged = true;
    bool is_away = !folder_look(ledger->server->folder, &problem);
    order->crashed = !is_away;
    order->requeue = is_away || order->crashes + 1 < SPD_MAX_CRASHES;
    if (order->requeue)
        LOG(LOG_WARNING, "plan queued again", log_s("plan", order->plan), log_s("reason", "files"),
            log_s("folder", is_away ? problem.code : "usable"));
}

static bool tell_end(struct ledger *ledger, struct order *order)
{
    struct store *store = ledger->server->store;
    judge_failure(ledger, order);
    order->changed = order->requeue ? store_requeue(store, order->plan, order->attempt, order->crashed)
                                    : store_finish(store, order->plan, order->attempt, order->state, order->has_result,
                                                   order->error, order->files);
    if (order->changed == STORE_BROKEN)
        return false;
    if (order->changed == STORE_LOST)
        return tidy(ledger, order);
    if (order->requeue)
        remove_attempt(ledger, order->plan, order->attempt);
    else if (!order->has_result)
        remove_plan(ledger, order->plan);
    else if (order->attempt > 1)
        files_remove_attempts(ledger->server->config->data, order->plan, order->attempt);
    /* Of objects there are some where an attempt came so far. */
    if (!order->requeue && (order->attempt > 1 || order->stored))
        results_remove(ledger->server->blobs, order->plan, order->has_result ? order->attempt : INT64_MAX);
    return true;
}

static bool unreserve(const struct ledger *ledger, const struct order *order)
{
    if (!store_unreserve(ledger->server->store, order->number))
        return false;
    blobs_tidy(ledger->server->blobs, order->model);
    return true;
}

/* Here, where that may wait for a disk. */
static void close_files(struct order *order)
{
    handover_destroy(order->handover);
    order->handover = NULL;
}

/* Whether that is done; else it is tried again later. */
static bool work(struct ledger *ledger, struct order *order)
{
    switch (order->kind) {
    case ORDER_CLAIM:
        claim(ledger, order);
        return true;
    case ORDER_END:
        if (!tell_end(ledger, order))
            return false;
        let_go(ledger, order->plan);
        close_files(order);
        return true;
    case ORDER_LOOK:
        order->found =
            order->is_deleted ? STORE_NOT_FOUND : store_get_plan(ledger->server->store, NULL, order->plan, &order->row);
        if (order->found != STORE_DONE)
            order->row = (struct plan_row){0};
        return order->found != STORE_ERROR;
    case ORDER_PROGRESS:
        store_progress(ledger->server->store, order->plan, order->attempt, &order->progress);
        return true;
    case ORDER_UNRESERVE:
        return unreserve(ledger, order);
    default:
        return tidy(ledger, order);
    }
}

/* ---- what is done by itself ---- */

static void reclaim(struct ledger *ledger)
{
    int64_t count = store_reclaim(ledger->server->store, false);
    if (count > 0)
        LOG(LOG_WARNING, "plans of silent daemons queued again", log_i("count", count));
}

struct expired {
    struct ledger *ledger;
    int count;
};

static void plan_expired(void *context, const char *id)
{
    struct expired *expired = context;
    expired->count++;
    remove_plan(expired->ledger, id);
    results_remove(expired->ledger->server->blobs, id, INT64_MAX);
}

/* Whether there may be more. */
static bool expire(struct ledger *ledger)
{
    struct expired expired = {.ledger = ledger};
    const struct config *config = ledger->server->config;
    int64_t now = store_time(ledger->server->store);
    if (now == 0)
        return false;
    int64_t before = config->keep_seconds > 0 ? now - (int64_t)config->keep_seconds * 1000 : 0;
    (void)store_expire(ledger->server->store, before, SPD_EXPIRE_BATCH, plan_expired, &expired);
    if (expired.count > 0)
        LOG(LOG_INFO, "old plans deleted", log_i("count", expired.count));
    return expired.count == SPD_EXPIRE_BATCH;
}

/* Does one thing that is due; false when nothing is. */
static bool do_due(struct ledger *ledger, uint64_t now)
{
    if (now >= ledger->beat_ms) {
        ledger->beat_ms = now + SPD_BEAT_MS;
        (void)store_beat(ledger->server->store, ledger->held, ledger->held_count);
    } else if (now >= ledger->reclaim_ms) {
        ledger->reclaim_ms = now + (uint64_t)ledger->server->config->lease_seconds * 1000 / 3;
        reclaim(ledger);
    } else if (now >= ledger->expire_ms) {
        ledger->expire_ms = expire(ledger) ? now : now + SPD_EXPIRE_MS;
    } else {
        return false;
    }
    return true;
}

static uint64_t next_due(const struct ledger *ledger)
{
    uint64_t due = ledger->beat_ms < ledger->reclaim_ms ? ledger->beat_ms : ledger->reclaim_ms;
    return due < ledger->expire_ms ? due : ledger->expire_ms;
}

/* ---- the thread; the mutex is held between its steps ---- */

/* The queue that has its turn, or NULL; *ret_due is when the next one has. */
static struct queue *pick(struct ledger *ledger, uint64_t now, uint64_t *ret_due)
{
    for (unsigned i = 0; i < ORDER_KINDS; i++) {
        struct queue *queue = &ledger->queues[(ledger->turn + i) % ORDER_KINDS];
        if (queue->first == NULL)
            continue;
        if (queue->due_ms <= now) {
            ledger->turn = (ledger->turn + i + 1) % ORDER_KINDS;
            return queue;
        }
        if (queue->due_ms < *ret_due)
            *ret_due = queue->due_ms;
    }
    return NULL;
}

/* Until then, or until there are orders. */
static void rest(struct ledger *ledger, uint64_t milliseconds)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    uint64_t nanoseconds = (uint64_t)until.tv_nsec + milliseconds % 1000 * 1000000;
    until.tv_sec += (time_t)(milliseconds / 1000 + nanoseconds / 1000000000);
    until.tv_nsec = (long)(nanoseconds % 1000000000);
    (void)pthread_mutex_lock(&ledger->mutex);
    if (!ledger->has_news && !ledger->stopped)
        (void)pthread_cond_timedwait(&ledger->work, &ledger->mutex, &until);
    (void)pthread_mutex_unlock(&ledger->mutex);
}

static void do_order(struct ledger *ledger, struct queue *queue)
{
    struct order *order = pop(queue);
    (void)pthread_mutex_unlock(&ledger->mutex);
    bool done = work(ledger, order);
    const bool answers = done && order->kind <= ORDER_LOOK;
    if (done && !answers)
        order_release(order);
    (void)pthread_mutex_lock(&ledger->mutex);
    if (!done) {
        unpop(queue, order);
        queue->due_ms = server_now_ms() + SPD_STORE_RETRY_MS;
    }
    if (!answers)
        return;
    push(&ledger->answers, order);
    (void)pthread_mutex_unlock(&ledger->mutex);
    ledger->answered(ledger->context);
    (void)pthread_mutex_lock(&ledger->mutex);
}

bool ledger_step(struct ledger *ledger, uint64_t *ret_rest_ms)
{
    uint64_t now = server_now_ms(), due = next_due(ledger);
    const bool is_due = now >= due;
    if (is_due) {
        (void)do_due(ledger, now);
        /* An order between two of these: many old plans hold nobody up. */
        now = server_now_ms();
    }
    (void)pthread_mutex_lock(&ledger->mutex);
    ledger->has_news = false;
    struct queue *queue = pick(ledger, now, &due);
    if (queue != NULL)
        do_order(ledger, queue);
    (void)pthread_mutex_unlock(&ledger->mutex);
    *ret_rest_ms = due > now ? due - now : 0;
    return is_due || queue != NULL;
}

static bool is_stopped(struct ledger *ledger)
{
    (void)pthread_mutex_lock(&ledger->mutex);
    const bool stopped = ledger->stopped;
    (void)pthread_mutex_unlock(&ledger->mutex);
    return stopped;
}

static void *run(void *context)
{
    struct ledger *ledger = context;
    uint64_t rest_ms = 0;
    while (!is_stopped(ledger)) {
        if (!ledger_step(ledger, &rest_ms) && rest_ms > 0)
            rest(ledger, rest_ms);
    }
    return NULL;
}

/* ---- life ---- */

struct ledger *ledger_create(struct server *server, void (*answered)(void *context), void *context)
{
    struct ledger *ledger = calloc(1, sizeof *ledger);
    pthread_condattr_t attributes;
    if (ledger == NULL)
        return NULL;
    ledger->server = server;
    ledger->answered = answered;
    ledger->context = context;
    ledger->reclaim_ms = ledger->beat_ms = server_now_ms(); /* the start itself has reclaimed what there was */
    (void)pthread_mutex_init(&ledger->mutex, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&ledger->work, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    return ledger;
}

bool ledger_start(struct ledger *ledger)
{
    return pthread_create(&ledger->thread, NULL, run, ledger) == 0;
}

static void forget(struct queue *queue)
{
    while (queue->first != NULL)
        order_release(pop(queue));
}

void ledger_stop(struct ledger *ledger)
{
    (void)pthread_mutex_lock(&ledger->mutex);
    ledger->stopped = true;
    (void)pthread_cond_signal(&ledger->work);
    (void)pthread_mutex_unlock(&ledger->mutex);
    (void)pthread_join(ledger->thread, NULL);
}

void ledger_destroy(struct ledger *ledger)
{
    if (ledger == NULL)
        return;
    for (unsigned i = 0; i < ORDER_KINDS; i++)
        forget(&ledger->queues[i]);
    forget(&ledger->answers);
    (void)pthread_cond_destroy(&ledger->work);
    (void)pthread_mutex_destroy(&ledger->mutex);
    free(ledger);
}
