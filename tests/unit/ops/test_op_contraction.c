/* MatMul, Gemm, Einsum. Shapes follow numpy.matmul and numpy.einsum; the rules of the two dot products are those that
   Shardy's registry gives to stablehlo.dot_general. */
#include "expect_op.h"

TestSuite(op_contraction, .fini = stop);

Test(op_contraction, a_matrix_product)
{
    start(13);
    input("a", "8,32");
    input("b", "32,16");
    struct sp_node *node = build_node(&build, "MatMul", "a b", "y");
    infer();
    EXPECT_TYPE("y", "float32[8,16]");
    EXPECT_RULE(node, "[m,k] [k,n] -> [m,n]  k: sum reduction");
    EXPECT_FLOPS(node, 2.0 * 8 * 16 * 32);
}

Test(op_contraction, stacks_broadcast)
{
    start(13);
    input("a", "n,1,5,7");
    input("b", "4,7,6");
    struct sp_node *node = build_node(&build, "MatMul", "a b", "y");
    infer();
    EXPECT_TYPE("y", "float32[n,4,5,6]");
    EXPECT_RULE(node, "[b0,_,m,k] [b1,k,n] -> [b0,b1,m,n]  k: sum reduction");
}

Test(op_contraction, vectors_are_rows_and_columns)
{
    start(13);
    input("v", "7");
    input("a", "3,5,7");
    input("b", "3,7,5");
    struct sp_node *row = build_node(&build, "MatMul", "v b", "r");
    struct sp_node *column = build_node(&build, "MatMul", "a v", "c");
    struct sp_node *dot = build_node(&build, "MatMul", "v v", "d");
    infer();
    EXPECT_TYPE("r", "float32[3,5]");
    EXPECT_TYPE("c", "float32[3,5]");
    EXPECT_TYPE("d", "float32[]");
    EXPECT_RULE(row, "[k] [b0,k,n] -> [b0,n]  k: sum reduction");
    EXPECT_RULE(column, "[b0,m,k] [k] -> [b0,m]  k: sum reduction");
    EXPECT_FLOPS(dot, 14);
}

Test(op_contraction, products_that_do_not_fit_are_refused)
{
    start(13);
    input("a", "8,32");
    input("b", "31,16");
    build_node(&build, "MatMul", "a b", "y");
    refused("SHAPES_DISAGREE");
    start(13);
    input("a", "2,8,32");
    input("b", "3,32,16");
    build_node(&build, "MatMul", "a b", "y");
    refused("CANNOT_BROADCAST");
    start(13);
    input("a", "");
    input("b", "3,32,16");
    build_node(&build, "MatMul", "a b", "y");
    refused("OPERAND_SHAPE");
}

Test(op_contraction, integers_give_int32)
{
    start(10);
    build_input(&build, "a", SP_DTYPE_UINT8, "8,32");
    build_input(&build, "b", SP_DTYPE_UINT8, "32,16");
    build_input(&build, "za", SP_DTYPE_UINT8, "");
    build_input(&build, "zb", SP_DTYPE_UINT8, "16");
    struct sp_node *node = build_node(&build, "MatMulInteger", "a b za zb", "y");
    infer();
    EXPECT_TYPE("y", "int32[8,16]");
    EXPECT_RULE(node, "[m,k] [k,n] [] [n] -> [m,n]  k: sum reduction");
}

Test(op_contraction, quantised_matrices_of_a_stack_have_rows_and_columns_of_scales)
{
    start(21);
    build_input(&build, "a", SP_DTYPE_UINT8, "2,8,32");
    build_input(&build, "b", SP_DTYPE_INT8, "2,32,16");
    build_input(&build, "za", SP_DTYPE_UINT8, "2,8,1");
    build_input(&build, "zb", SP_DTYPE_INT8, "1,1,16");
    build_input(&build, "zy", SP_DTYPE_INT8, "");
    input("sa", "2,8,1");
    input("sb", "1,1,16");
    input("sy", "");
    struct sp_node *integer = build_node(&build, "MatMulInteger", "a b za zb", "i");
    struct sp_node *linear = build_node(&build, "QLinearMatMul", "a sa za b sb zb sy zy", "y");
    infer();
    EXPECT_TYPE("y", "int8[2,8,16]");
    EXPECT_RULE(integer, "[b0,m,k] [b0,k,n] [b0,m,_] [_,_,n] -> [b0,m,n]  k: sum reduction");
    EXPECT_RULE(linear, "[b0,m,k] [b0,m,_] [b0,m,_] [b0,k,n] [_,_,n] [_,_,n] [] [] -> [b0,m,n]  k: sum reduction");
}

Test(op_contraction, gemm_with_transposed_inputs)
{
    start(13);
    input("a", "32,n");
    input("b", "16,32");
    input("c", "16");
    struct sp_node *node = build_node(&build, "Gemm", "a b c", "y");
    build_attr_int(&build, node, "transA", 1);
    build_attr_int(&build, node, "transB", 1);
    infer();
    EXPECT_TYPE("y", "float32[n,16]");
    EXPECT_RULE(node, "[k,m] [n,k] [n] -> [m,n]  k: sum reduction");
}

Test(op_contraction, gemm_counts_its_third_input)
{
    start(13);
    input("a", "8,32");
    input("b", "32,16");
    input("c", "8,1");
    struct sp_node *with = build_node(&build, "Gemm", "a b c", "y");
    struct sp_node *without = build_node(&build, "Gemm", "a b", "z");
    infer();
    EXPECT_RULE(with, "[m,k] [k,n] [m,_] -> [m,n]  k: sum reduction");
    EXPECT_FLOPS(with, 2.0 * 8 * 16 * 32 + 8 * 16);
    EXPECT_FLOPS(without, 2.0 * 8 * 16 * 32);
}

Test(op_contraction, gemm_refuses_what_does_not_fit)
{
    static const char *const shapes[][3] = {{"8,32", "31,16", "16"}, {"8,32", "32,16", "8"}, {"2,8,32", "32,16", "16"}};
    static const char *const codes[] = {"SHAPES_DISAGREE", "CANNOT_BROADCAST", "OPERAND_SHAPE"};
    for (size_t i = 0; i < 3; i++) {
        start(13);
        input("a", shapes[i][0]);
        input("b", shapes[i][1]);
        input("c", shapes[i][2]);
        build_node(&build, "Gemm", "a b c", "y");
        refused(codes[i]);
    }
    start(13);
}

/* ---- Einsum ---- */

/* A node over inputs of the given shapes. */
static struct sp_node *einsum(const char *equation, const char *a, const char *b, const char *c)
{
    start(12);
    input("a", a);
    if (b != NULL)
        input("b", b);
    if (c != NULL)
        input("c", c);
    struct sp_node *node = build_node(&build, "Einsum", c != NULL ? "a b c" : b != NULL ? "a b" : "a", "y");
    build_attr_string(&build, node, "equation", equation);
    return node;
}

Test(op_contraction, labels_are_factors)
{
    struct sp_node *node = einsum("abcdon,mnoba -> abcdm", "2,4,8,4,64,32", "16,32,64,4,2", NULL);
    infer();
    EXPECT_TYPE("y", "float32[2,4,8,4,16]");
    EXPECT_RULE(node, "[a,b,c,d,o,n] [m,n,o,b,a] -> [a,b,c,d,m]  n: sum reduction; o: sum reduction");
    EXPECT_FLOPS(node, 2.0 * 2 * 4 * 8 * 4 * 64 * 32 * 16);
}

Test(op_contraction, without_an_arrow_single_labels_remain_in_order)
{
    (void)einsum("ba", "3,5", NULL, NULL);
    infer();
    EXPECT_TYPE("y", "float32[5,3]");
    stop();
    struct sp_node *node = einsum("ij,jk", "3,5", "5,7", NULL);
    infer();
    EXPECT_TYPE("y", "float32[3,7]");
    EXPECT_RULE(node, "[i,j] [j,k] -> [i,k]  j: sum reduction");
    stop();
    (void)einsum("bA", "3,5", NULL, NULL); /* upper case comes first */
    infer();
    EXPECT_TYPE("y", "float32[5,3]");
}

Test(op_contraction, an_ellipsis_broadcasts)
{
    struct sp_node *node = einsum("...ij,...jk->...ik", "n,1,3,5", "4,5,7", NULL);
    infer();
    EXPECT_TYPE("y", "float32[n,4,3,7]");
    EXPECT_RULE(node, "[e0,_,i,j] [e1,j,k] -> [e0,e1,i,k]  j: sum reduction");
}

Test(op_contraction, a_diagonal_stays_whole)
{
    struct sp_node *node = einsum("bii->bi", "2,4,4", NULL, NULL);
    infer();
    EXPECT_TYPE("y", "float32[2,4]");
    EXPECT_RULE(node, "[b,i,i] -> [b,i]  i: replicate");
}

Test(op_contraction, three_operands_are_contracted_pairwise)
{
    struct sp_node *node = einsum("ij,jk,kl->il", "2,3", "3,5", "5,7");
    infer();
    EXPECT_FLOPS(node, 2.0 * 2 * 3 * 5 + 2.0 * 2 * 5 * 7);
    stop();
    node = einsum("i,j->ij", "2", "3", NULL); /* nothing is summed */
    infer();
    EXPECT_FLOPS(node, 6);
}

Test(op_contraction, bad_equations_are_refused)
{
    static const char *const equations[] = {"ij,jk,kl->il", "ij->ij",       "ijk,jk->i",   "i1,jk->i", "ij,jk->iz",
                                            "ij,jk->ii",    "......,jk->j", "ij,jk->i->k", ""};
    for (size_t i = 0; i < sizeof(equations) / sizeof(equations[0]); i++) {
        (void)einsum(equations[i], "2,3", "3,5", NULL);
        refused("BAD_EQUATION");
    }
    (void)einsum("ij,jk->ik", "2,3", "4,5", NULL);
    refused("SHAPES_DISAGREE");
    start(12);
    input("a", "2");
    build_node(&build, "Einsum", "a", "y");
    refused("ATTRIBUTE_MISSING");
    start(12);
}
