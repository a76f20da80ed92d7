#include "search/joint/joint.h"

#include <math.h>
#include <string.h>

#include "search/joint/any_sets.h"
#include "search/joint/blocking_constraint.h"
#include "search/joint/bounds.h"
#include "search/joint/exhaustive.h"
#include "search/joint/memory_peak.h"
#include "search/joint/mesh_variants.h"
#include "search/joint/pareto_front.h"
#include "search/joint/pinned/pinned.h"
#include "search/joint/rechoose.h"
#include "search/joint/violations.h"

#define WORTHWHILE      0.98 /* of the time on smaller blocks: what larger ones must be below */
#define DISAPPOINTMENTS 2    /* sizes in a row that are not, until no larger ones are tried */
#define MEMORY_SHARE    0.9  /* of all blocks' memory that a profile uses: stages are never equally full */

static const char *const strategy_names[] = {"auto", "grouping", "pipeline", "tensor"};

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
    options->max_replicas = 1;
}

/* ---- the search's state ----------------------------------------------------------------------------------------- */

struct search {
    struct sp_joint joint;
    struct sp_front front;
    uint32_t profile_count;
    struct sp_model_choice **profiles;         /* by option, at most two each */
    struct sp_units *units[2];                 /* for stages of single devices, for any */
    struct sp_joint_candidate *closest;        /* that does not fit, but lacks least */
    const struct sp_grouping_result *grouping; /* NULL: not tried */
    struct sp_joint_candidate *grouped;        /* the same as a candidate */
    struct sp_joint_candidate *whole;          /* the best of stages of one device each, or the one that lacks least */
    bool is_proved;                            /* every plan was tried */
    struct sp_error violation;                 /* of the last candidate that broke a constraint, or SP_OK */
    struct sp_error *err;

    /* What the caller's watch sees: the parts of the search count in units of their own, and begin again and again. */
    struct sp_joint_options options; /* of the caller, with a watch between */
    const struct sp_watch *outer;
    struct sp_watch watch;
    bool groups; /* in the search for groupings, which knows seconds */
    double fraction, best_seconds, bound_seconds;
    struct sp_lower_bounds bounds;
    bool has_bounds;
    double any_bound; /* of the interval, for any sets of nodes; 0: not known */
};

static bool tick(void *context, const char *phase, double fraction, double best_seconds, double lower_bound_seconds)
{
    struct search *search = context;
    (void)phase;
    (void)fraction;
    (void)lower_bound_seconds;
    if (search->groups && best_seconds > 0)
        search->best_seconds = best_seconds;
    return sp_watch_tick(search->outer, "search", search->fraction, search->best_seconds, search->bound_seconds);
}

static enum sp_status start(struct search *search)
{
    struct sp_joint *joint = &search->joint;
    const enum sp_search_strategy strategy = joint->options->strategy;
    const bool splits = joint->dataflow != NULL && strategy != SP_STRATEGY_PIPELINE && strategy != SP_STRATEGY_GROUPING;
    enum sp_status status = sp_space_create(joint->arena, joint->workload, joint->cluster,
                                            splits ? joint->cluster->device_count : 1, &joint->space, search->err);
    if (status != SP_OK)
        return status;
    if (joint->options->constraints != NULL)
        sp_space_forbid(joint->space, joint->options->constraints->level_count, joint->options->constraints->levels);
    const size_t most_options = SP_SPACE_MAX_OPTIONS + SP_SPACE_MAX_MESHES;
    joint->tables = SP_NEW_ARRAY(joint->arena, most_options, struct sp_strategy_table *);
    search->profiles = SP_NEW_ARRAY(joint->arena, 2 * most_options, struct sp_model_choice *);
    joint->evaluator = sp_joint_evaluator_create(joint->arena, joint->workload, joint->cluster);
    if (joint->tables == NULL || search->profiles == NULL || joint->evaluator == NULL)
        return sp_fail_memory(search->err);
    if (splits)
        status = sp_blocks_find(joint->arena, joint->workload, &joint->blocks, search->err);
    return status;
}

/* Whether a plan was found where any will do. */
static bool is_enough(const struct search *search)
{
    return search->joint.options->any_plan && search->front.count > 0;
}

/* Whether to go on; when the watch says no, what was found so far is the answer. */
static bool goes_on(struct search *search, double fraction)
{
    search->fraction = fmax(search->fraction, fraction);
    if (!search->joint.stopped && !sp_watch_tick(search->joint.options->watch, "search", 0, 0, 0))
        search->joint.stopped = true;
    return !search->joint.stopped && !is_enough(search);
}

/* Remembers the best plan whose stages are one device each; while none fits, the one that lacks least. */
static void note_whole(struct search *search, struct sp_joint_candidate *candidate)
{
    const struct sp_joint_candidate *known = search->whole;
    const struct sp_placement *placement = &candidate->placement;
    for (uint32_t s = 0; s < placement->stage_count; s++) {
        if (sp_placement_size(placement, s) * sp_placement_replicas(placement, s) != 1)
            return;
    }
    if (known == NULL || (candidate->fits && !known->fits) ||
        (candidate->fits
             ? sp_front_better(search->joint.options->objective, candidate, known)
             : !known->fits && candidate->evaluation->worst_excess_bytes < known->evaluation->worst_excess_bytes))
        search->whole = candidate;
}

static enum sp_status take(struct search *search, struct sp_joint_candidate *candidate,
                           enum sp_search_strategy strategy)
{
    const struct sp_joint *joint = &search->joint;
    candidate->strategy = strategy;
    if (joint->options->constraints != NULL) {
        struct sp_error violation = {0};
        enum sp_status status =
            sp_constraints_violation(joint->arena, joint->options->constraints, joint->workload, joint->cluster,
                                     &candidate->placement, candidate->sharded, &violation);
        if (status == SP_ERR_MEMORY)
            return sp_fail_memory(search->err);
        if (status != SP_OK) {
            search->violation = violation;
            return SP_OK;
        }
    }
    note_whole(search, candidate);
    if (candidate->fits) {
        if (!sp_front_add(&search->joint, &search->front, candidate))
            return sp_fail_memory(search->err);
        const struct sp_evaluation *best = search->front.plans[0]->evaluation;
        search->best_seconds =
            joint->options->objective == SP_OBJECTIVE_LATENCY ? best->latency_seconds : best->interval_seconds;
        return SP_OK;
    }
    if (search->closest == NULL ||
        candidate->evaluation->worst_excess_bytes < search->closest->evaluation->worst_excess_bytes)
        search->closest = candidate;
    return sp_front_note_short_of_memory(&search->joint, candidate) ? SP_OK : sp_fail_memory(search->err);
}

/* ---- profiles --------------------------------------------------------------------------------------------------- */

/* One without a limit; where that needs more than all blocks have together, another one within that. */
static enum sp_status profile_option(struct search *search, const struct sp_space_option *option)
{
    struct sp_joint *joint = &search->joint;
    const struct sp_space_class *class = &joint->space->classes[option->class_index];
    struct sp_profile_request request = {.workload = joint->workload,
                                         .option = option,
                                         .blocks = joint->blocks,
                                         .constraints = joint->options->constraints,
                                         .memory_limit = INFINITY,
                                         .seed = joint->options->seed,
                                         .choice_work = SP_JOINT_CHOICE_WORK,
                                         .executor = joint->options->executor,
                                         .watch = joint->options->watch};
    struct sp_model_choice *profile = NULL;
    enum sp_status status = sp_joint_table(joint, option, &request.table, search->err);
    if (status == SP_OK)
        status = sp_profile_create(joint->arena, &request, &profile, search->err);
    if (status != SP_OK || profile == NULL)
        return status;
    search->profiles[search->profile_count++] = profile;
    const uint32_t blocks = class->count / option->size;
    request.memory_limit = MEMORY_SHARE * class->capacity * blocks;
    if (request.table == NULL || profile->total_weight_bytes + profile->peak_bytes <= request.memory_limit)
        return SP_OK;
    status = sp_profile_create(joint->arena, &request, &profile, search->err);
    if (status == SP_OK && profile != NULL)
        search->profiles[search->profile_count++] = profile;
    return status;
}

/* Sizes of blocks of one class, ascending: what larger ones have brought so far. */
struct growth {
    uint32_t class_index;
    double least_seconds;  /* of the whole model on one block */
    uint32_t disappointed; /* sizes in a row that were not quicker than smaller ones */
    bool fits;             /* the whole model on one block, of some size */
};

static void note_growth(const struct sp_joint *joint, const struct sp_model_choice *profile, struct growth *growth)
{
    const struct sp_space_option *option = profile->option;
    if (growth->least_seconds == 0 || growth->class_index != option->class_index)
        *growth = (struct growth){.class_index = option->class_index, .least_seconds = INFINITY};
    const bool is_quicker = profile->total_seconds < WORTHWHILE * growth->least_seconds;
    growth->disappointed = is_quicker ? 0 : growth->disappointed + 1;
    growth->least_seconds = fmin(growth->least_seconds, profile->total_seconds);
    growth->fits = growth->fits || profile->total_weight_bytes + profile->peak_bytes <=
                                       MEMORY_SHARE * joint->space->classes[option->class_index].capacity;
}

/* Larger blocks are looked at while they are quicker, or needed for their memory: what collectives cost more than
   sharing saves, they cost on more devices, too. */
static bool is_worthwhile(const struct sp_space_option *option, const struct growth *growth)
{
    return growth->class_index != option->class_index || growth->disappointed < DISAPPOINTMENTS || !growth->fits;
}

static bool has_pins(const struct sp_constraints *constraints)
{
    return constraints != NULL && (constraints->stage_of != NULL || constraints->device_of != NULL);
}

/* What a stage may have at most: 0 is any number. */
static uint32_t stage_limit(const struct search *search, uint32_t max_stages)
{
    const struct sp_constraints *constraints = search->joint.options->constraints;
    const uint32_t most = constraints == NULL ? 0 : constraints->max_stages;
    return max_stages == 0 || (most != 0 && most < max_stages) ? most : max_stages;
}

/* Whether a stage may be all of a plan, so that its meshes are worth more work. */
static bool is_often_whole(const struct search *search)
{
    return search->joint.options->objective == SP_OBJECTIVE_LATENCY ||
           search->joint.options->strategy == SP_STRATEGY_TENSOR || stage_limit(search, 0) == 1;
}

/* Further meshes for the blocks that promise most. */
static enum sp_status try_further_meshes(struct search *search)
{
    struct sp_joint *joint = &search->joint;
    const struct sp_space_option *promising[SP_MESH_VARIANTS_MOST];
    enum sp_status status = SP_OK;
    if (has_pins(joint->options->constraints))
        return SP_OK;
    const uint32_t count = sp_mesh_variants_blocks(joint, search->profile_count,
                                                   (const struct sp_model_choice *const *)search->profiles, promising);
    for (uint32_t i = 0; status == SP_OK && i < count; i++) {
        uint32_t cuts[SP_SPACE_CUTS];
        const uint32_t cut_count = sp_space_cuts(promising[i], cuts);
        for (uint32_t c = 0; status == SP_OK && c < cut_count && goes_on(search, 0.4); c++) {
            const struct sp_space_option *further = sp_space_add_mesh(joint->space, promising[i], cuts[c]);
            if (further != NULL)
                status = profile_option(search, further);
        }
    }
    return status;
}

/* What stages are cut from: of single devices and, where operators may be split, of blocks. */
static enum sp_status make_units(struct search *search)
{
    struct sp_joint *joint = &search->joint;
    const double *seconds = search->profiles[0]->seconds;
    enum sp_status status =
        sp_units_create(joint->arena, joint->workload, seconds, SP_UNITS_NODES, &search->units[0], search->err);
    if (status == SP_OK)
        status =
            sp_units_create(joint->arena, joint->workload, seconds, SP_UNITS_FEWER, &search->units[1], search->err);
    joint->units = search->units[1];
    return status;
}

static enum sp_status make_profiles(struct search *search)
{
    struct sp_joint *joint = &search->joint;
    struct growth growth = {0};
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < joint->space->option_count; i++) {
        const uint32_t first = search->profile_count;
        if ((!has_pins(joint->options->constraints) && !is_worthwhile(&joint->space->options[i], &growth)) ||
            !goes_on(search, 0.4 * i / joint->space->option_count))
            continue;
        status = profile_option(search, &joint->space->options[i]);
        if (search->profile_count > first)
            note_growth(joint, search->profiles[first], &growth);
    }
    if (status == SP_OK && search->profile_count > 0 && is_often_whole(search))
        status = try_further_meshes(search);
    if (status == SP_OK && search->profile_count > 0)
        status = make_units(search);
    return status;
}

/* ---- proposals -------------------------------------------------------------------------------------------------- */

/* Cuts the model into stages. Strategies that are chosen again within a stage may need less memory than those of the
   profiles, so where operators are split it is done with both; for a latency, which takes long, with the profiles' only
   where the other way comes to nothing. */
static enum sp_status propose_stages(struct search *search, struct sp_proposal *proposal,
                                     enum sp_search_strategy strategy)
{
    const bool is_latency = proposal->objective == SP_OBJECTIVE_LATENCY;
    enum sp_status status = SP_OK;
    const bool splits = !sp_joint_is_of_devices(proposal);
    search->joint.units = search->units[splits];
    for (uint32_t round = 0; status == SP_OK && round < (splits ? 2 : 1); round++) {
        struct sp_joint_candidate *candidate;
        proposal->is_hopeful = splits && (round == 0) == is_latency;
        status = sp_joint_propose(&search->joint, proposal, &candidate, search->err);
        if (status == SP_OK && candidate != NULL)
            status = take(search, candidate, strategy);
        if (!search->joint.memory_binds || (is_latency && candidate != NULL && candidate->fits))
            break;
    }
    search->joint.units = search->units[1];
    proposal->is_hopeful = false;
    return status;
}

static enum sp_status propose(struct search *search, const struct sp_model_choice *const *profiles, uint32_t count,
                              uint32_t max_stages, enum sp_search_strategy strategy)
{
    struct sp_proposal proposal = {.profile_count = count,
                                   .profiles = profiles,
                                   .objective = search->joint.options->objective,
                                   .max_stages = stage_limit(search, max_stages),
                                   .max_replicas = search->joint.options->max_replicas};
    struct sp_joint_candidate *candidate;
    enum sp_status status = SP_OK;
    const bool is_whole = max_stages == 1 && search->joint.options->constraints == NULL;
    if (is_whole) {
        status = sp_joint_propose_whole(&search->joint, &proposal, &candidate, search->err);
        if (status == SP_OK && candidate != NULL)
            status = take(search, candidate, strategy);
    }
    if (status == SP_OK && (!is_whole || proposal.max_replicas != 1))
        status = propose_stages(search, &proposal, strategy);
    if (status != SP_OK || count != 1 || !has_pins(search->joint.options->constraints))
        return status;
    status = sp_joint_propose_pinned(&search->joint, &proposal, &candidate, search->err);
    if (status == SP_OK && candidate != NULL)
        status = take(search, candidate, strategy);
    return status;
}

/* With pins: stages of any blocks, and replicas of them. */
static enum sp_status propose_mixed(struct search *search)
{
    const enum sp_search_strategy strategy = search->joint.options->strategy;
    const struct sp_proposal proposal = {.profile_count = search->profile_count,
                                         .profiles = (const struct sp_model_choice *const *)search->profiles,
                                         .objective = search->joint.options->objective,
                                         .max_stages = stage_limit(search, strategy == SP_STRATEGY_TENSOR ? 1 : 0),
                                         .max_replicas = search->joint.options->max_replicas};
    struct sp_joint_candidate *candidates[SP_PINNED_CANDIDATES];
    uint32_t count = 0;
    if (!has_pins(search->joint.options->constraints) || !goes_on(search, 0.92))
        return SP_OK;
    enum sp_status status = sp_joint_propose_mixed(&search->joint, &proposal, candidates, &count, search->err);
    for (uint32_t i = 0; i < count && status == SP_OK; i++)
        status = take(search, candidates[i], strategy);
    return status;
}

/* Stages of any options. */
static enum sp_status propose_together(struct search *search)
{
    const struct sp_model_choice *const *profiles = (const struct sp_model_choice *const *)search->profiles;
    const uint32_t count = search->profile_count;
    const struct sp_model_choice **together = SP_NEW_ARRAY(search->joint.arena, count, const struct sp_model_choice *);
    uint32_t kept = 0;
    if (together == NULL)
        return sp_fail_memory(search->err);
    /* Single devices of all classes first: among few options the search for stages gets further. */
    for (uint32_t i = 0; i < count; i++) {
        if (profiles[i]->table == NULL)
            together[kept++] = profiles[i];
    }
    enum sp_status status = SP_OK;
    if (kept > 1 && kept < count)
        status = propose(search, together, kept, 0, SP_STRATEGY_PIPELINE);
    kept = 0;
    for (uint32_t first = 0, next; first < count; first = next) {
        for (next = first + 1; next < count && profiles[next]->option == profiles[first]->option; next++)
            ;
        for (uint32_t i = first; i < next && sp_mesh_variants_gains(first, next, profiles); i++)
            together[kept++] = profiles[i];
    }
    return status == SP_OK ? propose(search, together, kept, 0, SP_STRATEGY_AUTO) : status;
}

/* Each option alone: one stage, and as many as it likes; then all of them together. */
static enum sp_status propose_all(struct search *search)
{
    const enum sp_search_strategy strategy = search->joint.options->strategy;
    const struct sp_model_choice *const *profiles = (const struct sp_model_choice *const *)search->profiles;
    const uint32_t count = search->profile_count;
    enum sp_status status = SP_OK;
    for (uint32_t first = 0, next; status == SP_OK && first < count; first = next) {
        const bool single = profiles[first]->table == NULL;
        for (next = first + 1; next < count && profiles[next]->option == profiles[first]->option; next++)
            ;
        if (!goes_on(search, 0.4 + 0.5 * first / count))
            break;
        if (strategy != SP_STRATEGY_PIPELINE)
            status =
                propose(search, &profiles[first], next - first, 1, single ? SP_STRATEGY_PIPELINE : SP_STRATEGY_TENSOR);
        if (!sp_mesh_variants_gains(first, next, profiles))
            continue;
        if (status == SP_OK && strategy != SP_STRATEGY_TENSOR)
            status = propose(search, &profiles[first], next - first, 0, SP_STRATEGY_PIPELINE);
        for (uint32_t i = first; next > first + 1 && i < next && status == SP_OK &&
                                 has_pins(search->joint.options->constraints) && strategy != SP_STRATEGY_TENSOR;
             i++)
            status = propose(search, &profiles[i], 1, 0, SP_STRATEGY_PIPELINE);
        /* For a latency both profiles of an option seldom go together. */
        if (status == SP_OK && strategy != SP_STRATEGY_TENSOR && next - first > 1 &&
            !has_pins(search->joint.options->constraints) && search->joint.options->objective == SP_OBJECTIVE_LATENCY)
            status = propose(search, &profiles[next - 1], 1, 0, SP_STRATEGY_PIPELINE);
    }
    if (status == SP_OK && strategy != SP_STRATEGY_TENSOR && search->joint.space->option_count > 1 &&
        goes_on(search, 0.9))
        status = propose_together(search);
    return status == SP_OK ? propose_mixed(search) : status;
}

/* Where one stage turns out to be the best plan, it on further meshes. */
static enum sp_status try_whole_on_further_meshes(struct search *search)
{
    const struct sp_joint_candidate *best = search->front.count > 0 ? search->front.plans[0] : NULL;
    const uint32_t before = search->profile_count;
    if (is_often_whole(search) || best == NULL || best->placement.stage_count != 1 || best->options == NULL ||
        best->options[0]->size == 1 || search->joint.options->strategy != SP_STRATEGY_AUTO || !goes_on(search, 0.94))
        return SP_OK;
    enum sp_status status = try_further_meshes(search);
    for (uint32_t first = before, next; status == SP_OK && first < search->profile_count; first = next) {
        const struct sp_model_choice *const *profiles = (const struct sp_model_choice *const *)search->profiles;
        for (next = first + 1; next < search->profile_count && profiles[next]->option == profiles[first]->option;
             next++)
            ;
        status = propose(search, &profiles[first], next - first, 1, SP_STRATEGY_TENSOR);
    }
    return status;
}

/* The best one once more: choices that memory binds end before they are the best that there are. */
static enum sp_status polish(struct search *search)
{
    struct sp_joint_candidate *best = search->front.count > 0 ? search->front.plans[0] : NULL, *polished;
    bool splits = false;
    for (uint32_t s = 0; best != NULL && best->sharded != NULL && s < best->placement.stage_count; s++)
        splits = splits || best->sharded[s].table != NULL;
    if (!splits || !search->joint.options->optimal || !goes_on(search, 0.95))
        return SP_OK;
    enum sp_status status = sp_joint_polish(&search->joint, best, &polished, search->err);
    return status == SP_OK ? take(search, polished, best->strategy) : status;
}

/* A plan as if there were memory enough, strategies as the profiles have them: what memory is in the way of, if it is.
 */
static enum sp_status draft(struct search *search, const struct sp_model_choice *const *profiles, uint32_t count,
                            bool is_whole)
{
    const struct sp_proposal proposal = {.profile_count = count,
                                         .profiles = profiles,
                                         .objective = search->joint.options->objective,
                                         .max_replicas = search->joint.options->max_replicas,
                                         .is_draft = true};
    struct sp_joint_candidate *candidate = NULL;
    enum sp_status status = is_whole ? sp_joint_propose_whole(&search->joint, &proposal, &candidate, search->err)
                                     : sp_joint_propose(&search->joint, &proposal, &candidate, search->err);
    return status == SP_OK && candidate != NULL ? take(search, candidate, SP_STRATEGY_AUTO) : status;
}

/* Everything on one block of each size, and the model cut into stages: where it may be that memory is in the way. */
static enum sp_status look_beyond(struct search *search)
{
    const struct sp_joint *joint = &search->joint;
    const struct sp_model_choice **profiles =
        SP_NEW_ARRAY(joint->arena, search->profile_count, const struct sp_model_choice *);
    enum sp_status status = SP_OK;
    uint32_t count = 0;
    bool may_bind = false;
    if (profiles == NULL)
        return sp_fail_memory(search->err);
    for (uint32_t i = 0; i < search->profile_count; i++) {
        const struct sp_model_choice *profile = search->profiles[i];
        if (count > 0 && profiles[count - 1]->option == profile->option)
            continue; /* the second one of an option is within a limit */
        profiles[count++] = profile;
        may_bind = may_bind || profile->total_weight_bytes + profile->peak_bytes >
                                   MEMORY_SHARE * joint->space->classes[profile->option->class_index].capacity;
    }
    if (!may_bind || search->front.count == 0 || joint->options->constraints != NULL || !goes_on(search, 0.98))
        return SP_OK;
    for (uint32_t i = 0; i < count && status == SP_OK && joint->options->strategy != SP_STRATEGY_PIPELINE; i++)
        status = draft(search, &profiles[i], 1, true);
    if (status == SP_OK && joint->options->strategy != SP_STRATEGY_TENSOR)
        status = draft(search, profiles, count, false);
    return status;
}

/* ---- grouping --------------------------------------------------------------------------------------------------- */

static enum sp_status try_grouping(struct search *search)
{
    struct sp_joint *joint = &search->joint;
    const enum sp_search_strategy strategy = joint->options->strategy;
    search->groups = strategy == SP_STRATEGY_GROUPING; /* else others judge its plans anew */
    enum sp_status status =
        sp_joint_group(joint, stage_limit(search, 0), &search->grouping, &search->grouped, search->err);
    search->groups = false;
    if (status != SP_OK)
        return status;
    if (search->grouped->fits)
        return take(search, search->grouped, strategy == SP_STRATEGY_PIPELINE ? strategy : SP_STRATEGY_GROUPING);
    note_whole(search, search->grouped);
    return SP_OK;
}

/* Single nodes of the best plan of whole operators move between its stages. */
static enum sp_status move_nodes(struct search *search)
{
    const struct sp_joint_candidate *whole = search->whole;
    struct sp_joint_candidate *moved;
    if (whole == NULL || whole->placement.stage_count < 2 || search->joint.options->constraints != NULL ||
        !goes_on(search, 0.94))
        return SP_OK;
    enum sp_status status = sp_joint_move_nodes(&search->joint, whole, &moved, search->err);
    if (status == SP_OK && search->joint.options->strategy == SP_STRATEGY_GROUPING && moved->fits)
        search->front.count = 0; /* of equally quick plans the one that sends less */
    return status == SP_OK ? take(search, moved, whole->strategy) : status;
}

/* ---- the answer ------------------------------------------------------------------------------------------------- */

/* What no plan can be better than. */
static enum sp_status find_bounds(struct search *search)
{
    const struct sp_joint *joint = &search->joint;
    const bool whole = joint->options->strategy == SP_STRATEGY_GROUPING ||
                       (joint->options->max_replicas == 1 && joint->space->option_count == joint->space->class_count);
    if (search->has_bounds)
        return SP_OK;
    search->has_bounds = true;
    return whole ? sp_lower_bounds(joint->arena, joint->workload, joint->cluster, &search->bounds, search->err)
                 : sp_joint_bounds(joint->arena, joint->workload, joint->cluster, &search->bounds, search->err);
}

/* The bound is told to whoever watches, from the beginning. */
static enum sp_status tell_bounds(struct search *search)
{
    const enum sp_objective objective = search->joint.options->objective;
    if (search->outer == NULL || search->joint.options->any_plan)
        return SP_OK;
    enum sp_status status = find_bounds(search);
    search->bound_seconds =
        objective == SP_OBJECTIVE_LATENCY ? search->bounds.latency_seconds : search->bounds.interval_seconds;
    return status;
}

static bool splits_operators(const struct sp_joint_candidate *candidate)
{
    for (uint32_t s = 0; candidate->sharded != NULL && s < candidate->placement.stage_count; s++) {
        if (candidate->sharded[s].table != NULL)
            return true;
    }
    return false;
}

static bool describe_plan(const struct search *search, const struct sp_joint_candidate *candidate,
                          struct sp_front_plan *ret_plan)
{
    *ret_plan = (struct sp_front_plan){.description = sp_front_describe(search->joint.arena, &candidate->placement),
                                       .strategy = candidate->strategy,
                                       .stage_count = candidate->placement.stage_count,
                                       .devices_used = candidate->devices_used,
                                       .latency_seconds = candidate->evaluation->latency_seconds,
                                       .interval_seconds = candidate->evaluation->interval_seconds,
                                       .memory_bytes = candidate->memory_bytes};
    return ret_plan->description != NULL;
}

/* The runner-up, and what memory is in the way of. */
static enum sp_status list_others(struct search *search, struct sp_search_result *result)
{
    struct sp_joint *joint = &search->joint;
    const struct sp_joint_candidate *best = search->front.plans[0], *beyond = joint->beyond;
    struct sp_front_plan *second = SP_NEW(joint->arena, struct sp_front_plan);
    struct sp_short_of_memory_plan *other = SP_NEW(joint->arena, struct sp_short_of_memory_plan);
    struct sp_memory_peak peak;
    if (second == NULL || other == NULL)
        return sp_fail_memory(search->err);
    const struct sp_joint_candidate *runner_up = sp_front_second(joint, best);
    if (runner_up != NULL && !describe_plan(search, runner_up, second))
        return sp_fail_memory(search->err);
    result->second = runner_up != NULL ? second : NULL;
    result->is_proved = search->is_proved;
    if (beyond == NULL || !sp_front_better(joint->options->objective, beyond, best))
        return SP_OK;
    const struct sp_evaluated_plan plan = {&beyond->placement, beyond->sharded, beyond->evaluation};
    enum sp_status status = sp_memory_peak_of_stage(joint->arena, joint->workload, joint->cluster, &plan,
                                                    beyond->evaluation->worst_stage, &peak, search->err);
    if (status != SP_OK)
        return status;
    const struct sp_stage_cost *cost = &beyond->evaluation->stages[peak.stage];
    if (!describe_plan(search, beyond, &other->plan))
        return sp_fail_memory(search->err);
    other->device = cost->device;
    other->node = peak.node == SP_NO_WORK ? NULL : joint->workload->nodes[peak.node].name;
    other->needed_bytes = cost->total_bytes;
    other->capacity_bytes = cost->capacity_bytes;
    result->beyond = other;
    return SP_OK;
}

static enum sp_status list_front(struct search *search, struct sp_search_result *result)
{
    const uint32_t count = search->front.count < SP_FRONT_PLANS ? search->front.count : SP_FRONT_PLANS;
    struct sp_front_plan *plans = SP_NEW_ARRAY(search->joint.arena, count, struct sp_front_plan);
    if (plans == NULL)
        return sp_fail_memory(search->err);
    for (uint32_t i = 0; i < count; i++) {
        if (!describe_plan(search, search->front.plans[i], &plans[i]))
            return sp_fail_memory(search->err);
        plans[i].is_chosen = i == 0;
    }
    result->front_count = count;
    result->front = plans;
    return SP_OK;
}

static enum sp_status answer(struct search *search, struct sp_search_result **ret_result)
{
    struct sp_joint *joint = &search->joint;
    const struct sp_joint_candidate *best = search->front.plans[0];
    struct sp_search_result *result = SP_NEW(joint->arena, struct sp_search_result);
    if (result == NULL)
        return sp_fail_memory(search->err);
    *result = (struct sp_search_result){.placement = best->placement,
                                        .evaluation = best->evaluation,
                                        .sharded = splits_operators(best) ? best->sharded : NULL,
                                        .strategy = best->strategy,
                                        .explored = joint->explored,
                                        .accepted = joint->accepted,
                                        .memory_share = 1,
                                        .stopped = joint->stopped,
                                        .table_count = joint->space->option_count,
                                        .tables = joint->tables};
    if (search->grouping != NULL) {
        result->candidates = search->grouping->candidates;
        result->subgraphs = search->grouping->subgraphs;
        result->memory_share = best == search->grouped ? search->grouping->memory_share : 1;
    }
    enum sp_status status = find_bounds(search);
    result->bounds = search->bounds;
    if (isfinite(search->any_bound))
        result->bounds.interval_seconds = fmax(result->bounds.interval_seconds, search->any_bound);
    if (status == SP_OK && search->is_proved) {
        if (joint->options->objective == SP_OBJECTIVE_LATENCY)
            result->bounds.latency_seconds = best->evaluation->latency_seconds;
        else if (joint->options->objective == SP_OBJECTIVE_THROUGHPUT)
            result->bounds.interval_seconds = best->evaluation->interval_seconds;
    }
    if (status == SP_OK)
        status = list_front(search, result);
    if (status == SP_OK)
        status = list_others(search, result);
    if (status == SP_OK)
        *ret_result = result;
    return status;
}

/* Tiny models: *ret_done where everything was tried and something fits. */
static enum sp_status try_everything(struct search *search, bool *ret_done)
{
    struct sp_joint_candidate *best;
    bool tried;
    enum sp_status status = sp_joint_exhaust(&search->joint, &best, &tried, search->err);
    *ret_done = false;
    if (status != SP_OK || !tried || best == NULL)
        return status;
    *ret_done = search->is_proved = true;
    return take(search, best, search->joint.options->strategy);
}

/* Any sets of nodes on devices, beside the contiguous ones. */
static enum sp_status propose_any(struct search *search)
{
    struct sp_joint_candidate *candidates[SP_ANY_CANDIDATES];
    uint32_t count = 0;
    if (!search->joint.options->any_sets || !goes_on(search, 0.97))
        return SP_OK;
    search->is_proved = false;
    enum sp_status status = find_bounds(search);
    if (status != SP_OK || (search->front.count > 0 &&
                            search->front.plans[0]->evaluation->interval_seconds <= search->bounds.interval_seconds))
        return status;
    status = sp_joint_propose_any(&search->joint, candidates, &count, &search->any_bound, search->err);
    for (uint32_t i = 0; i < count && status == SP_OK; i++)
        status = candidates[i]->fits ? take(search, candidates[i], SP_STRATEGY_PIPELINE) : SP_OK;
    return status;
}

/* Under constraints nothing came of any proposal. */
static enum sp_status none_keeps(const struct search *search)
{
    (void)sp_fail(search->err, SP_ERR_REQUEST, "CONSTRAINT_UNSUPPORTED",
                  "No plan was found that keeps all constraints.%s%s", search->violation.status == SP_OK ? "" : " ",
                  search->violation.status == SP_OK ? "" : search->violation.message);
    return sp_error_at(search->err, "%s", search->violation.status == SP_OK ? "" : search->violation.where);
}

static enum sp_status run(struct search *search, struct sp_search_result **ret_result)
{
    const enum sp_search_strategy strategy = search->joint.options->strategy;
    enum sp_status status = start(search);
    bool done = false;
    if (status == SP_OK)
        status = tell_bounds(search);
    /* Ways that others are better than in everything are not tried: constraints might leave nothing of what is. */
    if (status == SP_OK && !sp_constraints_split(search->joint.options->constraints))
        status = try_everything(search, &done);
    if (status == SP_OK && !done && strategy != SP_STRATEGY_TENSOR)
        status = try_grouping(search);
    done = done || is_enough(search);
    if (status == SP_OK && !done)
        status = make_profiles(search);
    if (status == SP_OK && search->profile_count > 0 && search->joint.units->count > 0)
        status = propose_all(search);
    if (status == SP_OK && search->profile_count > 0 && search->joint.units->count > 0)
        status = move_nodes(search);
    if (status == SP_OK && search->profile_count > 0 && search->joint.units->count > 0)
        status = try_whole_on_further_meshes(search);
    if (status == SP_OK && search->profile_count > 0 && search->joint.units->count > 0)
        status = polish(search);
    if (status == SP_OK && search->profile_count > 0 && search->joint.units->count > 0)
        status = look_beyond(search);
    if (status == SP_OK)
        status = propose_any(search);
    if (status != SP_OK && !(status == SP_ERR_CANCELLED && search->front.count > 0))
        return status;
    if (status == SP_ERR_CANCELLED) {
        search->joint.stopped = true;
        sp_error_clear(search->err);
    }
    if (search->front.count > 0)
        return answer(search, ret_result);
    if (search->joint.stopped)
        return sp_fail(search->err, SP_ERR_CANCELLED, "CANCELLED", "The search was cancelled.");
    const bool lacks = search->grouped != NULL && !search->grouped->fits;
    if (search->joint.options->constraints != NULL && search->closest == NULL &&
        (search->violation.status != SP_OK || !lacks))
        return none_keeps(search);
    return sp_joint_nofit(&search->joint, search->closest, lacks ? search->whole : NULL, search->err);
}

enum sp_status sp_joint_search_once(struct sp_arena *arena, const struct sp_workload *workload,
                                    const struct sp_dataflow *dataflow, const struct sp_cluster *cluster,
                                    const struct sp_joint_options *options, struct sp_search_result **ret_result,
                                    struct sp_error *err)
{
    struct search search = {.joint = {.arena = arena, .workload = workload, .dataflow = dataflow, .cluster = cluster},
                            .err = err,
                            .options = *options,
                            .outer = options->watch};
    search.joint.options = &search.options;
    if (options->strategy == SP_STRATEGY_GROUPING)
        search.options.max_replicas = 1;
    search.watch = (struct sp_watch){.tick = tick, .context = &search};
    if (search.outer != NULL)
        search.options.watch = &search.watch;
    enum sp_status status = run(&search, ret_result);
    if (status != SP_OK) {
        for (uint32_t i = 0; search.joint.tables != NULL && i < search.joint.space->option_count; i++)
            sp_strategy_table_destroy(search.joint.tables[i]);
    }
    return status;
}

void sp_search_result_release(struct sp_search_result *result)
{
    for (uint32_t i = 0; result != NULL && i < result->table_count; i++) {
        sp_strategy_table_destroy(result->tables[i]);
        result->tables[i] = NULL;
    }
}
