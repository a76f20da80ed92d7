/* The plans that may be the answer, and which of them is. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "plan/replan/internal.h"
#include "search/joint/pareto_front.h"
#include "search/joint/run/near_best.h"

#define INSTANT  1e-12 /* seconds: a horizon of 0 is one that is shorter than any message */
#define ROUNDING 1e-9  /* share by which sums that are equal may differ */

const char *sp_replan_choice_name(enum sp_replan_choice choice)
{
    static const char *const names[] = {[SP_REPLAN_FRESH] = "fresh",
                                        [SP_REPLAN_SEEN] = "seen",
                                        [SP_REPLAN_STAY] = "stay",
                                        [SP_REPLAN_REPAIRED] = "repaired"};
    return names[choice];
}

/* ---- weighing --------------------------------------------------------------------------------------------------- */

static double value_of(enum sp_objective objective, const struct sp_evaluation *evaluation, uint32_t devices)
{
    switch (objective) {
    case SP_OBJECTIVE_LATENCY:
        return evaluation->latency_seconds;
    case SP_OBJECTIVE_DEVICES:
        return devices;
    default:
        return evaluation->interval_seconds;
    }
}

static double horizon(const struct sp_replan *replan)
{
    return fmax(replan->terms->horizon_seconds, INSTANT);
}

static enum sp_status find_moves(struct sp_replan *replan, const struct sp_replan_plan *plan, struct sp_arena *arena,
                                 bool lists, struct sp_moves *ret_moves, struct sp_error *err)
{
    const struct sp_placed placed = {replan->of.workload, plan->placement, plan->sharded, plan->routes};
    struct sp_arena *scratch = sp_arena_create(sp_arena_budget(replan->arena));
    struct sp_weight_parts now;
    enum sp_status status =
        scratch != NULL ? sp_weight_parts(scratch, replan->boxes, &placed, &now, err) : sp_fail_memory(err);
    if (status == SP_OK)
        status = sp_moves_find(arena, &replan->moving, &now, lists, ret_moves, err);
    sp_arena_destroy(scratch);
    return status;
}

enum sp_status sp_replan_weigh(struct sp_replan *replan, struct sp_replan_plan *plan, struct sp_error *err)
{
    struct sp_arena_mark mark = sp_arena_mark(replan->arena);
    struct sp_moves moves;
    plan->value = value_of(replan->of.options->objective, plan->evaluation, plan->devices_used);
    enum sp_status status = find_moves(replan, plan, replan->arena, false, &moves, err);
    sp_arena_rewind(replan->arena, mark);
    if (status != SP_OK)
        return status;
    plan->seconds = moves.seconds;
    plan->bytes = moves.bytes;
    plan->score = plan->value * (horizon(replan) + moves.seconds);
    return SP_OK;
}

/* ---- plans of the search ---------------------------------------------------------------------------------------- */

static double most_score(const struct sp_replan *replan)
{
    return replan->best_score * (1 + replan->of.options->tolerance + ROUNDING);
}

/* Seconds between requests, where the objective is the number of devices: what is near the best then. */
static double interval_score(const struct sp_replan *replan, const struct sp_replan_plan *plan)
{
    return plan->evaluation->interval_seconds * (horizon(replan) + plan->seconds);
}

/* Whether `a` is the answer before `b`, both being near the best; 0: they are equal. */
static int compare_plans(const struct sp_replan *replan, const struct sp_replan_plan *a, const struct sp_replan_plan *b)
{
    const double keys[2][5] = {
        {a->choice != SP_REPLAN_STAY, a->devices_used, a->seconds, a->score, interval_score(replan, a)},
        {b->choice != SP_REPLAN_STAY, b->devices_used, b->seconds, b->score, interval_score(replan, b)},
    };
    for (size_t i = 0; i < 5; i++) {
        const double slack = ROUNDING * fmax(keys[0][i], keys[1][i]);
        if (keys[0][i] < keys[1][i] - slack || keys[0][i] > keys[1][i] + slack)
            return keys[0][i] < keys[1][i] ? -1 : 1;
    }
    return 0;
}

/* Whether `a` is the answer whenever `b` might be. */
static bool covers(const struct sp_replan *replan, const struct sp_replan_plan *a, const struct sp_replan_plan *b)
{
    return a->devices_used <= b->devices_used && a->seconds <= b->seconds && a->score <= b->score &&
           interval_score(replan, a) <= interval_score(replan, b);
}

/* Remembers a plan while it may be the answer. */
static bool keep(struct sp_replan *replan, const struct sp_replan_plan *plan)
{
    uint32_t kept = 0;
    if (plan->score > most_score(replan))
        return false;
    for (uint32_t i = 0; i < replan->count; i++) {
        if (covers(replan, &replan->plans[i], plan))
            return false;
    }
    replan->best_score = fmin(replan->best_score, plan->score);
    for (uint32_t i = 0; i < replan->count; i++) {
        if (replan->plans[i].score <= most_score(replan) && !covers(replan, plan, &replan->plans[i]))
            replan->plans[kept++] = replan->plans[i];
    }
    replan->count = kept;
    if (kept < SP_REPLAN_KEPT) {
        replan->plans[replan->count++] = *plan;
        return true;
    }
    uint32_t worst = 0;
    for (uint32_t i = 1; i < kept; i++)
        worst = replan->plans[i].score > replan->plans[worst].score ? i : worst;
    if (replan->plans[worst].score <= plan->score)
        return false;
    replan->plans[worst] = *plan;
    return true;
}

/* The search's own placement is of the contraction. */
static const struct sp_placement *expand(struct sp_replan *replan, const struct sp_placement *placement)
{
    const struct sp_contraction *contraction = replan->of.contraction;
    return contraction->workload == replan->of.workload
               ? placement
               : sp_contraction_expand(replan->arena, contraction, replan->of.workload, placement);
}

static enum sp_status hear(void *context, const struct sp_seen_plan *seen, bool *ret_keep, struct sp_error *err)
{
    struct sp_replan *replan = context;
    struct sp_arena_mark mark = sp_arena_mark(replan->arena);
    struct sp_replan_plan plan = {.evaluation = (struct sp_evaluation *)(uintptr_t)seen->evaluation,
                                  .sharded = (struct sp_sharded_stage *)(uintptr_t)seen->sharded,
                                  .routes = seen->routes,
                                  .strategy = seen->strategy,
                                  .devices_used = seen->devices_used,
                                  .choice = SP_REPLAN_SEEN};
    plan.value = value_of(replan->of.options->objective, plan.evaluation, plan.devices_used);
    *ret_keep = false;
    if (plan.value * horizon(replan) > most_score(replan))
        return SP_OK;
    plan.placement = expand(replan, seen->placement);
    enum sp_status status = plan.placement != NULL ? sp_replan_weigh(replan, &plan, err) : sp_fail_memory(err);
    if (status == SP_OK)
        *ret_keep = keep(replan, &plan);
    if (!*ret_keep)
        sp_arena_rewind(replan->arena, mark);
    return status;
}

const struct sp_plan_listener *sp_replan_listener(const struct sp_replan *replan)
{
    return &replan->listener;
}

/* ---- the past --------------------------------------------------------------------------------------------------- */

static enum sp_status wrong_map(struct sp_error *err, const char *what, int64_t number)
{
    return sp_fail(
        err, SP_ERR_REQUEST, "REPLAN_MAP",
        "The map of devices %s (%lld): it says for each device of the plan's cluster which number it has in the "
        "new one, each number once, and null where it is lost.",
        what, (long long)number);
}

/* The map of the request: of devices as the two clusters are described. */
static enum sp_status take_map(const struct sp_replan *replan, uint32_t *map, struct sp_error *err)
{
    const struct sp_replan_terms *terms = replan->terms;
    const struct sp_cluster *now = replan->of.cluster, *before = replan->past->cluster;
    bool *taken = SP_NEW_ARRAY(replan->arena, now->device_count, bool);
    if (taken == NULL)
        return sp_fail_memory(err);
    if (terms->map_count != sp_cluster_described(before))
        return wrong_map(err, "has another number of devices than the plan's cluster", terms->map_count);
    for (uint32_t i = 0; i < terms->map_count; i++) {
        const int64_t number = terms->map[i];
        const uint32_t device = sp_cluster_numbered(before, i);
        const uint32_t seat = number < 0                ? SP_NO_HOLDER
                              : number < SP_MAX_DEVICES ? sp_cluster_numbered(now, (uint32_t)number)
                                                        : UINT32_MAX;
        if (number >= 0 && seat == UINT32_MAX)
            return wrong_map(err, "names a device that the new cluster does not have", number);
        if (seat != SP_NO_HOLDER && taken[seat])
            return wrong_map(err, "names a device twice", number);
        if (seat != SP_NO_HOLDER)
            taken[seat] = true;
        if (device != UINT32_MAX)
            map[device] = seat;
    }
    return SP_OK;
}

/* Devices that are left out of the same description are those that are lost, or were not there. */
static bool leaves_out(const struct sp_cluster *now, const struct sp_cluster *before)
{
    return sp_cluster_described(now) == sp_cluster_described(before) &&
           (now->device_count < sp_cluster_described(now) || before->device_count < sp_cluster_described(before));
}

static enum sp_status find_map(struct sp_replan *replan, struct sp_error *err)
{
    const struct sp_cluster *now = replan->of.cluster, *before = replan->past->cluster;
    if (replan->terms->map == NULL && !leaves_out(now, before))
        return SP_OK;
    uint32_t *map = SP_NEW_ARRAY(replan->arena, before->device_count, uint32_t);
    if (map == NULL)
        return sp_fail_memory(err);
    replan->map = map;
    for (uint32_t d = 0; d < before->device_count; d++)
        map[d] = sp_cluster_numbered(now, sp_cluster_number(before, d));
    return replan->terms->map != NULL ? take_map(replan, map, err) : SP_OK;
}

/* What the devices of before hold, as holders of the fleet. */
static enum sp_status take_past(struct sp_replan *replan, struct sp_box_memory *boxes, struct sp_error *err)
{
    const struct sp_past *past = replan->past;
    struct sp_weight_parts *before = &replan->before;
    enum sp_status status = sp_weight_parts(replan->arena, boxes, &past->placed, before, err);
    uint32_t kept = 0;
    for (uint32_t i = 0; status == SP_OK && replan->map != NULL && i < before->count; i++) {
        const uint32_t seat = replan->map[before->items[i].device];
        if (seat == SP_NO_HOLDER)
            continue;
        before->items[kept] = before->items[i];
        before->items[kept++].device = seat;
    }
    if (replan->map != NULL)
        before->count = kept;
    if (status == SP_OK)
        status = sp_weight_parts_renumber(replan->arena, past->placed.workload, replan->of.workload, before, err);
    if (status != SP_OK)
        return status;
    replan->moving = (struct sp_moving){.workload = replan->of.workload,
                                        .fleet = {.now = replan->of.cluster,
                                                  .before = replan->map != NULL ? replan->of.cluster : past->cluster,
                                                  .is_known = replan->map != NULL},
                                        .before = before};
    replan->moving.held_bytes =
        sp_held_bytes(replan->arena, replan->of.workload, before, replan->moving.fleet.before->device_count);
    return replan->moving.held_bytes != NULL ? SP_OK : sp_fail_memory(err);
}

enum sp_status sp_replan_create(struct sp_arena *arena, const struct sp_replanned *of, const struct sp_past *past,
                                const struct sp_replan_terms *terms, struct sp_replan **ret_replan,
                                struct sp_error *err)
{
    struct sp_replan *replan = SP_NEW(arena, struct sp_replan);
    if (replan == NULL)
        return sp_fail_memory(err);
    *replan = (struct sp_replan){
        .arena = sp_arena_child(arena), .of = *of, .past = past, .terms = terms, .best_score = INFINITY};
    replan->listener = (struct sp_plan_listener){replan, hear};
    replan->boxes = sp_box_memory_create(arena);
    struct sp_box_memory *boxes = sp_box_memory_create(arena); /* of the tables of before */
    if (replan->arena == NULL || replan->boxes == NULL || boxes == NULL)
        return sp_fail_memory(err);
    enum sp_status status = find_map(replan, err);
    if (status == SP_OK)
        status = take_past(replan, boxes, err);
    if (status == SP_OK)
        *ret_replan = replan;
    return status;
}

/* ---- the answer ------------------------------------------------------------------------------------------------- */

struct choosing {
    struct sp_replan *replan;
    uint32_t count;
    struct sp_replan_plan plans[SP_REPLAN_KEPT + SP_REPLAN_REPAIRED_MOST + 2]; /* those that are preferred first */
    struct sp_error *err;
};

static enum sp_status add(struct choosing *c, struct sp_replan_plan *plan)
{
    enum sp_status status = sp_replan_weigh(c->replan, plan, c->err);
    if (status == SP_OK)
        c->plans[c->count++] = *plan;
    return status;
}

/* What the search found, as its answer is. */
static struct sp_replan_plan plan_of(const struct sp_search_result *result)
{
    return (struct sp_replan_plan){.placement = &result->placement,
                                   .sharded = (struct sp_sharded_stage *)(uintptr_t)result->sharded,
                                   .routes = result->routes,
                                   .evaluation = result->evaluation,
                                   .strategy = result->strategy,
                                   .devices_used = result->evaluation->device_count,
                                   .choice = SP_REPLAN_FRESH};
}

static const struct sp_replan_plan *best_of(struct choosing *c)
{
    struct sp_replan *replan = c->replan;
    const struct sp_replan_plan *best = NULL;
    double least = INFINITY;
    replan->best_score = INFINITY;
    for (uint32_t i = 0; i < c->count; i++)
        replan->best_score = fmin(replan->best_score, c->plans[i].score);
    for (uint32_t i = 0; i < c->count && replan->of.options->objective == SP_OBJECTIVE_DEVICES; i++) {
        if (c->plans[i].score <= most_score(replan))
            least = fmin(least, interval_score(replan, &c->plans[i]));
    }
    least *= 1 + replan->of.options->tolerance + ROUNDING;
    for (uint32_t i = 0; i < c->count; i++) {
        const struct sp_replan_plan *plan = &c->plans[i];
        if (plan->score <= most_score(replan) && interval_score(replan, plan) <= least &&
            (best == NULL || compare_plans(replan, plan, best) < 0))
            best = plan;
    }
    return best;
}

static enum sp_status figures_of(struct choosing *c, const struct sp_replan_plan *plan,
                                 struct sp_replan_figures *ret_figures)
{
    *ret_figures =
        (struct sp_replan_figures){.description = sp_front_describe(c->replan->arena, plan->placement, plan->routes),
                                   .latency_seconds = plan->evaluation->latency_seconds,
                                   .interval_seconds = plan->evaluation->interval_seconds,
                                   .devices_used = plan->devices_used,
                                   .bytes = plan->bytes,
                                   .seconds = plan->seconds};
    return ret_figures->description != NULL ? SP_OK : sp_fail_memory(c->err);
}

/* From which horizon on `plan` is better than the plan of before: value (h + T) is less. */
static double break_even(const struct sp_replan_plan *plan, const struct sp_replan_plan *stay)
{
    const double gain = stay->value - plan->value;
    if (gain <= ROUNDING * stay->value)
        return INFINITY;
    return fmax(0, (plan->value * plan->seconds - stay->value * stay->seconds) / gain);
}

/* Devices of the answer, and those that they were. */
static enum sp_status name_devices(struct choosing *c, struct sp_migration *migration)
{
    const struct sp_replan *replan = c->replan;
    const uint32_t devices = replan->of.cluster->device_count;
    uint32_t *numbers = SP_NEW_ARRAY(replan->arena, devices, uint32_t);
    int64_t *was = SP_NEW_ARRAY(replan->arena, devices, int64_t), *of = SP_NEW_ARRAY(replan->arena, devices, int64_t);
    if (numbers == NULL || was == NULL || of == NULL)
        return sp_fail_memory(c->err);
    for (uint32_t d = 0; d < devices; d++)
        of[d] = -1;
    for (uint32_t i = 0; replan->map != NULL && i < replan->past->cluster->device_count; i++) {
        if (replan->map[i] != SP_NO_HOLDER)
            of[replan->map[i]] = i;
    }
    for (uint32_t d = 0; d < devices; d++) {
        const uint32_t holder = migration->moves.seats[d].holder;
        numbers[d] = holder == SP_NO_HOLDER ? holder : sp_cluster_number(replan->of.cluster, holder);
        was[d] = holder == SP_NO_HOLDER ? -1 : replan->moving.fleet.is_known ? of[holder] : (int64_t)holder;
        was[d] = was[d] < 0 ? -1 : (int64_t)sp_cluster_number(replan->past->cluster, (uint32_t)was[d]);
    }
    migration->numbers = replan->moving.fleet.is_known ? numbers : NULL;
    migration->was = was;
    return SP_OK;
}

/* Whether each device has room for what it had and what it gets; what is too much may be in the memory of its host, as no
   request is served meanwhile. */
static enum sp_status find_room(struct choosing *c, const struct sp_moves *moves, bool *ret_fits)
{
    const struct sp_cluster *cluster = c->replan->of.cluster;
    double *beside = SP_NEW_ARRAY(c->replan->arena, cluster->host_count, double); /* per host: what it has to take */
    if (beside == NULL)
        return sp_fail_memory(c->err);
    *ret_fits = true;
    for (uint32_t d = 0; d < cluster->device_count; d++) {
        const struct sp_seat *seat = &moves->seats[d];
        const struct sp_cluster_host *host = sp_cluster_host(cluster, d);
        const double bytes = seat->kept_bytes + seat->freed_bytes + seat->received_bytes;
        const double excess = fmax(0, bytes - sp_cluster_memory(cluster, d));
        if (host != NULL)
            beside[cluster->host_of[d]] += excess;
        if (host != NULL ? beside[cluster->host_of[d]] > host->memory_bytes : excess > 0)
            *ret_fits = false;
    }
    return SP_OK;
}

static double front_value(enum sp_objective objective, const struct sp_front_plan *plan)
{
    const struct sp_evaluation figures = {.latency_seconds = plan->latency_seconds,
                                          .interval_seconds = plan->interval_seconds};
    return value_of(objective, &figures, plan->devices_used);
}

/* The plans that were found, and this one in its place among them. */
static enum sp_status list_front(struct choosing *c, const struct sp_replan_plan *plan,
                                 const struct sp_search_result *found, struct sp_search_result *answer)
{
    const enum sp_objective objective = c->replan->of.options->objective;
    const uint32_t count = found != NULL ? found->front_count : 0;
    struct sp_front_plan *front = SP_NEW_ARRAY(c->replan->arena, (size_t)count + 1, struct sp_front_plan);
    struct sp_joint_candidate candidate = {.placement = *plan->placement,
                                           .sharded = plan->sharded,
                                           .routed = plan->routes,
                                           .evaluation = plan->evaluation,
                                           .strategy = plan->strategy,
                                           .devices_used = plan->devices_used};
    struct sp_front_plan own;
    for (uint32_t s = 0; s < plan->evaluation->stage_count; s++)
        candidate.memory_bytes = fmax(candidate.memory_bytes, plan->evaluation->stages[s].total_bytes);
    for (uint32_t h = 0; plan->routes != NULL && h < plan->routes->holder_count; h++)
        candidate.memory_bytes = fmax(candidate.memory_bytes, plan->routes->holders[h].cost->total_bytes);
    if (front == NULL || !sp_near_describe(c->replan->arena, &candidate, &own))
        return sp_fail_memory(c->err);
    own.is_chosen = true;
    uint32_t at = 0;
    while (at < count && front_value(objective, &found->front[at]) <= plan->value)
        at++;
    for (uint32_t i = 0; i < count; i++) {
        front[i + (i >= at)] = found->front[i];
        front[i + (i >= at)].is_chosen = false;
    }
    front[at] = own;
    answer->front = front;
    answer->front_count = count + 1;
    /* Another one beside it is what the search alone would have answered. */
    for (uint32_t i = 0; i < count; i++) {
        if (found->front[i].is_chosen && strcmp(found->front[i].description, own.description) != 0)
            answer->second = &found->front[i];
    }
    if (answer->second != NULL && strcmp(answer->second->description, own.description) == 0)
        answer->second = NULL;
    return SP_OK;
}

/* The result of the search with another plan in it, and the tables of both. */
static enum sp_status take_over(struct choosing *c, const struct sp_replan_plan *plan, struct sp_search_result **result)
{
    struct sp_search_result *found = *result, *answer = SP_NEW(c->replan->arena, struct sp_search_result);
    const uint32_t tables = found != NULL ? found->table_count : 0;
    const uint32_t own = plan->owner != NULL ? plan->owner->table_count : 0;
    struct sp_strategy_table **all = SP_NEW_ARRAY(c->replan->arena, (size_t)tables + own, struct sp_strategy_table *);
    if (answer == NULL || all == NULL)
        return sp_fail_memory(c->err);
    assert(found != NULL || plan->owner != NULL); /* a plan that no search told of brings its own tables */
    *answer = found != NULL ? *found : *plan->owner;
    answer->placement = *plan->placement;
    answer->sharded = plan->sharded;
    answer->routes = plan->routes;
    answer->evaluation = plan->evaluation;
    answer->strategy = plan->strategy;
    answer->best = NULL;
    answer->is_proved = false; /* it is the best one with its moves, which nobody proved */
    enum sp_status status = list_front(c, plan, found, answer);
    if (status != SP_OK)
        return status;
    for (uint32_t i = 0; i < tables; i++) {
        all[i] = found->tables[i];
        found->tables[i] = NULL;
    }
    for (uint32_t i = 0; i < own; i++) {
        all[tables + i] = plan->owner->tables[i];
        plan->owner->tables[i] = NULL;
    }
    answer->tables = all;
    answer->table_count = tables + own;
    *result = answer;
    return SP_OK;
}

/* All plans, weighed; the fresh one and the one of before first where they are. */
static enum sp_status list_plans(struct choosing *c, const struct sp_search_result *found,
                                 struct sp_migration *migration)
{
    struct sp_replan_plan repaired[SP_REPLAN_REPAIRED_MOST + 1];
    uint32_t count = 0;
    enum sp_status status = sp_replan_repair(c->replan, repaired, &count, c->err);
    for (uint32_t i = 0; status == SP_OK && i < count; i++)
        status = add(c, &repaired[i]);
    for (uint32_t i = 0; i < count; i++) { /* they are released where they are not weighed, too */
        if (i >= c->count)
            sp_search_result_release(repaired[i].owner);
    }
    if (status == SP_OK && count > 0 && c->plans[0].choice == SP_REPLAN_STAY)
        status = figures_of(c, &c->plans[0], &migration->stay);
    if (status != SP_OK || found == NULL)
        return status;
    struct sp_replan_plan fresh = plan_of(found);
    status = add(c, &fresh);
    if (status == SP_OK)
        status = figures_of(c, &fresh, &migration->fresh);
    for (uint32_t i = 0; status == SP_OK && i < c->replan->count; i++)
        c->plans[c->count++] = c->replan->plans[i];
    return status;
}

enum sp_status sp_replan_choose(struct sp_replan *replan, struct sp_search_result **result,
                                struct sp_migration **ret_migration, struct sp_error *err)
{
    struct choosing c = {.replan = replan, .err = err};
    struct sp_migration *migration = SP_NEW(replan->arena, struct sp_migration);
    *ret_migration = NULL;
    if (migration == NULL)
        return sp_fail_memory(err);
    *migration = (struct sp_migration){.terms = replan->terms, .break_even_seconds = INFINITY};
    enum sp_status status = list_plans(&c, *result, migration);
    const struct sp_replan_plan *best = status == SP_OK ? best_of(&c) : NULL;
    if (status == SP_OK && best != NULL) {
        migration->choice = best->choice;
        status = find_moves(replan, best, replan->arena, true, &migration->moves, err);
        if (status == SP_OK)
            status = name_devices(&c, migration);
        if (status == SP_OK)
            status = find_room(&c, &migration->moves, &migration->fits_beside);
        if (status == SP_OK && migration->stay.description != NULL && best->choice != SP_REPLAN_STAY)
            migration->break_even_seconds = break_even(best, &c.plans[0]);
        if (status == SP_OK && best->choice != SP_REPLAN_FRESH)
            status = take_over(&c, best, result);
        if (status == SP_OK)
            *ret_migration = migration;
    }
    for (uint32_t i = 0; i < c.count; i++)
        sp_search_result_release(c.plans[i].owner); /* what was taken over has none left */
    return status;
}
