#pragma once
/*
 * units - seconds and bytes as people read them, appended to a buffer. Never locale dependent.
 *
 * Decimal prefixes throughout, as datasheets use them: 1 kB = 1000 bytes, 1 GFLOP = 1e9 operations.
 */
#include "base/buf.h"

/* "12.1 ms", "7.00 us", "0 s", "unbounded" for infinity. */
void sp_text_seconds(struct sp_buf *buf, double seconds);

/* "102.2 MB", "512 B". */
void sp_text_bytes(struct sp_buf *buf, double bytes);

/* "8.21 G", "312 T": with the unit appended by the caller. */
void sp_text_scaled(struct sp_buf *buf, double value);
