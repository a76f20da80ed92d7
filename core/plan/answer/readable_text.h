#pragma once
/*
 * readable_text - numbers, names and shapes as people read them, appended to a buffer; seconds and bytes are in
 * base/units.h. Never locale dependent.
 */
#include <stdint.h>

#include "base/buf.h"
#include "base/json_writer.h"
#include "base/units.h"
#include "graph/model.h"

/* "25,557,032". */
void sp_text_integer(struct sp_buf *buf, uint64_t value);

/* "2,105" requests per second, "12.34". */
void sp_text_rate(struct sp_buf *buf, double rate);

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
