/* Times by kernel, and which of them are confirmed. */
#include "calibrate/internal.h"

#include <stdlib.h>

#include "base/sorted.h"

struct sp_calibrate_samples *sp_calibrate_samples_create(struct sp_arena *arena)
{
    struct sp_calibrate_samples *samples = SP_NEW(arena, struct sp_calibrate_samples);
    if (samples != NULL)
        *samples = (struct sp_calibrate_samples){.arena = arena};
    return samples;
}

static bool is_same(const struct sp_kernel_key *a, const struct sp_kernel_key *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && memcmp(a->sizes, b->sizes, sizeof a->sizes) == 0;
}

static struct sp_calibrate_kernel *kernel_of(struct sp_calibrate_samples *samples, const struct sp_kernel_key *key)
{
    for (uint32_t i = samples->kernels.count; i-- > 0;) { /* rows of a kernel stand together */
        if (is_same(&samples->kernels.items[i].key, key))
            return &samples->kernels.items[i];
    }
    if (samples->kernels.count == SP_MAX_CALIBRATE_KERNELS)
        return NULL;
    if (!SP_PUSH(samples->arena, &samples->kernels, (struct sp_calibrate_kernel){.key = *key}))
        return NULL;
    return &samples->kernels.items[samples->kernels.count - 1];
}

enum sp_status sp_calibrate_add(struct sp_calibrate_samples *samples, const struct sp_kernel_key *key, double seconds,
                                bool is_average, struct sp_error *err)
{
    if (samples->time_count == SP_MAX_CALIBRATE_TIMES)
        return sp_fail_limit(err, "CALIBRATION_TIMES", "SP_MAX_CALIBRATE_TIMES", SP_MAX_CALIBRATE_TIMES,
                             (int64_t)samples->time_count + 1, "A calibration may have %d times of kernels.",
                             SP_MAX_CALIBRATE_TIMES);
    struct sp_calibrate_kernel *kernel = kernel_of(samples, key);
    if (kernel == NULL && samples->kernels.count == SP_MAX_CALIBRATE_KERNELS)
        return sp_fail_limit(err, "CALIBRATION_KERNELS", "SP_MAX_CALIBRATE_KERNELS", SP_MAX_CALIBRATE_KERNELS,
                             (int64_t)samples->kernels.count + 1, "A calibration may have %d different kernels.",
                             SP_MAX_CALIBRATE_KERNELS);
    if (kernel == NULL || !SP_PUSH(samples->arena, &kernel->seconds, seconds))
        return sp_fail_memory(err);
    kernel->is_average = kernel->is_average || is_average;
    samples->time_count++;
    return SP_OK;
}

SP_ASCENDING_NUMBERS(by_value, double)

/* How much longer the last of the times that have to agree is than the shortest; INFINITY where there are too few. */
static double spread_of(const struct sp_calibrate_kernel *kernel)
{
    const uint32_t needed = kernel->is_average ? 1 : SP_CALIBRATE_REPEATS;
    qsort(kernel->seconds.items, kernel->seconds.count, sizeof *kernel->seconds.items, by_value);
    if (kernel->seconds.count < needed || kernel->seconds.items[0] <= 0)
        return (double)INFINITY;
    return kernel->seconds.items[needed - 1] / kernel->seconds.items[0] - 1;
}

struct tally {
    uint32_t count, unconfirmed;
    const struct sp_calibrate_kernel *worst;
    double worst_spread;
};

static const char *const group_names[] = {"products", "other kernels", "attention of many queries",
                                          "attention of one query", "collectives"};
#define GROUPS (sizeof group_names / sizeof group_names[0])

static enum sp_status refuse(const struct tally *tally, const char *group, struct sp_error *err)
{
    char name[128];
    sp_kernel_key_write(&tally->worst->key, name, sizeof name);
    if (!isfinite(tally->worst_spread))
        return sp_fail(
            err, SP_ERR_REQUEST, "CALIBRATION_NOISE",
            "Of %u %s %u were not measured often enough: each needs %d times above 0, and %s has %u. Let the "
            "runner repeat them.",
            tally->count, group, tally->unconfirmed, SP_CALIBRATE_REPEATS, name, tally->worst->seconds.count);
    return sp_fail(
        err, SP_ERR_REQUEST, "CALIBRATION_NOISE",
        "The measurement is too noisy: of %u %s the %d shortest times of %u differ by more than %g %% (of %s by "
        "%.0f %%). Measure while nothing else runs on the device.",
        tally->count, group, SP_CALIBRATE_REPEATS, tally->unconfirmed, 100 * SP_CALIBRATE_SPREAD, name,
        100 * tally->worst_spread);
}

enum sp_status sp_calibrate_settle(const struct sp_calibrate_samples *samples, struct sp_buf *report,
                                   struct sp_error *err)
{
    struct tally tallies[GROUPS] = {0};
    uint32_t left_out = 0;
    for (uint32_t i = 0; i < samples->kernels.count; i++) {
        struct sp_calibrate_kernel *kernel = &samples->kernels.items[i];
        struct tally *tally = &tallies[kernel->key.kind->group];
        const double spread = spread_of(kernel);
        const bool is_confirmed = spread <= SP_CALIBRATE_SPREAD;
        kernel->shortest = is_confirmed ? kernel->seconds.items[0] : 0;
        tally->count++;
        if (is_confirmed)
            continue;
        left_out++;
        tally->unconfirmed++;
        if (tally->worst == NULL || spread > tally->worst_spread) {
            tally->worst = kernel;
            tally->worst_spread = spread;
        }
    }
    for (size_t g = 0; g < GROUPS; g++) {
        if (tallies[g].worst != NULL && tallies[g].unconfirmed > SP_CALIBRATE_UNCONFIRMED * tallies[g].count)
            return refuse(&tallies[g], group_names[g], err);
    }
    sp_buf_printf(report, "%u kernels, %u times", samples->kernels.count, samples->time_count);
    if (left_out > 0)
        sp_buf_printf(report, "; %u kernels left out, whose %d shortest times differ by more than %g %%", left_out,
                      SP_CALIBRATE_REPEATS, 100 * SP_CALIBRATE_SPREAD);
    sp_buf_text(report, "\n");
    return SP_OK;
}
