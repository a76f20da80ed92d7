/*
 * refine_rule - the rule of a flow over the pieces of its tensors' axes (refine.h).
 */
#include <string.h>

#include "base/arith.h"
#include "infer/propagate/refine_internal.h"

struct refining {
    struct sp_refinement *all;
    struct sp_arena *arena;
    const struct sp_flow *flow;
    struct sp_rule *rule;                /* the new one */
    uint8_t first[SP_RULE_MAX_FACTORS];  /* per old factor: its first new one */
    uint8_t counts[SP_RULE_MAX_FACTORS]; /* and how many it has become, major to minor */
    struct sp_error *err;
};

/* An operand's axis as pieces on one side and as new factors on the other. */
struct sides {
    uint32_t piece_count, factor_count;
    const int64_t *pieces;
    uint8_t factors[SP_RULE_MAX_FACTORS];
};

static bool is_cut(const struct sp_refinement *all, const struct sp_flow *flow)
{
    for (uint32_t i = 0; i < flow->operand_count; i++) {
        uint32_t tensor = flow->tensors[i];
        if (tensor != SP_NO_TENSOR && all->tensors[tensor] != NULL && all->tensors[tensor]->cut_count > 0)
            return true;
    }
    return false;
}

/* ---- factors ---------------------------------------------------------------------------------------------------- */

static enum sp_status refine_factors(struct refining *to)
{
    const struct sp_rule *old = to->flow->rule;
    uint32_t total = 0;
    for (uint32_t f = 0; f < old->factor_count; f++)
        total += to->all->factors[f].count + 1u;
    to->rule->factors = SP_NEW_ARRAY(to->arena, total, struct sp_factor);
    if (to->rule->factors == NULL)
        return sp_fail_memory(to->err);
    uint32_t used = 0, extra = SP_RULE_MAX_FACTORS - old->factor_count;
    for (uint32_t f = 0; f < old->factor_count; f++) {
        const struct sp_factor_marks *marks = &to->all->factors[f];
        uint32_t cuts = marks->count <= extra ? marks->count : 0; /* beyond the limit it stays one */
        int64_t above = cuts > 0 ? old->factors[f].extent.value : 0;
        extra -= cuts;
        to->first[f] = (uint8_t)used;
        to->counts[f] = (uint8_t)(cuts + 1);
        for (uint32_t i = cuts; i > 0; i--) {
            to->rule->factors[used] = old->factors[f];
            to->rule->factors[used++].extent = sp_dim_known(above / marks->marks[i - 1].stride);
            above = marks->marks[i - 1].stride;
        }
        to->rule->factors[used] = old->factors[f];
        if (cuts > 0)
            to->rule->factors[used].extent = sp_dim_known(above);
        used++;
    }
    to->rule->factor_count = used;
    return SP_OK;
}

static int64_t extent_of(const struct refining *to, uint8_t factor)
{
    struct sp_dim extent = to->rule->factors[factor].extent;
    return sp_dim_is_known(extent) ? extent.value : 0;
}

/* ---- axes ------------------------------------------------------------------------------------------------------- */

static enum sp_status map_piece(struct refining *to, struct sp_axis_factors *axis, const uint8_t *factors,
                                uint32_t count)
{
    uint8_t *copy = SP_NEW_ARRAY(to->arena, count, uint8_t);
    if (copy == NULL)
        return sp_fail_memory(to->err);
    if (count > 0)
        memcpy(copy, factors, count);
    *axis = (struct sp_axis_factors){(uint8_t)count, copy};
    return SP_OK;
}

/* Pieces and factors that end together. A piece takes the factors that make it up; where one factor, or several that do
   not line up, lie over several pieces, nothing is mapped and the factors are needed whole. */
static enum sp_status map_group(struct refining *to, struct sp_axis_factors *axes, uint32_t pieces,
                                const uint8_t *factors, uint32_t count)
{
    if (pieces == 1)
        return map_piece(to, axes, factors, count);
    for (uint32_t i = 0; i < count; i++) {
        to->rule->factors[factors[i]].kind = SP_FACTOR_REPLICATE;
        to->rule->factors[factors[i]].combiner = SP_COMBINE_NONE;
    }
    return SP_OK;
}

static enum sp_status map_axis(struct refining *to, const struct sides *sides, struct sp_axis_factors *axes)
{
    enum sp_status status = SP_OK;
    uint32_t p = 0, f = 0;
    if (sides->piece_count == 1)
        return map_piece(to, axes, sides->factors, sides->factor_count);
    while (status == SP_OK && p < sides->piece_count && sides->factor_count > 0) {
        uint32_t from_piece = p, from_factor = f;
        int64_t left = sides->pieces[p++], right = 1;
        while (left != right) {
            if (right < left && f < sides->factor_count && extent_of(to, sides->factors[f]) > 0 &&
                sp_mul_i64(right, extent_of(to, sides->factors[f]), &right))
                f++;
            else if (right > left && p < sides->piece_count)
                left *= sides->pieces[p++];
            else
                break; /* not the product: the rest is a group of its own */
        }
        if (left != right)
            p = sides->piece_count;
        if (p == sides->piece_count)
            f = sides->factor_count; /* with those of extent 1 at the end */
        status = map_group(to, &axes[from_piece], p - from_piece, &sides->factors[from_factor], f - from_factor);
    }
    return status;
}

static enum sp_status refine_operand(struct refining *to, uint32_t index, struct sp_operand_rule *operand)
{
    const struct sp_operand_rule *old = sp_rule_operand(to->flow->rule, index);
    const struct sp_refined *refined = NULL;
    uint32_t tensor = to->flow->tensors[index], used = 0;
    enum sp_status status = SP_OK;
    if (tensor != SP_NO_TENSOR && to->all->ranks[tensor] == old->rank)
        status = sp_refine_tensor(to->all, tensor, &refined, to->err);
    if (status != SP_OK)
        return status;
    *operand = *old;
    operand->rank = refined == NULL ? old->rank : refined->rank;
    operand->axes = SP_NEW_ARRAY(to->arena, operand->rank, struct sp_axis_factors);
    operand->positions = SP_NEW_ARRAY(to->arena, old->position_count, uint8_t);
    if (operand->axes == NULL || operand->positions == NULL)
        return sp_fail_memory(to->err);
    for (uint8_t i = 0; i < old->position_count; i++)
        operand->positions[i] = to->first[old->positions[i]];
    for (uint32_t axis = 0; status == SP_OK && axis < old->rank; axis++) {
        struct sides sides = {.piece_count = refined == NULL ? 1 : refined->counts[axis],
                              .pieces = refined == NULL ? NULL : &refined->shape[used]};
        for (uint8_t i = 0; i < old->axes[axis].count; i++) {
            uint8_t f = old->axes[axis].factors[i];
            for (uint8_t k = 0; k < to->counts[f] && sides.factor_count < SP_RULE_MAX_FACTORS; k++)
                sides.factors[sides.factor_count++] = (uint8_t)(to->first[f] + k);
        }
        status = map_axis(to, &sides, &operand->axes[used]);
        used += sides.piece_count;
    }
    return status;
}

enum sp_status sp_refine_rule(struct sp_refinement *all, struct sp_arena *arena, uint32_t flow,
                              const struct sp_rule **ret_rule, struct sp_error *err)
{
    struct refining to = {.all = all, .arena = arena, .flow = &all->flows[flow], .err = err};
    const struct sp_rule *old = to.flow->rule;
    *ret_rule = old;
    if (!is_cut(all, to.flow))
        return SP_OK;
    uint32_t operands = old->input_count + old->output_count;
    to.rule = SP_NEW(arena, struct sp_rule);
    struct sp_operand_rule *rules = SP_NEW_ARRAY(arena, operands, struct sp_operand_rule);
    if (to.rule == NULL || rules == NULL)
        return sp_fail_memory(err);
    *to.rule = (struct sp_rule){.arena = arena,
                                .input_count = old->input_count,
                                .output_count = old->output_count,
                                .inputs = rules,
                                .outputs = rules + old->input_count,
                                .bytes = -1};
    sp_refine_see_factors(all, old);
    (void)sp_refine_collect(all, to.flow, true);
    enum sp_status status = refine_factors(&to);
    for (uint32_t i = 0; i < operands && status == SP_OK; i++)
        status = refine_operand(&to, i, &rules[i]);
    if (status == SP_OK)
        *ret_rule = to.rule;
    return status;
}
