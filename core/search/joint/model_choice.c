#include "search/joint/model_choice.h"

#include <math.h>
#include <string.h>

#include "search/joint/evaluate.h"
#include "search/joint/violations.h"

static bool allocate(struct sp_arena *arena, const struct sp_workload *workload, struct sp_model_choice *profile)
{
    profile->strategy_of = SP_NEW_ARRAY(arena, workload->node_count, uint32_t);
    profile->seconds = SP_NEW_ARRAY(arena, workload->node_count, double);
    profile->weight_bytes = SP_NEW_ARRAY(arena, workload->node_count, double);
    profile->held_bytes = SP_NEW_ARRAY(arena, workload->node_count, double);
    profile->kept_bytes = SP_NEW_ARRAY(arena, workload->node_count, double);
    profile->workspace_bytes = SP_NEW_ARRAY(arena, workload->node_count, double);
    profile->local_bytes = SP_NEW_ARRAY(arena, workload->tensor_count, double);
    return profile->kept_bytes != NULL && profile->workspace_bytes != NULL && profile->strategy_of != NULL &&
           profile->seconds != NULL && profile->weight_bytes != NULL && profile->held_bytes != NULL &&
           profile->local_bytes != NULL;
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
                                              .watch = request->watch};
    struct sp_intra_options intra_options = {.blocks = request->blocks, .memory_limit = request->memory_limit};
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
    if (sp_constraints_split(rules->constraints)) {
        intra_options.blocks = NULL; /* blocks that are equal by themselves are not under constraints */
        intra_options.allowed = sp_split_allowed;
        intra_options.context = rules;
    }
    enum sp_status status = sp_intra_create(arena, request->table, &intra_options, &intra, err);
    if (status == SP_OK)
        status = sp_choice_solve(arena, sp_intra_problem(intra), &options, &choice, err);
    if (status != SP_OK)
        return status;
    *ret_chosen = choice->is_feasible;
    if (!choice->is_feasible)
        return SP_OK;
    status = sp_intra_result(arena, intra, choice->choice, &result, err);
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
    return sp_strategy_local_bytes(profile->table, tensor, layout);
}

static void take_node(struct sp_model_choice *profile, const struct sp_workload *workload, uint32_t n)
{
    const struct sp_work_node *node = &workload->nodes[n];
    if (profile->table == NULL) {
        profile->seconds[n] = node->seconds[profile->option->mesh.kind];
        profile->weight_bytes[n] = node->inner_weight_bytes + node->resident_bytes;
        profile->workspace_bytes[n] = node->workspace_bytes;
    } else {
        const struct sp_strategy *strategy = &sp_strategy_of(profile->table, n)->items[profile->strategy_of[n]];
        profile->seconds[n] += strategy->compute_seconds + strategy->communication_seconds;
        profile->weight_bytes[n] = node->inner_weight_bytes + strategy->resident_bytes;
        profile->workspace_bytes[n] = strategy->workspace_bytes;
    }
    profile->kept_bytes[n] = profile->weight_bytes[n];
    for (uint32_t i = 0; i < node->output_count; i++)
        profile->local_bytes[node->outputs[i]] = local_bytes(profile, n, node->outputs[i], workload);
}

/* Weights and model inputs are as their first user has them, and weights count there; `seen` has a zeroed entry per
   tensor. */
static void take_inputs(struct sp_model_choice *profile, const struct sp_workload *workload, bool *seen)
{
    for (uint32_t n = 0; n < workload->node_count; n++) {
        const struct sp_work_node *node = &workload->nodes[n];
        for (uint32_t i = 0; !node->folded && i < node->input_count; i++) {
            const uint32_t root = sp_work_root(workload, node->inputs[i]);
            if (workload->tensors[root].kind == SP_WORK_ACTIVATION || seen[root])
                continue;
            seen[root] = true;
            profile->local_bytes[root] = local_bytes(profile, n, node->inputs[i], workload);
            if (workload->tensors[root].kind == SP_WORK_WEIGHT)
                profile->weight_bytes[n] += profile->local_bytes[root];
        }
    }
}

/* Live activations in the course of all nodes; `last` has an entry per tensor: the last user of a root. */
static void take_live(struct sp_model_choice *profile, const struct sp_workload *workload, uint32_t *last)
{
    double live = 0;
    for (uint32_t n = 0; n < workload->node_count; n++) {
        const struct sp_work_node *node = &workload->nodes[n];
        for (uint32_t i = 0; !node->folded && i < node->input_count; i++)
            last[sp_work_root(workload, node->inputs[i])] = n;
    }
    for (uint32_t n = 0; n < workload->node_count; n++) {
        const struct sp_work_node *node = &workload->nodes[n];
        if (node->folded)
            continue;
        for (uint32_t i = 0; i < node->output_count; i++) {
            const struct sp_work_tensor *tensor = &workload->tensors[node->outputs[i]];
            live += tensor->alias_of == SP_NO_WORK ? profile->local_bytes[node->outputs[i]] : 0;
        }
        profile->held_bytes[n] = profile->workspace_bytes[n] + live;
        profile->peak_bytes = fmax(profile->peak_bytes, profile->held_bytes[n]);
        /* What ends here: its root is used here last; several operands may be one root. */
        for (uint32_t i = 0; i < node->input_count; i++) {
            const uint32_t root = sp_work_root(workload, node->inputs[i]);
            if (last[root] != n || workload->tensors[root].kind != SP_WORK_ACTIVATION)
                continue;
            live -= profile->local_bytes[root];
            last[root] = SP_NO_WORK;
        }
    }
}

static enum sp_status take_figures(struct sp_arena *arena, struct sp_model_choice *profile,
                                   const struct sp_workload *workload, struct sp_error *err)
{
    bool *seen = SP_NEW_ARRAY(arena, workload->tensor_count, bool);
    uint32_t *last = SP_NEW_ARRAY(arena, workload->tensor_count, uint32_t);
    double whole = 0, local = 0;
    if (seen == NULL || last == NULL)
        return sp_fail_memory(err);
    for (uint32_t n = 0; n < workload->node_count; n++) {
        if (!workload->nodes[n].folded)
            take_node(profile, workload, n);
    }
    take_inputs(profile, workload, seen);
    take_live(profile, workload, last);
    for (uint32_t n = 0; n < workload->node_count; n++) {
        const struct sp_work_node *node = &workload->nodes[n];
        profile->total_seconds += profile->seconds[n];
        profile->total_weight_bytes += profile->weight_bytes[n];
        for (uint32_t i = 0; !node->folded && i < node->output_count; i++) {
            whole += workload->tensors[node->outputs[i]].bytes;
            local += profile->local_bytes[node->outputs[i]];
        }
    }
    profile->sent_share = whole > 0 ? local / whole : 1;
    return SP_OK;
}

enum sp_status sp_profile_create(struct sp_arena *arena, const struct sp_profile_request *request,
                                 struct sp_model_choice **ret_profile, struct sp_error *err)
{
    struct sp_model_choice *profile = SP_NEW(arena, struct sp_model_choice);
    struct sp_split_rules rules = {.constraints = request->constraints,
                                   .workload = request->workload,
                                   .table = request->table,
                                   .mesh = &request->option->mesh};
    bool chosen = true;
    if (profile == NULL || !allocate(arena, request->workload, profile))
        return sp_fail_memory(err);
    profile->option = request->option;
    profile->table = request->table;
    profile->is_free = isinf(request->memory_limit);
    enum sp_status status = find_unable(arena, profile, &rules, err);
    if (status == SP_OK && request->table != NULL) {
        struct sp_arena *scratch =
            sp_arena_create(sp_arena_budget(arena)); /* a problem takes far more than its answer */
        status = scratch == NULL ? sp_fail_memory(err) : choose(scratch, request, &rules, profile, &chosen, err);
        sp_arena_destroy(scratch);
    }
    if (status == SP_OK && chosen)
        status = take_figures(arena, profile, request->workload, err);
    if (status == SP_OK)
        *ret_profile = chosen ? profile : NULL;
    return status;
}
