#include "cost/kernels/kernel_role.h"

/* Position of a factor in an operand's axes, row-major; UINT32_MAX: it is not there. */
static uint32_t position_of(const struct sp_operand_rule *operand, uint32_t factor)
{
    uint32_t position = 0;
    for (uint32_t axis = 0; axis < operand->rank; axis++)
        for (uint32_t i = 0; i < operand->axes[axis].count; i++, position++)
            if (operand->axes[axis].factors[i] == factor)
                return position;
    return UINT32_MAX;
}

static uint32_t count_operands(const struct sp_rule *rule, uint32_t factor)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < rule->input_count; i++)
        count += position_of(&rule->inputs[i], factor) != UINT32_MAX;
    return count;
}

/* A sum over what two inputs have and the output has not. */
static bool is_contracted(const struct sp_rule *rule, uint32_t factor)
{
    return rule->factors[factor].kind == SP_FACTOR_REDUCTION && rule->factors[factor].combiner == SP_COMBINE_SUM &&
           count_operands(rule, factor) >= 2 && position_of(&rule->outputs[0], factor) == UINT32_MAX;
}

/* The factors of an input come in the order in which the output has them, so that nothing is turned. */
static bool keeps_order(const struct sp_rule *rule, const struct sp_operand_rule *input)
{
    uint32_t last = 0;
    for (uint32_t axis = 0; axis < input->rank; axis++) {
        for (uint32_t i = 0; i < input->axes[axis].count; i++) {
            const uint32_t at = position_of(&rule->outputs[0], input->axes[axis].factors[i]);
            if (at < last)
                return false;
            last = at;
        }
    }
    return true;
}

static bool is_elementwise(const struct sp_rule *rule)
{
    for (uint32_t f = 0; f < rule->factor_count; f++)
        if (rule->factors[f].kind != SP_FACTOR_PARALLEL || position_of(&rule->outputs[0], f) == UINT32_MAX)
            return false;
    for (uint32_t i = 0; i < rule->input_count; i++)
        if (!keeps_order(rule, &rule->inputs[i]))
            return false;
    return true;
}

static bool is_reduced(const struct sp_factor *factor)
{
    return factor->kind == SP_FACTOR_REDUCTION || factor->kind == SP_FACTOR_REPLICATE;
}

/* Reduced along the last axes of input 0, by a sum, a mean, a maximum or what these make. */
static bool is_normalisation(const struct sp_rule *rule)
{
    uint32_t reduced = 0, first = UINT32_MAX, last_parallel = 0;
    for (uint32_t f = 0; f < rule->factor_count; f++) {
        const struct sp_factor *factor = &rule->factors[f];
        const uint32_t at = position_of(&rule->inputs[0], f);
        if (!is_reduced(factor) && factor->kind != SP_FACTOR_PARALLEL)
            return false;
        if (factor->combiner == SP_COMBINE_SELECT || factor->is_resized || at == UINT32_MAX)
            return false;
        if (is_reduced(factor)) {
            reduced++;
            first = at < first ? at : first;
        } else {
            last_parallel = at > last_parallel ? at : last_parallel;
        }
    }
    return reduced > 0 && (first > last_parallel || last_parallel == 0);
}

enum sp_kernel_role sp_kernel_role(const struct sp_node *node, const struct sp_rule *rule)
{
    const uint32_t others = SP_OP_PERMUTES | SP_OP_RANDOM | SP_OP_CONTROL | SP_OP_METADATA | SP_OP_CONSTANT;
    bool contracts = false, has_windows = false;
    if ((node->op->flags & others) != 0 || rule->input_count == 0 || rule->output_count == 0 || rule->factor_count == 0)
        return SP_ROLE_ALONE;
    for (uint32_t f = 0; f < rule->factor_count; f++) {
        contracts = contracts || is_contracted(rule, f);
        has_windows = has_windows || rule->factors[f].kind == SP_FACTOR_HALO;
    }
    if (contracts) {
        for (uint32_t f = 0; f < rule->factor_count; f++) /* attention has softmax inside: it is alone */
            if (rule->factors[f].kind == SP_FACTOR_REDUCTION && !is_contracted(rule, f))
                return SP_ROLE_ALONE;
        return has_windows ? SP_ROLE_CONVOLUTION : SP_ROLE_PRODUCT;
    }
    for (uint32_t i = 1; i < node->output_count; i++)
        if (node->outputs[i] != NULL && node->outputs[i]->use_count > 0)
            return SP_ROLE_ALONE;
    if (is_elementwise(rule))
        return SP_ROLE_ELEMENTWISE;
    return is_normalisation(rule) ? SP_ROLE_NORMALISATION : SP_ROLE_ALONE;
}

bool sp_kernel_goes_by_rows(const struct sp_node *node, const struct sp_rule *rule)
{
    bool computes = false;
    for (uint32_t t = 0; t < rule->term_count; t++)
        computes = computes || rule->terms[t].coefficient > 0;
    for (uint32_t f = 0; f < rule->factor_count; f++) {
        const enum sp_factor_kind kind = rule->factors[f].kind;
        if (kind == SP_FACTOR_HALO || rule->factors[f].combiner == SP_COMBINE_SELECT || kind == SP_FACTOR_SEQUENTIAL ||
            ((kind == SP_FACTOR_REDUCTION || kind == SP_FACTOR_REPLICATE) && computes)) /* not the rows of a table */
            return true;
    }
    return (node->op->flags & SP_OP_PERMUTES) != 0;
}
