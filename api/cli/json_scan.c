/* Finding one member in JSON text. Not recursive; never reads past the end. */
#include <jansson.h>
#include <string.h>

#include "client.h"

struct scan {
    const char *at, *end;
};

static void skip_blanks(struct scan *scan)
{
    while (scan->at < scan->end && strchr(" \t\r\n", *scan->at) != NULL && *scan->at != '\0')
        scan->at++;
}

static bool take(struct scan *scan, char c)
{
    skip_blanks(scan);
    if (scan->at == scan->end || *scan->at != c)
        return false;
    scan->at++;
    return true;
}

/* Past a string that starts here. */
static bool skip_string(struct scan *scan)
{
    if (!take(scan, '"'))
        return false;
    for (; scan->at < scan->end; scan->at++) {
        if (*scan->at == '\\') {
            if (++scan->at == scan->end)
                return false;
        } else if (*scan->at == '"') {
            scan->at++;
            return true;
        }
    }
    return false;
}

/* Past a value: up to the comma or bracket that ends it, counting brackets. */
static bool skip_value(struct scan *scan)
{
    size_t depth = 0;
    skip_blanks(scan);
    while (scan->at < scan->end) {
        char c = *scan->at;
        if (c == '"') {
            if (!skip_string(scan))
                return false;
            continue;
        }
        if (c == '{' || c == '[') {
            depth++;
        } else if (c == '}' || c == ']') {
            if (depth == 0)
                return true;
            depth--;
        } else if (c == ',' && depth == 0) {
            return true;
        }
        scan->at++;
    }
    return depth == 0;
}

bool json_member(const char *text, size_t size, const char *name, const char **ret_value, size_t *ret_size)
{
    struct scan scan = {text, text + size};
    size_t length = strlen(name);
    if (size == 0 || !take(&scan, '{'))
        return false;
    for (;;) {
        skip_blanks(&scan);
        const char *key = scan.at + 1;
        if (!skip_string(&scan))
            return false;
        size_t key_size = (size_t)(scan.at - 1 - key);
        if (!take(&scan, ':'))
            return false;
        skip_blanks(&scan);
        const char *value = scan.at;
        if (!skip_value(&scan))
            return false;
        if (key_size == length && memcmp(key, name, length) == 0) {
            *ret_value = value;
            *ret_size = (size_t)(scan.at - value);
            return true;
        }
        if (!take(&scan, ','))
            return false;
    }
}

bool json_member_word(const char *text, size_t text_size, const char *name, char *word, size_t size)
{
    const char *value;
    size_t length;
    if (!json_member(text, text_size, name, &value, &length) || length < 2 || value[0] != '"')
        return false;
    const char *end = memchr(value + 1, '"', length - 1);
    if (end == NULL || (size_t)(end - value) > size)
        return false;
    length = (size_t)(end - value - 1);
    memcpy(word, value + 1, length);
    word[length] = '\0';
    return memchr(word, '\\', length) == NULL;
}

double json_member_number(const char *text, size_t size, const char *name)
{
    const char *value;
    size_t length;
    if (!json_member(text, size, name, &value, &length))
        return 0;
    json_t *json = json_loadb(value, length, JSON_DECODE_ANY, NULL);
    double number = json_number_value(json);
    json_decref(json);
    return number;
}
