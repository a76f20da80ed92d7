#include "simulate_control.h"

#include "../unit/support/control_models.h"

#define D48                    DIM(4) DIM(8)
#define D88                    DIM(8) DIM(8)
#define FLOAT_CONST(n, x)      "5{2:1 4~" #x " 8'" n "'} "
#define INTS2_ATTR(name, a, b) "5{1'" name "' 20:7 8:" #a " 8:" #b "} "
#define BODY(graph)            GRAPH_ATTR("body", "2'b' " graph)
#define THEN(graph)            GRAPH_ATTR("then_branch", "2't' " graph)
#define ELSE(graph)            GRAPH_ATTR("else_branch", "2'e' " graph)
#define TURN                   IN(I64("i", "")) IN(BOOL("go", ""))
#define GOES                   NODE("Identity", A("go") R("go_on"), "")
#define ADD(a, b, y)           NODE("Add", A(a) A(b) R(y), "")
#define MUL(a, b, y)           NODE("Mul", A(a) A(b) R(y), "")
#define ONE(op, x, y)          NODE(op, A(x) R(y), "")
#define INT_VECTOR(name, x)    "5{1:1 2:7 7:" #x " 8'" name "'} "
#define XW                     IN(F32("x", D48)) IN(F32("w", D48))
#define SUM_ROWS(x, y)         NODE("ReduceSum", A(x) A("one") R(y), INT_ATTR("keepdims", 0))
#define SUM_COLS(x, y)         NODE("ReduceSum", A(x) A("zero") R(y), INT_ATTR("keepdims", 0))
#define AXES                   "5{1:1 2:7 7:1 8'one'} 5{1:1 2:7 7:0 8'zero'} "
/* A model with functions: of domain 'f', opset 18. */
#define FUNCTION(name, in, out, nodes) "25{1'" name "' 10'f' " in out nodes "9{2:18}} "
#define FIN(name)                      "4'" name "' "
#define FOUT(name)                     "5'" name "' "
#define FNODE(op, operands)            "1{" operands "4'" op "' 7'f'} "
#define FBODY_NODE(op, operands, a)    "7{" operands "4'" op "' " a "} "
#define WITH_FUNCTIONS(graph, f)       "1:10 7{2'g' " graph "} 8{2:18} 8{1'f' 2:1} " f

const struct simulate_control simulate_control_models[] = {
    /* ---- Loop ---- */
    {"loop state", "Loop",
     MODEL(18, XW INT_CONST("n", 3) NODE("Loop", A("n") A("") A("x") R("y"),
                                         BODY(TURN IN(F32("s", D48)) GOES ADD("s", "w", "t") ONE("Tanh", "t", "u")
                                                  OUT("go_on") OUT("u"))) OUT("y")),
     NULL, NULL},
    {"loop contracts a state", "Loop",
     MODEL(18, IN(F32("x", D48)) IN(F32("w", D88)) INT_CONST("n", 3)
                   NODE("Loop", A("n") A("") A("x") R("y"),
                        BODY(TURN IN(F32("s", D48)) GOES NODE("MatMul", A("s") A("w") R("t"), "") ONE("Tanh", "t", "u")
                                 OUT("go_on") OUT("u"))) OUT("y")),
     NULL, NULL},
    {"loop states of several ranks and stacks", "Loop",
     MODEL(18, IN(F32("x", D48)) IN(F32("v", DIM(8))) IN(F32("k", "")) AXES INT_CONST("n", 3)
                   NODE("Loop", A("n") A("") A("x") A("v") A("k") R("a_end") R("b_end") R("c_end") R("rows") R("all"),
                        BODY(TURN IN(F32("a", D48)) IN(F32("b", DIM(8))) IN(F32("c", "")) GOES MUL("a", "b", "a1")
                                 ADD("a1", "c", "a2") ONE("Tanh", "b", "b2") SUM_ROWS("a2", "r")
                                     NODE("ReduceMean", A("r") R("m"), INT_ATTR("keepdims", 0)) ADD("c", "m", "c2")
                                         OUT("go_on") OUT("a2") OUT("b2") OUT("c2") OUT("r") OUT("a2"))) OUT("a_end")
                       OUT("b_end") OUT("c_end") OUT("rows") OUT("all")),
     NULL, NULL},
    {"loop until a condition", "Loop",
     MODEL(18, XW BOOL_CONST("yes", 1) FLOAT_CONST("most", 4)
                   NODE("Loop", A("") A("yes") A("x") R("y") R("steps"),
                        BODY(TURN IN(F32("s", D48)) ONE("Exp", "w", "e") ADD("s", "e", "u")
                                 NODE("ReduceMax", A("u") R("m"), INT_ATTR("keepdims", 0))
                                     NODE("Less", A("m") A("most") R("c"), "") OUT("c") OUT("u") OUT("u"))) OUT("y")
                       OUT("steps")),
     NULL, NULL},
    {"loop with a number of turns and a condition", "Loop",
     MODEL(18, XW IN(I64("n", "")) IN(BOOL("c", "")) INT_CONST("two", 2)
                   NODE("Loop", A("n") A("c") A("x") R("y") R("steps"),
                        BODY(TURN IN(F32("s", D48)) MUL("s", "w", "u") NODE("Less", A("i") A("two") R("c2"), "")
                                 OUT("c2") OUT("u") OUT("u"))) OUT("y") OUT("steps")),
     "n=9 c=1", NULL},
    {"loop ends before its number", "Loop",
     MODEL(18, XW IN(I64("n", "")) IN(BOOL("c", "")) INT_CONST("two", 2)
                   NODE("Loop", A("n") A("c") A("x") R("y") R("steps"),
                        BODY(TURN IN(F32("s", D48)) MUL("s", "w", "u") NODE("Less", A("i") A("two") R("c2"), "")
                                 OUT("c2") OUT("u") OUT("u"))) OUT("y") OUT("steps")),
     "n=2 c=1", NULL},
    {"loop without turns", "Loop",
     MODEL(18, XW IN(I64("n", "")) NODE("Loop", A("n") A("") A("x") R("y") R("steps"),
                                        BODY(TURN IN(F32("s", D48)) GOES MUL("s", "w", "u") OUT("go_on") OUT("u")
                                                 OUT("u"))) OUT("y") OUT("steps")),
     "n=0", NULL},
    {"loop that does not begin", "Loop",
     MODEL(18, XW IN(BOOL("c", "")) NODE("Loop", A("") A("c") A("x") R("y") R("steps"),
                                         BODY(TURN IN(F32("s", D48)) GOES MUL("s", "w", "u") SUM_ROWS("u", "r")
                                                  OUT("go_on") OUT("u") OUT("r"))) AXES OUT("y") OUT("steps")),
     "c=0", NULL},
#define ONLY_STACK(end)                                                                                                \
    XW INT_CONST("n", 3)                                                                                               \
        NODE("Loop", A("n") A("") A("x") R(end) R("steps"),                                                            \
             BODY(TURN IN(F32("s", D48)) GOES MUL("s", "w", "u") ONE("Neg", "u", "o") OUT("go_on") OUT("u") OUT("o"))) \
            OUT("steps")
    {"loop of which only a stack is wanted", "Loop", MODEL(18, ONLY_STACK("")), NULL, NULL, MODEL(18, ONLY_STACK("p"))},
#define SECOND_STATE(end, stack)                                                                                       \
    XW INT_CONST("n", 3) NODE("Loop", A("n") A("") A("x") A("w") R(end) R("y") R(stack),                               \
                              BODY(TURN IN(F32("s", D48)) IN(F32("z", D48)) GOES MUL("s", "w", "u") ADD("z", "s", "v") \
                                       OUT("go_on") OUT("u") OUT("v") OUT("u"))) OUT("y")
    {"loop of which the second state is wanted", "Loop", MODEL(18, SECOND_STATE("", "")), NULL, NULL,
     MODEL(18, SECOND_STATE("p", "q"))},
    {"loop of states that trade places", "Loop",
     MODEL(18, XW INT_CONST("n", 3) NODE("Loop", A("n") A("") A("x") A("w") R("p") R("q") R("steps"),
                                         BODY(TURN IN(F32("s", D48)) IN(F32("z", D48)) GOES ONE("Tanh", "s", "u") OUT(
                                             "go_on") OUT("z") OUT("u") OUT("u"))) OUT("p") OUT("q") OUT("steps")),
     NULL, NULL},
    {"loop of states that stay", "Loop",
     MODEL(18, XW INT_CONST("n", 3) NODE("Loop", A("n") A("") A("x") A("w") R("p") R("q") R("steps"),
                                         BODY(TURN IN(F32("s", D48)) IN(F32("z", D48)) GOES ADD("s", "z", "u") OUT(
                                             "go_on") OUT("u") OUT("z") OUT("z"))) OUT("p") OUT("q") OUT("steps")),
     NULL, NULL},
    {"loop with one state whole", "Loop",
     MODEL(18, XW INT_CONST("n", 3) AXES NODE(
                   "Loop", A("n") A("") A("x") A("w") R("p") R("q"),
                   BODY(TURN IN(F32("s", D48)) IN(F32("z", D48)) GOES NODE("CumSum", A("z") A("nil") R("z1"), "") NODE(
                       "CumSum", A("z1") A("eins") R("z2"), "") ONE("Tanh", "z2", "z3") ADD("s", "w", "u") OUT("go_on")
                            OUT("u") OUT("z3"))) INT_CONST("nil", 0) INT_CONST("eins", 1) OUT("p") OUT("q")),
     NULL, NULL},
    {"loop by the turn's number", "Loop",
     MODEL(18, IN(F32("x", DIM(5) DIM(4) DIM(8))) IN(F32("s0", D48)) INT_CONST("n", 5)
                   NODE("Loop", A("n") A("") A("s0") R("y") R("steps"),
                        BODY(TURN IN(F32("s", D48)) GOES NODE("Gather", A("x") A("i") R("row"), INT_ATTR("axis", 0))
                                 ADD("s", "row", "u") OUT("go_on") OUT("u") OUT("row"))) OUT("y") OUT("steps")),
     NULL, NULL},
    {"loop captures what is split", "Loop",
     MODEL(18, XW INT_CONST("n", 2) ONE("Tanh", "w", "h") NODE("Transpose", A("w") R("wt"), INTS2_ATTR("perm", 1, 0))
                   NODE("Loop", A("n") A("") A("x") R("y"),
                        BODY(TURN IN(F32("s", D48)) GOES ADD("s", "h", "t") NODE("MatMul", A("t") A("wt") R("mm"), "")
                                 NODE("MatMul", A("mm") A("h") R("u"), "") OUT("go_on") OUT("u"))) ONE("Relu", "y", "z")
                       ADD("z", "h", "out") OUT("out")),
     NULL, NULL},
    {"loop with a state that grows", "Loop",
     MODEL(18, IN(F32("x", DIM(2) DIM(8))) INT_CONST("n", 2)
                   NODE("Loop", A("n") A("") A("x") A("x") R("y") R("z"),
                        BODY(TURN "11{1's' 2{"
                                  "1{1:1 2{1{2'rows'} 1{1:8}}}}} " IN(F32("p", DIM(2) DIM(8)))
                                      GOES NODE("Concat", A("s") A("p") R("u"), INT_ATTR("axis", 0))
                                          ONE("Tanh", "p", "p2") OUT("go_on") OUT("u") OUT("p2"))) OUT("y") OUT("z")),
     NULL, NULL},
    {"loop with a state whose extent is computed", "Loop",
     MODEL(18, IN(F32("x", DIM(32))) IN(F32("w", DIM(32))) IN(I64("to", DIM(1))) INT_CONST("n", 2)
                   NODE("Loop", A("n") A("") A("x") A("x") R("y") R("z"),
                        BODY(TURN IN(F32("s", DIM(32))) IN(F32("p", DIM(32))) GOES ADD("s", "w", "t")
                                 NODE("Reshape", A("t") A("to") R("u"), "") ADD("p", "w", "q") ONE("Tanh", "q", "p2")
                                     OUT("go_on") OUT("u") OUT("p2"))) ONE("Neg", "y", "o") OUT("o") OUT("z")),
     "to=32", NULL, NULL},
    {"loop of integers", "Loop",
     MODEL(18, IN(I64("x", D48)) INT_CONST("n", 3)
                   NODE("Loop", A("n") A("") A("x") R("y") R("steps"),
                        BODY(TURN IN(I64("s", D48)) GOES ADD("s", "i", "u") NODE("Less", A("u") A("x") R("l"), "")
                                 OUT("go_on") OUT("u") OUT("l"))) OUT("y") OUT("steps")),
     "x=4", NULL},
    {"loop with weights inside", "Loop",
     MODEL(18, IN(F32("x", DIM(4) DIM(2))) INT_CONST("n", 3)
                   NODE("Loop", A("n") A("") A("x") R("y"),
                        BODY("5{1:2 1:2 2:1 4~0.5 4~1.5 4~-0.5 4~0.25 8'k'} " TURN IN(F32("s", DIM(4) DIM(2)))
                                 GOES NODE("MatMul", A("s") A("k") R("u"), "") OUT("go_on") OUT("u"))) OUT("y")),
     NULL, NULL},
    {"loop in a loop", "Loop",
     MODEL(18, XW INT_CONST("n", 2) INT_CONST("m", 3) NODE(
                   "Loop", A("n") A("") A("x") R("y") R("steps"),
                   BODY(TURN IN(F32("s", D48)) GOES ADD("s", "w", "h") NODE(
                       "Loop", A("m") A("") A("s") R("u"),
                       GRAPH_ATTR("body", "2'c' " IN(I64("i2", "")) IN(BOOL("go2", "")) IN(F32("s2", D48))
                                              ONE("Identity", "go2", "go3") MUL("s2", "h", "t2") ADD("t2", "w", "t3")
                                                  ONE("Tanh", "t3", "t4") OUT("go3") OUT("t4"))) OUT("go_on") OUT("u")
                            OUT("h"))) OUT("y") OUT("steps")),
     NULL, NULL},

/* ---- If ---- */
#define BRANCHES                                                                                                       \
    XW IN(BOOL("c", "")) AXES ONE("Neg", "w", "h")                                                                     \
        NODE("If", A("c") R("y") R("r"),                                                                               \
             THEN(ADD("x", "h", "t1") ONE("Relu", "t1", "t2") SUM_ROWS("t1", "t3") OUT("t2") OUT("t3"))                \
                 ELSE(MUL("x", "w", "e1") SUM_ROWS("w", "e2") OUT("e1") OUT("e2"))) ONE("Tanh", "y", "z") OUT("z")     \
            OUT("y") OUT("r")
    {"if taken", "If", MODEL(18, BRANCHES), "c=1", NULL},
    {"if not taken", "If", MODEL(18, BRANCHES), "c=0", NULL},
#define OUTER_VALUE                                                                                                    \
    XW IN(BOOL("c", "")) ONE("Relu", "x", "h")                                                                         \
        NODE("If", A("c") R("y"), THEN(ONE("Identity", "h", "t") OUT("t")) ELSE(ADD("h", "w", "e") OUT("e"))) OUT("y")
    {"if gives an outer value", "If", MODEL(18, OUTER_VALUE), "c=1", NULL},
    {"if does not give an outer value", "If", MODEL(18, OUTER_VALUE), "c=0", NULL},
#define OTHER_SHAPES                                                                                                   \
    XW IN(BOOL("c", "")) NODE("If", A("c") R("y"),                                                                     \
                              THEN(ONE("Relu", "x", "t") OUT("t"))                                                     \
                                  ELSE(NODE("Concat", A("x") A("w") R("e"), INT_ATTR("axis", 0)) OUT("e")))            \
        ONE("Tanh", "y", "z") OUT("z")
    {"if with other extents, taken", "If", MODEL(18, OTHER_SHAPES), "c=1", NULL},
    {"if with other extents, not taken", "If", MODEL(18, OTHER_SHAPES), "c=0", NULL},
    {"if of a known condition", "If",
     MODEL(18, XW BOOL_CONST("c", 1)
                   AXES NODE("If", A("c") R("y"), THEN(ADD("x", "w", "t") OUT("t")) ELSE(SUM_ROWS("x", "e") OUT("e")))
                       ONE("Tanh", "y", "z") OUT("z")),
     NULL, NULL},
    {"if of a computed condition", "If",
     MODEL(18, XW FLOAT_CONST("much", 0) NODE("ReduceMean", A("x") R("m"), INT_ATTR("keepdims", 0))
                   NODE("Greater", A("m") A("much") R("c"), "")
                       NODE("If", A("c") R("y"), THEN(ADD("x", "w", "t") OUT("t")) ELSE(MUL("x", "w", "e") OUT("e")))
                           OUT("y")),
     NULL, NULL},
#define IF_IN_IF                                                                                                       \
    XW IN(BOOL("c", "")) IN(BOOL("d", ""))                                                                             \
        NODE("If", A("c") R("y"),                                                                                      \
             THEN(ADD("x", "w", "h") NODE("If", A("d") R("t"),                                                         \
                                          GRAPH_ATTR("then_branch", "2'a' " MUL("h", "w", "p") OUT("p"))               \
                                              GRAPH_ATTR("else_branch", "2'z' " ONE("Tanh", "h", "q") OUT("q")))       \
                      OUT("t")) ELSE(ONE("Neg", "x", "e") OUT("e"))) OUT("y")
    {"if in an if, both", "If", MODEL(18, IF_IN_IF), "c=1 d=1", NULL},
    {"if in an if, one", "If", MODEL(18, IF_IN_IF), "c=1 d=0", NULL},
    {"if of constants", "If",
     MODEL(18, IN(BOOL("c", "")) IN(F32("x", DIM(4)))
                   NODE("If", A("c") R("k"),
                        THEN("5{1:4 2:1 4~1 4~2 4~3 4~4 8'p'} " ONE("Neg", "p", "t") OUT("t"))
                            ELSE("5{1:4 2:1 4~5 4~6 4~7 4~8 8'p'} " ONE("Abs", "p", "e") OUT("e"))) ADD("x", "k", "y")
                       OUT("y")),
     "c=1", NULL},
    {"if in a loop", "Loop",
     MODEL(18, XW INT_CONST("n", 4) INT_CONST("two", 2)
                   NODE("Loop", A("n") A("") A("x") R("y") R("steps"),
                        BODY(TURN IN(F32("s", D48)) GOES NODE("Less", A("i") A("two") R("l"), "") NODE(
                            "If", A("l") R("u"), THEN(ADD("s", "w", "t") OUT("t")) ELSE(MUL("s", "w", "e") OUT("e")))
                                 OUT("go_on") OUT("u") OUT("u"))) OUT("y") OUT("steps")),
     NULL, NULL},
#define LOOP_IN_IF                                                                                                     \
    XW IN(BOOL("c", "")) INT_CONST("n", 3)                                                                             \
        NODE("If", A("c") R("y"),                                                                                      \
             THEN(ADD("x", "w", "h") NODE("Loop", A("n") A("") A("h") R("t"),                                          \
                                          BODY(TURN IN(F32("s", D48)) GOES MUL("s", "h", "p") ONE("Tanh", "p", "u")    \
                                                   OUT("go_on") OUT("u"))) OUT("t"))                                   \
                 ELSE(ONE("Neg", "x", "e") OUT("e"))) ONE("Relu", "y", "z") OUT("z")
    {"loop in an if, taken", "If", MODEL(18, LOOP_IN_IF), "c=1", NULL},
    {"loop in an if, not taken", "If", MODEL(18, LOOP_IN_IF), "c=0", NULL},

    /* ---- Scan ---- */
    {"scan", "Scan",
     MODEL(18, IN(F32("h0", D48)) IN(F32("x", DIM(6) DIM(4) DIM(8)))
                   NODE("Scan", A("h0") A("x") R("h") R("y"),
                        INT_ATTR("num_scan_inputs", 1) BODY(IN(F32("s", D48)) IN(F32("e", D48)) ADD("s", "e", "a") ONE(
                            "Tanh", "a", "u") MUL("u", "e", "o") OUT("u") OUT("o"))) OUT("h") OUT("y")),
     NULL, NULL},
    {"scan along other axes and back", "Scan",
     MODEL(18, IN(F32("h0", D48)) IN(F32("x", DIM(4) DIM(6) DIM(8))) IN(F32("z", DIM(4) DIM(8) DIM(6)))
                   NODE("Scan", A("h0") A("x") A("z") R("h") R("y") R("r"),
                        INT_ATTR("num_scan_inputs", 2) INTS2_ATTR("scan_input_axes", 1, -1)
                            INTS2_ATTR("scan_input_directions", 1, 0) INTS2_ATTR("scan_output_axes", 1, -1)
                                INTS2_ATTR("scan_output_directions", 0, 1)
                                    BODY(IN(F32("s", D48)) IN(F32("e", D48)) IN(F32("f", D48)) MUL("s", "e", "a")
                                             ADD("a", "f", "u") MUL("u", "f", "o") ONE("Neg", "u", "p") OUT("u")
                                                 OUT("o") OUT("p"))) OUT("h") OUT("y") OUT("r")),
     NULL, NULL},
    {"scan with states of several ranks", "Scan",
     MODEL(18, IN(F32("a0", DIM(8))) IN(F32("b0", D48)) IN(F32("x", DIM(6) DIM(4) DIM(8))) IN(F32("w", DIM(6) DIM(8)))
                   AXES NODE("Scan", A("a0") A("b0") A("x") A("w") R("a") R("b") R("p") R("q"),
                             INT_ATTR("num_scan_inputs", 2) BODY(
                                 IN(F32("s", DIM(8))) IN(F32("t", D48)) IN(F32("e", D48)) IN(F32("f", DIM(8)))
                                     MUL("s", "f", "s1") ADD("t", "e", "t1") ADD("t1", "s1", "t2") SUM_ROWS("t2", "p1")
                                         SUM_COLS("t2", "q1") OUT("s1") OUT("t2") OUT("p1") OUT("q1"))) OUT("a")
                       OUT("b") OUT("p") OUT("q")),
     NULL, NULL},
    {"scan without states", "Scan",
     MODEL(18, IN(F32("x", DIM(6) DIM(4) DIM(8))) IN(F32("w", D88))
                   NODE("Scan", A("x") R("y"),
                        INT_ATTR("num_scan_inputs", 1)
                            BODY(IN(F32("e", D48)) NODE("MatMul", A("e") A("w") R("o"), "") OUT("o"))) OUT("y")),
     NULL, NULL},
#define ONLY_STATE(stack)                                                                                              \
    IN(F32("h0", D48))                                                                                                 \
    IN(F32("x", DIM(6) DIM(4) DIM(8)))                                                                                 \
    NODE("Scan", A("h0") A("x") R("h") R(stack),                                                                       \
         INT_ATTR("num_scan_inputs", 1) INTS_ATTR("scan_output_axes", 1)                                               \
             BODY(IN(F32("s", D48)) IN(F32("e", D48)) ADD("s", "e", "u") MUL("u", "e", "o") OUT("u") OUT("o")))        \
    OUT("h")
    {"scan of which the state is wanted", "Scan", MODEL(18, ONLY_STATE("")), NULL, NULL, MODEL(18, ONLY_STATE("y"))},
    {"scan of which the stack is wanted", "Scan",
     MODEL(18, IN(F32("h0", D48)) IN(F32("x", DIM(6) DIM(4) DIM(8)))
                   NODE("Scan", A("h0") A("x") R("h") R("y"),
                        INT_ATTR("num_scan_inputs", 1) INTS_ATTR("scan_output_axes", 1) BODY(IN(F32("s", D48)) IN(
                            F32("e", D48)) ADD("s", "e", "u") MUL("u", "e", "o") OUT("u") OUT("o"))) OUT("y")),
     NULL, NULL},
    {"scan 9", "Scan",
     MODEL(10, IN(F32("h0", D48)) IN(F32("x", DIM(6) DIM(4) DIM(8)))
                   NODE("Scan", A("h0") A("x") R("h") R("y"),
                        INT_ATTR("num_scan_inputs", 1) BODY(IN(F32("s", D48)) IN(F32("e", D48)) ADD("s", "e", "u") ONE(
                            "Neg", "u", "o") OUT("u") OUT("o"))) OUT("h") OUT("y")),
     NULL, NULL},
    {"scan that adds up", "Scan",
     MODEL(17, IN(F32("x", DIM(6) DIM(4) DIM(8))) AXES NODE(
                   "Scan", A("x") R("p") R("q"),
                   INT_ATTR("num_scan_inputs", 1) BODY(IN(F32("e", D48)) ONE("Tanh", "e", "f") SUM_ROWS("f", "p1") NODE(
                       "ReduceMax", A("f") R("q1"), INTS_ATTR("axes", 0) INT_ATTR("keepdims", 0)) OUT("p1") OUT("q1")))
                   OUT("p") OUT("q")),
     NULL, NULL},
    {"scan with windows", "Scan",
     MODEL(17, IN(F32("x", DIM(6) DIM(2) DIM(4) DIM(12))) NODE(
                   "Scan", A("x") R("p"),
                   INT_ATTR("num_scan_inputs", 1) BODY(IN(F32("e", DIM(2) DIM(4) DIM(12))) NODE(
                       "AveragePool", A("e") R("o"), INTS_ATTR("kernel_shape", 3) INTS2_ATTR("pads", 1, 1)) OUT("o")))
                   OUT("p")),
     NULL, NULL},
    {"scan that turns around", "Scan",
     MODEL(18, IN(F32("x", DIM(6) DIM(4) DIM(8))) NODE(
                   "Scan", A("x") R("p"),
                   INT_ATTR("num_scan_inputs", 1)
                       BODY(INT_VECTOR("from", -1) INT_VECTOR("to", -99) INT_VECTOR("axis", 1) IN(F32("e", D48)) NODE(
                           "Slice", A("e") A("from") A("to") A("axis") A("from") R("o"), "") OUT("o"))) OUT("p")),
     NULL, NULL},
    {"scan in a loop", "Loop",
     MODEL(18, IN(F32("x", DIM(6) DIM(4))) IN(F32("h0", DIM(4))) INT_CONST("n", 2)
                   NODE("Loop", A("n") A("") A("x") R("y"),
                        BODY(TURN IN(F32("s", DIM(6) DIM(4))) GOES NODE(
                            "Scan", A("h0") A("s") R("h") R("o"),
                            INT_ATTR("num_scan_inputs", 1) GRAPH_ATTR(
                                "body", "2'c' " IN(F32("p", DIM(4))) IN(F32("e", DIM(4))) ADD("p", "e", "q")
                                            ONE("Tanh", "q", "r") OUT("q") OUT("r"))) OUT("go_on") OUT("o"))) OUT("y")),
     NULL, NULL},
    {"scan in 8 is whole", "Scan",
     MODEL(8, IN(F32("h0", DIM(2) DIM(4))) IN(F32("x", DIM(2) DIM(6) DIM(4))) NODE(
                  "Scan", A("") A("h0") A("x") R("h") R("y"),
                  INT_ATTR("num_scan_inputs", 1) BODY(IN(F32("s", DIM(4))) IN(F32("e", DIM(4))) ADD("s", "e", "u")
                                                          ONE("Neg", "u", "o") OUT("u") OUT("o"))) OUT("h") OUT("y")),
     NULL, "Its batch axis is outside of its graph."},

    /* ---- sequences ---- */
    {"sequence map is whole", "SequenceMap",
     MODEL(18, XW "13{" SEQ("m", TENSOR(1, D48)) "} 13{" SEQ("q", TENSOR(1, D48)) "} " NODE("SequenceConstruct",
                                                                                            A("x") A("w") R("q"), "")
                   NODE("SequenceMap", A("q") R("m"),
                        BODY(IN(F32("e", D48)) ONE("Tanh", "e", "o") TYPED_OUT(F32("o", D48))))
                       NODE("ConcatFromSequence", A("m") R("y"), INT_ATTR("axis", 0)) OUT("y")),
     NULL, "A sequence is not taken apart."},
    {"loop over a sequence is whole", "Loop",
     MODEL(18, XW INT_CONST("n", 3) ONE("SequenceConstruct", "x", "q")
                   NODE("Loop", A("n") A("") A("q") A("x") R("r") R("s_end"),
                        BODY(TURN IN(SEQ("s", TENSOR(1, D48))) IN(F32("p", D48)) GOES ADD("p", "w", "u")
                                 NODE("SequenceInsert", A("s") A("u") R("v"), "") OUT("go_on") OUT("v") OUT("u")))
                       NODE("ConcatFromSequence", A("r") R("y"), INT_ATTR("axis", 0)) OUT("y") OUT("s_end")),
     NULL, "A sequence is not taken apart."},

    {"loop takes from a sequence", "Loop",
     MODEL(18, XW INT_CONST("n", 2) NODE("SequenceConstruct", A("x") A("w") R("q"), "")
                   NODE("Loop", A("n") A("") A("x") R("y"),
                        BODY(TURN IN(F32("p", D48)) GOES NODE("SequenceAt", A("q") A("i") R("e"), "") ADD("p", "e", "u")
                                 MUL("u", "w", "v") OUT("go_on") OUT("v"))) OUT("y")),
     NULL, NULL},

    /* ---- calls ---- */
    {"call with a loop inside", "Loop",
     WITH_FUNCTIONS(
         XW FNODE("turns", A("x") A("w") R("y")) ONE("Relu", "y", "z") OUT("z"),
         FUNCTION("turns", FIN("a") FIN("b"), FOUT("r"),
                  FBODY_NODE("Constant", R("n"), "5{1'value_int' 20:2 3:3} ") FBODY_NODE("Tanh", A("b") R("h"), "")
                      FBODY_NODE("Loop", A("n") A("") A("a") R("r"),
                                 BODY(TURN IN(F32("s", D48)) GOES MUL("s", "h", "u") OUT("go_on") OUT("u"))))),
     NULL, NULL},
    {"call with an if inside", "If",
     WITH_FUNCTIONS(XW IN(BOOL("c", "")) FNODE("choice", A("x") A("w") A("c") R("y"))
                        FNODE("choice", A("y") A("x") A("c") R("z")) OUT("z"),
                    FUNCTION("choice", FIN("a") FIN("b") FIN("c"), FOUT("r"),
                             FBODY_NODE("If", A("c") R("r"),
                                        THEN(ADD("a", "b", "t") OUT("t")) ELSE(MUL("a", "b", "e") OUT("e"))))),
     "c=1", NULL},
    {"call in a loop", "Loop",
     WITH_FUNCTIONS(XW INT_CONST("n", 3) NODE("Loop", A("n") A("") A("x") R("y"),
                                              BODY(TURN IN(F32("s", D48)) GOES FNODE("step", A("s") A("w") R("u"))
                                                       FNODE("step", A("u") A("s") R("v")) OUT("go_on") OUT("v")))
                        OUT("y"),
                    FUNCTION("step", FIN("a") FIN("b"), FOUT("r"),
                             FBODY_NODE("Add", A("a") A("b") R("k"), "") FBODY_NODE("Tanh", A("k") R("r"), ""))),
     NULL, NULL},
    {.name = NULL},
};
