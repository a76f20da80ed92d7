/* Formats that are tables of nodes: csv, model-explorer, qualcomm-mdp, ort-layers-options. */
#include <criterion/criterion.h>
#include <math.h>

#include "build_export.h"
#include "onnx_files.h"

static const struct onnx_mlp deep = {.layers = 8, .width = 4096, .batch = "512"};

static json_t *parse(const struct exported *text)
{
    json_error_t where;
    json_t *json = json_loadb(text->bytes.data, text->bytes.size, JSON_REJECT_DUPLICATES, &where);
    cr_assert_not_null(json, "%s at %d: %.200s", where.text, where.position, text->bytes.data);
    return json;
}

/* ---- csv -------------------------------------------------------------------------------------------------------- */

#define MAX_CELLS 16

struct row {
    uint32_t count;
    char cells[MAX_CELLS][256];
};

/* The next row as RFC 4180 says; false at the end. */
static bool next_row(const char **text, struct row *row)
{
    const char *c = *text;
    memset(row, 0, sizeof *row);
    if (*c == '\0')
        return false;
    while (true) {
        cr_assert_lt(row->count, MAX_CELLS);
        char *cell = row->cells[row->count++];
        size_t size = 0;
        const bool is_quoted = *c == '"';
        for (c += is_quoted; is_quoted || (*c != ',' && *c != '\r'); c++) {
            cr_assert_neq(*c, '\0', "the text ends in a cell");
            if (is_quoted && *c == '"' && *++c != '"')
                break;
            cr_assert(is_quoted || (*c != '"' && *c != '\n'));
            cr_assert_lt(size, sizeof row->cells[0] - 1);
            cell[size++] = *c;
        }
        if (*c == '\r')
            break;
        cr_assert_eq(*c, ',', "a quoted cell ends before '%.20s'", c);
        c++;
    }
    cr_assert_eq(c[1], '\n');
    *text = c + 2;
    return true;
}

static const char *cell(const struct row *header, const struct row *row, const char *name)
{
    cr_assert_eq(row->count, header->count);
    for (uint32_t i = 0; i < header->count; i++) {
        if (strcmp(header->cells[i], name) == 0)
            return row->cells[i];
    }
    cr_assert_fail("no column %s", name);
    return "";
}

Test(export_tables, csv_has_a_row_for_each_node_with_the_figures_of_the_plan)
{
    struct planned_model model;
    planned_mlp(&model, &deep, 2);
    struct exported csv = export_of(model.subject, "csv");
    const char *text = csv.bytes.data;
    const struct sp_workload *workload = model.plan->workload;
    struct row header, row;
    double seconds[2] = {0};
    cr_assert(next_row(&text, &header));
    for (uint32_t i = 0; i < workload->node_count; i++) {
        cr_assert(next_row(&text, &row), "row %u", i);
        const uint32_t stage = model.plan->result->placement.stage_of[i];
        cr_expect_eq(strtol(cell(&header, &row, "index"), NULL, 10), (int)i);
        cr_expect_str_eq(cell(&header, &row, "node"), workload->nodes[i].name);
        cr_expect_str_eq(cell(&header, &row, "operator"), i % 2 == 0 ? "MatMul" : "Relu");
        cr_expect_eq((uint32_t)strtol(cell(&header, &row, "stage"), NULL, 10), stage);
        cr_expect_eq((uint32_t)strtol(cell(&header, &row, "devices"), NULL, 10), stage);
        cr_expect_eq(strtod(cell(&header, &row, "flops"), NULL), workload->nodes[i].flops);
        seconds[stage] += strtod(cell(&header, &row, "seconds"), NULL);
        /* Each weight is a float matrix of 4096 x 4096. */
        cr_expect_eq(strtod(cell(&header, &row, "weight_bytes"), NULL), i % 2 == 0 ? 4.0 * 4096 * 4096 : 0);
    }
    cr_expect_not(next_row(&text, &row));
    for (uint32_t s = 0; s < 2; s++)
        cr_expect_float_eq(seconds[s], model.plan->result->evaluation->stages[s].compute_seconds, 1e-15);
    exported_release(&csv);
    planned_release(&model);
}

Test(export_tables, csv_devices_are_those_of_the_plan_json)
{
    struct planned_model model;
    planned_mlp(&model, &deep, 2);
    struct exported csv = export_of(model.subject, "csv-devices");
    json_t *plan = planned_json(&model);
    static const char *const figures[] = {"flops", "compute_seconds", "idle_seconds"};
    static const char *const bytes[] = {"weights_bytes", "activations_peak_bytes", "communication_bytes",
                                        "capacity_bytes"};
    const char *text = csv.bytes.data;
    struct row header, row;
    cr_assert(next_row(&text, &header));
    for (size_t d = 0; d < 2; d++) {
        const json_t *device = json_array_get(json_object_get(plan, "devices"), d);
        cr_assert(next_row(&text, &row));
        cr_expect_eq(strtol(cell(&header, &row, "cluster_device"), NULL, 10), (int)d);
        cr_expect_eq(strtol(cell(&header, &row, "stage"), NULL, 10),
                     json_integer_value(json_object_get(device, "stage")));
        cr_expect_eq((size_t)strtol(cell(&header, &row, "nodes"), NULL, 10),
                     json_array_size(json_object_get(device, "nodes")));
        for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
            cr_expect_eq(strtod(cell(&header, &row, figures[i]), NULL),
                         json_number_value(json_object_get(device, figures[i])), "%s", figures[i]);
        for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++)
            cr_expect_eq(strtod(cell(&header, &row, bytes[i]), NULL),
                         json_number_value(json_object_get(json_object_get(device, "memory"), bytes[i])), "%s",
                         bytes[i]);
    }
    cr_expect_not(next_row(&text, &row));
    json_decref(plan);
    exported_release(&csv);
    planned_release(&model);
}

Test(export_tables, csv_collectives_are_the_transfers_of_the_plan)
{
    struct planned_model model;
    planned_mlp(&model, &deep, 2);
    struct exported csv = export_of(model.subject, "csv-collectives");
    const struct sp_evaluation *evaluation = model.plan->result->evaluation;
    const char *text = csv.bytes.data;
    struct row header, row;
    cr_assert_eq(evaluation->transfer_count, 1);
    cr_assert(next_row(&text, &header));
    cr_assert(next_row(&text, &row));
    cr_expect_str_eq(cell(&header, &row, "kind"), "send");
    cr_expect_str_eq(cell(&header, &row, "devices"), "0 1");
    cr_expect_str_eq(cell(&header, &row, "tensor"),
                     model.plan->workload->tensors[evaluation->transfers[0].tensor].name);
    cr_expect_eq(strtod(cell(&header, &row, "total_bytes"), NULL), 4.0 * 512 * 4096);
    cr_expect_eq(strtod(cell(&header, &row, "seconds"), NULL), evaluation->transfers[0].seconds);
    cr_expect_not(next_row(&text, &row));
    exported_release(&csv);
    planned_release(&model);
}

/* x [8] on device 0 of 2, y whole on both: names with everything that a cell must quote. */
static const char *const odd_names =
    "1:11 8{2:17} 26{1'a' 2:2} 7{ 2'g' 1{1'x' 2'y' 3'a, \"b\"' 4'Relu' 10{1'a' 3:1 2{1'y' 2:-1 3{1:-1 2:0 2:1}}}}"
    " 11{1'x' 2{1{1:1 2{1{1:8}}}}} 12{1'y' 2{1{1:1 2{1{1:8}}}}} }";

/* The same with names that would break a row, turn text round, or be a formula. */
static const char *const hostile_names =
    "1:11 8{2:17} 26{1'a' 2:2} 7{ 2'g' 1{1'x' 2'@y' 3'=a\r\n\x1b\xe2\x80\xae\xc2\x85, \"b\"\xc3\xa4' 4'Relu' 10{1'a' "
    "3:1 2{1'@y' 2:-1 3{1:-1 2:0 2:1}}}}"
    " 11{1'x' 2{1{1:1 2{1{1:8}}}}} 12{1'@y' 2{1{1:1 2{1{1:8}}}}} }";

Test(export_tables, csv_of_hostile_names)
{
    struct sp_buf file = onnx_encode(hostile_names);
    struct sp_subject *subject = subject_of(&file);
    struct exported csv = export_of(subject, "csv");
    const char *text = csv.bytes.data;
    struct row header, row;
    cr_assert(next_row(&text, &header));
    cr_assert(next_row(&text, &row));
    cr_expect_str_eq(cell(&header, &row, "node"), "'=a\\u000d\\u000a\\u001b\\u202e\\u0085, \"b\"\xc3\xa4");
    cr_expect_not(next_row(&text, &row));
    exported_release(&csv);
    csv = export_of(subject, "csv-tensors");
    text = csv.bytes.data;
    cr_assert(next_row(&text, &header));
    cr_assert(next_row(&text, &row));
    cr_expect_str_eq(cell(&header, &row, "tensor"), "x");
    cr_assert(next_row(&text, &row));
    cr_expect_str_eq(cell(&header, &row, "tensor"), "'@y");
    exported_release(&csv);
    sp_subject_destroy(subject);
    sp_buf_release(&file);
}

Test(export_tables, csv_of_annotations_alone)
{
    struct sp_buf file = onnx_encode(odd_names);
    struct sp_subject *subject = subject_of(&file);
    struct exported csv = export_of(subject, "csv");
    const char *text = csv.bytes.data;
    struct row header, row;
    cr_assert(next_row(&text, &header));
    cr_assert(next_row(&text, &row));
    cr_expect_str_eq(cell(&header, &row, "node"), "a, \"b\"");
    cr_expect_str_eq(cell(&header, &row, "stage"), "1");
    cr_expect_str_eq(cell(&header, &row, "devices"), "0-1");
    cr_expect_str_eq(cell(&header, &row, "seconds"), "");
    cr_expect_not(next_row(&text, &row));
    exported_release(&csv);

    csv = export_of(subject, "csv-tensors");
    text = csv.bytes.data;
    cr_assert(next_row(&text, &header));
    cr_assert(next_row(&text, &row));
    cr_expect_str_eq(cell(&header, &row, "tensor"), "x");
    cr_assert(next_row(&text, &row));
    cr_expect_str_eq(cell(&header, &row, "tensor"), "y");
    cr_expect_str_eq(cell(&header, &row, "operand"), "output 0");
    cr_expect_str_eq(cell(&header, &row, "dtype"), "float32");
    cr_expect_str_eq(cell(&header, &row, "bytes"), "32");
    cr_expect_str_eq(cell(&header, &row, "bytes_per_device"), "32");
    cr_expect_str_eq(cell(&header, &row, "sharding"), "whole on devices 0, 1");
    cr_expect_not(next_row(&text, &row));
    exported_release(&csv);
    sp_subject_destroy(subject);
    sp_buf_release(&file);
}

/* ---- model explorer ---------------------------------------------------------------------------------------------- */

Test(export_tables, node_data_names_nodes_by_their_outputs)
{
    struct planned_model model;
    planned_mlp(&model, &deep, 2);
    static const char *const formats[] = {"model-explorer", "model-explorer-device", "model-explorer-seconds",
                                          "model-explorer-bytes"};
    const struct sp_graph *graph = model.subject->model->graph;
    for (size_t f = 0; f < 4; f++) {
        struct exported text = export_of(model.subject, formats[f]);
        json_t *json = parse(&text);
        cr_assert_eq(json_object_size(json), 1);
        const json_t *data = json_object_get(json, graph->name[0] != '\0' ? graph->name : "main");
        const json_t *results = json_object_get(data, "results");
        cr_expect_eq(json_object_size(results), graph->node_count);
        cr_expect_eq(json_is_array(json_object_get(data, "gradient")), f >= 2);
        for (uint32_t i = 0; i < graph->node_count; i++) {
            const struct sp_work_node *node = &model.plan->workload->nodes[i];
            const uint32_t stage = model.plan->result->placement.stage_of[i];
            const double values[] = {stage, stage, node->seconds[0], node->bytes};
            const json_t *result = json_object_get(results, graph->nodes[i].outputs[0]->name);
            cr_expect_eq(json_number_value(json_object_get(result, "value")), values[f], "%s %u", formats[f], i);
        }
        json_decref(json);
        exported_release(&text);
    }
    planned_release(&model);
}

/* ---- qualcomm ---------------------------------------------------------------------------------------------------- */

Test(export_tables, partitions_are_the_stages)
{
    struct planned_model model;
    planned_mlp(&model, &deep, 2);
    struct exported text = export_of(model.subject, "qualcomm-mdp");
    json_t *json = parse(&text);
    const json_t *connection = json_array_get(json_object_get(json, "connections"), 0);
    cr_expect_str_eq(json_string_value(json_object_get(connection, "type")), "p2p");
    cr_expect_eq(json_array_size(json_object_get(connection, "devices")), 2);
    const json_t *partitions = json_object_get(json, "partitions");
    cr_assert_eq(json_array_size(partitions), 2);
    uint32_t node = 0;
    for (size_t p = 0; p < 2; p++) {
        const json_t *partition = json_array_get(partitions, p);
        const json_t *nodes = json_object_get(partition, "nodeList");
        const json_t *device = json_array_get(json_object_get(partition, "devices"), 0);
        cr_expect_eq(json_integer_value(json_object_get(device, "deviceId")), (json_int_t)p);
        cr_expect_eq(json_integer_value(json_object_get(device, "numCores")), 16);
        cr_expect_str_eq(json_string_value(json_object_get(partition, "name")), p == 0 ? "Partition0" : "Partition1");
        for (size_t i = 0; i < json_array_size(nodes); i++, node++) {
            cr_expect_str_eq(json_string_value(json_array_get(nodes, i)), model.plan->workload->nodes[node].name);
            cr_expect_eq(model.plan->result->placement.stage_of[node], p);
        }
    }
    cr_expect_eq(node, model.plan->workload->node_count);
    json_decref(json);
    exported_release(&text);
    planned_release(&model);
}

/* Two Relus; the names are parts of the notation. */
static struct sp_buf two_nodes(const char *first, const char *second)
{
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "1:11 8{2:17} 26{1'a' 2:2} 7{ 2'g' 1{1'x' 2'h' %s 4'Relu' 10{1'a' 2{1'h' 2:0}}}"
                   " 1{1'h' 2'y' %s 4'Relu' 10{1'a' 2{1'y' 2:1}}}"
                   " 11{1'x' 2{1{1:1 2{1{1:8}}}}} 12{1'y' 2{1{1:1 2{1{1:8}}}}} }",
                   first, second);
    return onnx_encode(text);
}

Test(export_tables, tools_that_find_nodes_by_name_need_names)
{
    static const char *const formats[] = {"qualcomm-mdp", "poprt"};
    static const char *const names[][2] = {{"3'n'", ""}, {"3'n'", "3'n'"}};
    for (size_t f = 0; f < 2; f++) {
        for (size_t n = f == 0; n < 2; n++) { /* Qualcomm's compiler does without names */
            struct sp_buf file = two_nodes(names[n][0], names[n][1]);
            struct sp_subject *subject = subject_of(&file);
            struct exported text = export_any(subject, formats[f]);
            cr_expect_eq(text.status, SP_ERR_UNSUPPORTED);
            cr_expect_str_eq(text.err.code, "NODE_NAMES");
            exported_release(&text);
            sp_subject_destroy(subject);
            sp_buf_release(&file);
        }
    }
}

Test(export_tables, partitions_of_several_devices_are_told)
{
    struct sp_buf file = onnx_encode(odd_names);
    struct sp_subject *subject = subject_of(&file);
    struct exported text = export_of(subject, "qualcomm-mdp");
    json_t *json = parse(&text);
    const json_t *partition = json_array_get(json_object_get(json, "partitions"), 0);
    cr_expect_eq(json_array_size(json_object_get(partition, "devices")), 2);
    cr_expect_str_eq(text.notes.data, "SPLITS_LOST ");
    json_decref(json);
    exported_release(&text);

    /* Whole operators on one device each is all that these can say. */
    static const char *const formats[] = {"poprt", "poprt-model", "ort-layers", "ort-layers-options"};
    for (size_t f = 0; f < 4; f++) {
        text = export_any(subject, formats[f]);
        cr_expect_eq(text.status, SP_ERR_UNSUPPORTED);
        cr_expect_str_eq(text.err.code, "NODE_IS_SPLIT");
        exported_release(&text);
    }
    sp_subject_destroy(subject);
    sp_buf_release(&file);
}

/* ---- the table -----------------------------------------------------------------------------------------------------
 */

Test(export_tables, formats_are_found_by_name)
{
    cr_expect_null(sp_export_find("word"));
    cr_expect_null(sp_export_find(NULL));
    for (uint32_t i = 0; i < sp_export_format_count(); i++) {
        const struct sp_export_format *format = sp_export_format(i);
        cr_expect_eq(sp_export_find(format->name), format);
    }
    struct sp_buf file = onnx_encode(odd_names);
    struct sp_subject *subject = subject_of(&file);
    struct exported text = export_any(subject, "word");
    cr_expect_str_eq(text.err.code, "UNKNOWN_FORMAT");
    exported_release(&text);
    text = export_any(subject, "perfetto");
    cr_expect_eq(text.status, SP_ERR_REQUEST);
    cr_expect_str_eq(text.err.code, "NEEDS_PLAN");
    exported_release(&text);
    sp_subject_destroy(subject);
    sp_buf_release(&file);
}

static bool refuse(void *context, const void *bytes, size_t size)
{
    (void)context, (void)bytes, (void)size;
    return false;
}

Test(export_tables, a_sink_that_fails_is_an_error)
{
    struct planned_model model;
    planned_mlp(&model, &deep, 2);
    for (uint32_t i = 0; i < sp_export_format_count(); i++) {
        struct sp_error err = {0};
        const struct sp_export_request request = {
            .subject = model.subject, .format = sp_export_format(i)->name, .sink = {.write = refuse}};
        /* Stages are no model of Distributed operators, and nothing says which layer a node is of. */
        static const char *const none[] = {"ort",           "vllm-args", "sglang-args", "trtllm-args",
                                           "llamacpp-args", "mlx",       "exo",         "polygraphy-hints"};
        bool is_none = false;
        for (size_t k = 0; k < sizeof none / sizeof *none; k++)
            is_none = is_none || strcmp(request.format, none[k]) == 0;
        cr_expect_eq(sp_export_write(&request, &err), is_none ? SP_ERR_UNSUPPORTED : SP_ERR_IO, "%s", request.format);
    }
    planned_release(&model);
}
