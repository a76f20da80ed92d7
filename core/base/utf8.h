#pragma once
/* utf8 - checks of text that comes out of a file. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* True for well-formed UTF-8 (no overlong forms, surrogates or code points above U+10FFFF) without NUL bytes. */
bool sp_utf8_valid(const void *bytes, size_t size);

/*
 * What text out of a file or a request may do to who reads it: a control character moves the cursor of a terminal or
 * breaks a line of a log, and the controls that turn text round (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to
 * U+2069) and the separators U+2028 and U+2029 make a name look like another one. The bytes of the one that begins at
 * `text` and its code point, SP_NO_CHARACTER for a byte that is not UTF-8; 0 for any other character.
 */
#define SP_NO_CHARACTER 0xfffdu
size_t sp_utf8_control(const void *text, size_t left, uint32_t *ret_point);

/* What is shown in the place of such a control: an escape like "\u202e" for those that turn text round, and "?". */
#define SP_SHOWN_SIZE 7 /* its NUL included */
void sp_utf8_show(uint32_t point, char ret_shown[SP_SHOWN_SIZE]);

/* The largest size <= `limit` at which well-formed UTF-8 text may be cut without splitting a character. */
size_t sp_utf8_cut(const void *bytes, size_t size, size_t limit);

/* Whether a name fits a pattern, in which `*` is any number of bytes and `?` any one. */
bool sp_pattern_matches(const char *pattern, const char *name);
