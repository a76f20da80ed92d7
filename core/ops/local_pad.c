/*
 * Pad and CenterCropPad on shards: a device asks for what its part of the result covers of the input, and pads the rest
 * itself. Where elements come from other places (edge, reflect, wrap), or the part is several ranges, it asks for those
 * that it needs and picks them.
 */
#include <string.h>

#include "base/limits.h"
#include "ops/local_functions.h"
#include "ops/local_internal.h"
#include "ops/local_parts.h"
#include "ops/local_places.h"
#include "ops/pads.h"

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
static void cover(struct sp_local *local, struct work *work, uint32_t axis, int64_t low, int64_t extent)
{
    const struct sp_range part = local->outputs[0].axes[axis].ranges.ranges[0];
    struct sp_range *ask = SP_LOCAL_ARRAY(local, 1, struct sp_range);
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
static void pick(struct sp_local *local, struct work *work, uint32_t axis, int64_t low, int64_t extent)
{
    const struct sp_local_axis *to = &local->outputs[0].axes[axis];
    uint8_t factor = sp_local_output_factor(local, 0, axis);
    if (!sp_local_may_list(local, factor, to->size))
        return;
    int64_t *list = SP_LOCAL_ARRAY(local, (size_t)to->size, int64_t), next = 0;
    int64_t *places = SP_LOCAL_ARRAY(local, (size_t)to->size, int64_t), dims[SP_MAX_RANK];
    unsigned char *mask = SP_LOCAL_ARRAY(local, (size_t)to->size, unsigned char);
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
    if (!sp_local_needed(local, factor, extent, next, list, &work->ask[axis], places))
        return;
    work->picks[axis] = sp_local_ints(local, (uint32_t)next, places);
    uint32_t rank = local->outputs[0].rank - axis;
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = i == 0 ? next : 1;
    if (has_added)
        work->masks[axis] = sp_local_tensor(local, SP_DTYPE_BOOL, rank, dims, mask, (size_t)next);
}

/* A padded axis that is cut; `low` is what the whole has before it. */
static void pad_axis(struct sp_local *local, struct work *work, uint32_t axis, struct sp_dim low)
{
    int64_t extent = local->inputs[0].axes[axis].extent;
    work->is_cut[axis] = true;
    if (!sp_dim_is_known(low) || extent < 1) {
        char subject[300];
        sp_local_any_whole(local,
                           "%s pads an axis whose extent is not known or 0, so it is computed whole on every "
                           "device.",
                           sp_op_subject(local->node, subject, sizeof(subject)));
        return;
    }
    bool is_constant = strcmp(work->mode, "constant") == 0;
    if (is_constant && local->outputs[0].axes[axis].ranges.count == 1)
        cover(local, work, axis, low.value, extent);
    else
        pick(local, work, axis, low.value, extent);
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
static struct sp_piece *drop(struct sp_local *local, struct sp_piece *x, const struct work *work)
{
    for (uint32_t axis = 0; axis < local->outputs[0].rank; axis++) {
        int64_t size = local->outputs[0].axes[axis].size;
        if (!work->is_cut[axis] || work->picks[axis] != NULL)
            continue;
        x = sp_local_slice(local, x, axis, work->skip[axis], work->skip[axis] + size);
    }
    return x;
}

/* Picks along the axes that have a list; what is added gets `fill`. */
static struct sp_piece *gather(struct sp_local *local, struct sp_piece *x, const struct work *work,
                               struct sp_piece *fill)
{
    for (uint32_t axis = 0; axis < local->outputs[0].rank; axis++) {
        if (work->picks[axis] == NULL)
            continue;
        x = sp_local_gather(local, x, work->picks[axis], axis);
        if (work->masks[axis] != NULL)
            x = sp_local_where(local, work->masks[axis], x, fill);
    }
    return x;
}

/* The extents of a piece with what is padded on the axes that are cut; others of them are the result's. */
static void set_padded_dims(struct sp_local *local, struct sp_piece *y, const struct sp_piece *x,
                            const struct work *work)
{
    int64_t dims[SP_MAX_RANK];
    if (y == NULL || x == NULL || x->dims == NULL)
        return;
    for (uint32_t axis = 0; axis < x->rank; axis++) {
        dims[axis] = local->outputs[0].axes[axis].size;
        if (work->is_cut[axis])
            dims[axis] = x->dims[axis] + work->low[axis] + work->high[axis];
    }
    sp_piece_set_dims(local, y, x->rank, dims);
}

/* ---- Pad ------------------------------------------------------------------------------------------------------ */

/* The axes that the pads are for, where the node names them. */
static struct sp_piece *padded_axes(struct sp_local *local, const struct sp_pads *pads)
{
    int64_t axes[SP_MAX_RANK];
    if (local->input_count < 4 || local->inputs[3].value == NULL)
        return NULL;
    for (uint32_t i = 0; i < pads->count; i++)
        axes[i] = pads->axes[i];
    return sp_local_ints(local, pads->count, axes);
}

/* The node's own operator on the piece: with its pads on the axes that are not cut. */
static struct sp_piece *pad_rest(struct sp_local *local, struct sp_piece *x, const struct sp_pads *pads,
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
    if (local->version >= 11) {
        struct sp_piece *const inputs[] = {x, sp_local_patched(local, 1, 2 * pads->count, is_set, values),
                                           sp_local_input(local, 2), padded_axes(local, pads)};
        y = sp_local_same(local, local->input_count, inputs, 0, NULL);
    } else {
        for (uint32_t i = 0; i < pads->count; i++) {
            uint32_t axis = pads->axes[i];
            values[i] = work->is_cut[axis] ? work->low[axis] : pads->low[axis].value;
            values[pads->count + i] = work->is_cut[axis] ? work->high[axis] : pads->high[axis].value;
        }
        const struct sp_local_attribute attribute =
            SP_INTS_ATTR(local->version < 2 ? "paddings" : "pads", 2 * pads->count, values);
        y = sp_local_same(local, 1, &x, 1, &attribute);
    }
    set_padded_dims(local, y, x, work);
    return y;
}

static struct sp_piece *fill_value(struct sp_local *local)
{
    enum sp_dtype dtype = local->inputs[0].value->type.dtype;
    if (local->version < 11)
        return sp_local_scalar(local, dtype, sp_node_float(local->node, "value", 0));
    struct sp_piece *fill = sp_local_input(local, 2);
    return fill != NULL ? fill : sp_local_int(local, dtype, 0);
}

enum sp_status sp_local_node_pad(struct sp_local *local)
{
    struct sp_op_context context = sp_local_context(local);
    uint32_t rank = local->inputs[0].rank;
    struct work work = {.mode = sp_node_string(local->node, "mode", "constant")};
    struct sp_pads pads;
    bool has_rest = false, has_fill = false;
    enum sp_status status = sp_pad_amounts(&context, rank, &pads);
    sp_local_failed(local, status);
    if (status != SP_OK)
        return sp_local_status(local);
    for (uint32_t axis = 0; axis < rank; axis++) {
        bool is_plain = sp_dim_is(pads.low[axis], 0) && sp_dim_is(pads.high[axis], 0);
        work.ask[axis] = local->inputs[0].axes[axis].ranges;
        if (local->outputs[0].axes[axis].is_cut && !is_plain)
            pad_axis(local, &work, axis, pads.low[axis]);
        else
            has_rest = has_rest || !is_plain;
        has_fill = has_fill || work.masks[axis] != NULL;
    }
    if (!sp_local_is_fine(local))
        return sp_local_status(local);
    struct sp_piece *x = sp_local_input_axes(local, 0, work.ask);
    if (local->version >= 11)
        (void)sp_local_input(local, 2); /* by all devices, also by those that have nothing to fill */
    x = gather(local, x, &work, has_fill ? fill_value(local) : NULL);
    if (has_rest || is_padded(&work, rank))
        x = pad_rest(local, x, &pads, &work);
    sp_local_output(local, 0, drop(local, x, &work));
    return sp_local_status(local);
}

/* ---- CenterCropPad -------------------------------------------------------------------------------------------- */

/* The node's own operator, for which the axes that are cut have their extents already. */
static struct sp_piece *center_rest(struct sp_local *local, struct sp_piece *x)
{
    int64_t values[SP_MAX_RANK];
    bool is_set[SP_MAX_RANK];
    uint32_t given_count = 0, rank = local->outputs[0].rank;
    const int64_t *given = sp_node_ints(local->node, "axes", &given_count);
    uint32_t count = given != NULL ? given_count : rank;
    for (uint32_t i = 0; i < count && i < rank; i++) {
        int64_t axis = given == NULL ? i : given[i] < 0 ? given[i] + rank : given[i];
        is_set[i] = local->outputs[0].axes[axis].is_cut;
        values[i] = local->outputs[0].axes[axis].size;
    }
    struct sp_piece *const inputs[] = {x, sp_local_patched(local, 1, count, is_set, values)};
    return sp_local_same(local, 2, inputs, 0, NULL);
}

static struct sp_piece *pad_zeros(struct sp_local *local, struct sp_piece *x, const struct work *work)
{
    uint32_t rank = local->outputs[0].rank;
    if (!is_padded(work, rank) || x == NULL)
        return x;
    return sp_local_pad(local, x, rank, work->low, work->high, 0);
}

enum sp_status sp_local_node_center_crop_pad(struct sp_local *local)
{
    uint32_t rank = local->inputs[0].rank;
    struct work work = {.mode = "constant"};
    bool has_rest = false, has_fill = false;
    for (uint32_t axis = 0; axis < rank; axis++) {
        const struct sp_local_axis *from = &local->inputs[0].axes[axis], *to = &local->outputs[0].axes[axis];
        bool is_plain =
            sp_dim_equal(local->inputs[0].value->type.shape.dims[axis], local->outputs[0].value->type.shape.dims[axis]);
        work.ask[axis] = from->ranges;
        if (to->is_cut && !is_plain)
            pad_axis(local, &work, axis,
                     from->extent < 0 ? sp_dim_unknown() : sp_dim_known(sp_center_low(from->extent, to->extent)));
        else
            has_rest = has_rest || !is_plain;
        has_fill = has_fill || work.masks[axis] != NULL;
    }
    if (!sp_local_is_fine(local))
        return sp_local_status(local);
    struct sp_piece *x = sp_local_input_axes(local, 0, work.ask);
    x = gather(local, x, &work, has_fill ? sp_local_int(local, local->inputs[0].value->type.dtype, 0) : NULL);
    x = drop(local, pad_zeros(local, x, &work), &work);
    if (has_rest)
        x = center_rest(local, x);
    sp_local_output(local, 0, x);
    return sp_local_status(local);
}
