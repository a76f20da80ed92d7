/*
 * The command's reader of event streams: the same events come out however the stream is cut into pieces, and nothing
 * that is handed on is larger than it may be.
 *
 * An input is a byte that says how the stream is cut, and the stream.
 */
#include <stdlib.h>
#include <string.h>

#include "events.h"
#include "fuzz.h"

#define MAX_LOG ((size_t)8 << 20)

/* Writes each event to a log; one that is called "end" ends the stream. */
static bool take(void *context, const char *name, const char *data, size_t size)
{
    struct sp_buf *log = context;
    if (strlen(name) > EVENTS_MAX_NAME || strlen(data) != size || size > EVENTS_MAX_LINE || *name == '\0')
        abort();
    sp_buf_printf(log, "%s[%zu]", name, size);
    sp_buf_append(log, data, size);
    return strcmp(name, "end") != 0;
}

static bool feed(const uint8_t *bytes, size_t size, size_t piece, struct sp_buf *log)
{
    struct events events;
    bool goes_on = true;
    sp_buf_init(log, MAX_LOG);
    events_init(&events, take, log);
    for (size_t at = 0; goes_on && at < size; at += piece) {
        size_t left = size - at, part = piece < left ? piece : left;
        char *copy = malloc(part);
        memcpy(copy, bytes + at, part);
        goes_on = events_feed(&events, copy, part);
        free(copy);
    }
    sp_buf_printf(log, "<%s>", events.id);
    /* A new stream begins with nothing of the old one but the id. */
    events_restart(&events);
    static const char last[] = "data: again\n\n", expected[] = "message[5]again";
    size_t before = log->size;
    if (!events_feed(&events, last, sizeof last - 1) || log->size - before != sizeof expected - 1 ||
        memcmp(log->data + before, expected, sizeof expected - 1) != 0)
        abort();
    sp_buf_printf(log, "<%s>", events.id);
    events_release(&events);
    return goes_on;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct sp_buf whole, cut;
    if (size < 2)
        return 0;
    bool first = feed(bytes + 1, size - 1, SIZE_MAX / 2, &whole),
         second = feed(bytes + 1, size - 1, bytes[0] + 1u, &cut);
    if (first != second || whole.size != cut.size || memcmp(whole.data, cut.data, cut.size) != 0)
        abort();
    sp_buf_release(&whole);
    sp_buf_release(&cut);
    return 0;
}
