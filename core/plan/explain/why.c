#include "plan/explain/why.h"

#include <math.h>
#include <string.h>

#include "plan/answer/readable_text.h"

#define EQUAL 1e-9 /* share up to which two figures are the same */

static const char *const binding_names[] = {"compute", "memory_bandwidth", "launch", "link",
                                            "host",    "memory",           "bound",  "none"};

const char *sp_binding_name(enum sp_binding kind)
{
    return binding_names[kind];
}

/* ---- where time goes -------------------------------------------------------------------------------------------- */

#define TIMES 5 /* of the kinds before SP_BINDING_MEMORY */

/* The objective's time by what it goes to; for each the stage with most of it, and that stage's largest node. */
struct times {
    double seconds[TIMES];
    double most_of_stage[TIMES];
    uint32_t stage[TIMES];
    const char *node[TIMES];
};

/* One operator on one device: arithmetic or bandwidth, and the launch. */
static enum sp_binding split_node(const struct sp_plan *plan, uint32_t node, uint32_t stage, double *ret_seconds,
                                  double *ret_launch)
{
    const struct sp_work_node *work = &plan->workload->nodes[node];
    const struct sp_strategy *strategy = sp_plan_strategy(plan, node);
    const struct sp_device *device = sp_cluster_device(plan->cluster, plan->result->placement.stage_device[stage]);
    const double seconds = sp_plan_node_seconds(plan, node);
    const double flops = strategy != NULL ? strategy->flops : work->flops;
    const double bytes = sp_plan_node_bytes(plan, node);
    *ret_launch = 0;
    *ret_seconds = seconds;
    if (work->node == NULL)
        return SP_BINDING_COMPUTE;
    const uint32_t kind = plan->workload->kind_of[plan->result->placement.stage_device[stage]];
    *ret_launch = work->start_seconds != NULL ? fmin(seconds, work->start_seconds[kind]) : 0;
    *ret_seconds -= *ret_launch;
    const enum sp_dtype dtype = sp_node_dtype(device, work->node);
    const bool is_product = work->classes != NULL && work->classes[kind] <= SP_DEVICE_CLASS_NARROW_PRODUCTS;
    const double peak = is_product ? sp_device_product_flops(device, dtype) : sp_device_flops(device, dtype);
    return flops / peak >= bytes / device->memory_bandwidth ? SP_BINDING_COMPUTE : SP_BINDING_MEMORY_BANDWIDTH;
}

/* Adds what one stage computes. */
static void add_stage(const struct sp_plan *plan, uint32_t stage, struct times *times)
{
    double sum[TIMES] = {0}, most[TIMES] = {0};
    const char *name[TIMES] = {NULL};
    for (uint32_t i = plan->stage_nodes.start[stage]; i < plan->stage_nodes.start[stage + 1]; i++) {
        const uint32_t node = plan->stage_nodes.items[i];
        double of[TIMES] = {0}, seconds;
        if (plan->workload->nodes[node].folded)
            continue;
        const enum sp_binding kind = split_node(plan, node, stage, &seconds, &of[SP_BINDING_LAUNCH]);
        of[kind] += seconds;
        of[SP_BINDING_LINK] = sp_plan_node_collective_seconds(plan, node);
        for (uint32_t k = 0; k < TIMES; k++) {
            sum[k] += of[k];
            if (of[k] > most[k]) {
                most[k] = of[k];
                name[k] = plan->workload->nodes[node].name;
            }
        }
    }
    /* Bringing tensors in other layouts is in no node. */
    sum[SP_BINDING_LINK] = plan->result->evaluation->stages[stage].collective_seconds;
    sum[SP_BINDING_HOST] = plan->result->evaluation->stages[stage].stall_seconds;
    for (uint32_t k = 0; k < TIMES; k++) {
        times->seconds[k] += sum[k];
        if (sum[k] > times->most_of_stage[k]) {
            times->most_of_stage[k] = sum[k];
            times->stage[k] = stage;
            times->node[k] = k == SP_BINDING_LAUNCH ? NULL : name[k];
        }
    }
}

/* Of the slowest stage, or of all stages of the busiest device. */
static void times_of_interval(const struct sp_plan *plan, struct times *times)
{
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    const uint32_t stage = evaluation->bottleneck_stage;
    const struct sp_stage_cost *cost = sp_evaluation_device(evaluation, stage);
    const double sent = fmax(cost->send_seconds, cost->receive_seconds);
    if (cost->shared_seconds > 0 && cost->shared_seconds >= evaluation->interval_seconds) {
        const enum sp_binding kind = cost->streamed_count > 0 ? SP_BINDING_HOST : SP_BINDING_LINK;
        times->seconds[kind] = times->most_of_stage[kind] = cost->shared_seconds;
        times->stage[kind] = stage;
        return;
    }
    if (sent > cost->compute_seconds) {
        times->seconds[SP_BINDING_LINK] = times->most_of_stage[SP_BINDING_LINK] = sent;
        times->stage[SP_BINDING_LINK] = stage;
        return;
    }
    for (uint32_t s = 0; s < evaluation->stage_count; s++) {
        if (evaluation->stages[s].device == cost->device)
            add_stage(plan, s, times);
    }
}

/* Of all stages on the longest path, and the waiting between them. */
static void times_of_latency(const struct sp_plan *plan, struct times *times)
{
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    const uint32_t last = sp_plan_last_stage(plan);
    double computing = 0;
    for (uint32_t s = last; s != SP_NO_STAGE; s = evaluation->stages[s].waits_for) {
        computing += evaluation->stages[s].compute_seconds;
        add_stage(plan, s, times);
    }
    const double waiting = fmax(0, evaluation->run_seconds - computing);
    times->seconds[SP_BINDING_LINK] += waiting;
    if (waiting > times->most_of_stage[SP_BINDING_LINK]) {
        times->stage[SP_BINDING_LINK] = last;
        times->node[SP_BINDING_LINK] = NULL;
    }
}

/* ---- what binds ------------------------------------------------------------------------------------------------- */

static const char *objective_word(const struct sp_plan *plan)
{
    return plan->objective == SP_OBJECTIVE_LATENCY ? "latency" : "interval";
}

static void set_stage(const struct sp_plan *plan, uint32_t stage, struct sp_why *why)
{
    why->stage = stage;
    why->first_device = plan->result->placement.stage_device[stage];
    why->device_count = sp_plan_stage_devices(plan, stage);
}

static void stage_called(const struct sp_plan *plan, uint32_t stage, struct sp_buf *buf)
{
    sp_buf_printf(buf, "stage %u on device%s ", stage, sp_plan_stage_devices(plan, stage) > 1 ? "s" : "");
    sp_reason_devices(plan, stage, buf);
}

static void say_time(const struct sp_plan *plan, const struct sp_why *why, struct sp_buf *buf)
{
    static const char *const words[] = {"arithmetic", "memory bandwidth", "launching operators",
                                        "links between devices", "copying weights from host memory"};
    static const char *const wishes[] = {
        "a better plan would need faster arithmetic, or less of it there",
        "a better plan would need faster memory, or fewer bytes read and written there",
        "a better plan would need operators that start faster, or fewer of them there",
        "a better plan would need faster links, or less to send there",
        "a better plan would need a faster link to the host, or more memory on the devices",
    };
    sp_buf_printf(buf, "Of the %s of ", objective_word(plan));
    sp_text_seconds(buf, sp_plan_gap(plan).value_seconds);
    sp_buf_printf(buf, ", %.0f %% (", 100 * why->share);
    sp_text_seconds(buf, why->seconds);
    sp_buf_printf(buf, ") go to %s, in ", words[why->kind]);
    stage_called(plan, why->stage, buf);
    if (why->node != NULL) {
        sp_buf_text(buf, ", the largest part at ");
        sp_reason_quoted(why->node, buf);
    }
    sp_buf_printf(buf, ": %s.", wishes[why->kind]);
}

/* From one micro-batch to a request: the others add the interval of the slowest stage. */
static void add_micro_batches(const struct sp_plan *plan, struct times *times)
{
    const bool is_latency = plan->objective == SP_OBJECTIVE_LATENCY;
    const uint32_t stage = plan->result->evaluation->bottleneck_stage;
    const double turns = is_latency ? sp_placement_replicas(&plan->result->placement, stage) : 1;
    struct times pace = {{0}, {0}, {0}, {NULL}};
    times_of_interval(plan, &pace);
    for (uint32_t k = 0; k < TIMES; k++)
        times->seconds[k] += (sp_plan_runs(plan) - 1) * pace.seconds[k] / turns;
}

/* The largest of what the objective's time goes to. */
static void bind_time(const struct sp_plan *plan, struct sp_why *why)
{
    struct times times = {{0}, {0}, {0}, {NULL}};
    double total = 0;
    uint32_t largest = 0;
    if (plan->objective == SP_OBJECTIVE_LATENCY)
        times_of_latency(plan, &times);
    else
        times_of_interval(plan, &times);
    if (sp_plan_runs(plan) > 1)
        add_micro_batches(plan, &times);
    for (uint32_t k = 0; k < TIMES; k++) {
        total += times.seconds[k];
        largest = times.seconds[k] > times.seconds[largest] ? k : largest;
    }
    const uint32_t turns = sp_placement_turns(&plan->result->placement, times.stage[largest]);
    why->kind = (enum sp_binding)largest;
    why->node = times.node[largest];
    const struct sp_route_holder *holder =
        sp_routed_holder(plan->result->routes, plan->result->placement.stage_device[times.stage[largest]]);
    why->seconds = times.seconds[largest];
    if (plan->objective != SP_OBJECTIVE_LATENCY)
        why->seconds *= holder != NULL ? holder->share : 1.0 / turns;
    why->share = total > 0 ? times.seconds[largest] / total : 0;
    set_stage(plan, times.stage[largest], why);
}

static void bind_memory(const struct sp_plan *plan, struct sp_why *why, struct sp_buf *buf)
{
    const struct sp_short_of_memory_plan *beyond = plan->result->beyond;
    const double value = sp_plan_gap(plan).value_seconds;
    why->kind = SP_BINDING_MEMORY;
    why->first_device = beyond->device;
    why->device_count = 1;
    why->node = beyond->node;
    why->needed_bytes = ceil(beyond->plan.memory_bytes + plan->cluster->reserved_bytes);
    why->better_seconds =
        plan->objective == SP_OBJECTIVE_LATENCY ? beyond->plan.latency_seconds : beyond->plan.interval_seconds;
    if (plan->objective == SP_OBJECTIVE_DEVICES) {
        const uint32_t fewer = beyond->plan.devices_used;
        sp_buf_printf(buf, "Memory: %u device%s would do instead of %u", fewer, fewer == 1 ? "" : "s",
                      sp_plan_devices_used(plan));
    } else {
        sp_buf_printf(buf, "Memory: %s would have %s of ", beyond->plan.description,
                      plan->objective == SP_OBJECTIVE_LATENCY ? "a latency" : "an interval");
        sp_text_seconds(buf, why->better_seconds);
        sp_buf_printf(buf, ", %.1f %% less", 100 * (value - why->better_seconds) / value);
    }
    sp_buf_printf(buf, ", but device %u lacks ", sp_cluster_number(plan->cluster, beyond->device));
    sp_text_bytes(buf, beyond->needed_bytes - beyond->capacity_bytes);
    sp_buf_text(buf, " of the ");
    sp_text_bytes(buf, beyond->needed_bytes);
    sp_buf_text(buf, " that it would need");
    if (beyond->node != NULL) {
        sp_buf_text(buf, ", fullest at ");
        sp_reason_quoted(beyond->node, buf);
    }
    sp_buf_text(buf, ". With ");
    sp_text_bytes(buf, why->needed_bytes);
    sp_buf_text(buf, " on each device it would fit.");
}

static bool is_less(double a, double b)
{
    return a < b * (1 - EQUAL);
}

/* The plan's own entry of the front. */
static const struct sp_front_plan *chosen_of(const struct sp_plan *plan)
{
    const struct sp_front_plan *chosen = NULL;
    for (uint32_t i = 0; i < plan->result->front_count; i++)
        chosen = plan->result->front[i].is_chosen ? &plan->result->front[i] : chosen;
    return chosen;
}

static double objective_of(const struct sp_plan *plan, const struct sp_front_plan *found)
{
    return plan->objective == SP_OBJECTIVE_DEVICES   ? found->devices_used
           : plan->objective == SP_OBJECTIVE_LATENCY ? found->latency_seconds
                                                     : found->interval_seconds;
}

static double value_of(const struct sp_plan *plan)
{
    return plan->objective == SP_OBJECTIVE_DEVICES ? sp_plan_devices_used(plan) : sp_plan_gap(plan).value_seconds;
}

/* "No better plan exists": why that is certain. False where it is not. */
static bool say_bound(const struct sp_plan *plan, struct sp_buf *buf)
{
    const bool is_devices = plan->objective == SP_OBJECTIVE_DEVICES;
    const bool is_least = is_devices ? sp_plan_devices_used(plan) == 1 : sp_plan_gap(plan).gap <= EQUAL;
    const bool is_proved = plan->result->is_proved && (is_devices || plan->result->best == NULL);
    if (!is_least && !is_proved)
        return false;
    sp_buf_text(buf, "No better plan exists under the cost model: ");
    if (is_proved)
        sp_buf_text(buf, "all plans on these devices were tried.");
    else if (is_devices)
        sp_buf_text(buf, "one device is the least there is.");
    else
        sp_buf_printf(buf, "the %s is the lower bound of all plans on these devices.", objective_word(plan));
    return true;
}

static void explain_binding(const struct sp_plan *plan, struct sp_why *why, struct sp_buf *buf)
{
    const struct sp_short_of_memory_plan *beyond = plan->result->beyond;
    if (beyond != NULL && is_less(objective_of(plan, &beyond->plan), value_of(plan))) {
        bind_memory(plan, why, buf);
        return;
    }
    const bool is_bound = say_bound(plan, buf);
    if (plan->objective != SP_OBJECTIVE_DEVICES) {
        bind_time(plan, why);
        sp_buf_text(buf, is_bound ? " " : "");
        if (why->share > 0)
            say_time(plan, why, buf);
        else
            sp_buf_text(buf, "No node takes time: everything is computed at load.");
    } else if (!is_bound) {
        why->kind = SP_BINDING_NONE;
        sp_buf_text(buf, "No plan with fewer devices was found, and none that lacks nothing but memory.");
    }
    if (is_bound)
        why->kind = SP_BINDING_BOUND;
}

/* Of the objective's figure; NULL: devices are counted. */
static const struct sp_error_bar *error_of(const struct sp_plan *plan)
{
    return plan->objective == SP_OBJECTIVE_DEVICES   ? NULL
           : plan->objective == SP_OBJECTIVE_LATENCY ? &plan->bars.latency_seconds
                                                     : &plan->bars.interval_seconds;
}

/* ---- the second best -------------------------------------------------------------------------------------------- */

static void say_better(const struct sp_why *why, struct sp_buf *buf)
{
    const char *words[4];
    uint32_t count = 0;
    if (why->less_interval)
        words[count++] = "a shorter interval";
    if (why->less_latency)
        words[count++] = "a lower latency";
    if (why->less_memory)
        words[count++] = "less memory on the fullest device";
    if (why->fewer_devices)
        words[count++] = "fewer devices";
    sp_buf_text(buf, count > 0 ? "; it has " : "; it is better in nothing");
    for (uint32_t i = 0; i < count; i++)
        sp_buf_printf(buf, "%s%s", i == 0 ? "" : i + 1 == count ? " and " : ", ", words[i]);
    sp_buf_text(buf, ".");
}

/* "an interval of 22.8 ms, 4.95 ms (27.8 %) more" */
static void say_seconds(const char *what, double seconds, double chosen, struct sp_buf *buf)
{
    sp_buf_printf(buf, "%s of ", what);
    sp_text_seconds(buf, seconds);
    if (!is_less(chosen, seconds)) {
        sp_buf_text(buf, is_less(seconds, chosen) ? "" : ", which is the same");
        return;
    }
    sp_buf_text(buf, ", ");
    sp_text_seconds(buf, seconds - chosen);
    sp_buf_printf(buf, " (%.3g %%) more", 100 * (seconds - chosen) / chosen);
}

static void say_second(const struct sp_plan *plan, const struct sp_why *why, const struct sp_front_plan *chosen,
                       struct sp_buf *buf)
{
    const struct sp_front_plan *second = why->second;
    const bool is_better = is_less(objective_of(plan, second), objective_of(plan, chosen));
    sp_buf_printf(buf, "%s, %s, ", is_better ? "Another one" : "The second best", second->description);
    if (plan->objective == SP_OBJECTIVE_DEVICES && why->worse_by > 0) {
        sp_buf_printf(buf, "uses %u devices, %.0f more", second->devices_used, why->worse_by);
    } else if (plan->objective == SP_OBJECTIVE_LATENCY) {
        say_seconds("has a latency", second->latency_seconds, chosen->latency_seconds, buf);
    } else {
        if (plan->objective == SP_OBJECTIVE_DEVICES)
            sp_buf_text(buf, "uses as many devices and ");
        say_seconds("has an interval", second->interval_seconds, chosen->interval_seconds, buf);
    }
    say_better(why, buf);
    if (!why->is_within_error || why->worse_by <= 0)
        return;
    const struct sp_error_bar *bar = error_of(plan);
    sp_buf_printf(buf,
                  " The difference of %.3g %% is less than the error of the estimate (%.0f %% less to %.0f %% more), ",
                  100 * why->worse_share, 100 * (1 - bar->low / bar->value), 100 * (bar->high / bar->value - 1));
    sp_buf_text(buf, "much of which both plans share.");
}

static void explain_second(const struct sp_plan *plan, struct sp_why *why, struct sp_buf *buf)
{
    const struct sp_search_result *result = plan->result;
    const struct sp_front_plan *chosen = chosen_of(plan);
    why->second = result->second;
    if (why->second == NULL || chosen == NULL) {
        why->second = NULL;
        if (plan->cluster->device_count == 1)
            sp_buf_text(buf, "There is no second best: on one device there is one stage.");
        else if (result->is_proved)
            sp_buf_text(buf, "There is no second best: of all plans, those with other stages do not fit.");
        else
            sp_buf_text(buf, "There is no second best: no plan with other stages was found that fits.");
        return;
    }
    const double value = objective_of(plan, chosen), other = objective_of(plan, why->second);
    why->worse_by = is_less(value, other) ? other - value : 0;
    why->worse_share = value > 0 ? why->worse_by / value : 0;
    const struct sp_error_bar *bar = error_of(plan);
    why->is_within_error = bar != NULL && bar->low < bar->high && other <= bar->high;
    why->less_interval = is_less(why->second->interval_seconds, chosen->interval_seconds);
    why->less_latency = is_less(why->second->latency_seconds, chosen->latency_seconds);
    why->less_memory = is_less(why->second->memory_bytes, chosen->memory_bytes);
    why->fewer_devices = why->second->devices_used < chosen->devices_used;
    say_second(plan, why, chosen, buf);
}

/* ---- the best, where the plan is near it ------------------------------------------------------------------------- */

/* The latency, or where that is the objective, the interval. */
static double other_of(const struct sp_plan *plan, const struct sp_front_plan *found)
{
    return plan->objective == SP_OBJECTIVE_LATENCY ? found->interval_seconds : found->latency_seconds;
}

static void say_other(const struct sp_plan *plan, const struct sp_front_plan *best, const struct sp_front_plan *chosen,
                      struct sp_buf *buf)
{
    sp_buf_printf(buf, "%s of ", plan->objective == SP_OBJECTIVE_LATENCY ? "an interval" : "a latency");
    sp_text_seconds(buf, other_of(plan, best));
    sp_buf_text(buf, " instead of ");
    sp_text_seconds(buf, other_of(plan, chosen));
}

/* What the best plan takes more of than this one: the first of these that differ (search/joint/run/near_best.h). */
static void say_cost(const struct sp_plan *plan, const struct sp_front_plan *best, const struct sp_front_plan *chosen,
                     struct sp_buf *buf)
{
    const double tolerance = plan->tolerance;
    if (best->copies > chosen->copies) {
        sp_buf_printf(buf, "takes %u copies of all weights, which annotations cannot say", best->copies);
    } else if (best->devices_used > chosen->devices_used) {
        const uint32_t more = best->devices_used - chosen->devices_used;
        sp_buf_printf(buf, "takes %u device%s more", more, more == 1 ? "" : "s");
    } else if (best->used_share > chosen->used_share + tolerance) {
        sp_buf_printf(buf, "fills its fullest device to %.1f %% instead of %.1f %%", 100 * best->used_share,
                      100 * chosen->used_share);
    } else if (best->messages > chosen->messages * (1 + tolerance)) {
        sp_buf_printf(buf, "sends %u messages for a request instead of %u", best->messages, chosen->messages);
    } else {
        sp_buf_text(buf, "has ");
        say_other(plan, best, chosen, buf);
    }
    if (other_of(plan, best) * (1 + tolerance) < other_of(plan, chosen)) {
        sp_buf_text(buf, "; it would have ");
        say_other(plan, best, chosen, buf);
    }
}

static void explain_best(const struct sp_plan *plan, struct sp_why *why, struct sp_buf *buf)
{
    const struct sp_front_plan *best = plan->result->best, *chosen = chosen_of(plan);
    const struct sp_plan_gap gap = sp_plan_gap(plan);
    why->better_by = gap.value_seconds - gap.best_seconds;
    why->better_share = gap.best_seconds > 0 ? why->better_by / gap.best_seconds : 0;
    if (best->devices_used > chosen->devices_used)
        sp_buf_printf(buf, "%u devices", best->devices_used);
    else
        sp_buf_text(buf, "Another plan");
    sp_buf_printf(buf, " would be %.2g %% faster: %s has %s of ", 100 * why->better_share, best->description,
                  plan->objective == SP_OBJECTIVE_LATENCY ? "a latency" : "an interval");
    sp_text_seconds(buf, gap.best_seconds);
    sp_buf_printf(buf, ". That is within the tolerance of %.3g %%, and ", 100 * plan->tolerance);
    say_cost(plan, best, chosen, buf);
    sp_buf_text(buf, ".");
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

/* The buffer's text in the plan's arena; the buffer is empty again. NULL without memory. */
static const char *keep_text(const struct sp_plan *plan, struct sp_buf *buf)
{
    const char *text = sp_buf_failed(buf) ? NULL : sp_arena_string(plan->arena, buf->data, buf->size);
    sp_buf_clear(buf);
    return text;
}

bool sp_plan_why(const struct sp_plan *plan, struct sp_why *ret_why)
{
    struct sp_buf buf;
    *ret_why = (struct sp_why){.stage = SP_NO_STAGE};
    sp_buf_init(&buf, SP_REASON_BYTES);
    explain_binding(plan, ret_why, &buf);
    bool done = (ret_why->sentence = keep_text(plan, &buf)) != NULL;
    if (done) {
        explain_second(plan, ret_why, &buf);
        done = (ret_why->second_sentence = keep_text(plan, &buf)) != NULL;
    }
    if (done && plan->result->best != NULL) {
        explain_best(plan, ret_why, &buf);
        done = (ret_why->best_sentence = keep_text(plan, &buf)) != NULL;
    }
    sp_buf_release(&buf);
    return done;
}

static void write_binding(const struct sp_plan *plan, const struct sp_why *why, struct sp_json *json)
{
    sp_json_key(json, "binding");
    sp_json_begin_object(json);
    sp_json_member_string(json, "kind", sp_binding_name(why->kind));
    sp_json_key(json, "stage");
    if (why->stage == SP_NO_STAGE)
        sp_json_null(json);
    else
        sp_json_int(json, why->stage);
    sp_json_key(json, "devices");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < why->device_count; i++)
        sp_json_int(json, sp_cluster_number(plan->cluster, why->first_device + i));
    sp_json_end_array(json);
    sp_json_member_string(json, "node", why->node);
    sp_json_member_double(json, "seconds", why->seconds);
    sp_json_member_double(json, "share", why->share);
    if (why->kind == SP_BINDING_MEMORY) {
        sp_json_member_double(json, "better_seconds", why->better_seconds);
        sp_json_member_double(json, "needed_bytes", why->needed_bytes);
    }
    sp_json_member_string(json, "sentence", why->sentence);
    sp_json_end_object(json);
}

static void write_better_in(const struct sp_why *why, struct sp_json *json)
{
    const struct {
        const char *name;
        bool is_better;
    } figures[] = {{"interval_seconds", why->less_interval},
                   {"latency_seconds", why->less_latency},
                   {"memory_bytes", why->less_memory},
                   {"devices", why->fewer_devices}};
    sp_json_key(json, "better_in");
    sp_json_begin_array(json);
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        if (figures[i].is_better)
            sp_json_string(json, figures[i].name);
    }
    sp_json_end_array(json);
}

/* Begins the object of another plan, or says that there is none. */
static bool begin_other(const char *name, const struct sp_front_plan *other, struct sp_json *json)
{
    sp_json_key(json, name);
    if (other == NULL) {
        sp_json_null(json);
        return false;
    }
    sp_json_begin_object(json);
    sp_json_member_string(json, "description", other->description);
    sp_json_member_int(json, "stages", other->stage_count);
    sp_json_member_int(json, "devices", other->devices_used);
    sp_json_member_double(json, "latency_seconds", other->latency_seconds);
    sp_json_member_double(json, "interval_seconds", other->interval_seconds);
    sp_json_member_double(json, "memory_bytes", other->memory_bytes);
    return true;
}

static void write_second(const struct sp_plan *plan, const struct sp_why *why, struct sp_json *json)
{
    if (!begin_other("second_best", why->second, json))
        return;
    sp_json_member_string(json, "worse_in",
                          plan->objective == SP_OBJECTIVE_DEVICES   ? "devices"
                          : plan->objective == SP_OBJECTIVE_LATENCY ? "latency_seconds"
                                                                    : "interval_seconds");
    sp_json_member_double(json, "worse_by", why->worse_by);
    sp_json_member_double(json, "worse_by_share", why->worse_share);
    sp_json_member_bool(json, "within_error", why->is_within_error);
    write_better_in(why, json);
    sp_json_member_string(json, "sentence", why->second_sentence);
    sp_json_end_object(json);
}

static void write_best(const struct sp_plan *plan, const struct sp_why *why, struct sp_json *json)
{
    if (!begin_other("best", plan->result->best, json))
        return;
    sp_json_member_double(json, "better_by", why->better_by);
    sp_json_member_double(json, "better_by_share", why->better_share);
    sp_json_member_string(json, "sentence", why->best_sentence);
    sp_json_end_object(json);
}

void sp_why_write_json(const struct sp_plan *plan, struct sp_json *json)
{
    struct sp_why why;
    if (!sp_plan_why(plan, &why)) {
        json->failed = true;
        return;
    }
    sp_json_key(json, "why");
    sp_json_begin_object(json);
    write_binding(plan, &why, json);
    write_second(plan, &why, json);
    if (why.second == NULL)
        sp_json_member_string(json, "no_second_best", why.second_sentence);
    write_best(plan, &why, json);
    sp_json_end_object(json);
}

void sp_why_write_text(const struct sp_plan *plan, struct sp_buf *buf)
{
    struct sp_why why;
    if (!sp_plan_why(plan, &why)) {
        buf->failed = true;
        return;
    }
    sp_buf_text(buf, "Why         ");
    sp_text_wrapped(buf, why.sentence, 12, 100);
    sp_buf_text(buf, "            ");
    sp_text_wrapped(buf, why.second_sentence, 12, 100);
    if (why.best_sentence == NULL)
        return;
    sp_buf_text(buf, "            ");
    sp_text_wrapped(buf, why.best_sentence, 12, 100);
}
