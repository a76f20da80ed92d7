#include "search/joint/exhaustive_strategies.h"
#include "base/sorted.h"

#include <stdlib.h>
#include <string.h>

#define MAX_BORDER 64 /* tensors that cross: tiny models have fewer, others are compared as if all differed */

struct border {
    uint32_t count;
    uint32_t node[MAX_BORDER], tensor[MAX_BORDER]; /* whose layout it is: index in the set, and the tensor */
    bool is_full;
};

static uint32_t index_of(const struct sp_ways *ways, uint32_t node)
{
    for (uint32_t i = 0; i < ways->node_count; i++) {
        if (ways->nodes[i] == node)
            return i;
    }
    return UINT32_MAX;
}

static void add(struct border *border, uint32_t node, uint32_t tensor)
{
    for (uint32_t i = 0; i < border->count; i++) {
        if (border->tensor[i] == tensor)
            return; /* the first one to use it counts */
    }
    if (border->count == MAX_BORDER) {
        border->is_full = true;
        return;
    }
    border->node[border->count] = node;
    border->tensor[border->count++] = tensor;
}

/* What comes in, at its first user, and what goes out, at its producer. */
static void find_border(const struct sp_workload *workload, const struct sp_ways *ways, struct border *border)
{
    for (uint32_t i = 0; i < ways->node_count; i++) {
        const struct sp_work_node *node = &workload->nodes[ways->nodes[i]];
        for (uint32_t j = 0; j < node->input_count; j++) {
            const struct sp_work_tensor *tensor = &workload->tensors[node->inputs[j]];
            if (tensor->kind == SP_WORK_ACTIVATION && tensor->producer != SP_NO_WORK &&
                index_of(ways, tensor->producer) == UINT32_MAX)
                add(border, i, node->inputs[j]);
        }
        for (uint32_t j = 0; j < node->output_count; j++) {
            const struct sp_work_tensor *tensor = &workload->tensors[node->outputs[j]];
            bool crosses = false;
            for (uint32_t k = 0; k < tensor->consumer_count; k++)
                crosses = crosses || index_of(ways, tensor->consumers[k]) == UINT32_MAX;
            if (crosses)
                add(border, i, node->outputs[j]);
        }
    }
}

static bool beats(const struct sp_way *a, const struct sp_way *b, const struct border *border)
{
    for (uint32_t d = 0; d < SP_EXHAUST_DEVICES; d++)
        if (a->bytes[d] > b->bytes[d])
            return false;
    return a->seconds <= b->seconds && !border->is_full &&
           (border->count == 0 || memcmp(a->border, b->border, border->count * sizeof *a->border) == 0);
}

/* Keeps the way unless another beats it. */
static void keep(struct sp_ways *ways, const struct sp_way *way, const struct border *border)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < ways->count; i++) {
        if (beats(&ways->items[i], way, border))
            return;
    }
    for (uint32_t i = 0; i < ways->count; i++) {
        if (!beats(way, &ways->items[i], border))
            ways->items[kept++] = ways->items[i];
    }
    ways->items[kept] = *way;
    ways->count = kept + 1;
}

static double bytes_of(const struct sp_intra_result *intra)
{
    return intra->weight_bytes + intra->resident_bytes + intra->activation_peak_bytes;
}

/* What each device takes, of unequal ones; the one that is counted has `counted_intra`. */
static enum sp_status count_members(struct sp_joint *joint, struct sp_strategy_table *table, const struct sp_ways *ways,
                                    const uint32_t *strategy_of, const struct sp_intra_result *counted_intra,
                                    double *ret_bytes, struct sp_error *err)
{
    const struct sp_strategy_mesh *mesh = sp_strategy_table_mesh(table);
    const uint32_t counted = mesh->counted;
    enum sp_status status = SP_OK;
    ret_bytes[counted] = bytes_of(counted_intra);
    for (uint32_t m = 0; status == SP_OK && m < mesh->member_count; m++) {
        struct sp_arena_mark mark = sp_arena_mark(joint->arena);
        struct sp_intra_result *intra;
        if (m == counted)
            continue;
        sp_strategy_count_member(table, m);
        status = sp_intra_evaluate(joint->arena, table, ways->node_count, ways->nodes, strategy_of, &intra, err);
        if (status == SP_OK)
            ret_bytes[m] = bytes_of(intra);
        sp_arena_rewind(joint->arena, mark);
    }
    sp_strategy_count_member(table, counted);
    return status;
}

static enum sp_status make_way(struct sp_joint *joint, struct sp_strategy_table *table, const struct sp_ways *ways,
                               const uint32_t *digits, const struct border *border, struct sp_way *ret_way,
                               struct sp_error *err)
{
    uint32_t *strategy_of = SP_NEW_ARRAY(joint->arena, ways->node_count, uint32_t);
    uint32_t *layouts = SP_NEW_ARRAY(joint->arena, border->count, uint32_t);
    struct sp_intra_result *intra;
    if (strategy_of == NULL || layouts == NULL)
        return sp_fail_memory(err);
    memcpy(strategy_of, digits, ways->node_count * sizeof *strategy_of);
    for (uint32_t i = 0; i < border->count; i++)
        layouts[i] = sp_joint_layout(table, ways->nodes[border->node[i]], digits[border->node[i]], border->tensor[i]);
    enum sp_status status =
        sp_intra_evaluate(joint->arena, table, ways->node_count, ways->nodes, strategy_of, &intra, err);
    if (status != SP_OK)
        return status;
    *ret_way = (struct sp_way){.strategy_of = strategy_of,
                               .intra = intra,
                               .border = layouts,
                               .seconds = intra->compute_seconds + intra->communication_seconds};
    return count_members(joint, table, ways, strategy_of, intra, ret_way->bytes, err);
}

/* The next combination of strategies; false after the last one. */
static bool count_up(const struct sp_strategy_table *table, const struct sp_ways *ways, uint32_t *digits)
{
    for (uint32_t i = 0; i < ways->node_count; i++) {
        if (++digits[i] < sp_strategy_of(table, ways->nodes[i])->count)
            return true;
        digits[i] = 0;
    }
    return false;
}

SP_ASCENDING(by_seconds, struct sp_way, seconds)

enum sp_status sp_ways_create(struct sp_joint *joint, const struct sp_space_option *option, const uint32_t *live,
                              uint32_t live_count, uint32_t mask, struct sp_ways *ret_ways, struct sp_error *err)
{
    struct sp_strategy_table *table = NULL;
    struct border border = {0};
    uint32_t digits[SP_EXHAUST_NODES] = {0}, room = 1;
    ret_ways->made = true;
    ret_ways->nodes = SP_NEW_ARRAY(joint->arena, live_count, uint32_t);
    if (ret_ways->nodes == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < live_count; i++) {
        if ((mask >> i & 1) != 0)
            ret_ways->nodes[ret_ways->node_count++] = live[i];
    }
    enum sp_status status = sp_joint_table(joint, option, &table, err);
    for (uint32_t i = 0; status == SP_OK && table != NULL && i < ret_ways->node_count; i++)
        room *= sp_strategy_of(table, ret_ways->nodes[i])->count;
    if (status != SP_OK)
        return status;
    ret_ways->items = SP_NEW_ARRAY(joint->arena, room, struct sp_way);
    if (ret_ways->items == NULL)
        return sp_fail_memory(err);
    if (table == NULL) {
        ret_ways->count = 1;
        for (uint32_t i = 0; i < ret_ways->node_count; i++)
            ret_ways->items[0].seconds += joint->workload->nodes[ret_ways->nodes[i]].seconds[option->mesh.kind];
        return SP_OK;
    }
    find_border(joint->workload, ret_ways, &border);
    if (joint->options->listener != NULL && room <= SP_EXHAUST_HEARD)
        border.is_full = true; /* layouts inside matter, too */
    do {
        struct sp_arena_mark mark = sp_arena_mark(joint->arena);
        struct sp_way way = {0};
        status = make_way(joint, table, ret_ways, digits, &border, &way, err);
        if (status != SP_OK)
            return status;
        keep(ret_ways, &way, &border);
        if (ret_ways->items[ret_ways->count - 1].intra != way.intra) /* another beats it */
            sp_arena_rewind(joint->arena, mark);
    } while (count_up(table, ret_ways, digits));
    qsort(ret_ways->items, ret_ways->count, sizeof *ret_ways->items, by_seconds);
    return SP_OK;
}
