#include "sharding/hlo/lex.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "base/array.h"
#include "base/utf8.h"

#define SHOWN_BYTES 40 /* of a token, in messages */

enum sp_status sp_hlo_fail_at(struct sp_error *err, size_t offset, const char *code, const char *format, ...)
{
    char text[SP_ERROR_MESSAGE_SIZE];
    SP_FORMAT(text, format);
    sp_fail(err, SP_ERR_MALFORMED, code, "%s", text);
    sp_error_at(err, "offset %zu", offset);
    return SP_ERR_MALFORMED;
}

/* The current token for a message: its text, quoted and shortened. */
struct shown {
    char text[SHOWN_BYTES + 8];
};

static struct shown show(const struct sp_hlo_lexer *lexer)
{
    struct shown shown;
    size_t size = lexer->end - lexer->start;
    if (lexer->token == SP_HLO_END) {
        (void)snprintf(shown.text, sizeof shown.text, "the end of the text");
        return shown;
    }
    size_t cut = sp_utf8_cut(lexer->text + lexer->start, size, SHOWN_BYTES);
    (void)snprintf(shown.text, sizeof shown.text, "'%.*s%s'", (int)cut, lexer->text + lexer->start,
                   cut < size ? ".." : "");
    return shown;
}

enum sp_status sp_hlo_lex_unexpected(const struct sp_hlo_lexer *lexer, const char *expected, struct sp_error *err)
{
    return sp_hlo_fail_at(err, lexer->start, "UNEXPECTED_TOKEN",
                          "There is an unexpected token at offset %zu: %s stands where %s was expected.", lexer->start,
                          show(lexer).text, expected);
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word_part(char c)
{
    return is_letter(c) || is_digit(c) || c == '-' || c == '.';
}

/* Passes over blanks and comments, from lexer->end on, and sets lexer->start. */
static enum sp_status skip_blanks(struct sp_hlo_lexer *lexer, struct sp_error *err)
{
    size_t at = lexer->end;
    for (;;) {
        while (at < lexer->size && (lexer->text[at] == ' ' || lexer->text[at] == '\t' || lexer->text[at] == '\r' ||
                                    lexer->text[at] == '\n'))
            at++;
        if (lexer->size - at < 2 || lexer->text[at] != '/' || lexer->text[at + 1] != '*')
            break;
        const char *close = memmem(lexer->text + at + 2, lexer->size - at - 2, "*/", 2);
        if (close == NULL)
            return sp_hlo_fail_at(err, at, "OPEN_COMMENT", "The comment that begins at offset %zu is never closed.",
                                  at);
        at = (size_t)(close - lexer->text) + 2;
    }
    lexer->start = at;
    return SP_OK;
}

static enum sp_status lex_number(struct sp_hlo_lexer *lexer, struct sp_error *err)
{
    size_t at = lexer->start;
    bool negative = lexer->text[at] == '-';
    int64_t number = 0;
    at += negative;
    if (at == lexer->size || !is_digit(lexer->text[at]))
        return sp_hlo_fail_at(err, lexer->start, "UNEXPECTED_TOKEN",
                              "There is an unexpected token at offset %zu: '-' without a number behind it.",
                              lexer->start);
    for (; at < lexer->size && is_digit(lexer->text[at]); at++) {
        int64_t digit = lexer->text[at] - '0';
        /* Counted downwards when negative, so that the smallest number can be read. */
        if (!sp_mul_i64(number, 10, &number) || !sp_add_i64(number, negative ? -digit : digit, &number))
            return sp_hlo_fail_at(err, lexer->start, "NUMBER_TOO_LARGE",
                                  "The number at offset %zu does not fit in 64 bits.", lexer->start);
    }
    if (at < lexer->size && is_word_part(lexer->text[at]))
        return sp_hlo_fail_at(err, lexer->start, "UNEXPECTED_TOKEN",
                              "There is an unexpected token at offset %zu: the number is followed by '%c'.",
                              lexer->start, lexer->text[at]);
    lexer->end = at;
    lexer->token = SP_HLO_INT;
    lexer->number = number;
    return SP_OK;
}

static int hex_digit(char c)
{
    if (is_digit(c))
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One C escape behind a backslash at text[*at - 1]: octal with up to three digits, \xHH, or a letter. */
static bool unescape(const char *text, size_t size, size_t *at, char *ret_byte)
{
    static const char letters[] = "nrtabfv\\'\"?", meanings[] = "\n\r\t\a\b\f\v\\'\"?";
    int value = 0, digits = 0;
    if (*at == size)
        return false;
    char c = text[(*at)++];
    if (c >= '0' && c <= '7') {
        value = c - '0';
        for (digits = 1; digits < 3 && *at < size && text[*at] >= '0' && text[*at] <= '7'; digits++)
            value = value * 8 + (text[(*at)++] - '0');
    } else if (c == 'x' || c == 'X') {
        for (; digits < 2 && *at < size && hex_digit(text[*at]) >= 0; digits++)
            value = value * 16 + hex_digit(text[(*at)++]);
        if (digits == 0)
            return false;
    } else {
        const char *found = c != '\0' ? strchr(letters, c) : NULL;
        if (found == NULL)
            return false;
        value = (unsigned char)meanings[found - letters];
    }
    *ret_byte = (char)value;
    return value <= 0xff;
}

static enum sp_status lex_string(struct sp_hlo_lexer *lexer, struct sp_error *err)
{
    const char *text = lexer->text;
    char quote = text[lexer->start];
    size_t at = lexer->start + 1, close = at, length = 0;
    while (close < lexer->size && text[close] != quote)
        close += text[close] == '\\' ? 2 : 1;
    if (close >= lexer->size)
        return sp_hlo_fail_at(err, lexer->start, "OPEN_STRING", "The string at offset %zu is never closed.",
                              lexer->start);
    char *string = SP_NEW_ARRAY(lexer->arena, close - at + 1, char);
    if (string == NULL)
        return sp_fail_memory(err);
    while (at < close) {
        if (text[at] != '\\') {
            string[length++] = text[at++];
            continue;
        }
        size_t escape = at++;
        if (!unescape(text, close, &at, &string[length++]))
            return sp_hlo_fail_at(err, escape, "BAD_ESCAPE",
                                  "The escape at offset %zu is not one of \\n, \\t, \\\", \\', \\\\, \\xHH and octal.",
                                  escape);
    }
    if (length > SP_MAX_NAME_BYTES)
        return sp_fail_limit(err, "NAME_TOO_LONG", "SP_MAX_NAME_BYTES", SP_MAX_NAME_BYTES, (int64_t)length,
                             "The string at offset %zu has %zu bytes; at most %d are read.", lexer->start, length,
                             SP_MAX_NAME_BYTES);
    if (!sp_utf8_valid(string, length))
        return sp_hlo_fail_at(err, lexer->start, "BAD_STRING",
                              "The string at offset %zu is not well-formed UTF-8 without NUL.", lexer->start);
    lexer->end = close + 1;
    lexer->token = SP_HLO_STRING;
    lexer->string = string;
    return SP_OK;
}

enum sp_status sp_hlo_lex_next(struct sp_hlo_lexer *lexer, struct sp_error *err)
{
    enum sp_status status = skip_blanks(lexer, err);
    if (status != SP_OK)
        return status;
    lexer->end = lexer->start;
    lexer->token = SP_HLO_END;
    if (lexer->start == lexer->size)
        return SP_OK;
    char c = lexer->text[lexer->start];
    if (c == '-' || is_digit(c))
        return lex_number(lexer, err);
    if (c == '\'' || c == '"')
        return lex_string(lexer, err);
    if (is_letter(c)) {
        while (lexer->end < lexer->size && is_word_part(lexer->text[lexer->end]))
            lexer->end++;
        bool is_attribute = lexer->end < lexer->size && lexer->text[lexer->end] == '=';
        lexer->token = is_attribute ? SP_HLO_ATTRIBUTE : SP_HLO_WORD;
        lexer->end += is_attribute;
        return SP_OK;
    }
    if (c == '<' && lexer->size - lexer->start > 1 && lexer->text[lexer->start + 1] == '=') {
        lexer->token = SP_HLO_LIST;
        lexer->end = lexer->start + 2;
        return SP_OK;
    }
    if (c != '\0' && strchr("{}[](),=:?", c) != NULL) {
        lexer->token = SP_HLO_PUNCT;
        lexer->end = lexer->start + 1;
        return SP_OK;
    }
    return sp_hlo_fail_at(err, lexer->start, "UNEXPECTED_TOKEN",
                          "There is an unexpected token at offset %zu: no sharding has the byte 0x%02x there.",
                          lexer->start, (unsigned char)c);
}

enum sp_status sp_hlo_lex_start(struct sp_hlo_lexer *lexer, struct sp_arena *arena, const char *text, size_t size,
                                struct sp_error *err)
{
    if (size > SP_MAX_SHARDING_BYTES)
        return sp_fail_limit(err, "SHARDING_TOO_LARGE", "SP_MAX_SHARDING_BYTES", SP_MAX_SHARDING_BYTES, (int64_t)size,
                             "The sharding has %zu bytes; at most %u are read.", size, SP_MAX_SHARDING_BYTES);
    *lexer = (struct sp_hlo_lexer){.arena = arena, .text = text, .size = size};
    return sp_hlo_lex_next(lexer, err);
}

bool sp_hlo_lex_is(const struct sp_hlo_lexer *lexer, char punct)
{
    return lexer->token == SP_HLO_PUNCT && lexer->text[lexer->start] == punct;
}

static bool spells(const struct sp_hlo_lexer *lexer, size_t size, const char *word)
{
    return strlen(word) == size && memcmp(lexer->text + lexer->start, word, size) == 0;
}

bool sp_hlo_lex_is_word(const struct sp_hlo_lexer *lexer, const char *word)
{
    return lexer->token == SP_HLO_WORD && spells(lexer, lexer->end - lexer->start, word);
}

bool sp_hlo_lex_is_attribute(const struct sp_hlo_lexer *lexer, const char *name)
{
    return lexer->token == SP_HLO_ATTRIBUTE && spells(lexer, lexer->end - lexer->start - 1, name);
}

enum sp_status sp_hlo_lex_skip(struct sp_hlo_lexer *lexer, char punct, bool *ret_found, struct sp_error *err)
{
    *ret_found = sp_hlo_lex_is(lexer, punct);
    return *ret_found ? sp_hlo_lex_next(lexer, err) : SP_OK;
}

enum sp_status sp_hlo_lex_expect(struct sp_hlo_lexer *lexer, char punct, const char *purpose, struct sp_error *err)
{
    if (sp_hlo_lex_is(lexer, punct))
        return sp_hlo_lex_next(lexer, err);
    return sp_hlo_fail_at(err, lexer->start, "UNEXPECTED_TOKEN",
                          "The reader expected '%c' %s at offset %zu, but there is an unexpected token, %s.", punct,
                          purpose, lexer->start, show(lexer).text);
}

enum sp_status sp_hlo_lex_int(struct sp_hlo_lexer *lexer, int64_t *ret_number, struct sp_error *err)
{
    if (lexer->token != SP_HLO_INT)
        return sp_hlo_fail_at(err, lexer->start, "INTEGER_EXPECTED",
                              "The sharding's grammar expects integer digits at offset %zu, but there is %s.",
                              lexer->start, show(lexer).text);
    *ret_number = lexer->number;
    return sp_hlo_lex_next(lexer, err);
}

enum sp_status sp_hlo_numbers_add(struct sp_arena *arena, int64_t number, int64_t max, const char *limit,
                                  struct sp_hlo_numbers *list, struct sp_error *err)
{
    if (list->count == max)
        return sp_fail_limit(err, "LIST_TOO_LONG", limit, max, max + 1,
                             "A list of the sharding has more than %" PRId64 " numbers.", max);
    if (!SP_MAKE_ROOM(arena, list->items, list->count, list->capacity, 1))
        return sp_fail_memory(err);
    list->items[list->count++] = number;
    return SP_OK;
}

enum sp_status sp_hlo_lex_ints(struct sp_hlo_lexer *lexer, int64_t max, const char *limit, struct sp_hlo_numbers *list,
                               struct sp_error *err)
{
    bool more = true;
    while (more) {
        int64_t number = 0;
        enum sp_status status = sp_hlo_lex_int(lexer, &number, err);
        if (status == SP_OK)
            status = sp_hlo_numbers_add(lexer->arena, number, max, limit, list, err);
        if (status == SP_OK)
            status = sp_hlo_lex_skip(lexer, ',', &more, err);
        if (status != SP_OK)
            return status;
    }
    return SP_OK;
}

/* T(1,0): every entry is an index of a dim, each once. */
static enum sp_status lex_permutation(struct sp_hlo_lexer *lexer, int64_t rank, struct sp_hlo_numbers *perm,
                                      struct sp_error *err)
{
    size_t start = lexer->start;
    bool seen[SP_MAX_SHARDING_AXES] = {false};
    if (!sp_hlo_lex_is_word(lexer, "T"))
        return sp_hlo_fail_at(err, start, "TRANSPOSE_EXPECTED",
                              "The reader expected 'T(' at offset %zu, because the iota has several dims; there is %s.",
                              start, show(lexer).text);
    enum sp_status status = sp_hlo_lex_next(lexer, err);
    if (status == SP_OK && !sp_hlo_lex_is(lexer, '('))
        return sp_hlo_fail_at(err, start, "TRANSPOSE_EXPECTED",
                              "The reader expected 'T(' at offset %zu, but no '(' follows the T.", start);
    if (status == SP_OK)
        status = sp_hlo_lex_next(lexer, err);
    if (status == SP_OK)
        status = sp_hlo_lex_ints(lexer, SP_MAX_SHARDING_AXES, "SP_MAX_SHARDING_AXES", perm, err);
    if (status != SP_OK)
        return status;
    for (int64_t i = 0; i < perm->count; i++) {
        int64_t entry = perm->items[i];
        if (entry < 0 || entry >= rank)
            return sp_hlo_fail_at(err, start, "BAD_PERMUTATION",
                                  "Out of range iota minor_to_major value %" PRId64 " at offset %zu: the iota's dims "
                                  "are 0 to %" PRId64 ".",
                                  entry, start, rank - 1);
        if (seen[entry])
            return sp_hlo_fail_at(err, start, "BAD_PERMUTATION",
                                  "The T(..) at offset %zu is not a permutation: %" PRId64 " occurs twice.", start,
                                  entry);
        seen[entry] = true;
    }
    if (perm->count != rank)
        return sp_hlo_fail_at(err, start, "BAD_PERMUTATION",
                              "The iota_transpose_perm should have the same rank as iota_reshape_dims, but at offset "
                              "%zu it has %" PRId64 " entries for %" PRId64 " dims.",
                              start, perm->count, rank);
    return sp_hlo_lex_expect(lexer, ')', "to end the transpose of the iota", err);
}

enum sp_status sp_hlo_lex_iota(struct sp_hlo_lexer *lexer, struct sp_device_order *ret_order, struct sp_error *err)
{
    struct sp_hlo_numbers dims = {0}, perm = {0};
    size_t start = lexer->start;
    enum sp_status status = sp_hlo_lex_expect(lexer, '[', "to begin the dims of an iota", err);
    if (status == SP_OK)
        status = sp_hlo_lex_ints(lexer, SP_MAX_SHARDING_AXES, "SP_MAX_SHARDING_AXES", &dims, err);
    if (status == SP_OK)
        status = sp_hlo_lex_expect(lexer, ']', "to end the dims of an iota", err);
    if (status == SP_OK && dims.count == 1)
        status = sp_hlo_numbers_add(lexer->arena, 0, 1, "SP_MAX_SHARDING_AXES", &perm, err);
    else if (status == SP_OK)
        status = lex_permutation(lexer, dims.count, &perm, err);
    if (status == SP_OK) {
        status = sp_device_order_iota(lexer->arena, (uint32_t)dims.count, dims.items, perm.items, ret_order, err);
        if (status == SP_ERR_MALFORMED)
            sp_error_at(err, "offset %zu", start);
    }
    return status;
}
