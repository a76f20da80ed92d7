#include "store/s3/xml.h"

#include <stdio.h>
#include <string.h>

static const struct entity {
    const char *text;
    char character;
} entities[] = {{"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}, {"&apos;", '\''}};

/* The character at *at, which goes behind it. */
static char next_character(const char **at)
{
    for (size_t i = 0; **at == '&' && i < sizeof entities / sizeof entities[0]; i++) {
        size_t length = strlen(entities[i].text);
        if (strncmp(*at, entities[i].text, length) == 0) {
            *at += length;
            return entities[i].character;
        }
    }
    return *(*at)++;
}

bool xml_next(const char **at, const char *name, char *ret, size_t size)
{
    char opening[64], closing[64];
    size_t used = 0;
    (void)snprintf(opening, sizeof opening, "<%s>", name);
    (void)snprintf(closing, sizeof closing, "</%s>", name);
    const char *from = strstr(*at, opening);
    const char *end = from != NULL ? strstr(from, closing) : NULL;
    if (end == NULL)
        return false;
    from += strlen(opening);
    while (from < end) {
        if (used + 1 >= size)
            return false;
        ret[used++] = next_character(&from);
    }
    ret[used] = '\0';
    *at = end + strlen(closing);
    return true;
}

bool xml_text(const char *document, const char *name, char *ret, size_t size)
{
    const char *at = document;
    return document != NULL && xml_next(&at, name, ret, size);
}
