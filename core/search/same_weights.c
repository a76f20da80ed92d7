#include "search/same_weights.h"

#include <math.h>
#include <string.h>

#include "base/sorted.h"

#define CHOICE_WORK ((uint64_t)10000000) /* of one stage: as for a stage of a search */

/* One stage, while its strategies are chosen. */
struct stage_choice {
    const struct sp_workload *workload;
    const struct sp_sharded_stage *planned; /* of the plan */
    struct sp_strategy_table *table;        /* at these sizes */
    const uint64_t *least;                  /* per node of the stage: bytes that some strategy cannot but move */
    const uint32_t *nodes;
    uint32_t node_count;
};

struct placing {
    struct sp_arena *arena;
    const struct sp_recorded_problem *problem;
    const struct sp_placed_model *placed;
    const struct sp_watch *watch;
    struct sp_search_result *result;
    double moved_bytes;
    struct sp_error *err;
};

static uint32_t place_of(const uint32_t *nodes, uint32_t count, uint32_t node)
{
    uint32_t at;
    SP_LOWER_BOUND(at, count, nodes[at] < node);
    return at < count && nodes[at] == node ? at : SP_NO_WORK;
}

/* ---- what stays where it is ------------------------------------------------------------------------------------- */

static bool is_state(const struct sp_workload *workload, uint32_t tensor)
{
    for (uint32_t i = 0; i < workload->state_count; i++) {
        if (workload->states[i].past == tensor || workload->states[i].present == tensor)
            return true;
    }
    return false;
}

/* Whether the node has the tensor in the parts that the plan has; layouts of two tables of equal meshes. */
static bool is_same_layout(const struct stage_choice *choice, uint32_t node, const struct sp_strategies *strategies,
                           uint32_t strategy, uint32_t tensor)
{
    const uint32_t at = place_of(choice->planned->nodes, choice->planned->node_count, node);
    const uint32_t operand = sp_strategy_operand(choice->table, node, tensor);
    if (at == SP_NO_WORK || operand >= strategies->operand_count)
        return true;
    const struct sp_strategies *had = sp_strategy_of(choice->planned->table, node);
    if (operand >= had->operand_count)
        return true;
    const struct sp_layout *before =
        sp_strategy_layout(choice->planned->table, had->items[choice->planned->strategy_of[at]].layouts[operand]);
    const struct sp_layout *now = sp_strategy_layout(choice->table, strategies->items[strategy].layouts[operand]);
    return memcmp(before, now, sizeof *before) == 0;
}

/* Bytes of weights and states that the strategy has in other parts than the plan. */
static uint64_t other_bytes(const struct stage_choice *choice, uint32_t node, const struct sp_strategies *strategies,
                            uint32_t strategy)
{
    const struct sp_work_node *work = &choice->workload->nodes[node];
    double bytes = 0;
    for (uint32_t side = 0; side < 2; side++) {
        const uint32_t *tensors = side == 0 ? work->inputs : work->outputs;
        const uint32_t count = side == 0 ? work->input_count : work->output_count;
        for (uint32_t i = 0; i < count; i++) {
            const struct sp_work_tensor *tensor = &choice->workload->tensors[tensors[i]];
            const bool stays = tensor->kind == SP_WORK_WEIGHT || is_state(choice->workload, tensors[i]);
            if (stays && !is_same_layout(choice, node, strategies, strategy, tensors[i]))
                bytes += fmax(tensor->bytes, 1); /* a state may be empty */
        }
    }
    return (uint64_t)bytes;
}

/* A strategy that moves as little as any of the node does. */
static bool keeps(const void *context, uint32_t node, const struct sp_strategies *strategies, uint32_t strategy)
{
    const struct stage_choice *choice = context;
    return other_bytes(choice, node, strategies, strategy) <=
           choice->least[place_of(choice->nodes, choice->node_count, node)];
}

/* ---- a stage ------------------------------------------------------------------------------------------------------ */

static enum sp_status list_nodes(struct placing *p, uint32_t stage, struct stage_choice *choice)
{
    const struct sp_workload *workload = p->problem->workload;
    const uint32_t *stage_of = p->placed->result->placement.stage_of;
    uint32_t count = 0;
    for (uint32_t n = 0; n < workload->node_count; n++)
        count += stage_of[n] == stage && !workload->nodes[n].folded;
    uint32_t *nodes = SP_NEW_ARRAY(p->arena, count, uint32_t);
    uint64_t *least = SP_NEW_ARRAY(p->arena, count, uint64_t);
    if (nodes == NULL || least == NULL)
        return sp_fail_memory(p->err);
    for (uint32_t n = 0; n < workload->node_count; n++) {
        if (stage_of[n] != stage || workload->nodes[n].folded)
            continue;
        const struct sp_strategies *strategies = sp_strategy_of(choice->table, n);
        uint64_t fewest = UINT64_MAX;
        for (uint32_t i = 0; i < strategies->count && fewest > 0; i++) {
            const uint64_t bytes = other_bytes(choice, n, strategies, i);
            fewest = bytes < fewest ? bytes : fewest;
        }
        p->moved_bytes += (double)fewest;
        least[choice->node_count] = fewest;
        nodes[choice->node_count++] = n;
    }
    choice->nodes = nodes;
    choice->least = least;
    return SP_OK;
}

static enum sp_status choose(struct placing *p, const struct stage_choice *choice, double limit,
                             struct sp_sharded_stage *stage)
{
    const struct sp_intra_options intra_options = {.node_count = choice->node_count,
                                                   .nodes = choice->nodes,
                                                   .memory_limit = limit,
                                                   .allowed = keeps,
                                                   .context = choice,
                                                   .watch = p->watch};
    const struct sp_choice_options options = {
        .work_limit = CHOICE_WORK, .watch = p->watch, .stop = sp_watch_stop(p->watch)};
    struct sp_arena *scratch = sp_arena_create(sp_arena_budget(p->arena));
    struct sp_intra *intra;
    struct sp_choice_result *chosen;
    struct sp_intra_result *result = NULL;
    if (scratch == NULL)
        return sp_fail_memory(p->err);
    enum sp_status status = sp_intra_create(scratch, choice->table, &intra_options, &intra, p->err);
    if (status == SP_OK)
        status = sp_intra_solve(scratch, intra, false, &options, &chosen, p->err);
    if (status == SP_OK && chosen->is_feasible)
        status = sp_intra_result(p->arena, intra, chosen->choice, &result, p->err);
    sp_arena_destroy(scratch);
    if (status == SP_OK && result != NULL)
        *stage = (struct sp_sharded_stage){.table = choice->table,
                                           .node_count = choice->node_count,
                                           .nodes = choice->nodes,
                                           .strategy_of = result->strategy_of};
    return status;
}

/* Within the memory of the stage's devices where that is possible, else as fast as possible. */
static enum sp_status split_stage(struct placing *p, uint32_t index, struct sp_sharded_stage *stage)
{
    const struct sp_recorded_problem *problem = p->problem;
    const struct sp_sharded_stage *planned = &p->placed->result->sharded[index];
    const struct sp_strategy_mesh *mesh = sp_strategy_table_mesh(planned->table);
    struct stage_choice choice = {.workload = problem->workload, .planned = planned};
    struct sp_strategy_table **table = &p->result->tables[index];
    for (uint32_t s = 0; s < index; s++) {
        if (p->placed->result->sharded[s].table == planned->table)
            choice.table = p->result->tables[s] != NULL ? p->result->tables[s] : choice.table;
    }
    enum sp_status status = SP_OK;
    if (choice.table == NULL) {
        status =
            sp_strategy_table_create(p->arena, problem->workload, problem->dataflow, mesh, p->watch, table, p->err);
        choice.table = *table;
    }
    if (status == SP_OK)
        status = list_nodes(p, index, &choice);
    const double capacity = sp_cluster_memory(problem->cluster, p->placed->result->placement.stage_device[index]);
    if (status == SP_OK)
        status = choose(p, &choice, capacity, stage);
    if (status == SP_OK && stage->table == NULL)
        status = choose(p, &choice, INFINITY, stage);
    if (status == SP_OK && stage->table == NULL)
        status = sp_fail(p->err, SP_ERR_INTERNAL, "NO_CHOICE", "No choice of strategies was found for a stage.");
    return status;
}

enum sp_status sp_search_same_weights(struct sp_arena *arena, const struct sp_recorded_problem *problem,
                                      const struct sp_placed_model *placed, const struct sp_watch *watch,
                                      struct sp_search_result **ret_result, double *ret_moved_bytes,
                                      struct sp_error *err)
{
    const struct sp_placement *placement = &placed->result->placement;
    struct sp_search_result *result = SP_NEW(arena, struct sp_search_result);
    struct sp_sharded_stage *sharded = NULL;
    struct placing p = {arena, problem, placed, watch, result, 0, err};
    enum sp_status status = SP_OK;
    if (result == NULL)
        return sp_fail_memory(err);
    if (placed->workload->node_count != problem->workload->node_count)
        return sp_fail(err, SP_ERR_REQUEST, "PHASES_DIFFER",
                       "At these sizes the model has other nodes: its phases cannot share one placement.");
    result->placement = *placement;
    result->strategy = placed->result->strategy;
    result->memory_share = 1;
    result->table_count = placement->stage_count;
    result->tables = SP_NEW_ARRAY(arena, placement->stage_count, struct sp_strategy_table *);
    if (placed->result->sharded != NULL)
        sharded = SP_NEW_ARRAY(arena, placement->stage_count, struct sp_sharded_stage);
    if (result->tables == NULL || (placed->result->sharded != NULL && sharded == NULL))
        return sp_fail_memory(err);
    for (uint32_t s = 0; status == SP_OK && sharded != NULL && s < placement->stage_count; s++) {
        if (placed->result->sharded[s].table != NULL)
            status = split_stage(&p, s, &sharded[s]);
    }
    result->sharded = sharded;
    if (status == SP_OK)
        status =
            sp_joint_evaluate(arena, problem->workload, problem->cluster, placement, sharded, &result->evaluation, err);
    if (status != SP_OK) {
        sp_search_result_release(result);
        return status;
    }
    *ret_moved_bytes = p.moved_bytes;
    *ret_result = result;
    return SP_OK;
}
