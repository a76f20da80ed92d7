/* What annotations mean: a smallest model for each code, and numbers that follow from its shapes. Sources: proposal
   0007 (consistency of operands, composition of devices, reductions), the operators' rules. */
#include <criterion/criterion.h>
#include <string.h>

#include "check_files.h"

#define C2      CONFIGURATION("c0", "2")
#define C4      CONFIGURATION("c0", "4")
#define SPLIT_0 DEVICES_01 AXIS("0", SHARDS("2"))
#define SPLIT_1 DEVICES_01 AXIS("1", SHARDS("2"))
#define MAT     DIM("4") DIM("8")
#define BOTH    (CHECK_ANNOTATIONS | CHECK_MEANING)

/* A op B -> Y */
#define TWO(op, a, b, y, entries, configuration)                                                                       \
    "1:11 " GRAPH(NODE(op, "n0", "1'A' 1'B' 2'Y'", entries) "11" VALUE("A", a) "11" VALUE("B", b) "12" VALUE("Y", y))  \
        configuration
/* X [4, 8] -> Relu n0 -> T -> Relu n1 -> Y */
#define CHAIN(first, second, configuration)                                                                            \
    "1:11 " GRAPH(NODE("Relu", "n0", "1'X' 2'T'", first)                                                               \
                      NODE("Relu", "n1", "1'T' 2'Y'", second) "11" VALUE("X", MAT) "12" VALUE("Y", MAT)) configuration
/* X [4, 8] -> op -> Y */
#define ONE_OF(op, attributes, y, entries, configuration)                                                              \
    "1:11 " GRAPH(NODE(op, "n0", "1'X' 2'Y'", attributes " " entries) "11" VALUE("X", MAT) "12" y) configuration
#define INT_ATTRIBUTE(name, value) "5{1'" name "' 3:" value " 20:2}"

static const struct check_case operands[] = {
    {"the example of 0007: other axes", TWO("Add", MAT, MAT, MAT, ENTRY(SPEC("A", SPLIT_0) SPEC("B", SPLIT_1)), C2),
     "OPERANDS_SPLIT_DIFFERENTLY INPUT_SHARDED INPUT_SHARDED", "'A'"},
    {"stated whole", TWO("Add", MAT, MAT, MAT, ENTRY(SPEC("A", SPLIT_0) SPEC("B", DEVICES_01)), C2),
     "OPERAND_NOT_SPLIT INPUT_SHARDED", "'B'"},
    {"a broadcast operand that is not everywhere",
     TWO("Add", MAT, DIM("1") DIM("8"), MAT, ENTRY(SPEC("A", SPLIT_0) SPEC("B", "2:0 ")), C2),
     "OPERAND_NOT_ON_DEVICE OUTPUT_RESHARD INPUT_SHARDED", "device 1"},
    {"no common device",
     TWO("Add", DIM("4") DIM("1"), DIM("1") DIM("8"), MAT,
         ENTRY(SPEC("A", SPLIT_0) SPEC("B", "2:2 2:3 " AXIS("1", SHARDS("2")))), C4),
     "DEVICES_DO_NOT_MEET INPUT_SHARDED INPUT_SHARDED", NULL},
    {"running sums need the sums before",
     "1:11 " GRAPH(NODE("Relu", "n0", "1'X' 2'T'", ENTRY(SPEC("X", SPLIT_0))) NODE(
         "CumSum", "n1", "1'T' 1'axis' 2'Y'", ENTRY(SPEC("T", SPLIT_0))) "5{2:7 8'axis' 7:0} "
                                                                         "11" VALUE("X", MAT) "12" VALUE("Y", MAT)) C2,
     "AXIS_NEEDED_WHOLE GATHER INPUT_SHARDED", "axis 0"},
    {"a model input arrives whole where it is needed whole",
     "1:11 " GRAPH(NODE("CumSum", "n0", "1'X' 1'axis' 2'Y'",
                        ENTRY(SPEC("X", SPLIT_0))) "5{2:7 8'axis' 7:0} "
                                                   "11" VALUE("X", MAT) "12" VALUE("Y", MAT)) C2,
     "AXIS_NEEDED_WHOLE INPUT_SHARDED", "axis 0"},
    {"a cut between the loops of a reshape",
     "1:11 " GRAPH(NODE(
         "Reshape", "n0", "1'X' 1'shape' 2'Y'",
         ENTRY(SPEC("X", "2:0 2:1 2:2 " AXIS(
                             "0", SHARDS("3"))))) "5{1:2 2:7 8'shape' 7:4 7:6} 11" VALUE("X", DIM("24")) "12" ANY("Y"))
         CONFIGURATION("c0", "3"),
     "CUT_BETWEEN_FACTORS INPUT_SHARDED", "axis 0"},
    {"shards in no regular order",
     ONE_OF("Relu", "", VALUE("Y", MAT), ENTRY(SPEC("X", "2:0 2:1 2:1 2:0 " AXIS("0", SHARDS("4")))), C2),
     "DEVICE_HOLDS_TWO_SHARDS DEVICE_HOLDS_TWO_SHARDS SHARDS_NOT_REGULAR INPUT_SHARDED", NULL},
    {"one spec for both sides of a product",
     "1:11 " GRAPH(NODE("MatMul", "n0", "1'X' 1'X' 2'Y'", ENTRY(SPEC("X", SPLIT_0))) "11" VALUE(
         "X", DIM("8") DIM("8")) "12" VALUE("Y", DIM("8") DIM("8"))) C2,
     "OPERANDS_SPLIT_DIFFERENTLY SPEC_FOR_SEVERAL_OPERANDS INPUT_SHARDED", NULL},
    {"one spec for both sides of a sum",
     "1:11 " GRAPH(
         NODE("Add", "n0", "1'X' 1'X' 2'Y'", ENTRY(SPEC("X", SPLIT_0))) "11" VALUE("X", MAT) "12" VALUE("Y", MAT)) C2,
     "INPUT_SHARDED OUTPUT_SHARDED", NULL},
    {"a tensor of unknown rank",
     "1:11 " GRAPH(NODE("Relu", "n0", "1'X' 2'Y'", ENTRY(SPEC("X", SPLIT_0))) "11" ANY("X") "12" ANY("Y")) C2,
     "NOT_LOOKED_AT", "number of axes"},
};

static const struct check_case communication[] = {
    {"nothing", CHAIN(ENTRY(SPEC("X", SPLIT_0)), ENTRY(SPEC("T", SPLIT_0)), C2), "INPUT_SHARDED OUTPUT_SHARDED", NULL},
    {"other axes at maker and user", CHAIN(ENTRY(SPEC("X", SPLIT_0)), ENTRY(SPEC("T", SPLIT_1)), C2),
     "RESHARD INPUT_SHARDED OUTPUT_SHARDED", "all-to-all"},
    {"an output of other axes", ONE_OF("Relu", "", VALUE("Y", MAT), ENTRY(SPEC("X", SPLIT_0) SPEC("Y", SPLIT_1)), C2),
     "OUTPUT_RESHARD INPUT_SHARDED OUTPUT_SHARDED", "all-to-all"},
    {"a split sum",
     TWO("MatMul", MAT, DIM("8") DIM("6"), DIM("4") DIM("6"), ENTRY(SPEC("A", SPLIT_1) SPEC("B", SPLIT_0)), C2),
     "REDUCTION INPUT_SHARDED INPUT_SHARDED", "all-reduce"},
    {"a split sum into a split result",
     TWO("MatMul", MAT, DIM("8") DIM("6"), DIM("4") DIM("6"),
         ENTRY(SPEC("A", SPLIT_1) SPEC("B", SPLIT_0) SPEC("Y", SPLIT_0)), C2),
     "REDUCTION INPUT_SHARDED INPUT_SHARDED OUTPUT_SHARDED", "reduce-scatter"},
    {"windows over a border",
     "1:11 " GRAPH(NODE("Relu", "n0", "1'X' 2'T'", ENTRY(SPEC("X", DEVICES_01 AXIS("2", SHARDS("2"))))) NODE(
         "Conv", "n1", "1'T' 1'W' 2'Y'",
         "5{1'pads' 8:1 8:1 8:1 8:1 20:7} " ENTRY(SPEC(
             "T", DEVICES_01 AXIS("2", SHARDS("2"))))) "11" VALUE("X",
                                                                  DIM("1") DIM("1") DIM("8") DIM(
                                                                      "8")) "11" VALUE("W", DIM("1") DIM("1") DIM("3")
                                                                                                DIM("3")) "12" ANY("Y"))
         C2,
     "HALO_EXCHANGE INPUT_SHARDED OUTPUT_SHARDED", NULL},
};

static const struct check_case stages[] = {
    {"in order", CHAIN(ENTRY(STAGE("0")), ENTRY(STAGE("1")), C2), "", NULL},
    {"backwards", CHAIN(ENTRY(STAGE("1")), ENTRY(STAGE("0")), C2), "STAGE_BACKWARDS", "later stage 1"},
    {"skipping", CHAIN(ENTRY(STAGE("0")), ENTRY(STAGE("2")), C2), "STAGE_SKIPPED", "stage 0 to 'n1' (Relu) in stage 2"},
    {"missing", CHAIN(ENTRY(STAGE("0")), "", C2), "STAGE_MISSING", "1 nodes have a pipeline stage and 1 have none"},
    {"on other devices", CHAIN(ENTRY(STAGE("0") SPEC("X", "2:0 ")), ENTRY(STAGE("0") SPEC("T", "2:1 ")), C2),
     "RESHARD STAGE_DEVICES_DIFFER", NULL},
};

/* h0 [4, 8] -> Relu n0 -> T -> Relu n1 -> hn */
#define LOOP(dims, first, second)                                                                                      \
    "1:11 " GRAPH(NODE("Relu", "n0", "1'h0' 2'T'", first)                                                              \
                      NODE("Relu", "n1", "1'T' 2'hn'", second) "11" VALUE("h0", MAT) "12" VALUE("hn", dims)) C2
/* A cache of 4 positions, and two more: past_k [4, 8] and X [2, 8] -> present_k [6, 8] */
#define CACHE(entries)                                                                                                 \
    "1:11 " GRAPH(NODE("Concat", "n0", "1'past_k' 1'X' 2'present_k'", "5{1'axis' 3:0 20:2} " entries) "11" VALUE(      \
        "past_k", MAT) "11" VALUE("X", DIM("2") DIM("8")) "12" VALUE("present_k", DIM("6") DIM("8"))) C2

static const struct check_case states[] = {
    {"a state that stays", LOOP(MAT, ENTRY(SPEC("h0", SPLIT_0)), ENTRY(SPEC("T", SPLIT_0))),
     "INPUT_SHARDED OUTPUT_SHARDED", NULL},
    {"a state that is made in other shards",
     LOOP(MAT, ENTRY(SPEC("h0", SPLIT_0)), ENTRY(SPEC("T", SPLIT_1) SPEC("hn", SPLIT_1))),
     "RESHARD INPUT_SHARDED OUTPUT_SHARDED STATE_RESHARD", NULL},
    {"a state that is made on another device",
     LOOP(MAT, ENTRY(STAGE("0") SPEC("h0", "2:0 ")), ENTRY(STAGE("1") SPEC("T", "2:1 ") SPEC("hn", "2:1 "))),
     "RESHARD STATE_RESHARD", "on device 1"},
    {"a cache that is split along another axis than it grows",
     CACHE(ENTRY(SPEC("past_k", SPLIT_1) SPEC("X", SPLIT_1) SPEC("present_k", SPLIT_1))),
     "INPUT_SHARDED INPUT_SHARDED OUTPUT_SHARDED", NULL},
    {"a cache that is split along the axis that it grows", CACHE(ENTRY(SPEC("present_k", SPLIT_0))),
     "OUTPUT_SHARDED STATE_RESHARD", NULL},
};

/* Raised below, where memory is given. */
static const struct check_case memory = {"memory", NULL, "MEMORY_TOO_SMALL", NULL};

static const struct check_cases all[] = {
#define CASES(name)                                                                                                    \
    {                                                                                                                  \
        name, sizeof(name) / sizeof(name[0])                                                                           \
    }
    CASES(operands), CASES(communication), CASES(stages), CASES(states), {&memory, 1},
};
#define ALL_COUNT (sizeof(all) / sizeof(all[0]))

Test(check_meaning, cases)
{
    for (size_t i = 0; i + 1 < ALL_COUNT; i++) {
        for (size_t k = 0; k < all[i].count; k++)
            check_case(&all[i].items[k], BOTH);
    }
}

Test(check_meaning, every_code_is_raised)
{
    check_coverage(sp_codes_meaning, ALL_COUNT, all);
}

/* ---- bytes ---- */

/* An all-reduce of 4 x 6 floats (96 bytes) between two: each sends half and then half again, 96 bytes. */
Test(check_meaning, bytes_of_a_reduction)
{
    struct check_result result;
    check_run(
        &result,
        TWO("MatMul", MAT, DIM("8") DIM("6"), DIM("4") DIM("6"), ENTRY(SPEC("A", SPLIT_1) SPEC("B", SPLIT_0)), C2),
        BOTH, 0);
    const struct sp_diagnostic *found = check_find(&result, "REDUCTION");
    cr_assert_not_null(found);
    cr_assert_float_eq(found->bytes, 96, 1e-9, "%g", found->bytes);
    cr_assert_str_eq(found->configuration, "c0");
    cr_assert_str_eq(found->tensor, "Y");
    cr_assert_str_eq(found->node->name, "n0");
    check_release(&result);
}

/* A [4, 1000] times W [1000, 100]: W has 400,000 bytes, A 16,000, Y 1,600. */
#define LAYER(entries, num)                                                                                            \
    "1:11 " GRAPH(NODE("MatMul", "n0", "1'A' 1'W' 2'Y'",                                                               \
                       entries) "5{1:1000 1:100 2:1 8'W' 14:1 13{1'location' 2'w'}} "                                  \
                                "11" VALUE("A", DIM("4") DIM("1000")) "12" VALUE("Y", DIM("4") DIM("100")))            \
        CONFIGURATION("c0", num)

static void expect_memory(const char *notation, double enough, const char *phrase)
{
    struct check_result result;
    check_run(&result, notation, BOTH, enough);
    cr_expect_null(check_find(&result, "MEMORY_TOO_SMALL"), "%g bytes: %s", enough, result.codes);
    check_release(&result);
    check_run(&result, notation, BOTH, enough - 1);
    const struct sp_diagnostic *found = check_find(&result, "MEMORY_TOO_SMALL");
    cr_assert_not_null(found, "%g bytes: %s", enough - 1, result.codes);
    cr_expect_not_null(strstr(found->message, phrase), "%s", found->message);
    cr_expect_str_eq(found->tensor, "W");
    check_release(&result);
}

Test(check_meaning, memory_of_whole_weights)
{
    expect_memory(LAYER(ENTRY(SPEC("A", DEVICES_01)), "2"), 400000 + 16000 + 1600, "2 of 2 devices");
}

Test(check_meaning, memory_of_split_weights)
{
    /* Columns of W in two: half of W, all of A, half of Y. */
    expect_memory(LAYER(ENTRY(SPEC("A", DEVICES_01) SPEC("W", SPLIT_1)), "2"), 200000 + 16000 + 800, "'W' 200.0 kB");
}

Test(check_meaning, memory_of_uneven_weights)
{
    /* 100 columns in three are 34, 34 and 32: the third device needs less. */
    expect_memory(LAYER(ENTRY(SPEC("W", "2:0 2:1 2:2 " AXIS("1", SHARDS("3")))), "3"), 34 * 4000 + 16000 + 34 * 16,
                  "2 of 3 devices");
}

/* ---- what is told where ---- */

Test(check_meaning, an_inferred_spec_is_explained)
{
    struct check_result result;
    check_run(&result,
              "1:11 " GRAPH(NODE("Relu", "n0", "1'X' 2'T'", ENTRY(SPEC("X", SPLIT_0)))
                                NODE("Add", "n1", "1'T' 1'B' 2'Y'", ENTRY(SPEC("B", SPLIT_1))) "11" VALUE(
                                    "X", MAT) "11" VALUE("B", MAT) "12" VALUE("Y", MAT)) C2,
              BOTH, 0);
    const struct sp_diagnostic *found = check_find(&result, "OPERANDS_SPLIT_DIFFERENTLY");
    cr_assert_not_null(found, "%s", result.codes);
    cr_assert_not_null(strstr(found->message, "'n0'"), "%s", found->message);
    cr_assert_str_eq(found->node->name, "n1");
    check_release(&result);
}

Test(check_meaning, unknown_configuration)
{
    struct check_result result;
    check_run(&result, CHAIN(ENTRY(STAGE("0")), ENTRY(STAGE("1")), C2), 0, 0);
    cr_assert_eq(sp_check_meaning(result.model.model, "c1", 0, &result.list, &result.model.err), SP_ERR_REQUEST);
    cr_assert_str_eq(result.model.err.code, "UNKNOWN_CONFIGURATION");
    check_release(&result);
}

Test(check_meaning, more_devices_than_can_be_compared)
{
    struct check_result result;
    check_run(&result, CHAIN(ENTRY(SPEC("X", SPLIT_0)), "", CONFIGURATION("c0", "100000")), BOTH, 0);
    cr_assert_str_eq(result.codes, "NOT_LOOKED_AT");
    check_release(&result);
}
