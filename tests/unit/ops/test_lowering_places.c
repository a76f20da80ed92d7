/*
 * Slices, pads, gathers and scatters on one device: what is asked for and what is run. Numbers follow from the
 * operators' specifications, as each test says.
 */
#include "build_lowering.h"
#include "expect_op.h"

TestSuite(lowering_places, .fini = stop);

/* Indices 1, 4, 7 of 10: the first part takes [1, 5) by threes, the second 7. Every second of 8 from 6 down: the second
   part is 2 and 0. */
Test(lowering_places, slices_ask_for_what_the_part_takes)
{
    start(13);
    input("x", "10,8");
    build_ints(&build, "starts", 2, (const int64_t[]){1, -2});
    build_ints(&build, "ends", 2, (const int64_t[]){9, INT64_MIN});
    build_ints(&build, "axes", 2, (const int64_t[]){0, 1});
    build_ints(&build, "steps", 2, (const int64_t[]){3, -2});
    struct sp_node *node = build_node(&build, "Slice", "x starts ends axes steps", "y");
    infer();
    EXPECT_CUT(node, "d0=0/2",
               "%0 = box 0 [1:5,0:8] float32[4,8]\n"
               "%1 = int64[2] {0,-2}\n"
               "%2 = int64[2] {4,-9223372036854775808}\n"
               "%3 = int64[2] {0,1}\n"
               "%4 = int64[2] {3,-2}\n"
               "%5 = Slice(%0, %1, %2, %3, %4) float32[2,4]\n"
               "output 0 = %5\n");
    EXPECT_CUT(node, "d0=1/2 d1=1/2",
               "%0 = box 0 [7:8,0:3] float32[1,3]\n"
               "%1 = int64[2] {0,2}\n"
               "%2 = int64[2] {1,-4}\n"
               "%3 = int64[2] {0,1}\n"
               "%4 = int64[2] {3,-2}\n"
               "%5 = Slice(%0, %1, %2, %3, %4) float32[1,2]\n"
               "output 0 = %5\n");
}

/* Places [4, 8) of [4 * 5]: of the second piece. In rows of 2 each second one, from 4 on. */
Test(lowering_places, a_slice_without_steps_is_a_part_elsewhere)
{
    start(13);
    input("x", "20,8");
    build_ints(&build, "starts", 1, (const int64_t[]){4});
    build_ints(&build, "ends", 1, (const int64_t[]){8});
    struct sp_node *node = build_node(&build, "Slice", "x starts ends", "y");
    infer();
    EXPECT_CUT(node, "d0=1/2",
               "%0 = box 0 [6:8,0:8] float32[2,8]\n"
               "output 0 = %0\n");
    EXPECT_CUT(node, "d0=1/2:2",
               "%0 = box 0 [5:6+7:8,0:8] float32[2,8]\n"
               "output 0 = %0\n");
}

/* Axis 1 is not cut and keeps its bounds. */
Test(lowering_places, an_old_slice_has_its_bounds_in_attributes)
{
    start(9);
    input("x", "20,8");
    struct sp_node *node = build_node(&build, "Slice", "x", "y");
    build_attr_ints(&build, node, "starts", 2, (const int64_t[]){1, 2});
    build_attr_ints(&build, node, "ends", 2, (const int64_t[]){20, -1});
    infer();
    EXPECT_CUT(node, "d0=1/2",
               "%0 = box 0 [11:20,0:8] float32[9,8]\n"
               "%1 = Slice(%0) {starts=[0,2], ends=[9223372036854775807,-1], axes=[0,1]} float32[9,5]\n"
               "output 0 = %1\n");
}

/* From 19 down by twos: 19, 17, 15, 13, 11, 9, 7, 5; in rows of 4 the last two are 15, 13, 7 and 5. */
Test(lowering_places, several_ranges_with_steps_are_picked)
{
    start(13);
    input("x", "20,8");
    build_ints(&build, "starts", 1, (const int64_t[]){19});
    build_ints(&build, "ends", 1, (const int64_t[]){3});
    build_ints(&build, "axes", 1, (const int64_t[]){0});
    build_ints(&build, "steps", 1, (const int64_t[]){-2});
    struct sp_node *node = build_node(&build, "Slice", "x starts ends axes steps", "y");
    infer();
    EXPECT_CUT(node, "d0=1/2:4",
               "%0 = int64[4] {3,2,1,0}\n"
               "%1 = box 0 [5:6+7:8+13:14+15:16,0:8] float32[4,8]\n"
               "%2 = .Gather(%1, %0) {axis=0} float32[4,8]\n"
               "output 0 = %2\n");
}

/* 6 elements between 5 and 1: the first 3 of 12 are padding alone, of the next ones one is no padding. */
Test(lowering_places, constant_pads_are_where_the_part_reaches_out)
{
    start(13);
    input("x", "6,5");
    build_ints(&build, "pads", 4, (const int64_t[]){5, 1, 1, 1});
    struct sp_node *node = build_node(&build, "Pad", "x pads", "y");
    infer();
    EXPECT_CUT(node, "d0=0/4",
               "%0 = box 0 [0:1,0:5] float32[1,5]\n"
               "%1 = int64[4] {5,1,0,1}\n"
               "%2 = Pad(%0, %1) float32[6,7]\n"
               "%3 = int64[1] {0}\n"
               "%4 = int64[1] {3}\n"
               "%5 = int64[1] {0}\n"
               "%6 = .Slice(%2, %3, %4, %5) float32[3,7]\n"
               "output 0 = %6\n");
    EXPECT_CUT(node, "d0=1/4",
               "%0 = box 0 [0:1,0:5] float32[1,5]\n"
               "%1 = int64[4] {2,1,0,1}\n"
               "%2 = Pad(%0, %1) float32[3,7]\n"
               "output 0 = %2\n");
    EXPECT_CUT(node, "d0=3/4 d1=1/2",
               "%0 = box 0 [4:6,3:5] float32[2,2]\n"
               "%1 = int64[4] {0,0,1,1}\n"
               "%2 = Pad(%0, %1) float32[3,3]\n"
               "output 0 = %2\n");
}

/* -1 and 2 at 6: the second half of 7 is 5 and padding. */
Test(lowering_places, negative_pads_take_away)
{
    start(9);
    input("x", "6");
    struct sp_node *node = build_node(&build, "Pad", "x", "y");
    build_attr_ints(&build, node, "pads", 2, (const int64_t[]){-1, 2});
    infer();
    EXPECT_CUT(node, "d0=1/2",
               "%0 = box 0 [5:6] float32[1]\n"
               "%1 = Pad(%0) {pads=[0,2]} float32[3]\n"
               "output 0 = %1\n");
}

/* Of [5 4 3 2 1 0 1 2 3 4 5 4], which 6 elements reflected are, the first 4; a constant in rows of 6 the last 3. */
Test(lowering_places, other_pads_are_picked)
{
    start(13);
    input("x", "6,5");
    build_ints(&build, "pads", 4, (const int64_t[]){5, 0, 1, 0});
    struct sp_node *reflect = build_node(&build, "Pad", "x pads", "y");
    struct sp_node *constant = build_node(&build, "Pad", "x pads", "z");
    build_attr_string(&build, reflect, "mode", "reflect");
    infer();
    EXPECT_CUT(reflect, "d0=0/3",
               "%0 = int64[4] {3,2,1,0}\n"
               "%1 = box 0 [2:6,0:5] float32[4,5]\n"
               "%2 = .Gather(%1, %0) {axis=0} float32[4,5]\n"
               "output 0 = %2\n");
    EXPECT_CUT(constant, "d0=1/2:6",
               "%0 = int64[6] {0,0,0,1,2,0}\n"
               "%1 = bool[6,1] {0,0,1,1,1,0}\n"
               "%2 = box 0 [0:1+4:6,0:5] float32[3,5]\n"
               "%3 = float32[] {0}\n"
               "%4 = .Gather(%2, %0) {axis=0} float32[6,5]\n"
               "%5 = .Where(%1, %4, %3) float32[6,5]\n"
               "output 0 = %5\n");
}

/* 4 -> 7: 1 before and 2 after. 9 -> 5: from 2 on. */
Test(lowering_places, the_middle_is_cropped_and_padded)
{
    start(18);
    input("x", "4,9");
    build_ints(&build, "shape", 2, (const int64_t[]){7, 5});
    struct sp_node *node = build_node(&build, "CenterCropPad", "x shape", "y");
    infer();
    EXPECT_CUT(node, "d0=0/3 d1=1/2",
               "%0 = box 0 [0:2,5:7] float32[2,2]\n"
               "%1 = int64[4] {1,0,0,0}\n"
               "%2 = float32[] {0}\n"
               "%3 = .Pad(%0, %1, %2) float32[3,2]\n"
               "output 0 = %3\n");
    EXPECT_CUT(node, "d0=0/7",
               "%0 = box 0 [0:1,0:9] float32[1,9]\n"
               "%1 = int64[4] {1,0,0,0}\n"
               "%2 = float32[] {0}\n"
               "%3 = .Pad(%0, %1, %2) float32[2,9]\n"
               "%4 = int64[1] {0}\n"
               "%5 = int64[1] {1}\n"
               "%6 = int64[1] {0}\n"
               "%7 = .Slice(%3, %4, %5, %6) float32[1,9]\n"
               "%8 = int64[2] {1,5}\n"
               "%9 = CenterCropPad(%7, %8) float32[1,5]\n"
               "output 0 = %9\n");
}

/* Indices from the back count from 10; those of the second quarter are 3, 4 and 5. */
Test(lowering_places, what_is_gathered_elsewhere_is_zero)
{
    start(13);
    input("x", "3,10,4");
    build_input(&build, "i", SP_DTYPE_INT32, "2,m");
    struct sp_node *node = build_node(&build, "Gather", "x i", "y");
    build_attr_int(&build, node, "axis", 1);
    infer();
    EXPECT_CUT(node, "v1=1/4",
               "%0 = part 1 [0:2,0:?] int32[2,?]\n"
               "%1 = int64[] {0}\n"
               "%2 = .Cast(%0) {to=7} int64[2,?]\n"
               "%3 = int64[] {10}\n"
               "%4 = .Add(%2, %3) int64[2,?]\n"
               "%5 = .Less(%2, %1) bool[2,?]\n"
               "%6 = .Where(%5, %4, %2) int64[2,?]\n"
               "%7 = int64[] {3}\n"
               "%8 = .Sub(%6, %7) int64[2,?]\n"
               "%9 = int64[] {0}\n"
               "%10 = .Less(%8, %9) bool[2,?]\n"
               "%11 = int64[] {3}\n"
               "%12 = .Less(%8, %11) bool[2,?]\n"
               "%13 = .Not(%10) bool[2,?]\n"
               "%14 = .And(%13, %12) bool[2,?]\n"
               "%15 = int64[] {0}\n"
               "%16 = .Where(%14, %8, %15) int64[2,?]\n"
               "%17 = part 0 [0:3,3:6,0:4] float32[3,3,4]\n"
               "%18 = Gather(%17, %16) float32[3,2,?,4]\n"
               "%19 = int64[1] {2}\n"
               "%20 = .Unsqueeze(%14, %19) bool[2,?,1]\n"
               "%21 = float32[] {0}\n"
               "%22 = .Where(%20, %18, %21) float32[3,2,?,4]\n"
               "output 0 = %22, sum over v1\n");
}

/* Of each 4 the last two. */
Test(lowering_places, indices_of_several_ranges_are_looked_up)
{
    start(13);
    input("x", "8");
    build_input(&build, "i", SP_DTYPE_INT64, "2");
    struct sp_node *node = build_node(&build, "Gather", "x i", "y");
    infer();
    EXPECT_CUT(node, "v0=1/2:4",
               "%0 = part 1 [0:2] int64[2]\n"
               "%1 = int64[] {0}\n"
               "%2 = int64[] {8}\n"
               "%3 = .Add(%0, %2) int64[2]\n"
               "%4 = .Less(%0, %1) bool[2]\n"
               "%5 = .Where(%4, %3, %0) int64[2]\n"
               "%6 = int64[] {0}\n"
               "%7 = .Less(%5, %6) bool[2]\n"
               "%8 = int64[] {8}\n"
               "%9 = .Less(%5, %8) bool[2]\n"
               "%10 = .Not(%7) bool[2]\n"
               "%11 = .And(%10, %9) bool[2]\n"
               "%12 = .Where(%11, %5, %1) int64[2]\n"
               "%13 = int64[8] {-1,-1,0,1,-1,-1,2,3}\n"
               "%14 = .Gather(%13, %12) {axis=0} int64[2]\n"
               "%15 = int64[] {0}\n"
               "%16 = .Less(%14, %15) bool[2]\n"
               "%17 = int64[] {4}\n"
               "%18 = .Less(%14, %17) bool[2]\n"
               "%19 = .Not(%16) bool[2]\n"
               "%20 = .And(%19, %18) bool[2]\n"
               "%21 = .And(%11, %20) bool[2]\n"
               "%22 = int64[] {0}\n"
               "%23 = .Where(%21, %14, %22) int64[2]\n"
               "%24 = part 0 [2:4+6:8] float32[4]\n"
               "%25 = Gather(%24, %23) float32[2]\n"
               "%26 = float32[] {0}\n"
               "%27 = .Where(%21, %25, %26) float32[2]\n"
               "output 0 = %27, sum over v0\n");
}

Test(lowering_places, strings_are_gathered_whole)
{
    start(13);
    build_input(&build, "x", SP_DTYPE_STRING, "8");
    build_input(&build, "i", SP_DTYPE_INT64, "2");
    struct sp_node *node = build_node(&build, "Gather", "x i", "y");
    infer();
    EXPECT_CUT(node, "v0=1/2",
               "again v0: Node 0 (Gather) picks strings, which have no sum, so it has all of them on every device.");
}

/* There is no Where: chosen by products, and place 4 behind the part is 0. */
Test(lowering_places, old_models_gather_from_a_place_of_zeros)
{
    start(8);
    input("x", "8");
    build_input(&build, "i", SP_DTYPE_INT64, "2");
    struct sp_node *node = build_node(&build, "Gather", "x i", "y");
    infer();
    EXPECT_CUT(node, "v0=1/2",
               "%0 = part 1 [0:2] int64[2]\n"
               "%1 = int64[] {0}\n"
               "%2 = int64[] {8}\n"
               "%3 = .Add(%0, %2) int64[2]\n"
               "%4 = .Cast(%0) {to=11} float64[2]\n"
               "%5 = .Cast(%1) {to=11} float64[]\n"
               "%6 = .Less(%4, %5) bool[2]\n"
               "%7 = .Sub(%3, %0) int64[2]\n"
               "%8 = .Cast(%6) {to=7} int64[2]\n"
               "%9 = .Mul(%8, %7) int64[2]\n"
               "%10 = .Add(%9, %0) int64[2]\n"
               "%11 = int64[] {4}\n"
               "%12 = .Sub(%10, %11) int64[2]\n"
               "%13 = int64[] {0}\n"
               "%14 = .Cast(%12) {to=11} float64[2]\n"
               "%15 = .Cast(%13) {to=11} float64[]\n"
               "%16 = .Less(%14, %15) bool[2]\n"
               "%17 = int64[] {4}\n"
               "%18 = .Cast(%12) {to=11} float64[2]\n"
               "%19 = .Cast(%17) {to=11} float64[]\n"
               "%20 = .Less(%18, %19) bool[2]\n"
               "%21 = .Not(%16) bool[2]\n"
               "%22 = .And(%21, %20) bool[2]\n"
               "%23 = part 0 [4:8] float32[4]\n"
               "%24 = filled float32[1] {0}\n"
               "%25 = int64[] {4}\n"
               "%26 = .Sub(%12, %25) int64[2]\n"
               "%27 = .Cast(%22) {to=7} int64[2]\n"
               "%28 = .Mul(%27, %26) int64[2]\n"
               "%29 = .Add(%28, %25) int64[2]\n"
               "%30 = .Concat(%23, %24) {axis=0} float32[5]\n"
               "%31 = Gather(%30, %29) float32[2]\n"
               "output 0 = %31, sum over v0\n");
}

/* Only the second of them is cut. */
Test(lowering_places, entries_of_tuples_are_indices_of_their_axes)
{
    start(13);
    input("x", "3,10,4");
    build_input(&build, "i", SP_DTYPE_INT64, "5,2");
    struct sp_node *node = build_node(&build, "GatherND", "x i", "y");
    infer();
    EXPECT_CUT(node, "v1=1/4",
               "%0 = part 1 [0:5,0:2] int64[5,2]\n"
               "%1 = int64[1] {0}\n"
               "%2 = int64[1] {1}\n"
               "%3 = int64[1] {1}\n"
               "%4 = .Slice(%0, %1, %2, %3) int64[5,1]\n"
               "%5 = int64[1] {1}\n"
               "%6 = int64[1] {2}\n"
               "%7 = int64[1] {1}\n"
               "%8 = .Slice(%0, %5, %6, %7) int64[5,1]\n"
               "%9 = int64[] {0}\n"
               "%10 = int64[] {10}\n"
               "%11 = .Add(%8, %10) int64[5,1]\n"
               "%12 = .Less(%8, %9) bool[5,1]\n"
               "%13 = .Where(%12, %11, %8) int64[5,1]\n"
               "%14 = int64[] {3}\n"
               "%15 = .Sub(%13, %14) int64[5,1]\n"
               "%16 = int64[] {0}\n"
               "%17 = .Less(%15, %16) bool[5,1]\n"
               "%18 = int64[] {3}\n"
               "%19 = .Less(%15, %18) bool[5,1]\n"
               "%20 = .Not(%17) bool[5,1]\n"
               "%21 = .And(%20, %19) bool[5,1]\n"
               "%22 = int64[] {0}\n"
               "%23 = .Where(%21, %15, %22) int64[5,1]\n"
               "%24 = .Concat(%4, %23) {axis=1} int64[5,2]\n"
               "%25 = int64[1] {1}\n"
               "%26 = .Squeeze(%21, %25) bool[5]\n"
               "%27 = part 0 [0:3,3:6,0:4] float32[3,3,4]\n"
               "%28 = GatherND(%27, %24) float32[5,4]\n"
               "%29 = int64[1] {1}\n"
               "%30 = .Unsqueeze(%26, %29) bool[5,1]\n"
               "%31 = float32[] {0}\n"
               "%32 = .Where(%30, %28, %31) float32[5,4]\n"
               "output 0 = %32, sum over v1\n");
}

/* It is place 5, behind the 5 of the part. */
Test(lowering_places, writes_of_others_go_to_a_spare_place)
{
    start(13);
    input("x", "10");
    build_input(&build, "i", SP_DTYPE_INT64, "2");
    input("u", "2");
    struct sp_node *node = build_node(&build, "ScatterElements", "x i u", "y");
    infer();
    EXPECT_CUT(node, "v0=1/2",
               "%0 = part 0 [5:10] float32[5]\n"
               "%1 = part 1 [0:2] int64[2]\n"
               "%2 = int64[] {5}\n"
               "%3 = int64[] {0}\n"
               "%4 = int64[] {10}\n"
               "%5 = .Add(%1, %4) int64[2]\n"
               "%6 = .Less(%1, %3) bool[2]\n"
               "%7 = .Where(%6, %5, %1) int64[2]\n"
               "%8 = int64[] {5}\n"
               "%9 = .Sub(%7, %8) int64[2]\n"
               "%10 = int64[] {0}\n"
               "%11 = .Less(%9, %10) bool[2]\n"
               "%12 = int64[] {5}\n"
               "%13 = .Less(%9, %12) bool[2]\n"
               "%14 = .Not(%11) bool[2]\n"
               "%15 = .And(%14, %13) bool[2]\n"
               "%16 = .Where(%15, %9, %2) int64[2]\n"
               "%17 = int64[1] {0}\n"
               "%18 = .Gather(%0, %17) {axis=0} float32[1]\n"
               "%19 = .Concat(%0, %18) {axis=0} float32[6]\n"
               "%20 = part 2 [0:2] float32[2]\n"
               "%21 = ScatterElements(%19, %16, %20) float32[6]\n"
               "%22 = int64[1] {0}\n"
               "%23 = int64[1] {5}\n"
               "%24 = int64[1] {0}\n"
               "%25 = .Slice(%21, %22, %23, %24) float32[5]\n"
               "output 0 = %25\n");
}

/* The device of the second half of the writes starts from 1. */
Test(lowering_places, data_count_once_where_writes_are_combined)
{
    start(18);
    input("x", "10");
    build_input(&build, "i", SP_DTYPE_INT64, "2");
    input("u", "2");
    struct sp_node *times = build_node(&build, "ScatterElements", "x i u", "y");
    struct sp_node *most = build_node(&build, "ScatterElements", "x i u", "z");
    build_attr_string(&build, times, "reduction", "mul");
    build_attr_string(&build, most, "reduction", "max");
    infer();
    EXPECT_CUT(times, "i0=1/2",
               "%0 = part 0 [0:10] float32[10]\n"
               "%1 = float32[] {1}\n"
               "%2 = bool[] {0}\n"
               "%3 = .Where(%2, %0, %1) float32[10]\n"
               "%4 = part 1 [1:2] int64[1]\n"
               "%5 = part 2 [1:2] float32[1]\n"
               "%6 = ScatterElements(%3, %4, %5) float32[10]\n"
               "output 0 = %6, prod over i0\n");
    EXPECT_CUT(most, "i0=1/2",
               "%0 = part 0 [0:10] float32[10]\n"
               "%1 = part 1 [1:2] int64[1]\n"
               "%2 = part 2 [1:2] float32[1]\n"
               "%3 = ScatterElements(%0, %1, %2) float32[10]\n"
               "output 0 = %3, max over i0\n");
}

/* Place 1, behind the only one, along the first cut axis, and 0 along the other. */
Test(lowering_places, tuples_of_others_go_to_a_spare_place)
{
    start(13);
    input("x", "3,10");
    build_input(&build, "i", SP_DTYPE_INT64, "5,2");
    input("u", "5");
    struct sp_node *node = build_node(&build, "ScatterND", "x i u", "y");
    infer();
    EXPECT_CUT(node, "v0=0/3 v1=1/4",
               "%0 = part 0 [0:1,3:6] float32[1,3]\n"
               "%1 = part 1 [0:5,0:2] int64[5,2]\n"
               "%2 = int64[1] {0}\n"
               "%3 = int64[1] {1}\n"
               "%4 = int64[1] {1}\n"
               "%5 = .Slice(%1, %2, %3, %4) int64[5,1]\n"
               "%6 = int64[] {0}\n"
               "%7 = int64[] {3}\n"
               "%8 = .Add(%5, %7) int64[5,1]\n"
               "%9 = .Less(%5, %6) bool[5,1]\n"
               "%10 = .Where(%9, %8, %5) int64[5,1]\n"
               "%11 = int64[] {0}\n"
               "%12 = .Less(%10, %11) bool[5,1]\n"
               "%13 = int64[] {1}\n"
               "%14 = .Less(%10, %13) bool[5,1]\n"
               "%15 = .Not(%12) bool[5,1]\n"
               "%16 = .And(%15, %14) bool[5,1]\n"
               "%17 = int64[1] {1}\n"
               "%18 = int64[1] {2}\n"
               "%19 = int64[1] {1}\n"
               "%20 = .Slice(%1, %17, %18, %19) int64[5,1]\n"
               "%21 = int64[] {0}\n"
               "%22 = int64[] {10}\n"
               "%23 = .Add(%20, %22) int64[5,1]\n"
               "%24 = .Less(%20, %21) bool[5,1]\n"
               "%25 = .Where(%24, %23, %20) int64[5,1]\n"
               "%26 = int64[] {3}\n"
               "%27 = .Sub(%25, %26) int64[5,1]\n"
               "%28 = int64[] {0}\n"
               "%29 = .Less(%27, %28) bool[5,1]\n"
               "%30 = int64[] {3}\n"
               "%31 = .Less(%27, %30) bool[5,1]\n"
               "%32 = .Not(%29) bool[5,1]\n"
               "%33 = .And(%32, %31) bool[5,1]\n"
               "%34 = .And(%16, %33) bool[5,1]\n"
               "%35 = int64[] {1}\n"
               "%36 = .Where(%34, %10, %35) int64[5,1]\n"
               "%37 = int64[] {0}\n"
               "%38 = .Where(%34, %27, %37) int64[5,1]\n"
               "%39 = .Concat(%36, %38) {axis=1} int64[5,2]\n"
               "%40 = int64[1] {0}\n"
               "%41 = .Gather(%0, %40) {axis=0} float32[1,3]\n"
               "%42 = .Concat(%0, %41) {axis=0} float32[2,3]\n"
               "%43 = part 2 [0:5] float32[5]\n"
               "%44 = ScatterND(%42, %39, %43) float32[2,3]\n"
               "%45 = int64[1] {0}\n"
               "%46 = int64[1] {1}\n"
               "%47 = int64[1] {0}\n"
               "%48 = .Slice(%44, %45, %46, %47) float32[1,3]\n"
               "output 0 = %48\n");
}
