/*
 * Normalisations of ONNX Runtime.
 *
 *     SimplifiedLayerNormalization        [i.., j..] [j..] -> [i.., j..] [i.., 1..]           j.. moments
 *     SkipLayerNormalization              [i.., j] [i.., j] [j] [j] [j] -> [i.., j] .. [i.., j]      j moments
 *     SkipSimplifiedLayerNormalization    the same without the second vector
 *     EmbedLayerNormalization             [b, s] [b, s] [v, h] [p, h] [u, h] [h] [h] -> [b, s, h]    h moments
 *
 * SimplifiedLayerNormalization is RMSNormalization, which came later; ONNX Runtime knows it, and LayerNormalization
 * from before opset 17, in the domain ai.onnx, where exported models have them.
 *
 * EmbedLayerNormalization adds rows that are picked from tables, and normalises. A row comes from one device only if it
 * has the whole table (v, p, u whole), since no sum of parts can be made before the normalisation. Without position_ids
 * an element's place in the sequence is its row of positions, so s is whole; also where the valid elements are counted.
 *
 * FLOPs for each element: LayerNormalization's 5 (4 without a mean), 1 for each operand that is added before.
 */
#include "ops/families/math/broadcast.h"
#include "ops/families/neural/heads.h"
#include "ops/families/neural/normalization.h"
#include "ops/lowering/functions.h"
#include "ops/table/families.h"
#include "ops/table/traffic.h"

#define DOMAIN "com.microsoft"

/* ---- Skip.. --------------------------------------------------------------------------------------------------- */

enum { OUT_Y, OUT_MEAN, OUT_DEVIATION, OUT_SUM };

static enum sp_status shapes_skip(struct sp_op_context *context)
{
    const struct sp_shape *x = sp_in_shape(context, 0);
    enum sp_dtype dtype = sp_in_dtype(context, 0);
    if (x != NULL && x->rank == 0)
        return sp_op_fail(context, "OPERAND_SHAPE", "its input is a scalar");
    enum sp_status status = SP_OK;
    for (uint32_t input = 1; x != NULL && status == SP_OK && input < context->node->input_count; input++)
        status = sp_check_broadcasts_to(context, input, x);
    if (status == SP_OK)
        status = sp_set_output_shape(context, OUT_Y, dtype, x);
    if (status == SP_OK)
        status = sp_set_output_shape(context, OUT_SUM, dtype, x);
    struct sp_dim *dims = x != NULL ? sp_new_dims(context, x->rank) : NULL;
    if (status != SP_OK || dims == NULL)
        return status != SP_OK || x == NULL ? status : sp_fail_memory(context->err);
    for (uint32_t axis = 0; axis < x->rank; axis++)
        dims[axis] = axis + 1 < x->rank ? x->dims[axis] : sp_dim_known(1);
    for (uint32_t output = OUT_MEAN; status == SP_OK && output <= OUT_DEVIATION; output++)
        status = sp_set_output(context, output, SP_DTYPE_FLOAT, x->rank, dims);
    return status;
}

static enum sp_status rule_skips(struct sp_op_context *context, struct sp_rule *rule, double flops)
{
    enum sp_status status = sp_rule_from_entry(context, rule, context->node->op);
    sp_rule_term_output(rule, flops);
    return status;
}

static enum sp_status rule_skip(struct sp_op_context *context, struct sp_rule *rule)
{
    return rule_skips(context, rule, sp_has_input(context, 4) ? 7 : 6);
}

static enum sp_status rule_skip_simplified(struct sp_op_context *context, struct sp_rule *rule)
{
    return rule_skips(context, rule, sp_has_input(context, 3) ? 6 : 5);
}

/* ---- EmbedLayerNormalization ---------------------------------------------------------------------------------- */

enum { IN_IDS, IN_SEGMENTS, IN_WORDS, IN_ROWS, IN_SEGMENT_ROWS, IN_GAMMA, IN_BETA, IN_MASK, IN_POSITIONS };

static enum sp_status check_embedding(struct sp_op_context *context)
{
    static const struct {
        uint32_t input, rank;
        bool is_required;
    } inputs[] = {{IN_IDS, 2, true},           {IN_SEGMENTS, 2, false}, {IN_WORDS, 2, true},
                  {IN_ROWS, 2, true},          {IN_GAMMA, 1, true},     {IN_BETA, 1, true},
                  {IN_SEGMENT_ROWS, 2, false}, {IN_MASK, 2, false},     {IN_POSITIONS, 2, false}};
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        const struct sp_shape *shape = sp_in_shape(context, inputs[i].input);
        if (inputs[i].is_required && !sp_has_input(context, inputs[i].input))
            return sp_op_fail(context, "MISSING_INPUT", "its input %u is missing", inputs[i].input);
        if (shape != NULL && shape->rank != inputs[i].rank)
            return sp_op_fail(context, "OPERAND_SHAPE", "its input %u has rank %u instead of %u", inputs[i].input,
                              shape->rank, inputs[i].rank);
    }
    return SP_OK;
}

static enum sp_status shapes_embedding(struct sp_op_context *context)
{
    const struct sp_shape *ids = sp_in_shape(context, IN_IDS), *words = sp_in_shape(context, IN_WORDS);
    enum sp_status status = check_embedding(context);
    if (status != SP_OK)
        return status;
    struct sp_dim b = ids != NULL ? ids->dims[0] : sp_dim_unknown(), s = ids != NULL ? ids->dims[1] : sp_dim_unknown();
    const struct sp_dim dims[] = {b, s, words != NULL ? words->dims[1] : sp_dim_unknown()};
    status = sp_set_output(context, 0, sp_in_dtype(context, IN_WORDS), 3, dims);
    if (status == SP_OK)
        status = sp_set_output(context, 1, SP_DTYPE_INT32, 1, dims);
    return status != SP_OK ? status : sp_set_output(context, 2, sp_in_dtype(context, IN_WORDS), 3, dims);
}

static enum sp_status rule_embedding(struct sp_op_context *context, struct sp_rule *rule)
{
    static const char placed[] = "[b, s] [b, s] [v, h] [p, h] [u, h] [h] [h] [b, s] [b, s] -> [b, s, h] [b] [b, s, h]; "
                                 "h moments; s, v, p, u whole";
    static const char free[] = "[b, s] [b, s] [v, h] [p, h] [u, h] [h] [h] [b, s] [b, s] -> [b, s, h] [b] [b, s, h]; "
                               "h moments; v, p, u whole";
    bool is_placed = !sp_has_input(context, IN_POSITIONS) || sp_place_shape(context, sp_out(1)) != NULL;
    enum sp_status status = sp_rule_from_text(context, rule, is_placed ? placed : free, 0, NULL);
    sp_rule_term_output(rule, sp_has_input(context, IN_SEGMENTS) ? 7 : 6);
    if (status != SP_OK)
        return status;
    static const uint32_t tables[] = {IN_WORDS, IN_ROWS, IN_SEGMENT_ROWS};
    struct sp_factor_list tokens = {0};
    sp_factor_list_add(&tokens, sp_rule_named(rule, "b"));
    sp_factor_list_add(&tokens, sp_rule_named(rule, "s"));
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        const struct sp_shape *table = sp_in_shape(context, tables[i]);
        if (table != NULL && table->rank > 0)
            sp_rule_use_input(rule, tables[i], sp_dim_share(sp_dim_known(1), table->dims[0]), &tokens);
    }
    return status;
}

/* ---- the entries ---------------------------------------------------------------------------------------------- */

const struct sp_op sp_ops_contrib_normalization[] = {
    SP_ENTRY("", "SimplifiedLayerNormalization", 1, 0, 2, 2, 1, 2,
             "[i.., j..] [j..] -> [i.., j..] [i.., 1..]; j.. moments",
             "ONNX Runtime contrib operator SimplifiedLayerNormalization", .shapes = sp_shapes_layer_norm,
             .axes = sp_axes_from_axis, .flops = 4, .lower = sp_lower_rms_norm,
             .signature = "(X,scale) -> (Y,inv_std_var?) {axis:int=-1,epsilon:float=1e-05,stash_type:int=1}"),
    SP_ENTRY(DOMAIN, "SimplifiedLayerNormalization", 1, 0, 2, 2, 1, 2,
             "[i.., j..] [j..] -> [i.., j..] [i.., 1..]; j.. moments",
             "ONNX Runtime contrib operator SimplifiedLayerNormalization", .shapes = sp_shapes_layer_norm,
             .axes = sp_axes_from_axis, .flops = 4, .lower = sp_lower_rms_norm,
             .signature = "(X,scale) -> (Y,inv_std_var?) {axis:int=-1,epsilon:float=1e-05,stash_type:int=1}"),
    SP_ENTRY("", "LayerNormalization", 1, 16, 2, 3, 1, 3,
             "[i.., j..] [j..] [j..] -> [i.., j..] [i.., 1..] [i.., 1..]; j.. moments",
             "ONNX Runtime contrib operator LayerNormalization", .shapes = sp_shapes_layer_norm,
             .axes = sp_axes_from_axis, .flops = 5, .lower = sp_lower_layer_norm,
             .signature = "(X,Scale,B?) -> (Y,Mean?,InvStdDev?) {axis:int=-1,epsilon:float=1e-05,"
                          "stash_type:int=1}"),
    SP_ENTRY(DOMAIN, "SkipLayerNormalization", 1, 0, 3, 5, 1, 4,
             "[i.., j] [i.., j] [j] [j] [j] -> [i.., j] [i.., 1] [i.., 1] [i.., j]; j moments",
             "ONNX Runtime contrib operator SkipLayerNormalization", .shapes = shapes_skip, .rule = rule_skip,
             .lower = sp_lower_skip_layer_norm,
             .signature = "(input,skip,gamma,beta?,bias?) -> (output,mean?,inv_std_var?,"
                          "input_skip_bias_sum?) {epsilon:float=1e-12}"),
    SP_ENTRY(DOMAIN, "SkipSimplifiedLayerNormalization", 1, 0, 3, 4, 1, 4,
             "[i.., j] [i.., j] [j] [j] -> [i.., j] [i.., 1] [i.., 1] [i.., j]; j moments",
             "ONNX Runtime contrib operator SkipSimplifiedLayerNormalization", .shapes = shapes_skip,
             .rule = rule_skip_simplified, .lower = sp_lower_skip_rms_norm,
             .signature = "(input,skip,gamma,bias?) -> (output,mean?,inv_std_var?,"
                          "input_skip_bias_sum?) {epsilon:float=1e-12}"),
    SP_ENTRY(DOMAIN, "EmbedLayerNormalization", 1, 0, 1, 9, 1, 3,
             "[b, s] [b, s] [v, h] [p, h] [u, h] [h] [h] [b, s] [b, s] -> [b, s, h] [b] [b, s, h]; h moments, v, p, u "
             "whole, without positions s whole",
             "ONNX Runtime contrib operator EmbedLayerNormalization", .shapes = shapes_embedding,
             .rule = rule_embedding, .lower = sp_lower_embed_layer_norm,
             .signature = "(input_ids,segment_ids?,word_embedding,position_embedding,segment_embedding?,gamma,"
                          "beta,mask?,position_ids?) -> (output,mask_index?,"
                          "embedding_sum?) {epsilon:float=1e-12,mask_index_type:int=0}"),
    {.name = NULL},
};
