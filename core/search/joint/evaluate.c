/*
 * What a placement on blocks of devices costs. Stages of one device are evaluated as evaluate.h does; what operators
 * split over a block cost comes from intra.h; transfers between blocks from the reshard planner.
 */
#include "search/joint/evaluate.h"

#include <math.h>
#include <string.h>

struct sp_joint_evaluator {
    struct sp_arena *arena;
    const struct sp_workload *workload;
    const struct sp_cluster *cluster;
    struct sp_evaluator *stages;
    uint32_t *strategy_at;         /* per node: in its stage's table */
    struct sp_stage_cost *members; /* per device: what is its own, of stages of unequal devices */
    /* The placement at hand. */
    const struct sp_placement *placement;
    struct sp_sharded_stage *sharded;
};

struct sp_joint_evaluator *sp_joint_evaluator_create(struct sp_arena *arena, const struct sp_workload *workload,
                                                     const struct sp_cluster *cluster)
{
    struct sp_joint_evaluator *evaluator = SP_NEW(arena, struct sp_joint_evaluator);
    if (evaluator == NULL)
        return NULL;
    evaluator->arena = arena;
    evaluator->workload = workload;
    evaluator->cluster = cluster;
    evaluator->stages = sp_evaluator_create(arena, workload, cluster);
    evaluator->strategy_at = SP_NEW_ARRAY(arena, workload->node_count, uint32_t);
    evaluator->members = SP_NEW_ARRAY(arena, cluster->device_count, struct sp_stage_cost);
    return evaluator->stages == NULL || evaluator->strategy_at == NULL || evaluator->members == NULL ? NULL : evaluator;
}

/* ---- what is where ---------------------------------------------------------------------------------------------- */

static void note_strategies(struct sp_joint_evaluator *evaluator, const struct sp_placement *placement,
                            const struct sp_sharded_stage *sharded)
{
    memset(evaluator->strategy_at, 0, evaluator->workload->node_count * sizeof *evaluator->strategy_at);
    for (uint32_t s = 0; sharded != NULL && s < placement->stage_count; s++) {
        for (uint32_t i = 0; sharded[s].table != NULL && i < sharded[s].node_count; i++)
            evaluator->strategy_at[sharded[s].nodes[i]] = sharded[s].strategy_of[i];
    }
}

uint32_t sp_joint_layout(const struct sp_strategy_table *table, uint32_t node, uint32_t strategy, uint32_t tensor)
{
    const struct sp_strategies *strategies = table == NULL ? NULL : sp_strategy_of(table, node);
    const uint32_t operand = strategies == NULL ? UINT32_MAX : sp_strategy_operand(table, node, tensor);
    return operand == UINT32_MAX ? 0 : sp_strategy_lies(&strategies->items[strategy], operand);
}

/* One stage's side of a transfer: where, in which layout, how much of it one device has. */
struct side {
    struct sp_strategy_table *table; /* NULL: one device */
    uint32_t first_device, layout;
    double bytes;
};

static struct side side_of(const struct sp_joint_evaluator *evaluator, uint32_t node, uint32_t tensor)
{
    const struct sp_sharded_stage *sharded = evaluator->sharded;
    const uint32_t stage = evaluator->placement->stage_of[node];
    struct side side = {.first_device = evaluator->placement->stage_device[stage],
                        .bytes = evaluator->workload->tensors[tensor].bytes};
    if (sharded == NULL || sharded[stage].table == NULL)
        return side;
    side.table = sharded[stage].table;
    side.layout = sp_joint_layout(side.table, node, evaluator->strategy_at[node], tensor);
    side.bytes = sp_strategy_local_bytes(side.table, tensor, side.layout);
    return side;
}

/* ---- transfers -------------------------------------------------------------------------------------------------- */

static enum sp_status sharding_of(struct sp_arena *arena, const struct side *side, uint32_t rank,
                                  const struct sp_sharding **ret_sharding, struct sp_error *err)
{
    if (side->table != NULL)
        return sp_strategy_sharding(side->table, arena, rank, side->layout, side->first_device, ret_sharding, err);
    struct sp_sharding *single = SP_NEW(arena, struct sp_sharding);
    if (single == NULL)
        return sp_fail_memory(err);
    single->kind = SP_SHARDING_SINGLE;
    single->device = side->first_device;
    *ret_sharding = single;
    return SP_OK;
}

/* Where figures of a transfer are noted between layouts of one table; NULL: nowhere. */
static struct sp_strategy_transfer *note_of(uint32_t tensor, const struct side *from, const struct side *to)
{
    const struct sp_strategy_ends ends = {.from_layout = from->layout,
                                          .from_device = from->first_device,
                                          .to_layout = to->layout,
                                          .to_device = to->first_device,
                                          .single = (from->table == NULL ? 1u : 0) | (to->table == NULL ? 2u : 0)};
    if (from->table != to->table && ends.single == 0)
        return NULL;
    return sp_strategy_transfer_of(from->table != NULL ? from->table : to->table, tensor, &ends);
}

/* Seconds and bytes of bringing a tensor from one block to another. */
static enum sp_status cost_transfer(struct sp_joint_evaluator *evaluator, uint32_t tensor, const struct side *from,
                                    const struct side *to, struct sp_tensor_transfer *transfer, struct sp_error *err)
{
    const struct sp_work_tensor *t = &evaluator->workload->tensors[tensor];
    const struct sp_links links = sp_cluster_links(evaluator->cluster);
    struct sp_arena_mark mark = sp_arena_mark(evaluator->arena);
    int64_t shape[SP_MAX_RANK];
    if ((from->table == NULL && to->table == NULL) || t->value == NULL ||
        !sp_shape_extents(&t->value->type.shape, shape))
        return SP_OK;
    const uint32_t rank = t->value->type.shape.rank;
    struct sp_reshard_request request = {.links = &links,
                                         .rank = rank,
                                         .shape = shape,
                                         .dtype = t->value->type.dtype,
                                         .device_count = evaluator->cluster->device_count,
                                         .counts_transfers = true};
    struct sp_strategy_transfer *note = note_of(tensor, from, to);
    struct sp_reshard *reshard = NULL;
    if (note != NULL && note->is_known) {
        transfer->bytes = note->bytes;
        transfer->seconds = note->seconds;
        return SP_OK;
    }
    enum sp_status status = sharding_of(evaluator->arena, from, rank, &request.from, err);
    if (status == SP_OK)
        status = sharding_of(evaluator->arena, to, rank, &request.to, err);
    if (status == SP_OK)
        status = sp_reshard_plan(evaluator->arena, &request, &reshard, err);
    if (status == SP_OK) {
        transfer->bytes = reshard->total_bytes;
        transfer->seconds = reshard->seconds;
        if (note != NULL)
            *note = (struct sp_strategy_transfer){true, transfer->seconds, transfer->bytes};
    }
    sp_arena_rewind(evaluator->arena, mark);
    return status;
}

/* What a tensor on one side of a border has in two buffers of each of the side's unequal devices. */
static void note_buffers(struct sp_joint_evaluator *evaluator, uint32_t tensor, const struct side *side)
{
    const struct sp_strategy_mesh *mesh = side->table == NULL ? NULL : sp_strategy_table_mesh(side->table);
    const uint32_t members = mesh == NULL ? 0 : mesh->member_count, counted = members == 0 ? 0 : mesh->counted;
    for (uint32_t m = 0; m < members; m++) {
        sp_strategy_count_member(side->table, m);
        evaluator->members[side->first_device + m].communication_bytes +=
            2 * sp_strategy_local_bytes(side->table, tensor, side->layout);
    }
    if (members > 0)
        sp_strategy_count_member(side->table, counted);
}

static enum sp_status transfer_costs(void *context, uint32_t user, struct sp_tensor_transfer *transfer,
                                     double *ret_sent_bytes, double *ret_received_bytes, struct sp_error *err)
{
    struct sp_joint_evaluator *evaluator = context;
    const uint32_t producer = evaluator->workload->tensors[transfer->tensor].producer;
    const struct side from = side_of(evaluator, producer, transfer->tensor);
    const struct side to = side_of(evaluator, user, transfer->tensor);
    *ret_sent_bytes = from.bytes;
    *ret_received_bytes = to.bytes;
    note_buffers(evaluator, transfer->tensor, &from);
    note_buffers(evaluator, transfer->tensor, &to);
    return cost_transfer(evaluator, transfer->tensor, &from, &to, transfer, err);
}

/* ---- stages ----------------------------------------------------------------------------------------------------- */

static bool is_split(void *context, uint32_t stage)
{
    const struct sp_joint_evaluator *evaluator = context;
    return evaluator->sharded != NULL && evaluator->sharded[stage].table != NULL;
}

/* What a member computes: a strategy's FLOPs are those of the member with the largest share, and what is not cut all of
   them compute. */
static double flops_of(const struct sp_sharded_stage *sharded, const struct sp_strategy_member *member)
{
    const struct sp_strategy_mesh *mesh = sp_strategy_table_mesh(sharded->table);
    uint32_t largest = 0;
    double flops = 0;
    for (uint32_t m = 0; m < mesh->member_count; m++)
        largest = mesh->members[m].share > largest ? mesh->members[m].share : largest;
    for (uint32_t i = 0; i < sharded->node_count; i++) {
        const struct sp_strategy *items = sp_strategy_of(sharded->table, sharded->nodes[i])->items;
        const double own = items[sharded->strategy_of[i]].flops, whole = items[0].flops;
        flops += whole - (whole - own) * (mesh->size[0] - member->share) / (mesh->size[0] - largest);
    }
    return flops;
}

/* What each of a stage's unequal devices holds beside buffers; the table counts another member afterwards as before. */
static enum sp_status count_members(struct sp_joint_evaluator *evaluator, uint32_t stage, struct sp_error *err)
{
    const struct sp_sharded_stage *sharded = &evaluator->sharded[stage];
    const struct sp_strategy_mesh *mesh = sp_strategy_table_mesh(sharded->table);
    const uint32_t counted = mesh->counted;
    enum sp_status status = SP_OK;
    for (uint32_t m = 0; m < mesh->member_count && status == SP_OK; m++) {
        struct sp_intra_result *own = NULL;
        sp_strategy_count_member(sharded->table, m);
        status = sp_intra_evaluate(evaluator->arena, sharded->table, sharded->node_count, sharded->nodes,
                                   sharded->strategy_of, &own, err);
        if (status == SP_OK)
            evaluator->members[evaluator->placement->stage_device[stage] + m] =
                (struct sp_stage_cost){.weights_bytes = own->weight_bytes,
                                       .cache_bytes = own->resident_bytes,
                                       .activations_peak_bytes = own->activation_peak_bytes,
                                       .capacity_bytes = mesh->members[m].capacity,
                                       .flops = flops_of(sharded, &mesh->members[m])};
    }
    sp_strategy_count_member(sharded->table, counted);
    return status;
}

static enum sp_status stage_costs(void *context, uint32_t stage, struct sp_stage_cost *cost, double *ret_inside_bytes,
                                  struct sp_error *err)
{
    struct sp_joint_evaluator *evaluator = context;
    struct sp_sharded_stage *sharded = &evaluator->sharded[stage];
    if (sharded->intra == NULL) {
        struct sp_intra_result *intra;
        enum sp_status status = sp_intra_evaluate(evaluator->arena, sharded->table, sharded->node_count, sharded->nodes,
                                                  sharded->strategy_of, &intra, err);
        if (status != SP_OK)
            return status;
        sharded->intra = intra;
    }
    const struct sp_intra_result *intra = sharded->intra;
    if (sp_strategy_table_mesh(sharded->table)->member_count > 0) {
        enum sp_status status = count_members(evaluator, stage, err);
        if (status != SP_OK)
            return status;
    }
    for (uint32_t i = 0; i < sharded->node_count; i++)
        cost->flops += sp_strategy_of(sharded->table, sharded->nodes[i])->items[sharded->strategy_of[i]].flops;
    cost->compute_seconds = intra->compute_seconds + intra->communication_seconds;
    cost->collective_seconds = intra->communication_seconds;
    cost->weights_bytes = intra->weight_bytes;
    cost->cache_bytes = intra->resident_bytes;
    cost->activations_peak_bytes = intra->activation_peak_bytes;
    *ret_inside_bytes = intra->communication_bytes * sp_placement_size(evaluator->placement, stage);
    return SP_OK;
}

static enum sp_status phase_seconds(void *context, uint32_t stage, uint32_t phase, double *ret_seconds,
                                    struct sp_error *err)
{
    struct sp_joint_evaluator *evaluator = context;
    const struct sp_sharded_stage *sharded = &evaluator->sharded[stage];
    const struct sp_arena_mark mark = sp_arena_mark(evaluator->arena);
    const struct sp_work_stretch of =
        sp_work_phase_stretch(evaluator->workload, sharded->node_count, sharded->nodes, phase);
    struct sp_intra_result *intra;
    enum sp_status status = sp_intra_evaluate(evaluator->arena, sharded->table, of.to - of.from,
                                              sharded->nodes + of.from, sharded->strategy_of + of.from, &intra, err);
    if (status == SP_OK)
        *ret_seconds = intra->compute_seconds + intra->communication_seconds;
    sp_arena_rewind(evaluator->arena, mark);
    return status;
}

static bool streams(void *context, uint32_t stage)
{
    const struct sp_joint_evaluator *evaluator = context;
    return sp_strategy_table_mesh(evaluator->sharded[stage].table)->member_count == 0;
}

static double weight_of(void *context, uint32_t stage, uint32_t node)
{
    const struct sp_joint_evaluator *evaluator = context;
    return sp_strategy_weight_bytes(evaluator->sharded[stage].table, node, evaluator->strategy_at[node]);
}

static uint32_t members_of(const struct sp_joint_evaluator *evaluator, uint32_t stage)
{
    const struct sp_strategy_table *table = evaluator->sharded != NULL ? evaluator->sharded[stage].table : NULL;
    return table != NULL ? sp_strategy_table_mesh(table)->member_count : 0;
}

static bool has_members(const struct sp_joint_evaluator *evaluator)
{
    for (uint32_t s = 0; s < evaluator->placement->stage_count; s++)
        if (members_of(evaluator, s) > 0)
            return true;
    return false;
}

/* What one device holds, of the stage's figures or of a member's. */
static void take_memory(struct sp_stage_cost *cost, const struct sp_stage_cost *of)
{
    cost->weights_bytes = of->weights_bytes;
    cost->cache_bytes = of->cache_bytes;
    cost->activations_peak_bytes = of->activations_peak_bytes;
    cost->communication_bytes = of->communication_bytes;
    cost->capacity_bytes = of->capacity_bytes;
    cost->total_bytes =
        cost->weights_bytes + cost->cache_bytes + cost->activations_peak_bytes + cost->communication_bytes;
}

/* The figures of each device: those of its stage, but for what it holds where the stage's devices are unequal. Of such a
   stage memory is that of the device that lacks most, or has least left. */
static enum sp_status list_members(const struct sp_joint_evaluator *evaluator, struct sp_arena *arena,
                                   struct sp_evaluation *evaluation, struct sp_error *err)
{
    const struct sp_placement *placement = evaluator->placement;
    evaluation->members = SP_NEW_ARRAY(arena, evaluator->cluster->device_count, struct sp_stage_cost);
    if (evaluation->members == NULL)
        return sp_fail_memory(err);
    evaluation->worst_excess_bytes = -INFINITY;
    for (uint32_t s = 0; s < placement->stage_count; s++) {
        const uint32_t size = sp_placement_size(placement, s), first = placement->stage_device[s];
        struct sp_stage_cost *stage = &evaluation->stages[s];
        const struct sp_stage_cost *fullest = NULL;
        for (uint32_t i = 0; i < size * sp_placement_replicas(placement, s); i++) {
            struct sp_stage_cost *own = &evaluation->members[first + i];
            *own = *stage;
            if (members_of(evaluator, s) == 0)
                continue;
            take_memory(own, &evaluator->members[first + i % size]);
            own->flops = evaluator->members[first + i % size].flops;
            if (fullest == NULL ||
                own->total_bytes - own->capacity_bytes > fullest->total_bytes - fullest->capacity_bytes)
                fullest = own;
        }
        if (fullest != NULL)
            take_memory(stage, fullest);
        const double excess = stage->total_bytes - stage->capacity_bytes;
        if (excess > evaluation->worst_excess_bytes) {
            evaluation->worst_excess_bytes = excess;
            evaluation->worst_stage = s;
        }
    }
    return SP_OK;
}

enum sp_status sp_joint_evaluator_run(struct sp_joint_evaluator *evaluator, struct sp_arena *arena,
                                      const struct sp_placement *placement, struct sp_sharded_stage *sharded,
                                      struct sp_evaluation **ret_evaluation, struct sp_error *err)
{
    const struct sp_block_costs blocks = {evaluator, is_split,  stage_costs,   phase_seconds,
                                          streams,   weight_of, transfer_costs};
    const bool is_whole = sharded == NULL && placement->stage_size == NULL && placement->stage_replicas == NULL;
    evaluator->placement = placement;
    evaluator->sharded = sharded;
    note_strategies(evaluator, placement, sharded);
    enum sp_status status =
        sp_evaluator_run(evaluator->stages, arena, placement, is_whole ? NULL : &blocks, ret_evaluation, err);
    return status == SP_OK && has_members(evaluator) ? list_members(evaluator, arena, *ret_evaluation, err) : status;
}

enum sp_status sp_joint_evaluate(struct sp_arena *arena, const struct sp_workload *workload,
                                 const struct sp_cluster *cluster, const struct sp_placement *placement,
                                 struct sp_sharded_stage *sharded, struct sp_evaluation **ret_evaluation,
                                 struct sp_error *err)
{
    struct sp_joint_evaluator *evaluator = sp_joint_evaluator_create(arena, workload, cluster);
    if (evaluator == NULL)
        return sp_fail_memory(err);
    return sp_joint_evaluator_run(evaluator, arena, placement, sharded, ret_evaluation, err);
}
