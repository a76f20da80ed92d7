/* Contiguous stages against trying all of them: every chain of sets of nodes, every option, every number of replicas.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "random_stages.h"

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

TestSuite(stages, .init = setup, .fini = teardown);

#define SETS (1u << RANDOM_STAGES_NODES)

/* Tries all. Costs of sets are worked out from the definitions, once each. */
struct oracle {
    const struct sp_stages_problem *problem;
    uint32_t before[RANDOM_STAGES_NODES]; /* nodes that must not be in a later stage */
    bool is_whole[SETS];                  /* of each colour all nodes or none */
    bool is_ideal[SETS];
    double load[RANDOM_STAGES_OPTIONS][SETS], bytes[RANDOM_STAGES_OPTIONS][SETS];
    double best, best_memory; /* value; part of the memory that the best in that takes, which may be more than 1 */
};

/* Sets of nodes that must be together when edges among backward nodes are as they are, or turned round. */
static uint32_t count_groups(struct oracle *oracle, bool is_turned)
{
    const struct sp_stages_problem *problem = oracle->problem;
    uint32_t reach[RANDOM_STAGES_NODES], groups = 0;
    for (uint32_t i = 0; i < problem->node_count; i++) {
        reach[i] = 1u << i;
        oracle->before[i] = 0;
    }
    for (uint32_t i = 0; i < problem->tensor_count; i++)
        for (uint32_t j = 0; j < problem->tensors[i].consumer_count; j++) {
            uint32_t from = problem->tensors[i].producer, to = problem->tensors[i].consumers[j];
            if (problem->nodes[from].is_backward != problem->nodes[to].is_backward)
                continue;
            bool is_reverse = problem->nodes[from].is_backward && !is_turned;
            oracle->before[is_reverse ? from : to] |= 1u << (is_reverse ? to : from);
        }
    for (uint32_t i = 0; i < problem->node_count; i++)
        for (uint32_t j = 0; j < problem->node_count; j++)
            if ((oracle->before[i] >> j & 1) != 0 ||
                (problem->nodes[i].color != SP_NO_STAGE_GROUP && problem->nodes[i].color == problem->nodes[j].color))
                reach[i] |= 1u << j;
    for (uint32_t k = 0; k < problem->node_count; k++)
        for (uint32_t i = 0; i < problem->node_count; i++)
            if ((reach[i] >> k & 1) != 0)
                reach[i] |= reach[k];
    for (uint32_t i = 0; i < problem->node_count; i++) {
        bool is_first = true;
        for (uint32_t j = 0; j < i; j++)
            is_first &= !((reach[i] >> j & 1) != 0 && (reach[j] >> i & 1) != 0);
        groups += is_first;
    }
    return groups;
}

static void weigh(struct oracle *oracle, uint32_t option, uint32_t set)
{
    const struct sp_stages_problem *problem = oracle->problem;
    const struct sp_stages_option *by = &problem->options[option];
    double seconds = 0, receive = 0, send = 0, bytes = 0, held = 0;
    for (uint32_t i = 0; i < problem->node_count; i++) {
        if ((set >> i & 1) == 0)
            continue;
        double node_held = by->held_bytes != NULL ? by->held_bytes[i] : problem->nodes[i].held_bytes * by->memory_scale;
        seconds += by->seconds[i];
        bytes += by->weight_bytes != NULL ? by->weight_bytes[i] : problem->nodes[i].weight_bytes * by->memory_scale;
        held = fmax(held, node_held);
    }
    for (uint32_t i = 0; i < problem->tensor_count; i++) {
        uint32_t users = 0;
        for (uint32_t j = 0; j < problem->tensors[i].consumer_count; j++)
            users |= 1u << problem->tensors[i].consumers[j];
        bool is_made = (set >> problem->tensors[i].producer & 1) != 0;
        double transfer = by->transfer_fixed + by->transfer_per_byte * problem->tensors[i].bytes;
        receive += !is_made && (users & set) != 0 ? transfer : 0;
        send += is_made && (users & ~set) != 0 ? transfer : 0;
    }
    for (uint32_t i = 0; i < problem->weight_count; i++) {
        bool is_used = false;
        for (uint32_t j = 0; j < problem->weights[i].user_count; j++)
            is_used |= (set >> problem->weights[i].users[j] & 1) != 0;
        bytes += is_used ? problem->weights[i].bytes * by->memory_scale : 0;
    }
    if (by->copy_per_byte > 0)
        seconds = bytes + held - by->own_bytes > by->copied_most
                      ? INFINITY
                      : fmax(seconds, (bytes + held - by->own_bytes) * by->copy_per_byte);
    oracle->load[option][set] =
        problem->combine == SP_STAGES_SUM ? seconds + receive + send : fmax(seconds, fmax(receive, send));
    oracle->bytes[option][set] = bytes + held;
}

static void prepare(struct oracle *oracle, const struct sp_stages_problem *problem)
{
    memset(oracle, 0, sizeof *oracle);
    oracle->problem = problem;
    oracle->best = oracle->best_memory = INFINITY;
    uint32_t turned = count_groups(oracle, true), reversed = count_groups(oracle, false);
    if (turned > reversed)
        count_groups(oracle, true);
    for (uint32_t set = 0; set < 1u << problem->node_count; set++) {
        oracle->is_whole[set] = true;
        for (uint32_t i = 0; i < problem->node_count; i++)
            for (uint32_t j = 0; j < i; j++)
                if (problem->nodes[i].color != SP_NO_STAGE_GROUP &&
                    problem->nodes[i].color == problem->nodes[j].color && (set >> i & 1) != (set >> j & 1))
                    oracle->is_whole[set] = false;
        oracle->is_ideal[set] = oracle->is_whole[set];
        for (uint32_t i = 0; i < problem->node_count; i++)
            if ((set >> i & 1) != 0 && (oracle->before[i] & ~set) != 0)
                oracle->is_ideal[set] = false;
        for (uint32_t option = 0; option < problem->option_count; option++)
            weigh(oracle, option, set);
    }
}

/* What is behind the nodes that are left, which are an ideal. */
struct partial {
    uint32_t left, stages, used[2];
    double load, devices, memory;
};

static void finish(struct oracle *oracle, const struct partial *partial)
{
    const struct sp_stages_problem *problem = oracle->problem;
    double value = problem->objective == SP_STAGES_THROUGHPUT ? partial->load : partial->devices;
    oracle->best_memory = fmin(oracle->best_memory, partial->memory);
    if (partial->memory <= 1)
        oracle->best = fmin(oracle->best, value);
}

/* What is still to be tried. One problem never has as many open at a time. */
static struct partial open_parts[1 << 17];
static uint32_t open_count;

/* Puts aside what follows from a last stage of `set` under an option, with each number of replicas. */
static void try_stage(const struct oracle *oracle, const struct partial *partial, uint32_t set, uint32_t option)
{
    const struct sp_stages_problem *problem = oracle->problem;
    const struct sp_stages_option *by = &problem->options[option];
    uint32_t kind = by->device_class;
    for (uint32_t replicas = 1; by->max_replicas == 0 || replicas <= by->max_replicas; replicas++) {
        struct partial next = *partial;
        next.used[kind] += by->devices * replicas;
        if (next.used[kind] > problem->class_size[kind])
            return;
        double load = oracle->load[option][set] / replicas;
        if (load == INFINITY || (problem->load_limit > 0 && load > problem->load_limit))
            continue;
        next.left &= ~set;
        next.stages++;
        double bytes = oracle->bytes[option][set];
        next.memory = fmax(next.memory, bytes == 0 ? 0 : bytes / by->memory_bytes);
        next.load = fmax(next.load, load);
        next.devices += (double)by->devices * replicas;
        if (next.memory >= oracle->best_memory && next.memory > 1)
            continue;
        cr_assert_lt(open_count, sizeof open_parts / sizeof *open_parts);
        open_parts[open_count++] = next;
    }
}

/* All last stages of what is left: sets whose rest is an ideal. */
static void try_stages(struct oracle *oracle, const struct partial *partial)
{
    if (partial->left == 0) {
        finish(oracle, partial);
        return;
    }
    if (oracle->problem->max_stages != 0 && partial->stages == oracle->problem->max_stages)
        return;
    for (uint32_t set = partial->left; set != 0; set = (set - 1) & partial->left)
        for (uint32_t option = 0; oracle->is_ideal[partial->left & ~set] && option < oracle->problem->option_count;
             option++)
            try_stage(oracle, partial, set, option);
}

static struct oracle oracle;

static void try_all(const struct sp_stages_problem *problem)
{
    prepare(&oracle, problem);
    open_parts[0] = (struct partial){.left = (1u << problem->node_count) - 1};
    open_count = 1;
    while (open_count > 0) {
        struct partial partial = open_parts[--open_count];
        try_stages(&oracle, &partial);
    }
}

static void expect_result(const struct sp_stages_problem *problem, const struct sp_stages_result *result, int round)
{
    if (oracle.best == INFINITY) {
        cr_assert(!result->is_feasible, "round %d: %g, but nothing fits", round, result->value);
        cr_assert(result->bound == INFINITY, "round %d: bound %g", round, result->bound);
        if (problem->load_limit > 0 || problem->options[0].copied_most > 0)
            return; /* how much memory would do is not looked for */
        if (oracle.best_memory == INFINITY)
            cr_assert(result->minimum_memory_factor == INFINITY, "round %d", round);
        else
            cr_assert_float_eq(result->minimum_memory_factor, oracle.best_memory, 1e-9, "round %d: %g, not %g", round,
                               result->minimum_memory_factor, oracle.best_memory);
        return;
    }
    cr_assert(result->is_feasible, "round %d: nothing, but %g fits", round, oracle.best);
    cr_assert_float_eq(result->value, oracle.best, 1e-9, "round %d: %g, not %g", round, result->value, oracle.best);
    cr_assert(result->is_optimal, "round %d: bound %g, value %g", round, result->bound, result->value);
    cr_assert_leq(result->bound, oracle.best + 1e-9);
    double value;
    const char *fault;
    cr_assert_eq(sp_stages_evaluate(arena, problem, result->stage_count, result->stages, &value, &fault, &error),
                 SP_OK);
    cr_assert_null(fault, "round %d: %s", round, fault);
    cr_assert_float_eq(value, oracle.best, 1e-9);
    for (uint32_t i = 0; i < result->stage_count; i++) {
        uint32_t set = 0;
        for (uint32_t j = 0; j < result->stages[i].node_count; j++) {
            set |= 1u << result->stages[i].nodes[j];
            cr_assert_eq(result->stage_of[result->stages[i].nodes[j]], i);
        }
        cr_assert_float_eq(result->stages[i].load_seconds,
                           oracle.load[result->stages[i].option][set] / result->stages[i].replicas, 1e-9);
    }
}

static struct sp_stages_result *solve(const struct sp_stages_problem *problem, const struct sp_stages_options *options)
{
    struct sp_stages_result *result = NULL;
    cr_assert_eq(sp_stages_solve(arena, problem, options, &result, &error), SP_OK, "%s", error.message);
    return result;
}

/* How a problem is changed, and which of the searches must answer it. */
enum way { AS_IT_IS, MANY_DEVICES, ORDERS_ONLY, LIMITED, COPIES };

/* An answer without the exact search: never better than the best, and what it says is proved is. */
static void expect_honest(const struct sp_stages_result *result, int round)
{
    cr_assert(result->bound <= oracle.best * (1 + 1e-9), "round %d: bound %g, but %g is possible", round, result->bound,
              oracle.best);
    cr_assert(!result->is_feasible || result->value >= oracle.best - 1e-9, "round %d", round);
    if (result->is_feasible && result->is_optimal)
        cr_assert_float_eq(result->value, oracle.best, 1e-9, "round %d", round);
    if (!result->is_feasible && result->is_optimal)
        cr_assert(oracle.best == INFINITY, "round %d", round);
    cr_assert(result->is_feasible || result->minimum_memory_factor >= oracle.best_memory - 1e-9, "round %d", round);
}

/* `rounds` random problems; every tenth has up to RANDOM_STAGES_NODES nodes. */
static void compare(enum sp_stages_objective objective, enum way way, int rounds, uint64_t seed)
{
    static struct random_stages random;
    struct sp_stages_options options = {
        .seed = 1, .max_ideals = way == ORDERS_ONLY ? 1 : 0, .skips_minimum_memory = way == LIMITED || way == COPIES};
    uint64_t state = seed;
    uint32_t feasible = 0, several = 0, proved = 0;
    for (int round = 0; round < rounds; round++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        random_stages_make(&random, &state, round % 10 == 0 ? RANDOM_STAGES_NODES : 7);
        random.problem.objective = objective;
        for (uint32_t i = 0; objective == SP_STAGES_DEVICES && i < random.problem.option_count; i++)
            random.options[i].memory_bytes = 4 + random_stages_below(&state, 12); /* one stage is seldom enough */
        for (uint32_t i = 0; way == MANY_DEVICES && i < random.problem.option_count; i++)
            random.options[i].devices *= 256;
        for (uint32_t i = 0; way == MANY_DEVICES && i < random.problem.class_count; i++)
            random.class_size[i] *= 256;
        for (uint32_t i = 0; way == COPIES && i < random.problem.option_count; i++) {
            random.options[i].own_bytes = 1 + random_stages_below(&state, 8);
            random.options[i].copy_per_byte = random_stages_below(&state, 4) / 2.0;
            random.options[i].copied_most = 2 + random_stages_below(&state, 12);
        }
        if (way == LIMITED) /* no load is as much */
            random.problem.load_limit = 2.1 + random_stages_below(&state, 20);
        try_all(&random.problem);
        struct sp_stages_result *result = solve(&random.problem, &options);
        if (way == ORDERS_ONLY)
            expect_honest(result, round);
        else
            expect_result(&random.problem, result, round);
        feasible += result->is_feasible;
        several += result->stage_count > 1;
        proved += result->is_optimal;
        sp_arena_rewind(arena, mark);
    }
    /* Problems in which there is something to decide. */
    cr_expect_gt(feasible, (uint32_t)rounds / 4);
    cr_expect_gt(several, (uint32_t)rounds / 25);
    cr_expect(way != ORDERS_ONLY || proved < (uint32_t)rounds);
}

Test(stages, throughput)
{
    compare(SP_STAGES_THROUGHPUT, AS_IT_IS, 2000, 1);
}

Test(stages, throughput_many_devices)
{
    compare(SP_STAGES_THROUGHPUT, MANY_DEVICES, 800, 2);
}

Test(stages, throughput_orders)
{
    compare(SP_STAGES_THROUGHPUT, ORDERS_ONLY, 800, 3);
}

/* What stages copy is a part of their load: the best of all solutions, and the bounds. */
Test(stages, throughput_with_copies)
{
    compare(SP_STAGES_THROUGHPUT, COPIES, 2000, 7);
}

Test(stages, devices)
{
    compare(SP_STAGES_DEVICES, AS_IT_IS, 1000, 4);
}

Test(stages, devices_with_a_limit_of_loads)
{
    compare(SP_STAGES_DEVICES, LIMITED, 1000, 6);
}

Test(stages, devices_orders)
{
    compare(SP_STAGES_DEVICES, ORDERS_ONLY, 500, 5);
}

/* Three nodes in a row, a second each, of 6, 2 and 6 bytes; a device holds `memory` bytes. */
struct row {
    struct sp_stages_problem problem;
    struct sp_stages_node nodes[3];
    struct sp_stages_tensor tensors[2];
    uint32_t users[2];
    struct sp_stages_option option;
    double seconds[3];
    uint32_t size;
};

static void make_row(struct row *row, uint32_t devices, double memory)
{
    *row = (struct row){.users = {1, 2}, .seconds = {1, 1, 1}, .size = devices};
    for (uint32_t i = 0; i < 3; i++)
        row->nodes[i] = (struct sp_stages_node){.weight_bytes = i == 1 ? 2 : 6, .color = SP_NO_STAGE_GROUP};
    for (uint32_t i = 0; i < 2; i++)
        row->tensors[i] =
            (struct sp_stages_tensor){.producer = i, .bytes = 1, .consumer_count = 1, .consumers = &row->users[i]};
    row->option = (struct sp_stages_option){.devices = 1,
                                            .max_replicas = 1,
                                            .memory_bytes = memory,
                                            .memory_scale = 1,
                                            .seconds = row->seconds,
                                            .transfer_per_byte = 0.25};
    row->problem = (struct sp_stages_problem){.node_count = 3,
                                              .tensor_count = 2,
                                              .option_count = 1,
                                              .class_count = 1,
                                              .nodes = row->nodes,
                                              .tensors = row->tensors,
                                              .options = &row->option,
                                              .class_size = &row->size};
}

Test(stages, says_how_much_memory_lacks)
{
    struct row row;
    struct sp_stages_options options = {0};
    make_row(&row, 2, 4); /* {6 2} {6}: 8 bytes of 4 */
    struct sp_stages_result *result = solve(&row.problem, &options);
    cr_assert(!result->is_feasible);
    cr_expect(result->is_optimal);
    cr_expect_float_eq(result->minimum_memory_factor, 2, 1e-12);
    row.option.memory_bytes = 8;
    result = solve(&row.problem, &options);
    cr_assert(result->is_feasible);
    cr_expect_float_eq(result->value, 2.25, 1e-12); /* two nodes and one transfer */
    row.size = 0;
    result = solve(&row.problem, &options);
    cr_assert(!result->is_feasible);
    cr_expect(result->minimum_memory_factor == INFINITY); /* memory is not what lacks */
}

Test(stages, takes_replicas_where_one_node_is_all)
{
    struct row row;
    struct sp_stages_options options = {0};
    make_row(&row, 6, INFINITY);
    row.option.max_replicas = 0;
    row.seconds[1] = 9;
    row.seconds[0] = row.seconds[2] = 0;
    struct sp_stages_result *result = solve(&row.problem, &options);
    cr_assert_eq(result->stage_count, 1);
    cr_expect_eq(result->stages[0].replicas, 6);
    cr_expect_float_eq(result->value, 1.5, 1e-12);
}

static void expect_refused(struct sp_stages_problem *problem)
{
    struct sp_stages_options options = {0};
    struct sp_stages_result *result;
    struct sp_error wrong = {0};
    cr_expect_eq(sp_stages_solve(arena, problem, &options, &result, &wrong), SP_ERR_REQUEST);
    cr_expect_str_not_empty(wrong.message);
}

Test(stages, refuses_what_is_not_well_formed)
{
    struct row row;
    make_row(&row, 2, 100);
    row.users[1] = 0;
    row.tensors[1].producer = 1; /* 0 -> 1 -> 0 */
    expect_refused(&row.problem);
    make_row(&row, 2, 100);
    row.users[1] = 3;
    expect_refused(&row.problem);
    make_row(&row, 2, 100);
    row.tensors[1].producer = 2; /* uses what it makes */
    expect_refused(&row.problem);
    make_row(&row, 2, 100);
    row.option.device_class = 1;
    expect_refused(&row.problem);
    make_row(&row, 2, 100);
    row.seconds[2] = -1;
    expect_refused(&row.problem);
    make_row(&row, 2, 100);
    row.nodes[0].held_bytes = NAN;
    expect_refused(&row.problem);
    make_row(&row, 2, 100);
    row.problem.class_count = 17;
    expect_refused(&row.problem);
}

Test(stages, nothing_to_do)
{
    struct row row;
    struct sp_stages_options options = {0};
    make_row(&row, 2, 100);
    row.problem.node_count = row.problem.tensor_count = 0;
    struct sp_stages_result *result = solve(&row.problem, &options);
    cr_expect(result->is_feasible && result->is_optimal && result->stage_count == 0 && result->value == 0);
}

static const char *fault_of(struct row *row, uint32_t count, struct sp_stage *stages)
{
    double value;
    const char *fault = NULL;
    cr_assert_eq(sp_stages_evaluate(arena, &row->problem, count, stages, &value, &fault, &error), SP_OK);
    return fault;
}

Test(stages, evaluation_finds_what_is_broken)
{
    struct row row;
    uint32_t ends[] = {0, 2}, middle[] = {1}, first[] = {0}, rest[] = {1, 2};
    make_row(&row, 2, 8);
    struct sp_stage good[] = {{.replicas = 1, .node_count = 1, .nodes = first},
                              {.replicas = 1, .node_count = 2, .nodes = rest}};
    cr_expect_null(fault_of(&row, 2, good));
    cr_expect_float_eq(good[1].load_seconds, 2.25, 1e-12);
    cr_expect_float_eq(good[1].memory_bytes, 8, 1e-12);
    struct sp_stage backward[] = {good[1], good[0]};
    cr_expect_not_null(fault_of(&row, 2, backward));
    struct sp_stage around[] = {{.replicas = 1, .node_count = 2, .nodes = ends},
                                {.replicas = 1, .node_count = 1, .nodes = middle}};
    row.option.memory_bytes = 100;
    cr_expect_not_null(fault_of(&row, 2, around));
    row.problem.non_contiguous = true;
    cr_expect_null(fault_of(&row, 2, around));
    row.problem.non_contiguous = false;
    cr_expect_not_null(fault_of(&row, 1, good)); /* nodes are missing */
    struct sp_stage twice[] = {good[0], good[1], {.replicas = 1, .node_count = 1, .nodes = middle}};
    cr_expect_not_null(fault_of(&row, 3, twice));
    good[0].replicas = 2;
    cr_expect_not_null(fault_of(&row, 2, good));
    good[0].replicas = 1;
    row.option.memory_bytes = 7;
    cr_expect_not_null(fault_of(&row, 2, good));
    row.option.memory_bytes = 8;
    row.size = 1;
    cr_expect_not_null(fault_of(&row, 2, good));
    row.size = 2;
    row.nodes[0].color = row.nodes[1].color = 7;
    cr_expect_not_null(fault_of(&row, 2, good));
}

/* Rows of `width` nodes, each using two of the row before: far more ideals than can be listed. */
#define WIDE_ROWS 60
#define WIDE_SIZE (12 * WIDE_ROWS)

struct wide {
    struct sp_stages_problem problem;
    struct sp_stages_node nodes[WIDE_SIZE];
    struct sp_stages_tensor tensors[WIDE_SIZE];
    uint32_t users[WIDE_SIZE][2];
    struct sp_stages_option option;
    double seconds[WIDE_SIZE];
    uint32_t size;
};

static struct wide *make_wide(uint32_t devices)
{
    struct wide *wide = SP_NEW(arena, struct wide);
    uint64_t state = 11;
    cr_assert_not_null(wide);
    wide->size = devices;
    for (uint32_t i = 0; i < WIDE_SIZE; i++) {
        uint32_t next = (i / 12 + 1) * 12, first = random_stages_below(&state, 12);
        wide->nodes[i] = (struct sp_stages_node){.weight_bytes = 1, .color = SP_NO_STAGE_GROUP};
        wide->seconds[i] = 1 + random_stages_below(&state, 100);
        wide->users[i][0] = next + first;
        wide->users[i][1] = next + (first + 1 + random_stages_below(&state, 11)) % 12;
        wide->tensors[i] = (struct sp_stages_tensor){.producer = i,
                                                     .bytes = 1 + random_stages_below(&state, 10),
                                                     .consumer_count = next < WIDE_SIZE ? 2 : 0,
                                                     .consumers = wide->users[i]};
    }
    wide->option = (struct sp_stages_option){.devices = 1,
                                             .max_replicas = 1,
                                             .memory_bytes = 120,
                                             .memory_scale = 1,
                                             .seconds = wide->seconds,
                                             .transfer_per_byte = 1};
    wide->problem = (struct sp_stages_problem){.node_count = WIDE_SIZE,
                                               .tensor_count = WIDE_SIZE,
                                               .option_count = 1,
                                               .class_count = 1,
                                               .nodes = wide->nodes,
                                               .tensors = wide->tensors,
                                               .options = &wide->option,
                                               .class_size = &wide->size};
    return wide;
}

Test(stages, wide_graphs_get_better_with_work)
{
    struct wide *wide = make_wide(8);
    struct sp_stages_options little = {.seed = 3, .work_limit = 500000}, more = little;
    more.work_limit = 20000000;
    struct sp_stages_result *first = solve(&wide->problem, &little), *second = solve(&wide->problem, &little);
    struct sp_stages_result *third = solve(&wide->problem, &more);
    cr_assert(first->is_feasible && third->is_feasible);
    cr_expect_eq(first->ideals, 0);
    cr_expect_eq(first->value, second->value);
    cr_expect_eq(first->work, second->work);
    cr_assert_eq(memcmp(first->stage_of, second->stage_of, WIDE_SIZE * sizeof *first->stage_of), 0);
    cr_expect_lt(third->value, first->value, "%g, then %g; bound %g", first->value, third->value, third->bound);
    cr_expect_leq(third->bound, third->value);
    /* 8 stages share out 60 rows nearly evenly, and each border costs something. */
    cr_expect_lt(third->value, 1.04 * third->bound);
    for (uint32_t i = 0; i < third->stage_count; i++)
        cr_expect_leq(third->stages[i].memory_bytes, 120);
}

static bool stop_later(void *context, const char *phase, double fraction, double best, double bound)
{
    (void)phase, (void)fraction, (void)best, (void)bound;
    return --*(int *)context > 0;
}

Test(stages, a_watch_ends_the_search)
{
    struct wide *wide = make_wide(8);
    int ticks = 20;
    struct sp_watch watch = {.tick = stop_later, .context = &ticks};
    struct sp_stages_options options = {.watch = &watch};
    struct sp_stages_result *result = solve(&wide->problem, &options);
    cr_expect(result->is_stopped);
    cr_expect_lt(result->work, UINT64_C(2000000));
    cr_expect_not(result->is_optimal);
    bool stop = true;
    options = (struct sp_stages_options){.stop = &stop};
    cr_expect(solve(&wide->problem, &options)->is_stopped);
}

Test(stages, stays_within_its_budget)
{
    struct wide *wide = make_wide(8);
    struct sp_budget budget = {.limit = 1 << 18};
    struct sp_stages_options options = {.budget = &budget};
    struct sp_stages_result *result;
    struct sp_error wrong = {0};
    cr_expect_eq(sp_stages_solve(arena, &wide->problem, &options, &result, &wrong), SP_ERR_MEMORY);
    cr_expect_leq(budget.peak, budget.limit);
}
