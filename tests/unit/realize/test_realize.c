/* Simulations and the parts of written models. The notation of files is that of onnx_files.h. */
#include "realize/realize.h"

#include <string.h>

#include "infer/forward.h"
#include "onnx.pb-c.h"
#include "ops/shapes/shapes.h"
#include "realize/encode.h"
#include "realize_files.h"

/* ---- nodes ------------------------------------------------------------------------------------------------------ */

#define MODEL(fields) "1:10 8{2:18} 8{1'own' 2:1} 7{2'g' 11{1'x' 2{1{1:1 2{1{1:2}}}}} " fields "}"

static const char *rename_outer(void *context, const struct sp_value *value)
{
    (void)context;
    return strcmp(value->name, "x") == 0 ? "x@3" : value->name;
}

/* The first node of the model as it is written for other operands, in canonical encoding. */
static struct sp_buf written_node(const char *notation, const char *suffix, uint32_t attribute_count,
                                  const struct sp_lower_attribute *attributes)
{
    struct sp_buf file = onnx_encode(notation);
    struct onnx_model m;
    cr_assert_eq(onnx_read(&m, file.data, file.size), SP_OK, "%s", m.err.message);
    struct realize_world world = {file.data, file.size};
    const struct sp_realize_request request = {.partition.model = m.model};
    struct sp_weights weights;
    struct sp_encoder encoder;
    struct sp_error err = {0};
    struct sp_recipe *graph = sp_recipe_create();
    const struct sp_node *node = &m.model->graph->nodes[0];
    const char *inputs[] = {"a@3", "", "b@3", ""}, *outputs[] = {"y@3"};
    cr_assert_eq(sp_weights_init(&weights, &request, &err), SP_OK);
    cr_assert_eq(sp_encoder_init(&encoder, m.model, &weights, &err), SP_OK);
    encoder.outer_name = rename_outer;
    encoder.inner_suffix = suffix;
    const struct sp_encode_operator op = {.domain = node->domain,
                                          .op_type = node->op_type,
                                          .overload = node->overload,
                                          .name = "node@3",
                                          .input_count = 4,
                                          .inputs = inputs,
                                          .output_count = 1,
                                          .outputs = outputs,
                                          .node = node,
                                          .attribute_count = attribute_count,
                                          .attributes = attributes};
    cr_assert_eq(sp_encode_operator(&encoder, graph, &op, &err), SP_OK, "%s", err.message);
    struct sp_buf bytes = realize_bytes(graph, &world);
    sp_encoder_release(&encoder);
    sp_weights_release(&weights);
    sp_recipe_destroy(graph);
    onnx_release(&m);
    sp_buf_release(&file);
    return bytes;
}

/* A graph in canonical encoding, whatever the order of its fields. */
static struct sp_buf canonical(const struct sp_buf *bytes)
{
    Onnx__GraphProto *graph = onnx__graph_proto__unpack(NULL, bytes->size, (const uint8_t *)bytes->data);
    cr_assert_not_null(graph);
    struct sp_buf buf;
    sp_buf_init(&buf, (size_t)1 << 20);
    uint8_t *packed = malloc(onnx__graph_proto__get_packed_size(graph) + 1);
    sp_buf_append(&buf, packed, onnx__graph_proto__pack(graph, packed));
    free(packed);
    onnx__graph_proto__free_unpacked(graph, NULL);
    return buf;
}

static void expect_graph(struct sp_buf actual, const char *expected)
{
    struct sp_buf wanted = onnx_encode(expected);
    struct sp_buf left = canonical(&actual), right = canonical(&wanted);
    cr_expect(left.size == right.size && memcmp(left.data, right.data, left.size) == 0, "not '%.300s'", expected);
    sp_buf_release(&left);
    sp_buf_release(&right);
    sp_buf_release(&actual);
    sp_buf_release(&wanted);
}

#define HEAD "1'a@3' 1'' 1'b@3' 2'y@3' 3'node@3' 4'Op' 7'own' "

/* Attributes of every kind, with the type that the file leaves out, without documentation and annotations. */
Test(realize, writes_attributes_of_every_kind)
{
    static const char values[] =
        "5{1'f' 2~1.5 20:1} 5{1'i' 3:-7 20:2} 5{1's' 4'text' 20:3} 5{1'n' 4'' 20:3}"
        "5{1't' 5{1:2 2:1 8'inner' 9h0000803f00000040} 20:4} 5{1'fs' 7~1 7~2 20:6} 5{1'is' 8:1 8:-2 20:7}"
        "5{1'ss' 9'one' 9'two' 20:8} 5{1'ts' 10{1:1 2:7 7h05} 10{2:1 4h0000803f} 20:9}"
        "5{1'st' 22{1{1:1 2:1 9h0000803f} 2{1:1 2:7 9h0300000000000000} 3:8} 20:11}"
        "5{1'tp' 14{4{1{1{1:1 2{1{1:2} 1{2'n'} 1{}}}}}} 20:13} 5{1'tps' 15{9{1{1{1:7}}}} 15{5{1:8 2{1{1:1}}}} 20:14}";
    char notation[2000], expected[2000];
    (void)snprintf(notation, sizeof notation,
                   MODEL("1{1'x' 2'y' 3'n' 4'Op' 7'own' %s 5{1'j' 3:9} 6'documentation' 10{1'c'}} 12{1'y'}"), values);
    (void)snprintf(expected, sizeof expected, "1{" HEAD "%s 5{1'j' 3:9 20:2}}", values);
    expect_graph(written_node(notation, "", 0, NULL), expected);
}

Test(realize, replaces_attributes)
{
    const struct sp_lower_attribute attributes[] = {SP_INT_ATTR("i", 5), SP_NO_ATTR("gone"),
                                                    SP_INTS_ATTR("more", 2, ((int64_t[]){1, 2}))};
    expect_graph(written_node(MODEL("1{1'x' 2'y' 4'Op' 7'own' 5{1'i' 3:1 20:2} 5{1'gone' 3:1 20:2} 5{1'kept' 3:2 20:2}}"
                                    "12{1'y'}"),
                              "", 3, attributes),
                 "1{" HEAD "5{1'kept' 3:2 20:2} 5{1'i' 3:5 20:2} 5{1'more' 8:1 8:2 20:7}}");
}

/* A graph in a graph: outer names are the pieces, inner ones stay, or get the suffix of a function's body. */
Test(realize, writes_subgraphs)
{
    static const char notation[] =
        MODEL("1{1'x' 2'y' 4'Op' 7'own' 5{1'body' 20:5 6{2'b' 1{1'x' 1'k' 2'z' 4'Add' 10{1'c'} 6'doc'}"
              "  1{1'z' 2'r' 4'Op' 7'own' 5{1'deep' 20:5 6{2'd' 1{1'z' 1'x' 2'q' 4'Mul'} 12{1'q'}}}}"
              "  5{1:1 2:1 8'k' 9h0000803f} 11{1'unused' 2{1{1:7 2{1{2'n'}}}}} 12{1'r'} 10'doc'}}} 12{1'y'}");
    expect_graph(written_node(notation, "", 0, NULL),
                 "1{" HEAD "5{1'body' 20:5 6{2'b' 1{1'x@3' 1'k' 2'z' 4'Add'}"
                 "  1{1'z' 2'r' 4'Op' 7'own' 5{1'deep' 20:5 6{2'd' 1{1'z' 1'x@3' 2'q' 4'Mul'} 12{1'q'}}}}"
                 "  5{1:1 2:1 8'k' 9h0000803f} 11{1'unused' 2{1{1:7 2{1{2'n'}}}}} 12{1'r'}}}}");
    expect_graph(written_node(notation, "@f", 0, NULL),
                 "1{" HEAD "5{1'body' 20:5 6{2'b' 1{1'x@3' 1'k@f' 2'z@f' 4'Add'}"
                 "  1{1'z@f' 2'r@f' 4'Op' 7'own' 5{1'deep' 20:5 6{2'd' 1{1'z@f' 1'x@3' 2'q@f' 4'Mul'} 12{1'q@f'}}}}"
                 "  5{1:1 2:1 8'k@f' 9h0000803f} 11{1'unused@f' 2{1{1:7 2{1{2'n'}}}}} 12{1'r@f'}}}}");
}

/* Functions come out as they went in, but for the annotations of nodes at any depth. */
Test(realize, takes_annotations_out_of_functions)
{
#define FUNCTION(node, inner)                                                                                          \
    "1'F' 4'a' 5'b' 7{1'a' 2'c' 4'If' " node "5{1'then_branch' 20:5 6{1{1'a' 2'i' 4'Relu' " inner                      \
    "} 2'g' 12{1'i'}}} 99'unknown'} 7{1'c' 2'b' 4'Relu'} 9{2:18} 10'own'"
    struct sp_buf file =
        onnx_encode(MODEL("1{1'x' 2'y' 4'F' 7'own'} 12{1'y'}") "25{" FUNCTION("10{1'c' 3:2}", "10{1'c'} 10{1'd'}") "}");
    struct sp_buf wanted = onnx_encode("25{" FUNCTION("", "") "}");
    struct onnx_model m;
    cr_assert_eq(onnx_read(&m, file.data, file.size), SP_OK, "%s", m.err.message);
    struct realize_world world = {file.data, file.size};
    struct sp_recipe *recipe = sp_recipe_create();
    cr_assert_eq(sp_encode_function(m.model, recipe, &m.model->functions[0], NULL), SP_OK);
    struct sp_buf written = realize_bytes(recipe, &world);
    cr_expect(written.size == wanted.size && memcmp(written.data, wanted.data, wanted.size) == 0);
    sp_buf_release(&written);
    sp_recipe_destroy(recipe);
    onnx_release(&m);
    sp_buf_release(&file);
    sp_buf_release(&wanted);
}

/* ---- simulations ------------------------------------------------------------------------------------------------ */

struct simulated {
    struct sp_buf file, bytes;
    struct onnx_model original, m;
    uint32_t notes;
};

static enum sp_status count_note(void *context, const struct sp_part_note *note, struct sp_error *err)
{
    (void)note, (void)err;
    ++*(uint32_t *)context;
    return SP_OK;
}

/* The model's own annotations "c" on two devices, carried out; the result is read and its shapes inferred. */
static void simulate(struct simulated *simulated, const char *notation, struct sp_realize_request *request)
{
    struct sp_dataflow *dataflow;
    struct sp_assignment *assignment;
    struct sp_recipe *recipe;
    struct sp_shape_summary summary;
    struct sp_error err = {0};
    memset(simulated, 0, sizeof *simulated);
    simulated->file = onnx_encode(notation);
    struct onnx_model *m = &simulated->original;
    cr_assert_eq(onnx_read(m, simulated->file.data, simulated->file.size), SP_OK, "%s", m->err.message);
    cr_assert_eq(sp_infer_shapes(m->model, NULL, &summary, &err), SP_OK, "%s", err.message);
    cr_assert_eq(sp_dataflow_create(m->arena, m->model, &dataflow, &err), SP_OK, "%s", err.message);
    cr_assert_eq(sp_assignment_create(m->arena, dataflow, "c", 2, NULL, &assignment, &err), SP_OK, "%s", err.message);
    cr_assert_eq(sp_infer_forward(assignment, &err), SP_OK, "%s", err.message);
    request->partition = (struct sp_partition_request){.model = m->model, .assignment = assignment};
    request->note = count_note;
    request->note_context = &simulated->notes;
    cr_assert_eq(sp_realize_simulation(request, &recipe, &err), SP_OK, "%s", err.message);
    struct realize_world world = {simulated->file.data, simulated->file.size};
    simulated->bytes = realize_bytes(recipe, &world);
    sp_recipe_destroy(recipe);
    cr_assert_eq(onnx_read(&simulated->m, simulated->bytes.data, simulated->bytes.size), SP_OK, "%s",
                 simulated->m.err.message);
    cr_assert_eq(sp_infer_shapes(simulated->m.model, NULL, &summary, &err), SP_OK, "%s", err.message);
}

static void release(struct simulated *simulated)
{
    onnx_release(&simulated->m);
    onnx_release(&simulated->original);
    sp_buf_release(&simulated->bytes);
    sp_buf_release(&simulated->file);
}

static uint32_t count_ops(const struct simulated *simulated, const char *op_type)
{
    uint32_t count = 0;
    const struct sp_graph *graph = simulated->m.model->graph;
    for (uint32_t i = 0; i < graph->node_count; i++)
        count += strcmp(graph->nodes[i].op_type, op_type) == 0;
    return count;
}

#define FLOATS(name, rows, columns) "11{1'" name "' 2{1{1:1 2{1{1:" rows "} 1{1:" columns "}}}}}"
#define SPLIT(tensor, axis, extent) "2{1'" tensor "' 2:0 2:1 4{1:" axis " 2{1:" extent " 3:2}}}"
#define WEIGHT                      "5{1:4 1:2 2:3 8'w' 9h0102030405060708}"
/* y = x w: x [3, 4] int8-like floats are cast, so that the weight is 8 bytes; k is split in two. */
#define PRODUCT(ir, inputs)                                                                                            \
    "1:" ir " 8{2:18} 26{1'c' 2:2} 14{1'key' 2'value'} 7{2'g' " inputs " 12{1'y'} " WEIGHT                             \
    " 1{1'w' 2'f' 4'Cast' 5{1'to' 3:1 20:2} 10{1'c' " SPLIT("w", "0", "4")                                             \
        SPLIT("f", "0", "4") "}}"                                                                                      \
                             " 1{1'x' 1'f' 2'y' 3'product' 4'MatMul' 10{1'c' " SPLIT("x", "1", "4")                    \
                                 SPLIT("f", "0", "4") "}}}"

Test(realize, simulates_a_split_product)
{
    struct simulated s;
    struct sp_realize_request request = {.name = "simulated"};
    simulate(&s, PRODUCT("11", FLOATS("x", "3", "4")), &request);
    const struct sp_graph *graph = s.m.model->graph;
    cr_expect_str_eq(graph->name, "simulated");
    cr_expect(s.m.model->ir_version == 4 && s.m.model->configuration_count == 0 && s.m.model->metadata_count == 1);
    cr_expect(graph->input_count == 1 && graph->output_count == 1 && strcmp(graph->outputs[0]->name, "y") == 0);
    cr_expect_eq(sp_shape_elements(&graph->outputs[0]->type.shape), 6);
    /* Two parts of x, two products, and one sum for both devices. */
    cr_expect(count_ops(&s, "Slice") == 2 && count_ops(&s, "MatMul") == 2 && count_ops(&s, "Add") == 1);
    static const char *const halves[] = {"\1\2\3\4", "\5\6\7\10"};
    uint32_t found = 0;
    for (uint32_t i = 0; i < graph->initializer_count; i++) {
        const struct sp_tensor *tensor = graph->initializers[i]->tensor;
        if (tensor->dtype != SP_DTYPE_INT8)
            continue;
        cr_expect(found < 2 && tensor->rank == 2 && tensor->dims[0] == 2 && tensor->dims[1] == 2 &&
                  memcmp(s.bytes.data + tensor->raw.offset, halves[found], 4) == 0);
        found++;
    }
    cr_expect_eq(found, 2);
    for (uint32_t i = 0; i < graph->node_count; i++) {
        for (uint32_t k = 0; k < i; k++)
            cr_expect_str_neq(graph->nodes[i].name, graph->nodes[k].name);
    }
    cr_expect_eq(s.notes, 0);
    release(&s);
}

/* A weight that is an input too may be fed, so it is cut when it is; before IR version 4 it is a weight only. */
Test(realize, keeps_inputs_with_a_default)
{
    struct simulated s;
    struct sp_realize_request request = {0};
    simulate(&s, PRODUCT("11", FLOATS("x", "3", "4") "11{1'w' 2{1{1:3 2{1{1:4} 1{1:2}}}}}"), &request);
    cr_expect(s.m.model->graph->input_count == 2 && s.m.model->graph->inputs[1]->tensor != NULL &&
              s.m.model->graph->inputs[1]->tensor->raw.size == 8);
    cr_expect_eq(count_ops(&s, "Slice"), 4);
    cr_expect_str_eq(s.m.model->graph->name, "g");
    release(&s);
    simulate(&s, PRODUCT("3", FLOATS("x", "3", "4") "11{1'w' 2{1{1:3 2{1{1:4} 1{1:2}}}}}"), &request);
    cr_expect(s.m.model->ir_version == 4 && s.m.model->graph->input_count == 1);
    cr_expect_eq(count_ops(&s, "Slice"), 2);
    release(&s);
}

/* Bounds of Slice are attributes before opset 10. */
Test(realize, writes_for_old_operator_sets)
{
    struct simulated s;
    struct sp_realize_request request = {0};
    simulate(&s,
             "1:11 8{2:9} 26{1'c' 2:2} 7{2'g' " FLOATS("x", "4", "2") "12{1'y'} 1{1'x' 2'y' 4'Relu' 10{1'c' " SPLIT(
                 "x", "0", "4") "}}}",
             &request);
    cr_expect(count_ops(&s, "Slice") == 2 && count_ops(&s, "Relu") == 2 && count_ops(&s, "Concat") == 1);
    for (uint32_t i = 0; i < s.m.model->graph->node_count; i++) {
        const struct sp_node *node = &s.m.model->graph->nodes[i];
        cr_expect(strcmp(node->op_type, "Slice") != 0 ||
                  (node->input_count == 1 && sp_node_attribute(node, "starts") != NULL));
    }
    release(&s);
}

/* What is no tensor cannot be passed on by Identity in every operator set: its operator makes the output itself. */
Test(realize, names_outputs_that_are_no_tensors)
{
    struct simulated s;
    struct sp_realize_request request = {0};
    simulate(&s,
             "1:11 8{2:11} 26{1'c' 2:2} 7{2'g' " FLOATS("x", "4",
                                                        "2") "12{1'y' 2{4{1{1{1:1}}}}} 12{1'z'}"
                                                             " 1{1'x' 2'y' 4'SplitToSequence' 10{1'c' 2{1'x' 2:1}}} "
                                                             "1{1'y' 2'z' 4'SequenceLength' 10{1'c' 2{1'y' 2:1}}}}",
             &request);
    const struct sp_graph *graph = s.m.model->graph;
    cr_expect(graph->output_count == 2 && strcmp(graph->outputs[0]->producer->op_type, "SplitToSequence") == 0);
    cr_expect_eq(count_ops(&s, "SplitToSequence"), 1);
    release(&s);
}
