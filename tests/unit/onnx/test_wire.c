#include <criterion/criterion.h>
#include <math.h>

#include "base/utf8.h"
#include "onnx/float_bits.h"
#include "onnx/wire.h"

/* The fields of these bytes; the last is number 0. Returns the status. */
static enum sp_status walk(const char *bytes, size_t size, struct sp_wire_field *fields, struct sp_error *err)
{
    struct sp_wire wire = sp_wire_of((const unsigned char *)bytes, (struct sp_span){0, size});
    enum sp_status status;
    sp_error_clear(err);
    do {
        status = sp_wire_next(&wire, fields, err);
    } while (status == SP_OK && fields++->number != 0);
    return status;
}

static void expect_broken(const char *bytes, size_t size, const char *where)
{
    struct sp_wire_field fields[8];
    struct sp_error err;
    cr_expect_eq(walk(bytes, size, fields, &err), SP_ERR_MALFORMED);
    cr_expect_str_eq(err.code, "MALFORMED_PROTOBUF");
    cr_expect_str_eq(err.where, where, "%s, not %s", err.where, where);
}
#define BROKEN(bytes, where) expect_broken((bytes), sizeof(bytes) - 1, (where))

/* protobuf's encoding guide: field 1 with 150 is 08 96 01, field 2 with "testing" is 12 07 74 65 73 74 69 6e 67. */
Test(wire, walks_the_four_wire_types)
{
    struct sp_wire_field fields[8];
    struct sp_error err;
    static const char bytes[] = "\x08\x96\x01\x12\x07testing\x1d\0\0\x80\x3f\x21\x01\0\0\0\0\0\0\0";
    cr_assert_eq(walk(bytes, sizeof bytes - 1, fields, &err), SP_OK);
    cr_expect(fields[0].number == 1 && fields[0].type == SP_WIRE_VARINT && fields[0].value == 150);
    cr_expect(fields[1].number == 2 && fields[1].type == SP_WIRE_LEN && fields[1].payload.offset == 5 &&
              fields[1].payload.size == 7 && fields[1].length_at == 4 && fields[1].at == 3);
    cr_expect(fields[2].number == 3 && sp_wire_float(fields[2].value) == 1.0);
    cr_expect(fields[3].number == 4 && fields[3].type == SP_WIRE_I64 && fields[3].value == 1);
    cr_expect_eq(fields[4].number, 0);
}

Test(wire, refuses_broken_fields_with_their_place)
{
    BROKEN("\x08", "byte 1");                                             /* varint cut off */
    BROKEN("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", "byte 1");     /* 65 bits */
    BROKEN("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "byte 1"); /* 11 bytes */
    BROKEN("\x10\x01\x00\x01", "byte 2");                                 /* field number 0 */
    BROKEN("\x13", "byte 0");                                             /* group */
    BROKEN("\x14", "byte 0");
    BROKEN("\x16", "byte 0"); /* wire types 6, 7 */
    BROKEN("\x17", "byte 0");
    BROKEN("\x12\x05"
           "abcd",
           "byte 1");                                 /* longer than what is left */
    BROKEN("\x12\x80\x80\x80\x80\x80\x00", "byte 1"); /* length of 6 bytes */
    BROKEN("\x12\xff\xff\xff\xff\x0f", "byte 1");     /* 2^32 - 1 bytes */
    BROKEN("\x1d\0\0", "byte 1");                     /* fixed 32 cut off */
    BROKEN("\x21\0\0\0\0\0\0", "byte 1");             /* fixed 64 cut off */
    BROKEN("\x80\x80\x80\x80\x10\x01", "byte 0");     /* field number 2^29 */
    BROKEN("\xff", "byte 0");                         /* tag cut off */
}

Test(wire, accepts_what_is_unusual_but_allowed)
{
    struct sp_wire_field fields[4];
    struct sp_error err;
    static const char minus_one[] = "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    cr_assert_eq(walk(minus_one, sizeof minus_one - 1, fields, &err), SP_OK);
    cr_expect_eq((int64_t)fields[0].value, -1);
    static const char wide_length[] = "\x12\x81\x80\x80\x80\x00x"; /* length 1 in five bytes */
    cr_assert_eq(walk(wide_length, sizeof wide_length - 1, fields, &err), SP_OK);
    cr_expect(fields[0].payload.size == 1 && fields[0].payload.offset == 6);
    cr_assert_eq(walk("", 0, fields, &err), SP_OK);
    cr_expect_eq(fields[0].number, 0);
}

Test(wire, reads_packed_and_unpacked_items)
{
    static const char bytes[] = "\x08\x05\x0a\x03\x01\xac\x02\x15\0\0\0\x40\x12\x08\0\0\x80\x3f\0\0\0\x40";
    struct sp_wire_field fields[8];
    struct sp_error err;
    uint64_t count, at;
    const unsigned char *base = (const unsigned char *)bytes;
    cr_assert_eq(walk(bytes, sizeof bytes - 1, fields, &err), SP_OK);
    cr_assert_eq(sp_wire_count_items(base, &fields[0], SP_WIRE_VARINT, &count, &err), SP_OK);
    at = fields[0].payload.offset;
    cr_expect(count == 1 && sp_wire_item(base, &fields[0], SP_WIRE_VARINT, &at) == 5);
    cr_assert_eq(sp_wire_count_items(base, &fields[1], SP_WIRE_VARINT, &count, &err), SP_OK);
    at = fields[1].payload.offset;
    cr_expect_eq(count, 2);
    cr_expect_eq(sp_wire_item(base, &fields[1], SP_WIRE_VARINT, &at), 1);
    cr_expect_eq(sp_wire_item(base, &fields[1], SP_WIRE_VARINT, &at), 300);
    cr_assert_eq(sp_wire_count_items(base, &fields[3], SP_WIRE_I32, &count, &err), SP_OK);
    at = fields[3].payload.offset;
    cr_expect_eq(count, 2);
    cr_expect_eq(sp_wire_float(sp_wire_item(base, &fields[3], SP_WIRE_I32, &at)), 1.0);
    cr_expect_eq(sp_wire_float(sp_wire_item(base, &fields[3], SP_WIRE_I32, &at)), 2.0);
    /* Three bytes are no whole number of fixed 32-bit items; a fixed item is no varint. */
    cr_expect_eq(sp_wire_count_items(base, &fields[1], SP_WIRE_I32, &count, &err), SP_ERR_MALFORMED);
    cr_expect_eq(sp_wire_count_items(base, &fields[2], SP_WIRE_VARINT, &count, &err), SP_ERR_MALFORMED);
}

Test(wire, writes_varints_of_a_given_width)
{
    static const uint64_t values[] = {0, 1, 127, 128, 300, 16383, 16384, UINT32_MAX, INT64_MAX, UINT64_MAX};
    static const uint32_t sizes[] = {1, 1, 1, 2, 2, 2, 3, 5, 9, 10};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        cr_expect_eq(sp_wire_varint_size(values[i]), sizes[i]);
        for (uint32_t width = sizes[i]; width <= 10; width++) {
            unsigned char bytes[10];
            uint64_t at = 0, value;
            sp_wire_put_varint(bytes, values[i], width);
            cr_assert(sp_wire_varint(bytes, &at, width, &value));
            cr_expect(value == values[i] && at == width);
        }
    }
}

/* Alone and at every place of texts of any length: plain text is looked at in words of several sizes. */
static void expect_within(const char *sequence, size_t size, bool is_valid)
{
    char text[80];
    for (size_t length = size; length <= sizeof text; length++) {
        for (size_t at = 0; at + size <= length; at++) {
            memset(text, 'a', sizeof text);
            memcpy(text + at, sequence, size);
            cr_assert_eq(sp_utf8_valid(text, length), is_valid, "%zu bytes at %zu of %zu", size, at, length);
        }
    }
}

/* Well-formed and ill-formed sequences of the Unicode standard, section 3.9, table 3-7 and its examples. */
Test(utf8, accepts_exactly_well_formed_text)
{
    static const char *const good[] = {
        "", "abc", "\xc3\xa9", "\xe4\xb8\xad", "\xf0\x9f\x98\x80", "\xed\x9f\xbf", "\xef\xbf\xbf", "\xf4\x8f\xbf\xbf"};
    static const char *const bad[] = {"\x80",
                                      "\xc0\xaf",
                                      "\xc1\xbf",
                                      "\xe0\x80\xaf",
                                      "\xe0\x9f\x80",
                                      "\xed\xa0\x80",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xe4\xb8",
                                      "\xc3",
                                      "a\xff"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        expect_within(good[i], strlen(good[i]), true);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        expect_within(bad[i], strlen(bad[i]), false);
    expect_within("\0", 1, false);
    cr_expect_eq(sp_utf8_cut("a\xe4\xb8\xad"
                             "b",
                             5, 3),
                 1);
    cr_expect_eq(sp_utf8_cut("a\xe4\xb8\xad"
                             "b",
                             5, 4),
                 4);
    cr_expect_eq(sp_utf8_cut("abc", 3, 8), 3);
}

/* Largest, smallest and special values: IEEE 754 half; bfloat16; FP8 (arXiv 2209.05433 table 1, 2206.02915); OCP
   Microscaling 1.0 for E2M1 and E8M0. */
Test(float_bits, decodes_every_format)
{
    static const struct {
        enum sp_dtype dtype;
        uint64_t bits;
        double value;
    } cases[] = {
        {SP_DTYPE_FLOAT16, 0x3c00, 1},
        {SP_DTYPE_FLOAT16, 0x7bff, 65504},
        {SP_DTYPE_FLOAT16, 0x0001, 0x1p-24},
        {SP_DTYPE_FLOAT16, 0xfc00, -INFINITY},
        {SP_DTYPE_BFLOAT16, 0x3f80, 1},
        {SP_DTYPE_BFLOAT16, 0xc040, -3},
        {SP_DTYPE_FLOAT8E4M3FN, 0x7e, 448},
        {SP_DTYPE_FLOAT8E4M3FN, 0x01, 0x1p-9},
        {SP_DTYPE_FLOAT8E4M3FNUZ, 0x7f, 240},
        {SP_DTYPE_FLOAT8E4M3FNUZ, 0x01, 0x1p-10},
        {SP_DTYPE_FLOAT8E5M2, 0x7b, 57344},
        {SP_DTYPE_FLOAT8E5M2, 0x01, 0x1p-16},
        {SP_DTYPE_FLOAT8E5M2, 0x7c, INFINITY},
        {SP_DTYPE_FLOAT8E5M2FNUZ, 0x7f, 57344},
        {SP_DTYPE_FLOAT8E5M2FNUZ, 0x01, 0x1p-17},
        {SP_DTYPE_FLOAT4E2M1, 0x7, 6},
        {SP_DTYPE_FLOAT4E2M1, 0x1, 0.5},
        {SP_DTYPE_FLOAT4E2M1, 0x9, -0.5},
        {SP_DTYPE_FLOAT6E2M3, 0x1f, 7.5}, /* largest and smallest numbers: OCP MX 1.0, table 2 */
        {SP_DTYPE_FLOAT6E2M3, 0x21, -0.125},
        {SP_DTYPE_FLOAT6E3M2, 0x1f, 28},
        {SP_DTYPE_FLOAT6E3M2, 0x01, 0.0625},
        {SP_DTYPE_FLOAT8E8M0, 127, 1},
        {SP_DTYPE_FLOAT8E8M0, 0, 0x1p-127},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect_eq(sp_float_from_bits(cases[i].dtype, cases[i].bits), cases[i].value, "case %zu: %g", i,
                     sp_float_from_bits(cases[i].dtype, cases[i].bits));
    cr_expect(isnan(sp_float_from_bits(SP_DTYPE_FLOAT16, 0x7c01)));
    cr_expect(isnan(sp_float_from_bits(SP_DTYPE_FLOAT8E4M3FN, 0x7f)));
    cr_expect(isnan(sp_float_from_bits(SP_DTYPE_FLOAT8E4M3FN, 0xff)));
    cr_expect(isnan(sp_float_from_bits(SP_DTYPE_FLOAT8E4M3FNUZ, 0x80)));
    cr_expect(isnan(sp_float_from_bits(SP_DTYPE_FLOAT8E5M2FNUZ, 0x80)));
    cr_expect(isnan(sp_float_from_bits(SP_DTYPE_FLOAT8E8M0, 0xff)));
}
