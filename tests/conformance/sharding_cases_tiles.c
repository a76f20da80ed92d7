/* What devices hold: tiles, shapes, device arrays, equality. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sharding_cases.h"

static void expect_corner(struct test *test, const char *device, const json_t *tile, const char *key, uint32_t rank,
                          const int64_t *found)
{
    const json_t *expected = json_object_get(tile, key);
    if (json_array_size(expected) != rank)
        differs(test, "device %s: no %s of rank %" PRIu32, device, key, rank);
    for (uint32_t i = 0; i < rank; i++)
        if (json_integer_value(json_array_get(expected, i)) != found[i])
            differs(test, "device %s: %s[%" PRIu32 "] is %" PRId64, device, key, i, found[i]);
}

static void check_tiles(struct test *test)
{
    uint32_t rank;
    const int64_t *shape = get_numbers(test, "shape", &rank);
    const struct sp_sharding *sharding = read_common(test, get_text(test, "sharding"));
    json_t *tiles = json_object_get(test->in, "expect"), *tile;
    const char *device;
    int64_t offset[SP_MAX_RANK], limit[SP_MAX_RANK];
    struct sp_tile held;
    if (!sharding || rank > SP_MAX_RANK)
        return differs(test, "no tiles");
    json_object_foreach(tiles, device, tile)
    {
        bool found = false;
        enum sp_status status =
            sp_sharding_tile(sharding, rank, shape, strtoll(device, NULL, 10), &found, &held, &test->err);
        if (status != SP_OK || !found)
            return differs(test, "device %s has no tile: %s", device, test->err.message);
        expect_corner(test, device, tile, "index", rank, held.index);
        for (uint32_t axis = 0; axis < rank; axis++) {
            offset[axis] = held.ranges[axis].start;
            limit[axis] = held.ranges[axis].limit;
        }
        expect_corner(test, device, tile, "offset", rank, offset);
        expect_corner(test, device, tile, "limit", rank, limit);
    }
}

static void check_tile_shape(struct test *test)
{
    uint32_t rank;
    const int64_t *shape = get_numbers(test, "shape", &rank);
    const struct sp_sharding *sharding = read_common(test, get_text(test, "sharding"));
    int64_t *tile = SP_NEW_ARRAY(test->arena, (size_t)rank + 1, int64_t);
    if (!sharding || sp_sharding_tile_shape(sharding, rank, shape, tile, &test->err) != SP_OK)
        return differs(test, "%s", test->err.message);
    expect_numbers(test, rank, tile);
}

/* By way of the common form, and with replicas in ascending order, as tile assignments have them. */
static void check_device_array(struct test *test)
{
    uint32_t rank, count = 0;
    const int64_t *dims = get_numbers(test, "dims", &rank), *expected = get_numbers(test, "expect", &count);
    const struct sp_sharding *sharding = read_common(test, get_text(test, "sharding"));
    struct sp_losses losses = {0};
    struct sp_hlo *hlo;
    if (!sharding ||
        sp_hlo_from_sharding(test->arena, sharding,
                             &(struct sp_dialect_context){.rank = sharding->rank, .hlo_version = SP_HLO_V2}, &hlo,
                             &losses, &test->err) != SP_OK)
        return differs(test, "no device array: %s", test->err.message);
    if (hlo->dim_count != rank || memcmp(hlo->dims, dims, rank * sizeof(*dims)) != 0 || hlo->order.count != count)
        return differs(test, "found %s", write_hlo(test, hlo, false));
    for (uint32_t i = 0; i < count; i++)
        if (sp_device_order_at(&hlo->order, i) != expected[i])
            differs(test, "entry %" PRIu32 " is %" PRId64, i, sp_device_order_at(&hlo->order, i));
}

static void check_iota(struct test *test)
{
    uint32_t rank, perm_rank;
    const int64_t *dims = get_numbers(test, "reshape", &rank), *perm = get_numbers(test, "perm", &perm_rank);
    const json_t *expected = json_object_get(test->in, "expect");
    struct sp_device_order order;
    members_skip(test->in, "dims"); /* of the tiles that are numbered so */
    if (rank != perm_rank || sp_device_order_iota(test->arena, rank, dims, perm, &order, &test->err) != SP_OK)
        return differs(test, "%s", test->err.message);
    if (json_array_size(json_object_get(expected, "reshape")) != order.rank)
        differs(test, "found rank %" PRIu32, order.rank);
    for (uint32_t i = 0; i < order.rank; i++)
        if (json_integer_value(json_array_get(json_object_get(expected, "reshape"), i)) != order.dims[i] ||
            json_integer_value(json_array_get(json_object_get(expected, "perm"), i)) != order.perm[i])
            differs(test, "dim %" PRIu32 " is %" PRId64 ", from %" PRIu32, i, order.dims[i], order.perm[i]);
}

/* ---- equality ---- */

static void check_same_tiles(struct test *test)
{
    uint32_t rank;
    const int64_t *shape = get_numbers(test, "shape", &rank);
    const struct sp_sharding *a = read_common(test, get_text(test, "a")), *b = read_common(test, get_text(test, "b"));
    bool same = false;
    if (!a || !b || sp_sharding_equal(test->arena, a, b, rank, shape, &same, &test->err) != SP_OK)
        return differs(test, "%s", test->err.message);
    expect_bool(test, same);
}

static void check_equal(struct test *test)
{
    const struct sp_sharding *a = read_common(test, get_text(test, "a")), *b = read_common(test, get_text(test, "b"));
    bool same = false;
    if (!a || !b)
        return;
    uint32_t rank = a->kind == SP_SHARDING_AXES ? a->rank : b->rank;
    if (a->kind == SP_SHARDING_AXES && b->kind == SP_SHARDING_AXES && a->rank != b->rank)
        return expect_bool(test, false);
    if (sp_sharding_equal(test->arena, a, b, rank, NULL, &same, &test->err) != SP_OK)
        return differs(test, "%s", test->err.message);
    expect_bool(test, same);
}

/* ---- from one version to the other ---- */

static void check_named_to_v2(struct test *test)
{
    const struct sp_sharding *sharding = read_common(test, get_text(test, "input"));
    if (!sharding)
        return;
    const char *found = write_common(test, sharding, SP_HLO_V2);
    expect_text(test, found);
    if (json_object_get(test->in, "expect_equal_to")) {
        const struct sp_hlo *other = read_hlo(test, get_text(test, "expect_equal_to"));
        if (other && strcmp(write_hlo(test, other, false), found) != 0)
            differs(test, "found %s", found);
    }
}

static void check_v2_to_named(struct test *test)
{
    const struct sp_sharding *sharding = read_common(test, get_text(test, "input"));
    if (sharding)
        expect_text(test, write_common(test, sharding, SP_HLO_V3));
}

const struct check tile_checks[] = {
    {"tiles", check_tiles},
    {"tile_shape", check_tile_shape},
    {"device_array", check_device_array},
    {"iota_canonicalize", check_iota},
    {"same_tiles", check_same_tiles},
    {"equal", check_equal},
    {"named_to_v2", check_named_to_v2},
    {"v2_to_named", check_v2_to_named},
    {NULL, NULL},
};
