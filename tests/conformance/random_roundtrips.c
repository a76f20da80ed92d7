/*
 * random_roundtrips [COUNT [FIRST]]: shardings by seed (8000, or 100,000 with SHARDPLAN_TEST_THOROUGH), written in each
 * dialect and read back, and from each dialect through each other one. What every device holds must stay the same; what a
 * dialect cannot say must be refused or reported as lost. A tenth is compared element by element as well, without the
 * library's own comparison.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/support/how_many.h"
#include "random_shardings.h"
#include "sharding/dialect.h"
#include "workers.h"

#define MAX_RANK    4
#define MAX_DEVICES 16

struct test {
    uint64_t number;
    struct random random;
    struct sp_arena *arena;
    const char *kind; /* of the sharding, in words */
    uint32_t rank;
    int64_t shape[MAX_RANK];
    struct sp_dialect_context context;
    struct sp_sharding *original;
    struct counts *counts;
};

/* ---- shardings ---- */

/* Extents for an AXES or BLOCKS sharding: mostly divisible. */
static void make_shape(struct test *test)
{
    bool is_uneven = random_chance(&test->random, 25);
    for (uint32_t a = 0; a < test->rank; a++) {
        int64_t shards = sp_sharding_shards(test->original, a);
        test->shape[a] = shards * (1 + (int64_t)random_below(&test->random, 3));
        if (is_uneven && random_chance(&test->random, 70))
            test->shape[a] = (int64_t)random_below(&test->random, 14);
    }
}

static struct sp_sharding *make_axes(struct test *test)
{
    struct random *random = &test->random;
    struct random_mesh_options mesh = {
        .max_devices = MAX_DEVICES, .max_axes = 1 + (uint32_t)random_below(random, 4), .permuted = 30};
    struct random_sharding_options options = {.sub_axes = random_chance(random, 40) ? 60 : 0,
                                              .partial = random_chance(random, 20) ? 60 : 0,
                                              .explicit = random_chance(random, 20) ? 50 : 0,
                                              .open = random_chance(random, 25) ? 40 : 0};
    test->kind = options.sub_axes ? "axes in parts" : "axes";
    return random_sharding(test->arena, random, random_mesh(test->arena, random, &mesh), test->rank, &options);
}

static struct sp_sharding *new_blocks(struct test *test)
{
    struct sp_sharding *blocks = SP_NEW(test->arena, struct sp_sharding);
    blocks->kind = SP_SHARDING_BLOCKS;
    blocks->rank = test->rank;
    blocks->blocks = SP_NEW_ARRAY(test->arena, test->rank, struct sp_block_dim);
    blocks->shard_count = 1;
    return blocks;
}

static int compare_devices(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* `copies` devices for each shard, different ones within a shard; all devices different when `unique`. */
static void deal_devices(struct test *test, struct sp_sharding *blocks, int64_t copies, bool unique)
{
    int64_t deck[64], total = 0, used = 0;
    uint32_t *first = SP_NEW_ARRAY(test->arena, (size_t)blocks->shard_count + 1, uint32_t);
    int64_t *devices = SP_NEW_ARRAY(test->arena, (size_t)(blocks->shard_count * copies), int64_t);
    for (int64_t i = 0; i < MAX_DEVICES; i++)
        deck[i] = i;
    bool is_shuffled = random_chance(&test->random, 50);
    for (int64_t s = 0; s < blocks->shard_count; s++) {
        if (!unique)
            used = 0;
        for (int64_t c = 0; c < copies; c++, used++) {
            int64_t rest = MAX_DEVICES - used;
            int64_t pick = used + (is_shuffled || !unique ? (int64_t)random_below(&test->random, (uint64_t)rest) : 0);
            int64_t device = deck[pick];
            deck[pick] = deck[used];
            deck[used] = device;
            devices[total++] = device;
        }
        first[s + 1] = (uint32_t)total;
        qsort(devices + first[s], (size_t)copies, sizeof(*devices), compare_devices);
    }
    blocks->first = first;
    blocks->devices = devices;
}

/* One part per axis; unique devices, groups of replicas, or any devices at all. */
static struct sp_sharding *make_blocks(struct test *test)
{
    struct sp_sharding *blocks = new_blocks(test);
    struct sp_block_part *parts = SP_NEW_ARRAY(test->arena, test->rank, struct sp_block_part);
    for (uint32_t a = 0; a < test->rank; a++) {
        parts[a].shards = 1 + (int64_t)random_below(&test->random, 4);
        if (parts[a].shards == 1 || blocks->shard_count * parts[a].shards > 8)
            continue;
        blocks->blocks[a] = (struct sp_block_dim){.part_count = 1, .parts = &parts[a]};
        blocks->shard_count *= parts[a].shards;
    }
    uint64_t choice = random_below(&test->random, 4);
    if (choice < 2)
        deal_devices(test, blocks, 1, true);
    else
        deal_devices(test, blocks, 1 + (int64_t)random_below(&test->random, 2), choice == 2);
    test->kind = choice < 2 ? "device list" : choice == 2 ? "device groups" : "devices at random";
    return blocks;
}

/* ONNX Runtime's repeated devices: rounds * devices pieces of one axis, dealt out in turn. */
static struct sp_sharding *make_repeated(struct test *test)
{
    struct sp_sharding *blocks = new_blocks(test);
    struct sp_block_part *parts = SP_NEW_ARRAY(test->arena, 1, struct sp_block_part);
    uint32_t axis = (uint32_t)random_below(&test->random, test->rank);
    int64_t count = 1 + (int64_t)random_below(&test->random, 4), rounds = 2 + (int64_t)random_below(&test->random, 2);
    parts[0].shards = blocks->shard_count = count * rounds;
    blocks->blocks[axis] = (struct sp_block_dim){.part_count = 1, .parts = parts};
    uint32_t *first = SP_NEW_ARRAY(test->arena, (size_t)blocks->shard_count + 1, uint32_t);
    int64_t *devices = SP_NEW_ARRAY(test->arena, (size_t)blocks->shard_count, int64_t);
    for (int64_t s = 0; s <= blocks->shard_count; s++)
        first[s] = (uint32_t)s;
    for (int64_t s = 0; s < blocks->shard_count; s++)
        devices[s] = s < count ? (int64_t)random_below(&test->random, 4) * 4 + s : devices[s - count];
    blocks->first = first;
    blocks->devices = devices;
    test->kind = "repeated devices";
    return blocks;
}

/* Several simple shardings of one axis: the axis as a grid of parts, each cut on its own. */
static struct sp_sharding *make_parts(struct test *test)
{
    struct sp_sharding *blocks = new_blocks(test);
    uint32_t axis = (uint32_t)random_below(&test->random, test->rank);
    uint32_t count = 2 + (uint32_t)random_below(&test->random, 2);
    struct sp_block_part *parts = SP_NEW_ARRAY(test->arena, count, struct sp_block_part);
    bool is_even = random_chance(&test->random, 70);
    int64_t extent = 1;
    for (uint32_t i = 0; i < count; i++) {
        parts[i].shards = blocks->shard_count < 5 ? 1 + (int64_t)random_below(&test->random, 3) : 1;
        parts[i].extent = is_even ? parts[i].shards * (1 + (int64_t)random_below(&test->random, 2))
                                  : 1 + (int64_t)random_below(&test->random, 4);
        blocks->shard_count *= parts[i].shards;
        extent *= parts[i].extent;
    }
    if (random_chance(&test->random, 40))
        parts[random_below(&test->random, count)].extent = 0;
    blocks->blocks[axis] = (struct sp_block_dim){.part_count = count, .parts = parts};
    deal_devices(test, blocks, 1, random_chance(&test->random, 60) && blocks->shard_count <= MAX_DEVICES);
    test->kind = "several parts";
    for (uint32_t a = 0; a < test->rank; a++)
        test->shape[a] = a == axis ? extent : 1 + (int64_t)random_below(&test->random, 3);
    return blocks;
}

static struct sp_sharding *make_whole(struct test *test)
{
    static const enum sp_sharding_kind kinds[] = {SP_SHARDING_REPLICATED, SP_SHARDING_SINGLE,    SP_SHARDING_SINGLE,
                                                  SP_SHARDING_UNREDUCED,  SP_SHARDING_MANUAL,    SP_SHARDING_UNKNOWN,
                                                  SP_SHARDING_REPLICATED, SP_SHARDING_REPLICATED};
    static const char *const names[] = {"replicated", "single",  "single",     "unreduced",
                                        "manual",     "unknown", "replicated", "replicated"};
    struct sp_sharding *sharding = SP_NEW(test->arena, struct sp_sharding);
    uint64_t choice = random_below(&test->random, 8);
    sharding->kind = kinds[choice];
    test->kind = names[choice];
    sharding->device = (int64_t)random_below(&test->random, MAX_DEVICES);
    if (sharding->kind == SP_SHARDING_UNREDUCED)
        sharding->combiner = SP_COMBINE_SUM;
    return sharding;
}

static void make_case(struct test *test)
{
    struct random *random = &test->random;
    uint64_t choice = random_below(random, 100);
    test->rank = (uint32_t)random_below(random, MAX_RANK);
    if (choice >= 55 && choice < 90 && test->rank == 0)
        test->rank = 1 + (uint32_t)random_below(random, 2);
    if (choice < 55)
        test->original = make_axes(test);
    else if (choice < 70)
        test->original = make_blocks(test);
    else if (choice < 78)
        test->original = make_repeated(test);
    else if (choice < 90)
        test->original = make_parts(test);
    else
        test->original = make_whole(test);
    if (choice < 78)
        make_shape(test);
    else if (choice >= 90)
        for (uint32_t a = 0; a < test->rank; a++)
            test->shape[a] = 1 + (int64_t)random_below(random, 5);
    test->context = (struct sp_dialect_context){.rank = test->rank,
                                                .shape = test->shape,
                                                .device_count = MAX_DEVICES,
                                                .hlo_version = (int)random_below(random, 4),
                                                .tensor_name = "t"};
    if (test->original->kind == SP_SHARDING_AXES)
        test->context.device_count = test->original->mesh->order.count;
}

/* ---- comparing without the library's comparison ---- */

/* Which elements of the tensor a device holds, one byte each; false when there is no answer. */
static bool mark_held(const struct test *test, const struct sp_sharding *sharding, int64_t device, uint8_t *marks,
                      size_t size)
{
    struct sp_held held;
    struct sp_error err = {0};
    memset(marks, 0, size);
    if (sp_sharding_held(test->arena, sharding, test->rank, test->shape, device, &held, &err) != SP_OK)
        return false;
    for (uint32_t s = 0; s < held.shard_count; s++)
        for (size_t element = 0; element < size; element++) {
            size_t rest = element;
            bool is_in = true;
            for (uint32_t a = test->rank; a-- > 0;) {
                const struct sp_axis_ranges *axis = &held.shards[(size_t)s * test->rank + a];
                int64_t index = (int64_t)(rest % (size_t)test->shape[a]);
                bool is_in_axis = false;
                rest /= (size_t)test->shape[a];
                for (uint32_t r = 0; r < axis->count; r++)
                    is_in_axis = is_in_axis || (index >= axis->ranges[r].start && index < axis->ranges[r].limit);
                is_in = is_in && is_in_axis;
            }
            marks[element] += is_in;
        }
    return true;
}

static bool names_no_devices(const struct sp_sharding *sharding)
{
    return sharding->kind == SP_SHARDING_REPLICATED || sharding->kind == SP_SHARDING_UNREDUCED ||
           (sharding->kind == SP_SHARDING_AXES && sp_mesh_is_empty(sharding->mesh));
}

/* The same elements on every device, as often; -1 when it cannot be told. */
static int same_elements(const struct test *test, const struct sp_sharding *a, const struct sp_sharding *b)
{
    uint8_t left[4096], right[4096];
    size_t size = 1;
    for (uint32_t i = 0; i < test->rank; i++)
        size *= (size_t)test->shape[i];
    if (size > sizeof(left))
        return -1;
    for (int64_t device = 0; device < MAX_DEVICES + 2; device++) {
        struct sp_arena_mark mark = sp_arena_mark(test->arena);
        bool known = mark_held(test, a, device, left, size) && mark_held(test, b, device, right, size);
        sp_arena_rewind(test->arena, mark);
        if (!known)
            return -1;
        /* What names no devices is whole on every device there is: the other side names those. */
        if ((names_no_devices(a) || names_no_devices(b)) && device >= test->context.device_count)
            continue;
        if (memcmp(left, right, size) != 0)
            return 0;
    }
    return 1;
}

/* ---- what a notation may lose, but not in silence ---- */

enum { HAS_OPEN = 1, HAS_PRIORITY = 2, HAS_REPLICATED = 4, HAS_NAMES = 8 };

static uint32_t extras_of(const struct sp_sharding *sharding)
{
    uint32_t extras = 0;
    if (!sharding->mesh || sharding->kind == SP_SHARDING_BLOCKS)
        return 0;
    for (uint32_t a = 0; sharding->kind == SP_SHARDING_AXES && a < sharding->rank; a++) {
        extras |= sharding->dims[a].is_open ? HAS_OPEN : 0;
        extras |= sharding->dims[a].has_priority ? HAS_PRIORITY : 0;
    }
    extras |= sharding->replicated.count > 0 ? HAS_REPLICATED : 0;
    for (uint32_t i = 0; i < sharding->mesh->axis_count; i++)
        extras |= strncmp(sharding->mesh->axes[i].name, "axis_", 5) != 0 ? HAS_NAMES : 0;
    return extras;
}

/* ---- round trips ---- */

static void print_sharding(const struct test *test, const char *title, const struct sp_sharding *sharding)
{
    struct sp_buf buf;
    sp_buf_init(&buf, 1 << 16);
    if (sharding->kind == SP_SHARDING_AXES)
        sp_shardy_write(sharding, true, &buf, NULL);
    else if (sharding->kind == SP_SHARDING_BLOCKS) {
        for (uint32_t a = 0; a < sharding->rank; a++)
            for (uint32_t p = 0; p < sharding->blocks[a].part_count; p++)
                sp_buf_printf(&buf, " %" PRIu32 ":%" PRId64 "/%" PRId64, a, sharding->blocks[a].parts[p].extent,
                              sharding->blocks[a].parts[p].shards);
        for (int64_t s = 0; sharding->first && s < sharding->shard_count; s++) {
            sp_buf_text(&buf, " |");
            for (uint32_t i = sharding->first[s]; i < sharding->first[s + 1]; i++)
                sp_buf_printf(&buf, " %" PRId64, sharding->devices[i]);
        }
    } else
        sp_buf_printf(&buf, "kind %d, device %" PRId64, (int)sharding->kind, sharding->device);
    printf("  %s: %s\n", title, buf.data ? buf.data : "");
    sp_buf_release(&buf);
    (void)test;
}

__attribute__((format(printf, 4, 5))) static bool fail(const struct test *test, const struct sp_sharding *before,
                                                       const char *text, const char *format, ...)
{
    static int printed;
    va_list args;
    if (printed++ >= 8)
        return false;
    printf("not ok roundtrips/%" PRIu64 " %s: ", test->number, test->kind);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n  shape [");
    for (uint32_t a = 0; a < test->rank; a++)
        printf(a ? ", %" PRId64 : "%" PRId64, test->shape[a]);
    printf("], version %d, written as: %s\n", test->context.hlo_version, text);
    print_sharding(test, "original", test->original);
    if (before != test->original)
        print_sharding(test, "before", before);
    return false;
}

/* After the text: equal, and nothing vanished unsaid. */
static bool check(const struct test *test, const struct sp_sharding *before, const struct sp_sharding *after,
                  const char *pair, const char *text, const struct sp_losses *losses)
{
    struct sp_error err = {0};
    bool is_equal;
    if (sp_sharding_check(after, test->rank, test->shape, 0, &err) != SP_OK)
        return fail(test, before, text, "%s reads what is not legal: %s: %s", pair, err.code, err.message);
    if (sp_sharding_equal(test->arena, before, after, test->rank, test->shape, &is_equal, &err) != SP_OK)
        return fail(test, before, text, "%s cannot be compared: %s: %s", pair, err.code, err.message);
    int elements = (test->number + before->kind) % 10 == 0 ? same_elements(test, before, after) : -1;
    if (elements >= 0)
        counts_add(test->counts, 1, "by element");
    bool is_told = false; /* {replicated} for what was whole on some devices only */
    for (uint32_t i = 0; i < losses->count; i++)
        is_told = is_told || strcmp(losses->items[i].code, "DEVICES_LOST") == 0;
    if (!is_equal || (elements == 0 && !is_told)) {
        print_sharding(test, "after", after);
        return fail(test, before, text, "%s changes what a device holds (%s)", pair,
                    is_equal        ? "by element"
                    : elements == 1 ? "by sp_sharding_equal() only"
                                    : "by sp_sharding_equal()");
    }
    uint32_t lost = before->kind == SP_SHARDING_AXES ? extras_of(before) & ~extras_of(after) : 0;
    if (lost != 0 && losses->count == 0) {
        print_sharding(test, "after", after);
        return fail(test, before, text, "%s loses%s%s%s%s without saying so", pair, lost & HAS_OPEN ? " open dims" : "",
                    lost & HAS_PRIORITY ? " priorities" : "", lost & HAS_REPLICATED ? " explicit replication" : "",
                    lost & HAS_NAMES ? " names" : "");
    }
    return true;
}

/* Writes and reads; *ret_after is NULL when the dialect says that it cannot. */
static bool pass(struct test *test, const struct sp_sharding *before, enum sp_dialect dialect, const char *pair,
                 struct sp_sharding **ret_after)
{
    struct sp_buf buf;
    struct sp_losses losses = {0};
    struct sp_error err = {0};
    bool is_right = true;
    *ret_after = NULL;
    sp_buf_init(&buf, SP_MAX_SHARDING_BYTES);
    enum sp_status status = sp_dialect_write(test->arena, dialect, before, &test->context, &buf, &losses, &err);
    if (status != SP_OK) {
        /* A refusal names its reason; anything else is a defect. */
        if ((status != SP_ERR_UNSUPPORTED && status != SP_ERR_REQUEST) || strlen(err.message) < 10)
            is_right = fail(test, before, "(nothing)", "%s: %s: %s", pair, err.code, err.message);
        counts_add(test->counts, 1, "refused %s %s", pair, err.code);
        goto cleanup;
    }
    if (sp_dialect_read(test->arena, &(struct sp_dialect_text){dialect, buf.data, buf.size}, &test->context, ret_after,
                        &losses, &err) != SP_OK) {
        *ret_after = NULL;
        is_right =
            fail(test, before, buf.data, "%s is not read back: %s: %s (%s)", pair, err.code, err.message, err.where);
        goto cleanup;
    }
    for (uint32_t i = 0; i < losses.count; i++)
        counts_add(test->counts, 1, "lost %s", losses.items[i].code);
    counts_add(test->counts, 1, "pair %s", pair);
    is_right = check(test, before, *ret_after, pair, buf.data, &losses);
cleanup:
    sp_buf_release(&buf);
    return is_right;
}

static bool run_case(uint64_t number, struct counts *counts)
{
    struct test test = {.number = number, .random = {.state = number}, .counts = counts};
    bool is_right = true;
    test.arena = sp_arena_create(NULL);
    if (!test.arena)
        return false;
    make_case(&test);
    counts_add(counts, 1, "kind %s", test.kind);
    for (int i = 0; i < SP_DIALECT_COUNT && is_right; i++) {
        struct sp_sharding *first, *second;
        char pair[40];
        snprintf(pair, sizeof(pair), "%s", sp_dialect_name((enum sp_dialect)i));
        is_right = pass(&test, test.original, (enum sp_dialect)i, pair, &first);
        for (int j = 0; j < SP_DIALECT_COUNT && is_right && first; j++) {
            snprintf(pair, sizeof(pair), "%s>%s", sp_dialect_name((enum sp_dialect)i),
                     sp_dialect_name((enum sp_dialect)j));
            is_right = pass(&test, first, (enum sp_dialect)j, pair, &second);
        }
    }
    sp_arena_destroy(test.arena);
    return is_right;
}

/* ---- tables ---- */

static int compare_counts(const void *a, const void *b)
{
    return strcmp(((const struct count *)a)->name, ((const struct count *)b)->name);
}

static uint64_t sum_of(const struct counts *counts, const char *prefix)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < COUNTS_MAX; i++)
        if (strncmp(counts->items[i].name, prefix, strlen(prefix)) == 0)
            sum += counts->items[i].number;
    return sum;
}

static void print_tables(struct counts *counts)
{
    char name[80], prefix[100];
    printf("# carried over / refused, from the dialect of the row to that of the column:\n# %-12s", "");
    for (int j = 0; j < SP_DIALECT_COUNT; j++)
        printf(" %15s", sp_dialect_name((enum sp_dialect)j));
    for (int i = -1; i < SP_DIALECT_COUNT; i++) {
        printf("\n# %-12s", i < 0 ? "(random)" : sp_dialect_name((enum sp_dialect)i));
        for (int j = 0; j < SP_DIALECT_COUNT; j++) {
            const char *from = i < 0 ? "" : sp_dialect_name((enum sp_dialect)i);
            snprintf(name, sizeof(name), "pair %s%s%s", from, i < 0 ? "" : ">", sp_dialect_name((enum sp_dialect)j));
            snprintf(prefix, sizeof(prefix), "refused %s ", name + 5);
            char cell[48];
            snprintf(cell, sizeof(cell), "%" PRIu64 "/%" PRIu64, counts_get(counts, name), sum_of(counts, prefix));
            printf(" %15s", cell);
        }
    }
    printf("\n");
    qsort(counts->items, COUNTS_MAX, sizeof(counts->items[0]), compare_counts);
    static const char *const kinds[] = {"kind ", "lost ", "refused "};
    for (uint32_t k = 0; k < 3; k++)
        for (uint32_t i = 0; i < COUNTS_MAX; i++)
            if (strncmp(counts->items[i].name, kinds[k], strlen(kinds[k])) == 0 && !strchr(counts->items[i].name, '>'))
                printf("# %s: %" PRIu64 "\n", counts->items[i].name, counts->items[i].number);
}

int main(int argc, char **argv)
{
    static struct counts counts;
    uint64_t failed, count = workers_argument(argc, argv, 1, how_many(8000, 100000));
    const uint64_t first = workers_argument(argc, argv, 2, 1);
    workers_run(first, count, run_case, &counts, &failed);
    printf("%s random/roundtrips\n", failed ? "not ok" : "ok");
    printf("# roundtrips: %" PRIu64 " of %" PRIu64 " shardings, %" PRIu64 " texts, %" PRIu64
           " of them compared by element\n",
           count - failed, count, sum_of(&counts, "pair "), counts_get(&counts, "by element"));
    print_tables(&counts);
    return failed != 0;
}
