/* infer_propagate: assignments of small models completed by propagation. */
#include "expect_view.h"
#include "infer/propagate/propagate.h"
#include "sharding/convert_forms.h"

TestSuite(infer_propagate, .fini = stop);

static void propagate(void)
{
    cr_assert_eq(sp_infer_propagate(assignment, NULL, &build.err), SP_OK, "%s", build.err.message);
}

static const struct sp_spec_entry *entry_of(const struct sp_node *node, uint32_t operand)
{
    return sp_spec_of(assignment, sp_dataflow_node(dataflow, node), operand);
}

/* As a list of devices, in words. */
static const char *found_text(const struct sp_node *node, uint32_t operand)
{
    struct sp_sharding *blocks = NULL;
    const struct sp_sharding *found = entry_of(node, operand)->sharding;
    cr_assert_not_null(found);
    cr_assert_eq(sp_sharding_to_blocks(build.arena, found, found->rank, 0, &blocks, NULL, &build.err), SP_OK, "%s",
                 build.err.message);
    return spec_text(blocks);
}

#define EXPECT_SPEC(node, operand, text)                                                                               \
    cr_expect_str_eq(found_text(node, operand), text, "%s", found_text(node, operand))

static uint32_t count_communications(const char *steps)
{
    struct sp_communications list = {0};
    uint32_t count = 0;
    cr_assert_eq(sp_assignment_communications(assignment, &list, &build.err), SP_OK, "%s", build.err.message);
    for (uint32_t i = 0; i < list.count; i++)
        count += steps == NULL || strcmp(list.items[i].steps, steps) == 0;
    return count;
}

static struct sp_node *up, *bias, *act, *down, *last;

/* x [4,8] -> MatMul w1 [8,16] -> Add b1 -> Relu -> MatMul w2 [16,8] -> Add b2 -> y */
static void start_mlp(void)
{
    start(18);
    input("x", "4,8");
    build_weight(&build, "w1", SP_DTYPE_FLOAT, "8,16");
    build_weight(&build, "b1", SP_DTYPE_FLOAT, "16");
    build_weight(&build, "w2", SP_DTYPE_FLOAT, "16,8");
    build_weight(&build, "b2", SP_DTYPE_FLOAT, "8");
    up = build_node(&build, "MatMul", "x w1", "h");
    bias = build_node(&build, "Add", "h b1", "g");
    act = build_node(&build, "Relu", "g", "a");
    down = build_node(&build, "MatMul", "a w2", "p");
    last = build_node(&build, "Add", "p b2", "y");
    plan(2);
}

/* The layout of Megatron: a column-split and a row-split weight, one all-reduce. */
Test(infer_propagate, completes_an_mlp)
{
    start_mlp();
    given(up, "w1", "| 2", "0; 1");
    given(down, "w2", "2 |", "0; 1");
    propagate();
    EXPECT_SPEC(up, 0, "whole on devices 0, 1");
    EXPECT_SPEC(up, 2, "axis 1 in 2 on devices 0, 1");
    EXPECT_SPEC(bias, 1, "axis 0 in 2 on devices 0, 1");
    EXPECT_SPEC(act, 1, "axis 1 in 2 on devices 0, 1");
    EXPECT_SPEC(down, 0, "axis 1 in 2 on devices 0, 1");
    EXPECT_SPEC(down, 2, "whole on devices 0, 1");
    EXPECT_SPEC(last, 1, "whole on devices 0, 1");
    EXPECT_SPEC(last, 2, "whole on devices 0, 1");
    cr_expect_eq(count_communications("all-reduce"), 1);
    cr_expect_eq(count_communications(NULL), 1);
    cr_expect_eq(entry_of(up, 1)->origin, SP_SPEC_GIVEN);
    cr_expect_eq(entry_of(up, 0)->origin, SP_SPEC_ASSUMED);
    cr_expect_eq(entry_of(up, 2)->origin, SP_SPEC_INFERRED);
    cr_expect_not_null(strstr(entry_of(up, 2)->because, "'w1'"), "%s", entry_of(up, 2)->because);
    cr_expect_not_null(strstr(entry_of(up, 2)->because, "factor n"), "%s", entry_of(up, 2)->because);
    cr_expect_not_null(strstr(entry_of(down, 2)->because, "factor k"), "%s", entry_of(down, 2)->because);
}

/* One weight is enough: the other follows backward. */
Test(infer_propagate, goes_backward)
{
    start_mlp();
    given(down, "w2", "2 |", "0; 1");
    propagate();
    EXPECT_SPEC(up, 1, "axis 1 in 2 on devices 0, 1");
    EXPECT_SPEC(bias, 1, "axis 0 in 2 on devices 0, 1");
    cr_expect_eq(count_communications(NULL), 1);
}

/* A result that is stated split takes its part of the sum only. */
Test(infer_propagate, scatters_a_sum)
{
    start_mlp();
    given(down, "w2", "2 |", "0; 1");
    given(last, "y", "2 |", "0; 1");
    propagate();
    EXPECT_SPEC(down, 2, "axis 0 in 2 on devices 0, 1");
    EXPECT_SPEC(down, 0, "axis 1 in 2 on devices 0, 1");
    cr_expect_eq(count_communications("reduce-scatter"), 1);
    cr_expect_eq(count_communications("all-reduce"), 0);
}

/* Two stages on devices of their own share a mesh of positions. */
Test(infer_propagate, keeps_stages_on_their_devices)
{
    start_mlp();
    given(up, "w1", "| 2", "0; 1");
    given(down, "w2", "2 |", "2; 3");
    assignment->device_count = 4;
    propagate();
    EXPECT_SPEC(act, 1, "axis 1 in 2 on devices 0, 1");
    EXPECT_SPEC(down, 0, "axis 1 in 2 on devices 2, 3");
    EXPECT_SPEC(last, 2, "whole on devices 2, 3");
}

/* Data and tensor parallel: cuts of 4 devices at 2. */
Test(infer_propagate, refines_the_mesh)
{
    start_mlp();
    assignment->device_count = 4;
    given(up, "x", "2 |", "0 1; 2 3");
    given(up, "w1", "| 2", "0 2; 1 3");
    given(down, "w2", "2 |", "0 2; 1 3");
    propagate();
    EXPECT_SPEC(act, 0, "axis 0 in 2, axis 1 in 2 on devices 0..3");
    EXPECT_SPEC(last, 2, "axis 0 in 2 on devices {0, 1}, {2, 3}");
    cr_expect_eq(count_communications("all-reduce"), 1);
    cr_expect_eq(count_communications(NULL), 1);
}

Test(infer_propagate, refuses_cuts_without_a_mesh)
{
    start_mlp();
    assignment->device_count = 6;
    given(up, "x", "2 |", "0 1 2; 3 4 5"); /* cuts 6 positions at 3 */
    given(down, "w2", "2 |", "0 1 4; 2 3 5");
    cr_expect_eq(sp_infer_propagate(assignment, NULL, &build.err), SP_ERR_REQUEST);
    cr_expect_str_eq(build.err.code, "NO_COMMON_MESH", "%s", build.err.message);
}

Test(infer_propagate, refuses_sets_of_other_sizes)
{
    start_mlp();
    assignment->device_count = 4;
    given(up, "w1", "| 2", "0; 1");
    given(down, "w2", "4 |", "0; 1; 2; 3");
    cr_expect_eq(sp_infer_propagate(assignment, NULL, &build.err), SP_ERR_REQUEST);
    cr_expect_str_eq(build.err.code, "NO_COMMON_MESH", "%s", build.err.message);
    cr_expect_not_null(strstr(build.err.message, "'w1'"));
    cr_expect_not_null(strstr(build.err.message, "'w2'"));
}

/* Devices in an order of their own, the same in all specs. */
Test(infer_propagate, takes_any_order_of_devices)
{
    start_mlp();
    assignment->device_count = 4;
    given(up, "w1", "| 4", "2; 0; 3; 1");
    given(down, "w2", "4 |", "2; 0; 3; 1");
    propagate();
    EXPECT_SPEC(act, 1, "axis 1 in 4 on devices 2, 0, 3, 1");
    cr_expect_eq(count_communications(NULL), 1);
}

/* A mesh that is given names the axes. */
Test(infer_propagate, takes_a_mesh)
{
    struct sp_mesh *mesh;
    struct sp_mesh_axis axes[] = {{"data", 2}, {"tensor", 2}};
    start_mlp();
    assignment->device_count = 4;
    cr_assert_eq(sp_mesh_create(build.arena, 2, axes, NULL, &mesh, NULL), SP_OK);
    given(up, "w1", "| 2", "0 2; 1 3");
    cr_assert_eq(sp_infer_propagate(assignment, mesh, &build.err), SP_OK, "%s", build.err.message);
    const struct sp_sharding *found = entry_of(act, 1)->sharding;
    cr_expect_str_eq(refs_text(build.arena, found->mesh, &found->dims[1].axes), "tensor");
}

/* An axis that is searched in order is needed whole: the split ends there, and the input arrives by a reshard. */
Test(infer_propagate, makes_whole_what_an_operator_needs)
{
    int64_t axis = 1;
    start(18);
    input("x", "4,8");
    build_ints(&build, "axis", -1, &axis);
    struct sp_node *relu = build_node(&build, "Relu", "x", "h");
    struct sp_node *sum = build_node(&build, "CumSum", "h axis", "y");
    plan(2);
    given(relu, "x", "| 2", "0; 1");
    propagate();
    EXPECT_SPEC(relu, 1, "axis 1 in 2 on devices 0, 1");
    EXPECT_SPEC(sum, 0, "whole on devices 0, 1");
    EXPECT_SPEC(sum, 2, "whole on devices 0, 1");
    cr_assert_gt(assignment->stop_count, 0);
    cr_expect_str_eq(assignment->stops[0].code, "NEEDS_WHOLE_AXIS");
    cr_expect_eq(count_communications("all-gather"), 1);
    cr_expect_not_null(strstr(entry_of(sum, 0)->because, "needs it whole"), "%s", entry_of(sum, 0)->because);
}

/* Equal biases that an exporter shares do not tie the layers together. */
Test(infer_propagate, separates_uses_of_a_constant)
{
    start(18);
    input("x", "4,8");
    build_weight(&build, "w", SP_DTYPE_FLOAT, "8,8");
    build_weight(&build, "b", SP_DTYPE_FLOAT, "8");
    struct sp_node *first = build_node(&build, "MatMul", "x w", "h");
    struct sp_node *split = build_node(&build, "Add", "h b", "g");
    struct sp_node *other = build_node(&build, "Add", "x b", "y");
    plan(2);
    given(first, "w", "| 2", "0; 1");
    propagate();
    EXPECT_SPEC(split, 1, "axis 0 in 2 on devices 0, 1");
    EXPECT_SPEC(other, 1, "whole on devices 0, 1");
    EXPECT_SPEC(other, 2, "whole on devices 0, 1");
}

/* Shardings of one mesh, some of whose axes are open or have a priority. */
static struct sp_sharding *set_axes(const struct sp_node *node, const char *name, const struct sp_mesh *mesh,
                                    const char *dims)
{
    struct sp_sharding *sharding = build_axes(build.arena, mesh, dims);
    specify(node, name, sharding, SP_SPEC_SET);
    return sharding;
}

/* Only an axis that is left open is split further where it is set. */
Test(infer_propagate, splits_what_is_set_and_open)
{
    start(18);
    input("x", "8,8");
    const struct sp_node *first = build_node(&build, "Relu", "x", "h");
    const struct sp_node *second = build_node(&build, "Relu", "h", "y");
    plan(4);
    const struct sp_mesh *mesh = build_mesh(build.arena, "a=2 b=2", NULL);
    set_axes(first, "x", mesh, "a | b");
    set_axes(second, "h", mesh, "a |")->dims[1].is_open = true;
    propagate();
    EXPECT_SPEC(second, 0, "axis 0 in 2, axis 1 in 2 on devices 0..3");
    EXPECT_SPEC(second, 1, "axis 0 in 2, axis 1 in 2 on devices 0..3");
    stop();
    start(18);
    input("x", "8,8");
    first = build_node(&build, "Relu", "x", "h");
    second = build_node(&build, "Relu", "h", "y");
    plan(4);
    mesh = build_mesh(build.arena, "a=2 b=2", NULL);
    set_axes(first, "x", mesh, "a | b");
    set_axes(first, "h", mesh, "a |");
    propagate();
    EXPECT_SPEC(first, 1, "axis 0 in 2 on devices {0, 1}, {2, 3}");
}

/* Of two splits that contradict each other the one with the stronger priority is carried, whichever comes first; and an
   axis that is explicitly replicated is not used. */
Test(infer_propagate, follows_priorities)
{
    for (int strong = 0; strong < 2; strong++) {
        start(18);
        input("x", "8,8");
        input("z", "8,8");
        const struct sp_node *sum = build_node(&build, "Add", "x z", "y");
        plan(4);
        const struct sp_mesh *mesh = build_mesh(build.arena, "a=2 b=2", NULL);
        struct sp_sharding *x = set_axes(sum, "x", mesh, "a |"), *z = set_axes(sum, "z", mesh, "b |");
        x->dims[0].has_priority = z->dims[0].has_priority = true;
        x->dims[0].priority = strong;
        z->dims[0].priority = 1 - strong;
        propagate();
        EXPECT_SPEC(sum, 2,
                    strong == 0 ? "axis 0 in 2 on devices {0, 1}, {2, 3}" : "axis 0 in 2 on devices {0, 2}, {1, 3}");
        stop();
    }
    start(18);
    input("x", "8,8");
    const struct sp_node *relu = build_node(&build, "Relu", "x", "y");
    plan(4);
    const struct sp_mesh *mesh = build_mesh(build.arena, "a=2 b=2", NULL);
    set_axes(relu, "x", mesh, "a | b");
    struct sp_sharding *y = set_axes(relu, "y", mesh, "|");
    y->dims[0].is_open = y->dims[1].is_open = true;
    y->replicated = build_refs(build.arena, mesh, "b");
    cr_assert_eq(sp_infer_propagate(assignment, mesh, &build.err), SP_OK, "%s", build.err.message);
    EXPECT_SPEC(relu, 1, "axis 0 in 2 on devices {0, 1}, {2, 3}");
}

static void set(const struct sp_node *node, const char *name, const char *dims, const char *placement)
{
    specify(node, name, build_blocks(build.arena, dims, placement), SP_SPEC_SET);
}

/* y = x z with one axis of the mesh on rows of x and on columns of z. */
static const struct sp_node *multiply(const char *x, const char *z)
{
    start(18);
    input("x", x);
    input("z", z);
    const struct sp_node *product = build_node(&build, "MatMul", "x z", "y");
    plan(2);
    set(product, "x", "2 |", "0; 1");
    set(product, "z", "| 2", "0; 1");
    return product;
}

/* Of two inputs that are set against each other, the one arrives by a reshard that is smaller. */
Test(infer_propagate, moves_the_smaller_operand)
{
    const struct sp_node *product = multiply("4,8", "8,64");
    propagate();
    EXPECT_SPEC(product, 0, "whole on devices 0, 1");
    EXPECT_SPEC(product, 1, "axis 1 in 2 on devices 0, 1");
    EXPECT_SPEC(product, 2, "axis 1 in 2 on devices 0, 1");
    stop();
    product = multiply("64,8", "8,4");
    propagate();
    EXPECT_SPEC(product, 0, "axis 0 in 2 on devices 0, 1");
    EXPECT_SPEC(product, 1, "whole on devices 0, 1");
    EXPECT_SPEC(product, 2, "axis 0 in 2 on devices 0, 1");
}

/* A result that is set against its inputs is made as it is set where that moves less than moving the result. */
Test(infer_propagate, weighs_inputs_against_the_result)
{
    start(18);
    input("x", "64,2");
    input("z", "2,64");
    const struct sp_node *product = build_node(&build, "MatMul", "x z", "y");
    plan(2);
    set(product, "x", "2 |", "0; 1");
    set(product, "y", "| 2", "0; 1");
    propagate();
    EXPECT_SPEC(product, 0, "whole on devices 0, 1");
    EXPECT_SPEC(product, 1, "axis 1 in 2 on devices 0, 1");
    stop();
    start(18);
    input("x", "2,64");
    input("z", "64,2");
    product = build_node(&build, "MatMul", "x z", "y");
    plan(2);
    set(product, "x", "2 |", "0; 1");
    set(product, "z", "|", "0 1");
    set(product, "y", "| 2", "0; 1");
    propagate();
    EXPECT_SPEC(product, 0, "axis 0 in 2 on devices 0, 1");
    EXPECT_SPEC(product, 1, "whole on devices 0, 1");
}

/* Tensors are weighed as a whole, also where an axis of theirs is looked at in parts: here as heads. */
Test(infer_propagate, weighs_all_parts_of_an_axis)
{
    start(18);
    input("x", "4,8");
    build_weight(&build, "w", SP_DTYPE_FLOAT, "8,128");
    build_ints(&build, "heads", 3, (int64_t[]){4, 2, 64});
    const struct sp_node *relu = build_node(&build, "Relu", "x", "h");
    const struct sp_node *product = build_node(&build, "MatMul", "h w", "y");
    build_node(&build, "Reshape", "y heads", "z");
    plan(2);
    set(relu, "x", "| 2", "0; 1");
    set(product, "w", "| 2", "0; 1");
    propagate();
    EXPECT_SPEC(relu, 1, "axis 1 in 2 on devices 0, 1");
    EXPECT_SPEC(product, 0, "whole on devices 0, 1");
    EXPECT_SPEC(product, 1, "axis 1 in 2 on devices 0, 1");
}

/* A use that is stated otherwise than its tensor stays as it is, and the tensor as well. */
Test(infer_propagate, keeps_what_is_stated)
{
    start_mlp();
    given(bias, "g", "| 2", "0; 1");
    given(act, "g", "2 |", "0; 1");
    propagate();
    EXPECT_SPEC(bias, 2, "axis 1 in 2 on devices 0, 1");
    EXPECT_SPEC(act, 0, "axis 0 in 2 on devices 0, 1");
    EXPECT_SPEC(act, 1, "axis 0 in 2 on devices 0, 1");
    EXPECT_SPEC(up, 1, "axis 1 in 2 on devices 0, 1");
    cr_expect_eq(count_communications("all-to-all"), 1);
}

Test(infer_propagate, leaves_alone_what_nothing_is_said_of)
{
    start_mlp();
    propagate();
    cr_expect_eq(entry_of(up, 0)->origin, SP_SPEC_NONE);
    cr_expect_null(entry_of(up, 0)->sharding);
}

/* ---- splits that are not contiguous ---- */

static struct sp_node *fused, *fused_bias, *parts, *heads, *scores;

/* x [6,8] -> MatMul w [8,24] -> Add b -> Split in q, k, v [6,8] -> q by heads [6,4,2], moved; scores q k */
static void start_fused(void)
{
    start(18);
    input("x", "6,8");
    build_weight(&build, "w", SP_DTYPE_FLOAT, "8,24");
    build_weight(&build, "b", SP_DTYPE_FLOAT, "24");
    build_ints(&build, "by_heads", 3, (int64_t[]){6, 4, 2});
    fused = build_node(&build, "MatMul", "x w", "h");
    fused_bias = build_node(&build, "Add", "h b", "g");
    parts = build_node(&build, "Split", "g", "q k v");
    build_attr_int(&build, parts, "axis", 1);
    build_attr_int(&build, parts, "num_outputs", 3);
    heads = build_node(&build, "Reshape", "q by_heads", "qh");
    struct sp_node *moved = build_node(&build, "Transpose", "qh", "qm");
    build_attr_ints(&build, moved, "perm", 3, (int64_t[]){1, 0, 2});
    build_node(&build, "Reshape", "k by_heads", "kh");
    struct sp_node *turned = build_node(&build, "Transpose", "kh", "km");
    build_attr_ints(&build, turned, "perm", 3, (int64_t[]){1, 2, 0});
    scores = build_node(&build, "MatMul", "qm km", "s");
    plan(2);
}

static void expect_no_conflicts(void)
{
    for (uint32_t n = 0; n < dataflow->node_count; n++)
        cr_expect_str_eq(conflicts_text(dataflow->nodes[n]), "", "%s: %s", dataflow->nodes[n]->name,
                         conflicts_text(dataflow->nodes[n]));
}

/* Each of three parts in two: every head is on one device, and nothing is communicated. */
Test(infer_propagate, carries_parts_that_are_split_each)
{
    start_fused();
    given(fused, "w", "| 3*1,8*2", "0; 1");
    propagate();
    EXPECT_SPEC(fused, 2, "axis 1 as {3 in 1} * {8 in 2} on devices 0, 1");
    EXPECT_SPEC(fused_bias, 1, "axis 0 as {3 in 1} * {8 in 2} on devices 0, 1");
    EXPECT_SPEC(parts, 1, "axis 1 in 2 on devices 0, 1");
    EXPECT_SPEC(heads, 2, "axis 1 in 2 on devices 0, 1");
    EXPECT_SPEC(scores, 0, "axis 0 in 2 on devices 0, 1");
    EXPECT_SPEC(scores, 2, "axis 0 in 2 on devices 0, 1");
    cr_expect_eq(count_communications(NULL), 0);
    cr_expect_eq(entry_of(fused, 1)->origin, SP_SPEC_GIVEN);
    cr_expect_not_null(strstr(entry_of(fused_bias, 1)->because, "factor d1"), "%s", entry_of(fused_bias, 1)->because);
    expect_no_conflicts();
}

/* The same in devices that are named again and again, as ONNX Runtime writes it. */
Test(infer_propagate, carries_repeated_devices)
{
    start_fused();
    given(fused, "w", "| 6", "0; 1; 0; 1; 0; 1");
    propagate();
    EXPECT_SPEC(fused, 2, "axis 1 as {3 in 1} * {8 in 2} on devices 0, 1");
    EXPECT_SPEC(scores, 0, "axis 0 in 2 on devices 0, 1");
    cr_expect_eq(count_communications(NULL), 0);
    expect_no_conflicts();
}

/* Backward from the heads of the scores. */
Test(infer_propagate, finds_parts_that_are_split_each)
{
    start_fused();
    given(scores, "qm", "2 | |", "0; 1");
    propagate();
    EXPECT_SPEC(fused, 1, "axis 1 as {3 in 1} * {8 in 2} on devices 0, 1");
    EXPECT_SPEC(fused_bias, 0, "axis 1 as {3 in 1} * {8 in 2} on devices 0, 1");
    cr_expect_eq(count_communications(NULL), 0);
    cr_expect_eq(assignment->stop_count, 0);
    expect_no_conflicts();
}

/* A contiguous split of the three goes as far as before: to the operator that needs its parts whole. */
Test(infer_propagate, stops_contiguous_splits_of_parts)
{
    start_fused();
    given(fused, "w", "| 2", "0; 1");
    propagate();
    EXPECT_SPEC(fused_bias, 2, "axis 1 in 2 on devices 0, 1");
    EXPECT_SPEC(parts, 0, "whole on devices 0, 1");
    EXPECT_SPEC(scores, 0, "whole on devices 0, 1");
    cr_expect_eq(count_communications("all-gather"), 1);
    cr_expect_eq(count_communications(NULL), 1);
    expect_no_conflicts();
}

/* Parts that the operators do not see: carried as far as every loop is cut so. */
Test(infer_propagate, stops_parts_that_do_not_line_up)
{
    start_fused();
    given(fused, "w", "| 4*1,6*2", "0; 1");
    propagate();
    EXPECT_SPEC(fused, 2, "axis 1 as {4 in 1} * {6 in 2} on devices 0, 1");
    EXPECT_SPEC(scores, 0, "whole on devices 0, 1");
    expect_no_conflicts();
}

/* Parts whose shards are not even are kept where they are stated, and not carried. */
Test(infer_propagate, keeps_uneven_parts)
{
    start_fused();
    given(fused, "w", "| 8*1,3*2", "0; 1");
    propagate();
    EXPECT_SPEC(fused, 1, "axis 1 as {8 in 1} * {3 in 2} on devices 0, 1");
    EXPECT_SPEC(scores, 0, "whole on devices 0, 1");
}

/* Heads of every item of a batch as one axis, as torch's attention exports them. */
Test(infer_propagate, splits_heads_that_are_merged_with_the_batch)
{
    start(18);
    input("x", "5,2,12");
    build_ints(&build, "merged", 3, (int64_t[]){5, 8, 3});
    build_ints(&build, "apart", 2, (int64_t[]){10, 12});
    build_weight(&build, "w", SP_DTYPE_FLOAT, "12,7");
    struct sp_node *merge = build_node(&build, "Reshape", "x merged", "m");
    struct sp_node *moved = build_node(&build, "Transpose", "m", "t");
    build_attr_ints(&build, moved, "perm", 3, (int64_t[]){1, 0, 2});
    struct sp_node *soft = build_node(&build, "Softmax", "t", "p");
    struct sp_node *back = build_node(&build, "Transpose", "p", "u");
    build_attr_ints(&build, back, "perm", 3, (int64_t[]){1, 0, 2});
    build_node(&build, "Reshape", "u apart", "a");
    struct sp_node *out = build_node(&build, "MatMul", "a w", "y");
    plan(2);
    given(out, "w", "2 |", "0; 1");
    propagate();
    EXPECT_SPEC(soft, 1, "axis 0 as {2 in 1} * {4 in 2} on devices 0, 1");
    EXPECT_SPEC(merge, 0, "axis 2 in 2 on devices 0, 1");
    EXPECT_SPEC(out, 2, "whole on devices 0, 1");
    cr_expect_eq(count_communications("all-reduce"), 1);
    cr_expect_eq(count_communications(NULL), 1);
    expect_no_conflicts();
}

/* Without extents nothing says how an axis is cut: the spec is left as it is, and the stop says so. */
Test(infer_propagate, leaves_parts_of_unknown_extents)
{
    start(18);
    input("x", "n,8");
    struct sp_node *relu = build_node(&build, "Relu", "x", "h");
    plan(2);
    given(relu, "x", "3*1,0*2 |", "0; 1");
    propagate();
    cr_expect_eq(assignment->stop_count, 1);
    cr_expect_str_eq(assignment->stops[0].code, "NO_MESH_FORM");
}

/* A part of one element in two shards, one of them empty, is no piece of an axis. */
Test(infer_propagate, leaves_parts_of_one_element)
{
    start_fused();
    given(fused, "w", "| 24*1,1*2", "0; 1");
    propagate();
    cr_expect_eq(assignment->stop_count, 1);
    cr_expect_str_eq(assignment->stops[0].code, "NO_MESH_FORM");
    EXPECT_SPEC(fused, 1, "axis 1 as {24 in 1} * {1 in 2} on devices 0, 1");
}

/* ---- shares of unequal size ---- */

/* Device 0 has three blocks of four: carried like four shards, and whole where another part of an axis would be in
   pieces. */
Test(infer_propagate, carries_shares)
{
    start(18);
    input("x", "6,8");
    build_weight(&build, "w", SP_DTYPE_FLOAT, "8,16");
    build_weight(&build, "v", SP_DTYPE_FLOAT, "16,6");
    up = build_node(&build, "MatMul", "x w", "h");
    struct sp_node *relu = build_node(&build, "Relu", "h", "r");
    down = build_node(&build, "MatMul", "r v", "y");
    plan(2);
    given(up, "w", "| 4", "0; 0; 0; 1");
    propagate();
    EXPECT_SPEC(up, 2, "axis 1 in 4 on devices 0, 0, 0, 1");
    EXPECT_SPEC(relu, 1, "axis 1 in 4 on devices 0, 0, 0, 1");
    EXPECT_SPEC(down, 1, "axis 0 in 4 on devices 0, 0, 0, 1");
    EXPECT_SPEC(down, 2, "whole on devices 0, 1");
    cr_expect_eq(count_communications("all-reduce"), 1);
    cr_expect_eq(count_communications(NULL), 1);
    expect_no_conflicts();
}

/* Beside shards on two devices, four of which three are on one do not fit the mesh: they stay what they are. */
Test(infer_propagate, leaves_shares_beside_equal_shards)
{
    start(18);
    input("x", "6,8");
    build_weight(&build, "w", SP_DTYPE_FLOAT, "8,16");
    up = build_node(&build, "MatMul", "x w", "h");
    struct sp_node *relu = build_node(&build, "Relu", "h", "r");
    plan(2);
    given(up, "w", "| 4", "0; 0; 0; 1");
    given(relu, "r", "2 |", "0; 1");
    propagate();
    cr_expect_eq(assignment->stop_count, 1);
    cr_expect_str_eq(assignment->stops[0].code, "NO_MESH_FORM");
    EXPECT_SPEC(relu, 0, "axis 0 in 2 on devices 0, 1");
}

/* ---- stated specs that cannot go together ---- */

/* Rows and columns on the same devices: no device has all of a column's parts; the result follows the first. */
Test(infer_propagate, uses_devices_for_one_loop)
{
    start_mlp();
    given(up, "x", "2 |", "0; 1");
    given(up, "w1", "| 2", "0; 1");
    propagate();
    EXPECT_SPEC(up, 2, "axis 0 in 2 on devices 0, 1");
}

/* On six devices in a row, halves and every second one: no grid cuts the row for both. */
Test(infer_propagate, uses_parts_of_a_mesh_that_one_grid_cuts)
{
    struct sp_mesh *mesh;
    struct sp_mesh_axis axis = {"t", 6};
    start_mlp();
    assignment->device_count = 6;
    cr_assert_eq(sp_mesh_create(build.arena, 1, &axis, NULL, &mesh, NULL), SP_OK);
    given(up, "x", "2 |", "0 1 2; 3 4 5");
    given(up, "w1", "| 2", "0 2 4; 1 3 5");
    cr_assert_eq(sp_infer_propagate(assignment, mesh, &build.err), SP_OK, "%s", build.err.message);
    EXPECT_SPEC(up, 2, "axis 0 in 2 on devices {0..2}, {3..5}");
}

/* Layers alike share their shardings, and a tensor its reason. */
Test(infer_propagate, keeps_what_is_equal_once)
{
    start_mlp();
    given(up, "w1", "| 2", "0; 1");
    given(down, "w2", "2 |", "0; 1");
    propagate();
    cr_expect_eq(entry_of(act, 0)->sharding, entry_of(act, 1)->sharding);
    cr_expect_eq(entry_of(act, 1)->sharding, entry_of(down, 0)->sharding);
    cr_expect_eq(entry_of(act, 1)->because, entry_of(down, 0)->because);
    cr_expect_neq(entry_of(act, 0)->because, entry_of(act, 1)->because);
}

/* One rule fills what may be kept but for 6 units: room for one of two factors, two operands and two axes that both
   share. */
static void fill_rules(void)
{
    uint64_t most = SP_FREE_RULE_UNITS + build.model->size / SP_RULE_UNIT_BYTES;
    struct sp_rule rule = {.input_count = (uint32_t)(most - 6)}, *kept = NULL;
    rule.inputs = SP_NEW_ARRAY(build.arena, rule.input_count, struct sp_operand_rule);
    cr_assert_eq(sp_rules_keep(sp_dataflow_rules(dataflow), &rule, &kept, &build.err), SP_OK);
    cr_assert_not_null(kept);
}

Test(infer_propagate, leaves_out_rules_beyond_the_limit)
{
    start(18);
    input("x", "8,4");
    struct sp_node *first = build_node(&build, "Relu", "x", "y"), *other = build_node(&build, "Transpose", "x", "t");
    struct sp_node *third = build_node(&build, "Abs", "y", "z");
    plan(2);
    fill_rules();
    given(first, "x", "2 |", "0; 1");
    propagate();
    cr_assert_eq(assignment->stop_count, 1);
    cr_expect_str_eq(assignment->stops[0].code, "TOO_LARGE");
    cr_expect_eq(assignment->stops[0].node, other);
    cr_expect_null(entry_of(other, 1)->sharding);
    EXPECT_SPEC(third, 1, "axis 0 in 2 on devices 0, 1"); /* its rule is the first node's */
    cr_expect_eq(count_communications(NULL), 0);
}
