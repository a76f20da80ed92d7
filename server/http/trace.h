#pragma once
/*
 * trace - W3C trace context: which larger piece of work a request belongs to.
 *
 * `traceparent: 00-<32 hexadecimal digits: trace>-<16: the caller's span>-<2: flags>` in small letters. A request with
 * a sound header goes on with the caller's trace, any other one begins a new trace; both get a span of their own. Trace
 * and span are in every log line about the request and in its problems.
 */
#include <stdbool.h>

struct request;

/* The trace of a header's value: 33 bytes with the NUL. False for what the standard calls invalid: the version ff, a
   version 00 with more behind it, capitals, wrong lengths, nothing but zeros. */
bool trace_parse(const char *traceparent, char ret_trace[33]);

/* Fills the request's trace_id and span_id. */
void trace_take(struct request *request);
