/* Model-local functions: signatures, checks of their calls, and bodies expanded for a call. */
#include <criterion/criterion.h>

#include "base/limits.h"
#include "onnx_files.h"

#define CALLS(op) "1:8 8{2:17} 8{1'f' 2:1} 7{2'g' 11{1'x'} 1{1'x' 2'y' 4'" op "' 7'f'} 12{1'y'}}"

Test(function, reads_signatures_in_the_order_of_their_keys)
{
    struct sp_buf file = onnx_encode("7{2'g' 11{1'x'} 1{1'x' 2'y' 4'b' 7'f'} 1{1'y' 2'z' 4'b' 7'f' 8'fast'}} "
                                     "25{1'b' 10'f' 4'p' 4'q' 5'r' 6'k' 11{1'alpha' 2~0.5 20:1} 9{2:15} 7{1'p' 2'r' "
                                     "4'Relu'}} 25{1'a' 10'f'} 25{1'b' 10'f' 13'fast'}");
    struct onnx_model m;
    cr_assert_eq(onnx_read(&m, file.data, file.size), SP_OK, "%s", m.err.message);
    cr_assert_eq(m.model->function_count, 3);
    cr_expect_str_eq(m.model->functions[0].name, "a");
    const struct sp_function *b = &m.model->functions[1];
    cr_expect(b->input_count == 2 && b->output_count == 1 && b->attribute_count == 1 && b->default_count == 1);
    cr_expect(strcmp(b->inputs[1], "q") == 0 && b->defaults[0].f == 0.5 && b->opsets[0].version == 15);
    const struct sp_node *nodes = m.model->graph->nodes;
    cr_expect_eq(sp_onnx_function(m.model, &nodes[0]), b);
    cr_expect_eq(sp_onnx_function(m.model, &nodes[1]), &m.model->functions[2]);
    cr_expect_eq(m.model->counts.nodes, 3); /* bodies are counted once */
    onnx_release(&m);
    sp_buf_release(&file);
}

Test(function, refuses_wrong_functions)
{
    const enum sp_status wrong = SP_ERR_MODEL;
    onnx_expect(CALLS("a") "25{1'a' 10'f'} 25{1'a' 10'f'}", wrong, "DUPLICATE_FUNCTION", NULL);
    onnx_expect(CALLS("a") "25{10'f'}", wrong, "UNNAMED_FUNCTION", NULL);
    onnx_expect(CALLS("a") "25{1'a' 10'f' 4'x' 4'x'}", wrong, "DUPLICATE_NAME", NULL);
    onnx_expect(CALLS("a") "25{1'a' 10'f' 4'x' 5'y'}", wrong, "UNDEFINED_OUTPUT", NULL);
    onnx_expect(CALLS("a") "25{1'a' 10'f' 7{1'x' 2'y' 4'R'}}", wrong, "UNDEFINED_INPUT", NULL);
    onnx_expect(CALLS("a") "25{1'a' 10'f' 6'k' 11{1'k' 3:1}}", wrong, "DUPLICATE_ATTRIBUTE", NULL);
    onnx_expect(CALLS("a") "25{1'a' 10'f' 11{1'k' 6{}}}", wrong, "GRAPH_DEFAULT", NULL);
}

Test(function, refuses_cycles)
{
    onnx_expect(CALLS("a") "25{1'a' 10'f' 4'x' 5'y' 7{1'x' 2'y' 4'a' 7'f'}}", SP_ERR_LIMIT, "CYCLIC_FUNCTIONS",
                "SP_MAX_CALL_DEPTH");
    onnx_expect(CALLS("a") "25{1'a' 10'f' 4'x' 5'y' 7{1'x' 2'y' 4'b' 7'f'}} 25{1'b' 10'f' 4'x' 5'y' 7{1'x' 2'y' 4'a' "
                           "7'f'}}",
                SP_ERR_LIMIT, "CYCLIC_FUNCTIONS", "SP_MAX_CALL_DEPTH");
    /* Through the body of an If, and although nothing calls it. */
    onnx_expect("7{2'g'} 25{1'a' 10'f' 4'x' 5'y' 7{1'x' 2'y' 4'If' 5{1'then_branch' 20:5 6{1{1'x' 2't' 4'a' 7'f'}}}}}",
                SP_ERR_LIMIT, "CYCLIC_FUNCTIONS", "SP_MAX_CALL_DEPTH");
}

/* f0 is one node; f<i> calls f<i-1> `calls` times. */
static struct sp_buf tower(int height, int calls)
{
    struct sp_buf text, file;
    sp_buf_init(&text, 1 << 20);
    sp_buf_printf(&text,
                  "1:8 8{2:17} 7{2'g' 11{1'x'} 1{1'x' 2'y' 4'f%d' 7'f'}} 25{1'f0' 10'f' 4'x' 5'y' 7{1'x' 2'y' "
                  "4'Relu'}} ",
                  height);
    for (int i = 1; i <= height; i++) {
        sp_buf_printf(&text, "25{1'f%d' 10'f' 4'x' 5't0' ", i);
        for (int k = 0; k < calls; k++)
            sp_buf_printf(&text, "7{1'x' 2't%d' 4'f%d' 7'f'} ", k, i - 1);
        sp_buf_text(&text, "} ");
    }
    file = onnx_encode(text.data);
    sp_buf_release(&text);
    return file;
}

Test(function, bounds_expansion_and_depth)
{
    struct sp_buf file = tower(40, 2); /* 2^40 nodes when expanded */
    onnx_expect_bytes(file.data, file.size, SP_ERR_LIMIT, "EXPANSION_TOO_LARGE", "SP_MAX_EXPANDED_NODES");
    sp_buf_release(&file);
    file = tower(13, 2); /* 3 * 2^13 nodes, calls included, are few whatever the file holds */
    struct onnx_model model = {0};
    cr_assert_eq(onnx_read(&model, file.data, file.size), SP_OK, "%s", model.err.message);
    onnx_release(&model);
    sp_buf_release(&file);
    file = tower(18, 2); /* 3 * 2^18 nodes from 38 in the file */
    onnx_expect_bytes(file.data, file.size, SP_ERR_LIMIT, "EXPANSION_TOO_LARGE", "SP_MAX_EXPANSION_FACTOR");
    sp_buf_release(&file);
    file = tower(SP_MAX_CALL_DEPTH, 1); /* with f0 one deeper than allowed */
    onnx_expect_bytes(file.data, file.size, SP_ERR_LIMIT, "CALLS_TOO_DEEP", "SP_MAX_CALL_DEPTH");
    sp_buf_release(&file);
    struct onnx_model m;
    file = tower(SP_MAX_CALL_DEPTH - 1, 1);
    cr_expect_eq(onnx_read(&m, file.data, file.size), SP_OK, "%s", m.err.message);
    onnx_release(&m);
    sp_buf_release(&file);
    file = tower(10, 2);
    cr_expect_eq(onnx_read(&m, file.data, file.size), SP_OK, "%s", m.err.message);
    onnx_release(&m);
    sp_buf_release(&file);
}

/* The body of f: t = Clip(p, q, min = @low, max = @high, mode = @mode), r = If(t){ Neg(p), axis = @axis }. */
#define FUNCTION                                                                                                       \
    "25{1'f' 10'd' 4'p' 4'q' 5'r' 6'low' 6'mode' 11{1'high' 2~6 20:1} 11{1'axis' 3:-1 20:2} 9{2:13} 12{1't' "          \
    "2{1{1:1}}} 7{1'p' 1'q' 2't' 4'Clip' 5{1'min' 21'low' 20:1} 5{1'max' 21'high' 20:1} 5{1'mode' 21'mode' 20:3} "     \
    "5{1'fixed' 3:9 20:2}} 7{1't' 2'r' 4'If' 5{1'then_branch' 20:5 6{1{1'p' 2'n' 4'Neg' 5{1'axis' 21'axis' 20:2}} "    \
    "12{1'n'}}}}}"

Test(function, expands_a_call)
{
    struct sp_buf file = onnx_encode("1:9 8{2:17} 7{2'g' 11{1'x'} 1{1'x' 2'y' 4'f' 7'd' 5{1'low' 2~-1 20:1} 5{1'axis' "
                                     "3:2 20:2}} 1{1'x' 1'y' 2'z' 4'f' 7'd'}} " FUNCTION);
    struct onnx_model m;
    struct sp_error err = {0};
    struct sp_graph *body, *other;
    cr_assert_eq(onnx_read(&m, file.data, file.size), SP_OK, "%s", m.err.message);
    struct sp_node *call = &m.model->graph->nodes[0];
    const uint64_t counted = m.model->counts.nodes;
    cr_assert_eq(sp_onnx_expand(m.model, call, sp_onnx_function(m.model, call), &body, &err), SP_OK, "%s", err.message);
    cr_expect(body->owner == call && body->parent == NULL && body->node_count == 2 && body->depth == 0);
    cr_expect_eq(sp_graph_opset(body, ""), 13); /* the function's own */
    cr_expect(body->input_count == 2 && body->output_count == 1 && strcmp(body->outputs[0]->name, "r") == 0);
    const struct sp_node *clip = &body->nodes[0], *branch = &body->nodes[1];
    cr_expect_eq(sp_node_float(clip, "min", 0), -1); /* given by the call */
    cr_expect_eq(sp_node_float(clip, "max", 0), 6);  /* default */
    cr_expect_null(sp_node_attribute(clip, "mode")); /* neither */
    cr_expect(clip->attribute_count == 3 && sp_node_int(clip, "fixed", 0) == 9);
    cr_expect(clip->inputs[0] == body->inputs[0] && clip->inputs[1] == NULL); /* q is left out by the call */
    cr_expect_eq(clip->outputs[0]->declared.kind, SP_TYPE_TENSOR);
    const struct sp_graph *inner = sp_node_attribute(branch, "then_branch")->graphs[0];
    cr_expect(inner->parent == body && sp_node_int(&inner->nodes[0], "axis", 0) == 2);
    cr_expect_eq(inner->nodes[0].inputs[0], body->inputs[0]);
    cr_expect_eq(body->inputs[0]->use_count, 2);
    /* A second call has its own body and its own attributes. */
    cr_assert_eq(sp_onnx_expand(m.model, call + 1, sp_onnx_function(m.model, call + 1), &other, &err), SP_OK);
    cr_expect(other != body && other->nodes[0].inputs[1] == other->inputs[1]);
    cr_expect_null(sp_node_attribute(&other->nodes[0], "min"));
    cr_expect_eq(m.model->counts.nodes, counted);
    onnx_release(&m);
    sp_buf_release(&file);
}

Test(function, refuses_wrong_calls)
{
    static const struct {
        const char *call, *code;
    } cases[] = {
        {"1{1'x' 1'x' 1'x' 2'y' 4'f' 7'd'}", "WRONG_CALL"},
        {"1{1'x' 2'y' 2'z' 4'f' 7'd'}", "WRONG_CALL"},
        {"1{1'x' 2'y' 4'f' 7'd' 5{1'low' 4'text' 20:3}}", "ATTRIBUTE_MISMATCH"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sp_buf text, file;
        struct onnx_model m;
        struct sp_graph *body;
        struct sp_error err = {0};
        sp_buf_init(&text, 1 << 16);
        sp_buf_printf(&text, "1:9 8{2:17} 7{2'g' 11{1'x'} %s} %s", cases[i].call, FUNCTION);
        file = onnx_encode(text.data);
        cr_assert_eq(onnx_read(&m, file.data, file.size), SP_OK, "%s", m.err.message);
        struct sp_node *call = &m.model->graph->nodes[0];
        cr_expect_eq(sp_onnx_expand(m.model, call, sp_onnx_function(m.model, call), &body, &err), SP_ERR_MODEL);
        cr_expect_str_eq(err.code, cases[i].code);
        onnx_release(&m);
        sp_buf_release(&file);
        sp_buf_release(&text);
    }
}
