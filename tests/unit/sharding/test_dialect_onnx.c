#include <criterion/criterion.h>

#include "sharding/dialect.h"
#include "spec_bytes.h"

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

TestSuite(dialect_onnx, .init = setup, .fini = teardown);

static enum sp_status read_json(const char *text, struct sp_sharding_spec *ret_spec)
{
    sp_error_clear(&err);
    return sp_onnx_spec_read_json(arena, text, strlen(text), ret_spec, &err);
}

static enum sp_status read_in(const char *text, const struct sp_dialect_context *context,
                              struct sp_sharding **ret_sharding)
{
    struct sp_sharding_spec spec = {0};
    losses = (struct sp_losses){0};
    cr_assert_eq(read_json(text, &spec), SP_OK, "%s: %s", text, err.message);
    return sp_onnx_spec_to_sharding(arena, &spec, context, ret_sharding, &losses, &err);
}

static struct sp_sharding *must_read(const char *text)
{
    struct sp_sharding *sharding = NULL;
    cr_assert_eq(read_in(text, NULL, &sharding), SP_OK, "%s: %s", text, err.message);
    return sharding;
}

static const char *json_of(const struct sp_sharding_spec *spec)
{
    struct sp_json json;
    sp_buf_clear(&buf);
    sp_json_init_buf(&json, false, &buf);
    sp_onnx_spec_write_json(spec, &json);
    cr_assert_eq(sp_json_finish(&json, &err), SP_OK);
    return buf.data;
}

static const char *written(const struct sp_sharding *sharding, const struct sp_dialect_context *context)
{
    struct sp_sharding_spec spec;
    sp_error_clear(&err);
    cr_assert_eq(sp_onnx_spec_from_sharding(arena, sharding, context, &spec, &losses, &err), SP_OK, "%s", err.message);
    return json_of(&spec);
}

static bool has_loss(const char *code)
{
    for (uint32_t i = 0; i < losses.count; i++) {
        if (strcmp(losses.items[i].code, code) == 0)
            return true;
    }
    return false;
}

/* What device d holds of a tensor of one axis, as "0 1 4 5". */
static const char *held_text(const struct sp_sharding *sharding, uint32_t rank, const int64_t *shape, int64_t device,
                             char *text, size_t size)
{
    struct sp_held held;
    size_t used = 0;
    text[0] = '\0';
    sp_error_clear(&err);
    cr_assert_eq(sp_sharding_held(arena, sharding, rank, shape, device, &held, &err), SP_OK, "%s", err.message);
    for (uint32_t i = 0; i < held.shard_count; i++) {
        for (uint32_t axis = 0; axis < rank; axis++) {
            const struct sp_axis_ranges *ranges = &held.shards[i * rank + axis];
            for (uint32_t j = 0; j < ranges->count; j++)
                used += (size_t)snprintf(text + used, size - used, "%s%lld-%lld",
                                         j > 0      ? ","
                                         : axis > 0 ? " x "
                                                    : "",
                                         (long long)ranges->ranges[j].start, (long long)ranges->ranges[j].limit);
        }
        used += (size_t)snprintf(text + used, size - used, ";");
    }
    return text;
}

#define EXPECT_HELD(sharding, rank, shape, device, expected)                                                           \
    do {                                                                                                               \
        char held_buffer[512];                                                                                         \
        cr_expect_str_eq(held_text((sharding), (rank), (shape), (device), held_buffer, sizeof held_buffer),            \
                         (expected));                                                                                  \
    } while (0)

/* Both spellings of the protobuf JSON mapping, 64-bit integers as strings, null as absent. */
Test(dialect_onnx, json_variants)
{
    static const char *const canonical =
        "{\"tensorName\":\"X\",\"device\":[-1,3],\"indexToDeviceGroupMap\":[{\"key\":-1,\"value\":[0,1]}],"
        "\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{\"dimValue\":4,\"numShards\":2},{\"dimParam\":\"N\","
        "\"numShards\":1}]}]}";
    static const char *const texts[] = {
        "{\"tensor_name\": \"X\", \"device\": [\"-1\", \"3\"], \"index_to_device_group_map\": [{\"key\": \"-1\", "
        "\"value\": [0, \"1\"]}], \"sharded_dim\": [{\"axis\": \"0\", \"simple_sharding\": [{\"dim_value\": \"4\", "
        "\"num_shards\": 2.0}, {\"dim_param\": \"N\", \"dim_value\": null, \"num_shards\": 1}]}]}",
        "{\"shardedDim\": [{\"simpleSharding\": [{\"numShards\": 2, \"dimValue\": 4}, {\"dimParam\": \"N\", "
        "\"numShards\": 1}], \"axis\": 0}], \"indexToDeviceGroupMap\": {\"-1\": [0, 1]}, \"device\": [-1, 3], "
        "\"tensorName\": \"X\"}",
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct sp_sharding_spec spec;
        cr_assert_eq(read_json(texts[i], &spec), SP_OK, "%s", err.message);
        cr_expect_str_eq(json_of(&spec), canonical);
    }
    struct sp_sharding_spec spec;
    cr_assert_eq(read_json("{}", &spec), SP_OK);
    cr_expect_str_eq(json_of(&spec), "{\"device\":[]}");
}

Test(dialect_onnx, wrong_json)
{
    static const struct {
        const char *text, *where, *message;
    } cases[] = {
        {"", "offset", "not JSON"},
        {"{\"device\": [0], \"device\": [1]}", "offset", "duplicate"},
        {"{\"device\": [0]} {}", "offset", "not JSON"},
        {"[]", "", "must be a JSON object"},
        {"{\"device\": 0}", "/device", "list of devices"},
        {"{\"device\": [0, true]}", "/device/1", "64-bit integer"},
        {"{\"device\": [0.5]}", "/device/0", "64-bit integer"},
        {"{\"device\": [\" 0\"]}", "/device/0", "64-bit integer"},
        {"{\"device\": [\"00\"]}", "/device/0", "64-bit integer"},
        {"{\"device\": [\"9223372036854775808\"]}", "/device/0", "64-bit integer"},
        {"{\"device\": [null]}", "/device/0", "64-bit integer"},
        {"{\"devices\": [0]}", "/devices", "no member 'devices'"},
        {"{\"a/b~c\": 1}", "/a~1b~0c", "no member"},
        {"{\"tensorName\": 1}", "/tensorName", "string"},
        {"{\"tensor_name\": \"a\", \"tensorName\": \"a\"}", "/tensorName", "same member"},
        {"{\"indexToDeviceGroupMap\": [{\"value\": [0]}]}", "/indexToDeviceGroupMap/0", "needs its 'key'"},
        {"{\"index_to_device_group_map\": {\"x\": [0]}}", "/index_to_device_group_map/x", "64-bit integer"},
        {"{\"indexToDeviceGroupMap\": 1}", "/indexToDeviceGroupMap", "list of groups"},
        {"{\"shardedDim\": {}}", "/shardedDim", "list of sharded dims"},
        {"{\"sharded_dim\": [{\"simple_sharding\": 3}]}", "/sharded_dim/0/simple_sharding", "list of simple"},
        {"{\"shardedDim\": [{\"simpleSharding\": [{\"numShards\": \"x\"}]}]}",
         "/shardedDim/0/simpleSharding/0/numShards", "64-bit integer"},
        {"{\"shardedDim\": [{\"simpleSharding\": [{\"dimValue\": 1, \"dimParam\": \"N\"}]}]}",
         "/shardedDim/0/simpleSharding/0", "not both"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct sp_sharding_spec spec;
        cr_assert_eq(read_json(cases[i].text, &spec), SP_ERR_MALFORMED, "%s", cases[i].text);
        cr_expect(strstr(err.message, cases[i].message) != NULL, "%s: %s", cases[i].text, err.message);
        cr_expect(strcmp(cases[i].where, "offset") == 0 ? strncmp(err.where, "offset ", 7) == 0
                                                        : strcmp(err.where, cases[i].where) == 0,
                  "%s: %s", cases[i].text, err.where);
    }
}

/* Proposal 0006, a 2 x 2 tensor: split on axis 0, on axis 1, on both; replicated; split and replicated. */
Test(dialect_onnx, proposal_0006)
{
    static const int64_t shape[] = {2, 2};
    struct sp_sharding *sharding =
        must_read("{\"device\":[0,1],\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{\"numShards\":2}]}]}");
    struct sp_dialect_context context = {.rank = 2, .shape = shape};
    EXPECT_HELD(sharding, 2, shape, 0, "0-1 x 0-2;");
    EXPECT_HELD(sharding, 2, shape, 1, "1-2 x 0-2;");
    cr_expect_str_eq(
        written(sharding, &context),
        "{\"device\":[0,1],\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{\"dimValue\":2,\"numShards\":2}]}]}");
    sharding = must_read("{\"device\":[0,1],\"shardedDim\":[{\"axis\":1,\"simpleSharding\":[{\"numShards\":2}]}]}");
    EXPECT_HELD(sharding, 2, shape, 0, "0-2 x 0-1;");
    EXPECT_HELD(sharding, 2, shape, 1, "0-2 x 1-2;");
    sharding = must_read("{\"device\":[0,1,2,3],\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{\"numShards\":2}]},"
                         "{\"axis\":1,\"simpleSharding\":[{\"numShards\":2}]}]}");
    EXPECT_HELD(sharding, 2, shape, 0, "0-1 x 0-1;");
    EXPECT_HELD(sharding, 2, shape, 1, "0-1 x 1-2;");
    EXPECT_HELD(sharding, 2, shape, 2, "1-2 x 0-1;");
    EXPECT_HELD(sharding, 2, shape, 3, "1-2 x 1-2;");
    sharding = must_read("{\"device\":[-1],\"indexToDeviceGroupMap\":[{\"key\":-1,\"value\":[0,1]}]}");
    EXPECT_HELD(sharding, 2, shape, 0, "0-2 x 0-2;");
    EXPECT_HELD(sharding, 2, shape, 1, "0-2 x 0-2;");
    EXPECT_HELD(sharding, 2, shape, 2, "");
    cr_expect_str_eq(written(sharding, NULL),
                     "{\"device\":[-1],\"indexToDeviceGroupMap\":[{\"key\":-1,\"value\":[0,1]}]}");
    sharding = must_read("{\"device\":[-1,-2],\"indexToDeviceGroupMap\":[{\"key\":-1,\"value\":[0,1]},{\"key\":-2,"
                         "\"value\":[2,3]}],\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{\"numShards\":2}]}]}");
    EXPECT_HELD(sharding, 2, shape, 1, "0-1 x 0-2;");
    EXPECT_HELD(sharding, 2, shape, 3,
                "1-2 x 0-2;"); /* the proposal prints [[2,3]]; it means the second row, [[3,4]] */
    cr_expect_eq(losses.count, 0);
}

/* The axes are loops in the order of the list: with axis 1 outermost, devices 1 and 2 change places. */
Test(dialect_onnx, list_order_is_loop_order)
{
    static const int64_t shape[] = {2, 6};
    struct sp_sharding *sharding =
        must_read("{\"device\":[0,1,2,3,4,5],\"shardedDim\":[{\"axis\":1,\"simpleSharding\":[{\"numShards\":3}]},"
                  "{\"axis\":0,\"simpleSharding\":[{\"numShards\":2}]}]}");
    EXPECT_HELD(sharding, 2, shape, 1, "1-2 x 0-2;");
    EXPECT_HELD(sharding, 2, shape, 2, "0-1 x 2-4;");
    cr_expect_str_eq(written(sharding, NULL),
                     "{\"device\":[0,2,4,1,3,5],\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{\"numShards\":2}]},"
                     "{\"axis\":1,\"simpleSharding\":[{\"numShards\":3}]}]}");
}

/* 8 = 2 * 4, the inner factor in 2: device 0 holds 0, 1, 4, 5. */
Test(dialect_onnx, several_simple_shardings)
{
    static const int64_t shape[] = {8};
    struct sp_sharding *sharding =
        must_read("{\"device\":[0,1],\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{\"dimValue\":2,\"numShards\":1},"
                  "{\"dimParam\":\"N\",\"numShards\":2}]}]}");
    struct sp_dialect_context context = {.rank = 1, .shape = shape};
    EXPECT_HELD(sharding, 1, shape, 0, "0-2,4-6;");
    EXPECT_HELD(sharding, 1, shape, 1, "2-4,6-8;");
    cr_expect_str_eq(
        written(sharding, &context),
        "{\"device\":[0,1],\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{\"dimValue\":2,\"numShards\":1},"
        "{\"dimValue\":4,\"numShards\":2}]}]}");
    cr_expect_str_eq(
        written(sharding, NULL),
        "{\"device\":[0,1],\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{\"dimValue\":2,\"numShards\":1},"
        "{\"dimParam\":\"N\",\"numShards\":2}]}]}");
}

Test(dialect_onnx, group_keys)
{
    /* A key stands for its group whatever its sign; a member that is listed twice is worth a warning. */
    struct sp_sharding *sharding = must_read(
        "{\"device\":[5,2],\"indexToDeviceGroupMap\":[{\"key\":5,\"value\":[1,0,1]}],\"shardedDim\":[{\"axis\":0,"
        "\"simpleSharding\":[{\"numShards\":2}]}]}");
    static const int64_t shape[] = {4};
    EXPECT_HELD(sharding, 1, shape, 0, "0-2;");
    EXPECT_HELD(sharding, 1, shape, 1, "0-2;");
    EXPECT_HELD(sharding, 1, shape, 2, "2-4;");
    EXPECT_HELD(sharding, 1, shape, 5, "");
    cr_expect(has_loss("GROUP_MEMBER_REPEATED"));
    cr_expect_str_eq(written(sharding, NULL),
                     "{\"device\":[-1,2],\"indexToDeviceGroupMap\":[{\"key\":-1,\"value\":[0,1]}],\"shardedDim\":[{"
                     "\"axis\":0,\"simpleSharding\":[{\"numShards\":2}]}]}");
    /* Equal sets of devices share a key. */
    sharding = must_read("{\"device\":[7,8,9,7],\"indexToDeviceGroupMap\":{\"7\":[0,1],\"8\":[2,3],\"9\":[3,2]},"
                         "\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{\"numShards\":4}]}]}");
    cr_expect(has_loss("DEVICE_HOLDS_SEVERAL_SHARDS"));
    cr_expect_str_eq(written(sharding, NULL),
                     "{\"device\":[-1,-2,-2,-1],\"indexToDeviceGroupMap\":[{\"key\":-1,\"value\":[0,1]},{\"key\":-2,"
                     "\"value\":[2,3]}],\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{\"numShards\":4}]}]}");
}

Test(dialect_onnx, one_device_and_open_placement)
{
    struct sp_sharding *sharding = must_read("{\"device\":[3]}");
    cr_assert_eq(sharding->kind, SP_SHARDING_SINGLE);
    cr_expect_eq(sharding->device, 3);
    cr_expect_str_eq(written(sharding, NULL), "{\"device\":[3]}");
    sharding = must_read("{\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{\"numShards\":2}]}]}");
    cr_assert_eq(sharding->kind, SP_SHARDING_BLOCKS);
    cr_expect_null(sharding->first);
    cr_expect(has_loss("PLACEMENT_OPEN"));
    cr_expect_str_eq(written(sharding, NULL),
                     "{\"device\":[],\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{\"numShards\":2}]}]}");
    sharding = must_read("{\"device\":[0,0],\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{\"numShards\":2}]}]}");
    cr_expect(has_loss("DEVICE_HOLDS_SEVERAL_SHARDS"));
    EXPECT_HELD(sharding, 1, ((int64_t[]){4}), 0, "0-2;2-4;");
    /* Without sharded dims the tensor is whole on everything that is listed. */
    sharding = must_read("{\"device\":[2,0,-1],\"indexToDeviceGroupMap\":[{\"key\":-1,\"value\":[0,1]}]}");
    cr_expect_str_eq(written(sharding, NULL),
                     "{\"device\":[-1],\"indexToDeviceGroupMap\":[{\"key\":-1,\"value\":[0,1,2]}]}");
}

Test(dialect_onnx, against_the_tensor)
{
    static const int64_t shape[] = {4, 6};
    struct sp_dialect_context context = {.rank = 2, .shape = shape, .device_count = 2};
    struct sp_sharding *sharding;
    cr_assert_eq(read_in("{\"device\":[0,1],\"shardedDim\":[{\"axis\":-1,\"simpleSharding\":[{\"dimValue\":6,"
                         "\"numShards\":2}]}]}",
                         &context, &sharding),
                 SP_OK, "%s", err.message);
    cr_expect(sharding->rank == 2 && !sharding->is_rank_open);
    EXPECT_HELD(sharding, 2, shape, 1, "0-4 x 3-6;");
    static const struct {
        const char *text, *code;
    } cases[] = {
        {"{\"device\":[0,1],\"shardedDim\":[{\"axis\":2,\"simpleSharding\":[{\"numShards\":2}]}]}",
         "AXIS_OUT_OF_RANGE"},
        {"{\"device\":[0,1],\"shardedDim\":[{\"axis\":-3,\"simpleSharding\":[{\"numShards\":2}]}]}",
         "AXIS_OUT_OF_RANGE"},
        {"{\"device\":[0,7],\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{\"numShards\":2}]}]}",
         "DEVICE_OUT_OF_RANGE"},
        {"{\"device\":[0,1],\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{\"dimValue\":6,\"numShards\":2}]}]}",
         "PARTS_MISMATCH"},
        {"{\"device\":[0,1],\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{\"dimValue\":2,\"numShards\":2},{"
         "\"dimValue\":3,\"numShards\":1}]}]}",
         "PARTS_MISMATCH"},
        {"{\"device\":[0,1],\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{\"dimValue\":3,\"numShards\":1},{"
         "\"numShards\":2}]}]}",
         "PARTS_MISMATCH"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        cr_assert_eq(read_in(cases[i].text, &context, &sharding), SP_ERR_REQUEST, "%s", cases[i].text);
        cr_expect_str_eq(err.code, cases[i].code, "%s: %s", cases[i].text, err.message);
    }
    cr_assert_eq(read_in("{\"device\":[0],\"shardedDim\":[{\"axis\":-1,\"simpleSharding\":[{\"numShards\":1}]}]}", NULL,
                         &sharding),
                 SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "RANK_UNKNOWN");
}

/* What no tensor makes right. */
Test(dialect_onnx, wrong_specs)
{
#define TWO "\"simpleSharding\":[{\"numShards\":2}]"
    static const struct {
        const char *text, *code, *where;
    } cases[] = {
        {"{\"device\":[0,1,2],\"shardedDim\":[{\"axis\":0," TWO "}]}", "DEVICE_COUNT", "/device"},
        {"{\"device\":[0],\"shardedDim\":[{\"axis\":0," TWO "}]}", "DEVICE_COUNT", "/device"},
        {"{\"device\":[0,1,2,3],\"shardedDim\":[{\"axis\":0," TWO "},{\"axis\":0," TWO "}]}", "AXIS_TWICE",
         "/shardedDim/1"},
        {"{\"device\":[0],\"shardedDim\":[{\"axis\":0}]}", "SHARDING_MISSING", "/shardedDim/0/simpleSharding"},
        {"{\"device\":[0],\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{}]}]}", "SHARDS_MISSING",
         "/shardedDim/0/simpleSharding/0"},
        {"{\"device\":[0],\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{\"numShards\":0}]}]}", "BAD_SHARDS",
         "/shardedDim/0/simpleSharding/0"},
        {"{\"device\":[0],\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{\"numShards\":-2}]}]}", "BAD_SHARDS",
         "/shardedDim/0/simpleSharding/0"},
        {"{\"device\":[0],\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{\"dimValue\":-1,\"numShards\":1}]}]}",
         "BAD_EXTENT", "/shardedDim/0/simpleSharding/0"},
        {"{\"device\":[0],\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{\"numShards\":1},{\"numShards\":1}]}]}",
         "OPEN_PARTS", "/shardedDim/0/simpleSharding"},
        {"{\"device\":[-1]}", "GROUP_UNKNOWN", "/device/0"},
        {"{\"device\":[-1],\"indexToDeviceGroupMap\":[{\"key\":-1}]}", "GROUP_EMPTY", "/indexToDeviceGroupMap"},
        {"{\"device\":[0],\"indexToDeviceGroupMap\":[{\"key\":-1,\"value\":[-2]},{\"key\":-2,\"value\":[0]}]}",
         "GROUP_NESTED", "/indexToDeviceGroupMap"},
        {"{\"device\":[0],\"indexToDeviceGroupMap\":[{\"key\":-1,\"value\":[-5]}]}", "NEGATIVE_DEVICE",
         "/indexToDeviceGroupMap"},
        {"{\"device\":[0],\"indexToDeviceGroupMap\":[{\"key\":-1,\"value\":[0]},{\"key\":-1,\"value\":[1]}]}",
         "GROUP_KEY_TWICE", "/indexToDeviceGroupMap"},
        {"{\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{\"numShards\":4611686018427387904}]},{\"axis\":1," TWO
         "}]}",
         "TOO_MANY_SHARDS", "/shardedDim/1"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct sp_sharding *sharding;
        cr_assert_eq(read_in(cases[i].text, NULL, &sharding), SP_ERR_MALFORMED, "%s", cases[i].text);
        cr_expect_str_eq(err.code, cases[i].code, "%s: %s", cases[i].text, err.message);
        cr_expect_str_eq(err.where, cases[i].where, "%s: %s", cases[i].text, err.where);
    }
}

/* A tensor without elements: dim_value 0 is its extent, not "what is left". */
Test(dialect_onnx, empty_axis)
{
    static const int64_t shape[] = {0};
    struct sp_dialect_context context = {.rank = 1, .shape = shape};
    struct sp_sharding *sharding;
    static const char *const text = "{\"device\":[0,1],\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{\"dimValue\":0,"
                                    "\"numShards\":2}]}]}";
    cr_assert_eq(read_in(text, &context, &sharding), SP_OK, "%s", err.message);
    cr_expect_str_eq(written(sharding, &context), text);
}

static struct sp_sharding *axes_of(const char *text)
{
    struct sp_sharding *sharding = NULL;
    sp_error_clear(&err);
    cr_assert_eq(sp_shardy_read(arena, text, strlen(text), NULL, &sharding, &err), SP_OK, "%s", err.message);
    return sharding;
}

Test(dialect_onnx, from_a_mesh)
{
    struct sp_dialect_context context = {.rank = -1, .tensor_name = "X"};
    losses = (struct sp_losses){0};
    cr_expect_str_eq(
        written(axes_of("#sdy.sharding<mesh<[\"x\"=2, \"y\"=2]>, [{}, {\"y\", ?}]>"), &context),
        "{\"tensorName\":\"X\",\"device\":[-1,-2],\"indexToDeviceGroupMap\":[{\"key\":-1,\"value\":[0,2]},{\"key\":-2,"
        "\"value\":[1,3]}],\"shardedDim\":[{\"axis\":1,\"simpleSharding\":[{\"numShards\":2}]}]}");
    cr_expect(has_loss("OPEN_DIMS_LOST"));
    cr_expect(has_loss("AXIS_NAMES_LOST"));
    struct sp_sharding_spec spec;
    struct sp_sharding *partial = axes_of("#sdy.sharding<mesh<[\"x\"=2]>, [{}], unreduced={\"x\"}>");
    sp_error_clear(&err);
    cr_expect_eq(sp_onnx_spec_from_sharding(arena, partial, NULL, &spec, NULL, &err), SP_ERR_UNSUPPORTED);
    cr_expect_str_eq(err.code, "PARTIAL_LOST");
}

Test(dialect_onnx, from_other_kinds)
{
    struct sp_dialect_context context = {.rank = 2};
    struct sp_sharding sharding = {.kind = SP_SHARDING_REPLICATED};
    struct sp_sharding_spec spec;
    cr_expect_eq(sp_onnx_spec_from_sharding(arena, &sharding, &context, &spec, NULL, &err), SP_ERR_REQUEST);
    cr_expect_str_eq(err.code, "DEVICES_UNKNOWN");
    context.device_count = 2;
    cr_expect_str_eq(written(&sharding, &context),
                     "{\"device\":[-1],\"indexToDeviceGroupMap\":[{\"key\":-1,\"value\":[0,1]}]}");
    context.device_count = 1;
    cr_expect_str_eq(written(&sharding, &context), "{\"device\":[0]}");
    static const enum sp_sharding_kind kinds[] = {SP_SHARDING_MANUAL, SP_SHARDING_UNREDUCED, SP_SHARDING_UNKNOWN,
                                                  SP_SHARDING_TUPLE};
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        sharding = (struct sp_sharding){.kind = kinds[i], .combiner = SP_COMBINE_SUM};
        sp_error_clear(&err);
        cr_expect_eq(sp_onnx_spec_from_sharding(arena, &sharding, &context, &spec, NULL, &err), SP_ERR_UNSUPPORTED,
                     "kind %d: %s", kinds[i], err.message);
    }
}

/* ---- bytes ---- */

static enum sp_status read_bytes(const char *bytes, size_t size, struct sp_sharding_spec *ret_spec)
{
    sp_error_clear(&err);
    return spec_read_bytes(arena, bytes, size, ret_spec, &err);
}

/* Packed numbers, fields out of order, a repeated scalar and a repeated oneof are legal protobuf. */
Test(dialect_onnx, proto_variants)
{
    static const char bytes[] = "\x22\x13\x12\x07\x08\x07\x12\x01Z\x18\x03\x12\x04\x08\x04\x18\x01\x08\x05\x08\x00"
                                "\x12\x02\x00\x01\x0a\x01X\x10\x02";
    struct sp_sharding_spec spec;
    cr_assert_eq(read_bytes(bytes, sizeof bytes - 1, &spec), SP_OK, "%s", err.message);
    cr_expect_str_eq(json_of(&spec),
                     "{\"tensorName\":\"X\",\"device\":[0,1,2],\"shardedDim\":[{\"axis\":0,\"simpleSharding\":[{"
                     "\"dimParam\":\"Z\",\"numShards\":3},{\"dimValue\":4,\"numShards\":1}]}]}");
    cr_assert_eq(read_bytes("", 0, &spec), SP_OK);
    cr_expect_str_eq(json_of(&spec), "{\"device\":[]}");
}

/* Bytes that end too early or have another type are refused. */
Test(dialect_onnx, wrong_proto)
{
    static const struct {
        const char *bytes;
        size_t size;
    } cases[] = {
        {"\x0a\x05X", 3},    /* a name that is cut off */
        {"\x12\x01\x80", 3}, /* a number that is cut off */
        {"\x20\x01", 2},     /* a number in the place of a message */
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct sp_sharding_spec spec;
        cr_expect_eq(read_bytes(cases[i].bytes, cases[i].size, &spec), SP_ERR_MALFORMED, "case %zu", i);
    }
}
