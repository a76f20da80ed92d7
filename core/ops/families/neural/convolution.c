/*
 * Convolutions.
 *
 *     Conv            x [n, g*c, h, w]  w [g*m, c, kh, kw]  b [g*m]  ->  y [n, g*m, h', w']
 *     ConvTranspose   x [n, g*c, h, w]  w [g*c, m, kh, kw]  b [g*m]  ->  y [n, g*m, h', w']
 *
 * c is a reduction (sum), spatial axes are halo factors (ops/families/neural/window.h).
 *
 * FLOPs, 1 multiply-add = 2 as in vendors' datasheets and torch.utils.flop_counter: Conv 2 * n * g*m * places * c *
 * taps, ConvTranspose 2 * n * g*c * input elements * m * taps; each plus 1 per output element for a bias.
 */
#include "base/arith.h"
#include "ops/families/neural/window.h"
#include "ops/lowering/functions.h"
#include "ops/table/factors.h"
#include "ops/table/families.h"
#include "ops/table/shape_helpers.h"

/* Which inputs of the operator are what. */
struct roles {
    uint32_t x, w, b;
};

static const struct roles plain = {0, 1, 2};
static const struct roles quantised = {0, 3, 8};        /* QLinearConv: x, w with a scale and a zero point each, B */
static const struct roles integer = {0, 1, UINT32_MAX}; /* ConvInteger: x, w, a zero point of each */

/* ---- what all share ------------------------------------------------------------------------------------------- */

static enum sp_status check_ranks(struct sp_op_context *context, const struct sp_shape *x, const struct sp_shape *w)
{
    uint32_t rank = x != NULL ? x->rank : w->rank;
    if (rank < 3)
        return sp_op_fail(context, "OPERAND_SHAPE", "the input has rank %u, and a convolution needs at least 3", rank);
    if (x != NULL && w != NULL && x->rank != w->rank)
        return sp_op_fail(context, "OPERAND_SHAPE", "the input has rank %u and the weight rank %u", x->rank, w->rank);
    return SP_OK;
}

static enum sp_status read_group(struct sp_op_context *context, int64_t *ret_group)
{
    int64_t group = sp_node_int(context->node, "group", 1);
    if (group < 1)
        return sp_op_fail(context, "ATTRIBUTE_VALUE", "attribute 'group' is %lld", (long long)group);
    *ret_group = group;
    return SP_OK;
}

/* `whole` = group * `part`, as far as both are numbers. */
static enum sp_status check_channels(struct sp_op_context *context, const char *what, struct sp_dim whole,
                                     struct sp_dim part, int64_t group)
{
    int64_t product;
    if (!sp_dim_is_known(whole))
        return SP_OK;
    if (whole.value % group != 0)
        return sp_op_fail(context, "OPERAND_SHAPE", "%lld %s do not divide into %lld groups", (long long)whole.value,
                          what, (long long)group);
    if (sp_dim_is_known(part) && (!sp_mul_i64(part.value, group, &product) || product != whole.value))
        return sp_op_fail(context, "OPERAND_SHAPE",
                          "the input has %lld %s, and the weight is for %lld in each of %lld groups",
                          (long long)whole.value, what, (long long)part.value, (long long)group);
    return SP_OK;
}

static enum sp_status check_bias(struct sp_op_context *context, uint32_t input, struct sp_dim channels)
{
    const struct sp_shape *bias = sp_in_shape(context, input);
    if (bias == NULL)
        return SP_OK;
    if (bias->rank != 1 || sp_dim_differs(context->dims, bias->dims[0], channels))
        return sp_op_fail(context, "OPERAND_SHAPE",
                          "the bias is not a vector with one element for each output channel");
    return SP_OK;
}

/* ---- Conv ----------------------------------------------------------------------------------------------------- */

/* What every convolution begins with: the group, and the window once a rank is known (rank 0: neither operand has one).
 */
static enum sp_status read_window(struct sp_op_context *context, const struct sp_shape *x, const struct sp_shape *w,
                                  int64_t *ret_group, uint32_t *ret_rank, struct sp_window *ret_window)
{
    enum sp_status status = read_group(context, ret_group);
    *ret_rank = 0;
    if (status == SP_OK && (x != NULL || w != NULL))
        status = check_ranks(context, x, w);
    if (status != SP_OK || (x == NULL && w == NULL))
        return status;
    *ret_rank = x != NULL ? x->rank : w->rank;
    return sp_window_read(context, *ret_rank - 2, w, ret_window);
}

static enum sp_status shapes_conv(struct sp_op_context *context, const struct roles *roles, enum sp_dtype dtype)
{
    const struct sp_shape *x = sp_in_shape(context, roles->x), *w = sp_in_shape(context, roles->w);
    struct sp_window window;
    int64_t group = 1;
    uint32_t rank;
    enum sp_status status = read_window(context, x, w, &group, &rank, &window);
    if (status != SP_OK || rank == 0)
        return status != SP_OK ? status : sp_set_output_unranked(context, 0, dtype);
    struct sp_dim *dims = sp_new_dims(context, rank);
    if (status != SP_OK || dims == NULL)
        return status != SP_OK ? status : sp_fail_memory(context->err);
    if (w != NULL) {
        status = check_channels(context, "output channels", w->dims[0], sp_dim_unknown(), group);
        if (status == SP_OK && x != NULL)
            status = check_channels(context, "input channels", x->dims[1], w->dims[1], group);
        if (status == SP_OK)
            status = check_bias(context, roles->b, w->dims[0]);
        dims[1] = w->dims[0];
    }
    if (x != NULL)
        dims[0] = x->dims[0];
    for (uint32_t i = 0; status == SP_OK && x != NULL && i < rank - 2; i++)
        status = sp_window_extent(context, &window, i, x->dims[2 + i], &dims[2 + i]);
    return status != SP_OK ? status : sp_set_output(context, 0, dtype, rank, dims);
}

/* The channel factors: the group factor is SP_RULE_NO_FACTOR for one group. */
struct channels {
    uint8_t group, inner, outer; /* inner: input channels of a group, outer: its output channels */
};

static struct channels channel_factors(struct sp_op_context *context, struct sp_rule *rule, int64_t group,
                                       struct sp_dim inner, struct sp_dim all_outer)
{
    struct channels channels = {.group = SP_RULE_NO_FACTOR};
    struct sp_dim groups = sp_dim_known(group);
    if (group > 1)
        channels.group = sp_rule_factor(rule, "g", SP_FACTOR_PARALLEL, groups);
    channels.outer = sp_rule_factor(rule, "m", SP_FACTOR_PARALLEL, sp_dim_exact_div(context->dims, all_outer, groups));
    channels.inner = sp_factor_reduction(rule, "c", inner, SP_COMBINE_SUM);
    return channels;
}

static void map_channels(struct sp_rule *rule, bool is_input, uint32_t operand, uint32_t axis, uint8_t group,
                         uint8_t channel)
{
    void (*map)(struct sp_rule *, uint32_t, uint32_t, uint8_t) = is_input ? sp_rule_map_input : sp_rule_map_output;
    if (group != SP_RULE_NO_FACTOR)
        map(rule, operand, axis, group);
    map(rule, operand, axis, channel);
}

/* A per-channel vector (a bias, a scale of the weights), or a scalar, which stays whole. */
static void map_vector(struct sp_op_context *context, struct sp_rule *rule, uint32_t input,
                       const struct channels *channels)
{
    const struct sp_shape *shape = sp_in_shape(context, input);
    if (shape != NULL && shape->rank == 1 && !sp_dim_is(shape->dims[0], 1))
        map_channels(rule, true, input, 0, channels->group, channels->outer);
}

static enum sp_status rule_conv(struct sp_op_context *context, struct sp_rule *rule, const struct roles *roles)
{
    const struct sp_shape *x = sp_in_shape(context, roles->x), *w = sp_in_shape(context, roles->w);
    const struct sp_shape *y = &context->node->outputs[0]->type.shape;
    struct sp_factor_list work = {0}, places = {0};
    struct sp_window window;
    int64_t group = 1;
    enum sp_status status = read_group(context, &group);
    if (status == SP_OK)
        status = sp_window_read(context, x->rank - 2, w, &window);
    if (status != SP_OK)
        return status;

    uint8_t n = sp_rule_factor(rule, "n", SP_FACTOR_PARALLEL, x->dims[0]);
    struct channels channels = channel_factors(context, rule, group, w->dims[1], w->dims[0]);
    sp_rule_map_input(rule, roles->x, 0, n);
    sp_rule_map_output(rule, 0, 0, n);
    map_channels(rule, true, roles->x, 1, channels.group, channels.inner);
    map_channels(rule, true, roles->w, 0, channels.group, channels.outer);
    sp_rule_map_input(rule, roles->w, 1, channels.inner);
    map_channels(rule, false, 0, 1, channels.group, channels.outer);
    sp_factor_list_add(&places, n);
    if (channels.group != SP_RULE_NO_FACTOR)
        sp_factor_list_add(&places, channels.group);
    sp_factor_list_add(&places, channels.outer);
    work = places;
    sp_factor_list_add(&work, channels.inner);
    for (uint32_t i = 0; i < window.rank; i++) {
        struct sp_window_factors axis =
            sp_window_factors(context, rule, &window, i, x->dims[2 + i], y->dims[2 + i], SP_COMBINE_SUM);
        sp_window_map_input(rule, roles->x, 2 + i, &axis);
        sp_rule_map_output(rule, 0, 2 + i, axis.place);
        sp_factor_list_add(&places, axis.place);
        sp_factor_list_add(&work, axis.place);
        if (axis.tap != SP_RULE_NO_FACTOR) {
            sp_rule_map_input(rule, roles->w, 2 + i, axis.tap);
            sp_factor_list_add(&work, axis.tap);
        }
    }
    sp_rule_term_list(rule, 2, &work);
    if (sp_has_input(context, roles->b)) {
        map_vector(context, rule, roles->b, &channels);
        sp_rule_term_list(rule, 1, &places);
    }
    if (roles == &quantised) { /* scale and zero point of the weights go with the output channels */
        map_vector(context, rule, 4, &channels);
        map_vector(context, rule, 5, &channels);
    }
    if (roles == &integer)
        map_vector(context, rule, 3, &channels);
    return SP_OK;
}

static enum sp_status shapes_plain_conv(struct sp_op_context *context)
{
    return shapes_conv(context, &plain, sp_in_dtype(context, 0));
}

static enum sp_status rule_plain_conv(struct sp_op_context *context, struct sp_rule *rule)
{
    return rule_conv(context, rule, &plain);
}

static enum sp_status shapes_conv_integer(struct sp_op_context *context)
{
    return shapes_conv(context, &integer, SP_DTYPE_INT32);
}

static enum sp_status rule_conv_integer(struct sp_op_context *context, struct sp_rule *rule)
{
    return rule_conv(context, rule, &integer);
}

static enum sp_status shapes_qlinear_conv(struct sp_op_context *context)
{
    return shapes_conv(context, &quantised, sp_in_dtype(context, 7));
}

/* The result is rounded to 8 bits when the sum is whole (sp_lower_qlinear_conv()). */
static enum sp_status rule_qlinear_conv(struct sp_op_context *context, struct sp_rule *rule)
{
    return rule_conv(context, rule, &quantised);
}

/* ---- ConvTranspose -------------------------------------------------------------------------------------------- */

/* The output extent along a spatial axis. `given` is the attribute output_shape or NULL. */
static enum sp_status transpose_extent(struct sp_op_context *context, const struct sp_window *window, uint32_t axis,
                                       struct sp_dim in, const int64_t *given, int64_t padding, struct sp_dim *ret_out)
{
    struct sp_dims *dims = context->dims;
    struct sp_dim stride = sp_dim_known(window->stride[axis]);
    if (given != NULL) {
        *ret_out = sp_dim_known(given[axis]);
        return SP_OK;
    }
    bool is_same = window->auto_pad == SP_PAD_SAME_UPPER || window->auto_pad == SP_PAD_SAME_LOWER;
    bool is_gapped = window->kernel[axis] != 0 && padding < window->stride[axis] &&
                     window->span[axis] < window->stride[axis] - padding;
    if (is_same && !is_gapped) { /* windows with gaps between them make less, and nothing is cut off */
        *ret_out = sp_dim_mul(dims, in, stride);
        return SP_OK;
    }
    if (window->kernel[axis] == 0) {
        *ret_out = sp_dim_unknown();
        return SP_OK;
    }
    struct sp_dim out = sp_dim_mul(dims, sp_dim_sub(dims, in, sp_dim_known(1)), stride);
    out = sp_dim_add(dims, out, sp_dim_known(window->span[axis]));
    out = sp_dim_add(dims, out, sp_dim_known(padding));
    out = sp_dim_sub(dims, out, sp_dim_known(window->low[axis]));
    out = sp_dim_sub(dims, out, sp_dim_known(window->high[axis]));
    if (sp_dim_is_known(out) && out.value < 0)
        return sp_op_fail(context, "OPERAND_SHAPE", "its padding removes more than all of spatial axis %u", axis);
    *ret_out = out;
    return SP_OK;
}

/* output_shape and output_padding, checked: one non-negative item for each spatial axis, or NULL. With `may_hold_all`
   the attribute may have items for batch and channels in front, as some exporters of opset 1 wrote it. */
static enum sp_status read_output_ints(struct sp_op_context *context, const char *name, uint32_t rank,
                                       bool may_hold_all, const int64_t **ret_ints)
{
    uint32_t count;
    const int64_t *ints = sp_node_ints(context->node, name, &count);
    *ret_ints = NULL;
    if (ints == NULL || count == 0)
        return SP_OK;
    if (may_hold_all && count == rank + 2) {
        ints += 2;
        count = rank;
    }
    if (count != rank)
        return sp_op_fail(context, "ATTRIBUTE_RANK", "attribute '%s' has %u items for %u spatial axes", name, count,
                          rank);
    for (uint32_t i = 0; i < rank; i++) {
        if (ints[i] < 0)
            return sp_op_fail(context, "ATTRIBUTE_VALUE", "attribute '%s' holds %lld", name, (long long)ints[i]);
    }
    *ret_ints = ints;
    return SP_OK;
}

static enum sp_status shapes_conv_transpose(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0), *w = sp_in_shape(context, 1);
    enum sp_dtype dtype = sp_in_dtype(context, 0);
    const int64_t *given, *padding;
    struct sp_window window;
    int64_t group = 1;
    uint32_t rank;
    enum sp_status status = read_window(context, x, w, &group, &rank, &window);
    if (status != SP_OK || rank == 0)
        return status != SP_OK ? status : sp_set_output_unranked(context, 0, dtype);
    status = read_output_ints(context, "output_shape", rank - 2, true, &given);
    if (status == SP_OK)
        status = read_output_ints(context, "output_padding", rank - 2, false, &padding);
    struct sp_dim *dims = sp_new_dims(context, rank);
    if (status != SP_OK || dims == NULL)
        return status != SP_OK ? status : sp_fail_memory(context->err);
    if (w != NULL) {
        struct sp_dim channels = x != NULL ? x->dims[1] : w->dims[0];
        if (sp_dim_differs(context->dims, channels, w->dims[0]))
            return sp_op_fail(context, "OPERAND_SHAPE", "the input and the weight differ in the number of channels");
        status = check_channels(context, "input channels", w->dims[0], sp_dim_unknown(), group);
        dims[1] = sp_dim_mul(context->dims, w->dims[1], sp_dim_known(group));
        if (status == SP_OK)
            status = check_bias(context, 2, dims[1]);
    }
    if (x != NULL)
        dims[0] = x->dims[0];
    for (uint32_t i = 0; status == SP_OK && i < rank - 2; i++)
        status = transpose_extent(context, &window, i, x != NULL ? x->dims[2 + i] : sp_dim_unknown(), given,
                                  padding != NULL ? padding[i] : 0, &dims[2 + i]);
    return status != SP_OK ? status : sp_set_output(context, 0, dtype, rank, dims);
}

/*
 * The factors of one spatial axis of ConvTranspose: input i adds to outputs [i * stride - low, ... + span), so an even
 * split of both needs inputs of the neighbours whose windows reach over. With kernel = stride and no padding windows
 * do not overlap and the output axis is [place, tap].
 */
static void transpose_axis(struct sp_op_context *context, struct sp_rule *rule, const struct sp_window *window,
                           uint32_t axis, struct sp_factor_list *work, double *ratio)
{
    struct sp_dim in = sp_in_shape(context, 0)->dims[2 + axis];
    struct sp_dim out = context->node->outputs[0]->type.shape.dims[2 + axis];
    int64_t kernel = window->kernel[axis], stride = window->stride[axis];
    struct sp_dim taps = kernel > 0 ? sp_dim_known(kernel) : sp_dim_unknown();
    char name[SP_FACTOR_NAME_SIZE], tap_name[SP_FACTOR_NAME_SIZE];
    sp_window_axis_name(name, "", window->rank, axis);
    sp_window_axis_name(tap_name, "k", window->rank, axis);
    uint32_t added_count;
    const int64_t *added = sp_node_ints(context->node, "output_padding", &added_count);
    bool is_moved = window->low[axis] != 0 || window->high[axis] != 0 || (axis < added_count && added[axis] != 0);
    bool is_tiled = kernel == stride && window->dilation[axis] == 1 && !is_moved &&
                    sp_dim_equal(out, sp_dim_mul(context->dims, in, taps));
    uint8_t place, tap;
    if (is_tiled) {
        place = sp_rule_factor(rule, name, SP_FACTOR_PARALLEL, in);
        tap = sp_rule_factor(rule, tap_name, SP_FACTOR_PARALLEL, taps);
    } else {
        int64_t low = window->low[axis], before = (window->span[axis] - 1 - low) / stride;
        int64_t after = low > 0 ? (low - 1) / stride + 1 : 0;
        place = kernel == 0 ? sp_rule_factor(rule, name, SP_FACTOR_REPLICATE, out)
                            : sp_factor_halo(rule, name, out, before > 0 ? before : 0, after);
        tap = sp_rule_factor(rule, tap_name, SP_FACTOR_REPLICATE, taps);
        /* The work goes with the input's elements, the factor with the output's. */
        if (sp_dim_is_known(in) && sp_dim_is_known(out) && out.value > 0)
            *ratio *= (double)in.value / (double)out.value;
        else
            *ratio /= (double)stride;
    }
    if (kernel != 0 || is_tiled)
        sp_rule_map_input(rule, 0, 2 + axis, place);
    sp_rule_map_input(rule, 1, 2 + axis, tap);
    sp_rule_map_output(rule, 0, 2 + axis, place);
    if (is_tiled)
        sp_rule_map_output(rule, 0, 2 + axis, tap);
    sp_factor_list_add(work, place);
    sp_factor_list_add(work, tap);
}

static enum sp_status rule_conv_transpose(struct sp_op_context *context, struct sp_rule *rule)
{
    const struct sp_shape *x = sp_in_shape(context, 0), *w = sp_in_shape(context, 1);
    struct sp_factor_list work = {0};
    struct sp_window window;
    double ratio = 1;
    int64_t group = 1;
    enum sp_status status = read_group(context, &group);
    if (status == SP_OK)
        status = sp_window_read(context, x->rank - 2, w, &window);
    if (status != SP_OK)
        return status;

    uint8_t n = sp_rule_factor(rule, "n", SP_FACTOR_PARALLEL, x->dims[0]);
    struct sp_dim groups = sp_dim_known(group);
    struct channels channels =
        channel_factors(context, rule, group, sp_dim_exact_div(context->dims, w->dims[0], groups),
                        sp_dim_mul(context->dims, w->dims[1], groups));
    sp_rule_map_input(rule, 0, 0, n);
    sp_rule_map_output(rule, 0, 0, n);
    map_channels(rule, true, 0, 1, channels.group, channels.inner);
    map_channels(rule, true, 1, 0, channels.group, channels.inner);
    sp_rule_map_input(rule, 1, 1, channels.outer);
    map_channels(rule, false, 0, 1, channels.group, channels.outer);
    sp_factor_list_add(&work, n);
    if (channels.group != SP_RULE_NO_FACTOR)
        sp_factor_list_add(&work, channels.group);
    sp_factor_list_add(&work, channels.outer);
    sp_factor_list_add(&work, channels.inner);
    for (uint32_t i = 0; i < window.rank; i++)
        transpose_axis(context, rule, &window, i, &work, &ratio);
    sp_rule_term_list(rule, 2 * ratio, &work);
    if (sp_has_input(context, 2)) {
        map_vector(context, rule, 2, &channels);
        sp_rule_term_output(rule, 1);
    }
    return SP_OK;
}

const struct sp_op sp_ops_convolution[] = {
    SP_ENTRY("", "Conv", 1, 0, 2, 3, 1, 1,
             "[n, g*c, h..] [g*m, c, kh..] [g*m] -> [n, g*m, h..]; c sum, h.. halo, kh.. whole (sum where they tile)",
             "ONNX operator Conv (1, 11, 22)", .shapes = shapes_plain_conv, .rule = rule_plain_conv,
             .lower = sp_lower_conv),
    SP_ENTRY("", "ConvInteger", 10, 0, 2, 4, 1, 1,
             "[n, g*c, h..] [g*m, c, kh..] -> [n, g*m, h..]; c sum, h.. halo, kh.. whole (sum where they tile)",
             "ONNX operator ConvInteger (10)", .shapes = shapes_conv_integer, .rule = rule_conv_integer,
             .lower = sp_lower_conv_integer),
    SP_ENTRY("", "QLinearConv", 10, 0, 8, 9, 1, 1,
             "[n, g*c, h..] [g*m, c, kh..] -> [n, g*m, h..]; c sum, h.. halo, kh.. whole (sum where they tile)",
             "ONNX operator QLinearConv (10)", .shapes = shapes_qlinear_conv, .rule = rule_qlinear_conv,
             .lower = sp_lower_qlinear_conv),
    SP_ENTRY("", "ConvTranspose", 1, 0, 2, 3, 1, 1,
             "[n, g*c, h..] [g*c, m, kh..] [g*m] -> [n, g*m, h..]; c sum, h.. halo, kh.. whole",
             "ONNX operator ConvTranspose (1, 11, 22)", .shapes = shapes_conv_transpose, .rule = rule_conv_transpose,
             .lower = sp_lower_conv_transpose),
    {.name = NULL},
};
