#include "plan/cost_graph.h"

#include <inttypes.h>
#include <math.h>
#include <strings.h>

#include "plan/answer/readable_text.h"

#define MAX_DEVICE_NOTES 8
#define TEXT_TENSORS     4096 /* listed before the rest is only counted */

enum sp_status sp_costs_refuse(const char *what, struct sp_error *err)
{
    return sp_fail(
        err, SP_ERR_UNSUPPORTED, "NO_OPERATORS",
        "A graph of costs has no operators: there is no '%s' of it. Of its plan there are JSON and text, the "
        "tables csv, csv-devices, csv-tensors and csv-collectives, and the timeline perfetto.",
        what);
}

enum sp_status sp_costs_check_options(const struct sp_sizes *sizes, int64_t batch, struct sp_error *err)
{
    if (sizes->dim_count > 0)
        return sp_fail(err, SP_ERR_REQUEST, "UNKNOWN_DIMENSION",
                       "The dimension '%.200s' cannot be bound: a graph of costs has none.", sizes->dim_names[0]);
    if (sizes->given.value_count + sizes->given.shape_count > 0)
        return sp_fail(err, SP_ERR_REQUEST, "UNKNOWN_TENSOR",
                       "A graph of costs has no tensors to give values or shapes to.");
    if (sizes->given.operators != NULL)
        return sp_fail(err, SP_ERR_REQUEST, "NO_OPERATORS", "A graph of costs has no operators to give rules.");
    if (batch > 0)
        return sp_fail(err, SP_ERR_REQUEST, "NO_BATCH",
                       "A graph of costs has no batch to bind: its seconds are those of the requests that were "
                       "measured.");
    return SP_OK;
}

enum sp_status sp_costs_check_any_sets(const struct sp_plan_options *options, bool is_costs, struct sp_error *err)
{
    if (!is_costs) {
        (void)sp_fail(err, SP_ERR_REQUEST, "PLACEMENT_UNSUPPORTED",
                      "The placement 'any' is for graphs of costs: a device that runs several pieces of a model is no "
                      "stage of a pipeline, so annotations cannot express it. Leave the placement out.");
        return sp_error_at(err, "/options/placement");
    }
    if (options->objective != SP_OBJECTIVE_THROUGHPUT) {
        (void)sp_fail(err, SP_ERR_REQUEST, "PLACEMENT_UNSUPPORTED",
                      "The placement 'any' is for the objective throughput: for latency or the fewest devices leave "
                      "the placement out.");
        return sp_error_at(err, "/objective");
    }
    if (options->strategy != SP_STRATEGY_AUTO) {
        (void)sp_fail(err, SP_ERR_REQUEST, "PLACEMENT_UNSUPPORTED",
                      "The placement 'any' has a search of its own: leave the strategy out, or the placement out.");
        return sp_error_at(err, "/options/strategy");
    }
    if (options->max_replicas != SP_REPLICAS_NOT_GIVEN && options->max_replicas != 1) {
        (void)sp_fail(err, SP_ERR_REQUEST, "PLACEMENT_UNSUPPORTED",
                      "With the placement 'any' stages have no replicas: leave out the replicas, or the placement.");
        return sp_error_at(err, "/options/replicas");
    }
    if (options->constraints != NULL) {
        (void)sp_fail(err, SP_ERR_REQUEST, "PLACEMENT_UNSUPPORTED",
                      "Constraints apply to contiguous stages only: leave them out, or leave the placement out.");
        return sp_error_at(err, "/constraints");
    }
    return SP_OK;
}

const char *sp_costs_name(const struct sp_job *job)
{
    return job->name[0] != '\0' ? job->name : job->file.costs->graph.name;
}

/* ---- notes --------------------------------------------------------------------------------------------------------
 */

static bool is_known(const struct sp_cluster *cluster, const char *device)
{
    for (uint32_t g = 0; g < cluster->group_count; g++) {
        if (strcasecmp(cluster->groups[g].device.name, device) == 0)
            return true;
    }
    return sp_device_find(device) != NULL;
}

bool sp_note_unknown_devices(const struct sp_cost_graph *graph, const struct sp_cluster *cluster,
                             struct sp_bindings *bindings)
{
    uint32_t noted = 0;
    for (uint32_t d = 0; d < graph->device_count && noted < MAX_DEVICE_NOTES; d++) {
        if (is_known(cluster, graph->devices[d]))
            continue;
        const char *message = sp_arena_printf(bindings->arena,
                                              "The graph has seconds for the device '%.200s', which neither the "
                                              "cluster nor the catalog has; they are not used.",
                                              graph->devices[d]);
        if (message == NULL || !sp_note_add(bindings, &(struct sp_plan_note){
                                                          .code = "UNKNOWN_DEVICE",
                                                          .severity = "warning",
                                                          .message = message,
                                                          .hint = "Seconds are found by the name of the catalog, or by "
                                                                  "the name that the cluster gives its device.",
                                                      }))
            return false;
        noted++;
    }
    return true;
}

/* ---- inspection ---------------------------------------------------------------------------------------------------
 */

struct totals {
    double memory_bytes, output_bytes;
    uint64_t grouped;
    double *seconds;    /* per device of the graph, of the nodes that it runs; those of every device among them */
    uint64_t *able;     /* per device: how many nodes it runs */
    double any_seconds; /* of the nodes with one number for all devices */
    uint64_t any;
};

static bool add_up(struct sp_arena *arena, const struct sp_cost_graph *graph, struct totals *totals)
{
    *totals = (struct totals){.seconds = SP_NEW_ARRAY(arena, graph->device_count, double),
                              .able = SP_NEW_ARRAY(arena, graph->device_count, uint64_t)};
    if (totals->seconds == NULL || totals->able == NULL)
        return false;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const struct sp_cost_node *node = &graph->nodes[i];
        totals->memory_bytes += node->memory_bytes;
        totals->output_bytes += node->output_bytes;
        totals->grouped += node->group != SP_COST_NONE;
        if (node->seconds >= 0) {
            totals->any_seconds += node->seconds;
            totals->any++;
        }
        for (uint32_t t = node->first_time; t < node->first_time + node->time_count; t++) {
            totals->seconds[graph->times[t].device] += graph->times[t].seconds;
            totals->able[graph->times[t].device]++;
        }
    }
    return true;
}

static void write_tensors(const struct sp_cost_graph *graph, struct sp_json *json)
{
    sp_json_key(json, "tensors");
    sp_json_begin_array(json);
    for (uint32_t t = 0; t < graph->tensor_count; t++) {
        const struct sp_cost_tensor *tensor = &graph->tensors[t];
        sp_json_begin_object(json);
        sp_json_member_string(json, "name", tensor->name);
        sp_json_member_string(json, "from", graph->nodes[tensor->from].id);
        sp_json_member_double(json, "bytes", tensor->bytes);
        sp_json_key(json, "seconds");
        if (tensor->seconds >= 0)
            sp_json_double(json, tensor->seconds);
        else
            sp_json_null(json);
        sp_json_end_object(json);
    }
    sp_json_end_array(json);
}

static void write_devices(const struct sp_cost_graph *graph, const struct totals *totals, struct sp_json *json)
{
    sp_json_key(json, "devices");
    sp_json_begin_object(json);
    for (uint32_t d = 0; d < graph->device_count; d++) {
        sp_json_key(json, graph->devices[d]);
        sp_json_begin_object(json);
        sp_json_member_int(json, "nodes", (int64_t)(totals->able[d] + totals->any));
        sp_json_member_double(json, "seconds", totals->seconds[d] + totals->any_seconds);
        sp_json_end_object(json);
    }
    sp_json_end_object(json);
}

enum sp_status sp_costs_inspect_json(struct sp_job *job, bool values, struct sp_json *json, struct sp_error *err)
{
    const struct sp_cost_graph *graph = &job->file.costs->graph;
    struct sp_arena_mark mark = sp_arena_mark(job->arena);
    struct totals totals;
    if (!add_up(job->arena, graph, &totals))
        return sp_fail_memory(err);
    sp_json_begin_object(json);
    sp_json_member_string(json, "name", sp_costs_name(job));
    if (job->sha256[0] != '\0')
        sp_json_member_string(json, "sha256", job->sha256);
    sp_json_member_int(json, "size_bytes", (int64_t)job->file.given_size);
    sp_json_member_string(json, "graph", graph->name);
    sp_json_member_string(json, "format", "costs");
    sp_json_member_string(json, "ir_version", NULL);
    sp_json_member_int(json, "node_count", graph->node_count);
    sp_json_member_int(json, "edge_count", graph->edge_count);
    sp_json_member_int(json, "tensor_count", graph->tensor_count);
    sp_json_member_int(json, "group_count", graph->group_count);
    sp_json_member_int(json, "grouped_nodes", (int64_t)totals.grouped);
    sp_json_member_double(json, "memory_bytes", totals.memory_bytes);
    sp_json_member_double(json, "output_bytes", totals.output_bytes);
    sp_json_key(json, "seconds");
    if (totals.any == graph->node_count)
        sp_json_double(json, totals.any_seconds);
    else
        sp_json_null(json);
    write_devices(graph, &totals, json);
    sp_json_key(json, "inputs"); /* what every inspection has */
    sp_json_begin_array(json);
    sp_json_end_array(json);
    sp_json_key(json, "outputs");
    sp_json_begin_array(json);
    sp_json_end_array(json);
    if (values)
        write_tensors(graph, json);
    sp_json_end_object(json);
    sp_arena_rewind(job->arena, mark);
    return SP_OK;
}

static void tensor_lines(const struct sp_cost_graph *graph, struct sp_buf *buf)
{
    sp_buf_text(buf, "\nTensors\n");
    for (uint32_t t = 0; t < graph->tensor_count && t < TEXT_TENSORS; t++) {
        const struct sp_cost_tensor *tensor = &graph->tensors[t];
        sp_buf_text(buf, "  of ");
        sp_text_cut(buf, graph->nodes[tensor->from].name, 40);
        if (tensor->name != NULL) {
            sp_buf_text(buf, ", ");
            sp_text_cut(buf, tensor->name, 40);
        }
        sp_buf_text(buf, ": ");
        sp_text_bytes(buf, tensor->bytes);
        if (tensor->seconds >= 0) {
            sp_buf_text(buf, ", sent in ");
            sp_text_seconds(buf, tensor->seconds);
        }
        sp_buf_text(buf, "\n");
    }
    if (graph->tensor_count > TEXT_TENSORS)
        sp_buf_printf(buf, "  and %" PRIu32 " more (the JSON form lists them)\n", graph->tensor_count - TEXT_TENSORS);
}

enum sp_status sp_costs_inspect_text(struct sp_job *job, bool values, struct sp_buf *buf, struct sp_error *err)
{
    const struct sp_cost_graph *graph = &job->file.costs->graph;
    struct sp_arena_mark mark = sp_arena_mark(job->arena);
    struct totals totals;
    if (!add_up(job->arena, graph, &totals))
        return sp_fail_memory(err);
    sp_buf_text(buf, "Graph       ");
    sp_text_cut(buf, sp_costs_name(job), 80);
    sp_buf_text(buf, "\n            a graph of costs, without operators\nNodes       ");
    sp_text_integer(buf, graph->node_count);
    sp_buf_text(buf, ", ");
    sp_text_integer(buf, graph->edge_count);
    sp_buf_text(buf, " edges with ");
    sp_text_integer(buf, graph->tensor_count);
    sp_buf_text(buf, " tensors\n");
    if (graph->group_count > 0)
        sp_buf_printf(buf, "Groups      %" PRIu32 " with %" PRIu64 " nodes, each on one device\n", graph->group_count,
                      totals.grouped);
    sp_buf_text(buf, "Memory      ");
    sp_text_bytes(buf, totals.memory_bytes);
    sp_buf_text(buf, ", outputs ");
    sp_text_bytes(buf, totals.output_bytes);
    sp_buf_text(buf, "\nSeconds     ");
    if (graph->device_count == 0 || totals.any > 0) {
        sp_text_seconds(buf, totals.any_seconds);
        sp_buf_printf(buf, " on any device (%" PRIu64 " nodes)%s", totals.any, graph->device_count > 0 ? "\n" : "");
    }
    for (uint32_t d = 0; d < graph->device_count; d++) {
        sp_buf_text(buf, d > 0 || totals.any > 0 ? "            " : "");
        sp_text_seconds(buf, totals.seconds[d]);
        sp_buf_text(buf, " on ");
        sp_text_cut(buf, graph->devices[d], 40);
        sp_buf_printf(buf, " (%" PRIu64 " nodes)%s", totals.able[d], d + 1 < graph->device_count ? "\n" : "");
    }
    sp_buf_text(buf, "\n");
    if (values)
        tensor_lines(graph, buf);
    sp_arena_rewind(job->arena, mark);
    return sp_buf_failed(buf) ? sp_fail_memory(err) : SP_OK;
}
