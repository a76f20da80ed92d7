#include <string.h>

#include "ops/table/rule.h"
#include "ops/table/rule_text.h"
#include "ops/table/shape_helpers.h"

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
    sp_op_subject(context->node, label, sizeof label);
    if (rule->faults & SP_RULE_FAULT_MEMORY)
        return sp_fail_memory(context->err);
    if (rule->faults & SP_RULE_FAULT_FACTORS)
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
    struct sp_op_context context = {model, rule->arena, model->dims, node, node->version, err, NULL};
    if (rule->faults != 0)
        return report_faults(&context, rule);
    enum sp_status status = check_operands(&context, rule, rule->inputs, rule->input_count, true);
    return status != SP_OK ? status : check_operands(&context, rule, rule->outputs, rule->output_count, false);
}

enum sp_status sp_rule_of_operator(struct sp_model *model, struct sp_node *node, struct sp_arena *arena,
                                   struct sp_rule **ret_rule, struct sp_error *err)
{
    struct sp_op_context context = {model, arena, model->dims, node, node->version, err, NULL};
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
    return (size_t)combiner < sizeof names / sizeof names[0] ? names[combiner] : "";
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
