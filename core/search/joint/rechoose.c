#include "search/joint/rechoose.h"

#include <math.h>
#include <string.h>

#include "cost/contract.h"

#include "search/joint/pareto_front.h"
#include "search/joint/violations.h"

#define ROUNDS 5    /* of choosing under less memory, for stages that turn out not to fit */
#define SPARE  1.02 /* how much more than what lacked is taken off */

/* Different nodes of a stage that are many: its strategies were chosen with all others of the model, and if it were
   alone only those at its borders would be others. Where they fit they stay. */
#define MANY_NODES 4096

#define POLISH_WORK (20 * SP_JOINT_CHOICE_WORK) /* of all stages of one candidate */

struct choosing {
    struct sp_joint *joint;
    struct sp_joint_candidate *candidate;
    double *reserved; /* per stage: bytes that its strategies may not use */
    bool *hopeless;   /* per stage: no choice is within its memory */
    bool *is_best;    /* per stage: another choice gains nothing as long as this one fits */
    uint64_t work;    /* of one choice */
};

/* ---- strategies of the profiles --------------------------------------------------------------------------------- */

static enum sp_status list_nodes(struct choosing *choosing, struct sp_error *err)
{
    const struct sp_joint *joint = choosing->joint;
    const struct sp_placement *placement = &choosing->candidate->placement;
    const struct sp_units *units = joint->units;
    uint32_t *count = SP_NEW_ARRAY(joint->arena, placement->stage_count, uint32_t);
    if (count == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < units->live_count; i++)
        count[placement->stage_of[units->order[i]]]++;
    for (uint32_t s = 0; s < placement->stage_count; s++) {
        uint32_t *nodes = SP_NEW_ARRAY(joint->arena, count[s], uint32_t);
        if (nodes == NULL)
            return sp_fail_memory(err);
        choosing->candidate->sharded[s].nodes = nodes;
    }
    for (uint32_t i = 0; i < units->live_count; i++) {
        struct sp_sharded_stage *stage = &choosing->candidate->sharded[placement->stage_of[units->order[i]]];
        ((uint32_t *)stage->nodes)[stage->node_count++] = units->order[i];
    }
    return SP_OK;
}

static enum sp_status take_strategies(struct choosing *choosing, uint32_t s, const struct sp_model_choice *profile,
                                      struct sp_error *err)
{
    struct sp_sharded_stage *stage = &choosing->candidate->sharded[s];
    uint32_t *strategy_of = SP_NEW_ARRAY(choosing->joint->arena, stage->node_count, uint32_t);
    if (strategy_of == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < stage->node_count; i++)
        strategy_of[i] = profile->strategy_of[stage->nodes[i]];
    stage->table = profile->table;
    stage->strategy_of = strategy_of;
    return SP_OK;
}

/* ---- choosing again --------------------------------------------------------------------------------------------- */

/* Whether two stages are the same operators in the same order, on equal blocks with equally much memory. */
static bool same_stage(const struct choosing *choosing, uint32_t a, uint32_t b)
{
    const struct sp_joint_candidate *candidate = choosing->candidate;
    const struct sp_sharded_stage *x = &candidate->sharded[a], *y = &candidate->sharded[b];
    const uint32_t *class_of = choosing->joint->blocks->class_of;
    if (sp_constraints_split(choosing->joint->options->constraints))
        return a == b;
    if (candidate->options[a] != candidate->options[b] || x->node_count != y->node_count ||
        choosing->reserved[a] != choosing->reserved[b])
        return false;
    for (uint32_t i = 0; i < x->node_count; i++) {
        if (class_of[x->nodes[i]] != class_of[y->nodes[i]])
            return false;
    }
    return true;
}

static double stage_seconds(const struct sp_intra_result *intra)
{
    return intra->compute_seconds + intra->communication_seconds;
}

/* Beside buffers, of one device or of the one with the least room. */
static double held_bytes(const struct choosing *choosing, uint32_t s)
{
    const struct sp_stage_cost *cost = &choosing->candidate->evaluation->stages[s];
    return cost->weights_bytes + cost->cache_bytes + cost->activations_peak_bytes;
}

/* Of unequal devices the table counts the bytes of the one that lacks most, or has least left. */
static void count_fullest(const struct choosing *choosing, uint32_t s)
{
    const struct sp_sharded_stage *stage = &choosing->candidate->sharded[s];
    const struct sp_stage_cost *own = choosing->candidate->evaluation->members;
    const uint32_t members = sp_strategy_table_mesh(stage->table)->member_count;
    uint32_t fullest = 0;
    if (members == 0)
        return;
    own += choosing->candidate->placement.stage_device[s];
    for (uint32_t m = 1; m < members; m++)
        if (own[m].total_bytes - own[m].capacity_bytes > own[fullest].total_bytes - own[fullest].capacity_bytes)
            fullest = m;
    sp_strategy_count_member(stage->table, fullest);
}

/* The best that the rules allow; *ret_result stays NULL where nothing fits. Of ways that gather weights what is held is
   counted again, as a choice simplifies it. */
static enum sp_status solve_stage(struct choosing *choosing, struct sp_arena *scratch, struct sp_strategy_table *table,
                                  const struct sp_split_rules *rules, struct sp_intra_options *intra_options,
                                  struct sp_intra_result **ret_result, struct sp_error *err)
{
    struct sp_joint *joint = choosing->joint;
    const struct sp_choice_options options = {.seed = joint->options->seed,
                                              .work_limit = choosing->work,
                                              .executor = joint->options->executor,
                                              .watch = joint->options->watch,
                                              .stop = sp_watch_stop(joint->options->watch)};
    const bool refuses = sp_split_refuses(rules);
    struct sp_intra_result *result = NULL;
    struct sp_choice_result *choice;
    struct sp_intra *intra;
    intra_options->allowed = refuses ? sp_split_allowed : NULL;
    intra_options->context = refuses ? rules : NULL;
    enum sp_status status = sp_intra_create(scratch, table, intra_options, &intra, err);
    if (status == SP_OK)
        status = sp_intra_solve(scratch, intra, false, &options, &choice, err);
    if (status == SP_OK && choice->is_feasible)
        status = sp_intra_result(joint->arena, intra, choice->choice, &result, err);
    if (status == SP_OK && result != NULL &&
        (!rules->gathers || sp_intra_held_bytes(result) <= intra_options->memory_limit))
        *ret_result = result;
    return status;
}

/* The least time of the stage's operators within `limit`; what it has stays where that is as good. */
static enum sp_status choose_stage(struct choosing *choosing, uint32_t s, double limit, struct sp_error *err)
{
    struct sp_joint *joint = choosing->joint;
    struct sp_sharded_stage *stage = &choosing->candidate->sharded[s];
    struct sp_split_rules rules = {.constraints = joint->options->constraints,
                                   .workload = joint->workload,
                                   .table = stage->table,
                                   .mesh = &choosing->candidate->options[s]->mesh};
    struct sp_intra_options intra_options = {.node_count = stage->node_count,
                                             .nodes = stage->nodes,
                                             .blocks = joint->blocks,
                                             .memory_limit = limit,
                                             .watch = joint->options->watch};
    struct sp_arena *scratch = sp_arena_create(sp_arena_budget(joint->arena));
    struct sp_intra_result *result = NULL, *gathering = NULL;
    if (scratch == NULL)
        return sp_fail_memory(err);
    if (sp_constraints_split(rules.constraints))
        intra_options.blocks = NULL;
    count_fullest(choosing, s);
    enum sp_status status = solve_stage(choosing, scratch, stage->table, &rules, &intra_options, &result, err);
    if (status == SP_OK && sp_strategy_gathers(stage->table)) {
        rules.gathers = true;
        status = solve_stage(choosing, scratch, stage->table, &rules, &intra_options, &gathering, err);
    }
    if (gathering != NULL && (result == NULL || stage_seconds(gathering) < stage_seconds(result)))
        result = gathering;
    if (status == SP_OK)
        choosing->hopeless[s] = result == NULL;
    sp_strategy_count_member(stage->table, choosing->candidate->options[s]->mesh.counted);
    sp_arena_destroy(scratch);
    if (status != SP_OK || result == NULL)
        return status;
    const bool fits = stage->intra != NULL && held_bytes(choosing, s) <= limit;
    if (fits && stage_seconds(stage->intra) <= stage_seconds(result))
        return SP_OK;
    joint->accepted++;
    stage->strategy_of = result->strategy_of;
    stage->intra = NULL; /* counted anew from the strategies, as for any other placement */
    return SP_OK;
}

static void copy_stage(struct choosing *choosing, uint32_t from, uint32_t to)
{
    struct sp_sharded_stage *stage = &choosing->candidate->sharded[to];
    if (stage->strategy_of != choosing->candidate->sharded[from].strategy_of)
        stage->intra = NULL;
    stage->strategy_of = choosing->candidate->sharded[from].strategy_of;
    choosing->hopeless[to] = choosing->hopeless[from];
}

/* Chooses in all stages, or only in those that do not fit. */
static enum sp_status choose_stages(struct choosing *choosing, bool all, struct sp_error *err)
{
    struct sp_joint_candidate *candidate = choosing->candidate;
    const uint32_t count = candidate->placement.stage_count;
    uint32_t *chosen = SP_NEW_ARRAY(choosing->joint->arena, count, uint32_t), chosen_count = 0;
    if (chosen == NULL)
        return sp_fail_memory(err);
    for (uint32_t s = 0; s < count; s++) {
        const struct sp_stage_cost *cost = &candidate->evaluation->stages[s];
        uint32_t same = 0;
        const bool is_good = !all || choosing->is_best[s];
        if (candidate->sharded[s].table == NULL || (is_good && cost->total_bytes <= cost->capacity_bytes))
            continue;
        while (same < chosen_count && !same_stage(choosing, chosen[same], s))
            same++;
        if (same < chosen_count) {
            copy_stage(choosing, chosen[same], s);
            continue;
        }
        const struct sp_cluster *cluster = choosing->joint->cluster;
        const bool spills = sp_strategy_table_mesh(candidate->sharded[s].table)->member_count == 0;
        const double spilled =
            spills ? sp_cluster_room(cluster, cost->device) - sp_cluster_memory(cluster, cost->device) : 0;
        enum sp_status status = choose_stage(choosing, s, cost->capacity_bytes + spilled - choosing->reserved[s], err);
        if (status != SP_OK)
            return status;
        chosen[chosen_count++] = s;
    }
    return SP_OK;
}

/* ---- evaluation ------------------------------------------------------------------------------------------------- */

enum sp_status sp_joint_judge(struct sp_joint *joint, struct sp_joint_candidate *candidate, struct sp_error *err)
{
    enum sp_status status = sp_joint_evaluator_run(joint->evaluator, joint->arena, &candidate->placement,
                                                   candidate->sharded, &candidate->evaluation, err);
    if (status != SP_OK)
        return status;
    joint->explored++;
    candidate->fits = candidate->evaluation->worst_excess_bytes <= 0;
    candidate->memory_bytes = 0;
    candidate->devices_used = candidate->evaluation->device_count;
    for (uint32_t s = 0; s < candidate->placement.stage_count; s++) {
        const struct sp_stage_cost *cost = &candidate->evaluation->stages[s];
        candidate->memory_bytes = fmax(candidate->memory_bytes, cost->total_bytes);
        candidate->fits = candidate->fits && sp_unable_nodes(joint->workload, cost->compute_seconds) == 0;
    }
    return SP_OK;
}

/* Takes what lacked off the stages that do not fit; false when a stage cannot have less, or none lacks anything. */
static bool take_off(struct choosing *choosing)
{
    const struct sp_joint_candidate *candidate = choosing->candidate;
    bool any = false;
    for (uint32_t s = 0; s < candidate->placement.stage_count; s++) {
        const struct sp_stage_cost *cost = &candidate->evaluation->stages[s];
        const double excess = cost->total_bytes - cost->capacity_bytes;
        if (excess <= 0)
            continue;
        if (candidate->sharded[s].table == NULL || choosing->hopeless[s])
            return false;
        choosing->reserved[s] += SPARE * excess + 1;
        any = true;
    }
    return any;
}

/* Chooses in all stages, then under less in those that do not fit. */
static enum sp_status choose_and_judge(struct choosing *choosing, struct sp_error *err)
{
    struct sp_joint_candidate *candidate = choosing->candidate;
    for (uint32_t s = 0; s < candidate->placement.stage_count; s++)
        choosing->reserved[s] = candidate->evaluation->stages[s].communication_bytes;
    enum sp_status status = choose_stages(choosing, true, err);
    if (status == SP_OK)
        status = sp_joint_judge(choosing->joint, candidate, err);
    for (uint32_t round = 0; status == SP_OK && round < ROUNDS && take_off(choosing); round++) {
        status = choose_stages(choosing, false, err);
        if (status == SP_OK)
            status = sp_joint_judge(choosing->joint, candidate, err);
    }
    return status;
}

static enum sp_status start_choosing(struct choosing *choosing, struct sp_joint *joint,
                                     struct sp_joint_candidate *candidate, uint64_t work, struct sp_error *err)
{
    const uint32_t count = candidate->placement.stage_count;
    *choosing = (struct choosing){.joint = joint,
                                  .candidate = candidate,
                                  .reserved = SP_NEW_ARRAY(joint->arena, count, double),
                                  .hopeless = SP_NEW_ARRAY(joint->arena, count, bool),
                                  .is_best = SP_NEW_ARRAY(joint->arena, count, bool),
                                  .work = work};
    return choosing->reserved == NULL || choosing->hopeless == NULL || choosing->is_best == NULL ? sp_fail_memory(err)
                                                                                                 : SP_OK;
}

/* Whether a stage has many nodes that are no repetition of others in it. */
static enum sp_status has_many(const struct choosing *choosing, uint32_t s, bool *ret_many, struct sp_error *err)
{
    const struct sp_joint *joint = choosing->joint;
    const struct sp_sharded_stage *stage = &choosing->candidate->sharded[s];
    struct sp_arena_mark mark = sp_arena_mark(joint->arena);
    uint32_t different = 0;
    *ret_many = false;
    if (stage->node_count <= MANY_NODES || stage->table == NULL)
        return SP_OK;
    bool *seen = SP_NEW_ARRAY(joint->arena, joint->workload->node_count, bool);
    if (seen == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < stage->node_count; i++) {
        const uint32_t same = joint->blocks->same_as[stage->nodes[i]];
        different += !seen[same];
        seen[same] = true;
    }
    sp_arena_rewind(joint->arena, mark);
    *ret_many = different > MANY_NODES;
    return SP_OK;
}

enum sp_status sp_joint_rechoose(struct sp_joint *joint, struct sp_joint_candidate *candidate,
                                 const struct sp_model_choice *const *profiles, const uint32_t *profile_of,
                                 struct sp_error *err)
{
    struct choosing choosing;
    enum sp_status status = start_choosing(&choosing, joint, candidate, SP_JOINT_CHOICE_WORK, err);
    if (status == SP_OK)
        status = list_nodes(&choosing, err);
    for (uint32_t s = 0; status == SP_OK && s < candidate->placement.stage_count; s++) {
        const struct sp_model_choice *profile = profiles[profile_of[s]];
        if (profile->table == NULL)
            continue;
        status = take_strategies(&choosing, s, profile, err);
        if (status == SP_OK && profile->is_free)
            status = has_many(&choosing, s, &choosing.is_best[s], err);
        if (profile->is_free && candidate->sharded[s].node_count == joint->units->live_count)
            choosing.is_best[s] = true; /* the same question */
    }
    if (status == SP_OK)
        status = sp_joint_judge(joint, candidate, err);
    if (status == SP_OK && !sp_front_note_short_of_memory(joint, candidate))
        status = sp_fail_memory(err);
    const bool is_idle = status == SP_OK && candidate->is_hopeful && joint->ranked[0] != NULL &&
                         !sp_front_better(joint->options->objective, candidate, joint->ranked[0]);
    if (status == SP_OK && !candidate->is_draft && !is_idle)
        status = choose_and_judge(&choosing, err);
    return status;
}

enum sp_status sp_joint_polish(struct sp_joint *joint, const struct sp_joint_candidate *candidate,
                               struct sp_joint_candidate **ret_candidate, struct sp_error *err)
{
    const uint32_t count = candidate->placement.stage_count;
    struct sp_joint_candidate *copy = SP_NEW(joint->arena, struct sp_joint_candidate);
    struct sp_sharded_stage *sharded = SP_NEW_ARRAY(joint->arena, count, struct sp_sharded_stage);
    struct choosing choosing;
    if (copy == NULL || sharded == NULL)
        return sp_fail_memory(err);
    *copy = *candidate;
    copy->sharded = memcpy(sharded, candidate->sharded, count * sizeof *sharded);
    enum sp_status status = start_choosing(&choosing, joint, copy, POLISH_WORK / count, err);
    for (uint32_t s = 0; status == SP_OK && s < count; s++)
        status = has_many(&choosing, s, &choosing.is_best[s], err);
    if (status == SP_OK)
        status = choose_and_judge(&choosing, err);
    if (status == SP_OK)
        *ret_candidate = copy;
    return status;
}
