/* Each node seen through its rule: contradictions between its operands. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "check/meaning.h"

static const char *conflict_code(enum sp_conflict_kind kind)
{
    static const char *const codes[] = {
        [SP_CONFLICT_SPLIT] = "OPERANDS_SPLIT_DIFFERENTLY", [SP_CONFLICT_WHOLE] = "OPERAND_NOT_SPLIT",
        [SP_CONFLICT_DEVICES] = "OPERAND_NOT_ON_DEVICE",    [SP_CONFLICT_COVERAGE] = "DEVICES_DO_NOT_MEET",
        [SP_CONFLICT_NEEDS_WHOLE] = "AXIS_NEEDED_WHOLE",    [SP_CONFLICT_BLOCK] = "CUT_BETWEEN_FACTORS",
        [SP_CONFLICT_FACTORS] = "CUT_BETWEEN_FACTORS",      [SP_CONFLICT_SEVERAL] = "SHARDS_NOT_REGULAR",
    };
    return codes[kind];
}

static const struct sp_value *operand_value(const struct sp_node *node, uint32_t operand)
{
    if (operand >= node->input_count + node->output_count)
        return NULL;
    return operand < node->input_count ? node->inputs[operand] : node->outputs[operand - node->input_count];
}

/* A node of which nothing is said is not looked at. */
static bool is_annotated(const struct sp_assignment *assignment, const struct sp_relation *relation)
{
    for (uint32_t i = 0; i < relation->operand_count; i++) {
        if (sp_meaning_is_said(sp_spec_of(assignment, relation->node_id, i)))
            return true;
    }
    return false;
}

/* Where an operand's spec is not the node's own, the reader needs to know whose it is. */
static const char *because_of(const struct sp_meaning *meaning, const struct sp_relation *relation,
                              const struct sp_conflict *conflict, char *text, size_t size)
{
    const uint32_t operands[2] = {conflict->operand, conflict->other};
    text[0] = '\0';
    for (uint32_t i = 0; i < 2; i++) {
        if (operands[i] == SP_NO_TENSOR || operands[i] >= relation->operand_count)
            continue;
        const struct sp_spec_entry *entry = sp_spec_of(meaning->assignment, relation->node_id, operands[i]);
        const size_t used = strlen(text);
        if (entry->origin == SP_SPEC_INFERRED && entry->because != NULL && used + 2 < size)
            (void)snprintf(text + used, size - used, " %s", entry->because);
    }
    return text;
}

static enum sp_status report_conflicts(struct sp_meaning *meaning, const struct sp_relation *relation,
                                       const struct sp_view *view)
{
    enum sp_status status = SP_OK;
    char because[SP_ERROR_MESSAGE_SIZE];
    for (uint32_t i = 0; status == SP_OK && i < view->conflict_count; i++) {
        const struct sp_conflict *conflict = &view->conflicts[i];
        const struct sp_value *value = operand_value(relation->node, conflict->operand);
        status = sp_meaning_report(meaning, conflict_code(conflict->kind), relation->node,
                                   value == NULL ? NULL : value->name, NULL, 0, "%s%s", conflict->message,
                                   because_of(meaning, relation, conflict, because, sizeof because));
    }
    return status;
}

/* ---- one spec for two operands -------------------------------------------------------------------------------- */

/* Whether a cut of this axis means another loop for operand a than for operand b. */
static bool means_differ(const struct sp_rule *rule, uint32_t a, uint32_t b, uint32_t axis)
{
    const struct sp_operand_rule *left = sp_rule_operand(rule, a), *right = sp_rule_operand(rule, b);
    if (axis >= left->rank || axis >= right->rank)
        return false;
    const struct sp_axis_factors *x = &left->axes[axis], *y = &right->axes[axis];
    return x->count != y->count || (x->count > 0 && memcmp(x->factors, y->factors, x->count) != 0);
}

/* MatMul(X, X): a spec that splits the rows of the one splits the sum of the other. */
static enum sp_status check_same_tensor(struct sp_meaning *meaning, const struct sp_relation *relation,
                                        const struct sp_view *view)
{
    const struct sp_node *node = relation->node;
    char label[SP_ERROR_WHERE_SIZE];
    for (uint32_t a = 0; a < node->input_count && a < view->rule->input_count; a++) {
        const struct sp_spec_entry *entry = sp_spec_of(meaning->assignment, relation->node_id, a);
        if (node->inputs[a] == NULL || entry->origin != SP_SPEC_GIVEN)
            continue;
        /* The next use of the same tensor is enough: it is the rare operator that has more. */
        uint32_t b = a + 1;
        while (b < node->input_count && b < view->rule->input_count && b < a + 64 && node->inputs[b] != node->inputs[a])
            b++;
        if (b >= node->input_count || b >= view->rule->input_count || node->inputs[b] != node->inputs[a])
            continue;
        for (uint32_t axis = 0; axis < node->inputs[a]->type.shape.rank; axis++) {
            if (sp_sharding_shards(entry->sharding, axis) <= 1 || !means_differ(view->rule, a, b, axis))
                continue;
            return sp_meaning_report(meaning, "SPEC_FOR_SEVERAL_OPERANDS", node, node->inputs[a]->name, NULL, 0,
                                     "'%.120s' is input %" PRIu32 " and input %" PRIu32
                                     " of %s, where its axis %" PRIu32
                                     " means different things, but one spec is for both.",
                                     node->inputs[a]->name, a, b, sp_node_label(node, label, sizeof label), axis);
        }
    }
    return SP_OK;
}

/* ---- all of it ------------------------------------------------------------------------------------------------ */

static enum sp_status check_node(struct sp_meaning *meaning, const struct sp_relation *relation)
{
    struct sp_view *view = NULL;
    char label[SP_ERROR_WHERE_SIZE];
    enum sp_status status = sp_view_create(meaning->scratch, meaning->assignment, relation, &view, meaning->err);
    if (status != SP_OK)
        return status;
    if (view->is_too_large)
        return sp_meaning_report(meaning, "NOT_LOOKED_AT", relation->node, NULL, NULL, 0,
                                 "The specs of %s name too many devices to compare them.",
                                 sp_node_label(relation->node, label, sizeof label));
    status = report_conflicts(meaning, relation, view);
    return status == SP_OK ? check_same_tensor(meaning, relation, view) : status;
}

enum sp_status sp_check_meaning_nodes(struct sp_meaning *meaning)
{
    const struct sp_dataflow *dataflow = meaning->assignment->dataflow;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < dataflow->relation_count; i++) {
        const struct sp_relation *relation = &dataflow->relations[i];
        if (relation->kind != SP_RELATION_NODE || !is_annotated(meaning->assignment, relation))
            continue;
        struct sp_arena_mark mark = sp_arena_mark(meaning->scratch);
        status = check_node(meaning, relation);
        sp_arena_rewind(meaning->scratch, mark);
    }
    return status;
}
