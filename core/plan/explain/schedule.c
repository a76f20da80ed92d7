#include "plan/explain/schedule.h"

#include <stdlib.h>

#include "base/array.h"

struct sp_schedule {
    const struct sp_plan *plan;
    struct sp_arena *arena;
    struct sp_evaluator *evaluator;
    uint32_t stage;             /* that was entered */
    struct sp_live_bytes *live; /* of each of its nodes */
    uint32_t collective_count, collective_capacity;
    struct sp_plan_collective *collectives;
};

uint32_t sp_schedule_requests(const struct sp_plan *plan)
{
    const struct sp_placement *placement = &plan->result->placement;
    uint32_t requests = placement->shares_devices ? 1 : SP_SCHEDULE_REQUESTS;
    for (uint32_t s = 0; s < placement->stage_count; s++) {
        const uint32_t replicas = sp_placement_replicas(placement, s);
        requests = replicas > requests ? replicas : requests;
    }
    return requests < SP_SCHEDULE_MOST_REQUESTS ? requests : SP_SCHEDULE_MOST_REQUESTS;
}

double sp_schedule_begin(const struct sp_plan *plan, uint32_t stage, uint32_t request)
{
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    const uint32_t copies = sp_placement_copies(&plan->result->placement);
    return evaluation->stages[stage].start_seconds + request * (copies * evaluation->interval_seconds);
}

/* ---- a stage ---------------------------------------------------------------------------------------------------- */

struct sp_schedule *sp_schedule_create(struct sp_arena *arena, const struct sp_plan *plan)
{
    struct sp_schedule *schedule = SP_NEW(arena, struct sp_schedule);
    if (schedule == NULL)
        return NULL;
    schedule->plan = plan;
    schedule->arena = arena;
    schedule->live = SP_NEW_ARRAY(arena, plan->workload->node_count, struct sp_live_bytes);
    schedule->evaluator = sp_evaluator_create(arena, plan->workload, plan->cluster);
    return schedule->live != NULL && schedule->evaluator != NULL ? schedule : NULL;
}

static enum sp_status keep_collective(void *context, const struct sp_plan_collective *collective, struct sp_error *err)
{
    struct sp_schedule *schedule = context;
    if (!SP_MAKE_ROOM(schedule->arena, schedule->collectives, schedule->collective_count, schedule->collective_capacity,
                      1))
        return sp_fail_memory(err);
    schedule->collectives[schedule->collective_count++] = *collective;
    return SP_OK;
}

static struct sp_placed_stage placed_stage(const struct sp_schedule *schedule)
{
    const struct sp_plan *plan = schedule->plan;
    const uint32_t stage = schedule->stage, first = plan->stage_nodes.start[stage];
    return (struct sp_placed_stage){.placement = &plan->result->placement,
                                    .stage = stage,
                                    .count = plan->stage_nodes.start[stage + 1] - first,
                                    .nodes = plan->stage_nodes.items + first};
}

/* The live bytes of each node of the stage. */
static enum sp_status find_live(struct sp_schedule *schedule, struct sp_error *err)
{
    const struct sp_plan *plan = schedule->plan;
    const struct sp_sharded_stage *sharded = sp_plan_sharded(plan, schedule->stage);
    const struct sp_placed_stage placed = placed_stage(schedule);
    struct sp_stage_cost cost;
    if (sharded == NULL) {
        sp_evaluator_stage(schedule->evaluator, &placed, &cost, schedule->live);
        for (uint32_t i = 0; i < placed.count; i++) {
            schedule->live[i].during += plan->result->evaluation->stages[schedule->stage].waiting_bytes;
            schedule->live[i].after += plan->result->evaluation->stages[schedule->stage].waiting_bytes;
        }
        return SP_OK;
    }
    enum sp_status status = sp_intra_live(schedule->arena, sharded->table, sharded->node_count, sharded->nodes,
                                          sharded->strategy_of, schedule->live, err);
    /* It has the nodes that run; folded ones get a place among them, from the end. */
    uint32_t from = sharded->node_count;
    for (uint32_t i = placed.count; status == SP_OK && i-- > 0;) {
        if (!plan->workload->nodes[placed.nodes[i]].folded)
            schedule->live[i] = schedule->live[--from];
    }
    return status;
}

enum sp_status sp_schedule_enter(struct sp_schedule *schedule, uint32_t stage, struct sp_error *err)
{
    schedule->stage = stage;
    schedule->collective_count = 0;
    enum sp_status status = find_live(schedule, err);
    return status == SP_OK ? sp_plan_collectives(schedule->plan, stage, keep_collective, schedule, err) : status;
}

const struct sp_plan_collective *sp_schedule_collectives(const struct sp_schedule *schedule, uint32_t *ret_count)
{
    *ret_count = schedule->collective_count;
    return schedule->collectives;
}

/* ---- what is held ----------------------------------------------------------------------------------------------- */

/* Whether a stage has a tensor in this layout beside that of the node that makes it there, or uses it first. */
static bool is_copy(const struct sp_schedule *schedule, uint32_t tensor, uint32_t layout)
{
    const struct sp_placement *placement = &schedule->plan->result->placement;
    const struct sp_work_tensor *work = &schedule->plan->workload->tensors[tensor];
    uint32_t node = work->producer;
    if (node == SP_NO_WORK)
        return false; /* a model input comes in every layout that is wanted */
    for (uint32_t i = 0; i < work->consumer_count && placement->stage_of[node] != schedule->stage; i++)
        node = work->consumers[i];
    return sp_plan_layout(schedule->plan, node, tensor) != layout;
}

enum sp_status sp_schedule_find_fullest(struct sp_schedule *schedule, struct sp_arena *arena,
                                        struct sp_schedule_fullest *ret_fullest, struct sp_error *err)
{
    const struct sp_sharded_stage *sharded = sp_plan_sharded(schedule->plan, schedule->stage);
    const struct sp_placed_stage placed = placed_stage(schedule);
    struct sp_alive_list list;
    enum sp_status status = SP_OK;
    if (sharded != NULL)
        status =
            sp_intra_peak(arena, sharded->table, sharded->node_count, sharded->nodes, sharded->strategy_of, &list, err);
    else if (!sp_evaluator_alive(schedule->evaluator, arena, &placed, SP_ENTRY_FULLEST, &list))
        status = sp_fail_memory(err);
    if (status != SP_OK)
        return status;
    const struct sp_stage_cost *cost = &schedule->plan->result->evaluation->stages[schedule->stage];
    *ret_fullest = (struct sp_schedule_fullest){.node = list.node,
                                                .workspace_bytes = list.workspace_bytes,
                                                .waiting_bytes = cost->waiting_bytes,
                                                .held = SP_NEW_ARRAY(arena, list.count, struct sp_schedule_held)};
    if (ret_fullest->held == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < list.count; i++) {
        const struct sp_alive *alive = &list.items[i];
        if (alive->bytes > 0)
            ret_fullest->held[ret_fullest->count++] =
                (struct sp_schedule_held){.tensor = alive->tensor,
                                          .is_copy = sharded != NULL && is_copy(schedule, alive->tensor, alive->layout),
                                          .bytes = alive->bytes};
    }
    return SP_OK;
}

/* ---- event by event --------------------------------------------------------------------------------------------- */

struct walk {
    const struct sp_schedule *schedule;
    void (*tell)(void *context, const struct sp_schedule_event *event);
    void *context;
    uint32_t next; /* collective */
    double at;
};

/* The exchanges that come next, as far as they belong before the node, or after it. */
static void tell_collectives(struct walk *walk, uint32_t node, bool is_before)
{
    const struct sp_schedule *schedule = walk->schedule;
    for (; walk->next < schedule->collective_count; walk->next++) {
        const struct sp_plan_collective *collective = &schedule->collectives[walk->next];
        if (collective->node != node || collective->is_before != is_before)
            return;
        const struct sp_schedule_event event = {.what = SP_SCHEDULE_COLLECTIVE,
                                                .node = node,
                                                .collective = walk->next,
                                                .begin = walk->at,
                                                .end = walk->at + collective->seconds};
        walk->tell(walk->context, &event);
        walk->at = event.end;
    }
}

static void tell_node(struct walk *walk, uint32_t node, const struct sp_live_bytes *live)
{
    tell_collectives(walk, node, true);
    struct sp_schedule_event event = {.what = SP_SCHEDULE_NODE,
                                      .node = node,
                                      .begin = walk->at,
                                      .end = walk->at + sp_plan_node_seconds(walk->schedule->plan, node)};
    walk->tell(walk->context, &event);
    walk->at = event.end;
    tell_collectives(walk, node, false);
    if (walk->schedule->plan->workload->nodes[node].folded)
        return;
    event.what = SP_SCHEDULE_LIVE;
    event.live = *live;
    event.end = walk->at;
    walk->tell(walk->context, &event);
}

double sp_schedule_walk(const struct sp_schedule *schedule, double begin,
                        void (*tell)(void *context, const struct sp_schedule_event *event), void *context)
{
    const struct sp_plan *plan = schedule->plan;
    const uint32_t first = plan->stage_nodes.start[schedule->stage], end = plan->stage_nodes.start[schedule->stage + 1];
    struct walk walk = {.schedule = schedule, .tell = tell, .context = context, .at = begin};
    for (uint32_t i = first; i < end; i++)
        tell_node(&walk, plan->stage_nodes.items[i], &schedule->live[i - first]);
    return walk.at;
}

/* ---- between stages --------------------------------------------------------------------------------------------- */

static int by_link(const void *a, const void *b)
{
    const struct sp_tensor_transfer *x = *(const struct sp_tensor_transfer *const *)a;
    const struct sp_tensor_transfer *y = *(const struct sp_tensor_transfer *const *)b;
    if (x->from_stage != y->from_stage)
        return x->from_stage < y->from_stage ? -1 : 1;
    if (x->to_stage != y->to_stage)
        return x->to_stage < y->to_stage ? -1 : 1;
    return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

enum sp_status sp_schedule_links(struct sp_arena *arena, const struct sp_plan *plan, uint32_t *ret_count,
                                 const struct sp_schedule_link **ret_links, struct sp_error *err)
{
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    const uint32_t count = evaluation->transfer_count;
    const struct sp_tensor_transfer **sorted = SP_NEW_ARRAY(arena, count, const struct sp_tensor_transfer *);
    struct sp_schedule_link *links = SP_NEW_ARRAY(arena, count, struct sp_schedule_link);
    uint32_t found = 0;
    if (sorted == NULL || links == NULL)
        return sp_fail_memory(err);
    for (uint32_t i = 0; i < count; i++)
        sorted[i] = &evaluation->transfers[i];
    if (count > 1)
        qsort(sorted, count, sizeof *sorted, by_link);
    for (uint32_t i = 0; i < count; i++) {
        struct sp_schedule_link *last = found > 0 ? &links[found - 1] : NULL;
        if (last != NULL && last->from_stage == sorted[i]->from_stage && last->to_stage == sorted[i]->to_stage)
            last->count++;
        else
            links[found++] = (struct sp_schedule_link){sorted[i]->from_stage, sorted[i]->to_stage, 1, sorted + i};
    }
    *ret_count = found;
    *ret_links = links;
    return SP_OK;
}

double sp_schedule_leave(const struct sp_plan *plan, const struct sp_schedule_link *link, double begin)
{
    return begin + plan->result->evaluation->stages[link->from_stage].compute_seconds;
}
