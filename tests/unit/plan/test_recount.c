/*
 * The count that plans' memory is held to (recount.h): it agrees with the evaluation of random placements and random
 * strategies, and it finds a figure that is wrong.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "build_sharded.h"
#include "onnx_files.h"
#include "random_workload.h"
#include "recount.h"

#define ROUNDS 500

static struct sp_arena *arena;

static void setup(void)
{
    arena = sp_arena_create(NULL);
}

static void teardown(void)
{
    sp_arena_destroy(arena);
}

TestSuite(recount, .init = setup, .fini = teardown);

/* Whether a placement and its evaluation are refused, with a word of the sentence that says so. */
static void expect_refused(const struct sp_workload *workload, const struct sp_cluster *cluster,
                           const struct sp_placement *placement, const struct sp_sharded_stage *sharded,
                           const struct sp_evaluation *evaluation, const char *word)
{
    char why[256] = "";
    cr_assert_not(recount_holds(workload, cluster, placement, sharded, evaluation, true, why), "%s", word);
    cr_expect_not_null(strstr(why, word), "%s: %s", word, why);
}

/* Each figure of each stage off by a byte, and memory of a byte too little. */
static void expect_mutants_refused(const struct sp_workload *workload, const struct sp_cluster *cluster,
                                   const struct sp_placement *placement, const struct sp_sharded_stage *sharded,
                                   const struct sp_evaluation *evaluation)
{
    for (uint32_t s = 0; s < evaluation->stage_count; s++) {
        struct sp_stage_cost *cost = &evaluation->stages[s];
        double *const figures[] = {&cost->weights_bytes, &cost->activations_peak_bytes, &cost->communication_bytes,
                                   &cost->cache_bytes, &cost->total_bytes};
        for (uint32_t f = 0; f < sizeof figures / sizeof *figures; f++) {
            for (int by = -1; by <= 1; by += 2) {
                *figures[f] += by;
                expect_refused(workload, cluster, placement, sharded, evaluation, "counted");
                *figures[f] -= by;
            }
        }
        struct sp_cluster small = *cluster;
        small.reserved_bytes = sp_cluster_memory(cluster, placement->stage_device[s]) - cost->total_bytes + 1;
        expect_refused(workload, &small, placement, sharded, evaluation, "which has");
    }
    if (placement->stage_count > 1) {
        const uint32_t device = placement->stage_device[1];
        placement->stage_device[1] = placement->stage_device[0];
        expect_refused(workload, cluster, placement, sharded, evaluation, "in another stage too");
        placement->stage_device[1] = device;
    }
}

Test(recount, random_placements_of_whole_nodes)
{
    static const char four[] = "{\"device\":\"a100-sxm4-80gb\",\"count\":4}";
    struct sp_cluster *cluster = cluster_from(arena, four);
    uint64_t seed = 11;
    uint32_t several = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        struct sp_workload *work = workload_random(arena, cluster, 2 + pick(&seed, 20), &seed);
        uint32_t stage_of[WORKLOAD_NODES] = {0}, devices[] = {2, 0, 3, 1}, stages = 1 + pick(&seed, 4);
        for (uint32_t n = 0; n < work->node_count; n++) {
            uint32_t least = 0;
            for (uint32_t i = 0; i < work->nodes[n].input_count; i++) {
                const uint32_t maker = work->tensors[work->nodes[n].inputs[i]].producer;
                least = maker != SP_NO_WORK && stage_of[maker] > least ? stage_of[maker] : least;
            }
            stage_of[n] = least + pick(&seed, stages - least);
        }
        struct sp_placement placement = {.stage_count = stages, .stage_of = stage_of, .stage_device = devices};
        struct sp_evaluation *evaluation;
        struct sp_error err = {0};
        cr_assert_eq(sp_evaluate(arena, work, cluster, &placement, &evaluation, &err), SP_OK, "%s", err.message);
        char why[256] = "";
        cr_assert(recount_holds(work, cluster, &placement, NULL, evaluation, true, why), "round %u: %s", round, why);
        if (round % 50 == 0)
            expect_mutants_refused(work, cluster, &placement, NULL, evaluation);
        several += evaluation->transfer_count > 1;
        sp_arena_rewind(arena, mark);
    }
    cr_expect_gt(several, ROUNDS / 4);
}

/* sharded_make() itself asserts what is counted. */
Test(recount, random_strategies)
{
    const struct onnx_mlp mlp = {.layers = 4, .width = 64, .batch = "16"};
    for (uint64_t seed = 0; seed < 30; seed++) {
        struct sharded_model model;
        struct sp_buf file;
        onnx_mlp(&file, &mlp);
        sharded_make(&model, file,
                     &(struct sharded_options){.stages = 1 + seed % 3,
                                               .replicas = 1 + seed % 2,
                                               .axis_count = 1 + seed % 2,
                                               .sizes = {2, 2},
                                               .is_first_whole = seed % 5 == 4,
                                               .choose = sharded_choose_any,
                                               .context = &seed});
        const struct sp_plan *plan = model.plan;
        if (seed % 5 == 0)
            expect_mutants_refused(plan->workload, plan->cluster, &plan->result->placement, plan->result->sharded,
                                   plan->result->evaluation);
        sharded_release(&model);
    }
}
