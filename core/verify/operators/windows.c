/*
 * Operators on windows of places: Conv and pools.
 *
 * The places that an output needs are a table: for each of its indices and each tap of the window where the item is
 * along the input's axis, or PADDING, or MISSING (verify/window_steps.h).
 */
#include <string.h>

#include "base/limits.h"
#include "verify/operators/steps.h"
#include "verify/sums.h"
#include "verify/window_steps.h"

#define PADDING (-1)
#define MISSING (-2) /* inside, and not looked at */

struct window {
    struct sp_index_axis axis; /* of the output */
    uint32_t taps;
    int64_t *items; /* axis.count x taps */
};

/* `kernel`: the taps that are looked at. */
static enum sp_status make_window(struct sp_call *call, const struct sp_index_axis *own, struct sp_window_steps along,
                                  const struct sp_index_axis *kernel, struct window *window)
{
    const bool rounds_up = sp_node_int(call->node, "ceil_mode", 0) != 0;
    const int64_t extent = sp_window_places(along, own->extent, rounds_up);
    if (extent < 0 || extent > SP_MAX_EVALUATED_NUMBERS)
        return sp_call_refuse(call, "a window does not fit its input");
    int64_t *at = SP_NEW_ARRAY(call->arena, (size_t)extent, int64_t);
    *window = (struct window){{extent, 0, at}, kernel->count, NULL};
    if (at == NULL)
        return sp_fail_memory(call->err);
    for (int64_t place = 0; place < extent; place++) {
        const int64_t anchor = sp_window_anchor(along, own->extent, place);
        if (anchor < 0 || sp_index_find(own, sp_window_index(along, place, anchor)) >= 0)
            at[window->axis.count++] = place;
    }
    window->items = SP_NEW_ARRAY(call->arena, (size_t)window->axis.count * window->taps, int64_t);
    if (window->items == NULL)
        return sp_fail_memory(call->err);
    for (uint32_t i = 0; i < window->axis.count; i++) {
        for (uint32_t tap = 0; tap < window->taps; tap++) {
            const int64_t index = sp_window_index(along, at[i], sp_index_at(kernel, tap)),
                          item = index >= 0 && index < own->extent ? sp_index_find(own, index) : PADDING;
            window->items[(size_t)i * window->taps + tap] =
                index >= 0 && index < own->extent && item < 0 ? MISSING : item;
        }
    }
    if (window->axis.count == extent)
        window->axis.at = NULL;
    return SP_OK;
}

/* The windows of all axes of places, as attributes say. */
static enum sp_status read_windows(struct sp_call *call, const struct sp_numbers *x,
                                   const struct sp_index_axis *kernels, struct window *windows)
{
    struct sp_window_steps steps[SP_WINDOW_AXES];
    int64_t extents[SP_WINDOW_AXES] = {0}, kernel[SP_WINDOW_AXES] = {0};
    const uint32_t places = x->rank - 2;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; i < places; i++) {
        extents[i] = x->axes[i + 2].extent;
        kernel[i] = kernels[i].extent;
    }
    const char *why = sp_window_steps(call->node, places, extents, kernel, steps);
    if (why != NULL)
        return sp_call_refuse(call, why);
    for (uint32_t i = 0; status == SP_OK && i < places; i++)
        status = make_window(call, &x->axes[i + 2], steps[i], &kernels[i], &windows[i]);
    return status;
}

/* Where the item of a tap of all axes is at an output place, or PADDING, or MISSING. */
static int64_t tap_at(uint32_t places, const struct window *windows, const int64_t *strides, const uint32_t *place,
                      const uint32_t *tap)
{
    int64_t item = 0;
    bool is_missing = false;
    for (uint32_t i = 0; i < places; i++) {
        const int64_t at = windows[i].items[(size_t)place[i] * windows[i].taps + tap[i]];
        if (at == PADDING)
            return PADDING;
        is_missing = is_missing || at == MISSING;
        item += at * strides[i + 2];
    }
    return is_missing ? MISSING : item;
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
    struct sp_numbers *out;
    uint32_t places;
    int64_t x_strides[SP_MAX_RANK];
    uint64_t taps, planes; /* of a window; places of the output */
    const struct window *windows;
    const uint32_t *channels; /* for each input channel of each group an item of x, by the channels of w */
    struct sp_factors factors;
    /* The products of one place and group: how many, and where their factors are behind the first item of an image of x,
       and of an output channel of w. */
    size_t count, *x_offsets, *w_offsets;
};

static void list_products(struct convolution *work, const uint32_t *place, int64_t group)
{
    const uint32_t channels = work->w->axes[1].count;
    uint32_t tap[SP_WINDOW_AXES] = {0};
    uint64_t t = 0;
    work->count = 0;
    do {
        const int64_t at = tap_at(work->places, work->windows, work->x_strides, place, tap);
        for (uint32_t c = 0; at >= 0 && c < channels; c++) {
            const uint32_t from = work->channels[(uint64_t)group * channels + c];
            if (from == UINT32_MAX)
                continue;
            work->x_offsets[work->count] = (size_t)(from * work->x_strides[1] + at);
            work->w_offsets[work->count++] = (size_t)(c * work->taps + t);
        }
        t++;
    } while (advance(work->places, tap, work->windows, true));
}

/* All images and output channels of a place, which is the output's item `n` of each plane. */
static void convolve_at(struct convolution *work, const uint32_t *place, uint64_t n, int64_t per_group)
{
    const struct sp_numbers *w = work->w;
    const size_t w_stride = w->axes[1].count * (size_t)work->taps;
    int64_t listed = -1;
    for (uint32_t channel = 0; channel < w->axes[0].count; channel++) {
        const int64_t group = sp_index_at(&w->axes[0], channel) / per_group;
        if (group != listed)
            list_products(work, place, group);
        listed = group;
        for (uint32_t image = 0; image < work->x->axes[0].count; image++) {
            struct sp_number *sum =
                &work->out->items[((uint64_t)image * w->axes[0].count + channel) * work->planes + n];
            sp_sum_products(&work->factors, image * (size_t)work->x_strides[0], channel * w_stride, work->count,
                            work->x_offsets, work->w_offsets, sum);
        }
    }
}

static enum sp_status convolve(struct sp_call *call, struct convolution *work, int64_t per_group)
{
    uint32_t place[SP_WINDOW_AXES] = {0};
    uint64_t n = 0;
    work->taps = work->planes = 1;
    for (uint32_t i = 0; i < work->places; i++) {
        work->taps *= work->windows[i].taps;
        work->planes *= work->windows[i].axis.count;
    }
    const size_t most = (size_t)work->taps * work->w->axes[1].count;
    work->x_offsets = SP_NEW_ARRAY(call->arena, most, size_t);
    work->w_offsets = SP_NEW_ARRAY(call->arena, most, size_t);
    if (work->x_offsets == NULL || work->w_offsets == NULL)
        return sp_fail_memory(call->err);
    sp_numbers_strides(work->x, work->x_strides);
    work->factors = sp_factors_of(work->x, work->w, work->x->dtype);
    do
        convolve_at(work, place, n++, per_group);
    while (advance(work->places, place, work->windows, false));
    return SP_OK;
}

enum sp_status sp_evaluate_conv(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0), *w = sp_call_in(call, 1), *b = sp_call_in(call, 2);
    struct window windows[SP_WINDOW_AXES];
    struct sp_index_axis axes[SP_MAX_RANK];
    const int64_t groups = sp_node_int(call->node, "group", 1);
    if (x == NULL || w == NULL || x->rank < 3 || x->rank - 2 > SP_WINDOW_AXES || w->rank != x->rank)
        return sp_evaluate_by_rule(call);
    const bool is_float = sp_dtype_is_float(x->dtype);
    struct convolution work = {.x = x, .w = w, .places = x->rank - 2, .windows = windows};
    if (groups < 1 || groups > w->axes[0].extent || w->axes[0].extent % groups != 0 ||
        x->axes[1].extent != w->axes[1].extent * groups)
        return sp_fail(call->err, SP_ERR_MODEL, "CHANNELS_DO_NOT_FIT", "Its channels do not fit its weight.");
    uint32_t *channels = SP_NEW_ARRAY(call->arena, (size_t)groups * w->axes[1].count, uint32_t);
    if (channels == NULL)
        return sp_fail_memory(call->err);
    for (int64_t g = 0; g < groups; g++) {
        for (uint32_t c = 0; c < w->axes[1].count; c++) {
            const int64_t at = sp_index_find(&x->axes[1], g * w->axes[1].extent + sp_index_at(&w->axes[1], c));
            channels[g * w->axes[1].count + c] = at < 0 ? UINT32_MAX : (uint32_t)at;
        }
    }
    work.channels = channels;
    enum sp_status status = read_windows(call, x, &w->axes[2], windows);
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
    work.out = call->out[0];
    status = convolve(call, &work, w->axes[0].extent / groups);
    if (status != SP_OK || b == NULL)
        return status;
    sp_call_tell(call, call->out[0]);
    struct sp_numbers *bias;
    for (uint32_t i = 0; i < x->rank; i++)
        axes[i] = i == 1 ? b->axes[0] : sp_index_all(1);
    status = b->rank == 1 ? sp_numbers_view(call->arena, b, x->rank, axes, &bias, call->err)
                          : sp_call_refuse(call, "its bias is no vector");
    return status == SP_OK ? sp_numbers_binary(call->arena, call->out[0], bias, x->dtype,
                                               is_float ? sp_number_add : sp_integer_add, &call->out[0], call->err)
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

/* The root that a pool of powers takes, as runtimes take it: by a power in float32. */
struct sp_number sp_pool_root(struct sp_number sum, int64_t power)
{
    return power == 1 ? sum : sp_number_power(sum, sp_number_of_real((float)(1 / (double)power)));
}

/* One window: its largest item and where that is, the sum of its items over their number, or of their powers. */
static struct sp_number pool_at(const struct pool *pool, int64_t base, const uint32_t *place,
                                struct sp_number *ret_where)
{
    uint32_t tap[SP_WINDOW_AXES] = {0}, items = 0, taps = 0, inside = 0;
    struct sp_number sum = {0, 0};
    *ret_where = (struct sp_number){0, 0};
    do {
        const int64_t at = tap_at(pool->places, pool->windows, pool->strides, place, tap);
        taps++;
        inside += at != PADDING;
        if (at < 0)
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
    return pool->is_max || pool->power > 0 ? sum
                                           : sp_number_divide(sum, sp_number_of_int(pool->counts_pads ? taps : inside));
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
    struct sp_number *sums = pool->power > 0 ? SP_NEW_ARRAY(call->arena, out->count, struct sp_number) : NULL;
    if (pool->power > 0 && sums == NULL)
        return sp_fail_memory(call->err);
    out->radicands = sums;
    out->degree = pool->power;
    for (uint64_t plane = 0; out->count > 0 && plane < (uint64_t)x->axes[0].count * x->axes[1].count; plane++) {
        const uint64_t image = plane / x->axes[1].count, channel = plane % x->axes[1].count;
        const int64_t base = (int64_t)image * pool->strides[0] + (int64_t)channel * pool->strides[1],
                      first = (sp_index_at(&x->axes[0], (uint32_t)image) * x->axes[1].extent +
                               sp_index_at(&x->axes[1], (uint32_t)channel)) *
                              plane_size;
        uint32_t place[SP_WINDOW_AXES] = {0};
        do {
            struct sp_number where;
            out->items[n] = pool_at(pool, base, place, &where);
            if (sums != NULL) {
                sums[n] = out->items[n];
                out->items[n] = sp_pool_root(sums[n], pool->power);
            }
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
    struct window windows[SP_WINDOW_AXES];
    struct sp_index_axis axes[SP_MAX_RANK];
    uint32_t count;
    const int64_t *kernel = sp_node_ints(call->node, "kernel_shape", &count);
    if (x == NULL || x->rank < 3 || x->rank - 2 > SP_WINDOW_AXES || kernel == NULL || count != x->rank - 2 ||
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
    struct sp_index_axis kernels[SP_WINDOW_AXES] = {{0}};
    for (uint32_t i = 0; i < pool.places; i++) {
        if (kernel[i] < 1 || kernel[i] > SP_MAX_EVALUATED_NUMBERS)
            return sp_call_refuse(call, "a window does not fit its input");
        kernels[i] = sp_index_all(kernel[i]);
    }
    enum sp_status status = read_windows(call, x, kernels, windows);
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

/* com.microsoft's: Conv, with a fourth operand that is added, and a function of what comes of it. */
static enum sp_status evaluate_fused_conv(struct sp_call *call)
{
    const char *activation = sp_node_string(call->node, "activation", "");
    struct sp_steps steps = {call, SP_OK};
    struct sp_call inner = *call;
    const bool is_relu = strcmp(activation, "Relu") == 0, is_tanh = strcmp(activation, "Tanh") == 0,
               is_sigmoid = strcmp(activation, "Sigmoid") == 0;
    if (call->out_count != 1 || (activation[0] != '\0' && !is_relu && !is_tanh && !is_sigmoid))
        return sp_evaluate_by_rule(call);
    inner.in_count = call->in_count < 3 ? call->in_count : 3;
    steps.status = sp_evaluate_conv(&inner);
    if (sp_call_in(call, 3) != NULL)
        call->out[0] = sp_step(&steps, call->out[0], sp_call_in(call, 3), sp_number_add);
    if (is_tanh)
        call->out[0] = sp_step_apply(&steps, call->out[0], "Tanh", tanh);
    if (is_sigmoid)
        call->out[0] = sp_step_apply(&steps, call->out[0], "Sigmoid", sp_real_sigmoid);
    if (!is_relu || steps.status != SP_OK)
        return steps.status;
    const struct sp_numbers *sum = call->out[0];
    inner.in = &sum;
    inner.in_count = 1;
    return sp_evaluate_relu(&inner);
}

const struct sp_evaluator_entry sp_evaluators_windows[] = {
    {"Conv", sp_evaluate_conv},        {"FusedConv", evaluate_fused_conv}, {"MaxPool", sp_evaluate_pool},
    {"AveragePool", sp_evaluate_pool}, {"LpPool", sp_evaluate_pool},       {NULL, NULL},
};
