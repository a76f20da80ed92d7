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

TestSuite(dialect_ort, .init = setup, .fini = teardown);

static enum sp_status read_in(const char *text, const struct sp_dialect_context *context,
                              struct sp_sharding **ret_sharding)
{
    sp_error_clear(&err);
    return sp_dialect_read(arena, &(struct sp_dialect_text){SP_DIALECT_ORT, text, strlen(text)}, context, ret_sharding,
                           &losses, &err);
}

static struct sp_sharding *must_read(const char *text)
{
    struct sp_sharding *sharding = NULL;
    cr_assert_eq(read_in(text, NULL, &sharding), SP_OK, "%s: %s", text, err.message);
    return sharding;
}

static enum sp_status write_in(enum sp_dialect dialect, const struct sp_sharding *sharding,
                               const struct sp_dialect_context *context)
{
    sp_buf_clear(&buf);
    sp_error_clear(&err);
    return sp_dialect_write(arena, dialect, sharding, context, &buf, &losses, &err);
}

static const char *written(const struct sp_sharding *sharding, const struct sp_dialect_context *context)
{
    cr_assert_eq(write_in(SP_DIALECT_ORT, sharding, context), SP_OK, "%s", err.message);
    return buf.data;
}

static struct sp_sharding *from_shardy(const char *text)
{
    struct sp_sharding *sharding = NULL;
    sp_error_clear(&err);
    cr_assert_eq(sp_shardy_read(arena, text, strlen(text), NULL, &sharding, &err), SP_OK, "%s: %s", text, err.message);
    return sharding;
}

static struct sp_sharding *from_onnx(const char *text, const struct sp_dialect_context *context)
{
    struct sp_sharding *sharding = NULL;
    sp_error_clear(&err);
    cr_assert_eq(sp_dialect_read(arena, &(struct sp_dialect_text){SP_DIALECT_ONNX, text, strlen(text)}, context,
                                 &sharding, &losses, &err),
                 SP_OK, "%s: %s", text, err.message);
    return sharding;
}

Test(dialect_ort, specs)
{
    static const struct {
        const char *text;
        uint32_t rank;
        int64_t axes[3];
    } cases[] = {
        {"", 0, {0}},
        {"RR", 2, {-1, -1}},
        {"RS[0]", 2, {-1, 0}},
        {"S[1]S[0]", 2, {1, 0}},
        {"S[12]RS[007]", 3, {12, -1, 7}},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct sp_ort_spec spec;
        cr_assert_eq(sp_ort_read_spec(arena, cases[i].text, strlen(cases[i].text), &spec, &err), SP_OK, "%s",
                     err.message);
        cr_assert_eq(spec.rank, cases[i].rank);
        for (uint32_t j = 0; j < spec.rank; j++)
            cr_expect_eq(spec.mesh_axes[j], cases[i].axes[j], "%s", cases[i].text);
    }
}

/* What ONNX Runtime refuses, and what it reads although it means nothing. */
Test(dialect_ort, wrong_specs)
{
    static const struct {
        const char *text, *where;
    } cases[] = {
        {"X", "offset 0"},     {"r", "offset 0"},    {"R S[0]", "offset 1"},   {"S0R", "offset 1"},
        {"S[-1]", "offset 2"}, {"S[a]", "offset 2"}, {"S", "offset 1"},        {"S[0", "offset 3"},
        {"S[", "offset 2"},    {"S[]R", "offset 2"}, {"S[0]S[0]", "offset 4"}, {"S[9223372036854775808]", "offset 2"},
        {"S[0 ]", "offset 3"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct sp_ort_spec spec;
        sp_error_clear(&err);
        cr_expect_eq(sp_ort_read_spec(arena, cases[i].text, strlen(cases[i].text), &spec, &err), SP_ERR_MALFORMED, "%s",
                     cases[i].text);
        cr_expect_str_eq(err.where, cases[i].where, "%s: %s", cases[i].text, err.where);
    }
}

Test(dialect_ort, mesh_strings)
{
    static const struct {
        const char *text;
        int64_t count, items[3];
    } cases[] = {
        {"[0, 1]", 2, {0, 1}}, {"[0 1 2]", 3, {0, 1, 2}}, {"[2]", 1, {2}},
        {"[]", 0, {0}},        {"[0,1,]", 2, {0, 1}},     {"[ 7 ]", 1, {7}},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        int64_t count, *items;
        cr_assert_eq(sp_ort_read_ints(arena, cases[i].text, strlen(cases[i].text), &count, &items, &err), SP_OK,
                     "%s: %s", cases[i].text, err.message);
        cr_assert_eq(count, cases[i].count, "%s", cases[i].text);
        for (int64_t j = 0; j < count; j++)
            cr_expect_eq(items[j], cases[i].items[j], "%s", cases[i].text);
    }
    /* Where ONNX Runtime would stop without a word, or read what is no device. */
    static const char *const wrong[] = {"",     "0,1",   " [0,1]", "[0,x,2]", "[0,,1]", "[0 , 1]",
                                        "[,0]", "[-1]",  "[0]]",   "[0,1.5]", "[+1]",   "[",
                                        "]",    "[0;1]", "[0",     "[1e3]",   "[0-1]",  "[9223372036854775808]"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        int64_t count, *items;
        sp_error_clear(&err);
        cr_expect_eq(sp_ort_read_ints(arena, wrong[i], strlen(wrong[i]), &count, &items, &err), SP_ERR_MALFORMED, "%s",
                     wrong[i]);
        cr_expect_eq(strncmp(err.where, "offset ", 7), 0, "%s", wrong[i]);
    }
}

/* Read and written, these come out as they are. */
Test(dialect_ort, canonical)
{
    static const char *const texts[] = {
        "S[0]R device_mesh_shape=[2] device_mesh_elements=[0,1]",
        "RR device_mesh_shape=[2] device_mesh_elements=[1,0]",
        "S[1]S[0] device_mesh_shape=[2,2] device_mesh_elements=[0,1,2,3]",
        "RS[1]R device_mesh_shape=[2,4] device_mesh_elements=[0,1,2,3,4,5,6,7]",
        "device_mesh_shape=[2] device_mesh_elements=[0,1]",
        "S[0]R device_mesh_shape=[4] device_mesh_elements=[0,1,0,1]",
        "RS[0] device_mesh_shape=[6] device_mesh_elements=[2,1,0,2,1,0]",
        "S[0] device_mesh_shape=[4] device_mesh_elements=[0,1,1,0]",
        "S[0] device_mesh_shape=[3] device_mesh_elements=[0,0,1]",
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        cr_expect_str_eq(written(must_read(texts[i]), NULL), texts[i]);
}

/* The attributes as strings, one per tensor, and as integers, one per operator: both forms are found in files. */
Test(dialect_ort, both_attribute_forms)
{
    static const char *const canonical = "RS[0] device_mesh_shape=[2] device_mesh_elements=[0,1]";
    static const char *const texts[] = {
        "{\"shard_spec\": \"RS[0]\", \"device_mesh_shape\": \"[2]\", \"device_mesh_elements\": \"[0, 1]\"}",
        "{\"spec\": \"RS[0]\", \"device_mesh_shape\": [2], \"device_mesh_elements\": [0, 1]}",
        "  RS[0]\tdevice_mesh_elements=\"[0 1]\" device_mesh_shape=[2]\n",
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        cr_expect_str_eq(written(must_read(texts[i]), NULL), canonical);
}

Test(dialect_ort, wrong_texts)
{
    static const struct {
        const char *text, *where, *message;
    } cases[] = {
        {"S[0] device_mesh_shape=[2]", "", "device_mesh_elements is missing"},
        {"S[0] device_mesh_elements=[2]", "", "device_mesh_shape is missing"},
        {"S[0] device_mesh_shape=[0,x] device_mesh_elements=[2]", "offset 26", "64-bit integer"},
        {"S[0] device_mesh_shape=2", "offset 23", "in brackets"},
        {"S[0] device_mesh_shape=[2]x", "offset 26", "Expected a blank"},
        {"S[0] mesh=[2]", "offset 5", "device_mesh_shape"},
        {" S[0]Q", "offset 5", "Expected 'R'"},
        {"R device_mesh_shape=[1] device_mesh_shape=[1]", "offset 42", "given twice"},
        {"R device_mesh_shape=[] device_mesh_elements=[]", "", "no device"},
        {"R device_mesh_shape=[3] device_mesh_elements=[0,1]", "", "multiplies to 3 devices"},
        {"R device_mesh_shape=[0] device_mesh_elements=[0]", "", "needs 1 or more"},
        {"R device_mesh_shape=[9223372036854775807,2] device_mesh_elements=[0]", "", "more than 2^63"},
        {"S[1] device_mesh_shape=[2] device_mesh_elements=[0,1]", "", "only 1 axes"},
        {"S[0]S[1] device_mesh_shape=[2,2] device_mesh_elements=[0,1,0,1]", "", "mesh of one axis only"},
        {"{\"device_mesh_shape\": [2]}", "/shard_spec", "missing"},
        {"{\"shard_spec\": 1}", "/shard_spec", "string"},
        {"{\"shard_spec\": \"Q\"}", "/shard_spec", "Expected 'R'"},
        {"{\"shard_spec\": \"R\", \"spec\": \"R\"}", "/shard_spec", "same member"},
        {"{\"shard_spec\": \"R\", \"mesh\": 1}", "", "no 'mesh'"},
        {"{\"shard_spec\": \"R\", \"device_mesh_shape\": [-1]}", "/device_mesh_shape/0", "not negative"},
        {"{\"shard_spec\": \"R\", \"device_mesh_shape\": 1}", "/device_mesh_shape", "list of integers"},
        {"{\"shard_spec\": \"R\", \"device_mesh_elements\": \"[x]\"}", "/device_mesh_elements", "64-bit"},
        {"{\"shard_spec\": \"R\"", "offset 18", "begins as JSON"},
        {"RR", "", "does not say its mesh"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct sp_sharding *sharding;
        cr_assert_neq(read_in(cases[i].text, NULL, &sharding), SP_OK, "%s", cases[i].text);
        cr_expect(strstr(err.message, cases[i].message) != NULL, "%s: %s", cases[i].text, err.message);
        cr_expect_str_eq(err.where, cases[i].where, "%s: %s", cases[i].text, err.where);
    }
}

/* sharding_spec.h of ONNX Runtime: [[5,6],[7,8]] as S[1]S[0] on [[0,1],[2,3]]: devices 0 to 3 own 5, 7, 6, 8. */
Test(dialect_ort, documented_example)
{
    static const int64_t shape[] = {2, 2}, values[] = {5, 6, 7, 8}, owned[] = {5, 7, 6, 8};
    struct sp_sharding *sharding = must_read("S[1]S[0] device_mesh_shape=[2,2] device_mesh_elements=[0,1,2,3]");
    for (int64_t device = 0; device < 4; device++) {
        struct sp_held held;
        cr_assert_eq(sp_sharding_held(arena, sharding, 2, shape, device, &held, &err), SP_OK, "%s", err.message);
        cr_assert(held.shard_count == 1 && held.shards[0].count == 1 && held.shards[1].count == 1);
        cr_expect_eq(values[held.shards[0].ranges[0].start * 2 + held.shards[1].ranges[0].start], owned[device]);
    }
}

/* [u]*r on an axis is the axis as r by the rest, the rest over u (facts of ONNX Runtime's suite). */
Test(dialect_ort, repeats_are_simple_shardings)
{
    static const int64_t shape[] = {2, 8};
    struct sp_dialect_context context = {.rank = 2, .shape = shape};
    struct sp_sharding *sharding = must_read("RS[0] device_mesh_shape=[4] device_mesh_elements=[0,1,0,1]");
    cr_assert_eq(sharding->kind, SP_SHARDING_BLOCKS);
    cr_assert_eq(write_in(SP_DIALECT_ONNX, sharding, &context), SP_OK, "%s", err.message);
    static const char *const onnx = "{\"device\":[0,1],\"shardedDim\":[{\"axis\":1,\"simpleSharding\":[{\"dimValue\":2,"
                                    "\"numShards\":1},{\"dimValue\":4,\"numShards\":2}]}]}";
    cr_expect_str_eq(buf.data, onnx);
    struct sp_sharding *again = from_onnx(onnx, &context);
    cr_expect_str_eq(written(again, &context), "RS[0] device_mesh_shape=[4] device_mesh_elements=[0,1,0,1]");
}

/* Pieces of one size are all there is. */
Test(dialect_ort, uneven)
{
    int64_t shape[] = {6};
    struct sp_dialect_context context = {.rank = 1, .shape = shape};
    struct sp_sharding *sharding;
    static const char *const text = "S[0] device_mesh_shape=[4] device_mesh_elements=[0,1,0,1]";
    cr_expect_eq(read_in(text, &context, &sharding), SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "ORT_UNEVEN");
    cr_expect_eq(read_in("S[0] device_mesh_shape=[4] device_mesh_elements=[0,1,2,3]", &context, &sharding),
                 SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "ORT_UNEVEN");
    shape[0] = 8;
    cr_expect_eq(read_in(text, &context, &sharding), SP_OK, "%s", err.message);
    shape[0] = 0;
    cr_expect_eq(read_in(text, &context, &sharding), SP_OK, "%s", err.message);
    shape[0] = 6;
    sharding = from_shardy("#sdy.sharding<mesh<[\"x\"=4]>, [{\"x\"}]>");
    cr_expect_eq(write_in(SP_DIALECT_ORT, sharding, &context), SP_ERR_UNSUPPORTED);
    cr_expect_str_eq(err.code, "ORT_UNEVEN");
    sharding = from_onnx("{\"device\":[0,1,2,3],\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{\"numShards\":4}]}]}",
                         &context);
    cr_expect_eq(write_in(SP_DIALECT_ORT, sharding, &context), SP_ERR_UNSUPPORTED);
    cr_expect_str_eq(err.code, "ORT_UNEVEN");
}

/* A mesh whose axes are used as they are stays; any other list of axes gets a mesh of its own. */
Test(dialect_ort, from_a_mesh)
{
    static const struct {
        const char *shardy, *ort;
    } cases[] = {
        {"#sdy.sharding<mesh<[\"x\"=2, \"y\"=4]>, [{\"y\"}, {}]>",
         "S[1]R device_mesh_shape=[2,4] device_mesh_elements=[0,1,2,3,4,5,6,7]"},
        {"#sdy.sharding<mesh<[\"x\"=2, \"y\"=4]>, [{\"x\", \"y\"}, {}]>",
         "S[0]R device_mesh_shape=[8] device_mesh_elements=[0,1,2,3,4,5,6,7]"},
        {"#sdy.sharding<mesh<[\"x\"=2, \"y\"=2]>, [{\"y\", \"x\"}]>",
         "S[0] device_mesh_shape=[4] device_mesh_elements=[0,2,1,3]"},
        {"#sdy.sharding<mesh<[\"x\"=8]>, [{\"x\":(2)2}, {\"x\":(1)2}]>",
         "S[0]S[1] device_mesh_shape=[2,2,2] device_mesh_elements=[0,1,4,5,2,3,6,7]"},
        {"#sdy.sharding<mesh<[\"x\"=1, \"y\"=1]>, [{\"x\"}, {\"y\"}]>",
         "RR device_mesh_shape=[1] device_mesh_elements=[0]"},
        {"#sdy.sharding<mesh<[\"x\"=2], device_ids=[1,0]>, [{}, {?}], replicated={\"x\"}>",
         "RR device_mesh_shape=[2] device_mesh_elements=[1,0]"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        cr_expect_str_eq(written(from_shardy(cases[i].shardy), NULL), cases[i].ort);
}

Test(dialect_ort, from_device_lists)
{
    static const int64_t shape[] = {8, 4};
    struct sp_dialect_context context = {.rank = 2, .shape = shape};
    static const struct {
        const char *onnx, *ort;
    } cases[] = {
        {"{\"device\":[3]}", "RR device_mesh_shape=[1] device_mesh_elements=[3]"},
        {"{\"device\":[-1],\"indexToDeviceGroupMap\":[{\"key\":-1,\"value\":[2,5]}]}",
         "RR device_mesh_shape=[2] device_mesh_elements=[2,5]"},
        {"{\"device\":[-1,-2],\"indexToDeviceGroupMap\":[{\"key\":-1,\"value\":[0,1]},{\"key\":-2,\"value\":[2,3]}],"
         "\"shardedDim\":[{\"axis\":1,\"simpleSharding\":[{\"numShards\":2}]}]}",
         "RS[0] device_mesh_shape=[2,2] device_mesh_elements=[0,1,2,3]"},
        {"{\"device\":[0,1,2,3],\"shardedDim\":[{\"axis\":1,\"simpleSharding\":[{\"numShards\":2}]},{\"axis\":0,"
         "\"simpleSharding\":[{\"numShards\":2}]}]}",
         "S[0]S[1] device_mesh_shape=[2,2] device_mesh_elements=[0,2,1,3]"},
        {"{\"device\":[0,1,2,3],\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{\"dimValue\":4,\"numShards\":2},{"
         "\"dimValue\":2,\"numShards\":2}]}]}",
         "S[0]R device_mesh_shape=[8] device_mesh_elements=[0,1,0,1,2,3,2,3]"},
        {"{\"device\":[0,1,2,3],\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{\"dimValue\":2,\"numShards\":2},{"
         "\"dimValue\":4,\"numShards\":2}]}]}",
         "S[0]R device_mesh_shape=[4] device_mesh_elements=[0,1,2,3]"},
        {"{\"device\":[1,1],\"shardedDim\":[{\"axis\":1,\"simpleSharding\":[{\"numShards\":2}]}]}",
         "RR device_mesh_shape=[1] device_mesh_elements=[1]"}, /* all pieces on one device are the whole */
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        cr_expect_str_eq(written(from_onnx(cases[i].onnx, &context), &context), cases[i].ort, "%s", cases[i].onnx);
}

/* Errors that say what is missing or why there is no such form. */
Test(dialect_ort, cannot_be_written)
{
    struct sp_dialect_context context = {.rank = 2};
    static const struct {
        const char *onnx, *code;
    } cases[] = {
        {"{}", "DEVICES_UNKNOWN"},
        {"{\"device\":[-1,2],\"indexToDeviceGroupMap\":[{\"key\":-1,\"value\":[0,1]}],\"shardedDim\":[{\"axis\":0,"
         "\"simpleSharding\":[{\"numShards\":2}]}]}",
         "UNEQUAL_DEVICE_SETS"},
        {"{\"device\":[0,1,1,0],\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{\"numShards\":2}]},{\"axis\":1,"
         "\"simpleSharding\":[{\"numShards\":2}]}]}",
         "ORT_REPEATED_DEVICES"},
        {"{\"device\":[0,1],\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{\"numShards\":1},{\"dimValue\":2,"
         "\"numShards\":2}]}]}",
         "EXTENT_UNKNOWN"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct sp_sharding *sharding = from_onnx(cases[i].onnx, &context);
        cr_expect_neq(write_in(SP_DIALECT_ORT, sharding, &context), SP_OK, "%s", cases[i].onnx);
        cr_expect_str_eq(err.code, cases[i].code, "%s: %s", cases[i].onnx, err.message);
    }
    struct sp_sharding *partial = from_shardy("#sdy.sharding<mesh<[\"x\"=2]>, [{}], unreduced={\"x\"}>");
    cr_expect_eq(write_in(SP_DIALECT_ORT, partial, NULL), SP_ERR_UNSUPPORTED);
    cr_expect_str_eq(err.code, "PARTIAL_LOST");
    struct sp_sharding *open = from_onnx("{\"device\":[0,1],\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{"
                                         "\"numShards\":2}]}]}",
                                         NULL);
    cr_expect_eq(write_in(SP_DIALECT_ORT, open, NULL), SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "RANK_UNKNOWN");
    cr_expect_str_eq(written(open, &context), "S[0]R device_mesh_shape=[2] device_mesh_elements=[0,1]");
}

Test(dialect_ort, context)
{
    struct sp_mesh *mesh;
    struct sp_sharding *sharding = NULL;
    struct sp_dialect_context context = {.rank = 2, .device_count = 2};
    cr_assert_eq(read_in("S[0]R", &context, &sharding), SP_OK, "%s", err.message);
    cr_expect_str_eq(written(sharding, NULL), "S[0]R device_mesh_shape=[2] device_mesh_elements=[0,1]");
    cr_expect_eq(read_in("S[1]R", &context, &sharding), SP_ERR_MALFORMED);
    cr_expect_eq(read_in("S[0]", &context, &sharding), SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "RANK_MISMATCH");
    cr_expect_eq(read_in("S[0]R device_mesh_shape=[2] device_mesh_elements=[0,2]", &context, &sharding),
                 SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "DEVICE_OUT_OF_RANGE");
    cr_assert_eq(sp_shardy_read_mesh(arena, "<[\"x\"=2, \"y\"=2]>", 16, &mesh, &err), SP_OK, "%s", err.message);
    context = (struct sp_dialect_context){.rank = -1, .mesh = mesh};
    cr_assert_eq(read_in("RS[1]", &context, &sharding), SP_OK, "%s", err.message);
    cr_expect_eq(sharding->mesh, mesh);
    /* What is replicated everywhere takes the mesh, or the number of devices, of the context. */
    struct sp_sharding replicated = {.kind = SP_SHARDING_REPLICATED};
    cr_expect_eq(write_in(SP_DIALECT_ORT, &replicated, NULL), SP_ERR_REQUEST);
    context.rank = 1;
    cr_expect_str_eq(written(&replicated, &context), "R device_mesh_shape=[2,2] device_mesh_elements=[0,1,2,3]");
    context = (struct sp_dialect_context){.rank = 1, .device_count = 3};
    cr_expect_str_eq(written(&replicated, &context), "R device_mesh_shape=[3] device_mesh_elements=[0,1,2]");
}

/* A replicated tensor on a mesh that repeats devices is on each of them once. */
Test(dialect_ort, replicated_repeats)
{
    cr_expect_str_eq(written(must_read("RR device_mesh_shape=[4] device_mesh_elements=[1,0,1,0]"), NULL),
                     "RR device_mesh_shape=[2] device_mesh_elements=[1,0]");
    /* One device holds the whole, in however many pieces. */
    cr_expect_str_eq(written(must_read("S[0] device_mesh_shape=[1,1] device_mesh_elements=[5]"), NULL),
                     "R device_mesh_shape=[1] device_mesh_elements=[5]");
    cr_expect_str_eq(written(must_read("S[0] device_mesh_shape=[2] device_mesh_elements=[3,3]"), NULL),
                     "R device_mesh_shape=[1] device_mesh_elements=[3]");
}
