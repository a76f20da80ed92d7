/* XLA's published cases of its choice of shardings. */
#include <criterion/criterion.h>
#include <jansson.h>

#include "data_files.h"
#include "members.h"
#include "sharding/mesh.h"
#include "sharding/reshard/collective_cost.h"
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

/* A problem of the file; `departs`: what is minimised are departures. */
static struct builder *read_problem(struct sp_arena *arena, const json_t *one, bool departs)
{
    const json_t *problem = json_object_get(one, "problem");
    struct builder *b = SP_NEW(arena, struct builder);
    read_nodes(b, problem, departs);
    read_edges(b, problem, departs);
    b->problem.first = b->first;
    b->problem.cost = b->cost;
    b->problem.usage = b->usage;
    b->problem.begin = b->begin;
    b->problem.end = b->end;
    b->problem.edges = b->edges;
    b->problem.limit = figure(json_object_get(problem, "memory_budget"));
    members_skip(problem, "edge_intervals_inclusive departure"); /* of memory that edges take; of other problems */
    return b;
}

static struct sp_choice_result *solve(struct sp_arena *arena, const struct builder *b)
{
    struct sp_choice_options options = {0};
    struct sp_choice_result *result = NULL;
    cr_assert_eq(sp_choice_solve(arena, &b->problem, &options, &result, NULL), SP_OK);
    return result;
}

/* All cases of a kind; what nobody reads of one is an error. */
static void each(const char *kind, void (*run)(const json_t *one, const char *name))
{
    uint32_t tried = 0;
    size_t i;
    const json_t *one;
    json_array_foreach(json_object_get(root, "cases"), i, one)
    {
        const char *name = json_string_value(json_object_get(one, "name"));
        if (strcmp(json_string_value(json_object_get(one, "kind")), kind) != 0)
            continue;
        run(one, name != NULL ? name : kind);
        members_skip(one, "src note basis reason verified brute_force_verified");
        const char *unread = members_unread(one);
        cr_expect_null(unread, "%s: %s is not read", name != NULL ? name : kind, unread);
        tried++;
    }
    cr_assert_gt(tried, 0);
}

static void expect_optimum(const json_t *one, const char *name)
{
    const json_t *problem = json_object_get(one, "problem"), *expected = json_object_get(one, "expect_solution");
    struct sp_arena *arena = sp_arena_create(NULL);
    struct builder *b = read_problem(arena, one, json_is_true(json_object_get(one, "minimize_departures")));
    cr_assert(json_is_null(json_object_get(one, "overbudget_coeff")), "%s may go over its budget", name);
    if (json_is_integer(json_object_get(problem, "max_departures")))
        limit_departures(b, problem);
    struct sp_choice_result *result = solve(arena, b);
    cr_assert(result->is_optimal, "%s", name);
    cr_assert_eq(result->cost, figure(json_object_get(one, "expect_objective")), "%s: %ld", name, (long)result->cost);
    if (json_integer_value(json_object_get(one, "number_of_optima")) == 1)
        for (uint32_t v = 0; v < json_array_size(expected); v++)
            cr_assert_eq(result->choice[v], at(expected, v), "%s: node %u", name, v);
    sp_arena_destroy(arena);
}

Test(choice_xla, has_the_published_optimum)
{
    each("ilp", expect_optimum);
}

/* The cost of the solution where nothing else may be chosen and so much memory is there; infinite: it is none. */
static int64_t cost_of(const json_t *one, bool departs, int64_t limit)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct builder *b = read_problem(arena, one, departs);
    const json_t *solution = json_object_get(one, "solution");
    for (uint32_t v = 0; v < b->problem.node_count; v++)
        for (uint32_t s = 0; s < states_of(b, v); s++)
            if (s != (uint32_t)at(solution, v))
                b->cost[b->first[v] + s] = SP_CHOICE_INFINITE;
    b->problem.limit = limit;
    struct sp_choice_result *result = solve(arena, b);
    const int64_t cost =
        result->choice != NULL && result->cost < SP_CHOICE_INFINITE ? result->cost : SP_CHOICE_INFINITE;
    sp_arena_destroy(arena);
    return cost;
}

/* Costs add up, memory is exactly enough, and a follower that does not follow is no solution. */
static void expect_evaluation(const json_t *one, const char *name)
{
    const json_t *expected = json_object_get(one, "expect"), *violations = json_object_get(expected, "violations");
    const int64_t memory = figure(json_object_get(expected, "max_memory"));
    const int64_t budget = figure(json_object_get(json_object_get(one, "problem"), "memory_budget"));
    const double excess = json_number_value(json_object_get(one, "overbudget_coeff")) * (double)(memory - budget);
    int64_t cost = 0;
    static const char *const parts[] = {"computation", "communication", "resharding"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        cost += figure(json_object_get(expected, parts[i]));
    const int64_t departures = figure(json_object_get(expected, "departures"));
    if (json_array_size(violations) > 0) {
        cr_assert_str_eq(json_string_value(json_array_get(violations, 0)), "follower");
        cr_expect_eq(cost_of(one, false, memory), SP_CHOICE_INFINITE, "%s follows", name);
        return;
    }
    cr_expect_eq(cost_of(one, false, memory), cost, "%s", name);
    cr_expect_eq(cost_of(one, false, memory - 1), SP_CHOICE_INFINITE, "%s needs less memory", name);
    cr_expect_eq(cost_of(one, true, memory), departures, "%s departs otherwise", name);
    if (json_object_get(expected, "overbudget_cost") != NULL)
        cr_expect_float_eq(excess, json_number_value(json_object_get(expected, "overbudget_cost")), 1e-6, "%s", name);
}

Test(choice_xla, values_published_solutions)
{
    each("evaluate", expect_evaluation);
}

/* XLA adds a latency and, to tell kinds apart, a little for each; its all-to-all has a penalty of half the devices. The
   rest is the bytes that a device sends. */
static void expect_collectives(const json_t *one, const char *name)
{
    static const struct {
        const char *name;
        enum sp_collective kind;
        double mark;
    } kinds[] = {{"all_gather", SP_ALL_GATHER, 0.1},
                 {"all_reduce", SP_ALL_REDUCE, 0.01},
                 {"reduce_scatter", SP_REDUCE_SCATTER, 0.001},
                 {"all_to_all", SP_ALL_TO_ALL, 0.001}};
    const double devices = json_number_value(json_object_get(one, "n"));
    const double bytes = json_number_value(json_object_get(one, "bytes"));
    const double alpha = json_number_value(json_object_get(one, "alpha"));
    const double beta = json_number_value(json_object_get(one, "beta"));
    const json_t *expected = json_object_get(one, "expect");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const double penalty = kinds[i].kind == SP_ALL_TO_ALL ? devices / 2 : 1;
        /* An all-to-all starts from parts of the tensor: each device has one. */
        const double sent = sp_collective_bytes(kinds[i].kind, devices, bytes) * penalty * beta;
        const double stated = json_number_value(json_object_get(expected, kinds[i].name)) - alpha - kinds[i].mark;
        /* XLA rounds bytes up to whole ones. */
        cr_expect_float_eq(sent, stated, 1 + 1e-9 * stated, "%s of %g devices: %g, not %g", kinds[i].name, devices,
                           sent, stated);
    }
    (void)name;
}

Test(choice_xla, sends_the_published_bytes)
{
    each("collective_cost", expect_collectives);
}

/* Levels have their own speeds here, and a mesh of no axes is one of one device. */
static void expect_refusal(const json_t *one, const char *name)
{
    const json_t *options = json_object_get(one, "options"), *shape = json_object_get(options, "device_mesh_shape");
    const json_t *ids = json_object_get(options, "device_mesh_ids");
    struct sp_mesh_axis axes[8];
    struct sp_device_order order;
    struct sp_mesh *mesh = NULL;
    struct sp_error err = {0};
    int64_t numbers[64];
    struct sp_arena *arena = sp_arena_create(NULL);
    cr_assert_str_eq(json_string_value(json_object_get(one, "expect")), "error");
    members_skip(options, "alpha beta");
    for (size_t i = 0; i < json_array_size(shape); i++)
        axes[i] = (struct sp_mesh_axis){sp_arena_printf(arena, "a%zu", i), at(shape, i)};
    for (size_t i = 0; i < json_array_size(ids); i++)
        numbers[i] = at(ids, i);
    enum sp_status status = SP_OK;
    if (ids != NULL)
        status = sp_device_order_list(arena, (int64_t)json_array_size(ids), numbers, &order, &err);
    if (status == SP_OK && json_array_size(shape) > 0 && json_object_get(options, "alpha") == NULL)
        cr_expect_neq(
            sp_mesh_create(arena, (uint32_t)json_array_size(shape), axes, ids != NULL ? &order : NULL, &mesh, &err),
            SP_OK, "%s is a mesh", name);
    sp_arena_destroy(arena);
}

Test(choice_xla, refuses_what_is_no_mesh)
{
    each("invalid_options", expect_refusal);
}
