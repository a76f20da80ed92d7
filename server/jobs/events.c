#include "jobs/events.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/json_writer.h"
#include "server.h"
#include "server_limits.h"
#include "util/times.h"

#define BUCKETS 1024

struct event {
    uint64_t id;
    char *text;
};

struct channel {
    struct channel *next; /* of the bucket */
    char plan[STORE_ID_SIZE];
    struct event ring[SPD_EVENT_RING];
    unsigned first, count;
    uint64_t dropped; /* the id up to which nothing can be told any more */
    uint64_t newest;  /* the id that was given last */
    bool runs_here, ended;
    enum plan_state state;
    struct job_progress progress;
    uint64_t told_ms; /* the last event of progress */
    struct event_stream *streams;
};

struct event_stream {
    struct event_stream *next;
    struct events *events;
    struct channel *channel;
    struct MHD_Connection *connection;
    uint64_t last_id;
    char *text; /* being sent, owned */
    size_t sent;
    bool suspended;
    bool beats; /* a comment is due */
    bool left;  /* the client has closed its end */
    enum { FAREWELL_NONE, FAREWELL_DUE, FAREWELL_SAID } farewell;
    uint64_t active_ms;
};

struct events {
    pthread_mutex_t mutex; /* guards everything */
    struct channel *buckets[BUCKETS];
    unsigned stream_count;
    uint64_t beat_ms; /* when to look for heartbeats that are due */
    bool closed;
};

/* ---- texts ---- */

/* "id", "event" and "data" of an event, malloc'ed. `json` is one line. */
static char *event_text(uint64_t id, const char *name, const char *json)
{
    char *text = NULL;
    if (asprintf(&text, "id: %" PRIu64 "\nevent: %s\ndata: %s\n\n", id, name, json) < 0)
        return NULL;
    return text;
}

static void write_seconds(struct sp_json *json, const struct job_progress *progress)
{
    if (progress->best_seconds > 0)
        sp_json_member_double(json, "best_seconds", progress->best_seconds);
    if (progress->lower_bound_seconds > 0)
        sp_json_member_double(json, "lower_bound_seconds", progress->lower_bound_seconds);
}

static char *finish_text(struct sp_json *json, struct sp_buf *buf, uint64_t id, const char *name)
{
    bool ok = sp_json_finish(json, NULL) == SP_OK && !sp_buf_failed(buf);
    char *text = ok ? event_text(id, name, buf->data) : NULL;
    sp_buf_release(buf);
    return text;
}

static char *progress_text(const struct channel *channel, uint64_t id, bool improved)
{
    struct sp_buf buf;
    struct sp_json json;
    bool runs = channel->state == PLAN_RUNNING;
    sp_buf_init(&buf, 4096);
    sp_json_init_buf(&json, false, &buf);
    sp_json_begin_object(&json);
    if (!improved) {
        sp_json_member_string(&json, "state", store_state_name(channel->state));
        const char *phase = channel->progress.phase[0] != '\0' ? channel->progress.phase : "start";
        sp_json_member_string(&json, "phase", runs ? phase : store_state_name(channel->state));
        sp_json_member_double(&json, "fraction", runs ? channel->progress.fraction : 0);
    }
    if (runs)
        write_seconds(&json, &channel->progress);
    sp_json_end_object(&json);
    return finish_text(&json, &buf, id, improved ? "improved" : "progress");
}

char *events_last_text(const struct plan_row *row)
{
    struct sp_buf buf;
    struct sp_json json;
    if (row == NULL)
        return event_text(EVENT_LAST, "error",
                          "{\"status\":404,\"code\":\"PLAN_NOT_FOUND\",\"detail\":\"The plan was deleted.\"}");
    if (row->state == PLAN_FAILED && row->error != NULL)
        return event_text(EVENT_LAST, "error", row->error); /* JSON of one line */
    sp_buf_init(&buf, 4096);
    sp_json_init_buf(&json, false, &buf);
    sp_json_begin_object(&json);
    sp_json_member_string(&json, "state", store_state_name(row->state));
    sp_json_member_bool(&json, "has_result", row->has_result);
    sp_json_end_object(&json);
    return finish_text(&json, &buf, EVENT_LAST, "done");
}

/* ---- channels, under the mutex ---- */

static struct channel **bucket_of(struct events *events, const char *plan)
{
    uint32_t hash = 2166136261u;
    for (const char *c = plan; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619u;
    return &events->buckets[hash % BUCKETS];
}

static struct channel *find(struct events *events, const char *plan)
{
    struct channel *channel = *bucket_of(events, plan);
    while (channel != NULL && strcmp(channel->plan, plan) != 0)
        channel = channel->next;
    return channel;
}

static uint64_t next_id(struct channel *channel)
{
    uint64_t id = (uint64_t)times_now();
    channel->newest = id > channel->newest ? id : channel->newest + 1;
    return channel->newest;
}

static struct channel *find_or_add(struct events *events, const char *plan)
{
    struct channel *channel = find(events, plan), **bucket = bucket_of(events, plan);
    if (channel != NULL)
        return channel;
    channel = calloc(1, sizeof *channel);
    if (channel == NULL)
        return NULL;
    (void)snprintf(channel->plan, sizeof channel->plan, "%s", plan);
    channel->dropped = next_id(channel); /* what was before, nobody knows here */
    channel->next = *bucket;
    *bucket = channel;
    return channel;
}

static void drop_oldest(struct channel *channel)
{
    struct event *event = &channel->ring[channel->first];
    channel->dropped = event->id;
    free(event->text);
    channel->first = (channel->first + 1) % SPD_EVENT_RING;
    channel->count--;
}

static void free_channel(struct channel *channel)
{
    while (channel->count > 0)
        drop_oldest(channel);
    free(channel);
}

/* Removes the channel when nobody needs it. */
static void remove_unused(struct events *events, struct channel *channel)
{
    if (channel->runs_here || channel->streams != NULL)
        return;
    struct channel **at = bucket_of(events, channel->plan);
    while (*at != channel)
        at = &(*at)->next;
    *at = channel->next;
    free_channel(channel);
}

static void wake(struct event_stream *stream)
{
    if (!stream->suspended)
        return;
    stream->suspended = false;
    MHD_resume_connection(stream->connection);
}

static void publish(struct channel *channel, uint64_t id, char *text)
{
    if (channel->count == SPD_EVENT_RING)
        drop_oldest(channel);
    if (text == NULL) {
        channel->dropped = id; /* without memory it is lost, and summed up later */
        return;
    }
    struct event *event = &channel->ring[(channel->first + channel->count++) % SPD_EVENT_RING];
    event->id = id;
    event->text = text;
    for (struct event_stream *stream = channel->streams; stream != NULL; stream = stream->next)
        wake(stream);
}

/* ---- what happens, main thread ---- */

void events_begin(struct events *events, const char *plan)
{
    (void)pthread_mutex_lock(&events->mutex);
    struct channel *channel = find_or_add(events, plan);
    if (channel != NULL)
        channel->runs_here = true;
    (void)pthread_mutex_unlock(&events->mutex);
}

void events_leave(struct events *events, const char *plan)
{
    (void)pthread_mutex_lock(&events->mutex);
    struct channel *channel = find(events, plan);
    if (channel != NULL) {
        channel->runs_here = false;
        remove_unused(events, channel);
    }
    (void)pthread_mutex_unlock(&events->mutex);
}

static void take_progress(struct channel *channel, enum plan_state state, const struct job_progress *progress)
{
    const struct job_progress before = channel->state == PLAN_RUNNING ? channel->progress : (struct job_progress){0};
    uint64_t now = server_now_ms();
    bool better = state == PLAN_RUNNING && progress->best_seconds > 0 &&
                  (before.best_seconds <= 0 || progress->best_seconds < before.best_seconds);
    bool other = channel->told_ms == 0 || channel->state != state || strcmp(progress->phase, before.phase) != 0;
    bool moved = progress->fraction != before.fraction || progress->best_seconds != before.best_seconds ||
                 progress->lower_bound_seconds != before.lower_bound_seconds;
    channel->state = state;
    channel->progress = *progress;
    if (better) {
        uint64_t id = next_id(channel);
        publish(channel, id, progress_text(channel, id, true));
    }
    if (other || (moved && now - channel->told_ms >= SPD_EVENT_INTERVAL_MS)) {
        uint64_t id = next_id(channel);
        channel->told_ms = now;
        publish(channel, id, progress_text(channel, id, false));
    }
}

void events_progress(struct events *events, const char *plan, enum plan_state state,
                     const struct job_progress *progress)
{
    (void)pthread_mutex_lock(&events->mutex);
    struct channel *channel = find(events, plan);
    if (channel != NULL && !channel->ended)
        take_progress(channel, state, progress);
    (void)pthread_mutex_unlock(&events->mutex);
}

void events_end(struct events *events, const char *plan, const struct plan_row *row)
{
    (void)pthread_mutex_lock(&events->mutex);
    struct channel *channel = find(events, plan);
    if (channel != NULL) {
        channel->runs_here = false;
        if (!channel->ended) {
            channel->ended = true;
            publish(channel, EVENT_LAST, events_last_text(row));
            /* Without memory for the last event its streams still end. */
            for (struct event_stream *stream = channel->streams; stream != NULL; stream = stream->next)
                wake(stream);
        }
        remove_unused(events, channel);
    }
    (void)pthread_mutex_unlock(&events->mutex);
}

static void each_stream(struct events *events, void (*each)(struct event_stream *stream, uint64_t now), uint64_t now)
{
    for (unsigned i = 0; i < BUCKETS; i++) {
        for (struct channel *channel = events->buckets[i]; channel != NULL; channel = channel->next) {
            for (struct event_stream *stream = channel->streams; stream != NULL; stream = stream->next)
                each(stream, now);
        }
    }
}

/* Whether the peer of a suspended connection has closed it. (Over TLS that cannot be seen: it says goodbye first.) */
static bool has_left(const struct event_stream *stream)
{
    char byte;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(stream->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info != NULL && recv(info->connect_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static void beat(struct event_stream *stream, uint64_t now)
{
    if (!stream->suspended)
        return;
    stream->left = has_left(stream);
    stream->beats = now - stream->active_ms >= SPD_HEARTBEAT_SECONDS * 1000;
    if (stream->left || stream->beats)
        wake(stream);
}

void events_tick(struct events *events, uint64_t now_ms)
{
    (void)pthread_mutex_lock(&events->mutex);
    if (now_ms >= events->beat_ms) {
        events->beat_ms = now_ms + 1000;
        each_stream(events, beat, now_ms);
    }
    (void)pthread_mutex_unlock(&events->mutex);
}

static void say_farewell(struct event_stream *stream, uint64_t now)
{
    (void)now;
    stream->farewell = FAREWELL_DUE;
    wake(stream);
}

void events_close(struct events *events)
{
    (void)pthread_mutex_lock(&events->mutex);
    events->closed = true;
    each_stream(events, say_farewell, 0);
    (void)pthread_mutex_unlock(&events->mutex);
}

void events_watched(struct events *events, bool elsewhere, void (*each)(void *context, const char *plan), void *context)
{
    (void)pthread_mutex_lock(&events->mutex);
    for (unsigned i = 0; i < BUCKETS; i++) {
        for (struct channel *channel = events->buckets[i]; channel != NULL; channel = channel->next) {
            if (!elsewhere || (!channel->runs_here && !channel->ended && channel->state == PLAN_RUNNING))
                each(context, channel->plan);
        }
    }
    (void)pthread_mutex_unlock(&events->mutex);
}

bool events_knows(struct events *events, const char *plan)
{
    (void)pthread_mutex_lock(&events->mutex);
    const bool knows = find(events, plan) != NULL;
    (void)pthread_mutex_unlock(&events->mutex);
    return knows;
}

unsigned events_count(struct events *events)
{
    (void)pthread_mutex_lock(&events->mutex);
    unsigned count = events->stream_count;
    (void)pthread_mutex_unlock(&events->mutex);
    return count;
}

/* ---- streams, HTTP threads ---- */

/* What a stream begins with: when to come back, and, unless the client can go on where it was, how things are. */
static char *opening(struct channel *channel, uint64_t last_id, uint64_t *ret_last_id)
{
    char *text = NULL, *state = NULL;
    /* Another daemon may have been ahead; no clock is a day ahead. */
    if (last_id > channel->newest && last_id - channel->newest < (uint64_t)86400 * 1000)
        channel->newest = last_id;
    if (last_id >= channel->dropped && last_id <= channel->newest && !channel->ended) {
        *ret_last_id = last_id;
        return asprintf(&text, "retry: %d\n\n", SPD_EVENT_RETRY_MS) < 0 ? NULL : text;
    }
    *ret_last_id = channel->newest;
    if (channel->ended)
        return asprintf(&text, "retry: %d\n\n", SPD_EVENT_RETRY_MS) < 0 ? NULL : text;
    state = progress_text(channel, channel->newest, false);
    if (state == NULL || asprintf(&text, "retry: %d\n\n%s", SPD_EVENT_RETRY_MS, state) < 0)
        text = NULL;
    free(state);
    return text;
}

struct event_stream *events_open(struct events *events, struct MHD_Connection *connection, const struct plan_row *row,
                                 uint64_t last_id, struct problem *problem)
{
    struct event_stream *stream = calloc(1, sizeof *stream);
    struct channel *channel = NULL;
    (void)pthread_mutex_lock(&events->mutex);
    if (events->closed) {
        (void)problem_set(problem, 503, "STOPPING", "The service is stopping; send the request again.");
    } else {
        (void)problem_no_memory(problem);
        channel = stream != NULL ? find_or_add(events, row->id) : NULL;
    }
    if (channel != NULL) {
        if (!channel->runs_here && channel->told_ms == 0) {
            channel->state = row->state;
            channel->progress = row->progress;
            channel->told_ms = server_now_ms(); /* below */
        }
        stream->text = opening(channel, last_id, &stream->last_id);
        if (stream->text == NULL)
            remove_unused(events, channel);
    }
    if (stream != NULL && stream->text != NULL) {
        stream->events = events;
        stream->connection = connection;
        stream->active_ms = server_now_ms();
        stream->channel = channel;
        stream->next = channel->streams;
        channel->streams = stream;
        events->stream_count++;
        *problem = (struct problem){0};
    } else {
        free(stream);
        stream = NULL;
    }
    (void)pthread_mutex_unlock(&events->mutex);
    return stream;
}

/* The first event that the stream has not told, or NULL. */
static const struct event *next_event(const struct event_stream *stream)
{
    const struct channel *channel = stream->channel;
    for (unsigned i = 0; i < channel->count; i++) {
        const struct event *event = &channel->ring[(channel->first + i) % SPD_EVENT_RING];
        if (event->id > stream->last_id)
            return event;
    }
    return NULL;
}

/* What to send next, malloc'ed; NULL: nothing, or (*ret_end) never again. */
static char *next_text(struct event_stream *stream, bool *ret_end)
{
    struct channel *channel = stream->channel;
    const struct event *event = next_event(stream);
    char *text = NULL;
    *ret_end = stream->left;
    if (stream->left)
        return NULL;
    if (channel->dropped > stream->last_id && !channel->ended) {
        stream->last_id = channel->newest;
        return progress_text(channel, channel->newest, false);
    }
    if (event != NULL) {
        stream->last_id = event->id;
        return strdup(event->text);
    }
    if (channel->ended || stream->farewell == FAREWELL_SAID) {
        *ret_end = true;
        return NULL;
    }
    if (stream->farewell == FAREWELL_DUE) {
        stream->farewell = FAREWELL_SAID;
        return asprintf(&text, "retry: %d\n: the service is stopping\n\n", SPD_EVENT_RETRY_MS) < 0 ? NULL : text;
    }
    if (stream->beats) {
        stream->beats = false;
        return strdup(":\n\n");
    }
    return NULL;
}

ssize_t event_stream_read(struct event_stream *stream, char *bytes, size_t size)
{
    ssize_t result = -1;
    bool end = false;
    (void)pthread_mutex_lock(&stream->events->mutex);
    if (stream->text == NULL) {
        stream->sent = 0;
        stream->text = next_text(stream, &end);
    }
    if (stream->text != NULL) {
        size_t left = strlen(stream->text) - stream->sent, part = left < size ? left : size;
        memcpy(bytes, stream->text + stream->sent, part);
        stream->sent += part;
        stream->active_ms = server_now_ms();
        result = (ssize_t)part;
        if (part == left) {
            free(stream->text);
            stream->text = NULL;
        }
    } else if (!end) {
        result = 0;
        stream->suspended = true;
        MHD_suspend_connection(stream->connection);
    }
    (void)pthread_mutex_unlock(&stream->events->mutex);
    return result;
}

void event_stream_close(struct event_stream *stream)
{
    struct events *events = stream->events;
    (void)pthread_mutex_lock(&events->mutex);
    struct event_stream **at = &stream->channel->streams;
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    events->stream_count--;
    remove_unused(events, stream->channel);
    (void)pthread_mutex_unlock(&events->mutex);
    free(stream->text);
    free(stream);
}

/* ---- life ---- */

struct events *events_create(void)
{
    struct events *events = calloc(1, sizeof *events);
    if (events == NULL)
        return NULL;
    (void)pthread_mutex_init(&events->mutex, NULL);
    return events;
}

void events_destroy(struct events *events)
{
    if (events == NULL)
        return;
    for (unsigned i = 0; i < BUCKETS; i++) {
        while (events->buckets[i] != NULL) {
            struct channel *channel = events->buckets[i];
            events->buckets[i] = channel->next;
            free_channel(channel);
        }
    }
    (void)pthread_mutex_destroy(&events->mutex);
    free(events);
}
