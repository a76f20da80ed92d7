/* Rules of bodies, from the rules of the nodes in them. What is expected is read off the bodies by hand. */
#include "control_models.h"
#include "ops/bodies/body_rule.h"

/* A function of three inputs in the domain my. */
#define CALL(nodes, graph)                                                                                             \
    "1:10 8{2:18} 8{1'my' 2:1} 25{1'F' 10'my' 4'a' 4'b' 4'c' 5'r' 9{2:18} " nodes "} 7{2'g' " graph "} "
#define BODY_NODE(op, operands, attributes) "7{" operands "4'" op "' " attributes "} "
#define CALL_NODE(operands)                 "1{" operands "4'F' 7'my'} "
#define MKN                                 IN(F32("x", DIM(8) DIM(16))) IN(F32("w", DIM(16) DIM(32))) IN(F32("v", DIM(32)))

/* [8,16] x [16,32] + [32], Relu: rows and columns stay parallel, the inner axis is whole. 2*8*16*32 FLOPs are split by
   rows and columns, 8*32 each of Add and Relu too. */
Test(body_rule, a_layer)
{
    open_model(CALL(BODY_NODE("MatMul", A("a") A("b") R("p"), "") BODY_NODE("Add", A("p") A("c") R("s"), "")
                        BODY_NODE("Relu", A("s") R("r"), ""),
                    MKN CALL_NODE(A("x") A("w") A("v") R("y")) OUT("y")));
    struct sp_node *call = &MAIN->nodes[0];
    struct sp_rule *rule;
    cr_assert_null(call->op);
    EXPECT_RULE(call, "[f0,f1] [f1,f2] [f2] -> [f0,f2]  f1: replicate");
    cr_assert_eq(sp_op_rule(opened.model, call, opened.arena, &rule, &opened.err), SP_OK);
    cr_expect_eq(sp_rule_flops(rule, NULL), 2.0 * 8 * 16 * 32 + 2.0 * 8 * 32, "%g", sp_rule_flops(rule, NULL));
    cr_expect_eq(rule->term_count, 2); /* of three and of two factors */
    close_model();
}

/* A reduction that ends the body may stay partial; one that goes on may not, nor one that also is a result's axis. */
Test(body_rule, reductions)
{
    open_model(CALL(BODY_NODE("Relu", A("a") R("p"), "") BODY_NODE("MatMul", A("p") A("b") R("r"), ""),
                    MKN CALL_NODE(A("x") A("w") R("y")) OUT("y")));
    EXPECT_RULE(&MAIN->nodes[0], "[f0,f1] [f1,f2] -> [f0,f2]  f1: sum reduction");
    close_model();
    open_model(CALL("5'q' " BODY_NODE("Relu", A("a") R("q"), "") BODY_NODE("MatMul", A("q") A("b") R("r"), ""),
                    MKN CALL_NODE(A("x") A("w") A("v") R("y") R("z")) OUT("y") OUT("z")));
    EXPECT_RULE(&MAIN->nodes[0], "[f0,f1] [f1,f2] [f3] -> [f0,f2] [f0,f1]  f1: replicate");
    close_model();
}

/* One factor on both axes of an operand: x times its own transpose. */
Test(body_rule, a_factor_on_two_axes_is_whole)
{
    open_model(CALL(BODY_NODE("Transpose", A("a") R("t"), "") BODY_NODE("MatMul", A("a") A("t") R("r"), ""),
                    MKN CALL_NODE(A("x") R("y")) OUT("y")));
    EXPECT_RULE(&MAIN->nodes[0], "[f0,f1] -> [f0,f0]  f0: replicate; f1: sum reduction");
    close_model();
}

/* [6,4] to [24] and back to [6,4]: lists agree. To [3,8] they do not. */
Test(body_rule, lists_of_factors)
{
#define RESHAPES(last)                                                                                                 \
    CALL(BODY_NODE("Reshape", A("a") A("b") R("p"), "") BODY_NODE("Relu", A("p") R("s"), "")                           \
             BODY_NODE("Reshape", A("s") A("c") R("r"), ""),                                                           \
         IN(F32("x", DIM(6) DIM(4))) "5{1:1 2:7 7:24 8'flat'} 5{1:2 2:7 " last                                         \
                                     " 8'back'} " CALL_NODE(A("x") A("flat") A("back") R("y")) OUT("y"))
    open_model(RESHAPES("7:3 7:8"));
    struct sp_rule *rule;
    cr_assert_eq(sp_op_rule(opened.model, &MAIN->nodes[0], opened.arena, &rule, &opened.err), SP_OK);
    for (uint32_t i = 0; i < rule->factor_count; i++)
        cr_expect_eq(rule->factors[i].kind, SP_FACTOR_REPLICATE, "%s", rule_text(&MAIN->nodes[0]));
    close_model();
}

/* Captured values cannot be split; a result that both branches make by themselves can. */
Test(body_rule, branches)
{
    open_model(MODEL(18, IN(BOOL("c", "")) IN(F32("x", DIM(8) DIM(16)))
                             NODE("If", A("c") R("y"),
                                  GRAPH_ATTR("then_branch", NODE("Relu", A("x") R("t"), "") OUT("t"))
                                      GRAPH_ATTR("else_branch", NODE("Neg", A("x") R("e"), "") OUT("e"))) OUT("y")));
    EXPECT_RULE(&MAIN->nodes[0], "[] -> [f0,f1]  f0: replicate; f1: replicate");
    close_model();
}

#define BODY_HEAD   IN(I64("i", "")) IN(BOOL("go", ""))
#define MLOOP(body) NODE("Loop", A("m") A("") A("x") R("y") R("z"), GRAPH_ATTR("body", BODY_HEAD IN("1's' ") body))

/* The state's rows stay parallel through the loop; the columns meet a captured weight. Turns are sequential. */
Test(body_rule, loops)
{
    open_model(MODEL(18, INT_CONST("m", 5) IN(F32("x", DIM(8) DIM(16))) IN(F32("w", DIM(16) DIM(16)))
                             MLOOP(NODE("MatMul", A("s") A("w") R("p"), "") NODE("Relu", A("p") R("s2"), "") OUT("go")
                                       OUT("s2") OUT("p")) OUT("y") OUT("z")));
    struct sp_rule *rule;
    EXPECT_RULE(&MAIN->nodes[0], "[] [] [f0,f1] -> [f0,f1] [t,f0,f1]  f1: replicate; t: sequential");
    cr_assert_eq(sp_op_rule(opened.model, &MAIN->nodes[0], opened.arena, &rule, &opened.err), SP_OK);
    cr_expect_eq(sp_rule_flops(rule, NULL), 5 * (2.0 * 8 * 16 * 16 + 8 * 16), "%g", sp_rule_flops(rule, NULL));
    close_model();
}

/* A loop in a loop: the factor goes through both; a softmax over the state's columns needs them whole. */
Test(body_rule, loops_in_loops)
{
    open_model(MODEL(
        18, INT_CONST("m", 5) IN(F32("x", DIM(8) DIM(16)))
                NODE("Loop", A("m") A("") A("x") R("y"),
                     GRAPH_ATTR("body", BODY_HEAD IN("1's' ")
                                            NODE("Loop", A("m") A("") A("s") R("o"),
                                                 GRAPH_ATTR("body", IN(I64("j", "")) IN(BOOL("on", "")) IN("1'u' ")
                                                                        NODE("Softmax", A("u") R("u2"), "") OUT("on")
                                                                            OUT("u2"))) OUT("go") OUT("o"))) OUT("y")));
    EXPECT_RULE(&MAIN->nodes[0], "[] [] [f0,f1] -> [f0,f1]  f1: replicate");
    close_model();
}

/* Scanned along axis 1, stacked along axis 2: one factor of turns. */
Test(body_rule, scans)
{
    open_model(MODEL(18, IN(F32("s0", DIM(8))) IN(F32("xs", DIM(8) DIM(7)))
                             NODE("Scan", A("s0") A("xs") R("s1") R("ps"),
                                  GRAPH_ATTR("body", IN("1's' ") IN("1'x' ") NODE("Add", A("s") A("x") R("s2"), "")
                                                         NODE("Mul", A("s") A("x") R("p"), "") OUT("s2") OUT("p"))
                                      INT_ATTR("num_scan_inputs", 1) INTS_ATTR("scan_input_axes", 1)
                                          INTS_ATTR("scan_output_axes", 1)) OUT("s1") OUT("ps")));
    EXPECT_RULE(&MAIN->nodes[0], "[f0] [f0,t] -> [f0] [f0,t]  t: sequential");
    close_model();
}

/* Operands that are no tensors: nothing is said. */
Test(body_rule, sequences_are_whole)
{
    open_model(MODEL(18, IN(SEQ("xs", TENSOR(1, DIM(2) SYM("n"))))
                             NODE("SequenceMap", A("xs") R("ys"),
                                  GRAPH_ATTR("body", IN("1'x' ") NODE("Relu", A("x") R("r"), "") OUT("r"))) OUT("ys")));
    EXPECT_RULE(&MAIN->nodes[0], "[] -> []");
    close_model();
}
