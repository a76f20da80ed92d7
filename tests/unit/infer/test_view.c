#include "base/limits.h"
#include "expect_view.h"

TestSuite(view, .fini = stop);

static struct sp_node *model(const char *op_type, const char *inputs, const char *outputs, int64_t devices)
{
    struct sp_node *node = build_node(&build, op_type, inputs, outputs);
    plan(devices);
    return node;
}

static struct sp_node *binary(const char *op_type, const char *a, const char *b, int64_t devices)
{
    start(18);
    input("A", a);
    input("B", b);
    return model(op_type, "A B", "Y", devices);
}

/* ---- proposal 0007 ---------------------------------------------------------------------------------------------- */

/* Its example of composition: A [M,1] on groups {0,1}, {2,3}, B [1,N] on {0,2}, {1,3}. */
Test(view, composes_broadcasts)
{
    struct sp_node *add = binary("Add", "4,1", "1,4", 4);
    given(add, "A", "2 |", "0 1; 2 3");
    given(add, "B", "| 2", "0 2; 1 3");
    EXPECT_CONFLICTS(add, "");
    EXPECT_RESULT(add, 0, "axis 0 in 2, axis 1 in 2 on devices 0..3");
}

/* Its example of a conflict: A split on axis 0, B on axis 1; each axis of one is whole in the other. */
Test(view, refuses_different_axes)
{
    struct sp_node *add = binary("Add", "4,4", "4,4", 2);
    given(add, "A", "2 |", "0; 1");
    given(add, "B", "| 2", "0; 1");
    struct sp_view *view = view_of(add);
    EXPECT_CONFLICTS(add, "SPLIT");
    cr_expect_null(view->results[0]);
    cr_expect_str_eq(view->conflicts[0].message,
                     "Node 0 (Add) takes 'A' (axis 0 in 2 on devices 0, 1) and 'B' (axis 1 in 2 on devices 0, 1), but "
                     "axis 0 of the first and axis 0 of the second are the same loop (d0): the second must be cut in "
                     "the same way.");
}

Test(view, refuses_disjoint_devices)
{
    struct sp_node *add = binary("Add", "4,1", "1,4", 4);
    given(add, "A", "2 |", "0; 1");
    given(add, "B", "| 2", "2; 3");
    EXPECT_CONFLICTS(add, "COVERAGE");
    EXPECT_RESULT(add, 0, "without a sharding");
}

Test(view, refuses_different_cuts_of_a_reduction)
{
    struct sp_node *matmul = binary("MatMul", "4,8", "8,4", 4);
    given(matmul, "A", "| 2", "0 1; 2 3");
    given(matmul, "B", "4 |", "0; 1; 2; 3");
    EXPECT_CONFLICTS(matmul, "SPLIT");
}

Test(view, reduces_to_all)
{
    struct sp_node *matmul = binary("MatMul", "4,8", "8,4", 2);
    given(matmul, "A", "| 2", "0; 1");
    given(matmul, "B", "2 |", "0; 1");
    EXPECT_CONFLICTS(matmul, "");
    EXPECT_RESULT(matmul, 0, "whole on devices 0, 1");
    cr_expect(view_of(matmul)->is_partial[0]);
}

/* A broadcast axis must be on every device of the node. */
Test(view, wants_broadcast_operands_everywhere)
{
    struct sp_node *add = binary("Add", "4,4", "1,4", 2);
    given(add, "A", "2 |", "0; 1");
    given(add, "B", "|", "0");
    EXPECT_CONFLICTS(add, "DEVICES");
    cr_expect_eq(view_of(add)->conflicts[0].operand, 1);
    cr_expect_eq(view_of(add)->conflicts[0].device, 1);
}

/* Of an operand that only names a type nothing is asked. */
Test(view, passes_over_what_is_not_read)
{
    struct sp_node *cast = binary("CastLike", "4,4", "8", 4);
    given(cast, "A", "2 |", "0; 1");
    given(cast, "B", "4", "0; 1; 2; 3");
    EXPECT_CONFLICTS(cast, "");
    EXPECT_RESULT(cast, 0, "axis 0 in 2 on devices 0, 1");
}

/* And it must not be split there: it has one element. */
Test(view, refuses_a_split_broadcast_axis)
{
    struct sp_node *add = binary("Add", "4,4", "1,4", 2);
    given(add, "A", "2 |", "0; 1");
    given(add, "B", "2 |", "0; 1");
    EXPECT_CONFLICTS(add, "NEEDS_WHOLE");
}

/* Reductions: what is not reduced is inherited; a split reduced axis leaves the result on all. */
Test(view, reduces_axes)
{
    start(18);
    input("X", "8,4");
    build_ints(&build, "axes", 1, (int64_t[]){1});
    struct sp_node *sum = model("ReduceSum", "X axes", "Y", 4);
    given(sum, "X", "2 | 2", "0; 1; 2; 3");
    EXPECT_CONFLICTS(sum, "");
    EXPECT_RESULT(sum, 0, "axis 0 in 2 on devices {0, 1}, {2, 3}");
    cr_expect(view_of(sum)->is_partial[0]);
    given(sum, "X", "4 |", "3; 2; 1; 0");
    EXPECT_RESULT(sum, 0, "axis 0 in 4 on devices 3, 2, 1, 0");
    cr_expect_not(view_of(sum)->is_partial[0]);
}

/* ---- places ----------------------------------------------------------------------------------------------------- */

Test(view, wants_shards_in_the_same_places)
{
    struct sp_node *add = binary("Add", "4,4", "4,4", 2);
    given(add, "A", "2 |", "0; 1");
    given(add, "B", "2 |", "1; 0");
    EXPECT_CONFLICTS(add, "SPLIT");
    given(add, "B", "2 |", "0; 1");
    EXPECT_CONFLICTS(add, "");
}

Test(view, wants_shards_on_the_same_devices)
{
    struct sp_node *add = binary("Add", "4,4", "4,4", 4);
    given(add, "A", "2 |", "0; 1");
    given(add, "B", "2 |", "2; 3");
    EXPECT_CONFLICTS(add, "SPLIT");
}

/* A stated whole operand says that it is whole; an inferred one is sliced where it is. */
Test(view, slices_what_is_inferred)
{
    struct sp_node *add = binary("Add", "4,4", "4,4", 4);
    given(add, "A", "2 |", "0; 1");
    given(add, "B", "|", "0 1");
    EXPECT_CONFLICTS(add, "WHOLE");
    EXPECT_RESULT(add, 0, "axis 0 in 2 on devices 0, 1");
    specify(add, "B", build_blocks(build.arena, "|", "0 1 2 3"), SP_SPEC_INFERRED);
    EXPECT_CONFLICTS(add, "");
    EXPECT_RESULT(add, 0, "axis 0 in 2 on devices 0, 1");
    specify(add, "B", build_blocks(build.arena, "|", "3"), SP_SPEC_ASSUMED);
    EXPECT_CONFLICTS(add, "");
}

Test(view, takes_meshes)
{
    struct sp_node *matmul = binary("MatMul", "4,8", "8,4", 4);
    struct sp_mesh *mesh = build_mesh(build.arena, "x=2 y=2", NULL);
    specify(matmul, "A", build_axes(build.arena, mesh, "x | y"), SP_SPEC_INFERRED);
    specify(matmul, "B", build_axes(build.arena, mesh, "y |"), SP_SPEC_INFERRED);
    EXPECT_CONFLICTS(matmul, "");
    EXPECT_RESULT(matmul, 0, "axis 0 in 2 on devices {0, 1}, {2, 3}");
}

/* ---- compound axes ---------------------------------------------------------------------------------------------- */

static struct sp_node *reshape(const char *from, int count, const int64_t *to, int64_t devices)
{
    start(18);
    input("X", from);
    build_ints(&build, "to", count, to);
    return model("Reshape", "X to", "Y", devices);
}

Test(view, deals_compound_axes)
{
    struct sp_node *node = reshape("8,6", 3, (int64_t[]){2, 4, 6}, 8);
    given(node, "X", "4 |", "0; 1; 2; 3");
    EXPECT_RESULT(node, 0, "axis 0 in 2, axis 1 in 2 on devices 0..3");
    given(node, "X", "2 |", "0; 1");
    EXPECT_RESULT(node, 0, "axis 0 in 2 on devices 0, 1");
    given(node, "X", "8 |", "0; 1; 2; 3; 4; 5; 6; 7");
    EXPECT_RESULT(node, 0, "axis 0 in 2, axis 1 in 4 on devices 0..7");
    given(node, "X", "2*1,4*2 |", "0; 1");
    EXPECT_RESULT(node, 0, "axis 1 in 2 on devices 0, 1");
    EXPECT_CONFLICTS(node, "");
    given(node, "X", "3 |", "0; 1; 2");
    EXPECT_CONFLICTS(node, "FACTORS");
}

Test(view, joins_compound_axes)
{
    struct sp_node *node = reshape("2,4,6", 2, (int64_t[]){8, 6}, 8);
    given(node, "X", "2 | 2 |", "0; 1; 2; 3");
    EXPECT_RESULT(node, 0, "axis 0 in 4 on devices 0..3");
    given(node, "X", "| 2 |", "0; 1");
    EXPECT_RESULT(node, 0, "axis 0 as {2 in 1} * {4 in 2} on devices 0, 1");
    given(node, "X", "2 | |", "0; 1");
    EXPECT_RESULT(node, 0, "axis 0 in 2 on devices 0, 1");
}

/* ---- devices with several shards -------------------------------------------------------------------------------- */

/* ort_distributed_cases.json, onnx_equivalence_note: devices [u] r times on an axis of D are {r in 1} * {D / r in u}.
 */
Test(view, takes_repeated_devices)
{
    struct sp_node *node = reshape("16", 2, (int64_t[]){2, 8}, 4);
    given(node, "X", "4", "0; 1; 0; 1");
    EXPECT_CONFLICTS(node, "");
    EXPECT_RESULT(node, 0, "axis 1 in 2 on devices 0, 1");
    given(node, "X", "4", "0; 0; 1; 1");
    EXPECT_RESULT(node, 0, "axis 0 in 2 on devices 0, 1");
    given(node, "X", "8", "0; 1; 0; 1; 2; 3; 2; 3");
    EXPECT_RESULT(node, 0, "axis 0 in 2, axis 1 as {2 in 1} * {4 in 2} on devices 0..3");
    given(node, "X", "4", "0; 1; 1; 0");
    EXPECT_CONFLICTS(node, "SEVERAL");
}

/* Device 0 has three quarters of what it takes and makes. */
Test(view, takes_shares)
{
    struct sp_node *matmul = binary("MatMul", "4,8", "8,16", 2);
    given(matmul, "A", "1 | 1", "0 1");
    given(matmul, "B", "| 4", "0; 0; 0; 1");
    EXPECT_CONFLICTS(matmul, "");
    EXPECT_RESULT(matmul, 0, "axis 1 in 4 on devices 0, 0, 0, 1");
    struct sp_view *view = view_of(matmul);
    for (uint32_t f = 0; f < view->rule->factor_count; f++)
        if (view->splits[f].part_count > 0) {
            cr_expect_eq(view->splits[f].parts[0].shards, 2);
            cr_expect_arr_eq(view->splits[f].parts[0].bounds, ((int64_t[]){0, 3, 4}), 3 * sizeof(int64_t));
        }
}

/* The reduction is cut the same way in both, or they contradict each other. */
Test(view, compares_shares)
{
    struct sp_node *matmul = binary("MatMul", "4,8", "8,4", 2);
    given(matmul, "A", "| 4", "0; 0; 0; 1");
    given(matmul, "B", "4 |", "0; 0; 0; 1");
    EXPECT_CONFLICTS(matmul, "");
    EXPECT_RESULT(matmul, 0, "whole on devices 0, 1");
    given(matmul, "B", "4 |", "0; 1; 1; 1");
    EXPECT_CONFLICTS(matmul, "SPLIT");
    given(matmul, "B", "2 |", "0; 1");
    EXPECT_CONFLICTS(matmul, "SPLIT");
}

/* Shares beside a split in equal parts, and of both axes. */
Test(view, takes_shares_of_two_axes)
{
    struct sp_node *add = binary("Add", "4,8", "4,8", 4);
    given(add, "A", "2 | 4", "0; 0; 0; 1; 2; 2; 2; 3");
    given(add, "B", "2 | 4", "0; 0; 0; 1; 2; 2; 2; 3");
    EXPECT_CONFLICTS(add, "");
    EXPECT_RESULT(add, 0, "axis 0 in 2, axis 1 in 4 on devices 0, 0, 0, 1, 2, 2, ..");
    given(add, "A", "4 | 2", "0; 1; 0; 1; 0; 1; 2; 3");
    given(add, "B", "4 | 2", "0; 1; 0; 1; 0; 1; 2; 3");
    EXPECT_CONFLICTS(add, "");
    EXPECT_RESULT(add, 0, "axis 0 in 4, axis 1 in 2 on devices 0, 1, 0, 1, 0, 1, ..");
}

/* Heads in shares: the axis is two loops, of which the major one is cut; blocks are joined as far as nothing depends on
   them. */
Test(view, deals_shares_to_loops)
{
    struct sp_node *node = reshape("16", 2, (int64_t[]){8, 2}, 2);
    given(node, "X", "4", "0; 0; 0; 1");
    EXPECT_CONFLICTS(node, "");
    EXPECT_RESULT(node, 0, "axis 0 in 4 on devices 0, 0, 0, 1");
    given(node, "X", "8", "0; 0; 0; 0; 0; 0; 1; 1");
    EXPECT_CONFLICTS(node, "");
}

Test(view, deals_shares_that_repeat)
{
    struct sp_node *node = reshape("16", 2, (int64_t[]){2, 8}, 4);
    given(node, "X", "8", "0; 0; 0; 1; 2; 2; 2; 3");
    EXPECT_CONFLICTS(node, "");
    EXPECT_RESULT(node, 0, "axis 0 in 2, axis 1 in 4 on devices 0, 0, 0, 1, 2, 2, ..");
    given(node, "X", "4", "0; 0; 0; 1");
    EXPECT_CONFLICTS(node, "FACTORS");
}

/* ---- kinds of factors ------------------------------------------------------------------------------------------- */

Test(view, gathers_what_is_needed_whole)
{
    start(18);
    input("X", "8,4");
    build_ints(&build, "axis", -1, (int64_t[]){0});
    struct sp_node *node = model("CumSum", "X axis", "Y", 4);
    given(node, "X", "2 | 2", "0; 1; 2; 3");
    EXPECT_CONFLICTS(node, "NEEDS_WHOLE");
    EXPECT_RESULT(node, 0, "axis 1 in 2 on devices {0, 2}, {1, 3}");
}

Test(view, keeps_a_softmax_cut)
{
    start(18);
    input("X", "8,4");
    struct sp_node *node = model("Softmax", "X", "Y", 2);
    given(node, "X", "| 2", "0; 1");
    EXPECT_CONFLICTS(node, "");
    EXPECT_RESULT(node, 0, "axis 1 in 2 on devices 0, 1");
    cr_expect(view_of(node)->is_partial[0]);
}

/* Uneven blocks stay as they are: 5 rows are 3 and 2. */
Test(view, keeps_uneven_blocks)
{
    struct sp_node *add = binary("Add", "5,4", "5,4", 2);
    given(add, "A", "2 |", "0; 1");
    given(add, "B", "2 |", "0; 1");
    EXPECT_RESULT(add, 0, "axis 0 in 2 on devices 0, 1");
}

Test(view, assumes_that_symbols_divide)
{
    start(18);
    input("X", "n,6");
    build_shape_vector(&build, "to", "n,2,3");
    struct sp_node *node = model("Reshape", "X to", "Y", 6);
    given(node, "X", "3 | 2", "0; 1; 2; 3; 4; 5");
    EXPECT_CONFLICTS(node, "");
    EXPECT_RESULT(node, 0, "axis 0 in 3, axis 1 in 2 on devices 0..5");
}

/* ---- size ------------------------------------------------------------------------------------------------------- */

Test(view, looks_at_many_devices_in_time)
{
    struct sp_node *matmul = binary("MatMul", "65536,256", "256,65536", 65536);
    struct sp_mesh *mesh = build_mesh(build.arena, "x=256 y=16 z=16", NULL);
    specify(matmul, "A", build_axes(build.arena, mesh, "x | z"), SP_SPEC_INFERRED);
    specify(matmul, "B", build_axes(build.arena, mesh, "z | y"), SP_SPEC_INFERRED);
    struct sp_view *view = view_of(matmul);
    cr_expect_eq(view->conflict_count, 0);
    cr_expect_eq(view->results[0]->shard_count, 4096);
    cr_expect_eq(view->results[0]->devices[17], 17);
    cr_expect_not(view->is_too_large);
}

Test(view, says_what_is_too_large)
{
    start(18);
    input("X", "65536");
    struct sp_node *sum = build_node(&build, "Sum", "X", "Y");
    sum->input_count = 65; /* times the devices: more than SP_MAX_VIEW_POINTS */
    sum->inputs = SP_NEW_ARRAY(build.arena, sum->input_count, struct sp_value *);
    for (uint32_t i = 0; i < sum->input_count; i++)
        sum->inputs[i] = build_value(&build, "X");
    plan(SP_MAX_DEVICES);
    struct sp_mesh *mesh = build_mesh(build.arena, "x=65536", NULL);
    specify(sum, "X", build_axes(build.arena, mesh, "x"), SP_SPEC_INFERRED);
    cr_expect(view_of(sum)->is_too_large);
    cr_expect_null(view_of(sum)->results[0]);
}
