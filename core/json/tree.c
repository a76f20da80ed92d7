#include "json/tree.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/utf8.h"

struct parser {
    const char *text;
    uint32_t at, size;
    uint32_t count;
    struct sp_tree_value *values; /* NULL while they are counted */
    uint32_t depth;
    uint32_t open[SP_MAX_JSON_NESTING]; /* containers that are not closed yet */
    bool is_array[SP_MAX_JSON_NESTING];
    uint32_t name; /* of the member whose value comes next, SP_TREE_NONE in an array */
    struct sp_error *err;
};

/* ---- the grammar ----------------------------------------------------------------------------------------------- */

static enum sp_status broken(struct parser *parser, const char *what)
{
    (void)sp_fail(parser->err, SP_ERR_MALFORMED, "MALFORMED_JSON", "The JSON text is broken: %s.", what);
    return sp_error_at(parser->err, "byte %u", parser->at) == SP_OK ? SP_OK : SP_ERR_MALFORMED;
}

static void skip_blanks(struct parser *parser)
{
    while (parser->at < parser->size && sp_tree_is_blank(parser->text[parser->at]))
        parser->at++;
}

/* The next character, or NUL at the end; the text holds no NUL. */
static char peek(const struct parser *parser)
{
    return parser->at < parser->size ? parser->text[parser->at] : '\0';
}

static bool take(struct parser *parser, char c)
{
    skip_blanks(parser);
    if (peek(parser) != c)
        return false;
    parser->at++;
    return true;
}

static uint32_t add(struct parser *parser, enum sp_tree_kind kind, uint32_t start, uint32_t end)
{
    const uint32_t value = parser->count++;
    if (parser->values != NULL) {
        uint32_t parent = parser->name != SP_TREE_NONE ? parser->name
                          : parser->depth > 0          ? parser->open[parser->depth - 1]
                                                       : SP_TREE_NONE;
        parser->values[value] =
            (struct sp_tree_value){.kind = kind, .start = start & 0xfffffff, .extent = end, .parent = parent};
    }
    return value;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static enum sp_status pass_escape(struct parser *parser)
{
    const char c = peek(parser);
    if (c == '\0' || strchr("\"\\/bfnrtu", c) == NULL)
        return broken(parser, "there is no such escape in a string");
    parser->at++;
    for (int i = 0; c == 'u' && i < 4; i++) {
        if (!is_hex(peek(parser)))
            return broken(parser, "\\u takes four hexadecimal digits");
        parser->at++;
    }
    return SP_OK;
}

/* Behind the opening quote. */
static enum sp_status pass_string(struct parser *parser, uint32_t *ret_value)
{
    const uint32_t start = parser->at;
    for (;;) {
        const char c = peek(parser);
        if (c == '\0')
            return broken(parser, "a string is not closed");
        if ((unsigned char)c < 0x20)
            return broken(parser, "a control character in a string must be written as an escape");
        parser->at++;
        if (c == '"')
            break;
        if (c == '\\' && pass_escape(parser) != SP_OK)
            return SP_ERR_MALFORMED;
    }
    *ret_value = add(parser, SP_TREE_STRING, start, parser->at - 1);
    return SP_OK;
}

static bool pass_digits(struct parser *parser)
{
    const uint32_t start = parser->at;
    while (peek(parser) >= '0' && peek(parser) <= '9')
        parser->at++;
    return parser->at != start;
}

static enum sp_status pass_number(struct parser *parser)
{
    const uint32_t start = parser->at;
    if (peek(parser) == '-')
        parser->at++;
    const uint32_t digits = parser->at;
    if (!pass_digits(parser))
        return broken(parser, "a value is expected here");
    if (parser->text[digits] == '0' && parser->at - digits > 1)
        return broken(parser, "a number does not begin with 0");
    if (peek(parser) == '.') {
        parser->at++;
        if (!pass_digits(parser))
            return broken(parser, "digits are missing behind the point");
    }
    if (peek(parser) == 'e' || peek(parser) == 'E') {
        parser->at++;
        if (peek(parser) == '+' || peek(parser) == '-')
            parser->at++;
        if (!pass_digits(parser))
            return broken(parser, "digits are missing in the exponent");
    }
    (void)add(parser, SP_TREE_NUMBER, start, parser->at);
    return SP_OK;
}

static enum sp_status pass_word(struct parser *parser)
{
    static const struct {
        const char *word;
        enum sp_tree_kind kind;
    } words[] = {{"true", SP_TREE_TRUE}, {"false", SP_TREE_FALSE}, {"null", SP_TREE_NULL}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const uint32_t size = (uint32_t)strlen(words[i].word);
        if (parser->size - parser->at >= size && memcmp(parser->text + parser->at, words[i].word, size) == 0) {
            (void)add(parser, words[i].kind, parser->at, parser->at + size);
            parser->at += size;
            return SP_OK;
        }
    }
    return broken(parser, "a value is expected here");
}

static enum sp_status open_container(struct parser *parser, bool is_array)
{
    if (parser->depth == SP_MAX_JSON_NESTING) {
        enum sp_status status = sp_fail_limit(
            parser->err, "NESTING_TOO_DEEP", "SP_MAX_JSON_NESTING", SP_MAX_JSON_NESTING, SP_MAX_JSON_NESTING + 1,
            "The JSON text is nested more than %d deep (limit SP_MAX_JSON_NESTING).", SP_MAX_JSON_NESTING);
        (void)sp_error_at(parser->err, "byte %u", parser->at);
        return status;
    }
    uint32_t value = add(parser, is_array ? SP_TREE_ARRAY : SP_TREE_OBJECT, parser->at, 0);
    parser->at++;
    parser->open[parser->depth] = value;
    parser->is_array[parser->depth++] = is_array;
    parser->name = SP_TREE_NONE;
    return SP_OK;
}

static enum sp_status pass_value(struct parser *parser)
{
    uint32_t string;
    skip_blanks(parser);
    switch (peek(parser)) {
    case '{':
    case '[':
        return open_container(parser, peek(parser) == '[');
    case '"':
        parser->at++;
        return pass_string(parser, &string);
    case 't':
    case 'f':
    case 'n':
        return pass_word(parser);
    default:
        return pass_number(parser);
    }
}

static enum sp_status pass_name(struct parser *parser)
{
    parser->name = SP_TREE_NONE;
    if (!take(parser, '"'))
        return broken(parser, "a member's name in quotes is expected here");
    enum sp_status status = pass_string(parser, &parser->name);
    if (status == SP_OK && !take(parser, ':'))
        return broken(parser, "':' is expected between a member's name and its value");
    return status;
}

/* After a value: closes what ends here, until another value is due or the document is over. */
static enum sp_status pass_ends(struct parser *parser, bool *ret_more)
{
    while (parser->depth > 0) {
        const bool is_array = parser->is_array[parser->depth - 1];
        const uint32_t container = parser->open[parser->depth - 1];
        const bool is_empty = parser->count == container + 1;
        if (take(parser, is_array ? ']' : '}')) {
            parser->depth--;
            if (parser->values != NULL)
                parser->values[container].extent = parser->count;
            continue;
        }
        if (!is_empty && !take(parser, ','))
            return broken(parser, is_array ? "',' or ']' is expected here" : "',' or '}' is expected here");
        parser->name = SP_TREE_NONE;
        *ret_more = true;
        return is_array ? SP_OK : pass_name(parser);
    }
    *ret_more = false;
    return SP_OK;
}

static enum sp_status pass_document(struct parser *parser)
{
    bool more = true;
    enum sp_status status = SP_OK;
    parser->name = SP_TREE_NONE;
    while (status == SP_OK && more) {
        status = pass_value(parser);
        if (status == SP_OK)
            status = pass_ends(parser, &more);
    }
    if (status != SP_OK)
        return status;
    skip_blanks(parser);
    return parser->at == parser->size ? SP_OK : broken(parser, "there is more behind the end");
}

enum sp_status sp_tree_read(struct sp_arena *arena, const char *text, uint64_t size, struct sp_tree *ret_tree,
                            struct sp_error *err)
{
    if (size > SP_MAX_JSON_BYTES)
        return sp_fail_limit(err, "JSON_TOO_LARGE", "SP_MAX_JSON_BYTES", SP_MAX_JSON_BYTES, (int64_t)size,
                             "A description in JSON may have %d bytes (limit SP_MAX_JSON_BYTES); send the model as an "
                             "ONNX file.",
                             SP_MAX_JSON_BYTES);
    if (!sp_utf8_valid(text, (size_t)size))
        return sp_fail(err, SP_ERR_MALFORMED, "MALFORMED_JSON", "The JSON text is not UTF-8 or holds a NUL.");
    const uint32_t start = size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    struct parser parser = {.text = text, .at = start, .size = (uint32_t)size, .err = err};
    enum sp_status status = pass_document(&parser);
    if (status != SP_OK)
        return status;
    const uint32_t count = parser.count;
    parser.values = SP_NEW_ARRAY(arena, count, struct sp_tree_value);
    if (parser.values == NULL)
        return sp_fail_memory(err);
    parser.at = start;
    parser.count = 0;
    status = pass_document(&parser);
    assert(status == SP_OK && parser.count == count);
    *ret_tree = (struct sp_tree){arena, err, text, (uint32_t)size, count, parser.values};
    return status;
}

/* ---- what a text says ------------------------------------------------------------------------------------------ */

struct sp_tree_text sp_tree_raw_text(const struct sp_tree *tree, uint32_t value)
{
    const struct sp_tree_value *scalar = &tree->values[value];
    return (struct sp_tree_text){tree->text + scalar->start, scalar->extent - scalar->start};
}

uint32_t sp_tree_count(const struct sp_tree *tree, uint32_t array)
{
    uint32_t count = 0;
    for (uint32_t i = sp_tree_begin(array); i != sp_tree_end(tree, array); i = sp_tree_after(tree, i))
        count++;
    return count;
}

static uint32_t hex4(const char *digits)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        const char c = digits[i];
        value = value << 4 | (uint32_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return value;
}

static size_t put_utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (char)(0xc0 | c >> 6);
        to[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        to[0] = (char)(0xe0 | c >> 12);
        to[1] = (char)(0x80 | (c >> 6 & 0x3f));
        to[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    to[0] = (char)(0xf0 | c >> 18);
    to[1] = (char)(0x80 | (c >> 12 & 0x3f));
    to[2] = (char)(0x80 | (c >> 6 & 0x3f));
    to[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* The code point of a \u escape whose digits begin at *at, which moves behind it; of a pair together. False for half
   a pair. */
static bool unescape_unicode(const char *bytes, size_t size, size_t *at, uint32_t *ret_point)
{
    const uint32_t c = hex4(bytes + *at);
    *at += 4;
    *ret_point = c;
    if (c < 0xd800 || c > 0xdfff)
        return true;
    if (c > 0xdbff || size - *at < 6 || bytes[*at] != '\\' || bytes[*at + 1] != 'u')
        return false;
    const uint32_t low = hex4(bytes + *at + 2);
    *at += 6;
    *ret_point = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    return low >= 0xdc00 && low <= 0xdfff;
}

/* Escapes resolved, into `made`, which is as large as the text: no escape is shorter than what it stands for. */
static bool unescape(const char *bytes, size_t size, char *made, size_t *ret_size)
{
    static const char escapes[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    size_t used = 0;
    for (size_t at = 0; at < size;) {
        uint32_t point;
        if (bytes[at] != '\\') {
            made[used++] = bytes[at++];
        } else if (bytes[at + 1] != 'u') {
            made[used++] = meant[strchr(escapes, bytes[at + 1]) - escapes];
            at += 2;
        } else {
            at += 2;
            if (!unescape_unicode(bytes, size, &at, &point))
                return false;
            used += put_utf8(made + used, point);
        }
    }
    *ret_size = used;
    return true;
}

enum sp_status sp_tree_text(const struct sp_tree *tree, uint32_t string, struct sp_tree_text *ret_text)
{
    const struct sp_tree_text raw = sp_tree_raw_text(tree, string);
    if (memchr(raw.bytes, '\\', raw.size) == NULL) {
        *ret_text = raw;
        return SP_OK;
    }
    char *made = sp_arena_alloc(tree->arena, raw.size);
    if (made == NULL)
        return sp_fail_memory(tree->err);
    if (!unescape(raw.bytes, raw.size, made, &ret_text->size))
        return sp_tree_fail(tree, string, "MALFORMED_JSON", "A string has half of a surrogate pair.");
    ret_text->bytes = made;
    return SP_OK;
}

bool sp_tree_text_is(struct sp_tree_text text, const char *word)
{
    return strlen(word) == text.size && memcmp(text.bytes, word, text.size) == 0;
}

/* ---- errors ---------------------------------------------------------------------------------------------------- */

static size_t put_index(const struct sp_tree *tree, uint32_t array, uint32_t value, char *to, size_t size)
{
    uint32_t index = 0;
    for (uint32_t i = sp_tree_begin(array); i != value; i = sp_tree_after(tree, i))
        index++;
    int put = snprintf(to, size, "/%u", index);
    return put > 0 ? (size_t)put : 0;
}

/* A name as part of a pointer: '~' is ~0 and '/' is ~1; cut where there is no room. */
static size_t put_name(const struct sp_tree *tree, uint32_t name, char *to, size_t size)
{
    char plain[SP_ERROR_WHERE_SIZE];
    struct sp_tree_text text = sp_tree_raw_text(tree, name);
    size_t used = 0;
    if (text.size <= sizeof plain && unescape(text.bytes, text.size, plain, &text.size))
        text.bytes = plain;
    const size_t whole = sp_utf8_cut(text.bytes, text.size, size - 4);
    to[used++] = '/';
    for (size_t i = 0; i < whole && used + 3 < size; i++) {
        const char c = text.bytes[i];
        to[used++] = c == '~' || c == '/' ? '~' : c;
        if (c == '~' || c == '/')
            to[used++] = c == '~' ? '0' : '1';
    }
    return used;
}

enum sp_status sp_tree_at(const struct sp_tree *tree, uint32_t value)
{
    uint32_t path[2 * SP_MAX_JSON_NESTING + 2], count = 0;
    char pointer[SP_ERROR_WHERE_SIZE];
    size_t used = 0;
    if (tree->values[value].parent != SP_TREE_NONE && sp_tree_kind(tree, tree->values[value].parent) == SP_TREE_OBJECT)
        value++; /* a name stands for its member */
    for (uint32_t i = value; i != SP_TREE_NONE; i = tree->values[i].parent)
        path[count++] = i;
    for (; count > 1 && used + 24 < sizeof pointer; count--) {
        const uint32_t above = path[count - 1], below = path[count - 2];
        if (sp_tree_kind(tree, above) == SP_TREE_ARRAY)
            used += put_index(tree, above, below, pointer + used, sizeof pointer - used);
        else if (sp_tree_kind(tree, above) == SP_TREE_STRING)
            used += put_name(tree, above, pointer + used, sizeof pointer - used);
    }
    pointer[used] = '\0';
    return sp_error_at(tree->err, "%s", pointer);
}

void sp_tree_record(const struct sp_tree *tree, uint32_t value, const char *code, const char *format, ...)
{
    char message[SP_ERROR_MESSAGE_SIZE];
    SP_FORMAT(message, format);
    (void)sp_fail(tree->err, SP_ERR_MALFORMED, code, "%s", message);
    (void)sp_tree_at(tree, value);
}
