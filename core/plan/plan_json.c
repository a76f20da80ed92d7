#include <math.h>

#include "plan/internal.h"
#include "plan/text.h"
#include "plan/version.h"

/* Things that several parts of the document need, made once. */
struct context {
    const struct sp_plan *plan;
    struct sp_json *json;
    struct sp_buf *text; /* one reason at a time */
    struct sp_places places;
    struct sp_borders borders;
    uint32_t *stage_of_device;
};

/* The reason that was just written into the buffer, as a member. */
static void member_reason(struct context *c)
{
    if (sp_buf_failed(c->text))
        c->json->failed = true;
    else
        sp_json_member_string(c->json, "because", c->text->data);
    sp_buf_clear(c->text);
}

static void write_node_names(struct context *c, uint32_t stage)
{
    sp_json_key(c->json, "nodes");
    sp_json_begin_array(c->json);
    if (stage != SP_NO_STAGE) {
        for (uint32_t i = c->plan->stage_begin[stage]; i < c->plan->stage_begin[stage + 1]; i++)
            sp_json_string(c->json, c->plan->workload->nodes[c->plan->stage_nodes[i]].name);
    }
    sp_json_end_array(c->json);
}

static void write_head(struct context *c)
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
    sp_json_member_int(json, "ir_version", plan->model->ir_version);
    sp_json_member_int(json, "node_count", plan->workload->node_count);
    sp_json_member_double(json, "weight_bytes", plan->workload->weight_bytes);
    sp_json_member_double(json, "flops", plan->workload->flops);
    sp_json_end_object(json);
    sp_json_key(json, "cluster");
    sp_cluster_write(plan->cluster, json);
    sp_json_member_string(json, "objective", sp_objective_name(plan->objective));
    sp_json_key(json, "options");
    sp_json_raw(json, plan->options_json, strlen(plan->options_json));
}

static void write_estimate(struct context *c)
{
    const struct sp_evaluation *evaluation = c->plan->result->evaluation;
    struct sp_plan_gap gap = sp_plan_gap(c->plan);
    struct sp_json *json = c->json;
    sp_json_key(json, "estimate");
    sp_json_begin_object(json);
    sp_json_member_double(json, "latency_seconds", evaluation->latency_seconds);
    sp_json_member_double(json, "interval_seconds", evaluation->interval_seconds);
    sp_json_member_double(json, "throughput_per_second", 1 / evaluation->interval_seconds);
    sp_json_member_double(json, "communication_bytes", evaluation->communication_bytes);
    sp_json_member_int(json, "devices_used", evaluation->stage_count);
    sp_json_member_double(json, "lower_bound_seconds", gap.bound_seconds);
    sp_json_member_double(json, "gap", gap.gap);
    sp_json_member_string(json, "bottleneck", c->plan->bottleneck);
    sp_json_end_object(json);
}

static void write_stages(struct context *c)
{
    const struct sp_evaluation *evaluation = c->plan->result->evaluation;
    struct sp_json *json = c->json;
    sp_json_key(json, "stages");
    sp_json_begin_array(json);
    for (uint32_t s = 0; s < evaluation->stage_count; s++) {
        const struct sp_stage_cost *cost = &evaluation->stages[s];
        sp_json_begin_object(json);
        sp_json_member_int(json, "index", s);
        sp_json_key(json, "devices");
        sp_json_begin_array(json);
        sp_json_int(json, c->plan->result->placement.stage_device[s]);
        sp_json_end_array(json);
        write_node_names(c, s);
        sp_json_member_double(json, "seconds", cost->interval_seconds);
        sp_json_member_double(json, "compute_seconds", cost->compute_seconds);
        sp_json_member_double(json, "send_seconds", cost->send_seconds);
        sp_json_member_double(json, "receive_seconds", cost->receive_seconds);
        sp_json_member_double(json, "start_seconds", cost->start_seconds);
        sp_reason_stage(c->plan, s, &c->borders, c->text);
        member_reason(c);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

static void write_memory(struct context *c, const struct sp_stage_cost *cost, uint32_t device, uint32_t stage)
{
    struct sp_json *json = c->json;
    sp_json_key(json, "memory");
    sp_json_begin_object(json);
    sp_json_member_double(json, "weights_bytes", cost->weights_bytes);
    sp_json_member_double(json, "activations_peak_bytes", cost->activations_peak_bytes);
    sp_json_member_double(json, "communication_bytes", cost->communication_bytes);
    sp_json_member_double(json, "total_bytes", cost->total_bytes);
    sp_json_member_double(json, "arena_bytes", stage != SP_NO_STAGE ? c->plan->arena_bytes[stage] : 0);
    sp_json_member_double(json, "capacity_bytes", sp_cluster_memory(c->plan->cluster, device));
    sp_json_end_object(json);
}

static void write_devices(struct context *c)
{
    const struct sp_evaluation *evaluation = c->plan->result->evaluation;
    static const struct sp_stage_cost unused;
    struct sp_json *json = c->json;
    sp_json_key(json, "devices");
    sp_json_begin_array(json);
    for (uint32_t d = 0; d < c->plan->cluster->device_count; d++) {
        uint32_t stage = c->stage_of_device[d];
        const struct sp_stage_cost *cost = stage == SP_NO_STAGE ? &unused : &evaluation->stages[stage];
        sp_json_begin_object(json);
        sp_json_member_int(json, "id", d);
        sp_json_member_string(json, "name", sp_cluster_device(c->plan->cluster, d)->name);
        sp_json_key(json, "stage");
        if (stage == SP_NO_STAGE)
            sp_json_null(json);
        else
            sp_json_int(json, stage);
        write_node_names(c, stage);
        sp_json_member_double(json, "flops", cost->flops);
        sp_json_member_double(json, "compute_seconds", cost->compute_seconds);
        sp_json_member_double(json, "communication_seconds", cost->send_seconds + cost->receive_seconds);
        sp_json_member_double(json, "idle_seconds", fmax(0, evaluation->interval_seconds - cost->interval_seconds));
        write_memory(c, cost, d, stage);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

static void write_shape(struct context *c, const struct sp_shape *shape)
{
    struct sp_json *json = c->json;
    sp_json_key(json, "shape");
    if (shape == NULL || !shape->has_rank) {
        sp_json_null(json);
        return;
    }
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < shape->rank; i++)
        sp_json_dim(json, shape->dims[i], c->text);
    sp_json_end_array(json);
}

/* A whole tensor on each of its devices: "R" for every axis, and no sharded_dim. */
static void write_spec(struct context *c, const char *name, const struct sp_shape *shape)
{
    struct sp_json *json = c->json;
    sp_json_key(json, "spec");
    sp_json_begin_object(json);
    sp_json_key(json, "onnx");
    sp_json_begin_object(json);
    sp_json_member_string(json, "tensor_name", name);
    sp_json_key(json, "device");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < c->places.count; i++)
        sp_json_int(json, c->plan->result->placement.stage_device[c->places.stages[i]]);
    sp_json_end_array(json);
    sp_json_end_object(json);
    for (uint32_t i = 0; shape != NULL && shape->has_rank && i < shape->rank; i++)
        sp_buf_text(c->text, "R");
    sp_json_member_string(json, "text", c->text->size == 0 ? "" : c->text->data);
    sp_buf_clear(c->text);
    sp_json_end_object(json);
}

static void write_tensors(struct context *c)
{
    static const char *const kinds[] = {
        [SP_WORK_ACTIVATION] = "activation", [SP_WORK_INPUT] = "input", [SP_WORK_WEIGHT] = "weight"};
    const struct sp_workload *workload = c->plan->workload;
    struct sp_json *json = c->json;
    sp_json_key(json, "tensors");
    sp_json_begin_array(json);
    for (uint32_t t = 0; t < workload->tensor_count; t++) {
        const struct sp_work_tensor *tensor = &workload->tensors[t];
        const struct sp_value *value = tensor->value;
        const struct sp_shape *shape = value != NULL ? &value->type.shape : NULL;
        sp_plan_places(c->plan, t, &c->places);
        if (c->places.count == 0 && tensor->kind != SP_WORK_INPUT)
            continue; /* used only while constants are computed at load */
        sp_json_begin_object(json);
        sp_json_member_string(json, "name", tensor->name);
        sp_json_member_string(json, "kind", kinds[tensor->kind]);
        sp_json_member_string(json, "dtype", value != NULL ? sp_dtype_name(value->type.dtype) : NULL);
        write_shape(c, shape);
        sp_json_member_double(json, "bytes", tensor->bytes);
        write_spec(c, tensor->name, shape);
        sp_reason_tensor(c->plan, t, &c->places, c->text);
        member_reason(c);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

static void write_collectives(struct context *c)
{
    const struct sp_evaluation *evaluation = c->plan->result->evaluation;
    const struct sp_workload *workload = c->plan->workload;
    struct sp_json *json = c->json;
    sp_json_key(json, "collectives");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < evaluation->transfer_count; i++) {
        const struct sp_tensor_transfer *transfer = &evaluation->transfers[i];
        const struct sp_work_tensor *tensor = &workload->tensors[transfer->tensor];
        sp_json_begin_object(json);
        sp_json_member_string(json, "kind", "send");
        sp_json_member_string(json, "tensor", tensor->name);
        sp_json_key(json, "devices");
        sp_json_begin_array(json);
        sp_json_int(json, evaluation->stages[transfer->from_stage].device);
        sp_json_int(json, evaluation->stages[transfer->to_stage].device);
        sp_json_end_array(json);
        sp_json_member_int(json, "from_stage", transfer->from_stage);
        sp_json_member_int(json, "to_stage", transfer->to_stage);
        sp_json_member_double(json, "bytes", transfer->bytes);
        sp_json_member_double(json, "seconds", transfer->seconds);
        sp_json_member_string(json, "after_node",
                              tensor->producer == SP_NO_WORK ? NULL : workload->nodes[tensor->producer].name);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

static void write_diagnostics(struct context *c)
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

static void write_search(struct context *c, double seconds)
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
    sp_json_end_object(json);
}

void sp_plan_write_json(const struct sp_plan *plan, double search_seconds, struct sp_json *json)
{
    struct sp_arena_mark mark = sp_arena_mark(plan->arena);
    struct sp_buf text;
    struct context c = {.plan = plan, .json = json, .text = &text};
    sp_buf_init(&text, SP_REASON_BYTES);
    c.stage_of_device = sp_plan_device_stages(plan);
    if (c.stage_of_device == NULL || !sp_places_init(plan, &c.places) || !sp_borders_init(plan, &c.borders)) {
        json->failed = true;
    } else {
        sp_json_begin_object(json);
        write_head(&c);
        write_estimate(&c);
        write_stages(&c);
        write_devices(&c);
        write_tensors(&c);
        write_collectives(&c);
        write_diagnostics(&c);
        write_search(&c, search_seconds);
        sp_json_end_object(json);
    }
    sp_buf_release(&text);
    sp_arena_rewind(plan->arena, mark);
}
