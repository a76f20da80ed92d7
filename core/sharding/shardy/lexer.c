/* The words of Shardy's texts: blanks, tokens, MLIR strings, symbols, numbers. */
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "sharding/shardy/internal.h"

#define MESSAGE_BYTES 768
#define FOUND_BYTES   24 /* of the text that an error quotes */

enum sp_status sp_shardy_begin(struct sp_arena *arena, const char *text, size_t size,
                               struct sp_shardy_cursor *ret_cursor, struct sp_error *err)
{
    if (size > SP_MAX_SHARDING_BYTES)
        return sp_fail_limit(err, "SHARDING_TOO_LONG", "SP_MAX_SHARDING_BYTES", SP_MAX_SHARDING_BYTES, (int64_t)size,
                             "A sharding or mesh may have at most %d bytes of text.", (int)SP_MAX_SHARDING_BYTES);
    *ret_cursor = (struct sp_shardy_cursor){arena, text, size, 0, err};
    return SP_OK;
}

void sp_shardy_report(struct sp_shardy_cursor *cursor, size_t at, const char *format, ...)
{
    char message[MESSAGE_BYTES];
    SP_FORMAT(message, format);
    (void)sp_fail(cursor->err, SP_ERR_MALFORMED, "SHARDY_SYNTAX", "%s", message);
    (void)sp_error_at(cursor->err, "offset %zu", at);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_word(char c)
{
    return is_letter(c) || is_digit(c) || c == '$' || c == '.' || c == '-';
}

void sp_shardy_skip(struct sp_shardy_cursor *cursor)
{
    bool in_comment = false;
    for (; cursor->at < cursor->size; cursor->at++) {
        char c = cursor->text[cursor->at];
        bool comments = c == '/' && cursor->at + 1 < cursor->size && cursor->text[cursor->at + 1] == '/';
        if (c == '\n')
            in_comment = false;
        else if (comments)
            in_comment = true;
        else if (!in_comment && c != ' ' && c != '\t' && c != '\r')
            return;
    }
}

bool sp_shardy_accept(struct sp_shardy_cursor *cursor, const char *token)
{
    size_t length = strlen(token);
    sp_shardy_skip(cursor);
    if (cursor->size - cursor->at < length || memcmp(cursor->text + cursor->at, token, length) != 0)
        return false;
    size_t next = cursor->at + length;
    if (is_letter(token[length - 1]) && next < cursor->size && is_word(cursor->text[next]))
        return false;
    cursor->at = next;
    return true;
}

/* What stands at the cursor, for a message: the rest of the line, shortened; cut where UTF-8 allows. */
static void describe_rest(const struct sp_shardy_cursor *cursor, char *found, size_t size)
{
    if (cursor->at >= cursor->size) {
        (void)snprintf(found, size, "the end of the text");
        return;
    }
    size_t left = cursor->size - cursor->at;
    const char *line_end = memchr(cursor->text + cursor->at, '\n', left);
    if (line_end != NULL)
        left = (size_t)(line_end - (cursor->text + cursor->at));
    size_t shown = left <= FOUND_BYTES ? left : sp_utf8_cut(cursor->text + cursor->at, left, FOUND_BYTES);
    if (!sp_utf8_valid(cursor->text + cursor->at, shown))
        (void)snprintf(found, size, "bytes that are no text");
    else
        (void)snprintf(found, size, "'%.*s%s'", (int)shown, cursor->text + cursor->at, shown < left ? ".." : "");
}

enum sp_status sp_shardy_expect(struct sp_shardy_cursor *cursor, const char *token, const char *what)
{
    char found[FOUND_BYTES + 16];
    if (sp_shardy_accept(cursor, token))
        return SP_OK;
    describe_rest(cursor, found, sizeof found);
    return sp_shardy_fail(cursor, cursor->at, "Expected '%s' %s, but found %s.", token, what, found);
}

enum sp_status sp_shardy_end(struct sp_shardy_cursor *cursor)
{
    char found[FOUND_BYTES + 16];
    sp_shardy_skip(cursor);
    if (cursor->at == cursor->size)
        return SP_OK;
    describe_rest(cursor, found, sizeof found);
    return sp_shardy_fail(cursor, cursor->at, "The text should end here, but %s follows.", found);
}

static int hex_value(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* One escape behind its backslash; the bytes it took, 0 when it is none. */
static size_t read_escape(const char *text, size_t left, char *ret_byte)
{
    if (left == 0)
        return 0;
    switch (text[0]) {
    case '"':
    case '\\':
        *ret_byte = text[0];
        return 1;
    case 'n':
        *ret_byte = '\n';
        return 1;
    case 't':
        *ret_byte = '\t';
        return 1;
    default:
        break;
    }
    if (left < 2 || hex_value(text[0]) < 0 || hex_value(text[1]) < 0)
        return 0;
    *ret_byte = (char)(hex_value(text[0]) * 16 + hex_value(text[1]));
    return 2;
}

enum sp_status sp_shardy_read_string(struct sp_shardy_cursor *cursor, const char *what, const char **ret_text)
{
    char bytes[SP_MAX_NAME_BYTES];
    size_t count = 0;
    enum sp_status status = sp_shardy_expect(cursor, "\"", what);
    if (status != SP_OK)
        return status;
    size_t start = cursor->at - 1;
    while (cursor->at < cursor->size && cursor->text[cursor->at] != '"') {
        char c = cursor->text[cursor->at++];
        if (c == '\n')
            break;
        if (c == '\\') {
            size_t used = read_escape(cursor->text + cursor->at, cursor->size - cursor->at, &c);
            if (used == 0)
                return sp_shardy_fail(
                    cursor, cursor->at - 1,
                    "A backslash in a name must be followed by '\"', '\\', 'n', 't' or two hexadecimal digits.");
            cursor->at += used;
        }
        if (count == sizeof bytes)
            return sp_fail_limit(cursor->err, "NAME_TOO_LONG", "SP_MAX_NAME_BYTES", SP_MAX_NAME_BYTES,
                                 (int64_t)count + 1, "The name at offset %zu is longer than %d bytes.", start,
                                 SP_MAX_NAME_BYTES);
        bytes[count++] = c;
    }
    if (cursor->at >= cursor->size || cursor->text[cursor->at] != '"')
        return sp_shardy_fail(cursor, start, "The name that begins here has no closing '\"' on its line.");
    cursor->at++;
    if (count == 0 || !sp_utf8_valid(bytes, count))
        return sp_shardy_fail(cursor, start, "A name must be UTF-8 text of at least one character and without NUL.");
    *ret_text = sp_arena_string(cursor->arena, bytes, count);
    return *ret_text == NULL ? sp_fail_memory(cursor->err) : SP_OK;
}

enum sp_status sp_shardy_read_symbol(struct sp_shardy_cursor *cursor, const char **ret_name)
{
    size_t start = cursor->at, at = start;
    if (at < cursor->size && cursor->text[at] == '"')
        return sp_shardy_read_string(cursor, "after '@'", ret_name);
    while (at < cursor->size && is_word(cursor->text[at]))
        at++;
    if (at == start || !is_letter(cursor->text[start]))
        return sp_shardy_fail(cursor, start,
                              "The name of a mesh must follow '@' directly and begin with a letter or '_'.");
    if (at - start > SP_MAX_NAME_BYTES)
        return sp_fail_limit(cursor->err, "NAME_TOO_LONG", "SP_MAX_NAME_BYTES", SP_MAX_NAME_BYTES,
                             (int64_t)(at - start), "The name at offset %zu is longer than %d bytes.", start,
                             SP_MAX_NAME_BYTES);
    cursor->at = at;
    *ret_name = sp_arena_string(cursor->arena, cursor->text + start, at - start);
    return *ret_name == NULL ? sp_fail_memory(cursor->err) : SP_OK;
}

enum sp_status sp_shardy_read_int(struct sp_shardy_cursor *cursor, const char *what, int64_t *ret_value)
{
    int64_t value = 0;
    sp_shardy_skip(cursor);
    size_t start = cursor->at, at = start;
    bool negative = at < cursor->size && cursor->text[at] == '-';
    at += negative;
    size_t first = at;
    for (; at < cursor->size && is_digit(cursor->text[at]); at++) {
        int digit = cursor->text[at] - '0';
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, negative ? -digit : digit, &value))
            return sp_shardy_fail(cursor, start, "%s does not fit in a 64-bit integer.", what);
    }
    if (at == first || (at < cursor->size && is_letter(cursor->text[at])))
        return sp_shardy_fail(cursor, start, "%s must be a decimal number.", what);
    cursor->at = at;
    *ret_value = value;
    return SP_OK;
}

void sp_shardy_write_string(const char *text, struct sp_buf *buf)
{
    sp_buf_text(buf, "\"");
    for (const char *at = text; *at != '\0'; at++) {
        unsigned char byte = (unsigned char)*at;
        if (byte == '\\')
            sp_buf_text(buf, "\\\\");
        else if (byte >= 0x20 && byte < 0x7f && byte != '"')
            sp_buf_append(buf, at, 1);
        else
            sp_buf_printf(buf, "\\%02X", byte);
    }
    sp_buf_text(buf, "\"");
}

void sp_shardy_write_symbol(const char *name, struct sp_buf *buf)
{
    bool plain = is_letter(name[0]);
    for (const char *at = name; plain && *at != '\0'; at++)
        plain = is_word(*at);
    sp_buf_text(buf, "@");
    if (plain)
        sp_buf_text(buf, name);
    else
        sp_shardy_write_string(name, buf);
}
