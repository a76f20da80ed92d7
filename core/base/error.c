#include "base/error.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

void sp_make_printable(char *text, size_t size)
{
    size_t length = strlen(text);
    for (size_t at = 0; at < length;) {
        char shown[SP_SHOWN_SIZE];
        uint32_t point;
        const size_t taken = sp_utf8_control(text + at, length - at, &point);
        if (taken == 0) {
            at++;
            while (at < length && ((unsigned char)text[at] & 0xc0) == 0x80)
                at++;
            continue;
        }
        sp_utf8_show(point, shown);
        size_t put = strnlen(shown, sizeof shown);
        if (put > taken && put - taken >= size - length) {
            put = 1; /* there is no room for the escape */
            shown[0] = '?';
        }
        memmove(text + at + put, text + at + taken, length - at - taken + 1);
        memcpy(text + at, shown, put);
        length = length - taken + put;
        at += put;
    }
}

void sp_error_clear(struct sp_error *err)
{
    if (err == NULL)
        return;
    /* Not the texts as a whole: most errors stay empty, and more than a thousand bytes are a lot to clear for that. */
    err->status = SP_OK;
    err->code[0] = err->where[0] = err->message[0] = '\0';
    err->limit = NULL;
    err->limit_value = err->actual = 0;
    err->least_memory_bytes = err->too_little_memory_bytes = 0;
}

__attribute__((format(printf, 4, 0))) static void record(struct sp_error *err, enum sp_status status, const char *code,
                                                         const char *format, va_list args)
{
    if (err == NULL || err->status != SP_OK)
        return;
    sp_error_clear(err);
    err->status = status;
    (void)snprintf(err->code, sizeof err->code, "%s", code);
    (void)vsnprintf(err->message, sizeof err->message, format, args);
    sp_make_printable(err->code, sizeof err->code); /* a client has it from a server */
    sp_make_printable(err->message, sizeof err->message);
}

enum sp_status sp_fail(struct sp_error *err, enum sp_status status, const char *code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    record(err, status, code, format, args);
    va_end(args);
    return status;
}

enum sp_status sp_fail_limit(struct sp_error *err, const char *code, const char *limit, int64_t limit_value,
                             int64_t actual, const char *format, ...)
{
    va_list args;
    int first = err != NULL && err->status == SP_OK;
    va_start(args, format);
    record(err, SP_ERR_LIMIT, code, format, args);
    va_end(args);
    if (first) {
        err->limit = limit;
        err->limit_value = limit_value;
        err->actual = actual;
    }
    return SP_ERR_LIMIT;
}

enum sp_status sp_fail_memory(struct sp_error *err)
{
    return sp_fail(err, SP_ERR_MEMORY, "OUT_OF_MEMORY", "The job ran out of memory or over its memory budget.");
}

enum sp_status sp_error_at(struct sp_error *err, const char *format, ...)
{
    if (err == NULL)
        return SP_ERR_INTERNAL;
    if (err->where[0] == '\0') {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(err->where, sizeof err->where, format, args);
        va_end(args);
        sp_make_printable(err->where, sizeof err->where);
    }
    return err->status;
}

const char *sp_status_name(enum sp_status status)
{
    switch (status) {
    case SP_OK:
        return "ok";
    case SP_ERR_MALFORMED:
        return "malformed";
    case SP_ERR_LIMIT:
        return "limit";
    case SP_ERR_MODEL:
        return "model";
    case SP_ERR_UNSUPPORTED:
        return "unsupported";
    case SP_ERR_REQUEST:
        return "request";
    case SP_ERR_NOFIT:
        return "nofit";
    case SP_ERR_MEMORY:
        return "memory";
    case SP_ERR_IO:
        return "io";
    case SP_ERR_CANCELLED:
        return "cancelled";
    case SP_ERR_INTERNAL:
        return "internal";
    }
    return "internal";
}
