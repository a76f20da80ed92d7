#include "hlo_texts.h"

static void expect_attribute(const char *attribute, const char *text)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_hlo *hlo = NULL;
    struct sp_error err = {0};
    cr_assert_eq(sp_hlo_read_attribute(arena, attribute, strlen(attribute), &hlo, &err), SP_OK, "%s: %s", attribute,
                 err.message);
    const char *got = text_of(arena, hlo);
    cr_expect_str_eq(got, text, "%s reads as %s, not %s", attribute, got, text);
    sp_arena_destroy(arena);
}

static void expect_no_attribute(const char *attribute, const char *where, const char *code)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_hlo *hlo = NULL;
    struct sp_error err = {0};
    cr_expect_neq(sp_hlo_read_attribute(arena, attribute, strlen(attribute), &hlo, &err), SP_OK, "%s", attribute);
    cr_expect_str_eq(err.where, where, "%s is refused at '%s', not '%s'", attribute, err.where, where);
    cr_expect_str_eq(err.code, code, "%s is refused as %s, not %s: %s", attribute, err.code, code, err.message);
    sp_arena_destroy(arena);
}

static void expect_written(const char *text, const char *attribute)
{
    struct sp_arena *arena = sp_arena_create(NULL);
    struct sp_buf bytes, buf;
    struct sp_error err = {0};
    sp_buf_init(&bytes, HLO_TEXT_BYTES);
    sp_buf_init(&buf, HLO_TEXT_BYTES);
    cr_assert_eq(sp_hlo_write_proto(arena, hlo_of(arena, text), &bytes, &err), SP_OK);
    sp_hlo_write_attribute((const unsigned char *)bytes.data, bytes.size, &buf);
    cr_expect_str_eq(buf.data, attribute, "%s is written as %s, not %s", text, buf.data, attribute);
    sp_buf_release(&buf);
    sp_buf_release(&bytes);
    expect_attribute(attribute, text);
    sp_arena_destroy(arena);
}

/* OTHER, tiles [2,1], devices [0,1]. */
Test(hlo_attribute, the_bytes_of_an_escaped_string)
{
    static const char *const forms[] = {
        "mhlo.sharding = \"\\08\\03\\1A\\02\\02\\01\\22\\02\\00\\01\"",
        "  mhlo.sharding=\"\\08\\03\\1a\\02\\02\\01\\\"\\02\\00\\01\"\n",
        "\"\\08\\03\\1A\\02\\02\\01\\22\\02\\00\\01\"",
        "\\08\\03\\1A\\02\\02\\01\\22\\02\\00\\01",
        "08031A02020122020001",
        "08031a02020122020001",
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        expect_attribute(forms[i], "{devices=[2,1]0,1}");
    expect_written("{devices=[2,1]0,1}", "\"\\08\\03\\1A\\02\\02\\01\\22\\02\\00\\01\"");
}

/* Bytes that are letters stay letters: 0x58 is X, 0x5C a backslash. */
Test(hlo_attribute, writes_printable_bytes_as_they_are)
{
    expect_written("{manual shard_as 1}", "\"\\08\\04X\\01`\\01\"");
    expect_written("{maximal device=92}", "\"\\08\\01\\22\\01\\\\\"");
    expect_written("{maximal device=34}", "\"\\08\\01\\22\\01\\22\"");
    expect_written("{maximal device=32}", "\"\\08\\01\\22\\01 \"");
    expect_written("{replicated}", "\"\"");
}

Test(hlo_attribute, reads_text_where_there_are_no_bytes)
{
    expect_attribute("\"{devices=[2,1]0,1}\"", "{devices=[2,1]0,1}");
    expect_attribute("{devices=[2,1]0,1}", "{devices=[2,1]0,1}");
    expect_attribute("mhlo.sharding = \"{mesh['a'=2], [{'a'}]}\"", "{mesh['a'=2], [{'a'}]}");
    expect_attribute("\"{mesh[\\22a\\22=2], [{\\\"a\\\"}]}\"", "{mesh['a'=2], [{'a'}]}");
    expect_attribute("{mesh[\"a\"=2], [{\"a\"}]}", "{mesh['a'=2], [{'a'}]}");
    expect_attribute("{mesh[\\22a\\22=2], [{'a'}]}", "{mesh['a'=2], [{'a'}]}");
    expect_attribute("[[0,1]]", "{devices=[1,2]0,1}");
    expect_attribute("", "{replicated}");
    expect_attribute("\"\"", "{replicated}");
}

Test(hlo_attribute, says_where_it_is_wrong)
{
    expect_no_attribute("mhlo.sharding \"\"", "offset 14", "BAD_ATTRIBUTE");
    expect_no_attribute("\"\\08", "offset 4", "OPEN_STRING");
    expect_no_attribute("\"a\"b\"", "offset 2", "BAD_ATTRIBUTE");
    expect_no_attribute("\"\\0\"", "offset 1", "BAD_ESCAPE");
    expect_no_attribute("\"\\08\\03\"", "tile_assignment_devices", "NO_DEVICES");
    expect_no_attribute("\"\\08\"", "byte 1", "MALFORMED_PROTOBUF");
    expect_no_attribute("{foo}", "offset 1", "UNEXPECTED_TOKEN");
    expect_no_attribute("{mesh['\\q'=2], []}", "offset 7", "BAD_ESCAPE");
}
