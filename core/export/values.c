/* Every value of the main graph with its sharding, and the uses that take another one. */
#include "export/internal.h"

struct walk {
    struct sp_export *out;
    const struct sp_sharding **of; /* per value: its sharding, or NULL */
    enum sp_status (*visit)(struct sp_export *out, const struct sp_export_value *item, void *context,
                            struct sp_error *err);
    void *context;
    struct sp_error *err;
};

static const struct sp_sharding *sharding_of(const struct sp_export *out, const struct sp_node *node, uint32_t operand)
{
    const struct sp_subject *subject = out->subject;
    const struct sp_node_specs *specs = &subject->assignment->nodes[sp_dataflow_node(subject->dataflow, node)];
    return specs->operands != NULL ? specs->operands[operand].sharding : NULL;
}

/* As its producer makes it; what nobody makes, as its first use takes it. */
static const struct sp_sharding *sharding_of_value(const struct sp_export *out, const struct sp_value *value)
{
    if (value->producer != NULL)
        return sharding_of(out, value->producer, value->producer->input_count + value->producer_output);
    for (uint32_t i = 0; i < value->use_count; i++) {
        const struct sp_use *use = &value->uses[i];
        const struct sp_sharding *sharding = use->input != UINT32_MAX ? sharding_of(out, use->node, use->input) : NULL;
        if (sharding != NULL)
            return sharding;
    }
    return NULL;
}

static enum sp_status fill_shape(const struct walk *walk, struct sp_export_value *item)
{
    const struct sp_shape *shape = &item->value->type.shape;
    if (item->value->type.kind != SP_TYPE_TENSOR || !shape->has_rank || shape->rank > SP_MAX_RANK)
        return SP_OK;
    int64_t *extents = SP_NEW_ARRAY(walk->out->scratch, shape->rank + 1, int64_t);
    if (extents == NULL)
        return sp_fail_memory(walk->err);
    for (uint32_t i = 0; i < shape->rank; i++)
        extents[i] = sp_dim_is_known(shape->dims[i]) ? shape->dims[i].value : -1;
    item->rank = shape->rank;
    item->shape = extents;
    return SP_OK;
}

static enum sp_status visit_item(const struct walk *walk, struct sp_export_value item)
{
    struct sp_arena_mark mark = sp_arena_mark(walk->out->scratch);
    enum sp_status status = item.sharding != NULL ? fill_shape(walk, &item) : SP_OK;
    bool is_wanted = item.sharding != NULL && item.shape != NULL;
    if (status == SP_OK && is_wanted && item.is_other) {
        bool is_same = false;
        status = sp_sharding_equal(walk->out->scratch, walk->of[item.value->id], item.sharding, item.rank,
                                   sp_export_known(item.shape, item.rank), &is_same, walk->err);
        is_wanted = !is_same;
    }
    if (status == SP_OK && is_wanted)
        status = walk->visit(walk->out, &item, walk->context, walk->err);
    sp_arena_rewind(walk->out->scratch, mark);
    return status;
}

static enum sp_status visit_node(const struct walk *walk, const struct sp_node *node)
{
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < node->input_count; i++) {
        const struct sp_value *value = node->inputs[i];
        const struct sp_sharding *taken = value != NULL ? sharding_of(walk->out, node, i) : NULL;
        if (taken != NULL && walk->of[value->id] != NULL && taken != walk->of[value->id])
            status = visit_item(walk, (struct sp_export_value){value, node, i, true, taken, 0, NULL});
    }
    for (uint32_t i = 0; status == SP_OK && i < node->output_count; i++) {
        const struct sp_value *value = node->outputs[i];
        if (value != NULL)
            status = visit_item(walk, (struct sp_export_value){value, node, node->input_count + i, false,
                                                               walk->of[value->id], 0, NULL});
    }
    return status;
}

enum sp_status sp_export_values(struct sp_export *out,
                                enum sp_status (*visit)(struct sp_export *out, const struct sp_export_value *item,
                                                        void *context, struct sp_error *err),
                                void *context, struct sp_error *err)
{
    const struct sp_graph *graph = out->subject->model->graph;
    struct sp_arena_mark mark = sp_arena_mark(out->scratch);
    struct walk walk = {out, SP_NEW_ARRAY(out->scratch, graph->value_count, const struct sp_sharding *), visit, context,
                        err};
    enum sp_status status = SP_OK;
    if (walk.of == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < graph->value_count; i++)
        walk.of[i] = sharding_of_value(out, graph->values[i]);
    for (uint32_t i = 0; status == SP_OK && i < graph->value_count; i++) {
        const struct sp_value *value = graph->values[i];
        if (value->producer == NULL)
            status = visit_item(&walk, (struct sp_export_value){value, NULL, 0, false, walk.of[i], 0, NULL});
    }
    for (uint32_t i = 0; status == SP_OK && i < graph->node_count; i++)
        status = visit_node(&walk, &graph->nodes[i]);
    sp_arena_rewind(out->scratch, mark);
    return status;
}

enum sp_status sp_export_note_inner(struct sp_export *out, struct sp_error *err)
{
    const struct sp_graph *graph = out->subject->model->graph;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const struct sp_node *node = &graph->nodes[i];
        for (uint32_t k = 0; k < node->attribute_count; k++) {
            const enum sp_attr_type type = node->attributes[k].type;
            if (type == SP_ATTR_GRAPH || type == SP_ATTR_GRAPHS)
                return sp_export_note(
                    out, "SUBGRAPHS_LEFT_OUT", node, err,
                    "Values inside the subgraphs of control flow are not listed; the annotated model has "
                    "their shardings.");
        }
    }
    return SP_OK;
}
