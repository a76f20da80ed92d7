#pragma once
/*
 * error - how every function of the library reports what went wrong.
 *
 * A function that can fail returns `enum sp_status`; SP_OK is 0. What a person needs to know goes into the caller's
 * `struct sp_error`: a stable code for programs, a full sentence for people, where in the input it happened and, when a
 * named limit was hit, that limit's name and the two numbers.
 *
 * Invariants
 *  - Outputs named `ret_...` are written only on success; the error object only on failure.
 *  - `message` is a complete sentence fit for an end user and says what to do where that is known.
 *  - The first error wins: sp_fail() on an object that already holds an error keeps the first one.
 *  - An error object owns no memory; it may be copied and dropped freely. A NULL error object is allowed everywhere.
 */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

enum sp_status {
    SP_OK = 0,
    SP_ERR_MALFORMED,   /* the bytes are not what they claim to be (HTTP 400, exit 2) */
    SP_ERR_LIMIT,       /* a named limit was exceeded (HTTP 422, exit 2) */
    SP_ERR_MODEL,       /* well-formed, but the model is wrong (HTTP 422, exit 1) */
    SP_ERR_UNSUPPORTED, /* correct, but this program cannot do it (HTTP 422, exit 1) */
    SP_ERR_REQUEST,     /* the request or its options are wrong (HTTP 422, exit 2) */
    SP_ERR_NOFIT,       /* no plan fits the devices (HTTP 422, exit 3) */
    SP_ERR_MEMORY,      /* out of memory or over the job's memory budget (HTTP 503, exit 4) */
    SP_ERR_IO,          /* a sink or source failed (HTTP 500, exit 4) */
    SP_ERR_CANCELLED,   /* the cancel token was raised */
    SP_ERR_INTERNAL,    /* our fault */
};

#define SP_ERROR_CODE_SIZE    64
#define SP_ERROR_WHERE_SIZE   256
#define SP_ERROR_MESSAGE_SIZE 1024

struct sp_error {
    enum sp_status status;
    char code[SP_ERROR_CODE_SIZE];       /* [A-Z][A-Z0-9_]+, stable, e.g. "NESTING_TOO_DEEP" */
    char where[SP_ERROR_WHERE_SIZE];     /* byte offset, node path or JSON pointer; "" when not known */
    char message[SP_ERROR_MESSAGE_SIZE]; /* one full sentence */
    const char *limit;                   /* static name of the limit in base/limits.h, or NULL */
    int64_t limit_value, actual;         /* meaningful only when `limit` is set */
    /* SP_ERR_NOFIT: with so many bytes on each device a plan was found, with so many none was; 0: not known. */
    int64_t least_memory_bytes, too_little_memory_bytes;
};

/* For functions that take a format and what it formats: the text, cut where it is too long, in the array `text`; `format`
   is the last parameter before the dots. */
#define SP_FORMAT(text, format)                                                                                        \
    do {                                                                                                               \
        va_list rest_;                                                                                                 \
        va_start(rest_, format);                                                                                       \
        (void)vsnprintf(text, sizeof text, format, rest_);                                                             \
        va_end(rest_);                                                                                                 \
    } while (0)

/* Makes `err` empty (SP_OK). */
void sp_error_clear(struct sp_error *err);

/*
 * Records an error and returns `status`, so that `return sp_fail(...)` reads well. `code` and the formatted message are
 * truncated to the sizes above. Control characters in the formatted text (it quotes names out of the input) are
 * replaced by '?'.
 */
__attribute__((format(printf, 4, 5))) enum sp_status sp_fail(struct sp_error *err, enum sp_status status,
                                                             const char *code, const char *format, ...);

/* As sp_fail() with SP_ERR_LIMIT, and remembers the limit's name (a static string) and both numbers. */
__attribute__((format(printf, 6, 7))) enum sp_status sp_fail_limit(struct sp_error *err, const char *code,
                                                                   const char *limit, int64_t limit_value,
                                                                   int64_t actual, const char *format, ...);

/*
 * Replaces control characters, and bytes that are not UTF-8, by '?', and controls that turn text round by escapes (utf8.h;
 * by '?' where the `size` bytes at `text` have no room for them). Errors are made so: names come from untrusted
 * files, and a message must never smuggle a line break or an escape sequence into a log; cutting at a size may also
 * have left half a character behind, which JSON cannot carry.
 */
void sp_make_printable(char *text, size_t size);

/* SP_ERR_MEMORY with the standard sentence. */
enum sp_status sp_fail_memory(struct sp_error *err);

/* Sets `where` of an error already recorded, unless it is set; returns err's status (SP_ERR_INTERNAL for NULL). */
__attribute__((format(printf, 2, 3))) enum sp_status sp_error_at(struct sp_error *err, const char *format, ...);

/* The status as a lower-case word ("malformed"), static. */
const char *sp_status_name(enum sp_status status);
