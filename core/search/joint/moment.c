#include "search/joint/moment.h"

#include <stdlib.h>

/* What a stage of whole operators holds of a root tensor, by entries of the stage's nodes. */
struct resident {
    bool is_here, is_input, stays;
    uint32_t first, last;
};

struct stage {
    const struct sp_workload *workload;
    const struct sp_placement *placement;
    uint32_t index, node_count;
    uint32_t *nodes; /* ascending */
    struct resident *residents;
};

static bool leaves(const struct stage *stage, const struct sp_work_tensor *tensor)
{
    bool leaves = tensor->is_output;
    for (uint32_t i = 0; i < tensor->consumer_count && !leaves; i++)
        leaves = stage->placement->stage_of[tensor->consumers[i]] != stage->index;
    return leaves;
}

static void note_use(const struct stage *stage, uint32_t tensor, uint32_t entry, bool is_made)
{
    const uint32_t root = sp_work_root(stage->workload, tensor);
    struct resident *resident = &stage->residents[root];
    if (stage->workload->tensors[root].kind == SP_WORK_WEIGHT)
        return;
    if (!resident->is_here)
        *resident = (struct resident){.is_here = true, .first = entry};
    resident->last = entry;
    resident->is_input = resident->is_input || stage->workload->tensors[tensor].kind == SP_WORK_INPUT;
    resident->stays = resident->stays || (is_made && leaves(stage, &stage->workload->tensors[tensor]));
}

static bool is_alive(const struct resident *resident, uint32_t entry)
{
    return resident->is_here && (resident->is_input || resident->first <= entry) &&
           (resident->stays || resident->last >= entry);
}

/* The stage's nodes that run, and the entries between which it holds what. */
static bool read_stage(struct sp_arena *arena, struct stage *stage)
{
    const struct sp_workload *workload = stage->workload;
    stage->nodes = SP_NEW_ARRAY(arena, workload->node_count, uint32_t);
    stage->residents = SP_NEW_ARRAY(arena, workload->tensor_count, struct resident);
    if (stage->nodes == NULL || stage->residents == NULL)
        return false;
    for (uint32_t n = 0; n < workload->node_count; n++) {
        const struct sp_work_node *node = &workload->nodes[n];
        if (node->folded || stage->placement->stage_of[n] != stage->index)
            continue;
        for (uint32_t i = 0; i < node->input_count; i++)
            note_use(stage, node->inputs[i], stage->node_count, false);
        for (uint32_t i = 0; i < node->output_count; i++)
            note_use(stage, node->outputs[i], stage->node_count, true);
        stage->nodes[stage->node_count++] = n;
    }
    return true;
}

static enum sp_status whole_operators(struct sp_arena *arena, struct stage *stage, const struct sp_cluster *cluster,
                                      struct sp_moment *moment, struct sp_error *err)
{
    const struct sp_workload *workload = stage->workload;
    struct sp_evaluator *evaluator = sp_evaluator_create(arena, workload, cluster);
    struct sp_live_bytes *course;
    struct sp_stage_cost cost;
    uint32_t fullest = 0;
    if (evaluator == NULL || !read_stage(arena, stage))
        return sp_fail_memory(err);
    course = SP_NEW_ARRAY(arena, stage->node_count, struct sp_live_bytes);
    moment->tensors = SP_NEW_ARRAY(arena, workload->tensor_count, struct sp_moment_tensor);
    if (course == NULL || moment->tensors == NULL)
        return sp_fail_memory(err);
    if (stage->node_count == 0)
        return SP_OK;
    sp_evaluator_course(evaluator, stage->placement, stage->index, stage->nodes, stage->node_count, &cost, course);
    for (uint32_t i = 1; i < stage->node_count; i++)
        fullest = course[i].during > course[fullest].during ? i : fullest;
    moment->node = stage->nodes[fullest];
    moment->workspace_bytes = workload->nodes[moment->node].workspace_bytes;
    for (uint32_t t = 0; t < workload->tensor_count; t++) {
        if (is_alive(&stage->residents[t], fullest) && workload->tensors[t].bytes > 0)
            moment->tensors[moment->tensor_count++] = (struct sp_moment_tensor){t, workload->tensors[t].bytes};
    }
    return SP_OK;
}

static int by_tensor(const void *a, const void *b)
{
    const struct sp_intra_alive *x = a, *y = b;
    return x->tensor < y->tensor ? -1 : x->tensor > y->tensor;
}

static enum sp_status split_operators(struct sp_arena *arena, const struct sp_sharded_stage *sharded,
                                      struct sp_moment *moment, struct sp_error *err)
{
    struct sp_intra_moment fullest;
    enum sp_status status = sp_intra_fullest(arena, sharded->table, sharded->node_count, sharded->nodes,
                                             sharded->strategy_of, &fullest, err);
    if (status != SP_OK)
        return status;
    moment->node = fullest.node;
    moment->workspace_bytes = fullest.workspace_bytes;
    moment->tensors = SP_NEW_ARRAY(arena, fullest.count, struct sp_moment_tensor);
    if (moment->tensors == NULL)
        return sp_fail_memory(err);
    if (fullest.count > 1)
        qsort(fullest.alive, fullest.count, sizeof *fullest.alive, by_tensor);
    for (uint32_t i = 0; i < fullest.count; i++) {
        const struct sp_intra_alive *alive = &fullest.alive[i];
        if (alive->bytes <= 0)
            continue;
        if (moment->tensor_count == 0 || moment->tensors[moment->tensor_count - 1].tensor != alive->tensor)
            moment->tensors[moment->tensor_count++] = (struct sp_moment_tensor){alive->tensor, 0};
        moment->tensors[moment->tensor_count - 1].bytes += alive->bytes;
    }
    return SP_OK;
}

static int by_bytes(const void *a, const void *b)
{
    const struct sp_moment_tensor *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->tensor < y->tensor ? -1 : x->tensor > y->tensor;
}

enum sp_status sp_moment_of_stage(struct sp_arena *arena, const struct sp_workload *workload,
                                  const struct sp_cluster *cluster, const struct sp_placement *placement,
                                  const struct sp_sharded_stage *sharded, uint32_t stage, struct sp_moment *ret_moment,
                                  struct sp_error *err)
{
    struct stage whole = {.workload = workload, .placement = placement, .index = stage};
    *ret_moment = (struct sp_moment){.stage = stage, .node = SP_NO_WORK};
    enum sp_status status = sharded == NULL || sharded[stage].table == NULL
                                ? whole_operators(arena, &whole, cluster, ret_moment, err)
                                : split_operators(arena, &sharded[stage], ret_moment, err);
    if (status != SP_OK)
        return status;
    if (ret_moment->tensor_count > 1)
        qsort(ret_moment->tensors, ret_moment->tensor_count, sizeof *ret_moment->tensors, by_bytes);
    for (uint32_t i = 0; i < ret_moment->tensor_count; i++)
        ret_moment->alive_bytes += ret_moment->tensors[i].bytes;
    return SP_OK;
}
