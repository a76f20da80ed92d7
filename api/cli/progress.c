#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

#define BAR_COLUMNS  30
#define DRAW_SECONDS 0.1 /* between two drawings */
#define SHOW_SECONDS 0.3 /* work that is done by then never shows a bar */

volatile sig_atomic_t interrupted;

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

void progress_init(struct progress *progress, double limit_seconds)
{
    const char *terminal = getenv("TERM");
    memset(progress, 0, sizeof *progress);
    progress->watch.tick = tick;
    progress->watch.context = progress;
    progress->start = now_seconds();
    progress->limit = limit_seconds;
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
