/* Stages that share devices: evaluate.h says what they cost. */
#include <math.h>

#include "cost/evaluate_internal.h"

bool sp_evaluation_incoming(struct sp_arena *arena, const struct sp_evaluation *evaluation,
                            struct sp_rows *ret_incoming)
{
    uint32_t *to_stage = SP_NEW_ARRAY(arena, evaluation->transfer_count, uint32_t);
    if (to_stage == NULL)
        return false;
    for (uint32_t i = 0; i < evaluation->transfer_count; i++)
        to_stage[i] = evaluation->transfers[i].to_stage;
    return sp_rows_sort(arena, to_stage, evaluation->transfer_count, evaluation->stage_count, ret_incoming);
}

struct sharing {
    struct sp_evaluator *evaluator;
    struct sp_arena *arena;
    const struct sp_placement *placement;
    struct sp_evaluation *evaluation;
    struct sp_rows on;    /* stages of each device, in order */
    uint32_t *before;     /* per stage: the one before it on its device */
    uint32_t *at;         /* per stage: its place in on.items */
    uint32_t *period;     /* per stage: how far it is behind the arrival of its request */
    double *waiting;      /* per place in on.items, as differences to the place before */
    uint32_t *last, *use; /* per device: the last stage to use the tensor at hand; per stage: that uses it, + 1 */
};

static bool create(struct sharing *sharing)
{
    struct sp_arena *arena = sharing->arena;
    const struct sp_placement *placement = sharing->placement;
    const uint32_t stages = placement->stage_count, devices = sharing->evaluator->cluster->device_count;
    sharing->before = SP_NEW_ARRAY(arena, stages, uint32_t);
    sharing->at = SP_NEW_ARRAY(arena, stages, uint32_t);
    sharing->period = SP_NEW_ARRAY(arena, stages, uint32_t);
    sharing->waiting = SP_NEW_ARRAY(arena, (size_t)stages + 1, double);
    sharing->last = SP_NEW_ARRAY(arena, devices, uint32_t);
    sharing->use = SP_NEW_ARRAY(arena, stages, uint32_t);
    if (sharing->before == NULL || sharing->at == NULL || sharing->period == NULL || sharing->waiting == NULL ||
        sharing->last == NULL || sharing->use == NULL ||
        !sp_rows_sort(arena, placement->stage_device, stages, devices, &sharing->on))
        return false;
    for (uint32_t i = 0; i < stages; i++) {
        const uint32_t stage = sharing->on.items[i];
        const bool is_first = sharing->on.start[placement->stage_device[stage]] == i;
        sharing->at[stage] = i;
        sharing->before[stage] = is_first ? SP_NO_WORK : sharing->on.items[i - 1];
    }
    return true;
}

/* Senders have smaller numbers, and so has the stage before on the same device. */
static bool find_periods(struct sharing *sharing)
{
    const struct sp_evaluation *evaluation = sharing->evaluation;
    struct sp_rows incoming;
    if (!sp_evaluation_incoming(sharing->arena, evaluation, &incoming))
        return false;
    for (uint32_t s = 0; s < evaluation->stage_count; s++) {
        uint32_t period = sharing->before[s] == SP_NO_WORK ? 0 : sharing->period[sharing->before[s]];
        for (uint32_t i = incoming.start[s]; i < incoming.start[s + 1]; i++) {
            const uint32_t sender = evaluation->transfers[incoming.items[i]].from_stage;
            if (sharing->period[sender] + 2 > period)
                period = sharing->period[sender] + 2;
        }
        sharing->period[s] = period;
    }
    return true;
}

/* What the stages of the device of `first`, which makes or receives the tensor, hold of it beside their own use. */
static void hold(struct sharing *sharing, const struct sp_work_tensor *tensor, uint32_t first)
{
    const struct sp_placement *placement = sharing->placement;
    const uint32_t device = placement->stage_device[first], last = sharing->last[device];
    const uint32_t begin = sharing->on.start[device], end = sharing->on.start[device + 1];
    if (last == SP_NO_WORK || last <= first)
        return;
    const double others = (sharing->period[last] - sharing->period[first]) * tensor->bytes;
    sharing->waiting[begin] += others;
    sharing->waiting[end] -= others;
    sharing->waiting[sharing->at[first] + 1] += tensor->bytes;
    sharing->waiting[sharing->at[last]] -= tensor->bytes;
    for (uint32_t i = 0; i < tensor->consumer_count; i++) {
        const uint32_t stage = placement->stage_of[tensor->consumers[i]];
        if (placement->stage_device[stage] != device || stage <= first || stage == last || sharing->use[stage] == 0)
            continue;
        sharing->use[stage] = 0; /* counted by the stage itself */
        sharing->waiting[sharing->at[stage]] -= tensor->bytes;
        sharing->waiting[sharing->at[stage] + 1] += tensor->bytes;
    }
}

/* Transfers are sorted by tensor: `next` is the first one of this or a later tensor. */
static void hold_tensor(struct sharing *sharing, uint32_t t, uint32_t *next)
{
    const struct sp_evaluation *evaluation = sharing->evaluation;
    const struct sp_placement *placement = sharing->placement;
    const struct sp_work_tensor *tensor = &sharing->evaluator->workload->tensors[t];
    if (tensor->producer == SP_NO_WORK || tensor->kind != SP_WORK_ACTIVATION)
        return;
    sharing->last[placement->stage_device[placement->stage_of[tensor->producer]]] = SP_NO_WORK;
    for (uint32_t i = 0; i < tensor->consumer_count; i++)
        sharing->last[placement->stage_device[placement->stage_of[tensor->consumers[i]]]] = SP_NO_WORK;
    for (uint32_t i = 0; i < tensor->consumer_count; i++) {
        const uint32_t stage = placement->stage_of[tensor->consumers[i]];
        uint32_t *last = &sharing->last[placement->stage_device[stage]];
        *last = *last == SP_NO_WORK || stage > *last ? stage : *last;
        sharing->use[stage] = 1;
    }
    hold(sharing, tensor, placement->stage_of[tensor->producer]);
    for (; *next < evaluation->transfer_count && evaluation->transfers[*next].tensor == t; (*next)++)
        hold(sharing, tensor, evaluation->transfers[*next].to_stage);
}

static void add_transfers(struct sharing *sharing)
{
    struct sp_evaluation *evaluation = sharing->evaluation;
    for (uint32_t s = 0; s < evaluation->stage_count; s++) {
        struct sp_stage_cost *cost = &evaluation->stages[s];
        cost->send_seconds = cost->receive_seconds = cost->communication_bytes = 0;
    }
    for (uint32_t i = 0; i < evaluation->transfer_count; i++) {
        const struct sp_tensor_transfer *transfer = &evaluation->transfers[i];
        struct sp_stage_cost *from = &evaluation->stages[transfer->from_stage];
        struct sp_stage_cost *to = &evaluation->stages[transfer->to_stage];
        from->send_seconds += transfer->seconds;
        to->receive_seconds += transfer->seconds;
        from->communication_bytes += 2 * transfer->bytes;
        to->communication_bytes += 2 * transfer->bytes;
    }
}

/* Weights, caches and buffers of a device become those of each of its stages. */
static void fill_device(struct sharing *sharing, const struct sp_rows *nodes, uint32_t device, double *waiting)
{
    const uint32_t first_node = nodes->start[device], count = nodes->start[device + 1] - first_node;
    const uint32_t begin = sharing->on.start[device], end = sharing->on.start[device + 1];
    struct sp_stage_cost *stages = sharing->evaluation->stages, *all = &sharing->evaluation->devices[device];
    if (begin == end)
        return;
    sp_evaluator_stage(
        sharing->evaluator,
        &(struct sp_placed_stage){sharing->placement, sharing->on.items[begin], count, nodes->items + first_node}, all,
        NULL);
    all->send_seconds = all->receive_seconds = all->communication_bytes = all->activations_peak_bytes = 0;
    for (uint32_t i = begin; i < end; i++) {
        const struct sp_stage_cost *cost = &stages[sharing->on.items[i]];
        all->communication_bytes += cost->communication_bytes;
        all->send_seconds += cost->send_seconds;
        all->receive_seconds += cost->receive_seconds;
    }
    for (uint32_t i = begin; i < end; i++) {
        struct sp_stage_cost *cost = &stages[sharing->on.items[i]];
        *waiting += sharing->waiting[i];
        cost->waiting_bytes = fmax(0, *waiting); /* what is left of sums that are nothing */
        cost->activations_peak_bytes += cost->waiting_bytes;
        cost->weights_bytes = all->weights_bytes;
        cost->cache_bytes = all->cache_bytes;
        cost->communication_bytes = all->communication_bytes;
        sp_stage_cost_sum(cost, 1);
        all->activations_peak_bytes = fmax(all->activations_peak_bytes, cost->activations_peak_bytes);
    }
    sp_stage_cost_sum(all, 1);
    sharing->evaluation->device_count++;
}

/* The busiest device of those in use, and of its stages the one that has most of what it is busy with. */
static void find_bottleneck(struct sharing *sharing)
{
    struct sp_evaluation *evaluation = sharing->evaluation;
    const struct sp_stage_cost *busiest = &evaluation->devices[0];
    double most = -1;
    for (uint32_t d = 1; d < sharing->evaluator->cluster->device_count; d++) {
        if (evaluation->devices[d].interval_seconds > busiest->interval_seconds)
            busiest = &evaluation->devices[d];
    }
    evaluation->interval_seconds = busiest->interval_seconds;
    for (uint32_t s = 0; s < evaluation->stage_count && evaluation->interval_seconds > 0; s++) {
        const struct sp_stage_cost *cost = &evaluation->stages[s];
        const double part = busiest->compute_seconds >= busiest->interval_seconds ? cost->compute_seconds
                            : busiest->send_seconds >= busiest->interval_seconds  ? cost->send_seconds
                                                                                  : cost->receive_seconds;
        if (cost->device != busiest->device || part <= most)
            continue;
        most = part;
        evaluation->bottleneck_stage = s;
    }
}

enum sp_status sp_share_devices(struct sp_evaluator *evaluator, struct sp_arena *arena,
                                const struct sp_placement *placement, struct sp_evaluation *evaluation,
                                uint32_t **ret_before, struct sp_error *err)
{
    struct sharing sharing = {.evaluator = evaluator, .arena = arena, .placement = placement, .evaluation = evaluation};
    const struct sp_workload *workload = evaluator->workload;
    uint32_t *device_of = SP_NEW_ARRAY(arena, workload->node_count, uint32_t), next = 0;
    struct sp_rows nodes;
    double waiting = 0;
    if (device_of == NULL || !create(&sharing) || !find_periods(&sharing))
        return sp_fail_memory(err);
    for (uint32_t n = 0; n < workload->node_count; n++)
        device_of[n] = placement->stage_device[placement->stage_of[n]];
    if (!sp_rows_sort(arena, device_of, workload->node_count, evaluator->cluster->device_count, &nodes))
        return sp_fail_memory(err);
    add_transfers(&sharing);
    evaluation->device_count = 0;
    for (uint32_t t = 0; t < workload->tensor_count; t++)
        hold_tensor(&sharing, t, &next);
    for (uint32_t d = 0; d < evaluator->cluster->device_count; d++)
        fill_device(&sharing, &nodes, d, &waiting);
    find_bottleneck(&sharing);
    *ret_before = sharing.before;
    return SP_OK;
}
