#pragma once
/*
 * calibrate - the figures of a device (cost/cluster/device.h) from times that its owner measured.
 *
 *   set       models of one kind of kernel each, to be run where the device is
 *   samples   what was measured: times of kernels, out of ONNX Runtime's profiles, CSV, and what nccl-tests print
 *   fit       the device whose times by sp_roofline_seconds() are nearest to them, and how near that is
 *
 * A kernel is named by its kind, element type and sizes:
 *
 *   product.float32.128x768x3072        as the node of a model, of which the profile tells ("#2" behind it: the third)
 *   product,float32,128x768x3072,0.004  as a row of CSV with its seconds
 *
 * What it computes and moves is what a plan counts of the same operator: a model of one such node is made, and costed.
 * So any sizes may be measured, not only those of the set, and by any program.
 *
 * Each kernel is measured several times, and the shortest time counts: whatever else runs on the machine makes times
 * longer, never shorter. It counts where it was confirmed: the SP_CALIBRATE_REPEATS shortest times lie within
 * SP_CALIBRATE_SPREAD of it. Kernels that were not confirmed are left out, and where these are more than
 * SP_CALIBRATE_UNCONFIRMED of a class, the measurement is refused: it says nothing of the device.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "cost/cluster/device.h"

#define SP_CALIBRATE_REPEATS     3    /* times that have to agree */
#define SP_CALIBRATE_SPREAD      0.15 /* of the shortest */
#define SP_CALIBRATE_UNCONFIRMED 0.25 /* of the kernels of a class */
#define SP_CALIBRATE_POINTS      5    /* kernels of a class that figures need; fewer of an attention */

/* ---- what is to be measured ---- */

enum sp_calibrate_size { SP_CALIBRATE_SMALL, SP_CALIBRATE_LARGE };

struct sp_calibrate_wish {
    enum sp_calibrate_size size; /* small: seconds on one core, large: a second or more of an accelerator's time */
    uint32_t dtype_count;
    const enum sp_dtype *dtypes; /* of products; those that are floating of other kernels, too */
    uint32_t devices;            /* from 2 on there are collectives */
};

/* One model of the set. */
struct sp_calibrate_entry {
    char name[96];   /* the kernel's, without a copy's number; the file's, with ".onnx" behind it */
    uint32_t copies; /* nodes of this kernel, one behind the other */
    bool times_run;  /* the run is timed, not each node: these are too short for a profile */
};

/* Upper bound of the entries of any set. */
#define SP_CALIBRATE_MAX_ENTRIES 512

/* The entries of a set, in `arena`. */
enum sp_status sp_calibrate_set(struct sp_arena *arena, const struct sp_calibrate_wish *wish,
                                struct sp_calibrate_entry **ret_entries, uint32_t *ret_count, struct sp_error *err);

/*
 * The ONNX file of an entry, which the caller releases. Its weights are the first bytes of a file "weights.bin" beside
 * it, *ret_weight_bytes of them; any numbers do that are no NaN.
 */
enum sp_status sp_calibrate_model(const struct sp_calibrate_entry *entry, struct sp_buf *ret_bytes,
                                  double *ret_weight_bytes, struct sp_error *err);

/* For a runner, as CSV: file, kernel, dtype, shape, copies, timing ("node" or "run"), ranks. */
void sp_calibrate_list(const struct sp_calibrate_entry *entries, uint32_t count, struct sp_buf *buf);

/* Kinds of kernels and their sizes, a line each: "  product         m x k x n". */
void sp_calibrate_kinds(struct sp_buf *buf);

/* README.md of the set; and what to run of nccl-tests and of the OSU benchmarks of MPI, "" for one device. */
void sp_calibrate_readme(const struct sp_calibrate_wish *wish, struct sp_buf *buf);
void sp_calibrate_commands(const struct sp_calibrate_wish *wish, struct sp_buf *buf);

/* ---- what was measured ---- */

#define SP_MAX_CALIBRATE_KERNELS 4096    /* different ones */
#define SP_MAX_CALIBRATE_TIMES   1000000 /* of all */

struct sp_calibrate_samples;

/* Empty; in `arena`. NULL without memory. */
struct sp_calibrate_samples *sp_calibrate_samples_create(struct sp_arena *arena);

/*
 * Adds what is in a file of this name: a profile of ONNX Runtime (a JSON array of events), CSV whose head names
 * kernel, dtype, shape and seconds (lines with '#' are notes; "# runtime: TEXT" and "# date: YYYY-MM-DD" are kept), or
 * the text that nccl-tests print. The collective of the latter is what the text says, or what the file's name begins
 * with (all_reduce_perf.txt).
 *
 * SP_ERR_MALFORMED "CALIBRATION_FILE": none of these, or broken; `where` is the line or the event. SP_ERR_REQUEST
 * "CALIBRATION_KERNEL": no such kind of kernel, or its sizes are no such kernel's. SP_ERR_LIMIT.
 */
enum sp_status sp_calibrate_read(struct sp_calibrate_samples *samples, const char *name, const char *text, size_t size,
                                 struct sp_error *err);

/* ---- what follows ---- */

struct sp_calibrate_options {
    const char *name;         /* of the device */
    enum sp_device_kind kind; /* SP_DEVICE_OF_NO_KIND: the data sheet's, or else of a CPU */
    const struct sp_device
        *data;           /* its data sheet: peaks stay, and shares of them are fitted; or NULL: peaks are what was
                                     reached, and shares are 1 */
    double memory_bytes; /* 0: the data sheet's */
    const char *library; /* of collectives; NULL: "nccl" */
    const char *date, *conditions; /* of the measurement, for its sources: YYYY-MM-DD; "4 threads", or NULL */
};

/*
 * The device, whose texts are in `arena`, and a table for people of how far it is off: each class of kernels is fitted
 * three times without a third of them, which is predicted then. Figures that were not measured are those of the data
 * sheet, or stay out, so that the defaults of the kind count; the table says which.
 *
 * SP_ERR_REQUEST "CALIBRATION_NOISE", "CALIBRATION_EMPTY" (products or other kernels are missing, and no data sheet
 * helps), "CALIBRATION_MEMORY" (nobody says how large the memory is).
 */
enum sp_status sp_calibrate_fit(struct sp_arena *arena, const struct sp_calibrate_samples *samples,
                                const struct sp_calibrate_options *options, struct sp_device *ret_device,
                                struct sp_buf *report, struct sp_error *err);
