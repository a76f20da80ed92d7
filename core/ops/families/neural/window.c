#include "ops/families/neural/window.h"

#include <string.h>

#include "base/arith.h"
#include "ops/table/factors.h"
#include "ops/table/shape_helpers.h"

/* `rank` integers of an attribute, each at least `minimum`, or `otherwise` for all when it is absent. */
static enum sp_status read_ints(struct sp_op_context *context, const char *name, uint32_t rank, int64_t minimum,
                                int64_t otherwise, int64_t *values)
{
    uint32_t count;
    const int64_t *given = sp_node_ints(context->node, name, &count);
    if (given == NULL || count == 0) {
        for (uint32_t i = 0; i < rank; i++)
            values[i] = otherwise;
        return SP_OK;
    }
    if (count != rank)
        return sp_op_fail(context, "ATTRIBUTE_RANK", "attribute '%s' has %u items for %u spatial axes", name, count,
                          rank);
    for (uint32_t i = 0; i < rank; i++) {
        if (given[i] < minimum)
            return sp_op_fail(context, "ATTRIBUTE_VALUE", "attribute '%s' holds %lld, and %lld is the least allowed",
                              name, (long long)given[i], (long long)minimum);
        values[i] = given[i];
    }
    return SP_OK;
}

static enum sp_status read_auto_pad(struct sp_op_context *context, enum sp_auto_pad *ret_pad)
{
    static const char *const names[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"};
    const char *text = sp_node_string(context->node, "auto_pad", "NOTSET");
    if (text[0] == '\0')
        text = names[0];
    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) == 0) {
            *ret_pad = (enum sp_auto_pad)i;
            return SP_OK;
        }
    }
    return sp_op_fail(context, "ATTRIBUTE_VALUE", "attribute 'auto_pad' is '%.40s'", text);
}

static enum sp_status read_pads(struct sp_op_context *context, struct sp_window *window)
{
    uint32_t count;
    const int64_t *pads = sp_node_ints(context->node, "pads", &count);
    if (window->auto_pad != SP_PAD_NOTSET || pads == NULL || count == 0)
        return SP_OK; /* the arrays are zero */
    if (count != 2 * (uint64_t)window->rank)
        return sp_op_fail(context, "ATTRIBUTE_RANK", "attribute 'pads' has %u items for %u spatial axes", count,
                          window->rank);
    for (uint32_t i = 0; i < count; i++) {
        if (pads[i] < 0)
            return sp_op_fail(context, "ATTRIBUTE_VALUE", "attribute 'pads' holds %lld, and padding is not negative",
                              (long long)pads[i]);
    }
    memcpy(window->low, pads, window->rank * sizeof *pads);
    memcpy(window->high, pads + window->rank, window->rank * sizeof *pads);
    return SP_OK;
}

static enum sp_status read_kernel(struct sp_op_context *context, const struct sp_shape *weight,
                                  struct sp_window *window)
{
    enum sp_status status = read_ints(context, "kernel_shape", window->rank, 1, 0, window->kernel);
    if (status != SP_OK)
        return status;
    for (uint32_t i = 0; weight != NULL && i < window->rank; i++) {
        struct sp_dim extent = weight->dims[2 + i];
        if (!sp_dim_is_known(extent))
            continue;
        if (extent.value < 1)
            return sp_op_fail(context, "OPERAND_SHAPE", "the weight has no taps along spatial axis %u", i);
        if (window->kernel[i] != 0 && window->kernel[i] != extent.value)
            return sp_op_fail(context, "OPERAND_SHAPE",
                              "attribute 'kernel_shape' says %lld along spatial axis %u, and the weight has %lld taps",
                              (long long)window->kernel[i], i, (long long)extent.value);
        window->kernel[i] = extent.value;
    }
    return SP_OK;
}

enum sp_status sp_window_read(struct sp_op_context *context, uint32_t rank, const struct sp_shape *weight,
                              struct sp_window *ret_window)
{
    struct sp_window window = {.rank = rank};
    int64_t *values = SP_NEW_ARRAY(context->arena, 6 * (size_t)rank, int64_t);
    if (values == NULL)
        return sp_fail_memory(context->err);
    window.kernel = values;
    window.stride = values + rank;
    window.dilation = values + 2 * (size_t)rank;
    window.low = values + 3 * (size_t)rank;
    window.high = values + 4 * (size_t)rank;
    window.span = values + 5 * (size_t)rank;
    window.ceil = sp_node_int(context->node, "ceil_mode", 0) != 0;

    enum sp_status status = read_auto_pad(context, &window.auto_pad);
    if (status == SP_OK)
        status = read_kernel(context, weight, &window);
    if (status == SP_OK)
        status = read_ints(context, "strides", rank, 1, 1, window.stride);
    if (status == SP_OK)
        status = read_ints(context, "dilations", rank, 1, 1, window.dilation);
    if (status == SP_OK)
        status = read_pads(context, &window);
    if (status != SP_OK)
        return status;
    for (uint32_t i = 0; i < rank; i++) {
        if (window.kernel[i] == 0)
            continue;
        if (!sp_mul_i64(window.dilation[i], window.kernel[i] - 1, &window.span[i]) ||
            !sp_add_i64(window.span[i], 1, &window.span[i]))
            return sp_op_fail(context, "ATTRIBUTE_VALUE", "the window along spatial axis %u is too large to count", i);
    }
    *ret_window = window;
    return SP_OK;
}

/* Places of a window by explicit padding, in numbers: the last-window rule needs them. */
static bool known_places(const struct sp_window *window, uint32_t axis, int64_t in, int64_t *ret_places)
{
    int64_t padded, room, stride = window->stride[axis];
    if (!sp_add_i64(in, window->low[axis], &padded) || !sp_add_i64(padded, window->high[axis], &padded) ||
        !sp_sub_i64(padded, window->span[axis], &room))
        return false;
    if (room < 0) {
        *ret_places = 0;
        return true;
    }
    int64_t moves = room / stride;
    if (window->ceil && room % stride != 0) {
        int64_t start;
        /* A further window, unless it would start behind the data. */
        if (sp_mul_i64(moves + 1, stride, &start) && start < padded - window->high[axis])
            moves++;
    }
    return sp_add_i64(moves, 1, ret_places);
}

enum sp_status sp_window_extent(struct sp_op_context *context, const struct sp_window *window, uint32_t axis,
                                struct sp_dim in, struct sp_dim *ret_out)
{
    struct sp_dims *dims = context->dims;
    struct sp_dim stride = sp_dim_known(window->stride[axis]);
    if (window->auto_pad == SP_PAD_SAME_UPPER || window->auto_pad == SP_PAD_SAME_LOWER) {
        *ret_out = sp_dim_ceildiv(dims, in, stride);
        return SP_OK;
    }
    if (window->kernel[axis] == 0) {
        *ret_out = sp_dim_unknown();
        return SP_OK;
    }
    if (sp_dim_is_known(in)) {
        int64_t places;
        if (!known_places(window, axis, in.value, &places)) {
            *ret_out = sp_dim_unknown();
            return SP_OK;
        }
        if (places == 0)
            return sp_op_fail(context, "WINDOW_TOO_LARGE",
                              "the window spans %lld elements along spatial axis %u, and the padded input has fewer",
                              (long long)window->span[axis], axis);
        *ret_out = sp_dim_known(places);
        return SP_OK;
    }
    struct sp_dim room = sp_dim_add(dims, in, sp_dim_known(window->low[axis]));
    room = sp_dim_add(dims, room, sp_dim_known(window->high[axis]));
    room = sp_dim_sub(dims, room, sp_dim_known(window->span[axis]));
    struct sp_dim one = sp_dim_known(1);
    *ret_out = sp_dim_add(dims, sp_dim_floordiv(dims, room, stride), one);
    if (window->ceil && window->stride[axis] > 1) { /* no more than the places that start before the high padding */
        struct sp_dim data = sp_dim_add(dims, in, sp_dim_known(window->low[axis]));
        struct sp_dim places = sp_dim_add(dims, sp_dim_ceildiv(dims, room, stride), one);
        *ret_out = sp_dim_min(dims, places, sp_dim_ceildiv(dims, data, stride));
    }
    return SP_OK;
}

static int64_t at_least_zero(int64_t value)
{
    return value > 0 ? value : 0;
}

void sp_window_padding(const struct sp_window *window, uint32_t axis, struct sp_dim in, struct sp_dim out,
                       int64_t *ret_low, int64_t *ret_high)
{
    *ret_low = window->low[axis];
    *ret_high = window->high[axis];
    if (window->auto_pad != SP_PAD_SAME_UPPER && window->auto_pad != SP_PAD_SAME_LOWER)
        return;
    int64_t total, reach;
    if (sp_dim_is_known(in) && sp_dim_is_known(out) && sp_mul_i64(out.value - 1, window->stride[axis], &reach) &&
        sp_sub_i64(reach, in.value, &reach) && sp_add_i64(reach, window->span[axis], &total))
        total = at_least_zero(total);
    else
        total = at_least_zero(window->span[axis] - window->stride[axis]);
    *ret_low = window->auto_pad == SP_PAD_SAME_UPPER ? total / 2 : total - total / 2;
    *ret_high = total - *ret_low;
}

struct sp_window_factors sp_window_factors(struct sp_op_context *context, struct sp_rule *rule,
                                           const struct sp_window *window, uint32_t axis, struct sp_dim in,
                                           struct sp_dim out, enum sp_combiner combiner)
{
    struct sp_window_factors factors = {.tap = SP_RULE_NO_FACTOR, .kernel = 1};
    char name[SP_FACTOR_NAME_SIZE];
    int64_t low, high, kernel = window->kernel[axis], stride = window->stride[axis], span = window->span[axis];
    sp_window_padding(window, axis, in, out, &low, &high);
    struct sp_dim taps = kernel > 0 ? sp_dim_known(kernel) : sp_dim_unknown();

    sp_window_axis_name(name, "", window->rank, axis);
    factors.is_tiled = kernel > 0 && kernel == stride && window->dilation[axis] == 1 && low == 0 && high == 0 &&
                       sp_dim_equal(in, sp_dim_mul(context->dims, out, taps));
    if (kernel == 0) {
        factors.place = sp_rule_factor(rule, name, SP_FACTOR_REPLICATE, out); /* no halo can be given */
    } else if (factors.is_tiled) {
        factors.place = sp_rule_factor(rule, name, SP_FACTOR_PARALLEL, out);
    } else {
        int64_t reach = 0;
        if (!sp_sub_i64(span, stride, &reach) || !sp_sub_i64(reach, low, &reach))
            reach = 0;
        factors.place = sp_factor_halo(rule, name, out, low, at_least_zero(reach));
    }
    if (kernel == 1)
        return factors;
    factors.kernel = kernel > 0 ? (double)kernel : 1;
    sp_window_axis_name(name, "k", window->rank, axis);
    factors.tap = factors.is_tiled ? sp_factor_reduction(rule, name, taps, combiner)
                                   : sp_rule_factor(rule, name, SP_FACTOR_REPLICATE, taps);
    return factors;
}

void sp_window_map_input(struct sp_rule *rule, uint32_t input, uint32_t axis, const struct sp_window_factors *factors)
{
    sp_rule_map_input(rule, input, axis, factors->place);
    if (factors->is_tiled && factors->tap != SP_RULE_NO_FACTOR)
        sp_rule_map_input(rule, input, axis, factors->tap);
}
