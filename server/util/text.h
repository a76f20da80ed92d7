#pragma once
/* text - small checks on strings that come from outside. All are pure and safe from any thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Replaces every byte that is not part of valid UTF-8 by '?', in place. Cutting a message may split a character. */
void text_clean(char *text);

/* True for valid UTF-8 without control characters. */
bool text_is_printable(const char *text);

/* True for exactly `digits` lower-case hexadecimal digits. */
bool text_is_hex(const char *text, size_t digits);

/* Writes 2 * size lower-case hexadecimal digits and a NUL. */
void text_to_hex(const void *bytes, size_t size, char *ret);

/* A decimal number without sign, between least and most. */
bool text_to_int(const char *text, int64_t least, int64_t most, int64_t *ret);
