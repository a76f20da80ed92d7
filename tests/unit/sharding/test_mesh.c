#include <criterion/criterion.h>
#include <inttypes.h>

#include "sharding/mesh.h"

static struct sp_arena *arena;
static struct sp_error err;

static void set_up(void)
{
    arena = sp_arena_create(NULL);
    sp_error_clear(&err);
}

static void tear_down(void)
{
    sp_arena_destroy(arena);
}

TestSuite(mesh, .init = set_up, .fini = tear_down);

static struct sp_device_order iota(uint32_t rank, const int64_t *dims, const int64_t *perm)
{
    struct sp_device_order order = {0};
    cr_assert_eq(sp_device_order_iota(arena, rank, dims, perm, &order, &err), SP_OK, "%s", err.message);
    return order;
}

static struct sp_device_order list(int64_t count, const int64_t *ids)
{
    struct sp_device_order order = {0};
    cr_assert_eq(sp_device_order_list(arena, count, ids, &order, &err), SP_OK, "%s", err.message);
    return order;
}

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

/* "2,6 T 1,0" */
static const char *iota_text(const struct sp_device_order *order)
{
    const char *text = "";
    for (uint32_t i = 0; i < order->rank; i++)
        text = sp_arena_printf(arena, "%s%s%" PRId64, text, i > 0 ? "," : "", order->dims[i]);
    for (uint32_t i = 0; i < order->rank; i++)
        text = sp_arena_printf(arena, "%s%s%" PRIu32, text, i > 0 ? "," : " T ", order->perm[i]);
    return text;
}

static void expect_iota(uint32_t rank, const int64_t *dims, const int64_t *perm, const char *expected)
{
    struct sp_device_order order = iota(rank, dims, perm);
    cr_expect_str_eq(iota_text(&order), expected, "%s is not %s", iota_text(&order), expected);
}

/* XLA's published examples of canonical iota tile assignments. */
Test(mesh, iotas_are_canonical)
{
    expect_iota(3, DIMS(3, 4, 5), DIMS(1, 2, 0), "3,20 T 1,0");
    expect_iota(3, DIMS(3, 4, 5), DIMS(2, 0, 1), "12,5 T 1,0");
    expect_iota(6, DIMS(1, 3, 1, 4, 1, 5), DIMS(4, 3, 2, 5, 1, 0), "3,20 T 1,0");
    expect_iota(3, DIMS(2, 4, 4), DIMS(1, 2, 0), "2,16 T 1,0");
    expect_iota(2, DIMS(3, 4), DIMS(0, 1), "12 T 0");
    expect_iota(2, DIMS(1, 1), DIMS(1, 0), "1 T 0");
    expect_iota(4, DIMS(2, 3, 5, 7), DIMS(3, 2, 1, 0), "2,3,5,7 T 3,2,1,0");
}

/* mesh.h's own example, and XLA's {devices=[3,2]<=[2,3]T(1,0)}: 0 3 1 4 2 5. */
Test(mesh, iota_positions)
{
    static const int64_t expected[8] = {0, 2, 4, 6, 1, 3, 5, 7}, second[6] = {0, 3, 1, 4, 2, 5};
    struct sp_device_order order = iota(2, DIMS(4, 2), DIMS(1, 0));
    for (int64_t i = 0; i < 8; i++) {
        cr_expect_eq(sp_device_order_at(&order, i), expected[i]);
        cr_expect_eq(sp_device_order_find(&order, expected[i]), i);
    }
    order = iota(2, DIMS(2, 3), DIMS(1, 0));
    for (int64_t i = 0; i < 6; i++)
        cr_expect_eq(sp_device_order_at(&order, i), second[i]);
    cr_expect_eq(sp_device_order_find(&order, 6), -1);
    cr_expect_eq(sp_device_order_find(&order, -1), -1);
}

Test(mesh, a_million_million_devices)
{
    struct sp_device_order order = iota(2, DIMS(1000000, 1000000), DIMS(1, 0)), again;
    cr_expect_eq(order.count, 1000000000000);
    cr_expect_eq(sp_device_order_at(&order, 1000001), 1000001); /* row 1, column 1 either way */
    cr_expect_eq(sp_device_order_at(&order, 1), 1000000);
    cr_expect_eq(sp_device_order_find(&order, 1000000), 1);
    cr_assert_eq(sp_device_order_compose(arena, &order, &order, &again, &err), SP_OK);
    cr_expect(sp_device_order_is_range(&again), "a square transposed twice is %s", iota_text(&again));
}

Test(mesh, bad_orders)
{
    struct sp_device_order order;
    cr_expect_eq(sp_device_order_iota(arena, 2, DIMS(2, 2), DIMS(0, 0), &order, &err), SP_ERR_MALFORMED);
    cr_expect_str_eq(err.code, "BAD_PERMUTATION");
    sp_error_clear(&err);
    cr_expect_eq(sp_device_order_iota(arena, 2, DIMS(2, 2), DIMS(0, 2), &order, &err), SP_ERR_MALFORMED);
    cr_expect_eq(sp_device_order_iota(arena, 2, DIMS(2, 2), DIMS(-1, 0), &order, &err), SP_ERR_MALFORMED);
    sp_error_clear(&err);
    cr_expect_eq(sp_device_order_iota(arena, 2, DIMS(2, 0), DIMS(0, 1), &order, &err), SP_ERR_MALFORMED);
    cr_expect_str_eq(err.code, "BAD_IOTA");
    sp_error_clear(&err);
    cr_expect_eq(sp_device_order_iota(arena, 2, DIMS(INT64_MAX, 2), DIMS(0, 1), &order, &err), SP_ERR_MALFORMED);
    cr_expect_str_eq(err.code, "TOO_MANY_DEVICES");
    sp_error_clear(&err);
    cr_expect_eq(sp_device_order_list(arena, 3, DIMS(4, 1, 4), &order, &err), SP_ERR_MALFORMED);
    cr_expect_str_eq(err.code, "DUPLICATE_DEVICE");
    cr_expect(strstr(err.message, "Device 4 is listed twice, at positions 0 and 2") != NULL, "%s", err.message);
    sp_error_clear(&err);
    cr_expect_eq(sp_device_order_list(arena, 2, DIMS(0, -1), &order, &err), SP_ERR_MALFORMED);
    cr_expect_str_eq(err.code, "NEGATIVE_DEVICE");
    sp_error_clear(&err);
    cr_expect_eq(sp_device_order_list(arena, SP_MAX_LISTED_DEVICES + 1, DIMS(0), &order, &err), SP_ERR_LIMIT);
    cr_expect_str_eq(err.limit, "SP_MAX_LISTED_DEVICES");
}

Test(mesh, lists)
{
    struct sp_device_order order = list(4, DIMS(7, 3, 9, 0)), sparse = list(2, DIMS(0, 2)), range;
    for (int64_t i = 0; i < 4; i++)
        cr_expect_eq(sp_device_order_find(&order, order.ids[i]), i);
    cr_expect_eq(sp_device_order_find(&order, 4), -1);
    cr_expect_not(sp_device_order_is_permutation(&order));
    cr_expect_not(sp_device_order_is_permutation(&sparse));
    cr_assert_eq(sp_device_order_range(arena, 4, &range, &err), SP_OK);
    cr_expect(sp_device_order_is_range(&range));
    struct sp_device_order same = list(4, DIMS(0, 1, 2, 3)), turned = list(4, DIMS(3, 2, 1, 0));
    cr_expect(sp_device_order_is_range(&same));
    cr_expect(sp_device_order_equal(&range, &same));
    cr_expect_not(sp_device_order_equal(&range, &turned));
    cr_expect(sp_device_order_same_devices(&range, &turned));
    cr_expect(sp_device_order_same_devices(&turned, &range));
    cr_expect_not(sp_device_order_same_devices(&range, &order));
    cr_expect_not(sp_device_order_same_devices(&order, &turned));
}

/* XLA: {devices=[2,2]0,2,1,3} is {devices=[2,2]<=[2,2]T(1,0)}. */
Test(mesh, forms_of_an_order_are_equal)
{
    struct sp_device_order listed = list(4, DIMS(0, 2, 1, 3)), computed = iota(2, DIMS(2, 2), DIMS(1, 0));
    cr_expect(sp_device_order_equal(&listed, &computed));
    cr_expect(sp_device_order_equal(&computed, &listed));
}

static struct sp_device_order computed_of(const struct sp_device_order *order)
{
    struct sp_device_order computed;
    cr_assert_eq(sp_device_order_computed(arena, order, &computed, &err), SP_OK, "%s", err.message);
    cr_expect(sp_device_order_equal(&computed, order));
    return computed;
}

/* Every iota written out is found again, looking the same; one whose last two devices change places is none. */
Test(mesh, lists_that_can_be_computed)
{
    static const int64_t dims[][4] = {{2, 3, 4, 1}, {4, 6, 1, 1}, {2, 2, 2, 8},
                                      {4, 2, 2, 4}, {5, 7, 1, 1}, {24, 1, 1, 1}};
    uint32_t found = 0;
    for (uint32_t i = 0; i < 6 * 256; i++) {
        const int64_t perm[] = {i % 4, i / 4 % 4, i / 16 % 4, i / 64 % 4};
        if (((1 << perm[0]) | (1 << perm[1]) | (1 << perm[2]) | (1 << perm[3])) != 15)
            continue;
        const struct sp_device_order order = iota(4, dims[i / 256], perm);
        int64_t ids[64];
        for (int64_t at = 0; at < order.count; at++)
            ids[at] = sp_device_order_at(&order, at);
        const struct sp_device_order listed = list(order.count, ids), computed = computed_of(&listed);
        cr_assert_null(computed.ids);
        cr_assert_eq(computed.rank, order.rank);
        cr_expect_arr_eq(computed.dims, order.dims, order.rank * sizeof *order.dims);
        cr_expect_arr_eq(computed.perm, order.perm, order.rank * sizeof *order.perm);
        const int64_t last = ids[order.count - 1];
        ids[order.count - 1] = ids[order.count - 2];
        ids[order.count - 2] = last;
        const struct sp_device_order other = list(order.count, ids);
        cr_expect_not_null(computed_of(&other).ids);
        found++;
    }
    cr_expect_eq(found, 6 * 24);
    const struct sp_device_order sparse = list(3, DIMS(0, 2, 4)), moved = list(3, DIMS(1, 2, 0));
    cr_expect_not_null(computed_of(&sparse).ids);
    cr_expect_not_null(computed_of(&moved).ids);
}

/* Every pair of iotas of 24 and 60 devices with up to three dims: position by position. */
Test(mesh, composition)
{
    static const int64_t dims[][3] = {{2, 3, 4}, {4, 6, 1}, {2, 2, 6}, {3, 8, 1}, {12, 2, 1}, {24, 1, 1}};
    static const int64_t perms[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    uint32_t computed = 0;
    for (uint32_t i = 0; i < 36; i++)
        for (uint32_t j = 0; j < 36; j++) {
            struct sp_device_order outer = iota(3, dims[i / 6], perms[i % 6]),
                                   inner = iota(3, dims[j / 6], perms[j % 6]);
            struct sp_device_order both;
            cr_assert_eq(sp_device_order_compose(arena, &outer, &inner, &both, &err), SP_OK, "%s", err.message);
            computed += both.ids == NULL;
            for (int64_t at = 0; at < 24; at++)
                cr_assert_eq(sp_device_order_at(&both, at), sp_device_order_at(&outer, sp_device_order_at(&inner, at)));
        }
    cr_expect_gt(computed, 600, "only %" PRIu32 " of 1296 are still iotas", computed);
}

Test(mesh, meshes)
{
    struct sp_mesh *mesh, *other;
    const struct sp_mesh_axis axes[] = {{"x", 2}, {"y", 3}}, twice[] = {{"x", 2}, {"x", 3}}, zero[] = {{"x", 0}},
                              huge[] = {{"x", INT64_MAX}, {"y", 2}}, unnamed[] = {{"", 2}};
    struct sp_device_order five = list(5, DIMS(0, 1, 2, 3, 4)), two = list(2, DIMS(0, 1));
    cr_assert_eq(sp_mesh_create(arena, 2, axes, NULL, &mesh, &err), SP_OK);
    cr_expect_eq(mesh->order.count, 6);
    cr_expect_eq(sp_mesh_find_axis(mesh, "y"), 1);
    cr_expect_eq(sp_mesh_find_axis(mesh, "z"), -1);
    cr_expect_eq(sp_mesh_create(arena, 2, twice, NULL, &other, &err), SP_ERR_MALFORMED);
    cr_expect(strstr(err.message, "duplicate axis name: \"x\"") != NULL, "%s", err.message);
    sp_error_clear(&err);
    cr_expect_eq(sp_mesh_create(arena, 1, zero, NULL, &other, &err), SP_ERR_MALFORMED);
    cr_expect(strstr(err.message, "axis size must be at least 1, got: 0") != NULL, "%s", err.message);
    sp_error_clear(&err);
    cr_expect_eq(sp_mesh_create(arena, 2, axes, &five, &other, &err), SP_ERR_MALFORMED);
    cr_expect(strstr(err.message, "got: 6 != 5") != NULL, "%s", err.message);
    sp_error_clear(&err);
    cr_expect_eq(sp_mesh_create(arena, 0, NULL, &two, &other, &err), SP_ERR_MALFORMED);
    cr_expect_eq(sp_mesh_create(arena, 2, huge, NULL, &other, &err), SP_ERR_MALFORMED);
    cr_expect_eq(sp_mesh_create(arena, 1, unnamed, NULL, &other, &err), SP_ERR_MALFORMED);
}

Test(mesh, meshes_without_axes)
{
    struct sp_mesh *empty, *single;
    cr_assert_eq(sp_mesh_empty(arena, &empty, &err), SP_OK);
    cr_assert_eq(sp_mesh_single(arena, 3, &single, &err), SP_OK);
    cr_expect(sp_mesh_is_empty(empty) && !sp_mesh_is_single(empty));
    cr_expect(sp_mesh_is_single(single) && !sp_mesh_is_empty(single));
    cr_expect_eq(sp_device_order_at(&single->order, 0), 3);
    cr_expect_not(sp_mesh_equal(empty, single, false));
    cr_expect_eq(sp_mesh_single(arena, -3, &single, &err), SP_ERR_MALFORMED);
}
