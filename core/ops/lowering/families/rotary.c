/*
 * Lowering of RotaryEmbedding, LinearAttention and CausalConvWithState.
 *
 *     heads              attributes say how many are here
 *     d (LinearAttention)   rows of the state: the scale is that of a whole head, the output a sum over the shards
 *     r (RotaryEmbedding)   pairs of a head: where an attribute says how much of a head is turned, it is what is here
 *     l (CausalConv..)   the k-1 elements in front of a shard are brought along, and what comes of them is cut off;
 * where a shard is several ranges, each is a run of its own
 */
#include <math.h>

#include "ops/lowering/functions.h"
#include "ops/lowering/heads.h"

enum sp_status sp_lower_rotary(struct sp_lowering *lower)
{
    struct sp_lower_changes changes = {0};
    const uint8_t pairs = sp_lower_split_named(lower, "r");
    sp_lower_change_heads(lower, &changes, "num_heads", "h", NULL);
    if (pairs != SP_RULE_NO_FACTOR && sp_node_int(lower->node, "rotary_embedding_dim", 0) != 0)
        changes.items[changes.count++] = SP_INT_ATTR("rotary_embedding_dim", 2 * lower->factors[pairs].size);
    return sp_lower_changed(lower, &changes);
}

enum sp_status sp_lower_linear_attention(struct sp_lowering *lower)
{
    struct sp_lower_changes changes = {0};
    const uint8_t rows = sp_lower_split_named(lower, "d");
    sp_lower_change_heads(lower, &changes, "q_num_heads", "kv", "g");
    sp_lower_change_heads(lower, &changes, "kv_num_heads", "kv", NULL);
    if (rows != SP_RULE_NO_FACTOR && sp_node_float(lower->node, "scale", 0) == 0)
        changes.items[changes.count++] = (struct sp_lower_attribute){
            .name = "scale", .type = SP_ATTR_FLOAT, .f = 1 / sqrt((double)lower->factors[rows].extent)};
    return sp_lower_changed(lower, &changes);
}

/* ---- CausalConvWithState ------------------------------------------------------------------------------------------
 */

#define LENGTH_AXIS 2

enum { IN_X, IN_WEIGHT, IN_BIAS, IN_STATE, INPUTS };
enum { OUT_Y, OUT_STATE, OUTPUTS };

/* One run of the operator: on the elements [at, at + size) of the piece of x, of which the first `halo` were brought
   along. */
struct run {
    int64_t at, size, halo;
    bool is_first; /* no element is missing in front of them but those of the state */
};

/* The ranges of a device with the elements in front of each, as ranges of x that do not touch each other; where each
   range's elements lie among them. `ranges` is NULL without memory. */
static struct sp_axis_ranges spread(struct sp_lowering *lower, const struct sp_lower_factor *cut, int64_t halo,
                                    struct run *runs)
{
    struct sp_axis_ranges brought = {0, SP_NEW_ARRAY(lower->arena, cut->ranges.count, struct sp_range)};
    int64_t before = 0; /* elements of the ranges in front of the last one */
    for (uint32_t i = 0; brought.ranges != NULL && i < cut->ranges.count; i++) {
        const struct sp_range range = cut->ranges.ranges[i];
        const int64_t first = range.start < halo ? 0 : range.start - halo;
        struct sp_range *last = brought.count == 0 ? NULL : &brought.ranges[brought.count - 1];
        if (last != NULL && first <= last->limit) {
            last->limit = range.limit;
        } else {
            before += last == NULL ? 0 : last->limit - last->start;
            last = &brought.ranges[brought.count++];
            *last = (struct sp_range){first, range.limit};
        }
        runs[i] = (struct run){before + first - last->start, range.limit - first, range.start - first, first == 0};
    }
    return brought;
}

/* This device's channels of x on any elements. */
static struct sp_piece *elements(struct sp_lowering *lower, struct sp_axis_ranges length)
{
    struct sp_axis_ranges axes[3];
    for (uint32_t axis = 0; axis < 3; axis++)
        axes[axis] = axis == LENGTH_AXIS ? length : lower->inputs[IN_X].axes[axis].ranges;
    return sp_lower_input_axes(lower, IN_X, axes);
}

/* The operator on some elements of the piece, without what comes of the halo. */
static struct sp_piece *convolve(struct sp_lowering *lower, struct sp_piece *x, const struct run *run)
{
    int64_t dims[3];
    struct sp_piece *outputs[OUTPUTS] = {NULL};
    struct sp_piece *const inputs[INPUTS] = {sp_lower_slice(lower, x, LENGTH_AXIS, run->at, run->at + run->size),
                                             sp_lower_input(lower, IN_WEIGHT), sp_lower_input(lower, IN_BIAS),
                                             run->is_first ? sp_lower_input(lower, IN_STATE) : NULL};
    sp_lower_same_many(lower, lower->input_count < INPUTS ? lower->input_count : INPUTS, inputs, 0, NULL, outputs);
    for (uint32_t axis = 0; axis < 3; axis++)
        dims[axis] = axis == LENGTH_AXIS ? run->size : lower->outputs[OUT_Y].axes[axis].size;
    sp_piece_set_dims(lower, outputs[OUT_Y], 3, dims);
    return sp_lower_slice(lower, outputs[OUT_Y], LENGTH_AXIS, run->halo, run->size);
}

/* The state that is left: the last elements of all, those of the state that was given (or zeros) in front. */
static void give_state(struct sp_lowering *lower, int64_t extent, int64_t left)
{
    struct sp_range tail = {extent < left ? 0 : extent - left, extent};
    struct sp_piece *state = sp_lower_input(lower, IN_STATE),
                    *last = elements(lower, (struct sp_axis_ranges){1, &tail});
    const int64_t missing = left - (tail.limit - tail.start), low[3] = {0, 0, missing}, high[3] = {0};
    if (missing > 0 && state == NULL) {
        last = sp_lower_pad(lower, last, 3, low, high, 0);
    } else if (missing > 0) {
        struct sp_piece *const both[] = {sp_lower_slice(lower, state, LENGTH_AXIS, left - missing, left), last};
        last = sp_lower_concat(lower, LENGTH_AXIS, 2, both);
    }
    sp_lower_output(lower, OUT_STATE, last);
}

enum sp_status sp_lower_causal_conv(struct sp_lowering *lower)
{
    const uint8_t length = sp_lower_split_named(lower, "l");
    const struct sp_lower_changes none = {0};
    const int64_t halo = length == SP_RULE_NO_FACTOR ? 0 : lower->rule->factors[length].halo_low;
    if (halo == 0)
        return sp_lower_changed(lower, &none);
    const struct sp_lower_factor *cut = &lower->factors[length];
    const bool gives_state = OUT_STATE < lower->output_count && lower->outputs[OUT_STATE].value != NULL;
    struct run *runs = SP_NEW_ARRAY(lower->arena, cut->ranges.count, struct run);
    struct sp_piece **parts = SP_NEW_ARRAY(lower->arena, cut->ranges.count, struct sp_piece *);
    const struct sp_axis_ranges brought =
        runs == NULL ? (struct sp_axis_ranges){0, NULL} : spread(lower, cut, halo, runs);
    if (parts == NULL || brought.ranges == NULL) {
        sp_lower_failed(lower, sp_fail_memory(lower->err));
        return sp_lower_status(lower);
    }
    (void)sp_lower_input(lower, IN_STATE); /* every device asks, those without the first element too */
    struct sp_piece *x = elements(lower, brought);
    for (uint32_t i = 0; i < cut->ranges.count; i++)
        parts[i] = convolve(lower, x, &runs[i]);
    sp_lower_output(lower, OUT_Y, sp_lower_concat(lower, LENGTH_AXIS, cut->ranges.count, parts));
    if (gives_state)
        give_state(lower, cut->extent, halo);
    return sp_lower_status(lower);
}
