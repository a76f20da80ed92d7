/*
 * The parts of Resize and Upsample (image.c).
 *
 * Where an output place reads the input depends on the extents of the whole, so a device that has a part of a resized
 * axis does that axis by itself: the places are numbers, and each is one element of the input (nearest), or the sum of
 * two or four with weights (linear, cubic). They are taken with Gather. Positions are computed in single precision, and
 * rounded, as runtimes do. The other axes are resized by the operator, for which the split ones have a scale of 1.
 *
 * What rounds or weighs in ways of the runtime's own (integers, antialiasing) is left to it: where so many inputs make
 * so many outputs again and again, the operator on some of these periods makes what it makes of them in the whole, but
 * at the borders; the part is cut out. What is cut out of an image (tf_crop_and_resize) is made whole and cut.
 */
#include <math.h>
#include <string.h>

#include "base/limits.h"
#include "ops/families/neural/resize.h"
#include "ops/lowering/functions.h"
#include "ops/lowering/parts.h"
#include "ops/lowering/places.h"

#define MAX_TAPS 4

enum mode { NEAREST, LINEAR, CUBIC };

struct work {
    struct sp_resize resize;
    enum mode mode;
    bool is_old; /* before Resize-11: positions are x / scale, and nearest is the next towards the start */
    bool is_done[SP_MAX_RANK];                            /* axes that are resized with Gather */
    bool is_late[SP_MAX_RANK];                            /* axes that are cut in the end */
    struct sp_range from[SP_MAX_RANK], made[SP_MAX_RANK]; /* axes with periods: what they take, and make (else empty) */
};

/* The elements that each place of the part reads along an axis: `count` for each of `taps`, in the whole. */
struct reads {
    uint32_t taps;
    int64_t count;
    int64_t *places[MAX_TAPS];
    double *weights[MAX_TAPS];
};

/* ---- positions ------------------------------------------------------------------------------------------------ */

struct axis {
    int64_t in, out;
    float scale;
};

static float position(const struct sp_lowering *lower, const struct work *work, const struct axis *axis, int64_t place)
{
    const char *mode = sp_node_string(lower->node, "coordinate_transformation_mode", "half_pixel");
    float x = (float)place, in = (float)axis->in, out = (float)axis->out;
    if (axis->scale == 1.0F)
        return x;
    if (work->is_old || strcmp(mode, "asymmetric") == 0)
        return x / axis->scale;
    if (strcmp(mode, "align_corners") == 0)
        return axis->out == 1 ? 0 : x * (in - 1) / (out - 1);
    if (strcmp(mode, "tf_half_pixel_for_nn") == 0)
        return (x + 0.5F) / axis->scale;
    if (strcmp(mode, "pytorch_half_pixel") == 0 && axis->out <= 1)
        return 0;
    if (strcmp(mode, "half_pixel_symmetric") == 0) {
        float centre = in / 2, adjustment = out / (axis->scale * in);
        return centre * (1 - adjustment) + (x + 0.5F) / axis->scale - 0.5F;
    }
    return (x + 0.5F) / axis->scale - 0.5F;
}

static int64_t limited(int64_t place, int64_t extent)
{
    return place < 0 ? 0 : place < extent ? place : extent - 1;
}

static int64_t nearest(const struct sp_lowering *lower, const struct work *work, const struct axis *axis, float x)
{
    const char *mode = sp_node_string(lower->node, "nearest_mode", "round_prefer_floor");
    if (work->is_old)
        return (int64_t)(axis->scale < 1 ? ceilf(x) : truncf(x));
    if (strcmp(mode, "floor") == 0)
        return (int64_t)floorf(x);
    if (strcmp(mode, "ceil") == 0)
        return (int64_t)ceilf(x);
    if (strcmp(mode, "round_prefer_ceil") == 0 || x != truncf(x) + 0.5F)
        return (int64_t)roundf(x);
    return (int64_t)floorf(x);
}

/* The four weights of a cubic between its second and third place. */
static void cubic(double a, double s, double weights[4])
{
    weights[0] = ((a * (s + 1) - 5 * a) * (s + 1) + 8 * a) * (s + 1) - 4 * a;
    weights[1] = ((a + 2) * s - (a + 3)) * s * s + 1;
    weights[2] = ((a + 2) * (1 - s) - (a + 3)) * (1 - s) * (1 - s) + 1;
    weights[3] = ((a * (2 - s) - 5 * a) * (2 - s) + 8 * a) * (2 - s) - 4 * a;
}

static void read_place(const struct sp_lowering *lower, const struct work *work, const struct axis *axis, int64_t i,
                       float x, struct reads *reads)
{
    double weights[MAX_TAPS] = {1}, sum = 0;
    int64_t first = 0;
    if (work->mode == NEAREST) {
        first = nearest(lower, work, axis, x);
    } else if (work->mode == LINEAR) {
        x = x < 0 ? 0 : x > (float)(axis->in - 1) ? (float)(axis->in - 1) : x;
        first = (int64_t)x;
        weights[1] = (double)(x - (float)first);
        weights[0] = 1 - weights[1];
    } else {
        first = (int64_t)floorf(x) - 1;
        cubic(sp_node_float(lower->node, "cubic_coeff_a", -0.75), (double)(x - floorf(x)), weights);
    }
    bool is_excluding = work->mode == CUBIC && sp_node_int(lower->node, "exclude_outside", 0) != 0;
    for (uint32_t tap = 0; tap < reads->taps; tap++) {
        int64_t place = first + tap;
        if (is_excluding && (place < 0 || place >= axis->in))
            weights[tap] = 0;
        sum += weights[tap];
        reads->places[tap][i] = limited(place, axis->in);
    }
    for (uint32_t tap = 0; tap < reads->taps; tap++)
        reads->weights[tap][i] = is_excluding ? weights[tap] / sum : weights[tap];
}

static bool read_axis(struct sp_lowering *lower, const struct work *work, uint32_t i, struct reads *ret)
{
    const struct sp_lower_axis *in = &lower->inputs[0].axes[i], *out = &lower->outputs[0].axes[i];
    struct reads reads = {.taps = work->mode == NEAREST ? 1 : work->mode == LINEAR ? 2 : 4, .count = out->size};
    struct axis axis = {.in = in->extent, .out = out->extent, .scale = (float)out->extent / (float)in->extent};
    if (work->resize.scales != NULL)
        axis.scale = (float)work->resize.scales[i];
    for (uint32_t tap = 0; tap < reads.taps; tap++) {
        reads.places[tap] = SP_NEW_ARRAY(lower->arena, (size_t)reads.count, int64_t);
        reads.weights[tap] = SP_NEW_ARRAY(lower->arena, (size_t)reads.count, double);
        if (reads.places[tap] == NULL || reads.weights[tap] == NULL) {
            sp_lower_failed(lower, sp_fail_memory(lower->err));
            return false;
        }
    }
    const int64_t *places = sp_lower_list(lower, &out->ranges, reads.count);
    for (int64_t k = 0; places != NULL && k < reads.count; k++)
        read_place(lower, work, &axis, k, position(lower, work, &axis, places[k]), &reads);
    *ret = reads;
    return true;
}

/* ---- one axis ------------------------------------------------------------------------------------------------- */

/* The range of the input that is read; the places become indices into it. */
static struct sp_range shift(struct reads *reads)
{
    struct sp_range range = {reads->places[0][0], reads->places[0][0] + 1};
    for (uint32_t tap = 0; tap < reads->taps; tap++) {
        for (int64_t i = 0; i < reads->count; i++) {
            int64_t place = reads->places[tap][i];
            range.start = place < range.start ? place : range.start;
            range.limit = place >= range.limit ? place + 1 : range.limit;
        }
    }
    for (uint32_t tap = 0; tap < reads->taps; tap++)
        for (int64_t i = 0; i < reads->count; i++)
            reads->places[tap][i] -= range.start;
    return range;
}

static struct sp_piece *take(struct sp_lowering *lower, struct sp_piece *x, uint32_t axis, const struct reads *reads)
{
    int64_t dims[SP_MAX_RANK];
    uint32_t rank = lower->inputs[0].rank;
    struct sp_piece *sum = NULL;
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = 1;
    dims[axis] = reads->count;
    for (uint32_t tap = 0; tap < reads->taps && x != NULL; tap++) {
        struct sp_piece *some =
            sp_lower_gather(lower, x, sp_lower_ints(lower, (uint32_t)reads->count, reads->places[tap]), axis);
        if (reads->taps > 1)
            some =
                sp_lower_binary(lower, "Mul", some, sp_lower_reals(lower, x->dtype, rank, dims, reads->weights[tap]));
        sum = tap == 0 ? some : sp_lower_binary(lower, "Add", sum, some);
    }
    return sum;
}

/* ---- the other axes ------------------------------------------------------------------------------------------- */

/* Upsample before opset 9: the scales of all axes, or before 7 of the last two of four. */
static struct sp_piece *run_with_attributes(struct sp_lowering *lower, struct sp_piece *x, uint32_t count,
                                            const double *scales)
{
    const struct sp_lower_attribute all = {.name = "scales", .type = SP_ATTR_FLOATS, .count = count, .floats = scales};
    if (lower->version >= 7 || count != 4)
        return sp_lower_same(lower, 1, &x, 1, &all);
    const struct sp_lower_attribute two[] = {{.name = "height_scale", .type = SP_ATTR_FLOAT, .f = scales[2]},
                                             {.name = "width_scale", .type = SP_ATTR_FLOAT, .f = scales[3]}};
    return sp_lower_same(lower, 1, &x, 2, two);
}

/* Scales or sizes for the operator on what is left: 1 or the part's extent for an axis that it leaves alone. */
static struct sp_piece *run_rest(struct sp_lowering *lower, const struct work *work, struct sp_piece *x)
{
    const struct sp_resize *resize = &work->resize;
    struct sp_piece *pieces[4] = {x};
    double scales[SP_MAX_RANK];
    int64_t sizes[SP_MAX_RANK], count = resize->axis_count;
    bool is_set[SP_MAX_RANK];
    for (uint32_t i = 0; i < resize->axis_count; i++) {
        const struct sp_lower_axis *axis = &lower->outputs[0].axes[resize->axes[i]];
        scales[i] = resize->scales == NULL || work->is_done[resize->axes[i]] ? 1 : resize->scales[resize->axes[i]];
        const struct sp_range *made = &work->made[resize->axes[i]];
        is_set[i] = work->is_done[resize->axes[i]] || (axis->is_cut && !work->is_late[resize->axes[i]]);
        sizes[i] = made->limit > 0 ? made->limit - made->start : axis->size;
    }
    for (uint32_t input = 1; input < lower->input_count && input < 4; input++)
        pieces[input] = sp_lower_input(lower, input);
    if (resize->scales_input == UINT32_MAX)
        return run_with_attributes(lower, x, resize->axis_count, scales);
    if (resize->scales != NULL)
        pieces[resize->scales_input] = sp_lower_reals(lower, SP_DTYPE_FLOAT, 1, &count, scales);
    else if (resize->is_sized)
        pieces[3] = sp_lower_patched(lower, 3, resize->axis_count, is_set, sizes);
    return sp_lower_same(lower, lower->input_count < 4 ? lower->input_count : 4, pieces, 0, NULL);
}

/* ---- all ------------------------------------------------------------------------------------------------------ */

static const char *against(struct sp_lowering *lower, const struct work *work, uint32_t axis)
{
    const struct sp_lower_axis *in = &lower->inputs[0].axes[axis], *out = &lower->outputs[0].axes[axis];
    if (in->extent < 1 || out->extent < 1 || in->extent > INT32_MAX || out->extent > INT32_MAX)
        return "the extents of the axis are not known, or too large";
    if (out->size > SP_MAX_LOCAL_CONSTANT / (int64_t)sizeof(int64_t))
        return "the part of a device is too long for a list of its places";
    if (work->resize.keeps_aspect)
        return "one scale for several axes keeps their ratio";
    if (work->resize.scales == NULL && !work->resize.is_sized)
        return "its scales are not known";
    return NULL;
}

static bool is_runtimes_own(const struct sp_lowering *lower, const struct work *work)
{
    return work->mode != NEAREST &&
           (!sp_dtype_is_float(lower->inputs[0].value->type.dtype) || sp_node_int(lower->node, "antialias", 0) != 0);
}

static bool is_power_of_two(int64_t number)
{
    return (number & (number - 1)) == 0;
}

/* Sets what the axis takes and makes in whole periods of `in` inputs and `out` outputs; a reason where it cannot be. */
static const char *take_periods(struct sp_lowering *lower, struct work *work, uint32_t axis)
{
    const char *mode = sp_node_string(lower->node, "coordinate_transformation_mode", "half_pixel");
    const struct sp_lower_axis *x = &lower->inputs[0].axes[axis], *y = &lower->outputs[0].axes[axis];
    int64_t periods = x->extent, rest = y->extent;
    while (rest != 0) {
        int64_t next = periods % rest;
        periods = rest;
        rest = next;
    }
    const int64_t in = x->extent / periods, out = y->extent / periods, shrink = in / out + 1;
    const int64_t reach = (work->mode == CUBIC ? 3 : 2) * shrink + 2;
    bool is_even = strcmp(mode, "half_pixel") == 0 || strcmp(mode, "half_pixel_symmetric") == 0 ||
                   strcmp(mode, "asymmetric") == 0 || (strcmp(mode, "pytorch_half_pixel") == 0 && out > 1);
    if (work->resize.scales != NULL)
        is_even = is_even && (float)work->resize.scales[axis] == (float)out / (float)in;
    if (!is_even || periods == 1 || y->ranges.count != 1)
        return "runtimes round or weigh what is between elements in ways of their own";
    if (!sp_dtype_is_float(lower->inputs[0].value->type.dtype) && !(is_power_of_two(in) && is_power_of_two(out)))
        return "runtimes round integers between elements in ways of their own";
    int64_t start = y->ranges.ranges[0].start * in / out - reach, limit = y->ranges.ranges[0].limit * in / out + reach;
    start = start > 0 ? start / in : 0;
    limit = (limit + in - 1) / in;
    limit = limit < periods ? limit : periods;
    work->from[axis] = (struct sp_range){start * in, limit * in};
    work->made[axis] = (struct sp_range){start * out, limit * out};
    return NULL;
}

/* Runtimes copy what keeps all its extents, whatever the scales are. So that they see no such thing in what is left of
   the work, axes of that kind are done here as well. */
static void take_kept_axes(struct sp_lowering *lower, struct work *work)
{
    bool is_any = false;
    for (uint32_t axis = 0; axis < lower->outputs[0].rank; axis++)
        is_any = is_any || work->is_done[axis];
    for (uint32_t axis = 0; is_any && axis < lower->outputs[0].rank; axis++) {
        uint8_t factor = sp_lower_output_factor(lower, 0, axis);
        bool is_resized = factor != SP_RULE_NO_FACTOR && lower->rule->factors[factor].kind == SP_FACTOR_HALO;
        if (is_resized && lower->inputs[0].axes[axis].extent == lower->outputs[0].axes[axis].extent)
            work->is_done[axis] = work->is_done[axis] || against(lower, work, axis) == NULL;
    }
}

static void read_work(struct sp_lowering *lower, struct work *work)
{
    struct sp_op_context context = sp_lower_context(lower);
    const char *mode = sp_node_string(lower->node, "mode", "nearest");
    enum sp_status status = sp_resize_read(&context, &work->resize);
    if (status != SP_OK)
        sp_lower_failed(lower, status);
    work->mode = strcmp(mode, "cubic") == 0 ? CUBIC : strcmp(mode, "nearest") == 0 ? NEAREST : LINEAR;
    work->is_old = strcmp(lower->node->op_type, "Upsample") == 0 || lower->version < 11;
    for (uint32_t axis = 0; sp_lower_status(lower) == SP_OK && axis < lower->outputs[0].rank; axis++) {
        uint8_t factor = sp_lower_output_factor(lower, 0, axis);
        if (!sp_lower_is_split(lower, factor))
            continue;
        bool is_copied = lower->rule->factors[factor].kind == SP_FACTOR_PARALLEL;
        work->is_late[axis] = is_copied && !sp_lower_is_cut(&lower->inputs[0], axis);
        work->is_done[axis] = !is_copied;
        const char *why = work->is_done[axis] ? against(lower, work, axis) : NULL;
        if (why == NULL && work->is_done[axis] && is_runtimes_own(lower, work)) {
            why = take_periods(lower, work, axis);
            work->is_done[axis] = false;
        }
        if (why == NULL && work->resize.keeps_aspect && work->resize.is_named[axis])
            why = "one scale for several axes keeps their ratio";
        if (why == NULL && work->resize.scales == NULL && !work->resize.is_sized && work->resize.is_named[axis])
            why = "its scales are not known";
        if (why != NULL)
            sp_lower_refuse(lower, factor, why);
    }
}

enum sp_status sp_lower_resize(struct sp_lowering *lower)
{
    struct work work = {.mode = NEAREST};
    struct reads reads[SP_MAX_RANK] = {{0}};
    struct sp_range box[SP_MAX_RANK];
    const struct sp_lower_operand *y = &lower->outputs[0];
    int64_t dims[SP_MAX_RANK];
    bool is_left = false, is_any = false, is_boxed = false;
    read_work(lower, &work);
    if (sp_lower_status(lower) == SP_OK)
        take_kept_axes(lower, &work);
    for (uint32_t axis = 0; axis < y->rank && sp_lower_status(lower) == SP_OK; axis++) {
        uint8_t factor = sp_lower_output_factor(lower, 0, axis);
        bool is_made = work.made[axis].limit > 0;
        box[axis] = is_made ? work.from[axis] : (struct sp_range){-1, -1};
        is_any = is_any || work.is_done[axis];
        is_boxed = is_boxed || is_made || work.is_done[axis];
        if (work.is_done[axis] && read_axis(lower, &work, axis, &reads[axis]))
            box[axis] = shift(&reads[axis]);
        bool is_resized = factor == SP_RULE_NO_FACTOR || lower->rule->factors[factor].kind != SP_FACTOR_PARALLEL ||
                          sp_lower_input_factor(lower, 0, axis) != factor;
        is_left = is_left || (is_resized && !work.is_done[axis]);
        dims[axis] = work.is_late[axis] ? y->axes[axis].extent : y->axes[axis].size;
        dims[axis] = is_made ? work.made[axis].limit - work.made[axis].start : dims[axis];
    }
    if (sp_lower_status(lower) != SP_OK)
        return sp_lower_status(lower);
    struct sp_piece *x = is_boxed ? sp_lower_input_box(lower, 0, box) : sp_lower_input(lower, 0);
    enum sp_dtype dtype = lower->inputs[0].value->type.dtype;
    if (is_any && work.mode != NEAREST && dtype != SP_DTYPE_DOUBLE)
        x = sp_lower_cast(lower, x, SP_DTYPE_FLOAT);
    for (uint32_t axis = 0; axis < y->rank; axis++)
        if (work.is_done[axis])
            x = take(lower, x, axis, &reads[axis]);
    x = sp_lower_cast(lower, x, dtype);
    if (is_left || !is_any) {
        x = run_rest(lower, &work, x);
        sp_piece_set_dims(lower, x, y->rank, dims);
    }
    for (uint32_t axis = 0; axis < y->rank; axis++)
        if (work.is_late[axis])
            x = sp_lower_cut(lower, x, axis, sp_lower_output_factor(lower, 0, axis));
    for (uint32_t axis = 0; axis < y->rank; axis++) {
        int64_t start = y->axes[axis].ranges.ranges[0].start - work.made[axis].start;
        if (work.made[axis].limit > 0)
            x = sp_lower_slice(lower, x, axis, start, start + y->axes[axis].size);
    }
    sp_lower_output(lower, 0, x);
    return sp_lower_status(lower);
}
