
#include "base/array.h"
#include "plan/cost_graph.h"

#define SP_DEVICE_LABEL_SIZE (SP_DEVICE_NAME_SIZE + 16)

/* The spec of a layout in a stage, without a tensor's name. */
struct stage_specs {
    int64_t first_device; /* number in the configuration of the first device of the stage */
    uint32_t capacity;
    const struct sp_sharding_spec **by_layout; /* NULL entries: not made yet */
};

/* What every node's annotation refers to. */
struct context {
    const struct sp_plan *plan;
    struct stage_specs *stages;
    uint32_t device_count;
    const char **device_names;
    uint32_t *seen; /* per value of the main graph: node + 1 that was annotated last */
};

/* Devices in use are numbered from 0 in the cluster's order, so those of one stage stay neighbours. */
static bool number_devices(struct context *c)
{
    const struct sp_plan *plan = c->plan;
    const uint32_t *stage_of = sp_plan_device_stages(plan);
    uint32_t used = 0;
    c->stages = SP_NEW_ARRAY(plan->arena, plan->result->placement.stage_count, struct stage_specs);
    c->device_count = sp_plan_devices_used(plan);
    c->device_names = SP_NEW_ARRAY(plan->arena, c->device_count, const char *);
    if (stage_of == NULL || c->stages == NULL || c->device_names == NULL)
        return false;
    for (uint32_t d = 0; d < plan->cluster->device_count; d++) {
        if (stage_of[d] == SP_NO_STAGE)
            continue;
        char label[SP_DEVICE_LABEL_SIZE];
        int length = snprintf(label, sizeof label, "%s:%u", sp_cluster_device(plan->cluster, d)->name, d);
        char *name = sp_arena_string(plan->arena, label, (size_t)length);
        if (name == NULL)
            return false;
        if (d == plan->result->placement.stage_device[stage_of[d]])
            c->stages[stage_of[d]].first_device = used;
        c->device_names[used++] = name;
    }
    return true;
}

static enum sp_status find_spec(struct context *c, uint32_t stage, uint32_t layout, const struct sp_value *value,
                                struct sp_sharding_spec *ret_spec, struct sp_error *err)
{
    struct stage_specs *specs = &c->stages[stage];
    const uint32_t rank = value->type.shape.has_rank ? value->type.shape.rank : 0;
    if (!SP_MAKE_PLACE(c->plan->arena, specs->by_layout, specs->capacity, layout))
        return sp_fail_memory(err);
    if (specs->by_layout[layout] == NULL) {
        struct sp_sharding_spec *spec = SP_NEW(c->plan->arena, struct sp_sharding_spec);
        if (spec == NULL)
            return sp_fail_memory(err);
        enum sp_status status = sp_plan_spec(c->plan, stage, layout, rank, specs->first_device, spec, err);
        if (status != SP_OK)
            return status;
        specs->by_layout[layout] = spec;
    }
    *ret_spec = *specs->by_layout[layout];
    return SP_OK;
}

static enum sp_status add_spec(struct context *c, uint32_t node, const struct sp_value *value, uint32_t stage,
                               struct sp_node_configuration *configuration, struct sp_error *err)
{
    struct sp_sharding_spec spec = {0};
    /* A name may stand at several operands of a node; it has one spec. Names of outer scopes are not operands. */
    if (value == NULL || value->name[0] == '\0' || c->seen[value->id] == node + 1)
        return SP_OK;
    c->seen[value->id] = node + 1;
    enum sp_status status = find_spec(c, stage, sp_plan_layout(c->plan, node, value->id), value, &spec, err);
    if (status != SP_OK)
        return status;
    spec.tensor_name = value->name;
    configuration->specs[configuration->spec_count++] = spec;
    return SP_OK;
}

static enum sp_status annotate_node(struct context *c, uint32_t index, struct sp_annotation *annotation,
                                    struct sp_error *err)
{
    const struct sp_node *node = &c->plan->model->graph->nodes[index];
    uint32_t stage = c->plan->result->placement.stage_of[index];
    struct sp_node_configuration *configuration = &annotation->configuration;
    enum sp_status status = SP_OK;
    annotation->node = node;
    configuration->configuration_id = SP_PLAN_CONFIGURATION;
    configuration->has_stage = true;
    configuration->stage = (int32_t)stage;
    configuration->specs =
        SP_NEW_ARRAY(c->plan->arena, (size_t)node->input_count + node->output_count, struct sp_sharding_spec);
    if (configuration->specs == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; status == SP_OK && i < node->input_count; i++)
        status = add_spec(c, index, node->inputs[i], stage, configuration, err);
    for (uint32_t i = 0; status == SP_OK && i < node->output_count; i++)
        status = add_spec(c, index, node->outputs[i], stage, configuration, err);
    return status;
}

enum sp_status sp_plan_annotations(const struct sp_plan *plan, struct sp_annotations *ret_annotations,
                                   struct sp_error *err)
{
    const struct sp_graph *graph = plan->model->graph;
    struct context c = {.plan = plan, .seen = SP_NEW_ARRAY(plan->arena, graph->value_count, uint32_t)};
    struct sp_annotation *nodes = SP_NEW_ARRAY(plan->arena, graph->node_count, struct sp_annotation);
    enum sp_status status = SP_OK;
    if (c.seen == NULL || nodes == NULL || !number_devices(&c))
        return sp_fail_memory(err);
    for (uint32_t n = 0; status == SP_OK && n < graph->node_count; n++)
        status = annotate_node(&c, n, &nodes[n], err);
    if (status != SP_OK)
        return status;
    if (plan->model->is_sorted)
        qsort(nodes, graph->node_count, sizeof *nodes, sp_annotation_by_place);
    *ret_annotations = (struct sp_annotations){
        .configuration = SP_PLAN_CONFIGURATION,
        .num_devices = (int32_t)c.device_count,
        .device_names = c.device_names,
        .count = graph->node_count,
        .nodes = nodes,
    };
    return SP_OK;
}

enum sp_status sp_plan_annotate(const struct sp_plan *plan, struct sp_splice **ret_splice, struct sp_error *err)
{
    if (plan->model == NULL)
        return sp_costs_refuse("annotated model", err);
    struct sp_arena_mark mark = sp_arena_mark(plan->arena);
    struct sp_annotations annotations;
    enum sp_status status = sp_plan_annotations(plan, &annotations, err);
    if (status == SP_OK)
        status = sp_onnx_annotate(plan->model, &annotations, ret_splice, err);
    if (status == SP_OK && plan->file != NULL)
        status = sp_model_file_splice(plan->file, ret_splice, err);
    sp_arena_rewind(plan->arena, mark);
    return status;
}
