/*
 * Normalisations of ONNX Runtime on shards (rules in contrib_normalization.c): what is added before is added on the
 * parts; statistics are those of all.
 */
#include "ops/lowering/functions.h"
#include "ops/lowering/statistics.h"

#define DOMAIN "com.microsoft"

static struct sp_piece *wide_input(struct sp_lowering *lower, uint32_t input, enum sp_dtype dtype)
{
    struct sp_piece *piece = sp_lower_input(lower, input);
    return piece != NULL ? sp_lower_cast(lower, piece, dtype) : NULL;
}

static struct sp_piece *with(struct sp_lowering *lower, const char *op_type, struct sp_piece *x, struct sp_piece *other)
{
    return other != NULL ? sp_lower_binary(lower, op_type, x, other) : x;
}

/* ---- Skip.. ----------------------------------------------------------------------------------------------------- */

/* (x, skip, gamma, beta?, bias?) with has_mean, else (x, skip, gamma, bias?) */
static enum sp_status skip_norm(struct sp_lowering *lower, bool has_mean)
{
    struct sp_lower_span span = sp_lower_reductions(lower, 0);
    struct sp_piece *x = span.factor_count > 0 ? sp_lower_input(lower, 0) : NULL;
    if (x == NULL)
        return span.factor_count > 0 ? sp_lower_status(lower) : sp_lower_default(lower);
    enum sp_dtype dtype = sp_lower_wide(x->dtype);
    double epsilon = sp_node_float(lower->node, "epsilon", 1e-12);
    struct sp_piece *sum = sp_lower_binary(lower, "Add", sp_lower_cast(lower, x, dtype), wide_input(lower, 1, dtype));
    sum = with(lower, "Add", sum, wide_input(lower, has_mean ? 4 : 3, dtype));
    struct sp_lower_moments moments = sp_lower_moments_of(lower, sum, &span, has_mean);
    struct sp_piece *inverse = sp_lower_inverse_deviation(lower, moments.variance, epsilon);
    struct sp_piece *y = sp_lower_binary(lower, "Mul", moments.centred, inverse);
    y = sp_lower_binary(lower, "Mul", y, wide_input(lower, 2, dtype));
    if (has_mean)
        y = with(lower, "Add", y, wide_input(lower, 3, dtype));
    sp_lower_give(lower, 0, y);
    if (!has_mean && sp_lower_output_dtype(lower, 1) != SP_DTYPE_UNDEFINED)
        moments.mean = sp_lower_mean(lower, sum, &span, true);
    sp_lower_give(lower, 1, moments.mean);
    sp_lower_give(lower, 2, inverse);
    sp_lower_give(lower, 3, sum);
    return sp_lower_status(lower);
}

enum sp_status sp_lower_skip_layer_norm(struct sp_lowering *lower)
{
    return skip_norm(lower, true);
}

enum sp_status sp_lower_skip_rms_norm(struct sp_lowering *lower)
{
    return skip_norm(lower, false);
}

/* ---- EmbedLayerNormalization ------------------------------------------------------------------------------------ */

enum { IN_GAMMA = 5, IN_BETA = 6, IN_MASK = 7 };
enum { OUT_Y, OUT_MASK_INDEX, OUT_SUM };

/* On its part of the rows the operator itself gives the sum of rows, and counts the mask; what it normalises is of the
   part only, and left. */
enum sp_status sp_lower_embed_layer_norm(struct sp_lowering *lower)
{
    struct sp_lower_span span = sp_lower_reductions(lower, 2);
    if (span.factor_count == 0)
        return sp_lower_default(lower);
    struct sp_piece **inputs = SP_NEW_ARRAY(lower->arena, lower->input_count, struct sp_piece *), *outputs[3];
    if (inputs == NULL)
        return sp_fail_memory(lower->err);
    for (uint32_t i = 0; i < lower->input_count; i++)
        inputs[i] = sp_lower_input(lower, i);
    enum sp_dtype own = sp_lower_output_dtype(lower, OUT_Y), dtype = sp_lower_wide(own);
    double epsilon = sp_node_float(lower->node, "epsilon", 1e-12);
    const struct sp_lower_attribute attributes[] = {
        {.name = "epsilon", .type = SP_ATTR_FLOAT, .f = epsilon},
        SP_INT_ATTR("mask_index_type", sp_node_int(lower->node, "mask_index_type", 0)),
    };
    const enum sp_dtype dtypes[] = {own, SP_DTYPE_INT32, own};
    bool has_type = sp_node_attribute(lower->node, "mask_index_type") != NULL;
    sp_lower_op_many(lower,
                     &(struct sp_lower_call){DOMAIN, "EmbedLayerNormalization", lower->input_count, inputs,
                                             has_type ? 2 : 1, attributes, 3},
                     dtypes, outputs);
    if (outputs[OUT_SUM] == NULL)
        return sp_lower_status(lower);
    if (lower->outputs[OUT_Y].rank == 3)
        sp_piece_set_dims(lower, outputs[OUT_SUM], 3,
                          (const int64_t[]){lower->outputs[OUT_Y].axes[0].size, lower->outputs[OUT_Y].axes[1].size,
                                            lower->outputs[OUT_Y].axes[2].size});
    span.axes = 1 << 2; /* of the sum [b, s, h] */
    struct sp_lower_moments moments =
        sp_lower_moments_of(lower, sp_lower_cast(lower, outputs[OUT_SUM], dtype), &span, true);
    struct sp_piece *inverse = sp_lower_inverse_deviation(lower, moments.variance, epsilon);
    struct sp_piece *y = sp_lower_binary(lower, "Mul", moments.centred, inverse);
    y = sp_lower_binary(lower, "Mul", y, wide_input(lower, IN_GAMMA, dtype));
    sp_lower_give(lower, OUT_Y, with(lower, "Add", y, wide_input(lower, IN_BETA, dtype)));
    sp_lower_give(lower, OUT_MASK_INDEX, outputs[OUT_MASK_INDEX]);
    sp_lower_give(lower, OUT_SUM, outputs[OUT_SUM]);
    return sp_lower_status(lower);
}
