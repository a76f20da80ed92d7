/* A workload out of a graph of costs. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/intern.h"
#include "base/rows.h"
#include "cost/group_order.h"
#include "cost/workload.h"

#define NAMED_DEVICES 8 /* in a message */

struct costs {
    struct sp_arena *scratch;
    const struct sp_cost_graph *graph;
    struct sp_workload *workload;
    uint32_t *order;         /* work node -> node of the graph */
    uint32_t *work_of;       /* and back */
    uint32_t *first_tensor;  /* node of the graph -> its first tensor; one entry more */
    const char **kind_names; /* kind -> what its devices are called */
    uint32_t *kind_of;       /* device of the graph -> kind, or SP_NO_WORK */
};

/* ---- kinds --------------------------------------------------------------------------------------------------------
 */

static bool number_kinds(struct costs *costs, const struct sp_cluster *cluster)
{
    struct sp_workload *workload = costs->workload;
    uint32_t *kind_of_group = SP_NEW_ARRAY(costs->scratch, cluster->group_count, uint32_t);
    costs->kind_names = SP_NEW_ARRAY(costs->scratch, cluster->group_count, const char *);
    costs->kind_of = SP_NEW_ARRAY(costs->scratch, costs->graph->device_count, uint32_t);
    workload->kind_of = SP_NEW_ARRAY(workload->arena, cluster->device_count, uint32_t);
    if (kind_of_group == NULL || costs->kind_names == NULL || costs->kind_of == NULL || workload->kind_of == NULL)
        return false;
    for (uint32_t group = 0; group < cluster->group_count; group++) {
        const char *name = cluster->groups[group].device.name;
        uint32_t kind = 0;
        while (kind < workload->kind_count && strcasecmp(costs->kind_names[kind], name) != 0)
            kind++;
        if (kind == workload->kind_count)
            costs->kind_names[workload->kind_count++] = name;
        kind_of_group[group] = kind;
    }
    for (uint32_t device = 0; device < cluster->device_count; device++)
        workload->kind_of[device] = kind_of_group[cluster->group_of[device]];
    for (uint32_t device = 0; device < costs->graph->device_count; device++) {
        costs->kind_of[device] = SP_NO_WORK;
        for (uint32_t kind = 0; kind < workload->kind_count; kind++) {
            if (strcasecmp(costs->kind_names[kind], costs->graph->devices[device]) == 0)
                costs->kind_of[device] = kind;
        }
    }
    return true;
}

/* ---- names --------------------------------------------------------------------------------------------------------
 */

static bool name_nodes(struct costs *costs, uint64_t hash_seed)
{
    const struct sp_cost_graph *graph = costs->graph;
    struct sp_intern *names = sp_intern_create(costs->scratch, hash_seed);
    uint32_t *uses = SP_NEW_ARRAY(costs->scratch, graph->node_count, uint32_t);
    uint32_t *name_of = SP_NEW_ARRAY(costs->scratch, graph->node_count, uint32_t);
    if (names == NULL || uses == NULL || name_of == NULL)
        return false;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        name_of[i] = sp_intern_add(names, graph->nodes[i].name, strlen(graph->nodes[i].name));
        if (name_of[i] == SP_NO_NAME)
            return false;
        uses[name_of[i]]++;
    }
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const struct sp_cost_node *node = &graph->nodes[i];
        const char *name = uses[name_of[i]] == 1
                               ? sp_arena_string(costs->workload->arena, node->name, strlen(node->name))
                               : sp_arena_printf(costs->workload->arena, "%s [%s]", node->name, node->id);
        if (name == NULL)
            return false;
        costs->workload->nodes[costs->work_of[i]].name = name;
    }
    return true;
}

/* ---- tensors ------------------------------------------------------------------------------------------------------
 */

static bool name_tensor(struct costs *costs, uint32_t t, const char *given, uint32_t index, uint32_t count)
{
    struct sp_work_tensor *tensor = &costs->workload->tensors[t];
    const char *node = costs->workload->nodes[tensor->producer].name;
    tensor->name = given != NULL ? sp_arena_string(costs->workload->arena, given, strlen(given))
                   : count == 1  ? node
                                 : sp_arena_printf(costs->workload->arena, "%s.%u", node, index);
    return tensor->name != NULL;
}

/* The tensors node by node, those of one node in the order of its edges; what nothing carries is a result. *ret_work_of
   is where each tensor of the graph went. */
static bool make_tensors(struct costs *costs, uint32_t **ret_work_of)
{
    const struct sp_cost_graph *graph = costs->graph;
    struct sp_workload *workload = costs->workload;
    uint32_t *made = SP_NEW_ARRAY(costs->scratch, graph->tensor_count, uint32_t);
    uint32_t *count = SP_NEW_ARRAY(costs->scratch, graph->node_count, uint32_t);
    uint32_t *outputs;
    costs->first_tensor = SP_NEW_ARRAY(costs->scratch, (size_t)graph->node_count + 1, uint32_t);
    if (made == NULL || count == NULL || costs->first_tensor == NULL)
        return false;
    for (uint32_t t = 0; t < graph->tensor_count; t++)
        count[graph->tensors[t].from]++;
    for (uint32_t i = 0; i < graph->node_count; i++)
        costs->first_tensor[i + 1] = costs->first_tensor[i] + (count[i] > 0 ? count[i] : 1);
    workload->tensor_count = costs->first_tensor[graph->node_count];
    workload->tensors = SP_NEW_ARRAY(workload->arena, workload->tensor_count, struct sp_work_tensor);
    outputs = SP_NEW_ARRAY(workload->arena, workload->tensor_count, uint32_t);
    if (workload->tensors == NULL || outputs == NULL)
        return false;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        struct sp_work_node *node = &workload->nodes[costs->work_of[i]];
        const uint32_t first = costs->first_tensor[i];
        node->output_count = costs->first_tensor[i + 1] - first;
        node->outputs = outputs + first;
        for (uint32_t j = 0; j < node->output_count; j++) {
            outputs[first + j] = first + j;
            workload->tensors[first + j] = (struct sp_work_tensor){.kind = SP_WORK_ACTIVATION,
                                                                   .producer = costs->work_of[i],
                                                                   .alias_of = SP_NO_WORK,
                                                                   .bytes = graph->nodes[i].output_bytes,
                                                                   .is_output = count[i] == 0};
        }
        if (count[i] == 0 && !name_tensor(costs, first, NULL, 0, 1))
            return false;
        node->workspace_bytes = count[i] == 0 ? 0 : graph->nodes[i].output_bytes;
        count[i] = 0; /* from here on: how many are made */
    }
    for (uint32_t t = 0; t < graph->tensor_count; t++) {
        const struct sp_cost_tensor *said = &graph->tensors[t];
        const uint32_t index = count[said->from]++, at = costs->first_tensor[said->from] + index;
        struct sp_work_tensor *tensor = &workload->tensors[at];
        struct sp_work_node *node = &workload->nodes[tensor->producer];
        made[t] = at;
        tensor->bytes = said->bytes;
        tensor->has_transfer_seconds = said->seconds >= 0;
        tensor->transfer_seconds = tensor->has_transfer_seconds ? said->seconds : 0;
        node->workspace_bytes = fmax(0, node->workspace_bytes - said->bytes);
        if (!name_tensor(costs, at, said->name, index, node->output_count))
            return false;
    }
    *ret_work_of = made;
    return true;
}

/* ---- edges --------------------------------------------------------------------------------------------------------
 */

/* Inputs of the nodes and consumers of the tensors; several edges with one tensor are one use. */
static bool connect(struct costs *costs, const uint32_t *tensor_of)
{
    const struct sp_cost_graph *graph = costs->graph;
    struct sp_workload *workload = costs->workload;
    struct sp_rows edges; /* by the work node that they go to */
    uint32_t *room = SP_NEW_ARRAY(costs->scratch, (size_t)workload->tensor_count + 1, uint32_t);
    uint32_t *seen =
        SP_NEW_ARRAY(costs->scratch, workload->tensor_count, uint32_t); /* the last node that used it + 1 */
    uint32_t *inputs = SP_NEW_ARRAY(workload->arena, graph->edge_count, uint32_t);
    uint32_t *consumers = SP_NEW_ARRAY(workload->arena, graph->edge_count, uint32_t);
    if (room == NULL || seen == NULL || inputs == NULL || consumers == NULL ||
        !sp_rows_begin(costs->scratch, graph->node_count, &edges))
        return false;
    for (uint32_t e = 0; e < graph->edge_count; e++) {
        sp_rows_count(&edges, costs->work_of[graph->edges[e].to]);
        room[tensor_of[graph->edges[e].tensor] + 1]++;
    }
    if (!sp_rows_end_count(costs->scratch, graph->node_count, &edges))
        return false;
    for (uint32_t t = 0; t < workload->tensor_count; t++) {
        room[t + 1] += room[t];
        workload->tensors[t].consumers = consumers + room[t];
    }
    for (uint32_t e = 0; e < graph->edge_count; e++)
        sp_rows_put(&edges, costs->work_of[graph->edges[e].to], e);
    for (uint32_t i = 0; i < graph->node_count; i++) {
        struct sp_work_node *node = &workload->nodes[i];
        node->inputs = inputs + edges.start[i];
        for (uint32_t e = edges.start[i]; e < edges.start[i + 1]; e++) {
            const uint32_t t = tensor_of[graph->edges[edges.items[e]].tensor];
            struct sp_work_tensor *tensor = &workload->tensors[t];
            if (seen[t] == i + 1)
                continue;
            seen[t] = i + 1;
            node->inputs[node->input_count++] = t;
            tensor->consumers[tensor->consumer_count++] = i;
        }
    }
    return true;
}

/* ---- times --------------------------------------------------------------------------------------------------------
 */

static bool fill_nodes(struct costs *costs)
{
    const struct sp_cost_graph *graph = costs->graph;
    struct sp_workload *workload = costs->workload;
    const uint32_t kinds = workload->kind_count;
    double *seconds = SP_NEW_ARRAY(workload->arena, (size_t)graph->node_count * kinds, double);
    if (seconds == NULL)
        return false;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        struct sp_work_node *node = &workload->nodes[i];
        const struct sp_cost_node *said = &graph->nodes[costs->order[i]];
        node->seconds = seconds + (size_t)i * kinds;
        node->inner_weight_bytes = said->memory_bytes;
        workload->weight_bytes += said->memory_bytes;
        for (uint32_t k = 0; k < kinds; k++)
            node->seconds[k] = said->seconds >= 0 ? said->seconds : INFINITY;
        for (uint32_t t = said->first_time; t < said->first_time + said->time_count; t++) {
            const uint32_t kind = costs->kind_of[graph->times[t].device];
            if (kind != SP_NO_WORK)
                node->seconds[kind] = graph->times[t].seconds;
        }
    }
    return true;
}

/* "a, b and 3 more" */
static const char *list_devices(const struct sp_cost_graph *graph, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < graph->device_count && i < NAMED_DEVICES && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s'%.60s'", i > 0 ? ", " : "", graph->devices[i]);
    if (graph->device_count > NAMED_DEVICES && used < size)
        (void)snprintf(text + used, size - used, " and %u more", graph->device_count - NAMED_DEVICES);
    return text;
}

/* Every kind of device runs some node. */
static enum sp_status check_kinds(const struct costs *costs, struct sp_error *err)
{
    const struct sp_workload *workload = costs->workload;
    char devices[NAMED_DEVICES * 72];
    for (uint32_t k = 0; k < workload->kind_count && workload->node_count > 0; k++) {
        uint32_t i = 0;
        while (i < workload->node_count && !isfinite(workload->nodes[i].seconds[k]))
            i++;
        if (i == workload->node_count)
            return sp_fail(
                err, SP_ERR_MODEL, "DEVICE_WITHOUT_SECONDS",
                "No node of the graph has seconds for the device '%s' of the cluster; there are some for %s.",
                costs->kind_names[k], list_devices(costs->graph, devices, sizeof devices));
    }
    return SP_OK;
}

static bool runs_together(const struct sp_workload *workload, uint32_t first, uint32_t end, uint32_t kind)
{
    while (first < end && isfinite(workload->nodes[first].seconds[kind]))
        first++;
    return first == end;
}

/* Every node, and all that is together, has a kind of device that runs it. */
static enum sp_status check_nodes(const struct costs *costs, struct sp_error *err)
{
    const struct sp_workload *workload = costs->workload;
    for (uint32_t first = 0; first < workload->node_count;) {
        const uint32_t end = sp_together_end(workload, first);
        bool runs = false;
        for (uint32_t k = 0; k < workload->kind_count && !runs; k++)
            runs = runs_together(workload, first, end, k);
        if (!runs && end == first + 1)
            return sp_fail(err, SP_ERR_MODEL, "NO_DEVICE_RUNS",
                           "Node \"%.200s\" has seconds for no device of the cluster, so nothing can run it.",
                           workload->nodes[first].name);
        if (!runs)
            return sp_fail(
                err, SP_ERR_MODEL, "NO_DEVICE_RUNS",
                "The %u nodes from \"%.200s\" to \"%.200s\" have to be on one device (their groups, and what "
                "lies between), and no device of the cluster has seconds for all of them.",
                end - first, workload->nodes[first].name, workload->nodes[end - 1].name);
        first = end;
    }
    return SP_OK;
}

/* ---- the whole ----------------------------------------------------------------------------------------------------
 */

static enum sp_status make(struct costs *costs, const struct sp_cluster *cluster, uint64_t hash_seed,
                           struct sp_error *err)
{
    const struct sp_cost_graph *graph = costs->graph;
    struct sp_workload *workload = costs->workload;
    uint32_t *together, *tensor_of;
    workload->node_count = graph->node_count;
    workload->nodes = SP_NEW_ARRAY(workload->arena, graph->node_count, struct sp_work_node);
    costs->work_of = SP_NEW_ARRAY(costs->scratch, graph->node_count, uint32_t);
    if (workload->nodes == NULL || costs->work_of == NULL)
        return sp_fail_memory(err);
    enum sp_status status = sp_together_order(workload->arena, costs->scratch, graph, &costs->order, &together, err);
    if (status != SP_OK)
        return status;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        costs->work_of[costs->order[i]] = i;
        workload->nodes[i].together = together[costs->order[i]];
    }
    if (!number_kinds(costs, cluster) || !name_nodes(costs, hash_seed) || !make_tensors(costs, &tensor_of) ||
        !connect(costs, tensor_of) || !fill_nodes(costs))
        return sp_fail_memory(err);
    status = check_kinds(costs, err);
    return status == SP_OK ? check_nodes(costs, err) : status;
}

enum sp_status sp_workload_from_costs(struct sp_arena *arena, const struct sp_cost_graph *graph,
                                      const struct sp_cluster *cluster, uint64_t hash_seed,
                                      struct sp_workload **ret_workload, uint32_t **ret_order, struct sp_error *err)
{
    struct costs costs = {.scratch = sp_arena_create(sp_arena_budget(arena)),
                          .graph = graph,
                          .workload = SP_NEW(arena, struct sp_workload)};
    enum sp_status status = SP_ERR_MEMORY;
    if (costs.scratch == NULL || costs.workload == NULL) {
        (void)sp_fail_memory(err);
    } else {
        costs.workload->arena = arena;
        status = make(&costs, cluster, hash_seed, err);
    }
    sp_arena_destroy(costs.scratch);
    if (status != SP_OK)
        return status;
    *ret_workload = costs.workload;
    *ret_order = costs.order;
    return SP_OK;
}
