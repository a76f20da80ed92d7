#pragma once
/* encode - texts as values of a query: all but letters, digits and "-._~" are percent-encoded, in upper case. */
#include <stdbool.h>
#include <stddef.h>

/* Puts it behind what `to` has; false when it does not fit in `size` bytes with the NUL. */
bool s3_encode_more(char *to, size_t size, const char *text);

/* The same from the start; false also for an empty text. */
bool s3_encode(const char *text, char *ret, size_t size);
