/*
 * Operators that choose places by integers: OneHot, EyeLike, TensorScatter, CenterCropPad; and the convolution that looks
 * back along a sequence.
 */
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "verify/operators/steps.h"

static int64_t part_of(struct sp_number number, bool is_field)
{
    return is_field ? (int64_t)number.field : fabs(number.real) < 0x1p60 ? (int64_t)number.real : INT64_MIN;
}

/* (indices, depth, [off, on]) */
static enum sp_status evaluate_one_hot(struct sp_call *call)
{
    const struct sp_numbers *indices = sp_call_in(call, 0), *depth = sp_call_in(call, 1), *values = sp_call_in(call, 2);
    struct sp_index_axis axes[SP_MAX_RANK];
    uint32_t axis;
    if (indices == NULL || depth == NULL || values == NULL || depth->count != 1 || !depth->is_known ||
        values->count != 2 || indices->rank + 1 > SP_MAX_RANK)
        return sp_call_refuse(call, "its depth is not known");
    const int64_t classes = (int64_t)depth->items[0].real;
    enum sp_status status = sp_call_axis(call, sp_node_int(call->node, "axis", -1), indices->rank + 1, &axis);
    if (status != SP_OK || classes < 0 || classes > SP_MAX_EVALUATED_NUMBERS)
        return status != SP_OK ? status : sp_call_refuse(call, "its depth is not known");
    uint64_t inner = 1;
    for (uint32_t i = 0; i <= indices->rank; i++) {
        axes[i] = i == axis ? sp_index_all(classes) : indices->axes[i < axis ? i : i - 1];
        inner *= i > axis ? axes[i].count : 1;
    }
    status = sp_numbers_create(call->arena, values->dtype, indices->rank + 1, axes, &call->out[0], call->err);
    for (uint64_t i = 0; status == SP_OK && i < call->out[0]->count; i++) {
        const int64_t class = (int64_t)(i / inner % (uint64_t)classes);
        const struct sp_number index = indices->items[i / inner / (uint64_t)classes * inner + i % inner];
        const int64_t own[] = {part_of(index, true), part_of(index, false)};
        call->out[0]->items[i] = (struct sp_number){values->items[own[0] == class || own[0] + classes == class].field,
                                                    values->items[own[1] == class || own[1] + classes == class].real};
    }
    if (status == SP_OK)
        call->out[0]->is_known = indices->is_known && values->is_known;
    return status;
}

static enum sp_status evaluate_eye(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    const int64_t diagonal = sp_node_int(call->node, "k", 0),
                  to = sp_node_int(call->node, "dtype", x != NULL ? (int64_t)x->dtype : 0);
    if (x == NULL || x->rank != 2 || to <= 0 || to >= SP_DTYPE_COUNT || to == SP_DTYPE_STRING)
        return sp_call_refuse(call, "its input is no matrix");
    enum sp_status status =
        sp_numbers_create(call->arena, (enum sp_dtype)to, x->rank, x->axes, &call->out[0], call->err);
    for (uint64_t i = 0; status == SP_OK && i < x->count; i++) {
        const int64_t row = sp_index_at(&x->axes[0], (uint32_t)(i / x->axes[1].count)),
                      column = sp_index_at(&x->axes[1], (uint32_t)(i % x->axes[1].count));
        call->out[0]->items[i] = column == row + diagonal ? (struct sp_number){1, 1} : (struct sp_number){0, 0};
    }
    if (status == SP_OK)
        call->out[0]->is_known = true;
    return status;
}

/* (past, update, places): what is new goes where each row of a batch is, behind one another, or around. */
static enum sp_status evaluate_cache(struct sp_call *call)
{
    const struct sp_numbers *past = sp_call_in(call, 0), *update = sp_call_in(call, 1), *places = sp_call_in(call, 2);
    const bool is_circular = strcmp(sp_node_string(call->node, "mode", "linear"), "circular") == 0;
    uint32_t axis;
    if (past == NULL || update == NULL || past->rank != update->rank || past->rank < 2 ||
        !sp_numbers_is_complete(past) || !sp_numbers_is_complete(update) ||
        (places != NULL && places->count != past->axes[0].count))
        return sp_evaluate_by_rule(call);
    enum sp_status status = sp_call_axis(call, sp_node_int(call->node, "axis", -2), past->rank, &axis);
    if (status != SP_OK || axis == 0)
        return status != SP_OK ? status : sp_call_refuse(call, "its axis is the one of batches");
    status = sp_numbers_create(call->arena, past->dtype, past->rank, past->axes, &call->out[0], call->err);
    if (status != SP_OK || past->count == 0)
        return status;
    struct sp_numbers *out = call->out[0];
    memcpy(out->items, past->items, past->count * sizeof *out->items);
    const uint64_t length = past->axes[axis].count, added = update->axes[axis].count;
    uint64_t inner = 1;
    for (uint32_t i = axis + 1; i < past->rank; i++)
        inner *= past->axes[i].count;
    const uint64_t rows = past->count / inner / length, per_batch = rows / past->axes[0].count;
    if (update->count != rows * added * inner)
        return sp_call_refuse(call, "what is new does not fit what is there");
    for (uint64_t n = 0; n < 2 * update->count; n++) {
        const uint64_t item = n / 2, row = item / inner / added;
        const struct sp_number start = places != NULL ? places->items[row / per_batch] : (struct sp_number){0, 0};
        int64_t at = part_of(start, n % 2 == 0) + (int64_t)(item / inner % added);
        at = is_circular && at >= 0 ? at % (int64_t)length : at;
        if (at < 0 || at >= (int64_t)length)
            return sp_call_refuse(call, "a place is none of the cache's");
        struct sp_number *to = &out->items[(row * length + (uint64_t)at) * inner + item % inner];
        if (n % 2 == 0)
            to->field = update->items[item].field;
        else
            to->real = update->items[item].real;
    }
    return SP_OK;
}

/* The middle of each axis, cut or padded with zeros to the extents that are asked for. */
static enum sp_status evaluate_centre(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0);
    const int64_t *sizes, *axes;
    uint32_t count, listed, axis;
    struct sp_numbers *out;
    enum sp_status status = x != NULL ? sp_call_ints(call, 1, &count, &sizes) : SP_ERR_UNSUPPORTED;
    if (status != SP_OK)
        return sp_call_refuse(call, "its sizes are not known");
    axes = sp_node_ints(call->node, "axes", &listed);
    if (axes != NULL ? listed != count : count != x->rank)
        return sp_call_refuse(call, "its sizes are for other axes");
    status = sp_numbers_view(call->arena, x, x->rank, x->axes, &out, call->err);
    for (uint32_t i = 0; status == SP_OK && i < count; i++) {
        status = sp_call_axis(call, axes != NULL ? axes[i] : i, x->rank, &axis);
        if (status != SP_OK)
            break;
        const int64_t own = out->axes[axis].extent, low = llabs(sizes[i] - own) / 2;
        if (sizes[i] < 0 || sizes[i] > SP_MAX_EVALUATED_NUMBERS)
            return sp_call_refuse(call, "its sizes are not known");
        if (sizes[i] <= own) {
            status = sp_numbers_slice(call->arena, out, axis, (struct sp_index_run){low, 1, sizes[i]}, &out, call->err);
            continue;
        }
        struct sp_index_axis zeros[SP_MAX_RANK];
        struct sp_numbers *sides[2] = {NULL, NULL};
        const int64_t widths[] = {low, sizes[i] - own - low};
        for (int k = 0; status == SP_OK && k < 2; k++) {
            memcpy(zeros, out->axes, out->rank * sizeof *zeros);
            zeros[axis] = sp_index_all(widths[k]);
            status = sp_numbers_create(call->arena, out->dtype, out->rank, zeros, &sides[k], call->err);
        }
        if (status == SP_OK)
            status = sp_numbers_concat(call->arena, 3, (const struct sp_numbers *[]){sides[0], out, sides[1]}, axis,
                                       &out, call->err);
    }
    if (status == SP_OK)
        call->out[0] = out;
    return status;
}

/* (x [b, c, l], w [c, 1, k], bias [c], state [b, c, k - 1]) -> (y [b, c, l], state) */
static enum sp_status evaluate_causal(struct sp_call *call)
{
    const struct sp_numbers *x = sp_call_in(call, 0), *w = sp_call_in(call, 1), *b = sp_call_in(call, 2),
                            *state = sp_call_in(call, 3);
    const char *activation = sp_node_string(call->node, "activation", "none");
    struct sp_steps steps = {call, SP_OK};
    struct sp_numbers *all;
    if (x == NULL || w == NULL || x->rank != 3 || w->rank != 3 || !sp_numbers_is_complete(x) ||
        !sp_numbers_is_complete(w) || w->axes[2].extent < 1 || w->axes[0].extent != x->axes[1].extent ||
        w->axes[1].extent != 1 ||
        (strcmp(activation, "none") != 0 && strcmp(activation, "silu") != 0 && strcmp(activation, "swish") != 0))
        return sp_evaluate_by_rule(call);
    const int64_t channels = x->axes[1].extent, length = x->axes[2].extent, k = w->axes[2].extent,
                  extents[] = {x->axes[0].extent, channels, k - 1};
    if (state == NULL) {
        struct sp_numbers *zeros;
        steps.status = sp_numbers_create_full(call->arena, x->dtype, 3, extents, &zeros, call->err);
        state = zeros;
    }
    if (steps.status == SP_OK)
        steps.status = sp_numbers_concat(call->arena, 2, (const struct sp_numbers *[]){state, x}, 2, &all, call->err);
    if (steps.status != SP_OK || all->axes[2].extent != length + k - 1)
        return steps.status != SP_OK ? steps.status : sp_call_refuse(call, "its state does not fit its kernel");
    struct sp_numbers *y = NULL;
    steps.status = sp_numbers_create(call->arena, x->dtype, 3, x->axes, &y, call->err);
    for (uint64_t i = 0; steps.status == SP_OK && i < x->count; i++) {
        const uint64_t row = i / (uint64_t)length, channel = row % (uint64_t)channels;
        for (int64_t tap = 0; tap < k; tap++)
            y->items[i] = sp_number_add(
                y->items[i],
                sp_number_multiply(all->items[row * (uint64_t)(length + k - 1) + i % (uint64_t)length + (uint64_t)tap],
                                   w->items[channel * (uint64_t)k + (uint64_t)tap]));
    }
    if (b != NULL)
        y = sp_step(&steps, y, sp_step_along(&steps, b, 3, 1), sp_number_add);
    if (activation[0] == 's')
        y = sp_step(&steps, y, sp_step_apply(&steps, y, "Sigmoid", sp_real_sigmoid), sp_number_multiply);
    call->out[0] = y;
    if (steps.status == SP_OK && call->out_count > 1)
        steps.status =
            sp_numbers_slice(call->arena, all, 2, (struct sp_index_run){length, 1, k - 1}, &call->out[1], call->err);
    return steps.status;
}

const struct sp_evaluator_entry sp_evaluators_selected[] = {
    {"OneHot", evaluate_one_hot},
    {"EyeLike", evaluate_eye},
    {"TensorScatter", evaluate_cache},
    {"CenterCropPad", evaluate_centre},
    {"CausalConvWithState", evaluate_causal},
    {NULL, NULL},
};
