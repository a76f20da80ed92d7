#pragma once
/*
 * own_cases - models of one node, with the types and the factors that the operator's specification gives them.
 *
 * They are there for operators, versions and forms that no published case has. Everything is text:
 *
 *     {"MatMul", 13, "float32[2,3] float32[3,4]", "", "float32[2,4]", "[m,k] [k,n] -> [m,n]  k: sum reduction"}
 *
 *  operator    "com.microsoft.Gelu", or the name alone in ai.onnx
 *  version     the version of the domain that the model imports
 *  inputs      separated by blanks: a type; "int64=2,3" a constant vector, "int64:=2" a constant scalar, also float32;
 *              "-" one that is omitted. Extents are numbers, symbols, or "?"
 *  attributes  "axis=1 alpha=0.5 mode='x' axes=[0,1] scales=[1.0,2.0] words=['a','b']"; a real number has a point;
 *              "leaf_weights=float32[2]" is a tensor without elements
 *  outputs     types as inputs, "?" also for an extent that depends on data, "-" for an output that is omitted.
 *              "map(int64,float32[])", "seq(..)" and "optional(..)" nest.
 *  rule        what sp_rule_print() writes; NULL where the factors are those of any elementwise operator
 */
#include <stddef.h>
#include <stdint.h>

#include "backend_cases.h"

struct own_case {
    const char *op;
    int64_t version;
    const char *inputs, *attributes, *outputs, *rule;
};

/* Each ends with a case whose `op` is NULL. */
extern const struct own_case own_cases_tensors[];
extern const struct own_case own_cases_versions[];
extern const struct own_case own_cases_ml[];
extern const struct own_case own_cases_contrib[];
extern const struct own_case own_cases_language[];
extern const struct own_case own_cases_quantised[];
extern const struct own_case own_cases_decoding[];
extern const struct own_case own_cases_text[];

/* Infers the model of the case, compares, and adds it to the coverage; prints what is wrong. */
bool own_case_check(const struct own_case *own, struct sp_model *model, struct sp_node *node,
                    struct coverage *coverage);

/* The cases whose node has a body; adds to *count, and gives the number of those that are wrong. */
unsigned own_bodies_run(struct coverage *coverage, unsigned *count);

/* Infers each model, compares, makes the rule and adds it to the coverage; the number of cases that are wrong, each
   printed. */
unsigned own_cases_run(struct coverage *coverage, unsigned *ret_count);
