#include "recount_shared.h"

#include <math.h>
#include <stdio.h>

struct floor {
    struct sp_arena *scratch;
    const struct sp_workload *workload;
    const struct sp_cluster *cluster;
    const struct sp_placement *placement;
    uint32_t *period;    /* per stage: behind the arrival of a request */
    uint32_t periods;    /* that are run */
    double *seconds;     /* [stage][stage]: of transfers; -1: there are none */
    double *sent, *came; /* per device */
    double *buffers;
    double *peak; /* per stage */
};

static uint32_t device_of(const struct floor *floor, uint32_t node)
{
    return floor->placement->stage_device[floor->placement->stage_of[node]];
}

/* The first or last stage of a device that uses a tensor; SP_NO_WORK: none does. */
static uint32_t end_stage(const struct floor *floor, uint32_t t, uint32_t device, bool is_first)
{
    const struct sp_work_tensor *tensor = &floor->workload->tensors[t];
    uint32_t found = SP_NO_WORK;
    for (uint32_t i = 0; i < tensor->consumer_count; i++) {
        const uint32_t stage = floor->placement->stage_of[tensor->consumers[i]];
        if (device_of(floor, tensor->consumers[i]) == device &&
            (found == SP_NO_WORK || (is_first ? stage < found : stage > found)))
            found = stage;
    }
    return found;
}

/* ---- transfers -------------------------------------------------------------------------------------------------- */

static void send_tensor(struct floor *floor, uint32_t t)
{
    const struct sp_work_tensor *tensor = &floor->workload->tensors[t];
    const uint32_t from = floor->placement->stage_of[tensor->producer], home = device_of(floor, tensor->producer);
    for (uint32_t d = 0; d < floor->cluster->device_count; d++) {
        const uint32_t to = d == home ? SP_NO_WORK : end_stage(floor, t, d, true);
        if (to == SP_NO_WORK)
            continue;
        const double seconds = tensor->has_transfer_seconds
                                   ? tensor->transfer_seconds
                                   : sp_cluster_transfer_seconds(floor->cluster, home, d, tensor->bytes);
        double *all = &floor->seconds[from * floor->placement->stage_count + to];
        *all = fmax(*all, 0) + seconds;
        floor->sent[home] += seconds;
        floor->came[d] += seconds;
        floor->buffers[home] += 2 * tensor->bytes;
        floor->buffers[d] += 2 * tensor->bytes;
        if (floor->period[to] < floor->period[from] + 2)
            floor->period[to] = floor->period[from] + 2;
    }
}

/* Until nothing changes. */
static void find_periods(struct floor *floor)
{
    const uint32_t stages = floor->placement->stage_count;
    for (uint32_t round = 0; round <= stages; round++) {
        for (uint32_t i = 0; i < stages * stages; i++)
            floor->seconds[i] = -1;
        for (uint32_t d = 0; d < floor->cluster->device_count; d++)
            floor->sent[d] = floor->came[d] = floor->buffers[d] = 0;
        for (uint32_t t = 0; t < floor->workload->tensor_count; t++)
            send_tensor(floor, t);
        for (uint32_t s = 0; s < stages; s++) {
            for (uint32_t later = s + 1; later < stages; later++) {
                if (floor->placement->stage_device[s] == floor->placement->stage_device[later] &&
                    floor->period[later] < floor->period[s])
                    floor->period[later] = floor->period[s];
            }
            floor->periods = floor->period[s] + 3 > floor->periods ? floor->period[s] + 3 : floor->periods;
        }
    }
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* Whether a copy is needed on the device after the node: by a later one, or up to the end of the stage that makes it. */
static bool is_needed(const struct floor *floor, uint32_t t, uint32_t node)
{
    const struct sp_work_tensor *tensor = &floor->workload->tensors[t];
    const uint32_t stage = floor->placement->stage_of[node], device = device_of(floor, node);
    bool leaves = tensor->is_output;
    for (uint32_t i = 0; i < tensor->consumer_count; i++) {
        const uint32_t user = tensor->consumers[i], other = floor->placement->stage_of[user];
        leaves = leaves || device_of(floor, user) != device;
        if (device_of(floor, user) == device && (other > stage || (other == stage && user > node)))
            return true;
    }
    return floor->placement->stage_of[tensor->producer] == stage && leaves;
}

static void count(const struct floor *floor, const bool *here, double workspace, double *peak)
{
    double bytes = workspace;
    for (uint32_t i = 0; i < floor->periods * floor->workload->tensor_count; i++)
        bytes += here[i] ? floor->workload->tensors[i % floor->workload->tensor_count].bytes : 0;
    *peak = fmax(*peak, bytes);
}

static void run_stage(struct floor *floor, uint32_t stage, uint32_t request, bool *here)
{
    const struct sp_workload *workload = floor->workload;
    bool *mine = here + (size_t)request * workload->tensor_count;
    count(floor, here, 0, &floor->peak[stage]);
    for (uint32_t n = 0; n < workload->node_count; n++) {
        const struct sp_work_node *node = &workload->nodes[n];
        if (floor->placement->stage_of[n] != stage)
            continue;
        for (uint32_t i = 0; i < node->input_count; i++)
            mine[node->inputs[i]] = true;
        for (uint32_t i = 0; i < node->output_count; i++)
            mine[node->outputs[i]] = true;
        count(floor, here, node->workspace_bytes, &floor->peak[stage]);
        for (uint32_t i = 0; i < node->input_count; i++)
            mine[node->inputs[i]] = is_needed(floor, node->inputs[i], n);
        for (uint32_t i = 0; i < node->output_count; i++)
            mine[node->outputs[i]] = is_needed(floor, node->outputs[i], n);
    }
    for (uint32_t t = 0; t < workload->tensor_count; t++) {
        const uint32_t last = end_stage(floor, t, floor->placement->stage_device[stage], false);
        if (last == SP_NO_WORK || last <= stage)
            mine[t] = false;
    }
}

static void run_device(struct floor *floor, uint32_t device)
{
    bool *here = SP_NEW_ARRAY(floor->scratch, (size_t)floor->periods * floor->workload->tensor_count, bool);
    for (uint32_t now = 0; now < floor->periods; now++) {
        for (uint32_t s = 0; s < floor->placement->stage_count; s++) {
            if (floor->placement->stage_device[s] == device && now >= floor->period[s])
                run_stage(floor, s, now - floor->period[s], here);
        }
    }
}

/* ---- all -------------------------------------------------------------------------------------------------------- */

static double compute_of(const struct floor *floor, uint32_t stage)
{
    double seconds = 0;
    for (uint32_t n = 0; n < floor->workload->node_count; n++) {
        if (floor->placement->stage_of[n] == stage)
            seconds += floor->workload->nodes[n].seconds[floor->workload->kind_of[device_of(floor, n)]];
    }
    return seconds;
}

static void time_all(const struct floor *floor, double *ret_interval, double *ret_latency)
{
    const uint32_t stages = floor->placement->stage_count;
    double *end = SP_NEW_ARRAY(floor->scratch, stages, double);
    double *busy = SP_NEW_ARRAY(floor->scratch, floor->cluster->device_count, double);
    *ret_interval = *ret_latency = 0;
    for (uint32_t s = 0; s < stages; s++) {
        double start = 0;
        for (uint32_t before = 0; before < s; before++) {
            const double seconds = floor->seconds[before * stages + s];
            if (seconds >= 0 || floor->placement->stage_device[before] == floor->placement->stage_device[s])
                start = fmax(start, end[before] + fmax(seconds, 0));
        }
        end[s] = start + compute_of(floor, s);
        busy[floor->placement->stage_device[s]] += compute_of(floor, s);
        *ret_latency = fmax(*ret_latency, end[s]);
    }
    for (uint32_t d = 0; d < floor->cluster->device_count; d++)
        *ret_interval = fmax(*ret_interval, fmax(busy[d], fmax(floor->sent[d], floor->came[d])));
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b)) + 1e-9;
}

static bool stage_holds(const struct floor *floor, uint32_t stage, const struct sp_stage_cost *cost, bool fits,
                        char *ret_why)
{
    const uint32_t device = floor->placement->stage_device[stage];
    double weights = 0;
    for (uint32_t n = 0; n < floor->workload->node_count; n++)
        weights += device_of(floor, n) == device ? floor->workload->nodes[n].inner_weight_bytes : 0;
    const double total = weights + floor->buffers[device] + floor->peak[stage];
    if (!is_near(cost->weights_bytes, weights) || !is_near(cost->communication_bytes, floor->buffers[device]) ||
        !is_near(cost->activations_peak_bytes, floor->peak[stage]) || !is_near(cost->total_bytes, total)) {
        (void)snprintf(ret_why, 256,
                       "Stage %u on device %u: weights %.17g, run %.17g; buffers %.17g, %.17g; peak %.17g, %.17g.",
                       stage, device, cost->weights_bytes, weights, cost->communication_bytes, floor->buffers[device],
                       cost->activations_peak_bytes, floor->peak[stage]);
        return false;
    }
    if (fits && total > sp_cluster_memory(floor->cluster, device) * (1 + 1e-12)) {
        (void)snprintf(ret_why, 256, "Stage %u needs %.17g bytes on device %u.", stage, total, device);
        return false;
    }
    return true;
}

bool recount_shared_holds(const struct sp_workload *workload, const struct sp_cluster *cluster,
                          const struct sp_placement *placement, const struct sp_evaluation *evaluation, bool fits,
                          char ret_why[256])
{
    struct sp_arena *scratch = sp_arena_create(NULL);
    const uint32_t stages = placement->stage_count, devices = cluster->device_count;
    struct floor floor = {.scratch = scratch,
                          .workload = workload,
                          .cluster = cluster,
                          .placement = placement,
                          .period = SP_NEW_ARRAY(scratch, stages, uint32_t),
                          .seconds = SP_NEW_ARRAY(scratch, (size_t)stages * stages, double),
                          .sent = SP_NEW_ARRAY(scratch, devices, double),
                          .came = SP_NEW_ARRAY(scratch, devices, double),
                          .buffers = SP_NEW_ARRAY(scratch, devices, double),
                          .peak = SP_NEW_ARRAY(scratch, stages, double)};
    double interval, latency;
    find_periods(&floor);
    for (uint32_t d = 0; d < devices; d++)
        run_device(&floor, d);
    time_all(&floor, &interval, &latency);
    bool holds = is_near(interval, evaluation->interval_seconds) && is_near(latency, evaluation->latency_seconds);
    if (!holds)
        (void)snprintf(ret_why, 256, "Interval %.17g, run %.17g; latency %.17g, %.17g.", evaluation->interval_seconds,
                       interval, evaluation->latency_seconds, latency);
    for (uint32_t s = 0; holds && s < stages; s++)
        holds = stage_holds(&floor, s, &evaluation->stages[s], fits, ret_why);
    sp_arena_destroy(scratch);
    return holds;
}
