#include "plan/internal.h"

#define SP_DEVICE_LABEL_SIZE (SP_DEVICE_NAME_SIZE + 16)

/* What every node's annotation refers to. */
struct context {
    const struct sp_plan *plan;
    int64_t *device_of_stage; /* number in the configuration */
    const char **device_names;
    uint32_t *seen; /* per value of the main graph: node + 1 that was annotated last */
};

/* Devices in use are numbered from 0 in the cluster's order. */
static bool number_devices(struct context *c)
{
    const struct sp_plan *plan = c->plan;
    const uint32_t *stage_of = sp_plan_device_stages(plan);
    uint32_t count = plan->result->placement.stage_count, used = 0;
    c->device_of_stage = SP_NEW_ARRAY(plan->arena, count, int64_t);
    c->device_names = SP_NEW_ARRAY(plan->arena, count, const char *);
    if (stage_of == NULL || c->device_of_stage == NULL || c->device_names == NULL)
        return false;
    for (uint32_t d = 0; d < plan->cluster->device_count; d++) {
        if (stage_of[d] == SP_NO_STAGE)
            continue;
        char label[SP_DEVICE_LABEL_SIZE];
        int length = snprintf(label, sizeof label, "%s:%u", sp_cluster_device(plan->cluster, d)->name, d);
        char *name = sp_arena_string(plan->arena, label, (size_t)length);
        if (name == NULL)
            return false;
        c->device_names[used] = name;
        c->device_of_stage[stage_of[d]] = used++;
    }
    return true;
}

static void add_spec(struct context *c, uint32_t node, const struct sp_value *value, uint32_t stage,
                     struct sp_node_configuration *configuration)
{
    /* A name may stand at several operands of a node; it has one spec. Names of outer scopes are not operands. */
    if (value == NULL || value->name[0] == '\0' || c->seen[value->id] == node + 1)
        return;
    c->seen[value->id] = node + 1;
    configuration->specs[configuration->spec_count++] = (struct sp_sharding_spec){
        .tensor_name = value->name,
        .device_count = 1,
        .devices = &c->device_of_stage[stage],
    };
}

static bool annotate_node(struct context *c, uint32_t index, struct sp_annotation *annotation)
{
    const struct sp_node *node = &c->plan->model->graph->nodes[index];
    uint32_t stage = c->plan->result->placement.stage_of[index];
    struct sp_node_configuration *configuration = &annotation->configuration;
    annotation->node = node;
    configuration->configuration_id = SP_PLAN_CONFIGURATION;
    configuration->has_stage = true;
    configuration->stage = (int32_t)stage;
    configuration->specs =
        SP_NEW_ARRAY(c->plan->arena, (size_t)node->input_count + node->output_count, struct sp_sharding_spec);
    if (configuration->specs == NULL)
        return false;
    for (uint32_t i = 0; i < node->input_count; i++)
        add_spec(c, index, node->inputs[i], stage, configuration);
    for (uint32_t i = 0; i < node->output_count; i++)
        add_spec(c, index, node->outputs[i], stage, configuration);
    return true;
}

enum sp_status sp_plan_annotations(const struct sp_plan *plan, struct sp_annotations *ret_annotations,
                                   struct sp_error *err)
{
    const struct sp_graph *graph = plan->model->graph;
    struct context c = {.plan = plan, .seen = SP_NEW_ARRAY(plan->arena, graph->value_count, uint32_t)};
    struct sp_annotation *nodes = SP_NEW_ARRAY(plan->arena, graph->node_count, struct sp_annotation);
    if (c.seen == NULL || nodes == NULL || !number_devices(&c))
        return sp_fail_memory(err);
    for (uint32_t n = 0; n < graph->node_count; n++) {
        if (!annotate_node(&c, n, &nodes[n]))
            return sp_fail_memory(err);
    }
    *ret_annotations = (struct sp_annotations){
        .configuration = SP_PLAN_CONFIGURATION,
        .num_devices = (int32_t)plan->result->placement.stage_count,
        .device_names = c.device_names,
        .count = graph->node_count,
        .nodes = nodes,
    };
    return SP_OK;
}

enum sp_status sp_plan_annotate(const struct sp_plan *plan, struct sp_splice **ret_splice, struct sp_error *err)
{
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
