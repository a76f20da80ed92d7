/*
 * The parts of contractions (contraction.c, contrib_matmul.c) whose attributes or added operands change with a split.
 *
 *     Gemm          k split: beta is 0 on all but the first shard, so that C is added once
 *     MatMulNBits   K and N are those of the part; k split: the bias counts on the first shard only
 */
#include "ops/local_functions.h"
#include "ops/local_parts.h"

enum { GEMM_C = 2 };

enum sp_status sp_local_gemm(struct sp_local *local)
{
    bool has_c = local->input_count > GEMM_C && local->inputs[GEMM_C].value != NULL;
    double beta = sp_local_is_first(local) ? sp_node_float(local->node, "beta", 1) : 0;
    struct sp_local_attribute attribute = {.name = "beta", .type = SP_ATTR_FLOAT, .f = beta};
    uint32_t count;
    (void)sp_local_partial_factors(local, 0, &count);
    return sp_local_give_sum(local, sp_local_same(local, 0, NULL, has_c && count > 0 ? 1 : 0, &attribute));
}

enum { NBITS_A, NBITS_B, NBITS_SCALES, NBITS_ZERO_POINTS, NBITS_GROUPS, NBITS_BIAS, NBITS_COUNT };

enum sp_status sp_local_matmul_nbits(struct sp_local *local)
{
    uint8_t k = sp_local_split_named(local, "k"), n = sp_local_split_named(local, "n");
    if (local->inputs[NBITS_B].rank != 3)
        sp_local_refuse(local, k, "its weights are not given as rows of blocks");
    if (sp_node_int(local->node, "weight_prepacked", 0) != 0) {
        sp_local_refuse(local, k, "its weights are packed in an order of the runtime's own");
        sp_local_refuse(local, n, "its weights are packed in an order of the runtime's own");
    }
    const struct sp_local_operand *a = &local->inputs[NBITS_A], *y = &local->outputs[0];
    if (sp_local_status(local) != SP_OK || a->rank == 0 || y->rank == 0)
        return sp_local_status(local);
    struct sp_piece *pieces[NBITS_COUNT] = {NULL};
    for (uint32_t input = 0; input < local->input_count && input < NBITS_COUNT; input++)
        pieces[input] = input == NBITS_BIAS ? sp_local_input_once(local, input) : sp_local_input(local, input);
    const struct sp_local_attribute attributes[] = {SP_INT_ATTR("K", a->axes[a->rank - 1].size),
                                                    SP_INT_ATTR("N", y->axes[y->rank - 1].size)};
    uint32_t changed = sp_local_is_split(local, k) || sp_local_is_split(local, n) ? 2 : 0;
    return sp_local_give_sum(local, sp_local_same(local, local->input_count, pieces, changed, attributes));
}
