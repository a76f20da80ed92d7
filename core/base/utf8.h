#pragma once
/* utf8 - checks of text that comes out of a file. */
#include <stdbool.h>
#include <stddef.h>

/* True for well-formed UTF-8 (no overlong forms, surrogates or code points above U+10FFFF) without NUL bytes. */
bool sp_utf8_valid(const void *bytes, size_t size);

/* The largest size <= `limit` at which well-formed UTF-8 text may be cut without splitting a character. */
size_t sp_utf8_cut(const void *bytes, size_t size, size_t limit);

/* Whether a name fits a pattern, in which `*` is any number of bytes and `?` any one. */
bool sp_pattern_matches(const char *pattern, const char *name);
