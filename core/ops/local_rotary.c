/*
 * Local forms of RotaryEmbedding, LinearAttention and CausalConvWithState.
 *
 *     heads              attributes say how many are here
 *     d (LinearAttention)   rows of the state: the scale is that of a whole head, the output a sum over the shards
 *     r (RotaryEmbedding)   pairs of a head: where an attribute says how much of a head is turned, it is what is here
 *     l (CausalConv..)   the k-1 elements in front of a shard are brought along, and what comes of them is cut off
 */
#include <math.h>

#include "ops/local_functions.h"
#include "ops/local_heads.h"
#include "ops/local_parts.h"

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

enum sp_status sp_local_causal_conv(struct sp_local *local)
{
    const uint8_t length = sp_local_split_named(local, "l");
    const struct sp_local_changes none = {0};
    if (length == SP_RULE_NO_FACTOR)
        return sp_local_changed(local, &none);
    const struct sp_local_factor *cut = &local->factors[length];
    if (!cut->is_contiguous) {
        sp_local_refuse(local, length, "a device has several parts of the sequence");
        return sp_local_status(local);
    }
    const int64_t halo = local->rule->factors[length].halo_low;
    const int64_t first = cut->start < halo ? 0 : cut->start - halo, limit = cut->start + cut->size;
    struct sp_piece *inputs[] = {sp_local_input_range(local, 0, LENGTH_AXIS, first, limit), sp_local_input(local, 1),
                                 sp_local_input(local, 2)};
    struct sp_piece *y = sp_local_same(local, local->input_count < 3 ? local->input_count : 3, inputs, 0, NULL);
    if (sp_local_status(local) != SP_OK)
        return sp_local_status(local);
    int64_t *dims = SP_NEW_ARRAY(local->arena, 3, int64_t);
    if (dims == NULL) {
        sp_local_failed(local, sp_fail_memory(local->err));
        return sp_local_status(local);
    }
    for (uint32_t axis = 0; axis < 3; axis++)
        dims[axis] = axis == LENGTH_AXIS ? limit - first : local->outputs[0].axes[axis].size;
    sp_piece_set_dims(local, y, 3, dims);
    sp_local_output(local, 0, sp_local_slice(local, y, LENGTH_AXIS, cut->start - first, limit - first));
    return sp_local_status(local);
}
