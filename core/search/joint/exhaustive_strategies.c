#include "search/joint/exhaustive_strategies.h"
#include "base/array.h"
#include "base/sorted.h"

#include <stdlib.h>
#include <string.h>

#define MAX_BORDER 96 /* tensors that cross: tiny models have fewer, others are compared as if all differed */

struct border {
    uint32_t count;
    uint32_t node[MAX_BORDER], tensor[MAX_BORDER]; /* whose layout it is: index in the set, and the tensor */
    bool is_full;
    const struct sp_strategy_table *streams; /* the stage's, where its weights may stay in hosts; else NULL */
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

/* Weights, where other phases take them as well. */
static void add_weights(const struct sp_workload *workload, const struct sp_ways *ways, struct border *border)
{
    for (uint32_t i = 0; i < ways->node_count && workload->phase_count > 0; i++) {
        const struct sp_node *node = workload->nodes[ways->nodes[i]].node;
        for (uint32_t j = 0; node != NULL && j < node->input_count; j++) {
            if (node->inputs[j] == NULL || workload->tensors[node->inputs[j]->id].kind != SP_WORK_WEIGHT)
                continue;
            if (border->count == MAX_BORDER) {
                border->is_full = true;
                return;
            }
            border->node[border->count] = i;
            border->tensor[border->count++] = node->inputs[j]->id;
        }
    }
}

/* Whether what of `a` may be streamed is as in `b`, and collectives leave the host as much time for it. */
static bool streams_as_well(const struct sp_ways *ways, const struct sp_strategy_table *table, const struct sp_way *a,
                            const struct sp_way *b)
{
    for (uint32_t i = 0; i < ways->node_count; i++) {
        if (sp_strategy_weight_bytes(table, ways->nodes[i], a->strategy_of[i]) !=
            sp_strategy_weight_bytes(table, ways->nodes[i], b->strategy_of[i]))
            return false;
    }
    return a->intra->communication_seconds <= b->intra->communication_seconds;
}

static bool beats(const struct sp_ways *ways, const struct sp_way *a, const struct sp_way *b,
                  const struct border *border)
{
    for (uint32_t d = 0; d < SP_EXHAUST_DEVICES; d++)
        if (a->bytes[d] > b->bytes[d])
            return false;
    return a->seconds <= b->seconds && !border->is_full &&
           (border->count == 0 || memcmp(a->border, b->border, border->count * sizeof *a->border) == 0) &&
           (border->streams == NULL || streams_as_well(ways, border->streams, a, b));
}

/* Keeps the way unless another beats it. */
static void keep(struct sp_ways *ways, const struct sp_way *way, const struct border *border)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < ways->count; i++) {
        if (beats(ways, &ways->items[i], way, border))
            return;
    }
    for (uint32_t i = 0; i < ways->count; i++) {
        if (!beats(ways, way, &ways->items[i], border))
            ways->items[kept++] = ways->items[i];
    }
    ways->items[kept] = *way;
    ways->count = kept + 1;
}

/* What each device takes, of unequal ones; the one that is counted has `counted_intra`. */
static enum sp_status count_members(struct sp_joint *joint, struct sp_strategy_table *table, const struct sp_ways *ways,
                                    const uint32_t *strategy_of, const struct sp_intra_result *counted_intra,
                                    double *ret_bytes, struct sp_error *err)
{
    const struct sp_strategy_mesh *mesh = sp_strategy_table_mesh(table);
    const uint32_t counted = mesh->counted;
    enum sp_status status = SP_OK;
    ret_bytes[counted] = sp_intra_held_bytes(counted_intra);
    for (uint32_t m = 0; status == SP_OK && m < mesh->member_count; m++) {
        struct sp_arena_mark mark = sp_arena_mark(joint->arena);
        struct sp_intra_result *intra;
        if (m == counted)
            continue;
        sp_strategy_count_member(table, m);
        status = sp_intra_evaluate(joint->arena, table, ways->node_count, ways->nodes, strategy_of, &intra, err);
        if (status == SP_OK)
            ret_bytes[m] = sp_intra_held_bytes(intra);
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

static uint32_t room_of(const struct sp_strategy_table *table, const struct sp_ways *ways)
{
    uint32_t room = 1;
    for (uint32_t i = 0; table != NULL && i < ways->node_count; i++)
        room *= sp_strategy_of(table, ways->nodes[i])->count;
    return room;
}

/* All ways of the nodes of one phase. */
static enum sp_status enumerate(struct sp_joint *joint, struct sp_strategy_table *table, struct sp_ways *ways,
                                struct sp_error *err)
{
    const uint32_t room = room_of(table, ways);
    uint32_t digits[SP_EXHAUST_NODES] = {0};
    struct border border = {0};
    ways->items = SP_NEW_ARRAY(joint->arena, room, struct sp_way);
    if (ways->items == NULL)
        return sp_fail_memory(err);
    find_border(joint->workload, ways, &border);
    if (joint->cluster->host_of != NULL && sp_strategy_table_mesh(table)->member_count == 0)
        border.streams = table;
    add_weights(joint->workload, ways, &border);
    if ((joint->options->listener != NULL && room <= SP_EXHAUST_HEARD) ||
        (joint->workload->phase_count > 0 && joint->workload->state_count > 0))
        border.is_full = true; /* layouts inside matter, too */
    do {
        struct sp_arena_mark mark = sp_arena_mark(joint->arena);
        struct sp_way way = {0};
        enum sp_status status = make_way(joint, table, ways, digits, &border, &way, err);
        if (status != SP_OK)
            return status;
        keep(ways, &way, &border);
        if (ways->items[ways->count - 1].intra != way.intra) /* another beats it */
            sp_arena_rewind(joint->arena, mark);
    } while (count_up(table, ways, digits));
    return SP_OK;
}

/* ---- several phases ---------------------------------------------------------------------------------------------- */

/* Whether the nodes of a later phase take their weights as those of the first one do. */
static bool agree(const struct sp_joint *joint, const struct sp_strategy_table *table, const struct sp_ways *first,
                  const struct sp_way *of_first, const struct sp_ways *later, const struct sp_way *of_later)
{
    for (uint32_t i = 0; i < later->node_count; i++) {
        const struct sp_strategy *a = &sp_strategy_of(table, first->nodes[i])->items[of_first->strategy_of[i]];
        const struct sp_strategy *b = &sp_strategy_of(table, later->nodes[i])->items[of_later->strategy_of[i]];
        for (uint32_t o = 0; o < sp_work_operand_count(joint->workload, later->nodes[i]); o++)
            if (sp_work_ties_weight(joint->workload, later->nodes[i], o) && a->layouts[o] != b->layouts[o])
                return false;
    }
    return true;
}

/* One way of each phase, while all combinations are gone through. */
struct combining {
    struct sp_joint *joint;
    struct sp_strategy_table *table;
    uint32_t part_count;
    struct sp_ways *parts; /* per phase */
    uint32_t *at;          /* per phase: the way at hand */
};

/* The strategies of all; false where phases do not agree. */
static bool put_together(const struct combining *c, uint32_t *strategy_of)
{
    for (uint32_t p = 0, count = 0; p < c->part_count; p++) {
        const struct sp_way *way = &c->parts[p].items[c->at[p]];
        if (p > 0 && !agree(c->joint, c->table, &c->parts[0], &c->parts[0].items[c->at[0]], &c->parts[p], way))
            return false;
        memcpy(strategy_of + count, way->strategy_of, c->parts[p].node_count * sizeof *strategy_of);
        count += c->parts[p].node_count;
    }
    return true;
}

static bool go_on(const struct combining *c)
{
    for (uint32_t p = 0; p < c->part_count; p++) {
        if (++c->at[p] < c->parts[p].count)
            return true;
        c->at[p] = 0;
    }
    return false;
}

/* The ways of all phases together: each of the first one's with those of the others that it agrees with. */
static enum sp_status combine(const struct combining *c, struct sp_ways *ways, struct sp_error *err)
{
    uint32_t digits[SP_EXHAUST_LIVE], capacity = 0;
    struct border border = {0};
    find_border(c->joint->workload, ways, &border);
    border.is_full = border.is_full || c->joint->workload->state_count > 0;
    do {
        struct sp_way way = {0};
        if (!put_together(c, digits))
            continue;
        if (!SP_MAKE_ROOM(c->joint->arena, ways->items, ways->count, capacity, 1))
            return sp_fail_memory(err);
        enum sp_status status = make_way(c->joint, c->table, ways, digits, &border, &way, err);
        if (status != SP_OK)
            return status;
        keep(ways, &way, &border);
    } while (go_on(c));
    return SP_OK;
}

static enum sp_status enumerate_phases(struct sp_joint *joint, struct sp_strategy_table *table, struct sp_ways *ways,
                                       struct sp_error *err)
{
    const uint32_t phases = joint->workload->phase_count, count = ways->node_count / phases;
    struct combining c = {joint, table, phases, SP_NEW_ARRAY(joint->arena, phases, struct sp_ways),
                          SP_NEW_ARRAY(joint->arena, phases, uint32_t)};
    enum sp_status status = c.parts == NULL || c.at == NULL ? sp_fail_memory(err) : SP_OK;
    for (uint32_t p = 0; status == SP_OK && p < phases; p++) {
        c.parts[p] = (struct sp_ways){.node_count = count, .nodes = ways->nodes + (size_t)p * count};
        status = enumerate(joint, table, &c.parts[p], err);
    }
    return status == SP_OK ? combine(&c, ways, err) : status;
}

/* ------------------------------------------------------------------------------------------------------------------ */

enum sp_status sp_ways_create(struct sp_joint *joint, const struct sp_space_option *option,
                              const struct sp_live_nodes *live, uint32_t mask, struct sp_ways *ret_ways,
                              struct sp_error *err)
{
    struct sp_strategy_table *table = NULL;
    ret_ways->made = true;
    ret_ways->nodes = SP_NEW_ARRAY(joint->arena, live->count, uint32_t);
    if (ret_ways->nodes == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < live->count; i++) {
        if ((mask >> i % live->front_count & 1) != 0)
            ret_ways->nodes[ret_ways->node_count++] = live->nodes[i];
    }
    enum sp_status status = sp_joint_table(joint, option, &table, err);
    if (status != SP_OK)
        return status;
    if (table == NULL) {
        ret_ways->items = SP_NEW(joint->arena, struct sp_way);
        if (ret_ways->items == NULL)
            return sp_fail_memory(err);
        ret_ways->count = 1;
        for (uint32_t i = 0; i < ret_ways->node_count; i++)
            ret_ways->items[0].seconds += joint->workload->nodes[ret_ways->nodes[i]].seconds[option->mesh.kind];
        return SP_OK;
    }
    status = joint->workload->phase_count > 1 ? enumerate_phases(joint, table, ret_ways, err)
                                              : enumerate(joint, table, ret_ways, err);
    if (status == SP_OK && ret_ways->count > 1)
        qsort(ret_ways->items, ret_ways->count, sizeof *ret_ways->items, by_seconds);
    return status;
}
