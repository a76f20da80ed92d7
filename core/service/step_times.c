#include "service/step_times.h"

#include <math.h>

#define LEAST_SHARE 1e-3 /* of a row's seconds */

/* Between the values of two rows, or beyond them; before the first row its value. */
static double between(double at, double low, double high, double of_low, double of_high)
{
    return high > low ? of_low + (of_high - of_low) * fmax(at - low, 0) / (high - low) : of_low;
}

void sp_prompt_seconds(const struct sp_step_times *times, double positions, double *ret_latency, double *ret_interval)
{
    const uint32_t last = times->prompt_count - 1;
    uint32_t low = 0;
    while (low + 1 < last && times->prompts[low + 1].positions < positions)
        low++;
    const struct sp_prompt_time *a = &times->prompts[low], *b = &times->prompts[last > 0 ? low + 1 : low];
    *ret_latency = between(positions, a->positions, b->positions, a->latency_seconds, b->latency_seconds);
    *ret_interval = between(positions, a->positions, b->positions, a->interval_seconds, b->interval_seconds);
}

static double of_row(const struct sp_step_time *row, double past)
{
    return fmax(row->seconds + row->seconds_per_position * (past - row->past), LEAST_SHARE * row->seconds);
}

double sp_step_seconds(const struct sp_step_times *times, double sequences, double past)
{
    const uint32_t last = times->step_count - 1;
    uint32_t low = 0;
    while (low + 1 < last && times->steps[low + 1].sequences < sequences)
        low++;
    const struct sp_step_time *a = &times->steps[low], *b = &times->steps[last > 0 ? low + 1 : low];
    return between(sequences, a->sequences, b->sequences, of_row(a, past), of_row(b, past));
}

/* ---- chunks ------------------------------------------------------------------------------------------------------- */

static const struct sp_chunk_time *chunk_row(const struct sp_step_times *times, double positions)
{
    const uint32_t last = times->chunk_count - 1;
    uint32_t low = 0;
    while (low + 1 < last && times->chunks[low + 1].positions < positions)
        low++;
    return &times->chunks[low];
}

static double chunk_seconds(const struct sp_step_times *times, double positions, double past)
{
    const struct sp_chunk_time *a = chunk_row(times, positions), *b = times->chunk_count > 1 ? a + 1 : a;
    return between(positions, a->positions, b->positions, a->interval_seconds + a->seconds_per_position * past,
                   b->interval_seconds + b->seconds_per_position * past);
}

double sp_mixed_seconds(const struct sp_step_times *times, const struct sp_mixed_step *step)
{
    const double chunk = chunk_seconds(times, step->positions, step->chunk_past);
    if (step->sequences <= 0)
        return chunk;
    const double sequences = fmax(step->sequences, 1);
    const double alone = sp_step_seconds(times, sequences, step->past);
    const double shared = chunk_seconds(times, sequences, 0) + chunk_seconds(times, step->positions, 0) -
                          chunk_seconds(times, sequences + step->positions, 0);
    const double added = alone - fmin(fmax(shared, 0), fmin(alone, chunk));
    return chunk + fmin(step->sequences, 1) * added;
}

double sp_chunk_lag_seconds(const struct sp_step_times *times, double positions)
{
    const struct sp_chunk_time *a = chunk_row(times, positions), *b = times->chunk_count > 1 ? a + 1 : a;
    return fmax(between(positions, a->positions, b->positions, a->latency_seconds - a->interval_seconds,
                        b->latency_seconds - b->interval_seconds),
                0);
}
