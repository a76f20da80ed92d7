/* Any sets of nodes as stages, against trying all; and what must not depend on threads or when it ends. */
#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "random_stages.h"
#include "solvers/stages/assign.h"

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

TestSuite(stages_assign, .init = setup, .fini = teardown);

#define SETS (1u << RANDOM_STAGES_NODES)

/* Tries all sets as stages, each with its cost from the definitions. */
struct oracle {
    const struct sp_stages_problem *problem;
    bool is_whole[SETS];
    double load[RANDOM_STAGES_OPTIONS][SETS], bytes[RANDOM_STAGES_OPTIONS][SETS];
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
    double compute = 0, receive = 0, send = 0, bytes = 0, held = 0;
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
        send += is_made && is_left ? transfer_of(option, tensor->bytes) : 0;
        receive += !is_made && is_used ? transfer_of(option, tensor->bytes) : 0;
    }
    for (uint32_t w = 0; w < problem->weight_count; w++)
        for (uint32_t i = 0; i < problem->weights[w].user_count; i++)
            if (set >> problem->weights[w].users[i] & 1) {
                bytes += problem->weights[w].bytes * option->memory_scale;
                break;
            }
    oracle->load[o][set] =
        problem->combine == SP_STAGES_SUM ? compute + receive + send : fmax(compute, fmax(receive, send));
    oracle->bytes[o][set] = bytes + held;
}

static void prepare(struct oracle *oracle, const struct sp_stages_problem *problem)
{
    oracle->problem = problem;
    oracle->best = INFINITY;
    for (uint32_t set = 0; set < 1u << problem->node_count; set++) {
        oracle->is_whole[set] = true;
        for (uint32_t v = 0; v < problem->node_count; v++)
            for (uint32_t w = 0; w < v; w++)
                if (problem->nodes[v].color != SP_NO_STAGE_GROUP &&
                    problem->nodes[v].color == problem->nodes[w].color && (set >> v & 1) != (set >> w & 1))
                    oracle->is_whole[set] = false;
        for (uint32_t o = 0; o < problem->option_count; o++)
            weigh(oracle, o, set);
    }
}

/* What is placed already, from the last stage on. */
struct partial {
    uint32_t left, stages, used[2];
    double load;
};

/* At most RANDOM_STAGES_NODES deep. */
static void try_stages(struct oracle *oracle, const struct partial *partial)
{
    const struct sp_stages_problem *problem = oracle->problem;
    if (partial->left == 0) {
        oracle->best = fmin(oracle->best, partial->load);
        return;
    }
    if (problem->max_stages != 0 && partial->stages == problem->max_stages)
        return;
    uint32_t lowest = partial->left & (0 - partial->left);
    for (uint32_t set = partial->left; set != 0; set = (set - 1) & partial->left) {
        if (!oracle->is_whole[set] || (set & lowest) == 0)
            continue;
        for (uint32_t o = 0; o < problem->option_count; o++) {
            const struct sp_stages_option *option = &problem->options[o];
            for (uint32_t replicas = 1; option->max_replicas == 0 || replicas <= option->max_replicas; replicas++) {
                struct partial next = *partial;
                next.used[option->device_class] += option->devices * replicas;
                if (next.used[option->device_class] > problem->class_size[option->device_class])
                    break;
                next.left &= ~set;
                next.stages++;
                next.load = fmax(next.load, oracle->load[o][set] / replicas);
                if (oracle->bytes[o][set] <= option->memory_bytes && next.load < oracle->best)
                    try_stages(oracle, &next);
            }
        }
    }
}

static struct oracle oracle;

static void try_all(const struct sp_stages_problem *problem)
{
    prepare(&oracle, problem);
    struct partial none = {.left = (1u << problem->node_count) - 1};
    try_stages(&oracle, &none);
}

static struct sp_stages_result *solve(const struct sp_stages_problem *problem, const struct sp_stages_options *options)
{
    struct sp_stages_result *result = NULL;
    cr_assert_eq(sp_stages_solve(arena, problem, options, &result, &error), SP_OK, "%s", error.message);
    return result;
}

/* The stages hold every node once, their loads are the definition's, and none is above the value. */
static void expect_stages(const struct sp_stages_result *result, int round)
{
    uint32_t all = 0;
    double value = 0;
    for (uint32_t s = 0; s < result->stage_count; s++) {
        const struct sp_stage *stage = &result->stages[s];
        uint32_t set = 0;
        for (uint32_t i = 0; i < stage->node_count; i++)
            set |= 1u << stage->nodes[i];
        cr_assert_eq(set & all, 0);
        cr_assert(oracle.is_whole[set], "round %d", round);
        all |= set;
        value = fmax(value, oracle.load[stage->option][set] / stage->replicas);
    }
    cr_assert_eq(all, (1u << oracle.problem->node_count) - 1);
    cr_assert_float_eq(value, result->value, 1e-9, "round %d: %g, not %g", round, result->value, value);
}

static void expect_best(const struct sp_stages_result *result, int round)
{
    if (oracle.best == INFINITY) {
        cr_assert(!result->is_feasible, "round %d: %g, but nothing fits", round, result->value);
        return;
    }
    cr_assert(result->is_feasible, "round %d: nothing, but %g fits", round, oracle.best);
    cr_assert_float_eq(result->value, oracle.best, 1e-9, "round %d: %g, not %g", round, result->value, oracle.best);
    cr_assert(result->bound <= oracle.best + 1e-9, "round %d: bound %g above %g", round, result->bound, oracle.best);
    cr_assert(result->is_optimal, "round %d: bound %g of %g", round, result->bound, oracle.best);
    expect_stages(result, round);
}

Test(stages_assign, all_sets, .timeout = 250)
{
    static struct random_stages random;
    struct sp_stages_options options = {.seed = 1};
    uint64_t state = 11;
    uint32_t feasible = 0, several = 0, better = 0;
    for (int round = 0; round < 2000; round++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        random_stages_make(&random, &state, round % 50 == 0 ? RANDOM_STAGES_NODES : 7);
        random.problem.non_contiguous = true;
        try_all(&random.problem);
        struct sp_stages_result *result = solve(&random.problem, &options);
        expect_best(result, round);
        random.problem.non_contiguous = false;
        better += result->is_feasible && result->value < solve(&random.problem, &options)->value - 1e-9;
        feasible += result->is_feasible;
        several += result->stage_count > 1;
        sp_arena_rewind(arena, mark);
    }
    cr_expect_gt(feasible, 500);
    cr_expect_gt(several, 300);
    cr_expect_gt(better, 20); /* sets that are not contiguous do matter */
}

/* Sums that moves keep up to date are those of the assignment that they lead to, also where tensors go to each stage that
   uses them. */
Test(stages_assign, moves_keep_sums)
{
    static struct random_stages random;
    uint64_t state = 13;
    uint32_t moves = 0, others = 0;
    for (int round = 0; round < 300; round++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        struct sp_stages_prepared *prepared;
        struct sp_assign_model *model;
        struct sp_assign_state *moved, *fresh;
        struct sp_stages_choice choices[4] = {{0, 1}, {0, 1}, {0, 1}, {0, 1}};
        uint32_t slot_of[RANDOM_STAGES_NODES];
        random_stages_make(&random, &state, RANDOM_STAGES_NODES);
        random.problem.non_contiguous = true;
        random.problem.sends_to_each = round % 2 == 0;
        for (uint32_t v = 0; v < random.problem.node_count; v++)
            random.seconds[0][v] = 1 + v; /* each node runs in every slot */
        cr_assert_eq(sp_stages_prepare(arena, &random.problem, SP_STAGES_UNITS_FREE, &prepared, &error), SP_OK);
        cr_assert_eq(sp_assign_model_create(arena, prepared, &model, &error), SP_OK);
        cr_assert_eq(sp_assign_state_create(arena, model, 4, &moved, &error), SP_OK);
        cr_assert_eq(sp_assign_state_create(arena, model, 4, &fresh, &error), SP_OK);
        for (uint32_t u = 0; u < model->unit_count; u++)
            slot_of[u] = random_stages_below(&state, 4);
        sp_assign_state_load(moved, choices, slot_of);
        for (int step = 0; step < 50; step++) {
            struct sp_assign_move move;
            const uint32_t unit = random_stages_below(&state, model->unit_count);
            if (!sp_assign_move_look(moved, unit, random_stages_below(&state, 4), &move))
                continue;
            const double before = moved->energy;
            others += moved->other_count;
            sp_assign_move_make(moved, &move);
            sp_assign_state_load(fresh, choices, moved->slot_of);
            cr_assert_float_eq(moved->energy - before, move.change, 1e-9);
            cr_assert_float_eq(moved->energy, fresh->energy, 1e-6, "round %d: %g, not %g", round, moved->energy,
                               fresh->energy);
            for (uint32_t s = 0; s < 4; s++) {
                cr_assert_float_eq(moved->slots[s].send, fresh->slots[s].send, 1e-9, "round %d", round);
                cr_assert_float_eq(moved->slots[s].receive, fresh->slots[s].receive, 1e-9, "round %d", round);
                cr_assert_float_eq(moved->slots[s].load, fresh->slots[s].load, 1e-9, "round %d", round);
            }
            moves++;
        }
        sp_arena_rewind(arena, mark);
    }
    cr_expect_gt(moves, 1000);
    cr_expect_gt(others, 300);
}

/* Without the time for anything but the first steps: never better than the best, and no bound above it. */
Test(stages_assign, little_work, .timeout = 250)
{
    static struct random_stages random;
    uint64_t state = 12;
    for (int round = 0; round < 500; round++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        random_stages_make(&random, &state, 7);
        random.problem.non_contiguous = true;
        try_all(&random.problem);
        struct sp_stages_options options = {.seed = 1, .work_limit = 1 + 20 * random_stages_below(&state, 100)};
        struct sp_stages_result *result = solve(&random.problem, &options);
        cr_assert(result->bound <= oracle.best + 1e-9, "round %d: bound %g above %g", round, result->bound,
                  oracle.best);
        cr_assert(!result->is_feasible || result->value >= oracle.best - 1e-9, "round %d", round);
        sp_arena_rewind(arena, mark);
    }
}

/*
 * A ladder: two rows of `LENGTH` nodes with rungs, more than the exhaustive search takes. Seconds differ, so that
 * balancing has something to find.
 */
#define LENGTH    20
#define DEVICES   4
#define SOME_WORK 30000000

struct ladder {
    struct sp_stages_problem problem;
    struct sp_stages_node nodes[2 * LENGTH];
    struct sp_stages_tensor tensors[2 * LENGTH];
    uint32_t users[2 * LENGTH][2];
    double seconds[2 * LENGTH];
    struct sp_stages_option option;
    uint32_t size;
};

static void make_ladder(struct ladder *ladder, double memory)
{
    memset(ladder, 0, sizeof *ladder);
    uint64_t state = 5;
    for (uint32_t i = 0; i < 2 * LENGTH; i++) {
        uint32_t count = 0;
        ladder->nodes[i] = (struct sp_stages_node){.weight_bytes = 1, .color = SP_NO_STAGE_GROUP};
        ladder->seconds[i] = 10 + random_stages_below(&state, 50);
        if (i + 2 < 2 * LENGTH)
            ladder->users[i][count++] = i + 2;
        if (i % 2 == 0)
            ladder->users[i][count++] = i + 1;
        ladder->tensors[i] = (struct sp_stages_tensor){
            .producer = i, .bytes = 1 + i % 3, .consumer_count = count, .consumers = ladder->users[i]};
    }
    ladder->option = (struct sp_stages_option){.devices = 1,
                                               .max_replicas = 1,
                                               .memory_bytes = memory,
                                               .memory_scale = 1,
                                               .seconds = ladder->seconds,
                                               .transfer_per_byte = 1};
    ladder->size = DEVICES;
    ladder->problem = (struct sp_stages_problem){.node_count = 2 * LENGTH,
                                                 .tensor_count = 2 * LENGTH,
                                                 .option_count = 1,
                                                 .class_count = 1,
                                                 .nodes = ladder->nodes,
                                                 .tensors = ladder->tensors,
                                                 .options = &ladder->option,
                                                 .class_size = &ladder->size,
                                                 .non_contiguous = true};
}

static void expect_same(const struct sp_stages_result *a, const struct sp_stages_result *b, uint32_t nodes)
{
    cr_assert_eq(a->value, b->value);
    cr_assert_eq(a->bound, b->bound);
    cr_assert_eq(a->work, b->work);
    cr_assert_eq(a->stage_count, b->stage_count);
    cr_assert_arr_eq(a->stage_of, b->stage_of, nodes * sizeof(uint32_t));
}

/* Runs tasks on as many threads, the last one first. */
struct started {
    void (*task)(void *argument, uint32_t index);
    void *argument;
    uint32_t index;
};

static void *run_started(void *context)
{
    struct started *started = context;
    started->task(started->argument, started->index);
    return NULL;
}

static void run_threads(void *context, uint32_t count, void (*task)(void *argument, uint32_t index), void *argument)
{
    pthread_t threads[16];
    struct started started[16];
    cr_assert_leq(count, 16);
    for (uint32_t i = count; i-- > 0;) {
        started[i] = (struct started){task, argument, i};
        cr_assert_eq(pthread_create(&threads[i], NULL, run_started, &started[i]), 0);
    }
    for (uint32_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    ++*(int *)context;
}

Test(stages_assign, threads_and_seeds)
{
    struct ladder ladder;
    int runs = 0;
    struct sp_executor executor = {.run = run_threads, .context = &runs, .threads = 4};
    make_ladder(&ladder, INFINITY);
    struct sp_stages_options alone = {.seed = 7, .work_limit = SOME_WORK};
    struct sp_stages_options lent = {.seed = 7, .work_limit = SOME_WORK, .executor = &executor};
    const struct sp_stages_result *first = solve(&ladder.problem, &alone);
    expect_same(first, solve(&ladder.problem, &alone), 2 * LENGTH);
    expect_same(first, solve(&ladder.problem, &lent), 2 * LENGTH);
    cr_expect_gt(runs, 0); /* the threads were used */
}

/* All seconds over the devices is a bound; annealing must come near, where contiguous cuts cannot. */
Test(stages_assign, balances)
{
    struct ladder ladder;
    struct sp_stages_options options = {.seed = 1};
    make_ladder(&ladder, INFINITY);
    const struct sp_stages_result *any = solve(&ladder.problem, &options);
    double sum = 0;
    for (uint32_t i = 0; i < 2 * LENGTH; i++)
        sum += ladder.seconds[i];
    cr_expect_geq(any->bound, sum / DEVICES - 1e-9);
    cr_expect_leq(any->bound, any->value);
    ladder.problem.non_contiguous = false;
    const struct sp_stages_result *contiguous = solve(&ladder.problem, &options);
    cr_expect_leq(any->value, contiguous->value);
}

/* Ten nodes for each of four devices, no more and no less. */
Test(stages_assign, tight_memory)
{
    struct ladder ladder;
    struct sp_stages_options options = {.seed = 1};
    make_ladder(&ladder, 2.0 * LENGTH / DEVICES);
    const struct sp_stages_result *result = solve(&ladder.problem, &options);
    cr_assert(result->is_feasible);
    cr_assert_eq(result->stage_count, DEVICES);
    for (uint32_t s = 0; s < DEVICES; s++)
        cr_expect_eq(result->stages[s].node_count, 2 * LENGTH / DEVICES);
}

static bool stop_at_once(void *context, const char *phase, double fraction, double best, double bound)
{
    (void)phase, (void)fraction, (void)best, (void)bound;
    ++*(int *)context;
    return false;
}

Test(stages_assign, stops)
{
    struct ladder ladder;
    volatile bool stop = true;
    int ticks = 0;
    struct sp_watch watch = {.tick = stop_at_once, .context = &ticks};
    make_ladder(&ladder, INFINITY);
    struct sp_stages_options flagged = {.seed = 1, .stop = &stop}, watched = {.seed = 1, .watch = &watch};
    /* Any solution is above the bound of a search that was stopped. */
    const struct sp_stages_result *all =
        solve(&ladder.problem, &(struct sp_stages_options){.seed = 1, .work_limit = SOME_WORK});
    const struct sp_stages_result *result = solve(&ladder.problem, &flagged);
    cr_expect(result->is_stopped);
    result = solve(&ladder.problem, &watched);
    cr_expect(result->is_stopped);
    cr_expect_gt(ticks, 0);
    cr_expect_leq(result->bound, all->value);
}
