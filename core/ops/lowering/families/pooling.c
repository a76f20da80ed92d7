/*
 * Pools on shards (rules in pooling.c).
 *
 * A part of the output needs the inputs that its windows reach, at the borders of the whole less than that: the padding
 * of a part is explicit, and only where the whole has it. Inside of the last window with ceil_mode the part ends where
 * the padding of the whole does.
 *
 * Where windows tile an axis their taps may be split: maxima combine as they are, means in proportion to their taps,
 * norms as the powers under their root.
 *
 * Indices of MaxPool are numbers in the whole input: those in the part are taken apart in coordinates, moved and put
 * together again. Of equal elements the first in row-major order wins, in a part and among parts.
 */
#include "base/limits.h"
#include "ops/families/neural/window.h"
#include "ops/lowering/functions.h"
#include "ops/lowering/parts.h"
#include "ops/lowering/statistics.h"

/* What a device's windows are along each spatial axis, and what it reads of the input. */
struct part {
    struct sp_window window;
    int64_t *kernel, *stride, *pads;
    struct sp_range *box;     /* one for each axis of the input; start -1: what the factors give */
    uint8_t *places;          /* one for each spatial axis: the split halo factor, or SP_RULE_NO_FACTOR */
    bool is_changed, is_read; /* attributes are others; the box is not the part */
    double share;             /* of all taps, those that are here */
};

static const struct sp_operand_rule *any_output(const struct sp_lowering *lower)
{
    return lower->outputs[0].value != NULL ? &lower->rule->outputs[0] : &lower->rule->outputs[1];
}

/* The places that this device has, and those between them. */
static struct sp_range hull(const struct sp_lower_factor *factor)
{
    return (struct sp_range){factor->start, factor->ranges.ranges[factor->ranges.count - 1].limit};
}

static void take_places(struct sp_lowering *lower, struct part *part, uint32_t i, uint8_t place, int64_t low,
                        int64_t high)
{
    const struct sp_lower_factor *factor = &lower->factors[place];
    int64_t in = lower->inputs[0].axes[2 + i].extent, stride = part->window.stride[i], span = part->window.span[i];
    if (in < 0) {
        sp_lower_refuse(lower, place, "the extent that its windows move over is not known");
        return;
    }
    if (span <= low || (factor->extent - 1) * stride - low >= in) {
        sp_lower_refuse(lower, place, "a window lies in the padding altogether");
        return;
    }
    struct sp_range own = hull(factor);
    struct sp_range read = {own.start * stride - low, (own.limit - 1) * stride - low + span};
    struct sp_range box = {read.start < 0 ? 0 : read.start, read.limit > in ? in : read.limit};
    int64_t beyond = read.limit - box.limit;
    part->box[2 + i] = box;
    part->pads[i] = box.start - read.start;
    part->pads[part->window.rank + i] = beyond < high ? beyond : high;
    part->places[i] = place;
    part->is_changed = part->is_read = true;
}

static struct sp_dim dim_of(int64_t extent)
{
    return extent < 0 ? sp_dim_unknown() : sp_dim_known(extent);
}

static void read_axis(struct sp_lowering *lower, struct part *part, uint32_t i)
{
    const struct sp_axis_factors *in = &lower->rule->inputs[0].axes[2 + i], *out = &any_output(lower)->axes[2 + i];
    const struct sp_lower_operand *y = &lower->outputs[lower->outputs[0].value != NULL ? 0 : 1];
    uint8_t place = out->count > 0 ? out->factors[0] : SP_RULE_NO_FACTOR;
    uint8_t tap = in->count > 1 ? in->factors[1] : SP_RULE_NO_FACTOR;
    int64_t low, high;
    sp_window_padding(&part->window, i, dim_of(lower->inputs[0].axes[2 + i].extent), dim_of(y->axes[2 + i].extent),
                      &low, &high);
    part->kernel[i] = part->window.kernel[i];
    part->stride[i] = part->window.stride[i];
    part->pads[i] = low;
    part->pads[part->window.rank + i] = high;
    part->places[i] = SP_RULE_NO_FACTOR;
    if (sp_lower_is_split(lower, tap)) {
        part->share *= (double)lower->factors[tap].size / (double)lower->factors[tap].extent;
        part->kernel[i] = part->stride[i] = lower->factors[tap].size;
        part->is_changed = true;
    } else if (sp_lower_is_split(lower, place) && lower->rule->factors[place].kind == SP_FACTOR_HALO) {
        take_places(lower, part, i, place, low, high);
    }
}

/* Explicit padding cannot say what SAME means on an axis of unknown extent. */
static void refuse_unclear(struct sp_lowering *lower, const struct part *part)
{
    bool is_same = part->window.auto_pad == SP_PAD_SAME_UPPER || part->window.auto_pad == SP_PAD_SAME_LOWER;
    bool is_unclear = false;
    for (uint32_t i = 0; is_same && i < part->window.rank; i++)
        is_unclear = is_unclear || lower->inputs[0].axes[2 + i].extent < 0;
    for (uint32_t i = 0; is_unclear && i < lower->factor_count; i++)
        sp_lower_refuse(lower, (uint8_t)i, "the padding of an axis follows from its extent, which is not known");
}

/* False after an error. */
static bool read_part(struct sp_lowering *lower, struct part *ret_part)
{
    struct sp_op_context context = sp_lower_context(lower);
    struct part part = {.share = 1};
    uint32_t rank = lower->inputs[0].rank;
    enum sp_status status = sp_window_read(&context, rank - 2, NULL, &part.window);
    if (status != SP_OK) {
        sp_lower_failed(lower, status);
        return false;
    }
    int64_t *values = SP_NEW_ARRAY(lower->arena, 4 * (size_t)rank, int64_t);
    part.box = SP_NEW_ARRAY(lower->arena, rank, struct sp_range);
    part.places = SP_NEW_ARRAY(lower->arena, rank, uint8_t);
    if (values == NULL || part.box == NULL || part.places == NULL) {
        sp_lower_failed(lower, sp_fail_memory(lower->err));
        return false;
    }
    part.kernel = values;
    part.stride = values + rank;
    part.pads = values + 2 * (size_t)rank;
    for (uint32_t axis = 0; axis < rank; axis++)
        part.box[axis] = (struct sp_range){-1, -1};
    for (uint32_t i = 0; i < part.window.rank; i++)
        read_axis(lower, &part, i);
    if (part.is_changed)
        refuse_unclear(lower, &part);
    *ret_part = part;
    return sp_lower_status(lower) == SP_OK;
}

static struct sp_piece *read_input(struct sp_lowering *lower, const struct part *part)
{
    return part->is_read ? sp_lower_input_box(lower, 0, part->box) : sp_lower_input(lower, 0);
}

/* Of the places between those that this device has, those that it has. */
static struct sp_piece *own_places(struct sp_lowering *lower, const struct part *part, struct sp_piece *y)
{
    int64_t dims[SP_MAX_RANK];
    bool is_hull = false;
    if (y == NULL || y->dims == NULL)
        return y;
    for (uint32_t axis = 0; axis < y->rank; axis++) {
        uint8_t place = axis >= 2 ? part->places[axis - 2] : SP_RULE_NO_FACTOR;
        struct sp_range own = place != SP_RULE_NO_FACTOR ? hull(&lower->factors[place]) : (struct sp_range){0};
        dims[axis] = place != SP_RULE_NO_FACTOR ? own.limit - own.start : y->dims[axis];
        is_hull = is_hull || dims[axis] != y->dims[axis];
    }
    if (!is_hull)
        return y;
    sp_piece_set_dims(lower, y, y->rank, dims);
    for (uint32_t axis = 2; axis < lower->inputs[0].rank; axis++) {
        uint8_t place = part->places[axis - 2];
        if (place != SP_RULE_NO_FACTOR && !lower->factors[place].is_contiguous)
            y = sp_lower_keep_own(lower, y, axis, place, lower->factors[place].start);
    }
    return y;
}

/* The node's own operator on its part: outputs in whose places gaps are. `attributes` has room for six. */
static void run(struct sp_lowering *lower, const struct part *part, struct sp_piece *x, uint32_t attribute_count,
                struct sp_lower_attribute *attributes, struct sp_piece **outputs)
{
    if (part->is_changed) {
        attributes[attribute_count++] = SP_INTS_ATTR("kernel_shape", part->window.rank, part->kernel);
        attributes[attribute_count++] = SP_INTS_ATTR("strides", part->window.rank, part->stride);
        attributes[attribute_count++] = SP_INTS_ATTR("pads", 2 * part->window.rank, part->pads);
        attributes[attribute_count++] = SP_NO_ATTR("auto_pad");
    }
    sp_lower_same_many(lower, 1, &x, attribute_count, attributes, outputs);
}

/* The exponent of a norm; a float in the first version. */
static double read_p(const struct sp_lowering *lower)
{
    const struct sp_attribute *p = sp_node_attribute(lower->node, "p");
    if (p == NULL)
        return 2;
    return p->type == SP_ATTR_FLOAT ? p->f : (double)p->i;
}

/* The norm of all from the norms of parts. */
static struct sp_piece *join_norms(struct sp_lowering *lower, struct sp_piece *y, uint32_t count,
                                   const uint8_t *factors)
{
    if (y == NULL)
        return NULL;
    enum sp_dtype dtype = y->dtype, wide = sp_lower_wide(dtype);
    double p = read_p(lower);
    y = sp_lower_cast(lower, y, wide);
    y = sp_lower_binary(lower, "Pow", y, sp_lower_scalar(lower, wide, p));
    y = sp_lower_all_reduce(lower, y, SP_COMBINE_SUM, count, factors);
    return sp_lower_cast(lower, sp_lower_binary(lower, "Pow", y, sp_lower_scalar(lower, wide, 1 / p)), dtype);
}

/* Part of the taps: a summand of the mean. */
static struct sp_piece *weighted(struct sp_lowering *lower, struct sp_piece *y, double share)
{
    return y != NULL && share < 1 ? sp_lower_binary(lower, "Mul", y, sp_lower_scalar(lower, y->dtype, share)) : y;
}

static enum sp_status pool(struct sp_lowering *lower, bool is_norm)
{
    struct sp_lower_attribute attributes[6];
    struct sp_piece *y;
    struct part part;
    uint32_t count;
    if (!read_part(lower, &part))
        return sp_lower_status(lower);
    run(lower, &part, read_input(lower, &part), 0, attributes, &y);
    const uint8_t *taps = sp_lower_partial_factors(lower, 0, &count);
    y = own_places(lower, &part, y);
    if (is_norm && count > 0)
        sp_lower_output(lower, 0, join_norms(lower, y, count, taps));
    else
        sp_lower_output_partial(lower, 0, weighted(lower, y, part.share), SP_COMBINE_SUM, count, taps);
    return sp_lower_status(lower);
}

enum sp_status sp_lower_average_pool(struct sp_lowering *lower)
{
    return pool(lower, false);
}

enum sp_status sp_lower_lp_pool(struct sp_lowering *lower)
{
    return pool(lower, true);
}

/* ---- MaxPool ---------------------------------------------------------------------------------------------------- */

/* Positions in a box of these extents as positions in the whole input, row-major. */
static struct sp_piece *whole_positions(struct sp_lowering *lower, const struct part *part, const struct sp_piece *x,
                                        struct sp_piece *positions)
{
    struct sp_piece *coordinates[SP_MAX_RANK];
    int64_t extents[SP_MAX_RANK];
    for (uint32_t axis = 0; axis < x->rank; axis++)
        extents[axis] = lower->inputs[0].axes[axis].extent;
    sp_lower_coordinates(lower, positions, x->rank, x->dims, coordinates);
    for (uint32_t axis = 0; axis < x->rank; axis++) {
        struct sp_axis_ranges box = {1, &part->box[axis]};
        if (part->box[axis].start >= 0)
            coordinates[axis] = sp_lower_to_global(lower, coordinates[axis], &box);
        else if (lower->inputs[0].axes[axis].is_cut)
            coordinates[axis] = sp_lower_to_global(lower, coordinates[axis], &lower->inputs[0].axes[axis].ranges);
    }
    return sp_lower_flat(lower, x->rank, extents, coordinates);
}

/* Row-major positions with the spatial axes in the reverse order. */
static struct sp_piece *column_major(struct sp_lowering *lower, struct sp_piece *positions)
{
    struct sp_piece *coordinates[SP_MAX_RANK], *reversed[SP_MAX_RANK];
    int64_t extents[SP_MAX_RANK], reversed_extents[SP_MAX_RANK];
    uint32_t rank = lower->inputs[0].rank;
    for (uint32_t axis = 0; axis < rank; axis++)
        extents[axis] = lower->inputs[0].axes[axis].extent;
    sp_lower_coordinates(lower, positions, rank, extents, coordinates);
    for (uint32_t axis = 0; axis < rank; axis++) {
        uint32_t from = axis >= 2 ? rank + 1 - axis : axis;
        reversed[axis] = coordinates[from];
        reversed_extents[axis] = extents[from];
    }
    return sp_lower_flat(lower, rank, reversed_extents, reversed);
}

/* Positions need the extents of all axes but the first. */
static void refuse_uncounted(struct sp_lowering *lower)
{
    bool is_known = true;
    for (uint32_t axis = 1; axis < lower->inputs[0].rank; axis++)
        is_known = is_known && lower->inputs[0].axes[axis].extent >= 0;
    for (uint32_t i = 0; !is_known && i < lower->factor_count; i++)
        sp_lower_refuse(lower, (uint8_t)i, "positions count through all axes, and the extent of one is not known");
}

#define MOST_POSITIONS (INT64_C(1) << 52) /* a double holds them */

static enum sp_status pool_with_positions(struct sp_lowering *lower, const struct part *part)
{
    struct sp_lower_attribute attributes[6] = {SP_INT_ATTR("storage_order", 0)};
    struct sp_piece *outputs[2] = {NULL, NULL};
    struct sp_lower_span span = {.share = 1};
    span.factors = sp_lower_partial_factors(lower, 0, &span.factor_count);
    refuse_uncounted(lower);
    struct sp_piece *x = read_input(lower, part);
    if (x == NULL)
        return sp_lower_status(lower);
    run(lower, part, x, 1, attributes, outputs);
    struct sp_piece *y = own_places(lower, part, outputs[0]);
    struct sp_piece *places = whole_positions(lower, part, x, own_places(lower, part, outputs[1]));
    if (span.factor_count > 0) {
        struct sp_piece *most = sp_lower_all_reduce(lower, y, SP_COMBINE_MAX, span.factor_count, span.factors);
        struct sp_piece *is_beaten = sp_lower_compare(lower, "Less", y, most);
        places = sp_lower_candidates(lower, places, is_beaten, MOST_POSITIONS, false);
        places = sp_lower_first_of_all(lower, places, MOST_POSITIONS, false, &span);
        y = most;
    }
    if (sp_node_int(lower->node, "storage_order", 0) != 0)
        places = column_major(lower, places);
    if (lower->outputs[0].value != NULL)
        sp_lower_output(lower, 0, y);
    sp_lower_output(lower, 1, places);
    return sp_lower_status(lower);
}

enum sp_status sp_lower_max_pool(struct sp_lowering *lower)
{
    struct sp_lower_attribute attributes[6];
    struct sp_piece *y;
    struct part part;
    uint32_t count;
    if (!read_part(lower, &part))
        return sp_lower_status(lower);
    if (lower->output_count > 1 && lower->outputs[1].value != NULL)
        return pool_with_positions(lower, &part);
    struct sp_piece *outputs[2];
    run(lower, &part, read_input(lower, &part), 0, attributes, outputs);
    y = own_places(lower, &part, outputs[0]);
    const uint8_t *taps = sp_lower_partial_factors(lower, 0, &count);
    sp_lower_output_partial(lower, 0, y, SP_COMBINE_MAX, count, taps);
    return sp_lower_status(lower);
}

/* ---- global pools ----------------------------------------------------------------------------------------------- */

enum sp_status sp_lower_global_average_pool(struct sp_lowering *lower)
{
    struct sp_lower_span span = sp_lower_reductions(lower, 0);
    if (span.factor_count == 0)
        return sp_lower_default(lower);
    struct sp_piece *y = weighted(lower, sp_lower_same(lower, 0, NULL, 0, NULL), span.share);
    sp_lower_output_partial(lower, 0, y, SP_COMBINE_SUM, span.factor_count, span.factors);
    return sp_lower_status(lower);
}

enum sp_status sp_lower_global_lp_pool(struct sp_lowering *lower)
{
    struct sp_lower_span span = sp_lower_reductions(lower, 0);
    if (span.factor_count == 0)
        return sp_lower_default(lower);
    struct sp_piece *y = sp_lower_same(lower, 0, NULL, 0, NULL);
    sp_lower_output(lower, 0, join_norms(lower, y, span.factor_count, span.factors));
    return sp_lower_status(lower);
}
