/*
 * What a hostile worker can say: whatever bytes it writes, the daemon keeps its books. Each job ends once, and what
 * goes to the store and to clients is text and JSON.
 *
 * Pool, queue and events are the daemon's own (played_worker.h says what is not). An input is a byte of switches and
 * what the workers write, a text for each job that is given out, with NULs between them; what stands behind a 0x01 in a
 * text goes to standard error. A worker whose text does not end in a line feed dies of it.
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"
#include "jobs/internal.h"
#include "jobs/plan_files.h"
#include "observe/log.h"
#include "observe/metrics.h"
#include "played_worker.h"
#include "server.h"
#include "server_limits.h"
#include "store/blobs.h"
#include "store/files.h"
#include "store/folder.h"
#include "util/text.h"

#define PLAN      "0123456789abcdef0123456789abcdef"
#define MODEL     "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define MAX_STEPS 200
#define CANCELS   1u /* switches: the plan is cancelled when the first worker has spoken */
#define LATE      2u /* everything is late: progress is told to the store, and jobs run out of time */
#define NO_ERRAND 4u

/* ---- the store, in memory: one plan, which is claimed as long as it is queued ---- */

static struct {
    struct order *first, **last;
    bool queued;
    int64_t attempts, crashes;
    unsigned claims, ends;
    void (*answered)(void *context);
    void *context;
} store;

static void expect_json(const char *text)
{
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    if (json == NULL || strchr(text, '\n') != NULL) {
        (void)fprintf(stderr, "not JSON of one line: %s\n", text);
        abort();
    }
    json_decref(json);
}

struct ledger *ledger_create(struct server *server, void (*answered)(void *context), void *context)
{
    (void)server;
    store.last = &store.first;
    store.answered = answered;
    store.context = context;
    return (struct ledger *)(void *)&store;
}

bool ledger_start(struct ledger *ledger)
{
    (void)ledger;
    return true;
}

void ledger_stop(struct ledger *ledger)
{
    (void)ledger;
}

void ledger_destroy(struct ledger *ledger)
{
    (void)ledger;
    while (store.first != NULL) {
        struct order *order = store.first;
        store.first = order->next;
        order_release(order);
    }
}

void order_release(struct order *order)
{
    if (order == NULL)
        return;
    free(order->error);
    free(order->row.request);
    free(order->row.error);
    free(order->name);
    handover_destroy(order->handover);
    free(order);
}

/* Where results are made; a folder for the whole run. */
static char folder[] = "/tmp/shardplan-fuzz-XXXXXX";

static void remove_folder(void)
{
    files_remove_folder(folder);
}

static void make_folder(void)
{
    char path[64];
    if (folder[sizeof folder - 2] != 'X')
        return;
    if (mkdtemp(folder) == NULL || atexit(remove_folder) != 0)
        abort();
    (void)snprintf(path, sizeof path, "%s/tmp", folder);
    if (mkdir(path, 0700) != 0)
        abort();
    (void)snprintf(path, sizeof path, "%s/tmp/fuzz", folder);
    if (mkdir(path, 0700) != 0)
        abort();
}

static void claim(struct order *order)
{
    order->found = store.queued ? STORE_DONE : STORE_NOT_FOUND;
    if (!store.queued)
        return;
    store.queued = false;
    store.claims++;
    (void)snprintf(order->row.id, sizeof order->row.id, "%s", PLAN);
    (void)snprintf(order->plan, sizeof order->plan, "%s", PLAN);
    (void)snprintf(order->row.model, sizeof order->row.model, "%s", MODEL);
    order->row.request = strdup("{}");
    order->attempt = order->row.attempts = ++store.attempts;
    order->row.crashes = store.crashes;
    if (!plan_files_prepare(folder, "fuzz", &order->handover, &order->problem))
        abort();
}

static void end(struct order *order)
{
    store.ends++;
    if (order->error != NULL)
        expect_json(order->error);
    if (store.ends != store.claims || order->attempt != store.attempts || strcmp(order->plan, PLAN) != 0 ||
        (!order->requeue && (order->state == PLAN_FAILED) != (order->error != NULL)))
        abort();
    store.queued = order->requeue;
    store.crashes += order->crashed;
    order->changed = STORE_CHANGED;
}

void ledger_order(struct ledger *ledger, struct order *order)
{
    (void)ledger;
    order->next = NULL;
    if (order->kind == ORDER_PROGRESS) {
        const struct job_progress *progress = &order->progress;
        char clean[sizeof progress->phase];
        memcpy(clean, progress->phase, sizeof clean);
        text_clean(clean);
        if (strcmp(clean, progress->phase) != 0 || !(progress->fraction >= 0 && progress->fraction <= 1) ||
            !isfinite(progress->best_seconds) || !isfinite(progress->lower_bound_seconds))
            abort();
    }
    if (order->kind == ORDER_PROGRESS || order->kind == ORDER_TIDY) {
        order_release(order);
        return;
    }
    if (order->kind == ORDER_CLAIM)
        claim(order);
    else if (order->kind == ORDER_END)
        end(order);
    *store.last = order;
    store.last = &order->next;
    store.answered(store.context);
}

void ledger_look(struct ledger *ledger, const char *plan, bool is_deleted)
{
    (void)ledger;
    (void)plan;
    (void)is_deleted;
}

struct order *ledger_answers(struct ledger *ledger)
{
    (void)ledger;
    struct order *list = store.first;
    store.first = NULL;
    store.last = &store.first;
    return list;
}

bool ledger_look_at_all(struct ledger *ledger)
{
    (void)ledger;
    return false;
}

/* ---- who waits: a request for an errand, a client for events ---- */

static unsigned errands_done;

static void errand_done(struct errand *errand)
{
    errands_done++;
    char *text = problem_to_text(&errand->problem);
    if (text == NULL)
        abort();
    expect_json(text);
    free(text);
}

static void send_errand(struct jobs *jobs, struct errand *errand)
{
    struct problem problem = {0};
    static char output[64];
    (void)snprintf(output, sizeof output, "%s/result", folder);
    (void)unlink(output); /* of the run before */
    *errand = (struct errand){.kind = "convert",
                              .tenant = "",
                              .output = output,
                              .request = "request",
                              .form = ANSWER_JSON,
                              .done = errand_done};
    if (!jobs_send(jobs, errand, &problem))
        abort();
}

/* Reads what there is; each event must be sound. */
static void read_stream(struct event_stream *stream)
{
    char bytes[16 * 1024];
    for (;;) {
        ssize_t got = event_stream_read(stream, bytes, sizeof bytes - 1);
        if (got <= 0)
            return;
        bytes[got] = '\0';
        char *data = strstr(bytes, "\ndata: ");
        if (data == NULL)
            continue; /* the opening */
        data += strlen("\ndata: ");
        char *stop = strchr(data, '\n');
        if (stop == NULL || strcmp(stop, "\n\n") != 0)
            abort();
        *stop = '\0';
        expect_json(data);
    }
}

/* ---- one run ---- */

/* Until nothing happens any more. */
static void play(struct jobs *jobs, uv_loop_t *loop, unsigned switches, struct event_stream *stream)
{
    for (unsigned quiet = 0, step = 0; quiet < 4 && step < MAX_STEPS; step++) {
        (void)uv_run(loop, UV_RUN_NOWAIT);
        quiet = played_step() ? 0 : quiet + 1;
        struct task *task = jobs_find(jobs, PLAN);
        if ((switches & CANCELS) != 0 && played_texts() > 0 && task != NULL && task->state != TASK_ENDING)
            jobs_cancel_task(jobs, task);
        if ((switches & LATE) != 0)
            jobs_check_tasks(jobs, server_now_ms() + (step < 8 ? SPD_PROGRESS_MS : 1000000));
        if (stream != NULL)
            read_stream(stream);
    }
}

static void finish(struct jobs *jobs, uv_loop_t *loop, struct event_stream *stream)
{
    jobs_stop(jobs);
    for (unsigned step = 0; !jobs_quiet(jobs); step++) {
        if (step == MAX_STEPS)
            abort();
        (void)uv_run(loop, UV_RUN_NOWAIT);
        (void)played_step();
    }
    if (stream != NULL) {
        read_stream(stream);
        event_stream_close(stream);
    }
    jobs_close(jobs);
    for (unsigned step = 0; played_step() || uv_run(loop, UV_RUN_NOWAIT) != 0; step++) {
        if (step == MAX_STEPS)
            abort();
    }
    if (uv_loop_close(loop) != 0)
        abort();
    jobs_destroy(jobs);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const struct config config = {.workers = 2,
                                         .max_connections = 64,
                                         .job_seconds = 300,
                                         .job_memory = 1u << 20,
                                         .lease_seconds = 15,
                                         .data = "/nowhere",
                                         .blobs = "",
                                         .store = ""};
    struct server server = {.config = &config};
    struct plan_row row = {.state = PLAN_QUEUED};
    struct problem problem = {0};
    struct errand errand;
    uv_loop_t loop;
    if (size < 1 || size > 256 * 1024)
        return 0;
    server.metrics = metrics_create();
    server.folder = folder_create(config.data, server.owner, false, -1); /* usable until somebody looks */
    log_init(true, (enum log_level)(LOG_ERROR + 1));
    memset(&store, 0, sizeof store);
    store.queued = true;
    errands_done = 0;
    make_folder();
    played_begin(bytes + 1, size - 1);
    if (uv_loop_init(&loop) != 0 || !blobs_open(&config, server.owner, NULL, &server.blobs, &problem))
        abort();
    struct jobs *jobs = server.metrics != NULL && server.folder != NULL ? jobs_create(&server, &loop) : NULL;
    if (jobs == NULL)
        abort();
    server.jobs = jobs;
    (void)snprintf(row.id, sizeof row.id, "%s", PLAN);
    struct event_stream *stream = events_open(jobs_events(jobs), NULL, &row, 0, &problem);
    bool sends = (bytes[0] & NO_ERRAND) == 0;
    if (sends)
        send_errand(jobs, &errand);
    play(jobs, &loop, bytes[0], stream);
    finish(jobs, &loop, stream);
    played_end();
    if (errands_done != sends || store.ends != store.claims)
        abort();
    blobs_close(server.blobs);
    folder_destroy(server.folder);
    metrics_destroy(server.metrics);
    return 0;
}
