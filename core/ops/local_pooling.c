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
#include "ops/local_functions.h"
#include "ops/local_parts.h"
#include "ops/local_statistics.h"
#include "ops/window.h"

/* What a device's windows are along each spatial axis, and what it reads of the input. */
struct part {
    struct sp_window window;
    int64_t *kernel, *stride, *pads;
    struct sp_range *box;     /* one for each axis of the input; start -1: what the factors give */
    uint8_t *places;          /* one for each spatial axis: the split halo factor, or SP_RULE_NO_FACTOR */
    bool is_changed, is_read; /* attributes are others; the box is not the part */
    double share;             /* of all taps, those that are here */
};

static const struct sp_operand_rule *any_output(const struct sp_local *local)
{
    return local->outputs[0].value != NULL ? &local->rule->outputs[0] : &local->rule->outputs[1];
}

/* The places that this device has, and those between them. */
static struct sp_range hull(const struct sp_local_factor *factor)
{
    return (struct sp_range){factor->start, factor->ranges.ranges[factor->ranges.count - 1].limit};
}

static void take_places(struct sp_local *local, struct part *part, uint32_t i, uint8_t place, int64_t low, int64_t high)
{
    const struct sp_local_factor *factor = &local->factors[place];
    int64_t in = local->inputs[0].axes[2 + i].extent, stride = part->window.stride[i], span = part->window.span[i];
    if (in < 0) {
        sp_local_refuse(local, place, "the extent that its windows move over is not known");
        return;
    }
    if (span <= low || (factor->extent - 1) * stride - low >= in) {
        sp_local_refuse(local, place, "a window lies in the padding altogether");
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

static void read_axis(struct sp_local *local, struct part *part, uint32_t i)
{
    const struct sp_axis_factors *in = &local->rule->inputs[0].axes[2 + i], *out = &any_output(local)->axes[2 + i];
    const struct sp_local_operand *y = &local->outputs[local->outputs[0].value != NULL ? 0 : 1];
    uint8_t place = out->count > 0 ? out->factors[0] : SP_RULE_NO_FACTOR;
    uint8_t tap = in->count > 1 ? in->factors[1] : SP_RULE_NO_FACTOR;
    int64_t low, high;
    sp_window_padding(&part->window, i, dim_of(local->inputs[0].axes[2 + i].extent), dim_of(y->axes[2 + i].extent),
                      &low, &high);
    part->kernel[i] = part->window.kernel[i];
    part->stride[i] = part->window.stride[i];
    part->pads[i] = low;
    part->pads[part->window.rank + i] = high;
    part->places[i] = SP_RULE_NO_FACTOR;
    if (sp_local_is_split(local, tap)) {
        part->share *= (double)local->factors[tap].size / (double)local->factors[tap].extent;
        part->kernel[i] = part->stride[i] = local->factors[tap].size;
        part->is_changed = true;
    } else if (sp_local_is_split(local, place) && local->rule->factors[place].kind == SP_FACTOR_HALO) {
        take_places(local, part, i, place, low, high);
    }
}

/* Explicit padding cannot say what SAME means on an axis of unknown extent. */
static void refuse_unclear(struct sp_local *local, const struct part *part)
{
    bool is_same = part->window.auto_pad == SP_PAD_SAME_UPPER || part->window.auto_pad == SP_PAD_SAME_LOWER;
    bool is_unclear = false;
    for (uint32_t i = 0; is_same && i < part->window.rank; i++)
        is_unclear = is_unclear || local->inputs[0].axes[2 + i].extent < 0;
    for (uint32_t i = 0; is_unclear && i < local->factor_count; i++)
        sp_local_refuse(local, (uint8_t)i, "the padding of an axis follows from its extent, which is not known");
}

/* False after an error. */
static bool read_part(struct sp_local *local, struct part *ret_part)
{
    struct sp_op_context context = sp_local_context(local);
    struct part part = {.share = 1};
    uint32_t rank = local->inputs[0].rank;
    enum sp_status status = sp_window_read(&context, rank - 2, NULL, &part.window);
    if (status != SP_OK) {
        sp_local_failed(local, status);
        return false;
    }
    int64_t *values = SP_NEW_ARRAY(local->arena, 4 * (size_t)rank, int64_t);
    part.box = SP_NEW_ARRAY(local->arena, rank, struct sp_range);
    part.places = SP_NEW_ARRAY(local->arena, rank, uint8_t);
    if (values == NULL || part.box == NULL || part.places == NULL) {
        sp_local_failed(local, sp_fail_memory(local->err));
        return false;
    }
    part.kernel = values;
    part.stride = values + rank;
    part.pads = values + 2 * (size_t)rank;
    for (uint32_t axis = 0; axis < rank; axis++)
        part.box[axis] = (struct sp_range){-1, -1};
    for (uint32_t i = 0; i < part.window.rank; i++)
        read_axis(local, &part, i);
    if (part.is_changed)
        refuse_unclear(local, &part);
    *ret_part = part;
    return sp_local_status(local) == SP_OK;
}

static struct sp_piece *read_input(struct sp_local *local, const struct part *part)
{
    return part->is_read ? sp_local_input_box(local, 0, part->box) : sp_local_input(local, 0);
}

/* Of the places between those that this device has, those that it has. */
static struct sp_piece *own_places(struct sp_local *local, const struct part *part, struct sp_piece *y)
{
    int64_t dims[SP_MAX_RANK];
    bool is_hull = false;
    if (y == NULL || y->dims == NULL)
        return y;
    for (uint32_t axis = 0; axis < y->rank; axis++) {
        uint8_t place = axis >= 2 ? part->places[axis - 2] : SP_RULE_NO_FACTOR;
        struct sp_range own = place != SP_RULE_NO_FACTOR ? hull(&local->factors[place]) : (struct sp_range){0};
        dims[axis] = place != SP_RULE_NO_FACTOR ? own.limit - own.start : y->dims[axis];
        is_hull = is_hull || dims[axis] != y->dims[axis];
    }
    if (!is_hull)
        return y;
    sp_piece_set_dims(local, y, y->rank, dims);
    for (uint32_t axis = 2; axis < local->inputs[0].rank; axis++) {
        uint8_t place = part->places[axis - 2];
        if (place != SP_RULE_NO_FACTOR && !local->factors[place].is_contiguous)
            y = sp_local_keep_own(local, y, axis, place, local->factors[place].start);
    }
    return y;
}

/* The node's own operator on its part: outputs in whose places gaps are. `attributes` has room for six. */
static void run(struct sp_local *local, const struct part *part, struct sp_piece *x, uint32_t attribute_count,
                struct sp_local_attribute *attributes, struct sp_piece **outputs)
{
    if (part->is_changed) {
        attributes[attribute_count++] = SP_INTS_ATTR("kernel_shape", part->window.rank, part->kernel);
        attributes[attribute_count++] = SP_INTS_ATTR("strides", part->window.rank, part->stride);
        attributes[attribute_count++] = SP_INTS_ATTR("pads", 2 * part->window.rank, part->pads);
        attributes[attribute_count++] = SP_NO_ATTR("auto_pad");
    }
    sp_local_same_many(local, 1, &x, attribute_count, attributes, outputs);
}

/* The exponent of a norm; a float in the first version. */
static double read_p(const struct sp_local *local)
{
    const struct sp_attribute *p = sp_node_attribute(local->node, "p");
    if (p == NULL)
        return 2;
    return p->type == SP_ATTR_FLOAT ? p->f : (double)p->i;
}

/* The norm of all from the norms of parts. */
static struct sp_piece *join_norms(struct sp_local *local, struct sp_piece *y, uint32_t count, const uint8_t *factors)
{
    if (y == NULL)
        return NULL;
    enum sp_dtype dtype = y->dtype, wide = sp_local_wide(dtype);
    double p = read_p(local);
    y = sp_local_cast(local, y, wide);
    y = sp_local_binary(local, "Pow", y, sp_local_scalar(local, wide, p));
    y = sp_local_all_reduce(local, y, SP_COMBINE_SUM, count, factors);
    return sp_local_cast(local, sp_local_binary(local, "Pow", y, sp_local_scalar(local, wide, 1 / p)), dtype);
}

/* Part of the taps: a summand of the mean. */
static struct sp_piece *weighted(struct sp_local *local, struct sp_piece *y, double share)
{
    return y != NULL && share < 1 ? sp_local_binary(local, "Mul", y, sp_local_scalar(local, y->dtype, share)) : y;
}

static enum sp_status pool(struct sp_local *local, bool is_norm)
{
    struct sp_local_attribute attributes[6];
    struct sp_piece *y;
    struct part part;
    uint32_t count;
    if (!read_part(local, &part))
        return sp_local_status(local);
    run(local, &part, read_input(local, &part), 0, attributes, &y);
    const uint8_t *taps = sp_local_partial_factors(local, 0, &count);
    y = own_places(local, &part, y);
    if (is_norm && count > 0)
        sp_local_output(local, 0, join_norms(local, y, count, taps));
    else
        sp_local_output_partial(local, 0, weighted(local, y, part.share), SP_COMBINE_SUM, count, taps);
    return sp_local_status(local);
}

enum sp_status sp_local_average_pool(struct sp_local *local)
{
    return pool(local, false);
}

enum sp_status sp_local_lp_pool(struct sp_local *local)
{
    return pool(local, true);
}

/* ---- MaxPool ---------------------------------------------------------------------------------------------------- */

/* Positions in a box of these extents as positions in the whole input, row-major. */
static struct sp_piece *whole_positions(struct sp_local *local, const struct part *part, const struct sp_piece *x,
                                        struct sp_piece *positions)
{
    struct sp_piece *coordinates[SP_MAX_RANK];
    int64_t extents[SP_MAX_RANK];
    for (uint32_t axis = 0; axis < x->rank; axis++)
        extents[axis] = local->inputs[0].axes[axis].extent;
    sp_local_coordinates(local, positions, x->rank, x->dims, coordinates);
    for (uint32_t axis = 0; axis < x->rank; axis++) {
        struct sp_axis_ranges box = {1, &part->box[axis]};
        if (part->box[axis].start >= 0)
            coordinates[axis] = sp_local_to_global(local, coordinates[axis], &box);
        else if (local->inputs[0].axes[axis].is_cut)
            coordinates[axis] = sp_local_to_global(local, coordinates[axis], &local->inputs[0].axes[axis].ranges);
    }
    return sp_local_flat(local, x->rank, extents, coordinates);
}

/* Row-major positions with the spatial axes in the reverse order. */
static struct sp_piece *column_major(struct sp_local *local, struct sp_piece *positions)
{
    struct sp_piece *coordinates[SP_MAX_RANK], *reversed[SP_MAX_RANK];
    int64_t extents[SP_MAX_RANK], reversed_extents[SP_MAX_RANK];
    uint32_t rank = local->inputs[0].rank;
    for (uint32_t axis = 0; axis < rank; axis++)
        extents[axis] = local->inputs[0].axes[axis].extent;
    sp_local_coordinates(local, positions, rank, extents, coordinates);
    for (uint32_t axis = 0; axis < rank; axis++) {
        uint32_t from = axis >= 2 ? rank + 1 - axis : axis;
        reversed[axis] = coordinates[from];
        reversed_extents[axis] = extents[from];
    }
    return sp_local_flat(local, rank, reversed_extents, reversed);
}

/* Positions need the extents of all axes but the first. */
static void refuse_uncounted(struct sp_local *local)
{
    bool is_known = true;
    for (uint32_t axis = 1; axis < local->inputs[0].rank; axis++)
        is_known = is_known && local->inputs[0].axes[axis].extent >= 0;
    for (uint32_t i = 0; !is_known && i < local->factor_count; i++)
        sp_local_refuse(local, (uint8_t)i, "positions count through all axes, and the extent of one is not known");
}

#define MOST_POSITIONS (INT64_C(1) << 52) /* a double holds them */

static enum sp_status pool_with_positions(struct sp_local *local, const struct part *part)
{
    struct sp_local_attribute attributes[6] = {SP_INT_ATTR("storage_order", 0)};
    struct sp_piece *outputs[2] = {NULL, NULL};
    struct sp_local_span span = {.share = 1};
    span.factors = sp_local_partial_factors(local, 0, &span.factor_count);
    refuse_uncounted(local);
    struct sp_piece *x = read_input(local, part);
    if (x == NULL)
        return sp_local_status(local);
    run(local, part, x, 1, attributes, outputs);
    struct sp_piece *y = own_places(local, part, outputs[0]);
    struct sp_piece *places = whole_positions(local, part, x, own_places(local, part, outputs[1]));
    if (span.factor_count > 0) {
        struct sp_piece *most = sp_local_all_reduce(local, y, SP_COMBINE_MAX, span.factor_count, span.factors);
        struct sp_piece *is_beaten = sp_local_compare(local, "Less", y, most);
        places = sp_local_candidates(local, places, is_beaten, MOST_POSITIONS, false);
        places = sp_local_first_of_all(local, places, MOST_POSITIONS, false, &span);
        y = most;
    }
    if (sp_node_int(local->node, "storage_order", 0) != 0)
        places = column_major(local, places);
    if (local->outputs[0].value != NULL)
        sp_local_output(local, 0, y);
    sp_local_output(local, 1, places);
    return sp_local_status(local);
}

enum sp_status sp_local_max_pool(struct sp_local *local)
{
    struct sp_local_attribute attributes[6];
    struct sp_piece *y;
    struct part part;
    uint32_t count;
    if (!read_part(local, &part))
        return sp_local_status(local);
    if (local->output_count > 1 && local->outputs[1].value != NULL)
        return pool_with_positions(local, &part);
    struct sp_piece *outputs[2];
    run(local, &part, read_input(local, &part), 0, attributes, outputs);
    y = own_places(local, &part, outputs[0]);
    const uint8_t *taps = sp_local_partial_factors(local, 0, &count);
    sp_local_output_partial(local, 0, y, SP_COMBINE_MAX, count, taps);
    return sp_local_status(local);
}

/* ---- global pools ----------------------------------------------------------------------------------------------- */

enum sp_status sp_local_global_average_pool(struct sp_local *local)
{
    struct sp_local_span span = sp_local_reductions(local, 0);
    if (span.factor_count == 0)
        return sp_local_default(local);
    struct sp_piece *y = weighted(local, sp_local_same(local, 0, NULL, 0, NULL), span.share);
    sp_local_output_partial(local, 0, y, SP_COMBINE_SUM, span.factor_count, span.factors);
    return sp_local_status(local);
}

enum sp_status sp_local_global_lp_pool(struct sp_local *local)
{
    struct sp_local_span span = sp_local_reductions(local, 0);
    if (span.factor_count == 0)
        return sp_local_default(local);
    struct sp_piece *y = sp_local_same(local, 0, NULL, 0, NULL);
    sp_local_output(local, 0, join_norms(local, y, span.factor_count, span.factors));
    return sp_local_status(local);
}
