#include "base/json_writer.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

static void flush(struct sp_json *json)
{
    if (!json->failed && json->used > 0 && !json->write(json->context, json->pending, json->used))
        json->failed = true;
    json->used = 0;
}

static void put(struct sp_json *json, const char *bytes, size_t size)
{
    if (size > sizeof json->pending - json->used)
        flush(json);
    if (size > sizeof json->pending) {
        if (!json->failed && !json->write(json->context, bytes, size))
            json->failed = true;
        return;
    }
    memcpy(json->pending + json->used, bytes, size);
    json->used += size;
}

static void put_text(struct sp_json *json, const char *text)
{
    put(json, text, strlen(text));
}

static void new_line(struct sp_json *json)
{
    if (!json->pretty)
        return;
    put(json, "\n", 1);
    for (int i = 0; i < json->depth; i++)
        put(json, "  ", 2);
}

/* Whatever must stand before a value: the comma and the line break of an array item, nothing after a key. */
static void before_value(struct sp_json *json)
{
    if (json->after_key) {
        json->after_key = false;
        return;
    }
    if (json->depth == 0)
        return;
    if (json->has_items[json->depth])
        put(json, ",", 1);
    json->has_items[json->depth] = true;
    new_line(json);
}

void sp_json_init(struct sp_json *json, bool pretty, bool (*write)(void *, const char *, size_t), void *context)
{
    memset(json, 0, sizeof *json);
    json->write = write;
    json->context = context;
    json->pretty = pretty;
}

static bool write_to_buf(void *context, const char *bytes, size_t size)
{
    struct sp_buf *buf = context;
    sp_buf_append(buf, bytes, size);
    return !sp_buf_failed(buf);
}

void sp_json_init_buf(struct sp_json *json, bool pretty, struct sp_buf *buf)
{
    sp_json_init(json, pretty, write_to_buf, buf);
}

static void begin(struct sp_json *json, const char *bracket)
{
    before_value(json);
    put(json, bracket, 1);
    assert(json->depth < SP_JSON_MAX_DEPTH);
    json->has_items[++json->depth] = false;
}

static void end(struct sp_json *json, const char *bracket)
{
    assert(json->depth > 0 && !json->after_key);
    bool had_items = json->has_items[json->depth--];
    if (had_items)
        new_line(json);
    put(json, bracket, 1);
}

void sp_json_begin_object(struct sp_json *json)
{
    begin(json, "{");
}

void sp_json_end_object(struct sp_json *json)
{
    end(json, "}");
}

void sp_json_begin_array(struct sp_json *json)
{
    begin(json, "[");
}

void sp_json_end_array(struct sp_json *json)
{
    end(json, "]");
}

static void put_quoted(struct sp_json *json, const char *text)
{
    put(json, "\"", 1);
    const char *from = text;
    for (const char *c = text; *c != '\0'; c++) {
        unsigned char byte = (unsigned char)*c;
        if (byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\' && byte != '<' && byte != '>' && byte != '&')
            continue;
        char escape[8];
        uint32_t point = byte;
        const size_t taken = byte < 0x80 ? 1 : sp_utf8_control(c, strnlen(c, 4), &point);
        if (taken == 0 || point == SP_NO_CHARACTER)
            continue;
        if (byte == '"' || byte == '\\')
            (void)snprintf(escape, sizeof escape, "\\%c", byte);
        else
            (void)snprintf(escape, sizeof escape, "\\u%04x", (unsigned)point & 0xffffu);
        put(json, from, (size_t)(c - from));
        put_text(json, escape);
        c += taken - 1;
        from = c + 1;
    }
    put_text(json, from);
    put(json, "\"", 1);
}

void sp_json_key(struct sp_json *json, const char *name)
{
    assert(!json->after_key && json->depth > 0);
    before_value(json);
    put_quoted(json, name);
    put_text(json, json->pretty ? ": " : ":");
    json->after_key = true;
}

void sp_json_string(struct sp_json *json, const char *text)
{
    before_value(json);
    if (text == NULL)
        put_text(json, "null");
    else
        put_quoted(json, text);
}

void sp_json_int(struct sp_json *json, int64_t value)
{
    char text[32];
    before_value(json);
    (void)snprintf(text, sizeof text, "%" PRId64, value);
    put_text(json, text);
}

void sp_json_double(struct sp_json *json, double value)
{
    char text[40];
    before_value(json);
    if (!isfinite(value)) {
        put_text(json, "null");
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    /* A program that has called setlocale() may print a comma here; JSON knows only the point. */
    for (char *c = text; *c != '\0'; c++) {
        if (*c == ',')
            *c = '.';
    }
    put_text(json, text);
}

void sp_json_bool(struct sp_json *json, bool value)
{
    before_value(json);
    put_text(json, value ? "true" : "false");
}

void sp_json_null(struct sp_json *json)
{
    sp_json_string(json, NULL);
}

void sp_json_raw(struct sp_json *json, const char *text, size_t size)
{
    before_value(json);
    put(json, text, size);
}

void sp_json_member_string(struct sp_json *json, const char *name, const char *text)
{
    sp_json_key(json, name);
    sp_json_string(json, text);
}

void sp_json_member_int(struct sp_json *json, const char *name, int64_t value)
{
    sp_json_key(json, name);
    sp_json_int(json, value);
}

void sp_json_member_double(struct sp_json *json, const char *name, double value)
{
    sp_json_key(json, name);
    sp_json_double(json, value);
}

void sp_json_member_bool(struct sp_json *json, const char *name, bool value)
{
    sp_json_key(json, name);
    sp_json_bool(json, value);
}

enum sp_status sp_json_finish(struct sp_json *json, struct sp_error *err)
{
    flush(json);
    return json->failed ? sp_fail(err, SP_ERR_IO, "WRITE_FAILED", "Writing the JSON output failed.") : SP_OK;
}
