/*
 * Signals.
 *
 *     DFT                [b.., n, 2]      -> [b.., m, 2]       the transformed axis is whole
 *     STFT               [b, n, 1]  [k]   -> [b, f, m, 2]      f (frames) halo, or whole where its
 *                                                          length is not known; the window is whole
 *     MelWeightMatrix    [] [] [] [] []   -> [d..]             any axis of the result
 *     HannWindow, ..     []               -> [n]               any part of the result
 *
 * The last axis holds a real number, or a real and an imaginary part. A real-to-complex transform that is one-sided
 * gives floor(n / 2) + 1 bins; a one-sided inverse takes those and gives n real numbers, n being 2 * (bins - 1) unless
 * dft_length says otherwise.
 *
 * FLOPs: 5 * n * log2(n) for a complex transform of n elements (the usual count of radix-2 transforms), which STFT does
 * for each frame; windows 3 and MelWeightMatrix 2 for each element.
 */
#include <math.h>

#include "ops/lowering/functions.h"
#include "ops/table/factors.h"
#include "ops/table/families.h"
#include "ops/table/shape_helpers.h"

/* An input of one integer: its value, or unknown. */
static struct sp_dim scalar_input(struct sp_op_context *context, uint32_t input)
{
    const struct sp_data *data = sp_in_data(context, input);
    return data != NULL && data->ints != NULL && data->count == 1 ? data->ints[0] : sp_dim_unknown();
}

/* floor(length / 2) + 1. */
static struct sp_dim one_sided(struct sp_dims *dims, struct sp_dim length)
{
    return sp_dim_add(dims, sp_dim_floordiv(dims, length, sp_dim_known(2)), sp_dim_known(1));
}

static double transform_flops(struct sp_dim length)
{
    return sp_dim_is_known(length) && length.value > 1 ? 5 * log2((double)length.value) : 1;
}

/* The last axis of a signal has 1 or 2 elements. */
static enum sp_status check_parts(struct sp_op_context *context, const struct sp_shape *x)
{
    struct sp_dim parts = x->dims[x->rank - 1];
    if (sp_dim_is_known(parts) && parts.value != 1 && parts.value != 2)
        return sp_op_fail(context, "OPERAND_SHAPE",
                          "the last axis of its input has %lld elements, and it holds 1 or 2 parts of a number",
                          (long long)parts.value);
    return SP_OK;
}

/* ---- DFT ------------------------------------------------------------------------------------------------------ */

struct transform {
    bool has_axis; /* `axis` is known */
    uint32_t axis;
    bool is_inverse, is_one_sided;
    struct sp_dim length; /* of the transform; unknown without has_axis */
};

/* The axis is an attribute in version 17 and an input since 20. */
static enum sp_status read_axis(struct sp_op_context *context, uint32_t rank, struct transform *transform)
{
    struct sp_dim axis = sp_dim_known(context->version < 20 ? sp_node_int(context->node, "axis", 1) : -2);
    if (context->version >= 20 && sp_has_input(context, 2))
        axis = scalar_input(context, 2);
    transform->has_axis = sp_dim_is_known(axis);
    if (!transform->has_axis)
        return SP_OK;
    enum sp_status status = sp_normalize_axis(context, axis.value, rank, &transform->axis);
    if (status == SP_OK && transform->axis + 1 == rank)
        return sp_op_fail(context, "AXIS_OUT_OF_RANGE", "it cannot transform the axis of real and imaginary parts");
    return status;
}

static enum sp_status read_transform(struct sp_op_context *context, struct transform *ret_transform)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    struct transform transform = {.is_inverse = sp_node_int(context->node, "inverse", 0) != 0,
                                  .is_one_sided = sp_node_int(context->node, "onesided", 0) != 0};
    if (x->rank < 2)
        return sp_op_fail(context, "OPERAND_SHAPE", "its input has rank %u, and at least 2 is needed", x->rank);
    enum sp_status status = check_parts(context, x);
    if (status == SP_OK)
        status = read_axis(context, x->rank, &transform);
    if (status != SP_OK)
        return status;
    if (sp_has_input(context, 1)) {
        transform.length = scalar_input(context, 1);
    } else if (transform.has_axis && transform.is_inverse && transform.is_one_sided) {
        struct sp_dim bins = sp_dim_sub(context->dims, x->dims[transform.axis], sp_dim_known(1));
        transform.length = sp_dim_mul(context->dims, bins, sp_dim_known(2));
    } else if (transform.has_axis) {
        transform.length = x->dims[transform.axis];
    }
    *ret_transform = transform;
    return SP_OK;
}

static enum sp_status shapes_dft(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    enum sp_dtype dtype = sp_in_dtype(context, 0);
    struct transform transform = {0};
    if (x == NULL)
        return sp_set_output_unranked(context, 0, dtype);
    enum sp_status status = read_transform(context, &transform);
    struct sp_dim *dims = sp_new_dims(context, x->rank);
    if (status != SP_OK || dims == NULL)
        return status != SP_OK ? status : sp_fail_memory(context->err);
    for (uint32_t axis = 0; transform.has_axis && axis + 1 < x->rank; axis++)
        dims[axis] = x->dims[axis];
    if (transform.has_axis) {
        bool is_half = transform.is_one_sided && !transform.is_inverse;
        dims[transform.axis] = is_half ? one_sided(context->dims, transform.length) : transform.length;
    }
    dims[x->rank - 1] = sp_dim_known(transform.is_one_sided && transform.is_inverse ? 1 : 2);
    return sp_set_output(context, 0, dtype, x->rank, dims);
}

static enum sp_status rule_dft(struct sp_op_context *context, struct sp_rule *rule)
{
    const struct sp_shape *x = sp_in_shape(context, 0), *y = &context->node->outputs[0]->type.shape;
    struct sp_factor_list work = {0};
    struct transform transform = {0};
    enum sp_status status = read_transform(context, &transform);
    for (uint32_t axis = 0; status == SP_OK && axis < x->rank; axis++) {
        bool is_free = transform.has_axis && axis != transform.axis && axis + 1 < x->rank;
        bool is_same = sp_dim_equal(x->dims[axis], y->dims[axis]);
        uint8_t factor =
            sp_rule_input_axis(context, rule, 'd', 0, axis, is_free ? SP_FACTOR_PARALLEL : SP_FACTOR_REPLICATE);
        if (is_free || is_same)
            sp_rule_map_output(rule, 0, axis, factor);
        else
            (void)sp_rule_output_axis(context, rule, 'o', 0, axis, SP_FACTOR_REPLICATE);
        if (axis + 1 < x->rank)
            sp_factor_list_add(&work, factor);
    }
    if (status == SP_OK)
        sp_rule_term_list(rule, transform_flops(transform.length), &work);
    return status;
}

/* ---- STFT ----------------------------------------------------------------------------------------------------- */

enum { IN_SIGNAL, IN_STEP, IN_WINDOW, IN_LENGTH };

struct frames {
    struct sp_dim step, length, count; /* of a frame; how many there are */
};

/* The length of a frame: given, or the window's, or (as runtimes take it) the whole signal's. */
static enum sp_status read_frames(struct sp_op_context *context, struct frames *ret_frames)
{
    const struct sp_shape *x = sp_in_shape(context, IN_SIGNAL), *window = sp_in_shape(context, IN_WINDOW);
    struct frames frames = {.step = scalar_input(context, IN_STEP)};
    const bool is_bare = x != NULL && x->rank == 2; /* torch.onnx leaves the axis of parts out, and runtimes take it */
    if (x != NULL && x->rank != 3 && !is_bare)
        return sp_op_fail(context, "OPERAND_SHAPE", "its signal has rank %u instead of 3", x->rank);
    if (is_bare)
        sp_op_accept(context, "OPERAND_SHAPE", "its signal has rank 2 instead of 3");
    if (window != NULL && window->rank != 1)
        return sp_op_fail(context, "OPERAND_SHAPE", "its window has rank %u instead of 1", window->rank);
    if (x != NULL && !is_bare && check_parts(context, x) != SP_OK)
        return SP_ERR_MODEL;
    if (sp_dim_is_known(frames.step) && frames.step.value < 1)
        return sp_op_fail(context, "OPERAND_VALUE", "its frame step is %lld", (long long)frames.step.value);
    if (sp_has_input(context, IN_LENGTH))
        frames.length = scalar_input(context, IN_LENGTH);
    else if (sp_has_input(context, IN_WINDOW))
        frames.length = window != NULL ? window->dims[0] : sp_dim_unknown();
    else if (x != NULL)
        frames.length = x->dims[1];
    if (window != NULL && sp_join_dims(context, frames.length, window->dims[0], &frames.length) != SP_OK)
        return SP_ERR_MODEL;
    if (x != NULL) {
        struct sp_dim room = sp_dim_sub(context->dims, x->dims[1], frames.length);
        if (sp_dim_is_known(room) && room.value < 0)
            return sp_op_fail(context, "WINDOW_TOO_LARGE", "a frame has %lld elements and the signal only %lld",
                              (long long)frames.length.value, (long long)x->dims[1].value);
        frames.count = sp_dim_add(context->dims, sp_dim_floordiv(context->dims, room, frames.step), sp_dim_known(1));
    }
    *ret_frames = frames;
    return SP_OK;
}

static enum sp_status shapes_stft(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, IN_SIGNAL);
    struct frames frames = {{0}};
    enum sp_status status = read_frames(context, &frames);
    if (status != SP_OK)
        return status;
    bool is_half = sp_node_int(context->node, "onesided", 1) != 0;
    struct sp_dim dims[4] = {x != NULL ? x->dims[0] : sp_dim_unknown(), frames.count,
                             is_half ? one_sided(context->dims, frames.length) : frames.length, sp_dim_known(2)};
    return sp_set_output(context, 0, sp_in_dtype(context, IN_SIGNAL), 4, dims);
}

/* Frame f reads elements [f * step, f * step + length): what follows a device's own elements comes from next door. */
static enum sp_status rule_stft(struct sp_op_context *context, struct sp_rule *rule)
{
    const struct sp_shape *y = &context->node->outputs[0]->type.shape;
    struct frames frames = {{0}};
    enum sp_status status = read_frames(context, &frames);
    if (status != SP_OK)
        return status;
    uint8_t b = sp_rule_input_axis(context, rule, 'b', IN_SIGNAL, 0, SP_FACTOR_PARALLEL), f;
    sp_rule_map_output(rule, 0, 0, b);
    if (sp_dim_is_known(frames.length) && sp_dim_is_known(frames.step)) {
        int64_t reach = frames.length.value - frames.step.value;
        f = sp_factor_halo(rule, "f", y->dims[1], 0, reach > 0 ? reach : 0);
        sp_rule_map_input(rule, IN_SIGNAL, 1, f);
    } else {
        (void)sp_rule_input_axis(context, rule, 'n', IN_SIGNAL, 1, SP_FACTOR_REPLICATE);
        f = sp_rule_factor(rule, "f", SP_FACTOR_REPLICATE, y->dims[1]);
    }
    sp_rule_map_output(rule, 0, 1, f);
    if (sp_in_shape(context, IN_SIGNAL)->rank == 3)
        (void)sp_rule_input_axis(context, rule, 'p', IN_SIGNAL, 2, SP_FACTOR_REPLICATE);
    if (sp_has_input(context, IN_WINDOW))
        (void)sp_rule_input_axis(context, rule, 'k', IN_WINDOW, 0, SP_FACTOR_REPLICATE);
    uint8_t m = sp_rule_output_axis(context, rule, 'm', 0, 2, SP_FACTOR_REPLICATE);
    (void)sp_rule_output_axis(context, rule, 'p', 0, 3, SP_FACTOR_REPLICATE);
    const uint8_t work[] = {b, f, m};
    bool is_half = sp_node_int(context->node, "onesided", 1) != 0;
    sp_rule_term(rule, (is_half ? 2 : 1) * transform_flops(frames.length), 3, work);
    return SP_OK;
}

/* ---- windows, MelWeightMatrix --------------------------------------------------------------------------------- */

static enum sp_status shapes_window(struct sp_op_context *context)
{
    enum sp_dtype dtype = SP_DTYPE_UNDEFINED;
    struct sp_dim size = scalar_input(context, 0);
    enum sp_status status = sp_get_dtype(context, "output_datatype", SP_DTYPE_FLOAT, &dtype);
    return status != SP_OK ? status : sp_set_output(context, 0, dtype, 1, &size);
}

static enum sp_status shapes_mel(struct sp_op_context *context)
{
    enum sp_dtype dtype = SP_DTYPE_UNDEFINED;
    struct sp_dim dims[2] = {one_sided(context->dims, scalar_input(context, 1)), scalar_input(context, 0)};
    enum sp_status status = sp_get_dtype(context, "output_datatype", SP_DTYPE_FLOAT, &dtype);
    return status != SP_OK ? status : sp_set_output(context, 0, dtype, 2, dims);
}

const struct sp_op sp_ops_signal[] = {
    SP_ENTRY("", "DFT", 17, 19, 1, 2, 1, 1, "[b.., n, 2] [] -> [b.., m, 2]; n, m whole", "ONNX operator DFT",
             .shapes = shapes_dft, .rule = rule_dft),
    SP_ENTRY("", "DFT", 20, 0, 1, 3, 1, 1, "[b.., n, 2] [] [] -> [b.., m, 2]; n, m whole", "ONNX operator DFT",
             .shapes = shapes_dft, .rule = rule_dft),
    SP_ENTRY("", "STFT", 17, 0, 2, 4, 1, 1,
             "[b, n, 1] [] [k] [] -> [b, f, m, 2]; f halo, whole without known lengths, k, m whole",
             "ONNX operator STFT", .shapes = shapes_stft, .rule = rule_stft, .lower = sp_lower_stft),
    SP_ENTRY("", "HannWindow", 17, 0, 1, 1, 1, 1, "[] -> [d..]", "ONNX operator HannWindow", .shapes = shapes_window,
             .flops = 3, .lower = sp_lower_made_whole),
    SP_ENTRY("", "HammingWindow", 17, 0, 1, 1, 1, 1, "[] -> [d..]", "ONNX operator HammingWindow",
             .shapes = shapes_window, .flops = 3, .lower = sp_lower_made_whole),
    SP_ENTRY("", "BlackmanWindow", 17, 0, 1, 1, 1, 1, "[] -> [d..]", "ONNX operator BlackmanWindow",
             .shapes = shapes_window, .flops = 3, .lower = sp_lower_made_whole),
    SP_ENTRY("", "MelWeightMatrix", 17, 0, 5, 5, 1, 1, "[] [] [] [] [] -> [d..]", "ONNX operator MelWeightMatrix",
             .shapes = shapes_mel, .flops = 2, .lower = sp_lower_made_whole),
    {.name = NULL},
};
