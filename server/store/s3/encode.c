#include "store/s3/encode.h"

#include <stdio.h>
#include <string.h>

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == '_' || c == '~';
}

bool s3_encode_more(char *to, size_t size, const char *text)
{
    size_t used = strlen(to);
    for (; *text != '\0'; text++) {
        int length = snprintf(to + used, size - used, is_plain(*text) ? "%c" : "%%%02X", (unsigned char)*text);
        if (length < 0 || (size_t)length >= size - used)
            return false;
        used += (size_t)length;
    }
    return true;
}

bool s3_encode(const char *text, char *ret, size_t size)
{
    ret[0] = '\0';
    return *text != '\0' && s3_encode_more(ret, size, text);
}
