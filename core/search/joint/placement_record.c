#include "search/joint/placement_record.h"

#include <string.h>

#include "search/joint/unequal/unequal.h"

#define MOST_OPTIONS (SP_SPACE_MAX_OPTIONS + SP_SPACE_MAX_MESHES)

struct recorded {
    struct sp_arena *arena;
    const struct sp_workload *workload;
    const struct sp_dataflow *dataflow;
    const struct sp_cluster *cluster;
    const struct sp_placement_record *record;
    const struct sp_watch *watch;
    struct sp_space *space;
    struct sp_search_result *result;
    struct sp_error *err;
};

static enum sp_status misfit(const struct recorded *o, const char *what)
{
    return sp_fail(o->err, SP_ERR_REQUEST, "OTHER_PLAN",
                   "The plan's outline does not fit its model and cluster (%s): the file was edited, or another "
                   "version of Shardplan made it. Plan again, or export the annotated model instead.",
                   what);
}

/* ---- what may be ---------------------------------------------------------------------------------------------------
 */

/* Whether each device has a share of the one axis. */
static bool are_shares(const struct sp_placement_record_stage *stage)
{
    uint64_t blocks = 0;
    for (uint32_t i = 0; i < stage->share_count; i++) {
        if (stage->shares[i] == 0)
            return false;
        blocks += stage->shares[i];
    }
    return stage->axis_count == 1 && blocks == stage->axes[0] && stage->share_count == stage->size;
}

/* Takes the devices that copies of a stage have: of the same kinds, over the same links, and nobody else's. */
static bool take_copies(const struct recorded *o, uint32_t s, bool *taken)
{
    const struct sp_placement_record_stage *stage = &o->record->stages[s];
    const uint32_t count = stage->size * stage->replicas, devices = o->cluster->device_count;
    for (uint32_t copy = 0; copy < o->record->copies; copy++) {
        const uint32_t first = o->record->copy_device[(size_t)copy * o->record->stage_count + s];
        if (count > devices || first > devices - count)
            return false;
        if (count > 1 && sp_cluster_link(o->cluster, first, first + count - 1) !=
                             sp_cluster_link(o->cluster, stage->device, stage->device + count - 1))
            return false;
        for (uint32_t d = 0; d < count; d++) {
            if (taken[first + d] || o->workload->kind_of[first + d] != o->workload->kind_of[stage->device + d])
                return false;
            taken[first + d] = true;
        }
    }
    return true;
}

/* Blocks are in the cluster, and no device is in two of them; but those of one device each may be the same one where
   no operator can be split. */
static enum sp_status check_stages(const struct recorded *o)
{
    const uint32_t devices = o->cluster->device_count;
    struct sp_arena_mark mark = sp_arena_mark(o->arena);
    bool *taken = SP_NEW_ARRAY(o->arena, devices, bool);
    const uint32_t most = o->dataflow == NULL ? o->workload->node_count : devices;
    bool has_blocks = false, shares = false;
    bool is_sound = o->record->stage_count > 0 && o->record->stage_count <= most;
    if (taken == NULL)
        return sp_fail_memory(o->err);
    for (uint32_t s = 0; is_sound && s < o->record->stage_count; s++) {
        const struct sp_placement_record_stage *stage = &o->record->stages[s];
        const uint64_t count = (uint64_t)stage->size * stage->replicas;
        uint64_t product = 1;
        for (uint32_t a = 0; a < stage->axis_count && stage->share_count == 0; a++)
            product = product > devices ? product : product * stage->axes[a];
        is_sound = count > 0 && count <= devices && stage->device <= devices - count &&
                   (stage->share_count > 0 ? are_shares(stage) : product == stage->size) &&
                   (stage->axis_count == 0 || o->dataflow != NULL);
        has_blocks = has_blocks || count > 1;
        for (uint64_t d = 0; is_sound && d < count; d++) {
            shares = shares || taken[stage->device + d];
            taken[stage->device + d] = true;
        }
        is_sound = is_sound && take_copies(o, s, taken);
    }
    sp_arena_rewind(o->arena, mark);
    is_sound = is_sound && (!shares || (!has_blocks && o->dataflow == NULL));
    o->result->placement.shares_devices = shares;
    return is_sound ? SP_OK : misfit(o, "its stages are no blocks of devices");
}

/* Stages are numbered along the edges. */
static enum sp_status check_nodes(const struct recorded *o)
{
    const uint32_t *stage_of = o->record->stage_of;
    for (uint32_t n = 0; n < o->workload->node_count; n++) {
        if (stage_of[n] >= o->record->stage_count)
            return misfit(o, "it has no such stage");
    }
    for (uint32_t t = 0; t < o->workload->tensor_count; t++) {
        const struct sp_work_tensor *tensor = &o->workload->tensors[t];
        if (tensor->kind != SP_WORK_ACTIVATION || tensor->producer == SP_NO_WORK)
            continue;
        for (uint32_t i = 0; i < tensor->consumer_count; i++) {
            if (stage_of[tensor->consumers[i]] < stage_of[tensor->producer])
                return misfit(o, "a stage needs what a later one makes");
        }
    }
    return SP_OK;
}

/* ---- tables --------------------------------------------------------------------------------------------------------
 */

static bool has_block(const struct sp_space *space, const struct sp_space_option *option,
                      const struct sp_placement_record_stage *stage)
{
    const struct sp_space_class *class = &space->classes[option->class_index];
    return option->size == stage->size && stage->device >= class->first &&
           stage->device - class->first + (uint64_t)stage->size * stage->replicas <= class->count;
}

/* The option with the stage's blocks and mesh; NULL: there is none. */
static const struct sp_space_option *find_option(struct sp_space *space, const struct sp_placement_record_stage *stage)
{
    const struct sp_space_option *block = NULL;
    uint32_t cuts[SP_SPACE_CUTS];
    for (uint32_t i = 0; i < space->option_count; i++) {
        const struct sp_space_option *option = &space->options[i];
        if (!has_block(space, option, stage))
            continue;
        if (option->mesh.axis_count == stage->axis_count &&
            memcmp(option->mesh.size, stage->axes, stage->axis_count * sizeof stage->axes[0]) == 0)
            return option;
        block = option->is_further ? block : option;
    }
    if (block == NULL || stage->axis_count != 2)
        return NULL;
    const uint32_t count = sp_space_cuts(block, cuts);
    for (uint32_t c = 0; c < count; c++) {
        if (cuts[c] == stage->axes[1])
            return sp_space_add_mesh(space, block, cuts[c]);
    }
    return NULL;
}

/* The same where each device has a share of its own. */
static const struct sp_space_option *find_shares(struct recorded *o, const struct sp_placement_record_stage *stage)
{
    const struct sp_space_option *option =
        o->cluster->level_count > 0
            ? sp_space_add_shares(o->space, o->workload, stage->device, stage->size, stage->shares)
            : NULL;
    const struct sp_space_class *class = option == NULL ? NULL : &o->space->classes[option->class_index];
    const uint64_t count = (uint64_t)stage->size * stage->replicas;
    return option == NULL || stage->device - class->whole_first + count > class->whole_count ? NULL : option;
}

static enum sp_status find_table(struct recorded *o, const struct sp_placement_record_stage *stage,
                                 struct sp_strategy_table **ret_table)
{
    const struct sp_space_option *option =
        stage->share_count == 0 ? find_option(o->space, stage) : find_shares(o, stage);
    enum sp_status status = SP_OK;
    if (option == NULL)
        return misfit(o, "no block of devices has such a mesh");
    struct sp_strategy_table **table = &o->result->tables[option - o->space->options];
    if (*table == NULL)
        status = sp_strategy_table_create(o->arena, o->workload, o->dataflow, &option->mesh, o->watch, table, o->err);
    *ret_table = *table;
    return status;
}

/* ---- stages --------------------------------------------------------------------------------------------------------
 */

/* The number of the node's strategy in the table; the count of them where it is not there. */
static uint32_t find_strategy(const struct recorded *o, const struct sp_strategy_table *table, uint32_t node)
{
    const struct sp_strategies *known = sp_strategy_of(table, node);
    const struct sp_strategy *wanted = o->record->strategies != NULL ? o->record->strategies[node] : NULL;
    uint32_t at = 0;
    if (o->record->strategies == NULL)
        return o->record->strategy_of[node];
    while (wanted != NULL && at < known->count && !sp_strategy_is_same(&known->items[at], wanted))
        at++;
    return at;
}

static enum sp_status split_stage(struct recorded *o, uint32_t index, struct sp_sharded_stage *stage)
{
    const struct sp_workload *workload = o->workload;
    uint32_t count = 0;
    enum sp_status status = find_table(o, &o->record->stages[index], &stage->table);
    if (status != SP_OK)
        return status;
    for (uint32_t n = 0; n < workload->node_count; n++)
        count += o->record->stage_of[n] == index && !workload->nodes[n].folded;
    uint32_t *nodes = SP_NEW_ARRAY(o->arena, count, uint32_t), *strategies = SP_NEW_ARRAY(o->arena, count, uint32_t);
    if (nodes == NULL || strategies == NULL)
        return sp_fail_memory(o->err);
    for (uint32_t n = 0; n < workload->node_count; n++) {
        if (o->record->stage_of[n] != index || workload->nodes[n].folded)
            continue;
        const uint32_t strategy = find_strategy(o, stage->table, n);
        if (strategy >= sp_strategy_of(stage->table, n)->count)
            return misfit(o, "a node cannot be split in so many ways");
        nodes[stage->node_count] = n;
        strategies[stage->node_count++] = strategy;
    }
    stage->nodes = nodes;
    stage->strategy_of = strategies;
    return SP_OK;
}

/* Without blocks of several devices and replicas there are no sizes: cost/evaluate.h. */
static enum sp_status place(struct recorded *o, bool *ret_splits)
{
    const uint32_t stages = o->record->stage_count, nodes = o->workload->node_count;
    struct sp_placement *placement = &o->result->placement;
    uint32_t *devices = SP_NEW_ARRAY(o->arena, stages, uint32_t), *sizes = SP_NEW_ARRAY(o->arena, stages, uint32_t);
    uint32_t *replicas = SP_NEW_ARRAY(o->arena, stages, uint32_t), *stage_of = SP_NEW_ARRAY(o->arena, nodes, uint32_t);
    uint32_t largest = 1;
    if (devices == NULL || sizes == NULL || replicas == NULL || stage_of == NULL)
        return sp_fail_memory(o->err);
    *ret_splits = false;
    for (uint32_t s = 0; s < stages; s++) {
        const struct sp_placement_record_stage *stage = &o->record->stages[s];
        devices[s] = stage->device;
        sizes[s] = stage->size;
        replicas[s] = stage->replicas;
        largest = stage->size > largest ? stage->size : largest;
        *ret_splits = *ret_splits || stage->axis_count > 0;
        placement->stage_size = stage->size > 1 || stage->replicas > 1 ? sizes : placement->stage_size;
    }
    placement->stage_replicas = placement->stage_size != NULL ? replicas : NULL;
    if (o->record->copies > 0) {
        const size_t count = (size_t)o->record->copies * stages;
        placement->copy_device = SP_NEW_ARRAY(o->arena, count, uint32_t);
        if (placement->copy_device == NULL)
            return sp_fail_memory(o->err);
        memcpy(placement->copy_device, o->record->copy_device, count * sizeof *placement->copy_device);
        placement->copies = o->record->copies + 1;
    }
    placement->stage_count = stages;
    placement->stage_device = devices;
    placement->stage_of = stage_of;
    memcpy(stage_of, o->record->stage_of, nodes * sizeof *stage_of);
    return sp_space_create(o->arena, o->workload, o->cluster, largest, &o->space, o->err);
}

static enum sp_status evaluate(struct recorded *o)
{
    bool splits = false;
    struct sp_sharded_stage *sharded = NULL;
    enum sp_status status = place(o, &splits);
    if (status == SP_OK && splits) {
        sharded = SP_NEW_ARRAY(o->arena, o->record->stage_count, struct sp_sharded_stage);
        if (sharded == NULL)
            return sp_fail_memory(o->err);
    }
    for (uint32_t s = 0; sharded != NULL && status == SP_OK && s < o->record->stage_count; s++) {
        if (o->record->stages[s].axis_count > 0)
            status = split_stage(o, s, &sharded[s]);
    }
    o->result->sharded = sharded;
    if (status == SP_OK)
        status = sp_joint_evaluate(o->arena, o->workload, o->cluster, &o->result->placement, sharded,
                                   &o->result->evaluation, o->err);
    return status;
}

/* Several routes, of which the stages are the first. */
static enum sp_status take_routes(struct recorded *o)
{
    struct sp_search_result *result = o->result;
    struct sp_routed *routed;
    if (o->record->route_count == 0)
        return SP_OK;
    enum sp_status status = sp_routed_evaluate(o->arena, o->workload, o->cluster, o->record->route_count,
                                               o->record->routes, &routed, o->err);
    if (status != SP_OK)
        return status;
    result->routes = routed;
    result->placement = routed->routes[0].placement;
    result->evaluation = routed->evaluation;
    result->sharded = NULL;
    result->strategy = SP_STRATEGY_ROUTES;
    return SP_OK;
}

enum sp_status sp_joint_from_record(struct sp_arena *arena, const struct sp_recorded_problem *problem,
                                    const struct sp_placement_record *record, const struct sp_watch *watch,
                                    struct sp_search_result **ret_result, struct sp_error *err)
{
    struct sp_search_result *result = SP_NEW(arena, struct sp_search_result);
    if (result == NULL)
        return sp_fail_memory(err);
    struct recorded o = {arena, problem->workload, problem->dataflow, problem->cluster, record, watch, NULL, result,
                         err};
    result->memory_share = 1;
    result->table_count = MOST_OPTIONS;
    result->tables = SP_NEW_ARRAY(arena, MOST_OPTIONS, struct sp_strategy_table *);
    if (result->tables == NULL)
        return sp_fail_memory(err);
    enum sp_status status = check_stages(&o);
    if (status == SP_OK)
        status = check_nodes(&o);
    if (status == SP_OK)
        status = evaluate(&o);
    if (status == SP_OK)
        status = take_routes(&o);
    if (status == SP_OK)
        *ret_result = result;
    else
        sp_search_result_release(result);
    return status;
}
