#pragma once
/*
 * calibration - one fit at work: the kernels that are confirmed, the device in the making, and what is said of it.
 *
 * Each class of kernels takes its points, names the figures that are to be found, fits them, and tells how far off they
 * are and where they come from.
 */
#include "calibrate/internal.h"

#define SP_CALIBRATION_TEXT 512 /* bytes of one source */

struct sp_calibration {
    struct sp_arena *arena;
    const struct sp_calibrate_samples *samples;
    const struct sp_calibrate_options *options;
    struct sp_fit_point *all; /* confirmed kernels */
    uint32_t all_count;
    struct sp_device device;
    bool is_fitted[SP_DEVICE_FIGURES_COUNT];
    SP_ARRAY(struct sp_device_source) sources;
    SP_ARRAY(double) ratios;                      /* of the class at work */
    const struct sp_fit_point *fastest, *slowest; /* of these the most too fast and too slow */
    double fastest_ratio, slowest_ratio;
    struct sp_buf *report;
    struct sp_error *err;
};

/* The points of one fit. */
struct sp_calibration_points {
    const struct sp_fit_point **points;
    uint32_t count;
};

/* Those of a group; of one type of products, or SP_DTYPE_UNDEFINED. False without memory. */
bool sp_calibration_choose(const struct sp_calibration *work, enum sp_kernel_group group, enum sp_dtype dtype,
                           struct sp_calibration_points *ret);

/* Fits figures of work->device, and adds the ratios of what was held out to those of the class at work. */
enum sp_status sp_calibration_fit(struct sp_calibration *work, const struct sp_calibration_points *chosen,
                                  const struct sp_fit_figure *figures, uint32_t count,
                                  double (*predict)(const struct sp_device *, const struct sp_fit_point *));

/* The residuals of the class at work, and its lines of the report; the next class begins. */
enum sp_status sp_calibration_class(struct sp_calibration *work, enum sp_device_class class, const char *title);

/* Where a figure comes from, in place of what was said before. */
__attribute__((format(printf, 3, 4))) enum sp_status sp_calibration_source(struct sp_calibration *work,
                                                                           const char *path, const char *format, ...);

/* "ONNX Runtime 1.30, 2026-11-26, 1 thread" */
const char *sp_calibration_conditions(const struct sp_calibration *work, char *text, size_t size);

/* Figures that begin with what is likely: a start below the shortest time, a share of a peak. */
struct sp_fit_figure sp_calibration_start(double *value, const struct sp_calibration_points *chosen);
struct sp_fit_figure sp_calibration_share(double *value);

/* The most of FLOPs or bytes that a kernel reached in a second. */
double sp_calibration_most(const struct sp_calibration *work, enum sp_kernel_group group, enum sp_dtype dtype,
                           bool of_flops);

/* The classes; each does nothing where too few of its kernels were measured. */
enum sp_status sp_calibration_products(struct sp_calibration *work);
enum sp_status sp_calibration_other(struct sp_calibration *work);
enum sp_status sp_calibration_attention(struct sp_calibration *work, bool is_prefill);
enum sp_status sp_calibration_collectives(struct sp_calibration *work);
