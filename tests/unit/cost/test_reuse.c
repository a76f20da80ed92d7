/* What a planned arena takes, worked out by hand from the rules in cost/buffer_reuse.h. */
#include <criterion/criterion.h>

#include "build_model.h"
#include "build_workload.h"
#include "cost/buffer_reuse.h"

static struct sp_arena *arena;

static void setup(void)
{
    arena = sp_arena_create(NULL);
}

static void teardown(void)
{
    sp_arena_destroy(arena);
}

TestSuite(reuse, .init = setup, .fini = teardown);

static double peak(const struct sp_workload *workload, uint32_t *stage_of, uint32_t stage)
{
    uint32_t devices[] = {0, 1}, nodes[64], count = 0;
    const struct sp_placement placement = {.stage_count = 2, .stage_of = stage_of, .stage_device = devices};
    for (uint32_t n = 0; n < workload->node_count; n++)
        if (stage_of[n] == stage)
            nodes[count++] = n;
    return sp_reuse_peak(arena, workload, &(struct sp_placed_stage){&placement, stage, count, nodes});
}

/* a(10) b(10) c(10) d(20): c takes a's memory, which keeps it alive; d is new while c's is still there. */
Test(reuse, gives_dead_memory_to_its_like)
{
    struct work_builder builder;
    struct sp_cluster *cluster = build_cluster(arena, 2, 1e9, 1e9, 0);
    work_init(&builder, arena, 8, 16, 1);
    uint32_t x = work_input(&builder, 7);
    uint32_t a = WORK_NODE(&builder, 1, 10, x), b = WORK_NODE(&builder, 1, 10, a), c = WORK_NODE(&builder, 1, 10, b);
    (void)WORK_NODE(&builder, 1, 20, c);
    cr_expect_eq(peak(work_finish(&builder, cluster), (uint32_t[8]){0}, 0), 10 + 20); /* b is gone by then */
}

/* The memory of a tensor of another size is of no use, and goes when it is dead: 10, then 10 + 20, then 20 + 30. */
Test(reuse, drops_what_nobody_takes)
{
    struct work_builder builder;
    struct sp_cluster *cluster = build_cluster(arena, 2, 1e9, 1e9, 0);
    work_init(&builder, arena, 8, 16, 1);
    uint32_t x = work_input(&builder, 7);
    uint32_t a = WORK_NODE(&builder, 1, 10, x), b = WORK_NODE(&builder, 1, 20, a);
    (void)WORK_NODE(&builder, 1, 30, b);
    cr_expect_eq(peak(work_finish(&builder, cluster), (uint32_t[8]){0}, 0), 50);
}

/* Kept for its like: a (10) is dead when b (20) and c (30) are made, but d, of 10, takes its memory later. */
Test(reuse, keeps_memory_until_the_last_that_has_it)
{
    struct work_builder builder;
    struct sp_cluster *cluster = build_cluster(arena, 2, 1e9, 1e9, 0);
    work_init(&builder, arena, 8, 16, 1);
    uint32_t x = work_input(&builder, 7);
    uint32_t a = WORK_NODE(&builder, 1, 10, x), b = WORK_NODE(&builder, 1, 20, a), c = WORK_NODE(&builder, 1, 30, b);
    uint32_t d = WORK_NODE(&builder, 1, 10, c);
    (void)WORK_NODE(&builder, 1, 40, d);
    cr_expect_eq(peak(work_finish(&builder, cluster), (uint32_t[8]){0}, 0), 10 + 20 + 30);
}

/* What goes to another stage stays to the end, and nobody takes it. */
Test(reuse, keeps_what_is_sent)
{
    struct work_builder builder;
    struct sp_cluster *cluster = build_cluster(arena, 2, 1e9, 1e9, 0);
    uint32_t stage_of[8] = {0, 0, 0, 1};
    work_init(&builder, arena, 8, 16, 1);
    uint32_t x = work_input(&builder, 7);
    uint32_t a = WORK_NODE(&builder, 1, 10, x), b = WORK_NODE(&builder, 1, 10, a), c = WORK_NODE(&builder, 1, 10, b);
    (void)WORK_NODE(&builder, 1, 10, a, c);
    cr_expect_eq(peak(work_finish(&builder, cluster), stage_of, 0), 30);
    cr_expect_eq(peak(builder.workload, stage_of, 1), 10); /* what is received is not the arena's */
}

/* ---- models ---- */

static double model_peak(struct build *build)
{
    struct sp_cluster *cluster;
    struct sp_workload *workload;
    cr_assert_eq(build_infer(build), SP_OK, "%s", build->err.message);
    cr_assert_eq(sp_cluster_uniform(arena, "cpu-core", 2, &cluster, &build->err), SP_OK);
    cr_assert_eq(sp_workload_from_model(arena, build->model, cluster, NULL, &workload, &build->err), SP_OK, "%s",
                 build->err.message);
    double bytes = peak(workload, (uint32_t[8]){0}, 0);
    build_release(build);
    return bytes;
}

/* Relu writes over the product; Erf does not, and what it leaves fits nothing else. */
Test(reuse, runs_activations_in_place)
{
    struct build build;
    build_init(&build, 17);
    build_input(&build, "x", SP_DTYPE_FLOAT, "4,8");
    build_weight(&build, "w", SP_DTYPE_FLOAT, "8,16");
    build_node(&build, "MatMul", "x w", "m");
    build_node(&build, "Relu", "m", "r");
    build_node(&build, "Erf", "r", "e");
    build_node(&build, "Tanh", "e", "y");
    build_outputs(&build, "y");
    cr_expect_eq(model_peak(&build), 2 * 4 * 16 * sizeof(float));
}

/* x[..,8] times w[8,16] plus a bias, and Relu over it. */
static double biased(const char *x, const char *bias, const char *others)
{
    struct build build;
    build_init(&build, 17);
    build_input(&build, "x", SP_DTYPE_FLOAT, x);
    build_weight(&build, "w", SP_DTYPE_FLOAT, "8,16");
    build_weight(&build, "b", SP_DTYPE_FLOAT, bias);
    build_node(&build, "MatMul", "x w", "m");
    build_node(&build, "Add", "b m", "s");
    build_node(&build, "Relu", "s", "y");
    if (others[0] != '\0')
        build_node(&build, "Neg", "m", others);
    build_outputs(&build, others[0] != '\0' ? "y z" : "y");
    return model_peak(&build);
}

Test(reuse, makes_a_product_and_its_bias_at_once)
{
    const double one = 2 * 3 * 16 * sizeof(float);
    cr_expect_eq(biased("6,8", "16", ""), one);
    cr_expect_eq(biased("2,3,8", "16", ""), one);
    cr_expect_eq(biased("2,3,8", "1", ""), 2 * one, "one number for all columns is no bias of a Gemm");
    cr_expect_eq(biased("2,3,8", "16", "z"), 3 * one, "the product itself is used: it, the sum in place, and z");
}

/* a[6,16] is dead and a matrix when the Gemm of [2,3,8] needs one; a Relu of [2,3,16] cannot have it. */
Test(reuse, gives_the_memory_of_matrices_to_products_of_more_axes)
{
    struct build build;
    build_init(&build, 17);
    build_input(&build, "p", SP_DTYPE_FLOAT, "6,16");
    build_input(&build, "x", SP_DTYPE_FLOAT, "2,3,8");
    build_weight(&build, "w", SP_DTYPE_FLOAT, "8,16");
    build_weight(&build, "b", SP_DTYPE_FLOAT, "16");
    build_node(&build, "Erf", "p", "a");
    build_node(&build, "ReduceSum", "a", "c"); /* one number, kept */
    build_node(&build, "MatMul", "x w", "m");
    build_node(&build, "Add", "m b", "s");
    build_node(&build, "ReduceMax", "s", "d");
    build_outputs(&build, "c d");
    cr_expect_eq(model_peak(&build), (6 * 16 + 2) * sizeof(float));
}

Test(reuse, passes_on_what_a_dropout_leaves)
{
    struct build build;
    build_init(&build, 17);
    build_input(&build, "x", SP_DTYPE_FLOAT, "4,8");
    build_floats(&build, "ratio", -1, (float[]){0});
    build_input(&build, "mode", SP_DTYPE_BOOL, "");
    build_node(&build, "Erf", "x", "a");
    build_node(&build, "Dropout", "a ratio mode", "d mask");
    build_node(&build, "Relu", "d", "y");
    build_outputs(&build, "y");
    cr_expect_eq(model_peak(&build), 4 * 8 * sizeof(float));
}
