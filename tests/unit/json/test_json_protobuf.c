/* protobuf's JSON mapping of ModelProto: every file of the test data there and back, its rules one by one, and what it
   refuses. Rules: https://protobuf.dev/programming-guides/json. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "onnx.pb-c.h"
#include "onnx_files.h"
#include "proto_json.h"
#include "json/json.h"

#define MAX_TEXT ((size_t)1 << 28)

static const struct proto_json_style styles[] = {
    {0},
    {.original_names = true, .plain_numbers = true, .url_base64 = true},
    {.escapes = true, .plain_numbers = true},
    {.original_names = true},
};

/* The file that the text stands for, or the error. */
static enum sp_status convert(const char *text, size_t size, struct sp_buf *ret_bytes, struct sp_error *err)
{
    struct sp_budget budget = {.limit = (size_t)4 << 30};
    char *copy = malloc(size == 0 ? 1 : size); /* exactly as large: reading past the end is caught */
    cr_assert_not_null(copy);
    memcpy(copy, text, size);
    *err = (struct sp_error){0};
    *ret_bytes = (struct sp_buf){0};
    enum sp_status status = sp_json_to_onnx(&budget, copy, size, NULL, ret_bytes, err);
    cr_assert_eq(status, err->status);
    cr_assert_eq(budget.used, ret_bytes->capacity, "what stays counted is the result");
    free(copy);
    return status;
}

struct tally {
    unsigned files, exact;
};

/* bytes -> message -> text -> bytes: equal to what protobuf-c packs, which for almost all files is the file itself. */
static void round_trip(const char *path, const void *bytes, size_t size, void *context)
{
    struct tally *tally = context;
    ProtobufCMessage *message = protobuf_c_message_unpack(&onnx__model_proto__descriptor, NULL, size, bytes);
    if (message == NULL) /* text that is no UTF-8 passes protobuf-c; what does not is broken */
        return;
    const size_t packed_size = protobuf_c_message_get_packed_size(message);
    unsigned char *packed = malloc(packed_size + 1);
    cr_assert_eq(protobuf_c_message_pack(message, packed), packed_size);
    for (size_t i = 0; i < sizeof styles / sizeof styles[0]; i++) {
        struct sp_buf text, result;
        struct sp_error err;
        sp_buf_init(&text, MAX_TEXT);
        proto_json_write(message, &styles[i], &text);
        cr_assert(!sp_buf_failed(&text) && sp_json_is(text.data, text.size), "%s", path);
        cr_assert_eq(convert(text.data, text.size, &result, &err), SP_OK, "%s: %s at %s", path, err.message, err.where);
        cr_assert_eq(result.size, packed_size, "%s: %zu bytes, not %zu", path, result.size, packed_size);
        cr_assert_eq(memcmp(result.data, packed, packed_size), 0, "%s, style %zu", path, i);
        sp_buf_release(&text);
        sp_buf_release(&result);
    }
    tally->files++;
    tally->exact += packed_size == size && memcmp(packed, bytes, size) == 0;
    free(packed);
    protobuf_c_message_free_unpacked(message, NULL);
}

Test(json_protobuf, models_come_back)
{
    struct tally tally = {0};
    if (!onnx_each_file(onnx_data("models"), round_trip, &tally))
        cr_skip_test("the models are not there");
    cr_expect_geq(tally.files, 11);
    cr_expect_eq(tally.exact, tally.files, "%u of %u are byte for byte the file", tally.exact, tally.files);
}

Test(json_protobuf, annotated_models_come_back)
{
    struct tally tally = {0};
    if (!onnx_each_file(onnx_data("multi-device-corpus"), round_trip, &tally))
        cr_skip_test("the corpus is not there");
    cr_expect_gt(tally.files, 20);
}

Test(json_protobuf, backend_cases_come_back)
{
    struct tally tally = {0};
    const char *folder = onnx_unpack_backend_tests();
    if (folder == NULL)
        cr_skip_test("the backend cases are not there");
    cr_assert(onnx_each_file(folder, round_trip, &tally));
    onnx_remove_folder(folder);
    cr_expect_gt(tally.files, 900);
    cr_expect_eq(tally.exact, tally.files, "%u of %u are byte for byte the file", tally.exact, tally.files);
}

/* What the text gives is what the notation of onnx_files.h says. */
static void expect_file(const char *text, const char *notation)
{
    struct sp_buf expected = onnx_encode(notation), result;
    struct sp_error err;
    cr_assert_eq(convert(text, strlen(text), &result, &err), SP_OK, "%s: %s at '%s'", text, err.message, err.where);
    cr_expect(result.size == expected.size &&
                  (result.size == 0 || memcmp(result.data, expected.data, result.size) == 0),
              "%s is not %s", text, notation);
    sp_buf_release(&expected);
    sp_buf_release(&result);
}

Test(json_protobuf, rules_of_the_mapping)
{
    /* Names, and the order of the text. */
    expect_file("{\"irVersion\": 8, \"graph\": {}}", "1:8 7{}");
    expect_file("\xef\xbb\xbf {\"graph\": {}, \"ir_version\": \"8\"}\n", "7{} 1:8");
    expect_file("{\"graph\":{\"sparseInitializer\":[{\"dims\":[1]}],\"value_info\":[]}}", "7{15{3:1}}");
    /* null is absent. */
    expect_file("{\"graph\":{\"name\":null,\"node\":null},\"producerName\":null}", "7{}");
    /* Integers: text, exponents, both ends of the range. */
    expect_file("{\"graph\":{},\"irVersion\":1e1,\"modelVersion\":\"2.0\"}", "7{} 1:10 5:2");
    expect_file("{\"graph\":{},\"modelVersion\":\"-9223372036854775808\"}", "7{} 5:-9223372036854775808");
    expect_file("{\"graph\":{},\"modelVersion\":9223372036854775807}", "7{} 5:9223372036854775807");
    expect_file("{\"graph\":{},\"modelVersion\":-0}", "7{} 5:0");
    expect_file("{\"graph\":{\"initializer\":[{\"uint64Data\":[\"18446744073709551615\"],\"int32Data\":[-1]}]}}",
                "7{5{11hffffffffffffffffff01 5hffffffffffffffffff01}}");
    /* Reals, the ones that JSON does not have among them; packed where the schema says so. */
    expect_file(
        "{\"graph\":{\"initializer\":[{\"floatData\":[1,\"NaN\",\"-Infinity\"],\"doubleData\":[\"Infinity\"]}]}}",
        "7{5{4h0000803f0000c07f000080ff 10h000000000000f07f}}");
    expect_file("{\"graph\":{\"node\":[{\"attribute\":[{\"f\":\"-1.5\",\"floats\":[1,2.5e-1]}]}]}}",
                "7{1{5{2~-1.5 7~1 7~0.25}}}");
    expect_file("{\"graph\":{\"initializer\":[{\"dims\":[],\"floatData\":[]}]}}", "7{5{}}");
    /* Nearest float to the text, not to the nearest double: 1 + 2^-24 + 2^-54 is above the middle. */
    expect_file("{\"graph\":{\"node\":[{\"attribute\":[{\"f\":1.00000005960464483090176812097518},{}]}]}}",
                "7{1{5{2~1.00000011920928955078} 5{}}}");
    /* Enums by name and number, also numbers that the schema does not know. */
    expect_file("{\"graph\":{\"node\":[{\"attribute\":[{\"type\":\"INTS\"},{\"type\":7},{\"type\":99}]}]}}",
                "7{1{5{20:7} 5{20:7} 5{20:99}}}");
    expect_file("{\"graph\":{\"initializer\":[{\"dataLocation\":\"EXTERNAL\"}]}}", "7{5{14:1}}");
    /* Bytes: both alphabets, with and without padding, escapes in the text. */
    expect_file("{\"graph\":{\"initializer\":[{\"rawData\":\"+/8=\"},{\"rawData\":\"-_8\"},{\"rawData\":\"\"},"
                "{\"rawData\":\"\\u002b\\/8=\"},{\"stringData\":[\"YWI=\",\"YQ==\"]}]}}",
                "7{5{9hfbff} 5{9hfbff} 5{9h} 5{9hfbff} 5{6'ab' 6'a'}}");
    /* Text: every escape, pairs of surrogates, the members of a oneof. */
    expect_file("{\"graph\":{\"docString\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\u20AC\\ud83d\\ude00\"}}",
                "7{10h225c2f080c0a0d09c3a9e282acf09f9880}");
    expect_file("{\"graph\":{\"input\":[{\"type\":{\"tensorType\":{\"elemType\":1,\"shape\":{\"dim\":[{\"dimValue\":"
                "\"4\"},{\"dimParam\":\"n\"},{}]}}}}]}}",
                "7{11{2{1{1:1 2{1{1:4} 1{2'n'} 1{}}}}}}");
}

static void expect_error(const char *text, enum sp_status status, const char *code, const char *where)
{
    struct sp_buf result;
    struct sp_error err;
    cr_expect_eq(convert(text, strlen(text), &result, &err), status, "%s: %s %s", text, err.code, err.message);
    cr_expect_str_eq(err.code, code, "%s: %s, not %s (%s)", text, err.code, code, err.message);
    cr_expect_str_eq(err.where, where, "%s: at '%s', not '%s'", text, err.where, where);
    cr_expect((err.message[0] == '\'' || (err.message[0] >= 'A' && err.message[0] <= 'Z')) &&
                  strchr(".)", err.message[strlen(err.message) - 1]),
              "no sentence: %s", err.message);
    sp_buf_release(&result);
}

Test(json_protobuf, what_breaks_the_mapping)
{
    static const struct {
        const char *text, *code, *where;
    } cases[] = {
        {"{\"graph\":{\"nodes\":[]}}", "MEMBER_UNKNOWN", "/graph/nodes"},
        {"{\"graph\":{\"node\":[{},{\"a/b~c\":1}]}}", "MEMBER_UNKNOWN", "/graph/node/1/a~1b~0c"},
        {"{\"graph\":{\"node\":[{\"opType\":\"A\",\"op_type\":\"B\"}]}}", "MEMBER_TWICE", "/graph/node/0/op_type"},
        {"{\"graph\":{\"node\":{}}}", "ARRAY_EXPECTED", "/graph/node"},
        {"{\"graph\":[]}", "OBJECT_EXPECTED", "/graph"},
        {"{\"graph\":{\"node\":[null]}}", "OBJECT_EXPECTED", "/graph/node/0"},
        {"{\"graph\":{\"name\":1}}", "TEXT_EXPECTED", "/graph/name"},
        {"{\"graph\":{\"name\":\"\\ud800\"}}", "MALFORMED_JSON", "/graph/name"},
        {"{\"graph\":{\"name\":\"\\ud800\\u0041\"}}", "MALFORMED_JSON", "/graph/name"},
        {"{\"graph\":{\"node\":[{\"input\":[\"a\",null]}]}}", "TEXT_EXPECTED", "/graph/node/0/input/1"},
        {"{\"graph\":{},\"irVersion\":1.5}", "INTEGER_EXPECTED", "/irVersion"},
        {"{\"graph\":{},\"irVersion\":true}", "NUMBER_EXPECTED", "/irVersion"},
        {"{\"graph\":{},\"irVersion\":\" 8\"}", "INTEGER_EXPECTED", "/irVersion"},
        {"{\"graph\":{},\"irVersion\":\"0x8\"}", "INTEGER_EXPECTED", "/irVersion"},
        {"{\"graph\":{},\"irVersion\":\"\"}", "NUMBER_EXPECTED", "/irVersion"},
        {"{\"graph\":{},\"irVersion\":9223372036854775808}", "NUMBER_OUT_OF_RANGE", "/irVersion"},
        {"{\"graph\":{},\"irVersion\":1e300}", "INTEGER_EXPECTED", "/irVersion"},
        {"{\"graph\":{},\"configuration\":[{\"numDevices\":2147483648}]}", "NUMBER_OUT_OF_RANGE",
         "/configuration/0/numDevices"},
        {"{\"graph\":{\"initializer\":[{\"uint64Data\":[-1]}]}}", "NUMBER_OUT_OF_RANGE",
         "/graph/initializer/0/uint64Data/0"},
        {"{\"graph\":{\"initializer\":[{\"floatData\":[1e39]}]}}", "NUMBER_OUT_OF_RANGE",
         "/graph/initializer/0/floatData/0"},
        {"{\"graph\":{\"initializer\":[{\"doubleData\":[1e309]}]}}", "NUMBER_EXPECTED",
         "/graph/initializer/0/doubleData/0"},
        {"{\"graph\":{\"initializer\":[{\"floatData\":[\"nan\"]}]}}", "NUMBER_EXPECTED",
         "/graph/initializer/0/floatData/0"},
        {"{\"graph\":{\"initializer\":[{\"dataLocation\":\"external\"}]}}", "ENUM_UNKNOWN",
         "/graph/initializer/0/dataLocation"},
        {"{\"graph\":{\"initializer\":[{\"rawData\":\"a\"}]}}", "BASE64_EXPECTED", "/graph/initializer/0/rawData"},
        {"{\"graph\":{\"initializer\":[{\"rawData\":\"ab=\"}]}}", "BASE64_EXPECTED", "/graph/initializer/0/rawData"},
        {"{\"graph\":{\"initializer\":[{\"rawData\":\"a c=\"}]}}", "BASE64_EXPECTED", "/graph/initializer/0/rawData"},
        {"{\"graph\":{\"initializer\":[{\"rawData\":[1]}]}}", "BASE64_EXPECTED", "/graph/initializer/0/rawData"},
        {"{\"graph\":{\"input\":[{\"type\":{\"tensorType\":{},\"sequenceType\":{}}}]}}", "MEMBER_TWICE",
         "/graph/input/0/type/sequenceType"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_error(cases[i].text, SP_ERR_MALFORMED, cases[i].code, cases[i].where);
}

Test(json_protobuf, what_is_no_json)
{
    static const struct {
        const char *text, *where;
    } cases[] = {
        {"", "byte 0"},
        {"{", "byte 1"},
        {"{\"a\"", "byte 4"},
        {"{\"a\":}", "byte 5"},
        {"{\"a\":1,}", "byte 7"},
        {"{\"a\":[1,]}", "byte 8"},
        {"{\"a\":01}", "byte 7"},
        {"{\"a\":1.}", "byte 7"},
        {"{\"a\":1e}", "byte 7"},
        {"{\"a\":-}", "byte 6"},
        {"{a:1}", "byte 1"},
        {"{\"a\" 1}", "byte 5"},
        {"{\"a\":\"\n\"}", "byte 6"},
        {"{\"a\":\"\\x\"}", "byte 7"},
        {"{\"a\":\"\\u12g4\"}", "byte 10"},
        {"{\"a\":tru}", "byte 5"},
        {"{\"a\":nul", "byte 5"},
        {"{} {}", "byte 3"},
        {"{\"a\":[1 2]}", "byte 8"},
        {"{\"a\":{]}", "byte 6"},
        {"{\"a\":\"", "byte 6"},
        {"{\"a\":+1}", "byte 5"},
        {"{\"a\":NaN}", "byte 5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_error(cases[i].text, SP_ERR_MALFORMED, "MALFORMED_JSON", cases[i].where);
    expect_error("{\"a\":\"\xff\"}", SP_ERR_MALFORMED, "MALFORMED_JSON", "");
}

/* A text that nests `what` so many times, in `begin` and `end`. */
static struct sp_buf nested(const char *begin, const char *what, const char *middle, const char *end, int count)
{
    struct sp_buf text;
    sp_buf_init(&text, MAX_TEXT);
    sp_buf_text(&text, begin);
    for (int i = 0; i < count; i++)
        sp_buf_text(&text, what);
    sp_buf_text(&text, middle);
    for (int i = 0; i < count; i++)
        sp_buf_text(&text, end);
    sp_buf_text(&text, "}");
    return text;
}

Test(json_protobuf, nesting_and_memory_have_limits)
{
    struct sp_buf result, text = nested("{\"graph\":", "[", "", "]", 1000);
    struct sp_error err;
    cr_expect_eq(convert(text.data, text.size, &result, &err), SP_ERR_LIMIT);
    cr_expect_str_eq(err.limit, "SP_MAX_JSON_NESTING");
    sp_buf_release(&text);
    /* 3 messages each time, in 5 arrays and objects: 21 graphs are 64 messages. */
    const char *inner = "{\"node\":[{\"attribute\":[{\"g\":", *end = "}]}]}";
    text = nested("{\"graph\":", inner, "{}", end, 21);
    cr_expect_eq(convert(text.data, text.size, &result, &err), SP_OK, "%s", err.message);
    sp_buf_release(&text);
    sp_buf_release(&result);
    text = nested("{\"graph\":", inner, "{}", end, 22);
    cr_expect_eq(convert(text.data, text.size, &result, &err), SP_ERR_LIMIT);
    cr_expect_str_eq(err.limit, "SP_MAX_NESTING");
    /* A budget that cannot hold it. */
    for (size_t limit = 1; limit < 40000; limit += 977) {
        struct sp_budget budget = {.limit = limit};
        result = (struct sp_buf){0};
        err = (struct sp_error){0};
        enum sp_status status = sp_json_to_onnx(&budget, text.data, text.size, NULL, &result, &err);
        cr_expect(status == SP_ERR_MEMORY || status == SP_ERR_LIMIT);
        cr_expect_eq(budget.used, 0);
    }
    sp_buf_release(&text);
}

Test(json_protobuf, which_texts_are_descriptions)
{
    static const char *const yes[] = {"{", "{}", " \r\n\t{\"graph\": 1}", "\xef\xbb\xbf{\n"};
    static const char *const no[] = {"", " ", "[]", "\x08\x08:\x00", "{1", "\"a\"", "<html>", "\xef\xbb\xbf"};
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++)
        cr_expect(sp_json_is(yes[i], strlen(yes[i])), "%s", yes[i]);
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
        cr_expect_not(sp_json_is(no[i], strlen(no[i])), "%s", no[i]);
    expect_error("{}", SP_ERR_MALFORMED, "DESCRIPTION_UNKNOWN", "");
    expect_error("[]", SP_ERR_MALFORMED, "OBJECT_EXPECTED", "");
    expect_error("{\"layers\": []}", SP_ERR_MALFORMED, "DESCRIPTION_UNKNOWN", "");
    expect_error("{\"nodes\":[{\"id\":1,\"seconds\":0.1}],\"edges\":[]}", SP_ERR_UNSUPPORTED, "NO_OPERATORS", "");
    expect_error("{\"nodes\":[{\"id\":1,\"seconds\":0.1}]}", SP_ERR_UNSUPPORTED, "NO_OPERATORS", "");
}
