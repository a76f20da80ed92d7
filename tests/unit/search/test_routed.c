/* Plans whose requests take several routes, against trying all intervals; what records may say. */
#include <criterion/criterion.h>
#include <math.h>

#include "base/random.h"
#include "build_workload.h"
#include "search/joint/joint.h"
#include "search/routes/routed.h"

#define MOST_NODES 5
#define WEIGHT     1000.0

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

TestSuite(routed, .init = setup, .fini = teardown, .timeout = 120);

/* A chain of nodes with a weight each; what is sent is next to nothing. Devices of kind 1 are slower by node. Sometimes
   a loop hands on what one node uses and another one makes. */
static struct sp_workload *random_chain(const struct sp_cluster *cluster, uint32_t nodes, uint64_t *seed)
{
    struct work_builder builder;
    struct sp_work_state *state = SP_NEW(arena, struct sp_work_state);
    const uint32_t user = sp_random_below(seed, nodes), maker = sp_random_below(seed, nodes);
    work_init(&builder, arena, nodes, 2 * nodes + 2, 2);
    uint32_t last = work_input(&builder, 1);
    state->past = work_input(&builder, 1);
    for (uint32_t n = 0; n < nodes; n++) {
        const uint32_t weight = work_weight(&builder, WEIGHT);
        last = WORK_NODE(&builder, 1 + sp_random_below(seed, 9), 1, last, weight, n == user ? state->past : SP_NO_WORK);
        state->present = n == maker ? last : state->present;
    }
    struct sp_workload *workload = work_finish(&builder, cluster);
    workload->states = state;
    workload->state_count = sp_random_below(seed, 2);
    for (uint32_t n = 0; n < nodes; n++)
        workload->nodes[n].seconds[1] = workload->nodes[n].seconds[0] * (1 + sp_random_below(seed, 4));
    return workload;
}

struct choice {
    uint32_t first, end;
};

static double rate_of(const struct sp_workload *workload, uint32_t device, struct choice choice)
{
    double seconds = 0;
    for (uint32_t n = choice.first; n < choice.end; n++)
        seconds += workload->nodes[n].seconds[workload->kind_of[device]];
    return 1 / seconds;
}

/* The least cut of the graph whose vertices are the borders between nodes: links hold nothing up. */
static double flow_of(const struct sp_workload *workload, uint32_t devices, const struct choice *choices)
{
    double least = INFINITY;
    for (uint32_t cut = 0; cut < 1u << (workload->node_count - 1); cut++) {
        const uint32_t set = cut << 1 | 1; /* of borders: the first one is in, the last one is not */
        double sum = 0;
        for (uint32_t d = 0; d < devices; d++)
            if (choices[d].end > choices[d].first && (set >> choices[d].first & 1) && !(set >> choices[d].end & 1))
                sum += rate_of(workload, d, choices[d]);
        least = fmin(least, sum);
    }
    return least;
}

/* Whether what a loop hands on stays on one device. */
static bool keeps_state(const struct sp_workload *workload, uint32_t border)
{
    if (workload->state_count == 0)
        return true;
    const uint32_t user = workload->tensors[workload->states->past].consumers[0];
    const uint32_t maker = workload->tensors[workload->states->present].producer;
    return (user < border) == (maker < border);
}

static bool are_allowed(const struct sp_workload *workload, uint32_t devices, const struct choice *choices)
{
    for (uint32_t d = 0; d < devices; d++)
        if (!keeps_state(workload, choices[d].first) || !keeps_state(workload, choices[d].end))
            return false;
    return true;
}

static double best_of_all(const struct sp_workload *workload, const struct sp_cluster *cluster)
{
    struct choice choices[4] = {{0, 0}};
    double best = 0;
    for (uint32_t d = 0; d < cluster->device_count;) {
        if (are_allowed(workload, cluster->device_count, choices))
            best = fmax(best, flow_of(workload, cluster->device_count, choices));
        for (d = 0; d < cluster->device_count; d++) {
            const double most = floor(sp_cluster_memory(cluster, d) / WEIGHT);
            struct choice *choice = &choices[d];
            if (++choice->end <= workload->node_count && choice->end - choice->first <= most)
                break;
            choice->end = ++choice->first + 1;
            if (choice->end <= workload->node_count)
                break;
            *choice = (struct choice){0, 0};
        }
    }
    return best;
}

/* Each device is as busy as its routes say, has one interval, and its memory is kept. */
static void expect_sound(const struct sp_workload *workload, const struct sp_cluster *cluster,
                         const struct sp_routed *routed)
{
    double busy[8] = {0}, shares = 0;
    for (uint32_t r = 0; r < routed->route_count; r++) {
        const struct sp_route *route = &routed->routes[r];
        shares += route->share;
        for (uint32_t s = 0; s < route->count; s++) {
            const struct choice choice = {s == 0 ? 0 : route->ends[s - 1], route->ends[s]};
            cr_assert(keeps_state(workload, choice.end));
            busy[route->devices[s]] += route->share / rate_of(workload, route->devices[s], choice);
            cr_assert_leq((choice.end - choice.first) * WEIGHT, sp_cluster_memory(cluster, route->devices[s]));
        }
        cr_assert_eq(route->ends[route->count - 1], workload->node_count);
    }
    cr_assert_float_eq(shares, 1, 1e-9);
    double longest = 0;
    for (uint32_t d = 0; d < cluster->device_count; d++)
        longest = fmax(longest, busy[d]);
    cr_assert_float_eq(routed->interval_seconds, longest, 1e-6 * longest);
    cr_assert_leq(routed->worst_excess_bytes, 0);
}

Test(routed, finds_the_best_of_all_intervals)
{
    uint64_t seed = 1;
    for (uint32_t number = 0; number < 300; number++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        const uint32_t first = 1 + sp_random_below(&seed, 2), second = 1 + sp_random_below(&seed, 4 - first);
        const struct sp_cluster *cluster =
            build_mixed_cluster(arena, first, WEIGHT * (1 + sp_random_below(&seed, 5)) + 500, second,
                                WEIGHT * (1 + sp_random_below(&seed, 5)) + 500, 1e15);
        const struct sp_workload *workload = random_chain(cluster, 1 + sp_random_below(&seed, MOST_NODES), &seed);
        struct sp_routed_request request = {
            .workload = workload, .cluster = cluster, .most_seconds = INFINITY, .seed = number};
        struct sp_routed *routed;
        double bound;
        const double best = best_of_all(workload, cluster);
        cr_assert_eq(sp_routed_search(arena, &request, &routed, &bound, &error), SP_OK, "%s", error.message);
        cr_assert_eq(routed == NULL, best == 0, "problem %u: %g, %g", number, best, sp_cluster_memory(cluster, 0));
        if (routed != NULL) {
            cr_assert_float_eq(routed->interval_seconds, 1 / best, 1e-6 / best, "problem %u: %g, not %g", number,
                               routed->interval_seconds, 1 / best);
            cr_assert_leq(routed->bound_seconds, routed->interval_seconds * (1 + 1e-9));
            expect_sound(workload, cluster, routed);
            cr_assert_float_eq(bound, 1 / best, 1e-6 / best);
            /* The same with a plan at hand that is a little worse, or as good. */
            request.most_seconds = 1.001 / best;
            cr_assert_eq(sp_routed_search(arena, &request, &routed, &bound, &error), SP_OK, "%s", error.message);
            cr_assert_not_null(routed, "problem %u", number);
            cr_assert_float_eq(routed->interval_seconds, 1 / best, 1e-6 / best, "problem %u", number);
            request.most_seconds = (1 - 1e-6) / best;
            cr_assert_eq(sp_routed_search(arena, &request, &routed, &bound, &error), SP_OK, "%s", error.message);
            cr_assert_null(routed, "problem %u", number);
            cr_assert_geq(bound, request.most_seconds * (1 - 1e-9));
        }
        sp_arena_rewind(arena, mark);
    }
}

static bool until_stages(void *context, const char *phase, double fraction, double best, double bound)
{
    (void)context;
    (void)phase;
    (void)best;
    (void)bound;
    return fraction <= 0.1;
}

/* A search that ends before it has tried stages of blocks has looked at routes, and one that goes on has what that
   found. */
Test(routed, are_among_the_first_plans)
{
    uint64_t seed = 3;
    unsigned routes = 0;
    for (uint32_t number = 0; number < 40; number++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        const struct sp_cluster *cluster = build_mixed_cluster(arena, 2, WEIGHT * 30, 4, WEIGHT * 4, 1e15);
        const struct sp_workload *workload = random_chain(cluster, 12, &seed);
        const struct sp_routed_request request = {
            .workload = workload, .cluster = cluster, .most_seconds = INFINITY, .is_first = true, .seed = 0};
        struct sp_joint_options options;
        struct sp_search_result *result;
        struct sp_routed *first;
        double bound;
        sp_joint_options_init(&options);
        options.tolerance = 0;
        cr_assert_eq(sp_routed_search(arena, &request, &first, &bound, &error), SP_OK, "%s", error.message);
        cr_assert_not_null(first);
        expect_sound(workload, cluster, first);
        for (uint32_t round = 0; round < 2; round++) {
            options.watch = round == 0 ? &(struct sp_watch){.tick = until_stages} : NULL;
            cr_assert_eq(sp_joint_search(arena, workload, NULL, cluster, &options, &result, &error), SP_OK, "%s",
                         error.message);
            routes += round == 0 && result->routes != NULL;
            if (round == 1 || result->routes != NULL)
                cr_assert_leq(result->evaluation->interval_seconds, first->interval_seconds * (1 + 1e-9));
            sp_search_result_release(result);
        }
        sp_arena_rewind(arena, mark);
    }
    cr_expect_geq(routes, 1, "%u", routes);
}

/* A record may say anything. */
Test(routed, refuses_what_are_no_routes)
{
    uint64_t seed = 5;
    const struct sp_cluster *cluster = build_mixed_cluster(arena, 1, 1e6, 2, 1e6, 1e15);
    struct sp_workload *workload = random_chain(cluster, 4, &seed);
    const uint32_t ends[2] = {2, 4}, others[2] = {3, 4}, same[2] = {2, 2}, beyond[2] = {2, 5};
    const uint32_t devices[2] = {0, 1}, twice[2] = {1, 1}, unknown[2] = {0, 3}, more[2] = {2, 1};
    const struct {
        double share;
        const uint32_t *devices, *ends;
        enum sp_status status;
    } second[] = {
        {0.5, more, ends, SP_OK},           {0.4, more, ends, SP_ERR_REQUEST},
        {-0.5, more, ends, SP_ERR_REQUEST}, {0.5, more, others, SP_ERR_REQUEST}, /* device 1 has two intervals */
        {0.5, twice, ends, SP_ERR_REQUEST}, {0.5, unknown, ends, SP_ERR_REQUEST},
        {0.5, more, same, SP_ERR_REQUEST},  {0.5, more, beyond, SP_ERR_REQUEST}};
    workload->state_count = 0;
    for (size_t i = 0; i < sizeof second / sizeof second[0]; i++) {
        struct sp_route routes[2] = {
            {.share = 0.5, .count = 2, .devices = devices, .ends = ends},
            {.share = second[i].share, .count = 2, .devices = second[i].devices, .ends = second[i].ends}};
        struct sp_routed *routed;
        struct sp_error err = {0};
        cr_assert_eq(sp_routed_evaluate(arena, workload, cluster, 2, routes, &routed, &err), second[i].status,
                     "case %zu", i);
        if (second[i].status == SP_OK) {
            expect_sound(workload, cluster, routed);
            cr_assert_eq(routed->holder_count, 3);
            cr_assert_float_eq(sp_routed_holder(routed, 1)->share, 1, 1e-12);
        }
    }
}
