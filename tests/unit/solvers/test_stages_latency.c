/* One sample's latency against trying everything: each unit free or in a stage, timed by a clock of its own. */
#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "random_stages.h"
#include "solvers/stages/latency/latency.h"

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

TestSuite(stages_latency, .init = setup, .fini = teardown);

#define SETS (1u << RANDOM_STAGES_NODES)

struct oracle {
    const struct sp_stages_problem *problem;
    uint32_t before[RANDOM_STAGES_NODES]; /* direct predecessors */
    uint32_t unit[RANDOM_STAGES_NODES];   /* the nodes of its colour */
    double seconds[RANDOM_STAGES_OPTIONS][SETS], bytes[RANDOM_STAGES_OPTIONS][SETS];
    double best;
};

static double transfer_of(const struct sp_stages_option *option, double bytes)
{
    return option->transfer_fixed + option->transfer_per_byte * bytes;
}

static void weigh(struct oracle *oracle, uint32_t o, uint32_t set)
{
    const struct sp_stages_problem *problem = oracle->problem;
    const struct sp_stages_option *option = &problem->options[o];
    double compute = 0, transfers = 0, bytes = 0, held = 0;
    for (uint32_t v = 0; v < problem->node_count; v++) {
        if ((set >> v & 1) == 0)
            continue;
        const struct sp_stages_node *node = &problem->nodes[v];
        compute += option->seconds[v];
        bytes += option->weight_bytes != NULL ? option->weight_bytes[v] : node->weight_bytes * option->memory_scale;
        held = fmax(held, option->held_bytes != NULL ? option->held_bytes[v] : node->held_bytes * option->memory_scale);
    }
    for (uint32_t t = 0; t < problem->tensor_count; t++) {
        const struct sp_stages_tensor *tensor = &problem->tensors[t];
        bool is_made = set >> tensor->producer & 1, is_used = false, is_left = false;
        for (uint32_t i = 0; i < tensor->consumer_count; i++) {
            is_used |= set >> tensor->consumers[i] & 1;
            is_left |= !(set >> tensor->consumers[i] & 1);
        }
        transfers += (is_made && is_left) || (!is_made && is_used) ? transfer_of(option, tensor->bytes) : 0;
    }
    for (uint32_t w = 0; w < problem->weight_count; w++)
        for (uint32_t i = 0; i < problem->weights[w].user_count; i++)
            if (set >> problem->weights[w].users[i] & 1) {
                bytes += problem->weights[w].bytes * option->memory_scale;
                break;
            }
    if (option->copy_per_byte > 0)
        compute = bytes + held - option->own_bytes > option->copied_most
                      ? INFINITY
                      : fmax(compute, (bytes + held - option->own_bytes) * option->copy_per_byte);
    oracle->seconds[o][set] = compute + transfers;
    oracle->bytes[o][set] = bytes + held;
}

static void prepare(struct oracle *oracle, const struct sp_stages_problem *problem)
{
    memset(oracle, 0, sizeof *oracle);
    oracle->problem = problem;
    oracle->best = INFINITY;
    for (uint32_t t = 0; t < problem->tensor_count; t++)
        for (uint32_t i = 0; i < problem->tensors[t].consumer_count; i++)
            oracle->before[problem->tensors[t].consumers[i]] |= 1u << problem->tensors[t].producer;
    for (uint32_t v = 0; v < problem->node_count; v++)
        for (uint32_t w = 0; w < problem->node_count; w++)
            if (v == w ||
                (problem->nodes[v].color != SP_NO_STAGE_GROUP && problem->nodes[v].color == problem->nodes[w].color))
                oracle->unit[v] |= 1u << w;
    for (uint32_t set = 0; set < 1u << problem->node_count; set++)
        for (uint32_t o = 0; o < problem->option_count; o++)
            weigh(oracle, o, set);
}

struct partial {
    uint32_t left, stages, used[2];
    uint32_t part_count, parts[RANDOM_STAGES_NODES];
    double seconds[RANDOM_STAGES_NODES]; /* of a part: a stage, or a node that runs freely */
};

/* When the last part ends: each goes when all that it needs has ended. INFINITY for stages that wait for each other. */
static double time_of(const struct oracle *oracle, const struct partial *partial)
{
    double end[RANDOM_STAGES_NODES], last = 0;
    uint32_t done = 0, all = (1u << oracle->problem->node_count) - 1;
    for (uint32_t round = 0; round < partial->part_count && done != all; round++)
        for (uint32_t p = 0; p < partial->part_count; p++) {
            uint32_t set = partial->parts[p], needs = 0;
            double start = 0;
            if (set & done)
                continue;
            for (uint32_t v = 0; v < oracle->problem->node_count; v++)
                needs |= set >> v & 1 ? oracle->before[v] & ~set : 0;
            if (needs & ~done)
                continue;
            for (uint32_t q = 0; q < partial->part_count; q++)
                if (partial->parts[q] & needs)
                    start = fmax(start, end[q]);
            end[p] = start + partial->seconds[p];
            last = fmax(last, end[p]);
            done |= set;
        }
    return done == all ? last : INFINITY;
}

static void try_parts(struct oracle *oracle, const struct partial *partial);

static void try_free(struct oracle *oracle, const struct partial *partial, uint32_t o, uint32_t unit)
{
    const struct sp_stages_problem *problem = oracle->problem;
    struct partial next = *partial;
    if (oracle->bytes[o][unit] > problem->options[o].memory_bytes)
        return;
    next.left &= ~unit;
    for (uint32_t v = 0; v < problem->node_count; v++)
        if (unit >> v & 1) {
            next.parts[next.part_count] = 1u << v;
            next.seconds[next.part_count++] = problem->options[o].seconds[v];
            if (problem->options[o].seconds[v] == INFINITY)
                return;
        }
    try_parts(oracle, &next);
}

static void try_stage(struct oracle *oracle, const struct partial *partial, uint32_t o, uint32_t set)
{
    const struct sp_stages_problem *problem = oracle->problem;
    const struct sp_stages_option *option = &problem->options[o];
    struct partial next = *partial;
    next.used[option->device_class] += option->devices;
    if (next.used[option->device_class] > problem->class_size[option->device_class] ||
        oracle->bytes[o][set] > option->memory_bytes || oracle->seconds[o][set] >= oracle->best ||
        (problem->max_stages != 0 && partial->stages == problem->max_stages))
        return;
    next.left &= ~set;
    next.stages++;
    next.parts[next.part_count] = set;
    next.seconds[next.part_count++] = oracle->seconds[o][set];
    try_parts(oracle, &next);
}

/* The lowest node that is left goes somewhere. At most RANDOM_STAGES_NODES deep. */
static void try_parts(struct oracle *oracle, const struct partial *partial)
{
    const struct sp_stages_problem *problem = oracle->problem;
    if (partial->left == 0) {
        oracle->best = fmin(oracle->best, time_of(oracle, partial));
        return;
    }
    uint32_t lowest = 0;
    while ((partial->left >> lowest & 1) == 0)
        lowest++;
    for (uint32_t o = 0; o < problem->option_count; o++)
        if (problem->options[o].is_free)
            try_free(oracle, partial, o, oracle->unit[lowest]);
    for (uint32_t set = partial->left; set != 0; set = (set - 1) & partial->left) {
        bool is_whole = set >> lowest & 1;
        for (uint32_t v = 0; is_whole && v < problem->node_count; v++)
            is_whole = (set >> v & 1) == 0 || (oracle->unit[v] & ~set) == 0;
        for (uint32_t o = 0; is_whole && o < problem->option_count; o++)
            if (!problem->options[o].is_free)
                try_stage(oracle, partial, o, set);
    }
}

static struct oracle oracle;

static struct sp_stages_result *solve(const struct sp_stages_problem *problem, const struct sp_stages_options *options)
{
    struct sp_stages_result *result = NULL;
    cr_assert_eq(sp_stages_solve(arena, problem, options, &result, &error), SP_OK, "%s", error.message);
    return result;
}

/* A problem with free options more often than not; what is free has memory for each node more often than not. */
static void make(struct random_stages *random, uint64_t *state, uint32_t nodes)
{
    random_stages_make(random, state, nodes);
    random->problem.objective = SP_STAGES_LATENCY;
    for (uint32_t o = 0; o < random->problem.option_count; o++) {
        random->options[o].is_free = random_stages_below(state, 5) < 2;
        if (random->options[o].is_free && random_stages_below(state, 2) == 0)
            random->options[o].memory_bytes = INFINITY;
        for (uint32_t v = 0; random->options[o].is_free && v < random->problem.node_count; v++)
            random->seconds[o][v] *= 2;
    }
}

/* Where nothing is free, no edge goes back in the order of the stages. */
static void expect_order(const struct sp_stages_result *result, int round)
{
    const struct sp_stages_problem *problem = oracle.problem;
    for (uint32_t s = 0; s < result->stage_count; s++) {
        if (problem->options[result->stages[s].option].is_free)
            return;
    }
    for (uint32_t t = 0; t < problem->tensor_count; t++) {
        for (uint32_t i = 0; i < problem->tensors[t].consumer_count; i++)
            cr_assert_leq(result->stage_of[problem->tensors[t].producer],
                          result->stage_of[problem->tensors[t].consumers[i]], "round %d: tensor %u goes back", round,
                          t);
    }
}

/* The value is that of the stages it gives, by the clock of this file. */
static void expect_stages(const struct sp_stages_result *result, int round)
{
    struct partial all = {0};
    uint32_t nodes = 0;
    for (uint32_t s = 0; s < result->stage_count; s++) {
        const struct sp_stage *stage = &result->stages[s];
        bool is_free = oracle.problem->options[stage->option].is_free;
        uint32_t set = 0;
        for (uint32_t i = 0; i < stage->node_count; i++) {
            set |= 1u << stage->nodes[i];
            if (!is_free)
                continue;
            all.parts[all.part_count] = 1u << stage->nodes[i];
            all.seconds[all.part_count++] = oracle.problem->options[stage->option].seconds[stage->nodes[i]];
        }
        if (!is_free) {
            all.parts[all.part_count] = set;
            all.seconds[all.part_count++] = oracle.seconds[stage->option][set];
        }
        cr_assert_eq(nodes & set, 0);
        nodes |= set;
    }
    cr_assert_eq(nodes, (1u << oracle.problem->node_count) - 1);
    expect_order(result, round);
    double value = time_of(&oracle, &all);
    cr_assert_float_eq(value, result->value, 1e-9, "round %d: %g, not %g", round, result->value, value);
}

static void try_all(const struct sp_stages_problem *problem)
{
    prepare(&oracle, problem);
    struct partial none = {.left = (1u << problem->node_count) - 1};
    try_parts(&oracle, &none);
}

static void compare(uint64_t state, bool copies)
{
    static struct random_stages random;
    struct sp_stages_options options = {.seed = 1};
    uint32_t feasible = 0, several = 0, mixed = 0;
    for (int round = 0; round < 2000; round++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        make(&random, &state, round % 50 == 0 ? RANDOM_STAGES_NODES : 7);
        for (uint32_t o = 0; copies && o < random.problem.option_count; o++) {
            random.options[o].own_bytes = 1 + random_stages_below(&state, 8);
            random.options[o].copied_most = 2 + random_stages_below(&state, 12);
            random.options[o].copy_per_byte = random.options[o].is_free ? 0 : random_stages_below(&state, 4) / 2.0;
        }
        try_all(&random.problem);
        struct sp_stages_result *result = solve(&random.problem, &options);
        cr_assert_eq(result->is_feasible, oracle.best < INFINITY, "round %d: %g, best %g", round, result->value,
                     oracle.best);
        if (result->is_feasible) {
            cr_assert_float_eq(result->value, oracle.best, 1e-9, "round %d: %g, not %g", round, result->value,
                               oracle.best);
            cr_assert(result->bound <= oracle.best + 1e-9, "round %d: bound %g above %g", round, result->bound,
                      oracle.best);
            cr_assert(result->is_optimal, "round %d: bound %g of %g", round, result->bound, oracle.best);
            expect_stages(result, round);
        }
        uint32_t stages = 0, free = 0;
        for (uint32_t s = 0; s < result->stage_count; s++) {
            free += random.options[result->stages[s].option].is_free;
            stages += !random.options[result->stages[s].option].is_free;
        }
        feasible += result->is_feasible;
        several += stages > 1;
        mixed += stages > 0 && free > 0;
        sp_arena_rewind(arena, mark);
    }
    cr_expect_gt(feasible, 500);
    cr_expect_gt(several, 50);
    cr_expect_gt(mixed, 50);
}

Test(stages_latency, all_solutions, .timeout = 250)
{
    compare(21, false);
}

Test(stages_latency, all_solutions_with_copies, .timeout = 250)
{
    compare(27, true);
}

/* With little time: never better than the best, and no bound above it. */
Test(stages_latency, little_work, .timeout = 250)
{
    static struct random_stages random;
    uint64_t state = 22;
    for (int round = 0; round < 500; round++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        make(&random, &state, 7);
        try_all(&random.problem);
        struct sp_stages_options options = {.seed = 1, .work_limit = 1 + 20 * random_stages_below(&state, 100)};
        struct sp_stages_result *result = solve(&random.problem, &options);
        cr_assert(result->bound <= oracle.best + 1e-9, "round %d: bound %g above %g", round, result->bound,
                  oracle.best);
        cr_assert(!result->is_feasible || result->value >= oracle.best - 1e-9, "round %d", round);
        sp_arena_rewind(arena, mark);
    }
}

/* Nodes of one path, drawn at random; returns how many. */
static uint32_t draw_path(const struct sp_latency_graph *graph, uint64_t *state, uint32_t *ret_path)
{
    uint32_t count = 0, node = random_stages_below(state, graph->node_count);
    for (uint32_t users = 1; users > 0;) {
        ret_path[count++] = node;
        users = graph->after.start[node + 1] - graph->after.start[node];
        if (users > 0)
            node = graph->after.items[graph->after.start[node] + random_stages_below(state, users)];
    }
    return count;
}

/* What any one path takes at least is within the best of all solutions, and often nearly all of it. */
Test(stages_latency, any_path, .timeout = 250)
{
    static struct random_stages random;
    uint64_t state = 23;
    uint32_t feasible = 0, exact = 0;
    for (int round = 0; round < 3000; round++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        const struct sp_stages_options options = {.seed = 1};
        struct sp_stages_run run = {.scratch = arena, .options = &options, .work_left = 1000000, .err = &error};
        struct sp_stages_prepared *prepared;
        struct sp_latency_graph *graph;
        make(&random, &state, round % 50 == 0 ? RANDOM_STAGES_NODES : 7);
        try_all(&random.problem);
        cr_assert_eq(sp_stages_prepare(arena, &random.problem, SP_STAGES_UNITS_FREE, &prepared, &error), SP_OK);
        cr_assert_eq(sp_latency_graph_create(&run, prepared, &graph), SP_OK);
        double longest = 0;
        for (uint32_t i = 0; i < 8; i++) {
            uint32_t path[RANDOM_STAGES_NODES], count = draw_path(graph, &state, path);
            double seconds = 0;
            cr_assert_eq(sp_latency_path(&run, arena, graph, count, path, &seconds), SP_OK);
            longest = fmax(longest, seconds);
        }
        cr_assert_leq(longest, oracle.best + 1e-9, "round %d", round);
        feasible += oracle.best < INFINITY;
        exact += oracle.best < INFINITY && longest > oracle.best - 1e-9;
        sp_arena_rewind(arena, mark);
    }
    cr_expect_gt(feasible, 1500);
    cr_expect_gt(exact, feasible / 3);
}

/*
 * A chain of blocks: two branches of unequal work that meet. Processors take ten times as long as accelerators, whose
 * memory is for a part of the nodes.
 */
#define BLOCKS 10
#define NODES  (4 * BLOCKS)

#define SOME_WORK 50000000 /* seconds under the sanitizers; what is asked of the chain needs no more */

struct chain {
    struct sp_stages_problem problem;
    struct sp_stages_node nodes[NODES];
    struct sp_stages_tensor tensors[NODES];
    uint32_t users[NODES][2];
    double fast[NODES], slow[NODES];
    struct sp_stages_option options[2];
    uint32_t size[2];
};

static void make_chain(struct chain *chain, uint32_t devices, double memory)
{
    memset(chain, 0, sizeof *chain);
    uint64_t state = 9;
    for (uint32_t v = 0; v < NODES; v++) {
        uint32_t kind = v % 4, count = 0; /* a fork, two branches, a join */
        chain->nodes[v] = (struct sp_stages_node){.weight_bytes = 1, .color = SP_NO_STAGE_GROUP};
        chain->fast[v] = 1 + random_stages_below(&state, 5);
        chain->slow[v] = 10 * chain->fast[v];
        if (kind != 1 && v + 1 < NODES)
            chain->users[v][count++] = v + 1;
        if (kind <= 1)
            chain->users[v][count++] = v + 2;
        chain->tensors[v] =
            (struct sp_stages_tensor){.producer = v, .bytes = 1, .consumer_count = count, .consumers = chain->users[v]};
    }
    chain->options[0] = (struct sp_stages_option){.devices = 1,
                                                  .max_replicas = 1,
                                                  .memory_bytes = memory,
                                                  .memory_scale = 1,
                                                  .seconds = chain->fast,
                                                  .transfer_per_byte = 0.5};
    chain->options[1] = (struct sp_stages_option){.device_class = 1,
                                                  .devices = 1,
                                                  .max_replicas = 1,
                                                  .memory_bytes = INFINITY,
                                                  .memory_scale = 1,
                                                  .seconds = chain->slow,
                                                  .is_free = true};
    chain->size[0] = devices;
    chain->size[1] = 1;
    chain->problem = (struct sp_stages_problem){.node_count = NODES,
                                                .tensor_count = NODES,
                                                .option_count = 2,
                                                .class_count = 2,
                                                .nodes = chain->nodes,
                                                .tensors = chain->tensors,
                                                .options = chain->options,
                                                .class_size = chain->size,
                                                .objective = SP_STAGES_LATENCY};
}

static void *run_started(void *context)
{
    void **started = context;
    ((void (*)(void *, uint32_t))started[0])(started[1], (uint32_t)(uintptr_t)started[2]);
    return NULL;
}

static void run_threads(void *context, uint32_t count, void (*task)(void *argument, uint32_t index), void *argument)
{
    pthread_t threads[16];
    void *started[16][3];
    cr_assert_leq(count, 16);
    for (uint32_t i = count; i-- > 0;) {
        started[i][0] = (void *)task;
        started[i][1] = argument;
        started[i][2] = (void *)(uintptr_t)i;
        cr_assert_eq(pthread_create(&threads[i], NULL, run_started, started[i]), 0);
    }
    for (uint32_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    ++*(int *)context;
}

Test(stages_latency, threads_and_seeds)
{
    struct chain chain;
    int runs = 0;
    struct sp_executor executor = {.run = run_threads, .context = &runs, .threads = 4};
    make_chain(&chain, 3, 8);
    struct sp_stages_options alone = {.seed = 7, .work_limit = SOME_WORK};
    struct sp_stages_options lent = {.seed = 7, .work_limit = SOME_WORK, .executor = &executor};
    const struct sp_stages_result *first = solve(&chain.problem, &alone), *again = solve(&chain.problem, &alone),
                                  *threads = solve(&chain.problem, &lent);
    cr_assert_eq(first->value, again->value);
    cr_assert_eq(first->work, again->work);
    cr_assert_arr_eq(first->stage_of, again->stage_of, NODES * sizeof(uint32_t));
    cr_assert_eq(first->value, threads->value);
    cr_assert_eq(first->bound, threads->bound);
    cr_assert_eq(first->work, threads->work);
    cr_assert_arr_eq(first->stage_of, threads->stage_of, NODES * sizeof(uint32_t));
    cr_expect_gt(runs, 0);
}

/* Memory for everything on one device: one stage, which is all nodes one after the other; branches beside each other
   on two devices take turns no better, as a device runs only one stage. */
Test(stages_latency, ample_memory)
{
    struct chain chain;
    double sum = 0;
    make_chain(&chain, 1, NODES);
    for (uint32_t v = 0; v < NODES; v++)
        sum += chain.fast[v];
    const struct sp_stages_result *result =
        solve(&chain.problem, &(struct sp_stages_options){.seed = 1, .work_limit = SOME_WORK});
    cr_assert(result->is_feasible);
    cr_expect_leq(result->value, sum + 1e-9);
    cr_expect_leq(result->bound, result->value + 1e-9);
}

/* Memory for 3 * 8 of the nodes: the others are slow, wherever they are. No path is shorter than what the best choice
   of so many fast nodes leaves, which the bound knows and plain longest paths do not. */
Test(stages_latency, small_memory)
{
    struct chain chain;
    make_chain(&chain, 3, 8);
    const struct sp_stages_result *result =
        solve(&chain.problem, &(struct sp_stages_options){.seed = 1, .work_limit = SOME_WORK});
    double path = 0;
    for (uint32_t b = 0; b < BLOCKS; b++)
        path += chain.fast[4 * b] + fmax(chain.fast[4 * b + 1], chain.fast[4 * b + 2]) + chain.fast[4 * b + 3];
    cr_assert(result->is_feasible);
    cr_expect_gt(result->bound, path * 1.1);
    cr_expect_gt(result->bound, result->value * 0.8); /* branches are cut, or go along */
    cr_expect_leq(result->bound, result->value + 1e-9);
}

static bool stop_at_once(void *context, const char *phase, double fraction, double best, double bound)
{
    (void)phase, (void)fraction, (void)best, (void)bound;
    ++*(int *)context;
    return false;
}

Test(stages_latency, stops)
{
    struct chain chain;
    volatile bool stop = true;
    int ticks = 0;
    struct sp_watch watch = {.tick = stop_at_once, .context = &ticks};
    make_chain(&chain, 3, 8);
    const struct sp_stages_result *all =
        solve(&chain.problem, &(struct sp_stages_options){.seed = 1, .work_limit = SOME_WORK});
    const struct sp_stages_result *result =
        solve(&chain.problem, &(struct sp_stages_options){.seed = 1, .stop = &stop});
    cr_expect(result->is_stopped);
    result = solve(&chain.problem, &(struct sp_stages_options){.seed = 1, .watch = &watch});
    cr_expect(result->is_stopped);
    cr_expect_gt(ticks, 0);
    cr_expect_leq(result->bound, all->value + 1e-9);
}

/*
 * Lines: each node uses what the one before it makes. Two classes of devices, of which stages may have one, two or all
 * four, so that stages of several sizes lie beside each other; the best of all cuts by a table over what was used.
 */
#define LINE    18
#define DEVICES 4
#define SIZES   3

struct line {
    struct sp_stages_problem problem;
    struct sp_stages_node nodes[LINE];
    struct sp_stages_tensor tensors[LINE - 1];
    uint32_t users[LINE - 1];
    double seconds[2 * SIZES][LINE];
    struct sp_stages_option options[2 * SIZES];
    uint32_t size[2];
};

static void make_line(struct line *line, uint64_t *state)
{
    static const uint32_t sizes[SIZES] = {1, 2, DEVICES};
    double work[LINE];
    memset(line, 0, sizeof *line);
    for (uint32_t v = 0; v < LINE; v++) {
        work[v] = 1 + random_stages_below(state, 9);
        line->nodes[v] =
            (struct sp_stages_node){.weight_bytes = 1 + random_stages_below(state, 4), .color = SP_NO_STAGE_GROUP};
        if (v == LINE - 1)
            continue;
        line->users[v] = v + 1;
        line->tensors[v] = (struct sp_stages_tensor){v, 1 + random_stages_below(state, 5), 1, &line->users[v]};
    }
    for (uint32_t c = 0; c < 2; c++) {
        const double speed = 1 + random_stages_below(state, 4), memory = 6 + random_stages_below(state, 10);
        line->size[c] = 1 + random_stages_below(state, DEVICES);
        for (uint32_t s = 0; s < SIZES; s++) {
            const uint32_t o = c * SIZES + s;
            for (uint32_t v = 0; v < LINE; v++) /* what is split has to be put together again */
                line->seconds[o][v] = work[v] / (speed * sizes[s]) + (s > 0) * 0.1 * random_stages_below(state, 8);
            line->options[o] = (struct sp_stages_option){.device_class = c,
                                                         .devices = sizes[s],
                                                         .max_replicas = 1,
                                                         .memory_bytes = memory,
                                                         .memory_scale = 1.0 / sizes[s],
                                                         .seconds = line->seconds[o],
                                                         .transfer_fixed = 0.05,
                                                         .transfer_per_byte = 0.02};
        }
    }
    line->problem = (struct sp_stages_problem){.node_count = LINE,
                                               .tensor_count = LINE - 1,
                                               .option_count = 2 * SIZES,
                                               .class_count = 2,
                                               .nodes = line->nodes,
                                               .tensors = line->tensors,
                                               .options = line->options,
                                               .class_size = line->size,
                                               .objective = SP_STAGES_LATENCY};
}

static double transfer_over(const struct line *line, uint32_t o, uint32_t cut)
{
    return cut == 0 || cut == LINE ? 0 : transfer_of(&line->options[o], line->tensors[cut - 1].bytes);
}

/* best[i][a][b]: the first i nodes on a devices of the one class and b of the other. */
static double best_cut(const struct line *line)
{
    static double best[LINE + 1][DEVICES + 1][DEVICES + 1];
    double least = INFINITY;
    for (uint32_t i = 0; i <= LINE; i++)
        for (uint32_t a = 0; a <= DEVICES; a++)
            for (uint32_t b = 0; b <= DEVICES; b++)
                best[i][a][b] = i == 0 && a == 0 && b == 0 ? 0 : INFINITY;
    for (uint32_t i = 0; i < LINE; i++)
        for (uint32_t o = 0; o < 2 * SIZES; o++) {
            const struct sp_stages_option *option = &line->options[o];
            double seconds = transfer_over(line, o, i), bytes = 0;
            for (uint32_t end = i + 1; end <= LINE; end++) {
                seconds += line->seconds[o][end - 1];
                bytes += line->nodes[end - 1].weight_bytes * option->memory_scale;
                if (bytes > option->memory_bytes + 1e-9)
                    break;
                for (uint32_t a = o < SIZES ? option->devices : 0; a <= line->size[0]; a++)
                    for (uint32_t b = o < SIZES ? 0 : option->devices; b <= line->size[1]; b++) {
                        const double before =
                            o < SIZES ? best[i][a - option->devices][b] : best[i][a][b - option->devices];
                        best[end][a][b] = fmin(best[end][a][b], before + seconds + transfer_over(line, o, end));
                    }
            }
        }
    for (uint32_t a = 0; a <= line->size[0]; a++)
        for (uint32_t b = 0; b <= line->size[1]; b++)
            least = fmin(least, best[LINE][a][b]);
    return least;
}

Test(stages_latency, lines_of_stages_of_several_sizes)
{
    static struct line line;
    uint32_t feasible = 0, mixed = 0;
    uint64_t state = 24;
    for (uint32_t round = 0; round < 500; round++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        uint32_t sizes = 0;
        make_line(&line, &state);
        const double best = best_cut(&line);
        const struct sp_stages_result *result =
            solve(&line.problem,
                  &(struct sp_stages_options){.seed = 1, .work_limit = SOME_WORK, .skips_minimum_memory = true});
        cr_assert_eq(result->is_feasible, best < INFINITY, "round %u", round);
        feasible += result->is_feasible;
        for (uint32_t s = 0; s < result->stage_count && result->is_feasible; s++)
            sizes |= line.options[result->stages[s].option].devices;
        mixed += (sizes & (sizes - 1)) != 0;
        if (result->is_feasible) {
            cr_expect(fabs(result->value - best) < 1e-9, "round %u: %g, but %g is the best", round, result->value,
                      best);
            cr_expect(result->is_optimal, "round %u", round);
        }
        sp_arena_rewind(arena, mark);
    }
    cr_expect_gt(feasible, 250, "%u", feasible);
    cr_expect_gt(mixed, 100, "%u", mixed);
}
