/*
 * Which axes may be cut behind their major part.
 *
 * A fused weight makes one axis of what others take apart: queries, keys and values of equal extents, then a Split, or
 * a Reshape to [.., 3, heads, d]. Where it is taken apart the rule says so: the axis is a compound whose major part
 * cannot be cut, or is needed whole behind it, and what follows that part can be. From there the cut is carried to
 * every axis that is the same factor of some node, through biases, scales and activations to the weight.
 *
 * Axes that are one factor of a node are joined to groups. The axes of a group that is taken apart, and has one of a
 * weight, may be cut so; all others keep the ways that they have, which bounds the search.
 */
#include <string.h>

#include "base/array.h"
#include "base/union_find.h"
#include "search/strategy/strategy_internal.h"

#define MOST_BEFORE 16 /* elements of a major part: more are no pieces of a fused weight */
#define MOST_PLACES 4  /* major parts of one group */

enum axis_flag { HAS_WEIGHT = 1, IS_PICKED = 2 };

/* The major parts behind which the axes of a group are taken apart. */
struct group {
    uint32_t count;
    int64_t before[MOST_PLACES];
};

struct finder {
    struct sp_strategy_table *table;
    uint32_t *first;    /* per tensor: the number of its axis 0 among the axes of all */
    uint32_t *parent;   /* per axis */
    uint8_t *flags;     /* per axis that names its group: enum axis_flag */
    uint32_t *group_of; /* per axis that names its group: one of `groups`, counted from 1; 0: it is not taken apart */
    uint32_t group_count, group_capacity;
    struct group *groups;
    struct sp_error *err;
};

/* One axis of an operand of a node that has a rule. */
struct place {
    uint32_t node, operand, axis, number;
    const struct sp_rule *rule;
    const struct sp_axis_factors *list;
    uint8_t only; /* the one factor that it is, or SP_STRATEGY_NO_FACTOR */
};

/* ---- axes and factors ------------------------------------------------------------------------------------------- */

bool sp_strategy_is_cuttable(const struct sp_strategy_table *table, const struct sp_factor *factor, int64_t before)
{
    if (!sp_strategy_may_cut(factor, before, 1) || factor->extent.value <= before)
        return false;
    for (uint32_t a = 0; a < table->mesh.axis_count; a++)
        if (factor->extent.value / before % table->mesh.size[a] == 0)
            return true;
    return false;
}

uint8_t sp_strategy_only_factor(const struct sp_rule *rule, const struct sp_axis_factors *list)
{
    uint8_t only = SP_STRATEGY_NO_FACTOR;
    for (uint32_t i = 0; i < list->count; i++) {
        if (sp_dim_is(rule->factors[list->factors[i]].extent, 1))
            continue;
        if (only != SP_STRATEGY_NO_FACTOR)
            return SP_STRATEGY_NO_FACTOR;
        only = list->factors[i];
    }
    return only;
}

/* Of the axes that are one factor, those that are cut as it is. */
static bool is_cut_alike(const struct place *place, const struct sp_value *value)
{
    const struct sp_factor *factor = place->only == SP_STRATEGY_NO_FACTOR ? NULL : &place->rule->factors[place->only];
    return factor != NULL && (factor->kind == SP_FACTOR_PARALLEL || factor->kind == SP_FACTOR_REDUCTION) &&
           sp_dim_is(factor->extent, sp_strategy_axis_extent(value, place->axis));
}

/* The elements of the next major part of a compound axis: the product of its first factors. *at is the factor behind
   it; 0 when there is none. */
static int64_t next_major(const struct sp_rule *rule, const struct sp_axis_factors *list, int64_t before, uint32_t *at)
{
    const struct sp_dim extent = rule->factors[list->factors[*at]].extent;
    return ++*at < list->count && sp_dim_is_known(extent) && extent.value > 0 && extent.value <= MOST_BEFORE / before
               ? before * extent.value
               : 0;
}

bool sp_strategy_is_compound(const struct sp_strategy_table *table, const struct sp_rule *rule)
{
    for (uint32_t o = 0; rule != NULL && o < rule->input_count + rule->output_count; o++) {
        const struct sp_operand_rule *operand = sp_rule_operand(rule, o);
        for (uint32_t a = 0; a < operand->rank; a++) {
            uint32_t at = 0;
            int64_t before = operand->axes[a].count > 1 ? 1 : 0;
            while (before > 0 && (before = next_major(rule, &operand->axes[a], before, &at)) > 0)
                if (before > 1 && sp_strategy_is_cuttable(table, &rule->factors[operand->axes[a].factors[at]], 1))
                    return true;
        }
    }
    return false;
}

/* ---- places ----------------------------------------------------------------------------------------------------- */

static const struct sp_value *value_of(const struct finder *finder, const struct place *place)
{
    const struct sp_node *node = finder->table->workload->nodes[place->node].node;
    return sp_strategy_operand_value(node, place->rule, place->operand);
}

/* Goes to the next place of the node; before the first one its rule is NULL. False behind the last. */
static bool next_place(const struct finder *finder, struct place *place)
{
    const struct sp_strategy_class *class = finder->table->class_of[place->node];
    if (class == NULL || class->strategies.rule == NULL)
        return false;
    if (place->rule != NULL)
        place->axis++;
    place->rule = class->strategies.rule;
    for (; place->operand < place->rule->input_count + place->rule->output_count; place->operand++, place->axis = 0) {
        const struct sp_operand_rule *operand = sp_rule_operand(place->rule, place->operand);
        const struct sp_value *value = value_of(finder, place);
        for (; value != NULL && place->axis < operand->rank; place->axis++) {
            if (sp_strategy_axis_extent(value, place->axis) <= 1)
                continue;
            place->list = &operand->axes[place->axis];
            place->only = sp_strategy_only_factor(place->rule, place->list);
            place->number = finder->first[value->id] + place->axis;
            return true;
        }
    }
    return false;
}

static enum sp_status number_axes(struct finder *finder)
{
    const struct sp_workload *workload = finder->table->workload;
    struct sp_arena *scratch = finder->table->scratch;
    uint32_t count = 0;
    finder->first = SP_NEW_ARRAY(scratch, workload->tensor_count, uint32_t);
    for (uint32_t t = 0; t < workload->tensor_count && finder->first != NULL; t++) {
        const struct sp_value *value = workload->tensors[t].value;
        finder->first[t] = count;
        count += value != NULL && value->type.shape.has_rank ? value->type.shape.rank : 0;
    }
    finder->parent = sp_union_find(scratch, count);
    finder->flags = SP_NEW_ARRAY(scratch, count, uint8_t);
    finder->group_of = SP_NEW_ARRAY(scratch, count, uint32_t);
    return finder->first == NULL || finder->parent == NULL || finder->flags == NULL || finder->group_of == NULL
               ? sp_fail_memory(finder->err)
               : SP_OK;
}

/* ---- groups ----------------------------------------------------------------------------------------------------- */

static void join_axes(struct finder *finder, uint32_t node)
{
    uint32_t seen[SP_RULE_MAX_FACTORS]; /* per factor: an axis that is it, counted from 1 */
    memset(seen, 0, sizeof seen);
    for (struct place place = {.node = node}; next_place(finder, &place);) {
        if (!is_cut_alike(&place, value_of(finder, &place)))
            continue;
        if (seen[place.only] > 0)
            sp_union_join(finder->parent, seen[place.only] - 1, place.number);
        seen[place.only] = place.number + 1;
    }
}

/* Products and convolutions sum over something. */
static bool is_contraction(const struct sp_work_node *work, const struct sp_rule *rule)
{
    bool is_sum = false;
    for (uint32_t f = 0; f < rule->factor_count; f++)
        is_sum = is_sum || rule->factors[f].kind == SP_FACTOR_REDUCTION;
    return is_sum && work->flops > 0;
}

/* What is needed whole, or of which elements are picked at no cost, is not cut; and which weights' axes are of a group:
   those of contractions, since what multiplies every element is rarely what takes the time. */
static void flag_axes(struct finder *finder, uint32_t node)
{
    const struct sp_workload *workload = finder->table->workload;
    for (struct place place = {.node = node}; next_place(finder, &place);) {
        const struct sp_value *value = value_of(finder, &place);
        uint8_t *flags = &finder->flags[sp_union_root(finder->parent, place.number)];
        if (place.only == SP_STRATEGY_NO_FACTOR || place.operand >= place.rule->input_count)
            continue;
        const enum sp_factor_kind kind = place.rule->factors[place.only].kind;
        if (kind == SP_FACTOR_REPLICATE || (kind == SP_FACTOR_REDUCTION && workload->nodes[node].flops == 0))
            *flags |= IS_PICKED;
        if (workload->tensors[value->id].kind == SP_WORK_WEIGHT && value->type.shape.rank > 1 &&
            is_cut_alike(&place, value) && is_contraction(&workload->nodes[node], place.rule))
            *flags |= HAS_WEIGHT;
    }
}

/* Whether a factor is an axis of its own at another place of the node, where it is needed whole. */
static bool is_picked(struct finder *finder, const struct place *compound, uint8_t factor)
{
    for (struct place place = {.node = compound->node}; next_place(finder, &place);)
        if (place.only == factor && (finder->flags[sp_union_root(finder->parent, place.number)] & IS_PICKED))
            return true;
    return false;
}

static enum sp_status add_place(struct finder *finder, uint32_t number, int64_t before)
{
    const uint32_t root = sp_union_root(finder->parent, number);
    if (finder->group_of[root] == 0) {
        if (!SP_MAKE_ROOM(finder->table->scratch, finder->groups, finder->group_count, finder->group_capacity, 1))
            return sp_fail_memory(finder->err);
        finder->groups[finder->group_count++] = (struct group){0};
        finder->group_of[root] = finder->group_count;
    }
    struct group *group = &finder->groups[finder->group_of[root] - 1];
    for (uint32_t i = 0; i < group->count; i++)
        if (group->before[i] == before)
            return SP_OK;
    if (group->count < MOST_PLACES)
        group->before[group->count++] = before;
    return SP_OK;
}

/* Finds the compound axes of a node that are taken apart: of which no factor before one that can be cut is better. */
static enum sp_status take_apart(struct finder *finder, uint32_t node)
{
    enum sp_status status = SP_OK;
    for (struct place place = {.node = node}; status == SP_OK && next_place(finder, &place);) {
        uint32_t at = 0;
        int64_t before = place.list->count > 1 ? 1 : 0;
        bool is_whole = true;
        while (before > 0 && is_whole && status == SP_OK) {
            const uint8_t major = place.list->factors[at];
            is_whole = !sp_strategy_is_cuttable(finder->table, &place.rule->factors[major], 1) ||
                       is_picked(finder, &place, major);
            before = next_major(place.rule, place.list, before, &at);
            if (is_whole && before > 1 &&
                sp_strategy_is_cuttable(finder->table, &place.rule->factors[place.list->factors[at]], 1))
                status = add_place(finder, place.number, before);
        }
    }
    return status;
}

/* ---- classes ---------------------------------------------------------------------------------------------------- */

/* Whether an axis can be divided in `before` whole parts: within its one factor, or between two. */
static bool is_divided(const struct finder *finder, const struct place *place, int64_t before)
{
    if (place->only != SP_STRATEGY_NO_FACTOR)
        return is_cut_alike(place, value_of(finder, place)) &&
               place->rule->factors[place->only].extent.value % before == 0;
    uint32_t at = 0;
    for (int64_t major = place->list->count > 1 ? 1 : 0;
         major > 0 && (major = next_major(place->rule, place->list, major, &at)) > 0;)
        if (major == before)
            return true;
    return false;
}

/* The node's class, with what may be cut of it behind a major part. */
static enum sp_status refine_class(struct finder *finder, uint32_t node)
{
    struct sp_strategy_apart apart[SP_STRATEGY_MOST_APART];
    uint32_t count = 0;
    for (struct place place = {.node = node}; next_place(finder, &place);) {
        const uint32_t root = sp_union_root(finder->parent, place.number);
        if (finder->group_of[root] == 0 || !(finder->flags[root] & HAS_WEIGHT))
            continue;
        const struct group *group = &finder->groups[finder->group_of[root] - 1];
        for (uint32_t i = 0; i < group->count && count < SP_STRATEGY_MOST_APART; i++)
            if (is_divided(finder, &place, group->before[i]))
                apart[count++] = (struct sp_strategy_apart){place.operand, place.axis, group->before[i]};
    }
    finder->table->is_taken_apart = finder->table->is_taken_apart || count > 0;
    return count > 0
               ? sp_strategy_class_find(finder->table, node, count, apart, &finder->table->class_of[node], finder->err)
               : SP_OK;
}

enum sp_status sp_strategy_take_apart(struct sp_strategy_table *table, struct sp_error *err)
{
    const uint32_t node_count = table->workload->node_count;
    struct sp_arena_mark mark = sp_arena_mark(table->scratch);
    struct finder finder = {.table = table, .err = err};
    enum sp_status status = number_axes(&finder);
    for (uint32_t n = 0; n < node_count && status == SP_OK; n++)
        join_axes(&finder, n);
    for (uint32_t n = 0; n < node_count && status == SP_OK; n++)
        flag_axes(&finder, n);
    for (uint32_t n = 0; n < node_count && status == SP_OK; n++)
        status = take_apart(&finder, n);
    for (uint32_t n = 0; n < node_count && status == SP_OK && finder.group_count > 0; n++)
        status = refine_class(&finder, n);
    sp_arena_rewind(table->scratch, mark);
    return status;
}
