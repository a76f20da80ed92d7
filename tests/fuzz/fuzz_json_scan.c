/*
 * One member out of the text of an answer: for any bytes nothing outside of them is given, and in a JSON object it is
 * the value that a parser finds.
 *
 * An input is the member's name, a line feed, and the text.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "fuzz.h"

static bool is_plain(const char *name)
{
    return strspn(name, "abcdefghijklmnopqrstuvwxyz_") == strlen(name);
}

/* A name that is written with escapes is another one here; the daemon writes none so. */
static void check_value(const char *text, size_t size, const char *name, const char *value, size_t value_size)
{
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
    const json_t *expected = json_object_get(root, name);
    json_t *found = value != NULL ? json_loadb(value, value_size, JSON_DECODE_ANY, NULL) : NULL;
    bool is_ours = is_plain(name) && memmem(text, size, "\\u", 2) == NULL;
    if (json_is_object(root) && is_ours && (expected == NULL ? value != NULL : !json_equal(found, expected))) {
        (void)fprintf(stderr, "'%s' is '%.*s'\n", name, (int)value_size, value != NULL ? value : "");
        abort();
    }
    json_decref(found);
    json_decref(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char name[64], word[16];
    const uint8_t *end = size > 0 ? memchr(bytes, '\n', size) : NULL;
    size_t length = end != NULL ? (size_t)(end - bytes) : 0;
    if (end == NULL || length >= sizeof name || size - length - 1 > 65536)
        return 0;
    memcpy(name, bytes, length);
    name[length] = '\0';
    const char *text = (const char *)end + 1, *value = NULL;
    size_t text_size = size - length - 1, value_size = 0;
    bool found = json_member(text, text_size, name, &value, &value_size);
    if (found && (value < text || value > text + text_size || value_size > (size_t)(text + text_size - value)))
        abort();
    check_value(text, text_size, name, found ? value : NULL, found ? value_size : 0);
    if (json_member_word(text, text_size, name, word, sizeof word) && strlen(word) >= sizeof word)
        abort();
    (void)json_member_number(text, text_size, name);
    return 0;
}
