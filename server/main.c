#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#include "base/arena.h"
#include "connections.h"
#include "files.h"
#include "http.h"
#include "jobs.h"
#include "log.h"
#include "metrics.h"
#include "server.h"
#include "server_limits.h"
#include "store.h"
#include "text.h"
#include "worker.h"

/*
 * Start:  data folder and lock, store, recovery, sweep, workers, and last the listening socket.
 * Stop:   the first SIGTERM or SIGINT drains: no new connections, waiting requests are answered, running jobs get
 *         SPD_DRAIN_SECONDS; what still runs then, or at a second signal, is queued again in the store. The HTTP
 * library is stopped when no request is suspended any more (it would abort the process otherwise).
 */
struct daemon {
    struct server server;
    struct http *http;
    uv_loop_t loop;
    uv_signal_t terminate, interrupt;
    uv_timer_t timer;
    uint64_t drain_deadline_ms; /* 0: not draining */
    bool jobs_stopped, ended;
    uint64_t stop_deadline_ms;
};

/* ---- stopping ---- */

static void stop_jobs(struct daemon *daemon)
{
    daemon->jobs_stopped = true;
    daemon->stop_deadline_ms = server_now_ms() + 2000;
    jobs_stop(daemon->server.jobs);
}

/* Answers that are being sent get a moment; then everything is closed, and the loop runs dry. */
static void end(struct daemon *daemon)
{
    daemon->ended = true;
    http_stop(daemon->http);
    connections_stop(daemon->server.connections);
    uv_close((uv_handle_t *)&daemon->terminate, NULL);
    uv_close((uv_handle_t *)&daemon->interrupt, NULL);
    uv_close((uv_handle_t *)&daemon->timer, NULL);
}

static void drain_tick(struct daemon *daemon, uint64_t now)
{
    if (!daemon->jobs_stopped) {
        if (jobs_quiet(daemon->server.jobs) || now > daemon->drain_deadline_ms)
            stop_jobs(daemon);
        return;
    }
    /* Every task of a killed worker has been reported when there are none: nothing is suspended. */
    if (jobs_quiet(daemon->server.jobs) && (http_active(daemon->http) == 0 || now > daemon->stop_deadline_ms))
        end(daemon);
}

static void ticked(uv_timer_t *timer)
{
    struct daemon *daemon = timer->data;
    uint64_t now = server_now_ms();
    connections_tick(daemon->server.connections, now);
    if (!daemon->jobs_stopped)
        jobs_tick(daemon->server.jobs, now);
    if (daemon->drain_deadline_ms != 0)
        drain_tick(daemon, now);
}

static void signalled(uv_signal_t *handle, int signal_number)
{
    struct daemon *daemon = handle->data;
    LOG(LOG_INFO, "stopping", log_i("signal", signal_number));
    if (daemon->drain_deadline_ms != 0) {
        daemon->drain_deadline_ms = 1; /* the second signal: at once */
        return;
    }
    daemon->drain_deadline_ms = server_now_ms() + SPD_DRAIN_SECONDS * 1000;
    atomic_store(&daemon->server.draining, true);
    http_quiesce(daemon->http);
    jobs_drain(daemon->server.jobs);
}

/* ---- starting ---- */

static bool open_store(struct daemon *daemon, struct problem *problem)
{
    const char *data = daemon->server.config->data;
    char *path = NULL;
    if (asprintf(&path, "%s/shardplan.db", data) < 0)
        return problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory.");
    bool ok = store_open(path, &daemon->server.store, problem);
    free(path);
    if (!ok)
        return false;
    int64_t recovered = store_recover(daemon->server.store);
    if (recovered < 0)
        return problem_set(problem, 500, "STORE_ERROR", "The store could not be recovered.");
    if (recovered > 0)
        LOG(LOG_INFO, "plans queued again after an interruption", log_i("count", recovered));
    files_sweep(data, daemon->server.store);
    return true;
}

static bool start_parts(struct daemon *daemon, struct problem *problem)
{
    struct server *server = &daemon->server;
    server->metrics = metrics_create();
    server->connections = connections_create(&daemon->loop);
    server->jobs = jobs_create(server, &daemon->loop);
    if (server->metrics == NULL || server->connections == NULL || server->jobs == NULL)
        return problem_set(problem, 503, "OUT_OF_MEMORY", "Out of memory.");
    (void)uv_signal_init(&daemon->loop, &daemon->terminate);
    (void)uv_signal_init(&daemon->loop, &daemon->interrupt);
    (void)uv_timer_init(&daemon->loop, &daemon->timer);
    daemon->terminate.data = daemon->interrupt.data = daemon->timer.data = daemon;
    if (uv_signal_start(&daemon->terminate, signalled, SIGTERM) != 0 ||
        uv_signal_start(&daemon->interrupt, signalled, SIGINT) != 0 ||
        uv_timer_start(&daemon->timer, ticked, 100, 100) != 0)
        return problem_set(problem, 500, "INTERNAL", "Signals or timers could not be set up.");
    return http_start(server, &daemon->http, problem);
}

/* One connection is one descriptor, and downloads, uploads and workers need some more. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int serve(const struct config *config)
{
    static struct daemon daemon;
    struct problem problem = {0};
    int lock = -1, status = 4;
    daemon.server.config = config;
    (void)pthread_mutex_init(&daemon.server.models_mutex, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    raise_descriptor_limit();
    if (uv_loop_init(&daemon.loop) != 0) {
        LOG(LOG_ERROR, "not started: no event loop");
        return status;
    }
    if (files_open(config->data, &lock, &problem) && open_store(&daemon, &problem) && start_parts(&daemon, &problem)) {
        (void)uv_run(&daemon.loop, UV_RUN_DEFAULT);
        (void)uv_loop_close(&daemon.loop);
        jobs_destroy(daemon.server.jobs);
        connections_destroy(daemon.server.connections);
        metrics_destroy(daemon.server.metrics);
        LOG(LOG_INFO, "stopped");
        status = 0;
    } else {
        LOG(LOG_ERROR, "not started", log_s("code", problem.code), log_s("detail", problem.detail));
    }
    store_close(daemon.server.store);
    if (lock >= 0)
        (void)close(lock);
    (void)pthread_mutex_destroy(&daemon.server.models_mutex);
    return status;
}

int main(int argc, char **argv)
{
    sp_arena_set_up_process();
    if (argc == 3 && strcmp(argv[1], "--worker") == 0) {
        int64_t parent;
        return text_to_int(argv[2], 1, INT32_MAX, &parent) ? worker_main((long)parent) : 2;
    }
    struct config config;
    enum config_result result = config_read(argc, argv, &config);
    int status = result == CONFIG_DONE ? 0 : 2;
    if (result == CONFIG_RUN) {
        log_init(config.log_json, LOG_INFO);
        status = serve(&config);
    }
    config_release(&config);
    return status;
}
