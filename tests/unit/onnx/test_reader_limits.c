/* Hostile, broken and foreign input: each gets a status, a code and the name of the limit. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "base/limits.h"
#include "onnx_files.h"

#define MODEL(graph) "1:8 8{2:17} 7{2'g' " graph "}"

static void expect_limit(const char *notation, const char *code, const char *limit)
{
    onnx_expect(notation, SP_ERR_LIMIT, code, limit);
}

Test(reader_limits, names_what_is_no_model)
{
    static const struct {
        const char *bytes;
        size_t size;
        const char *what;
    } cases[] = {
        {"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16, "a PNG image"},
        {"\x1f\x8b\x08\0\0\0\0\0", 8, "gzip"},
        {"PK\x03\x04\x14\0\0\0", 8, "a zip archive"},
        {"{\"nodes\": []}", 13, "JSON"},
        {" [1, 2]", 7, "JSON"},
        {"<!doctype html><p>", 18, "HTML"},
        {"<ir_version: 8>", 15, "ONNX in its text form"},
        {"ir_version: 8\ngraph {\n}\n", 24, "protobuf's text form"},
        {"hello", 5, "plain text"},
        {"\x80\x02}q\x00.", 6, "a Python pickle"},
        {"\x10\0\0\0\0\0\0\0{\"a\":0}         ", 24, "a safetensors file"},
        {"\x89HDF\r\n\x1a\n\0\0", 10, "an HDF5 file"},
        {"\x7f"
         "ELF\x02\x01\x01\0",
         8, "an ELF program"},
        {"\x1c\0\0\0TFL3", 8, "a TensorFlow Lite model"},
        {"version https://git-lfs.github.com/spec/v1\n", 43, "a Git LFS pointer"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct onnx_model m;
        cr_expect_eq(onnx_read(&m, cases[i].bytes, cases[i].size), SP_ERR_MALFORMED, "%s", cases[i].what);
        cr_expect_str_eq(m.err.code, "NOT_ONNX", "%s: %s", cases[i].what, m.err.message);
        cr_expect(strstr(m.err.message, cases[i].what) != NULL, "%s, not %s", m.err.message, cases[i].what);
        onnx_release(&m);
    }
    onnx_expect_bytes("", 0, SP_ERR_MALFORMED, "EMPTY_INPUT", NULL);
    onnx_expect_bytes("\x08", 1, SP_ERR_MALFORMED, "MALFORMED_PROTOBUF", NULL);
    onnx_expect("1:8 8{2:17}", SP_ERR_MALFORMED, "NO_GRAPH", NULL);
}

Test(reader_limits, refuses_repeated_singular_messages)
{
    onnx_expect("1:8 7{2'g'}*80000", SP_ERR_MALFORMED, "MALFORMED_PROTOBUF", NULL);
    onnx_expect(MODEL("1{2'y' 4'R' 5{1'a' 5{2:1} 5{2:1} 20:4}}"), SP_ERR_MALFORMED, "MALFORMED_PROTOBUF", NULL);
    onnx_expect(MODEL("11{1'x' 2{} 2{}}"), SP_ERR_MALFORMED, "MALFORMED_PROTOBUF", NULL);
    onnx_expect(MODEL("11{1'x' 2{1{2{} 2{}}}}"), SP_ERR_MALFORMED, "MALFORMED_PROTOBUF", NULL);
    onnx_expect(MODEL("15{1{2:1} 1{2:1}}"), SP_ERR_MALFORMED, "MALFORMED_PROTOBUF", NULL);
    /* Known fields with a wrong wire type. */
    onnx_expect("1'x' 7{2'g'}", SP_ERR_MALFORMED, "MALFORMED_PROTOBUF", NULL);
    onnx_expect(MODEL("1:5"), SP_ERR_MALFORMED, "MALFORMED_PROTOBUF", NULL);
    onnx_expect(MODEL("11{1'x' 2{1{1'x'}}}"), SP_ERR_MALFORMED, "MALFORMED_PROTOBUF", NULL);
}

/* `inner` as a message in the first of these fields, that in the second, and so on. Takes `inner`. */
static struct sp_buf wrap(struct sp_buf inner, const char *fields)
{
    for (const char *at = fields; *at != '\0'; at = strchr(at, ' ') == NULL ? "" : strchr(at, ' ') + 1) {
        struct sp_buf outer = onnx_encode("");
        unsigned char head[11] = {(unsigned char)(strtoull(at, NULL, 10) << 3 | 2)};
        uint32_t width = 1;
        for (size_t left = inner.size;; left >>= 7) {
            head[width++] = (unsigned char)((left & 0x7f) | (left > 0x7f ? 0x80 : 0));
            if (left <= 0x7f)
                break;
        }
        sp_buf_append(&outer, head, width);
        sp_buf_append(&outer, inner.data, inner.size);
        sp_buf_release(&inner);
        inner = outer;
    }
    return inner;
}

static void nested_graphs(int levels, enum sp_status status)
{
    struct sp_buf graph = onnx_encode("12{1'c'}");
    for (int i = 0; i < levels; i++) {
        /* graph -> attribute (with name) -> node (with output) -> graph */
        struct sp_buf attribute = wrap(graph, "6"), node, name = onnx_encode("1'g' 20:5"),
                      rest = onnx_encode("2'' 4'If'");
        sp_buf_append(&attribute, name.data, name.size);
        node = wrap(attribute, "5");
        sp_buf_append(&node, rest.data, rest.size);
        graph = wrap(node, "1");
        sp_buf_release(&name);
        sp_buf_release(&rest);
    }
    struct sp_buf input = onnx_encode("11{1'c'}");
    sp_buf_append(&graph, input.data, input.size);
    sp_buf_release(&input);
    struct sp_buf file = wrap(graph, "7");
    if (status == SP_OK) {
        struct onnx_model m;
        cr_expect_eq(onnx_read(&m, file.data, file.size), SP_OK, "%s", m.err.message);
        onnx_release(&m);
    } else {
        onnx_expect_bytes(file.data, file.size, status, "NESTING_TOO_DEEP", "SP_MAX_NESTING");
    }
    sp_buf_release(&file);
}

Test(reader_limits, bounds_nesting)
{
    nested_graphs(SP_MAX_NESTING, SP_OK);
    nested_graphs(SP_MAX_NESTING + 1, SP_ERR_LIMIT);
    nested_graphs(5000, SP_ERR_LIMIT);
    /* TypeProto -> Sequence -> TypeProto ...: wrapped alternately in fields 1 and 4. */
    struct sp_buf type = onnx_encode("1{1:1}");
    for (int i = 0; i < 5000; i++)
        type = wrap(type, "1 4");
    struct sp_buf value = wrap(type, "2"), name = onnx_encode("1'x'");
    sp_buf_append(&value, name.data, name.size);
    struct sp_buf file = wrap(value, "11 7");
    onnx_expect_bytes(file.data, file.size, SP_ERR_LIMIT, "NESTING_TOO_DEEP", "SP_MAX_NESTING");
    sp_buf_release(&name);
    sp_buf_release(&file);
}

Test(reader_limits, bounds_floods)
{
    expect_limit(MODEL("1{}*1000000"), "MODEL_TOO_COMPLEX", "SP_MAX_EMPTY_RECORDS");
    expect_limit(MODEL("5{}*1000000"), "MODEL_TOO_COMPLEX", "SP_MAX_EMPTY_RECORDS");
    expect_limit(MODEL("13{}*1000000"), "MODEL_TOO_COMPLEX", "SP_MAX_EMPTY_RECORDS");
    expect_limit(MODEL("11{1'x'} 1{1'x' 2'y' 4'R' 5{}*1000000}"), "MODEL_TOO_COMPLEX", "SP_MAX_NODE_ATTRIBUTES");
    expect_limit(MODEL("1{1''*1000000 2'y' 4'R'}"), "MODEL_TOO_COMPLEX", "SP_MAX_NODE_OPERANDS");
    expect_limit(MODEL("1{2''*1000000 4'R'}"), "MODEL_TOO_COMPLEX", "SP_MAX_NODE_OPERANDS");
    expect_limit(MODEL("1{2'y' 4'R' 5{1'a' 8:0*2000000}}"), "MODEL_TOO_COMPLEX", "SP_MAX_ATTRIBUTE_ITEMS");
    expect_limit(MODEL("1{2'y' 4'R' 5{1'a' 9''*2000000}}"), "MODEL_TOO_COMPLEX", "SP_MAX_ATTRIBUTE_ITEMS");
    expect_limit(MODEL("99:1*2000000"), "MODEL_TOO_COMPLEX", "SP_MAX_UNKNOWN_FIELDS");
    expect_limit("7{2'g'} 25{1'f'}*20000", "MODEL_TOO_COMPLEX", "SP_MAX_FUNCTIONS");
    expect_limit("7{2'g'} 14{1'a'}*100000", "MODEL_TOO_COMPLEX", "SP_MAX_METADATA");
    expect_limit(MODEL("11{1'x' 2{1{2{1{}*1000}}}}"), "RANK_TOO_LARGE", "SP_MAX_RANK");
    expect_limit(MODEL("5{8'w' 2:1 1:1*1000}"), "RANK_TOO_LARGE", "SP_MAX_RANK");
    expect_limit("7{2'g'} 26{3''*1000000}", "RECORD_TOO_LARGE", "SP_MAX_RECORD_BYTES");
}

/* 2 MB of the smallest records must not take a hundred times their size. */
Test(reader_limits, bounds_memory)
{
    static const char *const floods[] = {MODEL("1{}*1000000"), MODEL("1{4'A'}*400000"), MODEL("5{}*1000000"),
                                         MODEL("1{2'' 4'A'}*200000"), MODEL("5{2:1}*400000")};
    for (size_t i = 0; i < sizeof floods / sizeof floods[0]; i++) {
        struct sp_buf file = onnx_encode(floods[i]);
        struct sp_budget budget = {.limit = 64u << 20};
        struct sp_arena *arena = sp_arena_create(&budget);
        struct sp_model *model;
        struct sp_error err = {0};
        enum sp_status status = sp_onnx_read(arena, file.data, file.size, NULL, &model, &err);
        cr_expect_neq(status, SP_ERR_MEMORY, "flood %zu", i);
        cr_expect(budget.peak < 48u << 20, "flood %zu takes %zu bytes", i, budget.peak);
        sp_arena_destroy(arena);
        sp_buf_release(&file);
    }
}

/* Out of memory at any point is an error, not a crash; ASan looks for leaks. */
Test(reader_limits, survives_any_budget)
{
    struct sp_buf file = onnx_encode("1:11 8{2:17} 26{1'c' 2:2} 14{1'k' 2'v'} 25{1'f' 10'd' 4'x' 5'y' 7{1'x' 2'y' "
                                     "4'Relu'}} 7{2'g' 11{1'x' 2{4{1{1{1:1 "
                                     "2{1{2'n'}}}}}}} 1{1'x' 2'y' 4'f' 7'd' 10{1'c' 2{1'x' 2:0 4{1:0 2{3:2}}}}} 1{1'y' "
                                     "2'z' 4'If' 5{1'b' 20:5 6{12{1'x'}}} "
                                     "5{1't' 5{2:1 1:2 4h0000000000000000} 20:4}} 12{1'z'}}");
    for (size_t limit = 1; limit < 60000; limit += limit < 20000 ? 97 : 997) {
        struct sp_budget budget = {.limit = limit};
        struct sp_arena *arena = sp_arena_create(&budget);
        struct sp_model *model;
        struct sp_error err = {0};
        if (arena != NULL) {
            enum sp_status status = sp_onnx_read(arena, file.data, file.size, NULL, &model, &err);
            cr_expect(status == SP_OK || status == SP_ERR_MEMORY, "%s", err.message);
        }
        sp_arena_destroy(arena);
        cr_expect_eq(budget.used, 0);
    }
    sp_buf_release(&file);
}

Test(reader_limits, checks_names)
{
    onnx_expect(MODEL("11h0a02fffe"), SP_ERR_MALFORMED, "INVALID_TEXT", NULL);
    onnx_expect(MODEL("11h0a02c0af"), SP_ERR_MALFORMED, "INVALID_TEXT", NULL);
    onnx_expect(MODEL("11h0a03610062"), SP_ERR_MALFORMED, "INVALID_TEXT", NULL);
    onnx_expect(MODEL("11h0a016112090a0712050a03120100"), SP_ERR_MALFORMED, "INVALID_TEXT", NULL);
    struct sp_buf text;
    sp_buf_init(&text, 1 << 20);
    sp_buf_text(&text, "7{11{1'");
    for (int i = 0; i <= SP_MAX_NAME_BYTES; i++)
        sp_buf_text(&text, "n");
    sp_buf_text(&text, "'}}");
    expect_limit(text.data, "NAME_TOO_LONG", "SP_MAX_NAME_BYTES");
    sp_buf_release(&text);
}

/* Every prefix of a small model and of a real one at every 1,000th byte. */
static void cut(const void *bytes, size_t size, size_t step)
{
    for (size_t length = 0; length < size; length += step) {
        struct onnx_model m;
        void *copy = malloc(length == 0 ? 1 : length);
        cr_assert_not_null(copy);
        memcpy(copy, bytes, length);
        if (onnx_read(&m, copy, length) != SP_OK)
            cr_expect(m.err.code[0] != '\0' && m.err.message[0] != '\0' && m.err.status == SP_ERR_MALFORMED,
                      "cut at %zu: %s", length, m.err.message);
        onnx_release(&m);
        free(copy);
    }
}

Test(reader_limits, refuses_truncated_models)
{
    /* The graph comes last, so every prefix lacks it or cuts it. */
    struct sp_buf file =
        onnx_encode("1:8 8{2:17} 7{2'g' 11{1'x' 2{1{1:1 2{1{1:4}}}}} 5{8'w' 2:1 1:2 9h0000000000000000} "
                    "1{1'x' 1'w' 2'y' 4'Add' 5{1'a' 8h010203 20:7}} 12{1'y'}}");
    for (size_t length = 1; length < file.size; length++) {
        struct onnx_model m;
        cr_expect_eq(onnx_read(&m, file.data, length), SP_ERR_MALFORMED, "cut at %zu: %s", length, m.err.message);
        onnx_release(&m);
    }
    sp_buf_release(&file);
}

static void cut_file(const char *path, const void *bytes, size_t size, void *context)
{
    (void)context;
    if (size < 2000000 && strstr(path, "bert_tiny") != NULL)
        cut(bytes, size, 1000);
}

Test(reader_limits, refuses_truncated_real_models)
{
    if (!onnx_each_file(onnx_data("models"), cut_file, NULL))
        cr_skip("no test data");
}
