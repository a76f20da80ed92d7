#include "random_stages.h"

#include <math.h>
#include <string.h>

#define BELOW(bound) random_stages_below(state, (bound))
#define ONE_IN(n)    (BELOW(n) == 0)

/* Forward nodes first, each using what earlier ones make; then backward nodes that use forward ones and each other. Now
   and then a backward node has the colour of a forward one, as in training. */
static void make_graph(struct random_stages *random, uint64_t *state, uint32_t nodes)
{
    uint32_t forward = ONE_IN(2) ? nodes : 1 + BELOW(nodes), density = 2 + BELOW(5),
             colors = ONE_IN(2) ? 0 : 1 + BELOW(3);
    bool is_mirror = ONE_IN(2);
    for (uint32_t i = 0; i < nodes; i++) {
        random->nodes[i] = (struct sp_stages_node){
            .weight_bytes = BELOW(5), .held_bytes = BELOW(4), .color = SP_NO_STAGE_GROUP, .is_backward = i >= forward};
        if (colors > 0 && ONE_IN(3))
            random->nodes[i].color = 5 + BELOW(colors);
        if (i >= forward && is_mirror && nodes - 1 - i < forward) {
            random->nodes[nodes - 1 - i].color = 100 + i;
            random->nodes[i].color = 100 + i;
        }
    }
    struct sp_stages_problem *problem = &random->problem;
    for (uint32_t i = 0; i < 2 * nodes; i++) {
        uint32_t producer = i % nodes, count = 0;
        if (i >= nodes && !ONE_IN(4))
            continue;
        for (uint32_t user = producer + 1; user < nodes; user++)
            if (ONE_IN(density))
                random->users[problem->tensor_count][count++] = user;
        if (count == 0 && !ONE_IN(5))
            continue;
        random->tensors[problem->tensor_count] =
            (struct sp_stages_tensor){.producer = producer,
                                      .bytes = BELOW(6),
                                      .consumer_count = count,
                                      .consumers = random->users[problem->tensor_count]};
        problem->tensor_count++;
    }
    for (uint32_t i = 0; i < 2 && ONE_IN(3); i++) {
        uint32_t count = 0;
        for (uint32_t node = 0; node < nodes; node++)
            if (ONE_IN(3))
                random->holders[i][count++] = node;
        random->weights[i] = (struct sp_stages_weight){BELOW(6), count, random->holders[i]};
        problem->weight_count++;
    }
}

static void make_option(struct random_stages *random, uint64_t *state, uint32_t index, uint32_t nodes)
{
    struct sp_stages_option *option = &random->options[index];
    *option = (struct sp_stages_option){
        .device_class = BELOW(random->problem.class_count),
        .devices = 1 + BELOW(2) * BELOW(2),
        .max_replicas = BELOW(4),
        .memory_bytes = ONE_IN(2) ? INFINITY : 4 + BELOW(20),
        .memory_scale = ONE_IN(3) ? 0.5 : 1,
        .seconds = random->seconds[index],
        .transfer_fixed = ONE_IN(3) ? 1 : 0,
        .transfer_per_byte = BELOW(3),
    };
    for (uint32_t node = 0; node < nodes; node++) {
        random->seconds[index][node] = ONE_IN(25) ? INFINITY : ONE_IN(4) ? 0 : 1 + BELOW(10);
        random->weight_bytes[index][node] = BELOW(4);
        random->held_bytes[index][node] = BELOW(3);
    }
    if (ONE_IN(4))
        option->weight_bytes = random->weight_bytes[index];
    if (ONE_IN(4))
        option->held_bytes = random->held_bytes[index];
}

void random_stages_make(struct random_stages *random, uint64_t *state, uint32_t nodes)
{
    memset(random, 0, sizeof *random);
    struct sp_stages_problem *problem = &random->problem;
    nodes = 1 + BELOW(nodes);
    *problem = (struct sp_stages_problem){
        .node_count = nodes,
        .option_count = 1 + BELOW(RANDOM_STAGES_OPTIONS),
        .class_count = 1 + BELOW(2),
        .nodes = random->nodes,
        .tensors = random->tensors,
        .weights = random->weights,
        .options = random->options,
        .class_size = random->class_size,
        .objective = SP_STAGES_THROUGHPUT,
        .combine = ONE_IN(2) ? SP_STAGES_SUM : SP_STAGES_MAX,
        .max_stages = ONE_IN(5) ? 1 + BELOW(3) : 0,
    };
    random->class_size[0] = 1 + BELOW(problem->class_count == 1 ? 4 : 3);
    random->class_size[1] = BELOW(3);
    make_graph(random, state, nodes);
    for (uint32_t i = 0; i < problem->option_count; i++)
        make_option(random, state, i, nodes);
}
