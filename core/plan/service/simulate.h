#pragma once
/*
 * simulate - a plan for a service, as its JSON has it, with requests one by one (service/simulation.h): what the means of
 * the plan leave out, which are percentiles.
 *
 * The plan alone is read, not the model: "times" of its "service" has what prompts and steps of many sizes take, and
 * "workload" of its options how long requests are, where no trace says so. A language model runs prompts and steps in
 * turn on each copy, with as many sequences in flight as memory and limits of the plan allow. Of phases of any model each
 * request keeps a copy for the runs that it needs, one request behind the other, as in service/phases.h.
 *
 * Requests come as in a trace; or at random, at a rate; or, without a rate, one behind each that ends. Of requests that
 * are drawn the first tenth and more is not counted, so that the service is at work by then (service/simulation.h), and
 * in a closed loop the first ones have a random part of their output left. With them the means of the formulas (service/open_loop.h, service/generation.h) are given beside those of the events.
 */
#include <jansson.h>

#include "base/buf.h"
#include "base/cancel.h"
#include "base/json_writer.h"
#include "service/generation.h"
#include "service/simulation.h"
#include "service/trace.h"

#define SP_SIMULATED_REQUESTS    10000   /* that are counted, when nothing is said */
#define SP_MAX_SIMULATED_COUNTED 1000000 /* of drawn ones */

struct sp_simulate_question {
    const json_t *plan;           /* what sp_plan_write_json() wrote */
    const struct sp_trace *trace; /* or NULL: requests are drawn */
    double rate;                  /* requests a second; 0: that of the plan's workload, and without one a closed loop */
    bool is_closed_loop;          /* whatever the plan's workload says */
    int64_t requests;             /* counted; 0: SP_SIMULATED_REQUESTS. Not read with a trace */
    int64_t concurrency; /* in flight on all copies, at most; of a closed loop: at any time. 0: as the plan says */
    uint64_t seed;
    enum sp_simulated_balance balance;
    const struct sp_watch *watch; /* or NULL */
};

enum sp_arrivals { SP_ARRIVALS_TRACE, SP_ARRIVALS_POISSON, SP_ARRIVALS_CLOSED };

struct sp_simulated_service {
    const char *plan; /* its id, or NULL */
    enum sp_arrivals arrivals;
    bool is_llm;
    uint32_t copies, requests; /* counted */
    int64_t concurrency;       /* in flight at most, or in a closed loop at any time */
    uint64_t seed;
    double rate;           /* that came, a second; 0: a closed loop */
    double window_seconds; /* service/simulation.h */
    double requests_per_second, tokens_per_second;
    struct sp_percentiles ttft_seconds, tpot_seconds, request_seconds, queue_seconds;
    struct sp_simulated_level waiting, in_flight;
    bool has_formula; /* of drawn requests of a language model */
    struct sp_generation_figures formula;
};

/* SP_ERR_REQUEST: "PLAN_WITHOUT_SERVICE", or the place in the plan that is not as a plan has it; and those of
   sp_simulate(). */
enum sp_status sp_service_simulate(struct sp_arena *arena, const struct sp_simulate_question *question,
                                   struct sp_simulated_service *ret_simulated, struct sp_error *err);

/* One object. */
void sp_simulated_write_json(const struct sp_simulated_service *simulated, struct sp_json *json);

/* For people. */
void sp_simulated_write_text(const struct sp_simulated_service *simulated, struct sp_buf *buf);
