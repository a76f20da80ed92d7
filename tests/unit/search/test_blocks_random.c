/*
 * Repetitions of sequences and runs of random workloads, against slow code that follows the definitions; and how the
 * work grows.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "build_workload.h"
#include "random_workload.h"
#include "search/strategy/blocks_internal.h"

static struct sp_arena *arena;
static struct sp_cluster *cluster;

static void set_up(void)
{
    arena = sp_arena_create(NULL);
    cluster = build_cluster(arena, 2, 1e15, 1e11, 2e-6);
}

static void tear_down(void)
{
    sp_arena_destroy(arena);
}

TestSuite(blocks_random, .init = set_up, .fini = tear_down);

/* ---- repetitions ------------------------------------------------------------------------------------------------ */

#define LONGEST 64

static bool has_period(const uint32_t *symbols, uint32_t begin, uint32_t end, uint32_t period)
{
    for (uint32_t i = begin; i + period < end; i++) {
        if (symbols[i] != symbols[i + period])
            return false;
    }
    return true;
}

/* All maximal repetitions, by their definition. */
static uint32_t slow_repeats(const uint32_t *symbols, uint32_t count, struct sp_blocks_repeat *repeats)
{
    uint32_t found = 0;
    for (uint32_t begin = 0; begin < count; begin++) {
        for (uint32_t period = 1; begin + 2 * period <= count; period++) {
            uint32_t end = begin + 2 * period;
            if (!has_period(symbols, begin, end, period) ||
                (begin > 0 && symbols[begin - 1] == symbols[begin - 1 + period]))
                continue;
            while (end < count && symbols[end] == symbols[end - period])
                end++;
            bool is_least = true;
            for (uint32_t smaller = 1; smaller < period; smaller++)
                is_least = is_least && !has_period(symbols, begin, end, smaller);
            if (is_least)
                repeats[found++] = (struct sp_blocks_repeat){begin, end, period};
        }
    }
    return found;
}

static void expect_repeats(const uint32_t *symbols, uint32_t count, uint64_t seed)
{
    struct sp_blocks_repeat slow[LONGEST * LONGEST];
    struct sp_blocks_repeat_list repeats = {0};
    uint32_t slow_count = slow_repeats(symbols, count, slow);
    uint64_t steps = 0;
    struct sp_error err = {0};
    cr_assert_eq(sp_blocks_repeats(arena, symbols, count, seed, &repeats, &steps, &err), SP_OK);
    cr_assert_eq(repeats.count, slow_count, "%u symbols from %u: %u instead of %u", count, symbols[0], repeats.count,
                 slow_count);
    const struct sp_blocks_repeat *fast = repeats.items;
    for (uint32_t i = 0; i < slow_count; i++) {
        cr_assert(fast[i].begin == slow[i].begin && fast[i].end == slow[i].end && fast[i].period == slow[i].period,
                  "[%u, %u) of %u instead of [%u, %u) of %u", fast[i].begin, fast[i].end, fast[i].period, slow[i].begin,
                  slow[i].end, slow[i].period);
    }
}

Test(blocks_random, repetitions_are_those_of_the_definition)
{
    uint64_t seed = 1;
    uint32_t symbols[LONGEST] = {0};
    for (int round = 0; round < 3000; round++) {
        uint32_t count = 1 + pick(&seed, LONGEST), alphabet = 1 + pick(&seed, 4), period = 1 + pick(&seed, 9);
        for (uint32_t i = 0; i < count; i++) {
            bool is_copy = i >= period && pick(&seed, 12) != 0;
            symbols[i] = is_copy ? symbols[i - period] : pick(&seed, alphabet);
        }
        expect_repeats(symbols, count, (uint64_t)round * 0x9e3779b97f4a7c15);
    }
}

/* The word with the most repetitions of each length begins like this one, and squares are everywhere. */
Test(blocks_random, repetitions_of_the_fibonacci_word)
{
    uint32_t symbols[LONGEST] = {0, 1}, older = 1, newer = 2;
    while (newer < LONGEST) {
        uint32_t length = newer + older < LONGEST ? older : LONGEST - newer;
        memcpy(symbols + newer, symbols, length * sizeof *symbols);
        older = newer;
        newer += length;
    }
    for (uint32_t count = 1; count <= LONGEST; count++)
        expect_repeats(symbols, count, count);
}

/* ---- runs by their definition ----------------------------------------------------------------------------------- */

#define NODES 60

struct pairs {
    uint32_t count, keys[NODES * WORK_MAX_OPERANDS], values[NODES * WORK_MAX_OPERANDS];
};

/* Adds a pair; false when the key had another value. */
static bool note(struct pairs *pairs, uint32_t key, uint32_t value)
{
    for (uint32_t i = 0; i < pairs->count; i++) {
        if (pairs->keys[i] == key && pairs->values[i] != value)
            return false;
    }
    pairs->keys[pairs->count] = key;
    pairs->values[pairs->count++] = value;
    return true;
}

struct comparison {
    const struct sp_workload *workload;
    const uint32_t *class_of;
    struct sp_block_run run;
    struct pairs to, from, carried;
};

static int64_t place_of(const struct sp_work_tensor *tensor)
{
    return tensor->producer == SP_NO_WORK ? SP_BLOCKS_OUTSIDE : (int64_t)tensor->producer;
}

/* blocks.h on what a block reads. Nodes of these workloads have one result each and none is folded, so that a position
   is a node. */
static bool reads_alike(struct comparison *c, uint32_t block, uint32_t before, uint32_t here)
{
    const struct sp_work_tensor *tensors = c->workload->tensors;
    const int64_t first = c->run.first_node, length = c->run.length, begin = first + block * length;
    const int64_t j = place_of(&tensors[here]), h = place_of(&tensors[before]);
    if (j < 0 && h < 0)
        return tensors[here].kind == tensors[before].kind && note(&c->to, before, here) && note(&c->from, here, before);
    if (j >= begin)
        return h == j - length;
    if (j >= begin - length)
        return block == 1 ? h < first && note(&c->carried, here, before) : h == j - length;
    return j < first && here == before;
}

static bool is_run(struct comparison *c)
{
    c->carried.count = 0;
    for (uint32_t block = 1; block < c->run.count; block++) {
        c->to.count = c->from.count = 0;
        for (uint32_t k = 0; k < c->run.length; k++) {
            uint32_t here = c->run.first_node + block * c->run.length + k, before = here - c->run.length;
            if (c->class_of[here] != c->class_of[before])
                return false;
            for (uint32_t i = 0; i < c->workload->nodes[here].input_count; i++) {
                if (!reads_alike(c, block, c->workload->nodes[before].inputs[i], c->workload->nodes[here].inputs[i]))
                    return false;
            }
        }
    }
    return true;
}

static struct comparison comparison;

/* What the best single run saves: every beginning, length and number of blocks is tried. */
static uint32_t slow_savings(const struct sp_workload *workload, const uint32_t *class_of)
{
    uint32_t best = 0, nodes = workload->node_count;
    comparison.workload = workload;
    comparison.class_of = class_of;
    for (uint32_t length = 1; 2 * length <= nodes; length++) {
        for (uint32_t first = 0; first + 2 * length <= nodes; first++) {
            uint32_t count = 2;
            for (; first + count * length <= nodes; count++) {
                comparison.run = (struct sp_block_run){first, length, count};
                if (!is_run(&comparison))
                    break;
                if ((count - 1) * length > best)
                    best = (count - 1) * length;
            }
        }
    }
    return best;
}

static struct sp_blocks *found(const struct sp_workload *workload)
{
    struct sp_blocks *blocks = NULL;
    struct sp_error err = {0};
    cr_assert_eq(sp_blocks_find(arena, workload, &blocks, &err), SP_OK, "%s", err.message);
    return blocks;
}

/* Every run keeps to the definition; they are ascending and disjoint, and same_as says the same. Returns the savings.
 */
static uint32_t expect_valid(const struct sp_workload *workload, const struct sp_blocks *blocks)
{
    uint32_t end = 0, saved = 0, moved = 0;
    for (uint32_t i = 0; i < blocks->run_count; i++) {
        const struct sp_block_run *run = &blocks->runs[i];
        comparison.workload = workload;
        comparison.class_of = blocks->class_of;
        comparison.run = *run;
        cr_assert(run->first_node >= end && run->count >= 2 && run->length >= 1);
        end = run->first_node + run->length * run->count;
        cr_assert(end <= blocks->order_count);
        cr_assert(is_run(&comparison), "%u x %u from %u is no run", run->count, run->length, run->first_node);
        saved += run->length * (run->count - 1);
        for (uint32_t at = 0; at < run->length * run->count; at++)
            cr_assert_eq(blocks->same_as[run->first_node + at], run->first_node + at % run->length);
    }
    for (uint32_t n = 0; n < workload->node_count; n++)
        moved += blocks->same_as[n] != n;
    cr_assert_eq(moved, saved);
    return saved;
}

/* ---- random workloads ------------------------------------------------------------------------------------------- */

enum source { FROM_BLOCK, FROM_BEFORE, FROM_OUTSIDE, OWN_WEIGHT, SHARED_WEIGHT, OWN_INPUT, SOURCES };

struct operand {
    enum source source;
    uint32_t which;
};

struct pattern {
    uint32_t nodes, blocks, operand_count[NODES];
    double seconds[NODES];
    struct operand operands[NODES][3];
};

static struct pattern random_pattern(uint64_t *seed)
{
    struct pattern pattern = {.nodes = 1 + pick(seed, 9), .blocks = 2 + pick(seed, 4)};
    for (uint32_t k = 0; k < pattern.nodes; k++) {
        pattern.seconds[k] = 1 + pick(seed, 3);
        pattern.operand_count[k] = 1 + pick(seed, 3);
        for (uint32_t i = 0; i < pattern.operand_count[k]; i++) {
            enum source source = (enum source)pick(seed, SOURCES);
            if (source == FROM_BLOCK && k == 0)
                source = FROM_BEFORE;
            pattern.operands[k][i] = (struct operand){source, pick(seed, source == FROM_BLOCK ? k : pattern.nodes)};
        }
    }
    return pattern;
}

struct outside {
    uint32_t count, tensors[8]; /* activations from before the run */
    uint32_t shared[8];         /* weights, 0 while there is none */
};

static uint32_t operand_tensor(struct work_builder *builder, const struct operand *operand, struct outside *outside,
                               const uint32_t *here, const uint32_t *before)
{
    switch (operand->source) {
    case FROM_BLOCK:
        return here[operand->which];
    case FROM_BEFORE:
        return before != NULL ? before[operand->which] : outside->tensors[operand->which % outside->count];
    case FROM_OUTSIDE:
        return outside->tensors[operand->which % outside->count];
    case OWN_WEIGHT:
        return work_weight(builder, 64);
    case OWN_INPUT:
        return work_input(builder, 32);
    default:
        if (outside->shared[operand->which % 8] == 0)
            outside->shared[operand->which % 8] = work_weight(builder, 64);
        return outside->shared[operand->which % 8];
    }
}

static void add_distinct(uint32_t *inputs, uint32_t tensor)
{
    for (; *inputs != SP_NO_WORK; inputs++) {
        if (*inputs == tensor)
            return;
    }
    inputs[0] = tensor;
    inputs[1] = SP_NO_WORK;
}

/* Puts a tensor in the place of the last one, unless it is there. */
static void replace(uint32_t *inputs, uint32_t tensor)
{
    uint32_t count = 0;
    for (; inputs[count] != SP_NO_WORK; count++) {
        if (inputs[count] == tensor)
            return;
    }
    inputs[count - 1] = tensor;
}

/* Nodes that read anything. */
static uint32_t random_node(struct work_builder *builder, uint64_t *seed)
{
    uint32_t inputs[4] = {pick(seed, builder->workload->tensor_count), SP_NO_WORK};
    if (pick(seed, 2) == 0)
        add_distinct(inputs, pick(seed, builder->workload->tensor_count));
    return work_node(builder, 1 + pick(seed, 3), 32, inputs);
}

static void add_blocks(struct work_builder *builder, const struct pattern *pattern, struct outside *outside,
                       uint64_t *seed, uint32_t errors)
{
    uint32_t made[2][NODES];
    for (uint32_t block = 0; block < pattern->blocks; block++) {
        uint32_t *here = made[block % 2], *before = block == 0 ? NULL : made[1 - block % 2];
        for (uint32_t k = 0; k < pattern->nodes; k++) {
            uint32_t inputs[5] = {SP_NO_WORK};
            for (uint32_t i = 0; i < pattern->operand_count[k]; i++)
                add_distinct(inputs, operand_tensor(builder, &pattern->operands[k][i], outside, here, before));
            double seconds = pattern->seconds[k];
            if (errors > 0 && pick(seed, 12) == 0) {
                errors--;
                if (pick(seed, 3) == 0)
                    seconds += 1;
                else
                    replace(inputs, pick(seed, builder->workload->tensor_count));
            }
            here[k] = work_node(builder, seconds, 32, inputs);
        }
    }
}

/* Nodes at random, blocks of a pattern with some errors, and nodes at random. */
static struct sp_workload *random_blocks(uint64_t *seed, uint32_t errors, struct pattern *ret_pattern)
{
    struct work_builder builder;
    struct outside outside = {.count = 1};
    *ret_pattern = random_pattern(seed);
    work_init(&builder, arena, 2 * NODES, 2 * NODES * WORK_MAX_OPERANDS, 2);
    work_input(&builder, 32);
    outside.tensors[0] = random_node(&builder, seed);
    for (uint32_t i = pick(seed, 5); i-- > 0;)
        outside.tensors[outside.count++] = random_node(&builder, seed);
    add_blocks(&builder, ret_pattern, &outside, seed, errors);
    for (uint32_t i = pick(seed, 6); i-- > 0;)
        (void)random_node(&builder, seed);
    return work_finish(&builder, cluster);
}

/* Valid always. What the best single run saves is nearly always saved, too: one is chosen before everything is
   compared, so it may turn out shorter than another would have been. */
Test(blocks_random, runs_keep_to_the_definition)
{
    uint64_t seed = 3;
    uint32_t possible = 0, missed = 0, exact = 0;
    for (uint32_t round = 0; round < 4000; round++) {
        struct pattern pattern;
        struct sp_arena_mark mark = sp_arena_mark(arena);
        struct sp_workload *workload = random_blocks(&seed, round % 3, &pattern);
        struct sp_blocks *blocks = found(workload);
        uint32_t saved = expect_valid(workload, blocks), best = slow_savings(workload, blocks->class_of);
        possible += best >= SP_BLOCKS_LEAST_SAVED;
        exact += best >= SP_BLOCKS_LEAST_SAVED && best == pattern.nodes * (pattern.blocks - 1);
        missed += best >= SP_BLOCKS_LEAST_SAVED && saved < best;
        cr_assert(best >= SP_BLOCKS_LEAST_SAVED || saved == 0);
        sp_arena_rewind(arena, mark);
    }
    cr_assert_gt(exact, 500); /* the blocks that were put there are what is best */
    cr_assert(missed * 200 <= possible, "%u of %u", missed, possible);
}

/* ---- growth ----------------------------------------------------------------------------------------------------- */

typedef struct sp_workload *maker(uint32_t nodes);

static struct sp_workload *make_layers(uint32_t nodes)
{
    return build_transformer(arena, cluster, nodes / TRANSFORMER_LAYER_NODES, 64);
}

/* One node after the other, of the kinds that `kind` says; `random` is below 12000. */
static struct sp_workload *make_chain(uint32_t nodes, uint32_t (*kind)(uint32_t at, uint32_t random))
{
    struct work_builder builder;
    uint64_t seed = 1;
    work_init(&builder, arena, nodes, nodes + 1, 2);
    uint32_t last = work_input(&builder, 32);
    for (uint32_t i = 0; i < nodes; i++)
        last = WORK_NODE(&builder, 1 + kind(i, pick(&seed, 12000)), 32, last);
    return work_finish(&builder, cluster);
}

static uint32_t always(uint32_t at, uint32_t random)
{
    (void)at, (void)random;
    return 0;
}

static uint32_t seldom(uint32_t at, uint32_t random)
{
    (void)at;
    return random < 4;
}

static uint32_t any(uint32_t at, uint32_t random)
{
    (void)at;
    return random % 4;
}

/* Of all words those with the most repetitions of every length. */
static uint32_t fibonacci(uint32_t at, uint32_t random)
{
    const double ratio = 0.61803398874989485; /* the golden ratio, less 1 */
    (void)random;
    return (uint32_t)((at + 2) * ratio) - (uint32_t)((at + 1) * ratio);
}

static struct sp_workload *make_equal(uint32_t nodes)
{
    return make_chain(nodes, always);
}

static struct sp_workload *make_interrupted(uint32_t nodes)
{
    return make_chain(nodes, seldom);
}

static struct sp_workload *make_random_chain(uint32_t nodes)
{
    return make_chain(nodes, any);
}

static struct sp_workload *make_fibonacci(uint32_t nodes)
{
    return make_chain(nodes, fibonacci);
}

/* Nodes of few kinds that read anything. */
static struct sp_workload *make_irregular(uint32_t nodes)
{
    struct work_builder builder;
    uint64_t seed = 5;
    work_init(&builder, arena, nodes, nodes + 1, 2);
    work_input(&builder, 32);
    for (uint32_t i = 0; i < nodes; i++)
        (void)random_node(&builder, &seed);
    return work_finish(&builder, cluster);
}

/* Pairs of equal nodes that read tensors from far away: long repetitions of which no two blocks read alike. */
static struct sp_workload *make_unlike(uint32_t nodes)
{
    struct work_builder builder;
    uint64_t seed = 7;
    work_init(&builder, arena, nodes, nodes + 1, 2);
    uint32_t last = work_input(&builder, 32);
    for (uint32_t i = 0; i < nodes; i++) {
        uint32_t inputs[4] = {last, SP_NO_WORK};
        add_distinct(inputs, pick(&seed, last + 1));
        if (inputs[1] == SP_NO_WORK)
            add_distinct(inputs, last == 0 ? 0 : last - 1);
        last = work_node(&builder, 1 + i % 2, 32, inputs);
    }
    return work_finish(&builder, cluster);
}

static double steps_of(maker *make, uint32_t nodes)
{
    struct sp_arena_mark mark = sp_arena_mark(arena);
    struct sp_workload *workload = make(nodes);
    double steps = (double)found(workload)->steps / nodes;
    sp_arena_rewind(arena, mark);
    return steps;
}

/* A node takes a multiple of the logarithm of their number, whatever they are. */
Test(blocks_random, work_grows_with_the_nodes)
{
    static const struct {
        const char *name;
        maker *make;
    } cases[] = {{"layers", make_layers},       {"equal", make_equal},         {"interrupted", make_interrupted},
                 {"random", make_random_chain}, {"fibonacci", make_fibonacci}, {"irregular", make_irregular},
                 {"unlike", make_unlike}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (uint32_t nodes = 1000; nodes <= 100000; nodes *= 10) {
            double steps = steps_of(cases[i].make, nodes);
            cr_expect_leq(steps, 12 * log2(nodes), "%s: %g steps for each of %u nodes", cases[i].name, steps, nodes);
        }
    }
}

Test(blocks_random, a_hundred_thousand_nodes_of_layers_are_one_run)
{
    const uint32_t layers = 7692;
    const struct sp_blocks *blocks = found(build_transformer(arena, cluster, layers, 64));
    cr_assert_eq(blocks->run_count, 1);
    cr_assert_eq(blocks->runs[0].length, TRANSFORMER_LAYER_NODES);
    cr_assert_eq(blocks->runs[0].count, layers);
}
