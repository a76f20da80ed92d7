/*
 * Local forms of RotaryEmbedding, LinearAttention and CausalConvWithState.
 *
 *     heads              attributes say how many are here
 *     d (LinearAttention)   rows of the state: the scale is that of a whole head, the output a sum over the shards
 *     r (RotaryEmbedding)   pairs of a head: where an attribute says how much of a head is turned, it is what is here
 *     l (CausalConv..)   the k-1 elements in front of a shard are brought along, and what comes of them is cut off;
 * where a shard is several ranges, each is a run of its own
 */
#include <math.h>

#include "ops/local_functions.h"
#include "ops/local_heads.h"

enum sp_status sp_local_rotary(struct sp_local *local)
{
    struct sp_local_changes changes = {0};
    const uint8_t pairs = sp_local_split_named(local, "r");
    sp_local_change_heads(local, &changes, "num_heads", "h", NULL);
    if (pairs != SP_RULE_NO_FACTOR && sp_node_int(local->node, "rotary_embedding_dim", 0) != 0)
        changes.items[changes.count++] = SP_INT_ATTR("rotary_embedding_dim", 2 * local->factors[pairs].size);
    return sp_local_changed(local, &changes);
}

enum sp_status sp_local_linear_attention(struct sp_local *local)
{
    struct sp_local_changes changes = {0};
    const uint8_t rows = sp_local_split_named(local, "d");
    sp_local_change_heads(local, &changes, "q_num_heads", "kv", "g");
    sp_local_change_heads(local, &changes, "kv_num_heads", "kv", NULL);
    if (rows != SP_RULE_NO_FACTOR && sp_node_float(local->node, "scale", 0) == 0)
        changes.items[changes.count++] = (struct sp_local_attribute){
            .name = "scale", .type = SP_ATTR_FLOAT, .f = 1 / sqrt((double)local->factors[rows].extent)};
    return sp_local_changed(local, &changes);
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
static struct sp_axis_ranges spread(struct sp_local *local, const struct sp_local_factor *cut, int64_t halo,
                                    struct run *runs)
{
    struct sp_axis_ranges brought = {0, SP_NEW_ARRAY(local->arena, cut->ranges.count, struct sp_range)};
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
static struct sp_piece *elements(struct sp_local *local, struct sp_axis_ranges length)
{
    struct sp_axis_ranges axes[3];
    for (uint32_t axis = 0; axis < 3; axis++)
        axes[axis] = axis == LENGTH_AXIS ? length : local->inputs[IN_X].axes[axis].ranges;
    return sp_local_input_axes(local, IN_X, axes);
}

/* The operator on some elements of the piece, without what comes of the halo. */
static struct sp_piece *convolve(struct sp_local *local, struct sp_piece *x, const struct run *run)
{
    int64_t dims[3];
    struct sp_piece *outputs[OUTPUTS] = {NULL};
    struct sp_piece *const inputs[INPUTS] = {sp_local_slice(local, x, LENGTH_AXIS, run->at, run->at + run->size),
                                             sp_local_input(local, IN_WEIGHT), sp_local_input(local, IN_BIAS),
                                             run->is_first ? sp_local_input(local, IN_STATE) : NULL};
    sp_local_same_many(local, local->input_count < INPUTS ? local->input_count : INPUTS, inputs, 0, NULL, outputs);
    for (uint32_t axis = 0; axis < 3; axis++)
        dims[axis] = axis == LENGTH_AXIS ? run->size : local->outputs[OUT_Y].axes[axis].size;
    sp_piece_set_dims(local, outputs[OUT_Y], 3, dims);
    return sp_local_slice(local, outputs[OUT_Y], LENGTH_AXIS, run->halo, run->size);
}

/* The state that is left: the last elements of all, those of the state that was given (or zeros) in front. */
static void give_state(struct sp_local *local, int64_t extent, int64_t left)
{
    struct sp_range tail = {extent < left ? 0 : extent - left, extent};
    struct sp_piece *state = sp_local_input(local, IN_STATE),
                    *last = elements(local, (struct sp_axis_ranges){1, &tail});
    const int64_t missing = left - (tail.limit - tail.start), low[3] = {0, 0, missing}, high[3] = {0};
    if (missing > 0 && state == NULL) {
        last = sp_local_pad(local, last, 3, low, high, 0);
    } else if (missing > 0) {
        struct sp_piece *const both[] = {sp_local_slice(local, state, LENGTH_AXIS, left - missing, left), last};
        last = sp_local_concat(local, LENGTH_AXIS, 2, both);
    }
    sp_local_output(local, OUT_STATE, last);
}

enum sp_status sp_local_causal_conv(struct sp_local *local)
{
    const uint8_t length = sp_local_split_named(local, "l");
    const struct sp_local_changes none = {0};
    const int64_t halo = length == SP_RULE_NO_FACTOR ? 0 : local->rule->factors[length].halo_low;
    if (halo == 0)
        return sp_local_changed(local, &none);
    const struct sp_local_factor *cut = &local->factors[length];
    const bool gives_state = OUT_STATE < local->output_count && local->outputs[OUT_STATE].value != NULL;
    struct run *runs = SP_NEW_ARRAY(local->arena, cut->ranges.count, struct run);
    struct sp_piece **parts = SP_NEW_ARRAY(local->arena, cut->ranges.count, struct sp_piece *);
    const struct sp_axis_ranges brought =
        runs == NULL ? (struct sp_axis_ranges){0, NULL} : spread(local, cut, halo, runs);
    if (parts == NULL || brought.ranges == NULL) {
        sp_local_failed(local, sp_fail_memory(local->err));
        return sp_local_status(local);
    }
    (void)sp_local_input(local, IN_STATE); /* every device asks, those without the first element too */
    struct sp_piece *x = elements(local, brought);
    for (uint32_t i = 0; i < cut->ranges.count; i++)
        parts[i] = convolve(local, x, &runs[i]);
    sp_local_output(local, OUT_Y, sp_local_concat(local, LENGTH_AXIS, cut->ranges.count, parts));
    if (gives_state)
        give_state(local, cut->extent, halo);
    return sp_local_status(local);
}
