/*
 * Operators that move numbers: views, slices, concatenations, transposes, repetitions.
 */
#include <string.h>

#include "base/arith.h"
#include "base/limits.h"
#include "verify/operators/evaluate.h"

/* ---- operators -------------------------------------------------------------------------------------------------- */

static enum sp_status need(struct sp_call *call, const struct sp_numbers **ret)
{
    *ret = sp_call_in(call, 0);
    return *ret != NULL ? SP_OK : sp_call_refuse(call, "an operand is missing");
}

static enum sp_status evaluate_reshape(struct sp_call *call)
{
    const struct sp_numbers *x;
    const int64_t *shape;
    int64_t extents[SP_MAX_RANK], known = 1, total = 1;
    uint32_t rank;
    enum sp_status status = need(call, &x);
    if (status == SP_OK)
        status = sp_call_attribute_or_ints(call, "shape", 1, &rank, &shape);
    if (status != SP_OK || shape == NULL || rank > SP_MAX_RANK)
        return status != SP_OK ? status : sp_call_refuse(call, "the shape is missing");
    const bool has_zeros = sp_node_int(call->node, "allowzero", 0) != 0;
    for (uint32_t i = 0; i < x->rank; i++)
        total *= x->axes[i].extent;
    for (uint32_t i = 0; i < rank; i++) {
        extents[i] = shape[i] == 0 && !has_zeros && i < x->rank ? x->axes[i].extent : shape[i];
        if (extents[i] >= 0 && !sp_mul_i64(known, extents[i], &known))
            return sp_call_refuse(call, "the shape is too large");
    }
    for (uint32_t i = 0; i < rank; i++) {
        if (extents[i] < 0)
            extents[i] = known > 0 ? total / known : 0;
    }
    return sp_numbers_reshape(call->arena, x, rank, extents, &call->out[0], call->err);
}

static enum sp_status evaluate_flatten(struct sp_call *call)
{
    const struct sp_numbers *x;
    int64_t extents[2] = {1, 1}, axis = sp_node_int(call->node, "axis", 1);
    enum sp_status status = need(call, &x);
    if (status != SP_OK)
        return status;
    axis = axis < 0 ? axis + x->rank : axis;
    for (uint32_t i = 0; i < x->rank; i++)
        extents[i >= axis] *= x->axes[i].extent;
    return sp_numbers_reshape(call->arena, x, 2, extents, &call->out[0], call->err);
}

/* Squeeze and Unsqueeze; without axes, Squeeze takes all of one element. */
static enum sp_status evaluate_squeeze(struct sp_call *call)
{
    const struct sp_numbers *x;
    const bool adds = call->node->op_type[0] == 'U';
    struct sp_index_axis axes[SP_MAX_RANK];
    const int64_t *list;
    uint32_t count, rank = 0, from = 0, axis = 0;
    uint64_t mask = 0;
    enum sp_status status = need(call, &x);
    if (status == SP_OK)
        status = sp_call_attribute_or_ints(call, "axes", 1, &count, &list);
    for (uint32_t i = 0; status == SP_OK && list != NULL && i < count; i++) {
        status = sp_call_axis(call, list[i], x->rank + (adds ? count : 0), &axis);
        mask |= UINT64_C(1) << axis;
    }
    for (uint32_t i = 0; status == SP_OK && list == NULL && i < x->rank; i++)
        mask |= (uint64_t)(x->axes[i].extent == 1) << i;
    if (status != SP_OK)
        return status;
    const uint32_t all = adds ? x->rank + (uint32_t)__builtin_popcountll(mask) : x->rank;
    for (uint32_t i = 0; i < all && i < SP_MAX_RANK; i++) {
        const bool is_named = (mask >> i & 1) != 0;
        if (!adds && is_named && x->axes[i].extent != 1)
            return sp_call_refuse(call, "an axis that it drops has more than one element");
        if (adds)
            axes[rank++] = is_named ? sp_index_all(1) : x->axes[from++];
        else if (!is_named)
            axes[rank++] = x->axes[i];
    }
    return sp_numbers_view(call->arena, x, rank, axes, &call->out[0], call->err);
}

static enum sp_status evaluate_transpose(struct sp_call *call)
{
    const struct sp_numbers *x;
    uint32_t count, perm[SP_MAX_RANK];
    const int64_t *list = sp_node_ints(call->node, "perm", &count);
    enum sp_status status = need(call, &x);
    if (status == SP_OK && list != NULL && count != x->rank)
        return sp_call_refuse(call, "its permutation is of another rank");
    for (uint32_t i = 0; status == SP_OK && i < x->rank; i++) {
        perm[i] = list != NULL ? (uint32_t)list[i] : x->rank - 1 - i;
        if (perm[i] >= x->rank)
            return sp_call_refuse(call, "its permutation names an axis that is not there");
    }
    return status == SP_OK ? sp_numbers_transpose(call->arena, x, perm, &call->out[0], call->err) : status;
}

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

static enum sp_status evaluate_slice(struct sp_call *call)
{
    const struct sp_numbers *x;
    const int64_t *starts, *ends, *axes, *steps;
    uint32_t count, end_count, axis_count, step_count, axis;
    struct sp_numbers *out;
    enum sp_status status = need(call, &x);
    if (status == SP_OK)
        status = sp_call_attribute_or_ints(call, "starts", 1, &count, &starts);
    if (status == SP_OK)
        status = sp_call_attribute_or_ints(call, "ends", 2, &end_count, &ends);
    if (status == SP_OK)
        status = sp_call_attribute_or_ints(call, "axes", 3, &axis_count, &axes);
    if (status == SP_OK)
        status = sp_call_attribute_or_ints(call, "steps", 4, &step_count, &steps);
    if (status != SP_OK)
        return status;
    if (starts == NULL || ends == NULL || end_count != count || (axes != NULL && axis_count != count) ||
        (steps != NULL && step_count != count))
        return sp_call_refuse(call, "its bounds do not fit together");
    status = sp_numbers_view(call->arena, x, x->rank, x->axes, &out, call->err);
    for (uint32_t i = 0; status == SP_OK && i < count; i++) {
        const int64_t step = steps != NULL ? steps[i] : 1;
        status = sp_call_axis(call, axes != NULL ? axes[i] : i, x->rank, &axis);
        if (status != SP_OK || step == 0 || step == INT64_MIN)
            return status != SP_OK ? status : sp_call_refuse(call, "a step is 0");
        const int64_t extent = out->axes[axis].extent;
        int64_t start = starts[i] < 0 ? starts[i] + extent : starts[i];
        int64_t end = ends[i] < 0 && ends[i] > -(INT64_C(1) << 60) ? ends[i] + extent : ends[i];
        start = step > 0 ? clamp(start, 0, extent) : clamp(start, 0, extent - 1);
        end = step > 0 ? clamp(end, 0, extent) : clamp(end, -1, extent - 1);
        const int64_t length = step > 0 ? (end - start + step - 1) / step : (start - end - step - 1) / -step;
        status = sp_numbers_slice(call->arena, out, axis, (struct sp_index_run){start, step, length < 0 ? 0 : length},
                                  &out, call->err);
    }
    if (status == SP_OK)
        call->out[0] = out;
    return status;
}

static enum sp_status evaluate_split(struct sp_call *call)
{
    const struct sp_numbers *x;
    const int64_t *parts;
    uint32_t count, axis;
    int64_t start = 0;
    enum sp_status status = need(call, &x);
    if (status == SP_OK)
        status = sp_call_axis(call, sp_node_int(call->node, "axis", 0), x->rank, &axis);
    if (status == SP_OK)
        status = sp_call_attribute_or_ints(call, "split", 1, &count, &parts);
    if (status == SP_OK && parts != NULL && count != call->out_count)
        return sp_call_refuse(call, "it has another number of parts than of outputs");
    for (uint32_t i = 0; status == SP_OK && i < call->out_count; i++) {
        const int64_t extent = x->axes[axis].extent, each = (extent + call->out_count - 1) / call->out_count;
        const int64_t size = parts != NULL ? parts[i] : each < extent - start ? each : extent - start;
        if (size < 0 || size > extent - start)
            return sp_fail(call->err, SP_ERR_MODEL, "PARTS_DIFFER", "Its parts have another size than its input.");
        status =
            sp_numbers_slice(call->arena, x, axis, (struct sp_index_run){start, 1, size}, &call->out[i], call->err);
        start += size;
    }
    return status;
}

static enum sp_status evaluate_concat(struct sp_call *call)
{
    const struct sp_numbers *x;
    uint32_t axis, count = 0;
    const struct sp_numbers **parts = SP_NEW_ARRAY(call->arena, call->in_count, const struct sp_numbers *);
    if (parts == NULL)
        return sp_fail_memory(call->err);
    enum sp_status status = need(call, &x);
    if (status == SP_OK)
        status = sp_call_axis(call, sp_node_int(call->node, "axis", 0), x->rank, &axis);
    for (uint32_t i = 0; status == SP_OK && i < call->in_count; i++) {
        if (call->in[i] == NULL)
            return sp_call_refuse(call, "an operand is missing");
        parts[count++] = call->in[i];
    }
    return status == SP_OK ? sp_numbers_concat(call->arena, count, parts, axis, &call->out[0], call->err) : status;
}

/* Repeats axes of one element. */
static enum sp_status evaluate_expand(struct sp_call *call)
{
    const struct sp_numbers *x;
    const int64_t *shape;
    uint32_t count;
    struct sp_numbers *zeros;
    enum sp_status status = need(call, &x);
    if (status == SP_OK)
        status = sp_call_attribute_or_ints(call, "shape", 1, &count, &shape);
    if (status != SP_OK || shape == NULL || count > SP_MAX_RANK)
        return status != SP_OK ? status : sp_call_refuse(call, "the shape is missing");
    struct sp_index_axis axes[SP_MAX_RANK];
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_index_axis *own = i + x->rank >= count ? &x->axes[i + x->rank - count] : NULL;
        if (shape[i] < 0 || shape[i] > SP_MAX_EVALUATED_NUMBERS)
            return sp_call_refuse(call, "the shape is too large");
        axes[i] = own != NULL && own->extent == shape[i] ? *own : sp_index_all(shape[i]);
    }
    status = sp_numbers_create(call->arena, x->dtype, count, axes, &zeros, call->err);
    if (status != SP_OK)
        return status;
    zeros->is_known = true;
    status = sp_numbers_binary(call->arena, x, zeros, x->dtype,
                               sp_dtype_is_float(x->dtype) ? sp_number_add : sp_integer_add, &call->out[0], call->err);
    return status;
}

static enum sp_status evaluate_tile(struct sp_call *call)
{
    const struct sp_numbers *x, **parts;
    const int64_t *repeats;
    uint32_t count;
    enum sp_status status = need(call, &x);
    if (status == SP_OK)
        status = sp_call_attribute_or_ints(call, "repeats", 1, &count, &repeats);
    if (status != SP_OK || repeats == NULL || count != x->rank)
        return status != SP_OK ? status : sp_call_refuse(call, "the repetitions are missing");
    for (uint32_t axis = 0; status == SP_OK && axis < count; axis++) {
        if (repeats[axis] < 1 || repeats[axis] > 1 << 20)
            return sp_call_refuse(call, "it repeats an axis too often");
        parts = SP_NEW_ARRAY(call->arena, (size_t)repeats[axis], const struct sp_numbers *);
        if (parts == NULL)
            return sp_fail_memory(call->err);
        for (int64_t i = 0; i < repeats[axis]; i++)
            parts[i] = x;
        struct sp_numbers *next = NULL;
        status = sp_numbers_concat(call->arena, (uint32_t)repeats[axis], parts, axis, &next, call->err);
        x = next;
    }
    return status == SP_OK ? sp_numbers_view(call->arena, x, x->rank, x->axes, &call->out[0], call->err) : status;
}

/* Items of constant value around a tensor, or of the tensor itself. */
struct padding {
    int64_t low, high;
    const char *mode;
    struct sp_number fill;
};

static enum sp_status pad_axis(struct sp_call *call, const struct sp_numbers *x, uint32_t axis, struct padding padding,
                               struct sp_numbers **ret)
{
    const int64_t low = padding.low, high = padding.high;
    const char *mode = padding.mode;
    const struct sp_index_axis *own = &x->axes[axis];
    const int64_t extent = own->extent + low + high;
    if (extent < 0 || extent > SP_MAX_EVALUATED_NUMBERS || (own->extent == 0 && mode[0] != 'c'))
        return sp_call_refuse(call, "it pads by too much");
    uint32_t *from = SP_NEW_ARRAY(call->arena, (size_t)extent, uint32_t);
    int64_t *at = SP_NEW_ARRAY(call->arena, (size_t)extent, int64_t);
    bool *is_fill = SP_NEW_ARRAY(call->arena, (size_t)extent, bool);
    if (from == NULL || at == NULL || is_fill == NULL)
        return sp_fail_memory(call->err);
    struct sp_index_axis axes = {extent, 0, at};
    bool has_fill = false;
    for (int64_t i = 0; i < extent; i++) {
        int64_t index = i - low;
        const bool is_outside = index < 0 || index >= own->extent;
        if (is_outside && mode[0] == 'e')
            index = clamp(index, 0, own->extent - 1);
        else if (is_outside && mode[0] == 'r' && own->extent > 1)
            index = index < 0 ? -index : 2 * (own->extent - 1) - index;
        else if (is_outside && mode[0] == 'w')
            index = (index % own->extent + own->extent) % own->extent;
        const int64_t item = is_outside && mode[0] == 'c' ? 0 : sp_index_find(own, index);
        if (item < 0)
            continue;
        is_fill[axes.count] = is_outside && mode[0] == 'c';
        has_fill = has_fill || is_fill[axes.count];
        from[axes.count] = own->count > 0 ? (uint32_t)item : 0;
        at[axes.count++] = i;
    }
    if (axes.count == extent)
        axes.at = NULL;
    if (own->count == 0)
        return sp_call_refuse(call, "it pads an empty axis");
    enum sp_status status = sp_numbers_take(call->arena, x, axis, &axes, from, ret, call->err);
    if (status != SP_OK || !has_fill)
        return status;
    uint64_t inner = 1;
    for (uint32_t i = axis + 1; i < x->rank; i++)
        inner *= x->axes[i].count;
    for (uint64_t i = 0; i < (*ret)->count; i++) {
        if (is_fill[i / inner % axes.count])
            (*ret)->items[i] = padding.fill;
    }
    return SP_OK;
}

static enum sp_status evaluate_pad(struct sp_call *call)
{
    const struct sp_numbers *x, *value = sp_call_in(call, 2);
    const char *mode = sp_node_string(call->node, "mode", "constant");
    const int64_t *pads, *axes;
    uint32_t count, axis_count, axis;
    struct sp_number fill = sp_number_of_real(sp_node_float(call->node, "value", 0));
    struct sp_numbers *out;
    enum sp_status status = need(call, &x);
    if (status == SP_OK)
        status = sp_call_attribute_or_ints(call, "pads", 1, &count, &pads);
    if (status == SP_OK)
        status = sp_call_attribute_or_ints(call, "axes", 3, &axis_count, &axes);
    if (status != SP_OK || pads == NULL || count % 2 != 0 || count / 2 > SP_MAX_RANK ||
        (axes != NULL && axis_count != count / 2) || (axes == NULL && count / 2 != x->rank))
        return status != SP_OK ? status : sp_call_refuse(call, "its pads do not fit its input");
    if (value != NULL && value->count == 1)
        fill = value->items[0];
    else if (!sp_dtype_is_float(x->dtype))
        fill = sp_number_of_int((int64_t)fill.real);
    status = sp_numbers_view(call->arena, x, x->rank, x->axes, &out, call->err);
    for (uint32_t i = 0; status == SP_OK && i < count / 2; i++) {
        status = sp_call_axis(call, axes != NULL ? axes[i] : i, x->rank, &axis);
        const int64_t low = pads[i], high = pads[count / 2 + i];
        if (status != SP_OK || (low == 0 && high == 0))
            continue;
        if (llabs(low) > SP_MAX_EVALUATED_NUMBERS || llabs(high) > SP_MAX_EVALUATED_NUMBERS)
            return sp_call_refuse(call, "it pads by too much");
        status = pad_axis(call, out, axis, (struct padding){low, high, mode, fill}, &out);
    }
    if (status == SP_OK)
        call->out[0] = out;
    return status;
}

/* DepthToSpace and SpaceToDepth: a reshape, a transpose, a reshape. */
static enum sp_status evaluate_depth(struct sp_call *call)
{
    const struct sp_numbers *x;
    struct sp_numbers *y;
    const int64_t block = sp_node_int(call->node, "blocksize", 1);
    const bool to_space = call->node->op_type[0] == 'D',
               is_crd = strcmp(sp_node_string(call->node, "mode", "DCR"), "CRD") == 0;
    static const uint32_t dcr[] = {0, 3, 4, 1, 5, 2}, crd[] = {0, 1, 4, 2, 5, 3}, back[] = {0, 3, 5, 1, 2, 4};
    enum sp_status status = need(call, &x);
    if (status != SP_OK || x->rank != 4 || block < 1 || block > 1 << 16)
        return status != SP_OK ? status : sp_call_refuse(call, "its input has no four axes");
    const int64_t n = x->axes[0].extent, c = x->axes[1].extent, h = x->axes[2].extent, w = x->axes[3].extent,
                  rest = c / (block * block);
    const int64_t open[] = {n, is_crd ? rest : block, block, is_crd ? block : rest, h, w},
                  closed[] = {n, rest, h * block, w * block};
    const int64_t open_back[] = {n, c, h / block, block, w / block, block},
                  closed_back[] = {n, c * block * block, h / block, w / block};
    status = sp_numbers_reshape(call->arena, x, 6, to_space ? open : open_back, &y, call->err);
    if (status == SP_OK)
        status = sp_numbers_transpose(call->arena, y, !to_space ? back : is_crd ? crd : dcr, &y, call->err);
    return status == SP_OK
               ? sp_numbers_reshape(call->arena, y, 4, to_space ? closed : closed_back, &call->out[0], call->err)
               : status;
}

static enum sp_status evaluate_dropout(struct sp_call *call)
{
    const struct sp_numbers *x, *ratio = sp_call_in(call, 1), *training = sp_call_in(call, 2);
    const bool drops_none = ratio != NULL && ratio->count == 1 && ratio->is_known && ratio->items[0].real == 0;
    enum sp_status status = need(call, &x);
    if (status == SP_OK && !drops_none && training != NULL && (training->count != 1 || training->items[0].field != 0))
        return sp_call_refuse(call, "it drops elements at random");
    if (status == SP_OK)
        status = sp_numbers_view(call->arena, x, x->rank, x->axes, &call->out[0], call->err);
    if (status != SP_OK || call->out_count < 2)
        return status;
    status = sp_numbers_create(call->arena, SP_DTYPE_BOOL, x->rank, x->axes, &call->out[1], call->err);
    for (uint64_t i = 0; status == SP_OK && i < x->count; i++)
        call->out[1]->items[i] = sp_number_of_int(1);
    if (status == SP_OK)
        call->out[1]->is_known = true;
    return status;
}

const struct sp_evaluator_entry sp_evaluators_movement[] = {
    {"Reshape", evaluate_reshape},     {"Flatten", evaluate_flatten},
    {"Squeeze", evaluate_squeeze},     {"Unsqueeze", evaluate_squeeze},
    {"Transpose", evaluate_transpose}, {"Slice", evaluate_slice},
    {"DynamicSlice", evaluate_slice},  {"Split", evaluate_split},
    {"Concat", evaluate_concat},       {"Expand", evaluate_expand},
    {"Tile", evaluate_tile},           {"Pad", evaluate_pad},
    {"DepthToSpace", evaluate_depth},  {"SpaceToDepth", evaluate_depth},
    {"Dropout", evaluate_dropout},     {NULL, NULL},
};
