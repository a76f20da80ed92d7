#include <criterion/criterion.h>
#include <string.h>

#include "plan/convert/convert.h"

/* One request and what came of it. */
struct outcome {
    enum sp_status status;
    struct sp_error err;
    struct sp_buf json, text;
    json_t *answer; /* NULL when it failed */
};

static void outcome_release(struct outcome *outcome)
{
    sp_buf_release(&outcome->json);
    sp_buf_release(&outcome->text);
    json_decref(outcome->answer);
}

/* Asks for JSON and for text: both must go the same way. */
static struct outcome ask(bool is_reshard, const char *request)
{
    struct outcome outcome = {0};
    struct sp_error again = {0};
    struct sp_json json;
    json_t *parsed = json_loads(request, JSON_DECODE_ANY, NULL);
    struct sp_arena *arena = sp_arena_create(NULL);
    cr_assert(parsed != NULL && arena != NULL, "%s", request);
    sp_buf_init(&outcome.json, SP_MAX_ANSWER_BYTES);
    sp_buf_init(&outcome.text, SP_MAX_ANSWER_BYTES);
    sp_json_init_buf(&json, false, &outcome.json);
    outcome.status = is_reshard ? sp_reshard_json(arena, parsed, &json, &outcome.err)
                                : sp_convert_json(arena, parsed, &json, &outcome.err);
    cr_assert_eq(sp_json_finish(&json, NULL), SP_OK);
    enum sp_status second = is_reshard ? sp_reshard_text(arena, parsed, &outcome.text, &again)
                                       : sp_convert_text(arena, parsed, &outcome.text, &again);
    cr_assert_eq(second, outcome.status, "%s: %s %s", request, outcome.err.message, again.message);
    cr_assert_str_eq(again.code, outcome.err.code);
    if (outcome.status == SP_OK) {
        outcome.answer = json_loadb(outcome.json.data, outcome.json.size, JSON_REJECT_DUPLICATES, NULL);
        cr_assert_not_null(outcome.answer, "%s", outcome.json.data);
    } else {
        cr_assert_eq(outcome.json.size, 0, "something was written although it failed");
        cr_assert_eq(outcome.text.size, 0, "something was written although it failed");
    }
    json_decref(parsed);
    sp_arena_destroy(arena);
    return outcome;
}

static void expect_member(const char *request, const char *member, const char *expected)
{
    struct outcome outcome = ask(false, request);
    cr_assert_eq(outcome.status, SP_OK, "%s: %s", request, outcome.err.message);
    const char *value = json_string_value(json_object_get(outcome.answer, member));
    cr_expect_not_null(value);
    cr_expect_str_eq(value != NULL ? value : "", expected, "%s", request);
    outcome_release(&outcome);
}

static void expect_refusal(bool is_reshard, const char *request, enum sp_status status, const char *code,
                           const char *where)
{
    struct outcome outcome = ask(is_reshard, request);
    cr_expect_eq(outcome.status, status, "%s: %d %s", request, (int)outcome.status, outcome.err.message);
    cr_expect_str_eq(outcome.err.code, code, "%s: %s", request, outcome.err.message);
    cr_expect_str_eq(outcome.err.where, where, "%s: %s", request, outcome.err.message);
    outcome_release(&outcome);
}

/* The example sharding of the StableHLO proposal, in which bytes 08 03 1A 02 02 01 22 02 00 01 stand for it. */
#define ESCAPED "\\\"\\\\08\\\\03\\\\1A\\\\02\\\\02\\\\01\\\\22\\\\02\\\\00\\\\01\\\""

Test(convert, recognises_notations)
{
    static const char *const cases[][2] = {
        {"{devices=[2,1]0,1}", "hlo"},
        {" {replicated}", "hlo"},
        {"[[0],[1]]", "hlo"},
        {ESCAPED, "op-sharding"},
        {"\\\\08\\\\03\\\\1A\\\\02\\\\02\\\\01\\\\22\\\\02\\\\00\\\\01", "op-sharding"},
        {"08031a02020122020001", "op-sharding"},
        {"mhlo.sharding = \\\"{replicated}\\\"", "op-sharding"},
        {"S[0]R device_mesh_shape=[2] device_mesh_elements=[0,1]", "ort"},
        {"RR device_mesh_shape=[2] device_mesh_elements=[0,1]", "ort"},
        {"{\\\"shard_spec\\\": \\\"S[0]\\\", \\\"device_mesh_shape\\\": [2], \\\"device_mesh_elements\\\": [0,1]}",
         "ort"},
        {"{ \\\"device\\\": [0]}", "onnx"},
        {"sdy.mesh @m = <[\\\"x\\\"=2]>\\n#sdy.sharding<@m, [{\\\"x\\\"}]>", "shardy"},
        {"<mesh<[\\\"x\\\"=2]>, [{\\\"x\\\"}]>", "shardy"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char request[512];
        /* A notation is recognised before it is read: to its own, everything can be written. */
        (void)snprintf(request, sizeof request, "{\"spec\": \"%s\", \"to\": \"%s\", \"devices\": 2}", cases[i][0],
                       cases[i][1]);
        expect_member(request, "from", cases[i][1]);
    }
    expect_refusal(false, "{\"spec\": \"\", \"to\": \"hlo\"}", SP_ERR_REQUEST, "NOTATION_UNCLEAR", "/spec");
    expect_refusal(false, "{\"spec\": \"x\", \"to\": \"hlo\"}", SP_ERR_REQUEST, "NOTATION_UNCLEAR", "/spec");
    expect_member("{\"spec\": \"\", \"from\": \"op-sharding\", \"to\": \"hlo\"}", "text", "{replicated}");
}

Test(convert, writes_the_example_in_every_notation)
{
    expect_member("{\"spec\": \"" ESCAPED "\", \"to\": \"hlo\"}", "spec", "{devices=[2,1]0,1}");
    expect_member("{\"spec\": \"" ESCAPED "\", \"to\": \"ort\"}", "spec",
                  "S[0]R device_mesh_shape=[2] device_mesh_elements=[0,1]");
    expect_member("{\"spec\": \"{devices=[2,1]0,1}\", \"to\": \"op-sharding\"}", "bytes", "08031a02020122020001");
    expect_member("{\"spec\": \"{devices=[2,1]0,1}\", \"to\": \"op-sharding\"}", "spec",
                  "\"\\08\\03\\1A\\02\\02\\01\\22\\02\\00\\01\"");
    expect_member("{\"spec\": \"{devices=[2,1]0,1}\", \"to\": \"shardy\"}", "sharding",
                  "#sdy.sharding<@mesh, [{\"axis_0\"}, {}]>");
    /* ShardingSpecProto: device (2) 0 and 1, sharded_dim (4) with axis (1) 0 and simple_sharding (2) with num_shards
       (3) 2. */
    expect_member("{\"spec\": \"{devices=[2,1]0,1}\", \"to\": \"onnx\"}", "bytes", "100010012206080012021802");
}

Test(convert, keeps_what_only_xla_can_say)
{
    expect_member("{\"spec\": \"{{replicated}, {devices=[2]<=[2] metadata={op_name=\\\"a\\\"}}}\", \"to\": \"hlo\"}",
                  "text", "{{replicated}, {devices=[2]<=[2] metadata={op_name=\"a\"}}}");
    expect_member("{\"spec\": \"{devices=[2]<=[2] shard_as 3 metadata={op_name=\\\"a\\\"}}\", \"to\": \"hlo\", "
                  "\"hlo_version\": 1}",
                  "text", "{devices=[2]0,1 shard_as 3 metadata={op_name=\"a\"}}");
}

Test(convert, takes_meshes_in_three_forms)
{
    expect_member("{\"spec\": \"S[1]S[0]\", \"to\": \"hlo\", \"mesh\": \"device_mesh_shape=[2,2] "
                  "device_mesh_elements=[0,1,2,3]\"}",
                  "text", "{devices=[2,2]0,2,1,3}");
    expect_member("{\"spec\": \"S[1]S[0]\", \"to\": \"hlo\", \"mesh\": {\"device_mesh_shape\": [2,2], "
                  "\"device_mesh_elements\": \"[0,1,2,3]\"}}",
                  "text", "{devices=[2,2]0,2,1,3}");
    expect_member(
        "{\"spec\": \"<@m, [{\\\"y\\\"}, {\\\"x\\\"}]>\", \"to\": \"hlo\", \"mesh\": {\"name\": \"m\", "
        "\"axes\": [{\"name\": \"x\", \"size\": 2}, {\"name\": \"y\", \"size\": 2}], \"device_ids\": [3,1,2,0]}}",
        "text", "{devices=[2,2]3,2,1,0}");
    expect_member("{\"spec\": \"<@m, [{\\\"y\\\"}, {\\\"x\\\"}]>\", \"to\": \"hlo\", \"mesh\": \"sdy.mesh @m = "
                  "<[\\\"x\\\"=2, \\\"y\\\"=2]>\"}",
                  "text", "{devices=[2,2]0,2,1,3}");
}

Test(convert, says_what_is_wrong_where)
{
    expect_refusal(false, "[]", SP_ERR_REQUEST, "MEMBER_TYPE", "");
    expect_refusal(false, "{\"to\": \"hlo\", \"x/y\": 1}", SP_ERR_REQUEST, "MEMBER_UNKNOWN", "/x~1y");
    expect_refusal(false, "{\"spec\": \"{replicated}\"}", SP_ERR_REQUEST, "MEMBER_MISSING", "/to");
    expect_refusal(false, "{\"to\": \"hlo\"}", SP_ERR_REQUEST, "MEMBER_MISSING", "/spec");
    expect_refusal(false, "{\"spec\": \"{replicated}\", \"to\": \"xla\"}", SP_ERR_REQUEST, "NOTATION_UNKNOWN", "/to");
    expect_refusal(false, "{\"spec\": \"{replicated}\", \"to\": \"hlo\", \"shape\": [1, -2]}", SP_ERR_REQUEST,
                   "MEMBER_COUNT", "/shape/1");
    expect_refusal(false, "{\"spec\": \"{replicated}\", \"to\": \"hlo\", \"shape\": [1], \"rank\": 2}", SP_ERR_REQUEST,
                   "RANK_MISMATCH", "/rank");
    expect_refusal(false, "{\"spec\": \"{replicated}\", \"to\": \"hlo\", \"holdings\": true}", SP_ERR_REQUEST,
                   "SHAPE_MISSING", "/shape");
    expect_refusal(false, "{\"spec\": {}, \"from\": \"hlo\", \"to\": \"hlo\"}", SP_ERR_REQUEST, "MEMBER_TYPE", "/spec");
    /* An object has pointers of its own, a text has offsets. */
    struct outcome outcome = ask(false, "{\"spec\": {\"device\": [0, \"x\"]}, \"to\": \"hlo\"}");
    cr_expect_eq(outcome.status, SP_ERR_REQUEST);
    cr_expect_str_eq(outcome.err.where, "/spec/device/1");
    outcome_release(&outcome);
    outcome = ask(false, "{\"spec\": \"{devices=[2,x]0,1}\", \"to\": \"onnx\"}");
    cr_expect_eq(outcome.status, SP_ERR_REQUEST);
    cr_expect_str_eq(outcome.err.where, "/spec");
    cr_expect_not_null(strstr(outcome.err.message, "offset 1"), "%s", outcome.err.message);
    outcome_release(&outcome);
}

Test(convert, lists_what_devices_hold)
{
    struct outcome outcome = ask(false, "{\"spec\": \"{devices=[1,3]0,2,1}\", \"to\": \"hlo\", \"shape\": [2, 4], "
                                        "\"holdings\": true}");
    cr_assert_eq(outcome.status, SP_OK, "%s", outcome.err.message);
    /* Blocks of ceil(4 / 3) = 2: the third one is empty. */
    cr_expect_str_eq(outcome.text.data, "{devices=[1,3]0,2,1}\n"
                                        "device 0: [0:2, 0:2]\n"
                                        "device 1: [0:2, none]\n"
                                        "device 2: [0:2, 2:4]\n");
    outcome_release(&outcome);
    expect_refusal(false,
                   "{\"spec\": \"{devices=[1000000]<=[1000000]}\", \"to\": \"hlo\", \"shape\": [1000000], "
                   "\"holdings\": true}",
                   SP_ERR_LIMIT, "TOO_MANY_DEVICES", "/spec");
}

Test(reshard, counts_steps_bytes_and_time)
{
    struct outcome outcome = ask(true, "{\"shape\": [1024, 1024], \"from\": \"{devices=[4,1]0,1,2,3}\", \"to\": "
                                       "\"{devices=[1,4]0,1,2,3}\"}");
    cr_assert_eq(outcome.status, SP_OK, "%s", outcome.err.message);
    const json_t *steps = json_object_get(outcome.answer, "steps");
    const json_t *step = json_array_get(steps, 0);
    cr_expect_eq(json_array_size(steps), 1);
    cr_expect_str_eq(json_string_value(json_object_get(step, "kind")), "all-to-all");
    /* (p - 1) / p^2 of 4 MiB with p = 4 */
    cr_expect_eq(json_number_value(json_object_get(outcome.answer, "bytes")), 3.0 / 16 * 4 * 1024 * 1024);
    cr_expect_str_eq(json_string_value(json_object_get(step, "sharding")), "{devices=[1,4]0,1,2,3}");
    cr_expect(json_is_true(json_object_get(outcome.answer, "cluster_assumed")));
    cr_expect_not_null(strstr(outcome.text.data, "4 x h100-sxm-80gb, assumed"), "%s", outcome.text.data);
    outcome_release(&outcome);
    outcome = ask(true, "{\"shape\": [4], \"from\": \"{devices=[2]0,1}\", \"to\": \"{devices=[2]<=[2]}\"}");
    cr_assert_eq(outcome.status, SP_OK, "%s", outcome.err.message);
    cr_expect_eq(json_array_size(json_object_get(outcome.answer, "steps")), 0);
    cr_expect_not_null(strstr(outcome.text.data, "Nothing to do"), "%s", outcome.text.data);
    outcome_release(&outcome);
}

Test(reshard, says_what_is_wrong_where)
{
#define SPECS "\"from\": \"{devices=[2]0,1}\", \"to\": \"{replicated}\""
    expect_refusal(true, "{" SPECS "}", SP_ERR_REQUEST, "SHAPE_MISSING", "/shape");
    expect_refusal(true, "{\"shape\": [null], " SPECS "}", SP_ERR_REQUEST, "SHAPE_UNKNOWN", "/shape/0");
    expect_refusal(true, "{\"shape\": [4611686018427387904], " SPECS "}", SP_ERR_REQUEST, "SHAPE_TOO_LARGE", "/shape");
    expect_refusal(true, "{\"shape\": [4], \"dtype\": \"string\", " SPECS "}", SP_ERR_REQUEST, "DTYPE_UNKNOWN",
                   "/dtype");
    expect_refusal(true, "{\"shape\": [4], \"cluster\": {\"device\": \"h100-sxm-80gb\", \"count\": 1}, " SPECS "}",
                   SP_ERR_REQUEST, "CLUSTER_TOO_SMALL", "/cluster");
    expect_refusal(true, "{\"shape\": [4], \"from\": \"{replicated}\", \"to\": \"{replicated}\"}", SP_ERR_REQUEST,
                   "DEVICES_UNKNOWN", "/devices");
    expect_refusal(true, "{\"shape\": [4], \"from\": \"{devices=[2]0,99999}\", \"to\": \"{replicated}\"}", SP_ERR_LIMIT,
                   "TOO_MANY_DEVICES", "/from");
#undef SPECS
}
