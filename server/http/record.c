#include "http/record.h"

#include <string.h>

#include "observe/metrics.h"

static const char *method_of(const struct request *request)
{
    return request->route != NULL ? request->route->method : "other";
}

void record_began(struct request *request)
{
    if (request->route == NULL || request->in_flight)
        return;
    request->in_flight = true;
    metrics_request_began(request->server->metrics, method_of(request), record_route(request));
}

/* Probes come every few seconds for ever: of those that went well there is nothing to say. */
static enum log_level level_of(const struct request *request)
{
    static const char *const probes[] = {"/livez", "/readyz", "/metrics"};
    if (request->status >= 500)
        return LOG_WARNING;
    for (size_t i = 0; i < sizeof probes / sizeof probes[0] && request->status < 400; i++) {
        if (strcmp(record_route(request), probes[i]) == 0)
            return LOG_DEBUG;
    }
    return LOG_INFO;
}

void record_ended(struct request *request, bool broken)
{
    struct metrics *metrics = request->server->metrics;
    uint64_t elapsed = server_now_ms() - request->started_ms;
    const char *method = method_of(request), *route = record_route(request);
    if (request->in_flight)
        metrics_request_ended(metrics, method, route);
    metrics_request(metrics, method, route, request->status, (double)elapsed / 1000);
    /* The path comes last: it may be so long that nothing behind it would fit. */
    LOG_REQUEST(level_of(request), broken ? "request broken off" : "request", request,
                log_s("method", request->method != NULL ? request->method : "?"), log_i("status", request->status),
                log_i("ms", (int64_t)elapsed), log_i("bytes_in", (int64_t)request->received),
                log_s("path", request->uri));
}

/* Why somebody was not let in, or NULL where that is not the matter. */
static const char *refusal(const struct request *request, const struct problem *problem)
{
    static const struct {
        const char *code, *reason;
    } reasons[] = {{"INSUFFICIENT_SCOPE", "scope"}, {"ORIGIN_REFUSED", "origin"}, {"HOST_REFUSED", "host"}};
    if (problem->status == 401)
        return request_header(request, "Authorization") != NULL ? "wrong" : "missing";
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        if (strcmp(problem->code, reasons[i].code) == 0)
            return reasons[i].reason;
    }
    return NULL;
}

void record_problem(struct request *request, const struct problem *problem)
{
    struct metrics *metrics = request->server->metrics;
    const char *reason = refusal(request, problem);
    if (reason != NULL)
        metrics_auth_failed(metrics, reason);
    else if (request->body_kind == BODY_MODEL)
        metrics_upload_refused(metrics, problem->code);
    if (problem->status >= 500)
        LOG_REQUEST(problem->status == 503 ? LOG_WARNING : LOG_ERROR, "request failed", request,
                    log_s("code", problem->code), log_s("detail", problem->detail));
}
