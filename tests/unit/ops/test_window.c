/* What windows and sweeps say of a stage, against the evaluation of the same placement. */
#include <criterion/criterion.h>
#include <math.h>

#include "build_workload.h"
#include "search/grouping/internal.h"
#include "search/grouping/suffix.h"

#define NODES 24

static struct sp_arena *arena;
static struct sp_error error;

static void setup(void)
{
    arena = sp_arena_create(NULL);
}

static void teardown(void)
{
    sp_arena_destroy(arena);
}

TestSuite(window, .init = setup, .fini = teardown);

static uint32_t random_below(uint64_t *state, uint32_t bound)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % bound;
}

/* A random DAG; with views when `aliases`. The model's inputs are used anywhere. */
static struct sp_workload *random_workload(uint64_t *state, bool aliases, const struct sp_cluster *cluster)
{
    struct work_builder b;
    uint32_t made[NODES + 2], used = 0;
    work_init(&b, arena, NODES, 3 * NODES + 2, 1);
    made[used++] = work_input(&b, 1 + random_below(state, 20));
    made[used++] = work_input(&b, 1 + random_below(state, 20));
    for (uint32_t i = 0; i < NODES; i++) {
        uint32_t inputs[4] = {made[random_below(state, used)], SP_NO_WORK}, n = 1;
        uint32_t second = made[used - 1 - random_below(state, used < 4 ? used : 4)];
        if (second != inputs[0])
            inputs[n++] = second;
        if (random_below(state, 2) == 0)
            inputs[n++] = work_weight(&b, 1 + random_below(state, 50));
        inputs[n] = SP_NO_WORK;
        uint32_t result = work_node(&b, random_below(state, 10), 1 + random_below(state, 20), inputs);
        b.workload->nodes[i].workspace_bytes = random_below(state, 5);
        b.workload->nodes[i].inner_weight_bytes = random_below(state, 5);
        uint32_t of = b.workload->tensors[inputs[0]].alias_of;
        if (aliases && random_below(state, 4) == 0)
            work_alias(&b, result, of != SP_NO_WORK ? of : inputs[0]);
        made[used++] = result;
    }
    return work_finish(&b, cluster);
}

struct agreement {
    uint32_t compared, equal;
    double worst; /* largest share by which memory was overestimated */
};

static void expect_agreement(struct agreement *agreement, double memory, double interval, double compute,
                             const struct sp_stage_cost *exact, const char *what)
{
    cr_assert_float_eq(compute, exact->compute_seconds, 1e-9, "%s", what);
    cr_assert_float_eq(interval, exact->interval_seconds, 1e-9, "%s: %g, not %g", what, interval,
                       exact->interval_seconds);
    cr_assert_geq(memory, exact->total_bytes, "%s: %g bytes, but it needs %g", what, memory, exact->total_bytes);
    agreement->compared++;
    agreement->equal += memory == exact->total_bytes;
    agreement->worst = fmax(agreement->worst, memory / exact->total_bytes - 1);
}

static const struct sp_evaluation *evaluate(struct sp_grouping_search *search, const uint32_t *stage_of,
                                            uint32_t stages)
{
    uint32_t device[4] = {0, 1, 2, 3};
    struct sp_placement placement = {stages, (uint32_t *)stage_of, device};
    struct sp_evaluation *evaluation;
    cr_assert_eq(sp_evaluate(arena, search->workload, search->cluster, &placement, &evaluation, &error), SP_OK, "%s",
                 error.message);
    return evaluation;
}

static void start(struct sp_grouping_search *search, const struct sp_workload *workload,
                  const struct sp_cluster *cluster)
{
    struct sp_grouping_options options;
    sp_grouping_options_init(&options);
    cr_assert_eq(sp_search_init(search, arena, workload, cluster, &options, &error), SP_OK);
}

/* Every two-stage cut of the whole model: the window from the begin is the first stage. */
Test(window, a_first_stage_costs_what_the_evaluation_says)
{
    uint64_t state = 1;
    struct agreement agreement = {0};
    for (int round = 0; round < 60; round++) {
        struct sp_cluster *cluster = build_cluster(arena, 4, 1e9, 3, 0.25);
        struct sp_grouping_search search;
        struct sp_node_window window;
        start(&search, random_workload(&state, round % 2 == 1, cluster), cluster);
        uint32_t stage_of[NODES];
        sp_line_load(&search, search.live, NODES, NULL, 0, 0);
        sp_window_start(&search, &window, 0, 0);
        for (uint32_t i = 0; i < NODES; i++)
            stage_of[i] = 1;
        for (uint32_t cut = 1; cut < NODES; cut++) {
            sp_window_extend(&search, &window, cut - 1);
            stage_of[cut - 1] = 0;
            expect_agreement(&agreement, sp_window_memory(&window), sp_window_interval(&window), window.compute,
                             &evaluate(&search, stage_of, 2)->stages[0], "window");
        }
        sp_line_unload(&search);
    }
    cr_log_info("%u windows, memory of %u exact, at most %.2f too much\n", agreement.compared, agreement.equal,
                agreement.worst);
    cr_assert_gt(agreement.equal, agreement.compared / 2);
}

/* Stages 0 and 3 stay, every border between 1 and 2 is tried: both sides as the evaluation says. */
Test(window, both_sides_of_a_border_cost_what_the_evaluation_says)
{
    uint64_t state = 2;
    struct agreement left = {0}, right = {0};
    for (int round = 0; round < 100; round++) {
        struct sp_cluster *cluster = build_cluster(arena, 4, 1e9, 3, 0.25);
        struct sp_grouping_search search;
        struct sp_candidate around;
        struct sp_node_window window;
        struct sp_side sides[NODES + 1];
        start(&search, random_workload(&state, round % 2 == 1, cluster), cluster);
        cr_assert_eq(sp_candidate_init(&search, &around), SP_OK);
        const uint32_t first = 6, count = 12;
        around.stage_count = 4;
        for (uint32_t i = 0; i < 4; i++)
            around.stage_device[i] = i;
        for (uint32_t i = 0; i < NODES; i++)
            around.stage_of[i] = i < first ? 0 : i < first + count / 2 ? 1 : i < first + count ? 2 : 3;
        sp_line_load(&search, search.live + first, count, &around, 1, 2);
        sp_window_start_left(&search, &window, &around, 1, 2);
        struct sp_node_window windows[NODES];
        for (uint32_t i = 0; i < count; i++) {
            sp_window_extend(&search, &window, i);
            windows[i + 1] = window;
        }
        cr_assert_eq(sp_suffix_scan(&search, &around, 1, 2, sides), SP_OK);
        sp_line_unload(&search);
        for (uint32_t cut = 1; cut < count; cut++) {
            for (uint32_t i = 0; i < count; i++)
                around.stage_of[first + i] = i < cut ? 1 : 2;
            const struct sp_evaluation *exact = evaluate(&search, around.stage_of, 4);
            expect_agreement(&left, sp_window_memory(&windows[cut]), sp_window_interval(&windows[cut]),
                             windows[cut].compute, &exact->stages[1], "left");
            expect_agreement(&right, sp_side_memory(&sides[cut]), sp_side_interval(&sides[cut]), sides[cut].compute,
                             &exact->stages[2], "right");
        }
    }
    cr_log_info("left: %u of %u exact, %.2f; right: %u of %u exact, %.2f\n", left.equal, left.compared, left.worst,
                right.equal, right.compared, right.worst);
    cr_assert_gt(left.equal, left.compared / 4);
    cr_assert_gt(right.equal, right.compared / 4);
}
