#include <criterion/criterion.h>

#include "sharding/dialect.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

static struct sp_arena *arena;
static struct sp_error err;
static struct sp_buf buf;
static struct sp_losses losses;

static void setup(void)
{
    arena = sp_arena_create(NULL);
    sp_error_clear(&err);
    sp_buf_init(&buf, 1 << 20);
    losses = (struct sp_losses){0};
}

static void teardown(void)
{
    sp_buf_release(&buf);
    sp_arena_destroy(arena);
}

TestSuite(dialect, .init = setup, .fini = teardown);

static struct sp_sharding *must_read(enum sp_dialect dialect, const char *text,
                                     const struct sp_dialect_context *context)
{
    struct sp_sharding *sharding = NULL;
    sp_error_clear(&err);
    cr_assert_eq(sp_dialect_read(arena, &(struct sp_dialect_text){dialect, text, strlen(text)}, context, &sharding,
                                 &losses, &err),
                 SP_OK, "%s: %s", text, err.message);
    return sharding;
}

static const char *written(enum sp_dialect dialect, const struct sp_sharding *sharding,
                           const struct sp_dialect_context *context)
{
    sp_buf_clear(&buf);
    sp_error_clear(&err);
    cr_assert_eq(sp_dialect_write(arena, dialect, sharding, context, &buf, &losses, &err), SP_OK, "%s: %s",
                 sp_dialect_name(dialect), err.message);
    const char *text = sp_arena_string(arena, buf.data, buf.size);
    cr_assert_not_null(text);
    return text;
}

Test(dialect, names)
{
    static const char *const names[] = {"onnx", "ort", "op-sharding", "hlo", "shardy"};
    enum sp_dialect dialect;
    cr_assert_eq(COUNT_OF(names), SP_DIALECT_COUNT);
    for (int i = 0; i < SP_DIALECT_COUNT; i++) {
        cr_assert(sp_dialect_parse(names[i], &dialect));
        cr_expect_eq((int)dialect, i);
        cr_expect_str_eq(sp_dialect_name(dialect), names[i]);
    }
    cr_expect(!sp_dialect_parse("ORT", &dialect));
}

/* The attribute of StableHLO's proposal, first of two axes in two: each notation says it, and each comes back from each
   other to the same bytes. */
Test(dialect, every_notation_of_one_sharding)
{
    static const char *const texts[SP_DIALECT_COUNT] = {
        [SP_DIALECT_ONNX] = "{\"device\":[0,1],\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{\"numShards\":2}]}]}",
        [SP_DIALECT_ORT] = "S[0]R device_mesh_shape=[2] device_mesh_elements=[0,1]",
        [SP_DIALECT_OP_SHARDING] = "\"\\08\\03\\1A\\02\\02\\01\\22\\02\\00\\01\"",
        [SP_DIALECT_HLO] = "{devices=[2,1]0,1}",
        [SP_DIALECT_SHARDY] = "sdy.mesh @mesh = <[\"axis_0\"=2]>\n#sdy.sharding<@mesh, [{\"axis_0\"}, {}]>",
    };
    struct sp_dialect_context context = {.rank = 2};
    for (int from = 0; from < SP_DIALECT_COUNT; from++) {
        struct sp_sharding *sharding = must_read((enum sp_dialect)from, texts[from], &context);
        for (int to = 0; to < SP_DIALECT_COUNT; to++)
            cr_expect_str_eq(written((enum sp_dialect)to, sharding, &context), texts[to]);
    }
    cr_expect_eq(losses.count, 0);
}

Test(dialect, one_device)
{
    static const char *const texts[SP_DIALECT_COUNT] = {
        [SP_DIALECT_ONNX] = "{\"device\":[4]}",
        [SP_DIALECT_ORT] = "RR device_mesh_shape=[1] device_mesh_elements=[4]",
        [SP_DIALECT_OP_SHARDING] = "\"\\08\\01\\22\\01\\04\"",
        [SP_DIALECT_HLO] = "{maximal device=4}",
        [SP_DIALECT_SHARDY] = "sdy.mesh @maximal_mesh_4 = <[], device_ids=[4]>\n#sdy.sharding<@maximal_mesh_4, []>",
    };
    struct sp_dialect_context context = {.rank = 2};
    for (int from = 0; from < SP_DIALECT_COUNT; from++) {
        struct sp_sharding *sharding = must_read((enum sp_dialect)from, texts[from], &context);
        for (int to = 0; to < SP_DIALECT_COUNT; to++)
            cr_expect_str_eq(written((enum sp_dialect)to, sharding, &context), texts[to], "from %s: %s",
                             sp_dialect_name((enum sp_dialect)from), buf.data);
    }
}

/* What is the same everywhere takes the mesh or the number of devices of the context. */
Test(dialect, kinds_without_devices)
{
    struct sp_dialect_context context = {.rank = 2, .device_count = 2};
    struct sp_sharding *replicated = must_read(SP_DIALECT_HLO, "{replicated}", &context);
    cr_expect_str_eq(written(SP_DIALECT_SHARDY, replicated, &context),
                     "sdy.mesh @mesh = <[\"axis_0\"=2]>\n#sdy.sharding<@mesh, [{}, {}]>");
    cr_expect_str_eq(written(SP_DIALECT_ORT, replicated, &context),
                     "RR device_mesh_shape=[2] device_mesh_elements=[0,1]");
    cr_expect_str_eq(written(SP_DIALECT_ONNX, replicated, &context),
                     "{\"device\":[-1],\"indexToDeviceGroupMap\":[{\"key\":-1,\"value\":[0,1]}]}");
    struct sp_sharding *unreduced = must_read(SP_DIALECT_HLO, "{unreduced}", &context);
    cr_expect_str_eq(written(SP_DIALECT_SHARDY, unreduced, &context),
                     "sdy.mesh @mesh = <[\"axis_0\"=2]>\n#sdy.sharding<@mesh, [{}, {}], unreduced={\"axis_0\"}>");
    struct sp_mesh *mesh = NULL;
    cr_assert_eq(sp_shardy_read_mesh(arena, "<[\"x\"=2, \"y\"=2]>", 16, &mesh, &err), SP_OK, "%s", err.message);
    context = (struct sp_dialect_context){.rank = 1, .mesh = mesh};
    unreduced->combiner = SP_COMBINE_MAX;
    cr_expect_str_eq(written(SP_DIALECT_SHARDY, unreduced, &context),
                     "sdy.mesh @mesh = <[\"x\"=2, \"y\"=2]>\n#sdy.sharding<@mesh, [{}], unreduced=max{\"x\", \"y\"}>");
    context = (struct sp_dialect_context){.rank = -1};
    sp_buf_clear(&buf);
    cr_expect_eq(sp_dialect_write(arena, SP_DIALECT_SHARDY, replicated, &context, &buf, NULL, &err), SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "RANK_UNKNOWN");
}

Test(dialect, tuples)
{
    struct sp_sharding *tuple = must_read(SP_DIALECT_HLO, "{{devices=[2,1]0,1}, {maximal device=3}}", NULL);
    cr_expect_str_eq(written(SP_DIALECT_SHARDY, tuple, NULL),
                     "#sdy.sharding_per_value<[<mesh<[\"axis_0\"=2]>, [{\"axis_0\"}, {}]>, <mesh<[], device_ids=[3]>, "
                     "[]>]>");
    struct sp_sharding *again = must_read(SP_DIALECT_SHARDY, buf.data, NULL);
    cr_expect_str_eq(written(SP_DIALECT_HLO, again, NULL), "{{devices=[2,1]0,1}, {maximal device=3}}");
    sp_buf_clear(&buf);
    cr_expect_eq(sp_dialect_write(arena, SP_DIALECT_ORT, tuple, NULL, &buf, NULL, &err), SP_ERR_UNSUPPORTED);
    cr_expect_str_eq(err.code, "TUPLE_SHARDING");
}

/* The context is checked before the text: what it says of the tensor must be possible. */
Test(dialect, context)
{
    struct sp_sharding *sharding = NULL;
    struct sp_dialect_context context = {.rank = SP_MAX_RANK + 1};
    cr_expect_eq(sp_dialect_read(arena, &(struct sp_dialect_text){SP_DIALECT_HLO, "{replicated}", 12}, &context,
                                 &sharding, NULL, &err),
                 SP_ERR_LIMIT);
    context = (struct sp_dialect_context){.rank = 1, .shape = (int64_t[]){-2}};
    sp_error_clear(&err);
    cr_expect_eq(sp_dialect_read(arena, &(struct sp_dialect_text){SP_DIALECT_HLO, "{replicated}", 12}, &context,
                                 &sharding, NULL, &err),
                 SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "BAD_EXTENT");
    context = (struct sp_dialect_context){.rank = 1, .device_count = 2};
    sp_error_clear(&err);
    cr_expect_eq(sp_dialect_read(arena, &(struct sp_dialect_text){SP_DIALECT_HLO, "{maximal device=2}", 18}, &context,
                                 &sharding, NULL, &err),
                 SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "DEVICE_OUT_OF_RANGE");
    sp_error_clear(&err);
    cr_expect_eq(sp_dialect_read(arena, &(struct sp_dialect_text){SP_DIALECT_HLO, "{devices=[2,1]0,1}", 18}, &context,
                                 &sharding, NULL, &err),
                 SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "RANK_MISMATCH");
}
