/* The plan of before on the new cluster: as it is, and without what is lost. */
#include <string.h>

#include "plan/replan/internal.h"
#include "search/joint/placement_record.h"
#include "search/joint/violations.h"
#include "search/states.h"

#define NO_DEVICE UINT32_MAX

struct repair {
    struct sp_replan *replan;
    const struct sp_placed *old;
    const uint32_t *seat_of;                  /* per device of before: its number now, or NO_DEVICE */
    const struct sp_strategy **strategies;    /* per node of the new workload; NULL: none */
    struct sp_placement_record_stage *stages; /* of before, on the devices of now; replicas 0: lost */
    uint32_t lost_count, lost;                /* stages that are lost, the first of them */
    uint32_t base, copies;                    /* the copy that `stages` are of, and others that are all there */
    uint32_t *copy_device;                    /* of these, per stage: on the devices of now */
    bool is_whole;                            /* nothing is lost */
    struct sp_replan_plan *plans;
    uint32_t count;
    struct sp_error *err;
};

/* ---- devices of before ------------------------------------------------------------------------------------------ */

/* Where nobody says which device is which, those of each type are taken in their order: all of them, or first those
   that the plan uses. */
static const uint32_t *find_seats(const struct repair *r, bool used_first)
{
    const struct sp_replan *replan = r->replan;
    const struct sp_placement *placement = r->old->placement;
    const struct sp_cluster *before = replan->past->cluster, *now = replan->of.cluster;
    uint32_t *seat_of = SP_NEW_ARRAY(replan->arena, before->device_count, uint32_t);
    bool *taken = SP_NEW_ARRAY(replan->arena, now->device_count, bool);
    bool *is_used = SP_NEW_ARRAY(replan->arena, before->device_count, bool);
    if (seat_of == NULL || taken == NULL || is_used == NULL)
        return NULL;
    for (uint32_t s = 0; s < placement->stage_count; s++) {
        const uint32_t count = sp_placement_size(placement, s) * sp_placement_replicas(placement, s);
        for (uint32_t i = 0; i < count * sp_placement_copies(placement); i++)
            is_used[sp_placement_device(placement, s, i / count) + i % count] = true;
    }
    for (uint32_t d = 0; d < before->device_count; d++)
        seat_of[d] = replan->map == NULL || replan->map[d] == SP_NO_HOLDER ? NO_DEVICE : replan->map[d];
    for (uint32_t round = 0; replan->map == NULL && round < 2; round++) {
        for (uint32_t d = 0; d < before->device_count; d++) {
            if (used_first && is_used[d] != (round == 0))
                continue;
            for (uint32_t s = 0; s < now->device_count && seat_of[d] == NO_DEVICE; s++) {
                if (!taken[s] && sp_fleet_pair(&replan->moving.fleet, s, d))
                    seat_of[d] = s;
            }
            if (seat_of[d] != NO_DEVICE)
                taken[seat_of[d]] = true;
        }
    }
    return seat_of;
}

/* The first device of a block where all of it follow one another, or NO_DEVICE. */
static uint32_t find_block(const struct repair *r, uint32_t first, uint32_t size)
{
    for (uint32_t i = 1; r->seat_of[first] != NO_DEVICE && i < size; i++) {
        if (r->seat_of[first + i] != r->seat_of[first] + i)
            return NO_DEVICE;
    }
    return r->seat_of[first];
}

/* The stage on the devices of now: the longest run of its replicas that are all there, one behind the other. */
static void map_stage(struct repair *r, uint32_t stage)
{
    const struct sp_placement *placement = r->old->placement;
    const uint32_t size = sp_placement_size(placement, stage), replicas = sp_placement_replicas(placement, stage);
    struct sp_placement_record_stage *mapped = &r->stages[stage];
    uint32_t run = 0, begin = NO_DEVICE;
    *mapped = (struct sp_placement_record_stage){.device = NO_DEVICE, .size = size};
    if (r->old->sharded != NULL && r->old->sharded[stage].table != NULL) {
        const struct sp_strategy_mesh *mesh = sp_strategy_table_mesh(r->old->sharded[stage].table);
        mapped->axis_count = mesh->axis_count;
        memcpy(mapped->axes, mesh->size, mesh->axis_count * sizeof *mesh->size);
        mapped->share_count = mesh->member_count;
        for (uint32_t i = 0; i < mesh->member_count; i++)
            mapped->shares[i] = mesh->members[i].share;
    }
    for (uint32_t i = 0; i < replicas; i++) {
        const uint32_t device = find_block(r, sp_placement_device(placement, stage, r->base) + i * size, size);
        const bool follows = run > 0 && device == begin + run * size;
        begin = follows ? begin : device;
        run = device == NO_DEVICE ? 0 : follows ? run + 1 : 1;
        if (run > mapped->replicas) {
            mapped->replicas = run;
            mapped->device = begin;
        }
    }
    r->is_whole = r->is_whole && mapped->replicas == replicas;
    if (mapped->replicas == 0 && r->lost_count++ == 0)
        r->lost = stage;
}

/* Which copies are all there: the first one has the stages. False without memory. */
static bool map_copies(struct repair *r)
{
    const struct sp_placement *placement = r->old->placement;
    const uint32_t copies = sp_placement_copies(placement), stages = placement->stage_count;
    bool has_base = false;
    r->base = r->copies = 0;
    r->copy_device = SP_NEW_ARRAY(r->replan->arena, (size_t)copies * stages, uint32_t);
    for (uint32_t copy = 0; r->copy_device != NULL && copy < copies; copy++) {
        uint32_t *devices = &r->copy_device[(size_t)r->copies * stages], s = 0;
        for (; s < stages; s++) {
            const uint32_t count = sp_placement_size(placement, s) * sp_placement_replicas(placement, s);
            devices[s] = find_block(r, sp_placement_device(placement, s, copy), count);
            if (devices[s] == NO_DEVICE)
                break;
        }
        if (s < stages)
            continue;
        r->copies += has_base;
        r->base = has_base ? r->base : copy;
        has_base = true;
    }
    r->is_whole = copies == 1 || r->copies + 1 == copies;
    return r->copy_device != NULL;
}

/* ---- nodes of before -------------------------------------------------------------------------------------------- */

static const struct sp_strategy *strategy_of(const struct sp_placed *placed, uint32_t node, const uint32_t *numbers)
{
    const struct sp_sharded_stage *stage =
        placed->sharded != NULL ? &placed->sharded[placed->placement->stage_of[node]] : NULL;
    return stage == NULL || stage->table == NULL || placed->workload->nodes[node].folded
               ? NULL
               : &sp_strategy_of(stage->table, node)->items[numbers[node]];
}

/* The same nodes in both workloads, which are of one model; false in *ret_same where they are not. */
static enum sp_status take_nodes(struct repair *r, bool *ret_same)
{
    const struct sp_workload *old = r->old->workload, *now = r->replan->of.workload;
    struct sp_arena *arena = r->replan->arena;
    *ret_same = old->node_count == now->node_count;
    for (uint32_t n = 0; *ret_same && n < now->node_count; n++)
        *ret_same = strcmp(old->nodes[n].name, now->nodes[n].name) == 0 && old->nodes[n].folded == now->nodes[n].folded;
    if (!*ret_same)
        return SP_OK;
    uint32_t *numbers = SP_NEW_ARRAY(arena, now->node_count, uint32_t);
    r->strategies = SP_NEW_ARRAY(arena, now->node_count, const struct sp_strategy *);
    if (numbers == NULL || r->strategies == NULL)
        return sp_fail_memory(r->err);
    for (uint32_t s = 0; r->old->sharded != NULL && s < r->old->placement->stage_count; s++) {
        const struct sp_sharded_stage *stage = &r->old->sharded[s];
        for (uint32_t i = 0; stage->table != NULL && i < stage->node_count; i++)
            numbers[stage->nodes[i]] = stage->strategy_of[i];
    }
    for (uint32_t n = 0; n < now->node_count; n++)
        r->strategies[n] = strategy_of(r->old, n, numbers);
    return SP_OK;
}

/* ---- one plan --------------------------------------------------------------------------------------------------- */

/* Whether it may be an answer: it fits, every device can run what it has, and all demands are met. */
static bool is_answer(const struct repair *r, const struct sp_search_result *result)
{
    const struct sp_replanned *of = &r->replan->of;
    const struct sp_evaluation *evaluation = result->evaluation;
    bool ok =
        evaluation->worst_excess_bytes <= 0 && (result->routes == NULL || result->routes->worst_excess_bytes <= 0);
    for (uint32_t s = 0; ok && s < evaluation->stage_count; s++)
        ok = sp_unable_nodes(of->contraction->workload, evaluation->stages[s].compute_seconds) == 0;
    const struct sp_constraints *constraints = of->options->constraints;
    ok = ok && sp_states_are_kept(of->workload, &result->placement, result->sharded);
    if (!ok || constraints == NULL)
        return ok;
    if (sp_constraints_latency(constraints, evaluation->latency_seconds, NULL) != SP_OK)
        return false;
    struct sp_arena_mark mark = sp_arena_mark(r->replan->arena);
    struct sp_placement *placement = NULL;
    ok = sp_contraction_reduce(r->replan->arena, of->contraction, of->workload, &result->placement, &placement) ==
             SP_OK &&
         placement != NULL &&
         sp_constraints_violation(r->replan->arena, constraints, of->contraction->workload, of->cluster, placement,
                                  result->sharded, NULL) == SP_OK;
    sp_arena_rewind(r->replan->arena, mark);
    return ok;
}

/* Evaluates the plan that the record says. One that cannot run is none. */
static enum sp_status try_plan(struct repair *r, struct sp_placement_record record, enum sp_replan_choice choice)
{
    const struct sp_replanned *of = &r->replan->of;
    const struct sp_recorded_problem problem = {of->workload, of->dataflow, of->cluster};
    struct sp_search_result *result = NULL;
    struct sp_error why = {0};
    record.strategies = r->strategies;
    if (r->count > SP_REPLAN_REPAIRED_MOST)
        return SP_OK;
    enum sp_status status =
        sp_joint_from_record(r->replan->arena, &problem, &record, of->options->watch, &result, &why);
    if (status == SP_ERR_MEMORY || status == SP_ERR_CANCELLED) {
        if (r->err != NULL)
            *r->err = why;
        return status;
    }
    if (status != SP_OK)
        return SP_OK;
    if (!is_answer(r, result)) {
        sp_search_result_release(result);
        return SP_OK;
    }
    r->plans[r->count++] = (struct sp_replan_plan){.placement = &result->placement,
                                                   .sharded = (struct sp_sharded_stage *)(uintptr_t)result->sharded,
                                                   .routes = result->routes,
                                                   .evaluation = result->evaluation,
                                                   .strategy = of->options->strategy,
                                                   .devices_used = result->evaluation->device_count,
                                                   .choice = choice,
                                                   .owner = result};
    return SP_OK;
}

/* ---- repairs ---------------------------------------------------------------------------------------------------- */

/* Marks the devices that stages have. */
static void mark_taken(const struct repair *r, bool *taken)
{
    for (uint32_t s = 0; s < r->old->placement->stage_count; s++) {
        const struct sp_placement_record_stage *stage = &r->stages[s];
        for (uint32_t d = 0; d < stage->size * stage->replicas; d++)
            taken[stage->device + d] = true;
    }
}

/* The first devices in a row that nobody has, or NO_DEVICE. */
static uint32_t find_free(const bool *taken, uint32_t devices, uint32_t size)
{
    uint32_t run = 0;
    for (uint32_t d = 0; d < devices; d++) {
        run = taken[d] ? 0 : run + 1;
        if (run == size)
            return d + 1 - size;
    }
    return NO_DEVICE;
}

/* Lost stages on devices that no other has; false where there are not so many. */
static bool move_to_free(const struct repair *r, struct sp_placement_record_stage *stages)
{
    const uint32_t devices = r->replan->of.cluster->device_count;
    bool *taken = SP_NEW_ARRAY(r->replan->arena, devices, bool);
    if (taken == NULL)
        return false;
    mark_taken(r, taken);
    for (uint32_t s = 0; s < r->old->placement->stage_count; s++) {
        if (stages[s].replicas > 0)
            continue;
        stages[s].device = find_free(taken, devices, stages[s].size);
        if (stages[s].device == NO_DEVICE)
            return false;
        stages[s].replicas = 1;
        for (uint32_t d = 0; d < stages[s].size; d++)
            taken[stages[s].device + d] = true;
    }
    return true;
}

static enum sp_status try_free(struct repair *r)
{
    const uint32_t count = r->old->placement->stage_count;
    struct sp_placement_record_stage *stages = SP_NEW_ARRAY(r->replan->arena, count, struct sp_placement_record_stage);
    if (stages == NULL)
        return sp_fail_memory(r->err);
    memcpy(stages, r->stages, count * sizeof *stages);
    return move_to_free(r, stages)
               ? try_plan(r,
                          (struct sp_placement_record){
                              .stage_count = count, .stages = stages, .stage_of = r->old->placement->stage_of},
                          SP_REPLAN_REPAIRED)
               : SP_OK;
}

/* Whether a stage's nodes can run on the devices of another as they are split. */
static bool has_same_mesh(const struct repair *r, uint32_t a, uint32_t b)
{
    const struct sp_placement_record_stage *x = &r->stages[a], *y = &r->stages[b];
    return b < r->old->placement->stage_count && y->replicas > 0 && x->size == y->size && x->share_count == 0 &&
           y->share_count == 0 && x->axis_count == y->axis_count &&
           memcmp(x->axes, y->axes, x->axis_count * sizeof *x->axes) == 0;
}

/* The first nodes of the one lost stage go to the stage before it, the others to the one behind: at several places. */
static enum sp_status share_out(struct repair *r)
{
    const struct sp_placement *placement = r->old->placement;
    const uint32_t nodes = r->replan->of.workload->node_count, count = placement->stage_count, lost = r->lost;
    const bool has_before = lost > 0 && has_same_mesh(r, lost, lost - 1);
    const bool has_behind = has_same_mesh(r, lost, lost + 1);
    uint32_t *stage_of = SP_NEW_ARRAY(r->replan->arena, nodes, uint32_t), own = 0;
    struct sp_placement_record_stage *stages = SP_NEW_ARRAY(r->replan->arena, count, struct sp_placement_record_stage);
    if (stage_of == NULL || stages == NULL)
        return sp_fail_memory(r->err);
    if (placement->shares_devices || r->lost_count != 1 || (!has_before && !has_behind))
        return SP_OK;
    for (uint32_t s = 0, at = 0; s < count; s++) {
        if (s != lost)
            stages[at++] = r->stages[s];
    }
    for (uint32_t n = 0; n < nodes; n++)
        own += placement->stage_of[n] == lost;
    const uint32_t parts =
        has_before && has_behind ? own < SP_REPLAN_REPAIRED_MOST - 2 ? own : SP_REPLAN_REPAIRED_MOST - 2 : 0;
    enum sp_status status = SP_OK;
    for (uint32_t part = 0; status == SP_OK && part <= parts; part++) {
        /* So many of its nodes go to the stage before. */
        const uint32_t first = parts > 0 ? (uint32_t)((uint64_t)own * part / parts) : has_before ? own : 0;
        uint32_t seen = 0;
        for (uint32_t n = 0; n < nodes; n++) {
            const uint32_t s = placement->stage_of[n];
            stage_of[n] = s < lost ? s : s > lost ? s - 1 : seen++ < first ? lost - 1 : lost;
        }
        status =
            try_plan(r, (struct sp_placement_record){.stage_count = count - 1, .stages = stages, .stage_of = stage_of},
                     SP_REPLAN_REPAIRED);
    }
    return status;
}

/* The routes whose devices are all there; the others' requests are theirs. */
static enum sp_status try_routes(struct repair *r)
{
    const struct sp_routed *old = r->old->routes;
    const uint32_t nodes = r->replan->of.workload->node_count;
    struct sp_arena *arena = r->replan->arena;
    struct sp_route *routes = SP_NEW_ARRAY(arena, old->route_count, struct sp_route);
    uint32_t *stage_of = SP_NEW_ARRAY(arena, nodes, uint32_t), kept = 0;
    double shares = 0;
    r->seat_of = find_seats(r, false);
    if (routes == NULL || stage_of == NULL || r->seat_of == NULL)
        return sp_fail_memory(r->err);
    for (uint32_t i = 0; i < old->route_count; i++) {
        const struct sp_route *route = &old->routes[i];
        uint32_t *devices = SP_NEW_ARRAY(arena, route->count, uint32_t);
        uint32_t *ends = SP_NEW_ARRAY(arena, route->count, uint32_t); /* of its own: the new plan outlives the old */
        bool is_there = true;
        if (devices == NULL || ends == NULL)
            return sp_fail_memory(r->err);
        for (uint32_t h = 0; h < route->count; h++) {
            ends[h] = route->ends[h];
            devices[h] = r->seat_of[route->devices[h]];
            is_there = is_there && devices[h] != NO_DEVICE;
        }
        if (!is_there)
            continue;
        routes[kept++] = (struct sp_route){route->share, route->count, devices, ends};
        shares += route->share;
    }
    if (kept == 0)
        return SP_OK;
    for (uint32_t i = 0; i < kept; i++)
        routes[i].share /= shares;
    struct sp_placement_record_stage *stages = SP_NEW_ARRAY(arena, routes[0].count, struct sp_placement_record_stage);
    if (stages == NULL)
        return sp_fail_memory(r->err);
    for (uint32_t s = 0, n = 0; s < routes[0].count; s++) {
        stages[s] = (struct sp_placement_record_stage){.device = routes[0].devices[s], .size = 1, .replicas = 1};
        while (n < routes[0].ends[s] && n < nodes)
            stage_of[n++] = s;
    }
    return try_plan(r,
                    (struct sp_placement_record){.stage_count = routes[0].count,
                                                 .stages = stages,
                                                 .stage_of = stage_of,
                                                 .route_count = kept,
                                                 .routes = routes},
                    kept == old->route_count ? SP_REPLAN_STAY : SP_REPLAN_REPAIRED);
}

enum sp_status sp_replan_repair(struct sp_replan *replan, struct sp_replan_plan *ret_plans, uint32_t *ret_count,
                                struct sp_error *err)
{
    struct repair r = {
        .replan = replan, .old = &replan->past->placed, .is_whole = true, .plans = ret_plans, .err = err};
    const uint32_t count = r.old->placement->stage_count;
    bool is_same;
    *ret_count = 0;
    r.stages = SP_NEW_ARRAY(replan->arena, count, struct sp_placement_record_stage);
    if (r.stages == NULL)
        return sp_fail_memory(err);
    enum sp_status status = take_nodes(&r, &is_same);
    if (status != SP_OK || !is_same)
        return status;
    if (r.old->routes != NULL) {
        status = try_routes(&r);
        *ret_count = r.count;
        return status;
    }
    for (uint32_t round = 0; round < 2 && (round == 0 || !r.is_whole); round++) {
        r.seat_of = find_seats(&r, round > 0);
        r.lost_count = 0;
        if (r.seat_of == NULL || !map_copies(&r))
            return sp_fail_memory(err);
        for (uint32_t s = 0; s < count; s++)
            map_stage(&r, s);
    }
    if (r.lost_count == 0) {
        status = try_plan(&r,
                          (struct sp_placement_record){.stage_count = count,
                                                       .stages = r.stages,
                                                       .copies = r.copies,
                                                       .copy_device = r.copy_device,
                                                       .stage_of = r.old->placement->stage_of},
                          r.is_whole ? SP_REPLAN_STAY : SP_REPLAN_REPAIRED);
    } else {
        status = try_free(&r);
        if (status == SP_OK)
            status = share_out(&r);
    }
    *ret_count = r.count;
    return status;
}
