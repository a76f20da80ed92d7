#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cost/cache.h"
#include "plan/answer/placement_record.h"
#include "plan/answer/plan_json_internal.h"
#include "plan/explain/assumptions.h"
#include "plan/explain/experts.h"
#include "plan/explain/gathered.h"
#include "plan/explain/streamed.h"
#include "plan/explain/why.h"
#include "plan/micro/micro.h"
#include "plan/replan/write.h"
#include "plan/service/service.h"
#include "plan/variants/variants.h"
#include "plan/version.h"

#define NAMES_BYTES (1u << 30) /* of the nodes of one device */

/* Of one stage, or of all that are on its device. */
static void write_names(const struct sp_plan *plan, uint32_t stage, bool is_device, struct sp_json *json)
{
    const struct sp_evaluation *evaluation = plan->result->evaluation;
    sp_json_begin_array(json);
    for (uint32_t s = stage; s < evaluation->stage_count; s++) {
        if (s > stage && (!is_device || evaluation->stages[s].device != evaluation->stages[stage].device))
            continue;
        for (uint32_t i = plan->stage_nodes.start[s]; i < plan->stage_nodes.start[s + 1]; i++)
            sp_json_string(json, plan->workload->nodes[plan->stage_nodes.items[i]].name);
    }
    sp_json_end_array(json);
}

static void write_stage_names(struct sp_plan_json *c, uint32_t stage)
{
    sp_json_key(c->json, "nodes");
    write_names(c->plan, stage, false, c->json);
}

static void write_device_names(struct sp_plan_json *c, uint32_t stage)
{
    if (c->names->size == 0 || c->names_of != stage) {
        struct sp_json json;
        sp_buf_clear(c->names);
        sp_json_init_buf(&json, false, c->names);
        write_names(c->plan, stage, true, &json);
        if (sp_json_finish(&json, NULL) != SP_OK)
            c->json->failed = true;
        c->names_of = stage;
    }
    sp_json_key(c->json, "nodes");
    sp_json_raw(c->json, c->names->data, c->names->size);
}

static void write_head(struct sp_plan_json *c)
{
    const struct sp_plan *plan = c->plan;
    struct sp_json *json = c->json;
    sp_json_member_string(json, "plan", "1");
    sp_json_member_string(json, "id", plan->id);
    sp_json_member_string(json, "version", SP_VERSION);
    sp_json_key(json, "model");
    sp_json_begin_object(json);
    sp_json_member_string(json, "sha256", plan->model_sha256[0] != '\0' ? plan->model_sha256 : NULL);
    sp_json_member_string(json, "name", plan->model_name);
    sp_json_member_int(json, "size_bytes", (int64_t)(plan->file != NULL ? plan->file->given_size : plan->model->size));
    sp_json_key(json, "ir_version");
    if (plan->model != NULL)
        sp_json_int(json, plan->model->ir_version);
    else
        sp_json_null(json); /* a graph of costs */
    sp_json_member_int(json, "node_count", plan->workload->node_count);
    sp_json_member_double(json, "weight_bytes", plan->workload->weight_bytes);
    sp_json_member_double(json, "flops", sp_plan_runs(plan) * plan->workload->flops);
    sp_json_end_object(json);
    sp_json_key(json, "cluster");
    sp_cluster_write(plan->cluster, json);
    sp_json_member_string(json, "objective", sp_objective_name(plan->objective));
    sp_json_key(json, "options");
    sp_json_raw(json, plan->options_json, strlen(plan->options_json));
}

static void write_range(struct sp_json *json, const char *name, const struct sp_error_bar *bar)
{
    sp_json_key(json, name);
    sp_json_begin_object(json);
    sp_json_member_double(json, "value", bar->value);
    sp_json_member_double(json, "low", bar->low);
    sp_json_member_double(json, "high", bar->high);
    sp_json_end_object(json);
}

static void write_estimate(struct sp_plan_json *c)
{
    const struct sp_evaluation *evaluation = c->plan->result->evaluation;
    const struct sp_error_bars *bars = &c->plan->bars;
    struct sp_plan_gap gap = sp_plan_gap(c->plan);
    struct sp_json *json = c->json;
    sp_json_key(json, "estimate");
    sp_json_begin_object(json);
    sp_json_member_double(json, "latency_seconds", evaluation->latency_seconds);
    sp_json_member_double(json, "interval_seconds", sp_evaluation_interval(evaluation));
    sp_json_member_double(json, "throughput_per_second", 1 / sp_evaluation_interval(evaluation));
    write_range(json, "latency_range", &bars->latency_seconds);
    write_range(json, "interval_range", &bars->interval_seconds);
    write_range(json, "throughput_range", &bars->throughput_per_second);
    write_range(json, "memory_range", &bars->memory_bytes);
    sp_json_member_double(json, "communication_bytes", sp_plan_sent_bytes(c->plan));
    sp_json_member_int(json, "devices_used", sp_plan_devices_used(c->plan));
    if (sp_plan_price(c->plan) > 0)
        sp_json_member_double(json, "price_per_hour", sp_plan_price(c->plan));
    sp_json_member_double(json, "lower_bound_seconds", gap.bound_seconds);
    sp_json_member_double(json, "gap", gap.gap);
    sp_json_member_double(json, "best_found_seconds", gap.best_seconds);
    sp_json_member_string(json, "bottleneck", c->plan->bottleneck);
    sp_json_end_object(json);
}

/* What the devices of a mesh axis share: the factors that most time is spent on, each with an operator that has it. */
struct axis_use {
    const char *operator_type, *factor;
    uint32_t nodes;
    double seconds;
};
#define SP_AXIS_USES 8

static void note_axis_use(struct axis_use *uses, uint32_t *count, const struct axis_use *use)
{
    for (uint32_t i = 0; i < *count; i++) {
        if (strcmp(uses[i].operator_type, use->operator_type) == 0 && strcmp(uses[i].factor, use->factor) == 0) {
            uses[i].nodes++;
            uses[i].seconds += use->seconds;
            return;
        }
    }
    if (*count < SP_AXIS_USES)
        uses[(*count)++] = *use;
}

static int by_seconds(const void *a, const void *b)
{
    const struct axis_use *x = a, *y = b;
    if (x->seconds != y->seconds)
        return x->seconds > y->seconds ? -1 : 1;
    return strcmp(x->factor, y->factor);
}

static void write_axis_uses(struct sp_plan_json *c, uint32_t stage, uint32_t axis)
{
    struct axis_use uses[SP_AXIS_USES];
    uint32_t count = 0;
    for (uint32_t i = c->plan->stage_nodes.start[stage]; i < c->plan->stage_nodes.start[stage + 1]; i++) {
        const uint32_t node = c->plan->stage_nodes.items[i];
        const struct sp_strategies *strategies = sp_plan_strategies(c->plan, node);
        const struct sp_strategy *strategy = sp_plan_strategy(c->plan, node);
        if (strategy == NULL || strategies->rule == NULL || strategy->factor_of[axis] == SP_STRATEGY_NO_FACTOR)
            continue;
        const struct axis_use use = {c->plan->workload->nodes[node].node->op_type,
                                     strategies->rule->factors[strategy->factor_of[axis]].name, 1,
                                     strategies->items[0].compute_seconds};
        note_axis_use(uses, &count, &use);
    }
    if (count > 1)
        qsort(uses, count, sizeof *uses, by_seconds);
    sp_json_key(c->json, "splits");
    sp_json_begin_array(c->json);
    for (uint32_t i = 0; i < count; i++) {
        sp_json_begin_object(c->json);
        sp_json_member_string(c->json, "operator", uses[i].operator_type);
        sp_json_member_string(c->json, "factor", uses[i].factor);
        sp_json_member_int(c->json, "nodes", uses[i].nodes);
        sp_json_end_object(c->json);
    }
    sp_json_end_array(c->json);
}

/* The axes of one block, major to minor: "S[1]" in a spec's text is the second of them. */
static void write_mesh(struct sp_plan_json *c, uint32_t stage)
{
    const struct sp_arena_mark mark = sp_arena_mark(c->plan->arena);
    const struct sp_mesh *mesh = NULL;
    if (sp_plan_mesh(c->plan, c->plan->arena, stage, &mesh, c->err) != SP_OK)
        c->json->failed = true;
    sp_json_key(c->json, "mesh");
    sp_json_begin_array(c->json);
    for (uint32_t a = 0; mesh != NULL && a < mesh->axis_count; a++) {
        sp_json_begin_object(c->json);
        sp_json_member_string(c->json, "name", mesh->axes[a].name);
        sp_json_member_int(c->json, "size", mesh->axes[a].size);
        write_axis_uses(c, stage, a);
        sp_json_end_object(c->json);
    }
    sp_json_end_array(c->json);
    sp_arena_rewind(c->plan->arena, mark);
}

static void write_stages(struct sp_plan_json *c)
{
    const struct sp_evaluation *evaluation = c->plan->result->evaluation;
    const struct sp_placement *placement = &c->plan->result->placement;
    const double runs = sp_plan_runs(c->plan);
    struct sp_json *json = c->json;
    sp_json_key(json, "stages");
    sp_json_begin_array(json);
    for (uint32_t s = 0; s < evaluation->stage_count; s++) {
        const struct sp_stage_cost *cost = &evaluation->stages[s];
        sp_json_begin_object(json);
        sp_json_member_int(json, "index", s);
        sp_plan_json_devices(c, "devices", placement->stage_device[s], sp_plan_stage_devices(c->plan, s));
        sp_json_member_int(json, "replicas", sp_placement_replicas(placement, s));
        write_mesh(c, s);
        write_stage_names(c, s);
        sp_json_member_double(json, "seconds", runs * cost->interval_seconds);
        sp_json_member_double(json, "compute_seconds", runs * cost->compute_seconds);
        sp_json_member_double(json, "collective_seconds", runs * cost->collective_seconds);
        sp_json_member_double(json, "send_seconds", runs * cost->send_seconds);
        sp_json_member_double(json, "receive_seconds", runs * cost->receive_seconds);
        sp_json_member_double(json, "start_seconds", cost->start_seconds);
        sp_streamed_write_json(c->plan, s, json);
        sp_gathered_write_json(c->plan, s, json);
        sp_experts_write_json(c->plan, s, json);
        sp_reason_stage(c->plan, s, &c->borders, c->text);
        sp_plan_json_text(c, "because");
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

static void write_memory(struct sp_plan_json *c, const struct sp_stage_cost *cost, uint32_t device, uint32_t stage)
{
    struct sp_json *json = c->json;
    double arena_bytes = stage != SP_NO_STAGE ? c->plan->arena_bytes[stage] : 0;
    if (c->plan->result->placement.shares_devices) /* of a graph of costs */
        arena_bytes = cost->activations_peak_bytes;
    sp_json_key(json, "memory");
    sp_json_begin_object(json);
    sp_json_member_double(json, "weights_bytes", cost->weights_bytes);
    sp_json_member_double(json, "cache_bytes", cost->cache_bytes);
    sp_json_member_double(json, "activations_peak_bytes", cost->activations_peak_bytes);
    sp_json_member_double(json, "communication_bytes", cost->communication_bytes);
    sp_json_member_double(json, "total_bytes", cost->total_bytes);
    if (cost->streamed_count > 0) {
        sp_json_member_double(json, "streamed_bytes", cost->streamed_bytes);
        sp_json_member_double(json, "stream_buffer_bytes", cost->stream_buffer_bytes);
    }
    sp_json_member_double(json, "arena_bytes", arena_bytes);
    sp_json_member_double(json, "capacity_bytes", sp_cluster_memory(c->plan->cluster, device));
    sp_json_end_object(json);
}

/* All stages of a device that may have several. */
static void write_shared_stages(struct sp_plan_json *c, uint32_t device)
{
    const struct sp_placement *placement = &c->plan->result->placement;
    if (!placement->shares_devices)
        return;
    sp_json_key(c->json, "stages");
    sp_json_begin_array(c->json);
    for (uint32_t s = 0; s < placement->stage_count; s++) {
        if (placement->stage_device[s] == device)
            sp_json_int(c->json, s);
    }
    sp_json_end_array(c->json);
}

/* The nodes of an interval. */
static void write_holder_nodes(struct sp_plan_json *c, const struct sp_route_holder *holder)
{
    sp_json_key(c->json, "nodes");
    sp_json_begin_array(c->json);
    for (uint32_t n = holder->first; n < holder->end; n++)
        sp_json_string(c->json, c->plan->workload->nodes[n].name);
    sp_json_end_array(c->json);
}

/* The devices of each copy, in the order of the stages; no member where there is one. */
static void write_copies(struct sp_plan_json *c)
{
    const struct sp_placement *placement = &c->plan->result->placement;
    const uint32_t copies = sp_placement_copies(placement);
    struct sp_json *json = c->json;
    if (copies < 2)
        return;
    sp_json_key(json, "copies");
    sp_json_begin_object(json);
    sp_json_member_int(json, "count", copies);
    sp_json_key(json, "devices");
    sp_json_begin_array(json);
    for (uint32_t copy = 0; copy < copies; copy++) {
        sp_json_begin_array(json);
        for (uint32_t s = 0; s < placement->stage_count; s++) {
            for (uint32_t i = 0; i < sp_plan_stage_devices(c->plan, s); i++)
                sp_json_int(json, sp_cluster_number(c->plan->cluster, sp_placement_device(placement, s, copy) + i));
        }
        sp_json_end_array(json);
    }
    sp_json_end_array(json);
    sp_json_end_object(json);
}

static void write_devices(struct sp_plan_json *c)
{
    const struct sp_evaluation *evaluation = c->plan->result->evaluation;
    const double runs = sp_plan_runs(c->plan);
    struct sp_json *json = c->json;
    sp_json_key(json, "devices");
    sp_json_begin_array(json);
    for (uint32_t number = 0; number < sp_cluster_described(c->plan->cluster); number++) {
        const uint32_t d = sp_cluster_numbered(c->plan->cluster, number);
        if (d == UINT32_MAX)
            continue;
        uint32_t stage = c->stage_of_device[d];
        const struct sp_route_holder *holder = sp_routed_holder(c->plan->result->routes, d);
        double busy = 0;
        const struct sp_stage_cost *cost = sp_plan_device_cost(c->plan, d, stage, &busy);
        sp_json_begin_object(json);
        sp_json_member_int(json, "id", number);
        sp_json_member_string(json, "name", sp_cluster_device(c->plan->cluster, d)->name);
        sp_json_key(json, "stage");
        if (stage == SP_NO_STAGE)
            sp_json_null(json);
        else
            sp_json_int(json, stage);
        write_shared_stages(c, d);
        if (holder != NULL)
            write_holder_nodes(c, holder);
        else
            write_device_names(c, stage);
        sp_json_member_double(json, "flops", runs * cost->flops);
        sp_json_member_double(json, "compute_seconds", runs * cost->compute_seconds);
        sp_json_member_double(json, "collective_seconds", runs * cost->collective_seconds);
        sp_json_member_double(json, "communication_seconds", runs * (cost->send_seconds + cost->receive_seconds));
        sp_json_member_double(json, "idle_seconds", runs * fmax(0, evaluation->interval_seconds - busy));
        write_memory(c, cost, d, stage);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

/* Shares of requests by route, and what devices hold; no member where all requests take one route. */
static void write_routes(const struct sp_plan *plan, struct sp_json *json)
{
    const struct sp_routed *routed = plan->result->routes;
    if (routed == NULL)
        return;
    sp_json_key(json, "routes");
    sp_json_begin_object(json);
    sp_json_member_double(json, "interval_bound_seconds", routed->bound_seconds);
    sp_json_key(json, "paths");
    sp_json_begin_array(json);
    for (uint32_t r = 0; r < routed->route_count; r++) {
        const struct sp_route *route = &routed->routes[r];
        sp_json_begin_object(json);
        sp_json_member_double(json, "share", route->share);
        sp_json_member_double(json, "latency_seconds", route->evaluation->latency_seconds);
        sp_json_key(json, "devices");
        sp_json_begin_array(json);
        for (uint32_t s = 0; s < route->count; s++)
            sp_json_int(json, sp_cluster_number(plan->cluster, route->devices[s]));
        sp_json_end_array(json);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
    sp_json_key(json, "holders");
    sp_json_begin_array(json);
    for (uint32_t h = 0; h < routed->holder_count; h++) {
        const struct sp_route_holder *holder = &routed->holders[h];
        sp_json_begin_object(json);
        sp_json_member_int(json, "device", sp_cluster_number(plan->cluster, holder->device));
        sp_json_member_string(json, "first", plan->workload->nodes[holder->first].name);
        sp_json_member_string(json, "last", plan->workload->nodes[holder->end - 1].name);
        sp_json_member_double(json, "share", holder->share);
        sp_json_member_double(json, "compute_seconds", holder->compute_seconds);
        sp_json_member_double(json, "send_seconds", holder->send_seconds);
        sp_json_member_double(json, "receive_seconds", holder->receive_seconds);
        sp_json_member_double(json, "busy_seconds", sp_route_holder_interval(holder));
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
    sp_json_end_object(json);
}

/* The nodes that keep keys and values; no member where none do. */
static void write_caches(struct sp_plan_json *c)
{
    const struct sp_workload *workload = c->plan->workload;
    struct sp_json *json = c->json;
    uint32_t first = 0;
    while (first < workload->node_count && workload->nodes[first].cache == NULL)
        first++;
    if (first == workload->node_count)
        return;
    sp_json_key(json, "caches");
    sp_json_begin_array(json);
    for (uint32_t n = first; n < workload->node_count; n++) {
        const struct sp_work_node *node = &workload->nodes[n];
        const struct sp_strategy *strategy = sp_plan_strategy(c->plan, n);
        if (node->cache == NULL)
            continue;
        sp_json_begin_object(json);
        sp_json_member_string(json, "node", node->name);
        sp_json_member_int(json, "stage", c->plan->result->placement.stage_of[n]);
        sp_json_member_double(json, "demanded_bytes", node->cache->demanded_bytes);
        sp_json_member_double(json, "bytes", node->resident_bytes);
        sp_json_member_double(json, "device_bytes", strategy == NULL ? node->resident_bytes : strategy->resident_bytes);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

static void write_diagnostics(struct sp_plan_json *c)
{
    struct sp_json *json = c->json;
    sp_json_key(json, "diagnostics");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < c->plan->note_count; i++) {
        const struct sp_plan_note *note = &c->plan->notes[i];
        sp_json_begin_object(json);
        sp_json_member_string(json, "code", note->code);
        sp_json_member_string(json, "severity", note->severity);
        sp_json_member_string(json, "message", note->message);
        sp_json_member_string(json, "node", note->node);
        sp_json_member_string(json, "tensor", note->tensor);
        sp_json_member_string(json, "configuration", NULL);
        sp_json_member_string(json, "hint", note->hint);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

/* Plans that nothing beats in everything, and the chosen one. */
static void write_alternatives(struct sp_plan_json *c)
{
    const struct sp_search_result *result = c->plan->result;
    struct sp_json *json = c->json;
    sp_json_key(json, "alternatives");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < result->front_count; i++) {
        const struct sp_front_plan *plan = &result->front[i];
        sp_json_begin_object(json);
        sp_json_member_string(json, "description", plan->description);
        sp_json_member_int(json, "stages", plan->stage_count);
        sp_json_member_int(json, "devices", plan->devices_used);
        sp_json_member_int(json, "copies", plan->copies);
        sp_json_member_double(json, "latency_seconds", plan->latency_seconds);
        sp_json_member_double(json, "interval_seconds", plan->interval_seconds);
        sp_json_member_double(json, "memory_bytes", plan->memory_bytes);
        sp_json_member_bool(json, "chosen", plan->is_chosen);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

static void write_search(struct sp_plan_json *c, double seconds)
{
    const struct sp_search_result *result = c->plan->result;
    struct sp_json *json = c->json;
    sp_json_key(json, "search");
    sp_json_begin_object(json);
    sp_json_member_int(json, "explored", (int64_t)result->explored);
    sp_json_member_int(json, "accepted", (int64_t)result->accepted);
    sp_json_member_double(json, "seconds", seconds);
    sp_json_member_int(json, "seed", (int64_t)c->plan->seed);
    sp_json_member_string(json, "strategy", c->plan->strategy);
    sp_json_member_int(json, "candidates", result->candidates);
    sp_json_member_int(json, "subgraphs", result->subgraphs);
    sp_json_member_double(json, "memory_share", result->memory_share);
    write_alternatives(c);
    sp_json_end_object(json);
}

/* No member where nothing was to be proved. */
static void write_proof(const struct sp_plan_proof *proof, struct sp_json *json)
{
    if (proof == NULL)
        return;
    sp_json_key(json, "proof");
    sp_json_begin_object(json);
    sp_json_member_string(json, "state", proof->state);
    sp_json_member_double(json, "seconds", proof->seconds);
    sp_json_member_int(json, "nodes", (int64_t)proof->nodes);
    sp_json_member_int(json, "compared_elements", (int64_t)proof->elements);
    sp_json_key(json, "undecided");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < proof->reason_count; i++)
        sp_json_string(json, proof->reasons[i]);
    sp_json_end_array(json);
    sp_json_end_object(json);
}

void sp_plan_write_json(const struct sp_plan *plan, double search_seconds, struct sp_json *json)
{
    struct sp_arena_mark mark = sp_arena_mark(plan->arena);
    struct sp_buf text, names;
    struct sp_error none = {0};
    struct sp_plan_json c = {.plan = plan, .json = json, .text = &text, .names = &names, .err = &none};
    sp_buf_init(&text, SP_REASON_BYTES);
    sp_buf_init(&names, NAMES_BYTES);
    c.stage_of_device = sp_plan_all_device_stages(plan);
    if (c.stage_of_device == NULL || !sp_places_init(plan, &c.places) || !sp_borders_init(plan, &c.borders)) {
        json->failed = true;
    } else {
        sp_json_begin_object(json);
        write_head(&c);
        write_estimate(&c);
        sp_why_write_json(plan, json);
        sp_assumptions_write_json(plan, json);
        sp_micro_batches_write_json(plan, json);
        write_copies(&c);
        write_stages(&c);
        write_devices(&c);
        write_routes(plan, json);
        write_caches(&c);
        sp_plan_json_tensors(&c);
        sp_plan_json_collectives(&c);
        write_diagnostics(&c);
        write_search(&c, search_seconds);
        write_proof(plan->proof, json);
        sp_placement_record_write(plan, json);
        sp_variants_write_json(plan, json);
        sp_replan_write_json(plan, json);
        sp_service_write_json(plan, json);
        sp_json_end_object(json);
    }
    sp_buf_release(&names);
    sp_buf_release(&text);
    sp_arena_rewind(plan->arena, mark);
}
