#include <criterion/criterion.h>
#include <string.h>

#include "sharding/transform.h"

/*
 * Transformations of random shardings against what devices hold. A unified sharding holds the same; a merged one holds
 * less than or as much as each of the two; a reshaped one holds, of the same elements, at least as much.
 */

#define ROUNDS      2000
#define MAX_DEVICES 48

static struct sp_arena *arena;
static struct sp_error err;
static uint64_t state;

static void setup(void)
{
    arena = sp_arena_create(NULL);
    sp_error_clear(&err);
    state = 20240611;
}

static void teardown(void)
{
    sp_arena_destroy(arena);
}

TestSuite(transform_random, .init = setup, .fini = teardown);

#define OK(call) cr_assert_eq(call, SP_OK, "%s", err.message)

/* splitmix64, modulo n */
static uint32_t pick(uint32_t n)
{
    state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = state;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((z ^ z >> 31) % n);
}

/* Axes of 2 to 4 for exactly `count` devices; their order is one of: ascending, an iota, shuffled. */
static struct sp_mesh *random_mesh(int64_t count)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    struct sp_mesh_axis axes[6];
    int64_t dims[6], perm[6], ids[MAX_DEVICES], left = count;
    uint32_t axis_count = 0;
    while (left > 1) {
        int64_t size = 2 + pick(3);
        if (left % size != 0)
            continue;
        axes[axis_count] = (struct sp_mesh_axis){.name = names[axis_count], .size = size};
        dims[axis_count] = size;
        perm[axis_count] = axis_count;
        axis_count++;
        left /= size;
    }
    struct sp_device_order order;
    uint32_t kind = pick(5);
    if (kind == 0) {
        for (int64_t i = 0; i < count; i++)
            ids[i] = i;
        for (uint32_t i = (uint32_t)count - 1; i > 0; i--) {
            uint32_t j = pick(i + 1);
            int64_t swap = ids[i];
            ids[i] = ids[j];
            ids[j] = swap;
        }
        OK(sp_device_order_list(arena, count, ids, &order, &err));
    } else {
        for (uint32_t i = axis_count - 1; kind > 2 && i > 0; i--) {
            uint32_t j = pick(i + 1);
            int64_t swap = perm[i];
            perm[i] = perm[j];
            perm[j] = swap;
        }
        OK(sp_device_order_iota(arena, axis_count, dims, perm, &order, &err));
        for (int64_t i = 0; i < count; i++)
            ids[i] = sp_device_order_at(&order, i);
        if (kind == 4) /* the same order, but listed */
            OK(sp_device_order_list(arena, count, ids, &order, &err));
    }
    struct sp_mesh *mesh;
    OK(sp_mesh_create(arena, axis_count, axes, &order, &mesh, &err));
    return mesh;
}

/* Each mesh axis, or both halves of one of 4, goes to a random tensor axis or to none. */
static struct sp_sharding *random_sharding(const struct sp_mesh *mesh, uint32_t rank)
{
    struct sp_sharding *sharding;
    OK(sp_sharding_create_axes(arena, mesh, rank, &sharding, &err));
    for (uint32_t i = 0; i < mesh->axis_count; i++) {
        struct sp_axis_ref refs[2] = {sp_axis_full(mesh, i)};
        uint32_t parts = 1;
        if (refs[0].size == 4 && pick(2) == 0) {
            parts = 2;
            refs[0].size = 2;
            refs[1] = (struct sp_axis_ref){.axis = i, .pre = 2, .size = 2};
        }
        for (uint32_t p = 0; p < parts; p++) {
            uint32_t dim = pick(rank + 2);
            if (dim >= rank)
                continue;
            struct sp_axis_list *list = &sharding->dims[dim].axes, both;
            struct sp_axis_list one = {.count = 1, .refs = &refs[p]};
            if (pick(2) == 0)
                OK(sp_axes_append(arena, list, &one, &both, &err));
            else
                OK(sp_axes_append(arena, &one, list, &both, &err));
            *list = both;
        }
    }
    OK(sp_sharding_check(sharding, rank, NULL, 0, &err));
    return sharding;
}

static int64_t random_count(void)
{
    static const int64_t counts[] = {2, 4, 6, 8, 12, 16, 24, 36, 48};
    return counts[pick(9)];
}

Test(transform_random, unified_shardings_hold_the_same)
{
    uint32_t found = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        int64_t count = random_count();
        struct sp_sharding *a = random_sharding(random_mesh(count), 2), *b = random_sharding(random_mesh(count), 2);
        struct sp_sharding *ua, *ub;
        bool equal;
        OK(sp_sharding_unify(arena, a, b, &ua, &ub, &err));
        if (ua) {
            found++;
            cr_assert_eq(ua->mesh, ub->mesh);
            OK(sp_sharding_check(ua, 2, NULL, 0, &err));
            OK(sp_sharding_check(ub, 2, NULL, 0, &err));
            OK(sp_sharding_equal(arena, a, ua, 2, NULL, &equal, &err));
            cr_assert(equal, "round %d", round);
            OK(sp_sharding_equal(arena, b, ub, 2, NULL, &equal, &err));
            cr_assert(equal, "round %d", round);
        }
        sp_arena_rewind(arena, mark);
    }
    cr_expect_gt(found, ROUNDS / 4);
}

Test(transform_random, merged_shardings_refine_both)
{
    const int64_t shape[] = {144, 144};
    uint32_t found = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        int64_t count = random_count();
        struct sp_sharding *a = random_sharding(random_mesh(count), 2), *b = random_sharding(random_mesh(count), 2);
        struct sp_sharding *merged;
        bool is, same_mesh = sp_mesh_equal(a->mesh, b->mesh, false);
        OK(sp_sharding_merge(arena, a, b, &merged, &err));
        if (merged) {
            found++;
            OK(sp_sharding_check(merged, 2, shape, 0, &err));
            OK(sp_sharding_is_sub_tiling(arena, merged, b, 2, shape, &is, &err));
            cr_assert(is, "round %d", round);
            OK(sp_sharding_is_sub_tiling(arena, merged, a, 2, shape, &is, &err));
            cr_assert(is || same_mesh, "round %d", round); /* on one mesh, what is in use is cut off */
        }
        sp_arena_rewind(arena, mark);
    }
    cr_expect_gt(found, ROUNDS / 20);
}

Test(transform_random, regrouped_shardings_hold_the_same)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        struct sp_sharding *sharding = random_sharding(random_mesh(random_count()), 3), *grouped;
        bool equal;
        OK(sp_sharding_regroup(arena, sharding, &grouped, &err));
        OK(sp_sharding_check(grouped, 3, NULL, 0, &err));
        OK(sp_sharding_equal(arena, sharding, grouped, 3, NULL, &equal, &err));
        cr_assert(equal, "round %d", round);
        sp_arena_rewind(arena, mark);
    }
}

/* ---- reshape ---- */

/* A random factorization of `size`, in at most `limit` axes; ones among them. */
static uint32_t random_shape(int64_t size, uint32_t limit, int64_t *shape)
{
    uint32_t rank = 0;
    while (rank + 1 < limit && (size > 1 || pick(2) == 0)) {
        int64_t extent = 1 + pick(8);
        if (size % extent == 0) {
            shape[rank++] = extent;
            size /= extent;
        }
    }
    shape[rank++] = size;
    return rank;
}

/* Marks the row-major elements that a device holds. */
static void mark_held(const struct sp_sharding *sharding, uint32_t rank, const int64_t *shape, int64_t size,
                      int64_t device, bool *held)
{
    int64_t tile[8], offset[8], limit[8];
    bool found;
    OK(sp_sharding_tile(sharding, rank, shape, device, &found, tile, offset, limit, &err));
    for (int64_t element = 0; element < size; element++) {
        int64_t left = element;
        held[element] = found;
        for (uint32_t i = rank; i > 0; i--) {
            int64_t at = left % shape[i - 1];
            left /= shape[i - 1];
            held[element] = held[element] && at >= offset[i - 1] && at < limit[i - 1];
        }
    }
}

static bool is_even(const struct sp_sharding *sharding, const int64_t *shape)
{
    for (uint32_t i = 0; i < sharding->rank; i++)
        if (shape[i] % sp_sharding_shards(sharding, i) != 0)
            return false;
    return true;
}

Test(transform_random, reshaped_shardings_hold_what_was_held)
{
    static const int64_t sizes[] = {16, 24, 36, 48, 64, 96, 144, 192};
    uint32_t found = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        int64_t from[6], to[6], size = sizes[pick(8)], count = random_count();
        uint32_t from_rank = random_shape(size, 4, from), to_rank = random_shape(size, 5, to);
        struct sp_sharding *sharding = random_sharding(random_mesh(count), from_rank), *reshaped;
        OK(sp_sharding_reshape(arena, sharding, from_rank, from, to_rank, to, round % 2 == 1, &reshaped, &err));
        if (reshaped && is_even(sharding, from)) {
            found++;
            OK(sp_sharding_check(reshaped, to_rank, to, 0, &err));
            bool before[192], after[192];
            for (int64_t device = 0; device < count; device++) {
                mark_held(sharding, from_rank, from, size, device, before);
                mark_held(reshaped, to_rank, to, size, device, after);
                for (int64_t i = 0; i < size; i++)
                    cr_assert(after[i] || !before[i], "round %d: device %d lost element %d", round, (int)device,
                              (int)i);
            }
        }
        sp_arena_rewind(arena, mark);
    }
    cr_expect_gt(found, ROUNDS / 10);
}
