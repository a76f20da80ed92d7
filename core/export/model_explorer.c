/*
 * Node data for Model Explorer: a file for each figure, as its viewer loads them.
 *
 *   {GRAPH: {"results": {OUTPUT: {"value": 1, "bgColor": "#..."}}, "gradient": [{"stop": 0, "bgColor": "#..."}, ..]}}
 *
 * Nodes are named by their output tensors. Source: Model Explorer's custom node data format.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "export/internal.h"

/* Tableau's ten colours, which differ also for most readers who see some of them alike; lightened for black text. */
static const char *const colors[] = {"#a6c8e4", "#ffc48a", "#a5d8a5", "#f0a3a4", "#cfbbe3",
                                     "#cfaea7", "#f3c0e4", "#c7c7c7", "#e0e08c", "#94dde6"};
#define COLOR_COUNT (sizeof colors / sizeof colors[0])

/* Writes the value of a node; false where it has none. */
typedef bool (*write_value)(const struct sp_export *out, uint32_t node, struct sp_json *json);

static const char *graph_name(const struct sp_export *out)
{
    const char *name = out->subject->model->graph->name;
    return name != NULL && name[0] != '\0' ? name : "main";
}

static void write_color(struct sp_json *json, uint64_t number)
{
    sp_json_member_string(json, "bgColor", colors[number % COLOR_COUNT]);
}

static bool write_stage(const struct sp_export *out, uint32_t node, struct sp_json *json)
{
    const struct sp_subject_node *place = &out->subject->nodes[node];
    if (!place->has_stage)
        return false;
    sp_json_begin_object(json);
    sp_json_member_int(json, "value", place->stage);
    write_color(json, (uint64_t)sp_export_stage(out, node));
    sp_json_end_object(json);
    return true;
}

/* One device by its number, several as "0..3". */
static bool write_device(const struct sp_export *out, uint32_t node, struct sp_json *json)
{
    const struct sp_subject_node *place = &out->subject->nodes[node];
    char text[64];
    if (place->device_count == 0)
        return false;
    sp_json_begin_object(json);
    if (place->device_count == 1) {
        sp_json_member_int(json, "value", place->devices[0]);
    } else {
        const int64_t first = place->devices[0], last = place->devices[place->device_count - 1];
        if (last - first == place->device_count - 1)
            (void)snprintf(text, sizeof text, "%" PRId64 "..%" PRId64, first, last);
        else
            (void)snprintf(text, sizeof text, "%" PRId64 " devices from %" PRId64 " to %" PRId64, place->device_count,
                           first, last);
        sp_json_member_string(json, "value", text);
    }
    write_color(json, (uint64_t)place->devices[0]);
    sp_json_end_object(json);
    return true;
}

/* Of one device: where a node is split, of its part, collectives included. */
static bool write_seconds(const struct sp_export *out, uint32_t node, struct sp_json *json)
{
    const struct sp_plan *plan = out->subject->plan;
    if (plan->workload->nodes[node].folded)
        return false;
    sp_json_begin_object(json);
    sp_json_member_double(json, "value",
                          sp_plan_node_seconds(plan, node) + sp_plan_node_collective_seconds(plan, node));
    sp_json_end_object(json);
    return true;
}

static bool write_bytes(const struct sp_export *out, uint32_t node, struct sp_json *json)
{
    const struct sp_work_node *work = &out->subject->plan->workload->nodes[node];
    const struct sp_strategy *strategy = sp_plan_strategy(out->subject->plan, node);
    if (work->folded)
        return false;
    sp_json_begin_object(json);
    sp_json_member_double(json, "value", strategy != NULL ? strategy->bytes : work->bytes);
    sp_json_end_object(json);
    return true;
}

static const char *first_output(const struct sp_node *node)
{
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] != NULL && node->outputs[i]->name[0] != '\0')
            return node->outputs[i]->name;
    }
    return NULL;
}

static void write_gradient(struct sp_json *json)
{
    static const struct {
        int stop;
        const char *color;
    } stops[] = {{0, "#ffffff"}, {1, "#f28e2b"}};
    sp_json_key(json, "gradient");
    sp_json_begin_array(json);
    for (size_t i = 0; i < sizeof stops / sizeof stops[0]; i++) {
        sp_json_begin_object(json);
        sp_json_member_int(json, "stop", stops[i].stop);
        sp_json_member_string(json, "bgColor", stops[i].color);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

static enum sp_status export_values_of(struct sp_export *out, write_value write, bool has_gradient)
{
    const struct sp_graph *graph = out->subject->model->graph;
    struct sp_json json, value;
    struct sp_buf text;
    sp_buf_init(&text, SP_EXPORT_CHUNK);
    sp_export_json(out, false, &json);
    sp_json_begin_object(&json);
    sp_json_key(&json, graph_name(out));
    sp_json_begin_object(&json);
    sp_json_key(&json, "results");
    sp_json_begin_object(&json);
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const char *name = first_output(&graph->nodes[i]);
        sp_buf_clear(&text);
        sp_json_init_buf(&value, false, &text);
        if (name == NULL || !write(out, i, &value) || sp_json_finish(&value, NULL) != SP_OK)
            continue;
        sp_json_key(&json, name);
        sp_json_raw(&json, text.data, text.size);
    }
    sp_json_end_object(&json);
    if (has_gradient)
        write_gradient(&json);
    sp_json_end_object(&json);
    sp_json_end_object(&json);
    sp_buf_release(&text);
    (void)sp_json_finish(&json, NULL); /* a failure is the export's own */
    sp_export_text(out, "\n");
    return SP_OK;
}

enum sp_status sp_export_explorer_stage(struct sp_export *out, struct sp_error *err)
{
    (void)err;
    return export_values_of(out, write_stage, false);
}

enum sp_status sp_export_explorer_device(struct sp_export *out, struct sp_error *err)
{
    (void)err;
    return export_values_of(out, write_device, false);
}

enum sp_status sp_export_explorer_seconds(struct sp_export *out, struct sp_error *err)
{
    (void)err;
    return export_values_of(out, write_seconds, true);
}

enum sp_status sp_export_explorer_bytes(struct sp_export *out, struct sp_error *err)
{
    (void)err;
    return export_values_of(out, write_bytes, true);
}
