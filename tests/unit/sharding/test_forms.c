#include <criterion/criterion.h>
#include <inttypes.h>

#include "build_sharding.h"
#include "compose.h"
#include "sharding/convert_forms.h"

static struct sp_arena *arena;
static struct sp_error err;
static struct sp_losses losses;

static void set_up(void)
{
    arena = sp_arena_create(NULL);
    sp_error_clear(&err);
    losses = (struct sp_losses){0};
}

static void tear_down(void)
{
    sp_arena_destroy(arena);
}

TestSuite(forms, .init = set_up, .fini = tear_down);

#define SHAPE(...) ((const int64_t[]){__VA_ARGS__})

static struct sp_sharding *to_axes(const struct sp_sharding *sharding, uint32_t rank, const int64_t *shape)
{
    struct sp_sharding *axes = NULL;
    cr_assert_eq(sp_sharding_to_axes(arena, sharding, &(struct sp_dialect_context){.rank = rank, .shape = shape}, &axes,
                                     &losses, &err),
                 SP_OK, "%s", err.message);
    cr_assert_eq(sp_sharding_check(axes, rank, shape, 0, &err), SP_OK, "%s", err.message);
    return axes;
}

static struct sp_sharding *to_blocks(const struct sp_sharding *sharding, uint32_t rank)
{
    struct sp_sharding *blocks = NULL;
    cr_assert_eq(sp_sharding_to_blocks(arena, sharding, rank, 0, &blocks, &losses, &err), SP_OK, "%s", err.message);
    cr_assert_eq(sp_sharding_check(blocks, rank, NULL, 0, &err), SP_OK, "%s", err.message);
    return blocks;
}

static bool equal(const struct sp_sharding *a, const struct sp_sharding *b, uint32_t rank, const int64_t *shape)
{
    bool is_equal = false;
    cr_assert_eq(sp_sharding_equal(arena, a, b, rank, shape, &is_equal, &err), SP_OK, "%s", err.message);
    return is_equal;
}

static void expect_refused(const struct sp_sharding *blocks, const int64_t *shape, const char *code)
{
    struct sp_sharding *axes = NULL;
    sp_error_clear(&err);
    cr_expect_neq(sp_sharding_to_axes(arena, blocks, &(struct sp_dialect_context){.rank = blocks->rank, .shape = shape},
                                      &axes, &losses, &err),
                  SP_OK, "%s", code);
    cr_expect_str_eq(err.code, code, "%s, not %s: %s", err.code, code, err.message);
    cr_expect_null(axes);
}

/* The examples of ONNX proposal 0006: [[1, 2], [3, 4]] on axis 0, axis 1, both, replicated, mixed; as meshes. */
Test(forms, examples_of_the_proposal)
{
    static const struct {
        const char *blocks, *placement, *mesh, *dims;
        const char *held[4]; /* by device, NULL: not one of its devices */
    } cases[] = {
        {"2 |", "0; 1", "axis_0=2", "axis_0 |", {"0..1 x 0..2", "1..2 x 0..2"}},
        {"| 2", "0; 1", "axis_0=2", "| axis_0", {"0..2 x 0..1", "0..2 x 1..2"}},
        {"2 | 2",
         "0; 1; 2; 3",
         "axis_0=2 axis_1=2",
         "axis_0 | axis_1",
         {"0..1 x 0..1", "0..1 x 1..2", "1..2 x 0..1", "1..2 x 1..2"}},
        {"|", "0 1", "axis_0=2", "|", {"0..2 x 0..2", "0..2 x 0..2"}},
        {"2 |",
         "0 1; 2 3",
         "axis_0=2 axis_1=2",
         "axis_0 |",
         {"0..1 x 0..2", "0..1 x 0..2", "1..2 x 0..2", "1..2 x 0..2"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct sp_sharding *blocks = build_blocks(arena, cases[i].blocks, cases[i].placement);
        struct sp_sharding *axes = to_axes(blocks, 2, NULL);
        const struct sp_mesh *mesh = build_mesh(arena, cases[i].mesh, NULL);
        cr_expect(sp_mesh_equal(axes->mesh, mesh, true), "case %zu", i);
        const struct sp_sharding *expected = build_axes(arena, mesh, cases[i].dims);
        for (uint32_t axis = 0; axis < 2; axis++)
            cr_expect_str_eq(refs_text(arena, axes->mesh, &axes->dims[axis].axes),
                             refs_text(arena, mesh, &expected->dims[axis].axes), "case %zu", i);
        for (int64_t device = 0; device < 4; device++) {
            const char *held = cases[i].held[device] ? cases[i].held[device] : "nothing";
            cr_expect_str_eq(held_text(arena, blocks, 2, SHAPE(2, 2), device), held, "case %zu", i);
            cr_expect_str_eq(held_text(arena, axes, 2, SHAPE(2, 2), device), held, "case %zu", i);
        }
        cr_expect_str_eq(placement_text(arena, to_blocks(axes, 2)), placement_text(arena, blocks), "case %zu", i);
    }
    cr_expect_eq(losses.count, 0, "%s", losses.count ? losses.items[0].message : "");
}

/* StableHLO's {devices=[2,1]0,1} and {devices=[2,2]0,2,1,3} as meshes, and back. */
Test(forms, listed_devices)
{
    struct sp_sharding *axes = to_axes(build_blocks(arena, "2 | 2", "0; 2; 1; 3"), 2, NULL);
    cr_expect_eq(axes->mesh->order.count, 4);
    cr_expect_eq(sp_device_order_at(&axes->mesh->order, 1), 2);
    cr_expect_str_eq(placement_text(arena, to_blocks(axes, 2)), "0; 2; 1; 3");
    axes = to_axes(build_blocks(arena, "2", "0 2; 1 7"), 1, NULL);
    cr_expect_str_eq(held_text(arena, axes, 1, SHAPE(4), 7), "2..4");
    axes = to_axes(build_blocks(arena, "|", "5"), 2, NULL);
    cr_expect(sp_mesh_is_single(axes->mesh));
    cr_expect_eq(axes->mesh->order.ids[0], 5);
}

Test(forms, parts_that_are_one_split)
{
    static const struct {
        const char *blocks;
        int64_t extent; /* 0: no shape is given */
    } cases[] = {
        {"2*2,0*2", 8}, {"2*2,4*2", 0}, {"4*4,2*1", 0},     {"0*4,2*1", 8}, {"1*1,0*4", 8},
        {"1*1,5*4", 0}, {"8*4,3*1", 0}, {"2*2,2*2,3*1", 0}, {"7*4,1*1", 0}, {"2*2,0*1", 6},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sp_sharding *blocks = build_blocks(arena, cases[i].blocks, NULL);
        uint32_t first[17];
        int64_t devices[16], shape[1] = {cases[i].extent};
        for (uint32_t s = 0; s <= blocks->shard_count; s++)
            first[s] = s;
        for (uint32_t s = 0; s < blocks->shard_count; s++)
            devices[s] = s;
        blocks->first = first;
        blocks->devices = devices;
        struct sp_sharding *axes = to_axes(blocks, 1, cases[i].extent ? shape : NULL);
        cr_expect_eq(axes->mesh->axis_count, 1);
        cr_expect_eq(sp_sharding_shards(axes, 0), blocks->shard_count);
        if (!cases[i].extent) {
            shape[0] = 1;
            for (uint32_t part = 0; part < blocks->blocks[0].part_count; part++)
                shape[0] *= blocks->blocks[0].parts[part].extent;
        }
        cr_expect(equal(axes, blocks, 1, shape), "case %zu", i);
    }
    /* [2 2 2 0] twice over is not ceil(12 / 4) = 3; [2 1] and again [2 1] is not [2 2 2 0] */
    expect_refused(build_blocks(arena, "6*4,2*1", "0;1;2;3"), NULL, "BLOCKS_NOT_CONTIGUOUS");
    expect_refused(build_blocks(arena, "2*2,3*2", "0;1;2;3"), NULL, "BLOCKS_NOT_CONTIGUOUS");
    expect_refused(build_blocks(arena, "2*1,0*2", "0;1"), SHAPE(8), "BLOCKS_NOT_CONTIGUOUS");
    expect_refused(build_blocks(arena, "4*2,3*3", "0;1;2;3;4;5"), NULL, "BLOCKS_NOT_CONTIGUOUS");
    expect_refused(build_blocks(arena, "2*4,3*1", "0;1;2;3"), NULL, "BLOCKS_NOT_CONTIGUOUS");
    expect_refused(build_blocks(arena, "0*2,2*1", "0;1"), NULL, "EXTENT_UNKNOWN");
    expect_refused(build_blocks(arena, "0*1,2*2", "0;1"), NULL, "EXTENT_UNKNOWN");
}

/* Every way to write 12 or 7 elements as two or three parts: a mesh exists exactly when all shards are the blocks of
   one split. */
Test(forms, parts_against_their_definition)
{
    static const int64_t parts[][3] = {{12, 1, 1}, {1, 12, 1}, {2, 6, 1}, {6, 2, 1}, {3, 4, 1}, {4, 3, 1}, {2, 2, 3},
                                       {2, 3, 2},  {3, 2, 2},  {7, 1, 1}, {1, 7, 1}, {1, 1, 7}, {0, 3, 1}, {3, 0, 1}};
    uint32_t meshes = 0, refused = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (int64_t shards = 0; shards < 125; shards++) {
            struct sp_arena_mark mark = sp_arena_mark(arena);
            struct sp_block_part own[3] = {{parts[i][0], NULL, shards / 25 + 1},
                                           {parts[i][1], NULL, shards / 5 % 5 + 1},
                                           {parts[i][2], NULL, shards % 5 + 1}};
            struct sp_block_dim dim = {3, own};
            uint32_t first[126];
            int64_t devices[125], shape[1] = {parts[i][0] * parts[i][1] * parts[i][2]};
            if (shape[0] == 0)
                shape[0] = 9; /* the open part is 3 */
            struct sp_sharding blocks = {
                .kind = SP_SHARDING_BLOCKS, .rank = 1, .blocks = &dim, .first = first, .devices = devices};
            blocks.shard_count = own[0].shards * own[1].shards * own[2].shards;
            for (uint32_t s = 0; s <= blocks.shard_count; s++)
                first[s] = s;
            for (uint32_t s = 0; s < blocks.shard_count; s++)
                devices[s] = s;
            char text[16];
            snprintf(text, sizeof text, "%" PRId64, blocks.shard_count);
            struct sp_sharding plain = blocks, *axes = NULL;
            plain.blocks = build_blocks(arena, text, NULL)->blocks;
            bool is_split = equal(&blocks, &plain, 1, shape);
            sp_error_clear(&err);
            bool is_mesh = sp_sharding_to_axes(arena, &blocks, &(struct sp_dialect_context){.rank = 1, .shape = shape},
                                               &axes, NULL, &err) == SP_OK;
            sp_error_clear(&err);
            cr_assert(!is_mesh || equal(&blocks, axes, 1, shape), "part %zu, shards %" PRId64, i, shards);
            cr_assert(is_mesh || !is_split || own[0].shards > own[0].extent || own[1].shards > own[1].extent ||
                          own[2].shards > own[2].extent,
                      "part %zu, shards %" PRId64 " is one split", i, shards);
            meshes += is_mesh;
            refused += !is_mesh;
            sp_arena_rewind(arena, mark);
        }
    cr_expect(meshes > 50 && refused > 1000, "%" PRIu32 " %" PRIu32, meshes, refused);
}

Test(forms, no_mesh)
{
    expect_refused(build_blocks(arena, "2", "0 1; 2"), NULL, "UNEQUAL_DEVICE_SETS");
    expect_refused(build_blocks(arena, "4", "0; 1; 0; 1"), NULL, "SEVERAL_SHARDS");
    expect_refused(build_blocks(arena, "2", NULL), NULL, "DEVICES_UNKNOWN");
    struct sp_sharding unknown = {.kind = SP_SHARDING_UNKNOWN}, replicated = {.kind = SP_SHARDING_REPLICATED};
    expect_refused(&unknown, NULL, "UNKNOWN_LOST");
    expect_refused(&replicated, NULL, "DEVICES_UNKNOWN");
}

Test(forms, kinds)
{
    struct sp_sharding replicated = {.kind = SP_SHARDING_REPLICATED}, *axes = NULL, *blocks = NULL;
    struct sp_sharding unreduced = {.kind = SP_SHARDING_UNREDUCED, .combiner = SP_COMBINE_MIN};
    struct sp_sharding single = {.kind = SP_SHARDING_SINGLE, .device = 4};
    cr_assert_eq(sp_sharding_to_axes(arena, &replicated, &(struct sp_dialect_context){.rank = 2, .device_count = 3},
                                     &axes, &losses, &err),
                 SP_OK);
    cr_expect_eq(axes->mesh->order.count, 3);
    cr_expect(equal(axes, &replicated, 2, NULL));
    cr_assert_eq(sp_sharding_to_axes(arena, &unreduced, &(struct sp_dialect_context){.rank = 2, .device_count = 3},
                                     &axes, &losses, &err),
                 SP_OK);
    cr_expect_str_eq(refs_text(arena, axes->mesh, &axes->partial), "axis_0");
    cr_expect(equal(axes, &unreduced, 2, NULL));
    cr_expect(equal(to_axes(&single, 2, NULL), &single, 2, NULL));
    cr_expect_str_eq(placement_text(arena, to_blocks(&single, 2)), "4");
    cr_assert_eq(sp_sharding_to_blocks(arena, &replicated, 2, 3, &blocks, &losses, &err), SP_OK);
    cr_expect_str_eq(placement_text(arena, blocks), "0 1 2");
    cr_expect_eq(sp_sharding_to_blocks(arena, &unreduced, 2, 3, &blocks, &losses, &err), SP_ERR_UNSUPPORTED);
    cr_expect_str_eq(err.code, "PARTIAL_LOST");
    cr_expect_eq(losses.count, 0);
    struct sp_sharding *open = build_blocks(arena, "2", "0;1");
    open->is_rank_open = true;
    cr_expect_eq(to_blocks(open, 3)->rank, 3);
    cr_expect_eq(to_axes(open, 3, NULL)->rank, 3);
}

Test(forms, losses)
{
    static const char *const expected[] = {"OPEN_DIMS_LOST", "PRIORITIES_LOST", "EXPLICIT_REPLICATION_LOST",
                                           "AXIS_NAMES_LOST", "REPLICA_ORDER_LOST"};
    struct sp_device_order order;
    struct sp_sharding *blocks;
    cr_assert_eq(sp_device_order_list(arena, 4, SHAPE(1, 0, 2, 3), &order, &err), SP_OK);
    const struct sp_mesh *mesh = build_mesh(arena, "x=2 y=2", &order);
    struct sp_sharding *axes = build_axes(arena, mesh, "x |");
    axes->replicated = build_refs(arena, mesh, "y");
    axes->dims[0].is_open = true;
    axes->dims[0].has_priority = true;
    cr_expect_str_eq(placement_text(arena, to_blocks(axes, 2)), "0 1; 2 3");
    cr_assert_eq(losses.count, 5);
    for (uint32_t i = 0; i < 5; i++)
        cr_expect_str_eq(losses.items[i].code, expected[i]);
    axes->replicated.count = 0;
    axes->partial = build_refs(arena, mesh, "y");
    axes->combiner = SP_COMBINE_SUM;
    cr_expect_eq(sp_sharding_to_blocks(arena, axes, 2, 0, &blocks, &losses, &err), SP_ERR_UNSUPPORTED);
    cr_expect_str_eq(err.code, "PARTIAL_LOST");
}

Test(forms, random_round_trips)
{
    struct random random = {3};
    for (uint32_t round = 0; round < 500; round++) {
        struct sp_arena_mark mark = sp_arena_mark(arena);
        const struct sp_sharding *axes = random_axes(arena, &random, 3);
        int64_t shape[3] = {(int64_t)random_below(&random, 9), (int64_t)random_below(&random, 5), 7};
        struct sp_sharding *blocks = to_blocks(axes, 3), *again = to_axes(blocks, 3, NULL);
        cr_assert(equal(axes, blocks, 3, shape), "round %" PRIu32, round);
        cr_assert(equal(axes, blocks, 3, NULL), "round %" PRIu32, round);
        cr_assert(equal(axes, again, 3, NULL), "round %" PRIu32, round);
        cr_assert(equal(blocks, again, 3, shape), "round %" PRIu32, round);
        losses = (struct sp_losses){0};
        sp_arena_rewind(arena, mark);
    }
}

/* ---- composition ---- */

static enum sp_status compose(const struct sp_sharding *a, uint32_t a_rank, const int64_t *a_shape,
                              const struct sp_sharding *b, uint32_t b_rank, const int64_t *b_shape,
                              struct sp_sharding **ret_result)
{
    const struct sp_sharding *inputs[] = {a, b};
    const int64_t *shapes[] = {a_shape, b_shape};
    uint32_t ranks[] = {a_rank, b_rank};
    sp_error_clear(&err);
    return compose_shardings(arena, 2, inputs, ranks, shapes, 0, ret_result, &err);
}

/* ONNX proposal 0007: Add(A[M, 1], B[1, N]) with A on {0,1} and {2,3}, B on {0,2} and {1,3} gives devices 0, 1, 2, 3.
 */
Test(forms, composition_of_the_proposal)
{
    const struct sp_sharding *a = build_blocks(arena, "2 |", "0 1; 2 3"), *b = build_blocks(arena, "| 2", "0 2; 1 3");
    struct sp_sharding *result;
    cr_assert_eq(compose(a, 2, SHAPE(4, 1), b, 2, SHAPE(1, 6), &result), SP_OK, "%s", err.message);
    cr_expect_eq(result->rank, 2);
    cr_expect_eq(sp_sharding_shards(result, 0), 2);
    cr_expect_eq(sp_sharding_shards(result, 1), 2);
    cr_expect_str_eq(placement_text(arena, result), "0; 1; 2; 3");
    cr_expect_eq(sp_sharding_check(result, 2, SHAPE(4, 6), 4, &err), SP_OK, "%s", err.message);
    /* the same on a mesh, and the missing axis of B[N] */
    const struct sp_mesh *mesh = build_mesh(arena, "x=2 y=2", NULL);
    cr_assert_eq(
        compose(build_axes(arena, mesh, "x |"), 2, SHAPE(4, 1), build_axes(arena, mesh, "y"), 1, SHAPE(6), &result),
        SP_OK, "%s", err.message);
    cr_expect_str_eq(placement_text(arena, result), "0; 1; 2; 3");
}

Test(forms, composition)
{
    struct sp_sharding *result;
    const struct sp_sharding *rows = build_blocks(arena, "2 |", "0; 1"), *turned = build_blocks(arena, "2 |", "1; 0");
    const struct sp_sharding *columns = build_blocks(arena, "| 2", "0; 1"), *whole = build_blocks(arena, "|", "0 1 2");
    cr_assert_eq(compose(rows, 2, SHAPE(4, 4), rows, 2, SHAPE(4, 4), &result), SP_OK);
    cr_expect_str_eq(placement_text(arena, result), "0; 1");
    cr_expect_eq(compose(rows, 2, SHAPE(4, 4), turned, 2, SHAPE(4, 4), &result), SP_ERR_MODEL);
    cr_expect_str_eq(err.code, "EMPTY_INTERSECTION");
    cr_expect(strstr(err.message, "inputs 0 and 1") != NULL, "%s", err.message);
    cr_expect_eq(compose(rows, 2, SHAPE(4, 4), columns, 2, SHAPE(4, 4), &result), SP_ERR_MODEL);
    cr_expect_str_eq(err.code, "SPLIT_MISMATCH");
    cr_expect_eq(compose(rows, 2, SHAPE(1, 4), whole, 2, SHAPE(4, 4), &result), SP_ERR_MODEL);
    cr_expect_str_eq(err.code, "SPLIT_MISMATCH");
    cr_expect_eq(compose(rows, 2, SHAPE(4, 4), whole, 2, SHAPE(5, 4), &result), SP_ERR_MODEL);
    cr_expect_str_eq(err.code, "SHAPE_MISMATCH");
    /* a bias on all devices */
    cr_assert_eq(compose(rows, 2, SHAPE(4, 4), build_blocks(arena, "", "0 1 2"), 1, SHAPE(4), &result), SP_ERR_REQUEST);
    cr_assert_eq(compose(rows, 2, SHAPE(4, 4), build_blocks(arena, "1", "0 1 2"), 1, SHAPE(4), &result), SP_OK, "%s",
                 err.message);
    cr_expect_str_eq(placement_text(arena, result), "0; 1");
    /* the same blocks in other words */
    const struct sp_sharding *parts = build_blocks(arena, "2*2,0*1 |", "0; 1");
    cr_assert_eq(compose(rows, 2, SHAPE(4, 4), parts, 2, SHAPE(4, 4), &result), SP_OK, "%s", err.message);
    parts = build_blocks(arena, "2*1,0*2 |", "0; 1");
    cr_expect_eq(compose(rows, 2, SHAPE(4, 4), parts, 2, SHAPE(4, 4), &result), SP_ERR_MODEL);
    cr_expect_eq(compose(rows, 2, SHAPE(4, 4), build_blocks(arena, "2 |", NULL), 2, SHAPE(4, 4), &result),
                 SP_ERR_REQUEST);
    cr_expect_str_eq(err.where, "input 1");
}
