/*
 * Normalisations of ONNX Runtime on shards (rules in contrib_normalization.c): what is added before is added on the
 * parts; statistics are those of all.
 */
#include "ops/local_functions.h"
#include "ops/local_statistics.h"

#define DOMAIN "com.microsoft"

static struct sp_piece *wide_input(struct sp_local *local, uint32_t input, enum sp_dtype dtype)
{
    struct sp_piece *piece = sp_local_input(local, input);
    return piece != NULL ? sp_local_cast(local, piece, dtype) : NULL;
}

static struct sp_piece *with(struct sp_local *local, const char *op_type, struct sp_piece *x, struct sp_piece *other)
{
    return other != NULL ? sp_local_binary(local, op_type, x, other) : x;
}

/* ---- Skip.. ----------------------------------------------------------------------------------------------------- */

/* (x, skip, gamma, beta?, bias?) with has_mean, else (x, skip, gamma, bias?) */
static enum sp_status skip_norm(struct sp_local *local, bool has_mean)
{
    struct sp_local_span span = sp_local_reductions(local, 0);
    struct sp_piece *x = span.factor_count > 0 ? sp_local_input(local, 0) : NULL;
    if (x == NULL)
        return span.factor_count > 0 ? sp_local_status(local) : sp_local_default(local);
    enum sp_dtype dtype = sp_local_wide(x->dtype);
    double epsilon = sp_node_float(local->node, "epsilon", 1e-12);
    struct sp_piece *sum = sp_local_binary(local, "Add", sp_local_cast(local, x, dtype), wide_input(local, 1, dtype));
    sum = with(local, "Add", sum, wide_input(local, has_mean ? 4 : 3, dtype));
    struct sp_local_moments moments = sp_local_moments_of(local, sum, &span, has_mean);
    struct sp_piece *inverse = sp_local_inverse_deviation(local, moments.variance, epsilon);
    struct sp_piece *y = sp_local_binary(local, "Mul", moments.centred, inverse);
    y = sp_local_binary(local, "Mul", y, wide_input(local, 2, dtype));
    if (has_mean)
        y = with(local, "Add", y, wide_input(local, 3, dtype));
    sp_local_give(local, 0, y);
    if (!has_mean && sp_local_output_dtype(local, 1) != SP_DTYPE_UNDEFINED)
        moments.mean = sp_local_mean(local, sum, &span, true);
    sp_local_give(local, 1, moments.mean);
    sp_local_give(local, 2, inverse);
    sp_local_give(local, 3, sum);
    return sp_local_status(local);
}

enum sp_status sp_local_skip_layer_norm(struct sp_local *local)
{
    return skip_norm(local, true);
}

enum sp_status sp_local_skip_rms_norm(struct sp_local *local)
{
    return skip_norm(local, false);
}

/* ---- EmbedLayerNormalization ------------------------------------------------------------------------------------ */

enum { IN_GAMMA = 5, IN_BETA = 6, IN_MASK = 7 };
enum { OUT_Y, OUT_MASK_INDEX, OUT_SUM };

/* On its part of the rows the operator itself gives the sum of rows, and counts the mask; what it normalises is of the
   part only, and left. */
enum sp_status sp_local_embed_layer_norm(struct sp_local *local)
{
    struct sp_local_span span = sp_local_reductions(local, 2);
    if (span.factor_count == 0)
        return sp_local_default(local);
    struct sp_piece **inputs = SP_NEW_ARRAY(local->arena, local->input_count, struct sp_piece *), *outputs[3];
    if (inputs == NULL)
        return sp_fail_memory(local->err);
    for (uint32_t i = 0; i < local->input_count; i++)
        inputs[i] = sp_local_input(local, i);
    enum sp_dtype own = sp_local_output_dtype(local, OUT_Y), dtype = sp_local_wide(own);
    double epsilon = sp_node_float(local->node, "epsilon", 1e-12);
    const struct sp_local_attribute attributes[] = {
        {.name = "epsilon", .type = SP_ATTR_FLOAT, .f = epsilon},
        SP_INT_ATTR("mask_index_type", sp_node_int(local->node, "mask_index_type", 0)),
    };
    const enum sp_dtype dtypes[] = {own, SP_DTYPE_INT32, own};
    bool has_type = sp_node_attribute(local->node, "mask_index_type") != NULL;
    sp_local_op_many(local, DOMAIN, "EmbedLayerNormalization", local->input_count, inputs, has_type ? 2 : 1, attributes,
                     3, dtypes, outputs);
    if (outputs[OUT_SUM] == NULL)
        return sp_local_status(local);
    if (local->outputs[OUT_Y].rank == 3)
        sp_piece_set_dims(local, outputs[OUT_SUM], 3,
                          (const int64_t[]){local->outputs[OUT_Y].axes[0].size, local->outputs[OUT_Y].axes[1].size,
                                            local->outputs[OUT_Y].axes[2].size});
    span.axes = 1 << 2; /* of the sum [b, s, h] */
    struct sp_local_moments moments =
        sp_local_moments_of(local, sp_local_cast(local, outputs[OUT_SUM], dtype), &span, true);
    struct sp_piece *inverse = sp_local_inverse_deviation(local, moments.variance, epsilon);
    struct sp_piece *y = sp_local_binary(local, "Mul", moments.centred, inverse);
    y = sp_local_binary(local, "Mul", y, wide_input(local, IN_GAMMA, dtype));
    sp_local_give(local, OUT_Y, with(local, "Add", y, wide_input(local, IN_BETA, dtype)));
    sp_local_give(local, OUT_MASK_INDEX, outputs[OUT_MASK_INDEX]);
    sp_local_give(local, OUT_SUM, outputs[OUT_SUM]);
    return sp_local_status(local);
}
