#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "cli.h"

#define BAR_COLUMNS  30
#define DRAW_SECONDS 0.1 /* between two drawings */
#define SHOW_SECONDS 0.3 /* work that is done by then never shows a bar */

#define MAX_ALARM_SECONDS 1e8 /* longer than anybody waits */

volatile sig_atomic_t interrupted;
volatile bool is_time_to_stop;

static double now_seconds(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

void pause_seconds(double seconds)
{
    struct timespec time = {.tv_sec = (time_t)seconds};
    time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
    (void)nanosleep(&time, NULL);
}

static bool tick(void *context, const char *phase, double fraction, double best, double bound)
{
    struct progress *progress = context;
    if (interrupted)
        return false;
    if (progress->limit > 0 && progress_elapsed(progress) > progress->limit) {
        progress->timed_out = true;
        return false;
    }
    progress_draw(progress, phase, fraction, best, bound);
    return true;
}

static void on_alarm(int number)
{
    (void)number;
    is_time_to_stop = true;
}

/* Tasks on other threads do not ask how late it is: a signal tells them. */
static void set_alarm(double seconds)
{
    const struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    const double whole = floor(fmin(seconds, MAX_ALARM_SECONDS));
    const struct itimerval timer = {
        .it_value = {(time_t)whole, (suseconds_t)((fmin(seconds, MAX_ALARM_SECONDS) - whole) * 1e6) + 1}};
    if (sigaction(SIGALRM, &action, NULL) == 0)
        (void)setitimer(ITIMER_REAL, &timer, NULL);
}

void progress_init(struct progress *progress, double limit_seconds)
{
    const char *terminal = getenv("TERM");
    memset(progress, 0, sizeof *progress);
    progress->watch.tick = tick;
    progress->watch.context = progress;
    progress->watch.stop = &is_time_to_stop;
    progress->start = now_seconds();
    progress->limit = limit_seconds;
    if (limit_seconds > 0)
        set_alarm(limit_seconds);
    progress->visible = isatty(STDERR_FILENO) == 1 && (terminal == NULL || strcmp(terminal, "dumb") != 0);
}

double progress_elapsed(const struct progress *progress)
{
    return now_seconds() - progress->start;
}

void progress_draw(struct progress *progress, const char *phase, double fraction, double best, double bound)
{
    char bar[BAR_COLUMNS + 1];
    double now = now_seconds();
    if (!progress->visible || now - progress->start < SHOW_SECONDS || now - progress->shown < DRAW_SECONDS)
        return;
    fraction = fraction < 0 ? 0 : fraction > 1 ? 1 : fraction;
    int filled = (int)(fraction * BAR_COLUMNS);
    memset(bar, '.', BAR_COLUMNS);
    memset(bar, '#', (size_t)filled);
    bar[BAR_COLUMNS] = '\0';
    (void)fprintf(stderr, "\r\033[K%-8.16s [%s] %3.0f%%", phase, bar, 100 * fraction);
    if (best > 0)
        (void)fprintf(stderr, "  best %.4g ms, bound %.4g ms", best * 1e3, bound * 1e3);
    (void)fflush(stderr);
    progress->shown = now;
    progress->drawn = true;
}

void progress_clear(struct progress *progress)
{
    if (progress->drawn)
        (void)fputs("\r\033[K", stderr);
    progress->drawn = false;
}
