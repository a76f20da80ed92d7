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
