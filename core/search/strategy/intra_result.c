/*
 * What a device of a stage does when its nodes have these strategies: counted node by node, as the partition runs them.
 *
 * A tensor is held as it was made and in each layout in which it was brought to a user. What a later user wants in a
 * layout that is there costs nothing; what can be cut out of something that is there costs nothing but its memory; all
 * else is resharded from how the tensor was made. What comes from another stage arrives as its first user wants it.
 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/array.h"
#include "search/strategy/intra_internal.h"

struct buffer {
    double bytes;
    uint32_t tensor, layout; /* as which it came into being */
    uint32_t first, last; /* entries at which it is alive; of what is sent, and of what the caller holds, to the end */
};

struct held {
    struct held *next;
    uint32_t layout, buffer;
};

struct counter {
    struct sp_strategy_table *table;
    const struct sp_workload *workload;
    struct sp_arena *arena, *scratch;
    struct sp_error *err;
    uint32_t node_count;
    const uint32_t *nodes, *strategy_of;
    bool *is_here;      /* per work node */
    struct held **held; /* per tensor: first as it was made */
    uint32_t buffer_count, buffer_capacity;
    struct buffer *buffers;
    struct sp_intra_result *result;
    struct sp_live_bytes *live; /* per entry, or NULL */
    struct sp_alive_list *list; /* of the peak, or NULL */
    double *cuts;               /* per entry, or NULL */
    uint32_t use_capacity;
    struct sp_intra_use *uses;
};

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static enum sp_status new_buffer(struct counter *counter, uint32_t tensor, uint32_t layout, uint32_t entry,
                                 uint32_t *ret_buffer)
{
    if (!SP_MAKE_ROOM(counter->scratch, counter->buffers, counter->buffer_count, counter->buffer_capacity, 1))
        return sp_intra_no_memory(counter->err);
    counter->buffers[counter->buffer_count] =
        (struct buffer){.bytes = sp_strategy_local_bytes(counter->table, tensor, layout),
                        .tensor = tensor,
                        .layout = layout,
                        .first = entry,
                        .last = entry};
    *ret_buffer = counter->buffer_count++;
    return SP_OK;
}

static enum sp_status hold(struct counter *counter, uint32_t tensor, uint32_t layout, uint32_t buffer)
{
    struct held *held = SP_NEW(counter->scratch, struct held), **end = &counter->held[tensor];
    if (held == NULL)
        return sp_intra_no_memory(counter->err);
    *held = (struct held){NULL, layout, buffer};
    while (*end != NULL)
        end = &(*end)->next;
    *end = held;
    return SP_OK;
}

static enum sp_status hold_new(struct counter *counter, uint32_t tensor, uint32_t layout, uint32_t entry,
                               uint32_t *ret_buffer)
{
    enum sp_status status = new_buffer(counter, tensor, layout, entry, ret_buffer);
    return status == SP_OK ? hold(counter, tensor, layout, *ret_buffer) : status;
}

static const struct held *find_held(const struct counter *counter, uint32_t tensor, uint32_t layout)
{
    const struct held *held = counter->held[tensor];
    while (held != NULL && held->layout != layout)
        held = held->next;
    return held;
}

/* ---- uses ------------------------------------------------------------------------------------------------------- */

static enum sp_status add_use(struct counter *counter, const struct sp_intra_use *use)
{
    struct sp_intra_result *result = counter->result;
    result->communication_seconds += use->seconds;
    result->communication_bytes += use->bytes;
    if (!SP_MAKE_ROOM(counter->scratch, counter->uses, result->use_count, counter->use_capacity, 1))
        return sp_intra_no_memory(counter->err);
    counter->uses[result->use_count++] = *use;
    return SP_OK;
}

/* A weight is there once in each layout that is used; one under several names is one where it is whole. What one node
   alone uses is in its strategy's bytes. */
static enum sp_status use_weight(struct counter *counter, uint32_t tensor, uint32_t layout)
{
    uint32_t root = sp_work_root(counter->workload, tensor), name = layout == 0 ? root : tensor;
    double whole = counter->workload->tensors[tensor].bytes, share = 1;
    if (counter->table->is_own_weight[tensor] || find_held(counter, name, layout) != NULL)
        return SP_OK;
    if (layout != 0 && whole > 0)
        share = sp_strategy_local_bytes(counter->table, tensor, layout) / whole;
    counter->result->weight_bytes += counter->workload->tensors[root].bytes * share;
    return hold(counter, name, layout, 0);
}

/* The node of an entry takes more: its kernel is cut at a tensor. */
static void cut_kernel(struct counter *counter, uint32_t entry, uint32_t tensor, uint32_t layout, enum sp_cut_side side)
{
    const double seconds = sp_work_times(counter->workload, counter->workload->tensors[tensor].phase) *
                           sp_strategy_cut_seconds(counter->table, tensor, layout, side);
    counter->result->compute_seconds += seconds;
    if (counter->cuts != NULL)
        counter->cuts[entry] += seconds;
}

/* What comes from outside, for the first time: in the layout that is wanted. */
static enum sp_status receive(struct counter *counter, uint32_t tensor, uint32_t layout, uint32_t entry,
                              uint32_t *ret_buffer)
{
    uint32_t root = sp_work_root(counter->workload, tensor);
    if (sp_work_is_inside(counter->workload, counter->table->mesh.kind, tensor, counter->nodes[entry]))
        cut_kernel(counter, entry, tensor, layout, SP_CUT_BEHIND);
    if (root != tensor && counter->held[root] != NULL) { /* another name of something that is there */
        *ret_buffer = counter->held[root]->buffer;
        return hold(counter, tensor, layout, *ret_buffer);
    }
    enum sp_status status = hold_new(counter, tensor, layout, entry, ret_buffer);
    return status == SP_OK && root != tensor ? hold(counter, root, layout, *ret_buffer) : status;
}

static void use_buffer(struct counter *counter, uint32_t buffer, uint32_t entry)
{
    assert(counter->buffers); /* what is held is in one */
    if (counter->buffers[buffer].last != SP_LIVE_OUTSIDE)
        counter->buffers[buffer].last = entry;
}

/* Brings a tensor that is there in other layouts. */
static enum sp_status bring(struct counter *counter, uint32_t tensor, uint32_t layout, uint32_t entry,
                            uint32_t *ret_buffer)
{
    const struct held *from = NULL;
    struct sp_intra_use use = {tensor, counter->nodes[entry], 0, layout, 0, 0};
    enum sp_status status = SP_OK;
    for (const struct held *held = counter->held[tensor]; held != NULL && from == NULL; held = held->next)
        if (sp_strategy_reshard(counter->table, tensor, held->layout, layout, &use.bytes) == 0)
            from = held; /* cut out of it */
    if (from == NULL) {
        from = counter->held[tensor];
        if (from == NULL)
            return sp_fail(counter->err, SP_ERR_INTERNAL, "TENSOR_NOT_THERE", "A tensor is used before it is made.");
        use.from = from->layout;
        const double times = sp_work_times(counter->workload, counter->workload->tensors[tensor].phase);
        use.seconds = times * sp_strategy_reshard(counter->table, tensor, from->layout, layout, &use.bytes);
        use.bytes *= times;
        if (sp_work_is_inside(counter->workload, counter->table->mesh.kind, tensor, use.node))
            cut_kernel(counter, entry, tensor, layout, SP_CUT_BOTH);
        status = add_use(counter, &use);
    }
    use_buffer(counter, from->buffer, entry);
    return status == SP_OK ? hold_new(counter, tensor, layout, entry, ret_buffer) : status;
}

/* A use of an activation; *ret_buffer is what the node reads, SP_INTRA_NONE for a weight. */
static enum sp_status use_tensor(struct counter *counter, uint32_t tensor, uint32_t layout, uint32_t entry,
                                 uint32_t *ret_buffer)
{
    const struct sp_workload *workload = counter->workload;
    const struct held *held = find_held(counter, tensor, layout);
    bool is_input = workload->tensors[tensor].kind == SP_WORK_INPUT;
    enum sp_status status = SP_OK;
    *ret_buffer = SP_INTRA_NONE;
    if (workload->tensors[sp_work_root(workload, tensor)].kind == SP_WORK_WEIGHT)
        return use_weight(counter, tensor, layout);
    if (held != NULL)
        *ret_buffer = held->buffer;
    else if (counter->held[tensor] == NULL || is_input) /* a model input is fed in every layout that is wanted */
        status = receive(counter, tensor, layout, entry, ret_buffer);
    else
        status = bring(counter, tensor, layout, entry, ret_buffer);
    if (status != SP_OK)
        return status;
    use_buffer(counter, *ret_buffer, entry);
    if (is_input) /* there before the stage runs, also where another name of it was used first */
        counter->buffers[*ret_buffer].first = 0;
    if (sp_work_is_held(&workload->tensors[tensor], false))
        counter->buffers[*ret_buffer].last = SP_LIVE_OUTSIDE;
    return SP_OK;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------ */

static bool leaves_stage(const struct counter *counter, const struct sp_work_tensor *tensor)
{
    if (sp_work_is_held(tensor, true))
        return true;
    for (uint32_t i = 0; i < tensor->consumer_count; i++)
        if (!counter->is_here[tensor->consumers[i]])
            return true;
    return false;
}

/* A kernel that goes on in another stage writes what it would have handed on. */
static bool is_cut_behind(const struct counter *counter, uint32_t tensor)
{
    const struct sp_work_tensor *work = &counter->workload->tensors[tensor];
    for (uint32_t i = 0; i < work->consumer_count; i++)
        if (!counter->is_here[work->consumers[i]] &&
            sp_work_is_inside(counter->workload, counter->table->mesh.kind, tensor, work->consumers[i]))
            return true;
    return false;
}

static enum sp_status make_output(struct counter *counter, uint32_t entry, uint32_t tensor, uint32_t layout,
                                  uint32_t source)
{
    const struct sp_work_tensor *work = &counter->workload->tensors[tensor];
    uint32_t buffer = source;
    enum sp_status status;
    if (counter->workload->tensors[sp_work_root(counter->workload, tensor)].kind == SP_WORK_WEIGHT)
        return SP_OK;
    if (is_cut_behind(counter, tensor))
        cut_kernel(counter, entry, tensor, layout, SP_CUT_BEFORE);
    if (source != SP_INTRA_NONE)
        status = hold(counter, tensor, layout, source);
    else
        status = hold_new(counter, tensor, layout, entry, &buffer);
    if (status == SP_OK && leaves_stage(counter, work))
        counter->buffers[buffer].last = SP_LIVE_OUTSIDE;
    return status;
}

static enum sp_status run_node(struct counter *counter, uint32_t entry)
{
    const struct sp_work_node *work = &counter->workload->nodes[counter->nodes[entry]];
    const struct sp_strategies *strategies = sp_strategy_of(counter->table, counter->nodes[entry]);
    const struct sp_strategy *strategy = &strategies->items[counter->strategy_of[entry]];
    const struct sp_node *node = work->node;
    struct sp_intra_result *result = counter->result;
    enum sp_status status = SP_OK;
    uint32_t first = SP_INTRA_NONE, buffer;
    result->compute_seconds += strategy->compute_seconds;
    result->communication_seconds += strategy->communication_seconds;
    result->communication_bytes += strategy->communication_bytes;
    result->weight_bytes +=
        sp_strategy_weight_bytes(counter->table, counter->nodes[entry], counter->strategy_of[entry]);
    result->resident_bytes +=
        sp_strategy_resident_bytes(counter->table, counter->nodes[entry], counter->strategy_of[entry]);
    for (uint32_t i = 0; i < node->input_count && status == SP_OK; i++) {
        if (node->inputs[i] == NULL)
            continue;
        status = use_tensor(counter, node->inputs[i]->id, strategy->layouts[i], entry, &buffer);
        if (i == 0)
            first = buffer;
    }
    for (uint32_t i = 0; i < work->input_count && status == SP_OK; i++)
        if (sp_strategy_operand(counter->table, counter->nodes[entry], work->inputs[i]) == UINT32_MAX)
            status = use_tensor(counter, work->inputs[i], 0, entry, &buffer);
    for (uint32_t i = 0; i < node->output_count && status == SP_OK; i++) {
        if (node->outputs[i] == NULL)
            continue;
        uint32_t tensor = node->outputs[i]->id;
        bool is_alias = counter->workload->tensors[tensor].alias_of != SP_NO_WORK;
        status = make_output(counter, entry, tensor, strategy->layouts[node->input_count + i],
                             is_alias ? first : SP_INTRA_NONE);
    }
    return status;
}

/* When a buffer takes memory, if it does. */
static bool is_alive(const struct counter *counter, const struct buffer *buffer, uint32_t *first, uint32_t *last)
{
    return sp_work_phase_life(counter->workload, counter->node_count, counter->nodes,
                              sp_work_root(counter->workload, buffer->tensor), first, last);
}

/* What is alive while the node of an entry runs. */
static enum sp_status list_alive(struct counter *counter, uint32_t entry)
{
    struct sp_alive_list *list = counter->list;
    *list = (struct sp_alive_list){.node = SP_NO_WORK};
    if (counter->node_count == 0)
        return SP_OK;
    list->node = counter->nodes[entry];
    list->workspace_bytes =
        sp_strategy_of(counter->table, list->node)->items[counter->strategy_of[entry]].workspace_bytes;
    list->items = SP_NEW_ARRAY(counter->arena, counter->buffer_count, struct sp_alive);
    if (list->items == NULL)
        return sp_intra_no_memory(counter->err);
    for (uint32_t b = 0; b < counter->buffer_count; b++) {
        const struct buffer *buffer = &counter->buffers[b];
        uint32_t first = buffer->first, last = buffer->last;
        if (is_alive(counter, buffer, &first, &last) && first <= entry && last >= entry)
            list->items[list->count++] = (struct sp_alive){buffer->tensor, buffer->layout, buffer->bytes};
    }
    return SP_OK;
}

/* The largest sum of what is alive, and where. */
static enum sp_status find_peak(struct counter *counter)
{
    struct sp_intra_result *result = counter->result;
    struct sp_live live;
    uint32_t peak = 0;
    if (!sp_live_init(&live, counter->scratch, counter->node_count))
        return sp_intra_no_memory(counter->err);
    for (uint32_t b = 0; b < counter->buffer_count; b++) {
        uint32_t first = counter->buffers[b].first, last = counter->buffers[b].last;
        if (is_alive(counter, &counter->buffers[b], &first, &last))
            sp_live_add(&live, first, last, counter->buffers[b].bytes);
    }
    for (uint32_t i = 0; i < counter->node_count; i++) {
        const struct sp_strategies *strategies = sp_strategy_of(counter->table, counter->nodes[i]);
        const double before = live.peak;
        const struct sp_live_bytes at =
            sp_live_step(&live, i, strategies->items[counter->strategy_of[i]].workspace_bytes);
        peak = live.peak > before ? i : peak;
        if (counter->live != NULL)
            counter->live[i] = at;
    }
    result->activation_peak_bytes = live.peak;
    result->peak_node = counter->node_count > 0 ? counter->nodes[peak] : SP_NO_WORK;
    return counter->list != NULL ? list_alive(counter, peak) : SP_OK;
}

static enum sp_status count_all(struct counter *counter)
{
    const struct sp_workload *workload = counter->workload;
    struct sp_intra_result *result = counter->result;
    enum sp_status status = SP_OK;
    counter->is_here = SP_NEW_ARRAY(counter->scratch, workload->node_count, bool);
    counter->held = SP_NEW_ARRAY(counter->scratch, workload->tensor_count, struct held *);
    if (counter->is_here == NULL || counter->held == NULL)
        return sp_intra_no_memory(counter->err);
    for (uint32_t i = 0; i < counter->node_count; i++)
        counter->is_here[counter->nodes[i]] = true;
    for (uint32_t i = 0; i < counter->node_count && status == SP_OK; i++) {
        const struct sp_strategies *strategies = sp_strategy_of(counter->table, counter->nodes[i]);
        if (strategies == NULL || counter->strategy_of[i] >= strategies->count)
            return sp_fail(counter->err, SP_ERR_INTERNAL, "STRATEGY_UNKNOWN",
                           "A node of a stage has no such strategy.");
        status = run_node(counter, i);
    }
    if (status == SP_OK)
        status = find_peak(counter);
    if (status != SP_OK || result->use_count == 0)
        return status;
    struct sp_intra_use *uses = SP_NEW_ARRAY(counter->arena, result->use_count, struct sp_intra_use);
    if (uses == NULL)
        return sp_intra_no_memory(counter->err);
    assert(counter->uses);
    memcpy(uses, counter->uses, result->use_count * sizeof *uses);
    result->uses = uses;
    return SP_OK;
}

/* What is asked of a stage: `live`, `list` and `cuts` where they are not NULL, and always the result. */
struct counted {
    struct sp_live_bytes *live;
    struct sp_alive_list *list;
    double *cuts;
    struct sp_intra_result *result;
};

static enum sp_status evaluate(struct sp_arena *arena, struct sp_strategy_table *table, uint32_t node_count,
                               const uint32_t *nodes, const uint32_t *strategy_of, struct counted *counted,
                               struct sp_error *err)
{
    struct sp_intra_result *result = SP_NEW(arena, struct sp_intra_result);
    uint32_t *copy = SP_NEW_ARRAY(arena, node_count, uint32_t);
    struct sp_arena_mark mark = sp_arena_mark(table->scratch);
    if (result == NULL || copy == NULL)
        return sp_intra_no_memory(err);
    struct counter counter = {.table = table,
                              .workload = table->workload,
                              .arena = arena,
                              .scratch = table->scratch,
                              .err = err,
                              .node_count = node_count,
                              .nodes = nodes,
                              .strategy_of = copy,
                              .result = result,
                              .live = counted->live,
                              .list = counted->list,
                              .cuts = counted->cuts};
    if (node_count > 0)
        memcpy(copy, strategy_of, node_count * sizeof *copy);
    result->node_count = node_count;
    result->strategy_of = copy;
    enum sp_status status = count_all(&counter);
    sp_arena_rewind(table->scratch, mark);
    counted->result = result;
    return status;
}

enum sp_status sp_intra_evaluate(struct sp_arena *arena, struct sp_strategy_table *table, uint32_t node_count,
                                 const uint32_t *nodes, const uint32_t *strategy_of,
                                 struct sp_intra_result **ret_result, struct sp_error *err)
{
    struct counted counted = {0};
    enum sp_status status = evaluate(arena, table, node_count, nodes, strategy_of, &counted, err);
    if (status == SP_OK)
        *ret_result = counted.result;
    return status;
}

enum sp_status sp_intra_live(struct sp_arena *scratch, struct sp_strategy_table *table, uint32_t node_count,
                             const uint32_t *nodes, const uint32_t *strategy_of, struct sp_live_bytes *ret_live,
                             struct sp_error *err)
{
    struct sp_arena_mark mark = sp_arena_mark(scratch);
    enum sp_status status =
        evaluate(scratch, table, node_count, nodes, strategy_of, &(struct counted){.live = ret_live}, err);
    sp_arena_rewind(scratch, mark);
    return status;
}

enum sp_status sp_intra_cuts(struct sp_arena *scratch, struct sp_strategy_table *table, uint32_t node_count,
                             const uint32_t *nodes, const uint32_t *strategy_of, double *ret_seconds,
                             struct sp_error *err)
{
    struct sp_arena_mark mark = sp_arena_mark(scratch);
    for (uint32_t i = 0; i < node_count; i++)
        ret_seconds[i] = 0;
    enum sp_status status =
        evaluate(scratch, table, node_count, nodes, strategy_of, &(struct counted){.cuts = ret_seconds}, err);
    sp_arena_rewind(scratch, mark);
    return status;
}

enum sp_status sp_intra_peak(struct sp_arena *arena, struct sp_strategy_table *table, uint32_t node_count,
                             const uint32_t *nodes, const uint32_t *strategy_of, struct sp_alive_list *ret_list,
                             struct sp_error *err)
{
    return evaluate(arena, table, node_count, nodes, strategy_of, &(struct counted){.list = ret_list}, err);
}

enum sp_status sp_intra_result(struct sp_arena *arena, const struct sp_intra *intra, const uint32_t *choice,
                               struct sp_intra_result **ret_result, struct sp_error *err)
{
    uint32_t *strategy_of = SP_NEW_ARRAY(arena, intra->entry_count, uint32_t);
    if (strategy_of == NULL)
        return sp_intra_no_memory(err);
    for (uint32_t i = 0; i < intra->entry_count; i++)
        strategy_of[i] = choice[intra->member_of[i]];
    return sp_intra_evaluate(arena, intra->table, intra->entry_count, intra->nodes, strategy_of, ret_result, err);
}

/* ---- a choice from strategies ----------------------------------------------------------------------------------- */

/* Adds the costs of an edge to those of each layout of the hub on one side of it. */
static void add_to_hub(const struct sp_intra *intra, const struct sp_choice_edge *edge, const uint32_t *choice,
                       int64_t *const *sums)
{
    uint32_t members = intra->member_count, hubs = members + intra->hub_count;
    bool u_is_hub = edge->u >= members && edge->u < hubs, v_is_hub = edge->v >= members && edge->v < hubs;
    uint32_t width = sp_intra_strategy_count(intra, edge->v);
    if (u_is_hub == v_is_hub)
        return;
    uint32_t hub = u_is_hub ? edge->u : edge->v;
    for (uint32_t s = 0; s < intra->hubs[hub - members].layout_count; s++) {
        int64_t cost = u_is_hub ? edge->cost[(size_t)s * width + choice[edge->v]]
                                : edge->cost[(size_t)choice[edge->u] * width + s];
        if (__builtin_add_overflow(sums[hub - members][s], cost, &sums[hub - members][s]))
            sums[hub - members][s] = INT64_MAX;
    }
}

enum sp_status sp_intra_choice(struct sp_arena *arena, const struct sp_intra *intra, const uint32_t *strategy_of,
                               uint32_t **ret_choice, struct sp_error *err)
{
    uint32_t *choice = SP_NEW_ARRAY(arena, intra->problem.node_count, uint32_t);
    int64_t **sums = SP_NEW_ARRAY(arena, intra->hub_count, int64_t *);
    if (choice == NULL || sums == NULL)
        return sp_intra_no_memory(err);
    for (uint32_t m = 0; m < intra->member_count; m++)
        choice[m] = strategy_of[intra->members[m].entry];
    for (uint32_t h = 0; h < intra->hub_count; h++) {
        sums[h] = SP_NEW_ARRAY(arena, intra->hubs[h].layout_count, int64_t);
        if (sums[h] == NULL)
            return sp_intra_no_memory(err);
    }
    for (uint32_t e = 0; e < intra->problem.edge_count; e++)
        add_to_hub(intra, &intra->problem.edges[e], choice, sums);
    for (uint32_t h = 0; h < intra->hub_count; h++)
        for (uint32_t s = 1; s < intra->hubs[h].layout_count; s++)
            if (sums[h][s] < sums[h][choice[intra->member_count + h]])
                choice[intra->member_count + h] = s;
    for (uint32_t s = 0; s < intra->shadow_count; s++)
        choice[intra->member_count + intra->hub_count + s] = intra->shadows[s].strategy[choice[intra->shadows[s].of]];
    *ret_choice = choice;
    return SP_OK;
}
