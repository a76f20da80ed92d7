/*
 * What attention computes, and the classes of kernels, whole and on shards. The counts are written out from the
 * operators' documentation (ONNX Operators.md, ONNX Runtime ContribOperators.md), or found by trying: pairs of queries
 * and keys one by one.
 */
#include "kernel_parts.h"

TestSuite(kernel_attention, .fini = stop);

/* ---- attention -------------------------------------------------------------------------------------------------- */

/* Pairs that the last `part` of q queries see, and keys that any of them does, one by one; -1: no bound. */
static double count_pairs(int64_t queries, int64_t part, int64_t keys, int64_t first, int64_t left, int64_t right,
                          double *ret_seen)
{
    double pairs = 0;
    bool is_seen[512] = {false};
    for (int64_t i = queries - part; i < queries; i++)
        for (int64_t k = 0; k < keys; k++) {
            const bool sees = (left < 0 || k >= first + i - left) && (right < 0 || k <= first + i + right);
            pairs += sees;
            is_seen[k] = is_seen[k] || sees;
        }
    *ret_seen = 0;
    for (int64_t k = 0; k < keys; k++)
        *ret_seen += is_seen[k];
    return pairs;
}

Test(kernel_attention, pairs_that_queries_see)
{
    static const int64_t cases[][5] = {/* queries, keys, first, left, right */
                                       {64, 64, 0, -1, 0}, {1, 300, 299, -1, 0}, {16, 300, 284, -1, 0},
                                       {64, 64, 0, 15, 0}, {1, 300, 299, 63, 0}, {16, 300, 284, 63, 0},
                                       {64, 64, 0, 7, 7},  {64, 64, 0, -1, -1},  {300, 300, 0, 400, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t *c = cases[i], queries = c[0], keys = c[1];
        start(18);
        struct sp_rule rule = {.arena = build.arena};
        const uint8_t q = sp_rule_factor(&rule, "q", SP_FACTOR_PARALLEL, sp_dim_known(queries));
        const uint8_t t = sp_rule_factor(&rule, "t", SP_FACTOR_REDUCTION, sp_dim_known(keys));
        const uint8_t both[] = {q, t};
        sp_rule_term(&rule, 1, 2, both);
        sp_rule_attend(&rule, &(struct sp_rule_attention){.batch = {.times = 1},
                                                          .heads = {.times = 1},
                                                          .kv_heads = {.times = 1},
                                                          .queries = sp_amount_of(1, &q),
                                                          .keys = sp_amount_of(1, &t),
                                                          .size = {.times = 1},
                                                          .left = (double)c[3],
                                                          .right = (double)c[4],
                                                          .kept = 1,
                                                          .is_first = c[2] == 0});
        for (int64_t parts = 1; parts <= 4 && queries % parts == 0; parts++) {
            double seen = 0;
            const double pairs = count_pairs(queries, queries / parts, keys, c[2], c[3], c[4], &seen);
            const struct sp_attention_part part = sp_attention_part(&rule, (int64_t[]){parts, 1});
            EXPECT_NEAR(part.pairs * part.queries * part.keys, pairs);
            EXPECT_NEAR(part.seen * part.keys, seen);
            EXPECT_NEAR(sp_rule_flops(&rule, (int64_t[]){parts, 1}), pairs);
        }
        stop();
    }
}

/* Half the square of a prompt; q (past + q/2) with a past, but for the diagonal. */
Test(kernel_attention, causal_attention)
{
    start(24);
    input("q", "2,8,256,64");
    input("k", "2,8,256,64");
    input("v", "2,8,256,64");
    input("pk", "2,8,1000,64");
    input("pv", "2,8,1000,64");
    struct sp_node *prompt = build_node(&build, "Attention", "q k v", "y");
    struct sp_node *later = build_node(&build, "Attention", "q k v - pk pv", "z K V");
    build_attr_int(&build, prompt, "is_causal", 1);
    build_attr_int(&build, later, "is_causal", 1);
    build_outputs(&build, "y z K V");
    infer();
    const double each = 2 * 8 * (2 * 64 + 2 * 64 + 5);
    EXPECT_NEAR(build_flops(&build, prompt), each * 256 * 257 / 2);
    EXPECT_NEAR(build_flops(&build, later), each * (256.0 * 1000 + 256 * 257 / 2.0));
    /* The last quarter of the queries has the most to do. */
    EXPECT_NEAR(work_of(prompt, SP_CACHES_APART, "q", 4).flops, each * (256.0 * 257 / 2 - 192.0 * 193 / 2));
    EXPECT_NEAR(work_of(prompt, SP_CACHES_APART, "kv", 4).flops, each * 256 * 257 / 2 / 4);
    const struct sp_kernel_work work = work_of(later, SP_CACHES_APART, "b", 2);
    cr_expect_eq(work.kind, SP_KERNEL_PREFILL);
    EXPECT_NEAR(work.attention.batch, 1);
    EXPECT_NEAR(work.attention.heads, 8);
    EXPECT_NEAR(work.attention.kv_heads, 8);
    EXPECT_NEAR(work.attention.queries, 256);
    EXPECT_NEAR(work.attention.keys, 1256);
    EXPECT_NEAR(work.attention.size, 64);
}

/* com.microsoft.Attention projects first; half the square is that of the scores. */
Test(kernel_attention, projected_attention)
{
    start(18);
    build_opset(&build, CONTRIB, 1);
    input("x", "2,128,512");
    build_weight(&build, "w", SP_DTYPE_FLOAT, "512,1536");
    struct sp_node *node = build_node_in(&build, CONTRIB, "Attention", "x w", "y");
    build_attr_int(&build, node, "num_heads", 8);
    build_attr_int(&build, node, "unidirectional", 1);
    build_outputs(&build, "y");
    infer();
    EXPECT_FLOPS(node, 2.0 * 2 * 128 * 512 * 1536 + 2 * 8 * (128.0 * 129 / 2) * (4 * 64 + 5));
    const struct sp_kernel_work work = work_of(node, SP_CACHES_APART, "kv", 2);
    cr_expect_eq(work.kind, SP_KERNEL_PREFILL);
    EXPECT_NEAR(work.attention.heads, 4);
    EXPECT_NEAR(work.attention.keys, 128);
}

/* 20 blocks of 64 are named of a lower triangle of 8 by 8: 20 of 36. */
Test(kernel_attention, sparse_attention)
{
    start(18);
    build_opset(&build, CONTRIB, 1);
    half_input("q", "2,512,1024");
    half_input("k", "2,512,256");
    half_input("v", "2,512,256");
    half_input("pk", "2,2,512,128");
    half_input("pv", "2,2,512,128");
    build_input(&build, "rows", SP_DTYPE_INT32, "1,9");
    build_input(&build, "columns", SP_DTYPE_INT32, "1,20");
    build_input(&build, "total", SP_DTYPE_INT32, "1");
    build_input(&build, "lengths", SP_DTYPE_INT32, "2");
    struct sp_node *node =
        build_node_in(&build, CONTRIB, "SparseAttention", "q k v pk pv rows columns total lengths", "y K V");
    build_attr_int(&build, node, "num_heads", 8);
    build_attr_int(&build, node, "kv_num_heads", 2);
    build_attr_int(&build, node, "sparse_block_size", 64);
    build_outputs(&build, "y K V");
    infer();
    EXPECT_NEAR(build_flops(&build, node), 4.0 * 2 * 8 * 128 * (512.0 * 513 / 2) * 20 / 36);
}

/* One-sided windows of 32: a token sees 65 of them, those at the ends fewer. */
Test(kernel_attention, attention_in_windows)
{
    start(18);
    build_opset(&build, CONTRIB, 1);
    input("x", "1,512,64");
    build_weight(&build, "w", SP_DTYPE_FLOAT, "64,192");
    build_weight(&build, "b", SP_DTYPE_FLOAT, "192");
    input("mask", "1,512");
    build_input(&build, "g", SP_DTYPE_INT32, "1,512");
    struct sp_node *node = build_node_in(&build, CONTRIB, "LongformerAttention", "x w b mask w b g", "y");
    build_attr_int(&build, node, "num_heads", 4);
    build_attr_int(&build, node, "window", 32);
    build_outputs(&build, "y");
    infer();
    double seen;
    EXPECT_NEAR(build_flops(&build, node),
                4.0 * 512 * 64 * 192 + 4.0 * 64 * count_pairs(512, 512, 512, 0, 32, 32, &seen));
}

/* ---- classes ---------------------------------------------------------------------------------------------------- */

Test(kernel_attention, classes_of_kernels)
{
    start(18);
    input("x", "4,16,8,8");
    input("m", "32,64");
    build_weight(&build, "w", SP_DTYPE_FLOAT, "16,16,3,3");
    build_weight(&build, "point", SP_DTYPE_FLOAT, "16,16,1,1");
    build_weight(&build, "each", SP_DTYPE_FLOAT, "16,1,3,3");
    build_weight(&build, "n", SP_DTYPE_FLOAT, "64,16");
    build_weight(&build, "s", SP_DTYPE_FLOAT, "64");
    struct sp_node *windows = build_node(&build, "Conv", "x w", "a");
    struct sp_node *products[] = {build_node(&build, "Conv", "x point", "l"), build_node(&build, "MatMul", "m n", "b"),
                                  build_node(&build, "Gemm", "m n", "c")};
    struct sp_node *others[] = {build_node(&build, "Add", "m m", "d"), build_node(&build, "Sigmoid", "m", "i"),
                                build_node(&build, "Concat", "m m", "j")};
    build_attr_int(&build, others[2], "axis", 0);
    struct sp_node *rows[] = {build_node(&build, "Softmax", "m", "e"), build_node(&build, "ReduceSumSquare", "m", "f"),
                              build_node(&build, "LayerNormalization", "m s", "g"),
                              build_node(&build, "Transpose", "m", "h")};
    struct sp_node *groups = build_node(&build, "Conv", "x each", "k");
    build_attr_int(&build, groups, "group", 16);
    build_outputs(&build, "a b c d e f g h i j k l");
    infer();
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        cr_expect_eq(work_of(products[i], SP_CACHES_APART, NULL, 1).kind, SP_KERNEL_PRODUCT, "%zu", i);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        cr_expect_eq(work_of(others[i], SP_CACHES_APART, NULL, 1).kind, SP_KERNEL_OTHER, "%zu", i);
    cr_expect_eq(work_of(windows, SP_CACHES_APART, NULL, 1).kind, SP_KERNEL_CONVOLUTION);
    cr_expect_eq(work_of(groups, SP_CACHES_APART, NULL, 1).kind, SP_KERNEL_GROUPED_CONVOLUTION);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect_eq(work_of(rows[i], SP_CACHES_APART, NULL, 1).kind, SP_KERNEL_NORM, "%zu", i);
}
