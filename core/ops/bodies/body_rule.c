#include "ops/bodies/body_rule.h"

#include <assert.h>

#include "base/array.h"
#include "ops/table/rule.h"
#include "ops/table/shape_helpers.h"
#include "ops/table/traffic.h"

struct reading {
    struct sp_model *model;
    struct sp_arena *work, *leaf; /* frames, until the end; the rule of one node at a time */
    struct sp_body_frame *top;
    struct sp_error *err;
};

/* Whether a node's rule is made of those of the nodes in it: control flow over tensors, or an expanded call. */
static bool has_body_rule(const struct sp_node *node)
{
    if (node->op == NULL)
        return node->body != NULL;
    enum sp_control_kind kind = sp_control_kind(node->op);
    return kind != SP_CONTROL_NONE && kind != SP_CONTROL_MAP;
}

/* ---- reading a node inside ----------------------------------------------------------------------------------- */

/* A value that the rule of the whole has no operand for, and no node inside makes. */
static bool is_foreign(const struct sp_body_frame *frame, const struct sp_value *value)
{
    return value->graph != frame->graphs[frame->at] || value->is_constant || value->tensor != NULL ||
           value->sparse != NULL;
}

/* Whether nothing inside sees the node's results, so that they may stay partial until the whole has ended. */
static bool is_final(const struct sp_body_frame *frame, const struct sp_node *node)
{
    const struct sp_graph *graph = frame->graphs[frame->at];
    bool is_loop = frame->node != NULL && frame->control.kind > SP_CONTROL_IF;
    for (uint32_t i = 0; i < node->output_count; i++) {
        const struct sp_value *value = node->outputs[i];
        if (value != NULL && (!value->is_graph_output || value->use_count != 0))
            return false;
        /* A state goes on into the next turn; the condition is asked. */
        for (uint32_t k = 0; value != NULL && is_loop && k < frame->control.first_body_stacked; k++) {
            if (graph->outputs[k] == value)
                return false;
        }
    }
    return true;
}

/* Factors that are not what the axis is cut in: windows with strides, what a slice leaves. */
static void replicate_odd_axes(struct sp_body_frame *frame, const struct sp_unified_axes *axes,
                               const struct sp_shape *shape)
{
    for (uint32_t axis = 0; axis < axes->rank; axis++) {
        struct sp_dim product = sp_dim_known(1);
        const struct sp_unified_axis *list = &axes->axes[axis];
        for (uint32_t k = 0; k < list->count; k++)
            product = sp_dim_mul(frame->dims, product, frame->unifier.items[list->factors[k]].factor.extent);
        if (list->count != 0 && !sp_dim_equal(product, shape->dims[axis]))
            sp_unifier_replicate_axis(&frame->unifier, list);
    }
}

static bool absorb_operands(struct sp_body_frame *frame, const struct sp_operand_rule *operands,
                            struct sp_value *const *values, uint32_t count, uint32_t base)
{
    struct sp_unifier *unifier = &frame->unifier;
    for (uint32_t i = 0; i < count; i++) {
        struct sp_value *value = values[i];
        if (value == NULL)
            continue;
        for (uint8_t k = 0; k < operands[i].position_count; k++)
            sp_unifier_replicate(unifier, base + operands[i].positions[k]);
        struct sp_unified_axes axes = sp_unifier_operand(unifier, &operands[i], base);
        if (unifier->is_out_of_memory)
            return false;
        if (axes.rank != 0)
            replicate_odd_axes(frame, &axes, &value->type.shape);
        if (is_foreign(frame, value))
            sp_unifier_replicate_axes(unifier, &axes);
        else
            sp_unifier_join(unifier, &frame->values[frame->at][value->id], &axes, &value->type.shape);
    }
    return !unifier->is_out_of_memory;
}

static bool absorb_terms(struct sp_body_frame *frame, const struct sp_rule *rule, uint32_t base)
{
    const double pairs = sp_attention_part(rule, NULL).pairs;
    for (uint32_t i = 0; i < rule->term_count; i++) {
        const struct sp_term *from = &rule->terms[i];
        if (!SP_MAKE_ROOM(frame->unifier.arena, frame->terms, frame->term_count, frame->term_capacity, 1))
            return false;
        struct sp_body_term term = {frame->at, from->coefficient * (from->is_seen ? pairs : 1), from->count,
                                    SP_NEW_ARRAY(frame->unifier.arena, from->count, uint32_t)};
        if (term.factors == NULL)
            return false;
        for (uint8_t k = 0; k < from->count; k++)
            term.factors[k] = base + from->factors[k];
        frame->terms[frame->term_count++] = term;
    }
    return true;
}

bool sp_body_absorb(struct sp_body_frame *frame, const struct sp_node *node, const struct sp_rule *rule)
{
    uint32_t base = frame->unifier.count;
    bool may_stay_partial = is_final(frame, node);
    for (uint32_t i = 0; i < rule->factor_count; i++) {
        struct sp_factor factor = rule->factors[i];
        factor.is_resized = false; /* axes of other extents are not mapped */
        if (factor.kind == SP_FACTOR_REDUCTION && !may_stay_partial)
            factor.kind = SP_FACTOR_REPLICATE;
        if (sp_unifier_add(&frame->unifier, &factor) == UINT32_MAX)
            return false;
    }
    return absorb_operands(frame, rule->inputs, node->inputs, node->input_count, base) &&
           absorb_operands(frame, rule->outputs, node->outputs, node->output_count, base) &&
           absorb_terms(frame, rule, base);
}

/* ---- frames -------------------------------------------------------------------------------------------------- */

static enum sp_status push(struct reading *reading, struct sp_node *node)
{
    struct sp_body_frame *frame = SP_NEW(reading->work, struct sp_body_frame);
    if (frame == NULL)
        return sp_fail_memory(reading->err);
    frame->below = reading->top;
    frame->node = node;
    frame->unifier.arena = reading->work;
    frame->dims = reading->model->dims;
    frame->graph_count = 1;
    frame->graphs[0] = node->body;
    if (node->body == NULL) {
        struct sp_op_context context = {reading->model, reading->work, reading->model->dims, node, node->version,
                                        reading->err,   NULL};
        enum sp_status status = sp_control_describe(&context, &frame->control);
        if (status != SP_OK)
            return status;
        int taken = frame->control.kind == SP_CONTROL_IF ? sp_control_taken(node) : 0;
        frame->graphs[0] = frame->control.graphs[taken < 0 ? 0 : taken];
        frame->graphs[1] = frame->control.graphs[1];
        frame->graph_count = taken < 0 ? 2 : 1;
    }
    for (uint32_t i = 0; i < frame->graph_count; i++) {
        assert(frame->graphs[i] != NULL); /* an If has both branches */
        frame->values[i] = SP_NEW_ARRAY(reading->work, frame->graphs[i]->value_count, struct sp_unified_axes);
        if (frame->values[i] == NULL)
            return sp_fail_memory(reading->err);
    }
    reading->top = frame;
    return SP_OK;
}

/* The rule of an operator inside. One without an entry tells nothing: its operands are whole. */
static enum sp_status read_node(struct reading *reading, struct sp_body_frame *frame, struct sp_node *node)
{
    struct sp_arena_mark mark = sp_arena_mark(reading->leaf);
    struct sp_rule *rule = NULL;
    enum sp_status status = node->op != NULL
                                ? sp_rule_of_operator(reading->model, node, reading->leaf, &rule, reading->err)
                                : sp_rule_new(node, reading->leaf, &rule, reading->err);
    if (status == SP_OK && !sp_body_absorb(frame, node, rule))
        status = sp_fail_memory(reading->err);
    sp_arena_rewind(reading->leaf, mark);
    return status;
}

/* The end of the top frame: its rule goes to the frame below, or is the result. */
static enum sp_status end_frame(struct reading *reading, struct sp_rule *result)
{
    struct sp_body_frame *frame = reading->top;
    struct sp_arena_mark mark = sp_arena_mark(reading->leaf);
    struct sp_op_context context = {reading->model, result->arena, reading->model->dims, frame->node, 0,
                                    reading->err,   NULL};
    struct sp_rule *rule = result;
    enum sp_status status = SP_OK;
    if (frame->below != NULL) {
        context.arena = reading->leaf;
        status = sp_rule_new(frame->node, reading->leaf, &rule, reading->err);
    }
    context.version = frame->node != NULL ? frame->node->version : 0;
    if (status == SP_OK && (frame->node == NULL || sp_rule_has_ranks(frame->node)))
        status = sp_body_emit(&context, frame, rule);
    if (status == SP_OK && frame->below != NULL && !sp_body_absorb(frame->below, frame->node, rule))
        status = sp_fail_memory(reading->err);
    sp_arena_rewind(reading->leaf, mark);
    reading->top = frame->below;
    return status;
}

static enum sp_status step(struct reading *reading, struct sp_rule *result)
{
    struct sp_body_frame *frame = reading->top;
    if (frame->next < frame->graphs[frame->at]->node_count) {
        struct sp_node *node = &frame->graphs[frame->at]->nodes[frame->next++];
        if (node->is_folded)
            return SP_OK; /* its results are constants */
        return has_body_rule(node) ? push(reading, node) : read_node(reading, frame, node);
    }
    if (frame->at + 1 == frame->graph_count)
        return end_frame(reading, result);
    frame->at++;
    frame->next = 0;
    return SP_OK;
}

static enum sp_status read_all(struct sp_model *model, struct sp_node *node, struct sp_rule *rule, struct sp_error *err)
{
    struct sp_budget *budget = sp_arena_budget(rule->arena);
    struct reading reading = {model, sp_arena_create(budget), sp_arena_create(budget), NULL, err};
    enum sp_status status = SP_OK;
    if (reading.work == NULL || reading.leaf == NULL)
        status = sp_fail_memory(err);
    if (status == SP_OK)
        status = push(&reading, node);
    while (status == SP_OK && reading.top != NULL)
        status = step(&reading, rule);
    sp_arena_destroy(reading.work);
    sp_arena_destroy(reading.leaf);
    return status;
}

static enum sp_status rule_of_body(struct sp_model *model, struct sp_node *node, struct sp_arena *arena,
                                   struct sp_rule **ret_rule, struct sp_error *err)
{
    struct sp_rule *rule = NULL;
    enum sp_status status = sp_rule_new(node, arena, &rule, err);
    if (status == SP_OK && sp_rule_has_ranks(node))
        status = read_all(model, node, rule, err);
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
    if (has_body_rule(node))
        return rule_of_body(model, node, arena, ret_rule, err);
    if (node->op == NULL)
        return sp_fail(err, SP_ERR_UNSUPPORTED, "NO_RULE", "%s has an operator without a sharding rule.",
                       sp_op_subject(node, label, sizeof label));
    return sp_rule_of_operator(model, node, arena, ret_rule, err);
}
