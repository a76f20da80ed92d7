/* What the fits of all classes share: which kernels, how a fit is made, and what is said of it. */
#include "calibrate/calibration.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/sorted.h"

static bool is_of(const struct sp_fit_point *point, enum sp_kernel_group group, enum sp_dtype dtype)
{
    return point->group == group && (dtype == SP_DTYPE_UNDEFINED || point->dtype == dtype);
}

bool sp_calibration_choose(const struct sp_calibration *work, enum sp_kernel_group group, enum sp_dtype dtype,
                           struct sp_calibration_points *ret)
{
    ret->count = 0;
    ret->points = SP_NEW_ARRAY(work->arena, work->all_count, const struct sp_fit_point *);
    for (uint32_t i = 0; ret->points != NULL && i < work->all_count; i++) {
        if (is_of(&work->all[i], group, dtype))
            ret->points[ret->count++] = &work->all[i];
    }
    return ret->points != NULL;
}

/* ---- what is said -------------------------------------------------------------------------------------------------
 */

enum sp_status sp_calibration_source(struct sp_calibration *work, const char *path, const char *format, ...)
{
    char text[SP_CALIBRATION_TEXT];
    SP_FORMAT(text, format);
    const char *copy = sp_arena_string(work->arena, text, strlen(text));
    if (copy == NULL)
        return sp_fail_memory(work->err);
    for (uint32_t s = 0; s < work->sources.count; s++) {
        if (strcmp(work->sources.items[s].path, path) != 0)
            continue;
        work->sources.items[s].text = copy; /* in place of the data sheet's */
        return SP_OK;
    }
    if (work->sources.count < SP_MAX_DEVICE_SOURCES &&
        !SP_PUSH(work->arena, &work->sources, (struct sp_device_source){path, copy}))
        return sp_fail_memory(work->err);
    return SP_OK;
}

/* "ONNX Runtime 1.30, 2026-11-26, 1 thread" */
const char *sp_calibration_conditions(const struct sp_calibration *work, char *text, size_t size)
{
    const char *runtime = work->samples->runtime, *date = work->samples->date;
    const struct sp_calibrate_options *options = work->options;
    date = date != NULL ? date : options->date;
    (void)snprintf(text, size, "%s%s%s%s%s", runtime != NULL ? runtime : "times of its owner", date != NULL ? ", " : "",
                   date != NULL ? date : "", options->conditions != NULL ? ", " : "",
                   options->conditions != NULL ? options->conditions : "");
    return text;
}

SP_ASCENDING_NUMBERS(by_ratio, double)

static double quantile(const double *sorted, uint32_t count, double share)
{
    const double at = share * (count - 1);
    const uint32_t below = (uint32_t)at;
    return below + 1 >= count ? sorted[count - 1] : sorted[below] + (at - below) * (sorted[below + 1] - sorted[below]);
}

/* The residuals of a class, of what was held out; a range that does not hold 1 is widened to it. */
enum sp_status sp_calibration_class(struct sp_calibration *work, enum sp_device_class class, const char *title)
{
    double *ratios = work->ratios.items;
    const uint32_t count = work->ratios.count;
    double *errors = SP_NEW_ARRAY(work->arena, count, double);
    if (errors == NULL)
        return sp_fail_memory(work->err);
    qsort(ratios, count, sizeof *ratios, by_ratio);
    for (uint32_t i = 0; i < count; i++)
        errors[i] = fabs(ratios[i] - 1);
    qsort(errors, count, sizeof *errors, by_ratio);
    const double low = quantile(ratios, count, 0.05), high = quantile(ratios, count, 0.95);
    work->device.residuals[class] = (struct sp_device_residual){fmax(fmin(low, 1), 0.001), fmin(fmax(high, 1), 1000)};
    sp_buf_printf(work->report, "%-28s %7u %8.2f %9.1f %%   %.2f - %.2f\n", title, count, quantile(ratios, count, 0.5),
                  100 * quantile(errors, count, 0.5), low, high);
    char fastest[SP_CALIBRATION_TEXT], slowest[SP_CALIBRATION_TEXT];
    sp_kernel_key_write(work->fastest->key, fastest, sizeof fastest);
    sp_kernel_key_write(work->slowest->key, slowest, sizeof slowest);
    sp_buf_printf(work->report, "    furthest off: %s %.2f, %s %.2f\n", fastest, work->fastest_ratio, slowest,
                  work->slowest_ratio);
    work->fastest = work->slowest = NULL;
    work->ratios.count = 0;
    return SP_OK;
}

/* ---- fits ---------------------------------------------------------------------------------------------------------
 */

enum sp_status sp_calibration_fit(struct sp_calibration *work, const struct sp_calibration_points *chosen,
                                  const struct sp_fit_figure *figures, uint32_t count,
                                  double (*predict)(const struct sp_device *, const struct sp_fit_point *))
{
    const struct sp_fit job = {.device = &work->device,
                               .point_count = chosen->count,
                               .points = chosen->points,
                               .figure_count = count,
                               .figures = figures,
                               .predict = predict};
    double *ratios = SP_NEW_ARRAY(work->arena, chosen->count, double);
    if (ratios == NULL)
        return sp_fail_memory(work->err);
    sp_fit_held_out(&job, ratios);
    for (uint32_t i = 0; i < chosen->count; i++) {
        if (!SP_PUSH(work->arena, &work->ratios, ratios[i]))
            return sp_fail_memory(work->err);
        if (work->fastest == NULL || ratios[i] < work->fastest_ratio) {
            work->fastest = chosen->points[i];
            work->fastest_ratio = ratios[i];
        }
        if (work->slowest == NULL || ratios[i] > work->slowest_ratio) {
            work->slowest = chosen->points[i];
            work->slowest_ratio = ratios[i];
        }
    }
    return SP_OK;
}

static double shortest_of(const struct sp_calibration_points *chosen)
{
    double seconds = (double)INFINITY;
    for (uint32_t i = 0; i < chosen->count; i++)
        seconds = fmin(seconds, chosen->points[i]->seconds);
    return seconds;
}

/* The start is between nothing and the shortest time, as near as the forms allow. */
struct sp_fit_figure sp_calibration_start(double *value, const struct sp_calibration_points *chosen)
{
    const double shortest = shortest_of(chosen);
    *value = 0.8 * shortest;
    return (struct sp_fit_figure){value, fmax(shortest / 1000, 1e-12), fmin(fmax(2 * shortest, 2e-12), SP_MAX_SECONDS)};
}

struct sp_fit_figure sp_calibration_share(double *value)
{
    *value = 0.7;
    return (struct sp_fit_figure){value, 1e-4, 4};
}

/* The most of FLOPs or bytes that a kernel reached in a second. */
double sp_calibration_most(const struct sp_calibration *work, enum sp_kernel_group group, enum sp_dtype dtype,
                           bool of_flops)
{
    double most = 0;
    for (uint32_t i = 0; i < work->all_count; i++) {
        const struct sp_fit_point *point = &work->all[i];
        if (is_of(point, group, dtype) && !(point->work.permutes && !of_flops))
            most = fmax(most, (of_flops ? point->work.flops : point->work.bytes) / point->seconds);
    }
    return most;
}
