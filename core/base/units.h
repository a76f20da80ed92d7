#pragma once
/*
 * units - seconds, bytes and lists of numbers as people read them, appended to a buffer, and seconds as they write
 * them. What is written never depends on the locale.
 *
 * Decimal prefixes throughout, as datasheets use them: 1 kB = 1000 bytes, 1 GFLOP = 1e9 operations.
 */
#include <stdbool.h>

#include "base/buf.h"

/* "12.1 ms", "7.00 us", "0 s", "unbounded" for infinity. */
void sp_text_seconds(struct sp_buf *buf, double seconds);

/* "102.2 MB", "512 B". */
void sp_text_bytes(struct sp_buf *buf, double bytes);

/* "8.21 G", "312 T": with the unit appended by the caller. */
void sp_text_scaled(struct sp_buf *buf, double value);

/* "0-3, 8": numbers[first .. first + count - 1] in their order, neighbours as ranges; NULL: the indices themselves. */
void sp_text_numbers(struct sp_buf *buf, const uint32_t *numbers, uint32_t first, uint32_t count);

/* "90" (seconds), "50ms", "1.5h": a number from 0 to 1e12 seconds, with the locale's point, and us, ms, s, m, min, h or
   d. False for anything else. */
bool sp_parse_seconds(const char *text, double *ret_seconds);
