#include "base/error.h"

#include <stdio.h>
#include <string.h>

/* Names come from untrusted files: a message must never smuggle a line break or an escape sequence into a log. */
static void make_printable(char *text)
{
    for (unsigned char *c = (unsigned char *)text; *c != '\0'; c++) {
        if (*c < 0x20 || *c == 0x7f)
            *c = '?';
    }
}

void sp_error_clear(struct sp_error *err)
{
    if (err != NULL)
        memset(err, 0, sizeof *err);
}

static void record(struct sp_error *err, enum sp_status status, const char *code, const char *format, va_list args)
{
    if (err == NULL || err->status != SP_OK)
        return;
    memset(err, 0, sizeof *err);
    err->status = status;
    (void)snprintf(err->code, sizeof err->code, "%s", code);
    (void)vsnprintf(err->message, sizeof err->message, format, args);
    make_printable(err->message);
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
        make_printable(err->where);
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
