/*
 * A published list of 57 annotated models and what is to be thought of each. 27 are files (tests/conformance/corpus.c
 * runs them); the others are built here from what the list says of them.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "check_files.h"

#define C0        CONFIGURATION("c0", "2")
#define C0_OF_4   CONFIGURATION("c0", "4")
#define SPLIT     DEVICES_01 AXIS("0", SHARDS("2"))
#define X(body)   RELU(ENTRY(SPEC("X", body)), C0)
#define X_4(body) RELU(ENTRY(SPEC("X", body)), C0_OF_4)

/* A op B -> Y */
#define TWO(op, a, b, y, entries, configuration)                                                                       \
    "1:11 " GRAPH(NODE(op, "n0", "1'A' 1'B' 2'Y'", entries) "11" VALUE("A", a) "11" VALUE("B", b) "12" VALUE("Y", y))  \
        configuration

static const struct row {
    const char *name, *verdict, *code, *notation;
} rows[] = {
    {"00-ok-split-axis0", "valid", NULL, RELU_OF(DIM("2") DIM("2"), ENTRY(SPEC("X", SPLIT) SPEC("Y", SPLIT)), C0)},
    {"03-ok-replicate", "valid", NULL,
     RELU_OF(DIM("2") DIM("2"), ENTRY(SPEC("X", "2:-1 " GROUP("-1", "2:0 2:1"))), C0)},
    {"04-ok-split-and-replicate", "valid", NULL,
     RELU_OF(DIM("2") DIM("2"),
             ENTRY(SPEC("X", "2:-1 2:-2 " GROUP("-1", "2:0 2:1") GROUP("-2", "2:2 2:3") AXIS("0", SHARDS("2")))),
             C0_OF_4)},
    {"06-ok-matmul-k-split", "valid", NULL,
     TWO("MatMul", DIM("4") DIM("8"), DIM("8") DIM("6"), DIM("4") DIM("6"),
         ENTRY(SPEC("A", DEVICES_01 AXIS("1", SHARDS("2"))) SPEC("B", SPLIT)), C0)},
    {"07-ok-matmul-k-split-reduce-scatter", "valid", NULL,
     TWO("MatMul", DIM("4") DIM("8"), DIM("8") DIM("6"), DIM("4") DIM("6"),
         ENTRY(SPEC("A", DEVICES_01 AXIS("1", SHARDS("2"))) SPEC("B", SPLIT) SPEC("Y", SPLIT)), C0)},
    {"08-ok-reduce-all", "valid", NULL,
     "1:11 " GRAPH(NODE("ReduceSum", "n0", "1'X' 2'Y'", "5{1'keepdims' 3:0 20:2} " ENTRY(SPEC("X", SPLIT))) "11" VALUE(
         "X", DIM("4") DIM("8")) "12" VALUE("Y", "")) C0},
    {"10-ok-pipeline-stage-only", "valid", NULL, RELU(ENTRY(STAGE("0")), C0)},
    {"14-ok-uneven", "valid", "SHARDS_UNEVEN", RELU_OF(DIM("5") DIM("8"), ENTRY(SPEC("X", SPLIT)), C0)},
    {"15-ok-more-shards-than-rows", "valid", "SHARDS_EMPTY",
     RELU_OF(DIM("1") DIM("8"), ENTRY(SPEC("X", DEVICES_0123 AXIS("0", SHARDS("4")))), C0_OF_4)},
    {"18-bad-unknown-configuration-id", "invalid", "CONFIGURATION_UNKNOWN", RELU("10{1'cX' " SPEC("X", SPLIT) "}", C0)},
    {"20-bad-duplicate-configuration-name", "invalid", "CONFIGURATION_TWICE", RELU(ENTRY(SPEC("X", SPLIT)), C0 C0)},
    {"21-bad-num-devices-zero", "invalid", "NUM_DEVICES_INVALID",
     RELU(ENTRY(SPEC("X", SPLIT)), CONFIGURATION("c0", "0"))},
    {"22-bad-num-devices-negative", "invalid", "NUM_DEVICES_INVALID",
     RELU(ENTRY(SPEC("X", SPLIT)), CONFIGURATION("c0", "-2"))},
    {"26-bad-tensor-not-in-node", "invalid", "TENSOR_NOT_OF_NODE", RELU(ENTRY(SPEC("Z", SPLIT)), C0)},
    {"28-bad-axis-out-of-range", "invalid", "AXIS_OUT_OF_RANGE", X(DEVICES_01 AXIS("2", SHARDS("2")))},
    {"29-bad-axis-out-of-range-negative", "invalid", "AXIS_OUT_OF_RANGE", X(DEVICES_01 AXIS("-3", SHARDS("2")))},
    {"30-bad-axis-twice", "invalid", "AXIS_TWICE", X_4(DEVICES_0123 AXIS("0", SHARDS("2")) AXIS("-2", SHARDS("2")))},
    {"32-bad-num-shards-negative", "invalid", "NUM_SHARDS_INVALID", X(DEVICES_01 AXIS("0", SHARDS("-2")))},
    {"34-bad-sharded-dim-without-simple-sharding", "invalid", "SIMPLE_SHARDING_MISSING", X(DEVICES_01 AXIS("0", ""))},
    {"36-bad-negative-device-without-group", "invalid", "GROUP_MISSING", X("2:-1 ")},
    {"37-bad-group-member-out-of-range", "invalid", "GROUP_MEMBER_OUT_OF_RANGE", X("2:-1 " GROUP("-1", "2:0 2:9"))},
    {"41-bad-group-nested", "invalid", "GROUP_NESTED", X("2:-1 " GROUP("-1", "2:0 2:-2") GROUP("-2", "2:1"))},
    {"46-bad-dim-product-mismatch", "invalid", "DIM_PRODUCT_MISMATCH",
     X(DEVICES_01 AXIS("0", PART("2", "2") PART("3", "1")))},
    {"47-bad-two-specs-same-tensor", "invalid", "SPEC_TWICE",
     RELU(ENTRY(SPEC("X", SPLIT) SPEC("X", DEVICES_01 AXIS("1", SHARDS("2")))), C0)},
    {"48-bad-two-entries-same-configuration", "invalid", "ENTRY_TWICE",
     RELU(ENTRY(SPEC("X", SPLIT)) ENTRY(SPEC("X", SPLIT)), C0)},
    {"51-bad-scalar-sharded", "invalid", "SCALAR_SHARDED", RELU_OF("", ENTRY(SPEC("X", SPLIT)), C0)},
    {"52-bad-add-conflict", "invalid", "OPERANDS_SPLIT_DIFFERENTLY",
     TWO("Add", DIM("2") DIM("2"), DIM("2") DIM("2"), DIM("2") DIM("2"),
         ENTRY(SPEC("A", SPLIT) SPEC("B", DEVICES_01 AXIS("1", SHARDS("2")))), C0)},
    {"53-bad-compose-empty-intersection", "invalid", "DEVICES_DO_NOT_MEET",
     TWO("Add", SYMBOL("M") DIM("1"), DIM("1") SYMBOL("N"), SYMBOL("M") SYMBOL("N"),
         ENTRY(SPEC("A", DEVICES_01 AXIS("0", SHARDS("2"))) SPEC("B", "2:2 2:3 " AXIS("1", SHARDS("2")))), C0_OF_4)},
    {"54-bad-matmul-k-mismatch", "invalid", "OPERANDS_SPLIT_DIFFERENTLY",
     TWO("MatMul", DIM("4") DIM("8"), DIM("8") DIM("6"), DIM("4") DIM("6"),
         ENTRY(SPEC("A", DEVICES_01 AXIS("1", SHARDS("2"))) SPEC("B", DEVICES_0123 AXIS("0", SHARDS("4")))), C0_OF_4)},
    {"56-bad-pipeline-backwards", "warn", "STAGE_BACKWARDS",
     "1:11 " GRAPH(NODE("Relu", "n0", "1'X' 2'T'", ENTRY(STAGE("1"))) NODE(
         "Relu", "n1", "1'T' 2'Y'", ENTRY(STAGE("0"))) "11" VALUE("X", DIM("4")) "12" VALUE("Y", DIM("4"))) C0},
};

Test(check_corpus, rows_without_a_file)
{
    cr_assert_eq(sizeof(rows) / sizeof(rows[0]), 30);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct check_result result;
        check_run(&result, rows[i].notation, CHECK_ANNOTATIONS | CHECK_MEANING | CHECK_FOREIGN, 0);
        cr_expect_str_eq(check_verdict(&result), rows[i].verdict, "%s: %s (%s)", rows[i].name, check_verdict(&result),
                         result.codes);
        if (rows[i].code != NULL)
            cr_expect_not_null(check_find(&result, rows[i].code), "%s: %s", rows[i].name, result.codes);
        check_release(&result);
    }
}
