/*
 * Random nodes on random grids of devices: what a view says of the result against what each device can compute from the
 * elements that it holds, point by point of the loops; against the composition of device lists; and against a placement
 * that contradicts.
 */
#include <stdlib.h>

#include "base/limits.h"
#include "compose.h"
#include "expect_view.h"

TestSuite(view_random, .timeout = 120);

#define MAX_LOOPS    4
#define MAX_OPERANDS 4
#define MAX_DEVICES  64
#define MAX_ELEMENTS 512

/* An operand's axes as lists of loops, major to minor: "0", "01", "" (size 1). */
struct shape {
    uint32_t rank;
    const char *axes[4];
};

struct kind {
    const char *op_type;
    uint32_t loops, inputs;
    struct shape operands[MAX_OPERANDS]; /* inputs, then the output */
    bool is_broadcast;                   /* compose_shardings() is about it */
};

static const struct kind kinds[] = {
    {"Add", 2, 2, {{2, {"0", "1"}}, {2, {"0", "1"}}, {2, {"0", "1"}}}, true},
    {"Mul", 2, 2, {{2, {"0", ""}}, {2, {"", "1"}}, {2, {"0", "1"}}}, true},
    {"Where", 3, 3, {{1, {"2"}}, {3, {"0", "1", "2"}}, {2, {"1", ""}}, {3, {"0", "1", "2"}}}, true},
    {"MatMul", 3, 2, {{2, {"0", "1"}}, {2, {"1", "2"}}, {2, {"0", "2"}}}, false},
    {"MatMul", 4, 2, {{3, {"3", "0", "1"}}, {2, {"1", "2"}}, {3, {"3", "0", "2"}}}, false},
    {"ReduceSum", 3, 1, {{3, {"0", "1", "2"}}, {3, {"0", "", "2"}}}, false},
    {"Transpose", 3, 1, {{3, {"0", "1", "2"}}, {3, {"2", "0", "1"}}}, false},
    {"Reshape", 3, 1, {{2, {"01", "2"}}, {2, {"0", "12"}}}, false},
    {"Reshape", 4, 1, {{3, {"0", "12", "3"}}, {3, {"01", "2", "3"}}}, false},
};

/* One case: extents and cuts of the loops, and which device is at which point of the grid. */
struct sample {
    const struct kind *kind;
    int64_t extents[MAX_LOOPS], shards[MAX_LOOPS];
    int64_t points, replicas;
    int64_t devices[MAX_DEVICES]; /* by point, then replica */
    struct sp_node *node;
};

/* ---- making ----------------------------------------------------------------------------------------------------- */

static int64_t axis_extent(const struct sample *sample, const char *loops)
{
    int64_t extent = 1;
    for (; *loops; loops++)
        extent *= sample->extents[*loops - '0'];
    return extent;
}

static void choose_grid(struct sample *sample, struct random *random)
{
    int64_t pool[MAX_DEVICES * 2];
    sample->points = 1;
    for (uint32_t i = 0; i < sample->kind->loops; i++) {
        sample->extents[i] = 2 + (int64_t)random_below(random, 4);
        sample->shards[i] = 1 + (int64_t)random_below(random, 3);
        if (sample->points * sample->shards[i] > MAX_DEVICES / 2)
            sample->shards[i] = 1;
        sample->points *= sample->shards[i];
    }
    sample->replicas = 1 + (int64_t)random_below(random, 2);
    for (int64_t i = 0; i < MAX_DEVICES * 2; i++)
        pool[i] = i;
    for (int64_t i = 0; i < sample->points * sample->replicas; i++) {
        int64_t other = i + (int64_t)random_below(random, (uint64_t)(MAX_DEVICES * 2 - i)), device = pool[other];
        pool[other] = pool[i];
        sample->devices[i] = pool[i] = device;
    }
}

static void build_sample(struct sample *sample)
{
    static const char *const names[] = {"A", "B", "C"};
    const struct kind *kind = sample->kind;
    const char *inputs = "";
    start(18);
    for (uint32_t i = 0; i < kind->inputs; i++) {
        const char *dims = "";
        for (uint32_t a = 0; a < kind->operands[i].rank; a++)
            dims = sp_arena_printf(build.arena, "%s%s%lld", dims, a > 0 ? "," : "",
                                   (long long)axis_extent(sample, kind->operands[i].axes[a]));
        build_input(&build, names[i], strcmp(kind->op_type, "Where") == 0 && i == 0 ? SP_DTYPE_BOOL : SP_DTYPE_FLOAT,
                    dims);
        inputs = sp_arena_printf(build.arena, "%s%s%s", inputs, i > 0 ? " " : "", names[i]);
    }
    if (strcmp(kind->op_type, "ReduceSum") == 0) {
        build_ints(&build, "axes", 1, (int64_t[]){1});
        inputs = "A axes";
    }
    if (strcmp(kind->op_type, "Reshape") == 0) {
        const struct shape *to = &kind->operands[kind->inputs];
        int64_t extents[4];
        for (uint32_t a = 0; a < to->rank; a++)
            extents[a] = axis_extent(sample, to->axes[a]);
        build_ints(&build, "to", (int)to->rank, extents);
        inputs = "A to";
    }
    sample->node = build_node(&build, kind->op_type, inputs, "Y");
    if (strcmp(kind->op_type, "Transpose") == 0)
        build_attr_ints(&build, sample->node, "perm", 3, (int64_t[]){2, 0, 1});
    plan(MAX_DEVICES * 2);
}

/* The coordinate of a grid point in a loop. */
static int64_t coordinate(const struct sample *sample, int64_t point, uint32_t loop)
{
    for (uint32_t i = sample->kind->loops; i-- > loop + 1;)
        point /= sample->shards[i];
    return point % sample->shards[loop];
}

static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The operand's spec as its loops are cut, each loop a part of its axis. */
static struct sp_sharding *spec_of(const struct sample *sample, uint32_t operand)
{
    const struct shape *shape = &sample->kind->operands[operand];
    struct sp_sharding *spec = SP_NEW(build.arena, struct sp_sharding);
    *spec = (struct sp_sharding){.kind = SP_SHARDING_BLOCKS, .rank = shape->rank, .shard_count = 1};
    spec->blocks = SP_NEW_ARRAY(build.arena, shape->rank, struct sp_block_dim);
    for (uint32_t a = 0; a < shape->rank; a++) {
        const char *loops = shape->axes[a];
        spec->blocks[a].parts = SP_NEW_ARRAY(build.arena, 4, struct sp_block_part);
        for (; *loops; loops++) {
            uint32_t loop = (uint32_t)(*loops - '0');
            spec->blocks[a].parts[spec->blocks[a].part_count++] =
                (struct sp_block_part){sample->extents[loop], NULL, sample->shards[loop]};
            spec->shard_count *= sample->shards[loop];
        }
    }
    uint32_t *first = SP_NEW_ARRAY(build.arena, (size_t)spec->shard_count + 1, uint32_t), count = 0;
    int64_t *devices = SP_NEW_ARRAY(build.arena, MAX_DEVICES, int64_t);
    for (int64_t shard = 0; shard < spec->shard_count; shard++) {
        first[shard] = count;
        for (int64_t point = 0; point < sample->points; point++) {
            int64_t own = 0;
            for (uint32_t a = 0; a < shape->rank; a++)
                for (const char *loops = shape->axes[a]; *loops; loops++)
                    own = own * sample->shards[*loops - '0'] + coordinate(sample, point, (uint32_t)(*loops - '0'));
            for (int64_t r = 0; r < sample->replicas && own == shard; r++)
                devices[count++] = sample->devices[point * sample->replicas + r];
        }
        qsort(devices + first[shard], count - first[shard], sizeof *devices, compare);
    }
    first[spec->shard_count] = count;
    spec->first = first;
    spec->devices = devices;
    return spec;
}

static struct sp_sharding *whole_on_all(const struct sample *sample, uint32_t operand)
{
    struct sample whole = *sample;
    for (uint32_t i = 0; i < whole.kind->loops; i++)
        whole.shards[i] = 1;
    whole.replicas *= whole.points;
    whole.points = 1;
    return spec_of(&whole, operand);
}

/* ---- what a device can compute ------------------------------------------------------------------------------------
 */

static int64_t element_at(const struct sample *sample, const struct shape *shape, const int64_t *indices)
{
    int64_t element = 0;
    for (uint32_t a = 0; a < shape->rank; a++)
        for (const char *loops = shape->axes[a]; *loops; loops++)
            element = element * sample->extents[*loops - '0'] + indices[*loops - '0'];
    return element;
}

static void mark_held(const struct sample *sample, uint32_t operand, const struct sp_sharding *spec, int64_t device,
                      bool *is_held)
{
    const struct shape *shape = &sample->kind->operands[operand];
    int64_t extents[4], total = 1;
    struct sp_held held;
    for (uint32_t a = 0; a < shape->rank; a++)
        total *= extents[a] = axis_extent(sample, shape->axes[a]);
    cr_assert_leq(total, MAX_ELEMENTS * 2);
    cr_assert_eq(sp_sharding_held(build.arena, spec, shape->rank, extents, device, &held, &build.err), SP_OK, "%s",
                 build.err.message);
    for (int64_t element = 0; element < total; element++) {
        is_held[element] = false;
        for (uint32_t s = 0; s < held.shard_count; s++) {
            bool is_inside = true;
            int64_t rest = element;
            for (uint32_t a = shape->rank; a-- > 0; rest /= extents[a]) {
                const struct sp_axis_ranges *ranges = &held.shards[s * shape->rank + a];
                bool is_on_axis = false;
                for (uint32_t r = 0; r < ranges->count; r++)
                    is_on_axis = is_on_axis || (rest % extents[a] >= ranges->ranges[r].start &&
                                                rest % extents[a] < ranges->ranges[r].limit);
                is_inside = is_inside && is_on_axis;
            }
            is_held[element] = is_held[element] || is_inside;
        }
    }
}

/* A device without any term of a reduction still gets its result. */
static bool has_empty_shard(const struct sample *sample)
{
    for (uint32_t i = 0; i < sample->kind->loops; i++) {
        int64_t extent = sample->extents[i], shards = sample->shards[i], block = (extent + shards - 1) / shards;
        if (block * (shards - 1) >= extent)
            return true;
    }
    return false;
}

/* Each device holds in the result what it can contribute to, and each point of the loops is on a device. */
static void expect_brute_force(const struct sample *sample, const struct sp_sharding *const *specs,
                               const struct sp_sharding *result)
{
    static bool held[MAX_OPERANDS][MAX_ELEMENTS * 2], can[MAX_ELEMENTS * 2], is_done[MAX_ELEMENTS * 2];
    uint32_t output = sample->kind->inputs;
    int64_t loops = 1;
    for (uint32_t i = 0; i < sample->kind->loops; i++)
        loops *= sample->extents[i];
    memset(is_done, 0, sizeof is_done);
    for (int64_t device = 0; device < MAX_DEVICES * 2; device++) {
        memset(can, 0, sizeof can);
        for (uint32_t i = 0; i < output; i++)
            mark_held(sample, i, specs[i], device, held[i]);
        mark_held(sample, output, result, device, held[output]);
        for (int64_t point = 0; point < loops; point++) {
            int64_t indices[MAX_LOOPS], rest = point;
            bool has_all = true;
            for (uint32_t i = sample->kind->loops; i-- > 0; rest /= sample->extents[i])
                indices[i] = rest % sample->extents[i];
            for (uint32_t i = 0; i < output; i++)
                has_all = has_all && held[i][element_at(sample, &sample->kind->operands[i], indices)];
            is_done[point] = is_done[point] || has_all;
            int64_t element = element_at(sample, &sample->kind->operands[output], indices);
            can[element] = can[element] || has_all;
        }
        for (int64_t element = 0; element < MAX_ELEMENTS * 2; element++)
            if (can[element])
                cr_assert(held[output][element], "%s: device %lld can compute element %lld, and has it not: %s",
                          sample->kind->op_type, (long long)device, (long long)element, spec_text(result));
        int64_t total = 1;
        for (uint32_t a = 0; a < sample->kind->operands[output].rank; a++)
            total *= axis_extent(sample, sample->kind->operands[output].axes[a]);
        for (int64_t element = 0; element < total; element++)
            if (held[output][element])
                cr_assert(can[element] || has_empty_shard(sample),
                          "%s: device %lld has element %lld, and cannot compute it: %s", sample->kind->op_type,
                          (long long)device, (long long)element, spec_text(result));
    }
    for (int64_t point = 0; point < loops; point++)
        cr_assert(is_done[point], "point %lld is computed nowhere", (long long)point);
}

static void expect_composition(const struct sample *sample, const struct sp_sharding *const *specs,
                               const struct sp_sharding *result)
{
    uint32_t ranks[MAX_OPERANDS];
    int64_t extents[MAX_OPERANDS][4];
    const int64_t *shapes[MAX_OPERANDS];
    struct sp_sharding *composed = NULL;
    bool is_equal = false;
    for (uint32_t i = 0; i <= sample->kind->inputs; i++) {
        ranks[i] = sample->kind->operands[i].rank;
        shapes[i] = extents[i];
        for (uint32_t a = 0; a < ranks[i]; a++)
            extents[i][a] = axis_extent(sample, sample->kind->operands[i].axes[a]);
    }
    cr_assert_eq(compose_shardings(build.arena, sample->kind->inputs, specs, ranks, shapes, MAX_DEVICES * 2, &composed,
                                   &build.err),
                 SP_OK, "%s", build.err.message);
    cr_assert_eq(sp_sharding_equal(build.arena, composed, result, result->rank, extents[sample->kind->inputs],
                                   &is_equal, &build.err),
                 SP_OK);
    cr_expect(is_equal, "composed %s, seen %s", spec_text(composed), spec_text(result));
}

/* ---- trying -------------------------------------------------------------------------------------------------------
 */

static void try_sample(struct random *random)
{
    struct sample sample = {.kind = &kinds[random_below(random, sizeof kinds / sizeof *kinds)]};
    const struct sp_sharding *specs[MAX_OPERANDS];
    bool is_stated = true;
    choose_grid(&sample, random);
    build_sample(&sample);
    for (uint32_t i = 0; i < sample.kind->inputs; i++) {
        bool is_inferred = random_chance(random, 30), is_whole = i > 0 && is_inferred && random_chance(random, 50);
        specs[i] = is_whole ? whole_on_all(&sample, i) : spec_of(&sample, i);
        is_stated = is_stated && !is_whole;
        specify(sample.node, sample.node->inputs[i]->name, specs[i], is_inferred ? SP_SPEC_INFERRED : SP_SPEC_GIVEN);
    }
    const struct sp_view *view = view_of(sample.node);
    /* What is whole by inference is sliced to what the others cut. */
    cr_assert_eq(view->conflict_count, 0, "%s: %s", sample.kind->op_type,
                 view->conflict_count > 0 ? view->conflicts[0].message : "");
    cr_assert_not_null(view->results[0]);
    cr_assert_eq(sp_sharding_check(view->results[0], view->results[0]->rank, NULL, MAX_DEVICES * 2, &build.err), SP_OK,
                 "%s", build.err.message);
    if (is_stated || !has_empty_shard(&sample))
        expect_brute_force(&sample, specs, view->results[0]);
    if (is_stated && sample.kind->is_broadcast)
        expect_composition(&sample, specs, view->results[0]);
    stop();
}

Test(view_random, agrees_with_what_devices_can_compute)
{
    struct random random = {.state = 17};
    for (int i = 0; i < 1200; i++)
        try_sample(&random);
}

/* Two devices of one input exchange their shards: they no longer have the same part of both. */
Test(view_random, finds_exchanged_shards)
{
    struct random random = {.state = 4};
    int tried = 0;
    for (int i = 0; i < 300; i++) {
        struct sample sample = {.kind = &kinds[0]};
        choose_grid(&sample, &random);
        if (sample.points < 2)
            continue;
        build_sample(&sample);
        struct sample exchanged = sample;
        int64_t last = (sample.points - 1) * sample.replicas;
        exchanged.devices[0] = sample.devices[last];
        exchanged.devices[last] = sample.devices[0];
        specify(sample.node, "A", spec_of(&sample, 0), SP_SPEC_GIVEN);
        specify(sample.node, "B", spec_of(&exchanged, 1), SP_SPEC_GIVEN);
        EXPECT_CONFLICTS(sample.node, sample.shards[0] > 1 && sample.shards[1] > 1 ? "SPLIT SPLIT" : "SPLIT");
        tried++;
        stop();
    }
    cr_expect_gt(tried, 100);
}
