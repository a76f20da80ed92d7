/* Micro-batches: the formulas beside a simulation of events. */
#include <criterion/criterion.h>
#include <math.h>

#include "base/random.h"
#include "random_workload.h"

#define STAGES 6
#define MOST   9 /* micro-batches */

static struct sp_arena *arena;
static struct sp_error err;

static void setup(void)
{
    arena = sp_arena_create(NULL);
    sp_error_clear(&err);
}

static void teardown(void)
{
    sp_arena_destroy(arena);
}

TestSuite(micro_batches, .init = setup, .fini = teardown);

/* 100 bytes a second, 0.25 s of latency. */
static struct sp_cluster *cluster_of(uint32_t count)
{
    char text[512];
    (void)snprintf(text, sizeof text,
                   "{\"groups\": [{\"count\": %u, \"device\": {\"name\": \"d\", \"memory_bytes\": 1e6,"
                   " \"memory_bandwidth\": 1000, \"flops\": {\"float32\": 1000}}}],"
                   " \"mesh\": [{\"name\": \"link\", \"size\": %u, \"bandwidth\": 100, \"latency\": 0.25}]}",
                   count, count);
    return cluster_from(arena, text);
}

static const struct sp_evaluation *evaluate(struct sp_workload *work, const struct sp_cluster *cluster, uint32_t stages,
                                            uint32_t micro_batches)
{
    uint32_t *stage_of = SP_NEW_ARRAY(arena, work->node_count, uint32_t);
    uint32_t *device = SP_NEW_ARRAY(arena, stages, uint32_t);
    for (uint32_t i = 0; i < work->node_count; i++)
        stage_of[i] = i < stages ? i : stages - 1;
    for (uint32_t i = 0; i < stages; i++)
        device[i] = i;
    const struct sp_placement placement = {stages, stage_of, device};
    struct sp_evaluation *evaluation = NULL;
    work->micro_batches = micro_batches;
    cr_assert_eq(sp_evaluate(arena, work, cluster, &placement, &evaluation, &err), SP_OK, "%s", err.message);
    return evaluation;
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

/* When the last of so many parts leaves a row of servers, each of which takes one at a time in order: a stage, the link
   behind it, and so on. All are there at 0. */
static double finish(uint32_t servers, const double *seconds, uint32_t parts)
{
    double *free_at = SP_NEW_ARRAY(arena, servers, double), end = 0;
    for (uint32_t part = 0; part < parts; part++) {
        double at = 0;
        for (uint32_t s = 0; s < servers; s++)
            at = free_at[s] = later(at, free_at[s]) + seconds[s];
        end = at;
    }
    return end;
}

/* Unequal stages, some of them behind links that take longer than any of them. */
Test(micro_batches, a_pipeline_takes_what_events_take)
{
    const struct sp_cluster *cluster = cluster_of(STAGES);
    uint64_t random = 7;
    for (uint32_t round = 0; round < 300; round++) {
        const uint32_t stages = 1 + sp_random_below(&random, STAGES);
        struct sp_workload *work = workload_new(arena, cluster);
        uint32_t tensor = workload_input(work, 10);
        double seconds[2 * STAGES];
        uint32_t servers = 0;
        for (uint32_t s = 0; s < stages; s++) {
            const double compute = (double)(1 + sp_random_below(&random, 400)) / 64;
            const double bytes = (double)(1 + sp_random_below(&random, 500));
            const uint32_t node = workload_node(work, compute, 1, &tensor);
            tensor = workload_result(work, node, bytes);
            seconds[servers++] = compute;
            if (s + 1 < stages)
                seconds[servers++] = 0.25 + bytes / 100;
        }
        work->tensors[tensor].is_output = true;
        workload_finish(work);
        for (uint32_t parts = 1; parts <= MOST; parts++) {
            const struct sp_evaluation *evaluation = evaluate(work, cluster, stages, parts);
            const double simulated = finish(servers, seconds, parts), two = finish(servers, seconds, 8 * parts),
                         one = finish(servers, seconds, 7 * parts);
            cr_assert(fabs(evaluation->latency_seconds - simulated) <= 1e-9 * simulated,
                      "%u parts through %u stages: %.17g, simulated %.17g", parts, stages, evaluation->latency_seconds,
                      simulated);
            cr_assert(fabs(sp_evaluation_interval(evaluation) - (two - one)) <= 1e-9 * two,
                      "%u parts through %u stages: one request every %.17g, simulated %.17g", parts, stages,
                      sp_evaluation_interval(evaluation), two - one);
            cr_assert(fabs(evaluation->run_seconds - finish(servers, seconds, 1)) <= 1e-9 * simulated);
        }
    }
}

/* a, then b and c side by side, then d: what events take is never more. */
Test(micro_batches, branches_take_no_longer)
{
    const struct sp_cluster *cluster = cluster_of(4);
    uint64_t random = 11;
    for (uint32_t round = 0; round < 200; round++) {
        struct sp_workload *work = workload_new(arena, cluster);
        double c[4], sent[4];
        for (uint32_t i = 0; i < 4; i++) {
            c[i] = (double)(1 + sp_random_below(&random, 400)) / 64;
            sent[i] = (double)(1 + sp_random_below(&random, 300));
        }
        const uint32_t x = workload_input(work, 10);
        const uint32_t t = workload_result(work, workload_node(work, c[0], 1, &x), sent[0]);
        const uint32_t u = workload_result(work, workload_node(work, c[1], 1, &t), sent[1]);
        const uint32_t v = workload_result(work, workload_node(work, c[2], 1, &t), sent[2]);
        const uint32_t y = workload_result(work, workload_node(work, c[3], 2, (uint32_t[]){u, v}), 10);
        work->tensors[y].is_output = true;
        workload_finish(work);
        for (uint32_t parts = 2; parts <= MOST; parts++) {
            const struct sp_evaluation *evaluation = evaluate(work, cluster, 4, parts);
            double stage_free[4] = {0}, link_free[4] = {0}, end = 0; /* links: a-b, a-c, b-d, c-d */
            for (uint32_t part = 0; part < parts; part++) {
                const double a = stage_free[0] += c[0];
                const double ab = link_free[0] = later(a, link_free[0]) + 0.25 + sent[0] / 100;
                const double ac = link_free[1] = later(a, link_free[1]) + 0.25 + sent[0] / 100;
                const double b = stage_free[1] = later(ab, stage_free[1]) + c[1];
                const double d = stage_free[2] = later(ac, stage_free[2]) + c[2];
                const double bd = link_free[2] = later(b, link_free[2]) + 0.25 + sent[1] / 100;
                const double cd = link_free[3] = later(d, link_free[3]) + 0.25 + sent[2] / 100;
                end = stage_free[3] = later(later(bd, cd), stage_free[3]) + c[3];
            }
            cr_assert_geq(evaluation->latency_seconds * (1 + 1e-9), end);
        }
    }
}

/* Each part has a state of its own, which its stage keeps while others run. */
Test(micro_batches, states_of_all_parts_are_kept)
{
    const struct sp_cluster *cluster = cluster_of(2);
    struct sp_workload *work = workload_new(arena, cluster);
    const uint32_t x = workload_input(work, 10), past = workload_input(work, 300);
    const uint32_t t = workload_result(work, workload_node(work, 1, 1, &x), 100);
    const uint32_t node = workload_node(work, 2, 2, (uint32_t[]){t, past});
    const uint32_t present = workload_result(work, node, 400);
    work->tensors[present].is_output = true;
    workload_finish(work);
    const struct sp_work_state state = {past, present, 0};
    work->state_count = 1;
    work->states = &state;
    const double alone = evaluate(work, cluster, 2, 0)->stages[1].total_bytes;
    sp_workload_set_micro_batches(work, 4);
    cr_assert_eq(sp_micro_waiting(work, present), 3);
    cr_assert_eq(sp_micro_waiting(work, t), 0);
    const struct sp_evaluation *cut = evaluate(work, cluster, 2, 4);
    cr_assert_float_eq(cut->stages[1].total_bytes, alone + 3 * 400, 1e-9);
    cr_assert_float_eq(cut->stages[1].cache_bytes, 3 * 400, 1e-9);
    cr_assert_float_eq(cut->stages[0].cache_bytes, 0, 1e-9);
}

/* ---- loops -------------------------------------------------------------------------------------------------------- */

/* Seconds of a step in the long run: of a row of servers through which each part goes again and again, every time as soon
   as it is through. */
static double step_of(uint32_t servers, const double *seconds, uint32_t parts)
{
    enum { BEFORE = 200, STEPS = 400 };
    double free_at[STAGES] = {0}, ready[MOST] = {0}, start = 0;
    for (uint32_t step = 0; step < BEFORE + STEPS; step++) {
        for (uint32_t part = 0; part < parts; part++) {
            double at = ready[part];
            for (uint32_t s = 0; s < servers; s++)
                at = free_at[s] = later(at, free_at[s]) + seconds[s];
            ready[part] = at;
        }
        if (step == BEFORE - 1)
            start = ready[0];
    }
    return (ready[0] - start) / STEPS;
}

/* Unequal stages, fewer and more parts than fill them. */
Test(micro_batches, a_step_of_a_loop_takes_what_events_take)
{
    uint64_t random = 5;
    uint32_t filled = 0;
    for (uint32_t round = 0; round < 500; round++) {
        const uint32_t servers = 1 + sp_random_below(&random, STAGES), parts = 1 + sp_random_below(&random, MOST);
        double seconds[STAGES], latency = 0, interval = 0;
        for (uint32_t s = 0; s < servers; s++) {
            seconds[s] = 1 + sp_random_below(&random, 20);
            latency += seconds[s];
            interval = later(interval, seconds[s]);
        }
        const double expected = step_of(servers, seconds, parts);
        filled += parts * interval > latency;
        cr_assert_float_eq(sp_micro_step(parts, latency, interval), expected, 1e-9 * expected,
                           "round %u: %u parts through %u stages take %g, not %g", round, parts, servers, expected,
                           sp_micro_step(parts, latency, interval));
    }
    cr_assert(filled > 100 && filled < 400);
}
