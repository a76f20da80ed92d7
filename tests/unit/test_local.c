/*
 * The builder of one device's part of a node: what is recorded, in which form, in every version of the operator set.
 * Expected texts follow from the signatures of the operators (core/ops/signatures) and the contracts of ops/local.h.
 */
#include "build_local.h"
#include "expect_op.h"
#include "ops/local_recorder.h"

TestSuite(local, .fini = stop);

#define EXPECT_LOCAL(text, want)                                                                                       \
    do {                                                                                                               \
        const char *text_ = (text);                                                                                    \
        cr_expect_str_eq(text_, want, "%s", text_);                                                                    \
    } while (0)

static struct sp_node *matmul(int64_t opset)
{
    start(opset);
    input("a", "4,6");
    input("b", "6,5");
    struct sp_node *node = build_node(&build, "MatMul", "a b", "y");
    infer();
    return node;
}

/* ---- the default ------------------------------------------------------------------------------------------------ */

Test(local, a_split_reduction_leaves_partial_results)
{
    struct sp_node *node = matmul(13);
    EXPECT_LOCAL(build_local_with(&build, node, "k=1/2", sp_local_default),
                 "%0 = part 0 [0:4,3:6] float32[4,3]\n"
                 "%1 = part 1 [3:6,0:5] float32[3,5]\n"
                 "%2 = MatMul(%0, %1) float32[4,5]\n"
                 "output 0 = %2, sum over k\n");
}
