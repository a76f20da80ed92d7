/* Tensor graphs described in JSON (json/json.h): the file that a description stands for, against bytes in the notation
   of onnx_files.h, which is written by the field numbers of onnx.proto; and what is refused, with its place. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>

#include "data_files.h"
#include "onnx_bytes.h"
#include "onnx_files.h"
#include "plan/job.h"
#include "json/json.h"

static enum sp_status convert(const char *text, struct sp_buf *ret_bytes, struct sp_error *err)
{
    struct sp_budget budget = {.limit = (size_t)1 << 30};
    const size_t size = strlen(text);
    char *copy = malloc(size + 1); /* exactly as large: reading past the end is caught */
    cr_assert_not_null(copy);
    memcpy(copy + 1, text, size);
    *err = (struct sp_error){0};
    *ret_bytes = (struct sp_buf){0};
    enum sp_status status = sp_json_to_onnx(&budget, copy + 1, size, NULL, ret_bytes, err);
    cr_assert_eq(status, err->status);
    free(copy);
    return status;
}

static void expect_bytes(const char *text, const char *notation)
{
    struct sp_buf expected = onnx_encode(notation), result;
    struct sp_error err;
    cr_assert_eq(convert(text, &result, &err), SP_OK, "%s: %s at '%s'", text, err.message, err.where);
    bool is_equal = result.size == expected.size && memcmp(result.data, expected.data, result.size) == 0;
    cr_expect(is_equal, "%s is not %s", text, notation);
    if (!is_equal) {
        for (size_t i = 0; i < result.size; i++)
            (void)fprintf(stderr, "%02x%s", (unsigned char)result.data[i], i + 1 == result.size ? "\n" : "");
    }
    sp_buf_release(&expected);
    sp_buf_release(&result);
}

/* A node with these attributes, and the AttributeProtos expected. */
static void expect_attributes(const char *op, const char *attributes, const char *notation)
{
    char text[2048], expected[2048];
    (void)snprintf(text, sizeof text, "{\"opset\":17,\"nodes\":[{\"op\":\"%s\",\"attributes\":{%s}}]}", op, attributes);
    (void)snprintf(expected, sizeof expected, "1:8 8{1'' 2:17} 7{2'graph' 1{4'%s' %s}}", op, notation);
    expect_bytes(text, expected);
}

Test(json_graph, documents)
{
    expect_bytes("{\"opset\":17,\"nodes\":[]}", "1:8 8{1'' 2:17} 7{2'graph'}");
    expect_bytes("{\"nodes\":[],\"opset\":{\"\":17,\"com.microsoft\":1},\"name\":\"g\",\"doc\":\"d\",\"ir_version\":7,"
                 "\"metadata\":{\"k\":\"v\"}}",
                 "1:7 8{1'' 2:17} 8{1'com.microsoft' 2:1} 6'd' 14{1'k' 2'v'} 7{2'g'}");
    expect_bytes("{\"opset\":17,\"operators\": [ {\"a\":\"]\\\"[\"}, [] ] ,\"nodes\":[]}",
                 "1:8 8{1'' 2:17} 14{1'shardplan.operators' 2'[ {\"a\":\"]\\\"[\"}, [] ]'} 7{2'graph'}");
    expect_bytes(
        "{\"opset\":17,\"nodes\":[{\"op\":\"Clip\",\"name\":\"n\",\"inputs\":[\"x\",\"\",\"m\"],\"outputs\":[\"y\"],"
        "\"domain\":\"d\"}]}",
        "1:8 8{1'' 2:17} 7{2'graph' 1{1'x' 1'' 1'm' 2'y' 3'n' 4'Clip' 7'd'}}");
}

Test(json_graph, values_and_shapes)
{
    expect_bytes(
        "{\"opset\":17,\"nodes\":[],\"inputs\":[{\"name\":\"x\",\"dtype\":\"float32\",\"shape\":[8,\"n\",null]},"
        "{\"name\":\"s\",\"dtype\":\"int64\",\"shape\":[]},{\"name\":\"r\",\"dtype\":\"bool\"},{\"name\":\"q\","
        "\"type\":{\"sequenceType\":{\"elemType\":{\"tensorType\":{\"elemType\":1}}}}}],"
        "\"outputs\":[\"y\",{\"name\":\"z\"}],\"values\":[{\"name\":\"v\",\"dtype\":\"float16\"}]}",
        "1:8 8{1'' 2:17} 7{2'graph' 11{1'x' 2{1{1:1 2{1{1:8} 1{2'n'} 1{}}}}} 11{1's' 2{1{1:7 2{}}}} "
        "11{1'r' 2{1{1:9}}} 11{1'q' 2{4{1{1{1:1}}}}} 12{1'y'} 12{1'z'} 13{1'v' 2{1{1:10}}}}");
}

Test(json_graph, weights_lie_behind_one_another)
{
    expect_bytes(
        "{\"opset\":17,\"nodes\":[],\"initializers\":[{\"name\":\"a\",\"dtype\":\"float32\",\"shape\":[2,3]},"
        "{\"name\":\"e\",\"dtype\":\"float32\",\"shape\":[0,3]},{\"name\":\"b\",\"dtype\":\"int8\",\"shape\":[]}]}",
        "1:8 8{1'' 2:17} 7{2'graph' "
        "5{1:2 1:3 2:1 8'a' 13{1'location' 2'weights.bin'} 13{1'offset' 2'0'} 13{1'length' 2'24'} 14:1} "
        "5{1:0 1:3 2:1 8'e'} "
        "5{2:3 8'b' 13{1'location' 2'weights.bin'} 13{1'offset' 2'24'} 13{1'length' 2'1'} 14:1}}");
}

/* An initializer of this type with this data, and its raw_data. Bits of 16-bit floats: IEEE 754 and bfloat16; of 8-bit
   floats: Micikevicius et al., "FP8 Formats for Deep Learning", 2022, table 1, and ONNX's "Float stored in 8 bits". */
static void expect_data(const char *dtype, int number, unsigned count, const char *data, const char *hex)
{
    char text[512], expected[512];
    (void)snprintf(text, sizeof text,
                   "{\"opset\":17,\"nodes\":[],\"initializers\":[{\"data\":[%s],\"shape\":[%u],\"dtype\":\"%s\","
                   "\"name\":\"c\"}]}",
                   data, count, dtype);
    const int ir_version = number < 17 ? 8 : 9; /* which has floats of 8 bits */
    (void)snprintf(expected, sizeof expected, "1:%d 8{1'' 2:17} 7{2'graph' 5{1:%u 2:%d 8'c' 9h%s}}", ir_version, count,
                   number, hex);
    expect_bytes(text, expected);
}

Test(json_graph, elements_of_constants)
{
    expect_data("int64", 7, 3, "-1,9223372036854775807,\"-9223372036854775808\"",
                "ffffffffffffffffffffffffffffff7f0000000000000080");
    expect_data("uint64", 13, 1, "18446744073709551615", "ffffffffffffffff");
    expect_data("int8", 3, 3, "-128,127,1.0", "807f01");
    expect_data("uint16", 4, 2, "65535,1", "ffff0100");
    expect_data("bool", 9, 4, "true,false,1,0", "01000100");
    expect_data("float32", 1, 3, "1,-2.5,\"NaN\"", "0000803f000020c00000c07f");
    expect_data("double", 11, 1, "0.1", "9a9999999999b93f");
    /* 1, -2, the largest, above it, the least subnormal, half of it (to even: 0), 1 + 2^-11 (to even), just above. */
    expect_data("float16", 10, 8,
                "1,-2,65504,65520,5.960464477539063e-8,2.9802322387695312e-8,1.00048828125,1.000488281251",
                "003c00c0ff7b007c01000000003c013c");
    expect_data("float16", 10, 5, "\"NaN\",\"-Infinity\",-0.0,6.103515625e-05,1e300", "007e00fc00800004007c");
    /* 1, -1, 3.140625 (0x4049), 1 + 2^-8 (to even), the least normal, a subnormal (2^-133: 0x0001). */
    expect_data("float8e4m3fn", 17, 8, "1,448,-0.0,0.001953125,0.015625,240,1000,\"NaN\"", "387e800108777e7f");
    expect_data("float8e5m2", 19, 6, "1,57344,1.52587890625e-05,6.103515625e-05,\"Infinity\",-1.75", "3c7b01047cbf");
    expect_data("bfloat16", 16, 6, "1,-1,3.14159,1.00390625,1.1754943508222875e-38,9.183549615799121e-41",
                "803f80bf4940803f80000100");
    expect_bytes(
        "{\"opset\":17,\"nodes\":[],\"initializers\":[{\"name\":\"s\",\"dtype\":\"string\",\"shape\":[2],\"data\":["
        "\"a\",\"b\"]},{\"name\":\"e\",\"dtype\":\"int64\",\"shape\":[0],\"data\":[]}]}",
        "1:8 8{1'' 2:17} 7{2'graph' 5{1:2 2:8 8's' 6'a' 6'b'} 5{1:0 2:7 8'e'}}");
}

Test(json_graph, attributes_by_their_form)
{
    expect_attributes("Own", "\"i\":-7,\"f\":0.5,\"s\":\"abc\",\"b\":true",
                      "5{1'i' 20:2 3:-7} 5{1'f' 20:1 2~0.5} 5{1's' 20:3 4'abc'} 5{1'b' 20:2 3:1}");
    expect_attributes("Own", "\"is\":[1,2],\"fs\":[1,2.5],\"ss\":[\"a\",\"\"]",
                      "5{1'is' 20:7 8:1 8:2} 5{1'fs' 20:6 7~1 7~2.5} 5{1'ss' 20:8 9'a' 9''}");
}

Test(json_graph, attributes_that_name_their_type)
{
    expect_attributes("Own", "\"a\":{\"float\":1},\"b\":{\"int\":2.0},\"c\":{\"string\":\"t\"},\"d\":{\"ints\":[]}",
                      "5{1'a' 20:1 2~1} 5{1'b' 20:2 3:2} 5{1'c' 20:3 4't'} 5{1'd' 20:7}");
    expect_attributes("Own", "\"a\":{\"floats\":[1]},\"b\":{\"strings\":[\"s\"]}",
                      "5{1'a' 20:6 7~1} 5{1'b' 20:8 9's'}");
    expect_attributes("Own",
                      "\"t\":{\"tensor\":{\"dtype\":\"int32\",\"shape\":[1],\"data\":[3]}},\"u\":{\"tensors\":[]}",
                      "5{1't' 20:4 5{1:1 2:6 9h03000000}} 5{1'u' 20:9}");
    expect_attributes("Own", "\"t\":{\"type\":{\"tensorType\":{\"elemType\":1}}},\"u\":{\"types\":[{}]}",
                      "5{1't' 20:13 14{1{1:1}}} 5{1'u' 20:14 15{}}");
}

/* Types of attributes in the operators' schemas of opset 17. */
Test(json_graph, attributes_are_what_the_operator_asks_for)
{
    expect_attributes("Gemm", "\"alpha\":1,\"transB\":1.0,\"beta\":\"2.5\"",
                      "5{1'alpha' 20:1 2~1} 5{1'transB' 20:2 3:1} 5{1'beta' 20:1 2~2.5}");
    expect_attributes("Constant", "\"value_floats\":[1,2]", "5{1'value_floats' 20:6 7~1 7~2}");
    expect_attributes("Constant", "\"value_ints\":[]", "5{1'value_ints' 20:7}");
}

Test(json_graph, nested_graphs)
{
    expect_attributes("If",
                      "\"then_branch\":{\"graph\":{\"name\":\"t\",\"nodes\":[{\"op\":\"If\",\"attributes\":{"
                      "\"else_branch\":{\"graph\":{\"outputs\":[\"x\"]}},\"z\":1}}],\"outputs\":[\"o\"]}},\"k\":2",
                      "5{1'then_branch' 20:5 6{2't' 12{1'o'} 1{4'If' 5{1'else_branch' 20:5 6{2'graph' 12{1'x'}}} "
                      "5{1'z' 20:2 3:1}}}} 5{1'k' 20:2 3:2}");
    expect_attributes("Own", "\"gs\":{\"graphs\":[{\"name\":\"a\"},{\"name\":\"b\",\"nodes\":[{\"op\":\"R\"}]}]}",
                      "5{1'gs' 20:10 11{2'a'} 11{2'b' 1{4'R'}}}");
}

Test(json_graph, annotations)
{
    expect_bytes(
        "{\"opset\":17,\"nodes\":[{\"op\":\"Relu\",\"inputs\":[\"x\"],\"outputs\":[\"y\"],\"configurations\":[{"
        "\"configuration\":\"c\",\"stage\":0,\"specs\":[{\"tensorName\":\"x\",\"device\":[0,1],\"shardedDim\":[{"
        "\"axis\":0,\"simpleSharding\":[{\"dimValue\":4,\"numShards\":2}]}]}]}]}],"
        "\"configurations\":[{\"name\":\"c\",\"numDevices\":2}]}",
        "1:11 8{1'' 2:17} 26{1'c' 2:2} 7{2'graph' 1{1'x' 2'y' 4'Relu' 10{1'c' 2{1'x' 2:0 2:1 4{1:0 2{1:4 3:2}}} "
        "3:0}}}");
}

/* IR versions of ONNX's releases: docs/Versioning.md; of types: the enum DataType in onnx.proto. */
Test(json_graph, ir_version_is_the_least_that_is_needed)
{
    static const struct {
        int opset, ir_version;
    } cases[] = {{7, 8},   {18, 8},  {19, 9},  {20, 9},  {21, 10}, {22, 10},
                 {23, 11}, {24, 12}, {25, 13}, {27, 13}, {28, 14}};
    char text[256], expected[256];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        (void)snprintf(text, sizeof text, "{\"opset\":%d,\"nodes\":[]}", cases[i].opset);
        (void)snprintf(expected, sizeof expected, "1:%d 8{1'' 2:%d} 7{2'graph'}", cases[i].ir_version, cases[i].opset);
        expect_bytes(text, expected);
    }
    expect_bytes("{\"opset\":17,\"nodes\":[],\"inputs\":[{\"name\":\"x\",\"dtype\":\"int4\"}]}",
                 "1:10 8{1'' 2:17} 7{2'graph' 11{1'x' 2{1{1:22}}}}");
    expect_bytes("{\"opset\":17,\"nodes\":[{\"op\":\"f\",\"overload\":\"o\",\"metadata\":{\"a\":\"b\"}}]}",
                 "1:10 8{1'' 2:17} 7{2'graph' 1{4'f' 8'o' 9{1'a' 2'b'}}}");
}

/* ---- the same model as an ONNX file ---------------------------------------------------------------------------- */

/* The inspection with every value, without the size of what was read. */
static json_t *inspect(const char *bytes, size_t size)
{
    struct sp_error err = {0};
    struct sp_job *job;
    struct sp_buf text;
    struct sp_json json;
    cr_assert_eq(sp_job_open(&(struct sp_job_options){.bytes = bytes, .size = size}, &job, &err), SP_OK, "%s at %s",
                 err.message, err.where);
    sp_buf_init(&text, (size_t)1 << 24);
    sp_json_init_buf(&json, true, &text);
    cr_assert_eq(sp_job_inspect_json(job, true, &json, &err), SP_OK);
    cr_assert_eq(sp_json_finish(&json, &err), SP_OK);
    json_t *inspection = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES, NULL);
    cr_assert_eq((size_t)json_integer_value(json_object_get(inspection, "size_bytes")), size);
    cr_assert_eq(json_object_del(inspection, "size_bytes"), 0);
    sp_buf_release(&text);
    sp_job_destroy(job);
    return inspection;
}

static void expect_same(json_t *described, json_t *file)
{
    char *left = json_dumps(described, JSON_SORT_KEYS | JSON_INDENT(1)), *right = json_dumps(file, JSON_SORT_KEYS);
    cr_expect(json_equal(described, file), "described: %s\nfile: %s", left, right);
    free(left);
    free(right);
    json_decref(described);
    json_decref(file);
}

Test(json_graph, mlp_is_inspected_as_the_file_is)
{
    static const char text[] =
        "{\"name\":\"mlp\",\"ir_version\":8,\"opset\":17,\"inputs\":[{\"name\":\"x\",\"dtype\":\"float32\",\"shape\":["
        "\"n\",64]}],"
        "\"initializers\":[{\"name\":\"w0\",\"dtype\":\"float32\",\"shape\":[64,64]},{\"name\":\"w1\",\"dtype\":"
        "\"float32\","
        "\"shape\":[64,64]}],\"outputs\":[{\"name\":\"y\",\"dtype\":\"float32\",\"shape\":[\"n\",64]}],\"nodes\":["
        "{\"name\":\"mm0\",\"op\":\"MatMul\",\"inputs\":[\"x\",\"w0\"],\"outputs\":[\"h0\"]},"
        "{\"name\":\"relu0\",\"op\":\"Relu\",\"inputs\":[\"h0\"],\"outputs\":[\"a0\"]},"
        "{\"name\":\"mm1\",\"op\":\"MatMul\",\"inputs\":[\"a0\",\"w1\"],\"outputs\":[\"h1\"]},"
        "{\"name\":\"relu1\",\"op\":\"Relu\",\"inputs\":[\"h1\"],\"outputs\":[\"y\"]}]}";
    struct sp_buf file;
    onnx_mlp(&file, &(struct onnx_mlp){.layers = 2, .width = 64, .batch = "n"});
    json_t *described = inspect(text, strlen(text)), *read = inspect(file.data, file.size);
    /* Its producer, its graph's name and where its weights lie are its own. */
    static const char *const own[] = {"external_data", "producer", "name", "graph", "opsets"};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        (void)json_object_del(described, own[i]);
        (void)json_object_del(read, own[i]);
    }
    expect_same(described, read);
    sp_buf_release(&file);
}

static void add_weight(struct sp_buf *graph, const char *name, int offset)
{
    sp_buf_printf(
        graph, "5{1:64 1:64 2:1 8'%s' 13{1'location' 2'weights.bin'} 13{1'offset' 2'%d'} 13{1'length' 2'16384'} 14:1} ",
        name, offset);
}

static void add_node(struct sp_buf *graph, const char *name, const char *op, const char *a, const char *b,
                     const char *y, const char *attribute)
{
    sp_buf_printf(graph, "1{1'%s' ", a);
    if (b != NULL)
        sp_buf_printf(graph, "1'%s' ", b);
    sp_buf_printf(graph, "2'%s' 3'%s' 4'%s' %s} ", y, name, op, attribute);
}

/* The block of api/examples/attention.json, in protobuf's fields. */
static struct sp_buf attention(void)
{
    static const char heads[] = "5{1'perm' 20:7 8:0 8:2 8:1 8:3}", keys[] = "5{1'perm' 20:7 8:0 8:2 8:3 8:1}";
    struct sp_buf text, file;
    sp_buf_init(&text, (size_t)1 << 20);
    sp_buf_text(&text, "1:10 8{1'' 2:21} 7{2'attention' ");
    add_node(&text, "query", "MatMul", "x", "wq", "q", "");
    add_node(&text, "key", "MatMul", "x", "wk", "k", "");
    add_node(&text, "value", "MatMul", "x", "wv", "v", "");
    add_node(&text, "query_split", "Reshape", "q", "heads", "qs", "");
    add_node(&text, "key_split", "Reshape", "k", "heads", "ks", "");
    add_node(&text, "value_split", "Reshape", "v", "heads", "vs", "");
    add_node(&text, "query_heads", "Transpose", "qs", NULL, "qh", heads);
    add_node(&text, "key_heads", "Transpose", "ks", NULL, "kh", keys);
    add_node(&text, "value_heads", "Transpose", "vs", NULL, "vh", heads);
    add_node(&text, "scores", "MatMul", "qh", "kh", "s", "");
    add_node(&text, "scaled", "Mul", "s", "scale", "ss", "");
    add_node(&text, "weights", "Softmax", "ss", NULL, "p", "5{1'axis' 20:2 3:-1}");
    add_node(&text, "mixed", "MatMul", "p", "vh", "o", "");
    add_node(&text, "mixed_heads", "Transpose", "o", NULL, "ot", heads);
    add_node(&text, "join", "Reshape", "ot", "joined", "oj", "");
    add_node(&text, "output", "MatMul", "oj", "wo", "yo", "");
    add_node(&text, "residual", "Add", "yo", "x", "y", "");
    add_weight(&text, "wq", 0);
    add_weight(&text, "wk", 16384);
    add_weight(&text, "wv", 32768);
    add_weight(&text, "wo", 49152);
    sp_buf_text(&text, "5{1:4 2:7 8'heads' 9h0000000000000000000000000000000004000000000000001000000000000000} "
                       "5{1:3 2:7 8'joined' 9h000000000000000000000000000000004000000000000000} "
                       "5{2:1 8'scale' 9h0000803e} "
                       "11{1'x' 2{1{1:1 2{1{2'batch'} 1{2'seq'} 1{1:64}}}}} "
                       "12{1'y' 2{1{1:1 2{1{2'batch'} 1{2'seq'} 1{1:64}}}}}}");
    file = onnx_encode(text.data);
    sp_buf_release(&text);
    return file;
}

Test(json_graph, attention_is_inspected_as_the_file_is)
{
    size_t size;
    unsigned char *text = data_read(SOURCE_ROOT "/api/examples/attention.json", &size);
    struct sp_buf file = attention();
    cr_assert_not_null(text);
    json_t *described = inspect((const char *)text, size);
    const json_t *values = json_object_get(described, "values");
    json_t *expected = json_pack("[s, i, s, s]", "batch", 4, "seq", "seq");
    cr_expect(json_equal(json_object_get(json_object_get(values, "s"), "shape"), expected),
              "shapes follow from the constants");
    json_decref(expected);
    expect_same(described, inspect(file.data, file.size));
    sp_buf_release(&file);
    free(text);
}

/* The type of y and of z, which are inferred; a dimension that is an expression is left open. */
Test(json_graph, outputs_get_the_types_that_follow)
{
    expect_bytes(
        "{\"opset\":17,\"inputs\":[{\"name\":\"x\",\"dtype\":\"float32\",\"shape\":[\"n\",3]}],\"outputs\":[\"y\","
        "\"z\",{\"name\":\"x\"}],\"nodes\":[{\"op\":\"Relu\",\"inputs\":[\"x\"],\"outputs\":[\"y\"]},{\"op\":"
        "\"Concat\",\"inputs\":[\"x\",\"x\"],\"outputs\":[\"z\"],\"attributes\":{\"axis\":0}}]}",
        "1:8 8{1'' 2:17} 7{2'graph' 11{1'x' 2{1{1:1 2{1{2'n'} 1{1:3}}}}} 12{1'y' 2{1{1:1 2{1{2'n'} 1{1:3}}}}} "
        "12{1'z' 2{1{1:1 2{1{} 1{1:3}}}}} 12{1'x'} 1{1'x' 2'y' 4'Relu'} "
        "1{1'x' 1'x' 2'z' 4'Concat' 5{1'axis' 20:2 3:0}}}");
    /* A model that contradicts itself is left to whoever reads it. */
    expect_bytes(
        "{\"opset\":17,\"outputs\":[\"y\"],\"nodes\":[{\"op\":\"Relu\",\"inputs\":[\"x\"],\"outputs\":[\"y\"]}]}",
        "1:8 8{1'' 2:17} 7{2'graph' 12{1'y'} 1{1'x' 2'y' 4'Relu'}}");
}

/* Whatever the budget of a job is, it is enough or the job says so; the sanitizers see what is not given back. */
Test(json_graph, jobs_keep_to_their_budget)
{
    size_t size;
    unsigned char *text = data_read(SOURCE_ROOT "/api/examples/attention.json", &size);
    unsigned done = 0, refused = 0;
    cr_assert_not_null(text);
    for (size_t budget = 1024; budget < (size_t)4 << 20; budget += budget / 4) {
        struct sp_error err = {0};
        struct sp_job *job = NULL;
        enum sp_status status =
            sp_job_open(&(struct sp_job_options){.bytes = text, .size = size, .memory_budget = budget}, &job, &err);
        cr_expect(status == SP_OK || status == SP_ERR_MEMORY, "%zu bytes: %s", budget, err.message);
        done += status == SP_OK;
        refused += status == SP_ERR_MEMORY;
        sp_job_destroy(job);
    }
    cr_expect(done > 0 && refused > 5, "%u done, %u refused", done, refused);
    free(text);
}

/* ---- what is refused ------------------------------------------------------------------------------------------- */

static void expect_error(const char *text, const char *code, const char *where)
{
    struct sp_buf result;
    struct sp_error err;
    cr_expect_eq(convert(text, &result, &err), SP_ERR_MALFORMED, "%s: %s %s", text, err.code, err.message);
    cr_expect_str_eq(err.code, code, "%s: %s, not %s (%s)", text, err.code, code, err.message);
    cr_expect_str_eq(err.where, where, "%s: at '%s', not '%s'", text, err.where, where);
    sp_buf_release(&result);
}

Test(json_graph, documents_that_are_refused)
{
    expect_error("{\"nodes\":[]}", "MEMBER_MISSING", "");
    expect_error("{\"opset\":17}", "MEMBER_MISSING", "");
    expect_error("{\"opset\":17,\"nodes\":{}}", "ARRAY_EXPECTED", "/nodes");
    expect_error("{\"opset\":\"17\",\"nodes\":[]}", "OPSET_EXPECTED", "/opset");
    expect_error("{\"opset\":{\"\":0},\"nodes\":[]}", "NUMBER_OUT_OF_RANGE", "/opset/");
    expect_error("{\"opset\":{\"a/b\":1.5},\"nodes\":[]}", "INTEGER_EXPECTED", "/opset/a~1b");
    expect_error("{\"opset\":17,\"nodes\":[],\"opset\":17}", "MEMBER_TWICE", "/opset");
    expect_error("{\"opset\":17,\"nodes\":[],\"graph\":{}}", "MEMBER_UNKNOWN", "/graph");
    expect_error("{\"opset\":17,\"nodes\":[],\"name\":null}", "TEXT_EXPECTED", "/name");
    expect_error("{\"opset\":17,\"nodes\":[],\"metadata\":{\"a\":1}}", "TEXT_EXPECTED", "/metadata/a");
    expect_error("{\"opset\":17,\"nodes\":[],\"configurations\":[{\"devices\":1}]}", "MEMBER_UNKNOWN",
                 "/configurations/0/devices");
    expect_error("{\"opset\":17,\"nodes\":[],\"operators\":{}}", "ARRAY_EXPECTED", "/operators");
    expect_error("{\"opset\":17,\"nodes\":[],\"ir_version\":\"x\"}", "INTEGER_EXPECTED", "/ir_version");
}

Test(json_graph, values_that_are_refused)
{
    static const struct {
        const char *value, *code, *where;
    } cases[] = {
        {"1", "OBJECT_EXPECTED", "/inputs/1"},
        {"\"x\"", "OBJECT_EXPECTED", "/inputs/1"},
        {"{\"dtype\":\"float32\"}", "MEMBER_MISSING", "/inputs/1"},
        {"{\"name\":1}", "TEXT_EXPECTED", "/inputs/1/name"},
        {"{\"name\":\"x\",\"dtype\":\"float23\"}", "DTYPE_UNKNOWN", "/inputs/1/dtype"},
        {"{\"name\":\"x\",\"dtype\":1}", "DTYPE_UNKNOWN", "/inputs/1/dtype"},
        {"{\"name\":\"x\",\"dtype\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}", "DTYPE_UNKNOWN",
         "/inputs/1/dtype"},
        {"{\"name\":\"x\",\"shape\":[1]}", "MEMBER_MISSING", "/inputs/1"},
        {"{\"name\":\"x\",\"dtype\":\"int8\",\"shape\":4}", "ARRAY_EXPECTED", "/inputs/1/shape"},
        {"{\"name\":\"x\",\"dtype\":\"int8\",\"shape\":[4,-1]}", "NUMBER_OUT_OF_RANGE", "/inputs/1/shape/1"},
        {"{\"name\":\"x\",\"dtype\":\"int8\",\"shape\":[1.5]}", "INTEGER_EXPECTED", "/inputs/1/shape/0"},
        {"{\"name\":\"x\",\"dtype\":\"int8\",\"shape\":[[4]]}", "DIMENSION_EXPECTED", "/inputs/1/shape/0"},
        {"{\"name\":\"x\",\"dtype\":\"int8\",\"type\":{}}", "MEMBER_TWICE", "/inputs/1/type"},
        {"{\"name\":\"x\",\"type\":{\"tensorType\":{\"dtype\":1}}}", "MEMBER_UNKNOWN",
         "/inputs/1/type/tensorType/dtype"},
    };
    char text[512];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        (void)snprintf(text, sizeof text, "{\"opset\":17,\"nodes\":[],\"inputs\":[{\"name\":\"a\"},%s]}",
                       cases[i].value);
        expect_error(text, cases[i].code, cases[i].where);
    }
}

Test(json_graph, constants_that_are_refused)
{
    static const struct {
        const char *value, *code, *where;
    } cases[] = {
        {"\"dtype\":\"int8\",\"shape\":[1]", "MEMBER_MISSING", ""},
        {"\"name\":\"c\",\"shape\":[1]", "MEMBER_MISSING", ""},
        {"\"name\":\"c\",\"dtype\":\"int8\"", "MEMBER_MISSING", ""},
        {"\"name\":\"c\",\"dtype\":\"int8\",\"shape\":[\"n\"]", "NUMBER_EXPECTED", "/shape/0"},
        {"\"name\":\"c\",\"dtype\":\"int8\",\"shape\":[2],\"data\":[1]", "DATA_COUNT", "/data"},
        {"\"name\":\"c\",\"dtype\":\"int8\",\"shape\":[],\"data\":1", "ARRAY_EXPECTED", "/data"},
        {"\"name\":\"c\",\"dtype\":\"int8\",\"shape\":[1],\"data\":[[1]]", "NUMBER_EXPECTED", "/data/0"},
        {"\"name\":\"c\",\"dtype\":\"int8\",\"shape\":[2],\"data\":[1,128]", "NUMBER_OUT_OF_RANGE", "/data/1"},
        {"\"name\":\"c\",\"dtype\":\"uint8\",\"shape\":[1],\"data\":[-1]", "NUMBER_OUT_OF_RANGE", "/data/0"},
        {"\"name\":\"c\",\"dtype\":\"int64\",\"shape\":[1],\"data\":[0.5]", "INTEGER_EXPECTED", "/data/0"},
        {"\"name\":\"c\",\"dtype\":\"bool\",\"shape\":[1],\"data\":[2]", "NUMBER_OUT_OF_RANGE", "/data/0"},
        {"\"name\":\"c\",\"dtype\":\"bool\",\"shape\":[1],\"data\":[\"x\"]", "BOOLEAN_EXPECTED", "/data/0"},
        {"\"name\":\"c\",\"dtype\":\"float32\",\"shape\":[1],\"data\":[true]", "NUMBER_EXPECTED", "/data/0"},
        {"\"name\":\"c\",\"dtype\":\"float32\",\"shape\":[1],\"data\":[1e39]", "NUMBER_OUT_OF_RANGE", "/data/0"},
        {"\"name\":\"c\",\"dtype\":\"int4\",\"shape\":[1],\"data\":[1]", "DATA_UNSUPPORTED", "/data"},
        {"\"name\":\"c\",\"dtype\":\"float4e2m1\",\"shape\":[1],\"data\":[1]", "DATA_UNSUPPORTED", "/data"},
        {"\"name\":\"c\",\"dtype\":\"complex64\",\"shape\":[1],\"data\":[1]", "DATA_UNSUPPORTED", "/data"},
        {"\"name\":\"c\",\"dtype\":\"string\",\"shape\":[1]", "DATA_MISSING", "/dtype"},
        {"\"name\":\"c\",\"dtype\":\"string\",\"shape\":[1],\"data\":[1]", "TEXT_EXPECTED", "/data/0"},
        {"\"name\":\"c\",\"dtype\":\"int8\",\"shape\":[4294967296,4294967296]", "TENSOR_TOO_LARGE", "/shape"},
        {"\"name\":\"c\",\"dtype\":\"double\",\"shape\":[4294967296,2147483647]", "TENSOR_TOO_LARGE", "/shape"},
    };
    char text[512], where[128];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        (void)snprintf(text, sizeof text, "{\"opset\":17,\"nodes\":[],\"initializers\":[{%s}]}", cases[i].value);
        (void)snprintf(where, sizeof where, "/initializers/0%s", cases[i].where);
        expect_error(text, cases[i].code, where);
    }
    /* 16 weights of 2^59 bytes are one byte more than can be counted. */
    struct sp_buf many;
    sp_buf_init(&many, 1 << 16);
    sp_buf_text(&many, "{\"opset\":17,\"nodes\":[],\"initializers\":[");
    for (int i = 0; i < 16; i++)
        sp_buf_printf(&many, "%s{\"name\":\"w%d\",\"dtype\":\"int8\",\"shape\":[576460752303423488]}",
                      i == 0 ? "" : ",", i);
    sp_buf_text(&many, "]}");
    expect_error(many.data, "TENSOR_TOO_LARGE", "/initializers/15/shape");
    sp_buf_release(&many);
}

Test(json_graph, nodes_that_are_refused)
{
    static const struct {
        const char *node, *code, *where;
    } cases[] = {
        {"3", "OBJECT_EXPECTED", "/nodes/0"},
        {"{}", "MEMBER_MISSING", "/nodes/0"},
        {"{\"op\":1}", "TEXT_EXPECTED", "/nodes/0/op"},
        {"{\"op_type\":\"Relu\"}", "MEMBER_UNKNOWN", "/nodes/0/op_type"},
        {"{\"op\":\"Relu\",\"inputs\":\"x\"}", "ARRAY_EXPECTED", "/nodes/0/inputs"},
        {"{\"op\":\"Relu\",\"inputs\":[null]}", "TEXT_EXPECTED", "/nodes/0/inputs/0"},
        {"{\"op\":\"R\",\"attributes\":[]}", "OBJECT_EXPECTED", "/nodes/0/attributes"},
        {"{\"op\":\"R\",\"attributes\":{\"a\":null}}", "ATTRIBUTE_KIND", "/nodes/0/attributes/a"},
        {"{\"op\":\"R\",\"attributes\":{\"a\":[]}}", "ATTRIBUTE_KIND", "/nodes/0/attributes/a"},
        {"{\"op\":\"R\",\"attributes\":{\"a\":[1,\"b\"]}}", "ATTRIBUTE_KIND", "/nodes/0/attributes/a"},
        {"{\"op\":\"R\",\"attributes\":{\"a\":{}}}", "ATTRIBUTE_KIND", "/nodes/0/attributes/a"},
        {"{\"op\":\"R\",\"attributes\":{\"a\":{\"int\":1,\"float\":1}}}", "ATTRIBUTE_KIND", "/nodes/0/attributes/a"},
        {"{\"op\":\"R\",\"attributes\":{\"a\":{\"double\":1}}}", "MEMBER_UNKNOWN", "/nodes/0/attributes/a/double"},
        {"{\"op\":\"R\",\"attributes\":{\"a\":{\"int\":1.5}}}", "INTEGER_EXPECTED", "/nodes/0/attributes/a/int"},
        {"{\"op\":\"R\",\"attributes\":{\"a\":{\"ints\":1}}}", "ARRAY_EXPECTED", "/nodes/0/attributes/a/ints"},
        {"{\"op\":\"R\",\"attributes\":{\"a\":{\"ints\":[1,\"\"]}}}", "NUMBER_EXPECTED",
         "/nodes/0/attributes/a/ints/1"},
        {"{\"op\":\"Gemm\",\"attributes\":{\"transA\":0.5}}", "INTEGER_EXPECTED", "/nodes/0/attributes/transA"},
        {"{\"op\":\"R\",\"attributes\":{\"a\":{\"tensor\":{\"dtype\":\"int8\",\"shape\":[1]}}}}", "MEMBER_MISSING",
         "/nodes/0/attributes/a/tensor"},
        {"{\"op\":\"R\",\"attributes\":{\"a\":{\"graph\":1}}}", "OBJECT_EXPECTED", "/nodes/0/attributes/a/graph"},
        {"{\"op\":\"R\",\"attributes\":{\"a\":{\"graphs\":[{\"nodes\":[{}]}]}}}", "MEMBER_MISSING",
         "/nodes/0/attributes/a/graphs/0/nodes/0"},
        {"{\"op\":\"R\",\"attributes\":{\"a\":{\"graph\":{\"opset\":1}}}}", "MEMBER_UNKNOWN",
         "/nodes/0/attributes/a/graph/opset"},
        {"{\"op\":\"R\",\"configurations\":[{\"stage\":2147483648}]}", "NUMBER_OUT_OF_RANGE",
         "/nodes/0/configurations/0/stage"},
        {"{\"op\":\"R\",\"configurations\":[{\"specs\":[{\"devices\":[]}]}]}", "MEMBER_UNKNOWN",
         "/nodes/0/configurations/0/specs/0/devices"},
    };
    char text[512];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        (void)snprintf(text, sizeof text, "{\"opset\":17,\"nodes\":[%s]}", cases[i].node);
        expect_error(text, cases[i].code, cases[i].where);
    }
}

Test(json_graph, graphs_nest_as_deep_as_files_may)
{
    for (int depth = 20; depth <= 22; depth++) {
        struct sp_buf text, result;
        struct sp_error err;
        sp_buf_init(&text, (size_t)1 << 20);
        sp_buf_text(&text, "{\"opset\":17,\"nodes\":[");
        for (int i = 0; i < depth; i++)
            sp_buf_text(&text, "{\"op\":\"If\",\"attributes\":{\"then_branch\":{\"graph\":{\"nodes\":[");
        for (int i = 0; i < depth; i++)
            sp_buf_text(&text, "]}}}}");
        sp_buf_text(&text, "]}");
        /* The graph, and three messages each time: 64 at depth 21. */
        cr_expect_eq(convert(text.data, &result, &err), depth <= 21 ? SP_OK : SP_ERR_LIMIT, "%d: %s", depth,
                     err.message);
        if (depth > 21)
            cr_expect_str_eq(err.limit, "SP_MAX_NESTING");
        sp_buf_release(&text);
        sp_buf_release(&result);
    }
}
