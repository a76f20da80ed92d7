#pragma once
/*
 * internal - what the files of calibrate share: kinds of kernels, and times by kernel.
 */
#include <math.h>
#include <string.h>

#include "base/array.h"
#include "calibrate/calibrate.h"
#include "cost/workload.h"

#define SP_FIT_FIGURES   8                            /* of one fit */
#define SP_KERNEL_SIZES  6                            /* numbers that say how large a kernel is */
#define SP_KERNEL_EXTENT ((int64_t)1 << 40)           /* the largest of them */
#define SP_KERNEL_TERMS  7                            /* operands of a node beside the first */
#define SP_KERNEL_BYTES  ((double)((int64_t)1 << 50)) /* of one operand */

enum sp_kernel_group { SP_GROUP_PRODUCTS, SP_GROUP_OTHER, SP_GROUP_PREFILL, SP_GROUP_DECODE, SP_GROUP_COLLECTIVES };

struct sp_kernel_dims {
    uint32_t rank;
    int64_t dims[4];
};

enum sp_kernel_term_kind {
    SP_TERM_NONE,
    SP_TERM_WEIGHT,
    SP_TERM_INPUT,
    SP_TERM_SCALE,
    SP_TERM_ZERO,
    SP_TERM_LAST_AXIS
};

/* One operand beside the first: weights of its own, an input that all nodes share, a scale or zero point, the number of
   the last axis. */
struct sp_kernel_term {
    enum sp_kernel_term_kind kind;
    enum sp_dtype dtype;
    struct sp_kernel_dims dims;
};

/* A node: its first operand, the others, and the result. */
struct sp_kernel_form {
    const char *op, *domain;
    char attributes[128]; /* JSON's members */
    enum sp_dtype dtype;  /* of the first operand and the result */
    uint32_t copy;        /* which node of the chain it is, for a kind whose nodes differ */
    struct sp_kernel_dims x, y;
    struct sp_kernel_term terms[SP_KERNEL_TERMS];
};

struct sp_kernel_kind {
    const char *name, *sizes; /* "product", "m x k x n" */
    enum sp_kernel_group group;
    uint32_t size_count;
    int turns; /* this size and the next change places in every second node, so that it can take what the one before
                  makes; 0: none do */
    bool is_chained;
    enum sp_device_operation operation; /* of collectives */
    void (*form)(const int64_t *sizes, enum sp_dtype dtype, struct sp_kernel_form *form);
};

/* All kinds; one of a name, or NULL. */
const struct sp_kernel_kind *sp_kernel_kinds(uint32_t *ret_count);
const struct sp_kernel_kind *sp_kernel_kind_find(const char *name, size_t size);

struct sp_kernel_key {
    const struct sp_kernel_kind *kind;
    enum sp_dtype dtype;
    int64_t sizes[SP_KERNEL_SIZES];
};

/* Of three texts, or of "KIND.DTYPE.SIZES" where what follows '#' does not count. False: no kernel is
   called so. */
bool sp_kernel_key_read(const char *kind, const char *dtype, const char *sizes, struct sp_kernel_key *ret_key);
bool sp_kernel_key_of_name(const char *name, size_t size, struct sp_kernel_key *ret_key);
void sp_kernel_key_write(const struct sp_kernel_key *key, char *text, size_t size); /* KIND.DTYPE.SIZES */

/* The sizes of copy `copy` of a chain. */
void sp_kernel_turn(struct sp_kernel_key *key, uint32_t copy);

/* FLOPs, bytes and class, of the operator's rule; not of collectives. */
enum sp_status sp_kernel_key_work(struct sp_arena *arena, const struct sp_kernel_key *key,
                                  struct sp_kernel_work *ret_work, struct sp_error *err);

/* ---- times ---- */

struct sp_calibrate_kernel {
    struct sp_kernel_key key;
    SP_ARRAY(double) seconds;
    bool is_average; /* of many runs, by the program that measured it: one time is enough */
    double shortest; /* where it is confirmed, else 0; of sp_calibrate_settle() */
};

struct sp_calibrate_samples {
    struct sp_arena *arena;
    SP_ARRAY(struct sp_calibrate_kernel) kernels;
    uint32_t time_count;
    const char *runtime, *date; /* of the notes, or NULL */
};

enum sp_status sp_calibrate_add(struct sp_calibrate_samples *samples, const struct sp_kernel_key *key, double seconds,
                                bool is_average, struct sp_error *err);

/* Which kernels are confirmed; SP_ERR_REQUEST "CALIBRATION_NOISE". */
enum sp_status sp_calibrate_settle(const struct sp_calibrate_samples *samples, struct sp_buf *report,
                                   struct sp_error *err);

/* What nccl-tests print; SP_ERR_MALFORMED. */
bool sp_calibrate_is_nccl(const char *text, size_t size);
enum sp_status sp_calibrate_read_nccl(struct sp_calibrate_samples *samples, const char *name, const char *text,
                                      size_t size, struct sp_error *err);

/* A line of a text, without its end. */
struct sp_text_line {
    const char *text;
    size_t size;
    uint32_t number; /* from 1 */
};
bool sp_text_next_line(const char *text, size_t size, size_t *at, struct sp_text_line *line);

/* ---- fits ---- */

/* A kernel as the fit sees it. */
struct sp_fit_point {
    const struct sp_kernel_key *key;
    struct sp_kernel_work work;
    enum sp_dtype dtype;
    enum sp_kernel_group group;
    enum sp_device_operation operation; /* of collectives, whose bytes are work.bytes */
    double ranks, seconds;
};

/* A figure of the device at hand, and where it is looked for. */
struct sp_fit_figure {
    double *value, low, high;
};

struct sp_fit {
    struct sp_device *device; /* that the figures belong to */
    uint32_t point_count, figure_count;
    const struct sp_fit_point *const *points;
    const struct sp_fit_figure *figures;
    double (*predict)(const struct sp_device *device, const struct sp_fit_point *point);
};

/*
 * Sets the figures so that the logarithms of predicted / measured are small, with a loss that does not follow a few
 * far-off points. Before that, each point is predicted by what was fitted without its third of them: ratios[i] =
 * predicted / measured. Deterministic.
 */
void sp_fit_held_out(const struct sp_fit *fit, double *ratios);

double sp_fit_kernel_seconds(const struct sp_device *device, const struct sp_fit_point *point);
double sp_fit_collective_seconds(const struct sp_device *device, const struct sp_fit_point *point);
