#include "plan/stage_strategies.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/sorted.h"
#include "plan/internal.h"
#include "sharding/dialect.h"

#define REPLICAS "replica" /* the mesh axis of a stage's replicas */

uint32_t sp_plan_devices_used(const struct sp_plan *plan)
{
    return plan->result->evaluation->device_count;
}

uint32_t sp_plan_copy_devices(const struct sp_plan *plan)
{
    return plan->result->evaluation->device_count / sp_placement_copies(&plan->result->placement);
}

uint32_t sp_plan_copied(const struct sp_plan *plan, uint32_t device, uint32_t copy)
{
    const struct sp_placement *placement = &plan->result->placement;
    for (uint32_t s = 0; s < placement->stage_count; s++) {
        const uint32_t first = placement->stage_device[s];
        if (device >= first && device - first < sp_plan_stage_devices(plan, s))
            return sp_placement_device(placement, s, copy) + (device - first);
    }
    return device;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------ */

const struct sp_strategies *sp_plan_strategies(const struct sp_plan *plan, uint32_t node)
{
    const struct sp_sharded_stage *sharded = sp_plan_sharded(plan, plan->result->placement.stage_of[node]);
    return sharded != NULL && !plan->workload->nodes[node].folded ? sp_strategy_of(sharded->table, node) : NULL;
}

const struct sp_strategy *sp_plan_strategy(const struct sp_plan *plan, uint32_t node)
{
    const struct sp_strategies *strategies = sp_plan_strategies(plan, node);
    return strategies != NULL ? &strategies->items[plan->node_strategy[node]] : NULL;
}

uint32_t sp_plan_layout(const struct sp_plan *plan, uint32_t node, uint32_t tensor)
{
    const struct sp_strategy *strategy = sp_plan_strategy(plan, node);
    if (strategy == NULL)
        return 0;
    const struct sp_sharded_stage *sharded = sp_plan_sharded(plan, plan->result->placement.stage_of[node]);
    const uint32_t operand = sp_strategy_operand(sharded->table, node, tensor);
    return operand != UINT32_MAX ? strategy->layouts[operand] : 0;
}

uint32_t sp_plan_lies(const struct sp_plan *plan, uint32_t node, uint32_t tensor)
{
    const struct sp_strategy *strategy = sp_plan_strategy(plan, node);
    if (strategy == NULL)
        return 0;
    const struct sp_sharded_stage *sharded = sp_plan_sharded(plan, plan->result->placement.stage_of[node]);
    const uint32_t operand = sp_strategy_operand(sharded->table, node, tensor);
    return operand != UINT32_MAX ? sp_strategy_lies(strategy, operand) : 0;
}

/* Of the unequal device with the largest share. */
static double largest_bytes(struct sp_strategy_table *table, uint32_t tensor, uint32_t layout)
{
    const struct sp_strategy_mesh *mesh = sp_strategy_table_mesh(table);
    const uint32_t counted = mesh->counted;
    uint32_t largest = 0;
    for (uint32_t m = 1; m < mesh->member_count; m++)
        largest = mesh->members[m].share > mesh->members[largest].share ? m : largest;
    sp_strategy_count_member(table, largest);
    const double bytes = sp_strategy_local_bytes(table, tensor, layout);
    sp_strategy_count_member(table, counted);
    return bytes;
}

double sp_plan_local_bytes(const struct sp_plan *plan, uint32_t stage, uint32_t layout, uint32_t tensor)
{
    const struct sp_sharded_stage *sharded = sp_plan_sharded(plan, stage);
    if (sharded == NULL || layout == 0)
        return plan->workload->tensors[tensor].bytes;
    return sp_strategy_table_mesh(sharded->table)->member_count > 0
               ? largest_bytes(sharded->table, tensor, layout)
               : sp_strategy_local_bytes(sharded->table, tensor, layout);
}

/* Of the devices of a node's stage. */
static uint32_t kind_of_node(const struct sp_plan *plan, uint32_t node)
{
    const struct sp_placement *placement = &plan->result->placement;
    return plan->workload->kind_of[placement->stage_device[placement->stage_of[node]]];
}

double sp_plan_node_seconds(const struct sp_plan *plan, uint32_t node)
{
    const struct sp_work_node *work = &plan->workload->nodes[node];
    const struct sp_strategy *strategy = sp_plan_strategy(plan, node);
    if (work->folded)
        return 0;
    return plan->cut_seconds[node] +
           (strategy != NULL ? strategy->compute_seconds : work->seconds[kind_of_node(plan, node)]);
}

double sp_plan_node_bytes(const struct sp_plan *plan, uint32_t node)
{
    const struct sp_strategy *strategy = sp_plan_strategy(plan, node);
    return strategy != NULL ? strategy->bytes : sp_plan_node_all_bytes(plan, node);
}

double sp_plan_node_all_bytes(const struct sp_plan *plan, uint32_t node)
{
    const struct sp_work_node *work = &plan->workload->nodes[node];
    return work->folded ? 0 : sp_work_moved_bytes(work, kind_of_node(plan, node));
}

double sp_plan_node_collective_seconds(const struct sp_plan *plan, uint32_t node)
{
    const struct sp_strategy *strategy = sp_plan_strategy(plan, node);
    return strategy != NULL ? strategy->communication_seconds : 0;
}

/* ---- shardings -------------------------------------------------------------------------------------------------- */

/* The axes of a sharding of one block behind an axis for the replicas, on all of their devices. */
static enum sp_status add_replicas(struct sp_arena *arena, uint32_t replicas, uint32_t size, int64_t first_device,
                                   struct sp_sharding *sharding, struct sp_error *err)
{
    const struct sp_mesh *inner = sharding->mesh;
    struct sp_mesh_axis *axes = SP_NEW_ARRAY(arena, (size_t)inner->axis_count + 1, struct sp_mesh_axis);
    int64_t *devices = SP_NEW_ARRAY(arena, (size_t)replicas * size, int64_t);
    struct sp_device_order order;
    struct sp_mesh *mesh;
    if (axes == NULL || devices == NULL)
        return sp_fail_memory(err);
    axes[0] = (struct sp_mesh_axis){.name = REPLICAS, .size = replicas};
    if (inner->axis_count > 0)
        memcpy(axes + 1, inner->axes, inner->axis_count * sizeof *axes);
    for (uint32_t i = 0; i < replicas * size; i++)
        devices[i] = first_device + i;
    enum sp_status status = sp_device_order_list(arena, (int64_t)replicas * size, devices, &order, err);
    if (status == SP_OK)
        status = sp_mesh_create(arena, inner->axis_count + 1, axes, &order, &mesh, err);
    if (status != SP_OK)
        return status;
    struct sp_dim_sharding *dims = SP_NEW_ARRAY(arena, sharding->rank, struct sp_dim_sharding);
    for (uint32_t d = 0; dims != NULL && d < sharding->rank; d++) {
        const struct sp_axis_list *from = &sharding->dims[d].axes;
        struct sp_axis_ref *refs = SP_NEW_ARRAY(arena, from->count, struct sp_axis_ref);
        if (refs == NULL)
            return sp_fail_memory(err);
        for (uint32_t i = 0; i < from->count; i++) {
            refs[i] = from->refs[i];
            refs[i].axis++;
        }
        dims[d].axes = (struct sp_axis_list){from->count, refs};
    }
    if (dims == NULL)
        return sp_fail_memory(err);
    sharding->dims = dims;
    sharding->mesh = mesh;
    return SP_OK;
}

/* All of it on each of the devices. */
static enum sp_status whole_on(struct sp_arena *arena, uint32_t count, uint32_t rank, int64_t first_device,
                               const struct sp_sharding **ret_sharding, struct sp_error *err)
{
    const struct sp_mesh_axis axis = {.name = REPLICAS, .size = count};
    int64_t *devices = SP_NEW_ARRAY(arena, count, int64_t);
    struct sp_sharding *sharding;
    struct sp_device_order order;
    struct sp_mesh *mesh;
    if (devices == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < count; i++)
        devices[i] = first_device + i;
    enum sp_status status = sp_device_order_list(arena, count, devices, &order, err);
    if (status == SP_OK)
        status = sp_mesh_create(arena, 1, &axis, &order, &mesh, err);
    if (status == SP_OK)
        status = sp_sharding_create_axes(arena, mesh, rank, &sharding, err);
    if (status == SP_OK)
        *ret_sharding = sharding;
    return status;
}

enum sp_status sp_plan_sharding(const struct sp_plan *plan, uint32_t stage, uint32_t layout, uint32_t rank,
                                int64_t first_device, const struct sp_sharding **ret_sharding, struct sp_error *err)
{
    const struct sp_placement *placement = &plan->result->placement;
    const struct sp_sharded_stage *sharded = sp_plan_sharded(plan, stage);
    struct sp_arena *arena = plan->arena;
    const uint32_t replicas = sp_placement_replicas(placement, stage);
    const struct sp_sharding *block;
    if (sharded == NULL || layout == 0)
        return whole_on(arena, sp_plan_stage_devices(plan, stage), rank, first_device, ret_sharding, err);
    enum sp_status status = sp_strategy_axes(sharded->table, arena, rank, layout, first_device, &block, err);
    if (status != SP_OK)
        return status;
    if (replicas > 1) {
        struct sp_sharding *all = SP_NEW(arena, struct sp_sharding);
        if (all == NULL)
            return sp_fail_memory(err);
        *all = *block;
        const struct sp_strategy_mesh *mesh = sp_strategy_table_mesh(sharded->table);
        const uint32_t size = mesh->member_count > 0 ? mesh->size[0] : sp_placement_size(placement, stage);
        status = add_replicas(arena, replicas, size, first_device, all, err);
        block = all;
    }
    if (status == SP_OK)
        status = sp_strategy_refine(sharded->table, arena, layout, &block, err);
    if (status == SP_OK)
        *ret_sharding = block;
    return status;
}

enum sp_status sp_plan_spec(const struct sp_plan *plan, uint32_t stage, uint32_t layout, uint32_t rank,
                            int64_t first_device, struct sp_sharding_spec *ret_spec, struct sp_error *err)
{
    const struct sp_dialect_context context = {.rank = rank};
    const struct sp_sharding *sharding = NULL;
    if (layout == 0 || sp_plan_sharded(plan, stage) == NULL) {
        const uint32_t count = sp_plan_stage_devices(plan, stage);
        int64_t *devices = SP_NEW_ARRAY(plan->arena, count, int64_t);
        if (devices == NULL)
            return sp_fail_memory(err);
        for (uint32_t i = 0; i < count; i++)
            devices[i] = first_device + i;
        *ret_spec = (struct sp_sharding_spec){.device_count = count, .devices = devices};
        return SP_OK;
    }
    enum sp_status status = sp_plan_sharding(plan, stage, layout, rank, first_device, &sharding, err);
    return status == SP_OK ? sp_onnx_spec_from_sharding(plan->arena, sharding, &context, ret_spec, NULL, err) : status;
}

/* The axes of one block that cut each tensor axis; NULL where nothing is cut. */
static enum sp_status cuts_of(const struct sp_plan *plan, uint32_t stage, uint32_t layout, uint32_t rank,
                              const struct sp_sharding **ret_sharding, struct sp_error *err)
{
    const struct sp_sharded_stage *sharded = sp_plan_sharded(plan, stage);
    *ret_sharding = NULL;
    return sharded == NULL || layout == 0
               ? SP_OK
               : sp_strategy_axes(sharded->table, plan->arena, rank, layout,
                                  plan->result->placement.stage_device[stage], ret_sharding, err);
}

enum sp_status sp_plan_spec_text(const struct sp_plan *plan, uint32_t stage, uint32_t layout, uint32_t rank,
                                 struct sp_buf *buf, struct sp_error *err)
{
    const struct sp_arena_mark mark = sp_arena_mark(plan->arena);
    const struct sp_sharding *sharding;
    enum sp_status status = cuts_of(plan, stage, layout, rank, &sharding, err);
    for (uint32_t d = 0; status == SP_OK && d < rank; d++) {
        const struct sp_axis_list *list = sharding != NULL ? &sharding->dims[d].axes : NULL;
        sp_buf_text(buf, list != NULL && list->count > 0 ? "S[" : "R");
        for (uint32_t i = 0; list != NULL && i < list->count; i++) {
            sp_buf_printf(buf, "%s%u", i > 0 ? "," : "", list->refs[i].axis);
            if (!sp_axis_is_full(sharding->mesh, list->refs[i]))
                sp_buf_printf(buf, ":(%lld)%lld", (long long)list->refs[i].pre, (long long)list->refs[i].size);
        }
        sp_buf_text(buf, list != NULL && list->count > 0 ? "]" : "");
    }
    sp_arena_rewind(plan->arena, mark);
    return status;
}

enum sp_status sp_plan_shards(const struct sp_plan *plan, uint32_t stage, uint32_t layout, uint32_t rank,
                              int64_t *ret_shards, int64_t *ret_before, struct sp_error *err)
{
    const struct sp_arena_mark mark = sp_arena_mark(plan->arena);
    const struct sp_sharding *sharding;
    enum sp_status status = cuts_of(plan, stage, layout, rank, &sharding, err);
    if (status == SP_OK && sharding != NULL)
        status = sp_strategy_refine(sp_plan_sharded(plan, stage)->table, plan->arena, layout, &sharding, err);
    for (uint32_t d = 0; status == SP_OK && d < rank; d++) {
        const bool has_parts = sharding != NULL && sharding->kind == SP_SHARDING_BLOCKS;
        ret_shards[d] = sharding != NULL ? sp_sharding_shards(sharding, d) : 1;
        ret_before[d] = has_parts && sharding->blocks[d].part_count > 1 ? sharding->blocks[d].parts[0].extent : 1;
    }
    sp_arena_rewind(plan->arena, mark);
    return status;
}

/* Unequal devices in a row, whatever their shares are. */
static enum sp_status mesh_of_members(struct sp_arena *arena, uint32_t count, uint32_t first,
                                      const struct sp_mesh **ret_mesh, struct sp_error *err)
{
    const struct sp_mesh_axis axis = {"x", count};
    struct sp_device_order order;
    struct sp_mesh *mesh = NULL;
    int64_t *devices = SP_NEW_ARRAY(arena, count, int64_t);
    if (devices == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < count; i++)
        devices[i] = (int64_t)first + i;
    enum sp_status status = sp_device_order_list(arena, count, devices, &order, err);
    if (status == SP_OK)
        status = sp_mesh_create(arena, 1, &axis, &order, &mesh, err);
    if (status == SP_OK)
        *ret_mesh = mesh;
    return status;
}

enum sp_status sp_plan_mesh(const struct sp_plan *plan, struct sp_arena *arena, uint32_t stage,
                            const struct sp_mesh **ret_mesh, struct sp_error *err)
{
    const struct sp_sharded_stage *sharded = sp_plan_sharded(plan, stage);
    const struct sp_sharding *whole;
    *ret_mesh = NULL;
    if (sharded == NULL)
        return SP_OK;
    const uint32_t first = plan->result->placement.stage_device[stage];
    if (sp_strategy_table_mesh(sharded->table)->member_count > 0)
        return mesh_of_members(arena, sp_strategy_table_mesh(sharded->table)->member_count, first, ret_mesh, err);
    enum sp_status status = sp_strategy_axes(sharded->table, arena, 0, 0, first, &whole, err);
    if (status == SP_OK)
        *ret_mesh = whole->mesh;
    return status;
}

/* ---- where tensors are ------------------------------------------------------------------------------------------ */

bool sp_places_init(const struct sp_plan *plan, struct sp_places *places)
{
    const uint32_t stages = plan->result->placement.stage_count, devices = plan->cluster->device_count;
    *places = (struct sp_places){.place_capacity = stages + 1, .arena = plan->arena};
    places->stages = SP_NEW_ARRAY(plan->arena, stages, uint32_t);
    places->seen = SP_NEW_ARRAY(plan->arena, stages > devices ? stages : devices, uint32_t);
    places->latest = SP_NEW_ARRAY(plan->arena, stages, uint32_t);
    places->places = SP_NEW_ARRAY(plan->arena, places->place_capacity, struct sp_plan_place);
    return places->stages != NULL && places->seen != NULL && places->latest != NULL && places->places != NULL;
}

static bool add_place(struct sp_places *places, struct sp_plan_place place)
{
    if (!SP_MAKE_ROOM(places->arena, places->places, places->place_count, places->place_capacity, 1))
        return false;
    places->latest[place.stage] = places->place_count;
    places->places[places->place_count++] = place;
    return true;
}

static bool note_use(const struct sp_plan *plan, struct sp_places *places, uint32_t tensor, uint32_t node)
{
    const uint32_t stage = plan->result->placement.stage_of[node];
    struct sp_plan_place place = {stage, sp_plan_layout(plan, node, tensor), node, SP_NO_PLACE};
    if (plan->result->placement.shares_devices) {
        uint32_t *seen = &places->seen[plan->result->placement.stage_device[stage]];
        if (*seen == places->stamp)
            return true;
        *seen = places->stamp;
        places->stages[places->count++] = stage;
        return add_place(places, place);
    }
    if (places->seen[stage] == places->stamp) {
        for (uint32_t i = places->latest[stage]; i != SP_NO_PLACE; i = places->places[i].next) {
            if (places->places[i].layout == place.layout)
                return true;
        }
        place.next = places->latest[stage];
    } else {
        places->seen[stage] = places->stamp;
        places->stages[places->count++] = stage;
    }
    return add_place(places, place);
}

SP_ASCENDING_NUMBERS(by_number, uint32_t)

bool sp_plan_places(const struct sp_plan *plan, uint32_t tensor, struct sp_places *places)
{
    const struct sp_work_tensor *t = &plan->workload->tensors[tensor];
    bool is_done = true;
    places->count = places->place_count = 0;
    places->stamp++;
    if (sp_plan_origin(plan, tensor) != SP_NO_STAGE)
        is_done = note_use(plan, places, tensor, t->producer);
    for (uint32_t i = 0; is_done && i < t->consumer_count; i++) {
        if (!plan->workload->nodes[t->consumers[i]].folded)
            is_done = note_use(plan, places, tensor, t->consumers[i]);
    }
    if (places->count > 1)
        qsort(places->stages, places->count, sizeof *places->stages, by_number);
    return is_done;
}
