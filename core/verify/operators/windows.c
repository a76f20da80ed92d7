/*
 * Operators on windows of places: Conv and pools.
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
    if (along.kernel < 1 || along.stride < 1 || along.dilation < 1 || (rounds_up ? room <= -along.stride : room < 0))
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

/* ---- pools ------------------------------------------------------------------------------------------------------ */

struct pool {
    const struct sp_numbers *x;
    const struct window *windows;
    uint32_t places;
    int64_t strides[SP_MAX_RANK];
    bool is_max, is_float, counts_pads, is_by_columns;
    int64_t power; /* LpPool: items are sizes to this power; else 0 */
};

/* What an item adds to the sum of its window. */
static struct sp_number pooled(const struct pool *pool, struct sp_number item)
{
    if (pool->power == 0)
        return item;
    if (pool->power == 2)
        return sp_number_multiply(item, item);
    item = sp_number_function(sp_tag("Abs"), fabs, false, item);
    return pool->power == 1 ? item
                            : (struct sp_number){sp_field_power(item.field, (uint64_t)pool->power),
                                                 pow(item.real, (double)pool->power)};
}

/* The place of an item in its plane, as indices of MaxPool count. */
static int64_t place_in_plane(const struct pool *pool, const uint32_t *place, const uint32_t *tap)
{
    int64_t at = 0, step = 1;
    for (uint32_t k = 0; k < pool->places; k++) {
        const uint32_t i = pool->is_by_columns ? k : pool->places - 1 - k;
        const struct sp_index_axis *axis = &pool->x->axes[i + 2];
        const struct window *window = &pool->windows[i];
        at += sp_index_at(axis, (uint32_t)window->items[(size_t)place[i] * window->taps + tap[i]]) * step;
        step *= axis->extent;
    }
    return at;
}

static bool is_larger(const struct pool *pool, struct sp_number a, struct sp_number b)
{
    return pool->is_float ? sp_field_is_less(b.field, a.field) : (int64_t)a.field > (int64_t)b.field;
}

/* One window: its largest item and where that is, or the sum of its items over their number. */
static struct sp_number pool_at(const struct pool *pool, int64_t base, const uint32_t *place,
                                struct sp_number *ret_where)
{
    uint32_t tap[MAX_PLACES] = {0}, items = 0, taps = 0;
    struct sp_number sum = {0, 0};
    *ret_where = (struct sp_number){0, 0};
    do {
        const int64_t at = tap_at(pool->places, pool->windows, pool->strides, place, tap);
        taps++;
        if (at == PADDING)
            continue;
        const struct sp_number item = pooled(pool, pool->x->items[base + at]);
        if (pool->is_max) {
            const struct sp_number where = sp_number_of_int(place_in_plane(pool, place, tap));
            if (items == 0 || is_larger(pool, item, sum)) {
                sum.field = item.field;
                ret_where->field = where.field;
            }
            if (items == 0 || item.real > sum.real) {
                sum.real = item.real;
                ret_where->real = where.real;
            }
        } else {
            sum = items == 0 ? item : sp_number_add(sum, item);
        }
        items++;
    } while (advance(pool->places, tap, pool->windows, true));
    if (pool->is_max || pool->power == 1)
        return sum;
    if (pool->power == 2)
        return sp_number_function(sp_tag("Sqrt"), sqrt, false, sum);
    return pool->power > 0
               ? (struct sp_number){sp_field_hash(sp_tag("Root"), sum.field), pow(sum.real, 1 / (double)pool->power)}
               : sp_number_divide(sum, sp_number_of_int(pool->counts_pads ? taps : items));
}

static enum sp_status pool_all(struct sp_call *call, const struct pool *pool)
{
    const struct sp_numbers *x = pool->x;
    struct sp_numbers *out = call->out[0], *indices = call->out_count > 1 ? call->out[1] : NULL;
    uint64_t taps_each = 1, n = 0;
    int64_t plane_size = 1;
    for (uint32_t i = 0; i < pool->places; i++) {
        taps_each *= pool->windows[i].taps;
        plane_size *= x->axes[i + 2].extent;
    }
    if (out->count > 0 && taps_each > SP_MAX_EVALUATED_PRODUCTS / out->count)
        return sp_call_refuse(call, "its windows are too large to be evaluated");
    for (uint64_t plane = 0; out->count > 0 && plane < (uint64_t)x->axes[0].count * x->axes[1].count; plane++) {
        const uint64_t image = plane / x->axes[1].count, channel = plane % x->axes[1].count;
        const int64_t base = (int64_t)image * pool->strides[0] + (int64_t)channel * pool->strides[1],
                      first = (sp_index_at(&x->axes[0], (uint32_t)image) * x->axes[1].extent +
                               sp_index_at(&x->axes[1], (uint32_t)channel)) *
                              plane_size;
        uint32_t place[MAX_PLACES] = {0};
        do {
            struct sp_number where;
            out->items[n] = pool_at(pool, base, place, &where);
            if (indices != NULL)
                indices->items[n] = sp_integer_add(where, sp_number_of_int(first));
            n++;
        } while (advance(pool->places, place, pool->windows, false));
    }
    return SP_OK;
}

enum sp_status sp_evaluate_pool(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    const char name = sp_evaluated_name(call->node)[0];
    struct window windows[MAX_PLACES];
    struct steps_along along[MAX_PLACES];
    struct sp_index_axis axes[SP_MAX_RANK];
    uint32_t count;
    const int64_t *kernel = sp_node_ints(call->node, "kernel_shape", &count);
    if (x == NULL || x->rank < 3 || x->rank - 2 > MAX_PLACES || kernel == NULL || count != x->rank - 2 ||
        (name != 'M' && !sp_dtype_is_float(x->dtype)))
        return sp_evaluate_by_rule(call);
    struct pool pool = {.x = x,
                        .windows = windows,
                        .places = x->rank - 2,
                        .is_max = name == 'M',
                        .is_float = sp_dtype_is_float(x->dtype),
                        .counts_pads = sp_node_int(call->node, "count_include_pad", 0) != 0,
                        .is_by_columns = sp_node_int(call->node, "storage_order", 0) != 0,
                        .power = name == 'L' ? sp_node_int(call->node, "p", 2) : 0};
    if (pool.power < 0 || (name == 'L' && pool.power == 0))
        return sp_evaluate_by_rule(call);
    enum sp_status status = read_windows(call, x, kernel, windows, along);
    axes[0] = x->axes[0];
    axes[1] = x->axes[1];
    for (uint32_t i = 0; status == SP_OK && i < pool.places; i++)
        axes[i + 2] = windows[i].axis;
    for (uint32_t i = 0; status == SP_OK && i < call->out_count && i < 2; i++)
        status =
            sp_numbers_create(call->arena, i == 0 ? x->dtype : SP_DTYPE_INT64, x->rank, axes, &call->out[i], call->err);
    sp_numbers_strides(x, pool.strides);
    return status == SP_OK ? pool_all(call, &pool) : status;
}

const struct sp_evaluator_entry sp_evaluators_windows[] = {
    {"Conv", sp_evaluate_conv},
    {"MaxPool", sp_evaluate_pool},
    {"AveragePool", sp_evaluate_pool},
    {"LpPool", sp_evaluate_pool},
    {NULL, NULL},
};
