/* How pieces of tensors are cut and picked: Split, Concat, GatherElements, GatherND, Pad, ScatterND. */
#include "expect_op.h"

TestSuite(op_pieces, .fini = stop);

/* ---- cuts that need no exchange ---- */

Test(op_pieces, pieces_of_one_extent_are_compounds)
{
    start(18);
    build_input(&build, "qkv", SP_DTYPE_FLOAT, "b,s,3072");
    struct sp_node *split = build_node(&build, "Split", "qkv", "q k v");
    build_attr_int(&build, split, "axis", 2);
    build_attr_int(&build, split, "num_outputs", 3);
    struct sp_node *join = build_node(&build, "Concat", "q k", "qk");
    build_attr_int(&build, join, "axis", -1);
    infer();
    EXPECT_TYPE("qk", "float32[b,s,2048]");
    EXPECT_RULE(split, "[d0,d1,piece*d2] -> [d0,d1,d2] [d0,d1,d2] [d0,d1,d2]  piece: replicate");
    EXPECT_RULE(join, "[d0,d1,d2] [d0,d1,d2] -> [d0,d1,piece*d2]  piece: replicate");
}

/* ---- more known elements ---- */

/* Examples of GatherElements and GatherND in ONNX' Operators.md. */
Test(op_pieces, elements_and_slices_are_picked)
{
    start(13);
    build_ints(&build, "flat", 4, (int64_t[]){1, 2, 3, 4});
    build_ints(&build, "places", 4, (int64_t[]){0, 0, 1, 0});
    build_ints(&build, "tuples_flat", 4, (int64_t[]){0, 0, 1, -1});
    build_ints(&build, "rows", 2, (int64_t[]){1, 0});
    build_ints(&build, "square", 2, (int64_t[]){2, 2});
    build_ints(&build, "column", 2, (int64_t[]){2, 1});
    build_node(&build, "Reshape", "flat square", "x");
    build_node(&build, "Reshape", "places square", "i");
    build_node(&build, "Reshape", "tuples_flat square", "t");
    build_node(&build, "Reshape", "rows column", "r");
    build_attr_int(&build, build_node(&build, "GatherElements", "x i", "e"), "axis", 1);
    struct sp_node *nd = build_node(&build, "GatherND", "x t", "n");
    build_node(&build, "GatherND", "x r", "s");
    build_attr_int(&build, build_node(&build, "GatherND", "x r", "b"), "batch_dims", 1);
    infer();
    EXPECT_DATA("e", "1,1,4,3");
    EXPECT_DATA("n", "1,4");
    EXPECT_DATA("s", "3,4,1,2");
    EXPECT_DATA("b", "2,3");
    EXPECT_RULE(nd, "[v0,v1] [i0,t1]@v0&v1 -> [i0]  t1: replicate; v0: sum reduction; v1: sum reduction");
}

Test(op_pieces, pads_repeat_and_mirror_elements)
{
    start(19);
    build_ints(&build, "x", 3, (int64_t[]){1, 2, 3});
    build_ints(&build, "p", 2, (int64_t[]){2, 4});
    static const char *const modes[] = {"edge", "reflect", "wrap"};
    static const char *const outputs[] = {"e", "r", "w"};
    for (int i = 0; i < 3; i++)
        build_attr_string(&build, build_node(&build, "Pad", "x p", outputs[i]), "mode", modes[i]);
    infer();
    EXPECT_DATA("e", "1,1,1,2,3,3,3,3,3");
    EXPECT_DATA("r", "3,2,1,2,3,2,1,2,3");
    EXPECT_DATA("w", "2,3,1,2,3,1,2,3,1");
}

Test(op_pieces, scatters_that_combine_reduce_over_their_places)
{
    start(18);
    build_input(&build, "x", SP_DTYPE_FLOAT, "v,d");
    build_input(&build, "i", SP_DTYPE_INT64, "m,1");
    build_input(&build, "u", SP_DTYPE_FLOAT, "m,d");
    struct sp_node *node = build_node(&build, "ScatterND", "x i u", "y");
    build_attr_string(&build, node, "reduction", "max");
    infer();
    EXPECT_RULE(node, "[v0,d1] [i0,i1]@v0 [i0,d1] -> [v0,d1]  i0: max reduction; i1: replicate");
    stop();
    start(18);
    build_input(&build, "x", SP_DTYPE_FLOAT, "v,d");
    build_input(&build, "i", SP_DTYPE_INT64, "m,1");
    build_input(&build, "u", SP_DTYPE_FLOAT, "m,d");
    build_attr_string(&build, build_node(&build, "ScatterND", "x i u", "y"), "reduction", "sum");
    refused("ATTRIBUTE_VALUE");
    start(18);
}

/* An empty tensor may have axes whose product no number holds. */
Test(op_pieces, empty_tensors_of_long_axes)
{
    start(24);
    build_ints(&build, "none", 0, (int64_t[]){0});
    build_ints(&build, "shape", 3, (int64_t[]){0, INT64_C(1) << 40, INT64_C(1) << 40});
    struct sp_node *node = build_node(&build, "Reshape", "none shape", "e");
    build_attr_int(&build, node, "allowzero", 1);
    build_ints(&build, "pads", 6, (int64_t[]){1, 0, 0, 0, 1 - (INT64_C(1) << 40), 1 - (INT64_C(1) << 40)});
    build_node(&build, "Pad", "e pads", "p");
    build_ints(&build, "k", 1, (int64_t[]){2});
    build_node(&build, "TopK", "e k", "v i");
    build_ints(&build, "axis", -1, (int64_t[]){2});
    build_node(&build, "CumSum", "e axis", "c");
    build_node(&build, "Unique", "e", "u");
    infer();
    EXPECT_TYPE("p", "int64[1,1,1]");
    EXPECT_TYPE("v", "int64[0,1099511627776,2]");
}
