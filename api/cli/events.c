#include "events.h"

#include <stdio.h>
#include <string.h>

void events_init(struct events *events, events_take take, void *context)
{
    memset(events, 0, sizeof *events);
    events->take = take;
    events->context = context;
    sp_buf_init(&events->line, EVENTS_MAX_LINE);
    sp_buf_init(&events->data, EVENTS_MAX_LINE);
}

void events_release(struct events *events)
{
    sp_buf_release(&events->line);
    sp_buf_release(&events->data);
}

void events_restart(struct events *events)
{
    sp_buf_clear(&events->line);
    sp_buf_clear(&events->data);
    events->has_data = events->after_return = false;
    events->name[0] = '\0';
    memcpy(events->next_id, events->id, sizeof events->id);
}

static void take_field(struct events *events, const char *name, const char *value)
{
    if (strcmp(name, "data") == 0) {
        if (events->has_data)
            sp_buf_append(&events->data, "\n", 1);
        sp_buf_text(&events->data, value);
        events->has_data = true;
    } else if (strcmp(name, "event") == 0) {
        (void)snprintf(events->name, sizeof events->name, "%s", value);
    } else if (strcmp(name, "id") == 0 && strlen(value) <= EVENTS_MAX_ID) {
        (void)snprintf(events->next_id, sizeof events->next_id, "%s", value);
    }
}

/* The line in the buffer is complete. */
static bool end_line(struct events *events)
{
    char *line = events->line.size > 0 ? events->line.data : NULL;
    bool goes_on = true;
    if (line == NULL) {
        memcpy(events->id, events->next_id, sizeof events->id);
        if (events->has_data)
            goes_on = events->take(events->context, events->name[0] != '\0' ? events->name : "message",
                                   events->data.data != NULL ? events->data.data : "", events->data.size);
        events->name[0] = '\0';
        events->has_data = false;
        sp_buf_clear(&events->data);
    } else if (line[0] != ':') {
        char *colon = strchr(line, ':');
        char *value = colon != NULL ? colon + 1 : line + strlen(line);
        if (colon != NULL)
            *colon = '\0';
        take_field(events, line, value[0] == ' ' ? value + 1 : value);
    }
    sp_buf_clear(&events->line);
    return goes_on && !sp_buf_failed(&events->data);
}

bool events_feed(void *context, const char *bytes, size_t size)
{
    struct events *events = context;
    const char *end = bytes + size;
    while (bytes < end) {
        if (events->after_return && *bytes == '\n') {
            bytes++;
            events->after_return = false;
            continue;
        }
        events->after_return = false;
        const char *at = bytes;
        while (at < end && *at != '\r' && *at != '\n')
            at++;
        sp_buf_append(&events->line, bytes, (size_t)(at - bytes));
        if (sp_buf_failed(&events->line))
            return false;
        if (at == end)
            return true;
        events->after_return = *at == '\r';
        bytes = at + 1;
        if (!end_line(events))
            return false;
    }
    return true;
}
