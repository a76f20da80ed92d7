#pragma once
/*
 * events - what happens to plans, told to clients that stay connected (server-sent events).
 *
 *   progress  {"state", "phase", "fraction", "best_seconds", "lower_bound_seconds"}    the two when known
 *   improved  {"best_seconds", "lower_bound_seconds"}     a better plan was found
 *   done      {"state", "has_result"}                     succeeded or cancelled; the stream ends
 *   error     the problem (problem.h)                     failed, or deleted; the stream ends
 *
 * A channel belongs to a plan that runs in this daemon, or that somebody watches. It keeps the last SPD_EVENT_RING
 * events, so that a client that lost its connection goes on with the event after the one that it names; when that is
 * not there any more, one event of progress sums up what was lost. Ids grow with time, in all daemons of a store, and
 * the last event of every plan has the same one, EVENT_LAST.
 *
 * A stream with nothing to say is a suspended connection: it costs its memory and next to no time. The library does not
 * notice that the client of such a connection has left; events_tick() looks, and the comment that goes out every
 * SPD_HEARTBEAT_SECONDS finds the rest.
 */
#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store.h"

#define EVENT_LAST ((uint64_t)1 << 52)

struct event_stream;
struct events;

struct events *events_create(void);         /* NULL without memory */
void events_destroy(struct events *events); /* when no stream is open any more; NULL is allowed */

/* Main thread. */
void events_begin(struct events *events, const char *plan); /* it runs here: its events are kept until events_end() */
void events_leave(struct events *events, const char *plan); /* it does not run here any more, and has not ended */
void events_progress(struct events *events, const char *plan, enum plan_state state,
                     const struct job_progress *progress);
/* The last event. A plan that was deleted: `row` is NULL. */
void events_end(struct events *events, const char *plan, const struct plan_row *row);
void events_tick(struct events *events, uint64_t now_ms); /* wakes those that are due for a heartbeat */
void events_close(struct events *events);                 /* ends all streams, and takes no more */

/* Calls `each` with the plans that somebody watches, under the lock: all, or only those that run in another daemon. */
void events_watched(struct events *events, bool elsewhere, void (*each)(void *context, const char *plan),
                    void *context);

/* Any thread. */
bool events_knows(struct events *events, const char *plan); /* it runs here, or somebody watches it */
unsigned events_count(struct events *events);               /* open streams */

/* The text of the last event of a plan that has finished, malloc'ed; NULL without memory. */
char *events_last_text(const struct plan_row *row);

/*
 * A stream about an unfinished plan, to be read on this connection. `last_id`: the last event that the client has, 0:
 * none. NULL with a problem: 503, when the daemon stops or without memory. How many there may be is up to the caller.
 */
struct event_stream *events_open(struct events *events, struct MHD_Connection *connection, const struct plan_row *row,
                                 uint64_t last_id, struct problem *problem);

/* The next bytes; 0: none at the moment, and the connection is suspended; -1: the end. */
ssize_t event_stream_read(struct event_stream *stream, char *bytes, size_t size);
void event_stream_close(struct event_stream *stream);
