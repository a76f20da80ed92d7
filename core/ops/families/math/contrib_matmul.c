/*
 * Matrix products of ONNX Runtime (com.microsoft).
 *
 *     FusedMatMul    [b.., m, k] [b.., k, n] -> [b.., m, n]     k sum; operands may be given transposed
 *     FusedGemm      [m, k] [k, n] [m, n] -> [m, n]             k whole: an activation is behind it
 *     MatMulNBits    [b.., k*kb] [n, k, _] [n, k] [n, k] -> [b.., n]
 *
 * FusedMatMul can read its last two axes swapped (transA), and its rows from axis 0 with the batch behind
 * (transBatchA).
 *
 * MatMulNBits has weights of few bits in blocks of kb along the contracted axis, a blob of bytes and a scale for each
 * block. k counts blocks, and is a sum reduction that is split in whole blocks. Zero points may be packed as the
 * weights are, then k is split in as many blocks as share a byte (kz). With g_idx any row may belong to any block: k is
 * whole.
 *
 * FLOPs: 2 for each multiply-add, 1 for each output element of a bias. Weights are read as they are packed.
 */
#include "ops/families/neural/heads.h"
#include "ops/lowering/functions.h"
#include "ops/table/families.h"
#include "ops/table/like.h"

#define DOMAIN "com.microsoft"

/* ---- FusedMatMul ---------------------------------------------------------------------------------------------- */

/* Where an operand has its logical axes: batch.., row, column. A vector is a row (first operand) or a column. */
struct layout {
    uint32_t rank, batch_rank;
    bool has_row, has_column;
    uint32_t first_batch, row, column; /* axes of the operand */
    struct sp_dim *dims;
};

static enum sp_status check_matrices(struct sp_op_context *context)
{
    for (uint32_t input = 0; input < 2; input++) {
        const struct sp_shape *shape = sp_in_shape(context, input);
        if (shape != NULL && shape->rank == 0)
            return sp_op_fail(context, "OPERAND_SHAPE", "it multiplies matrices, and one of its inputs is a scalar");
    }
    return SP_OK;
}

/* Of an operand that is no scalar. */
static struct layout layout_of(struct sp_op_context *context, uint32_t input)
{
    const struct sp_shape *shape = sp_in_shape(context, input);
    struct layout layout = {.rank = shape->rank, .dims = shape->dims};
    if (shape->rank == 1) {
        layout.has_row = input == 1;
        layout.has_column = input == 0;
        return layout;
    }
    bool moves_batch =
        shape->rank > 2 && sp_node_int(context->node, input == 0 ? "transBatchA" : "transBatchB", 0) != 0;
    layout.has_row = layout.has_column = true;
    layout.batch_rank = shape->rank - 2;
    layout.first_batch = moves_batch ? 1 : 0;
    layout.row = moves_batch ? 0 : shape->rank - 2;
    layout.column = shape->rank - 1;
    if (sp_node_int(context->node, input == 0 ? "transA" : "transB", 0) != 0) {
        uint32_t row = layout.row;
        layout.row = layout.column;
        layout.column = row;
    }
    return layout;
}

static struct sp_shape batch_of(const struct layout *layout)
{
    return (struct sp_shape){.has_rank = true, .rank = layout->batch_rank, .dims = layout->dims + layout->first_batch};
}

static enum sp_status shapes_fused(struct sp_op_context *context)
{
    struct sp_shape batch = {0};
    enum sp_dtype dtype = sp_in_dtype(context, 0);
    if (sp_in_shape(context, 0) == NULL || sp_in_shape(context, 1) == NULL)
        return sp_set_output_unranked(context, 0, dtype);
    enum sp_status status = check_matrices(context);
    if (status != SP_OK)
        return status;
    struct layout a = layout_of(context, 0), b = layout_of(context, 1);
    status = sp_check_same(context, "contracted axes", a.dims[a.column], b.dims[b.row]);
    if (status != SP_OK)
        return status;
    struct sp_shape batch_a = batch_of(&a), batch_b = batch_of(&b);
    status = sp_broadcast(context, &batch_a, &batch_b, &batch);
    struct sp_dim *dims = status == SP_OK ? sp_new_dims(context, (uint64_t)batch.rank + 2) : NULL;
    if (dims == NULL)
        return status != SP_OK ? status : sp_fail_memory(context->err);
    uint32_t rank = 0;
    for (; rank < batch.rank; rank++)
        dims[rank] = batch.dims[rank];
    if (a.has_row)
        dims[rank++] = a.dims[a.row];
    if (b.has_column)
        dims[rank++] = b.dims[b.column];
    return sp_set_output(context, 0, dtype, rank, dims);
}

static void map_batch(struct sp_rule *rule, uint32_t input, const struct layout *layout, const struct sp_shape *y,
                      uint32_t batch_rank)
{
    for (uint32_t i = 0; i < layout->batch_rank && layout->batch_rank <= batch_rank; i++) {
        uint32_t factor = batch_rank - layout->batch_rank + i, axis = layout->first_batch + i;
        if (sp_axis_takes(layout->dims[axis], y->dims[factor]))
            sp_rule_map_input(rule, input, axis, (uint8_t)factor); /* batch factors were made first, in order */
    }
}

static enum sp_status rule_fused(struct sp_op_context *context, struct sp_rule *rule)
{
    const struct sp_shape *y = sp_place_shape(context, sp_out(0));
    struct sp_factor_list work = {0};
    enum sp_status status = check_matrices(context);
    if (status != SP_OK)
        return status;
    struct layout a = layout_of(context, 0), b = layout_of(context, 1);
    uint32_t batch_rank = y->rank - a.has_row - b.has_column, axis = batch_rank;
    for (uint32_t i = 0; i < batch_rank; i++)
        sp_factor_list_add(&work, sp_rule_output_axis(context, rule, 'b', 0, i, SP_FACTOR_PARALLEL));
    map_batch(rule, 0, &a, y, batch_rank);
    map_batch(rule, 1, &b, y, batch_rank);
    if (a.has_row) {
        uint8_t m = sp_rule_factor(rule, "m", SP_FACTOR_PARALLEL, y->dims[axis]);
        sp_rule_map_input(rule, 0, a.row, m);
        sp_rule_map_output(rule, 0, axis++, m);
        sp_factor_list_add(&work, m);
    }
    if (b.has_column) {
        uint8_t n = sp_rule_factor(rule, "n", SP_FACTOR_PARALLEL, y->dims[axis]);
        sp_rule_map_input(rule, 1, b.column, n);
        sp_rule_map_output(rule, 0, axis, n);
        sp_factor_list_add(&work, n);
    }
    struct sp_dim depth = a.dims[a.column];
    uint8_t k = sp_factor_reduction(rule, "k", sp_dim_is_known(depth) ? depth : b.dims[b.row], SP_COMBINE_SUM);
    sp_rule_map_input(rule, 0, a.column, k);
    sp_rule_map_input(rule, 1, b.row, k);
    sp_factor_list_add(&work, k);
    sp_rule_term_list(rule, 2, &work);
    return SP_OK;
}

/* ---- MatMulNBits ---------------------------------------------------------------------------------------------- */

enum { IN_A, IN_B, IN_SCALES, IN_ZERO_POINTS, IN_GROUPS, IN_BIAS };

struct quantized {
    int64_t n, k, block, bits, blocks;
    int64_t shared; /* blocks whose zero points share a byte; 1 when they are not packed */
    bool is_whole;  /* no split of k is one of everything that goes with it */
};

static enum sp_status read_quantized(struct sp_op_context *context, struct quantized *ret)
{
    struct quantized q = {.n = sp_node_int(context->node, "N", 0),
                          .k = sp_node_int(context->node, "K", 0),
                          .block = sp_node_int(context->node, "block_size", 0),
                          .bits = sp_node_int(context->node, "bits", 4),
                          .shared = 1};
    if (q.n < 1 || q.k < 1 || q.block < 1 || q.block > INT32_MAX || q.k > INT64_MAX - INT32_MAX)
        return sp_op_fail(context, "ATTRIBUTE_VALUE",
                          "attributes 'N', 'K' and 'block_size' must be given and positive");
    if (q.bits < 1 || q.bits > 8)
        return sp_op_fail(context, "ATTRIBUTE_VALUE", "attribute 'bits' is %lld instead of 1 to 8", (long long)q.bits);
    q.blocks = (q.k + q.block - 1) / q.block;
    if (sp_in_dtype(context, IN_ZERO_POINTS) == SP_DTYPE_UINT8 && 8 % q.bits == 0)
        q.shared = 8 / q.bits;
    q.is_whole = q.k % q.block != 0 || q.blocks % q.shared != 0 || sp_has_input(context, IN_GROUPS) ||
                 (sp_has_input(context, IN_ZERO_POINTS) && 8 % q.bits != 0);
    *ret = q;
    return SP_OK;
}

static enum sp_status shapes_nbits(struct sp_op_context *context)
{
    const struct sp_shape *a = sp_in_shape(context, IN_A), *b = sp_in_shape(context, IN_B);
    struct quantized q = {.shared = 1};
    enum sp_status status = read_quantized(context, &q);
    if (status == SP_OK)
        status = sp_check_rank(context, IN_BIAS, 1);
    if (status != SP_OK)
        return status;
    if (a == NULL)
        return sp_set_output_unranked(context, 0, sp_in_dtype(context, IN_A));
    if (a->rank == 0 || (b != NULL && b->rank == 0))
        return sp_op_fail(context, "OPERAND_SHAPE", "it multiplies matrices, and one of its inputs is a scalar");
    status = sp_check_same(context, "contracted axes", a->dims[a->rank - 1], sp_dim_known(q.k));
    struct sp_dim *dims = sp_new_dims(context, a->rank);
    if (status != SP_OK || dims == NULL)
        return status != SP_OK ? status : sp_fail_memory(context->err);
    for (uint32_t axis = 0; axis + 1 < a->rank; axis++)
        dims[axis] = a->dims[axis];
    dims[a->rank - 1] = sp_dim_known(q.n);
    return sp_set_output(context, 0, sp_in_dtype(context, IN_A), a->rank, dims);
}

/* Scales and zero points: [n, blocks], or flat; zero points of `shared` blocks lie in one byte. */
static void map_blocks(struct sp_op_context *context, struct sp_rule *rule, uint32_t input, uint8_t n,
                       const struct sp_chain *blocks)
{
    const struct sp_shape *shape = sp_in_shape(context, input);
    if (shape == NULL || shape->rank == 0)
        return;
    sp_rule_map_input(rule, input, 0, n);
    sp_map_chain(rule, sp_in(input), shape->rank > 1 ? 1 : 0, blocks);
}

static enum sp_status rule_nbits(struct sp_op_context *context, struct sp_rule *rule)
{
    const struct sp_shape *a = sp_in_shape(context, IN_A), *b = sp_in_shape(context, IN_B);
    struct quantized q = {.shared = 1};
    struct sp_factor_list work = {0};
    enum sp_status status = read_quantized(context, &q);
    if (status != SP_OK)
        return status;
    for (uint32_t axis = 0; axis + 1 < a->rank; axis++) {
        uint8_t factor = sp_rule_output_axis(context, rule, 'b', 0, axis, SP_FACTOR_PARALLEL);
        sp_rule_map_input(rule, IN_A, axis, factor);
        sp_factor_list_add(&work, factor);
    }
    uint8_t n = sp_rule_factor(rule, "n", SP_FACTOR_PARALLEL, sp_dim_known(q.n));
    struct sp_chain depth, blocks, bytes; /* of A, of weights and scales, of zero points */
    if (q.is_whole) {
        depth = sp_chain_of(sp_rule_factor(rule, "k", SP_FACTOR_REPLICATE, sp_dim_known(q.k)));
        blocks = sp_chain_of(sp_rule_factor(rule, "kc", SP_FACTOR_REPLICATE, sp_dim_known(q.blocks)));
        int64_t row = q.shared == 1 ? q.blocks : (q.blocks * q.bits + 7) / 8;
        bytes = sp_chain_of(sp_rule_factor(rule, "kz", SP_FACTOR_REPLICATE, sp_dim_known(row)));
        sp_factor_list_add(&work, depth.items[0]);
    } else {
        bytes = sp_chain_of(sp_factor_reduction(rule, "k", sp_dim_known(q.blocks / q.shared), SP_COMBINE_SUM));
        blocks = bytes;
        if (q.shared != 1)
            blocks.items[blocks.count++] = sp_rule_factor(rule, "kz", SP_FACTOR_REPLICATE, sp_dim_known(q.shared));
        depth = blocks;
        depth.items[depth.count++] = sp_rule_factor(rule, "kb", SP_FACTOR_REPLICATE, sp_dim_known(q.block));
        for (uint32_t i = 0; i < depth.count; i++)
            sp_factor_list_add(&work, depth.items[i]);
    }
    sp_factor_list_add(&work, n);
    sp_rule_map_output(rule, 0, a->rank - 1, n);
    sp_map_chain(rule, sp_in(IN_A), a->rank - 1, &depth);
    sp_rule_map_input(rule, IN_B, 0, n);
    if (b->rank == 3)
        sp_map_chain(rule, sp_in(IN_B), 1, &blocks);
    map_blocks(context, rule, IN_SCALES, n, &blocks);
    map_blocks(context, rule, IN_ZERO_POINTS, n, &bytes);
    sp_rule_term_list(rule, 2, &work);
    if (sp_in_shape(context, IN_BIAS) != NULL) {
        sp_rule_map_input(rule, IN_BIAS, 0, n);
        sp_rule_term_output(rule, 1);
    }
    return SP_OK;
}

/* ---- GemmFloat8 ------------------------------------------------------------------------------------------------- */

static enum sp_status shapes_gemm_float8(struct sp_op_context *context)
{
    enum sp_dtype dtype = SP_DTYPE_FLOAT;
    enum sp_status status = sp_get_dtype(context, "dtype", SP_DTYPE_FLOAT, &dtype);
    if (status == SP_OK)
        status = sp_shapes_like(context);
    if (status == SP_OK && context->node->outputs[0] != NULL)
        context->node->outputs[0]->type.dtype = dtype;
    return status;
}

/* A product with what is fused behind it, which does not pass through the sum. */
#define FUSED(domain_, name_, version_, count_, ...)                                                                   \
    .like =                                                                                                            \
        &(const struct sp_op_like){                                                                                    \
            domain_, name_, version_, .input_count = count_, .inputs = {0, 1, 2}, .is_rounded = true, __VA_ARGS__},    \
    .rule = sp_rule_like, .lower = sp_lower_like
#define ACTIVATION_ATTRIBUTES "activation:string,activation_alpha:float,activation_beta:float,activation_gamma:float"

const struct sp_op sp_ops_contrib_matmul[] = {
    SP_ENTRY(DOMAIN, "FusedMatMulActivation", 1, 0, 2, 2, 1, 1,
             "[b.., m, k] [b.., k, n] -> [b.., m, n], either transposed; k whole",
             "ONNX Runtime contrib operator FusedMatMulActivation", FUSED(DOMAIN, "FusedMatMul", 1, 2),
             .shapes = sp_shapes_like,
             .signature = "(A,B) -> (Y) {activation!:string,activation_alpha:float,activation_axis:int,"
                          "activation_beta:float,activation_gamma:float,alpha:float=1.0,transA:int=0,transB:int=0,"
                          "transBatchA:int=0,transBatchB:int=0}"),
    SP_ENTRY(DOMAIN, "FusedGemm", 1, 0, 2, 3, 1, 1, "[m, k] [k, n] [m, n] -> [m, n], either transposed; k whole",
             "ONNX Runtime contrib operator FusedGemm", FUSED("", "Gemm", 13, 3), .shapes = sp_shapes_like,
             .signature = "(A,B,C?) -> (Y) {" ACTIVATION_ATTRIBUTES ",alpha:float=1.0,beta:float=1.0,transA:int=0,"
                          "transB:int=0}"),
    SP_ENTRY(DOMAIN, "GemmFastGelu", 1, 0, 2, 3, 1, 1, "[b.., m, k] [b.., k, n] [n] -> [b.., m, n]; k whole",
             "ONNX Runtime contrib operator GemmFastGelu", FUSED("", "MatMul", 13, 2, .broadcast = 1 << 2),
             .flags = SP_OP_FUNCTION, .shapes = sp_shapes_like, .signature = "(X,W,bias?) -> (Y) {}"),
    SP_ENTRY(DOMAIN, "GemmFloat8", 1, 0, 2, 6, 1, 1,
             "[m, k] [k, n] [m, n] [] [] [] -> [m, n], either transposed; k whole",
             "ONNX Runtime contrib operator GemmFloat8", FUSED("", "Gemm", 13, 3), .shapes = shapes_gemm_float8,
             .signature = "(A,B,C?,scaleA?,scaleB?,scaleY?) -> (Y) {activation:string,alpha:float=1.0,beta:float=0.0,"
                          "dtype:int=1,transA:int=0,transB:int=0}"),
    SP_ENTRY(DOMAIN, "FusedMatMul", 1, 0, 2, 2, 1, 1,
             "[b.., m, k] [b.., k, n] -> [b.., m, n], either transposed; k sum",
             "ONNX Runtime contrib operator FusedMatMul", .flags = SP_OP_READS_TURNED, .shapes = shapes_fused,
             .rule = rule_fused,
             .signature = "(A,B) -> (Y) {alpha:float=1.0,transA:int=0,transB:int=0,transBatchA:int=0,"
                          "transBatchB:int=0}"),
    SP_ENTRY(DOMAIN, "TransposeMatMul", 1, 0, 2, 2, 1, 1,
             "[b.., m, k] [b.., k, n] -> [b.., m, n], either transposed; k sum",
             "ONNX Runtime contrib operator TransposeMatMul", .shapes = shapes_fused, .rule = rule_fused,
             .signature = "(A,B) -> (Y) {alpha:float=1.0,transA:int=0,transB:int=0}"),
    SP_ENTRY(DOMAIN, "MatMulNBits", 1, 0, 3, 6, 1, 1,
             "[b.., k*kz*kb] [n, k*kz, _] [n, k*kz] [n, k] [_] [n] -> [b.., n]; k sum, kz, kb whole; with g_idx, or a "
             "k that blocks or bytes do not divide, k whole",
             "ONNX Runtime contrib operator MatMulNBits", .shapes = shapes_nbits, .rule = rule_nbits,
             .lower = sp_lower_matmul_nbits,
             .signature = "(A,B,scales,zero_points?,g_idx?,bias?) -> (Y) {K!:int,N!:int,accuracy_level:int=0,"
                          "bits:int=4,block_size!:int,weight_prepacked:int=0}"),
    {.name = NULL},
};
