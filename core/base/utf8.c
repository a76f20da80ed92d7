#include "base/utf8.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Length of the character at p, or 0; the table is that of the Unicode standard's well-formed byte sequences (D92). */
static size_t character(const unsigned char *p, size_t left)
{
    unsigned char first = p[0], low = 0x80, high = 0xbf;
    size_t length;
    if (first < 0x80)
        return first != 0;
    if (first < 0xc2 || first > 0xf4)
        return 0;
    length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (first == 0xe0)
        low = 0xa0;
    else if (first == 0xed)
        high = 0x9f;
    else if (first == 0xf0)
        low = 0x90;
    else if (first == 0xf4)
        high = 0x8f;
    if (left < length || p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++) {
        if (p[i] < 0x80 || p[i] > 0xbf)
            return 0;
    }
    return length;
}

#define WORD sizeof(uint64_t)

/* So many words of ASCII at once, with no NUL: what nearly all names are made of. */
static bool is_plain(const unsigned char *p, uint32_t words)
{
    const uint64_t high = UINT64_C(0x8080808080808080), low = UINT64_C(0x0101010101010101);
    uint64_t word, all = 0;
    for (uint32_t i = 0; i < words; i++) {
        memcpy(&word, p + i * WORD, WORD);
        all |= word | (word - low); /* without high bits, a borrow reaches one only from a zero byte */
    }
    return (all & high) == 0;
}

bool sp_utf8_valid(const void *bytes, size_t size)
{
    const unsigned char *p = bytes;
    size_t at = 0;
    while (size - at >= 4 * WORD && is_plain(p + at, 4))
        at += 4 * WORD;
    while (size - at >= WORD && is_plain(p + at, 1))
        at += WORD;
    if (size >= WORD && size - at < WORD && is_plain(p + size - WORD, 1))
        return true; /* the last word overlaps the one before */
    while (at < size) {
        size_t length = character(p + at, size - at);
        if (length == 0)
            return false;
        at += length;
    }
    return true;
}

/* Controls that are no letters of any text, but turn or break it. */
static bool turns_text(uint32_t point)
{
    return point == 0x061c || point == 0x200e || point == 0x200f || (point >= 0x2028 && point <= 0x202e) ||
           (point >= 0x2066 && point <= 0x2069);
}

size_t sp_utf8_control(const void *text, size_t left, uint32_t *ret_point)
{
    const unsigned char *p = text;
    const size_t length = left > 0 ? character(p, left) : 0;
    if (left == 0 || length == 4 || (length == 1 && p[0] >= 0x20 && p[0] != 0x7f))
        return 0;
    *ret_point = length == 0   ? SP_NO_CHARACTER
                 : length == 1 ? p[0]
                 : length == 2 ? (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu)
                               : (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
    if (length == 0)
        return 1;
    /* U+0080 to U+009F are escape sequences to some terminals. */
    return *ret_point < 0xa0 || turns_text(*ret_point) ? length : 0;
}

void sp_utf8_show(uint32_t point, char ret_shown[SP_SHOWN_SIZE])
{
    if (turns_text(point))
        (void)snprintf(ret_shown, SP_SHOWN_SIZE, "\\u%04x", (unsigned)point & 0xffffu);
    else
        (void)snprintf(ret_shown, SP_SHOWN_SIZE, "?");
}

size_t sp_utf8_cut(const void *bytes, size_t size, size_t limit)
{
    const unsigned char *p = bytes;
    if (size <= limit)
        return size;
    while (limit > 0 && (p[limit] & 0xc0) == 0x80)
        limit--;
    return limit;
}

/* After a mismatch the latest `*` takes one character more. */
bool sp_pattern_matches(const char *pattern, const char *name)
{
    const char *star = NULL, *resume = NULL;
    while (*name != '\0') {
        if (*pattern == '*') {
            star = pattern++;
            resume = name;
        } else if (*pattern == *name || *pattern == '?') {
            pattern++;
            name++;
        } else if (star != NULL) {
            pattern = star + 1;
            name = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}
