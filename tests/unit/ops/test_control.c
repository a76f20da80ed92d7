/*
 * Shape inference through subgraphs. What is expected follows from the operators' definitions (ONNX Operators.md: If,
 * Loop, Scan, SequenceMap; Changelog.md: Scan-8) on small bodies.
 */
#include <stdlib.h>

#include "control_models.h"
#include "cost/workload.h"

TestSuite(control, .timeout = 120);

/* ---- If ------------------------------------------------------------------------------------------------------ */

#define COND IN(BOOL("c", ""))
#define X2N  IN(F32("x", DIM(2) SYM("n")))

static bool is_fresh(struct sp_dim dim)
{
    const struct sp_dims *dims = opened.model->dims;
    struct sp_buf text;
    bool result = false;
    sp_buf_init(&text, 200);
    sp_dim_print(dim, &text);
    for (uint32_t i = 0; dim.kind == SP_DIM_SYMBOLIC && i < sp_dims_symbol_count(dims); i++)
        result = result || (sp_dims_symbol_is_fresh(dims, i) && strcmp(sp_dims_symbol_name(dims, i), text.data) == 0);
    sp_buf_release(&text);
    return result;
}

static struct sp_dim dim_of(const char *name, uint32_t axis)
{
    const struct sp_shape *shape = &value_in(MAIN, name)->type.shape;
    cr_assert(shape->has_rank && axis < shape->rank, "%s", name);
    return shape->dims[axis];
}

#define TWO_BRANCHES(then_nodes, else_nodes)                                                                           \
    NODE("If", A("c") R("y"),                                                                                          \
         GRAPH_ATTR("else_branch", else_nodes OUT("e")) GRAPH_ATTR("then_branch", then_nodes OUT("t")))

Test(control, branches_are_joined)
{
    open_model(MODEL(16, COND X2N TWO_BRANCHES(NODE("Relu", A("x") R("t"), ""),
                                               NODE("Concat", A("x") A("x") R("e"), INT_ATTR("axis", 1)))
                             NODE("Relu", A("y") R("z"), "") OUT("z")));
    const struct sp_node *node = &MAIN->nodes[0];
    EXPECT_IN(graph_of(node, "then_branch"), "t", "float32[2,n]");
    EXPECT_IN(graph_of(node, "else_branch"), "e", "float32[2,2*n]");
    cr_expect(sp_dim_is(dim_of("y", 0), 2));
    cr_expect(is_fresh(dim_of("y", 1)));
    cr_expect(sp_dim_equal(dim_of("y", 1), dim_of("z", 1)), "what follows is connected");
    cr_expect_eq(opened_summary.unknown_op_count, 0);
    cr_expect_not(node->is_folded);
    close_model();
}

Test(control, branches_of_other_ranks_have_none_together)
{
    open_model(MODEL(16, COND X2N TWO_BRANCHES(NODE("Relu", A("x") R("t"), ""),
                                               NODE("ReduceSum", A("x") R("e"), INT_ATTR("keepdims", 0))) OUT("y")));
    EXPECT("y", "float32[*]");
    close_model();
}

Test(control, branches_of_other_element_types_are_refused)
{
    refuse_model(MODEL(16, COND X2N TWO_BRANCHES(NODE("Relu", A("x") R("t"), ""),
                                                 NODE("Cast", A("x") R("e"), INT_ATTR("to", 7))) OUT("y")),
                 "BRANCHES_DISAGREE");
    refuse_model(MODEL(16, COND X2N NODE("If", A("c") R("y"),
                                         GRAPH_ATTR("then_branch", NODE("Relu", A("x") R("t"), "") OUT("t"))) OUT("y")),
                 "MISSING_ATTRIBUTE");
}

/* The other branch would be wrong (its Reshape does not fit), as where exporters guard a Squeeze. */
Test(control, a_known_condition_takes_one_branch)
{
    open_model(MODEL(16, BOOL_CONST("c", 1) IN(F32("x", DIM(2) DIM(3)))
                             TWO_BRANCHES(NODE("Relu", A("x") R("t"), ""), NODE("Squeeze", A("x") A("ax") R("e"),
                                                                                "")) "5{1:1 2:7 7:0 8'ax'} " OUT("y")));
    EXPECT("y", "float32[2,3]");
    close_model();
    open_model(MODEL(16, BOOL_CONST("c", 0) X2N TWO_BRANCHES(NODE("Relu", A("x") R("t"), ""),
                                                             NODE("Shape", A("x") R("e"), "")) OUT("y")));
    EXPECT("y", "int64[2]");
    const struct sp_data *data = value_in(MAIN, "y")->data;
    cr_assert(data != NULL && data->count == 2);
    cr_expect(sp_dim_is(data->ints[0], 2));
    close_model();
}

/* Known elements that both branches give; a constant that one of them gives alone is none. */
Test(control, elements_that_agree_are_known)
{
    open_model(MODEL(16, COND INT_CONST("five", 5) INT_CONST("six", 6) TWO_BRANCHES(
                             NODE("Identity", A("five") R("t"), ""), NODE("Identity", A("five") R("e"), ""))
                             NODE("If", A("c") R("w"),
                                  GRAPH_ATTR("then_branch", NODE("Identity", A("five") R("t2"), "") OUT("t2"))
                                      GRAPH_ATTR("else_branch", NODE("Identity", A("six") R("e2"), "") OUT("e2")))
                                 OUT("y") OUT("w")));
    cr_assert_not_null(value_in(MAIN, "y")->data);
    cr_expect(sp_dim_is(value_in(MAIN, "y")->data->ints[0], 5));
    cr_expect(MAIN->nodes[0].is_folded);
    cr_expect_null(value_in(MAIN, "w")->data);
    cr_expect_not(MAIN->nodes[1].is_folded);
    close_model();
}

/* ---- Loop ---------------------------------------------------------------------------------------------------- */

#define BODY_HEAD IN(I64("i", "")) IN(BOOL("go", ""))
/* The state s grows by the rows of x, and each turn stacks what it had before. */
#define GROWING_BODY                                                                                                   \
    BODY_HEAD IN("1's' ") NODE("Concat", A("s") A("x") R("s2"), INT_ATTR("axis", 0))                                   \
        NODE("ReduceSum", A("s") R("row"), INT_ATTR("keepdims", 0)) NODE("Identity", A("go") R("go2"), "") OUT("go2")  \
            OUT("s2") OUT("row")

/* 4 rows, and 3 more in each of 5 turns. */
Test(control, growth_by_the_same_in_each_turn)
{
    open_model(MODEL(18, INT_CONST("m", 5) IN(F32("x", DIM(3) SYM("n"))) IN(F32("s0", DIM(4) SYM("n")))
                             NODE("Loop", A("m") A("") A("s0") R("s1") R("rows"), GRAPH_ATTR("body", GROWING_BODY))
                                 OUT("s1") OUT("rows")));
    const struct sp_graph *body = graph_of(&MAIN->nodes[0], "body");
    EXPECT("s1", "float32[19,n]");
    EXPECT("rows", "float32[5]");
    const struct sp_shape *inside = &value_in(body, "s")->type.shape;
    cr_expect(is_fresh(inside->dims[0]), "any number of rows in a turn");
    cr_expect_eq(opened_summary.unknown_op_count, 0);
    cr_expect(value_in(body, "go")->data != NULL && !value_in(body, "go")->is_constant);
    close_model();
}

/* The number of turns is an extent of an input: 4 + 3 rows for each of its n. */
Test(control, a_symbolic_number_of_turns)
{
    open_model(MODEL(18, IN(F32("x", DIM(3) SYM("n"))) IN(F32("s0", DIM(4) SYM("n"))) INT_CONST("one", 1)
                             NODE("Shape", A("x") R("shape"), "") NODE("Gather", A("shape") A("one") R("m"), "")
                                 NODE("Loop", A("m") A("") A("s0") R("s1") R("rows"), GRAPH_ATTR("body", GROWING_BODY))
                                     OUT("s1") OUT("rows")));
    EXPECT("s1", "float32[3*n + 4,n]");
    EXPECT("rows", "float32[n]");
    close_model();
}

Test(control, a_condition_of_data_ends_a_loop_anywhere)
{
    open_model(MODEL(18, INT_CONST("m", 5) COND IN(F32("x", DIM(3) SYM("n"))) IN(F32("s0", DIM(4) SYM("n")))
                             NODE("Loop", A("m") A("c") A("s0") R("s1") R("rows"), GRAPH_ATTR("body", GROWING_BODY))
                                 OUT("s1") OUT("rows")));
    cr_expect(is_fresh(dim_of("s1", 0)));
    cr_expect(is_fresh(dim_of("rows", 0)));
    cr_expect_not(sp_dim_equal(dim_of("s1", 0), value_in(graph_of(&MAIN->nodes[0], "body"), "s")->type.shape.dims[0]));
    close_model();
}

/* A counter is no constant, however known its first value; an unchanged extent and a constant from outside stay. */
#define COUNTING_BODY                                                                                                  \
    BODY_HEAD IN("1'k' ") IN("1'v' ") NODE("Add", A("k") A("one") R("k2"), "")                                         \
        NODE("Add", A("one") A("one") R("two"), "") NODE("Mul", A("v") A("v") R("v2"), "")                             \
            NODE("Identity", A("go") R("go2"), "") OUT("go2") OUT("k2") OUT("v2") OUT("two")

Test(control, carried_values_are_not_constant)
{
    open_model(MODEL(18, INT_CONST("m", 5) INT_CONST("k0", 7) INT_CONST("one", 1)
                             X2N NODE("Loop", A("m") A("") A("k0") A("x") R("k1") R("v1") R("twos"),
                                      GRAPH_ATTR("body", COUNTING_BODY)) OUT("k1") OUT("v1")));
    const struct sp_graph *body = graph_of(&MAIN->nodes[0], "body");
    EXPECT("k1", "int64[]");
    EXPECT("v1", "float32[2,n]");
    EXPECT("twos", "int64[5]");
    cr_expect_not(value_in(body, "k2")->is_constant);
    cr_expect_null(value_in(body, "k2")->data);
    cr_expect_null(value_in(MAIN, "k1")->data);
    cr_expect_not(MAIN->nodes[0].is_folded);
    cr_assert(value_in(body, "two")->is_constant && value_in(body, "two")->data != NULL);
    cr_expect(sp_dim_is(value_in(body, "two")->data->ints[0], 2));
    close_model();
}

Test(control, states_keep_their_element_type)
{
    refuse_model(MODEL(18, INT_CONST("m", 5) X2N NODE(
                               "Loop", A("m") A("") A("x") R("y"),
                               GRAPH_ATTR("body", BODY_HEAD IN("1's' ") NODE("Cast", A("s") R("s2"), INT_ATTR("to", 7))
                                                      OUT("go") OUT("s2"))) OUT("y")),
                 "STATE_CHANGES_TYPE");
    refuse_model(MODEL(18, INT_CONST("m", 5) X2N NODE("Loop", A("m") A("") A("x") R("y"),
                                                      GRAPH_ATTR("body", BODY_HEAD OUT("go"))) OUT("y")),
                 "WRONG_BODY");
}

/* Forty states that move on by one place each turn: what widens the first arrives at the last one turn by turn. */
Test(control, many_passes_end)
{
    enum { COUNT = 40 };
    static char text[20000];
    size_t used = 0;
#define ADD(...) used += (size_t)snprintf(text + used, sizeof(text) - used, __VA_ARGS__)
    ADD("1:10 8{2:18} 7{2'g' 5{2:7 7:5 8'm'} ");
    for (int i = 0; i < COUNT; i++)
        ADD("11{1'x%d' 2{1{1:1 2{1{1:%d}}}}} ", i, i == 0 ? 9 : 4);
    ADD("1{1'm' 1'' ");
    for (int i = 0; i < COUNT; i++)
        ADD("1'x%d' 2'y%d' ", i, i);
    ADD("4'Loop' 5{1'body' 20:5 6{11{1'i'} 11{1'go'} ");
    for (int i = 0; i < COUNT; i++)
        ADD("11{1's%d'} ", i);
    ADD("12{1'go'} 12{1's0'} ");
    for (int i = 1; i < COUNT; i++)
        ADD("12{1's%d'} ", i - 1);
    ADD("}}} 12{1'y0'}}");
#undef ADD
    open_model(text);
    for (int i = 0; i < COUNT; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "y%d", i);
        const struct sp_type *type = &value_in(MAIN, name)->type;
        cr_expect(type->dtype == SP_DTYPE_FLOAT && (!type->shape.has_rank || is_fresh(type->shape.dims[0])), "%s",
                  name);
    }
    close_model();
}

/* Loops in loops, each with a growing state of its own: passes multiply, and the walk still ends soon. */
Test(control, deep_loops_end)
{
    enum { DEPTH = 16 };
    static char text[20000];
    size_t used = 0;
#define ADD(...) used += (size_t)snprintf(text + used, sizeof(text) - used, __VA_ARGS__)
    ADD("1:10 8{2:18} 7{2'g' 5{2:7 7:5 8'm'} 11{1's0' 2{1{1:1 2{1{1:4}}}}} ");
    for (int i = 0; i < DEPTH; i++)
        ADD("1{1'm' 1'' 1's%d' 2'y%d' 4'Loop' 5{1'body' 20:5 6{11{1'i%d'} 11{1'go%d'} 11{1's%d'} ", i, i, i, i, i + 1);
    ADD("1{1's%d' 2'y%d' 4'Relu'} ", DEPTH, DEPTH);
    for (int i = DEPTH; i > 0; i--)
        ADD("1{1'y%d' 1's0' 2'c%d' 4'Concat' 5{1'axis' 20:2 3:0}} 12{1'go%d'} 12{1'c%d'}}}} ", i, i, i - 1, i);
    ADD("12{1'y0'}}");
#undef ADD
    open_model(text);
    const struct sp_type *type = &value_in(MAIN, "y0")->type;
    cr_expect(type->kind == SP_TYPE_NONE || type->dtype == SP_DTYPE_FLOAT);
    cr_expect_eq(opened_summary.unknown_op_count, 0);
    close_model();
}

/* ---- Scan ---------------------------------------------------------------------------------------------------- */

#define SUM_BODY                                                                                                       \
    IN("1's' ")                                                                                                        \
    IN("1'x' ") NODE("Add", A("s") A("x") R("s2"), "") NODE("Mul", A("s2") A("x") R("p"), "") OUT("s2") OUT("p")

/* 7 turns along axis 1, stacked along the last axis. */
Test(control, scan_goes_along_an_axis)
{
    open_model(MODEL(16, IN(F32("s0", DIM(2) SYM("n"))) IN(F32("xs", DIM(2) DIM(7) SYM("n"))) NODE(
                             "Scan", A("s0") A("xs") R("s1") R("ps"),
                             GRAPH_ATTR("body", SUM_BODY) INT_ATTR("num_scan_inputs", 1) INTS_ATTR("scan_input_axes", 1)
                                 INTS_ATTR("scan_output_axes", -1)) OUT("s1") OUT("ps")));
    EXPECT("s1", "float32[2,n]");
    EXPECT("ps", "float32[2,n,7]");
    EXPECT_IN(graph_of(&MAIN->nodes[0], "body"), "x", "float32[2,n]");
    close_model();
}

/* Scan-8 has a batch axis in front of everything, and optional lengths. */
Test(control, scan_8_has_a_batch)
{
    open_model(MODEL(8, IN(F32("s0", SYM("b") DIM(2))) IN(F32("xs", SYM("b") DIM(7) DIM(2)))
                            NODE("Scan", A("") A("s0") A("xs") R("s1") R("ps"),
                                 GRAPH_ATTR("body", SUM_BODY) INT_ATTR("num_scan_inputs", 1)) OUT("s1") OUT("ps")));
    EXPECT("s1", "float32[b,2]");
    EXPECT("ps", "float32[b,7,2]");
    EXPECT_IN(graph_of(&MAIN->nodes[0], "body"), "x", "float32[2]");
    EXPECT_RULE(&MAIN->nodes[0], "[] [f0,f1] [f0,t,f1] -> [f0,f1] [f0,t,f1]  t: sequential");
    close_model();
}

Test(control, scans_of_other_lengths_are_refused)
{
    refuse_model(MODEL(16, IN(F32("a", DIM(7) DIM(2))) IN(F32("b", DIM(6) DIM(2)))
                               NODE("Scan", A("a") A("b") R("y"),
                                    GRAPH_ATTR("body", IN("1'p' ") IN("1'q' ") NODE("Add", A("p") A("q") R("r"), "")
                                                           OUT("r")) INT_ATTR("num_scan_inputs", 2)) OUT("y")),
                 "SHAPES_DISAGREE");
}

/* ---- SequenceMap, and everything inside everything ------------------------------------------------------------ */

Test(control, map_runs_over_elements)
{
    open_model(MODEL(17, IN(SEQ("xs", TENSOR(1, DIM(2) SYM("n")))) IN(F32("w", SYM("n") DIM(5)))
                             NODE("SequenceMap", A("xs") A("w") R("ys"),
                                  GRAPH_ATTR("body", IN("1'x' ") IN("1'v' ") NODE("MatMul", A("x") A("v") R("y"), "")
                                                         OUT("y"))) OUT("ys")));
    EXPECT("ys", "seq(float32[2,5])");
    close_model();
}

/* A function whose body holds an If with a Loop in one branch; the value from outside of all is used in the Loop. */
Test(control, subgraphs_in_function_bodies)
{
    open_model(
        "1:10 8{2:18} 8{1'my' 2:1} 25{1'F' 10'my' 4'a' 4'b' 5'r' 9{2:18} "
        "7{1'b' 2'r' 4'If' 5{1'then_branch' 20:5 6{1{1'a' 2't' 4'Relu'} 12{1't'}}} "
        "5{1'else_branch' 20:5 6{5{2:7 7:3 8'm'} 1{1'm' 1'' 1'a' 2'e' 4'Loop' 5{1'body' 20:5 6{11{1'i'} 11{1'go'} "
        "11{1's'} 1{1's' 1'a' 2's2' 4'Concat' 5{1'axis' 20:2 3:1}} 12{1'go'} 12{1's2'}}}} 12{1'e'}}}}} "
        "7{2'g' " X2N COND "1{1'x' 1'c' 2'y' 4'F' 7'my'} 12{1'y'}}");
    const struct sp_node *call = &MAIN->nodes[0];
    cr_assert_not_null(call->body);
    EXPECT_IN(graph_of(&call->body->nodes[0], "then_branch"), "t", "float32[2,n]");
    EXPECT_IN(graph_of(&call->body->nodes[0], "else_branch"), "e", "float32[2,4*n]"); /* n, and n in each of 3 turns */
    cr_expect(sp_dim_is(dim_of("y", 0), 2));
    cr_expect(is_fresh(dim_of("y", 1)));
    close_model();
}

/* ---- costs ---------------------------------------------------------------------------------------------------- */

static double flops_of(struct sp_node *node)
{
    double flops = -1, bytes = -1;
    cr_assert_eq(sp_node_work(opened.model, node, opened.arena, &flops, &bytes, &opened.err), SP_OK, "%s",
                 opened.err.message);
    return flops;
}

/* Relu of [8,16] is 128 FLOPs, the product with [16,16] 4096. */
#define RELU_OR_PRODUCT                                                                                                \
    IN(F32("x", DIM(8) DIM(16)))                                                                                       \
    IN(F32("w", DIM(16) DIM(16)))                                                                                      \
    TWO_BRANCHES(NODE("Relu", A("x") R("t"), ""), NODE("MatMul", A("x") A("w") R("e"), "")) OUT("y")

Test(control, costs_of_branches_and_turns)
{
    open_model(MODEL(16, COND RELU_OR_PRODUCT));
    cr_expect_eq(flops_of(&MAIN->nodes[0]), 4096);
    close_model();
    open_model(MODEL(16, BOOL_CONST("c", 1) RELU_OR_PRODUCT));
    cr_expect_eq(flops_of(&MAIN->nodes[0]), 128);
    close_model();
    open_model(MODEL(16, IN(F32("s0", DIM(2))) IN(F32("xs", DIM(2) DIM(7)))
                             NODE("Scan", A("s0") A("xs") R("s1") R("ps"),
                                  GRAPH_ATTR("body", SUM_BODY) INT_ATTR("num_scan_inputs", 1)
                                      INTS_ATTR("scan_input_axes", 1)) OUT("s1") OUT("ps")));
    cr_expect_eq(flops_of(&MAIN->nodes[0]), 7 * 4); /* Add and Mul of two elements in each of 7 turns */
    close_model();
}

/* ---- tolerance ------------------------------------------------------------------------------------------------ */

struct reports {
    unsigned count;
    char codes[4][64];
    const struct sp_node *nodes[4];
    enum sp_status answer;
};

static enum sp_status report(void *context, const struct sp_node *node, const struct sp_error *error)
{
    struct reports *reports = context;
    cr_assert_lt(reports->count, 4);
    (void)snprintf(reports->codes[reports->count], 64, "%s", error->code);
    reports->nodes[reports->count++] = node;
    return reports->answer;
}

/* Wrong: a MatMul in a loop that is walked twice, a Concat, and what is declared of y2. */
#define FAULTY                                                                                                         \
    MODEL(18,                                                                                                          \
          INT_CONST("m", 5) X2N IN(F32("q", DIM(3) DIM(3)))                                                            \
              NODE("Loop", A("m") A("") A("x") R("y"),                                                                 \
                   GRAPH_ATTR("body", BODY_HEAD IN("1's' ") NODE("MatMul", A("q") A("x") R("bad"), "") NODE(           \
                                          "Concat", A("s") A("x") R("s2"), INT_ATTR("axis", 1)) OUT("go") OUT("s2")))  \
                  NODE("Concat", A("x") A("q") R("y1"), INT_ATTR("axis", 0)) NODE("Relu", A("q") R("y2"), "")          \
                      NODE("Conv", A("q") A("q") R("y3"), "") NODE("Relu", A("y3") R("y4"), "") OUT("y")               \
                          TYPED_OUT(F32("y2", DIM(3) DIM(4))) TYPED_OUT(F32("y3", DIM(8) DIM(9))) OUT("y4"))

Test(control, tolerance_tells_each_node_once_and_goes_on)
{
    struct reports reports = {0};
    struct sp_shape_options options = {.report = report, .report_context = &reports, .accept = report};
    read_model(FAULTY);
    cr_assert_eq(sp_infer_shapes_with(opened.model, &options, &opened_summary, &opened.err), SP_OK, "%s",
                 opened.err.message);
    cr_assert_eq(reports.count, 3);
    cr_expect_str_eq(reports.nodes[0]->op_type, "MatMul");
    cr_expect_str_eq(reports.codes[1], "SHAPE_CONTRADICTS_DECLARATION");
    cr_expect_eq(reports.nodes[2], &MAIN->nodes[3]);
    EXPECT("y", "float32[2,6*n]");
    EXPECT("y1", "float32[5,3]"); /* n must be 3 */
    EXPECT("y2", "float32[3,3]");
    EXPECT("y3", "float32[8,9]"); /* as declared */
    EXPECT("y4", "float32[8,9]");
    cr_expect_eq(opened.err.status, SP_OK);
    close_model();
}

Test(control, who_is_told_may_end_it)
{
    struct reports reports = {.answer = SP_ERR_LIMIT};
    struct sp_shape_options options = {.report = report, .report_context = &reports};
    read_model(FAULTY);
    cr_expect_eq(sp_infer_shapes_with(opened.model, &options, &opened_summary, &opened.err), SP_ERR_LIMIT);
    cr_expect_eq(reports.count, 1);
    close_model();
    refuse_model(FAULTY, "SHAPES_DISAGREE");
}
