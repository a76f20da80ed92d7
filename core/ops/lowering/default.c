#include "base/limits.h"
#include "ops/lowering/heads.h"
#include "ops/lowering/internal.h"
#include "ops/lowering/parts.h"
#include "ops/table/rule_text.h"
#include "ops/table/shape_helpers.h"

/* Lowering of an operator without a function of its own (ops/lowering/lowering.h): it runs as it is on its pieces. Where
   that is wrong for a factor, the factor is made whole. */

static bool any_has(const struct sp_operand_rule *operands, uint32_t count, uint32_t factor)
{
    for (uint32_t i = 0; i < count; i++)
        if (sp_lower_operand_has(&operands[i], factor))
            return true;
    return false;
}

static bool any_has_positions(const struct sp_operand_rule *operands, uint32_t count, uint32_t factor)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < operands[i].position_count; j++)
            if (operands[i].positions[j] == factor)
                return true;
    return false;
}

static const char *combiner_words(enum sp_combiner combiner)
{
    switch (combiner) {
    case SP_COMBINE_SUM:
    case SP_COMBINE_MAX:
    case SP_COMBINE_MIN:
    case SP_COMBINE_PROD:
        return NULL;
    case SP_COMBINE_SOFTMAX:
        return "a softmax reduction";
    case SP_COMBINE_MOMENTS:
        return "a reduction to mean and variance";
    case SP_COMBINE_SELECT:
        return "a choice of elements among all";
    case SP_COMBINE_NONE:
        break;
    }
    return "a reduction whose parts do not combine";
}

/* Why an operator that runs as it is on its pieces cannot have this factor split; NULL where it can. */
static const char *reason_against(const struct sp_rule *rule, uint32_t index)
{
    const struct sp_factor *factor = &rule->factors[index];
    const bool in_inputs = any_has(rule->inputs, rule->input_count, index);
    const bool in_outputs = any_has(rule->outputs, rule->output_count, index);
    if (any_has_positions(rule->inputs, rule->input_count, index) ||
        any_has_positions(rule->outputs, rule->output_count, index))
        return "along which elements are positions in the whole tensor";
    switch (factor->kind) {
    case SP_FACTOR_HALO:
        return "where an element needs its neighbours";
    case SP_FACTOR_PERMUTATION:
        return "along which elements change their places";
    case SP_FACTOR_REDUCTION:
        return in_outputs ? "a reduction that stays in the result" : combiner_words(factor->combiner);
    case SP_FACTOR_PARALLEL:
        break;
    case SP_FACTOR_REPLICATE:
    case SP_FACTOR_SEQUENTIAL:
        return "which it needs whole";
    }
    if (factor->is_resized)
        return "whose extents differ between the operands";
    /* Extents of the result that come from attributes or from elements stay those of the whole. */
    if (in_outputs && !in_inputs)
        return "which the result has and no input";
    /* Shape: the result tells of the extents of the whole. */
    if (in_inputs && !in_outputs)
        return "which only inputs have";
    return NULL;
}

/* The combiner of all split reductions that are not in an output; NONE where there are none. The second kind of
   reduction is made whole: parts are combined in one way. */
static enum sp_combiner combiner_of(struct sp_lowering *lower, uint32_t count, const uint8_t *factors)
{
    char subject[300];
    enum sp_combiner combiner = SP_COMBINE_NONE;
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_factor *factor = &lower->rule->factors[factors[i]];
        if (combiner != SP_COMBINE_NONE && factor->combiner != combiner)
            sp_lower_whole(
                lower, factors[i],
                "%s reduces factor %s and others in different ways, so it is computed with this one whole on "
                "every device.",
                sp_op_subject(lower->node, subject, sizeof subject), factor->name);
        combiner = factor->combiner;
    }
    return combiner;
}

/* The numbers that attributes have on this device: those that an equation of the rule's text makes a product of factors.
   A factor that stands in another equation does not split. */
static void change_attributes(struct sp_lowering *lower, struct sp_lower_changes *changes)
{
    char subject[300];
    struct sp_rule_text room;
    struct sp_op_context context = sp_lower_context(lower);
    const struct sp_op *op = lower->node->op;
    const struct sp_rule_text *text = op == NULL || op->rule != NULL ? NULL : sp_rule_text_of(&context, op, &room);
    for (uint32_t i = 0; text != NULL && i < text->equation_count; i++) {
        const struct sp_text_equation *equation = &text->equations[i];
        int64_t size = 1;
        uint8_t split = SP_RULE_NO_FACTOR;
        for (uint8_t k = 0; k < equation->count; k++) {
            const uint8_t factor = sp_lower_named(lower, text->factors[equation->factors[k]].name);
            if (factor == SP_RULE_NO_FACTOR)
                continue;
            size *= lower->factors[factor].size;
            split = sp_lower_is_split(lower, factor) ? factor : split;
        }
        if (split == SP_RULE_NO_FACTOR)
            continue;
        const char *name = sp_arena_string(lower->arena, equation->expression, equation->attribute_length);
        if (name == NULL) {
            sp_lower_failed(lower, sp_fail_memory(lower->err));
            return;
        }
        if (equation->attribute_length > 0 && sp_node_attribute(lower->node, name) != NULL)
            changes->items[changes->count++] = SP_INT_ATTR(name, size);
        else if (equation->attribute_length == 0)
            sp_lower_whole(lower, split,
                           "%s has no form for a split of factor %s, whose extent is computed of others, so it is "
                           "computed whole on every device.",
                           sp_op_subject(lower->node, subject, sizeof subject), lower->rule->factors[split].name);
    }
}

enum sp_status sp_lower_default(struct sp_lowering *lower)
{
    char subject[300];
    struct sp_lower_changes changes = {0};
    for (uint32_t i = 0; i < lower->factor_count; i++) {
        const char *reason = lower->factors[i].is_split ? reason_against(lower->rule, i) : NULL;
        if (reason != NULL)
            sp_lower_whole(lower, (uint8_t)i,
                           "%s has no form for a split of factor %s, %s, so it is computed whole on every device.",
                           sp_op_subject(lower->node, subject, sizeof subject), lower->rule->factors[i].name, reason);
    }
    change_attributes(lower, &changes);
    struct sp_piece **outputs = SP_LOWER_ARRAY(lower, lower->output_count, struct sp_piece *);
    if (outputs == NULL || !sp_lower_is_fine(lower))
        return sp_lower_status(lower);
    sp_lower_same_many(lower, 0, NULL, changes.count, changes.items, outputs);
    for (uint32_t i = 0; i < lower->output_count; i++) {
        uint32_t count;
        const uint8_t *factors = sp_lower_partial_factors(lower, i, &count);
        const enum sp_combiner combiner = combiner_of(lower, count, factors);
        if (outputs[i] != NULL)
            sp_lower_output_partial(lower, i, outputs[i], combiner, count, factors);
    }
    return sp_lower_status(lower);
}
