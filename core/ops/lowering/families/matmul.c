/*
 * The parts of contractions (matmul.c, contrib_matmul.c) whose attributes or added operands change with a split.
 *
 *     Gemm          k split: beta is 0 on all but the first shard, so that C is added once
 *     MatMulNBits   K and N are those of the part; k split: the bias counts on the first shard only
 */
#include "ops/lowering/functions.h"
#include "ops/lowering/parts.h"

enum { GEMM_C = 2 };

enum sp_status sp_lower_gemm(struct sp_lowering *lower)
{
    bool has_c = lower->input_count > GEMM_C && lower->inputs[GEMM_C].value != NULL;
    double beta = sp_lower_is_first(lower) ? sp_node_float(lower->node, "beta", 1) : 0;
    struct sp_lower_attribute attribute = {.name = "beta", .type = SP_ATTR_FLOAT, .f = beta};
    uint32_t count;
    (void)sp_lower_partial_factors(lower, 0, &count);
    return sp_lower_give_sum(lower, sp_lower_same(lower, 0, NULL, has_c && count > 0 ? 1 : 0, &attribute));
}

enum { NBITS_A, NBITS_B, NBITS_SCALES, NBITS_ZERO_POINTS, NBITS_GROUPS, NBITS_BIAS, NBITS_COUNT };

enum sp_status sp_lower_matmul_nbits(struct sp_lowering *lower)
{
    uint8_t k = sp_lower_split_named(lower, "k"), n = sp_lower_split_named(lower, "n");
    if (lower->inputs[NBITS_B].rank != 3)
        sp_lower_refuse(lower, k, "its weights are not given as rows of blocks");
    if (sp_node_int(lower->node, "weight_prepacked", 0) != 0) {
        sp_lower_refuse(lower, k, "its weights are packed in an order of the runtime's own");
        sp_lower_refuse(lower, n, "its weights are packed in an order of the runtime's own");
    }
    const struct sp_lower_operand *a = &lower->inputs[NBITS_A], *y = &lower->outputs[0];
    if (sp_lower_status(lower) != SP_OK || a->rank == 0 || y->rank == 0)
        return sp_lower_status(lower);
    struct sp_piece *pieces[NBITS_COUNT] = {NULL};
    for (uint32_t input = 0; input < lower->input_count && input < NBITS_COUNT; input++)
        pieces[input] = input == NBITS_BIAS ? sp_lower_input_once(lower, input) : sp_lower_input(lower, input);
    const struct sp_lower_attribute attributes[] = {SP_INT_ATTR("K", a->axes[a->rank - 1].size),
                                                    SP_INT_ATTR("N", y->axes[y->rank - 1].size)};
    uint32_t changed = sp_lower_is_split(lower, k) || sp_lower_is_split(lower, n) ? 2 : 0;
    return sp_lower_give_sum(lower, sp_lower_same(lower, lower->input_count, pieces, changed, attributes));
}
