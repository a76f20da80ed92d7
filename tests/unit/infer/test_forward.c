#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data_files.h"
#include "infer/forward.h"
#include "onnx_files.h"
#include "ops/shapes/shapes.h"

/* ---- models ----------------------------------------------------------------------------------------------------- */

static struct sp_buf file;
static struct onnx_model model;
static struct sp_dataflow *dataflow;
static struct sp_assignment *assignment;
static struct sp_error err;

static void stop(void)
{
    onnx_release(&model);
    sp_buf_release(&file);
}

TestSuite(forward, .fini = stop);

static enum sp_status assign(const void *bytes, size_t size, const char *configuration, int64_t devices,
                             uint32_t set_count, const struct sp_set_spec *sets)
{
    struct sp_shape_summary summary;
    cr_assert_eq(onnx_read(&model, bytes, size), SP_OK, "%s", model.err.message);
    cr_assert_eq(sp_infer_shapes(model.model, NULL, &summary, &err), SP_OK, "%s", err.message);
    cr_assert_eq(sp_dataflow_create(model.arena, model.model, &dataflow, &err), SP_OK, "%s", err.message);
    sp_error_clear(&err);
    return sp_assignment_create(model.arena, dataflow, configuration, devices, &(struct sp_set_specs){set_count, sets},
                                &assignment, &err);
}

static void complete_with(const char *notation, int64_t devices, bool gathers)
{
    file = onnx_encode(notation);
    cr_assert_eq(assign(file.data, file.size, "c", devices, 0, NULL), SP_OK, "%s", err.message);
    assignment->gathers_contradictions = gathers;
    cr_assert_eq(sp_infer_forward(assignment, &err), SP_OK, "%s", err.message);
}

static void complete(const char *notation, int64_t devices)
{
    complete_with(notation, devices, false);
}

/* What a node (by its name, in any graph) takes or makes a tensor as. */
static const struct sp_spec_entry *entry_of(const char *node_name, const char *tensor)
{
    for (uint32_t n = 0; n < dataflow->node_count; n++) {
        const struct sp_node *node = dataflow->nodes[n];
        for (uint32_t i = 0; strcmp(node->name, node_name) == 0 && i < node->input_count + node->output_count; i++) {
            const struct sp_value *value =
                i < node->input_count ? node->inputs[i] : node->outputs[i - node->input_count];
            if (value && strcmp(value->name, tensor) == 0)
                return sp_spec_of(assignment, n, i);
        }
    }
    cr_assert_fail("node %s has no %s", node_name, tensor);
    return NULL;
}

static const char *spec_of(const char *node_name, const char *tensor)
{
    return sp_spec_text(entry_of(node_name, tensor)->sharding, sp_arena_alloc(model.arena, SP_SPEC_TEXT_SIZE),
                        SP_SPEC_TEXT_SIZE);
}

#define EXPECT_SPEC(node, tensor, text) cr_expect_str_eq(spec_of(node, tensor), text, "%s", spec_of(node, tensor))

static const char *stops(void)
{
    const char *text = "";
    for (uint32_t i = 0; i < assignment->stop_count; i++)
        text = sp_arena_printf(model.arena, "%s%s%s", text, i > 0 ? " " : "", assignment->stops[i].code);
    return text;
}

#define EXPECT_STOPS(text) cr_expect_str_eq(stops(), text, "%s", stops())

/* float[4,4]; an input; a node "n" of one input and output; a spec of two shards on devices 0 and 1. */
#define SQUARE            "2{1{1:1 2{1{1:4}1{1:4}}}}"
#define INPUT(x)          " 11{1'" x "' " SQUARE "}"
#define NODE(n, op, x, y) "3'" n "' 4'" op "' 1'" x "' 2'" y "'"
#define SPLIT(x, axis)    "10{1'c' 2{1'" x "' 2:0 2:1 4{1:" axis " 2{3:2}}}}"
#define MODEL(graph)      "1:11 8{2:18} 26{1'c' 2:2} 7{2'g' " graph "}"

/* ---- one after the other ---------------------------------------------------------------------------------------- */

Test(forward, carries_specs_along)
{
    complete(MODEL(INPUT("x") "1{" NODE("a", "Relu", "x", "h") SPLIT("x", "0") "} 1{" NODE(
                 "b", "Transpose", "h", "t") "} 1{" NODE("c", "Neg", "t", "y") "} 12{1'y'}"),
             2);
    EXPECT_SPEC("a", "h", "axis 0 in 2 on devices 0, 1");
    EXPECT_SPEC("b", "h", "axis 0 in 2 on devices 0, 1");
    EXPECT_SPEC("c", "y", "axis 1 in 2 on devices 0, 1");
    EXPECT_STOPS("");
    cr_expect_eq(entry_of("a", "x")->origin, SP_SPEC_GIVEN);
    cr_expect_null(entry_of("a", "x")->because);
    cr_expect_eq(entry_of("b", "h")->origin, SP_SPEC_INFERRED);
    cr_expect_str_eq(entry_of("b", "h")->because, "'h' is taken as 'a' (Relu) makes it.");
    cr_expect_str_eq(entry_of("b", "t")->because,
                     "'t' is what 'b' (Transpose) computes from its inputs; axis 1 is factor d0, as axis 0 of 'h' is.");
}

/* x x^T from one split of x: by the proposal the inputs of the product contradict each other. */
#define SELF_PRODUCT                                                                                                   \
    MODEL(INPUT("x") "1{" NODE("a", "Relu", "x", "h")                                                                  \
              SPLIT("x", "0") "} 1{" NODE("b", "Transpose", "h", "t") "} "                                             \
                                                                      "1{3'm' 4'MatMul' 1'h' 1't' 2'y'} 12{1'y'}")

Test(forward, leaves_contradictions_or_gathers_the_smaller_input)
{
    complete(SELF_PRODUCT, 2);
    cr_expect_null(entry_of("m", "y")->sharding);
    EXPECT_STOPS("DEVICES");
    stop();
    complete_with(SELF_PRODUCT, 2, true);
    EXPECT_SPEC("m", "h", "whole on devices 0, 1");
    EXPECT_SPEC("m", "t", "axis 1 in 2 on devices 0, 1");
    EXPECT_SPEC("m", "y", "axis 1 in 2 on devices 0, 1");
    EXPECT_STOPS("DEVICES");
    cr_expect_eq(entry_of("m", "h")->origin, SP_SPEC_INFERRED);
}

/* 0007: a stated output need not be what follows from the inputs; it is what consumers get. */
Test(forward, keeps_stated_outputs)
{
    complete(MODEL(INPUT("x") "1{" NODE("a", "Relu", "x", "h")
                       SPLIT("h", "1") "} 1{" NODE("b", "Relu", "h", "y") "} 12{1'y'}"),
             2);
    EXPECT_SPEC("a", "x", "whole on devices 0, 1");
    cr_expect_eq(entry_of("a", "x")->origin, SP_SPEC_ASSUMED);
    EXPECT_SPEC("b", "y", "axis 1 in 2 on devices 0, 1");
}

Test(forward, leaves_what_nothing_is_said_of)
{
    complete(MODEL(INPUT("x") "1{" NODE("a", "Relu", "x", "h") "} 1{" NODE("b", "Relu", "h", "y")
                       SPLIT("y", "0") "} 12{1'y'}"),
             2);
    EXPECT_SPEC("a", "x", "without a sharding");
    EXPECT_SPEC("a", "h", "without a sharding");
    EXPECT_SPEC("b", "h", "whole on devices 0, 1");
}

Test(forward, stops_at_conflicts)
{
    complete(MODEL(INPUT("x") INPUT("z") "1{3'a' 4'Add' 1'x' 1'z' 2'h' 10{1'c' 2{1'x' 2:0 2:1 4{1:0 2{3:2}}} "
                                         "2{1'z' 2:0 2:1 4{1:1 2{3:2}}}}} 1{" NODE("b", "Relu", "h", "y") "} 12{1'y'}"),
             2);
    EXPECT_STOPS("SPLIT_CONFLICT");
    EXPECT_SPEC("a", "h", "without a sharding");
    EXPECT_SPEC("b", "y", "without a sharding");
    cr_expect_eq(assignment->stops[0].node, dataflow->nodes[0]);
    cr_expect_str_eq(assignment->stops[0].tensor, "x");
}

/* ---- control flow and calls ------------------------------------------------------------------------------------- */

Test(forward, goes_through_branches)
{
    complete(
        MODEL(INPUT("x") " 11{1'p' 2{1{1:9 2{}}}} 1{" NODE("a", "Relu", "x", "h")
                  SPLIT("x", "0") "} 1{3'if' 4'If' 1'p' 2'y' 5{1'then_branch' 20:5 6{2't' 1{" NODE(
                      "then", "Neg", "h", "u") "} 12{1'u'}}} "
                                               "5{1'else_branch' 20:5 6{2'e' 1{" NODE(
                                                   "else", "Transpose", "h",
                                                   "v") "} 12{1'v'}}}} 1{" NODE("b", "Relu", "y", "z") "} 12{1'z'}"),
        2);
    EXPECT_SPEC("then", "u", "axis 0 in 2 on devices 0, 1");
    EXPECT_SPEC("else", "v", "axis 1 in 2 on devices 0, 1");
    EXPECT_SPEC("if", "y", "axis 0 in 2 on devices 0, 1");
    EXPECT_SPEC("b", "z", "axis 0 in 2 on devices 0, 1");
    EXPECT_STOPS("SPLIT_CONFLICT"); /* the branches differ */
}

/* x -> Loop: v is carried through the body's node, which is also scanned out. */
#define LOOP(body, given)                                                                                              \
    MODEL(INPUT("x") " 11{1'm' 2{1{1:7 2{}}}} 11{1'p' 2{1{1:9 2{}}}} 1{" NODE("a", "Relu", "x", "h") given             \
          "} 1{3'loop' 4'Loop' 1'm' 1'p' 1'h' 2'y' 2's' 5{1'body' 20:5 6{2'b' "                                        \
          "11{1'i' 2{1{1:7 2{}}}} 11{1'c' 2{1{1:9 2{}}}} 11{1'v'} "                                                    \
          "1{4'Identity' 1'c' 2'd'} " body " 1{4'Identity' 1'w' 2'q'} 12{1'd'} "                                       \
          "12{1'w'} 12{1'q'}}}} 1{" NODE("b", "Relu", "y", "z") "} 12{1'z'}")

Test(forward, settles_loops_at_once)
{
    complete(LOOP("1{" NODE("in", "Neg", "v", "w") "}", SPLIT("x", "0")), 2);
    EXPECT_STOPS("");
    EXPECT_SPEC("in", "w", "axis 0 in 2 on devices 0, 1");
    EXPECT_SPEC("loop", "y", "axis 0 in 2 on devices 0, 1");
    EXPECT_SPEC("loop", "s", "axis 1 in 2 on devices 0, 1"); /* one axis more: the iterations */
    EXPECT_SPEC("b", "z", "axis 0 in 2 on devices 0, 1");
}

/* The body's own annotation splits what came in whole: the second round begins with it. */
Test(forward, settles_loops_in_a_second_round)
{
    complete(LOOP("1{" NODE("in", "Neg", "v", "w") SPLIT("w", "1") "}", "10{1'c' 2{1'x' 2:-1 3{1:-1 2:0 2:1}}}"), 2);
    EXPECT_STOPS("");
    EXPECT_SPEC("a", "h", "whole on devices 0, 1");
    EXPECT_SPEC("in", "v", "axis 1 in 2 on devices 0, 1");
    EXPECT_SPEC("loop", "y", "axis 1 in 2 on devices 0, 1");
}

/* A transpose in each round never gives what it got. */
Test(forward, tells_of_loops_that_do_not_settle)
{
    complete(LOOP("1{" NODE("in", "Transpose", "v", "w") "}", SPLIT("x", "0")), 2);
    EXPECT_STOPS("LOOP_NOT_SETTLED");
    EXPECT_SPEC("loop", "h", "axis 0 in 2 on devices 0, 1");
}

Test(forward, goes_through_calls)
{
    complete(
        "1:11 8{2:18} 8{1'f' 2:1} 26{1'c' 2:2} 7{2'g' " INPUT("x") "1{3'call' 4'twice' 7'f' 1'x' 2'h' " SPLIT(
            "x", "0") "} 1{" NODE("b", "Relu", "h", "y") "} 12{1'y'}} 25{1'twice' 10'f' 4'p' 5'r' 9{2:18} "
                                                         "7{3'one' 4'Neg' 1'p' 2'q'} 7{3'two' 4'Transpose' 1'q' 2'r'}}",
        2);
    EXPECT_STOPS("");
    EXPECT_SPEC("one", "q", "axis 0 in 2 on devices 0, 1");
    EXPECT_SPEC("call", "h", "axis 1 in 2 on devices 0, 1");
    EXPECT_SPEC("b", "y", "axis 1 in 2 on devices 0, 1");
}

/* ---- what an assignment begins with ----------------------------------------------------------------------------- */

#define CHAIN                                                                                                          \
    MODEL(INPUT("x") "1{" NODE("a", "Relu", "x", "h") "} 1{" NODE("b", "Relu", "h", "y")                               \
              SPLIT("h", "1") "} 1{" NODE("c", "Neg", "h", "z") "} 12{1'y'} 12{1'z'}")

static struct sp_sharding halves(uint32_t axis)
{
    static struct sp_block_part part = {.shards = 2};
    static struct sp_block_dim dims[2];
    static const uint32_t first[] = {0, 1, 2};
    static const int64_t devices[] = {0, 1};
    dims[axis] = (struct sp_block_dim){1, &part};
    return (struct sp_sharding){
        .kind = SP_SHARDING_BLOCKS, .rank = 2, .blocks = dims, .shard_count = 2, .first = first, .devices = devices};
}

Test(forward, sets_specs_on_tensors)
{
    struct sp_sharding rows = halves(0);
    file = onnx_encode(CHAIN);
    cr_assert_eq(assign(file.data, file.size, "c", 2, 2, (struct sp_set_spec[]){{"h", &rows}, {"x", &rows}}), SP_OK,
                 "%s", err.message);
    cr_expect_eq(entry_of("a", "h")->origin, SP_SPEC_SET);
    cr_expect_eq(entry_of("b", "h")->origin, SP_SPEC_GIVEN);
    cr_expect_eq(entry_of("c", "h")->origin, SP_SPEC_SET);
    EXPECT_SPEC("c", "h", "axis 0 in 2 on devices 0, 1");
    const struct sp_graph *graph = assignment->dataflow->model->graph;
    cr_expect(assignment->stored[graph->inputs[0]->id] != NULL && assignment->stored[graph->outputs[0]->id] == NULL);
}

Test(forward, refuses_wrong_sets)
{
    struct sp_sharding rows = halves(0), single = {.kind = SP_SHARDING_SINGLE, .device = 7};
    file = onnx_encode(CHAIN);
    cr_expect_eq(assign(file.data, file.size, "c", 2, 1, (struct sp_set_spec[]){{"q", &rows}}), SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "UNKNOWN_TENSOR");
    onnx_release(&model);
    cr_expect_eq(assign(file.data, file.size, "c", 2, 2, (struct sp_set_spec[]){{"h", &rows}, {"h", &rows}}),
                 SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "DUPLICATE_TENSOR");
    onnx_release(&model);
    cr_expect_neq(assign(file.data, file.size, "c", 2, 1, (struct sp_set_spec[]){{"h", &single}}), SP_OK);
}

Test(forward, refuses_unsound_annotations)
{
    file = onnx_encode(
        MODEL(INPUT("x") "1{" NODE("a", "Relu", "x", "y") "10{1'c' 2{1'x' 2:0 2:1 4{1:0 2{3:3}}}}} 12{1'y'}"));
    cr_expect_eq(assign(file.data, file.size, "c", 2, 0, NULL), SP_ERR_MODEL);
    cr_expect_str_eq(err.where, "node 'a' (Relu)");
    onnx_release(&model);
    sp_buf_release(&file);
    file = onnx_encode(MODEL(INPUT("x") "1{" NODE("a", "Relu", "x", "y") "10{1'c' 2{1'z' 2:0}}} 12{1'y'}"));
    cr_expect_eq(assign(file.data, file.size, "c", 2, 0, NULL), SP_ERR_MODEL);
    cr_expect_str_eq(err.code, "UNKNOWN_TENSOR");
}

/* Without devices: those of the node's other specs where they are as many, else the first ones. */
Test(forward, fills_open_placements)
{
    complete(
        MODEL(INPUT("x") "1{" NODE(
            "a", "Relu", "x", "h") "10{1'c' 2{1'x' 4{1:0 2{3:2}}} 2{1'h' 2:3 2:2 4{1:0 2{3:2}}}}} "
                                   "1{" NODE("b", "Relu", "h", "y") "10{1'c' 2{1'h'} 2{1'y' 4{1:1 2{3:2}}}}} 12{1'y'}"),
        4);
    EXPECT_SPEC("a", "x", "axis 0 in 2 on devices 2, 3");
    EXPECT_SPEC("b", "h", "whole on devices 0..3");
    EXPECT_SPEC("b", "y", "axis 1 in 2 on devices 0, 1");
}

/* ---- the corpus (facts of ONNX proposals 0006 and 0007) --------------------------------------------------------- */

static bool complete_file(const char *name, int64_t devices)
{
    char path[512];
    size_t size;
    (void)snprintf(path, sizeof path, "%s/multi-device-corpus/%s.onnx", data_folder(), name);
    unsigned char *bytes = data_read(path, &size);
    if (!bytes)
        return false;
    sp_buf_init(&file, size + 1);
    sp_buf_append(&file, bytes, size);
    free(bytes);
    cr_assert_eq(assign(file.data, file.size, "c0", devices, 0, NULL), SP_OK, "%s", err.message);
    cr_assert_eq(sp_infer_forward(assignment, &err), SP_OK, "%s", err.message);
    return true;
}

static void expect_file(const char *name, int64_t devices, const char *output, const char *want, const char *codes)
{
    if (!complete_file(name, devices))
        return;
    cr_expect_str_eq(spec_of("n0", output), want, "%s: %s", name, spec_of("n0", output));
    cr_expect_str_eq(stops(), codes, "%s: %s", name, stops());
    stop();
    memset(&model, 0, sizeof model);
    memset(&file, 0, sizeof file);
}

Test(forward, completes_the_corpus)
{
    expect_file("01-ok-split-axis1-output-missing", 2, "Y", "axis 1 in 2 on devices 0, 1", "");
    expect_file("05-ok-compose-broadcast", 4, "Y", "axis 0 in 2, axis 1 in 2 on devices 0..3", "");
    expect_file("55-bad-broadcast-operand-not-replicated", 2, "Y", "without a sharding", "DEVICES");
}
