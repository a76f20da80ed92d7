#include <criterion/criterion.h>
#include <math.h>

#include "plan/answer/readable_text.h"

#define EXPECT(call, expected)                                                                                         \
    do {                                                                                                               \
        struct sp_buf buf;                                                                                             \
        sp_buf_init(&buf, 4096);                                                                                       \
        call;                                                                                                          \
        cr_expect_str_eq(buf.data, expected, "'%s' is not '%s'", buf.data, expected);                                  \
        sp_buf_release(&buf);                                                                                          \
    } while (0)

Test(text, seconds)
{
    EXPECT(sp_text_seconds(&buf, 0), "0 s");
    EXPECT(sp_text_seconds(&buf, 7e-6), "7.00 us");
    EXPECT(sp_text_seconds(&buf, 0.0121), "12.1 ms");
    EXPECT(sp_text_seconds(&buf, 0.99999), "1.00 s");
    EXPECT(sp_text_seconds(&buf, 4e-9), "4.00 ns");
    EXPECT(sp_text_seconds(&buf, 9.999e-4), "1.00 ms");
    EXPECT(sp_text_seconds(&buf, INFINITY), "unbounded");
}

Test(text, bytes_and_scales)
{
    EXPECT(sp_text_bytes(&buf, 0), "0 B");
    EXPECT(sp_text_bytes(&buf, 999), "999 B");
    EXPECT(sp_text_bytes(&buf, 999.9), "1.0 kB");
    EXPECT(sp_text_bytes(&buf, 80e9), "80.0 GB");
    EXPECT(sp_text_scaled(&buf, 8.21e9), "8.21 G");
    EXPECT(sp_text_integer(&buf, 25557032), "25,557,032");
    EXPECT(sp_text_integer(&buf, 7), "7");
    EXPECT(sp_text_integer(&buf, 1000), "1,000");
}

Test(text, long_names_lose_their_middle)
{
    EXPECT(sp_text_cut(&buf, "short", 10), "short");
    EXPECT(sp_text_cut(&buf, "abcdefghijklmno", 10), "abcd..lmno");
    EXPECT(sp_text_cut(&buf, "abcdefghijklmno", 11), "abcd..klmno");
    /* Cut between characters, never inside one: these have two bytes each. */
    EXPECT(sp_text_cut(&buf, "\u00e4\u00f6\u00fc\u00e4\u00f6\u00fc\u00e4\u00f6", 6), "\u00e4\u00f6..\u00e4\u00f6");
}

Test(text, names_cannot_control_a_terminal)
{
    EXPECT(sp_text_cut(&buf, "a\x1b[31mb\nc\x7f", 40), "a?[31mb?c?");
    EXPECT(sp_text_cut(&buf, "x\xc2\x9b y", 40), "x? y");
}

Test(text, paragraphs_wrap)
{
    EXPECT(sp_text_wrapped(&buf, "one two three", 2, 9), "one two\n  three\n");
    EXPECT(sp_text_wrapped(&buf, "averylongword b", 0, 5), "averylongword\nb\n");
    EXPECT(sp_text_wrapped(&buf, "", 0, 5), "\n");
}

Test(text, reads_seconds)
{
    static const struct {
        const char *text;
        double seconds;
    } right[] = {{"90", 90},     {"0", 0},     {"50ms", 0.05}, {"250us", 250e-6},
                 {"1.5h", 5400}, {".5s", 0.5}, {"2min", 120},  {"2d", 172800}};
    static const char *const wrong[] = {"", "-1", "+1", " 1", "1 s", "ms", "1x", "nan", "inf", "1e13", "."};
    double seconds = -1;
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        cr_assert(sp_parse_seconds(right[i].text, &seconds), "%s", right[i].text);
        cr_assert_float_eq(seconds, right[i].seconds, 1e-12 * right[i].seconds, "%s", right[i].text);
    }
    seconds = -1;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        cr_assert(!sp_parse_seconds(wrong[i], &seconds), "%s", wrong[i]);
    cr_assert_eq(seconds, -1);
}
