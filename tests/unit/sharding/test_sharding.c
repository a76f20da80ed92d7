#include <criterion/criterion.h>
#include <inttypes.h>

#include "build_sharding.h"
#include "sharding/convert_forms.h"

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

TestSuite(sharding, .init = set_up, .fini = tear_down);

#define SHAPE(...) ((const int64_t[]){__VA_ARGS__})

static void expect_held(const struct sp_sharding *sharding, uint32_t rank, const int64_t *shape, int64_t device,
                        const char *expected)
{
    const char *text = held_text(arena, sharding, rank, shape, device);
    cr_expect_str_eq(text, expected, "device %" PRId64 " holds %s, not %s", device, text, expected);
}

static const struct sp_mesh *listed_mesh(const char *axes, int64_t count, const int64_t *ids)
{
    struct sp_device_order order;
    cr_assert_eq(sp_device_order_list(arena, count, ids, &order, &err), SP_OK);
    return build_mesh(arena, axes, &order);
}

/* ---- invariants ---- */

Test(sharding, broken_axes)
{
    static const struct {
        const char *dims, *replicated, *code;
    } cases[] = {
        {"x | x", "", "DUPLICATE_AXIS"},
        {"x:(1)4 | x:(2)4", "", "OVERLAPPING_AXES"},
        {"x | x:(2)2", "", "OVERLAPPING_AXES"},
        {"x:(1)2 x:(2)2 |", "", "MERGEABLE_AXES"},
        {"y | x", "z y:(1)2", "OVERLAPPING_AXES"},
        {"|", "y x", "UNSORTED_AXES"},
        {"|", "x:(4)2 x:(1)2", "UNSORTED_AXES"},
        {"x:(3)2 |", "", "BAD_SUB_AXIS"},
        {"z:(1)2 | z:(3)2", "", "AXES_CANNOT_COEXIST"},
    };
    const struct sp_mesh *mesh = build_mesh(arena, "x=8 y=4 z=12", NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sp_sharding *sharding = build_axes(arena, mesh, cases[i].dims);
        sharding->replicated = build_refs(arena, mesh, cases[i].replicated);
        sp_error_clear(&err);
        cr_expect_eq(sp_sharding_check(sharding, 2, NULL, 0, &err), SP_ERR_MALFORMED, "case %zu", i);
        cr_expect_str_eq(err.code, cases[i].code, "case %zu: %s %s", i, err.code, err.message);
    }
}

Test(sharding, sound_axes)
{
    const struct sp_mesh *mesh = build_mesh(arena, "x=8 y=4 one=1", NULL);
    struct sp_sharding *sharding = build_axes(arena, mesh, "x:(2)2 x:(1)2 | y:(2)2 one");
    sharding->replicated = build_refs(arena, mesh, "x:(4)2 y:(1)2");
    cr_expect_eq(sp_sharding_check(sharding, 2, SHAPE(3, 0), 32, &err), SP_OK, "%s", err.message);
    cr_expect_eq(sp_sharding_check(sharding, 2, SHAPE(3, -1), 31, &err), SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "DEVICE_OUT_OF_RANGE");
    sp_error_clear(&err);
    cr_expect_eq(sp_sharding_check(sharding, 3, NULL, 0, &err), SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "RANK_MISMATCH");
    sp_error_clear(&err);
    sharding->partial = build_refs(arena, mesh, "y:(1)2");
    sharding->replicated.count = 0;
    cr_expect_eq(sp_sharding_check(sharding, -1, NULL, 0, &err), SP_ERR_MALFORMED);
    cr_expect_str_eq(err.code, "BAD_COMBINER");
    sp_error_clear(&err);
    sharding->combiner = SP_COMBINE_MAX;
    cr_expect_eq(sp_sharding_check(sharding, -1, NULL, 0, &err), SP_OK);
}

Test(sharding, broken_blocks)
{
    static const struct {
        const char *dims, *placement, *code;
    } cases[] = {
        {"0*2,0*2", "0;1;2;3", "OPEN_PARTS"}, {"3*2", "0;1", "PARTS_MISMATCH"},
        {"3*1,0*2", "0;1", "PARTS_MISMATCH"}, {"0", "0", "BAD_SHARDS"},
        {"2", "0;", "SHARD_WITHOUT_DEVICE"},  {"2", "0;-1", "NEGATIVE_DEVICE"},
        {"2", "0;4", "DEVICE_OUT_OF_RANGE"},  {"2", "1 0;2", "UNSORTED_DEVICES"},
        {"2", "0 0;2", "UNSORTED_DEVICES"},   {"2 |", "0;1", "RANK_MISMATCH"},
        {"1", NULL, "TOO_MANY_SHARDS"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sp_sharding *blocks;
        if (cases[i].code[0] == 'T') {
            blocks = build_blocks(arena, "8*1,0*1", NULL);
            blocks->blocks[0].parts[0].shards = blocks->blocks[0].parts[1].shards = 4294967296;
        } else if (strcmp(cases[i].code, "BAD_SHARDS") == 0) {
            blocks = build_blocks(arena, "1", "0");
            blocks->blocks[0].parts[0].shards = 0;
        } else {
            blocks = build_blocks(arena, cases[i].dims, cases[i].placement);
        }
        sp_error_clear(&err);
        cr_expect_neq(sp_sharding_check(blocks, 1, SHAPE(8), 4, &err), SP_OK, "case %zu", i);
        cr_expect_str_eq(err.code, cases[i].code, "case %zu: %s %s", i, err.code, err.message);
    }
    struct sp_sharding *open = build_blocks(arena, "2", "0;1");
    open->is_rank_open = true;
    sp_error_clear(&err);
    cr_expect_eq(sp_sharding_check(open, 3, NULL, 2, &err), SP_OK, "%s", err.message);
}

Test(sharding, tuples)
{
    struct sp_sharding elements[2] = {{.kind = SP_SHARDING_REPLICATED}, {.kind = SP_SHARDING_SINGLE, .device = 3}};
    struct sp_sharding tuple = {.kind = SP_SHARDING_TUPLE, .element_count = 2, .elements = elements};
    cr_expect_eq(sp_sharding_check(&tuple, -1, NULL, 4, &err), SP_OK);
    cr_expect_eq(sp_sharding_check(&tuple, -1, NULL, 3, &err), SP_ERR_REQUEST);
    sp_error_clear(&err);
    cr_expect_eq(sp_sharding_check(&tuple, 1, NULL, 0, &err), SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "TUPLE_SHARDING");
    sp_error_clear(&err);
    elements[1].kind = SP_SHARDING_TUPLE;
    cr_expect_eq(sp_sharding_check(&tuple, -1, NULL, 0, &err), SP_ERR_MALFORMED);
    cr_expect_str_eq(err.code, "NESTED_TUPLE");
}

Test(sharding, losses_are_noted_once)
{
    struct sp_losses losses = {0};
    for (int i = 0; i < 3; i++)
        cr_assert_eq(sp_losses_add(arena, &losses, &err, "ONE", "number %d", i), SP_OK);
    cr_assert_eq(sp_losses_add(arena, &losses, &err, "TWO", "other"), SP_OK);
    cr_assert_eq(sp_losses_add(arena, NULL, &err, "THREE", "nobody asks"), SP_OK);
    cr_expect_eq(losses.count, 2);
    cr_expect_str_eq(losses.items[0].message, "number 0");
}

/* ---- who holds what ---- */

/* XLA's tile table for {mesh['x'=2,'y'=2], device_ids=(0,3,2,1), [{'x'}, {'y'}]} on 4 x 5. */
Test(sharding, tiles_of_a_listed_mesh)
{
    const struct sp_sharding *sharding = build_axes(arena, listed_mesh("x=2 y=2", 4, SHAPE(0, 3, 2, 1)), "x | y");
    expect_held(sharding, 2, SHAPE(4, 5), 0, "0..2 x 0..3");
    expect_held(sharding, 2, SHAPE(4, 5), 1, "2..4 x 3..5");
    expect_held(sharding, 2, SHAPE(4, 5), 2, "2..4 x 0..3");
    expect_held(sharding, 2, SHAPE(4, 5), 3, "0..2 x 3..5");
    expect_held(sharding, 2, SHAPE(4, 5), 4, "nothing");
}

/* XLA's tile table for {mesh['a'=4,'b'=2], [{'b', 'a':(2)2}, {'a':(1)2}]} on 8 x 3. */
Test(sharding, tiles_of_sub_axes)
{
    static const int64_t index[][2] = {{0, 0}, {2, 0}, {1, 0}, {3, 0}, {0, 1}, {2, 1}, {1, 1}, {3, 1}};
    const struct sp_sharding *sharding = build_axes(arena, build_mesh(arena, "a=4 b=2", NULL), "b a:(2)2 | a:(1)2");
    for (int64_t device = 0; device < 8; device++) {
        struct sp_tile tile;
        bool is_found;
        cr_assert_eq(sp_sharding_tile(sharding, 2, SHAPE(8, 3), device, &is_found, &tile, &err), SP_OK);
        cr_expect(is_found);
        cr_expect_eq(tile.index[0], index[device][0]);
        cr_expect_eq(tile.index[1], index[device][1]);
        cr_expect_eq(tile.ranges[0].start, 2 * index[device][0]);
        cr_expect_eq(tile.ranges[0].limit, tile.ranges[0].start + 2);
        cr_expect_eq(tile.ranges[1].start, 2 * index[device][1]);
        cr_expect_eq(tile.ranges[1].limit, index[device][1] ? 3 : 2);
    }
}

/* The middle of an axis: device d of x = 8 has the bits d2 d1 d0, and "x":(2)2 is d1. */
Test(sharding, the_middle_of_an_axis)
{
    const struct sp_sharding *sharding = build_axes(arena, build_mesh(arena, "x=8", NULL), "x:(2)2");
    for (int64_t device = 0; device < 8; device++)
        expect_held(sharding, 1, SHAPE(6), device, device >> 1 & 1 ? "3..6" : "0..3");
}

/* XLA: 5 elements over 4 are 2, 2, 1, 0 (as torch.chunk's blocks); 2 over 4 are 1, 1, 0, 0. */
Test(sharding, uneven_and_empty_blocks)
{
    const struct sp_sharding *axes = build_axes(arena, build_mesh(arena, "x=4", NULL), "x");
    const struct sp_sharding *blocks = build_blocks(arena, "4", "0;1;2;3");
    static const char *const five[] = {"0..2", "2..4", "4..5", "-"}, *const two[] = {"0..1", "1..2", "-", "-"};
    for (int64_t device = 0; device < 4; device++) {
        expect_held(axes, 1, SHAPE(5), device, five[device]);
        expect_held(blocks, 1, SHAPE(5), device, five[device]);
        expect_held(axes, 1, SHAPE(2), device, two[device]);
        expect_held(axes, 1, SHAPE(0), device, "-");
        expect_held(blocks, 1, SHAPE(0), device, "-");
    }
}

Test(sharding, blocks_at_the_end_of_numbers)
{
    struct sp_device_order order;
    cr_assert_eq(sp_device_order_range(arena, INT64_MAX, &order, &err), SP_OK);
    const struct sp_sharding *axes = build_axes(arena, build_mesh(arena, "x=9223372036854775807", &order), "x");
    expect_held(axes, 1, SHAPE(INT64_MAX), INT64_MAX - 1, "9223372036854775806..9223372036854775807");
    expect_held(axes, 1, SHAPE(INT64_MAX - 1), INT64_MAX - 1, "-");
    expect_held(axes, 1, SHAPE(3), INT64_MAX - 1, "-");
    axes = build_axes(arena, build_mesh(arena, "x=4611686018427387904", NULL), "x");
    expect_held(axes, 1, SHAPE(INT64_MAX), 4611686018427387903, "9223372036854775806..9223372036854775807");
}

/* sharding.h's own example of an axis in two parts. */
Test(sharding, parts)
{
    const struct sp_sharding *blocks = build_blocks(arena, "2*1,4*2", "0;1");
    expect_held(blocks, 1, SHAPE(8), 0, "0..2,4..6");
    expect_held(blocks, 1, SHAPE(8), 1, "2..4,6..8");
    /* 2 x 5 in ceil blocks of 2: columns 0-1, 2-3, 4 of each row */
    blocks = build_blocks(arena, "0*1,5*3", "0;1;2");
    expect_held(blocks, 1, SHAPE(10), 0, "0..2,5..7");
    expect_held(blocks, 1, SHAPE(10), 2, "4..5,9..10");
    /* 3 x 2 x 2: rows 0-1 and 2, the middle whole, the last cut: pieces that touch are one range */
    blocks = build_blocks(arena, "3*2,2*1,2*2", "0;1;2;3");
    expect_held(blocks, 1, SHAPE(12), 0, "0..1,2..3,4..5,6..7");
    expect_held(blocks, 1, SHAPE(12), 3, "9..10,11..12");
    blocks = build_blocks(arena, "2*2,6*1", "0;1");
    expect_held(blocks, 1, SHAPE(12), 1, "6..12");
    /* an open part of an empty axis */
    blocks = build_blocks(arena, "2*2,0*1", "0;1");
    expect_held(blocks, 1, SHAPE(0), 1, "-");
    expect_held(build_blocks(arena, "4*8", "0;1;2;3;4;5;6;7"), 1, SHAPE(4), 6, "-");
}

/* One device, several shards: concatenated in the order of their numbers. */
Test(sharding, several_shards_on_a_device)
{
    const struct sp_sharding *blocks = build_blocks(arena, "4 | 1", "0; 1; 0; 1 2");
    int64_t tile[2];
    struct sp_tile of_two;
    bool is_found;
    expect_held(blocks, 2, SHAPE(8, 3), 0, "0..2 x 0..3 + 4..6 x 0..3");
    expect_held(blocks, 2, SHAPE(8, 3), 2, "6..8 x 0..3");
    expect_held(blocks, 2, SHAPE(8, 3), 3, "nothing");
    cr_assert_eq(sp_sharding_tile_shape(blocks, 2, SHAPE(8, 3), tile, &err), SP_OK);
    cr_expect(tile[0] == 4 && tile[1] == 3);
    cr_assert_eq(sp_sharding_tile(blocks, 2, SHAPE(8, 3), 2, &is_found, &of_two, &err), SP_OK);
    cr_expect(is_found && of_two.index[0] == 3 && of_two.ranges[0].start == 6 && of_two.ranges[0].limit == 8 &&
              of_two.ranges[1].limit == 3);
    cr_expect_eq(sp_sharding_tile(blocks, 2, SHAPE(8, 3), 0, &is_found, &of_two, &err), SP_ERR_UNSUPPORTED);
    cr_expect_str_eq(err.code, "SEVERAL_SHARDS");
}

Test(sharding, tile_shapes)
{
    int64_t tile[2];
    const struct sp_sharding *axes = build_axes(arena, build_mesh(arena, "x=2 y=4", NULL), "y | x");
    cr_assert_eq(sp_sharding_tile_shape(axes, 2, SHAPE(5, 4), tile, &err), SP_OK);
    cr_expect(tile[0] == 2 && tile[1] == 2);
    const struct sp_sharding *blocks = build_blocks(arena, "2*1,4*2 | 1", "0;1");
    cr_assert_eq(sp_sharding_tile_shape(blocks, 2, SHAPE(8, 1), tile, &err), SP_OK);
    cr_expect(tile[0] == 4 && tile[1] == 1);
    /* all four quarters: the whole */
    blocks = build_blocks(arena, "2 | 2", "0 1; 0; 0; 0");
    cr_assert_eq(sp_sharding_tile_shape(blocks, 2, SHAPE(5, 7), tile, &err), SP_OK);
    cr_expect(tile[0] == 5 && tile[1] == 7);
    cr_expect_eq(sp_sharding_tile_shape(axes, 2, SHAPE(5, -1), tile, &err), SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "EXTENT_UNKNOWN");
}

Test(sharding, kinds_without_devices)
{
    struct sp_sharding manual = {.kind = SP_SHARDING_MANUAL}, single = {.kind = SP_SHARDING_SINGLE, .device = 3};
    struct sp_sharding whole = {.kind = SP_SHARDING_REPLICATED};
    struct sp_held held;
    const int64_t *devices;
    int64_t count;
    cr_expect_eq(sp_sharding_held(arena, &manual, 1, SHAPE(2), 0, &held, &err), SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "HOLDING_UNKNOWN");
    expect_held(&single, 1, SHAPE(4), 3, "0..4");
    expect_held(&single, 1, SHAPE(4), 0, "nothing");
    expect_held(&whole, 1, SHAPE(4), 12345, "0..4");
    expect_held(&whole, 0, NULL, 0, "");
    sp_error_clear(&err);
    cr_expect_eq(sp_sharding_devices(arena, &whole, 0, &count, &devices, &err), SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "DEVICES_UNKNOWN");
    cr_assert_eq(sp_sharding_devices(arena, &whole, 3, &count, &devices, &err), SP_OK);
    cr_expect(count == 3 && devices[2] == 2);
    cr_assert_eq(sp_sharding_devices(arena, &single, 8, &count, &devices, &err), SP_OK);
    cr_expect(count == 1 && devices[0] == 3);
    cr_assert_eq(sp_sharding_devices(arena, build_blocks(arena, "3", "7 9; 3; 7"), 0, &count, &devices, &err), SP_OK);
    cr_expect(count == 3 && devices[0] == 3 && devices[1] == 7 && devices[2] == 9);
}

/* 10^12 devices are legal and cost nothing. */
Test(sharding, a_million_million_devices)
{
    struct sp_device_order order, array;
    int64_t dims[5], count, n = 1000000;
    const int64_t *devices;
    cr_assert_eq(sp_device_order_iota(arena, 2, SHAPE(n, n), SHAPE(1, 0), &order, &err), SP_OK);
    const struct sp_sharding *sharding =
        build_axes(arena, build_mesh(arena, "x=1000000 y=1000000", &order), "y | x:(10)4");
    expect_held(sharding, 2, SHAPE(n, 8), 3 * n + 5, "3..4 x 0..2"); /* position (x, y) is device y * n + x */
    expect_held(sharding, 2, SHAPE(n, 8), 25000, "0..1 x 2..4");
    expect_held(sharding, 2, SHAPE(n, 8), n * n, "nothing");
    cr_assert_eq(sp_sharding_device_array(arena, sharding, dims, &array, &err), SP_OK);
    cr_expect(dims[0] == n && dims[1] == 4 && dims[2] == 1 && dims[3] == 1 && dims[4] == n / 4);
    cr_expect_null(array.ids);
    cr_expect_eq(sp_device_order_at(&array, 0), 0);
    cr_expect_eq(sp_device_order_at(&array, n / 4), 25000);
    cr_expect_eq(sp_device_order_at(&array, n), n);
    cr_expect_eq(sp_sharding_devices(arena, sharding, 0, &count, &devices, &err), SP_ERR_LIMIT);
    cr_expect_str_eq(err.limit, "SP_MAX_LISTED_DEVICES");
}

/* XLA's device array of {mesh['a'=2,'b'=4,'c'=4,'d'=2], device_ids=([4,16]T(1,0)), [{'b', 'a'}, {'d'}]}, whose replicas
   XLA has sorted. */
Test(sharding, device_array)
{
    static const int64_t expected[64] = {0, 1, 32, 33, 16, 17, 48, 49, 8,  9,  40, 41, 24, 25, 56, 57,
                                         2, 3, 34, 35, 18, 19, 50, 51, 10, 11, 42, 43, 26, 27, 58, 59,
                                         4, 5, 36, 37, 20, 21, 52, 53, 12, 13, 44, 45, 28, 29, 60, 61,
                                         6, 7, 38, 39, 22, 23, 54, 55, 14, 15, 46, 47, 30, 31, 62, 63};
    struct sp_device_order order, array;
    int64_t dims[5];
    cr_assert_eq(sp_device_order_iota(arena, 2, SHAPE(4, 16), SHAPE(1, 0), &order, &err), SP_OK);
    const struct sp_sharding *sharding = build_axes(arena, build_mesh(arena, "a=2 b=4 c=4 d=2", &order), "b a | d");
    cr_assert_eq(sp_sharding_device_array(arena, sharding, dims, &array, &err), SP_OK);
    cr_expect(dims[0] == 8 && dims[1] == 2 && dims[2] == 1 && dims[3] == 1 && dims[4] == 4);
    cr_expect_null(array.ids, "the order can be computed");
    for (int64_t i = 0; i < 64; i++) {
        int64_t found = sp_device_order_find(&array, expected[i]);
        cr_expect_eq(found / 4, i / 4, "device %" PRId64 " stands at %" PRId64, expected[i], found);
    }
    for (int64_t i = 0; i < 4; i++) /* along c, device by device: mesh positions 0, 2, 4, 6 */
        cr_expect_eq(sp_device_order_at(&array, i), SHAPE(0, 32, 1, 33)[i]);
}

/* Manual, then partial, then replicated axes, whether explicit or not. */
Test(sharding, device_array_with_groups)
{
    static const int64_t expected[16] = {0, 4, 2, 6, 8, 12, 10, 14, 1, 5, 3, 7, 9, 13, 11, 15};
    struct sp_device_order array;
    int64_t dims[4];
    const struct sp_mesh *mesh = build_mesh(arena, "m=2 r=2 p=2 t=2", NULL);
    struct sp_sharding *sharding = build_axes(arena, mesh, "t");
    sharding->manual = build_refs(arena, mesh, "m");
    sharding->partial = build_refs(arena, mesh, "p");
    sharding->combiner = SP_COMBINE_SUM;
    cr_assert_eq(sp_sharding_device_array(arena, sharding, dims, &array, &err), SP_OK);
    cr_expect(dims[0] == 2 && dims[1] == 2 && dims[2] == 2 && dims[3] == 2);
    for (int64_t i = 0; i < 16; i++)
        cr_expect_eq(sp_device_order_at(&array, i), expected[i]);
}

/* ---- equality ---- */

static bool equal(const struct sp_sharding *a, const struct sp_sharding *b, uint32_t rank, const int64_t *shape)
{
    bool is_equal = false, is_turned = false;
    cr_assert_eq(sp_sharding_equal(arena, a, b, rank, shape, &is_equal, &err), SP_OK, "%s", err.message);
    cr_assert_eq(sp_sharding_equal(arena, b, a, rank, shape, &is_turned, &err), SP_OK, "%s", err.message);
    cr_expect_eq(is_equal, is_turned);
    return is_equal;
}

Test(sharding, equal_axes)
{
    const struct sp_mesh *mesh = build_mesh(arena, "x=2 y=3", NULL);
    const struct sp_sharding *minor = build_axes(arena, mesh, "y x");
    cr_expect_not(equal(minor, build_axes(arena, build_mesh(arena, "z=6", NULL), "z"), 1, SHAPE(13)));
    cr_expect(equal(minor, build_axes(arena, listed_mesh("z=6", 6, SHAPE(0, 3, 1, 4, 2, 5)), "z"), 1, SHAPE(13)));
    cr_expect(equal(minor, build_axes(arena, listed_mesh("z=6", 6, SHAPE(0, 3, 1, 4, 2, 5)), "z"), 1, NULL));
    cr_expect(equal(build_axes(arena, mesh, "x"), build_blocks(arena, "2", "0 1 2; 3 4 5"), 1, NULL));
    cr_expect_not(equal(build_axes(arena, mesh, "x"), build_blocks(arena, "2", "0 1 2; 3 4"), 1, NULL));
    /* 4 in 3 and in 4 blocks: [2 2 0] and [1 1 1 1]; 1 element: device 0 only, either way */
    const struct sp_sharding *three = build_blocks(arena, "3", "0;1;2"), *four = build_blocks(arena, "4", "0;1;2;3");
    cr_expect_not(equal(three, four, 1, SHAPE(4)));
    cr_expect(equal(three, four, 1, SHAPE(1)));
    cr_expect(equal(three, four, 1, SHAPE(3)));
    cr_expect_not(equal(three, four, 1, NULL));
}

Test(sharding, equal_blocks)
{
    const struct sp_sharding *four = build_blocks(arena, "4", "0; 0; 1; 1"), *two = build_blocks(arena, "2", "0; 1");
    cr_expect(equal(four, two, 1, NULL));
    cr_expect(equal(four, two, 1, SHAPE(8)));
    cr_expect_not(equal(four, two, 1, SHAPE(5)), "3, 2 and 4, 1");
    cr_expect(equal(build_blocks(arena, "8*2", "0;1"), two, 1, NULL));
    cr_expect(equal(build_blocks(arena, "4*4,0*2", "0;0;0;0;1;1;1;1"), two, 1, NULL));
    cr_expect_not(equal(build_blocks(arena, "2*1,0*2", "0;1"), build_blocks(arena, "0*1,2*2", "0;1"), 1, NULL));
    cr_expect(equal(build_blocks(arena, "2*1,0*2", "0;1"), build_blocks(arena, "0*1,2*2", "0;1"), 1, SHAPE(4)));
    /* two rows and two columns of quarters are the whole, an L is not */
    cr_expect(equal(build_blocks(arena, "2|2", "0;0;0;0"), build_blocks(arena, "|", "0"), 2, SHAPE(4, 6)));
    cr_expect_not(equal(build_blocks(arena, "2|2", "0;0;0;1"), build_blocks(arena, "|", "0"), 2, SHAPE(4, 6)));
    cr_expect(equal(build_blocks(arena, "2", NULL), build_blocks(arena, "8*2", NULL), 1, SHAPE(8)));
    cr_expect_not(equal(build_blocks(arena, "2", NULL), two, 1, SHAPE(8)), "an open placement is not a given one");
}

Test(sharding, equal_groups)
{
    const struct sp_mesh *mesh = build_mesh(arena, "x=2 y=2 z=2", NULL);
    struct sp_sharding *x = build_axes(arena, mesh, "x"), *y = build_axes(arena, mesh, "x"),
                       *none = build_axes(arena, mesh, "x"), *manual = build_axes(arena, mesh, "x");
    x->partial = build_refs(arena, mesh, "y");
    y->partial = build_refs(arena, mesh, "z");
    manual->manual = build_refs(arena, mesh, "y");
    x->combiner = y->combiner = SP_COMBINE_SUM;
    cr_expect_not(equal(x, y, 1, NULL));
    cr_expect_not(equal(x, none, 1, NULL));
    cr_expect_not(equal(x, manual, 1, NULL));
    cr_expect_not(equal(none, manual, 1, NULL));
    /* the same with y and z exchanged and the devices too; which addend is whose does not matter */
    struct sp_sharding *same = build_axes(arena, listed_mesh("x=2 y=2 z=2", 8, SHAPE(2, 0, 3, 1, 4, 6, 5, 7)), "x");
    same->partial = build_refs(arena, same->mesh, "z");
    same->combiner = SP_COMBINE_SUM;
    cr_expect(equal(x, same, 1, NULL));
    same->combiner = SP_COMBINE_MAX;
    cr_expect_not(equal(x, same, 1, NULL));
    struct sp_sharding unreduced = {.kind = SP_SHARDING_UNREDUCED, .combiner = SP_COMBINE_SUM};
    struct sp_sharding *all = build_axes(arena, mesh, "");
    all->partial = build_refs(arena, mesh, "x y z");
    all->combiner = SP_COMBINE_SUM;
    cr_expect(equal(&unreduced, all, 0, NULL));
    cr_expect_not(equal(&unreduced, build_axes(arena, mesh, ""), 0, NULL));
}

Test(sharding, equal_kinds)
{
    struct sp_sharding replicated = {.kind = SP_SHARDING_REPLICATED}, manual = {.kind = SP_SHARDING_MANUAL},
                       one = {.kind = SP_SHARDING_SINGLE, .device = 1}, two = {.kind = SP_SHARDING_SINGLE, .device = 2};
    struct sp_mesh *single;
    cr_assert_eq(sp_mesh_single(arena, 1, &single, &err), SP_OK);
    cr_expect(equal(&one, build_axes(arena, single, "|"), 2, NULL));
    cr_expect_not(equal(&two, build_axes(arena, single, "|"), 2, NULL));
    cr_expect_not(equal(&one, &two, 2, NULL));
    cr_expect_not(equal(&one, &replicated, 2, NULL));
    cr_expect(equal(&replicated, build_axes(arena, build_mesh(arena, "x=4", NULL), "|"), 2, NULL));
    cr_expect_not(equal(&replicated, build_axes(arena, build_mesh(arena, "x=4", NULL), "x |"), 2, NULL));
    cr_expect(equal(&replicated, build_blocks(arena, "", "0 1 2"), 0, NULL));
    cr_expect(equal(&manual, &manual, 2, NULL));
    cr_expect_not(equal(&manual, &replicated, 2, NULL));
    struct sp_sharding left = {.kind = SP_SHARDING_TUPLE, .element_count = 1, .elements = &one};
    struct sp_sharding right = {.kind = SP_SHARDING_TUPLE, .element_count = 1, .elements = &replicated};
    cr_expect(equal(&left, &left, 0, NULL));
    cr_expect_not(equal(&left, &right, 0, NULL));
    cr_expect_not(equal(&right, &replicated, 0, NULL));
}

Test(sharding, equal_without_listing)
{
    struct sp_device_order order;
    int64_t n = 1000000;
    cr_assert_eq(sp_device_order_iota(arena, 2, SHAPE(n, n), SHAPE(1, 0), &order, &err), SP_OK);
    const struct sp_mesh *turned = build_mesh(arena, "x=1000000 y=1000000", &order);
    const struct sp_mesh *plain = build_mesh(arena, "y=1000 z=1000 x=1000000", NULL);
    cr_expect(equal(build_axes(arena, turned, "y | x"), build_axes(arena, plain, "y z | x"), 2, NULL));
    cr_expect(equal(build_axes(arena, turned, "y |"), build_axes(arena, plain, "y z |"), 2, NULL));
    cr_expect_not(equal(build_axes(arena, turned, "x | y"), build_axes(arena, plain, "y z | x"), 2, NULL));
    /* replicas are sets: here along x and part of y, in either order of the mesh */
    cr_expect(equal(build_axes(arena, turned, "y:(1000)1000 |"), build_axes(arena, plain, "z |"), 2, NULL));
    cr_expect_not(equal(build_axes(arena, turned, "y:(1000)1000 |"), build_axes(arena, plain, "y |"), 2, NULL));
    struct sp_sharding replicated = {.kind = SP_SHARDING_REPLICATED};
    cr_expect(equal(build_axes(arena, plain, "|"), &replicated, 2, NULL));
    cr_expect_not(equal(build_axes(arena, plain, "x |"), &replicated, 2, NULL));
}

/* ---- the definition, element by element ---- */

/* Whether a device holds an element, from the definition: the digits of the device's position. */
static bool holds(const struct sp_sharding *sharding, const int64_t *shape, const int64_t *at, int64_t device)
{
    const struct sp_mesh *mesh = sharding->mesh;
    int64_t position = -1, digits[8];
    for (int64_t i = 0; i < mesh->order.count; i++)
        if (sp_device_order_at(&mesh->order, i) == device)
            position = i;
    if (position < 0)
        return false;
    for (uint32_t i = mesh->axis_count; i-- > 0;) {
        digits[i] = position % mesh->axes[i].size;
        position /= mesh->axes[i].size;
    }
    for (uint32_t axis = 0; axis < sharding->rank; axis++) {
        int64_t tile = 0, tiles = 1;
        for (uint32_t i = 0; i < sharding->dims[axis].axes.count; i++) {
            struct sp_axis_ref ref = sharding->dims[axis].axes.refs[i];
            tile = tile * ref.size + digits[ref.axis] * ref.pre * ref.size / mesh->axes[ref.axis].size % ref.size;
            tiles *= ref.size;
        }
        if (at[axis] / ((shape[axis] + tiles - 1) / tiles) != tile)
            return false;
    }
    return true;
}

static bool is_in(const struct sp_held *held, const int64_t *at)
{
    for (uint32_t shard = 0; shard < held->shard_count; shard++) {
        bool fits = true;
        for (uint32_t axis = 0; axis < held->rank && fits; axis++) {
            const struct sp_axis_ranges *ranges = &held->shards[shard * held->rank + axis];
            fits = false;
            for (uint32_t i = 0; i < ranges->count; i++)
                fits = fits || (ranges->ranges[i].start <= at[axis] && at[axis] < ranges->ranges[i].limit);
        }
        if (fits)
            return true;
    }
    return false;
}

Test(sharding, random_holdings)
{
    struct random random = {1};
    for (uint32_t round = 0; round < 400; round++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        const struct sp_sharding *sharding = random_axes(arena, &random, 2);
        int64_t shape[2] = {(int64_t)random_below(&random, 9), (int64_t)random_below(&random, 9)}, at[2], count;
        struct sp_sharding *blocks;
        const int64_t *devices;
        cr_assert_eq(sp_sharding_check(sharding, 2, shape, 0, &err), SP_OK, "%s", err.message);
        cr_assert_eq(sp_sharding_to_blocks(arena, sharding, 2, 0, &blocks, NULL, &err), SP_OK, "%s", err.message);
        cr_assert_eq(sp_sharding_devices(arena, sharding, 0, &count, &devices, &err), SP_OK);
        for (int64_t i = 0; i < count; i++) {
            struct sp_held held, listed;
            cr_assert_eq(sp_sharding_held(arena, sharding, 2, shape, devices[i], &held, &err), SP_OK);
            cr_assert_eq(sp_sharding_held(arena, blocks, 2, shape, devices[i], &listed, &err), SP_OK);
            for (at[0] = 0; at[0] < shape[0]; at[0]++)
                for (at[1] = 0; at[1] < shape[1]; at[1]++) {
                    bool expected = holds(sharding, shape, at, devices[i]);
                    cr_assert_eq(is_in(&held, at), expected, "round %" PRIu32, round);
                    cr_assert_eq(is_in(&listed, at), expected, "round %" PRIu32, round);
                }
        }
        sp_arena_rewind(arena, mark);
    }
}

/* Pairs that are often the same: equality against every element of every device. */
Test(sharding, random_equality)
{
    struct random random = {7};
    uint32_t same = 0;
    for (uint32_t round = 0; round < 600; round++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        const struct sp_sharding *a = random_axes(arena, &random, 1);
        struct sp_sharding *b = build_axes(arena, a->mesh, a->mesh->axes[0].name), *blocks;
        int64_t shape[1] = {(int64_t)random_below(&random, 7)}, at[1];
        bool expected = true, is_equal;
        cr_assert_eq(sp_sharding_to_blocks(arena, b, 1, 0, &blocks, NULL, &err), SP_OK);
        for (int64_t i = 0; i < a->mesh->order.count; i++)
            for (at[0] = 0; at[0] < shape[0]; at[0]++) {
                int64_t device = sp_device_order_at(&a->mesh->order, i);
                expected = expected && holds(a, shape, at, device) == holds(b, shape, at, device);
            }
        cr_assert_eq(sp_sharding_equal(arena, a, b, 1, shape, &is_equal, &err), SP_OK, "%s", err.message);
        cr_assert_eq(is_equal, expected, "round %" PRIu32, round);
        cr_assert_eq(sp_sharding_equal(arena, blocks, a, 1, shape, &is_equal, &err), SP_OK, "%s", err.message);
        cr_assert_eq(is_equal, expected, "round %" PRIu32, round);
        same += expected;
        sp_arena_rewind(arena, mark);
    }
    cr_expect(same > 100 && same < 500, "%" PRIu32 " of 600 are the same", same);
}

/* Random parts, several shards per device: each element belongs to the shard that the grid of parts says. */
Test(sharding, random_parts)
{
    struct random random = {11};
    for (uint32_t round = 0; round < 300; round++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        struct sp_block_part parts[3];
        struct sp_block_dim dim = {1 + (uint32_t)random_below(&random, 3), parts};
        int64_t extents[3], shape[1] = {1}, devices[64];
        uint32_t first[65], open = (uint32_t)random_below(&random, 4);
        struct sp_sharding blocks = {.kind = SP_SHARDING_BLOCKS, .rank = 1, .blocks = &dim, .shard_count = 1};
        for (uint32_t i = 0; i < dim.part_count; i++) {
            extents[i] = 1 + (int64_t)random_below(&random, 5);
            parts[i] = (struct sp_block_part){open == i ? 0 : extents[i], NULL, 1 + (int64_t)random_below(&random, 4)};
            shape[0] *= extents[i];
            blocks.shard_count *= parts[i].shards;
        }
        for (uint32_t s = 0; s <= blocks.shard_count; s++)
            first[s] = s;
        for (uint32_t s = 0; s < blocks.shard_count; s++)
            devices[s] = (int64_t)random_below(&random, 6);
        blocks.first = first;
        blocks.devices = devices;
        cr_assert_eq(sp_sharding_check(&blocks, 1, shape, 6, &err), SP_OK, "%s", err.message);
        int64_t largest = 0, tile[1];
        for (int64_t device = 0; device < 6; device++) {
            struct sp_held held;
            int64_t count = 0;
            cr_assert_eq(sp_sharding_held(arena, &blocks, 1, shape, device, &held, &err), SP_OK, "%s", err.message);
            for (int64_t at = 0; at < shape[0]; at++) {
                int64_t shard = 0, minor = shape[0];
                for (uint32_t i = 0; i < dim.part_count; i++) {
                    minor /= extents[i];
                    int64_t size = (extents[i] + parts[i].shards - 1) / parts[i].shards;
                    shard = shard * parts[i].shards + at / minor % extents[i] / size;
                }
                cr_assert_eq(is_in(&held, &at), devices[shard] == device, "round %" PRIu32, round);
                count += devices[shard] == device;
            }
            largest = count > largest ? count : largest;
        }
        cr_assert_eq(sp_sharding_tile_shape(&blocks, 1, shape, tile, &err), SP_OK, "%s", err.message);
        cr_assert(tile[0] >= largest, "round %" PRIu32 ": %" PRId64 " elements do not fit %" PRId64, round, largest,
                  tile[0]);
        sp_arena_rewind(arena, mark);
    }
}

/* Running out of memory anywhere is reported, whatever was going on. */
Test(sharding, out_of_memory)
{
    struct random random = {5};
    const struct sp_sharding *axes = random_axes(arena, &random, 2);
    uint32_t refused = 0;
    for (size_t limit = 1; limit < 3000000; limit += limit / 4 + 1000) {
        struct sp_budget budget = {.limit = limit};
        struct sp_arena *small = sp_arena_create(&budget);
        struct sp_sharding *blocks = NULL;
        bool is_equal;
        sp_error_clear(&err);
        if (!small)
            continue;
        enum sp_status status = SP_OK;
        for (int i = 0; i < 500 && status == SP_OK; i++) {
            status = sp_sharding_to_blocks(small, axes, 2, 0, &blocks, NULL, &err);
            if (status == SP_OK)
                status = sp_sharding_equal(small, axes, blocks, 2, NULL, &is_equal, &err);
        }
        cr_expect(status == SP_OK || status == SP_ERR_MEMORY, "%s", err.message);
        refused += status == SP_ERR_MEMORY;
        sp_arena_destroy(small);
    }
    cr_expect_gt(refused, 5);
}
