/* Collectives: the forms of device.h, by operation and size of groups. */
#include "calibrate/calibration.h"

/* Which of the groups of 2, 4 and 8 a number of ranks is counted to. */
static uint32_t group_of(double ranks)
{
    return ranks <= 2 ? 0 : ranks <= 4 ? 1 : 2;
}

static enum sp_status fit_operation(struct sp_calibration *work, const struct sp_calibration_points *all,
                                    struct sp_device_collective *figures, enum sp_device_operation operation)
{
    struct sp_fit_figure list[SP_FIT_FIGURES];
    struct sp_calibration_points own = {SP_NEW_ARRAY(work->arena, all->count, const struct sp_fit_point *), 0};
    uint32_t count = 0, sizes[SP_DEVICE_GROUP_SIZES] = {0}, groups = 0;
    if (own.points == NULL)
        return sp_fail_memory(work->err);
    for (uint32_t i = 0; i < all->count; i++) {
        if (all->points[i]->operation == operation) {
            own.points[own.count++] = all->points[i];
            sizes[group_of(all->points[i]->ranks)]++;
        }
    }
    if (own.count < SP_CALIBRATE_POINTS)
        return SP_OK;
    *figures = (struct sp_device_collective){0};
    list[count++] = sp_calibration_start(&figures->start_seconds, &own);
    figures->half_bytes = 1e5;
    list[count++] = (struct sp_fit_figure){&figures->half_bytes, 1, 1e9};
    for (uint32_t g = 0; g < SP_DEVICE_GROUP_SIZES; g++) {
        if (sizes[g] == 0)
            continue;
        groups++;
        list[count++] = sp_calibration_share(&figures->link_share[g]);
    }
    if (groups > 1) {
        figures->rank_seconds = figures->start_seconds / 4;
        list[count++] = (struct sp_fit_figure){&figures->rank_seconds, 1e-10, figures->start_seconds * 4};
    }
    return sp_calibration_fit(work, &own, list, count, sp_fit_collective_seconds);
}

/* The measured library first, and the others of the data sheet; operations that were not measured stay as there. */
static struct sp_device_library *libraries_of(struct sp_calibration *work)
{
    struct sp_device *device = &work->device;
    const char *name = work->options->library != NULL ? work->options->library : "nccl";
    struct sp_device_library *libraries =
        SP_NEW_ARRAY(work->arena, (size_t)device->library_count + 1, struct sp_device_library);
    uint32_t count = 1;
    if (libraries == NULL)
        return NULL;
    libraries[0] = (struct sp_device_library){.name = name};
    for (uint32_t i = 0; i < device->library_count; i++) {
        const bool is_it = strcmp(device->libraries[i].name, name) == 0;
        if (is_it)
            libraries[0] = device->libraries[i];
        else if (count < SP_MAX_DEVICE_LIBRARIES)
            libraries[count++] = device->libraries[i];
    }
    device->libraries = libraries;
    device->library_count = count;
    return libraries;
}

enum sp_status sp_calibration_collectives(struct sp_calibration *work)
{
    struct sp_device *device = &work->device;
    struct sp_calibration_points chosen;
    char text[SP_CALIBRATION_TEXT];
    enum sp_status status = SP_OK;
    if (!sp_calibration_choose(work, SP_GROUP_COLLECTIVES, SP_DTYPE_UNDEFINED, &chosen))
        return sp_fail_memory(work->err);
    if (chosen.count < SP_CALIBRATE_POINTS)
        return SP_OK;
    if (device->link_bandwidth <= 0 && device->host_bandwidth <= 0) { /* the bus bandwidth of the fastest */
        for (uint32_t i = 0; i < chosen.count; i++) {
            const struct sp_fit_point *point = chosen.points[i];
            const double steps = point->operation == SP_DEVICE_ALL_REDUCE ? 2 : 1;
            const double rate = steps * (point->ranks - 1) / point->ranks * point->work.bytes / point->seconds;
            device->link_bandwidth = fmax(device->link_bandwidth, rate);
        }
        status = sp_calibration_source(work, "link_bandwidth", "the most that a collective reached [measured]");
    }
    const struct sp_device before = *device;
    struct sp_device_library *libraries = libraries_of(work);
    if (libraries == NULL)
        return sp_fail_memory(work->err);
    for (int operation = 0; status == SP_OK && operation < SP_DEVICE_OPERATION_COUNT; operation++)
        status = fit_operation(work, &chosen, &libraries[0].operations[operation], (enum sp_device_operation)operation);
    if (status != SP_OK || work->ratios.count == 0) { /* too few of each */
        device->libraries = before.libraries;
        device->library_count = before.library_count;
        return status;
    }
    device->measured[SP_DEVICE_COLLECTIVES] = work->is_fitted[SP_DEVICE_COLLECTIVES] = true;
    status = sp_calibration_source(work, "collectives", "fitted to %u collectives: %s [measured]", chosen.count,
                                   sp_calibration_conditions(work, text, sizeof text));
    return status == SP_OK ? sp_calibration_class(work, SP_DEVICE_CLASS_COLLECTIVES, "collectives") : status;
}
