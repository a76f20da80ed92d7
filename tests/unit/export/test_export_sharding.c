/* op-sharding and shardy, read back by the readers of these notations. */
#include <criterion/criterion.h>

#include "build_export.h"
#include "data_files.h"
#include "onnx_files.h"
#include "plan/infer/infer.h"
#include "sharding/dialect.h"
#include "sharding/hlo/hlo.h"

/* A model of the test data with its shardings completed as a request asks. */
static struct sp_buf completed(const char *name, const char *request)
{
    struct sp_error err = {0};
    struct sp_completion *completion;
    struct sp_splice *splice;
    size_t size;
    char path[512];
    (void)snprintf(path, sizeof path, SOURCE_ROOT "/tests/data/%s", name);
    unsigned char *bytes = data_read(path, &size);
    const struct sp_job_options options = {.bytes = bytes, .size = size, .name = name};
    json_t *json = json_loads(request, 0, NULL);
    cr_assert_not_null(json);
    cr_assert_not_null(bytes);
    cr_assert_eq(sp_completion_create(&options, json, &completion, &err), SP_OK, "%s", err.message);
    cr_assert_eq(sp_completion_annotate(completion, &splice, &err), SP_OK, "%s", err.message);
    struct sp_buf result = onnx_result(splice, bytes);
    sp_completion_destroy(completion);
    json_decref(json);
    free(bytes);
    return result;
}

/* Heads over "x", the batch over "y". */
static const char split[] = "{\"mode\": \"propagate\", \"mesh\": \"<[\\\"x\\\"=2, \\\"y\\\"=2]>\", \"set\": {"
                            "\"onnx::MatMul_214\": \"#sdy.sharding<@mesh, [{}, {\\\"x\\\"}]>\","
                            "\"ids\": \"#sdy.sharding<@mesh, [{\\\"y\\\"}, {}]>\"}}";

static const struct sp_sharding *sharding_at(const struct sp_subject *subject, const struct sp_node *node,
                                             uint32_t operand)
{
    return subject->assignment->nodes[sp_dataflow_node(subject->dataflow, node)].operands[operand].sharding;
}

static const struct sp_node *node_called(const struct sp_subject *subject, const char *name)
{
    const struct sp_graph *graph = subject->model->graph;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        if (strcmp(graph->nodes[i].name, name) == 0)
            return &graph->nodes[i];
    }
    cr_assert_fail("no node %s", name);
    return NULL;
}

/* What the value is as it was made, or first used. */
static const struct sp_sharding *sharding_of(const struct sp_subject *subject, const struct sp_value *value)
{
    if (value->producer != NULL)
        return sharding_at(subject, value->producer, value->producer->input_count + value->producer_output);
    return sharding_at(subject, value->uses[0].node, value->uses[0].input);
}

static void expect_holdings(const struct sp_sharding *expected, const struct sp_sharding *read,
                            const struct sp_value *value, int64_t devices)
{
    struct sp_error err = {0};
    struct sp_arena *arena = sp_arena_create(NULL);
    int64_t shape[SP_MAX_RANK];
    struct sp_sharding *a, *b;
    bool is_equal = false;
    const uint32_t rank = value->type.shape.rank;
    for (uint32_t i = 0; i < rank; i++)
        shape[i] = value->type.shape.dims[i].value;
    cr_assert_eq(sp_sharding_to_blocks(arena, expected, rank, devices, &a, NULL, &err), SP_OK, "%s", err.message);
    cr_assert_eq(sp_sharding_to_blocks(arena, read, rank, devices, &b, NULL, &err), SP_OK, "%s", err.message);
    cr_assert_eq(sp_sharding_equal(arena, a, b, rank, shape, &is_equal, &err), SP_OK, "%s", err.message);
    cr_expect(is_equal, "%s", value->name);
    sp_arena_destroy(arena);
}

/* ---- op-sharding --------------------------------------------------------------------------------------------------
 */

static size_t base64(const char *text, unsigned char *ret_bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t size = 0;
    cr_assert_eq(strlen(text) % 4, 0);
    for (; *text != '\0'; text += 4) {
        uint32_t bits = 0;
        for (int i = 0; i < 4; i++) {
            const char *digit = strchr(digits, text[i]);
            cr_assert(text[i] == '=' || digit != NULL);
            bits = bits << 6 | (text[i] == '=' ? 0 : (uint32_t)(digit - digits));
        }
        ret_bytes[size++] = (unsigned char)(bits >> 16);
        if (text[2] != '=')
            ret_bytes[size++] = (unsigned char)(bits >> 8);
        if (text[3] != '=')
            ret_bytes[size++] = (unsigned char)bits;
    }
    return size;
}

static void check_line(const struct sp_subject *subject, const json_t *line)
{
    struct sp_error err = {0};
    struct sp_arena *arena = sp_arena_create(NULL);
    unsigned char bytes[1024];
    char text[1024];
    struct sp_buf written;
    struct sp_hlo *hlo;
    struct sp_sharding *read;
    const struct sp_value *value =
        sp_graph_value(subject->model->graph, json_string_value(json_object_get(line, "tensor")));
    const char *node = json_string_value(json_object_get(line, "node"));
    const char *operand = json_string_value(json_object_get(line, "operand"));
    const struct sp_sharding *expected = sharding_of(subject, value);
    if (node != NULL) {
        const struct sp_node *user = node_called(subject, node);
        const uint32_t number = (uint32_t)strtoul(strchr(operand, ' '), NULL, 10);
        expected = sharding_at(subject, user, operand[0] == 'i' ? number : user->input_count + number);
    }
    const size_t size = base64(json_string_value(json_object_get(line, "bytes")), bytes);
    cr_assert_eq(sp_hlo_read_proto(arena, bytes, size, &hlo, &err), SP_OK, "%s", err.message);
    sp_buf_init(&written, sizeof text);
    sp_hlo_write_text(hlo, false, &written);
    cr_expect_str_eq(written.data, json_string_value(json_object_get(line, "text")));
    cr_assert_eq(sp_hlo_to_sharding(arena, hlo, &read, NULL, &err), SP_OK, "%s", err.message);
    expect_holdings(expected, read, value, subject->device_count);
    sp_buf_release(&written);
    sp_arena_destroy(arena);
}

static uint32_t check_lines(const struct sp_subject *subject)
{
    struct exported text = export_of(subject, "op-sharding");
    uint32_t count = 0;
    for (const char *line = text.bytes.data; *line != '\0'; count++) {
        const char *end = strchr(line, '\n');
        json_t *json = json_loadb(line, (size_t)(end - line), JSON_REJECT_DUPLICATES, NULL);
        cr_assert_not_null(json, "%.100s", line);
        check_line(subject, json);
        json_decref(json);
        line = end + 1;
    }
    cr_expect_str_eq(text.notes.data, "");
    exported_release(&text);
    return count;
}

Test(export_sharding, op_shardings_are_those_of_the_assignment)
{
    struct sp_buf file = completed("transformer_tiny.onnx", split);
    struct sp_subject *subject = subject_of(&file);
    cr_expect_geq(check_lines(subject), subject->model->graph->value_count);
    sp_subject_destroy(subject);
    sp_buf_release(&file);

    struct planned_model model;
    planned_mlp(&model, &(struct onnx_mlp){.layers = 4, .width = 4096, .batch = "512"}, 2);
    /* 4 weights, x, 8 results, and what crosses the border is used on another device than it is made on. */
    cr_expect_eq(check_lines(model.subject), 4 + 1 + 8 + 1);
    planned_release(&model);
}

/* An extent that is not known: the second use of x is on another device all the same. */
Test(export_sharding, symbols_hide_no_difference)
{
    struct sp_buf file = onnx_encode("1:11 8{2:17} 26{1'a' 2:2} 7{ 2'g' 1{1'x' 2'y' 3'n' 4'Relu' 10{1'a' 2{1'x' 2:0}"
                                     " 2{1'y' 2:0}}} 1{1'x' 2'z' 3'm' 4'Relu' 10{1'a' 2{1'x' 2:1} 2{1'z' 2:1}}}"
                                     " 11{1'x' 2{1{1:1 2{1{1:4} 1{2'n'}}}}} 12{1'y'} 12{1'z'} }");
    struct sp_subject *subject = subject_of(&file);
    struct exported text = export_of(subject, "op-sharding");
    cr_expect_not_null(strstr(text.bytes.data, "{\"tensor\": \"x\", \"node\": \"m\", \"operand\": \"input 0\", "
                                               "\"text\": \"{maximal device=1}\""),
                       "%s", text.bytes.data);
    exported_release(&text);
    sp_subject_destroy(subject);
    sp_buf_release(&file);
}

/* OpSharding: type MAXIMAL = 1 in field 1, the device in field 4 (packed). */
Test(export_sharding, one_device_is_maximal)
{
    struct planned_model model;
    planned_mlp(&model, &(struct onnx_mlp){.layers = 4, .width = 4096, .batch = "512"}, 2);
    struct exported text = export_of(model.subject, "op-sharding");
    cr_expect_not_null(strstr(text.bytes.data, "{\"tensor\": \"y\", \"node\": \"relu3\", \"operand\": \"output 0\", "
                                               "\"text\": \"{maximal device=1}\", \"bytes\": \"CAEiAQE=\"}\n"));
    exported_release(&text);
    planned_release(&model);
}

/* ---- shardy -------------------------------------------------------------------------------------------------------
 */

/* The definition of a mesh of the module, `sdy.mesh @name = <..>`, without its comment. */
static void mesh_of(const char *module, const char *sharding, char *ret_text, size_t size)
{
    char wanted[128];
    const char *name = strchr(sharding, '@');
    const size_t length = strcspn(name, ",");
    (void)snprintf(wanted, sizeof wanted, "  sdy.mesh %.*s = <", (int)length, name);
    const char *found = strstr(module, wanted);
    cr_assert_not_null(found, "%s is not defined", wanted);
    const char *end = strstr(found, "]>");
    cr_assert_not_null(end);
    (void)snprintf(ret_text, size, "%.*s", (int)(end + 2 - found - 2), found + 2);
}

static void expect_shardy(const struct sp_subject *subject, const char *module, const char *sharding,
                          const struct sp_sharding *expected, const struct sp_value *value)
{
    struct sp_error err = {0};
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_sharding *read;
    char mesh[4096], text[8192];
    mesh_of(module, sharding, mesh, sizeof mesh);
    const char *end = strstr(sharding, "]>");
    (void)snprintf(text, sizeof text, "%s\n%.*s", mesh, (int)(end + 2 - sharding), sharding);
    const struct sp_dialect_context context = {.rank = -1};
    cr_assert_eq(sp_dialect_read(arena, &(struct sp_dialect_text){SP_DIALECT_SHARDY, text, strlen(text)}, &context,
                                 &read, NULL, &err),
                 SP_OK, "%s: %s", text, err.message);
    expect_holdings(expected, read, value, subject->device_count);
    sp_arena_destroy(arena);
}

/* Every line of the module that states a sharding; how many there are. */
static uint32_t check_module(const struct sp_subject *subject, const char *module)
{
    uint32_t count = 0;
    const char *function = strstr(module, "  func.func @main(");
    cr_assert_not_null(function);
    for (const char *line = module; line < function && line != NULL && *line != '\0'; line = strchr(line, '\n') + 1) {
        const char *sharding = strstr(line, "#sdy.sharding"), *end = strchr(line, '\n');
        char name[256], user[256], operand[16];
        const struct sp_sharding *expected;
        const struct sp_value *value;
        if (sharding == NULL || sharding > end)
            continue;
        if (sscanf(line, "    {node = \"%255[^\"]\", operand = %15[0-9] : i64, value = \"%255[^\"]\"", user, operand,
                   name) == 3) {
            value = sp_graph_value(subject->model->graph, name);
            expected = sharding_at(subject, node_called(subject, user), (uint32_t)strtoul(operand, NULL, 10));
        } else {
            cr_assert_eq(sscanf(line, "    \"%255[^\"]\" = ", name), 1, "%.100s", line);
            value = sp_graph_value(subject->model->graph, name);
            expected = sharding_of(subject, value);
        }
        cr_assert_not_null(value);
        expect_shardy(subject, module, sharding, expected, value);
        count++;
    }
    return count;
}

Test(export_sharding, shardy_has_one_mesh_where_one_explains_all)
{
    struct sp_buf file = completed("transformer_tiny.onnx", split);
    struct sp_subject *subject = subject_of(&file);
    struct exported text = export_of(subject, "shardy");
    cr_expect_geq(check_module(subject, text.bytes.data), subject->model->graph->value_count);
    const char *mesh = strstr(text.bytes.data, "sdy.mesh ");
    cr_assert_not_null(mesh);
    static const char wanted[] = "sdy.mesh @mesh = <[\"axis_0\"=2, \"axis_1\"=2]>\n";
    cr_expect_eq(strncmp(mesh, wanted, strlen(wanted)), 0, "%.60s", mesh);
    cr_expect_null(strstr(mesh + 1, "sdy.mesh "));
    cr_expect_str_eq(text.notes.data, "");
    exported_release(&text);
    sp_subject_destroy(subject);
    sp_buf_release(&file);
}

Test(export_sharding, shardy_of_stages_is_maximal)
{
    struct planned_model model;
    planned_mlp(&model, &(struct onnx_mlp){.layers = 4, .width = 4096, .batch = "512"}, 2);
    struct exported text = export_of(model.subject, "shardy");
    cr_expect_eq(check_module(model.subject, text.bytes.data), 4 + 1 + 8 + 1);
    cr_expect_not_null(strstr(text.bytes.data, "  sdy.mesh @maximal_mesh_1 = <[], device_ids=[1]>\n"));
    exported_release(&text);
    planned_release(&model);
}

/* The function states what the table does: of arguments, of results, and of each operator. */
Test(export_sharding, shardy_has_a_function)
{
    struct sp_buf file = onnx_encode(
        "1:11 8{2:18} 8{1'own' 2:1} 26{1'a' 2:2} 7{2'g'"
        " 1{1'x' 2'h' 3'n' 4'Relu' 10{1'a' 2{1'x' 2:0 2:1 4{1:0 2{1:4 3:2}}} 2{1'h' 2:0 2:1 4{1:0 2{1:4 3:2}}}}}"
        " 1{1'h' 2'y' 3'm' 4'Relu' 10{1'a' 2{1'h' 2:0 2:1 4{1:1 2{1:2 3:2}}} 2{1'y' 2:0 2:1 4{1:1 2{1:2 3:2}}}}}"
        " 11{1'x' 2{1{1:1 2{1{1:4} 1{1:2}}}}} 12{1'y' 2{1{1:1 2{1{1:4} 1{1:2}}}}}}");
    struct sp_subject *subject = subject_of(&file);
    struct exported text = export_of(subject, "shardy");
    const char *function = strstr(text.bytes.data, "  func.func");
    cr_assert_not_null(function);
#define ROWS    "<@mesh, [{\"axis_0\"}, {}]>"
#define COLUMNS "<@mesh, [{}, {\"axis_0\"}]>"
#define FLOATS  "tensor<4x2xf32>"
    cr_expect_str_eq(function,
                     "  func.func @main(%v0: " FLOATS " {sdy.sharding = #sdy.sharding" ROWS "}) -> (" FLOATS
                     " {sdy.sharding = #sdy.sharding" COLUMNS "}) {\n"
                     "    %v1 = stablehlo.custom_call @Relu(%v0) {sdy.sharding = #sdy.sharding_per_value<[" ROWS
                     "]>} : (" FLOATS ") -> " FLOATS "\n"
                     "    %u0 = sdy.sharding_constraint %v1 " COLUMNS " : " FLOATS "\n"
                     "    %v2 = stablehlo.custom_call @Relu(%u0) {sdy.sharding = #sdy.sharding_per_value<[" COLUMNS
                     "]>} : (" FLOATS ") -> " FLOATS "\n"
                     "    return %v2 : " FLOATS "\n  }\n}\n");
    exported_release(&text);
    sp_subject_destroy(subject);
    sp_buf_release(&file);
}

/* x [4, 4] is split over devices 2 and 3 of 4, y over 0 .. 3 in an order that no cut of 0 .. 3 gives. */
static const char odd_meshes[] =
    "1:11 8{2:17} 26{1'a' 2:4} 7{ 2'g'"
    " 1{1'x' 2'h' 3'n' 4'Relu' 10{1'a' 2{1'x' 2:2 2:3 4{1:0 2{3:2}}} 2{1'h' 2:2 2:3 4{1:0 2{3:2}}}}}"
    " 1{1'w' 2'y' 3'm' 4'Relu' 10{1'a' 2{1'w' 2:0 2:3 2:1 2:2 4{1:0 2{3:4}}} 2{1'y' 2:0 2:3 2:1 2:2 4{1:0 2{3:4}}}}}"
    " 1{1'v' 2'u' 3'k' 4'Relu' 10{1'a' 2{1'v' 2:0 2:1 2:2 2:3 4{1:0 2{3:4}}} 2{1'u' 2:0 2:1 2:2 2:3 4{1:0 2{3:4}}}}}"
    " 11{1'x' 2{1{1:1 2{1{1:4} 1{1:4}}}}} 11{1'w' 2{1{1:1 2{1{1:4} 1{1:4}}}}} 11{1'v' 2{1{1:1 2{1{1:4} 1{1:4}}}}}"
    " 12{1'h' 2{1{1:1 2{1{1:4} 1{1:4}}}}} 12{1'y' 2{1{1:1 2{1{1:4} 1{1:4}}}}} 12{1'u' 2{1{1:1 2{1{1:4} 1{1:4}}}}} }";

Test(export_sharding, shardy_of_odd_device_sets)
{
    struct sp_buf file = onnx_encode(odd_meshes);
    struct sp_subject *subject;
    struct sp_error err = {0};
    enum sp_status status =
        sp_subject_from_model(&(struct sp_job_options){.bytes = file.data, .size = file.size}, NULL, &subject, &err);
    cr_assert_eq(status, SP_OK, "%s", err.message);
    struct exported text = export_of(subject, "shardy");
    cr_expect_str_eq(text.notes.data, "MESH_OF_A_PART ");
    cr_expect_not_null(strstr(text.bytes.data, " = <[\"axis_0\"=2]>  // devices 2, 3\n"), "%s", text.bytes.data);
    cr_expect_not_null(strstr(text.bytes.data, ", device_ids=[0,3,1,2]>\n"), "%s", text.bytes.data);
    cr_expect_not_null(strstr(text.bytes.data, " = <[\"axis_0\"=4]>\n"), "%s", text.bytes.data);
    exported_release(&text);
    sp_subject_destroy(subject);
    sp_buf_release(&file);
}
