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
#include "ops/infer.h"
#include "ops/local_functions.h"
#include "ops/local_parts.h"
#include "ops/window.h"

enum { IN_X, IN_W, IN_OFFSET, IN_B, IN_MASK, DEFORM_INPUTS };

struct moved {
    int64_t kernel[SP_MAX_RANK], stride[SP_MAX_RANK], pads[2 * SP_MAX_RANK];
    int64_t first[SP_MAX_RANK]; /* where place 0 of the whole reads in the image without an offset */
    bool is_moved[SP_MAX_RANK], is_any;
};

#define MOST_NUMBERS ((int64_t)(SP_MAX_LOCAL_CONSTANT / sizeof(double)))

static bool may_move(const struct sp_local *local, const struct sp_window *window, uint32_t i, int64_t in,
                     int64_t count)
{
    const int64_t numbers[] = {in,
                               count,
                               window->stride[i],
                               window->dilation[i],
                               window->low[i],
                               window->kernel[i],
                               local->inputs[IN_OFFSET].axes[1].size};
    for (uint32_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++)
        if (numbers[k] < 0 || numbers[k] > INT32_MAX)
            return false;
    return count <= MOST_NUMBERS && local->inputs[IN_OFFSET].axes[1].size <= MOST_NUMBERS;
}

static void set_axis(struct sp_local *local, const struct sp_window *window, uint32_t i, struct moved *moved)
{
    uint8_t place = sp_local_output_factor(local, 0, 2 + i), tap = sp_local_input_factor(local, IN_W, 2 + i);
    int64_t in = local->inputs[IN_X].axes[2 + i].extent, count = local->outputs[0].axes[2 + i].size;
    uint8_t split = sp_local_is_split(local, place) ? place : tap;
    moved->kernel[i] = local->inputs[IN_W].axes[2 + i].size;
    moved->stride[i] = window->stride[i];
    moved->pads[i] = window->low[i];
    moved->pads[window->rank + i] = window->high[i];
    if (!sp_local_is_split(local, split))
        return;
    if (!may_move(local, window, i, in, count)) {
        sp_local_refuse(local, split, "its extents are not all known, or too large for a list of its places");
        return;
    }
    if (!local->factors[tap].is_contiguous) {
        sp_local_refuse(local, tap, "a device would have several ranges of it");
        return;
    }
    int64_t span = window->dilation[i] * (moved->kernel[i] - 1) + 1, room = in > span ? in - span : 0, stride = 1;
    if (count > 1 && room > 0)
        stride = (room + count - 2) / (count - 1);
    else if (count == 1 && in > 0)
        stride = in;
    int64_t high = (count - 1) * stride + span - in;
    moved->is_moved[i] = moved->is_any = true;
    moved->first[i] = local->factors[tap].start * window->dilation[i] - window->low[i];
    moved->stride[i] = stride;
    moved->pads[i] = 0;
    moved->pads[window->rank + i] = high > 0 ? high : 0;
}

/* The offsets with what the axis' places and taps lie elsewhere. */
static struct sp_piece *move_offsets(struct sp_local *local, struct sp_piece *offset, const struct sp_window *window,
                                     uint32_t i, const struct moved *moved)
{
    const struct sp_local_operand *operand = &local->inputs[IN_OFFSET];
    int64_t count = local->outputs[0].axes[2 + i].size, channels = operand->axes[1].size, dims[SP_MAX_RANK];
    if (offset == NULL)
        return NULL;
    double *values = SP_NEW_ARRAY(local->arena, (size_t)(count > channels ? count : channels), double);
    const int64_t *places = sp_local_list(local, &local->outputs[0].axes[2 + i].ranges, count);
    if (values == NULL || places == NULL) {
        sp_local_failed(local, sp_fail_memory(local->err));
        return NULL;
    }
    for (uint32_t axis = 0; axis < operand->rank; axis++)
        dims[axis] = 1;
    for (int64_t p = 0; p < count; p++)
        values[p] = (double)(moved->first[i] + places[p] * window->stride[i] - p * moved->stride[i]);
    dims[2 + i] = count;
    struct sp_piece *distance = sp_local_reals(local, offset->dtype, operand->rank, dims, values);
    /* Channels hold a coordinate for each spatial axis, in turn. */
    for (int64_t channel = 0; channel < channels; channel++)
        values[channel] = channel % window->rank == i ? 1 : 0;
    dims[2 + i] = 1;
    dims[1] = channels;
    struct sp_piece *is_own = sp_local_reals(local, offset->dtype, operand->rank, dims, values);
    return sp_local_binary(local, "Add", offset, sp_local_binary(local, "Mul", is_own, distance));
}

static int64_t size_of(const struct sp_local *local, const char *name, bool *ret_is_sum)
{
    for (uint32_t i = 0; i < local->factor_count; i++) {
        if (strcmp(local->rule->factors[i].name, name) != 0)
            continue;
        *ret_is_sum = local->rule->factors[i].kind == SP_FACTOR_REDUCTION;
        return local->factors[i].size;
    }
    return 1;
}

enum sp_status sp_local_deform_conv(struct sp_local *local)
{
    struct sp_op_context context = sp_local_context(local);
    struct sp_window window;
    struct moved moved = {.is_any = false};
    struct sp_piece *pieces[DEFORM_INPUTS] = {NULL};
    bool is_sum = false, ignored = false;
    if (local->outputs[0].rank < 3)
        return sp_local_default(local);
    enum sp_status status = sp_window_read(&context, local->outputs[0].rank - 2, sp_in_shape(&context, IN_W), &window);
    if (status != SP_OK)
        return status;
    for (uint32_t i = 0; i < window.rank; i++)
        set_axis(local, &window, i, &moved);
    for (uint32_t i = 0; i < local->input_count && i < DEFORM_INPUTS; i++)
        pieces[i] = i == IN_B ? sp_local_input_once(local, i) : sp_local_input(local, i);
    for (uint32_t i = 0; i < window.rank; i++)
        if (moved.is_moved[i])
            pieces[IN_OFFSET] = move_offsets(local, pieces[IN_OFFSET], &window, i, &moved);
    /* Offset groups that divide a group are a sum within it, others a part of the groups (deformable.c). */
    int64_t g = size_of(local, "g", &ignored), o = size_of(local, "o", &is_sum);
    bool is_whole = sp_node_int(local->node, "group", 1) % sp_node_int(local->node, "offset_group", 1) != 0 && !is_sum;
    const struct sp_local_attribute attributes[] = {
        SP_INT_ATTR("group", is_whole ? sp_node_int(local->node, "group", 1)
                             : is_sum ? g
                                      : g * o),
        SP_INT_ATTR("offset_group", is_whole ? sp_node_int(local->node, "offset_group", 1)
                                    : is_sum ? g * o
                                             : o),
        SP_INTS_ATTR("kernel_shape", window.rank, moved.kernel),
        SP_INTS_ATTR("strides", window.rank, moved.stride),
        SP_INTS_ATTR("pads", 2 * window.rank, moved.pads),
    };
    return sp_local_give_sum(local, sp_local_same(local, local->input_count, pieces, moved.is_any ? 5 : 2, attributes));
}
