#pragma once
/*
 * trace - requests that a server of language models got: when each came, and how long its prompt and its answer were.
 *
 * The text has a line of names, then one line for each request, with commas between the fields; empty lines and those
 * that begin with '#' say nothing. Three columns are read, by any of these names, and other columns are left alone:
 *
 *   seconds   seconds, time, timestamp, arrival, arrived_at
 *   input     input, input_tokens, input_length, contexttokens, request tokens, num_prefill_tokens
 *   output    output, output_tokens, output_length, generatedtokens, response tokens, num_decode_tokens
 *
 * Capital letters are as good as small ones. These are also the names of the traces that Azure (Patel et al., Splitwise,
 * ISCA 2024), BurstGPT (Wang et al., 2024) and Vidur (Agrawal et al., MLSys 2024) published. A time is a number of
 * seconds, or a date and a time of the day, 2023-11-16 18:17:03.9799600, from which seconds are counted. Requests need
 * not be in order; the first one comes at 0 seconds.
 *
 * A request whose answer has no tokens failed in the server, and is left out.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"

#define SP_MAX_TRACE_BYTES    ((size_t)256 << 20)
#define SP_MAX_TRACE_REQUESTS (1u << 20)
#define SP_MAX_TRACE_TOKENS   (1u << 24) /* of an input or an output */
#define SP_MAX_TRACE_COLUMNS  64
#define SP_MAX_TRACE_FIELD    64 /* bytes of a field that is read */
#define SP_MAX_TRACE_SECONDS  1e12

struct sp_trace_request {
    double seconds;         /* after the first one */
    uint32_t input, output; /* tokens, 1 or more */
};

struct sp_trace {
    uint32_t count;                          /* 1 or more */
    const struct sp_trace_request *requests; /* in the order in which they came */
};

/* SP_ERR_REQUEST "TRACE_INVALID", with the line in `where` and in the message; SP_ERR_LIMIT. */
enum sp_status sp_trace_parse(struct sp_arena *arena, const char *text, size_t size, struct sp_trace *ret_trace,
                              struct sp_error *err);
