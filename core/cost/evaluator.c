#include "cost/evaluator_internal.h"

#define TO_THE_END UINT32_MAX /* the position of a last use that never comes */

struct sp_evaluator *sp_evaluator_create(struct sp_arena *arena, const struct sp_workload *workload,
                                         const struct sp_cluster *cluster)
{
    struct sp_evaluator *evaluator = SP_NEW(arena, struct sp_evaluator);
    if (evaluator == NULL)
        return NULL;
    *evaluator = (struct sp_evaluator){
        .workload = workload,
        .cluster = cluster,
        .residents = SP_NEW_ARRAY(arena, workload->tensor_count, struct sp_resident),
        .sent = SP_NEW_ARRAY(arena, cluster->device_count, uint64_t), /* stages are on distinct devices */
        .nodes = {.start = SP_NEW_ARRAY(arena, (size_t)cluster->device_count + 2, uint32_t),
                  .items = SP_NEW_ARRAY(arena, workload->node_count, uint32_t)},
    };
    return evaluator->residents == NULL || evaluator->sent == NULL || evaluator->nodes.start == NULL ||
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
}

/* A stage's walk: the stage, its device, what adds up. */
struct walk {
    struct sp_evaluator *evaluator;
    const struct sp_placement *placement;
    uint32_t stage, device;
    double start_bytes; /* live before the first node: model inputs */
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

    if (first) {
        resident->epoch = evaluator->epoch;
        resident->last = position;
        resident->from_start = resident->born = resident->dead = false;
    }
    if (memory->kind == SP_WORK_WEIGHT) {
        if (first)
            walk->cost->weights_bytes += memory->bytes;
        return NULL;
    }
    if (resident->last != TO_THE_END)
        resident->last = position;
    return resident;
}

static void note_input(struct walk *walk, uint32_t t, uint32_t position)
{
    struct sp_evaluator *evaluator = walk->evaluator;
    const struct sp_work_tensor *tensor = &evaluator->workload->tensors[t];
    struct sp_resident *root = use_root(walk, t, position), *self = &evaluator->residents[t];

    if (root == NULL)
        return;
    if (tensor->kind == SP_WORK_INPUT && !root->from_start) {
        root->from_start = true;
        walk->start_bytes += tensor->bytes;
    }
    if (tensor->producer == SP_NO_WORK || self->received_epoch == evaluator->epoch)
        return;
    uint32_t from = walk->placement->stage_of[tensor->producer];
    if (from == walk->stage)
        return;
    self->received_epoch = evaluator->epoch;
    walk->received_bytes += tensor->bytes;
    walk->cost->receive_seconds +=
        sp_work_transfer_seconds(evaluator->cluster, tensor, walk->placement->stage_device[from], walk->device);
}

static void note_output(struct walk *walk, uint32_t t, uint32_t position)
{
    struct sp_evaluator *evaluator = walk->evaluator;
    const struct sp_work_tensor *tensor = &evaluator->workload->tensors[t];
    struct sp_resident *root = use_root(walk, t, position);

    if (root == NULL)
        return;
    if (tensor->is_output)
        root->last = TO_THE_END;
    evaluator->send_epoch++;
    for (uint32_t i = 0; i < tensor->consumer_count; i++) {
        uint32_t to = walk->placement->stage_of[tensor->consumers[i]];
        if (to == walk->stage || evaluator->sent[to] == evaluator->send_epoch)
            continue;
        evaluator->sent[to] = evaluator->send_epoch;
        root->last = TO_THE_END;
        walk->sent_bytes += tensor->bytes;
        walk->cost->send_seconds +=
            sp_work_transfer_seconds(evaluator->cluster, tensor, walk->device, walk->placement->stage_device[to]);
    }
}

/* Bytes that come into memory with these operands. */
static double births(struct sp_evaluator *evaluator, const uint32_t *tensors, uint32_t count)
{
    double bytes = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t root = sp_work_root(evaluator->workload, tensors[i]);
        const struct sp_work_tensor *memory = &evaluator->workload->tensors[root];
        struct sp_resident *resident = &evaluator->residents[root];
        if (memory->kind == SP_WORK_WEIGHT || resident->born)
            continue;
        resident->born = true;
        if (!resident->from_start)
            bytes += memory->bytes;
    }
    return bytes;
}

/* Bytes whose last use `position` was; only operands of the node there can have theirs there. */
static double deaths(struct sp_evaluator *evaluator, const uint32_t *tensors, uint32_t count, uint32_t position)
{
    double bytes = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t root = sp_work_root(evaluator->workload, tensors[i]);
        const struct sp_work_tensor *memory = &evaluator->workload->tensors[root];
        struct sp_resident *resident = &evaluator->residents[root];
        if (memory->kind == SP_WORK_WEIGHT || resident->dead || resident->last != position)
            continue;
        resident->dead = true;
        bytes += memory->bytes;
    }
    return bytes;
}

/* The largest sum of live activations; last uses are known. */
static double live_peak(const struct walk *walk, const uint32_t *nodes, uint32_t count, struct sp_live_bytes *course)
{
    struct sp_evaluator *evaluator = walk->evaluator;
    double live = walk->start_bytes, peak = live;

    for (uint32_t i = 0; i < count; i++) {
        const struct sp_work_node *node = &evaluator->workload->nodes[nodes[i]];
        double during = live;
        if (!node->folded) {
            live += births(evaluator, node->inputs, node->input_count);
            live += births(evaluator, node->outputs, node->output_count);
            during = live + node->workspace_bytes;
            if (during > peak)
                peak = during;
            live -= deaths(evaluator, node->inputs, node->input_count, i);
            live -= deaths(evaluator, node->outputs, node->output_count, i);
        }
        if (course != NULL)
            course[i] = (struct sp_live_bytes){during, live};
    }
    return peak;
}

void sp_evaluator_stage(struct sp_evaluator *evaluator, const struct sp_placement *placement, uint32_t stage,
                        const uint32_t *nodes, uint32_t count, struct sp_stage_cost *ret_cost)
{
    sp_evaluator_course(evaluator, placement, stage, nodes, count, ret_cost, NULL);
}

void sp_evaluator_course(struct sp_evaluator *evaluator, const struct sp_placement *placement, uint32_t stage,
                         const uint32_t *nodes, uint32_t count, struct sp_stage_cost *ret_cost,
                         struct sp_live_bytes *ret_course)
{
    const struct sp_workload *workload = evaluator->workload;
    uint32_t device = placement->stage_device[stage], kind = workload->kind_of[device];
    struct walk walk = {evaluator, placement, stage, device, 0, 0, 0, ret_cost};

    next_epoch(evaluator);
    *ret_cost =
        (struct sp_stage_cost){.device = device, .device_count = 1, .node_count = count, .waits_for = SP_NO_WORK};
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_work_node *node = &workload->nodes[nodes[i]];
        if (node->folded)
            continue;
        ret_cost->flops += node->flops;
        ret_cost->compute_seconds += node->seconds[kind];
        ret_cost->weights_bytes += node->inner_weight_bytes;
        ret_cost->cache_bytes += node->resident_bytes;
        for (uint32_t j = 0; j < node->input_count; j++)
            note_input(&walk, node->inputs[j], i);
        for (uint32_t j = 0; j < node->output_count; j++)
            note_output(&walk, node->outputs[j], i);
    }
    ret_cost->activations_peak_bytes = live_peak(&walk, nodes, count, ret_course);
    ret_cost->communication_bytes = 2 * (walk.received_bytes + walk.sent_bytes);
    ret_cost->capacity_bytes = sp_cluster_memory(evaluator->cluster, device);
    sp_stage_cost_sum(ret_cost, 1);
}

/* Lists those of these operands that are alive, unless an earlier node has named them. */
static uint32_t list_alive(struct sp_evaluator *evaluator, const uint32_t *tensors, uint32_t count, bool is_made,
                           uint32_t entry, uint32_t *ret_tensors)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t root = sp_work_root(evaluator->workload, tensors[i]);
        struct sp_resident *resident = &evaluator->residents[root];
        if (evaluator->workload->tensors[root].kind == SP_WORK_WEIGHT || resident->listed_epoch == evaluator->epoch)
            continue;
        resident->listed_epoch = evaluator->epoch;
        if ((is_made || resident->from_start) && resident->last >= entry)
            ret_tensors[found++] = root;
    }
    return found;
}

uint32_t sp_evaluator_alive(struct sp_evaluator *evaluator, const struct sp_placement *placement, uint32_t stage,
                            const uint32_t *nodes, uint32_t count, uint32_t entry, uint32_t *ret_tensors)
{
    struct sp_stage_cost cost;
    uint32_t found = 0;
    sp_evaluator_course(evaluator, placement, stage, nodes, count, &cost, NULL);
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_work_node *node = &evaluator->workload->nodes[nodes[i]];
        if (node->folded)
            continue;
        found += list_alive(evaluator, node->inputs, node->input_count, i <= entry, entry, ret_tensors + found);
        found += list_alive(evaluator, node->outputs, node->output_count, i <= entry, entry, ret_tensors + found);
    }
    return found;
}
