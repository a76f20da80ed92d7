#include <stdio.h>

#include "expect_view.h"
#include "infer/forward.h"

TestSuite(communication, .fini = stop);

/* "REDUCE Y all-reduce 2 512/1024; ..": kind, tensor, steps, devices of a group, bytes of the busiest device and of
 * all. */
static const char *communications(void)
{
    static const char *const kinds[] = {"RESHARD", "REDUCE", "HALO", "GATHER", "PERMUTE"};
    struct sp_communications list = {0};
    const char *text = "";
    cr_assert_eq(sp_assignment_communications(assignment, &list, &build.err), SP_OK, "%s", build.err.message);
    for (uint32_t i = 0; i < list.count; i++) {
        const struct sp_communication *item = &list.items[i];
        cr_expect(item->because && item->because[0] != '\0' && item->node);
        text = sp_arena_printf(build.arena, "%s%s%s %s %s %lld %g/%g", text, i > 0 ? "; " : "", kinds[item->kind],
                               item->tensor, item->steps, (long long)item->group_size, item->bytes, item->total_bytes);
    }
    return text;
}

static void forward(void)
{
    cr_assert_eq(sp_infer_forward(assignment, &build.err), SP_OK, "%s", build.err.message);
    cr_expect_eq(assignment->stop_count, 0, "%s", assignment->stop_count > 0 ? assignment->stops[0].message : "");
}

#define EXPECT_COMMUNICATIONS(text) cr_expect_str_eq(communications(), text, "%s", communications())

static struct sp_node *matmul(void)
{
    start(18);
    input("A", "4,8");
    input("B", "8,4");
    struct sp_node *node = build_node(&build, "MatMul", "A B", "Y");
    plan(4);
    return node;
}

/* The bytes are the formulas of collective_cost.h: Y is 4 * 4 floats, 64 bytes; 2 (p-1)/p n = 64, (p-1)/p n = 32. */
Test(communication, reduces_a_split_reduction)
{
    struct sp_node *node = matmul();
    given(node, "A", "| 2", "0; 1");
    given(node, "B", "2 |", "0; 1");
    forward();
    EXPECT_COMMUNICATIONS("REDUCE Y all-reduce 2 64/128");
}

Test(communication, scatters_where_the_output_is_split)
{
    struct sp_node *node = matmul();
    given(node, "A", "| 2", "0; 1");
    given(node, "B", "2 |", "0; 1");
    given(node, "Y", "2 |", "0; 1");
    forward();
    EXPECT_COMMUNICATIONS("REDUCE Y reduce-scatter 2 32/64");
}

/* Split over m as well: in each half of m, two devices reduce and scatter 2 * 4 floats. */
Test(communication, scatters_within_groups)
{
    struct sp_node *node = matmul();
    given(node, "A", "2 | 2", "0; 1; 2; 3");
    given(node, "B", "2 |", "0 2; 1 3");
    given(node, "Y", "2 | 2", "0; 1; 2; 3");
    forward();
    EXPECT_COMMUNICATIONS("REDUCE Y reduce-scatter 2 16/64");
    given(node, "Y", "4 |", "0; 1; 2; 3");
    EXPECT_COMMUNICATIONS("REDUCE Y reduce-scatter 2 16/64");
    given(node, "Y", "2 |", "0 1; 2 3");
    EXPECT_COMMUNICATIONS("REDUCE Y all-reduce 2 32/128");
}

Test(communication, needs_none_for_free_axes)
{
    struct sp_node *node = matmul();
    given(node, "A", "4 |", "0; 1; 2; 3");
    forward();
    EXPECT_COMMUNICATIONS("");
    cr_expect_str_eq(spec_text(sp_spec_of(assignment, 0, 2)->sharding), "axis 0 in 4 on devices 0..3");
    cr_expect_eq(sp_spec_of(assignment, 0, 1)->origin, SP_SPEC_ASSUMED);
}

Test(communication, reduces_an_axis)
{
    start(18);
    input("X", "8,4");
    build_ints(&build, "axes", 1, (int64_t[]){0});
    struct sp_node *node = build_node(&build, "ReduceMax", "X axes", "Y");
    plan(2);
    given(node, "X", "2 |", "0; 1");
    forward();
    EXPECT_COMMUNICATIONS("REDUCE Y all-reduce 2 16/32"); /* [1, 4] floats */
}

/* A stated spec of the consumer against the producer's: gathered halves of 4 * 4 floats. */
Test(communication, reshards_between_nodes)
{
    start(18);
    input("X", "4,4");
    struct sp_node *first = build_node(&build, "Relu", "X", "H");
    struct sp_node *second = build_node(&build, "Relu", "H", "Y");
    plan(2);
    given(first, "X", "2 |", "0; 1");
    given(second, "H", "|", "0 1");
    forward();
    EXPECT_COMMUNICATIONS("RESHARD H all-gather 2 32/64");
    given(second, "H", "| 2", "0; 1");
    given(second, "Y", "| 2", "0; 1");
    EXPECT_COMMUNICATIONS("RESHARD H all-to-all 2 16/32");
}

/* Softmax over a split axis joins a maximum and a sum for each of 8 rows: 64 bytes, all-reduced among 2. */
Test(communication, joins_statistics)
{
    start(18);
    input("X", "8,4");
    struct sp_node *node = build_node(&build, "Softmax", "X", "Y");
    plan(2);
    given(node, "X", "| 2", "0; 1");
    forward();
    EXPECT_COMMUNICATIONS("REDUCE Y all-reduce 2 64/128");
}

/* A convolution of 3 taps needs one row of [1, 3, 8, 8] floats from each side: 3 * 8 * 4 = 96 bytes. */
Test(communication, exchanges_borders)
{
    start(18);
    input("X", "1,3,8,8");
    input("W", "4,3,3,3");
    struct sp_node *node = build_node(&build, "Conv", "X W", "Y");
    build_attr_ints(&build, node, "pads", 4, (int64_t[]){1, 1, 1, 1});
    plan(4);
    given(node, "X", "| | 2 |", "0; 1");
    forward();
    EXPECT_COMMUNICATIONS("HALO X halo-exchange 2 96/192");
    given(node, "X", "| | 4 |", "0; 1; 2; 3");
    given(node, "Y", "| | 4 |", "0; 1; 2; 3");
    EXPECT_COMMUNICATIONS("HALO X halo-exchange 4 192/576");
}

/* The running sum needs its axis whole: each device gathers the other half, 4 * 4 floats. */
Test(communication, gathers_what_is_needed_whole)
{
    start(18);
    input("X", "8,4");
    build_ints(&build, "axis", -1, (int64_t[]){0});
    struct sp_node *node = build_node(&build, "CumSum", "X axis", "Y");
    plan(2);
    given(node, "X", "2 |", "0; 1");
    cr_assert_eq(sp_infer_forward(assignment, &build.err), SP_OK);
    EXPECT_COMMUNICATIONS("GATHER X all-gather 2 64/128");
}

/* ---- Megatron (Shoeybi and others 2019): one all-reduce for each of the two parts of a layer ----------------------
 */

Test(communication, megatron_mlp)
{
    start(18);
    input("X", "8,16");
    build_weight(&build, "W1", SP_DTYPE_FLOAT, "16,64");
    build_weight(&build, "W2", SP_DTYPE_FLOAT, "64,16");
    struct sp_node *up = build_node(&build, "MatMul", "X W1", "H");
    (void)build_node(&build, "Relu", "H", "A");
    struct sp_node *down = build_node(&build, "MatMul", "A W2", "Y");
    (void)build_node(&build, "Add", "X Y", "Z");
    plan(4);
    given(up, "W1", "| 4", "0; 1; 2; 3");
    given(down, "W2", "4 |", "0; 1; 2; 3");
    forward();
    EXPECT_COMMUNICATIONS("REDUCE Y all-reduce 4 768/3072"); /* 2 * 3/4 * 8 * 16 * 4 */
}

Test(communication, megatron_attention)
{
    static const char *const names[] = {"Q", "K", "V"};
    start(18);
    input("X", "2,8,16");
    build_weight(&build, "WO", SP_DTYPE_FLOAT, "16,16");
    build_ints(&build, "heads", 4, (int64_t[]){2, 8, 4, 4});
    build_ints(&build, "flat", 3, (int64_t[]){2, 8, 16});
    struct sp_node *projections[3];
    for (int i = 0; i < 3; i++) {
        char weight[16], inputs[32], linear[16], split[32], heads[16], moved[16];
        (void)snprintf(weight, sizeof weight, "W%s", names[i]);
        (void)snprintf(inputs, sizeof inputs, "X %s", weight);
        (void)snprintf(linear, sizeof linear, "L%s", names[i]);
        (void)snprintf(split, sizeof split, "%s heads", linear);
        (void)snprintf(heads, sizeof heads, "H%s", names[i]);
        (void)snprintf(moved, sizeof moved, "T%s", names[i]);
        build_weight(&build, weight, SP_DTYPE_FLOAT, "16,16");
        projections[i] = build_node(&build, "MatMul", inputs, linear);
        (void)build_node(&build, "Reshape", split, heads);
        struct sp_node *move = build_node(&build, "Transpose", heads, moved);
        build_attr_ints(&build, move, "perm", 4, i == 1 ? (int64_t[]){0, 2, 3, 1} : (int64_t[]){0, 2, 1, 3});
    }
    (void)build_node(&build, "MatMul", "TQ TK", "S");
    (void)build_node(&build, "Softmax", "S", "P");
    (void)build_node(&build, "MatMul", "P TV", "C");
    struct sp_node *back = build_node(&build, "Transpose", "C", "D");
    build_attr_ints(&build, back, "perm", 4, (int64_t[]){0, 2, 1, 3});
    (void)build_node(&build, "Reshape", "D flat", "E");
    struct sp_node *out = build_node(&build, "MatMul", "E WO", "Y");
    plan(4);
    for (int i = 0; i < 3; i++)
        given(projections[i], projections[i]->inputs[1]->name, "| 4", "0; 1; 2; 3");
    given(out, "WO", "4 |", "0; 1; 2; 3");
    forward();
    EXPECT_COMMUNICATIONS("REDUCE Y all-reduce 4 1536/6144"); /* 2 * 3/4 * 2 * 8 * 16 * 4 */
}

/* Column split, gathered, column split: what Megatron avoids. */
Test(communication, a_gather_where_the_consumer_wants_it_whole)
{
    start(18);
    input("X", "8,16");
    build_weight(&build, "W1", SP_DTYPE_FLOAT, "16,64");
    build_weight(&build, "W2", SP_DTYPE_FLOAT, "64,16");
    struct sp_node *up = build_node(&build, "MatMul", "X W1", "H");
    struct sp_node *down = build_node(&build, "MatMul", "H W2", "Y");
    plan(4);
    given(up, "W1", "| 4", "0; 1; 2; 3");
    given(down, "H", "|", "0 1 2 3");
    given(down, "W2", "| 4", "0; 1; 2; 3");
    forward();
    EXPECT_COMMUNICATIONS("RESHARD H all-gather 4 1536/6144"); /* 3/4 * 8 * 64 * 4 */
}
