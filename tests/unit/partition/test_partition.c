#include "trace_partition.h"

static void end(void)
{
    sp_buf_release(&trace);
    stop();
}

TestSuite(partition, .fini = end);

static struct sp_node *product(const char *a, const char *b, int64_t devices)
{
    start(18);
    input("A", a);
    input("B", b);
    struct sp_node *node = build_node(&build, "MatMul", "A B", "Y");
    build_outputs(&build, "Y");
    plan(devices);
    return node;
}

/* Rows are split: each device has its own, and nothing is sent. */
Test(partition, splits_rows)
{
    struct sp_node *node = product("4,8", "8,6", 2);
    given(node, "A", "2 |", "0; 1");
    given(node, "B", "|", "0 1");
    EXPECT_TRACE("input A [0:2, 0:8] -> d0\n"
                 "input A [2:4, 0:8] -> d1\n"
                 "input B [0:8, 0:6] -> d0\n"
                 "input B [0:8, 0:6] -> d1\n"
                 "MatMul on d0\n"
                 "MatMul on d1\n"
                 "result Y: d0 [0:2, 0:6] d1 [2:4, 0:6]\n");
}

/* The contracted axis is split: the products are partial, and everybody gets the sum. */
Test(partition, reduces_partial_products)
{
    struct sp_node *node = product("4,8", "8,6", 2);
    given(node, "A", "| 2", "0; 1");
    given(node, "B", "2 |", "0; 1");
    EXPECT_TRACE("input A [0:4, 0:4] -> d0\n"
                 "input A [0:4, 4:8] -> d1\n"
                 "input B [0:4, 0:6] -> d0\n"
                 "input B [4:8, 0:6] -> d1\n"
                 "MatMul on d0\n"
                 "MatMul on d1\n"
                 "all-reduce sum Y: d0(0+1) d1(0+1)\n"
                 "result Y: d0 [0:4, 0:6] d1 [0:4, 0:6]\n");
}

/* The output is wanted in parts: a reduce-scatter. */
Test(partition, scatters_where_parts_are_wanted)
{
    struct sp_node *node = product("4,8", "8,6", 2);
    given(node, "A", "| 2", "0; 1");
    given(node, "B", "2 |", "0; 1");
    given(node, "Y", "2 |", "0; 1");
    const char *text = trace_partition();
    cr_expect(strstr(text, "reduce-scatter sum Y: d0(0+1) d1(0+1)\n"), "%s", text);
    cr_expect(strstr(text, "result Y: d0 [0:2, 0:6] d1 [2:4, 0:6]\n"), "%s", text);
}

/* Two by two: sums along one axis of the mesh, within groups. */
Test(partition, reduces_in_groups)
{
    struct sp_node *node = product("4,8", "8,6", 4);
    given(node, "A", "2 | 2", "0; 1; 2; 3");
    given(node, "B", "2 |", "0 2; 1 3");
    const char *text = trace_partition();
    cr_expect(strstr(text, "all-reduce sum Y: d0(0+1) d1(0+1) | d2(2+3) d3(2+3)\n"), "%s", text);
    cr_expect(strstr(text, "result Y: d0 [0:2, 0:6] d1 [0:2, 0:6] d2 [2:4, 0:6] d3 [2:4, 0:6]\n"), "%s", text);
}

/* A stated output cuts what no input does: inputs are sliced, which costs nothing. */
Test(partition, follows_the_output)
{
    struct sp_node *node = product("4,8", "8,6", 2);
    given(node, "Y", "| 2", "0; 1");
    EXPECT_TRACE("input A [0:4, 0:8] -> d0\n"
                 "input A [0:4, 0:8] -> d1\n"
                 "input B [0:8, 0:3] -> d0\n"
                 "input B [0:8, 3:6] -> d1\n"
                 "MatMul on d0\n"
                 "MatMul on d1\n"
                 "result Y: d0 [0:4, 0:3] d1 [0:4, 3:6]\n");
}

/* Uneven: the last shard is shorter. */
Test(partition, splits_unevenly)
{
    struct sp_node *node = product("5,8", "8,6", 2);
    given(node, "A", "2 |", "0; 1");
    const char *text = trace_partition();
    cr_expect(strstr(text, "result Y: d0 [0:3, 0:6] d1 [3:5, 0:6]\n"), "%s", text);
}

static struct sp_node *chain(int64_t devices, struct sp_node **ret_second)
{
    start(18);
    input("X", "4,8");
    struct sp_node *first = build_node(&build, "Relu", "X", "H");
    *ret_second = build_node(&build, "Tanh", "H", "Y");
    build_outputs(&build, "Y");
    plan(devices);
    return first;
}

/* One stage after the other. */
Test(partition, sends_between_stages)
{
    struct sp_node *second, *first = chain(2, &second);
    given(first, "X", "|", "0");
    given(second, "H", "|", "1");
    EXPECT_TRACE("input X [0:4, 0:8] -> d0\n"
                 "Relu on d0\n"
                 "send-receive H: d0 d1(0) !\n"
                 "Tanh on d1\n"
                 "result Y: d1 [0:4, 0:8]\n");
}

/* Rows become columns. */
Test(partition, reshards_between_nodes)
{
    struct sp_node *second, *first = chain(2, &second);
    given(first, "X", "2 |", "0; 1");
    given(second, "H", "| 2", "0; 1");
    EXPECT_TRACE("input X [0:2, 0:8] -> d0\n"
                 "input X [2:4, 0:8] -> d1\n"
                 "Relu on d0\n"
                 "Relu on d1\n"
                 "all-to-all H: d0(0,1) d1(0,1)\n"
                 "Tanh on d0\n"
                 "Tanh on d1\n"
                 "result Y: d0 [0:4, 0:4] d1 [0:4, 4:8]\n");
}

/* What is whole comes from all. */
Test(partition, gathers)
{
    struct sp_node *second, *first = chain(4, &second);
    given(first, "X", "4 |", "3; 2; 1; 0");
    given(second, "H", "|", "0 1 2 3");
    const char *text = trace_partition();
    cr_expect(strstr(text, "all-gather H: d3(3,2,1,0) d2(3,2,1,0) d1(3,2,1,0) d0(3,2,1,0)\n"), "%s", text);
}

/* The same where devices have unequal shares: three blocks of four and one. */
Test(partition, gathers_shares)
{
    struct sp_node *second, *first = chain(2, &second);
    given(first, "X", "| 4", "0; 0; 0; 1");
    given(second, "H", "|", "0 1");
    const char *text = trace_partition();
    cr_expect(strstr(text, "\nall-gather-v H: d0(0,1) d1(0,1) !\n"), "%s", text);
}

/* Of 3, 3 and 2 columns. */
Test(partition, gathers_padded_shards)
{
    struct sp_node *second, *first = chain(3, &second);
    given(first, "X", "| 3", "0; 1; 2");
    given(second, "H", "|", "0 1 2");
    const char *text = trace_partition();
    cr_expect(strstr(text, "all-gather-v") == NULL, "%s", text);
}

/* Rows in shares become columns in shares. */
Test(partition, exchanges_shares)
{
    struct sp_node *second, *first = chain(2, &second);
    given(first, "X", "4 |", "0; 0; 0; 1");
    given(second, "H", "| 4", "0; 0; 0; 1");
    const char *text = trace_partition();
    cr_expect(strstr(text, "\nall-to-all-v H: d0(0,1) d1(0,1) !\n"), "%s", text);
}

/* A stage of two devices hands over to another of two. */
Test(partition, sends_shard_by_shard)
{
    struct sp_node *second, *first = chain(4, &second);
    given(first, "X", "2 |", "0; 1");
    given(second, "H", "2 |", "2; 3");
    const char *text = trace_partition();
    cr_expect(strstr(text, "send-receive H: d0 d1 d2(0) d3(1) !\n"), "%s", text);
}

/* Operands that cannot be: the node runs whole, and a note says so. */
Test(partition, runs_whole_where_operands_disagree)
{
    start(18);
    input("A", "4,4");
    input("B", "4,4");
    struct sp_node *node = build_node(&build, "Add", "A B", "Y");
    build_outputs(&build, "Y");
    plan(2);
    given(node, "A", "2 |", "0; 1");
    given(node, "B", "| 2", "0; 1");
    const char *text = trace_partition();
    cr_expect(strstr(text, "note OPERANDS_DISAGREE\n"), "%s", text);
    cr_expect(strstr(text, "result Y: d0 [0:4, 0:4] d1 [0:4, 0:4]\n"), "%s", text);
}

/* Shards of which some would be empty are not made. */
Test(partition, makes_no_empty_shards)
{
    struct sp_node *node = product("5,8", "8,6", 4);
    given(node, "A", "4 |", "0; 1; 2; 3");
    const char *text = trace_partition();
    cr_expect(strstr(text, "note SHARDS_UNEVEN\n"), "%s", text);
    cr_expect(strstr(text, "result Y: d0 [0:5, 0:6]"), "%s", text);
}

/* Nobody needs it, so nobody runs it; what is known of shapes is not computed. */
Test(partition, leaves_out_what_is_not_needed)
{
    start(18);
    input("X", "4,8");
    build_node(&build, "Relu", "X", "H");
    build_node(&build, "Shape", "X", "S");
    build_node(&build, "Tanh", "X", "Y");
    build_outputs(&build, "Y S");
    plan(1);
    EXPECT_TRACE("input X [0:4, 0:8] -> d0\n"
                 "Tanh on d0\n"
                 "result Y: d0 [0:4, 0:8]\n"
                 "constant on d0\n"
                 "result S: d0 [0:2]\n");
}

/* A result of no elements is made; a model input that is a result is not cut. */
Test(partition, gives_results_without_elements_and_inputs_that_are_results)
{
    start(18);
    input("X", "4,8");
    struct sp_node *none = build_node(&build, "Shape", "X", "S");
    build_attr_int(&build, none, "start", 2);
    struct sp_node *node = build_node(&build, "Tanh", "X", "Y");
    build_outputs(&build, "Y S X");
    plan(2);
    given(node, "X", "2 |", "0; 1");
    EXPECT_TRACE("input X [0:2, 0:8] -> d0\n"
                 "input X [2:4, 0:8] -> d1\n"
                 "Tanh on d0\n"
                 "Tanh on d1\n"
                 "result Y: d0 [0:2, 0:8] d1 [2:4, 0:8]\n"
                 "constant on d0\n"
                 "result S: d0 []\n"
                 "input X [0:4, 0:8] -> d0\n"
                 "result X: d0 [0:4, 0:8]\n");
}

/* A shape of two axes is none: no shard of the result can be written, so the operator gets all of it and says so. */
Test(partition, runs_whole_where_shapes_contradict)
{
    start(18);
    input("X", "4,3,2");
    build_input(&build, "S", SP_DTYPE_INT64, "3,16");
    struct sp_node *node = build_node(&build, "ConstantOfShape", "S", "Y");
    build_outputs(&build, "Y");
    plan(2);
    build_value(&build, "Y")->type = build_value(&build, "X")->type;
    given(node, "Y", "2 | |", "0; 1");
    const char *text = trace_partition();
    cr_expect(strstr(text, "note LOCAL_FORM\n"), "%s", text);
    cr_expect(strstr(text, "ConstantOfShape on d0\nConstantOfShape on d1\n"), "%s", text);
}

/* One value is one result, however often it is listed. */
Test(partition, tells_a_result_once)
{
    start(18);
    input("X", "4,8");
    build_node(&build, "Tanh", "X", "Y");
    build_outputs(&build, "Y Y");
    plan(1);
    EXPECT_TRACE("input X [0:4, 0:8] -> d0\n"
                 "Tanh on d0\n"
                 "result Y: d0 [0:4, 0:8]\n");
}

/* Both devices hold the whole: without a seed each would draw numbers of its own. */
Test(partition, draws_the_same_numbers_on_every_device)
{
    start(18);
    input("X", "4,8");
    struct sp_node *node = build_node(&build, "RandomNormalLike", "X", "Y");
    build_attr_float(&build, node, "seed", 7);
    build_outputs(&build, "Y");
    plan(2);
    given(node, "X", "|", "0 1");
    EXPECT_TRACE("input X [0:4, 0:8] -> d0\n"
                 "input X [0:4, 0:8] -> d1\n"
                 "RandomNormalLike on d0 seed 7\n"
                 "RandomNormalLike on d1 seed 7\n"
                 "result Y: d0 [0:4, 0:8] d1 [0:4, 0:8]\n");
    node->attribute_count = 0;
    EXPECT_TRACE("input X [0:4, 0:8] -> d0\n"
                 "input X [0:4, 0:8] -> d1\n"
                 "RandomNormalLike on d0 seed 0\n"
                 "RandomNormalLike on d1 seed 0\n"
                 "result Y: d0 [0:4, 0:8] d1 [0:4, 0:8]\n");
}
