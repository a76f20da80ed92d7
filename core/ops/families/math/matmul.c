/*
 * Contractions of two matrices, or of two stacks of matrices.
 *
 *     MatMul    [b.., m, k] [b.., k, n]   -> [b.., m, n]      batch axes broadcast; a vector is a row or a column
 *     Gemm      [m, k] [k, n] [m, n]      -> [m, n]           either matrix may be given transposed
 *
 * k is a reduction (sum).
 *
 * FLOPs, 1 multiply-add = 2 as in datasheets and torch.utils.flop_counter: 2 * b * m * n * k, and 1 per output element
 * for Gemm's third input.
 */

#include "ops/families/math/broadcast.h"
#include "ops/lowering/functions.h"
#include "ops/table/factors.h"
#include "ops/table/families.h"
#include "ops/table/shape_helpers.h"

/* ---- MatMul --------------------------------------------------------------------------------------------------- */

/* The stack of an operand: its shape without the matrix. */
static struct sp_shape batch_of(const struct sp_shape *shape)
{
    return (struct sp_shape){.has_rank = true, .rank = shape->rank > 2 ? shape->rank - 2 : 0, .dims = shape->dims};
}

/* The contracted extent in the second operand: a vector is a column. */
static struct sp_dim rows_of(const struct sp_shape *b)
{
    return b->dims[b->rank > 1 ? b->rank - 2 : 0];
}

static enum sp_status shapes_product(struct sp_op_context *context, uint32_t first, uint32_t second,
                                     enum sp_dtype dtype)
{
    const struct sp_shape *a = sp_in_shape(context, first), *b = sp_in_shape(context, second);
    struct sp_shape batch;
    if (a == NULL || b == NULL)
        return sp_set_output_unranked(context, 0, dtype);
    if (a->rank == 0 || b->rank == 0)
        return sp_op_fail(context, "OPERAND_SHAPE", "it multiplies matrices, and one of its inputs is a scalar");
    struct sp_dim columns = a->dims[a->rank - 1], rows = rows_of(b);
    if (sp_dim_is_known(columns) && sp_dim_is_known(rows) && columns.value != rows.value)
        return sp_op_fail(context, "SHAPES_DISAGREE",
                          "the first input has %lld columns and the second %lld rows; they must be the same",
                          (long long)columns.value, (long long)rows.value);
    struct sp_shape batch_a = batch_of(a), batch_b = batch_of(b);
    enum sp_status status = sp_broadcast(context, &batch_a, &batch_b, &batch);
    if (status != SP_OK)
        return status;
    struct sp_dim *dims = sp_new_dims(context, (uint64_t)batch.rank + 2);
    if (dims == NULL)
        return sp_fail_memory(context->err);
    uint32_t rank = 0;
    for (; rank < batch.rank; rank++)
        dims[rank] = batch.dims[rank];
    if (a->rank > 1)
        dims[rank++] = a->dims[a->rank - 2];
    if (b->rank > 1)
        dims[rank++] = b->dims[b->rank - 1];
    return sp_set_output(context, 0, dtype, rank, dims);
}

/* The batch axes of one operand, aligned from the right with those of the output. */
static void map_batch(struct sp_rule *rule, uint32_t input, const struct sp_shape *shape, const struct sp_shape *output,
                      uint32_t batch_rank)
{
    uint32_t own = shape->rank > 2 ? shape->rank - 2 : 0;
    for (uint32_t axis = 0; axis < own && own <= batch_rank; axis++) {
        uint32_t factor = batch_rank - own + axis; /* batch factors were made first, in order */
        if (sp_axis_takes(shape->dims[axis], output->dims[factor]))
            sp_rule_map_input(rule, input, axis, (uint8_t)factor);
    }
}

/*
 * Zero points or scales of the rows of the first or the columns of the second matrix: one for all, a vector along m or
 * n, or, with the axes of the matrices, [b.., m, 1] or [b.., 1, n].
 */
static void map_scales(struct sp_op_context *context, struct sp_rule *rule, uint32_t input, const char *name)
{
    const struct sp_shape *shape = sp_in_shape(context, input), *y = &context->node->outputs[0]->type.shape;
    uint8_t factor = sp_rule_named(rule, name);
    if (shape == NULL || shape->rank == 0 || factor == SP_RULE_NO_FACTOR)
        return;
    uint32_t axis = shape->rank == 1 ? 0 : shape->rank - (name[0] == 'm' ? 2 : 1);
    uint32_t vectors =
        (sp_rule_named(rule, "m") != SP_RULE_NO_FACTOR) + (sp_rule_named(rule, "n") != SP_RULE_NO_FACTOR);
    map_batch(rule, input, shape, y, y->rank - vectors);
    if (!sp_dim_is(shape->dims[axis], 1))
        sp_rule_map_input(rule, input, axis, factor);
}

static enum sp_status shapes_matmul(struct sp_op_context *context)
{
    return shapes_product(context, 0, 1, sp_in_dtype(context, 0));
}

static enum sp_status shapes_matmul_integer(struct sp_op_context *context)
{
    return shapes_product(context, 0, 1, SP_DTYPE_INT32);
}

static enum sp_status rule_matmul_integer(struct sp_op_context *context, struct sp_rule *rule)
{
    enum sp_status status =
        sp_rule_from_text(context, rule, "[b.., m, k] [b.., k, n] [] [] -> [b.., m, n]; k sum", 0, NULL);
    map_scales(context, rule, 2, "m");
    map_scales(context, rule, 3, "n");
    sp_rule_term_all(rule, 2);
    return status;
}

static enum sp_status shapes_qlinear_matmul(struct sp_op_context *context)
{
    return shapes_product(context, 0, 3, sp_in_dtype(context, 7));
}

/* The result is rounded to 8 bits when the sum is whole (sp_lower_qlinear_matmul()). */
static enum sp_status rule_qlinear_matmul(struct sp_op_context *context, struct sp_rule *rule)
{
    enum sp_status status =
        sp_rule_from_text(context, rule, "[b.., m, k] [] [] [b.., k, n] [] -> [b.., m, n]; k sum", 0, NULL);
    map_scales(context, rule, 1, "m");
    map_scales(context, rule, 2, "m");
    map_scales(context, rule, 4, "n");
    map_scales(context, rule, 5, "n");
    sp_rule_term_all(rule, 2);
    return status;
}

/* ---- Gemm ----------------------------------------------------------------------------------------------------- */

/* Whether a matrix is given transposed: the position of its first logical axis is then 1. */
static uint32_t transposed(struct sp_op_context *context, const char *attribute)
{
    return sp_node_int(context->node, attribute, 0) != 0 ? 1 : 0;
}

static enum sp_status shapes_gemm(struct sp_op_context *context)
{
    const struct sp_shape *a = sp_in_shape(context, 0), *b = sp_in_shape(context, 1);
    uint32_t m_axis = transposed(context, "transA"), k_axis = transposed(context, "transB");
    if ((a != NULL && a->rank != 2) || (b != NULL && b->rank != 2))
        return sp_op_fail(context, "OPERAND_SHAPE", "it multiplies two matrices of rank 2");
    struct sp_dim dims[2] = {a != NULL ? a->dims[m_axis] : sp_dim_unknown(),
                             b != NULL ? b->dims[1 - k_axis] : sp_dim_unknown()};
    if (a != NULL && b != NULL && sp_dim_is_known(a->dims[1 - m_axis]) && sp_dim_is_known(b->dims[k_axis]) &&
        a->dims[1 - m_axis].value != b->dims[k_axis].value)
        return sp_op_fail(context, "SHAPES_DISAGREE", "its matrices are to be contracted over %lld and %lld elements",
                          (long long)a->dims[1 - m_axis].value, (long long)b->dims[k_axis].value);
    const struct sp_shape result = {.has_rank = true, .rank = 2, .dims = dims};
    enum sp_status status = sp_check_broadcasts_to(context, 2, &result);
    return status != SP_OK ? status : sp_set_output(context, 0, sp_in_dtype(context, 0), 2, dims);
}

static enum sp_status rule_gemm(struct sp_op_context *context, struct sp_rule *rule)
{
    static const char *const texts[2][2] = {
        {"[m, k] [k, n] [m, n] -> [m, n]; k sum", "[m, k] [n, k] [m, n] -> [m, n]; k sum"},
        {"[k, m] [k, n] [m, n] -> [m, n]; k sum", "[k, m] [n, k] [m, n] -> [m, n]; k sum"},
    };
    const char *text = texts[transposed(context, "transA")][transposed(context, "transB")];
    enum sp_status status = sp_rule_from_text(context, rule, text, 0, NULL);
    sp_rule_term_all(rule, 2);
    if (sp_in_shape(context, 2) != NULL)
        sp_rule_term_output(rule, 1);
    return status;
}

const struct sp_op sp_ops_contraction[] = {
    SP_ENTRY("", "MatMul", 1, 0, 2, 2, 1, 1, "[b.., m, k] [b.., k, n] -> [b.., m, n]; k sum",
             "ONNX operator MatMul (1, 9, 13), numpy.matmul", .flags = SP_OP_READS_TURNED, .shapes = shapes_matmul,
             .flops = 2),
    SP_ENTRY("", "MatMulInteger", 10, 0, 2, 4, 1, 1, "[b.., m, k] [b.., k, n] [m] [n] -> [b.., m, n]; k sum",
             "ONNX operator MatMulInteger (10)", .shapes = shapes_matmul_integer, .rule = rule_matmul_integer),
    SP_ENTRY("", "QLinearMatMul", 10, 0, 8, 8, 1, 1,
             "[b.., m, k] [m] [m] [b.., k, n] [n] [n] [] [] -> [b.., m, n]; k sum",
             "ONNX operator QLinearMatMul (10, 21)", .shapes = shapes_qlinear_matmul, .rule = rule_qlinear_matmul,
             .lower = sp_lower_qlinear_matmul),
    SP_ENTRY("", "Gemm", 1, 0, 2, 3, 1, 1, "[m, k] [k, n] [m, n] -> [m, n]; k sum",
             "ONNX operator Gemm (1, 6, 7, 9, 11, 13)", .shapes = shapes_gemm, .rule = rule_gemm,
             .lower = sp_lower_gemm),
    {.name = NULL},
};
