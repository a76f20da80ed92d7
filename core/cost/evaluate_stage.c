/*
 * One stage: its time, and its memory over time.
 */
#include "cost/evaluate_internal.h"

#include <string.h>

struct sp_evaluator *sp_evaluator_create(struct sp_arena *arena, const struct sp_workload *workload,
                                         const struct sp_cluster *cluster)
{
    struct sp_evaluator *evaluator = SP_NEW(arena, struct sp_evaluator);
    /* Stages are on distinct devices, or each has a node. */
    const uint32_t stages = workload->node_count > cluster->device_count ? workload->node_count : cluster->device_count;
    if (evaluator == NULL)
        return NULL;
    *evaluator = (struct sp_evaluator){
        .workload = workload,
        .cluster = cluster,
        .residents = SP_NEW_ARRAY(arena, workload->tensor_count, struct sp_resident),
        .roots = SP_NEW_ARRAY(arena, workload->tensor_count, uint32_t),
        .sent = SP_NEW_ARRAY(arena, stages, uint64_t),
        .nodes = {.start = SP_NEW_ARRAY(arena, (size_t)stages + 2, uint32_t),
                  .items = SP_NEW_ARRAY(arena, workload->node_count, uint32_t)},
    };
    if (cluster->host_of != NULL) {
        evaluator->users = sp_work_users(arena, workload);
        evaluator->streamable = SP_NEW_ARRAY(arena, workload->node_count, struct sp_streamable);
        evaluator->stream_sizes = SP_NEW_ARRAY(arena, workload->node_count, struct sp_stream_size);
        evaluator->host_figures = SP_NEW_ARRAY(arena, 2 * (size_t)cluster->host_count, double);
        evaluator->host_devices = SP_NEW_ARRAY(arena, cluster->host_count, uint32_t);
        if (evaluator->users == NULL || evaluator->streamable == NULL || evaluator->stream_sizes == NULL ||
            evaluator->host_figures == NULL || evaluator->host_devices == NULL)
            return NULL;
    }
    if (sp_cluster_switch_count(cluster) > 0) {
        evaluator->switch_seconds = SP_NEW_ARRAY(arena, sp_cluster_switch_count(cluster), double);
        if (evaluator->switch_seconds == NULL || !sp_cluster_ways_create(arena, cluster, &evaluator->ways))
            return NULL;
    }
    return !sp_live_init(&evaluator->live, arena, workload->node_count) || evaluator->residents == NULL ||
                   evaluator->roots == NULL || evaluator->sent == NULL || evaluator->nodes.start == NULL ||
                   evaluator->nodes.items == NULL
               ? NULL
               : evaluator;
}

static void next_epoch(struct sp_evaluator *evaluator)
{
    if (evaluator->epoch == UINT32_MAX) {
        memset(evaluator->residents, 0, evaluator->workload->tensor_count * sizeof *evaluator->residents);
        evaluator->epoch = 0;
    }
    evaluator->epoch++;
    evaluator->root_count = 0;
}

/* A stage's walk: what adds up. */
struct walk {
    struct sp_evaluator *evaluator;
    const struct sp_placement *placement;
    uint32_t stage, device;
    uint32_t node; /* at hand */
    double received_bytes, sent_bytes;
    struct sp_stage_cost *cost;
};

/* Notes a use of the tensor's root at `position`; NULL for a weight, which is counted here the first time. */
static struct sp_resident *use_root(struct walk *walk, uint32_t tensor, uint32_t position)
{
    struct sp_evaluator *evaluator = walk->evaluator;
    uint32_t root = sp_work_root(evaluator->workload, tensor);
    const struct sp_work_tensor *memory = &evaluator->workload->tensors[root];
    struct sp_resident *resident = &evaluator->residents[root];
    bool first = resident->epoch != evaluator->epoch;

    if (first)
        *resident = (struct sp_resident){evaluator->epoch, resident->received_epoch, position, position};
    if (memory->kind == SP_WORK_WEIGHT) {
        if (first)
            walk->cost->weights_bytes += memory->bytes;
        return NULL;
    }
    if (first)
        evaluator->roots[evaluator->root_count++] = root;
    if (resident->last != SP_LIVE_OUTSIDE)
        resident->last = position;
    return resident;
}

/* A tensor that other stages of the device use, too: an earlier one has brought it here, a later one needs it still. */
static void note_shared(struct walk *walk, const struct sp_work_tensor *tensor, struct sp_resident *root)
{
    const struct sp_placement *placement = walk->placement;
    bool is_here = placement->stage_device[placement->stage_of[tensor->producer]] == walk->device;
    for (uint32_t i = 0; i < tensor->consumer_count; i++) {
        const uint32_t stage = placement->stage_of[tensor->consumers[i]];
        if (stage == walk->stage || placement->stage_device[stage] != walk->device)
            continue;
        is_here = is_here || stage < walk->stage;
        if (stage > walk->stage)
            root->last = SP_LIVE_OUTSIDE;
    }
    if (is_here)
        root->first = 0;
}

/* What the stage takes more where its border cuts a kernel at a tensor: to write it, or to start behind it. */
static double cut_seconds(const struct walk *walk, uint32_t tensor, uint32_t user, bool is_behind)
{
    const struct sp_workload *workload = walk->evaluator->workload;
    const struct sp_cluster *cluster = walk->evaluator->cluster;
    const uint32_t kind = workload->kind_of[walk->device];
    if (!sp_work_is_inside(workload, kind, tensor, user))
        return 0;
    return sp_work_times(workload, workload->tensors[tensor].phase) *
           sp_roofline_cut_seconds(sp_cluster_device(cluster, walk->device), cluster,
                                   sp_work_cut_class(workload, kind, tensor), workload->tensors[tensor].bytes,
                                   is_behind);
}

static void note_input(struct walk *walk, uint32_t t, uint32_t position)
{
    struct sp_evaluator *evaluator = walk->evaluator;
    const struct sp_work_tensor *tensor = &evaluator->workload->tensors[t];
    struct sp_resident *root = use_root(walk, t, position), *self = &evaluator->residents[t];

    if (root == NULL)
        return;
    if (tensor->kind == SP_WORK_INPUT)
        root->first = 0;
    if (sp_work_is_held(tensor, false))
        root->last = SP_LIVE_OUTSIDE;
    if (tensor->producer == SP_NO_WORK || self->received_epoch == evaluator->epoch)
        return;
    uint32_t from = walk->placement->stage_of[tensor->producer];
    if (from == walk->stage)
        return;
    self->received_epoch = evaluator->epoch;
    if (walk->placement->shares_devices)
        note_shared(walk, tensor, root);
    walk->received_bytes += tensor->bytes;
    walk->cost->compute_seconds += cut_seconds(walk, t, walk->node, true);
    walk->cost->receive_seconds +=
        sp_work_times(evaluator->workload, tensor->phase) *
        sp_work_transfer_seconds(evaluator->cluster, tensor, walk->placement->stage_device[from], walk->device);
}

static void note_output(struct walk *walk, uint32_t t, uint32_t position)
{
    struct sp_evaluator *evaluator = walk->evaluator;
    const struct sp_work_tensor *tensor = &evaluator->workload->tensors[t];
    struct sp_resident *root = use_root(walk, t, position);
    double written = 0;

    if (root == NULL)
        return;
    if (sp_work_is_held(tensor, true))
        root->last = SP_LIVE_OUTSIDE;
    evaluator->send_epoch++;
    for (uint32_t i = 0; i < tensor->consumer_count; i++) {
        uint32_t to = walk->placement->stage_of[tensor->consumers[i]];
        if (to == walk->stage || evaluator->sent[to] == evaluator->send_epoch)
            continue;
        evaluator->sent[to] = evaluator->send_epoch;
        root->last = SP_LIVE_OUTSIDE;
        walk->sent_bytes += tensor->bytes;
        if (written == 0) /* once, whoever reads it */
            written = cut_seconds(walk, t, tensor->consumers[i], false);
        walk->cost->send_seconds +=
            sp_work_times(evaluator->workload, tensor->phase) *
            sp_work_transfer_seconds(evaluator->cluster, tensor, walk->device, walk->placement->stage_device[to]);
    }
    walk->cost->compute_seconds += written;
}

/* Counts what is alive; the uses of all roots are known. */
static double live_peak(struct sp_evaluator *evaluator, const struct sp_placed_stage *stage,
                        struct sp_live_bytes *ret_live)
{
    struct sp_live *live = &evaluator->live;
    double most = -1;
    live->now = live->peak = 0;
    evaluator->fullest = SP_ENTRY_FULLEST;
    memset(live->begins, 0, stage->count * sizeof *live->begins);
    memset(live->ends, 0, stage->count * sizeof *live->ends);
    for (uint32_t i = 0; i < evaluator->root_count; i++) {
        const struct sp_resident *resident = &evaluator->residents[evaluator->roots[i]];
        const uint32_t root = evaluator->roots[i];
        uint32_t first = resident->first, last = resident->last;
        if (sp_work_phase_life(evaluator->workload, stage->count, stage->nodes, root, &first, &last))
            sp_live_add(live, first, last, evaluator->workload->tensors[root].bytes);
    }
    for (uint32_t i = 0; i < stage->count; i++) {
        const struct sp_work_node *node = &evaluator->workload->nodes[stage->nodes[i]];
        const struct sp_live_bytes at = sp_live_step(live, i, node->folded ? 0 : node->workspace_bytes);
        if (!node->folded && at.during > most) {
            most = at.during;
            evaluator->fullest = i;
        }
        if (ret_live != NULL)
            ret_live[i] = at;
    }
    return live->peak;
}

void sp_evaluator_stage(struct sp_evaluator *evaluator, const struct sp_placed_stage *stage,
                        struct sp_stage_cost *ret_cost, struct sp_live_bytes *ret_live)
{
    const struct sp_workload *workload = evaluator->workload;
    const uint32_t device = stage->placement->stage_device[stage->stage], kind = workload->kind_of[device];
    struct walk walk = {.evaluator = evaluator,
                        .placement = stage->placement,
                        .stage = stage->stage,
                        .device = device,
                        .cost = ret_cost};

    next_epoch(evaluator);
    *ret_cost = (struct sp_stage_cost){
        .device = device, .device_count = 1, .node_count = stage->count, .waits_for = SP_NO_WORK};
    for (uint32_t i = 0; i < stage->count; i++) {
        const struct sp_work_node *node = &workload->nodes[stage->nodes[i]];
        if (node->folded)
            continue;
        walk.node = stage->nodes[i];
        ret_cost->flops += node->flops;
        ret_cost->compute_seconds += node->seconds[kind];
        ret_cost->weights_bytes += node->inner_weight_bytes;
        ret_cost->cache_bytes += node->resident_bytes;
        for (uint32_t j = 0; j < node->input_count; j++)
            note_input(&walk, node->inputs[j], i);
        for (uint32_t j = 0; j < node->output_count; j++)
            note_output(&walk, node->outputs[j], i);
    }
    ret_cost->activations_peak_bytes = live_peak(evaluator, stage, ret_live);
    ret_cost->communication_bytes = 2 * (walk.received_bytes + walk.sent_bytes);
    ret_cost->capacity_bytes = sp_cluster_memory(evaluator->cluster, device);
    sp_stage_cost_sum(ret_cost, 1);
}

bool sp_evaluator_alive(struct sp_evaluator *evaluator, struct sp_arena *arena, const struct sp_placed_stage *stage,
                        uint32_t entry, struct sp_alive_list *ret_list)
{
    const struct sp_workload *workload = evaluator->workload;
    struct sp_stage_cost cost;
    sp_evaluator_stage(evaluator, stage, &cost, NULL);
    entry = entry == SP_ENTRY_FULLEST ? evaluator->fullest : entry;
    *ret_list = (struct sp_alive_list){.node = SP_NO_WORK};
    if (entry == SP_ENTRY_FULLEST)
        return true;
    const struct sp_work_node *node = &workload->nodes[stage->nodes[entry]];
    ret_list->node = stage->nodes[entry];
    ret_list->workspace_bytes = node->folded ? 0 : node->workspace_bytes;
    ret_list->items = SP_NEW_ARRAY(arena, evaluator->root_count, struct sp_alive);
    for (uint32_t i = 0; ret_list->items != NULL && i < evaluator->root_count; i++) {
        const uint32_t root = evaluator->roots[i];
        const struct sp_resident *resident = &evaluator->residents[root];
        uint32_t first = resident->first, last = resident->last;
        if (sp_work_phase_life(workload, stage->count, stage->nodes, root, &first, &last) && first <= entry &&
            last >= entry)
            ret_list->items[ret_list->count++] = (struct sp_alive){root, 0, workload->tensors[root].bytes};
    }
    return ret_list->items != NULL;
}
