#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/sorted.h"
#include "infer/stored.h"
#include "plan/cost_graph.h"
#include "plan/service/service.h"

#define SP_DEVICE_LABEL_SIZE (SP_DEVICE_NAME_SIZE + 16)

SP_ASCENDING_NUMBERS(by_number, int64_t)

/* The spec of a layout in a stage, without a tensor's name. */
struct stage_specs {
    int64_t first_device; /* number in the configuration of the first device of the stage */
    uint32_t capacity;
    const struct sp_sharding_spec **by_layout; /* NULL entries: not made yet */
};

struct stage_list {
    uint32_t count;
    const uint32_t *stages; /* ascending */
};

/* A node that runs at load. */
struct folded {
    struct stage_list used_by;
    uint32_t *layouts; /* of its operands; NULL: all whole */
};

/* What every node's annotation refers to. */
struct context {
    const struct sp_plan *plan;
    struct stage_specs *stages;
    uint32_t device_count;
    const char **device_names;
    uint32_t *seen;        /* per value of the main graph: node + 1 that was annotated last */
    struct folded *folded; /* per node */
};

/* Devices in use, on any route, are numbered from 0 in the cluster's order, so those of one stage stay neighbours. */
static bool number_devices(struct context *c)
{
    const struct sp_plan *plan = c->plan;
    const uint32_t *stage_of = sp_plan_device_stages(plan);
    uint32_t used = 0;
    c->stages = SP_NEW_ARRAY(plan->arena, plan->result->placement.stage_count, struct stage_specs);
    c->device_count = sp_plan_copy_devices(plan);
    c->device_names = SP_NEW_ARRAY(plan->arena, c->device_count, const char *);
    if (stage_of == NULL || c->stages == NULL || c->device_names == NULL)
        return false;
    for (uint32_t d = 0; d < plan->cluster->device_count; d++) {
        if (stage_of[d] == SP_NO_STAGE && sp_routed_holder(plan->result->routes, d) == NULL)
            continue;
        char label[SP_DEVICE_LABEL_SIZE];
        int length = snprintf(label, sizeof label, "%s:%u", sp_cluster_device(plan->cluster, d)->name,
                              sp_cluster_number(plan->cluster, d));
        char *name = sp_arena_string(plan->arena, label, (size_t)length);
        if (name == NULL)
            return false;
        if (stage_of[d] != SP_NO_STAGE && d == plan->result->placement.stage_device[stage_of[d]])
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

/* ---- what runs at load ------------------------------------------------------------------------------------------ */

/*
 * What runs at load has no place in a search: it runs wherever a node uses what it makes, so that nothing is sent.
 * Where all users have it in one layout of one stage, each device makes the part that it uses, and holds parts of the
 * constants, too: of quantised weights the part of their elements, scales and zero points.
 */

static bool is_folded(const struct context *c, uint32_t node)
{
    return c->plan->workload->nodes[node].folded;
}

static uint32_t layout_of(const struct context *c, uint32_t node, uint32_t operand, const struct sp_value *value)
{
    if (!is_folded(c, node))
        return sp_plan_layout(c->plan, node, value->id);
    return c->folded[node].layouts != NULL ? c->folded[node].layouts[operand] : 0;
}

/* The layout in which all uses have the result of a node; 0 where they differ. */
static uint32_t layout_of_uses(const struct context *c, const struct sp_value *value)
{
    uint32_t layout = 0;
    for (uint32_t i = 0; i < value->use_count; i++) {
        const struct sp_use *use = &value->uses[i];
        const uint32_t wanted = use->input != UINT32_MAX ? layout_of(c, use->node->index, use->input, value) : 0;
        if (wanted == 0 || (i > 0 && wanted != layout))
            return 0;
        layout = wanted;
    }
    return value->is_graph_output ? 0 : layout;
}

/* Adds the stages of one user; a list that has all of both is not made again. */
static bool add_stages(struct context *c, const struct stage_list *more, struct stage_list *list)
{
    uint32_t a = 0, b = 0, count = 0;
    if (list->stages == NULL || more->stages == NULL) {
        *list = list->stages == NULL ? *more : *list;
        return true;
    }
    uint32_t *all = SP_NEW_ARRAY(c->plan->arena, (size_t)list->count + more->count, uint32_t);
    if (all == NULL)
        return false;
    while (a < list->count || b < more->count) {
        const uint32_t x = a < list->count ? list->stages[a] : UINT32_MAX;
        const uint32_t y = b < more->count ? more->stages[b] : UINT32_MAX;
        all[count++] = x < y ? x : y;
        a += x <= y;
        b += y <= x;
    }
    if (count > list->count)
        *list = count == more->count ? *more : (struct stage_list){count, all};
    return true;
}

/* The stages that use what a node makes. */
static bool find_stages(struct context *c, uint32_t node, struct stage_list *ret_list)
{
    const struct sp_node *of = &c->plan->model->graph->nodes[node];
    const uint32_t *stage_of = c->plan->result->placement.stage_of;
    *ret_list = (struct stage_list){0};
    for (uint32_t o = 0; o < of->output_count; o++) {
        const struct sp_value *value = of->outputs[o];
        for (uint32_t i = 0; value != NULL && i < value->use_count; i++) {
            const uint32_t user = value->uses[i].node->index;
            const struct stage_list own = {1, &stage_of[user]};
            const struct sp_arena_mark mark = sp_arena_mark(c->plan->arena);
            const uint32_t *before = ret_list->stages;
            if (!add_stages(c, is_folded(c, user) ? &c->folded[user].used_by : &own, ret_list))
                return false;
            if (ret_list->stages == before)
                sp_arena_rewind(c->plan->arena, mark);
        }
    }
    if (ret_list->count == 0)
        *ret_list = (struct stage_list){1, &stage_of[node]};
    return true;
}

/* Users come behind, so where they run is known. */
static enum sp_status place_folded(struct context *c, struct sp_error *err)
{
    const struct sp_graph *graph = c->plan->model->graph;
    enum sp_status status = SP_OK;
    for (uint32_t n = graph->node_count; n-- > 0 && status == SP_OK;) {
        const struct sp_node *node = &graph->nodes[n];
        struct folded *folded = &c->folded[n];
        if (!is_folded(c, n))
            continue;
        if (!find_stages(c, n, &folded->used_by))
            return sp_fail_memory(err);
        const struct sp_sharded_stage *sharded = sp_plan_sharded(c->plan, folded->used_by.stages[0]);
        if (folded->used_by.count > 1 || sharded == NULL || node->output_count != 1 || node->outputs[0] == NULL)
            continue;
        const uint32_t layout = layout_of_uses(c, node->outputs[0]);
        if (layout == 0)
            continue;
        folded->layouts = SP_NEW_ARRAY(c->plan->arena, (size_t)node->input_count + 1, uint32_t);
        if (folded->layouts == NULL)
            return sp_fail_memory(err);
        status = sp_strategy_folded_layouts(sharded->table, n, layout, folded->layouts, err);
    }
    return status;
}

/* Whole on the devices of several stages. */
static enum sp_status spread_spec(const struct context *c, const struct stage_list *list,
                                  struct sp_sharding_spec *ret_spec, struct sp_error *err)
{
    uint32_t count = 0;
    for (uint32_t s = 0; s < list->count; s++)
        count += sp_plan_stage_devices(c->plan, list->stages[s]);
    int64_t *devices = SP_NEW_ARRAY(c->plan->arena, count, int64_t);
    if (devices == NULL)
        return sp_fail_memory(err);
    count = 0;
    for (uint32_t s = 0; s < list->count; s++)
        for (uint32_t d = 0; d < sp_plan_stage_devices(c->plan, list->stages[s]); d++)
            devices[count++] = c->stages[list->stages[s]].first_device + d;
    qsort(devices, count, sizeof *devices, by_number);
    *ret_spec = (struct sp_sharding_spec){.device_count = count, .devices = devices};
    return SP_OK;
}

/* ---- specs ------------------------------------------------------------------------------------------------------ */

static enum sp_status add_spec(struct context *c, uint32_t node, uint32_t operand, uint32_t stage,
                               struct sp_node_configuration *configuration, struct sp_error *err)
{
    const struct sp_node *of = &c->plan->model->graph->nodes[node];
    const struct sp_value *value =
        operand < of->input_count ? of->inputs[operand] : of->outputs[operand - of->input_count];
    struct sp_sharding_spec spec = {0};
    /* A name may stand at several operands of a node; it has one spec. Names of outer scopes are not operands. */
    if (value == NULL || value->name[0] == '\0' || c->seen[value->id] == node + 1)
        return SP_OK;
    c->seen[value->id] = node + 1;
    enum sp_status status = is_folded(c, node) && c->folded[node].used_by.count > 1
                                ? spread_spec(c, &c->folded[node].used_by, &spec, err)
                                : find_spec(c, stage, layout_of(c, node, operand, value), value, &spec, err);
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
    configuration->configuration_id = c->plan->configuration;
    configuration->has_stage = true;
    configuration->stage = (int32_t)stage;
    configuration->specs =
        SP_NEW_ARRAY(c->plan->arena, (size_t)node->input_count + node->output_count, struct sp_sharding_spec);
    if (configuration->specs == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; status == SP_OK && i < node->input_count + node->output_count; i++)
        status = add_spec(c, index, i, stage, configuration, err);
    return status;
}

enum sp_status sp_plan_annotations(const struct sp_plan *plan, struct sp_annotations *ret_annotations,
                                   struct sp_error *err)
{
    const struct sp_graph *graph = plan->model->graph;
    struct context c = {.plan = plan,
                        .seen = SP_NEW_ARRAY(plan->arena, graph->value_count, uint32_t),
                        .folded = SP_NEW_ARRAY(plan->arena, graph->node_count, struct folded)};
    struct sp_annotation *nodes = SP_NEW_ARRAY(plan->arena, graph->node_count, struct sp_annotation);
    enum sp_status status = SP_OK;
    if (c.seen == NULL || c.folded == NULL || nodes == NULL || !number_devices(&c))
        return sp_fail_memory(err);
    status = place_folded(&c, err);
    for (uint32_t n = 0; status == SP_OK && n < graph->node_count; n++)
        status = annotate_node(&c, n, &nodes[n], err);
    if (status != SP_OK)
        return status;
    if (plan->model->is_sorted)
        qsort(nodes, graph->node_count, sizeof *nodes, sp_annotation_by_place);
    *ret_annotations = (struct sp_annotations){
        .configuration = plan->configuration,
        .num_devices = (int32_t)c.device_count,
        .device_names = c.device_names,
        .count = graph->node_count,
        .nodes = nodes,
    };
    return SP_OK;
}

/* ---- where weights lie ------------------------------------------------------------------------------------------ */

static enum sp_status add_stored(struct context *c, uint32_t node, json_t *stored, struct sp_error *err)
{
    const struct sp_strategy *strategy = sp_plan_strategy(c->plan, node);
    struct sp_sharding_spec spec = {0};
    if (strategy == NULL || strategy->gathered == SP_STRATEGY_NO_FACTOR)
        return SP_OK;
    const struct sp_value *value = c->plan->model->graph->nodes[node].inputs[strategy->gathered];
    const uint32_t stage = c->plan->result->placement.stage_of[node];
    enum sp_status status = find_spec(c, stage, strategy->stored, value, &spec, err);
    if (status != SP_OK)
        return status;
    spec.tensor_name = value->name;
    json_t *item = sp_stored_spec(&spec);
    return item != NULL && json_object_set_new(stored, value->name, item) == 0 ? SP_OK : sp_fail_memory(err);
}

enum sp_status sp_plan_stored(const struct sp_plan *plan, json_t **ret_stored, struct sp_error *err)
{
    const struct sp_arena_mark mark = sp_arena_mark(plan->arena);
    struct context c = {.plan = plan};
    json_t *stored = json_object();
    enum sp_status status = stored != NULL && number_devices(&c) ? SP_OK : sp_fail_memory(err);
    for (uint32_t n = 0; status == SP_OK && n < plan->model->graph->node_count; n++)
        status = add_stored(&c, n, stored, err);
    *ret_stored = status == SP_OK && json_object_size(stored) > 0 ? json_incref(stored) : NULL;
    json_decref(stored);
    sp_arena_rewind(plan->arena, mark);
    return status;
}

/* ---- phases of a service ---------------------------------------------------------------------------------------- */

static bool is_listed(const struct sp_annotations *first, const char *configuration)
{
    while (first != NULL && strcmp(first->configuration, configuration) != 0)
        first = first->next;
    return first != NULL;
}

/* Behind those of the plan those of its phases that lay their tensors in other ways. They are of other readings of the
   same file: a node is the plan's of the same number. */
static enum sp_status add_phases(const struct sp_plan *plan, struct sp_annotations *first, struct sp_error *err)
{
    const struct sp_service *service = plan->service;
    struct sp_annotations *last = first;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && service != NULL && i < service->phase_count; i++) {
        const struct sp_service_phase *phase = &service->phases[i];
        if (phase->plan == NULL || is_listed(first, phase->configuration))
            continue;
        struct sp_annotations *own = SP_NEW(plan->arena, struct sp_annotations);
        struct sp_annotation *nodes;
        if (own == NULL)
            return sp_fail_memory(err);
        status = sp_plan_annotations(phase->plan, own, err);
        if (status != SP_OK)
            return status;
        nodes = SP_NEW_ARRAY(plan->arena, own->count, struct sp_annotation);
        if (nodes == NULL || own->nodes == NULL)
            return sp_fail_memory(err);
        for (uint32_t n = 0; n < own->count; n++) {
            nodes[n] = own->nodes[n];
            nodes[n].node = &plan->model->graph->nodes[own->nodes[n].node->index];
        }
        own->nodes = nodes;
        last->next = own;
        last = own;
        status = sp_plan_stored(phase->plan, &own->stored, err);
    }
    return status;
}

enum sp_status sp_plan_annotate(const struct sp_plan *plan, struct sp_splice **ret_splice, struct sp_error *err)
{
    if (plan->model == NULL)
        return sp_costs_refuse("annotated model", err);
    struct sp_arena_mark mark = sp_arena_mark(plan->arena);
    struct sp_annotations annotations;
    enum sp_status status = sp_plan_annotations(plan, &annotations, err);
    struct sp_annotations *first = status == SP_OK ? &annotations : NULL;
    if (first != NULL)
        status = sp_plan_stored(plan, &annotations.stored, err);
    if (status == SP_OK)
        status = add_phases(plan, &annotations, err);
    if (status == SP_OK)
        status = sp_onnx_annotate(plan->model, &annotations, ret_splice, err);
    for (const struct sp_annotations *one = first; one != NULL; one = one->next)
        json_decref(one->stored);
    if (status == SP_OK && plan->file != NULL)
        status = sp_model_file_splice(plan->file, ret_splice, err);
    sp_arena_rewind(plan->arena, mark);
    return status;
}
