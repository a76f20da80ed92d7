#pragma once
/*
 * json_writer - JSON text written straight to a sink, without a tree in memory.
 *
 * A plan for 100,000 nodes is tens of megabytes of JSON; writing it as it is produced keeps memory flat. (Requests that
 * are read go through jansson, models in JSON through json/.) The writer puts commas and escapes by itself; a debug
 * assertion guards against a wrong nesting of calls.
 *
 * Numbers: integers as written; doubles in the shortest form that reads back to the same double; infinities and NaN,
 * which JSON lacks, as null. Strings must be UTF-8 (the readers check it); control characters and '<', '>', '&' are
 * escaped, so that text may be put into a page. Locale is never consulted.
 *
 * Errors are sticky: after the sink fails, calls do nothing and sp_json_finish() returns SP_ERR_IO.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

#define SP_JSON_MAX_DEPTH 32

struct sp_json {
    /* Takes the bytes, returns false on failure. */
    bool (*write)(void *context, const char *bytes, size_t size);
    void *context;
    bool failed, pretty;
    int depth;
    bool has_items[SP_JSON_MAX_DEPTH + 1];
    bool after_key;
    size_t used;
    char pending[4096];
};

/* Writes to `write`; with `pretty`, two blanks per level and one member per line. */
void sp_json_init(struct sp_json *json, bool pretty, bool (*write)(void *, const char *, size_t), void *context);

/* Writes into a buffer that the caller has initialised. */
void sp_json_init_buf(struct sp_json *json, bool pretty, struct sp_buf *buf);

void sp_json_begin_object(struct sp_json *json);
void sp_json_end_object(struct sp_json *json);
void sp_json_begin_array(struct sp_json *json);
void sp_json_end_array(struct sp_json *json);

/* A member's name; exactly one value must follow. */
void sp_json_key(struct sp_json *json, const char *name);

void sp_json_string(struct sp_json *json, const char *text); /* NULL writes null */
void sp_json_int(struct sp_json *json, int64_t value);
void sp_json_double(struct sp_json *json, double value);
void sp_json_bool(struct sp_json *json, bool value);
void sp_json_null(struct sp_json *json);

/* Text that is already JSON, copied as it is. */
void sp_json_raw(struct sp_json *json, const char *text, size_t size);

/* Key and value in one call. */
void sp_json_member_string(struct sp_json *json, const char *name, const char *text);
void sp_json_member_int(struct sp_json *json, const char *name, int64_t value);
void sp_json_member_double(struct sp_json *json, const char *name, double value);
void sp_json_member_bool(struct sp_json *json, const char *name, bool value);

/* Flushes; SP_ERR_IO when the sink failed at any time. */
enum sp_status sp_json_finish(struct sp_json *json, struct sp_error *err);
