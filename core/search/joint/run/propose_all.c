/* Which stages are proposed, with which profiles, in which order. */
#include "search/joint/mesh_variants.h"
#include "search/joint/pinned/pinned.h"
#include "search/joint/rechoose.h"
#include "search/joint/run/run.h"
#include "search/joint/unequal/unequal.h"

/* Cuts the model into stages. Strategies that are chosen again within a stage may need less memory than those of the
   profiles, so where operators are split it is done with both; for a latency, which takes long, with the profiles' only
   where the other way comes to nothing. */
static enum sp_status propose_stages(struct sp_search_run *search, struct sp_proposal *proposal,
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
            status = sp_run_take(search, candidate, strategy);
        if (!search->joint.memory_binds || (is_latency && candidate != NULL && candidate->fits))
            break;
    }
    search->joint.units = search->units[1];
    proposal->is_hopeful = false;
    return status;
}

static enum sp_status propose_with(struct sp_search_run *search, const struct sp_model_choice *const *profiles,
                                   uint32_t count, uint32_t max_stages, enum sp_search_strategy strategy)
{
    struct sp_proposal proposal = {.profile_count = count,
                                   .profiles = profiles,
                                   .objective = search->proposed,
                                   .max_stages = sp_run_stage_limit(search, max_stages),
                                   .max_replicas = search->joint.options->max_replicas};
    struct sp_joint_candidate *candidate;
    enum sp_status status = SP_OK;
    const bool is_whole = max_stages == 1 && search->joint.options->constraints == NULL;
    if (is_whole) {
        status = sp_joint_propose_whole(&search->joint, &proposal, &candidate, search->err);
        if (status == SP_OK && candidate != NULL)
            status = sp_run_take(search, candidate, strategy);
    }
    if (status == SP_OK && (!is_whole || proposal.max_replicas != 1))
        status = propose_stages(search, &proposal, strategy);
    if (status != SP_OK || count != 1 || !sp_run_has_pins(search->joint.options->constraints))
        return status;
    status = sp_joint_propose_pinned(&search->joint, &proposal, &candidate, search->err);
    if (status == SP_OK && candidate != NULL)
        status = sp_run_take(search, candidate, strategy);
    return status;
}

static enum sp_status propose(struct sp_search_run *search, const struct sp_model_choice *const *profiles,
                              uint32_t count, uint32_t max_stages, enum sp_search_strategy strategy)
{
    return sp_run_go_on_after(search, propose_with(search, profiles, count, max_stages, strategy));
}

/* Whether a stage of the plan has blocks of the option; plans of whole operators name none. */
static bool has_option(const struct sp_joint_candidate *plan, const struct sp_model_choice *profile)
{
    for (uint32_t s = 0; s < plan->placement.stage_count; s++) {
        const struct sp_space_option *option = plan->options == NULL ? NULL : plan->options[s];
        if (option == NULL ? profile->table == NULL : option == profile->option)
            return true;
    }
    return false;
}

/* The classes of unequal blocks that a plan has. */
static uint32_t unequal_blocks(const struct sp_search_run *search, const struct sp_joint_candidate *plan)
{
    uint32_t classes = 0;
    for (uint32_t s = 0; plan->options != NULL && s < plan->placement.stage_count; s++)
        if (plan->options[s] != NULL)
            classes |= sp_space_unequal_bit(search->joint.space, plan->options[s]);
    return classes;
}

enum sp_status sp_run_propose_fewest(struct sp_search_run *search, const struct sp_joint_candidate *plan,
                                     double most_seconds)
{
    const struct sp_model_choice **profiles =
        SP_NEW_ARRAY(search->joint.arena, search->profile_count, const struct sp_model_choice *);
    struct sp_proposal proposal = {.profiles = profiles,
                                   .objective = SP_OBJECTIVE_DEVICES,
                                   .load_limit = most_seconds,
                                   .max_stages = sp_run_stage_limit(search, 0),
                                   .max_replicas = search->joint.options->max_replicas};
    if (profiles == NULL)
        return sp_fail_memory(search->err);
    for (uint32_t i = 0; i < search->profile_count; i++) {
        if (has_option(plan, search->profiles[i]))
            profiles[proposal.profile_count++] = search->profiles[i];
    }
    if (proposal.profile_count == 0)
        return SP_OK;
    sp_space_lay(search->joint.space, unequal_blocks(search, plan), true);
    enum sp_status status =
        sp_run_go_on_after(search, propose_stages(search, &proposal, search->joint.options->strategy));
    sp_space_lay(search->joint.space, 0, true);
    return status;
}

/* Stages of any of these profiles that keep the pins, for an objective. */
static enum sp_status propose_with_pins(struct sp_search_run *search, const struct sp_model_choice *const *profiles,
                                        uint32_t count, enum sp_objective objective)
{
    const enum sp_search_strategy strategy = search->joint.options->strategy;
    const struct sp_proposal proposal = {.profile_count = count,
                                         .profiles = profiles,
                                         .objective = objective,
                                         .max_stages =
                                             sp_run_stage_limit(search, strategy == SP_STRATEGY_TENSOR ? 1 : 0),
                                         .max_replicas = search->joint.options->max_replicas};
    struct sp_joint_candidate *candidates[SP_PINNED_CANDIDATES];
    uint32_t found = 0;
    if (!sp_run_goes_on(search, 0.92))
        return SP_OK;
    enum sp_status status = sp_joint_propose_mixed(&search->joint, &proposal, candidates, &found, search->err);
    for (uint32_t i = 0; i < found && status == SP_OK; i++)
        status = sp_run_take(search, candidates[i], strategy);
    return status;
}

/* Single devices before blocks, and for a latency the stages for the throughput, too, as without pins: what one question
   finds must not be better for another one than that one's own answer. */
enum sp_status sp_run_propose_mixed(struct sp_search_run *search)
{
    const struct sp_model_choice *const *profiles = (const struct sp_model_choice *const *)search->profiles;
    const struct sp_model_choice **single;
    const enum sp_objective objectives[] = {search->proposed, SP_OBJECTIVE_THROUGHPUT};
    const uint32_t objective_count = search->proposed == SP_OBJECTIVE_LATENCY ? 2 : 1;
    uint32_t count = 0;
    enum sp_status status = SP_OK;
    if (!sp_run_has_pins(search->joint.options->constraints))
        return SP_OK;
    single = SP_NEW_ARRAY(search->joint.arena, search->profile_count, const struct sp_model_choice *);
    if (single == NULL)
        return sp_fail_memory(search->err);
    for (uint32_t i = 0; i < search->profile_count; i++)
        if (profiles[i]->table == NULL)
            single[count++] = profiles[i];
    for (uint32_t o = 0; o < objective_count && status == SP_OK; o++) {
        if (count > 0 && count < search->profile_count)
            status = propose_with_pins(search, single, count, objectives[o]);
        if (status == SP_OK)
            status = propose_with_pins(search, profiles, search->profile_count, objectives[o]);
    }
    return status;
}

/* Stages of several options. Where devices differ, which links and shares a transfer has is known to chains for the
   throughput only, so these are tried for a latency, too. */
static enum sp_status propose_mixtures(struct sp_search_run *search, const struct sp_model_choice *const *profiles,
                                       uint32_t count, enum sp_search_strategy strategy)
{
    enum sp_status status = propose(search, profiles, count, 0, strategy);
    if (status != SP_OK || search->proposed != SP_OBJECTIVE_LATENCY || search->joint.space->class_count < 2)
        return status;
    search->proposed = SP_OBJECTIVE_THROUGHPUT;
    status = propose(search, profiles, count, 0, strategy);
    search->proposed = SP_OBJECTIVE_LATENCY;
    return status;
}

/* Whether the space as it is laid has devices for a block. */
static bool has_devices(const struct sp_search_run *search, const struct sp_space_option *option)
{
    return option->size <= search->joint.space->classes[option->class_index].count;
}

/* Stages of any options. */
static enum sp_status propose_together(struct sp_search_run *search, const struct sp_model_choice *const *profiles,
                                       uint32_t count)
{
    const struct sp_model_choice **together = SP_NEW_ARRAY(search->joint.arena, count, const struct sp_model_choice *);
    uint32_t kept = 0, others = 0;
    if (together == NULL)
        return sp_fail_memory(search->err);
    /* Single devices of all classes first, with blocks of unequal ones: among few options the search gets further. */
    for (uint32_t i = 0; i < count; i++) {
        if (!has_devices(search, profiles[i]->option))
            continue;
        if (profiles[i]->table == NULL || profiles[i]->option->mesh.member_count > 0)
            together[kept++] = profiles[i];
        else
            others++;
    }
    enum sp_status status = SP_OK;
    if (kept > 1 && others > 0)
        status = propose_mixtures(search, together, kept, SP_STRATEGY_PIPELINE);
    kept = 0;
    for (uint32_t first = 0, next; first < count; first = next) {
        for (next = first + 1; next < count && profiles[next]->option == profiles[first]->option; next++)
            ;
        for (uint32_t i = first;
             i < next && has_devices(search, profiles[first]->option) && sp_mesh_variants_gains(first, next, profiles);
             i++)
            together[kept++] = profiles[i];
    }
    return status == SP_OK ? propose_mixtures(search, together, kept, SP_STRATEGY_AUTO) : status;
}

/* Stages of one option alone, whose profiles are from `first` to before `next`. */
static enum sp_status propose_option(struct sp_search_run *search, const struct sp_model_choice *const *profiles,
                                     uint32_t first, uint32_t next)
{
    const enum sp_search_strategy strategy = search->joint.options->strategy;
    const bool single = profiles[first]->table == NULL, pins = sp_run_has_pins(search->joint.options->constraints);
    enum sp_status status = SP_OK;
    if (strategy != SP_STRATEGY_PIPELINE)
        status = propose(search, &profiles[first], next - first, 1, single ? SP_STRATEGY_PIPELINE : SP_STRATEGY_TENSOR);
    if (strategy == SP_STRATEGY_TENSOR || !sp_mesh_variants_gains(first, next, profiles))
        return status;
    if (status == SP_OK)
        status = propose(search, &profiles[first], next - first, 0, SP_STRATEGY_PIPELINE);
    for (uint32_t i = first; next > first + 1 && i < next && status == SP_OK && pins; i++)
        status = propose(search, &profiles[i], 1, 0, SP_STRATEGY_PIPELINE);
    /* For a latency both profiles of an option seldom go together. */
    if (status == SP_OK && next - first > 1 && !pins && search->proposed == SP_OBJECTIVE_LATENCY)
        status = propose(search, &profiles[next - 1], 1, 0, SP_STRATEGY_PIPELINE);
    return status;
}

enum sp_status sp_run_propose_latest(struct sp_search_run *search, uint32_t first, bool is_whole)
{
    const struct sp_model_choice *const *profiles = (const struct sp_model_choice *const *)search->profiles;
    const uint32_t next = search->profile_count;
    if (first == next || search->units[1]->count == 0)
        return SP_OK;
    return is_whole ? propose(search, &profiles[first], next - first, 1, SP_STRATEGY_TENSOR)
                    : propose_option(search, profiles, first, next);
}

static enum sp_status propose_options(struct sp_search_run *search, const struct sp_model_choice *const *profiles,
                                      uint32_t count)
{
    enum sp_status status = SP_OK;
    for (uint32_t first = 0, next; status == SP_OK && first < count; first = next) {
        for (next = first + 1; next < count && profiles[next]->option == profiles[first]->option; next++)
            ;
        if (!sp_run_goes_on(search, 0.4 + 0.5 * first / count))
            break;
        status = propose_option(search, profiles, first, next);
    }
    return status;
}

/* Stages of all options together. */
static enum sp_status propose_all_together(struct sp_search_run *search, const struct sp_model_choice *const *profiles,
                                           uint32_t count)
{
    if (search->joint.options->strategy == SP_STRATEGY_TENSOR || search->joint.space->option_count == 1 ||
        !sp_run_goes_on(search, 0.9))
        return SP_OK;
    return propose_together(search, profiles, count);
}

/* Whether there are other profiles without cuts behind major parts: what is quicker for the whole model need not be so
   for the stages that it is cut into. */
static bool differ(const struct sp_search_run *search)
{
    for (uint32_t i = 0; i < search->plain_count; i++)
        if (i >= search->profile_count || search->plain[i] != search->profiles[i])
            return true;
    return false;
}

enum sp_status sp_run_propose_all(struct sp_search_run *search, bool with_options)
{
    const struct sp_model_choice *const *profiles = (const struct sp_model_choice *const *)search->profiles;
    const struct sp_model_choice *const *plain = (const struct sp_model_choice *const *)search->plain;
    enum sp_status status = SP_OK;
    if (with_options)
        status = propose_options(search, profiles, search->profile_count);
    if (status == SP_OK)
        status = propose_all_together(search, profiles, search->profile_count);
    if (status == SP_OK && differ(search))
        status = propose_options(search, plain, search->plain_count);
    if (status == SP_OK && differ(search))
        status = propose_all_together(search, plain, search->plain_count);
    return status == SP_OK ? sp_run_propose_mixed(search) : status;
}

enum sp_status sp_run_propose_laid(struct sp_search_run *search)
{
    enum sp_status status =
        propose_together(search, (const struct sp_model_choice *const *)search->profiles, search->profile_count);
    return status == SP_OK && differ(search)
               ? propose_together(search, (const struct sp_model_choice *const *)search->plain, search->plain_count)
               : status;
}

enum sp_status sp_run_polish(struct sp_search_run *search)
{
    struct sp_joint_candidate *best = search->front.count > 0 ? search->front.plans[0] : NULL, *polished;
    bool splits = false;
    for (uint32_t s = 0; best != NULL && best->sharded != NULL && s < best->placement.stage_count; s++)
        splits = splits || best->sharded[s].table != NULL;
    if (!splits || !search->joint.options->optimal || !sp_run_goes_on(search, 0.95))
        return SP_OK;
    enum sp_status status = sp_joint_polish(&search->joint, best, &polished, search->err);
    return status == SP_OK ? sp_run_take(search, polished, best->strategy) : status;
}

/* A plan as if there were memory enough, strategies as the profiles have them: what memory is in the way of, if it is.
 */
static enum sp_status draft(struct sp_search_run *search, const struct sp_model_choice *const *profiles, uint32_t count,
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
    return status == SP_OK && candidate != NULL ? sp_run_take(search, candidate, SP_STRATEGY_AUTO) : status;
}

enum sp_status sp_run_look_beyond(struct sp_search_run *search)
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
                                   SP_RUN_MEMORY_SHARE * sp_space_capacity(joint->space, profile->option);
    }
    if (!may_bind || search->front.count == 0 || joint->options->constraints != NULL || !sp_run_goes_on(search, 0.98))
        return SP_OK;
    for (uint32_t i = 0; i < count && status == SP_OK && joint->options->strategy != SP_STRATEGY_PIPELINE; i++)
        status = draft(search, &profiles[i], 1, true);
    if (status == SP_OK && joint->options->strategy != SP_STRATEGY_TENSOR)
        status = draft(search, profiles, count, false);
    return status;
}
