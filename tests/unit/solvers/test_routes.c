/* Intervals of layers whose flow is the largest: against trying all with flows found another way; published ones. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "base/random.h"
#include "data_files.h"
#include "helix_file.h"
#include "threads/executor.h"

#define MAX_NODES  5
#define MAX_LAYERS 5
#define MAX_MOST   3
#define VERTICES   (2 * MAX_NODES + 2)

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

TestSuite(routes, .init = setup, .fini = teardown, .timeout = 120);

/* A flow along shortest paths in a matrix (Edmonds and Karp). Requests come to node i in vertex 2 i and leave it in
   2 i + 1. */
static double flow_of(double capacity[VERTICES][VERTICES], uint32_t vertices, uint32_t source, uint32_t sink)
{
    double sum = 0;
    for (;;) {
        uint32_t from[VERTICES], queue[VERTICES], count = 1;
        memset(from, 0xff, sizeof from);
        from[source] = source;
        queue[0] = source;
        for (uint32_t i = 0; i < count && from[sink] == UINT32_MAX; i++)
            for (uint32_t v = 0; v < vertices; v++)
                if (from[v] == UINT32_MAX && capacity[queue[i]][v] > 1e-12) {
                    from[v] = queue[i];
                    queue[count++] = v;
                }
        if (from[sink] == UINT32_MAX)
            return sum;
        double most = INFINITY;
        for (uint32_t v = sink; v != source; v = from[v])
            most = fmin(most, capacity[from[v]][v]);
        for (uint32_t v = sink; v != source; v = from[v]) {
            capacity[from[v]][v] -= most;
            capacity[v][from[v]] += most;
        }
        sum += most;
    }
}

/* What the intervals serve, by the model's definition. */
static double value_of(const struct sp_routes_problem *problem, const struct sp_routes_interval *intervals)
{
    double capacity[VERTICES][VERTICES] = {{0}};
    const uint32_t n = problem->node_count, sink = 2 * n, source = 2 * n + 1;
    for (uint32_t i = 0; i < n; i++)
        if (intervals[i].count > 0)
            capacity[2 * i][2 * i + 1] =
                problem->nodes[i].rates[(size_t)intervals[i].first * problem->nodes[i].stride + intervals[i].count - 1];
    for (uint32_t l = 0; l < problem->link_count; l++) {
        const struct sp_routes_link *link = &problem->links[l];
        const bool is_in = link->from == SP_ROUTES_SOURCE, is_out = link->to == SP_ROUTES_SINK;
        if ((!is_in && intervals[link->from].count == 0) || (!is_out && intervals[link->to].count == 0))
            continue;
        const uint32_t at = is_in ? 0 : intervals[link->from].first + intervals[link->from].count;
        const uint32_t begin = is_out ? problem->layer_count : intervals[link->to].first;
        const uint32_t end = is_out ? UINT32_MAX : begin + intervals[link->to].count;
        const bool is_partial = problem->is_partial && !is_in && !is_out;
        if (is_partial ? begin <= at && at < end : begin == at)
            capacity[is_in ? source : 2 * link->from + 1][is_out ? sink : 2 * link->to] =
                link->by_layer != NULL ? link->by_layer[at] : link->capacity;
    }
    return flow_of(capacity, 2 * n + 2, source, sink);
}

/* All choices, nodes that hold nothing included. */
static double best_of_all(const struct sp_routes_problem *problem)
{
    struct sp_routes_interval intervals[MAX_NODES] = {{0, 0}};
    double best = 0;
    for (;;) {
        best = fmax(best, value_of(problem, intervals));
        uint32_t i = 0;
        for (; i < problem->node_count; i++) {
            struct sp_routes_interval *interval = &intervals[i];
            if (++interval->count <= problem->nodes[i].most &&
                interval->first + interval->count <= problem->layer_count)
                break;
            interval->count = 1;
            if (++interval->first < problem->layer_count)
                break;
            *interval = (struct sp_routes_interval){0, 0};
        }
        if (i == problem->node_count)
            return best;
    }
}

/* By chance layers differ, links have capacities of their own at each layer, intervals are partial, nodes alike. */
static void random_problem(uint64_t *seed, uint32_t most_nodes, struct sp_routes_problem *problem)
{
    const uint32_t n = 1 + sp_random_below(seed, most_nodes), layers = 1 + sp_random_below(seed, MAX_LAYERS);
    struct sp_routes_node *nodes = SP_NEW_ARRAY(arena, MAX_NODES, struct sp_routes_node);
    struct sp_routes_link *links = SP_NEW_ARRAY(arena, (MAX_NODES + 1) * (MAX_NODES + 1), struct sp_routes_link);
    const bool is_uneven = sp_random_below(seed, 3) == 0, is_even_link = sp_random_below(seed, 2) == 0;
    *problem = (struct sp_routes_problem){.layer_count = layers, .node_count = n, .nodes = nodes, .links = links};
    problem->is_partial = sp_random_below(seed, 3) == 0;
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0 && sp_random_below(seed, 2) == 0) {
            nodes[i] = nodes[i - 1];
            continue;
        }
        const uint32_t most = 1 + sp_random_below(seed, MAX_MOST < layers ? MAX_MOST : layers);
        double *rates = SP_NEW_ARRAY(arena, (size_t)MAX_LAYERS * MAX_MOST, double);
        for (uint32_t k = 0; k < MAX_LAYERS * MAX_MOST; k++)
            rates[k] = sp_random_below(seed, 12) == 0 ? 0 : (1 + sp_random_below(seed, 30)) / (1.0 + k % most);
        nodes[i] = (struct sp_routes_node){most, rates, is_uneven ? most : 0};
    }
    for (uint32_t u = 0; u <= n; u++)
        for (uint32_t v = 0; v <= n; v++) {
            if (u == v || sp_random_below(seed, 5) == 0)
                continue;
            struct sp_routes_link *link = &links[problem->link_count++];
            *link = (struct sp_routes_link){u == n ? SP_ROUTES_SOURCE : u, v == n ? SP_ROUTES_SINK : v, 0, NULL};
            link->capacity = is_even_link ? 20 : 1 + sp_random_below(seed, 40);
            if (sp_random_below(seed, 8) == 0) {
                double *capacities = SP_NEW_ARRAY(arena, MAX_LAYERS + 1, double);
                for (uint32_t l = 0; l <= layers; l++)
                    capacities[l] = sp_random_below(seed, 20);
                link->by_layer = capacities;
            }
        }
}

static void expect_uses(const struct sp_routes_problem *problem, const struct sp_routes_result *result, uint64_t number)
{
    double balance[MAX_NODES] = {0}, sum = 0;
    for (uint32_t i = 0; i < result->use_count; i++) {
        const struct sp_routes_link *link = &problem->links[result->uses[i].link];
        const double rate = result->uses[i].rate;
        cr_assert_gt(rate, 0);
        sum += link->from == SP_ROUTES_SOURCE ? rate : 0;
        if (link->from != SP_ROUTES_SOURCE)
            balance[link->from] -= rate;
        if (link->to != SP_ROUTES_SINK)
            balance[link->to] += rate;
    }
    cr_assert_float_eq(sum, result->value, 1e-6, "problem %lu", (unsigned long)number);
    for (uint32_t i = 0; i < problem->node_count; i++)
        cr_assert_float_eq(balance[i], 0, 1e-6, "problem %lu, node %u", (unsigned long)number, i);
}

Test(routes, finds_the_best_of_all)
{
    uint64_t seed = 1;
    for (uint64_t number = 0; number < 2000; number++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        struct sp_routes_problem problem;
        struct sp_routes_result *result;
        random_problem(&seed, number % 4 == 0 ? 4 : 3, &problem);
        struct sp_routes_options options = {.seed = number, .rounds = 1};
        const double best = best_of_all(&problem);
        options.least = best > 0 && number % 2 == 0 ? best * 0.999 : 0;
        cr_assert_eq(sp_routes_solve(arena, &problem, &options, &result, &error), SP_OK, "%s", error.message);
        cr_assert_float_eq(result->value, best, 1e-9 * (1 + best), "problem %lu: %g, not %g", (unsigned long)number,
                           result->value, best);
        cr_assert_float_eq(value_of(&problem, result->intervals), result->value, 1e-9 * (1 + best));
        cr_assert_geq(result->bound, best * (1 - 1e-9));
        cr_assert(result->is_optimal);
        expect_uses(&problem, result, number);
        options.is_first = true;
        cr_assert_eq(sp_routes_solve(arena, &problem, &options, &result, &error), SP_OK, "%s", error.message);
        cr_assert_leq(result->value, best * (1 + 1e-9));
        cr_assert(result->value == 0 || fabs(value_of(&problem, result->intervals) - result->value) <= 1e-9 * best);
        expect_uses(&problem, result, number);
        options.is_first = false;
        options.least = best; /* nothing does more */
        cr_assert_eq(sp_routes_solve(arena, &problem, &options, &result, &error), SP_OK, "%s", error.message);
        cr_assert_eq(result->value, 0);
        cr_assert_geq(result->bound, best * (1 - 1e-9));
        sp_arena_rewind(arena, mark);
    }
}

Test(routes, refuses_what_is_not_well_formed)
{
    const double rates[2] = {2, 1}, wrong[2] = {2, NAN};
    struct sp_routes_node nodes[2] = {{2, rates, 0}, {2, rates, 0}};
    struct sp_routes_link links[3] = {{SP_ROUTES_SOURCE, 0, 1, NULL}, {0, 1, 1, NULL}, {1, SP_ROUTES_SINK, 1, NULL}};
    struct sp_routes_problem problem = {2, 2, 3, nodes, links, false};
    const struct sp_routes_options options = {.seed = 1};
    struct sp_routes_result *result = NULL;
    cr_assert_eq(sp_routes_solve(arena, &problem, &options, &result, &error), SP_OK);
    cr_assert_float_eq(result->value, 1, 1e-12);
    nodes[1].rates = wrong;
    cr_assert_eq(sp_routes_solve(arena, &problem, &options, &result, &error), SP_ERR_REQUEST);
    nodes[1] = (struct sp_routes_node){3, rates, 0};
    cr_assert_eq(sp_routes_solve(arena, &problem, &options, &result, &error), SP_ERR_REQUEST);
    nodes[1] = nodes[0];
    links[1].to = 0;
    cr_assert_eq(sp_routes_solve(arena, &problem, &options, &result, &error), SP_ERR_REQUEST);
    links[1] = links[0];
    cr_assert_eq(sp_routes_solve(arena, &problem, &options, &result, &error), SP_ERR_REQUEST);
    links[1] = (struct sp_routes_link){SP_ROUTES_SOURCE, SP_ROUTES_SINK, 1, NULL};
    cr_assert_eq(sp_routes_solve(arena, &problem, &options, &result, &error), SP_ERR_REQUEST);
}

/* Nodes enough that nothing is proved. */
enum { MANY = 12 };
static void large_problem(struct sp_routes_problem *problem)
{
    uint64_t seed = 7;
    struct sp_routes_node *nodes = SP_NEW_ARRAY(arena, MANY, struct sp_routes_node);
    struct sp_routes_link *links = SP_NEW_ARRAY(arena, (MANY + 1) * (MANY + 1), struct sp_routes_link);
    *problem = (struct sp_routes_problem){30, MANY, 0, nodes, links, false};
    for (uint32_t i = 0; i < MANY; i++) {
        double *rates = SP_NEW_ARRAY(arena, 6, double);
        for (uint32_t k = 0; k < 6; k++)
            rates[k] = (100 + sp_random_below(&seed, 100)) / (k + 1.0);
        nodes[i] = (struct sp_routes_node){6, rates, 0};
    }
    for (uint32_t u = 0; u <= MANY; u++)
        for (uint32_t v = 0; v <= MANY; v++)
            if (u != v && sp_random_below(&seed, 4) != 0)
                links[problem->link_count++] =
                    (struct sp_routes_link){u == MANY ? SP_ROUTES_SOURCE : u, v == MANY ? SP_ROUTES_SINK : v, 25, NULL};
}

struct counter {
    uint32_t ticks, most;
};

static bool count_tick(void *context, const char *phase, double fraction, double best, double bound)
{
    struct counter *counter = context;
    (void)phase;
    (void)fraction;
    cr_assert_leq(best, bound * (1 + 1e-9));
    return ++counter->ticks < counter->most;
}

/* The watch is asked all along, and what was found by then is the result. */
Test(routes, ends_within_a_round)
{
    struct sp_routes_problem problem;
    struct sp_routes_result *result;
    double before = 0;
    large_problem(&problem);
    for (uint32_t most = 20; most <= 320; most *= 2) {
        struct counter counter = {.most = most};
        const struct sp_watch watch = {count_tick, &counter, NULL};
        const struct sp_routes_options options = {.seed = 3, .rounds = 2, .watch = &watch};
        cr_assert_eq(sp_routes_solve(arena, &problem, &options, &result, &error), SP_OK);
        cr_assert(result->is_stopped);
        cr_assert_leq(counter.ticks, most + 4);
        cr_assert_geq(result->value, before);
        before = result->value;
    }
    cr_assert_gt(before, 0);
}

/* The same choice on any number of threads. */
Test(routes, does_not_depend_on_threads)
{
    struct sp_routes_problem problem;
    struct sp_routes_result *results[3];
    large_problem(&problem);
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t counts[3] = {1, 2, 8};
        struct sp_threads *threads = sp_threads_create(counts[i]);
        const struct sp_routes_options options = {.seed = 3, .rounds = 1, .executor = sp_threads_executor(threads)};
        cr_assert_eq(sp_routes_solve(arena, &problem, &options, &results[i], &error), SP_OK);
        cr_assert_eq(memcmp(results[i]->intervals, results[0]->intervals, MANY * sizeof *results[i]->intervals), 0);
        cr_assert(results[i]->value == results[0]->value && results[i]->bound == results[0]->bound);
        cr_assert_gt(results[i]->value, 0);
        sp_threads_destroy(threads);
    }
}

/* Values of an annealer that ran for 90 s, which are not below those of Helix; the first ones are proved by Gurobi, or
   equal the layer-throughput bound. */
Test(routes, reaches_published_values)
{
    const struct {
        const char *name;
        double least;
    } instances[] = {{"llama30b-10node-quality", 286.5874}, {"llama30b-single-a100", 1044.5333},
                     {"llama30b-single-l4", 252.6498},      {"llama30b-single-t4", 397.6851},
                     {"llama70b-24node-single", 1754.3818}, {"llama70b-42node", 5430.0237}};
    uint32_t count = 0;
    for (size_t i = 0; i < sizeof instances / sizeof instances[0]; i++) {
        char path[512], message[256];
        struct sp_routes_problem problem;
        struct sp_routes_result *result;
        (void)snprintf(path, sizeof path, "%s/helix/%s.json", data_folder(), instances[i].name);
        if (!helix_read(arena, path, &problem, message, sizeof message))
            continue;
        const struct sp_routes_options options = {.seed = 1, .rounds = 2};
        cr_assert_eq(sp_routes_solve(arena, &problem, &options, &result, &error), SP_OK);
        cr_assert_geq(result->value, instances[i].least, "%s: %f", instances[i].name, result->value);
        cr_assert_leq(result->bound, result->value / 0.75, "%s: %f", instances[i].name, result->bound);
        count++;
    }
    if (count == 0)
        cr_skip_test("the instances of Helix are not there");
}
