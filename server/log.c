#include "log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES 4096

/* Fixed at start, before threads exist. */
static bool as_json;
static enum log_level least_level = LOG_INFO;

struct line {
    char text[LINE_BYTES];
    size_t used;
};

static const char *const level_names[] = {"debug", "info", "warning", "error"};

void log_init(bool json, enum log_level least)
{
    as_json = json;
    least_level = least;
}

static void put(struct line *line, const char *text, size_t size)
{
    /* Room for the closing brace and the line end is kept. */
    size_t room = sizeof line->text - 3 - line->used;
    if (size > room)
        size = room;
    memcpy(line->text + line->used, text, size);
    line->used += size;
}

static void put_text(struct line *line, const char *text)
{
    put(line, text, strlen(text));
}

/* A string in quotes; everything that could end the string or the line is escaped. Stops at a whole character. */
static void put_quoted(struct line *line, const char *text)
{
    put_text(line, "\"");
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        if (line->used + 16 > sizeof line->text)
            break;
        char escaped[8];
        if (*c == '"' || *c == '\\') {
            (void)snprintf(escaped, sizeof escaped, "\\%c", *c);
            put_text(line, escaped);
        } else if (*c < 0x20 || *c >= 0x7f) {
            (void)snprintf(escaped, sizeof escaped, "\\u%04x", *c);
            put_text(line, escaped);
        } else {
            put(line, (const char *)c, 1);
        }
    }
    put_text(line, "\"");
}

static bool is_plain(const char *text)
{
    if (*text == '\0')
        return false;
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        if (*c <= 0x20 || *c >= 0x7f || *c == '"' || *c == '\\' || *c == '=')
            return false;
    }
    return true;
}

static void put_field(struct line *line, const struct log_field *field)
{
    char number[32];
    (void)snprintf(number, sizeof number, "%" PRId64, field->number);
    if (as_json) {
        put_text(line, ",");
        put_quoted(line, field->key);
        put_text(line, ":");
    } else {
        put_text(line, " ");
        put_text(line, field->key);
        put_text(line, "=");
    }
    if (field->text == NULL)
        put_text(line, number);
    else if (as_json || !is_plain(field->text))
        put_quoted(line, field->text);
    else
        put_text(line, field->text);
}

void log_event(enum log_level level, const char *event, const struct log_field *fields)
{
    if (level < least_level)
        return;
    struct line line = {.used = 0};
    struct timespec now = {0};
    struct tm utc;
    char stamp[40] = "";
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &utc) != NULL) {
        size_t used = strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
        (void)snprintf(stamp + used, sizeof stamp - used, ".%03ldZ", now.tv_nsec / 1000000);
    }
    if (as_json) {
        put_text(&line, "{\"ts\":");
        put_quoted(&line, stamp);
        put_text(&line, ",\"level\":");
        put_quoted(&line, level_names[level]);
        put_text(&line, ",\"event\":");
        put_quoted(&line, event);
    } else {
        char head[64];
        (void)snprintf(head, sizeof head, "%s %-7s ", stamp, level_names[level]);
        put_text(&line, head);
        put_text(&line, event);
    }
    for (const struct log_field *field = fields; field->key != NULL; field++) {
        if (line.used + 64 > sizeof line.text)
            break;
        put_field(&line, field);
    }
    if (as_json)
        line.text[line.used++] = '}';
    line.text[line.used++] = '\n';
    if (write(STDERR_FILENO, line.text, line.used) < 0)
        return; /* nowhere left to complain */
}
