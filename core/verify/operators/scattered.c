/*
 * Operators that put windows where they belong: ConvTranspose, Col2Im, MaxUnpool; and DeformConv, whose windows look
 * between places.
 */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "verify/operators/steps.h"

#define MAX_PLACES 6

struct spread {
    uint32_t places;
    int64_t in[MAX_PLACES], kernel[MAX_PLACES], stride[MAX_PLACES], dilation[MAX_PLACES], low[MAX_PLACES],
        out[MAX_PLACES];
    uint64_t in_items, taps, out_items;
};

static int64_t listed(const struct sp_call *call, const char *name, uint32_t i, int64_t otherwise)
{
    uint32_t count;
    const int64_t *list = sp_node_ints(call->node, name, &count);
    return list != NULL && i < count ? list[i] : otherwise;
}

static bool is_sane(const struct spread *spread, uint32_t i)
{
    const int64_t most = 1 << 20;
    return spread->kernel[i] >= 1 && spread->kernel[i] <= most && spread->stride[i] >= 1 && spread->stride[i] <= most &&
           spread->dilation[i] >= 1 && spread->dilation[i] <= most && spread->out[i] >= 0 && spread->out[i] <= most &&
           llabs(spread->low[i]) <= most && spread->in[i] >= 0 && spread->in[i] <= most;
}

/* Where a tap of a window lies in the whole, or -1 outside. */
static int64_t place_of(const struct spread *spread, uint64_t item, uint64_t tap)
{
    int64_t place = 0, step = 1;
    for (uint32_t i = spread->places; i-- > 0;) {
        const int64_t at = (int64_t)(item % (uint64_t)spread->in[i]) * spread->stride[i] - spread->low[i] +
                           (int64_t)(tap % (uint64_t)spread->kernel[i]) * spread->dilation[i];
        if (at < 0 || at >= spread->out[i])
            return -1;
        place += at * step;
        step *= spread->out[i];
        item /= (uint64_t)spread->in[i];
        tap /= (uint64_t)spread->kernel[i];
    }
    return place;
}

static void count_items(struct spread *spread)
{
    spread->in_items = spread->taps = spread->out_items = 1;
    for (uint32_t i = 0; i < spread->places; i++) {
        spread->in_items *= (uint64_t)spread->in[i];
        spread->taps *= (uint64_t)spread->kernel[i];
        spread->out_items *= (uint64_t)spread->out[i];
    }
}

/* ---- ConvTranspose ---------------------------------------------------------------------------------------------- */

/* Extents of the result, and pads: given, or such that the result has the extents that are asked for. */
static bool read_transposed(const struct sp_call *call, const struct sp_numbers *x, const struct sp_numbers *w,
                            struct spread *spread)
{
    const char *automatic = sp_node_string(call->node, "auto_pad", "NOTSET");
    for (uint32_t i = 0; i < spread->places; i++) {
        spread->in[i] = x->axes[i + 2].extent;
        spread->kernel[i] = w->axes[i + 2].extent;
        spread->stride[i] = listed(call, "strides", i, 1);
        spread->dilation[i] = listed(call, "dilations", i, 1);
        spread->low[i] = listed(call, "pads", i, 0);
        if (!is_sane(spread, i))
            return false;
        const int64_t high = listed(call, "pads", spread->places + i, 0), added = listed(call, "output_padding", i, 0);
        const int64_t reach =
            (spread->in[i] - 1) * spread->stride[i] + (spread->kernel[i] - 1) * spread->dilation[i] + 1 + added;
        int64_t asked = listed(call, "output_shape", i, -1);
        if (strncmp(automatic, "SAME", 4) == 0 && asked < 0)
            asked = spread->in[i] * spread->stride[i];
        spread->out[i] = asked >= 0 ? asked : reach - spread->low[i] - high;
        if (asked >= 0) {
            const int64_t all = reach - asked > 0 ? reach - asked : 0;
            spread->low[i] = strcmp(automatic, "SAME_UPPER") == 0 ? all / 2 : all - all / 2;
        }
        if (!is_sane(spread, i))
            return false;
    }
    count_items(spread);
    return true;
}

static void spread_channel(const struct spread *spread, const struct sp_number *x, const struct sp_number *w,
                           struct sp_number *y)
{
    for (uint64_t item = 0; item < spread->in_items; item++) {
        for (uint64_t tap = 0; tap < spread->taps; tap++) {
            const int64_t place = place_of(spread, item, tap);
            if (place >= 0)
                y[place] = sp_number_add(y[place], sp_number_multiply(x[item], w[tap]));
        }
    }
}

static enum sp_status evaluate_conv_transposed(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0), *w = sp_call_in(call, 1), *b = sp_call_in(call, 2);
    const int64_t groups = sp_node_int(call->node, "group", 1);
    struct sp_steps steps = {call, SP_OK};
    if (x == NULL || w == NULL || x->rank < 3 || x->rank - 2 > MAX_PLACES || w->rank != x->rank ||
        !sp_numbers_is_complete(x) || !sp_numbers_is_complete(w) || !sp_dtype_is_float(x->dtype))
        return sp_evaluate_by_rule(call);
    struct spread spread = {.places = x->rank - 2};
    const int64_t images = x->axes[0].extent, channels = x->axes[1].extent, each = w->axes[1].extent;
    if (groups < 1 || channels != w->axes[0].extent || channels % groups != 0 || !read_transposed(call, x, w, &spread))
        return sp_call_refuse(call, "its channels or windows do not fit its weight");
    int64_t extents[MAX_PLACES + 2] = {images, each * groups};
    memcpy(extents + 2, spread.out, spread.places * sizeof *extents);
    enum sp_status status = sp_numbers_create_full(call->arena, x->dtype, x->rank, extents, &call->out[0], call->err);
    if (status != SP_OK)
        return status;
    struct sp_numbers *y = call->out[0];
    if (x->count > 0 && spread.taps * (uint64_t)each > SP_MAX_EVALUATED_PRODUCTS / x->count)
        return sp_call_refuse(call, "it has too many products to be evaluated");
    for (int64_t n = 0; n < images * channels; n++) {
        const int64_t c = n % channels, first = c / (channels / groups) * each;
        for (int64_t k = 0; k < each; k++)
            spread_channel(&spread, &x->items[(uint64_t)n * spread.in_items],
                           &w->items[(uint64_t)(c * each + k) * spread.taps],
                           &y->items[(uint64_t)(n / channels * each * groups + first + k) * spread.out_items]);
    }
    if (b != NULL)
        call->out[0] = sp_step(&steps, y, sp_step_along(&steps, b, x->rank, 1), sp_number_add);
    return steps.status;
}

/* ---- Col2Im ----------------------------------------------------------------------------------------------------- */

static enum sp_status evaluate_columns(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    const int64_t *image, *block;
    uint32_t places = 0, blocks = 0;
    if (x == NULL || x->rank != 3 || !sp_numbers_is_complete(x))
        return sp_evaluate_by_rule(call);
    enum sp_status status = sp_call_ints(call, 1, &places, &image);
    if (status == SP_OK)
        status = sp_call_ints(call, 2, &blocks, &block);
    if (status != SP_OK || places != blocks || places == 0 || places > MAX_PLACES)
        return status != SP_OK ? status : sp_call_refuse(call, "its block does not fit its image");
    struct spread spread = {.places = places};
    int64_t extents[MAX_PLACES + 2] = {x->axes[0].extent};
    for (uint32_t i = 0; i < places; i++) {
        spread.out[i] = extents[i + 2] = image[i];
        spread.kernel[i] = block[i];
        spread.stride[i] = listed(call, "strides", i, 1);
        spread.dilation[i] = listed(call, "dilations", i, 1);
        spread.low[i] = listed(call, "pads", i, 0);
        if (!is_sane(&spread, i))
            return sp_call_refuse(call, "its block does not fit its image");
        spread.in[i] = (image[i] + spread.low[i] + listed(call, "pads", places + i, 0) -
                        ((block[i] - 1) * spread.dilation[i] + 1)) /
                           spread.stride[i] +
                       1;
        if (!is_sane(&spread, i))
            return sp_call_refuse(call, "its block does not fit its image");
    }
    count_items(&spread);
    if ((uint64_t)x->axes[2].extent != spread.in_items || x->axes[1].extent % (int64_t)spread.taps != 0)
        return sp_call_refuse(call, "its block does not fit its image");
    extents[1] = x->axes[1].extent / (int64_t)spread.taps;
    status = sp_numbers_create_full(call->arena, x->dtype, places + 2, extents, &call->out[0], call->err);
    const sp_number2 add = sp_dtype_is_float(x->dtype) ? sp_number_add : sp_integer_add;
    for (uint64_t i = 0; status == SP_OK && i < x->count; i++) {
        const uint64_t row = i / spread.in_items;
        const int64_t place = place_of(&spread, i % spread.in_items, row % spread.taps);
        if (place < 0)
            continue;
        struct sp_number *to = &call->out[0]->items[row / spread.taps * spread.out_items + (uint64_t)place];
        *to = add(*to, x->items[i]);
    }
    return status;
}

/* ---- MaxUnpool -------------------------------------------------------------------------------------------------- */

/* Each item goes to the place of the whole result that its index says, in each part of the numbers by its own. */
static enum sp_status evaluate_unpool(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0), *indices = sp_call_in(call, 1);
    int64_t extents[MAX_PLACES + 2];
    const int64_t *shape = NULL;
    uint32_t count = 0;
    if (x == NULL || indices == NULL || x->rank < 3 || x->rank - 2 > MAX_PLACES || x->count != indices->count ||
        !sp_numbers_is_complete(x))
        return sp_evaluate_by_rule(call);
    enum sp_status status = sp_call_in(call, 2) != NULL ? sp_call_ints(call, 2, &count, &shape) : SP_OK;
    if (status != SP_OK || (shape != NULL && count != x->rank))
        return status != SP_OK ? status : sp_call_refuse(call, "its shape is of another rank");
    for (uint32_t i = 0; i < x->rank; i++) {
        const uint32_t k = i - 2;
        extents[i] = shape != NULL ? shape[i]
                     : i < 2       ? x->axes[i].extent
                             : (x->axes[i].extent - 1) * listed(call, "strides", k, 1) - listed(call, "pads", k, 0) -
                                   listed(call, "pads", x->rank - 2 + k, 0) + listed(call, "kernel_shape", k, 1);
    }
    status = sp_numbers_create_full(call->arena, x->dtype, x->rank, extents, &call->out[0], call->err);
    unsigned char *is_taken = status == SP_OK ? SP_NEW_ARRAY(call->arena, call->out[0]->count, unsigned char) : NULL;
    if (status == SP_OK && is_taken == NULL)
        return sp_fail_memory(call->err);
    for (uint64_t i = 0; status == SP_OK && i < x->count; i++) {
        const int64_t at[] = {(int64_t)indices->items[i].field,
                              fabs(indices->items[i].real) < 0x1p60 ? (int64_t)indices->items[i].real : -1};
        for (int k = 0; k < 2; k++) {
            const int64_t place = at[k] < 0 ? at[k] + (int64_t)call->out[0]->count : at[k];
            if (place < 0 || place >= (int64_t)call->out[0]->count)
                return sp_call_refuse(call, "an index is none of its result's places");
            if ((is_taken[place] & (1 << k)) != 0)
                return sp_call_refuse(call, "several items go to one place");
            is_taken[place] |= (unsigned char)(1 << k);
            if (k == 0)
                call->out[0]->items[place].field = x->items[i].field;
            else
                call->out[0]->items[place].real = x->items[i].real;
        }
    }
    return status;
}

/* ---- DeformConv ------------------------------------------------------------------------------------------------- */

/*
 * A value between places is a sum over all places, each times a function of its distance along each axis: 1 - |d| where
 * that is positive. In the field the function is a hash of the distance.
 */
static struct sp_number nearness(uint64_t tag, struct sp_number at, int64_t place)
{
    const struct sp_number distance = sp_number_subtract(at, sp_number_of_real((double)place));
    return (struct sp_number){sp_field_hash(tag, distance.field), fmax(0, 1 - fabs(distance.real))};
}

struct deformed {
    const struct sp_numbers *x, *w, *offset, *mask;
    int64_t groups, offset_groups, stride[2], dilation[2], low[2];
    const struct sp_numbers *y;
};

/* What a tap of a window reads of one channel. */
static struct sp_number look(const struct deformed *work, int64_t image, int64_t channel, int64_t tap,
                             const int64_t *place)
{
    const struct sp_index_axis *axes = work->x->axes;
    const int64_t kernel = work->w->axes[2].extent * work->w->axes[3].extent, h = axes[2].extent, w = axes[3].extent,
                  out = work->y->axes[2].extent * work->y->axes[3].extent,
                  at = place[0] * work->y->axes[3].extent + place[1],
                  group = channel / (axes[1].extent / work->offset_groups);
    const int64_t taps[] = {tap / work->w->axes[3].extent, tap % work->w->axes[3].extent};
    const uint64_t tag = sp_tag("DeformConv");
    struct sp_number where[2], sum = {0, 0};
    for (int k = 0; k < 2; k++) {
        const int64_t fixed = place[k] * work->stride[k] - work->low[k] + taps[k] * work->dilation[k];
        const int64_t row = (image * work->offset_groups + group) * 2 * kernel + 2 * tap + k;
        where[k] = sp_number_add(work->offset->items[row * out + at], sp_number_of_real((double)fixed));
    }
    for (int64_t i = 0; i < h; i++) {
        const struct sp_number near = nearness(tag, where[0], i);
        for (int64_t j = 0; j < w; j++)
            sum = sp_number_add(
                sum, sp_number_multiply(sp_number_multiply(near, nearness(tag, where[1], j)),
                                        work->x->items[((image * axes[1].extent + channel) * h + i) * w + j]));
    }
    if (work->mask == NULL)
        return sum;
    return sp_number_multiply(sum,
                              work->mask->items[((image * work->offset_groups + group) * kernel + tap) * out + at]);
}

static struct sp_number deform_at(const struct deformed *work, int64_t image, int64_t channel, const int64_t *place)
{
    const int64_t each = work->w->axes[1].extent, kernel = work->w->axes[2].extent * work->w->axes[3].extent,
                  first = channel / (work->w->axes[0].extent / work->groups) * each;
    struct sp_number sum = {0, 0};
    for (int64_t c = 0; c < each; c++) {
        for (int64_t tap = 0; tap < kernel; tap++)
            sum = sp_number_add(sum, sp_number_multiply(look(work, image, first + c, tap, place),
                                                        work->w->items[(channel * each + c) * kernel + tap]));
    }
    return sum;
}

static bool fits_deformed(const struct deformed *work)
{
    const struct sp_numbers *const operands[] = {work->x, work->w, work->offset};
    for (size_t i = 0; i < 3; i++) {
        if (operands[i] == NULL || operands[i]->rank != 4 || !sp_numbers_is_complete(operands[i]))
            return false;
    }
    const int64_t channels = work->x->axes[1].extent, kernel = work->w->axes[2].extent * work->w->axes[3].extent;
    return work->groups > 0 && work->offset_groups > 0 && channels % work->offset_groups == 0 &&
           work->w->axes[0].extent % work->groups == 0 && work->w->axes[1].extent * work->groups == channels &&
           work->offset->axes[1].extent == work->offset_groups * 2 * kernel && kernel > 0 && channels > 0 &&
           work->offset->axes[0].extent == work->x->axes[0].extent &&
           (work->mask == NULL || (work->mask->rank == 4 && work->mask->count * 2 == work->offset->count));
}

static enum sp_status evaluate_deformed(struct sp_call *call)
{
    struct sp_steps steps = {call, SP_OK};
    const struct sp_numbers *b = sp_call_in(call, 3);
    struct deformed work = {.x = sp_call_in(call, 0),
                            .w = sp_call_in(call, 1),
                            .offset = sp_call_in(call, 2),
                            .mask = sp_call_in(call, 4),
                            .groups = sp_node_int(call->node, "group", 1),
                            .offset_groups = sp_node_int(call->node, "offset_group", 1)};
    if (!fits_deformed(&work))
        return sp_evaluate_by_rule(call);
    for (uint32_t k = 0; k < 2; k++) {
        work.stride[k] = listed(call, "strides", k, 1);
        work.dilation[k] = listed(call, "dilations", k, 1);
        work.low[k] = listed(call, "pads", k, 0);
    }
    const int64_t extents[] = {work.x->axes[0].extent, work.w->axes[0].extent, work.offset->axes[2].extent,
                               work.offset->axes[3].extent};
    enum sp_status status = sp_numbers_create_full(call->arena, work.x->dtype, 4, extents, &call->out[0], call->err);
    if (status != SP_OK)
        return status;
    struct sp_numbers *y = call->out[0];
    work.y = y;
    const uint64_t products = work.w->count / (uint64_t)(extents[1] > 0 ? extents[1] : 1) *
                              (uint64_t)(work.x->axes[2].extent * work.x->axes[3].extent);
    if (y->count > 0 && products > SP_MAX_EVALUATED_PRODUCTS / 64 / y->count)
        return sp_call_refuse(call, "it has too many products to be evaluated");
    for (uint64_t i = 0; i < y->count; i++) {
        const int64_t rest = (int64_t)(i / (uint64_t)extents[3] / (uint64_t)extents[2]);
        const int64_t place[] = {(int64_t)(i / (uint64_t)extents[3]) % extents[2], (int64_t)i % extents[3]};
        y->items[i] = deform_at(&work, rest / extents[1], rest % extents[1], place);
    }
    if (b != NULL)
        call->out[0] = sp_step(&steps, y, sp_step_along(&steps, b, 4, 1), sp_number_add);
    return steps.status;
}

const struct sp_evaluator_entry sp_evaluators_scattered[] = {
    {"ConvTranspose", evaluate_conv_transposed},
    {"Col2Im", evaluate_columns},
    {"MaxUnpool", evaluate_unpool},
    {"DeformConv", evaluate_deformed},
    {NULL, NULL},
};
