#pragma once
/*
 * requests - requests that are drawn: when they come, and how long their inputs and outputs are.
 *
 * Times between requests are exponential, so that they come at random (Poisson). Lengths are whole numbers of tokens, 1
 * or more: one of those that were observed, each as often as any other; or log-normal, of their mean and variation, which
 * is the mean itself where the variation is 0. The same requests follow from the same seed.
 */
#include "service/lengths.h"
#include "service/trace.h"

struct sp_request_source {
    double rate; /* requests a second; 0: all come at 0 seconds */
    struct sp_lengths input, output;
    uint64_t seed;
};

/* `count` requests, in the order of their times, into the caller's array. */
void sp_draw_requests(const struct sp_request_source *source, uint32_t count, struct sp_trace_request *requests);
