/*
 * One problem of the 2025 contest on intra-operator parallelism: bench_iopddl FILE|- SECONDS [THREADS].
 *
 * Prints how the search goes on stderr; the last line of stdout is the solution as the contest wants it. Seconds are of
 * the wall clock and include reading. tests/bench/iopddl builds and runs this.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "iopddl_file.h"
#include "threads/executor.h"

struct timer {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool has_ended;
    struct timespec end;
    volatile bool stop;
};

struct follower { /* prints what changed */
    double start, bound, best;
};

static double now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void *wait_for_end(void *argument)
{
    struct timer *timer = argument;
    (void)pthread_mutex_lock(&timer->lock);
    while (!timer->has_ended && pthread_cond_timedwait(&timer->ended, &timer->lock, &timer->end) == 0)
        ;
    timer->stop = true;
    (void)pthread_mutex_unlock(&timer->lock);
    return NULL;
}

static bool start_timer(struct timer *timer, pthread_t *thread, double end)
{
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&timer->lock, NULL);
    (void)pthread_cond_init(&timer->ended, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    timer->end.tv_sec = (time_t)end;
    timer->end.tv_nsec = (long)((end - (double)timer->end.tv_sec) * 1e9);
    return pthread_create(thread, NULL, wait_for_end, timer) == 0;
}

static void end_timer(struct timer *timer, pthread_t thread)
{
    (void)pthread_mutex_lock(&timer->lock);
    timer->has_ended = true;
    (void)pthread_cond_signal(&timer->ended);
    (void)pthread_mutex_unlock(&timer->lock);
    (void)pthread_join(thread, NULL);
}

static bool follow(void *context, const char *phase, double fraction, double best, double bound)
{
    struct follower *follower = context;
    (void)phase;
    (void)fraction;
    if (best != follower->best || bound > follower->bound * (1 + 1e-4))
        (void)fprintf(stderr, "%8.2f s  cost %.0f  bound %.0f  gap %.4f %%\n", now() - follower->start, best, bound,
                      best > 0 ? 100 * (best - bound) / best : 100);
    follower->best = best;
    follower->bound = bound;
    return true;
}

static void print_result(const struct sp_choice_problem *problem, const struct sp_choice_result *result, double start)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    (void)printf("cost %" PRId64 "\nlower_bound %" PRId64 "\ngap %.6f %%\nproved %s\nfeasible %s\n", result->cost,
                 result->bound, 100 * result->gap, result->is_optimal ? "yes" : "no",
                 result->is_feasible            ? "yes"
                 : result->is_proved_infeasible ? "impossible"
                                                : "no");
    (void)printf("nodes %u edges %u variables %u variable_edges %u work %" PRIu64 "\n", problem->node_count,
                 problem->edge_count, result->variables, result->variable_edges, result->work);
    (void)printf("seconds %.2f\ncpu_seconds %.2f\npeak_memory_mb %.0f\n", now() - start,
                 (double)usage.ru_utime.tv_sec + 1e-6 * (double)usage.ru_utime.tv_usec, (double)usage.ru_maxrss / 1024);
    for (uint32_t v = 0; v < problem->node_count; v++)
        (void)printf("%s%u", v == 0 ? "[" : ", ", result->choice[v]);
    (void)printf("%s]\n", problem->node_count == 0 ? "[" : "");
}

int main(int count, char **arguments)
{
    double start = now(), seconds = count > 2 ? strtod(arguments[2], NULL) : 60;
    if (count < 2) {
        (void)fprintf(stderr, "usage: bench_iopddl FILE|- SECONDS [THREADS]\n");
        return 2;
    }
    struct iopddl_file file;
    char message[256];
    int stream = strcmp(arguments[1], "-") == 0 ? 0 : open(arguments[1], O_RDONLY);
    if (stream < 0 || !iopddl_read(stream, &file, message, sizeof(message))) {
        (void)fprintf(stderr, "%s\n", stream < 0 ? "The file cannot be opened." : message);
        return 2;
    }
    (void)fprintf(stderr, "%8.2f s  read\n", now() - start);
    struct timer timer = {0};
    pthread_t thread;
    struct sp_threads *threads = sp_threads_create(count > 3 ? (uint32_t)strtoul(arguments[3], NULL, 10) : 0);
    struct sp_arena *arena = sp_arena_create(NULL);
    struct follower follower = {.start = start};
    struct sp_watch watch = {.tick = follow, .context = &follower};
    struct sp_choice_options options = {.seed = 1,
                                        .work_limit = UINT64_MAX,
                                        .executor = sp_threads_executor(threads),
                                        .watch = &watch,
                                        .stop = &timer.stop};
    struct sp_choice_result *result = NULL;
    struct sp_error err = {0};
    /* What is left to do behind the search: an evaluation, and writing the line. */
    if (!start_timer(&timer, &thread, start + (seconds > 2 ? seconds - 0.8 : 0.6 * seconds)))
        return 4;
    enum sp_status status = sp_choice_solve(arena, &file.problem, &options, &result, &err);
    end_timer(&timer, thread);
    if (status == SP_OK)
        print_result(&file.problem, result, start);
    else
        (void)fprintf(stderr, "%s\n", err.message);
    sp_threads_destroy(threads);
    sp_arena_destroy(arena);
    iopddl_free(&file);
    return status == SP_OK ? 0 : 4;
}
