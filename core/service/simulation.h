#pragma once
/*
 * simulation - a service as events: requests that come, wait, are computed and end, one by one.
 *
 * Model. Equal copies of a model serve requests. A copy does one thing at a time: the prompt of the request that has
 * waited longest, where one waits and there is a place for it, else a decode step of all sequences in flight, else
 * nothing. What began is not interrupted.
 *
 *   prompt   keeps the copy for its interval; after its latency the first token is there, and the sequence takes part in
 *            the steps that begin from then on
 *   step     one token of each sequence in flight (service/step_times.h): its seconds follow from how many these are, and
 *            from how long their caches are by then
 *   chunks   where the times have them, a prompt does not keep the copy: each step has a chunk beside the sequences in
 *            flight, of the prompt that has begun and then of those that have waited longest, and the first token is there
 *            with the step of the last one
 *   place    so many sequences at most are in flight on a copy
 *
 * Nothing of that is a mean: what service/generation.h says in the mean follows from it, and its error with it.
 *
 * Requests come at times of their own (an *open loop*: drawn, or of a trace), or each when another one ends (a *closed
 * loop*, whose first ones come at 0). A new request goes to the copy that has the fewest requests, the first of these, or
 * to a random one.
 *
 * Counted are requests first to first + count - 1, in the order in which they come; those before bring the service to
 * work, and those behind keep it there. The *window*, of which rates and means over time are, is from when the first
 * counted request comes to when the last one ends.
 *
 * The same events follow from the same requests and seed, on every machine.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/cancel.h"
#include "base/error.h"
#include "service/percentiles.h"
#include "service/step_times.h"

#define SP_MAX_SIMULATED_REQUESTS (1u << 21)
#define SP_MAX_SIMULATED_EVENTS   (INT64_C(1) << 28) /* prompts, steps and arrivals */

struct sp_simulated_request {
    double arrival;                           /* seconds; in a closed loop not read */
    double input;                             /* positions that are in its cache behind its prompt */
    uint32_t output;                          /* tokens, 1 or more; the prompt makes the first */
    double latency_seconds, interval_seconds; /* of its prompt, latency >= interval */
    double positions;                         /* that its prompt computes, at most `input`; only read for chunks */
};

enum sp_simulated_balance { SP_BALANCE_FEWEST, SP_BALANCE_RANDOM };

struct sp_simulation {
    const struct sp_step_times *times; /* prompts are not read: requests have their own */
    uint32_t copies, places;           /* 1 or more; places on each copy */
    enum sp_simulated_balance balance;
    uint64_t seed;        /* of the balance */
    uint32_t closed_loop; /* requests at any time, of all copies; 0: an open loop */
    uint32_t request_count;
    const struct sp_simulated_request *requests; /* in the order of their arrivals */
    uint32_t first, count;                       /* that are counted; count is 1 or more */
    const struct sp_watch *watch;                /* or NULL */
};

/* Of one request, in seconds after it came. */
struct sp_simulated_times {
    double prompt; /* its prompt begins */
    double first;  /* its first token is there */
    double end;    /* its last one */
};

/* A number that changes with time, over the window. */
struct sp_simulated_level {
    double mean;
    uint32_t most;
};

struct sp_simulated {
    const struct sp_simulated_times *times;       /* of the counted requests */
    double window_seconds;                        /* 0 where all came and ended at once */
    double ended, tokens;                         /* requests that ended in the window, and their output */
    struct sp_simulated_level waiting, in_flight; /* requests: before their prompts, and from then to their ends */
};

/* SP_ERR_LIMIT "SIMULATION_TOO_LONG", SP_ERR_CANCELLED, SP_ERR_MEMORY. */
enum sp_status sp_simulate(struct sp_arena *arena, const struct sp_simulation *simulation, struct sp_simulated *ret,
                           struct sp_error *err);
