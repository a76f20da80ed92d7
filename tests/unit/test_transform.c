#include <criterion/criterion.h>
#include <string.h>

#include "sharding/dialect.h"
#include "sharding/transform.h"

/*
 * Shardings are written in Shardy's form, mesh inside. Expected results follow from the definitions in transform.h; the
 * reshapes and the merges of whole tiles are also what XLA's hlo_sharding_util gives (its rule for GCDs of shards and
 * target extents, e.g. f32[6,4] {devices=[6,1]} -> f32[4,6] {devices=[2,1,3] last_tile_dim_replicate}).
 */

static struct sp_arena *arena;
static struct sp_error err;

static void setup(void)
{
    arena = sp_arena_create(NULL);
    sp_error_clear(&err);
}

static void teardown(void)
{
    sp_arena_destroy(arena);
}

TestSuite(transform, .init = setup, .fini = teardown);

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})
#define AXES(...) ((const uint32_t[]){__VA_ARGS__})

/* A sharding on a mesh such as `"x"=2, "y"=4` with what follows the mesh. */
static struct sp_sharding *given(const char *mesh, const char *body)
{
    struct sp_sharding *sharding = NULL;
    struct sp_dialect_context context = {.rank = -1};
    char *text = sp_arena_printf(arena, "#sdy.sharding<mesh<[%s]>, %s>", mesh, body);
    enum sp_status status = sp_shardy_read(arena, text, strlen(text), &context, &sharding, &err);
    cr_assert_eq(status, SP_OK, "%s: %s", text, err.message);
    return sharding;
}

/* As given(), devices listed. */
static struct sp_sharding *listed(const char *mesh, const char *ids, const char *body)
{
    struct sp_sharding *sharding = NULL;
    struct sp_dialect_context context = {.rank = -1};
    char *text = sp_arena_printf(arena, "#sdy.sharding<mesh<[%s], device_ids=[%s]>, %s>", mesh, ids, body);
    enum sp_status status = sp_shardy_read(arena, text, strlen(text), &context, &sharding, &err);
    cr_assert_eq(status, SP_OK, "%s: %s", text, err.message);
    return sharding;
}

static const char *written(const struct sp_sharding *sharding)
{
    if (!sharding)
        return "none";
    struct sp_buf buf;
    sp_buf_init(&buf, 1 << 16);
    cr_assert_eq(sp_shardy_write(sharding, false, &buf, &err), SP_OK, "%s", err.message);
    char *text = sp_arena_string(arena, (const char *)buf.data, buf.size);
    sp_buf_release(&buf);
    return text;
}

#define EXPECT(sharding, body)                                                                                         \
    do {                                                                                                               \
        const char *found_ = written(sharding);                                                                        \
        cr_expect_str_eq(found_, strcmp(body, "none") == 0 ? body : "#sdy.sharding<@mesh, " body ">", "%s", found_);   \
    } while (0)

#define OK(call) cr_assert_eq(call, SP_OK, "%s", err.message)

/* ---- moving axes about ---- */

Test(transform, transposes)
{
    struct sp_sharding *ret;
    OK(sp_sharding_transpose(arena, given("\"x\"=2, \"y\"=4", "[{\"x\"}, {}, {\"y\", ?}]"), AXES(2, 0, 1), &ret, &err));
    EXPECT(ret, "[{\"y\", ?}, {\"x\"}, {}]");
    cr_expect_eq(sp_sharding_transpose(arena, given("\"x\"=2", "[{\"x\"}, {}]"), AXES(0, 0), &ret, &err),
                 SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "BAD_PERMUTATION");
}

Test(transform, moves_tiles_to_the_minor_end)
{
    struct sp_sharding *ret, *s = given("\"x\"=2, \"y\"=4", "[{\"x\"}, {\"y\"}]");
    OK(sp_sharding_move_tiles(arena, s, 0, 1, &ret, &err));
    EXPECT(ret, "[{}, {\"y\", \"x\"}]");
    OK(sp_sharding_move_tiles(arena, s, 1, 0, &ret, &err));
    EXPECT(ret, "[{\"x\", \"y\"}, {}]");
    OK(sp_sharding_move_tiles(arena, s, 1, 1, &ret, &err));
    EXPECT(ret, "none");
    cr_expect_eq(sp_sharding_move_tiles(arena, s, 2, 0, &ret, &err), SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "BAD_AXIS");
}

Test(transform, merges_and_splits_axes)
{
    struct sp_sharding *ret, *s = given("\"x\"=4, \"y\"=3", "[{\"x\":(1)2}, {\"x\":(2)2}, {\"y\"}]");
    OK(sp_sharding_merge_dims(arena, s, 0, &ret, &err));
    EXPECT(ret, "[{\"x\"}, {\"y\"}]"); /* the parts of x are one axis again */
    OK(sp_sharding_split_dim(arena, ret, 0, 2, &ret, &err));
    EXPECT(ret, "[{\"x\":(1)2}, {\"x\":(2)2}, {\"y\"}]");
    OK(sp_sharding_merge_dims(arena, s, 1, &ret, &err));
    EXPECT(ret, "[{\"x\":(1)2}, {\"x\":(2)2, \"y\"}]");
    OK(sp_sharding_split_dim(arena, ret, 1, 3, &ret, &err)); /* [2, 3] has no major part of 3 */
    EXPECT(ret, "none");
    cr_expect_eq(sp_sharding_merge_dims(arena, s, 2, &ret, &err), SP_ERR_REQUEST);
}

Test(transform, copies_replicates_removes_and_adds_axes)
{
    struct sp_sharding *ret, *s = given("\"x\"=2, \"y\"=4, \"z\"=3", "[{\"x\"}, {\"y\"}, {}], unreduced={\"z\"}");
    OK(sp_sharding_copy_dims(arena, s, 2, AXES(0, 1), AXES(3, 0), 4, &ret, &err));
    EXPECT(ret, "[{\"y\"}, {}, {}, {\"x\"}], unreduced={\"z\"}");
    cr_expect_eq(sp_sharding_copy_dims(arena, s, 2, AXES(0, 0), AXES(1, 0), 4, &ret, &err), SP_ERR_REQUEST);
    sp_error_clear(&err);
    OK(sp_sharding_replicate_dims(arena, s, 1, AXES(1), &ret, &err));
    EXPECT(ret, "[{\"x\"}, {}, {}], unreduced={\"z\"}");
    OK(sp_sharding_remove_dims(arena, s, 2, AXES(2, 0), &ret, &err));
    EXPECT(ret, "[{\"y\"}], unreduced={\"z\"}");
    OK(sp_sharding_add_dims(arena, s, 2, AXES(0, 3), &ret, &err));
    EXPECT(ret, "[{}, {\"x\"}, {\"y\"}, {}, {}], unreduced={\"z\"}");
    cr_expect_eq(sp_sharding_add_dims(arena, s, 1, AXES(4), &ret, &err), SP_ERR_REQUEST);
}

Test(transform, leaves_kinds_without_axes_alone)
{
    struct sp_sharding *ret, replicated = {.kind = SP_SHARDING_REPLICATED}, tuple = {.kind = SP_SHARDING_TUPLE};
    OK(sp_sharding_transpose(arena, &replicated, AXES(1, 0), &ret, &err));
    cr_expect_eq(ret->kind, SP_SHARDING_REPLICATED);
    cr_expect_eq(sp_sharding_transpose(arena, &tuple, AXES(1, 0), &ret, &err), SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "NOT_AXES");
}

/* ---- reshape ---- */

static const char *reshaped(const struct sp_sharding *s, uint32_t from_rank, const int64_t *from, uint32_t to_rank,
                            const int64_t *to, bool best_effort)
{
    struct sp_sharding *ret;
    OK(sp_sharding_reshape(arena, s, from_rank, from, to_rank, to, best_effort, &ret, &err));
    return written(ret);
}

#define EXPECT_RESHAPE(s, from_rank, from, to_rank, to, body)                                                          \
    do {                                                                                                               \
        const char *found_ = reshaped(s, from_rank, from, to_rank, to, false);                                         \
        cr_expect_str_eq(found_, strcmp(body, "none") == 0 ? body : "#sdy.sharding<@mesh, " body ">", "%s", found_);   \
    } while (0)

Test(transform, reshapes)
{
    const char *xy = "\"x\"=4, \"y\"=2";
    /* equal extents, an axis of extent 1 that goes with its shards and one that comes */
    EXPECT_RESHAPE(given(xy, "[{\"x\"}, {\"y\"}]"), 2, DIMS(1, 6), 2, DIMS(6, 1), "[{\"y\"}, {}]");
    /* merging: the major axis is fully split, the minor one goes on */
    EXPECT_RESHAPE(given(xy, "[{\"x\"}, {\"y\"}]"), 2, DIMS(4, 6), 1, DIMS(24), "[{\"x\", \"y\"}]");
    /* merging: the rest of the major axis is between the two */
    EXPECT_RESHAPE(given(xy, "[{\"x\"}, {\"y\"}]"), 2, DIMS(8, 6), 1, DIMS(48), "[{\"x\"}]");
    /* splitting in the middle of a mesh axis */
    EXPECT_RESHAPE(given(xy, "[{\"x\", \"y\"}]"), 1, DIMS(16), 2, DIMS(2, 8), "[{\"x\":(1)2}, {\"x\":(2)2, \"y\"}]");
    /* gcd(6, 4) shards survive */
    EXPECT_RESHAPE(given("\"x\"=6", "[{\"x\"}, {}]"), 2, DIMS(6, 4), 2, DIMS(4, 6), "[{\"x\":(1)2}, {}]");
    /* whole axes may be reshaped before a split one */
    EXPECT_RESHAPE(given(xy, "[{}, {}, {\"x\"}]"), 3, DIMS(2, 9, 8), 3, DIMS(6, 3, 8), "[{}, {}, {\"x\"}]");
}

Test(transform, does_not_reshape)
{
    const char *x = "\"x\"=4";
    EXPECT_RESHAPE(given(x, "[{\"x\"}]"), 1, DIMS(6), 2, DIMS(2, 3), "none");          /* uneven shards are cut */
    EXPECT_RESHAPE(given(x, "[{\"x\"}]"), 1, DIMS(6), 2, DIMS(6, 1), "[{\"x\"}, {}]"); /* but may stay as they are */
    EXPECT_RESHAPE(given("\"x\"=2", "[{}, {\"x\"}]"), 2, DIMS(3, 2), 2, DIMS(2, 3), "none");
    struct sp_sharding *ret;
    cr_expect_eq(sp_sharding_reshape(arena, given(x, "[{\"x\"}]"), 1, DIMS(6), 1, DIMS(7), false, &ret, &err),
                 SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "RESHAPE_SIZE");
}

Test(transform, reshapes_what_it_can)
{
    /* uneven 14 in 4 is in the way; the axes before and behind it are reshaped on their own */
    const char *mesh = "\"a\"=2, \"b\"=2, \"c\"=4, \"d\"=8";
    struct sp_sharding *s = given(mesh, "[{\"a\"}, {\"b\"}, {\"c\"}, {\"d\"}]");
    const int64_t *from = DIMS(2, 2, 14, 16), *to = DIMS(4, 2, 7, 4, 4);
    cr_expect_str_eq(reshaped(s, 4, from, 5, to, false), "none");
    cr_expect_str_eq(reshaped(s, 4, from, 5, to, true),
                     "#sdy.sharding<@mesh, [{\"a\", \"b\"}, {}, {}, {\"d\":(1)4}, {\"d\":(4)2}]>");
}

Test(transform, reshape_of_an_empty_tensor_ends)
{
    struct sp_sharding *s = given("\"x\"=4, \"y\"=2", "[{\"x\"}, {\"y\"}]"), *ret;
    OK(sp_sharding_reshape(arena, s, 2, DIMS(0, 8), 3, DIMS(4, 0, 2), false, &ret, &err));
    OK(sp_sharding_reshape(arena, s, 2, DIMS(4, 0), 2, DIMS(0, 1), true, &ret, &err));
}

/* ---- merge ---- */

static const char *merged(const struct sp_sharding *a, const struct sp_sharding *b)
{
    struct sp_sharding *ret;
    OK(sp_sharding_merge(arena, a, b, &ret, &err));
    if (ret && ret->kind == SP_SHARDING_AXES)
        OK(sp_sharding_check(ret, -1, NULL, 0, &err));
    return written(ret);
}

Test(transform, merges_on_one_mesh)
{
    const char *m = "\"x\"=2, \"y\"=2, \"z\"=2";
    cr_expect_str_eq(merged(given(m, "[{\"x\"}, {}]"), given(m, "[{}, {\"y\"}]")),
                     "#sdy.sharding<@mesh, [{\"x\"}, {\"y\"}]>");
    cr_expect_str_eq(merged(given(m, "[{\"x\", \"y\"}]"), given(m, "[{\"x\"}]")),
                     "#sdy.sharding<@mesh, [{\"x\", \"y\"}]>");
    cr_expect_str_eq(merged(given(m, "[{\"x\", \"y\", \"z\"}, {}]"), given(m, "[{\"x\"}, {\"z\"}]")),
                     "#sdy.sharding<@mesh, [{\"x\", \"y\"}, {\"z\"}]>");
    cr_expect_str_eq(merged(given(m, "[{\"x\"}]"), given(m, "[{\"y\"}]")), "none");
    cr_expect_str_eq(merged(given(m, "[{}, {\"x\"}]"), given(m, "[{\"x\"}, {}]")), "none");
    cr_expect_str_eq(merged(given(m, "[{\"x\"}], unreduced={\"y\"}"), given(m, "[{\"x\"}]")), "none");
}

Test(transform, merges_on_two_meshes)
{
    /* 128 devices: the first splits axis 0 in 4; the second, whose mesh is transposed, axes 1 and 2 in 2 and 4 */
    struct sp_sharding *b = given("\"p\"=4, \"q\"=32", "[{\"p\"}, {}, {}]");
    struct sp_sharding *a = given("\"r\"=16, \"s\"=2, \"t\"=4", "[{}, {\"s\"}, {\"t\"}]"), *ret;
    OK(sp_sharding_merge(arena, a, b, &ret, &err));
    cr_assert_not_null(ret);
    /* digits of the device number: p is the first 4 of r's 16 */
    int64_t tile[3], offset[3], limit[3];
    bool found;
    for (int64_t device = 0; device < 128; device++) {
        OK(sp_sharding_tile(ret, 3, DIMS(4, 2, 4), device, &found, tile, offset, limit, &err));
        cr_assert(found);
        cr_expect_eq(tile[0], device / 32);
        cr_expect_eq(tile[1], device / 4 % 2);
        cr_expect_eq(tile[2], device % 4);
    }
}

Test(transform, merges_by_devices_where_no_mesh_serves_both)
{
    /* replica groups {0,1} {2,3} and {0,3} {1,2}: each pair has one device in common */
    struct sp_sharding *b = given("\"x\"=2, \"y\"=2", "[{\"x\"}, {}]");
    struct sp_sharding *a = listed("\"x\"=2, \"y\"=2", "0,3,1,2", "[{}, {\"x\"}]"), *ret;
    OK(sp_sharding_merge(arena, a, b, &ret, &err));
    cr_assert_not_null(ret);
    const int64_t rows[] = {0, 0, 1, 1}, columns[] = {0, 1, 1, 0};
    int64_t tile[2], offset[2], limit[2];
    bool found;
    for (int64_t device = 0; device < 4; device++) {
        OK(sp_sharding_tile(ret, 2, DIMS(2, 2), device, &found, tile, offset, limit, &err));
        cr_assert(found);
        cr_expect_eq(tile[0], rows[device]);
        cr_expect_eq(tile[1], columns[device]);
    }
    /* the same two groups twice cannot cross */
    struct sp_sharding *c = listed("\"x\"=2, \"y\"=2", "1,0,3,2", "[{}, {\"x\"}]");
    OK(sp_sharding_merge(arena, c, b, &ret, &err));
    cr_expect_null(ret);
}

/* ---- one mesh for two ---- */

static void expect_unified(const struct sp_sharding *a, const struct sp_sharding *b)
{
    struct sp_sharding *ua, *ub;
    bool equal;
    OK(sp_sharding_unify(arena, a, b, &ua, &ub, &err));
    cr_assert_not_null(ua);
    cr_expect_eq(ua->mesh, ub->mesh);
    OK(sp_sharding_check(ua, -1, NULL, 0, &err));
    OK(sp_sharding_check(ub, -1, NULL, 0, &err));
    OK(sp_sharding_equal(arena, a, ua, a->rank, NULL, &equal, &err));
    cr_expect(equal);
    OK(sp_sharding_equal(arena, b, ub, b->rank, NULL, &equal, &err));
    cr_expect(equal);
}

Test(transform, unifies)
{
    expect_unified(given("\"x\"=4, \"y\"=6", "[{\"y\"}, {\"x\":(2)2}]"), given("\"p\"=2, \"q\"=12", "[{\"q\":(2)2}]"));
    expect_unified(listed("\"x\"=2, \"y\"=3", "0,2,4,1,3,5", "[{\"y\"}, {\"x\"}]"), given("\"p\"=6", "[{\"p\"}]"));
    expect_unified(given("\"p\"=3, \"q\"=2", "[{\"q\"}]"), listed("\"x\"=2, \"y\"=3", "0,2,4,1,3,5", "[{\"y\"}]"));
    struct sp_sharding *ua, *ub; /* 2 * 3 and 3 * 2 have no common cuts */
    OK(sp_sharding_unify(arena, given("\"x\"=2, \"y\"=3", "[{\"x\"}]"), given("\"p\"=3, \"q\"=2", "[{\"p\"}]"), &ua,
                         &ub, &err));
    cr_expect_null(ua);
    cr_expect_null(ub);
}

Test(transform, unifies_meshes_that_nobody_could_list)
{
    const char *wide = "\"x\"=1048576, \"y\"=1048576";
    struct sp_sharding *ua, *ub;
    OK(sp_sharding_unify(arena, given(wide, "[{\"y\"}]"), given("\"p\"=1024, \"q\"=1073741824", "[{\"p\"}]"), &ua, &ub,
                         &err));
    cr_assert_not_null(ua);
    cr_expect_eq(sp_sharding_shards(ua, 0), 1048576);
    cr_expect_eq(sp_sharding_shards(ub, 0), 1024);
    bool is;
    OK(sp_sharding_is_sub_tiling(arena, given(wide, "[{\"x\", \"y\"}]"),
                                 given("\"p\"=1024, \"q\"=1073741824", "[{\"p\"}]"), 1, DIMS(INT64_C(1) << 41), &is,
                                 &err));
    cr_expect(is);
}

Test(transform, regroups_so_that_tiles_can_be_cut_anywhere)
{
    struct sp_sharding *s = given("\"x\"=2, \"y\"=3", "[{\"y\", \"x\"}]"), *grouped, *ret;
    OK(sp_sharding_regroup(arena, s, &grouped, &err));
    cr_expect_eq(grouped->mesh->axis_count, 1);
    bool equal;
    OK(sp_sharding_equal(arena, s, grouped, 1, NULL, &equal, &err));
    cr_expect(equal);
    OK(sp_sharding_split_dim(arena, s, 0, 2, &ret, &err));
    cr_expect_null(ret);
    OK(sp_sharding_split_dim(arena, grouped, 0, 2, &ret, &err));
    cr_assert_not_null(ret);
    cr_expect_eq(sp_sharding_shards(ret, 1), 3);
}

Test(transform, lists_unused_axes)
{
    struct sp_axis_list axes;
    OK(sp_sharding_unused_axes(
        arena, given("\"x\"=16, \"y\"=2, \"z\"=3", "[{\"x\":(8)2}, {\"z\"}], unreduced={\"x\":(2)2}"), &axes, &err));
    cr_assert_eq(axes.count, 3);
    cr_expect(sp_axis_equal(axes.refs[0], (struct sp_axis_ref){.axis = 0, .pre = 1, .size = 2}));
    cr_expect(sp_axis_equal(axes.refs[1], (struct sp_axis_ref){.axis = 0, .pre = 4, .size = 2}));
    cr_expect(sp_axis_equal(axes.refs[2], (struct sp_axis_ref){.axis = 1, .pre = 1, .size = 2}));
}

/* ---- tiles ---- */

static bool is_sub_tiling(const struct sp_sharding *fine, const struct sp_sharding *coarse, int64_t extent)
{
    bool is;
    OK(sp_sharding_is_sub_tiling(arena, fine, coarse, 1, &extent, &is, &err));
    return is;
}

Test(transform, compares_tiles_by_what_devices_hold)
{
    struct sp_sharding *fine = given("\"x\"=2, \"y\"=2", "[{\"x\", \"y\"}]");
    struct sp_sharding *coarse = given("\"x\"=2, \"y\"=2", "[{\"x\"}]"), *whole = given("\"x\"=2, \"y\"=2", "[{}]");
    /* ceil blocks: of 6, quarters are 2 2 2 0 and halves 3 3, so device 1 holds [2, 4) and [0, 3) */
    const bool nested[] = {true, true, false, true, true, false, false, true, true, false, false, true, true};
    for (int64_t extent = 0; extent <= 12; extent++)
        cr_expect_eq(is_sub_tiling(fine, coarse, extent), nested[extent], "extent %d", (int)extent);
    cr_expect_not(is_sub_tiling(coarse, fine, 8));
    cr_expect(is_sub_tiling(fine, whole, 5));
    cr_expect_not(is_sub_tiling(whole, fine, 5));
    /* another order of devices: 1 is no longer in the first half */
    cr_expect_not(is_sub_tiling(fine, given("\"x\"=2, \"y\"=2", "[{\"y\"}]"), 8));
    cr_expect(is_sub_tiling(listed("\"x\"=4", "0,2,1,3", "[{\"x\"}]"), given("\"x\"=2, \"y\"=2", "[{\"y\"}]"), 8));
}

Test(transform, finds_an_axis_for_tiles)
{
    const char *mesh = "\"a\"=2, \"b\"=4, \"c\"=3";
    struct sp_sharding *s = given(mesh, "[{\"a\"}, {\"b\"}, {}, {\"c\"}]");
    int64_t axis;
    OK(sp_sharding_first_dim_for_tiles(s, 4, DIMS(4, 16, 6, 9), 0, &axis, &err));
    cr_expect_eq(axis, 1); /* 16 in 4 * 2 */
    OK(sp_sharding_first_dim_for_tiles(s, 4, DIMS(4, 16, 6, 9), 3, &axis, &err));
    cr_expect_eq(axis, 2); /* 4 in 2 * 3 and 16 in 4 * 3 are uneven, 6 in 3 is not */
    OK(sp_sharding_first_dim_for_tiles(s, 4, DIMS(4, 16, 6, 9), 2, &axis, &err));
    cr_expect_eq(axis, -1); /* whole */
    OK(sp_sharding_first_dim_for_tiles(s, 4, DIMS(5, 16, 6, 9), 1, &axis, &err));
    cr_expect_eq(axis, -1); /* nothing fits */
}

Test(transform, untiles_shapes)
{
    int64_t shape[2];
    struct sp_sharding *s = given("\"a\"=2, \"b\"=4", "[{\"b\"}, {}]");
    OK(sp_sharding_untile_shape(s, 2, DIMS(40, 128), shape, &err));
    cr_expect_eq(shape[0], 160);
    cr_expect_eq(shape[1], 128);
    cr_expect_eq(sp_sharding_untile_shape(s, 2, DIMS(INT64_MAX, 1), shape, &err), SP_ERR_REQUEST);
}

Test(transform, infers_operands)
{
    /* [m, k] of [m, k] x [k, n] -> [m, n]: m from the result, k from the other operand */
    const char *mesh = "\"x\"=2, \"y\"=4";
    struct sp_sharding *result = given(mesh, "[{\"x\"}, {\"y\"}]"), *other = given(mesh, "[{\"y\"}, {}]"), *ret;
    OK(sp_sharding_infer_operand(arena, 2, DIMS(0, -1), result, DIMS(-1, 0), other, &ret, &err));
    EXPECT(ret, "[{\"x\"}, {\"y\"}]");
    OK(sp_sharding_infer_operand(arena, 2, DIMS(0, -1), result, DIMS(-1, 0), NULL, &ret, &err));
    EXPECT(ret, "[{\"x\"}, {}]");
    /* x cannot split both; the one with more tiles wins */
    other = given(mesh, "[{\"x\", \"y\"}, {}]");
    OK(sp_sharding_infer_operand(arena, 2, DIMS(0, -1), result, DIMS(-1, 0), other, &ret, &err));
    EXPECT(ret, "[{}, {\"x\", \"y\"}]");
}
