#include <assert.h>
#include <string.h>

#include "ops/bodies/body_rule.h"
#include "ops/table/rule.h"
#include "ops/table/rule_text.h"
#include "ops/table/shape_helpers.h"

enum fault { FAULT_MEMORY = 1 << 0, FAULT_FACTORS = 1 << 1, FAULT_TERMS = 1 << 2, FAULT_INDEX = 1 << 3 };

/* Doubles an arena array when `count` has filled it; the old one stays in the arena. */
static void *grow(struct sp_rule *rule, void *items, uint32_t count, size_t size)
{
    if (count != 0 && (count < 4 || (count & (count - 1)) != 0))
        return items;
    void *larger = sp_arena_array(rule->arena, count < 4 ? 4 : 2 * (size_t)count, size);
    if (larger == NULL)
        rule->faults |= FAULT_MEMORY;
    else if (count != 0)
        memcpy(larger, items, count * size);
    return larger;
}

/* ---- building ------------------------------------------------------------------------------------------------ */

uint8_t sp_rule_factor(struct sp_rule *rule, const char *name, enum sp_factor_kind kind, struct sp_dim extent)
{
    if (rule->factor_count == SP_RULE_MAX_FACTORS) {
        rule->faults |= FAULT_FACTORS;
        return SP_RULE_MAX_FACTORS - 1;
    }
    struct sp_factor *factors = grow(rule, rule->factors, rule->factor_count, sizeof(struct sp_factor));
    if (factors == NULL)
        return rule->factor_count == 0 ? 0 : (uint8_t)(rule->factor_count - 1);
    rule->factors = factors;
    struct sp_factor *factor = &factors[rule->factor_count];
    memcpy(factor->name, name, strnlen(name, sizeof(factor->name) - 1)); /* the rest is zero */
    factor->kind = kind;
    factor->extent = extent;
    factor->block = 1;
    return (uint8_t)rule->factor_count++;
}

static void map(struct sp_rule *rule, struct sp_operand_rule *operands, uint32_t count, uint32_t operand, uint32_t axis,
                uint8_t factor)
{
    if (operand >= count || axis >= operands[operand].rank || factor >= rule->factor_count) {
        rule->faults |= FAULT_INDEX;
        return;
    }
    struct sp_axis_factors *list = &operands[operand].axes[axis];
    if (list->count == SP_RULE_MAX_FACTORS) {
        rule->faults |= FAULT_FACTORS;
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
        rule->faults |= FAULT_INDEX;
        return;
    }
    struct sp_operand_rule *of = &operands[operand];
    if (of->position_count == SP_RULE_MAX_FACTORS) {
        rule->faults |= FAULT_FACTORS;
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
        rule->faults |= FAULT_TERMS;
        return;
    }
    struct sp_term *terms = grow(rule, rule->terms, rule->term_count, sizeof(struct sp_term));
    uint8_t *copy = SP_NEW_ARRAY(rule->arena, count, uint8_t);
    if (terms == NULL || copy == NULL) {
        rule->faults |= FAULT_MEMORY;
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (factors[i] >= rule->factor_count)
            rule->faults |= FAULT_INDEX;
        copy[i] = factors[i];
    }
    rule->terms = terms;
    terms[rule->term_count++] = (struct sp_term){coefficient, (uint8_t)count, copy};
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

/* ---- the rule of a node -------------------------------------------------------------------------------------- */

static bool has_known_ranks(struct sp_value *const *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (values[i] != NULL && (values[i]->type.kind != SP_TYPE_TENSOR || !values[i]->type.shape.has_rank))
            return false;
    }
    return true;
}

static struct sp_operand_rule *new_operands(struct sp_arena *arena, struct sp_value *const *values, uint32_t count)
{
    struct sp_operand_rule *operands = SP_NEW_ARRAY(arena, count, struct sp_operand_rule);
    for (uint32_t i = 0; operands != NULL && i < count; i++) {
        if (values[i] == NULL || values[i]->type.kind != SP_TYPE_TENSOR || !values[i]->type.shape.has_rank)
            continue;
        operands[i].rank = values[i]->type.shape.rank;
        operands[i].axes = SP_NEW_ARRAY(arena, operands[i].rank, struct sp_axis_factors);
        if (operands[i].axes == NULL)
            return NULL;
    }
    return operands;
}

static enum sp_status check_operands(struct sp_op_context *context, const struct sp_rule *rule,
                                     const struct sp_operand_rule *operands, uint32_t count, bool is_input)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_value *value = is_input ? context->node->inputs[i] : context->node->outputs[i];
        for (uint32_t axis = 0; axis < operands[i].rank; axis++) {
            const struct sp_axis_factors *list = &operands[i].axes[axis];
            struct sp_dim product = sp_dim_known(1);
            bool has_halo = false, is_resized = false;
            for (uint8_t k = 0; k < list->count; k++) {
                const struct sp_factor *factor = &rule->factors[list->factors[k]];
                has_halo = has_halo || factor->kind == SP_FACTOR_HALO;
                is_resized = is_resized || factor->is_resized;
                product = k == 0 ? factor->extent : sp_dim_mul(context->dims, product, factor->extent);
            }
            struct sp_dim extent = value->type.shape.dims[axis];
            if (list->count == 0 || (is_input && has_halo) || is_resized || !sp_dim_is_known(product) ||
                !sp_dim_is_known(extent))
                continue;
            if (product.value != extent.value)
                return sp_op_fail(context, "SHAPES_DISAGREE",
                                  "axis %u of '%.120s' has %lld elements where the other operands make it %lld", axis,
                                  value->name, (long long)extent.value, (long long)product.value);
        }
    }
    return SP_OK;
}

static enum sp_status report_faults(struct sp_op_context *context, const struct sp_rule *rule)
{
    char label[264];
    sp_op_subject(context->node, label, sizeof(label));
    if (rule->faults & FAULT_MEMORY)
        return sp_fail_memory(context->err);
    if (rule->faults & FAULT_FACTORS)
        return sp_fail_limit(context->err, "TOO_MANY_FACTORS", "SP_RULE_MAX_FACTORS", SP_RULE_MAX_FACTORS,
                             SP_RULE_MAX_FACTORS + 1, "%s needs more than %d factors in its sharding rule.", label,
                             SP_RULE_MAX_FACTORS);
    return sp_fail(context->err, SP_ERR_INTERNAL, "BROKEN_RULE",
                   "%s has a sharding rule with an operand, axis or factor that does not exist.", label);
}

enum sp_status sp_rule_new(const struct sp_node *node, struct sp_arena *arena, struct sp_rule **ret_rule,
                           struct sp_error *err)
{
    struct sp_rule *rule = SP_NEW(arena, struct sp_rule);
    if (rule == NULL)
        return sp_fail_memory(err);
    rule->arena = arena;
    rule->bytes = -1;
    rule->input_count = node->input_count;
    rule->output_count = node->output_count;
    rule->inputs = new_operands(arena, node->inputs, node->input_count);
    rule->outputs = new_operands(arena, node->outputs, node->output_count);
    /* There is always one factor to look at: what sp_rule_factor() returns without memory is a valid index. */
    rule->factors = SP_NEW(arena, struct sp_factor);
    if (rule->inputs == NULL || rule->outputs == NULL || rule->factors == NULL)
        return sp_fail_memory(err);
    *ret_rule = rule;
    return SP_OK;
}

bool sp_rule_has_ranks(const struct sp_node *node)
{
    return has_known_ranks(node->inputs, node->input_count) && has_known_ranks(node->outputs, node->output_count);
}

enum sp_status sp_rule_check(struct sp_model *model, struct sp_node *node, const struct sp_rule *rule,
                             struct sp_error *err)
{
    struct sp_op_context context = {model, rule->arena, model->dims, node, node->version, err};
    if (rule->faults != 0)
        return report_faults(&context, rule);
    enum sp_status status = check_operands(&context, rule, rule->inputs, rule->input_count, true);
    return status != SP_OK ? status : check_operands(&context, rule, rule->outputs, rule->output_count, false);
}

enum sp_status sp_rule_of_operator(struct sp_model *model, struct sp_node *node, struct sp_arena *arena,
                                   struct sp_rule **ret_rule, struct sp_error *err)
{
    struct sp_op_context context = {model, arena, model->dims, node, node->version, err};
    struct sp_rule *rule = NULL;
    enum sp_status status = sp_rule_new(node, arena, &rule, err);
    if (rule == NULL)
        return status;
    bool has_result = node->op->min_outputs == 0 || (node->output_count > 0 && node->outputs[0] != NULL);
    if (has_result && sp_rule_has_ranks(node))
        status = sp_op_fill_rule(&context, rule, node->op);
    if (status == SP_OK && node->op->flags & SP_OP_VIEW)
        rule->bytes = 0;
    if (status == SP_OK)
        status = sp_rule_check(model, node, rule, err);
    if (status == SP_OK)
        *ret_rule = rule;
    return status;
}

enum sp_status sp_op_rule(struct sp_model *model, struct sp_node *node, struct sp_arena *arena,
                          struct sp_rule **ret_rule, struct sp_error *err)
{
    char label[264];
    if (sp_has_body_rule(node))
        return sp_body_rule(model, node, arena, ret_rule, err);
    if (node->op == NULL)
        return sp_fail(err, SP_ERR_UNSUPPORTED, "NO_RULE", "%s has an operator without a sharding rule.",
                       sp_op_subject(node, label, sizeof(label)));
    return sp_rule_of_operator(model, node, arena, ret_rule, err);
}

double sp_rule_flops(const struct sp_rule *rule)
{
    double flops = 0;
    for (uint32_t i = 0; i < rule->term_count; i++) {
        double points = rule->terms[i].coefficient;
        for (uint8_t k = 0; k < rule->terms[i].count; k++) {
            struct sp_dim extent = rule->factors[rule->terms[i].factors[k]].extent;
            points *= sp_dim_is_known(extent) ? (double)extent.value : 1.0;
        }
        flops += points;
    }
    return flops;
}

/* ---- printing ------------------------------------------------------------------------------------------------ */

static void print_operand(const struct sp_rule *rule, const struct sp_operand_rule *operand, struct sp_buf *buf)
{
    sp_buf_text(buf, "[");
    for (uint32_t axis = 0; axis < operand->rank; axis++) {
        sp_buf_text(buf, axis == 0 ? "" : ",");
        if (operand->axes[axis].count == 0)
            sp_buf_text(buf, "_");
        for (uint8_t i = 0; i < operand->axes[axis].count; i++)
            sp_buf_printf(buf, "%s%s", i == 0 ? "" : "*", rule->factors[operand->axes[axis].factors[i]].name);
    }
    sp_buf_text(buf, "]");
    for (uint8_t i = 0; i < operand->position_count; i++)
        sp_buf_printf(buf, "%s%s",
                      i == 0                ? "@"
                      : operand->are_tuples ? "&"
                                            : "*",
                      rule->factors[operand->positions[i]].name);
}

static const char *combiner_name(enum sp_combiner combiner)
{
    static const char *const names[] = {"", "sum ", "max ", "min ", "product ", "softmax ", "moments ", "select "};
    return (size_t)combiner < sizeof(names) / sizeof(names[0]) ? names[combiner] : "";
}

static void print_kind(const struct sp_factor *factor, struct sp_buf *buf)
{
    switch (factor->kind) {
    case SP_FACTOR_PARALLEL:
        sp_buf_text(buf, "parallel");
        break;
    case SP_FACTOR_REDUCTION:
        sp_buf_printf(buf, "%sreduction", combiner_name(factor->combiner));
        break;
    case SP_FACTOR_REPLICATE:
        sp_buf_text(buf, "replicate");
        break;
    case SP_FACTOR_HALO:
        sp_buf_printf(buf, "halo %lld+%lld", (long long)factor->halo_low, (long long)factor->halo_high);
        break;
    case SP_FACTOR_PERMUTATION:
        sp_buf_text(buf, "permutation");
        break;
    case SP_FACTOR_SEQUENTIAL:
        sp_buf_text(buf, "sequential");
        break;
    }
    if (factor->block != 1)
        sp_buf_printf(buf, " in blocks of %lld", (long long)factor->block);
    if (factor->is_blocked)
        sp_buf_text(buf, ", not carried");
    if (factor->is_resized)
        sp_buf_text(buf, ", resized");
}

void sp_rule_print(const struct sp_rule *rule, struct sp_buf *buf)
{
    for (uint32_t i = 0; i < rule->input_count; i++) {
        print_operand(rule, &rule->inputs[i], buf);
        sp_buf_text(buf, " ");
    }
    sp_buf_text(buf, "->");
    for (uint32_t i = 0; i < rule->output_count; i++) {
        sp_buf_text(buf, " ");
        print_operand(rule, &rule->outputs[i], buf);
    }
    const char *separator = "  ";
    for (uint32_t i = 0; i < rule->factor_count; i++) {
        const struct sp_factor *factor = &rule->factors[i];
        if (factor->kind == SP_FACTOR_PARALLEL && factor->block == 1 && !factor->is_blocked)
            continue; /* the ordinary case */
        sp_buf_printf(buf, "%s%s: ", separator, factor->name);
        print_kind(factor, buf);
        separator = "; ";
    }
}
