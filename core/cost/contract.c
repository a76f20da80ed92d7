#include "cost/contract.h"

#include <math.h>
#include <string.h>

#include "cost/group_order.h"
#include "cost/live_bytes.h"

struct contract {
    struct sp_arena *arena, *scratch;
    const struct sp_workload *given;
    struct sp_workload *made;
    uint32_t *node_of;
    bool *crosses;  /* tensor with memory of its own -> it, or an alias of it, is used outside the node that makes it */
    uint32_t *last; /* tensor with memory of its own -> the last node of its row that uses it */
    uint32_t *seen; /* tensor -> the last made node that listed it + 1 */
};

/* ---- tensors ------------------------------------------------------------------------------------------------------
 */

/* Tensors keep their numbers; their consumers are the made nodes, but the one that makes them. */
static bool copy_tensors(struct contract *c)
{
    const struct sp_workload *given = c->given;
    size_t total = 0, used = 0;
    for (uint32_t t = 0; t < given->tensor_count; t++)
        total += given->tensors[t].consumer_count;
    uint32_t *consumers = SP_NEW_ARRAY(c->arena, total, uint32_t);
    c->made->tensors = SP_NEW_ARRAY(c->arena, given->tensor_count, struct sp_work_tensor);
    c->crosses = SP_NEW_ARRAY(c->scratch, given->tensor_count, bool);
    if (consumers == NULL || c->made->tensors == NULL || c->crosses == NULL)
        return false;
    for (uint32_t t = 0; t < given->tensor_count; t++) {
        const struct sp_work_tensor *from = &given->tensors[t];
        struct sp_work_tensor *to = &c->made->tensors[t];
        *to = *from;
        to->producer = from->producer != SP_NO_WORK ? c->node_of[from->producer] : SP_NO_WORK;
        to->consumers = consumers + used;
        to->consumer_count = 0;
        for (uint32_t i = 0; i < from->consumer_count; i++) {
            const uint32_t node = c->node_of[from->consumers[i]];
            if (node != to->producer && (to->consumer_count == 0 || to->consumers[to->consumer_count - 1] != node))
                to->consumers[to->consumer_count++] = node;
        }
        used += to->consumer_count;
        if (to->consumer_count > 0 || to->is_output || to->producer == SP_NO_WORK || to->kind == SP_WORK_WEIGHT)
            c->crosses[sp_work_root(given, t)] = true;
    }
    return true;
}

/* ---- nodes --------------------------------------------------------------------------------------------------------
 */

/* Adds what is not listed yet and is not the node's own affair. */
static void list_operands(struct contract *c, const uint32_t *tensors, uint32_t count, uint32_t node, bool is_input,
                          uint32_t *list, uint32_t *list_count)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t t = tensors[i];
        const bool is_own = c->made->tensors[t].producer == node;
        if (c->seen[t] == node + 1 || is_own == is_input || (is_own && !c->crosses[sp_work_root(c->given, t)]))
            continue;
        c->seen[t] = node + 1;
        list[(*list_count)++] = t;
    }
}

/* The most that is there while the row runs of what only the row uses, over what its results take in the end; negative
   without memory. */
static double inner_peak(struct contract *c, uint32_t first, uint32_t end)
{
    const struct sp_workload *given = c->given;
    const struct sp_arena_mark mark = sp_arena_mark(c->scratch);
    struct sp_live live;
    double results = 0;
    if (!sp_live_init(&live, c->scratch, end - first))
        return -1;
    for (uint32_t i = first; i < end; i++) {
        const struct sp_work_node *node = &given->nodes[i];
        for (uint32_t j = 0; j < node->output_count; j++)
            c->last[sp_work_root(given, node->outputs[j])] = i;
        for (uint32_t j = 0; j < node->input_count; j++)
            c->last[sp_work_root(given, node->inputs[j])] = i;
    }
    for (uint32_t i = first; i < end; i++) {
        const struct sp_work_node *node = &given->nodes[i];
        for (uint32_t j = 0; j < node->output_count; j++) {
            const uint32_t t = node->outputs[j];
            if (given->tensors[t].alias_of != SP_NO_WORK || given->tensors[t].kind != SP_WORK_ACTIVATION)
                continue;
            results += c->crosses[t] ? given->tensors[t].bytes : 0;
            sp_live_add(&live, i - first, c->crosses[t] ? SP_LIVE_OUTSIDE : c->last[t] - first,
                        given->tensors[t].bytes);
        }
        (void)sp_live_step(&live, i - first, node->workspace_bytes);
    }
    sp_arena_rewind(c->scratch, mark);
    return fmax(0, live.peak - results);
}

static bool make_row(struct contract *c, uint32_t number, uint32_t first, uint32_t end)
{
    const struct sp_workload *given = c->given;
    struct sp_work_node *made = &c->made->nodes[number];
    size_t inputs = 0, outputs = 0;
    *made = given->nodes[first];
    for (uint32_t i = first; i < end; i++) {
        inputs += given->nodes[i].input_count;
        outputs += given->nodes[i].output_count;
    }
    made->seconds = SP_NEW_ARRAY(c->arena, given->kind_count, double);
    if (end == first + 1) {
        for (uint32_t k = 0; made->seconds != NULL && k < given->kind_count; k++)
            made->seconds[k] = given->nodes[first].seconds[k];
        return made->seconds != NULL;
    }
    made->inputs = SP_NEW_ARRAY(c->arena, inputs, uint32_t);
    made->outputs = SP_NEW_ARRAY(c->arena, outputs, uint32_t);
    if (made->inputs == NULL || made->outputs == NULL || made->seconds == NULL)
        return false;
    made->input_count = made->output_count = 0;
    made->moved_bytes = NULL;
    made->flops = made->bytes = made->inner_weight_bytes = made->resident_bytes = 0;
    made->together = 0;
    for (uint32_t i = first; i < end; i++) {
        const struct sp_work_node *node = &given->nodes[i];
        made->flops += node->flops;
        made->bytes += node->bytes;
        made->inner_weight_bytes += node->inner_weight_bytes;
        made->resident_bytes += node->resident_bytes;
        for (uint32_t k = 0; k < given->kind_count; k++)
            made->seconds[k] += node->seconds[k];
        list_operands(c, node->inputs, node->input_count, number, true, made->inputs, &made->input_count);
        list_operands(c, node->outputs, node->output_count, number, false, made->outputs, &made->output_count);
    }
    made->node = NULL;
    made->workspace_bytes = inner_peak(c, first, end);
    made->name =
        sp_arena_printf(c->arena, "%s and %u more that stay with it", given->nodes[first].name, end - first - 1);
    return made->name != NULL && made->workspace_bytes >= 0;
}

/* ---- what cannot run ----------------------------------------------------------------------------------------------
 */

static bool has_unable(const struct sp_workload *workload)
{
    for (uint32_t i = 0; i < workload->node_count; i++) {
        for (uint32_t k = 0; k < workload->kind_count && !workload->nodes[i].folded; k++) {
            if (!isfinite(workload->nodes[i].seconds[k]))
                return true;
        }
    }
    return false;
}

/* More than all nodes at their slowest and all transfers over the slowest link. */
static double longest_request(const struct sp_workload *workload, const struct sp_cluster *cluster)
{
    double latency = 0, per_byte = 0, total = 0;
    for (uint32_t level = 0; level < cluster->level_count; level++) {
        latency = fmax(latency, cluster->levels[level].latency);
        per_byte = fmax(per_byte, 1 / sp_level_permute_bandwidth(&cluster->levels[level]));
    }
    for (uint32_t i = 0; i < workload->node_count; i++) {
        double slowest = 0;
        for (uint32_t k = 0; k < workload->kind_count && !workload->nodes[i].folded; k++) {
            if (isfinite(workload->nodes[i].seconds[k]))
                slowest = fmax(slowest, workload->nodes[i].seconds[k]);
        }
        total += slowest;
    }
    for (uint32_t t = 0; t < workload->tensor_count; t++) {
        const struct sp_work_tensor *tensor = &workload->tensors[t];
        const uint32_t most =
            tensor->consumer_count < cluster->device_count ? tensor->consumer_count : cluster->device_count;
        total += most * (tensor->has_transfer_seconds ? tensor->transfer_seconds : latency + tensor->bytes * per_byte);
    }
    return total > 0 ? total : 1;
}

static void replace_infinity(struct sp_workload *made)
{
    for (uint32_t i = 0; i < made->node_count; i++) {
        for (uint32_t k = 0; k < made->kind_count && !made->nodes[i].folded; k++) {
            if (!isfinite(made->nodes[i].seconds[k]))
                made->nodes[i].seconds[k] = made->unable_seconds;
        }
    }
}

/* ---- the whole ----------------------------------------------------------------------------------------------------
 */

static bool make(struct contract *c, const struct sp_cluster *cluster, bool is_unable)
{
    const struct sp_workload *given = c->given;
    struct sp_workload *made = c->made;
    uint32_t number = 0;
    *made = *given;
    made->arena = c->arena;
    for (uint32_t first = 0; first < given->node_count; number++) {
        const uint32_t end = sp_together_end(given, first);
        while (first < end)
            c->node_of[first++] = number;
    }
    made->node_count = number;
    made->nodes = SP_NEW_ARRAY(c->arena, number, struct sp_work_node);
    c->last = SP_NEW_ARRAY(c->scratch, given->tensor_count, uint32_t);
    c->seen = SP_NEW_ARRAY(c->scratch, given->tensor_count, uint32_t);
    if (made->nodes == NULL || c->last == NULL || c->seen == NULL || !copy_tensors(c))
        return false;
    number = 0;
    for (uint32_t first = 0; first < given->node_count; number++) {
        const uint32_t end = sp_together_end(given, first);
        if (!make_row(c, number, first, end))
            return false;
        first = end;
    }
    if (is_unable) {
        made->unable_seconds = 2 * longest_request(given, cluster);
        replace_infinity(made);
    }
    return true;
}

enum sp_status sp_workload_contract(struct sp_arena *arena, const struct sp_workload *workload,
                                    const struct sp_cluster *cluster, struct sp_contraction *ret_contraction,
                                    struct sp_error *err)
{
    const bool is_unable = has_unable(workload);
    bool has_rows = false;
    for (uint32_t i = 0; i < workload->node_count && !has_rows; i++)
        has_rows = workload->nodes[i].together != 0;
    if (!is_unable && !has_rows) {
        *ret_contraction = (struct sp_contraction){.workload = workload};
        return SP_OK;
    }
    struct contract c = {.arena = arena,
                         .scratch = sp_arena_create(sp_arena_budget(arena)),
                         .given = workload,
                         .made = SP_NEW(arena, struct sp_workload),
                         .node_of = SP_NEW_ARRAY(arena, workload->node_count, uint32_t)};
    const bool is_made = c.scratch != NULL && c.made != NULL && c.node_of != NULL && make(&c, cluster, is_unable);
    sp_arena_destroy(c.scratch);
    if (!is_made)
        return sp_fail_memory(err);
    *ret_contraction = (struct sp_contraction){.workload = c.made, .node_of = c.node_of};
    return SP_OK;
}

struct sp_placement *sp_contraction_expand(struct sp_arena *arena, const struct sp_contraction *contraction,
                                           const struct sp_workload *given, const struct sp_placement *placement)
{
    struct sp_placement *expanded = SP_NEW(arena, struct sp_placement);
    uint32_t *stage_of = SP_NEW_ARRAY(arena, given->node_count, uint32_t);
    if (expanded == NULL || stage_of == NULL)
        return NULL;
    for (uint32_t i = 0; i < given->node_count; i++)
        stage_of[i] = placement->stage_of[contraction->node_of != NULL ? contraction->node_of[i] : i];
    *expanded = *placement;
    expanded->stage_of = stage_of;
    return expanded;
}

enum sp_status sp_contraction_reduce(struct sp_arena *arena, const struct sp_contraction *contraction,
                                     const struct sp_workload *given, const struct sp_placement *placement,
                                     struct sp_placement **ret_placement)
{
    struct sp_placement *reduced = SP_NEW(arena, struct sp_placement);
    uint32_t *stage_of = SP_NEW_ARRAY(arena, contraction->workload->node_count, uint32_t);
    if (reduced == NULL || stage_of == NULL)
        return SP_ERR_MEMORY;
    *ret_placement = NULL;
    for (uint32_t n = 0; n < contraction->workload->node_count; n++)
        stage_of[n] = UINT32_MAX;
    for (uint32_t i = 0; i < given->node_count; i++) {
        const uint32_t node = contraction->node_of != NULL ? contraction->node_of[i] : i;
        if (stage_of[node] != UINT32_MAX && stage_of[node] != placement->stage_of[i])
            return SP_OK;
        stage_of[node] = placement->stage_of[i];
    }
    *reduced = *placement;
    reduced->stage_of = stage_of;
    *ret_placement = reduced;
    return SP_OK;
}
