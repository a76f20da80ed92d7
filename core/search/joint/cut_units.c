#include "search/joint/cut_units.h"

#include "cost/live_bytes.h"

bool sp_units_join(const struct sp_workload *workload, uint32_t tensor, uint32_t user)
{
    uint32_t kind = 0;
    while (kind < workload->kind_count && !sp_work_is_inside(workload, kind, tensor, user))
        kind++;
    return kind < workload->kind_count;
}

/* Bytes that cross between the live node at position p and the next one; more than all there are inside a kernel. */
static bool crossing_bytes(struct sp_arena *arena, const struct sp_workload *workload, const struct sp_units *units,
                           double *crossing)
{
    double most = 1;
    uint32_t *position = SP_NEW_ARRAY(arena, workload->node_count, uint32_t);
    struct sp_live live;
    if (position == NULL || !sp_live_init(&live, arena, units->front_count))
        return false;
    for (uint32_t p = 0; p < units->front_count; p++)
        position[units->order[p]] = p;
    for (uint32_t t = 0; t < workload->tensor_count; t++)
        most += workload->tensors[t].bytes;
    for (uint32_t t = 0; t < workload->tensor_count; t++) {
        const struct sp_work_tensor *tensor = &workload->tensors[t];
        if (tensor->kind != SP_WORK_ACTIVATION || tensor->producer == SP_NO_WORK || tensor->consumer_count == 0 ||
            tensor->phase > 0 || workload->nodes[tensor->producer].folded)
            continue;
        sp_live_add(&live, position[tensor->producer], position[tensor->consumers[tensor->consumer_count - 1]],
                    tensor->bytes);
        for (uint32_t i = 0; i < tensor->consumer_count; i++)
            if (sp_units_join(workload, t, tensor->consumers[i]))
                sp_live_add(&live, position[tensor->producer], position[tensor->consumers[i]], most);
    }
    for (uint32_t p = 0; p < units->front_count; p++)
        crossing[p] = sp_live_step(&live, p, 0).after;
    return true;
}

/* Windows of equal length, where length is half time and half number of nodes; each ends a stretch where least
   crosses. */
static enum sp_status cut_stretches(struct sp_arena *arena, const struct sp_workload *workload, const double *seconds,
                                    struct sp_units *units, struct sp_error *err)
{
    double *crossing = SP_NEW_ARRAY(arena, units->front_count, double);
    double total = 0, length = 0;
    units->first = SP_NEW_ARRAY(arena, (size_t)SP_UNITS_MOST + 2, uint32_t);
    if (units->first == NULL || crossing == NULL || !crossing_bytes(arena, workload, units, crossing))
        return sp_fail_memory(err);
    for (uint32_t p = 0; p < units->front_count; p++)
        total += seconds[units->order[p]];
    uint32_t best = UINT32_MAX, window = 0;
    for (uint32_t p = 0; p + 1 < units->front_count; p++) {
        length +=
            0.5 / units->front_count + (total > 0 ? 0.5 * seconds[units->order[p]] / total : 0.5 / units->front_count);
        const uint32_t now = (uint32_t)(length * (SP_UNITS_MOST - 1));
        if (now > window && best != UINT32_MAX) {
            units->first[++units->count] = best + 1;
            best = UINT32_MAX;
        }
        window = now > window ? now : window;
        if (best == UINT32_MAX || crossing[p] <= crossing[best])
            best = p;
    }
    units->first[++units->count] = units->front_count;
    for (uint32_t u = 0; u < units->count; u++) {
        for (uint32_t p = units->first[u]; p < units->first[u + 1]; p++)
            units->of[units->order[p]] = u;
    }
    units->is_chain = true;
    return SP_OK;
}

/* Puts the nodes of later phases in units. What runs in one phase and is folded in another may leave them an order that
   units of the first phase do not have: then all is one unit. */
static void take_phases(const struct sp_workload *workload, struct sp_units *units)
{
    bool is_ordered = true;
    for (uint32_t p = units->front_count; p < units->live_count; p++) {
        const uint32_t n = units->order[p];
        const struct sp_work_node *node = &workload->nodes[n];
        uint32_t latest = 0;
        for (uint32_t i = 0; i < node->input_count; i++) {
            const uint32_t producer = workload->tensors[node->inputs[i]].producer;
            if (producer != SP_NO_WORK && units->of[producer] != SP_NO_WORK && units->of[producer] > latest)
                latest = units->of[producer];
        }
        units->of[n] = units->of[sp_work_first_node(workload, n)];
        if (units->of[n] == SP_NO_WORK)
            units->of[n] = latest;
        is_ordered = is_ordered && units->of[n] >= latest;
    }
    if (is_ordered && units->front_count > 0)
        return;
    for (uint32_t p = 0; p < units->live_count; p++)
        units->of[units->order[p]] = 0;
    units->count = units->live_count > 0 ? 1 : 0;
    units->is_chain = false;
}

enum sp_status sp_units_create(struct sp_arena *arena, const struct sp_workload *workload, const double *seconds,
                               uint32_t most_nodes, struct sp_units **ret_units, struct sp_error *err)
{
    struct sp_units *units = SP_NEW(arena, struct sp_units);
    if (units == NULL)
        return sp_fail_memory(err);
    units->of = SP_NEW_ARRAY(arena, workload->node_count, uint32_t);
    units->order = SP_NEW_ARRAY(arena, workload->node_count, uint32_t);
    if (units->of == NULL || units->order == NULL)
        return sp_fail_memory(err);
    for (uint32_t n = 0; n < workload->node_count; n++) {
        units->of[n] = SP_NO_WORK;
        if (!workload->nodes[n].folded)
            units->order[units->live_count++] = n;
        if (!workload->nodes[n].folded && workload->nodes[n].phase == 0)
            units->front_count = units->live_count;
    }
    enum sp_status status = SP_OK;
    if (units->front_count > most_nodes) {
        status = cut_stretches(arena, workload, seconds, units, err);
    } else {
        units->count = units->front_count;
        for (uint32_t p = 0; p < units->front_count; p++)
            units->of[units->order[p]] = p;
    }
    if (status == SP_OK)
        take_phases(workload, units);
    if (status == SP_OK)
        *ret_units = units;
    return status;
}
