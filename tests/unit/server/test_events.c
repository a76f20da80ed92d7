/*
 * What clients are told of plans (jobs/events.h), without the HTTP library: connections are numbers, and suspending one
 * is noted here.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/events.h"
#include "server_limits.h"
#include "util/problem.h"

#define PLAN "0123456789abcdef0123456789abcdef"

/* ---- the library, played ---- */

static int suspended, resumed;

void MHD_suspend_connection(struct MHD_Connection *connection)
{
    (void)connection;
    suspended++;
}

void MHD_resume_connection(struct MHD_Connection *connection)
{
    (void)connection;
    resumed++;
}

/* ---- helpers ---- */

static const struct plan_row queued = {.id = PLAN, .state = PLAN_QUEUED};

static struct event_stream *open_stream(struct events *events, uint64_t last_id)
{
    struct problem problem = {0};
    struct event_stream *stream = events_open(events, NULL, &queued, last_id, &problem);
    cr_assert_not_null(stream, "%s", problem.detail);
    cr_assert_eq(problem.status, 0);
    return stream;
}

/* All that is to be sent at the moment, in pieces of `piece` bytes; static. *ret_end: and never anything again. */
static const char *read_all(struct event_stream *stream, size_t piece, bool *ret_end)
{
    static char text[256 * 1024];
    size_t size = 0;
    ssize_t got;
    while ((got = event_stream_read(stream, text + size, piece)) > 0) {
        size += (size_t)got;
        cr_assert_lt(size, sizeof text - piece);
    }
    text[size] = '\0';
    *ret_end = got < 0;
    return text;
}

static unsigned count(const char *text, const char *word)
{
    unsigned found = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at += strlen(word))
        found++;
    return found;
}

/* The id of the event number `which`, from 0 on. */
static uint64_t id_of(const char *text, unsigned which)
{
    const char *at = strstr(text, "id: ");
    while (at != NULL && which-- > 0)
        at = strstr(at + 1, "id: ");
    cr_assert_not_null(at, "%s", text);
    return strtoull(at + 4, NULL, 10);
}

static void progress(struct events *events, const char *phase, double best_seconds)
{
    struct job_progress now = {.fraction = 0.5, .best_seconds = best_seconds};
    (void)snprintf(now.phase, sizeof now.phase, "%s", phase);
    events_progress(events, PLAN, PLAN_RUNNING, &now);
}

/* ---- tests ---- */

Test(events, a_stream_begins_with_how_things_are)
{
    struct events *events = events_create();
    struct event_stream *stream = open_stream(events, 0);
    bool end;
    const char *text = read_all(stream, 7, &end);
    cr_expect_not(end);
    cr_expect_eq(suspended, 1);
    cr_expect_eq(strncmp(text, "retry: 2000\n\nid: ", 17), 0, "%s", text);
    cr_expect_not_null(strstr(text, "\"state\":\"queued\""), "%s", text);
    events_begin(events, PLAN);
    progress(events, "read", 0);
    cr_expect_eq(resumed, 1);
    progress(events, "search", 0);
    cr_expect_eq(resumed, 1, "it is awake already");
    text = read_all(stream, 4096, &end);
    cr_expect_eq(count(text, "event: progress\n"), 2, "%s", text);
    cr_expect_lt(id_of(text, 0), id_of(text, 1));
    event_stream_close(stream);
    events_leave(events, PLAN);
    events_destroy(events);
}

Test(events, better_plans_are_told_at_once)
{
    struct events *events = events_create();
    bool end;
    events_begin(events, PLAN);
    progress(events, "search", 0);
    struct event_stream *stream = open_stream(events, 0);
    (void)read_all(stream, 4096, &end);
    progress(events, "search", 2);
    progress(events, "search", 3);
    progress(events, "search", 1);
    const char *text = read_all(stream, 4096, &end);
    cr_expect_eq(count(text, "event: improved\n"), 2, "%s", text);
    cr_expect_not_null(strstr(text, "event: improved\ndata: {\"best_seconds\":1"), "%s", text);
    event_stream_close(stream);
    events_leave(events, PLAN);
    events_destroy(events);
}

Test(events, who_comes_back_goes_on_behind_its_last_event)
{
    struct events *events = events_create();
    bool end;
    events_begin(events, PLAN);
    struct event_stream *stream = open_stream(events, 0);
    progress(events, "a", 0);
    progress(events, "b", 0);
    progress(events, "c", 0);
    uint64_t second = id_of(read_all(stream, 4096, &end), 2); /* behind the opening and "a" */
    event_stream_close(stream);
    progress(events, "d", 0);
    stream = open_stream(events, second);
    const char *text = read_all(stream, 4096, &end);
    cr_expect_eq(count(text, "id: "), 2, "%s", text);
    cr_expect_null(strstr(text, "\"b\""), "%s", text);
    cr_expect(strstr(text, "\"c\"") != NULL && strstr(text, "\"d\"") != NULL, "%s", text);
    event_stream_close(stream);
    events_leave(events, PLAN);
    events_destroy(events);
}

Test(events, what_is_lost_is_summed_up)
{
    struct events *events = events_create();
    bool end;
    events_begin(events, PLAN);
    struct event_stream *stream = open_stream(events, 0);
    uint64_t first = id_of(read_all(stream, 4096, &end), 0);
    for (int i = 0; i < SPD_EVENT_RING + 3; i++)
        progress(events, i % 2 == 0 ? "even" : "odd", 0);
    const char *text = read_all(stream, 4096, &end);
    cr_expect_eq(count(text, "id: "), 1, "%s", text);
    cr_expect_gt(id_of(text, 0), first);
    cr_expect_not_null(strstr(text, "\"even\""), "%s", text);
    event_stream_close(stream);
    stream = open_stream(events, first); /* not there any more */
    text = read_all(stream, 4096, &end);
    cr_expect_eq(count(text, "id: "), 1, "%s", text);
    event_stream_close(stream);
    events_leave(events, PLAN);
    events_destroy(events);
}

/* The last event of a plan that ended so, as a stream gets it; static. */
static const char *last_of(const struct plan_row *row)
{
    struct events *events = events_create();
    bool end;
    events_begin(events, PLAN);
    struct event_stream *stream = open_stream(events, 0);
    (void)read_all(stream, 4096, &end);
    events_end(events, PLAN, row);
    events_end(events, PLAN, row); /* told twice, sent once */
    progress(events, "late", 0);
    const char *text = read_all(stream, 4096, &end);
    cr_expect(end);
    cr_expect_eq(count(text, "id: "), 1, "%s", text);
    cr_expect_eq(id_of(text, 0), EVENT_LAST);
    event_stream_close(stream);
    cr_expect_eq(events_count(events), 0);
    events_destroy(events);
    return text;
}

Test(events, each_end_is_told_once)
{
    static char error[] = "{\"status\":422,\"code\":\"DOES_NOT_FIT\"}";
    const struct plan_row done = {.id = PLAN, .state = PLAN_SUCCEEDED, .has_result = true};
    const struct plan_row failed = {.id = PLAN, .state = PLAN_FAILED, .error = error};
    cr_expect_not_null(strstr(last_of(&done), "event: done\ndata: {\"state\":\"succeeded\",\"has_result\":true}\n\n"));
    cr_expect_not_null(strstr(last_of(&failed), "event: error\ndata: {\"status\":422,\"code\":\"DOES_NOT_FIT\"}\n\n"));
    cr_expect_not_null(strstr(last_of(NULL), "event: error\ndata: {\"status\":404,"));
}

Test(events, a_daemon_that_stops_says_so)
{
    struct events *events = events_create();
    struct event_stream *stream = open_stream(events, 0);
    struct problem problem = {0};
    bool end;
    (void)read_all(stream, 4096, &end);
    events_close(events);
    const char *text = read_all(stream, 4096, &end);
    cr_expect_str_eq(text, "retry: 2000\n: the service is stopping\n\n");
    cr_expect(end);
    cr_expect_null(events_open(events, NULL, &queued, 0, &problem));
    cr_expect_str_eq(problem.code, "STOPPING");
    event_stream_close(stream);
    events_destroy(events);
}

static void note_plan(void *context, const char *plan)
{
    cr_expect_str_eq(plan, PLAN);
    ++*(unsigned *)context;
}

Test(events, only_what_somebody_needs_is_kept)
{
    struct events *events = events_create();
    unsigned all = 0, elsewhere = 0;
    bool end;
    struct event_stream *stream = open_stream(events, 0);
    events_watched(events, false, note_plan, &all);
    events_watched(events, true, note_plan, &elsewhere);
    cr_expect(all == 1 && elsewhere == 0, "a queued plan runs nowhere: %u, %u", all, elsewhere);
    progress(events, "search", 0);
    events_watched(events, true, note_plan, &elsewhere);
    cr_expect_eq(elsewhere, 1);
    (void)read_all(stream, 4096, &end);
    event_stream_close(stream);
    all = 0;
    events_watched(events, false, note_plan, &all);
    cr_expect_eq(all, 0);
    events_destroy(events);
}
