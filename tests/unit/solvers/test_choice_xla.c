/* XLA's published cases of its choice of shardings. */
#include <criterion/criterion.h>
#include <jansson.h>

#include "data_files.h"
#include "solvers/choice/choice.h"

#define NODES      32
#define STRATEGIES 128
#define EDGES      16
#define ENTRIES    64

struct builder {
    struct sp_choice_problem problem;
    uint32_t first[NODES + 1];
    int64_t cost[STRATEGIES], usage[STRATEGIES], begin[NODES], end[NODES];
    struct sp_choice_edge edges[EDGES];
    int64_t tables[EDGES][ENTRIES];
};

static json_t *root;
static char path[4096];

static void setup(void)
{
    size_t size = 0;
    (void)snprintf(path, sizeof(path), "%s/xla_auto_sharding_cases.json", data_folder());
    unsigned char *bytes = data_read(path, &size);
    if (bytes == NULL)
        cr_skip_test("no test data");
    root = json_loadb((const char *)bytes, size, 0, NULL);
    free(bytes);
    cr_assert_not_null(root);
}

static void teardown(void)
{
    json_decref(root);
}

TestSuite(choice_xla, .init = setup, .fini = teardown);

/* Costs that are infinite are larger than any integer, or words. */
static int64_t figure(const json_t *value)
{
    double number = json_is_number(value) ? json_number_value(value) : 1e30;
    return number >= (double)SP_CHOICE_INFINITE ? SP_CHOICE_INFINITE : (int64_t)number;
}

static int64_t at(const json_t *array, size_t i)
{
    return figure(json_array_get(array, i));
}

static void add_edge(struct builder *b, uint32_t u, uint32_t v)
{
    cr_assert_lt(b->problem.edge_count, EDGES);
    b->edges[b->problem.edge_count] = (struct sp_choice_edge){u, v, b->tables[b->problem.edge_count]};
    b->problem.edge_count++;
}

static uint32_t states_of(const struct builder *b, uint32_t v)
{
    return b->first[v + 1] - b->first[v];
}

static void read_nodes(struct builder *b, const json_t *from, bool is_departures)
{
    const json_t *memory = json_object_get(from, "memory");
    for (uint32_t v = 0; v < json_array_size(memory); v++) {
        const json_t *computation = json_array_get(json_object_get(from, "computation"), v);
        const json_t *communication = json_array_get(json_object_get(from, "communication"), v);
        const json_t *departure = json_array_get(json_object_get(from, "departure"), v);
        const json_t *interval = json_array_get(json_object_get(from, "node_intervals_inclusive"), v);
        b->first[v + 1] = b->first[v] + (uint32_t)json_array_size(computation);
        cr_assert(v < NODES && b->first[v + 1] <= STRATEGIES);
        for (uint32_t s = 0; s < states_of(b, v); s++) {
            int64_t cost = at(computation, s) + at(communication, s);
            b->cost[b->first[v] + s] = is_departures && cost < SP_CHOICE_INFINITE ? at(departure, s) : cost;
            b->usage[b->first[v] + s] = at(json_array_get(memory, v), s);
        }
        b->begin[v] = at(interval, 0);
        b->end[v] = at(interval, 1) + 1;
        b->problem.node_count++;
    }
}

static void read_edges(struct builder *b, const json_t *from, bool is_departures)
{
    const json_t *edges = json_object_get(from, "edges"), *aliases = json_object_get(from, "aliases");
    const json_t *follow = json_object_get(from, "follow");
    for (uint32_t e = 0; e < json_array_size(edges); e++) {
        const json_t *table = json_array_get(json_object_get(from, "resharding"), e);
        add_edge(b, (uint32_t)at(json_array_get(edges, e), 0), (uint32_t)at(json_array_get(edges, e), 1));
        for (uint32_t i = 0; i < json_array_size(table); i++)
            b->tables[b->problem.edge_count - 1][i] =
                is_departures && at(table, i) < SP_CHOICE_INFINITE ? 0 : at(table, i);
    }
    for (uint32_t v = 0; v < b->problem.node_count; v++) {
        if (at(follow, v) < 0)
            continue;
        uint32_t u = (uint32_t)at(follow, v), count = states_of(b, v);
        add_edge(b, u, v);
        for (uint32_t i = 0; i < count * count; i++)
            b->tables[b->problem.edge_count - 1][i] = i % (count + 1) == 0 ? 0 : SP_CHOICE_INFINITE;
    }
    for (uint32_t a = 0; a < json_array_size(aliases); a++) {
        const json_t *pair = json_object_get(json_array_get(aliases, a), "pair");
        const json_t *forbidden = json_object_get(json_array_get(aliases, a), "forbidden");
        uint32_t u = (uint32_t)at(pair, 0), v = (uint32_t)at(pair, 1);
        add_edge(b, u, v);
        for (uint32_t s = 0; s < states_of(b, u) && s < json_array_size(forbidden); s++)
            for (uint32_t x = 0; x < states_of(b, v); x++)
                b->tables[b->problem.edge_count - 1][s * states_of(b, v) + x] =
                    at(json_array_get(forbidden, s), x) > 0 ? SP_CHOICE_INFINITE : 0;
    }
}

/* A limit on departures is a second resource: one more moment, at which each node's shadow, which has the node's
   strategy, uses so much for a departure that the limit holds as many as are allowed. */
static void limit_departures(struct builder *b, const json_t *from)
{
    const int64_t most = figure(json_object_get(from, "max_departures")), unit = b->problem.limit / most;
    const uint32_t count = b->problem.node_count;
    int64_t moment = 0;
    cr_assert_lt(b->problem.limit, (most + 1) * unit);
    for (uint32_t v = 0; v < count; v++)
        moment = b->end[v] > moment ? b->end[v] : moment;
    for (uint32_t v = 0; v < count; v++) {
        const uint32_t shadow = count + v, states = states_of(b, v);
        cr_assert(shadow < NODES && b->first[shadow] + states <= STRATEGIES);
        b->first[shadow + 1] = b->first[shadow] + states;
        b->begin[shadow] = moment;
        b->end[shadow] = moment + 1;
        for (uint32_t s = 0; s < states; s++) {
            b->cost[b->first[shadow] + s] = 0;
            b->usage[b->first[shadow] + s] = unit * at(json_array_get(json_object_get(from, "departure"), v), s);
        }
        add_edge(b, v, shadow);
        for (uint32_t i = 0; i < states * states; i++)
            b->tables[b->problem.edge_count - 1][i] = i % (states + 1) == 0 ? 0 : SP_CHOICE_INFINITE;
        b->problem.node_count++;
    }
}

Test(choice_xla, has_the_published_optimum)
{
    uint32_t tried = 0;
    size_t i;
    const json_t *cases = json_object_get(root, "cases"), *one;
    json_array_foreach(cases, i, one)
    {
        const json_t *problem = json_object_get(one, "problem");
        if (strcmp(json_string_value(json_object_get(one, "kind")), "ilp") != 0)
            continue;
        struct sp_arena *arena = sp_arena_create(NULL);
        struct builder *b = SP_NEW(arena, struct builder);
        bool is_departures = json_is_true(json_object_get(one, "minimize_departures"));
        read_nodes(b, problem, is_departures);
        read_edges(b, problem, is_departures);
        b->problem.first = b->first;
        b->problem.cost = b->cost;
        b->problem.usage = b->usage;
        b->problem.begin = b->begin;
        b->problem.end = b->end;
        b->problem.edges = b->edges;
        b->problem.limit = figure(json_object_get(problem, "memory_budget"));
        if (json_is_integer(json_object_get(problem, "max_departures")))
            limit_departures(b, problem);
        struct sp_choice_options options = {0};
        struct sp_choice_result *result = NULL;
        cr_assert_eq(sp_choice_solve(arena, &b->problem, &options, &result, NULL), SP_OK);
        const char *name = json_string_value(json_object_get(one, "name"));
        cr_assert(result->is_optimal, "%s", name);
        cr_assert_eq(result->cost, figure(json_object_get(one, "expect_objective")), "%s: %ld", name,
                     (long)result->cost);
        if (json_integer_value(json_object_get(one, "number_of_optima")) == 1)
            for (uint32_t v = 0; v < json_array_size(json_object_get(one, "expect_solution")); v++)
                cr_assert_eq(result->choice[v], at(json_object_get(one, "expect_solution"), v), "%s: node %u", name, v);
        tried++;
        sp_arena_destroy(arena);
    }
    cr_assert_geq(tried, 4);
}
