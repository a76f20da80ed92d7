/*
 * Operators on windows of places: Conv, pools, Resize.
 *
 * The places that an output needs are a table: for each of its indices and each tap of the window where the item is
 * along the input's axis, or PADDING. An output place of which a tap is not looked at is not looked at either.
 */
#include <string.h>

#include "base/limits.h"
#include "verify/operators/evaluate.h"

#define PADDING    (-1)
#define MAX_PLACES 6 /* axes of places */

struct window {
    struct sp_index_axis axis; /* of the output */
    uint32_t taps;
    int64_t *items; /* axis.count x taps */
};

static enum sp_status window_room(struct sp_call *call, int64_t extent, uint32_t taps, struct window *window)
{
    if (extent < 0 || extent > SP_MAX_EVALUATED_NUMBERS || taps > SP_MAX_EVALUATED_NUMBERS)
        return sp_call_refuse(call, "a window does not fit its input");
    int64_t *at = SP_NEW_ARRAY(call->arena, (size_t)extent, int64_t);
    *window = (struct window){{extent, 0, at}, taps, SP_NEW_ARRAY(call->arena, (size_t)extent * taps, int64_t)};
    return at == NULL || window->items == NULL ? sp_fail_memory(call->err) : SP_OK;
}

struct steps_along {
    int64_t kernel, stride, dilation, low, high;
};

static enum sp_status make_window(struct sp_call *call, const struct sp_index_axis *own, struct steps_along along,
                                  bool rounds_up, struct window *window)
{
    const int64_t reach = (along.kernel - 1) * along.dilation + 1, room = own->extent + along.low + along.high - reach;
    if (along.kernel < 1 || along.stride < 1 || along.dilation < 1 || room < 0)
        return sp_call_refuse(call, "a window does not fit its input");
    int64_t extent = (rounds_up ? (room + along.stride - 1) / along.stride : room / along.stride) + 1;
    if (rounds_up && (extent - 1) * along.stride >= own->extent + along.low)
        extent--;
    enum sp_status status = window_room(call, extent, (uint32_t)along.kernel, window);
    int64_t *at = status == SP_OK ? (int64_t *)(uintptr_t)window->axis.at : NULL;
    for (int64_t place = 0; status == SP_OK && place < extent; place++) {
        int64_t *items = &window->items[(size_t)window->axis.count * window->taps];
        bool is_there = true;
        for (uint32_t tap = 0; tap < window->taps; tap++) {
            const int64_t index = place * along.stride - along.low + tap * along.dilation;
            const bool is_inside = index >= 0 && index < own->extent;
            items[tap] = is_inside ? sp_index_find(own, index) : PADDING;
            is_there = is_there && (!is_inside || items[tap] >= 0);
        }
        if (is_there)
            at[window->axis.count++] = place;
    }
    if (status == SP_OK && window->axis.count == extent)
        window->axis.at = NULL;
    return status;
}

/* Kernel, strides, dilations and pads of all axes of places, as attributes say. */
static enum sp_status read_windows(struct sp_call *call, const struct sp_numbers *x, const int64_t *kernel,
                                   struct window *windows, struct steps_along *ret_steps)
{
    uint32_t counts[3];
    const uint32_t places = x->rank - 2;
    const int64_t *strides = sp_node_ints(call->node, "strides", &counts[0]),
                  *dilations = sp_node_ints(call->node, "dilations", &counts[1]),
                  *pads = sp_node_ints(call->node, "pads", &counts[2]);
    const char *automatic = sp_node_string(call->node, "auto_pad", "NOTSET");
    enum sp_status status = SP_OK;
    if ((strides != NULL && counts[0] != places) || (dilations != NULL && counts[1] != places) ||
        (pads != NULL && counts[2] != 2 * places))
        return sp_call_refuse(call, "its attributes are for other axes");
    for (uint32_t i = 0; status == SP_OK && i < places; i++) {
        struct steps_along along = {kernel[i], strides != NULL ? strides[i] : 1, dilations != NULL ? dilations[i] : 1,
                                    pads != NULL ? pads[i] : 0, pads != NULL ? pads[places + i] : 0};
        const int64_t extent = x->axes[i + 2].extent;
        if (strncmp(automatic, "SAME", 4) == 0 && along.stride > 0) {
            const int64_t out = (extent + along.stride - 1) / along.stride;
            const int64_t all = (out - 1) * along.stride + (along.kernel - 1) * along.dilation + 1 - extent;
            const int64_t pad = all > 0 ? all : 0;
            along.low = strcmp(automatic, "SAME_UPPER") == 0 ? pad / 2 : pad - pad / 2;
            along.high = pad - along.low;
        } else if (strcmp(automatic, "VALID") == 0) {
            along.low = along.high = 0;
        }
        if (along.low < -SP_MAX_EVALUATED_NUMBERS || along.low > SP_MAX_EVALUATED_NUMBERS ||
            along.high < -SP_MAX_EVALUATED_NUMBERS || along.high > SP_MAX_EVALUATED_NUMBERS ||
            along.kernel > SP_MAX_EVALUATED_NUMBERS || along.dilation > SP_MAX_EVALUATED_NUMBERS)
            return sp_call_refuse(call, "a window does not fit its input");
        status = make_window(call, &x->axes[i + 2], along, sp_node_int(call->node, "ceil_mode", 0) != 0, &windows[i]);
        ret_steps[i] = along;
    }
    return status;
}

/* Goes over the taps of all axes at an output place: where the item is, or PADDING. */
static int64_t tap_at(uint32_t places, const struct window *windows, const int64_t *strides, const uint32_t *place,
                      const uint32_t *tap)
{
    int64_t item = 0;
    for (uint32_t i = 0; i < places; i++) {
        const int64_t at = windows[i].items[(size_t)place[i] * windows[i].taps + tap[i]];
        if (at == PADDING)
            return PADDING;
        item += at * strides[i + 2];
    }
    return item;
}

static bool advance(uint32_t count, uint32_t *digits, const struct window *windows, bool of_taps)
{
    for (uint32_t i = count; i-- > 0;) {
        if (++digits[i] < (of_taps ? windows[i].taps : windows[i].axis.count))
            return true;
        digits[i] = 0;
    }
    return false;
}

struct convolution {
    const struct sp_numbers *x, *w;
    uint32_t places;
    int64_t per_group_in, per_group_out;
    const struct window *windows;
    sp_number2 add, multiply;
    const uint32_t *channels; /* for each input channel of each group an item of x, by the channels of w */
};

static struct sp_number convolve_at(const struct convolution *work, const int64_t *x_strides, uint32_t image,
                                    uint32_t channel, const uint32_t *place)
{
    const struct sp_numbers *w = work->w;
    uint32_t tap[MAX_PLACES] = {0};
    uint64_t taps = 1, t = 0;
    struct sp_number sum = {0, 0};
    const uint32_t group = (uint32_t)(sp_index_at(&w->axes[0], channel) / work->per_group_out);
    for (uint32_t i = 0; i < work->places; i++)
        taps *= work->windows[i].taps;
    do {
        const int64_t at = tap_at(work->places, work->windows, x_strides, place, tap);
        for (uint32_t c = 0; at != PADDING && c < w->axes[1].count; c++) {
            const uint32_t from = work->channels[group * w->axes[1].count + c];
            if (from == UINT32_MAX)
                continue;
            const struct sp_number product =
                work->multiply(work->x->items[image * x_strides[0] + from * x_strides[1] + at],
                               w->items[((uint64_t)channel * w->axes[1].count + c) * taps + t]);
            sum = work->add(sum, product);
        }
        t++;
    } while (advance(work->places, tap, work->windows, true));
    return sum;
}

enum sp_status sp_evaluate_conv(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0), *w = sp_call_in(call, 1), *b = sp_call_in(call, 2);
    struct window windows[MAX_PLACES];
    struct steps_along along[MAX_PLACES];
    struct sp_index_axis axes[SP_MAX_RANK];
    int64_t kernel[MAX_PLACES], x_strides[SP_MAX_RANK];
    const int64_t groups = sp_node_int(call->node, "group", 1);
    if (x == NULL || w == NULL || x->rank < 3 || x->rank - 2 > MAX_PLACES || w->rank != x->rank)
        return sp_evaluate_by_rule(call);
    const bool is_float = sp_dtype_is_float(x->dtype);
    struct convolution work = {.x = x, .w = w, .places = x->rank - 2, .windows = windows};
    work.add = is_float ? sp_number_add : sp_integer_add;
    work.multiply = is_float ? sp_number_multiply : sp_integer_multiply;
    if (groups < 1 || groups > w->axes[0].extent || w->axes[0].extent % groups != 0 ||
        x->axes[1].extent != w->axes[1].extent * groups)
        return sp_call_refuse(call, "its channels do not fit its weight");
    for (uint32_t i = 0; i < work.places; i++) {
        kernel[i] = w->axes[i + 2].extent;
        if (w->axes[i + 2].count != kernel[i])
            return sp_call_refuse(call, "a kernel is not looked at as a whole");
    }
    work.per_group_in = w->axes[1].extent;
    work.per_group_out = w->axes[0].extent / groups;
    uint32_t *channels = SP_NEW_ARRAY(call->arena, (size_t)groups * w->axes[1].count, uint32_t);
    if (channels == NULL)
        return sp_fail_memory(call->err);
    for (int64_t g = 0; g < groups; g++) {
        for (uint32_t c = 0; c < w->axes[1].count; c++) {
            const int64_t at = sp_index_find(&x->axes[1], g * work.per_group_in + sp_index_at(&w->axes[1], c));
            channels[g * w->axes[1].count + c] = at < 0 ? UINT32_MAX : (uint32_t)at;
        }
    }
    work.channels = channels;
    enum sp_status status = read_windows(call, x, kernel, windows, along);
    axes[0] = x->axes[0];
    axes[1] = w->axes[0];
    for (uint32_t i = 0; status == SP_OK && i < work.places; i++)
        axes[i + 2] = windows[i].axis;
    if (status == SP_OK)
        status = sp_numbers_create(call->arena, x->dtype, x->rank, axes, &call->out[0], call->err);
    if (status != SP_OK || call->out[0]->count == 0)
        return status;
    if (w->count / (w->axes[0].count > 0 ? w->axes[0].count : 1) > SP_MAX_EVALUATED_PRODUCTS / call->out[0]->count)
        return sp_call_refuse(call, "it has too many products to be evaluated");
    sp_numbers_strides(x, x_strides);
    uint64_t n = 0;
    for (uint32_t image = 0; image < axes[0].count; image++) {
        for (uint32_t channel = 0; channel < axes[1].count; channel++) {
            uint32_t place[MAX_PLACES] = {0};
            do
                call->out[0]->items[n++] = convolve_at(&work, x_strides, image, channel, place);
            while (advance(work.places, place, windows, false));
        }
    }
    if (b == NULL)
        return SP_OK;
    struct sp_numbers *bias;
    for (uint32_t i = 0; i < x->rank; i++)
        axes[i] = i == 1 ? b->axes[0] : sp_index_all(1);
    status = b->rank == 1 ? sp_numbers_view(call->arena, b, x->rank, axes, &bias, call->err)
                          : sp_call_refuse(call, "its bias is no vector");
    return status == SP_OK
               ? sp_numbers_binary(call->arena, call->out[0], bias, x->dtype, work.add, &call->out[0], call->err)
               : status;
}

static enum sp_status evaluate_pool(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    const bool is_max = call->node->op_type[0] == 'M';
    struct window windows[MAX_PLACES];
    struct steps_along along[MAX_PLACES];
    struct sp_index_axis axes[SP_MAX_RANK];
    int64_t strides[SP_MAX_RANK];
    uint32_t count;
    const int64_t *kernel = sp_node_ints(call->node, "kernel_shape", &count);
    if (x == NULL || x->rank < 3 || x->rank - 2 > MAX_PLACES || kernel == NULL || count != x->rank - 2 ||
        call->out_count > 1 || !sp_dtype_is_float(x->dtype))
        return sp_evaluate_by_rule(call);
    const uint32_t places = x->rank - 2;
    const bool counts_pads = sp_node_int(call->node, "count_include_pad", 0) != 0;
    enum sp_status status = read_windows(call, x, kernel, windows, along);
    axes[0] = x->axes[0];
    axes[1] = x->axes[1];
    for (uint32_t i = 0; status == SP_OK && i < places; i++)
        axes[i + 2] = windows[i].axis;
    if (status == SP_OK)
        status = sp_numbers_create(call->arena, x->dtype, x->rank, axes, &call->out[0], call->err);
    if (status != SP_OK || call->out[0]->count == 0)
        return status;
    uint64_t taps_each = 1;
    for (uint32_t i = 0; i < places; i++)
        taps_each *= windows[i].taps;
    if (taps_each > SP_MAX_EVALUATED_PRODUCTS / call->out[0]->count)
        return sp_call_refuse(call, "its windows are too large to be evaluated");
    sp_numbers_strides(x, strides);
    uint64_t n = 0;
    for (uint64_t plane = 0; plane < (uint64_t)axes[0].count * axes[1].count; plane++) {
        const int64_t base =
            (int64_t)(plane / axes[1].count) * strides[0] + (int64_t)(plane % axes[1].count) * strides[1];
        uint32_t place[MAX_PLACES] = {0};
        do {
            uint32_t tap[MAX_PLACES] = {0}, items = 0, taps = 0;
            struct sp_number sum = {0, 0};
            do {
                const int64_t at = tap_at(places, windows, strides, place, tap);
                taps++;
                if (at == PADDING)
                    continue;
                const struct sp_number item = x->items[base + at];
                sum = items++ == 0 ? item : is_max ? sp_number_max(sum, item) : sp_number_add(sum, item);
            } while (advance(places, tap, windows, true));
            call->out[0]->items[n++] =
                is_max ? sum : sp_number_divide(sum, sp_number_of_real(counts_pads ? taps : items));
        } while (advance(places, place, windows, false));
    }
    return SP_OK;
}

/* ---- Resize ----------------------------------------------------------------------------------------------------- */

/* In float32, as runtimes compute it: which element is nearest hangs on it. */
static double coordinate(const char *mode, int64_t place, float scale, int64_t in, int64_t out)
{
    const float x = (float)place;
    if (strcmp(mode, "asymmetric") == 0)
        return (double)(x / scale);
    if (strcmp(mode, "align_corners") == 0)
        return out <= 1 ? 0 : (double)(x * (float)(in - 1) / (float)(out - 1));
    if (strcmp(mode, "pytorch_half_pixel") == 0 && out <= 1)
        return 0;
    return (double)((x + 0.5F) / scale - 0.5F);
}

static double nearest(const char *mode, double x)
{
    if (strcmp(mode, "floor") == 0)
        return floor(x);
    if (strcmp(mode, "ceil") == 0)
        return ceil(x);
    if (strcmp(mode, "round_prefer_ceil") == 0)
        return floor(x + 0.5);
    return ceil(x - 0.5);
}

static enum sp_status resize_axis(struct sp_call *call, const struct sp_numbers *x, uint32_t axis, int64_t extent,
                                  double scale, struct sp_numbers **ret)
{
    const bool is_linear = strcmp(sp_node_string(call->node, "mode", "nearest"), "linear") == 0;
    const char *mode = call->version < 11 ? "asymmetric"
                                          : sp_node_string(call->node, "coordinate_transformation_mode", "half_pixel"),
               *rounding =
                   call->version < 11 ? "floor" : sp_node_string(call->node, "nearest_mode", "round_prefer_floor");
    const struct sp_index_axis *own = &x->axes[axis];
    struct sp_numbers *parts[2];
    enum sp_status status = SP_OK;
    uint32_t *from[2] = {SP_NEW_ARRAY(call->arena, (size_t)extent, uint32_t),
                         SP_NEW_ARRAY(call->arena, (size_t)extent, uint32_t)};
    double *weights = SP_NEW_ARRAY(call->arena, (size_t)extent, double);
    int64_t *at = SP_NEW_ARRAY(call->arena, (size_t)extent, int64_t);
    struct sp_index_axis axes = {extent, 0, at};
    if (from[0] == NULL || from[1] == NULL || weights == NULL || at == NULL)
        return sp_fail_memory(call->err);
    for (int64_t place = 0; place < extent; place++) {
        const double point = coordinate(mode, place, (float)scale, own->extent, extent);
        const double lower = is_linear ? floor(point) : nearest(rounding, point);
        int64_t items[2];
        for (int k = 0; k < 2; k++) {
            const double index = fmax(0, fmin((double)own->extent - 1, lower + (is_linear ? k : 0)));
            items[k] = sp_index_find(own, (int64_t)index);
        }
        if (items[0] < 0 || items[1] < 0)
            continue;
        from[0][axes.count] = (uint32_t)items[0];
        from[1][axes.count] = (uint32_t)items[1];
        weights[axes.count] = point - lower;
        at[axes.count++] = place;
    }
    if (axes.count == extent)
        axes.at = NULL;
    for (int k = 0; status == SP_OK && k < (is_linear ? 2 : 1); k++)
        status = sp_numbers_take(call->arena, x, axis, &axes, from[k], &parts[k], call->err);
    uint64_t inner = 1;
    for (uint32_t i = axis + 1; i < x->rank; i++)
        inner *= x->axes[i].count;
    for (uint64_t i = 0; status == SP_OK && is_linear && i < parts[0]->count; i++) {
        const double weight = weights[i / inner % axes.count];
        parts[0]->items[i] =
            sp_number_add(sp_number_multiply(parts[0]->items[i],
                                             sp_number_subtract((struct sp_number){1, 1}, sp_number_of_real(weight))),
                          sp_number_multiply(parts[1]->items[i], sp_number_of_real(weight)));
    }
    if (status == SP_OK)
        *ret = parts[0];
    return status;
}

static enum sp_status evaluate_resize(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    const bool is_old = call->version < 11;
    const struct sp_numbers *scales = sp_call_in(call, is_old ? 1 : 2);
    const char *mode = sp_node_string(call->node, "mode", "nearest"),
               *places = sp_node_string(call->node, "coordinate_transformation_mode", "half_pixel");
    const int64_t *sizes = NULL;
    struct sp_numbers *out;
    uint32_t count = 0;
    enum sp_status status = SP_OK;
    if (x == NULL || strcmp(mode, "cubic") == 0 || strstr(places, "tf_") == places ||
        strcmp(places, "half_pixel_symmetric") == 0 || sp_node_int(call->node, "antialias", 0) != 0 ||
        sp_node_attribute(call->node, "axes") != NULL)
        return sp_evaluate_by_rule(call);
    if (sp_call_in(call, 3) != NULL)
        status = sp_call_ints(call, 3, &count, &sizes);
    else if (scales == NULL || !scales->is_known || scales->count != x->rank)
        return sp_call_refuse(call, "its sizes are not known");
    if (status != SP_OK || (sizes != NULL && count != x->rank))
        return status != SP_OK ? status : sp_call_refuse(call, "its sizes are for other axes");
    status = sp_numbers_view(call->arena, x, x->rank, x->axes, &out, call->err);
    for (uint32_t i = 0; status == SP_OK && i < x->rank; i++) {
        const int64_t own = x->axes[i].extent;
        const double scale = sizes != NULL ? (double)sizes[i] / (double)own : scales->items[i].real;
        const int64_t extent = sizes != NULL ? sizes[i] : (int64_t)floor((double)own * scale);
        if (own == 0 || extent < 0 || extent > SP_MAX_EVALUATED_NUMBERS || scale <= 0)
            return sp_call_refuse(call, "its sizes are too large");
        if (extent == own)
            continue;
        status = resize_axis(call, out, i, extent, scale, &out);
    }
    if (status == SP_OK)
        call->out[0] = out;
    return status;
}

const struct sp_evaluator_entry sp_evaluators_windows[] = {
    {"Conv", sp_evaluate_conv},  {"MaxPool", evaluate_pool},    {"AveragePool", evaluate_pool},
    {"Resize", evaluate_resize}, {"Upsample", evaluate_resize}, {NULL, NULL},
};
