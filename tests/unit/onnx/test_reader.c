/* What the reader makes of well-formed files, and which wrong models it refuses. Notation: onnx_files.h. */
#include <criterion/criterion.h>

#include "onnx_files.h"

/* Wraps a graph into a model of IR 8, opset 17. */
#define MODEL(graph) "1:8 8{2:17} 7{2'g' " graph "}"
/* A float32 ValueInfoProto of one axis of 4, in this field. */
#define VALUE(field, name) #field "{1'" name "' 2{1{1:1 2{1{1:4}}}}}"

static void read_notation(const char *notation, struct sp_buf *file, struct onnx_model *model)
{
    *file = onnx_encode(notation);
    cr_assert_eq(onnx_read(model, file->data, file->size), SP_OK, "%s", model->err.message);
}

static void release(struct sp_buf *file, struct onnx_model *model)
{
    onnx_release(model);
    sp_buf_release(file);
}

Test(reader, reads_a_small_model)
{
    struct sp_buf file;
    struct onnx_model m;
    read_notation("1:8 2'maker' 3'1.2' 4'org' 5:-3 6'words' 8{2:17} 8{1'ai.onnx.ml' 2:3} 14{1'k' 2'v'} 7{2'g' "
                  "1{1'x' 1'w' 2'h' 3'first' 4'MatMul'} 1{1'h' 1'' 1'w' 2'' 2'y' 4'Odd' 7'org' 8'o' "
                  "5{1'alpha' 2~0.5 20:1} 5{1'axes' 8:1 8:-2 20:7} 5{1'mode' 4'near' 20:3}}"
                  "5{8'w' 2:1 1:4 9h00000000000000000000000000000000} " VALUE(11, "x") VALUE(12, "y")
                      VALUE(13, "h") "}",
                  &file, &m);
    const struct sp_model *model = m.model;
    const struct sp_graph *graph = model->graph;
    cr_expect(model->has_ir_version && model->ir_version == 8 && model->model_version == -3);
    cr_expect_str_eq(model->producer_name, "maker");
    cr_expect_str_eq(model->doc, "words");
    cr_expect(model->opset_count == 2 && sp_graph_opset(graph, "ai.onnx") == 17 &&
              sp_graph_opset(graph, "ai.onnx.ml") == 3);
    cr_expect(model->metadata_count == 1 && strcmp(model->metadata[0].value, "v") == 0);
    cr_expect_str_eq(graph->name, "g");
    cr_assert(graph->node_count == 2 && graph->value_count == 4 && graph->input_count == 1 &&
              graph->output_count == 1 && graph->initializer_count == 1);
    const struct sp_value *x = graph->inputs[0], *w = graph->initializers[0], *y = graph->outputs[0];
    const struct sp_node *first = &graph->nodes[0], *second = &graph->nodes[1];
    cr_expect(first->inputs[0] == x && first->inputs[1] == w && second->inputs[0] == first->outputs[0]);
    cr_expect_str_eq(first->name, "first");
    cr_expect(second->inputs[1] == NULL && second->outputs[0] == NULL && second->outputs[1] == y);
    cr_expect(strcmp(second->domain, "org") == 0 && strcmp(second->overload, "o") == 0 && second->name[0] == '\0');
    cr_expect(y->producer == second && y->producer_output == 1 && y->is_graph_output && !x->is_graph_output);
    cr_expect(x->kind == SP_VALUE_INPUT && w->kind == SP_VALUE_INITIALIZER && y->kind == SP_VALUE_NODE_OUTPUT);
    /* w: one use per position, in the order of nodes. */
    cr_assert_eq(w->use_count, 2);
    cr_expect(w->uses[0].node == first && w->uses[0].input == 1 && w->uses[1].node == second && w->uses[1].input == 2);
    /* Inputs have their declared type, initializers their tensor's, nothing else has one yet. */
    cr_expect(x->type.kind == SP_TYPE_TENSOR && sp_dim_is(x->type.shape.dims[0], 4));
    cr_expect(w->type.dtype == SP_DTYPE_FLOAT && w->declared.kind == SP_TYPE_NONE);
    cr_expect(first->outputs[0]->type.kind == SP_TYPE_NONE && first->outputs[0]->declared.kind == SP_TYPE_TENSOR);
    uint32_t count;
    const int64_t *axes = sp_node_ints(second, "axes", &count);
    cr_expect(count == 2 && axes[0] == 1 && axes[1] == -2);
    cr_expect_eq(sp_node_float(second, "alpha", 0), 0.5);
    cr_expect_str_eq(sp_node_string(second, "mode", ""), "near");
    cr_expect(model->counts.nodes == 2 && model->counts.values == 4 && model->counts.tensors == 1 &&
              model->counts.attributes == 3);
    for (uint32_t i = 0; i < graph->value_count; i++)
        cr_expect_eq(graph->values[i]->id, i);
    /* A span is exactly the node's payload: it begins with the input's tag. */
    cr_expect_eq(memcmp(file.data + first->span.offset, "\x0a\x01x\x0a\x01w", 6), 0);
    cr_expect_eq(file.data[first->span.offset - 1], (char)first->span.size);
    release(&file, &m);
}

/* Fields may come in any order: the same model, backwards. */
Test(reader, does_not_depend_on_the_order_of_fields)
{
    struct sp_buf file;
    struct onnx_model m;
    read_notation("7{" VALUE(13, "h") VALUE(12, "y") "1{4'Relu' 2'h' 1'x'} 1{2'y' 4'Add' 1'h' 1'w'}" VALUE(
                      11, "x") "5{9h00000000 8'w' 2:1} 2'g'} 8{2:17} 1:8",
                  &file, &m);
    const struct sp_graph *graph = m.model->graph;
    cr_expect(graph->nodes[1].inputs[0] == graph->nodes[0].outputs[0]);
    cr_expect(graph->nodes[1].inputs[1] == graph->initializers[0] && graph->initializers[0]->tensor->rank == 0);
    cr_expect_eq(sp_graph_opset(graph, ""), 17);
    release(&file, &m);
}

/* Before IR 4 every initializer is an input too; later it is a default. */
Test(reader, makes_an_input_with_an_initializer_an_initializer)
{
    struct sp_buf file;
    struct onnx_model m;
    read_notation("1:3 8{2:9} 7{2'g' 5{8'w' 2:1 1:4} " VALUE(11, "x")
                      VALUE(11, "w") "1{1'x' 1'w' 2'y' 4'Add'}" VALUE(12, "y") "}",
                  &file, &m);
    const struct sp_graph *graph = m.model->graph;
    cr_assert(graph->input_count == 2 && graph->initializer_count == 1 && graph->value_count == 3);
    cr_expect_eq(graph->inputs[1], graph->initializers[0]);
    cr_expect(graph->inputs[1]->kind == SP_VALUE_INITIALIZER && graph->inputs[1]->tensor != NULL);
    /* Weights may be absent: planning needs none. */
    cr_expect_eq(graph->inputs[1]->tensor->storage, SP_STORAGE_NONE);
    release(&file, &m);
}

Test(reader, reads_types_of_every_kind)
{
    struct sp_buf file;
    struct onnx_model m;
    read_notation(MODEL("11{1'a' 2{1{1:10 2{1{2'n'} 1{1:3} 1{1:-1} 1{} 1{2'n'}}}}} 11{1'b' 2{4{1{9{1{1{1:7}}}}}}}"
                        "11{1'c' 2{5{1:7 2{1{1:1 2{}}}}}} 11{1'd' 2{8{1:1 2{1{1:9}}}}} 11{1'e' 2{7{1'd'}}} 11{1'f'}"),
                  &file, &m);
    struct sp_value **in = m.model->graph->inputs;
    const struct sp_shape *a = &in[0]->type.shape;
    cr_assert(in[0]->type.kind == SP_TYPE_TENSOR && in[0]->type.dtype == SP_DTYPE_FLOAT16 && a->rank == 5);
    cr_expect(a->dims[0].kind == SP_DIM_SYMBOLIC && sp_dim_equal(a->dims[0], a->dims[4]));
    cr_expect(sp_dim_is(a->dims[1], 3));
    cr_expect(a->dims[2].kind == SP_DIM_UNKNOWN && a->dims[3].kind == SP_DIM_UNKNOWN);
    cr_expect(in[1]->type.kind == SP_TYPE_SEQUENCE && in[1]->type.elem->kind == SP_TYPE_OPTIONAL &&
              in[1]->type.elem->elem->dtype == SP_DTYPE_INT64 && !in[1]->type.elem->elem->shape.has_rank);
    cr_expect(in[2]->type.kind == SP_TYPE_MAP && in[2]->type.dtype == SP_DTYPE_INT64 &&
              in[2]->type.elem->shape.has_rank && in[2]->type.elem->shape.rank == 0);
    cr_expect(in[3]->type.kind == SP_TYPE_SPARSE_TENSOR && sp_dim_is(in[3]->type.shape.dims[0], 9));
    cr_expect(in[4]->type.kind == SP_TYPE_OPAQUE && in[5]->type.kind == SP_TYPE_NONE);
    release(&file, &m);
}

Test(reader, binds_dimensions)
{
    struct sp_buf file = onnx_encode(MODEL("11{1'a' 2{1{1:1 2{1{2'n'} 1{2'm'}}}}}"));
    const char *names[] = {"n", "n"};
    const int64_t values[] = {8, -1};
    struct sp_read_options options = {.binding_count = 1, .binding_names = names, .binding_values = values};
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_error err = {0};
    struct sp_model *model;
    cr_assert_eq(sp_onnx_read(arena, file.data, file.size, &options, &model, &err), SP_OK);
    const struct sp_dim *dims = model->graph->inputs[0]->type.shape.dims;
    cr_expect(sp_dim_is(dims[0], 8) && dims[1].kind == SP_DIM_SYMBOLIC);
    options.binding_count = 2;
    cr_expect_eq(sp_onnx_read(arena, file.data, file.size, &options, &model, &err), SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "BAD_DIMENSION_BINDING");
    sp_arena_destroy(arena);
    sp_buf_release(&file);
}

/* y = Loop(body uses x twice and its own i; an If inside the body uses x and h of the body). */
Test(reader, records_what_subgraphs_use)
{
    struct sp_buf file;
    struct onnx_model m;
    read_notation(
        MODEL(VALUE(11, "x") "1{1'x' 2'c' 4'Relu'} 1{1'c' 2'y' 4'Loop' 5{1'body' 20:5 6{2'b' "
                             "11{1'i'} 1{1'i' 1'x' 1'x' 2'h' 4'Sum'} 1{1'h' 2'o' 4'If' "
                             "5{1'then_branch' 20:5 6{1{1'x' 1'h' 2't' 4'Add'} 12{1't'}}} "
                             "5{1'else_branch' 20:5 6{12{1'c'}}}} 12{1'o'}}}} 1{1'x' 2'z' 4'Neg'}" VALUE(12, "y")),
        &file, &m);
    const struct sp_graph *graph = m.model->graph;
    const struct sp_node *loop = &graph->nodes[1];
    const struct sp_graph *body = sp_node_attribute(loop, "body")->graphs[0];
    const struct sp_node *branch = &body->nodes[1];
    const struct sp_value *x = graph->inputs[0], *c = graph->nodes[0].outputs[0], *h = body->nodes[0].outputs[0];
    cr_expect(body->parent == graph && body->owner == loop && body->depth == 1);
    const struct sp_graph *then_branch = sp_node_attribute(branch, "then_branch")->graphs[0];
    cr_expect(then_branch->parent == body && then_branch->owner == branch && then_branch->depth == 2);
    cr_expect(then_branch->nodes[0].inputs[0] == x && then_branch->nodes[0].inputs[1] == h);
    cr_assert_eq(x->use_count, 3);
    cr_expect(x->uses[0].node == &graph->nodes[0] && x->uses[0].input == 0);
    cr_expect(x->uses[1].node == loop && x->uses[1].input == UINT32_MAX);
    cr_expect(x->uses[2].node == &graph->nodes[2] && x->uses[2].input == 0);
    cr_assert_eq(h->use_count, 2);
    cr_expect(h->uses[0].node == branch && h->uses[0].input == 0 && h->uses[1].node == branch &&
              h->uses[1].input == UINT32_MAX);
    /* c: an operand of the loop, and the result of a branch deep inside it. */
    cr_assert_eq(c->use_count, 2);
    cr_expect(c->uses[0].node == loop && c->uses[0].input == 0 && c->uses[1].input == UINT32_MAX);
    const struct sp_graph *else_branch = sp_node_attribute(branch, "else_branch")->graphs[0];
    cr_expect(else_branch->outputs[0] == c && !c->is_graph_output && else_branch->value_count == 0);
    cr_expect_eq(m.model->counts.nodes, 6);
    release(&file, &m);
}

Test(reader, reads_attributes_of_every_type)
{
    struct sp_buf file;
    struct onnx_model m;
    read_notation(MODEL("1{2'y' 4'A' 5{1'f' 20:1} 5{1'i' 3:7} 5{1's' 4h610062 20:3} 5{1't' 5{2:7 1:1 7:9} 20:4}"
                        "5{1'fs' 7h0000803f00000040 7~3 20:6} 5{1'is' 8h0102 8:3 20:7} 5{1'ss' 9'a' 9'' 20:8}"
                        "5{1'ts' 10{2:1} 10{2:1} 20:9} 5{1'tp' 14{1{1:1}} 20:13} 5{1'tps' 15{4{}} 20:14} "
                        "5{1'sp' 22{1{2:1 1:1 9h00000000} 2{2:7 1:1 7:2} 3:5} 20:11} 5{1'none' 20:7}}"),
                  &file, &m);
    const struct sp_node *node = &m.model->graph->nodes[0];
    cr_assert_eq(node->attribute_count, 12);
    cr_expect_eq(sp_node_float(node, "f", 1), 0); /* a proto3 writer leaves zero out */
    cr_expect_eq(sp_node_int(node, "i", 0), 7);   /* IR 1 had no type */
    const struct sp_attribute *s = sp_node_attribute(node, "s");
    cr_expect(s->s.size == 3 && memcmp(s->s.bytes, "a\0b\0", 4) == 0);
    cr_expect_eq(sp_node_attribute(node, "t")->tensors[0]->dtype, SP_DTYPE_INT64);
    const struct sp_attribute *floats = sp_node_attribute(node, "fs");
    cr_expect(floats->count == 3 && floats->floats[1] == 2 && floats->floats[2] == 3);
    const struct sp_attribute *ints = sp_node_attribute(node, "is");
    cr_expect(ints->count == 3 && ints->ints[0] == 1 && ints->ints[1] == 2 && ints->ints[2] == 3);
    cr_expect_eq(sp_node_attribute(node, "ss")->count, 2);
    cr_expect_eq(sp_node_attribute(node, "ts")->count, 2);
    cr_expect_eq(sp_node_attribute(node, "tp")->types[0].kind, SP_TYPE_TENSOR);
    cr_expect_eq(sp_node_attribute(node, "tps")->types[0].kind, SP_TYPE_SEQUENCE);
    cr_expect_eq(sp_node_attribute(node, "sp")->sparse_tensors[0]->dims[0], 5);
    uint32_t count;
    cr_expect(sp_node_ints(node, "none", &count) != NULL && count == 0);
    release(&file, &m);
}

Test(reader, reads_annotations)
{
    struct sp_buf file;
    struct onnx_model m;
    read_notation("1:11 8{2:17} 26{1'c' 2:4 3'a' 3'b' 3'c' 3'd'} 26{} 7{2'g' 11{1'X'} 1{1'X' 2'Y' 4'Relu' 10{1'c' 3:2 "
                  "2{1'X' 2:-1 2:-2 3{1:-1 2:0 2:1} 3{1:-2 2h0203} 4{1:0 2{1:4 3:2} 2{2'N' 3:1}} 4{}}} 10{}}}",
                  &file, &m);
    const struct sp_model *model = m.model;
    cr_assert_eq(model->configuration_count, 2);
    cr_expect(model->configurations[0].num_devices == 4 && strcmp(model->configurations[0].devices[3], "d") == 0);
    cr_expect(!model->configurations[1].has_num_devices && model->configurations[1].name[0] == '\0');
    const struct sp_node *node = &model->graph->nodes[0];
    cr_assert_eq(node->configuration_count, 2);
    const struct sp_node_configuration *c = &node->configurations[0];
    cr_assert(c->has_stage && c->stage == 2 && c->spec_count == 1);
    const struct sp_sharding_spec *spec = &c->specs[0];
    cr_expect_eq(spec->tensor_name, node->inputs[0]->name); /* interned: the same pointer */
    cr_assert(spec->device_count == 2 && spec->group_count == 2 && spec->axis_count == 2);
    cr_expect(spec->devices[1] == -2 && spec->groups[1].key == -2 && spec->groups[1].devices[1] == 3);
    cr_expect(spec->axes[0].part_count == 2 && spec->axes[0].parts[0].dim_value == 4 &&
              spec->axes[0].parts[1].num_shards == 1);
    cr_expect_str_eq(spec->axes[0].parts[1].dim_param, "N");
    cr_expect(!spec->axes[0].parts[1].has_value && !spec->axes[1].has_axis);
    cr_expect(!node->configurations[1].has_stage && node->configurations[1].configuration_id[0] == '\0');
    release(&file, &m);
}

Test(reader, refuses_wrong_graphs)
{
    const enum sp_status wrong = SP_ERR_MODEL;
    onnx_expect(MODEL("1{1'b' 2'a' 4'Relu'} 1{1'a' 2'b' 4'Relu'}"), wrong, "NOT_TOPOLOGICAL", NULL);
    onnx_expect(MODEL("1{1'a' 2'a' 4'Relu'}"), wrong, "NOT_TOPOLOGICAL", NULL);
    onnx_expect(MODEL("1{1'q' 2'a' 4'Relu'}"), wrong, "UNDEFINED_INPUT", NULL);
    onnx_expect(MODEL("1{2'a' 4'R'} 1{2'a' 4'R'}"), wrong, "DUPLICATE_NAME", NULL);
    onnx_expect(MODEL("1{2'a' 2'a' 4'R'}"), wrong, "DUPLICATE_NAME", NULL);
    onnx_expect(MODEL("11{1'a'} 1{2'a' 4'R'}"), wrong, "DUPLICATE_NAME", NULL);
    onnx_expect(MODEL("11{1'a'} 11{1'a'}"), wrong, "DUPLICATE_NAME", NULL);
    onnx_expect(MODEL("5{8'a' 2:1} 5{8'a' 2:7}"), wrong, "DUPLICATE_NAME", NULL);
    onnx_expect(MODEL("5{8'a' 2:1 1:0} 5{8'a' 2:1}"), wrong, "DUPLICATE_NAME", NULL);
    onnx_expect(MODEL("11{}"), wrong, "UNNAMED_INPUT", NULL);
    onnx_expect(MODEL("5{2:1}"), wrong, "UNNAMED_INITIALIZER", NULL);
    onnx_expect(MODEL("12{1'a'}"), wrong, "UNDEFINED_OUTPUT", NULL);
    onnx_expect(MODEL("1{1'' 2'a'}"), wrong, "NO_OPERATOR_TYPE", NULL);
    onnx_expect(MODEL("1{4'Relu' 3'name'}"), wrong, "INCOMPLETE_NODE", NULL);
    onnx_expect(MODEL("1{4'A'}"), wrong, "INCOMPLETE_NODE", NULL);
    onnx_expect(MODEL("11{1'x' 2{1{1:99}}}"), wrong, "UNKNOWN_DATA_TYPE", NULL);
    onnx_expect("1:-5 7{2'g'}", wrong, "BAD_IR_VERSION", NULL);
    onnx_expect("1:8 8{2:17} 8{1'ai.onnx' 2:18} 7{2'g'}", wrong, "DUPLICATE_OPSET", NULL);
    onnx_expect("1:8 8{2:0} 7{2'g'}", wrong, "BAD_OPSET_VERSION", NULL);
    onnx_expect("1:8 8{2:9223372036854775807} 7{2'g'}", wrong, "BAD_OPSET_VERSION", NULL);
}

Test(reader, refuses_wrong_names_in_subgraphs)
{
    /* A name of the body is not visible outside; an outer name must not be defined again; a node's own outputs are
       not visible in its subgraphs. */
    onnx_expect(MODEL("1{2'a' 4'If' 5{1'b' 20:5 6{1{2't' 4'R'}}}} 1{1't' 2'c' 4'R'}"), SP_ERR_MODEL, "UNDEFINED_INPUT",
                NULL);
    onnx_expect(MODEL("1{2't' 4'R'} 1{2'a' 4'If' 5{1'b' 20:5 6{1{2't' 4'R'}}}}"), SP_ERR_MODEL, "SHADOWED_NAME", NULL);
    onnx_expect(MODEL("1{2'a' 4'If' 5{1'b' 20:5 6{1{1'a' 2't' 4'R'}}}}"), SP_ERR_MODEL, "UNDEFINED_INPUT", NULL);
    struct sp_buf file;
    struct onnx_model m;
    /* Siblings may use one name, and so may a graph after a subgraph. */
    read_notation(MODEL("1{2'a' 4'If' 5{1'b' 20:5 6{1{2't' 4'R'}}} 5{1'c' 20:5 6{1{2't' 4'R'}}}} 1{2't' 4'R'}"), &file,
                  &m);
    release(&file, &m);
}

/* The operator types of a graph's nodes, in order. */
static void expect_order(const struct sp_graph *graph, const char *types)
{
    char text[64] = "";
    for (uint32_t i = 0; i < graph->node_count; i++) {
        cr_expect_eq(graph->nodes[i].index, i);
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i == 0 ? "" : " ",
                       graph->nodes[i].op_type);
    }
    cr_expect_str_eq(text, types);
}

/* Runtimes sort nodes. What a graph inside a node uses counts, too, and what is in order stays as it is. */
Test(reader, sorts_nodes)
{
    struct sp_buf file;
    struct onnx_model m;
    read_notation(MODEL("11{1'x'} 1{1'c' 2'd' 4'D'} 1{1'x' 2'a' 4'A'} 1{1'b' 1'a' 2'c' 4'C'} 1{1'a' 2'b' 4'B'} "
                        "1{1'x' 2'e' 4'E'} 12{1'd'}"),
                  &file, &m);
    expect_order(m.model->graph, "A B C D E");
    cr_expect(m.model->is_sorted);
    cr_expect_null(sp_node_early_input(&m.model->graph->nodes[0]));
    cr_expect_str_eq(sp_node_early_input(&m.model->graph->nodes[3])->name, "c");
    release(&file, &m);
    read_notation(
        MODEL("1{1'x' 2'y' 4'If' 5{1'then_branch' 20:5 6{1{1's' 2't' 4'Inner'} 1{1'w' 2's' 4'First'} 12{1't'}}}} "
              "11{1'x'} 1{1'x' 2'w' 4'W'} 12{1'y'}"),
        &file, &m);
    expect_order(m.model->graph, "W If");
    expect_order(m.model->graph->nodes[1].attributes[0].graphs[0], "First Inner");
    release(&file, &m);
    read_notation(MODEL("11{1'x'} 1{1'x' 2'a' 4'A'} 1{1'a' 2'b' 4'B'}"), &file, &m);
    expect_order(m.model->graph, "A B");
    cr_expect_not(m.model->is_sorted);
    release(&file, &m);
}

/* The last of those with one name, as ONNX Runtime does, or the sparse one. */
Test(reader, takes_the_last_of_two_initializers)
{
    struct sp_buf file;
    struct onnx_model m;
    read_notation(MODEL("11{1'x'} 5{8'w' 2:7 1:1 7:5} 5{8'v' 2:7 1:1 7:6} 5{8'w' 2:7 1:1 7:8} "
                        "15{1{8's' 2:1 1:1 4~1} 2{2:7 1:1 7:0} 3:4} 5{8's' 2:1 1:4} "
                        "1{1'x' 1'w' 1'v' 1's' 2'y' 4'Op'} 12{1'y'}"),
                  &file, &m);
    const struct sp_graph *graph = m.model->graph;
    cr_assert_eq(graph->initializer_count, 3);
    struct sp_value *const *inputs = graph->nodes[0].inputs;
    const struct sp_value *w = inputs[1], *v = inputs[2], *s = inputs[3];
    cr_expect(m.model->lists_again);
    cr_expect(w->is_listed_again && s->is_listed_again && !v->is_listed_again);
    cr_expect_gt(w->tensor->span.offset, v->tensor->span.offset);
    cr_expect(s->tensor == NULL && s->sparse != NULL);
    cr_expect_eq(s->type.kind, SP_TYPE_SPARSE_TENSOR);
    release(&file, &m);
}

Test(reader, says_where)
{
    struct onnx_model m;
    struct sp_buf file = onnx_encode(
        MODEL("1{2'c' 4'R'} 1{1'c' 2'y' 3'outer' 4'If' 5{1'then_branch' 20:5 6{1{2't' 4'R'} 1{1'q' 2'u' 4'Add'}}}}"));
    cr_expect_eq(onnx_read(&m, file.data, file.size), SP_ERR_MODEL);
    cr_expect_str_eq(m.err.where, "'outer' (If) > node 1 (Add)");
    cr_expect_str_eq(m.err.message, "Input 0 is 'q', which nothing defines.");
    release(&file, &m);
}

Test(reader, refuses_wrong_attributes)
{
    const enum sp_status wrong = SP_ERR_MODEL;
    onnx_expect(MODEL("1{2'y' 4'R' 5{1'a' 3:1} 5{1'a' 3:2}}"), wrong, "DUPLICATE_ATTRIBUTE", NULL);
    onnx_expect(MODEL("1{2'y' 4'R' 5{3:1}}"), wrong, "UNNAMED_ATTRIBUTE", NULL);
    onnx_expect(MODEL("1{2'y' 4'R' 5{1'a' 20:7 3:1}}"), wrong, "ATTRIBUTE_MISMATCH", NULL);
    onnx_expect(MODEL("1{2'y' 4'R' 5{1'a' 3:1 2~1}}"), wrong, "ATTRIBUTE_MISMATCH", NULL);
    onnx_expect(MODEL("1{2'y' 4'R' 5{1'a' 20:99}}"), wrong, "BAD_ATTRIBUTE_TYPE", NULL);
    onnx_expect(MODEL("1{2'y' 4'R' 5{1'a' 20:4}}"), wrong, "NO_ATTRIBUTE_VALUE", NULL);
    onnx_expect(MODEL("1{2'y' 4'R' 5{1'a'}}"), wrong, "NO_ATTRIBUTE_VALUE", NULL);
    onnx_expect(MODEL("1{2'y' 4'R' 5{1'a' 20:2 21'b'}}"), wrong, "STRAY_REFERENCE", NULL);
}

static bool stop(void *context, const char *phase, double fraction, double best, double bound)
{
    (void)best;
    (void)bound;
    cr_expect(strcmp(phase, "read") == 0 && fraction >= 0 && fraction <= 1);
    return --*(int *)context > 0;
}

Test(reader, can_be_cancelled)
{
    struct sp_buf file = onnx_encode(MODEL("1{2'' 4'R'}*20000"));
    int ticks = 3;
    struct sp_watch watch = {.tick = stop, .context = &ticks};
    struct sp_read_options options = {.watch = &watch};
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_model *model;
    struct sp_error err = {0};
    cr_expect_eq(sp_onnx_read(arena, file.data, file.size, &options, &model, &err), SP_ERR_CANCELLED);
    cr_expect_eq(ticks, 0);
    sp_arena_destroy(arena);
    sp_buf_release(&file);
}
