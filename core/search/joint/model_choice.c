#include "search/joint/model_choice.h"

#include <math.h>
#include <string.h>

#include "search/joint/evaluate.h"
#include "search/joint/violations.h"

/* A choice under way, with the arrays behind choice->bytes. */
struct making {
    struct sp_model_choice *choice;
    double *persistent_bytes, *workspace_bytes, *tensor_bytes;
};

static bool allocate(struct sp_arena *arena, const struct sp_workload *workload, struct making *making)
{
    struct sp_model_choice *choice = making->choice;
    choice->strategy_of = SP_NEW_ARRAY(arena, workload->node_count, uint32_t);
    choice->seconds = SP_NEW_ARRAY(arena, workload->node_count, double);
    making->persistent_bytes = SP_NEW_ARRAY(arena, workload->node_count, double);
    making->workspace_bytes = SP_NEW_ARRAY(arena, workload->node_count, double);
    making->tensor_bytes = SP_NEW_ARRAY(arena, workload->tensor_count, double);
    choice->bytes = (struct sp_stage_block){.persistent_bytes = making->persistent_bytes,
                                            .workspace_bytes = making->workspace_bytes,
                                            .tensor_bytes = making->tensor_bytes};
    return choice->strategy_of != NULL && choice->seconds != NULL && making->persistent_bytes != NULL &&
           making->workspace_bytes != NULL && making->tensor_bytes != NULL;
}

/* ---- strategies ------------------------------------------------------------------------------------------------- */

/* Notes for which nodes the constraints leave no strategy. */
static enum sp_status find_unable(struct sp_arena *arena, struct sp_model_choice *profile, struct sp_split_rules *rules,
                                  struct sp_error *err)
{
    if (!sp_constraints_split(rules->constraints))
        return SP_OK;
    profile->unable = SP_NEW_ARRAY(arena, rules->workload->node_count, bool);
    if (profile->unable == NULL)
        return sp_fail_memory(err);
    for (uint32_t n = 0; n < rules->workload->node_count; n++)
        profile->unable[n] = !rules->workload->nodes[n].folded && !sp_split_possible(rules, n);
    rules->unable = profile->unable;
    return SP_OK;
}

/* Chooses strategies; *ret_chosen is false where none is within the limit. Nothing that is made in `arena` stays. */
static enum sp_status choose(struct sp_arena *arena, const struct sp_profile_request *request,
                             const struct sp_split_rules *rules, struct sp_model_choice *profile, bool *ret_chosen,
                             struct sp_error *err)
{
    const struct sp_workload *workload = request->workload;
    const struct sp_choice_options options = {.seed = request->seed,
                                              .work_limit = request->choice_work,
                                              .executor = request->executor,
                                              .watch = request->watch,
                                              .stop = sp_watch_stop(request->watch)};
    struct sp_intra_options intra_options = {
        .blocks = request->blocks, .memory_limit = request->memory_limit, .watch = request->watch};
    struct sp_choice_result *choice;
    struct sp_intra_result *result;
    struct sp_intra *intra;
    uint32_t *nodes = SP_NEW_ARRAY(arena, workload->node_count, uint32_t);
    if (nodes == NULL)
        return sp_fail_memory(err);
    for (uint32_t n = 0; n < workload->node_count; n++) {
        if (!workload->nodes[n].folded)
            nodes[intra_options.node_count++] = n;
    }
    intra_options.nodes = nodes;
    if (sp_constraints_split(rules->constraints))
        intra_options.blocks = NULL; /* blocks that are equal by themselves are not under constraints */
    if (sp_split_refuses(rules)) {
        intra_options.allowed = sp_split_allowed;
        intra_options.context = rules;
    }
    enum sp_status status = sp_intra_create(arena, request->table, &intra_options, &intra, err);
    if (status == SP_OK && request->gives_up && !sp_watch_tick(request->watch, "search", 0, 0, 0)) {
        *ret_chosen = false;
        return SP_OK;
    }
    if (status == SP_OK)
        status = sp_intra_solve(arena, intra, request->is_plain, &options, &choice, err);
    if (status != SP_OK)
        return status;
    *ret_chosen = choice->is_feasible;
    if (!choice->is_feasible)
        return SP_OK;
    status = sp_intra_result(arena, intra, choice->choice, &result, err);
    if (status == SP_OK && rules->gathers && sp_intra_held_bytes(result) > request->memory_limit) {
        *ret_chosen = false;
        return SP_OK;
    }
    for (uint32_t i = 0; status == SP_OK && i < result->node_count; i++)
        profile->strategy_of[nodes[i]] = result->strategy_of[i];
    for (uint32_t i = 0; status == SP_OK && i < result->use_count; i++)
        profile->seconds[result->uses[i].node] += result->uses[i].seconds;
    return status;
}

/* ---- figures of nodes ------------------------------------------------------------------------------------------- */

static double local_bytes(const struct sp_model_choice *profile, uint32_t node, uint32_t tensor,
                          const struct sp_workload *workload)
{
    if (profile->table == NULL)
        return workload->tensors[tensor].bytes;
    const uint32_t layout = sp_joint_layout(profile->table, node, profile->strategy_of[node], tensor);
    return ceil(sp_strategy_local_bytes(profile->table, tensor, layout));
}

static void take_node(struct making *making, const struct sp_workload *workload, uint32_t n)
{
    struct sp_model_choice *choice = making->choice;
    const struct sp_work_node *node = &workload->nodes[n];
    if (choice->table == NULL) {
        choice->seconds[n] = node->seconds[choice->option->mesh.kind];
        making->persistent_bytes[n] = node->inner_weight_bytes + node->resident_bytes;
        making->workspace_bytes[n] = node->workspace_bytes;
    } else {
        const struct sp_strategy *strategy = &sp_strategy_of(choice->table, n)->items[choice->strategy_of[n]];
        choice->seconds[n] += strategy->compute_seconds + strategy->communication_seconds;
        making->persistent_bytes[n] = ceil(node->inner_weight_bytes + strategy->resident_bytes);
        making->workspace_bytes[n] = ceil(strategy->workspace_bytes);
    }
    for (uint32_t i = 0; i < node->output_count; i++)
        making->tensor_bytes[node->outputs[i]] = local_bytes(choice, n, node->outputs[i], workload);
    /* Weights and model inputs are as their first user has them. */
    for (uint32_t i = 0; i < node->input_count; i++) {
        const uint32_t root = sp_work_root(workload, node->inputs[i]);
        if (workload->tensors[root].kind != SP_WORK_ACTIVATION && making->tensor_bytes[root] == 0)
            making->tensor_bytes[root] = local_bytes(choice, n, node->inputs[i], workload);
    }
}

/* Whether sums of the choice's bytes are exact. */
static bool are_whole(const struct sp_stage_block *bytes, const struct sp_workload *workload)
{
    for (uint32_t n = 0; n < workload->node_count; n++)
        if (bytes->persistent_bytes[n] != floor(bytes->persistent_bytes[n]) ||
            bytes->workspace_bytes[n] != floor(bytes->workspace_bytes[n]))
            return false;
    for (uint32_t t = 0; t < workload->tensor_count; t++)
        if (bytes->tensor_bytes[t] != floor(bytes->tensor_bytes[t]))
            return false;
    return true;
}

/* The whole model as one stage. */
static enum sp_status take_sums(struct sp_arena *scratch, struct sp_model_choice *choice,
                                const struct sp_workload *workload, struct sp_error *err)
{
    uint32_t *part_of = SP_NEW_ARRAY(scratch, workload->node_count, uint32_t);
    double whole = 0, local = 0;
    for (uint32_t n = 0; part_of != NULL && n < workload->node_count; n++) {
        const struct sp_work_node *node = &workload->nodes[n];
        choice->total_seconds += choice->seconds[n];
        part_of[n] = node->folded ? SP_NO_WORK : 0;
        for (uint32_t i = 0; !node->folded && i < node->output_count; i++) {
            whole += workload->tensors[node->outputs[i]].bytes;
            local += choice->bytes.tensor_bytes[node->outputs[i]];
        }
    }
    struct sp_stage_parts *parts =
        part_of == NULL ? NULL : sp_stage_parts_create(scratch, workload, 1, part_of, 1, &choice->bytes);
    struct sp_stage_set *set = parts == NULL ? NULL : sp_stage_set_create(scratch, parts);
    if (set == NULL)
        return sp_fail_memory(err);
    sp_stage_set_put(set, 0);
    choice->peak_bytes = sp_stage_set_peak(set, 0);
    choice->total_weight_bytes = sp_stage_set_weights(set, 0);
    choice->sent_share = whole > 0 ? local / whole : 1;
    return SP_OK;
}

enum sp_status sp_profile_create(struct sp_arena *arena, const struct sp_profile_request *request,
                                 struct sp_model_choice **ret_profile, struct sp_error *err)
{
    struct sp_model_choice *profile = SP_NEW(arena, struct sp_model_choice);
    struct sp_split_rules rules = {.constraints = request->constraints,
                                   .workload = request->workload,
                                   .table = request->table,
                                   .mesh = &request->option->mesh,
                                   .gathers = request->gathers};
    struct making making = {.choice = profile};
    bool chosen = true;
    if (profile == NULL || !allocate(arena, request->workload, &making))
        return sp_fail_memory(err);
    profile->option = request->option;
    profile->table = request->table;
    profile->is_free = isinf(request->memory_limit);
    enum sp_status status = find_unable(arena, profile, &rules, err);
    struct sp_arena *scratch = sp_arena_create(sp_arena_budget(arena)); /* a problem takes far more than its answer */
    if (status == SP_OK && scratch == NULL)
        status = sp_fail_memory(err);
    if (status == SP_OK && request->table != NULL)
        status = choose(scratch, request, &rules, profile, &chosen, err);
    for (uint32_t n = 0; status == SP_OK && chosen && n < request->workload->node_count; n++) {
        if (!request->workload->nodes[n].folded)
            take_node(&making, request->workload, n);
    }
    if (status == SP_OK && chosen)
        status = take_sums(scratch, profile, request->workload, err);
    if (status == SP_OK && chosen && are_whole(&profile->bytes, request->workload)) {
        if ((profile->known = SP_NEW(arena, struct sp_known_list)) == NULL)
            status = sp_fail_memory(err);
        else
            profile->known->arena = arena;
    }
    sp_arena_destroy(scratch);
    if (status == SP_OK)
        *ret_profile = chosen ? profile : NULL;
    return status;
}
