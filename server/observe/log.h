#pragma once
/*
 * log - one line per event on standard error, for people or as JSON.
 *
 *   LOG(LOG_INFO, "job finished", log_s("job", id), log_i("ms", 12));
 *   2026-01-02T03:04:05.678901Z info    job finished job=6f.. ms=12
 *   {"ts":"2026-01-02T03:04:05.678901Z","level":"info","event":"job finished","job":"6f..","ms":12}
 *
 * An event that comes more than SPD_LOG_REPEATS times in a second is counted instead for the rest of that second:
 *
 *   {"ts":"..","level":"warning","event":"not logged","of":"request failed","count":4711}
 *
 * Text that came from outside is escaped in both forms, so an input can never forge a line. A line is written with one
 * write(2), and lines of several threads and processes do not mix. Any thread may log.
 */
#include <stdbool.h>
#include <stdint.h>

enum log_level {
    LOG_DEBUG,
    LOG_INFO,
    LOG_WARNING,
    LOG_ERROR,
};

struct log_field {
    const char *key;  /* NULL ends a list, "" is left out */
    const char *text; /* or NULL: `number` is meant */
    int64_t number;
};

static inline struct log_field log_s(const char *key, const char *text)
{
    return (struct log_field){.key = key, .text = text != 0 ? text : ""};
}

static inline struct log_field log_i(const char *key, int64_t number)
{
    return (struct log_field){.key = key, .number = number};
}

/* The same, left out when the text is empty. */
static inline struct log_field log_maybe(const char *key, const char *text)
{
    return log_s(text != 0 && *text != '\0' ? key : "", text);
}

/* Before the first event: JSON or text, and the least level that is written. */
void log_init(bool json, enum log_level least);

/* Main thread, several times a second, and at the end: writes the counts of what was not logged. */
void log_tick(void);
void log_end(void);

/* Writes the event and the fields up to the one without a key. Use the macro. */
void log_event(enum log_level level, const char *event, const struct log_field *fields);

#define LOG(level, event, ...) log_event((level), (event), (const struct log_field[]){__VA_ARGS__ __VA_OPT__(, ){0}})
