/* Any sets of nodes on devices: what they cost, and the search for them, against running and trying everything. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "cost/pieces.h"
#include "how_many.h"
#include "random_workload.h"
#include "recount.h"
#include "recount_shared.h"

#define DEVICE(name, memory)                                                                                           \
    "{\"name\":\"" name "\",\"memory_bytes\":" memory ",\"memory_bandwidth\":1000,\"flops\":{\"float32\":1000}}"
#define BOXES(count, memory)                                                                                           \
    "{\"groups\":[{\"count\":" count ",\"device\":" DEVICE("d", memory) "}],"                                          \
                                                                        "\"mesh\":[{\"name\":\"link\",\"size\":" count \
                                                                        ",\"bandwidth\":128,\"latency\":0.25}]}"
#define NODES_OF_BOXES(memory)                                                                                         \
    "{\"groups\":[{\"count\":2,\"device\":" DEVICE("d", memory) "},{\"count\":2,\"device\":" DEVICE(                   \
        "e", memory) "}],"                                                                                             \
                     "\"mesh\":[{\"name\":\"node\",\"size\":2,\"bandwidth\":64,\"latency\":1},"                        \
                     "{\"name\":\"gpu\",\"size\":2,\"bandwidth\":256,\"latency\":0.25}]}"

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

TestSuite(any_sets, .init = setup, .fini = teardown);

/* A graph of costs: nodes keep bytes, use up to three tensors of nodes before them, and make one or two. */
static struct sp_workload *random_costs(const struct sp_cluster *cluster, uint32_t count, uint64_t *seed)
{
    struct sp_workload *work = workload_new(arena, cluster);
    uint32_t made = 0;
    for (uint32_t n = 0; n < count; n++) {
        uint32_t inputs[3], used = made == 0 ? 0 : pick(seed, made < 3 ? made + 1 : 4);
        for (uint32_t i = 0; i < used; i++) {
            const uint32_t near = made < 5 ? made : 5;
            bool is_new = true;
            inputs[i] = pick(seed, 3) == 0 ? pick(seed, made) : made - 1 - pick(seed, near);
            for (uint32_t j = 0; j < i; j++)
                is_new = is_new && inputs[j] != inputs[i];
            if (!is_new) {
                i--;
                used--;
            }
        }
        const uint32_t node = workload_node(work, 1 + pick(seed, 6), used, inputs);
        work->nodes[node].inner_weight_bytes = 8 * pick(seed, 20);
        work->nodes[node].workspace_bytes = pick(seed, 4) == 0 ? 16 * pick(seed, 8) : 0;
        for (uint32_t o = 0, outputs = 1 + (pick(seed, 4) == 0); o < outputs; o++, made++)
            (void)workload_result(work, node, 16 * pick(seed, 12));
    }
    workload_finish(work);
    for (uint32_t t = 0; t < work->tensor_count; t++) {
        work->tensors[t].is_output = work->tensors[t].consumer_count == 0;
        work->tensors[t].has_transfer_seconds = pick(seed, 6) == 0;
        work->tensors[t].transfer_seconds = pick(seed, 4);
    }
    return work;
}

/* Stages are the device's nodes, in an order in which nothing is used before it is there. */
static void expect_pieces(const struct sp_workload *work, const struct sp_placement *placement,
                          const uint32_t *device_of)
{
    for (uint32_t n = 0; n < work->node_count; n++) {
        cr_assert_lt(placement->stage_of[n], placement->stage_count);
        cr_assert_eq(placement->stage_device[placement->stage_of[n]], device_of[n]);
        for (uint32_t i = 0; i < work->nodes[n].input_count; i++)
            cr_assert_leq(placement->stage_of[work->tensors[work->nodes[n].inputs[i]].producer],
                          placement->stage_of[n]);
    }
}

/* The evaluation with other times is that of a workload which takes them. */
static void expect_other_times(struct sp_workload *work, const struct sp_cluster *cluster,
                               const struct sp_placement *placement, const struct sp_evaluation *evaluation)
{
    double *compute = SP_NEW_ARRAY(arena, evaluation->stage_count, double), latency, interval;
    double *transfer = SP_NEW_ARRAY(arena, evaluation->transfer_count, double);
    struct sp_evaluation *slower;
    for (uint32_t s = 0; s < evaluation->stage_count; s++)
        compute[s] = evaluation->stages[s].compute_seconds * (1 + s % 3);
    for (uint32_t n = 0; n < work->node_count; n++) {
        for (uint32_t k = 0; k < work->kind_count; k++)
            work->nodes[n].seconds[k] *= 1 + placement->stage_of[n] % 3;
    }
    for (uint32_t i = 0; i < evaluation->transfer_count; i++)
        transfer[i] = 2.5 * evaluation->transfers[i].seconds;
    for (uint32_t t = 0; t < work->tensor_count; t++)
        work->tensors[t].transfer_seconds *= 2.5;
    struct sp_cluster slow = *cluster;
    slow.levels = SP_NEW_ARRAY(arena, cluster->level_count, struct sp_mesh_level);
    for (uint32_t l = 0; l < cluster->level_count; l++) {
        slow.levels[l] = cluster->levels[l];
        slow.levels[l].latency *= 2.5;
        slow.levels[l].bandwidth /= 2.5;
    }
    cr_assert_eq(sp_evaluate(arena, work, &slow, placement, &slower, &err), SP_OK, "%s", err.message);
    cr_assert(sp_evaluation_retime(arena, evaluation, placement, &(struct sp_other_times){compute, transfer}, &latency,
                                   &interval));
    cr_assert_float_eq(latency, slower->latency_seconds, 1e-9 * latency);
    cr_assert_float_eq(interval, slower->interval_seconds, 1e-9 * interval);
}

/* Random assignments cost what running them says. */
Test(any_sets, costs_are_those_of_the_schedule, .timeout = 120)
{
    uint64_t seed = 3;
    uint32_t shared = 0, held = 0;
    for (uint32_t round = 0; round < 600; round++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        struct sp_cluster *cluster = cluster_from(arena, round % 2 ? BOXES("3", "5000") : NODES_OF_BOXES("5000"));
        struct sp_workload *work = random_costs(cluster, 2 + pick(&seed, 20), &seed);
        uint32_t device_of[WORKLOAD_NODES];
        for (uint32_t n = 0; n < work->node_count; n++)
            device_of[n] = n > 0 && pick(&seed, 3) > 0 ? device_of[n - 1] : pick(&seed, cluster->device_count);
        struct sp_placement *placement = sp_pieces_cut(arena, work, cluster, device_of);
        struct sp_evaluation *evaluation;
        char why[256] = "";
        expect_pieces(work, placement, device_of);
        cr_assert_eq(sp_evaluate(arena, work, cluster, placement, &evaluation, &err), SP_OK, "%s", err.message);
        cr_assert(recount_shared_holds(work, cluster, placement, evaluation, false, why), "round %u: %s", round, why);
        shared += placement->shares_devices;
        for (uint32_t s = 0; s < placement->stage_count; s++)
            held += evaluation->stages[s].waiting_bytes > 0;
        expect_other_times(work, cluster, placement, evaluation);
        sp_arena_rewind(arena, mark);
    }
    cr_expect_gt(shared, 200);
    cr_expect_gt(held, 200);
}

/* Where every stage has a device of its own, sharing changes nothing. */
Test(any_sets, contiguous_sets_cost_the_same)
{
    uint64_t seed = 4;
    for (uint32_t round = 0; round < 200; round++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        struct sp_cluster *cluster = cluster_from(arena, NODES_OF_BOXES("5000"));
        struct sp_workload *work = random_costs(cluster, 8 + pick(&seed, 10), &seed);
        uint32_t device_of[WORKLOAD_NODES];
        const uint32_t devices[4] = {2, 0, 3, 1};
        for (uint32_t n = 0; n < work->node_count; n++)
            device_of[n] = devices[4 * n / work->node_count];
        struct sp_placement *placement = sp_pieces_cut(arena, work, cluster, device_of), same = *placement;
        struct sp_evaluation *plain, *sharing;
        cr_assert_eq(placement->stage_count, 4);
        cr_assert(!placement->shares_devices);
        same.shares_devices = true;
        cr_assert_eq(sp_evaluate(arena, work, cluster, placement, &plain, &err), SP_OK);
        cr_assert_eq(sp_evaluate(arena, work, cluster, &same, &sharing, &err), SP_OK);
        cr_assert_float_eq(plain->interval_seconds, sharing->interval_seconds, 1e-9);
        cr_assert_float_eq(plain->latency_seconds, sharing->latency_seconds, 1e-9);
        cr_assert_float_eq(plain->communication_bytes, sharing->communication_bytes, 1e-9);
        cr_assert_eq(plain->device_count, sharing->device_count);
        for (uint32_t s = 0; s < 4; s++) {
            cr_assert_float_eq(plain->stages[s].total_bytes, sharing->stages[s].total_bytes, 1e-9);
            cr_assert_float_eq(plain->stages[s].interval_seconds, sharing->stages[s].interval_seconds, 1e-9);
            cr_assert_float_eq(plain->stages[s].start_seconds, sharing->stages[s].start_seconds, 1e-9);
        }
        sp_arena_rewind(arena, mark);
    }
}

/*
 * a (1 s, 100 bytes) on device 0, b on device 1, c on device 0, which uses a's tensor again. b's request is two periods
 * behind a's, c's two more: while c runs, the tensors of four later requests wait beside its own.
 */
Test(any_sets, requests_on_their_way_hold_tensors)
{
    struct sp_cluster *cluster = cluster_from(arena, BOXES("2", "5000"));
    struct sp_workload *work = workload_new(arena, cluster);
    const uint32_t a = workload_result(work, workload_node(work, 1, 0, NULL), 100);
    const uint32_t b = workload_result(work, workload_node(work, 1, 1, &a), 10);
    (void)workload_node(work, 1, 2, (uint32_t[]){a, b});
    workload_finish(work);
    struct sp_placement *placement = sp_pieces_cut(arena, work, cluster, (uint32_t[]){0, 1, 0});
    struct sp_evaluation *evaluation;
    cr_assert_eq(sp_evaluate(arena, work, cluster, placement, &evaluation, &err), SP_OK);
    cr_assert_eq(evaluation->stage_count, 3);
    cr_expect_eq(evaluation->device_count, 2);
    cr_expect_float_eq(evaluation->stages[0].waiting_bytes, 400, 1e-9);
    cr_expect_float_eq(evaluation->stages[2].activations_peak_bytes, 400 + 100 + 10, 1e-9);
    cr_expect_float_eq(evaluation->stages[0].communication_bytes, 2 * 100 + 2 * 10, 1e-9);
    cr_expect_float_eq(evaluation->interval_seconds, 2, 1e-9);
    cr_expect_float_eq(evaluation->latency_seconds, 3 + 0.25 + 100 / 128.0 + 0.25 + 10 / 128.0, 1e-9);
}

/* ---- the search ------------------------------------------------------------------------------------------------- */

static struct sp_search_result *search(const struct sp_workload *work, const struct sp_cluster *cluster, bool any_sets)
{
    struct sp_joint_options options;
    struct sp_search_result *result = NULL;
    sp_joint_options_init(&options);
    options.any_sets = any_sets;
    options.skips_routes = true; /* else several devices may have a node, which any sets do not do */
    options.skip_minimum_memory = true;
    enum sp_status status = sp_joint_search(arena, work, NULL, cluster, &options, &result, &err);
    if (status == SP_ERR_NOFIT) {
        sp_error_clear(&err);
        return NULL;
    }
    cr_assert_eq(status, SP_OK, "%s", err.message);
    recount_expect_result(work, cluster, result);
    sp_search_result_release(result); /* what is read of it is in the arena */
    return result;
}

/* The best of all assignments of nodes to devices that fit; INFINITY: none does. */
static double try_all(const struct sp_workload *work, const struct sp_cluster *cluster)
{
    uint32_t device_of[WORKLOAD_NODES] = {0}, n = 0;
    double best = INFINITY;
    while (n < work->node_count) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        struct sp_evaluation *evaluation;
        struct sp_placement *placement = sp_pieces_cut(arena, work, cluster, device_of);
        cr_assert_eq(sp_evaluate(arena, work, cluster, placement, &evaluation, &err), SP_OK);
        if (evaluation->worst_excess_bytes <= 0)
            best = fmin(best, evaluation->interval_seconds);
        sp_arena_rewind(arena, mark);
        for (n = 0; n < work->node_count && ++device_of[n] == cluster->device_count; n++)
            device_of[n] = 0;
    }
    return best;
}

/* Of small graphs the best is found; where memory is ample and links are alike, its bound is itself. */
Test(any_sets, search_against_all_assignments, .timeout = 250)
{
    uint64_t seed = 5;
    uint32_t better = 0, proved = 0;
    for (uint32_t round = 0; round < 60; round++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        struct sp_cluster *cluster = cluster_from(arena, BOXES("3", "1e6"));
        struct sp_workload *work = random_costs(cluster, 3 + pick(&seed, 5), &seed);
        const double best = try_all(work, cluster);
        const struct sp_search_result *any = search(work, cluster, true), *plain = search(work, cluster, false);
        cr_assert_not_null(any);
        cr_assert_float_eq(any->evaluation->interval_seconds, best, 1e-9, "round %u: %g, not %g", round,
                           any->evaluation->interval_seconds, best);
        cr_assert_leq(any->bounds.interval_seconds, best + 1e-9, "round %u", round);
        better += any->evaluation->interval_seconds < plain->evaluation->interval_seconds - 1e-9;
        proved += any->bounds.interval_seconds >= best - 1e-9;
        sp_arena_rewind(arena, mark);
    }
    cr_expect_gt(better, 10);
    cr_expect_eq(proved, 60, "%u are proved", proved);
}

/* Under little memory, and on links that differ: never better than the best, never worse than contiguous stages, and
   bounds hold. */
Test(any_sets, search_under_little_memory, .timeout = 250)
{
    uint64_t seed = 6;
    uint32_t better = 0, possible = 0, fits = 0;
    for (uint32_t round = 0; round < 60; round++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        struct sp_cluster *cluster = cluster_from(arena, round % 2 ? BOXES("3", "1100") : NODES_OF_BOXES("700"));
        struct sp_workload *work = random_costs(cluster, 3 + pick(&seed, round % 2 ? 5 : 3), &seed);
        const double best = try_all(work, cluster);
        const struct sp_search_result *any = search(work, cluster, true), *plain = search(work, cluster, false);
        cr_assert(any != NULL || plain == NULL);
        if (any != NULL) {
            fits++;
            cr_assert_geq(any->evaluation->interval_seconds, best - 1e-9, "round %u", round);
            cr_assert_leq(any->bounds.interval_seconds, best + 1e-9, "round %u", round);
            cr_assert_leq(any->evaluation->worst_excess_bytes, 0);
        }
        const double without = plain != NULL ? plain->evaluation->interval_seconds : INFINITY;
        if (any != NULL)
            cr_assert_leq(any->evaluation->interval_seconds, without + 1e-9);
        better += any != NULL && any->evaluation->interval_seconds < without - 1e-9;
        possible += best < without - 1e-9;
        sp_arena_rewind(arena, mark);
    }
    cr_expect_gt(fits, 30);
    cr_expect_gt(better, possible / 2, "%u of %u", better, possible);
}

/* Larger graphs, on clusters of each kind in turn: at least as good as contiguous stages. Each of 30 nodes takes 6 s, without
   sanitizers. */
Test(any_sets, larger_graphs, .timeout = 250)
{
    uint64_t seed = 7;
    for (uint32_t round = 0; round < how_many(2, 3); round++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        struct sp_cluster *cluster = cluster_from(arena, round % 2 ? BOXES("4", "2500") : NODES_OF_BOXES("2500"));
        struct sp_workload *work = random_costs(cluster, how_many(22, 30), &seed);
        const struct sp_search_result *any = search(work, cluster, true), *plain = search(work, cluster, false);
        cr_assert(plain == NULL || any != NULL);
        if (plain != NULL)
            cr_assert_leq(any->evaluation->interval_seconds, plain->evaluation->interval_seconds + 1e-9);
        if (any != NULL)
            cr_assert_leq(any->bounds.interval_seconds, any->evaluation->interval_seconds + 1e-9);
        sp_arena_rewind(arena, mark);
    }
}
