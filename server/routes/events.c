#include <stdlib.h>
#include <string.h>

#include "http/respond.h"
#include "jobs/events.h"
#include "jobs/jobs.h"
#include "routes/routes.h"
#include "store/store.h"
#include "util/text.h"

/* GET /v1/plans/{id}/events: see jobs/events.h for what is told. */

static const char type[] = "text/event-stream";

static ssize_t read_stream(void *context, uint64_t position, char *bytes, size_t size)
{
    (void)position;
    ssize_t got = event_stream_read(context, bytes, size);
    return got < 0 ? MHD_CONTENT_READER_END_OF_STREAM : got;
}

static void close_stream(void *context)
{
    event_stream_close(context);
}

/* What a browser's EventSource sends when it comes back; 0 without it, or when it is none of ours. */
static uint64_t last_event_id(const struct request *request)
{
    const char *header = request_header(request, "Last-Event-ID");
    int64_t id;
    return header != NULL && text_to_int(header, 1, (int64_t)EVENT_LAST, &id) ? (uint64_t)id : 0;
}

/* The plan has finished: its last event, or to a client that has it already, 204, after which browsers ask no more. */
static enum verdict answer_finished(struct request *request, const struct plan_row *row, uint64_t last_id)
{
    struct sp_buf buf;
    if (last_id == EVENT_LAST)
        return respond_empty(request, 204);
    char *text = events_last_text(row);
    sp_buf_init(&buf, 64 * 1024);
    sp_buf_printf(&buf, "retry: %d\n\n", SPD_EVENT_RETRY_MS);
    if (text != NULL)
        sp_buf_text(&buf, text);
    else
        buf.failed = true;
    free(text);
    return respond_buf(request, 200, type, &buf);
}

static enum verdict answer_stream(struct request *request, const struct plan_row *row, uint64_t last_id)
{
    struct problem problem = {0};
    if (!request_charge(request, ACCOUNT_STREAMS, 1, &problem))
        return respond_problem(request, &problem);
    struct event_stream *stream = events_open(jobs_events(request->server->jobs), request->connection, row,
                                              last_id < EVENT_LAST ? last_id : 0, &problem);
    if (stream == NULL)
        return respond_problem(request, &problem);
    jobs_look(request->server->jobs, row->id); /* it may have finished since it was looked up */
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, SPD_STREAM_BYTES, read_stream, stream, close_stream);
    if (response == NULL)
        close_stream(stream);
    return respond_with(request, 200, type, response);
}

enum verdict plan_events_finish(struct request *request)
{
    struct plan_row row;
    if (request_accepts(request, type) == 0)
        return respond_error(request, 406, "NOT_ACCEPTABLE", "This path answers text/event-stream.");
    enum store_found found = store_get_plan(request->server->store, request_view(request), request->id, &row);
    if (found != STORE_DONE)
        return found == STORE_NOT_FOUND ? plan_missing(request) : store_is_away(request);
    uint64_t last_id = last_event_id(request);
    request_add_header(request, "Cache-Control", "no-store");
    request_add_header(request, "X-Accel-Buffering", "no");
    bool open = row.state == PLAN_QUEUED || row.state == PLAN_RUNNING;
    enum verdict verdict = open ? answer_stream(request, &row, last_id) : answer_finished(request, &row, last_id);
    store_release_plan(&row);
    return verdict;
}
