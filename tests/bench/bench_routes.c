/*
 * Layers of language models on heterogeneous clusters, the instances of Helix (ASPLOS 2025) as JSON:
 * bench_routes INSTANCE SECONDS [THREADS].
 *
 * Prints flow, bound, gap and seconds, and in the last line the placement, {"0": [first, count], ..}, as the checker of
 * the data reads it. Seconds are of the wall clock and include reading. tests/bench/helix builds and runs this.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

#include "helix_file.h"
#include "threads/executor.h"

#define LAST_SECONDS 0.3 /* left for what is done behind the search */

static volatile bool is_over;

static void end_search(int signal_number)
{
    (void)signal_number;
    is_over = true;
}

static double now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void start_timer(double seconds)
{
    const double rest = seconds > 2 * LAST_SECONDS ? seconds - LAST_SECONDS : seconds / 2;
    const struct itimerval timer = {.it_value = {(time_t)rest, (suseconds_t)(1e6 * (rest - (double)(time_t)rest)) + 1}};
    (void)signal(SIGALRM, end_search);
    (void)setitimer(ITIMER_REAL, &timer, NULL);
}

static void print_result(const struct sp_routes_problem *problem, const struct sp_routes_result *result, double start)
{
    const char *separator = "";
    (void)printf("flow %.6f\nbound %.6f\ngap %.3f %%\nproved %s\nflows %" PRIu64 "\nseconds %.2f\n{", result->value,
                 result->bound, result->bound > 0 ? 100 * (1 - result->value / result->bound) : 0,
                 result->is_optimal ? "yes" : "no", result->work, now() - start);
    for (uint32_t i = 0; i < problem->node_count; i++) {
        if (result->intervals[i].count == 0)
            continue;
        (void)printf("%s\"%u\": [%u, %u]", separator, i, result->intervals[i].first, result->intervals[i].count);
        separator = ", ";
    }
    (void)puts("}");
}

int main(int count, char **arguments)
{
    const double start = now();
    struct sp_routes_problem problem = {0};
    struct sp_arena *arena = sp_arena_create(NULL);
    if (count < 3) {
        (void)fputs("usage: bench_routes INSTANCE SECONDS [THREADS]\n", stderr);
        return 2;
    }
    char message[256];
    if (!helix_read(arena, arguments[1], &problem, message, sizeof message)) {
        (void)fprintf(stderr, "%s: %s\n", arguments[1], message);
        return 2;
    }
    struct sp_threads *threads = sp_threads_create(count > 3 ? (uint32_t)strtoul(arguments[3], NULL, 10) : 0);
    const struct sp_routes_options options = {
        .seed = 1, .rounds = UINT64_MAX, .executor = sp_threads_executor(threads), .stop = &is_over};
    struct sp_routes_result *result = NULL;
    struct sp_error err = {0};
    start_timer(strtod(arguments[2], NULL));
    enum sp_status status = sp_routes_solve(arena, &problem, &options, &result, &err);
    if (status == SP_OK)
        print_result(&problem, result, start);
    else
        (void)fprintf(stderr, "%s\n", err.message);
    sp_threads_destroy(threads);
    sp_arena_destroy(arena);
    return status == SP_OK ? 0 : 4;
}
