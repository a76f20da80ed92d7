/* Models as tensors and relations over all their graphs. Notation of files: onnx_files.h. */
#include <criterion/criterion.h>
#include <string.h>

#include "infer/dataflow.h"
#include "onnx_files.h"
#include "ops/shapes/shapes.h"

struct test_dataflow {
    struct sp_buf file;
    struct onnx_model model;
    struct sp_dataflow *dataflow;
};

static void open_dataflow(struct test_dataflow *test, const char *notation)
{
    struct sp_shape_summary summary;
    struct sp_error err = {0};
    test->file = onnx_encode(notation);
    cr_assert_eq(onnx_read(&test->model, test->file.data, test->file.size), SP_OK, "%s", test->model.err.message);
    cr_assert_eq(sp_infer_shapes(test->model.model, NULL, &summary, &err), SP_OK, "%s", err.message);
    cr_assert_eq(sp_dataflow_create(test->model.arena, test->model.model, &test->dataflow, &err), SP_OK, "%s",
                 err.message);
}

static void close_dataflow(struct test_dataflow *test)
{
    onnx_release(&test->model);
    sp_buf_release(&test->file);
}

/* "Add x,y>z" for a node, "=Loop a>b" for a boundary, "<" behind it from one iteration to the next, one a line. */
static void write_relations(const struct sp_dataflow *dataflow, struct sp_buf *buf)
{
    sp_buf_init(buf, 1 << 16);
    for (uint32_t i = 0; i < dataflow->relation_count; i++) {
        const struct sp_relation *relation = &dataflow->relations[i];
        sp_buf_printf(buf, "%s%s ", relation->kind == SP_RELATION_SAME ? "=" : "", relation->node->op_type);
        for (uint32_t k = 0; k < relation->operand_count; k++) {
            bool is_omitted = relation->tensors[k] == SP_NO_TENSOR;
            sp_buf_printf(buf, "%s%s",
                          k == relation->input_count ? ">"
                          : k == 0                   ? ""
                                                     : ",",
                          is_omitted ? "-" : dataflow->tensors[relation->tensors[k]]->name);
        }
        sp_buf_text(buf, relation->is_back ? "<\n" : "\n");
    }
}

static void expect_relations(const char *notation, const char *expected)
{
    struct test_dataflow test;
    struct sp_buf text;
    open_dataflow(&test, notation);
    write_relations(test.dataflow, &text);
    cr_expect_str_eq(text.data, expected);
    sp_buf_release(&text);
    close_dataflow(&test);
}

#define FLOAT(dims) "2{1{1:1 2{" dims "}}}"
#define FOUR        FLOAT("1{1:4}")
#define BOOL        "2{1{1:9 2{}}}"
#define INT         "2{1{1:7 2{}}}"
#define MODEL(body) "1:8 8{2:16} 7{2'g' " body "}"

Test(dataflow, plain_nodes)
{
    expect_relations(MODEL("11{1'x' " FOUR "} 1{1'x' 2'h' 4'Relu'} 1{1'h' 1'' 1'x' 2'y' 4'Clip'} 12{1'y'}"),
                     "Relu x>h\nClip h,-,x>y\n");
}

/* The values of an If are those of its branches; what a branch uses of the outer graph is that very tensor. */
Test(dataflow, branches)
{
    expect_relations(MODEL("11{1'c' " BOOL "} 11{1'x' " FOUR "} 1{1'c' 2'y' 4'If' "
                           "5{1'then_branch' 20:5 6{2't' 1{1'x' 2'a' 4'Relu'} 12{1'a'}}} "
                           "5{1'else_branch' 20:5 6{2'e' 1{1'x' 2'b' 4'Abs'} 12{1'b'}}}} 12{1'y'}"),
                     "Relu x>a\n=If a>y\nAbs x>b\n=If b>y\n");
}

/* A carried value goes in, round, and out; what is collected has the iterations in front. */
Test(dataflow, loops)
{
    static const char loop[] = MODEL(
        "11{1'n' " INT "} 11{1'c' " BOOL "} 11{1'x' " FOUR "} 1{1'n' 1'c' 1'x' 2'y' 2's' 4'Loop' "
        "5{1'body' 20:5 6{2'b' 11{1'i' " INT "} 11{1'k' " BOOL "} 11{1'v' " FOUR "} 1{1'v' 2'w' 4'Relu'} "
        "1{1'k' 2'l' 4'Identity'} 1{1'w' 2'o' 4'Identity'} 12{1'l' " BOOL "} 12{1'w'} 12{1'o'}}}} 12{1'y'} 12{1's'}");
    expect_relations(loop, "=Loop x>v\nRelu v>w\nIdentity k>l\nIdentity w>o\n=Loop w>y\n=Loop o>s\n=Loop w>v<\n");
    struct test_dataflow test;
    open_dataflow(&test, loop);
    const struct sp_relation *collected = &test.dataflow->relations[5];
    cr_expect_eq(collected->extra_axis[0], -1);
    cr_expect_eq(collected->extra_axis[1], 0);
    struct sp_rule *rule = NULL;
    cr_assert_eq(sp_dataflow_rule(test.dataflow, collected, test.model.arena, &rule, NULL), SP_OK);
    struct sp_buf text;
    sp_buf_init(&text, 1024);
    sp_rule_print(rule, &text);
    cr_expect_str_eq(text.data, "[a00] -> [t,a00]  t: sequential");
    sp_buf_release(&text);
    close_dataflow(&test);
}

/* The scanned axis is outside only, wherever the attributes put it. */
Test(dataflow, scans)
{
    struct test_dataflow test;
    open_dataflow(&test, MODEL("11{1'h' " FOUR "} 11{1'x' " FLOAT(
                             "1{1:4} 1{1:6}") "} 1{1'h' 1'x' 2'y' 2'z' 4'Scan' "
                                              "5{1'num_scan_inputs' 3:1 20:2} 5{1'scan_input_axes' 8:-1 20:7} "
                                              "5{1'body' 20:5 6{2'b' 11{1'a' " FOUR "} 11{1'e' " FOUR
                                              "} 1{1'a' 1'e' 2'o' 4'Add'} "
                                              "1{1'o' 2'p' 4'Identity'} 12{1'o'} 12{1'p'}}}} 12{1'y'} 12{1'z'}"));
    struct sp_buf text;
    write_relations(test.dataflow, &text);
    cr_expect_str_eq(text.data, "=Scan h>a\n=Scan x>e\nAdd a,e>o\nIdentity o>p\n=Scan o>y\n=Scan p>z\n=Scan o>a<\n");
    sp_buf_release(&text);
    cr_expect_eq(test.dataflow->relations[1].extra_axis[0], 1);
    cr_expect_eq(test.dataflow->relations[1].extra_axis[1], -1);
    cr_expect_eq(test.dataflow->relations[5].extra_axis[1], 0);
    close_dataflow(&test);
}

/* Each call has a body of its own. */
Test(dataflow, calls)
{
    expect_relations("1:9 8{2:16} 8{1'd' 2:1} 7{2'g' 11{1'x' " FOUR "} 1{1'x' 2'y' 4'f' 7'd'} 1{1'y' 2'z' 4'f' 7'd'} "
                     "12{1'z'}} 25{1'f' 10'd' 4'p' 5'q' 9{2:16} 7{1'p' 2't' 4'Relu'} 7{1't' 2'q' 4'Abs'}}",
                     "=f x>p\nRelu p>t\nAbs t>q\n=f q>y\n=f y>p\nRelu p>t\nAbs t>q\n=f q>z\n");
}

Test(dataflow, numbers_are_those_of_the_main_graph_first)
{
    struct test_dataflow test;
    open_dataflow(&test,
                  MODEL("11{1'c' " BOOL "} 11{1'x' " FOUR "} 1{1'c' 2'y' 4'If' "
                        "5{1'then_branch' 20:5 6{2't' 1{1'x' 2'a' 4'Relu'} 12{1'a'}}} "
                        "5{1'else_branch' 20:5 6{2'e' 1{1'x' 2'b' 4'Abs'} 12{1'b'}}}} 1{1'y' 2'z' 4'Relu'} 12{1'z'}"));
    const struct sp_dataflow *dataflow = test.dataflow;
    const struct sp_graph *graph = test.model.model->graph;
    cr_assert_eq(dataflow->graph_count, 3);
    cr_assert_eq(dataflow->tensor_count, graph->value_count + 2);
    cr_assert_eq(dataflow->node_count, graph->node_count + 2);
    for (uint32_t i = 0; i < dataflow->tensor_count; i++)
        cr_expect_eq(sp_dataflow_tensor(dataflow, dataflow->tensors[i]), i);
    for (uint32_t i = 0; i < dataflow->node_count; i++)
        cr_expect_eq(sp_dataflow_node(dataflow, dataflow->nodes[i]), i);
    for (uint32_t i = 0; i < graph->value_count; i++)
        cr_expect_eq(dataflow->tensors[i], graph->values[i]);
    close_dataflow(&test);
}

/* What grows from turn to turn, or has an extent of one on one side, is no common axis. */
Test(dataflow, unequal_sides_share_no_axis)
{
    struct test_dataflow test;
    open_dataflow(&test,
                  MODEL("11{1'c' " BOOL "} 11{1'x' " FLOAT("1{1:1} 1{1:4}") "} 11{1'z' " FLOAT(
                      "1{1:3} 1{1:4}") "} "
                                       "1{1'c' 2'y' 4'If' 5{1'then_branch' 20:5 6{2't' 1{1'x' 2'a' 4'Relu'} 12{1'a'}}} "
                                       "5{1'else_branch' 20:5 6{2'e' 1{1'z' 2'b' 4'Abs'} 12{1'b'}}}} 12{1'y'}"));
    struct sp_rule *rule = NULL;
    struct sp_buf text;
    sp_buf_init(&text, 1024);
    cr_assert_eq(sp_dataflow_rule(test.dataflow, &test.dataflow->relations[1], test.model.arena, &rule, NULL), SP_OK);
    sp_rule_print(rule, &text);
    cr_expect_str_eq(text.data, "[_,a01] -> [_,a01]");
    sp_buf_release(&text);
    close_dataflow(&test);
}

/* Two nodes alike have one kept rule, which is then the rule of their relations. */
Test(dataflow, keeps_equal_rules_once)
{
    struct test_dataflow test;
    const struct sp_rule *first = NULL, *second = NULL, *other = NULL;
    struct sp_rule *made = NULL;
    open_dataflow(&test, MODEL("11{1'x' " FLOAT("1{1:8} 1{1:4}") "} 1{1'x' 2'a' 4'Relu'} 1{1'a' 2'b' 4'Abs'} "
                                                                 "1{1'b' 2'c' 4'Transpose'} 12{1'c'}"));
    struct sp_arena *scratch = sp_arena_create(NULL);
    cr_expect_not(sp_dataflow_has_rule(test.dataflow, &test.dataflow->relations[0]));
    cr_assert_eq(sp_dataflow_rule(test.dataflow, &test.dataflow->relations[0], scratch, &made, NULL), SP_OK);
    cr_expect(sp_dataflow_has_rule(test.dataflow, &test.dataflow->relations[0]));
    cr_assert_eq(sp_dataflow_keep_rule(test.dataflow, &test.dataflow->relations[0], scratch, &first, NULL), SP_OK);
    cr_assert_eq(sp_dataflow_keep_rule(test.dataflow, &test.dataflow->relations[1], scratch, &second, NULL), SP_OK);
    cr_assert_eq(sp_dataflow_keep_rule(test.dataflow, &test.dataflow->relations[2], scratch, &other, NULL), SP_OK);
    cr_assert_not_null(first);
    cr_expect_eq(first, (const struct sp_rule *)made);
    cr_expect_eq(first, second);
    cr_expect_neq(first, other);
    cr_assert_eq(sp_dataflow_rule(test.dataflow, &test.dataflow->relations[1], scratch, &made, NULL), SP_OK);
    cr_expect_eq((const struct sp_rule *)made, first);
    cr_expect_eq(sp_rules_count(sp_dataflow_rules(test.dataflow)), 2);
    sp_arena_destroy(scratch);
    close_dataflow(&test);
}
