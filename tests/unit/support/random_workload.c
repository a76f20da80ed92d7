#include "random_workload.h"

#include <assert.h>

struct sp_workload *workload_new(struct sp_arena *arena, const struct sp_cluster *cluster)
{
    struct sp_workload *workload = SP_NEW(arena, struct sp_workload);
    assert(workload != NULL);
    workload->arena = arena;
    workload->kind_count = cluster->group_count;
    workload->nodes = SP_NEW_ARRAY(arena, WORKLOAD_NODES, struct sp_work_node);
    workload->tensors = SP_NEW_ARRAY(arena, WORKLOAD_TENSORS, struct sp_work_tensor);
    workload->kind_of = cluster->group_of;
    assert(workload->nodes != NULL && workload->tensors != NULL);
    return workload;
}

static uint32_t new_tensor(struct sp_workload *workload, enum sp_work_kind kind, double bytes, uint32_t producer)
{
    assert(workload->tensor_count < WORKLOAD_TENSORS);
    struct sp_work_tensor *tensor = &workload->tensors[workload->tensor_count];
    *tensor = (struct sp_work_tensor){.name = sp_arena_printf(workload->arena, "t%u", workload->tensor_count),
                                      .kind = kind,
                                      .bytes = bytes,
                                      .producer = producer,
                                      .alias_of = SP_NO_WORK};
    return workload->tensor_count++;
}

uint32_t workload_input(struct sp_workload *workload, double bytes)
{
    return new_tensor(workload, SP_WORK_INPUT, bytes, SP_NO_WORK);
}

uint32_t workload_weight(struct sp_workload *workload, double bytes)
{
    return new_tensor(workload, SP_WORK_WEIGHT, bytes, SP_NO_WORK);
}

uint32_t workload_node(struct sp_workload *workload, double seconds, uint32_t input_count, const uint32_t *inputs)
{
    assert(workload->node_count < WORKLOAD_NODES && input_count <= WORKLOAD_OPERANDS);
    struct sp_work_node *node = &workload->nodes[workload->node_count];
    *node = (struct sp_work_node){.name = sp_arena_printf(workload->arena, "n%u", workload->node_count),
                                  .flops = seconds,
                                  .seconds = SP_NEW_ARRAY(workload->arena, workload->kind_count, double),
                                  .inputs = SP_NEW_ARRAY(workload->arena, WORKLOAD_OPERANDS, uint32_t),
                                  .outputs = SP_NEW_ARRAY(workload->arena, WORKLOAD_OPERANDS, uint32_t)};
    for (uint32_t k = 0; k < workload->kind_count; k++)
        node->seconds[k] = seconds;
    for (uint32_t i = 0; i < input_count; i++) {
        bool repeated = false;
        for (uint32_t j = 0; j < node->input_count; j++)
            repeated = repeated || node->inputs[j] == inputs[i];
        if (!repeated)
            node->inputs[node->input_count++] = inputs[i];
    }
    return workload->node_count++;
}

uint32_t workload_result(struct sp_workload *workload, uint32_t node, double bytes)
{
    struct sp_work_node *producer = &workload->nodes[node];
    uint32_t tensor = new_tensor(workload, producer->folded ? SP_WORK_WEIGHT : SP_WORK_ACTIVATION, bytes, node);
    assert(producer->output_count < WORKLOAD_OPERANDS);
    producer->outputs[producer->output_count++] = tensor;
    return tensor;
}

void workload_alias(struct sp_workload *workload, uint32_t view, uint32_t tensor)
{
    uint32_t root = workload->tensors[tensor].alias_of == SP_NO_WORK ? tensor : workload->tensors[tensor].alias_of;
    workload->tensors[view].alias_of = root;
    workload->tensors[view].bytes = workload->tensors[root].bytes;
    if (workload->tensors[root].kind == SP_WORK_WEIGHT)
        workload->tensors[view].kind = SP_WORK_WEIGHT;
}

void workload_finish(struct sp_workload *workload)
{
    for (uint32_t t = 0; t < workload->tensor_count; t++) {
        struct sp_work_tensor *tensor = &workload->tensors[t];
        tensor->consumers = SP_NEW_ARRAY(workload->arena, workload->node_count, uint32_t);
        for (uint32_t n = 0; n < workload->node_count; n++) {
            const struct sp_work_node *node = &workload->nodes[n];
            for (uint32_t i = 0; !node->folded && i < node->input_count; i++) {
                if (node->inputs[i] == t)
                    tensor->consumers[tensor->consumer_count++] = n;
            }
        }
    }
    for (uint32_t n = 0; n < workload->node_count; n++) {
        workload->flops += workload->nodes[n].flops;
        workload->weight_bytes += workload->nodes[n].inner_weight_bytes;
    }
    const uint32_t *users = sp_work_users(workload->arena, workload);
    assert(users != NULL);
    for (uint32_t t = 0; t < workload->tensor_count; t++)
        if (workload->tensors[t].kind == SP_WORK_WEIGHT && users[t] > 0)
            workload->weight_bytes += workload->tensors[t].bytes;
}

uint32_t pick(uint64_t *seed, uint32_t bound)
{
    /* Knuth's MMIX generator; the upper bits are the good ones. */
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*seed >> 33) % bound);
}

struct sp_workload *workload_random(struct sp_arena *arena, const struct sp_cluster *cluster, uint32_t node_count,
                                    uint64_t *seed)
{
    struct sp_workload *workload = workload_new(arena, cluster);

    (void)workload_input(workload, 1 + pick(seed, 1000));
    (void)workload_input(workload, 1 + pick(seed, 1000));
    (void)workload_weight(workload, 1 + pick(seed, 1000));
    (void)workload_weight(workload, 1 + pick(seed, 1000));
    for (uint32_t i = 0; i < node_count; i++) {
        uint32_t inputs[3], input_count = 1 + pick(seed, 3), what = pick(seed, 10);
        bool foldable = true;
        for (uint32_t j = 0; j < input_count; j++) {
            inputs[j] = pick(seed, workload->tensor_count);
            foldable = foldable && workload->tensors[inputs[j]].kind == SP_WORK_WEIGHT;
        }
        uint32_t n = workload_node(workload, (1 + pick(seed, 64)) / 16.0, input_count, inputs);
        struct sp_work_node *node = &workload->nodes[n];
        for (uint32_t k = 1; k < workload->kind_count; k++)
            node->seconds[k] = (1 + pick(seed, 64)) / 16.0;
        node->folded = foldable && what < 5;
        if (node->folded || what == 9) {
            node->flops = 0;
            for (uint32_t k = 0; k < workload->kind_count; k++)
                node->seconds[k] = 0;
        }
        if (!node->folded && pick(seed, 4) == 0)
            node->inner_weight_bytes = pick(seed, 100);
        if (!node->folded && pick(seed, 4) == 0)
            node->workspace_bytes = pick(seed, 2000);
        for (uint32_t results = 1 + pick(seed, 2); results > 0; results--) {
            uint32_t t = workload_result(workload, n, 1 + pick(seed, 1000));
            workload->tensors[t].is_output = pick(seed, 5) == 0;
        }
        if (what == 9)
            workload_alias(workload, node->outputs[0], node->inputs[0]);
    }
    workload_finish(workload);
    return workload;
}

struct sp_cluster *cluster_from(struct sp_arena *arena, const char *json)
{
    json_error_t problem;
    struct sp_error err = {0};
    struct sp_cluster *cluster = NULL;
    json_t *parsed = json_loads(json, JSON_REJECT_DUPLICATES, &problem);
    enum sp_status status = sp_cluster_parse(arena, parsed, "", &cluster, &err);
    if (status != SP_OK)
        (void)fprintf(stderr, "%s: %s\n", err.where, err.message);
    assert(parsed != NULL && status == SP_OK);
    json_decref(parsed);
    return cluster;
}
