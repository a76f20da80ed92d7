#include "cost/workload.h"

#include "base/rows.h"
#include "cost/kernel_work.h"
#include "cost/kernels/body_memory.h"
#include "cost/workload_internal.h"
#include "ops/bodies/captures.h"
#include "ops/bodies/control.h"
#include "ops/table/op.h"

#define TICK_NODES 1024 /* nodes between two looks at the watch */

/* ---- kinds ---------------------------------------------------------------------------------------------------- */

static bool same_kernels(const struct sp_device *a, const struct sp_device *b)
{
    const struct sp_device_prefill *p = &a->prefill, *q = &b->prefill;
    const struct sp_device_decode *d = &a->decode, *e = &b->decode;
    for (int dtype = 0; dtype < SP_DTYPE_COUNT; dtype++) {
        const struct sp_device_product *m = &a->products[dtype], *n = &b->products[dtype];
        if (m->start_seconds != n->start_seconds || m->flops_share != n->flops_share ||
            m->memory_share != n->memory_share)
            return false;
    }
    return p->start_seconds == q->start_seconds && p->flops_share == q->flops_share &&
           p->memory_share == q->memory_share && p->half_queries == q->half_queries &&
           d->start_seconds == e->start_seconds && d->memory_share == e->memory_share && d->tile_keys == e->tile_keys &&
           a->other.start_seconds == b->other.start_seconds && a->other.memory_share == b->other.memory_share &&
           a->units == b->units && a->kind == b->kind && a->runtime == b->runtime &&
           a->names_runtime == b->names_runtime;
}

static bool same_figures(const struct sp_device *a, const struct sp_device *b)
{
    if (!same_kernels(a, b))
        return false;
    if (a->memory_bandwidth != b->memory_bandwidth || a->permuted_bandwidth != b->permuted_bandwidth ||
        a->functions_per_second != b->functions_per_second || a->unhidden != b->unhidden)
        return false;
    for (int dtype = 0; dtype < SP_DTYPE_COUNT; dtype++) {
        if (a->flops[dtype] != b->flops[dtype])
            return false;
    }
    return true;
}

/* Numbers the kinds in the order of the groups; *ret_devices holds one device of each. */
static bool number_kinds(struct sp_workload *workload, const struct sp_cluster *cluster,
                         const struct sp_device ***ret_devices)
{
    uint32_t *kind_of_group = SP_NEW_ARRAY(workload->arena, cluster->group_count, uint32_t);
    const struct sp_device **devices = SP_NEW_ARRAY(workload->arena, cluster->group_count, const struct sp_device *);

    workload->kind_of = SP_NEW_ARRAY(workload->arena, cluster->device_count, uint32_t);
    if (kind_of_group == NULL || devices == NULL || workload->kind_of == NULL)
        return false;
    for (uint32_t group = 0; group < cluster->group_count; group++) {
        uint32_t kind = 0;
        while (kind < workload->kind_count && !same_figures(devices[kind], &cluster->groups[group].device))
            kind++;
        if (kind == workload->kind_count)
            devices[workload->kind_count++] = &cluster->groups[group].device;
        kind_of_group[group] = kind;
    }
    for (uint32_t device = 0; device < cluster->device_count; device++)
        workload->kind_of[device] = kind_of_group[cluster->group_of[device]];
    *ret_devices = devices;
    return true;
}

/* ---- names ---------------------------------------------------------------------------------------------------- */

/*
 * A name that ends in the node's number, so it differs from all other made-up ones, and that no node has. The loop
 * ends: each attempt but the last finds another name of the model.
 */
static const char *make_name(struct sp_arena *arena, const struct sp_intern *taken, const struct sp_node *node)
{
    char base[SP_WORKLOAD_TEXT_SIZE];
    char *name;

    (void)sp_workload_shorten(node->name[0] != '\0' ? node->name : node->op_type, base, sizeof base);
    name = sp_arena_printf(arena, "%s_%u", base, node->index);
    for (uint32_t attempt = 1; name != NULL && sp_intern_find(taken, name, strlen(name)) != SP_NO_NAME; attempt++)
        name = sp_arena_printf(arena, "%s_%u_%u", base, attempt, node->index);
    return name;
}

/* The first node of a name keeps it. */
static bool keep_names(struct sp_workload *workload, const struct sp_model *model, struct sp_intern *taken)
{
    for (uint32_t i = 0; i < workload->node_count; i++) {
        const char *name = model->graph->nodes[i].name;
        uint32_t count = sp_intern_count(taken), id = sp_intern_add(taken, name, strlen(name));
        if (id == SP_NO_NAME)
            return false;
        if (name[0] != '\0' && id == count)
            workload->nodes[i].name = name;
    }
    return true;
}

static bool name_nodes(struct sp_workload *workload, const struct sp_model *model)
{
    struct sp_arena *scratch = sp_arena_create(sp_arena_budget(workload->arena));
    struct sp_intern *taken = scratch == NULL ? NULL : sp_intern_create(scratch, model->hash_seed);
    bool ok = taken != NULL && keep_names(workload, model, taken);

    for (uint32_t i = 0; ok && i < workload->node_count; i++) {
        if (workload->nodes[i].name == NULL)
            workload->nodes[i].name = make_name(workload->arena, taken, &model->graph->nodes[i]);
        ok = workload->nodes[i].name != NULL;
    }
    sp_arena_destroy(scratch);
    return ok;
}

/* ---- the graph ------------------------------------------------------------------------------------------------ */

static void fill_tensors(struct sp_workload *workload, const struct sp_graph *graph)
{
    for (uint32_t i = 0; i < graph->value_count; i++) {
        const struct sp_value *value = graph->values[i];
        struct sp_work_tensor *tensor = &workload->tensors[i];
        bool constant = value->tensor != NULL || value->sparse != NULL;
        tensor->name = value->name;
        tensor->value = value;
        tensor->producer = value->producer == NULL ? SP_NO_WORK : value->producer->index;
        tensor->alias_of = SP_NO_WORK;
        tensor->is_output = value->is_graph_output;
        if (constant || (value->producer != NULL && sp_inner_is_folded(value->producer)))
            tensor->kind = SP_WORK_WEIGHT;
        else
            tensor->kind = value->producer == NULL ? SP_WORK_INPUT : SP_WORK_ACTIVATION;
    }
}

/* Values that subgraphs use by name, by the node that holds the subgraph. */
static bool find_outer_uses(struct sp_arena *arena, const struct sp_graph *graph, struct sp_rows *uses)
{
    if (!sp_rows_begin(arena, graph->node_count, uses))
        return false;
    for (uint32_t i = 0; i < graph->value_count; i++)
        for (uint32_t j = 0; j < graph->values[i]->use_count; j++)
            if (graph->values[i]->uses[j].input == UINT32_MAX)
                sp_rows_count(uses, graph->values[i]->uses[j].node->index);
    if (!sp_rows_end_count(arena, graph->node_count, uses))
        return false;
    for (uint32_t i = 0; i < graph->value_count; i++)
        for (uint32_t j = 0; j < graph->values[i]->use_count; j++)
            if (graph->values[i]->uses[j].input == UINT32_MAX)
                sp_rows_put(uses, graph->values[i]->uses[j].node->index, i);
    return true;
}

/* Upper bound of all operands; they share one array. */
static size_t count_operands(const struct sp_graph *graph)
{
    size_t total = 0;
    for (uint32_t n = 0; n < graph->node_count; n++)
        total += (size_t)graph->nodes[n].input_count + graph->nodes[n].output_count;
    for (uint32_t i = 0; i < graph->value_count; i++) {
        for (uint32_t j = 0; j < graph->values[i]->use_count; j++)
            total += graph->values[i]->uses[j].input == UINT32_MAX;
    }
    return total;
}

/* Marks what the branch of an If that runs alone uses by name. */
static bool find_taken(struct sp_arena *arena, const struct sp_node *node, uint32_t *taken)
{
    uint32_t count = 0;
    const struct sp_value **values = NULL;
    struct sp_arena_mark mark = sp_arena_mark(arena);
    if (!sp_captured(arena, node, &count, &values))
        return false;
    for (uint32_t i = 0; i < count; i++)
        taken[values[i]->id] = node->index + 1;
    sp_arena_rewind(arena, mark);
    return true;
}

static bool fill_nodes(struct sp_workload *workload, const struct sp_graph *graph)
{
    uint32_t *pool = SP_NEW_ARRAY(workload->arena, count_operands(graph), uint32_t);
    struct sp_arena_mark mark = sp_arena_mark(workload->arena);
    uint32_t *seen = SP_NEW_ARRAY(workload->arena, graph->value_count, uint32_t);  /* value -> last node + 1 */
    uint32_t *taken = SP_NEW_ARRAY(workload->arena, graph->value_count, uint32_t); /* likewise: used by its branch */
    struct sp_rows outer;

    if (pool == NULL || seen == NULL || taken == NULL || !find_outer_uses(workload->arena, graph, &outer))
        return false;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct sp_node *node = &graph->nodes[n];
        struct sp_work_node *work = &workload->nodes[n];
        work->node = node;
        work->folded = sp_inner_is_folded(node);
        work->inputs = pool;
        const bool has_branch = sp_control_branch(node) != NULL;
        if (has_branch && !find_taken(workload->arena, node, taken))
            return false;
        for (uint32_t i = has_branch ? 1 : 0; i < node->input_count; i++) { /* behind a condition that is known */
            if (node->inputs[i] != NULL && seen[node->inputs[i]->id] != n + 1) {
                seen[node->inputs[i]->id] = n + 1;
                *pool++ = node->inputs[i]->id;
            }
        }
        for (uint32_t i = outer.start[n]; i < outer.start[n + 1]; i++) {
            if (seen[outer.items[i]] != n + 1 && (!has_branch || taken[outer.items[i]] == n + 1)) {
                seen[outer.items[i]] = n + 1;
                *pool++ = outer.items[i];
            }
        }
        work->input_count = (uint32_t)(pool - work->inputs);
        work->outputs = pool;
        for (uint32_t i = 0; i < node->output_count; i++) {
            if (node->outputs[i] != NULL)
                *pool++ = node->outputs[i]->id;
        }
        work->output_count = (uint32_t)(pool - work->outputs);
    }
    sp_arena_rewind(workload->arena, mark);
    return true;
}

static bool fill_consumers(struct sp_workload *workload)
{
    size_t total = 0;
    uint32_t *pool;

    for (uint32_t n = 0; n < workload->node_count; n++) {
        const struct sp_work_node *node = &workload->nodes[n];
        for (uint32_t i = 0; !node->folded && i < node->input_count; i++)
            workload->tensors[node->inputs[i]].consumer_count++;
    }
    for (uint32_t t = 0; t < workload->tensor_count; t++)
        total += workload->tensors[t].consumer_count;
    pool = SP_NEW_ARRAY(workload->arena, total, uint32_t);
    if (pool == NULL)
        return false;
    for (uint32_t t = 0; t < workload->tensor_count; t++) {
        workload->tensors[t].consumers = pool;
        pool += workload->tensors[t].consumer_count;
        workload->tensors[t].consumer_count = 0;
    }
    for (uint32_t n = 0; n < workload->node_count; n++) {
        const struct sp_work_node *node = &workload->nodes[n];
        for (uint32_t i = 0; !node->folded && i < node->input_count; i++) {
            struct sp_work_tensor *tensor = &workload->tensors[node->inputs[i]];
            tensor->consumers[tensor->consumer_count++] = n;
        }
    }
    return true;
}

static bool is_dequantized_constant(const struct sp_node *node)
{
    return node->is_folded && node->op != NULL && (node->op->flags & SP_OP_DEQUANTIZES) != 0 &&
           node->inputs[0] != NULL && node->outputs[0] != NULL && node->outputs[0]->stored_bits > 0;
}

/* A constant that is dequantised several times is there once, as the first of the results. `first`: per tensor, 1 + it.
 */
static void share_constant(struct sp_workload *workload, const struct sp_node *node, uint32_t *first)
{
    uint32_t *known = &first[node->inputs[0]->id];
    if (*known == 0)
        *known = node->outputs[0]->id + 1;
    else
        workload->tensors[node->outputs[0]->id].alias_of = *known - 1;
}

static bool find_aliases(struct sp_workload *workload)
{
    const struct sp_arena_mark mark = sp_arena_mark(workload->arena);
    uint32_t *first = SP_NEW_ARRAY(workload->arena, workload->tensor_count, uint32_t);

    if (first == NULL)
        return false;
    for (uint32_t n = 0; n < workload->node_count; n++) {
        const struct sp_node *node = workload->nodes[n].node;
        struct sp_work_tensor *view;
        uint32_t root;
        if (is_dequantized_constant(node))
            share_constant(workload, node, first);
        if (!sp_inner_is_view(node))
            continue;
        root = node->inputs[0]->id;
        if (workload->tensors[root].alias_of != SP_NO_WORK)
            root = workload->tensors[root].alias_of;
        view = &workload->tensors[node->outputs[0]->id];
        if (workload->nodes[n].folded && workload->tensors[root].kind != SP_WORK_WEIGHT)
            continue; /* known without running: a constant of its own */
        view->alias_of = root;
        if (workload->tensors[root].kind == SP_WORK_WEIGHT)
            view->kind = SP_WORK_WEIGHT;
    }
    sp_arena_rewind(workload->arena, mark);
    return true;
}

/* What continues a cache is the cache, where all runtimes have both in one buffer (cost/kernel_work.h). */
static enum sp_status join_caches(struct sp_workload *workload, struct sp_model *model,
                                  const struct sp_cluster *cluster, struct sp_error *err)
{
    for (uint32_t g = 0; g < cluster->group_count; g++)
        if (sp_device_runtime(&cluster->groups[g].device)->caches != SP_CACHES_IN_ONE_BUFFER)
            return SP_OK;
    for (uint32_t n = 0; n < workload->node_count; n++) {
        struct sp_node *node = &model->graph->nodes[n];
        const struct sp_arena_mark mark = sp_arena_mark(workload->arena);
        struct sp_rule *rule;
        bool has_input = false;
        for (uint32_t i = 0; i < node->input_count; i++)
            has_input =
                has_input || (node->inputs[i] != NULL &&
                              workload->tensors[sp_work_root(workload, node->inputs[i]->id)].kind == SP_WORK_INPUT);
        if (!has_input || node->op == NULL || workload->nodes[n].folded || sp_inner_is_view(node))
            continue;
        enum sp_status status = sp_op_rule(model, node, workload->arena, &rule, err);
        if (status != SP_OK)
            return status;
        for (uint32_t o = 0; o < rule->output_count; o++) {
            const uint32_t past = rule->outputs[o].past_of;
            if (past != 0 && node->outputs[o] != NULL && sp_cache_is_own(node, past - 1, o))
                workload->tensors[node->outputs[o]->id].alias_of = sp_work_root(workload, node->inputs[past - 1]->id);
        }
        sp_arena_rewind(workload->arena, mark);
    }
    for (uint32_t t = 0; t < workload->tensor_count; t++) { /* views of what is another's now */
        struct sp_work_tensor *tensor = &workload->tensors[t];
        while (tensor->alias_of != SP_NO_WORK && workload->tensors[tensor->alias_of].alias_of != SP_NO_WORK)
            tensor->alias_of = workload->tensors[tensor->alias_of].alias_of;
    }
    return SP_OK;
}

/* A buffer that a cache shares with what continues it has room for all of that. */
static void grow_caches(struct sp_workload *workload)
{
    for (uint32_t t = 0; t < workload->tensor_count; t++) {
        const struct sp_work_tensor *present = &workload->tensors[t];
        if (present->alias_of == SP_NO_WORK || present->producer == SP_NO_WORK ||
            sp_inner_is_view(workload->nodes[present->producer].node))
            continue;
        struct sp_work_tensor *past = &workload->tensors[present->alias_of];
        if (past->kind == SP_WORK_INPUT && present->bytes > past->bytes)
            past->bytes = present->bytes;
    }
}

bool sp_work_takes_elements(const struct sp_node *node)
{
    return node->op == NULL || (node->op->flags & SP_OP_METADATA) == 0;
}

/* What a loop hands on. A state that nothing looks at but for its shape, or that the step hands on as it is, moves by
   itself. */
static enum sp_status find_states(struct sp_workload *workload, const struct sp_model *model, struct sp_error *err)
{
    struct sp_states found;
    enum sp_status status = sp_model_states(workload->arena, model, &found, err);
    if (status != SP_OK || found.count == 0)
        return status;
    struct sp_work_state *states = SP_NEW_ARRAY(workload->arena, found.count, struct sp_work_state);
    if (states == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < found.count; i++) {
        const struct sp_state *state = &found.items[i];
        const uint32_t past = state->past->id, present = state->present->id;
        const uint32_t producer =
            state->present->graph == model->graph ? workload->tensors[present].producer : SP_NO_WORK;
        if (producer != SP_NO_WORK && !workload->nodes[producer].folded && workload->tensors[past].consumer_count > 0)
            states[workload->state_count++] = (struct sp_work_state){past, present, state->axis};
    }
    workload->states = states;
    return SP_OK;
}

/* ---- the work ------------------------------------------------------------------------------------------------- */

static enum sp_status cost_nodes(struct sp_workload *workload, struct sp_model *model,
                                 const struct sp_timed_devices *devices, const struct sp_watch *watch,
                                 struct sp_error *err)
{
    size_t kind_count = devices->count;
    double *times = SP_NEW_ARRAY(workload->arena, 5 * workload->node_count * kind_count, double);
    uint8_t *classes = SP_NEW_ARRAY(workload->arena, workload->node_count * kind_count, uint8_t);

    if (times == NULL || classes == NULL)
        return sp_fail_memory(err);
    for (uint32_t n = 0; n < workload->node_count; n++) {
        struct sp_work_node *work = &workload->nodes[n];
        struct sp_node_cost cost;
        enum sp_status status;
        if (n % TICK_NODES == 0 && !sp_watch_tick(watch, "search", 0, 0, 0))
            return sp_fail(err, SP_ERR_CANCELLED, "CANCELLED", "The job was cancelled.");
        work->seconds = times + 5 * n * kind_count;
        work->start_seconds = work->seconds + kind_count;
        work->alone_seconds = work->start_seconds + kind_count;
        work->alone_start_seconds = work->alone_seconds + kind_count;
        work->moved_bytes = work->alone_start_seconds + kind_count;
        work->classes = classes + n * kind_count;
        const struct sp_node_times of = {work->seconds,       work->start_seconds,
                                         work->alone_seconds, work->alone_start_seconds,
                                         work->moved_bytes,   classes + n * kind_count};
        status = sp_node_cost(model, &model->graph->nodes[n], workload->arena, devices, &cost, &of, err);
        if (status != SP_OK)
            return status;
        work->flops = cost.flops;
        work->bytes = cost.bytes;
        work->inner_weight_bytes = cost.inner_weight_bytes;
        work->workspace_bytes = cost.workspace_bytes;
        workload->flops += cost.flops;
        workload->bytes += cost.bytes;
        workload->weight_bytes += cost.inner_weight_bytes;
    }
    return SP_OK;
}

enum sp_status sp_workload_from_model(struct sp_arena *arena, struct sp_model *model, const struct sp_cluster *cluster,
                                      const struct sp_watch *watch, struct sp_workload **ret_workload,
                                      struct sp_error *err)
{
    struct sp_workload *workload = SP_NEW(arena, struct sp_workload);
    const struct sp_graph *graph = model->graph;
    const struct sp_device **devices;
    enum sp_status status;

    if (workload == NULL)
        return sp_fail_memory(err);
    workload->arena = arena;
    workload->node_count = graph->node_count;
    workload->tensor_count = graph->value_count;
    workload->nodes = SP_NEW_ARRAY(arena, graph->node_count, struct sp_work_node);
    workload->tensors = SP_NEW_ARRAY(arena, graph->value_count, struct sp_work_tensor);
    if (workload->nodes == NULL || workload->tensors == NULL || !number_kinds(workload, cluster, &devices) ||
        !name_nodes(workload, model))
        return sp_fail_memory(err);
    fill_tensors(workload, graph);
    if (!fill_nodes(workload, graph) || !fill_consumers(workload) || !find_aliases(workload))
        return sp_fail_memory(err);
    status = join_caches(workload, model, cluster, err);
    if (status == SP_OK)
        status = find_states(workload, model, err);
    if (status == SP_OK)
        status = sp_workload_size_tensors(workload, model, err);
    if (status == SP_OK)
        grow_caches(workload);
    if (status == SP_OK)
        status = sp_kernels_of_devices(arena, model, graph, devices, workload->kind_count, &workload->kernels, err);
    if (status == SP_OK)
        status = cost_nodes(workload, model,
                            &(struct sp_timed_devices){cluster, workload->kind_count, devices, workload->kernels},
                            watch, err);
    if (status == SP_OK)
        *ret_workload = workload;
    return status;
}

uint32_t *sp_work_users(struct sp_arena *arena, const struct sp_workload *workload)
{
    uint32_t *users = SP_NEW_ARRAY(arena, workload->tensor_count, uint32_t);
    for (uint32_t t = 0; users != NULL && t < workload->tensor_count; t++)
        users[sp_work_root(workload, t)] += workload->tensors[t].consumer_count;
    return users;
}
