#include "build_workload.h"

#include <assert.h>

void work_init(struct work_builder *builder, struct sp_arena *arena, uint32_t nodes, uint32_t tensors, uint32_t kinds)
{
    struct sp_workload *workload = SP_NEW(arena, struct sp_workload);
    assert(workload != NULL);
    workload->arena = arena;
    workload->kind_count = kinds;
    workload->nodes = SP_NEW_ARRAY(arena, nodes, struct sp_work_node);
    workload->tensors = SP_NEW_ARRAY(arena, tensors, struct sp_work_tensor);
    assert(workload->nodes != NULL && workload->tensors != NULL);
    *builder = (struct work_builder){workload, nodes, tensors};
}

static uint32_t add_tensor(struct work_builder *builder, enum sp_work_kind kind, double bytes, uint32_t producer)
{
    struct sp_workload *workload = builder->workload;
    uint32_t id = workload->tensor_count++;
    assert(id < builder->tensor_room);
    workload->tensors[id] = (struct sp_work_tensor){.name = sp_arena_printf(workload->arena, "t%u", id),
                                                    .kind = kind,
                                                    .bytes = bytes,
                                                    .producer = producer,
                                                    .alias_of = SP_NO_WORK};
    return id;
}

uint32_t work_input(struct work_builder *builder, double bytes)
{
    return add_tensor(builder, SP_WORK_INPUT, bytes, SP_NO_WORK);
}

uint32_t work_weight(struct work_builder *builder, double bytes)
{
    return add_tensor(builder, SP_WORK_WEIGHT, bytes, SP_NO_WORK);
}

static uint32_t add_node(struct work_builder *builder, double seconds, enum sp_work_kind kind, double bytes,
                         const uint32_t *inputs)
{
    struct sp_workload *workload = builder->workload;
    uint32_t id = workload->node_count++;
    assert(id < builder->node_room);
    struct sp_work_node *node = &workload->nodes[id];
    node->name = sp_arena_printf(workload->arena, "n%u", id);
    node->flops = seconds * 1e12;
    node->seconds = SP_NEW_ARRAY(workload->arena, workload->kind_count, double);
    assert(node->seconds != NULL);
    for (uint32_t i = 0; i < workload->kind_count; i++)
        node->seconds[i] = seconds;
    while (inputs[node->input_count] != SP_NO_WORK)
        node->input_count++;
    assert(node->input_count <= WORK_MAX_OPERANDS);
    node->output_count = 1;
    node->inputs = SP_NEW_ARRAY(workload->arena, node->input_count, uint32_t);
    node->outputs = SP_NEW_ARRAY(workload->arena, 1, uint32_t);
    assert(node->inputs != NULL && node->outputs != NULL);
    for (uint32_t i = 0; i < node->input_count; i++)
        node->inputs[i] = inputs[i];
    return node->outputs[0] = add_tensor(builder, kind, bytes, id);
}

uint32_t work_node(struct work_builder *builder, double seconds, double bytes, const uint32_t *inputs)
{
    return add_node(builder, seconds, SP_WORK_ACTIVATION, bytes, inputs);
}

uint32_t work_folded(struct work_builder *builder, double bytes, const uint32_t *inputs)
{
    uint32_t tensor = add_node(builder, 0, SP_WORK_WEIGHT, bytes, inputs);
    builder->workload->nodes[builder->workload->node_count - 1].folded = true;
    return tensor;
}

void work_alias(struct work_builder *builder, uint32_t tensor, uint32_t of)
{
    builder->workload->tensors[tensor].alias_of = of;
}

/* Consumers node by node: counted first, then filled, ascending because ids are visited in order. */
static void fill_consumers(struct sp_workload *workload)
{
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t id = 0; id < workload->node_count; id++) {
            const struct sp_work_node *node = &workload->nodes[id];
            for (uint32_t i = 0; i < node->input_count && !node->folded; i++) {
                struct sp_work_tensor *tensor = &workload->tensors[node->inputs[i]];
                if (pass == 1)
                    tensor->consumers[tensor->consumer_count] = id;
                tensor->consumer_count++;
            }
        }
        for (uint32_t i = 0; i < workload->tensor_count && pass == 0; i++) {
            struct sp_work_tensor *tensor = &workload->tensors[i];
            tensor->consumers = SP_NEW_ARRAY(workload->arena, tensor->consumer_count, uint32_t);
            assert(tensor->consumers != NULL);
            tensor->consumer_count = 0;
        }
    }
}

struct sp_workload *work_finish(struct work_builder *builder, const struct sp_cluster *cluster)
{
    struct sp_workload *workload = builder->workload;
    fill_consumers(workload);
    workload->kind_of = SP_NEW_ARRAY(workload->arena, cluster->device_count, uint32_t);
    assert(workload->kind_of != NULL);
    for (uint32_t i = 0; i < cluster->device_count; i++)
        workload->kind_of[i] = workload->kind_count > 1 ? cluster->group_of[i] : 0;
    for (uint32_t i = 0; i < workload->node_count; i++)
        workload->flops += workload->nodes[i].flops;
    for (uint32_t i = 0; i < workload->tensor_count; i++) {
        struct sp_work_tensor *tensor = &workload->tensors[i];
        if (tensor->kind == SP_WORK_WEIGHT && tensor->consumer_count > 0)
            workload->weight_bytes += tensor->bytes;
        if (tensor->kind == SP_WORK_ACTIVATION && tensor->consumer_count == 0)
            tensor->is_output = true;
    }
    return workload;
}

static struct sp_device_group_spec make_group(const char *name, uint32_t count, double memory, double bandwidth)
{
    struct sp_device_group_spec group = {.name = name, .count = count};
    (void)snprintf(group.device.name, sizeof group.device.name, "%s", name);
    group.device.memory_bytes = memory;
    group.device.memory_bandwidth = 1e12;
    group.device.flops[SP_DTYPE_FLOAT] = 1e12;
    group.device.link_bandwidth = group.device.host_bandwidth = bandwidth;
    group.device.source = "";
    return group;
}

struct sp_cluster *build_mixed_cluster(struct sp_arena *arena, uint32_t first, double first_memory, uint32_t second,
                                       double second_memory, double bandwidth)
{
    struct sp_cluster *cluster = SP_NEW(arena, struct sp_cluster);
    assert(cluster != NULL);
    cluster->device_count = first + second;
    cluster->group_count = second > 0 ? 2 : 1;
    cluster->level_count = 1;
    cluster->groups = SP_NEW_ARRAY(arena, 2, struct sp_device_group_spec);
    cluster->group_of = SP_NEW_ARRAY(arena, first + second, uint32_t);
    cluster->levels = SP_NEW_ARRAY(arena, 1, struct sp_mesh_level);
    assert(cluster->groups != NULL && cluster->group_of != NULL && cluster->levels != NULL);
    cluster->groups[0] = make_group("first", first, first_memory, bandwidth);
    cluster->groups[1] = make_group("second", second, second_memory, bandwidth);
    for (uint32_t i = first; i < first + second; i++)
        cluster->group_of[i] = 1;
    cluster->levels[0] = (struct sp_mesh_level){"link", first + second, bandwidth, 0};
    cluster->efficiency = 1;
    return cluster;
}

struct sp_cluster *build_cluster(struct sp_arena *arena, uint32_t count, double memory, double bandwidth,
                                 double latency)
{
    struct sp_cluster *cluster = build_mixed_cluster(arena, count, memory, 0, 0, bandwidth);
    cluster->levels[0].latency = latency;
    return cluster;
}

/* A linear layer: time and weights are proportional to width * size. */
static uint32_t linear(struct work_builder *b, double width, double size, uint32_t from)
{
    return WORK_NODE(b, width * size * 1e-12, size * 4, from, work_weight(b, width * size * 4));
}

static uint32_t light(struct work_builder *b, double width, uint32_t from)
{
    return WORK_NODE(b, width * 1e-11, width * 4, from);
}

/* norm; q, k, v; scores, softmax, mix; projection, add; up, activation, down, add. */
static uint32_t transformer_layer(struct work_builder *b, double width, uint32_t x)
{
    uint32_t normed = WORK_NODE(b, width * 1e-11, width * 4, x, work_weight(b, width * 4));
    uint32_t q = linear(b, width, width, normed), k = linear(b, width, width, normed);
    uint32_t v = linear(b, width, width, normed);
    uint32_t scores = WORK_NODE(b, width * width * 1e-13, width * 4, q, k);
    uint32_t mixed = WORK_NODE(b, width * width * 1e-13, width * 4, light(b, width, scores), v);
    uint32_t added = WORK_NODE(b, width * 1e-11, width * 4, linear(b, width, width, mixed), x);
    uint32_t up = linear(b, width, 4 * width, added);
    uint32_t down = linear(b, 4 * width, width, light(b, 4 * width, up));
    return WORK_NODE(b, width * 1e-11, width * 4, down, added);
}

struct sp_workload *build_transformer(struct sp_arena *arena, const struct sp_cluster *cluster, uint32_t layers,
                                      double width)
{
    struct work_builder b;
    work_init(&b, arena, layers * TRANSFORMER_LAYER_NODES + 2, layers * 20 + 8, 1);
    uint32_t x = linear(&b, width, width, work_input(&b, width * 4));
    for (uint32_t i = 0; i < layers; i++)
        x = transformer_layer(&b, width, x);
    linear(&b, width, width, x);
    assert(b.workload->node_count == layers * TRANSFORMER_LAYER_NODES + 2);
    return work_finish(&b, cluster);
}
