/* The structure of multi-device data: a smallest model for each code, and what must not be told. Sources: the comments
   of onnx.proto, docs/IR.md and proposal 0006. */
#include <criterion/criterion.h>
#include <string.h>

#include "check_files.h"

#define C0         CONFIGURATION("c0", "2")
#define SPLIT      DEVICES_01 AXIS("0", SHARDS("2"))
#define WHOLE      SPEC("X", "2:0")
#define ONE(body)  RELU(ENTRY(SPEC("X", body)), C0)
#define ON_C(body) RELU(ENTRY(SPEC("X", body)), CONFIGURATION("c0", "4"))

static const struct check_case sound[] = {
    {"nothing annotated", "1:8 " GRAPH(NODE("Relu", "", "1'X' 2'Y'", "") "11" VALUE("X", "") "12" ANY("Y")), "", NULL},
    {"split", ONE(SPLIT), "", NULL},
    {"split on two axes", ON_C(DEVICES_0123 AXIS("0", SHARDS("2")) AXIS("1", SHARDS("2"))), "", NULL},
    {"replicated by a group", ONE("2:-1 " GROUP("-1", "2:0 2:1")), "", NULL},
    {"replicated by a list", ONE(DEVICES_01), "", NULL},
    {"split and replicated", ON_C("2:-1 2:-2 " GROUP("-1", "2:0 2:1") GROUP("-2", "2:2 2:3") AXIS("0", SHARDS("2"))),
     "", NULL},
    {"packed device list", ONE("2h0001 " AXIS("0", SHARDS("2"))), "", NULL},
    {"negative axis", ONE(DEVICES_01 AXIS("-1", SHARDS("2"))), "", NULL},
    {"two parts, one open", ONE(DEVICES_01 AXIS("1", PART("4", "2") SHARDS("1"))), "", NULL},
    {"dim_value", ONE(DEVICES_01 AXIS("1", PART("8", "2"))), "", NULL},
    {"symbol of the axis", RELU_OF(SYMBOL("N") DIM("8"), ENTRY(SPEC("X", DEVICES_01 AXIS("0", PARAM("N", "2")))), C0),
     "", NULL},
    {"unknown rank",
     "1:11 " GRAPH(NODE("Relu", "n0", "1'X' 2'Y'",
                        ENTRY(SPEC("X", DEVICES_01 AXIS("-1", SHARDS("2"))))) "11{1'X' 2{1{1:1}}} 12{1'Y' 2{1{1:1}}}")
         C0,
     "", NULL},
    {"names of devices", RELU(ENTRY(SPEC("X", SPLIT)), "26{1'c0' 2:2 3'a' 3'b'}"), "", NULL},
    {"stage 0", RELU(ENTRY(STAGE("0")), C0), "", NULL},
    {"one entry for each configuration",
     RELU("10{1'c0' 3:0} 10{1'c1' " SPEC("X", DEVICES_0123 AXIS("1", SHARDS("4"))) "}", C0 CONFIGURATION("c1", "4")),
     "", NULL},
    {"a tensor that is an operand twice",
     "1:11 " GRAPH(NODE("Add", "n0", "1'X' 1'X' 2'Y'",
                        ENTRY(SPEC("X", SPLIT))) "11" VALUE("X", DIM("4")) "12" VALUE("Y", DIM("4"))) C0,
     "", NULL},
};

static const struct check_case configurations[] = {
    {"before IR 11",
     "1:10 " GRAPH(NODE("Relu", "n0", "1'X' 2'Y'", ENTRY(STAGE("0"))) "11" VALUE("X", "") "12" ANY("Y")) C0,
     "IR_VERSION_TOO_LOW", "ir_version 10"},
    {"before IR 11, a configuration alone",
     "1:10 " GRAPH(NODE("Relu", "n0", "1'X' 2'Y'", "") "11" VALUE("X", "") "12" ANY("Y")) C0,
     "CONFIGURATION_UNUSED IR_VERSION_TOO_LOW", NULL},
    {"no ir_version", GRAPH(NODE("Relu", "n0", "1'X' 2'Y'", ENTRY(STAGE("0"))) "11" VALUE("X", "") "12" ANY("Y")) C0,
     "IR_VERSION_TOO_LOW", NULL},
    {"unnamed", RELU("", "26{2:2}"), "CONFIGURATION_UNNAMED", "Configuration 0"},
    {"one name for two", RELU(ENTRY(STAGE("0")), C0 CONFIGURATION("c0", "4")), "CONFIGURATION_TWICE", "'c0'"},
    {"no num_devices", RELU(ENTRY(SPEC("X", SPLIT)), "26{1'c0'}"), "NUM_DEVICES_MISSING", "num_devices"},
    {"num_devices 0", RELU(ENTRY(STAGE("0")), CONFIGURATION("c0", "0")), "NUM_DEVICES_INVALID", "num_devices 0"},
    {"num_devices -2", RELU(ENTRY(STAGE("0")), CONFIGURATION("c0", "-2")), "NUM_DEVICES_INVALID", "num_devices -2"},
    {"three names for two", RELU(ENTRY(STAGE("0")), "26{1'c0' 2:2 3'a' 3'b' 3'c'}"), "DEVICE_NAMES_COUNT",
     "3 names of devices for num_devices 2"},
    {"one name for two devices", RELU(ENTRY(STAGE("0")), "26{1'c0' 2:2 3'a' 3'a'}"), "DEVICE_NAME_TWICE", "'a'"},
    {"not used", RELU(ENTRY(STAGE("0")), C0 CONFIGURATION("c1", "2")), "CONFIGURATION_UNUSED", "'c1'"},
    {"lost", RELU(ENTRY(SPEC("X", SPLIT)), ""), "CONFIGURATIONS_LOST", "'c0'"},
    {"lost, told once",
     "1:11 " GRAPH(NODE("Relu", "n0", "1'X' 2'T'", ENTRY(STAGE("0")))
                       NODE("Relu", "n1", "1'T' 2'Y'", ENTRY(STAGE("1"))) "11" VALUE("X", "") "12" ANY("Y")),
     "CONFIGURATIONS_LOST", "same holds for all"},
};

static const struct check_case entries[] = {
    {"no configuration_id", RELU("10{" SPEC("X", SPLIT) "}", C0), "CONFIGURATION_ID_MISSING CONFIGURATION_UNUSED",
     "no configuration_id"},
    {"unknown configuration", RELU("10{1'c9' " SPEC("X", SPLIT) "}", C0), "CONFIGURATION_UNKNOWN CONFIGURATION_UNUSED",
     "'c9'"},
    {"two entries", RELU(ENTRY(STAGE("0")) ENTRY(SPEC("X", SPLIT)), C0), "ENTRY_TWICE", "configuration_id 'c0'"},
    {"empty entry", RELU(ENTRY(""), C0), "ENTRY_EMPTY CONFIGURATION_UNUSED", "neither a pipeline stage"},
    {"negative stage", RELU(ENTRY(STAGE("-1")), C0), "STAGE_NEGATIVE", "pipeline_stage -1"},
    {"no tensor_name", RELU(ENTRY("2{" SPLIT "}"), C0), "TENSOR_NAME_MISSING", "no tensor_name"},
    {"foreign tensor", RELU(ENTRY(SPEC("Z", SPLIT)), C0), "TENSOR_NOT_OF_NODE", "'Z'"},
    {"two specs", RELU(ENTRY(SPEC("X", SPLIT) SPEC("X", SPLIT)), C0), "SPEC_TWICE", "'X'"},
    {"a sequence",
     "1:11 " GRAPH(NODE("SequenceLength", "n0", "1'X' 2'Y'",
                        ENTRY(SPEC("X", DEVICES_01))) "11{1'X' 2{4{1{1{1:1}}}}} 12{1'Y' 2{1{1:7 2{}}}}") C0,
     "NOT_A_TENSOR", "sequence"},
};

static const struct check_case axes[] = {
    {"scalar", RELU_OF("", ENTRY(SPEC("X", SPLIT)), C0), "SCALAR_SHARDED", "rank 0"},
    {"axis too large", ONE(DEVICES_01 AXIS("2", SHARDS("2"))), "AXIS_OUT_OF_RANGE", "axis 2 of 'X', which has rank 2"},
    {"axis too small", ONE(DEVICES_01 AXIS("-3", SHARDS("2"))), "AXIS_OUT_OF_RANGE", "axis -3"},
    {"axis too large for anything",
     "1:11 " GRAPH(NODE("Relu", "n0", "1'X' 2'Y'",
                        ENTRY(SPEC("X", DEVICES_01 AXIS("64", SHARDS("2"))))) "11{1'X' 2{1{1:1}}} 12{1'Y' 2{1{1:1}}}")
         C0,
     "AXIS_OUT_OF_RANGE", "more than 64"},
    {"axis twice", ON_C(DEVICES_0123 AXIS("0", SHARDS("2")) AXIS("0", SHARDS("2"))), "AXIS_TWICE", "axis 0"},
    {"axis twice, counted from both ends", ON_C(DEVICES_0123 AXIS("0", SHARDS("2")) AXIS("-2", SHARDS("2"))),
     "AXIS_TWICE", "axis 0 and axis -2"},
    {"axis twice, counted from the end of an unknown rank",
     "1:11 " GRAPH(NODE("Relu", "n0", "1'X' 2'Y'",
                        ENTRY(SPEC("X", DEVICES_0123 AXIS("-1", SHARDS("2"))
                                            AXIS("-1", SHARDS("2"))))) "11{1'X' 2{1{1:1}}} 12{1'Y' 2{1{1:1}}}")
         CONFIGURATION("c0", "4"),
     "AXIS_TWICE", "axis -1"},
    {"axis absent", ONE(DEVICES_01 "4{" SHARDS("2") "}"), "AXIS_ABSENT", "axis 0"},
    {"descending", ON_C(DEVICES_0123 AXIS("1", SHARDS("2")) AXIS("0", SHARDS("2"))), "AXES_NOT_ASCENDING", "'X'"},
    {"no simple_sharding", ONE(DEVICES_01 AXIS("0", "")), "SIMPLE_SHARDING_MISSING", "axis 0"},
    {"no num_shards", ONE(DEVICES_01 AXIS("0", "2{1:4}")), "NUM_SHARDS_MISSING", "num_shards"},
    {"num_shards 0", ONE(DEVICES_01 AXIS("0", SHARDS("0"))), "NUM_SHARDS_INVALID", "num_shards 0"},
    {"num_shards -2", ONE(DEVICES_01 AXIS("0", SHARDS("-2"))), "NUM_SHARDS_INVALID", "num_shards -2"},
    {"too many shards of one axis",
     RELU_OF(SYMBOL("N"), ENTRY(SPEC("X", DEVICES_01 AXIS("0", PART("4", "4294967296") SHARDS("4294967296")))), C0),
     "SHARDS_TOO_MANY", NULL},
    {"too many shards of two axes",
     RELU_OF(SYMBOL("N") SYMBOL("M"),
             ENTRY(SPEC("X", DEVICES_01 AXIS("0", SHARDS("4294967296")) AXIS("1", SHARDS("4294967296")))), C0),
     "SHARDS_TOO_MANY", NULL},
    {"dim_value -4", ONE(DEVICES_01 AXIS("0", PART("-4", "2"))), "DIM_VALUE_INVALID", "dim_value -4"},
    {"dim_value 0 of a part", ONE(DEVICES_01 AXIS("0", PART("0", "2") SHARDS("1"))), "DIM_VALUE_INVALID", NULL},
    {"dim_value 6 of 4", ONE(DEVICES_01 AXIS("0", PART("6", "2"))), "DIM_VALUE_MISMATCH", "extent is 4"},
    {"dim_value 0 of 4", ONE(DEVICES_01 AXIS("0", PART("0", "2"))), "DIM_VALUE_MISMATCH", "Leave dim_value away"},
    {"2 * 3 of 4", ONE(DEVICES_01 AXIS("0", PART("2", "2") PART("3", "1"))), "DIM_PRODUCT_MISMATCH",
     "multiply to 6, which is not its extent of 4"},
    {"3 * ? of 4", ONE(DEVICES_01 AXIS("0", PART("3", "1") SHARDS("2"))), "DIM_PRODUCT_MISMATCH", "does not divide"},
    {"two open", ONE(DEVICES_01 AXIS("1", SHARDS("2") SHARDS("1"))), "DIMS_OPEN", "2 of the 2"},
    {"symbol of nothing", ONE(DEVICES_01 AXIS("0", PARAM("K", "2"))), "DIM_PARAM_UNKNOWN", "'K'"},
    {"symbol of another axis",
     RELU_OF(SYMBOL("N") SYMBOL("M"), ENTRY(SPEC("X", DEVICES_01 AXIS("0", PARAM("M", "2")))), C0), "DIM_PARAM_OTHER",
     "extent of the axis is N"},
    {"symbol of another number",
     "1:11 " GRAPH(NODE(
         "Concat", "n0", "1'X' 1'A' 2'Y'",
         "5{1'axis' 3:0 20:2} " ENTRY(SPEC(
             "Y", DEVICES_01 AXIS(
                      "0", PARAM("N", "2"))))) "11" VALUE("X", SYMBOL("N")) "11" VALUE("A", DIM("1")) "12" ANY("Y")) C0,
     "DIM_PARAM_MISMATCH", "surely another"},
    {"5 in 2", RELU_OF(DIM("5"), ENTRY(SPEC("X", SPLIT)), C0), "SHARDS_UNEVEN", "all but the last hold 3"},
    {"1 in 4", RELU_OF(DIM("1"), ENTRY(SPEC("X", DEVICES_0123 AXIS("0", SHARDS("4")))), CONFIGURATION("c0", "4")),
     "SHARDS_EMPTY", "3 of the shards are empty"},
    {"5 in 4: blocks of 2",
     RELU_OF(DIM("5"), ENTRY(SPEC("X", DEVICES_0123 AXIS("0", SHARDS("4")))), CONFIGURATION("c0", "4")), "SHARDS_EMPTY",
     "1 of the shards are empty"},
    {"uneven part", RELU_OF(DIM("6"), ENTRY(SPEC("X", DEVICES_01 AXIS("0", PART("2", "1") PART("3", "2")))), C0),
     "SHARDS_UNEVEN", "3 elements"},
};

static const struct check_case devices[] = {
    {"placement open", ONE(AXIS("0", SHARDS("2"))), "PLACEMENT_OPEN", "empty"},
    {"nothing said", ONE(""), "PLACEMENT_OPEN", "1 shard."},
    {"device 7 of 2", ONE("2:0 2:7 " AXIS("0", SHARDS("2"))), "DEVICE_OUT_OF_RANGE", "device 7, but num_devices is 2"},
    {"-1 without group", ONE("2:0 2:-1 " AXIS("0", SHARDS("2"))), "GROUP_MISSING", "-1"},
    {"3 shards on 2", ONE(DEVICES_01 AXIS("1", SHARDS("3"))), "SHARDS_UNEVEN DEVICES_TOO_FEW", NULL},
    {"4 shards on 2", ONE(DEVICES_01 AXIS("1", SHARDS("4"))), "DEVICES_TOO_FEW", "4 shards, but its device list has 2"},
    {"2 shards on 4", ON_C(DEVICES_0123 AXIS("0", SHARDS("2"))), "DEVICES_TOO_MANY",
     "2 shards, but its device list has 4"},
    {"three shards on a device, one on another", ONE("2:0 2:0 2:0 2:1 " AXIS("0", SHARDS("4"))), ""},
    {"shards of a device that are apart", ONE("2:0 2:1 2:0 2:0 " AXIS("0", SHARDS("4"))), "DEVICE_HOLDS_TWO_SHARDS"},
    {"one device, two shards", ONE("2:0 2:0 " AXIS("0", SHARDS("2"))), "DEVICE_HOLDS_TWO_SHARDS",
     "shard 0 and shard 1"},
    {"one device in two groups, two shards",
     ON_C("2:-1 2:-2 " GROUP("-1", "2:0 2:1") GROUP("-2", "2:1 2:2") AXIS("0", SHARDS("2"))), "DEVICE_HOLDS_TWO_SHARDS",
     "Device 1"},
    {"listed twice", ONE("2:1 2:1"), "DEVICE_LISTED_TWICE", "Device 1"},
    {"key twice", ONE("2:-1 " GROUP("-1", "2:0") GROUP("-1", "2:1")), "GROUP_KEY_TWICE", "group key -1"},
    {"empty group", ONE("2:-1 3{1:-1}"), "GROUP_EMPTY", "no member"},
    {"group of groups", ONE("2:-1 " GROUP("-1", "2:0 2:-2") GROUP("-2", "2:1")), "GROUP_NESTED", "Member -2"},
    {"member 9", ONE("2:-1 " GROUP("-1", "2:0 2:9")), "GROUP_MEMBER_OUT_OF_RANGE", "Member 9"},
    {"member -7", ONE("2:-1 " GROUP("-1", "2:0 2:-7")), "GROUP_MEMBER_OUT_OF_RANGE", "negative"},
    {"member twice", ONE("2:-1 " GROUP("-1", "2:0 2:0 2:0")), "GROUP_MEMBER_TWICE", "device 0 twice"},
    {"group not used", ONE("2:0 " GROUP("-1", "2:0 2:1")), "GROUP_UNUSED", "Group -1"},
    {"key of a device", ONE("2:0 " GROUP("0", "2:1")), "GROUP_KEY_IS_DEVICE", "key 0"},
    {"two spellings", ON_C("2:-1 2:-2 " GROUP("-1", "2:0 2:1") GROUP("-2", "2:1 2:0")),
     "DEVICE_LISTED_TWICE DEVICE_LISTED_TWICE GROUP_SPELLED_TWICE", NULL},
};

/* ---- the likely cause of a wrong name ---- */

#define TWO_NODES(entries, extra)                                                                                      \
    "1:11 " GRAPH(NODE("Relu", "n0", "1'X' 2'T'", "") NODE("Relu", "n1", "1'T' 2'model/out'", entries) "11" VALUE(     \
        "X", DIM("4")) "12" VALUE("model/out", DIM("4"))) extra C0
#define BODY_NODE(entries) "7{1'formal_in' 2'formal_out' 3'inside' 4'Relu' " entries "}"
#define FUNCTION(body)     "25{1'F' 10'f' 4'formal_in' 4'other_in' 5'formal_out' " body " 9{2:23}}"

static const struct check_case causes[] = {
    {"a prefix was added", TWO_NODES(ENTRY(SPEC("out", SPLIT)), ""), "TENSOR_NOT_OF_NODE", "'model/out'"},
    {"a prefix was taken away", RELU(ENTRY(SPEC("main/X", SPLIT)), C0), "TENSOR_NOT_OF_NODE", "prefix"},
    {"inlined",
     "1:11 " GRAPH(NODE("Relu", "n0", "1'X' 2't__1'",
                        ENTRY(SPEC("t", SPLIT))) "11" VALUE("X", DIM("4")) "12" VALUE("t__1", DIM("4"))) C0,
     "TENSOR_NOT_OF_NODE", "inlined"},
    {"mistyped",
     "1:11 " GRAPH(NODE("Relu", "n0", "1'hidden' 2'Y'",
                        ENTRY(SPEC("hiden", SPLIT))) "11" VALUE("hidden", DIM("4")) "12" VALUE("Y", DIM("4"))) C0,
     "TENSOR_NOT_OF_NODE", "Did you mean 'hidden'?"},
    {"of another node", TWO_NODES(ENTRY(SPEC("X", SPLIT)), ""), "TENSOR_NOT_OF_NODE",
     "neither input nor output of this"},
    {"a formal name", TWO_NODES(ENTRY(SPEC("formal_in", SPLIT)), FUNCTION(BODY_NODE(""))), "TENSOR_NOT_OF_NODE",
     "formal name of function 'F'"},
};

/* ---- where nodes hide ---- */

#define BRANCH(spec) "{" NODE("Relu", "inner", "1'X' 2'b'", spec) " 2'branch' 12{1'b'}}"
#define CALLS(function_body, calls)                                                                                    \
    "1:11 7{2'g' " calls                                                                                               \
    " 11" VALUE("X", DIM("4") DIM("8")) "12" ANY("Y") "} 8{2:23} 8{1'f' 2:1} " FUNCTION(function_body) C0
#define CALL(in, out) "1{1'" in "' 2'" out "' 4'F' 7'f'}"

static const struct check_case hidden[] = {
    {"in a branch of If",
     "1:11 7{2'g' 1{1'c' 2'Y' 3'if' 4'If' 5{1'then_branch' 20:5 6" BRANCH(
         ENTRY(SPEC("X", "2:7 "))) "} 5{1'else_branch' 20:5 6{1{1'X' 2'e' 4'Relu'} 2'other' 12{1'e'}}}} 11{1'c' "
                                   "2{1{1:9 2{}}}} 11" VALUE("X", DIM("4")) "12" ANY("Y") "} 8{2:23} " C0,
     "DEVICE_OUT_OF_RANGE", "device 7"},
    {"in a function that is called", CALLS(BODY_NODE(ENTRY(SPEC("formal_in", "2:7 "))), CALL("X", "Y")),
     "DEVICE_OUT_OF_RANGE", "'formal_in'"},
    {"in a function that is called, with the shapes of the call",
     CALLS(BODY_NODE(ENTRY(SPEC("formal_in", DEVICES_01 AXIS("2", SHARDS("2"))))), CALL("X", "Y")), "AXIS_OUT_OF_RANGE",
     "rank 2"},
    {"in a function that is called twice, told once",
     CALLS(BODY_NODE(ENTRY(SPEC("formal_in", "2:7 "))), CALL("X", "T") CALL("T", "Y")), "DEVICE_OUT_OF_RANGE", NULL},
    {"in a function that nobody calls",
     CALLS(BODY_NODE(ENTRY(SPEC("formal_in", "2:7 "))), NODE("Relu", "", "1'X' 2'Y'", "")), "DEVICE_OUT_OF_RANGE",
     NULL},
    {"of an input that the call leaves out",
     CALLS("7{1'formal_in' 1'other_in' 2'formal_out' 3'inside' 4'Clip' " ENTRY(SPEC("other_in", "2:0 ")) "}",
           CALL("X", "Y")),
     "", NULL},
};

static const struct check_cases all[] = {
#define CASES(name)                                                                                                    \
    {                                                                                                                  \
        name, sizeof(name) / sizeof(name[0])                                                                           \
    }
    CASES(sound), CASES(configurations), CASES(entries), CASES(axes), CASES(devices), CASES(causes), CASES(hidden),
};
#define ALL_COUNT (sizeof(all) / sizeof(all[0]))

Test(check_annotations, cases)
{
    for (size_t i = 0; i < ALL_COUNT; i++) {
        for (size_t k = 0; k < all[i].count; k++)
            check_case(&all[i].items[k], CHECK_ANNOTATIONS);
    }
}

/* 1100 times a group of 1000 devices is more than can be listed. */
static const struct check_case large = {"too large a placement", NULL, "PLACEMENT_TOO_LARGE", NULL};

Test(check_annotations, placement_too_large)
{
    struct sp_buf notation;
    struct check_result result;
    sp_buf_init(&notation, 1 << 20);
    sp_buf_text(&notation, "1:11 7{2'g' 1{1'X' 2'Y' 3'n0' 4'Relu' 10{1'c0' 2{1'X' 2:-1*1100 3{1:-1");
    for (int i = 0; i < 1000; i++)
        sp_buf_printf(&notation, " 2:%d", i);
    sp_buf_text(&notation,
                "}}}} 11" VALUE("X", DIM("4")) "12" VALUE("Y", DIM("4")) "} 8{2:23} " CONFIGURATION("c0", "2000"));
    check_run(&result, notation.data, CHECK_ANNOTATIONS, 0);
    cr_assert_str_eq(result.codes, large.codes);
    cr_assert_not_null(strstr(result.list.items[0].message, "1100000"));
    check_release(&result);
    sp_buf_release(&notation);
}

Test(check_annotations, every_code_is_raised)
{
    struct check_cases with_large[ALL_COUNT + 1];
    memcpy(with_large, all, sizeof(all));
    with_large[ALL_COUNT] = (struct check_cases){&large, 1};
    check_coverage(sp_codes_annotations, ALL_COUNT + 1, with_large);
}

Test(check_annotations, one_configuration)
{
    static const char *notation =
        RELU("10{1'c0' " SPEC("X", "2:7 ") "} 10{1'c1' " SPEC("X", "2:8 ") "} 10{1'c2'}", C0 CONFIGURATION("c1", "2"));
    struct check_result result;
    struct sp_diagnostics list = {0};
    check_run(&result, notation, 0, 0);
    struct sp_model *model = result.model.model;
    list.arena = result.model.arena;
    cr_assert_eq(sp_check_annotations(model, "c1", &list, &result.model.err), SP_OK);
    cr_assert_eq(list.count, 1);
    cr_assert_str_eq(list.items[0].code->code, "DEVICE_OUT_OF_RANGE");
    cr_assert_str_eq(list.items[0].configuration, "c1");
    cr_assert_str_eq(list.items[0].tensor, "X");
    cr_assert_str_eq(list.items[0].node->name, "n0");
    cr_assert_eq(sp_check_annotations(model, "c9", &list, &result.model.err), SP_ERR_REQUEST);
    cr_assert_str_eq(result.model.err.code, "UNKNOWN_CONFIGURATION");
    cr_assert_not_null(strstr(result.model.err.message, "'c0', 'c1'"));
    check_release(&result);
}
