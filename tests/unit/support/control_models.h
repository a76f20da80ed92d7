#pragma once
/*
 * control_models - models with subgraphs in the notation of onnx_files.h, read and inferred.
 *
 *     open_model(MODEL(18, IN(F32("x", DIM(2) SYM("n"))) NODE("x", "y", "Relu") OUT("y")));
 *     EXPECT("y", "float32[2,n]");
 *     close_model();
 *
 * Field numbers are those of onnx.proto.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "onnx_files.h"
#include "ops/shapes/shapes.h"
#include "ops/table/op.h"

#define DIM(n)                         "1{1:" #n "} "
#define SYM(name)                      "1{2'" name "'} "
#define TENSOR(number, dims)           "1{1:" #number " 2{" dims "}}"
#define F32(name, dims)                "1'" name "' 2{" TENSOR(1, dims) "} "
#define I64(name, dims)                "1'" name "' 2{" TENSOR(7, dims) "} "
#define BOOL(name, dims)               "1'" name "' 2{" TENSOR(9, dims) "} "
#define SEQ(name, tensor)              "1'" name "' 2{4{1{" tensor "}}} "
#define IN(value)                      "11{" value "} "
#define OUT(name)                      "12{1'" name "'} "
#define TYPED_OUT(value)               "12{" value "} "
#define INT_CONST(name, n)             "5{2:7 7:" #n " 8'" name "'} "
#define BOOL_CONST(name, n)            "5{2:9 5:" #n " 8'" name "'} "
#define A(name)                        "1'" name "' "
#define R(name)                        "2'" name "' "
#define NODE(op, operands, attributes) "1{" operands "4'" op "' " attributes "} "
#define GRAPH_ATTR(name, graph)        "5{1'" name "' 20:5 6{" graph "}} "
#define INT_ATTR(name, n)              "5{1'" name "' 20:2 3:" #n "} "
#define INTS_ATTR(name, n)             "5{1'" name "' 20:7 8:" #n "} "
#define MODEL(opset, graph)            "1:10 7{2'g' " graph "} 8{2:" #opset "} "

static struct onnx_model opened;
static struct sp_buf opened_file;
static struct sp_shape_summary opened_summary;

static inline void read_model(const char *notation)
{
    opened_file = onnx_encode(notation);
    cr_assert_eq(onnx_read(&opened, opened_file.data, opened_file.size), SP_OK, "%s", opened.err.message);
}

static inline void close_model(void)
{
    onnx_release(&opened);
    sp_buf_release(&opened_file);
}

static inline enum sp_status infer_model(void)
{
    return sp_infer_shapes(opened.model, NULL, &opened_summary, &opened.err);
}

static inline void open_model(const char *notation)
{
    read_model(notation);
    cr_assert_eq(infer_model(), SP_OK, "%s", opened.err.message);
}

/* Reads the model and expects that inference refuses it with this code. */
static inline void refuse_model(const char *notation, const char *code)
{
    read_model(notation);
    cr_expect_eq(infer_model(), SP_ERR_MODEL, "it was accepted");
    cr_expect_str_eq(opened.err.code, code, "%s", opened.err.message);
    close_model();
}

/* The graph of a node's attribute. */
static inline struct sp_graph *graph_of(const struct sp_node *node, const char *name)
{
    const struct sp_attribute *attribute = sp_node_attribute(node, name);
    cr_assert(attribute != NULL && attribute->type == SP_ATTR_GRAPH);
    return attribute->graphs[0];
}

static inline struct sp_value *value_in(const struct sp_graph *graph, const char *name)
{
    struct sp_value *value = sp_graph_value(graph, name);
    cr_assert(value != NULL, "no value '%s'", name);
    return value;
}

/* "float32[2,n]", "float32[*]", "seq(float32[2])", "opt(int64[])", "none"; static. */
static inline const char *type_text(const struct sp_type *type)
{
    static char text[512];
    struct sp_buf buf;
    unsigned open = 0;
    sp_buf_init(&buf, sizeof(text) - 1);
    while (type != NULL && (type->kind == SP_TYPE_SEQUENCE || type->kind == SP_TYPE_OPTIONAL)) {
        sp_buf_text(&buf, type->kind == SP_TYPE_SEQUENCE ? "seq(" : "opt(");
        type = type->elem;
        open++;
    }
    if (type == NULL || type->kind == SP_TYPE_NONE) {
        sp_buf_text(&buf, "none");
    } else {
        sp_buf_printf(&buf, "%s[", sp_dtype_name(type->dtype));
        if (!type->shape.has_rank)
            sp_buf_text(&buf, "*");
        for (uint32_t i = 0; i < type->shape.rank; i++) {
            sp_buf_text(&buf, i > 0 ? "," : "");
            sp_dim_print(type->shape.dims[i], &buf);
        }
        sp_buf_text(&buf, "]");
    }
    while (open-- > 0)
        sp_buf_text(&buf, ")");
    (void)snprintf(text, sizeof(text), "%s", buf.data);
    sp_buf_release(&buf);
    return text;
}

static inline const char *inferred(const struct sp_graph *graph, const char *name)
{
    return type_text(&value_in(graph, name)->type);
}

static inline const char *rule_text(struct sp_node *node)
{
    static char text[2048];
    struct sp_rule *rule;
    struct sp_buf buf;
    struct sp_error err = {0};
    if (sp_op_rule(opened.model, node, opened.arena, &rule, &err) != SP_OK) {
        (void)snprintf(text, sizeof(text), "%s: %s", err.code, err.message);
        return text;
    }
    sp_buf_init(&buf, sizeof(text) - 1);
    sp_rule_print(rule, &buf);
    (void)snprintf(text, sizeof(text), "%s", buf.data);
    sp_buf_release(&buf);
    return text;
}

#define MAIN (opened.model->graph)
#define EXPECT_IN(graph, name, text)                                                                                   \
    cr_expect_str_eq(inferred(graph, name), text, "%s: %s", name, inferred(graph, name))
#define EXPECT(name, text)      EXPECT_IN(MAIN, name, text)
#define EXPECT_RULE(node, text) cr_expect_str_eq(rule_text(node), text, "%s", rule_text(node))
