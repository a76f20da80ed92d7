/* Why the plan is as it is: every sentence states what was computed, none is decoration. */
#include <math.h>

#include "plan/internal.h"
#include "plan/text.h"

#define SP_REASON_NAMES   4    /* devices or stages that a sentence lists before it only counts */
#define SP_REASON_COLUMNS 60   /* of a node's or tensor's name inside a sentence */
#define SP_MEMORY_FULL    0.90 /* share of a device's memory from which it counts as full */

static const struct sp_stage_cost *stage_cost(const struct sp_plan *plan, uint32_t stage)
{
    return &plan->result->evaluation->stages[stage];
}

static double node_seconds(const struct sp_plan *plan, uint32_t node, uint32_t stage)
{
    uint32_t device = plan->result->placement.stage_device[stage];
    return plan->workload->nodes[node].seconds[plan->workload->kind_of[device]];
}

static void quoted(struct sp_buf *buf, const char *name)
{
    sp_buf_text(buf, "'");
    sp_text_cut(buf, name, SP_REASON_COLUMNS);
    sp_buf_text(buf, "'");
}

/* "device 0", "devices 0, 2 and 3", "stages 0, 1, 2, 3 and 5 more"; `skip` is left out. */
static void list(const struct sp_plan *plan, const char *word, bool devices, const struct sp_places *places,
                 uint32_t skip, struct sp_buf *buf)
{
    uint32_t total = 0, written = 0;
    for (uint32_t i = 0; i < places->count; i++)
        total += places->stages[i] != skip ? 1 : 0;
    sp_buf_printf(buf, "%s%s ", word, total == 1 ? "" : "s");
    for (uint32_t i = 0; i < places->count && written < SP_REASON_NAMES; i++) {
        uint32_t stage = places->stages[i];
        if (stage == skip)
            continue;
        if (written > 0)
            sp_buf_text(buf, written + 1 == total ? " and " : ", ");
        sp_buf_printf(buf, "%u", devices ? plan->result->placement.stage_device[stage] : stage);
        written++;
    }
    if (total > written)
        sp_buf_printf(buf, " and %u more", total - written);
}

static void reason_activation(const struct sp_plan *plan, uint32_t tensor, const struct sp_places *places,
                              struct sp_buf *buf)
{
    const struct sp_work_tensor *t = &plan->workload->tensors[tensor];
    uint32_t origin = sp_plan_origin(plan, tensor);
    uint32_t device = plan->result->placement.stage_device[origin];
    if (t->alias_of != SP_NO_WORK) {
        sp_buf_text(buf, "view of ");
        quoted(buf, plan->workload->tensors[t->alias_of].name);
        sp_buf_text(buf, ", ");
    } else if (t->is_output) {
        sp_buf_text(buf, "result of the model, ");
    }
    if (places->count > 1) {
        sp_buf_printf(buf, "produced on device %u, used on ", device);
        list(plan, "device", true, places, origin, buf);
        sp_buf_text(buf, places->count == 2 ? ": sent there once" : ": sent once to each");
    } else if (t->consumer_count > 0) {
        sp_buf_printf(buf, "produced and used on device %u", device);
    } else {
        sp_buf_printf(buf, "produced on device %u%s", device, t->is_output ? "" : ", used by no node");
    }
}

void sp_reason_tensor(const struct sp_plan *plan, uint32_t tensor, const struct sp_places *places, struct sp_buf *buf)
{
    const struct sp_work_tensor *t = &plan->workload->tensors[tensor];
    switch (t->kind) {
    case SP_WORK_INPUT:
        sp_buf_text(buf, "input of the model, ");
        if (places->count == 0) {
            sp_buf_text(buf, "used by no node that runs");
            return;
        }
        sp_buf_text(buf, "used on ");
        list(plan, "device", true, places, SP_NO_STAGE, buf);
        if (places->count > 1)
            sp_buf_text(buf, ": given to each");
        return;
    case SP_WORK_WEIGHT:
        sp_buf_text(buf, t->producer == SP_NO_WORK ? "weight used " : "constant computed once at load, used ");
        sp_buf_text(buf, places->count == 1 ? "only by " : "by ");
        list(plan, "stage", false, places, SP_NO_STAGE, buf);
        if (places->count > 1)
            sp_buf_text(buf, ": a copy on each device");
        return;
    case SP_WORK_ACTIVATION:
        reason_activation(plan, tensor, places, buf);
        return;
    }
}

/* ---- stages ---- */

/* The memory that a cut is blamed on must be full. */
static bool memory_is_full(const struct sp_stage_cost *cost)
{
    return cost->capacity_bytes > 0 && cost->total_bytes >= SP_MEMORY_FULL * cost->capacity_bytes;
}

static void full_memory(const struct sp_stage_cost *cost, struct sp_buf *buf)
{
    sp_buf_printf(buf, "the memory of device %u is full: ", cost->device);
    sp_text_bytes(buf, cost->total_bytes);
    sp_buf_text(buf, " of ");
    sp_text_bytes(buf, cost->capacity_bytes);
}

/* Says why `node`, the one across the border, is not part of `stage`: it would make the stage too slow, or too large.
   False when neither is so. */
static bool border(const struct sp_plan *plan, uint32_t stage, uint32_t node, const char *word, struct sp_buf *buf)
{
    const struct sp_stage_cost *cost = stage_cost(plan, stage);
    double interval = plan->result->evaluation->interval_seconds;
    double with = cost->compute_seconds + node_seconds(plan, node, stage);
    if (with > interval * (1 + 1e-9)) {
        sp_buf_printf(buf, "%s ", word);
        quoted(buf, plan->workload->nodes[node].name);
        sp_buf_text(buf, ": with it the stage would compute for ");
        sp_text_seconds(buf, with);
        sp_buf_text(buf, ", longer than the interval of ");
        sp_text_seconds(buf, interval);
        return true;
    }
    if (memory_is_full(cost)) {
        sp_buf_printf(buf, "%s ", word);
        quoted(buf, plan->workload->nodes[node].name);
        sp_buf_text(buf, ": ");
        full_memory(cost, buf);
        return true;
    }
    return false;
}

static void reason_only_stage(const struct sp_plan *plan, struct sp_buf *buf)
{
    if (plan->cluster->device_count == 1)
        sp_buf_text(buf, "the cluster has one device");
    else if (plan->objective == SP_OBJECTIVE_DEVICES)
        sp_buf_text(buf, "the whole model fits on one device");
    else
        sp_buf_printf(buf, "no division over more devices that was tried improves the %s",
                      sp_objective_name(plan->objective));
}

void sp_reason_stage(const struct sp_plan *plan, uint32_t stage, const struct sp_borders *borders, struct sp_buf *buf)
{
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    const struct sp_stage_cost *cost = stage_cost(plan, stage);
    uint32_t count = evaluation->stage_count;
    if (count == 1) {
        reason_only_stage(plan, buf);
        return;
    }
    if (borders->first[stage] == SP_NO_WORK) {
        sp_buf_text(buf, "holds only what is computed at load");
        return;
    }
    if (stage + 1 < count && borders->first[stage + 1] != SP_NO_WORK &&
        border(plan, stage, borders->first[stage + 1], "ends before", buf))
        return;
    if (stage > 0 && borders->last[stage - 1] != SP_NO_WORK &&
        border(plan, stage, borders->last[stage - 1], "begins after", buf))
        return;
    sp_buf_text(buf, "its interval is ");
    sp_text_seconds(buf, cost->interval_seconds);
    if (stage == evaluation->bottleneck_stage) {
        sp_buf_text(buf, ", the longest of all");
    } else {
        sp_buf_printf(buf, "; stage %u sets the pace with ", evaluation->bottleneck_stage);
        sp_text_seconds(buf, evaluation->interval_seconds);
    }
}

/* ---- the bottleneck ---- */

static void device_called(const struct sp_plan *plan, uint32_t stage, struct sp_buf *buf)
{
    uint32_t device = plan->result->placement.stage_device[stage];
    sp_buf_printf(buf, "Stage %u on device %u (%s)", stage, device, sp_cluster_device(plan->cluster, device)->name);
}

/* When one node alone is as slow as the bound, no placement of whole nodes can be quicker. */
static void slowest_node(const struct sp_plan *plan, struct sp_buf *buf)
{
    const struct sp_workload *workload = plan->workload;
    double slowest = 0;
    uint32_t which = SP_NO_WORK;
    for (uint32_t n = 0; n < workload->node_count; n++) {
        double fastest = INFINITY;
        for (uint32_t k = 0; k < workload->kind_count && !workload->nodes[n].folded; k++)
            fastest = fmin(fastest, workload->nodes[n].seconds[k]);
        if (isfinite(fastest) && fastest > slowest) {
            slowest = fastest;
            which = n;
        }
    }
    if (which == SP_NO_WORK || workload->node_count < 2 || slowest < plan->result->bounds.interval_seconds * (1 - 1e-9))
        return;
    sp_buf_text(buf, " Node ");
    quoted(buf, workload->nodes[which].name);
    sp_buf_text(buf, " alone takes ");
    sp_text_seconds(buf, slowest);
    sp_buf_text(buf, ": no placement of whole nodes has a shorter interval.");
}

static void bottleneck_of_interval(const struct sp_plan *plan, struct sp_buf *buf)
{
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    const struct sp_stage_cost *cost = stage_cost(plan, evaluation->bottleneck_stage);
    const char *what = "computing";
    double seconds = cost->compute_seconds;
    if (cost->send_seconds > seconds) {
        what = "sending";
        seconds = cost->send_seconds;
    }
    if (cost->receive_seconds > seconds) {
        what = "receiving";
        seconds = cost->receive_seconds;
    }
    if (evaluation->interval_seconds <= 0) {
        sp_buf_text(buf, "No node takes time: everything is computed at load.");
        return;
    }
    device_called(plan, evaluation->bottleneck_stage, buf);
    sp_buf_printf(buf, " limits the throughput: %s takes ", what);
    sp_text_seconds(buf, seconds);
    sp_buf_text(buf, " of each interval of ");
    sp_text_seconds(buf, evaluation->interval_seconds);
    sp_buf_text(buf, ".");
    slowest_node(plan, buf);
}

/* For each stage the one whose transfer to it arrives last, or SP_NO_STAGE; NULL without memory. */
static uint32_t *last_senders(const struct sp_plan *plan)
{
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    uint32_t *sender = SP_NEW_ARRAY(plan->arena, evaluation->stage_count, uint32_t);
    double *arrival = SP_NEW_ARRAY(plan->arena, evaluation->stage_count, double);
    if (sender == NULL || arrival == NULL)
        return NULL;
    for (uint32_t s = 0; s < evaluation->stage_count; s++)
        sender[s] = SP_NO_STAGE;
    for (uint32_t i = 0; i < evaluation->transfer_count; i++) {
        const struct sp_tensor_transfer *t = &evaluation->transfers[i];
        const struct sp_stage_cost *from = stage_cost(plan, t->from_stage);
        double at = from->start_seconds + from->compute_seconds + t->seconds;
        if (t->from_stage < t->to_stage && (sender[t->to_stage] == SP_NO_STAGE || at > arrival[t->to_stage])) {
            sender[t->to_stage] = t->from_stage;
            arrival[t->to_stage] = at;
        }
    }
    return sender;
}

/* From the stage that ends last, back along the transfers that arrived last. */
static void bottleneck_of_latency(const struct sp_plan *plan, struct sp_buf *buf)
{
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    uint32_t *sender = last_senders(plan);
    uint32_t stage = 0, slowest, on_path = 0;
    double compute = 0;
    if (sender == NULL) {
        buf->failed = true;
        return;
    }
    for (uint32_t s = 1; s < evaluation->stage_count; s++) {
        const struct sp_stage_cost *a = stage_cost(plan, s), *b = stage_cost(plan, stage);
        if (a->start_seconds + a->compute_seconds > b->start_seconds + b->compute_seconds)
            stage = s;
    }
    /* Senders have smaller numbers, so the walk ends. */
    for (slowest = stage; stage != SP_NO_STAGE; stage = sender[stage]) {
        on_path++;
        compute += stage_cost(plan, stage)->compute_seconds;
        if (stage_cost(plan, stage)->compute_seconds > stage_cost(plan, slowest)->compute_seconds)
            slowest = stage;
    }
    if (evaluation->latency_seconds <= 0) {
        sp_buf_text(buf, "No node takes time: everything is computed at load.");
        return;
    }
    device_called(plan, slowest, buf);
    sp_buf_text(buf, " takes the largest part of the latency, ");
    sp_text_seconds(buf, stage_cost(plan, slowest)->compute_seconds);
    sp_buf_text(buf, " of ");
    sp_text_seconds(buf, evaluation->latency_seconds);
    if (on_path > 1) {
        sp_buf_printf(buf, "; the longest path crosses %u stages and waits ", on_path);
        sp_text_seconds(buf, fmax(0, evaluation->latency_seconds - compute));
        sp_buf_text(buf, " for transfers");
    }
    sp_buf_text(buf, ".");
}

void sp_reason_bottleneck(const struct sp_plan *plan, struct sp_buf *buf)
{
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    if (plan->objective == SP_OBJECTIVE_LATENCY)
        bottleneck_of_latency(plan, buf);
    else
        bottleneck_of_interval(plan, buf);
    for (uint32_t s = 0; s < evaluation->stage_count; s++) {
        if (memory_is_full(stage_cost(plan, s))) {
            sp_buf_text(buf, " Memory binds too: ");
            full_memory(stage_cost(plan, s), buf);
            sp_buf_text(buf, ".");
            return;
        }
    }
}
