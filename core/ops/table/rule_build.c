#include <string.h>

#include "ops/table/rule.h"

/* Doubles an arena array when `count` has filled it; the old one stays in the arena. */
static void *grow(struct sp_rule *rule, void *items, uint32_t count, size_t size)
{
    if (count != 0 && (count < 4 || (count & (count - 1)) != 0))
        return items;
    void *larger = sp_arena_array(rule->arena, count < 4 ? 4 : 2 * (size_t)count, size);
    if (larger == NULL)
        rule->faults |= SP_RULE_FAULT_MEMORY;
    else if (count != 0)
        memcpy(larger, items, count * size);
    return larger;
}

uint8_t sp_rule_factor(struct sp_rule *rule, const char *name, enum sp_factor_kind kind, struct sp_dim extent)
{
    if (rule->factor_count == SP_RULE_MAX_FACTORS) {
        rule->faults |= SP_RULE_FAULT_FACTORS;
        return SP_RULE_MAX_FACTORS - 1;
    }
    struct sp_factor *factors = grow(rule, rule->factors, rule->factor_count, sizeof(struct sp_factor));
    if (factors == NULL)
        return rule->factor_count == 0 ? 0 : (uint8_t)(rule->factor_count - 1);
    rule->factors = factors;
    struct sp_factor *factor = &factors[rule->factor_count];
    memcpy(factor->name, name, strnlen(name, sizeof factor->name - 1)); /* the rest is zero */
    factor->kind = kind;
    factor->extent = extent;
    factor->block = 1;
    return (uint8_t)rule->factor_count++;
}

static void map(struct sp_rule *rule, struct sp_operand_rule *operands, uint32_t count, uint32_t operand, uint32_t axis,
                uint8_t factor)
{
    if (operand >= count || axis >= operands[operand].rank || factor >= rule->factor_count) {
        rule->faults |= SP_RULE_FAULT_INDEX;
        return;
    }
    struct sp_axis_factors *list = &operands[operand].axes[axis];
    if (list->count == SP_RULE_MAX_FACTORS) {
        rule->faults |= SP_RULE_FAULT_FACTORS;
        return;
    }
    uint8_t *factors = grow(rule, list->factors, list->count, sizeof(uint8_t));
    if (factors == NULL)
        return;
    list->factors = factors;
    list->factors[list->count++] = factor;
}

void sp_rule_map_input(struct sp_rule *rule, uint32_t input, uint32_t axis, uint8_t factor)
{
    map(rule, rule->inputs, rule->input_count, input, axis, factor);
}

void sp_rule_map_output(struct sp_rule *rule, uint32_t output, uint32_t axis, uint8_t factor)
{
    map(rule, rule->outputs, rule->output_count, output, axis, factor);
}

static void add_position(struct sp_rule *rule, struct sp_operand_rule *operands, uint32_t count, uint32_t operand,
                         uint8_t factor)
{
    if (operand >= count || factor >= rule->factor_count) {
        rule->faults |= SP_RULE_FAULT_INDEX;
        return;
    }
    struct sp_operand_rule *of = &operands[operand];
    if (of->position_count == SP_RULE_MAX_FACTORS) {
        rule->faults |= SP_RULE_FAULT_FACTORS;
        return;
    }
    uint8_t *positions = grow(rule, of->positions, of->position_count, sizeof(uint8_t));
    if (positions == NULL)
        return;
    of->positions = positions;
    of->positions[of->position_count++] = factor;
}

void sp_rule_positions_input(struct sp_rule *rule, uint32_t input, uint8_t factor)
{
    add_position(rule, rule->inputs, rule->input_count, input, factor);
}

void sp_rule_positions_output(struct sp_rule *rule, uint32_t output, uint8_t factor)
{
    add_position(rule, rule->outputs, rule->output_count, output, factor);
}

void sp_rule_term(struct sp_rule *rule, double coefficient, uint32_t count, const uint8_t *factors)
{
    if (rule->term_count == SP_RULE_MAX_TERMS || count > SP_RULE_MAX_FACTORS) {
        rule->faults |= SP_RULE_FAULT_TERMS;
        return;
    }
    struct sp_term *terms = grow(rule, rule->terms, rule->term_count, sizeof(struct sp_term));
    uint8_t *copy = SP_NEW_ARRAY(rule->arena, count, uint8_t);
    if (terms == NULL || copy == NULL) {
        rule->faults |= SP_RULE_FAULT_MEMORY;
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (factors[i] >= rule->factor_count)
            rule->faults |= SP_RULE_FAULT_INDEX;
        copy[i] = factors[i];
    }
    rule->terms = terms;
    terms[rule->term_count++] = (struct sp_term){.coefficient = coefficient, .count = (uint8_t)count, .factors = copy};
}

void sp_rule_term_output(struct sp_rule *rule, double coefficient)
{
    bool is_used[SP_RULE_MAX_FACTORS] = {false};
    uint8_t factors[SP_RULE_MAX_FACTORS];
    uint32_t count = 0;
    if (rule->output_count == 0)
        return;
    for (uint32_t axis = 0; axis < rule->outputs[0].rank; axis++) {
        const struct sp_axis_factors *list = &rule->outputs[0].axes[axis];
        for (uint8_t i = 0; i < list->count; i++) {
            if (!is_used[list->factors[i]])
                factors[count++] = list->factors[i];
            is_used[list->factors[i]] = true;
        }
    }
    sp_rule_term(rule, coefficient, count, factors);
}
