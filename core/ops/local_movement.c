/*
 * Split, DepthToSpace, SpaceToDepth and CastLike on shards. Concat and Transpose are right as they are.
 */
#include <string.h>

#include "ops/infer.h"
#include "ops/local_functions.h"
#include "ops/local_internal.h"
#include "ops/local_parts.h"
#include "ops/local_places.h"

/* ---- Split ---------------------------------------------------------------------------------------------------- */

/* The parts of the cut axis are equal: what there is of one on this device there is of all. Without sizes the node
   divides its part as it divides the whole. */
static void split_part(struct sp_local *local, bool is_input, int64_t size, struct sp_piece **outputs)
{
    int64_t *sizes = SP_LOCAL_ARRAY(local, local->output_count, int64_t);
    for (uint32_t i = 0; sizes != NULL && i < local->output_count; i++)
        sizes[i] = size;
    if (!sp_local_is_fine(local))
        return;
    if (is_input) {
        struct sp_piece *const inputs[] = {sp_local_input(local, 0), sp_local_ints(local, local->output_count, sizes)};
        sp_local_same_many(local, 2, inputs, 0, NULL, outputs);
    } else {
        struct sp_piece *const input = sp_local_input(local, 0);
        const struct sp_local_attribute attribute = SP_INTS_ATTR("split", local->output_count, sizes);
        sp_local_same_many(local, 1, &input, 1, &attribute, outputs);
    }
}

enum sp_status sp_local_node_split(struct sp_local *local)
{
    struct sp_op_context context = sp_local_context(local);
    uint32_t axis = 0;
    enum sp_status status =
        sp_normalize_axis(&context, sp_node_int(local->node, "axis", 0), local->inputs[0].rank, &axis);
    sp_local_failed(local, status);
    if (status != SP_OK)
        return sp_local_status(local);
    bool is_input = local->input_count > 1 && local->inputs[1].value != NULL;
    bool has_sizes = is_input || (local->version < 13 && sp_node_attribute(local->node, "split") != NULL);
    if (!has_sizes || !sp_local_is_cut(&local->inputs[0], axis))
        return sp_local_default(local);
    int64_t size = 0;
    struct sp_piece **outputs = SP_LOCAL_ARRAY(local, local->output_count, struct sp_piece *);
    for (uint32_t i = 0; i < local->output_count; i++) {
        if (local->outputs[i].value != NULL)
            size = local->outputs[i].axes[axis].size;
    }
    if (outputs == NULL)
        return sp_local_status(local);
    split_part(local, is_input, size, outputs);
    for (uint32_t i = 0; i < local->output_count; i++) {
        if (local->outputs[i].value != NULL)
            sp_local_output(local, i, outputs[i]);
    }
    return sp_local_status(local);
}

/* ---- DepthToSpace, SpaceToDepth ------------------------------------------------------------------------------- */

/* Six axes of a block layout, and where each of the result's six comes from. */
struct blocks {
    char names[6][3];
    int64_t perm[6];
};

/* The extents of this device's part of the factors that the axes are named after; the only one that is not known is -1.
   False where there are several. */
static bool block_sizes(const struct sp_local *local, const struct blocks *blocks, int64_t sizes[6])
{
    uint32_t open = 0;
    for (uint32_t i = 0; i < 6; i++) {
        for (uint32_t factor = 0; factor < local->factor_count; factor++) {
            if (strcmp(local->rule->factors[factor].name, blocks->names[i]) == 0)
                sizes[i] = local->factors[factor].size;
        }
        open += sizes[i] < 0;
    }
    return open <= 1;
}

/* A cut block has no block size: the same by Reshape and Transpose. */
static void move_blocks(struct sp_local *local, const struct blocks *blocks)
{
    int64_t sizes[6] = {0}, dims[4];
    bool is_said = block_sizes(local, blocks, sizes);
    for (uint32_t axis = 0; axis < 4; axis++)
        dims[axis] = local->outputs[0].axes[axis].size;
    uint32_t open = 0;
    for (uint32_t axis = 0; axis < 4; axis++)
        open += dims[axis] < 0;
    if (!is_said || open > 1) {
        char subject[300];
        sp_local_any_whole(local,
                           "%s has a block that is cut and several axes of unknown extent, so it is computed "
                           "whole on every device.",
                           sp_op_subject(local->node, subject, sizeof(subject)));
        return;
    }
    struct sp_piece *x = sp_local_reshape(local, sp_local_input(local, 0), 6, sizes);
    x = sp_local_transpose(local, x, 6, blocks->perm);
    sp_local_output(local, 0, sp_local_reshape(local, x, 4, dims));
}

static bool is_block_cut(const struct sp_local *local)
{
    return sp_local_split_named(local, "b1") != SP_RULE_NO_FACTOR ||
           sp_local_split_named(local, "b2") != SP_RULE_NO_FACTOR;
}

enum sp_status sp_local_node_depth_to_space(struct sp_local *local)
{
    static const struct blocks dcr = {{"n", "b1", "b2", "c", "h", "w"}, {0, 3, 4, 1, 5, 2}};
    static const struct blocks crd = {{"n", "c", "b1", "b2", "h", "w"}, {0, 1, 4, 2, 5, 3}};
    if (!is_block_cut(local))
        return sp_local_default(local);
    bool is_crd = strcmp(sp_node_string(local->node, "mode", "DCR"), "CRD") == 0;
    move_blocks(local, is_crd ? &crd : &dcr);
    return sp_local_status(local);
}

enum sp_status sp_local_node_space_to_depth(struct sp_local *local)
{
    static const struct blocks blocks = {{"n", "c", "h", "b1", "w", "b2"}, {0, 3, 5, 1, 2, 4}};
    if (!is_block_cut(local))
        return sp_local_default(local);
    move_blocks(local, &blocks);
    return sp_local_status(local);
}

/* ---- CastLike ------------------------------------------------------------------------------------------------- */

/* A cast to a type that is known: the tensor that only names it is not brought here. */
enum sp_status sp_local_node_cast_like(struct sp_local *local)
{
    const struct sp_value *like = local->inputs[1].value;
    if (like->type.dtype == SP_DTYPE_UNDEFINED)
        return sp_local_default(local);
    struct sp_local_attribute attributes[3] = {SP_INT_ATTR("to", like->type.dtype)};
    uint32_t count = 1;
    const struct sp_attribute *saturate = sp_node_attribute(local->node, "saturate");
    if (saturate != NULL)
        attributes[count++] = SP_INT_ATTR("saturate", saturate->i);
    if (sp_node_attribute(local->node, "round_mode") != NULL)
        attributes[count++] = (struct sp_local_attribute){
            .name = "round_mode", .type = SP_ATTR_STRING, .s = sp_node_string(local->node, "round_mode", "up")};
    struct sp_piece *const x = sp_local_input(local, 0);
    struct sp_piece *cast = sp_local_op(local, "Cast", like->type.dtype, 1, &x, count, attributes);
    if (x != NULL && x->dims != NULL)
        sp_piece_set_dims(local, cast, x->rank, x->dims);
    sp_local_output(local, 0, cast);
    return sp_local_status(local);
}
