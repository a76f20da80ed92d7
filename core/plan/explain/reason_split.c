/* Why operators are split as they are, and what that gives; in the words of the sentences of reason.c. */
#include <string.h>

#include "base/units.h"
#include "plan/answer/readable_text.h"
#include "plan/internal.h"

#define REASON_LAYOUTS 3 /* other layouts of a tensor that are named before they are only counted */

void sp_reason_devices(const struct sp_plan *plan, uint32_t stage, struct sp_buf *buf)
{
    const uint32_t first = plan->result->placement.stage_device[stage], count = sp_plan_stage_devices(plan, stage);
    sp_text_numbers(buf, plan->cluster->number, first, count);
}

void sp_reason_types(const struct sp_plan *plan, uint32_t stage, struct sp_buf *buf)
{
    const uint32_t first = plan->result->placement.stage_device[stage], count = sp_plan_stage_devices(plan, stage);
    for (uint32_t i = 0; i < count; i++) {
        const char *name = sp_cluster_device(plan->cluster, first + i)->name;
        bool is_new = true;
        for (uint32_t k = 0; k < i && is_new; k++)
            is_new = strcmp(sp_cluster_device(plan->cluster, first + k)->name, name) != 0;
        if (is_new)
            sp_buf_printf(buf, "%s%s", i > 0 ? " + " : "", name);
    }
}

/* The names of the factors that are laid on the mesh axes for which `wanted` has a bit: "n", "m and k". */
static uint32_t list_factors(const struct sp_rule *rule, const struct sp_strategy *strategy, uint32_t axes,
                             uint32_t wanted, struct sp_buf *buf)
{
    uint8_t seen[SP_STRATEGY_AXES];
    uint32_t count = 0;
    for (uint32_t a = 0; rule != NULL && a < axes; a++) {
        const uint8_t factor = strategy->factor_of[a];
        bool is_new = factor != SP_STRATEGY_NO_FACTOR && (wanted >> a & 1) != 0;
        for (uint32_t i = 0; i < count; i++)
            is_new = is_new && seen[i] != factor;
        if (is_new)
            seen[count++] = factor;
    }
    for (uint32_t i = 0; i < count; i++)
        sp_buf_printf(buf, "%s%s", i == 0 ? "" : i + 1 == count ? " and " : ", ", rule->factors[seen[i]].name);
    return count;
}

/* "split along n", with what it saves; nothing for a node that all devices compute whole. */
static void split_of_node(const struct sp_plan *plan, uint32_t node, uint32_t axes, struct sp_buf *buf)
{
    const struct sp_strategies *strategies = sp_plan_strategies(plan, node);
    const struct sp_strategy *strategy = sp_plan_strategy(plan, node);
    sp_reason_quoted(plan->workload->nodes[node].name, buf);
    if (plan->node_strategy[node] == 0) {
        sp_buf_text(buf, " runs whole on each device");
        return;
    }
    sp_buf_text(buf, " is split along ");
    if (list_factors(strategies->rule, strategy, axes, UINT32_MAX, buf) == 0)
        sp_buf_text(buf, "no factor");
    sp_buf_text(buf, " and takes ");
    sp_text_seconds(buf, strategy->compute_seconds + strategy->communication_seconds);
    sp_buf_text(buf, " instead of ");
    sp_text_seconds(buf, strategies->items[0].compute_seconds);
}

/* "axis 1 in 4 parts", "axes 0 and 1 in 2 x 2 parts", "axis 1 in 4 parts of each of its 3". */
static bool parts_of(const struct sp_plan *plan, const struct sp_plan_place *place, uint32_t rank, struct sp_buf *buf)
{
    int64_t shards[SP_MAX_RANK], before[SP_MAX_RANK];
    uint32_t axes[SP_MAX_RANK], count = 0;
    struct sp_error none = {0};
    if (rank > SP_MAX_RANK || sp_plan_shards(plan, place->stage, place->layout, rank, shards, before, &none) != SP_OK)
        return false;
    for (uint32_t d = 0; d < rank; d++) {
        if (shards[d] > 1)
            axes[count++] = d;
    }
    for (uint32_t i = 0; i < count; i++)
        sp_buf_printf(buf, "%s%u", i == 0 ? (count > 1 ? "axes " : "axis ") : i + 1 == count ? " and " : ", ", axes[i]);
    for (uint32_t i = 0; i < count; i++)
        sp_buf_printf(buf, "%s%lld", i == 0 ? " in " : " x ", (long long)shards[axes[i]]);
    sp_buf_text(buf, " parts");
    for (uint32_t i = 0; i < count; i++)
        if (before[axes[i]] > 1)
            sp_buf_printf(buf, " of each of its %lld", (long long)before[axes[i]]);
    return count > 0;
}

/* Whether the node makes the tensor as partial values, which a reduction joins. */
static bool is_joined(const struct sp_plan *plan, uint32_t node, uint32_t tensor, uint32_t axes)
{
    const struct sp_rule *rule = sp_plan_strategies(plan, node)->rule;
    const struct sp_strategy *strategy = sp_plan_strategy(plan, node);
    for (uint32_t a = 0; rule != NULL && a < axes && plan->workload->tensors[tensor].producer == node; a++) {
        const uint8_t factor = strategy->factor_of[a];
        if (factor != SP_STRATEGY_NO_FACTOR && rule->factors[factor].kind == SP_FACTOR_REDUCTION)
            return true;
    }
    return false;
}

static void other_layouts(const struct sp_plan *plan, const struct sp_places *places, uint32_t rank, struct sp_buf *buf)
{
    uint32_t others = 0;
    struct sp_error none = {0};
    for (uint32_t i = 1; i < places->place_count; i++) {
        const struct sp_plan_place *place = &places->places[i];
        if (place->layout == places->places[0].layout && sp_plan_sharded(plan, place->stage) != NULL &&
            place->stage == places->places[0].stage)
            continue;
        if (sp_plan_sharded(plan, place->stage) == NULL || others++ >= REASON_LAYOUTS)
            continue;
        sp_buf_text(buf, "; ");
        sp_reason_quoted(plan->workload->nodes[place->node].name, buf);
        sp_buf_text(buf, " takes it as ");
        if (sp_plan_spec_text(plan, place->stage, place->layout, rank, buf, &none) != SP_OK)
            buf->failed = true;
    }
    if (others > REASON_LAYOUTS)
        sp_buf_printf(buf, " and %u more in other layouts", others - REASON_LAYOUTS);
}

void sp_reason_split(const struct sp_plan *plan, uint32_t tensor, const struct sp_places *places, struct sp_buf *buf)
{
    const struct sp_work_tensor *t = &plan->workload->tensors[tensor];
    const struct sp_arena_mark mark = sp_arena_mark(plan->arena);
    const struct sp_value *value = t->value;
    const struct sp_plan_place *place = places->places;
    const struct sp_mesh *mesh = NULL;
    struct sp_error none = {0};
    if (places->place_count == 0)
        return;
    const uint32_t rank = value != NULL && value->type.shape.has_rank ? value->type.shape.rank : 0;
    if (sp_plan_sharded(plan, place->stage) != NULL && sp_plan_strategy(plan, place->node) != NULL) {
        if (sp_plan_mesh(plan, plan->arena, place->stage, &mesh, &none) != SP_OK || mesh == NULL) {
            buf->failed = true;
            return;
        }
        sp_buf_text(buf, "; ");
        if (place->layout == 0)
            sp_buf_text(buf, is_joined(plan, place->node, tensor, mesh->axis_count) ? "whole on each after a reduction"
                                                                                    : "whole on each");
        else if (!parts_of(plan, place, rank, buf))
            buf->failed = true;
        if (place->layout != 0 && t->kind == SP_WORK_WEIGHT) {
            sp_buf_text(buf, ", ");
            sp_text_bytes(buf, sp_plan_local_bytes(plan, place->stage, place->layout, tensor));
            sp_buf_text(buf, " instead of ");
            sp_text_bytes(buf, t->bytes);
            sp_buf_text(buf, " on each device");
        }
        sp_buf_text(buf, ": ");
        split_of_node(plan, place->node, mesh->axis_count, buf);
    }
    other_layouts(plan, places, rank, buf);
    sp_arena_rewind(plan->arena, mark);
}

/* ---- stages ----------------------------------------------------------------------------------------------------- */

double sp_reason_whole_seconds(const struct sp_plan *plan, uint32_t stage)
{
    const uint32_t kind = plan->workload->kind_of[plan->result->placement.stage_device[stage]];
    double seconds = 0;
    for (uint32_t i = plan->stage_nodes.start[stage]; i < plan->stage_nodes.start[stage + 1]; i++) {
        const struct sp_work_node *node = &plan->workload->nodes[plan->stage_nodes.items[i]];
        seconds += node->folded ? 0 : node->seconds[kind];
    }
    return seconds;
}

/* " in shares of 3 and 1", of unequal devices. */
static void list_shares(const struct sp_strategy_mesh *mesh, struct sp_buf *buf)
{
    for (uint32_t m = 0; m < mesh->member_count; m++)
        sp_buf_printf(buf, "%s%u",
                      m == 0                        ? " in shares of "
                      : m + 1 == mesh->member_count ? " and "
                                                    : ", ",
                      mesh->members[m].share);
}

void sp_reason_block(const struct sp_plan *plan, uint32_t stage, const char *before, struct sp_buf *buf)
{
    const struct sp_placement *placement = &plan->result->placement;
    const struct sp_stage_cost *cost = &plan->result->evaluation->stages[stage];
    if (sp_plan_sharded(plan, stage) != NULL) {
        sp_buf_printf(buf, "%sits operators are split over %u devices", before, sp_placement_size(placement, stage));
        list_shares(sp_strategy_table_mesh(sp_plan_sharded(plan, stage)->table), buf);
        sp_buf_text(buf, " and take ");
        sp_text_seconds(buf, cost->compute_seconds);
        sp_buf_text(buf, " instead of ");
        sp_text_seconds(buf, sp_reason_whole_seconds(plan, stage));
        before = "; ";
    }
    if (sp_placement_replicas(placement, stage) > 1)
        sp_buf_printf(buf, "%s%u replicas take requests in turn", before, sp_placement_replicas(placement, stage));
}

void sp_reason_quoted(const char *name, struct sp_buf *buf)
{
    sp_buf_text(buf, "'");
    sp_text_cut(buf, name, SP_REASON_COLUMNS);
    sp_buf_text(buf, "'");
}
