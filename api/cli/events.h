#pragma once
/*
 * events - server-sent events out of pieces of a stream (HTML living standard, 9.2.6).
 *
 * Lines end with CR, LF or both, wherever the pieces are cut; comments and unknown fields are passed over. An event is
 * handed on at the empty line behind it. Nothing that a server sends is kept beyond the ceilings below.
 */
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define EVENTS_MAX_LINE ((size_t)1 << 20) /* bytes */
#define EVENTS_MAX_ID   127
#define EVENTS_MAX_NAME 31

/* Takes an event; `data` is NUL-terminated text. False ends the stream. */
typedef bool (*events_take)(void *context, const char *name, const char *data, size_t size);

struct events {
    events_take take;
    void *context;
    struct sp_buf line, data;
    char name[EVENTS_MAX_NAME + 1]; /* of the event that is being read; "": message */
    char id[EVENTS_MAX_ID + 1];     /* of the last event that was complete; "": none */
    char next_id[EVENTS_MAX_ID + 1];
    bool after_return; /* a LF that comes now belongs to the CR before it */
    bool has_data;
};

void events_init(struct events *events, events_take take, void *context);
void events_release(struct events *events);
/* A new stream begins: what was incomplete in the one before is dropped. */
void events_restart(struct events *events);
/* False when the stream should end: the taker says so, or a line is too long. `context` is a struct events. */
bool events_feed(void *context, const char *bytes, size_t size);
