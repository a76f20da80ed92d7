#include "plan/answer/placement_record.h"

#include "plan/stage_strategies.h"

/* ---- writing --------------------------------------------------------------------------------------------------- */

static void write_stage(const struct sp_plan *plan, uint32_t stage, struct sp_json *json)
{
    const struct sp_placement *placement = &plan->result->placement;
    const struct sp_sharded_stage *sharded = sp_plan_sharded(plan, stage);
    const struct sp_strategy_mesh *mesh = sharded != NULL ? sp_strategy_table_mesh(sharded->table) : NULL;
    sp_json_begin_object(json);
    sp_json_member_int(json, "device", placement->stage_device[stage]);
    sp_json_member_int(json, "size", sp_placement_size(placement, stage));
    sp_json_member_int(json, "replicas", sp_placement_replicas(placement, stage));
    sp_json_key(json, "axes");
    sp_json_begin_array(json);
    for (uint32_t a = 0; mesh != NULL && a < mesh->axis_count; a++)
        sp_json_int(json, mesh->size[a]);
    sp_json_end_array(json);
    if (mesh != NULL && mesh->member_count > 0) {
        sp_json_key(json, "shares");
        sp_json_begin_array(json);
        for (uint32_t m = 0; m < mesh->member_count; m++)
            sp_json_int(json, mesh->members[m].share);
        sp_json_end_array(json);
    }
    sp_json_end_object(json);
}

static uint32_t strategy_of(const struct sp_plan *plan, uint32_t node)
{
    return plan->node_strategy != NULL && !plan->workload->nodes[node].folded ? plan->node_strategy[node] : 0;
}

static void write_nodes(const struct sp_plan *plan, struct sp_json *json)
{
    const uint32_t *stage_of = plan->result->placement.stage_of, count = plan->workload->node_count;
    sp_json_key(json, "nodes");
    sp_json_begin_array(json);
    for (uint32_t n = 0, end; n < count; n = end) {
        end = n + 1;
        while (end < count && stage_of[end] == stage_of[n] && strategy_of(plan, end) == strategy_of(plan, n))
            end++;
        sp_json_begin_array(json);
        sp_json_int(json, stage_of[n]);
        sp_json_int(json, strategy_of(plan, n));
        sp_json_int(json, end - n);
        sp_json_end_array(json);
    }
    sp_json_end_array(json);
}

static void write_numbers(struct sp_json *json, const char *name, uint32_t count, const uint32_t *numbers)
{
    sp_json_key(json, name);
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < count; i++)
        sp_json_int(json, numbers[i]);
    sp_json_end_array(json);
}

static void write_routes(const struct sp_routed *routed, struct sp_json *json)
{
    if (routed == NULL)
        return;
    sp_json_key(json, "routes");
    sp_json_begin_array(json);
    for (uint32_t r = 0; r < routed->route_count; r++) {
        sp_json_begin_object(json);
        sp_json_member_double(json, "share", routed->routes[r].share);
        write_numbers(json, "devices", routed->routes[r].count, routed->routes[r].devices);
        write_numbers(json, "ends", routed->routes[r].count, routed->routes[r].ends);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

/* The first devices of the stages, of each copy beside the first. */
static void write_copies(const struct sp_placement *placement, struct sp_json *json)
{
    if (sp_placement_copies(placement) < 2)
        return;
    sp_json_key(json, "copies");
    sp_json_begin_array(json);
    for (uint32_t copy = 1; copy < placement->copies; copy++) {
        sp_json_begin_array(json);
        for (uint32_t s = 0; s < placement->stage_count; s++)
            sp_json_int(json, sp_placement_device(placement, s, copy));
        sp_json_end_array(json);
    }
    sp_json_end_array(json);
}

void sp_placement_record_write(const struct sp_plan *plan, struct sp_json *json)
{
    sp_json_key(json, "outline");
    sp_json_begin_object(json);
    sp_json_key(json, "stages");
    sp_json_begin_array(json);
    for (uint32_t s = 0; s < plan->result->placement.stage_count; s++)
        write_stage(plan, s, json);
    sp_json_end_array(json);
    write_copies(&plan->result->placement, json);
    write_nodes(plan, json);
    write_routes(plan->result->routes, json);
    sp_json_end_object(json);
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

static enum sp_status damaged(struct sp_error *err)
{
    return sp_fail(err, SP_ERR_REQUEST, "OTHER_PLAN",
                   "The plan's outline cannot be read: the file was edited, or another version of Shardplan made it. "
                   "Plan again, or export the annotated model instead.");
}

static bool read_number(const json_t *json, uint32_t *ret_number)
{
    const json_int_t value = json_integer_value(json);
    *ret_number = (uint32_t)value;
    return json_is_integer(json) && value >= 0 && value < UINT32_MAX;
}

static bool read_stage(const json_t *json, struct sp_placement_record_stage *stage)
{
    const json_t *axes = json_object_get(json, "axes");
    bool ok = json_array_size(axes) <= SP_STRATEGY_AXES;
    stage->axis_count = ok ? (uint32_t)json_array_size(axes) : 0;
    for (uint32_t a = 0; ok && a < stage->axis_count; a++)
        ok = read_number(json_array_get(axes, a), &stage->axes[a]) && stage->axes[a] > 1;
    const json_t *shares = json_object_get(json, "shares");
    ok = ok && json_array_size(shares) <= SP_STRATEGY_MEMBERS;
    stage->share_count = ok ? (uint32_t)json_array_size(shares) : 0;
    for (uint32_t i = 0; ok && i < stage->share_count; i++)
        ok = read_number(json_array_get(shares, i), &stage->shares[i]) && stage->shares[i] > 0;
    return ok && read_number(json_object_get(json, "device"), &stage->device) &&
           read_number(json_object_get(json, "size"), &stage->size) &&
           read_number(json_object_get(json, "replicas"), &stage->replicas);
}

/* Runs that are `node_count` nodes together. */
static bool read_nodes(const json_t *runs, uint32_t node_count, uint32_t *stage_of, uint32_t *strategy_of)
{
    uint32_t n = 0;
    for (size_t i = 0; i < json_array_size(runs); i++) {
        const json_t *run = json_array_get(runs, i);
        uint32_t stage, strategy, count;
        if (!read_number(json_array_get(run, 0), &stage) || !read_number(json_array_get(run, 1), &strategy) ||
            !read_number(json_array_get(run, 2), &count) || count > node_count - n)
            return false;
        for (uint32_t k = 0; k < count; k++, n++) {
            stage_of[n] = stage;
            strategy_of[n] = strategy;
        }
    }
    return n == node_count;
}

static bool read_numbers(struct sp_arena *arena, const json_t *json, uint32_t count, const uint32_t **ret_numbers)
{
    uint32_t *numbers = SP_NEW_ARRAY(arena, count, uint32_t);
    bool ok = numbers != NULL && json_array_size(json) == count;
    for (uint32_t i = 0; ok && i < count; i++)
        ok = read_number(json_array_get(json, i), &numbers[i]);
    *ret_numbers = numbers;
    return ok;
}

/* Whether they are sound together says sp_routed_evaluate(). */
static bool read_routes(struct sp_arena *arena, const json_t *json, struct sp_placement_record *record)
{
    const size_t count = json_array_size(json);
    if (count > SP_ROUTED_ROUTES || (record->routes = SP_NEW_ARRAY(arena, count, struct sp_route)) == NULL)
        return false;
    record->route_count = (uint32_t)count;
    for (size_t r = 0; r < count; r++) {
        const json_t *route = json_array_get(json, r), *devices = json_object_get(route, "devices");
        struct sp_route *read = &record->routes[r];
        if (json_array_size(devices) > SP_MAX_DEVICES)
            return false;
        read->share = json_number_value(json_object_get(route, "share"));
        read->count = (uint32_t)json_array_size(devices);
        if (!read_numbers(arena, devices, read->count, &read->devices) ||
            !read_numbers(arena, json_object_get(route, "ends"), read->count, &read->ends))
            return false;
    }
    return true;
}

static bool read_copies(struct sp_arena *arena, const json_t *json, struct sp_placement_record *record)
{
    const size_t copies = json_array_size(json), stages = record->stage_count;
    uint32_t *devices;
    if (copies == 0)
        return true;
    if (copies > SP_MAX_DEVICES || stages > SP_MAX_DEVICES ||
        (devices = SP_NEW_ARRAY(arena, copies * stages, uint32_t)) == NULL)
        return false;
    for (size_t i = 0; i < copies * stages; i++) {
        const json_t *copy = json_array_get(json, i / stages);
        if (json_array_size(copy) != stages || !read_number(json_array_get(copy, i % stages), &devices[i]))
            return false;
    }
    record->copies = (uint32_t)copies;
    record->copy_device = devices;
    return true;
}

enum sp_status sp_placement_record_parse(struct sp_arena *arena, const json_t *json, uint32_t node_count,
                                         struct sp_placement_record *ret_record, struct sp_error *err)
{
    const json_t *listed = json_object_get(json, "stages");
    const size_t count = json_array_size(listed);
    if (count == 0 || count > UINT32_MAX)
        return damaged(err);
    struct sp_placement_record_stage *stages = SP_NEW_ARRAY(arena, count, struct sp_placement_record_stage);
    uint32_t *stage_of = SP_NEW_ARRAY(arena, node_count, uint32_t);
    uint32_t *strategies = SP_NEW_ARRAY(arena, node_count, uint32_t);
    if (stages == NULL || stage_of == NULL || strategies == NULL)
        return sp_fail_memory(err);
    for (size_t s = 0; s < count; s++) {
        if (!read_stage(json_array_get(listed, s), &stages[s]))
            return damaged(err);
    }
    if (!read_nodes(json_object_get(json, "nodes"), node_count, stage_of, strategies))
        return damaged(err);
    struct sp_placement_record record = {
        .stage_count = (uint32_t)count, .stages = stages, .stage_of = stage_of, .strategy_of = strategies};
    if (!read_copies(arena, json_object_get(json, "copies"), &record) ||
        !read_routes(arena, json_object_get(json, "routes"), &record))
        return damaged(err);
    *ret_record = record;
    return SP_OK;
}
