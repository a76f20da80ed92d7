/* Reading, writing and validating: text and bytes. */
#include <inttypes.h>
#include <string.h>

#include "sharding_cases.h"

static void check_parse_print(struct test *test)
{
    const struct sp_hlo *hlo = read_hlo(test, get_text(test, "input"));
    if (hlo)
        expect_text(test, write_hlo(test, hlo, json_is_true(json_object_get(test->in, "with_metadata"))));
}

static void check_text_error(struct test *test)
{
    const char *text = get_text(test, "input");
    const char *wording = json_string_value(json_object_get(test->in, "message_contains"));
    struct sp_hlo *hlo;
    if (strcmp(get_text(test, "expect"), "error") != 0)
        differs(test, "the case expects no error");
    if (sp_hlo_read_text(test->arena, text, strlen(text), &hlo, &test->err) == SP_OK)
        return differs(test, "read as %s", write_hlo(test, hlo, true));
    if (wording && !strstr(test->err.message, wording))
        differs(test, "expected %s in: %s", wording, test->err.message);
    if (test->err.where[0] == '\0')
        differs(test, "no place: %s", test->err.message);
}

/* ---- validation ---- */

/* Shapes are lists of extents, {"tuple": [..]} or {"token": true}; the tuples still to be read wait in a queue. */
static const struct sp_hlo_shape *read_shape(struct test *test, const json_t *in)
{
    enum { MAX_SHAPES = 256 };
    struct sp_hlo_shape *shapes = SP_NEW_ARRAY(test->arena, MAX_SHAPES, struct sp_hlo_shape);
    const json_t *sources[MAX_SHAPES];
    uint32_t count = 1;
    sources[0] = in;
    for (uint32_t i = 0; i < count; i++) {
        const json_t *tuple = json_object_get(sources[i], "tuple");
        size_t size = json_array_size(tuple ? tuple : sources[i]);
        shapes[i].is_token =
            json_is_true(json_object_get(sources[i], "token")) || json_is_string(sources[i]); /* "token" */
        if (tuple && size <= MAX_SHAPES - count) {
            shapes[i].is_tuple = true;
            shapes[i].element_count = (uint32_t)size;
            shapes[i].elements = shapes + count;
            for (size_t e = 0; e < size; e++)
                sources[count++] = json_array_get(tuple, e);
        } else if (!tuple) {
            int64_t *dims = SP_NEW_ARRAY(test->arena, size + 1, int64_t);
            for (size_t d = 0; d < size; d++)
                dims[d] = json_integer_value(json_array_get(sources[i], d));
            shapes[i].rank = (uint32_t)size;
            shapes[i].dims = dims;
        }
    }
    return shapes;
}

static void check_validate(struct test *test)
{
    const char *expected = get_text(test, "expect");
    const char *wording = json_string_value(json_object_get(test->in, "message_contains"));
    const char *text = get_text(test, "sharding");
    const struct sp_hlo_shape *shape = read_shape(test, json_object_get(test->in, "shape"));
    const int64_t devices = get_number(test, "num_devices");
    struct sp_hlo *hlo;
    enum sp_status status = sp_hlo_read_text(test->arena, text, strlen(text), &hlo, &test->err);
    if (status == SP_OK)
        status = sp_hlo_validate(hlo, shape, devices, &test->err);
    if ((status == SP_OK) != (strcmp(expected, "ok") == 0))
        differs(test, "expected %s, found %s %s", expected, sp_status_name(status), test->err.message);
    if (status != SP_OK && wording && !strstr(test->err.message, wording))
        differs(test, "expected %s in: %s", wording, test->err.message);
}

/* ---- bytes ---- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static unsigned char *read_hex(struct test *test, const char *key, size_t *ret_size)
{
    const char *hex = get_text(test, key);
    size_t size = strlen(hex) / 2;
    unsigned char *bytes = SP_NEW_ARRAY(test->arena, size + 1, unsigned char);
    for (size_t i = 0; i < size; i++) {
        int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);
        if (high < 0 || low < 0)
            differs(test, "%s is not hexadecimal", key);
        else
            bytes[i] = (unsigned char)(high * 16 + low);
    }
    *ret_size = size;
    return bytes;
}

static const char *write_hex(struct test *test, const struct sp_hlo *hlo)
{
    static const char digits[] = "0123456789abcdef";
    struct sp_buf buf, hex;
    sp_buf_init(&buf, SP_MAX_SHARDING_BYTES);
    sp_buf_init(&hex, 2 * SP_MAX_SHARDING_BYTES);
    const char *text = "?";
    if (sp_hlo_write_proto(test->arena, hlo, &buf, &test->err) == SP_OK) {
        for (size_t i = 0; i < buf.size; i++) {
            unsigned char byte = (unsigned char)buf.data[i];
            sp_buf_append(&hex, &digits[byte >> 4], 1);
            sp_buf_append(&hex, &digits[byte & 15], 1);
        }
        text = sp_arena_string(test->arena, hex.data ? hex.data : "", hex.size);
    } else
        differs(test, "not written: %s", test->err.message);
    sp_buf_release(&buf);
    sp_buf_release(&hex);
    return text;
}

/*
 * Bytes that are canonical come back. Those of a form that is normalised on reading (one device, groups of one) do not;
 * they must become the bytes of what they were read as.
 */
static void check_proto(struct test *test)
{
    size_t size;
    const unsigned char *bytes = read_hex(test, "hex", &size);
    members_skip(test->in, "textproto"); /* what the bytes were made of */
    const bool ok = strcmp(get_text(test, "expect"), "ok") == 0;
    struct sp_hlo *hlo;
    enum sp_status status = sp_hlo_read_proto(test->arena, bytes, size, &hlo, &test->err);
    if (!ok) {
        if (status == SP_OK)
            differs(test, "read as %s", write_hlo(test, hlo, true));
        return;
    }
    if (status != SP_OK)
        return differs(test, "not read: %s", test->err.message);
    const char *text = get_text(test, "text"), *found = write_hlo(test, hlo, true);
    if (strcmp(text, found) != 0)
        differs(test, "expected %s, found %s", text, found);
    const char *hex = get_text(test, "hex"), *back = write_hex(test, hlo);
    if (strcmp(hex, back) == 0)
        return;
    const struct sp_hlo *of_text = read_hlo(test, text);
    if (of_text && strcmp(write_hex(test, of_text), back) != 0)
        differs(test, "bytes come back as %s", back);
    else
        printf("# %s is normalised to %s\n", json_string_value(json_object_get(test->in, "id")), back);
}

static void expect_list(struct test *test, const json_t *fields, const char *key, int64_t count, const int64_t *found)
{
    const json_t *expected = json_object_get(fields, key);
    if (!expected)
        return;
    if ((int64_t)json_array_size(expected) != count)
        differs(test, "%s has %" PRId64 " entries", key, count);
    for (int64_t i = 0; i < count; i++)
        if (json_integer_value(json_array_get(expected, (size_t)i)) != found[i])
            differs(test, "%s[%" PRId64 "] is %" PRId64, key, i, found[i]);
}

/* Fields by their names in xla_data.proto, or the text. */
static void check_decode_hex(struct test *test)
{
    static const char *const types[] = {"REPLICATED", "MAXIMAL", "TUPLE", "OTHER", "MANUAL", "UNKNOWN", "UNREDUCED"};
    size_t size;
    const unsigned char *bytes = read_hex(test, "hex", &size);
    const json_t *expected = json_object_get(test->in, "expect");
    const json_t *fields = json_is_object(expected) ? expected : json_object_get(test->in, "fields");
    const char *text = json_string_value(json_object_get(test->in, "text"));
    struct sp_hlo *hlo;
    if (sp_hlo_read_proto(test->arena, bytes, size, &hlo, &test->err) != SP_OK)
        return differs(test, "not read: %s", test->err.message);
    if (!text && json_is_string(expected))
        text = json_string_value(expected);
    if (!text && !fields)
        differs(test, "the case expects neither a text nor fields");
    if (text && text[0] == '{' && strcmp(text, write_hlo(test, hlo, true)) != 0)
        differs(test, "found %s", write_hlo(test, hlo, true));
    const json_t *type = json_object_get(fields, "type");
    if (json_is_string(type) ? strcmp(json_string_value(type), types[hlo->type]) != 0
                             : type && json_integer_value(type) != (json_int_t)hlo->type)
        differs(test, "the type is %s", types[hlo->type]);
    expect_list(test, fields, "tile_assignment_dimensions", hlo->dim_count, hlo->dims);
    if (hlo->order.ids)
        expect_list(test, fields, "tile_assignment_devices", hlo->order.count, hlo->order.ids);
    else
        expect_list(test, fields, "iota_reshape_dims", hlo->order.rank, hlo->order.dims);
    if (strcmp(get_text(test, "hex"), write_hex(test, hlo)) != 0)
        differs(test, "other bytes come back: %s", write_hex(test, hlo));
}

const struct check text_checks[] = {
    {"text_parse_print", check_parse_print},
    {"text_error", check_text_error},
    {"must_reject", check_text_error},
    {"validate", check_validate},
    {"proto", check_proto},
    {"proto_decode_hex", check_decode_hex},
    {NULL, NULL},
};
