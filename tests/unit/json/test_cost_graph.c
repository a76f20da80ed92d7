/* Graphs of costs (json/json.h, graph/cost_graph.h): what is read, and what is refused with its place. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "json/json.h"

static enum sp_status read_text(const char *text, struct sp_json_graph **ret_graph, struct sp_error *err)
{
    const struct sp_read_options options = {.hash_seed = 7};
    struct sp_budget budget = {.limit = (size_t)1 << 28};
    struct sp_buf bytes = {0};
    const size_t size = strlen(text);
    char *copy = malloc(size + 1); /* exactly as large: reading past the end is caught */
    cr_assert_not_null(copy);
    memcpy(copy + 1, text, size);
    *err = (struct sp_error){0};
    *ret_graph = NULL;
    enum sp_status status = sp_json_read(&budget, copy + 1, size, &options, &bytes, ret_graph, err);
    cr_assert_eq(status, err->status);
    cr_assert(status == SP_OK || *ret_graph == NULL);
    if (status == SP_OK)
        cr_expect_eq(budget.used, bytes.capacity + (*ret_graph != NULL ? (*ret_graph)->budget.used : 0));
    sp_buf_release(&bytes);
    free(copy);
    return status;
}

static struct sp_json_graph *read_graph(const char *text)
{
    struct sp_json_graph *graph;
    struct sp_error err;
    cr_assert_eq(read_text(text, &graph, &err), SP_OK, "%s: %s at '%s'", text, err.message, err.where);
    cr_assert_not_null(graph, "%s", text);
    return graph;
}

static void expect_error(const char *text, enum sp_status status, const char *code, const char *where)
{
    struct sp_json_graph *graph;
    struct sp_error err;
    cr_expect_eq(read_text(text, &graph, &err), status, "%s: %s", text, err.message);
    cr_expect_str_eq(err.code, code, "%s: %s", text, err.message);
    cr_expect_str_eq(err.where, where, "%s: %s", text, err.message);
    sp_json_graph_destroy(graph);
}

Test(cost_graph, what_is_read)
{
    struct sp_json_graph *held = read_graph(
        "{\"name\":\"g\",\"edges\":[{\"from\":\"a\",\"to\":7},{\"from\":\"a\",\"to\":\"c\",\"bytes\":5},"
        "{\"from\":7,\"to\":\"c\",\"seconds\":0.25}],"
        "\"nodes\":[{\"id\":\"a\",\"seconds\":{\"X\":1.5,\"y\":2},\"output_bytes\":100,\"memory_bytes\":1e3},"
        "{\"id\":7,\"name\":\"seven\",\"seconds\":0,\"group\":1},{\"id\":\"c\",\"seconds\":3,\"group\":\"1\"}]}");
    const struct sp_cost_graph *graph = &held->graph;
    cr_expect_str_eq(graph->name, "g");
    cr_assert_eq(graph->node_count, 3);
    cr_assert_eq(graph->edge_count, 3);
    cr_assert_eq(graph->device_count, 2);
    cr_expect_str_eq(graph->devices[0], "X");
    cr_expect_str_eq(graph->devices[1], "y");
    cr_expect_eq(graph->nodes[0].seconds, SP_COST_UNSAID);
    cr_assert_eq(graph->nodes[0].time_count, 2);
    cr_expect_eq(graph->times[graph->nodes[0].first_time].seconds, 1.5);
    cr_expect_eq(graph->times[graph->nodes[0].first_time + 1].device, 1);
    cr_expect_eq(graph->nodes[0].memory_bytes, 1000);
    cr_expect_eq(graph->nodes[0].group, SP_COST_NONE);
    cr_expect_str_eq(graph->nodes[0].name, "a");
    cr_expect_str_eq(graph->nodes[1].id, "7");
    cr_expect_str_eq(graph->nodes[1].name, "seven");
    cr_expect_eq(graph->nodes[1].seconds, 0);
    /* 1 and "1" are the same group. */
    cr_assert_eq(graph->group_count, 1);
    cr_expect_eq(graph->nodes[1].group, graph->nodes[2].group);
    /* The first edge carries the node's output, the second says its own bytes, the third its own time. */
    cr_assert_eq(graph->tensor_count, 3);
    cr_expect_eq(graph->tensors[graph->edges[0].tensor].bytes, 100);
    cr_expect_eq(graph->tensors[graph->edges[0].tensor].seconds, SP_COST_UNSAID);
    cr_expect_eq(graph->tensors[graph->edges[1].tensor].bytes, 5);
    cr_expect_eq(graph->tensors[graph->edges[2].tensor].bytes, 0);
    cr_expect_eq(graph->tensors[graph->edges[2].tensor].seconds, 0.25);
    sp_json_graph_destroy(held);
}

Test(cost_graph, edges_that_say_the_same_carry_the_same)
{
    struct sp_json_graph *held = read_graph(
        "{\"nodes\":[{\"id\":0,\"seconds\":1,\"output_bytes\":8},{\"id\":1,\"seconds\":1,\"output_bytes\":8},"
        "{\"id\":2,\"seconds\":1},{\"id\":3,\"seconds\":1}],\"edges\":["
        "{\"from\":0,\"to\":2},{\"from\":0,\"to\":3,\"bytes\":8},{\"from\":1,\"to\":3},"
        "{\"from\":1,\"to\":2,\"tensor\":\"l\",\"bytes\":4},{\"from\":1,\"to\":3,\"tensor\":\"r\",\"bytes\":4},"
        "{\"from\":1,\"to\":2,\"tensor\":\"r\",\"bytes\":4}]}");
    const struct sp_cost_edge *edges = held->graph.edges;
    cr_expect_eq(held->graph.tensor_count, 4);
    cr_expect_eq(edges[0].tensor, edges[1].tensor);
    cr_expect_neq(edges[0].tensor, edges[2].tensor); /* another node */
    cr_expect_neq(edges[3].tensor, edges[4].tensor); /* other names */
    cr_expect_eq(edges[4].tensor, edges[5].tensor);
    cr_expect_str_eq(held->graph.tensors[edges[5].tensor].name, "r");
    sp_json_graph_destroy(held);
}

#define NODE(id) "{\"id\":" id ",\"seconds\":1}"

Test(cost_graph, wrong_nodes)
{
    static const struct {
        const char *text, *code, *where;
    } cases[] = {
        {"{\"nodes\":[{\"id\":1}],\"edges\":[]}", "MEMBER_MISSING", "/nodes/0"},
        {"{\"nodes\":[{\"seconds\":1}],\"edges\":[]}", "MEMBER_MISSING", "/nodes/0"},
        {"{\"edges\":[]}", "MEMBER_MISSING", ""},
        {"{\"nodes\":{},\"edges\":[]}", "ARRAY_EXPECTED", "/nodes"},
        {"{\"nodes\":[1],\"edges\":[]}", "OBJECT_EXPECTED", "/nodes/0"},
        {"{\"nodes\":[" NODE("1") "," NODE("\"1\"") "],\"edges\":[]}", "ID_TWICE", "/nodes/1/id"},
        {"{\"nodes\":[" NODE("1.5") "],\"edges\":[]}", "LABEL_EXPECTED", "/nodes/0/id"},
        {"{\"nodes\":[" NODE("true") "],\"edges\":[]}", "LABEL_EXPECTED", "/nodes/0/id"},
        {"{\"nodes\":[" NODE("\"\"") "],\"edges\":[]}", "NAME_EXPECTED", "/nodes/0/id"},
        {"{\"nodes\":[" NODE("\"a\\u0000b\"") "],\"edges\":[]}", "NAME_EXPECTED", "/nodes/0/id"},
        {"{\"nodes\":[{\"id\":1,\"seconds\":-1}]}", "NUMBER_OUT_OF_RANGE", "/nodes/0/seconds"},
        {"{\"nodes\":[{\"id\":1,\"seconds\":1000001}]}", "NUMBER_OUT_OF_RANGE", "/nodes/0/seconds"},
        {"{\"nodes\":[{\"id\":1,\"seconds\":1e999}]}", "NUMBER_EXPECTED", "/nodes/0/seconds"},
        {"{\"nodes\":[{\"id\":1,\"seconds\":\"NaN\"}]}", "SECONDS_EXPECTED", "/nodes/0/seconds"},
        {"{\"nodes\":[{\"id\":1,\"seconds\":{}}]}", "SECONDS_EXPECTED", "/nodes/0/seconds"},
        {"{\"nodes\":[{\"id\":1,\"seconds\":{\"d\":\"1\"}}]}", "NUMBER_EXPECTED", "/nodes/0/seconds/d"},
        {"{\"nodes\":[{\"id\":1,\"seconds\":{\"d\":1,\"d\":2}}]}", "MEMBER_TWICE", "/nodes/0/seconds/d"},
        {"{\"nodes\":[{\"id\":1,\"seconds\":{\"\":1}}]}", "NAME_EXPECTED", "/nodes/0/seconds/"},
        {"{\"nodes\":[{\"id\":1,\"seconds\":1,\"bytes\":1}]}", "MEMBER_UNKNOWN", "/nodes/0/bytes"},
        {"{\"nodes\":[{\"id\":1,\"seconds\":1,\"memory_bytes\":-1}]}", "NUMBER_OUT_OF_RANGE", "/nodes/0/memory_bytes"},
        {"{\"nodes\":[{\"id\":1,\"seconds\":1,\"output_bytes\":2e18}]}", "NUMBER_OUT_OF_RANGE",
         "/nodes/0/output_bytes"},
        {"{\"nodes\":[{\"id\":1,\"seconds\":1,\"group\":[]}]}", "LABEL_EXPECTED", "/nodes/0/group"},
        {"{\"nodes\":[{\"id\":1,\"seconds\":1}],\"opset\":1}", "MEMBER_UNKNOWN", "/opset"},
        {"{\"nodes\":[{\"id\":1,\"seconds\":1}],\"name\":1}", "TEXT_EXPECTED", "/name"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_error(cases[i].text, SP_ERR_MALFORMED, cases[i].code, cases[i].where);
}

#define THREE "{\"nodes\":[" NODE("1") "," NODE("2") "," NODE("3") "],\"edges\":["

Test(cost_graph, wrong_edges)
{
    static const struct {
        const char *text, *code, *where;
    } cases[] = {
        {THREE "{\"from\":1}]}", "MEMBER_MISSING", "/edges/0"},
        {THREE "{\"from\":1,\"to\":4}]}", "ID_UNKNOWN", "/edges/0/to"},
        {THREE "{\"from\":1,\"to\":2},{\"from\":2,\"to\":2}]}", "SELF_EDGE", "/edges/1"},
        {THREE "{\"from\":1,\"to\":2,\"bytes\":null}]}", "NUMBER_EXPECTED", "/edges/0/bytes"},
        {THREE "{\"from\":1,\"to\":2,\"seconds\":-0.1}]}", "NUMBER_OUT_OF_RANGE", "/edges/0/seconds"},
        {THREE "{\"from\":1,\"to\":2,\"weight\":1}]}", "MEMBER_UNKNOWN", "/edges/0/weight"},
        {THREE
         "{\"from\":1,\"to\":2,\"tensor\":\"t\",\"bytes\":1},{\"from\":1,\"to\":3,\"tensor\":\"t\",\"bytes\":2}]}",
         "TENSOR_CONTRADICTS", "/edges/1"},
        {THREE "{\"from\":3,\"to\":1},{\"from\":1,\"to\":2},{\"from\":2,\"to\":3}]}", "CYCLE", "/edges/1"},
    };
    struct sp_json_graph *graph;
    struct sp_error err;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_error(cases[i].text, SP_ERR_MALFORMED, cases[i].code, cases[i].where);
    cr_expect_eq(read_text(THREE "{\"from\":3,\"to\":2},{\"from\":1,\"to\":2},{\"from\":2,\"to\":3}]}", &graph, &err),
                 SP_ERR_MALFORMED);
    cr_expect_not_null(strstr(err.message, "'2' -> '3' -> '2'"), "%s", err.message);
}

Test(cost_graph, limits)
{
    struct sp_buf text;
    struct sp_json_graph *graph;
    struct sp_error err;
    sp_buf_init(&text, (size_t)1 << 24);
    sp_buf_text(&text, "{\"nodes\":[{\"id\":\"");
    for (int i = 0; i <= SP_MAX_NAME_BYTES; i++)
        sp_buf_text(&text, "n");
    sp_buf_text(&text, "\",\"seconds\":1}]}");
    cr_assert_not(sp_buf_failed(&text));
    cr_expect_eq(read_text(text.data, &graph, &err), SP_ERR_LIMIT);
    cr_expect_str_eq(err.limit, "SP_MAX_NAME_BYTES");
    sp_buf_clear(&text);
    sp_buf_text(&text, "{\"nodes\":[{\"id\":1,\"seconds\":{\"d0\":1");
    for (int i = 1; i <= SP_MAX_DEVICE_GROUPS; i++)
        sp_buf_printf(&text, ",\"d%d\":1", i);
    sp_buf_text(&text, "}}]}");
    cr_expect_eq(read_text(text.data, &graph, &err), SP_ERR_LIMIT);
    cr_expect_str_eq(err.limit, "SP_MAX_DEVICE_GROUPS");
    sp_buf_release(&text);
}

Test(cost_graph, order_is_that_of_the_file_where_edges_allow)
{
    struct sp_json_graph *held = read_graph("{\"nodes\":[" NODE("0") "," NODE("1") "," NODE("2") "," NODE("3") "," NODE(
        "4") "],"
             "\"edges\":[{\"from\":4,\"to\":1},{\"from\":2,\"to\":0}]}");
    struct sp_arena *arena = sp_arena_create(NULL);
    static const uint32_t expected[] = {2, 0, 3, 4, 1};
    uint32_t *order, *cycle, length;
    struct sp_error err = {0};
    cr_assert_eq(sp_cost_graph_order(arena, &held->graph, &order, &cycle, &length, &err), SP_OK);
    cr_expect_null(cycle);
    cr_expect_arr_eq(order, expected, sizeof expected);
    sp_arena_destroy(arena);
    sp_json_graph_destroy(held);
}
