#pragma once
/*
 * text - numbers as people read them, appended to a buffer. Never locale dependent.
 *
 * Decimal prefixes throughout, as datasheets use them: 1 kB = 1000 bytes, 1 GFLOP = 1e9 operations.
 */
#include <stdint.h>

#include "base/buf.h"
#include "base/json_writer.h"
#include "graph/model.h"

/* "12.1 ms", "7.00 us", "0 s", "unbounded" for infinity. */
void sp_text_seconds(struct sp_buf *buf, double seconds);

/* "102.2 MB", "512 B". */
void sp_text_bytes(struct sp_buf *buf, double bytes);

/* "8.21 G", "312 T": with the unit appended by the caller. */
void sp_text_scaled(struct sp_buf *buf, double value);

/* "25,557,032". */
void sp_text_integer(struct sp_buf *buf, uint64_t value);

/* Text cut to `width` columns, its middle replaced by ".." when it is longer. Control characters become '?': names come
   from strangers and go to a terminal. Columns are code points. */
void sp_text_cut(struct sp_buf *buf, const char *text, size_t width);

/* A paragraph broken at blanks to lines of at most `width` columns; all lines but the first are indented, the first is
   taken to begin at column `indent`. Ends with a line break. */
void sp_text_wrapped(struct sp_buf *buf, const char *text, size_t indent, size_t width);

/* "[2, seq, 64]", "[?, 3]", "unknown rank". */
void sp_text_shape(struct sp_buf *buf, const struct sp_shape *shape);

/* One dimension as a JSON value: a number, a string (a symbol or an expression) or null. `scratch` is an initialised
   buffer that is empty before and after. */
void sp_json_dim(struct sp_json *json, struct sp_dim dim, struct sp_buf *scratch);
