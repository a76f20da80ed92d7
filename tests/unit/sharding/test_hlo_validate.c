#include "hlo_texts.h"

static const struct sp_hlo_shape leaves[] = {
    {.rank = 2, .dims = (const int64_t[]){4, 6}},
    {.rank = 0},
    {.is_token = true},
};
#define MATRIX (&leaves[0])

static void expect_valid(const char *text, const struct sp_hlo_shape *shape, int64_t devices)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_error err = {0};
    cr_expect_eq(sp_hlo_validate(hlo_of(arena, text), shape, devices, &err), SP_OK, "%s: %s", text, err.message);
    sp_arena_destroy(arena);
}

static void expect_invalid(const char *text, const struct sp_hlo_shape *shape, int64_t devices, const char *words)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_error err = {0};
    cr_expect_eq(sp_hlo_validate(hlo_of(arena, text), shape, devices, &err), SP_ERR_REQUEST, "%s is valid", text);
    cr_expect(strstr(err.message, words) != NULL, "%s: \"%s\" does not say \"%s\"", text, err.message, words);
    sp_arena_destroy(arena);
}

Test(hlo_validate, kinds_without_tiles_fit_everything)
{
    static const char *const texts[] = {"{replicated}",
                                        "{manual}",
                                        "{unknown}",
                                        "{unreduced}",
                                        "{mesh['a'=2], replicated}",
                                        "{mesh['a'=2], manual}",
                                        "{mesh['a'=2], [{}, {}, {}]}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        expect_valid(texts[i], MATRIX, 7);
}

Test(hlo_validate, devices)
{
    expect_valid("{maximal device=6}", MATRIX, 7);
    expect_invalid("{maximal device=7}", MATRIX, 7, "device 7 >= num_devices (7) in tile assignment");
    expect_invalid("{maximal_mesh[device_id=7]}", MATRIX, 7, "device 7 >= num_devices (7)");
    expect_invalid("{devices=[2,1]0,9}", MATRIX, 2, "device 9 >= num_devices (2)");
    expect_invalid("{devices=[2,1]0,1}", MATRIX, 3, "tile_assignment should have 3 devices but has 2");
    expect_invalid("{devices=[2,1]<=[2]}", MATRIX, 3, "tile_assignment should have 3 devices but has 2");
    expect_invalid("{mesh['a'=2], [{'a'}, {}]}", MATRIX, 3, "sharding should have 3 devices but has 2");
    expect_invalid("{devices=[1,1]<=[1]}", MATRIX, 1, "Tile assignment only contains a single device");
    expect_valid("{devices=[1048576,1048576]<=[1099511627776]}", MATRIX, INT64_C(1) << 40);
}

/* Neither divisibility nor tiles within the extent are asked for. */
Test(hlo_validate, ranks)
{
    expect_valid("{devices=[7,1]<=[7]}", MATRIX, 7);
    expect_valid("{devices=[2,1,2]<=[4] last_tile_dim_replicate}", MATRIX, 4);
    expect_valid("{devices=[2,1,2,2]<=[8] last_tile_dims={manual, unreduced}}", MATRIX, 8);
    expect_invalid("{devices=[2,2,2]<=[8]}", MATRIX, 8, "is different than the input rank");
    expect_invalid("{devices=[2,2]<=[4] last_tile_dim_replicate}", MATRIX, 4, "input_shape=[4,6]");
    expect_invalid("{mesh['a'=2], [{'a'}]}", MATRIX, 2, "is different than the input rank");
}

Test(hlo_validate, tuples)
{
    const struct sp_hlo_shape inner = {.is_tuple = true, .element_count = 2, .elements = &leaves[1]};
    const struct sp_hlo_shape parts[] = {leaves[0], inner};
    const struct sp_hlo_shape nested = {.is_tuple = true, .element_count = 2, .elements = parts};
    const struct sp_hlo_shape empty = {.is_tuple = true};
    expect_valid("{{devices=[2,1]<=[2]}, {replicated}, {devices=[2]<=[2]}}", &nested, 2); /* a token takes any */
    expect_invalid("{{replicated}, {devices=[2]<=[2]}, {manual}}", &nested, 2, "is different than the input rank");
    expect_invalid("{{replicated}, {replicated}}", &nested, 2, "3 leaf nodes while this sharding has 2");
    expect_valid("{}", &empty, 2);
    expect_valid("{{manual}}", &empty, 2);
    expect_invalid("{{manual}, {manual}}", &empty, 2, "leaf nodes");
    expect_invalid("{{manual}}", MATRIX, 2, "Sharding is tuple-shaped but validation shape is not");
    expect_invalid("{manual}", &nested, 2, "Validation shape is a tuple but sharding is not");
    expect_valid("{{manual}, {manual}}", &leaves[2], 2);
}

Test(hlo_validate, bounds_the_depth_of_shapes)
{
    struct sp_hlo_shape shapes[SP_MAX_NESTING + 2];
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_error err = {0};
    shapes[0] = leaves[0];
    for (int i = 1; i < SP_MAX_NESTING + 2; i++)
        shapes[i] = (struct sp_hlo_shape){.is_tuple = true, .element_count = 1, .elements = &shapes[i - 1]};
    cr_expect_eq(sp_hlo_validate(hlo_of(arena, "{{manual}}"), &shapes[SP_MAX_NESTING], 2, &err), SP_OK);
    cr_expect_eq(sp_hlo_validate(hlo_of(arena, "{{manual}}"), &shapes[SP_MAX_NESTING + 1], 2, &err), SP_ERR_LIMIT);
    cr_expect_str_eq(err.limit, "SP_MAX_NESTING");
    sp_arena_destroy(arena);
}
