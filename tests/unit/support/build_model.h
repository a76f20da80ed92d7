#pragma once
/*
 * build_model - small models put together in memory, for tests of what comes after the reader.
 *
 *     struct build build;
 *     build_init(&build, 16);
 *     build_input(&build, "x", SP_DTYPE_FLOAT, "n,3,224,224");
 *     build_input(&build, "w", SP_DTYPE_FLOAT, "64,3,7,7");
 *     struct sp_node *conv = build_node(&build, "Conv", "x w", "y");
 *     build_attr_ints(&build, conv, "strides", 2, (int64_t[]){2, 2});
 *     cr_assert_eq(build_infer(&build), SP_OK, "%s", build.err.message);
 *     cr_assert_str_eq(build_type(&build, "y"), "float32[n,64,109,109]");
 *     build_release(&build);
 *
 * Nodes are added in order and use values that exist. Misuse (an unknown name, too many nodes) aborts the test.
 * Constants have their bytes in model->bytes, as if they were raw_data of an inline initializer, and their elements in
 * value->data as well, so that build_infer() works on them.
 */
#include "base/error.h"
#include "graph/model.h"
#include "ops/table/op.h"

struct build {
    struct sp_budget budget;
    struct sp_arena *arena;
    struct sp_model *model;
    struct sp_graph *graph;
    struct sp_error err;
    unsigned char *bytes; /* model->bytes, with room for constants */
};

/* A model with an empty main graph that imports ai.onnx `opset`. */
void build_init(struct build *build, int64_t opset);
void build_release(struct build *build);

/* Imports a further domain. */
void build_opset(struct build *build, const char *domain, int64_t version);

/* A graph input. `dims` is "8,n,?" (number, symbol, unknown), "" a scalar, NULL an unknown rank. */
struct sp_value *build_input(struct build *build, const char *name, enum sp_dtype dtype, const char *dims);

/* An initializer without bytes (a weight whose elements nobody needs). `dims` has numbers only. */
struct sp_value *build_weight(struct build *build, const char *name, enum sp_dtype dtype, const char *dims);

/* Constants: one-dimensional int64 or float32 initializers; a negative count is a scalar. */
struct sp_value *build_ints(struct build *build, const char *name, int count, const int64_t *values);
struct sp_value *build_floats(struct build *build, const char *name, int count, const float *values);

/* An int64 vector whose elements are dimensions as in build_input(), "n,2,?": a computed shape. No initializer. */
struct sp_value *build_shape_vector(struct build *build, const char *name, const char *elements);

/* A node; names are separated by blanks, "-" is an omitted operand. Outputs are new values. */
struct sp_node *build_node(struct build *build, const char *op_type, const char *inputs, const char *outputs);
struct sp_node *build_node_in(struct build *build, const char *domain, const char *op_type, const char *inputs,
                              const char *outputs);

void build_attr_int(struct build *build, struct sp_node *node, const char *name, int64_t value);
void build_attr_float(struct build *build, struct sp_node *node, const char *name, double value);
void build_attr_string(struct build *build, struct sp_node *node, const char *name, const char *value);
void build_attr_ints(struct build *build, struct sp_node *node, const char *name, uint32_t count,
                     const int64_t *values);
void build_attr_floats(struct build *build, struct sp_node *node, const char *name, uint32_t count,
                       const double *values);
/* `values` are separated by blanks. */
void build_attr_strings(struct build *build, struct sp_node *node, const char *name, const char *values);

/* Makes values (names separated by blanks) outputs of the graph. */
void build_outputs(struct build *build, const char *names);

/* The value of this name; aborts the test when there is none. */
struct sp_value *build_value(struct build *build, const char *name);

/* Runs the infer function of every node's entry in order, without ops/shapes/shapes.h: no subgraphs, no functions. The first
   failure is returned and kept in build->err. SP_ERR_UNSUPPORTED for an operator without an entry. */
enum sp_status build_infer(struct build *build);

/* "float32[8,n,?]", "int64[]", "float32[*]" for an unknown rank, "none" for a value without a type. */
const char *build_type(struct build *build, const char *name);

/* The known elements, "2,n,?" or "0.5,1"; "none" when there are none. */
const char *build_data(struct build *build, const char *name);

/* The rule of a node as text, or the error's code. build_infer() must have run. */
const char *build_rule(struct build *build, struct sp_node *node);

/* FLOPs of a node, or -1 when its rule fails. */
double build_flops(struct build *build, struct sp_node *node);
