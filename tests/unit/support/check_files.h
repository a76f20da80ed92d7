#pragma once
/*
 * check_files - small annotated models in the notation of onnx_files.h, and what the checks find in them.
 *
 *     struct check_result result;
 *     check_run(&result, RELU(ENTRY(SPEC("X", DEVICES_01 AXIS("0", SHARDS("2")))), CONFIGURATION("c0", "2")), 0);
 *     cr_assert_str_eq(result.codes, "");
 *     check_release(&result);
 */
#include "check/check.h"
#include "onnx_files.h"

/* ---- pieces of the notation ---- */

#define VALUE(name, dims)                 "{1'" name "' 2{1{1:1 2{" dims "}}}}"
#define ANY(name)                         "{1'" name "' 2{1{1:1}}}" /* of unknown rank */
#define DIM(extent)                       "1{1:" extent "}"
#define SYMBOL(name)                      "1{2'" name "'}"
#define CONFIGURATION(name, num)          "26{1'" name "' 2:" num "}"
#define ENTRY(body)                       "10{1'c0' " body "}"
#define SPEC(tensor, body)                "2{1'" tensor "' " body "}"
#define AXIS(axis, parts)                 "4{1:" axis " " parts "}"
#define SHARDS(n)                         "2{3:" n "}"
#define PART(value, n)                    "2{1:" value " 3:" n "}"
#define PARAM(name, n)                    "2{2'" name "' 3:" n "}"
#define GROUP(key, members)               "3{1:" key " " members "}"
#define DEVICES_01                        "2:0 2:1 "
#define DEVICES_0123                      "2:0 2:1 2:2 2:3 "
#define STAGE(n)                          "3:" n " "
#define NODE(op, name, operands, entries) "1{" operands " 3'" name "' 4'" op "' " entries "}"
#define GRAPH(body)                       "7{2'g' " body "} 8{2:23} "

/* X [dims] -> Relu "n0" -> Y */
#define RELU_OF(dims, entries, rest)                                                                                   \
    "1:11 " GRAPH(NODE("Relu", "n0", "1'X' 2'Y'", entries) "11" VALUE("X", dims) "12" VALUE("Y", dims)) rest
/* X [4, 8] */
#define RELU(entries, rest) RELU_OF(DIM("4") DIM("8"), entries, rest)

/* ---- running ---- */

enum check_parts { CHECK_ANNOTATIONS = 1, CHECK_MEANING = 2, CHECK_FOREIGN = 4 };

struct check_result {
    struct onnx_model model;
    struct sp_buf file;
    struct sp_diagnostics list;
    char codes[4096]; /* in order, separated by blanks */
};

/* Reads, infers shapes and runs these checks; the meaning is asked of each configuration, where the annotations have no
   error. A failure of any but a check's finding fails the test. */
void check_run(struct check_result *ret_result, const char *notation, unsigned parts, double memory_bytes);
void check_run_bytes(struct check_result *ret_result, const void *bytes, size_t size, unsigned parts,
                     double memory_bytes);
void check_release(struct check_result *result);

/* The first finding of this code, or NULL. */
const struct sp_diagnostic *check_find(const struct check_result *result, const char *code);

/* "invalid" (an error), "incomplete" (a placement is open), "warn" (a warning), "valid". A warning of the uneven
   shards that proposal 0006 allows leaves it valid. */
const char *check_verdict(const struct check_result *result);

/* A case: these codes, no other, in this order, and the first one's message (or hint) has this phrase. */
struct check_case {
    const char *name, *notation, *codes, *phrase;
};
void check_case(const struct check_case *one, unsigned parts);

/* Fails for each code of the table that no case expects. */
struct check_cases {
    const struct check_case *items;
    size_t count;
};
void check_coverage(const struct sp_diagnostic_code *table, size_t count, const struct check_cases *cases);
