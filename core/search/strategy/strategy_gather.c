/*
 * The same way with the node's largest weight in further shards, which are gathered before the node runs.
 */
#include <math.h>
#include <string.h>

#include "search/strategy/strategy_internal.h"

#define BUFFERS  0.5  /* of a device's memory, that two of them take at most */
#define SLOWER   2    /* times as long as the node itself a gather may take */
#define SMALLEST 1e-6 /* of the model's weights: less is not worth a message */

bool sp_strategy_is_same(const struct sp_strategy *a, const struct sp_strategy *b)
{
    return memcmp(a->factor_of, b->factor_of, sizeof a->factor_of) == 0 &&
           memcmp(a->scatter_of, b->scatter_of, sizeof a->scatter_of) == 0 && a->is_inner == b->is_inner &&
           a->gathered == b->gathered && a->gathered_axis == b->gathered_axis;
}

double sp_strategy_waits(const struct sp_strategy *strategy)
{
    return fmax(0, strategy->gather_seconds - strategy->compute_seconds);
}

uint32_t sp_strategy_joins(const struct sp_strategy_table *table, const struct sp_strategy *strategy)
{
    uint32_t shards = 1;
    if (strategy->gathered == SP_STRATEGY_NO_FACTOR)
        return shards;
    const struct sp_layout *lies = sp_strategy_layout(table, strategy->stored);
    const struct sp_layout *read = sp_strategy_layout(table, strategy->layouts[strategy->gathered]);
    for (uint32_t a = 0; a < table->mesh.axis_count; a++)
        if (lies->axis[table->first_digit[a]] != read->axis[table->first_digit[a]])
            shards *= table->mesh.size[a];
    return shards;
}

/* The weight that the node may gather: a constant of the file that no other node takes, as it is there. */
static uint32_t gatherable(const struct sp_strategy_way *way)
{
    const struct sp_strategy_table *table = way->table;
    const struct sp_workload *workload = table->workload;
    const struct sp_node *node = workload->nodes[way->node].node;
    const uint32_t operand = sp_strategy_weight_of(node);
    if (operand >= SP_STRATEGY_NO_FACTOR || operand >= way->rule->input_count)
        return UINT32_MAX;
    const struct sp_value *value = node->inputs[operand];
    const struct sp_work_tensor *tensor = &workload->tensors[value->id];
    const bool is_there = value->tensor != NULL && value->producer == NULL && value->graph == node->graph &&
                          value->use_count == 1 && !value->is_graph_output;
    return is_there && table->is_own_weight[value->id] && tensor->alias_of == SP_NO_WORK &&
                   tensor->bytes >= SMALLEST * workload->weight_bytes
               ? operand
               : UINT32_MAX;
}

/* The mesh axes that cut something of the node but not the weight; 0 where one of the others cuts nothing at all. */
static uint32_t free_axes(const struct sp_strategy_way *way, uint32_t operand)
{
    const struct sp_strategy_cut *cut = &way->cuts[operand];
    uint32_t axes = 0;
    for (uint32_t a = 0; a < way->table->mesh.axis_count; a++) {
        bool is_cut = false;
        if (way->factor_of[a] == SP_STRATEGY_NO_FACTOR)
            return 0;
        for (uint32_t i = 0; i < cut->count; i++)
            is_cut = is_cut || cut->mesh_axis[i] == a;
        axes |= is_cut ? 0 : 1u << a;
    }
    return axes;
}

/* Behind the weight's cut all of `axes` on one of its axes; false where that does not divide. */
static bool store_along(const struct sp_strategy_way *way, uint32_t operand, uint32_t axes, uint32_t axis,
                        struct sp_strategy_cut *ret_cut)
{
    const struct sp_strategy_table *table = way->table;
    const struct sp_value *value = table->workload->nodes[way->node].node->inputs[operand];
    const int64_t extent = sp_strategy_axis_extent(value, axis);
    int64_t shards = 1;
    *ret_cut = way->cuts[operand];
    for (uint32_t i = 0; i < ret_cut->count; i++) {
        if (ret_cut->tensor_axis[i] >= SP_STRATEGY_INNER)
            return false;
        if (ret_cut->tensor_axis[i] == axis)
            shards *= table->mesh.size[ret_cut->mesh_axis[i]];
    }
    for (uint32_t a = 0; a < table->mesh.axis_count; a++) {
        if (!(axes >> a & 1))
            continue;
        ret_cut->tensor_axis[ret_cut->count] = (uint8_t)axis;
        ret_cut->mesh_axis[ret_cut->count++] = (uint8_t)a;
        shards *= table->mesh.size[a];
    }
    return extent > 0 && extent % shards == 0;
}

/* What the node takes with the weight stored so. */
static bool gather(struct sp_strategy_table *table, uint32_t tensor, struct sp_strategy *strategy)
{
    const uint32_t read = strategy->layouts[strategy->gathered];
    const double had = sp_strategy_local_bytes(table, tensor, read);
    double bytes = 0;
    const double seconds = sp_strategy_reshard(table, tensor, strategy->stored, read, &bytes);
    if (!(seconds <= SLOWER * strategy->compute_seconds) || 2 * had > BUFFERS * table->mesh.device->memory_bytes)
        return false;
    strategy->gather_seconds = seconds;
    strategy->gather_bytes = bytes;
    strategy->communication_seconds += sp_strategy_waits(strategy);
    strategy->communication_bytes += bytes;
    strategy->weight_bytes += sp_strategy_local_bytes(table, tensor, strategy->stored) - had;
    strategy->workspace_bytes += 2 * had;
    return true;
}

enum sp_status sp_strategy_gather(const struct sp_strategy_way *way, const struct sp_strategy *strategy,
                                  struct sp_strategy *ret_strategy, bool *ret_gathers, struct sp_error *err)
{
    struct sp_strategy_table *table = way->table;
    const uint32_t operand = table->mesh.gathers && table->workload->phase_count == 0 && table->mesh.member_count == 0
                                 ? gatherable(way)
                                 : UINT32_MAX;
    const uint32_t axes = operand == UINT32_MAX ? 0 : free_axes(way, operand);
    *ret_gathers = false;
    if (axes == 0)
        return SP_OK;
    const struct sp_value *value = table->workload->nodes[way->node].node->inputs[operand];
    for (uint32_t axis = 0; axis < value->type.shape.rank && !*ret_gathers; axis++) {
        struct sp_strategy_cut cut;
        struct sp_layout layout;
        if (!store_along(way, operand, axes, axis, &cut))
            continue;
        *ret_strategy = *strategy;
        ret_strategy->gathered = (uint8_t)operand;
        ret_strategy->gathered_axis = (uint8_t)axis;
        sp_strategy_cut_layout(table, &cut, 0, &layout);
        enum sp_status status = sp_strategy_layout_number(table, &layout, &ret_strategy->stored, err);
        if (status != SP_OK)
            return status;
        *ret_gathers = gather(table, value->id, ret_strategy);
    }
    return SP_OK;
}
