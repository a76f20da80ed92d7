#include "search/constraints.h"
#include "base/sorted.h"

#include <math.h>
#include <string.h>

/* ---- strategies -------------------------------------------------------------------------------------------------- */

/* In how many shards a strategy cuts an axis of an operand: by the mesh axes on the axis' factors, and by those that a
   reduce-scatter puts there. */
static int64_t shards_of(const struct sp_strategy_mesh *mesh, const struct sp_strategies *strategies,
                         const struct sp_strategy *strategy, uint32_t operand, uint32_t axis)
{
    const struct sp_rule *rule = strategies->rule;
    const struct sp_operand_rule *operand_rule = sp_rule_operand(rule, operand);
    int64_t shards = 1;
    if (axis >= operand_rule->rank)
        return 1;
    for (uint32_t m = 0; m < mesh->axis_count; m++) {
        const struct sp_axis_factors *factors = &operand_rule->axes[axis];
        for (uint32_t f = 0; f < factors->count; f++) {
            if (strategy->factor_of[m] == factors->factors[f])
                shards *= mesh->size[m];
        }
        if (operand == rule->input_count && strategy->scatter_of[m] == axis)
            shards *= mesh->size[m];
    }
    return shards;
}

static bool keeps_split(const struct sp_split_pin *pin, const struct sp_strategy_mesh *mesh,
                        const struct sp_strategies *strategies, const struct sp_strategy *strategy, uint32_t operand)
{
    if (pin->is_forbidden)
        return shards_of(mesh, strategies, strategy, operand, pin->axis) == 1;
    for (uint32_t a = 0; a < pin->rank; a++) {
        if (shards_of(mesh, strategies, strategy, operand, a) != pin->shards[a])
            return false;
    }
    return true;
}

/* Whether a tensor that is whole everywhere keeps the pin. */
static bool is_whole_enough(const struct sp_split_pin *pin)
{
    for (uint32_t a = 0; !pin->is_forbidden && a < pin->rank; a++) {
        if (pin->shards[a] != 1)
            return false;
    }
    return true;
}

static bool splits_nothing(const struct sp_strategy_mesh *mesh, const struct sp_strategy *strategy)
{
    for (uint32_t m = 0; m < mesh->axis_count; m++) {
        if (strategy->factor_of[m] != SP_STRATEGY_NO_FACTOR)
            return false;
    }
    return true;
}

/* The first pin of a tensor, or split_count. */
static uint32_t first_pin(const struct sp_constraints *constraints, uint32_t tensor)
{
    uint32_t at;
    SP_LOWER_BOUND(at, constraints->split_count, constraints->splits[at].tensor < tensor);
    return at;
}

bool sp_constraints_allow(const struct sp_constraints *constraints, const struct sp_workload *workload,
                          const struct sp_strategy_table *table, const struct sp_strategy_mesh *mesh, uint32_t node,
                          const struct sp_strategies *strategies, uint32_t strategy)
{
    const struct sp_work_node *work = &workload->nodes[node];
    const struct sp_strategy *item = &strategies->items[strategy];
    if (constraints->is_whole != NULL && constraints->is_whole[node] && !splits_nothing(mesh, item))
        return false;
    for (uint32_t i = 0; constraints->split_count > 0 && i < work->input_count + work->output_count; i++) {
        const uint32_t tensor = i < work->input_count ? work->inputs[i] : work->outputs[i - work->input_count];
        uint32_t pin = first_pin(constraints, tensor);
        if (pin == constraints->split_count || constraints->splits[pin].tensor != tensor)
            continue;
        const uint32_t operand = strategies->rule == NULL ? UINT32_MAX : sp_strategy_operand(table, node, tensor);
        for (; pin < constraints->split_count && constraints->splits[pin].tensor == tensor; pin++) {
            /* What a graph inside uses by name, and what has no rule, is whole. */
            if (operand == UINT32_MAX ? !is_whole_enough(&constraints->splits[pin])
                                      : !keeps_split(&constraints->splits[pin], mesh, strategies, item, operand))
                return false;
        }
    }
    return true;
}

bool sp_constraints_allow_whole(const struct sp_constraints *constraints, const struct sp_workload *workload,
                                uint32_t node)
{
    const struct sp_work_node *work = &workload->nodes[node];
    for (uint32_t i = 0; constraints->split_count > 0 && i < work->input_count + work->output_count; i++) {
        const uint32_t tensor = i < work->input_count ? work->inputs[i] : work->outputs[i - work->input_count];
        for (uint32_t pin = first_pin(constraints, tensor);
             pin < constraints->split_count && constraints->splits[pin].tensor == tensor; pin++) {
            if (!is_whole_enough(&constraints->splits[pin]))
                return false;
        }
    }
    return true;
}

/* ---- contradictions ---------------------------------------------------------------------------------------------- */

static uint32_t pin_of(const uint32_t *pins, uint32_t node)
{
    return pins == NULL ? SP_UNPINNED : pins[node];
}

static enum sp_status conflict(struct sp_error *err, const char *where, const char *other, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static enum sp_status conflict(struct sp_error *err, const char *where, const char *other, const char *format, ...)
{
    char message[SP_ERROR_MESSAGE_SIZE];
    SP_FORMAT(message, format);
    const size_t length = strlen(message) - 1; /* the places stand before the stop */
    (void)sp_fail(err, SP_ERR_REQUEST, "CONSTRAINT_CONFLICT", "%.*s (%s%s%s).", (int)length, message, where,
                  other == NULL ? "" : " against ", other == NULL ? "" : other);
    return sp_error_at(err, "%s", where);
}

/* The latest stage that a pinned node behind `n` comes from is carried along edges: a node pinned to an earlier one
   cannot be. */
static enum sp_status check_order(struct sp_arena *scratch, const struct sp_constraints *constraints,
                                  const struct sp_workload *workload, struct sp_error *err)
{
    uint32_t *from = SP_NEW_ARRAY(scratch, workload->node_count, uint32_t); /* pinned node + 1 */
    if (from == NULL)
        return sp_fail_memory(err);
    for (uint32_t n = 0; n < workload->node_count; n++) {
        const struct sp_work_node *node = &workload->nodes[n];
        const uint32_t pin = pin_of(constraints->stage_of, n);
        for (uint32_t i = 0; !node->folded && i < node->input_count; i++) {
            const struct sp_work_tensor *tensor = &workload->tensors[node->inputs[i]];
            if (tensor->kind != SP_WORK_ACTIVATION || tensor->producer == SP_NO_WORK || from[tensor->producer] == 0)
                continue;
            const uint32_t source = from[tensor->producer];
            if (from[n] == 0 || constraints->stage_of[source - 1] > constraints->stage_of[from[n] - 1])
                from[n] = source;
        }
        if (pin == SP_UNPINNED)
            continue;
        if (from[n] != 0 && constraints->stage_of[from[n] - 1] > pin)
            return conflict(err, constraints->stage_where[n], constraints->stage_where[from[n] - 1],
                            "Node '%.80s' is pinned to stage %u, but it needs what node '%.80s' in stage %u makes.",
                            node->name, pin, workload->nodes[from[n] - 1].name, constraints->stage_of[from[n] - 1]);
        from[n] = n + 1;
    }
    return SP_OK;
}

/* Nodes of one group have one stage, and with devices pinned of one kind. */
static enum sp_status check_groups(struct sp_arena *scratch, const struct sp_constraints *constraints,
                                   const struct sp_workload *workload, struct sp_error *err)
{
    uint32_t *pinned = SP_NEW_ARRAY(scratch, constraints->together_count, uint32_t); /* node + 1 */
    if (pinned == NULL)
        return sp_fail_memory(err);
    for (uint32_t n = 0; n < workload->node_count; n++) {
        const uint32_t group = pin_of(constraints->together_of, n), stage = pin_of(constraints->stage_of, n);
        if (group == SP_UNPINNED || stage == SP_UNPINNED)
            continue;
        const uint32_t other = pinned[group];
        if (other != 0 && constraints->stage_of[other - 1] != stage)
            return conflict(err, constraints->stage_where[n], constraints->stage_where[other - 1],
                            "Nodes '%.80s' and '%.80s' must be together, but are pinned to stages %u and %u.",
                            workload->nodes[other - 1].name, workload->nodes[n].name, constraints->stage_of[other - 1],
                            stage);
        pinned[group] = n + 1;
    }
    return SP_OK;
}

/* Whether the device has seconds for the node. */
static bool can_run(const struct sp_workload *workload, uint32_t node, uint32_t device)
{
    const double seconds = workload->nodes[node].seconds[workload->kind_of[device]];
    return isfinite(seconds) && (workload->unable_seconds <= 0 || seconds < workload->unable_seconds);
}

static enum sp_status check_ranges(const struct sp_constraints *constraints, const struct sp_workload *workload,
                                   const struct sp_cluster *cluster, struct sp_error *err)
{
    const uint32_t most = constraints->max_stages != 0 && constraints->max_stages < cluster->device_count
                              ? constraints->max_stages
                              : cluster->device_count;
    for (uint32_t n = 0; n < workload->node_count; n++) {
        const uint32_t stage = pin_of(constraints->stage_of, n), device = pin_of(constraints->device_of, n);
        if (stage != SP_UNPINNED && stage >= most)
            return conflict(err, constraints->stage_where[n], NULL,
                            "Node '%.80s' is pinned to stage %u, but there can be no more than %u stages.",
                            workload->nodes[n].name, stage, most);
        if (device != SP_UNPINNED && device >= cluster->device_count)
            return conflict(err, constraints->device_where[n], NULL,
                            "Node '%.80s' is pinned to device %u, but the cluster has %u.", workload->nodes[n].name,
                            device, cluster->device_count);
        if (device != SP_UNPINNED && !can_run(workload, n, device))
            return conflict(err, constraints->device_where[n], NULL,
                            "Node '%.80s' is pinned to device %u (%.80s), which cannot run it.",
                            workload->nodes[n].name, sp_cluster_number(cluster, device),
                            sp_cluster_device(cluster, device)->name);
    }
    return SP_OK;
}

enum sp_status sp_constraints_check(struct sp_arena *scratch, const struct sp_constraints *constraints,
                                    const struct sp_workload *workload, const struct sp_cluster *cluster,
                                    struct sp_error *err)
{
    struct sp_arena_mark mark = sp_arena_mark(scratch);
    enum sp_status status = check_ranges(constraints, workload, cluster, err);
    if (status == SP_OK && constraints->stage_of != NULL)
        status = check_order(scratch, constraints, workload, err);
    if (status == SP_OK && constraints->together_of != NULL)
        status = check_groups(scratch, constraints, workload, err);
    sp_arena_rewind(scratch, mark);
    return status;
}
