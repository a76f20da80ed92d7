#include "search/joint/joint.h"

#include <string.h>

#include "search/joint/any_sets.h"
#include "search/joint/blocking_constraint.h"
#include "search/joint/bounds.h"
#include "search/joint/exhaustive.h"
#include "search/joint/run/run.h"
#include "search/joint/violations.h"

#define FEW_UNITS 16 /* to cut stages from: looking through them for each objective takes no time */

static const char *const strategy_names[] = {"auto", "grouping", "pipeline", "tensor", "routes"};

const char *sp_search_strategy_name(enum sp_search_strategy strategy)
{
    return strategy_names[strategy];
}

bool sp_search_strategy_parse(const char *name, enum sp_search_strategy *ret_strategy)
{
    for (size_t i = 0; i < sizeof strategy_names / sizeof strategy_names[0]; i++) {
        if (strcmp(name, strategy_names[i]) != 0)
            continue;
        *ret_strategy = (enum sp_search_strategy)i;
        return true;
    }
    return false;
}

void sp_joint_options_init(struct sp_joint_options *options)
{
    memset(options, 0, sizeof *options);
    options->objective = SP_OBJECTIVE_THROUGHPUT;
    options->optimal = true;
    options->max_replicas = options->max_copies = 1;
}

static bool tick(void *context, const char *phase, double fraction, double best_seconds, double lower_bound_seconds)
{
    struct sp_search_run *search = context;
    (void)phase;
    (void)fraction;
    (void)lower_bound_seconds;
    if (search->groups && best_seconds > 0)
        search->best_seconds = best_seconds;
    return sp_watch_tick(search->outer, "search", search->fraction, search->best_seconds, search->bound_seconds);
}

/* Whether requests may take several routes: where devices are equal, replicas do as well. */
static bool finds_routes(const struct sp_search_run *search)
{
    const struct sp_joint_options *options = search->joint.options;
    const bool may = !options->skips_routes && options->objective == SP_OBJECTIVE_THROUGHPUT &&
                     options->constraints == NULL && options->max_replicas == 1 && !options->any_sets;
    return may && (search->asks_routes || (options->strategy == SP_STRATEGY_AUTO && !options->any_plan &&
                                           options->optimal && search->joint.space->class_count > 1));
}

static enum sp_status start(struct sp_search_run *search)
{
    struct sp_joint *joint = &search->joint;
    const enum sp_search_strategy strategy = joint->options->strategy;
    const bool splits = joint->dataflow != NULL && strategy != SP_STRATEGY_PIPELINE && strategy != SP_STRATEGY_GROUPING;
    enum sp_status status = sp_space_create(joint->arena, joint->workload, joint->cluster,
                                            splits ? joint->cluster->device_count : 1, &joint->space, search->err);
    if (status != SP_OK)
        return status;
    for (uint32_t i = 0; joint->options->skips_gathers && i < joint->space->option_count; i++)
        joint->space->options[i].mesh.gathers = false;
    if (joint->options->constraints != NULL)
        sp_space_forbid(joint->space, joint->options->constraints->level_count, joint->options->constraints->levels);
    const size_t most_options = SP_SPACE_MAX_OPTIONS + SP_SPACE_MAX_MESHES;
    joint->tables = SP_NEW_ARRAY(joint->arena, most_options, struct sp_strategy_table *);
    joint->own_tables = SP_NEW_ARRAY(joint->arena, most_options, struct sp_strategy_table *);
    search->profiles = SP_NEW_ARRAY(joint->arena, 3 * most_options, struct sp_model_choice *);
    search->plain = SP_NEW_ARRAY(joint->arena, 3 * most_options, struct sp_model_choice *);
    joint->evaluator = sp_joint_evaluator_create(joint->arena, joint->workload, joint->cluster);
    if (joint->tables == NULL || joint->own_tables == NULL || search->profiles == NULL || search->plain == NULL ||
        joint->evaluator == NULL)
        return sp_fail_memory(search->err);
    search->finds_routes = finds_routes(search);
    if (splits)
        status = sp_search_store_blocks(joint->store, &joint->blocks, search->err);
    return status;
}

/* The bound is told to whoever watches, from the beginning. */
static enum sp_status tell_bounds(struct sp_search_run *search)
{
    const enum sp_objective objective = search->joint.options->objective;
    if (search->outer == NULL || search->joint.options->any_plan)
        return SP_OK;
    enum sp_status status = sp_run_find_bounds(search);
    search->bound_seconds =
        objective == SP_OBJECTIVE_LATENCY ? search->bounds.latency_seconds : search->bounds.interval_seconds;
    return status;
}

static enum sp_status try_grouping(struct sp_search_run *search)
{
    struct sp_joint *joint = &search->joint;
    const enum sp_search_strategy strategy = joint->options->strategy;
    search->groups = strategy == SP_STRATEGY_GROUPING; /* else others judge its plans anew */
    enum sp_status status =
        sp_joint_group(joint, sp_run_stage_limit(search, 0), &search->grouping, &search->grouped, search->err);
    search->groups = false;
    if (status != SP_OK)
        return status;
    if (search->grouped->fits)
        return sp_run_take(search, search->grouped, strategy == SP_STRATEGY_PIPELINE ? strategy : SP_STRATEGY_GROUPING);
    sp_run_note_whole(search, search->grouped);
    return SP_OK;
}

/* Single nodes of the best plan of whole operators move between its stages. */
static enum sp_status move_nodes(struct sp_search_run *search)
{
    const struct sp_joint_candidate *whole = search->whole;
    struct sp_joint_candidate *moved;
    if (whole == NULL || whole->placement.stage_count < 2 || search->joint.options->constraints != NULL ||
        !sp_run_goes_on(search, 0.94))
        return SP_OK;
    enum sp_status status = sp_joint_move_nodes(&search->joint, whole, &moved, search->err);
    if (status == SP_OK && search->joint.options->strategy == SP_STRATEGY_GROUPING && moved->fits)
        search->front.count = search->joint.near_count = 0; /* of equally quick plans the one that sends less */
    return status == SP_OK ? sp_run_take(search, moved, whole->strategy) : status;
}

/* Tiny models: *ret_done where everything was tried and something fits. Not of finer shares or blocks with too many
   strategies, which may still be better. */
static enum sp_status try_everything(struct sp_search_run *search, bool *ret_done)
{
    struct sp_joint_candidate *best[SP_EXHAUST_BEST];
    bool tried;
    enum sp_status status = sp_joint_exhaust(&search->joint, sp_run_tries_shares(search), best, &tried, search->err);
    *ret_done = false;
    if (status != SP_OK || best[0] == NULL)
        return status;
    *ret_done = search->is_proved = tried && !sp_run_tries_shares(search);
    for (uint32_t i = 0; i < SP_EXHAUST_BEST && status == SP_OK; i++) {
        if (i == 0 || (best[i] != best[0] && best[i] != best[i - 1]))
            status = sp_run_take(search, best[i], search->joint.options->strategy);
    }
    return status;
}

/* Any sets of nodes on devices, beside the contiguous ones. */
static enum sp_status propose_any(struct sp_search_run *search)
{
    struct sp_joint_candidate *candidates[SP_ANY_CANDIDATES];
    uint32_t count = 0;
    if (!search->joint.options->any_sets || !sp_run_goes_on(search, 0.97))
        return SP_OK;
    search->is_proved = false;
    enum sp_status status = sp_run_find_bounds(search);
    if (status != SP_OK || (search->front.count > 0 &&
                            search->front.plans[0]->evaluation->interval_seconds <= search->bounds.interval_seconds))
        return status;
    status = sp_joint_propose_any(&search->joint, candidates, &count, &search->any_bound, search->err);
    for (uint32_t i = 0; i < count && status == SP_OK; i++)
        status = candidates[i]->fits ? sp_run_take_late(search, candidates[i], SP_STRATEGY_PIPELINE) : SP_OK;
    return status;
}

/* Under constraints nothing came of any proposal. */
static enum sp_status none_keeps(const struct sp_search_run *search)
{
    (void)sp_fail(search->err, SP_ERR_REQUEST, "CONSTRAINT_UNSUPPORTED",
                  "No plan was found that keeps all constraints.%s%s", search->violation.status == SP_OK ? "" : " ",
                  search->violation.status == SP_OK ? "" : search->violation.message);
    return sp_error_at(search->err, "%s", search->violation.status == SP_OK ? "" : search->violation.where);
}

/* Stages for the objective, of which each option's were proposed already; then for each other one, where none fits yet,
   plans were refused for their latency, or there are few units: what is found for one objective is a plan for all, and a
   better one now and then. With micro-batches a latency is most of all the interval, so many times. */
static enum sp_status propose_for_any(struct sp_search_run *search)
{
    static const enum sp_objective objectives[] = {SP_OBJECTIVE_THROUGHPUT, SP_OBJECTIVE_LATENCY, SP_OBJECTIVE_DEVICES};
    const bool are_few = search->joint.units->count <= FEW_UNITS;
    enum sp_status status = sp_run_propose_all(search, false);
    for (size_t i = 0; status == SP_OK && i < sizeof objectives / sizeof *objectives; i++) {
        const bool is_late = objectives[i] == SP_OBJECTIVE_LATENCY && search->least_latency > 0;
        const bool is_filled = objectives[i] == SP_OBJECTIVE_THROUGHPUT && search->joint.workload->micro_batches > 1 &&
                               search->options.objective == SP_OBJECTIVE_LATENCY;
        if (objectives[i] == search->options.objective ||
            (search->front.count > 0 && !are_few && !is_late && !is_filled) || !sp_run_goes_on(search, 0.93))
            continue;
        search->proposed = objectives[i];
        status = sp_run_propose_all(search, true);
    }
    search->proposed = search->options.objective;
    return status;
}

/* Where plans were refused for their latency: fewer and fewer stages, of which a request waits for less. */
static enum sp_status propose_quicker(struct sp_search_run *search)
{
    enum sp_status status = SP_OK;
    for (uint32_t most = search->joint.cluster->device_count / 2;
         most > 1 && search->least_latency > 0 && status == SP_OK && sp_run_goes_on(search, 0.93); most /= 2) {
        search->most_stages = most;
        status = sp_run_propose_all(search, true);
    }
    search->most_stages = 0;
    return status;
}

/* From profiles to stages, and what makes the best of them better. */
static enum sp_status search_stages(struct sp_search_run *search)
{
    enum sp_status (*const ways[])(struct sp_search_run *) = {propose_for_any,      propose_quicker,
                                                              sp_run_propose_parts, sp_run_propose_shares,
                                                              move_nodes,           sp_run_try_whole_on_further_meshes,
                                                              sp_run_polish,        sp_run_try_fewer_devices,
                                                              sp_run_look_beyond};
    enum sp_status status = SP_OK;
    for (size_t i = 0; status == SP_OK && i < sizeof ways / sizeof *ways; i++)
        status = sp_run_go_on_after(search, ways[i](search));
    return status;
}

static enum sp_status run(struct sp_search_run *search, struct sp_search_result **ret_result)
{
    const enum sp_search_strategy strategy = search->joint.options->strategy;
    enum sp_status status = start(search);
    bool done = false;
    if (status == SP_OK)
        status = tell_bounds(search);
    /* Ways that others are better than in everything are not tried: constraints might leave nothing of what is. */
    if (status == SP_OK && !sp_constraints_split(search->joint.options->constraints))
        status = sp_run_go_on_after(search, try_everything(search, &done));
    if (status == SP_OK && !done && strategy != SP_STRATEGY_TENSOR)
        status = sp_run_go_on_after(search, try_grouping(search));
    done = done || sp_run_is_enough(search);
    if (status == SP_OK && !done)
        status = sp_run_go_on_after(search, sp_run_find_first_routes(search));
    if (status == SP_OK && !done)
        status = sp_run_go_on_after(search, sp_run_make_profiles(search));
    if (status == SP_OK && search->profile_count > 0 && search->joint.units->count > 0)
        status = search_stages(search);
    if (status == SP_OK)
        status = sp_run_go_on_after(search, propose_any(search));
    if (status == SP_OK)
        status = sp_run_go_on_after(search, sp_run_try_routes(search));
    if (status == SP_OK || status == SP_ERR_CANCELLED) {
        enum sp_status taken = sp_run_take_first_routes(search);
        status = taken != SP_OK ? taken : status;
    }
    if (status != SP_OK && !(status == SP_ERR_CANCELLED && search->front.count > 0))
        return status;
    if (status == SP_ERR_CANCELLED) {
        search->joint.stopped = true;
        sp_error_clear(search->err);
    }
    if (search->front.count > 0)
        return sp_run_answer(search, ret_result);
    if (search->failure.status != SP_OK) {
        if (search->err != NULL)
            *search->err = search->failure;
        return search->failure.status;
    }
    if (search->joint.stopped)
        return sp_fail(search->err, SP_ERR_CANCELLED, "CANCELLED", "The search was cancelled.");
    const bool lacks = search->grouped != NULL && !search->grouped->fits;
    if (search->joint.options->constraints != NULL && (search->closest == NULL || search->least_latency > 0) &&
        (search->violation.status != SP_OK || !lacks))
        return none_keeps(search);
    return sp_joint_nofit(&search->joint, search->closest, lacks ? search->whole : NULL, search->err);
}

enum sp_status sp_joint_search_once(struct sp_arena *arena, const struct sp_workload *workload,
                                    const struct sp_dataflow *dataflow, const struct sp_cluster *cluster,
                                    const struct sp_joint_options *options, struct sp_search_result **ret_result,
                                    struct sp_error *err)
{
    struct sp_search_run search = {
        .joint = {.arena = arena, .workload = workload, .dataflow = dataflow, .cluster = cluster},
        .err = err,
        .options = *options,
        .outer = options->watch};
    struct sp_search_store *own = NULL;
    if (options->store == NULL || !sp_search_store_is_of(options->store, workload, dataflow)) {
        own = sp_search_store_create(sp_arena_budget(arena), workload, dataflow);
        if (own == NULL)
            return sp_fail_memory(err);
    }
    search.joint.store = own != NULL ? own : options->store;
    search.joint.options = &search.options;
    search.proposed = options->objective;
    if (options->strategy == SP_STRATEGY_GROUPING)
        search.options.max_replicas = search.options.max_copies = 1;
    if (options->strategy == SP_STRATEGY_TENSOR && workload->node_count == 0)
        search.options.strategy = SP_STRATEGY_PIPELINE; /* nothing to split: one stage of one device */
    if (options->strategy == SP_STRATEGY_ROUTES) {      /* one route is a pipeline */
        search.options.strategy = SP_STRATEGY_PIPELINE;
        search.asks_routes = true;
    }
    search.watch = (struct sp_watch){.tick = tick, .context = &search, .stop = sp_watch_stop(options->watch)};
    if (search.outer != NULL)
        search.options.watch = &search.watch;
    enum sp_status status = run(&search, ret_result);
    if (search.joint.stopped) /* perhaps by the flag alone: the watch is told that it cut something short */
        (void)tick(&search, "search", search.fraction, 0, 0);
    if (status == SP_OK) {
        (*ret_result)->store = own;
        return SP_OK;
    }
    for (uint32_t i = 0; search.joint.own_tables != NULL && i < search.joint.space->option_count; i++)
        sp_strategy_table_destroy(search.joint.own_tables[i]);
    sp_search_store_destroy(own);
    return status;
}

void sp_search_result_release(struct sp_search_result *result)
{
    for (uint32_t i = 0; result != NULL && i < result->table_count; i++) {
        sp_strategy_table_destroy(result->tables[i]);
        result->tables[i] = NULL;
    }
    if (result != NULL) {
        sp_search_store_destroy(result->store);
        result->store = NULL;
    }
}
