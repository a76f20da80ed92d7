/*
 * Split, DepthToSpace, SpaceToDepth and CastLike on shards. Concat and Transpose are right as they are.
 */
#include <string.h>

#include "ops/lowering/functions.h"
#include "ops/lowering/internal.h"
#include "ops/lowering/parts.h"
#include "ops/lowering/places.h"
#include "ops/table/shape_helpers.h"

/* ---- Split ---------------------------------------------------------------------------------------------------- */

/* The parts of the cut axis are equal: what there is of one on this device there is of all. Without sizes the node
   divides its part as it divides the whole. */
static void split_part(struct sp_lowering *lower, bool is_input, int64_t size, struct sp_piece **outputs)
{
    int64_t *sizes = SP_LOWER_ARRAY(lower, lower->output_count, int64_t);
    for (uint32_t i = 0; sizes != NULL && i < lower->output_count; i++)
        sizes[i] = size;
    if (!sp_lower_is_fine(lower))
        return;
    if (is_input) {
        struct sp_piece *const inputs[] = {sp_lower_input(lower, 0), sp_lower_ints(lower, lower->output_count, sizes)};
        sp_lower_same_many(lower, 2, inputs, 0, NULL, outputs);
    } else {
        struct sp_piece *const input = sp_lower_input(lower, 0);
        const struct sp_lower_attribute attribute = SP_INTS_ATTR("split", lower->output_count, sizes);
        sp_lower_same_many(lower, 1, &input, 1, &attribute, outputs);
    }
}

enum sp_status sp_lower_node_split(struct sp_lowering *lower)
{
    struct sp_op_context context = sp_lower_context(lower);
    uint32_t axis = 0;
    enum sp_status status =
        sp_normalize_axis(&context, sp_node_int(lower->node, "axis", 0), lower->inputs[0].rank, &axis);
    sp_lower_failed(lower, status);
    if (status != SP_OK)
        return sp_lower_status(lower);
    bool is_input = lower->input_count > 1 && lower->inputs[1].value != NULL;
    bool has_sizes = is_input || (lower->version < 13 && sp_node_attribute(lower->node, "split") != NULL);
    if (!has_sizes || !sp_lower_is_cut(&lower->inputs[0], axis))
        return sp_lower_default(lower);
    int64_t size = 0;
    struct sp_piece **outputs = SP_LOWER_ARRAY(lower, lower->output_count, struct sp_piece *);
    for (uint32_t i = 0; i < lower->output_count; i++) {
        if (lower->outputs[i].value != NULL)
            size = lower->outputs[i].axes[axis].size;
    }
    if (outputs == NULL)
        return sp_lower_status(lower);
    split_part(lower, is_input, size, outputs);
    for (uint32_t i = 0; i < lower->output_count; i++) {
        if (lower->outputs[i].value != NULL)
            sp_lower_output(lower, i, outputs[i]);
    }
    return sp_lower_status(lower);
}

/* ---- DepthToSpace, SpaceToDepth ------------------------------------------------------------------------------- */

/* Six axes of a block layout, and where each of the result's six comes from. */
struct blocks {
    char names[6][3];
    int64_t perm[6];
};

/* The extents of this device's part of the factors that the axes are named after; the only one that is not known is -1.
   False where there are several. */
static bool block_sizes(const struct sp_lowering *lower, const struct blocks *blocks, int64_t sizes[6])
{
    uint32_t open = 0;
    for (uint32_t i = 0; i < 6; i++) {
        for (uint32_t factor = 0; factor < lower->factor_count; factor++) {
            if (strcmp(lower->rule->factors[factor].name, blocks->names[i]) == 0)
                sizes[i] = lower->factors[factor].size;
        }
        open += sizes[i] < 0;
    }
    return open <= 1;
}

/* A cut block has no block size: the same by Reshape and Transpose. */
static void move_blocks(struct sp_lowering *lower, const struct blocks *blocks)
{
    int64_t sizes[6] = {0}, dims[4];
    bool is_said = block_sizes(lower, blocks, sizes);
    for (uint32_t axis = 0; axis < 4; axis++)
        dims[axis] = lower->outputs[0].axes[axis].size;
    uint32_t open = 0;
    for (uint32_t axis = 0; axis < 4; axis++)
        open += dims[axis] < 0;
    if (!is_said || open > 1) {
        char subject[300];
        sp_lower_any_whole(lower,
                           "%s has a block that is cut and several axes of unknown extent, so it is computed "
                           "whole on every device.",
                           sp_op_subject(lower->node, subject, sizeof subject));
        return;
    }
    struct sp_piece *x = sp_lower_reshape(lower, sp_lower_input(lower, 0), 6, sizes);
    x = sp_lower_transpose(lower, x, 6, blocks->perm);
    sp_lower_output(lower, 0, sp_lower_reshape(lower, x, 4, dims));
}

static bool is_block_cut(const struct sp_lowering *lower)
{
    return sp_lower_split_named(lower, "b1") != SP_RULE_NO_FACTOR ||
           sp_lower_split_named(lower, "b2") != SP_RULE_NO_FACTOR;
}

static bool is_crd(const struct sp_lowering *lower)
{
    return strcmp(sp_node_string(lower->node, "mode", "DCR"), "CRD") == 0;
}

enum sp_status sp_lower_node_depth_to_space(struct sp_lowering *lower)
{
    static const struct blocks dcr = {{"n", "b1", "b2", "c", "h", "w"}, {0, 3, 4, 1, 5, 2}};
    static const struct blocks crd = {{"n", "c", "b1", "b2", "h", "w"}, {0, 1, 4, 2, 5, 3}};
    if (!is_block_cut(lower))
        return sp_lower_default(lower);
    move_blocks(lower, is_crd(lower) ? &crd : &dcr);
    return sp_lower_status(lower);
}

enum sp_status sp_lower_node_space_to_depth(struct sp_lowering *lower)
{
    static const struct blocks dcr = {{"n", "c", "h", "b1", "w", "b2"}, {0, 3, 5, 1, 2, 4}};
    static const struct blocks crd = {{"n", "c", "h", "b1", "w", "b2"}, {0, 1, 3, 5, 2, 4}};
    if (!is_block_cut(lower))
        return sp_lower_default(lower);
    move_blocks(lower, is_crd(lower) ? &crd : &dcr);
    return sp_lower_status(lower);
}

/* ---- CastLike ------------------------------------------------------------------------------------------------- */

/* A cast to a type that is known: the tensor that only names it is not brought here. */
enum sp_status sp_lower_node_cast_like(struct sp_lowering *lower)
{
    const struct sp_value *like = lower->inputs[1].value;
    if (like->type.dtype == SP_DTYPE_UNDEFINED)
        return sp_lower_default(lower);
    struct sp_lower_attribute attributes[3] = {SP_INT_ATTR("to", like->type.dtype)};
    uint32_t count = 1;
    const struct sp_attribute *saturate = sp_node_attribute(lower->node, "saturate");
    if (saturate != NULL)
        attributes[count++] = SP_INT_ATTR("saturate", saturate->i);
    if (sp_node_attribute(lower->node, "round_mode") != NULL)
        attributes[count++] = (struct sp_lower_attribute){
            .name = "round_mode", .type = SP_ATTR_STRING, .s = sp_node_string(lower->node, "round_mode", "up")};
    struct sp_piece *const x = sp_lower_input(lower, 0);
    struct sp_piece *cast = sp_lower_op(lower, "Cast", like->type.dtype, 1, &x, count, attributes);
    if (x != NULL && x->dims != NULL)
        sp_piece_set_dims(lower, cast, x->rank, x->dims);
    sp_lower_output(lower, 0, cast);
    return sp_lower_status(lower);
}
