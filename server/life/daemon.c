#include <gnutls/crypto.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#include "auth/auth.h"
#include "http/http.h"
#include "http/router.h"
#include "jobs/jobs.h"
#include "life/life.h"
#include "life/notify.h"
#include "net/accounts.h"
#include "net/connections.h"
#include "net/sockets.h"
#include "observe/log.h"
#include "observe/metrics.h"
#include "references/references.h"
#include "routes/answers.h"
#include "routes/indexes.h"
#include "server.h"
#include "server_limits.h"
#include "store/blobs.h"
#include "store/files.h"
#include "store/folder.h"
#include "store/identity.h"
#include "store/integrity/scrub.h"
#include "store/integrity/stored.h"
#include "store/objects/blobs_owner.h"
#include "store/store.h"
#include "uploads/uploads.h"
#include "util/json_memory.h"
#include "util/text.h"

#define TICK_MS        100
#define STATUS_MS      1000 /* between looks at what STATUS= should say */
#define LAST_ANSWER_MS 2000 /* answers that are being sent when everything else has ended */

enum phase {
    PHASE_STARTING, /* serving, but no worker was there yet */
    PHASE_SERVING,
    PHASE_LEAVING,  /* not ready, but serving: --shutdown-delay */
    PHASE_DRAINING, /* no more connections; what is under way has --drain to end */
    PHASE_STOPPING, /* running plans go back to the queue */
    PHASE_ENDED,
};

struct daemon {
    struct server server;
    struct http *http;
    struct notify *notify;
    atomic_bool has_jobs;    /* `server.jobs` is there for all threads; those of the store are there before */
    unsigned passed_sockets; /* by the service manager */
    uv_loop_t loop;
    uv_signal_t terminate, interrupt, reload;
    uv_timer_t timer;
    enum phase phase;
    uint64_t deadline_ms; /* when a phase after PHASE_SERVING ends */
    uint64_t status_ms;   /* when the manager was told what the daemon does, and the phase that it was told */
    enum phase status_phase;
};

/* ---- stopping ---- */

static void leave(struct daemon *daemon, uint64_t now)
{
    daemon->phase = PHASE_LEAVING;
    daemon->deadline_ms = now + (uint64_t)daemon->server.config->shutdown_delay_seconds * 1000;
    atomic_store(&daemon->server.leaving, true);
    notify_stopping(daemon->notify);
}

static void drain(struct daemon *daemon, uint64_t now)
{
    daemon->phase = PHASE_DRAINING;
    daemon->deadline_ms = now + (uint64_t)daemon->server.config->drain_seconds * 1000;
    LOG(LOG_INFO, "draining", log_i("seconds", daemon->server.config->drain_seconds));
    atomic_store(&daemon->server.draining, true);
    http_quiesce(daemon->http);
    jobs_drain(daemon->server.jobs);
}

static void stop_jobs(struct daemon *daemon, uint64_t now)
{
    daemon->phase = PHASE_STOPPING;
    daemon->deadline_ms = now + LAST_ANSWER_MS;
    scrub_stop(daemon->server.scrub);
    blobs_stop(daemon->server.blobs);
    if (daemon->server.uploads != NULL)
        uploads_stop(daemon->server.uploads);
    references_stop(daemon->server.references);
    jobs_stop(daemon->server.jobs);
}

/* Everything is closed, and the loop runs dry. */
static void end(struct daemon *daemon)
{
    daemon->phase = PHASE_ENDED;
    if (daemon->http != NULL)
        http_stop(daemon->http);
    jobs_close(daemon->server.jobs);
    connections_stop(daemon->server.connections);
    uv_close((uv_handle_t *)&daemon->terminate, NULL);
    uv_close((uv_handle_t *)&daemon->interrupt, NULL);
    uv_close((uv_handle_t *)&daemon->reload, NULL);
    uv_close((uv_handle_t *)&daemon->timer, NULL);
}

/* The HTTP library is stopped when no request is suspended any more (it would abort the process otherwise): every task
   of a killed worker has been reported when there are none. */
static void go_on_stopping(struct daemon *daemon, uint64_t now)
{
    bool quiet = jobs_quiet(daemon->server.jobs) && blobs_quiet(daemon->server.blobs) &&
                 uploads_quiet(daemon->server.uploads) && references_quiet(daemon->server.references),
         answered = daemon->http == NULL || http_active(daemon->http) == 0;
    if (daemon->phase == PHASE_LEAVING && now >= daemon->deadline_ms)
        drain(daemon, now);
    else if (daemon->phase == PHASE_DRAINING && ((quiet && answered) || now >= daemon->deadline_ms))
        stop_jobs(daemon, now);
    else if (daemon->phase == PHASE_STOPPING && quiet && (answered || now >= daemon->deadline_ms))
        end(daemon);
}

/* ---- signals ---- */

static void asked_to_stop(uv_signal_t *handle, int signal_number)
{
    struct daemon *daemon = handle->data;
    uint64_t now = server_now_ms();
    LOG(LOG_INFO, "stopping", log_i("signal", signal_number));
    if (daemon->phase < PHASE_LEAVING) {
        leave(daemon, now);
        go_on_stopping(daemon, now);
        return;
    }
    /* The second signal: at once. */
    if (daemon->phase == PHASE_LEAVING)
        drain(daemon, now);
    if (daemon->phase == PHASE_DRAINING)
        daemon->deadline_ms = now;
}

static void asked_to_reload(uv_signal_t *handle, int signal_number)
{
    struct daemon *daemon = handle->data;
    struct problem problem = {0};
    (void)signal_number;
    if (daemon->phase >= PHASE_LEAVING)
        return;
    notify_reloading(daemon->notify);
    if (auth_reload(daemon->server.auth, &problem))
        LOG(LOG_INFO, "tokens reloaded");
    else
        LOG(LOG_ERROR, "tokens not reloaded, the old ones stay", log_s("code", problem.code),
            log_s("detail", problem.detail));
    problem = (struct problem){0};
    if (!http_reload(daemon->http, &problem))
        LOG(LOG_ERROR, "certificate not reloaded, the old one stays", log_s("code", problem.code),
            log_s("detail", problem.detail));
    notify_ready(daemon->notify);
}

/* ---- turning ---- */

static void tell_status(struct daemon *daemon, const struct job_stats *stats, uint64_t now)
{
    static const char *const words[] = {"Starting", "Serving", "Leaving", "Draining", "Stopping", "Stopped"};
    if (now - daemon->status_ms < STATUS_MS && daemon->phase == daemon->status_phase)
        return;
    daemon->status_ms = now;
    daemon->status_phase = daemon->phase;
    notify_status(daemon->notify, "%s; %u of %u workers busy, %u requests wait for one", words[daemon->phase],
                  stats->busy, stats->workers, stats->waiting[WORK_SHORT].count + stats->waiting[WORK_LONG].count);
}

static void ticked(uv_timer_t *timer)
{
    struct daemon *daemon = timer->data;
    struct job_stats stats;
    uint64_t now = server_now_ms();
    atomic_store(&daemon->server.heartbeat_ms, now);
    log_tick();
    json_memory_tick(now);
    connections_tick(daemon->server.connections, now);
    if (daemon->http != NULL)
        http_tick(daemon->http, now);
    if (daemon->phase < PHASE_STOPPING)
        jobs_tick(daemon->server.jobs, now);
    if (daemon->phase < PHASE_STOPPING)
        uploads_tick(daemon->server.uploads, now);
    jobs_stats(daemon->server.jobs, &stats);
    if (daemon->phase == PHASE_STARTING && stats.workers > 0) {
        daemon->phase = PHASE_SERVING;
        notify_ready(daemon->notify);
    }
    if (stats.workers > 0 || daemon->phase >= PHASE_LEAVING)
        notify_alive(daemon->notify, now);
    tell_status(daemon, &stats, now);
    go_on_stopping(daemon, now);
}

/* ---- starting ---- */

/* Several daemons may use one PostgreSQL and one data folder. */
static bool is_shared(const struct config *config)
{
    return config->store[0] != '\0';
}

/* Threads of the store and of HTTP: somebody changed a plan. Nobody listens before the jobs are there: they look at the
   store when they begin. */
static void store_changed(void *context, const struct store_change *change)
{
    const struct daemon *daemon = context;
    const char *plan = change != NULL ? change->plan : NULL;
    answers_forget(daemon->server.answers, plan);
    indexes_forget(daemon->server.indexes, plan);
    if (atomic_load(&daemon->has_jobs))
        jobs_changed(daemon->server.jobs, change);
}

static void store_called(void *context, const char *name, bool ok, double seconds)
{
    struct daemon *daemon = context;
    metrics_store_call(daemon->server.metrics, name, ok, seconds);
}

/* Page tokens are read by all daemons of a store, and by this one when it starts again. */
static bool choose_page_key(struct server *server, struct problem *problem)
{
    unsigned char random[SERVER_KEY_BYTES];
    char proposed[STORE_SETTING_SIZE], kept[STORE_SETTING_SIZE];
    if (gnutls_rnd(GNUTLS_RND_KEY, random, sizeof random) != 0)
        return problem_set(problem, 500, "INTERNAL", "There are no random numbers.");
    text_to_hex(random, sizeof random, proposed);
    if (!store_setting(server->store, "page_key", proposed, kept, problem))
        return false;
    return gnutls_hash_fast(GNUTLS_DIG_SHA256, kept, strlen(kept), server->page_key) == 0 || problem_no_memory(problem);
}

/* Whether the files of the store are in the data folder, as they have to be without an object store. */
static bool find_files(const struct config *config, struct store *store, struct problem *problem)
{
    return config->blobs[0] != '\0' ||
           (identity_check(config->data, store, problem) && blobs_are_in_folder(store, problem));
}

static void found_wrong(void *context, const char *what, const char *how)
{
    const struct daemon *daemon = context;
    metrics_stored_wrong(daemon->server.metrics, what, how);
}

static bool open_stored(struct daemon *daemon, struct problem *problem)
{
    const struct server *server = &daemon->server;
    daemon->server.stored = stored_create(&(struct stored_options){.data = server->config->data,
                                                                   .owner = server->owner,
                                                                   .folder = server->folder,
                                                                   .store = server->store,
                                                                   .blobs = server->blobs,
                                                                   .quarantine_bytes = server->config->quarantine_bytes,
                                                                   .found = found_wrong,
                                                                   .context = daemon});
    return daemon->server.stored != NULL || problem_no_memory(problem);
}

static bool open_store(struct daemon *daemon, struct problem *problem)
{
    const struct config *config = daemon->server.config;
    char *path = NULL;
    struct store_options options = {.folder = daemon->server.folder,
                                    .url = config->store,
                                    .password_file = config->store_password_file,
                                    .lease_seconds = config->lease_seconds,
                                    .called = store_called,
                                    .changed = store_changed,
                                    .context = daemon};
    (void)snprintf(options.owner, sizeof options.owner, "%s", daemon->server.owner);
    if (asprintf(&path, "%s/shardplan.db", config->data) < 0)
        return problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory.");
    options.path = path;
    bool ok = store_open(&options, &daemon->server.store, problem);
    free(path);
    if (!ok)
        return false;
    if (!find_files(config, daemon->server.store, problem) || !choose_page_key(&daemon->server, problem))
        return false;
    if (!blobs_open(config, daemon->server.owner, daemon->server.store, &daemon->server.blobs, problem) ||
        !open_stored(daemon, problem))
        return false;
    int64_t reclaimed = store_reclaim(daemon->server.store, !is_shared(config));
    if (reclaimed < 0)
        return problem_set(problem, 500, "STORE_ERROR", "The plans of the store could not be looked through.");
    if (reclaimed > 0)
        LOG(LOG_INFO, "plans queued again after an interruption", log_i("count", reclaimed));
    files_sweep(config->data, daemon->server.store, NULL);
    return true;
}

static bool start_handles(struct daemon *daemon, struct problem *problem)
{
    (void)uv_signal_init(&daemon->loop, &daemon->terminate);
    (void)uv_signal_init(&daemon->loop, &daemon->interrupt);
    (void)uv_signal_init(&daemon->loop, &daemon->reload);
    (void)uv_timer_init(&daemon->loop, &daemon->timer);
    daemon->terminate.data = daemon->interrupt.data = daemon->reload.data = daemon->timer.data = daemon;
    if (uv_signal_start(&daemon->terminate, asked_to_stop, SIGTERM) != 0 ||
        uv_signal_start(&daemon->interrupt, asked_to_stop, SIGINT) != 0 ||
        uv_signal_start(&daemon->reload, asked_to_reload, SIGHUP) != 0 ||
        uv_timer_start(&daemon->timer, ticked, 0, TICK_MS) != 0)
        return problem_set(problem, 500, "INTERNAL", "Signals or timers could not be set up.");
    return true;
}

static bool start_parts(struct daemon *daemon, struct problem *problem)
{
    struct server *server = &daemon->server;
    if (!start_handles(daemon, problem))
        return false;
    server->connections = connections_create(&daemon->loop);
    if ((server->uploads = uploads_create(server, problem)) == NULL ||
        !references_create(server, &server->references, problem))
        return false;
    server->jobs = server->connections != NULL ? jobs_create(server, &daemon->loop) : NULL;
    if (server->jobs == NULL)
        return problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory.");
    atomic_store(&daemon->has_jobs, true);
    if (server->config->scrub_rate > 0 &&
        (server->scrub = scrub_start(server->stored, server->config->scrub_rate)) == NULL)
        return problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory.");
    return http_start(server, daemon->passed_sockets, &daemon->http, problem);
}

/* One connection is one descriptor, and downloads, uploads and workers need some more. */
static void raise_descriptor_limit(const struct config *config)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)config->max_connections + SPD_SPARE_DESCRIPTORS + SPD_MAX_ADMIN_CONNECTIONS;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* what there is limits the connections (connections.h) */
}

/* The daemon's name among those that share a store. */
static bool choose_name(struct server *server, struct problem *problem)
{
    unsigned char random[16];
    if (gnutls_rnd(GNUTLS_RND_NONCE, random, sizeof random) != 0)
        return problem_set(problem, 500, "INTERNAL", "There are no random numbers.");
    text_to_hex(random, sizeof random, server->owner);
    return true;
}

static bool open_folder(struct server *server, struct problem *problem)
{
    const struct config *config = server->config;
    int lock;
    if (!files_open(config->data, is_shared(config), &lock, problem))
        return false;
    server->folder = folder_create(config->data, server->owner, is_shared(config), lock);
    return server->folder != NULL || problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory.");
}

/* What workers are locked up behind. Before there are threads. */
static bool look_at_walls(struct server *server, struct problem *problem)
{
    char missing[SANDBOX_TEXT_SIZE];
    if (!sandbox_try(&server->walls))
        return problem_set(problem, 500, "SANDBOX_FAILED", "Workers cannot be locked up here.");
    if (sandbox_is_whole(&server->walls) || !server->config->require_sandbox)
        return true;
    sandbox_describe(&server->walls, false, missing);
    return problem_set(problem, 500, "SANDBOX_INCOMPLETE",
                       "This kernel or build lacks walls that workers are locked up behind (%s), and --require-sandbox "
                       "asks for all.",
                       missing);
}

static void tell_walls(const struct sandbox_walls *walls)
{
    char up[SANDBOX_TEXT_SIZE], missing[SANDBOX_TEXT_SIZE];
    sandbox_describe(walls, true, up);
    sandbox_describe(walls, false, missing);
    LOG(sandbox_is_whole(walls) ? LOG_INFO : LOG_WARNING, "sandbox", log_s("walls", up), log_s("missing", missing));
}

/* What tenants share. How many connections and files there are is known when there are descriptors (net/connections.h). */
static bool open_accounts(struct server *server, struct problem *problem)
{
    server->accounts = accounts_create(server->auth);
    if (server->accounts == NULL)
        return problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory.");
    accounts_set_whole(server->accounts, ACCOUNT_DECODERS, SPD_MAX_DECODERS);
    accounts_set_whole(server->accounts, ACCOUNT_ENCODERS, SPD_MAX_ENCODERS);
    accounts_set_whole(server->accounts, ACCOUNT_BODY_BYTES, SPD_BODIES_BYTES);
    accounts_set_whole(server->accounts, ACCOUNT_ANSWER_BYTES, SPD_SENT_BYTES);
    accounts_set_whole(server->accounts, ACCOUNT_LINGERING, SPD_MAX_LINGERING - SPD_MAX_LINGERING / SPD_UNKNOWN_SHARE);
    return true;
}

static bool start(struct daemon *daemon, struct problem *problem)
{
    const struct config *config = daemon->server.config;
    if (!look_at_walls(&daemon->server, problem))
        return false;
    daemon->server.metrics = metrics_create();
    daemon->server.answers = answers_create();
    daemon->server.indexes = indexes_create();
    atomic_store(&daemon->server.heartbeat_ms, server_now_ms());
    if (daemon->server.metrics == NULL || daemon->server.answers == NULL || daemon->server.indexes == NULL)
        return problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory.");
    return choose_name(&daemon->server, problem) && auth_create(config, &daemon->server.auth, problem) &&
           open_accounts(&daemon->server, problem) && open_folder(&daemon->server, problem) &&
           open_store(daemon, problem) && files_make_temporary(config->data, daemon->server.owner, problem) &&
           start_parts(daemon, problem);
}

static int run(struct daemon *daemon)
{
    struct problem problem = {0};
    bool started = start(daemon, &problem);
    if (started)
        tell_walls(&daemon->server.walls);
    /* Jobs that began in a start that failed are stopped as any others are: their threads use everything else. */
    if (!started && daemon->server.jobs != NULL)
        stop_jobs(daemon, server_now_ms());
    if (daemon->server.jobs != NULL) {
        (void)uv_run(&daemon->loop, UV_RUN_DEFAULT);
        (void)uv_loop_close(&daemon->loop);
        connections_destroy(daemon->server.connections);
    }
    scrub_destroy(daemon->server.scrub);
    references_destroy(daemon->server.references);
    uploads_destroy(daemon->server.uploads);
    blobs_close(daemon->server.blobs); /* whose threads use the store until then */
    store_close(daemon->server.store); /* whose threads may tell the jobs until then */
    jobs_destroy(daemon->server.jobs);
    stored_destroy(daemon->server.stored);
    accounts_destroy(daemon->server.accounts);
    auth_destroy(daemon->server.auth);
    answers_destroy(daemon->server.answers);
    indexes_destroy(daemon->server.indexes);
    metrics_destroy(daemon->server.metrics);
    folder_destroy(daemon->server.folder);
    if (started)
        LOG(LOG_INFO, "stopped");
    else
        LOG(LOG_ERROR, "not started", log_s("code", problem.code), log_s("detail", problem.detail));
    return started ? 0 : 4;
}

int life_serve(const struct config *config)
{
    static struct daemon daemon;
    int status = 4;
    daemon.server.config = config;
    daemon.server.routes = routes;
    daemon.passed_sockets = sockets_take_passed();
    log_init(config->log_json, (enum log_level)config->log_level);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* write() says EFBIG instead */
    raise_descriptor_limit(config);
    daemon.notify = notify_create();
    if (uv_loop_init(&daemon.loop) == 0)
        status = run(&daemon);
    else
        LOG(LOG_ERROR, "not started: no event loop");
    notify_destroy(daemon.notify);
    log_end();
    return status;
}
