#include "observe/log.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server.h"
#include "server_limits.h"

#define LINE_BYTES 4096
#define MAX_EVENTS 96 /* different ones that are counted; there are fewer in the program */

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

/* ---- repeats ---- */

struct repeats {
    const char *event; /* static */
    enum log_level level;
    uint64_t second_ms; /* when its second began */
    unsigned written, dropped;
};

static struct {
    pthread_mutex_t mutex;
    struct repeats events[MAX_EVENTS];
    unsigned count;
} repeats = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void write_event(enum log_level level, const char *event, const struct log_field *fields);

static void write_dropped(const struct repeats *entry)
{
    if (entry->dropped == 0)
        return;
    struct log_field fields[] = {log_s("of", entry->event), log_i("count", entry->dropped), {0}};
    write_event(entry->level, "not logged", fields);
}

static struct repeats *find_repeats(const char *event)
{
    for (unsigned i = 0; i < repeats.count; i++) {
        if (strcmp(repeats.events[i].event, event) == 0)
            return &repeats.events[i];
    }
    if (repeats.count == MAX_EVENTS)
        return NULL;
    repeats.events[repeats.count].event = event;
    return &repeats.events[repeats.count++];
}

/* Whether the event may be written; *ret_before has what is to be said of its last second. */
static bool may_write(enum log_level level, const char *event, struct repeats *ret_before)
{
    uint64_t now = server_now_ms();
    (void)pthread_mutex_lock(&repeats.mutex);
    struct repeats *entry = find_repeats(event);
    bool may = true;
    if (entry != NULL) {
        if (now - entry->second_ms >= 1000) {
            *ret_before = *entry;
            entry->second_ms = now;
            entry->written = entry->dropped = 0;
        }
        may = entry->written < SPD_LOG_REPEATS;
        entry->level = level;
        entry->written += may;
        entry->dropped += !may;
    }
    (void)pthread_mutex_unlock(&repeats.mutex);
    return may;
}

static void write_counts(uint64_t least_age_ms)
{
    uint64_t now = server_now_ms();
    for (unsigned i = 0; i < MAX_EVENTS; i++) {
        struct repeats before = {0};
        (void)pthread_mutex_lock(&repeats.mutex);
        struct repeats *entry = &repeats.events[i];
        if (i < repeats.count && entry->dropped > 0 && now - entry->second_ms >= least_age_ms) {
            before = *entry;
            entry->dropped = 0;
        }
        (void)pthread_mutex_unlock(&repeats.mutex);
        write_dropped(&before);
    }
}

void log_tick(void)
{
    write_counts(1000);
}

void log_end(void)
{
    write_counts(0);
}

/* ---- writing ---- */

void log_event(enum log_level level, const char *event, const struct log_field *fields)
{
    struct repeats before = {0};
    if (level < least_level)
        return;
    bool may = may_write(level, event, &before);
    write_dropped(&before);
    if (may)
        write_event(level, event, fields);
}

static void put_head(struct line *line, enum log_level level, const char *event)
{
    struct timespec now = {0};
    struct tm utc;
    char stamp[40] = "", head[64];
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &utc) != NULL) {
        size_t used = strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
        (void)snprintf(stamp + used, sizeof stamp - used, ".%06ldZ", now.tv_nsec / 1000);
    }
    if (as_json) {
        put_text(line, "{\"ts\":");
        put_quoted(line, stamp);
        put_text(line, ",\"level\":");
        put_quoted(line, level_names[level]);
        put_text(line, ",\"event\":");
        put_quoted(line, event);
    } else {
        (void)snprintf(head, sizeof head, "%s %-7s ", stamp, level_names[level]);
        put_text(line, head);
        put_text(line, event);
    }
}

static void write_event(enum log_level level, const char *event, const struct log_field *fields)
{
    struct line line = {.used = 0};
    put_head(&line, level, event);
    for (const struct log_field *field = fields; field->key != NULL; field++) {
        if (field->key[0] == '\0')
            continue;
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
