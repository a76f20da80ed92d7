#pragma once
/*
 * record - what is logged and counted of every request.
 *
 * LOG_REQUEST writes an event with everything that tells which request it is about, then the fields that are given.
 */
#include <stdbool.h>

#include "http/request.h"
#include "observe/log.h"

/* The pattern of the route, "none" before one is found or where there is none. */
static inline const char *record_route(const struct request *request)
{
    return request->route != 0 ? request->route->pattern : "none";
}

#define LOG_REQUEST(level, event, request, ...)                                                                        \
    LOG(level, event, log_s("request_id", (request)->request_id), log_maybe("trace_id", (request)->trace_id),          \
        log_maybe("span_id", (request)->span_id), log_maybe("principal", (request)->principal.name),                   \
        log_maybe("tenant", (request)->principal.tenant),                                                              \
        log_s("route", record_route(request)) __VA_OPT__(, ) __VA_ARGS__)

/* The request has found its route: it is in flight from here on. */
void record_began(struct request *request);

/* It is over. `broken`: the client left, or the answer could not be sent whole. */
void record_ended(struct request *request, bool broken);

/* It is answered with this problem. */
void record_problem(struct request *request, const struct problem *problem);
