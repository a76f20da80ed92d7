/* The manifest of devices' models: realize.h says what it has. */
#include <stdio.h>
#include <xxhash.h>

#include "base/array.h"
#include "base/limits.h"
#include "realize/device.h"

static void put_range(struct sp_json *json, const struct sp_range *range)
{
    sp_json_begin_array(json);
    sp_json_int(json, range->start);
    if (range->limit < 0)
        sp_json_null(json);
    else
        sp_json_int(json, range->limit);
    sp_json_end_array(json);
}

static void put_box(struct sp_json *json, const struct sp_box *box)
{
    sp_json_key(json, "box");
    if (box->is_whole) {
        sp_json_null(json);
        return;
    }
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < box->rank; i++) {
        const struct sp_axis_ranges *axis = &box->axes[i];
        if (axis->count == 1) {
            put_range(json, &axis->ranges[0]);
            continue;
        }
        sp_json_begin_array(json);
        for (uint32_t k = 0; k < axis->count; k++)
            put_range(json, &axis->ranges[k]);
        sp_json_end_array(json);
    }
    sp_json_end_array(json);
}

static void put_port(struct sp_json *json, const struct sp_device_port *port, bool is_output)
{
    static const char *const from[] = {"input", "device", "nobody"}, *const to[] = {"output", "device", "nobody"};
    sp_json_begin_object(json);
    sp_json_member_string(json, "name", port->name);
    sp_json_member_string(json, is_output ? "to" : "from", (is_output ? to : from)[port->kind]);
    if (port->kind == SP_PORT_MODEL) {
        sp_json_member_string(json, "tensor", port->value->name);
        put_box(json, &port->tensor);
    } else if (port->kind == SP_PORT_DEVICE && !is_output) {
        sp_json_member_int(json, "device", port->device);
        sp_json_member_int(json, "part", port->part);
        sp_json_member_string(json, "output", port->name);
    }
    sp_json_end_object(json);
}

static void put_ports(struct sp_json *json, const char *name, const struct sp_port_list *list, bool is_output)
{
    sp_json_key(json, name);
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < list->count; i++)
        put_port(json, list->items[i], is_output);
    sp_json_end_array(json);
}

#define FIRST_PORT 18888 /* ONNX Runtime's default */

/* By which the process of a rank is told its place. */
static void put_environment(struct sp_json *json, const struct sp_device_plan *plan,
                            const struct sp_device_state *state)
{
    const struct sp_world *world = &plan->worlds[state->world];
    const uint64_t values[] = {state->rank, world->size, FIRST_PORT + (uint64_t)state->world};
    static const char *const names[] = {"LOCAL_RANK", "LOCAL_WORLD_SIZE", "RANK0_PORT"};
    char text[24];
    if (plan->target != SP_TARGET_ORT || world->size < 2 || values[2] > UINT16_MAX)
        return;
    sp_json_key(json, "environment");
    sp_json_begin_object(json);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        (void)snprintf(text, sizeof text, "%llu", (unsigned long long)values[i]);
        sp_json_member_string(json, names[i], text);
    }
    sp_json_end_object(json);
}

static void put_device(struct sp_json *json, const struct sp_device_plan *plan, int64_t device)
{
    const struct sp_device_state *state = &plan->devices[device];
    char text[SP_DEVICE_MODEL_NAME_SIZE];
    sp_json_begin_object(json);
    sp_json_member_int(json, "id", device);
    sp_json_member_int(json, "world", state->world);
    sp_json_member_int(json, "rank", state->rank);
    if (plan->fingerprint != NULL)
        sp_json_member_string(json, "fingerprint", plan->fingerprint);
    put_environment(json, plan, state);
    sp_json_key(json, "parts");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < state->part_count; i++) {
        if (state->parts[i]->outputs.count == 0)
            continue;
        sp_json_begin_object(json);
        sp_json_member_int(json, "part", i);
        sp_json_member_string(json, "model", sp_device_plan_model(plan->phase, device, i, text));
        put_ports(json, "inputs", &state->parts[i]->inputs, false);
        put_ports(json, "outputs", &state->parts[i]->outputs, true);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
    sp_json_end_object(json);
}

/* Parts that run at the same time. */
static void put_together(struct sp_json *json, const struct sp_device_plan *plan, const struct sp_world *world,
                         uint32_t part)
{
    char text[SP_DEVICE_MODEL_NAME_SIZE];
    bool is_any = false;
    for (uint32_t i = 0; i < world->size; i++)
        is_any = is_any || sp_device_plan_has(plan, world->devices[i], part);
    if (!is_any)
        return;
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < world->size; i++) {
        if (sp_device_plan_has(plan, world->devices[i], part))
            sp_json_string(json, sp_device_plan_model(plan->phase, world->devices[i], part, text));
    }
    sp_json_end_array(json);
}

/* A part may run when everything that it gets was given. Whoever gives gets nothing afterwards, so the times at which
   parts last got something are such an order; the worlds' parts are merged by them. */
static void put_order(struct sp_json *json, const struct sp_device_plan *plan)
{
    uint32_t *next = SP_NEW_ARRAY(plan->arena, plan->world_count, uint32_t);
    sp_json_begin_array(json);
    for (; next != NULL;) {
        uint32_t best = UINT32_MAX;
        for (uint32_t w = 0; w < plan->world_count; w++) {
            const struct sp_world *world = &plan->worlds[w];
            if (next[w] < world->part_count &&
                (best == UINT32_MAX || world->times[next[w]] < plan->worlds[best].times[next[best]]))
                best = w;
        }
        if (best == UINT32_MAX)
            break;
        put_together(json, plan, &plan->worlds[best], next[best]++);
    }
    sp_json_end_array(json);
}

static void put_notes(struct sp_json *json, const struct sp_intern *notes)
{
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < sp_intern_count(notes); i++) {
        const char *message = sp_intern_name(notes, i);
        const struct sp_device_note *note = *sp_intern_mark(message);
        sp_json_begin_object(json);
        sp_json_member_string(json, "code", note->code);
        if (note->node != NULL)
            sp_json_member_string(json, "node", note->node);
        sp_json_member_string(json, "message", message);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

static const char *const target_names[] = {
    [SP_TARGET_ORT] = "ort", [SP_TARGET_TENSORRT] = "tensorrt", [SP_TARGET_SESSIONS] = "sessions"};

/* Devices and their order: what the models of devices have to agree on. */
static void put_devices(struct sp_json *json, const struct sp_device_plan *plan)
{
    sp_json_key(json, "devices");
    sp_json_begin_array(json);
    for (int64_t i = 0; i < plan->device_count; i++) {
        if (plan->devices[i].is_used)
            put_device(json, plan, i);
    }
    sp_json_end_array(json);
    sp_json_key(json, "order");
    put_order(json, plan);
}

/* Inputs and outputs of the original; a shape is null where its rank is not known, and an extent where it is not. */
static void put_interface(struct sp_json *json, const char *name, uint32_t count, struct sp_value *const *values)
{
    sp_json_key(json, name);
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < count; i++) {
        const struct sp_type *type = &values[i]->type;
        if (values[i]->tensor != NULL)
            continue; /* an input with a default is a weight */
        sp_json_begin_object(json);
        sp_json_member_string(json, "name", values[i]->name);
        const bool is_tensor = type->kind == SP_TYPE_TENSOR;
        sp_json_member_string(json, "dtype", is_tensor ? sp_dtype_name(type->dtype) : NULL);
        sp_json_key(json, "shape");
        if (!is_tensor || !type->shape.has_rank) {
            sp_json_null(json);
            sp_json_end_object(json);
            continue;
        }
        sp_json_begin_array(json);
        for (uint32_t k = 0; k < type->shape.rank; k++) {
            if (sp_dim_is_known(type->shape.dims[k]))
                sp_json_int(json, type->shape.dims[k].value);
            else
                sp_json_null(json);
        }
        sp_json_end_array(json);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

static void put_states(struct sp_json *json, const struct sp_states *states)
{
    sp_json_key(json, "states");
    sp_json_begin_array(json);
    for (uint32_t i = 0; i < states->count; i++) {
        sp_json_begin_object(json);
        sp_json_member_string(json, "past", states->items[i].past->name);
        sp_json_member_string(json, "present", states->items[i].present->name);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

void sp_device_plan_manifest(const struct sp_device_plan *plan, struct sp_json *json)
{
    const struct sp_graph *graph = plan->model->graph;
    sp_json_member_int(json, "version", SP_MANIFEST_VERSION);
    sp_json_member_string(json, "target", target_names[plan->target]);
    put_interface(json, "inputs", graph->input_count, graph->inputs);
    put_interface(json, "outputs", graph->output_count, graph->outputs);
    put_states(json, &plan->states);
    put_devices(json, plan);
    sp_json_key(json, "notes");
    put_notes(json, plan->notes);
}

enum sp_status sp_device_plan_identify(struct sp_device_plan *plan, struct sp_error *err)
{
    struct sp_buf text;
    struct sp_json json;
    XXH128_canonical_t canonical;
    char *hex = sp_arena_alloc(plan->arena, 2 * sizeof canonical + 1);
    sp_buf_init(&text, SP_MAX_MANIFEST_BYTES);
    sp_json_init_buf(&json, false, &text);
    sp_json_begin_object(&json);
    sp_json_member_string(&json, "target", target_names[plan->target]);
    put_devices(&json, plan);
    sp_json_end_object(&json);
    enum sp_status status = hex == NULL ? sp_fail_memory(err) : sp_json_finish(&json, err);
    if (status == SP_OK) {
        XXH128_canonicalFromHash(&canonical, XXH3_128bits(text.data, text.size));
        for (size_t i = 0; i < sizeof canonical; i++)
            (void)snprintf(hex + 2 * i, 3, "%02x", canonical.digest[i]);
        plan->fingerprint = hex;
    }
    sp_buf_release(&text);
    return status;
}
