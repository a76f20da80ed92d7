#pragma once
/*
 * traffic - what a service is asked: the member "workload" of a request, and the file of `plan --workload`.
 *
 * For a language model, whose requests have one prefill and then decode steps:
 *
 *     {"llm": {"input": LENGTHS, "output": LENGTHS, "shared_prefix": N},
 *      "concurrency": N or "best", "rate_per_second": R, "budget_per_hour": D,
 *      "pools": "shared", "separate" or "best", "chunked_prefill": N or "best",
 *      "limits": {"ttft_seconds", "tpot_seconds", "request_seconds"},
 *      "symbols": {"batch": NAME, "positions": NAME, "past": NAME, "total": NAME}}
 *
 * and for any model, phases that share one placement of the weights:
 *
 *     {"phases": [{"name": "bulk", "dims": {"batch": 32}, "values": {}, "share": 0.2, "per_request": 1, "requests": 1},
 *                 {"name": "open", "batch": "best"}],
 *      "batch": "best", "rate_per_second": R, "limits": {"request_seconds": S}, "symbols": {"batch": NAME}}
 *
 *   LENGTHS      tokens: a number, a list of observed ones, or {"mean": M, "p90": N} with one percentile (p51 to p99);
 *                service/lengths.h
 *   shared_prefix  tokens of each input that are in the cache already, because other requests have the same
 *   concurrency  sequences in flight, on all devices together. "best": as many as give most within the limits. Without it
 *                the fewest that serve the rate; without a rate "best"
 *   pools        whether prompts and decode steps share the devices, have devices of their own (service/pools.h), or
 *                whichever the objective prefers; shared when not given
 *   chunked_prefill  positions of prompts that one step has at most, beside the tokens of the sequences in flight
 *                (service/chunked.h). "best": none, or one of a few numbers, whichever the objective prefers. Without it a
 *                prompt runs at once, and the sequences in flight wait
 *   rate         requests a second that come at random. Without it a request follows each that ends
 *   budget       US dollars an hour for all devices that are used, at most
 *   limits       of means; a plan that does not keep them is none
 *   symbols      dimensions as plan/sizes/sizes.h names them; those that are not given follow from the model's inputs
 *                (symbols.h)
 *   share        of the requests, which need this phase; 1 when not given
 *   per_request  runs of the phase that such a request needs; 1 when not given
 *   requests     that one run serves; 1 when not given. They wait until they are so many
 *   batch        "best": the planner chooses the batch of a phase's runs, each element of which is a request
 *                (plan/service/batches.h). Of the workload it is said of all phases whose dims do not bind it. Of a language
 *                model it is the same as the best concurrency
 *
 * `expert_load` and `expert_order` may stand in both forms (expert_load.h). `state` may, too, with pairs of names as in plan/sizes/given_states.h: it is that of the options. Unknown members,
 * wrong types and numbers out of range are SP_ERR_REQUEST with a JSON pointer.
 */
#include <jansson.h>

#include "base/json_writer.h"
#include "plan/sizes/sizes.h"
#include "service/lengths.h"

#define SP_MAX_PHASES          64
#define SP_MAX_LENGTHS         65536               /* of a list */
#define SP_MAX_TOKENS          ((double)(1 << 24)) /* of an input or an output */
#define SP_MAX_CONCURRENCY     (1 << 20)
#define SP_MAX_CHUNK           (1 << 20)
#define SP_MAX_TRAFFIC_SECONDS 1e9 /* of a limit */

/* Phases of any model. */
struct sp_traffic_phase {
    const char *name;
    struct sp_sizes sizes; /* dims and values alone */
    double share, per_request, requests;
    bool best_batch;     /* the batch is left to the planner, unless dims bind it */
    bool is_batch_given; /* of this phase, in place of all of them */
};

enum sp_traffic_symbol { SP_SYMBOL_BATCH, SP_SYMBOL_POSITIONS, SP_SYMBOL_PAST, SP_SYMBOL_TOTAL, SP_SYMBOL_COUNT };

enum sp_traffic_pools { SP_POOLS_SHARED, SP_POOLS_SEPARATE, SP_POOLS_BEST };

/* 0: there is none. */
struct sp_traffic_limits {
    double ttft_seconds, tpot_seconds, request_seconds;
};

struct sp_traffic {
    bool is_llm;
    struct sp_lengths input, output; /* with is_llm */
    double shared_prefix;
    const char *symbols[SP_SYMBOL_COUNT]; /* NULL: as the model's inputs say; of phases the batch alone */
    uint32_t phase_count;                 /* without is_llm */
    const struct sp_traffic_phase *phases;
    int64_t concurrency; /* 0: not given */
    bool best_concurrency;
    enum sp_traffic_pools pools;
    int64_t chunk; /* positions of chunked prefill; 0: none is given */
    bool best_chunk;
    double rate_per_second; /* 0: none */
    double budget_per_hour; /* 0: none */
    struct sp_traffic_limits limits;
    const struct sp_given_states *states; /* or NULL */
    const struct sp_given_loads *loads;   /* of experts, or NULL */
    const char *text;                     /* canonical JSON */
};

/* `pointer` is that of `given`, for errors' `where`. Everything is in `arena`. */
enum sp_status sp_traffic_parse(struct sp_arena *arena, const json_t *given, const char *pointer,
                                const struct sp_traffic **ret_traffic, struct sp_error *err);

/* As it was given, with members by name. */
void sp_traffic_write(const struct sp_traffic *traffic, struct sp_json *json);

/* "batch", "positions", "past", "total"; static. */
const char *sp_traffic_symbol_name(enum sp_traffic_symbol symbol);
