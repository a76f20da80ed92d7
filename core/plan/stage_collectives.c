/*
 * What the devices of a block exchange: reshards of what nodes read, in the steps that the reshard planner finds, and
 * what is a part of nodes themselves.
 */
#include <string.h>

#include "partition/partition.h"
#include "plan/internal.h"

#define RECENT_RESHARDS 64 /* of different tensors or layouts: layers repeat */

struct recent_reshard {
    const struct sp_shape *shape;
    enum sp_dtype dtype;
    uint32_t from, to;
    const struct sp_reshard *reshard;
};

struct telling {
    const struct sp_plan *plan;
    const struct sp_sharded_stage *sharded;
    uint32_t stage, recent_count, next; /* of `recent`: where the next one goes */
    struct recent_reshard recent[RECENT_RESHARDS];
    enum sp_status (*tell)(void *context, const struct sp_plan_collective *collective, struct sp_error *err);
    void *context;
};

/* ---- nodes ------------------------------------------------------------------------------------------------------ */

/* What a collective of a stage is called: its own name where devices have unequal shares. */
static const char *name_of(const struct sp_sharded_stage *sharded, enum sp_collective kind)
{
    const struct sp_strategy_mesh *mesh = sp_strategy_table_mesh(sharded->table);
    for (uint32_t m = 1; m < mesh->member_count; m++)
        if (mesh->members[m].share != mesh->members[0].share)
            return sp_uneven_collective_name(kind);
    return sp_collective_name(kind);
}

/* What the strategy's collectives are: all of a node's reductions are of one kind. */
static const char *kind_of(const struct sp_sharded_stage *sharded, const struct sp_rule *rule,
                           const struct sp_strategy *strategy, uint32_t axes)
{
    const char *kind = "exchange";
    for (uint32_t a = 0; a < axes; a++) {
        const uint8_t factor = strategy->factor_of[a];
        if (factor == SP_STRATEGY_NO_FACTOR || rule == NULL)
            continue;
        if (rule->factors[factor].kind == SP_FACTOR_REDUCTION)
            return name_of(sharded,
                           strategy->scatter_of[a] != SP_STRATEGY_NO_FACTOR ? SP_REDUCE_SCATTER : SP_ALL_REDUCE);
        if (rule->factors[factor].kind == SP_FACTOR_HALO)
            kind = "halo";
    }
    return kind;
}

static uint32_t group_of(const struct sp_rule *rule, const struct sp_strategy *strategy, const struct sp_mesh *mesh)
{
    uint32_t size = 1;
    for (uint32_t a = 0; a < mesh->axis_count; a++) {
        const uint8_t factor = strategy->factor_of[a];
        if (rule != NULL && factor != SP_STRATEGY_NO_FACTOR && rule->factors[factor].kind != SP_FACTOR_PARALLEL)
            size *= (uint32_t)mesh->axes[a].size;
    }
    return size > 1 ? size : 0;
}

/* The weight that the node gathers; *ret_seconds is what of it is not beside computing. */
static enum sp_status tell_gather(struct telling *telling, uint32_t node, const struct sp_strategy *strategy,
                                  double *ret_seconds, struct sp_error *err)
{
    if (strategy->gathered == SP_STRATEGY_NO_FACTOR)
        return SP_OK;
    *ret_seconds = sp_strategy_waits(strategy);
    const struct sp_plan_collective collective = {
        .kind = sp_collective_name(SP_ALL_GATHER),
        .tensor = telling->plan->workload->nodes[node].node->inputs[strategy->gathered]->id,
        .node = node,
        .is_before = true,
        .group_size = sp_strategy_joins(telling->sharded->table, strategy),
        .bytes = strategy->gather_bytes,
        .seconds = *ret_seconds,
        .overlapped_seconds = strategy->gather_seconds - *ret_seconds,
    };
    return telling->tell(telling->context, &collective, err);
}

static enum sp_status tell_node(struct telling *telling, const struct sp_mesh *mesh, uint32_t node,
                                struct sp_error *err)
{
    const struct sp_strategies *strategies = sp_plan_strategies(telling->plan, node);
    const struct sp_strategy *strategy = sp_plan_strategy(telling->plan, node);
    const struct sp_work_node *work = &telling->plan->workload->nodes[node];
    double gathered = 0;
    enum sp_status status = strategy == NULL ? SP_OK : tell_gather(telling, node, strategy, &gathered, err);
    if (status != SP_OK || strategy == NULL || strategy->communication_seconds <= gathered)
        return status;
    const struct sp_plan_collective collective = {
        .kind = kind_of(telling->sharded, strategies->rule, strategy, mesh->axis_count),
        .tensor = work->output_count > 0 ? work->outputs[0] : SP_NO_WORK,
        .node = node,
        .group_size = group_of(strategies->rule, strategy, mesh),
        .bytes = strategy->communication_bytes - strategy->gather_bytes,
        .seconds = strategy->communication_seconds - gathered,
    };
    return telling->tell(telling->context, &collective, err);
}

/* ---- reshards --------------------------------------------------------------------------------------------------- */

/* The steps between two layouts of one block; NULL where the extents are not known. */
static enum sp_status find_steps(struct telling *telling, const struct sp_intra_use *use,
                                 const struct sp_reshard **ret_reshard, struct sp_error *err)
{
    const struct sp_plan *plan = telling->plan;
    const struct sp_value *value = plan->workload->tensors[use->tensor].value;
    const struct sp_links links = sp_cluster_links(plan->cluster);
    const int64_t first = plan->result->placement.stage_device[telling->stage];
    int64_t shape[SP_MAX_RANK];
    *ret_reshard = NULL;
    if (value == NULL || !value->type.shape.has_rank || value->type.shape.rank > SP_MAX_RANK)
        return SP_OK;
    const uint32_t rank = value->type.shape.rank;
    for (uint32_t d = 0; d < rank; d++) {
        if (!sp_dim_is_known(value->type.shape.dims[d]))
            return SP_OK;
        shape[d] = value->type.shape.dims[d].value;
    }
    struct sp_reshard_request request = {.links = &links,
                                         .rank = rank,
                                         .shape = shape,
                                         .dtype = value->type.dtype,
                                         .collectives_only = true,
                                         .counts_transfers = true};
    struct sp_reshard *reshard;
    enum sp_status status =
        sp_strategy_sharding(telling->sharded->table, plan->arena, rank, use->from, first, &request.from, err);
    if (status == SP_OK)
        status = sp_strategy_sharding(telling->sharded->table, plan->arena, rank, use->to, first, &request.to, err);
    if (status == SP_OK)
        status = sp_reshard_plan(plan->arena, &request, &reshard, err);
    if (status == SP_OK)
        *ret_reshard = reshard;
    return status;
}

static bool is_same_shape(const struct sp_shape *a, const struct sp_shape *b)
{
    if (a->has_rank != b->has_rank || a->rank != b->rank)
        return false;
    for (uint32_t d = 0; a->has_rank && d < a->rank; d++) {
        if (!sp_dim_is_known(a->dims[d]) || !sp_dim_is_known(b->dims[d]) || a->dims[d].value != b->dims[d].value)
            return false;
    }
    return true;
}

static enum sp_status keep_steps(struct telling *telling, const struct sp_intra_use *use,
                                 const struct sp_reshard **ret_reshard, struct sp_error *err)
{
    const struct sp_value *value = telling->plan->workload->tensors[use->tensor].value;
    for (uint32_t i = 0; value != NULL && i < telling->recent_count; i++) {
        const struct recent_reshard *recent = &telling->recent[i];
        if (recent->from == use->from && recent->to == use->to && recent->dtype == value->type.dtype &&
            is_same_shape(recent->shape, &value->type.shape)) {
            *ret_reshard = recent->reshard;
            return SP_OK;
        }
    }
    enum sp_status status = find_steps(telling, use, ret_reshard, err);
    if (status != SP_OK || value == NULL)
        return status;
    telling->recent[telling->next] =
        (struct recent_reshard){&value->type.shape, value->type.dtype, use->from, use->to, *ret_reshard};
    telling->next = (telling->next + 1) % RECENT_RESHARDS;
    telling->recent_count += telling->recent_count < RECENT_RESHARDS;
    return SP_OK;
}

static enum sp_status tell_use(struct telling *telling, const struct sp_intra_use *use, struct sp_error *err)
{
    const struct sp_reshard *reshard;
    struct sp_plan_collective collective = {.kind = "exchange",
                                            .tensor = use->tensor,
                                            .node = use->node,
                                            .is_before = true,
                                            .bytes = use->bytes,
                                            .seconds = use->seconds};
    const uint32_t members = sp_strategy_table_mesh(telling->sharded->table)->member_count;
    if (use->seconds <= 0)
        return SP_OK;
    if (members > 0) { /* as the search counts it: one collective among all of them */
        collective.kind = name_of(telling->sharded, use->to == 0 ? SP_ALL_GATHER : SP_ALL_TO_ALL);
        collective.group_size = members;
        return telling->tell(telling->context, &collective, err);
    }
    enum sp_status status = keep_steps(telling, use, &reshard, err);
    if (status != SP_OK)
        return status;
    if (reshard == NULL || reshard->seconds <= 0)
        return telling->tell(telling->context, &collective, err);
    /* The plan counts the stage's own links; where the cluster's take another time the steps share it. */
    const double share = use->seconds / reshard->seconds;
    const double byte_share = reshard->bytes > 0 ? use->bytes / reshard->bytes : 1;
    for (uint32_t i = 0; status == SP_OK && i < reshard->step_count; i++) {
        const struct sp_reshard_step *step = &reshard->steps[i];
        if (step->seconds <= 0)
            continue;
        collective.kind = sp_collective_name(step->kind);
        collective.group_size = step->group_size > 1 ? (uint32_t)step->group_size : 0;
        collective.bytes = step->bytes * byte_share;
        collective.seconds = step->seconds * share;
        status = telling->tell(telling->context, &collective, err);
    }
    return status;
}

enum sp_status sp_plan_collectives(const struct sp_plan *plan, uint32_t stage,
                                   enum sp_status (*tell)(void *context, const struct sp_plan_collective *collective,
                                                          struct sp_error *err),
                                   void *context, struct sp_error *err)
{
    struct telling telling = {
        .plan = plan, .sharded = sp_plan_sharded(plan, stage), .stage = stage, .tell = tell, .context = context};
    const struct sp_arena_mark mark = sp_arena_mark(plan->arena);
    const struct sp_mesh *mesh;
    uint32_t use = 0;
    if (telling.sharded == NULL || telling.sharded->intra == NULL)
        return SP_OK;
    const struct sp_intra_result *intra = telling.sharded->intra;
    enum sp_status status = sp_plan_mesh(plan, plan->arena, stage, &mesh, err);
    for (uint32_t i = 0; status == SP_OK && mesh != NULL && i < telling.sharded->node_count; i++) {
        const uint32_t node = telling.sharded->nodes[i];
        for (; status == SP_OK && use < intra->use_count && intra->uses[use].node <= node; use++)
            status = tell_use(&telling, &intra->uses[use], err);
        if (status == SP_OK)
            status = tell_node(&telling, mesh, node, err);
    }
    sp_arena_rewind(plan->arena, mark);
    return status;
}
