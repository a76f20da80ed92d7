/* Why the plan is as it is: every sentence states what was computed, none is decoration. */
#include <math.h>

#include "plan/answer/readable_text.h"
#include "plan/explain/experts.h"
#include "plan/explain/gathered.h"
#include "plan/explain/streamed.h"
#include "plan/internal.h"

#define SP_REASON_NAMES 4 /* devices or stages that a sentence lists before it only counts */

#define SP_MEMORY_FULL 0.90 /* share of a device's memory from which it counts as full */

static const struct sp_stage_cost *stage_cost(const struct sp_plan *plan, uint32_t stage)
{
    return &plan->result->evaluation->stages[stage];
}

/* What one more node would take in a stage. For a block that is known only of nodes that run on an equal one; false
   otherwise. */
static bool node_seconds(const struct sp_plan *plan, uint32_t node, uint32_t stage, double *ret_seconds)
{
    const struct sp_placement *placement = &plan->result->placement;
    const struct sp_sharded_stage *sharded = sp_plan_sharded(plan, stage);
    const struct sp_sharded_stage *other = sp_plan_sharded(plan, placement->stage_of[node]);
    if (sharded == NULL) {
        *ret_seconds = plan->workload->nodes[node].seconds[plan->workload->kind_of[placement->stage_device[stage]]];
        return true;
    }
    if (other == NULL || other->table != sharded->table)
        return false;
    *ret_seconds = sp_plan_node_seconds(plan, node) + sp_plan_node_collective_seconds(plan, node);
    return true;
}

/* "device 0", "devices 0, 2-3 and 8", "stages 0, 1, 2, 3 and 5 more"; `skip` is left out. */
static void list(const struct sp_plan *plan, const char *word, bool devices, const struct sp_places *places,
                 uint32_t skip, struct sp_buf *buf)
{
    uint32_t total = 0, counted = 0, written = 0;
    for (uint32_t i = 0; i < places->count; i++) {
        total += places->stages[i] != skip ? 1 : 0;
        counted += places->stages[i] != skip && devices ? sp_plan_stage_devices(plan, places->stages[i]) - 1 : 0;
    }
    sp_buf_printf(buf, "%s%s ", word, total + counted == 1 ? "" : "s");
    for (uint32_t i = 0; i < places->count && written < SP_REASON_NAMES; i++) {
        uint32_t stage = places->stages[i];
        if (stage == skip)
            continue;
        if (written > 0)
            sp_buf_text(buf, written + 1 == total ? " and " : ", ");
        if (devices)
            sp_reason_devices(plan, stage, buf);
        else
            sp_buf_printf(buf, "%u", stage);
        written++;
    }
    if (total > written)
        sp_buf_printf(buf, devices && counted > 0 ? " and those of %u more stages" : " and %u more", total - written);
}

/* "device 3", "devices 4-7" */
static void stage_devices(const struct sp_plan *plan, uint32_t stage, struct sp_buf *buf)
{
    sp_buf_text(buf, sp_plan_stage_devices(plan, stage) == 1 ? "device " : "devices ");
    sp_reason_devices(plan, stage, buf);
}

static void reason_activation(const struct sp_plan *plan, uint32_t tensor, const struct sp_places *places,
                              struct sp_buf *buf)
{
    const struct sp_work_tensor *t = &plan->workload->tensors[tensor];
    uint32_t origin = sp_plan_origin(plan, tensor);
    if (t->alias_of != SP_NO_WORK) {
        sp_buf_text(buf, "view of ");
        sp_reason_quoted(plan->workload->tensors[t->alias_of].name, buf);
        sp_buf_text(buf, ", ");
    } else if (t->is_output) {
        sp_buf_text(buf, "result of the model, ");
    }
    sp_buf_text(buf, places->count <= 1 && t->consumer_count > 0 ? "produced and used on " : "produced on ");
    stage_devices(plan, origin, buf);
    if (places->count > 1) {
        sp_buf_text(buf, ", used on ");
        list(plan, "device", true, places, origin, buf);
        sp_buf_text(buf, places->count == 2 ? ": sent there once" : ": sent once to each");
    } else if (t->consumer_count == 0 && !t->is_output) {
        sp_buf_text(buf, ", used by no node");
    }
}

static void reason_weight(const struct sp_plan *plan, const struct sp_work_tensor *t, const struct sp_places *places,
                          struct sp_buf *buf)
{
    sp_buf_text(buf, t->producer == SP_NO_WORK ? "weight used " : "constant computed once at load, used ");
    sp_buf_text(buf, places->count == 1 ? "only by " : "by ");
    list(plan, "stage", false, places, SP_NO_STAGE, buf);
    if (places->count > 1)
        sp_buf_text(buf, ": a copy on each device");
    else if (places->count == 1 && sp_placement_replicas(&plan->result->placement, places->stages[0]) > 1)
        sp_buf_printf(buf, ": a copy for each of its %u replicas",
                      sp_placement_replicas(&plan->result->placement, places->stages[0]));
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
        break;
    case SP_WORK_WEIGHT:
        reason_weight(plan, t, places, buf);
        break;
    case SP_WORK_ACTIVATION:
        reason_activation(plan, tensor, places, buf);
        break;
    }
    sp_reason_split(plan, tensor, places, buf);
}

/* ---- stages ---- */

/* The memory that a cut is blamed on must be full. */
static bool memory_is_full(const struct sp_stage_cost *cost)
{
    return cost->capacity_bytes > 0 && cost->total_bytes >= SP_MEMORY_FULL * cost->capacity_bytes;
}

static void full_memory(const struct sp_plan *plan, uint32_t stage, struct sp_buf *buf)
{
    const struct sp_stage_cost *cost = stage_cost(plan, stage);
    sp_buf_text(buf, sp_plan_stage_devices(plan, stage) > 1 ? "the memory of each of " : "the memory of ");
    stage_devices(plan, stage, buf);
    sp_buf_text(buf, " is full: ");
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
    double with;
    bool is_known = node_seconds(plan, node, stage, &with);
    if (is_known && !isfinite(with)) {
        sp_buf_printf(buf, "%s ", word);
        sp_reason_quoted(plan->workload->nodes[node].name, buf);
        sp_buf_printf(buf, ", which %s cannot run", sp_cluster_device(plan->cluster, cost->device)->name);
        return true;
    }
    if (is_known)
        with += cost->compute_seconds;
    if (is_known && with > interval * sp_placement_turns(&plan->result->placement, stage) * (1 + 1e-9)) {
        sp_buf_printf(buf, "%s ", word);
        sp_reason_quoted(plan->workload->nodes[node].name, buf);
        sp_buf_text(buf, ": with it the stage would compute for ");
        sp_text_seconds(buf, with);
        if (sp_placement_replicas(&plan->result->placement, stage) > 1)
            sp_buf_printf(buf, ", longer than %u intervals of ",
                          sp_placement_replicas(&plan->result->placement, stage));
        else
            sp_buf_printf(buf, ", longer than the interval %sof ",
                          sp_plan_runs(plan) > 1 ? "between micro-batches " : "");
        sp_text_seconds(buf, interval);
        return true;
    }
    if (memory_is_full(cost)) {
        sp_buf_printf(buf, "%s ", word);
        sp_reason_quoted(plan->workload->nodes[node].name, buf);
        sp_buf_text(buf, ": ");
        full_memory(plan, stage, buf);
        return true;
    }
    return false;
}

static void reason_only_stage(const struct sp_plan *plan, struct sp_buf *buf)
{
    if (sp_plan_stage_devices(plan, 0) > 1)
        sp_reason_block(plan, 0, "", buf);
    else if (plan->cluster->device_count == 1)
        sp_buf_text(buf, "the cluster has one device");
    else if (plan->objective == SP_OBJECTIVE_DEVICES)
        sp_buf_text(buf, "the whole model fits on one device");
    else
        sp_buf_printf(buf, "no division over more devices that was tried improves the %s",
                      sp_objective_name(plan->objective));
}

/* "shares device 1 with other stages, which with it take 1.2 ms of the interval of 1.3 ms; begins when stage 4 has .." */
static void reason_shared_stage(const struct sp_plan *plan, uint32_t stage, struct sp_buf *buf)
{
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    const struct sp_stage_cost *cost = stage_cost(plan, stage), *device = sp_evaluation_device(evaluation, stage);
    if (device->node_count == cost->node_count)
        sp_buf_printf(buf, "has device %u alone, and takes ", sp_cluster_number(plan->cluster, cost->device));
    else
        sp_buf_printf(buf, "shares device %u with other stages, which with it take ",
                      sp_cluster_number(plan->cluster, cost->device));
    sp_text_seconds(buf, device->interval_seconds);
    sp_buf_text(buf, " of the interval of ");
    sp_text_seconds(buf, evaluation->interval_seconds);
    if (cost->waits_for == SP_NO_STAGE)
        return;
    sp_buf_printf(buf, "; begins when stage %u has ", cost->waits_for);
    sp_buf_text(buf, stage_cost(plan, cost->waits_for)->device == cost->device ? "finished" : "sent what it needs");
}

/* "takes 38 % of the requests, which keep it busy for 4.1 ms of each interval of 4.3 ms" */
static void reason_holder(const struct sp_plan *plan, const struct sp_route_holder *holder, struct sp_buf *buf)
{
    sp_buf_printf(buf, "takes %.3g %% of the requests, which keep it busy for ", 100 * holder->share);
    sp_text_seconds(buf, sp_route_holder_interval(holder));
    sp_buf_text(buf, " of each interval of ");
    sp_text_seconds(buf, plan->result->evaluation->interval_seconds);
}

void sp_reason_stage(const struct sp_plan *plan, uint32_t stage, const struct sp_borders *borders, struct sp_buf *buf)
{
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    const struct sp_stage_cost *cost = stage_cost(plan, stage);
    uint32_t count = evaluation->stage_count;
    if (plan->result->routes != NULL) {
        reason_holder(plan, sp_routed_holder(plan->result->routes, cost->device), buf);
        return;
    }
    if (evaluation->devices != NULL) {
        reason_shared_stage(plan, stage, buf);
        return;
    }
    if (count == 1) {
        reason_only_stage(plan, buf);
        sp_streamed_say(plan, stage, buf);
        sp_gathered_say(plan, stage, buf);
        sp_experts_say(plan, stage, buf);
        return;
    }
    if (borders->first[stage] == SP_NO_WORK) {
        sp_buf_text(buf, "holds only what is computed at load");
        return;
    }
    bool is_told = stage + 1 < count && borders->first[stage + 1] != SP_NO_WORK &&
                   border(plan, stage, borders->first[stage + 1], "ends before", buf);
    if (!is_told && stage > 0 && borders->last[stage - 1] != SP_NO_WORK)
        is_told = border(plan, stage, borders->last[stage - 1], "begins after", buf);
    if (!is_told) {
        sp_buf_text(buf, "its interval is ");
        sp_text_seconds(buf, cost->interval_seconds);
        if (stage == evaluation->bottleneck_stage) {
            sp_buf_text(buf, ", the longest of all");
        } else {
            sp_buf_printf(buf, "; stage %u sets the pace with ", evaluation->bottleneck_stage);
            sp_text_seconds(buf, evaluation->interval_seconds);
        }
    }
    sp_reason_block(plan, stage, "; ", buf);
    sp_streamed_say(plan, stage, buf);
    sp_gathered_say(plan, stage, buf);
    sp_experts_say(plan, stage, buf);
}

/* ---- the bottleneck ---- */

static void device_called(const struct sp_plan *plan, uint32_t stage, bool is_device, struct sp_buf *buf)
{
    const uint32_t device = plan->result->placement.stage_device[stage];
    if (is_device && plan->result->placement.shares_devices) {
        sp_buf_printf(buf, "Device %u", sp_cluster_number(plan->cluster, device));
    } else {
        sp_buf_printf(buf, "Stage %u on ", stage);
        stage_devices(plan, stage, buf);
    }
    sp_buf_text(buf, " (");
    sp_reason_types(plan, stage, buf);
    sp_buf_text(buf, ")");
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
    /* A bound that is lower than this node is one of plans that split or repeat it. */
    if (which == SP_NO_WORK || workload->node_count < 2 ||
        slowest > plan->result->evaluation->interval_seconds * (1 + 1e-9) ||
        fabs(slowest - plan->result->bounds.interval_seconds) > slowest * 1e-9)
        return;
    sp_buf_text(buf, " Node ");
    sp_reason_quoted(workload->nodes[which].name, buf);
    sp_buf_text(buf, " alone takes ");
    sp_text_seconds(buf, slowest);
    sp_buf_text(buf, ": no placement of whole nodes has a shorter interval.");
}

/* What of a stage's time its devices spend among themselves. */
static void collectives(const struct sp_stage_cost *cost, bool is_computing, struct sp_buf *buf)
{
    if (cost->collective_seconds <= 0 || !is_computing)
        return;
    sp_buf_text(buf, cost->collective_seconds > cost->compute_seconds / 2 ? " Most of that, " : " Of that, ");
    sp_text_seconds(buf, cost->collective_seconds);
    sp_buf_text(buf, cost->collective_seconds > cost->compute_seconds / 2
                         ? ", are collectives between the devices of the stage."
                         : " are collectives between the devices of the stage.");
}

/* What of a stage's time its devices wait for weights from the host. */
static void stalls(const struct sp_stage_cost *cost, bool is_computing, struct sp_buf *buf)
{
    if (cost->stall_seconds <= 0 || !is_computing)
        return;
    sp_buf_text(buf, " Of that, ");
    sp_text_seconds(buf, cost->stall_seconds);
    sp_buf_text(buf, " is spent waiting for ");
    sp_text_bytes(buf, cost->streamed_bytes);
    sp_buf_text(buf, " of weights from host memory.");
}

static void bottleneck_of_interval(const struct sp_plan *plan, struct sp_buf *buf)
{
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    const struct sp_stage_cost *cost = sp_evaluation_device(evaluation, evaluation->bottleneck_stage);
    const uint32_t replicas = sp_placement_turns(&plan->result->placement, evaluation->bottleneck_stage);
    const uint32_t copies = sp_placement_copies(&plan->result->placement);
    const char *unit = sp_plan_runs(plan) > 1 ? "micro-batch" : "request";
    const char *units = sp_plan_runs(plan) > 1 ? "micro-batches" : "requests";
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
    if (plan->result->routes != NULL) {
        const struct sp_route_holder *holder = &plan->result->routes->holders[plan->result->routes->bottleneck];
        sp_buf_printf(buf, "Device %u (%s) limits the throughput: it ",
                      sp_cluster_number(plan->cluster, holder->device),
                      sp_cluster_device(plan->cluster, holder->device)->name);
        reason_holder(plan, holder, buf);
        sp_buf_text(buf, ".");
        return;
    }
    device_called(plan, evaluation->bottleneck_stage, true, buf);
    if (cost->shared_seconds > seconds / replicas) {
        sp_buf_text(buf, cost->streamed_count > 0
                             ? " limits the throughput together with the stages that share its host: copying weights "
                               "over the host's link takes the whole interval of "
                             : " limits the throughput together with others: transfers over a switch that they share "
                               "take the whole interval of ");
        sp_text_seconds(buf, evaluation->interval_seconds);
        sp_buf_text(buf, ".");
        return;
    }
    sp_buf_printf(buf, " limits the throughput: %s takes ", what);
    sp_text_seconds(buf, seconds);
    if (replicas > copies) {
        sp_buf_printf(buf, " for a %s, and its %u replicas take %s in turn, one every ", unit, replicas, units);
    } else if (copies > 1) {
        sp_buf_printf(buf, " for a %s, and the %u copies of the plan take requests in turn, one%s every ", unit, copies,
                      sp_plan_runs(plan) > 1 ? " micro-batch" : "");
    } else {
        sp_buf_printf(buf, " of each interval %sof ", sp_plan_runs(plan) > 1 ? "between micro-batches " : "");
    }
    sp_text_seconds(buf, evaluation->interval_seconds);
    sp_buf_text(buf, ".");
    collectives(cost, seconds == cost->compute_seconds, buf);
    stalls(cost, seconds == cost->compute_seconds, buf);
    slowest_node(plan, buf);
}

/* From the stage that ends last, back along the transfers that arrived last. */
static void bottleneck_of_latency(const struct sp_plan *plan, struct sp_buf *buf)
{
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    uint32_t stage = sp_plan_last_stage(plan), slowest, on_path = 0;
    double compute = 0;
    /* Senders have smaller numbers, so the walk ends. */
    for (slowest = stage; stage != SP_NO_STAGE; stage = stage_cost(plan, stage)->waits_for) {
        on_path++;
        compute += stage_cost(plan, stage)->compute_seconds;
        if (stage_cost(plan, stage)->compute_seconds > stage_cost(plan, slowest)->compute_seconds)
            slowest = stage;
    }
    if (evaluation->latency_seconds <= 0) {
        sp_buf_text(buf, "No node takes time: everything is computed at load.");
        return;
    }
    device_called(plan, slowest, false, buf);
    sp_buf_text(buf, " takes the largest part of the latency, ");
    sp_text_seconds(buf, stage_cost(plan, slowest)->compute_seconds);
    sp_buf_text(buf, " of ");
    sp_text_seconds(buf, evaluation->run_seconds);
    if (sp_plan_runs(plan) > 1)
        sp_buf_text(buf, " for one micro-batch");
    if (on_path > 1) {
        sp_buf_printf(buf, "; the longest path crosses %u stages and waits ", on_path);
        sp_text_seconds(buf, fmax(0, evaluation->run_seconds - compute));
        sp_buf_text(buf, " for transfers");
    }
    sp_buf_text(buf, ".");
    if (sp_plan_runs(plan) > 1 && evaluation->stage_count > 0) {
        sp_buf_printf(buf, " Each other micro-batch adds the interval of stage %u, ", evaluation->bottleneck_stage);
        sp_text_seconds(buf, evaluation->interval_seconds);
        sp_buf_text(buf, ".");
    }
    collectives(stage_cost(plan, slowest), true, buf);
    stalls(stage_cost(plan, slowest), true, buf);
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
            full_memory(plan, s, buf);
            sp_buf_text(buf, ".");
            return;
        }
    }
}
