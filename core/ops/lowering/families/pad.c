/*
 * Pad and CenterCropPad on shards: a device asks for what its part of the result covers of the input, and pads the rest
 * itself. Where elements come from other places (edge, reflect, wrap), or the part is several ranges, it asks for those
 * that it needs and picks them.
 */
#include <string.h>

#include "base/limits.h"
#include "ops/families/tensor/pads.h"
#include "ops/lowering/functions.h"
#include "ops/lowering/internal.h"
#include "ops/lowering/parts.h"
#include "ops/lowering/places.h"

/* What a device does along each axis that is padded and cut. */
struct work {
    const char *mode;
    bool is_cut[SP_MAX_RANK];                    /* padded and cut: done here */
    int64_t low[SP_MAX_RANK], high[SP_MAX_RANK]; /* to add to what was asked for */
    int64_t skip[SP_MAX_RANK];                   /* then, what to drop before the part: a part of padding alone */
    struct sp_piece *picks[SP_MAX_RANK];         /* or: places to gather */
    struct sp_piece *masks[SP_MAX_RANK];         /* and those of them that are not added; NULL: all */
    struct sp_axis_ranges ask[SP_MAX_RANK];
};

/* One range of a constant pad: the elements of the input that it covers, or one that goes again. */
static void cover(struct sp_lowering *lower, struct work *work, uint32_t axis, int64_t low, int64_t extent)
{
    const struct sp_range part = lower->outputs[0].axes[axis].ranges.ranges[0];
    struct sp_range *ask = SP_LOWER_ARRAY(lower, 1, struct sp_range);
    int64_t begin = part.start - low, end = part.limit - low; /* in the input, and around it */
    if (ask == NULL)
        return;
    ask->start = begin < 0 ? 0 : begin > extent - 1 ? extent - 1 : begin;
    ask->limit = end > extent ? extent : end < ask->start + 1 ? ask->start + 1 : end;
    work->low[axis] = begin < ask->start ? ask->start - begin : 0;
    work->high[axis] = end > ask->limit ? end - ask->limit : 0;
    work->skip[axis] = begin > ask->start ? begin - ask->start : 0;
    work->ask[axis] = (struct sp_axis_ranges){1, ask};
}

/* Any other: a list of places. */
static void pick(struct sp_lowering *lower, struct work *work, uint32_t axis, int64_t low, int64_t extent)
{
    const struct sp_lower_axis *to = &lower->outputs[0].axes[axis];
    uint8_t factor = sp_lower_output_factor(lower, 0, axis);
    if (!sp_lower_may_list(lower, factor, to->size))
        return;
    int64_t *list = SP_LOWER_ARRAY(lower, (size_t)to->size, int64_t), next = 0;
    int64_t *places = SP_LOWER_ARRAY(lower, (size_t)to->size, int64_t), dims[SP_MAX_RANK];
    unsigned char *mask = SP_LOWER_ARRAY(lower, (size_t)to->size, unsigned char);
    bool has_added = false;
    if (list == NULL || places == NULL || mask == NULL)
        return;
    for (uint32_t i = 0; i < to->ranges.count; i++) {
        for (int64_t at = to->ranges.ranges[i].start; at < to->ranges.ranges[i].limit; at++) {
            list[next] = sp_pad_source(work->mode, at - low, extent);
            mask[next] = list[next] >= 0;
            has_added = has_added || list[next] < 0;
            next++;
        }
    }
    if (!sp_lower_needed(lower, factor, extent, next, list, &work->ask[axis], places))
        return;
    work->picks[axis] = sp_lower_ints(lower, (uint32_t)next, places);
    uint32_t rank = lower->outputs[0].rank - axis;
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = i == 0 ? next : 1;
    if (has_added)
        work->masks[axis] = sp_lower_tensor(lower, SP_DTYPE_BOOL, rank, dims, mask, (size_t)next);
}

/* A padded axis that is cut; `low` is what the whole has before it. */
static void pad_axis(struct sp_lowering *lower, struct work *work, uint32_t axis, struct sp_dim low)
{
    int64_t extent = lower->inputs[0].axes[axis].extent;
    work->is_cut[axis] = true;
    if (!sp_dim_is_known(low) || extent < 1) {
        char subject[300];
        sp_lower_any_whole(lower,
                           "%s pads an axis whose extent is not known or 0, so it is computed whole on every "
                           "device.",
                           sp_op_subject(lower->node, subject, sizeof subject));
        return;
    }
    bool is_constant = strcmp(work->mode, "constant") == 0;
    if (is_constant && lower->outputs[0].axes[axis].ranges.count == 1)
        cover(lower, work, axis, low.value, extent);
    else
        pick(lower, work, axis, low.value, extent);
}

static bool is_padded(const struct work *work, uint32_t rank)
{
    for (uint32_t axis = 0; axis < rank; axis++) {
        if (work->low[axis] != 0 || work->high[axis] != 0)
            return true;
    }
    return false;
}

/* Drops what stood for a part of padding alone. */
static struct sp_piece *drop(struct sp_lowering *lower, struct sp_piece *x, const struct work *work)
{
    for (uint32_t axis = 0; axis < lower->outputs[0].rank; axis++) {
        int64_t size = lower->outputs[0].axes[axis].size;
        if (!work->is_cut[axis] || work->picks[axis] != NULL)
            continue;
        x = sp_lower_slice(lower, x, axis, work->skip[axis], work->skip[axis] + size);
    }
    return x;
}

/* Picks along the axes that have a list; what is added gets `fill`. */
static struct sp_piece *gather(struct sp_lowering *lower, struct sp_piece *x, const struct work *work,
                               struct sp_piece *fill)
{
    for (uint32_t axis = 0; axis < lower->outputs[0].rank; axis++) {
        if (work->picks[axis] == NULL)
            continue;
        x = sp_lower_gather(lower, x, work->picks[axis], axis);
        if (work->masks[axis] != NULL)
            x = sp_lower_where(lower, work->masks[axis], x, fill);
    }
    return x;
}

/* The extents of a piece with what is padded on the axes that are cut; others of them are the result's. */
static void set_padded_dims(struct sp_lowering *lower, struct sp_piece *y, const struct sp_piece *x,
                            const struct work *work)
{
    int64_t dims[SP_MAX_RANK];
    if (y == NULL || x == NULL || x->dims == NULL)
        return;
    for (uint32_t axis = 0; axis < x->rank; axis++) {
        dims[axis] = lower->outputs[0].axes[axis].size;
        if (work->is_cut[axis])
            dims[axis] = x->dims[axis] + work->low[axis] + work->high[axis];
    }
    sp_piece_set_dims(lower, y, x->rank, dims);
}

/* ---- Pad ------------------------------------------------------------------------------------------------------ */

/* The axes that the pads are for, where the node names them. */
static struct sp_piece *padded_axes(struct sp_lowering *lower, const struct sp_pads *pads)
{
    int64_t axes[SP_MAX_RANK];
    if (lower->input_count < 4 || lower->inputs[3].value == NULL)
        return NULL;
    for (uint32_t i = 0; i < pads->count; i++)
        axes[i] = pads->axes[i];
    return sp_lower_ints(lower, pads->count, axes);
}

/* The node's own operator on the piece: with its pads on the axes that are not cut. */
static struct sp_piece *pad_rest(struct sp_lowering *lower, struct sp_piece *x, const struct sp_pads *pads,
                                 const struct work *work)
{
    int64_t values[2 * SP_MAX_RANK];
    bool is_set[2 * SP_MAX_RANK];
    for (uint32_t i = 0; i < pads->count; i++) {
        uint32_t axis = pads->axes[i];
        is_set[i] = is_set[pads->count + i] = work->is_cut[axis];
        values[i] = work->low[axis];
        values[pads->count + i] = work->high[axis];
    }
    struct sp_piece *y = NULL;
    if (lower->version >= 11) {
        struct sp_piece *const inputs[] = {x, sp_lower_patched(lower, 1, 2 * pads->count, is_set, values),
                                           sp_lower_input(lower, 2), padded_axes(lower, pads)};
        y = sp_lower_same(lower, lower->input_count, inputs, 0, NULL);
    } else {
        for (uint32_t i = 0; i < pads->count; i++) {
            uint32_t axis = pads->axes[i];
            values[i] = work->is_cut[axis] ? work->low[axis] : pads->low[axis].value;
            values[pads->count + i] = work->is_cut[axis] ? work->high[axis] : pads->high[axis].value;
        }
        const struct sp_lower_attribute attribute =
            SP_INTS_ATTR(lower->version < 2 ? "paddings" : "pads", 2 * pads->count, values);
        y = sp_lower_same(lower, 1, &x, 1, &attribute);
    }
    set_padded_dims(lower, y, x, work);
    return y;
}

static struct sp_piece *fill_value(struct sp_lowering *lower)
{
    enum sp_dtype dtype = lower->inputs[0].value->type.dtype;
    if (lower->version < 11)
        return sp_lower_scalar(lower, dtype, sp_node_float(lower->node, "value", 0));
    struct sp_piece *fill = sp_lower_input(lower, 2);
    return fill != NULL ? fill : sp_lower_int(lower, dtype, 0);
}

enum sp_status sp_lower_node_pad(struct sp_lowering *lower)
{
    struct sp_op_context context = sp_lower_context(lower);
    uint32_t rank = lower->inputs[0].rank;
    struct work work = {.mode = sp_node_string(lower->node, "mode", "constant")};
    struct sp_pads pads;
    bool has_rest = false, has_fill = false;
    enum sp_status status = sp_pad_amounts(&context, rank, &pads);
    sp_lower_failed(lower, status);
    if (status != SP_OK)
        return sp_lower_status(lower);
    for (uint32_t axis = 0; axis < rank; axis++) {
        bool is_plain = sp_dim_is(pads.low[axis], 0) && sp_dim_is(pads.high[axis], 0);
        work.ask[axis] = lower->inputs[0].axes[axis].ranges;
        if (lower->outputs[0].axes[axis].is_cut && !is_plain)
            pad_axis(lower, &work, axis, pads.low[axis]);
        else
            has_rest = has_rest || !is_plain;
        has_fill = has_fill || work.masks[axis] != NULL;
    }
    if (!sp_lower_is_fine(lower))
        return sp_lower_status(lower);
    struct sp_piece *x = sp_lower_input_axes(lower, 0, work.ask);
    if (lower->version >= 11)
        (void)sp_lower_input(lower, 2); /* by all devices, also by those that have nothing to fill */
    x = gather(lower, x, &work, has_fill ? fill_value(lower) : NULL);
    if (has_rest || is_padded(&work, rank))
        x = pad_rest(lower, x, &pads, &work);
    sp_lower_output(lower, 0, drop(lower, x, &work));
    return sp_lower_status(lower);
}

/* ---- CenterCropPad -------------------------------------------------------------------------------------------- */

/* The node's own operator, for which the axes that are cut have their extents already. */
static struct sp_piece *center_rest(struct sp_lowering *lower, struct sp_piece *x)
{
    int64_t values[SP_MAX_RANK];
    bool is_set[SP_MAX_RANK];
    uint32_t given_count = 0, rank = lower->outputs[0].rank;
    const int64_t *given = sp_node_ints(lower->node, "axes", &given_count);
    uint32_t count = given != NULL ? given_count : rank;
    for (uint32_t i = 0; i < count && i < rank; i++) {
        int64_t axis = given == NULL ? i : given[i] < 0 ? given[i] + rank : given[i];
        is_set[i] = lower->outputs[0].axes[axis].is_cut;
        values[i] = lower->outputs[0].axes[axis].size;
    }
    struct sp_piece *const inputs[] = {x, sp_lower_patched(lower, 1, count, is_set, values)};
    return sp_lower_same(lower, 2, inputs, 0, NULL);
}

static struct sp_piece *pad_zeros(struct sp_lowering *lower, struct sp_piece *x, const struct work *work)
{
    uint32_t rank = lower->outputs[0].rank;
    if (!is_padded(work, rank) || x == NULL)
        return x;
    return sp_lower_pad(lower, x, rank, work->low, work->high, 0);
}

enum sp_status sp_lower_node_center_crop_pad(struct sp_lowering *lower)
{
    uint32_t rank = lower->inputs[0].rank;
    struct work work = {.mode = "constant"};
    bool has_rest = false, has_fill = false;
    for (uint32_t axis = 0; axis < rank; axis++) {
        const struct sp_lower_axis *from = &lower->inputs[0].axes[axis], *to = &lower->outputs[0].axes[axis];
        bool is_plain =
            sp_dim_equal(lower->inputs[0].value->type.shape.dims[axis], lower->outputs[0].value->type.shape.dims[axis]);
        work.ask[axis] = from->ranges;
        if (to->is_cut && !is_plain)
            pad_axis(lower, &work, axis,
                     from->extent < 0 ? sp_dim_unknown() : sp_dim_known(sp_center_low(from->extent, to->extent)));
        else
            has_rest = has_rest || !is_plain;
        has_fill = has_fill || work.masks[axis] != NULL;
    }
    if (!sp_lower_is_fine(lower))
        return sp_lower_status(lower);
    struct sp_piece *x = sp_lower_input_axes(lower, 0, work.ask);
    x = gather(lower, x, &work, has_fill ? sp_lower_int(lower, lower->inputs[0].value->type.dtype, 0) : NULL);
    x = drop(lower, pad_zeros(lower, x, &work), &work);
    if (has_rest)
        x = center_rest(lower, x);
    sp_lower_output(lower, 0, x);
    return sp_lower_status(lower);
}
