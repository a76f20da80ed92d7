#pragma once
/*
 * cancel - how a caller stops and watches long work.
 *
 * The library has no clock and no threads. Long loops call sp_watch_tick() now and then; the caller's function looks at
 * its own clock or flag and says whether to go on. A NULL watch never stops. Between two ticks tasks may run on other
 * threads for a second and more: these look at a flag, which a timer or signal of the caller sets.
 */
#include <stdbool.h>
#include <stddef.h>

struct sp_watch {
    /* Called from the working thread, often: must be quick and must not call back into the job. `phase` is a static
       word ("read", "shapes", "search", "write"), `fraction` runs from 0 to 1 in the phase; `best_seconds` and
       `lower_bound_seconds` are of the search, 0 while unknown. Returns false to cancel the job. */
    bool (*tick)(void *context, const char *phase, double fraction, double best_seconds, double lower_bound_seconds);
    void *context;
    /* Set by somebody else once tick() would return false, and never reset while a job runs; may be NULL. Tasks that
       see it end soon with what they have. */
    const volatile bool *stop;
};

static inline const volatile bool *sp_watch_stop(const struct sp_watch *watch)
{
    return watch == NULL ? NULL : watch->stop;
}

static inline bool sp_watch_tick(const struct sp_watch *watch, const char *phase, double fraction, double best_seconds,
                                 double lower_bound_seconds)
{
    return watch == NULL || watch->tick == NULL ||
           watch->tick(watch->context, phase, fraction, best_seconds, lower_bound_seconds);
}
