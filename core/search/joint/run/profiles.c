/* Strategies for the whole model on blocks of each size: what larger blocks bring is seen before stages are cut. */
#include <math.h>

#include "search/joint/mesh_variants.h"
#include "search/joint/run/run.h"

#define WORTHWHILE      0.98 /* of the time on smaller blocks: what larger ones must be below */
#define DISAPPOINTMENTS 2    /* sizes in a row that are not, until no larger ones are tried */

/* One without a limit; where that needs more than all blocks have together, another one within that, and one of ways that
   gather weights, where there are any. Appended to `profiles`. */
static enum sp_status append_profiles(struct sp_search_run *search, struct sp_profile_request *request,
                                      struct sp_model_choice **profiles, uint32_t *count)
{
    struct sp_joint *joint = &search->joint;
    const struct sp_space_class *class = &joint->space->classes[request->option->class_index];
    struct sp_model_choice *profile = NULL;
    request->memory_limit = INFINITY;
    enum sp_status status = joint->options->constraints == NULL
                                ? sp_search_store_profile(joint->store, joint->arena, request, &profile, search->err)
                                : sp_profile_create(joint->arena, request, &profile, search->err);
    if (status != SP_OK || profile == NULL)
        return status;
    profiles[(*count)++] = profile;
    const uint32_t blocks = class->whole_count / request->option->size;
    request->memory_limit = SP_RUN_MEMORY_SHARE * sp_space_capacity(joint->space, request->option) * blocks;
    if (request->table == NULL || profile->total_weight_bytes + profile->peak_bytes <= request->memory_limit)
        return SP_OK;
    status = sp_profile_create(joint->arena, request, &profile, search->err);
    if (status == SP_OK && profile != NULL)
        profiles[(*count)++] = profile;
    if (status != SP_OK || !sp_strategy_gathers(request->table))
        return status;
    request->gathers = true;
    status = sp_profile_create(joint->arena, request, &profile, search->err);
    request->gathers = false;
    if (status == SP_OK && profile != NULL)
        profiles[(*count)++] = profile;
    return status;
}

static enum sp_status profile_option(struct sp_search_run *search, const struct sp_space_option *option)
{
    struct sp_joint *joint = &search->joint;
    struct sp_profile_request request = {.workload = joint->workload,
                                         .option = option,
                                         .blocks = joint->blocks,
                                         .constraints = joint->options->constraints,
                                         .seed = joint->options->seed,
                                         .choice_work = SP_JOINT_CHOICE_WORK,
                                         .executor = joint->options->executor,
                                         .watch = joint->options->watch,
                                         .gives_up = search->front.count > 0};
    const uint32_t first = search->profile_count;
    enum sp_status status = sp_joint_table(joint, option, &request.table, search->err);
    if (status == SP_OK && !(request.gives_up && !sp_run_goes_on(search, 0)))
        status = append_profiles(search, &request, search->profiles, &search->profile_count);
    if (status != SP_OK || sp_run_is_often_whole(search) || sp_run_has_pins(joint->options->constraints))
        return status;
    if (request.table != NULL && sp_strategy_takes_apart(request.table)) {
        request.is_plain = true;
        if (request.gives_up && !sp_run_goes_on(search, 0))
            return SP_OK;
        return append_profiles(search, &request, search->plain, &search->plain_count);
    }
    for (uint32_t i = first; i < search->profile_count; i++)
        search->plain[search->plain_count++] = search->profiles[i];
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
                                       SP_RUN_MEMORY_SHARE * sp_space_capacity(joint->space, option);
}

/* Larger blocks are looked at while they are quicker, or needed for their memory: what collectives cost more than
   sharing saves, they cost on more devices, too. */
static bool is_worthwhile(const struct sp_space_option *option, const struct growth *growth)
{
    return growth->class_index != option->class_index || growth->disappointed < DISAPPOINTMENTS || !growth->fits;
}

enum sp_status sp_run_try_further_meshes(struct sp_search_run *search, bool is_whole)
{
    struct sp_joint *joint = &search->joint;
    const struct sp_space_option *promising[SP_MESH_VARIANTS_MOST];
    enum sp_status status = SP_OK;
    if (sp_run_has_pins(joint->options->constraints))
        return SP_OK;
    const uint32_t count = sp_mesh_variants_blocks(joint, search->profile_count,
                                                   (const struct sp_model_choice *const *)search->profiles, promising);
    for (uint32_t i = 0; status == SP_OK && i < count; i++) {
        uint32_t cuts[SP_SPACE_CUTS];
        const uint32_t cut_count = sp_space_cuts(promising[i], cuts);
        for (uint32_t c = 0; status == SP_OK && c < cut_count && sp_run_goes_on(search, 0.8); c++) {
            const struct sp_space_option *further = sp_space_add_mesh(joint->space, promising[i], cuts[c]);
            const uint32_t first = search->profile_count;
            if (further != NULL)
                status = profile_option(search, further);
            if (status == SP_OK)
                status = sp_run_propose_latest(search, first, is_whole);
        }
    }
    return status;
}

/* What stages are cut from: of single devices and, where operators may be split, of blocks. */
static enum sp_status make_units(struct sp_search_run *search)
{
    struct sp_joint *joint = &search->joint;
    const double *seconds = search->profiles[0]->seconds;
    struct sp_units *const *shared;
    enum sp_status status = sp_search_store_units(joint->store, search->profiles[0], &shared, search->err);
    for (uint32_t i = 0; status == SP_OK && shared != NULL && i < 2; i++)
        search->units[i] = shared[i];
    if (status == SP_OK && shared == NULL)
        status =
            sp_units_create(joint->arena, joint->workload, seconds, SP_UNITS_NODES, &search->units[0], search->err);
    if (status == SP_OK && shared == NULL)
        status =
            sp_units_create(joint->arena, joint->workload, seconds, SP_UNITS_FEWER, &search->units[1], search->err);
    joint->units = search->units[1];
    return status;
}

enum sp_status sp_run_make_profiles(struct sp_search_run *search)
{
    struct sp_joint *joint = &search->joint;
    struct growth growth = {0};
    enum sp_status status = SP_OK;
    for (uint32_t i = 0; status == SP_OK && i < joint->space->option_count; i++) {
        const uint32_t first = search->profile_count;
        if (joint->space->options[i].is_further ||
            (!sp_run_has_pins(joint->options->constraints) && !is_worthwhile(&joint->space->options[i], &growth)) ||
            !sp_run_goes_on(search, 0.8 * i / joint->space->option_count))
            continue;
        status = profile_option(search, &joint->space->options[i]);
        if (status != SP_OK || search->profile_count == first)
            continue;
        note_growth(joint, search->profiles[first], &growth);
        if (first == 0)
            status = make_units(search);
        if (status == SP_OK)
            status = sp_run_propose_latest(search, first, false);
    }
    return status == SP_OK && search->profile_count > 0 && sp_run_is_often_whole(search)
               ? sp_run_try_further_meshes(search, false)
               : status;
}

enum sp_status sp_run_try_whole_on_further_meshes(struct sp_search_run *search)
{
    const struct sp_joint_candidate *best = search->front.count > 0 ? search->front.plans[0] : NULL;
    if (sp_run_is_often_whole(search) || best == NULL || best->placement.stage_count != 1 || best->options == NULL ||
        best->options[0] == NULL || best->options[0]->size == 1 ||
        search->joint.options->strategy != SP_STRATEGY_AUTO || !sp_run_goes_on(search, 0.94))
        return SP_OK;
    return sp_run_try_further_meshes(search, true);
}
