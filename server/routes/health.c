/* Whether the process serves (/livez), and whether new work is welcome (/readyz). */
#include <pthread.h>
#include <stdarg.h>
#include <string.h>

#include "http/respond.h"
#include "jobs/jobs.h"
#include "routes/routes.h"
#include "store/blobs.h"
#include "store/files.h"
#include "store/folder.h"
#include "store/store.h"

enum verdict livez_finish(struct request *request)
{
    uint64_t turned = atomic_load(&request->server->heartbeat_ms), now = server_now_ms();
    if (now > turned + SPD_HEARTBEAT_MS)
        return respond_error(request, 503, "STUCK", "The main loop has not turned for %u seconds.",
                             (unsigned)((now - turned) / 1000));
    return respond_text(request, 200, "text/plain; charset=utf-8", "ok\n");
}

/* ---- what the store says ---- */

struct store_state {
    bool writable, counted;
    char why[SP_ERROR_MESSAGE_SIZE];
    int64_t queued;
};

static void ask_store(struct store *store, struct store_state *ret_state)
{
    struct problem problem = {0};
    struct store_counts counts;
    *ret_state = (struct store_state){.writable = store_ping(store, &problem)};
    (void)snprintf(ret_state->why, sizeof ret_state->why, "%s", problem.detail);
    ret_state->counted = ret_state->writable && store_count(store, &counts);
    ret_state->queued = ret_state->counted ? counts.plans[PLAN_QUEUED] : 0;
}

/* Anybody may ask whether the daemon is ready, as often as they like. The store is asked now and then, by one at a
   time: when it is away that takes seconds, and the others are told what is known. */
static void look_at_store(struct store *store, struct store_state *ret_state)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static struct store_state last;
    static uint64_t looked_ms;
    static bool looking;
    (void)pthread_mutex_lock(&mutex);
    uint64_t now = server_now_ms();
    bool known = looked_ms != 0 && (looking || now - looked_ms < SPD_READY_MS);
    *ret_state = last;
    if (!known)
        looking = true;
    (void)pthread_mutex_unlock(&mutex);
    if (known)
        return;
    ask_store(store, ret_state);
    (void)pthread_mutex_lock(&mutex);
    last = *ret_state;
    looked_ms = server_now_ms();
    looking = false;
    (void)pthread_mutex_unlock(&mutex);
}

/* ---- the conditions ---- */

#define MAX_CONDITIONS 8

struct condition {
    const char *name;
    bool ok;
    char code[SP_ERROR_CODE_SIZE];         /* of the problem */
    char text[SP_ERROR_MESSAGE_SIZE + 64]; /* a sentence, good or bad */
};

struct conditions {
    struct condition list[MAX_CONDITIONS];
    unsigned count;
};

__attribute__((format(printf, 4, 0))) static void add(struct conditions *conditions, const char *name, const char *code,
                                                      const char *format, va_list args)
{
    struct condition *condition = &conditions->list[conditions->count++];
    *condition = (struct condition){.name = name, .ok = code == NULL};
    (void)snprintf(condition->code, sizeof condition->code, "%s", code != NULL ? code : "");
    (void)vsnprintf(condition->text, sizeof condition->text, format, args);
}

__attribute__((format(printf, 3, 4))) static void good(struct conditions *conditions, const char *name,
                                                       const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(conditions, name, NULL, format, args);
    va_end(args);
}

__attribute__((format(printf, 4, 5))) static void not_ready(struct conditions *conditions, const char *name,
                                                            const char *code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(conditions, name, code, format, args);
    va_end(args);
}

static void look_at_disk(struct server *server, struct conditions *conditions)
{
    struct problem problem = {0};
    uint64_t bytes = files_free_bytes(server->config->data);
    unsigned long long mebibytes = bytes >> 20;
    if (!folder_look(server->folder, &problem))
        not_ready(conditions, "disk", problem.code, "%s", problem.detail);
    else if (bytes == UINT64_MAX)
        good(conditions, "disk", "The free space of the data folder is not known.");
    else if (bytes >= SPD_MIN_FREE_BYTES)
        good(conditions, "disk", "The disk of the data folder has %llu MiB left.", mebibytes);
    else
        not_ready(conditions, "disk", "DISK_FULL", "The disk of the data folder has only %llu MiB left.", mebibytes);
}

static void look_at_blobs(struct server *server, struct conditions *conditions)
{
    struct problem problem = {0};
    if (!blobs_are_remote(server->blobs))
        return;
    if (blobs_usable(server->blobs, &problem))
        good(conditions, "blobs", "The object store answers.");
    else
        not_ready(conditions, "blobs", problem.code, "%s", problem.detail);
}

/* Missing ones are no reason not to serve: who wants that says --require-sandbox. */
static void look_at_walls(const struct sandbox_walls *walls, struct conditions *conditions)
{
    char text[SANDBOX_TEXT_SIZE];
    const bool is_whole = sandbox_is_whole(walls);
    sandbox_describe(walls, is_whole, text);
    good(conditions, "sandbox",
         is_whole ? "Workers are locked up: %s." : "Workers lack walls that they should have: %s.", text);
}

static void look_at_queue(const struct store_state *store, unsigned most, struct conditions *conditions)
{
    if (store->queued < (int64_t)most)
        good(conditions, "queue", "The queue has room: %lld of %u plans.", (long long)store->queued, most);
    else
        not_ready(conditions, "queue", "QUEUE_FULL", "The queue is full: %lld of %u plans.", (long long)store->queued,
                  most);
}

/* Why the store fails names hosts and users, so that is for operators, and for the log. */
static void look(struct server *server, bool verbose, struct conditions *conditions)
{
    const struct config *config = server->config;
    struct job_stats stats;
    struct store_state store;
    jobs_stats(server->jobs, &stats);
    look_at_store(server->store, &store);
    if (atomic_load(&server->leaving))
        not_ready(conditions, "life", "STOPPING", "The service is stopping.");
    else
        good(conditions, "life", "The service is not stopping.");
    if (stats.workers == 0)
        not_ready(conditions, "workers", "NO_WORKERS", "No worker process runs at this moment.");
    else
        good(conditions, "workers", "%u of %u worker processes run.", stats.workers,
             config->workers + SPD_SPARE_WORKERS);
    look_at_walls(&server->walls, conditions);
    look_at_disk(server, conditions);
    look_at_blobs(server, conditions);
    if (store.writable && store.counted)
        good(conditions, "store", "The store can be written.");
    else if (store.writable)
        not_ready(conditions, "store", "STORE_UNAVAILABLE", "The store cannot be read.");
    else
        not_ready(conditions, "store", "STORE_UNAVAILABLE", "The store cannot be written%s%s", verbose ? ": " : ".",
                  verbose ? store.why : "");
    if (store.counted)
        look_at_queue(&store, config->max_queued_plans, conditions);
}

/* ---- the answer ---- */

static void write_conditions(const struct conditions *conditions, bool all, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < conditions->count; i++) {
        const struct condition *condition = &conditions->list[i];
        if (condition->ok && !all)
            continue;
        int written = snprintf(text + used, size - used, "%s%s%s%s", used > 0 ? all ? "\n" : " " : "",
                               all ? condition->ok ? "[+] " : "[-] " : "", all ? condition->name : "", all ? ": " : "");
        used += written > 0 ? (size_t)written : 0;
        if (used >= size)
            return;
        written = snprintf(text + used, size - used, "%s", condition->text);
        used += written > 0 ? (size_t)written : 0;
        if (used >= size)
            return;
    }
}

enum verdict readyz_finish(struct request *request)
{
    struct conditions conditions = {.count = 0};
    bool verbose = request_parameter(request, "verbose") != NULL;
    char text[4096];
    if (verbose && (request->principal.scopes & SCOPE_ADMIN) == 0)
        return respond_error(request, 403, "INSUFFICIENT_SCOPE", "The list of conditions is for the scope admin.");
    look(request->server, verbose, &conditions);
    write_conditions(&conditions, verbose, text, sizeof text - 1);
    for (unsigned i = 0; i < conditions.count; i++) {
        if (!conditions.list[i].ok)
            return respond_error(request, 503, conditions.list[i].code, "%s", text);
    }
    size_t length = strlen(text);
    (void)snprintf(text + length, sizeof text - length, "%s\n", verbose ? "" : "ok");
    return respond_text(request, 200, "text/plain; charset=utf-8", text);
}
