/*
 * The operators of a stage as a choice problem: members, groups of tensors, and the problem put together.
 */
#include "search/strategy/intra.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/sorted.h"
#include "search/strategy/intra_internal.h"

/* ---- members ---------------------------------------------------------------------------------------------------- */

static uint32_t slot_count(const struct sp_work_node *work)
{
    return work->node->output_count + work->node->input_count + work->input_count;
}

/* Whether one can stand for the other: the same strategies, and as many operands of every sort. */
static bool may_be_tied(const struct sp_intra *intra, uint32_t a, uint32_t b)
{
    const struct sp_workload *workload = intra->table->workload;
    return sp_strategy_of(intra->table, a) == sp_strategy_of(intra->table, b) &&
           workload->nodes[a].node->output_count == workload->nodes[b].node->output_count &&
           slot_count(&workload->nodes[a]) == slot_count(&workload->nodes[b]);
}

static enum sp_status find_members(struct sp_intra_maker *maker)
{
    struct sp_intra *intra = maker->intra;
    const struct sp_blocks *blocks = maker->options->blocks;
    uint32_t node_count = intra->table->workload->node_count, slots = 0;
    uint32_t *first_of = SP_NEW_ARRAY(maker->scratch, node_count, uint32_t); /* member by node it is the same as, + 1 */
    intra->members = SP_NEW_ARRAY(intra->arena, intra->entry_count, struct sp_intra_member);
    intra->member_of = SP_NEW_ARRAY(intra->arena, intra->entry_count, uint32_t);
    intra->first_group = SP_NEW_ARRAY(maker->scratch, intra->entry_count + 1, uint32_t);
    intra->position_of = SP_NEW_ARRAY(maker->scratch, node_count, uint32_t);
    if (first_of == NULL || intra->members == NULL || intra->member_of == NULL || intra->first_group == NULL ||
        intra->position_of == NULL)
        return sp_intra_no_memory(maker->err);
    memset(intra->position_of, 0xff, node_count * sizeof *intra->position_of);
    for (uint32_t i = 0; i < intra->entry_count; i++) {
        uint32_t node = intra->nodes[i], same = blocks != NULL ? blocks->same_as[node] : node;
        if (sp_strategy_of(intra->table, node) == NULL)
            return sp_fail(maker->err, SP_ERR_INTERNAL, "NODE_FOLDED", "A node of a stage has no strategies.");
        intra->position_of[node] = i;
        uint32_t member = first_of[same];
        if (member > 0 && may_be_tied(intra, intra->members[member - 1].node, node)) {
            intra->members[--member].times++;
        } else {
            member = intra->member_count++;
            intra->members[member] = (struct sp_intra_member){sp_strategy_of(intra->table, node), node, i, 1,
                                                              slot_count(&intra->table->workload->nodes[node])};
            intra->first_group[member] = slots;
            slots += intra->members[member].slots;
            first_of[same] = member + 1;
        }
        intra->member_of[i] = member;
    }
    intra->group_count = slots;
    return SP_OK;
}

/* ---- groups ----------------------------------------------------------------------------------------------------- */

struct use_list {
    uint32_t count, capacity;
    struct sp_intra_operand_use *items;
};

static enum sp_status add_use(struct sp_intra_maker *maker, struct use_list *list, struct sp_intra_operand_use use)
{
    if (!SP_MAKE_ROOM(maker->scratch, list->items, list->count, list->capacity, 1))
        return sp_intra_no_memory(maker->err);
    list->items[list->count++] = use;
    return SP_OK;
}

/* The group of a tensor that a slot of a member names first. */
static void enter_group(struct sp_intra *intra, uint32_t tensor, uint32_t slot, uint32_t producer, uint32_t output)
{
    const struct sp_workload *workload = intra->table->workload;
    struct sp_intra_group *group = &intra->groups[slot];
    intra->group_of[tensor] = slot;
    if (group->tensor == SP_INTRA_NONE) {
        enum sp_work_kind kind = workload->tensors[sp_work_root(workload, tensor)].kind;
        group->tensor = tensor;
        group->producer = producer;
        group->output = output;
        group->is_weight = kind == SP_WORK_WEIGHT;
        group->is_free = group->is_weight || workload->tensors[tensor].kind == SP_WORK_INPUT;
    }
    group->tensor_count++;
}

static enum sp_status note_input(struct sp_intra_maker *maker, struct use_list *list, uint32_t entry, uint32_t slot,
                                 uint32_t operand, uint32_t tensor)
{
    struct sp_intra *intra = maker->intra;
    uint32_t member = intra->member_of[entry];
    if (intra->table->is_own_weight[tensor])
        return SP_OK;
    if (intra->group_of[tensor] == SP_INTRA_NONE)
        enter_group(intra, tensor, intra->first_group[member] + slot, SP_INTRA_NONE, 0);
    return add_use(maker, list,
                   (struct sp_intra_operand_use){intra->group_of[tensor], member, operand, tensor, 1, entry});
}

static enum sp_status note_operands(struct sp_intra_maker *maker, struct use_list *list, uint32_t entry)
{
    struct sp_intra *intra = maker->intra;
    uint32_t id = intra->nodes[entry], member = intra->member_of[entry];
    const struct sp_work_node *work = &intra->table->workload->nodes[id];
    const struct sp_node *node = work->node;
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; i < node->input_count && status == SP_OK; i++)
        if (node->inputs[i] != NULL)
            status = note_input(maker, list, entry, node->output_count + i, i, node->inputs[i]->id);
    for (uint32_t i = 0; i < work->input_count && status == SP_OK; i++)
        if (sp_strategy_operand(intra->table, id, work->inputs[i]) == UINT32_MAX)
            status =
                note_input(maker, list, entry, node->output_count + node->input_count + i, UINT32_MAX, work->inputs[i]);
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i] != NULL)
            enter_group(intra, node->outputs[i]->id, intra->first_group[member] + i, member, i);
    return status;
}

SP_ASCENDING(compare_uses, struct sp_intra_operand_use, group, tensor, position)

SP_ASCENDING(compare_users, struct sp_intra_operand_use, group, member, operand, position)

/* Uses of one group by one operand of one member are one, counted as often as there are. */
static void merge_uses(struct sp_intra *intra, struct use_list *list)
{
    uint32_t kept = 0, same = 0;
    qsort(list->items, list->count, sizeof *list->items, compare_uses);
    for (uint32_t i = 0; i < list->count; i++) { /* how many uses does one tensor have? */
        struct sp_intra_group *group = &intra->groups[list->items[i].group];
        same = i > 0 && list->items[i - 1].tensor == list->items[i].tensor ? same + 1 : 1;
        group->most_uses = same > group->most_uses ? same : group->most_uses;
    }
    qsort(list->items, list->count, sizeof *list->items, compare_users);
    for (uint32_t i = 0; i < list->count; i++) {
        struct sp_intra_operand_use *last = kept > 0 ? &list->items[kept - 1] : NULL, *use = &list->items[i];
        if (last != NULL && last->group == use->group && last->member == use->member && last->operand == use->operand)
            last->times++;
        else
            list->items[kept++] = *use;
    }
    intra->uses = list->items;
    intra->use_count = kept;
    for (uint32_t i = kept; i-- > 0;) {
        intra->groups[list->items[i].group].first_use = i;
        intra->groups[list->items[i].group].use_count++;
    }
}

static enum sp_status find_groups(struct sp_intra_maker *maker)
{
    struct sp_intra *intra = maker->intra;
    uint32_t tensor_count = intra->table->workload->tensor_count;
    struct use_list list = {0};
    enum sp_status status = SP_OK;
    intra->groups = SP_NEW_ARRAY(maker->scratch, intra->group_count, struct sp_intra_group);
    intra->group_of = SP_NEW_ARRAY(maker->scratch, tensor_count, uint32_t);
    if (intra->groups == NULL || intra->group_of == NULL)
        return sp_intra_no_memory(maker->err);
    memset(intra->group_of, 0xff, tensor_count * sizeof *intra->group_of);
    for (uint32_t g = 0; g < intra->group_count; g++)
        intra->groups[g].tensor = intra->groups[g].hub = SP_INTRA_NONE;
    for (uint32_t i = 0; i < intra->entry_count && status == SP_OK; i++)
        status = note_operands(maker, &list, i);
    if (status == SP_OK && list.count > 0)
        merge_uses(intra, &list);
    return status;
}

/* ---- the problem ------------------------------------------------------------------------------------------------ */

static enum sp_status price_members(struct sp_intra_maker *maker)
{
    struct sp_intra *intra = maker->intra;
    const struct sp_intra_options *options = maker->options;
    intra->member_cost = SP_NEW_ARRAY(maker->scratch, intra->member_count, int64_t *);
    if (intra->member_cost == NULL)
        return sp_intra_no_memory(maker->err);
    for (uint32_t m = 0; m < intra->member_count; m++) {
        const struct sp_intra_member *member = &intra->members[m];
        int64_t *cost = SP_NEW_ARRAY(maker->scratch, member->strategies->count, int64_t);
        if (cost == NULL)
            return sp_intra_no_memory(maker->err);
        for (uint32_t s = 0; s < member->strategies->count; s++) {
            const struct sp_strategy *strategy = &member->strategies->items[s];
            cost[s] = sp_intra_cost(member->times * (strategy->compute_seconds + strategy->communication_seconds));
        }
        intra->member_cost[m] = cost;
    }
    /* What is not allowed for one of those that a member stands for is not for any. */
    for (uint32_t i = 0; options->allowed != NULL && i < intra->entry_count; i++) {
        uint32_t m = intra->member_of[i];
        for (uint32_t s = 0; s < intra->members[m].strategies->count; s++)
            if (!options->allowed(options->context, intra->nodes[i], intra->members[m].strategies, s))
                intra->member_cost[m][s] = SP_CHOICE_INFINITE;
    }
    return SP_OK;
}

/* Strategies of a shadow: the different usages. Fills in which of them each strategy of the node has. */
static enum sp_status make_shadow(struct sp_intra_maker *maker, const struct sp_intra_stretch *stretch, uint32_t node,
                                  struct sp_intra_shadow *shadow, uint32_t *ret_count, int64_t **ret_usage)
{
    struct sp_intra *intra = maker->intra;
    uint32_t width = sp_intra_strategy_count(intra, stretch->node), count = 0;
    uint32_t *strategy = SP_NEW_ARRAY(intra->arena, width, uint32_t);
    int64_t *usage = SP_NEW_ARRAY(maker->scratch, width, int64_t);
    if (strategy == NULL || usage == NULL)
        return sp_intra_no_memory(maker->err);
    for (uint32_t s = 0; s < width; s++) {
        uint32_t at = 0;
        while (at < count && usage[at] != stretch->usage[s])
            at++;
        if (at == count)
            usage[count++] = stretch->usage[s];
        strategy[s] = at;
    }
    *shadow = (struct sp_intra_shadow){stretch->node, strategy};
    *ret_count = count;
    *ret_usage = usage;
    if (count == 1)
        return SP_OK; /* the same whatever the node does: no edge is needed */
    int64_t *cost = SP_NEW_ARRAY(intra->arena, (size_t)width * count, int64_t);
    if (cost == NULL)
        return sp_intra_no_memory(maker->err);
    for (uint32_t s = 0; s < width; s++)
        for (uint32_t k = 0; k < count; k++)
            cost[(size_t)s * count + k] = strategy[s] == k ? 0 : SP_CHOICE_INFINITE;
    return sp_intra_add_edge(maker, stretch->node, node, cost);
}

/* One stretch of a node is its own, each further one a shadow. */
static enum sp_status assemble(struct sp_intra_maker *maker, uint32_t stretch_count,
                               const struct sp_intra_stretch *stretches)
{
    struct sp_intra *intra = maker->intra;
    uint32_t basic = intra->member_count + intra->hub_count, most = basic + stretch_count, strategies = 0;
    uint32_t *first = SP_NEW_ARRAY(intra->arena, (size_t)most + 1, uint32_t);
    int64_t *begin = SP_NEW_ARRAY(intra->arena, most, int64_t), *end = SP_NEW_ARRAY(intra->arena, most, int64_t);
    const int64_t **usage_of = SP_NEW_ARRAY(maker->scratch, most, const int64_t *);
    intra->shadows = SP_NEW_ARRAY(intra->arena, stretch_count, struct sp_intra_shadow);
    if (first == NULL || begin == NULL || end == NULL || usage_of == NULL || intra->shadows == NULL)
        return sp_intra_no_memory(maker->err);
    for (uint32_t v = 0; v < basic; v++) {
        first[v] = strategies;
        strategies += sp_intra_strategy_count(intra, v);
    }
    for (uint32_t i = 0; i < stretch_count; i++) {
        uint32_t node = stretches[i].node, count = 0;
        const int64_t *usage = stretches[i].usage;
        if (usage_of[node] != NULL) {
            int64_t *own = NULL;
            uint32_t shadow = basic + intra->shadow_count;
            enum sp_status status =
                make_shadow(maker, &stretches[i], shadow, &intra->shadows[intra->shadow_count], &count, &own);
            if (status != SP_OK)
                return status;
            intra->shadow_count++;
            first[shadow] = strategies;
            strategies += count;
            node = shadow;
            usage = own;
        }
        usage_of[node] = usage;
        begin[node] = stretches[i].begin;
        end[node] = stretches[i].end;
    }
    uint32_t node_count = basic + intra->shadow_count;
    int64_t *cost = SP_NEW_ARRAY(intra->arena, strategies, int64_t);
    int64_t *usage = SP_NEW_ARRAY(intra->arena, strategies, int64_t);
    if (cost == NULL || usage == NULL)
        return sp_intra_no_memory(maker->err);
    first[node_count] = strategies;
    for (uint32_t v = 0; v < node_count; v++) {
        uint32_t count = first[v + 1] - first[v];
        if (v < intra->member_count)
            memcpy(cost + first[v], intra->member_cost[v], count * sizeof *cost);
        if (usage_of[v] != NULL)
            memcpy(usage + first[v], usage_of[v], count * sizeof *usage);
    }
    double limit = maker->options->memory_limit - maker->options->reserved_bytes;
    intra->problem = (struct sp_choice_problem){.node_count = node_count,
                                                .edge_count = intra->edges.count,
                                                .first = first,
                                                .cost = cost,
                                                .usage = usage,
                                                .begin = begin,
                                                .end = end,
                                                .edges = intra->edges.items,
                                                .limit = limit >= 9e18 ? INT64_MAX
                                                         : limit > 0   ? (int64_t)limit
                                                                       : 0};
    return SP_OK;
}

static enum sp_status make(struct sp_intra_maker *maker)
{
    uint32_t stretch_count = 0;
    struct sp_intra_stretch *stretches = NULL;
    enum sp_status status = find_members(maker);
    if (status == SP_OK)
        status = find_groups(maker);
    if (status == SP_OK)
        status = price_members(maker);
    if (status == SP_OK)
        status = sp_intra_connect(maker);
    if (status == SP_OK && maker->options->memory_limit - maker->options->reserved_bytes < 9e18)
        status = sp_intra_memory(maker, &stretch_count, &stretches);
    return status == SP_OK ? assemble(maker, stretch_count, stretches) : status;
}

enum sp_status sp_intra_create(struct sp_arena *arena, struct sp_strategy_table *table,
                               const struct sp_intra_options *options, struct sp_intra **ret_intra,
                               struct sp_error *err)
{
    struct sp_intra *intra = SP_NEW(arena, struct sp_intra);
    uint32_t *nodes = SP_NEW_ARRAY(arena, options->node_count, uint32_t);
    struct sp_arena_mark mark = sp_arena_mark(table->scratch);
    struct sp_intra_maker maker = {intra, options, table->scratch, err};
    if (intra == NULL || nodes == NULL)
        return sp_intra_no_memory(err);
    if (options->node_count > 0)
        memcpy(nodes, options->nodes, options->node_count * sizeof *nodes);
    intra->table = table;
    intra->arena = arena;
    intra->entry_count = options->node_count;
    intra->nodes = nodes;
    intra->matrices.arena = intra->lists.arena = table->scratch;
    enum sp_status status = make(&maker);
    sp_arena_rewind(table->scratch, mark);
    intra->position_of = intra->group_of = intra->first_group = NULL; /* were in the memory that is gone */
    intra->groups = NULL;
    intra->uses = NULL;
    intra->member_cost = NULL;
    intra->matrices = intra->lists = (struct sp_hash_map){0};
    if (status == SP_OK)
        *ret_intra = intra;
    return status;
}

const struct sp_choice_problem *sp_intra_problem(const struct sp_intra *intra)
{
    return &intra->problem;
}

/* ---- choosing --------------------------------------------------------------------------------------------------- */

/* The same problem, in which what is cut behind major parts costs too much. */
static enum sp_status make_plain(struct sp_arena *arena, const struct sp_intra *intra,
                                 struct sp_choice_problem *ret_plain, struct sp_error *err)
{
    const struct sp_choice_problem *problem = sp_intra_problem(intra);
    const uint32_t count = problem->first[problem->node_count];
    int64_t *cost = SP_NEW_ARRAY(arena, count, int64_t);
    if (cost == NULL)
        return sp_intra_no_memory(err);
    if (count > 0)
        memcpy(cost, problem->cost, count * sizeof *cost);
    for (uint32_t m = 0; m < intra->member_count; m++)
        for (uint32_t s = 0; s < intra->members[m].strategies->count; s++)
            if (intra->members[m].strategies->items[s].is_inner)
                cost[problem->first[m] + s] = SP_CHOICE_INFINITE;
    *ret_plain = *problem;
    ret_plain->cost = cost;
    return SP_OK;
}

static bool is_better(const struct sp_choice_result *a, const struct sp_choice_result *than)
{
    return a->is_feasible && (!than->is_feasible || a->cost < than->cost);
}

enum sp_status sp_intra_solve(struct sp_arena *arena, const struct sp_intra *intra, bool is_plain,
                              const struct sp_choice_options *options, struct sp_choice_result **ret_result,
                              struct sp_error *err)
{
    struct sp_choice_problem plain;
    struct sp_choice_result *result = NULL, *other = NULL;
    enum sp_status status = SP_OK;
    is_plain = is_plain && intra->table->is_taken_apart;
    if (!is_plain)
        status = sp_choice_solve(arena, sp_intra_problem(intra), options, &result, err);
    const bool is_stopped = options->stop != NULL && *options->stop; /* the other way would take as long to begin */
    if (status != SP_OK || !intra->table->is_taken_apart || (!is_plain && (result->is_optimal || is_stopped))) {
        *ret_result = result;
        return status;
    }
    status = make_plain(arena, intra, &plain, err);
    if (status == SP_OK)
        status = sp_choice_solve(arena, &plain, options, &other, err);
    if (status == SP_OK && !is_plain && is_better(other, result))
        other->bound = result->bound;
    if (status == SP_OK)
        *ret_result = is_plain || is_better(other, result) ? other : result;
    return status;
}
