/* Sequences and optionals. What is expected follows from ONNX Operators.md (Sequence*, SplitToSequence,
   ConcatFromSequence, Optional*). */
#include "control_models.h"

#define XY IN(F32("x", DIM(2) SYM("n"))) IN(F32("y", DIM(3) SYM("n")))

Test(sequence, elements_have_what_all_have)
{
    open_model(MODEL(17, XY INT_CONST("at", 1) NODE("SequenceConstruct", A("x") A("y") R("s"), "") NODE(
                             "SequenceAt", A("s") A("at") R("e"), "") NODE("SequenceErase", A("s") A("at") R("r"), "")
                             NODE("SequenceInsert", A("s") A("x") R("i"), "") NODE("SequenceLength", A("s") R("l"), "")
                                 OUT("e")));
    EXPECT("s", "seq(float32[?,n])");
    EXPECT("r", "seq(float32[?,n])");
    EXPECT("i", "seq(float32[?,n])");
    EXPECT("l", "int64[]");
    const struct sp_shape *shape = &value_in(MAIN, "e")->type.shape;
    cr_assert(shape->has_rank && shape->rank == 2);
    cr_expect_eq(shape->dims[0].kind, SP_DIM_SYMBOLIC, "one tensor's extent has a name");
    EXPECT_RULE(&MAIN->nodes[1], "[] [] -> [_,_]");
    close_model();
}

Test(sequence, an_empty_sequence_takes_any_shape)
{
    open_model(MODEL(17, XY NODE("SequenceEmpty", R("none"), "") NODE("SequenceInsert", A("none") A("x") R("one"), "")
                             NODE("SequenceInsert", A("one") A("y") R("two"), "")
                                 NODE("Identity", A("two") R("same"), "") OUT("two")));
    EXPECT("none", "seq(float32[*])");
    EXPECT("one", "seq(float32[2,n])");
    EXPECT("two", "seq(float32[?,n])");
    EXPECT("same", "seq(float32[?,n])");
    cr_expect_eq(opened_summary.unknown_op_count, 0);
    close_model();
}

Test(sequence, a_loop_fills_an_empty_sequence)
{
    open_model(MODEL(
        17, XY INT_CONST("m", 4) NODE("SequenceEmpty", R("none"), "")
                NODE("Loop", A("m") A("") A("none") R("all"),
                     GRAPH_ATTR("body", IN(I64("i", "")) IN(BOOL("go", "")) IN("1's' ")
                                            NODE("SequenceInsert", A("s") A("x") R("s2"), "") OUT("go") OUT("s2")))
                    NODE("ConcatFromSequence", A("all") R("c"), INT_ATTR("axis", 0) INT_ATTR("new_axis", 1)) OUT("c")));
    EXPECT("all", "seq(float32[2,n])");
    const struct sp_shape *shape = &value_in(MAIN, "c")->type.shape;
    cr_assert(shape->has_rank && shape->rank == 3);
    cr_expect(shape->dims[0].kind == SP_DIM_SYMBOLIC && sp_dim_is(shape->dims[1], 2));
    close_model();
}

Test(sequence, concat_of_what_is_in_sight)
{
    open_model(MODEL(17, XY NODE("SequenceConstruct", A("x") A("y") A("x") R("s"), "")
                             NODE("ConcatFromSequence", A("s") R("c"), INT_ATTR("axis", -2)) OUT("c")));
    EXPECT("c", "float32[7,n]");
    close_model();
    open_model(MODEL(17, XY NODE("SequenceConstruct", A("x") A("x") R("s"), "")
                             NODE("ConcatFromSequence", A("s") R("c"), INT_ATTR("axis", -1) INT_ATTR("new_axis", 1))
                                 OUT("c")));
    EXPECT("c", "float32[2,n,2]");
    close_model();
    refuse_model(MODEL(17, XY NODE("SequenceConstruct", A("x") A("y") R("s"), "")
                               NODE("ConcatFromSequence", A("s") R("c"), INT_ATTR("axis", 2)) OUT("c")),
                 "AXIS_OUT_OF_RANGE");
}

#define SPLIT(attributes, split, expected)                                                                             \
    do {                                                                                                               \
        open_model(                                                                                                    \
            MODEL(17, IN(F32("x", DIM(6) SYM("n"))) INT_CONST("two", 2)                                                \
                          INT_CONST("four", 4) "5{1:2 2:7 7:3 7:3 8'threes'} 5{1:3 2:7 7:1 7:2 7:3 8'steps'} " NODE(   \
                              "SplitToSequence", A("x") split R("s"), attributes) OUT("s")));                          \
        EXPECT("s", expected);                                                                                         \
        close_model();                                                                                                 \
    } while (0)

Test(sequence, split)
{
    SPLIT("", "", "seq(float32[1,n])");
    SPLIT(INT_ATTR("keepdims", 0), "", "seq(float32[n])");
    SPLIT(INT_ATTR("axis", -1), "", "seq(float32[6,1])");
    SPLIT("", A("two"), "seq(float32[2,n])");
    SPLIT("", A("four"), "seq(float32[?,n])"); /* 4 and 2 rows */
    SPLIT("", A("threes"), "seq(float32[3,n])");
    SPLIT("", A("steps"), "seq(float32[?,n])");
    SPLIT(INT_ATTR("keepdims", 0), A("threes"), "seq(float32[3,n])"); /* keepdims is of no concern with `split` */
    refuse_model(MODEL(17, IN(F32("x", DIM(7) SYM("n"))) "5{1:2 2:7 7:3 7:3 8'threes'} " NODE(
                               "SplitToSequence", A("x") A("threes") R("s"), "") OUT("s")),
                 "WRONG_SPLIT");
}

Test(sequence, wrong_operands_are_refused)
{
    refuse_model(MODEL(17, XY NODE("SequenceLength", A("x") R("l"), "") OUT("l")), "WRONG_TYPE");
    refuse_model(MODEL(17, XY NODE("Cast", A("y") R("z"), INT_ATTR("to", 7))
                               NODE("SequenceConstruct", A("x") A("z") R("s"), "") OUT("s")),
                 "ELEMENTS_DISAGREE");
}

/* ---- optional ------------------------------------------------------------------------------------------------- */

Test(optional, elements_come_back)
{
    open_model(MODEL(18, XY NODE("Optional", A("x") R("o"), "") NODE("OptionalGetElement", A("o") R("e"), "")
                             NODE("OptionalHasElement", A("o") R("h"), "") NODE("OptionalGetElement", A("y") R("f"), "")
                                 NODE("OptionalHasElement", A("y") R("k"), "") OUT("e")));
    EXPECT("o", "opt(float32[2,n])");
    EXPECT("e", "float32[2,n]");
    EXPECT("h", "bool[]");
    EXPECT("f", "float32[3,n]");
    cr_assert(value_in(MAIN, "h")->data != NULL && value_in(MAIN, "k")->data != NULL);
    cr_expect(sp_dim_is(value_in(MAIN, "h")->data->ints[0], 1));
    cr_expect(sp_dim_is(value_in(MAIN, "k")->data->ints[0], 1));
    EXPECT_RULE(&MAIN->nodes[3], "[d0,d1] -> [d0,d1]");
    close_model();
}

/* An empty optional: its condition is known, so the branch that would take the element never runs. */
Test(optional, emptiness_decides_a_branch)
{
    open_model(MODEL(18, XY "1{2'o' 4'Optional' 5{1'type' 20:13 14{1{1:1 2{1{1:5}}}}}} " NODE("OptionalHasElement",
                                                                                              A("o") R("h"), "")
                             NODE("If", A("h") R("z"),
                                  GRAPH_ATTR("then_branch", NODE("OptionalGetElement", A("o") R("t"), "") OUT("t"))
                                      GRAPH_ATTR("else_branch", NODE("Relu", A("x") R("e"), "") OUT("e"))) OUT("z")));
    EXPECT("o", "opt(float32[5])");
    EXPECT("z", "float32[2,n]");
    close_model();
    refuse_model(MODEL(18, XY NODE("Optional", R("o"), "") OUT("o")), "MISSING_ATTRIBUTE");
}
