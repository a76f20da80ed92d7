/*
 * Hubs, and what it costs to bring tensors from producers to hubs and from hubs to users, and outputs of one step to
 * the next one that takes them as inputs.
 *
 * The costs between two sides follow from their lists of layouts, the tensor's shape and how often the edge counts; so
 * equal ones are one matrix.
 */
#include <math.h>
#include <string.h>

#include "base/array.h"
#include "search/strategy/intra_internal.h"

/* ---- lists of layouts ------------------------------------------------------------------------------------------- */

struct layout_list {
    uint32_t count;
    const uint32_t *layouts;
};

static bool is_same_list(const void *item, const void *key)
{
    const struct layout_list *a = item, *b = key;
    return a->count == b->count && memcmp(a->layouts, b->layouts, a->count * sizeof *a->layouts) == 0;
}

/* The one list that is equal to this, which may be in memory that goes. */
static enum sp_status intern_list(struct sp_intra_maker *maker, uint32_t count, const uint32_t *layouts,
                                  const struct layout_list **ret_list)
{
    struct sp_intra *intra = maker->intra;
    struct layout_list key = {count, layouts}, *known;
    struct sp_digest digest;
    sp_digest_begin(&digest, intra->table->dataflow->model->hash_seed);
    sp_digest_add(&digest, layouts, count * sizeof *layouts);
    uint64_t hash = sp_digest_end(&digest);
    known = sp_hash_set_find(&intra->lists, hash, is_same_list, &key);
    if (known == NULL) {
        uint32_t *kept = SP_NEW_ARRAY(intra->arena, count, uint32_t);
        known = SP_NEW(intra->arena, struct layout_list);
        if (kept == NULL || known == NULL || !sp_hash_set_add(&intra->lists, hash, known))
            return sp_intra_no_memory(maker->err);
        memcpy(kept, layouts, count * sizeof *kept);
        *known = (struct layout_list){count, kept};
    }
    *ret_list = known;
    return SP_OK;
}

/* The layouts of a member's operand, by strategy; `operand` counts inputs, then outputs. */
static enum sp_status list_of_member(struct sp_intra_maker *maker, uint32_t member, uint32_t operand,
                                     const struct layout_list **ret_list)
{
    const struct sp_strategies *strategies = maker->intra->members[member].strategies;
    uint32_t layouts[SP_MAX_STRATEGIES];
    for (uint32_t s = 0; s < strategies->count; s++)
        layouts[s] = sp_intra_layout(strategies, s, operand);
    return intern_list(maker, strategies->count, layouts, ret_list);
}

/* Adds the layouts that are not there yet. */
static uint32_t unite(uint32_t count, uint32_t *layouts, const struct layout_list *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        uint32_t at = 0;
        while (at < count && layouts[at] != list->layouts[i])
            at++;
        if (at == count && count < SP_MAX_STRATEGIES)
            layouts[count++] = list->layouts[i];
    }
    return count;
}

/* ---- matrices --------------------------------------------------------------------------------------------------- */

struct matrix {
    const struct layout_list *from, *to;
    const struct sp_strategy_shape *shape;
    uint32_t times, phase;
    bool is_free;
    bool is_inside; /* of a kernel: it is cut where the layout changes */
    uint32_t
        tie; /* 0; else from a state's output to its input: equal layouts; from 2 on, they leave axis tie - 2 whole */
    const int64_t *cost;
};

static bool is_same_matrix(const void *item, const void *key)
{
    const struct matrix *a = item, *b = key;
    return a->from == b->from && a->to == b->to && a->shape == b->shape && a->times == b->times &&
           a->phase == b->phase && a->is_free == b->is_free && a->is_inside == b->is_inside && a->tie == b->tie;
}

/* From a state's output to where the next step takes it in. */
static int64_t tie_cost(const struct sp_strategy_table *table, const struct matrix *matrix, uint32_t from, uint32_t to)
{
    return from == to && !(matrix->tie > 1 && sp_strategy_cuts(table, from, matrix->tie - 2)) ? 0 : SP_CHOICE_INFINITE;
}

/* `is_free`: what comes from outside is taken as it is there, or cut out of it, and else not at all. */
static enum sp_status fill_matrix(struct sp_intra_maker *maker, const struct matrix *matrix, uint32_t tensor,
                                  int64_t *cost)
{
    struct sp_strategy_table *table = maker->intra->table;
    struct sp_arena_mark mark = sp_arena_mark(maker->scratch);
    uint32_t width = matrix->to->count;
    int64_t *known = SP_NEW_ARRAY(maker->scratch, table->layout_count, int64_t); /* of this row, + 1 */
    uint32_t *row_of = SP_NEW_ARRAY(maker->scratch, table->layout_count, uint32_t), row;
    if (known == NULL || row_of == NULL)
        return sp_intra_no_memory(maker->err);
    for (uint32_t i = 0; i < matrix->from->count; i++) {
        uint32_t from = matrix->from->layouts[i];
        if (row_of[from] > 0) { /* another strategy with the same layout */
            row = row_of[from] - 1;
            memcpy(cost + (size_t)i * width, cost + (size_t)row * width, width * sizeof *cost);
            continue;
        }
        row_of[from] = i + 1;
        memset(known, 0, table->layout_count * sizeof *known);
        for (uint32_t j = 0; j < width; j++) {
            uint32_t to = matrix->to->layouts[j];
            if (matrix->tie != 0)
                known[to] = 1 + tie_cost(table, matrix, from, to);
            if (known[to] == 0) {
                if (!sp_watch_tick(maker->options->watch, "search", 0, 0, 0)) { /* one may take long to plan */
                    sp_arena_rewind(maker->scratch, mark);
                    return sp_fail(maker->err, SP_ERR_CANCELLED, "CANCELLED", "The search was cancelled.");
                }
                double seconds = sp_strategy_reshard_seconds(table, tensor, from, to);
                if (matrix->is_inside && seconds > 0)
                    seconds += sp_strategy_cut_seconds(table, tensor, to, SP_CUT_BOTH);
                seconds *= sp_work_times(table->workload, matrix->phase);
                known[to] = 1 + (matrix->is_free ? (seconds > 0 ? SP_CHOICE_INFINITE : 0)
                                                 : sp_intra_cost(matrix->times * seconds));
            }
            cost[(size_t)i * width + j] = known[to] - 1;
        }
    }
    sp_arena_rewind(maker->scratch, mark);
    return SP_OK;
}

static enum sp_status find_matrix(struct sp_intra_maker *maker, uint32_t tensor, struct matrix key,
                                  const int64_t **ret_cost)
{
    struct sp_intra *intra = maker->intra;
    struct sp_digest digest;
    struct matrix *known;
    enum sp_status status = sp_strategy_shape_of(intra->table, tensor, &key.shape, maker->err);
    if (status != SP_OK)
        return status;
    key.times = key.is_free ? 1 : key.times;
    key.phase = intra->table->workload->tensors[tensor].phase;
    sp_digest_begin(&digest, intra->table->dataflow->model->hash_seed);
    sp_digest_number(&digest, (uint64_t)(uintptr_t)key.from);
    sp_digest_number(&digest, (uint64_t)(uintptr_t)key.to);
    sp_digest_number(&digest, (uint64_t)key.phase << 32 | key.tie);
    sp_digest_number(&digest, (uint64_t)key.shape->number << 34 | (uint64_t)key.is_inside << 33 |
                                  (uint64_t)key.is_free << 32 | key.times);
    uint64_t hash = sp_digest_end(&digest);
    known = sp_hash_set_find(&intra->matrices, hash, is_same_matrix, &key);
    if (known == NULL) {
        int64_t *cost = SP_NEW_ARRAY(intra->arena, (size_t)key.from->count * key.to->count, int64_t);
        known = SP_NEW(maker->scratch, struct matrix);
        if (cost == NULL || known == NULL || !sp_hash_set_add(&intra->matrices, hash, known))
            return sp_intra_no_memory(maker->err);
        *known = key;
        known->cost = cost;
        status = fill_matrix(maker, &key, tensor, cost);
    }
    *ret_cost = known->cost;
    return status;
}

enum sp_status sp_intra_add_edge(struct sp_intra_maker *maker, uint32_t u, uint32_t v, const int64_t *cost)
{
    struct sp_intra_edges *edges = &maker->intra->edges;
    if (!SP_MAKE_ROOM(maker->intra->arena, edges->items, edges->count, edges->capacity, 1))
        return sp_intra_no_memory(maker->err);
    edges->items[edges->count++] = (struct sp_choice_edge){u, v, cost};
    return SP_OK;
}

/* ---- edges ------------------------------------------------------------------------------------------------------ */

/* Between two nodes of the problem, or in one: then it is a part of its cost. */
static enum sp_status join(struct sp_intra_maker *maker, uint32_t u, uint32_t v, uint32_t tensor, struct matrix key)
{
    const int64_t *cost;
    enum sp_status status = find_matrix(maker, tensor, key, &cost);
    if (status != SP_OK)
        return status;
    bool is_zero = true;
    for (size_t i = 0; i < (size_t)key.from->count * key.to->count && is_zero; i++)
        is_zero = cost[i] == 0;
    if (is_zero)
        return SP_OK;
    if (u != v)
        return sp_intra_add_edge(maker, u, v, cost);
    for (uint32_t s = 0; s < key.from->count; s++) {
        int64_t sum = maker->intra->member_cost[u][s] + cost[(size_t)s * key.to->count + s];
        maker->intra->member_cost[u][s] = sum < SP_CHOICE_INFINITE ? sum : SP_CHOICE_INFINITE;
    }
    return SP_OK;
}

/* A hub has the layouts in which some strategy makes or wants the tensor; a weight may also be stored whole. */
static enum sp_status make_hub(struct sp_intra_maker *maker, uint32_t index)
{
    struct sp_intra *intra = maker->intra;
    struct sp_intra_group *group = &intra->groups[index];
    uint32_t layouts[SP_MAX_STRATEGIES], count = 1;
    const struct layout_list *list;
    enum sp_status status = SP_OK;
    layouts[0] = 0;
    if (group->producer != SP_INTRA_NONE) {
        const struct sp_intra_member *member = &intra->members[group->producer];
        uint32_t inputs = intra->table->workload->nodes[member->node].node->input_count;
        status = list_of_member(maker, group->producer, inputs + group->output, &list);
        count = status == SP_OK ? unite(count, layouts, list) : count;
    }
    for (uint32_t i = 0; i < group->use_count && status == SP_OK; i++) {
        const struct sp_intra_operand_use *use = &intra->uses[group->first_use + i];
        status = list_of_member(maker, use->member, use->operand, &list);
        count = status == SP_OK ? unite(count, layouts, list) : count;
    }
    if (status == SP_OK)
        status = intern_list(maker, count, layouts, &list);
    if (status != SP_OK)
        return status;
    group->hub = intra->hub_count;
    intra->hubs[intra->hub_count++] = (struct sp_intra_hub){index, list->count, list->layouts};
    return SP_OK;
}

/* Whether the operator that makes a tensor and this one, which uses it, are of one kernel. */
static bool is_inside(const struct sp_intra *intra, const struct sp_intra_operand_use *use)
{
    return sp_work_is_inside(intra->table->workload, intra->table->mesh.kind, use->tensor, intra->nodes[use->position]);
}

/* For some of the users. */
static bool is_any_inside(const struct sp_intra *intra, const struct sp_intra_group *group)
{
    uint32_t i = 0;
    while (i < group->use_count && !is_inside(intra, &intra->uses[group->first_use + i]))
        i++;
    return i < group->use_count;
}

static enum sp_status connect_group(struct sp_intra_maker *maker, const struct sp_intra_group *group)
{
    struct sp_intra *intra = maker->intra;
    const struct layout_list *made = NULL, *kept = NULL;
    uint32_t from = group->producer;
    enum sp_status status = SP_OK;
    if (group->producer != SP_INTRA_NONE) {
        uint32_t inputs = intra->table->workload->nodes[intra->members[from].node].node->input_count;
        status = list_of_member(maker, from, inputs + group->output, &made);
    }
    if (status == SP_OK && group->hub != SP_INTRA_NONE) {
        const struct sp_intra_hub *hub = &intra->hubs[group->hub];
        status = intern_list(maker, hub->layout_count, hub->layouts, &kept);
        if (status == SP_OK && made != NULL)
            status = join(
                maker, from, intra->member_count + group->hub, group->tensor,
                (struct matrix){
                    .from = made, .to = kept, .times = group->tensor_count, .is_inside = is_any_inside(intra, group)});
        from = intra->member_count + group->hub;
        made = kept;
    }
    for (uint32_t i = 0; i < group->use_count && status == SP_OK && made != NULL; i++) {
        const struct sp_intra_operand_use *use = &intra->uses[group->first_use + i];
        const struct layout_list *wanted;
        status = list_of_member(maker, use->member, use->operand, &wanted);
        if (status == SP_OK)
            status = join(maker, from, use->member, group->tensor,
                          (struct matrix){.from = made,
                                          .to = wanted,
                                          .times = use->times,
                                          .is_free = group->is_free,
                                          .is_inside = is_inside(intra, use)});
    }
    return status;
}

/* The next step takes a state in the layout in which this one makes it, wherever in the stage it is used. */
static enum sp_status tie_groups(struct sp_intra_maker *maker, const struct sp_intra_group *made,
                                 const struct sp_intra_group *taken, uint32_t axis)
{
    struct sp_intra *intra = maker->intra;
    const struct sp_workload *workload = intra->table->workload;
    const struct layout_list *from, *to;
    const uint32_t inputs = workload->nodes[intra->members[made->producer].node].node->input_count;
    enum sp_status status = list_of_member(maker, made->producer, inputs + made->output, &from);
    for (uint32_t i = 0; i < taken->use_count && status == SP_OK; i++) {
        const struct sp_intra_operand_use *use = &intra->uses[taken->first_use + i];
        const struct sp_node *node = workload->nodes[intra->members[use->member].node].node;
        if (!sp_work_takes_elements(node))
            continue;
        status = list_of_member(maker, use->member, use->operand, &to);
        if (status == SP_OK)
            status =
                join(maker, made->producer, use->member, taken->tensor,
                     (struct matrix){.from = from, .to = to, .times = 1, .tie = axis == SP_STATE_FIXED ? 1 : 2 + axis});
    }
    return status;
}

static enum sp_status tie_states(struct sp_intra_maker *maker)
{
    struct sp_intra *intra = maker->intra;
    const struct sp_workload *workload = intra->table->workload;
    struct sp_hash_map tied = {.arena = maker->scratch}; /* pairs of groups: repeated blocks have theirs in common */
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; i < workload->state_count && status == SP_OK; i++) {
        const struct sp_work_state *state = &workload->states[i];
        const uint32_t made = intra->group_of[state->present], taken = intra->group_of[state->past];
        if (made == SP_INTRA_NONE || taken == SP_INTRA_NONE || intra->groups[made].producer == SP_INTRA_NONE)
            continue; /* in another stage */
        struct sp_hash_slot *slot = sp_hash_map_put(&tied, (uint64_t)made << 32 | taken);
        if (slot == NULL)
            return sp_intra_no_memory(maker->err);
        if (slot->number == 0)
            status = tie_groups(maker, &intra->groups[made], &intra->groups[taken], state->axis);
        slot->number = 1;
    }
    return status;
}

/* A node takes a weight in one layout in all phases. */
static enum sp_status tie_weight(struct sp_intra_maker *maker, uint32_t member, uint32_t first, uint32_t operand)
{
    struct sp_intra *intra = maker->intra;
    const struct sp_node *node = intra->table->workload->nodes[intra->members[member].node].node;
    const struct layout_list *from, *to;
    enum sp_status status = list_of_member(maker, first, operand, &from);
    if (status == SP_OK)
        status = list_of_member(maker, member, operand, &to);
    return status != SP_OK ? status
                           : join(maker, first, member, node->inputs[operand]->id,
                                  (struct matrix){.from = from, .to = to, .times = 1, .tie = 1});
}

static enum sp_status tie_phases(struct sp_intra_maker *maker)
{
    struct sp_intra *intra = maker->intra;
    const struct sp_workload *workload = intra->table->workload;
    struct sp_hash_map tied = {.arena = maker->scratch}; /* pairs of members */
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; workload->phase_count > 0 && i < intra->entry_count && status == SP_OK; i++) {
        const uint32_t node = intra->nodes[i], first = intra->position_of[sp_work_first_node(workload, node)];
        if (first == i || first == SP_INTRA_NONE)
            continue;
        struct sp_hash_slot *slot =
            sp_hash_map_put(&tied, (uint64_t)intra->member_of[i] << 32 | intra->member_of[first]);
        if (slot == NULL)
            return sp_intra_no_memory(maker->err);
        for (uint32_t o = 0; slot->number == 0 && o < sp_work_operand_count(workload, node) && status == SP_OK; o++)
            if (sp_work_ties_weight(workload, node, o))
                status = tie_weight(maker, intra->member_of[i], intra->member_of[first], o);
        slot->number = 1;
    }
    return status;
}

enum sp_status sp_intra_connect(struct sp_intra_maker *maker)
{
    struct sp_intra *intra = maker->intra;
    enum sp_status status = SP_OK;
    uint32_t hubs = 0;
    for (uint32_t g = 0; g < intra->group_count; g++)
        hubs += intra->groups[g].tensor != SP_INTRA_NONE && intra->groups[g].most_uses > 1;
    intra->hubs = SP_NEW_ARRAY(intra->arena, hubs, struct sp_intra_hub);
    if (intra->hubs == NULL)
        return sp_intra_no_memory(maker->err);
    for (uint32_t g = 0; g < intra->group_count && status == SP_OK; g++)
        if (intra->groups[g].tensor != SP_INTRA_NONE && intra->groups[g].most_uses > 1)
            status = make_hub(maker, g);
    for (uint32_t g = 0; g < intra->group_count && status == SP_OK; g++)
        if (intra->groups[g].tensor != SP_INTRA_NONE)
            status = connect_group(maker, &intra->groups[g]);
    if (status == SP_OK)
        status = tie_states(maker);
    return status == SP_OK ? tie_phases(maker) : status;
}
