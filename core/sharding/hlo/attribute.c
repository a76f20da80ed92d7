/* The attribute form: mhlo.sharding = "\08\03\1A..". */
#include <string.h>

#include "sharding/hlo/internal.h"

#define MAX_ATTRIBUTE_BYTES (SP_MAX_SHARDING_BYTES * (size_t)3 + 64) /* every byte escaped, and the name */

static const char attribute_name[] = "mhlo.sharding";

struct attribute {
    const char *text;
    size_t begin, end; /* without blanks, name and quotes */
    bool is_quoted;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void skip_blanks(struct attribute *attribute)
{
    while (attribute->begin < attribute->end && is_blank(attribute->text[attribute->begin]))
        attribute->begin++;
    while (attribute->begin < attribute->end && is_blank(attribute->text[attribute->end - 1]))
        attribute->end--;
}

/* Passes over the name and the quotes. */
static enum sp_status strip(struct attribute *attribute, struct sp_error *err)
{
    size_t length = sizeof attribute_name - 1;
    skip_blanks(attribute);
    if (attribute->end - attribute->begin > length &&
        memcmp(attribute->text + attribute->begin, attribute_name, length) == 0) {
        attribute->begin += length;
        skip_blanks(attribute);
        if (attribute->begin == attribute->end || attribute->text[attribute->begin] != '=')
            return sp_hlo_fail_at(err, attribute->begin, "BAD_ATTRIBUTE",
                                  "There should be an '=' at offset %zu, behind %s.", attribute->begin, attribute_name);
        attribute->begin++;
        skip_blanks(attribute);
    }
    attribute->is_quoted = attribute->begin < attribute->end && attribute->text[attribute->begin] == '"';
    if (!attribute->is_quoted)
        return SP_OK;
    attribute->begin++;
    if (attribute->begin == attribute->end || attribute->text[attribute->end - 1] != '"')
        return sp_hlo_fail_at(err, attribute->end, "OPEN_STRING",
                              "The string literal that begins at offset %zu is not closed at the end of the text.",
                              attribute->begin - 1);
    attribute->end--;
    return SP_OK;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_hexadecimal(const struct attribute *attribute)
{
    for (size_t i = attribute->begin; i < attribute->end; i++) {
        if (hex_digit(attribute->text[i]) < 0)
            return false;
    }
    return (attribute->end - attribute->begin) % 2 == 0;
}

/* One escape of MLIR, at *at: two hexadecimal digits, or a quote, a backslash, n, t. */
static bool unescape(const char *text, size_t end, size_t *at, unsigned char *ret_byte)
{
    static const char letters[] = "\"\\nt", meanings[] = "\"\\\n\t";
    if (end - *at >= 3 && hex_digit(text[*at + 1]) >= 0 && hex_digit(text[*at + 2]) >= 0) {
        *ret_byte = (unsigned char)(hex_digit(text[*at + 1]) * 16 + hex_digit(text[*at + 2]));
        *at += 3;
        return true;
    }
    const char *found = end - *at >= 2 && text[*at + 1] != '\0' ? strchr(letters, text[*at + 1]) : NULL;
    if (found == NULL)
        return false;
    *ret_byte = (unsigned char)meanings[found - letters];
    *at += 2;
    return true;
}

static enum sp_status decode(const struct attribute *attribute, unsigned char *bytes, size_t *ret_size,
                             struct sp_error *err)
{
    const char *text = attribute->text;
    size_t size = 0, at = attribute->begin;
    bool is_hex = !attribute->is_quoted && is_hexadecimal(attribute);
    while (at < attribute->end) {
        if (is_hex) {
            bytes[size++] = (unsigned char)(hex_digit(text[at]) * 16 + hex_digit(text[at + 1]));
            at += 2;
        } else if (text[at] == '"') {
            return sp_hlo_fail_at(err, at, "BAD_ATTRIBUTE",
                                  "The quote at offset %zu ends the string literal before the text ends; inside, it is "
                                  "written \\22.",
                                  at);
        } else if (text[at] != '\\') {
            bytes[size++] = (unsigned char)text[at++];
        } else if (!unescape(text, attribute->end, &at, &bytes[size++])) {
            return sp_hlo_fail_at(err, at, "BAD_ESCAPE",
                                  "The escape at offset %zu is none of \\XX (two hexadecimal digits), \\\", \\\\, \\n "
                                  "and \\t.",
                                  at);
        }
    }
    *ret_size = size;
    return SP_OK;
}

/* Text starts with a brace or a bracket, behind blanks and comments; no OpSharding does: '{' and '[' begin groups. */
static bool looks_like_text(const unsigned char *bytes, size_t size)
{
    size_t at = 0;
    while (at < size && is_blank((char)bytes[at]))
        at++;
    return at < size && (bytes[at] == '{' || bytes[at] == '[' || bytes[at] == '/');
}

/* Hands on an error of one of the attempts. */
static enum sp_status report(enum sp_status status, const struct sp_error *error, struct sp_error *err)
{
    if (status != SP_OK && err != NULL && err->status == SP_OK)
        *err = *error;
    return status;
}

/* Bytes or, failing that, text. */
static enum sp_status read_content(struct sp_arena *arena, const unsigned char *bytes, size_t size,
                                   struct sp_hlo **ret_hlo, struct sp_error *err)
{
    struct sp_error not_bytes = {0};
    enum sp_status status = sp_hlo_read_proto(arena, bytes, size, ret_hlo, &not_bytes);
    if (status != SP_OK && looks_like_text(bytes, size))
        return sp_hlo_read_text(arena, (const char *)bytes, size, ret_hlo, err);
    return report(status, &not_bytes, err);
}

enum sp_status sp_hlo_read_attribute(struct sp_arena *arena, const char *text, size_t size, struct sp_hlo **ret_hlo,
                                     struct sp_error *err)
{
    struct attribute attribute = {.text = text, .end = size};
    struct sp_error first = {0}, second = {0};
    size_t decoded = 0;
    if (size > MAX_ATTRIBUTE_BYTES)
        return sp_fail_limit(err, "SHARDING_TOO_LARGE", "SP_MAX_SHARDING_BYTES", SP_MAX_SHARDING_BYTES, (int64_t)size,
                             "The attribute has %zu bytes, more than a sharding of %u bytes can take.", size,
                             SP_MAX_SHARDING_BYTES);
    enum sp_status status = strip(&attribute, err);
    if (status != SP_OK)
        return status;
    unsigned char *bytes = SP_NEW_ARRAY(arena, attribute.end - attribute.begin, unsigned char);
    if (bytes == NULL)
        return sp_fail_memory(err);
    /* Text may hold quotes of its own; it stands here without being escaped. */
    size_t length = attribute.end - attribute.begin;
    const char *content = text + attribute.begin;
    if (!attribute.is_quoted && looks_like_text((const unsigned char *)content, length)) {
        status = sp_hlo_read_text(arena, content, length, ret_hlo, &first);
        if (status == SP_OK || memchr(content, '\\', length) == NULL)
            return report(status, &first, err);
    }
    status = decode(&attribute, bytes, &decoded, &second);
    if (status == SP_OK)
        status = read_content(arena, bytes, decoded, ret_hlo, &second);
    /* The first attempt's error is about the text as it was given. */
    return report(status == SP_OK || first.status == SP_OK ? status : first.status,
                  first.status != SP_OK ? &first : &second, err);
}

void sp_hlo_write_attribute(const unsigned char *bytes, size_t size, struct sp_buf *buf)
{
    sp_buf_text(buf, "\"");
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] == '\\')
            sp_buf_text(buf, "\\\\");
        else if (bytes[i] >= 0x20 && bytes[i] <= 0x7e && bytes[i] != '"')
            sp_buf_append(buf, &bytes[i], 1);
        else
            sp_buf_printf(buf, "\\%02X", bytes[i]);
    }
    sp_buf_text(buf, "\"");
}
