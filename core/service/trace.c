#include "service/trace.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/array.h"
#include "base/sorted.h"

enum column { COLUMN_SECONDS, COLUMN_INPUT, COLUMN_OUTPUT, COLUMNS };

static const char *const column_names[COLUMNS] = {"seconds", "input", "output"};

static const struct {
    const char *name;
    enum column column;
} known_names[] = {
    {"seconds", COLUMN_SECONDS},          {"time", COLUMN_SECONDS},
    {"timestamp", COLUMN_SECONDS},        {"arrival", COLUMN_SECONDS},
    {"arrived_at", COLUMN_SECONDS},       {"input", COLUMN_INPUT},
    {"input_tokens", COLUMN_INPUT},       {"input_length", COLUMN_INPUT},
    {"contexttokens", COLUMN_INPUT},      {"request tokens", COLUMN_INPUT},
    {"num_prefill_tokens", COLUMN_INPUT}, {"output", COLUMN_OUTPUT},
    {"output_tokens", COLUMN_OUTPUT},     {"output_length", COLUMN_OUTPUT},
    {"generatedtokens", COLUMN_OUTPUT},   {"response tokens", COLUMN_OUTPUT},
    {"num_decode_tokens", COLUMN_OUTPUT},
};

/* One field of a line, without blanks and quotes around it, as text. */
struct field {
    char text[SP_MAX_TRACE_FIELD + 1];
    bool fits;
};

struct reading {
    const char *at, *end; /* what is left of the text */
    uint32_t line;        /* number of the line at hand */
    uint32_t columns[COLUMNS];
    uint32_t count, capacity;
    struct sp_trace_request *requests;
    struct sp_error *err;
};

__attribute__((format(printf, 2, 3))) static enum sp_status refuse(const struct reading *r, const char *format, ...)
{
    char what[512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    (void)sp_fail(r->err, SP_ERR_REQUEST, "TRACE_INVALID", "Line %u of the trace: %s", r->line, what);
    return sp_error_at(r->err, "line %u", r->line);
}

/* ---- lines and fields --------------------------------------------------------------------------------------------- */

/* The next line that says something; false behind the last one. */
static bool next_line(struct reading *r, const char **ret_line, const char **ret_end)
{
    while (r->at < r->end) {
        const char *line = r->at;
        const char *stop = memchr(line, '\n', (size_t)(r->end - line));
        const char *end = stop != NULL ? stop : r->end;
        r->at = stop != NULL ? stop + 1 : r->end;
        r->line++;
        while (end > line && isspace((unsigned char)end[-1]))
            end--;
        while (line < end && isspace((unsigned char)*line))
            line++;
        if (line < end && *line != '#') {
            *ret_line = line;
            *ret_end = end;
            return true;
        }
    }
    return false;
}

/* The field that begins at *at, which is then behind its comma, or NULL behind the last field. */
static void next_field(const char **at, const char *end, struct field *ret_field)
{
    const char *first = *at;
    const char *comma = memchr(first, ',', (size_t)(end - first));
    const char *last = comma != NULL ? comma : end;
    *at = comma != NULL ? comma + 1 : NULL;
    while (last > first && (isspace((unsigned char)last[-1]) || last[-1] == '"'))
        last--;
    while (first < last && (isspace((unsigned char)*first) || *first == '"'))
        first++;
    const size_t size = (size_t)(last - first);
    ret_field->fits = size <= SP_MAX_TRACE_FIELD && memchr(first, '\0', size) == NULL;
    memcpy(ret_field->text, first, ret_field->fits ? size : 0);
    ret_field->text[ret_field->fits ? size : 0] = '\0';
}

static enum sp_status read_names(struct reading *r, const char *line, const char *end)
{
    struct field field;
    uint32_t at = 0;
    for (int c = 0; c < COLUMNS; c++)
        r->columns[c] = UINT32_MAX;
    for (const char *from = line; from != NULL; at++) {
        next_field(&from, end, &field);
        if (at == SP_MAX_TRACE_COLUMNS)
            return sp_fail_limit(r->err, "TRACE_COLUMNS", "SP_MAX_TRACE_COLUMNS", SP_MAX_TRACE_COLUMNS, at + 1,
                                 "A trace may have at most %d columns.", SP_MAX_TRACE_COLUMNS);
        for (size_t i = 0; i < sizeof known_names / sizeof known_names[0]; i++) {
            if (strcasecmp(field.text, known_names[i].name) != 0)
                continue;
            if (r->columns[known_names[i].column] != UINT32_MAX)
                return refuse(r, "two columns are the %s of a request.", column_names[known_names[i].column]);
            r->columns[known_names[i].column] = at;
        }
    }
    for (int c = 0; c < COLUMNS; c++) {
        if (r->columns[c] == UINT32_MAX)
            return refuse(r,
                          "no column has the %s of a request. The first line names the columns, like "
                          "'seconds,input,output'.",
                          column_names[c]);
    }
    return SP_OK;
}

/* ---- times -------------------------------------------------------------------------------------------------------- */

/* Days from 1970-01-01 to a day of the Gregorian calendar (Hinnant, chrono-compatible low-level date algorithms). */
static double days_to(int year, int month, int day)
{
    const int y = year - (month <= 2);
    const int era = y / 400, of_era = y - era * 400;
    const int of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    const int of_years = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    return era * 146097.0 + of_years - 719468;
}

/* So many digits at *at, which is then behind them; -1 where there are fewer. */
static int digits(const char **at, int count)
{
    int number = 0;
    for (int i = 0; i < count; i++, (*at)++) {
        if (**at < '0' || **at > '9')
            return -1;
        number = number * 10 + (**at - '0');
    }
    return number;
}

static bool skip(const char **at, const char *any)
{
    const bool is_there = **at != '\0' && strchr(any, **at) != NULL;
    *at += is_there;
    return is_there;
}

/* 2023-11-16 18:17:03.9799600, in one zone of time. */
static bool parse_date(const char *text, double *ret_seconds)
{
    const char *at = text;
    double part = 0, unit = 1;
    const int year = digits(&at, 4);
    const bool first = year >= 1 && skip(&at, "-");
    const int month = first ? digits(&at, 2) : -1;
    const bool second = month >= 1 && month <= 12 && skip(&at, "-");
    const int day = second ? digits(&at, 2) : -1;
    const bool third = day >= 1 && day <= 31 && skip(&at, " T");
    const int hour = third ? digits(&at, 2) : -1;
    const bool fourth = hour >= 0 && hour < 24 && skip(&at, ":");
    const int minute = fourth ? digits(&at, 2) : -1;
    const bool fifth = minute >= 0 && minute < 60 && skip(&at, ":");
    const int second_of_minute = fifth ? digits(&at, 2) : -1;
    if (second_of_minute < 0 || second_of_minute > 60)
        return false;
    if (skip(&at, ".")) {
        for (; *at >= '0' && *at <= '9'; at++)
            part += (*at - '0') * (unit /= 10);
    }
    (void)skip(&at, "Z");
    *ret_seconds = days_to(year, month, day) * 86400 + hour * 3600.0 + minute * 60.0 + second_of_minute + part;
    return *at == '\0';
}

/* Digits, a point and an exponent alone: not "inf", "nan" or a hexadecimal number. */
static bool parse_number(const char *text, double *ret_number)
{
    char *end;
    if (text[0] == '\0' || strspn(text, "0123456789.+-eE") != strlen(text))
        return false;
    *ret_number = strtod(text, &end);
    return *end == '\0' && isfinite(*ret_number);
}

/* ---- requests ----------------------------------------------------------------------------------------------------- */

static enum sp_status read_tokens(const struct reading *r, const struct field *field, enum column column, double least,
                                  double *ret_tokens)
{
    if (field->fits && parse_number(field->text, ret_tokens) && *ret_tokens >= least &&
        *ret_tokens <= SP_MAX_TRACE_TOKENS && *ret_tokens == floor(*ret_tokens))
        return SP_OK;
    return refuse(r, "the %s must be a whole number of tokens from %.0f to %u, not '%s'.", column_names[column], least,
                  SP_MAX_TRACE_TOKENS, field->text);
}

static enum sp_status read_request(struct reading *r, struct sp_arena *arena, const char *line, const char *end)
{
    struct field fields[COLUMNS] = {0}, field;
    double seconds, input, output;
    uint32_t at = 0, found = 0;
    for (const char *from = line; from != NULL; at++) {
        next_field(&from, end, &field);
        for (int c = 0; c < COLUMNS; c++) {
            if (r->columns[c] == at) {
                fields[c] = field;
                found++;
            }
        }
    }
    if (found != COLUMNS)
        return refuse(r, "it has %u columns, fewer than the first line names.", at);
    const struct field *time = &fields[COLUMN_SECONDS];
    if (!time->fits || !(parse_number(time->text, &seconds) || parse_date(time->text, &seconds)) ||
        fabs(seconds) > SP_MAX_TRACE_SECONDS)
        return refuse(r, "a time is a number of seconds, or a date like 2023-11-16 18:17:03.97, not '%s'.", time->text);
    enum sp_status status = read_tokens(r, &fields[COLUMN_INPUT], COLUMN_INPUT, 1, &input);
    if (status == SP_OK)
        status = read_tokens(r, &fields[COLUMN_OUTPUT], COLUMN_OUTPUT, 0, &output);
    if (status != SP_OK || output < 1)
        return status;
    if (r->count == SP_MAX_TRACE_REQUESTS)
        return sp_fail_limit(r->err, "TRACE_REQUESTS", "SP_MAX_TRACE_REQUESTS", SP_MAX_TRACE_REQUESTS,
                             (int64_t)r->count + 1, "A trace may have at most %u requests: cut it into parts.",
                             SP_MAX_TRACE_REQUESTS);
    if (!SP_MAKE_ROOM(arena, r->requests, r->count, r->capacity, 1))
        return sp_fail_memory(r->err);
    r->requests[r->count++] = (struct sp_trace_request){seconds, (uint32_t)input, (uint32_t)output};
    return SP_OK;
}

SP_ASCENDING(by_time, struct sp_trace_request, seconds, input, output)

enum sp_status sp_trace_parse(struct sp_arena *arena, const char *text, size_t size, struct sp_trace *ret_trace,
                              struct sp_error *err)
{
    struct reading r = {.at = text, .end = text + size, .err = err};
    const char *line, *end;
    if (size > SP_MAX_TRACE_BYTES)
        return sp_fail_limit(err, "TRACE_SIZE", "SP_MAX_TRACE_BYTES", SP_MAX_TRACE_BYTES, (int64_t)size,
                             "A trace may have at most %zu bytes: cut it into parts.", SP_MAX_TRACE_BYTES);
    if (!next_line(&r, &line, &end))
        return sp_fail(err, SP_ERR_REQUEST, "TRACE_INVALID",
                       "The trace is empty: its first line names the columns, like 'seconds,input,output'.");
    enum sp_status status = read_names(&r, line, end);
    while (status == SP_OK && next_line(&r, &line, &end))
        status = read_request(&r, arena, line, end);
    if (status != SP_OK)
        return status;
    if (r.count == 0)
        return sp_fail(err, SP_ERR_REQUEST, "TRACE_INVALID", "The trace has no request with an answer.");
    qsort(r.requests, r.count, sizeof *r.requests, by_time);
    const double first = r.requests[0].seconds;
    for (uint32_t i = 0; i < r.count; i++)
        r.requests[i].seconds -= first;
    *ret_trace = (struct sp_trace){r.count, r.requests};
    return SP_OK;
}
