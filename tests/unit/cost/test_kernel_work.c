/*
 * What kernels move and compute, whole and on shards. The counts are written out from the operators' documentation
 * (ONNX Operators.md, ONNX Runtime ContribOperators.md), or found by trying: experts that tokens draw by drawing them.
 */
#include "kernel_parts.h"

static struct strategy_model subject;

static void end(void)
{
    if (subject.arena)
        strategy_model_close(&subject);
    if (build.arena)
        stop();
}

TestSuite(kernel_work, .fini = end);

/* ---- caches ----------------------------------------------------------------------------------------------------- */

/* One step of 64 sequences of 8191 positions, 32 heads over 8 of keys and values, heads of 128 float16. */
#define ONE   (64.0 * 8 * 128 * 2) /* bytes of one position: keys, or values */
#define PAST  (8191 * ONE)
#define QUERY (64.0 * 32 * 128 * 2) /* and of the result */

#define NODES 4

struct form {
    uint32_t count;
    struct sp_node *nodes[NODES];
    double apart, together; /* bytes of all of them, by the documentation */
};

static void heads_apart(const char *cache)
{
    start(24);
    build_opset(&build, CONTRIB, 1);
    half_input("q", "64,32,1,128");
    half_input("k", "64,8,1,128");
    half_input("v", "64,8,1,128");
    half_input("pk", cache);
    half_input("pv", cache);
}

/* Each reads queries and all positions, and writes the result. What else: */
static struct form in_place(void)
{
    heads_apart("64,8,8192,128");
    struct form form = {1, {build_node(&build, "Attention", "q pk pv", "y")}, 0, 0};
    build_outputs(&build, "y");
    form.apart = form.together = 2 * QUERY + 2 * (PAST + ONE);
    return form;
}

/* New keys and values are read, and written behind the old ones; or old and new are, to another place. */
static struct form attention_with_past(void)
{
    heads_apart("64,8,8191,128");
    struct form form = {1, {build_node(&build, "Attention", "q k v - pk pv", "y K V")}, 0, 0};
    build_outputs(&build, "y K V");
    form.together = 2 * QUERY + 2 * PAST + 2 * ONE + 2 * ONE;
    form.apart = 2 * QUERY + 2 * PAST + 2 * ONE + 2 * (PAST + ONE);
    return form;
}

static struct form concatenated(void)
{
    heads_apart("64,8,8191,128");
    struct form form = {.count = 3};
    form.nodes[0] = build_node(&build, "Concat", "pk k", "K");
    form.nodes[1] = build_node(&build, "Concat", "pv v", "V");
    form.nodes[2] = build_node(&build, "Attention", "q K V", "y");
    build_attr_int(&build, form.nodes[0], "axis", 2);
    build_attr_int(&build, form.nodes[1], "axis", 2);
    build_outputs(&build, "y K V");
    form.together = 2 * QUERY + 2 * (PAST + ONE) + 4 * ONE;
    form.apart = 2 * QUERY + 2 * (PAST + ONE) + 4 * (PAST + ONE);
    return form;
}

static struct form scattered(void)
{
    heads_apart("64,8,8192,128");
    build_input(&build, "at", SP_DTYPE_INT64, "64");
    struct form form = {.count = 3};
    form.nodes[0] = build_node(&build, "TensorScatter", "pk k at", "K");
    form.nodes[1] = build_node(&build, "TensorScatter", "pv v at", "V");
    form.nodes[2] = build_node(&build, "Attention", "q K V", "y");
    build_outputs(&build, "y K V");
    form.together = 2 * QUERY + 2 * (PAST + ONE) + 2 * (2 * ONE + 64 * 8);
    form.apart = 2 * QUERY + 2 * (PAST + ONE) + 2 * (2 * (PAST + ONE) + ONE + 64 * 8);
    return form;
}

static struct form grouped(void)
{
    start(24);
    build_opset(&build, CONTRIB, 1);
    half_input("q", "64,1,4096");
    half_input("k", "64,1,1024");
    half_input("v", "64,1,1024");
    half_input("pk", "64,8,8191,128");
    half_input("pv", "64,8,8191,128");
    build_input(&build, "lengths", SP_DTYPE_INT32, "64");
    build_ints(&build, "total", 1, (int64_t[]){8192});
    struct form form = {
        1, {build_node_in(&build, CONTRIB, "GroupQueryAttention", "q k v pk pv lengths total", "y K V")}, 0, 0};
    build_attr_int(&build, form.nodes[0], "num_heads", 32);
    build_attr_int(&build, form.nodes[0], "kv_num_heads", 8);
    build_outputs(&build, "y K V");
    const double sizes = 64 * 4 + 8;
    form.together = 2 * QUERY + 2 * PAST + 4 * ONE + sizes;
    form.apart = 2 * QUERY + 4 * PAST + 4 * ONE + sizes;
    return form;
}

typedef struct form form_maker(void);
static form_maker *const forms[] = {in_place, attention_with_past, concatenated, scattered, grouped};

static double bytes_of_form(const struct form *form, enum sp_cache_binding caches)
{
    double sum = 0;
    for (uint32_t i = 0; i < form->count; i++)
        sum += bytes_of(form->nodes[i], caches);
    return sum;
}

Test(kernel_work, caches_are_read_once_and_written_by_what_is_new)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const struct form form = forms[i]();
        infer();
        EXPECT_NEAR(bytes_of_form(&form, SP_CACHES_IN_ONE_BUFFER), form.together);
        EXPECT_NEAR(bytes_of_form(&form, SP_CACHES_APART), form.apart);
        stop();
    }
}

/* All forms take the time of the one in place, on one device and on eight, where past and present are one buffer. */
Test(kernel_work, all_forms_of_a_cache_take_one_time)
{
    double first[2] = {0};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const struct form form = forms[i]();
        strategy_model_built(&subject, "h100-sxm-80gb", 8);
        subject.cluster->groups[0].device.runtime = SP_RUNTIME_VLLM;
        cr_assert_eq(sp_workload_from_model(subject.arena, subject.model, subject.cluster, NULL, &subject.workload,
                                            &subject.err),
                     SP_OK);
        struct sp_strategy_table *table = strategy_table_of(&subject, 1, (uint32_t[]){8});
        double seconds[2] = {0};
        for (uint32_t n = 0; n < form.count; n++) {
            const struct sp_strategies *ways = sp_strategy_of(table, n);
            double best = subject.workload->nodes[n].seconds[0];
            seconds[0] += best;
            for (uint32_t w = 0; w < ways->count; w++)
                best = fmin(best, ways->items[w].compute_seconds + ways->items[w].communication_seconds);
            seconds[1] += best;
        }
        for (uint32_t k = 0; k < 2; k++) {
            if (i == 0)
                first[k] = seconds[k];
            cr_expect_lt(seconds[k], 1.15 * first[k] + (k == 1 ? 2 * 7e-6 : 0), "form %zu takes %g, not %g", i,
                         seconds[k], first[k]); /* on eight devices two more launches are 12 % */
            cr_expect_gt(seconds[k], 0.85 * first[k]);
        }
        sp_strategy_table_destroy(table);
        strategy_model_close(&subject);
        stop();
    }
}

/* Keys of attention that is written out: what was appended goes to a product, by a Transpose. */
Test(kernel_work, a_cache_is_known_by_what_becomes_of_it)
{
    start(18);
    input("q", "2,4,1,16");
    input("k", "2,4,1,16");
    input("past", "2,4,31,16");
    struct sp_node *own = build_node(&build, "Concat", "past k", "K");
    build_attr_int(&build, own, "axis", 2);
    struct sp_node *turned = build_node(&build, "Transpose", "K", "T");
    build_attr_ints(&build, turned, "perm", 4, (int64_t[]){0, 1, 3, 2});
    build_node(&build, "MatMul", "q T", "s");
    build_outputs(&build, "s");
    infer();
    EXPECT_NEAR(bytes_of(own, SP_CACHES_IN_ONE_BUFFER), 2 * 2 * 4 * 16 * 4);
    EXPECT_NEAR(bytes_of(own, SP_CACHES_APART), 2 * 2 * 4 * 32 * 16 * 4);
}

/* The model takes and gives its cache under another shape. */
Test(kernel_work, a_cache_under_another_shape)
{
    start(18);
    input("past", "2,1,4,31,16");
    input("k", "2,4,1,16");
    build_ints(&build, "four", 4, (int64_t[]){2, 4, 31, 16});
    build_ints(&build, "five", 5, (int64_t[]){2, 1, 4, 32, 16});
    build_node(&build, "Reshape", "past four", "p");
    struct sp_node *own = build_node(&build, "Concat", "p k", "K");
    build_attr_int(&build, own, "axis", 2);
    build_node(&build, "Reshape", "K five", "present");
    build_outputs(&build, "present");
    infer();
    EXPECT_NEAR(bytes_of(own, SP_CACHES_IN_ONE_BUFFER), 2 * 2 * 4 * 16 * 4);
}

/* Joined with something else, read by something else, or made by something: a copy in every runtime. */
Test(kernel_work, other_concatenations_copy)
{
    static const struct {
        const char *first, *outputs;
        bool is_read_again;
    } cases[] = {{"x", "y", true}, {"made", "y", false}, {"x", "z", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        start(18);
        input("x", "2,4,31,16");
        input("k", "2,4,1,16");
        build_node(&build, "Relu", "k", "made");
        char inputs[32];
        (void)snprintf(inputs, sizeof inputs, "%s k", cases[i].first);
        struct sp_node *joined = build_node(&build, "Concat", inputs, "y");
        build_attr_int(&build, joined, "axis", 2);
        build_node(&build, "Relu", "y", "z");
        if (cases[i].is_read_again)
            build_node(&build, "Relu", "x", "again");
        build_outputs(&build, cases[i].outputs);
        infer();
        EXPECT_NEAR(bytes_of(joined, SP_CACHES_IN_ONE_BUFFER), bytes_of(joined, SP_CACHES_APART));
        stop();
    }
}

/* An operator that is another one on other operands: all pieces are read, and the result is written. */
Test(kernel_work, concatenations_of_quantized_pieces)
{
    start(18);
    build_opset(&build, CONTRIB, 1);
    build_input(&build, "a", SP_DTYPE_UINT8, "4,1000");
    build_input(&build, "b", SP_DTYPE_UINT8, "4,24");
    build_weight(&build, "s", SP_DTYPE_FLOAT, "1");
    build_weight(&build, "z", SP_DTYPE_UINT8, "1");
    struct sp_node *node = build_node_in(&build, CONTRIB, "QLinearConcat", "s z a s z b s z", "y");
    build_attr_int(&build, node, "axis", 1);
    build_outputs(&build, "y");
    infer();
    EXPECT_NEAR(bytes_of(node, SP_CACHES_APART), 2 * 4 * 1024 + 3 * (4 + 1));
}

/* A static cache that ScatterND writes: 3 updates of 16 numbers at 3 indices. */
Test(kernel_work, scattered_updates)
{
    start(18);
    input("past", "64,16");
    input("new", "3,16");
    build_input(&build, "at", SP_DTYPE_INT64, "3,1");
    struct sp_node *node = build_node(&build, "ScatterND", "past at new", "present");
    build_outputs(&build, "present");
    infer();
    EXPECT_NEAR(bytes_of(node, SP_CACHES_IN_ONE_BUFFER), 3 * 8 + 2 * 3 * 16 * 4);
    EXPECT_NEAR(bytes_of(node, SP_CACHES_APART), 3 * 8 + 2 * 3 * 16 * 4 + 2 * 64 * 16 * 4);
}

/* Operators of which one buffer is part of the definition, and what they see of it. */
Test(kernel_work, caches_that_are_always_one_buffer)
{
    start(18);
    build_opset(&build, CONTRIB, 1);
    half_input("q", "6,4096");
    half_input("k", "6,1024");
    half_input("v", "6,1024");
    half_input("ck", "1000,16,8,128");
    half_input("cv", "1000,16,8,128");
    build_input(&build, "starts", SP_DTYPE_INT32, "4");
    build_input(&build, "lengths", SP_DTYPE_INT32, "3");
    build_input(&build, "table", SP_DTYPE_INT32, "3,20");
    struct sp_node *node =
        build_node_in(&build, CONTRIB, "PagedAttention", "q k v ck cv starts lengths table", "y nk nv");
    build_attr_int(&build, node, "num_heads", 32);
    build_attr_int(&build, node, "kv_num_heads", 8);
    build_outputs(&build, "y nk nv");
    infer();
    /* 3 sequences of 20 blocks of 16 positions; 6 new tokens are read, and written. */
    const double position = 8 * 128 * 2, fixed = 2.0 * 6 * 4096 * 2 + 4 * (4 + 3 + 3 * 20);
    EXPECT_NEAR(bytes_of(node, SP_CACHES_APART), fixed + 2 * position * (3 * 20 * 16 + 6 + 6));
    /* Two queries of each sequence, the last of 320 positions: 319 and 320 keys. */
    EXPECT_FLOPS(node, 4.0 * 3 * (319 + 320) * 32 * 128);
    const struct sp_kernel_work work = work_of(node, SP_CACHES_APART, "kv", 4);
    EXPECT_NEAR(work.flops, 4.0 * 3 * (319 + 320) * 8 * 128);
    cr_expect_eq(work.kind, SP_KERNEL_PREFILL);
    EXPECT_NEAR(work.attention.batch, 3);
    EXPECT_NEAR(work.attention.heads, 8);
    EXPECT_NEAR(work.attention.kv_heads, 2);
    EXPECT_NEAR(work.attention.queries, 2);
    EXPECT_NEAR(work.attention.keys, 320);
    EXPECT_NEAR(work.attention.size, 128);
}

Test(kernel_work, decoders_with_masked_heads)
{
    start(18);
    build_opset(&build, CONTRIB, 1);
    half_input("q", "4,1,512");
    half_input("k", "4,1,512");
    half_input("v", "4,1,512");
    half_input("pk", "4,8,256,64");
    half_input("pv", "4,8,256,64");
    build_input(&build, "n", SP_DTYPE_INT32, "1");
    struct sp_node *node =
        build_node_in(&build, CONTRIB, "DecoderMaskedMultiHeadAttention", "q k v - - pk pv n", "y K V");
    build_attr_int(&build, node, "num_heads", 8);
    build_attr_int(&build, node, "past_present_share_buffer", 1);
    build_outputs(&build, "y K V");
    infer();
    const double one = 4.0 * 512 * 2;
    EXPECT_NEAR(bytes_of(node, SP_CACHES_APART), 2 * one + 2 * 256 * one + 4 * one + 4);
    EXPECT_FLOPS(node, 4.0 * 4 * 8 * 64 * 256);
    const struct sp_kernel_work work = work_of(node, SP_CACHES_APART, "h", 2);
    cr_expect_eq(work.kind, SP_KERNEL_DECODE);
    EXPECT_NEAR(work.attention.heads, 4);
    EXPECT_NEAR(work.attention.keys, 256);
}

/* One new position of 2 sequences behind 31, 4 heads of 16 float32. Keys, or values, of a position have STEP bytes, as
   queries and results do. */
#define STEP (2.0 * 4 * 16 * 4)

static void one_step(const char *past)
{
    start(18);
    build_opset(&build, CONTRIB, 1);
    input("x", "2,1,64");
    input("k", "2,1,64");
    input("v", "2,1,64");
    input("past", past);
    input("values", past);
}

static void expect_step(struct sp_node *node, double together, double apart, double flops)
{
    build_attr_int(&build, node, "num_heads", 4);
    build_outputs(&build, "y K");
    infer();
    EXPECT_NEAR(bytes_of(node, SP_CACHES_IN_ONE_BUFFER), together);
    EXPECT_NEAR(bytes_of(node, SP_CACHES_APART), apart);
    EXPECT_FLOPS(node, flops);
    const struct sp_kernel_work work = work_of(node, SP_CACHES_APART, "b", 2);
    cr_expect_eq(work.kind, SP_KERNEL_DECODE);
    EXPECT_NEAR(work.attention.batch, 1);
    EXPECT_NEAR(work.attention.heads, 4);
    EXPECT_NEAR(work.attention.kv_heads, 4);
    EXPECT_NEAR(work.attention.keys, 32);
    EXPECT_NEAR(work.attention.size, 16);
}

Test(kernel_work, multi_head_attention_with_a_past)
{
    one_step("2,4,31,16");
    struct sp_node *node = build_node_in(&build, CONTRIB, "MultiHeadAttention", "x k v - - - past values", "y K V");
    build_outputs(&build, "V");
    expect_step(node, (4 + 2 * 31 + 2) * STEP, (4 + 2 * 31 + 2 * 32) * STEP, 2.0 * 4 * 32 * (4 * 16 + 5));
}

Test(kernel_work, projected_attention_with_a_past)
{
    one_step("2,2,4,31,16");
    build_weight(&build, "w", SP_DTYPE_FLOAT, "64,192");
    struct sp_node *node = build_node_in(&build, CONTRIB, "Attention", "x w - - past", "y K");
    const double weights = 64 * 192 * 4;
    expect_step(node, (2 + 2 * 31 + 2) * STEP + weights, (2 + 2 * 31 + 2 * 32) * STEP + weights,
                2.0 * 2 * 64 * 192 + 2.0 * 4 * 32 * (4 * 16 + 5));
}

/* Weights and inputs of a byte; the scores count as 4 for each pair and element, without a softmax. */
Test(kernel_work, quantized_attention_with_a_past)
{
    one_step("2,2,4,31,16");
    build_input(&build, "q", SP_DTYPE_UINT8, "2,1,64");
    build_weight(&build, "w", SP_DTYPE_INT8, "64,192");
    build_weight(&build, "bias", SP_DTYPE_FLOAT, "192");
    build_weight(&build, "s", SP_DTYPE_FLOAT, "");
    build_weight(&build, "z", SP_DTYPE_UINT8, "");
    struct sp_node *node = build_node_in(&build, CONTRIB, "QAttention", "q w bias s s - z z past", "y K");
    const double rest = 2 * 64 + 64 * 192 + 192 * 4 + 2 * 4 + 2 * 1;
    expect_step(node, (1 + 2 * 31 + 2) * STEP + rest, (1 + 2 * 31 + 2 * 32) * STEP + rest,
                2.0 * 2 * 64 * 192 + 2.0 * 4 * 32 * 4 * 16);
}

/* A window of 1024 keys, the query's own among them, in a cache of 8192: nothing else is read or computed. */
Test(kernel_work, a_window_of_a_cache)
{
    struct form form = grouped();
    build_attr_int(&build, form.nodes[0], "local_window_size", 1024);
    infer();
    EXPECT_NEAR(bytes_of(form.nodes[0], SP_CACHES_IN_ONE_BUFFER), 2 * QUERY + 2 * 1023 * ONE + 4 * ONE + 64 * 4 + 8);
    EXPECT_FLOPS(form.nodes[0], 64.0 * 32 * 1024 * (2 * 128 + 2 * 128 + 5));
    const struct sp_kernel_work work = work_of(form.nodes[0], SP_CACHES_IN_ONE_BUFFER, "kv", 8);
    cr_expect_eq(work.kind, SP_KERNEL_DECODE);
    EXPECT_NEAR(work.attention.batch, 64);
    EXPECT_NEAR(work.attention.heads, 4);
    EXPECT_NEAR(work.attention.kv_heads, 1);
    EXPECT_NEAR(work.attention.queries, 1);
    EXPECT_NEAR(work.attention.keys, 1024);
    EXPECT_NEAR(work.attention.size, 128);
}

/* ---- tables ----------------------------------------------------------------------------------------------------- */

Test(kernel_work, embeddings_by_the_rows_that_are_used)
{
    start(18);
    build_weight(&build, "words", SP_DTYPE_FLOAT16, "32000,4096");
    build_input(&build, "ids", SP_DTYPE_INT64, "2,8");
    struct sp_node *node = build_node(&build, "Gather", "words ids", "y");
    build_outputs(&build, "y");
    infer();
    const double row = 4096 * 2, indices = 16 * 8;
    EXPECT_NEAR(bytes_of(node, SP_CACHES_APART), 16 * row + indices + 16 * row);
    /* Each of 4 devices has a quarter of the rows, and of those that are used; it writes zeros for the others. */
    EXPECT_NEAR(work_of(node, SP_CACHES_APART, "v0", 4).bytes, 4 * row + indices + 16 * row);
    EXPECT_NEAR(work_of(node, SP_CACHES_APART, "i0", 2).bytes, 8 * row + indices / 2 + 8 * row);
    EXPECT_NEAR(work_of(node, SP_CACHES_APART, "d1", 4).bytes, 4 * row + indices + 4 * row);
    cr_expect_eq(work_of(node, SP_CACHES_APART, NULL, 1).kind, SP_KERNEL_OTHER);
}

/* A table of 2 rows is read once, however often. */
Test(kernel_work, small_tables_are_read_once)
{
    start(18);
    build_weight(&build, "kinds", SP_DTYPE_FLOAT, "2,768");
    build_input(&build, "ids", SP_DTYPE_INT64, "512");
    struct sp_node *node = build_node(&build, "Gather", "kinds ids", "y");
    build_outputs(&build, "y");
    infer();
    EXPECT_NEAR(bytes_of(node, SP_CACHES_APART), 2 * 768 * 4 + 512 * 8 + 512 * 768 * 4);
}

/* 4 bits: rows of 1024 bytes with 64 scales of float16. */
Test(kernel_work, quantized_embeddings)
{
    start(18);
    build_opset(&build, CONTRIB, 1);
    build_weight(&build, "words", SP_DTYPE_UINT8, "32000,1024");
    build_weight(&build, "scales", SP_DTYPE_FLOAT16, "32000,64");
    build_input(&build, "ids", SP_DTYPE_INT64, "16");
    struct sp_node *node = build_node_in(&build, CONTRIB, "GatherBlockQuantized", "words ids scales", "y");
    build_attr_int(&build, node, "block_size", 32);
    build_attr_int(&build, node, "bits", 4);
    build_outputs(&build, "y");
    infer();
    EXPECT_NEAR(bytes_of(node, SP_CACHES_APART), 16 * (1024 + 64 * 2) + 16 * 8 + 16 * 2048 * 2);
    EXPECT_NEAR(work_of(node, SP_CACHES_APART, "v0", 4).bytes, 4 * (1024 + 64 * 2) + 16 * 8 + 16 * 2048 * 2);
}

/* 16 tokens of 30522 words, 512 positions and 2 kinds, of 768 numbers each. */
Test(kernel_work, embeddings_with_a_norm)
{
    start(18);
    build_opset(&build, CONTRIB, 1);
    build_input(&build, "ids", SP_DTYPE_INT32, "2,8");
    build_input(&build, "kinds", SP_DTYPE_INT32, "2,8");
    build_weight(&build, "words", SP_DTYPE_FLOAT, "30522,768");
    build_weight(&build, "places", SP_DTYPE_FLOAT, "512,768");
    build_weight(&build, "two", SP_DTYPE_FLOAT, "2,768");
    build_weight(&build, "g", SP_DTYPE_FLOAT, "768");
    struct sp_node *node =
        build_node_in(&build, CONTRIB, "EmbedLayerNormalization", "ids kinds words places two g g", "y");
    build_outputs(&build, "y");
    infer();
    const double row = 768 * 4;
    EXPECT_NEAR(bytes_of(node, SP_CACHES_APART), 2 * 16 * 4 + (16 + 16 + 2 + 2 + 16) * row);
    EXPECT_NEAR(work_of(node, SP_CACHES_APART, "b", 2).bytes, 16 * 4 + (8 + 8 + 2 + 2 + 8) * row);
}

/* Sines and cosines of 2 * 8 tokens, of tables for 4096 positions. */
Test(kernel_work, tables_of_angles_by_positions)
{
    static const char *const domains[] = {"", CONTRIB};
    for (uint32_t d = 0; d < 2; d++) {
        start(23);
        build_opset(&build, CONTRIB, 1);
        input("x", "2,32,8,128");
        build_weight(&build, "cos", SP_DTYPE_FLOAT, "4096,64");
        build_weight(&build, "sin", SP_DTYPE_FLOAT, "4096,64");
        build_input(&build, "at", SP_DTYPE_INT64, "2,8");
        struct sp_node *node =
            build_node_in(&build, domains[d], "RotaryEmbedding", d == 0 ? "x cos sin at" : "x at cos sin", "y");
        build_outputs(&build, "y");
        infer();
        const double x = 2.0 * 32 * 8 * 128 * 4, rows = 2.0 * 16 * 64 * 4;
        EXPECT_NEAR(bytes_of(node, SP_CACHES_APART), 2 * x + rows + 16 * 8);
        EXPECT_NEAR(work_of(node, SP_CACHES_APART, "h", 4).bytes, 2 * x / 4 + rows + 16 * 8);
        EXPECT_NEAR(work_of(node, SP_CACHES_APART, "s", 4).bytes, 2 * x / 4 + rows / 4 + 16 * 8 / 4);
        stop();
    }
}

/* The same tables inside of attention: one row for each of the 64 sequences, none where nothing is turned. */
Test(kernel_work, tables_of_angles_in_attention)
{
    for (int64_t turns = 0; turns < 2; turns++) {
        start(24);
        build_opset(&build, CONTRIB, 1);
        half_input("qkv", "64,1,6144");
        half_input("pk", "64,8,8191,128");
        half_input("pv", "64,8,8191,128");
        build_input(&build, "lengths", SP_DTYPE_INT32, "64");
        build_ints(&build, "total", 1, (int64_t[]){8192});
        build_weight(&build, "cos", SP_DTYPE_FLOAT16, "131072,64");
        build_weight(&build, "sin", SP_DTYPE_FLOAT16, "131072,64");
        struct sp_node *node =
            build_node_in(&build, CONTRIB, "GroupQueryAttention", "qkv - - pk pv lengths total cos sin", "y K V");
        build_attr_int(&build, node, "num_heads", 32);
        build_attr_int(&build, node, "kv_num_heads", 8);
        build_attr_int(&build, node, "do_rotary", turns);
        build_outputs(&build, "y K V");
        infer();
        EXPECT_NEAR(bytes_of(node, SP_CACHES_IN_ONE_BUFFER),
                    2 * QUERY + 2 * PAST + 4 * ONE + 64 * 4 + 8 + (double)turns * 2 * 64 * 64 * 2);
        stop();
    }
}

/* ---- experts ---------------------------------------------------------------------------------------------------- */

static uint64_t state;

static uint32_t draw(uint32_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((state >> 33) % below);
}

/* How many different experts T tokens choose, each k different ones of E at random: the mean of many trials. */
static double distinct_experts(uint32_t tokens, uint32_t chosen, uint32_t experts)
{
    enum { TRIALS = 400 };
    double sum = 0;
    state = 7;
    for (uint32_t trial = 0; trial < TRIALS; trial++) {
        bool is_used[256] = {false};
        for (uint32_t t = 0; t < tokens; t++) {
            bool is_taken[256] = {false};
            for (uint32_t i = 0; i < chosen;) {
                const uint32_t expert = draw(experts);
                i += is_taken[expert] ? 0 : 1;
                is_taken[expert] = is_used[expert] = true;
            }
        }
        for (uint32_t e = 0; e < experts; e++)
            sum += is_used[e];
    }
    return sum / TRIALS;
}

static struct sp_node *experts(uint32_t tokens, uint32_t chosen, uint32_t count, bool is_quantized)
{
    char dims[64];
    start(18);
    build_opset(&build, CONTRIB, 1);
    (void)snprintf(dims, sizeof dims, "%u,512", tokens);
    half_input("x", dims);
    (void)snprintf(dims, sizeof dims, "%u,%u", tokens, count);
    half_input("router", dims);
    const enum sp_dtype dtype = is_quantized ? SP_DTYPE_UINT8 : SP_DTYPE_FLOAT16;
    (void)snprintf(dims, sizeof dims, "%u,1024,%u", count, is_quantized ? 256 : 512);
    build_weight(&build, "w1", dtype, dims);
    build_weight(&build, "w3", dtype, dims);
    (void)snprintf(dims, sizeof dims, "%u,512,%u", count, is_quantized ? 512 : 1024);
    build_weight(&build, "w2", dtype, dims);
    (void)snprintf(dims, sizeof dims, "%u,1024", count);
    build_weight(&build, "s1", SP_DTYPE_FLOAT16, dims);
    build_weight(&build, "s3", SP_DTYPE_FLOAT16, dims);
    (void)snprintf(dims, sizeof dims, "%u,512", count);
    build_weight(&build, "s2", SP_DTYPE_FLOAT16, dims);
    struct sp_node *node = is_quantized ? build_node_in(&build, CONTRIB, "QMoE", "x router w1 s1 - w2 s2 - w3 s3", "y")
                                        : build_node_in(&build, CONTRIB, "MoE", "x router w1 - w2 - w3", "y");
    build_attr_int(&build, node, "k", chosen);
    build_attr_int(&build, node, "normalize_routing_weights", 1);
    build_outputs(&build, "y");
    infer();
    return node;
}

static void expect_close(double value, double want)
{
    cr_expect(fabs(value - want) <= 0.03 * want, "%.17g is not about %.17g", value, want);
}

/* Between the kernels of an operator of experts: twice each result of both first products, of the gate and of the second
   product, for each token and each of its experts. */
static double passed_bytes(double tokens, double chosen)
{
    return 2 * tokens * chosen * (2 * 1024 + 1024 + 512) * 2;
}

Test(kernel_work, experts_that_are_used)
{
    static const uint32_t cases[][3] = {{1, 2, 8}, {3, 2, 8}, {64, 2, 8}, {1, 8, 256}, {16, 8, 256}, {64, 8, 256}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint32_t tokens = cases[i][0], chosen = cases[i][1], count = cases[i][2];
        const double used = distinct_experts(tokens, chosen, count), fixed = tokens * (2.0 * 512 + count) * 2;
        for (uint32_t q = 0; q < 2; q++) {
            struct sp_node *node = experts(tokens, chosen, count, q == 1);
            const double each = q == 1 ? 3 * 512 * 512 + 2 * (2 * 1024 + 512) : 3 * 512 * 1024 * 2;
            expect_close(bytes_of(node, SP_CACHES_APART), fixed + passed_bytes(tokens, chosen) + used * each);
            EXPECT_FLOPS(node, 2.0 * 3 * tokens * chosen * 512 * 1024 + 5.0 * tokens * count);
            /* Every other expert: half of those that are used, and half of the work. */
            const struct sp_kernel_work half = work_of(node, SP_CACHES_APART, "x", 2);
            expect_close(half.bytes, fixed + passed_bytes(tokens, chosen) / 2 + used / 2 * each);
            cr_expect_eq(half.more_starts, 5);
            EXPECT_NEAR(half.flops, 3.0 * tokens * chosen * 512 * 1024 + 5.0 * tokens * count);
            cr_expect_eq(half.kind, SP_KERNEL_PRODUCT);
            stop();
        }
    }
}

/* Half of the tokens need fewer experts, but more than half of them. */
Test(kernel_work, experts_of_a_part_of_the_tokens)
{
    struct sp_node *node = experts(64, 8, 256, false);
    const double each = 3.0 * 512 * 1024 * 2, fixed = 32 * (2.0 * 512 + 256) * 2;
    expect_close(work_of(node, SP_CACHES_APART, "n0", 2).bytes,
                 fixed + passed_bytes(32, 8) + distinct_experts(32, 8, 256) * each);
}

/* Keys that are the values, too: one cache of 64 sequences, 1024 positions of 576 elements. */
Test(kernel_work, keys_that_are_the_values)
{
    start(23);
    half_input("q", "64,16,1,576");
    half_input("kv", "64,1,1024,576");
    struct sp_node *node = build_node(&build, "Attention", "q kv kv", "y");
    build_outputs(&build, "y");
    infer();
    EXPECT_NEAR(bytes_of(node, SP_CACHES_APART), 2.0 * 64 * 576 * (16 + 1024 + 16));
    stop();
}
