#pragma once
/*
 * lex - the tokens of HloSharding text, and what its readers share.
 *
 * Blanks (space, tab, CR, LF) and comments of C's old form may stand between tokens. A word (letters, digits, '_', '-',
 * '.'; it starts with a letter or '_') with '=' directly behind it is one attribute token. Strings stand in '' or ""
 * with C escapes and come out decoded: well-formed UTF-8 without NUL.
 */
#include "sharding/hlo/hlo.h"

enum sp_hlo_token {
    SP_HLO_END = 0,
    SP_HLO_PUNCT, /* one of { } [ ] ( ) , = : ? */
    SP_HLO_LIST,  /* <= */
    SP_HLO_INT,
    SP_HLO_STRING,
    SP_HLO_WORD,
    SP_HLO_ATTRIBUTE
};

struct sp_hlo_lexer {
    struct sp_arena *arena;
    const char *text;
    size_t size;
    /* The current token: text[start] .. text[end - 1]. */
    enum sp_hlo_token token;
    size_t start, end;
    int64_t number;
    const char *string;
};

/* Starts on the first token. */
enum sp_status sp_hlo_lex_start(struct sp_hlo_lexer *lexer, struct sp_arena *arena, const char *text, size_t size,
                                struct sp_error *err);

/* Goes to the next token. */
enum sp_status sp_hlo_lex_next(struct sp_hlo_lexer *lexer, struct sp_error *err);

/* Whether the current token is this one. */
bool sp_hlo_lex_is(const struct sp_hlo_lexer *lexer, char punct);
bool sp_hlo_lex_is_word(const struct sp_hlo_lexer *lexer, const char *word);
bool sp_hlo_lex_is_attribute(const struct sp_hlo_lexer *lexer, const char *name);

/* Passes over the punctuation when it is there: *ret_found says whether. */
enum sp_status sp_hlo_lex_skip(struct sp_hlo_lexer *lexer, char punct, bool *ret_found, struct sp_error *err);

/* Passes over what must be there; `purpose` completes "expected '{' ...". */
enum sp_status sp_hlo_lex_expect(struct sp_hlo_lexer *lexer, char punct, const char *purpose, struct sp_error *err);

/* Takes an integer; the others take INT (',' INT)* into a list of at most `max` items (the limit called `limit`). */
enum sp_status sp_hlo_lex_int(struct sp_hlo_lexer *lexer, int64_t *ret_number, struct sp_error *err);

struct sp_hlo_numbers {
    int64_t count;
    uint32_t capacity;
    int64_t *items;
};
enum sp_status sp_hlo_lex_ints(struct sp_hlo_lexer *lexer, int64_t max, const char *limit, struct sp_hlo_numbers *list,
                               struct sp_error *err);
enum sp_status sp_hlo_numbers_add(struct sp_arena *arena, int64_t number, int64_t max, const char *limit,
                                  struct sp_hlo_numbers *list, struct sp_error *err);

/* '[' INT (',' INT)* ']' ( 'T(' INT (',' INT)* ')' ), the latter exactly when there are several dims: an order. */
enum sp_status sp_hlo_lex_iota(struct sp_hlo_lexer *lexer, struct sp_device_order *ret_order, struct sp_error *err);

/* SP_ERR_MALFORMED "UNEXPECTED_TOKEN" at the current token; `expected` says what belongs there. */
enum sp_status sp_hlo_lex_unexpected(const struct sp_hlo_lexer *lexer, const char *expected, struct sp_error *err);

/* SP_ERR_MALFORMED with this offset as `where`. */
__attribute__((format(printf, 4, 5))) enum sp_status sp_hlo_fail_at(struct sp_error *err, size_t offset,
                                                                    const char *code, const char *format, ...);
