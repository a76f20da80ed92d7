/*
 * The table of one mesh.
 */
#include "search/strategy/strategy.h"

#include <inttypes.h>

#include "base/limits.h"
#include "search/strategy/strategy_internal.h"

static enum sp_status check_mesh(const struct sp_strategy_mesh *mesh, uint32_t *ret_devices, struct sp_error *err)
{
    uint64_t devices = 1;
    if (mesh->axis_count > SP_STRATEGY_AXES)
        return sp_fail_limit(err, "TOO_MANY_MESH_AXES", "SP_STRATEGY_AXES", SP_STRATEGY_AXES, mesh->axis_count,
                             "The devices of a stage are a grid of at most %d axes.", SP_STRATEGY_AXES);
    for (uint32_t a = 0; a < mesh->axis_count; a++) {
        if (mesh->size[a] < 2)
            return sp_fail(err, SP_ERR_REQUEST, "MESH_AXIS_SIZE",
                           "Axis %" PRIu32 " of the mesh of a stage has %" PRIu32 " devices, but must have 2 or more.",
                           a, mesh->size[a]);
        devices *= mesh->size[a];
        if (devices > SP_MAX_DEVICES)
            return sp_fail_limit(err, "TOO_MANY_DEVICES", "SP_MAX_DEVICES", SP_MAX_DEVICES, (int64_t)devices,
                                 "The mesh of a stage has more than %d devices.", SP_MAX_DEVICES);
    }
    if (mesh->axis_count > 0 && (mesh->links.level_count == 0 || mesh->links.level_count > SP_MAX_MESH_AXES))
        return sp_fail(err, SP_ERR_REQUEST, "LINKS_MISSING", "The devices of a stage need 1 to %d levels of links.",
                       SP_MAX_MESH_AXES);
    *ret_devices = (uint32_t)devices;
    return SP_OK;
}

/* Weights that one node alone uses: the users of all names of one are counted together. */
static enum sp_status find_own_weights(struct sp_strategy_table *table, struct sp_error *err)
{
    const struct sp_workload *workload = table->workload;
    struct sp_arena_mark mark = sp_arena_mark(table->scratch);
    const uint32_t *users = sp_work_users(table->scratch, workload);
    table->is_own_weight = SP_NEW_ARRAY(table->arena, workload->tensor_count, bool);
    if (users == NULL || table->is_own_weight == NULL)
        return sp_fail_memory(err);
    for (uint32_t t = 0; t < workload->tensor_count; t++) {
        uint32_t root = sp_work_root(workload, t);
        table->is_own_weight[t] = workload->tensors[root].kind == SP_WORK_WEIGHT && users[root] == 1;
    }
    sp_arena_rewind(table->scratch, mark);
    return SP_OK;
}

static enum sp_status fill_classes(struct sp_strategy_table *table, const struct sp_watch *watch, struct sp_error *err)
{
    const struct sp_workload *workload = table->workload;
    enum sp_status status = SP_OK;
    bool has_compounds = false;
    for (uint32_t i = 0; i < workload->node_count && status == SP_OK; i++) {
        if (workload->nodes[i].folded)
            continue;
        status = sp_strategy_class_find(table, i, 0, NULL, &table->class_of[i], err);
        if (status == SP_OK && table->class_of[i]->node == i) /* the first of its class */
            has_compounds = has_compounds || sp_strategy_is_compound(table, table->class_of[i]->strategies.rule);
    }
    if (status == SP_OK && has_compounds)
        status = sp_strategy_take_apart(table, err);
    for (uint32_t i = 0; i < workload->node_count && status == SP_OK; i++) {
        if (table->class_of[i] == NULL || table->class_of[i]->strategies.items != NULL)
            continue;
        if (!sp_watch_tick(watch, "search", 0, 0, 0))
            return sp_fail(err, SP_ERR_CANCELLED, "CANCELLED", "The search was cancelled.");
        status = sp_strategy_enumerate(table, table->class_of[i], err);
    }
    return status;
}

enum sp_status sp_strategy_table_create(struct sp_arena *arena, const struct sp_workload *workload,
                                        const struct sp_dataflow *dataflow, const struct sp_strategy_mesh *mesh,
                                        const struct sp_watch *watch, struct sp_strategy_table **ret_table,
                                        struct sp_error *err)
{
    uint32_t devices = 0;
    enum sp_status status = check_mesh(mesh, &devices, err);
    struct sp_strategy_table *table = status == SP_OK ? SP_NEW(arena, struct sp_strategy_table) : NULL;
    if (status != SP_OK)
        return status;
    if (table == NULL)
        return sp_fail_memory(err);
    table->workload = workload;
    table->dataflow = dataflow;
    table->mesh = *mesh;
    table->device_count = devices;
    table->arena = sp_arena_create(sp_arena_budget(arena));
    table->scratch = sp_arena_create(sp_arena_budget(arena));
    if (table->arena == NULL || table->scratch == NULL) {
        status = sp_fail_memory(err);
        goto end;
    }
    for (uint32_t l = 0; l < mesh->links.level_count && l < SP_MAX_MESH_AXES; l++)
        table->levels[l] = mesh->links.levels[l];
    table->mesh.links.levels = table->levels;
    table->layout_set.arena = table->shape_set.arena = table->class_set.arena = table->reshards.arena = table->arena;
    table->answer_set.arena = table->arrivals.arena = table->transfers.arena = table->arena;
    table->shape_of = SP_NEW_ARRAY(table->arena, workload->tensor_count, const struct sp_strategy_shape *);
    table->class_of = SP_NEW_ARRAY(table->arena, workload->node_count, struct sp_strategy_class *);
    if (table->shape_of == NULL || table->class_of == NULL) {
        status = sp_fail_memory(err);
        goto end;
    }
    status = sp_strategy_mesh_prepare(table, err);
    if (status == SP_OK)
        status = find_own_weights(table, err);
    if (status == SP_OK)
        status = fill_classes(table, watch, err);
end:
    if (status == SP_OK)
        *ret_table = table;
    else
        sp_strategy_table_destroy(table);
    return status;
}

const struct sp_strategy_mesh *sp_strategy_table_mesh(const struct sp_strategy_table *table)
{
    return &table->mesh;
}

void sp_strategy_count_member(struct sp_strategy_table *table, uint32_t member)
{
    table->mesh.counted = member;
}

double sp_strategy_weight_bytes(const struct sp_strategy_table *table, uint32_t node, uint32_t strategy)
{
    const struct sp_strategies *all = sp_strategy_of(table, node);
    const struct sp_strategy *item = &all->items[strategy];
    const struct sp_workload *workload = table->workload;
    double sum = workload->nodes[node].inner_weight_bytes;
    if (table->mesh.member_count == 0 || strategy == 0)
        return item->weight_bytes;
    for (uint32_t i = 0; i < all->rule->input_count; i++) {
        const struct sp_value *value = workload->nodes[node].node->inputs[i];
        uint32_t first = 0;
        if (value == NULL || !table->is_own_weight[value->id])
            continue;
        while (workload->nodes[node].node->inputs[first] != value || item->layouts[first] != item->layouts[i])
            first++;
        if (first == i)
            sum += workload->tensors[sp_work_root(workload, value->id)].bytes *
                   sp_strategy_layout_share(table, value, item->layouts[i]);
    }
    return sum;
}

double sp_strategy_resident_bytes(const struct sp_strategy_table *table, uint32_t node, uint32_t strategy)
{
    const double bytes = sp_strategy_of(table, node)->items[strategy].resident_bytes;
    const bool is_whole = bytes == table->workload->nodes[node].resident_bytes;
    return table->mesh.member_count == 0 || is_whole ? bytes : bytes * table->mesh.members[table->mesh.counted].share;
}

bool sp_strategy_takes_apart(const struct sp_strategy_table *table)
{
    return table->is_taken_apart;
}

bool sp_strategy_gathers(const struct sp_strategy_table *table)
{
    return table->has_gathered;
}

void sp_strategy_table_destroy(struct sp_strategy_table *table)
{
    if (table == NULL)
        return;
    sp_reshard_costs_destroy(table->costs);
    sp_arena_destroy(table->scratch);
    sp_arena_destroy(table->arena);
}

const struct sp_strategies *sp_strategy_of(const struct sp_strategy_table *table, uint32_t node)
{
    return table->class_of[node] != NULL ? &table->class_of[node]->strategies : NULL;
}

uint32_t sp_strategy_operand(const struct sp_strategy_table *table, uint32_t node, uint32_t tensor)
{
    const struct sp_node *model_node = table->workload->nodes[node].node;
    for (uint32_t i = 0; i < model_node->input_count; i++)
        if (model_node->inputs[i] != NULL && model_node->inputs[i]->id == tensor &&
            model_node->inputs[i]->graph == model_node->graph)
            return i;
    for (uint32_t i = 0; i < model_node->output_count; i++)
        if (model_node->outputs[i] != NULL && model_node->outputs[i]->id == tensor)
            return model_node->input_count + i;
    return UINT32_MAX;
}
