#include "cost/pieces.h"

#include <string.h>

#define NOTHING UINT32_MAX

struct cutting {
    const struct sp_workload *workload;
    const uint32_t *device_of;
    uint32_t *waits_for;              /* per node: operands that neither are there nor are made in the same piece */
    uint32_t *next;                   /* per node: the next one in the list of its device */
    uint32_t *first, *count, *remain; /* per device: nodes that it can run now, and all that it has not run */
    uint32_t *ready;                  /* nodes that became ready: a stack */
    uint32_t ready_count;
};

/* Operands that nodes which run make. */
static bool is_made(const struct sp_workload *workload, uint32_t tensor)
{
    const struct sp_work_tensor *t = &workload->tensors[tensor];
    return t->kind == SP_WORK_ACTIVATION && t->producer != SP_NO_WORK && !workload->nodes[t->producer].folded;
}

/* The users of what a node makes, on its device or on others, need to wait for one operand less. */
static void satisfy(struct cutting *cutting, uint32_t node, bool is_same_device)
{
    const struct sp_work_node *work = &cutting->workload->nodes[node];
    for (uint32_t o = 0; o < work->output_count; o++) {
        const struct sp_work_tensor *tensor = &cutting->workload->tensors[work->outputs[o]];
        for (uint32_t i = 0; i < tensor->consumer_count; i++) {
            const uint32_t user = tensor->consumers[i];
            if ((cutting->device_of[user] == cutting->device_of[node]) == is_same_device &&
                --cutting->waits_for[user] == 0)
                cutting->ready[cutting->ready_count++] = user;
        }
    }
}

/* Ready nodes go into the lists of their devices, and make others of the same devices ready. */
static void take_ready(struct cutting *cutting)
{
    while (cutting->ready_count > 0) {
        const uint32_t node = cutting->ready[--cutting->ready_count], device = cutting->device_of[node];
        cutting->next[node] = cutting->first[device];
        cutting->first[device] = node;
        cutting->count[device]++;
        satisfy(cutting, node, true);
    }
}

static uint32_t choose_device(const struct cutting *cutting, uint32_t devices)
{
    uint32_t best = NOTHING;
    for (uint32_t d = 0; d < devices; d++) {
        if (cutting->count[d] == 0)
            continue;
        if (cutting->count[d] == cutting->remain[d])
            return d;
        if (best == NOTHING || cutting->count[d] > cutting->count[best])
            best = d;
    }
    return best;
}

static bool create(struct sp_arena *arena, struct cutting *cutting, uint32_t devices)
{
    const uint32_t count = cutting->workload->node_count;
    cutting->waits_for = SP_NEW_ARRAY(arena, count, uint32_t);
    cutting->next = SP_NEW_ARRAY(arena, count, uint32_t);
    cutting->ready = SP_NEW_ARRAY(arena, count, uint32_t);
    cutting->first = SP_NEW_ARRAY(arena, devices, uint32_t);
    cutting->count = SP_NEW_ARRAY(arena, devices, uint32_t);
    cutting->remain = SP_NEW_ARRAY(arena, devices, uint32_t);
    if (cutting->waits_for == NULL || cutting->next == NULL || cutting->ready == NULL || cutting->first == NULL ||
        cutting->count == NULL || cutting->remain == NULL)
        return false;
    memset(cutting->first, 0xff, devices * sizeof *cutting->first);
    for (uint32_t n = 0; n < count; n++) {
        const struct sp_work_node *node = &cutting->workload->nodes[n];
        if (node->folded)
            continue;
        cutting->remain[cutting->device_of[n]]++;
        for (uint32_t i = 0; i < node->input_count; i++)
            cutting->waits_for[n] += is_made(cutting->workload, node->inputs[i]);
        if (cutting->waits_for[n] == 0)
            cutting->ready[cutting->ready_count++] = n;
    }
    return true;
}

/* The nodes that the device can run become a stage. */
static void cut_piece(struct cutting *cutting, uint32_t device, struct sp_placement *placement)
{
    uint32_t node = cutting->first[device];
    cutting->first[device] = NOTHING;
    cutting->remain[device] -= cutting->count[device];
    cutting->count[device] = 0;
    for (; node != NOTHING; node = cutting->next[node]) {
        placement->stage_of[node] = placement->stage_count;
        satisfy(cutting, node, false);
    }
    placement->stage_device[placement->stage_count++] = device;
}

struct sp_placement *sp_pieces_cut(struct sp_arena *arena, const struct sp_workload *workload,
                                   const struct sp_cluster *cluster, const uint32_t *device_of)
{
    const uint32_t devices = cluster->device_count;
    struct cutting cutting = {.workload = workload, .device_of = device_of};
    struct sp_placement *placement = SP_NEW(arena, struct sp_placement);
    if (placement == NULL)
        return NULL;
    placement->stage_of = SP_NEW_ARRAY(arena, workload->node_count, uint32_t);
    placement->stage_device = SP_NEW_ARRAY(arena, workload->node_count, uint32_t);
    if (placement->stage_of == NULL || placement->stage_device == NULL || !create(arena, &cutting, devices))
        return NULL;
    take_ready(&cutting);
    for (uint32_t d = choose_device(&cutting, devices); d != NOTHING; d = choose_device(&cutting, devices)) {
        placement->shares_devices = placement->shares_devices || cutting.count[d] < cutting.remain[d];
        cut_piece(&cutting, d, placement);
        take_ready(&cutting);
    }
    return placement;
}
