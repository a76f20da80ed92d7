/*
 * The parts of DeformConv (deformable.c).
 *
 * Every device has all of the image's places and a part of what is made, of the taps, or of the channels. The operator
 * makes as many places as the image has windows, so a part has another stride, one that gives as many windows as it has
 * places, and its offsets say where the places really are:
 *
 *     offset' = offset + (start + p) * stride - low + tap * dilation - p * stride'
 */
#include <string.h>

#include "base/limits.h"
#include "ops/families/neural/window.h"
#include "ops/lowering/functions.h"
#include "ops/lowering/parts.h"
#include "ops/table/shape_helpers.h"

enum { IN_X, IN_W, IN_OFFSET, IN_B, IN_MASK, DEFORM_INPUTS };

struct moved {
    int64_t kernel[SP_MAX_RANK], stride[SP_MAX_RANK], pads[2 * SP_MAX_RANK];
    int64_t first[SP_MAX_RANK]; /* where place 0 of the whole reads in the image without an offset */
    bool is_moved[SP_MAX_RANK], is_any;
};

#define MOST_NUMBERS ((int64_t)(SP_MAX_LOCAL_CONSTANT / sizeof(double)))

static bool may_move(const struct sp_lowering *lower, const struct sp_window *window, uint32_t i, int64_t in,
                     int64_t count)
{
    const int64_t numbers[] = {in,
                               count,
                               window->stride[i],
                               window->dilation[i],
                               window->low[i],
                               window->kernel[i],
                               lower->inputs[IN_OFFSET].axes[1].size};
    for (uint32_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++)
        if (numbers[k] < 0 || numbers[k] > INT32_MAX)
            return false;
    return count <= MOST_NUMBERS && lower->inputs[IN_OFFSET].axes[1].size <= MOST_NUMBERS;
}

static void set_axis(struct sp_lowering *lower, const struct sp_window *window, uint32_t i, struct moved *moved)
{
    uint8_t place = sp_lower_output_factor(lower, 0, 2 + i), tap = sp_lower_input_factor(lower, IN_W, 2 + i);
    int64_t in = lower->inputs[IN_X].axes[2 + i].extent, count = lower->outputs[0].axes[2 + i].size;
    uint8_t split = sp_lower_is_split(lower, place) ? place : tap;
    moved->kernel[i] = lower->inputs[IN_W].axes[2 + i].size;
    moved->stride[i] = window->stride[i];
    moved->pads[i] = window->low[i];
    moved->pads[window->rank + i] = window->high[i];
    if (!sp_lower_is_split(lower, split))
        return;
    if (!may_move(lower, window, i, in, count)) {
        sp_lower_refuse(lower, split, "its extents are not all known, or too large for a list of its places");
        return;
    }
    if (!lower->factors[tap].is_contiguous) {
        sp_lower_refuse(lower, tap, "a device would have several ranges of it");
        return;
    }
    int64_t span = window->dilation[i] * (moved->kernel[i] - 1) + 1, room = in > span ? in - span : 0, stride = 1;
    if (count > 1 && room > 0)
        stride = (room + count - 2) / (count - 1);
    else if (count == 1 && in > 0)
        stride = in;
    int64_t high = (count - 1) * stride + span - in;
    moved->is_moved[i] = moved->is_any = true;
    moved->first[i] = lower->factors[tap].start * window->dilation[i] - window->low[i];
    moved->stride[i] = stride;
    moved->pads[i] = 0;
    moved->pads[window->rank + i] = high > 0 ? high : 0;
}

/* The offsets with what the axis' places and taps lie elsewhere. */
static struct sp_piece *move_offsets(struct sp_lowering *lower, struct sp_piece *offset, const struct sp_window *window,
                                     uint32_t i, const struct moved *moved)
{
    const struct sp_lower_operand *operand = &lower->inputs[IN_OFFSET];
    int64_t count = lower->outputs[0].axes[2 + i].size, channels = operand->axes[1].size, dims[SP_MAX_RANK];
    if (offset == NULL)
        return NULL;
    double *values = SP_NEW_ARRAY(lower->arena, (size_t)(count > channels ? count : channels), double);
    const int64_t *places = sp_lower_list(lower, &lower->outputs[0].axes[2 + i].ranges, count);
    if (values == NULL || places == NULL) {
        sp_lower_failed(lower, sp_fail_memory(lower->err));
        return NULL;
    }
    for (uint32_t axis = 0; axis < operand->rank; axis++)
        dims[axis] = 1;
    for (int64_t p = 0; p < count; p++)
        values[p] = (double)(moved->first[i] + places[p] * window->stride[i] - p * moved->stride[i]);
    dims[2 + i] = count;
    struct sp_piece *distance = sp_lower_reals(lower, offset->dtype, operand->rank, dims, values);
    /* Channels hold a coordinate for each spatial axis, in turn. */
    for (int64_t channel = 0; channel < channels; channel++)
        values[channel] = channel % window->rank == i ? 1 : 0;
    dims[2 + i] = 1;
    dims[1] = channels;
    struct sp_piece *is_own = sp_lower_reals(lower, offset->dtype, operand->rank, dims, values);
    return sp_lower_binary(lower, "Add", offset, sp_lower_binary(lower, "Mul", is_own, distance));
}

static int64_t size_of(const struct sp_lowering *lower, const char *name, bool *ret_is_sum)
{
    for (uint32_t i = 0; i < lower->factor_count; i++) {
        if (strcmp(lower->rule->factors[i].name, name) != 0)
            continue;
        *ret_is_sum = lower->rule->factors[i].kind == SP_FACTOR_REDUCTION;
        return lower->factors[i].size;
    }
    return 1;
}

enum sp_status sp_lower_deform_conv(struct sp_lowering *lower)
{
    struct sp_op_context context = sp_lower_context(lower);
    struct sp_window window;
    struct moved moved = {.is_any = false};
    struct sp_piece *pieces[DEFORM_INPUTS] = {NULL};
    bool is_sum = false, ignored = false;
    if (lower->outputs[0].rank < 3)
        return sp_lower_default(lower);
    enum sp_status status = sp_window_read(&context, lower->outputs[0].rank - 2, sp_in_shape(&context, IN_W), &window);
    if (status != SP_OK)
        return status;
    for (uint32_t i = 0; i < window.rank; i++)
        set_axis(lower, &window, i, &moved);
    for (uint32_t i = 0; i < lower->input_count && i < DEFORM_INPUTS; i++)
        pieces[i] = i == IN_B ? sp_lower_input_once(lower, i) : sp_lower_input(lower, i);
    for (uint32_t i = 0; i < window.rank; i++)
        if (moved.is_moved[i])
            pieces[IN_OFFSET] = move_offsets(lower, pieces[IN_OFFSET], &window, i, &moved);
    /* Offset groups that divide a group are a sum within it, others a part of the groups (deformable.c). */
    int64_t g = size_of(lower, "g", &ignored), o = size_of(lower, "o", &is_sum);
    bool is_whole = sp_node_int(lower->node, "group", 1) % sp_node_int(lower->node, "offset_group", 1) != 0 && !is_sum;
    const struct sp_lower_attribute attributes[] = {
        SP_INT_ATTR("group", is_whole ? sp_node_int(lower->node, "group", 1)
                             : is_sum ? g
                                      : g * o),
        SP_INT_ATTR("offset_group", is_whole ? sp_node_int(lower->node, "offset_group", 1)
                                    : is_sum ? g * o
                                             : o),
        SP_INTS_ATTR("kernel_shape", window.rank, moved.kernel),
        SP_INTS_ATTR("strides", window.rank, moved.stride),
        SP_INTS_ATTR("pads", 2 * window.rank, moved.pads),
    };
    return sp_lower_give_sum(lower, sp_lower_same(lower, lower->input_count, pieces, moved.is_any ? 5 : 2, attributes));
}
