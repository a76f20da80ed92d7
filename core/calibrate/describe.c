/* From times to a device: confirmed kernels, the classes in turn, and what stays as it was. */
#include "calibrate/calibration.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/sorted.h"

/* ---- kernels ------------------------------------------------------------------------------------------------------
 */

static int by_key(const void *a, const void *b)
{
    const struct sp_fit_point *x = a, *y = b;
    return x->group != y->group   ? SP_ORDER(x->group, y->group)
           : x->dtype != y->dtype ? SP_ORDER(x->dtype, y->dtype)
                                  : SP_ORDER(x->seconds, y->seconds);
}

/* In the order of their times, so that every third is held out of all sizes. */
static enum sp_status take_points(struct sp_calibration *work)
{
    const uint32_t count = work->samples->kernels.count;
    work->all = SP_NEW_ARRAY(work->arena, count, struct sp_fit_point);
    if (work->all == NULL)
        return sp_fail_memory(work->err);
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_calibrate_kernel *kernel = &work->samples->kernels.items[i];
        struct sp_fit_point point = {.key = &kernel->key,
                                     .dtype = kernel->key.dtype,
                                     .group = kernel->key.kind->group,
                                     .operation = kernel->key.kind->operation,
                                     .seconds = kernel->shortest};
        enum sp_status status = SP_OK;
        if (kernel->shortest <= 0)
            continue;
        if (point.group == SP_GROUP_COLLECTIVES) {
            point.ranks = (double)kernel->key.sizes[0];
            point.work.bytes = (double)kernel->key.sizes[1];
        } else {
            status = sp_kernel_key_work(work->arena, &kernel->key, &point.work, work->err);
        }
        if (status != SP_OK)
            return status;
        work->all[work->all_count++] = point;
    }
    if (work->all_count > 0)
        qsort(work->all, work->all_count, sizeof *work->all, by_key);
    return SP_OK;
}

/* ---- the device ---------------------------------------------------------------------------------------------------
 */

static enum sp_status begin_device(struct sp_calibration *work)
{
    const struct sp_calibrate_options *options = work->options;
    struct sp_device *device = &work->device;
    if (options->data != NULL)
        *device = *options->data;
    if (options->kind != SP_DEVICE_OF_NO_KIND)
        device->kind = options->kind;
    else if (device->kind == SP_DEVICE_OF_NO_KIND)
        device->kind = SP_DEVICE_CPU;
    if (options->memory_bytes > 0)
        device->memory_bytes = options->memory_bytes;
    if (device->memory_bytes <= 0)
        return sp_fail(
            work->err, SP_ERR_REQUEST, "CALIBRATION_MEMORY",
            "Times do not tell how much memory the device has: give --memory, a number of bytes, or --device, "
            "which has its data sheet.");
    (void)snprintf(device->name, sizeof device->name, "%s", options->name);
    device->runtime = SP_RUNTIME_GENERIC; /* whichever measured: what it adds to a start is in the times */
    device->title = NULL;
    device->price = (struct sp_device_price){0};
    for (uint32_t s = 0; options->data != NULL && s < options->data->source_count; s++) {
        if (!SP_PUSH(work->arena, &work->sources, options->data->sources[s]))
            return sp_fail_memory(work->err);
    }
    if (device->memory_bandwidth <= 0) {
        device->memory_bandwidth = sp_calibration_most(work, SP_GROUP_OTHER, SP_DTYPE_UNDEFINED, false);
        if (device->memory_bandwidth <= 0)
            device->memory_bandwidth = sp_calibration_most(work, SP_GROUP_PRODUCTS, SP_DTYPE_UNDEFINED, false);
    }
    return SP_OK;
}

/* Without a data sheet the bandwidth is what other kernels reach, and shares are of that. */
static void settle_bandwidth(struct sp_calibration *work)
{
    struct sp_device *device = &work->device;
    const double share = device->other.memory_share;
    if (work->options->data != NULL || share <= 0 || !work->is_fitted[SP_DEVICE_OTHER])
        return;
    device->memory_bandwidth *= share;
    device->permuted_bandwidth *= share;
    device->functions_per_second *= share;
    for (int dtype = 0; dtype < SP_DTYPE_COUNT; dtype++)
        device->products[dtype].memory_share = fmin(device->products[dtype].memory_share / share, 4);
    device->prefill.memory_share = fmin(device->prefill.memory_share / share, 4);
    device->decode.memory_share = fmin(device->decode.memory_share / share, 4);
    device->norm.memory_share = fmin(device->norm.memory_share / share, 4);
    device->other.memory_share = 1;
}

static void tell_defaults(const struct sp_calibration *work)
{
    const struct sp_device *device = &work->device;
    const char *const sheet = work->options->data != NULL
                                  ? "figures of the data sheet, or else the defaults of its kind"
                                  : "the defaults of its kind";
    for (int part = 0; part < SP_DEVICE_FIGURES_COUNT; part++) {
        if (!work->is_fitted[part])
            sp_buf_printf(work->report, "not measured: %s; %s count\n",
                          sp_device_figures_name((enum sp_device_figures)part), sheet);
    }
    if (device->link_bandwidth <= 0 && device->host_bandwidth <= 0)
        sp_buf_text(work->report,
                    "not measured: links; a cluster of several such devices needs a mesh with their bandwidth\n");
}

static enum sp_status end_device(struct sp_calibration *work)
{
    struct sp_device *device = &work->device;
    char text[SP_CALIBRATION_TEXT], path[SP_CALIBRATION_TEXT + 16];
    (void)snprintf(path, sizeof path, "calibrated: %s", sp_calibration_conditions(work, text, sizeof text));
    device->source = sp_arena_string(work->arena, path, strlen(path));
    if (device->source == NULL)
        return sp_fail_memory(work->err);
    device->sources = work->sources.items;
    device->source_count = work->sources.count;
    tell_defaults(work);
    return SP_OK;
}

static bool is_figure(double value)
{
    return value >= 1 && value <= SP_MAX_FIGURE;
}

/* The device must be one that a file may describe. */
static enum sp_status check_device(const struct sp_calibration *work)
{
    const struct sp_device *device = &work->device;
    const double optional[] = {device->permuted_bandwidth, device->functions_per_second, device->link_bandwidth};
    bool has_peak = false, is_sound = is_figure(device->memory_bandwidth);
    for (int dtype = 0; dtype < SP_DTYPE_COUNT; dtype++) {
        has_peak = has_peak || device->flops[dtype] > 0;
        is_sound = is_sound && (device->flops[dtype] == 0 || is_figure(device->flops[dtype]));
    }
    for (size_t i = 0; i < sizeof optional / sizeof optional[0]; i++)
        is_sound = is_sound && optional[i] <= SP_MAX_FIGURE;
    if (!has_peak || device->memory_bandwidth <= 0)
        return sp_fail(
            work->err, SP_ERR_REQUEST, "CALIBRATION_EMPTY",
            "At least %d products of one type and a few other kernels have to be measured, or --device has to "
            "give the peaks of a data sheet.",
            SP_CALIBRATE_POINTS);
    if (!is_sound)
        return sp_fail(
            work->err, SP_ERR_REQUEST, "CALIBRATION_UNITS",
            "By these times the device would do less than one operation in a second, or more than any: times "
            "are in seconds, and sizes are numbers of elements.");
    return SP_OK;
}

enum sp_status sp_calibrate_fit(struct sp_arena *arena, const struct sp_calibrate_samples *samples,
                                const struct sp_calibrate_options *options, struct sp_device *ret_device,
                                struct sp_buf *report, struct sp_error *err)
{
    struct sp_calibration work = {.arena = arena, .samples = samples, .options = options, .report = report, .err = err};
    enum sp_status status = sp_calibrate_settle(samples, report, err);
    if (status == SP_OK)
        status = take_points(&work);
    if (status == SP_OK)
        status = begin_device(&work);
    sp_buf_printf(report, "\n%-28s %7s %8s %11s   %s\n", "held out", "kernels", "ratio", "error", "5 - 95 %");
    if (status == SP_OK)
        status = sp_calibration_products(&work);
    if (status == SP_OK)
        status = sp_calibration_other(&work);
    if (status == SP_OK)
        status = sp_calibration_attention(&work, true);
    if (status == SP_OK)
        status = sp_calibration_attention(&work, false);
    if (status == SP_OK)
        status = sp_calibration_collectives(&work);
    if (status != SP_OK)
        return status;
    settle_bandwidth(&work);
    status = check_device(&work);
    if (status == SP_OK)
        status = end_device(&work);
    if (status == SP_OK)
        *ret_device = work.device;
    return status;
}
