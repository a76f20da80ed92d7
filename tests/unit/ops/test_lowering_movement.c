/*
 * Operators that reshape, move and make tensors, on one device: what is asked for and what is run. Numbers follow from
 * the operators' specifications, as each test says.
 */
#include "build_lowering.h"
#include "expect_op.h"

TestSuite(lowering_movement, .fini = stop);

/* The axis that is cut has 6 elements; the one that is not known is counted on the part. */
Test(lowering_movement, shapes_are_those_of_the_whole)
{
    start(15);
    input("x", "n,6,4");
    struct sp_node *shape = build_node(&build, "Shape", "x", "s");
    struct sp_node *size = build_node(&build, "Size", "x", "z");
    infer();
    EXPECT_CUT(shape, "d1=1/2",
               "%0 = int64[3] {0,6,4}\n"
               "%1 = part 0 [0:?,3:6,0:4] float32[?,3,4]\n"
               "%2 = Shape(%1) int64[3]\n"
               "%3 = int64[3] {1,0,0}\n"
               "%4 = .Mul(%2, %3) int64[3]\n"
               "%5 = .Add(%4, %0) int64[3]\n"
               "output 0 = %5, whole\n");
    EXPECT_CUT(size, "d1=1/4",
               "%0 = part 0 [0:?,2:4,0:4] float32[?,2,4]\n"
               "%1 = Size(%0) int64[]\n"
               "%2 = int64[] {2}\n"
               "%3 = .Div(%1, %2) int64[]\n"
               "%4 = int64[] {6}\n"
               "%5 = .Mul(%3, %4) int64[]\n"
               "output 0 = %5, whole\n");
}

/* [n, 6, 4] -> [n, 24] with 2 of 6: an axis that is copied is 0, and 8 is 2 * 4. A shape of numbers has none. */
Test(lowering_movement, shapes_are_made_for_the_part)
{
    start(15);
    input("x", "n,6,4");
    build_shape_vector(&build, "to", "n,24");
    struct sp_node *open = build_node(&build, "Reshape", "x to", "y");
    input("a", "8,6");
    build_ints(&build, "list", 3, (const int64_t[]){2, -1, 6});
    struct sp_node *known = build_node(&build, "Reshape", "a list", "b");
    infer();
    EXPECT_CUT(open, "r1=1/4",
               "%0 = part 0 [0:?,2:4,0:4] float32[?,2,4]\n"
               "%1 = int64[2] {0,8}\n"
               "%2 = Reshape(%0, %1) {allowzero=0} float32[?,8]\n"
               "output 0 = %2\n");
    EXPECT_CUT(known, "r0=1/2 r1=0/4",
               "%0 = part 0 [4:5,0:6] float32[1,6]\n"
               "%1 = int64[3] {1,1,6}\n"
               "%2 = Reshape(%0, %1) {allowzero=0} float32[1,1,6]\n"
               "output 0 = %2\n");
}

/* [n, s, 8] -> [n*s, 2, 4] -> [n, s, 2, 4]: of two that are open neither is -1, and what is cut is the part of a
 * number. */
Test(lowering_movement, extents_that_are_not_known_are_those_of_the_shape)
{
    start(15);
    input("x", "n,s,8");
    build_shape_vector(&build, "flat", "-1,2,4");
    build_shape_vector(&build, "to", "n,s,2,4");
    struct sp_node *merge = build_node(&build, "Reshape", "x flat", "y");
    struct sp_node *part = build_node(&build, "Reshape", "y to", "z");
    infer();
    EXPECT_CUT(merge, "r2=1/2",
               "%0 = part 0 [0:?,0:?,4:8] float32[?,?,4]\n"
               "%1 = int64[3] {-1,1,4}\n"
               "%2 = Reshape(%0, %1) {allowzero=0} float32[?,1,4]\n"
               "output 0 = %2\n");
    EXPECT_CUT(part, "r2=1/2",
               "%0 = part 0 [0:?,1:2,0:4] float32[?,1,4]\n"
               "%1 = part 1 [0:4] int64[4]\n"
               "%2 = int64[4] {1,1,0,0}\n"
               "%3 = .Mul(%1, %2) int64[4]\n"
               "%4 = int64[4] {0,0,1,4}\n"
               "%5 = .Add(%3, %4) int64[4]\n"
               "%6 = Reshape(%0, %5) {allowzero=0} float32[?,?,1,4]\n"
               "output 0 = %6\n");
}

Test(lowering_movement, an_old_reshape_has_its_shape_in_an_attribute)
{
    start(1);
    input("a", "8,6");
    struct sp_node *node = build_node(&build, "Reshape", "a", "b");
    build_attr_ints(&build, node, "shape", 2, (const int64_t[]){48, 1});
    infer();
    EXPECT_CUT(node, "r0=1/2",
               "%0 = part 0 [4:8,0:6] float32[4,6]\n"
               "%1 = Reshape(%0) {shape=[24,1]} float32[24,1]\n"
               "output 0 = %1\n");
}

/* On a quarter of it the first axis has one element, too. */
Test(lowering_movement, only_axes_of_one_element_in_the_whole_are_squeezed)
{
    start(13);
    input("x", "4,1,6");
    struct sp_node *node = build_node(&build, "Squeeze", "x", "y");
    infer();
    EXPECT_CUT(node, "r0=1/4",
               "%0 = part 0 [1:2,0:1,0:6] float32[1,1,6]\n"
               "%1 = int64[1] {1}\n"
               "%2 = Squeeze(%0, %1) float32[1,6]\n"
               "output 0 = %2\n");
}

Test(lowering_movement, an_old_squeeze_has_its_axes_in_an_attribute)
{
    start(11);
    input("x", "4,1,6");
    struct sp_node *node = build_node(&build, "Squeeze", "x", "y");
    infer();
    EXPECT_CUT(node, "r0=1/4",
               "%0 = part 0 [1:2,0:1,0:6] float32[1,1,6]\n"
               "%1 = Squeeze(%0) {axes=[1]} float32[1,6]\n"
               "output 0 = %1\n");
}

/* [4, 1, 1] -> [8, 4, 5, 6]: half of the 8, and the first 2 of the 6. */
Test(lowering_movement, stretched_axes_are_those_of_the_part)
{
    start(13);
    input("x", "4,1,1");
    build_ints(&build, "shape", 4, (const int64_t[]){8, 1, 5, 6});
    struct sp_node *node = build_node(&build, "Expand", "x shape", "y");
    infer();
    EXPECT_CUT(node, "d0=1/2 d3=0/4",
               "%0 = part 0 [0:4,0:1,0:1] float32[4,1,1]\n"
               "%1 = int64[4] {4,1,5,2}\n"
               "%2 = Expand(%0, %1) float32[4,4,5,2]\n"
               "output 0 = %2\n");
}

/* Of 3 repeats the first shard has 2. A split of places leaves them. */
Test(lowering_movement, repeats_are_those_of_the_part)
{
    start(13);
    input("x", "4,6");
    build_ints(&build, "repeats", 2, (const int64_t[]){1, 3});
    struct sp_node *node = build_node(&build, "Tile", "x repeats", "y");
    infer();
    EXPECT_CUT(node, "r1=0/2",
               "%0 = int64[2] {1,2}\n"
               "%1 = part 0 [0:4,0:6] float32[4,6]\n"
               "%2 = Tile(%1, %0) float32[4,12]\n"
               "output 0 = %2\n");
    EXPECT_CUT(node, "r1=1/2 d1=1/2",
               "%0 = int64[2] {1,1}\n"
               "%1 = part 0 [0:4,3:6] float32[4,3]\n"
               "%2 = Tile(%1, %0) float32[4,3]\n"
               "output 0 = %2\n");
}

/* 2, 5, 8, 11, 14, 17: the second third is 2 + 3 * (2, 3). In rows of 2 the second ones are indices 1, 3 and 5. */
Test(lowering_movement, ranges_count_from_where_the_part_begins)
{
    start(13);
    build_ints(&build, "start", -1, (const int64_t[]){2});
    build_ints(&build, "limit", -1, (const int64_t[]){20});
    build_ints(&build, "delta", -1, (const int64_t[]){3});
    struct sp_node *node = build_node(&build, "Range", "start limit delta", "y");
    infer();
    EXPECT_CUT(node, "d0=1/3",
               "%0 = int64[2] {2,3}\n"
               "%1 = part 0 [] int64[]\n"
               "%2 = part 2 [] int64[]\n"
               "%3 = .Mul(%0, %2) int64[2]\n"
               "%4 = .Add(%3, %1) int64[2]\n"
               "output 0 = %4\n");
    EXPECT_CUT(node, "d0=1/2:2",
               "%0 = int64[3] {1,3,5}\n"
               "%1 = part 0 [] int64[]\n"
               "%2 = part 2 [] int64[]\n"
               "%3 = .Mul(%0, %2) int64[3]\n"
               "%4 = .Add(%3, %1) int64[3]\n"
               "output 0 = %4\n");
}

/* Three pieces of 2: of each the second element. */
Test(lowering_movement, sizes_of_a_split_are_those_of_the_part)
{
    start(13);
    input("x", "n,6");
    build_ints(&build, "sizes", 3, (const int64_t[]){2, 2, 2});
    struct sp_node *node = build_node(&build, "Split", "x sizes", "a b c");
    build_attr_int(&build, node, "axis", 1);
    infer();
    EXPECT_CUT(node, "d1=1/2",
               "%0 = part 0 [0:?,1:2+3:4+5:6] float32[?,3]\n"
               "%1 = int64[3] {1,1,1}\n"
               "%2, %3, %4 = Split(%0, %1) float32[?,1] float32[?,1] float32[?,1]\n"
               "output 0 = %2\n"
               "output 1 = %3\n"
               "output 2 = %4\n");
}

/* [n, b1, b2, c, h, w] -> [n, c, h, b1, w, b2] */
Test(lowering_movement, blocks_that_are_cut_are_moved_by_transposition)
{
    start(13);
    input("x", "n,8,3,5");
    struct sp_node *node = build_node(&build, "DepthToSpace", "x", "y");
    build_attr_int(&build, node, "blocksize", 2);
    infer();
    EXPECT_CUT(node, "b1=1/2",
               "%0 = part 0 [0:?,4:8,0:3,0:5] float32[?,4,3,5]\n"
               "%1 = int64[6] {-1,1,2,2,3,5}\n"
               "%2 = .Reshape(%0, %1) float32[?,1,2,2,3,5]\n"
               "%3 = .Transpose(%2) {perm=[0,3,4,1,5,2]} float32[?,2,3,1,5,2]\n"
               "%4 = int64[4] {-1,2,3,10}\n"
               "%5 = .Reshape(%3, %4) float32[?,2,3,10]\n"
               "output 0 = %5\n");
    EXPECT_CUT(node, "c=1/2 h=1/3",
               "%0 = part 0 [0:?,1:2+3:4+5:6+7:8,1:2,0:5] float32[?,4,1,5]\n"
               "%1 = DepthToSpace(%0) float32[?,1,2,10]\n"
               "output 0 = %1\n");
}

/* [n, c, h, b1, w, b2] -> [n, c, b1, b2, h, w] */
Test(lowering_movement, the_mode_says_where_blocks_go)
{
    start(28);
    input("x", "n,3,4,6");
    struct sp_node *node = build_node(&build, "SpaceToDepth", "x", "y");
    build_attr_int(&build, node, "blocksize", 2);
    build_attr_string(&build, node, "mode", "CRD");
    infer();
    EXPECT_CUT(node, "b1=1/2",
               "%0 = part 0 [0:?,0:3,1:2+3:4,0:6] float32[?,3,2,6]\n"
               "%1 = int64[6] {-1,3,2,1,3,2}\n"
               "%2 = .Reshape(%0, %1) float32[?,3,2,1,3,2]\n"
               "%3 = .Transpose(%2) {perm=[0,1,3,5,2,4]} float32[?,3,1,2,2,3]\n"
               "%4 = int64[4] {-1,6,2,3}\n"
               "%5 = .Reshape(%3, %4) float32[?,6,2,3]\n"
               "output 0 = %5\n");
    EXPECT_CUT(node, "c=1/3",
               "%0 = part 0 [0:?,1:2,0:4,0:6] float32[?,1,4,6]\n"
               "%1 = SpaceToDepth(%0) float32[?,4,2,3]\n"
               "output 0 = %1\n");
}

/* Rows from 3, columns from 2: what was diagonal 1 is diagonal 1 + 3 - 2. In rows of 3 columns
   the first two are 0, 1, 3 and 4. */
Test(lowering_movement, diagonals_move_by_where_the_part_begins)
{
    start(14);
    input("x", "6,6");
    build_ints(&build, "k", -1, (const int64_t[]){1});
    struct sp_node *trilu = build_node(&build, "Trilu", "x k", "y");
    struct sp_node *eye = build_node(&build, "EyeLike", "x", "z");
    infer();
    EXPECT_CUT(trilu, "d0=1/2 d1=1/3",
               "%0 = part 0 [3:6,2:4] float32[3,2]\n"
               "%1 = part 1 [] int64[]\n"
               "%2 = int64[] {1}\n"
               "%3 = .Add(%1, %2) int64[]\n"
               "%4 = Trilu(%0, %3) float32[3,2]\n"
               "output 0 = %4\n");
    EXPECT_CUT(eye, "d0=1/2 i1=0/2",
               "%0 = filled float32[3,6] {0}\n"
               "%1 = EyeLike(%0) {k=3} float32[3,6]\n"
               "output 0 = %1\n");
    EXPECT_CUT(eye, "d1=0/2:3",
               "%0 = int64[] {0}\n"
               "%1 = int64[6] {0,1,2,3,4,5}\n"
               "%2 = int64[1] {1}\n"
               "%3 = .Unsqueeze(%1, %2) int64[6,1]\n"
               "%4 = int64[4] {0,1,3,4}\n"
               "%5 = int64[1] {0}\n"
               "%6 = .Unsqueeze(%4, %5) int64[1,4]\n"
               "%7 = .Sub(%6, %3) int64[6,4]\n"
               "%8 = .Equal(%7, %0) bool[6,4]\n"
               "%9 = .Cast(%8) {to=1} float32[6,4]\n"
               "output 0 = %9\n");
}

Test(lowering_movement, only_the_type_of_what_a_cast_is_like_is_taken)
{
    start(19);
    input("x", "6,6");
    build_input(&build, "like", SP_DTYPE_FLOAT16, "100");
    struct sp_node *node = build_node(&build, "CastLike", "x like", "y");
    infer();
    EXPECT_CUT(node, "d0=1/2",
               "%0 = part 0 [3:6,0:6] float32[3,6]\n"
               "%1 = .Cast(%0) {to=10} float16[3,6]\n"
               "output 0 = %1\n");
}
