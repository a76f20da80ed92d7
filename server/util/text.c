#include "util/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Length of the valid UTF-8 character at `c`, or 0. */
static size_t character(const unsigned char *c)
{
    if (c[0] < 0x80)
        return 1;
    size_t length = c[0] >= 0xc2 && c[0] <= 0xdf ? 2 : (c[0] & 0xf0) == 0xe0 ? 3 : c[0] >= 0xf0 && c[0] <= 0xf4 ? 4 : 0;
    for (size_t i = 1; i < length; i++) {
        if ((c[i] & 0xc0) != 0x80)
            return 0;
    }
    /* Overlong forms, surrogates and what lies beyond U+10FFFF. */
    if ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f) || (c[0] == 0xf0 && c[1] < 0x90) ||
        (c[0] == 0xf4 && c[1] > 0x8f))
        return 0;
    return length;
}

void text_clean(char *text)
{
    unsigned char *c = (unsigned char *)text;
    while (*c != '\0') {
        size_t length = character(c);
        if (length == 0) {
            *c = '?';
            length = 1;
        }
        c += length;
    }
}

bool text_is_printable(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    while (*c != '\0') {
        size_t length = character(c);
        if (length == 0 || *c < 0x20 || *c == 0x7f)
            return false;
        c += length;
    }
    return true;
}

bool text_is_hex(const char *text, size_t digits)
{
    return strspn(text, "0123456789abcdef") == digits && text[digits] == '\0';
}

void text_to_hex(const void *bytes, size_t size, char *ret)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *b = bytes;
    for (size_t i = 0; i < size; i++) {
        *ret++ = digits[b[i] >> 4];
        *ret++ = digits[b[i] & 15];
    }
    *ret = '\0';
}

bool text_to_int(const char *text, int64_t least, int64_t most, int64_t *ret)
{
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0' || value < least || value > most)
        return false;
    *ret = value;
    return true;
}
