#include <math.h>

#include "base/limits.h"
#include "solvers/stages/lists.h"

/* Whether a problem is well formed. Numbers that a caller computed may be anything: each is looked at once. */

#define REFUSE(...) return sp_fail(err, SP_ERR_REQUEST, "STAGES_PROBLEM_WRONG", __VA_ARGS__)

static bool is_amount(double value)
{
    return value >= 0 && isfinite(value);
}

static enum sp_status check_sizes(const struct sp_stages_problem *problem, struct sp_error *err)
{
    if (problem->node_count > SP_MAX_NODES || problem->tensor_count > SP_MAX_VALUES ||
        problem->weight_count > SP_MAX_VALUES)
        REFUSE("The graph of stages has more nodes, tensors or weights than a model may have.");
    if (problem->option_count == 0 || problem->option_count > SP_MAX_STAGE_OPTIONS)
        REFUSE("A problem of stages has 1 to %d options, not %u.", SP_MAX_STAGE_OPTIONS, problem->option_count);
    if (problem->class_count == 0 || problem->class_count > SP_MAX_STAGE_CLASSES)
        REFUSE("A problem of stages has 1 to %d classes of devices, not %u.", SP_MAX_STAGE_CLASSES,
               problem->class_count);
    for (uint32_t i = 0; i < problem->class_count; i++)
        if (problem->class_size[i] > SP_MAX_DEVICES)
            REFUSE("Class %u has %u devices; the most is %d.", i, problem->class_size[i], SP_MAX_DEVICES);
    return SP_OK;
}

static enum sp_status check_option(const struct sp_stages_problem *problem, uint32_t index, struct sp_error *err)
{
    const struct sp_stages_option *option = &problem->options[index];
    if (option->device_class >= problem->class_count || option->devices == 0 || option->seconds == NULL)
        REFUSE("Option %u has no devices, no times, or a class that does not exist.", index);
    if (!(option->memory_bytes >= 0) || !is_amount(option->memory_scale) || !is_amount(option->transfer_fixed) ||
        !is_amount(option->transfer_per_byte) || !is_amount(option->copy_per_byte) || !(option->own_bytes >= 0) ||
        !(option->copied_most >= 0))
        REFUSE("Option %u has a figure that is negative or no number.", index);
    for (uint32_t node = 0; node < problem->node_count; node++) {
        if (!(option->seconds[node] >= 0))
            REFUSE("Node %u takes a time under option %u that is negative or no number.", node, index);
        if ((option->weight_bytes != NULL && !is_amount(option->weight_bytes[node])) ||
            (option->held_bytes != NULL && !is_amount(option->held_bytes[node])))
            REFUSE("Node %u takes bytes under option %u that are negative or no number.", node, index);
    }
    return SP_OK;
}

static enum sp_status check_graph(const struct sp_stages_problem *problem, struct sp_error *err)
{
    for (uint32_t i = 0; i < problem->node_count; i++) {
        const struct sp_stages_node *node = &problem->nodes[i];
        if (!is_amount(node->weight_bytes) || !is_amount(node->held_bytes))
            REFUSE("Node %u takes bytes that are negative or no number.", i);
    }
    for (uint32_t i = 0; i < problem->tensor_count; i++) {
        const struct sp_stages_tensor *tensor = &problem->tensors[i];
        if (tensor->producer >= problem->node_count || !is_amount(tensor->bytes) ||
            tensor->consumer_count > problem->node_count)
            REFUSE("Tensor %u has a producer, a size or a number of users that cannot be.", i);
        for (uint32_t j = 0; j < tensor->consumer_count; j++)
            if (tensor->consumers[j] >= problem->node_count || tensor->consumers[j] == tensor->producer)
                REFUSE("Tensor %u is used by a node that does not exist or that makes it.", i);
    }
    size_t uses = 0;
    for (uint32_t i = 0; i < problem->weight_count; i++) {
        const struct sp_stages_weight *weight = &problem->weights[i];
        uses += weight->user_count;
        if (uses > SP_MAX_STAGE_EDGES)
            REFUSE("The weights of a graph of stages have more than %d uses.", SP_MAX_STAGE_EDGES);
        if (!is_amount(weight->bytes))
            REFUSE("Weight %u has a size that is negative or no number.", i);
        for (uint32_t j = 0; j < weight->user_count; j++)
            if (weight->users[j] >= problem->node_count)
                REFUSE("Weight %u is used by node %u, which does not exist.", i, weight->users[j]);
    }
    return SP_OK;
}

/* Counts the nodes that can be put in an order, one after those that they read from. */
static enum sp_status check_cycles(struct sp_arena *scratch, const struct sp_stages_problem *problem,
                                   struct sp_error *err)
{
    struct sp_stages_pairs pairs;
    struct sp_rows after;
    size_t room = 0;
    for (uint32_t i = 0; i < problem->tensor_count; i++)
        room += problem->tensors[i].consumer_count;
    if (room > SP_MAX_STAGE_EDGES)
        REFUSE("The graph of stages has more than %d edges.", SP_MAX_STAGE_EDGES);
    uint32_t count = problem->node_count, done = 0, filled = 0;
    uint32_t *waits = SP_NEW_ARRAY(scratch, count, uint32_t), *ready = SP_NEW_ARRAY(scratch, count, uint32_t);
    if (waits == NULL || ready == NULL || !sp_stages_pairs_init(scratch, &pairs, room))
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < problem->tensor_count; i++)
        for (uint32_t j = 0; j < problem->tensors[i].consumer_count; j++)
            sp_stages_pairs_add(&pairs, problem->tensors[i].producer, problem->tensors[i].consumers[j]);
    if (!sp_stages_lists_make(scratch, &pairs, count, count, &after))
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < after.start[count]; i++)
        waits[after.items[i]]++;
    for (uint32_t i = 0; i < count; i++)
        if (waits[i] == 0)
            ready[filled++] = i;
    for (; done < filled; done++)
        for (uint32_t i = after.start[ready[done]]; i < after.start[ready[done] + 1]; i++)
            if (--waits[after.items[i]] == 0)
                ready[filled++] = after.items[i];
    if (done < count)
        REFUSE("The graph of stages has a cycle.");
    return SP_OK;
}

enum sp_status sp_stages_check(struct sp_arena *scratch, const struct sp_stages_problem *problem, struct sp_error *err)
{
    enum sp_status status = check_sizes(problem, err);
    for (uint32_t i = 0; status == SP_OK && i < problem->option_count; i++)
        status = check_option(problem, i, err);
    if (status == SP_OK)
        status = check_graph(problem, err);
    if (status == SP_OK)
        status = check_cycles(scratch, problem, err);
    return status;
}
