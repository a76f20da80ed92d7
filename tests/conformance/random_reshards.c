/*
 * random_reshards [COUNT [FIRST]]: reshards by seed (4000, or 20,000 with SHARDPLAN_TEST_THOROUGH), planned, carried out
 * on virtual devices and compared element by element. Where the mesh is small enough the time is compared with that of
 * an exhaustive search, too.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/support/how_many.h"
#include "../unit/support/reshard_simulator.h"
#include "random_shardings.h"
#include "reshard_oracle.h"
#include "sharding/dialect.h"
#include "step_costs.h"
#include "workers.h"

struct test {
    uint64_t number;
    struct random random;
    struct sp_arena *arena;
    const struct sp_mesh *mesh;
    struct sp_mesh_level levels[3];
    struct sp_links links;
    int64_t shape[ORACLE_MAX_RANK];
    struct sp_reshard_request request;
    struct sp_error err;
};

static void print_sharding(const char *title, const struct sp_sharding *sharding)
{
    static const char *const kinds[] = {"replicated", "single", "manual", "unreduced",
                                        "unknown",    "axes",   "blocks", "tuple"};
    struct sp_buf buf;
    sp_buf_init(&buf, 1 << 16);
    sp_buf_printf(&buf, "kind %s", kinds[sharding->kind]);
    if (sharding->kind == SP_SHARDING_AXES) {
        sp_buf_text(&buf, " ");
        sp_shardy_write(sharding, true, &buf, NULL);
    } else if (sharding->kind == SP_SHARDING_SINGLE)
        sp_buf_printf(&buf, " on %" PRId64, sharding->device);
    else if (sharding->kind == SP_SHARDING_BLOCKS) {
        for (uint32_t a = 0; a < sharding->rank; a++)
            for (uint32_t p = 0; p < sharding->blocks[a].part_count; p++)
                sp_buf_printf(&buf, " %" PRIu32 ":%" PRId64 "/%" PRId64, a, sharding->blocks[a].parts[p].extent,
                              sharding->blocks[a].parts[p].shards);
        for (int64_t s = 0; s < sharding->shard_count; s++) {
            sp_buf_text(&buf, " |");
            for (uint32_t i = sharding->first[s]; i < sharding->first[s + 1]; i++)
                sp_buf_printf(&buf, " %" PRId64, sharding->devices[i]);
        }
    }
    printf("  %s: %s\n", title, buf.data ? buf.data : "");
    sp_buf_release(&buf);
}

static void print_steps(const struct sp_reshard *plan)
{
    struct sp_buf buf;
    sp_buf_init(&buf, 1 << 16);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        sp_reshard_step_write(&plan->steps[i], &buf);
        sp_buf_printf(&buf, " [%.9g s]\n", plan->steps[i].seconds);
    }
    printf("  %" PRIu32 " steps, %.9g s:\n%s", plan->step_count, plan->seconds, buf.data ? buf.data : "");
    sp_buf_release(&buf);
}

/* Prints the case, a few times. */
__attribute__((format(printf, 3, 4))) static bool fail(const struct test *test, const struct sp_reshard *plan,
                                                       const char *format, ...)
{
    static int printed;
    va_list args;
    if (printed++ >= 5)
        return false;
    printf("not ok reshards/%" PRIu64 ": ", test->number);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n  shape [");
    for (uint32_t a = 0; a < test->request.rank; a++)
        printf(a ? ", %" PRId64 : "%" PRId64, test->shape[a]);
    printf("] %s, links", sp_dtype_name(test->request.dtype));
    for (uint32_t l = 0; l < test->links.level_count; l++)
        printf(" %" PRIu32 "(%.3g B/s, %.3g s)", test->levels[l].size, test->levels[l].bandwidth,
               test->levels[l].latency);
    printf("\n");
    print_sharding("from", test->request.from);
    print_sharding("to", test->request.to);
    if (plan)
        print_steps(plan);
    return false;
}

/* ---- making a case ---- */

static int64_t lcm(int64_t a, int64_t b)
{
    int64_t x = a, y = b;
    while (y) {
        int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

/* Extents that the shards divide, mostly; small enough in all. */
static void make_shape(struct test *test, const struct sp_sharding *from, const struct sp_sharding *to)
{
    uint32_t rank = test->request.rank;
    bool is_uneven = random_chance(&test->random, 15);
    int64_t elements = 1;
    for (uint32_t a = 0; a < rank; a++) {
        int64_t even = lcm(sp_sharding_shards(from, a), to ? sp_sharding_shards(to, a) : 1);
        int64_t extent = even * (1 + (int64_t)random_below(&test->random, 3));
        if (random_chance(&test->random, 40))
            extent = test->mesh->order.count * (1 + (int64_t)random_below(&test->random, 2));
        if (is_uneven && random_chance(&test->random, 60))
            extent = (int64_t)random_below(&test->random, 20);
        if (elements * extent > 6000)
            extent = even;
        if (elements * extent > 6000)
            extent = 1 + (int64_t)random_below(&test->random, 3);
        test->shape[a] = extent;
        elements *= extent > 0 ? extent : 1;
    }
}

/* ONNX's form: shards of each axis on random devices, now and then several on one device or one on several. */
static struct sp_sharding *random_blocks(struct test *test)
{
    struct random *random = &test->random;
    uint32_t rank = test->request.rank;
    struct sp_sharding *blocks = SP_NEW(test->arena, struct sp_sharding);
    struct sp_block_part *parts = SP_NEW_ARRAY(test->arena, rank, struct sp_block_part);
    blocks->kind = SP_SHARDING_BLOCKS;
    blocks->rank = rank;
    blocks->blocks = SP_NEW_ARRAY(test->arena, rank, struct sp_block_dim);
    blocks->shard_count = 1;
    for (uint32_t a = 0; a < rank; a++) {
        parts[a].shards = 1 + (int64_t)random_below(random, 3);
        if (blocks->shard_count * parts[a].shards > test->mesh->order.count || parts[a].shards == 1)
            continue;
        blocks->blocks[a] = (struct sp_block_dim){.part_count = 1, .parts = &parts[a]};
        blocks->shard_count *= parts[a].shards;
    }
    int64_t spread = random_chance(random, 50) ? 1 : 2, total = 0, count = test->mesh->order.count;
    uint32_t *first = SP_NEW_ARRAY(test->arena, (size_t)blocks->shard_count + 1, uint32_t);
    int64_t *devices = SP_NEW_ARRAY(test->arena, (size_t)(blocks->shard_count * spread), int64_t);
    for (int64_t s = 0; s < blocks->shard_count; s++) {
        int64_t device = (int64_t)random_below(random, (uint64_t)count);
        first[s] = (uint32_t)total;
        devices[total++] = device;
        if (spread == 2 && device + 1 < count && random_chance(random, 50))
            devices[total++] = device + 1 + (int64_t)random_below(random, (uint64_t)(count - device - 1));
    }
    first[blocks->shard_count] = (uint32_t)total;
    blocks->first = first;
    blocks->devices = devices;
    return blocks;
}

/* Where the tensor is to go: mostly on the same mesh. */
static struct sp_sharding *make_target(struct test *test, const struct random_sharding_options *options)
{
    struct random *random = &test->random;
    uint32_t rank = test->request.rank;
    uint64_t choice = random_below(random, 100);
    struct random_mesh_options same_devices = {.max_devices = test->mesh->order.count, .max_axes = 3, .permuted = 50};
    if (choice < 72)
        return random_sharding(test->arena, random, test->mesh, rank, options);
    if (choice < 80) {
        struct sp_mesh *mesh = SP_NEW(test->arena, struct sp_mesh);
        *mesh = *test->mesh;
        int64_t *ids = SP_NEW_ARRAY(test->arena, (size_t)mesh->order.count, int64_t);
        uint64_t shift = random_below(random, (uint64_t)mesh->order.count);
        for (int64_t i = 0; i < mesh->order.count; i++)
            ids[i] = (i + (int64_t)shift) % mesh->order.count;
        if (sp_device_order_list(test->arena, mesh->order.count, ids, &mesh->order, &test->err) != SP_OK)
            return NULL;
        return random_sharding(test->arena, random, mesh, rank, options);
    }
    if (choice < 90)
        return random_sharding(test->arena, random, random_mesh(test->arena, random, &same_devices), rank, options);
    if (choice < 96)
        return random_blocks(test);
    struct sp_sharding *sharding = SP_NEW(test->arena, struct sp_sharding);
    sharding->kind = choice < 98 ? SP_SHARDING_REPLICATED : SP_SHARDING_SINGLE;
    sharding->device = (int64_t)random_below(random, (uint64_t)test->mesh->order.count);
    return sharding;
}

static bool make_case(struct test *test)
{
    static const enum sp_dtype dtypes[] = {SP_DTYPE_FLOAT, SP_DTYPE_FLOAT16, SP_DTYPE_INT8, SP_DTYPE_DOUBLE};
    struct random *random = &test->random;
    uint64_t size = random_below(random, 10);
    struct random_mesh_options mesh = {.max_devices = size < 4 ? 8 : size < 6 ? 12 : 16, .max_axes = 4, .permuted = 25};
    struct random_sharding_options options = {
        .sub_axes = random_chance(random, 40) ? 60 : 0, .partial = random_chance(random, 25) ? 50 : 0, .explicit = 10};
    test->mesh = random_mesh(test->arena, random, &mesh);
    uint32_t rank = (uint32_t)random_below(random, test->mesh->order.count > 12 ? 3 : 4);
    if (random_chance(random, 4))
        rank = 4;
    test->request.rank = rank;
    random_links(random, test->mesh->order.count, test->levels, &test->links);
    test->request.links = &test->links;
    test->request.shape = test->shape;
    test->request.dtype = dtypes[random_below(random, 4)];
    test->request.device_count = 0;
    test->request.collectives_only = random_chance(random, 70);
    test->request.from = random_chance(random, 95) ? random_sharding(test->arena, random, test->mesh, rank, &options)
                                                   : random_blocks(test);
    test->request.to = make_target(test, &options);
    if (!test->request.to)
        return fail(test, NULL, "no target: %s", test->err.message);
    if (test->request.from->kind == SP_SHARDING_AXES && test->request.to->kind == SP_SHARDING_AXES &&
        test->request.from->partial.count > 0 && test->request.to->partial.count > 0 && random_chance(random, 80))
        ((struct sp_sharding *)test->request.to)->combiner = test->request.from->combiner;
    make_shape(test, test->request.from, test->request.to->kind == SP_SHARDING_AXES ? test->request.to : NULL);
    return true;
}

/* ---- checking it ---- */

static bool is_about(double a, double b)
{
    return a == b || fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

static double tile_bytes(struct test *test, const struct sp_sharding *sharding)
{
    int64_t tile[ORACLE_MAX_RANK];
    double bytes = (double)sp_dtype_bytes(test->request.dtype, 1);
    if (sp_sharding_tile_shape(sharding, test->request.rank, test->shape, tile, &test->err) != SP_OK)
        return NAN;
    for (uint32_t a = 0; a < test->request.rank; a++)
        bytes *= (double)tile[a];
    return bytes;
}

/* Numbers that can be read off a send-receive step's list. */
static bool check_transfers(struct test *test, const struct sp_reshard *plan, const struct sp_reshard_step *step)
{
    double tile = step->kind == SP_COLLECTIVE_PERMUTE ? tile_bytes(test, step->after) : 0; /* even if its own is less */
    double sent[ORACLE_MAX_DEVICES] = {0}, total = 0, busiest = 0, slowest = 0;
    for (uint64_t i = 0; i < step->transfer_count; i++) {
        const struct sp_transfer *transfer = &step->transfers[i];
        double elements = 1;
        for (uint32_t a = 0; a < test->request.rank; a++)
            elements *= (double)(transfer->box[a].limit - transfer->box[a].start);
        if (!is_about(transfer->bytes, elements * (double)sp_dtype_bytes(test->request.dtype, 1)))
            return fail(test, plan, "a transfer of %g elements says %g bytes", elements, transfer->bytes);
        if (transfer->source == transfer->target)
            continue;
        total += transfer->bytes;
        uint32_t between = sp_links_between(test->request.links, transfer->source, transfer->target);
        const struct sp_mesh_level *level = &test->levels[between < test->links.level_count ? between : 0];
        slowest = fmax(slowest, level->latency + tile / level->bandwidth);
        if (transfer->source >= 0 && transfer->source < ORACLE_MAX_DEVICES)
            busiest = fmax(busiest, sent[transfer->source] += transfer->bytes);
    }
    if (!is_about(total, step->total_bytes))
        return fail(test, plan, "a step says %g bytes in all, its transfers are %g", step->total_bytes, total);
    if (!is_about(busiest, step->bytes))
        return fail(test, plan, "a step says %g bytes, the busiest device sends %g", step->bytes, busiest);
    if (step->kind == SP_COLLECTIVE_PERMUTE && !is_about(slowest, step->seconds))
        return fail(test, plan, "a permute says %.17g s, its slowest transfer takes %.17g s", step->seconds, slowest);
    return true;
}

/* What a step on a mesh says that it takes, against looking at its groups. */
static bool check_seconds(struct test *test, const struct sp_reshard *plan, const struct sp_reshard_step *step)
{
    const struct sp_mesh *mesh = step->after->mesh;
    double before, after, bytes;
    if (step->kind == SP_SEND_RECEIVE || step->kind == SP_COLLECTIVE_PERMUTE)
        return true; /* by its transfers */
    if (step->kind == SP_ALL_SLICE || step->kind == SP_TO_PARTIAL)
        return step->seconds == 0 || fail(test, plan, "a local step takes %g s", step->seconds);
    before = tile_bytes(test, step->before);
    after = tile_bytes(test, step->after);
    bytes = step->kind == SP_ALL_GATHER   ? after
            : step->kind == SP_ALL_TO_ALL ? (double)sp_axes_size(&step->axes) * fmax(before, after)
                                          : before;
    double seconds = step_seconds(test->request.links, mesh, &step->axes, step->kind, bytes);
    if (!is_about(seconds, step->seconds))
        return fail(test, plan, "a step of kind %s says %.17g s, its groups take %.17g s",
                    sp_collective_name(step->kind), step->seconds, seconds);
    double sent = sp_collective_bytes(step->kind, (double)sp_axes_size(&step->axes), bytes);
    if (!is_about(sent, step->bytes))
        return fail(test, plan, "a step of kind %s says %.17g bytes, %.17g are sent", sp_collective_name(step->kind),
                    step->bytes, sent);
    return true;
}

static void held_counts(const struct test *test, const struct sp_simulation *simulation, uint64_t *counts)
{
    for (int64_t d = 0; d < ORACLE_MAX_DEVICES; d++) {
        const int64_t *values;
        struct sp_error ignored = {0};
        if (sp_simulation_local(simulation, d, &counts[d], &values, &ignored) != SP_OK)
            counts[d] = 0;
    }
    (void)test;
}

/* All steps on data, with the memory that they take. */
static bool carry_out(struct test *test, const struct sp_reshard *plan, struct counts *counts)
{
    const struct sp_reshard_request *request = &test->request;
    double element = (double)sp_dtype_bytes(request->dtype, 1), seconds = 0, peak = 0;
    int64_t elements = 1;
    struct sp_simulation *simulation;
    uint64_t before[ORACLE_MAX_DEVICES], after[ORACLE_MAX_DEVICES];
    for (uint32_t a = 0; a < request->rank; a++)
        elements *= test->shape[a];
    int64_t *values = SP_NEW_ARRAY(test->arena, (size_t)elements, int64_t);
    for (int64_t i = 0; i < elements; i++)
        values[i] = (int64_t)(random_next(&test->random) >> 8);
    if (sp_simulation_create(test->arena, request->from, request->rank, test->shape, request->device_count, values,
                             random_next(&test->random), &simulation, &test->err) != SP_OK)
        return fail(test, plan, "%s: %s", test->err.code, test->err.message);
    held_counts(test, simulation, before);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const struct sp_reshard_step *step = &plan->steps[i];
        bool is_local = step->kind == SP_ALL_SLICE || step->kind == SP_TO_PARTIAL; /* in place */
        double most = 0;
        counts_add(counts, 1, "steps");
        counts_add(counts, 1, "%s", sp_collective_name(step->kind));
        if (sp_simulation_step(simulation, step, &test->err) != SP_OK)
            return fail(test, plan, "step %u, %s: %s", i + 1, test->err.code, test->err.message);
        held_counts(test, simulation, after);
        for (uint32_t d = 0; d < ORACLE_MAX_DEVICES; d++)
            most = fmax(most, (double)(before[d] + (is_local ? 0 : after[d])) * element);
        if (step->kind != SP_SEND_RECEIVE) { /* by tiles: of uneven ones nobody may have the largest twice */
            double tiles = tile_bytes(test, step->before) + (is_local ? 0 : tile_bytes(test, step->after));
            most = step->peak_bytes >= most && is_about(tiles, step->peak_bytes) ? tiles : most;
        }
        if (!is_about(most, step->peak_bytes))
            return fail(test, plan, "step %u says that it takes %g bytes, but holds %g", i + 1, step->peak_bytes, most);
        memcpy(before, after, sizeof(before));
        seconds += step->seconds;
        peak = fmax(peak, step->peak_bytes);
        if ((step->kind == SP_SEND_RECEIVE || step->kind == SP_COLLECTIVE_PERMUTE) &&
            !check_transfers(test, plan, step))
            return false;
        if (!check_seconds(test, plan, step))
            return false;
    }
    if (sp_simulation_compare(simulation, request->to, values, &test->err) != SP_OK)
        return fail(test, plan, "%s: %s", test->err.code, test->err.message);
    if (!is_about(seconds, plan->seconds))
        return fail(test, plan, "the steps take %.17g s, not %.17g", seconds, plan->seconds);
    if (plan->step_count > 0 && plan->peak_bytes < peak)
        return fail(test, plan, "the peak is %g bytes, but a step's is %g", plan->peak_bytes, peak);
    return true;
}

/* What a search would be told of the same reshard. */
static bool check_layouts(struct test *test, const struct sp_reshard *plan, double seconds, struct counts *counts)
{
    const struct sp_reshard_request *request = &test->request;
    struct sp_layout from, to;
    struct sp_reshard_costs *costs;
    bool is_right = true;
    if (sp_reshard_costs_create(NULL, request->links, test->mesh, 1 << 16, &costs, &test->err) != SP_OK)
        return fail(test, plan, "%s: %s", test->err.code, test->err.message);
    if (sp_layout_of(costs, request->from, &from, &test->err) == SP_OK &&
        sp_layout_of(costs, request->to, &to, &test->err) == SP_OK) {
        for (uint32_t i = 0; i < 2 && is_right; i++) {
            double told = sp_reshard_cost(costs, request->rank, test->shape, (double)sp_dtype_bytes(request->dtype, 1),
                                          &from, &to, NULL);
            counts_add(counts, 1, "layouts");
            if (!is_about(told, seconds))
                is_right =
                    fail(test, plan, "sp_reshard_cost() says %.17g s in call %u, not %.17g", told, i + 1, seconds);
        }
    }
    sp_reshard_costs_destroy(costs);
    return is_right;
}

static bool is_sent(const struct sp_reshard *plan)
{
    for (uint32_t i = 0; i < plan->step_count; i++)
        if (plan->steps[i].kind == SP_SEND_RECEIVE)
            return true;
    return false;
}

/* The time against the optimum. */
static bool check_time(struct test *test, const struct sp_reshard *plan, struct counts *counts)
{
    const struct sp_reshard_request *request = &test->request;
    if (request->from->kind != SP_SHARDING_AXES || request->to->kind != SP_SHARDING_AXES ||
        request->from->mesh != request->to->mesh)
        return true;
    struct oracle_answer oracle = oracle_seconds(request->links, request->rank, test->shape,
                                                 (double)sp_dtype_bytes(request->dtype, 1), request->from, request->to);
    if (!oracle.is_known)
        return true;
    if (!check_layouts(test, plan, oracle.seconds, counts))
        return false;
    if (!isfinite(oracle.seconds)) {
        counts_add(counts, 1, "no way");
        return true; /* sent, or by one permute from one cut of the mesh to another */
    }
    if (is_about(plan->seconds, oracle.seconds)) {
        counts_add(counts, 1, "proved");
        return plan->is_optimal || is_sent(plan) || fail(test, plan, "is not said to be optimal");
    }
    /* Parts that span several mesh axes may be cut across them, which the oracle does not try; the time of each step
       has been checked. */
    if (plan->seconds < oracle.seconds && !(is_sent(plan) && request->collectives_only)) {
        counts_add(counts, 1, "%s", is_sent(plan) ? "cheaper" : "beaten");
        return true;
    }
    return fail(test, plan, "%.17g s, the optimum is %.17g s", plan->seconds, oracle.seconds);
}

/* With less memory: still right, within the limit, not faster; or none, with the reason. */
static bool check_limit(struct test *test, const struct sp_reshard *plan, struct counts *counts)
{
    struct sp_reshard *tight;
    double limit = floor(plan->peak_bytes * (0.5 + (double)random_below(&test->random, 60) / 100));
    if (limit < 1)
        return true;
    counts_add(counts, 1, "limited");
    test->request.memory_limit_bytes = limit;
    sp_error_clear(&test->err);
    enum sp_status status = sp_reshard_plan(test->arena, &test->request, &tight, &test->err);
    if (status == SP_ERR_NOFIT && strcmp(test->err.code, "RESHARD_MEMORY") == 0) {
        counts_add(counts, 1, "no room");
        return limit < plan->peak_bytes || fail(test, plan, "does not fit its own peak of %g", plan->peak_bytes);
    }
    if (status != SP_OK)
        return fail(test, plan, "with a limit: %s: %s", test->err.code, test->err.message);
    if (tight->peak_bytes > limit)
        return fail(test, tight, "takes %g bytes, the limit was %g", tight->peak_bytes, limit);
    if (tight->seconds < plan->seconds && !is_about(tight->seconds, plan->seconds))
        return fail(test, tight, "takes %.17g s, less than without a limit (%.17g)", tight->seconds, plan->seconds);
    return carry_out(test, tight, counts);
}

static bool run_case(uint64_t number, struct counts *counts)
{
    struct test test = {.number = number, .random = {.state = number}};
    struct sp_reshard *plan;
    bool is_right;
    test.arena = sp_arena_create(NULL);
    is_right = test.arena && make_case(&test);
    if (!is_right)
        goto cleanup;
    enum sp_status status = sp_reshard_plan(test.arena, &test.request, &plan, &test.err);
    if (status == SP_ERR_UNSUPPORTED) {
        counts_add(counts, 1, "unsupported");
        goto cleanup;
    }
    if (status != SP_OK) {
        is_right = fail(&test, NULL, "%s: %s", test.err.code, test.err.message);
        goto cleanup;
    }
    counts_add(counts, 1, "planned");
    counts_add(counts, is_sent(plan), "with transfers");
    counts_add(counts, plan->step_count == 0, "without steps");
    is_right = carry_out(&test, plan, counts) && check_time(&test, plan, counts);
    if (is_right && number % 8 == 0)
        is_right = check_limit(&test, plan, counts);
cleanup:
    sp_arena_destroy(test.arena);
    return is_right;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"planned", "without steps", "with transfers", "unsupported",
                                        "proved",  "cheaper",       "beaten",         "no way",
                                        "layouts", "limited",       "no room"};
    static struct counts counts;
    uint64_t failed, n[sizeof(names) / sizeof(names[0])];
    uint64_t count = workers_argument(argc, argv, 1, how_many(4000, 20000)), first = workers_argument(argc, argv, 2, 1);
    workers_run(first, count, run_case, &counts, &failed);
    for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        n[i] = counts_get(&counts, names[i]);
    printf("%s random/reshards\n", failed ? "not ok" : "ok");
    printf("# reshards: %" PRIu64 " of %" PRIu64 "; %" PRIu64 " planned, %" PRIu64 " without steps, %" PRIu64
           " with transfers, %" PRIu64 " not supported\n",
           count - failed, count, n[0], n[1], n[2], n[3]);
    printf("# time: %" PRIu64 " equal to the exhaustive search, %" PRIu64 " faster by transfers, %" PRIu64
           " faster by finer parts, %" PRIu64 " without a sequence; %" PRIu64 " costs by layout equal\n",
           n[4], n[5], n[6], n[7], n[8]);
    printf("# memory: %" PRIu64 " planned again under a limit, %" PRIu64 " of them without a way\n", n[9], n[10]);
    printf("# steps: %" PRIu64, counts_get(&counts, "steps"));
    for (int kind = 0; kind < SP_COLLECTIVE_COUNT; kind++) {
        const char *name = sp_collective_name((enum sp_collective)kind);
        printf(", %" PRIu64 " %s", counts_get(&counts, name), name);
    }
    printf("\n");
    return failed != 0;
}
