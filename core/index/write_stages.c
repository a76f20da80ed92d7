/* The tables of an index that are of stages: what one device does and holds in the course of a request. */
#include <stdlib.h>

#include "base/sorted.h"
#include "index/write_internal.h"

#define SEND "send" /* the kind of transfers, as in the plan's JSON */

/* A transfer in one request. */
struct sending {
    uint32_t stage; /* that does it */
    uint32_t transfer;
    double begin, end;
};

struct stages {
    struct sp_writing *writing;
    struct sp_schedule *schedule;
    struct sending *sends, *receives; /* by stage, then by begin */
    uint32_t next_send, next_receive;
    uint32_t stage, first_collective; /* at hand */
    struct sp_index_stage *told;
    enum sp_index_what what;
};

/* ---- collectives ------------------------------------------------------------------------------------------------ */

static uint32_t tensor_or_none(const struct sp_writing *writing, uint32_t tensor)
{
    return tensor == SP_NO_WORK ? SP_INDEX_NONE : writing->tensor_of[tensor];
}

static void count_collective(struct sp_writing *writing, const char *kind, const struct sp_index_collective *collective)
{
    struct sp_writing_total **total = &writing->totals;
    while (*total != NULL && strcmp((*total)->kind, kind) != 0)
        total = &(*total)->next;
    if (*total == NULL)
        *total = SP_NEW(writing->arena, struct sp_writing_total);
    if (*total == NULL) {
        writing->status = sp_fail_memory(writing->err);
        return;
    }
    (*total)->kind = kind;
    (*total)->count++;
    (*total)->bytes += collective->bytes;
    (*total)->seconds += collective->seconds;
}

static void add_transfers(struct sp_writing *writing)
{
    const struct sp_evaluation *evaluation = writing->plan->result->evaluation;
    struct sp_index_collective *collectives = sp_writing_add(writing, SP_TABLE_COLLECTIVES, evaluation->transfer_count);
    for (uint32_t i = 0; collectives != NULL && i < evaluation->transfer_count; i++) {
        const struct sp_tensor_transfer *transfer = &evaluation->transfers[i];
        const uint32_t producer = writing->plan->workload->tensors[transfer->tensor].producer;
        collectives[i] = (struct sp_index_collective){.kind = sp_writing_text(writing, SEND),
                                                      .tensor = writing->tensor_of[transfer->tensor],
                                                      .after_node = producer == SP_NO_WORK ? SP_INDEX_NONE : producer,
                                                      .before_node = SP_INDEX_NONE,
                                                      .stage = transfer->from_stage,
                                                      .to_stage = transfer->to_stage,
                                                      .bytes = sp_writing_number(transfer->bytes),
                                                      .seconds = sp_writing_number(transfer->seconds)};
        count_collective(writing, SEND, &collectives[i]);
    }
}

/* The collectives of the stage at hand, as plan_json_collectives() writes them. */
static void add_collectives(struct stages *stages)
{
    struct sp_writing *writing = stages->writing;
    struct sp_index_node *nodes = writing->tables[SP_TABLE_NODES];
    const uint32_t size = sp_placement_size(&writing->plan->result->placement, stages->stage);
    uint32_t count;
    const struct sp_plan_collective *collectives = sp_schedule_collectives(stages->schedule, &count);
    stages->first_collective = (uint32_t)writing->counts[SP_TABLE_COLLECTIVES];
    struct sp_index_collective *added = sp_writing_add(writing, SP_TABLE_COLLECTIVES, count);
    for (uint32_t i = 0; added != NULL && i < count; i++) {
        const struct sp_plan_collective *collective = &collectives[i];
        const uint32_t tensor = collective->tensor;
        uint32_t after = collective->node;
        if (collective->is_before)
            after = tensor != SP_NO_WORK ? writing->plan->workload->tensors[tensor].producer : SP_NO_WORK;
        added[i] = (struct sp_index_collective){.kind = sp_writing_text(writing, collective->kind),
                                                .tensor = tensor_or_none(writing, tensor),
                                                .after_node = after == SP_NO_WORK ? SP_INDEX_NONE : after,
                                                .before_node = collective->is_before ? collective->node : SP_INDEX_NONE,
                                                .stage = stages->stage,
                                                .to_stage = SP_INDEX_NONE,
                                                .bytes = sp_writing_number(collective->bytes * size),
                                                .seconds = sp_writing_number(collective->seconds)};
        count_collective(writing, collective->kind, &added[i]);
        nodes[collective->node].collective_seconds += added[i].seconds;
    }
}

/* ---- slices and points ------------------------------------------------------------------------------------------ */

static void add_slice(struct stages *stages, enum sp_index_what what, uint32_t item, double begin, double end)
{
    struct sp_index_slice *slice = end > begin ? sp_writing_add(stages->writing, SP_TABLE_SLICES, 1) : NULL;
    if (slice == NULL)
        return;
    *slice = (struct sp_index_slice){.begin = begin, .end = end, .what = what, .item = item};
    stages->told->slices.count++;
}

static void add_point(struct stages *stages, const struct sp_schedule_event *event)
{
    struct sp_index_stage *told = stages->told;
    struct sp_index_point *point = sp_writing_add(stages->writing, SP_TABLE_POINTS, 1);
    if (point == NULL)
        return;
    *point = (struct sp_index_point){
        .at = event->begin - told->start_seconds, .bytes = sp_writing_number(event->live.during), .node = event->node};
    if (told->peak_point == SP_INDEX_NONE ||
        point->bytes > point[-(int64_t)(told->points.count - told->peak_point)].bytes)
        told->peak_point = told->points.count;
    told->points.count++;
}

static void take_event(void *context, const struct sp_schedule_event *event)
{
    struct stages *stages = context;
    if (event->what == SP_SCHEDULE_NODE && stages->what == SP_INDEX_COMPUTE)
        add_slice(stages, SP_INDEX_COMPUTE, event->node, event->begin, event->end);
    else if (event->what == SP_SCHEDULE_COLLECTIVE && stages->what == SP_INDEX_COLLECTIVE)
        add_slice(stages, SP_INDEX_COLLECTIVE, stages->first_collective + event->collective, event->begin, event->end);
    else if (event->what == SP_SCHEDULE_LIVE && stages->what == SP_INDEX_COMPUTE)
        add_point(stages, event);
}

static void add_sendings(struct stages *stages, enum sp_index_what what, const struct sending *sendings, uint32_t *next)
{
    const uint32_t count = stages->writing->plan->result->evaluation->transfer_count;
    for (; *next < count && sendings[*next].stage == stages->stage; (*next)++)
        add_slice(stages, what, sendings[*next].transfer, sendings[*next].begin, sendings[*next].end);
}

SP_ASCENDING(by_stage_and_begin, struct sending, stage, begin, transfer)

/* When each transfer takes place, as its sender's and as its receiver's. */
static enum sp_status find_sendings(struct stages *stages, struct sp_error *err)
{
    const struct sp_plan *plan = stages->writing->plan;
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    const struct sp_schedule_link *links;
    uint32_t link_count, count = 0;
    enum sp_status status = sp_schedule_links(stages->writing->arena, plan, &link_count, &links, err);
    stages->sends = SP_NEW_ARRAY(stages->writing->arena, evaluation->transfer_count, struct sending);
    stages->receives = SP_NEW_ARRAY(stages->writing->arena, evaluation->transfer_count, struct sending);
    if (status != SP_OK || stages->sends == NULL || stages->receives == NULL)
        return sp_fail_memory(err);
    for (uint32_t l = 0; l < link_count; l++) {
        double at = sp_schedule_leave(plan, &links[l], sp_schedule_begin(plan, links[l].from_stage, 0));
        for (uint32_t i = 0; i < links[l].count; i++, count++) {
            const uint32_t transfer = (uint32_t)(links[l].transfers[i] - evaluation->transfers);
            const double end = at + links[l].transfers[i]->seconds;
            stages->sends[count] = (struct sending){links[l].from_stage, transfer, at, end};
            stages->receives[count] = (struct sending){links[l].to_stage, transfer, at, end};
            at = end;
        }
    }
    if (count > 1) {
        qsort(stages->sends, count, sizeof *stages->sends, by_stage_and_begin);
        qsort(stages->receives, count, sizeof *stages->receives, by_stage_and_begin);
    }
    return SP_OK;
}

/* ---- what is held ----------------------------------------------------------------------------------------------- */

static enum sp_index_holds holds(const struct stages *stages, const struct sp_schedule_held *held)
{
    const struct sp_plan *plan = stages->writing->plan;
    const struct sp_work_tensor *tensor = &plan->workload->tensors[held->tensor];
    if (held->is_copy)
        return SP_INDEX_HELD_COPY;
    if (tensor->producer == SP_NO_WORK)
        return SP_INDEX_HELD_INPUT;
    return plan->result->placement.stage_of[tensor->producer] == stages->stage ? SP_INDEX_HELD_ACTIVATION
                                                                               : SP_INDEX_HELD_RECEIVED;
}

static int by_bytes(const void *a, const void *b)
{
    const struct sp_index_alive *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    if (x->holds != y->holds)
        return x->holds < y->holds ? -1 : 1;
    return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

static void add_alive(struct stages *stages)
{
    struct sp_writing *writing = stages->writing;
    const struct sp_arena_mark mark = sp_arena_mark(writing->scratch);
    struct sp_schedule_fullest fullest;
    const enum sp_status status = sp_schedule_find_fullest(stages->schedule, writing->scratch, &fullest, writing->err);
    if (status != SP_OK) {
        writing->status = status;
        return;
    }
    const bool has_workspace = fullest.workspace_bytes > 0, has_waiting = fullest.waiting_bytes > 0;
    const uint32_t count = fullest.count + has_workspace + has_waiting;
    struct sp_index_alive *alive = sp_writing_add(writing, SP_TABLE_ALIVE, count);
    if (alive == NULL)
        return;
    for (uint32_t i = 0; i < fullest.count; i++) {
        alive[i] = (struct sp_index_alive){.bytes = sp_writing_number(fullest.held[i].bytes),
                                           .tensor = writing->tensor_of[fullest.held[i].tensor],
                                           .node = SP_INDEX_NONE,
                                           .holds = holds(stages, &fullest.held[i])};
    }
    if (has_waiting)
        alive[count - 1] = (struct sp_index_alive){.bytes = sp_writing_number(fullest.waiting_bytes),
                                                   .tensor = SP_INDEX_NONE,
                                                   .node = SP_INDEX_NONE,
                                                   .holds = SP_INDEX_HELD_WAITING};
    if (has_workspace)
        alive[fullest.count] = (struct sp_index_alive){.bytes = sp_writing_number(fullest.workspace_bytes),
                                                       .tensor = SP_INDEX_NONE,
                                                       .node = fullest.node,
                                                       .holds = SP_INDEX_HELD_WORKSPACE};
    if (count > 1)
        qsort(alive, count, sizeof *alive, by_bytes);
    stages->told->alive.count = count;
    sp_arena_rewind(writing->scratch, mark);
}

/* ---- stages ----------------------------------------------------------------------------------------------------- */

static void describe_stage(struct stages *stages)
{
    struct sp_writing *writing = stages->writing;
    const struct sp_plan *plan = writing->plan;
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    const struct sp_placement *placement = &plan->result->placement;
    const uint32_t s = stages->stage;
    const struct sp_stage_cost *cost = &evaluation->stages[s];
    *stages->told = (struct sp_index_stage){
        .first_device = placement->stage_device[s],
        .device_count = sp_placement_size(placement, s),
        .replicas = sp_placement_replicas(placement, s),
        .device_name = sp_writing_text(writing, sp_cluster_device(plan->cluster, placement->stage_device[s])->name),
        .node_count = plan->stage_nodes.start[s + 1] - plan->stage_nodes.start[s],
        .slices.first = (uint32_t)writing->counts[SP_TABLE_SLICES],
        .points.first = (uint32_t)writing->counts[SP_TABLE_POINTS],
        .alive.first = (uint32_t)writing->counts[SP_TABLE_ALIVE],
        .peak_point = SP_INDEX_NONE,
        .is_bottleneck = s == evaluation->bottleneck_stage,
        .start_seconds = sp_writing_number(cost->start_seconds),
        .compute_seconds = sp_writing_number(cost->compute_seconds),
        .interval_seconds = sp_writing_number(cost->interval_seconds),
        .weights_bytes = sp_writing_number(cost->weights_bytes),
        .cache_bytes = sp_writing_number(cost->cache_bytes),
        .communication_bytes = sp_writing_number(cost->communication_bytes),
        .activations_peak_bytes = sp_writing_number(cost->activations_peak_bytes),
        .total_bytes = sp_writing_number(cost->total_bytes),
        .capacity_bytes = sp_writing_number(cost->capacity_bytes),
    };
}

static void add_stage(struct stages *stages)
{
    struct sp_writing *writing = stages->writing;
    const enum sp_status status = sp_schedule_enter(stages->schedule, stages->stage, writing->err);
    if (status != SP_OK) {
        writing->status = status;
        return;
    }
    const double begin = sp_schedule_begin(writing->plan, stages->stage, 0);
    describe_stage(stages);
    add_collectives(stages);
    for (stages->what = SP_INDEX_COMPUTE; stages->what <= SP_INDEX_COLLECTIVE; stages->what++)
        (void)sp_schedule_walk(stages->schedule, begin, take_event, stages);
    add_sendings(stages, SP_INDEX_SEND, stages->sends, &stages->next_send);
    add_sendings(stages, SP_INDEX_RECEIVE, stages->receives, &stages->next_receive);
    add_alive(stages);
}

void sp_writing_stages(struct sp_writing *writing)
{
    const struct sp_plan *plan = writing->plan;
    const uint32_t count = plan->result->evaluation->stage_count;
    struct stages stages = {.writing = writing};
    struct sp_index_stage *told = sp_writing_add(writing, SP_TABLE_STAGES, count);
    add_transfers(writing);
    if (writing->status != SP_OK)
        return;
    stages.schedule = sp_schedule_create(writing->arena, plan);
    if (stages.schedule == NULL || find_sendings(&stages, writing->err) != SP_OK) {
        writing->status = sp_fail_memory(writing->err);
        return;
    }
    for (uint32_t s = 0; writing->status == SP_OK && s < count; s++) {
        stages.stage = s;
        stages.told = &told[s];
        add_stage(&stages);
    }
    if (plan->cluster->number != NULL) {
        uint32_t *numbers = sp_writing_add(writing, SP_TABLE_NUMBERS, plan->cluster->device_count);
        if (numbers != NULL)
            memcpy(numbers, plan->cluster->number, plan->cluster->device_count * sizeof *numbers);
    }
    for (uint32_t s = sp_plan_last_stage(plan); s != SP_NO_STAGE; s = plan->result->evaluation->stages[s].waits_for)
        told[s].is_critical = 1;
}
