/*
 * Figures that make predicted times near to measured ones: one figure at a time, each by golden section, until nothing
 * changes. There are few figures, and each moves the times of its class in one direction.
 */
#include "calibrate/internal.h"

#define SWEEPS 60
#define GOLDEN 0.6180339887498949
#define STEPS  40   /* of one golden section: 0.618^40 is 4e-9 of the range */
#define STILL  1e-7 /* a sweep that gains less is the last */
#define FOLDS  3

/* Below this a residual counts as its square, beyond as itself: first all do, so that the search ends at no kink; in
   the end few that are far off do not count much. */
static const double nears[] = {1, 0.2, 0.05};
#define NEARS (sizeof nears / sizeof nears[0])

/* ---- what a device takes ------------------------------------------------------------------------------------------
 */

double sp_fit_kernel_seconds(const struct sp_device *device, const struct sp_fit_point *point)
{
    const struct sp_cluster own = {.efficiency = 0, .launch_seconds = SP_LAUNCH_NOT_STATED};
    return sp_roofline_seconds(device, &own, point->dtype, &point->work);
}

double sp_fit_collective_seconds(const struct sp_device *device, const struct sp_fit_point *point)
{
    static const enum sp_collective kinds[SP_DEVICE_OPERATION_COUNT] = {
        [SP_DEVICE_ALL_REDUCE] = SP_ALL_REDUCE,
        [SP_DEVICE_ALL_GATHER] = SP_ALL_GATHER,
        [SP_DEVICE_REDUCE_SCATTER] = SP_REDUCE_SCATTER,
        [SP_DEVICE_ALL_TO_ALL] = SP_ALL_TO_ALL,
    };
    const struct sp_device_collective *figures = &device->libraries[0].operations[point->operation];
    const double link = device->link_bandwidth > 0 ? device->link_bandwidth : device->host_bandwidth;
    const uint32_t ranks = (uint32_t)point->ranks;
    struct sp_link_form form = {.kind = kinds[point->operation],
                                .start_seconds = figures->start_seconds,
                                .rank_seconds = figures->rank_seconds,
                                .half_bytes = figures->half_bytes};
    const struct sp_link_forms forms = {1, &form};
    const struct sp_mesh_level level = {.size = ranks, .bandwidth = link, .forms = &forms};
    for (uint32_t g = 0; g < SP_LINK_GROUP_SIZES; g++)
        form.bandwidth[g] = link * figures->link_share[g];
    /* of an all-to-all what all ranks have, there */
    const double bytes = point->work.bytes * (point->operation == SP_DEVICE_ALL_TO_ALL ? point->ranks : 1);
    return sp_collective_seconds(&(struct sp_links){1, &level}, form.kind, &ranks, bytes);
}

/* ---- the search ---------------------------------------------------------------------------------------------------
 */

/* One search: points whose number leaves the rest `held` are held out (FOLDS: none are), and how residuals count. */
struct view {
    uint32_t held;
    double near;
};

static double loss(const struct sp_fit *fit, struct view view)
{
    double sum = 0;
    for (uint32_t i = 0; i < fit->point_count; i++) {
        if (i % FOLDS == view.held)
            continue;
        const double ratio = log(fit->predict(fit->device, fit->points[i]) / fit->points[i]->seconds);
        sum += sqrt(ratio * ratio + view.near * view.near) - view.near;
    }
    return sum;
}

static double loss_at(const struct sp_fit *fit, struct view view, const struct sp_fit_figure *figure, double logarithm)
{
    *figure->value = exp(logarithm);
    return loss(fit, view);
}

/* The best value of one figure, the others as they are; returns the loss. */
static double improve(const struct sp_fit *fit, struct view view, const struct sp_fit_figure *figure, double width)
{
    const double start = *figure->value, before = loss(fit, view);
    double low = fmax(log(figure->low), log(start) - width), high = fmin(log(figure->high), log(start) + width);
    double a = high - GOLDEN * (high - low), b = low + GOLDEN * (high - low);
    double at_a = loss_at(fit, view, figure, a), at_b = loss_at(fit, view, figure, b);
    for (int step = 0; step < STEPS; step++) {
        if (at_a <= at_b) {
            high = b;
            b = a;
            at_b = at_a;
            a = high - GOLDEN * (high - low);
            at_a = loss_at(fit, view, figure, a);
        } else {
            low = a;
            a = b;
            at_a = at_b;
            b = low + GOLDEN * (high - low);
            at_b = loss_at(fit, view, figure, b);
        }
    }
    const double found = loss_at(fit, view, figure, (low + high) / 2);
    if (found < before)
        return found;
    *figure->value = start;
    return before;
}

static void search_view(const struct sp_fit *fit, struct view view)
{
    double best = loss(fit, view);
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        const double before = best;
        for (uint32_t f = 0; f < fit->figure_count; f++)
            best = improve(fit, view, &fit->figures[f], sweep < 3 ? 30 : 1);
        if (before - best < STILL && sweep >= 3)
            break;
    }
}

static void search(const struct sp_fit *fit, uint32_t held)
{
    for (size_t i = 0; i < NEARS; i++)
        search_view(fit, (struct view){held, nears[i]});
}

void sp_fit_held_out(const struct sp_fit *fit, double *ratios)
{
    double start[SP_FIT_FIGURES] = {0};
    for (uint32_t f = 0; f < fit->figure_count && f < SP_FIT_FIGURES; f++)
        start[f] = *fit->figures[f].value;
    for (uint32_t fold = 0; fold < FOLDS; fold++) {
        for (uint32_t f = 0; f < fit->figure_count && f < SP_FIT_FIGURES; f++)
            *fit->figures[f].value = start[f];
        search(fit, fold);
        for (uint32_t i = fold; i < fit->point_count; i += FOLDS)
            ratios[i] = fit->predict(fit->device, fit->points[i]) / fit->points[i]->seconds;
    }
    for (uint32_t f = 0; f < fit->figure_count && f < SP_FIT_FIGURES; f++)
        *fit->figures[f].value = start[f];
    search(fit, FOLDS);
}
