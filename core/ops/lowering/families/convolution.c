/*
 * The parts of convolutions (convolution.c).
 *
 * Padding, and what SAME means, depend on the whole, so a device that has a part of a spatial axis runs its window with
 * explicit padding over the elements that its places read. An inner border has no padding: the elements come from the
 * neighbours. Where a part's window is wider than what it needs is never the case: it makes exactly its places.
 *
 *     h split        Conv(x[needed], pads of the true borders)
 *     taps split     the windows tile the axis: kernel and stride are those of the part
 *     groups split   group is that of the part; so are channels in blocks (nchwc.c), where an attribute counts them
 *     sums split     the bias counts on the first shard only
 */
#include <string.h>

#include "ops/families/neural/window.h"
#include "ops/lowering/functions.h"
#include "ops/lowering/parts.h"
#include "ops/table/shape_helpers.h"

#define QUANTISED_BIAS 8 /* of QLinearConv */

struct conv_roles {
    uint32_t x, w, b; /* b: UINT32_MAX where there is none */
};

/* What a device's window is along each spatial axis, and what it reads of x. */
struct part {
    uint32_t rank; /* spatial axes */
    int64_t *kernel, *stride, *pads, *output_padding;
    struct sp_range *box; /* one for each axis of x */
    bool is_changed;
};

/* Before anything of an operand of unknown rank is looked at. */
static bool begin(struct sp_lowering *lower, const struct conv_roles *roles, struct sp_window *window,
                  struct part *part)
{
    const struct sp_lower_operand *x = &lower->inputs[roles->x], *w = &lower->inputs[roles->w];
    struct sp_op_context context = sp_lower_context(lower);
    if (sp_lower_status(lower) != SP_OK || x->rank < 3 || w->rank != x->rank || lower->outputs[0].rank != x->rank)
        return false;
    enum sp_status status = sp_window_read(&context, x->rank - 2, sp_in_shape(&context, roles->w), window);
    if (status != SP_OK) {
        sp_lower_failed(lower, status);
        return false;
    }
    *part = (struct part){.rank = window->rank};
    int64_t *values = SP_NEW_ARRAY(lower->arena, 5 * (size_t)window->rank, int64_t);
    part->box = SP_NEW_ARRAY(lower->arena, x->rank, struct sp_range);
    if (values == NULL || part->box == NULL) {
        sp_lower_failed(lower, sp_fail_memory(lower->err));
        return false;
    }
    part->kernel = values;
    part->stride = values + part->rank;
    part->output_padding = values + 2 * (size_t)part->rank;
    part->pads = values + 3 * (size_t)part->rank;
    for (uint32_t axis = 0; axis < x->rank; axis++)
        part->box[axis] = (struct sp_range){-1, -1};
    return true;
}

/* A split of the taps: the windows tile the axis, and each is a part of one. */
static bool take_taps(struct sp_lowering *lower, uint8_t tap, uint32_t axis, struct part *part)
{
    if (!sp_lower_is_split(lower, tap))
        return false;
    part->kernel[axis] = lower->factors[tap].size;
    part->stride[axis] = lower->factors[tap].size;
    part->is_changed = true;
    return true;
}

/* The attributes that a part changes; *ret_count of them, in `attributes`, which has room for six. */
static uint32_t attributes_of(struct sp_lowering *lower, const struct part *part, bool is_transpose,
                              struct sp_lower_attribute *attributes)
{
    uint32_t count = 0;
    uint8_t group = sp_lower_split_named(lower, "g");
    if (group != SP_RULE_NO_FACTOR)
        attributes[count++] = SP_INT_ATTR("group", lower->factors[group].size);
    if (!part->is_changed)
        return count;
    attributes[count++] = SP_INTS_ATTR("kernel_shape", part->rank, part->kernel);
    attributes[count++] = SP_INTS_ATTR("strides", part->rank, part->stride);
    attributes[count++] = SP_INTS_ATTR("pads", 2 * part->rank, part->pads);
    attributes[count++] = SP_NO_ATTR("auto_pad");
    if (is_transpose) {
        attributes[count++] = SP_INTS_ATTR("output_padding", part->rank, part->output_padding);
        attributes[count++] = SP_NO_ATTR("output_shape");
    }
    return count;
}

/* Whether bounds can be computed without a thought of overflow. */
static bool is_moderate(const struct sp_lowering *lower, const struct conv_roles *roles, const struct sp_window *window)
{
    for (uint32_t i = 0; i < window->rank; i++) {
        const int64_t numbers[] = {lower->inputs[roles->x].axes[2 + i].extent,
                                   lower->outputs[0].axes[2 + i].extent,
                                   window->stride[i],
                                   window->span[i],
                                   window->low[i],
                                   window->high[i]};
        for (uint32_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++)
            if (numbers[k] > INT32_MAX)
                return false;
    }
    return true;
}

/* Of the node's attributes those of a window, as the part changes them; there is room for six. */
static uint32_t window_attributes(const struct sp_lowering *lower, uint32_t changed_count,
                                  const struct sp_lower_attribute *changed, struct sp_lower_attribute *attributes)
{
    static const char *const names[] = {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"};
    uint32_t count = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct sp_attribute *own = sp_node_attribute(lower->node, names[i]);
        uint32_t k = 0;
        while (k < changed_count && strcmp(changed[k].name, names[i]) != 0)
            k++;
        if (k < changed_count && changed[k].type != SP_ATTR_UNDEFINED)
            attributes[count++] = changed[k];
        else if (k == changed_count && own != NULL)
            attributes[count++] = (struct sp_lower_attribute){.name = names[i],
                                                              .type = own->type,
                                                              .i = own->i,
                                                              .s = sp_node_string(lower->node, names[i], NULL),
                                                              .count = own->count,
                                                              .ints = own->ints};
    }
    return count;
}

static const struct sp_lower_scales conv_scales = {0, 1, 2, 3, 4, 5, 6, 7};

/* ConvInteger has one zero point of weights; those of channels have to be 0. */
static bool has_zeros(const struct sp_lowering *lower)
{
    struct sp_op_context context = sp_lower_context(lower);
    const struct sp_data *data = sp_in_data(&context, conv_scales.b_zero);
    bool is_zero = data != NULL && data->ints != NULL;
    for (uint32_t i = 0; is_zero && i < data->count; i++)
        is_zero = sp_dim_is(data->ints[i], 0);
    return is_zero;
}

/* Whether ConvInteger takes an input of QLinearConv. */
static bool is_summed(const struct sp_lowering *lower, uint32_t input)
{
    const bool is_vector = lower->inputs[conv_scales.b_zero].rank > 0;
    return input == conv_scales.a || input == conv_scales.a_zero || input == conv_scales.b ||
           (input == conv_scales.b_zero && !is_vector);
}

/* A sum in parts is one of integers; the bias is added when all are there, and the result is rounded. */
static enum sp_status run_rounded(struct sp_lowering *lower, const struct part *part, struct sp_piece *const *pieces,
                                  uint32_t changed_count, const struct sp_lower_attribute *changed)
{
    struct sp_lower_attribute attributes[6];
    struct sp_piece *const inputs[] = {pieces[conv_scales.a], pieces[conv_scales.b], pieces[conv_scales.a_zero],
                                       pieces[conv_scales.b_zero]};
    uint32_t count;
    const uint8_t *factors = sp_lower_partial_factors(lower, 0, &count);
    struct sp_piece *sum = sp_lower_op(lower, "ConvInteger", SP_DTYPE_INT32, 4, inputs,
                                       window_attributes(lower, changed_count, changed, attributes), attributes);
    const int64_t *dims = sp_lower_part_dims(lower, &lower->outputs[0]);
    if (sum != NULL && dims != NULL)
        sp_piece_set_dims(lower, sum, lower->outputs[0].rank, dims);
    sum = sp_lower_all_reduce(lower, sum, SP_COMBINE_SUM, count, factors);
    if (lower->input_count > QUANTISED_BIAS && lower->inputs[QUANTISED_BIAS].value != NULL)
        sum = sp_lower_binary(lower, "Add", sum,
                              sp_lower_with_axes(lower, sp_lower_input(lower, QUANTISED_BIAS), part->rank));
    sp_lower_output(lower, 0, sp_lower_scaled(lower, sum, &conv_scales, 1, part->rank));
    return sp_lower_status(lower);
}

static enum sp_status run(struct sp_lowering *lower, const struct conv_roles *roles, const struct part *part,
                          bool is_transpose)
{
    struct sp_lower_attribute attributes[7];
    struct sp_piece **pieces = SP_NEW_ARRAY(lower->arena, lower->input_count, struct sp_piece *);
    if (pieces == NULL)
        return sp_fail_memory(lower->err);
    uint32_t partial;
    (void)sp_lower_partial_factors(lower, 0, &partial);
    const bool is_rounded = roles->b == QUANTISED_BIAS && partial > 0;
    bool is_moved = false;
    for (uint32_t axis = 0; axis < part->rank + 2; axis++)
        is_moved = is_moved || part->box[axis].start >= 0;
    for (uint32_t input = 0; input < lower->input_count; input++) {
        if (input == roles->x && is_moved)
            pieces[input] = sp_lower_input_box(lower, input, part->box);
        else if (input == roles->b)
            pieces[input] = is_rounded ? NULL : sp_lower_input_once(lower, input);
        else if (!is_rounded || is_summed(lower, input))
            pieces[input] = sp_lower_input(lower, input);
    }
    uint32_t count = attributes_of(lower, part, is_transpose, attributes);
    if (is_rounded)
        return run_rounded(lower, part, pieces, count, attributes);
    return sp_lower_give_sum(lower, sp_lower_same(lower, lower->input_count, pieces, count, attributes));
}

/* ---- Conv ----------------------------------------------------------------------------------------------------- */

struct axis {
    int64_t in, low, high, stride, span;
};

/* What places [start, limit) read; `start` may be negative and `limit` beyond the input. */
static struct sp_range read_by(const struct axis *axis, struct sp_range places)
{
    return (struct sp_range){places.start * axis->stride - axis->low,
                             (places.limit - 1) * axis->stride - axis->low + axis->span};
}

static struct sp_range within(struct sp_range range, int64_t extent)
{
    return (struct sp_range){range.start < 0 ? 0 : range.start, range.limit > extent ? extent : range.limit};
}

static void take_places(struct sp_lowering *lower, uint8_t place, const struct axis *axis, uint32_t i,
                        struct part *part)
{
    const struct sp_lower_factor *factor = &lower->factors[place];
    if (!factor->is_contiguous) {
        sp_lower_refuse(lower, place, "a device would have several ranges of it");
        return;
    }
    for (int64_t shard = 0; shard < factor->shards; shard++) {
        struct sp_range range = within(read_by(axis, sp_lower_shard(factor, shard)), axis->in);
        if (range.limit <= range.start) {
            sp_lower_refuse(lower, place, "the windows of a device would lie in the padding altogether");
            return;
        }
    }
    struct sp_range wanted = read_by(axis, (struct sp_range){factor->start, factor->start + factor->size});
    struct sp_range range = within(wanted, axis->in);
    part->box[2 + i] = range;
    part->pads[i] = range.start - wanted.start;
    part->pads[part->rank + i] = wanted.limit - range.limit;
    part->is_changed = true;
}

static void conv_axis(struct sp_lowering *lower, const struct conv_roles *roles, const struct sp_window *window,
                      uint32_t i, struct part *part)
{
    const int64_t in = lower->inputs[roles->x].axes[2 + i].extent, out = lower->outputs[0].axes[2 + i].extent;
    struct axis axis = {.in = in, .stride = window->stride[i], .span = window->span[i]};
    uint8_t place = sp_lower_output_factor(lower, 0, 2 + i), tap = sp_lower_input_factor(lower, roles->w, 2 + i);
    sp_window_padding(window, i, in < 0 ? sp_dim_unknown() : sp_dim_known(in),
                      out < 0 ? sp_dim_unknown() : sp_dim_known(out), &axis.low, &axis.high);
    part->kernel[i] = window->kernel[i];
    part->stride[i] = window->stride[i];
    part->pads[i] = axis.low;
    part->pads[part->rank + i] = axis.high;
    if (take_taps(lower, tap, i, part))
        return;
    if (sp_lower_is_split(lower, place) && lower->rule->factors[place].kind == SP_FACTOR_HALO)
        take_places(lower, place, &axis, i, part);
}

/* Explicit padding cannot say what SAME means on an axis of unknown extent. */
static void refuse_unknown(struct sp_lowering *lower, const struct conv_roles *roles, const struct sp_window *window,
                           bool is_unclear)
{
    for (uint32_t i = 0; is_unclear && i < window->rank; i++) {
        const uint8_t factors[] = {sp_lower_output_factor(lower, 0, 2 + i),
                                   sp_lower_input_factor(lower, roles->x, 2 + i),
                                   sp_lower_input_factor(lower, roles->w, 2 + i)};
        for (uint32_t k = 0; k < sizeof factors; k++)
            sp_lower_refuse(lower, factors[k],
                            "the padding of an axis follows from its extent, which is not known or too large");
    }
}

static enum sp_status lower_conv(struct sp_lowering *lower, const struct conv_roles *roles)
{
    struct sp_window window;
    struct part part;
    if (!begin(lower, roles, &window, &part))
        return sp_lower_status(lower) != SP_OK ? sp_lower_status(lower) : sp_lower_default(lower);
    bool is_same = window.auto_pad == SP_PAD_SAME_UPPER || window.auto_pad == SP_PAD_SAME_LOWER;
    bool is_fine = is_moderate(lower, roles, &window), is_unclear = false;
    refuse_unknown(lower, roles, &window, !is_fine);
    for (uint32_t i = 0; is_fine && i < window.rank; i++) {
        is_unclear = is_unclear || window.kernel[i] == 0;
        is_unclear = is_unclear || (is_same && lower->inputs[roles->x].axes[2 + i].extent < 0);
        conv_axis(lower, roles, &window, i, &part);
    }
    if (part.is_changed)
        refuse_unknown(lower, roles, &window, is_unclear);
    return sp_lower_status(lower) != SP_OK ? sp_lower_status(lower) : run(lower, roles, &part, false);
}

enum sp_status sp_lower_conv(struct sp_lowering *lower)
{
    static const struct conv_roles roles = {0, 1, 2};
    return lower_conv(lower, &roles);
}

enum sp_status sp_lower_conv_integer(struct sp_lowering *lower)
{
    static const struct conv_roles roles = {0, 1, UINT32_MAX};
    return lower_conv(lower, &roles);
}

enum sp_status sp_lower_qlinear_conv(struct sp_lowering *lower)
{
    static const struct conv_roles roles = {0, 3, QUANTISED_BIAS};
    uint32_t count;
    const uint8_t *factors = sp_lower_partial_factors(lower, 0, &count);
    const bool has_form =
        sp_lower_is_scaled(lower, &conv_scales) && (lower->inputs[conv_scales.b_zero].rank == 0 || has_zeros(lower));
    for (uint32_t i = 0; i < count && !has_form; i++)
        sp_lower_refuse(lower, factors[i], SP_LOWER_NOT_SCALED);
    return sp_lower_status(lower) != SP_OK ? sp_lower_status(lower) : lower_conv(lower, &roles);
}

/* ---- ConvTranspose -------------------------------------------------------------------------------------------- */

/* One axis of the whole: input i adds to [i * stride, i * stride + span) of what is made before `low` elements are cut
   off; behind the last one are `after` more. */
struct spread {
    int64_t in, out, low, after, stride, span;
    bool is_same;
};

/* False where the padding follows from an extent that is not known. */
static bool read_spread(struct sp_lowering *lower, const struct sp_window *window, uint32_t i, struct spread *ret)
{
    uint32_t given_count, after_count;
    const int64_t *given = sp_node_ints(lower->node, "output_shape", &given_count);
    const int64_t *after = sp_node_ints(lower->node, "output_padding", &after_count);
    struct spread axis = {.in = lower->inputs[0].axes[2 + i].extent,
                          .out = lower->outputs[0].axes[2 + i].extent,
                          .stride = window->stride[i],
                          .span = window->span[i],
                          .low = window->low[i]};
    axis.after = after != NULL && i < after_count ? after[i] : 0;
    bool is_moderate = axis.after <= INT32_MAX;
    if (!is_moderate)
        axis.after = 0;
    bool is_given = given != NULL && given_count > 0, is_upper = window->auto_pad == SP_PAD_SAME_UPPER;
    axis.is_same = is_upper || window->auto_pad == SP_PAD_SAME_LOWER;
    *ret = axis;
    if (!is_moderate || (is_given && (axis.in < 0 || axis.out < 0)))
        return false;
    if (!is_given && !axis.is_same)
        return true;
    int64_t cut = axis.span + axis.after - axis.stride; /* SAME: stride elements for each input */
    if (is_given)
        cut = (axis.in - 1) * axis.stride + axis.span + axis.after - axis.out;
    cut = cut > 0 ? cut : 0;
    ret->low = is_upper ? cut / 2 : cut - cut / 2;
    return true;
}

/* The inputs that an output range needs, at least one, none of them behind where it begins. */
static struct sp_range sources_of(const struct spread *axis, struct sp_range part)
{
    int64_t begin = part.start + axis->low, end = part.limit + axis->low; /* before the cut */
    int64_t first = begin - axis->span + 1;
    struct sp_range range = {first <= 0 ? 0 : (first + axis->stride - 1) / axis->stride, (end - 1) / axis->stride + 1};
    if (range.start > begin / axis->stride) /* it begins in a gap between the windows */
        range.start = begin / axis->stride;
    if (range.start > axis->in - 1)
        range.start = axis->in - 1;
    if (range.limit > axis->in)
        range.limit = axis->in;
    return range;
}

/* Padding that leaves exactly the output range of what the inputs make. */
static void set_padding(struct part *part, uint32_t i, const struct spread *axis, struct sp_range sources,
                        struct sp_range wanted)
{
    int64_t made = (sources.limit - sources.start - 1) * axis->stride + axis->span;
    int64_t low = wanted.start + axis->low - sources.start * axis->stride;
    int64_t high = made - low - (wanted.limit - wanted.start);
    part->pads[i] = low;
    part->pads[part->rank + i] = high > 0 ? high : 0;
    part->output_padding[i] = high < 0 ? -high : 0;
}

static void spread_places(struct sp_lowering *lower, uint8_t place, const struct spread *axis, uint32_t i,
                          struct part *part)
{
    const struct sp_lower_factor *factor = &lower->factors[place];
    if (!factor->is_contiguous) {
        sp_lower_refuse(lower, place, "a device would have several ranges of it");
        return;
    }
    for (int64_t shard = 0; shard < factor->shards; shard++) {
        struct sp_range wanted = sp_lower_shard(factor, shard), sources = sources_of(axis, wanted);
        int64_t made = (sources.limit - 1) * axis->stride + axis->span;
        if (wanted.start + axis->low >= made) {
            sp_lower_refuse(lower, place, "the part of a device would lie in the output padding altogether");
            return;
        }
    }
    struct sp_range wanted = {factor->start, factor->start + factor->size};
    part->box[2 + i] = sources_of(axis, wanted);
    set_padding(part, i, axis, part->box[2 + i], wanted);
    part->is_changed = true;
}

/* False where the axis' padding cannot be told. */
static bool transpose_axis(struct sp_lowering *lower, const struct sp_window *window, uint32_t i, struct part *part)
{
    struct spread axis;
    uint8_t place = sp_lower_input_factor(lower, 0, 2 + i), tap = sp_lower_input_factor(lower, 1, 2 + i);
    bool is_clear = read_spread(lower, window, i, &axis) && window->kernel[i] != 0;
    part->kernel[i] = window->kernel[i];
    part->stride[i] = window->stride[i];
    part->pads[i] = axis.low;
    part->pads[part->rank + i] = window->high[i];
    part->output_padding[i] = axis.after;
    if (take_taps(lower, tap, i, part)) { /* nothing overlaps, so nothing is cut off */
        part->pads[i] = part->pads[part->rank + i] = part->output_padding[i] = 0;
        return true;
    }
    bool is_split = sp_lower_is_split(lower, place), is_halo = false;
    if (is_split)
        is_halo = lower->rule->factors[place].kind == SP_FACTOR_HALO;
    part->is_changed = part->is_changed || (is_halo && !is_clear); /* which is refused */
    if (is_halo && is_clear)
        spread_places(lower, place, &axis, i, part);
    else if (is_split && !is_halo)
        part->pads[i] = part->pads[part->rank + i] = part->output_padding[i] = 0;
    else if (is_clear && axis.in > 0 && axis.out > 0)
        set_padding(part, i, &axis, (struct sp_range){0, axis.in}, (struct sp_range){0, axis.out});
    else if (axis.is_same && axis.span + axis.after > axis.stride)
        part->pads[part->rank + i] = axis.span + axis.after - axis.stride - axis.low;
    return is_clear;
}

enum sp_status sp_lower_conv_transpose(struct sp_lowering *lower)
{
    static const struct conv_roles roles = {0, 1, 2};
    struct sp_window window;
    struct part part;
    bool is_unclear = false, is_tiled = false;
    uint32_t given;
    if (!begin(lower, &roles, &window, &part))
        return sp_lower_status(lower) != SP_OK ? sp_lower_status(lower) : sp_lower_default(lower);
    bool is_fine = is_moderate(lower, &roles, &window);
    refuse_unknown(lower, &roles, &window, !is_fine);
    for (uint32_t i = 0; is_fine && i < window.rank; i++) {
        is_unclear = !transpose_axis(lower, &window, i, &part) || is_unclear;
        is_tiled = is_tiled || sp_lower_is_split(lower, sp_lower_input_factor(lower, 0, 2 + i));
    }
    if (is_tiled && sp_node_ints(lower->node, "output_shape", &given) != NULL)
        part.is_changed = true; /* it says the extents of the whole */
    if (part.is_changed)
        refuse_unknown(lower, &roles, &window, is_unclear);
    return sp_lower_status(lower) != SP_OK ? sp_lower_status(lower) : run(lower, &roles, &part, true);
}

enum sp_status sp_lower_nchwc(struct sp_lowering *lower)
{
    const char *count = strcmp(lower->node->op_type, "ReorderOutput") == 0 ? "channels" : "group";
    if (sp_lower_split_named(lower, "m") == SP_RULE_NO_FACTOR || sp_node_int(lower->node, count, 1) == 1)
        return sp_lower_default(lower);
    const struct sp_lower_attribute own = SP_INT_ATTR(count, lower->inputs[0].axes[1].size);
    sp_lower_output(lower, 0, sp_lower_same(lower, 0, NULL, 1, &own));
    return sp_lower_status(lower);
}
