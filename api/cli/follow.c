/* Waiting for a plan on a server: its events where it sends some, else by asking again and again. */
#include <stdio.h>
#include <string.h>

#include "client.h"
#include "events.h"

#define POLL_FIRST_SECONDS 0.1
#define POLL_LAST_SECONDS  1.0
#define MAX_BROKEN         3 /* streams of events in a row without one; then it is asked instead */
#define MAX_PATH           256

/* A stream of events while it runs. */
struct stream {
    struct follow *follow;
    bool is_final, had_any;
};

enum sp_status client_cancel(struct client *client, const char *id, struct answer *answer, struct sp_error *err)
{
    char path[MAX_PATH];
    sig_atomic_t number = interrupted;
    interrupted = 0; /* or the call would end at once */
    (void)snprintf(path, sizeof path, "/v1/plans/%s/cancel", id);
    const struct call call = {.method = "POST", .path = path};
    enum sp_status status = client_ask(client, &call, answer, err);
    if (interrupted == 0)
        interrupted = number;
    return status;
}

/* ---- states ---- */

static bool is_open(const char *state)
{
    return strcmp(state, "queued") == 0 || strcmp(state, "running") == 0;
}

static bool read_state(const struct answer *answer, char *state, size_t size)
{
    return json_member_word(answer->body.data, answer->body.size, "state", state, size);
}

static enum sp_status no_state(struct sp_error *err)
{
    return sp_fail(err, SP_ERR_IO, "SERVER_ERROR", "The server's answer does not say how the plan stands.");
}

enum sp_status client_judge(struct client *client, const struct answer *answer, bool *ret_done, struct sp_error *err)
{
    const char *problem;
    size_t size;
    char state[32];
    *ret_done = false;
    if (!read_state(answer, state, sizeof state))
        return no_state(err);
    if (is_open(state))
        return SP_OK;
    if (strcmp(state, "succeeded") == 0) {
        *ret_done = true;
        return SP_OK;
    }
    if (strcmp(state, "cancelled") == 0)
        return sp_fail(err, SP_ERR_CANCELLED, "CANCELLED", "The plan was cancelled on the server.");
    if (!json_member(answer->body.data, answer->body.size, "error", &problem, &size))
        size = 0;
    return client_problem_text(client, 0, problem, size, err);
}

/* `text` is an object with the members of a plan's progress. */
static void tell(const struct follow *follow, const char *event, const char *text, size_t size)
{
    char phase[32];
    if (json_member_word(text, size, "phase", phase, sizeof phase))
        progress_draw(follow->progress, phase, json_member_number(text, size, "fraction"),
                      json_member_number(text, size, "best_seconds"),
                      json_member_number(text, size, "lower_bound_seconds"));
    if (follow->tell != NULL)
        follow->tell(follow->context, event, text, size);
}

/* ---- events ---- */

static bool take_event(void *context, const char *name, const char *data, size_t size)
{
    struct stream *stream = context;
    stream->had_any = true;
    if (strcmp(name, "done") == 0 || strcmp(name, "error") == 0)
        stream->is_final = true;
    else if (strcmp(name, "progress") == 0 || strcmp(name, "improved") == 0)
        tell(stream->follow, name, data, size);
    return !stream->is_final;
}

/* Listens until the last event. *ret_unknown: the server has no events. A stream that breaks is no error: the plan says
   how it stands, and the next stream begins behind the last event that came. */
static enum sp_status listen_once(struct client *client, const char *id, struct follow *follow, struct events *events,
                                  bool *ret_unknown, struct sp_error *err)
{
    struct answer answer;
    char path[MAX_PATH];
    struct stream *stream = events->context;
    (void)snprintf(path, sizeof path, "/v1/plans/%s/events", id);
    events_restart(events);
    const struct call call = {
        .method = "GET",
        .path = path,
        .accept = "text/event-stream",
        .last_event = events->id[0] != '\0' ? events->id : NULL,
        .take = events_feed,
        .context = events,
        .progress = follow->progress,
    };
    enum sp_status status = client_call(client, &call, &answer, err);
    *ret_unknown = false;
    if (status == SP_OK && answer.status != 200 && answer.status != 204) { /* 204: the last one came before */
        *ret_unknown = answer.status == 404 || answer.status == 405 || answer.status == 406 || answer.status == 501;
        if (!*ret_unknown)
            status = client_problem(client, &answer, err);
    } else if (status != SP_OK && (stream->is_final || (status == SP_ERR_IO && answer.status == 200))) {
        sp_error_clear(err);
        status = SP_OK;
    }
    sp_buf_release(&answer.body);
    return status;
}

/* ---- the plan ---- */

static enum sp_status look(struct client *client, const char *id, struct follow *follow, struct answer *answer,
                           bool *ret_finished, struct sp_error *err)
{
    char path[MAX_PATH], state[32];
    (void)snprintf(path, sizeof path, "/v1/plans/%s", id);
    const struct call call = {.method = "GET", .path = path, .progress = follow->progress};
    enum sp_status status = client_ask(client, &call, answer, err);
    if (status != SP_OK)
        return status;
    if (!read_state(answer, state, sizeof state))
        return no_state(err);
    *ret_finished = !is_open(state);
    return SP_OK;
}

static void tell_progress(const struct follow *follow, const struct answer *answer)
{
    const char *member;
    size_t size;
    if (json_member(answer->body.data, answer->body.size, "progress", &member, &size))
        tell(follow, "progress", member, size);
}

/* Nobody waits any longer, or the first of two interrupts: whether the wait goes on for what was found. */
static bool give_up(struct client *client, const char *id, struct follow *follow, struct sp_error *err)
{
    struct answer answer;
    if (!follow->cancels || follow->was_cancelled || (!interrupted && !follow->progress->timed_out))
        return false;
    const bool goes_on = interrupted != 0;
    follow->signal = interrupted;
    progress_clear(follow->progress);
    enum sp_status status = client_cancel(client, id, &answer, NULL);
    sp_buf_release(&answer.body);
    follow->was_cancelled = true;
    if (!goes_on || status != SP_OK)
        return false;
    print_note("the plan is being cancelled; a second interrupt leaves at once");
    interrupted = 0;
    sp_error_clear(err);
    return true;
}

enum sp_status client_follow(struct client *client, const char *id, struct follow *follow, struct answer *answer,
                             struct sp_error *err)
{
    struct stream stream = {.follow = follow};
    struct events events;
    double wait = POLL_FIRST_SECONDS;
    unsigned broken = 0;
    bool finished = false;
    *answer = (struct answer){0};
    sp_buf_init(&answer->body, CLI_MAX_TEXT_BYTES);
    events_init(&events, take_event, &stream);
    for (;;) {
        bool unknown = false;
        enum sp_status status = SP_OK;
        stream.had_any = false;
        if (broken < MAX_BROKEN)
            status = listen_once(client, id, follow, &events, &unknown, err);
        if (unknown)
            broken = MAX_BROKEN;
        else
            broken = stream.had_any ? 0 : broken + (broken < MAX_BROKEN);
        sp_buf_release(&answer->body);
        if (status == SP_OK)
            status = look(client, id, follow, answer, &finished, err);
        if (status == SP_ERR_CANCELLED && give_up(client, id, follow, err))
            continue;
        if (status != SP_OK || finished) {
            events_release(&events);
            return status;
        }
        tell_progress(follow, answer);
        pause_seconds(wait);
        wait = wait * 2 < POLL_LAST_SECONDS ? wait * 2 : POLL_LAST_SECONDS;
    }
}
